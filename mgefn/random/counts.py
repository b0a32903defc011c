"""Distributions of counts: geometric, Poisson, binomial, multinomial.

Poisson and binomial numbers come by rejection, in the order of draws of jax.random and with the
roundings of its compiler: where a comparison falls the other way by a rounding, the numbers of that
round differ.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.api.jit import jit
from mgefn.control.loops import while_loop
from mgefn.control.scan import scan
from mgefn.core.array import scalar
from mgefn.core.array_methods import Array, ArrayLike, DTypeLike
from mgefn.errors import (
    DTypeError,
    ShapeError,
    api_boundary,
)
from mgefn.numpy.creation import asarray, zeros
from mgefn.ops.cumulative import cumsum_along
from mgefn.ops.elementwise import (
    abs,
    ceil,
    clip,
    convert,
    floor,
    isinf,
    isnan,
    logical_not,
    promoted,
    sqrt,
    where,
)
from mgefn.ops.indexing.select import take
from mgefn.ops.random_bits import sampling_log1p_p, sampling_log_p
from mgefn.ops.shaping import (
    broadcast_to,
    canonical_shape,
    moveaxis,
)
from mgefn.random.keys import key_words, row, split
from mgefn.random.uniforms import (
    float_dtype,
    fma,
    result_shape,
    uniform,
)

FLOAT32 = np.dtype(np.float32)

_log, _log1p = sampling_log_p.bind1, sampling_log1p_p.bind1

_MOST = 2**31 - 2  # rounds; never reached, but the loop must not depend on its inputs being sane


@api_boundary
def geometric(
    key: ArrayLike, p: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None
) -> Array:
    """How many trials of success probability p it takes to the first success."""
    new = dtypes.default_int() if dtype is None else dtypes.canonical(dtype)
    (x,) = promoted("geometric", (p,), inexact=True)
    u = uniform(key, result_shape("geometric", shape, x), x.dtype)
    u = where(u == 0, 1, u)
    return convert(floor(_log(u) / _log1p(-x)) + 1, new)


# -- Poisson --------------------------------------------------------------------------------------


@api_boundary
def poisson(
    key: ArrayLike, lam: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None
) -> Array:
    """Numbers from the Poisson distribution with mean lam.

    Args:
        key: a key.
        lam: the mean, nonnegative; taken as float32. The result is -1 where it is NaN.
        shape: of the result; None: that of lam.
        dtype: an integer type; None: int32 by default.

    Example:
        >>> mgefn.random.poisson(mgefn.random.key(0), 3.0, (4,))
        Array([0, 0, 4, 4], dtype=int32)

    Sources: Knuth, The Art of Computer Programming 2, 3.4.1, for lam < 10; Hormann (1993), The
    transformed rejection method for generating Poisson random variables, Insurance: Mathematics and
    Economics 12(1), 39-45, doi:10.1016/0167-6687(93)90997-4.
    """
    new = dtypes.default_int() if dtype is None else dtypes.canonical(dtype)
    if not dtypes.is_integer(new):
        raise DTypeError(f"poisson: dtype must be an integer type, got {new}.")
    x = key_words("poisson", key)
    mean = broadcast_to(asarray(lam), result_shape("poisson", shape, lam))
    return _poisson(x, convert(mean, FLOAT32), new)


@functools.partial(jit, static_argnums=2)
def _poisson(key: Any, lam: Any, dtype: np.dtype) -> Any:
    few = isnan(lam) | (lam < 10)
    by_products = _poisson_knuth(key, where(few, lam, 0.0), dtype)
    by_rejection = _poisson_rejection(key, where(few, 1e5, lam), dtype)
    return where(lam == 0, 0, where(few, by_products, by_rejection))


def _poisson_knuth(key: Any, lam: Any, dtype: np.dtype) -> Any:
    def some_left(state: Any) -> Any:
        i, _, _, log_product = state
        return (log_product > -lam).any() & (i < _MOST)

    def draw(state: Any) -> Any:
        i, k, key, log_product = state
        keys = split(key)
        k = where(log_product > -lam, k + 1, k)
        u = uniform(row(keys, 1), lam.shape, FLOAT32)
        return i + 1, k, row(keys, 0), log_product + _log(u)

    zero = zeros(lam.shape, dtype)
    k = while_loop(some_left, draw, (0, zero, key, zeros(lam.shape, FLOAT32)))[1]
    return k - 1


def _poisson_rejection(key: Any, lam: Any, dtype: np.dtype) -> Any:
    log_lam = _log(lam)
    b = fma(sqrt(lam), 2.53, 0.931)
    a = fma(b, 0.02483, -0.059)
    inv_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)

    def some_left(state: Any) -> Any:
        i, _, accepted, _ = state
        return logical_not(accepted).any() & (i < _MOST)

    def draw(state: Any) -> Any:
        i, k_out, accepted, key = state
        keys = split(key, 3)
        u = uniform(row(keys, 1), lam.shape, lam.dtype) - 0.5
        v = uniform(row(keys, 2), lam.shape, lam.dtype)
        us = 0.5 - abs(u)
        k = floor(fma(2 * a / us + b, u, lam) + 0.43)
        s = _log(v * inv_alpha / (a / (us * us) + b))
        bound = fma(k, log_lam, -lam) - _log_factorial(k)
        squeezed = (us >= 0.07) & (v <= v_r)
        outside = (k < 0) | ((us < 0.013) & (v > us))
        accept = squeezed | (logical_not(outside) & (s <= bound))
        return i + 1, where(accept, k, k_out), accepted | accept, row(keys, 0)

    none = zeros(lam.shape, bool)
    k = while_loop(some_left, draw, (0, zeros(lam.shape, lam.dtype) - 1, none, key))[1]
    return convert(k, dtype)


_LANCZOS = (
    676.520368121885098567009190444019,
    -1259.13921672240287047156078755283,
    771.3234287776530788486528258894,
    -176.61502916214059906584551354,
    12.507343278686904814458936853,
    -0.13857109526572011689554707,
    9.984369578019570859563e-6,
    1.50563273514931155834e-7,
)


def _log_factorial(k: Any) -> Any:
    """_log(k!) for k >= 0, by the formula and in the order that XLA has for float32.

    The logarithms of large factorials are rounded coarsely, and these roundings decide which draws
    are accepted; the exact function would accept others.
    """
    series: Any = scalar(0.99999999999980993227684700473478, k.dtype)
    for i, c in enumerate(_LANCZOS):
        series = series + c / (k + (i + 1))
    t = 7.5 + k
    log_t = math.log(7.5) + _log1p(k * scalar(1 / 7.5, k.dtype))
    half_log = scalar(math.log(math.sqrt(2 * math.pi)), k.dtype)
    return fma(k + 0.5 - t / log_t, log_t, half_log) + _log(series)


# -- binomial -------------------------------------------------------------------------------------


@api_boundary
def binomial(
    key: ArrayLike,
    n: ArrayLike,
    p: ArrayLike,
    shape: Any = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """How many of n trials succeed, each with probability p.

    Args:
        key: a key.
        n: the number of trials, an integer or a whole floating number.
        p: the probability, in [0, 1].
        shape: of the result; n and p broadcast to it. None: their common shape.
        dtype: a floating type; None: float32 by default.

    Returns:
        Whole floating numbers; NaN where p is NaN or negative, or n is NaN or negative.

    Example:
        >>> mgefn.random.binomial(mgefn.random.key(0), 10, 0.5, (4,))
        Array([6., 7., 5., 6.], dtype=float32)

    Sources: Kachitvichyanukul, Schmeiser (1988), Binomial random variate generation,
    Communications of the ACM 31(2), 216-222, doi:10.1145/42372.42381, for n p <= 10; Hormann
    (1993), The generation of binomial random variates, Journal of Statistical Computation and
    Simulation 46(1-2), 101-110, doi:10.1080/00949659308811496.
    """
    new = float_dtype("binomial", dtype)
    x = key_words("binomial", key)
    (prob,) = promoted("binomial", (p,), inexact=True)
    count = convert(asarray(n), prob.dtype)
    sizes = result_shape("binomial", shape, count, prob)
    return _binomial(x, broadcast_to(count, sizes), broadcast_to(prob, sizes), new)


@functools.partial(jit, static_argnums=3)
def _binomial(key: Any, count: Any, prob: Any, dtype: np.dtype) -> Any:
    below_half = prob < 0.5
    q = where(below_half, prob, 1.0 - prob)
    bad_count = isnan(count) | (count < 0.0)
    q_is_nan, negative = isnan(q), q < 0.0
    q = where(q_is_nan | negative, 0.01, q)
    few = bad_count | (count * q <= 10.0)
    endless = isinf(count)
    count = floor(count)
    by_inversion = _binomial_inversion(key, where(few, count, 0.0), q, dtype)
    by_rejection = _btrs(key, where(few, 1e4, count), where(few, 0.5, q), dtype)
    samples = where(few, by_inversion, by_rejection)
    invalid = negative | q_is_nan | bad_count
    samples = where(invalid, scalar(math.nan, dtype), samples)
    samples = where(endless & logical_not(invalid), scalar(math.inf, dtype), samples)
    as_drawn = below_half | bad_count | q_is_nan | endless
    return where(as_drawn, samples, convert(count, dtype) - samples)


def _binomial_inversion(key: Any, count: Any, prob: Any, dtype: np.dtype) -> Any:
    log_failure = _log1p(-prob)

    def some_left(state: Any) -> Any:
        i, _, total, _ = state
        return (total <= count).any() & (i < _MOST)

    def draw(state: Any) -> Any:
        i, k, total, key = state
        keys = split(key)
        k = where(total <= count, k + 1, k)
        u = uniform(row(keys, 0), prob.shape, prob.dtype)
        return i + 1, k, total + ceil(_log(u) / log_failure), row(keys, 1)

    zero = zeros(prob.shape, prob.dtype)
    k = while_loop(some_left, draw, (0, zero, zero, key))[1]
    return convert(k - 1, dtype)


def _btrs(key: Any, count: Any, prob: Any, dtype: np.dtype) -> Any:
    """Transformed rejection with squeeze."""
    deviation = sqrt(count * prob * (1 - prob))
    b = fma(deviation, 2.53, 1.15)
    a = fma(prob, 0.01, fma(b, 0.0248, -0.0873))
    c = fma(count, prob, 0.5)
    v_r = 0.92 - 4.2 / b
    r = prob / (1 - prob)
    alpha = (2.83 + 5.1 / b) * deviation
    m = floor((count + 1) * prob)

    def some_left(state: Any) -> Any:
        i, _, accepted, _ = state
        return logical_not(accepted).any() & (i < _MOST)

    def draw(state: Any) -> Any:
        i, k_out, accepted, key = state
        keys = split(key, 3)
        u = uniform(row(keys, 1), prob.shape, prob.dtype)
        v = uniform(row(keys, 2), prob.shape, prob.dtype)
        u = u - 0.5
        us = 0.5 - abs(u)
        squeezed = (us >= 0.07) & (v <= v_r)
        k = floor(fma(2 * a / us + b, u, c))
        outside = (k < 0) | (k > count)
        v = _log(v * alpha / (a / (us * us) + b))
        bound = (m + 0.5) * _log((m + 1) / (r * (count - m + 1)))
        bound = fma(count + 1, _log((count - m + 1) / (count - k + 1)), bound)
        bound = fma(k + 0.5, _log(r * (count - k + 1) / (k + 1)), bound)
        bound = (
            bound
            + _stirling_tail(m)
            + _stirling_tail(count - m)
            - _stirling_tail(k)
            - _stirling_tail(count - k)
        )
        accept = squeezed | (logical_not(outside) & (v <= bound))
        return i + 1, where(accept, k, k_out), accepted | accept, row(keys, 0)

    none = zeros(prob.shape, bool)
    start = (0, zeros(prob.shape, prob.dtype) - 1, none, key)
    return convert(while_loop(some_left, draw, start)[1], dtype)


# _log(k!) less Stirling's formula for it, for k up to 9.
_STIRLING_TAILS = (
    0.0810614667953272,
    0.0413406959554092,
    0.0276779256849983,
    0.02079067210376509,
    0.0166446911898211,
    0.0138761288230707,
    0.0118967099458917,
    0.0104112652619720,
    0.00925546218271273,
    0.00833056343336287,
)


def _stirling_tail(k: Any) -> Any:
    table = asarray(np.array(_STIRLING_TAILS, k.dtype))
    in_table = k <= 9
    k = clip(k, 0.0, 9.0)
    square = (k + 1) * (k + 1)
    series = (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1)
    return where(in_table, take(table, convert(floor(k), np.dtype(np.int32)), 0), series)


@api_boundary
def multinomial(
    key: ArrayLike,
    n: ArrayLike,
    p: ArrayLike,
    *,
    shape: Any = None,
    dtype: DTypeLike | None = None,
    unroll: int | bool = 1,
) -> Array:
    """How many of n trials give each of several outcomes.

    Args:
        key: a key.
        n: the number of trials.
        p: the probabilities of the outcomes along the last dimension; they add up to 1.
        shape: of the result, with the dimension of the outcomes; None: that of p.
        dtype: None: float32 by default.
        unroll: accepted for JAX's programs.

    Returns:
        Counts, which add up to n along the last dimension.
    """
    key = key_words("multinomial", key)
    new = dtypes.default_float() if dtype is None else dtypes.canonical(dtype)
    trials, prob = promoted("multinomial", (n, p), inexact=True)
    if not prob.ndim:
        raise ShapeError(f"multinomial: p must have rank 1 or more, got {prob.aval}.")
    sizes = prob.shape if shape is None else canonical_shape("multinomial", shape)
    result_shape("multinomial", sizes[:-1], trials)
    prob = moveaxis(broadcast_to(prob, result_shape("multinomial", sizes, prob)), -1, 0)
    left = cumsum_along(prob, 0, reverse=True)
    ratios = prob / where(left == 0, 1, left)
    keys = split(key, sizes[-1])
    _, counts = scan(_outcome, broadcast_to(trials, sizes[:-1]), (ratios, keys))
    return convert(moveaxis(counts, 0, -1), new)


def _outcome(left: Any, ratio_key: Any) -> Any:
    """The count of one outcome among the trials that are left."""
    ratio, key = ratio_key
    count = binomial(key, left, clip(ratio, 0, 1), dtype=left.dtype)
    return left - count, count


__all__ = [
    "binomial",
    "geometric",
    "multinomial",
    "poisson",
]
