"""Bits of bytes as elements of arrays."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.core.array import scalar
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import ArgumentError, DTypeError, api_boundary
from mgefn.numpy.creation import asarray
from mgefn.ops import reductions
from mgefn.ops.elementwise import bitwise_and, left_shift, right_shift
from mgefn.ops.shaping import (
    expand_dims,
    moveaxis,
    normalize_axis,
    pad_p,
    ravel,
    reshape,
    slice_in_dim,
)


def _shifts(name: str, bitorder: str) -> np.ndarray:
    if bitorder not in ("big", "little"):
        raise ArgumentError(f"{name}: bitorder must be 'big' or 'little', got {bitorder!r}.")
    shifts = np.arange(8, dtype=np.uint8)
    return shifts[::-1].copy() if bitorder == "big" else shifts


def _to_length(x: Any, n: int) -> Any:
    """The array with its last dimension cut, or filled with zeros, to a size."""
    have = x.shape[-1]
    if n <= have:
        return slice_in_dim(x, 0, n, axis=-1)
    config = ((0, 0, 0),) * (x.ndim - 1) + ((0, n - have, 0),)
    return pad_p.bind1(x, scalar(0, x.dtype), padding_config=config)


def _with_axis_last(name: str, x: Any, axis: int | None) -> tuple[Any, int]:
    if axis is None or not x.ndim:
        return ravel(x), 0
    i = normalize_axis(name, axis, x.ndim)
    return moveaxis(x, i, -1), i


@api_boundary
def packbits(a: ArrayLike, axis: int | None = None, bitorder: str = "big") -> Array:
    """Eight elements in one byte, a bit for each that is not 0.

    Args:
        a: booleans or integers.
        axis: along which to pack; None: the flattened array.
        bitorder: "big": the first element is the highest bit; "little": the lowest.

    Returns:
        uint8 array; a last byte that is not full is filled with zeros.

    Raises:
        DTypeError: other dtypes. ArgumentError: another bitorder.

    Example:
        >>> mnp.packbits(mnp.array([1, 0, 0, 0, 0, 0, 1, 1, 1]))
        Array([131, 128], dtype=uint8)
    """
    x = asarray(a)
    if not (dtypes.is_integer(x.dtype) or dtypes.is_bool(x.dtype)):
        raise DTypeError(f"packbits: needs booleans or integers, got {x.aval}. Compare with 0.")
    shifts = _shifts("packbits", bitorder)
    x, i = _with_axis_last("packbits", (x != 0).astype(np.uint8), axis)
    count = -(-x.shape[-1] // 8)
    x = reshape(_to_length(x, 8 * count), (*x.shape[:-1], count, 8))
    packed = reductions.sum(left_shift(x, shifts), -1, dtype=np.uint8)
    return moveaxis(packed, -1, i)


@api_boundary
def unpackbits(
    a: ArrayLike, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Array:
    """Eight elements 0 or 1 for each byte.

    Args:
        a: uint8.
        axis: along which to unpack; None: the flattened array.
        count: how many elements to keep, or to fill up to with zeros; below 0: how many to leave
            out at the end; None: all.
        bitorder: as for `packbits`.

    Returns:
        uint8 array.

    Raises:
        DTypeError: other dtypes. ArgumentError: another bitorder.
    """
    x = asarray(a)
    if x.dtype != np.uint8:
        raise DTypeError(f"unpackbits: needs uint8, got {x.aval}. Cast or view it.")
    shifts = _shifts("unpackbits", bitorder)
    x, i = _with_axis_last("unpackbits", x, axis)
    bits = bitwise_and(right_shift(expand_dims(x, -1), shifts), np.uint8(1))
    bits = reshape(bits, (*x.shape[:-1], 8 * x.shape[-1]))
    if count is not None:
        n = operator.index(count)
        if n < 0:
            n = max(0, bits.shape[-1] + n)
        bits = _to_length(bits, n)
    return moveaxis(bits, -1, i)
