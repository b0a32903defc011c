"""Student's t distribution of df degrees of freedom."""

from __future__ import annotations

from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import api_boundary
from mgefn.scipy.special import betaln
from mgefn.scipy.stats.common import floats

__all__ = ["logpdf", "pdf"]


@api_boundary
def logpdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Logarithm of the density at x."""
    x, df, loc, scale = floats("t.logpdf", x, df, loc, scale)
    z = (x - loc) / scale
    constant = 0.5 * mnp.log(df) + betaln(df / 2, mnp.full_like(df, 0.5)) + mnp.log(scale)
    return -0.5 * (df + 1) * mnp.log1p(z * z / df) - constant


@api_boundary
def pdf(x: ArrayLike, df: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    """Density at x."""
    return mnp.exp(logpdf(x, df, loc, scale))
