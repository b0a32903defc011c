"""Sums and products over axes.

bool and small integers are summed as the default integer, as JAX does; float16 and bfloat16 in
float32. Every summed element enters with weight 1, so the sum is linear and its transpose a
broadcast. The derivative of a product has no division: it is right where elements are 0. Among
booleans, where the result is asked to be one, a sum is "or" and a product "and".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Never

import numpy as np

from mgefn.core.array import ConcreteArray
from mgefn.core.array_methods import Array, ArrayLike, Axis, DTypeLike, method
from mgefn.core.avals import Zero
from mgefn.core.interpreter import state
from mgefn.core.primitive import Primitive
from mgefn.errors import api_boundary, leave_api, no_such_keyword, tells_keywords
from mgefn.ops.elementwise import add_p, astype, mul_p, scale, truth
from mgefn.ops.reductions.common import (
    BOOL,
    SMALL,
    SUMMABLE,
    asked_dtype,
    by_axes,
    is_number,
    kept_axes,
    mask_of,
    masked,
    no_out,
    operand_of,
    quick,
    reduction,
    restore_axes,
    sum_dtype,
    with_initial,
)
from mgefn.ops.reductions.logical import reduce_and_p, reduce_or_p
from mgefn.ops.shaping import (
    broadcast_in_dim_p,
    concatenate_p,
    normalize_axes,
    reshape,
    slice_in_dim,
    transpose,
)

reduce_sum_p = reduction("reduce_sum", is_number, "numbers", linear=True)


@reduce_sum_p.def_transpose
def _reduce_sum_transpose(cts, x, *, axes):
    (ct,) = cts
    # Each summed element enters the output with weight 1, so it receives the whole cotangent.
    shape = x.aval.shape
    kept = kept_axes(len(shape), axes)
    return broadcast_in_dim_p.bind(ct, shape=shape, broadcast_dimensions=kept)


# -- reduce_prod ----------------------------------------------------------------------------------

reduce_prod_p = reduction("reduce_prod", is_number, "numbers")
reduce_prod_p.no_rule("transpose", "not linear")


@reduce_prod_p.def_jvp
def _reduce_prod_jvp(primals, tangents, *, axes):
    (x,), (t,) = primals, tangents
    y = reduce_prod_p.bind1(x, axes=axes)
    n = math.prod([x.shape[a] for a in axes])
    if n == 0:
        return (y,), (Zero(y.aval),)
    # The product rule along a balanced tree of pairs: no division, so zeros need no care, and its
    # own derivatives are right too.
    order = (*axes, *kept_axes(x.ndim, axes))
    shape = (n, *y.shape)
    x, t = reshape(transpose(x, order), shape), reshape(transpose(t, order), shape)
    while n > 1:
        half = n // 2
        a, b = slice_in_dim(x, 0, half), slice_in_dim(x, half, 2 * half)
        a_dot, b_dot = slice_in_dim(t, 0, half), slice_in_dim(t, half, 2 * half)
        rest, rest_dot = slice_in_dim(x, 2 * half, n), slice_in_dim(t, 2 * half, n)
        x = mul_p.bind1(a, b)
        t = add_p.bind1(scale(a_dot, b), scale(b_dot, a))
        if n % 2:
            x = concatenate_p.bind1(x, rest, dimension=0)
            t = concatenate_p.bind1(t, rest_dot, dimension=0)
        n -= half
    return (y,), (reshape(t, y.shape),)


# -- reductions by axes, as in jax.lax ------------------------------------------------------------


@api_boundary
def reduce_sum(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Sum over axes in the operand's own dtype."""
    return by_axes(reduce_sum_p, operand, axes)


@api_boundary
def reduce_prod(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Product over axes in the operand's own dtype."""
    return by_axes(reduce_prod_p, operand, axes)


add_reduce: Callable[..., Any] = np.add.reduce


# -- sum, prod ------------------------------------------------------------------------------------


@method("sum")
@tells_keywords
def sum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
    **unknown: Never,
) -> Array:
    """Sum of the elements over `axis`, as numpy.sum gives it.

    Args:
        a: an array.
        axis: dimension or dimensions to sum over, each in [-ndim, ndim); None means all.
        dtype: of the result and of the sum; None keeps that of a, but takes bool and integers
            narrower than the default integer to it (unsigned ones to its unsigned kin).
        out: must be None.
        keepdims: keep the summed dimensions with size 1.
        initial: a number that is added.
        where: booleans that broadcast to a: which elements to sum.
        promote_integers: False keeps the dtype of narrow integers.
    Returns:
        The sums; 0 over an empty axis.
    Raises:
        AxisError: an axis is out of range or named twice.

    Example:
        >>> mnp.sum(mnp.array([[1.0, 2.0], [3.0, 4.0]]), axis=0)
        Array([4., 6.], dtype=float32)
    """
    try:
        if unknown:
            raise no_such_keyword(sum, unknown)
        if (
            a.__class__ is ConcreteArray
            and state.current is None
            and (axis is None or axis.__class__ is int)
            and dtype is None
            and initial is None
            and where is None
            and out is None
        ):
            data = a._data  # type: ignore[union-attr]  # a ConcreteArray
            if data.dtype in SUMMABLE and data.size <= SMALL:
                total = quick(add_reduce, data, axis, keepdims)
                if total is not None:
                    return total
        elif (
            axis is None
            and not keepdims
            and dtype is None
            and initial is None
            and where is None
            and out is None
            and isinstance(a, Array)
            and a.dtype.kind in "fc"
        ):
            return reduce_sum_p.bind1(a, axes=tuple(range(len(a.shape))))
        return _accumulate(
            "sum", reduce_sum_p, add_p, 0, a, axis, dtype, out, keepdims, initial, where,
            promote_integers,
        )  # fmt: skip
    except BaseException as e:
        leave_api(e)
        raise


@method("prod")
@api_boundary
def prod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """Product of the elements over `axis`, as numpy.prod gives it.

    The arguments are those of `sum`. The derivative is right, to any order, also where elements
    are 0.

    Example:
        >>> mnp.prod(mnp.array([2.0, 3.0, 4.0]))
        Array(24., dtype=float32)
    """
    return _accumulate(
        "prod", reduce_prod_p, mul_p, 1, a, axis, dtype, out, keepdims, initial, where,
        promote_integers,
    )  # fmt: skip


def _accumulate(
    name: str,
    primitive: Primitive,
    combine: Primitive,
    identity: int,
    a: Any,
    axis: Any,
    dtype: Any,
    out: Any,
    keepdims: bool,
    initial: Any,
    where: Any,
    promote_integers: bool,
) -> Array:
    """sum and prod."""
    no_out(name, out)
    x = operand_of(name, a)
    axes = normalize_axes(name, axis, x.ndim)
    new = asked_dtype(name, dtype)
    if new is None:
        new = sum_dtype(x.dtype, promote_integers)
    if where is not None:
        x = masked(mask_of(name, where, x), x, identity)
    if new == BOOL:
        # Among booleans addition is "or" and multiplication "and".
        x = truth(x)
        primitive = reduce_or_p if primitive is reduce_sum_p else reduce_and_p
    elif x.dtype != new:
        x = astype(x, new)
    y = restore_axes(primitive.bind1(x, axes=axes), x, axes, keepdims)
    return with_initial(combine, name, y, initial)


@api_boundary
def count_nonzero(a: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Array:
    """Number of elements over `axis` that are not 0, as numpy.count_nonzero gives it."""
    return sum(truth(operand_of("count_nonzero", a)), axis, None, None, keepdims)
