"""Updates times numbers: of the user, of a schedule, of the params' norms, of the loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from mgefn import tree
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import ArgumentError
from mgefn.numpy.creation import asarray, full_like, zeros_like
from mgefn.ops import reductions
from mgefn.ops.elementwise import clip as clipped
from mgefn.ops.elementwise import maximum, minimum, sign, where
from mgefn.optim.base import (
    EmptyState,
    GradientTransformation,
    GradientTransformationExtraArgs,
    Params,
    ScalarOrSchedule,
    Schedule,
    Updates,
    identity,
    needs_params,
    stateless,
    stateless_with_tree_map,
)
from mgefn.optim.making import maker
from mgefn.optim.numerics import (
    cast_as,
    global_norm,
    safe_increment,
    safe_norm,
    safe_root_mean_squares,
    sum_of_squares,
    zero_count,
    zeros_of,
)

ScaleState = EmptyState
ScaleByTrustRatioState = EmptyState


class ScaleByScheduleState(NamedTuple):
    """How many steps were taken."""

    count: Array  # type: ignore[assignment]  # optax's name, which hides tuple.count


@maker
def scale(step_size: ArrayLike) -> GradientTransformation:
    """Updates times a number."""
    return stateless_with_tree_map(lambda g, p: step_size * g)


@maker
def scale_by_schedule(step_size_fn: Schedule) -> GradientTransformation:
    """Updates times what a schedule gives for the number of the step, counted from 0."""

    def init(params: Params) -> ScaleByScheduleState:
        return ScaleByScheduleState(zero_count())

    def update(
        updates: Updates, state: ScaleByScheduleState, params: Params | None = None
    ) -> tuple[Updates, ScaleByScheduleState]:
        size = step_size_fn(state.count)
        new = tree.map(lambda g: cast_as(size, g) * g, updates)
        return new, ScaleByScheduleState(safe_increment(state.count))

    return GradientTransformation(init, update)


@maker
def scale_by_learning_rate(
    learning_rate: ScalarOrSchedule = None, *, flip_sign: bool = True
) -> GradientTransformation:
    """Updates times minus the learning rate, a number or a schedule; None: nothing."""
    if learning_rate is None:
        return identity()
    factor = -1 if flip_sign else 1
    if callable(learning_rate):
        schedule: Callable[..., Any] = learning_rate
        return scale_by_schedule(lambda count: factor * schedule(count))
    return scale(factor * learning_rate)


@maker
def scale_by_sign() -> GradientTransformation:
    """The sign of each element."""
    return stateless_with_tree_map(lambda g, p: sign(g))


@maker
def normalize_by_update_norm(
    scale_factor: float = 1.0, eps: float = 1e-6
) -> GradientTransformation:
    """Updates divided by their global norm, times scale_factor; eps stands beside the norm."""

    def normalize(updates: Updates, params: Params | None) -> Updates:
        divisor = (global_norm(updates) + eps) / scale_factor
        return tree.map(lambda g: cast_as(g / divisor, g), updates)

    return stateless(normalize)


@maker
def centralize() -> GradientTransformation:
    """Leaves of rank 2 and more, less their mean over all dimensions but the first.

    Source: Yong, Huang, Hua, Zhang (2020), arXiv:2004.01461.
    """

    def center(g: Any, p: Any) -> Any:
        g = asarray(g)
        if g.ndim < 2:
            return g
        return g - reductions.mean(g, axis=tuple(range(1, g.ndim)), keepdims=True)

    return stateless_with_tree_map(center)


@maker
def scale_by_trust_ratio(
    min_norm: float = 0.0, trust_coefficient: float = 1.0, eps: float = 0.0
) -> GradientTransformation:
    """Each leaf scaled to the norm of its params.

    Args:
        min_norm: least norm of params and of updates.
        trust_coefficient: factor.
        eps: added to the norm of the updates.

    Source: You et al. (2020), arXiv:1904.00962.
    """

    def rescale(g: Any, p: Any) -> Any:
        needs_params("scale_by_trust_ratio", p)
        size, step = safe_norm(p, min_norm), safe_norm(g, min_norm)
        either_is_zero = (size == 0) | (step == 0)
        ratio = trust_coefficient * size / where(either_is_zero, 1, step + eps)
        return g * cast_as(where(either_is_zero, 1, ratio), g)

    return stateless_with_tree_map(rescale)


@maker
def scale_by_param_block_norm(min_scale: float = 1e-3) -> GradientTransformation:
    """Each leaf times the norm of its params, at least min_scale."""

    def rescale(g: Any, p: Any) -> Any:
        needs_params("scale_by_param_block_norm", p)
        return g * cast_as(safe_norm(p, min_scale), g)

    return stateless_with_tree_map(rescale)


@maker
def scale_by_param_block_rms(min_scale: float = 1e-3) -> GradientTransformation:
    """Each leaf times the root of the mean square of its params, at least min_scale."""

    def rescale(g: Any, p: Any) -> Any:
        needs_params("scale_by_param_block_rms", p)
        return g * cast_as(safe_root_mean_squares(p, min_scale), g)

    return stateless_with_tree_map(rescale)


# -- resilient propagation -------------------------------------------------------------------------


class ScaleByRpropState(NamedTuple):
    """The size of each element's step, and the step found last, which is made next."""

    step_sizes: Updates
    prev_updates: Updates


@maker
def scale_by_rprop(
    learning_rate: float,
    eta_minus: float = 0.5,
    eta_plus: float = 1.2,
    min_step_size: float = 1e-6,
    max_step_size: float = 50.0,
) -> GradientTransformation:
    """Steps by the sign of the gradient, each element's growing until its sign changes.

    As in optax 0.2.8, a step is made one update after its gradient was seen.

    Args:
        learning_rate: first size of all steps.
        eta_minus, eta_plus: factor of a step's size after a change of sign, and without one.
        min_step_size, max_step_size: bounds of a step's size.

    Source: Riedmiller, Braun (1993), doi:10.1109/ICNN.1993.298623.
    """

    def init(params: Params) -> ScaleByRpropState:
        return ScaleByRpropState(
            tree.map(lambda p: full_like(p, learning_rate), params), zeros_of(params)
        )

    def update(
        updates: Updates, state: ScaleByRpropState, params: Params | None = None
    ) -> tuple[Updates, ScaleByRpropState]:
        agreement = tree.map(lambda g, before: g * before, updates, state.prev_updates)

        def resize(size: Any, agrees: Any) -> Any:
            changed = size * where(agrees > 0, eta_plus, eta_minus).astype(size.dtype)
            return where(agrees == 0, size, clipped(changed, min_step_size, max_step_size))

        sizes = tree.map(resize, state.step_sizes, agreement)
        new = tree.map(
            lambda a, before: where(a < 0, zeros_like(before), before),
            agreement,
            state.prev_updates,
        )
        kept = tree.map(
            lambda size, g, a: where(a < 0, 0, size * sign(g)).astype(size.dtype),
            sizes,
            updates,
            agreement,
        )
        return new, ScaleByRpropState(sizes, kept)

    return GradientTransformation(init, update)


# -- optimism --------------------------------------------------------------------------------------


class ScaleByOptimisticGradientState(NamedTuple):
    """Whether no step was taken, and the updates before."""

    is_initial_step: Array
    previous_gradient: Updates


@maker
def scale_by_optimistic_gradient(alpha: Any = 1.0, beta: Any = 1.0) -> GradientTransformation:
    """(alpha + beta) times the gradient less beta times the one before.

    Args:
        alpha: share of the gradient, a number or a schedule.
        beta: share of the gradient's change, a number or a schedule.

    Source: Mokhtari, Ozdaglar, Pattathil (2020), arXiv:1901.08511.
    """

    def init(params: Params) -> ScaleByOptimisticGradientState:
        return ScaleByOptimisticGradientState(asarray(True), zeros_of(params))

    def update(
        updates: Updates, state: ScaleByOptimisticGradientState, params: Params | None = None
    ) -> tuple[Updates, ScaleByOptimisticGradientState]:
        def ahead(g: Any, before: Any) -> Any:
            before = where(state.is_initial_step, g, before)
            return (alpha + beta) * g - beta * before

        new = tree.map(ahead, updates, state.previous_gradient)
        return new, ScaleByOptimisticGradientState(asarray(False), updates)

    return GradientTransformation(init, update)


# -- Polyak's step ---------------------------------------------------------------------------------


@maker
def scale_by_polyak(
    f_min: float = 0.0, max_learning_rate: float = 1.0, eps: float = 0.0, variant: str = "sps"
) -> GradientTransformationExtraArgs:
    """The step (value - f_min) / |gradient|**2, at most max_learning_rate.

    update takes the keyword argument `value`, the loss.

    Args:
        f_min: lower bound of the loss.
        max_learning_rate: largest step.
        eps: added to the squared norm.
        variant: "sps", or "sps+" where a value below f_min makes no step.

    Source: Loizou, Vaswani, Laradji, Lacoste-Julien (2021), arXiv:2002.10542; "sps+": Garrigos,
    Gower, Schaipp (2023), arXiv:2307.14528.
    """
    if variant not in ("sps", "sps+"):
        raise ArgumentError(
            f"scale_by_polyak: variant must be 'sps' or 'sps+', got {variant!r}. Choose one."
        )

    def init(params: Params) -> EmptyState:
        return EmptyState()

    def update(
        updates: Updates,
        state: EmptyState,
        params: Params | None = None,
        *,
        value: Any,
        **extra_args: Any,
    ) -> tuple[Updates, EmptyState]:
        total: Any = eps
        for g in tree.leaves(updates):
            total = total + sum_of_squares(g)
        gap = asarray(value) - f_min
        if variant == "sps+":
            gap = maximum(gap, 0)
        flat = total == 0
        step = where(flat, 0.0, minimum(gap / where(flat, 1, total), max_learning_rate))
        return tree.map(lambda g: cast_as(step, g) * g, updates), state

    return GradientTransformationExtraArgs(init, update)
