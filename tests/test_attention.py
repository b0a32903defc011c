"""Attention against a loop over heads, and its masks."""

import numpy as np
import pytest
import scipy.special as sp

import mgefn
import mgefn.numpy as mnp
from mgefn import errors
from mgefn.nn import dot_product_attention

RNG = np.random.default_rng(0)
B, T, S, N, K, H = 2, 5, 6, 4, 2, 3
Q = RNG.standard_normal((B, T, N, H))
KEYS, VALUES = RNG.standard_normal((2, B, S, K, H))
BIAS = RNG.standard_normal((1, N, T, S))
MASK = RNG.random((B, 1, T, S)) > 0.4
MASK[..., 0] = True
AT, TO = np.arange(T)[:, None], np.arange(S)
Q_LENGTHS, S_LENGTHS = np.array([3, 5], np.int32), np.array([6, 2], np.int32)


def by_loop(scale: float = H**-0.5, bias=0.0, mask=True, rows=True) -> tuple:
    out, sums = np.zeros(Q.shape), np.zeros(Q.shape[:-1])
    bias = np.broadcast_to(bias, (B, N, T, S))
    mask = np.broadcast_to(mask, (B, N, T, S))
    for b in range(B):
        for n in range(N):
            k = n // (N // K)
            scores = scale * Q[b, :, n] @ KEYS[b, :, k].T + bias[b, n]
            scores = np.where(mask[b, n], scores, -np.inf)
            out[b, :, n] = sp.softmax(scores, -1) @ VALUES[b, :, k]
            sums[b, :, n] = sp.logsumexp(scores, -1)
    return np.where(rows, out, 0), sums


CASES = {
    "plain": ({}, {}),
    "scale": ({"scale": 0.3}, {"scale": 0.3}),
    "bias": ({"bias": BIAS}, {"bias": BIAS}),
    "mask": ({"mask": MASK}, {"mask": MASK}),
    "causal": ({"is_causal": True}, {"mask": TO <= AT}),
    "window": ({"local_window_size": (1, 2)}, {"mask": (TO >= AT - 1) & (TO <= AT + 2)}),
    "one window": ({"local_window_size": 1}, {"mask": abs(TO - AT) <= 1}),
    "keys": (
        {"key_value_seq_lengths": S_LENGTHS},
        {"mask": TO < S_LENGTHS[:, None, None, None]},
    ),
    "queries": (
        {"query_seq_lengths": Q_LENGTHS},
        {"rows": (AT[:, 0] < Q_LENGTHS[:, None])[..., None, None]},
    ),
    "all": (
        {"bias": BIAS, "mask": MASK, "is_causal": True},
        {"bias": BIAS, "mask": MASK & (TO <= AT)},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_against_a_loop(name: str) -> None:
    kwargs, plain = CASES[name]
    want, sums = by_loop(**plain)

    def fun(q, k, v):
        return dot_product_attention(q, k, v, **kwargs)

    np.testing.assert_allclose(fun(Q, KEYS, VALUES), want, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(mgefn.jit(fun)(Q, KEYS, VALUES), want, rtol=1e-7, atol=1e-9)
    if name != "queries":
        got = dot_product_attention(Q, KEYS, VALUES, **kwargs, return_residual=True)[1]
        np.testing.assert_allclose(got, sums, rtol=1e-7)


def test_derivative_without_batch_and_half_precision() -> None:
    single = dot_product_attention(Q[0], KEYS[0], VALUES[0], mask=MASK[0])
    np.testing.assert_allclose(single, by_loop(mask=MASK)[0][0], rtol=1e-7)

    def loss(q):
        return (dot_product_attention(q, KEYS, VALUES, is_causal=True) ** 2).sum()

    direction = RNG.standard_normal(Q.shape)
    numeric = (loss(Q + 1e-5 * direction) - loss(Q - 1e-5 * direction)) / 2e-5
    slope = (mgefn.grad(loss)(Q) * direction).sum()
    np.testing.assert_allclose(slope, numeric, rtol=1e-6)
    half = dot_product_attention(*(mnp.array(x, "bfloat16") for x in (Q, KEYS, VALUES)))
    assert half.dtype.name == "bfloat16"
    np.testing.assert_allclose(half.astype("float32"), by_loop()[0], atol=0.03)


def test_a_row_without_keys_takes_the_mean() -> None:
    none = np.zeros((1, 1, T, S), bool)
    got = dot_product_attention(Q, KEYS, VALUES, mask=none)
    np.testing.assert_allclose(got[:, :, 0], np.repeat(VALUES.mean(1)[:, None, 0], T, 1))
    slope = mgefn.grad(lambda q: dot_product_attention(q, KEYS, VALUES, mask=none).sum())(Q)
    np.testing.assert_array_equal(slope, np.zeros(Q.shape))


def test_attention_errors() -> None:
    with pytest.raises(errors.ShapeError, match="N a multiple of K"):
        dot_product_attention(Q[:, :, :3], KEYS, VALUES)
    with pytest.raises(errors.DTypeError, match="one floating dtype"):
        dot_product_attention(Q, KEYS.astype(np.float32), VALUES)
    with pytest.raises(errors.DTypeError, match="mask must be bool"):
        dot_product_attention(Q, KEYS, VALUES, mask=np.ones((T, S)))
    with pytest.raises(errors.ShapeError, match="bias must broadcast"):
        dot_product_attention(Q, KEYS, VALUES, bias=np.ones((T, 2)))
    with pytest.raises(errors.ShapeError, match="query_seq_lengths"):
        dot_product_attention(Q, KEYS, VALUES, query_seq_lengths=np.ones(3, int))
    with pytest.raises(errors.ArgumentError, match="implementation"):
        dot_product_attention(Q, KEYS, VALUES, implementation="cudnn")
