"""The process's pool of memory blocks: slabs of compiled programs and their large outputs.

Fresh pages are the largest hidden cost of big NumPy arrays: the system clears each one. Blocks that
programs are done with are kept, up to `limit` bytes, and handed out again. An output block comes
back by itself when the last array that looks at it is gone. Without a limit of the user's, a block
larger than the limit is kept too while it is the newest, so that a program that is called again
and again has its memory; the system is told that it may take the pages.

On Linux the blocks are mappings of our own: an idle one of another size changes its size and keeps
its pages.
"""

from __future__ import annotations

import contextlib
import mmap
import sys
import tracemalloc
from collections import OrderedDict
from typing import Any

import numpy as np

from mgefn import forks
from mgefn.compiler import pages

LARGE = 1 << 20  # bytes: smaller outputs are NumPy's own, whose allocator keeps small blocks
DEFAULT_LIMIT = 256 << 20  # bytes of idle blocks
HUGE = 4 << 20  # bytes from which large pages are asked for, as NumPy does


def _fresh(size: int) -> np.ndarray:
    """New memory, which holds zeros or anything."""
    # tracemalloc sees what NumPy allocates.
    if sys.platform == "linux" and size >= LARGE and not tracemalloc.is_tracing():
        with contextlib.suppress(OSError):  # NumPy's error will be the clearer one
            made = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            block = np.frombuffer(made, np.uint8)
            if size >= HUGE:
                pages.choose(block)
            return block
    return np.empty(size, np.uint8)


def _mapping_of(block: np.ndarray) -> Any:
    """The mapping that a block is, or None."""
    base: Any = block.base
    return base.obj if isinstance(base, memoryview) else None


def offer(block: np.ndarray) -> None:
    """Let the system take the pages of a block, whose contents nobody needs, when it needs some."""
    mapping = _mapping_of(block)
    if mapping is not None:
        with contextlib.suppress(OSError, AttributeError):
            mapping.madvise(mmap.MADV_FREE)


class _Owner:
    """The base of every array that looks at a block; the block goes back when it is gone."""

    __slots__ = ("__array_interface__", "block", "pool")

    def __init__(self, pool: Pool, block: np.ndarray):
        self.pool = pool
        self.block = block
        self.__array_interface__ = {
            "data": (block.ctypes.data, False),
            "shape": (block.nbytes,),
            "typestr": "|u1",
            "version": 3,
        }

    def __del__(self) -> None:
        self.pool.give(self.block)


def has_block_alone(array: np.ndarray) -> bool:
    """Is this the array that Pool.output made of a block, and does no view of it exist?"""
    base = array.base
    # The array looks at a flat one, which looks at the owner; views of it look at the flat one
    # too. References to that: the array's, `base`, and the argument of getrefcount.
    return type(base) is np.ndarray and type(base.base) is _Owner and sys.getrefcount(base) == 3


class Pool:
    """Idle blocks by size; all methods may be called from any thread."""

    def __init__(self, limit: int = DEFAULT_LIMIT):
        self.limit = limit
        self.strict = False  # has the user set the limit?
        self._lock = forks.lock()
        self._idle: OrderedDict[int, np.ndarray] = OrderedDict()  # by id, oldest first
        self.idle_bytes = 0
        self.in_use_bytes = 0
        self.idle_slab_bytes = 0  # of those in use: slabs that wait with their programs
        self.most_allocated = 0
        self.most_reserved = 0
        self.reused = 0
        self.allocated = 0

    def take(self, size: int) -> np.ndarray:
        """A block of at least `size` bytes; its contents are arbitrary."""
        with self._lock:
            block = self._pop_that_fits(size)
            if block is not None:
                self.in_use_bytes += block.nbytes
                self.reused += 1
                self._note()
                return block
            # In a list, as a name would keep the block from being the only one of its mapping.
            others = self._pop_of_another_size(size)
            self.in_use_bytes += size
            self.allocated += 1
        try:
            found = self._resized(others, size) if others else None
            if found is None:
                found = _fresh(size)
        except BaseException:  # there is no memory, or an interrupt came
            with self._lock:
                self.in_use_bytes -= size
                self.allocated -= 1
            raise
        with self._lock:
            self._note()
        return found

    def _pop_that_fits(self, size: int) -> np.ndarray | None:
        best = None
        for key, block in self._idle.items():
            n = block.nbytes
            # A block more than an eighth too large would waste what the plan promised.
            if size <= n <= size + (size >> 3) and (best is None or n < best[1]):
                best = (key, n)
                if n == size:
                    break
        if best is None:
            return None
        self.idle_bytes -= best[1]
        return self._idle.pop(best[0])

    def _pop_of_another_size(self, size: int) -> list[np.ndarray]:
        """An idle mapping of at least half the size and at most twice it: the largest, or none."""
        found = None
        for key, block in self._idle.items() if size >= LARGE else ():
            n = block.nbytes
            fits = size <= 2 * n and n <= 2 * size and (found is None or n > found[1])
            if fits and _mapping_of(block) is not None:
                found = key, n
        if found is None:
            return []
        self.idle_bytes -= found[1]
        return [self._idle.pop(found[0])]

    def _resized(self, blocks: list[np.ndarray], size: int) -> np.ndarray | None:
        """The mapping of the only block in another size, or None if it can't be had."""
        mapping = _mapping_of(blocks[0])
        block = blocks.pop()
        old = block.nbytes
        del block
        try:
            mapping.resize(size)
            block = np.frombuffer(mapping, np.uint8)
            if size > old >= HUGE:
                pages.choose(block, old)
            return block
        except (BufferError, OSError, SystemError, ValueError):
            return None  # a view of it is still alive somewhere: it is gone with that

    def give(self, block: np.ndarray) -> None:
        """Take a block back, or let go of it where the pool is full."""
        if self.idle_bytes + block.nbytes > self.limit:
            offer(block)  # while it is nobody's
        with self._lock:
            self.in_use_bytes -= block.nbytes
            self._idle[id(block)] = block
            self.idle_bytes += block.nbytes
            self._shrink(self.limit, 0 if self.strict else 1)

    @property
    def allocated_bytes(self) -> int:
        """Blocks of running programs, and of outputs that are alive."""
        return self.in_use_bytes - self.idle_slab_bytes

    @property
    def reserved_bytes(self) -> int:
        """All blocks, idle ones included."""
        return self.in_use_bytes + self.idle_bytes

    def slab_waits(self, nbytes: int) -> None:
        """A slab of this size is idle now; a negative size: it is in use again."""
        with self._lock:
            self.idle_slab_bytes += nbytes
            self._note()

    def _note(self) -> None:
        self.most_allocated = max(self.most_allocated, self.allocated_bytes)
        self.most_reserved = max(self.most_reserved, self.reserved_bytes)

    def reset_most(self) -> None:
        """Begin anew to look for the highest values."""
        with self._lock:
            self.most_allocated = self.allocated_bytes
            self.most_reserved = self.reserved_bytes

    def _shrink(self, limit: int, kept: int = 0) -> None:
        """Let go of the oldest blocks until at most `limit` bytes or `kept` blocks are left."""
        while self.idle_bytes > limit and len(self._idle) > kept:
            _, old = self._idle.popitem(last=False)
            self.idle_bytes -= old.nbytes

    def output(self, shape: tuple[int, ...], dtype: np.dtype, nbytes: int) -> np.ndarray:
        """A large array whose block comes back when nothing looks at it any more."""
        owner = _Owner(self, self.take(nbytes))
        # Cut first: a block that is larger need not be a whole number of elements.
        return np.asarray(owner)[:nbytes].view(dtype).reshape(shape)

    def clear(self) -> None:
        """Let go of all idle blocks."""
        with self._lock:
            self._shrink(0)

    def set_limit(self, limit: int | None) -> None:
        with self._lock:
            self.limit, self.strict = DEFAULT_LIMIT if limit is None else limit, limit is not None
            self._shrink(self.limit)

    def stats(self) -> dict[str, int]:
        return {
            "idle_bytes": self.idle_bytes,
            "in_use_bytes": self.in_use_bytes,
            "limit_bytes": self.limit,
            "blocks_reused": self.reused,
            "blocks_allocated": self.allocated,
        }


pool = Pool()
