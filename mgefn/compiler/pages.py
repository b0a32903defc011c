"""Which pages new memory is made of: large ones (2 MiB), unless they are slow to come. Linux only.

Large pages are sooner made than small ones of the same size, and sooner found when they are used.
But where the memory of a virtual machine has gone back to its host, one may take sixteen times as
long, while small pages lie at hand: 4 ms was measured, against 0.25 ms otherwise and 0.9 ms for
small ones. So they are made one after the other, by two threads. Once one is slow, the rest of the
block is left to small pages, which are made as they are written, and joined to large ones in the
background, when no first call is under way.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import threading
import time
import weakref
from collections.abc import Callable

import numpy as np

from mgefn.compiler.host import thread_count
from mgefn.core import background

LARGE_PAGE = 2 << 20  # bytes
_SHARED = 4  # large pages from which two threads make them
_SLOW = 1.5e-3  # seconds of this thread for one
_REMEMBERED = 1.0  # seconds for which they are taken to be slow once one was

# Advice of Linux 5.14 and 6.1, which the mmap module does not name.
_POPULATE_WRITE, _COLLAPSE = 23, 25

_slow_until = 0.0


@functools.cache
def _madvise() -> Callable[[int, int, int], int]:
    """madvise(address, bytes, advice) of the C library, which leaves the interpreter to others."""
    found = ctypes.CDLL(None).madvise
    found.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return found


def _large_pages(block: np.ndarray, first: int = 0) -> range:
    """The addresses of the large pages that fit into a block from byte `first` on."""
    start = block.ctypes.data
    at = -(-(start + first) // LARGE_PAGE) * LARGE_PAGE
    return range(at, start + block.nbytes - LARGE_PAGE + 1, LARGE_PAGE)


def choose(block: np.ndarray, first: int = 0) -> None:
    """Choose the pages of a mapping, seen as bytes, that nobody has written from `first` on."""
    advise = _madvise()
    if time.monotonic() >= _slow_until:
        advise(block.ctypes.data, block.nbytes, mmap.MADV_HUGEPAGE)
        found = _large_pages(block, first)
        half = len(found) // 2 if len(found) >= _SHARED and thread_count() > 1 else 0
        # It holds the block, so that an interrupt of this thread leaves it its memory.
        other = threading.Thread(target=_make, args=(found[:half], block)) if half else None
        if other is not None:
            other.start()
        _make(found[half:], block)
        if other is not None:
            other.join()
        if time.monotonic() >= _slow_until:
            return
    advise(block.ctypes.data, block.nbytes, mmap.MADV_NOHUGEPAGE)
    background.later([functools.partial(_join, weakref.ref(block))])


def _make(pages: range, block: np.ndarray) -> None:
    """Have large pages made, until one of any block is slow."""
    global _slow_until
    advise = _madvise()
    for at in pages:
        if time.monotonic() < _slow_until:
            return
        began = time.thread_time()  # the other threads' time does not count
        if advise(at, LARGE_PAGE, _POPULATE_WRITE):
            return  # an older system, or no memory: the program will see
        if time.thread_time() - began > _SLOW:
            _slow_until = time.monotonic() + _REMEMBERED


def _join(held: weakref.ref[np.ndarray]) -> None:
    """Large pages in the place of small ones, for a block that is still there."""
    block = held()
    if block is None:
        return
    advise, pages = _madvise(), _large_pages(block)
    advise(block.ctypes.data, block.nbytes, mmap.MADV_HUGEPAGE)
    for at in pages:
        # Between two pages the block may go, and its memory with it.
        del block
        block = held()
        if block is None or advise(at, LARGE_PAGE, _COLLAPSE):
            return
