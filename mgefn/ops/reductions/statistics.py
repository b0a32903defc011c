"""Mean, variance, standard deviation and weighted average.

All are made of sums. float16 and bfloat16 are computed as float32 and cast at the end. The variance
is the mean square of the centered elements, in two passes, so it is never negative.
"""

from __future__ import annotations

import math
from typing import Any, Never

import numpy as np

from mgefn import dtypes
from mgefn.core.array import ConcreteArray, scalar
from mgefn.core.array_methods import Array, ArrayLike, Axis, DTypeLike, method
from mgefn.core.interpreter import state
from mgefn.errors import (
    ArgumentError,
    DTypeError,
    ShapeError,
    api_boundary,
    leave_api,
    no_such_keyword,
    tells_keywords,
)
from mgefn.ops.elementwise import (
    astype,
    conj,
    convert,
    div_p,
    flat_at_zero,
    mul_p,
    promoted,
    real_p,
    sqrt_p,
    square_p,
    sub_p,
)
from mgefn.ops.reductions.common import (
    SMALL,
    SUMMABLE,
    asked_dtype,
    mask_of,
    masked,
    no_out,
    operand_of,
    quick,
    restore_axes,
)
from mgefn.ops.reductions.sums import add_reduce, reduce_sum_p, sum
from mgefn.ops.shaping import (
    broadcast_in_dim,
    broadcast_to_shape,
    normalize_axes,
    normalize_axis,
    transpose,
)


@method("mean")
@tells_keywords
def mean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    **unknown: Never,
) -> Array:
    """Arithmetic mean over `axis`, as numpy.mean gives it; NaN over an empty axis.

    Args:
        a: an array; integers are averaged as the default float.
        axis: dimension or dimensions to average over, each in [-ndim, ndim); None means all.
        dtype: of the result; None keeps that of a. float16 and bfloat16 are summed as float32.
        out: must be None.
        keepdims: keep the averaged dimensions with size 1.
        where: booleans that broadcast to a: which elements to average.

    Example:
        >>> mnp.mean(mnp.array([[1, 2], [3, 4]]), axis=0)
        Array([2., 3.], dtype=float32)
    """
    try:
        if unknown:
            raise no_such_keyword(mean, unknown)
        if (
            a.__class__ is ConcreteArray
            and state.current is None
            and (axis is None or axis.__class__ is int)
            and dtype is None
            and where is None
            and out is None
        ):
            data = a._data  # type: ignore[union-attr]  # a ConcreteArray
            if data.dtype in SUMMABLE and data.size <= SMALL:
                found = quick(_mean_reduce, data, axis, keepdims)
                if found is not None:
                    return found
        no_out("mean", out)
        x = operand_of("mean", a)
        axes = normalize_axes("mean", axis, x.ndim)
        result = asked_dtype("mean", dtype) or dtypes.to_inexact(x.dtype)
        x = astype(x, dtypes.accumulator(dtypes.to_inexact(result)))
        mask = None if where is None else mask_of("mean", where, x)
        return astype(_mean(x, axes, keepdims, mask), result)
    except BaseException as e:
        leave_api(e)
        raise


def _mean_reduce(data: np.ndarray, axis: Any, dtype: Any, out: Any, keepdims: bool) -> Any:
    n = data.size if axis is None else data.shape[axis]
    return add_reduce(data, axis, dtype, out, keepdims) / n


def _mean(x: Any, axes: tuple[int, ...], keepdims: bool, mask: Any) -> Any:
    """The mean of an inexact array."""
    kept = x if mask is None else masked(mask, x, 0)
    total = restore_axes(reduce_sum_p.bind1(kept, axes=axes), x, axes, keepdims)
    return div_p.bind1(total, _count(x, axes, keepdims, mask, x.dtype))


def _count(x: Any, axes: tuple[int, ...], keepdims: bool, mask: Any, dtype: np.dtype) -> Any:
    """How many elements a reduction joins, in an inexact dtype; of rank 0 without a mask."""
    if mask is None:
        return scalar(math.prod([x.shape[i] for i in axes]), dtype)
    # Counted as integers: a float32 sum of ones could stick at 2**24.
    ones = convert(broadcast_to_shape(mask, x.shape), np.dtype(np.int32))
    counted = reduce_sum_p.bind1(ones, axes=axes)
    return convert(restore_axes(counted, x, axes, keepdims), dtype)


@method("var")
@api_boundary
def var(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """Variance over `axis`, as numpy.var gives it: the mean of |x - mean(x)|**2.

    Computed in two passes, first the mean. float16 and bfloat16 are computed as float32.

    Args:
        a: an array; integers are taken as the default float.
        axis: dimension or dimensions, each in [-ndim, ndim); None means all.
        dtype: of the result; None means that of a, or of its real part.
        out: must be None.
        ddof: what is subtracted from the number of elements before dividing by it.
        keepdims: keep the reduced dimensions with size 1.
        where: booleans that broadcast to a: which elements take part.
        mean: the mean where it is known, with the reduced dimensions kept.
        correction: the array API's name for ddof.
    Returns:
        The variances; NaN where not more than ddof elements take part.
    Raises:
        ArgumentError: both ddof and correction are given.

    Example:
        >>> mnp.var(mnp.array([1.0, 2.0, 3.0, 4.0]))
        Array(1.25, dtype=float32)
    """
    y, result = _variance("var", a, axis, dtype, out, ddof, keepdims, where, mean, correction)
    return astype(y, result)


@method("std")
@api_boundary
def std(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """Standard deviation over `axis`, as numpy.std gives it: the square root of `var`.

    The arguments and errors are those of `var`. Derivative where all elements are equal: 0.

    Example:
        >>> mnp.std(mnp.array([1.0, 3.0]))
        Array(1., dtype=float32)
    """
    y, result = _variance("std", a, axis, dtype, out, ddof, keepdims, where, mean, correction)
    return astype(flat_at_zero(sqrt_p.bind1, y), result)


def _variance(
    name: str,
    a: Any,
    axis: Any,
    dtype: Any,
    out: Any,
    ddof: float,
    keepdims: bool,
    where: Any,
    mean: Any,
    correction: float | None,
) -> tuple[Any, np.dtype]:
    """The variance in the dtype it is computed in, and the dtype it shall get."""
    no_out(name, out)
    if correction is not None:
        if ddof:
            raise ArgumentError(
                f"{name}: ddof and correction are one thing, got ddof={ddof} and "
                f"correction={correction}. Pass one of them."
            )
        ddof = correction
    x = operand_of(name, a)
    axes = normalize_axes(name, axis, x.ndim)
    asked = asked_dtype(name, dtype)
    if asked is None:
        asked = dtypes.to_inexact(x.dtype)
        result = dtypes.real_part_dtype(asked)
    else:
        result = asked
        if not dtypes.is_inexact(asked):
            raise DTypeError(
                f"{name}: dtype must be inexact, got {asked}. Cast the result instead."
            )
        if dtypes.is_complex(x.dtype):
            # The variance of complex numbers is real, whatever dtype is asked for.
            asked = dtypes.complex_dtype(asked)
    x = astype(x, dtypes.accumulator(asked))
    mask = None if where is None else mask_of(name, where, x)
    if mean is None:
        center = _mean(x, axes, True, mask)
    else:
        center = astype(operand_of(name, mean), x.dtype)
    centered = sub_p.bind1(x, broadcast_to_shape(center, x.shape))
    if mask is not None:
        centered = masked(mask, centered, 0)
    if dtypes.is_complex(x.dtype):
        squares = real_p.bind1(mul_p.bind1(centered, conj(centered)))
    else:
        squares = square_p.bind1(centered)
    total = restore_axes(reduce_sum_p.bind1(squares, axes=axes), x, axes, keepdims)
    count = _count(x, axes, keepdims, mask, total.dtype)
    if mask is None:
        left = math.prod([x.shape[i] for i in axes]) - ddof
        return div_p.bind1(
            total, scalar(float(left) if left > 0 else math.nan, total.dtype)
        ), result
    left = sub_p.bind1(count, scalar(float(ddof), total.dtype))
    return div_p.bind1(total, masked(left > 0, left, math.nan)), result


@api_boundary
def average(
    a: ArrayLike,
    axis: Axis = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Any:
    """Weighted mean over `axis`, as numpy.average gives it.

    Args:
        a: an array.
        axis: dimension or dimensions to average over; None means all.
        weights: of the shape of a, or of its dimensions in `axis`; None weighs all alike.
        returned: return (mean, sum of the weights) instead of the mean.
        keepdims: keep the averaged dimensions with size 1.
    Raises:
        ShapeError: the weights fit neither a nor `axis`.

    Example:
        >>> mnp.average(mnp.array([1.0, 4.0]), weights=mnp.array([2.0, 1.0]))
        Array(2., dtype=float32)
    """
    x = operand_of("average", a)
    if weights is None:
        y = mean(x, axis, keepdims=keepdims)
        axes = normalize_axes("average", axis, x.ndim)
        total = _count(x, axes, keepdims, None, y.dtype)
    else:
        x, w = promoted("average", (x, weights), inexact=True)
        if w.shape != x.shape:
            w = _fitted_weights(x, axis, w)
        total = sum(w, axis, None, None, keepdims)
        y = div_p.bind1(sum(mul_p.bind1(x, w), axis, None, None, keepdims), total)
    return (y, broadcast_to_shape(total, y.shape)) if returned else y


def _fitted_weights(x: Any, axis: Any, w: Any) -> Any:
    """Weights given for the averaged dimensions only, at the shape of x."""
    if axis is None:
        raise ShapeError(
            f"average: weights of another shape than a need axis, got {w.aval} for {x.aval}. Pass "
            "the axis they belong to."
        )
    # In the order in which they are named, as the dimensions of the weights are.
    named = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    named = tuple([normalize_axis("average", i, x.ndim) for i in named])
    need = tuple([x.shape[i] for i in named])
    if w.shape != need:
        raise ShapeError(
            f"average: weights must have the shape of a, or {need} along axis {axis}, got {w.aval} "
            f"for {x.aval}."
        )
    order = sorted(range(len(named)), key=lambda i: named[i])
    return broadcast_in_dim(transpose(w, order), x.shape, tuple(sorted(named)))
