"""Work that may wait until a call has its answer, in a thread of its own.

Kernels are compiled twice: first in a hurry, so that a first call is soon done, then for speed,
here. The thread lives as long as there is work. The interpreter waits at its end for the job that
runs, and drops the rest.

An interrupt (Ctrl-C) may come between any two steps of the thread that asks for work. So there is
nothing here that it could leave locked or half started: no Condition, Event or Thread, whose
methods are Python, and a start that got lost is made up for by the next one.
"""

from __future__ import annotations

import _thread
import atexit
import collections
import os
import sys
import threading
import time
from collections.abc import Callable

from mgefn import forks

_lock = forks.lock()
_jobs: collections.deque[Callable[[], None]] = collections.deque()
_running = False  # does a thread do the jobs?
_ending = False
_awaited = 0  # how many threads wait for the jobs
PAUSE = 20  # milliseconds before the first job: a call that asked for it has its answer to give


def later(jobs: list[Callable[[], None]]) -> None:
    """Do some jobs in the background, in their order."""
    _jobs.extend(jobs)
    if _jobs and not _running and not _ending:
        try:
            _thread.start_new_thread(_work, ())
        except RuntimeError:  # no thread starts any more when the interpreter ends
            _jobs.clear()


def wait() -> None:
    """Return when all jobs are done."""
    global _awaited
    _awaited += 1
    try:
        while _jobs or _running:
            later([])  # in a process made by fork, which has its parent's jobs and no thread yet
            time.sleep(1e-3)
    finally:
        _awaited -= 1


def _work() -> None:
    global _running
    with _lock:
        if _running:
            return
        _running = True
    for _ in range(PAUSE):
        if _awaited or _ending:
            break
        time.sleep(1e-3)
    while True:
        with _lock:
            if not _jobs or _ending:
                _running = False
                return
            job = _jobs.popleft()
        try:
            job()
        except BaseException:
            # The kernel stays as it is, and the other jobs go on.
            threading.excepthook(threading.ExceptHookArgs([*sys.exc_info(), None]))


def _end() -> None:
    """Wait for the job that runs: to be cut off within a library would crash the process."""
    global _ending
    _ending = True
    while _running:
        time.sleep(1e-3)


atexit.register(_end)


def _after_fork_in_child() -> None:
    global _running
    _running = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
