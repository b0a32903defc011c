"""Cumulative operations along an axis: sum, product, maximum, minimum, logsumexp.

Element k of a result joins the elements 0, ..., k, or k, ..., n - 1 when `reverse`. The shape
stays.

Derivatives other than that of the sum follow the balanced tree of an associative scan: about 2 n
joins, each differentiated by the slopes of the joining operation. Nothing is divided, so zeros in a
product need no care, and ties of a maximum are shared join by join, as in JAX.

Source: Blelloch (1990), Prefix Sums and Their Applications, CMU-CS-90-190.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.core.array import scalar
from mgefn.core.array_methods import Array, ArrayLike, DTypeLike, method
from mgefn.core.avals import ShapedArray
from mgefn.core.primitive import Primitive
from mgefn.errors import ArgumentError, AxisError, DTypeError, api_boundary
from mgefn.ops.elementwise import (
    add_p,
    astype,
    convert,
    logaddexp_p,
    max_p,
    min_p,
    mul_p,
    ne_p,
    promoted,
    scale,
    select_n_p,
    truth,
)
from mgefn.ops.reductions import asked_dtype, checked, no_out, operand_of, sum_dtype
from mgefn.ops.shaping import (
    concatenate_p,
    full_like_aval,
    normalize_axis,
    ravel,
    reshape,
    rev,
    slice_in_dim,
)

BOOL = np.dtype(bool)


def cumulative(
    name: str, accepts: Callable[[np.dtype], bool], needs: str, linear: bool = False
) -> Primitive:
    """A primitive with the params axis, in [0, ndim), and reverse."""
    primitive = Primitive(name, linear=linear)

    @primitive.def_abstract_eval
    def abstract_eval(x: ShapedArray, *, axis, reverse):
        if not 0 <= axis < x.ndim:
            raise AxisError(
                f"{name}: axis must lie in [0, {x.ndim}) for {x}, got {axis}. An array of rank 0 "
                "has no axis; reshape it to (1,)."
            )
        if not accepts(x.dtype):
            raise DTypeError(f"{name}: needs {needs}, got {x}. Cast it with astype.")
        return (ShapedArray(x.shape, x.dtype),)

    @primitive.def_batch
    def batch(args, bdims, *, axis, reverse):
        (x,), (bdim,) = args, bdims
        return primitive.bind(x, axis=axis + (axis >= bdim), reverse=reverse), (bdim,)

    return primitive


def _is_number(dtype: np.dtype) -> bool:
    return not dtypes.is_bool(dtype)


cumsum_p = cumulative("cumsum", _is_number, "numbers", linear=True)
cumprod_p = cumulative("cumprod", _is_number, "numbers")
cummax_p = cumulative("cummax", lambda dtype: True, "any dtype")
cummin_p = cumulative("cummin", lambda dtype: True, "any dtype")
cumlogsumexp_p = cumulative("cumlogsumexp", dtypes.is_float, "a floating dtype")


@cumsum_p.def_transpose
def _cumsum_transpose(cts, x, *, axis, reverse):
    # An element enters all sums from its own on.
    return cumsum_p.bind(cts[0], axis=axis, reverse=not reverse)


def _def_tree_jvp(primitive: Primitive, join: Primitive) -> None:
    """The jvp rule of a cumulative operation from the slopes of the operation that joins two."""
    primitive.no_rule("transpose", "not linear")

    @primitive.def_jvp
    def rule(primals, tangents, *, axis, reverse):
        (x,), (t,) = primals, tangents
        y = primitive.bind1(x, axis=axis, reverse=reverse)
        if reverse:
            x, t = rev(x, (axis,)), rev(t, (axis,))
        y_dot = scanned_tangent(join, x, t, axis)
        return (y,), (rev(y_dot, (axis,)) if reverse else y_dot,)


def _joined(join: Primitive, left: tuple[Any, Any], right: tuple[Any, Any]) -> tuple[Any, Any]:
    """The join of two values and its tangent."""
    (x, x_dot), (y, y_dot) = left, right
    z = join.bind1(x, y)
    assert join.slopes is not None
    x_slope, y_slope = join.slopes[0](z, x, y), join.slopes[1](z, x, y)  # type: ignore[operator]  # functions
    return z, add_p.bind1(scale(x_dot, x_slope), scale(y_dot, y_slope))


def scanned_tangent(join: Primitive, x: Any, t: Any, axis: int) -> Any:
    """The tangent of the scan of x along `axis` with an associative elementwise operation.

    Neighbours are joined to half as many elements, those are scanned in turn, and give the elements
    at odd places; the ones at even places join one element more. Written with a stack of levels
    instead of a recursion.
    """

    def part(pair: tuple[Any, Any], start: int, stop: int, step: int = 1) -> tuple[Any, Any]:
        a, b = pair
        return slice_in_dim(a, start, stop, step, axis), slice_in_dim(b, start, stop, step, axis)

    levels = []
    pair = (x, t)
    while pair[0].shape[axis] >= 2:
        n = pair[0].shape[axis]
        levels.append(pair)
        pair = _joined(join, part(pair, 0, n - 1, 2), part(pair, 1, n, 2))
    scan = pair
    for pair in reversed(levels):
        n = pair[0].shape[axis]
        even = part(pair, 0, 1)
        if n > 2:
            later = _joined(join, part(scan, 0, (n - 1) // 2), part(pair, 2, n, 2))
            even = tuple(
                [
                    concatenate_p.bind1(a, b, dimension=axis)
                    for a, b in zip(even, later, strict=True)
                ]
            )
        scan = tuple([_interleaved(a, b, axis) for a, b in zip(even, scan, strict=True)])
    return scan[1]


def _interleaved(even: Any, odd: Any, axis: int) -> Any:
    """even[0], odd[0], even[1], ... along an axis; even may have one element more."""
    n = odd.shape[axis]
    shape = odd.shape
    column = (*shape[: axis + 1], 1, *shape[axis + 1 :])
    pairs = concatenate_p.bind1(
        reshape(slice_in_dim(even, 0, n, axis=axis), column),
        reshape(odd, column),
        dimension=axis + 1,
    )
    out = reshape(pairs, (*shape[:axis], 2 * n, *shape[axis + 1 :]))
    if even.shape[axis] == n:
        return out
    return concatenate_p.bind1(out, slice_in_dim(even, n, n + 1, axis=axis), dimension=axis)


_def_tree_jvp(cumprod_p, mul_p)
_def_tree_jvp(cummax_p, max_p)
_def_tree_jvp(cummin_p, min_p)
_def_tree_jvp(cumlogsumexp_p, logaddexp_p)

# -- as in jax.lax --------------------------------------------------------------------------------


def _along(primitive: Primitive, operand: Any, axis: int, reverse: bool) -> Array:
    x = operand_of(primitive.name, operand)
    axis = normalize_axis(primitive.name, axis, x.ndim)
    return checked(primitive, x, axis=axis, reverse=bool(reverse))


@api_boundary
def cumsum_along(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """Cumulative sum along an axis in the operand's own dtype: jax.lax.cumsum.

    Args:
        operand: an array of numbers, of rank 1 or more.
        axis: in [-ndim, ndim).
        reverse: sum from the end.
    """
    return _along(cumsum_p, operand, axis, reverse)


@api_boundary
def cumprod_along(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """Cumulative product along an axis in the operand's own dtype: jax.lax.cumprod.

    The derivative is right, to any order, also where elements are 0.
    """
    return _along(cumprod_p, operand, axis, reverse)


@api_boundary
def cummax_along(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """Cumulative maximum along an axis: jax.lax.cummax. From a NaN on, NaN."""
    return _along(cummax_p, operand, axis, reverse)


@api_boundary
def cummin_along(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """Cumulative minimum along an axis: jax.lax.cummin. From a NaN on, NaN."""
    return _along(cummin_p, operand, axis, reverse)


@api_boundary
def cumlogsumexp_along(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Array:
    """Cumulative log(sum(exp(x))) along an axis, safe from overflow: jax.lax.cumlogsumexp."""
    (x,) = promoted("cumlogsumexp", (operand,), inexact=True)
    return _along(cumlogsumexp_p, x, axis, reverse)


# -- as in NumPy ----------------------------------------------------------------------------------


def _accumulated(
    name: str, primitive: Primitive, a: Any, axis: int | None, dtype: Any, out: Any
) -> Any:
    """cumsum and cumprod."""
    no_out(name, out)
    x = operand_of(name, a)
    if axis is None or (not x.shape and axis in (0, -1)):
        x, axis = ravel(x), 0
    axis = normalize_axis(name, axis, x.ndim)
    new = asked_dtype(name, dtype)
    if new == BOOL:
        # Counts of what is nonzero: among the numbers themselves 1 - 1 would cancel.
        y = primitive.bind1(convert(truth(x), np.dtype(np.int32)), axis=axis, reverse=False)
        return truth(y)
    x = astype(x, sum_dtype(x.dtype) if new is None else new)
    return primitive.bind1(x, axis=axis, reverse=False)


@method("cumsum")
@api_boundary
def cumsum(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike = None, out: None = None
) -> Array:
    """Cumulative sum along `axis`, as numpy.cumsum gives it.

    Args:
        a: an array.
        axis: dimension to sum along, in [-ndim, ndim); None takes all elements in C order.
        dtype: of the result and of the sum; None keeps that of a, but takes bool and integers
            narrower than the default integer to it, as `sum` does.
        out: must be None.

    Example:
        >>> mnp.cumsum(mnp.array([1, 2, 3]))
        Array([1, 3, 6], dtype=int32)
    """
    return _accumulated("cumsum", cumsum_p, a, axis, dtype, out)


@method("cumprod")
@api_boundary
def cumprod(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike = None, out: None = None
) -> Array:
    """Cumulative product along `axis`, as numpy.cumprod gives it.

    The arguments are those of `cumsum`. The derivative is right, to any order, also where elements
    are 0.

    Example:
        >>> mnp.cumprod(mnp.array([1.0, 2.0, 3.0]))
        Array([1., 2., 6.], dtype=float32)
    """
    return _accumulated("cumprod", cumprod_p, a, axis, dtype, out)


def _nan_replaced(name: str, a: Any, fill: int) -> Any:
    x = operand_of(name, a)
    if not dtypes.is_inexact(x.dtype):
        return x
    return select_n_p.bind1(ne_p.bind1(x, x), x, scalar(fill, x.dtype))


@api_boundary
def nancumsum(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike = None, out: None = None
) -> Array:
    """`cumsum` with NaN counted as 0, as numpy.nancumsum gives it."""
    return cumsum(_nan_replaced("nancumsum", a, 0), axis, dtype, out)


@api_boundary
def nancumprod(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike = None, out: None = None
) -> Array:
    """`cumprod` with NaN counted as 1, as numpy.nancumprod gives it."""
    return cumprod(_nan_replaced("nancumprod", a, 1), axis, dtype, out)


@api_boundary
def cumulative_sum(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike = None,
    include_initial: bool = False,
) -> Array:
    """Cumulative sum along `axis`, as numpy.cumulative_sum and the array API give it.

    Args:
        x: an array.
        axis: dimension to sum along; may be left out for an array of rank 1.
        dtype: as in `cumsum`.
        include_initial: begin with the sum of nothing, 0, so the result has one element more.
    Raises:
        ArgumentError: axis is left out for an array of another rank than 1.
    """
    return _cumulative("cumulative_sum", cumsum, 0, x, axis, dtype, include_initial)


@api_boundary
def cumulative_prod(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike = None,
    include_initial: bool = False,
) -> Array:
    """Cumulative product along `axis`, as numpy.cumulative_prod and the array API give it.

    The arguments are those of `cumulative_sum`; the product of nothing is 1.
    """
    return _cumulative("cumulative_prod", cumprod, 1, x, axis, dtype, include_initial)


def _cumulative(
    name: str, scan: Callable[..., Any], first: int, x: Any, axis: Any, dtype: Any, initial: bool
) -> Any:
    a = operand_of(name, x)
    if a.ndim == 0 or (axis is None and a.ndim != 1):
        raise ArgumentError(
            f"{name}: needs an array of rank 1, or of higher rank with axis, got {a.aval}. Pass "
            "axis, or ravel the array."
        )
    axis = normalize_axis(name, 0 if axis is None else axis, a.ndim)
    y = scan(a, axis, dtype)
    if not initial:
        return y
    start = ShapedArray((*y.shape[:axis], 1, *y.shape[axis + 1 :]), y.dtype)
    return concatenate_p.bind1(full_like_aval(first, start), y, dimension=axis)
