"""Updates under conditions: finite, at certain steps, such that params stay where they may."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mgefn import tree
from mgefn.core.array_methods import Array
from mgefn.numpy.creation import asarray, zeros_like
from mgefn.ops import reductions
from mgefn.ops.elementwise import isfinite, isnan, where
from mgefn.optim.base import (
    EmptyState,
    GradientTransformation,
    GradientTransformationExtraArgs,
    Params,
    Updates,
    needs_params,
    stateless,
    with_extra_args_support,
)
from mgefn.optim.making import maker
from mgefn.optim.numerics import safe_increment, zero_count

NonNegativeParamsState = EmptyState


def choose(condition: Any, new: Any, old: Any) -> Any:
    """One of two trees of the same structure."""

    def one(n: Any, o: Any) -> Any:
        if not hasattr(o, "dtype"):
            o = asarray(o)
        return where(condition, n, o).astype(o.dtype)

    return tree.map(one, new, old)


class ZeroNansState(NamedTuple):
    """For each leaf whether the last updates had a nan there."""

    found_nan: Any


@maker
def zero_nans() -> GradientTransformation:
    """Zeros in place of nans."""

    def init(params: Params) -> ZeroNansState:
        return ZeroNansState(tree.map(lambda p: asarray(False), params))

    def update(
        updates: Updates, state: ZeroNansState, params: Params | None = None
    ) -> tuple[Updates, ZeroNansState]:
        found = tree.map(lambda g: reductions.any(isnan(g)), updates)
        new = tree.map(lambda g: where(isnan(g), zeros_like(g), g), updates)
        return new, ZeroNansState(found)

    return GradientTransformation(init, update)


@maker
def keep_params_nonnegative() -> GradientTransformation:
    """Updates that would make a parameter negative changed so that they make it 0.

    Must be the last transformation, and the params not be negative at the start.
    """

    def limit(updates: Updates, params: Params | None) -> Updates:
        needs_params("keep_params_nonnegative", params)
        return tree.map(lambda g, p: where(p + g < 0, -p, g), updates, params)

    return stateless(limit)


class ApplyIfFiniteState(NamedTuple):
    """How often updates were not finite.

    Args:
        notfinite_count: times in a row.
        last_finite: whether the last updates were finite.
        total_notfinite: times in all.
        inner_state: of the optimizer.
    """

    notfinite_count: Array
    last_finite: Array
    total_notfinite: Array
    inner_state: Any


@maker
def apply_if_finite(
    inner: GradientTransformation, max_consecutive_errors: int
) -> GradientTransformationExtraArgs:
    """An optimizer that passes over updates which are not all finite.

    Args:
        inner: the optimizer.
        max_consecutive_errors: how many in a row are passed over; those after them are not.
    """
    inner = with_extra_args_support(inner)

    def init(params: Params) -> ApplyIfFiniteState:
        return ApplyIfFiniteState(zero_count(), asarray(True), zero_count(), inner.init(params))

    def update(
        updates: Updates,
        state: ApplyIfFiniteState,
        params: Params | None = None,
        **extra_args: Any,
    ) -> tuple[Updates, ApplyIfFiniteState]:
        finite: Any = asarray(True)
        for g in tree.leaves(updates):
            finite = finite & reductions.all(isfinite(asarray(g)))
        in_a_row = where(finite, 0, safe_increment(state.notfinite_count)).astype(np.int32)
        go = finite | (in_a_row > max_consecutive_errors)
        new, inner_state = inner.update(updates, state.inner_state, params, **extra_args)
        return tree.map(lambda u: where(go, u, zeros_like(u)), new), ApplyIfFiniteState(
            in_a_row,
            finite,
            where(finite, state.total_notfinite, safe_increment(state.total_notfinite)),
            choose(go, inner_state, state.inner_state),
        )

    return GradientTransformationExtraArgs(init, update)


class ConditionallyTransformState(NamedTuple):
    """The state of the transformation, and steps taken."""

    inner_state: Any
    step: Array


class ConditionallyMaskState(NamedTuple):
    """Steps taken, and the state of the transformation."""

    step: Array
    inner_state: Any


ConditionFn = Callable[..., Any]


@maker
def conditionally_transform(
    inner: GradientTransformation,
    should_transform_fn: ConditionFn,
    forward_extra_args: bool = False,
) -> GradientTransformationExtraArgs:
    """A transformation at some steps; at others the updates pass through.

    Args:
        inner: the transformation.
        should_transform_fn: (step) -> bool, step counted from 0.
        forward_extra_args: whether it gets the further keyword arguments of update too.

    Example:
        >>> from mgefn import optim
        >>> opt = optim.conditionally_transform(optim.scale(2.0), lambda step: step < 1)
        >>> state = opt.init(mnp.array(0.0))
        >>> first, state = opt.update(mnp.array(1.0), state)
        >>> second, state = opt.update(mnp.array(1.0), state)
        >>> float(first), float(second)
        (2.0, 1.0)
    """
    inner = with_extra_args_support(inner)

    def init(params: Params) -> ConditionallyTransformState:
        return ConditionallyTransformState(inner.init(params), zero_count())

    def update(
        updates: Updates,
        state: ConditionallyTransformState,
        params: Params | None = None,
        **extra_args: Any,
    ) -> tuple[Updates, ConditionallyTransformState]:
        go = should_transform_fn(state.step, **(extra_args if forward_extra_args else {}))
        new, inner_state = inner.update(updates, state.inner_state, params, **extra_args)
        return choose(go, new, updates), ConditionallyTransformState(
            choose(go, inner_state, state.inner_state), safe_increment(state.step)
        )

    return GradientTransformationExtraArgs(init, update)


@maker
def conditionally_mask(
    inner: GradientTransformation,
    should_transform_fn: ConditionFn,
    forward_extra_args: bool = False,
) -> GradientTransformationExtraArgs:
    """A transformation at some steps; at others the updates are zeros.

    Arguments as for `conditionally_transform`.
    """
    inner = with_extra_args_support(inner)

    def init(params: Params) -> ConditionallyMaskState:
        return ConditionallyMaskState(zero_count(), inner.init(params))

    def update(
        updates: Updates,
        state: ConditionallyMaskState,
        params: Params | None = None,
        **extra_args: Any,
    ) -> tuple[Updates, ConditionallyMaskState]:
        go = should_transform_fn(state.step, **(extra_args if forward_extra_args else {}))
        new, inner_state = inner.update(updates, state.inner_state, params, **extra_args)
        return tree.map(lambda u: where(go, u, zeros_like(u)), new), ConditionallyMaskState(
            safe_increment(state.step), choose(go, inner_state, state.inner_state)
        )

    return GradientTransformationExtraArgs(init, update)
