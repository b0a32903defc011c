"""Kernels of `control/linalg/`: NumPy's stacked LAPACK calls, or loops over SciPy's.

What NumPy raises for a matrix without a decomposition becomes NaN for that matrix alone. LAPACK
reads matrices in Fortran's order; the transpose of one in C order is one, so systems are passed
transposed where that saves a copy.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from mgefn.backends.numpy_kernels.base import deliver, temp_bytes

_PREFIX = {"f": "s", "d": "d", "F": "c", "D": "z"}
# Columns that LAPACK's blocked algorithms work on at a time; SciPy allocates this workspace.
_BLOCK = 64


@functools.lru_cache(maxsize=128)
def _routine(module: str, name: str, char: str) -> Any:
    """A function of scipy.linalg.blas or lapack for the dtype of this character."""
    # By name, because scipy is a heavy library needed by few programs.
    return getattr(importlib.import_module(f"scipy.linalg.{module}"), _PREFIX[char] + name)


def _copies(factor: float) -> Callable[..., int]:
    """Scratch memory: `factor` times the operands and outputs, and a block of workspace."""

    def bound(in_avals: Any, out_avals: Any, **params: Any) -> int:
        total = sum(a.nbytes for a in in_avals) + sum(a.nbytes for a in out_avals)
        wide = max(a.shape[-1] if a.ndim else 1 for a in (*in_avals, *out_avals))
        return int(factor * total) + 2 * _BLOCK * (wide + _BLOCK) * in_avals[0].dtype.itemsize

    return bound


def _stack(x: np.ndarray, rank: int = 2) -> np.ndarray:
    """The leading dimensions as one."""
    return x.reshape((math.prod(x.shape[: x.ndim - rank]), *x.shape[x.ndim - rank :]))


def _delivered(made: Any, outs: tuple) -> tuple:
    return tuple(deliver(m, o) for m, o in zip(made, outs or (None,) * len(made), strict=True))


def _each(
    x: np.ndarray, call: Callable[[np.ndarray], tuple], shapes: Any, dtypes: Any
) -> tuple[np.ndarray, ...]:
    """A decomposition of each matrix by itself, NaN where it fails."""
    lead = x.shape[:-2]
    made = [np.empty((*lead, *s), d) for s, d in zip(shapes, dtypes, strict=True)]
    flat = [_stack(m, len(s)) for m, s in zip(made, shapes, strict=True)]
    for i, matrix in enumerate(_stack(x)):
        try:
            parts = call(matrix)
        except (LinAlgError, ValueError):  # SciPy refuses NaN with a ValueError
            parts = (np.nan,) * len(made)
        for target, part in zip(flat, parts, strict=True):
            target[i] = part
    return tuple(made)


def _real(dtype: np.dtype) -> np.dtype:
    return np.dtype(dtype.char.lower())


def _complex(dtype: np.dtype) -> np.dtype:
    return np.dtype(dtype.char.upper())


# -- triangular -----------------------------------------------------------------------------------


@temp_bytes(_copies(2))
def cholesky(a, *, outs: tuple = (None,)) -> tuple:
    try:
        made = np.linalg.cholesky(a)
    except LinAlgError:
        (made,) = _each(a, lambda m: (np.linalg.cholesky(m),), (a.shape[-2:],), (a.dtype,))
    return (deliver(made, outs[0]),)


@temp_bytes(_copies(2))
def triangular_solve(
    a, b, *, left_side, lower, transpose_a, conjugate_a, unit_diagonal, outs: tuple = (None,)
) -> tuple:
    n = a.shape[-1]
    if b.size == 0:
        return (deliver(b.copy(), outs[0]),)
    count = math.prod(a.shape[:-2])
    if conjugate_a and (not transpose_a or count > n):
        a, conjugate_a = a.conj(), False
    if count > n:
        made = _by_rows(a, b, left_side, lower, transpose_a, unit_diagonal)
        return (deliver(made, outs[0]),)
    trsm = _routine("blas", "trsm", b.dtype.char)
    out = outs[0]
    if out is None or not out.flags.c_contiguous:
        out = np.empty(b.shape, b.dtype)
    np.copyto(out, b)
    trans = (2 if conjugate_a else 1) if transpose_a else 0
    for matrix, right in zip(_stack(a), _stack(out), strict=True):
        # In transposes: x op(a) = b is op(a)^T x^T = b^T.
        solved = trsm(
            1.0,
            matrix.T,
            right.T,
            side=int(left_side),
            lower=int(not lower),
            trans_a=trans,
            diag=int(unit_diagonal),
            overwrite_b=1,
        )
        if not np.shares_memory(solved, right):
            right.T[...] = solved
    return (out if out is outs[0] else deliver(out, outs[0]),)


def _by_rows(
    a: np.ndarray, b: np.ndarray, left_side: bool, lower: bool, transpose_a: bool, unit: bool
) -> np.ndarray:
    """Substitution on all systems at once: for many small ones."""
    if not left_side:
        # x a = b is a^T x^T = b^T.
        a, b = a.mT, b.mT
        lower = not lower
    if transpose_a:
        a = a.mT
        lower = not lower
    n = a.shape[-1]
    x = np.array(b)
    for i in range(n) if lower else range(n - 1, -1, -1):
        known = slice(0, i) if lower else slice(i + 1, n)
        x[..., i : i + 1, :] -= np.matmul(a[..., i : i + 1, known], x[..., known, :])
        if not unit:
            x[..., i, :] /= a[..., i, i, None]
    return x if left_side else x.mT


# -- lu, systems, determinants --------------------------------------------------------------------


def _permutation(pivots: np.ndarray, size: int) -> np.ndarray:
    """The order of rows after exchanging row i with row pivots[i] for each i in turn."""
    flat = _stack(pivots, 1)
    order = np.empty((len(flat), size), pivots.dtype)
    order[...] = np.arange(size)
    each = np.arange(len(flat))
    for i in range(flat.shape[1]):
        other = flat[:, i]
        order[each, other], order[:, i] = order[:, i].copy(), order[each, other]
    return order.reshape((*pivots.shape[:-1], size))


@temp_bytes(_copies(2))
def lu(a, *, outs: tuple = (None,) * 3) -> tuple:
    m, n = a.shape[-2:]
    k = min(m, n)
    pivots = np.empty((*a.shape[:-2], k), np.int32)
    if a.size == 0:
        factors = a.copy()
        pivots[...] = np.arange(k)
    else:
        getrf = _routine("lapack", "getrf", a.dtype.char)
        if a.ndim == 2:
            factors, pivots, _ = getrf(a)
            pivots = pivots.astype(np.int32, copy=False)
        else:
            factors = np.empty(a.shape, a.dtype)
            flat, flat_pivots = _stack(factors), _stack(pivots, 1)
            for i, matrix in enumerate(_stack(a)):
                flat[i], flat_pivots[i], _ = getrf(matrix)
    return _delivered((factors, pivots, _permutation(pivots, m)), outs)


@temp_bytes(_copies(3))
def lu_pivots_to_permutation(pivots, *, permutation_size, outs: tuple = (None,)) -> tuple:
    return (deliver(_permutation(pivots, permutation_size), outs[0]),)


@temp_bytes(_copies(3))
def solve(a, *rest, transpose_a, outs: tuple = (None,)) -> tuple:
    *factors, b = rest
    if b.size == 0:
        return (deliver(b.copy(), outs[0]),)
    if not factors:
        try:
            return (deliver(np.linalg.solve(a.mT if transpose_a else a, b), outs[0]),)
        except LinAlgError:  # a singular one: infinities and NaN for it alone
            (packed, pivots, _) = lu(a)
            factors = [packed, pivots]
    packed, pivots = factors
    getrs = _routine("lapack", "getrs", b.dtype.char)
    if b.ndim == 2:
        return (deliver(getrs(packed, pivots, b, trans=int(transpose_a))[0], outs[0]),)
    made = np.empty(b.shape, b.dtype)
    flat = _stack(made)
    for i, system in enumerate(zip(_stack(packed), _stack(pivots, 1), _stack(b), strict=True)):
        flat[i] = getrs(*system, trans=int(transpose_a))[0]
    return (deliver(made, outs[0]),)


@temp_bytes(_copies(2))
def det(a, *, outs: tuple = (None,)) -> tuple:
    return (deliver(np.linalg.det(a), outs[0]),)


@temp_bytes(_copies(8))
def cofactor(a, *, outs: tuple = (None,)) -> tuple:
    return (deliver(_cofactor(a), outs[0]),)


def _cofactor(a: np.ndarray) -> np.ndarray:
    """The derivatives of the determinant by the elements."""
    n = a.shape[-1]
    if n < 2 or a.size == 0:
        return np.ones_like(a)
    # Far from singular the inverse gives them in a fraction of the time.
    try:
        inverse = np.linalg.inv(a)
    except LinAlgError:
        inverse = None
    if inverse is not None:
        sizes = [np.abs(x).sum(-2).max(-1) for x in (a, inverse)]
        if np.all(sizes[0] * sizes[1] < 0.01 / math.sqrt(np.finfo(a.dtype).eps)):
            return np.linalg.det(a)[..., None, None] * inverse.mT
    u, s, vh = svd(a, full_matrices=True, compute_uv=True)
    products = np.ones_like(s)
    products[..., 1:] = np.cumprod(s[..., :-1], -1)
    products[..., :-1] *= np.cumprod(s[..., :0:-1], -1)[..., ::-1]
    phase = np.linalg.det(u) * np.linalg.det(vh)
    return np.matmul(u.conj() * (phase[..., None] * products)[..., None, :], vh.conj())


# -- orthogonal -----------------------------------------------------------------------------------


@temp_bytes(_copies(3))
def qr(a, *, pivoting, full_matrices, outs: tuple = ()) -> tuple:
    *lead, m, n = a.shape
    k = m if full_matrices else min(m, n)
    if a.size == 0:
        q = np.zeros((*lead, m, k), a.dtype)
        q[...] = np.eye(m, k, dtype=a.dtype)
        made: tuple = (q, np.zeros((*lead, k, n), a.dtype))
        if pivoting:
            made = (*made, np.zeros((*lead, n), np.int32) + np.arange(n, dtype=np.int32))
        return _delivered(made, outs)
    if not pivoting:
        return _delivered(np.linalg.qr(a, "complete" if full_matrices else "reduced"), outs)
    import scipy.linalg  # a heavy library, needed by few programs

    mode = "full" if full_matrices else "economic"
    made = _each(
        a,
        lambda x: scipy.linalg.qr(x, mode=mode, pivoting=True, check_finite=False),
        ((m, k), (k, n), (n,)),
        (a.dtype, a.dtype, np.dtype(np.int32)),
    )
    return _delivered(made, outs)


@temp_bytes(_copies(3))
def geqrf(a, *, outs: tuple = (None,) * 2) -> tuple:
    if a.size == 0:
        return _delivered((a.copy(), np.zeros(outs_shape(a), a.dtype)), outs)
    transposed, factors = np.linalg.qr(a, "raw")
    return _delivered((np.swapaxes(transposed, -1, -2), factors), outs)


def outs_shape(a: np.ndarray) -> tuple[int, ...]:
    return (*a.shape[:-2], min(a.shape[-2:]))


@temp_bytes(_copies(3))
def householder_product(a, taus, *, outs: tuple = (None,)) -> tuple:
    k = taus.shape[-1]
    made = np.zeros(a.shape, a.dtype)
    if a.size == 0 or k == 0:
        made[...] = np.eye(*a.shape[-2:], dtype=a.dtype)
        return (deliver(made, outs[0]),)
    name = "ungqr" if a.dtype.kind == "c" else "orgqr"
    call = _routine("lapack", name, a.dtype.char)
    padded = np.zeros((*taus.shape[:-1], a.shape[-1]), a.dtype)
    padded[..., :k] = taus
    flat = _stack(made)
    # A reflector with factor 0 is the identity, so all columns may have one.
    for i, (matrix, factors) in enumerate(zip(_stack(a), _stack(padded, 1), strict=True)):
        flat[i] = call(matrix, factors)[0]
    return (deliver(made, outs[0]),)


@temp_bytes(_copies(3))
def svd(a, *, full_matrices, compute_uv, outs: tuple = ()) -> tuple:
    try:
        made = np.linalg.svd(a, full_matrices, compute_uv)
    except LinAlgError:
        m, n = a.shape[-2:]
        k = min(m, n)
        shapes = ((m, m if full_matrices else k), (k,), (n if full_matrices else k, n))
        dtypes = (a.dtype, _real(a.dtype), a.dtype)
        if compute_uv:
            made = _each(a, lambda x: np.linalg.svd(x, full_matrices), shapes, dtypes)
        else:
            made = _each(
                a, lambda x: (np.linalg.svd(x, compute_uv=False),), shapes[1:2], dtypes[1:2]
            )
        return _delivered(made, outs)
    return _delivered(made if compute_uv else (made,), outs)


@temp_bytes(_copies(5))
def pinv(a, rtol, *, hermitian, outs: tuple = (None,)) -> tuple:
    if a.size == 0:
        return (deliver(np.zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype), outs[0]),)
    if hermitian:
        vectors, values = eigh(a, lower=True, vectors=True)
        left, right = vectors, vectors.mT.conj()
    else:
        u, values, vh = svd(a, full_matrices=False, compute_uv=True)
        left, right = vh.mT.conj(), u.mT.conj()
    sizes = np.abs(values)
    kept = sizes > rtol[..., None] * sizes.max(-1, keepdims=True)
    kept |= np.isnan(sizes)  # a matrix of NaN has no inverse, not the inverse 0
    inverse = np.divide(1, values, out=np.zeros_like(values), where=kept)
    return (deliver(np.matmul(left * inverse[..., None, :], right), outs[0]),)


# -- eigenvalues ----------------------------------------------------------------------------------


@temp_bytes(_copies(3))
def eigh(a, *, lower, vectors, outs: tuple = ()) -> tuple:
    uplo = "L" if lower else "U"

    def one(x: np.ndarray) -> tuple:
        if not vectors:
            return (np.linalg.eigvalsh(x, uplo),)
        w, v = np.linalg.eigh(x, uplo)
        return v, w

    try:
        made = one(a)
    except LinAlgError:
        shapes = (a.shape[-2:], a.shape[-1:])[0 if vectors else 1 :]
        dtypes = (a.dtype, _real(a.dtype))[0 if vectors else 1 :]
        made = _each(a, one, shapes, dtypes)
    return _delivered(made, outs)


@temp_bytes(_copies(4))
def eig(a, *, left, right, derivatives, outs: tuple = ()) -> tuple:
    dtype = _complex(a.dtype)

    def one(x: np.ndarray) -> tuple:
        if not left and not right:
            return (np.linalg.eigvals(x),)
        if not left:
            return np.linalg.eig(x)
        import scipy.linalg  # a heavy library, needed by few programs

        return tuple(scipy.linalg.eig(x, left=True, right=right))

    if not left:
        try:
            made = one(a)
        except LinAlgError:
            pass
        else:
            return _delivered([x.astype(dtype, copy=False) for x in made], outs)
    n = a.shape[-1]
    shapes = ((n,), *((n, n),) * (left + right))
    if a.size == 0:
        made = tuple(np.empty((*a.shape[:-2], *s), dtype) for s in shapes)
    else:
        made = _each(a, one, shapes, (dtype,) * len(shapes))
    return _delivered(made, outs)


@temp_bytes(_copies(4))
def schur(a, *, vectors, outs: tuple = ()) -> tuple:
    import scipy.linalg  # a heavy library, needed by few programs

    shapes = (a.shape[-2:],) * (2 if vectors else 1)
    if a.size == 0:
        return _delivered([a.copy() for _ in shapes], outs)
    count = len(shapes)
    made = _each(a, lambda x: scipy.linalg.schur(x)[:count], shapes, (a.dtype,) * count)
    return _delivered(made, outs)


def _clusters(w: np.ndarray, tolerance: float) -> Iterator[tuple[int, int]]:
    """Start and stop of the runs of neighbours that are equal within the tolerance."""
    breaks = np.flatnonzero(~(np.abs(np.diff(w)) <= tolerance)) + 1
    edges = [0, *breaks.tolist(), len(w)]
    for start, stop in itertools.pairwise(edges):
        if stop - start > 1:
            yield start, stop


@temp_bytes(_copies(1))
def spread(w, *, outs: tuple = (None,) * 2) -> tuple:
    n = w.shape[-1]
    shift = np.zeros(w.shape, w.dtype)
    apart = np.empty((*w.shape, n), bool)
    apart[...] = ~np.eye(n, dtype=bool)
    eps = float(np.finfo(w.dtype).eps)
    if w.size:
        tolerance = 4 * math.sqrt(n) * eps * np.abs(w).max(-1, keepdims=True)
        close = np.abs(np.diff(w, axis=-1)) <= tolerance
        flat_w, flat_shift, flat_apart = _stack(w, 1), _stack(shift, 1), _stack(apart)
        limits = tolerance.reshape(-1)
        for i in np.flatnonzero(close.reshape(len(flat_w), n - 1).any(-1)):
            direction = 1.0 if flat_w[i, -1] >= flat_w[i, 0] else -1.0
            for start, stop in _clusters(flat_w[i], limits[i]):
                values = flat_w[i, start:stop].astype(np.float64)
                m = stop - start
                mean = values.mean()
                step = 2 * math.sqrt(eps) * abs(mean) / m
                if step <= limits[i]:
                    flat_apart[i, start:stop, start:stop] = False
                    continue
                places = mean + direction * step * (np.arange(m) - (m - 1) / 2)
                flat_shift[i, start:stop] = places - values
    return _delivered((shift, apart), outs)


# -- tridiagonal ----------------------------------------------------------------------------------


@temp_bytes(_copies(3))
def tridiagonal_solve(dl, d, du, b, *, outs: tuple = (None,)) -> tuple:
    n = d.shape[-1]
    if b.size == 0:
        return (deliver(b.copy(), outs[0]),)
    made = np.empty(b.shape, b.dtype)
    if n == 1:
        np.divide(b, d[..., None], out=made)
        return (deliver(made, outs[0]),)
    gtsv = _routine("lapack", "gtsv", b.dtype.char)
    flat = _stack(made)
    systems = zip(_stack(dl, 1), _stack(d, 1), _stack(du, 1), _stack(b), strict=True)
    for i, (low, middle, up, right) in enumerate(systems):
        *_, x, info = gtsv(low[1:], middle, up[:-1], right)
        flat[i] = np.nan if info else x
    return (deliver(made, outs[0]),)
