"""Elements moved or repeated along an axis: roll, repeat, tile, append, delete, insert.

Sizes are known: `repeat` takes traced counts with total_repeat_length, `delete` and `insert` known
places only. `roll` may have traced shifts, which leave the size alone.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.core.array import as_array, scalar
from mgefn.core.array_methods import METHODS, Array, ArrayLike, method
from mgefn.core.avals import ShapedArray
from mgefn.errors import ArgumentError, DTypeError, IndexOutOfBoundsError, ShapeError, api_boundary
from mgefn.ops.elementwise import convert, promoted, remainder
from mgefn.ops.indexing.select.common import (
    array_of,
    constant,
    deciding,
    integers_of,
    known,
    needed,
)
from mgefn.ops.indexing.select.taking import take
from mgefn.ops.indexing.slices import dynamic_slice_in_dim, index_dtype
from mgefn.ops.shaping import (
    broadcast_in_dim,
    broadcast_to_shape,
    canonical_shape,
    concatenate_p,
    moveaxis,
    normalize_axis,
    reshape,
    slice_in_dim,
    zeros,
)


@api_boundary
def roll(a: ArrayLike, shift: Any, axis: int | Sequence[int] | None = None) -> Array:
    """Move elements along axes; what leaves at the end comes back at the start, as numpy.roll.

    Args:
        a: an array.
        shift: number of places, an integer or one for each axis; may be traced.
        axis: None rolls the flattened array.
    """
    x = array_of("roll", a)
    if axis is None:
        return reshape(roll(reshape(x, (x.size,)), shift, 0), x.shape)
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    if isinstance(shift, (tuple, list)):
        shifts = list(shift)
    else:
        s = as_array(shift, "roll")
        shifts = [shift] if not s.ndim else [s[i] for i in range(s.shape[0])]
    pairs = np.broadcast(np.arange(len(shifts)), np.arange(len(axes)))
    for k, d in pairs:
        at = normalize_axis("roll", axes[d], x.ndim)
        n = x.shape[at]
        if n <= 1:
            continue
        s = shifts[k]
        value = known(s) if isinstance(s, Array) else s
        if value is not None:
            if (
                not isinstance(value, (int, np.integer))
                and np.asarray(value).dtype.kind not in "iu"
            ):
                raise DTypeError(f"roll: shift must be an integer, got {value!r}.")
            m = int(value) % n
            if m:
                parts = (slice_in_dim(x, n - m, n, 1, at), slice_in_dim(x, 0, n - m, 1, at))
                x = concatenate_p.bind1(*parts, dimension=at)
            continue
        if not dtypes.is_integer(s.dtype):
            raise DTypeError(f"roll: shift must be an integer, got {s.aval}. Cast it with astype.")
        s = convert(s, index_dtype((2 * n,))) if s.dtype.itemsize < 4 else s
        start = scalar(n, s.dtype) - remainder(s, scalar(n, s.dtype))
        x = dynamic_slice_in_dim(concatenate_p.bind1(x, x, dimension=at), start, n, at)
    return x


@method("repeat")
@api_boundary
def repeat(
    a: ArrayLike,
    repeats: ArrayLike,
    axis: int | None = None,
    *,
    total_repeat_length: int | None = None,
) -> Array:
    """Repeat each element along an axis, as numpy.repeat does.

    Args:
        a: an array.
        repeats: how often, an integer or one for each element of the axis.
        axis: None repeats in the flattened array.
        total_repeat_length: size of the result along the axis, for traced repeats: longer results
            are cut, shorter ones continue with the last element.
    """
    x = array_of("repeat", a)
    if axis is None:
        x, at = reshape(x, (x.size,)), 0
    else:
        at = normalize_axis("repeat", axis, x.ndim)
    n = x.shape[at]
    counts = integers_of("repeat", repeats)
    if counts.ndim > 1 or (counts.ndim == 1 and counts.shape[0] not in (1, n)):
        raise ShapeError(f"repeat: needs one integer or {n} of them, got {counts.aval}.")
    values = deciding(counts) if total_repeat_length is None else known(counts)
    if values is not None and total_repeat_length is None:
        if values.size and values.min() < 0:
            raise ArgumentError(f"repeat: repeats must be 0 or more, got {values.min()}.")
        if values.size == 1:
            times = int(values.reshape(()))
            shape = (*x.shape[: at + 1], times, *x.shape[at + 1 :])
            dims = (*range(at + 1), *range(at + 2, x.ndim + 1))
            wide = broadcast_in_dim(x, shape, dims)
            return reshape(wide, (*x.shape[:at], n * times, *x.shape[at + 1 :]))
        # NumPy takes no uint64 for a count.
        index = np.repeat(np.arange(n, dtype=index_dtype((n,))), values.astype(np.int64))
        return take(x, constant(index), at, mode="clip", indices_are_sorted=True)
    if total_repeat_length is None:
        needed("repeat", counts, "Pass total_repeat_length=n.")
    total = operator.index(total_repeat_length)  # type: ignore[arg-type]  # checked above
    dtype = index_dtype((max(total, n, 1),))
    if not n or not total:
        shape = (*x.shape[:at], total, *x.shape[at + 1 :])
        if total and 0 not in x.shape[:at] + x.shape[at + 1 :]:
            raise IndexOutOfBoundsError(f"repeat: axis {at} of {x.aval} has nothing to repeat.")
        return zeros(ShapedArray(shape, x.dtype))
    counts = broadcast_to_shape(convert(reshape(counts, (counts.size,)), dtype), (n,))
    # Element k begins where those before it end: mark the beginnings and count them.
    ends = METHODS["cumsum"](counts)
    marks = METHODS["index_add"](
        zeros(ShapedArray((total,), dtype)), ends[:-1], scalar(1, dtype), True, False, "drop"
    )
    return take(x, METHODS["cumsum"](marks), at, mode="clip", indices_are_sorted=True)


@api_boundary
def tile(A: ArrayLike, reps: int | Sequence[int]) -> Array:
    """Repeat a whole array along its dimensions, as numpy.tile does."""
    x = array_of("tile", A)
    times = canonical_shape("tile", reps)
    ndim = max(x.ndim, len(times))
    times = (1,) * (ndim - len(times)) + times
    sizes = (1,) * (ndim - x.ndim) + x.shape
    shape = tuple(d for pair in zip(times, sizes, strict=True) for d in pair)
    dims = tuple(2 * i + 1 for i in range(ndim - x.ndim, ndim))
    wide = broadcast_in_dim(x, shape, dims)
    return reshape(wide, tuple(t * n for t, n in zip(times, sizes, strict=True)))


@api_boundary
def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """`values` after arr along an axis; None flattens both first."""
    a, b = promoted("append", (arr, values))
    if axis is None:
        return concatenate_p.bind1(reshape(a, (a.size,)), reshape(b, (b.size,)), dimension=0)
    at = normalize_axis("append", axis, a.ndim)
    return concatenate_p.bind1(a, b, dimension=at)


def _flat_axis(name: str, x: Any, axis: int | None) -> tuple[Any, int]:
    if axis is None:
        return reshape(x, (x.size,)), 0
    return x, normalize_axis(name, axis, x.ndim)


def _places(name: str, obj: Any) -> Any:
    """A known index of insert or delete as NumPy takes it."""
    if isinstance(obj, (slice, int)):
        return obj
    i = (
        array_of(name, obj)
        if not (isinstance(obj, (list, tuple)) and not obj)
        else np.zeros(0, int)
    )
    return needed(name, i, "Use where, or a mask, instead.") if isinstance(i, Array) else i


@api_boundary
def delete(arr: ArrayLike, obj: Any, axis: int | None = None) -> Array:
    """arr without the elements at known places along an axis, as numpy.delete gives it."""
    x, at = _flat_axis("delete", array_of("delete", arr), axis)
    n = x.shape[at]
    try:
        kept = np.delete(np.arange(n, dtype=index_dtype((n,))), _places("delete", obj))
    except IndexError as e:
        raise IndexOutOfBoundsError(f"delete: {e}.") from None
    if not kept.size:
        return slice_in_dim(x, 0, 0, 1, at)
    return take(x, constant(kept), at, mode="clip", indices_are_sorted=True, unique_indices=True)


@api_boundary
def insert(arr: ArrayLike, obj: Any, values: ArrayLike, axis: int | None = None) -> Array:
    """arr with `values` inserted before known places along an axis, as numpy.insert gives it."""
    x, at = _flat_axis("insert", array_of("insert", arr), axis)
    v = convert(array_of("insert", values), x.dtype)
    n = x.shape[at]
    places = _places("insert", obj)
    single = isinstance(places, int) or (isinstance(places, np.ndarray) and places.ndim == 0)
    if single and v.ndim:
        # NumPy: one place takes all the values along the axis.
        v = moveaxis(reshape(v, (1,) * (x.ndim - v.ndim) + v.shape), 0, at)
    m = v.shape[at] if v.ndim == x.ndim else 1
    if not single:
        m = np.arange(n + 1)[places].size if isinstance(places, slice) else np.size(places)
        m = int(places.sum()) if isinstance(places, np.ndarray) and places.dtype == bool else m
    shape = (*x.shape[:at], m, *x.shape[at + 1 :])
    try:
        order = np.insert(np.arange(n), places, np.arange(n, n + m))
    except IndexError as e:
        raise IndexOutOfBoundsError(f"insert: {e}.") from None
    if v.ndim > x.ndim:
        raise ShapeError(f"insert: the values {v.aval} must not exceed the rank of {x.aval}.")
    both = concatenate_p.bind1(x, broadcast_to_shape(v, shape), dimension=at)
    if not order.size:
        return both
    index = order.astype(index_dtype((n + m,)))
    return take(both, constant(index), at, mode="clip", unique_indices=True)
