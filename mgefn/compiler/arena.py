"""The memory plan: where each intermediate value lives while a program runs.

A value has a lifetime in steps, first to last use. Values whose lifetimes do not meet share bytes
of one slab. Blocks are given out in program order, best fit first, and freed ones merge with their
neighbours, so planning takes near linear time.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import NamedTuple

ALIGNMENT = 64  # bytes: a cache line, and the widest vector


class Block(NamedTuple):
    """A slice of the slab, in bytes."""

    offset: int
    size: int


class Lifetime(NamedTuple):
    """The steps where a value is needed, both included, and its size in bytes."""

    first: int
    last: int
    size: int


def aligned_size(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


class _FreeList:
    """Free ranges of the slab, ordered by offset and by size."""

    def __init__(self) -> None:
        self.by_offset: list[tuple[int, int]] = []
        self.by_size: list[tuple[int, int]] = []
        self.end = 0

    def take(self, size: int) -> int:
        at = bisect_left(self.by_size, (size, -1))
        if at < len(self.by_size):
            found_size, offset = self.by_size.pop(at)
            self.by_offset.pop(bisect_left(self.by_offset, (offset, found_size)))
            if found_size > size:
                self._add(offset + size, found_size - size)
            return offset
        # Nothing fits: grow the slab, from a free range at its end where there is one.
        if self.by_offset and sum(self.by_offset[-1]) == self.end:
            offset, found_size = self.by_offset.pop()
            self.by_size.pop(bisect_left(self.by_size, (found_size, offset)))
        else:
            offset = self.end
        self.end = offset + size
        return offset

    def _add(self, offset: int, size: int) -> None:
        insort(self.by_offset, (offset, size))
        insort(self.by_size, (size, offset))

    def give(self, offset: int, size: int) -> None:
        at = bisect_left(self.by_offset, (offset, 0))
        if at < len(self.by_offset) and self.by_offset[at][0] == offset + size:
            _, more = self.by_offset.pop(at)
            self.by_size.pop(bisect_left(self.by_size, (more, offset + size)))
            size += more
        if at > 0:
            before, n = self.by_offset[at - 1]
            if before + n == offset:
                self.by_offset.pop(at - 1)
                self.by_size.pop(bisect_left(self.by_size, (n, before)))
                offset, size = before, n + size
        self._add(offset, size)


def plan(lifetimes: Sequence[Lifetime]) -> tuple[list[Block], int]:
    """A block for each value and the size of the slab in bytes.

    Args:
        lifetimes: in any order; sizes above 0.
    """
    order = sorted(range(len(lifetimes)), key=lambda i: lifetimes[i].first)
    ends: dict[int, list[int]] = {}
    for i, life in enumerate(lifetimes):
        ends.setdefault(life.last, []).append(i)
    last_steps = sorted(ends)
    free = _FreeList()
    blocks: list[Block] = [Block(0, 0)] * len(lifetimes)
    at = 0
    for i in order:
        life = lifetimes[i]
        while at < len(last_steps) and last_steps[at] < life.first:
            for j in ends[last_steps[at]]:
                free.give(*blocks[j])
            at += 1
        size = aligned_size(life.size)
        blocks[i] = Block(free.take(size), size)
    return blocks, free.end
