"""Kernels of `ops/reductions/`: CuPy's reductions, 2-byte floats in float32."""

from __future__ import annotations

from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.backends.cupy_kernels.base import full, widened
from mgefn.core.cuda import xp
from mgefn.ops.reductions import highest, lowest


def _accumulated(name: str, x: Any, axes: tuple[int, ...]) -> Any:
    """A sum or product over axes, in the accumulator's dtype on the way."""
    if not axes:
        return x
    wide = dtypes.accumulator(x.dtype)
    total = getattr(xp, name)(widened(x), axis=axes, dtype=wide)
    return total.astype(x.dtype, copy=False)


def reduce_sum(x: Any, *, axes: tuple[int, ...]) -> tuple:
    return (_accumulated("sum", x, axes),)


def reduce_prod(x: Any, *, axes: tuple[int, ...]) -> tuple:
    return (_accumulated("prod", x, axes),)


def extremum(name: str, identity: Any, x: Any, axes: tuple[int, ...]) -> Any:
    """The largest or least element ("amax" or "amin"); of none, the identity."""
    if not axes:
        return x
    if any(x.shape[a] == 0 for a in axes):
        shape = tuple(n for i, n in enumerate(x.shape) if i not in axes)
        return full(shape, identity(x.dtype), x.dtype)
    if x.size == 0:
        return xp.empty(tuple(n for i, n in enumerate(x.shape) if i not in axes), x.dtype)
    if x.dtype.kind == "b":
        return (xp.any if name == "amax" else xp.all)(x, axis=axes)
    return getattr(xp, name)(widened(x), axis=axes).astype(x.dtype, copy=False)


def reduce_max(x: Any, *, axes: tuple[int, ...]) -> tuple:
    return (extremum("amax", lowest, x, axes),)


def reduce_min(x: Any, *, axes: tuple[int, ...]) -> tuple:
    return (extremum("amin", highest, x, axes),)


def _folded(ufunc: Any, identity: int, x: Any, axes: tuple[int, ...]) -> Any:
    """A reduction of bits, by halves: CuPy reduces with few ufuncs."""
    kept = [i for i in range(x.ndim) if i not in axes]
    lines = x.transpose((*kept, *axes)).reshape((*(x.shape[i] for i in kept), -1), order="C")
    n = lines.shape[-1]
    if n == 0:
        return xp.full(lines.shape[:-1], np.asarray(identity).astype(x.dtype)[()], x.dtype)
    while n > 1:
        half = n // 2
        folded = ufunc(lines[..., :half], lines[..., half : 2 * half])
        if n % 2:
            folded = xp.concatenate([folded, lines[..., 2 * half :]], axis=-1)
        lines, n = folded, half + n % 2
    return lines[..., 0]


def _reduced_bits(name: str, identity: int, x: Any, axes: tuple[int, ...]) -> tuple:
    if not axes:
        return (x,)
    if 0 in [x.shape[i] for i in range(x.ndim) if i not in axes]:
        return (xp.empty([n for i, n in enumerate(x.shape) if i not in axes], x.dtype),)
    return (_folded(getattr(xp, name), identity, x, axes),)


def reduce_and(x: Any, *, axes: tuple[int, ...]) -> tuple:
    if x.dtype.kind == "b" and axes:
        return (xp.all(x, axis=axes),)
    return _reduced_bits("bitwise_and", -1, x, axes)


def reduce_or(x: Any, *, axes: tuple[int, ...]) -> tuple:
    if x.dtype.kind == "b" and axes:
        return (xp.any(x, axis=axes),)
    return _reduced_bits("bitwise_or", 0, x, axes)


def reduce_xor(x: Any, *, axes: tuple[int, ...]) -> tuple:
    return _reduced_bits("bitwise_xor", 0, x, axes)


def _position(name: str, x: Any, axes: tuple[int, ...], index_dtype: np.dtype) -> tuple:
    (axis,) = axes
    if 0 in x.shape:
        shape = [n for i, n in enumerate(x.shape) if i != axis]
        return (xp.empty(shape, index_dtype),)
    y = x.view(np.uint8) if x.dtype.kind == "b" else widened(x)
    return (getattr(xp, name)(y, axis=axis).astype(index_dtype),)


def argmax(x: Any, *, axes: tuple[int, ...], index_dtype: np.dtype) -> tuple:
    return _position("argmax", x, axes, index_dtype)


def argmin(x: Any, *, axes: tuple[int, ...], index_dtype: np.dtype) -> tuple:
    return _position("argmin", x, axes, index_dtype)
