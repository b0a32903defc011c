"""Pausing Python's cycle collector while a program is built.

Building makes many small objects that all stay alive, and none of them in cycles. The collector
would look through all of them again and again, which makes the cost grow faster than the program.
Where threads overlap, the last to finish resumes collection.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.RLock()  # a finalizer may build a program while its thread holds it
_inside: dict[int, int] = {}  # how deep each thread is in paused blocks
_resumes = False  # was the collector on when the first of them came?


@contextmanager
def collector_paused() -> Iterator[None]:
    """No cycle collection within the block, if there was any before."""
    global _resumes
    me = threading.get_ident()
    with _lock:
        if not _inside:
            _resumes = gc.isenabled()
            gc.disable()
        _inside[me] = _inside.get(me, 0) + 1
    try:
        yield
    finally:
        with _lock:
            _inside[me] -= 1
            if not _inside[me]:
                del _inside[me]
            if not _inside and _resumes:
                gc.enable()


def _after_fork_in_child() -> None:
    """Of the threads that were inside only this one is left."""
    global _lock
    _lock = threading.RLock()
    me = threading.get_ident()
    paused = bool(_inside)
    for thread in [t for t in _inside if t != me]:
        del _inside[thread]
    if paused and not _inside and _resumes:
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
