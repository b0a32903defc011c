"""The uniform distribution on [loc, loc + scale]."""

from __future__ import annotations

import math

from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import api_boundary
from mgefn.ops.elementwise import where
from mgefn.scipy.stats.common import floats, standard, unless_nan

__all__ = ["cdf", "logpdf", "pdf", "ppf"]


@api_boundary
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density at x."""
    x, loc, scale = floats("uniform.logpdf", x, loc, scale)
    outside = (x < loc) | (x > loc + scale)
    return unless_nan(x, where(outside, -math.inf, -mnp.log(scale)))


@api_boundary
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density at x."""
    return mnp.exp(logpdf(x, loc, scale))


@api_boundary
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of at most x."""
    z = standard("uniform.cdf", x, loc, scale)
    return where(z < 0, 0, where(z > 1, 1, z))


@api_boundary
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x that is not exceeded with probability q."""
    q, loc, scale = floats("uniform.ppf", q, loc, scale)
    return where((q < 0) | (q > 1), math.nan, loc + scale * q)
