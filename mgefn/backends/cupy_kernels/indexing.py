"""Kernels of `ops/indexing/`.

Windows become flat positions of their elements, which one take reads and one atomic operation adds
to. Starts stay on the device. A place past the end of the flat memory takes what is dropped.

Sums are atomic additions, whose order, and so whose last bits, differ from call to call. Extrema
are atomic operations on integers in the order of the numbers, NaN on the side that wins; products
are formed by doubling over sorted positions, CuPy having no atomic product. Where windows overlap,
a plain scatter writes the last one: all of these give the same bits on every call.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mgefn.backends.cupy_kernels.base import bits, contiguous, is_narrow, widened
from mgefn.backends.numpy_kernels.indexing import merged_order
from mgefn.core.cuda import cupyx, xp
from mgefn.ops.indexing.gather import CLIP, FILL, window_sizes

# -- positions ------------------------------------------------------------------------------------


def steps_of(shape: Sequence[int]) -> list[int]:
    """Elements from one index to the next in each dimension, in C order."""
    return [math.prod(shape[d + 1 :]) for d in range(len(shape))]


def column(count: int, dimension: int, rank: int) -> Any:
    """0, 1, ..., count - 1 along one of `rank` dimensions."""
    return xp.arange(count).reshape([count if i == dimension else 1 for i in range(rank)])


def _block(shape: Sequence[int], starts: Sequence[Any], sizes: Sequence[int]) -> Any:
    """Flat positions of one window of an array, its starts (rank 0, on the device) clamped."""
    rank = len(shape)
    flat = xp.zeros((), np.int64)
    for d, (n, start, size, step) in enumerate(
        zip(shape, starts, sizes, steps_of(shape), strict=True)
    ):
        if start.dtype == np.uint64:
            start = xp.minimum(start, 2**63 - 1)
        first = xp.minimum(xp.maximum(start.astype(np.int64), 0), n - size)
        flat = flat + (column(size, d, rank) + first) * step
    return xp.broadcast_to(flat, tuple(sizes))


def dynamic_slice(x: Any, *starts: Any, slice_sizes: tuple[int, ...]) -> tuple:
    if 0 in slice_sizes:
        return (xp.zeros(slice_sizes, x.dtype),)
    found = xp.take(bits(x).reshape(-1), _block(x.shape, starts, slice_sizes))
    return (found.view(x.dtype),)


def dynamic_update_slice(x: Any, u: Any, *starts: Any) -> tuple:
    out = bits(x).copy(order="C")
    if u.size:
        out.reshape(-1)[_block(x.shape, starts, u.shape).reshape(-1)] = bits(u).reshape(-1)
    return (out.view(x.dtype),)


def _starts(
    indices: Any,
    shape: tuple[int, ...],
    sizes: Sequence[int],
    mapped: Sequence[int],
    batching: Sequence[int],
    indices_batching: Sequence[int],
    check: bool,
) -> tuple[Any, Any]:
    """Flat positions where windows start, and which windows are inside (None: not asked)."""
    batch = indices.shape[:-1]
    steps = steps_of(shape)
    flat, valid = xp.zeros(batch, np.int64), None
    for k, d in enumerate(mapped):
        top = shape[d] - sizes[d]
        start = indices[..., k]
        if start.dtype == np.uint64:
            start = xp.minimum(start, 2**63 - 1)
        start = start.astype(np.int64)
        if check:
            inside = xp.greater_equal(start, 0) & xp.less_equal(start, top)
            valid = inside if valid is None else valid & inside
        flat = flat + xp.minimum(xp.maximum(start, 0), top) * steps[d]
    for d, b in zip(batching, indices_batching, strict=True):
        flat = flat + column(shape[d], b, len(batch)) * steps[d]
    return flat, valid


def _offsets(shape: Sequence[int], sizes: Sequence[int], kept: Sequence[int]) -> Any:
    """Flat positions within a window, of the shape of its kept dimensions."""
    steps = steps_of(shape)
    flat = xp.zeros((), np.int64)
    for i, d in enumerate(kept):
        flat = flat + column(sizes[d], i, len(kept)) * steps[d]
    return xp.broadcast_to(flat, tuple(sizes[d] for d in kept))


# -- gather ---------------------------------------------------------------------------------------


def gather(
    x: Any,
    indices: Any,
    *,
    dimension_numbers: Any,
    slice_sizes: tuple[int, ...],
    mode: Any,
    fill_value: Any,
    indices_are_sorted: bool,
    unique_indices: bool,
) -> tuple:
    dn = dimension_numbers
    left_out = {*dn.collapsed_slice_dims, *dn.operand_batching_dims}
    kept = [d for d in range(x.ndim) if d not in left_out]
    batch = indices.shape[:-1]
    window = tuple(slice_sizes[d] for d in kept)
    order = merged_order(len(batch) + len(kept), dn.offset_dims)
    if 0 in batch or 0 in window:
        full = batch + window
        return (xp.zeros(tuple(full[i] for i in order), x.dtype),)
    at, valid = _starts(
        indices, x.shape, slice_sizes, dn.start_index_map, dn.operand_batching_dims,
        dn.start_indices_batching_dims, mode is FILL,
    )  # fmt: skip
    raw = contiguous(bits(x)).reshape(-1)
    lead = max((d + 1 for d in range(x.ndim) if slice_sizes[d] != x.shape[d]), default=0)
    rest = math.prod(x.shape[lead:])
    whole = [d for d in kept if d >= lead]
    rows = math.prod(slice_sizes[:lead]) == 1 and all(d in kept for d in range(lead, x.ndim))
    if rows and whole == kept[len(kept) - len(whole) :]:
        # Windows are whole rows of a matrix: one index a row.
        read = xp.take(raw.reshape((-1, rest)), at // rest if rest > 1 else at, axis=0)
        read = read.reshape(batch + window)
    else:
        places = at.reshape(batch + (1,) * len(window)) + _offsets(x.shape, slice_sizes, kept)
        read = xp.take(raw, places)
    if valid is not None:
        fill = bits_of(fill_value, x.dtype)
        read = xp.where(valid.reshape(batch + (1,) * len(window)), read, fill)
    return (read.view(x.dtype).transpose(order),)


def bits_of(value: Any, dtype: np.dtype) -> Any:
    """A number of a dtype as a NumPy scalar, in the dtype that `bits` gives."""
    made = np.asarray(value).astype(dtype)
    return (made.view(np.uint16) if dtype.kind == "V" else made)[()]


# -- atomic operations ----------------------------------------------------------------------------


def add_at(target: Any, flat: Any, values: Any) -> Any:
    """target (one dimension) with values added at flat positions; may write over target."""
    dtype = target.dtype
    if dtype.kind == "c":
        part = np.dtype(np.float32 if dtype.itemsize == 8 else np.float64)
        pairs, parts = target.view(part), contiguous(values).view(part)
        cupyx.scatter_add(pairs, flat * 2, parts[::2])
        cupyx.scatter_add(pairs, flat * 2 + 1, parts[1::2])
        return target
    if dtype.kind == "b":
        counted = target.astype(np.int32)
        cupyx.scatter_add(counted, flat, values.astype(np.int32))
        return xp.not_equal(counted, 0)
    if is_narrow(dtype):
        wide = target.astype(np.float32)
        cupyx.scatter_add(wide, flat, values.astype(np.float32))
        return wide.astype(dtype)
    if dtype.kind in "iu" and dtype.itemsize < 4:
        wide = target.astype(np.int32)
        cupyx.scatter_add(wide, flat, values.astype(np.int32))
        return wide.astype(dtype)
    if dtype == np.int64:  # addition does not know of signs
        cupyx.scatter_add(target.view(np.uint64), flat, contiguous(values).view(np.uint64))
    else:
        cupyx.scatter_add(target, flat, values)
    return target


def ordered_words(x: Any, nan_is: str = "last") -> Any:
    """uint32 or uint64 in the order of real numbers; NaN first or last, -0.0 before 0.0."""
    x = widened(x)
    kind, size = x.dtype.kind, x.dtype.itemsize
    if kind in "bu":
        return x.astype(np.uint64 if size == 8 else np.uint32)
    word = np.dtype(f"i{max(size, 4)}")
    unsigned = np.dtype(f"u{word.itemsize}")
    least = np.iinfo(word).min
    if kind == "i":
        return (x.astype(word) ^ least).view(unsigned)
    raw = contiguous(x).view(word)
    # Negative floats count backwards: flip all bits of them, and the sign bit of the others.
    flipped = (raw ^ ((raw >> (8 * word.itemsize - 1)) | least)).view(unsigned)
    end = np.iinfo(unsigned).max if nan_is == "last" else 0
    return xp.where(xp.isnan(x), unsigned.type(end), flipped)


def from_ordered_words(words: Any, dtype: np.dtype) -> Any:
    """The numbers that `ordered_words` was given."""
    if dtype.kind in "bu":
        return words.astype(dtype)
    size = max(dtype.itemsize, 4)
    word = np.dtype(f"i{size}")
    least = np.iinfo(word).min
    signed = words.view(word)
    if dtype.kind == "i":
        return (signed ^ least).astype(dtype)
    # What was positive has the top bit set now.
    raw = xp.where(xp.less(signed, 0), signed ^ least, ~signed)
    return raw.view(np.dtype(f"f{size}")).astype(dtype, copy=False)


def _extreme_at(name: str, target: Any, flat: Any, values: Any) -> Any:
    if target.dtype.kind == "c":
        return _joined_at("maximum" if name == "scatter_max" else "minimum", target, flat, values)
    nan = "last" if name == "scatter_max" else "first"
    words = ordered_words(target, nan)
    getattr(cupyx, name)(words, flat, ordered_words(values, nan))
    return from_ordered_words(words, target.dtype)


def _joined_at(name: str, target: Any, flat: Any, values: Any) -> Any:
    """target with values joined at flat positions by any associative ufunc.

    Values of one place stand beside each other once sorted. After the steps of doubling the first
    of them holds all that come behind it up to the end of the place.
    """
    ufunc = getattr(xp, name)
    n = flat.shape[0]
    order = xp.argsort(flat)
    places = xp.take(flat, order)
    joined = widened(xp.take(bits(values), order).view(values.dtype))
    step = 1
    while step < n:
        same = xp.equal(places[: n - step], places[step:])
        head = joined[: n - step]
        head = xp.where(same, ufunc(head, joined[step:]), head)
        joined = xp.concatenate([head, joined[n - step :]])
        step *= 2
    first = xp.concatenate([xp.ones((1,), bool), xp.not_equal(places[1:], places[:-1])])
    # All others go to the place past the end, which is dropped.
    spare = target.shape[0] - 1
    places = xp.where(first, places, np.int64(spare))
    there = widened(xp.take(bits(target), places).view(target.dtype))
    made = ufunc(there, joined).astype(target.dtype, copy=False)
    bits(target)[places] = bits(made)
    return target


def _write_at(target: Any, flat: Any, values: Any, unique: bool) -> Any:
    raw, values = bits(target), bits(values)
    if not unique and flat.shape[0] > 1:
        # Of several values for one place the last one stays: it writes, the others go past the end.
        number = xp.arange(flat.shape[0]).astype(np.uint64)
        last = xp.zeros(raw.shape, np.uint64)
        cupyx.scatter_max(last, flat, number)
        flat = xp.where(xp.equal(xp.take(last, flat), number), flat, np.int64(raw.shape[0] - 1))
    raw[flat] = values
    return target


# -- scatter --------------------------------------------------------------------------------------


class Scatter:
    """The kernel of a scatter primitive.

    Args:
        how: "write", "add", "mul", "min" or "max".
    """

    def __init__(self, how: str):
        self.how = how

    def __call__(
        self,
        x: Any,
        indices: Any,
        u: Any,
        *,
        dimension_numbers: Any,
        mode: Any,
        indices_are_sorted: bool,
        unique_indices: bool,
    ) -> tuple:
        if not u.size:
            return (x.copy(order="C"),)
        dn = dimension_numbers
        sizes = window_sizes(x.shape, u.shape, dn)
        left_out = {*dn.inserted_window_dims, *dn.operand_batching_dims}
        kept = [d for d in range(x.ndim) if d not in left_out]
        batch = indices.shape[:-1]
        at, valid = _starts(
            indices, x.shape, sizes, dn.scatter_dims_to_operand_dims, dn.operand_batching_dims,
            dn.scatter_indices_batching_dims, mode is not CLIP,
        )  # fmt: skip
        order = merged_order(u.ndim, dn.update_window_dims)
        inverse = [0] * u.ndim
        for i, p in enumerate(order):
            inverse[p] = i
        ones = (1,) * len(kept)
        places = at.reshape(batch + ones) + _offsets(x.shape, sizes, kept)
        if valid is not None:
            places = xp.where(valid.reshape(batch + ones), places, np.int64(x.size))
        flat = xp.broadcast_to(places, batch + tuple(sizes[d] for d in kept)).reshape(-1)
        values = bits(u).transpose(inverse).reshape(-1).view(u.dtype)
        target = xp.zeros((x.size + 1,), bits(x).dtype)
        target[:-1] = bits(x).reshape(-1)
        target = target.view(x.dtype)
        if self.how == "write":
            made = _write_at(target, flat, values, unique_indices and valid is None)
        elif self.how == "add":
            made = add_at(target, flat, values)
        elif self.how == "mul":
            made = _joined_at("multiply", target, flat, values)
        else:
            made = _extreme_at(f"scatter_{self.how}", target, flat, values)
        return (made[:-1].reshape(x.shape),)


scatter, scatter_add, scatter_mul = Scatter("write"), Scatter("add"), Scatter("mul")
scatter_min, scatter_max = Scatter("min"), Scatter("max")
