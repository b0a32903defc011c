"""The multinomial distribution."""

from __future__ import annotations

import math

from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import api_boundary
from mgefn.ops.elementwise import broadcasted, where
from mgefn.scipy.special import gammaln, xlogy
from mgefn.scipy.stats.common import promoted_floats

__all__ = ["logpmf", "pmf"]


@api_boundary
def logpmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """Logarithm of the probability of the counts x.

    Args:
        x: shape (..., k).
        n: number of trials; the result is -inf where the counts have another sum.
        p: probabilities, shape (..., k).
    """
    counts, trials, p = promoted_floats("multinomial.logpmf", x, n, p)
    counts, p = broadcasted("multinomial.logpmf", (counts, p))
    good = mnp.all((counts >= 0) & (counts == mnp.floor(counts)), axis=-1)
    good = good & (mnp.sum(counts, axis=-1) == trials)
    safe = where(mnp.expand_dims(good, -1), counts, 0)
    terms = mnp.sum(xlogy(safe, p) - gammaln(safe + 1), axis=-1)
    return where(good, gammaln(where(good, trials, 0) + 1) + terms, -math.inf)


@api_boundary
def pmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """Probability of the counts x; see `logpmf`."""
    return mnp.exp(logpmf(x, n, p))
