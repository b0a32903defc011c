"""Remainders and floored quotients at the places where they jump, and of infinities."""

from __future__ import annotations

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp


@pytest.mark.parametrize("x", [-6.0, -3.0, -0.1, 0.0, 2.999, 3.0, 3.001, 6.0])
@pytest.mark.parametrize("wrap", [lambda f: f, mgefn.jit])
def test_slopes_at_multiples(x, wrap):
    gx, gy = wrap(mgefn.grad(lambda u, v: mnp.mod(u, v), (0, 1)))(x, 3.0)
    assert float(gx) == 1
    assert float(gy) == -np.floor(np.float32(x) / np.float32(3))
    assert float(wrap(mgefn.grad(lambda u: divmod(u, 3.0)[1]))(x)) == 1


def test_zero_remainders_take_the_divisors_sign():
    r = np.asarray(
        mnp.remainder(np.array([-4.0, 4.0, 0.0, -0.0]), np.array([2.0, -2.0, -1.0, 1.0]))
    )
    np.testing.assert_array_equal(np.signbit(r), [False, True, True, False])


def test_infinities_as_numpy_has_them():
    x = np.array([np.inf, -np.inf, 1.0, 1e300, np.nan, 1.0, -1.0])
    y = np.array([6.0, 6.0, np.inf, 1e-300, 1.0, 0.0, 0.0])
    with np.errstate(all="ignore"):
        q, r = np.divmod(x, y)
    np.testing.assert_array_equal(mnp.floor_divide(x, y), q)
    np.testing.assert_array_equal(mnp.remainder(x, y), r)
