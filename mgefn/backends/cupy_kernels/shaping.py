"""Kernels of `ops/shaping.py`. All but pad, concatenate and iota make views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mgefn.backends.cupy_kernels.base import bits
from mgefn.backends.numpy_kernels.shaping import places_of_padding
from mgefn.core.cuda import xp


def broadcast_in_dim(x: Any, *, shape: Any, broadcast_dimensions: Any) -> tuple:
    place = [1] * len(shape)
    for n, d in zip(x.shape, broadcast_dimensions, strict=True):
        place[d] = n
    return (xp.broadcast_to(x.reshape(place), shape),)


def reshape(x: Any, *, new_sizes: Any) -> tuple:
    return (x.reshape(new_sizes),)


def transpose(x: Any, *, permutation: Any) -> tuple:
    return (x.transpose(permutation),)


def rev(x: Any, *, dimensions: Any) -> tuple:
    index = [slice(None, None, -1) if i in dimensions else slice(None) for i in range(x.ndim)]
    return (x[(..., *index)],)


def concatenate(*arrays: Any, dimension: int) -> tuple:
    joined = xp.concatenate([bits(a) for a in arrays], axis=dimension)
    return (joined.view(arrays[0].dtype),)


def padded(x: Any, value: Any, padding_config: Sequence[tuple[int, int, int]]) -> Any:
    """x between `value`s (an array of rank 0, or a number), in new memory.

    Args:
        padding_config: (before, after, between) for each dimension; negative ones cut.
    """
    shape, source, target = places_of_padding(x.shape, padding_config)
    out = xp.empty(shape, x.dtype)
    out[...] = value
    out[(..., *target)] = x[(..., *source)]
    return out


def pad(x: Any, value: Any, *, padding_config: Any) -> tuple:
    return (padded(bits(x), bits(value), padding_config).view(x.dtype),)


def strided_slice(x: Any, *, start_indices: Any, limit_indices: Any, strides: Any) -> tuple:
    return (x[(..., *map(slice, start_indices, limit_indices, strides))],)


def iota(*, dtype: np.dtype, shape: Any, dimension: int) -> tuple:
    n = shape[dimension]
    counted = xp.arange(n)
    if dtype.kind == "V":
        counted = counted.astype(np.float32)
    column = counted.astype(dtype).reshape((n,) + (1,) * (len(shape) - dimension - 1))
    return (xp.broadcast_to(column, shape),)
