"""custom_vmap, sequential_vmap and linear_call under every transformation."""

from __future__ import annotations

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn.custom_batching import custom_vmap, sequential_vmap
from mgefn.custom_derivatives import linear_call
from mgefn.errors import ArgumentError, CustomRuleError, UnsupportedError

x = mnp.arange(3.0)


def with_log():
    seen = []

    @custom_vmap
    def f(x, y):
        return mnp.sin(x) * y

    @f.def_vmap
    def rule(axis_size, in_batched, x, y):
        seen.append((axis_size, in_batched, x.shape, y.shape))
        return mnp.sin(x) * y, True

    return f, seen


@pytest.mark.parametrize(
    "wrap",
    [lambda f: f, mgefn.jit, lambda f: mgefn.jit(mgefn.jit(f))],
    ids=["eager", "jit", "jits"],
)
def test_the_rule_serves_vmap(wrap):
    f, seen = with_log()
    got = wrap(mgefn.vmap(wrap(f), (0, None)))(x, 2.0)
    np.testing.assert_allclose(got, np.sin(np.arange(3.0)) * 2, rtol=1e-6)
    assert seen == [(3, [True, False], (3,), ())]
    assert f(1.0, 2.0) == mnp.sin(1.0) * 2
    assert len(seen) == 1


def test_derivatives():
    f, seen = with_log()
    batched = mgefn.vmap(f, (0, None))
    _, dot = mgefn.jvp(batched, (x, 2.0), (mnp.ones(3), 1.0))
    want = np.cos(x) * 2 + np.sin(x)
    np.testing.assert_allclose(dot, want, rtol=1e-6)
    pushed = mgefn.vmap(lambda v: mgefn.jvp(lambda v: f(v, 2.0), (v,), (1.0,))[1])
    np.testing.assert_allclose(pushed(x), np.cos(x) * 2, rtol=1e-6)
    assert len(seen) == 2  # forward mode goes through the rule
    for gradient in (
        mgefn.grad(lambda v: batched(v, 2.0).sum()),
        mgefn.vmap(mgefn.grad(lambda v: f(v, 2.0))),
    ):
        np.testing.assert_allclose(gradient(x), np.cos(x) * 2, rtol=1e-6)


def test_pytrees_and_unbatched_outputs():
    @custom_vmap
    def f(t):
        return {"sum": t["a"] + t["b"], "b": t["b"]}

    @f.def_vmap
    def rule(axis_size, in_batched, t):
        assert in_batched == [{"a": True, "b": False}]
        return {"sum": t["a"] + t["b"], "b": t["b"]}, {"sum": True, "b": False}

    out = mgefn.vmap(f, ({"a": 0, "b": None},))({"a": x, "b": 1.0})
    np.testing.assert_array_equal(out["sum"], x + 1)
    np.testing.assert_array_equal(out["b"], np.ones(3))


def test_sequential_vmap():
    shapes = []

    @sequential_vmap
    def f(x, y):
        shapes.append(x.shape)
        return x.sum() + y

    np.testing.assert_allclose(mgefn.vmap(f, (0, None))(mnp.ones((3, 2)), 1.0), np.full(3, 3.0))
    assert set(shapes) == {(2,)}


@pytest.mark.parametrize(
    ("rule", "match"),
    [
        (lambda n, b, x: x, "must return \\(output, which parts of it are batched\\)"),
        (lambda n, b, x: ((x, x), True), "must return an output of the function's structure"),
        (lambda n, b, x: (x, (True, True)), "must return an out_batched of the function's"),
        (lambda n, b, x: (x, False), "the rule must return f32\\[\\]"),
        (lambda n, b, x: (x.astype("int32"), True), "the rule must return f32\\[3\\]"),
    ],
)
def test_wrong_rules_are_named(rule, match):
    f = custom_vmap(lambda x: x * 2)
    f.def_vmap(rule)
    with pytest.raises(CustomRuleError, match=match):
        mgefn.vmap(f)(x)


def test_faults_are_named():
    f = custom_vmap(lambda x: x * 2)
    with pytest.raises(CustomRuleError, match="has no rule for vmap"):
        mgefn.vmap(f)(x)
    with pytest.raises(ArgumentError, match="by position, got x by name"):
        f(x=1.0)
    with pytest.raises(ArgumentError, match="needs a function"):
        custom_vmap(1)

    def closing(v):
        g = custom_vmap(lambda y: y + v)
        g.def_vmap(lambda n, b, y: (y, True))
        return g(1.0)

    with pytest.raises(UnsupportedError, match="closes over a value that is mapped"):
        mgefn.vmap(closing)(x)


def half(x):
    return linear_call(lambda r, x: x / r, lambda r, ct: ct / r * 10, 2.0, x)


def test_linear_call():
    assert half(3.0) == 1.5
    assert mgefn.jvp(half, (3.0,), (1.0,))[1] == 0.5
    for gradient in (mgefn.grad(half), mgefn.jit(mgefn.grad(half)), mgefn.grad(mgefn.jit(half))):
        assert gradient(3.0) == 5.0
    np.testing.assert_allclose(mgefn.vmap(half)(x), x / 2)
    np.testing.assert_allclose(mgefn.vmap(mgefn.grad(half))(x), np.full(3, 5.0))
    np.testing.assert_allclose(mgefn.grad(lambda v: mgefn.vmap(half)(v).sum())(x), np.full(3, 5.0))
    back = mgefn.linear_transpose(half, 1.0)
    assert mgefn.linear_transpose(lambda ct: back(ct)[0], 1.0)(3.0) == (1.5,)
    with pytest.raises(UnsupportedError, match="a residual is being differentiated"):
        mgefn.grad(lambda r: linear_call(lambda r, x: x / r, lambda r, c: c / r, r, 1.0))(2.0)
    with pytest.raises(CustomRuleError, match="must return the types of linear_args"):
        linear_call(lambda r, x: x.sum(), lambda r, ct: ct, (), x)
    with pytest.raises(CustomRuleError, match="must return the structure of linear_args"):
        linear_call(lambda r, x: x[0], lambda r, ct: ct, (), (1.0, 2.0))
