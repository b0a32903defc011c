"""Kernels of `ops/sorting.py`.

Every sort is stable: CuPy's are. The order is NumPy's: NaN last, -0.0 equal to 0.0, complex numbers
by real, then imaginary part. Several keys are sorted one after the other, the last one first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mgefn.backends.cupy_kernels.base import bits, contiguous, is_narrow, widened
from mgefn.backends.cupy_kernels.indexing import add_at, column
from mgefn.core.cuda import xp


def _keys(x: Any) -> list[Any]:
    """Keys that CuPy sorts as NumPy sorts x, the most important first."""
    if x.dtype.kind == "c":
        return [x.real, x.imag]
    return [x.view(np.uint8) if x.dtype.kind == "b" else widened(x)]


def _order(keys: Sequence[Any]) -> Any:
    """Positions along the last axis in lexicographic order of the keys, as int64."""
    order = None
    for key in reversed([part for x in keys for part in _keys(x)]):
        lines = contiguous(key)
        if order is None:
            order = xp.argsort(lines, axis=-1)
        else:
            lines = xp.take_along_axis(lines, order, axis=-1)
            order = xp.take_along_axis(order, xp.argsort(lines, axis=-1), axis=-1)
    return order


def sort(*operands: Any, dimension: int, num_keys: int, is_stable: bool) -> tuple:
    first = operands[0]
    if first.size == 0 or not first.shape:
        return tuple([x.copy() for x in operands])
    if len(operands) == 1 and first.dtype.kind in "iu":
        return (xp.sort(first, axis=dimension),)
    lines = [x.swapaxes(dimension, -1) for x in operands]
    order = _order(lines[:num_keys])
    sorted_ = [xp.take_along_axis(contiguous(bits(x)), order, axis=-1).view(x.dtype) for x in lines]
    return tuple([x.swapaxes(dimension, -1) for x in sorted_])


def argsort(*keys: Any, dimension: int, is_stable: bool, index_dtype: np.dtype) -> tuple:
    first = keys[0]
    if first.size == 0 or not first.shape:
        return (xp.zeros(first.shape, index_dtype),)
    order = _order([k.swapaxes(dimension, -1) for k in keys])
    return (order.swapaxes(dimension, -1).astype(index_dtype),)


def _flat_positions(index: Any, shape: Sequence[int], dimension: int) -> Any:
    """Positions in a flattened array of this shape from positions along a dimension."""
    flat = index.astype(np.int64) * math.prod(shape[dimension + 1 :])
    for d, n in enumerate(shape):
        if d != dimension:
            flat = flat + column(n, d, len(shape)) * math.prod(shape[d + 1 :])
    return flat


def take_along(x: Any, index: Any, *, dimension: int, unique: bool) -> tuple:
    if index.size == 0:
        return (xp.zeros(index.shape, x.dtype),)
    n = x.shape[dimension]
    flat = _flat_positions(xp.minimum(xp.maximum(index, 0), n - 1), x.shape, dimension)
    return (xp.take(contiguous(bits(x)).reshape(-1), flat).view(x.dtype),)


def put_along(x: Any, index: Any, *, dimension: int, unique: bool, size: int) -> tuple:
    shape = (*x.shape[:dimension], size, *x.shape[dimension + 1 :])
    target = xp.zeros((math.prod(shape),), x.dtype)
    if index.size == 0:
        return (target.reshape(shape),)
    flat = _flat_positions(index, shape, dimension).reshape(-1)
    if unique:
        bits(target)[flat] = bits(x).reshape(-1)
    else:
        target = add_at(target, flat, bits(x).reshape(-1).view(x.dtype))
    return (target.reshape(shape),)


def top_k(x: Any, *, k: int, axis: int) -> tuple:
    lines = x.swapaxes(axis, -1)
    n = lines.shape[-1]
    if k == 0 or x.size == 0:
        shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
        return xp.zeros(shape, x.dtype), xp.zeros(shape, np.int32)
    # Of equal elements the lowest position comes first: sorted backwards, it comes out on top.
    order = _order([bits(lines)[..., ::-1].view(x.dtype)])
    index = (n - 1) - order[..., n - k :][..., ::-1]
    values = xp.take_along_axis(contiguous(bits(lines)), index, axis=-1).view(x.dtype)
    return values.swapaxes(axis, -1), index.swapaxes(axis, -1).astype(np.int32)


def _less(x: Any, y: Any) -> Any:
    """x before y in the order of sort."""
    if x.dtype.kind in "fc":
        return xp.less(x, y) | (xp.isnan(y) & ~xp.isnan(x))
    return xp.less(x, y)


def searchsorted(a: Any, v: Any, *, side: str, batch_dims: int, index_dtype: np.dtype) -> tuple:
    """All values step through the halves of their rows at once."""
    if is_narrow(a.dtype):
        a, v = widened(a), widened(v)
    batch, n = a.shape[:batch_dims], a.shape[-1]
    rest = v.shape[batch_dims:]
    rows = math.prod(batch)
    if v.size == 0 or n == 0:
        return (xp.zeros(v.shape, index_dtype),)
    values = v.reshape((rows, -1))
    flat = a.reshape(-1)
    base = xp.arange(rows).reshape((rows, 1)) * n
    low, high = xp.zeros(values.shape, np.int64), xp.full(values.shape, n, np.int64)
    for _ in range(n.bit_length()):
        middle = (low + high) >> 1
        there = xp.take(flat, base + xp.minimum(middle, n - 1))
        further = _less(there, values) if side == "left" else ~_less(values, there)
        open_ = xp.less(low, high)
        low = xp.where(open_ & further, middle + 1, low)
        high = xp.where(open_ & ~further, middle, high)
    return (low.reshape((*batch, *rest)).astype(index_dtype),)
