"""The Bernoulli distribution: 1 with probability p, else 0."""

from __future__ import annotations

import math

from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import api_boundary
from mgefn.ops.elementwise import where
from mgefn.scipy.stats.common import floats, log_of_power, not_a_count

__all__ = ["cdf", "logpmf", "pmf", "ppf"]


@api_boundary
def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Logarithm of the probability of k."""
    k, p, loc = floats("bernoulli.logpmf", k, p, loc)
    n = k - loc
    outside = not_a_count(n) | (n > 1)
    m = where(outside, 0, n)
    return where(outside, -math.inf, log_of_power(m, p) + log_of_power(1 - m, 1 - p, -p))


@api_boundary
def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability of k."""
    return mnp.exp(logpmf(k, p, loc))


@api_boundary
def cdf(k: ArrayLike, p: ArrayLike) -> Array:
    """Probability of at most k."""
    k, p = floats("bernoulli.cdf", k, p)
    steps = where(k < 0, 0, where(k < 1, 1 - p, 1))
    return where((p < 0) | (p > 1) | mnp.isnan(k) | mnp.isnan(p), math.nan, steps)


@api_boundary
def ppf(q: ArrayLike, p: ArrayLike) -> Array:
    """The least k that is not exceeded with probability q; -1 at q = 0."""
    q, p = floats("bernoulli.ppf", q, p)
    outside = (q < 0) | (q > 1) | (p < 0) | (p > 1) | mnp.isnan(q) | mnp.isnan(p)
    step = where(q == 0, -1, where(q <= 1 - p, 0, 1))
    return where(outside, math.nan, step).astype(q.dtype)
