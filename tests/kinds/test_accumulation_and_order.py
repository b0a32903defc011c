"""Sums of many numbers, narrow dtypes, and where NaN stands in an order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import lax, nn

nan, inf = np.nan, np.inf


def test_counting_goes_on_beyond_what_one_number_can_count():
    n = 2**24 + 1000  # one by one, float32 sticks at 2**24
    x = mnp.ones(n)
    for f in (mnp.sum, lambda v: mnp.dot(v, v), lambda v: mnp.mean(v) * n, lambda v: (v * 1).sum()):
        np.testing.assert_allclose(f(x), n, rtol=1e-6)
        np.testing.assert_allclose(mgefn.jit(f)(x), n, rtol=1e-6)


INTEGERS = ["int8", "uint8", "int16", "int32", "uint32", "int64"]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_means_of_integers_do_not_wrap(dtype):
    top = np.iinfo(dtype).max
    for n in (4, 1000):
        x = mnp.full(n, top, dtype)
        for f in (mnp.mean, mgefn.jit(mnp.mean), mnp.median, lambda v: mnp.average(v)):
            np.testing.assert_allclose(f(x), float(top), rtol=1e-6)
        np.testing.assert_allclose(mnp.var(x), 0.0, atol=1e-3 * float(top))
    many = mnp.ones(3_000_000, "int8")
    assert float(mnp.mean(many)) == 1.0 and int(mnp.sum(many)) == 3_000_000


NARROW = {"float16": 2e-3, "bfloat16": 1e-2}


@pytest.mark.parametrize("dtype, n", list(itertools.product(NARROW, [10_000, 100_000])))
def test_narrow_floats_add_up_wide(dtype, n):
    rtol = NARROW[dtype]
    for value in (0.5, 1e-2):
        if value * n * 2 > 6e4:
            continue  # beyond what float16 holds
        x = mnp.full((2, n), value, dtype)
        for axis in (None, 1):
            for f in (mnp.sum, mgefn.jit(mnp.sum, static_argnames="axis")):
                got = np.asarray(f(x, axis=axis)).astype(float)
                np.testing.assert_allclose(got, value * n * (2 if axis is None else 1), rtol=rtol)
    small = mnp.full(n, 1e-5, dtype)
    assert mnp.mean(small).dtype == small.dtype
    np.testing.assert_allclose(float(mnp.mean(small)), 1e-5, rtol=2e-2)
    np.testing.assert_allclose(float(mnp.cumsum(small)[-1]), n * 1e-5, rtol=5e-2)
    p = np.asarray(nn.softmax(mnp.zeros(512, dtype))).astype(float)
    np.testing.assert_allclose(p, 1 / 512, rtol=rtol)
    y = mnp.full((4, n // 10), 0.5, dtype)
    np.testing.assert_allclose(np.asarray(y @ y.T).astype(float), n / 40, rtol=rtol)


@pytest.mark.parametrize("asked", ["float32", "float64", None])
def test_reductions_give_the_dtype_that_is_asked(asked):
    for dtype in ("float16", "bfloat16", "int8", "float32"):
        x = mnp.ones(8, dtype)
        want = np.dtype(asked) if asked else (x.dtype if dtype != "int8" else np.dtype("float32"))
        for f in (mnp.mean, mnp.var, mnp.std):
            assert f(x, dtype=asked).dtype == want
            assert mgefn.jit(lambda v, f=f: f(v, dtype=asked))(x).dtype == want


NANS = [np.float32(nan), np.copysign(np.float32(nan), np.float32(-1))]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("sign", [0, 1])
def test_nan_of_either_sign_goes_last(dtype, sign):
    x = np.array([NANS[sign], 1, inf, NANS[1 - sign], -inf, 0, -0.0], np.float32)
    a = mnp.asarray(x).astype(dtype)
    for f in (lambda g: g, mgefn.jit):
        s = np.asarray(f(mnp.sort)(a)).astype(float)
        np.testing.assert_array_equal(s, [-inf, 0, 0, 1, inf, nan, nan])
        order = np.asarray(f(mnp.argsort)(a))
        assert sorted(order) == list(range(7)) and order[:1] == [4] and set(order[5:]) == {0, 3}
        np.testing.assert_array_equal(np.asarray(a).astype(float)[order], s)
    assert np.isnan(float(mnp.max(a))) and np.isnan(float(mnp.min(a)))
    assert int(mnp.argmax(a)) == int(mnp.argmin(a)) == 0
    assert float(mnp.nanmax(a)) == inf and float(mnp.nanmin(a)) == -inf
    assert np.isnan(float(mnp.median(a)))


def test_places_in_a_sorted_array_with_a_tail_of_nan():
    x = np.array([0, 1, 2, 2, nan, nan], np.float32)
    q = np.array([-1, 0, 2, 2.5, nan, inf, -inf], np.float32)
    for side in ("left", "right"):
        want = np.searchsorted(x, q, side=side)
        f = lambda a, v, side=side: mnp.searchsorted(a, v, side=side)
        np.testing.assert_array_equal(f(x, q), want)
        np.testing.assert_array_equal(mgefn.jit(f)(x, q), want)
        np.testing.assert_array_equal(mgefn.vmap(lambda v, f=f: f(x, v))(q), want)
        np.testing.assert_array_equal(f(x[:0], q), np.zeros(7))
        np.testing.assert_array_equal(f(x, q[:0]), np.zeros(0))


COMPARISONS = {
    "<": lambda u, v: u < v,
    "<=": lambda u, v: u <= v,
    ">": lambda u, v: u > v,
    ">=": lambda u, v: u >= v,
    "==": lambda u, v: u == v,
    "!=": lambda u, v: u != v,
}


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_with_nan_and_their_negation(name):
    """A compiler that took not(a < b) for a >= b would differ here."""
    f = COMPARISONS[name]
    x, y = np.array([nan, nan, 1.0, 1.0]), np.array([nan, 1.0, nan, 1.0])
    programs = [
        f,
        lambda u, v: ~f(u, v),
        lambda u, v: ~~f(u, v),
        lambda u, v: mnp.where(~f(u, v), 1, 0),
        lambda u, v: mnp.logical_not(f(u, v)) & f(u, v),
        lambda u, v: lax.select(f(u, v), u, v),
    ]
    for g in programs:
        eager = g(mnp.asarray(x), mnp.asarray(y))
        np.testing.assert_array_equal(mgefn.jit(g)(x, y), eager)
    np.testing.assert_array_equal(programs[0](mnp.asarray(x), mnp.asarray(y)), f(x, y))
    np.testing.assert_array_equal(programs[1](mnp.asarray(x), mnp.asarray(y)), ~f(x, y))
