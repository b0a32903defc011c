"""Schedule-free optimization: averages of the params in place of a falling learning rate."""

from __future__ import annotations

from typing import Any, NamedTuple

from mgefn import tree
from mgefn.core.array_methods import Array, DTypeLike
from mgefn.errors import api_boundary
from mgefn.numpy.creation import asarray
from mgefn.ops.elementwise import convert, maximum, where
from mgefn.optim.adding import add_decayed_weights
from mgefn.optim.base import (
    GradientTransformation,
    GradientTransformationExtraArgs,
    Params,
    ScalarOrSchedule,
    Updates,
    named,
    needs_params,
    with_extra_args_support,
)
from mgefn.optim.combining import chain
from mgefn.optim.making import maker
from mgefn.optim.numerics import cast, cast_as, copy_of, safe_increment
from mgefn.optim.optimizers import sgd
from mgefn.optim.root_mean_squares import scale_by_rms
from mgefn.optim.scaling import scale_by_learning_rate
from mgefn.optim.schedules import warmup_constant_schedule
from mgefn.optim.tree import dtype as tree_dtype


class ScheduleFreeState(NamedTuple):
    """What the average of the params needs.

    Args:
        b1: share of the average in the params where gradients are taken.
        weight_sum: of all steps so far.
        step_count: number of the next step, counted from 1.
        max_lr: largest learning rate so far.
        base_optimizer_state: of the optimizer.
        z: params as the optimizer alone moves them.
    """

    b1: Array
    weight_sum: Array
    step_count: Array
    max_lr: Array
    base_optimizer_state: Any
    z: Params


@maker
def schedule_free(
    base_optimizer: GradientTransformation,
    learning_rate: ScalarOrSchedule,
    b1: float = 0.9,
    weight_lr_power: float = 2.0,
    state_dtype: DTypeLike | None = None,
) -> GradientTransformationExtraArgs:
    """An optimizer without momentum, made to average its params instead.

    Args:
        base_optimizer: without momentum, such as adam(rate, b1=0).
        learning_rate: that of base_optimizer, a number or a schedule.
        b1: share of the average in the params where gradients are taken; not 0.
        weight_lr_power: power of the largest learning rate so far that weighs a step.
        state_dtype: dtype of z; None: that of the params.

    Source: Defazio et al. (2024), arXiv:2405.15682.
    """
    base = with_extra_args_support(base_optimizer)

    def init(params: Params) -> ScheduleFreeState:
        dtype = tree_dtype(params, "promote")
        z = cast(copy_of(params), state_dtype)
        return ScheduleFreeState(
            asarray(b1, dtype), asarray(0, dtype), asarray(1, "int32"), asarray(0, dtype),
            base.init(params), z,
        )  # fmt: skip

    def update(
        updates: Updates,
        state: ScheduleFreeState,
        params: Params | None = None,
        **extra_args: Any,
    ) -> tuple[Updates, ScheduleFreeState]:
        needs_params("schedule_free", params)
        rate = learning_rate(state.step_count) if callable(learning_rate) else learning_rate
        max_lr = maximum(state.max_lr, cast_as(rate, state.max_lr))
        weight = max_lr**weight_lr_power
        total = state.weight_sum + weight
        share = where(total == 0, 0, weight / where(total == 0, 1, total))
        moves, base_state = base.update(updates, state.base_optimizer_state, params, **extra_args)

        def one(y: Any, z: Any, move: Any) -> tuple[Any, Any]:
            c, b = cast_as(share, y), cast_as(state.b1, y)
            x = (y - (1 - b) * z) / b
            new_z = z + move
            x = (1 - c) * x + c * new_z
            return b * x + (1 - b) * new_z - y, convert(new_z, z.dtype)

        leaves, treedef = tree.flatten(params)
        both = [
            one(asarray(y), z, move)
            for y, z, move in zip(leaves, tree.leaves(state.z), tree.leaves(moves), strict=True)
        ]
        return tree.unflatten(treedef, [u for u, _ in both]), ScheduleFreeState(
            state.b1,
            total,
            safe_increment(state.step_count),
            max_lr,
            base_state,
            tree.unflatten(treedef, [z for _, z in both]),
        )

    return GradientTransformationExtraArgs(init, update)


@api_boundary
def schedule_free_eval_params(state: ScheduleFreeState, params: Params) -> Params:
    """The averaged params, at which to evaluate."""
    return tree.map(
        lambda y, z: (y - (1 - cast_as(state.b1, y)) * z) / cast_as(state.b1, y), params, state.z
    )


def _warm(learning_rate: Any, warmup_steps: int | None) -> Any:
    if warmup_steps is None:
        return learning_rate
    return warmup_constant_schedule(0.0, learning_rate, warmup_steps)


@maker
def schedule_free_sgd(
    learning_rate: float = 1.0,
    warmup_steps: int | None = None,
    b1: float = 0.9,
    weight_decay: float | None = None,
    weight_lr_power: float = 2.0,
    state_dtype: DTypeLike | None = None,
) -> GradientTransformationExtraArgs:
    """Schedule-free descent.

    Args:
        learning_rate: after warmup.
        warmup_steps: in which it rises from 0; None: none.
        weight_decay: share of the params added to the gradients; None: nothing.
        b1, weight_lr_power, state_dtype: as for `schedule_free`.
    """
    rate = _warm(learning_rate, warmup_steps)
    base = sgd(rate)
    if weight_decay is not None:
        base = chain(add_decayed_weights(weight_decay), base)
    return named("schedule_free_sgd", schedule_free(base, rate, b1, weight_lr_power, state_dtype))


@maker
def schedule_free_adamw(
    learning_rate: float = 0.0025,
    warmup_steps: int | None = None,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    weight_lr_power: float = 2.0,
    state_dtype: DTypeLike | None = None,
) -> GradientTransformationExtraArgs:
    """Schedule-free AdamW.

    Args:
        learning_rate: after warmup.
        warmup_steps: in which it rises from 0; None: none.
        b2, eps, weight_decay: as for `adamw`.
        b1, weight_lr_power, state_dtype: as for `schedule_free`.

    Example:
        >>> from mgefn import optim
        >>> opt = optim.contrib.schedule_free_adamw(0.1)
        >>> params = mnp.array([1.0])
        >>> state = opt.init(params)
        >>> updates, state = opt.update(mnp.array([1.0]), state, params)
        >>> params = optim.apply_updates(params, updates)
        >>> optim.contrib.schedule_free_eval_params(state, params).round(3)
        Array([0.9], dtype=float32)
    """
    rate = _warm(learning_rate, warmup_steps)
    base = chain(
        scale_by_rms(decay=b2, eps=eps, eps_in_sqrt=False, bias_correction=True),
        add_decayed_weights(weight_decay),
        scale_by_learning_rate(rate),
    )
    return named("schedule_free_adamw", schedule_free(base, rate, b1, weight_lr_power, state_dtype))
