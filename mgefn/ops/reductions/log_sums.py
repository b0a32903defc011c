"""Logarithms of sums of exponentials.

Source: Blanchard, Higham, Higham (2021), IMA J. Numer. Anal. 41(4), 2311-2330,
doi:10.1093/imanum/draa038.
"""

from __future__ import annotations

import math
from typing import Any

from mgefn import dtypes
from mgefn.core.array import scalar
from mgefn.core.array_methods import ArrayLike, Axis
from mgefn.errors import api_boundary
from mgefn.ops.elementwise import (
    abs_p,
    add_p,
    astype,
    broadcasted,
    convert,
    exp_p,
    is_finite_p,
    log_p,
    ne_p,
    promoted,
    real_p,
    scale_p,
    sign_p,
    stop_gradient_p,
    sub_p,
)
from mgefn.ops.reductions.common import kept_axes, mask_of, masked, restore_axes
from mgefn.ops.reductions.extremes import reduce_max_p
from mgefn.ops.reductions.sums import reduce_sum_p
from mgefn.ops.shaping import broadcast_in_dim, broadcast_to_shape, normalize_axes


@api_boundary
def logsumexp(
    a: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> Any:
    """Logarithm of a sum of exponentials, log(sum(b * exp(a))), safe from overflow.

    Computed as m + log(sum(b * exp(a - m))), m the maximum of a over `axis`. Derivative in a:
    softmax of a over `axis`, and 0 where all elements are -inf.

    Args:
        a: any shape and floating or complex dtype; integers are taken to the default float.
        axis: dimension or dimensions to sum over, each in [-ndim, ndim); None means all.
        b: factors of the exponentials; broadcasts with a. A factor of 0 leaves its element out.
        keepdims: keep the summed dimensions with size 1.
        return_sign: return (log|sum|, sign of the sum) instead, so that the sum may be negative.
        where: booleans that broadcast to a: which elements to sum.
    Returns:
        Array of the dtype of a without the dimensions in `axis`; -inf where every element is -inf
        or there is none; NaN where the sum is negative.
    Raises:
        AxisError: an axis is out of range or named twice.

    Example:
        >>> mgefn.nn.logsumexp(mnp.array([1000.0, 1000.0]))
        Array(1000.6932, dtype=float32)

    Source: Blanchard, Higham, Higham (2021), IMA J. Numer. Anal. 41(4), 2311-2330,
    doi:10.1093/imanum/draa038.
    """
    if b is None:
        (x,) = promoted("logsumexp", (a,), inexact=True)
        factors = None
    else:
        x, factors = broadcasted("logsumexp", promoted("logsumexp", (a, b), inexact=True))
        shape = x.shape or factors.shape
        x, factors = broadcast_to_shape(x, shape), broadcast_to_shape(factors, shape)
    result = x.dtype
    x = astype(x, dtypes.accumulator(result))
    if where is not None:
        x = masked(mask_of("logsumexp", where, x), x, -math.inf)
    axes = normalize_axes("logsumexp", axis, x.ndim)
    heights = real_p.bind1(x) if dtypes.is_complex(x.dtype) else x
    if factors is not None:
        factors = astype(factors, x.dtype)
        heights = masked(ne_p.bind1(factors, scalar(0, factors.dtype)), heights, -math.inf)
    top = reduce_max_p.bind1(stop_gradient_p.bind1(heights), axes=axes)
    # Where all are -inf, or one is inf, subtracting the maximum would give NaN.
    top = masked(is_finite_p.bind1(top), top, 0)
    spread = broadcast_in_dim(top, x.shape, kept_axes(x.ndim, axes))
    terms = exp_p.bind1(sub_p.bind1(x, convert(spread, x.dtype)))
    if factors is not None:
        # By scale_p, as an element with factor 0 may be far above the maximum of the others.
        terms = scale_p.bind1(terms, factors)
    total = reduce_sum_p.bind1(terms, axes=axes)
    if return_sign:
        sign = restore_axes(sign_p.bind1(total), x, axes, keepdims)
        y = add_p.bind1(log_p.bind1(abs_p.bind1(total)), top)
        y = restore_axes(y, x, axes, keepdims)
        return convert(y, dtypes.real_part_dtype(result)), convert(sign, result)
    y = add_p.bind1(log_p.bind1(total), convert(top, total.dtype))
    return convert(restore_axes(y, x, axes, keepdims), result)
