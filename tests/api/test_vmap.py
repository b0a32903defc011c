"""vmap as users call it."""

from __future__ import annotations

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn.errors import ArgumentError, InAxesError, MgefnError


def test_in_and_out_axes():
    x = mnp.arange(24.0).reshape(2, 3, 4)
    for axis in (0, 1, 2, -1, -2):
        for out in (0, 1, -1):
            got = mgefn.vmap(lambda v: v * 2, in_axes=axis, out_axes=out)(x)
            want = np.moveaxis(np.asarray(x) * 2, axis, out)
            np.testing.assert_array_equal(got, want)


def test_outputs_that_do_not_depend_on_the_batch():
    x = mnp.ones((3, 2))
    a, b, c = mgefn.vmap(lambda v: (v, mnp.ones(4), 7.0), out_axes=(0, 1, None))(x)
    assert a.shape == (3, 2) and b.shape == (4, 3) and float(c) == 7
    with pytest.raises(ArgumentError, match="differs between examples"):
        mgefn.vmap(lambda v: v, out_axes=None)(x)


def test_containers_and_shared_arguments():
    p = {"w": mnp.ones((3, 2)), "b": mnp.asarray(10.0)}
    f = lambda q, s, *, k: q["w"].sum() + q["b"] * s + k
    got = mgefn.vmap(f, in_axes=({"w": 0, "b": None}, None))(p, 2.0, k=mnp.arange(3.0))
    np.testing.assert_array_equal(got, [22, 23, 24])
    np.testing.assert_array_equal(mgefn.vmap(lambda a, b: a + b, [0, None])(mnp.ones(2), 1), [2, 2])


def test_errors_say_what_does_not_fit():
    f = mgefn.vmap(lambda x, y: x + y)
    with pytest.raises(InAxesError, match="got 4 and 3"):
        f(mnp.ones(4), mnp.ones(3))
    with pytest.raises(InAxesError, match="got 4 and 1"):
        f(mnp.ones(4), mnp.ones(1))
    with pytest.raises(InAxesError, match=r"axis 0 of an argument .* of rank 0"):
        mgefn.vmap(lambda x: x)(1.0)
    with pytest.raises(InAxesError, match="no argument is mapped"):
        mgefn.vmap(lambda x: x, in_axes=None)(1.0)
    with pytest.raises(InAxesError, match=r"2 entries .* 1 positional"):
        mgefn.vmap(lambda x: x, in_axes=(0, 0))(mnp.ones(2))
    with pytest.raises(InAxesError, match="must be an int, None or a tuple"):
        mgefn.vmap(lambda x: x, in_axes=False)
    with pytest.raises(MgefnError, match="in_axes"):
        mgefn.vmap(lambda q: q["w"], in_axes=({"v": 0},))({"w": mnp.ones(2)})


def test_axis_size_without_mapped_arguments():
    got = mgefn.vmap(lambda: mnp.arange(2), axis_size=3)()
    assert got.shape == (3, 2)


def test_zero_sized_batch():
    assert mgefn.vmap(lambda x: mnp.sin(x).sum())(mnp.ones((0, 3))).shape == (0,)


def test_nested_maps_commute():
    x, y = mnp.arange(3.0), mnp.arange(4.0)
    outer = mgefn.vmap(mgefn.vmap(lambda a, b: a * b + 1, (None, 0)), (0, None))(x, y)
    np.testing.assert_array_equal(outer, np.outer(x, y) + 1)
    swapped = mgefn.vmap(mgefn.vmap(lambda a, b: a * b + 1, (0, None)), (None, 0), 1)(x, y)
    np.testing.assert_array_equal(swapped, outer)


def test_per_example_gradients():
    w, xs = mnp.asarray([1.0, -2.0]), mnp.arange(6.0).reshape(3, 2)
    loss = lambda w, x: mnp.tanh(w @ x)
    each = mgefn.vmap(mgefn.grad(loss), (None, 0))(w, xs)
    for i in range(3):
        np.testing.assert_allclose(each[i], mgefn.grad(loss)(w, xs[i]), rtol=1e-6)
    both = mgefn.grad(lambda w: mgefn.vmap(loss, (None, 0))(w, xs).sum())(w)
    np.testing.assert_allclose(each.sum(0), both, rtol=1e-6)
