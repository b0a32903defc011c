"""Where in the user's program an operation stands.

A source is the pair (code object, instruction offset) of the innermost frame outside this package:
taking it costs a short walk and no line table is read until someone asks for the text. Within a
`named_scope` the names of the scopes come third.
"""

from __future__ import annotations

import os
import sys
import threading
from types import CodeType, FrameType

PACKAGE_DIR = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep

Source = tuple[CodeType, int] | tuple[CodeType, int, str]


class _Scopes(threading.local):
    """What this thread adds to sources: the named scopes it is in, such as "encoder/attention", and
    while a program is read anew, the source of the equation that is read."""

    path: str = ""
    replayed: Source | None = None


scopes = _Scopes()


def current_source(depth: int = 1) -> Source | None:
    """The innermost frame that is not this package's own, or None where there is none.

    While `eval_jaxpr` reads an equation, the line that asked for that equation.
    """
    if scopes.replayed is not None:
        return scopes.replayed
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE_DIR):
        frame = frame.f_back
    if frame is None:
        return None
    path = scopes.path
    return (frame.f_code, frame.f_lasti, path) if path else (frame.f_code, frame.f_lasti)


def line_of(source: Source) -> int:
    """The line number of a source."""
    code, offset = source[:2]
    best = code.co_firstlineno
    for start, end, line in code.co_lines():
        if start <= offset < end and line is not None:
            return line
    return best


def describe(source: Source | None) -> str:
    """`train.py:18 (step)`, in a named scope `train.py:18 (step) in encoder`, or `an unknown
    line`."""
    if source is None:
        return "an unknown line"
    code = source[0]
    scope = f" in {source[2]}" if len(source) == 3 else ""
    return f"{os.path.basename(code.co_filename)}:{line_of(source)} ({code.co_name}){scope}"


def place(source: Source | None) -> str:
    """`train.py:18`, or `an unknown line`."""
    if source is None:
        return "an unknown line"
    return f"{os.path.basename(source[0].co_filename)}:{line_of(source)}"


def fun_name(fun: object) -> str:
    """The name of a function as error messages give it."""
    while True:
        name = getattr(fun, "__name__", None)
        if name is not None:
            return str(name)
        inner = getattr(fun, "func", None)  # functools.partial
        if inner is None:
            return type(fun).__name__
        fun = inner


def fun_place(fun: object) -> str:
    """`loss_fn (train.py:31)`: name and first line of a function, where Python knows them."""
    name = fun_name(fun)
    inner = fun
    while not hasattr(inner, "__code__"):
        step = getattr(inner, "__wrapped__", None) or getattr(inner, "func", None)
        if step is None:
            return name
        inner = step
    code = inner.__code__  # type: ignore[attr-defined]  # hasattr above
    if code.co_filename.startswith(PACKAGE_DIR):
        return name
    return f"{name} ({os.path.basename(code.co_filename)}:{code.co_firstlineno})"
