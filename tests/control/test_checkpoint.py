"""checkpoint: the same derivatives, with the function's operations computed twice."""

from __future__ import annotations

import numpy as np
import pytest

import mgefn
from mgefn import grad, jit, vmap
from mgefn.control.callbacks import pure_callback
from mgefn.control.checkpoint import (
    checkpoint,
    checkpoint_name,
    checkpoint_policies,
    optimization_barrier,
    remat,
)
from mgefn.control.custom_rules import custom_jvp
from mgefn.core.interpreter import state
from mgefn.errors import ArgumentError, StaticArgumentError
from mgefn.ops.contractions import dot
from mgefn.ops.elementwise import cos, sin

P = checkpoint_policies


def f(x):
    return sin(sin(x)) * x


ORDERS = {
    "grad": lambda c: grad(c(f)),
    "jit grad": lambda c: jit(grad(c(f))),
    "grad jit": lambda c: grad(jit(c(f))),
    "grad of a jitted body": lambda c: grad(c(jit(f))),
    "nested": lambda c: grad(c(c(f))),
    "jvp": lambda c: lambda x: mgefn.jvp(c(f), (x,), (1.0,))[1],
    "jacfwd": lambda c: mgefn.jacfwd(c(f)),
    "linearize": lambda c: lambda x: mgefn.linearize(c(f), x)[1](1.0),
    "vmap grad": lambda c: lambda x: vmap(grad(c(f)))(np.float32([x]))[0],
    "grad vmap": lambda c: lambda x: grad(lambda v: vmap(c(f))(v).sum())(np.float32([x]))[0],
    "jit vmap jit grad": lambda c: lambda x: jit(vmap(jit(grad(c(f)))))(np.float32([x]))[0],
}
SECOND = {
    "grad grad": lambda c: grad(grad(c(f))),
    "jit grad jit grad": lambda c: jit(grad(jit(grad(c(f))))),
    "hessian": lambda c: mgefn.hessian(c(f)),
    "jacrev jacfwd": lambda c: mgefn.jacrev(mgefn.jacfwd(c(f))),
    "grad of a checkpointed grad": lambda c: grad(c(grad(c(f)))),
}
POLICIES = [None, P.everything_saveable, P.save_only_these_names("a")]


@pytest.mark.parametrize("policy", POLICIES, ids=["none", "all", "names"])
@pytest.mark.parametrize("order", ORDERS)
def test_first_derivatives(order, policy):
    got = ORDERS[order](lambda g: checkpoint(g, policy=policy))(0.7)
    np.testing.assert_allclose(got, grad(f)(0.7), rtol=1e-5)


@pytest.mark.parametrize("policy", POLICIES, ids=["none", "all", "names"])
@pytest.mark.parametrize("order", SECOND)
def test_second_derivatives(order, policy):
    got = SECOND[order](lambda g: checkpoint(g, policy=policy))(0.7)
    np.testing.assert_allclose(got, grad(grad(f))(0.7), rtol=1e-4)


def counted():
    """sin that counts how often it is computed."""
    runs: list[int] = []

    def numpy_sin(x):
        runs.append(1)
        return np.sin(x)

    @custom_jvp
    def counted_sin(x):
        return pure_callback(numpy_sin, x, x)

    counted_sin.defjvp(lambda p, t: (counted_sin(p[0]), cos(p[0]) * t[0]))
    return counted_sin, runs


@pytest.mark.parametrize(
    ("policy", "evaluations"),
    [
        (None, 2),
        (P.nothing_saveable, 2),
        (P.dots_saveable, 2),
        (P.dots_with_no_batch_dims_saveable, 2),
        (P.save_any_names_but_these("a"), 2),
        (P.save_only_these_names("b"), 2),
        (P.everything_saveable, 1),
        (P.save_only_these_names("a"), 1),
        (P.save_any_names_but_these("b"), 1),
        (P.save_anything_except_these_names("b"), 1),
        (P.save_from_both_policies(P.dots_saveable, P.save_only_these_names("a")), 1),
    ],
)
@pytest.mark.parametrize("body", [lambda f: f, jit], ids=["plain", "jit"])
def test_how_often_a_value_is_computed(policy, evaluations, body):
    counted_sin, runs = counted()
    g = checkpoint(body(lambda x: sin(checkpoint_name(counted_sin(x), "a")) * x), policy=policy)
    for both in (mgefn.value_and_grad(g), jit(mgefn.value_and_grad(g))):
        runs.clear()
        value, slope = both(0.7)
        np.testing.assert_allclose(value, f(0.7), rtol=1e-6)
        np.testing.assert_allclose(slope, grad(f)(0.7), rtol=1e-5)
        assert len(runs) == evaluations


def test_without_the_barrier_the_compiler_merges_the_recomputation():
    counted_sin, runs = counted()
    g = checkpoint(lambda x: sin(counted_sin(x)), prevent_cse=False)
    jit(mgefn.value_and_grad(g))(0.7)
    assert len(runs) == 1


def test_matrix_products_are_saved_by_dots_saveable():
    a = np.arange(6, dtype=np.float32).reshape(2, 3) / 6
    x = np.ones(3, np.float32)

    def loss(a, x):
        return sin(dot(a, sin(x))).sum()

    for policy in (None, P.dots_saveable, P.dots_with_no_batch_dims_saveable):
        got = grad(checkpoint(loss, policy=policy), (0, 1))(a, x)
        for g, want in zip(got, grad(loss, (0, 1))(a, x), strict=True):
            np.testing.assert_allclose(g, want, rtol=5e-6)  # compiled sums round otherwise


def test_a_body_is_traced_once_for_repeated_calls():
    runs = []

    def body(x):
        runs.append(1)
        return sin(x) ** 2

    for g in (checkpoint(jit(body)), checkpoint(body)):
        runs.clear()
        for _ in range(5):
            grad(g)(0.5)
        assert len(runs) == 1


def test_closures_over_traced_values():
    def outer(y):
        return checkpoint(lambda x: x * sin(y))(2.0)

    for g in (grad(outer), jit(grad(outer)), grad(jit(outer))):
        np.testing.assert_allclose(g(1.0), 2 * np.cos(1), rtol=1e-6)
    ys = np.float32([1, 2])
    np.testing.assert_allclose(vmap(outer)(ys), 2 * np.sin(ys), rtol=1e-6)


def test_one_wrapper_sees_each_closed_over_value():
    held = {}
    g = checkpoint(lambda x: x * held["y"])

    def outer(y):
        held["y"] = y
        return g(2.0)

    # The wrapper was never called before, so the trace is made with the traced value.
    assert grad(outer)(3.0) == 2


def test_pytrees_keywords_and_static_arguments():
    @checkpoint
    def g(d, *, k):
        return {"s": sin(d["a"]) * k, "i": 3}

    assert g({"a": 0.0}, k=2.0)["i"] == 3
    np.testing.assert_allclose(grad(lambda a: g({"a": a}, k=2.0)["s"])(0.0), 2)
    np.testing.assert_allclose(grad(lambda k: g({"a": 1.0}, k=k)["s"])(0.0), np.sin(1), rtol=1e-6)

    h = checkpoint(lambda x, train: sin(x) if train else x, static_argnums=1)
    assert grad(h)(0.0, True) == 1
    assert h(2.0, False) == 2
    with pytest.raises(StaticArgumentError, match="must be hashable, got list"):
        h(2.0, [1])


def test_integers_and_unused_inputs():
    g = checkpoint(lambda x, n, unused: x * n)
    assert grad(g, (0, 2))(2.0, 3, 1.0) == (3, 0)


def test_decorator_with_options_and_alias():
    @checkpoint(policy=P.everything_saveable)
    def g(x):
        return sin(x)

    assert grad(g)(0.0) == 1
    assert g.__name__ == "g"
    assert remat is checkpoint


def test_mistakes():
    with pytest.raises(ArgumentError, match="needs a function, got int"):
        checkpoint(3)
    with pytest.raises(ArgumentError, match="the policy must be a function"):
        checkpoint(f, policy="dots")
    with pytest.raises(ArgumentError, match="static_argnums"):
        checkpoint(f, concrete=True)
    with pytest.raises(ArgumentError, match="must return arrays, got str"):
        checkpoint(lambda x: "no")(1.0)
    assert state.current is None


def test_equal_policies_are_equal():
    assert P.save_only_these_names("a", "b") == P.save_only_these_names("b", "a")
    assert P.save_only_these_names("a") != P.save_any_names_but_these("a")
    assert hash(P.save_only_these_names("a")) == hash(P.save_only_these_names("a"))


def test_optimization_barrier_is_the_identity():
    x = np.float32([1, 2])

    def g(x):
        a, b = optimization_barrier((x, 2 * x))
        return (a * b).sum()

    for h in (grad(g), jit(grad(g)), grad(jit(g))):
        np.testing.assert_allclose(h(x), 4 * x)
    np.testing.assert_allclose(vmap(g)(x[:, None]), 2 * x**2)
    assert optimization_barrier(()) == ()
