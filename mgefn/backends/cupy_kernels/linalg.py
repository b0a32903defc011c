"""Kernels of `control/linalg/`: cuSOLVER and cuBLAS through CuPy, the rest in steps on stacks.

Where a matrix has no decomposition its results are NaN, and those of its neighbours are not: the
host asks cuSOLVER for its verdict, so Cholesky, SVD and eigenvalues wait for the device.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from mgefn.backends.cupy_kernels.base import contiguous
from mgefn.core.cuda import cupyx, solvers, xp


def _stack(x: Any, rank: int = 2) -> Any:
    """The leading dimensions as one."""
    return x.reshape((math.prod(x.shape[: x.ndim - rank]), *x.shape[x.ndim - rank :]))


def _real(dtype: np.dtype) -> np.dtype:
    return np.dtype(dtype.char.lower())


def _complex(dtype: np.dtype) -> np.dtype:
    return np.dtype(dtype.char.upper())


def _identity(shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """A stack of (rectangular) identities."""
    out = xp.zeros(shape, dtype)
    out[...] = xp.eye(*shape[-2:], dtype=dtype)
    return out


def _checked(
    a: Any, call: Callable[[Any], tuple], shapes: tuple[tuple[int, ...], ...], dtypes: tuple
) -> tuple:
    """A decomposition of a stack; where one of them fails, each by itself, NaN for those."""
    with cupyx.errstate(linalg="raise"):
        try:
            return call(a)
        except LinAlgError:
            pass
        lead = a.shape[:-2]
        made = [xp.empty((*lead, *s), d) for s, d in zip(shapes, dtypes, strict=True)]
        flat = [_stack(m, len(s)) for m, s in zip(made, shapes, strict=True)]
        for i, matrix in enumerate(_stack(a)):
            try:
                parts = call(matrix)
            except LinAlgError:
                parts = (np.nan,) * len(made)
            for target, part in zip(flat, parts, strict=True):
                target[i] = part
    return tuple(made)


# -- triangular -----------------------------------------------------------------------------------


def cholesky(a: Any) -> tuple:
    if a.size == 0:
        return (a.copy(),)
    return _checked(a, lambda x: (xp.linalg.cholesky(x),), (a.shape[-2:],), (a.dtype,))


def triangular_solve(
    a: Any,
    b: Any,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> tuple:
    if b.size == 0:
        return (b.copy(),)
    if conjugate_a:
        a = xp.conj(a)
    if not left_side:
        # x op(a) = b is op(a)^T x^T = b^T.
        b, transpose_a = b.swapaxes(-1, -2), not transpose_a
    if transpose_a:
        a, lower = a.swapaxes(-1, -2), not lower
    x = solvers.solve_triangular(
        contiguous(a), contiguous(b), lower=lower, unit_diagonal=unit_diagonal, check_finite=False
    )
    return (x if left_side else x.swapaxes(-1, -2),)


# -- lu, systems, determinants --------------------------------------------------------------------


def _permutation(pivots: Any, size: int) -> Any:
    """The order of rows after exchanging row i with row pivots[i] for each i in turn."""
    flat = _stack(pivots, 1)
    order = xp.zeros((flat.shape[0], size), pivots.dtype)
    order[...] = xp.arange(size)
    each = xp.arange(flat.shape[0])
    for i in range(flat.shape[1]):
        other = flat[:, i]
        there, here = order[each, other], order[:, i].copy()
        order[each, other] = here
        order[:, i] = there
    return order.reshape((*pivots.shape[:-1], size))


def lu(a: Any) -> tuple:
    m, n = a.shape[-2:]
    k = min(m, n)
    if a.size == 0:
        pivots = xp.zeros((*a.shape[:-2], k), np.int32)
        pivots[...] = xp.arange(k)
        return a.copy(), pivots, _permutation(pivots, m)
    factors = xp.empty(a.shape, a.dtype)
    pivots = xp.empty((*a.shape[:-2], k), np.int32)
    flat, flat_pivots = _stack(factors), _stack(pivots, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a singular matrix: its factors say so
        for i, matrix in enumerate(_stack(a)):
            flat[i], flat_pivots[i] = solvers.lu_factor(matrix, check_finite=False)
    return factors, pivots, _permutation(pivots, m)


def lu_pivots_to_permutation(pivots: Any, *, permutation_size: int) -> tuple:
    return (_permutation(pivots, permutation_size),)


def solve(a: Any, *rest: Any, transpose_a: bool) -> tuple:
    *factors, b = rest
    if b.size == 0:
        return (b.copy(),)
    if not factors:
        packed, pivots, _ = lu(a)
    else:
        packed, pivots = factors
    made = xp.empty(b.shape, b.dtype)
    flat = _stack(made)
    systems = zip(_stack(packed), _stack(pivots, 1), _stack(b), strict=True)
    for i, (factor, pivot, right) in enumerate(systems):
        flat[i] = solvers.lu_solve(
            (factor, pivot), right, trans=int(transpose_a), check_finite=False
        )
    return (made,)


def det(a: Any) -> tuple:
    if a.size == 0:
        return (xp.ones(a.shape[:-2], a.dtype),)
    factors, pivots, _ = lu(a)
    n = a.shape[-1]
    diagonal = xp.diagonal(factors, axis1=-2, axis2=-1)
    swaps = xp.sum(xp.not_equal(pivots, xp.arange(n)), axis=-1, dtype=np.int32)
    return (xp.prod(diagonal, axis=-1) * (1 - 2 * (swaps & 1)).astype(a.dtype),)


def cofactor(a: Any) -> tuple:
    """The derivatives of the determinant by the elements, from singular values."""
    n = a.shape[-1]
    if n < 2 or a.size == 0:
        return (xp.ones(a.shape, a.dtype),)
    u, s, vh = svd(a, full_matrices=False, compute_uv=True)
    products = xp.ones(s.shape, s.dtype)
    products[..., 1:] = xp.cumprod(s[..., :-1], axis=-1)
    products[..., :-1] *= xp.cumprod(s[..., :0:-1], axis=-1)[..., ::-1]
    phase = det(u)[0] * det(vh)[0]
    factor = phase[..., None] * products
    return (xp.matmul(xp.conj(u) * factor[..., None, :], xp.conj(vh)),)


# -- orthogonal -----------------------------------------------------------------------------------


def qr(a: Any, *, pivoting: bool, full_matrices: bool) -> tuple:
    *lead, m, n = a.shape
    k = m if full_matrices else min(m, n)
    if a.size == 0:
        made = _identity((*lead, m, k), a.dtype), xp.zeros((*lead, k, n), a.dtype)
        if not pivoting:
            return made
        order = xp.zeros((*lead, n), np.int32)
        order[...] = xp.arange(n)
        return (*made, order)
    if pivoting:
        return _pivoted_qr(a, k)
    q, r = xp.linalg.qr(a, mode="complete" if full_matrices else "reduced")
    return q, r


def _pivoted_qr(a: Any, k: int) -> tuple:
    """QR with the longest remaining column first, which cuSOLVER does not have.

    Householder reflectors on the whole stack at once. Where a column is real and 0 below the
    diagonal already there is none, as in LAPACK.
    """
    *lead, m, n = a.shape
    r = a.copy()
    order = xp.zeros((*lead, n), np.int64)
    order[...] = xp.arange(n)
    places = xp.arange(n)
    reflectors: list[tuple[Any, Any]] = []
    for j in range(min(m, n)):
        lengths = xp.sum(xp.absolute(r[..., j:, j:]) ** 2, axis=-2)
        longest = xp.argmax(lengths, axis=-1)[..., None] + j
        # Exchange column j with the longest one.
        at = xp.where(xp.equal(places, longest), np.int64(j), places)
        at = xp.where(xp.equal(places, j), longest, at)
        order = xp.take_along_axis(order, at, axis=-1)
        r = xp.take_along_axis(r, xp.broadcast_to(at[..., None, :], r.shape), axis=-1)
        x = r[..., j:, j]
        first = x[..., 0]
        below = xp.sum(xp.absolute(x[..., 1:]) ** 2, axis=-1)
        length = xp.sqrt(xp.absolute(first) ** 2 + below)
        nothing = xp.equal(below, 0) & xp.equal(first.imag, 0)
        beta = -xp.copysign(length, first.real)
        safe = xp.where(nothing, beta.dtype.type(1), beta)
        tau = xp.where(nothing, a.dtype.type(0), (safe - first) / safe)
        v = (x / xp.where(nothing, a.dtype.type(1), first - beta)[..., None])[..., None]
        v[..., 0, :] = 1
        along = xp.matmul(xp.conj(v).swapaxes(-1, -2), r[..., j:, j:])
        r[..., j:, j:] = r[..., j:, j:] - xp.conj(tau)[..., None, None] * xp.matmul(v, along)
        r[..., j + 1 :, j] = 0
        reflectors.append((tau, v))
    q = _identity((*lead, m, k), a.dtype)
    for j in range(len(reflectors) - 1, -1, -1):
        tau, v = reflectors[j]
        along = xp.matmul(xp.conj(v).swapaxes(-1, -2), q[..., j:, :])
        q[..., j:, :] = q[..., j:, :] - tau[..., None, None] * xp.matmul(v, along)
    return q, r[..., :k, :], order.astype(np.int32)


def geqrf(a: Any) -> tuple:
    taus = xp.zeros((*a.shape[:-2], min(a.shape[-2:])), a.dtype)
    made = a.copy()
    if a.size:
        flat, factors = _stack(made), _stack(taus, 1)
        for i, matrix in enumerate(_stack(a)):
            transposed, tau = xp.linalg.qr(matrix, mode="raw")
            flat[i], factors[i] = transposed.swapaxes(-1, -2), tau
    return made, taus


def householder_product(a: Any, taus: Any) -> tuple:
    """Reflectors applied to the identity, the last one first, to the whole stack at once."""
    n = a.shape[-1]
    made = _identity(a.shape, a.dtype)
    if a.size == 0:
        return (made,)
    for i in range(min(taus.shape[-1], n) - 1, -1, -1):
        v = a[..., i:, i : i + 1].copy()
        v[..., 0, :] = 1
        rows = made[..., i:, :]
        along = xp.matmul(xp.conj(v).swapaxes(-1, -2), rows)
        made[..., i:, :] = rows - taus[..., i, None, None] * xp.matmul(v, along)
    return (made,)


def svd(a: Any, *, full_matrices: bool, compute_uv: bool) -> tuple:
    m, n = a.shape[-2:]
    k = min(m, n)
    left, right = (m, m if full_matrices else k), (n if full_matrices else k, n)
    if a.size == 0:
        s = xp.zeros((*a.shape[:-2], k), _real(a.dtype))
        if not compute_uv:
            return (s,)
        lead = a.shape[:-2]
        return _identity((*lead, *left), a.dtype), s, _identity((*lead, *right), a.dtype)
    if not compute_uv:
        return _checked(
            a, lambda x: (xp.linalg.svd(x, compute_uv=False),), ((k,),), (_real(a.dtype),)
        )
    return _checked(
        a,
        lambda x: tuple(xp.linalg.svd(x, full_matrices=full_matrices)),
        (left, (k,), right),
        (a.dtype, _real(a.dtype), a.dtype),
    )


def pinv(a: Any, rtol: Any, *, hermitian: bool) -> tuple:
    if a.size == 0:
        return (xp.zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype),)
    if hermitian:
        vectors, values = eigh(a, lower=True, vectors=True)
        left, right = vectors, xp.conj(vectors).swapaxes(-1, -2)
    else:
        u, values, vh = svd(a, full_matrices=False, compute_uv=True)
        left, right = xp.conj(vh).swapaxes(-1, -2), xp.conj(u).swapaxes(-1, -2)
    sizes = xp.absolute(values)
    kept = xp.greater(sizes, rtol[..., None] * xp.amax(sizes, axis=-1, keepdims=True))
    kept = kept | xp.isnan(sizes)  # a matrix of NaN has no inverse, not the inverse 0
    one = values.dtype.type(1)
    inverse = xp.where(kept, one / xp.where(kept, values, one), values.dtype.type(0))
    return (xp.matmul(left * inverse[..., None, :], right),)


# -- eigenvalues ----------------------------------------------------------------------------------


def eigh(a: Any, *, lower: bool, vectors: bool) -> tuple:
    uplo = "L" if lower else "U"
    if a.size == 0:
        w = xp.zeros(a.shape[:-1], _real(a.dtype))
        return (a.copy(), w) if vectors else (w,)

    def one(x: Any) -> tuple:
        if not vectors:
            return (xp.linalg.eigvalsh(x, UPLO=uplo),)
        w, v = xp.linalg.eigh(x, UPLO=uplo)
        return v, w

    shapes = (a.shape[-2:], a.shape[-1:])[0 if vectors else 1 :]
    dtypes = (a.dtype, _real(a.dtype))[0 if vectors else 1 :]
    return _checked(a, one, shapes, dtypes)


def eig(a: Any, *, left: bool, right: bool, derivatives: bool) -> tuple:
    """Left vectors are the rows of the inverse of the right ones, of length 1."""
    dtype = _complex(a.dtype)
    n = a.shape[-1]
    shape = (*a.shape[:-2], n, n)
    if a.size == 0:
        vectors = (xp.zeros(shape, dtype),) * (left + right)
        return (xp.zeros(shape[:-1], dtype), *vectors)
    if not left and not right:
        made = _checked(a, lambda x: (xp.linalg.eigvals(x),), ((n,),), (dtype,))
        return (made[0].astype(dtype, copy=False),)
    w, v = _checked(a, lambda x: tuple(xp.linalg.eig(x)), ((n,), (n, n)), (dtype, dtype))
    w, v = w.astype(dtype, copy=False), v.astype(dtype, copy=False)
    if not left:
        return w, v
    (inverse,) = solve(v, _identity(shape, dtype), transpose_a=False)
    vl = xp.conj(inverse).swapaxes(-1, -2)
    length = xp.sqrt(xp.sum(xp.absolute(vl) ** 2, axis=-2, keepdims=True))
    vl = vl / length
    return (w, vl, v) if right else (w, vl)


def spread(w: Any) -> tuple:
    """Moves close eigenvalues apart; see the NumPy kernel, which walks over runs of close ones.

    Here a run is a number that two neighbours share: how many gaps stand before them.
    """
    n = w.shape[-1]
    real = w.dtype
    apart = xp.broadcast_to(~xp.eye(n, dtype=bool), (*w.shape, n))
    if w.size == 0 or n < 2:
        return xp.zeros(w.shape, real), contiguous(apart)
    eps = float(np.finfo(real).eps)
    tolerance = 4 * math.sqrt(n) * eps * xp.amax(xp.absolute(w), axis=-1, keepdims=True)
    gap = ~xp.less_equal(xp.absolute(w[..., 1:] - w[..., :-1]), tolerance)
    run = xp.zeros(w.shape, np.int64)
    run[..., 1:] = xp.cumsum(gap.astype(np.int64), axis=-1)
    together = xp.equal(run[..., :, None], run[..., None, :])
    members = together.astype(np.float64)
    m = xp.sum(members, axis=-1)
    wide = w.astype(np.float64)
    mean = xp.matmul(members, xp.where(xp.isfinite(wide), wide, 0.0)[..., None])[..., 0] / m
    step = 2 * math.sqrt(eps) * xp.absolute(mean) / m
    many = xp.greater(m, 1)
    near_zero = many & xp.less_equal(step, tolerance)
    below = xp.sum(members * xp.tri(n, k=-1), axis=-1)
    direction = xp.where(xp.greater_equal(w[..., -1:], w[..., :1]), 1.0, -1.0)
    places = mean + direction * step * (below - (m - 1) / 2)
    shift = xp.where(many & ~near_zero, places - wide, 0.0).astype(real)
    return shift, apart & ~(together & near_zero[..., None])


# -- tridiagonal ----------------------------------------------------------------------------------


def tridiagonal_solve(dl: Any, d: Any, du: Any, b: Any) -> tuple:
    """Elimination with exchanges of neighbouring rows, all systems at once, a row a step."""
    n = d.shape[-1]
    if b.size == 0:
        return (b.copy(),)
    zero = xp.zeros(d.shape[:-1], d.dtype)
    middle = [d[..., i] for i in range(n)]
    upper = [du[..., i] for i in range(n - 1)] + [zero]
    second = [zero] * n
    right = [b[..., i, :] for i in range(n)]
    for i in range(n - 1):
        low = dl[..., i + 1]
        swap = xp.greater(xp.absolute(low), xp.absolute(middle[i]))
        pivot = xp.where(swap, low, middle[i])
        over = xp.where(swap, middle[i], low)
        factor = over / pivot
        first = xp.where(swap, middle[i + 1], upper[i])
        other = xp.where(swap, upper[i], middle[i + 1])
        beyond = xp.where(swap, upper[i + 1], zero)
        beyond_other = xp.where(swap, zero, upper[i + 1])
        middle[i], upper[i], second[i] = pivot, first, beyond
        middle[i + 1] = other - factor * first
        upper[i + 1] = beyond_other - factor * beyond
        top = xp.where(swap[..., None], right[i + 1], right[i])
        bottom = xp.where(swap[..., None], right[i], right[i + 1])
        right[i], right[i + 1] = top, bottom - factor[..., None] * top
    x: list[Any] = [None] * n
    for i in range(n - 1, -1, -1):
        value = right[i]
        if i + 1 < n:
            value = value - upper[i][..., None] * x[i + 1]
        if i + 2 < n:
            value = value - second[i][..., None] * x[i + 2]
        x[i] = value / middle[i][..., None]
    made = xp.stack(x, axis=-2)
    # A system without a solution gives NaN throughout, as LAPACK's status does on the CPU.
    singular = xp.equal(xp.stack(middle, axis=-1), 0)
    bad = xp.any(singular, axis=-1)[..., None, None] & (n > 1)
    return (xp.where(bad, made.dtype.type(np.nan), made),)
