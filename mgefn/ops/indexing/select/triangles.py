"""Diagonals of matrices, triangles below and above one, and the indices of both.

A diagonal is a strided slice of the flattened matrix; a triangle is `where` on a mask of indices.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.core.array import scalar
from mgefn.core.array_methods import METHODS, Array, ArrayLike, DTypeLike, method
from mgefn.core.avals import ShapedArray
from mgefn.errors import ShapeError, api_boundary
from mgefn.ops.elementwise import convert, where
from mgefn.ops.indexing.select.choosing import nonzero
from mgefn.ops.indexing.select.common import array_of, constant, indices_dtype
from mgefn.ops.shaping import (
    broadcast_to_shape,
    broadcasted_iota,
    full_like_aval,
    iota,
    moveaxis,
    normalize_axis,
    pad_p,
    reshape,
    strided_slice,
    zeros,
)


@method("diagonal")
@api_boundary
def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The diagonal of the matrices in two dimensions, as the last dimension of the result."""
    x = array_of("diagonal", a)
    if x.ndim < 2:
        raise ShapeError(f"diagonal: needs rank 2 or more, got {x.aval}.")
    i, j = (normalize_axis("diagonal", d, x.ndim) for d in (axis1, axis2))
    if i == j:
        raise ShapeError(f"diagonal: axis1 and axis2 must differ, got {axis1} and {axis2}.")
    x = moveaxis(x, (i, j), (-2, -1))
    n, m = x.shape[-2:]
    k = operator.index(offset)
    count = max(0, min(n, m - k) if k >= 0 else min(n + k, m))
    lead = x.shape[:-2]
    if not count or 0 in lead:
        return zeros(ShapedArray((*lead, count), x.dtype))
    # In the flattened matrix neighbours on the diagonal are m + 1 apart.
    start = k if k >= 0 else -k * m
    flat = reshape(x, (*lead, n * m))
    limit = start + (count - 1) * (m + 1) + 1
    zero, one = (0,) * len(lead), (1,) * len(lead)
    return strided_slice(flat, (*zero, start), (*lead, limit), (*one, m + 1 if count > 1 else 1))


@api_boundary
def diag(v: ArrayLike, k: int = 0) -> Array:
    """The k-th diagonal of a matrix, or the matrix that has a vector on it, as numpy.diag."""
    x = array_of("diag", v)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ShapeError(f"diag: needs rank 1 or 2, got {x.aval}. Use diagflat or diagonal.")
    k = operator.index(k)
    n = x.shape[0]
    size = n + abs(k)
    start = k if k >= 0 else -k * size
    if not n:
        return zeros(ShapedArray((size, size), x.dtype))
    high = size * size - start - (n - 1) * (size + 1) - 1
    flat = pad_p.bind1(x, scalar(0, x.dtype), padding_config=((start, high, size),))
    return reshape(flat, (size, size))


@api_boundary
def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """`diag` of the flattened array."""
    x = array_of("diagflat", v)
    return diag(reshape(x, (x.size,)), k)


@method("trace")
@api_boundary
def trace(
    a: ArrayLike,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: DTypeLike = None,
    out: None = None,
) -> Array:
    """The sum of the diagonal of the matrices in two dimensions, as numpy.trace gives it."""
    return METHODS["sum"](diagonal(a, offset, axis1, axis2), -1, dtype, out)


@api_boundary
def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """The indices of the main diagonal of an array with `ndim` dimensions of size n."""
    return (iota(indices_dtype((n,)), operator.index(n)),) * ndim


@api_boundary
def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """`diag_indices` for an array, whose dimensions must have one size."""
    x = array_of("diag_indices_from", arr)
    if x.ndim < 2 or len(set(x.shape)) != 1:
        raise ShapeError(
            f"diag_indices_from: needs rank 2 or more and one size in all dimensions, got {x.aval}."
        )
    return diag_indices(x.shape[0], x.ndim)


def _lower(shape: tuple[int, int], k: int) -> Any:
    """True on and below the k-th diagonal."""
    dtype = np.dtype(np.int32)
    row, column = (broadcasted_iota(dtype, shape, d) for d in (0, 1))
    return row + scalar(max(min(k, 2**30), -(2**30)), dtype) >= column


@api_boundary
def tri(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike = None) -> Array:
    """1 on and below the k-th diagonal of an N x M matrix and 0 above, as numpy.tri."""
    new = dtypes.default_float() if dtype is None else dtypes.canonical(dtype)
    m = N if M is None else M
    return convert(_lower((operator.index(N), operator.index(m)), operator.index(k)), new)


@api_boundary
def tril(m: ArrayLike, k: int = 0) -> Array:
    """The matrix with zeros above the k-th diagonal; leading dimensions are a batch."""
    return _triangle("tril", m, k, True)


@api_boundary
def triu(m: ArrayLike, k: int = 0) -> Array:
    """The matrix with zeros below the k-th diagonal; leading dimensions are a batch."""
    return _triangle("triu", m, k - 1, False)


def _triangle(name: str, m: Any, k: int, lower: bool) -> Any:
    x = array_of(name, m)
    if x.ndim < 2:
        raise ShapeError(f"{name}: needs rank 2 or more, got {x.aval}.")
    inside = broadcast_to_shape(_lower(x.shape[-2:], operator.index(k)), x.shape)
    zero = scalar(0, x.dtype)
    return where(inside, x, zero) if lower else where(inside, zero, x)


def _constants(found: tuple[Any, Any], n: int, m: int | None) -> tuple[Array, Array]:
    dtype = indices_dtype((n, n if m is None else m))
    rows, columns = found
    return constant(rows.astype(dtype)), constant(columns.astype(dtype))


@api_boundary
def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Row and column indices of the lower triangle of an n x m matrix."""
    return _constants(np.tril_indices(n, k, m), n, m)


@api_boundary
def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Row and column indices of the upper triangle of an n x m matrix."""
    return _constants(np.triu_indices(n, k, m), n, m)


@api_boundary
def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """`tril_indices` for a matrix."""
    n, m = array_of("tril_indices_from", arr).shape
    return tril_indices(n, k, m)


@api_boundary
def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """`triu_indices` for a matrix."""
    n, m = array_of("triu_indices_from", arr).shape
    return triu_indices(n, k, m)


@api_boundary
def mask_indices(
    n: int, mask_func: Callable[..., Any], k: Any = 0, size: int | None = None
) -> tuple[Array, ...]:
    """The indices where mask_func(ones((n, n)), k) is not 0."""
    ones = full_like_aval(1, ShapedArray((n, n), dtypes.default_int()))
    return nonzero(mask_func(ones, k), size=size)
