"""What native code must know of this machine and this interpreter.

Nothing here loads LLVM. The offset of the data pointer within a NumPy array object is found by
looking, not taken from a header: `array_data_offset` compares the words of several array objects
with the addresses NumPy tells, and is None where they do not agree.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform

import numpy as np

from mgefn.config import config

_PROBED_BYTES = 64  # PyArrayObject holds `data` first after its object head, 16 to 32 bytes long


def _quota(group: str) -> float | None:
    """CPUs that the kernel grants a cgroup folder (version 2, then 1); None without a limit."""
    try:
        with open(os.path.join(group, "cpu.max"), encoding="ascii") as file:
            quota, period = file.read().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        pass
    try:
        with open(os.path.join(group, "cpu.cfs_quota_us"), encoding="ascii") as file:
            micros = int(file.read())
        with open(os.path.join(group, "cpu.cfs_period_us"), encoding="ascii") as file:
            return micros / int(file.read()) if micros > 0 else None
    except (OSError, ValueError, ZeroDivisionError):
        return None


def _cgroup_folders() -> list[str]:
    """Where limits of this process may stand: its own group, those above it, and the mount."""
    folders = ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu"]
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError:
        return folders
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "cpu", "cpu,cpuacct", "cpuacct,cpu"):
            base = folders[0] if controllers == "" else folders[1]
            path = path.strip("/")
            while path:
                folders.append(os.path.join(base, path))
                path = os.path.dirname(path)
    return folders


@functools.cache
def cpu_count() -> int:
    """CPUs this process may use: its affinity, bounded by the cgroup's CPU quota, at least 1."""
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    if os.path.isdir("/sys/fs/cgroup"):
        for folder in _cgroup_folders():
            quota = _quota(folder)
            if quota is not None:
                # Half a CPU more than a whole number is worth a thread; less is not.
                count = min(count, max(1, round(quota)))
    return max(1, count)


def thread_count() -> int:
    """Threads that share the work of a call: config.num_threads, or as many as CPUs."""
    return config.num_threads or cpu_count()


@functools.cache
def array_data_offset() -> int | None:
    """Bytes from the start of a NumPy array object to its data pointer, or None if not found."""
    if platform.python_implementation() != "CPython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    base = np.arange(64, dtype=np.uint8)
    arrays = [
        np.empty(3, np.float32),
        base,
        base[5:9],
        np.zeros((2, 3, 4), np.complex128),
        np.array(1.5),
        base[::-2],
        np.asfortranarray(np.ones((4, 5))),
    ]
    fits = set(range(0, _PROBED_BYTES, 8))
    for array in arrays:
        if object.__sizeof__(array) < _PROBED_BYTES:
            return None
        words = (ctypes.c_uint64 * (_PROBED_BYTES // 8)).from_address(id(array))
        address = array.ctypes.data
        fits &= {8 * i for i, word in enumerate(words) if word == address}
    return fits.pop() if len(fits) == 1 else None
