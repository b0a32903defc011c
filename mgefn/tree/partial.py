"""Partial: a function with bound arguments, as a node."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from mgefn.errors import ArgumentError
from mgefn.tree.keys import GetAttrKey
from mgefn.tree.registry import register_pytree_with_keys


class _Boxed:
    """Hides that a function is a functools.partial, which a partial of it would absorb."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Boxed) and self.function == other.function

    def __hash__(self) -> int:
        return hash(self.function)

    def __repr__(self) -> str:
        return repr(self.function)


class Partial(functools.partial):
    """functools.partial as a pytree: the bound arguments are children, the function is structure.

    So it may be an argument of a transformed function. A partial of a partial keeps the arguments
    of the inner one in the structure.
    """

    def __new__(cls, /, func: Callable[..., Any], *args: Any, **keywords: Any) -> Partial:
        if not callable(func):
            raise ArgumentError(
                f"Partial: needs a callable, got {type(func).__name__}. Pass a function first."
            )
        if isinstance(func, functools.partial):
            func = _Boxed(func)
        return super().__new__(cls, func, *args, **keywords)


register_pytree_with_keys(
    Partial,
    lambda p: (((GetAttrKey("args"), p.args), (GetAttrKey("keywords"), p.keywords)), p.func),
    lambda func, children: _rebuild_partial(func, *children),
    lambda p: ((p.args, p.keywords), p.func),
)


def _rebuild_partial(func: Any, args: Any, keywords: Any) -> Partial:
    return Partial(func, *args, **keywords)
