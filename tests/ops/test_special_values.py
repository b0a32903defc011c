"""Values at which formulas break: complex infinities, and norms of numbers whose squares vanish."""

from __future__ import annotations

import cmath
import itertools
import math
from typing import Any

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp

PARTS = [0.0, -0.0, 1.0, -2.5, math.inf, -math.inf, math.nan, 5e-324, -1e-310, 1e300]
COMPLEX = np.array([complex(a, b) for a, b in itertools.product(PARTS, PARTS)])


def same(got: Any, want: Any) -> Any:
    """Equal parts, zeros with their signs."""

    def parts(a, b):
        zero = (a == 0) & (b == 0) & (np.signbit(a) == np.signbit(b))
        return (np.isnan(a) & np.isnan(b)) | ((a == b) & (a != 0)) | zero | close(a, b)

    def close(a, b):
        with np.errstate(all="ignore"):
            return np.abs(a - b) <= 1e-14 * np.abs(b)

    return parts(got.real, want.real) & parts(got.imag, want.imag)


@pytest.mark.parametrize("way", [lambda f: f, mgefn.jit], ids=["eager", "jit"])
def test_reciprocal_of_complex_numbers(way):
    got = np.asarray(way(mnp.reciprocal)(mnp.array(COMPLEX)))
    with np.errstate(all="ignore"):
        want = np.reciprocal(COMPLEX)
    zero = COMPLEX == 0
    assert same(got, want)[~zero].all()
    # An infinity of Annex G, as 1 / 0 gives it; NumPy's reciprocal has NaNs in both parts.
    assert np.isinf(np.real(got[zero])).all()
    small = np.array([1e-45j, -1e-40 + 0j, 2e-39 - 3e-39j], np.complex64)
    with np.errstate(all="ignore"):
        want = np.reciprocal(small)
    np.testing.assert_allclose(np.asarray(way(mnp.reciprocal)(small)), want, rtol=1e-5)


def test_derivative_of_the_complex_reciprocal():
    z = np.array([1 + 2j, 1e200 - 1j, 3e-150 + 0j])
    _, slope = mgefn.jvp(mnp.reciprocal, (z,), (np.array([1e-9 + 0j, 1 + 0j, 1e-160 + 0j]),))
    want = [-1e-9 / (1 + 2j) ** 2, 0, -1e-160 / 3e-150 / 3e-150]
    np.testing.assert_allclose(slope, want, rtol=1e-6)
    assert np.isfinite(np.asarray(mgefn.jvp(mnp.reciprocal, (z,), (z,))[1])).all()


@pytest.mark.parametrize("way", [lambda f: f, mgefn.jit], ids=["eager", "jit"])
def test_expm1_and_sign_where_numpy_is_not_followed(way):
    """expm1 keeps the infinities that C's Annex G gives exp; a sign with a NaN in it is NaN."""
    infinite = [complex(math.inf, 0.0), complex(math.inf, -0.0), complex(-math.inf, 0.0)]
    got = np.asarray(way(mnp.expm1)(mnp.array(np.array(infinite))))
    want = np.array([cmath.exp(z) - 1 for z in infinite])
    assert same(got, want).all()
    half = np.array([complex(math.inf, math.nan), complex(math.nan, -math.inf)])
    assert np.isnan(np.asarray(way(mnp.sign)(mnp.array(half)))).all()


NORMS = {
    "norm": mnp.linalg.norm,
    "norm 3": lambda x: mnp.linalg.norm(x, 3),
    "norm 1.5": lambda x: mnp.linalg.norm(x, 1.5),
    "fro": lambda x: mnp.linalg.norm(x[:, None], "fro"),
    "vector_norm": mnp.linalg.vector_norm,
    "complex": lambda x: mnp.linalg.norm(x * (1 + 1j)),
    "std": mnp.std,
    "nanstd": mnp.nanstd,
}


@pytest.mark.parametrize("way", [lambda f: f, mgefn.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", NORMS)
def test_derivatives_of_norms_of_tiny_vectors(name, way):
    """Where squares underflow the norm is 0, as NumPy has it, and so is its derivative."""
    norm = NORMS[name]
    for size in (1e-18, 1e-22, 1e-23, 1e-30, 1e-40, 0.0):
        x = mnp.array([size, 2 * size, 0.0], dtype="float32")
        value, slope = way(mgefn.value_and_grad(norm))(x)
        assert np.isfinite(np.asarray(slope)).all(), size
        assert np.asarray(slope).any() == (value != 0), size
        np.testing.assert_array_equal(way(norm)(x), value)
        assert np.isfinite(way(lambda x: mgefn.jvp(norm, (x,), (x,))[1])(x))
    x = mnp.array([3.0, 4.0, 0.0])
    shown = mgefn.grad(norm)(x)
    eps = 1e-3
    differences = [(norm(x.at[i].add(eps)) - norm(x.at[i].add(-eps))) / (2 * eps) for i in range(3)]
    np.testing.assert_allclose(shown, differences, atol=2e-3)
