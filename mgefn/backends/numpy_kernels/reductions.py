"""Kernels of `ops/reductions/`.

float16 and bfloat16 are summed in float32. NumPy adds pairwise along the axis that lies innermost
in memory and one by one along the others, where long float sums lose digits; along those the sum is
formed in blocks.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.backends.numpy_kernels.base import BUFFER_ELEMENTS, deliver, temp_bytes
from mgefn.ops.reductions import highest, lowest

BLOCK = 128  # elements added one by one before they count as one
LANES = 512  # sums formed side by side where a matrix has few columns


def _accumulate(ufunc: Any, x: np.ndarray, axes: tuple[int, ...], out: Any) -> np.ndarray:
    """A sum or product over axes, in the accumulator's dtype on the way."""
    wide = dtypes.accumulator(x.dtype)
    reduce = _blocked_sum if ufunc is np.add and wide.kind in "fc" else ufunc.reduce
    if wide == x.dtype:
        return reduce(x, axes, wide, out)
    total = np.asarray(reduce(x, axes, wide, None))
    return total.astype(x.dtype) if out is None else deliver(total, out)


def _blocked_sum(x: np.ndarray, axes: tuple[int, ...], dtype: np.dtype, out: Any) -> Any:
    """numpy.add.reduce, with never more than about 2 BLOCK elements added one by one."""
    if x.size < 2 * BLOCK or not axes:
        return np.add.reduce(x, axes, dtype, out)
    if x.ndim > 2 and x.flags.c_contiguous:
        return _joined_sum(x, axes, dtype, out)
    return _split_sum(x, axes, dtype, out)


def _split_sum(x: np.ndarray, axes: tuple[int, ...], dtype: np.dtype, out: Any) -> Any:
    """The blocked sum, block by block where NumPy would go one by one."""
    if x.ndim == 2 and axes == (0,) and 1 < x.shape[1] <= LANES // 4 and x.flags.c_contiguous:
        return _narrow_sum(x, dtype, out)
    if len(axes) == x.ndim and (x.flags.c_contiguous or x.flags.f_contiguous):
        return np.add.reduce(x, axes, dtype, out)
    innermost = min(
        (i for i in range(x.ndim) if x.shape[i] > 1), key=lambda i: (abs(x.strides[i]), -i)
    )
    outer = [a for a in axes if a != innermost]
    if math.prod([x.shape[a] for a in outer]) < 2 * BLOCK:
        return np.add.reduce(x, axes, dtype, out)
    if innermost in axes and x.shape[innermost] >= BLOCK:
        rows = np.add.reduce(x, innermost, dtype)
        return _blocked_sum(rows, tuple(a - (a > innermost) for a in outer), dtype, out)
    axis = max(outer, key=lambda a: x.shape[a])
    n = x.shape[axis]
    others = math.prod([x.shape[a] for a in axes if a != axis])
    block = max(1, BLOCK // others)
    whole, rest = divmod(n, block)
    place = axis - sum(a < axis for a in axes)  # where the axis of blocks stands in their sums
    kept = [d for i, d in enumerate(x.shape) if i not in axes]
    sums = np.empty((*kept[:place], whole + (rest > 0), *kept[place:]), dtype)
    lead, at = (slice(None),) * axis, (slice(None),) * place
    head = x[(*lead, slice(0, whole * block))].reshape(
        (*x.shape[:axis], whole, block, *x.shape[axis + 1 :])
    )
    inner = tuple(a if a < axis else a + 1 for a in axes)  # `axis` itself becomes the block's
    _blocked_sum(head, inner, dtype, sums[(*at, slice(0, whole))])
    if rest:
        tail = x[(*lead, slice(whole * block, n))]
        _blocked_sum(tail, axes, dtype, sums[(*at, whole, ...)])
    return _blocked_sum(sums, (place,), dtype, out)


def _narrow_sum(x: np.ndarray, dtype: np.dtype, out: Any) -> Any:
    """The sum over the rows of a matrix with few columns, many rows laid side by side.

    NumPy's inner loop runs over the columns, and starting it costs more than a few additions.
    """
    n, columns = x.shape
    rows = LANES // columns
    whole = n // rows
    if whole < 8:
        return np.add.reduce(x, 0, dtype, out)
    side_by_side = x[: whole * rows].reshape((whole, rows * columns))
    lanes = _split_sum(side_by_side, (0,), dtype, None).reshape((rows, columns))
    total = np.add.reduce(lanes, 0, dtype, out)
    if whole * rows < n:
        total += np.add.reduce(x[whole * rows :], 0, dtype)
    return total


def _joined_sum(x: np.ndarray, axes: tuple[int, ...], dtype: np.dtype, out: Any) -> Any:
    """The blocked sum of a contiguous array, neighbouring axes of one fate taken as one."""
    shape: list[int] = []
    summed: list[bool] = []
    for i, n in enumerate(x.shape):
        if summed and summed[-1] == (i in axes):
            shape[-1] *= n
        else:
            shape.append(n)
            summed.append(i in axes)
    joined = tuple(i for i, s in enumerate(summed) if s)
    kept = tuple(n for i, n in enumerate(x.shape) if i not in axes)
    if len(shape) == x.ndim or (out is not None and not out.flags.c_contiguous):
        return _split_sum(x, axes, dtype, out)
    flat = (
        None
        if out is None
        else out.reshape([n for n, s in zip(shape, summed, strict=True) if not s])
    )
    total = _split_sum(x.reshape(shape), joined, dtype, flat)
    return np.asarray(total).reshape(kept) if out is None else out


def _accumulator_bytes(in_avals: Any, out_avals: Any, *, axes: tuple[int, ...]) -> int:
    x, out = in_avals[0], out_avals[0]
    wide = dtypes.accumulator(x.dtype).itemsize
    scratch = 0
    if wide != x.dtype.itemsize:
        scratch += out.size * (wide + x.dtype.itemsize) + BUFFER_ELEMENTS * (wide + 2) + 4096
    count = math.prod([x.shape[a] for a in axes])
    if count >= 2 * BLOCK and x.dtype.kind not in "iub":
        # The blocks' sums, of one axis or, where blocks of several are short, of two in turn.
        blocks = count // BLOCK if len(axes) == 1 else 4 * count // BLOCK
        scratch += out.size * wide * (blocks + blocks // BLOCK + 4) + 2 * LANES * wide + 4096
    return scratch


@temp_bytes(_accumulator_bytes)
def reduce_sum(x, *, axes, outs: tuple = (None,)) -> tuple:
    return (_accumulate(np.add, x, axes, outs[0]),)


@temp_bytes(_accumulator_bytes)
def reduce_prod(x, *, axes, outs: tuple = (None,)) -> tuple:
    return (_accumulate(np.multiply, x, axes, outs[0]),)


def _extremum(ufunc: Any, identity: Any, x: np.ndarray, axes: tuple[int, ...], out: Any) -> Any:
    if any(x.shape[a] == 0 for a in axes):
        shape = tuple(n for i, n in enumerate(x.shape) if i not in axes)
        out = np.empty(shape, x.dtype) if out is None else out
        out[...] = np.asarray(identity(x.dtype)).astype(x.dtype)
        return out
    return ufunc.reduce(x, axis=axes, out=out)


def reduce_max(x, *, axes, outs: tuple = (None,)) -> tuple:
    return (_extremum(np.maximum, lowest, x, axes, outs[0]),)


def reduce_min(x, *, axes, outs: tuple = (None,)) -> tuple:
    return (_extremum(np.minimum, highest, x, axes, outs[0]),)


def reduce_and(x, *, axes, outs: tuple = (None,)) -> tuple:
    return (np.bitwise_and.reduce(x, axis=axes, dtype=x.dtype, out=outs[0]),)


def reduce_or(x, *, axes, outs: tuple = (None,)) -> tuple:
    return (np.bitwise_or.reduce(x, axis=axes, dtype=x.dtype, out=outs[0]),)


def reduce_xor(x, *, axes, outs: tuple = (None,)) -> tuple:
    return (np.bitwise_xor.reduce(x, axis=axes, dtype=x.dtype, out=outs[0]),)


def _argument_bytes(in_avals: Any, out_avals: Any, *, axes: tuple[int, ...], **params: Any) -> int:
    x, out = in_avals[0], out_avals[0]
    # NumPy searches a contiguous copy unless the axis is already the innermost one in memory, which
    # a type does not tell.
    return x.nbytes + 8 * out.size + out.nbytes


@temp_bytes(_argument_bytes)
def argmax(x, *, axes, index_dtype, outs: tuple = (None,)) -> tuple:
    found = np.asarray(np.argmax(x, axis=axes[0]))
    return (found.astype(index_dtype) if outs[0] is None else deliver(found, outs[0]),)


@temp_bytes(_argument_bytes)
def argmin(x, *, axes, index_dtype, outs: tuple = (None,)) -> tuple:
    found = np.asarray(np.argmin(x, axis=axes[0]))
    return (found.astype(index_dtype) if outs[0] is None else deliver(found, outs[0]),)
