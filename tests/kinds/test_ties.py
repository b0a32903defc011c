"""Kinks and ties: what holds whatever the choice, on functions with many equal elements.

docs/derivative-conventions.md says which choice is made; here is what every choice must keep.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import lax, nn
from tests.kinds.helpers import check, gradients

TIED = [[1, 1, 1], [1, 1, 1, 1], [3, 1, 2, 2], [1, 3, 3, 2, 3], [5, 1, 9], [0.0, -0.0, 0.0], [7]]
# f(x + c) = f(x) + c: the slopes add up to 1, and none is negative.
SHIFTED = {
    "max": mnp.max,
    "min": mnp.min,
    "minus min of minus": lambda x: -mnp.min(-x),
    "median": mnp.median,
    "mean": mnp.mean,
    "quantile": lambda x: mnp.quantile(x, 0.3),
    "nearest quantile": lambda x: mnp.quantile(x, 0.3, method="nearest"),
    "first of sort": lambda x: mnp.sort(x)[0],
    "last of sort": lambda x: mnp.sort(x)[-1],
    "top": lambda x: lax.top_k(x, 1)[0][0],
    "cummax": lambda x: lax.cummax(x)[-1],
    "argmax": lambda x: x[mnp.argmax(x)],
    "reduce": lambda x: lax.reduce(x, -np.inf, lax.max, (0,)),
    "pairs": lambda x: mnp.max(mnp.maximum(x, mnp.flip(x))),
    "logsumexp": nn.logsumexp,
    "clipped": lambda x: mnp.clip(x[0], mnp.min(x), mnp.max(x)),
    "scatter": lambda x: mnp.full(1, -9.0, "float64").at[mnp.zeros(len(x), int)].max(x)[0],
    "window": lambda x: lax.reduce_window(x, -np.inf, lax.max, (len(x),), (1,), "VALID")[0],
}


@pytest.mark.parametrize("name, x", list(itertools.product(SHIFTED, TIED)), ids=str)
def test_slopes_of_what_moves_with_its_elements_add_up_to_one(name, x):
    x = np.array(x, np.float64)
    found = [g for _, g in gradients(SHIFTED[name], x)]
    for g in found:
        assert g.sum() == pytest.approx(1.0) and (g >= 0).all()
        np.testing.assert_allclose(g, found[0])  # each way makes the same choice
    if name in ("max", "cummax", "top", "window", "argmax"):
        assert (found[0][x < x.max()] == 0).all()


@pytest.mark.parametrize("axis, keep", [(0, False), (1, True), (-1, False)])
def test_lanes_share_among_themselves(axis, keep):
    x = np.array([[2.0, 2, 1], [2, 5, 5]])
    for f in (mnp.max, mnp.min, mnp.median):
        w = np.arange(1.0, 1 + np.asarray(f(x, axis=axis)).size)
        w = w.reshape(np.asarray(f(x, axis=axis, keepdims=keep)).shape)
        for _, g in gradients(lambda v, f=f, w=w: mnp.sum(w * f(v, axis=axis, keepdims=keep)), x):
            np.testing.assert_allclose(g.sum(axis=axis, keepdims=keep), w)


@pytest.mark.parametrize("x", TIED, ids=str)
def test_a_sort_moves_weights_about(x):
    x = np.array(x, np.float64)
    w = 10.0 ** np.arange(len(x))
    functions = [
        lambda v: mnp.sum(w * mnp.sort(v)),
        lambda v: mnp.sum(w * v[mnp.argsort(v)]),
        lambda v: mnp.sum(w * lax.top_k(v, len(x))[0]),
        lambda v: mnp.sum(w * mnp.partition(v, len(x) // 2)),
        lambda v: mnp.sum(w * lax.sort_key_val(v, v)[1]),
    ]
    for f in functions:
        for _, g in gradients(f, x):
            np.testing.assert_array_equal(np.sort(g), w)
    order = np.argsort(x, kind="stable")
    want = np.empty_like(w)
    want[order] = w
    check(functions[0], x, want)


KINKS = {
    "abs": (mnp.abs, 0.0, (-1, 1)),
    "relu": (nn.relu, 0.0, (0, 1)),
    "maximum": (lambda x: mnp.maximum(x, 2 * x), 0.0, (1, 2)),
    "clip": (lambda x: mnp.clip(x, -1, 1), 1.0, (0, 1)),
    "leaky": (lambda x: nn.leaky_relu(x, 0.1), 0.0, (0.1, 1)),
    "hard_tanh": (nn.hard_tanh, -1.0, (0, 1)),
    "where": (lambda x: mnp.where(x > 0, x, 3 * x), 0.0, (1, 3)),
    "interp": (lambda x: mnp.interp(x, np.arange(3.0), np.array([0.0, 1, 5])), 1.0, (1, 4)),
    "norm": (lambda x: mnp.linalg.norm(mnp.stack([x, x])), 0.0, (-(2**0.5), 2**0.5)),
}


@pytest.mark.parametrize("name", KINKS)
def test_slopes_at_kinks_lie_between_those_of_the_sides(name):
    f, at, (low, high) = KINKS[name]
    x = np.asarray(at)
    slopes = [float(g) for _, g in gradients(f, x)]
    assert max(slopes) - min(slopes) < 1e-12
    assert low - 1e-12 <= slopes[0] <= high + 1e-12
    np.testing.assert_allclose(mgefn.jvp(f, (x,), (np.asarray(1.0),))[1], slopes[0])
    # x f(x) passes through the kink without one, where f is 0 there.
    if float(f(mnp.asarray(x))) == 0 and at == 0:
        check(lambda v: f(v) * v, x, 0.0)


FLAT = [
    mnp.floor,
    mnp.ceil,
    mnp.round,
    mnp.trunc,
    mnp.sign,
    mnp.rint,
    lambda x: (x > 1) * mnp.ones_like(x),
]


@pytest.mark.parametrize("k", range(len(FLAT)))
def test_steps_are_flat_and_can_be_passed_straight_through(k):
    f = FLAT[k]
    x = np.array([0.5, 1.0, -1.5, 0.0, -0.0])
    check(lambda v: f(v).sum(), x, np.zeros(5))
    check(lambda v: (f(v) + v - lax.stop_gradient(v)).sum(), x, np.ones(5))
    check(lambda v: (v + lax.stop_gradient(f(v) - v)).sum(), x, np.ones(5))
