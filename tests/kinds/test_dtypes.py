"""Integers that wrap, divide and take powers; rounding; half precision; the one default type."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import random
from mgefn.errors import MgefnError
from tests.kinds.helpers import check

INTS = ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
BOTH = [lambda f: f, mgefn.jit]


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("wrap", BOTH, ids=["eager", "jit"])
def test_integers_have_no_negative_powers(dtype, wrap):
    x = mnp.asarray([2, 10, 1], dtype)
    with pytest.raises(MgefnError, match="power"):
        wrap(lambda v: v**-1)(x)
    # Where the exponent is an array its sign is not known in advance; what comes out is the
    # truncated fraction, as Python's int(10.0 ** -1), or an error.
    if dtype[0] == "i":
        got = wrap(mnp.power)(x, mnp.asarray([-1, -2, -3], dtype))
        assert got.tolist() == [0, 0, 1]
    assert wrap(mnp.power)(x, mnp.asarray([3, 0, 5], dtype)).tolist() == [8, 1, 1]


@pytest.mark.parametrize("dtype", [*[d for d in INTS if d[0] == "i"], "float32", "float64"])
@pytest.mark.parametrize("wrap", BOTH, ids=["eager", "jit"])
def test_division_with_floor_and_its_remainder(dtype, wrap):
    x, y = np.array(list(itertools.product([7, -7, 6, -6, 0, 1], [2, -2, 3, -3]))).T.astype(dtype)
    functions = [
        lambda u, v: (u // v, u % v),
        divmod,
        lambda u, v: (mnp.floor_divide(u, v), mnp.remainder(u, v)),
    ]
    for f in functions:
        q, r = wrap(f)(mnp.asarray(x), mnp.asarray(y))
        np.testing.assert_array_equal(q, x // y)
        np.testing.assert_array_equal(r, x % y)
        np.testing.assert_array_equal(np.asarray(q) * y + np.asarray(r), x)
        assert np.array_equal(np.signbit(np.asarray(r, float)), np.signbit((x % y).astype(float)))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("wrap", BOTH, ids=["eager", "jit"])
def test_floats_divided_by_zero_with_floor(dtype, wrap):
    x = mnp.asarray([1.0, -1.0, 0.0, 1.0], dtype)
    y = mnp.asarray([0.0, 0.0, 0.0, -0.0], dtype)
    q = np.asarray(wrap(mnp.floor_divide)(x, y)).astype(float)
    np.testing.assert_array_equal(q, [np.inf, -np.inf, np.nan, -np.inf])
    assert np.isnan(np.asarray(wrap(mnp.remainder)(x, y)).astype(float)).all()


@pytest.mark.parametrize("x, y", [(-19.0, 3.0), (19.0, -3.0), (19.0, 3.0), (-19.0, -3.0), (5.5, 2)])
def test_remainders_have_slopes_in_both_operands(x, y):
    y = np.float64(y)
    check(lambda v: mnp.remainder(v, y), np.float64(x), 1.0)
    check(lambda v: mnp.remainder(x, v), y, -np.floor(x / y))
    check(lambda v: mnp.fmod(x, v), y, -np.trunc(x / y))


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("wrap", BOTH, ids=["eager", "jit"])
def test_integers_wrap(dtype, wrap):
    info = np.iinfo(dtype)
    low, high, one = (np.array([v], dtype) for v in (info.min, info.max, 1))
    with np.errstate(over="ignore"):
        for f in (lambda u, v: u + v, lambda u, v: u - v, lambda u, v: u * v):
            for a, b in ((high, one), (low, one), (high, high), (low, high)):
                got = wrap(f)(mnp.asarray(a), mnp.asarray(b))
                assert got.dtype == np.dtype(dtype)
                np.testing.assert_array_equal(got, f(a, b))


@pytest.mark.parametrize("bad", [1.5, "3", None, 2.0, (2, 1.0), 1j, np.float32(2)], ids=repr)
def test_sizes_and_indices_are_integers(bad):
    x = mnp.arange(3)
    makers = [mnp.zeros, mnp.ones, mnp.empty, lambda s: mnp.full(s, 1), x.reshape]
    for make in makers:
        with pytest.raises((MgefnError, TypeError)):
            make(bad)
    if bad is not None:  # x[None] adds a dimension
        with pytest.raises((MgefnError, IndexError, TypeError)):
            x[bad]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("wrap", BOTH, ids=["eager", "jit"])
def test_halves_are_rounded_to_even(dtype, wrap):
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 3.5, 2.4999], dtype)
    for f, g in ((mnp.round, np.round), (mnp.rint, np.rint)):
        got = np.asarray(wrap(f)(mnp.asarray(x)))
        np.testing.assert_array_equal(got, g(x))
        assert np.array_equal(np.signbit(got), np.signbit(g(x)))
    np.testing.assert_array_equal(mnp.round(mnp.asarray([1250.0, 1350.0]), -2), [1200, 1400])
    assert mnp.round(mnp.asarray([1250, 1350, -1250]), -2).tolist() == [1200, 1400, -1200]


@pytest.mark.parametrize("places", [10, 20, 38, 50, 308, 400])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_more_places_than_there_are_change_nothing(places, dtype):
    x = np.array([1.25, -3.0e7, 0.0, np.inf, -np.inf], dtype)
    for f in (lambda v: mnp.round(v, places), mgefn.jit(lambda v: mnp.round(v, places))):
        np.testing.assert_allclose(f(mnp.asarray(x)), x, rtol=1e-6)


@pytest.mark.parametrize("one, other", list(itertools.product(FLOATS, FLOATS)))
def test_jacobians_over_mixed_precision(one, other):
    t = (mnp.asarray([2.0], one), mnp.asarray([3.0], other))
    f = lambda p: (p[0], p[1], p[0] * p[1])
    want = (([[1]], [[0]]), ([[0]], [[1]]), ([[3]], [[2]]))
    for jac in (mgefn.jacfwd, mgefn.jacrev, lambda f: mgefn.jit(mgefn.jacrev(f))):
        for row, wanted in zip(jac(f)(t), want, strict=True):
            for slope, w in zip(row, wanted, strict=True):
                np.testing.assert_array_equal(np.asarray(slope).astype(float), w)


def test_casts_round_to_the_nearest_and_ties_to_even():
    x = np.concatenate([np.arange(-2000, 2000), np.linspace(-1, 1, 999) * 1e-3, [1e39, -1e-45]])
    with np.errstate(over="ignore"):
        x = x.astype(np.float32)
        for dtype, reference in (("bfloat16", ml_dtypes.bfloat16), ("float16", np.float16)):
            want = x.astype(reference).astype(np.float32)
            cast = lambda v, dtype=dtype: v.astype(dtype).astype("float32")
            np.testing.assert_array_equal(cast(mnp.asarray(x)), want)
            np.testing.assert_array_equal(mgefn.jit(cast)(mnp.asarray(x)), want)
    assert mnp.asarray([1828, 257, 300]).astype("bfloat16").astype("int32").tolist() == [
        1824, 256, 300,
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_compiled_programs_round_where_the_program_does(dtype):
    """What compensated summation lives from: the error of a sum is computed, not simplified."""
    rng = np.random.default_rng(0)
    x = mnp.asarray(rng.standard_normal(200) * 100, dtype)
    y = mnp.asarray(rng.standard_normal(200), dtype)
    functions = [
        lambda u, v: ((u + v) - u) - v,
        lambda u, v: (u * v) / v - u,
        lambda u, v: (u - v) * (u + v) - (u * u - v * v),
    ]
    for f in functions:
        eager = np.asarray(f(x, y)).astype(float)
        np.testing.assert_array_equal(np.asarray(mgefn.jit(f)(x, y)).astype(float), eager)
        assert np.abs(eager).max() > 0


@pytest.mark.parametrize("wide", [False, True])
def test_creators_numbers_and_draws_share_one_default(wide):
    with mgefn.enable_x64(wide):
        t = np.dtype("float64" if wide else "float32")
        key = random.key(0)
        for v in (
            mnp.zeros(2), mnp.ones(2), mnp.asarray(1.5), mnp.linspace(0, 1, 3), mnp.eye(2),
            mnp.full(2, 1.0), mnp.arange(3.0), mnp.asarray([1, 2]) / 2, mnp.zeros(2) + 1.5,
            random.normal(key, (2,)), random.uniform(key, (2,)), random.gamma(key, 1.0, (2,)),
            mnp.mean(mnp.arange(3)), mnp.sqrt(mnp.arange(3)), mnp.hanning(4),
        ):  # fmt: skip
            assert v.dtype == t
