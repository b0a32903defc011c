"""Kernels of `ops/sorting.py`.

The order is that of NumPy: NaN last, -0.0 equal to 0.0, complex numbers by real, then imaginary
part. NumPy's vectorised sort is ten times as fast as its stable one, so stability is had from it:
keys of up to 32 bits are packed with their position into 64 bits, which makes all of them
different; 64-bit floats are sorted and looked through for equal neighbours, which are rare, and
only then sorted again by the stable way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.backends.numpy_kernels.base import BUFFER_ELEMENTS, deliver, temp_bytes

# Shorter lines are sorted stably at once.
_SHORT = 256
_LOW = np.uint64(0xFFFFFFFF)
# The bits of -0.0, by the bytes of the float.
_MINUS_ZERO = {2: np.int16(-(2**15)), 4: np.int32(-(2**31)), 8: np.int64(-(2**63))}


def _is_foreign(dtype: np.dtype) -> bool:
    """Is this bfloat16 or float8, whose NaN NumPy does not sort? Their kind is "V" or "f"."""
    return dtype.isbuiltin != 1


def _as_numpy_sorts(x: np.ndarray) -> np.ndarray:
    """The array in a dtype whose order NumPy knows; bfloat16 and float8 become float32."""
    return x.astype(np.float32) if _is_foreign(x.dtype) else x


def _is_narrow(dtype: np.dtype) -> bool:
    """Does a key fit 32 bits?"""
    return dtype.itemsize <= 4 and dtype.kind != "c"


def _ordered_bits(x: np.ndarray) -> np.ndarray:
    """uint32 in the order of real keys of up to 32 bits; equal keys give equal bits."""
    kind = x.dtype.kind
    if kind == "b" or kind == "u":
        return x.astype(np.uint32)
    least = np.int32(-(2**31))
    if kind == "i":
        bits = x.astype(np.int32)
        bits ^= least
        return bits.view(np.uint32)
    # Adding 0 makes -0.0 to 0.0 and a copy.
    wide = np.add(np.ascontiguousarray(x), 0, dtype=np.float32, casting="unsafe")
    nan = np.isnan(wide)
    bits = wide.view(np.int32)
    # Negative floats count backwards: flip all bits of them, and the sign bit of the others.
    flips = bits >> np.int32(31)
    flips |= least
    bits ^= flips
    del flips
    unsigned = bits.view(np.uint32)
    np.copyto(unsigned, np.uint32(0xFFFFFFFF), where=nan)
    return unsigned


def _packed(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """uint64 in the order of the keys, equal keys by position (the last axis)."""
    packed = _ordered_bits(x).astype(np.uint64)
    packed <<= np.uint64(32)
    packed |= positions
    return packed


def _equal_neighbours(x: np.ndarray) -> bool:
    """Has a sorted array equal elements, or two NaN, in a line?"""
    if bool(np.equal(x[..., 1:], x[..., :-1]).any()):
        return True
    return x.dtype.kind == "f" and bool(np.isnan(x[..., -2]).any())


def _order_of_one(x: np.ndarray, stable: bool) -> np.ndarray:
    """Positions along the last axis in the order of one key."""
    n = x.shape[-1]
    if n < _SHORT or x.dtype.kind == "c":
        return np.argsort(x, axis=-1, kind="stable")
    if x.dtype.kind in "biu" and x.dtype.itemsize <= 2:
        return np.argsort(x, axis=-1, kind="stable")  # NumPy's radix sort
    if _is_narrow(x.dtype) and n <= 2**32:
        packed = _packed(x, np.arange(n, dtype=np.uint64))
        packed.sort(axis=-1)
        packed &= _LOW
        return packed.view(np.int64)
    if x.dtype.kind in "iu":
        least = x.min()
        if int(x.max()) - int(least) < 2**32 and n <= 2**32:
            keys = np.subtract(x, least).view(np.uint64)
            keys <<= np.uint64(32)
            keys |= np.arange(n, dtype=np.uint64)
            keys.sort(axis=-1)
            keys &= _LOW
            return keys.view(np.int64)
    order = np.argsort(x, axis=-1)
    if stable and _equal_neighbours(np.take_along_axis(x, order, -1)):
        del order
        return np.argsort(x, axis=-1, kind="stable")
    return order


def _order(keys: Sequence[np.ndarray], stable: bool) -> np.ndarray:
    """Positions along the last axis in lexicographic order of the keys; int64, freshly made."""
    keys = [_as_numpy_sorts(k) for k in keys]
    if keys[0].size == 0:
        return np.zeros(keys[0].shape, np.int64)
    if len(keys) == 1:
        return _order_of_one(keys[0], stable)
    return np.lexsort(tuple(reversed(keys)), axis=-1)


def _order_temp(keys: Sequence[Any], dimension: int) -> int:
    """Bytes that `_order` needs at most, its result included."""
    shape = keys[0].shape
    line = shape[dimension] if shape else 1
    n = keys[0].size
    wide = sum(4 * n for k in keys if _is_foreign(k.dtype))
    # Lines that do not lie in one piece are copied.
    moved = dimension != len(shape) - 1
    lines = 2 * line * (8 + sum(k.dtype.itemsize for k in keys)) * moved
    (dtype, *others) = [k.dtype for k in keys]
    if others or dtype.kind == "c" or line < _SHORT:
        return 8 * n + wide + lines
    if dtype.kind in "biu" and dtype.itemsize <= 2:
        return 8 * n + lines
    if _is_narrow(dtype):
        return 12 * n + 8 * line + wide + lines
    return 17 * n + lines if dtype.kind == "f" else 17 * n + 8 * line + lines


def _flat_positions(index: np.ndarray, shape: Sequence[int], dimension: int) -> np.ndarray:
    """Positions in a flattened array of this shape from positions along a dimension.

    `index` agrees with `shape` but for that dimension.
    """
    inner = math.prod(shape[dimension + 1 :])
    outer = math.prod(shape[:dimension])
    flat = np.multiply(index, inner, dtype=np.intp, order="C")  # so that the reshape is a view
    view = flat.reshape(outer, index.shape[dimension], inner)
    if outer > 1:
        view += (np.arange(outer) * (shape[dimension] * inner))[:, None, None]
    if inner > 1:
        view += np.arange(inner)
    return flat


def _flat_temp(index: Any, shape: Sequence[int], dimension: int) -> int:
    """Bytes for `_flat_positions`: positions and two lines; casts go through buffers."""
    if len(shape) == 1:
        return 8 * index.size
    inner, outer = math.prod(shape[dimension + 1 :]), math.prod(shape[:dimension])
    return 8 * index.size + 8 * inner + 16 * outer


def _take(x: np.ndarray, flat: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    """Elements at flat positions; clip, because the check of NumPy's default needs a buffer."""
    source = x.reshape(-1)
    if out is None:
        return source.take(flat, mode="clip")
    if out.flags.c_contiguous and not np.may_share_memory(x, out):
        return source.take(flat, mode="clip", out=out)
    return deliver(source.take(flat, mode="clip"), out)


# -- sort -----------------------------------------------------------------------------------------


def _sort_temp(in_avals: Any, out_avals: Any, *, dimension: int, num_keys: int, is_stable: bool):
    x = in_avals[0]
    if len(in_avals) > 1:
        shape = x.shape
        inner, outer = math.prod(shape[dimension + 1 :]), math.prod(shape[:dimension])
        lines = 8 * inner + 16 * outer if len(shape) > 1 else 0
        order = _order_temp(in_avals[:num_keys], dimension)
        # Positions in another order of dimensions than the operands' are copied.
        moved = dimension != len(shape) - 1
        return max(order, 8 * x.size * (1 + moved) + lines)
    line = x.dtype.itemsize * x.shape[dimension] if x.shape else 0
    moved = 2 * line if dimension != len(x.shape) - 1 else 0
    masks = 3 * x.size if is_stable and dtypes.is_float(x.dtype) else 0
    return masks + moved + (4 * x.size if _sorted_wide(x.dtype) else 0)


def _sorted_wide(dtype: np.dtype) -> bool:
    """Is this sorted in float32? NumPy 2.4's vectorised sort misplaces -inf among float16."""
    return _is_foreign(dtype) or dtype == np.float16


def _sort_one(x: np.ndarray, dimension: int, is_stable: bool, out: np.ndarray | None) -> np.ndarray:
    if _sorted_wide(x.dtype):
        wide = x.astype(np.float32)
        _sort_one(wide, dimension, is_stable, wide)
        return wide.astype(x.dtype) if out is None else deliver(wide, out)
    signs = None
    short = x.size < _SHORT
    if is_stable and x.dtype.kind == "f" and not short:
        # Equal floats differ in the sign of zero only. The vectorised sort loses their order, so
        # signs are kept by hand, where there is a negative zero.
        minus_zero = _MINUS_ZERO[x.dtype.itemsize]
        if (np.ascontiguousarray(x).view(minus_zero.dtype) == minus_zero).any():
            lines = x.swapaxes(dimension, -1)
            signs = np.signbit(lines)[lines == 0]
    y = np.array(x, order="C") if out is None else deliver(x, out)
    radix = x.dtype.kind in "biu" and x.dtype.itemsize == 1
    stable = radix or (is_stable and (short or x.dtype.kind == "c"))
    y.sort(axis=dimension, kind="stable" if stable else None)
    if signs is not None:
        lines = y.swapaxes(dimension, -1)
        zero = lines == 0
        np.copyto(lines, 0.0, where=zero)
        negative = np.zeros(lines.shape, bool)
        negative[zero] = signs
        np.copyto(lines, -0.0, where=negative)
    return y


@temp_bytes(_sort_temp)
def sort(*operands, dimension, num_keys, is_stable, outs: tuple | None = None) -> tuple:
    if outs is None:
        outs = (None,) * len(operands)
    if len(operands) == 1:
        return (_sort_one(operands[0], dimension, is_stable, outs[0]),)
    lines = [k.swapaxes(dimension, -1) for k in operands[:num_keys]]
    index = np.ascontiguousarray(_order(lines, is_stable).swapaxes(dimension, -1))
    del lines
    shape = index.shape
    if len(shape) > 1:
        # In place: the positions along the dimension are not needed again.
        inner, outer = math.prod(shape[dimension + 1 :]), math.prod(shape[:dimension])
        index *= inner
        view = index.reshape(outer, shape[dimension], inner)
        view += (np.arange(outer) * (shape[dimension] * inner))[:, None, None]
        view += np.arange(inner)
    return tuple([_take(x, index, out) for x, out in zip(operands, outs, strict=True)])


def _argsort_temp(
    in_avals: Any, out_avals: Any, *, dimension: int, is_stable: bool, index_dtype: Any
) -> int:
    return _order_temp(in_avals, dimension)


@temp_bytes(_argsort_temp)
def argsort(*keys, dimension, is_stable, index_dtype, outs: tuple = (None,)) -> tuple:
    order = _order([k.swapaxes(dimension, -1) for k in keys], is_stable)
    order = order.swapaxes(dimension, -1)
    if outs[0] is None:
        return (order.astype(index_dtype, order="C", copy=False),)
    return (deliver(order, outs[0]),)


# -- elements along a dimension -------------------------------------------------------------------


def _take_along_temp(in_avals: Any, out_avals: Any, *, dimension: int, unique: bool) -> int:
    x, index = in_avals
    return _flat_temp(index, x.shape, dimension)


@temp_bytes(_take_along_temp)
def take_along(x, index, *, dimension, unique, outs: tuple = (None,)) -> tuple:
    flat = index if x.ndim == 1 else _flat_positions(index, x.shape, dimension)
    if index.size == 0:
        return (np.empty(index.shape, x.dtype) if outs[0] is None else outs[0],)
    return (_take(x, flat, outs[0]),)


def _put_along_temp(in_avals: Any, out_avals: Any, *, dimension: int, unique: bool, size: int):
    index, (out,) = in_avals[1], out_avals
    wide = 4 * (out.size + index.size) if not unique and _sums_wide(out.dtype) else 0
    if len(out.shape) == 1:
        # Assignment casts the positions through a buffer.
        return 8 * min(index.size, BUFFER_ELEMENTS) + wide
    return _flat_temp(index, out.shape, dimension) + wide


def _sums_wide(dtype: np.dtype) -> bool:
    return dtypes.accumulator(dtype) != dtype


@temp_bytes(_put_along_temp)
def put_along(x, index, *, dimension, unique, size, outs: tuple = (None,)) -> tuple:
    shape = (*x.shape[:dimension], size, *x.shape[dimension + 1 :])
    out = outs[0]
    if out is None or not out.flags.c_contiguous:
        y = np.zeros(shape, x.dtype)
    else:
        y = out
        y[...] = 0
    flat = index if x.ndim == 1 else _flat_positions(index, shape, dimension)
    if unique:
        y.reshape(-1)[flat.reshape(-1)] = x.reshape(-1)
    elif _sums_wide(x.dtype):
        wide = np.zeros(y.size, np.float32)
        np.add.at(wide, flat.reshape(-1), x.reshape(-1).astype(np.float32))
        np.copyto(y, wide.reshape(shape), casting="unsafe")
    else:
        np.add.at(y.reshape(-1), flat.reshape(-1), x.reshape(-1))
    return (y if out is None or y is out else deliver(y, out),)


# -- the largest elements -------------------------------------------------------------------------


def _top_k_temp(in_avals: Any, out_avals: Any, *, k: int, axis: int) -> int:
    (x,) = in_avals
    n, line = x.size, x.shape[axis]
    wide = 4 * n if _is_foreign(x.dtype) else 0
    if _is_narrow(x.dtype):
        peak = 12 * n + 8 * line + wide
    else:
        peak = _order_temp((x,), axis) + 8 * line + 8 * n // max(line, 1) * k
    return max(peak, 24 * out_avals[0].size)


@temp_bytes(_top_k_temp)
def top_k(x, *, k, axis, outs: tuple = (None, None)) -> tuple:
    lines = x.swapaxes(axis, -1)
    n = lines.shape[-1]
    if k == 0 or x.size == 0:
        index = np.zeros((*lines.shape[:-1], k), np.int64)
    elif _is_narrow(x.dtype) and n <= 2**32:
        # Equal elements are ordered by falling position, so that the lowest comes out on top.
        packed = _packed(_as_numpy_sorts(lines), np.arange(n - 1, -1, -1, dtype=np.uint64))
        if k < n:
            packed.partition(n - k, axis=-1)
        best = np.sort(packed[..., n - k :], axis=-1)[..., ::-1]
        del packed
        index = (n - 1) - (best & _LOW).astype(np.int64)
    else:
        order = _order([lines[..., ::-1]], True)
        index = (n - 1) - order[..., n - k :][..., ::-1]
        del order
    index = index.swapaxes(axis, -1)
    (values,) = take_along(
        x, np.ascontiguousarray(index), dimension=axis, unique=True, outs=outs[:1]
    )
    if outs[1] is None:
        return values, index.astype(np.int32, order="C")
    return values, deliver(index, outs[1])


# -- searchsorted ---------------------------------------------------------------------------------


def _searchsorted_temp(
    in_avals: Any, out_avals: Any, *, side: str, batch_dims: int, index_dtype: Any
) -> int:
    a, v = in_avals
    rows = max(math.prod(a.shape[:batch_dims]), 1)
    wide = 4 * (a.size + v.size) if _is_foreign(a.dtype) else 0
    return 8 * (v.size // rows) + wide


@temp_bytes(_searchsorted_temp)
def searchsorted(a, v, *, side, batch_dims, index_dtype, outs: tuple = (None,)) -> tuple:
    a, v = _as_numpy_sorts(a), _as_numpy_sorts(v)
    out = outs[0] if outs[0] is not None else np.empty(v.shape, index_dtype)
    for row in np.ndindex(a.shape[:batch_dims]):
        out[row] = np.searchsorted(a[row], v[row], side)
    return (out,)
