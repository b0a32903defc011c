"""The Pareto distribution of exponent b, from loc + scale on."""

from __future__ import annotations

import math

from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import api_boundary
from mgefn.nn.functions import log1mexp
from mgefn.ops.elementwise import where
from mgefn.scipy.stats.common import floats

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


@api_boundary
def logpdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density at x."""
    x, b, loc, scale = floats("pareto.logpdf", x, b, loc, scale)
    z = (x - loc) / scale
    power = (b + 1) * mnp.log(where(z < 1, 1, z))
    return where(z < 1, -math.inf, mnp.log(b / scale) - power)


@api_boundary
def pdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density at x."""
    return mnp.exp(logpdf(x, b, loc, scale))


@api_boundary
def cdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of at most x."""
    return -mnp.expm1(logsf(x, b, loc, scale))


@api_boundary
def logcdf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the probability of at most x."""
    log_sf = logsf(x, b, loc, scale)
    return where(log_sf >= 0, -math.inf, log1mexp(-where(log_sf >= 0, -1, log_sf)))


@api_boundary
def sf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of more than x."""
    return mnp.exp(logsf(x, b, loc, scale))


@api_boundary
def logsf(x: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the probability of more than x."""
    x, b, loc, scale = floats("pareto.logsf", x, b, loc, scale)
    z = (x - loc) / scale
    return -b * mnp.log(where(z < 1, 1, z))


@api_boundary
def ppf(q: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x that is not exceeded with probability q."""
    q, b, loc, scale = floats("pareto.ppf", q, b, loc, scale)
    return where(q < 0, math.nan, loc + scale * mnp.exp(-mnp.log1p(-q) / b))
