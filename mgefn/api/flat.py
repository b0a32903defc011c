"""Pytrees at the edge of a transformation: arguments in, outputs out, and what to say when they
do not fit."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from mgefn import tree
from mgefn.core.array import ConcreteArray, as_array, described, is_arraylike
from mgefn.core.array_methods import Array
from mgefn.errors import ArgumentError

ArgNums = int | Sequence[int]


class FlatFunction:
    """A function of leaves: puts the pytree together, calls, and takes the output apart.

    `out_tree` holds the structure of the last output. `has_aux` makes the function return
    (output, auxiliary data): the data is left in `aux`.
    """

    __slots__ = ("aux", "fun", "has_aux", "in_tree", "kwargs", "name", "out_tree")

    def __init__(
        self,
        fun: Callable[..., Any],
        in_tree: Any,
        name: str,
        has_aux: bool = False,
        kwargs: dict[str, Any] | None = None,
    ):
        self.fun = fun
        self.in_tree = in_tree
        self.name = name
        self.has_aux = has_aux
        self.kwargs = kwargs or {}

    def __call__(self, *leaves: Any) -> list[Any]:
        out = self.fun(*tree.unflatten(self.in_tree, leaves), **self.kwargs)
        if self.has_aux:
            out, self.aux = split_aux(out, self.name)
        return self.flat_output(out)

    def flat_output(self, out: Any) -> list[Any]:
        if isinstance(out, Array):
            self.out_tree = _leaf_tree()
            return [out]
        flat, self.out_tree = tree.flatten(out)
        return [x if isinstance(x, Array) else output_array(x, self.name) for x in flat]


_LEAF: list[Any] = []


def _leaf_tree() -> Any:
    if not _LEAF:
        _LEAF.append(tree.structure(0))
    return _LEAF[0]


def split_aux(out: Any, name: str) -> tuple[Any, Any]:
    """(output, auxiliary data) from what a function with has_aux=True returned."""
    if not isinstance(out, tuple) or len(out) != 2:
        raise ArgumentError(
            f"{name}: with has_aux=True the function must return (output, auxiliary data), got "
            f"{described(out)}. Return a pair."
        )
    return out


def output_array(x: Any, name: str) -> Any:
    """An output leaf as an array; what is no array is an error that says where it came from."""
    if not is_arraylike(x):
        raise ArgumentError(
            f"{name}: the function must return arrays, got {type(x).__name__} ({x!r:.60}). Return "
            "it as auxiliary data where there is has_aux, or compute it outside."
        )
    return as_array(x, name)


def leaves_as_arrays(leaves: Sequence[Any], name: str) -> list[Any]:
    """Input leaves as arrays and tracers."""
    return [
        x if x.__class__ is ConcreteArray or isinstance(x, Array) else as_array(x, name)
        for x in leaves
    ]


def checked_function(name: str, fun: Any) -> None:
    """Refuse what can't be called, when it is passed and not when it is used."""
    if not callable(fun):
        raise ArgumentError(f"{name}: needs a function, got {described(fun)}. Pass the function.")


def checked_argnums(name: str, argnums: Any) -> ArgNums:
    """argnums as an int or a tuple of ints."""
    try:
        if isinstance(argnums, (tuple, list)):
            return tuple(operator.index(i) for i in argnums)
        return operator.index(argnums)
    except TypeError:
        raise ArgumentError(
            f"{name}: argnums must be an int or a tuple of ints, got {argnums!r}. Count the "
            "positional arguments from 0."
        ) from None


def resolve_argnums(name: str, argnums: ArgNums, n_args: int) -> tuple[int, ...]:
    """Positions in [0, n_args) from positions in [-n_args, n_args)."""
    nums = (argnums,) if isinstance(argnums, int) else argnums
    out = []
    for i in nums:
        if not -n_args <= i < n_args:
            raise ArgumentError(
                f"{name}: argnums is {argnums}, but the function was called with {n_args} "
                f"positional argument{'' if n_args == 1 else 's'}. Pass the argument by position."
            )
        out.append(i % n_args)
    return tuple(out)
