"""Distinct elements, membership, and operations on sets of numbers.

How many elements a set has depends on values, so these functions need known values, or `size`: then
the result is cut or filled up to that length and works under jit.
"""

from __future__ import annotations

import builtins
import operator
from typing import Any, NamedTuple

import numpy as np

from mgefn import dtypes
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.core.tracer import Tracer
from mgefn.errors import ConcretizationTypeError, api_boundary
from mgefn.numpy.assembling import concatenate
from mgefn.numpy.creation import arange, array, asarray, ones, zeros
from mgefn.numpy.statistics import bincount
from mgefn.ops import reductions
from mgefn.ops.cumulative import cumsum
from mgefn.ops.elementwise import convert, isnan, logical_not, minimum, promoted, where
from mgefn.ops.indexing.select import compress, nonzero, take
from mgefn.ops.shaping import moveaxis, normalize_axis, ravel, reshape
from mgefn.ops.sorting import lexsort, searchsorted


@api_boundary
def isin(
    element: ArrayLike,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    method: str = "auto",
) -> Array:
    """Is each element among the test elements? As numpy.isin tells it; NaN is never.

    Args:
        element: an array.
        test_elements: the elements to look for, of any shape.
        assume_unique: accepted.
        invert: tell instead which are not among them.
        method: accepted.
    """
    x, tests = promoted("isin", (element, asarray(test_elements)))
    tests = ravel(tests).sort()
    n = tests.shape[0]
    found: Any
    if not n:
        found = zeros(x.shape, np.bool_)
    else:
        place = minimum(searchsorted(tests, x), n - 1)
        found = take(tests, place, mode="clip") == x
    return logical_not(found) if invert else found


@api_boundary
def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
    sorted: bool = True,
) -> Any:
    """The distinct elements in rising order, as numpy.unique gives them.

    Args:
        ar: an array.
        return_index: also return where each first occurs.
        return_inverse: also return which of them each element of ar is.
        return_counts: also return how often each occurs.
        axis: the slices along this axis are the elements; None: the numbers.
        equal_nan: do all NaNs count as one?
        size: the length of the result; None: as many as there are, for known values only.
        fill_value: what fills a result up to size; None: the first element of the result.
        sorted: accepted; the result is sorted.

    Raises:
        ConcretizationTypeError: ar is traced and size is None.

    Example:
        >>> mnp.unique(mnp.array([3, 1, 3]), return_counts=True)
        (Array([1, 3], dtype=int32), Array([1, 2], dtype=int32))
    """
    x = asarray(ar)
    if size is None and isinstance(x, Tracer) and x.concrete() is None:
        raise ConcretizationTypeError(
            f"unique: needs known values without size, got the traced {x.aval}. Pass size."
        )
    if axis is None:
        rows, inverse_shape = ravel(x), x.shape
        order = rows.argsort(stable=True)
    else:
        rows = moveaxis(x, normalize_axis("unique", axis, x.ndim), 0)
        inverse_shape = (rows.shape[0],)
        flat = reshape(rows, (rows.shape[0], int(np.prod(rows.shape[1:]))))
        keys = [flat[:, j] for j in range(flat.shape[1])]
        order = lexsort(keys[::-1]) if keys else arange(rows.shape[0])
    n = rows.shape[0]
    ordered = take(rows, order, 0)
    differ: Any = ordered[1:] != ordered[:-1]
    if equal_nan and dtypes.is_inexact(x.dtype):
        differ = differ & logical_not(isnan(ordered[1:]) & isnan(ordered[:-1]))
    if differ.ndim > 1:
        differ = reductions.any(differ, tuple(range(1, differ.ndim)))
    first = concatenate([ones((builtins.min(n, 1),), np.bool_), differ])[:n]
    number = cumsum(first.astype(dtypes.default_int())) - 1
    length = int(first.sum()) if size is None else operator.index(size)
    (places,) = nonzero(first, size=length, fill_value=0)
    values = (
        take(ordered, places, 0, mode="clip") if n else zeros((length, *rows.shape[1:]), x.dtype)
    )
    if size is not None and fill_value is not None:
        filled = arange(length) >= first.sum()
        filled = reshape(filled, (length,) + (1,) * (rows.ndim - 1))
        values = where(filled, convert(asarray(fill_value), x.dtype), values)
    out = [values if axis is None else moveaxis(values, 0, axis)]
    if return_index:
        out.append(take(order, places, 0, mode="clip"))
    if return_inverse:
        out.append(reshape(zeros((n,), number.dtype).at[order].set(number), inverse_shape))
    if return_counts:
        out.append(bincount(number, length=length))
    return out[0] if len(out) == 1 else tuple(out)


class UniqueAll(NamedTuple):
    """What `unique_all` returns."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """What `unique_counts` returns."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """What `unique_inverse` returns."""

    values: Array
    inverse_indices: Array


@api_boundary
def unique_all(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> UniqueAll:
    """Distinct elements, where they first occur, which each element is, and how often they occur.

    NaNs are all distinct, as in the array API standard.
    """
    return UniqueAll(
        *unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value)
    )


@api_boundary
def unique_counts(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> UniqueCounts:
    """Distinct elements and how often they occur; NaNs are all distinct."""
    return UniqueCounts(
        *unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value)
    )


@api_boundary
def unique_inverse(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> UniqueInverse:
    """Distinct elements and which of them each element is; NaNs are all distinct."""
    return UniqueInverse(
        *unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value)
    )


@api_boundary
def unique_values(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """Distinct elements in rising order; NaNs are all distinct."""
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


@api_boundary
def union1d(
    ar1: ArrayLike, ar2: ArrayLike, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """The distinct elements of two arrays together."""
    both = concatenate([ravel(asarray(ar1)), ravel(asarray(ar2))])
    return unique(both, size=size, fill_value=fill_value)


@api_boundary
def setdiff1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """The distinct elements of the first array that are not in the second."""
    x = array(ar1)
    u = ravel(x) if assume_unique else unique(x, size=None if size is None else x.size)
    keep = isin(u, ar2, invert=True)
    if size is None:
        return compress(keep, u)
    if not assume_unique:
        # Filled places repeat the first element; only the first of each counts.
        keep = keep & concatenate([ones((builtins.min(x.size, 1),), np.bool_), u[1:] > u[:-1]])
    return compress(keep, u, size=size, fill_value=0 if fill_value is None else fill_value)


@api_boundary
def intersect1d(
    ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, return_indices: bool = False
) -> Any:
    """The distinct elements that two arrays of known values share.

    With `return_indices` also where they first occur in each array, flattened.
    """
    a, b = (ravel(v) for v in promoted("intersect1d", (asarray(ar1), asarray(ar2))))
    u, first = unique(a, return_index=True)
    keep = isin(u, b)
    shared = compress(keep, u)
    if not return_indices:
        return shared
    v, second = unique(b, return_index=True)
    return shared, compress(keep, first), take(second, searchsorted(v, shared))


@api_boundary
def setxor1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False) -> Array:
    """The distinct elements that just one of two arrays of known values has."""
    return concatenate([setdiff1d(ar1, ar2), setdiff1d(ar2, ar1)]).sort()
