"""Losses, under the names and arguments of optax.losses; with those of MegEngine and MLX beside.

This file only names things: `regression` has distances of numbers, `classification` those of scores
and classes, `structured` those of sequences, rankings, segmentations and pairs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mgefn.errors import MissingNameError
from mgefn.nn.losses.classification import (
    binary_cross_entropy,
    convex_kl_divergence,
    cross_entropy,
    generalized_kl_divergence,
    hinge_loss,
    kl_divergence,
    kl_divergence_with_log_targets,
    multiclass_hinge_loss,
    multiclass_perceptron_loss,
    multiclass_sparsemax_loss,
    nll_loss,
    perceptron_loss,
    poly_loss_cross_entropy,
    safe_softmax_cross_entropy,
    sigmoid_binary_cross_entropy,
    sigmoid_focal_loss,
    smooth_labels,
    softmax_cross_entropy,
    softmax_cross_entropy_with_integer_labels,
    sparsemax_loss,
)
from mgefn.nn.losses.regression import (
    cosine_distance,
    cosine_similarity,
    gaussian_nll_loss,
    huber_loss,
    l1_loss,
    l2_loss,
    log_cosh,
    margin_ranking_loss,
    smooth_l1_loss,
    square_loss,
    squared_error,
    triplet_margin_loss,
)
from mgefn.nn.losses.structured import (
    binary_dice_loss,
    ctc_loss,
    ctc_loss_with_forward_probs,
    dice_loss,
    make_fenchel_young_loss,
    multiclass_generalized_dice_loss,
    ntxent,
    ranking_softmax_loss,
)

__all__ = [
    "binary_cross_entropy",
    "binary_dice_loss",
    "convex_kl_divergence",
    "cosine_distance",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "ctc_loss_with_forward_probs",
    "dice_loss",
    "gaussian_nll_loss",
    "generalized_kl_divergence",
    "hinge_loss",
    "huber_loss",
    "kl_divergence",
    "kl_divergence_with_log_targets",
    "l1_loss",
    "l2_loss",
    "log_cosh",
    "make_fenchel_young_loss",
    "margin_ranking_loss",
    "multiclass_generalized_dice_loss",
    "multiclass_hinge_loss",
    "multiclass_perceptron_loss",
    "multiclass_sparsemax_loss",
    "nll_loss",
    "ntxent",
    "perceptron_loss",
    "poly_loss_cross_entropy",
    "ranking_softmax_loss",
    "safe_softmax_cross_entropy",
    "sigmoid_binary_cross_entropy",
    "sigmoid_focal_loss",
    "smooth_l1_loss",
    "smooth_labels",
    "softmax_cross_entropy",
    "softmax_cross_entropy_with_integer_labels",
    "sparsemax_loss",
    "square_loss",
    "squared_error",
    "triplet_margin_loss",
]


if not TYPE_CHECKING:  # type checkers take a module with __getattr__ to have every name

    def __getattr__(name: str) -> Any:
        raise MissingNameError(__name__, name, __all__)
