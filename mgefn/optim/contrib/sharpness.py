"""Sharpness-aware minimization: gradients at the worst point nearby."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mgefn import tree
from mgefn.core.array_methods import Array
from mgefn.errors import ArgumentError
from mgefn.numpy.creation import asarray
from mgefn.ops.collectives import pmean
from mgefn.ops.elementwise import where
from mgefn.optim.base import (
    EmptyState,
    GradientTransformation,
    GradientTransformationExtraArgs,
    Params,
    Updates,
    named,
    needs_params,
    stateless,
    with_extra_args_support,
)
from mgefn.optim.conditions import choose
from mgefn.optim.making import maker
from mgefn.optim.numerics import cast_as, check_positive, copy_of, global_norm, zero_count

NormalizeState = EmptyState


@maker
def normalize() -> GradientTransformation:
    """Updates divided by their global norm."""

    def divide(updates: Updates, params: Params | None) -> Updates:
        norm = global_norm(updates)
        return tree.map(lambda g: cast_as(g / norm, g), updates)

    return stateless(divide)


class SAMState(NamedTuple):
    """Steps since the last one of the outer optimizer, both states, and the params then."""

    steps_since_sync: Array
    opt_state: Any
    adv_state: Any
    cache: Params | None


@maker
def sam(
    optimizer: GradientTransformation,
    adv_optimizer: GradientTransformation,
    sync_period: int = 2,
    reset_state: bool = True,
    opaque_mode: bool = False,
    batch_axis_name: str | None = None,
) -> GradientTransformationExtraArgs:
    """Steps from where the params are, by gradients from where the loss is larger.

    Each period makes sync_period - 1 steps uphill, with adv_optimizer, and then one of optimizer,
    from where the period began.

    Args:
        optimizer: makes the steps.
        adv_optimizer: goes uphill, such as chain(normalize(), sgd(rho)).
        sync_period: steps of a period.
        reset_state: whether adv_optimizer starts anew in each period.
        opaque_mode: whether each update is a whole period; it then takes the keyword argument
            grad_fn, (params, number of the step) -> gradients.
        batch_axis_name: axis of a vmap or pmap over which those gradients are averaged.

    Example:
        >>> from mgefn import optim
        >>> uphill = optim.chain(optim.contrib.normalize(), optim.sgd(0.1))
        >>> opt = optim.contrib.sam(optim.sgd(0.5), uphill, opaque_mode=True)
        >>> grad = mgefn.grad(lambda x: x**2)
        >>> x = mnp.array(1.0)
        >>> updates, _ = opt.update(grad(x), opt.init(x), x, grad_fn=lambda x, i: grad(x))
        >>> round(float(updates), 4)
        -1.1

    Source: Foret, Kleiner, Mobahi, Neyshabur (2021), arXiv:2010.01412.
    """
    check_positive("sam", "sync_period", sync_period)
    outer, uphill = with_extra_args_support(optimizer), with_extra_args_support(adv_optimizer)

    def init(params: Params) -> SAMState:
        cache = None if opaque_mode else copy_of(params)
        return SAMState(zero_count(), outer.init(params), uphill.init(params), cache)

    def transparent(
        updates: Updates, state: SAMState, params: Params | None = None, **extra_args: Any
    ) -> tuple[Updates, SAMState]:
        needs_params("sam", params)
        first = state.steps_since_sync == 0
        last = state.steps_since_sync == sync_period - 1
        cache = choose(first, params, state.cache)
        moves, opt_state = outer.update(updates, state.opt_state, cache, **extra_args)
        climb, adv_state = uphill.update(updates, state.adv_state, params, **extra_args)
        new = tree.map(
            lambda m, c, begun, p: where(last, begun + m - p, -c).astype(m.dtype),
            moves,
            climb,
            cache,
            params,
        )
        fresh = uphill.init(params) if reset_state else adv_state
        steps = ((state.steps_since_sync + 1) % sync_period).astype(np.int32)
        return new, SAMState(
            steps,
            choose(last, opt_state, state.opt_state),
            choose(last, fresh if reset_state else state.adv_state, adv_state),
            cache,
        )

    def opaque(
        updates: Updates,
        state: SAMState,
        params: Params | None = None,
        *,
        grad_fn: Callable[[Params, int], Updates] | None = None,
        **extra_args: Any,
    ) -> tuple[Updates, SAMState]:
        needs_params("sam", params)
        if grad_fn is None:
            raise ArgumentError(
                "sam: update needs grad_fn in opaque_mode, got None. Pass grad_fn, a function of "
                "the params and the number of the step."
            )
        place, adv_state = params, state.adv_state
        for i in range(sync_period - 1):
            climb, adv_state = uphill.update(updates, adv_state, place, **extra_args)
            place = tree.map(lambda p, c: asarray(p - c), place, climb)
            updates = grad_fn(place, i)
            if batch_axis_name is not None:
                updates = pmean(updates, batch_axis_name)
        if reset_state:
            adv_state = uphill.init(params)
        new, opt_state = outer.update(updates, state.opt_state, params, **extra_args)
        return new, SAMState(zero_count(), opt_state, adv_state, None)

    return named(
        "sam", GradientTransformationExtraArgs(init, opaque if opaque_mode else transparent)
    )
