"""Where the time goes: operations, kernels and annotations as a Chrome trace.

While a trace runs, an interpreter stands outside of all others in the thread that started it and
times what reaches it: each operation that is evaluated at once, each compiled call, and inside of
one on the CPU its steps and their kernels. The file opens in any viewer of Chrome traces, such as
Perfetto.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mgefn.api.inspection import block_until_ready
from mgefn.api.settings import compilation_barrier
from mgefn.compiler.timeline import timed_program
from mgefn.core.array import ConcreteArray
from mgefn.core.interpreter import Interpreter, interpreter_set_to, process_in, state
from mgefn.core.primitive import Primitive
from mgefn.errors import ArgumentError, api_boundary
from mgefn.interpreters.jit import jit_p
from mgefn.io.files import replacing


class _Recorder(Interpreter):
    """Times operations and hands them on."""

    __slots__ = ("events", "start")

    def __init__(self) -> None:
        super().__init__("profiler")
        self.events: list[dict[str, Any]] = []
        self.start = time.perf_counter_ns()

    def process(self, primitive: Primitive, args: tuple, params: dict[str, Any]) -> tuple:
        timed = None
        if (
            primitive is jit_p
            and self.outer is None
            and all(type(a) is ConcreteArray for a in args)
        ):
            timed = timed_program(params["jaxpr"])
        begin, end = time.perf_counter_ns(), None
        if timed is None:
            outs = process_in(self.outer, primitive, args, params)
        else:
            with interpreter_set_to(None):
                outs, spans, end = timed(args)
            for s in spans:
                self.add(s.name, s.kind, s.start, s.about, s.start + s.duration)
        name = primitive.name
        if isinstance(params.get("name"), str):
            name = f"{name}({params['name']})"
        self.add(name, "operation", begin, {"in": _shown(args), "out": _shown(outs)}, end)
        return outs

    def add(
        self, name: str, kind: str, begin: int, args: dict[str, Any], end: int | None = None
    ) -> None:
        end = time.perf_counter_ns() if end is None else end
        self.events.append(
            {
                "name": name,
                "cat": kind,
                "ph": "X",  # a complete event: it has a beginning and a duration
                "ts": (begin - self.start) / 1000,  # the format's unit is the microsecond
                "dur": (end - begin) / 1000,
                "pid": os.getpid(),
                "tid": threading.get_native_id(),
                "args": args,
            }
        )


def _shown(values: Any) -> str:
    return ", ".join(str(getattr(v, "aval", v)) for v in values)


class _Session(threading.local):
    recorder: _Recorder | None = None
    log_dir: Path | None = None


_session = _Session()


@api_boundary
def is_profiling() -> bool:
    """Is a trace running in this thread?

    Example:
        >>> mgefn.profiler.is_profiling()
        False
    """
    return _session.recorder is not None


def _begin(operation: str) -> _Recorder:
    if _session.recorder is not None:
        raise ArgumentError(f"{operation}: a trace runs already in this thread. Stop it first.")
    if state.current is not None:
        raise ArgumentError(
            f"{operation}: cannot begin inside of {state.current.about}. Begin outside of "
            "transformed functions."
        )
    _session.recorder = recorder = _Recorder()
    state.current = recorder
    return recorder


def _end(operation: str) -> _Recorder:
    recorder = _session.recorder
    if recorder is None:
        raise ArgumentError(f"{operation}: no trace runs in this thread. Start one.")
    if state.current is not recorder:
        raise ArgumentError(
            f"{operation}: cannot end inside of a transformed function. End where it began."
        )
    _session.recorder = None
    state.current = None
    return recorder


def _write(recorder: _Recorder, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"traceEvents": recorder.events, "displayTimeUnit": "ms"}
    with replacing(path) as f:
        f.write(json.dumps(document).encode())


@api_boundary
def start_trace(
    log_dir: Any,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: Any = None,
) -> None:
    """Begin a trace in this thread; `stop_trace` writes it.

    Args:
        log_dir: a folder; the file in it is called trace.json.
        create_perfetto_link, create_perfetto_trace, profiler_options: accepted for other
            libraries' sake; the file is one that Perfetto reads in any case.

    Raises:
        ArgumentError: one runs already.
    """
    folder = Path(log_dir)
    _begin("start_trace")
    _session.log_dir = folder


@api_boundary
def stop_trace() -> None:
    """End the trace of this thread and write its file."""
    recorder = _end("stop_trace")
    folder, _session.log_dir = _session.log_dir, None
    if folder is not None:
        _write(recorder, folder / "trace.json")


@contextlib.contextmanager
def _trace(log_dir: Any) -> Iterator[None]:
    start_trace(log_dir)
    try:
        yield
    finally:
        stop_trace()


@api_boundary
def trace(
    log_dir: Any,
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: Any = None,
) -> contextlib.AbstractContextManager[None]:
    """A trace of what runs inside of `with`; see start_trace.

    Example:
        >>> import json, pathlib, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> with mgefn.profiler.trace(folder.name):
        ...     _ = mnp.sin(mnp.ones(3))
        >>> document = json.loads(pathlib.Path(folder.name, "trace.json").read_text())
        >>> [event["name"] for event in document["traceEvents"]][-1]
        'sin'
        >>> folder.cleanup()
    """
    return _trace(Path(log_dir))


class Profiler:
    """A trace of what runs inside of `with`, written to a file of its own.

    Args:
        path: a folder; the file in it is called `<process>.chrome_timeline.json`.
        format: "chrome_timeline.json", the only one.

    `events` holds what was recorded, and `summary()` the time by name.
    """

    def __init__(self, path: Any = "profile", format: str = "chrome_timeline.json") -> None:
        if format != "chrome_timeline.json":
            raise ArgumentError(f"Profiler: format must be 'chrome_timeline.json', got {format!r}.")
        self.path = Path(path) / f"{os.getpid()}.{format}"
        self.events: list[dict[str, Any]] = []

    def start(self) -> None:
        """Begin."""
        _begin("Profiler.start")

    def stop(self) -> None:
        """End, and write the file."""
        recorder = _end("Profiler.stop")
        self.events += recorder.events
        recorder.events = self.events
        _write(recorder, self.path)

    def __enter__(self) -> Profiler:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def __call__(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with a trace of each call."""

        @functools.wraps(fun)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self:
                return fun(*args, **kwargs)

        return wrapped

    def summary(self) -> dict[str, dict[str, float]]:
        """name -> {"calls", "microseconds"}, the longest first."""
        found: dict[str, dict[str, float]] = {}
        for event in self.events:
            row = found.setdefault(event["name"], {"calls": 0, "microseconds": 0.0})
            row["calls"] += 1
            row["microseconds"] += event["dur"]
        return dict(sorted(found.items(), key=lambda item: -item[1]["microseconds"]))


class TraceAnnotation:
    """A name for what runs inside of `with`, as an event of the trace; nothing without a trace.

    Args:
        name: the event's name.
        kwargs: what the event shows besides.

    Example:
        >>> with mgefn.profiler.TraceAnnotation("loading", batch=3):
        ...     pass
    """

    def __init__(self, name: str, **kwargs: Any) -> None:
        self._name, self._kwargs = name, kwargs
        self._begin = 0

    def __enter__(self) -> TraceAnnotation:
        self._begin = time.perf_counter_ns()
        return self

    def __exit__(self, *exc: object) -> None:
        if _session.recorder is not None:
            shown = {k: str(v) for k, v in self._kwargs.items()}
            _session.recorder.add(self._name, "annotation", self._begin, shown)


class StepTraceAnnotation(TraceAnnotation):
    """A TraceAnnotation of a step of training, with step_num= among its arguments."""


scope = TraceAnnotation


@api_boundary
def annotate_function(
    func: Callable[..., Any], name: str | None = None, **decorator_kwargs: Any
) -> Callable[..., Any]:
    """The function, each call an event of the trace.

    Args:
        func: any function.
        name: the event's name; that of the function without it.
        decorator_kwargs: what the event shows besides.
    """
    if not callable(func):
        raise ArgumentError(f"annotate_function: needs a function, got {func!r}.")
    label = name or getattr(func, "__name__", "function")

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with TraceAnnotation(label, **decorator_kwargs):
            return func(*args, **kwargs)

    return wrapped


@api_boundary
def profile(path: Any = "profile", format: str = "chrome_timeline.json") -> Profiler:
    """A Profiler, for `with` or as a decorator.

    Args:
        path, format: as Profiler.
    """
    return Profiler(path, format)


class BenchmarkResult:
    """The seconds of each call, and what they amount to.

    Args:
        name: of the function.
        seconds: one number a call.
    """

    def __init__(self, name: str, seconds: list[float]) -> None:
        self.name, self.seconds = name, seconds

    @property
    def median(self) -> float:
        """The middle of the seconds."""
        return statistics.median(self.seconds)

    @property
    def best(self) -> float:
        """The smallest of the seconds."""
        return min(self.seconds)

    def __repr__(self) -> str:
        return (
            f"{self.name}: median {self.median * 1e6:.1f} us, best {self.best * 1e6:.1f} us of "
            f"{len(self.seconds)} calls"
        )


@api_boundary
def benchmark(
    func: Callable[..., Any],
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
    n_repeat: int = 100,
    *,
    n_warmup: int = 10,
) -> BenchmarkResult:
    """How long calls of a function take, its results ready.

    Args:
        func: a function.
        args, kwargs: its arguments.
        n_repeat: how many calls are timed.
        n_warmup: how many are made before, which compile and fill caches.

    Example:
        >>> result = mgefn.profiler.benchmark(mnp.sin, (mnp.ones(3),), n_repeat=5)
        >>> len(result.seconds), result.best > 0
        (5, True)
    """
    if not callable(func):
        raise ArgumentError(f"benchmark: needs a function, got {func!r}.")
    if n_repeat < 1 or n_warmup < 0:
        raise ArgumentError(
            f"benchmark: n_repeat must be 1 or more and n_warmup 0 or more, got {n_repeat} and "
            f"{n_warmup}."
        )
    keywords = kwargs or {}
    for _ in range(n_warmup):
        block_until_ready(func(*args, **keywords))
    compilation_barrier()
    seconds = []
    for _ in range(n_repeat):
        begin = time.perf_counter()
        block_until_ready(func(*args, **keywords))
        seconds.append(time.perf_counter() - begin)
    return BenchmarkResult(getattr(func, "__name__", "function"), seconds)


__all__ = [
    "BenchmarkResult",
    "Profiler",
    "StepTraceAnnotation",
    "TraceAnnotation",
    "annotate_function",
    "benchmark",
    "is_profiling",
    "profile",
    "scope",
    "start_trace",
    "stop_trace",
    "trace",
]
