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
from mgefn.ops.elementwise import (
    abs,
    clip,
    convert,
    nextafter,
    power,
    sign,
    sqrt,
    square,
    stop_gradient_leaf,
    tan,
    where,
)
from mgefn.ops.random_bits import (
    sampling_erf_inv_p,
    sampling_erf_p,
    sampling_exp_p,
    sampling_log1p_p,
    sampling_log_p,
)
from mgefn.ops.shaping import (
    broadcast_to,
    canonical_shape,
    reshape,
    slice_in_dim,
)
from mgefn.random.keys import row, split
from mgefn.random.uniforms import (
    float_dtype,
    rademacher,
    result_shape,
    uniform,
    uniform_of,
    uniform_pair,
)

_log, _log1p = sampling_log_p.bind1, sampling_log1p_p.bind1


def over(x: Any, y: Any) -> Any:
    """x / y; where y is stretched, by its reciprocal, as JAX's compiler does it."""
    return x / y if x.shape == y.shape else x * (1 / y)


def powers(x: Any, y: Any) -> Any:
    """x**y; for float32 through float64, and so rounded once."""
    y = asarray(y)
    if x.dtype != np.float32 or (y.dtype != np.float32 and not y.weak_type):
        return power(x, y)
    wide = np.dtype(np.float64)
    return convert(power(convert(x, wide), convert(y, wide)), x.dtype)


@api_boundary
def normal(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None) -> Array:
    """Numbers from the normal distribution with mean 0 and variance 1.

    Complex numbers have independent parts of variance 1/2 each.

    Example:
        >>> mgefn.random.normal(mgefn.random.key(0), (2,))
        Array([1.6226422, 2.0252647], dtype=float32)
    """
    new = dtypes.default_float() if dtype is None else dtypes.canonical(dtype)
    sizes = canonical_shape("normal", shape)
    if dtypes.is_complex(new):
        keys = split(key)
        part = dtypes.real_part_dtype(new)
        real, imag = (convert(_normal(row(keys, i), sizes, part), new) for i in range(2))
        return (real + 1j * imag) / scalar(math.sqrt(2), new)
    return _normal(key, sizes, float_dtype("normal", new))


def _normal(key: Any, shape: tuple[int, ...], dtype: np.dtype, exact: bool = False) -> Any:
    """Normal numbers; `exact`: float64 ones to the last place, for what would magnify an error."""
    return scalar(math.sqrt(2), dtype) * _inverse(key, shape, dtype, exact)


def _inverse(key: Any, shape: tuple[int, ...], dtype: np.dtype, exact: bool) -> Any:
    """erf_inv of numbers in (-1, 1): normal numbers of variance 1/2."""
    low = np.nextafter(np.array(-1, dtype), np.array(0, dtype))
    u = uniform_of("normal", key, shape, dtype, ConcreteArray(np.asarray(low)), scalar(1, dtype))
    return sampling_erf_inv_p.bind1(u, exact=exact)


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
    bounds = (sampling_erf_p.bind1(v / root2) for v in (low, high))
    u = uniform_of("truncated_normal", key, sizes, new, *bounds)
    out = root2 * sampling_erf_inv_p.bind1(u, exact=False)
    # Rounding must not reach the bounds.
    inf = scalar(math.inf, new)
    return clip(
        out, nextafter(stop_gradient_leaf(low), inf), nextafter(stop_gradient_leaf(high), -inf)
    )


@api_boundary
def exponential(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None) -> Array:
    """Numbers from the exponential distribution with mean 1."""
    new = float_dtype("exponential", dtype)
    u = uniform_of("exponential", key, canonical_shape("exponential", shape), new, 0.0, 1.0)
    return -_log1p(-u)


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
        return -_log(-_log(u))
    if mode != "high":
        raise ArgumentError(f"gumbel: mode must be None, 'low' or 'high', got {mode!r}.")
    high, low = uniform_pair("gumbel", key, sizes, new)
    fine = high + scalar(2.0**-info.nmant, new) * low + scalar(float(info.tiny), new)
    return -_log(-_log1p(-where(high >= 0.5, high, fine)))


@api_boundary
def laplace(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None) -> Array:
    """Numbers from the Laplace distribution with mean 0 and scale 1."""
    new = float_dtype("laplace", dtype)
    low = scalar(-1.0 + float(dtypes.finfo(new).epsneg), new)
    u = uniform_of("laplace", key, canonical_shape("laplace", shape), new, low, scalar(1, new))
    return sign(u) * _log1p(-abs(u))


@api_boundary
def logistic(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None) -> Array:
    """Numbers from the standard logistic distribution."""
    new = float_dtype("logistic", dtype)
    low = scalar(float(dtypes.finfo(new).tiny), new)
    x = uniform_of("logistic", key, canonical_shape("logistic", shape), new, low, scalar(1, new))
    return _log(x) - _log1p(-x)


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
    sizes = result_shape("lognormal", shape, sigma)
    scale = convert(asarray(sigma), new)
    if scale.shape:
        return sampling_exp_p.bind1(_normal(key, sizes, new, exact=True) * scale)
    # JAX's compiler multiplies the two factors first.
    root2 = scalar(math.sqrt(2), new)
    return sampling_exp_p.bind1(_inverse(key, sizes, new, exact=True) * (root2 * scale))


@api_boundary
def pareto(
    key: ArrayLike, b: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None
) -> Array:
    """Numbers from the Pareto distribution of scale 1 with the exponent b."""
    new = float_dtype("pareto", dtype)
    e = exponential(key, result_shape("pareto", shape, b), new)
    return sampling_exp_p.bind1(over(e, convert(asarray(b), new)))


@api_boundary
def rayleigh(
    key: ArrayLike, scale: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None
) -> Array:
    """Numbers from the Rayleigh distribution: lengths of two-dimensional normal vectors."""
    new = float_dtype("rayleigh", dtype)
    u = uniform(key, result_shape("rayleigh", shape, scale), new)
    return convert(asarray(scale), new) * sqrt(_log(u) * scalar(-2, new))


@api_boundary
def maxwell(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None) -> Array:
    """Lengths of three-dimensional normal vectors."""
    new = float_dtype("maxwell", dtype)
    sizes = canonical_shape("maxwell", shape)
    squares = square(normal(key, (*sizes, 3), new))
    x, y, z = (reshape(slice_in_dim(squares, i, i + 1, axis=-1), sizes) for i in range(3))
    return sqrt(x + z + y)  # in the order of JAX's compiler


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
    return powers(-_log1p(-u), 1.0 / asarray(concentration)) * scale


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
    v, z = _normal(a, sizes, new, exact=True), uniform(b, sizes, new)
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
