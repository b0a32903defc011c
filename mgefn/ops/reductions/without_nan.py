"""The reductions that leave out NaN: nansum, nanmax, nanmean and their kin.

Each is its ordinary reduction, with the identity in place of NaN, or with NaN left out by `where`.
What is left out has a derivative of 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.core.array import scalar
from mgefn.core.array_methods import Array, ArrayLike, Axis, DTypeLike
from mgefn.errors import api_boundary
from mgefn.ops.elementwise import and_p, eq_p, ne_p, select_n_p
from mgefn.ops.reductions.common import mask_of, operand_of
from mgefn.ops.reductions.extremes import argmax, argmin, highest, lowest, max, min
from mgefn.ops.reductions.logical import all
from mgefn.ops.reductions.statistics import mean, std, var
from mgefn.ops.reductions.sums import prod, sum


def _without_nan(name: str, a: Any, fill: Callable[[np.dtype], Any]) -> tuple[Any, Any]:
    """The array with NaN replaced, and where they were (None: no dtype for them)."""
    x = operand_of(name, a)
    if not dtypes.is_inexact(x.dtype):
        return x, None
    nan = ne_p.bind1(x, x)
    return select_n_p.bind1(nan, x, scalar(fill(x.dtype), x.dtype)), nan


def _zero(dtype: np.dtype) -> int:
    return 0


def _one(dtype: np.dtype) -> int:
    return 1


@api_boundary
def nansum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """`sum` of the elements that are not NaN, as numpy.nansum gives it."""
    x, _ = _without_nan("nansum", a, _zero)
    return sum(x, axis, dtype, out, keepdims, initial, where)


@api_boundary
def nanprod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """`prod` of the elements that are not NaN, as numpy.nanprod gives it."""
    x, _ = _without_nan("nanprod", a, _one)
    return prod(x, axis, dtype, out, keepdims, initial, where)


@api_boundary
def nanmax(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """`max` of the elements that are not NaN, as numpy.nanmax gives it; NaN where all are."""
    x, nan = _without_nan("nanmax", a, lowest)
    y = max(x, axis, out, keepdims, initial, where)
    return _nan_where_all(nan, y, axis, keepdims, initial)


@api_boundary
def nanmin(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """`min` of the elements that are not NaN, as numpy.nanmin gives it; NaN where all are."""
    x, nan = _without_nan("nanmin", a, highest)
    y = min(x, axis, out, keepdims, initial, where)
    return _nan_where_all(nan, y, axis, keepdims, initial)


def _nan_where_all(nan: Any, y: Any, axis: Any, keepdims: bool, initial: Any) -> Any:
    if nan is None or initial is not None:
        return y
    return select_n_p.bind1(all(nan, axis, None, keepdims), y, scalar(math.nan, y.dtype))


def _not_nan(name: str, a: Any, where: Any) -> tuple[Any, Any]:
    """The array, and `where` without the places of NaN."""
    x = operand_of(name, a)
    if not dtypes.is_inexact(x.dtype):
        return x, where
    valid = eq_p.bind1(x, x)
    if where is not None:
        valid = and_p.bind1(valid, mask_of(name, where, x))
    return x, valid


@api_boundary
def nanmean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    where: ArrayLike | None = None,
) -> Array:
    """`mean` of the elements that are not NaN, as numpy.nanmean gives it; NaN where all are.

    Example:
        >>> mnp.nanmean(mnp.array([1.0, mnp.nan, 3.0]))
        Array(2., dtype=float32)
    """
    x, valid = _not_nan("nanmean", a, where)
    return mean(x, axis, dtype, out, keepdims, where=valid)


@api_boundary
def nanvar(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """`var` of the elements that are not NaN, as numpy.nanvar gives it."""
    x, valid = _not_nan("nanvar", a, where)
    return var(x, axis, dtype, out, ddof, keepdims, where=valid, mean=mean, correction=correction)


@api_boundary
def nanstd(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """`std` of the elements that are not NaN, as numpy.nanstd gives it."""
    x, valid = _not_nan("nanstd", a, where)
    return std(x, axis, dtype, out, ddof, keepdims, where=valid, mean=mean, correction=correction)


@api_boundary
def nanargmax(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """`argmax` of the elements that are not NaN; -1 where all are, as in JAX."""
    x, nan = _without_nan("nanargmax", a, lowest)
    return _no_index_where_all(nan, argmax(x, axis, out, keepdims), axis, keepdims)


@api_boundary
def nanargmin(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """`argmin` of the elements that are not NaN; -1 where all are, as in JAX."""
    x, nan = _without_nan("nanargmin", a, highest)
    return _no_index_where_all(nan, argmin(x, axis, out, keepdims), axis, keepdims)


def _no_index_where_all(nan: Any, y: Any, axis: Any, keepdims: Any) -> Any:
    if nan is None:
        return y
    return select_n_p.bind1(all(nan, axis, None, bool(keepdims)), y, scalar(-1, y.dtype))
