"""Optimizers of Adam's family, ready for use: `scale_by_*`, decay of the params, learning rate."""

from __future__ import annotations

from typing import Any

from mgefn.core.array_methods import DTypeLike
from mgefn.optim.adam_family import (
    scale_by_adam,
    scale_by_adamax,
    scale_by_adan,
    scale_by_amsgrad,
    scale_by_belief,
    scale_by_lion,
    scale_by_novograd,
    scale_by_radam,
    scale_by_yogi,
)
from mgefn.optim.adding import add_decayed_weights
from mgefn.optim.base import GradientTransformationExtraArgs, MaskOrFn, ScalarOrSchedule, named
from mgefn.optim.combining import chain
from mgefn.optim.making import maker
from mgefn.optim.scaling import (
    scale_by_learning_rate,
    scale_by_optimistic_gradient,
    scale_by_trust_ratio,
)


@maker
def adam(
    learning_rate: ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: DTypeLike | None = None,
    *,
    nesterov: bool = False,
) -> GradientTransformationExtraArgs:
    """Adam: steps of about the learning rate in each element, whatever the gradient's size.

    Arguments as for `scale_by_adam`. Source: Kingma, Ba (2015), arXiv:1412.6980.

    Example:
        >>> from mgefn import optim
        >>> opt = optim.adam(0.1)
        >>> params = mnp.array([1.0])
        >>> updates, state = opt.update(mnp.array([3.0]), opt.init(params), params)
        >>> optim.apply_updates(params, updates)
        Array([0.9], dtype=float32)
    """
    return named(
        "adam",
        chain(
            scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov),
            scale_by_learning_rate(learning_rate),
        ),
    )


@maker
def adamw(
    learning_rate: ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: DTypeLike | None = None,
    weight_decay: ScalarOrSchedule = 1e-4,
    mask: MaskOrFn | None = None,
    *,
    nesterov: bool = False,
) -> GradientTransformationExtraArgs:
    """Adam with weight decay that is not scaled by the gradient's size.

    Arguments as for `scale_by_adam` and `add_decayed_weights`. Source: Loshchilov, Hutter (2019),
    arXiv:1711.05101.
    """
    return named(
        "adamw",
        chain(
            scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov),
            add_decayed_weights(weight_decay, mask),
            scale_by_learning_rate(learning_rate),
        ),
    )


@maker
def nadam(
    learning_rate: ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: DTypeLike | None = None,
    *,
    nesterov: bool = True,
) -> GradientTransformationExtraArgs:
    """`adam` with Nesterov's look ahead. Source: Dozat (2016)."""
    return named("nadam", adam(learning_rate, b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov))


@maker
def nadamw(
    learning_rate: ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: DTypeLike | None = None,
    weight_decay: ScalarOrSchedule = 1e-4,
    mask: MaskOrFn | None = None,
    *,
    nesterov: bool = True,
) -> GradientTransformationExtraArgs:
    """`adamw` with Nesterov's look ahead."""
    return named(
        "nadamw",
        adamw(
            learning_rate, b1, b2, eps, eps_root, mu_dtype, weight_decay, mask, nesterov=nesterov
        ),
    )


@maker
def amsgrad(
    learning_rate: ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: DTypeLike | None = None,
    bias_correction_mu: bool = True,
    bias_correction_nu: bool = True,
) -> GradientTransformationExtraArgs:
    """Adam with a measure of size that never falls. Arguments as for `scale_by_amsgrad`.

    Source: Reddi, Kale, Kumar (2018), arXiv:1904.09237.
    """
    return named(
        "amsgrad",
        chain(
            scale_by_amsgrad(
                b1, b2, eps, eps_root, mu_dtype, bias_correction_mu, bias_correction_nu
            ),
            scale_by_learning_rate(learning_rate),
        ),
    )


@maker
def adamax(
    learning_rate: ScalarOrSchedule, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8
) -> GradientTransformationExtraArgs:
    """Adam in the maximum norm. Arguments as for `scale_by_adamax`.

    Source: Kingma, Ba (2015), arXiv:1412.6980, section 7.1.
    """
    return named(
        "adamax", chain(scale_by_adamax(b1, b2, eps), scale_by_learning_rate(learning_rate))
    )


@maker
def adamaxw(
    learning_rate: ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: ScalarOrSchedule = 1e-4,
    mask: MaskOrFn | None = None,
) -> GradientTransformationExtraArgs:
    """`adamax` with decay of the params, as in `adamw`."""
    return named(
        "adamaxw",
        chain(
            scale_by_adamax(b1, b2, eps),
            add_decayed_weights(weight_decay, mask),
            scale_by_learning_rate(learning_rate),
        ),
    )


@maker
def radam(
    learning_rate: ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    threshold: float = 5.0,
    *,
    nesterov: bool = False,
) -> GradientTransformationExtraArgs:
    """Adam with rectified first steps. Arguments as for `scale_by_radam`.

    Source: Liu et al. (2020), arXiv:1908.03265.
    """
    return named(
        "radam",
        chain(
            scale_by_radam(b1, b2, eps, eps_root, threshold, nesterov=nesterov),
            scale_by_learning_rate(learning_rate),
        ),
    )


@maker
def adabelief(
    learning_rate: ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-16,
    eps_root: float = 1e-16,
    *,
    nesterov: bool = False,
) -> GradientTransformationExtraArgs:
    """Adam by the belief in gradients. Arguments as for `scale_by_belief`.

    Source: Zhuang et al. (2020), arXiv:2010.07468.
    """
    return named(
        "adabelief",
        chain(
            scale_by_belief(b1, b2, eps, eps_root, nesterov=nesterov),
            scale_by_learning_rate(learning_rate),
        ),
    )


@maker
def yogi(
    learning_rate: ScalarOrSchedule, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-3
) -> GradientTransformationExtraArgs:
    """Adam with slow changes of the measure of size. Arguments as for `scale_by_yogi`.

    Source: Zaheer et al. (2018), Adaptive Methods for Nonconvex Optimization.
    """
    return named("yogi", chain(scale_by_yogi(b1, b2, eps), scale_by_learning_rate(learning_rate)))


@maker
def lion(
    learning_rate: ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.99,
    mu_dtype: DTypeLike | None = None,
    weight_decay: ScalarOrSchedule = 1e-3,
    mask: MaskOrFn | None = None,
) -> GradientTransformationExtraArgs:
    """Steps by the sign of an averaged gradient, with decay of the params.

    Arguments as for `scale_by_lion` and `add_decayed_weights`. The learning rate is about a tenth
    of Adam's. Source: Chen et al. (2023), arXiv:2302.06675.
    """
    return named(
        "lion",
        chain(
            scale_by_lion(b1, b2, mu_dtype),
            add_decayed_weights(weight_decay, mask),
            scale_by_learning_rate(learning_rate),
        ),
    )


@maker
def lamb(
    learning_rate: ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-6,
    eps_root: float = 0.0,
    weight_decay: ScalarOrSchedule = 0.0,
    mask: MaskOrFn | None = None,
) -> GradientTransformationExtraArgs:
    """`adamw` with each leaf's step scaled to the norm of its params, for large batches.

    Source: You et al. (2020), arXiv:1904.00962.
    """
    return named(
        "lamb",
        chain(
            scale_by_adam(b1, b2, eps, eps_root),
            add_decayed_weights(weight_decay, mask),
            scale_by_trust_ratio(),
            scale_by_learning_rate(learning_rate),
        ),
    )


@maker
def novograd(
    learning_rate: ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.25,
    eps: float = 1e-6,
    eps_root: float = 0.0,
    weight_decay: float = 0.0,
) -> GradientTransformationExtraArgs:
    """Momentum of gradients divided by their averaged norms. Arguments as for `scale_by_novograd`.

    Source: Ginsburg et al. (2019), arXiv:1905.11286.
    """
    return named(
        "novograd",
        chain(
            scale_by_novograd(b1, b2, eps, eps_root, weight_decay),
            scale_by_learning_rate(learning_rate),
        ),
    )


@maker
def adan(
    learning_rate: ScalarOrSchedule,
    b1: float = 0.98,
    b2: float = 0.92,
    b3: float = 0.99,
    eps: float = 1e-8,
    eps_root: float = 1e-8,
    weight_decay: ScalarOrSchedule = 0.0,
    mask: MaskOrFn | None = None,
) -> GradientTransformationExtraArgs:
    """Adam with averaged changes of the gradient. Arguments as for `scale_by_adan`.

    Source: Xie et al. (2022), arXiv:2208.06677.
    """
    return named(
        "adan",
        chain(
            scale_by_adan(b1, b2, b3, eps, eps_root),
            add_decayed_weights(weight_decay, mask),
            scale_by_learning_rate(learning_rate),
        ),
    )


@maker
def optimistic_adam_v2(
    learning_rate: ScalarOrSchedule,
    *,
    alpha: Any = 1.0,
    beta: Any = 1.0,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: DTypeLike | None = None,
    nesterov: bool = True,
) -> GradientTransformationExtraArgs:
    """Adam with optimistic steps, for games.

    Arguments as for `scale_by_adam` and `scale_by_optimistic_gradient`. Source: Daskalakis et al.
    (2018), arXiv:1711.00141.
    """
    return named(
        "optimistic_adam_v2",
        chain(
            scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov),
            scale_by_optimistic_gradient(alpha, beta),
            scale_by_learning_rate(learning_rate),
        ),
    )


@maker
def optimistic_adam(
    learning_rate: float,
    optimism: float | None = None,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: DTypeLike | None = None,
    *,
    nesterov: bool = True,
) -> GradientTransformationExtraArgs:
    """`optimistic_adam_v2` whose optimism is a rate of its own; None: the learning rate."""
    rate = learning_rate if optimism is None else optimism
    return named(
        "optimistic_adam",
        chain(
            scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov),
            scale_by_optimistic_gradient(learning_rate, rate),
            scale_by_learning_rate(1.0),
        ),
    )
