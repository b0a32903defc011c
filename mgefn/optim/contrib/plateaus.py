"""Smaller steps where a measured value no longer falls."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mgefn import tree
from mgefn.core.array_methods import Array
from mgefn.errors import ArgumentError
from mgefn.numpy.creation import asarray, full, zeros
from mgefn.ops.elementwise import maximum, where
from mgefn.optim.base import GradientTransformationExtraArgs, Params, Updates
from mgefn.optim.linesearch import real_dtype
from mgefn.optim.making import maker
from mgefn.optim.numerics import cast_as, zero_count


class ReduceLROnPlateauState(NamedTuple):
    """The factor of updates, and what decides when it falls.

    Args:
        scale: factor of updates.
        best_value: smallest mean so far.
        plateau_count: means since then.
        cooldown_count: means that will not count.
        count: values in the present mean.
        avg_value: the present mean.
    """

    scale: Array
    best_value: Array
    plateau_count: Array
    cooldown_count: Array
    count: Array  # type: ignore[assignment]  # optax's name, which hides tuple.count
    avg_value: Array


@maker
def reduce_on_plateau(
    factor: float = 0.1,
    patience: int = 10,
    rtol: float = 1e-4,
    atol: float = 0.0,
    cooldown: int = 0,
    accumulation_size: int = 1,
    min_scale: float = 0.0,
) -> GradientTransformationExtraArgs:
    """Updates times a factor that falls where a value does not: `update(..., value=loss)`.

    Args:
        factor: by which the factor falls, in (0, 1).
        patience: means without improvement until it does.
        rtol, atol: an improvement is below (1 - rtol) * best - atol.
        cooldown: means after a fall that do not count.
        accumulation_size: values in a mean.
        min_scale: smallest factor.
    """
    if not 0 < factor < 1:
        raise ArgumentError(
            f"reduce_on_plateau: factor must be in (0, 1), got {factor}. Give a smaller one."
        )
    if rtol < 0 or atol < 0 or rtol > 1 or (rtol == 0 and atol == 0):
        raise ArgumentError(
            "reduce_on_plateau: rtol and atol must not be negative nor both 0, and rtol at most 1, "
            f"got {rtol} and {atol}. Give a small positive one."
        )

    def init(params: Params) -> ReduceLROnPlateauState:
        dtype = real_dtype(params)
        return ReduceLROnPlateauState(
            full((), 1.0, dtype), full((), np.inf, dtype), zero_count(), zero_count(),
            zero_count(), zeros((), dtype),
        )  # fmt: skip

    def judge(state: ReduceLROnPlateauState) -> ReduceLROnPlateauState:
        """The state after a mean is complete."""
        better = state.avg_value < (1 - rtol) * state.best_value - atol
        cooling = state.cooldown_count > 0
        waited = where(better | cooling, 0, state.plateau_count + 1)
        fall = waited >= patience
        return ReduceLROnPlateauState(
            where(fall, maximum(state.scale * factor, min_scale), state.scale),
            where(better, state.avg_value, state.best_value),
            where(fall, 0, waited),
            where(cooling, state.cooldown_count - 1, where(fall, cooldown, 0)),
            zero_count(),
            zeros((), state.avg_value.dtype),
        )

    def update(
        updates: Updates,
        state: ReduceLROnPlateauState,
        params: Params | None = None,
        *,
        value: Any,
        **extra_args: Any,
    ) -> tuple[Updates, ReduceLROnPlateauState]:
        mean = (state.count * state.avg_value + cast_as(value, state.avg_value)) / (state.count + 1)
        state = state._replace(count=state.count + 1, avg_value=mean)
        judged = judge(state)
        full_mean = state.count == accumulation_size
        new = tree.map(lambda n, o: where(full_mean, n, o).astype(asarray(o).dtype), judged, state)
        return tree.map(lambda g: cast_as(new.scale, g) * g, updates), new

    return GradientTransformationExtraArgs(init, update)
