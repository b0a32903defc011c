"""Where samples are made: in this thread, in threads, or in processes.

Processes are started by `spawn`: a program with compiled code and threads does not survive a fork.
So the dataset and the transform go to them by pickle, and a script that uses them keeps its own
work under `if __name__ == "__main__":`.
"""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from typing import Any

from mgefn.errors import ArgumentError, WorkerError, api_boundary


@dataclass(frozen=True)
class WorkerInfo:
    """Which worker code runs in.

    Args:
        idx: its number, from 0.
        worker: "thread" or "process".
    """

    idx: int
    worker: str


class _Here(threading.local):
    info: WorkerInfo | None = None


_here = _Here()
# What a worker process works with, put there once when it starts.
_job: Callable[..., Any] | None = None


@api_boundary
def get_worker_info() -> WorkerInfo | None:
    """The worker that calls this, or None where the program itself does.

    Example:
        >>> mgefn.data.get_worker_info() is None
        True
    """
    return _here.info


def _start_process(counter: Any, count: int, job: Callable[..., Any]) -> None:
    global _job
    with counter.get_lock():
        number = counter.value % count  # one that takes another's place has its number
        counter.value += 1
    _here.info = WorkerInfo(number, "process")
    _job = job


def _run_job(*args: Any) -> Any:
    assert _job is not None
    return _job(*args)


class _Now:
    """A result that is there; it has of a Future what is used, without its locks."""

    __slots__ = ("_made",)

    def __init__(self, made: Any) -> None:
        self._made = made

    def result(self, timeout: float | None = None) -> Any:
        return self._made

    def done(self) -> bool:
        return True

    def cancel(self) -> bool:
        return False


class Workers:
    """Runs one function for many arguments, in `count` threads or processes; 0 is here and now."""

    def __init__(self, job: Callable[..., Any], count: int, kind: str, timeout: float) -> None:
        if kind not in ("thread", "process"):
            raise ArgumentError(f"DataLoader: worker must be 'thread' or 'process', got {kind!r}.")
        self._job, self._timeout = job, timeout or None
        self._executor: Executor | None = None
        self._kind = kind
        if count and kind == "thread":
            numbers = iter(range(count))
            lock = threading.Lock()

            def start_thread() -> None:
                with lock:
                    _here.info = WorkerInfo(next(numbers), "thread")

            self._executor = ThreadPoolExecutor(count, "mgefn-data", start_thread)
        elif count:
            context = multiprocessing.get_context("spawn")
            self._executor = ProcessPoolExecutor(
                count, context, _start_process, (context.Value("i", 0), count, job)
            )

    def submit(self, *args: Any) -> Future[Any] | _Now:
        if self._executor is None:
            return _Now(self._job(*args))
        try:
            if self._kind == "process":
                return self._executor.submit(_run_job, *args)
            return self._executor.submit(self._job, *args)
        except BrokenExecutor as exc:
            raise _died(exc) from None

    def result(self, future: Future[Any] | _Now) -> Any:
        try:
            return future.result(self._timeout)
        except BrokenExecutor as exc:
            raise _died(exc) from None
        except FutureTimeout:
            if future.done():
                raise  # the dataset's own
            raise WorkerError(
                f"DataLoader: a batch must be ready within {self._timeout} seconds, and is not. "
                "Raise timeout, or run with num_workers=0 to see where it waits."
            ) from None

    def close(self) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)


def _died(exc: BaseException) -> WorkerError:
    return WorkerError(
        f"DataLoader: a worker process ended before it was done ({exc}). Run with num_workers=0 "
        "to see its error; scripts need `if __name__ == '__main__':` around what they run."
    )
