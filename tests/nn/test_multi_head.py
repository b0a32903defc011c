"""multi_head_attention is the layer of the same weights, with its masks and further keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mgefn
from mgefn import errors, nn, random

rng = np.random.default_rng(4)
Q, K, V = (
    rng.standard_normal((2, 5, 6)),
    rng.standard_normal((2, 4, 3)),
    rng.standard_normal((2, 4, 7)),
)
WEIGHTS = [rng.standard_normal(s) for s in ((6, 8), (3, 8), (7, 8), (8, 8))]
BIASES = [rng.standard_normal(8) for _ in range(4)]
FLAT = np.concatenate([w.ravel() for w in WEIGHTS + BIASES])
BIASED = {"qbias": True, "kbias": True, "vbias": True, "obias": True}


def attend(q: Any = Q, k: Any = K, v: Any = V, **settings: Any) -> Any:
    return nn.multi_head_attention(q, k, v, 8, 2, io_weight_bias=FLAT, **BIASED, **settings)


def layer(mask: Any = None) -> Any:
    names = ("query", "key", "value", "out")
    params = {n: {"weight": w.T, "bias": b} for n, w, b in zip(names, WEIGHTS, BIASES, strict=True)}
    module = nn.MultiHeadAttention(None, 2, head_dim=4, out_dim=8)
    return module.apply(params, {}, Q, K, V, mask)[0]


def test_against_the_layer() -> None:
    out, weights = attend()
    assert weights is None
    np.testing.assert_allclose(out, layer(), rtol=1e-10)
    np.testing.assert_allclose(attend(Q[0], K[0], V[0])[0], out[0], rtol=1e-10)
    causal = np.tri(5, 4) > 0
    np.testing.assert_allclose(attend(is_causal=True)[0], layer(causal), rtol=1e-10)
    np.testing.assert_allclose(attend(attn_mask=~causal)[0], layer(causal), rtol=1e-10)
    numbers = np.where(causal, 0.0, -1e9)
    np.testing.assert_allclose(attend(attn_mask=numbers)[0], layer(causal), rtol=1e-10)
    last = np.array([[False, False, False, True], [False, True, False, False]])
    masked = layer(~last[:, None, None])
    np.testing.assert_allclose(attend(key_padding_mask=last)[0], masked, rtol=1e-10)
    for_heads = np.broadcast_to(~causal, (4, 5, 4))
    np.testing.assert_allclose(attend(attn_mask=for_heads)[0], layer(causal), rtol=1e-10)


def test_weights() -> None:
    _, weights = attend(need_weights=True)
    assert weights.shape == (4, 5, 4)
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-12)
    _, mean = attend(need_weights=True, average_attn_weights=True)
    np.testing.assert_allclose(mean, weights.reshape(2, 2, 5, 4).mean(1), rtol=1e-12)
    assert attend(Q[0], K[0], V[0], need_weights=True)[1].shape == (2, 5, 4)


def test_further_keys_are_seen_by_all() -> None:
    mask = np.ones((5, 4), bool)
    out, weights = attend(attn_mask=mask, add_zero_attn=True, need_weights=True)
    np.testing.assert_allclose(weights[..., 4], 1)
    np.testing.assert_allclose(out, np.broadcast_to(BIASES[3], out.shape), rtol=1e-10)
    row = rng.standard_normal(8)
    out, _ = attend(attn_mask=mask, bias_k=rng.standard_normal(8), bias_v=row)
    want = row @ WEIGHTS[3] + BIASES[3]
    np.testing.assert_allclose(out, np.broadcast_to(want, out.shape), rtol=1e-10)


def test_gradients_jit_and_dropout() -> None:
    mgefn.test_util.check_grads(lambda q, k, v: attend(q, k, v)[0], (Q, K, V), order=1)
    np.testing.assert_allclose(mgefn.jit(lambda q: attend(q)[0])(Q), attend()[0], rtol=1e-10)
    some = attend(out_drop=0.5, rng=random.key(0))[0]
    kept = np.asarray(some) != 0
    np.testing.assert_allclose(
        np.asarray(some)[kept], 2 * np.asarray(attend()[0])[kept], rtol=1e-10
    )
    assert 0 < kept.mean() < 1
    np.testing.assert_allclose(attend(attn_drop=0.5, training=False)[0], attend()[0], rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: nn.multi_head_attention(Q, K, V, 8, 2), "needs io_weight_bias"),
        (lambda: nn.multi_head_attention(Q, K, V, 8, 2, io_weight_bias=FLAT), "must have 192"),
        (lambda: nn.multi_head_attention(Q, K, V, 8, 3, io_weight_bias=FLAT), "multiples of num"),
        (lambda: attend(Q[0]), "or all without a batch"),
        (lambda: attend(bias_k=np.ones(8)), "or neither"),
        (lambda: attend(attn_drop=0.5), "needs a key"),
    ],
)
def test_errors(call: Any, text: str) -> None:
    with pytest.raises(errors.MgefnError, match=text):
        call()
