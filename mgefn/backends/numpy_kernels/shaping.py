"""Kernels of `ops/shaping.py`. All but pad, concatenate and iota make views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mgefn.backends.numpy_kernels.base import deliver, temp_bytes


def _view(value: np.ndarray, out: np.ndarray | None) -> tuple[np.ndarray]:
    return (value if out is None else deliver(value, out),)


def broadcast_in_dim(x, *, shape, broadcast_dimensions, outs: tuple = (None,)) -> tuple:
    strides = [0] * len(shape)
    for n, stride, d in zip(x.shape, x.strides, broadcast_dimensions, strict=True):
        if n == shape[d]:
            strides[d] = stride
    # One made-up view instead of numpy.broadcast_to, which costs ten times as much.
    if x.size == 0:
        view = np.empty(shape, x.dtype)
        assert view.size == 0, "only an empty array has no elements to repeat"
    elif x.flags.c_contiguous:
        view = np.ndarray.__new__(np.ndarray, shape, x.dtype, x, 0, strides)
    else:
        # ndarray takes contiguous buffers only
        view = np.lib.stride_tricks.as_strided(x, shape, strides, writeable=False)
    return _view(view, outs[0])


def reshape(x, *, new_sizes, outs: tuple = (None,)) -> tuple:
    out = outs[0]
    if out is None:
        return (x.reshape(new_sizes),)
    # The block is contiguous, so it has a view of the operand's shape, and no copy is made first.
    out.reshape(x.shape)[...] = x
    return (out,)


def transpose(x, *, permutation, outs: tuple = (None,)) -> tuple:
    return _view(x.transpose(permutation), outs[0])


def rev(x, *, dimensions, outs: tuple = (None,)) -> tuple:
    index = tuple(slice(None, None, -1) if i in dimensions else slice(None) for i in range(x.ndim))
    return _view(x[(..., *index)], outs[0])


def concatenate(*arrays, dimension, outs: tuple = (None,)) -> tuple:
    if outs[0] is None:
        return (np.concatenate(arrays, axis=dimension),)
    return (np.concatenate(arrays, axis=dimension, out=outs[0]),)


def places_of_padding(
    sizes: Sequence[int], padding_config: Sequence[tuple[int, int, int]]
) -> tuple[tuple[int, ...], tuple[slice, ...], tuple[slice, ...]]:
    """The shape of a padded array, what of the operand is kept, and where that lies."""
    shape, source, target = [], [], []
    for n, (low, high, interior) in zip(sizes, padding_config, strict=True):
        size = low + high + n + max(n - 1, 0) * interior
        step = interior + 1
        # Element i lands at low + i * step; keep those that land inside.
        first = max(0, -(low // step)) if low < 0 else 0
        last = min(n, (size - 1 - low) // step + 1) if size > 0 else first
        last = max(last, first)
        shape.append(size)
        source.append(slice(first, last))
        start = low + first * step
        target.append(
            slice(start, start + (last - first - 1) * step + 1, step)
            if last > first
            else slice(0, 0)
        )
    return tuple(shape), tuple(source), tuple(target)


def pad(x, value, *, padding_config, outs: tuple = (None,)) -> tuple:
    shape, source, target = places_of_padding(x.shape, padding_config)
    out = outs[0] if outs[0] is not None else np.empty(shape, x.dtype)
    out[...] = value
    out[target] = x[source]
    return (out,)


def strided_slice(x, *, start_indices, limit_indices, strides, outs: tuple = (None,)) -> tuple:
    index = tuple(map(slice, start_indices, limit_indices, strides))
    # The Ellipsis makes a view of rank 0 too, where x[()] would be a scalar.
    return _view(x[(..., *index)], outs[0])


def iota(*, dtype, shape, dimension, outs: tuple = (None,)) -> tuple:
    n = shape[dimension]
    counted = np.arange(n).astype(dtype)
    column = counted.reshape((n,) + (1,) * (len(shape) - dimension - 1))
    if outs[0] is None:
        outs = (np.empty(shape, dtype),)
    outs[0][...] = column
    return (outs[0],)


def iota_temp(in_avals: Any, out_avals: Any, *, dtype, shape, dimension) -> int:
    return shape[dimension] * (8 + dtype.itemsize)


temp_bytes(iota_temp)(iota)
