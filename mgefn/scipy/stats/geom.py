"""The geometric distribution: trials up to the first success of probability p."""

from __future__ import annotations

import math

from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import api_boundary
from mgefn.ops.elementwise import where
from mgefn.scipy.stats.common import floats, log_of_power, not_a_count

__all__ = ["logpmf", "pmf"]


@api_boundary
def logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Logarithm of the probability of k."""
    k, p, loc = floats("geom.logpmf", k, p, loc)
    m = k - loc
    outside = not_a_count(m) | (m < 1)
    m = where(outside, 1, m)
    return where(outside, -math.inf, log_of_power(m - 1, 1 - p, -p) + mnp.log(p))


@api_boundary
def pmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    """Probability of k."""
    return mnp.exp(logpmf(k, p, loc))
