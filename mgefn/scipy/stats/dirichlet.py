"""The Dirichlet distribution."""

from __future__ import annotations

import math

from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import ShapeError, api_boundary
from mgefn.ops.elementwise import where
from mgefn.scipy.special import gammaln, xlogy
from mgefn.scipy.stats.common import promoted_floats

__all__ = ["logpdf", "pdf"]


@api_boundary
def logpdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """Logarithm of the density at x.

    Args:
        x: shape (k, ...), or (k - 1, ...), the last then being 1 minus the others' sum.
        alpha: shape (k,), positive.

    Returns:
        Array of shape x.shape[1:]; -inf where x is not in the simplex.

    Raises:
        ShapeError: the shapes do not fit.
    """
    x, alpha = promoted_floats("dirichlet.logpdf", x, alpha)
    if alpha.ndim != 1 or not x.ndim or x.shape[0] not in (alpha.shape[0], alpha.shape[0] - 1):
        raise ShapeError(
            "dirichlet.logpdf: alpha must be a vector and x have its length or one less first, "
            f"got {alpha.aval} and {x.aval}."
        )
    if x.shape[0] != alpha.shape[0]:
        x = mnp.concatenate([x, 1 - mnp.sum(x, axis=0, keepdims=True)])
    inside = mnp.all(x >= 0, axis=0) & (abs(mnp.sum(x, axis=0) - 1) < 1e-5)
    a = mnp.reshape(alpha, (-1,) + (1,) * (x.ndim - 1))
    constant = mnp.sum(gammaln(alpha)) - gammaln(mnp.sum(alpha))
    powers = mnp.sum(xlogy(a - 1, where(inside, x, 1)), axis=0)
    return where(inside, powers - constant, -math.inf)


@api_boundary
def pdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    """Density at x; see `logpdf`."""
    return mnp.exp(logpdf(x, alpha))
