"""The negative binomial distribution: failures before the n-th success of probability p."""

from __future__ import annotations

import math

from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import api_boundary
from mgefn.ops.elementwise import where
from mgefn.scipy.special import betaln
from mgefn.scipy.stats.common import floats, log_of_power, not_a_count

__all__ = ["logpmf", "pmf"]


@api_boundary
def logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Logarithm of the probability of k."""
    k, n, p, loc = floats("nbinom.logpmf", k, n, p, loc)
    m = k - loc
    outside = not_a_count(m)
    m = where(outside, 0, m)
    ways = -betaln(n, m + 1) - mnp.log(n + m)
    return where(outside, -math.inf, ways + n * mnp.log(p) + log_of_power(m, 1 - p, -p))


@api_boundary
def pmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability of k."""
    return mnp.exp(logpmf(k, n, p, loc))
