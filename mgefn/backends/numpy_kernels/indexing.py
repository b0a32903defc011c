"""Kernels of `ops/indexing/`.

gather and scatter see the operand through a view with one dimension for the start of the window in
each indexed dimension and then the window's own dimensions (`_windows`). NumPy's advanced indexing
over the start dimensions then reads or writes whole windows. Reads where no window is partial, and
sums of single elements, go through one flat index instead, which is several times as fast.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from mgefn.backends.numpy_kernels.base import BUFFER_ELEMENTS, deliver, in_place, temp_bytes
from mgefn.ops.indexing.gather import CLIP, FILL, ScatterDimensionNumbers, window_sizes

# Windows of at least this many elements are added one by one, each in one call; below, one flat
# ufunc.at is up to ten times as fast.
_LOOP_ELEMENTS = 512
# Windows that can't be read in one call of `take` are read this many elements at a time.
_PART_ELEMENTS = 1 << 14
# Python objects of a call, in bytes.
_OBJECTS = 4096


# -- dynamic slices -------------------------------------------------------------------------------


def _clamped(starts: Sequence[Any], shape: Sequence[int], sizes: Sequence[int]) -> tuple:
    index = []
    for s, d, n in zip(starts, shape, sizes, strict=True):
        start = min(max(int(s), 0), d - n)
        index.append(slice(start, start + n))
    return tuple(index)


def dynamic_slice(x, *starts, slice_sizes, outs: tuple = (None,)) -> tuple:
    part = x[_clamped(starts, x.shape, slice_sizes)]
    # A copy also where no block is given: a view would keep all of x alive.
    return (np.array(part) if outs[0] is None else deliver(part, outs[0]),)


@in_place
def dynamic_update_slice(x, u, *starts, outs: tuple = (None,)) -> tuple:
    out = outs[0]
    index = _clamped(starts, x.shape, u.shape)
    if out is None:
        out = np.array(x)
    elif u.shape == x.shape:
        return (deliver(u, out),)
    elif not _same_memory(out, x):
        np.copyto(out, x)
    out[index] = u
    return (out,)


def _same_memory(a: np.ndarray, b: np.ndarray) -> bool:
    return a is b or (
        a.__array_interface__["data"][0] == b.__array_interface__["data"][0]
        and a.strides == b.strides
    )


# -- what gather and scatter share ----------------------------------------------------------------


def _starts(
    indices: np.ndarray,
    shape: tuple[int, ...],
    sizes: tuple[int, ...],
    mapped: Sequence[int],
    batching: Sequence[int],
    indices_batching: Sequence[int],
    check: bool,
) -> tuple[dict[int, np.ndarray], np.ndarray | None]:
    """Operand dim -> starts in bounds, of the indices' batch shape (or one that broadcasts to it).

    With `check` the second result says which windows are inside as they stand; None: all of them.
    Dimensions where only one start is possible are left out.
    """
    starts: dict[int, np.ndarray] = {}
    valid = None
    for k, d in enumerate(mapped):
        top = shape[d] - sizes[d]
        s = indices[..., k]
        if s.dtype == np.uint64:
            s = np.minimum(s, np.uint64(2**63 - 1))
        s = s.astype(np.intp)
        if check and s.size and (s.min() < 0 or s.max() > top):
            inside = np.asarray(s >= 0)
            inside &= s <= top
            valid = inside if valid is None else np.logical_and(valid, inside, out=valid)
        if top > 0:
            np.maximum(s, 0, out=s)
            starts[d] = np.minimum(s, top, out=s)
    rank = indices.ndim - 1
    for d, b in zip(batching, indices_batching, strict=True):
        if shape[d] > 1:
            column = [1] * rank
            column[b] = shape[d]
            starts[d] = np.arange(shape[d]).reshape(column)
    return starts, valid


def _windows(x: np.ndarray, dims: Sequence[int], sizes: Sequence[int], kept: Sequence[int]) -> Any:
    """x[start] -> window: start dims for `dims`, then the window in the dims `kept`."""
    shape = [x.shape[d] - sizes[d] + 1 for d in dims] + [sizes[d] for d in kept]
    strides = [x.strides[d] for d in dims] + [x.strides[d] for d in kept]
    return as_strided(x, shape, strides, writeable=x.flags.writeable)


def _flat(starts: Sequence[np.ndarray], sizes: Sequence[int], batch: tuple[int, ...]) -> np.ndarray:
    """Row-major index into dimensions `sizes`, of the whole batch shape."""
    if len(starts) == 1 and starts[0].shape == batch:
        return starts[0]
    flat = np.empty(batch, np.intp)
    flat[...] = starts[0]
    for s, n in zip(starts[1:], sizes[1:], strict=True):
        flat *= n
        flat += s
    return flat


def merged_order(rank: int, window_dims: Sequence[int]) -> list[int]:
    """For each dimension of the merged layout its place in the layout (batch, window)."""
    n_batch = rank - len(window_dims)
    batch, window = iter(range(n_batch)), iter(range(n_batch, rank))
    return [next(window) if i in window_dims else next(batch) for i in range(rank)]


def _index_bytes(indices: Any, columns: int) -> int:
    n = math.prod(indices.shape[:-1])
    # A start for each column, the flat index, and masks; large unsigned ones are cut first.
    cut = 8 * n if indices.dtype.name == "uint64" else 0
    return n * 8 * (columns + (columns > 1)) + 4 * n + cut + _OBJECTS


# -- gather ---------------------------------------------------------------------------------------


def _gather_temp(in_avals: Any, out_avals: Any, *, dimension_numbers, **params: Any) -> int:
    indices, out = in_avals[1], out_avals[0]
    dn = dimension_numbers
    columns = len(dn.start_index_map) + len(dn.operand_batching_dims)
    batch = indices.shape[:-1]
    read = 0
    if merged_order(out.ndim, dn.offset_dims) != list(range(out.ndim)):
        read = out.nbytes
    elif batch:
        # Windows that are not read straight into the block are read a part at a time.
        read = max(_PART_ELEMENTS * out.dtype.itemsize, out.nbytes // max(batch[0], 1))
    return min(read, out.nbytes) + _index_bytes(indices, columns)


@temp_bytes(_gather_temp)
def gather(x, indices, *, dimension_numbers, slice_sizes, mode, fill_value, indices_are_sorted,
           unique_indices, outs: tuple = (None,)) -> tuple:  # fmt: skip
    dn = dimension_numbers
    left_out = {*dn.collapsed_slice_dims, *dn.operand_batching_dims}
    kept = [d for d in range(x.ndim) if d not in left_out]
    batch = indices.shape[:-1]
    window = tuple(slice_sizes[d] for d in kept)
    order = merged_order(len(batch) + len(kept), dn.offset_dims)
    straight = order == list(range(len(order)))
    if 0 in batch or 0 in window:
        full = batch + window
        return (np.empty(tuple(full[i] for i in order), x.dtype) if outs[0] is None else outs[0],)
    starts, valid = _starts(
        indices,
        x.shape,
        slice_sizes,
        dn.start_index_map,
        dn.operand_batching_dims,
        dn.start_indices_batching_dims,
        mode is FILL,
    )
    dims = sorted(starts)
    if any(slice_sizes[d] < x.shape[d] and d not in starts for d in range(x.ndim)):
        # What is not indexed is read from its start.
        x = x[tuple(slice(None if d in starts else n) for d, n in enumerate(slice_sizes))]
    out = outs[0]
    block = out if out is not None and straight and out.flags.c_contiguous else None
    if not dims:
        value = x.reshape(window)
        read = np.empty(batch + window, x.dtype) if block is None else block
        read[...] = value
    elif x.flags.c_contiguous and all(slice_sizes[d] == 1 for d in dims) and _leading(dims, x):
        last = dims[-1] + 1
        sizes = [x.shape[d] for d in range(last) if d in starts]
        flat = _flat([starts[d] for d in dims], sizes, batch)
        rest = math.prod(x.shape[last:])
        rows = x.reshape((math.prod(x.shape[:last]), rest))
        into = None if block is None else block.reshape((*batch, rest))
        read = np.take(rows, flat, axis=0, out=into, mode="clip").reshape(batch + window)
    else:
        at = tuple(starts[d] for d in dims)
        view = _windows(x, dims, slice_sizes, kept)
        if all(s.shape != batch for s in at):
            at = (np.broadcast_to(at[0], batch), *at[1:])
        read = _read(view, at, batch + window, None if block is None else block)
    if valid is not None:
        miss = np.logical_not(valid).reshape(batch + (1,) * len(window))
        np.copyto(read, np.asarray(fill_value).astype(x.dtype), where=miss)
    if not straight:
        read = read.transpose(order)
    return (read if out is None else deliver(read, out),)


def _read(
    view: np.ndarray, at: tuple, shape: tuple[int, ...], block: np.ndarray | None
) -> np.ndarray:
    """The windows at the starts `at`; into the block by parts, so that no copy of all is made."""
    if block is None:
        return view[at]
    target = block.reshape(shape)
    if not at[0].shape:
        target[...] = view[(*map(int, at), ...)]
        return target
    n = shape[0]
    step = max(1, _PART_ELEMENTS // math.prod(shape[1:]))
    for k in range(0, n, step):
        part = tuple(s[k : k + step] if s.shape[0] == n else s for s in at)
        target[k : k + step] = view[part]
    return target


def _leading(dims: Sequence[int], x: np.ndarray) -> bool:
    """Are the dimensions all those before some place, except for ones of size 1?"""
    return all(d in dims or x.shape[d] == 1 for d in range(dims[-1]))


# -- scatter --------------------------------------------------------------------------------------


def _scatter_temp(in_avals: Any, out_avals: Any, *, dimension_numbers, **params: Any) -> int:
    x, indices, u = in_avals
    columns = len(dimension_numbers.scatter_dims_to_operand_dims) + len(
        dimension_numbers.operand_batching_dims
    )
    n = math.prod(indices.shape[:-1])
    # Updates and starts are copied where some are dropped; ufunc.at has buffers of its own.
    narrow = x.dtype.itemsize <= 2
    total = _index_bytes(indices, columns) + 8 * n * columns + (4 * u.size if narrow else u.nbytes)
    if 1 < u.size // max(n, 1) < _LOOP_ELEMENTS:
        total += 8 * u.size  # flat indices of all elements
    total += BUFFER_ELEMENTS * (8 + max(4, x.dtype.itemsize))
    if narrow:
        total += 4 * x.size + 4 * u.size
    return total


class Scatter:
    """The kernel of a scatter primitive.

    Args:
        ufunc: combines what is there with the update, 2-byte floats in float32; None writes the
            update.
    """

    in_place = (0,)  # over the updates it would need a copy of them

    def __init__(self, ufunc: Any):
        self.ufunc = ufunc
        self.temp_bytes = _scatter_temp

    def __call__(
        self,
        x: np.ndarray,
        indices: np.ndarray,
        u: np.ndarray,
        *,
        dimension_numbers: ScatterDimensionNumbers,
        mode: Any,
        indices_are_sorted: bool,
        unique_indices: bool,
        outs: tuple = (None,),
    ) -> tuple:
        dn = dimension_numbers
        out = outs[0]
        narrow = self.ufunc is not None and x.dtype.itemsize <= 2 and x.dtype.kind in "fV"
        if narrow:
            # float16 and bfloat16: sums and products in float32, and bfloat16 has no fast loops.
            target = x.astype(np.float32)
            u = u.astype(np.float32)
        elif out is None:
            target = np.array(x, order="C")
        else:
            if not _same_memory(out, x):
                if np.may_share_memory(out, u):
                    u = np.array(u)
                if np.may_share_memory(out, indices):
                    indices = np.array(indices)
                np.copyto(out, x)
            target = out
        if u.size:
            self._write(target, indices, u, dn, mode)
        if narrow:
            return (target.astype(x.dtype) if out is None else deliver(target, out),)
        return (target,)

    def _write(self, target, indices, u, dn, mode) -> None:
        sizes = window_sizes(target.shape, u.shape, dn)
        left_out = {*dn.inserted_window_dims, *dn.operand_batching_dims}
        kept = [d for d in range(target.ndim) if d not in left_out]
        batch = indices.shape[:-1]
        starts, valid = _starts(
            indices,
            target.shape,
            sizes,
            dn.scatter_dims_to_operand_dims,
            dn.operand_batching_dims,
            dn.scatter_indices_batching_dims,
            mode is not CLIP,
        )
        # The updates as (batch, window).
        order = merged_order(u.ndim, dn.update_window_dims)
        inverse = [0] * u.ndim
        for i, p in enumerate(order):
            inverse[p] = i
        u = u.transpose(inverse)
        dims = sorted(starts)
        if valid is not None:
            u = u[valid]
            starts = {d: np.broadcast_to(s, batch)[valid] for d, s in starts.items()}
            batch = u.shape[:1]
            if not u.size:
                return
        window = u.shape[len(batch) :]
        view = _windows(target, dims, sizes, kept)
        at = tuple(starts[d] for d in dims)
        n = math.prod(batch)
        if n == 1:
            # The Ellipsis keeps a single element an array.
            place = view[(*(int(s.reshape(())) for s in at), ...)]
            if self.ufunc is None:
                place[...] = u.reshape(window)
            else:
                self.ufunc(place, u.reshape(window), out=place)
            return
        if self.ufunc is None:
            if not at:
                view[...] = u[(-1,) * len(batch)]  # all write one place; the last one stays
                return
            if all(s.shape != batch for s in at):
                at = (np.broadcast_to(at[0], batch), *at[1:])
            view[at] = u
            return
        if not at:
            for row in u.reshape((n, *window)):
                self.ufunc(view, row, out=view)
            return
        w = math.prod(window)
        if w >= _LOOP_ELEMENTS or not target.flags.c_contiguous:
            columns = [np.broadcast_to(s, batch).reshape(-1).tolist() for s in at]
            rows = u.reshape((n, *window))
            for i, index in enumerate(zip(*columns, strict=True)):
                place = view[(*index, ...)]
                self.ufunc(place, rows[i], out=place)
            return
        item = target.itemsize
        flat = None
        for d, s in zip(dims, at, strict=True):
            s *= target.strides[d] // item  # an array of our own
            if flat is None and s.shape == batch:
                flat = s
            elif flat is None:
                flat = np.zeros(batch, np.intp)
                flat += s
            else:
                flat += s
        del at, starts
        assert flat is not None, "there is an indexed dimension"
        if w > 1:
            offsets = np.zeros(window, np.intp)
            for axis, d in enumerate(kept):
                column = [1] * len(window)
                column[axis] = window[axis]
                offsets += np.arange(window[axis]).reshape(column) * (target.strides[d] // item)
            flat = np.add.outer(flat.reshape(-1), offsets.reshape(-1))
        self.ufunc.at(target.reshape(-1), flat.reshape(-1), u.reshape(-1))


scatter = Scatter(None)
scatter_add = Scatter(np.add)
scatter_mul = Scatter(np.multiply)
scatter_min = Scatter(np.minimum)
scatter_max = Scatter(np.maximum)
