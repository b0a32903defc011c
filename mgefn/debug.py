"""Looking into functions while they run, under every transformation.

What is printed under grad is the value, under vmap each example by itself, and under jit the value
at run time, once for each call.
"""

from __future__ import annotations

import builtins
import string
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

from mgefn import debugger, tree
from mgefn.control.callbacks import debug_callback
from mgefn.core.array import ConcreteArray
from mgefn.core.source import PACKAGE_DIR, fun_name
from mgefn.core.tracer import Tracer
from mgefn.errors import ArgumentError, api_boundary


class _Formatter(string.Formatter):
    """str.format that says which arguments a format does not use."""

    def check_unused_args(self, used_args: Any, args: Any, kwargs: Any) -> None:
        unused = [i for i in range(len(args)) if i not in used_args]
        left = [k for k in kwargs if k not in used_args]
        if unused or left:
            shown = ", ".join([*(f"number {i}" for i in unused), *left])
            raise ArgumentError(
                f"debug.print: the format does not use the argument {shown}. "
                "Put {} where it goes."
            )


_formatter = _Formatter()


class _Placeholder:
    """Takes any format, for checking a format before the values are known."""

    def __format__(self, spec: str) -> str:
        return ""

    def __getattr__(self, name: str) -> _Placeholder:
        return self

    def __getitem__(self, index: Any) -> _Placeholder:
        return self


@api_boundary
def print(
    fmt: str,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: Any,
) -> None:
    """Print values when the program runs.

    Args:
        fmt: a format as str.format takes it, such as "x = {x:.3f}, step {}".
        args, kwargs: arrays, or anything else that can be formatted.
        ordered: accepted for JAX's programs; printing always follows the program's order.
        partitioned: accepted for JAX's programs; there is one device.
        skip_format_check: do not check now that fmt uses the arguments.

    Raises:
        ArgumentError: fmt is no str, or does not fit the arguments.

    Example:
        >>> mgefn.jit(lambda x: mgefn.debug.print("x = {}", x + 1))(2.0)
        x = 3.0
    """
    if not isinstance(fmt, str):
        raise ArgumentError(f"debug.print: the format must be a str, got {type(fmt).__name__}.")
    if not skip_format_check:
        blank = _Placeholder()
        try:
            _formatter.vformat(fmt, [blank] * len(args), dict.fromkeys(kwargs, blank))
        except ArgumentError:
            raise
        except (IndexError, KeyError, ValueError):
            names = ", ".join(kwargs) or "none"
            raise ArgumentError(
                f"debug.print: the format {fmt!r} must fit its arguments, got {len(args)} by "
                f"position and by name {names}. Pass what it asks for."
            ) from None

    def show(*values: Any, **named: Any) -> None:
        # NumPy's rank-0 arrays take no format such as .3f; ours do.
        wrapped = [ConcreteArray(v) if isinstance(v, np.ndarray) else v for v in values]
        by_name = {
            k: ConcreteArray(v) if isinstance(v, np.ndarray) else v for k, v in named.items()
        }
        builtins.print(fmt.format(*wrapped, **by_name))

    debug_callback(show, args, kwargs, ordered, "debug.print")


@api_boundary
def callback(
    callback: Callable[..., Any],
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> None:
    """Call a Python function with values when the program runs; what it returns is dropped.

    Args:
        callback: gets read-only NumPy arrays in the place of arrays, and anything else as it is.
        args, kwargs: its arguments, pytrees.
        ordered: accepted for JAX's programs; calls always follow the program's order.
        partitioned: accepted for JAX's programs; there is one device.

    Example:
        >>> seen = []
        >>> mgefn.grad(lambda x: (mgefn.debug.callback(seen.append, x), x * x)[1])(3.0)
        Array(6., dtype=float32)
        >>> seen
        [array(3., dtype=float32)]
    """
    debug_callback(callback, args, kwargs, ordered, f"debug.callback({fun_name(callback)})")


def _frames_from(
    frame: FrameType | None, filtered: bool, count: int | None
) -> list[debugger.FrameView]:
    views: list[debugger.FrameView] = []
    while frame is not None and (count is None or len(views) < count):
        name = frame.f_code.co_filename
        if not (filtered and name.startswith(PACKAGE_DIR)):
            views.append(
                debugger.FrameView(
                    name,
                    frame.f_code.co_name,
                    frame.f_lineno,
                    dict(frame.f_locals),
                    frame.f_globals,
                )
            )
        frame = frame.f_back
    return views


@api_boundary
def breakpoint(
    *,
    backend: str | None = None,
    filter_frames: bool = True,
    num_frames: int | None = None,
    ordered: bool = False,
    token: Any = None,
    **kwargs: Any,
) -> Any:
    """Stop when the program runs, and open a console on the values of the local variables.

    `help` in the console lists its commands; anything else is evaluated. Under jit the console
    opens in every call, under vmap once for each example.

    Args:
        backend: None or "cli".
        filter_frames: leave out the frames of this package.
        num_frames: how many frames to show; None: all.
        ordered: accepted for JAX's programs; calls always follow the program's order.
        token: accepted for JAX's programs, and returned.
        kwargs: stdin, stdout and completekey, as for cmd.Cmd.

    Raises:
        ArgumentError: another backend.
        debugger.Quit: the user ended the program.
    """
    if backend not in (None, "cli"):
        raise ArgumentError(f"debug.breakpoint: backend must be None or 'cli', got {backend!r}.")
    views = _frames_from(sys._getframe(1), filter_frames, num_frames)
    # Traced values of the frames, wherever they stand, go through the program.
    leaves, structure = tree.flatten([view.locals for view in views])
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tracer)]

    def stop(*values: Any) -> None:
        known = list(leaves)
        for i, value in zip(places, values, strict=True):
            known[i] = ConcreteArray(np.asarray(value))
        for view, named in zip(views, tree.unflatten(structure, known), strict=True):
            view.locals = named
        debugger.Console(views, **kwargs).run()

    debug_callback(stop, tuple(leaves[i] for i in places), {}, ordered, "debug.breakpoint")
    return token


__all__ = ["breakpoint", "callback", "print"]
