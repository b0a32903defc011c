"""Derivatives inside of derivatives, operands that are broadcast, values that are looked at."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from tests.kinds.helpers import check, differences

FORWARD = lambda f: lambda x: mgefn.jvp(f, (x,), (1.0,))[1]
MODES = {
    "grad": mgefn.grad,
    "forward": FORWARD,
    "jit of grad": lambda f: mgefn.jit(mgefn.grad(f)),
    "grad of jit": lambda f: mgefn.grad(mgefn.jit(f)),
    "linearize": lambda f: lambda x: mgefn.linearize(f, x)[1](1.0),
    "vmap": lambda f: lambda x: mgefn.vmap(mgefn.grad(f))(mnp.stack([x, x]))[0],
}


@pytest.mark.parametrize("outer, inner", list(itertools.product(MODES, MODES)))
def test_inner_variables_are_not_the_outer_ones(outer, inner):
    d, e = MODES[outer], MODES[inner]
    x = mnp.float32(2.0)
    # The inner function holds the outer variable, by closure and as its point.
    assert np.isclose(d(lambda x: x * e(lambda y: x + y)(x))(x), 1.0)
    assert np.isclose(d(lambda x: e(lambda y: y * (x - y))(x))(x), -1.0)  # x - 2 y at y = x
    assert np.isclose(d(lambda x: x * e(lambda y: x * y * y)(3.0))(x), 24.0)  # (6 x^2)'
    assert np.isclose(d(lambda x: e(lambda y: mnp.sin(y))(x * 0) * x)(x), 1.0)
    # Equal values in different roles stay different variables.
    assert np.isclose(d(lambda x: e(lambda y: x * y)(x) + e(lambda y: y * y)(x))(x), 3.0)


@pytest.mark.parametrize("modes", list(itertools.product(["grad", "forward"], repeat=3)))
def test_three_levels(modes):
    a, b, c = (MODES[m] for m in modes)
    # x * d/dy [x y d/dz (x y z^2) at 1] at 1 = 4 x^3 y, whose slope at x = 1 is 12.
    f = lambda x: x * b(lambda y: x * y * c(lambda z: x * y * z * z)(1.0))(1.0)
    assert np.isclose(a(f)(1.0), 12.0)


BINARY = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "power": lambda x, y: x**y,
    "maximum": mnp.maximum,
    "arctan2": mnp.arctan2,
    "where": lambda x, y: mnp.where(x > y, x, y * y),
    "logaddexp": mnp.logaddexp,
}
SHAPES = [((), (2, 3)), ((3,), (2, 3)), ((2, 1), (2, 3)), ((2, 1), (1, 3)), ((4, 1, 1), (2, 3))]


@pytest.mark.parametrize("name", BINARY)
def test_gradients_have_the_shape_of_their_operand(name):
    rng = np.random.default_rng(1)
    for one, other in SHAPES:
        x, y = rng.uniform(1, 2, one), rng.uniform(2.1, 3, other)
        w = rng.uniform(0.5, 1, np.broadcast_shapes(one, other))
        of_x = lambda v, y=y, w=w: mnp.sum(w * BINARY[name](v, y))
        of_y = lambda v, x=x, w=w: mnp.sum(w * BINARY[name](x, v))
        check(of_x, x, differences(of_x, x), 1e-6, 1e-8)
        check(of_y, y, differences(of_y, y), 1e-6, 1e-8)


def test_an_operand_that_stands_on_both_sides():
    x = np.array([[1.0, 2.0]])
    check(lambda v: mnp.sum(v * v.T), x, 2 * np.sum(x) * np.ones((1, 2)))


@pytest.mark.parametrize(
    "look",
    [
        lambda y: (y < 1).tolist(),
        lambda y: bool(y.sum() > 0),
        lambda y: y[0, 0, 0].item(),
        lambda y: repr(y),
        lambda y: y.shape,
        lambda y: [v for v in y],
    ],
)
def test_looking_at_a_value_does_not_cut_it_off(look):
    def f(x):
        y = x + mnp.ones((3, 2, 2))
        look(y)
        return y**2

    x = mnp.ones((2, 2))
    _, pull = mgefn.vjp(f, x)
    np.testing.assert_allclose(pull(mnp.ones((3, 2, 2)))[0], np.full((2, 2), 12.0))
    np.testing.assert_allclose(mgefn.jvp(f, (x,), (x,))[1], np.full((3, 2, 2), 4.0))
