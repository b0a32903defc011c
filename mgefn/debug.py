"""Looking into functions while they run, under every transformation.

What is printed under grad is the value, under vmap each example by itself, and under jit the value
at run time, once for each call.
"""

from __future__ import annotations

import builtins
import string
from collections.abc import Callable
from typing import Any

import numpy as np

from mgefn.control.callbacks import debug_callback
from mgefn.core.array import ConcreteArray
from mgefn.core.source import fun_name
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


__all__ = ["callback", "print"]
