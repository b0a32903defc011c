"""Work that may wait until a call has its answer, in a thread of its own.

Kernels are compiled twice: first in a hurry, so that a first call is soon done, then for speed,
here. The thread lives as long as there is work. The interpreter waits at its end for the job that
runs, and drops the rest.
"""

from __future__ import annotations

import collections
import os
import threading
from collections.abc import Callable

_condition = threading.Condition()
_jobs: collections.deque[Callable[[], None]] = collections.deque()
_thread: threading.Thread | None = None


def later(jobs: list[Callable[[], None]]) -> None:
    """Do some jobs in the background, in their order."""
    global _thread
    with _condition:
        _jobs.extend(jobs)
        if _jobs and _thread is None:
            _thread = threading.Thread(target=_work, name="mgefn-compile")
            _thread.start()


def wait() -> None:
    """Return when all jobs are done."""
    later([])  # a process made by fork has its parent's jobs and no thread yet
    with _condition:
        _condition.wait_for(lambda: _thread is None)


def _work() -> None:
    global _thread
    main = threading.main_thread()
    while True:
        with _condition:
            if not _jobs or not main.is_alive():
                _jobs.clear()
                _thread = None
                _condition.notify_all()
                return
            job = _jobs.popleft()
        try:
            job()
        except BaseException:
            # The kernels stay as they are. The thread says what happened and another goes on.
            with _condition:
                _thread = None
                _condition.notify_all()
            later([])
            raise


def _after_fork_in_child() -> None:
    global _condition, _thread
    _condition = threading.Condition()
    _thread = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
