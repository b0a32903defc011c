"""Gradients divided by roots of means or sums of their squares: Adagrad, RMSProp, and kin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from mgefn import tree
from mgefn.core.array_methods import Array
from mgefn.errors import ArgumentError
from mgefn.numpy.creation import asarray, full_like, zeros, zeros_like
from mgefn.ops import reductions
from mgefn.ops.elementwise import convert, minimum, rsqrt, sqrt, where
from mgefn.ops.shaping import expand_dims
from mgefn.optim.base import GradientTransformation, Params, Updates
from mgefn.optim.making import maker
from mgefn.optim.numerics import (
    bias_correction as corrected,
)
from mgefn.optim.numerics import (
    cast_as,
    safe_increment,
    squared,
    update_moment,
    update_moment_per_elem_norm,
    zero_count,
    zero_squares,
    zeros_of,
)


class ScaleByRssState(NamedTuple):
    """The sum of squares so far."""

    sum_of_squares: Updates


@maker
def scale_by_rss(
    initial_accumulator_value: float = 0.1, eps: float = 1e-7
) -> GradientTransformation:
    """Each element divided by the root of the sum of its squares so far.

    Args:
        initial_accumulator_value: where the sum starts.
        eps: added inside the root.

    Source: Duchi, Hazan, Singer (2011), JMLR 12, 2121-2159.
    """

    def init(params: Params) -> ScaleByRssState:
        return ScaleByRssState(
            tree.map(lambda z: full_like(z, initial_accumulator_value), zero_squares(params))
        )

    def update(
        updates: Updates, state: ScaleByRssState, params: Params | None = None
    ) -> tuple[Updates, ScaleByRssState]:
        total = tree.map(lambda g, s: squared(g) + s, updates, state.sum_of_squares)
        new = tree.map(
            lambda g, s: g * where(s > 0, rsqrt(where(s > 0, s, 1) + eps), 0), updates, total
        )
        return new, ScaleByRssState(total)

    return GradientTransformation(init, update)


class ScaleByRmsState(NamedTuple):
    """The decaying average of squares."""

    nu: Updates


class ScaleByRmsWithCountState(NamedTuple):
    """Steps taken, and the decaying average of squares."""

    count: Array  # type: ignore[assignment]  # optax's name, which hides tuple.count
    nu: Updates


class ScaleByRStdDevState(NamedTuple):
    """The decaying averages of gradients and of their squares."""

    mu: Updates
    nu: Updates


class ScaleByRStdDevWithCountState(NamedTuple):
    """Steps taken, and the decaying averages of gradients and of their squares."""

    count: Array  # type: ignore[assignment]  # optax's name, which hides tuple.count
    mu: Updates
    nu: Updates


def _divide(g: Any, square: Any, eps: float, eps_in_sqrt: bool) -> Any:
    return g * rsqrt(square + eps) if eps_in_sqrt else g / (sqrt(square) + eps)


@maker
def scale_by_rms(
    decay: float = 0.9,
    eps: float = 1e-8,
    initial_scale: float = 0.0,
    eps_in_sqrt: bool = True,
    bias_correction: bool = False,
) -> GradientTransformation:
    """Each element divided by the root of the decaying average of its squares.

    Args:
        decay: of the average.
        eps: added against division by 0.
        initial_scale: where the average starts.
        eps_in_sqrt: whether eps stands inside the root.
        bias_correction: whether the average is divided by the sum of its weights.

    Source: Tieleman, Hinton (2012), Neural Networks for Machine Learning, lecture 6.5.
    """

    def init(params: Params) -> Any:
        nu = tree.map(lambda z: full_like(z, initial_scale), zero_squares(params))
        return (
            ScaleByRmsWithCountState(zero_count(), nu) if bias_correction else ScaleByRmsState(nu)
        )

    def update(updates: Updates, state: Any, params: Params | None = None) -> tuple[Updates, Any]:
        nu = update_moment_per_elem_norm(updates, state.nu, decay, 2)
        hat, new_state = nu, ScaleByRmsState(nu)
        if bias_correction:
            count = safe_increment(state.count)
            hat, new_state = corrected(nu, decay, count), ScaleByRmsWithCountState(count, nu)
        new = tree.map(lambda g, v: _divide(g, v, eps, eps_in_sqrt), updates, hat)
        return new, new_state

    return GradientTransformation(init, update)


@maker
def scale_by_stddev(
    decay: float = 0.9,
    eps: float = 1e-8,
    initial_scale: float = 0.0,
    eps_in_sqrt: bool = True,
    bias_correction: bool = False,
) -> GradientTransformation:
    """Each element divided by its standard deviation, from decaying averages.

    Arguments as for `scale_by_rms`. Source: Graves (2013), arXiv:1308.0850, section 2.
    """

    def init(params: Params) -> Any:
        mu = zeros_of(params)
        nu = tree.map(lambda z: full_like(z, initial_scale), zero_squares(params))
        if bias_correction:
            return ScaleByRStdDevWithCountState(zero_count(), mu, nu)
        return ScaleByRStdDevState(mu, nu)

    def update(updates: Updates, state: Any, params: Params | None = None) -> tuple[Updates, Any]:
        mu = update_moment(updates, state.mu, decay, 1)
        nu = update_moment_per_elem_norm(updates, state.nu, decay, 2)
        mean, square, new_state = mu, nu, ScaleByRStdDevState(mu, nu)
        if bias_correction:
            count = safe_increment(state.count)
            mean, square = corrected(mu, decay, count), corrected(nu, decay, count)
            new_state = ScaleByRStdDevWithCountState(count, mu, nu)
        new = tree.map(
            lambda g, m, v: _divide(g, v - squared(m), eps, eps_in_sqrt), updates, mean, square
        )
        return new, new_state

    return GradientTransformation(init, update)


class ScaleByAdaDeltaState(NamedTuple):
    """The decaying averages of squares of gradients and of steps."""

    e_g: Updates
    e_x: Updates


@maker
def scale_by_adadelta(rho: float = 0.9, eps: float = 1e-6) -> GradientTransformation:
    """Each element scaled by the root of averaged squares of its steps over its gradients'.

    Args:
        rho: decay of both averages.
        eps: added inside both roots.

    Source: Zeiler (2012), arXiv:1212.5701.
    """

    def init(params: Params) -> ScaleByAdaDeltaState:
        return ScaleByAdaDeltaState(zero_squares(params), zero_squares(params))

    def update(
        updates: Updates, state: ScaleByAdaDeltaState, params: Params | None = None
    ) -> tuple[Updates, ScaleByAdaDeltaState]:
        e_g = update_moment_per_elem_norm(updates, state.e_g, rho, 2)
        new = tree.map(
            lambda g, square, step: (sqrt(step + eps) / sqrt(square + eps)) * g,
            updates,
            e_g,
            state.e_x,
        )
        return new, ScaleByAdaDeltaState(e_g, update_moment_per_elem_norm(new, state.e_x, rho, 2))

    return GradientTransformation(init, update)


# -- averages of rows and columns ------------------------------------------------------------------


class FactoredState(NamedTuple):
    """Steps taken, and averages of squares: over rows, over columns, or of every element."""

    count: Array  # type: ignore[assignment]  # optax's name, which hides tuple.count
    v_row: Updates
    v_col: Updates
    v: Updates


def decay_rate_pow(step: Any, exponent: float) -> Any:
    """1 - (step + 1)**-exponent, Adafactor's decay, in float32 whatever the leaves, as optax."""
    return 1 - convert(asarray(step) + 1, np.dtype(np.float32)) ** -exponent


def _factored_dims(shape: tuple[int, ...], factored: bool, least: int) -> tuple[int, int] | None:
    """The second largest and the largest dimension, where both are large enough."""
    if not factored or len(shape) < 2:
        return None
    order = np.argsort(shape)
    if shape[order[-2]] < least:
        return None
    return int(order[-2]), int(order[-1])


@maker
def scale_by_factored_rms(
    factored: bool = True,
    decay_rate: float = 0.8,
    step_offset: int = 0,
    min_dim_size_to_factor: int = 128,
    epsilon: float = 1e-30,
    decay_rate_fn: Callable[[Any, float], Any] = decay_rate_pow,
) -> GradientTransformation:
    """As `scale_by_rms`, where of a matrix only the means of rows and of columns are kept.

    Args:
        factored: whether to do so.
        decay_rate: exponent of the decay.
        step_offset: number of the first step.
        min_dim_size_to_factor: where the second largest dimension is smaller, all is kept.
        epsilon: added to squares.
        decay_rate_fn: (step, decay_rate) -> decay of the averages.

    Source: Shazeer, Stern (2018), arXiv:1804.04235.
    """

    if not callable(decay_rate_fn):
        raise ArgumentError(
            "scale_by_factored_rms: decay_rate_fn must be a function of the step and decay_rate, "
            f"got {type(decay_rate_fn).__name__}. Leave it out for Adafactor's."
        )

    def dims(x: Any) -> tuple[int, int] | None:
        return _factored_dims(asarray(x).shape, factored, min_dim_size_to_factor)

    def init(params: Params) -> FactoredState:
        leaves, treedef = tree.flatten(params)
        rows, columns, whole = [], [], []
        for p in map(asarray, leaves):
            found = dims(p)
            if found is None:
                rows.append(zeros((1,), p.dtype))
                columns.append(zeros((1,), p.dtype))
                whole.append(zeros_like(p))
                continue
            small, large = found
            rows.append(zeros(tuple(np.delete(p.shape, large).tolist()), p.dtype))
            columns.append(zeros(tuple(np.delete(p.shape, small).tolist()), p.dtype))
            whole.append(zeros((1,), p.dtype))
        return FactoredState(
            zero_count(), *[tree.unflatten(treedef, x) for x in (rows, columns, whole)]
        )

    def one(g: Any, row: Any, column: Any, v: Any, decay: Any) -> tuple[Any, Any, Any, Any]:
        d = cast_as(decay, g)
        square = squared(g) + epsilon
        found = dims(g)
        if found is None:
            v = cast_as(d * v + (1 - d) * square, v)
            return g * v**-0.5, row, column, v
        small, large = found
        row = cast_as(d * row + (1 - d) * reductions.mean(square, axis=large), row)
        column = cast_as(d * column + (1 - d) * reductions.mean(square, axis=small), column)
        left = small - 1 if small > large else small
        row_factor = (row / reductions.mean(row, axis=left, keepdims=True)) ** -0.5
        scaled = g * expand_dims(row_factor, large) * expand_dims(column**-0.5, small)
        return scaled, row, column, v

    def update(
        updates: Updates, state: FactoredState, params: Params | None = None
    ) -> tuple[Updates, FactoredState]:
        decay = decay_rate_fn(state.count - step_offset, decay_rate)
        leaves, treedef = tree.flatten(updates)
        parts = [tree.leaves(x) for x in (state.v_row, state.v_col, state.v)]
        done = [
            one(asarray(g), row, column, v, decay)
            for g, row, column, v in zip(leaves, *parts, strict=True)
        ]
        new, *averages = [tree.unflatten(treedef, [entry[i] for entry in done]) for i in range(4)]
        return new, FactoredState(safe_increment(state.count), *averages)

    return GradientTransformation(init, update)


class ScaleBySM3State(NamedTuple):
    """For each dimension of each leaf its largest sums of squares; the average of updates."""

    mu: Updates
    nu: Updates


@maker
def scale_by_sm3(b1: float = 0.9, b2: float = 1.0, eps: float = 1e-8) -> GradientTransformation:
    """As `scale_by_rss`, where only the largest sum along each dimension is kept.

    Args:
        b1: decay of the average of scaled gradients, which is the update.
        b2: decay of the sums; 1: none.
        eps: added to the sums.

    Source: Anil, Gupta, Koren, Singer (2019), arXiv:1901.11150.
    """

    def init(params: Params) -> ScaleBySM3State:
        def along(p: Any) -> list[Any]:
            p = asarray(p)
            return [zeros((n,), p.dtype) for n in p.shape]

        return ScaleBySM3State(tree.map(along, params), zeros_of(params))

    def update(
        updates: Updates, state: ScaleBySM3State, params: Params | None = None
    ) -> tuple[Updates, ScaleBySM3State]:
        def total(g: Any, largest: list[Any]) -> Any:
            bound: Any = None
            for i, mu in enumerate(largest):
                spread = expand_dims(mu, tuple(k for k in range(g.ndim) if k != i))
                bound = spread if bound is None else minimum(bound, spread)
            grown = squared(g) if b2 == 1.0 else (1 - b2) * squared(g)
            return grown if bound is None else b2 * bound + grown

        def scaled(g: Any, s: Any) -> Any:
            return g * where(s > 0, rsqrt(where(s > 0, s, 1) + eps), 0)

        sums = tree.map(total, updates, state.mu)
        nu = update_moment(tree.map(scaled, updates, sums), state.nu, b1, 1)

        def along(s: Any) -> list[Any]:
            return [
                reductions.max(s, axis=tuple(k for k in range(s.ndim) if k != i))
                for i in range(s.ndim)
            ]

        return nu, ScaleBySM3State(tree.map(along, sums), nu)

    return GradientTransformation(init, update)
