"""The Poisson distribution of mean mu."""

from __future__ import annotations

import math

from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import api_boundary
from mgefn.ops.elementwise import where
from mgefn.scipy.special import gammaincc, gammaln, xlogy
from mgefn.scipy.stats.common import floats, not_a_count

__all__ = ["cdf", "entropy", "logpmf", "pmf"]


@api_boundary
def logpmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Logarithm of the probability of k."""
    k, mu, loc = floats("poisson.logpmf", k, mu, loc)
    n = k - loc
    outside = not_a_count(n)
    m = where(outside, 0, n)
    return where(outside, -math.inf, xlogy(m, mu) - gammaln(m + 1) - mu)


@api_boundary
def pmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability of k."""
    return mnp.exp(logpmf(k, mu, loc))


@api_boundary
def cdf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability of at most k."""
    k, mu, loc = floats("poisson.cdf", k, mu, loc)
    n = mnp.floor(k - loc)
    return where(n < 0, 0, gammaincc(where(n < 0, 1, n + 1), mu))


@api_boundary
def entropy(mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Entropy, in nats."""
    mu, loc = floats("poisson.entropy", mu, loc)
    large = mu > 100
    u = 1 / where(large, mu, 100)
    series = u * (
        1 / 12 + u * (1 / 24 + u * (19 / 360 + u * (9 / 80 + u * (863 / 2520 + u * (1375 / 1008)))))
    )
    asymptotic = 0.5 * (math.log(2 * math.pi * math.e) - mnp.log(u)) - series
    # Up to a mean of 100, counts above 250 have probability below 1e-35.
    k = mnp.arange(251, dtype=mu.dtype)
    log_p = logpmf(k, mnp.expand_dims(where(large, 1, mu), -1))
    p = mnp.exp(log_p)
    summed = -mnp.sum(p * where(p == 0, 0, log_p), axis=-1)
    return where(mu < 0, math.nan, where(large, asymptotic, summed))
