"""Distances between predicted and given numbers, under the names of optax, MegEngine and MLX."""

from __future__ import annotations

import math
from typing import Any

from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike, Axis
from mgefn.errors import api_boundary
from mgefn.nn.losses.shared import floats, reduced, same_shape

__all__ = [
    "cosine_distance",
    "cosine_similarity",
    "gaussian_nll_loss",
    "huber_loss",
    "l1_loss",
    "l2_loss",
    "log_cosh",
    "margin_ranking_loss",
    "smooth_l1_loss",
    "square_loss",
    "squared_error",
    "triplet_margin_loss",
]


def _errors(name: str, predictions: Any, targets: Any) -> Any:
    if targets is None:
        (p,) = floats(name, predictions)
        return p
    p, t = floats(name, predictions, targets)
    same_shape(name, p, t)
    return p - t


@api_boundary
def squared_error(predictions: ArrayLike, targets: ArrayLike | None = None) -> Array:
    """(predictions - targets)**2, elementwise.

    Args:
        predictions: real.
        targets: of the same shape; None: 0.

    Raises:
        ShapeError: the shapes differ. Broadcasting here is nearly always a mistake.

    Example:
        >>> mgefn.nn.losses.squared_error(mnp.array([1.0, 4.0]), mnp.array([2.0, 2.0]))
        Array([1., 4.], dtype=float32)
    """
    return mnp.square(_errors("squared_error", predictions, targets))


@api_boundary
def l2_loss(predictions: ArrayLike, targets: ArrayLike | None = None) -> Array:
    """Half of `squared_error`, whose derivative is the difference."""
    return 0.5 * mnp.square(_errors("l2_loss", predictions, targets))


@api_boundary
def huber_loss(
    predictions: ArrayLike, targets: ArrayLike | None = None, *, delta: ArrayLike = 1.0
) -> Array:
    """e**2 / 2 for differences e up to delta, continued by straight lines, elementwise.

    Args:
        predictions: real.
        targets: of the same shape; None: 0.
        delta: where the lines begin.

    Example:
        >>> mgefn.nn.losses.huber_loss(mnp.array([0.5, -3.0]))
        Array([0.125, 2.5  ], dtype=float32)

    Source: Huber (1964), Ann. Math. Statist. 35(1), 73-101.
    """
    size = mnp.abs(_errors("huber_loss", predictions, targets))
    near = mnp.minimum(size, delta)
    return 0.5 * near * near + delta * (size - near)


@api_boundary
def log_cosh(predictions: ArrayLike, targets: ArrayLike | None = None) -> Array:
    """log(cosh(predictions - targets)), elementwise, safe from overflow.

    Args:
        predictions: real.
        targets: of the same shape; None: 0.
    """
    e = _errors("log_cosh", predictions, targets)
    return mnp.logaddexp(e, -e) - math.log(2.0)


@api_boundary
def cosine_similarity(
    predictions: ArrayLike,
    targets: ArrayLike,
    *,
    epsilon: ArrayLike = 0.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
) -> Array:
    """The cosine of the angle between vectors.

    Args:
        predictions, targets: real, they broadcast; the vectors lie along axis.
        epsilon: the least square of a length; with 0 a vector of zeros gives NaN.
        axis: one or more dimensions; None: all.
        where: which elements count.

    Example:
        >>> mgefn.nn.losses.cosine_similarity(mnp.array([1.0, 0.0]), mnp.array([3.0, 4.0]))
        Array(0.6, dtype=float32)
    """
    return _cosine("cosine_similarity", predictions, targets, epsilon, axis, where)


def _cosine(name: str, predictions: Any, targets: Any, epsilon: Any, axis: Any, where: Any) -> Any:
    units = []
    for x in floats(name, predictions, targets):
        squares = mnp.sum(x * x, axis, where=where, keepdims=True)
        units.append(x / mnp.sqrt(mnp.maximum(squares, mnp.asarray(epsilon, x.dtype))))
    return mnp.sum(units[0] * units[1], axis, where=where)


@api_boundary
def cosine_distance(
    predictions: ArrayLike,
    targets: ArrayLike,
    *,
    epsilon: ArrayLike = 0.0,
    axis: Axis = -1,
    where: ArrayLike | None = None,
) -> Array:
    """1 - `cosine_similarity`, with its arguments."""
    return 1.0 - _cosine("cosine_distance", predictions, targets, epsilon, axis, where)


@api_boundary
def triplet_margin_loss(
    anchors: ArrayLike,
    positives: ArrayLike,
    negatives: ArrayLike,
    axis: int = -1,
    norm_degree: ArrayLike = 2,
    margin: ArrayLike = 1.0,
    eps: ArrayLike = 1e-6,
) -> Array:
    """max(d(anchor, positive) - d(anchor, negative) + margin, 0), d a norm of differences.

    Args:
        anchors, positives, negatives: real, of one shape; vectors along axis.
        axis: their dimension.
        norm_degree: p of d = (sum(|e|**p) + eps)**(1 / p).
        margin: by how much further the negative should be.
        eps: keeps the derivative finite where the vectors are equal.

    Returns:
        Array of the shape without axis.

    Source: Schroff, Kalenichenko, Philbin (2015), arXiv:1503.03832.
    """
    name = "triplet_margin_loss"
    a, p, n = floats(name, anchors, positives, negatives)
    same_shape(name, a, p)
    same_shape(name, a, n)

    degree = mnp.asarray(norm_degree, a.dtype)

    def distance(e: Any) -> Any:
        # abs has no derivative that an even power would need.
        even = isinstance(norm_degree, int) and norm_degree % 2 == 0
        powers = mnp.power(e if even else mnp.abs(e), norm_degree)
        return mnp.power(mnp.sum(powers, axis) + eps, mnp.reciprocal(degree))

    return mnp.maximum(distance(a - p) - distance(a - n) + margin, 0)


@api_boundary
def l1_loss(pred: ArrayLike, label: ArrayLike, reduction: str = "mean") -> Array:
    """The mean of |pred - label|.

    Args:
        pred, label: real, of one shape.
        reduction: "mean", "sum" or "none".
    """
    return reduced("l1_loss", mnp.abs(_errors("l1_loss", pred, label)), reduction)


@api_boundary
def square_loss(pred: ArrayLike, label: ArrayLike, reduction: str = "mean") -> Array:
    """The mean of (pred - label)**2.

    Args:
        pred, label: real, of one shape.
        reduction: "mean", "sum" or "none".
    """
    return reduced("square_loss", mnp.square(_errors("square_loss", pred, label)), reduction)


@api_boundary
def smooth_l1_loss(
    predictions: ArrayLike, targets: ArrayLike, beta: float = 1.0, reduction: str = "mean"
) -> Array:
    """e**2 / (2 * beta) for differences e below beta, |e| - beta / 2 above.

    Args:
        predictions, targets: real, of one shape.
        beta: where the lines begin.
        reduction: "mean", "sum" or "none".
    """
    size = mnp.abs(_errors("smooth_l1_loss", predictions, targets))
    loss = mnp.where(size < beta, 0.5 * size * size / beta, size - 0.5 * beta)
    return reduced("smooth_l1_loss", loss, reduction)


@api_boundary
def gaussian_nll_loss(
    inputs: ArrayLike,
    targets: ArrayLike,
    vars: ArrayLike,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Array:
    """-log of the normal density of targets, with means and variances.

    Args:
        inputs: the means.
        targets: of the same shape.
        vars: the variances, which broadcast.
        full: add the constant log(2 pi) / 2.
        eps: the least variance.
        reduction: "mean", "sum" or "none".
    """
    name = "gaussian_nll_loss"
    mean, y, var = floats(name, inputs, targets, vars)
    same_shape(name, mean, y)
    var = mnp.maximum(var, eps)
    loss = 0.5 * (mnp.log(var) + mnp.square(y - mean) / var)
    return reduced(name, loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)


@api_boundary
def margin_ranking_loss(
    inputs1: ArrayLike,
    inputs2: ArrayLike,
    targets: ArrayLike,
    margin: float = 0.0,
    reduction: str = "none",
) -> Array:
    """max(0, -targets * (inputs1 - inputs2) + margin).

    Args:
        inputs1, inputs2: scores, of one shape.
        targets: 1 where the first should be higher, -1 where the second.
        margin: by how much.
        reduction: "mean", "sum" or "none".
    """
    name = "margin_ranking_loss"
    first, second, sign = floats(name, inputs1, inputs2, targets)
    same_shape(name, first, second)
    return reduced(name, mnp.maximum(0, margin - sign * (first - second)), reduction)
