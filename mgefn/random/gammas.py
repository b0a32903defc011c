"""The gamma distribution and what is made from it: beta, Dirichlet, chi-square, t, F, balls.

Numbers come by rejection, each element with a key of its own, in the order of draws of jax.random:
where a comparison falls the other way by a rounding, that one number differs.
"""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.api.batch import vmap
from mgefn.api.jit import jit
from mgefn.control.custom_rules import custom_jvp
from mgefn.control.loops import while_loop
from mgefn.core.array import scalar
from mgefn.core.array_methods import Array, ArrayLike, DTypeLike
from mgefn.errors import (
    ShapeError,
    api_boundary,
)
from mgefn.numpy.creation import asarray
from mgefn.ops.elementwise import (
    abs,
    convert,
    exp,
    maximum,
    sqrt,
    stop_gradient_leaf,
    where,
)
from mgefn.ops.elementwise import scale as scale_by
from mgefn.ops.random_bits import sampling_exp_p, sampling_log_p
from mgefn.ops.shaping import (
    broadcast_to,
    canonical_shape,
    expand_dims,
    reshape,
)
from mgefn.ops.special import random_gamma_grad
from mgefn.random.continuous import exponential, normal, over, powers
from mgefn.random.keys import key_words, row, split
from mgefn.random.uniforms import (
    float_dtype,
    fma,
    rademacher,
    result_shape,
    uniform,
)

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)

_log = sampling_log_p.bind1

# -- gamma ----------------------------------------------------------------------------------------


def _one(key: Any, alpha: Any, log_space: bool) -> Any:
    """One number by Marsaglia's and Tsang's method, or its logarithm."""
    dtype = alpha.dtype

    def number(value: float) -> Any:
        return scalar(value, dtype)

    # The method needs alpha >= 1. For smaller ones Gamma(alpha) is Gamma(alpha + 1) times
    # U**(1 / alpha), which underflows for small alpha; hence log space.
    large = alpha >= 1
    raised = where(large, alpha, alpha + 1)
    d = raised - number(1.0 / 3.0)
    # JAX's compiler takes the processor's reciprocal root, which is within a rounding of this one.
    wide = FLOAT64 if dtype == FLOAT32 else dtype
    c = number(1.0 / 3.0) * convert(1 / sqrt(convert(d, wide)), dtype)

    def rejected(state: Any) -> Any:
        _, x2, v3, u = state
        outside_squeeze = u >= fma(x2 * x2, -0.0331, 1.0)
        return outside_squeeze & (_log(u) >= fma(d, (1 - v3) + _log(v3), x2 * number(0.5)))

    def draw(state: Any) -> Any:
        def negative(inner: Any) -> Any:
            return inner[2] <= 0

        def again(inner: Any) -> Any:
            keys = split(inner[0])
            x = normal(row(keys, 1), (), dtype)
            return row(keys, 0), x, fma(x, c, 1.0)

        keys = split(state[0], 3)
        start = (row(keys, 1), number(0), number(-1))
        _, x, v = while_loop(negative, again, start)
        return row(keys, 0), x * x, (v * v) * v, uniform(row(keys, 2), (), dtype)

    keys = split(key)
    # The first state is one that is rejected.
    start = (row(keys, 0), number(0), number(1), number(2))
    v3 = while_loop(rejected, draw, start)[2]
    if log_space:
        log_u = -exponential(row(keys, 1), (), dtype)
        boost = where(large | (log_u == 0), number(0), log_u * (1 / alpha))
        return _log(d) + _log(v3) + boost
    u = 1 - uniform(row(keys, 1), (), dtype)
    return d * v3 * where(large, number(1), powers(u, 1 / alpha))


@functools.partial(jit, static_argnums=2)
def _all(key: Any, a: Any, log_space: bool) -> Any:
    """A number for each element of a, each with its own key."""
    keys = split(key, a.size)
    flat = vmap(lambda k, alpha: _one(k, alpha, log_space))(keys, reshape(a, (a.size,)))
    return reshape(flat, a.shape)


@functools.partial(custom_jvp, nondiff_argnums=(2,))
def _gamma(key: Any, a: Any, log_space: bool) -> Any:
    return _all(key, a, log_space)


@_gamma.defjvp
def _gamma_jvp(log_space: bool, primals: Any, tangents: Any) -> Any:
    key, a = primals
    sample = _gamma(key, a, log_space)
    if log_space:
        tiny = scalar(float(dtypes.finfo(a.dtype).tiny), a.dtype)
        x = exp(sample)
        x = where(x == 0, tiny, x)
        slope = random_gamma_grad(a, x) / x
    else:
        slope = random_gamma_grad(a, sample)
    return sample, scale_by(tangents[1], slope)


def _gamma_of(name: str, key: Any, a: Any, sizes: tuple[int, ...], dtype: Any, log_space: bool):
    x = key_words(name, key)
    order = broadcast_to(convert(asarray(a), dtype), sizes)
    if order.size == 0:
        return order
    return _gamma(x, order, log_space)


@api_boundary
def gamma(key: ArrayLike, a: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None) -> Array:
    """Numbers from the gamma distribution of order a and scale 1.

    Their derivative in a is that of the number at a fixed value of the distribution function.

    Args:
        key: a key.
        a: the order, positive; broadcasts to shape.
        shape: of the result; None: that of a.
        dtype: a floating type; None: float32 by default.

    Example:
        >>> mgefn.random.gamma(mgefn.random.key(0), 2.0, (2,))
        Array([1.5897877, 1.7599413], dtype=float32)

    Source: Marsaglia, Tsang (2000), A simple method for generating gamma variables, ACM
    Transactions on Mathematical Software 26(3), 363-372, doi:10.1145/358407.358414.
    """
    new = float_dtype("gamma", dtype)
    return _gamma_of("gamma", key, a, result_shape("gamma", shape, a), new, False)


@api_boundary
def loggamma(
    key: ArrayLike, a: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None
) -> Array:
    """Logarithms of `gamma` numbers, exact also where these underflow, for small a."""
    new = float_dtype("loggamma", dtype)
    return _gamma_of("loggamma", key, a, result_shape("loggamma", shape, a), new, True)


# -- distributions made from it -------------------------------------------------------------------


@api_boundary
def beta(
    key: ArrayLike,
    a: ArrayLike,
    b: ArrayLike,
    shape: Any = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Numbers from the beta distribution with parameters a and b, both positive."""
    new = float_dtype("beta", dtype)
    sizes = result_shape("beta", shape, a, b)
    keys = _two("beta", key)
    log_a = _gamma_of("beta", row(keys, 0), a, sizes, new, True)
    log_b = _gamma_of("beta", row(keys, 1), b, sizes, new, True)
    # a / (a + b) without underflow.
    most = maximum(log_a, log_b)
    x, y = (sampling_exp_p.bind1(v - most) for v in (log_a, log_b))
    return x / (x + y)


def _two(name: str, key: Any) -> Any:
    return split(key_words(name, key))


@api_boundary
def dirichlet(
    key: ArrayLike, alpha: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None
) -> Array:
    """Vectors from the Dirichlet distribution: positive numbers that add up to 1.

    Args:
        key: a key.
        alpha: concentrations, along the last dimension.
        shape: of the result without its last dimension; None: that of alpha without it.
        dtype: a floating type; None: float32 by default.

    Example:
        >>> mgefn.random.dirichlet(mgefn.random.key(0), mnp.ones(3)).sum().round(5)
        Array(1., dtype=float32)
    """
    new = float_dtype("dirichlet", dtype)
    x = convert(asarray(alpha), new)
    if not x.ndim:
        raise ShapeError(f"dirichlet: alpha must have rank 1 or more, got {x.aval}.")
    lead = x.shape[:-1] if shape is None else canonical_shape("dirichlet", shape)
    sizes = result_shape("dirichlet", (*lead, x.shape[-1]), x)
    logs = _gamma_of("dirichlet", key, x, sizes, new, True)
    parts = sampling_exp_p.bind1(
        logs - stop_gradient_leaf(logs.max(-1, keepdims=True, initial=-math.inf))
    )
    return over(parts, parts.sum(-1, keepdims=True))


@api_boundary
def chisquare(
    key: ArrayLike, df: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None
) -> Array:
    """Numbers from the chi-square distribution with df degrees of freedom."""
    new = float_dtype("chisquare", dtype)
    return _chisquare("chisquare", key, df, result_shape("chisquare", shape, df), new)


def _chisquare(name: str, key: Any, df: Any, sizes: tuple[int, ...], dtype: Any) -> Any:
    half = convert(asarray(df), dtype) / scalar(2, dtype)
    return sampling_exp_p.bind1(_gamma_of(name, key, half, sizes, dtype, True)) * scalar(2, dtype)


@api_boundary
def t(key: ArrayLike, df: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None) -> Array:
    """Numbers from Student's t distribution with df degrees of freedom."""
    new = float_dtype("t", dtype)
    sizes = result_shape("t", shape, df)
    keys = _two("t", key)
    half = convert(asarray(df), new) / scalar(2, new)
    n = normal(row(keys, 0), sizes, new)
    return n * sqrt(half / _gamma_of("t", row(keys, 1), half, sizes, new, False))


@api_boundary
def f(
    key: ArrayLike,
    dfnum: ArrayLike,
    dfden: ArrayLike,
    shape: Any = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Numbers from the F distribution: ratios of two `chisquare` numbers over their freedoms."""
    new = float_dtype("f", dtype)
    sizes = result_shape("f", shape, dfnum, dfden)
    keys = _two("f", key)
    num, den = (convert(asarray(v), new) for v in (dfnum, dfden))
    above = _chisquare("f", row(keys, 1), num, sizes, new)
    below = _chisquare("f", row(keys, 0), den, sizes, new)
    return over(above, num) / over(below, den)


@api_boundary
def generalized_normal(
    key: ArrayLike, p: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None
) -> Array:
    """Numbers with a density in proportion to exp(-|x|**p)."""
    new = float_dtype("generalized_normal", dtype)
    sizes = canonical_shape("generalized_normal", shape)
    keys = _two("generalized_normal", key)
    inverse = 1 / p
    g = _gamma_of("generalized_normal", row(keys, 0), inverse, sizes, new, False)
    return rademacher(row(keys, 1), sizes, new) * powers(g, inverse)


@api_boundary
def ball(
    key: ArrayLike, d: int, p: ArrayLike = 2, shape: Any = (), dtype: DTypeLike | None = None
) -> Array:
    """Points evenly distributed in the unit ball of the p-norm in d dimensions.

    Args:
        key: a key.
        d: the number of dimensions, the last dimension of the result.
        p: which norm.
        shape: of the result without its last dimension.
        dtype: a floating type; None: float32 by default.

    Source: Barthe, Guedon, Mendelson, Naor (2005), A probabilistic approach to the geometry of the
    l_p^n-ball, Annals of Probability 33(2), 480-513, doi:10.1214/009117904000000874.
    """
    new = float_dtype("ball", dtype)
    sizes = canonical_shape("ball", shape)
    keys = _two("ball", key)
    g = generalized_normal(row(keys, 0), p, (*sizes, operator.index(d)), new)
    e = exponential(row(keys, 1), sizes, new)
    length = powers(powers(abs(g), p).sum(-1) + e, 1 / p)
    return over(g, expand_dims(length, -1))


__all__ = [
    "ball",
    "beta",
    "chisquare",
    "dirichlet",
    "f",
    "gamma",
    "generalized_normal",
    "loggamma",
    "t",
]
