"""Losses against values and gradients that optax gave, kept in recorded_losses.json."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import errors
from mgefn.nn import losses

CASES = json.loads(Path(__file__).with_name("recorded_losses.json").read_text())["cases"]


def decoded(x: Any) -> Any:
    if isinstance(x, dict):
        return np.array(x["data"], x["dtype"]).reshape(x["shape"])
    return tuple(x) if isinstance(x, list) else x


def arguments(case: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    return [decoded(a) for a in case["args"]], {k: decoded(v) for k, v in case["kwargs"].items()}


def first(result: Any) -> Any:
    return result[0] if isinstance(result, tuple) else result


@pytest.mark.parametrize("title", CASES)
@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
def test_values_and_gradients(title: str, jitted: bool) -> None:
    case = CASES[title]
    args, kwargs = arguments(case)
    loss = getattr(losses, case["name"])
    by = case["by"]

    def of(*chosen: Any) -> Any:
        whole = list(args)
        for i, x in zip(by, chosen, strict=True):
            whole[i] = x
        return loss(*whole, **kwargs)

    def total(*chosen: Any) -> Any:
        y = first(of(*chosen))
        return mnp.sum(y * np.cos(np.arange(y.size)).reshape(y.shape))

    chosen = [args[i] for i in by]
    wrap = mgefn.jit if jitted else lambda f: f
    got = wrap(of)(*chosen)
    for g, want in zip(got if isinstance(got, tuple) else (got,), case["values"], strict=True):
        np.testing.assert_allclose(g, decoded(want), rtol=1e-11, atol=1e-13)
        assert g.dtype == np.float64
    grads = wrap(mgefn.grad(total, argnums=tuple(range(len(by)))))(*chosen)
    for g, want in zip(grads, case["grads"], strict=True):
        np.testing.assert_allclose(g, decoded(want), rtol=1e-10, atol=1e-12)


def test_ctc_is_a_sum_over_all_readings() -> None:
    """Against the definition: every sequence of frames that reads as the labels."""
    rng = np.random.default_rng(1)
    logits = rng.standard_normal((1, 4, 3))
    p = np.exp(logits[0] - np.logaddexp.reduce(logits[0], -1, keepdims=True))
    total = 0.0
    for path in np.ndindex(3, 3, 3, 3):
        read = [c for i, c in enumerate(path) if c and (i == 0 or path[i - 1] != c)]
        if read == [1, 1]:
            total += math.prod(p[i, c] for i, c in enumerate(path))
    got = losses.ctc_loss(logits, np.zeros((1, 4)), np.array([[1, 1]]), np.zeros((1, 2)))
    np.testing.assert_allclose(got, [-math.log(total)], rtol=1e-12)


def test_ctc_gradient_and_batches() -> None:
    rng = np.random.default_rng(2)
    logits = rng.standard_normal((3, 2, 5, 4))
    labels, ends = np.array([[1, 1], [2, 0]]), np.array([[0, 0], [0, 1]])
    frames = np.array([[0, 0, 0, 0, 0], [0, 0, 0, 1, 1]])

    def loss(x: Any) -> Any:
        return losses.ctc_loss(x, frames, labels, ends)

    mgefn.test_util.check_grads(loss, (logits[0],), order=2)
    np.testing.assert_allclose(
        mgefn.vmap(loss)(logits), np.stack([loss(x) for x in logits]), rtol=1e-12
    )
    # Frames past the end have no influence.
    g = mgefn.grad(lambda x: loss(x).sum())(logits[0])
    np.testing.assert_array_equal(g[1, 3:], 0)
    empty = losses.ctc_loss(logits[0][:, :0], frames[:, :0], labels[:, :0], ends[:, :0])
    np.testing.assert_array_equal(empty, [0, 0])


def test_losses_of_megengine_and_mlx() -> None:
    x, y = np.array([[0.2, 0.7, 0.1], [0.5, 0.25, 0.25]]), np.array([1, 0])
    want = -(math.log(0.7) + math.log(0.5)) / 2
    np.testing.assert_allclose(losses.cross_entropy(np.log(x), y), want, rtol=1e-12)
    np.testing.assert_allclose(losses.cross_entropy(x, y, with_logits=False), want, rtol=1e-12)
    soft = losses.softmax_cross_entropy(np.log(x), losses.smooth_labels(np.eye(3)[y], 0.3))
    got = losses.cross_entropy(np.log(x), y, label_smooth=0.3, reduction="none")
    np.testing.assert_allclose(got, soft, rtol=1e-12)
    np.testing.assert_allclose(losses.nll_loss(np.log(x), y, reduction="mean"), want, rtol=1e-12)
    np.testing.assert_allclose(losses.l1_loss(x, 0 * x), 1 / 3, rtol=1e-12)
    np.testing.assert_allclose(losses.square_loss(x, 0 * x, "sum"), (x * x).sum(), rtol=1e-12)
    np.testing.assert_allclose(
        losses.smooth_l1_loss([0.1, 2.0], [0.0, 0.0], 0.5, "none"), [0.01, 1.75], rtol=1e-6
    )
    np.testing.assert_allclose(
        losses.gaussian_nll_loss([1.0], [3.0], [4.0], full=True),
        0.5 * (math.log(4) + 1 + math.log(2 * math.pi)),
        rtol=1e-6,
    )
    np.testing.assert_allclose(
        losses.margin_ranking_loss([1.0, 1.0], [0.0, 0.0], [1.0, -1.0], 0.5), [0, 1.5]
    )
    p = np.array([0.0, 1.0, 0.25])
    np.testing.assert_allclose(
        losses.binary_cross_entropy(p, np.array([0, 1, 1]), with_logits=False, reduction="sum"),
        -math.log(0.25),
        rtol=1e-12,
    )
    logits = np.array([-2.0, 0.5])
    np.testing.assert_allclose(
        losses.binary_cross_entropy(logits, np.array([0.0, 1.0])),
        losses.sigmoid_binary_cross_entropy(logits, np.array([0.0, 1.0])).mean(),
    )


def test_binary_cross_entropy_of_probabilities_slopes() -> None:
    """Labels of 0 and 1 have the slope log(1 - p) - log(p) too; corners are finite."""

    def loss(p: Any, y: Any) -> Any:
        return losses.binary_cross_entropy(p, y, with_logits=False, reduction="sum")

    p, y = np.array([0.25, 0.25, 0.25]), np.array([0.0, 1.0, 0.5])
    by_p, by_y = mgefn.grad(loss, argnums=(0, 1))(p, y)
    np.testing.assert_allclose(by_p, (p - y) / (p * (1 - p)), rtol=1e-12)
    np.testing.assert_allclose(by_y, np.log(1 - p) - np.log(p), rtol=1e-12)
    sure = np.array([0.0, 1.0])
    np.testing.assert_array_equal(mgefn.grad(loss)(sure, sure), [1.0, -1.0])


def test_corners() -> None:
    huge = mnp.array([[1e30, -1e30]])
    assert losses.softmax_cross_entropy_with_integer_labels(huge, mnp.array([0])).item() == 0
    g = mgefn.grad(lambda x: losses.log_cosh(x))(1e4)
    np.testing.assert_allclose(g, 1)
    # A row left out wholly counts nothing, and has no derivative.
    where = np.array([[False, False], [True, True]])
    logits = mnp.array([[1.0, 2.0], [0.0, 0.0]])
    for loss in (
        lambda x: losses.softmax_cross_entropy(x, mnp.full((2, 2), 0.5), where=where),
        lambda x: losses.softmax_cross_entropy_with_integer_labels(
            x, mnp.array([0, 0]), where=where
        ),
    ):
        y, pullback = mgefn.vjp(loss, logits)
        np.testing.assert_allclose(y, [0, math.log(2)], rtol=1e-6)
        np.testing.assert_array_equal(pullback(mnp.ones(2))[0][0], [0, 0])
    assert losses.l2_loss(mnp.zeros((0, 3)), mnp.zeros((0, 3))).shape == (0, 3)
    half = losses.sigmoid_binary_cross_entropy(mnp.ones(2, "float16"), np.array([0, 1]))
    assert half.dtype == np.float16


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: losses.l2_loss(mnp.ones(3), mnp.ones((3, 1))), errors.ShapeError, "one shape"),
        (
            lambda: losses.cross_entropy(mnp.ones((2, 3)), mnp.ones(2)),
            errors.DTypeError,
            "must be integers",
        ),
        (
            lambda: losses.cross_entropy(mnp.ones((2, 3)), mnp.arange(3)),
            errors.ShapeError,
            "label must have shape",
        ),
        (
            lambda: losses.l1_loss(mnp.ones(3), mnp.ones(3), "average"),
            errors.ArgumentError,
            "reduction must be one of",
        ),
        (
            lambda: losses.ctc_loss(
                mnp.ones((2, 3, 4)), mnp.ones((2, 4)), mnp.ones((2, 1), int), mnp.ones((2, 1))
            ),
            errors.ShapeError,
            "needs logits",
        ),
        (lambda: losses.log_cosh(mnp.array([1j])), errors.DTypeError, "needs real arrays"),
    ],
)
def test_errors(call: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        call()


def test_fenchel_young_loss_has_the_argmax_as_slope() -> None:
    loss = losses.make_fenchel_young_loss(mgefn.nn.logsumexp)
    scores, targets = np.array([[[1.0, 2.0, 0.5]], [[0.0, 0.0, 3.0]]]), np.eye(3)[[[1], [2]]]
    got = loss(scores, targets)
    np.testing.assert_allclose(got, losses.softmax_cross_entropy(scores, targets), rtol=1e-12)
    g = mgefn.grad(lambda s: loss(s, targets).sum())(scores)
    np.testing.assert_allclose(g, mgefn.nn.softmax(scores) - targets, rtol=1e-12)


@pytest.mark.parametrize(
    "title", ["softmax_cross_entropy", "huber_loss", "kl_divergence", "ntxent"]
)
def test_batches_of_losses(title: str) -> None:
    case = CASES[title]
    args, kwargs = arguments(case)
    loss = getattr(losses, case["name"])
    axes = tuple(0 if a.dtype.kind == "f" else None for a in args)
    twice = [np.stack([a, a[::-1]]) if x == 0 else a for a, x in zip(args, axes, strict=True)]
    got = mgefn.vmap(lambda *a: loss(*a, **kwargs), in_axes=axes)(*twice)
    for i in range(2):
        one = [a[i] if x == 0 else a for a, x in zip(twice, axes, strict=True)]
        np.testing.assert_allclose(got[i], loss(*one, **kwargs), rtol=1e-12)
