"""Continuous distributions that are functions of a few uniform or normal numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.core.array import ConcreteArray, scalar
from mgefn.core.array_methods import Array, ArrayLike, DTypeLike
from mgefn.errors import (
    ArgumentError,
    api_boundary,
)
from mgefn.numpy.creation import asarray
from mgefn.numpy.linalg import norm
from mgefn.ops.elementwise import (
    abs,
    clip,
    convert,
    exp,
    log,
    log1p,
    nextafter,
    power,
    sign,
    sqrt,
    stop_gradient_leaf,
    tan,
    where,
)
from mgefn.ops.shaping import (
    broadcast_to,
    canonical_shape,
)
from mgefn.ops.special import erf, erf_inv
from mgefn.random.keys import row, split
from mgefn.random.uniforms import (
    float_dtype,
    rademacher,
    result_shape,
    uniform,
    uniform_of,
    uniform_pair,
)


@api_boundary
def normal(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None) -> Array:
    """Numbers from the normal distribution with mean 0 and variance 1.

    Complex numbers have independent parts of variance 1/2 each.

    Example:
        >>> mgefn.random.normal(mgefn.random.key(0), (2,))
        Array([1.622642 , 2.0252647], dtype=float32)
    """
    new = dtypes.default_float() if dtype is None else dtypes.canonical(dtype)
    sizes = canonical_shape("normal", shape)
    if dtypes.is_complex(new):
        keys = split(key)
        part = dtypes.real_part_dtype(new)
        real, imag = (convert(_normal(row(keys, i), sizes, part), new) for i in range(2))
        return (real + 1j * imag) / scalar(math.sqrt(2), new)
    return _normal(key, sizes, float_dtype("normal", new))


def _normal(key: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    low = np.nextafter(np.array(-1, dtype), np.array(0, dtype))
    u = uniform_of("normal", key, shape, dtype, ConcreteArray(np.asarray(low)), scalar(1, dtype))
    return scalar(math.sqrt(2), dtype) * erf_inv(u)


@api_boundary
def truncated_normal(
    key: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    shape: Any = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Numbers from the standard normal distribution between two bounds."""
    new = float_dtype("truncated_normal", dtype)
    sizes = result_shape("truncated_normal", shape, lower, upper)
    low, high = (convert(asarray(v), new) for v in (lower, upper))
    root2 = scalar(math.sqrt(2), new)
    u = uniform_of("truncated_normal", key, sizes, new, erf(low / root2), erf(high / root2))
    out = root2 * erf_inv(u)
    # Rounding must not reach the bounds.
    inf = scalar(math.inf, new)
    return clip(
        out, nextafter(stop_gradient_leaf(low), inf), nextafter(stop_gradient_leaf(high), -inf)
    )


@api_boundary
def exponential(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None) -> Array:
    """Numbers from the exponential distribution with mean 1."""
    new = float_dtype("exponential", dtype)
    return -log1p(
        -uniform_of("exponential", key, canonical_shape("exponential", shape), new, 0.0, 1.0)
    )


@api_boundary
def gumbel(
    key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None, mode: str | None = None
) -> Array:
    """Numbers from the standard Gumbel distribution.

    Args:
        key: a key.
        shape: of the result.
        dtype: a floating type.
        mode: None or "low": values up to 16 or so; "high": the far tail too, from twice the bits.
    """
    new = float_dtype("gumbel", dtype)
    sizes = canonical_shape("gumbel", shape)
    info = dtypes.finfo(new)
    if mode in (None, "low"):
        u = uniform_of("gumbel", key, sizes, new, scalar(float(info.tiny), new), scalar(1, new))
        return -log(-log(u))
    if mode != "high":
        raise ArgumentError(f"gumbel: mode must be None, 'low' or 'high', got {mode!r}.")
    high, low = uniform_pair("gumbel", key, sizes, new)
    fine = high + scalar(2.0**-info.nmant, new) * low + scalar(float(info.tiny), new)
    return -log(-log1p(-where(high >= 0.5, high, fine)))


@api_boundary
def laplace(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None) -> Array:
    """Numbers from the Laplace distribution with mean 0 and scale 1."""
    new = float_dtype("laplace", dtype)
    low = scalar(-1.0 + float(dtypes.finfo(new).epsneg), new)
    u = uniform_of("laplace", key, canonical_shape("laplace", shape), new, low, scalar(1, new))
    return sign(u) * log1p(-abs(u))


@api_boundary
def logistic(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None) -> Array:
    """Numbers from the standard logistic distribution."""
    new = float_dtype("logistic", dtype)
    low = scalar(float(dtypes.finfo(new).tiny), new)
    x = uniform_of("logistic", key, canonical_shape("logistic", shape), new, low, scalar(1, new))
    return log(x) - log1p(-x)


@api_boundary
def cauchy(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None) -> Array:
    """Numbers from the standard Cauchy distribution."""
    new = float_dtype("cauchy", dtype)
    low = scalar(float(dtypes.finfo(new).eps), new)
    u = uniform_of("cauchy", key, canonical_shape("cauchy", shape), new, low, scalar(1, new))
    return tan(scalar(math.pi, new) * (u - scalar(0.5, new)))


@api_boundary
def lognormal(
    key: ArrayLike, sigma: ArrayLike = 1.0, shape: Any = None, dtype: DTypeLike | None = None
) -> Array:
    """e to the power of normal numbers of standard deviation sigma."""
    new = float_dtype("lognormal", dtype)
    return exp(
        normal(key, result_shape("lognormal", shape, sigma), new) * convert(asarray(sigma), new)
    )


@api_boundary
def pareto(
    key: ArrayLike, b: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None
) -> Array:
    """Numbers from the Pareto distribution of scale 1 with the exponent b."""
    new = float_dtype("pareto", dtype)
    return exp(exponential(key, result_shape("pareto", shape, b), new) / convert(asarray(b), new))


@api_boundary
def rayleigh(
    key: ArrayLike, scale: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None
) -> Array:
    """Numbers from the Rayleigh distribution: lengths of two-dimensional normal vectors."""
    new = float_dtype("rayleigh", dtype)
    u = uniform(key, result_shape("rayleigh", shape, scale), new)
    return convert(asarray(scale), new) * sqrt(log(u) * scalar(-2, new))


@api_boundary
def maxwell(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None) -> Array:
    """Lengths of three-dimensional normal vectors."""
    new = float_dtype("maxwell", dtype)
    return norm(normal(key, (*canonical_shape("maxwell", shape), 3), new), axis=-1)


@api_boundary
def double_sided_maxwell(
    key: ArrayLike,
    loc: ArrayLike,
    scale: ArrayLike,
    shape: Any = (),
    dtype: DTypeLike | None = None,
) -> Array:
    """loc plus scale times `maxwell` numbers of either sign, of the shape and the parameters'."""
    new = float_dtype("double_sided_maxwell", dtype)
    parameters = result_shape("double_sided_maxwell", None, loc, scale)
    sizes = canonical_shape("double_sided_maxwell", shape) or parameters
    a, b = split(key)
    lengths = maxwell(a, sizes + parameters, new)
    signs = rademacher(b, sizes + parameters, new)
    return signs * lengths * scale + loc


@api_boundary
def weibull_min(
    key: ArrayLike,
    scale: ArrayLike,
    concentration: ArrayLike,
    shape: Any = (),
    dtype: DTypeLike | None = None,
) -> Array:
    """Numbers from the Weibull distribution of minima."""
    new = float_dtype("weibull_min", dtype)
    u = uniform(key, shape, new)
    return power(-log1p(-u), 1.0 / asarray(concentration)) * scale


@api_boundary
def wald(
    key: ArrayLike, mean: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None
) -> Array:
    """Numbers from the Wald (inverse Gaussian) distribution of scale 1.

    Source: Michael, Schucany, Haas (1976), The American Statistician 30(2), 88-90.
    """
    new = float_dtype("wald", dtype)
    sizes = result_shape("wald", shape, mean)
    a, b = split(key)
    m = broadcast_to(convert(asarray(mean), new), sizes)
    v, z = normal(a, sizes, new), uniform(b, sizes, new)
    y = v * v
    x = m + m * m * y / 2 - m / 2 * sqrt(4 * m * y + m * m * (y * y))
    return where(z <= m / (m + x), x, m * m / x)


@api_boundary
def triangular(
    key: ArrayLike,
    left: ArrayLike,
    mode: ArrayLike,
    right: ArrayLike,
    shape: Any = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Numbers from the triangular distribution on [left, right] with its peak at mode."""
    new = float_dtype("triangular", dtype)
    sizes = result_shape("triangular", shape, left, mode, right)
    a, c, b = (broadcast_to(convert(asarray(v), new), sizes) for v in (left, mode, right))
    u = uniform(key, sizes, new)
    rising = a + sqrt(u * (b - a) * (c - a))
    falling = b - sqrt((1 - u) * (b - a) * (b - c))
    return where(u < (c - a) / (b - a), rising, falling)


__all__ = [
    "cauchy",
    "double_sided_maxwell",
    "exponential",
    "gumbel",
    "laplace",
    "logistic",
    "lognormal",
    "maxwell",
    "normal",
    "pareto",
    "rayleigh",
    "triangular",
    "truncated_normal",
    "wald",
    "weibull_min",
]
