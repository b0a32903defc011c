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
_first_calls: dict[object, float] = {}  # that are under way, with the time when each began
_last = 0.0  # when the last one ended
_asked = 0.0  # when a job was last done, or the first of those that wait came

PAUSE = 0.02  # seconds after a first call: more calls may follow it
PATIENCE = 2.0  # seconds that a job waits for first calls
LONGEST = 10.0  # seconds: an interrupt may have cut off the end of a first call


def later(jobs: list[Callable[[], None]]) -> None:
    """Do some jobs in the background, in their order, while no first call is under way."""
    global _asked
    if not _jobs:
        _asked = time.monotonic()
    _jobs.extend(jobs)
    if _jobs and not _running and not _ending:
        try:
            _thread.start_new_thread(_work, ())
        except RuntimeError:  # no thread starts any more when the interpreter ends
            _jobs.clear()


def begin() -> object:
    """A first call, or a part of one, begins: it needs the processors. Give the result to `end`."""
    token = object()
    _first_calls[token] = time.monotonic()
    return token


def end(token: object) -> None:
    """The first call has its answer."""
    global _last
    _first_calls.pop(token, None)
    _last = time.monotonic()


def _is_time() -> bool:
    """Is no first call under way, or has the next job waited long enough?"""
    if _awaited or _ending:
        return True
    now = time.monotonic()
    for token, began in list(_first_calls.items()):
        if now - began > LONGEST:
            _first_calls.pop(token, None)
    return now - _asked > PATIENCE or not (_first_calls or now - _last < PAUSE)


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
    global _running, _asked
    with _lock:
        if _running:
            return
        _running = True
    while True:
        while not _is_time():
            time.sleep(1e-3)
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
        _asked = time.monotonic()


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
    _first_calls.clear()  # of threads that the child does not have


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
