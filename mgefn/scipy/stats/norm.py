"""The normal distribution."""

from __future__ import annotations

from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import api_boundary
from mgefn.scipy.special import log_ndtr, ndtr, ndtri
from mgefn.scipy.stats.common import HALF_LOG_2PI, floats, standard

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


@api_boundary
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density at x.

    Args:
        x: real.
        loc, scale: mean and standard deviation, broadcast with x.

    Example:
        >>> mgefn.scipy.stats.norm.logpdf(0.0)
        Array(-0.9189385, dtype=float32, weak_type=True)
    """
    x, loc, scale = floats("norm.logpdf", x, loc, scale)
    z = (x - loc) / scale
    return -0.5 * (z * z) - mnp.log(scale) - HALF_LOG_2PI


@api_boundary
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density at x."""
    return mnp.exp(logpdf(x, loc, scale))


@api_boundary
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of at most x."""
    return ndtr(standard("norm.cdf", x, loc, scale))


@api_boundary
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the probability of at most x."""
    return log_ndtr(standard("norm.logcdf", x, loc, scale))


@api_boundary
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of more than x."""
    return ndtr(-standard("norm.sf", x, loc, scale))


@api_boundary
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the probability of more than x."""
    return log_ndtr(-standard("norm.logsf", x, loc, scale))


@api_boundary
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x that is not exceeded with probability q."""
    q, loc, scale = floats("norm.ppf", q, loc, scale)
    return ndtri(q) * scale + loc


@api_boundary
def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x that is exceeded with probability q."""
    q, loc, scale = floats("norm.isf", q, loc, scale)
    return loc - ndtri(q) * scale
