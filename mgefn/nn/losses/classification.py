"""Losses of scores and classes, under the names of optax, MegEngine and MLX.

Logits are scores before softmax or sigmoid. Functions with optax's names give one number for each
example; those of MegEngine and MLX (`cross_entropy`, `binary_cross_entropy`, `nll_loss`) reduce.
"""

from __future__ import annotations

import math
import operator
from typing import Any

from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike, Axis
from mgefn.errors import ShapeError, api_boundary
from mgefn.nn.checks import check_range
from mgefn.nn.functions import log_sigmoid, log_softmax, one_hot, softmax, sparse_plus
from mgefn.nn.losses.shared import floats, inner, integers, reduced, same_shape
from mgefn.ops.elementwise import stop_gradient_leaf
from mgefn.ops.reductions import logsumexp
from mgefn.ops.shaping import normalize_axes, normalize_axis

__all__ = [
    "binary_cross_entropy",
    "convex_kl_divergence",
    "cross_entropy",
    "generalized_kl_divergence",
    "hinge_loss",
    "kl_divergence",
    "kl_divergence_with_log_targets",
    "multiclass_hinge_loss",
    "multiclass_perceptron_loss",
    "multiclass_sparsemax_loss",
    "nll_loss",
    "perceptron_loss",
    "poly_loss_cross_entropy",
    "safe_softmax_cross_entropy",
    "sigmoid_binary_cross_entropy",
    "sigmoid_focal_loss",
    "smooth_labels",
    "softmax_cross_entropy",
    "softmax_cross_entropy_with_integer_labels",
    "sparsemax_loss",
]


def _mask(where: Any, x: Any, axis: Any) -> Any:
    """Booleans of the rank of x; those for whole rows get the missing dimensions."""
    if where is None:
        return None
    mask = mnp.asarray(where)
    return mask if mask.ndim == x.ndim else mnp.expand_dims(mask, axis)


# -- two classes ----------------------------------------------------------------------------------


@api_boundary
def sigmoid_binary_cross_entropy(logits: ArrayLike, labels: ArrayLike) -> Array:
    """-labels * log(sigmoid(logits)) - (1 - labels) * log(1 - sigmoid(logits)), elementwise.

    Args:
        logits: real.
        labels: probabilities in [0, 1], or classes 0 and 1; they broadcast with logits.

    Example:
        >>> mgefn.nn.losses.sigmoid_binary_cross_entropy(mnp.array([0.0]), mnp.array([1.0]))
        Array([0.6931472], dtype=float32)
    """
    x, y = _logits_and_labels("sigmoid_binary_cross_entropy", logits, labels)
    return _binary(x, y)


def _logits_and_labels(name: str, logits: Any, labels: Any) -> tuple[Any, Any]:
    """Labels in the dtype of logits: classes as integers or booleans do not widen it."""
    (x,) = floats(name, logits)
    return x, mnp.asarray(labels).astype(x.dtype)


def _binary(x: Any, y: Any) -> Any:
    return -y * log_sigmoid(x) - (1.0 - y) * log_sigmoid(-x)


@api_boundary
def sigmoid_focal_loss(
    logits: ArrayLike,
    labels: ArrayLike,
    *,
    alpha: ArrayLike | None = None,
    gamma: ArrayLike = 2.0,
) -> Array:
    """`sigmoid_binary_cross_entropy` times (1 - p)**gamma, p the probability of the right class.

    Args:
        logits: real.
        labels: probabilities in [0, 1], or classes 0 and 1.
        alpha: weight of class 1, and 1 - alpha that of class 0; None: no weights.
        gamma: how much less the easy examples count.

    Source: Lin et al. (2017), arXiv:1708.02002.
    """
    x, y = _logits_and_labels("sigmoid_focal_loss", logits, labels)
    # log of 1 - p as a sum of exponentials: exact also where p is near 1.
    parts = mnp.stack([log_sigmoid(x) + 0 * y, log_sigmoid(-x) + 0 * y], -1)
    wrong = logsumexp(parts, -1, b=mnp.stack([1 - y + 0 * x, y + 0 * x], -1))
    loss = _binary(x, y) * mnp.exp(gamma * wrong)
    return loss if alpha is None else (alpha * y + (1.0 - alpha) * (1.0 - y)) * loss


@api_boundary
def binary_cross_entropy(
    pred: ArrayLike, label: ArrayLike, with_logits: bool = True, reduction: str = "mean"
) -> Array:
    """The mean of -label * log(p) - (1 - label) * log(1 - p).

    Args:
        pred: logits, or probabilities p.
        label: of the same shape: probabilities, or classes 0 and 1.
        with_logits: whether pred are logits.
        reduction: "mean", "sum" or "none".
    """
    x, y = _logits_and_labels("binary_cross_entropy", pred, label)
    same_shape("binary_cross_entropy", x, y)
    if with_logits:
        return reduced("binary_cross_entropy", _binary(x, y), reduction)
    # A term that a label of 0 or 1 leaves out does not count where its logarithm is -inf. Elsewhere
    # it stays, because of its derivative in the label.
    first = y * mnp.log(mnp.where((y == 0) & (x == 0), 1, x))
    second = (1 - y) * mnp.log1p(-mnp.where((y == 1) & (x == 1), 0, x))
    return reduced("binary_cross_entropy", -(first + second), reduction)


@api_boundary
def hinge_loss(predictor_outputs: ArrayLike, targets: ArrayLike) -> Array:
    """max(0, 1 - outputs * targets), elementwise; targets are -1 or 1."""
    x, y = floats("hinge_loss", predictor_outputs, targets)
    return mnp.maximum(0, 1 - x * y)


@api_boundary
def perceptron_loss(predictor_outputs: ArrayLike, targets: ArrayLike) -> Array:
    """max(0, -outputs * targets), elementwise; targets are -1 or 1, of the shape of outputs."""
    x, y = floats("perceptron_loss", predictor_outputs, targets)
    same_shape("perceptron_loss", x, y)
    return mnp.maximum(0, -x * y)


@api_boundary
def sparsemax_loss(logits: ArrayLike, labels: ArrayLike) -> Array:
    """The loss of sparsemax with two classes, elementwise.

    Args:
        logits: real.
        labels: 0 or 1.

    Source: Blondel, Martins, Niculae (2019), arXiv:1901.02324.
    """
    (x,) = floats("sparsemax_loss", logits)
    return sparse_plus(mnp.where(mnp.asarray(labels) != 0, -x, x))


# -- many classes ---------------------------------------------------------------------------------


@api_boundary
def softmax_cross_entropy(
    logits: ArrayLike, labels: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None
) -> Array:
    """-sum(labels * log_softmax(logits)) over the classes.

    Args:
        logits: real, the classes along axis.
        labels: probabilities of the classes; they broadcast with logits.
        axis: one or more dimensions; None: all.
        where: which classes, or with one dimension less which rows, count.

    Returns:
        Array of the shape of logits without axis. A label of 0 at a logit of -inf gives NaN, here
        as in optax; `safe_softmax_cross_entropy` does not.

    Example:
        >>> labels = mgefn.nn.one_hot(mnp.array([1]), 2)
        >>> mgefn.nn.losses.softmax_cross_entropy(mnp.array([[0.0, 0.0]]), labels)
        Array([0.6931472], dtype=float32)
    """
    x, y = floats("softmax_cross_entropy", logits, labels)
    mask = _mask(where, x, axis)
    return -mnp.sum(y * _kept(log_softmax(x, axis, mask), mask), axis, where=mask)


def _kept(log_p: Any, mask: Any) -> Any:
    """Without the -inf of classes left out, whose product with a label of 0 were a NaN."""
    return log_p if mask is None else mnp.where(mask, log_p, 0)


@api_boundary
def safe_softmax_cross_entropy(logits: ArrayLike, labels: ArrayLike) -> Array:
    """`softmax_cross_entropy` in which a label of 0 counts nothing, also at a logit of -inf."""
    x, y = floats("safe_softmax_cross_entropy", logits, labels)
    log_p = log_softmax(x, -1)
    # Only where the product would be 0 * -inf: elsewhere the label has a derivative, also at 0.
    unused = (y == 0) & (log_p == -math.inf)
    terms = mnp.where(unused, 0, y * mnp.where(unused, 0, log_p))
    return -mnp.sum(terms, -1)


@api_boundary
def softmax_cross_entropy_with_integer_labels(
    logits: ArrayLike,
    labels: ArrayLike,
    axis: int | tuple[int, ...] = -1,
    where: ArrayLike | None = None,
) -> Array:
    """-log_softmax(logits) at the right class.

    Args:
        logits: real, the classes along axis.
        labels: integers, of the shape of logits without axis. Negative ones count from the end.
        axis: one dimension, or several, whose classes are numbered in row-major order.
        where: which classes, or with one dimension less which rows, count; rows without a class
            give 0, whatever their label.

    Raises:
        IndexOutOfBoundsError: a label that counts is no class. Only where labels are known: under
            jit and vmap such a row gives NaN, as in optax.

    Example:
        >>> logits = mnp.array([[0.0, 0.0], [0.0, 100.0]])
        >>> mgefn.nn.losses.softmax_cross_entropy_with_integer_labels(logits, mnp.array([0, 1]))
        Array([0.6931472, 0.       ], dtype=float32)
    """
    name = "softmax_cross_entropy_with_integer_labels"
    (x,) = floats(name, logits)
    y = integers(name, "labels", labels)
    mask = _mask(where, x, axis)
    if mask is not None:
        mask = mnp.broadcast_to(mask, x.shape)
    if isinstance(axis, tuple):
        axes = normalize_axes(name, axis, x.ndim)
        n = len(axes)
        ends = tuple(range(-n, 0))
        # In the order in which they are given: it numbers the classes.
        order = tuple(operator.index(a) % x.ndim for a in axis)
        rest = [m for d, m in enumerate(x.shape) if d not in axes]
        x = mnp.moveaxis(x, order, ends).reshape((*rest, -1))
        if mask is not None:
            mask = mnp.moveaxis(mask, order, ends).reshape((*rest, -1))
        axis = -1
    i = normalize_axis(name, axis, x.ndim)
    rows = x.shape[:i] + x.shape[i + 1 :]
    if y.shape != rows:
        raise ShapeError(f"{name}: labels must have shape {rows}, got {y.aval}.")
    counted = None if mask is None else mnp.any(mask, i)
    check_range(name, "labels", y, x.shape[i], "classes", counted, _OR_WHERE)
    right = mnp.squeeze(mnp.take_along_axis(x, mnp.expand_dims(y, i), i), i)
    loss = logsumexp(x, i, where=mask) - right
    return loss if mask is None else mnp.where(counted, loss, 0)


_OR_WHERE = ", or leave these rows out with where=labels >= 0 or the like"


@api_boundary
def cross_entropy(
    pred: ArrayLike,
    label: ArrayLike,
    axis: int = 1,
    with_logits: bool = True,
    label_smooth: float = 0,
    reduction: str = "mean",
) -> Array:
    """The mean of -log of the probability of the right class.

    Args:
        pred: logits or probabilities, the classes along axis.
        label: integers, of the shape of pred without axis. Negative ones count from the end.
        axis: the dimension of classes.
        with_logits: whether pred are logits.
        label_smooth: this share of each label is spread evenly over all classes.
        reduction: "mean", "sum" or "none".

    Raises:
        IndexOutOfBoundsError: a label is no class. Only where they are known: under jit and vmap
            such a row gives NaN.

    Example:
        >>> mgefn.nn.losses.cross_entropy(mnp.zeros((2, 4)), mnp.array([0, 3]))
        Array(1.3862944, dtype=float32)
    """
    (x,) = floats("cross_entropy", pred)
    y = integers("cross_entropy", "label", label)
    i = normalize_axis("cross_entropy", axis, x.ndim)
    rows = x.shape[:i] + x.shape[i + 1 :]
    if y.shape != rows:
        raise ShapeError(f"cross_entropy: label must have shape {rows}, got {y.aval}.")
    check_range("cross_entropy", "label", y, x.shape[i], "classes")
    log_p = log_softmax(x, i) if with_logits else mnp.log(x)
    loss = -mnp.squeeze(mnp.take_along_axis(log_p, mnp.expand_dims(y, i), i), i)
    if label_smooth:
        loss = (1 - label_smooth) * loss - label_smooth * mnp.mean(log_p, i)
    return reduced("cross_entropy", loss, reduction)


@api_boundary
def nll_loss(
    inputs: ArrayLike, targets: ArrayLike, axis: int = -1, reduction: str = "none"
) -> Array:
    """-inputs at the right class, inputs being logarithms of probabilities.

    Args:
        inputs: real, the classes along axis.
        targets: integers, of the shape of inputs without axis. Negative ones count from the end.
        axis: the dimension of classes.
        reduction: "mean", "sum" or "none".

    Raises:
        ShapeError: targets have another shape.
        IndexOutOfBoundsError: a target is no class. Only where they are known: under jit and vmap
            such a row gives NaN.
    """
    (x,) = floats("nll_loss", inputs)
    y = integers("nll_loss", "targets", targets)
    i = normalize_axis("nll_loss", axis, x.ndim)
    rows = x.shape[:i] + x.shape[i + 1 :]
    if y.shape != rows:
        raise ShapeError(f"nll_loss: targets must have shape {rows}, got {y.aval}. Reshape them.")
    check_range("nll_loss", "targets", y, x.shape[i], "classes")
    right = mnp.take_along_axis(x, mnp.expand_dims(y, i), i)
    return reduced("nll_loss", -mnp.squeeze(right, i), reduction)


@api_boundary
def smooth_labels(
    labels: ArrayLike, alpha: ArrayLike, *, axis: Axis = -1, where: ArrayLike | None = None
) -> Array:
    """(1 - alpha) * labels + alpha / classes.

    Args:
        labels: probabilities of classes along axis, such as `one_hot` gives.
        alpha: in [0, 1].
        axis: one or more dimensions; None: all.
        where: which classes count.

    Source: Müller, Kornblith, Hinton (2019), arXiv:1906.02629.
    """
    (y,) = floats("smooth_labels", labels)
    if where is None:
        axes = normalize_axes("smooth_labels", axis, y.ndim)
        count: Any = math.prod(y.shape[d] for d in axes)
    else:
        count = mnp.sum(mnp.asarray(where), axis, keepdims=True)
    return (1.0 - alpha) * y + alpha / count


@api_boundary
def poly_loss_cross_entropy(
    logits: ArrayLike,
    labels: ArrayLike,
    *,
    epsilon: ArrayLike = 2.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
) -> Array:
    """`softmax_cross_entropy` plus epsilon * sum(labels * (1 - softmax(logits))).

    Args:
        logits, labels, axis, where: as for `softmax_cross_entropy`.
        epsilon: weight of the second term.

    Source: Leng et al. (2022), arXiv:2204.12511.
    """
    x, y = floats("poly_loss_cross_entropy", logits, labels)
    mask = _mask(where, x, axis)
    log_p = _kept(log_softmax(x, axis, mask), mask)
    wrong = epsilon * (1 - softmax(x, axis, mask))
    return mnp.sum(y * (wrong - log_p), axis, where=mask)


@api_boundary
def multiclass_hinge_loss(scores: ArrayLike, labels: ArrayLike) -> Array:
    """max over classes of (score + 1 for wrong ones) minus the score of the right class.

    Args:
        scores: real, shape (..., classes).
        labels: integers, shape (...). One that is no class counts as if no score were right.
    """
    x, right = _scores("multiclass_hinge_loss", scores, labels)
    return mnp.max(x + 1.0 - right, -1) - inner(x, right)


@api_boundary
def multiclass_perceptron_loss(scores: ArrayLike, labels: ArrayLike) -> Array:
    """The largest score minus that of the right class; arguments of `multiclass_hinge_loss`."""
    x, right = _scores("multiclass_perceptron_loss", scores, labels)
    return mnp.max(x, -1) - inner(x, right)


def _scores(name: str, scores: Any, labels: Any) -> tuple[Any, Any]:
    (x,) = floats(name, scores)
    y = integers(name, "labels", labels)
    if not x.ndim or y.shape != x.shape[:-1]:
        raise ShapeError(f"{name}: needs (..., classes) and (...), got {x.aval} and {y.aval}.")
    return x, one_hot(y, x.shape[-1], dtype=x.dtype)


@api_boundary
def multiclass_sparsemax_loss(scores: ArrayLike, labels: ArrayLike) -> Array:
    """The loss whose derivative is sparsemax(scores) minus the right class.

    Args:
        scores: real, shape (..., classes).
        labels: integers, shape (...).

    Source: Martins, Astudillo (2016), arXiv:1602.02068.
    """
    x, right = _scores("multiclass_sparsemax_loss", scores, labels)
    # The nearest point of the simplex; the loss has its derivative with this held fixed.
    fixed = stop_gradient_leaf(x)
    ordered = mnp.flip(mnp.sort(fixed, -1), -1)
    counts = mnp.arange(1, x.shape[-1] + 1)
    excess = mnp.cumsum(ordered, -1) - 1
    support = mnp.sum(ordered * counts > excess, -1, keepdims=True)
    threshold = mnp.take_along_axis(excess, support - 1, -1) / support.astype(x.dtype)
    p = mnp.maximum(fixed - threshold, 0)
    return inner(p - right, x) + 0.5 * (1.0 - inner(p, p))


# -- divergences ----------------------------------------------------------------------------------


@api_boundary
def kl_divergence(
    log_predictions: ArrayLike,
    targets: ArrayLike,
    axis: Axis = -1,
    where: ArrayLike | None = None,
) -> Array:
    """sum(targets * (log(targets) - log_predictions)) over the classes.

    Args:
        log_predictions: logarithms of probabilities.
        targets: probabilities; a 0 counts 0.
        axis: one or more dimensions; None: all.
        where: which classes count.

    Source: Kullback, Leibler (1951), Ann. Math. Statist. 22(1), 79-86.
    """
    return _kl("kl_divergence", log_predictions, targets, axis, where)


def _kl(name: str, log_predictions: Any, targets: Any, axis: Any, where: Any) -> Any:
    log_p, q = floats(name, log_predictions, targets)
    log_q = mnp.where(q == 0, 0, mnp.log(mnp.where(q == 0, 1, q)))
    return mnp.sum(q * (log_q - log_p), axis, where=where)


@api_boundary
def kl_divergence_with_log_targets(
    log_predictions: ArrayLike,
    log_targets: ArrayLike,
    axis: Axis = -1,
    where: ArrayLike | None = None,
) -> Array:
    """`kl_divergence` of targets that are given by their logarithms."""
    log_p, log_q = floats("kl_divergence_with_log_targets", log_predictions, log_targets)
    return mnp.sum(mnp.exp(log_q) * (log_q - log_p), axis, where=where)


@api_boundary
def generalized_kl_divergence(
    log_predictions: ArrayLike,
    targets: ArrayLike,
    axis: Axis = -1,
    where: ArrayLike | None = None,
) -> Array:
    """`kl_divergence` plus sum(predictions - targets): convex also where the sums are not 1."""
    return _generalized("generalized_kl_divergence", log_predictions, targets, axis, where)


def _generalized(name: str, log_predictions: Any, targets: Any, axis: Any, where: Any) -> Any:
    log_p, q = floats(name, log_predictions, targets)
    more = mnp.sum(mnp.exp(log_p) - q, axis, where=where)
    return _kl(name, log_p, q, axis, where) + more


@api_boundary
def convex_kl_divergence(
    log_predictions: ArrayLike,
    targets: ArrayLike,
    axis: Axis = -1,
    where: ArrayLike | None = None,
) -> Array:
    """The former name of `generalized_kl_divergence`."""
    return _generalized("convex_kl_divergence", log_predictions, targets, axis, where)
