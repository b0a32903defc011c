"""Matrices with a name, and such as are made of vectors."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike, DTypeLike
from mgefn.errors import ArgumentError, ShapeError, api_boundary
from mgefn.ops.elementwise import promoted
from mgefn.scipy.arguments import known_count


@api_boundary
def block_diag(*arrs: ArrayLike) -> Array:
    """A matrix with given matrices along its diagonal; vectors count as rows.

    Raises:
        ShapeError: an array has rank above 2.

    Example:
        >>> mgefn.scipy.linalg.block_diag(mnp.array([[1.0]]), mnp.array([[2.0, 3.0]]))
        Array([[1., 0., 0.],
               [0., 2., 3.]], dtype=float32)
    """
    arrays = promoted("block_diag", arrs) if arrs else [mnp.zeros((1, 0))]
    for a in arrays:
        if a.ndim > 2:
            raise ShapeError(f"block_diag: needs arrays of rank 2 at most, got {a.aval}.")
    arrays = [mnp.atleast_2d(a) for a in arrays]
    width = sum(a.shape[1] for a in arrays)
    rows, start = [], 0
    for a in arrays:
        rows.append(mnp.pad(a, ((0, 0), (start, width - start - a.shape[1]))))
        start += a.shape[1]
    return mnp.concatenate(rows)


def _vectors(name: str, *args: ArrayLike, flat: bool = False) -> Any:
    arrays = promoted(name, args)
    arrays = [mnp.ravel(a) if flat else mnp.atleast_1d(a) for a in arrays]
    for a in arrays:
        if a.ndim < 1:
            raise ShapeError(f"{name}: needs vectors, got {a.aval}.")
    return arrays[0] if len(arrays) == 1 else arrays


@api_boundary
def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """The matrix of constant diagonals with first column c and first row r.

    Args:
        c: shape (..., m).
        r: shape (..., n), whose first element is not read; None: the conjugate of c.
    """
    if r is None:
        column = _vectors("toeplitz", c)
        row = mnp.conj(column)
    else:
        column, row = _vectors("toeplitz", c, r)
    m, n = column.shape[-1], row.shape[-1]
    batch = mnp.broadcast_shapes(column.shape[:-1], row.shape[:-1])
    column = mnp.broadcast_to(column, (*batch, m))
    row = mnp.broadcast_to(row, (*batch, n))
    if not m or not n:
        return mnp.zeros((*batch, m, n), column.dtype)
    values = mnp.concatenate([mnp.flip(row[..., 1:], -1), column], axis=-1)
    return values[..., np.arange(m)[:, None] - np.arange(n) + n - 1]


@api_boundary
def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """The matrix of constant antidiagonals with first column c and last row r, or zeros."""
    if r is None:
        column = _vectors("hankel", c)
        row = mnp.zeros_like(column)
    else:
        column, row = _vectors("hankel", c, r)
    values = mnp.concatenate([column, row[..., 1:]], axis=-1)
    return values[..., np.arange(column.shape[-1])[:, None] + np.arange(row.shape[-1])]


@api_boundary
def circulant(c: ArrayLike) -> Array:
    """The circulant matrix with first column c, shape (..., n)."""
    column = _vectors("circulant", c)
    n = column.shape[-1]
    return column[..., (np.arange(n)[:, None] - np.arange(n)) % max(n, 1)]


@api_boundary
def companion(a: ArrayLike) -> Array:
    """The companion matrix of the polynomial with coefficients a, the highest first."""
    (x,) = promoted("companion", (a,), inexact=True)
    if x.ndim < 1 or x.shape[-1] < 2:
        raise ShapeError(f"companion: needs two coefficients at least, got {x.aval}.")
    n = x.shape[-1] - 1
    first = -x[..., 1:] / x[..., :1]
    below = mnp.broadcast_to(mnp.eye(n - 1, n, dtype=x.dtype), (*x.shape[:-1], n - 1, n))
    return mnp.concatenate([first[..., None, :], below], axis=-2)


@api_boundary
def fiedler(a: ArrayLike) -> Array:
    """The symmetric matrix |a[i] - a[j]|."""
    x = _vectors("fiedler", a)
    return abs(x[..., :, None] - x[..., None, :])


@api_boundary
def fiedler_companion(a: ArrayLike) -> Array:
    """The five-diagonal companion matrix of the polynomial with coefficients a."""
    (x,) = promoted("fiedler_companion", (a,), inexact=True)
    if x.ndim != 1:
        raise ShapeError(f"fiedler_companion: needs a vector, got {x.aval}.")
    if x.shape[0] <= 2:
        return mnp.zeros((0,), x.dtype) if x.shape[0] < 2 else (-x[1:] / x[:1])[:, None]
    n = x.shape[0] - 1
    x = x / x[0]
    # Ones two off the diagonal and coefficients in pairs, as in Fiedler's product of factors.
    out = mnp.zeros((n, n), x.dtype)
    i = np.arange(0, n - 2, 2)
    j = np.arange(1, n - 2, 2)
    out = out.at[j + 2, j].set(1).at[i, i + 2].set(1)
    rest = -x[3:]
    odd, even = np.arange(1, n - 1, 2), np.arange(2, n, 2)
    out = out.at[even[: rest[::2].shape[0]], odd[: rest[::2].shape[0]]].set(rest[::2])
    high = np.arange(3, n, 2)
    out = out.at[high - 1, high].set(-x[4 : 4 + 2 * high.size : 2])
    return out.at[0, 0].set(-x[1]).at[0, 1].set(-x[2]).at[1, 0].set(1)


@api_boundary
def convolution_matrix(a: ArrayLike, n: int, mode: str = "full") -> Array:
    """The matrix whose product with a vector of length n is its convolution with a."""
    x = _vectors("convolution_matrix", a)
    size = operator.index(n)
    if x.ndim != 1 or not x.size or size < 1:
        raise ShapeError(
            f"convolution_matrix: needs a vector with elements and n above 0, got {x.aval} and {n}."
        )
    if mode not in ("full", "same", "valid"):
        raise ArgumentError(
            f"convolution_matrix: mode must be 'full', 'same' or 'valid', got {mode!r}."
        )
    m = x.shape[0]
    column = mnp.concatenate([x, mnp.zeros(size - 1, x.dtype)])
    row = mnp.concatenate([x[:1], mnp.zeros(size - 1, x.dtype)])
    full = toeplitz(column, row)
    if mode == "full":
        return full
    if mode == "same":
        start = (min(m, size) - 1) // 2
        return full[start : start + max(m, size)]
    start = min(m, size) - 1
    return full[start : max(m, size)]


@api_boundary
def leslie(f: ArrayLike, s: ArrayLike) -> Array:
    """Leslie's matrix of fecundities f, shape (n,), and survival s, shape (n - 1,)."""
    birth, survival = promoted("leslie", (f, s))
    if birth.ndim != 1 or survival.ndim != 1 or birth.shape[0] != survival.shape[0] + 1:
        raise ShapeError(
            f"leslie: needs vectors of lengths n and n - 1, got {birth.aval} and {survival.aval}."
        )
    return mnp.diag(survival, -1).at[0].set(birth)


def _constant(matrix: np.ndarray) -> Array:
    return mnp.asarray(matrix.astype(dtypes.default_float()))


@api_boundary
def dft(n: int, scale: str | None = None, *, dtype: DTypeLike = None) -> Array:
    """The matrix of the discrete Fourier transform.

    Args:
        n: its size.
        scale: None; "sqrtn" or "n": divide by that.
        dtype: complex; None: the default.
    """
    size = known_count("dft", "n", n, 1)
    if scale not in (None, "sqrtn", "n"):
        raise ArgumentError(f"dft: scale must be None, 'sqrtn' or 'n', got {scale!r}.")
    # The exponents are reduced first, which keeps the angles small and exact.
    turns = np.outer(np.arange(size), np.arange(size)) % size / size
    matrix = np.exp(-2j * np.pi * turns) / {None: 1, "sqrtn": math.sqrt(size), "n": size}[scale]
    kind = dtypes.default_complex() if dtype is None else dtypes.canonical(dtype)
    return mnp.asarray(matrix.astype(kind))


@api_boundary
def hadamard(n: int, dtype: DTypeLike = int) -> Array:
    """Sylvester's Hadamard matrix of the size n, a power of 2."""
    size = known_count("hadamard", "n", n, 1)
    if size & (size - 1):
        raise ArgumentError(f"hadamard: n must be a power of 2, got {n!r}.")
    matrix = np.ones((1, 1), int)
    while matrix.shape[0] < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return mnp.asarray(matrix.astype(dtypes.canonical(dtype)))


@api_boundary
def hilbert(n: int) -> Array:
    """The Hilbert matrix 1 / (i + j + 1)."""
    i = np.arange(known_count("hilbert", "n", n))
    return _constant(1 / (i[:, None] + i + 1))


@api_boundary
def invhilbert(n: int) -> Array:
    """The inverse of the Hilbert matrix."""
    size = known_count("invhilbert", "n", n)
    out = [
        [
            (-1) ** (i + j) * (i + j + 1) * math.comb(size + i, size - j - 1)
            * math.comb(size + j, size - i - 1) * math.comb(i + j, i) ** 2
            for j in range(size)
        ]
        for i in range(size)
    ]  # fmt: skip
    return _constant(np.array(out, dtype=object).astype(float).reshape(size, size))


def _pascal_lower(size: int) -> np.ndarray:
    rows = [[math.comb(i, j) for j in range(size)] for i in range(size)]
    return np.array(rows, dtype=float).reshape(size, size)


@api_boundary
def pascal(n: int, kind: str | None = None) -> Array:
    """Pascal's matrix of binomial coefficients: "symmetric" (also None), "lower" or "upper"."""
    lower = _pascal_lower(known_count("pascal", "n", n))
    kinds = {None: lower @ lower.T, "symmetric": lower @ lower.T, "lower": lower, "upper": lower.T}
    if kind not in kinds:
        raise ArgumentError(f"pascal: kind must be 'symmetric', 'lower' or 'upper', got {kind!r}.")
    return _constant(kinds[kind])


@api_boundary
def invpascal(n: int, kind: str | None = None) -> Array:
    """The inverse of `pascal`'s matrix."""
    size = known_count("invpascal", "n", n)
    signs = (-1.0) ** np.add.outer(np.arange(size), np.arange(size))
    lower = _pascal_lower(size) * signs
    kinds = {None: lower.T @ lower, "symmetric": lower.T @ lower, "lower": lower, "upper": lower.T}
    if kind not in kinds:
        raise ArgumentError(
            f"invpascal: kind must be 'symmetric', 'lower' or 'upper', got {kind!r}."
        )
    return _constant(kinds[kind])


@api_boundary
def helmert(n: int, full: bool = False) -> Array:
    """Helmert's matrix of orthonormal rows, without its first row unless full."""
    size = known_count("helmert", "n", n, 1)
    i = np.arange(size)
    matrix = np.tril(np.ones((size, size)), -1) - np.diag(i)
    matrix[0] = 1
    norms = np.sqrt(i * (i + 1.0))
    norms[0] = math.sqrt(size)
    matrix = matrix / norms[:, None]
    return _constant(matrix if full else matrix[1:])
