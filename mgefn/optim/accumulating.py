"""Sums and averages of updates over steps, and steps made of several small ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mgefn import tree
from mgefn.core.array_methods import Array, ArrayLike, DTypeLike
from mgefn.errors import api_boundary
from mgefn.numpy.creation import asarray, zeros_like
from mgefn.ops import reductions
from mgefn.ops.elementwise import isfinite, where
from mgefn.optim.base import (
    GradientTransformation,
    GradientTransformationExtraArgs,
    Params,
    Updates,
    with_extra_args_support,
)
from mgefn.optim.making import maker, must_be_optimizer
from mgefn.optim.numerics import (
    bias_correction,
    cast,
    cast_as,
    check_positive,
    dtype_or_none,
    safe_increment,
    sum_of_squares,
    update_moment,
    zero_count,
    zeros_of,
)
from mgefn.recipes import Recipe


class TraceState(NamedTuple):
    """The decaying sum of the updates so far."""

    trace: Updates


@maker
def trace(
    decay: Any, nesterov: bool = False, accumulator_dtype: DTypeLike | None = None
) -> GradientTransformation:
    """Momentum: the sum of all updates so far, each `decay` times less with every step.

    Args:
        decay: in [0, 1).
        nesterov: look ahead by one step. Nesterov (1983), Soviet Math. Dokl. 27, 372-376.
        accumulator_dtype: of the sum; None: that of the params.
    """
    accumulator_dtype = dtype_or_none(accumulator_dtype)

    def init(params: Params) -> TraceState:
        return TraceState(zeros_of(params, accumulator_dtype))

    def update(
        updates: Updates, state: TraceState, params: Params | None = None
    ) -> tuple[Updates, TraceState]:
        new = tree.map(lambda g, t: g + decay * t, updates, state.trace)
        out = tree.map(lambda g, t: g + decay * t, updates, new) if nesterov else new
        return out, TraceState(cast(new, accumulator_dtype))

    return GradientTransformation(init, update)


class EmaState(NamedTuple):
    """Steps taken, and the decaying average of the updates so far."""

    count: Array  # type: ignore[assignment]  # optax's name, which hides tuple.count
    ema: Updates


@maker
def ema(
    decay: float, debias: bool = True, accumulator_dtype: DTypeLike | None = None
) -> GradientTransformation:
    """The exponential moving average of the updates.

    Args:
        decay: in [0, 1).
        debias: whether to divide by the sum of weights, as the average starts at 0.
        accumulator_dtype: of the average; None: that of the params.
    """
    accumulator_dtype = dtype_or_none(accumulator_dtype)

    def init(params: Params) -> EmaState:
        return EmaState(zero_count(), zeros_of(params, accumulator_dtype))

    def update(
        updates: Updates, state: EmaState, params: Params | None = None
    ) -> tuple[Updates, EmaState]:
        new = update_moment(updates, state.ema, decay, 1)
        count = safe_increment(state.count)
        out = bias_correction(new, decay, count) if debias else new
        return out, EmaState(count, cast(new, accumulator_dtype))

    return GradientTransformation(init, update)


class ApplyEvery(NamedTuple):
    """Steps since the last sum was given out, and the sum."""

    count: Array  # type: ignore[assignment]  # optax's name, which hides tuple.count
    grad_acc: Updates


@maker
def apply_every(k: int = 1) -> GradientTransformation:
    """The sum of the last k updates at every k-th step, else zeros.

    The transformations after it run at every step; `MultiSteps` runs them at the k-th only.
    """
    check_positive("apply_every", "k", k)

    def init(params: Params) -> ApplyEvery:
        return ApplyEvery(zero_count(), zeros_of(params))

    def update(
        updates: Updates, state: ApplyEvery, params: Params | None = None
    ) -> tuple[Updates, ApplyEvery]:
        place = state.count % k
        acc = tree.map(lambda g, a: g + where(place != 0, a, 0), updates, state.grad_acc)
        new = tree.map(lambda a: where(place == k - 1, a, 0).astype(a.dtype), acc)
        return new, ApplyEvery((state.count + 1) % k, acc)

    return GradientTransformation(init, update)


# -- one step from several -------------------------------------------------------------------------


@api_boundary
def skip_not_finite(
    updates: Updates, gradient_step: ArrayLike, params: Params | None
) -> tuple[Array, dict[str, Array]]:
    """Whether updates have an element that is not finite: a `should_skip_update_fn`."""
    bad: Any = asarray(0)
    for g in tree.leaves(updates):
        bad = bad + reductions.sum(~isfinite(asarray(g)))
    should_skip = bad > 0
    return should_skip, {"should_skip": should_skip, "num_not_finite": bad}


@api_boundary
def skip_large_updates(
    updates: Updates, gradient_step: ArrayLike, params: Params | None, max_squared_norm: float
) -> tuple[Array, dict[str, Array]]:
    """Whether the squared norm is not below max_squared_norm: a `should_skip_update_fn`."""
    total: Any = asarray(0.0)
    for g in tree.leaves(updates):
        total = total + sum_of_squares(g)
    should_skip = ~(total < max_squared_norm)  # also where it is nan
    return should_skip, {"should_skip": should_skip, "norm_squared": total}


ShouldSkipUpdateFunction = Callable[[Updates, Any, Any], tuple[Any, Any]]


class MultiStepsState(NamedTuple):
    """Where in a step we are, how many were made, and what was gathered.

    Args:
        mini_step: updates gathered for the present step.
        gradient_step: steps made.
        inner_opt_state: of the optimizer.
        acc_grads: mean or sum of the updates gathered.
        skip_state: what should_skip_update_fn told of the last updates.
    """

    mini_step: Array
    gradient_step: Array
    inner_opt_state: Any
    acc_grads: Any
    skip_state: Any = ()


class MultiSteps:
    """An optimizer that gathers several gradients for each step it makes.

    Between steps the updates are zeros.

    Args:
        opt: the optimizer.
        every_k_schedule: how many gradients make a step: a number, or a function of the number of
            steps made.
        use_grad_mean: whether a step takes the mean of its gradients; else their sum.
        should_skip_update_fn: (updates, gradient_step, params) -> (bool, anything): gradients to
            leave out, such as `skip_not_finite`.
        accumulator_dtype: in which gradients are gathered; None: that of the params.

    Example:
        >>> from mgefn import optim
        >>> opt = optim.MultiSteps(optim.sgd(1.0), 2)
        >>> state = opt.init(mnp.zeros(1))
        >>> first, state = opt.update(mnp.array([1.0]), state)
        >>> second, state = opt.update(mnp.array([3.0]), state)
        >>> float(first[0]), float(second[0]), bool(opt.has_updated(state))
        (0.0, -2.0, True)
    """

    def __init__(
        self,
        opt: GradientTransformation,
        every_k_schedule: int | Callable[[Any], Any],
        use_grad_mean: bool = True,
        should_skip_update_fn: Callable[..., Any] | None = None,
        accumulator_dtype: DTypeLike | None = np.float32,
    ) -> None:
        must_be_optimizer("MultiSteps", "opt", opt)
        self._opt = with_extra_args_support(opt)
        if not callable(every_k_schedule):
            check_positive("MultiSteps", "every_k_schedule", every_k_schedule)
        self._every_k = every_k_schedule
        self._use_grad_mean = use_grad_mean
        self._should_skip = should_skip_update_fn
        self._dtype = accumulator_dtype
        given = opt, every_k_schedule, use_grad_mean, should_skip_update_fn, accumulator_dtype
        self._recipe = Recipe(type(self), given, {})

    @property
    def inner_opt(self) -> GradientTransformationExtraArgs:
        """The optimizer that makes the steps."""
        return self._opt

    def init(self, params: Params) -> MultiStepsState:
        """The state before the first gradient."""
        gathered = zeros_of(params, self._dtype)
        skipped = ()
        if self._should_skip is not None:
            skipped = tree.map(
                zeros_like, self._should_skip(zeros_of(params), zero_count(), params)[1]
            )
        return MultiStepsState(
            zero_count(), zero_count(), self._opt.init(params), gathered, skipped
        )

    def update(
        self,
        updates: Updates,
        state: MultiStepsState,
        params: Params | None = None,
        **extra_args: Any,
    ) -> tuple[Updates, MultiStepsState]:
        """Gather a gradient, and make a step if it is the last one."""
        every = self._every_k
        if callable(every):
            every = every(state.gradient_step)
        skip: Any = asarray(False)
        skip_state: Any = ()
        if self._should_skip is not None:
            skip, skip_state = self._should_skip(updates, state.gradient_step, params)

        def gather(g: Any, acc: Any) -> Any:
            if not self._use_grad_mean:
                return cast_as(acc + g, acc)
            return cast_as(acc + (g - acc) / cast_as(state.mini_step + 1, acc), acc)

        acc = tree.map(gather, updates, state.acc_grads)
        emit = asarray(state.mini_step == every - 1) & ~asarray(skip)
        stepped, inner = self._opt.update(
            tree.map(cast_as, acc, updates), state.inner_opt_state, params, **extra_args
        )

        def keep(condition: Any, new: Any, old: Any) -> Any:
            return tree.map(lambda n, o: where(condition, n, o), new, old)

        new = tree.map(lambda u: where(emit, u, zeros_like(u)), stepped)
        cleared = tree.map(lambda a: where(emit, zeros_like(a), a), acc)
        mini = asarray(0, np.int32) + (state.mini_step + 1) % every
        return new, MultiStepsState(
            where(skip, state.mini_step, mini).astype(np.int32),
            where(emit, safe_increment(state.gradient_step), state.gradient_step),
            keep(emit, inner, state.inner_opt_state),
            keep(skip, state.acc_grads, cleared),
            skip_state,
        )

    def has_updated(self, state: MultiStepsState) -> Array:
        """Whether the last gradient made a step."""
        return (state.mini_step == 0) & (state.gradient_step > 0)

    @maker
    def gradient_transformation(self) -> GradientTransformation:
        """This as a pair (init, update)."""

        def init(params: Params) -> MultiStepsState:
            return self.init(params)

        def update(
            updates: Updates,
            state: MultiStepsState,
            params: Params | None = None,
            **extra_args: Any,
        ) -> tuple[Updates, MultiStepsState]:
            return self.update(updates, state, params, **extra_args)

        return GradientTransformationExtraArgs(init, update)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._recipe.key == other._recipe.key

    def __hash__(self) -> int:
        return hash(self._recipe.key)

    def __repr__(self) -> str:
        return repr(self._recipe)
