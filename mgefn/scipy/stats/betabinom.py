"""The beta-binomial distribution: binomial, with p beta distributed."""

from __future__ import annotations

import math

from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import api_boundary
from mgefn.ops.elementwise import where
from mgefn.scipy.special import betaln
from mgefn.scipy.stats.common import floats, not_a_count

__all__ = ["logpmf", "pmf"]


@api_boundary
def logpmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Logarithm of the probability of k."""
    k, n, a, b, loc = floats("betabinom.logpmf", k, n, a, b, loc)
    m = k - loc
    outside = not_a_count(m) | (m > n)
    m, n = where(outside, 0, m), where(outside, 0, n)
    ways = -betaln(n - m + 1, m + 1) - mnp.log1p(n)
    return where(outside, -math.inf, ways + betaln(m + a, n - m + b) - betaln(a, b))


@api_boundary
def pmf(k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability of k."""
    return mnp.exp(logpmf(k, n, a, b, loc))
