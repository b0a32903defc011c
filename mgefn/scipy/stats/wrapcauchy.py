"""The Cauchy distribution wrapped on the circle [0, 2 pi], of concentration c."""

from __future__ import annotations

import math

from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import api_boundary
from mgefn.ops.elementwise import where
from mgefn.scipy.stats.common import floats, unless_nan

__all__ = ["logpdf", "pdf"]


@api_boundary
def logpdf(x: ArrayLike, c: ArrayLike) -> Array:
    """Logarithm of the density at x. c lies in (0, 1)."""
    x, c = floats("wrapcauchy.logpdf", x, c)
    sine = mnp.sin(0.5 * x)
    distance = (1 - c) * (1 - c) + 4 * c * (sine * sine)
    inside = (x >= 0) & (x <= 2 * math.pi)
    density = mnp.log((1 - c) * (1 + c) / (2 * math.pi)) - mnp.log(distance)
    density = unless_nan(x, where(inside, density, -math.inf))
    return where((c > 0) & (c < 1), density, math.nan)


@api_boundary
def pdf(x: ArrayLike, c: ArrayLike) -> Array:
    """Density at x. c lies in (0, 1)."""
    return mnp.exp(logpdf(x, c))
