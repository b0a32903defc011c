"""The normal distribution of several dimensions."""

from __future__ import annotations

import math

from mgefn import lax_linalg
from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import ArgumentError, ShapeError, api_boundary
from mgefn.scipy.stats.common import HALF_LOG_2PI, promoted_floats

__all__ = ["logpdf", "pdf"]


@api_boundary
def logpdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike, allow_singular: None = None) -> Array:
    """Logarithm of the density at x.

    Args:
        x: shape (..., n). With a scalar mean and variance: numbers, each a point.
        mean: broadcasts with x.
        cov: covariances (..., n, n), positive definite; or a scalar variance of each dimension.
        allow_singular: must be None.

    Returns:
        Array of the batch dimensions; NaN where cov is not positive definite.

    Raises:
        ShapeError: the shapes do not fit.
    """
    if allow_singular is not None:
        raise ArgumentError(
            f"multivariate_normal.logpdf: allow_singular must be None, got {allow_singular!r}."
        )
    x, mean, cov = promoted_floats("multivariate_normal.logpdf", x, mean, cov)
    if not mean.shape and not cov.shape:
        difference = x - mean
        return -0.5 * (difference * difference / cov + mnp.log(2 * math.pi * cov))
    n = mean.shape[-1] if mean.ndim else cov.shape[-1]
    if not cov.shape:
        cov = cov * mnp.eye(n, dtype=cov.dtype)
    if cov.ndim < 2 or cov.shape[-2:] != (n, n):
        raise ShapeError(
            "multivariate_normal.logpdf: cov must have shape (..., n, n) for a mean of length n, "
            f"got {cov.aval} and {mean.aval}."
        )
    factor = lax_linalg.cholesky(cov)
    difference = x - mean
    if not difference.ndim:
        difference = mnp.broadcast_to(difference, (n,))
    batch = mnp.broadcast_shapes(difference.shape[:-1], factor.shape[:-2])
    difference = mnp.broadcast_to(difference, (*batch, n))
    root = mnp.broadcast_to(factor, (*batch, n, n))
    z = lax_linalg.triangular_solve(root, difference[..., None], left_side=True, lower=True)
    log_det = mnp.sum(mnp.log(mnp.diagonal(factor, axis1=-2, axis2=-1)), axis=-1)
    squares = mnp.sum(mnp.square(z[..., 0]), axis=-1)
    return -0.5 * squares - n * HALF_LOG_2PI - log_det


@api_boundary
def pdf(x: ArrayLike, mean: ArrayLike, cov: ArrayLike) -> Array:
    """Density at x; see `logpdf`."""
    return mnp.exp(logpdf(x, mean, cov))
