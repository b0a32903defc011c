"""Schedules: functions from the number of the step, counted from 0, to a value.

They take Python numbers and arrays, also traced ones, and have optax's names. MultiStepLR and
ExponentialLR of MegEngine are `multi_step_schedule` and `exponential_decay`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import ArgumentError
from mgefn.numpy.creation import asarray
from mgefn.ops.elementwise import clip, cos, floor, maximum, minimum, where
from mgefn.optim.base import Schedule
from mgefn.optim.inject import (
    InjectHyperparamsState,
    InjectStatefulHyperparamsState,
    StatefulSchedule,
    WrappedSchedule,
    inject_hyperparams,
    inject_stateful_hyperparams,
)
from mgefn.optim.making import maker

__all__ = [
    "InjectHyperparamsState",
    "InjectStatefulHyperparamsState",
    "Schedule",
    "StatefulSchedule",
    "WrappedSchedule",
    "constant_schedule",
    "cosine_decay_schedule",
    "cosine_onecycle_schedule",
    "exponential_decay",
    "inject_hyperparams",
    "inject_stateful_hyperparams",
    "join_schedules",
    "linear_onecycle_schedule",
    "linear_schedule",
    "multi_step_schedule",
    "piecewise_constant_schedule",
    "piecewise_interpolate_schedule",
    "polynomial_schedule",
    "sgdr_schedule",
    "warmup_constant_schedule",
    "warmup_cosine_decay_schedule",
    "warmup_exponential_decay_schedule",
]


@maker
def constant_schedule(value: ArrayLike) -> Schedule:
    """The same value at every step."""
    return lambda count: value


@maker
def polynomial_schedule(
    init_value: ArrayLike,
    end_value: ArrayLike,
    power: ArrayLike,
    transition_steps: int,
    transition_begin: int = 0,
) -> Schedule:
    """From init_value to end_value in transition_steps steps, as a power of the steps left."""
    steps, begin = operator.index(transition_steps), operator.index(transition_begin)
    if steps <= 0:
        return constant_schedule(init_value)
    begin = max(begin, 0)
    change: Any = init_value
    change = change - end_value

    def schedule(count: ArrayLike) -> Array:
        done = clip(asarray(count) - begin, 0, steps)
        left = 1 - done / steps
        return change * left**power + end_value

    return schedule


@maker
def linear_schedule(
    init_value: ArrayLike, end_value: ArrayLike, transition_steps: int, transition_begin: int = 0
) -> Schedule:
    """From init_value to end_value in equal steps."""
    return polynomial_schedule(init_value, end_value, 1, transition_steps, transition_begin)


@maker
def piecewise_constant_schedule(
    init_value: float, boundaries_and_scales: Mapping[int, float] | None = None
) -> Schedule:
    """init_value times the scales of all boundaries passed.

    Args:
        init_value: value before the first boundary.
        boundaries_and_scales: {step: factor, not negative}; a factor acts from its step on.

    Example:
        >>> from mgefn import optim
        >>> rate = optim.piecewise_constant_schedule(1.0, {2: 0.5, 4: 0.1})
        >>> [round(float(rate(n)), 3) for n in range(5)]
        [1.0, 1.0, 0.5, 0.5, 0.05]
    """
    steps = _scales("piecewise_constant_schedule", boundaries_and_scales)

    def schedule(count: ArrayLike) -> Array:
        count = asarray(count)
        value: Any = init_value
        for boundary, factor in steps:
            value = value * where(count >= boundary, factor, 1.0)
        return asarray(value)

    return schedule


def _scales(
    operation: str, boundaries_and_scales: Mapping[int, float] | None
) -> list[tuple[int, float]]:
    steps = sorted((boundaries_and_scales or {}).items())
    for boundary, factor in steps:
        if factor < 0:
            raise ArgumentError(
                f"{operation}: scales must not be negative, got {factor} at step {boundary}. Use a "
                "factor of at least 0."
            )
    return steps


@maker
def multi_step_schedule(
    init_value: float, milestones: Iterable[int], gamma: float = 0.1
) -> Schedule:
    """init_value times gamma for every milestone passed, as MegEngine's MultiStepLR.

    Example:
        >>> from mgefn import optim
        >>> float(optim.multi_step_schedule(1.0, [2, 4], 0.5)(3))
        0.5
    """
    steps = list(milestones)
    if steps != sorted(steps):
        raise ArgumentError(
            f"multi_step_schedule: milestones must increase, got {steps}. Sort them."
        )

    def schedule(count: ArrayLike) -> Array:
        count = asarray(count)
        value: Any = init_value
        for boundary in steps:
            value = value * where(count >= boundary, gamma, 1.0)
        return asarray(value)

    return schedule


@maker
def exponential_decay(
    init_value: float,
    transition_steps: int,
    decay_rate: float,
    transition_begin: int = 0,
    staircase: bool = False,
    end_value: float | None = None,
) -> Schedule:
    """init_value * decay_rate ** ((step - transition_begin) / transition_steps).

    Args:
        init_value: value until transition_begin.
        transition_steps: steps in which the value falls by the factor decay_rate.
        decay_rate: not 0; 0 gives a constant.
        staircase: whether the exponent is rounded down.
        end_value: bound of the value: below for a decay_rate less than 1, else above.

    MegEngine's ExponentialLR(gamma) is `exponential_decay(init_value, 1, gamma)`.
    """
    if transition_steps <= 0 or decay_rate == 0:
        return constant_schedule(init_value)
    begin = max(transition_begin, 0)
    bound = maximum if decay_rate < 1 else minimum

    def schedule(count: ArrayLike) -> Array:
        since = asarray(count) - begin
        exponent = since / transition_steps
        if staircase:
            exponent = floor(exponent)
        value = where(since <= 0, init_value, init_value * decay_rate**exponent)
        return value if end_value is None else bound(value, end_value)

    return schedule


@maker
def cosine_decay_schedule(
    init_value: float, decay_steps: int, alpha: float = 0.0, exponent: float = 1.0
) -> Schedule:
    """Half a period of a cosine from init_value down to alpha * init_value.

    Args:
        init_value: value at step 0.
        decay_steps: steps until the end, positive.
        alpha: share of init_value that is left at the end.
        exponent: power to which the falling cosine is raised.

    Source: Loshchilov, Hutter (2017), arXiv:1608.03983.
    """
    if not decay_steps > 0:
        raise ArgumentError(
            f"cosine_decay_schedule: decay_steps must be positive, got {decay_steps}. Give the "
            "number of steps until the end."
        )

    def schedule(count: ArrayLike) -> Array:
        done = minimum(asarray(count), decay_steps) / float(decay_steps)
        falling = 0.5 * (1 + cos(math.pi * done))
        return init_value * ((1 - alpha) * falling**exponent + alpha)

    return schedule


@maker
def join_schedules(schedules: Sequence[Schedule], boundaries: Sequence[int]) -> Schedule:
    """One schedule after the other; each counts from the boundary where it begins.

    Args:
        schedules: one more than there are boundaries.
        boundaries: increasing steps.

    Example:
        >>> from mgefn import optim
        >>> up = optim.linear_schedule(0.0, 1.0, 4)
        >>> both = optim.join_schedules([up, optim.constant_schedule(1.0)], [4])
        >>> float(both(2)), float(both(9))
        (0.5, 1.0)
    """
    schedules, boundaries = list(schedules), list(boundaries)
    if len(schedules) != len(boundaries) + 1:
        raise ArgumentError(
            f"join_schedules: there must be one schedule more than boundaries, got "
            f"{len(schedules)} schedules and {len(boundaries)} boundaries. Name each change once."
        )

    def schedule(count: ArrayLike) -> Array:
        count = asarray(count)
        value = asarray(schedules[0](count))
        for boundary, later in zip(boundaries, schedules[1:], strict=True):
            value = where(count < boundary, value, later(count - boundary))
        return value

    return schedule


@maker
def warmup_constant_schedule(init_value: float, peak_value: float, warmup_steps: int) -> Schedule:
    """Linear from init_value to peak_value, which then stays."""
    return linear_schedule(init_value, peak_value, warmup_steps)


@maker
def warmup_cosine_decay_schedule(
    init_value: float,
    peak_value: float,
    warmup_steps: int,
    decay_steps: int,
    end_value: float = 0.0,
    exponent: float = 1.0,
) -> Schedule:
    """Linear from init_value to peak_value, then a cosine down to end_value.

    Args:
        init_value, peak_value, end_value: values at the start, after warmup, at the end.
        warmup_steps: steps of the linear part.
        decay_steps: steps of both parts together, more than warmup_steps.
        exponent: as in `cosine_decay_schedule`.
    """
    alpha = 0.0 if peak_value == 0.0 else end_value / peak_value
    rest = decay_steps - warmup_steps
    if not rest > 0:
        raise ArgumentError(
            f"warmup_cosine_decay_schedule: decay_steps must be more than warmup_steps, got "
            f"{decay_steps} and {warmup_steps}. decay_steps counts those of the warmup too."
        )
    return join_schedules(
        [
            linear_schedule(init_value, peak_value, warmup_steps),
            cosine_decay_schedule(peak_value, rest, alpha, exponent),
        ],
        [warmup_steps],
    )


@maker
def warmup_exponential_decay_schedule(
    init_value: float,
    peak_value: float,
    warmup_steps: int,
    transition_steps: int,
    decay_rate: float,
    transition_begin: int = 0,
    staircase: bool = False,
    end_value: float | None = None,
) -> Schedule:
    """Linear from init_value to peak_value, then `exponential_decay` from there."""
    return join_schedules(
        [
            linear_schedule(init_value, peak_value, warmup_steps),
            exponential_decay(
                peak_value, transition_steps, decay_rate, transition_begin, staircase, end_value
            ),
        ],
        [warmup_steps],
    )


@maker
def sgdr_schedule(cosine_kwargs: Iterable[dict[str, Any]]) -> Schedule:
    """Warm restarts: `warmup_cosine_decay_schedule`s one after the other.

    Args:
        cosine_kwargs: the keyword arguments of each; each lasts its decay_steps.

    Source: Loshchilov, Hutter (2017), arXiv:1608.03983.
    """
    parts: list[Schedule] = []
    boundaries: list[int] = []
    begin = 0
    for kwargs in cosine_kwargs:
        begin += kwargs["decay_steps"]
        parts.append(warmup_cosine_decay_schedule(**kwargs))
        boundaries.append(begin)
    return join_schedules(parts, boundaries[:-1])


@maker
def piecewise_interpolate_schedule(
    interpolate_type: str,
    init_value: float,
    boundaries_and_scales: Mapping[int, float] | None = None,
) -> Schedule:
    """As `piecewise_constant_schedule`, with a line or half a cosine between the boundaries.

    Args:
        interpolate_type: "linear" or "cosine".
        init_value: value at step 0.
        boundaries_and_scales: {step: factor, not negative}; at its step a factor has fully acted.
    """
    kinds: dict[str, Callable[[Any], Any]] = {
        "linear": lambda part: part,
        "cosine": lambda part: (1 - cos(math.pi * part)) / 2,
    }
    if interpolate_type not in kinds:
        raise ArgumentError(
            "piecewise_interpolate_schedule: interpolate_type must be 'linear' or 'cosine', got "
            f"{interpolate_type!r}. Choose one of them."
        )
    share = kinds[interpolate_type]
    steps = _scales("piecewise_interpolate_schedule", boundaries_and_scales)
    places = [0, *(boundary for boundary, _ in steps)]
    values = list(np.cumprod([init_value, *(factor for _, factor in steps)]))

    def schedule(count: ArrayLike) -> Array:
        count = asarray(count)
        value: Any = asarray(float(values[-1]))
        for i in reversed(range(len(steps))):
            length = places[i + 1] - places[i]
            part = clip((count - places[i]) / max(length, 1), 0, 1)
            between = float(values[i]) + float(values[i + 1] - values[i]) * share(part)
            value = where(count < places[i + 1], between, value)
        return value

    return schedule


@maker
def linear_onecycle_schedule(
    transition_steps: int,
    peak_value: float,
    pct_start: float = 0.3,
    pct_final: float = 0.85,
    div_factor: float = 25.0,
    final_div_factor: float = 1e4,
) -> Schedule:
    """Up to the peak in a line, back down in a line, and down further to the end.

    Args:
        transition_steps: steps of the whole cycle.
        peak_value: largest value.
        pct_start, pct_final: shares of the steps when the peak and the initial value are reached.
        div_factor: peak_value over the initial value.
        final_div_factor: initial value over the last one.

    Source: Smith, Topin (2018), arXiv:1708.07120.
    """
    _check_cycle("linear_onecycle_schedule", transition_steps)
    return piecewise_interpolate_schedule(
        "linear",
        peak_value / div_factor,
        {
            int(pct_start * transition_steps): div_factor,
            int(pct_final * transition_steps): 1.0 / div_factor,
            transition_steps: 1.0 / final_div_factor,
        },
    )


@maker
def cosine_onecycle_schedule(
    transition_steps: int,
    peak_value: float,
    pct_start: float = 0.3,
    div_factor: float = 25.0,
    final_div_factor: float = 1e4,
) -> Schedule:
    """Up to the peak and down to the end, each in half a cosine.

    Args:
        transition_steps: steps of the whole cycle.
        peak_value: largest value.
        pct_start: share of the steps when the peak is reached.
        div_factor: peak_value over the initial value.
        final_div_factor: initial value over the last one.

    Source: Smith, Topin (2018), arXiv:1708.07120.
    """
    _check_cycle("cosine_onecycle_schedule", transition_steps)
    return piecewise_interpolate_schedule(
        "cosine",
        peak_value / div_factor,
        {
            int(pct_start * transition_steps): div_factor,
            int(transition_steps): 1.0 / (div_factor * final_div_factor),
        },
    )


def _check_cycle(operation: str, transition_steps: int) -> None:
    if not transition_steps > 0:
        raise ArgumentError(
            f"{operation}: transition_steps must be positive, got {transition_steps}. Give the "
            "number of steps of the whole cycle."
        )
