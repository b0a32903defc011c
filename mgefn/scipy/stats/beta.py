"""The beta distribution of shapes a and b on [loc, loc + scale]."""

from __future__ import annotations

import math

from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import api_boundary
from mgefn.ops.elementwise import where
from mgefn.scipy.special import betainc, betaln, xlog1py, xlogy
from mgefn.scipy.stats.common import floats, log_of, unless_nan

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


@api_boundary
def logpdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Logarithm of the density at x."""
    x, a, b, loc, scale = floats("beta.logpdf", x, a, b, loc, scale)
    z = (x - loc) / scale
    outside = (z < 0) | (z > 1)
    y = where(outside, 0.5, z)
    powers = xlogy(a - 1, y) + xlog1py(b - 1, -y)
    return where(outside, -math.inf, powers - betaln(a, b) - mnp.log(scale))


@api_boundary
def pdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Density at x."""
    return mnp.exp(logpdf(x, a, b, loc, scale))


@api_boundary
def cdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Probability of at most x."""
    x, a, b, loc, scale = floats("beta.cdf", x, a, b, loc, scale)
    z = (x - loc) / scale
    inside = (z > 0) & (z < 1)
    return unless_nan(z, where(inside, betainc(a, b, where(inside, z, 0.5)), where(z <= 0, 0, 1)))


@api_boundary
def logcdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Logarithm of the probability of at most x."""
    return log_of(cdf(x, a, b, loc, scale))


@api_boundary
def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of more than x."""
    x, a, b, loc, scale = floats("beta.sf", x, a, b, loc, scale)
    z = (x - loc) / scale
    inside = (z > 0) & (z < 1)
    above = betainc(b, a, 1 - where(inside, z, 0.5))
    return unless_nan(z, where(inside, above, where(z <= 0, 1, 0)))


@api_boundary
def logsf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Logarithm of the probability of more than x."""
    return log_of(sf(x, a, b, loc, scale))
