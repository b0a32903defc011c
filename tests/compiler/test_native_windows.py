"""Sliding windows as native code, against the NumPy kernels."""

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import lax
from mgefn.ops.windows import (
    reduce_window_max_p,
    reduce_window_min_p,
    reduce_window_sum_p,
    select_and_gather_add_p,
    select_and_scatter_add_p,
)

DTYPES = ("bool int8 uint8 int16 uint16 int32 uint32 int64 uint64 float32 float64").split()
REDUCTIONS = {"sum": reduce_window_sum_p, "max": reduce_window_max_p, "min": reduce_window_min_p}


def drawn(seed, shape, dtype):
    """Few different values, so that windows have ties."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    return rng.integers(0 if dtype.kind == "u" else -9, 9, shape).astype(dtype)


def assert_native(name, f, *args):
    """The compiled function gives exactly what it gives by NumPy, its steps of this name native."""
    compiled = mgefn.jit(f).lower(*args).compile()
    text = compiled.as_text()
    assert f"= {name}" not in text, text
    assert "= native" in text
    want = mgefn.tree.leaves(f(*args))
    for got, right in zip(mgefn.tree.leaves(compiled(*args)), want, strict=True):
        got, right = np.asarray(got), np.asarray(right)
        assert got.dtype == right.dtype
        np.testing.assert_array_equal(got, right)


def check(shape, dtype, kind, **given):
    """The reduction, and of an extremum the choice of elements. Small integers add up exactly."""
    ones = (1,) * len(shape)
    params = {
        "window_dimensions": ones, "window_strides": ones, "padding": ((0, 0),) * len(shape),
        "base_dilation": ones, "window_dilation": ones, **given,
    }  # fmt: skip
    x = mnp.asarray(drawn(1, shape, dtype))
    reduction = REDUCTIONS[kind]
    assert_native(reduction.name, lambda x: reduction.bind1(x, **params), x)
    if kind == "sum":
        return
    windows = reduction.bind1(x, **params).shape
    moved = mnp.asarray(drawn(2, shape, "float64" if dtype == "bool" else dtype))
    source = mnp.asarray(drawn(3, windows, moved.dtype))
    for primitive, operand in (
        (select_and_gather_add_p, moved),
        (select_and_scatter_add_p, source),
    ):

        def f(t, x, primitive=primitive):
            return primitive.bind1(t, x, select=kind, **params)

        assert_native(primitive.name, f, operand, x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["sum", "max", "min"])
@pytest.mark.parametrize("last", [True, False])
def test_pooling(dtype, kind, last):
    if dtype == "bool" and kind == "sum":
        return
    if last:  # channels last
        shape, window, strides = (2, 9, 11, 19), (1, 3, 2, 1), (1, 2, 2, 1)
        padding = ((0, 0), (1, 1), (0, 1), (0, 0))
    else:
        shape, window, strides = (2, 3, 9, 37), (1, 1, 3, 2), (1, 1, 2, 2)
        padding = ((0, 0), (0, 0), (1, 1), (0, 1))
    check(shape, dtype, kind, window_dimensions=window, window_strides=strides, padding=padding)


@pytest.mark.parametrize("kind", ["sum", "max"])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_along_the_last_axis(kind, stride):
    check((40,), "float32", kind, window_dimensions=(3,), window_strides=(stride,),
          padding=((2, 1),))  # fmt: skip
    check((3, 40), "int32", kind, window_dimensions=(1, 3), window_strides=(1, stride),
          padding=((0, 0), (0, 5)), window_dilation=(1, 2))  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("kind", ["sum", "max", "min"])
def test_any_parameters(kind, seed):
    """Random shapes, strides, paddings and dilations."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(0, 5))

    def sizes(low, high):
        return tuple([int(k) if rng.random() < 0.7 else 1 for k in rng.integers(low, high, n)])

    shape, window, strides = sizes(1, 7), sizes(1, 4), sizes(1, 4)
    base, dilation = sizes(1, 3), sizes(1, 3)
    padding = []
    for k, w, spread, step in zip(shape, window, base, dilation, strict=True):
        whole, reach = (k - 1) * spread + 1, (w - 1) * step + 1
        low = max(int(rng.integers(-2, 4)) if rng.random() < 0.6 else 0, 1 - whole)
        padding.append((low, max(int(rng.integers(-2, 4)), reach - whole - low)))
    check(
        shape, "float64", kind, window_dimensions=window, window_strides=strides,
        padding=tuple(padding), base_dilation=base, window_dilation=dilation,
    )  # fmt: skip


def test_nan_wins():
    x = drawn(1, (2, 6, 8, 5), "float32")
    x[0, 1, 1, 2] = x[0, 1, 2, 3] = x[1, 4, 4, :] = np.nan
    x[1, 2, 2, 0] = np.inf
    x[0, :, :, 0] = -np.inf
    t = drawn(2, x.shape, "float32")
    window, strides = (1, 3, 3, 1), (1, 1, 2, 1)
    for init, join in ((-np.inf, lax.max), (np.inf, lax.min)):

        def f(x, init=init, join=join):
            return lax.reduce_window(x, np.float32(init), join, window, strides, "SAME")

        assert_native("reduce_window", f, x)
        assert_native("select_and", lambda x, t, f=f: mgefn.jvp(f, (x,), (t,)), x, t)
        ct = drawn(3, f(x).shape, "float32")
        assert_native("select_and", lambda x, ct, f=f: mgefn.vjp(f, x)[1](ct), x, ct)


def test_average_and_its_gradient():
    for window, strides in (((1, 2, 2, 1), (1, 2, 2, 1)), ((1, 1, 3, 2), (1, 1, 2, 3))):
        x = drawn(1, (2, 6, 8, 9), "float32")

        def f(x, window=window, strides=strides):
            return lax.reduce_window(x, np.float32(0), lax.add, window, strides, "VALID")

        ct = drawn(3, f(x).shape, "float32")
        assert_native("reduce_window", lambda x, ct, f=f: mgefn.vjp(f, x)[1](ct), x, ct)


def test_divided_among_threads():
    x = drawn(1, (4, 64, 64, 32), "float32")

    def f(x):
        return lax.reduce_window(
            x, -np.float32(np.inf), lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"
        )

    ct = drawn(3, f(x).shape, "float32")
    assert_native("reduce_window", f, x)
    assert_native("select_and", lambda x, ct: mgefn.vjp(f, x)[1](ct), x, ct)


def test_in_scan():
    x = drawn(1, (3, 12, 12), "float32")

    def f(x):
        def step(x, _):
            y = lax.reduce_window(x, -np.float32(np.inf), lax.max, (1, 3, 3), (1, 1, 1), "SAME")
            return y, y.sum()

        return lax.scan(step, x, None, length=3)

    assert_native("scan", f, x)
