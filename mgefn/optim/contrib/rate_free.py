"""Optimizers that find their learning rate: by distance, by gradients, by the loss."""

from __future__ import annotations

from typing import Any, NamedTuple

from mgefn import tree
from mgefn.core.array_methods import Array
from mgefn.errors import ArgumentError
from mgefn.numpy.creation import asarray, full, zeros
from mgefn.ops.elementwise import abs as absolute
from mgefn.ops.elementwise import maximum, minimum, sqrt, where
from mgefn.optim import tree as trees
from mgefn.optim.adding import add_decayed_weights
from mgefn.optim.base import (
    GradientTransformation,
    GradientTransformationExtraArgs,
    MaskOrFn,
    Params,
    ScalarOrSchedule,
    Updates,
    identity,
    named,
    needs_params,
)
from mgefn.optim.combining import chain
from mgefn.optim.linesearch import real_dtype
from mgefn.optim.making import maker
from mgefn.optim.numerics import (
    cast_as,
    copy_of,
    one_minus_power,
    safe_increment,
    zero_count,
    zeros_of,
)
from mgefn.optim.scaling import scale_by_learning_rate


def _rate_at(learning_rate: ScalarOrSchedule, count: Any) -> Any:
    return learning_rate(count) if callable(learning_rate) else learning_rate


class ProdigyState(NamedTuple):
    """Adam's averages, and what the learning rate is estimated from."""

    exp_avg: Updates
    exp_avg_sq: Updates
    grad_sum: Updates
    params0: Params
    estim_lr: Array
    numerator_weighted: Array
    count: Array  # type: ignore[assignment]  # optax's name, which hides tuple.count


@maker
def prodigy(
    learning_rate: ScalarOrSchedule = 1.0,
    betas: tuple[float, float] = (0.9, 0.999),
    beta3: float | None = None,
    eps: float = 1e-8,
    estim_lr0: float = 1e-6,
    estim_lr_coef: float = 1.0,
    weight_decay: float = 0.0,
    safeguard_warmup: bool = False,
) -> GradientTransformation:
    """AdamW that estimates its learning rate from how far the params went.

    Args:
        learning_rate: factor of the estimate, a number or a schedule.
        betas: decays of Adam's averages.
        beta3: decay of the sums of the estimate; None: the root of betas[1].
        eps: as in `adamw`, times the estimate.
        estim_lr0: first estimate, which should be too small.
        estim_lr_coef: factor of new estimates.
        weight_decay: share of the params taken off.
        safeguard_warmup: whether the learning rate is left out of the estimate's divisor.

    Source: Mishchenko, Defazio (2024), arXiv:2306.06101.
    """
    b1, b2 = betas
    b3 = b2**0.5 if beta3 is None else beta3

    def init(params: Params) -> ProdigyState:
        dtype = real_dtype(params)
        return ProdigyState(
            zeros_of(params), zeros_of(params), zeros_of(params), copy_of(params),
            full((), estim_lr0, dtype), zeros((), dtype), zero_count(),
        )  # fmt: skip

    def update(
        updates: Updates, state: ProdigyState, params: Params | None = None
    ) -> tuple[Updates, ProdigyState]:
        needs_params("prodigy", params)
        count = safe_increment(state.count)
        estimate, dtype = state.estim_lr, state.estim_lr.dtype
        corrected = sqrt(one_minus_power(b2, count, dtype)) / one_minus_power(b1, count, dtype)
        rate = cast_as(estimate * _rate_at(learning_rate, state.count) * corrected, estimate)
        scaled = tree.map(lambda g: cast_as(estimate, g) * g, updates)
        mean = tree.map(lambda m, g: b1 * m + (1 - b1) * g, state.exp_avg, scaled)
        square = tree.map(lambda v, g: b2 * v + (1 - b2) * g * g, state.exp_avg_sq, scaled)
        weight = (estimate if safeguard_warmup else rate) / estim_lr0
        total = tree.map(lambda s, g: b3 * s + cast_as(weight, g) * g, state.grad_sum, scaled)
        gone = trees.vdot(updates, trees.sub(state.params0, params))
        numerator = b3 * state.numerator_weighted + (estimate / estim_lr0) * rate * gone
        divisor: Any = trees.sum(tree.map(absolute, total))
        found = where(divisor > 0, numerator / where(divisor > 0, divisor, 1), 0)
        new_estimate = cast_as(maximum(estimate, estim_lr_coef * found), estimate)

        def move(p: Any, m: Any, v: Any) -> Any:
            r = cast_as(rate, p)
            return -weight_decay * r * p - r * m / (sqrt(v) + cast_as(new_estimate, p) * eps)

        return tree.map(move, params, mean, square), ProdigyState(
            mean, square, total, state.params0, new_estimate, cast_as(numerator, estimate), count
        )

    return named("prodigy", GradientTransformation(init, update))


# -- distance over gradients -----------------------------------------------------------------------


class DoGState(NamedTuple):
    """The first params, the largest distance from them, and the sum of squared norms."""

    is_init_step: Array
    init_params: Params
    max_dist: Array
    sum_sq_norm_grads: Array


@maker
def dog(
    learning_rate: ScalarOrSchedule = 1.0,
    init_step: tuple[str, float] = ("heuristic", 1e-6),
    eps: float = 1e-8,
    weight_decay: float | None = None,
    mask: MaskOrFn | None = None,
) -> GradientTransformationExtraArgs:
    """Descent by the largest distance so far over the root of the sum of squared norms.

    Args:
        learning_rate: factor of that rate, a number or a schedule.
        init_step: ("distance", first distance), ("learning_rate", first rate), or ("heuristic",
            share of 1 + norm of the params that is the first distance).
        eps: added to the sum of squared norms.
        weight_decay, mask: as in `add_decayed_weights`; None: nothing.

    Source: Ivgi, Hinder, Carmon (2023), arXiv:2302.12022.
    """
    kind, first_value = init_step
    if kind not in ("distance", "learning_rate", "heuristic"):
        raise ArgumentError(
            "dog: init_step[0] must be 'distance', 'learning_rate' or 'heuristic', got "
            f"{kind!r}. Choose one."
        )

    def init(params: Params) -> DoGState:
        dtype = real_dtype(params)
        distance: Any = {"distance": first_value, "learning_rate": 0.0}.get(kind)
        if distance is None:
            distance = first_value * (1 + trees.norm(params))
        return DoGState(
            asarray(True),
            copy_of(params),
            asarray(distance).astype(dtype),
            zeros((), dtype),
        )

    def update(
        updates: Updates, state: DoGState, params: Params | None = None
    ) -> tuple[Updates, DoGState]:
        needs_params("dog", params)
        distance = maximum(
            state.max_dist,
            cast_as(trees.norm(trees.sub(params, state.init_params)), state.max_dist),
        )
        total = state.sum_sq_norm_grads + cast_as(
            trees.norm(updates, squared=True), state.sum_sq_norm_grads
        )
        rate = distance / sqrt(total + eps)
        if kind == "learning_rate":
            rate = where(state.is_init_step, first_value, rate)
        new = tree.map(lambda g: cast_as(rate, g) * g, updates)
        return new, DoGState(asarray(False), state.init_params, distance, total)

    return named(
        "dog",
        chain(
            identity() if weight_decay is None else add_decayed_weights(weight_decay, mask),
            GradientTransformation(init, update),
            scale_by_learning_rate(learning_rate),
        ),
    )


class DoWGState(NamedTuple):
    """The first params, the weighted sum of squared norms, and the largest squared distance."""

    init_params: Params
    weighted_sq_norm_grads: Array
    estim_sq_dist: Array


@maker
def dowg(
    learning_rate: ScalarOrSchedule = 1.0,
    init_estim_sq_dist: float | None = None,
    eps: float = 1e-4,
    weight_decay: float | None = None,
    mask: MaskOrFn | None = None,
) -> GradientTransformationExtraArgs:
    """As `dog`, with each gradient weighed by the distance at its time.

    Args:
        learning_rate: factor of the rate, a number or a schedule.
        init_estim_sq_dist: first squared distance; None: eps.
        eps: added to the divisor.
        weight_decay, mask: as in `add_decayed_weights`; None: nothing.

    Source: Khaled, Mishchenko, Jin (2023), arXiv:2305.16284.
    """

    def init(params: Params) -> DoWGState:
        dtype = real_dtype(params)
        first = eps if init_estim_sq_dist is None else init_estim_sq_dist
        return DoWGState(copy_of(params), zeros((), dtype), full((), first, dtype))

    def update(
        updates: Updates, state: DoWGState, params: Params | None = None
    ) -> tuple[Updates, DoWGState]:
        needs_params("dowg", params)
        gone = trees.norm(trees.sub(params, state.init_params), squared=True)
        square = maximum(state.estim_sq_dist, cast_as(gone, state.estim_sq_dist))
        total = state.weighted_sq_norm_grads + cast_as(
            square * trees.norm(updates, squared=True), state.weighted_sq_norm_grads
        )
        rate = square / (sqrt(total) + eps)
        new = tree.map(lambda g: cast_as(rate, g) * g, updates)
        return new, DoWGState(state.init_params, total, square)

    return named(
        "dowg",
        chain(
            identity() if weight_decay is None else add_decayed_weights(weight_decay, mask),
            GradientTransformation(init, update),
            scale_by_learning_rate(learning_rate),
        ),
    )


# -- models of the loss ----------------------------------------------------------------------------


class MomoState(NamedTuple):
    """Averages of gradients, of losses, and of gradients times params; the loss's lower bound."""

    exp_avg: Updates
    barf: Array
    gamma: Array
    lb: Array
    count: Array  # type: ignore[assignment]  # optax's name, which hides tuple.count


@maker
def momo(
    learning_rate: ScalarOrSchedule = 1.0,
    beta: float = 0.9,
    lower_bound: float = 0.0,
    weight_decay: float = 0.0,
    adapt_lower_bound: bool = False,
) -> GradientTransformationExtraArgs:
    """Momentum with a step from a model of the loss: `update(..., value=loss)`.

    Args:
        learning_rate: largest step, a number or a schedule.
        beta: decay of the averages.
        lower_bound: of the loss.
        weight_decay: share of the params taken off.
        adapt_lower_bound: whether the bound is estimated on the way.

    Source: Schaipp, Ohana, Eickenberg, Defazio, Gower (2024), arXiv:2305.07583.
    """

    def init(params: Params) -> MomoState:
        dtype = real_dtype(params)
        return MomoState(
            zeros_of(params), zeros((), dtype), zeros((), dtype), full((), lower_bound, dtype),
            zero_count(),
        )  # fmt: skip

    def update(
        updates: Updates,
        state: MomoState,
        params: Params | None = None,
        *,
        value: Any,
        **extra_args: Any,
    ) -> tuple[Updates, MomoState]:
        needs_params("momo", params)
        decay = where(state.count > 0, beta, 0.0).astype(state.barf.dtype)
        limit = _rate_at(learning_rate, state.count)

        def average(old: Any, new: Any) -> Any:
            d = cast_as(decay, old)
            return d * old + (1 - d) * cast_as(new, old)

        mean = tree.map(average, state.exp_avg, updates)
        loss = average(state.barf, value)
        gamma = average(state.gamma, trees.vdot(updates, params))
        along = trees.vdot(mean, params)
        square = trees.norm(mean, squared=True)
        bound = state.lb
        shrink = 1 + limit * weight_decay
        if adapt_lower_bound:
            gap = shrink * (loss - gamma) + along
            low = gap < shrink * bound
            bound = where(low, maximum(gap / (2 * shrink), lower_bound), bound).astype(bound.dtype)
        gap = shrink * (loss - bound - gamma) + along
        flat = square == 0
        step = where(flat, 0, minimum(limit, maximum(gap, 0) / where(flat, 1, square)))
        if adapt_lower_bound:
            reached = loss + along - gamma - 0.5 * step * square
            bound = maximum(reached, lower_bound).astype(bound.dtype)
        new = tree.map(
            lambda p, m: cast_as(-(limit * weight_decay) / shrink * p - cast_as(step, m) * m, p),
            params,
            mean,
        )
        return new, MomoState(mean, loss, gamma, bound, safe_increment(state.count))

    return named("momo", GradientTransformationExtraArgs(init, update))
