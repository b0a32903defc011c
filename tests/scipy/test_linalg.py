"""mgefn.scipy.linalg, sparse.linalg and optimize against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize

import mgefn
import mgefn.numpy as mnp
from mgefn import errors
from mgefn.scipy import linalg, optimize
from mgefn.scipy.sparse import linalg as sparse


def close(got, want):
    got, want = (x if isinstance(x, tuple) else (x,) for x in (got, want))
    for a, b in zip(got, want, strict=True):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)


def draw(shape, is_complex=False, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return x + 1j * rng.standard_normal(shape) if is_complex else x


both = pytest.mark.parametrize("is_complex", [False, True])


@both
@pytest.mark.parametrize("lower", [False, True])
def test_triangles(is_complex, lower):
    a, b = draw((5, 5), is_complex), draw((5, 3), seed=1)
    p = a @ a.conj().T + np.eye(5)
    close(linalg.cholesky(p, lower), scipy.linalg.cholesky(p, lower))
    close(linalg.cho_solve(linalg.cho_factor(p, lower), b), np.linalg.solve(p, b))
    close(linalg.solve(p, b[:, 0], assume_a="pos"), np.linalg.solve(p, b[:, 0]))
    t = (np.tril if lower else np.triu)(a) + 3 * np.eye(5)
    for trans in (0, 1, 2):
        got = linalg.solve_triangular(t, b, trans, lower)
        close(got, scipy.linalg.solve_triangular(t, b, trans, lower))


@both
def test_lu_and_qr(is_complex):
    a, r, b = draw((5, 5), is_complex), draw((6, 4), is_complex), draw((5, 3))
    close(linalg.lu(r), scipy.linalg.lu(r))
    close(linalg.lu(r.T, True), scipy.linalg.lu(r.T, True))
    for trans in (0, 1, 2):
        got = linalg.lu_solve(linalg.lu_factor(a), b, trans)
        close(got, scipy.linalg.lu_solve(scipy.linalg.lu_factor(a), b, trans))
    for mode in ("full", "economic", "r"):
        for pivoting in (False, True):
            got = linalg.qr(r, mode=mode, pivoting=pivoting)
            close(tuple(got), scipy.linalg.qr(r, mode=mode, pivoting=pivoting))
    close(linalg.qr_multiply(r, np.eye(6)), scipy.linalg.qr_multiply(r, np.eye(6)))
    close(linalg.polar(r), scipy.linalg.polar(r))


@both
def test_spectral_forms(is_complex):
    a = draw((5, 5), is_complex)
    p, b = a @ a.conj().T, a.conj().T @ a + np.eye(5)
    for kind in (1, 2, 3):
        w, v = linalg.eigh(p, b, type=kind)
        close(w, scipy.linalg.eigh(p, b, type=kind, eigvals_only=True))
    w, v = linalg.eigh(p, b)
    close(p @ np.asarray(v), b @ np.asarray(v) * np.asarray(w))
    for t, z in (linalg.schur(a, "complex"), linalg.rsf2csf(*linalg.schur(a))):
        close(mnp.tril(t, -1), np.zeros((5, 5)))
        close(z @ t @ mnp.conj(z).T, a)
    h, q = linalg.hessenberg(a, calc_q=True)
    close(mnp.tril(h, -2), np.zeros((5, 5)))
    close(q @ h @ mnp.conj(q).T, a)
    d, e = draw(6), draw(5, seed=1)
    got = linalg.eigh_tridiagonal(d, e, eigvals_only=True, select="i", select_range=(1, 3))
    close(got, scipy.linalg.eigh_tridiagonal(d, e, True, "i", (1, 3)))


@both
def test_functions(is_complex):
    a, b, c = draw((5, 5), is_complex), draw((3, 3)), draw((5, 3), seed=2)
    for scaled in (a, 20 * a, 1e-3 * a, np.stack([a, 3 * a])):
        close(linalg.expm(scaled), scipy.linalg.expm(scaled))
    close(linalg.expm_frechet(a, a.T), scipy.linalg.expm_frechet(a, a.T))
    root = np.asarray(linalg.sqrtm(a))
    close(root @ root, a)
    close(linalg.funm(a, mnp.exp), scipy.linalg.expm(a))
    x = np.asarray(linalg.solve_sylvester(a, b, c))
    close(a @ x + x @ b, c)
    assert np.isnan(np.asarray(linalg.expm(1e9 * a))).all()


@pytest.mark.parametrize("name", ["expm", "sqrtm", "solve_sylvester"])
def test_derivatives(name):
    a, direction, b, c = draw((4, 4)), draw((4, 4), seed=1), draw((3, 3)), draw((4, 3))
    if name == "sqrtm":
        a = a @ a.T + np.eye(4)
    rest = (b, c) if name == "solve_sylvester" else ()

    def f(x):
        return mnp.sum(mnp.abs(getattr(linalg, name)(x, *rest)) ** 2)

    h = 1e-6
    want = (float(f(a + h * direction)) - float(f(a - h * direction))) / (2 * h)
    got = np.sum(np.asarray(mgefn.jit(mgefn.grad(f))(a)) * direction)
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_special_matrices():
    for n in range(1, 8):
        for name in ("hilbert", "pascal", "invpascal", "dft", "invhilbert"):
            want = getattr(scipy.linalg, name)(n)
            np.testing.assert_allclose(getattr(linalg, name)(n), want, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(
            linalg.helmert(n, True), scipy.linalg.helmert(n, True), atol=1e-6
        )
        u = draw(n)
        close(linalg.fiedler_companion(u), scipy.linalg.fiedler_companion(u))
    close(linalg.hadamard(8), scipy.linalg.hadamard(8))
    v, w = draw(6), draw(4, seed=1)
    for name, args in (
        ("toeplitz", (v, w)), ("toeplitz", (v + 1j,)), ("hankel", (v, w)), ("hankel", (v,)),
        ("circulant", (v,)), ("companion", (v,)), ("fiedler", (v,)), ("leslie", (v, v[1:])),
        ("block_diag", (v, np.ones((2, 3)), 2.0)), ("convolution_matrix", (w, 6, "same")),
        ("convolution_matrix", (v, 3, "valid")),
    ):  # fmt: skip
        close(getattr(linalg, name)(*args), getattr(scipy.linalg, name)(*args))


def test_refusals():
    with pytest.raises(errors.ShapeError, match="square"):
        linalg.cholesky(np.ones((2, 3)))
    with pytest.raises(errors.ArgumentError, match="assume_a"):
        linalg.solve(np.eye(2), np.ones(2), assume_a="odd")
    with pytest.raises(errors.ArgumentError, match="power of 2"):
        linalg.hadamard(3)
    with pytest.raises(errors.ShapeError, match="structure and shapes of b"):
        sparse.cg(lambda x: x[:2], np.ones(3))
    with pytest.raises(errors.ArgumentError, match="options may be"):
        optimize.minimize(mnp.sum, np.ones(2), method="BFGS", options={"steps": 3})


@pytest.mark.parametrize("name", ["cg", "bicgstab", "gmres"])
def test_iterative_solvers(name):
    solver = getattr(sparse, name)
    a, b = draw((20, 20)), draw(20, seed=1)
    a = a @ a.T / 20 + np.eye(20) if name == "cg" else a / 10 + 3 * np.eye(20)
    want = np.linalg.solve(a, b)
    close(solver(a, b, tol=1e-12)[0], want)

    @mgefn.jit
    def solved(a, b):
        return solver(lambda x: a @ x, b, tol=1e-12, M=lambda x: x / 3)[0]

    close(solved(a, b), want)
    got = mgefn.grad(lambda a: mnp.sum(solved(a, b) ** 2))(a)
    close(got, -np.outer(np.linalg.solve(a.T, 2 * want), want))
    tree = solver(lambda t: {"x": a @ t["x"], "y": 2 * t["y"]}, {"x": b, "y": b[:3]}, tol=1e-12)
    close(tree[0]["x"], want)


def rosenbrock(x):
    return mnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


@pytest.mark.parametrize("x0", [np.zeros(2), np.array([-1.2, 1]), np.zeros(8)])
def test_bfgs(x0):
    found = mgefn.jit(lambda x: optimize.minimize(rosenbrock, x, method="BFGS"))(x0)
    assert found.success and found.status == 0
    np.testing.assert_allclose(found.x, 1, atol=1e-5)
    theirs = scipy.optimize.minimize(scipy.optimize.rosen, x0, jac=scipy.optimize.rosen_der)
    assert found.nfev <= 1.5 * theirs.nfev
    short = optimize.minimize(rosenbrock, x0, method="BFGS", options={"maxiter": 2})
    assert not short.success and short.status == 1 and short.nit == 2


def test_bfgs_in_a_batch_with_arguments():
    x0 = draw((3, 2))

    def minimum(x):
        fun = lambda x, a: mnp.sum(mnp.cosh(x - a))
        return optimize.minimize(fun, x, (2.0,), method="BFGS", tol=1e-8).x

    np.testing.assert_allclose(mgefn.vmap(minimum)(x0), 2, atol=1e-6)
