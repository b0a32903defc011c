"""Sums and their kin over the rows that share a number, under jax.ops' names.

Row j of `data` belongs to the segment `segment_ids[j]`. A segment without rows holds the neutral
element of the operation.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.core.array_methods import METHODS, Array, ArrayLike
from mgefn.core.avals import ShapedArray
from mgefn.core.tracer import Tracer
from mgefn.errors import (
    ArgumentError,
    ConcretizationTypeError,
    DTypeError,
    ShapeError,
    api_boundary,
)
from mgefn.ops import reductions
from mgefn.ops.elementwise import maximum, where
from mgefn.ops.indexing.gather import CLIP, GatherScatterMode
from mgefn.ops.indexing.updates import index_add, index_max, index_min, index_multiply
from mgefn.ops.shaping import full_like_aval

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]

Mode = str | GatherScatterMode | None


def _number_of_segments(name: str, ids: Any, num_segments: int | None) -> int:
    if num_segments is not None:
        n = operator.index(num_segments)
        if n < 0:
            raise ArgumentError(f"{name}: num_segments must be 0 or more, got {n}.")
        return n
    known = ids.concrete() if isinstance(ids, Tracer) else ids
    if known is None:
        raise ConcretizationTypeError(
            f"{name}: the number of segments depends on values that are not known while tracing. "
            "Pass num_segments."
        )
    return max(0, int(np.max(np.asarray(known), initial=-1)) + 1)


def _segments(
    name: str,
    update: Callable[..., Any],
    reduce: Callable[..., Any],
    neutral: Callable[[np.dtype], Any],
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None,
    indices_are_sorted: bool,
    unique_indices: bool,
    bucket_size: int | None,
    mode: Mode,
) -> Any:
    x, ids = METHODS["asarray"](data), METHODS["asarray"](segment_ids)
    if not dtypes.is_integer(ids.dtype):
        raise DTypeError(f"{name}: segment_ids must be integers, got {ids.aval}. Cast them.")
    if x.shape[: ids.ndim] != ids.shape:
        raise ShapeError(
            f"{name}: data must begin with the shape {ids.shape} of segment_ids, got {x.aval}."
        )
    n = _number_of_segments(name, ids, num_segments)
    # In indexing -1 is the last place; here it is no segment at all.
    if GatherScatterMode.from_any(mode) is CLIP:
        ids = maximum(ids, 0)
    elif dtypes.is_signed(ids.dtype):
        wide = dtypes.promote_types(ids.dtype, "int32")
        ids = where(ids < 0, n, ids.astype(wide))
    shape = (n, *x.shape[ids.ndim :])
    index: Any = ids
    if bucket_size is not None:
        size = operator.index(bucket_size)
        if size < 1:
            raise ArgumentError(f"{name}: bucket_size must be 1 or more, got {size}.")
        # Each bucket is summed by itself, so that fewer roundings add up.
        buckets = -(-ids.size // size)
        numbers = (np.arange(ids.size, dtype=np.int32) // size).reshape(ids.shape)
        index, shape = (numbers, ids), (buckets, *shape)
    start = full_like_aval(neutral(x.dtype), ShapedArray(shape, x.dtype))
    out = update(start, index, x, indices_are_sorted, unique_indices, mode)
    return out if bucket_size is None else reduce(out, 0).astype(x.dtype)


@api_boundary
def segment_sum(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Mode = None,
) -> Array:
    """The sum of the rows of each segment.

    Args:
        data: shape (n, ...), or as many leading dimensions as segment_ids has.
        segment_ids: integers; rows with a number outside [0, num_segments) are left out.
        num_segments: None: the largest number plus 1, which must then be known.
        indices_are_sorted: promise that segment_ids ascend.
        unique_indices: promise that no segment has two rows.
        bucket_size: rows that are summed before the sums are added; None: all.
        mode: "clip" counts rows outside with the nearest segment, "promise_in_bounds" promises
            that there are none; None or "drop": they are left out.

    Returns:
        Array of shape (num_segments, ...) and the dtype of data; 0 for a segment without rows.

    Raises:
        DTypeError: segment_ids are no integers. ShapeError: the shapes do not fit.
        ConcretizationTypeError: num_segments is None and segment_ids are traced.

    Example:
        >>> mgefn.ops.segment_sum(mnp.array([1, 2, 3, 4]), mnp.array([0, 0, 2, 2]))
        Array([3, 0, 7], dtype=int32)
    """
    return _segments(
        "segment_sum", index_add, reductions.sum, lambda dtype: 0, data, segment_ids,
        num_segments, indices_are_sorted, unique_indices, bucket_size, mode,
    )  # fmt: skip


@api_boundary
def segment_prod(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Mode = None,
) -> Array:
    """The product of the rows of each segment, 1 for none; arguments as for `segment_sum`."""
    return _segments(
        "segment_prod", index_multiply, reductions.prod, lambda dtype: 1, data, segment_ids,
        num_segments, indices_are_sorted, unique_indices, bucket_size, mode,
    )  # fmt: skip


@api_boundary
def segment_max(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Mode = None,
) -> Array:
    """The largest of the rows of each segment; arguments as for `segment_sum`.

    A segment without rows holds -inf, or the least integer of the dtype.
    """
    return _segments(
        "segment_max", index_max, reductions.max, reductions.lowest, data, segment_ids,
        num_segments, indices_are_sorted, unique_indices, bucket_size, mode,
    )  # fmt: skip


@api_boundary
def segment_min(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Mode = None,
) -> Array:
    """The smallest of the rows of each segment; arguments as for `segment_sum`.

    A segment without rows holds inf, or the greatest integer of the dtype.
    """
    return _segments(
        "segment_min", index_min, reductions.min, reductions.highest, data, segment_ids,
        num_segments, indices_are_sorted, unique_indices, bucket_size, mode,
    )  # fmt: skip
