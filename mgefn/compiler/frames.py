"""Programs bound to their memory, and whose turn it is to keep it.

A frame is a program with a slab. An idle one waits with its program for the next call; large ones
of all programs together are bounded by the pool's limit, and a new shape may have the slab of an
old one.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

import numpy as np

from mgefn import forks
from mgefn.compiler.pool import LARGE, offer, pool


class Frame:
    """A program bound to a slab; the slab goes back to the pool with it."""

    __slots__ = ("__weakref__", "run", "slab")

    def __init__(self, run: Callable[..., list], slab: np.ndarray | None):
        self.run = run
        self.slab = slab

    def __del__(self, give: Callable[[np.ndarray], None] = pool.give) -> None:
        # Bound as a default: module globals may be gone when the interpreter ends.
        slab = getattr(self, "slab", None)  # an interrupt may have cut __init__ short
        if slab is not None:
            # The views of the slab, among which is the function itself: a cycle would keep them.
            getattr(self.run, "__globals__", {}).clear()
            give(slab)


class HasFrames(Protocol):
    """A program: its idle frames, and whether another one has taken the slab of one."""

    idle: list[Frame]
    robbed: bool


class Frames:
    """The idle frames of all programs, bounded by the pool's limit; the oldest go first."""

    def __init__(self) -> None:
        self._lock = forks.lock()
        self._large: OrderedDict[int, tuple[weakref.ref, Frame]] = OrderedDict()

    @property
    def bytes(self) -> int:
        """Of all idle slabs."""
        return pool.idle_slab_bytes

    def take(self, program: HasFrames) -> Frame | None:
        try:
            frame = program.idle.pop()
        except IndexError:
            return None
        if frame.slab is not None and frame.slab.nbytes >= LARGE:
            with self._lock:
                if self._large.pop(id(frame), None) is not None:
                    pool.slab_waits(-frame.slab.nbytes)
        return frame

    def give(self, program: HasFrames, frame: Frame) -> None:
        if frame.slab is None or frame.slab.nbytes < LARGE:
            program.idle.append(frame)
            return
        if self.bytes + frame.slab.nbytes > pool.limit:
            offer(frame.slab)  # while no other thread can have it
        with self._lock:
            # It is counted before another thread can take it.
            self._large[id(frame)] = (weakref.ref(program), frame)
            pool.slab_waits(frame.slab.nbytes)
            program.idle.append(frame)
        self.shrink(kept=0 if pool.strict else 1)

    def shrink(self, limit: int | None = None, kept: int = 0) -> None:
        """Let go of the oldest idle slabs until at most `limit` bytes or `kept` slabs are left.

        limit: the pool's, if it is None.
        """
        bound = pool.limit if limit is None else limit
        with self._lock:
            while self.bytes > bound and len(self._large) > kept:
                self._let_go(next(iter(self._large)))

    def _let_go(self, key: int) -> HasFrames | None:
        """Drop a frame; its program, unless that is gone or another thread has just taken it."""
        owner, old = self._large.pop(key)
        pool.slab_waits(-old.slab.nbytes)  # type: ignore[union-attr]  # it is large
        alive = owner()
        try:
            if alive is not None:
                alive.idle.remove(old)
        except ValueError:
            return None
        return alive

    def make_way(self, size: int) -> None:
        """Let go of the oldest idle slab whose pages one of `size` bytes can have.

        For the system clears new pages, which takes longer than many a program: one that is called
        with ever new shapes has one slab. A program that was robbed and called again is left alone,
        so that those that are called by turns keep theirs.
        """

        def may_go(owner: weakref.ref, frame: Frame) -> bool:
            n = frame.slab.nbytes  # type: ignore[union-attr]  # it is large
            alive = owner()
            return n <= 2 * size and size <= 2 * n and alive is not None and not alive.robbed

        with self._lock:
            found = next((key for key, held in self._large.items() if may_go(*held)), None)
            robbed = None if found is None else self._let_go(found)
            if robbed is not None:
                robbed.robbed = True

    def clear(self) -> None:
        """Let go of the idle slabs of all programs."""
        self.shrink(0)


frames = Frames()
