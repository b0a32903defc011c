"""Mixed precision: policies, loss scales, autocast."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import amp, lax, nn
from mgefn.errors import ArgumentError, DTypeError

RNG = np.random.default_rng(0)
A = RNG.normal(size=(3, 4)).astype(np.float32)
B = RNG.normal(size=(4, 2)).astype(np.float32)


def low(x, dtype):
    return np.asarray(x).astype(dtype).astype(np.float32)


def test_policies():
    policy = amp.get_policy("params=float32,compute=half,output=bfloat16")
    assert policy == amp.Policy("float32", "float16", ml_dtypes.bfloat16)
    assert str(policy) == "params=float32,compute=float16,output=bfloat16"
    assert amp.get_policy(str(policy)) == policy
    assert amp.get_policy("full") == amp.Policy("float32", "float32", "float32")
    assert policy.with_output_dtype("float32").output_dtype == np.float32
    assert hash(policy) == hash(amp.get_policy(str(policy)))
    seen = []

    def f(w, n, key, x=None):
        seen.append((w.dtype, n.dtype, key.dtype, x.dtype))
        return w * 2, n

    w, n = policy.wrap(f)(A, mnp.arange(2), mgefn.random.key(0), x=mnp.ones(1))
    assert seen[0][0] == seen[0][3] == np.float16
    assert seen[0][1] == n.dtype == np.int32
    assert mgefn.dtypes.is_key(seen[0][2])
    assert w.dtype == mnp.bfloat16
    assert policy.cast_to_param({"a": mnp.ones(1, "float16")})["a"].dtype == np.float32
    assert amp.cast_to_half([mnp.ones(1), 1.0])[0].dtype == np.float16
    for bad in ("params=float32,x=half", "params=", "compute"):
        with pytest.raises((ArgumentError, DTypeError)):
            amp.get_policy(bad)
    with pytest.raises(DTypeError, match="needs a floating dtype, got 'int32'"):
        amp.Policy("int32", "float32", "float32")


def test_finite_and_select():
    assert amp.all_finite({"a": mnp.ones(2), "n": mnp.arange(2)})
    assert amp.all_finite([])
    for bad in (mnp.nan, mnp.inf, complex(0, mnp.inf)):
        assert not amp.all_finite([mnp.ones(2), mnp.array([1.0, bad])])
    a, b = (
        {"x": mnp.ones(2), "k": mgefn.random.key(1)},
        {"x": mnp.zeros(2), "k": mgefn.random.key(2)},
    )
    chosen = mgefn.jit(amp.select_tree)(mnp.array(False), a, b)
    assert chosen["x"].tolist() == [0, 0]
    assert mgefn.random.key_data(chosen["k"]).tolist() == mgefn.random.key_data(b["k"]).tolist()
    with pytest.raises(ArgumentError, match=r"boolean scalar, got f32\[2\]"):
        amp.select_tree(mnp.ones(2), a, b)


def test_a_dynamic_scale_follows_its_rules():
    scale = amp.DynamicLossScale(mnp.float32(8), period=3)
    adjust = mgefn.jit(lambda s, finite: s.adjust(finite))
    history = []
    for finite in [1, 1, 1, 1, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0]:
        scale = adjust(scale, bool(finite))
        history.append((float(scale.loss_scale), int(scale.counter)))
    assert history == [
        (8, 1), (8, 2), (16, 0), (16, 1), (8, 0), (8, 1), (8, 2), (16, 0),
        (8, 0), (4, 0), (2, 0), (1, 0), (1, 0), (1, 0),
    ]  # fmt: skip
    large = amp.DynamicLossScale(mnp.float32(2.0**127), period=1)
    assert float(large.adjust(True).loss_scale) == 2.0**127  # not infinity
    assert scale.adjust(True).loss_scale.dtype == np.float32


@pytest.mark.parametrize(
    "scale",
    [amp.NoOpLossScale(), amp.StaticLossScale(1024.0), amp.DynamicLossScale(mnp.float32(1024))],
    ids=lambda s: type(s).__name__,
)
def test_scales_keep_dtypes_and_undo_themselves(scale):
    x = {"w": mnp.array([0.5, 3.0], "float16"), "v": mnp.ones(1)}
    there = scale.scale(x)
    back = scale.unscale(there)
    assert float(there["v"][0]) == float(scale.loss_scale)
    for k, v in x.items():
        assert back[k].dtype == there[k].dtype == v.dtype
        assert back[k].tolist() == v.tolist()
    assert mgefn.tree.structure(scale.adjust(mnp.array(False))) == mgefn.tree.structure(scale)


def test_a_scale_saves_small_gradients_and_notices_large_ones():
    def loss(w, x):
        return mnp.sum(w.astype("float16") * x.astype("float16")) * mnp.float16(1e-7)

    w, x = mnp.ones(3), mnp.full(3, 1e-2)
    plain = mgefn.grad(loss)(w, x)
    assert plain.tolist() == [0, 0, 0]
    scale = amp.DynamicLossScale(mnp.float32(2**15))
    after, finite, _, grads = mgefn.jit(amp.value_and_grad(loss))(scale, w, x)
    assert finite
    assert int(after.counter) == 1
    np.testing.assert_allclose(grads, [1e-9] * 3, rtol=0.2)  # 1e-7 has one bit in float16
    after, finite, _, _ = amp.value_and_grad(lambda w: w * mnp.float16(60000))(
        scale, mnp.float16(2)
    )
    assert not finite
    assert float(after.loss_scale) == 2**14


def test_value_and_grad_takes_argnums_and_aux():
    def f(a, b, c):
        return a * b * c, {"aux": a}

    scale = amp.StaticLossScale(8.0)
    args = [mnp.float32(v) for v in (2, 3, 5)]
    _, finite, (value, aux), (da, dc) = amp.value_and_grad(f, (0, 2), True)(scale, *args)
    assert finite
    assert (float(value), float(aux["aux"]), float(da), float(dc)) == (30, 2, 15, 6)
    _, _, _, dc = amp.value_and_grad(f, -1, has_aux=True)(scale, *args)
    assert float(dc) == 6


# -- autocast -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_products_are_low_and_the_rest_is_high(name):
    dtype = np.dtype(name)

    def f(a, b):
        return mnp.exp(a @ b) + 1e-6

    got = amp.autocast(f, low_prec_dtype=name)(A, B)
    product = low(low(A, dtype) @ low(B, dtype), dtype)
    assert got.dtype == np.float32
    # The product may round once in another order of its sums: one unit of the low dtype.
    eps = float(mgefn.dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(got, np.exp(product) + 1e-6, rtol=eps * np.abs(product).max() * 2)
    assert np.abs(got - f(A, B)).max() > 0
    text = str(mgefn.make_jaxpr(amp.autocast(f, low_prec_dtype=name))(A, B))
    short = {"float16": "f16", "bfloat16": "bf16"}[name]
    assert text.count(f"{short}[3,2] = dot_general") == 1
    assert text.count("f32[3,2] = exp") == 1


def test_autocast_reaches_into_programs():
    def body(c, x):
        return mnp.tanh(c @ x), mnp.sum(c)

    def f(c, xs):
        c, sums = lax.scan(body, c, xs)
        c = mgefn.jit(lambda v: v @ v)(c)
        return lax.cond(sums[0] > 0, lambda v: v @ v, lambda v: v, c), sums

    c = RNG.normal(size=(3, 3)).astype(np.float32)
    xs = RNG.normal(size=(4, 3, 3)).astype(np.float32)
    text = str(mgefn.make_jaxpr(amp.autocast(f))(c, xs))
    assert text.count("f16[3,3] = dot_general") == 3
    assert "f32[3,3] = dot_general" not in text
    got, want = amp.autocast(f)(c, xs), f(c, xs)
    np.testing.assert_allclose(got[0], want[0], atol=0.05)


def test_autocast_composes():
    f = amp.autocast(lambda a, b: mnp.sum(nn.relu(a @ b) ** 2))
    value, (da, db) = mgefn.value_and_grad(f, (0, 1))(A, B)
    assert da.dtype == db.dtype == np.float32
    want = mgefn.grad(lambda a, b: mnp.sum(nn.relu(a @ b) ** 2), (0, 1))(A, B)
    np.testing.assert_allclose(da, want[0], atol=0.02)
    np.testing.assert_allclose(db, want[1], atol=0.02)
    jitted = mgefn.jit(f)(A, B)
    np.testing.assert_allclose(jitted, value, rtol=1e-3)
    # Traced outside, closed over inside.
    inner = mgefn.grad(lambda a: amp.autocast(lambda b: mnp.sum(a @ b))(B))(A)
    np.testing.assert_allclose(inner, np.broadcast_to(B.sum(1), (3, 4)), atol=0.01)
    mapped = mgefn.vmap(f, (0, None))(np.stack([A, 2 * A]), B)
    np.testing.assert_allclose(mapped[0], value, rtol=1e-3)


def test_autocast_leaves_others_alone():
    def f(a, b):
        return a @ b

    assert amp.autocast(f, enabled=False) is f
    assert amp.autocast(False)(f) is f
    wide = amp.autocast(f)(A.astype(np.float64), B.astype(np.float64))
    np.testing.assert_array_equal(wide, A.astype(np.float64) @ B.astype(np.float64))
    whole = amp.autocast(f)(np.arange(4).reshape(2, 2), np.arange(4).reshape(2, 2))
    assert whole.tolist() == [[2, 3], [6, 11]]

    @amp.autocast(low_prec_dtype="bfloat16")
    def tree(d, *, scale):
        return {"out": d["a"] @ d["b"] * scale}

    assert tree({"a": A, "b": B}, scale=2.0)["out"].shape == (3, 2)
    with pytest.raises(ArgumentError, match="needs a function, got 3"):
        amp.autocast(3)
    with pytest.raises(DTypeError, match="floating"):
        amp.autocast(f, low_prec_dtype="int8")
