"""Losses of sequences, rankings, segmentations and pairs, under optax's names."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn import numpy as mnp
from mgefn.api.batch import vmap
from mgefn.control.scan import scan
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import ArgumentError, ShapeError, api_boundary
from mgefn.nn.checks import check_range
from mgefn.nn.functions import log_softmax, sigmoid, softmax
from mgefn.nn.losses.regression import cosine_similarity
from mgefn.nn.losses.shared import floats, inner, integers, same_shape
from mgefn.ops.elementwise import stop_gradient_leaf
from mgefn.recipes import maker

__all__ = [
    "binary_dice_loss",
    "ctc_loss",
    "ctc_loss_with_forward_probs",
    "dice_loss",
    "make_fenchel_young_loss",
    "multiclass_generalized_dice_loss",
    "ntxent",
    "ranking_softmax_loss",
]


# -- sequences ------------------------------------------------------------------------------------


@api_boundary
def ctc_loss(
    logits: ArrayLike,
    logit_paddings: ArrayLike,
    labels: ArrayLike,
    label_paddings: ArrayLike,
    *,
    blank_id: int = 0,
    log_epsilon: ArrayLike = -100000.0,
) -> Array:
    """-log of the probability that the frames, read without repeats and blanks, are the labels.

    B is the number of sequences, T that of frames, N that of labels, K that of classes.

    Args:
        logits: shape (B, T, K).
        logit_paddings: shape (B, T): 1 for the frames past the end, 0 for the others.
        labels: integers, shape (B, N).
        label_paddings: shape (B, N), likewise; the labels stand in front.
        blank_id: the class of the blank.
        log_epsilon: stands for log(0).

    Returns:
        Array of shape (B,).

    Raises:
        ShapeError: the shapes do not fit.
        IndexOutOfBoundsError: a label in front of the paddings is no class. Only where labels are
            known, so not under jit and vmap.

    Source: Graves et al. (2006), Connectionist temporal classification, ICML, 369-376.
    """
    args = (logits, logit_paddings, labels, label_paddings, blank_id, log_epsilon)
    return _ctc("ctc_loss", *args)[0]


@api_boundary
def ctc_loss_with_forward_probs(
    logits: ArrayLike,
    logit_paddings: ArrayLike,
    labels: ArrayLike,
    label_paddings: ArrayLike,
    *,
    blank_id: int = 0,
    log_epsilon: ArrayLike = -100000.0,
) -> tuple[Array, Array, Array]:
    """`ctc_loss`, and the logarithms of the forward probabilities.

    Returns:
        (loss (B,), that after t frames the first n labels were read and a blank last (T, B, N + 1),
        that the n-th label was last (T, B, N)). In the last row of the former it does not matter
        what was last.
    """
    args = (logits, logit_paddings, labels, label_paddings, blank_id, log_epsilon)
    return _ctc("ctc_loss_with_forward_probs", *args)


def _ctc(
    name: str, logits: Any, logit_paddings: Any, labels: Any, label_paddings: Any,
    blank_id: Any, log_epsilon: Any,
) -> tuple[Any, Any, Any]:  # fmt: skip
    (x,) = floats(name, logits)
    y = integers(name, "labels", labels)
    ends, label_ends = mnp.asarray(logit_paddings), mnp.asarray(label_paddings)
    if (
        x.ndim != 3
        or y.ndim != 2
        or y.shape[0] != x.shape[0]
        or ends.shape != x.shape[:2]
        or label_ends.shape != y.shape
    ):
        raise ShapeError(
            f"{name}: needs logits (B, T, K), their paddings (B, T), labels and their paddings "
            f"(B, N), got {x.aval}, {ends.aval}, {y.aval} and {label_ends.aval}."
        )
    check_range(name, "labels", y, x.shape[2], "classes", label_ends == 0)
    b, n = y.shape
    nothing = mnp.asarray(log_epsilon, x.dtype)
    log_p = log_softmax(x)
    blank = mnp.moveaxis(log_p[:, :, operator.index(blank_id)], 0, 1)[..., None]  # (T, B, 1)
    emitted = mnp.take_along_axis(log_p, mnp.expand_dims(y, 1), 2)  # (B, T, N)
    emitted = mnp.moveaxis(emitted, 0, 1)
    # Between equal labels there must be a blank.
    repeats = mnp.pad(y[:, :-1] == y[:, 1:], ((0, 0), (0, 1 if n else 0)))

    def arrived(at_blank: Any, at_label: Any) -> Any:
        """Add to each state what comes from the label before it."""
        return mnp.concatenate([at_blank[:, :1], mnp.logaddexp(at_blank[:, 1:], at_label)], 1)

    def step(state: Any, frame: Any) -> tuple[Any, Any]:
        at_blank, at_label = state
        log_blank, log_label, ended = frame
        ready = arrived(at_blank, mnp.where(repeats, at_label + nothing, at_label))
        new_label = mnp.logaddexp(ready[:, :-1], at_label) + log_label
        new_blank = arrived(at_blank, at_label) + log_blank
        ended = ended[:, None] != 0
        new = (
            mnp.where(ended, at_blank, new_blank),
            mnp.where(ended, at_label, new_label),
        )
        return new, new

    at_start = mnp.concatenate([mnp.zeros((b, 1), x.dtype), mnp.full((b, n), nothing)], 1)
    start = (at_start, mnp.full((b, n), nothing))
    last, (blanks, read) = scan(step, start, (blank, emitted, mnp.moveaxis(ends, 0, 1)))
    total = arrived(*last)
    lengths = n - mnp.sum(label_ends, 1).astype("int32")
    loss = -mnp.take_along_axis(total, lengths[:, None], 1)[:, 0]
    if x.shape[1]:
        blanks = mnp.concatenate([blanks[:-1], total[None]], 0)
    return loss, blanks, read


# -- rankings and pairs ---------------------------------------------------------------------------


@api_boundary
def ranking_softmax_loss(
    logits: ArrayLike,
    labels: ArrayLike,
    *,
    where: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    reduce_fn: Callable[..., Any] | None = mnp.mean,
) -> Array:
    """-sum(labels * log_softmax(scores)) over the items of each list.

    Args:
        logits: scores of items, shape (..., items).
        labels: how relevant they are, of the same shape.
        where: which items count.
        weights: of the items.
        reduce_fn: (losses, where=...) -> result; None: one loss for each list, 0 for a list
            without items. The mean of no lists is 0.

    Source: Cao et al. (2007), Learning to rank: from pairwise to listwise approach, ICML.
    """
    name = "ranking_softmax_loss"
    (x,) = floats(name, logits)
    y = mnp.asarray(labels).astype(x.dtype)
    same_shape(name, x, y)
    mask = None if where is None else mnp.broadcast_to(mnp.asarray(where), x.shape)
    if weights is not None:
        y = y * mnp.asarray(weights, x.dtype)
    log_p = log_softmax(x, -1, mask)
    if mask is None:
        loss = -inner(y, log_p)
        return loss if reduce_fn is None else reduce_fn(loss, where=None)
    loss = -mnp.sum(mnp.where(mask, y * mnp.where(mask, log_p, 0), 0), -1)
    lists = mnp.any(mask, -1)
    if reduce_fn is None:
        return mnp.where(lists, loss, 0)
    if reduce_fn is mnp.mean:
        count = mnp.maximum(mnp.sum(lists), 1)
        return mnp.sum(mnp.where(lists, loss, 0)) / count.astype(loss.dtype)
    return reduce_fn(loss, where=lists)


@api_boundary
def ntxent(embeddings: ArrayLike, labels: ArrayLike, temperature: ArrayLike = 0.07) -> Array:
    """-log of how much nearer a pair of one label is than pairs of different ones, on average.

    Args:
        embeddings: shape (batch, features), compared by the cosine of their angle.
        labels: integers, shape (batch,).
        temperature: divides the cosines.

    Returns:
        Array of rank 0; NaN where no two labels are equal.

    Source: Chen et al. (2020), arXiv:2002.05709.
    """
    (x,) = floats("ntxent", embeddings)
    y = integers("ntxent", "labels", labels)
    if x.ndim != 2 or y.shape != x.shape[:1]:
        raise ShapeError(f"ntxent: needs (batch, features) and (batch,), got {x.aval}, {y.aval}.")
    tiny = dtypes.finfo(x.dtype).eps
    cosines = cosine_similarity(x[None], x[:, None], epsilon=tiny) / temperature
    alike = y[:, None] == y
    pairs = alike & ~np.eye(y.shape[0], dtype=bool)
    top = mnp.max(stop_gradient_leaf(cosines), 1, keepdims=True, where=pairs | ~alike,
                  initial=-math.inf)  # fmt: skip
    shifted = cosines - mnp.where(top == -math.inf, 0, top)
    others = mnp.sum(mnp.exp(shifted), 1, keepdims=True, where=~alike)
    inside = mnp.where(pairs, shifted, 0)  # the others would reach the logarithm
    log_p = inside - mnp.log(mnp.where(pairs, others + mnp.exp(inside), 1))
    return -mnp.sum(log_p, where=pairs) / mnp.sum(pairs).astype(x.dtype)


@maker
def make_fenchel_young_loss(max_fun: Callable[..., Any]) -> Callable[..., Any]:
    """The loss max_fun(scores) - <targets, scores>, from the conjugate of a regulariser.

    Args:
        max_fun: (scores (n,), *args) -> number; convex.

    Returns:
        (scores (..., n), targets (..., n), *args) -> losses (...).

    Example:
        >>> loss = mgefn.nn.losses.make_fenchel_young_loss(mgefn.nn.logsumexp)
        >>> loss(mnp.array([0.0, 0.0]), mnp.array([1.0, 0.0]))
        Array(0.6931472, dtype=float32)

    Source: Blondel, Martins, Niculae (2020), arXiv:1901.02324.
    """
    if not callable(max_fun):
        raise ArgumentError(f"make_fenchel_young_loss: needs a function, got {max_fun!r}.")

    @api_boundary
    def fenchel_young_loss(
        scores: ArrayLike, targets: ArrayLike, *args: Any, **kwargs: Any
    ) -> Array:
        x, y = floats("fenchel_young_loss", scores, targets)
        rows = x.reshape((-1, x.shape[-1]))
        best = vmap(lambda row: max_fun(row, *args, **kwargs))(rows)
        return best.reshape(x.shape[:-1]) - inner(y, x)

    return fenchel_young_loss


# -- segmentations --------------------------------------------------------------------------------


@api_boundary
def dice_loss(
    predictions: ArrayLike,
    targets: ArrayLike,
    *,
    class_weights: ArrayLike | None = None,
    smooth: ArrayLike = 1.0,
    alpha: ArrayLike = 0.5,
    beta: ArrayLike = 0.5,
    apply_softmax: bool = True,
    reduction: str = "mean",
    ignore_background: bool = False,
    axis: Any = None,
) -> Array:
    """1 - (both + smooth) / (both + alpha * only predicted + beta * only given + smooth).

    Args:
        predictions: shape (batch, *spatial, classes); one class may lack its dimension.
        targets: probabilities, or 0 and 1, of the same shape.
        class_weights: one for each class.
        smooth: keeps the quotient finite where a class is absent.
        alpha, beta: weights of the two kinds of error; 0.5 and 0.5 make it Dice's coefficient.
        apply_softmax: predictions are logits: softmax over the classes, or sigmoid with one
            class. Otherwise they are probabilities, taken as they are.
        reduction: over the classes: "mean", "sum" or "none".
        ignore_background: leave class 0 out.
        axis: dimensions to sum over; None: the spatial ones.

    Returns:
        Array of shape (batch,), or (batch, classes) without reduction.

    Source: Milletari, Navab, Ahmadi (2016), arXiv:1606.04797; Salehi, Erdogmus, Gholipour (2017),
        arXiv:1706.05721.
    """
    return _dice("dice_loss", predictions, targets, class_weights, smooth, alpha, beta,
                 apply_softmax, reduction, ignore_background, axis)  # fmt: skip


def _dice(
    name: str, predictions: Any, targets: Any, class_weights: Any, smooth: Any, alpha: Any,
    beta: Any, apply_softmax: bool, reduction: str, ignore_background: bool, axis: Any,
) -> Any:  # fmt: skip
    p, t = floats(name, predictions, targets)
    if p.ndim == t.ndim - 1:
        p = p[..., None]
    elif t.ndim == p.ndim - 1:
        t = t[..., None]
    same_shape(name, p, t)
    if p.ndim < 2:
        raise ShapeError(f"{name}: needs (batch, *spatial, classes), got {p.aval}.")
    if apply_softmax:
        p = sigmoid(p) if p.shape[-1] == 1 else softmax(p, -1)
    axes = tuple(range(1, p.ndim - 1)) if axis is None else axis
    both, predicted, given = (mnp.sum(v, axes) for v in (p * t, p, t))
    errors = alpha * (predicted - both) + beta * (given - both)
    loss = 1.0 - (both + smooth) / (both + errors + smooth)
    if class_weights is not None:
        loss = loss * mnp.asarray(class_weights)
    if ignore_background and p.shape[-1] > 1:
        loss = loss[..., 1:]
    if reduction not in ("mean", "sum", "none"):
        raise ArgumentError(f"{name}: reduction must be mean, sum or none, got {reduction!r}.")
    if reduction == "none":
        return loss
    return mnp.mean(loss, -1) if reduction == "mean" else mnp.sum(loss, -1)


@api_boundary
def multiclass_generalized_dice_loss(
    predictions: ArrayLike,
    targets: ArrayLike,
    *,
    smooth: ArrayLike = 1.0,
    apply_softmax: bool = True,
    ignore_background: bool = False,
) -> Array:
    """The mean `dice_loss`, classes weighted by 1 / (how often they occur)**2.

    Source: Sudre et al. (2017), arXiv:1707.03237.
    """
    name = "multiclass_generalized_dice_loss"
    p, t = floats(name, predictions, targets)
    same_shape(name, p, t)
    often = mnp.sum(t, tuple(range(t.ndim - 1)))
    weights = 1.0 / (often * often + 1e-7)
    weights = weights / mnp.sum(weights) * weights.shape[0]
    return mnp.mean(_dice(name, p, t, weights, smooth, 0.5, 0.5, apply_softmax, "none",
                          ignore_background, None))  # fmt: skip


@api_boundary
def binary_dice_loss(
    predictions: ArrayLike,
    targets: ArrayLike,
    *,
    smooth: ArrayLike = 1.0,
    apply_sigmoid: bool = True,
) -> Array:
    """`dice_loss` of one class: predictions and targets of shape (batch, *spatial[, 1])."""
    p, t = floats("binary_dice_loss", predictions, targets)
    if p.ndim == t.ndim and p.shape[-1:] != (1,):
        p, t = p[..., None], t[..., None]
    return _dice("binary_dice_loss", p, t, None, smooth, 0.5, 0.5, apply_sigmoid, "mean", False,
                 None)  # fmt: skip
