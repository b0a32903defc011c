"""Hyperparameters that are part of an optimizer's state: to schedule, read and change them."""

from __future__ import annotations

import functools
import inspect
import numbers
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from mgefn import dtypes, tree
from mgefn.core.array import is_arraylike
from mgefn.core.array_methods import Array, DTypeLike
from mgefn.errors import ArgumentError
from mgefn.numpy.creation import asarray
from mgefn.ops.elementwise import convert
from mgefn.optim.base import (
    GradientTransformation,
    GradientTransformationExtraArgs,
    Params,
    Schedule,
    Updates,
    with_extra_args_support,
)
from mgefn.optim.making import maker
from mgefn.optim.numerics import safe_increment, zero_count


class InjectStatefulHyperparamsState(NamedTuple):
    """The present hyperparameters and what they come from.

    Args:
        count: steps taken.
        hyperparams: {name: value}; those without schedule may be changed.
        hyperparams_states: {name: state of its schedule}.
        inner_state: of the optimizer.
    """

    count: Array  # type: ignore[assignment]  # optax's name, which hides tuple.count
    hyperparams: dict[str, Any]
    hyperparams_states: dict[str, Any]
    inner_state: Any


class InjectHyperparamsState(NamedTuple):
    """The state of older versions, without those of the schedules."""

    count: Array  # type: ignore[assignment]  # optax's name, which hides tuple.count
    hyperparams: dict[str, Any]
    inner_state: Any


@runtime_checkable
class StatefulSchedule(Protocol):
    """A schedule with a state, which may read the further keyword arguments of update.

    Methods: init() -> state; update(state, **extra_args) -> state; __call__(state, **extra_args)
    -> value.
    """

    def init(self) -> Any: ...

    def update(self, state: Any, **extra_args: Any) -> Any: ...

    def __call__(self, state: Any, **extra_args: Any) -> Any: ...


class WrappedScheduleState(NamedTuple):
    """Steps taken."""

    count: Array  # type: ignore[assignment]  # optax's name, which hides tuple.count


class WrappedSchedule:
    """A function of the number of the step, as a `StatefulSchedule`."""

    def __init__(self, schedule_fn: Schedule) -> None:
        self.schedule_fn = schedule_fn

    def init(self) -> WrappedScheduleState:
        """The state before the first step."""
        return WrappedScheduleState(zero_count())

    def update(self, state: WrappedScheduleState, **extra_args: Any) -> WrappedScheduleState:
        """The state a step later."""
        return WrappedScheduleState(safe_increment(state.count))

    def __call__(self, state: WrappedScheduleState, **extra_args: Any) -> Any:
        return self.schedule_fn(state.count)


def _is_number(value: Any) -> bool:
    if isinstance(value, (bool, np.bool_)):
        return False
    return isinstance(value, (numbers.Number, np.ndarray)) or is_arraylike(value)


@maker
def inject_stateful_hyperparams(
    inner_factory: Callable[..., GradientTransformation],
    static_args: str | Iterable[str] = (),
    hyperparam_dtype: DTypeLike | None = None,
) -> Callable[..., GradientTransformationExtraArgs]:
    """An optimizer factory whose numbers and schedules become part of the state.

    Args:
        inner_factory: such as `adam`.
        static_args: names of arguments to leave alone: functions that are no schedules, numbers
            that must stay Python numbers.
        hyperparam_dtype: of floating hyperparameters; None: that of the first leaf of the params.
    Returns:
        A function of the same arguments, where a number may be a schedule. Numbers are read from
        `state.hyperparams` at every step, so they may be changed there.

    Example:
        >>> from mgefn import optim
        >>> opt = optim.inject_hyperparams(optim.sgd)(learning_rate=1.0)
        >>> state = opt.init(mnp.zeros(1))
        >>> state.hyperparams["learning_rate"] = 0.5
        >>> opt.update(mnp.ones(1), state)[0]
        Array([-0.5], dtype=float32)
    """
    static = {static_args} if isinstance(static_args, str) else set(static_args)
    names = inspect.signature(inner_factory).parameters
    if not static <= set(names):
        raise ArgumentError(
            f"inject_hyperparams: static_args must be among {sorted(names)}, got "
            f"{sorted(static)}. Correct the names."
        )

    @functools.wraps(inner_factory)
    def factory(*args: Any, **kwargs: Any) -> GradientTransformationExtraArgs:
        return injected(inner_factory, tuple(sorted(static)), hyperparam_dtype, *args, **kwargs)

    return factory


@maker
def injected(
    inner_factory: Callable[..., GradientTransformation],
    static: tuple[str, ...],
    hyperparam_dtype: DTypeLike | None,
    /,
    *args: Any,
    **kwargs: Any,
) -> GradientTransformationExtraArgs:
    """inject_hyperparams(inner_factory, static, hyperparam_dtype)(*args, **kwargs)."""
    signature = inspect.signature(inner_factory)
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    schedules: dict[str, Any] = {}
    values: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            others.update(value)
        elif kind is inspect.Parameter.VAR_POSITIONAL:
            raise ArgumentError(
                "inject_hyperparams: the factory must not take *args, which have no names. "
                "Wrap it in a function of named arguments."
            )
        elif name in static or isinstance(value, (bool, np.bool_)):
            others[name] = value
        elif isinstance(value, StatefulSchedule):
            schedules[name] = value
        elif callable(value):
            schedules[name] = WrappedSchedule(value)
        elif _is_number(value):
            values[name] = value
        else:
            others[name] = value
    return _injected(inner_factory, values, schedules, others, hyperparam_dtype)


inject_hyperparams = inject_stateful_hyperparams


def _injected(
    inner_factory: Callable[..., GradientTransformation],
    values: Mapping[str, Any],
    schedules: Mapping[str, Any],
    others: Mapping[str, Any],
    hyperparam_dtype: DTypeLike | None,
) -> GradientTransformationExtraArgs:
    def inner(hyperparams: Mapping[str, Any]) -> GradientTransformationExtraArgs:
        # Weak, as the Python numbers in their place would be: leaves keep their dtype.
        weak = {name: convert(x, x.dtype, weak=True) for name, x in hyperparams.items()}
        return with_extra_args_support(inner_factory(**others, **weak))

    def dtype_for(values: Any) -> Any:
        if hyperparam_dtype is not None:
            return dtypes.canonical(hyperparam_dtype)
        leaves = tree.leaves(values)
        found = asarray(leaves[0]).dtype if leaves else None
        return found if found is not None and dtypes.issubdtype(found, np.floating) else None

    def as_hyperparam(value: Any, dtype: Any) -> Any:
        x = asarray(value)
        return convert(x, dtype) if dtype is not None and x.dtype.kind in "fV" else x

    def init(params: Params) -> InjectStatefulHyperparamsState:
        dtype = dtype_for(params)
        hyperparams = {name: as_hyperparam(value, dtype) for name, value in values.items()}
        states = {name: schedule.init() for name, schedule in schedules.items()}
        for name, schedule in schedules.items():
            hyperparams[name] = as_hyperparam(schedule(states[name]), dtype)
        return InjectStatefulHyperparamsState(
            zero_count(), hyperparams, states, inner(hyperparams).init(params)
        )

    def update(
        updates: Updates,
        state: InjectStatefulHyperparamsState,
        params: Params | None = None,
        **extra_args: Any,
    ) -> tuple[Updates, InjectStatefulHyperparamsState]:
        dtype = dtype_for(updates)
        hyperparams = {name: as_hyperparam(state.hyperparams[name], dtype) for name in values}
        states = {}
        for name, schedule in schedules.items():
            own = state.hyperparams_states[name]
            hyperparams[name] = as_hyperparam(schedule(own, **extra_args), dtype)
            states[name] = schedule.update(own, **extra_args)
        new, inner_state = inner(hyperparams).update(
            updates, state.inner_state, params, **extra_args
        )
        return new, InjectStatefulHyperparamsState(
            safe_increment(state.count), hyperparams, states, inner_state
        )

    return GradientTransformationExtraArgs(init, update)
