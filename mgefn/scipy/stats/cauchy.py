"""The Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import api_boundary
from mgefn.ops.elementwise import where
from mgefn.scipy.stats.common import floats, standard

__all__ = ["cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf"]


def _cotangent(q: Any) -> Any:
    """cot(pi q), infinite at 0 and 1, NaN outside."""
    upper = q > 0.5
    near = where(upper, 1 - q, q)
    inverse = mnp.cos(math.pi * near) / mnp.sin(math.pi * near)
    return where((q < 0) | (q > 1), math.nan, where(upper, -inverse, inverse))


@api_boundary
def logpdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density at x."""
    x, loc, scale = floats("cauchy.logpdf", x, loc, scale)
    z = (x - loc) / scale
    return -mnp.log(math.pi * scale) - mnp.log1p(z * z)


@api_boundary
def pdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density at x."""
    return mnp.exp(logpdf(x, loc, scale))


@api_boundary
def cdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of at most x."""
    z = standard("cauchy.cdf", x, loc, scale)
    return mnp.arctan2(1, -z) / math.pi


@api_boundary
def logcdf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the probability of at most x."""
    return mnp.log(cdf(x, loc, scale))


@api_boundary
def sf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of more than x."""
    z = standard("cauchy.sf", x, loc, scale)
    return mnp.arctan2(1, z) / math.pi


@api_boundary
def logsf(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the probability of more than x."""
    return mnp.log(sf(x, loc, scale))


@api_boundary
def ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x that is not exceeded with probability q."""
    q, loc, scale = floats("cauchy.ppf", q, loc, scale)
    return loc - scale * _cotangent(q)


@api_boundary
def isf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """The x that is exceeded with probability q."""
    q, loc, scale = floats("cauchy.isf", q, loc, scale)
    return loc + scale * _cotangent(q)
