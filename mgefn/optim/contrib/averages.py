"""Further relatives of Adam: two averages, a late measure of size, dual averaging."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from mgefn import dtypes, tree
from mgefn.core.array_methods import Array, DTypeLike
from mgefn.numpy.creation import asarray
from mgefn.ops.elementwise import cbrt, clip, imag, maximum, real, sqrt, where
from mgefn.optim.adam_family import ScaleByAdamState
from mgefn.optim.adding import add_decayed_weights
from mgefn.optim.base import (
    GradientTransformation,
    GradientTransformationExtraArgs,
    MaskOrFn,
    Params,
    ScalarOrSchedule,
    Updates,
    named,
    needs_params,
    with_extra_args_support,
)
from mgefn.optim.combining import chain
from mgefn.optim.making import maker
from mgefn.optim.numerics import (
    bias_correction,
    cast,
    cast_as,
    copy_of,
    dtype_or_none,
    safe_increment,
    squared,
    update_moment,
    update_moment_per_elem_norm,
    zero_count,
    zero_squares,
    zeros_of,
)
from mgefn.optim.scaling import scale_by_learning_rate


class ScaleByAdemamixState(NamedTuple):
    """Steps taken, also of the slow average; both averages of gradients, and that of squares."""

    count: Array  # type: ignore[assignment]  # optax's name, which hides tuple.count
    count_m2: Array
    m1: Updates
    m2: Updates
    nu: Updates


@maker
def scale_by_ademamix(
    b1: float = 0.9,
    b2: float = 0.999,
    b3: ScalarOrSchedule = 0.9999,
    alpha: ScalarOrSchedule = 6.0,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: DTypeLike | None = None,
) -> GradientTransformation:
    """As `scale_by_adam`, with a slow average of gradients beside the fast one.

    Args:
        b1, b2, eps, eps_root, mu_dtype: as for `scale_by_adam`.
        b3: decay of the slow average, a number or a schedule.
        alpha: share of the slow average, a number or a schedule.

    Source: Pagliardini, Ablin, Grangier (2024), arXiv:2409.03137.
    """
    mu_dtype = dtype_or_none(mu_dtype)

    def init(params: Params) -> ScaleByAdemamixState:
        return ScaleByAdemamixState(
            zero_count(), zero_count(), zeros_of(params, mu_dtype), zeros_of(params, mu_dtype),
            zero_squares(params),
        )  # fmt: skip

    def update(
        updates: Updates, state: ScaleByAdemamixState, params: Params | None = None
    ) -> tuple[Updates, ScaleByAdemamixState]:
        slow = b3(state.count_m2) if callable(b3) else b3
        share = alpha(state.count_m2) if callable(alpha) else alpha
        m1 = update_moment(updates, state.m1, b1, 1)
        m2 = update_moment(updates, state.m2, slow, 1)
        nu = update_moment_per_elem_norm(updates, state.nu, b2, 2)
        count = safe_increment(state.count)
        new = tree.map(
            lambda a, b, v: (a + share * b) / (sqrt(v + eps_root) + eps),
            bias_correction(m1, b1, count),
            m2,
            bias_correction(nu, b2, count),
        )
        return new, ScaleByAdemamixState(
            count, safe_increment(state.count_m2), cast(m1, mu_dtype), cast(m2, mu_dtype), nu
        )

    return GradientTransformation(init, update)


@maker
def ademamix(
    learning_rate: ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.999,
    b3: ScalarOrSchedule = 0.9999,
    alpha: ScalarOrSchedule = 5.0,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: DTypeLike | None = None,
    weight_decay: ScalarOrSchedule = 0.0,
    mask: MaskOrFn | None = None,
) -> GradientTransformationExtraArgs:
    """AdamW with two averages of gradients.

    Arguments as for `scale_by_ademamix` and `add_decayed_weights`.
    """
    return named(
        "ademamix",
        chain(
            scale_by_ademamix(b1, b2, b3, alpha, eps, eps_root, mu_dtype),
            add_decayed_weights(weight_decay, mask),
            scale_by_learning_rate(learning_rate),
        ),
    )


def _fourth_root(count: Any) -> Any:
    return count**0.25


@maker
def scale_by_adopt(
    b1: float = 0.9,
    b2: float = 0.9999,
    eps: float = 1e-6,
    mu_dtype: DTypeLike | None = None,
    *,
    nesterov: bool = False,
    use_clipping: bool = True,
    clip_value_fn: Callable[[Any], Any] = _fourth_root,
) -> GradientTransformation:
    """The average of gradients, each divided by the root of the squares before it.

    Args:
        b1, b2, mu_dtype, nesterov: as for `scale_by_adam`.
        eps: least root of the averaged square.
        use_clipping: whether divided gradients are limited.
        clip_value_fn: (number of the step, counted from 0) -> limit.

    Source: Taniguchi et al. (2024), arXiv:2411.02853.
    """
    mu_dtype = dtype_or_none(mu_dtype)

    def init(params: Params) -> ScaleByAdamState:
        return ScaleByAdamState(zero_count(), zeros_of(params, mu_dtype), zero_squares(params))

    def update(
        updates: Updates, state: ScaleByAdamState, params: Params | None = None
    ) -> tuple[Updates, ScaleByAdamState]:
        first = state.count == 0

        def divide(g: Any, v: Any) -> Any:
            u = g / maximum(sqrt(v), eps)
            if use_clipping:
                limit = cast_as(clip_value_fn(state.count), u)
                u = clip(u, -limit, limit)
            return u

        mean = update_moment(tree.map(divide, updates, state.nu), state.mu, b1, 1)
        mean = tree.map(lambda new, old: where(first, old, new), mean, state.mu)
        nu = tree.map(
            lambda g, v: where(first, squared(g), b2 * v + (1 - b2) * squared(g)),
            updates,
            state.nu,
        )
        out = mean
        if nesterov:
            out = tree.map(
                lambda m, g, v: where(first, m, b1 * m + (1 - b1) * divide(g, v)),
                mean,
                updates,
                state.nu,
            )
        return out, ScaleByAdamState(safe_increment(state.count), cast(mean, mu_dtype), nu)

    return GradientTransformation(init, update)


@maker
def adopt(
    learning_rate: ScalarOrSchedule,
    b1: float = 0.9,
    b2: float = 0.9999,
    eps: float = 1e-6,
    mu_dtype: DTypeLike | None = None,
    *,
    nesterov: bool = False,
    use_clipping: bool = True,
    clip_value_fn: Callable[[Any], Any] = _fourth_root,
) -> GradientTransformationExtraArgs:
    """Adam that converges for any b2. Arguments as for `scale_by_adopt`."""
    return named("adopt", chain(
        scale_by_adopt(
            b1, b2, eps, mu_dtype,
            nesterov=nesterov, use_clipping=use_clipping, clip_value_fn=clip_value_fn,
        ),
        scale_by_learning_rate(learning_rate),
    ))  # fmt: skip


class MadgradState(NamedTuple):
    """Steps taken, weighted sums of squares and of gradients, and the first params."""

    count: Array  # type: ignore[assignment]  # optax's name, which hides tuple.count
    grad_sum_sq: Updates
    s: Updates
    x0: Params


@maker
def scale_by_madgrad(
    learning_rate: ScalarOrSchedule, momentum: float = 0.9, eps: float = 1e-6
) -> GradientTransformation:
    """Dual averaging with momentum, divided by cube roots of summed squares.

    Args:
        learning_rate: a number or a schedule; it is part of the sums.
        momentum: share of the params that stays.
        eps: added to the cube roots and to the learning rate.

    Source: Defazio, Jelassi (2021), arXiv:2101.11075.
    """

    def init(params: Params) -> MadgradState:
        return MadgradState(zero_count(), zero_squares(params), zeros_of(params), copy_of(params))

    def update(
        updates: Updates, state: MadgradState, params: Params | None = None
    ) -> tuple[Updates, MadgradState]:
        needs_params("scale_by_madgrad", params)
        rate: Any = learning_rate(state.count) if callable(learning_rate) else learning_rate

        # The root of an int32 is a float32, also in optax.
        factor = (rate + eps) * sqrt(state.count + 1)

        def weight(like: Any) -> Any:
            return cast_as(factor, like)

        squares = tree.map(lambda g, v: v + weight(v) * squared(g), updates, state.grad_sum_sq)
        total = tree.map(lambda g, s: s + weight(s) * g, updates, state.s)
        new = tree.map(
            lambda p, x0, s, v: (1 - momentum) * (x0 - s / (cbrt(v) + eps) - p),
            params,
            state.x0,
            total,
            squares,
        )
        return new, MadgradState(safe_increment(state.count), squares, total, state.x0)

    return GradientTransformation(init, update)


@maker
def madgrad(
    learning_rate: ScalarOrSchedule,
    momentum: float = 0.9,
    weight_decay: ScalarOrSchedule = 0.0,
    eps: float = 1e-6,
) -> GradientTransformationExtraArgs:
    """Madgrad, with weight_decay times the params added to gradients.

    Arguments as for `scale_by_madgrad`.
    """
    return named(
        "madgrad",
        chain(add_decayed_weights(weight_decay), scale_by_madgrad(learning_rate, momentum, eps)),
    )


class SplitRealAndImaginaryArrays(NamedTuple):
    """Both parts of a complex array."""

    real: Array
    imaginary: Array


class SplitRealAndImaginaryState(NamedTuple):
    """The state of the optimizer of the parts."""

    inner_state: Any


@maker
def split_real_and_imaginary(inner: GradientTransformation) -> GradientTransformationExtraArgs:
    """An optimizer that sees real and imaginary parts of complex leaves as leaves of their own.

    Args:
        inner: the optimizer, of real arrays.
    """
    inner = with_extra_args_support(inner)

    def split(x: Any) -> Any:
        x = asarray(x)
        if not dtypes.is_complex(x.dtype):
            return x
        return SplitRealAndImaginaryArrays(real(x), imag(x))

    def is_split(x: Any) -> bool:
        return isinstance(x, SplitRealAndImaginaryArrays)

    def init(params: Params) -> SplitRealAndImaginaryState:
        return SplitRealAndImaginaryState(inner.init(tree.map(split, params)))

    def update(
        updates: Updates,
        state: SplitRealAndImaginaryState,
        params: Params | None = None,
        **extra_args: Any,
    ) -> tuple[Updates, SplitRealAndImaginaryState]:
        seen = None if params is None else tree.map(split, params)
        new, inner_state = inner.update(
            tree.map(split, updates), state.inner_state, seen, **extra_args
        )
        joined = tree.map(
            lambda x: x.real + 1j * x.imaginary if is_split(x) else x, new, is_leaf=is_split
        )
        return joined, SplitRealAndImaginaryState(inner_state)

    return GradientTransformationExtraArgs(init, update)
