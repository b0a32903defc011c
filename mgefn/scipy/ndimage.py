"""Interpolation on a grid under scipy.ndimage's names."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from mgefn import dtypes
from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import ArgumentError, DTypeError, ShapeError, api_boundary
from mgefn.ops.elementwise import convert, where

__all__ = ["map_coordinates"]


def _mirrored(index: Any, size: int) -> Any:
    """Reflected at the centres of the first and last elements."""
    s = size - 1
    return abs((index + s) % (2 * s) - s) if s else mnp.zeros_like(index)


def _reflected(index: Any, size: int) -> Any:
    """Reflected at the edges of the first and last elements."""
    return mnp.floor_divide(_mirrored(2 * index + 1, 2 * size + 1), 2)


_INSIDE: dict[str, Callable[[Any, int], Any]] = {
    "constant": lambda index, size: mnp.clip(index, 0, size - 1),
    "nearest": lambda index, size: mnp.clip(index, 0, size - 1),
    "wrap": lambda index, size: index % size,
    "mirror": _mirrored,
    "reflect": _reflected,
}


@api_boundary
def map_coordinates(
    input: ArrayLike,
    coordinates: Sequence[ArrayLike],
    order: int,
    mode: str = "constant",
    cval: ArrayLike = 0.0,
) -> Array:
    """Values of an array at places between its elements.

    Derivatives pass through the values, and of order 1 through the coordinates.

    Args:
        input: the array.
        coordinates: one array of places for each dimension, all of one shape; in elements.
        order: 0: the nearest element; 1: linear between neighbours.
        mode: what lies outside: "constant": cval; "nearest": the last element; "wrap": the array
            again; "mirror" and "reflect": its mirror image, the last element once and twice.
        cval: the constant.

    Returns:
        Array of the coordinates' shape and input's dtype.

    Raises:
        ArgumentError: another order or mode. ShapeError: the coordinates do not fit.

    Example:
        >>> mgefn.scipy.ndimage.map_coordinates(mnp.array([0.0, 10.0]), [mnp.array([0.25])], 1)
        Array([2.5], dtype=float32)
    """
    x = mnp.asarray(input)
    places = [mnp.asarray(c) for c in coordinates]
    if len(places) != x.ndim:
        raise ShapeError(
            f"map_coordinates: needs one array of coordinates for each dimension of {x.aval}, got "
            f"{len(places)}."
        )
    if mode not in _INSIDE:
        raise ArgumentError(
            f"map_coordinates: mode must be one of {', '.join(_INSIDE)}, got {mode!r}."
        )
    if order not in (0, 1):
        raise ArgumentError(f"map_coordinates: order must be 0 or 1, got {order!r}.")
    for c in places:
        if dtypes.is_complex(c.dtype):
            raise DTypeError(f"map_coordinates: needs real coordinates, got {c.aval}.")
    places = list(mnp.broadcast_arrays(*places))
    integers = dtypes.default_int()
    # Of each dimension, the (index, whether inside, weight) of each neighbour.
    neighbours = []
    for c, size in zip(places, x.shape, strict=True):
        if dtypes.is_inexact(c.dtype):
            below = mnp.floor(c) if order else mnp.rint(c)
            near = [(below, 1 - (c - below)), (below + 1, c - below)] if order else [(below, None)]
        else:
            near = [(c, None)]
        each = []
        for index, weight in near:
            i = convert(index, integers)
            good = (i >= 0) & (i < size) if mode == "constant" else None
            each.append((_INSIDE[mode](i, size), good, weight))
        neighbours.append(each)
    parts = []
    for items in itertools.product(*neighbours):
        value = x[tuple(i for i, _, _ in items)]
        if mode == "constant":
            inside = functools.reduce(operator.and_, (good for _, good, _ in items))
            value = where(inside, value, cval)
        weights = [w for _, _, w in items if w is not None]
        parts.append(functools.reduce(operator.mul, weights, value))
    result = functools.reduce(operator.add, parts)
    if dtypes.is_integer(x.dtype) and dtypes.is_inexact(result.dtype):
        result = mnp.rint(result)
    return result.astype(x.dtype)
