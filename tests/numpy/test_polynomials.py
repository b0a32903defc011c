"""Fits and zeros of polynomials against NumPy."""

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import errors

X = np.linspace(-1, 2, 9)
Y = np.cos(3 * X)
W = np.arange(9) + 0.5


@pytest.mark.parametrize("y", [Y, np.stack([Y, X**5], 1)], ids=["vector", "matrix"])
@pytest.mark.parametrize(
    "kwargs", [{}, {"w": W}, {"cov": True}, {"cov": "unscaled"}, {"full": True}], ids=str
)
def test_polyfit(y: np.ndarray, kwargs: dict) -> None:
    want, got = np.polyfit(X, y, 3, **kwargs), mnp.polyfit(X, y, 3, **kwargs)
    if not isinstance(want, tuple):
        want, got = (want,), (got,)
    for w, g in zip(want, got, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-7)


def test_polyfit_has_a_derivative() -> None:
    def top(y):
        return mnp.polyfit(X, y, 2)[0]

    slope = mgefn.jit(mgefn.grad(top))(Y)
    np.testing.assert_allclose(slope @ Y, np.polyfit(X, Y, 2)[0], rtol=1e-9)  # linear in y


def test_polyfit_errors() -> None:
    with pytest.raises(errors.ArgumentError, match="0 or more"):
        mnp.polyfit(X, Y, -1)
    with pytest.raises(errors.ShapeError, match="x of shape"):
        mnp.polyfit(X, Y[:3], 1)
    with pytest.raises(errors.ShapeError, match="w of shape"):
        mnp.polyfit(X, Y, 1, w=W[:2])
    with pytest.raises(errors.ShapeError, match="unscaled"):
        mnp.polyfit(X[:3], Y[:3], 2, cov=True)


@pytest.mark.parametrize(
    "p", [[1.0, -3, 2], [0.0, 0, 1, -3, 2], [1.0, 0, 0], [3.0], [1j, 2, 3]], ids=str
)
def test_roots(p: list) -> None:
    want = np.sort_complex(np.roots(p))
    np.testing.assert_allclose(np.sort_complex(mnp.roots(np.array(p))), want, atol=1e-12)


def test_roots_of_unknown_coefficients() -> None:
    fixed = mgefn.jit(lambda p: mnp.roots(p, strip_zeros=False))
    got = np.asarray(fixed(np.array([0.0, 1, -3, 2])))
    np.testing.assert_allclose(np.sort(got[:2].real), [1, 2], rtol=1e-12)
    assert np.isnan(got[2])
    assert np.isnan(np.asarray(fixed(np.zeros(3)))).all()
    with pytest.raises(errors.ConcretizationTypeError, match="strip_zeros=False"):
        mgefn.jit(mnp.roots)(np.ones(3))
    with pytest.raises(errors.ShapeError, match="vector"):
        mnp.roots(np.ones((2, 2)))
