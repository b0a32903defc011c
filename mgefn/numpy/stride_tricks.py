"""numpy.lib.stride_tricks: windows that slide over an array.

Arrays here are not views of others' memory, so the windows are gathered; their derivative adds up
what overlaps. `as_strided`, which reads memory by byte offsets, has no counterpart.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from mgefn.core.array_methods import METHODS, Array, ArrayLike, Axis
from mgefn.errors import ArgumentError, ShapeError, api_boundary
from mgefn.ops.indexing import take
from mgefn.ops.shaping import moveaxis, normalize_axes


@api_boundary
def sliding_window_view(
    x: ArrayLike,
    window_shape: int | Iterable[int],
    axis: Axis = None,
    *,
    writeable: bool = False,
) -> Array:
    """Every window of a shape in an array, as numpy.lib.stride_tricks.sliding_window_view does.

    Args:
        x: the array, of any dtype.
        window_shape: the size of the window along each of `axis`.
        axis: the dimensions to slide along, all by default; one named twice is slid along twice.
        writeable: must be False: mgefn arrays are immutable.

    Returns:
        Array in which dimension i of x that is slid along has size n_i - window_i + 1, and the
        dimensions of the window come last.

    Raises:
        ShapeError: a window is larger than the array.
        ArgumentError: a size is negative, the numbers of sizes and axes differ, or `writeable`.
    """
    a: Any = METHODS["asarray"](x)
    name = "sliding_window_view"
    if writeable:
        raise ArgumentError(f"{name}: writeable must be False, as mgefn arrays are immutable.")
    given: Any = window_shape
    sizes = [operator.index(w) for w in (given if np.iterable(given) else (given,))]
    named: Any = range(a.ndim) if axis is None else axis if isinstance(axis, Iterable) else (axis,)
    axes = [normalize_axes(name, i, a.ndim)[0] for i in named]
    if len(sizes) != len(axes):
        raise ArgumentError(
            f"{name}: needs a window size for each of {len(axes)} axes, got {len(sizes)} for "
            f"{a.aval}."
        )
    for i, size in zip(axes, sizes, strict=True):
        if size < 0:
            raise ArgumentError(f"{name}: window sizes must be 0 or more, got {size}.")
        count = a.shape[i] - size + 1
        if count < 1:
            raise ShapeError(
                f"{name}: a window of {size} must fit into dimension {i}, got {a.aval}. Pad it?"
            )
        at = np.arange(count)[:, None] + np.arange(size)
        a = moveaxis(take(a, at, axis=i), i + 1, -1)
    return a
