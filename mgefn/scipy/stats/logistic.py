"""The logistic distribution."""

from __future__ import annotations

from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import api_boundary
from mgefn.scipy.special import expit, logit
from mgefn.scipy.stats.common import floats, standard

__all__ = ["cdf", "isf", "logpdf", "pdf", "ppf", "sf"]


@api_boundary
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density at x."""
    x, loc, scale = floats("logistic.logpdf", x, loc, scale)
    half = 0.5 * (x - loc) / scale
    return -2 * mnp.logaddexp(half, -half) - mnp.log(scale)


@api_boundary
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density at x."""
    return mnp.exp(logpdf(x, loc, scale))


@api_boundary
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of at most x."""
    return expit(standard("logistic.cdf", x, loc, scale))


@api_boundary
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of more than x."""
    return expit(-standard("logistic.sf", x, loc, scale))


@api_boundary
def ppf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The number that is not exceeded with probability x."""
    x, loc, scale = floats("logistic.ppf", x, loc, scale)
    return loc + logit(x) * scale


@api_boundary
def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x that is exceeded with probability q."""
    q, loc, scale = floats("logistic.isf", q, loc, scale)
    return loc - logit(q) * scale
