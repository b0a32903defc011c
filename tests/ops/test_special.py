"""Incomplete gamma and beta functions against mpmath."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

import mgefn
from mgefn.ops import special

POINTS = [(0.05, 0.01), (0.5, 0.5), (1.0, 2.0), (2.5, 0.3), (3.0, 9.0), (30.0, 20.0), (80.0, 95.0)]


def lower(a, x):
    return mp.gammainc(a, 0, x, regularized=True)


@pytest.mark.parametrize(("a", "x"), POINTS)
def test_values_and_slopes(a, x):
    a64, x64 = np.float64(a), np.float64(x)
    args = (np.asarray(a64), np.asarray(x64))
    np.testing.assert_allclose(special.igamma(*args), float(lower(a, x)), rtol=1e-12)
    np.testing.assert_allclose(special.igammac(*args), float(1 - lower(a, x)), rtol=1e-9)
    in_order = float(mp.diff(lambda t: lower(t, x), a))
    in_x = float(mp.diff(lambda t: lower(a, t), x))
    for fun, sign in ((special.igamma, 1), (special.igammac, -1)):
        da, dx = mgefn.grad(fun, (0, 1))(*args)
        np.testing.assert_allclose(da, sign * in_order, rtol=1e-9)
        np.testing.assert_allclose(dx, sign * in_x, rtol=1e-9)
    np.testing.assert_allclose(special.igamma_grad_a(*args), in_order, rtol=1e-9)
    np.testing.assert_allclose(special.random_gamma_grad(*args), -in_order / in_x, rtol=1e-9)


def test_edges():
    np.testing.assert_array_equal(special.igamma_grad_a(2.0, np.array([0.0, np.inf])), [0, 0])
    assert np.isnan(np.asarray(special.igamma_grad_a(-1.0, 1.0)))
    assert special.igamma(np.zeros((0, 2)), 1.0).shape == (0, 2)
    # The density at 0 is 1 for order 1, and infinite below.
    assert float(mgefn.grad(special.igamma, 1)(1.0, 0.0)) == 1
    assert float(mgefn.grad(special.igamma, 1)(0.5, 0.0)) == np.inf


def test_betainc():
    a, b, x = np.float64(2.0), np.float64(3.5), np.float64(0.3)
    args = tuple(map(np.asarray, (a, b, x)))
    np.testing.assert_allclose(
        special.betainc(*args), float(mp.betainc(2.0, 3.5, 0, 0.3, regularized=True)), rtol=1e-12
    )
    slope = float(mp.diff(lambda t: mp.betainc(2.0, 3.5, 0, t, regularized=True), 0.3))
    np.testing.assert_allclose(mgefn.grad(special.betainc, 2)(*args), slope, rtol=1e-9)
    with pytest.raises(mgefn.errors.UnsupportedError, match="betainc: has no derivative in a"):
        mgefn.grad(special.betainc)(*args)


def test_zeta():
    args = (np.asarray(np.float64(2.0)), np.asarray(np.float64(3.0)))
    np.testing.assert_allclose(special.zeta(*args), float(mp.zeta(2, 3)), rtol=1e-12)
    np.testing.assert_allclose(
        mgefn.grad(special.zeta, 1)(*args), float(mp.diff(lambda q: mp.zeta(2, q), 3)), rtol=1e-9
    )


def test_under_every_transformation():
    a, x = np.linspace(0.5, 3, 4), np.linspace(0.2, 5, 4)
    f = mgefn.grad(lambda a, x: special.igamma(a, x), (0, 1))
    each = [f(ai, xi) for ai, xi in zip(a, x, strict=True)]
    for got in (mgefn.vmap(f)(a, x), mgefn.jit(mgefn.vmap(f))(a, x)):
        for k in range(2):
            np.testing.assert_allclose(got[k], [float(e[k]) for e in each], rtol=1e-6)
