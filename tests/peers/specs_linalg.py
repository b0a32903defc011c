"""Linear algebra: numpy.linalg, lax.linalg, scipy.linalg.

What a decomposition leaves open, a sign or a phase, is taken out by comparing what the factors
make together and how they relate, not the factors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.peers.frame import Spec
from tests.peers.rows import (
    A,
    c64,
    c128,
    each,
    f32,
    f64,
    hermitian,
    i32,
    positive,
    r,
    rows,
    spd,
    uniform,
    well,
)  # fmt: skip
from tests.peers.specs_numpy import contraction, creation, shaping

SQUARE = ((3, 3), (2, 2, 2))
TYPES = (f32, f64, c64, c128)
LOOSE: dict[str, Any] = dict(ulps=256, slope_ulps=4096)  # a condition number of about 10


def H(L: Any, x: Any) -> Any:
    return L.numpy.conj(L.numpy.swapaxes(x, -1, -2))


def sym(L: Any, x: Any) -> Any:
    return (x + H(L, x)) / 2


def spread(L: Any, v: Any, w: Any) -> Any:
    """V diag(w) V^H with weights that tell the columns apart: free of the columns' phases."""
    return (v * w[..., None, :]) @ H(L, v)


def matrices(
    how: Any = well,
    shapes: Any = SQUARE,
    call: Any = None,
    dtypes: Any = TYPES,
    options: Any = ({},),
    **kw: Any,
) -> Spec:
    return rows(
        [r(A(d, s, how), **o) for o in options for s in shapes for d in dtypes],
        r(A(f32, (0, 3, 3), how)),
        call=call,
        **(LOOSE | kw),
    )


def eigh(L: Any, f: Any, a: Any, **k: Any) -> Any:
    w, v = f(sym(L, a), **k)
    n = L.numpy.arange(1, w.shape[-1] + 1).astype(w.dtype)
    return w, spread(L, v, n * n)


def lax_eigh(L: Any, f: Any, a: Any) -> Any:
    v, w = f(sym(L, a))
    n = L.numpy.arange(1, w.shape[-1] + 1).astype(w.dtype)
    return w, spread(L, v, n * n)


def eig(L: Any, f: Any, a: Any) -> Any:
    w, v = f(a)
    order = L.numpy.argsort(L.numpy.real(w), axis=-1)
    w, v = (
        L.numpy.take_along_axis(w, order, -1),
        L.numpy.take_along_axis(v, order[..., None, :], -1),
    )
    return w, v[..., :, None, :] * L.numpy.conj(v)[..., None, :, :]


def eigvals(L: Any, f: Any, a: Any) -> Any:
    w = f(a)
    return L.numpy.take_along_axis(w, L.numpy.argsort(L.numpy.real(w), axis=-1), -1)


def svd(L: Any, f: Any, a: Any, **k: Any) -> Any:
    u, s, vh = f(a, **k)
    n = s.shape[-1]
    weights = L.numpy.arange(1, n + 1).astype(s.dtype)
    return s, (u[..., :, :n] * weights) @ vh[..., :n, :], u.shape, vh.shape


def qr(L: Any, f: Any, a: Any, **k: Any) -> Any:
    q, x = f(a, **k)
    n = min(q.shape[-1], *a.shape[-2:])
    # The phases of the diagonal of R go over to Q.
    d = L.numpy.diagonal(x, axis1=-2, axis2=-1)
    phase = d / L.numpy.abs(d)
    return (
        q[..., :, :n] * phase[..., None, :],
        L.numpy.conj(phase)[..., :, None] * x[..., :n, :],
        q.shape,
    )


def pair(
    how: Any = well,
    shapes: Any = (((3, 3), (3,)), ((3, 3), (3, 2)), ((2, 3, 3), (2, 3, 2))),
    options: Any = ({},),
    **kw: Any,
) -> Spec:
    return rows(
        [r(A(d, a, how), A(d, b), **o) for o in options for a, b in shapes for d in TYPES],
        **(LOOSE | kw),
    )


VECTORS = [
    r(A(d), ord=o, axis=a)
    for o in (None, 1, 2, np.inf, -np.inf, 0, 3)
    for a in (0, -1)
    for d in (f32, f64, c128)
]
NORMS = [
    r(A(d, (3, 3), well), ord=o)
    for o in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)
    for d in (f32, f64, c128)
]

NUMPY: dict[str, Spec] = {
    **each("cholesky", rows([r(A(d, s, spd), call=lambda L, f, a, **k: f(sym(L, a), **k), **o) for o in ({}, dict(upper=True)) for s in SQUARE for d in TYPES], **LOOSE), "numpy.linalg."),
    **each("cond", rows([r(A(d, s, well), p) for p in (None, 1, "fro", np.inf) for s in SQUARE for d in TYPES], **LOOSE), "numpy.linalg."),
    **each("det slogdet", matrices(), "numpy.linalg."),
    **each("inv", matrices(), "numpy.linalg."),
    **each("eigh", matrices(hermitian, call=eigh), "numpy.linalg."),
    **each("eigvalsh", matrices(hermitian, call=lambda L, f, a: f(sym(L, a))), "numpy.linalg."),
    **each("eig", matrices(call=eig, slope_ulps=1e5), "numpy.linalg."),
    **each("eigvals", matrices(call=eigvals), "numpy.linalg."),
    **each("svd", matrices(shapes=((3, 3), (2, 4), (2, 4, 2)), call=svd, options=(dict(full_matrices=False), dict(full_matrices=True)), slope_ulps=1e5), "numpy.linalg."),
    **each("svdvals", matrices(shapes=((3, 3), (2, 4), (2, 4, 2))), "numpy.linalg."),
    **each("qr", matrices(shapes=((3, 3), (4, 2), (2, 4, 2)), call=qr), "numpy.linalg."),
    **each("pinv", matrices(shapes=((3, 3), (4, 2), (2, 2, 4)), slope_ulps=1e5), "numpy.linalg."),
    **each("matrix_rank", matrices(), "numpy.linalg."),
    **each("matrix_power", rows([r(A(d, (3, 3), well), n) for n in (0, 1, 3, -2) for d in TYPES], **LOOSE), "numpy.linalg."),
    **each("solve", pair(), "numpy.linalg."),
    **each("lstsq", rows([r(A(d, s, well), A(d, (s[0], 2)), call=lambda L, f, a, b: (lambda o: (o[0], o[2], o[3]))(f(a, b))) for s in ((3, 3), (4, 2)) for d in TYPES], slope_ulps=1e5, ulps=256), "numpy.linalg."),
    **each("norm", rows(VECTORS, NORMS, r(A(f64, (2, 3, 3))), r(A(i32, (3,))), r(A(f64), keepdims=True), r(A(f64, (2, 3, 3), well), ord=2, axis=(1, 2)), **LOOSE), "numpy.linalg."),
    **each("vector_norm", rows([r(A(d), ord=o, axis=a) for o in (1, 2, np.inf, -np.inf, 0, 3) for a in (0, None) for d in (f32, f64, c128)], r(A(i32)), r(A(f64), keepdims=True), **LOOSE), "numpy.linalg."),
    **each("matrix_norm", rows(NORMS[3:], r(A(f64, (2, 3, 3), well), keepdims=True), **LOOSE), "numpy.linalg."),
    **each("multi_dot", rows([r([A(d, (2, 3)), A(d, (3, 4)), A(d, (4, 2))]) for d in TYPES], r([A(f64, (3,)), A(f64, (3, 4)), A(f64, (4,))]), ulps=64), "numpy.linalg."),
    **each("tensorinv", rows([r(A(d, (4, 4), well), call=lambda L, f, a: f(L.numpy.reshape(a, (4, 2, 2)), 1)) for d in TYPES], **LOOSE), "numpy.linalg."),
    **each("tensorsolve", rows([r(A(d, (4, 4), well), A(d, (2, 2)), call=lambda L, f, a, b: f(L.numpy.reshape(a, (2, 2, 2, 2)), b)) for d in TYPES], **LOOSE), "numpy.linalg."),
    **each("cross", contraction(((2, 3), (2, 3)), ((3,), (2, 3))), "numpy.linalg."),
    **each("matmul", contraction(((2, 3), (3, 2)), ((3,), (3,))), "numpy.linalg."),
    **each("outer", contraction(((2,), (3,))), "numpy.linalg."),
    **each("tensordot", contraction(((2, 3), (3, 4)), axes=1), "numpy.linalg."),
    **each("vecdot", contraction(((2, 3), (2, 3))), "numpy.linalg."),
    **each("diagonal trace", shaping({}, dict(offset=1), shape=(2, 3, 3)), "numpy.linalg."),
    **each("matrix_transpose", shaping({}), "numpy.linalg."),
}  # fmt: skip

LAX: dict[str, Spec] = {
    **each("cholesky", rows([r(A(d, s, spd), call=lambda L, f, a: f(sym(L, a))) for s in SQUARE for d in TYPES], r(A(f64, (3, 3), spd), symmetrize_input=False, diff=()), **LOOSE), "lax.linalg."),
    **each("cholesky_update", rows([r(A(d, (3, 3), spd), A(d, (3,)), call=lambda L, f, a, w: f(H(L, L.numpy.linalg.cholesky(sym(L, a))), w)) for d in (f32, f64)], diff=(), **LOOSE), "lax.linalg."),
    **each("eig", rows([r(A(d, (3, 3), well), call=lambda L, f, a: eigvals(L, lambda x: f(x, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0], a)) for d in TYPES], r(A(f64, (3, 3), well), diff=(), call=lambda L, f, a: eig(L, lambda x: (lambda o: (o[0], o[2]))(f(x)), a)), **LOOSE), "lax.linalg."),
    **each("eigh", matrices(hermitian, call=lax_eigh), "lax.linalg."),
    **each("householder_product", rows([r(A(d, (4, 2)), call=lambda L, f, a: f(a, L.numpy.array([0.5, 0.25], a.dtype))) for d in TYPES], **LOOSE), "lax.linalg."),
    **each("lu", matrices(shapes=((3, 3), (2, 4), (2, 4, 2))), "lax.linalg."),
    **each("lu_pivots_to_permutation", rows(r(np.array([2, 1, 2], np.int32), 4), r(np.array([[0, 2], [1, 1]], np.int32), 3)), "lax.linalg."),
    **each("qr", matrices(shapes=((3, 3), (4, 2)), call=qr, options=(dict(full_matrices=False),)), "lax.linalg."),
    **each("schur", rows([r(A(d, (3, 3), hermitian), call=lambda L, f, a: (lambda t, z: (z @ t @ H(L, z), L.numpy.sort(L.numpy.real(L.numpy.diagonal(t)))))(*f(a))) for d in TYPES], diff=(), **LOOSE), "lax.linalg."),
    **each("svd", matrices(shapes=((3, 3), (2, 4)), call=svd, options=(dict(full_matrices=False),), slope_ulps=1e5), "lax.linalg."),
    **each("symmetric_product", rows([r(A(d, (3, 2)), A(d, (3, 3), spd), **o) for o in ({}, dict(alpha=2.0, beta=0.5, symmetrize_output=True)) for d in (f32, f64)], diff=(), call=lambda L, f, a, c, **k: (lambda o: o if k else L.numpy.tril(o))(f(a, c, **k)), **LOOSE), "lax.linalg."),
    **each("triangular_solve", rows([r(A(d, (3, 3), well), A(d, (3, 2)), left_side=True, **o) for o in ({}, dict(lower=True), dict(lower=True, transpose_a=True), dict(transpose_a=True, conjugate_a=True), dict(unit_diagonal=True)) for d in TYPES], r(A(f64, (3, 3), well), A(f64, (2, 3))), **LOOSE), "lax.linalg."),
    **each("tridiagonal_solve", rows([r(A(d, (4,)), A(d, (4,), uniform(5, 7)), A(d, (4,)), A(d, (4, 2))) for d in (f32, f64)], diff=(3,), **LOOSE), "lax.linalg."),
}  # fmt: skip


SCIPY: dict[str, Spec] = {
    **each("block_diag", rows([r(A(d), A(d, (1, 2)), A(d, (3,))) for d in (i32, f32, f64)]), "scipy.linalg."),
    **each("cholesky", rows([r(A(d, s, spd), call=lambda L, f, a, **k: f(sym(L, a), **k), **o) for o in ({}, dict(lower=True)) for s in SQUARE for d in TYPES], **LOOSE), "scipy.linalg."),
    **each("cho_factor", rows([r(A(d, (3, 3), spd), call=lambda L, f, a, **k: L.numpy.tril(f(sym(L, a), **k)[0]) if k else L.numpy.triu(f(sym(L, a))[0]), **o) for o in ({}, dict(lower=True)) for d in TYPES], **LOOSE), "scipy.linalg."),
    **each("cho_solve", rows([r(A(d, (3, 3), spd), A(d, (3, 2)), call=lambda L, f, a, b: f((L.scipy.linalg.cholesky(sym(L, a), lower=True), True), b)) for d in TYPES], **LOOSE), "scipy.linalg."),
    **each("det inv", matrices(), "scipy.linalg."),
    **each("eigh", rows([r(A(d, (3, 3), hermitian), call=eigh) for d in TYPES], [r(A(d, (3, 3), hermitian), eigvals_only=True, call=lambda L, f, a, **k: f(sym(L, a), **k)) for d in TYPES], **LOOSE), "scipy.linalg."),
    **each("eigh_tridiagonal", rows([r(A(d, (4,)), A(d, (3,), positive), eigvals_only=True) for d in (f32, f64)], diff=(), **LOOSE), "scipy.linalg."),
    **each("expm", rows([r(A(d, (3, 3), uniform(-1, 1))) for d in TYPES], r(A(f64, (3, 3)), upper_triangular=True, call=lambda L, f, a, **k: f(L.numpy.triu(a), **k)), **LOOSE), "scipy.linalg."),
    **each("expm_frechet", rows([r(A(d, (3, 3), uniform(-1, 1)), A(d, (3, 3), uniform(-1, 1))) for d in (f32, f64)], **LOOSE), "scipy.linalg."),
    **each("funm", rows([r(A(d, (3, 3), hermitian), call=lambda L, f, a: f(a, L.numpy.exp)) for d in (f32, f64)], diff=(), ulps=4096), "scipy.linalg."),
    **each("hessenberg", rows([r(A(d, (4, 4), well), call=lambda L, f, a: (lambda h, q: (q @ h @ H(L, q), L.numpy.abs(h)))(*f(a, calc_q=True))) for d in TYPES], diff=(), **LOOSE), "scipy.linalg."),
    **each("lu", matrices(shapes=((3, 3), (2, 4)), options=({}, dict(permute_l=True))), "scipy.linalg."),
    **each("lu_factor", matrices(), "scipy.linalg."),
    **each("lu_solve", rows([r(A(d, (3, 3), well), A(d, (3, 2)), t, call=lambda L, f, a, b, t: f(L.scipy.linalg.lu_factor(a), b, t)) for t in (0, 1, 2) for d in TYPES], **LOOSE), "scipy.linalg."),
    **each("polar", rows([r(A(d, (3, 3), well), side=s) for s in ("right", "left") for d in (f32, f64, c128)], ulps=1024, slope_ulps=1e5), "scipy.linalg."),
    **each("qr", matrices(shapes=((3, 3), (4, 2)), dtypes=TYPES, call=qr, options=(dict(mode="economic"),)), "scipy.linalg."),
    **each("qr_multiply", rows([r(A(d, (3, 3), well), A(d, (3, 3)), call=lambda L, f, a, c: (lambda cq, x: cq @ x)(*f(a, c))) for d in (f32, f64)], diff=(), **LOOSE), "scipy.linalg."),
    **each("rsf2csf", rows([r(A(d, (3, 3), well), call=lambda L, f, a: (lambda t, z: z @ t @ H(L, z))(*f(*L.scipy.linalg.schur(a)))) for d in (f32, f64)], diff=(), ulps=1024), "scipy.linalg."),
    **each("schur", rows([r(A(d, (3, 3), hermitian), output=o, call=lambda L, f, a, **k: (lambda t, z: (z @ t @ H(L, z), L.numpy.sort(L.numpy.real(L.numpy.diagonal(t)))))(*f(a, **k))) for o in ("real", "complex") for d in (f32, f64)], diff=(), **LOOSE), "scipy.linalg."),
    **each("solve", pair(options=({}, dict(assume_a="gen"))), "scipy.linalg."),
    **each("solve_sylvester", rows([r(A(d, (3, 3), spd), A(d, (2, 2), spd), A(d, (3, 2))) for d in (f32, f64)], diff=(), ulps=4096), "scipy.linalg."),
    **each("solve_triangular", pair(options=({}, dict(lower=True), dict(trans=1), dict(trans=2, lower=True), dict(unit_diagonal=True))), "scipy.linalg."),
    **each("sqrtm", rows([r(A(d, (3, 3), spd)) for d in (f32, f64, c128)], diff=(), **LOOSE), "scipy.linalg."),
    **each("svd", matrices(shapes=((3, 3), (2, 4)), call=svd, options=(dict(full_matrices=False), {}), slope_ulps=1e5), "scipy.linalg."),
    **each("circulant fiedler", shaping({}, shape=(3,)), "scipy.linalg."),
    **each("companion fiedler_companion", rows([r(A(d, (4,), positive)) for d in (f32, f64)], ulps=32), "scipy.linalg."),
    **each("convolution_matrix", rows([r(A(d, (3,)), 4, mode=m) for m in ("full", "same", "valid") for d in (i32, f64)]), "scipy.linalg."),
    **each("toeplitz hankel", rows([r(A(d, (3,))) for d in (i32, f32, f64, c128)], r(A(f64, (3,)), A(f64, (4,)))), "scipy.linalg."),
    **each("leslie", rows([r(A(d, (3,)), A(d, (2,))) for d in (f32, f64)]), "scipy.linalg."),
    **each("dft", creation(r(4), r(3, scale="sqrtn"), r(3, scale="n")), "scipy.linalg."),
    **each("hadamard", creation(r(4), r(2, dtype=np.float32)), "scipy.linalg."),
    **each("helmert", creation(r(4), r(3, full=True)), "scipy.linalg."),
    # Integers as floats: JAX takes them from exponentials of sums of logarithms.
    **each("hilbert invhilbert", creation(r(3), r(1), ulps=128), "scipy.linalg."),
    **each("pascal invpascal", creation([r(4, kind=k) for k in ("symmetric", "lower", "upper")], ulps=128), "scipy.linalg."),
}  # fmt: skip
