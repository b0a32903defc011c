"""Averages of gradients divided by a measure of their size, after Adam and its relatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from mgefn import dtypes, tree
from mgefn.core.array_methods import Array, DTypeLike
from mgefn.errors import ArgumentError
from mgefn.numpy.creation import asarray, full_like, zeros
from mgefn.ops.elementwise import clip, convert, maximum, sign, sqrt, tanh, where
from mgefn.optim.base import GradientTransformation, Params, Updates, needs_params
from mgefn.optim.making import maker
from mgefn.optim.numerics import (
    bias_correction,
    cast,
    cast_as,
    dtype_or_none,
    one_minus_power,
    safe_increment,
    squared,
    sum_of_squares,
    update_infinity_moment,
    update_moment,
    update_moment_per_elem_norm,
    working_dtype,
    zero_count,
    zero_squares,
    zeros_of,
)


class ScaleByAdamState(NamedTuple):
    """Steps taken, and the decaying averages of gradients and of their squares."""

    count: Array  # type: ignore[assignment]  # optax's name, which hides tuple.count
    mu: Updates
    nu: Updates


class ScaleByBeliefState(NamedTuple):
    """Steps taken, and the decaying averages of gradients and of squares of their surprise."""

    count: Array  # type: ignore[assignment]  # optax's name, which hides tuple.count
    mu: Updates
    nu: Updates


class ScaleByNovogradState(NamedTuple):
    """Steps taken, the decaying sum of gradients, and averages of the leaves' squared norms."""

    count: Array  # type: ignore[assignment]  # optax's name, which hides tuple.count
    mu: Updates
    nu: Updates


def _looking_ahead(updates: Updates, mu: Updates, b1: Any, count: Array, nesterov: bool) -> Updates:
    """The corrected average of gradients, with Nesterov's step by one where asked for.

    Source: Dozat (2016), Incorporating Nesterov Momentum into Adam.
    """
    if not nesterov:
        return bias_correction(mu, b1, count)
    return tree.map(
        lambda m, g: b1 * m + (1 - b1) * g,
        bias_correction(mu, b1, safe_increment(count)),
        bias_correction(updates, b1, count),
    )


def _quotient(mu: Updates, nu: Updates, eps: Any, eps_root: Any) -> Updates:
    return tree.map(lambda m, v: m / (sqrt(v + eps_root) + eps), mu, nu)


@maker
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
    mu_dtype = dtype_or_none(mu_dtype)

    def init(params: Params) -> ScaleByAdamState:
        return ScaleByAdamState(zero_count(), zeros_of(params, mu_dtype), zero_squares(params))

    def update(
        updates: Updates, state: ScaleByAdamState, params: Params | None = None
    ) -> tuple[Updates, ScaleByAdamState]:
        mu = update_moment(updates, state.mu, b1, 1)
        nu = update_moment_per_elem_norm(updates, state.nu, b2, 2)
        count = safe_increment(state.count)
        ahead = _looking_ahead(updates, mu, b1, count, nesterov)
        new = _quotient(ahead, bias_correction(nu, b2, count), eps, eps_root)
        return new, ScaleByAdamState(count, cast(mu, mu_dtype), nu)

    return GradientTransformation(init, update)


class ScaleByAmsgradState(NamedTuple):
    """As for Adam, and the largest average of squares so far."""

    count: Array  # type: ignore[assignment]  # optax's name, which hides tuple.count
    mu: Updates
    nu: Updates
    nu_max: Updates


@maker
def scale_by_amsgrad(
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: DTypeLike | None = None,
    bias_correction_mu: bool = True,
    bias_correction_nu: bool = True,
) -> GradientTransformation:
    """As `scale_by_adam`, dividing by the largest average of squares so far.

    Args:
        b1, b2, eps, eps_root, mu_dtype: as for `scale_by_adam`.
        bias_correction_mu, bias_correction_nu: whether averages are divided by their weights.

    Source: Reddi, Kale, Kumar (2018), arXiv:1904.09237.
    """
    mu_dtype = dtype_or_none(mu_dtype)

    def init(params: Params) -> ScaleByAmsgradState:
        return ScaleByAmsgradState(
            zero_count(), zeros_of(params, mu_dtype), zero_squares(params), zero_squares(params)
        )

    def update(
        updates: Updates, state: ScaleByAmsgradState, params: Params | None = None
    ) -> tuple[Updates, ScaleByAmsgradState]:
        mu = update_moment(updates, state.mu, b1, 1)
        nu = update_moment_per_elem_norm(updates, state.nu, b2, 2)
        count = safe_increment(state.count)
        mu_hat = bias_correction(mu, b1, count) if bias_correction_mu else mu
        nu_hat = bias_correction(nu, b2, count) if bias_correction_nu else nu
        nu_max = tree.map(maximum, state.nu_max, nu_hat)
        new = _quotient(mu_hat, nu_max, eps, eps_root)
        return new, ScaleByAmsgradState(count, cast(mu, mu_dtype), nu, nu_max)

    return GradientTransformation(init, update)


@maker
def scale_by_adamax(
    b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8
) -> GradientTransformation:
    """The averaged gradient divided by the decaying maximum of its size.

    Args:
        b1: decay of the average.
        b2: decay of the maximum.
        eps: added to the size of each gradient.

    Source: Kingma, Ba (2015), arXiv:1412.6980, section 7.1.
    """

    def init(params: Params) -> ScaleByAdamState:
        return ScaleByAdamState(zero_count(), zeros_of(params), zero_squares(params))

    def update(
        updates: Updates, state: ScaleByAdamState, params: Params | None = None
    ) -> tuple[Updates, ScaleByAdamState]:
        mu = update_moment(updates, state.mu, b1, 1)
        nu = update_infinity_moment(updates, state.nu, b2, eps)
        count = safe_increment(state.count)
        new = tree.map(lambda m, v: m / v, bias_correction(mu, b1, count), nu)
        return new, ScaleByAdamState(count, mu, nu)

    return GradientTransformation(init, update)


@maker
def scale_by_belief(
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-16,
    eps_root: float = 1e-16,
    *,
    nesterov: bool = False,
) -> GradientTransformation:
    """The averaged gradient divided by the root of the averaged square of its surprise.

    The surprise is the gradient less its average.

    Args:
        b1, b2, eps, nesterov: as for `scale_by_adam`.
        eps_root: added to the averaged square at every step.

    Source: Zhuang et al. (2020), arXiv:2010.07468.
    """

    def init(params: Params) -> ScaleByBeliefState:
        return ScaleByBeliefState(zero_count(), zeros_of(params), zero_squares(params))

    def update(
        updates: Updates, state: ScaleByBeliefState, params: Params | None = None
    ) -> tuple[Updates, ScaleByBeliefState]:
        mu = update_moment(updates, state.mu, b1, 1)
        surprise = tree.map(lambda g, m: g - m, updates, mu)
        nu = update_moment_per_elem_norm(surprise, state.nu, b2, 2)
        nu = tree.map(lambda v: v + eps_root, nu)
        count = safe_increment(state.count)
        ahead = _looking_ahead(updates, mu, b1, count, nesterov)
        new = _quotient(ahead, bias_correction(nu, b2, count), eps, 0.0)
        return new, ScaleByBeliefState(count, mu, nu)

    return GradientTransformation(init, update)


@maker
def scale_by_yogi(
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-3,
    eps_root: float = 0.0,
    initial_accumulator_value: float = 1e-6,
) -> GradientTransformation:
    """As `scale_by_adam`, with a measure of size that moves by the square's sign of change.

    Args:
        b1, b2, eps, eps_root: as for `scale_by_adam`.
        initial_accumulator_value: where both averages start.

    Source: Zaheer et al. (2018), Adaptive Methods for Nonconvex Optimization.
    """

    def init(params: Params) -> ScaleByAdamState:
        def start(zeros: Any) -> Any:
            return tree.map(lambda z: full_like(z, initial_accumulator_value), zeros)

        return ScaleByAdamState(zero_count(), start(params), start(zero_squares(params)))

    def update(
        updates: Updates, state: ScaleByAdamState, params: Params | None = None
    ) -> tuple[Updates, ScaleByAdamState]:
        mu = update_moment(updates, state.mu, b1, 1)

        def move(g: Any, v: Any) -> Any:
            square = squared(g)
            return v - (1 - b2) * sign(v - square) * square

        nu = tree.map(move, updates, state.nu)
        count = safe_increment(state.count)
        mu_hat, nu_hat = bias_correction(mu, b1, count), bias_correction(nu, b2, count)
        return _quotient(mu_hat, nu_hat, eps, eps_root), ScaleByAdamState(count, mu, nu)

    return GradientTransformation(init, update)


@maker
def scale_by_radam(
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    threshold: float = 5.0,
    *,
    nesterov: bool = False,
) -> GradientTransformation:
    """As `scale_by_adam`, without the division while the averaged square is not known well.

    Args:
        b1, b2, eps, eps_root, nesterov: as for `scale_by_adam`.
        threshold: length of the average of squares from which on it is used.

    Source: Liu et al. (2020), arXiv:1908.03265.
    """
    longest = 2.0 / (1.0 - b2) - 1.0

    def init(params: Params) -> ScaleByAdamState:
        return ScaleByAdamState(zero_count(), zeros_of(params), zero_squares(params))

    def update(
        updates: Updates, state: ScaleByAdamState, params: Params | None = None
    ) -> tuple[Updates, ScaleByAdamState]:
        mu = update_moment(updates, state.mu, b1, 1)
        nu = update_moment_per_elem_norm(updates, state.nu, b2, 2)
        count = safe_increment(state.count)
        ahead = _looking_ahead(updates, mu, b1, count, nesterov)

        def rectify(m: Any, v: Any) -> Any:
            dtype = working_dtype(v.dtype)
            weight = one_minus_power(b2, count, dtype)
            length = longest - 2.0 * convert(count, dtype) * (1 - weight) / weight
            known = length >= threshold
            # Where the length is too small the root may be of a negative number.
            n = where(known, length, longest)
            factor = sqrt((n - 4.0) * (n - 2.0) * longest / ((longest - 4.0) * (longest - 2.0) * n))
            return where(known, cast_as(factor, v) * m / (sqrt(v + eps_root) + eps), m)

        new = tree.map(rectify, ahead, bias_correction(nu, b2, count))
        return new, ScaleByAdamState(count, mu, nu)

    return GradientTransformation(init, update)


@maker
def scale_by_novograd(
    b1: float = 0.9,
    b2: float = 0.25,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    weight_decay: float = 0.0,
    mu_dtype: DTypeLike | None = None,
) -> GradientTransformation:
    """The sum of gradients, each leaf divided by the root of its averaged squared norm.

    Args:
        b1: decay of the sum of gradients.
        b2: decay of the average of squared norms.
        eps, eps_root, mu_dtype: as for `scale_by_adam`.
        weight_decay: times the params, is added to the divided gradients.

    Source: Ginsburg et al. (2019), arXiv:1905.11286.
    """
    mu_dtype = dtype_or_none(mu_dtype)

    def init(params: Params) -> ScaleByNovogradState:
        norms = tree.map(lambda p: zeros((), dtypes.real_part_dtype(asarray(p).dtype)), params)
        return ScaleByNovogradState(zero_count(), zeros_of(params, mu_dtype), norms)

    def update(
        updates: Updates, state: ScaleByNovogradState, params: Params | None = None
    ) -> tuple[Updates, ScaleByNovogradState]:
        needs_params("scale_by_novograd", params)
        first = state.count == 0

        def average(g: Any, v: Any) -> Any:
            square = sum_of_squares(g)
            return where(first, square, (1 - b2) * square + b2 * v)

        nu = tree.map(average, updates, state.nu)

        def add(g: Any, p: Any, m: Any, v: Any) -> Any:
            return b1 * m + (g / (sqrt(v + eps_root) + eps) + weight_decay * p)

        mu = tree.map(add, updates, params, state.mu, nu)
        return mu, ScaleByNovogradState(safe_increment(state.count), cast(mu, mu_dtype), nu)

    return GradientTransformation(init, update)


class ScaleByAdanState(NamedTuple):
    """Averages of gradients, of their changes, of squares; the gradients before; steps taken."""

    m: Updates
    v: Updates
    n: Updates
    g: Updates
    t: Array


@maker
def scale_by_adan(
    b1: float = 0.98,
    b2: float = 0.92,
    b3: float = 0.99,
    eps: float = 1e-8,
    eps_root: float = 0.0,
) -> GradientTransformation:
    """As `scale_by_adam`, with the averaged change of the gradient added on both sides.

    Args:
        b1, b2, b3: decays of the averages of gradients, of their changes, of squares.
        eps, eps_root: as for `scale_by_adam`.

    Source: Xie et al. (2022), arXiv:2208.06677.
    """

    def init(params: Params) -> ScaleByAdanState:
        return ScaleByAdanState(
            zeros_of(params), zeros_of(params), zero_squares(params), zeros_of(params), zero_count()
        )

    def update(
        updates: Updates, state: ScaleByAdanState, params: Params | None = None
    ) -> tuple[Updates, ScaleByAdanState]:
        first = state.t == 0
        change = tree.map(
            lambda g, before: where(first, asarray(0, g.dtype), g - before), updates, state.g
        )
        ahead = tree.map(lambda g, d: g + (1 - b2) * d, updates, change)
        m = update_moment(updates, state.m, b1, 1)
        v = update_moment(change, state.v, b2, 1)
        n = update_moment_per_elem_norm(ahead, state.n, b3, 2)
        t = safe_increment(state.t)
        mean = tree.map(
            lambda m, v: m + (1 - b2) * v, bias_correction(m, b1, t), bias_correction(v, b2, t)
        )
        new = _quotient(mean, bias_correction(n, b3, t), eps, eps_root)
        return new, ScaleByAdanState(m, v, n, updates, t)

    return GradientTransformation(init, update)


class ScaleByLionState(NamedTuple):
    """Steps taken, and the decaying average of gradients."""

    count: Array  # type: ignore[assignment]  # optax's name, which hides tuple.count
    mu: Updates


@maker
def scale_by_lion(
    b1: float = 0.9,
    b2: float = 0.99,
    mu_dtype: DTypeLike | None = None,
    *,
    mode: str = "hard",
    smooth_beta: float = 1.0,
) -> GradientTransformation:
    """The sign of a mean of the gradient and its average.

    Args:
        b1: share of the average in that mean.
        b2: decay of the average.
        mu_dtype: dtype of the average; None: that of the params.
        mode: "hard" for the sign, "smooth" for tanh(smooth_beta * mean), "refined" for the mean
            limited to [-1, 1].
        smooth_beta: steepness for "smooth".

    Source: Chen et al. (2023), arXiv:2302.06675.
    """
    mu_dtype = dtype_or_none(mu_dtype)
    kinds: dict[str, Callable[[Any], Any]] = {
        "hard": sign,
        "smooth": lambda mean: tanh(smooth_beta * mean),
        "refined": lambda mean: clip(mean, -1, 1),
    }
    if mode not in kinds:
        raise ArgumentError(
            f"scale_by_lion: mode must be 'hard', 'smooth' or 'refined', got {mode!r}. Choose one."
        )

    def init(params: Params) -> ScaleByLionState:
        return ScaleByLionState(zero_count(), zeros_of(params, mu_dtype))

    def update(
        updates: Updates, state: ScaleByLionState, params: Params | None = None
    ) -> tuple[Updates, ScaleByLionState]:
        mean = update_moment(updates, state.mu, b1, 1)
        new = tree.map(kinds[mode], mean)
        mu = update_moment(updates, state.mu, b2, 1)
        return new, ScaleByLionState(safe_increment(state.count), cast(mu, mu_dtype))

    return GradientTransformation(init, update)
