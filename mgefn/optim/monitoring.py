"""Measurements of updates on their way through a chain, kept in its state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from mgefn import tree
from mgefn.api.inspection import eval_shape
from mgefn.control.custom_rules import custom_vjp
from mgefn.core.array_methods import ArrayLike, DTypeLike
from mgefn.errors import api_boundary
from mgefn.numpy.creation import asarray, zeros
from mgefn.optim.accumulating import ema
from mgefn.optim.base import (
    EmptyState,
    GradientTransformation,
    GradientTransformationExtraArgs,
    Params,
    Updates,
    init_empty_state,
    with_extra_args_support,
)
from mgefn.optim.making import maker

Measure = Callable[[Updates], Any]


class SnapshotState(NamedTuple):
    """{name: measurement of the last updates}."""

    measurement: dict[str, Any]


@maker
def snapshot(measure_name: str, measure: Measure) -> GradientTransformation:
    """Updates pass through, and what is measured of them is kept.

    Args:
        measure_name: the key under which it is found, as by `tree.get(state, measure_name)`.
        measure: function of the updates.

    Example:
        >>> from mgefn import optim
        >>> opt = optim.chain(optim.snapshot("size", optim.global_norm), optim.sgd(0.1))
        >>> grads = mnp.array([3.0, 4.0])
        >>> _, state = opt.update(grads, opt.init(grads))
        >>> float(optim.tree.get(state, "size"))
        5.0
    """

    def init(params: Params) -> SnapshotState:
        return SnapshotState({measure_name: measure(params)})

    def update(
        updates: Updates, state: SnapshotState, params: Params | None = None
    ) -> tuple[Updates, SnapshotState]:
        return updates, SnapshotState({measure_name: measure(updates)})

    return GradientTransformation(init, update)


@maker
def measure_with_ema(
    measure: Measure,
    decay: ArrayLike,
    debias: bool = True,
    accumulator_dtype: DTypeLike | None = None,
) -> GradientTransformationExtraArgs:
    """The averaged measurement in place of the updates, for `monitor`.

    Args:
        measure: function of the updates.
        decay, debias, accumulator_dtype: as for `ema`.
    """
    factor: Any = decay
    average = ema(factor, debias, accumulator_dtype)

    def init(params: Params) -> tuple[EmptyState, Any]:
        shapes = eval_shape(measure, params)
        return EmptyState(), average.init(tree.map(lambda s: zeros(s.shape, s.dtype), shapes))

    def update(
        updates: Updates,
        state: tuple[EmptyState, Any],
        params: Params | None = None,
        **extra_args: Any,
    ) -> tuple[Any, tuple[EmptyState, Any]]:
        measured, own = average.update(tree.map(asarray, measure(updates)), state[1])
        return measured, (state[0], own)

    return GradientTransformationExtraArgs(init, update)


class MonitorState(NamedTuple):
    """{name: last measurement}, and the states of those that have one."""

    measurements: dict[str, Any]
    measure_states: tuple[Any, ...]


@maker
def monitor(
    measures: Mapping[str, GradientTransformation | Measure],
) -> GradientTransformationExtraArgs:
    """Updates pass through, and what is measured of them is kept, also over several steps.

    Args:
        measures: {name: function of the updates, or a transformation such as
            `measure_with_ema`}.

    Example:
        >>> from mgefn import optim
        >>> opt = optim.monitor({"mean": optim.measure_with_ema(mnp.mean, 0.9)})
        >>> grads = mnp.array([3.0, 5.0])
        >>> _, state = opt.update(grads, opt.init(grads))
        >>> float(optim.tree.get(state, "mean"))
        4.0
    """

    def as_transformation(measure: Any) -> GradientTransformationExtraArgs:
        if isinstance(measure, GradientTransformation):
            return with_extra_args_support(measure)
        return with_extra_args_support(
            GradientTransformation(init_empty_state, lambda u, s, p=None: (measure(u), s))
        )

    parts = {name: as_transformation(measure) for name, measure in measures.items()}

    def init(params: Params) -> MonitorState:
        return MonitorState({}, tuple([part.init(params) for part in parts.values()]))

    def update(
        updates: Updates, state: MonitorState, params: Params | None = None, **extra_args: Any
    ) -> tuple[Updates, MonitorState]:
        found, states = {}, []
        for (name, part), own in zip(parts.items(), state.measure_states, strict=True):
            found[name], new = part.update(updates, own, params, **extra_args)
            states.append(new)
        return updates, MonitorState(found, tuple(states))

    return GradientTransformationExtraArgs(init, update)


@api_boundary
def scale_gradient(inputs: Any, scale: float) -> Any:
    """The tree itself, whose gradients are multiplied by scale.

    Example:
        >>> from mgefn import optim
        >>> float(mgefn.grad(lambda x: optim.scale_gradient(x, 3.0) ** 2)(2.0))
        12.0
    """

    @custom_vjp
    def same(x: Any) -> Any:
        return x

    same.defvjp(lambda x: (x, None), lambda _, ct: (tree.map(lambda g: g * scale, ct),))
    return same(inputs)
