"""Locks that a child made by fork finds free.

A fork copies the thread that asks for it and no other. A lock that another thread held would stay
taken in the child for good.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def lock() -> threading.RLock:
    """A new reentrant lock, free in every child whose own thread does not hold it.

    Reentrant, because a signal handler or a finalizer may come back to what it guards. It says
    nothing of what it guards: a child finds that as another thread may have left it, so what lies
    under such a lock must be good between any two of its steps.
    """
    made = threading.RLock()
    _locks.add(made)
    return made


def _after_fork_in_child() -> None:
    for held in list(_locks):
        # The two methods by which Python's own modules do the same.
        if not held._is_owned():
            held._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
