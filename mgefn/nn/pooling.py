"""Pooling: reductions of windows over the spatial dimensions of images and sequences.

As in Flax: arrays are (..., *spatial, features), with any number of batch dimensions, also none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from mgefn.control.reduce_window import reduce_window
from mgefn.core.array import scalar
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.core.primitive import Primitive
from mgefn.errors import ShapeError, api_boundary
from mgefn.nn.checks import check_window_fits
from mgefn.ops.elementwise import promoted
from mgefn.ops.shaping import full_like_aval
from mgefn.ops.windows import (
    Padding,
    integers,
    per_axis,
    reduce_window_max_p,
    reduce_window_min_p,
    reduce_window_sum_p,
    reduced_windows,
)


@api_boundary
def pool(
    inputs: ArrayLike,
    init: ArrayLike,
    reduce_fn: Callable[[Any, Any], Any],
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
) -> Array:
    """Join the elements of each window of the spatial dimensions with a function.

    Args:
        inputs: shape (..., *spatial, features).
        init: a number, the neutral element of reduce_fn; it also stands in the padding.
        reduce_fn: (left, right) -> joined, on scalars; associative.
        window_shape: sizes of the window, one for each spatial dimension.
        strides: distances between neighbouring windows; None: 1.
        padding: (low, high) for each spatial dimension, or "VALID", "SAME" or "SAME_LOWER".
    Example:
        >>> x = mnp.arange(4.0).reshape(4, 1)
        >>> mgefn.nn.pool(x, 1.0, mgefn.lax.mul, (2,)).ravel()
        Array([0., 2., 6.], dtype=float32)
    """
    x, window, steps, pads = _whole("pool", inputs, window_shape, strides, padding)
    y = reduce_window(x, init, reduce_fn, window, steps, pads)
    n = len(window_shape)
    check_window_fits("pool", x, y, window[-n - 1 : -1], range(-n - 1, -1))
    return y


def _whole(
    name: str, inputs: Any, window_shape: Any, strides: Any, padding: Any
) -> tuple[Any, tuple[int, ...], tuple[int, ...], Any]:
    """The array, and window, strides and padding for all its dimensions."""
    (x,) = promoted(name, (inputs,))
    window_shape = integers(name, "window_shape", window_shape)
    n = len(window_shape)
    if x.ndim < n + 1:
        raise ShapeError(
            f"{name}: a window over {n} dimensions needs an array (..., *spatial, features) of "
            f"rank {n + 1} or more, got {x.aval}. Add a last dimension with x[..., None]."
        )
    window = per_axis(name, "window_shape", window_shape, n)
    steps = per_axis(name, "strides", strides, n)
    ones = (1,) * (x.ndim - n - 1)
    pads = padding
    if not isinstance(padding, str):
        pads = (*[(0, 0) for _ in ones], *[tuple(p) for p in padding], (0, 0))
    return x, (*ones, *window, 1), (*ones, *steps, 1), pads


def _reduced(primitive: Primitive, name: str, inputs: Any, *args: Any) -> Any:
    x, window, steps, pads = _whole(name, inputs, *args)
    y = reduced_windows(name, primitive, x, window, steps, pads)
    n = len(tuple(args[0]))
    check_window_fits(name, x, y, window[-n - 1 : -1], range(-n - 1, -1))
    return y


@api_boundary
def avg_pool(
    inputs: ArrayLike,
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
    count_include_pad: bool = True,
) -> Array:
    """Mean of each window of the spatial dimensions.

    Args:
        inputs: shape (..., *spatial, features); integers are taken as the default float.
        window_shape: sizes of the window, one for each spatial dimension.
        strides: distances between neighbouring windows; None: 1.
        padding: (low, high) for each spatial dimension, or "VALID", "SAME" or "SAME_LOWER".
        count_include_pad: divide by the size of the window also where a part of it lies in the
            padding; if False, by how many elements it covers. A window of padding only is NaN then.
    Example:
        >>> x = mnp.array([2.0, 2.0, 2.0]).reshape(3, 1)
        >>> mgefn.nn.avg_pool(x, (2,), padding="SAME").ravel()
        Array([2., 2., 1.], dtype=float32)
        >>> mgefn.nn.avg_pool(x, (2,), padding="SAME", count_include_pad=False).ravel()
        Array([2., 2., 2.], dtype=float32)
    """
    (x,) = promoted("avg_pool", (inputs,), inexact=True)
    total = _reduced(reduce_window_sum_p, "avg_pool", x, window_shape, strides, padding)
    if count_include_pad:
        return total / scalar(math.prod(window_shape), total.dtype)
    ones = full_like_aval(1, x.aval.strong())
    return total / _reduced(reduce_window_sum_p, "avg_pool", ones, window_shape, strides, padding)


@api_boundary
def max_pool(
    inputs: ArrayLike,
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
) -> Array:
    """Maximum of each window of the spatial dimensions.

    The arguments are those of `avg_pool`; padding counts as -inf, or the least integer. The
    gradient goes to the first element that attains the maximum.

    Example:
        >>> x = mnp.arange(16.0).reshape(1, 4, 4, 1)
        >>> mgefn.nn.max_pool(x, (2, 2), strides=(2, 2)).reshape(2, 2)
        Array([[ 5.,  7.],
               [13., 15.]], dtype=float32)
    """
    return _reduced(reduce_window_max_p, "max_pool", inputs, window_shape, strides, padding)


@api_boundary
def min_pool(
    inputs: ArrayLike,
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
) -> Array:
    """Minimum of each window of the spatial dimensions.

    The arguments are those of `avg_pool`; padding counts as inf, or the greatest integer. The
    gradient goes to the first element that attains the minimum.
    """
    return _reduced(reduce_window_min_p, "min_pool", inputs, window_shape, strides, padding)
