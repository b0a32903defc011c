"""Covariances, counts and histograms."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.core.array import scalar
from mgefn.core.array_methods import Array, ArrayLike, DTypeLike
from mgefn.core.tracer import Tracer
from mgefn.errors import (
    ArgumentError,
    ConcretizationTypeError,
    DTypeError,
    ShapeError,
    api_boundary,
)
from mgefn.numpy.assembling import concatenate
from mgefn.numpy.calculus import diff
from mgefn.numpy.creation import asarray, linspace, ones_like, zeros
from mgefn.ops import reductions
from mgefn.ops.contractions import matmul
from mgefn.ops.elementwise import clip, conj, convert, maximum, promoted, real, sqrt, where
from mgefn.ops.indexing.select import diag, ravel_multi_index
from mgefn.ops.reductions import average
from mgefn.ops.shaping import ravel, reshape, rev, transpose
from mgefn.ops.sorting import searchsorted


@api_boundary
def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """The covariance matrix of variables, as numpy.cov gives it.

    Args:
        m: a row for each variable, a column for each observation; or a vector, one variable.
        y: more variables in the same form.
        rowvar: if not, rows are observations and columns variables.
        bias: divide by the number of observations n, not by n - 1.
        ddof: divide by n - ddof; overrides bias.
        fweights: how often each observation counts, integers.
        aweights: the weight of each observation.
        dtype: of the result.
    """
    (x,) = promoted("cov", (m,), inexact=True)
    if x.ndim > 2:
        raise ShapeError(f"cov: needs rank 2 or less, got {x.aval}.")
    x = _variables(x, rowvar)
    if y is not None:
        other = asarray(y)
        if other.ndim > 2:
            raise ShapeError(f"cov: needs rank 2 or less, got {other.aval}.")
        x = concatenate([x, _variables(other, rowvar)])
    if dtype is not None:
        x = x.astype(dtype)
    lost = (0 if bias else 1) if ddof is None else ddof
    weights: Any = None
    if fweights is not None:
        weights = asarray(fweights)
        if not dtypes.is_integer(weights.dtype):
            raise DTypeError(f"cov: fweights must be integers, got {weights.aval}.")
    if aweights is not None:
        a = asarray(aweights)
        weights = a if weights is None else weights * a
    if weights is not None and weights.shape != (x.shape[1],):
        raise ShapeError(f"cov: weights must have shape ({x.shape[1]},), got {weights.aval}.")
    mean, total = average(x, axis=1, weights=weights, returned=True)
    total = total[0] if x.shape[0] else asarray(0.0)
    if weights is None:
        f: Any = x.shape[1] - lost
    elif lost == 0:
        f = total
    elif aweights is None:
        f = total - lost
    else:
        f = total - lost * reductions.sum(weights * asarray(aweights)) / total
    centred = x - reshape(mean, (-1 if x.shape[0] else 0, 1))
    weighted = centred if weights is None else centred * weights
    c = matmul(weighted, conj(transpose(centred)))
    f = asarray(f)
    out = c / where(f > 0, f, 0).astype(dtypes.real_part_dtype(c.dtype))
    return reshape(out, tuple(n for n in out.shape if n != 1))


def _variables(x: Any, rowvar: bool) -> Any:
    x = reshape(x, (1,) * (2 - x.ndim) + x.shape)
    return transpose(x) if not rowvar and x.shape[0] != 1 else x


@api_boundary
def corrcoef(
    x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, dtype: DTypeLike | None = None
) -> Array:
    """The correlation coefficients of variables; arguments as for `cov`."""
    c = cov(x, y, rowvar, dtype=dtype)
    if not c.ndim:
        return c / c
    deviation = sqrt(real(diag(c)))
    c = c / reshape(deviation, (-1, 1)) / reshape(deviation, (1, -1))
    if dtypes.is_complex(c.dtype):
        return (clip(real(c), -1, 1) + 1j * clip(c.imag, -1, 1)).astype(c.dtype)
    return clip(c, -1, 1)


@api_boundary
def bincount(
    x: ArrayLike,
    weights: ArrayLike | None = None,
    minlength: int = 0,
    *,
    length: int | None = None,
) -> Array:
    """How often each integer from 0 on occurs, as numpy.bincount counts.

    Args:
        x: a vector of integers. Negative ones count as 0, as in JAX.
        weights: what each occurrence counts; None: 1.
        minlength: the least length of the result.
        length: the result's length; larger integers are left out. None: one more than the largest
            integer, which must be known then.
    """
    a = asarray(x)
    if not dtypes.is_integer(a.dtype) and a.size:
        raise DTypeError(f"bincount: needs integers, got {a.aval}. Cast them.")
    if a.ndim != 1:
        raise ShapeError(f"bincount: needs a vector, got {a.aval}.")
    if length is None:
        if isinstance(a, Tracer) and a.concrete() is None:
            raise ConcretizationTypeError(
                f"bincount: needs known values without length, got the traced {a.aval}. Pass "
                "length."
            )
        most = int(np.max(np.asarray(a.concrete() if isinstance(a, Tracer) else a), initial=-1))
        n = builtins.max(operator.index(minlength), most + 1)
    else:
        n = operator.index(length)
    w: Any = scalar(1, dtypes.default_int()) if weights is None else asarray(weights)
    if weights is not None and w.shape != a.shape:
        raise ShapeError(f"bincount: weights must have the shape of x, got {w.aval} for {a.aval}.")
    index = maximum(a.astype(np.int32) if a.dtype.itemsize < 4 else a, 0)
    return zeros((n,), w.dtype).at[index].add(w, mode="drop")


@api_boundary
def digitize(
    x: ArrayLike, bins: ArrayLike, right: bool = False, *, method: str | None = None
) -> Array:
    """The number of the bin that each value lies in, as numpy.digitize gives it.

    Args:
        x: values.
        bins: the edges, rising or falling.
        right: do bins hold their right edge instead of the left?
        method: accepted.
    """
    values, edges = asarray(x), asarray(bins)
    if edges.ndim != 1:
        raise ShapeError(f"digitize: bins must be a vector, got {edges.aval}.")
    n = edges.shape[0]
    if not n:
        return zeros(values.shape, np.int32)
    rising = searchsorted(edges, values, side="left" if right else "right")
    if n == 1:
        return rising
    falling = n - searchsorted(rev(edges, (0,)), values, side="right" if right else "left")
    return where(edges[-1] >= edges[0], rising, falling)


@api_boundary
def histogram_bin_edges(
    a: ArrayLike, bins: Any = 10, range: Any = None, weights: ArrayLike | None = None
) -> Array:
    """The edges of equal bins between the least and the greatest value, or in a range."""
    if not isinstance(bins, (int, np.integer)) and asarray(bins).ndim == 1:
        return asarray(bins)
    (x,) = promoted("histogram", (a,), inexact=True)
    n = operator.index(bins)
    if n < 1:
        raise ArgumentError(f"histogram: needs 1 bin or more, got {n}.")
    if range is None:
        low: Any = reductions.min(x) if x.size else asarray(0.0)
        high: Any = reductions.max(x) if x.size else asarray(1.0)
    else:
        low, high = asarray(range[0]), asarray(range[1])
    flat = low == high
    low, high = where(flat, low - 0.5, low), where(flat, high + 0.5, high)
    return linspace(low, high, n + 1, dtype=x.dtype)


def _bin_numbers(x: Any, edges: Any) -> Any:
    """The bin of each value; the last bin holds its right edge, and outside is out of range."""
    n = edges.shape[0] - 1
    index = searchsorted(edges, x, side="right") - 1
    index = where(x == edges[-1], n - 1, index)
    return where((x < edges[0]) | (x > edges[-1]) | (x != x), n, index)


@api_boundary
def histogram(
    a: ArrayLike,
    bins: Any = 10,
    range: Sequence[ArrayLike] | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, Array]:
    """(counts, edges): how many values lie in each bin, as numpy.histogram counts.

    Args:
        a: values of any shape.
        bins: how many equal bins, or the edges.
        range: (low, high) of equal bins; None: those of the values.
        weights: what each value counts; None: 1.
        density: divide so that the integral over the range is 1.

    Returns:
        Counts in the dtype of the weights, float without them as in JAX; and the edges.
    """
    (x,) = promoted("histogram", (a,), inexact=True)
    edges = histogram_bin_edges(x, bins, range, weights)
    x, edges = promoted("histogram", (x, edges), inexact=True)
    w = ones_like(x) if weights is None else asarray(weights)
    if w.shape != x.shape:
        raise ShapeError(f"histogram: weights must have the shape of a, got {w.aval}.")
    n = edges.shape[0] - 1
    counts = bincount(_bin_numbers(ravel(x), edges), ravel(w), length=n)
    if density:
        counts = counts / diff(edges) / reductions.sum(counts)
    return counts, edges


@api_boundary
def histogramdd(
    sample: ArrayLike,
    bins: Any = 10,
    range: Any = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, list[Array]]:
    """(counts, edges of each dimension) of points in several dimensions.

    Args:
        sample: a row for each point.
        bins: how many equal bins in all dimensions, or for each a number or the edges.
        range: for each dimension (low, high) or None.
        weights, density: as for `histogram`.
    """
    (x,) = promoted("histogramdd", (sample,), inexact=True)
    if x.ndim != 2:
        raise ShapeError(f"histogramdd: needs rank 2, a row for each point, got {x.aval}.")
    d = x.shape[1]
    each = [bins] * d if isinstance(bins, (int, np.integer)) else list(bins)
    ranges = [None] * d if range is None else list(range)
    if len(each) != d or len(ranges) != d:
        raise ArgumentError(f"histogramdd: needs bins and ranges for {d} dimensions.")
    numbers, edges = [], []
    inside: Any = True
    for i in builtins.range(d):
        column = x[:, i]
        e = convert(asarray(histogram_bin_edges(column, each[i], ranges[i])), x.dtype)
        number = _bin_numbers(column, e)
        inside = inside & (number < e.shape[0] - 1)
        numbers.append(number)
        edges.append(e)
    sizes = tuple(e.shape[0] - 1 for e in edges)
    total = int(np.prod(sizes))
    flat = ravel_multi_index(tuple(numbers), sizes, mode="clip")
    w = ones_like(x, shape=(x.shape[0],)) if weights is None else asarray(weights)
    counts = bincount(where(inside, flat, total), w, length=total)
    counts = reshape(counts, sizes)
    if density:
        volume: Any = reductions.sum(counts)
        for i, e in enumerate(edges):
            widths = diff(e)
            shape = tuple(-1 if j == i else 1 for j in builtins.range(d))
            volume = volume * reshape(widths, shape)
        counts = counts / volume
    return counts, edges


@api_boundary
def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: Any = 10,
    range: Any = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Array, Array, Array]:
    """(counts, edges of x, edges of y) of points in the plane; arguments as for `histogramdd`.

    One vector of edges as `bins` holds for both dimensions.
    """
    a, b = promoted("histogram2d", (x, y), inexact=True)
    both = bins
    if not isinstance(bins, (int, np.integer)) and not (
        isinstance(bins, (list, tuple)) and len(bins) == 2
    ):
        both = [bins, bins]
    points = concatenate([reshape(a, (-1, 1)), reshape(b, (-1, 1))], 1)
    counts, edges = histogramdd(points, both, range, weights, density)
    return counts, edges[0], edges[1]
