"""Something added to the updates: decay of the params, noise."""

from __future__ import annotations

from typing import Any, NamedTuple

from mgefn import dtypes, random, tree
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import ArgumentError
from mgefn.numpy.creation import asarray
from mgefn.ops.elementwise import sqrt
from mgefn.optim.base import (
    EmptyState,
    GradientTransformation,
    MaskOrFn,
    Params,
    Updates,
    needs_params,
    stateless,
)
from mgefn.optim.combining import maybe_masked
from mgefn.optim.making import maker
from mgefn.optim.numerics import cast_as, safe_increment, zero_count
from mgefn.optim.tree import random_like

AddDecayedWeightsState = EmptyState


@maker
def add_decayed_weights(
    weight_decay: ArrayLike = 0.0, mask: MaskOrFn | None = None
) -> GradientTransformation:
    """Updates plus weight_decay times the params.

    Args:
        weight_decay: a number or a schedule.
        mask: a pytree of bools that is a prefix of params, or a function from params to one: which
            of them decay; None: all.
    """
    factor: Any = weight_decay
    if callable(factor):
        return maybe_masked(_scheduled_decay(factor), mask)

    def decay(updates: Updates, params: Params | None) -> Updates:
        needs_params("add_decayed_weights", params)
        return tree.map(lambda g, p: g + factor * p, updates, params)

    return maybe_masked(stateless(decay), mask)


class WeightDecaySchedule(NamedTuple):
    """Steps taken."""

    count: Array  # type: ignore[assignment]  # optax's name, which hides tuple.count


def _scheduled_decay(schedule: Any) -> GradientTransformation:
    def init(params: Params) -> WeightDecaySchedule:
        return WeightDecaySchedule(zero_count())

    def update(
        updates: Updates, state: WeightDecaySchedule, params: Params | None = None
    ) -> tuple[Updates, WeightDecaySchedule]:
        needs_params("add_decayed_weights", params)
        factor = schedule(state.count)
        new = tree.map(lambda g, p: g + cast_as(factor, g) * p, updates, params)
        return new, WeightDecaySchedule(safe_increment(state.count))

    return GradientTransformation(init, update)


class AddNoiseState(NamedTuple):
    """Steps taken, and the key of the next noise."""

    count: Array  # type: ignore[assignment]  # optax's name, which hides tuple.count
    rng_key: Array


def key_from(operation: str, key: Any, seed: Any) -> Array:
    """The key given, or one made of an integer given as the key or by the older name seed."""
    given = key if key is not None else seed
    if given is None:
        raise ArgumentError(f"{operation}: key is missing. Give a random key or an integer.")
    x = asarray(given)
    # A key is an element of a dtype of its own, or two words.
    return random.key(given) if x.ndim == 0 and not dtypes.is_key(x.dtype) else given


@maker
def add_noise(
    eta: float, gamma: float, key: Any = None, *, seed: Any = None
) -> GradientTransformation:
    """Updates plus normal noise of the variance eta / step**gamma.

    Args:
        eta: variance at the first step.
        gamma: exponent of its decay.
        key: a random key, or an integer to make one of.
        seed: older name of key.

    Source: Neelakantan et al. (2015), arXiv:1511.06807.
    """
    start = key_from("add_noise", key, seed)

    def init(params: Params) -> AddNoiseState:
        return AddNoiseState(zero_count(), start)

    def update(
        updates: Updates, state: AddNoiseState, params: Params | None = None
    ) -> tuple[Updates, AddNoiseState]:
        count = safe_increment(state.count)
        deviation = sqrt(eta / count**gamma)
        rest, own = random.split(state.rng_key)
        noise = random_like(own, updates)
        new = tree.map(lambda g, n: g + cast_as(deviation, g) * n, updates, noise)
        return new, AddNoiseState(count, rest)

    return GradientTransformation(init, update)
