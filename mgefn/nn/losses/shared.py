"""What the files of losses share: checks of arguments and the last reduction."""

from __future__ import annotations

from typing import Any

from mgefn import dtypes
from mgefn import numpy as mnp
from mgefn.errors import ArgumentError, DTypeError, ShapeError
from mgefn.ops.elementwise import promoted

REDUCTIONS = ("mean", "sum", "none")


def floats(name: str, *xs: Any) -> tuple[Any, ...]:
    """Real arrays of one floating dtype."""
    arrays = promoted(name, xs, inexact=True)
    for a in arrays:
        if dtypes.is_complex(a.dtype):
            raise DTypeError(f"{name}: needs real arrays, got {a.aval}. Take its parts.")
    return tuple(arrays)


def same_shape(name: str, first: Any, second: Any) -> None:
    if first.shape != second.shape:
        raise ShapeError(
            f"{name}: needs arrays of one shape, got {first.aval} and {second.aval}. "
            "Add the missing dimensions, or remove those of size 1."
        )


def integers(name: str, what: str, x: Any) -> Any:
    a = mnp.asarray(x)
    if not dtypes.is_integer(a.dtype):
        raise DTypeError(f"{name}: {what} must be integers, got {a.aval}. Cast them.")
    return a


def reduced(name: str, loss: Any, reduction: str) -> Any:
    if reduction == "none":
        return loss
    if reduction not in REDUCTIONS:
        raise ArgumentError(
            f"{name}: reduction must be one of {', '.join(REDUCTIONS)}, got {reduction!r}."
        )
    return mnp.mean(loss) if reduction == "mean" else mnp.sum(loss)


def inner(a: Any, b: Any) -> Any:
    """Inner products along the last dimension."""
    return mnp.sum(a * b, -1)
