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


WAYS = {
    "eager": lambda f: f,
    "native": mgefn.jit,
    "numpy": lambda f: mgefn.jit(f, backend="numpy"),
    "vmap": mgefn.vmap,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("op", ["floor_divide", "remainder", "mod", "fmod", "divmod"])
@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
)
def test_integers_divided_by_zero_as_numpy_has_them(dtype, op, way):
    ends = [] if dtype == "bool" else [np.iinfo(dtype).min, np.iinfo(dtype).max]
    x = np.array([0, 1, 1, *ends, *ends], dtype=dtype)
    y = np.array([0, 0, 1, *(0 for _ in ends), *(1 for _ in ends)], dtype=dtype)
    with np.errstate(divide="ignore"):
        wanted = np.asarray(getattr(np, op)(x, y))
    got = np.asarray(WAYS[way](getattr(mnp, op))(x, y))
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(got, wanted)


def test_operators_and_numbers_divide_by_zero_likewise():
    x = mnp.array([7, -7, 0])
    np.testing.assert_array_equal(x // 0, [0, 0, 0])
    np.testing.assert_array_equal(x % 0, [0, 0, 0])
    np.testing.assert_array_equal(x // 2, [3, -4, 0])
    np.testing.assert_array_equal(x % -2, [-1, -1, 0])
    np.testing.assert_array_equal(7 // mnp.array([0, 2]), [0, 3])
    np.testing.assert_array_equal(mnp.array([True, False]) // False, [0, 0])
    np.testing.assert_array_equal(mnp.array([True, False]) % False, [0, 0])
    # The strict functions of lax keep XLA's values.
    np.testing.assert_array_equal(mgefn.lax.div(x, mnp.zeros_like(x)), [-1, -1, -1])
    np.testing.assert_array_equal(mgefn.lax.rem(x, mnp.zeros_like(x)), [7, -7, 0])
