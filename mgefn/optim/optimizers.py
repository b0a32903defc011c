"""Optimizers ready for use, but for Adam's family: descent, by layer, by size, by sign."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mgefn.core.array_methods import DTypeLike
from mgefn.errors import ArgumentError
from mgefn.optim.accumulating import ema, trace
from mgefn.optim.adding import add_decayed_weights, add_noise
from mgefn.optim.base import (
    GradientTransformation,
    GradientTransformationExtraArgs,
    MaskOrFn,
    ScalarOrSchedule,
    identity,
    named,
)
from mgefn.optim.clipping import clip_by_block_rms
from mgefn.optim.combining import chain, masked
from mgefn.optim.making import maker
from mgefn.optim.root_mean_squares import (
    scale_by_adadelta,
    scale_by_factored_rms,
    scale_by_rms,
    scale_by_rss,
    scale_by_sm3,
    scale_by_stddev,
)
from mgefn.optim.scaling import (
    scale,
    scale_by_learning_rate,
    scale_by_optimistic_gradient,
    scale_by_param_block_rms,
    scale_by_polyak,
    scale_by_rprop,
    scale_by_sign,
    scale_by_trust_ratio,
)


@maker
def sgd(
    learning_rate: ScalarOrSchedule,
    momentum: float | None = None,
    nesterov: bool = False,
    accumulator_dtype: DTypeLike | None = None,
) -> GradientTransformationExtraArgs:
    """Stochastic gradient descent, with momentum where it is given.

    Args:
        learning_rate: a number or a schedule.
        momentum, nesterov, accumulator_dtype: as for `trace`.
    """
    return named(
        "sgd",
        chain(
            identity() if momentum is None else trace(momentum, nesterov, accumulator_dtype),
            scale_by_learning_rate(learning_rate),
        ),
    )


@maker
def noisy_sgd(
    learning_rate: ScalarOrSchedule,
    eta: float = 0.01,
    gamma: float = 0.55,
    key: Any = None,
    *,
    seed: Any = None,
) -> GradientTransformationExtraArgs:
    """Descent with normal noise that falls. Arguments as for `add_noise`.

    Source: Neelakantan et al. (2015), arXiv:1511.06807.
    """
    return named(
        "noisy_sgd",
        chain(add_noise(eta, gamma, key, seed=seed), scale_by_learning_rate(learning_rate)),
    )


@maker
def sign_sgd(learning_rate: ScalarOrSchedule) -> GradientTransformationExtraArgs:
    """Steps by the sign of the gradient. Source: Bernstein et al. (2018), arXiv:1802.04434."""
    return named("sign_sgd", chain(scale_by_sign(), scale_by_learning_rate(learning_rate)))


@maker
def signum(
    learning_rate: ScalarOrSchedule,
    beta: float = 0.9,
    accumulator_dtype: DTypeLike | None = None,
) -> GradientTransformationExtraArgs:
    """Steps by the sign of the averaged gradient.

    Args:
        learning_rate: a number or a schedule.
        beta: decay of the average.
        accumulator_dtype: dtype of the average; None: that of the params.

    Source: Bernstein et al. (2018), arXiv:1802.04434.
    """
    return named(
        "signum",
        chain(
            ema(beta, True, accumulator_dtype),
            scale_by_sign(),
            scale_by_learning_rate(learning_rate),
        ),
    )


@maker
def optimistic_gradient_descent(
    learning_rate: ScalarOrSchedule, alpha: ScalarOrSchedule = 1.0, beta: ScalarOrSchedule = 1.0
) -> GradientTransformationExtraArgs:
    """Descent that expects the gradient's change, for games.

    Arguments as for `scale_by_optimistic_gradient`.
    """
    return named(
        "optimistic_gradient_descent",
        chain(scale_by_optimistic_gradient(alpha, beta), scale_by_learning_rate(learning_rate)),
    )


@maker
def polyak_sgd(
    max_learning_rate: float = 1.0,
    scaling: ScalarOrSchedule = 1.0,
    f_min: float = 0.0,
    eps: float = 0.0,
    variant: str = "sps",
) -> GradientTransformationExtraArgs:
    """Descent with Polyak's step, from the loss: `update(..., value=loss)`.

    Args:
        max_learning_rate, f_min, eps, variant: as for `scale_by_polyak`.
        scaling: factor of the step, a number or a schedule.
    """
    return named(
        "polyak_sgd", chain(sgd(scaling), scale_by_polyak(f_min, max_learning_rate, eps, variant))
    )


@maker
def rprop(
    learning_rate: float,
    eta_minus: float = 0.5,
    eta_plus: float = 1.2,
    min_step_size: float = 1e-6,
    max_step_size: float = 50.0,
) -> GradientTransformationExtraArgs:
    """Resilient propagation, for gradients of all the data. Arguments as for `scale_by_rprop`."""
    return named(
        "rprop",
        chain(
            scale_by_rprop(learning_rate, eta_minus, eta_plus, min_step_size, max_step_size),
            scale(-1.0),
        ),
    )


# -- by size ---------------------------------------------------------------------------------------


@maker
def adagrad(
    learning_rate: ScalarOrSchedule, initial_accumulator_value: float = 0.1, eps: float = 1e-7
) -> GradientTransformationExtraArgs:
    """Steps divided by the root of the sum of squares so far. Arguments as for `scale_by_rss`.

    Source: Duchi, Hazan, Singer (2011), JMLR 12, 2121-2159.
    """
    return named(
        "adagrad",
        chain(scale_by_rss(initial_accumulator_value, eps), scale_by_learning_rate(learning_rate)),
    )


@maker
def adadelta(
    learning_rate: ScalarOrSchedule | None = None,
    rho: float = 0.9,
    eps: float = 1e-6,
    weight_decay: ScalarOrSchedule = 0.0,
    weight_decay_mask: MaskOrFn | None = None,
) -> GradientTransformationExtraArgs:
    """Steps in the size of former steps. Arguments as for `scale_by_adadelta`.

    Source: Zeiler (2012), arXiv:1212.5701.
    """
    return named(
        "adadelta",
        chain(
            add_decayed_weights(weight_decay, weight_decay_mask),
            scale_by_adadelta(rho, eps),
            scale_by_learning_rate(learning_rate),
        ),
    )


@maker
def rmsprop(
    learning_rate: ScalarOrSchedule,
    decay: float = 0.9,
    eps: float = 1e-8,
    initial_scale: float = 0.0,
    eps_in_sqrt: bool = True,
    centered: bool = False,
    momentum: float | None = None,
    nesterov: bool = False,
    bias_correction: bool = False,
) -> GradientTransformationExtraArgs:
    """Steps divided by the root of the averaged square.

    Args:
        learning_rate: a number or a schedule.
        decay, eps, initial_scale, eps_in_sqrt, bias_correction: as for `scale_by_rms`.
        centered: whether to divide by the standard deviation instead.
        momentum, nesterov: as for `trace`; None: no momentum.

    Source: Tieleman, Hinton (2012), Neural Networks for Machine Learning, lecture 6.5.
    """
    kind = scale_by_stddev if centered else scale_by_rms
    return named(
        "rmsprop",
        chain(
            kind(decay, eps, initial_scale, eps_in_sqrt, bias_correction),
            scale_by_learning_rate(learning_rate),
            identity() if momentum is None else trace(momentum, nesterov),
        ),
    )


@maker
def adafactor(
    learning_rate: ScalarOrSchedule | None = None,
    min_dim_size_to_factor: int = 128,
    decay_rate: float = 0.8,
    decay_offset: int = 0,
    multiply_by_parameter_scale: bool = True,
    clipping_threshold: float | None = 1.0,
    momentum: float | None = None,
    dtype_momentum: DTypeLike = np.float32,
    weight_decay_rate: ScalarOrSchedule | None = None,
    eps: float = 1e-30,
    factored: bool = True,
    weight_decay_mask: MaskOrFn | None = None,
) -> GradientTransformationExtraArgs:
    """Adafactor: of the squares of a matrix it keeps the means of rows and of columns.

    Args:
        learning_rate: a number or a schedule; None: no factor but the params' size.
        min_dim_size_to_factor, decay_rate, eps, factored: as for `scale_by_factored_rms`.
        decay_offset: number of the first step, for a run that goes on.
        multiply_by_parameter_scale: whether steps are scaled by the size of their params.
        clipping_threshold: bound of a leaf's root of the mean square; None: no bound.
        momentum: decay of averaged updates; None: no average.
        dtype_momentum: dtype of that average.
        weight_decay_rate: share of the params taken off at every step; None: nothing.
        weight_decay_mask: as in `add_decayed_weights`.

    Source: Shazeer, Stern (2018), arXiv:1804.04235.
    """
    parts: list[GradientTransformation] = [
        scale_by_factored_rms(factored, decay_rate, decay_offset, min_dim_size_to_factor, eps)
    ]
    if clipping_threshold is not None:
        parts.append(clip_by_block_rms(clipping_threshold))
    if learning_rate is not None:
        parts.append(scale_by_learning_rate(learning_rate, flip_sign=False))
    if multiply_by_parameter_scale:
        parts.append(scale_by_param_block_rms())
    if momentum is not None:
        parts.append(ema(momentum, debias=False, accumulator_dtype=dtype_momentum))
    if weight_decay_rate is not None:
        parts.append(add_decayed_weights(weight_decay_rate, weight_decay_mask))
    return named("adafactor", chain(*parts, scale_by_learning_rate(1)))


@maker
def sm3(learning_rate: float, momentum: float = 0.9) -> GradientTransformationExtraArgs:
    """Adagrad that keeps only the largest sum along each dimension.

    Source: Anil, Gupta, Koren, Singer (2019), arXiv:1901.11150.
    """
    return named("sm3", chain(scale_by_sm3(momentum), scale(-learning_rate)))


# -- by layer --------------------------------------------------------------------------------------


@maker
def lars(
    learning_rate: ScalarOrSchedule,
    weight_decay: ScalarOrSchedule = 0.0,
    weight_decay_mask: MaskOrFn | None = True,
    trust_coefficient: float = 0.001,
    eps: float = 0.0,
    trust_ratio_mask: MaskOrFn | None = True,
    momentum: float = 0.9,
    nesterov: bool = False,
) -> GradientTransformationExtraArgs:
    """Momentum with each leaf's step scaled to the norm of its params, for large batches.

    Args:
        learning_rate: a number or a schedule.
        weight_decay, weight_decay_mask: as in `add_decayed_weights`.
        trust_coefficient, eps: as in `scale_by_trust_ratio`.
        trust_ratio_mask: which leaves are scaled.
        momentum, nesterov: as in `trace`.

    Source: You, Gitman, Ginsburg (2017), arXiv:1708.03888.
    """
    return named(
        "lars",
        chain(
            add_decayed_weights(weight_decay, weight_decay_mask),
            masked(
                scale_by_trust_ratio(trust_coefficient=trust_coefficient, eps=eps), trust_ratio_mask
            ),
            scale_by_learning_rate(learning_rate),
            trace(momentum, nesterov),
        ),
    )


@maker
def fromage(learning_rate: float, min_norm: float = 1e-6) -> GradientTransformationExtraArgs:
    """Steps relative to the size of each leaf, which then shrinks a little.

    Args:
        learning_rate: a number.
        min_norm: least norm of params and of gradients.

    Source: Bernstein, Vahdat, Yue, Liu (2020), arXiv:2002.03432.
    """
    if callable(learning_rate):
        schedule: Callable[..., Any] = learning_rate
        raise ArgumentError(
            f"fromage: learning_rate must be a number, got the function {schedule!r}. Use "
            "inject_hyperparams(fromage) for a schedule."
        )
    shrink = (
        1 / math.sqrt(1 + learning_rate**2)
        if isinstance(learning_rate, (int, float))
        else 1 / (1 + learning_rate**2) ** 0.5
    )
    return named(
        "fromage",
        chain(
            scale_by_trust_ratio(min_norm),
            scale_by_learning_rate(learning_rate * shrink),
            add_decayed_weights(shrink - 1),
        ),
    )
