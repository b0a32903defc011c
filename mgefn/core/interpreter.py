"""The current interpreter: which program transformation reads the next operation.

`state.current` is None when nothing is active, and then an operation is evaluated at once.
Otherwise `state.current` is the innermost active interpreter, and each interpreter knows the one
outside it (`outer`, None for evaluation). The state is one per thread and is restored in
`finally`, so an exception or a KeyboardInterrupt leaves nothing behind.

`state.quiet(f, *args)` calls a NumPy function with floating-point warnings off: overflow and
invalid values are ordinary results here, as in IEEE 754. It enters a saved context (PEP 567), which
costs a tenth of `numpy.errstate`.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from mgefn.core.primitive import Primitive


def _quiet_context() -> Callable[..., Any]:
    with np.errstate(all="ignore"):
        return contextvars.copy_context().run


class TraceState(threading.local):
    """What the current thread is doing; `current` reads as a plain attribute."""

    current: Interpreter | None = None
    quiet: Callable[..., Any]

    def __init__(self) -> None:
        # threading.local calls this once in every thread that touches the object.
        self.quiet = _quiet_context()


state = TraceState()


def quietly(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """fn(*args, **kwargs) with floating-point warnings off, safe to nest.

    A context can't be entered twice: a kernel that comes back here (from a finalizer or a signal
    handler that computes) takes the slower way.
    """
    try:
        return state.quiet(fn, *args, **kwargs)
    except RuntimeError as e:
        if "cannot enter context" not in str(e):
            raise
        with np.errstate(all="ignore"):
            return fn(*args, **kwargs)


class Interpreter:
    """Reads operations while it is current.

    `process` may be called while an inner interpreter is current. It sets `state.current` to
    `self.outer` for as long as rules run, and puts the former one back.
    """

    __slots__ = ("about", "outer")

    outer: Interpreter | None
    about: str  # what the user is doing, such as "grad(loss)": for messages
    axis_name: Any = None  # the name of the axis that it maps over, where it has one

    def __init__(self, about: str = ""):
        self.outer = state.current
        self.about = about

    def process(self, primitive: Primitive, args: tuple, params: dict[str, Any]) -> tuple:
        raise NotImplementedError  # each interpreter defines it

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Make this the current interpreter."""
        previous = state.current
        state.current = self
        try:
            yield
        finally:
            state.current = previous

    def is_active(self) -> bool:
        """Is this interpreter current, or outside the current one?"""
        i = state.current
        while i is not None:
            if i is self:
                return True
            i = i.outer
        return False


class NamedAxis(Interpreter):
    """Gives an axis a name and a size without mapping over it, for looking at programs."""

    __slots__ = ("axis_name", "axis_size")

    def __init__(self, axis_name: Any, axis_size: int, about: str = ""):
        super().__init__(about)
        self.axis_name = axis_name
        self.axis_size = axis_size

    def process(self, primitive: Primitive, args: tuple, params: dict[str, Any]) -> tuple:
        return process_in(self.outer, primitive, args, params)


def bound_axes() -> tuple[tuple[Any, int], ...]:
    """Names and sizes of the mapped axes around the current operation, innermost first.

    What a function traces to may depend on them, so they are part of the key of its program.
    """
    axes = []
    i = state.current
    while i is not None:
        if i.axis_name is not None:
            axes.append((i.axis_name, i.axis_size))  # type: ignore[attr-defined]  # it has a name
        i = i.outer
    return tuple(axes)


class _Base:
    """Holds the outermost interpreter, which evaluates; interpreters/evaluate.py sets it."""

    __slots__ = ("process",)
    process: Callable[[Primitive, tuple, dict[str, Any]], tuple]


base = _Base()


def process_in(
    interpreter: Interpreter | None, primitive: Primitive, args: tuple, params: dict[str, Any]
) -> tuple:
    """Hand an operation to `interpreter`, None meaning evaluation."""
    if interpreter is None:
        return base.process(primitive, args, params)
    return interpreter.process(primitive, args, params)


@contextmanager
def interpreter_set_to(interpreter: Interpreter | None) -> Iterator[None]:
    """Make `interpreter` current (None: evaluate) and restore the former one afterwards."""
    previous = state.current
    state.current = interpreter
    try:
        yield
    finally:
        state.current = previous
