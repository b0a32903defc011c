"""The exponential distribution of mean scale, from loc on."""

from __future__ import annotations

import math

from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import api_boundary
from mgefn.nn.functions import log1mexp
from mgefn.ops.elementwise import where
from mgefn.scipy.stats.common import floats, standard

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


@api_boundary
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density at x."""
    x, loc, scale = floats("expon.logpdf", x, loc, scale)
    z = (x - loc) / scale
    return where(z < 0, -math.inf, -z - mnp.log(scale))


@api_boundary
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density at x."""
    return mnp.exp(logpdf(x, loc, scale))


@api_boundary
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of at most x."""
    z = standard("expon.cdf", x, loc, scale)
    return -mnp.expm1(-where(z < 0, 0, z))


@api_boundary
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the probability of at most x."""
    z = standard("expon.logcdf", x, loc, scale)
    return where(z <= 0, -math.inf, log1mexp(where(z <= 0, 1, z)))


@api_boundary
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of more than x."""
    return mnp.exp(logsf(x, loc, scale))


@api_boundary
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the probability of more than x."""
    z = standard("expon.logsf", x, loc, scale)
    return -where(z < 0, 0, z)


@api_boundary
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x that is not exceeded with probability q."""
    q, loc, scale = floats("expon.ppf", q, loc, scale)
    return where(q < 0, math.nan, loc - scale * mnp.log1p(-q))
