"""cond and switch."""

from __future__ import annotations

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import grad, jit, lax, vmap
from mgefn.core.jaxpr import check_jaxpr
from mgefn.errors import ArgumentError, DTypeError, ShapeError, TreeError
from tests import checks

RNG = np.random.default_rng(0)
W = RNG.standard_normal((3, 3))
X = np.array([0.3, -0.7, 1.1])


def by_cond(w, x):
    return lax.cond(
        x.sum() > 0.5,
        lambda w, x: (mnp.sin(w @ x), w[0, 0]),
        lambda w, x: (mnp.exp(x) * x.prod(), (w**2).sum()),
        w,
        x,
    )


def loss(f):
    def run(w, x):
        y, s = f(w, x)
        return (y**2).sum() * s

    return run


BATCH = np.stack([W, W / 2, -W]), np.stack([X, -X, X * 3])


def looped(f):
    """vmap by a loop."""
    return lambda *args: mgefn.tree.map(
        lambda *xs: np.stack([np.asarray(x) for x in xs]),
        *[f(*(a[i] for a in args)) for i in range(3)],
    )


def same(got, want):
    got, want = mgefn.tree.leaves(got), mgefn.tree.leaves(want)
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(np.asarray(g), np.asarray(w), rtol=1e-10, atol=1e-13)


def chosen(x):
    """The branch that by_cond takes for x, written out."""
    if x.sum() > 0.5:
        return lambda w, x: (mnp.sin(w @ x), w[0, 0])
    return lambda w, x: (mnp.exp(x) * x.prod(), (w**2).sum())


@pytest.mark.parametrize("x", [X, -X], ids=["true", "false"])
def test_derivatives_are_those_of_the_branch_taken(x):
    f, g = loss(by_cond), loss(chosen(x))
    for run in (
        lambda f: f,
        jit,
        lambda f: grad(f, (0, 1)),
        lambda f: jit(grad(f, (0, 1))),
        lambda f: grad(jit(f), (0, 1)),
        lambda f: lambda w, x: mgefn.jvp(f, (w, x), (x * w, w[1])),
        lambda f: jit(lambda w, x: mgefn.jvp(f, (w, x), (x * w, w[1]))),
        lambda f: lambda w, x: mgefn.jvp(lambda x: jit(f)(w, x), (x,), (w[1],)),
        lambda f: lambda w, x: mgefn.linearize(jit(f), w, x)[1](x * w, w[1]),
        lambda f: mgefn.hessian(f, (0, 1)),
        lambda f: jit(mgefn.jacrev(grad(f), (0, 1))),
        lambda f: grad(mgefn.checkpoint(f), (0, 1)),
    ):
        same(run(f)(*mgefn.device_put((W, x))), run(g)(*mgefn.device_put((W, x))))


def test_derivatives_agree_with_differences():
    for x in (X, -X):
        f, rng = jit(by_cond), np.random.default_rng(1)
        checks.check_jvp(f, [W, x], rng)
        checks.check_vjp_transpose(f, [W, x], rng)
        checks.check_second_order(f, [W, x], rng)


@pytest.mark.parametrize("wrap", [lambda f: f, jit], ids=["eager", "jit"])
def test_batches(wrap):
    f = loss(by_cond)
    same(wrap(vmap(by_cond))(*BATCH), looped(by_cond)(*BATCH))
    g = grad(f, (0, 1))
    same(wrap(vmap(g))(*BATCH), looped(g)(*BATCH))
    same(wrap(grad(lambda *a: vmap(f)(*a).sum(), (0, 1)))(*BATCH), looped(g)(*BATCH))
    h = lambda w, x: mgefn.jvp(f, (w, x), (w, x))
    same(wrap(vmap(h))(*BATCH), looped(h)(*BATCH))
    second = grad(lambda w, x: (grad(f)(w, x) ** 2).sum(), (0, 1))
    same(wrap(vmap(second))(*BATCH), looped(second)(*BATCH))


def test_a_shared_predicate_stays_a_cond():
    f = lambda p, x: lax.cond(p, lambda x: x * 2, lambda x: x, x)
    jaxpr = mgefn.make_jaxpr(vmap(f, (None, 0)))(True, X)
    assert "cond[" in str(jaxpr) and "select_n" not in str(jaxpr)
    np.testing.assert_array_equal(jit(vmap(f, (None, 0)))(False, X), X)


def test_loops_in_branches_end_for_every_example():
    down = lambda x: lax.while_loop(lambda v: (v <= 0) | (v > 0.05), lambda v: v * 0.1, x)
    up = lambda x: lax.while_loop(lambda v: v < -0.05, lambda v: v * 0.1, x)
    f = lambda x: lax.cond(x >= 0, down, up, x)
    for xs in ([1.0, -1.0], [1.0, 1.0], [-1.0, -1.0]):  # also where a branch is not taken at all
        xs = np.float32(xs)
        np.testing.assert_allclose(vmap(f)(xs), xs / 100, rtol=1e-3)
        np.testing.assert_allclose(jit(vmap(f))(xs), xs / 100, rtol=1e-3)
    grid = np.float32([[1, -1], [1, 1], [-1, -1]])
    np.testing.assert_allclose(vmap(vmap(f))(grid), grid / 100, rtol=1e-3)
    assert vmap(f)(np.ones(0, np.float32)).shape == (0,)


def test_branches_not_taken_leave_no_nan():
    f = lambda x: lax.cond(x > 0, mnp.log, lambda x: x * 0, x)
    np.testing.assert_array_equal(
        grad(lambda x: vmap(f)(x).sum())(np.float32([-1, 0, 2])), [0, 0, 0.5]
    )
    # Through a contraction, where no product with a slope could be caught.
    ones = np.ones((2, 2), np.float32)
    g = lambda x: lax.cond(x[0] > 0, lambda x: (mnp.sqrt(x) @ ones).sum(), lambda x: x.sum(), x)
    got = grad(lambda x: vmap(g)(x).sum())(np.float32([[-1, 0], [0, 0], [4, 1]]))
    np.testing.assert_allclose(got, [[1, 1], [1, 1], [0.5, 1]])


def test_known_predicates_run_one_branch_only():
    def never(x):
        raise AssertionError("this branch is not taken")

    assert lax.cond(True, lambda x: x + 1, never, 1) == 2
    assert lax.cond(0.0, never, lambda x: x + 1, 1) == 2
    assert grad(lambda x: lax.cond(x > 0, lambda x: x * x, never, x))(3.0) == 6
    assert lax.switch(5, [never, lambda x: x], 1) == 1


def test_closed_over_tracers_become_operands():
    def f(x, y):
        return lax.cond(x > 0, lambda: x * y, lambda: y**2)

    for g in (f, jit(f)):
        same(grad(g, (0, 1))(2.0, 3.0), (3.0, 2.0))
        same(grad(g, (0, 1))(-2.0, 3.0), (0.0, 6.0))
    np.testing.assert_array_equal(vmap(f, (0, None))(np.float32([2, -2]), 3.0), [6, 9])


def test_operand_forms():
    f = jit(lambda x: lax.cond(x > 0, lambda _: 1.0, lambda _: 2.0, operand=None))
    assert f(1.0) == 1 and f(-1.0) == 2
    old = jit(lambda p: lax.cond(p, 1, lambda x: x + 1, 5, lambda x: x - 1))
    assert old(True) == 2 and old(False) == 4
    with pytest.raises(ArgumentError, match="got both"):
        lax.cond(True, lambda x: x, lambda x: x, 1, operand=1)


def test_weak_types_are_joined():
    f = jit(lambda x: lax.cond(x > 0, lambda: 1.0, lambda: mnp.float32(2)))
    assert not f(1.0).weak_type and f(1.0).dtype == np.float32
    assert jit(lambda x: lax.cond(x > 0, lambda: 1.0, lambda: 2.0))(1.0).weak_type


def traced(true_fun, false_fun):
    return lambda: jit(lambda x: lax.cond(x > 0, true_fun, false_fun, x))(1.0)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (
            traced(lambda x: {"a": (x, x)}, lambda x: {"a": (x,)}),
            TreeError,
            r"at \['a'\] the first has tuple of 1 and the second tuple of 2",
        ),
        (
            traced(lambda x: {"a": x, "b": x}, lambda x: {"a": x, "b": x.astype("float16")}),
            DTypeError,
            r"\['b'\] is f16\[\] from false_fun <lambda> and f32\[\] from true_fun",
        ),
        (traced(lambda x: x, lambda x: mnp.stack([x])), ShapeError, r"f32\[1\] from false_fun"),
        (traced(lambda x: 1, lambda x: 1.0), DTypeError, "the output is f32"),
        (lambda: lax.cond(np.ones(2) > 0, abs, abs, 1), ShapeError, "rank 0, got bool"),
        (lambda: lax.cond(1j, abs, abs, 1), DTypeError, "a real number"),
        (lambda: lax.cond(None, abs, abs, 1), ArgumentError, "got NoneType"),
        (lambda: lax.cond(True, 1, abs, 1), ArgumentError, "must be functions"),
        (lambda: lax.switch(1.0, [abs, abs], 1), DTypeError, "must be an integer"),
        (lambda: lax.switch(np.ones(2, int), [abs, abs], 1), ShapeError, "rank 0"),
        (lambda: lax.switch(0, [], 1), ArgumentError, "at least one branch"),
        (
            lambda: jit(lambda i: lax.switch(i, [lambda: 1, lambda: 1, lambda: 1.0]))(0),
            DTypeError,
            "from branch 0 .* from branch 2",
        ),
    ],
)
def test_messages(call, error, match):
    with pytest.raises(error, match=match):
        call()


def test_switch_clamps():
    fs = [lambda x: x, lambda x: x * 10, lambda x: x * 100]
    f = lambda i, x: lax.switch(i, fs, x)
    for i, want in ((-5, 2), (0, 2), (1, 20), (2, 200), (9, 200), (2**40, 200)):
        index = mnp.asarray(i, "int64")
        assert f(index, 2.0) == want
        assert jit(f)(index, 2.0) == want
    assert jit(f)(np.uint8(200), 2.0) == 200
    indices = np.array([-5, 1, 9])
    np.testing.assert_array_equal(vmap(f, (0, None))(indices, 2.0), [2, 20, 200])
    np.testing.assert_array_equal(vmap(grad(f, 1), (0, None))(indices, 2.0), [1, 10, 100])
    assert lax.switch(3, [lambda x: x], 7) == 7


def test_switch_with_branches_of_unequal_residuals():
    fs = [mnp.sin, lambda x: x * 0 + 1, lambda x: mnp.exp(x) * mnp.sin(x) * x, lambda x: x]
    f = lambda i, x: lax.switch(i, fs, x).sum()
    for i, g in enumerate(fs):
        same(jit(grad(f, 1))(i, X), grad(lambda x, g=g: g(x).sum())(X))


def test_effects_run_with_their_branch():
    log = []

    def noted(name):
        def branch(x):
            mgefn.debug.callback(lambda x: log.append((name, float(x))), x)
            return x

        return branch

    f = jit(lambda x: (lax.cond(x > 0, noted("yes"), noted("no"), x), 1)[1])
    f(2.0), f(-2.0)
    assert log == [("yes", 2), ("no", -2)]


def test_jaxprs_are_well_formed():
    f = loss(by_cond)
    for g in (f, grad(f, (0, 1)), mgefn.hessian(f)):
        check_jaxpr(mgefn.make_jaxpr(g)(W, X))
    check_jaxpr(mgefn.make_jaxpr(vmap(grad(f)))(*BATCH))
