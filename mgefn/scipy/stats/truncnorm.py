"""The normal distribution cut to [loc + a scale, loc + b scale]."""

from __future__ import annotations

import math
from typing import Any

from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import api_boundary
from mgefn.nn.functions import log1mexp
from mgefn.ops.elementwise import where
from mgefn.scipy.special import log_ndtr, ndtr
from mgefn.scipy.stats.common import HALF_LOG_2PI, floats, unless_nan

__all__ = ["cdf", "logcdf", "logpdf", "logsf", "pdf", "sf"]


def _log_mass(a: Any, b: Any) -> Any:
    """log(ndtr(b) - ndtr(a)) for a < b, in whichever tail they lie."""
    flip = a > 0
    a, b = where(flip, -b, a), where(flip, -a, b)
    tail = b <= 0
    low, high = where(tail, a, -2), where(tail, b, -1)
    log_high = log_ndtr(high)
    empty = low == -math.inf
    rest = log1mexp(log_high - log_ndtr(where(empty, high - 1, low)))
    in_tail = log_high + where(empty, 0, rest)
    central = mnp.log1p(-ndtr(where(tail, -1, a)) - ndtr(-where(tail, 1, b)))
    return where(tail, in_tail, central)


def _checked(a: Any, b: Any, result: Any) -> Any:
    return where(a < b, result, math.nan)


@api_boundary
def logpdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Logarithm of the density at x."""
    x, a, b, loc, scale = floats("truncnorm.logpdf", x, a, b, loc, scale)
    z = (x - loc) / scale
    outside = (z < a) | (z > b)
    y = where(outside, 0, z)
    density = -0.5 * (y * y) - HALF_LOG_2PI - mnp.log(scale) - _log_mass(a, b)
    return _checked(a, b, where(outside, -math.inf, density))


@api_boundary
def pdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Density at x."""
    return mnp.exp(logpdf(x, a, b, loc, scale))


@api_boundary
def logcdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Logarithm of the probability of at most x."""
    x, a, b, loc, scale = floats("truncnorm.logcdf", x, a, b, loc, scale)
    z = (x - loc) / scale
    inside = (z > a) & (z < b)
    # The part that is the smaller, in case its logarithm is that of almost 1.
    below = _log_mass(a, where(inside, z, b)) - _log_mass(a, b)
    high = below > -0.1
    above = _log_mass(where(inside & high, z, a), b) - _log_mass(a, b)
    exact = where(high, log1mexp(-where(inside & high, above, -1)), below)
    result = where(inside, exact, where(z <= a, -math.inf, 0))
    return _checked(a, b, unless_nan(z, result))


@api_boundary
def cdf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Probability of at most x."""
    return mnp.exp(logcdf(x, a, b, loc, scale))


@api_boundary
def logsf(
    x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    """Logarithm of the probability of more than x."""
    x, a, b, loc, scale = floats("truncnorm.logsf", x, a, b, loc, scale)
    return logcdf((loc - x) / scale, -b, -a)


@api_boundary
def sf(x: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Probability of more than x."""
    return mnp.exp(logsf(x, a, b, loc, scale))
