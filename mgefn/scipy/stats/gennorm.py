"""The generalised normal distribution of density exp(-|x|**beta)."""

from __future__ import annotations

from typing import Any

from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import api_boundary
from mgefn.ops.elementwise import where
from mgefn.scipy.special import gammaincc, gammaln
from mgefn.scipy.stats.common import floats

__all__ = ["cdf", "logpdf", "pdf"]


def _power(x: Any, beta: Any) -> Any:
    zero = x == 0
    return where(zero, 0, abs(where(zero, 1, x)) ** beta)


@api_boundary
def logpdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """Logarithm of the density at x."""
    x, beta = floats("gennorm.logpdf", x, beta)
    return mnp.log(0.5 * beta) - gammaln(1 / beta) - _power(x, beta)


@api_boundary
def pdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """Density at x."""
    return mnp.exp(logpdf(x, beta))


@api_boundary
def cdf(x: ArrayLike, beta: ArrayLike) -> Array:
    """Probability of at most x."""
    x, beta = floats("gennorm.cdf", x, beta)
    zero = x == 0
    tail = 0.5 * gammaincc(1 / beta, where(zero, 1, _power(x, beta)))
    # At 0 the distribution is 1/2, with the density as its derivative.
    middle = 0.5 + where(zero, x, 0) * pdf(mnp.zeros_like(x), beta)
    return where(zero, middle, where(x < 0, tail, 1 - tail))
