"""The gamma distribution of shape a."""

from __future__ import annotations

import math

from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import api_boundary
from mgefn.ops.elementwise import where
from mgefn.scipy.special import gammainc, gammaincc, gammaln, xlogy
from mgefn.scipy.stats.common import floats, log_of

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


@api_boundary
def logpdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density at x."""
    x, a, loc, scale = floats("gamma.logpdf", x, a, loc, scale)
    z = (x - loc) / scale
    outside = z < 0
    y = where(outside, 1, z)
    return where(outside, -math.inf, xlogy(a - 1, y) - y - gammaln(a) - mnp.log(scale))


@api_boundary
def pdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density at x."""
    return mnp.exp(logpdf(x, a, loc, scale))


@api_boundary
def cdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of at most x."""
    x, a, loc, scale = floats("gamma.cdf", x, a, loc, scale)
    z = (x - loc) / scale
    return where(z <= 0, 0, gammainc(a, where(z <= 0, 1, z)))


@api_boundary
def logcdf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the probability of at most x."""
    return log_of(cdf(x, a, loc, scale))


@api_boundary
def sf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of more than x."""
    x, a, loc, scale = floats("gamma.sf", x, a, loc, scale)
    z = (x - loc) / scale
    return where(z <= 0, 1, gammaincc(a, where(z <= 0, 1, z)))


@api_boundary
def logsf(x: ArrayLike, a: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the probability of more than x."""
    return log_of(sf(x, a, loc, scale))
