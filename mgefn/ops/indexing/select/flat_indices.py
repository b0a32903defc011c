"""Flat indices taken apart into one index for each dimension, and put together again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mgefn.core.array import scalar
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import ArgumentError, IndexOutOfBoundsError, api_boundary
from mgefn.ops.elementwise import clip, convert, remainder, where
from mgefn.ops.indexing.select.common import indices_dtype, integers_of, needed
from mgefn.ops.indexing.slices import index_dtype
from mgefn.ops.shaping import canonical_shape


@api_boundary
def unravel_index(indices: ArrayLike, shape: Any) -> tuple[Array, ...]:
    """Flat indices as one index array for each dimension of `shape`, as numpy.unravel_index.

    Out-of-bounds indices are clipped; negative ones count from the end.
    """
    i = integers_of("unravel_index", indices)
    sizes = canonical_shape("unravel_index", shape)
    total = math.prod(sizes)
    dtype = i.dtype
    if dtype.itemsize < 4 or total > np.iinfo(dtype).max:
        dtype = index_dtype((total,))
        i = convert(i, dtype)
    i = clip(where(i < 0, i + scalar(total, dtype), i), 0, max(total - 1, 0))
    out = []
    for n in reversed(sizes):
        n = max(n, 1)
        out.append(remainder(i, scalar(n, dtype)))
        i = i // scalar(n, dtype)
    return tuple(reversed(out))


@api_boundary
def ravel_multi_index(
    multi_index: Sequence[ArrayLike], dims: Sequence[int], mode: str = "raise", order: str = "C"
) -> Array:
    """Index arrays of each dimension as flat indices, as numpy.ravel_multi_index.

    Args:
        multi_index: an integer array for each of dims.
        dims: the sizes.
        mode: "raise" needs known integers in bounds; "wrap"; "clip".
        order: "C", last index fastest, or "F".
    """
    sizes = canonical_shape("ravel_multi_index", tuple(dims))
    if len(multi_index) != len(sizes):
        raise ArgumentError(
            f"ravel_multi_index: needs {len(sizes)} index arrays, got {len(multi_index)}."
        )
    if order not in ("C", "F"):
        raise ArgumentError(f"ravel_multi_index: order must be 'C' or 'F', got {order!r}.")
    parts = [integers_of("ravel_multi_index", i) for i in multi_index]
    dtype = indices_dtype((math.prod(sizes),))
    total: Any = scalar(0, dtype)
    stride = 1
    pairs = list(zip(parts, sizes, strict=True))
    for i, n in pairs if order == "F" else reversed(pairs):
        if mode == "raise":
            values = needed("ravel_multi_index", i, "Pass mode='wrap' or mode='clip'.")
            if values.size and (values.min() < 0 or values.max() >= n):
                raise IndexOutOfBoundsError(f"ravel_multi_index: indices must lie in [0, {n}).")
        elif mode == "wrap":
            i = remainder(i, n)
        elif mode == "clip":
            i = clip(i, 0, n - 1)
        else:
            raise ArgumentError(
                f"ravel_multi_index: mode must be 'raise', 'wrap' or 'clip', got {mode!r}."
            )
        total = total + convert(i, dtype) * scalar(stride, dtype)
        stride *= n
    return total
