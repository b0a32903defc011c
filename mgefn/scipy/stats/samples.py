"""Statistics of samples: the most frequent value, ranks, the standard error of the mean."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from mgefn import dtypes, lax
from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import ArgumentError, DTypeError, api_boundary
from mgefn.ops.elementwise import promoted, where
from mgefn.ops.shaping import normalize_axis


class ModeResult(NamedTuple):
    """What `mode` returns."""

    mode: Array
    count: Array  # type: ignore[assignment]  # SciPy's name, which hides tuple.count


def _propagate(name: str, nan_policy: str) -> None:
    if nan_policy != "propagate":
        raise ArgumentError(
            f"{name}: nan_policy must be 'propagate', got {nan_policy!r}. Whether there are NaNs "
            "is unknown while a program is traced: look for them before."
        )


def _along_last(name: str, a: ArrayLike, axis: int | None) -> Any:
    """The array with the axis last; flattened where it is None."""
    x = mnp.asarray(a)
    if dtypes.is_complex(x.dtype):
        raise DTypeError(f"{name}: needs a real array, got {x.aval}.")
    if axis is None:
        return mnp.ravel(x)
    x = mnp.atleast_1d(x)
    return mnp.moveaxis(x, normalize_axis(name, axis, x.ndim), -1)


def _runs(ordered: Any) -> tuple[Any, Any]:
    """Of each element of sorted rows, the places where its run of equal ones begins and ends."""
    axis, n = ordered.ndim - 1, ordered.shape[-1]
    before, after = ordered[..., :-1], ordered[..., 1:]
    # NaNs, which are sorted last, count as equal.
    new = (before != after) & ~(mnp.isnan(before) & mnp.isnan(after))
    edge = mnp.ones_like(ordered[..., :1], dtype=bool)
    places = lax.broadcasted_iota("int32", ordered.shape, axis)
    begins = where(mnp.concatenate([edge, new], axis=-1), places, 0)
    ends = where(mnp.concatenate([new, edge], axis=-1), places, n - 1)
    return lax.cummax(begins, axis), lax.cummin(ends, axis, reverse=True)


@api_boundary
def mode(
    a: ArrayLike, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> ModeResult:
    """The most frequent value along an axis, and how often it occurs.

    Args:
        a: real. Of values equally frequent the least is returned; NaNs count as equal.
        axis: the dimension; None: all.
        nan_policy: must be "propagate".
        keepdims: keep the dimension with size 1.

    Returns:
        ModeResult(mode, count); NaN and 0 where there are no values.

    Example:
        >>> mgefn.scipy.stats.mode(mnp.array([2, 4, 1, 1, 4, 4])).mode
        Array(4, dtype=int32)
    """
    _propagate("mode", nan_policy)
    x = _along_last("mode", a, axis)
    if not x.shape[-1]:
        shape = x.shape[:-1]
        value = mnp.full(shape, math.nan, dtypes.default_float())
        count = mnp.zeros(shape, dtypes.default_float())
    else:
        ordered = mnp.sort(x, axis=-1)
        begins, ends = _runs(ordered)
        lengths = ends - begins + 1
        at = mnp.argmax(lengths, axis=-1, keepdims=True)
        value = mnp.take_along_axis(ordered, at, axis=-1)[..., 0]
        count = mnp.max(lengths, axis=-1).astype(dtypes.default_int())
    if keepdims:
        if axis is None:
            shape = (1,) * mnp.ndim(a)
            return ModeResult(mnp.reshape(value, shape), mnp.reshape(count, shape))
        place = normalize_axis("mode", axis, max(mnp.ndim(a), 1))
        return ModeResult(mnp.expand_dims(value, place), mnp.expand_dims(count, place))
    return ModeResult(value, count)


@api_boundary
def rankdata(
    a: ArrayLike,
    method: str = "average",
    *,
    axis: int | None = None,
    nan_policy: str = "propagate",
) -> Array:
    """Ranks of the values along an axis, from 1.

    Args:
        a: real.
        method: of equal values: "average", "min" or "max" of their ranks; "dense": as "min", the
            next value having the next number; "ordinal": in the order of their places.
        axis: the dimension; None: the flattened array.
        nan_policy: must be "propagate": ranks beside a NaN are NaN.

    Returns:
        Array of the default float.

    Raises:
        ArgumentError: another method or policy.

    Example:
        >>> mgefn.scipy.stats.rankdata(mnp.array([10, 30, 20, 30]))
        Array([1. , 3.5, 2. , 3.5], dtype=float32)
    """
    _propagate("rankdata", nan_policy)
    if method not in ("average", "min", "max", "dense", "ordinal"):
        raise ArgumentError(
            "rankdata: method must be 'average', 'min', 'max', 'dense' or 'ordinal', got "
            f"{method!r}."
        )
    x = _along_last("rankdata", a, axis)
    dtype = dtypes.default_float()
    if not x.size:
        ranks = mnp.zeros(x.shape, dtype)
    else:
        order = mnp.argsort(x, axis=-1, stable=True)
        if method == "ordinal":
            numbers = lax.broadcasted_iota("int32", x.shape, x.ndim - 1) + 1
        else:
            begins, ends = _runs(mnp.take_along_axis(x, order, axis=-1))
            if method == "dense":
                numbers = mnp.cumsum(
                    begins == lax.broadcasted_iota("int32", x.shape, x.ndim - 1), axis=-1
                )
            else:
                numbers = {"min": begins + 1, "max": ends + 1, "average": begins + ends + 2}[method]
        places = mnp.argsort(order, axis=-1)
        ranks = mnp.take_along_axis(numbers, places, axis=-1).astype(dtype)
        if method == "average":
            ranks = ranks / 2
        ranks = where(mnp.any(mnp.isnan(x), axis=-1, keepdims=True), math.nan, ranks)
    return ranks if axis is None else mnp.moveaxis(ranks, -1, axis)


@api_boundary
def sem(
    a: ArrayLike,
    axis: int | None = 0,
    ddof: int = 1,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Array:
    """Standard error of the mean along an axis.

    Args:
        a: real; integers are taken as the default float.
        axis: the dimension; None: all.
        ddof: taken from the number of values in the variance's divisor.
        nan_policy: "propagate", or "omit": as if NaNs were not there.
        keepdims: keep the dimension with size 1.
    """
    (x,) = promoted("sem", (a,), inexact=True)
    if nan_policy == "omit":
        count = mnp.sum(~mnp.isnan(x), axis=axis, keepdims=keepdims).astype(x.dtype)
        spread = mnp.nanstd(x, axis=axis, ddof=ddof, keepdims=keepdims)
        return spread / mnp.sqrt(count)
    _propagate("sem", nan_policy)
    n = x.size if axis is None else mnp.atleast_1d(x).shape[axis]
    return mnp.std(x, axis=axis, ddof=ddof, keepdims=keepdims) / math.sqrt(n)
