"""The Gumbel distribution of smallest values."""

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
    x, loc, scale = floats("gumbel_l.logpdf", x, loc, scale)
    z = (x - loc) / scale
    rate = mnp.exp(z)
    # Where the exponential is infinite, so is z on the other side: their sum would be NaN.
    flat = rate == math.inf
    return where(flat, -math.inf, z - where(flat, 0, rate) - mnp.log(scale))


@api_boundary
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density at x."""
    return mnp.exp(logpdf(x, loc, scale))


@api_boundary
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the probability of more than x."""
    z = standard("gumbel_l.logsf", x, loc, scale)
    return -mnp.exp(z)


@api_boundary
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of more than x."""
    return mnp.exp(logsf(x, loc, scale))


@api_boundary
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of at most x."""
    return -mnp.expm1(logsf(x, loc, scale))


@api_boundary
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the probability of at most x."""
    z = standard("gumbel_l.logcdf", x, loc, scale)
    # Where the exponential is 0 in its dtype, log(1 - e**-u) is log(u).
    small = z < -30
    return where(small, z, log1mexp(mnp.exp(where(small, 0, z))))


@api_boundary
def ppf(p: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x that is not exceeded with probability p."""
    p, loc, scale = floats("gumbel_l.ppf", p, loc, scale)
    return loc + scale * mnp.log(-mnp.log1p(-p))
