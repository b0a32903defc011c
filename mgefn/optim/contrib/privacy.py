"""Differential privacy: sums of limited gradients of single examples, with noise."""

from __future__ import annotations

from typing import Any, NamedTuple

from mgefn import random, tree
from mgefn.core.array_methods import Array
from mgefn.numpy.creation import asarray
from mgefn.optim.accumulating import trace
from mgefn.optim.adding import key_from
from mgefn.optim.base import (
    GradientTransformation,
    GradientTransformationExtraArgs,
    Params,
    ScalarOrSchedule,
    Updates,
    identity,
    named,
)
from mgefn.optim.clipping import per_example_global_norm_clip
from mgefn.optim.combining import chain
from mgefn.optim.making import maker
from mgefn.optim.scaling import scale_by_learning_rate


class DifferentiallyPrivateAggregateState(NamedTuple):
    """The key of the next noise."""

    rng_key: Array


@maker
def differentially_private_aggregate(
    l2_norm_clip: float, noise_multiplier: float, key: Any = None, *, seed: Any = None
) -> GradientTransformation:
    """The mean over examples of gradients, each limited in its norm, with normal noise.

    Args:
        l2_norm_clip: largest norm of an example's gradient.
        noise_multiplier: standard deviation of the sum's noise, over l2_norm_clip.
        key: a random key, or an integer to make one of.
        seed: older name of key.

    The updates are gradients of single examples, which stand in dimension 0.

    Source: Abadi et al. (2016), arXiv:1607.00133.
    """
    start = key_from("differentially_private_aggregate", key, seed)
    deviation = l2_norm_clip * noise_multiplier

    def init(params: Params) -> DifferentiallyPrivateAggregateState:
        return DifferentiallyPrivateAggregateState(start)

    def update(
        updates: Updates,
        state: DifferentiallyPrivateAggregateState,
        params: Params | None = None,
    ) -> tuple[Updates, DifferentiallyPrivateAggregateState]:
        total, _ = per_example_global_norm_clip(updates, l2_norm_clip)
        leaves, treedef = tree.flatten(total)
        batch = asarray(tree.leaves(updates)[0]).shape[0]
        keys = random.split(state.rng_key, len(leaves) + 1)
        noisy = [
            (g + deviation * random.normal(keys[i + 1], g.shape, g.dtype)) / batch
            for i, g in enumerate(leaves)
        ]
        return tree.unflatten(treedef, noisy), DifferentiallyPrivateAggregateState(keys[0])

    return GradientTransformation(init, update)


@maker
def dpsgd(
    learning_rate: ScalarOrSchedule,
    l2_norm_clip: float,
    noise_multiplier: float,
    seed: int,
    momentum: float | None = None,
    nesterov: bool = False,
) -> GradientTransformationExtraArgs:
    """Descent by `differentially_private_aggregate`, with its arguments and those of `sgd`."""
    return named(
        "dpsgd",
        chain(
            differentially_private_aggregate(l2_norm_clip, noise_multiplier, seed),
            identity() if momentum is None else trace(momentum, nesterov),
            scale_by_learning_rate(learning_rate),
        ),
    )
