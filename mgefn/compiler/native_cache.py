"""Object code kept on disk from one process to the next.

One file an entry, named by its key, in a folder of mode 0700: the folder `native` in
`MGEFN_CACHE_DIR`, or in this package's folder of the platform's cache directory. `MGEFN_CACHE=0`
turns it off. A folder that cannot be used (not writable, owned or writable by others) means no
cache, without a word: the cache only ever saves time.

Invariants: a file appears whole or not at all, by an atomic rename. It holds a checksum over its
key and contents, so that a damaged, cut or renamed file is removed and counts as absent. The folder
is bounded to LIMIT bytes; the entries used longest ago go first.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import stat
import sys
import tempfile
import time
from pathlib import Path

LIMIT = 512 << 20  # bytes of all entries
LOOK_EVERY = 256  # stores between two looks at the folder's size; the first store looks too
_DAY = 86400.0  # seconds; an entry's time of use is exact to a day, to save writes
_MAGIC = b"mgefn-obj-1\n"
_SUFFIX = ".o"

_stores = 0


def cache_home() -> Path:
    """The folder of this package's caches: MGEFN_CACHE_DIR, or the platform's place."""
    chosen = os.environ.get("MGEFN_CACHE_DIR")
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "mgefn"


def folder() -> Path | None:
    """Where entries lie, made if absent; None where the cache is off or cannot be used."""
    if os.environ.get("MGEFN_CACHE", "").strip().lower() in ("0", "off", "false", "no"):
        return None
    try:
        return _usable(cache_home() / "native")
    except (OSError, RuntimeError):  # RuntimeError: no home directory
        return None


@functools.cache
def _usable(path: Path) -> Path | None:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if hasattr(os, "geteuid"):
        info = path.stat()
        # Code is loaded from here: nobody else may have put it there.
        if info.st_uid != os.geteuid() or info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return None
    return path


def _checksum(key: str, code: bytes) -> bytes:
    return hashlib.sha256(key.encode("ascii") + code).digest()


def load(key: str) -> bytes | None:
    """The object code stored under a key (hexadecimal), or None if there is none that is whole."""
    place = folder()
    if place is None:
        return None
    path = place / (key + _SUFFIX)
    try:
        with open(path, "rb") as file:
            data = file.read()
            used = os.fstat(file.fileno()).st_mtime
    except OSError:
        return None
    head = len(_MAGIC) + 32
    code = data[head:]
    if data[: len(_MAGIC)] != _MAGIC or data[len(_MAGIC) : head] != _checksum(key, code):
        with contextlib.suppress(OSError):
            path.unlink()
        return None
    if time.time() - used > _DAY:
        with contextlib.suppress(OSError):
            os.utime(path)
    return code


def store(key: str, code: bytes) -> None:
    """Keep object code under a key; does nothing where that is not possible."""
    global _stores
    place = folder()
    if place is None:
        return
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=key[:16], suffix=".tmp", dir=place)
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + _checksum(key, code) + code)
        os.replace(temporary, place / (key + _SUFFIX))
    except OSError:  # a full disk, a folder removed meanwhile, a file open elsewhere (Windows)
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        return
    if _stores % LOOK_EVERY == 0:
        shrink(place)
    _stores += 1


def shrink(place: Path, limit: int | None = None) -> None:
    """Remove the entries used longest ago until at most `limit` bytes (LIMIT) are left.

    Temporary files older than a day go too: their writers have died.
    """
    bound = LIMIT if limit is None else limit
    entries: list[tuple[float, int, str]] = []
    try:
        with os.scandir(place) as files:
            for file in files:
                with contextlib.suppress(OSError):  # another process removes entries as well
                    info = file.stat()
                    if file.name.endswith(_SUFFIX):
                        entries.append((info.st_mtime, info.st_size, file.path))
                    elif file.name.endswith(".tmp") and time.time() - info.st_mtime > _DAY:
                        os.unlink(file.path)
    except OSError:
        return
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= bound:
            break
        with contextlib.suppress(OSError):
            os.unlink(path)
        total -= size
