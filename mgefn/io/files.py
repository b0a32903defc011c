"""Trees in files: save and load, and flax's and equinox's names for the same.

A file is a safetensors file, which any reader of that format opens. Beside the arrays it holds a
description of the tree and a checksum (SHA-256) over everything. Reading one executes nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from mgefn import tree
from mgefn.errors import ArgumentError, FileFormatError, TreeError, api_boundary
from mgefn.io import safetensors
from mgefn.io.trees import decode, encode, into_target, key_text, one_level
from mgefn.numpy.creation import asarray

PathLike = str | os.PathLike[str]
FORMAT = 1


def _checksum(document: str, table: Any, blocks: Any) -> str:
    digest = hashlib.sha256(document.encode())
    digest.update(json.dumps(table, sort_keys=True).encode())
    for block in blocks:
        digest.update(block)
    return digest.hexdigest()


def pieces(obj: Any, info: Any = None, operation: str = "save") -> list[Any]:
    """A file as a list of bytes and views of the arrays' own memory."""
    spec, arrays = encode(obj, operation)
    table = safetensors.layout(arrays)
    views = safetensors.blocks(arrays, table)
    document = json.dumps({"format": FORMAT, "tree": spec, "info": info}, separators=(",", ":"))
    metadata = {"mgefn": document, "sha256": _checksum(document, table, views)}
    return [safetensors.header(table, metadata), *views]


def opened(data: Any, what: str) -> tuple[Any, Any]:
    """The tree of a file's bytes, and the `info` it was written with.

    Raises:
        FileFormatError: the bytes are not as they were written.
    """
    arrays, metadata = safetensors.parse(data, what)
    if not metadata.keys() & {"mgefn", "sha256"}:
        # Another program's file: a dict of arrays.
        return {name: asarray(a.copy()) for name, a in arrays.items()}, None
    table = safetensors.layout(arrays)
    views = safetensors.blocks(arrays, table)
    if _checksum(metadata.get("mgefn", ""), table, views) != metadata.get("sha256"):
        raise FileFormatError(
            f"{what}: the checksum must be that of the contents, and is not. The file was changed "
            "or damaged; use another copy."
        )
    document = json.loads(metadata["mgefn"])
    if document["format"] != FORMAT:
        raise FileFormatError(
            f"{what}: reads format {FORMAT}, got {document['format']}. Read it with the version of "
            "mgefn that wrote it."
        )
    return decode(document["tree"], arrays, what), document["info"]


@contextmanager
def replacing(path: PathLike) -> Iterator[IO[bytes]]:
    """A file to write that takes the place of `path` at the end, whole or not at all.

    It is written beside `path` under a name that begins with a dot and ends with `.part`, brought
    to the disk, and renamed. Whoever stops in between leaves `path` as it was.
    """
    path = Path(path)
    part = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        with open(part, "xb") as f:
            yield f
            f.flush()
            os.fsync(f.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    if hasattr(os, "O_DIRECTORY"):  # the rename itself must reach the disk too
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def write(path: PathLike, parts: list[Any]) -> None:
    with replacing(path) as f:
        f.writelines(parts)


@api_boundary
def save(obj: Any, f: PathLike | IO[bytes]) -> None:
    """Write a pytree to a file.

    Args:
        obj: a pytree; leaves are arrays of any dtype, random keys, numbers, texts.
        f: a path, or a file opened for writing bytes. A file at the path is replaced at the end,
            so that at every moment the path holds the old file or the new one, whole.

    Raises:
        ArgumentError: a leaf is something else, or two leaves have one name.

    Example:
        >>> import io
        >>> f = io.BytesIO()
        >>> mgefn.io.save({"w": mnp.ones(2), "name": "first"}, f)
        >>> mgefn.io.load(io.BytesIO(f.getvalue()))
        {'name': 'first', 'w': Array([1., 1.], dtype=float32)}
    """
    parts = pieces(obj)
    if hasattr(f, "write"):
        f.writelines(parts)  # type: ignore[union-attr]
    else:
        write(_path("save", f), parts)


@api_boundary
def load(f: PathLike | IO[bytes], target: Any = None, map_location: Any = None) -> Any:
    """Read what `save` wrote, or any safetensors file. Nothing in the file is executed.

    Args:
        f: a path, or a file opened for reading bytes.
        target: a tree of the same names, whose structure the result takes. Without it dataclasses
            and named tuples come back as dicts.
        map_location: accepted for other libraries' sake; arrays are always read to the host.

    Raises:
        FileFormatError: the file is damaged, or a leaf has another shape or dtype than in target.
        TreeError: the names differ from those of target.
    """
    if hasattr(f, "read"):
        data, what = f.read(), "load"  # type: ignore[union-attr]
    else:
        path = _path("load", f)
        data, what = path.read_bytes(), f"load({path.name})"
    loaded, _ = opened(data, what)
    return loaded if target is None else into_target(target, loaded, what)


def _path(operation: str, f: Any) -> Path:
    if not isinstance(f, (str, os.PathLike)):
        raise ArgumentError(
            f"{operation}: needs a path or an open file, got {type(f).__name__}. Pass a text or a "
            "pathlib.Path."
        )
    return Path(f)


@api_boundary
def to_bytes(target: Any) -> bytes:
    """A pytree as the bytes of a file.

    Example:
        >>> mgefn.io.from_bytes({"w": 0}, mgefn.io.to_bytes({"w": 3}))
        {'w': 3}
    """
    return b"".join(pieces(target, operation="to_bytes"))


@api_boundary
def from_bytes(target: Any, encoded_bytes: bytes) -> Any:
    """The tree in the bytes of a file, in the structure of `target` unless that is None."""
    if not isinstance(encoded_bytes, (bytes, bytearray, memoryview)):
        raise ArgumentError(
            f"from_bytes: needs bytes, got {type(encoded_bytes).__name__}. Pass to_bytes(tree)."
        )
    loaded, _ = opened(encoded_bytes, "from_bytes")
    return loaded if target is None else into_target(target, loaded, "from_bytes")


@api_boundary
def to_state_dict(target: Any) -> Any:
    """A tree as nested dicts with texts as keys, leaves as they are.

    Example:
        >>> mgefn.io.to_state_dict({"layers": [1.0, (2.0, None)]})
        {'layers': {'0': 1.0, '1': {'0': 2.0, '1': None}}}
    """
    pairs = None if target is None else one_level(target)
    if pairs is None:
        return target
    return {key_text(step): to_state_dict(child) for step, child in pairs}


@api_boundary
def from_state_dict(target: Any, state: Any, name: str = ".") -> Any:
    """The leaves of nested dicts in the structure of `target`.

    Args:
        target: a tree.
        state: what `to_state_dict` gives for a tree of that structure.
        name: what errors call the root.

    Raises:
        TreeError: the keys differ.
    """
    pairs = None if target is None else one_level(target)
    if pairs is None:
        return state
    keys = [key_text(step) for step, _ in pairs]
    if not isinstance(state, dict) or set(state) != set(keys):
        got = sorted(map(str, state)) if isinstance(state, dict) else type(state).__name__
        raise TreeError(
            f"from_state_dict: {name} must be a dict with the keys {keys}, got {got}. Make it with "
            "to_state_dict of a tree like the target."
        )
    children = [
        from_state_dict(child, state[k], f"{name}/{k}")
        for k, (_, child) in zip(keys, pairs, strict=True)
    ]
    _, treedef = tree.flatten(target, is_leaf=lambda child: child is not target)
    return tree.unflatten(treedef, children)


@api_boundary
def tree_serialise_leaves(path_or_file: PathLike | IO[bytes], pytree: Any) -> None:
    """Write the leaves of a tree to a file; see `save`."""
    save(pytree, path_or_file)


@api_boundary
def tree_deserialise_leaves(path_or_file: PathLike | IO[bytes], pytree: Any) -> Any:
    """Read the leaves that `tree_serialise_leaves` wrote into the structure of `pytree`."""
    return load(path_or_file, target=pytree)


@api_boundary
def load_arrays(path: PathLike) -> dict[str, np.ndarray]:
    """The arrays of a .safetensors, .npz or .npy file as NumPy arrays; no pickles.

    Raises:
        FileFormatError: the file is damaged or of another format.
    """
    path = _path("load_arrays", path)
    if path.suffix not in (".npz", ".npy"):
        return safetensors.parse(path.read_bytes(), f"load_arrays({path.name})")[0]
    try:
        found = np.load(path, allow_pickle=False)
        if isinstance(found, np.ndarray):
            return {path.stem: found}
        with found:
            return {name: found[name] for name in found.files}
    except (ValueError, EOFError, OSError) as exc:
        if isinstance(exc, FileNotFoundError):
            raise
        raise FileFormatError(
            f"load_arrays: needs arrays without pickles, got {path.name} ({exc}). Write it with "
            "numpy.savez, or use another copy."
        ) from None
