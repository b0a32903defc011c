"""What all optimizers are made of: the pair (init, update), and its simplest cases.

A transformation is a pair (init, update). `init(params)` makes its state; `update(updates, state,
params)` turns gradients, or the updates of the transformation before it, into updates and a new
state. `apply_updates` adds updates to params. Trees keep their structure, leaves their dtype.

Source: DeepMind's optax, optax.readthedocs.io.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from mgefn import tree
from mgefn.core.array_methods import ArrayLike
from mgefn.errors import ArgumentError, api_boundary
from mgefn.numpy.creation import zeros_like

Params = Any  # a pytree of arrays
Updates = Any  # a pytree like Params
OptState = Any  # a pytree
Schedule = Callable[[ArrayLike], ArrayLike]  # number of the step -> value
ScalarOrSchedule = Any  # a number or a Schedule
MaskOrFn = Any  # a pytree of bools, a prefix of the params, or a function from params to one
TransformInitFn = Callable[..., Any]
TransformUpdateFn = Callable[..., Any]
TransformUpdateExtraArgsFn = Callable[..., Any]


class GradientTransformation(NamedTuple):
    """A pair of functions.

    Args:
        init: (params) -> state.
        update: (updates, state, params=None) -> (updates, state).
    """

    init: Callable[..., Any]
    update: Callable[..., Any]


class GradientTransformationExtraArgs(GradientTransformation):
    """A transformation whose update takes further keyword arguments, such as the loss."""


class EmptyState(NamedTuple):
    """The state of a transformation that keeps nothing."""


@api_boundary
def init_empty_state(params: Params) -> EmptyState:
    """The init of a transformation without state."""
    return EmptyState()


@api_boundary
def stateless(f: Callable[[Updates, Params | None], Updates]) -> GradientTransformation:
    """A transformation without state from a function (updates, params) -> updates."""

    def update(
        updates: Updates, state: EmptyState, params: Params | None = None
    ) -> tuple[Updates, EmptyState]:
        return f(updates, params), state

    return GradientTransformation(init_empty_state, update)


@api_boundary
def stateless_with_tree_map(f: Callable[[Any, Any], Any]) -> GradientTransformation:
    """A transformation without state from a function of one leaf: (update, param) -> update.

    The param is None where update is called without params.

    Example:
        >>> from mgefn import optim
        >>> halve = optim.stateless_with_tree_map(lambda g, p: g / 2)
        >>> halve.update({"w": mnp.array([4.0])}, halve.init(None))[0]
        {'w': Array([2.], dtype=float32)}
    """

    def each(updates: Updates, params: Params | None) -> Updates:
        if params is None:
            return tree.map(lambda g: f(g, None), updates)
        return tree.map(f, updates, params)

    return stateless(each)


@api_boundary
def with_extra_args_support(tx: GradientTransformation) -> GradientTransformationExtraArgs:
    """The transformation, made to ignore keyword arguments that it does not know."""
    if isinstance(tx, GradientTransformationExtraArgs):
        return tx

    def update(
        updates: Updates, state: Any, params: Params | None = None, **extra_args: Any
    ) -> tuple[Updates, Any]:
        return tx.update(updates, state, params)

    return GradientTransformationExtraArgs(tx.init, update)


@api_boundary
def identity() -> GradientTransformation:
    """The transformation that changes nothing."""
    return stateless(lambda updates, params: updates)


@api_boundary
def set_to_zero() -> GradientTransformation:
    """Zeros in place of all updates."""
    return stateless(lambda updates, params: tree.map(zeros_like, updates))


def needs_params(operation: str, params: Params | None) -> None:
    """Raise where update was called without the params that the operation reads."""
    if params is None:
        raise ArgumentError(
            f"{operation}: update needs the params, got None. Call update(updates, state, params)."
        )
