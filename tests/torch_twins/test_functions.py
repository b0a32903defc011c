"""Activations, losses and functions of images that torch has too: values and gradients."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import mgefn.numpy as mnp
from mgefn import nn, vision
from mgefn.nn import losses

torch = pytest.importorskip("torch", reason="pip install -e '.[torch]'")

from tests.torch_twins.frame import drawn, same_function  # noqa: E402  # imports torch

F = torch.nn.functional
# Wide enough for every branch; 0 is where one-sided derivatives are a matter of convention.
X = 3 * drawn("activations", 4, 6)
IMAGES = drawn("images", 2, 4, 6, 5)
Twin = tuple[Callable[..., Any], Callable[..., Any], tuple[np.ndarray, ...]]

ACTIVATIONS: dict[str, Twin] = {
    "relu": (nn.relu, F.relu, (X,)),
    "relu6": (nn.relu6, F.relu6, (X,)),
    "elu": (partial(nn.elu, alpha=0.7), partial(F.elu, alpha=0.7), (X,)),
    "celu": (partial(nn.celu, alpha=0.7), partial(F.celu, alpha=0.7), (X,)),
    "selu": (nn.selu, F.selu, (X,)),
    "leaky_relu": (nn.leaky_relu, F.leaky_relu, (X,)),
    "prelu": (nn.prelu, F.prelu, (X, np.array([0.3]))),
    "gelu": (partial(nn.gelu, approximate=False), F.gelu, (X,)),
    "gelu by tanh": (nn.gelu, partial(F.gelu, approximate="tanh"), (X,)),
    "silu": (nn.silu, F.silu, (X,)),
    "mish": (nn.mish, F.mish, (X,)),
    "softplus": (nn.softplus, F.softplus, (X,)),
    "soft_sign": (nn.soft_sign, F.softsign, (X,)),
    "sigmoid": (nn.sigmoid, F.sigmoid, (X,)),
    "log_sigmoid": (nn.log_sigmoid, F.logsigmoid, (X,)),
    "hard_sigmoid": (nn.hard_sigmoid, F.hardsigmoid, (X,)),
    "hard_silu": (nn.hard_silu, F.hardswish, (X,)),
    "hard_tanh": (nn.hard_tanh, F.hardtanh, (X,)),
    "hard_shrink": (nn.hard_shrink, F.hardshrink, (X,)),
    "softshrink": (nn.softshrink, F.softshrink, (X,)),
    "tanh": (nn.tanh, F.tanh, (X,)),
    "glu": (nn.glu, F.glu, (X,)),
    "softmax": (nn.softmax, partial(F.softmax, dim=-1), (X,)),
    "softmax of columns": (partial(nn.softmax, axis=0), partial(F.softmax, dim=0), (X,)),
    "softmin": (nn.softmin, partial(F.softmin, dim=-1), (X,)),
    "log_softmax": (nn.log_softmax, partial(F.log_softmax, dim=-1), (X,)),
    "logsumexp": (partial(nn.logsumexp, axis=-1), partial(torch.logsumexp, dim=-1), (X,)),
    "normalize": (partial(nn.normalize, axis=1), F.normalize, (X,)),
}

P, Q = drawn("predictions", 4, 6), drawn("targets", 4, 6)
LOG_P = P - np.log(np.exp(P).sum(-1, keepdims=True))
SHARES = np.exp(Q) / np.exp(Q).sum(-1, keepdims=True)
CLASSES = np.array([3, 0, 5, 3])
BITS = (Q > 0).astype(np.float64)
SIGNS = np.where(Q > 0, 1.0, -1.0)


def mean(f: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return lambda *xs: mnp.mean(f(*xs, **options))


LOSSES: dict[str, Twin] = {
    "l1_loss": (losses.l1_loss, F.l1_loss, (P, Q)),
    "square_loss": (losses.square_loss, F.mse_loss, (P, Q)),
    "squared_error": (losses.squared_error, partial(F.mse_loss, reduction="none"), (P, Q)),
    "smooth_l1_loss": (
        partial(losses.smooth_l1_loss, beta=0.7),
        partial(F.smooth_l1_loss, beta=0.7),
        (P, Q),
    ),
    "huber_loss": (mean(losses.huber_loss, delta=0.7), partial(F.huber_loss, delta=0.7), (P, Q)),
    "cross_entropy": (losses.cross_entropy, F.cross_entropy, (P, CLASSES)),
    "cross_entropy, smoothed": (
        partial(losses.cross_entropy, label_smooth=0.2),
        partial(F.cross_entropy, label_smoothing=0.2),
        (P, CLASSES),
    ),
    "cross_entropy of images": (
        partial(losses.cross_entropy, reduction="sum"),
        partial(F.cross_entropy, reduction="sum"),
        (IMAGES, np.arange(60).reshape(2, 6, 5) % 4),
    ),
    "softmax_cross_entropy": (mean(losses.softmax_cross_entropy), F.cross_entropy, (P, SHARES)),
    "softmax_cross_entropy_with_integer_labels": (
        losses.softmax_cross_entropy_with_integer_labels,
        partial(F.cross_entropy, reduction="none"),
        (P, CLASSES),
    ),
    "nll_loss": (mean(losses.nll_loss), F.nll_loss, (LOG_P, CLASSES)),
    "binary_cross_entropy": (
        losses.binary_cross_entropy,
        F.binary_cross_entropy_with_logits,
        (P, BITS),
    ),
    "binary_cross_entropy of probabilities": (
        partial(losses.binary_cross_entropy, with_logits=False),
        F.binary_cross_entropy,
        (SHARES, BITS),
    ),
    "sigmoid_binary_cross_entropy": (
        losses.sigmoid_binary_cross_entropy,
        partial(F.binary_cross_entropy_with_logits, reduction="none"),
        (P, BITS),
    ),
    "kl_divergence": (
        lambda p, q: losses.kl_divergence(p, q).sum(),
        partial(F.kl_div, reduction="sum"),
        (LOG_P, SHARES),
    ),
    "kl_divergence_with_log_targets": (
        lambda p, q: losses.kl_divergence_with_log_targets(p, q).sum(),
        partial(F.kl_div, reduction="sum", log_target=True),
        (LOG_P, np.log(SHARES)),
    ),
    "gaussian_nll_loss": (
        partial(losses.gaussian_nll_loss, full=True),
        partial(F.gaussian_nll_loss, full=True),
        (P, Q, np.exp(drawn("variances", 4, 6))),
    ),
    "margin_ranking_loss": (
        mean(losses.margin_ranking_loss, margin=0.3),
        partial(F.margin_ranking_loss, margin=0.3),
        (P, Q, SIGNS),
    ),
    "hinge_loss": (
        mean(losses.hinge_loss),
        # torch has it for one score and labels of one class only, as multi-label margin loss.
        lambda p, t: torch.clamp(1 - t * p, min=0).mean(),
        (P, SIGNS),
    ),
    "cosine_similarity": (losses.cosine_similarity, F.cosine_similarity, (P, Q)),
    "triplet_margin_loss": (
        mean(losses.triplet_margin_loss, eps=0.0),
        partial(F.triplet_margin_loss, eps=0.0),
        (P, Q, drawn("negatives", 4, 6)),
    ),
}

FRAMES, LENGTHS = 7, (7, 5)
NAMES, NAME_LENGTHS = np.array([[1, 1, 2], [3, 2, 0]]), (3, 2)


def past(lengths: tuple[int, ...], n: int) -> np.ndarray:
    return (np.arange(n) >= np.array(lengths)[:, None]).astype(np.float64)


def our_ctc(logits: Any) -> Any:
    return losses.ctc_loss(logits, past(LENGTHS, FRAMES), NAMES, past(NAME_LENGTHS, 3))


def their_ctc(logits: Any) -> Any:
    log_p = F.log_softmax(logits, -1).transpose(0, 1)
    return F.ctc_loss(log_p, torch.tensor(NAMES), LENGTHS, NAME_LENGTHS, reduction="none")


def attention(q: Any, k: Any, v: Any, **options: Any) -> Any:
    """torch has the heads in front of the sequence."""
    y = F.scaled_dot_product_attention(*(a.transpose(1, 2) for a in (q, k, v)), **options)
    return y.transpose(1, 2)


QUERY, KEY, VALUE = (drawn(n, 2, 5, 4, 3) for n in ("query", "key", "value"))
FEW = (drawn("few keys", 2, 5, 2, 3), drawn("few values", 2, 5, 2, 3))
GRID = np.tanh(drawn("grid", 2, 3, 4, 2)) * 1.2
COLUMNS = drawn("columns", 2, 2 * 4, 20)

OTHERS: dict[str, Twin] = {
    "ctc_loss": (our_ctc, their_ctc, (drawn("logits", 2, FRAMES, 5),)),
    "dot_product_attention": (nn.dot_product_attention, attention, (QUERY, KEY, VALUE)),
    "dot_product_attention, causal": (
        partial(nn.dot_product_attention, is_causal=True),
        partial(attention, is_causal=True),
        (QUERY, KEY, VALUE),
    ),
    "dot_product_attention, grouped": (
        nn.dot_product_attention,
        partial(attention, enable_gqa=True),
        (QUERY, *FEW),
    ),
    "unfold": (
        partial(nn.unfold, kernel_size=(3, 2), dilation=2, padding=1, stride=(1, 2)),
        partial(F.unfold, kernel_size=(3, 2), dilation=2, padding=1, stride=(1, 2)),
        (IMAGES,),
    ),
    "fold": (
        partial(nn.fold, output_size=(6, 5), kernel_size=2),
        partial(F.fold, output_size=(6, 5), kernel_size=2),
        (COLUMNS,),
    ),
    "embedding": (
        lambda w: nn.embedding(np.array([[0, 2], [1, 2]]), w),
        lambda w: F.embedding(torch.tensor([[0, 2], [1, 2]]), w),
        (drawn("table", 4, 3),),
    ),
    **{
        f"grid_sample, {mode}, {border}, corners {corners}": (
            partial(vision.grid_sample, mode=mode, padding_mode=border, align_corners=corners),
            partial(F.grid_sample, mode=mode, padding_mode=border, align_corners=corners),
            (IMAGES, GRID),
        )
        for mode in ("bilinear", "nearest", "bicubic")
        for border in ("zeros", "border", "reflection")
        for corners in (False, True)
    },
    **{
        f"interpolate, {mode}, corners {corners}": (
            partial(vision.interpolate, size=(9, 4), mode=mode, align_corners=corners),
            partial(F.interpolate, size=(9, 4), mode=mode, align_corners=corners),
            (IMAGES,),
        )
        for mode in ("bilinear", "bicubic")
        for corners in (False, True)
    },
    "interpolate, nearest": (
        partial(vision.interpolate, size=(9, 4), mode="nearest"),
        partial(F.interpolate, size=(9, 4), mode="nearest"),
        (IMAGES,),
    ),
    "interpolate, linear": (
        partial(vision.interpolate, size=9, mode="linear"),
        partial(F.interpolate, size=9, mode="linear"),
        (IMAGES[:, :, 0],),
    ),
}

# The derivative in torch 2.13 has 1 / 6 and alpha rounded to single precision.
ROUNDED = ("celu", "hard_sigmoid")

TWINS = ACTIVATIONS | LOSSES | OTHERS


@pytest.mark.parametrize("name", TWINS)
def test_twin(name: str) -> None:
    ours, theirs, inputs = TWINS[name]
    same_function(ours, theirs, inputs, **({"rtol": 1e-6} if name in ROUNDED else {}))


def test_a_wrong_twin_is_found() -> None:
    with pytest.raises(AssertionError, match="outputs"):
        same_function(nn.gelu, F.gelu, (X,))

    def other_slope(x: Any) -> Any:
        return nn.relu(x).astype("float32").astype("float64") * 0 + x.clip(0) * 1.0

    def their_slope(x: Any) -> Any:
        return F.relu(x).detach() + 0 * x

    with pytest.raises(AssertionError, match="gradients in the inputs"):
        same_function(other_slope, their_slope, (X,))
