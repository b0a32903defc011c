"""custom_root and custom_linear_solve: derivatives from the equation, not from the solver."""

from __future__ import annotations

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import grad, jit, lax, vmap
from mgefn.errors import DTypeError, TreeError, UnsupportedError


def newton(f, x):
    """Newton's method in a while_loop, through which no reverse mode goes."""

    def step(v):
        n, x, _ = v
        y, slope = mgefn.jvp(f, (x,), (mnp.ones_like(x),))
        return n + 1, x - y / slope, y

    return lax.while_loop(
        lambda v: (v[0] < 50) & (abs(v[2]) > 1e-12), step, (0, x, mnp.ones_like(x))
    )[1]


def divide(g, y):
    return y / g(mnp.ones_like(y))


def cube_root(a):
    return lax.custom_root(lambda x: x**3 - a, mnp.asarray(2.0, "float64"), newton, divide)


A = np.float64(5)


@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["eager", "jit"])
def test_root(wrap):
    a = mnp.asarray(A, "float64")
    np.testing.assert_allclose(wrap(cube_root)(a), np.cbrt(A), rtol=1e-12)
    first, second = A ** (-2 / 3) / 3, -2 / 9 * A ** (-5 / 3)
    np.testing.assert_allclose(wrap(grad(cube_root))(a), first, rtol=1e-10)
    np.testing.assert_allclose(wrap(mgefn.jacfwd(cube_root))(a), first, rtol=1e-10)
    np.testing.assert_allclose(wrap(grad(grad(cube_root)))(a), second, rtol=1e-9)
    many = np.array([2.0, 5.0, 9.0])
    np.testing.assert_allclose(wrap(vmap(grad(cube_root)))(many), many ** (-2 / 3) / 3, rtol=1e-10)


def test_root_with_auxiliary_data():
    def f(a):
        solve = lambda f, x: (newton(f, x), {"steps": 7})
        return lax.custom_root(lambda x: x**2 - a, mnp.asarray(2.0), solve, divide, has_aux=True)

    root, aux = f(9.0)
    assert abs(root - 3) < 1e-5 and aux["steps"] == 7
    assert abs(grad(lambda a: f(a)[0])(9.0) - 1 / 6) < 1e-5


def test_root_messages():
    with pytest.raises(TreeError, match="structure of initial_guess"):
        lax.custom_root(lambda x: (x, x), 1.0, newton, divide)
    with pytest.raises(DTypeError, match="types of initial_guess"):
        lax.custom_root(lambda x: mnp.stack([x]), 1.0, newton, divide)


RNG = np.random.default_rng(0)
M = RNG.standard_normal((3, 3)) + 3 * np.eye(3)
B = RNG.standard_normal(3)


def richardson(matvec, b):
    """x <- x + (b - A x) / 5, which converges for M and its transpose; with a while_loop."""

    def step(v):
        return v[0] + 1, v[1] + (b - matvec(v[1])) * 0.2

    return lax.while_loop(lambda v: v[0] < 400, step, (0, b))[1]


def solved(m, b):
    return lax.custom_linear_solve(lambda x: m @ x, b, richardson, richardson)


def by_inverse(m, b):
    """The solution by Cramer's rule, which every mode goes through."""
    cross = mnp.stack
    r0, r1, r2 = m[0], m[1], m[2]

    def product(u, v):
        return cross(
            [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]]
        )

    det = (r0 * product(r1, r2)).sum()
    return (product(r1, r2) * b[0] + product(r2, r0) * b[1] + product(r0, r1) * b[2]) / det


@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["eager", "jit"])
def test_linear_solve(wrap):
    ms, bs = np.stack([M, M.T]), np.stack([B, -B])
    for transform, args in (
        (lambda f: f, (M, B)),
        (lambda f: grad(lambda m, b: (f(m, b) ** 2).sum(), (0, 1)), (M, B)),
        (lambda f: lambda m, b: mgefn.jvp(f, (m, b), (m.T, b * b)), (M, B)),
        (lambda f: mgefn.jacrev(f, (0, 1)), (M, B)),
        (
            lambda f: grad(
                lambda b: grad(lambda b: (f(mgefn.device_put(M), b) ** 3).sum())(b).sum()
            ),
            (B,),
        ),
        (vmap, (ms, bs)),
        (lambda f: vmap(grad(lambda m, b: (f(m, b) ** 2).sum(), (0, 1))), (ms, bs)),
    ):
        args = mgefn.device_put(args)  # scalars of NumPy are weak
        got = mgefn.tree.leaves(wrap(transform(solved))(*args))
        want = mgefn.tree.leaves(transform(by_inverse)(*args))
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(np.asarray(g), np.asarray(w), rtol=1e-8, atol=1e-10)


def test_symmetric_and_without_a_transposed_solver():
    s = M + M.T
    solve = lambda matvec, b: (mnp.asarray(np.linalg.inv(s)) @ b, 1)
    f = lambda b, **kw: lax.custom_linear_solve(lambda x: s @ x, b, solve, has_aux=True, **kw)
    (x, one), ct = f(B, symmetric=True), np.arange(3.0)
    assert one == 1
    np.testing.assert_allclose(s @ np.asarray(x), B)
    pull = mgefn.vjp(lambda b: f(b, symmetric=True)[0], B)[1]
    np.testing.assert_allclose(pull(ct)[0], np.linalg.solve(s, ct))
    with pytest.raises(UnsupportedError, match="Pass transpose_solve"):
        grad(lambda b: f(b)[0].sum())(B)


def test_linear_solve_messages():
    with pytest.raises(TreeError, match="structure of b"):
        lax.custom_linear_solve(lambda x: (x, x), B, richardson)
    with pytest.raises(DTypeError, match="types of b"):
        lax.custom_linear_solve(lambda x: x, B, lambda matvec, b: b[:1])
    with pytest.raises(TreeError, match="auxiliary data"):
        lax.custom_linear_solve(lambda x: x, B, lambda matvec, b: b, has_aux=True)
