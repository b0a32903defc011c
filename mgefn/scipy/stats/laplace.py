"""The Laplace distribution."""

from __future__ import annotations

from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import api_boundary
from mgefn.ops.elementwise import where
from mgefn.scipy.stats.common import floats, standard

__all__ = ["cdf", "logpdf", "pdf"]


@api_boundary
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density at x."""
    x, loc, scale = floats("laplace.logpdf", x, loc, scale)
    return -abs((x - loc) / scale) - mnp.log(2 * scale)


@api_boundary
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density at x."""
    return mnp.exp(logpdf(x, loc, scale))


@api_boundary
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of at most x."""
    z = standard("laplace.cdf", x, loc, scale)
    below = z < 0
    tail = 0.5 * mnp.exp(where(below, z, -z))
    return where(below, tail, 1 - tail)
