"""Pooling by the number of dimensions, channels first: (..., *spatial), as MegEngine has it.

`nn.pooling` has the same for channels last, under Flax's names.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn import numpy as mnp
from mgefn.core.array import scalar
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import ArgumentError, ShapeError, api_boundary
from mgefn.nn.checks import check_window_fits
from mgefn.nn.linear_maps import Sizes, paddings, sizes
from mgefn.ops.elementwise import promoted
from mgefn.ops.shaping import full_like_aval
from mgefn.ops.windows import reduce_window_max_p, reduce_window_sum_p, reduced_windows

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
]


def _spatial(name: str, inp: Any, n: int, inexact: bool = False) -> Any:
    (x,) = promoted(name, (inp,), inexact=inexact)
    if x.ndim < n:
        raise ShapeError(
            f"{name}: needs an array (..., *spatial) of rank {n} or more, got {x.aval}."
        )
    return x


def _windows(
    name: str, n: int, x: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any
) -> tuple[tuple[int, ...], tuple[int, ...], Any, tuple[int, ...]]:
    """Window, strides, padding and dilation for all dimensions of x."""
    ones = (1,) * (x.ndim - n)
    window = sizes(name, "kernel_size", kernel_size, n)
    steps = window if stride is None else sizes(name, "stride", stride, n)
    pads = paddings(name, padding, n)
    if not isinstance(pads, str):
        pads = (*[(0, 0) for _ in ones], *pads)
    spread = sizes(name, "dilation", dilation, n)
    return (*ones, *window), (*ones, *steps), pads, (*ones, *spread)


_AVERAGES = ("average_count_exclude_padding", "average")


def _avg(name: str, n: int, inp: Any, kernel: Any, stride: Any, padding: Any, mode: str) -> Any:
    x = _spatial(name, inp, n, inexact=True)
    if mode not in _AVERAGES:
        raise ArgumentError(f"{name}: mode must be one of {', '.join(_AVERAGES)}, got {mode!r}.")
    window, steps, pads, _ = _windows(name, n, x, kernel, stride, padding, 1)
    total = reduced_windows(name, reduce_window_sum_p, x, window, steps, pads)
    check_window_fits(name, x, total, window[-n:], range(-n, 0))
    if mode == "average":
        return total / scalar(math.prod(window), total.dtype)
    ones = full_like_aval(1, x.aval.strong())
    return total / reduced_windows(name, reduce_window_sum_p, ones, window, steps, pads)


def _max(name: str, n: int, inp: Any, kernel: Any, stride: Any, padding: Any, dilation: Any) -> Any:
    x = _spatial(name, inp, n)
    window, steps, pads, spread = _windows(name, n, x, kernel, stride, padding, dilation)
    y = reduced_windows(name, reduce_window_max_p, x, window, steps, pads, window_dilation=spread)
    check_window_fits(name, x, y, window[-n:], range(-n, 0))
    return y


@api_boundary
def avg_pool1d(
    inp: ArrayLike, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    mode: str = "average_count_exclude_padding",
) -> Array:  # fmt: skip
    """Means of windows of sequences; arguments as for `avg_pool2d`."""
    return _avg("avg_pool1d", 1, inp, kernel_size, stride, padding, mode)


@api_boundary
def avg_pool2d(
    inp: ArrayLike, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    mode: str = "average_count_exclude_padding",
) -> Array:  # fmt: skip
    """Means of windows of images.

    Args:
        inp: shape (..., height, width).
        kernel_size: of the window, one number or (height, width).
        stride: distance of neighbouring windows; None: kernel_size.
        padding: on both sides, one number, one for each dimension, or pairs (low, high).
        mode: "average_count_exclude_padding": divide by how many elements of x the window covers;
            "average": by the size of the window, as PyTorch does.

    Example:
        >>> mgefn.nn.avg_pool2d(mnp.arange(16.0).reshape(4, 4), 2)
        Array([[ 2.5,  4.5],
               [10.5, 12.5]], dtype=float32)
    """
    return _avg("avg_pool2d", 2, inp, kernel_size, stride, padding, mode)


@api_boundary
def avg_pool3d(
    inp: ArrayLike, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    mode: str = "average_count_exclude_padding",
) -> Array:  # fmt: skip
    """Means of windows of volumes; arguments as for `avg_pool2d`."""
    return _avg("avg_pool3d", 3, inp, kernel_size, stride, padding, mode)


@api_boundary
def max_pool1d(
    inp: ArrayLike, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    dilation: Sizes = 1,
) -> Array:  # fmt: skip
    """Maxima of windows of sequences; arguments as for `max_pool2d`."""
    return _max("max_pool1d", 1, inp, kernel_size, stride, padding, dilation)


@api_boundary
def max_pool2d(
    inp: ArrayLike, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    dilation: Sizes = 1,
) -> Array:  # fmt: skip
    """Maxima of windows of images. The gradient goes to the first element that attains one.

    Args:
        inp: shape (..., height, width).
        kernel_size: of the window, one number or (height, width).
        stride: distance of neighbouring windows; None: kernel_size.
        padding: on both sides, one number, one for each dimension, or pairs (low, high); it counts
            as -inf, or the least integer.
        dilation: distance of neighbouring elements of a window.

    Example:
        >>> mgefn.nn.max_pool2d(mnp.arange(16.0).reshape(4, 4), 2)
        Array([[ 5.,  7.],
               [13., 15.]], dtype=float32)
    """
    return _max("max_pool2d", 2, inp, kernel_size, stride, padding, dilation)


@api_boundary
def max_pool3d(
    inp: ArrayLike, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
    dilation: Sizes = 1,
) -> Array:  # fmt: skip
    """Maxima of windows of volumes; arguments as for `max_pool2d`."""
    return _max("max_pool3d", 3, inp, kernel_size, stride, padding, dilation)


# -- windows whose number is given ----------------------------------------------------------------


def _bins(size: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """First and past-the-last element of each of count windows over size elements."""
    i = np.arange(count)
    return i * size // count, -(-(i + 1) * size // count)


def _targets(name: str, x: Any, n: int, target_shape: Any) -> tuple[int, ...]:
    targets = sizes(name, "target_shape", target_shape, n)
    if 0 in x.shape[x.ndim - n :]:
        raise ShapeError(f"{name}: needs spatial dimensions with elements, got {x.aval}.")
    return targets


def _adaptive_avg(name: str, n: int, inp: Any, target_shape: Any) -> Any:
    x = _spatial(name, inp, n, inexact=True)
    # A window is a product of intervals, so one dimension after the other is averaged.
    for axis, count in zip(range(-n, 0), _targets(name, x, n, target_shape), strict=True):
        low, high = _bins(x.shape[axis], count)
        at = np.arange(x.shape[axis])
        inside = (at >= low[:, None]) & (at < high[:, None])
        weights = mnp.asarray(inside / (high - low)[:, None], x.dtype)
        x = mnp.moveaxis(mnp.matmul(mnp.moveaxis(x, axis, -1), weights.T), -1, axis)
    return x


def _adaptive_max(name: str, n: int, inp: Any, target_shape: Any) -> Any:
    x = _spatial(name, inp, n)
    for axis, count in zip(range(-n, 0), _targets(name, x, n, target_shape), strict=True):
        low, high = _bins(x.shape[axis], count)
        # Windows differ in length by one at most; a short one names its last element twice.
        offsets = np.arange((high - low).max())
        at = np.minimum(low[:, None] + offsets, high[:, None] - 1)
        windows = mnp.take(mnp.moveaxis(x, axis, -1), at, axis=-1)
        if offsets.size > 1:  # the second naming must not share the gradient
            repeated = low[:, None] + offsets >= high[:, None]
            if dtypes.is_inexact(x.dtype):
                least: Any = -np.inf
            else:
                least = False if dtypes.is_bool(x.dtype) else np.iinfo(x.dtype).min
            windows = mnp.where(repeated, mnp.asarray(least, x.dtype), windows)
        x = mnp.moveaxis(mnp.max(windows, -1), -1, axis)
    return x


@api_boundary
def adaptive_avg_pool1d(inp: ArrayLike, target_shape: Sizes) -> Array:
    """`adaptive_avg_pool2d` of sequences."""
    return _adaptive_avg("adaptive_avg_pool1d", 1, inp, target_shape)


@api_boundary
def adaptive_avg_pool2d(inp: ArrayLike, target_shape: Sizes) -> Array:
    """Means of as many windows as the result shall have elements.

    Window i of m over n elements goes from floor(i * n / m) to ceil((i + 1) * n / m).

    Args:
        inp: shape (..., height, width).
        target_shape: (height, width) of the result, or one number for both.

    Example:
        >>> mgefn.nn.adaptive_avg_pool2d(mnp.arange(9.0).reshape(3, 3), 2)
        Array([[2., 3.],
               [5., 6.]], dtype=float32)
    """
    return _adaptive_avg("adaptive_avg_pool2d", 2, inp, target_shape)


@api_boundary
def adaptive_avg_pool3d(inp: ArrayLike, target_shape: Sizes) -> Array:
    """`adaptive_avg_pool2d` of volumes."""
    return _adaptive_avg("adaptive_avg_pool3d", 3, inp, target_shape)


@api_boundary
def adaptive_max_pool1d(inp: ArrayLike, target_shape: Sizes) -> Array:
    """`adaptive_max_pool2d` of sequences."""
    return _adaptive_max("adaptive_max_pool1d", 1, inp, target_shape)


@api_boundary
def adaptive_max_pool2d(inp: ArrayLike, target_shape: Sizes) -> Array:
    """Maxima of the windows of `adaptive_avg_pool2d`; equal maxima share the gradient.

    Example:
        >>> mgefn.nn.adaptive_max_pool2d(mnp.arange(9.0).reshape(3, 3), 2)
        Array([[4., 5.],
               [7., 8.]], dtype=float32)
    """
    return _adaptive_max("adaptive_max_pool2d", 2, inp, target_shape)


@api_boundary
def adaptive_max_pool3d(inp: ArrayLike, target_shape: Sizes) -> Array:
    """`adaptive_max_pool2d` of volumes."""
    return _adaptive_max("adaptive_max_pool3d", 3, inp, target_shape)
