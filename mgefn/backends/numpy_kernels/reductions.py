"""Kernels of `ops/reductions.py`.

float16 and bfloat16 are summed in float32. NumPy adds pairwise along the axis that lies innermost
in memory and one by one along the others, where long float sums lose digits; along those the sum is
formed in blocks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.backends.numpy_kernels.base import BUFFER_ELEMENTS, deliver, temp_bytes
from mgefn.ops.reductions import highest, lowest

BLOCK = 128  # elements added one by one before they count as one


def _accumulate(ufunc: Any, x: np.ndarray, axes: tuple[int, ...], out: Any) -> np.ndarray:
    """A sum or product over axes, in the accumulator's dtype on the way."""
    wide = dtypes.accumulator(x.dtype)
    if wide != x.dtype:
        total = np.asarray(_blocked(ufunc, x, axes, wide, None))
        return total.astype(x.dtype) if out is None else deliver(total, out)
    return _blocked(ufunc, x, axes, wide, out)


def _blocked(ufunc: Any, x: np.ndarray, axes: tuple[int, ...], dtype: np.dtype, out: Any) -> Any:
    axis = _sequential_axis(x, axes) if ufunc is np.add and dtype.kind in "fc" else None
    if axis is None:
        return ufunc.reduce(x, axis=axes, dtype=dtype, out=out)
    n = x.shape[axis]
    whole, rest = divmod(n, BLOCK)
    before = sum(a < axis for a in axes)  # where the axis of blocks stands in the partial sums
    kept = [d for i, d in enumerate(x.shape) if i not in axes]
    place = axis - before
    partial = np.empty((*kept[:place], whole + (rest > 0), *kept[place:]), dtype)
    lead = (slice(None),) * axis
    head = x[(*lead, slice(0, whole * BLOCK))].reshape(
        (*x.shape[:axis], whole, BLOCK, *x.shape[axis + 1 :])
    )
    inner = tuple(a if a < axis else a + 1 for a in axes)  # `axis` itself becomes BLOCK's
    at = (slice(None),) * place
    ufunc.reduce(head, axis=inner, dtype=dtype, out=partial[(*at, slice(0, whole))])
    if rest:
        tail = x[(*lead, slice(whole * BLOCK, n))]
        ufunc.reduce(tail, axis=axes, dtype=dtype, out=partial[(*at, whole, ...)])
    return _blocked(ufunc, partial, (place,), dtype, out)


def _sequential_axis(x: np.ndarray, axes: tuple[int, ...]) -> int | None:
    """The long reduced axis along which NumPy would add one by one, if there is one."""
    if x.size < 2 * BLOCK or not axes:
        return None
    axis = max(axes, key=lambda a: x.shape[a])
    if x.shape[axis] < 2 * BLOCK:
        return None
    if len(axes) == x.ndim and (x.flags.c_contiguous or x.flags.f_contiguous):
        return None
    innermost = min(
        (i for i in range(x.ndim) if x.shape[i] > 1), key=lambda i: (abs(x.strides[i]), -i)
    )
    return None if innermost == axis else axis


def _accumulator_bytes(in_avals: Any, out_avals: Any, *, axes: tuple[int, ...]) -> int:
    x, out = in_avals[0], out_avals[0]
    wide = dtypes.accumulator(x.dtype).itemsize
    scratch = 0
    if wide != x.dtype.itemsize:
        scratch += out.size * (wide + x.dtype.itemsize) + BUFFER_ELEMENTS * (wide + 2)
    longest = max((x.shape[a] for a in axes), default=0)
    if longest >= 2 * BLOCK and x.dtype.kind not in "iub":
        # The blocks' sums, and the blocks of these.
        scratch += out.size * wide * (longest // BLOCK + longest // BLOCK**2 + 2)
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
