"""Gradient transformations under optax's names: pure functions on pytrees that chain.

A transformation is a pair (init, update). `init(params)` makes its state; `update(updates, state,
params)` turns gradients, or the updates of the transformation before it, into updates and a new
state. `apply_updates` adds updates to params. Trees keep their structure, leaves their dtype.

Source: DeepMind's optax, optax.readthedocs.io.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mgefn import dtypes, tree
from mgefn.core.array_methods import Array, ArrayLike, DTypeLike
from mgefn.errors import ArgumentError, api_boundary
from mgefn.numpy.creation import asarray, zeros, zeros_like
from mgefn.ops import reductions
from mgefn.ops.elementwise import clip as clipped
from mgefn.ops.elementwise import conj, convert, expm1, real, sqrt, where

Params = Any  # a pytree of arrays
Updates = Any  # a pytree like Params
OptState = Any  # a pytree
Schedule = Callable[[ArrayLike], ArrayLike]  # number of the step -> value
ScalarOrSchedule = Any  # a number or a Schedule


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
def stateless(f: Callable[[Updates, Params | None], Updates]) -> GradientTransformation:
    """A transformation without state from a function (updates, params) -> updates."""

    def init(params: Params) -> EmptyState:
        return EmptyState()

    def update(
        updates: Updates, state: EmptyState, params: Params | None = None
    ) -> tuple[Updates, EmptyState]:
        return f(updates, params), state

    return GradientTransformation(init, update)


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
def chain(*args: GradientTransformation) -> GradientTransformationExtraArgs:
    """Transformations one after the other; the state is the tuple of their states.

    Example:
        >>> from mgefn import optim
        >>> opt = optim.chain(optim.clip_by_global_norm(1.0), optim.sgd(0.1))
        >>> updates, state = opt.update({"w": mnp.array([3.0, 4.0])}, opt.init({"w": 0.0}))
        >>> updates
        {'w': Array([-0.06      , -0.08000001], dtype=float32)}
    """
    parts = tuple(map(with_extra_args_support, args))

    def init(params: Params) -> tuple[Any, ...]:
        return tuple([part.init(params) for part in parts])

    def update(
        updates: Updates, state: tuple[Any, ...], params: Params | None = None, **extra_args: Any
    ) -> tuple[Updates, tuple[Any, ...]]:
        if len(state) != len(parts):
            raise ArgumentError(
                f"chain: the state must have {len(parts)} parts, got {len(state)}. Make it with "
                "the same chain's init."
            )
        new_states = []
        for part, own in zip(parts, state, strict=True):
            updates, new = part.update(updates, own, params, **extra_args)
            new_states.append(new)
        return updates, tuple(new_states)

    return GradientTransformationExtraArgs(init, update)


@api_boundary
def apply_updates(params: Params, updates: Updates) -> Params:
    """params + updates, leaf by leaf, in the dtypes of params.

    Leaves of updates that are None leave theirs as they are.
    """

    def add(p: Any, u: Any) -> Any:
        if u is None:
            return p
        total = asarray(p) + u
        return convert(total, p.dtype) if hasattr(p, "dtype") else total

    if any(u is None for u in tree.leaves(updates, is_leaf=_is_none)):
        return tree.map(lambda u, p: add(p, u), updates, params, is_leaf=_is_none)
    return tree.map(add, params, updates)


def _is_none(x: Any) -> bool:
    return x is None


@api_boundary
def global_norm(updates: Updates) -> Array:
    """The square root of the sum of squares of all elements of all leaves; derivative 0 at 0."""
    squares = [_sum_of_squares(x) for x in tree.leaves(updates)]
    total: Any = asarray(0.0)
    for s in squares:
        total = total + s
    return sqrt(total)


def _sum_of_squares(x: Any) -> Any:
    a = asarray(x)
    return reductions.sum(_squared(a))


def _squared(a: Any) -> Any:
    return real(a * conj(a)) if dtypes.is_complex(a.dtype) else a * a


# -- transformations without state ----------------------------------------------------------------


@api_boundary
def identity() -> GradientTransformation:
    """The transformation that changes nothing."""
    return stateless(lambda updates, params: updates)


@api_boundary
def set_to_zero() -> GradientTransformation:
    """Zeros in place of all updates."""
    return stateless(lambda updates, params: tree.map(zeros_like, updates))


@api_boundary
def scale(step_size: ArrayLike) -> GradientTransformation:
    """Updates times a number."""
    return stateless(lambda updates, params: tree.map(lambda g: step_size * g, updates))


@api_boundary
def clip(max_delta: ArrayLike) -> GradientTransformation:
    """Each element limited to [-max_delta, max_delta]."""
    return stateless(
        lambda updates, params: tree.map(lambda g: clipped(g, -max_delta, max_delta), updates)
    )


@api_boundary
def clip_by_global_norm(max_norm: float) -> GradientTransformation:
    """Updates scaled down so that their global norm is at most max_norm.

    Source: Pascanu, Mikolov, Bengio (2013), arXiv:1211.5063.
    """

    def limit(updates: Updates, params: Params | None) -> Updates:
        norm = global_norm(updates)
        small = norm < max_norm
        # The factor of an update that is small already is 1 whatever the norm, also 0.
        factor = where(small, 1, max_norm / where(small, 1, norm))
        return tree.map(lambda g: convert(g * factor, asarray(g).dtype), updates)

    return stateless(limit)


@api_boundary
def add_decayed_weights(weight_decay: ArrayLike = 0.0, mask: Any = None) -> GradientTransformation:
    """Updates plus weight_decay times the params.

    Args:
        weight_decay: a number.
        mask: a pytree of bools that is a prefix of params, or a function from params to one: which
            of them decay; None: all.
    """

    def decay(updates: Updates, params: Params | None) -> Updates:
        if params is None:
            raise ArgumentError(
                "add_decayed_weights: update needs the params, got None. Call "
                "update(updates, state, params)."
            )
        if mask is None:
            return tree.map(lambda g, p: g + weight_decay * p, updates, params)
        chosen = tree.broadcast(mask(params) if callable(mask) else mask, updates)
        return tree.map(lambda g, p, on: g + weight_decay * p if on else g, updates, params, chosen)

    return stateless(decay)


# -- transformations with state -------------------------------------------------------------------


class ScaleByScheduleState(NamedTuple):
    """How many steps were taken."""

    count: Array  # type: ignore[assignment]  # optax's name, which hides tuple.count


class TraceState(NamedTuple):
    """The decaying sum of the updates so far."""

    trace: Updates


class ScaleByAdamState(NamedTuple):
    """Steps taken, and the decaying averages of gradients and of their squares."""

    count: Array  # type: ignore[assignment]  # optax's name, which hides tuple.count
    mu: Updates
    nu: Updates


@api_boundary
def safe_increment(count: Array) -> Array:
    """count + 1, or count where that would overflow."""
    last = int(np.iinfo(count.dtype).max)
    return where(count < last, count + 1, last).astype(count.dtype)


def _start() -> Array:
    return zeros((), np.int32)


@api_boundary
def scale_by_schedule(step_size_fn: Schedule) -> GradientTransformation:
    """Updates times what a schedule gives for the number of the step, counted from 0."""

    def init(params: Params) -> ScaleByScheduleState:
        return ScaleByScheduleState(_start())

    def update(
        updates: Updates, state: ScaleByScheduleState, params: Params | None = None
    ) -> tuple[Updates, ScaleByScheduleState]:
        size = step_size_fn(state.count)
        new = tree.map(lambda g: convert(asarray(size), asarray(g).dtype) * g, updates)
        return new, ScaleByScheduleState(safe_increment(state.count))

    return GradientTransformation(init, update)


@api_boundary
def scale_by_learning_rate(
    learning_rate: ScalarOrSchedule, *, flip_sign: bool = True
) -> GradientTransformation:
    """Updates times minus the learning rate, a number or a schedule."""
    sign = -1 if flip_sign else 1
    if callable(learning_rate):
        schedule: Callable[..., Any] = learning_rate
        return scale_by_schedule(lambda count: sign * schedule(count))
    return scale(sign * learning_rate)


@api_boundary
def trace(
    decay: float, nesterov: bool = False, accumulator_dtype: DTypeLike | None = None
) -> GradientTransformation:
    """Momentum: the sum of all updates so far, each `decay` times less with every step.

    Args:
        decay: in [0, 1).
        nesterov: look ahead by one step. Nesterov (1983), Soviet Math. Dokl. 27, 372-376.
        accumulator_dtype: of the sum; None: that of the params.
    """

    def init(params: Params) -> TraceState:
        return TraceState(tree.map(lambda p: zeros_like(p, accumulator_dtype), params))

    def update(
        updates: Updates, state: TraceState, params: Params | None = None
    ) -> tuple[Updates, TraceState]:
        new = tree.map(lambda g, t: g + decay * t, updates, state.trace)
        out = tree.map(lambda g, t: g + decay * t, updates, new) if nesterov else new
        return out, TraceState(_cast(new, accumulator_dtype))

    return GradientTransformation(init, update)


def _cast(values: Any, dtype: DTypeLike | None) -> Any:
    if dtype is None:
        return values
    new = dtypes.canonical(dtype)
    return tree.map(lambda x: convert(asarray(x), new), values)


@api_boundary
def scale_by_adam(
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: DTypeLike | None = None,
    *,
    nesterov: bool = False,
) -> GradientTransformation:
    """The averaged gradient divided by the root of the averaged square.

    Args:
        b1: decay of the average of gradients.
        b2: decay of the average of squares.
        eps: added outside the root, against division by 0.
        eps_root: added inside the root, so that its derivative stays finite.
        mu_dtype: dtype of the average of gradients; None: that of the params.
        nesterov: look ahead by one step. Dozat (2016), Incorporating Nesterov Momentum into Adam.

    Source: Kingma, Ba (2015), arXiv:1412.6980.
    """

    def init(params: Params) -> ScaleByAdamState:
        mu = tree.map(lambda p: zeros_like(p, mu_dtype), params)
        return ScaleByAdamState(_start(), mu, tree.map(_zero_squares, params))

    def update(
        updates: Updates, state: ScaleByAdamState, params: Params | None = None
    ) -> tuple[Updates, ScaleByAdamState]:
        mu = tree.map(lambda g, m: b1 * m + (1 - b1) * g, updates, state.mu)
        nu = tree.map(lambda g, v: b2 * v + (1 - b2) * _squared(asarray(g)), updates, state.nu)
        count = safe_increment(state.count)
        # The averages start at 0; dividing by the sum of their weights makes up for it.
        left1, left2 = _one_minus_power(b1, count), _one_minus_power(b2, count)
        if nesterov:
            next1 = _one_minus_power(b1, safe_increment(count))
            ahead = tree.map(
                lambda g, m: b1 * (m / _as(next1, m)) + (1 - b1) * (g / _as(left1, m)), updates, mu
            )
        else:
            ahead = tree.map(lambda m: m / _as(left1, m), mu)
        new = tree.map(lambda m, v: m / (sqrt(v / _as(left2, v) + eps_root) + eps), ahead, nu)
        return new, ScaleByAdamState(count, _cast(mu, mu_dtype), nu)

    return GradientTransformation(init, update)


def _zero_squares(p: Any) -> Any:
    """Squares of complex numbers' moduli are real."""
    return zeros_like(p, dtypes.real_part_dtype(asarray(p).dtype))


def _one_minus_power(base: Any, count: Array) -> Any:
    """1 - base**count, exact also for a base near 1, whose power would round to few digits."""
    steps = convert(count, dtypes.default_float())
    if isinstance(base, (int, float)) and base > 0:
        return -expm1(steps * math.log(base))
    return 1 - asarray(base) ** steps


def _as(x: Any, like: Any) -> Any:
    return convert(x, like.dtype)


# -- optimizers -----------------------------------------------------------------------------------


@api_boundary
def sgd(
    learning_rate: ScalarOrSchedule,
    momentum: float | None = None,
    nesterov: bool = False,
    accumulator_dtype: DTypeLike | None = None,
) -> GradientTransformationExtraArgs:
    """Stochastic gradient descent, with momentum where it is given.

    Args:
        learning_rate: a number or a schedule.
        momentum, nesterov, accumulator_dtype: as for `trace`.
    """
    parts = [] if momentum is None else [trace(momentum, nesterov, accumulator_dtype)]
    return chain(*parts, scale_by_learning_rate(learning_rate))


@api_boundary
def adam(
    learning_rate: ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: DTypeLike | None = None,
    *,
    nesterov: bool = False,
) -> GradientTransformationExtraArgs:
    """Adam: steps of about the learning rate in each element, whatever the gradient's size.

    Arguments as for `scale_by_adam`. Source: Kingma, Ba (2015), arXiv:1412.6980.

    Example:
        >>> from mgefn import optim
        >>> opt = optim.adam(0.1)
        >>> params = mnp.array([1.0])
        >>> updates, state = opt.update(mnp.array([3.0]), opt.init(params), params)
        >>> optim.apply_updates(params, updates)
        Array([0.9], dtype=float32)
    """
    return chain(
        scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov),
        scale_by_learning_rate(learning_rate),
    )


@api_boundary
def adamw(
    learning_rate: ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: DTypeLike | None = None,
    weight_decay: float = 1e-4,
    mask: Any = None,
    *,
    nesterov: bool = False,
) -> GradientTransformationExtraArgs:
    """Adam with weight decay that is not scaled by the gradient's size.

    Arguments as for `scale_by_adam` and `add_decayed_weights`. Source: Loshchilov, Hutter (2019),
    arXiv:1711.05101.
    """
    return chain(
        scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


# -- schedules ------------------------------------------------------------------------------------


@api_boundary
def constant_schedule(value: ArrayLike) -> Schedule:
    """The same value at every step."""
    return lambda count: value


@api_boundary
def polynomial_schedule(
    init_value: float,
    end_value: float,
    power: float,
    transition_steps: int,
    transition_begin: int = 0,
) -> Schedule:
    """From init_value to end_value in transition_steps steps, as a power of the steps left."""
    steps, begin = operator.index(transition_steps), operator.index(transition_begin)
    if steps <= 0:
        return constant_schedule(init_value)

    def schedule(count: ArrayLike) -> Array:
        done = clipped(asarray(count) - begin, 0, steps)
        left = 1 - done / steps
        return (init_value - end_value) * left**power + end_value

    return schedule


@api_boundary
def linear_schedule(
    init_value: float, end_value: float, transition_steps: int, transition_begin: int = 0
) -> Schedule:
    """From init_value to end_value in equal steps."""
    return polynomial_schedule(init_value, end_value, 1, transition_steps, transition_begin)
