"""What all optimizers are made of: the pair (init, update), and its simplest cases.

A transformation is a pair (init, update). `init(params)` makes its state; `update(updates, state,
params)` turns gradients, or the updates of the transformation before it, into updates and a new
state. `apply_updates` adds updates to params. Trees keep their structure, leaves their dtype.

Source: DeepMind's optax, optax.readthedocs.io.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from mgefn import tree
from mgefn.api.inspection import eval_shape
from mgefn.core.array import described
from mgefn.core.array_methods import ArrayLike
from mgefn.errors import (
    ArgumentError,
    MgefnError,
    MissingNameError,
    ShapeError,
    TreeError,
    api_boundary,
    leave_api,
)
from mgefn.numpy.creation import zeros_like
from mgefn.numpy.introspection import shape as shape_of
from mgefn.optim.making import maker
from mgefn.recipes import recipe_of, shown
from mgefn.tree.comparing import check_shapes

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

    if not TYPE_CHECKING:  # type checkers take a class with __getattr__ to have every name

        def __getattr__(self, name: str) -> Any:
            raise MissingNameError(type(self).__name__, "optimizer", name, self._fields)

    def __repr__(self) -> str:
        """The call that made it, where that is known."""
        recipe = recipe_of(self.update)
        if recipe is not None and recipe_of(self.init) in (recipe, None):
            return repr(recipe)
        return f"{type(self).__name__}(init={shown(self.init)}, update={shown(self.update)})"


class GradientTransformationExtraArgs(GradientTransformation):
    """A transformation whose update takes further keyword arguments, such as the loss."""


class EmptyState(NamedTuple):
    """The state of a transformation that keeps nothing."""


@api_boundary
def init_empty_state(params: Params) -> EmptyState:
    """The init of a transformation without state."""
    return EmptyState()


@maker
def stateless(f: Callable[[Updates, Params | None], Updates]) -> GradientTransformation:
    """A transformation without state from a function (updates, params) -> updates."""

    def update(
        updates: Updates, state: EmptyState, params: Params | None = None
    ) -> tuple[Updates, EmptyState]:
        return f(updates, params), state

    return GradientTransformation(init_empty_state, update)


@maker
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


@maker
def with_extra_args_support(tx: GradientTransformation) -> GradientTransformationExtraArgs:
    """The transformation, made to ignore keyword arguments that it does not know."""
    if isinstance(tx, GradientTransformationExtraArgs):
        return tx

    def update(
        updates: Updates, state: Any, params: Params | None = None, **extra_args: Any
    ) -> tuple[Updates, Any]:
        return tx.update(updates, state, params)

    return GradientTransformationExtraArgs(tx.init, update)


@maker
def identity() -> GradientTransformation:
    """The transformation that changes nothing."""
    return stateless(lambda updates, params: updates)


@maker
def set_to_zero() -> GradientTransformation:
    """Zeros in place of all updates."""
    return stateless(lambda updates, params: tree.map(zeros_like, updates))


# What went wrong in a step may be told anew, in the user's terms.
_MISTAKES = (MgefnError, AttributeError, TypeError, ValueError, KeyError)
# Operations whose names begin the messages of parts.
_PART = re.compile(
    r"^(chain|trace|ema|masked|partition|add_\w+|scale|scale_\w+|clip\w*|normalize\w*|"
    r"adaptive_grad_clip|centralize): "
)
_ORDER = "Call update(grads, state, params), and keep the state that it returns."
_MISSING = re.compile(
    r"missing \d+ required keyword-only arguments?: (.+)$|^[\w.]+\.update: needs (.+) too, got none"
)


def named(name: str, tx: Any) -> Any:
    """The transformation, whose errors name the optimizer that the user made, not its parts.

    Nothing is looked at before something has gone wrong.
    """
    tx = getattr(tx.update, "parts", tx)  # of another optimizer that this one is a case of

    def init(params: Params) -> Any:
        try:
            return tx.init(params)
        except MgefnError as exc:
            _rename(name, exc)
            leave_api(exc)
            raise

    def update(updates: Updates, state: Any, params: Params | None = None, **extra: Any) -> Any:
        try:
            if params is not None:
                given, like = tree.leaves(updates), tree.leaves(params)
                if len(given) == len(like):  # else of another structure, or with None in places
                    check_shapes(f"{name}.update", "grads", given, "params", like, _ORDER, params)
            return tx.update(updates, state, params, **extra)
        except _MISTAKES as exc:
            told = _misfit(name, tx, exc, updates, state, params)
            if told is None:
                _rename(name, exc)
                leave_api(exc)
                raise
        try:
            raise told
        except MgefnError as exc:
            leave_api(exc)
            raise

    update.parts = tx  # type: ignore[attr-defined]
    return type(tx)(init, update)


def _rename(name: str, exc: Exception) -> None:
    """Put the optimizer's name where a message begins with that of one of its parts."""
    text = str(exc.args[0]) if len(exc.args) == 1 else ""
    found = _PART.match(text)
    if isinstance(exc, MgefnError) and found:
        exc.args = (f"{name}: {text[found.end() :]}",)


def _misfit(
    name: str, tx: Any, exc: Exception, updates: Any, state: Any, params: Any
) -> MgefnError | None:
    """What does not fit among the arguments of update, if that is what went wrong."""
    about = f"{name}.update"
    order = _ORDER
    missing = _MISSING.search(str(exc))
    if type(exc) in (TypeError, ArgumentError) and missing:
        return ArgumentError(
            f"{about}: needs {missing[1] or missing[2]} too, got none. Call update(grads, state, "
            "params, value=loss, ...), as the optimizer's description says."
        )
    like = updates if params is None else params
    try:
        given = tree.structure(updates)
        if tree.structure(state) == given and tree.structure(params) != given:
            return TreeError(
                f"{about}: state must come before params, got them in the other order. {order}"
            )
        expected = eval_shape(tx.init, like)
        leaves, structure = tree.flatten(expected)
        shapes = [tuple(leaf.shape) for leaf in leaves]
        if given != tree.structure(like):
            difference = tree.structure_difference(tree.structure(like), given, ("params", "grads"))
            return TreeError(
                f"{about}: grads must have the structure of params, but {difference}. {order}"
            )
        got, found = tree.flatten(state)
        if found != structure:
            difference = tree.structure_difference(structure, found, ("that", "the one that came"))
            return TreeError(
                f"{about}: state must be what {name}.init gave for these params, but {difference}. "
                f"{order}"
            )
        for x, shape in zip(got, shapes, strict=True):
            if shape_of(x) != shape:
                return ShapeError(
                    f"{about}: state must be what {name}.init gave for these params, got "
                    f"{described(x)} in the place of shape {shape}. {order}"
                )
    except Exception:  # these arguments tell nothing; the first error is raised
        return None
    return None


def needs_params(operation: str, params: Params | None) -> None:
    """Raise where update was called without the params that the operation reads."""
    if params is None:
        raise ArgumentError(
            f"{operation}: update needs the params, got None. Call update(updates, state, params)."
        )
