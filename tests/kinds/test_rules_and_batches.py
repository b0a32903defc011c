"""Rules of users, recomputation and batches where they meet: closures, keys, containers."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import lax, nn, random
from mgefn.errors import MgefnError
from tests.kinds.helpers import check, differences


@pytest.mark.parametrize("again", [1, 2])
def test_recomputation_draws_the_same_numbers(again):
    key = random.key(3)

    def f(x):
        mask = random.bernoulli(key, 0.5, x.shape)
        noise = random.normal(key, x.shape)
        return (x * mask * 2.0).sum() + (x * noise).sum(), (mask, noise)

    g = f
    for _ in range(again):
        g = mgefn.checkpoint(g)
    for h in (mgefn.grad(g, has_aux=True), mgefn.jit(mgefn.grad(g, has_aux=True))):
        slope, (mask, noise) = h(mnp.ones(64))
        np.testing.assert_allclose(slope, 2.0 * np.asarray(mask) + np.asarray(noise), rtol=1e-6)
        assert 10 < np.asarray(mask).sum() < 54


@pytest.mark.parametrize("activation", [nn.relu, mnp.abs, mnp.tanh, nn.softplus])
def test_second_derivatives_through_recomputation(activation):
    a, b = np.array([[1.0, -2.0], [-1.0, 0.5]]), np.array([0.7, 1.3])
    plain = lambda p, x: (activation(p @ x) ** 2).sum()
    for f in (mgefn.checkpoint(plain), mgefn.checkpoint(mgefn.checkpoint(mgefn.jit(plain)))):
        mixed = lambda p, f=f: mnp.sum(mgefn.grad(f, 1)(p, b) * b)
        want = differences(lambda p: float(np.sum(np.asarray(mgefn.grad(plain, 1)(p, b)) * b)), a)
        check(mixed, a, want, rtol=1e-5, atol=1e-7)


def rules():
    """name -> a maker of x -> y * x, with its derivative by a rule, that closes over y."""

    def by_vjp(y):
        f = mgefn.custom_vjp(lambda x: y * x)
        f.defvjp(lambda x: (y * x, ()), lambda res, ct: (y * ct,))
        return f

    def by_jvp(y):
        f = mgefn.custom_jvp(lambda x: y * x)
        f.defjvp(lambda primals, tangents: (y * primals[0], y * tangents[0]))
        return f

    return {
        "custom_vjp": by_vjp,
        "custom_jvp": by_jvp,
        "checkpoint": lambda y: mgefn.checkpoint(lambda x: y * x),
        "jit": lambda y: mgefn.jit(lambda x: y * x),
    }


@pytest.mark.parametrize("name", list(rules()))
def test_wrapped_functions_close_over_batched_values(name):
    outer = lambda x, y: rules()[name](y)(x)
    xs, ys = mnp.asarray([3.0, 4.0]), mnp.asarray([1.0, 2.0])
    np.testing.assert_array_equal(mgefn.vmap(outer, (None, 0))(10.0, ys), [10, 20])
    np.testing.assert_array_equal(mgefn.vmap(outer, (0, None))(xs, 2.0), [6, 8])
    np.testing.assert_array_equal(mgefn.vmap(outer)(xs, ys), [3, 8])
    np.testing.assert_array_equal(mgefn.vmap(mgefn.grad(outer))(xs, ys), [1, 2])
    np.testing.assert_array_equal(
        mgefn.jit(mgefn.vmap(mgefn.vmap(outer)))(xs[None], ys[None]), [[3, 8]]
    )


@pytest.mark.parametrize("tag", ["big", None, ("a", 1)])
def test_what_is_not_differentiated_arrives_as_it_was(tag):
    seen = []

    @functools.partial(mgefn.custom_vjp, nondiff_argnums=(0, 2))
    def apply(fn, x, tag):
        return fn(x)

    def forward(fn, x, t):
        seen.append(t)
        return fn(x), x

    def backward(fn, t, x, ct):
        seen.append(t)
        return (fn(x) * ct * 100,)

    apply.defvjp(forward, backward)
    f = lambda x: apply(mnp.cos, x, tag)
    for g in (mgefn.grad(f), mgefn.jit(mgefn.grad(f)), mgefn.grad(mgefn.jit(f))):
        assert np.isclose(g(0.0), 100.0)
    np.testing.assert_allclose(mgefn.vmap(mgefn.grad(f))(np.zeros(2)), [100, 100])
    assert seen and all(t is tag or t == tag for t in seen)


def test_a_key_is_an_ordinary_argument_of_a_rule():
    @mgefn.custom_jvp
    def draw(scale, key):
        return scale * random.normal(key, (2,))

    draw.defjvp(lambda p, t: (draw(*p), draw(*p) * t[0]))
    keys = random.split(random.key(0), 3)
    y = np.asarray(mgefn.vmap(lambda k: draw(2.0, k))(keys))
    push = lambda k: mgefn.jvp(lambda s: draw(s, k), (2.0,), (1.0,))[1]
    np.testing.assert_allclose(mgefn.vmap(push)(keys), y)
    pulled = mgefn.jit(mgefn.grad(lambda s, k: draw(s, k).sum()))(2.0, keys[0])
    np.testing.assert_allclose(pulled, y[0].sum(), rtol=1e-6)
    scanned = lax.scan(lambda c, k: (c, draw(c, k)), 2.0, keys)[1]
    np.testing.assert_allclose(scanned, y)


def test_arrays_where_functions_are_expected_give_the_right_slope():
    @functools.partial(mgefn.custom_jvp, nondiff_argnums=(1,))
    def mul(x, m):
        return x * m

    mul.defjvp(lambda m, p, t: (mul(p[0], m), t[0] * m))

    def loss(x, m):
        (y, _), _ = lax.scan(lambda c, _: ((mul(*c), c[1]), None), (x, m), None, length=2)
        return y.sum()

    m = mnp.full(2, 0.5)
    for g in (mgefn.grad(loss), mgefn.jit(mgefn.grad(loss))):
        np.testing.assert_allclose(g(mnp.ones(2), m), [0.25, 0.25])


@pytest.mark.parametrize("axis", [0, 1, -1, 2])
def test_outputs_that_do_not_depend_on_the_batch(axis):
    x = mnp.arange(6.0).reshape(2, 3)
    got = mgefn.vmap(lambda v: (mnp.ones((4, 5)), 7.0, v.sum()), out_axes=(axis, 0, 0))(x)
    assert got[0].shape == np.moveaxis(np.ones((2, 4, 5)), 0, axis).shape
    assert got[1].tolist() == [7.0, 7.0] and got[2].tolist() == [3.0, 12.0]
    assert float(mgefn.vmap(lambda v: 7.0, out_axes=None)(x)) == 7.0
    with pytest.raises(MgefnError):
        mgefn.vmap(lambda v: v.sum(), out_axes=None)(x)


@pytest.mark.parametrize(
    "call",
    [
        lambda f: f(mnp.ones(4), mnp.ones(3)),
        lambda f: f(mnp.ones(4), y=mnp.ones(3)),
        lambda f: f({"a": mnp.ones((4, 2))}, mnp.ones((3, 2))),
    ],
)
def test_batches_of_two_sizes_are_both_named(call):
    with pytest.raises(MgefnError) as e:
        call(mgefn.vmap(lambda x, y: 0.0))
    assert "4" in str(e.value) and "3" in str(e.value)
    with pytest.raises(MgefnError):  # and a batch of one is not stretched
        mgefn.vmap(lambda x, y: x + y)(mnp.ones(4), mnp.ones(1))


@pytest.mark.parametrize("in_axes", [{"w": 0}, 0.0, False, "0", (0, 0)], ids=repr)
def test_in_axes_that_mean_nothing(in_axes):
    with pytest.raises(MgefnError):
        mgefn.vmap(lambda q: q["w"], in_axes=in_axes)({"w": mnp.ones(2)})


def test_in_axes_are_prefixes_of_containers():
    q = {"w": mnp.ones((3, 2)), "b": (mnp.zeros(3), None)}
    f = lambda q, x: q["w"].sum() + q["b"][0] + x
    for axes in ((0, None), [0, None], ({"w": 0, "b": 0}, None), ({"w": 0, "b": (0, None)}, None)):
        assert mgefn.vmap(f, in_axes=axes)(q, 1.0).tolist() == [3.0] * 3


def test_gradients_of_each_example_and_of_their_mean():
    rng = np.random.default_rng(4)
    w = {"m": rng.standard_normal((3, 2)), "b": rng.standard_normal(2)}
    x, y = rng.standard_normal((5, 3)), rng.standard_normal((5, 2))
    loss = lambda p, u, v: ((mnp.tanh(u @ p["m"] + p["b"]) - v) ** 2).sum()
    each = mgefn.jit(mgefn.vmap(mgefn.grad(loss), (None, 0, 0)))(w, x, y)
    mean = mgefn.grad(lambda p: mnp.mean(mgefn.vmap(loss, (None, 0, 0))(p, x, y)))(w)
    for k in w:
        assert each[k].shape == (5, *w[k].shape)
        np.testing.assert_allclose(np.mean(each[k], 0), mean[k], rtol=1e-10)
        for i in range(5):
            np.testing.assert_allclose(each[k][i], mgefn.grad(loss)(w, x[i], y[i])[k], rtol=1e-10)
