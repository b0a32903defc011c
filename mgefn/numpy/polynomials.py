"""Polynomials as vectors of coefficients, the highest power first, under NumPy's names."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.core.array import scalar
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.core.tracer import Tracer
from mgefn.errors import ArgumentError, ConcretizationTypeError, ShapeError, api_boundary
from mgefn.numpy import linalg
from mgefn.numpy.assembling import concatenate
from mgefn.numpy.calculus import convolve
from mgefn.numpy.creation import arange, asarray, ones_like, vander, zeros, zeros_like
from mgefn.ops import reductions
from mgefn.ops.contractions import outer
from mgefn.ops.cumulative import cummax_along
from mgefn.ops.elementwise import promoted, sqrt, where
from mgefn.ops.indexing.select import roll
from mgefn.ops.shaping import broadcast_in_dim, pad_p, ravel, reshape, slice_in_dim
from mgefn.ops.sorting import argsort


def _float(name: str, x: ArrayLike) -> Any:
    (a,) = promoted(name, (x,), inexact=True)
    return a


@api_boundary
def polyval(p: ArrayLike, x: ArrayLike, *, unroll: int = 16) -> Array:
    """The polynomial with coefficients p, the highest power first, at x; by Horner's rule."""
    coefficients, at = promoted("polyval", (p, x))
    if coefficients.ndim != 1:
        raise ShapeError(f"polyval: coefficients must have rank 1, got {coefficients.aval}.")
    y = zeros_like(at)
    for i in range(coefficients.shape[0]):
        y = y * at + reshape(slice_in_dim(coefficients, i, i + 1), ())
    return y


@api_boundary
def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The sum of two polynomials, the highest power first."""
    x, y = (_at_least_vector(v) for v in promoted("polyadd", (a1, a2)))
    n = max(x.shape[0], y.shape[0])
    x, y = (
        pad_p.bind1(v, scalar(0, v.dtype), padding_config=((n - v.shape[0], 0, 0),)) for v in (x, y)
    )
    return x + y


@api_boundary
def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The difference of two polynomials, the highest power first."""
    x, y = promoted("polysub", (a1, a2))
    return polyadd(x, -y)


def _at_least_vector(x: Any) -> Any:
    return reshape(x, (1,)) if not x.ndim else x


@api_boundary
def polymul(a1: ArrayLike, a2: ArrayLike, *, trim_leading_zeros: bool = False) -> Array:
    """The product of two polynomials, the highest power first.

    `trim_leading_zeros` drops them from the factors, whose values must be known then.
    """
    x, y = (_at_least_vector(v) for v in promoted("polymul", (a1, a2)))
    if trim_leading_zeros and x.shape[0] > 1 and y.shape[0] > 1:
        x, y = (v[int(np.argmax(np.append(np.asarray(v) != 0, True))) :] for v in (x, y))
        x, y = (v if v.shape[0] else zeros((1,), v.dtype) for v in (x, y))
    return convolve(x, y)


@api_boundary
def polyder(p: ArrayLike, m: int = 1) -> Array:
    """The m-th derivative of a polynomial, the highest power first."""
    c = _float("polyder", p)
    times = operator.index(m)
    if times < 0:
        raise ArgumentError(f"polyder: m must be 0 or more, got {times}.")
    for _ in range(times):
        n = c.shape[0]
        if n == 0:
            break
        powers = arange(n - 1, 0, -1).astype(dtypes.real_part_dtype(c.dtype))
        c = slice_in_dim(c, 0, n - 1) * powers
    return c


@api_boundary
def polyint(p: ArrayLike, m: int = 1, k: ArrayLike | None = None) -> Array:
    """The m-th antiderivative of a polynomial, with the constants k (0 where left out)."""
    c = _float("polyint", p)
    times = operator.index(m)
    if times < 0:
        raise ArgumentError(f"polyint: m must be 0 or more, got {times}.")
    constants = zeros((times,), c.dtype) if k is None else ravel(asarray(k)).astype(c.dtype)
    if constants.shape[0] == 1 and times > 1:
        constants = broadcast_in_dim(constants, (times,), (0,))
    if constants.shape[0] != times:
        raise ShapeError(f"polyint: needs {times} constants, got {constants.aval}.")
    for i in range(times):
        powers = arange(c.shape[0], 0, -1).astype(dtypes.real_part_dtype(c.dtype))
        c = concatenate([c / powers, slice_in_dim(constants, i, i + 1)])
    return c


@api_boundary
def poly(seq_of_zeros: ArrayLike) -> Array:
    """The coefficients of the polynomial with these zeros, the highest power first.

    Args:
        seq_of_zeros: shape (n,), the zeros; or (n, n), a matrix, whose eigenvalues are the zeros:
            the coefficients of its characteristic polynomial, which are complex.

    Returns:
        Array of shape (n + 1,).

    Raises:
        ShapeError: it is neither a vector nor a square matrix.

    Example:
        >>> mnp.poly(mnp.array([1.0, 2.0]))
        Array([ 1., -3.,  2.], dtype=float32)
    """
    z = _float("poly", seq_of_zeros)
    if z.ndim == 2 and z.shape[0] == z.shape[1] and z.shape[0] > 0:
        z = linalg.eigvals(z)
    if z.ndim != 1:
        raise ShapeError(f"poly: needs a vector of zeros or a square matrix, got {z.aval}.")
    c = ones_like(z, shape=(1,))
    for i in range(z.shape[0]):
        root = slice_in_dim(z, i, i + 1)
        c = polyadd(concatenate([c, zeros_like(root)]), -(c * root))
    return c


@api_boundary
def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: ArrayLike | None = None,
    cov: bool | str = False,
) -> Any:
    """The polynomial of a degree that is nearest to points by least squares.

    Args:
        x: shape (n,), where the points are.
        y: shape (n,), their values; or (n, k) for k polynomials.
        deg: the degree, 0 or more.
        rcond: singular values below rcond times the largest count as 0; None: n * eps.
        full: return (coefficients, residuals, rank, singular values, rcond), as `linalg.lstsq`.
        w: shape (n,), by which the distance from each point is multiplied.
        cov: return (coefficients, covariance); "unscaled": without the factor
            chi**2 / (n - deg - 1).

    Returns:
        Array of shape (deg + 1,) or (deg + 1, k).

    Raises:
        ShapeError: the shapes do not fit, or there are too few points for a covariance.
        ArgumentError: deg is negative.

    Example:
        >>> mnp.polyfit(mnp.array([0.0, 1.0, 2.0]), mnp.array([1.0, 3.0, 5.0]), 1).round(4)
        Array([2., 1.], dtype=float32)
    """
    at, values = promoted("polyfit", (x, y), inexact=True)
    degree = operator.index(deg)
    if degree < 0:
        raise ArgumentError(f"polyfit: deg must be 0 or more, got {degree}.")
    if at.ndim != 1 or not at.size or values.ndim not in (1, 2) or len(values) != len(at):
        raise ShapeError(
            f"polyfit: needs x of shape (n,) and y of shape (n,) or (n, k), got {at.aval} and "
            f"{values.aval}."
        )
    n, order = at.shape[0], degree + 1
    if rcond is None:
        rcond = n * float(dtypes.finfo(at.dtype).eps)
    left, right = vander(at, order), values
    if w is not None:
        weights = _float("polyfit", w)
        if weights.shape != (n,):
            raise ShapeError(f"polyfit: needs w of shape ({n},), got {weights.aval}.")
        column = reshape(weights, (n, 1))
        left = left * column
        right = right * (column if right.ndim == 2 else weights)
    # Columns of one length: the powers of x may differ by orders of magnitude.
    scale = sqrt(reductions.sum((left * left.conj()).real, 0))
    c, residuals, rank, s = linalg.lstsq(left / scale, right, rcond)
    c = c / (reshape(scale, (order, 1)) if c.ndim == 2 else scale)
    if full:
        return c, residuals, rank, s, asarray(rcond)
    if not cov:
        return c
    left = left / scale
    covariance = linalg.inv(left.mT.conj() @ left) / outer(scale, scale)
    if cov != "unscaled":
        if n <= order:
            raise ShapeError(
                f"polyfit: a covariance of degree {degree} needs more than {order} points, got "
                f"{n}. Pass cov='unscaled'."
            )
        factor = residuals / (n - order)
        covariance = covariance * factor if values.ndim == 1 else covariance[..., None] * factor
    elif values.ndim == 2:
        covariance = covariance[..., None]
    return c, covariance


@api_boundary
def roots(p: ArrayLike, *, strip_zeros: bool = True) -> Array:
    """The zeros of a polynomial, the highest power first, as eigenvalues of its companion matrix.

    Args:
        p: coefficients, shape (n,).
        strip_zeros: drop leading zeros, whose number must be known. False: keep n - 1 numbers, the
            last of them NaN, one for each leading zero.

    Returns:
        Complex array of shape (n - 1,), less the leading zeros.

    Raises:
        ShapeError: p is not of rank 1. ConcretizationTypeError: p is traced and strip_zeros True.

    Example:
        >>> mnp.roots(mnp.array([1.0, -3.0, 2.0])).real
        Array([2., 1.], dtype=float32)
    """
    c = _at_least_vector(_float("roots", p))
    if c.ndim != 1:
        raise ShapeError(f"roots: needs a vector of coefficients, got {c.aval}.")
    if not strip_zeros:
        if c.shape[0] < 2:
            return _roots(c)
        n = c.shape[0]
        seen = cummax_along((c != 0).astype("int32"))
        leading = n - reductions.sum(seen)
        # A polynomial that is 0 throughout would make LAPACK divide by it.
        found = _roots(roll(where(leading == n, 1, c), -leading))
        found = found[argsort((found == 0).astype("int32"))]
        return where(arange(n - 1) < n - 1 - leading, found, complex(np.nan, np.nan))
    known = c.concrete() if isinstance(c, Tracer) else c
    if known is None:
        raise ConcretizationTypeError(
            "roots: how many zeros there are depends on values that are not known while tracing. "
            "Pass strip_zeros=False."
        )
    nonzero = np.flatnonzero(np.asarray(known))
    return _roots(c[int(nonzero[0]) :] if nonzero.size else c[:0])


def _roots(c: Any) -> Any:
    """The zeros of a polynomial whose first coefficient is not 0."""
    n = c.shape[0] - 1
    if n < 1:
        return zeros((0,), dtypes.promote_types(c.dtype, "complex64"))
    first = reshape(-c[1:] / c[0], (1, n))
    below = asarray(np.eye(n - 1, n), c.dtype)
    return linalg.eigvals(concatenate([first, below]))
