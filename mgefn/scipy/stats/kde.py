"""Density estimation with Gaussian kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from mgefn import dtypes, lax_linalg, random
from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import ArgumentError, DTypeError, ShapeError, api_boundary
from mgefn.ops.elementwise import promoted
from mgefn.scipy.special import logsumexp, ndtr
from mgefn.tree import register_pytree_node


class gaussian_kde:
    """Estimate a density by a sum of Gaussian kernels, one at each point of a data set.

    A pytree: it passes through jit, vmap and grad.

    Args:
        dataset: real, shape (n,) or (d, n): n points of d dimensions.
        bw_method: the kernels' width relative to the data's covariance: "scott" (also None),
            "silverman", a number, or a function of the estimate that returns one.
        weights: of the points, shape (n,).

    Raises:
        ShapeError: dataset has fewer than two elements, or weights do not fit.

    Example:
        >>> kde = mgefn.scipy.stats.gaussian_kde(mnp.array([-1.0, 0.0, 1.0]))
        >>> kde.evaluate(0.0).shape
        (1,)
    """

    __slots__ = ("covariance", "dataset", "inv_cov", "neff", "weights")

    neff: Array
    dataset: Array
    weights: Array
    covariance: Array
    inv_cov: Array

    @api_boundary
    def __init__(
        self,
        dataset: ArrayLike,
        bw_method: str | ArrayLike | Callable[[Any], Any] | None = None,
        weights: ArrayLike | None = None,
    ) -> None:
        given = (dataset,) if weights is None else (dataset, weights)
        data, *rest = promoted("gaussian_kde", given, inexact=True)
        if dtypes.is_complex(data.dtype):
            raise DTypeError(f"gaussian_kde: needs a real dataset, got {data.aval}.")
        data = mnp.atleast_2d(data)
        if data.ndim != 2 or data.size < 2:
            raise ShapeError(
                "gaussian_kde: dataset must have rank 1 or 2 and two elements at least, got "
                f"{data.aval}."
            )
        d, n = data.shape
        if rest:
            w = mnp.atleast_1d(rest[0])
            if w.shape != (n,):
                raise ShapeError(f"gaussian_kde: weights must have shape ({n},), got {w.aval}.")
            w = w / mnp.sum(w)
        else:
            w = mnp.full(n, 1 / n, data.dtype)
        self.dataset, self.weights = data, w
        self.neff = 1 / mnp.sum(mnp.square(w))
        if bw_method is None or (isinstance(bw_method, str) and bw_method == "scott"):
            factor: Any = self.neff ** (-1 / (d + 4))
        elif isinstance(bw_method, str) and bw_method == "silverman":
            factor = (self.neff * ((d + 2) / 4)) ** (-1 / (d + 4))
        elif callable(bw_method):
            factor = bw_method(self)
        elif not isinstance(bw_method, str) and mnp.ndim(bw_method) == 0:
            factor = bw_method
        else:
            raise ArgumentError(
                "gaussian_kde: bw_method must be 'scott', 'silverman', a number or a function, got "
                f"{bw_method!r}."
            )
        covariance = mnp.atleast_2d(mnp.cov(data, bias=False, aweights=w))
        self.covariance = covariance * factor**2
        self.inv_cov = mnp.linalg.inv(covariance) / factor**2

    @property
    def d(self) -> int:
        """Number of dimensions."""
        return self.dataset.shape[0]

    @property
    def n(self) -> int:
        """Number of points."""
        return self.dataset.shape[1]

    @api_boundary
    def evaluate(self, points: ArrayLike) -> Array:
        """The density at points of shape (m,) or (d, m): an array of shape (m,)."""
        return mnp.sum(self.weights * mnp.exp(self._log_kernels(points)), axis=-1)

    __call__ = evaluate

    @api_boundary
    def pdf(self, x: ArrayLike) -> Array:
        """The density; the same as `evaluate`."""
        return self.evaluate(x)

    @api_boundary
    def logpdf(self, x: ArrayLike) -> Array:
        """Logarithm of the density, without underflow far from the data."""
        return logsumexp(self._log_kernels(x), axis=-1, b=self.weights)

    @api_boundary
    def integrate_gaussian(self, mean: ArrayLike, cov: ArrayLike) -> Array:
        """The integral of the density times a normal density.

        Args:
            mean: shape (d,).
            cov: shape (d, d).
        """
        center = mnp.atleast_1d(mnp.squeeze(mnp.asarray(mean)))
        spread = mnp.atleast_2d(mnp.asarray(cov))
        if center.shape != (self.d,) or spread.shape != (self.d, self.d):
            raise ShapeError(
                f"integrate_gaussian: mean and cov must have {self.d} dimensions, got "
                f"{center.aval} and {spread.aval}."
            )
        total = self._log_products(self.covariance + spread, center[:, None])
        return mnp.sum(self.weights * mnp.exp(total[0]))

    @api_boundary
    def integrate_box_1d(self, low: ArrayLike, high: ArrayLike) -> Array:
        """The probability of an interval, of data of one dimension."""
        if self.d != 1:
            raise ShapeError(f"integrate_box_1d: needs data of one dimension, got {self.d}.")
        if mnp.ndim(low) or mnp.ndim(high):
            raise ShapeError("integrate_box_1d: the limits must be scalars.")
        sigma = mnp.sqrt(self.covariance[0, 0])
        at = self.dataset[0]
        return mnp.sum(self.weights * (ndtr((high - at) / sigma) - ndtr((low - at) / sigma)))

    @api_boundary
    def integrate_kde(self, other: gaussian_kde) -> Array:
        """The integral of the product of two estimates."""
        if other.d != self.d:
            raise ShapeError(
                f"integrate_kde: needs the same dimensions, got {self.d} and {other.d}."
            )
        logs = self._log_products(self.covariance + other.covariance, other.dataset)
        return mnp.sum(mnp.exp(logs) * self.weights * other.weights[:, None])

    @api_boundary
    def resample(self, key: Any, shape: tuple[int, ...] = ()) -> Array:
        """Draw points from the estimate: an array of shape (d, *shape)."""
        which, noise = random.split(key)
        at = random.choice(which, self.n, shape=shape, p=self.weights)
        root = lax_linalg.cholesky(self.covariance)
        off = random.normal(noise, (self.d, *shape), self.dataset.dtype)
        return self.dataset[:, at] + mnp.tensordot(root, off, 1)

    def _points(self, points: ArrayLike) -> Any:
        x = mnp.atleast_2d(mnp.asarray(points))
        if dtypes.is_complex(x.dtype):
            raise DTypeError(f"gaussian_kde: needs real points, got {x.aval}.")
        if x.ndim == 2 and x.shape[0] != self.d and x.shape == (1, self.d):
            x = x.T
        if x.ndim != 2 or x.shape[0] != self.d:
            raise ShapeError(f"gaussian_kde: points must have shape ({self.d}, m), got {x.aval}.")
        return x

    def _log_kernels(self, points: ArrayLike) -> Any:
        return self._log_products(self.covariance, self._points(points))

    def _log_products(self, covariance: Any, points: Any) -> Any:
        """Logarithms of the normal densities of differences, shape (points, n)."""
        root = lax_linalg.cholesky(covariance)
        difference = points[:, :, None] - self.dataset[:, None, :]
        flat = mnp.reshape(difference, (self.d, -1))
        z = lax_linalg.triangular_solve(root, flat, left_side=True, lower=True)
        squares = mnp.reshape(mnp.sum(mnp.square(z), axis=0), difference.shape[1:])
        log_det = mnp.sum(mnp.log(mnp.diagonal(root)))
        return -0.5 * squares - 0.5 * self.d * math.log(2 * math.pi) - log_det


def _flatten(kde: gaussian_kde) -> tuple[tuple[Any, ...], None]:
    return (kde.neff, kde.dataset, kde.weights, kde.covariance, kde.inv_cov), None


def _unflatten(_: None, children: Any) -> gaussian_kde:
    kde = object.__new__(gaussian_kde)
    kde.neff, kde.dataset, kde.weights, kde.covariance, kde.inv_cov = children
    return kde


register_pytree_node(gaussian_kde, _flatten, _unflatten)
