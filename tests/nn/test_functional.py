"""Normalisation, linear maps, pooling and functions of sequences against formulas and loops."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import errors, nn, random

RECORDED = json.loads(Path(__file__).with_name("recorded_convolutions.json").read_text())
rng = np.random.default_rng(0)


def decoded(x: dict[str, Any]) -> np.ndarray:
    return np.array(x["data"], x["dtype"]).reshape(x["shape"])


# -- normalisation --------------------------------------------------------------------------------

X = rng.standard_normal((4, 6, 3, 2)) * 3 + 1
W, B = rng.standard_normal(6), rng.standard_normal(6)


def whitened(x: np.ndarray, axes: tuple[int, ...], eps: float = 1e-5) -> np.ndarray:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def test_norms_are_their_formulas() -> None:
    scale, shift = W[:, None, None], B[:, None, None]
    np.testing.assert_allclose(
        nn.layer_norm(X, (3, 2)), whitened(X, (2, 3)), rtol=1e-10, atol=1e-12
    )
    np.testing.assert_allclose(
        nn.layer_norm(X[..., 0, 0], 6, True, W, B), whitened(X[..., 0, 0], (1,)) * W + B, rtol=1e-10
    )
    grouped = whitened(X.reshape(4, 3, 2, 3, 2), (2, 3, 4)).reshape(X.shape) * scale + shift
    np.testing.assert_allclose(nn.group_norm(X, 3, True, W, B), grouped, rtol=1e-9)
    np.testing.assert_allclose(
        nn.instance_norm(X, True, W, B), whitened(X, (2, 3)) * scale + shift, rtol=1e-9
    )
    rms = X / np.sqrt((X * X).mean(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(nn.rms_norm(X, np.array([2.0, 3.0])), rms * [2, 3], rtol=1e-12)
    sums = sum(np.pad(X * X, ((0, 0), (1, 1), (0, 0), (0, 0)))[:, i : i + 6] for i in range(3))
    np.testing.assert_allclose(
        nn.local_response_norm(X, 3, 2.0, 0.1, 0.5), X / np.sqrt(2 + 0.1 * sums), rtol=1e-12
    )


def test_batch_norm() -> None:
    mean, var = rng.standard_normal(6), rng.random(6) + 0.5
    y, new_mean, new_var = nn.batch_norm(X, mean, var, W, B, training=True, momentum=0.75)
    np.testing.assert_allclose(
        y, whitened(X, (0, 2, 3)) * W[:, None, None] + B[:, None, None], rtol=1e-9
    )
    np.testing.assert_allclose(new_mean, 0.75 * mean + 0.25 * X.mean((0, 2, 3)), rtol=1e-12)
    np.testing.assert_allclose(new_var, 0.75 * var + 0.25 * X.var((0, 2, 3), ddof=1), rtol=1e-12)
    y, same_mean, _ = nn.batch_norm(X, mean, var)
    want = (X - mean[:, None, None]) / np.sqrt(var + 1e-5)[:, None, None]
    np.testing.assert_allclose(y, want, rtol=1e-12)
    assert same_mean is mean
    assert nn.batch_norm(X, training=True)[1] is None
    with pytest.raises(errors.ArgumentError, match="training=True"):
        nn.batch_norm(X)


def test_synchronised_batch_norm_is_that_of_the_whole_batch() -> None:
    def norm(x: Any, name: str | None) -> Any:
        zeros, ones = mnp.zeros(6, "float64"), mnp.ones(6, "float64")
        return nn.sync_batch_norm(x, zeros, ones, training=True, axis_name=name)

    whole = norm(X, None)
    parts = mgefn.vmap(lambda x: norm(x, "i"), axis_name="i")(X.reshape(2, 2, 6, 3, 2))
    np.testing.assert_allclose(parts[0].reshape(X.shape), whole[0], rtol=1e-10)
    for got, want in zip(parts[1:], whole[1:], strict=True):
        np.testing.assert_allclose(got, np.stack([want, want]), rtol=1e-12)


def test_normalize() -> None:
    x = np.array([[3.0, -4.0], [0.0, 0.0]])
    np.testing.assert_allclose(nn.normalize(x, axis=-1), [[0.6, -0.8], [0, 0]])
    np.testing.assert_allclose(nn.normalize(x, 1, -1)[0], [3 / 7, -4 / 7])
    np.testing.assert_allclose(nn.normalize(x, 3.0, -1)[0], x[0] / 91 ** (1 / 3))
    np.testing.assert_allclose(nn.normalize(x, math.inf, -1)[0], x[0] / 4)
    g = mgefn.grad(lambda v: nn.normalize(v, axis=-1, eps=0.5).sum())(x)
    assert np.isfinite(g).all()
    np.testing.assert_allclose(g[1], [2, 2])


NORMS = {
    "layer": lambda x: nn.layer_norm(x, 2),
    "rms": lambda x: nn.rms_norm(x),
    "group": lambda x: nn.group_norm(x, 2),
    "instance": lambda x: nn.instance_norm(x),
    "batch": lambda x: nn.batch_norm(x, training=True)[0],
    "response": lambda x: nn.local_response_norm(x, 3),
    "normalize": lambda x: nn.normalize(x, axis=1),
}


@pytest.mark.parametrize("name", NORMS)
def test_norms_derivatives_and_narrow_dtypes(name: str) -> None:
    norm = NORMS[name]
    x = rng.standard_normal((3, 4, 2, 2))
    mgefn.test_util.check_grads(norm, (x,), order=1)
    np.testing.assert_allclose(mgefn.jit(norm)(x), norm(x), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(mgefn.vmap(norm)(x[None])[0], norm(x), rtol=1e-12, atol=1e-14)
    half = norm(mnp.array(x, "float16"))
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, norm(x), atol=2e-2)  # 11 bits, cancelled by the mean


# -- convolutions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("title", RECORDED["cases"])
def test_convolutions(title: str) -> None:
    case = RECORDED["cases"][title]
    x, w = (decoded(a) for a in case["args"])
    fun = getattr(nn, case["name"])

    def conv(x: Any, w: Any) -> Any:
        return fun(x, w, **case["kwargs"])

    y = conv(x, w)
    np.testing.assert_allclose(y, decoded(case["value"]), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(mgefn.jit(conv)(x, w), y, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(conv(x[0], w), y[0], rtol=1e-12, atol=1e-13)
    bias = np.arange(y.shape[1]) * 1.0
    shaped = bias.reshape((-1,) + (1,) * (x.ndim - 2))
    np.testing.assert_allclose(fun(x, w, bias, **case["kwargs"]), y + shaped, rtol=1e-12)
    if case["grads"] is None:
        mgefn.test_util.check_grads(conv, (x, w), order=1)
        return
    c = np.cos(np.arange(y.size)).reshape(y.shape)
    grads = mgefn.grad(lambda x, w: (conv(x, w) * c).sum(), argnums=(0, 1))(x, w)
    for got, want in zip(grads, case["grads"], strict=True):
        np.testing.assert_allclose(got, decoded(want), rtol=1e-11, atol=1e-12)


def test_grouped_weights_of_megengine() -> None:
    x, w = rng.standard_normal((1, 4, 3, 3)), rng.standard_normal((2, 3, 2, 2, 2))
    np.testing.assert_array_equal(
        nn.conv2d(x, w, groups=2), nn.conv2d(x, w.reshape(6, 2, 2, 2), groups=2)
    )


def test_unfold_and_fold() -> None:
    x = rng.standard_normal((2, 3, 5, 6))
    settings: dict[str, Any] = {"padding": (1, 0), "stride": (2, 1), "dilation": (1, 2)}
    columns = nn.unfold(x, (2, 3), **settings)
    w = rng.standard_normal((4, 3, 2, 3))
    conv = nn.conv2d(x, w, stride=(2, 1), padding=(1, 0), dilation=(1, 2))
    np.testing.assert_allclose(
        np.einsum("oc,ncl->nol", w.reshape(4, -1), columns), conv.reshape(2, 4, -1), rtol=1e-10
    )
    c = rng.standard_normal(columns.shape)
    back = nn.fold(c, (5, 6), (2, 3), **settings)
    np.testing.assert_allclose(np.vdot(back, x), np.vdot(c, columns), rtol=1e-12)


def test_pixel_shuffle() -> None:
    x = rng.standard_normal((2, 12, 3, 4))
    y = nn.pixel_shuffle(x, 2)
    assert y.shape == (2, 3, 6, 8)
    for c, i, j, a, b in itertools.product(range(3), range(3), range(4), range(2), range(2)):
        np.testing.assert_array_equal(y[:, c, 2 * i + a, 2 * j + b], x[:, 4 * c + 2 * a + b, i, j])


def test_pad_and_linear() -> None:
    x = np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(nn.pad(x, [(1, 2)], "replicate"), [1, 1, 2, 3, 3, 3])
    np.testing.assert_array_equal(nn.pad(x, [(1, 1)], constant_value=9.0), [9, 1, 2, 3, 9])
    np.testing.assert_array_equal(nn.pad(x, [(1, 1)], "reflect"), [2, 1, 2, 3, 2])
    w = rng.standard_normal((4, 3))
    np.testing.assert_allclose(nn.linear(x, w, np.ones(4)), w @ x + 1, rtol=1e-12)
    assert nn.linear(np.ones((0, 3)), w).shape == (0, 4)


def test_embedding() -> None:
    table = rng.standard_normal((5, 3))
    i = np.array([[0, 4], [2, -1]])
    np.testing.assert_array_equal(nn.embedding(i, table), table[i])
    g = mgefn.grad(lambda t: nn.embedding(i, t, padding_idx=4).sum())(table)
    np.testing.assert_array_equal(g.sum(1), [3, 0, 3, 0, 0])
    short = nn.embedding(i, table, max_norm=1.0)
    sizes = np.linalg.norm(table[i], axis=-1, keepdims=True)
    np.testing.assert_allclose(short, table[i] * np.minimum(1, 1 / sizes), rtol=1e-12)
    assert np.isnan(mgefn.jit(nn.embedding)(np.array(7), table)).all()


def test_dropout() -> None:
    x = mnp.ones((100, 100))
    y = nn.dropout(x, 0.25, key=random.key(0))
    np.testing.assert_array_equal(np.unique(y), np.float32([0, 1 / 0.75]))
    # 10,000 draws: the share has a standard deviation of 0.0043.
    assert abs(float((y == 0).mean()) - 0.25) < 0.02
    rows = nn.dropout(x, 0.5, key=random.key(1), broadcast_dims=(-1,))
    assert (np.ptp(rows, axis=1) == 0).all()
    np.testing.assert_array_equal(nn.dropout(x, 0.5, training=False), x)
    np.testing.assert_array_equal(nn.dropout(x, 1.0), mnp.zeros_like(x))
    with pytest.raises(errors.ArgumentError, match="needs a key"):
        nn.dropout(x, 0.5)
    with pytest.raises(errors.ArgumentError, match=r"must be in \[0, 1\]"):
        nn.dropout(x, 1.5)


# -- pooling --------------------------------------------------------------------------------------


def windows(x: np.ndarray, k: tuple[int, ...], s: tuple[int, ...], p: tuple[int, ...]) -> Any:
    """For each window: its place in the result, and the elements that it covers."""
    shape = [(n + 2 * b - a) // c + 1 for n, a, c, b in zip(x.shape, k, s, p, strict=True)]
    for at in np.ndindex(*shape):
        spans = [
            slice(max(i * c - b, 0), max(min(i * c - b + a, n), 0))
            for i, a, c, b, n in zip(at, k, s, p, x.shape, strict=True)
        ]
        yield at, x[tuple(spans)]


@pytest.mark.parametrize("n", [1, 2, 3])
def test_pools(n: int) -> None:
    x = rng.standard_normal((2, 3, *(5, 4, 6)[:n]))
    k, s, p = (3, 2, 2)[:n], (2, 1, 2)[:n], (1, 0, 1)[:n]
    avg = getattr(nn, f"avg_pool{n}d")(x, k, s, p)
    whole = getattr(nn, f"avg_pool{n}d")(x, k, s, p, mode="average")
    top = getattr(nn, f"max_pool{n}d")(x, k, s, p)
    for b, c in np.ndindex(2, 3):
        for at, window in windows(x[b, c], k, s, p):
            np.testing.assert_allclose(avg[b, c][at], window.mean(), rtol=1e-12)
            np.testing.assert_allclose(whole[b, c][at], window.sum() / math.prod(k), rtol=1e-12)
            np.testing.assert_array_equal(top[b, c][at], window.max())
    default = getattr(nn, f"max_pool{n}d")(x, 2)
    assert default.shape == (2, 3, *(d // 2 for d in x.shape[2:]))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_adaptive_pools(n: int) -> None:
    x = rng.standard_normal((2, *(7, 5, 4)[:n]))
    target = (3, 5, 2)[:n]
    avg = getattr(nn, f"adaptive_avg_pool{n}d")(x, target)
    top = getattr(nn, f"adaptive_max_pool{n}d")(x, target)
    for at in np.ndindex(*target):
        spans = tuple(
            slice(i * m // t, math.ceil((i + 1) * m / t))
            for i, m, t in zip(at, x.shape[1:], target, strict=True)
        )
        window = x[(slice(None), *spans)].reshape(2, -1)
        np.testing.assert_allclose(avg[(slice(None), *at)], window.mean(1), rtol=1e-12)
        np.testing.assert_array_equal(top[(slice(None), *at)], window.max(1))
    mgefn.test_util.check_grads(
        lambda x: getattr(nn, f"adaptive_max_pool{n}d")(x, target), (x,), order=1
    )
    integers = getattr(nn, f"adaptive_max_pool{n}d")((x * 10).astype("int32"), target)
    assert integers.dtype == np.int32


def test_max_pool_with_dilation() -> None:
    x = np.array([5.0, 1.0, 2.0, 9.0, 3.0, 4.0])
    np.testing.assert_array_equal(nn.max_pool1d(x, 2, 1, dilation=3), [9, 3, 4])


# -- sequences ------------------------------------------------------------------------------------


def test_masks() -> None:
    np.testing.assert_array_equal(nn.make_causal_mask(np.ones((2, 3)))[1, 0], np.tri(3))
    assert nn.make_causal_mask(np.ones((2, 3)), extra_batch_dims=1, dtype=bool).dtype == bool
    assert nn.make_causal_mask(np.ones((2, 3)), extra_batch_dims=1).shape == (1, 2, 1, 3, 3)
    mask = nn.make_attention_mask(np.array([[1, 1, 0]]), np.array([[1, 0]]))
    np.testing.assert_array_equal(mask, [[[[1, 0], [1, 0], [0, 0]]]])
    assert nn.combine_masks(None, None) is None
    with pytest.raises(errors.ShapeError, match="one rank"):
        nn.combine_masks(np.ones(2), np.ones((2, 2)))


@pytest.mark.parametrize("traditional", [False, True])
def test_rope_turns_pairs(traditional: bool) -> None:
    x = rng.standard_normal((2, 5, 6))
    y = nn.rope(x, 4, traditional=traditional, base=100.0, scale=0.5, offset=3)
    np.testing.assert_array_equal(y[..., 4:], x[..., 4:])
    pairs = [(0, 1), (2, 3)] if traditional else [(0, 2), (1, 3)]
    for i, (a, b) in enumerate(pairs):
        turned = (x[..., a] + 1j * x[..., b]) * np.exp(
            1j * (np.arange(5) + 3) * 0.5 * 100.0 ** (-i / 2)
        )
        np.testing.assert_allclose(y[..., a], turned.real, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(y[..., b], turned.imag, rtol=1e-12, atol=1e-14)


def test_rope_keeps_products_of_equal_distance() -> None:
    q, k = rng.standard_normal((1, 8)), rng.standard_normal((1, 8))
    near = np.vdot(nn.rope(q, offset=2), nn.rope(k, offset=5))
    far = np.vdot(nn.rope(q, offset=102), nn.rope(k, offset=105))
    np.testing.assert_allclose(near, far, rtol=1e-10)


def test_sinusoidal_encoding() -> None:
    at = np.arange(4.0)
    y = nn.sinusoidal_encoding(at, 6, min_freq=0.01, scale=1.0)
    frequencies = np.array([1.0, 0.1, 0.01])
    np.testing.assert_allclose(y[:, :3], np.sin(at[:, None] * frequencies), rtol=1e-10)
    np.testing.assert_allclose(y[:, 3:], np.cos(at[:, None] * frequencies), rtol=1e-10)
    assert nn.sinusoidal_encoding(at, 6, cos_first=True)[0, 0] == math.sqrt(2 / 6)


def test_scan_rnn() -> None:
    def core(x: Any, h: Any) -> Any:
        h = mnp.tanh(x + 0.5 * h)
        return 2 * h, h

    xs, h = rng.standard_normal((4, 3)), np.zeros(3)
    ys, end = nn.scan_rnn(core, xs, h)
    for x, y in zip(xs, ys, strict=True):
        h = np.tanh(x + 0.5 * h)
        np.testing.assert_allclose(y, 2 * h, rtol=1e-12)
    np.testing.assert_allclose(end, h, rtol=1e-12)
    batch_first, _ = nn.scan_rnn(core, xs.T, np.zeros(3), time_major=False)
    np.testing.assert_allclose(batch_first, ys.T, rtol=1e-12)
    backwards, _ = nn.scan_rnn(core, xs[::-1], np.zeros(3), reverse=True)
    np.testing.assert_allclose(backwards, ys[::-1], rtol=1e-12)


def test_topk_accuracy() -> None:
    logits = np.array([[3.0, 2.0, 1.0], [1.0, 2.0, 3.0], [1.0, 1.0, 1.0], [np.nan, 0.0, 0.0]])
    got = nn.topk_accuracy(logits, np.array([0, 1, 0, 0]), (1, 2, 3))
    np.testing.assert_allclose(got, [0.25, 0.5, 0.75])


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: nn.conv2d(mnp.ones((3, 3)), mnp.ones((1, 1, 1, 1))), "needs an array of rank 4"),
        (lambda: nn.conv2d(mnp.ones((1, 1, 3, 3)), mnp.ones((1, 1, 1, 1)), stride=0), "stride"),
        (lambda: nn.linear(mnp.ones((2, 3)), mnp.ones((3, 4))), "Transpose the weight"),
        (lambda: nn.group_norm(mnp.ones((1, 5, 2)), 2), "must divide"),
        (lambda: nn.layer_norm(mnp.ones((2, 3)), 2), "must be the end"),
        (lambda: nn.avg_pool2d(mnp.ones((4, 4)), 2, mode="mean"), "mode must be one of"),
        (lambda: nn.fold(mnp.ones((1, 5, 2)), 3, 2), "unfold makes such arrays"),
        (lambda: nn.embedding(mnp.ones(2), mnp.ones((2, 2))), "needs integers"),
        (lambda: nn.rope(mnp.ones((3, 3))), "dims must be even"),
    ],
)
def test_errors(call: Any, text: str) -> None:
    with pytest.raises(errors.MgefnError, match=text):
        call()


def test_thresholds() -> None:
    x = np.array([-2.0, -0.5, 0.0, 0.3, 0.5, 2.0])
    np.testing.assert_array_equal(nn.relu2(x), np.maximum(x, 0) ** 2)
    np.testing.assert_array_equal(nn.step(x, 0.3), [0, 0, 0, 0, 1, 1])
    np.testing.assert_array_equal(nn.hard_shrink(x), [-2, 0, 0, 0, 0, 2])
    np.testing.assert_array_equal(nn.softshrink(x), [-1.5, 0, 0, 0, 0, 1.5])
    np.testing.assert_allclose(nn.softmin(x), nn.softmax(-x), rtol=1e-15)
    slope = mgefn.vmap(mgefn.grad(nn.softshrink))(x)
    np.testing.assert_array_equal(slope, [1, 0, 0, 0, 0, 1])
