"""The process's pool of memory blocks: slabs of compiled programs and their large outputs.

Fresh pages are the largest hidden cost of big NumPy arrays: the system clears each one. Blocks that
programs are done with are kept, up to `limit` bytes, and handed out again. An output block comes
back by itself when the last array that looks at it is gone.
"""

from __future__ import annotations

import sys
from collections import OrderedDict

import numpy as np

from mgefn import forks

LARGE = 1 << 20  # bytes: smaller outputs are NumPy's own, whose allocator keeps small blocks
DEFAULT_LIMIT = 256 << 20  # bytes of idle blocks


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
            best = None
            for key, block in self._idle.items():
                n = block.nbytes
                # A block more than an eighth too large would waste what the plan promised.
                if size <= n <= size + (size >> 3) and (best is None or n < best[1]):
                    best = (key, n)
                    if n == size:
                        break
            if best is not None:
                block = self._idle.pop(best[0])
                self.idle_bytes -= block.nbytes
                self.in_use_bytes += block.nbytes
                self.reused += 1
                self._note()
                return block
            self.in_use_bytes += size
            self.allocated += 1
            self._note()
        return np.empty(size, np.uint8)

    def give(self, block: np.ndarray) -> None:
        """Take a block back, or let go of it where the pool is full."""
        with self._lock:
            self.in_use_bytes -= block.nbytes
            self._idle[id(block)] = block
            self.idle_bytes += block.nbytes
            self._shrink(self.limit)

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

    def _shrink(self, limit: int) -> None:
        while self.idle_bytes > limit and self._idle:
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

    def set_limit(self, limit: int) -> None:
        with self._lock:
            self.limit = limit
            self._shrink(limit)

    def stats(self) -> dict[str, int]:
        return {
            "idle_bytes": self.idle_bytes,
            "in_use_bytes": self.in_use_bytes,
            "limit_bytes": self.limit,
            "blocks_reused": self.reused,
            "blocks_allocated": self.allocated,
        }


pool = Pool()
