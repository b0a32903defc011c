"""Numbers that optimizers share: counters, norms, decaying averages and their corrections."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mgefn import dtypes, tree
from mgefn.core.array_methods import Array, ArrayLike, DTypeLike
from mgefn.errors import ArgumentError, api_boundary
from mgefn.numpy import linalg
from mgefn.numpy.creation import array, asarray, zeros, zeros_like
from mgefn.ops import reductions
from mgefn.ops.elementwise import abs as absolute
from mgefn.ops.elementwise import conj, convert, expm1, maximum, real, sqrt, where
from mgefn.ops.shaping import squeeze

# -- counting --------------------------------------------------------------------------------------


def zero_count() -> Array:
    return zeros((), np.int32)


@api_boundary
def safe_increment(count: Any) -> Array:
    """count + 1, or count where that would overflow."""
    count = asarray(count)
    if not np.issubdtype(count.dtype, np.integer):
        last = dtypes.finfo(count.dtype).max
        return where(count < last, count + 1, last).astype(count.dtype)
    last = int(np.iinfo(count.dtype).max)
    return where(count < last, count + 1, last).astype(count.dtype)


@api_boundary
def safe_int32_increment(count: Any) -> Array:
    """`safe_increment` under its older name."""
    return safe_increment(count)


# -- squares and norms -----------------------------------------------------------------------------


def squared(x: Any) -> Any:
    """The square of the modulus, elementwise, real."""
    a = asarray(x)
    return real(a * conj(a)) if dtypes.is_complex(a.dtype) else a * a


def sum_of_squares(x: Any) -> Any:
    return reductions.sum(squared(x))


@api_boundary
def global_norm(updates: Any) -> Array:
    """The square root of the sum of squares of all elements of all leaves; derivative 0 at 0."""
    total: Any = asarray(0.0)
    for x in tree.leaves(updates):
        total = total + sum_of_squares(x)
    return sqrt(total)


@api_boundary
def safe_norm(
    x: ArrayLike,
    min_norm: ArrayLike,
    ord: Any = None,
    axis: Any = None,
    keepdims: bool = False,
) -> Array:
    """The norm, at least min_norm, with derivative 0 where it is not larger.

    Args:
        x: array of any shape.
        min_norm: lower bound.
        ord, axis, keepdims: as in `mgefn.numpy.linalg.norm`.

    Example:
        >>> from mgefn import optim
        >>> mgefn.grad(optim.safe_norm)(mnp.zeros(2), 1e-3)
        Array([0., 0.], dtype=float32)
    """
    x = asarray(x)
    norm = linalg.norm(x, ord, axis, True)
    small = norm <= min_norm
    # Where the norm is too small, its argument is replaced too: 0 times an infinite slope is nan.
    safe = linalg.norm(where(small, 1, x).astype(x.dtype), ord, axis, True)
    out = where(small, min_norm, safe).astype(norm.dtype)
    return out if keepdims else squeeze(out, axis)


@api_boundary
def safe_root_mean_squares(x: ArrayLike, min_rms: ArrayLike) -> Array:
    """The root of the mean of squares, at least min_rms, with derivative 0 where not larger."""
    x = asarray(x)
    rms = sqrt(reductions.mean(squared(x)))
    small = rms <= min_rms
    safe = sqrt(reductions.mean(squared(where(small, 1, x).astype(x.dtype))))
    return where(small, min_rms, safe).astype(rms.dtype)


# -- dtypes ----------------------------------------------------------------------------------------


def dtype_or_none(dtype: DTypeLike | None) -> Any:
    """The dtype that an option names; raises early where it names none."""
    return None if dtype is None else dtypes.canonical(dtype)


def cast(values: Any, dtype: DTypeLike | None) -> Any:
    """The tree in another dtype; None leaves it."""
    if dtype is None:
        return values
    new = dtypes.canonical(dtype)
    return tree.map(lambda x: convert(asarray(x), new), values)


def cast_as(x: Any, like: Any) -> Any:
    return convert(asarray(x), asarray(like).dtype)


def zeros_of(params: Any, dtype: DTypeLike | None = None) -> Any:
    return tree.map(lambda p: zeros_like(p, dtype), params)


def copy_of(params: Any) -> Any:
    """The params as arrays that are kept: a step that donates the params must leave the state."""
    return tree.map(lambda p: array(p, copy=True), params)


def zero_squares(params: Any) -> Any:
    """Zeros for averages of squares: squares of complex numbers' moduli are real."""
    return tree.map(lambda p: zeros_like(p, dtypes.real_part_dtype(asarray(p).dtype)), params)


# -- decaying averages -----------------------------------------------------------------------------


@api_boundary
def update_moment(updates: Any, moments: Any, decay: Any, order: int) -> Any:
    """decay * moments + (1 - decay) * updates**order, leaf by leaf."""
    return tree.map(
        lambda g, t: (1 - decay) * (asarray(g) if order == 1 else asarray(g) ** order) + decay * t,
        updates,
        moments,
    )


@api_boundary
def update_moment_per_elem_norm(updates: Any, moments: Any, decay: Any, order: int) -> Any:
    """decay * moments + (1 - decay) * |updates|**order, real also for complex updates."""

    def power(g: Any) -> Any:
        if order == 2:
            return squared(g)
        size = absolute(asarray(g))
        return size if order == 1 else size**order

    return tree.map(lambda g, t: (1 - decay) * power(g) + decay * t, updates, moments)


@api_boundary
def update_infinity_moment(updates: Any, moments: Any, decay: Any, eps: Any) -> Any:
    """The larger of |updates| + eps and decay * moments, leaf by leaf."""
    return tree.map(lambda g, t: maximum(absolute(asarray(g)) + eps, decay * t), updates, moments)


@api_boundary
def bias_correction(moment: Any, decay: Any, count: ArrayLike) -> Any:
    """moment / (1 - decay**count): averages that start at 0 divided by the sum of their weights.

    Example:
        >>> from mgefn import optim
        >>> optim.bias_correction(mnp.array([0.1]), 0.9, mnp.array(1))
        Array([1.], dtype=float32)
    """
    weight = weights_so_far(decay, count)
    return tree.map(lambda m: asarray(m) / weight(m), moment)


def weights_so_far(decay: Any, count: Any) -> Callable[[Any], Any]:
    """For a leaf, 1 - decay**count in its dtype, computed once for each dtype."""
    found: dict[np.dtype, Any] = {}

    def weight(leaf: Any) -> Any:
        dtype = dtypes.real_part_dtype(asarray(leaf).dtype)
        if dtype not in found:
            found[dtype] = convert(one_minus_power(decay, count, dtype), dtype)
        return found[dtype]

    return weight


def working_dtype(dtype: Any) -> Any:
    """That in which scalars for leaves of this dtype are computed: not below the default."""
    return dtypes.promote_types(dtype, dtypes.default_float())


def one_minus_power(base: Any, count: Any, dtype: Any) -> Any:
    """1 - base**count, exact also for a base near 1, whose power would round to few digits."""
    steps = convert(asarray(count), working_dtype(dtype))
    if isinstance(base, (int, float)) and base > 0:
        return -expm1(steps * math.log(base))
    return 1 - asarray(base) ** steps


def check_positive(operation: str, name: str, value: Any) -> None:
    if not value > 0:
        raise ArgumentError(
            f"{operation}: {name} must be positive, got {value}. Give a larger one."
        )
