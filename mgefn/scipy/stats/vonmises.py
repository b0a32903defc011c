"""The von Mises distribution on the circle, of concentration kappa."""

from __future__ import annotations

import math

from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import api_boundary
from mgefn.scipy.special import i0e
from mgefn.scipy.stats.common import floats

__all__ = ["logpdf", "pdf"]


@api_boundary
def logpdf(x: ArrayLike, kappa: ArrayLike) -> Array:
    """Logarithm of the density at x."""
    x, kappa = floats("vonmises.logpdf", x, kappa)
    # kappa * (cos(x) - 1), the scale of i0e taken off.
    sine = mnp.sin(0.5 * x)
    return -2 * kappa * (sine * sine) - mnp.log(2 * math.pi * i0e(kappa))


@api_boundary
def pdf(x: ArrayLike, kappa: ArrayLike) -> Array:
    """Density at x."""
    return mnp.exp(logpdf(x, kappa))
