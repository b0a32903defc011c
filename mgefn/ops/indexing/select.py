"""NumPy's functions that choose, move or repeat elements by index.

None has a primitive of its own: static ones are slices, reshapes and pads, the others gathers. A
function whose result size depends on values (nonzero, compress, ...) takes `size` for use under
jit; without it the values must be known.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.core.array import ConcreteArray, as_array, scalar
from mgefn.core.array_methods import METHODS, Array, ArrayLike, DTypeLike, method
from mgefn.core.avals import ShapedArray
from mgefn.core.interpreter import state
from mgefn.core.tracer import Tracer
from mgefn.errors import (
    ArgumentError,
    ConcretizationTypeError,
    DTypeError,
    IndexOutOfBoundsError,
    ShapeError,
    api_boundary,
)
from mgefn.ops.elementwise import clip, convert, promoted, remainder, truth, where
from mgefn.ops.indexing.gather import (
    CLIP,
    FILL,
    PROMISE,
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    fill_param,
    gather_p,
    scatter_p,
)
from mgefn.ops.indexing.slices import dynamic_slice_in_dim, index_dtype, wrapped
from mgefn.ops.indexing.updates import index_set
from mgefn.ops.shaping import (
    broadcast_in_dim,
    broadcast_to_shape,
    broadcasted_iota,
    canonical_shape,
    concatenate_p,
    full_like_aval,
    iota,
    moveaxis,
    normalize_axis,
    pad_p,
    reshape,
    result_shape,
    slice_in_dim,
    strided_slice,
    zeros,
)

BOOL = np.dtype(bool)


def _array(name: str, x: Any) -> Any:
    """An array also from a list or tuple."""
    return METHODS["asarray"](x) if isinstance(x, (list, tuple)) else as_array(x, name)


def _integers(name: str, x: Any) -> Any:
    """An integer array; an empty list counts as one."""
    if isinstance(x, (list, tuple)) and not len(x):
        return ConcreteArray(np.zeros(0, np.int32))
    a = _array(name, x)
    if not dtypes.is_integer(a.dtype):
        raise DTypeError(f"{name}: indices must be integers, got {a.aval}. Cast them with astype.")
    return a


def known(x: Any) -> np.ndarray | None:
    """The values of an array where they are known, through the boxes of jvp and grad."""
    while isinstance(x, Tracer):
        x = x.concrete()
    return None if x is None else np.asarray(x)


def _needed(name: str, x: Any, repair: str) -> np.ndarray:
    value = known(x)
    if value is None:
        raise ConcretizationTypeError(
            f"{name}: needs known values, got the traced {x.aval}, so the size of the result is "
            f"unknown. {repair}"
        )
    return value


def _constant(data: np.ndarray) -> ConcreteArray:
    return ConcreteArray(np.asarray(data))


# -- take and its kin -----------------------------------------------------------------------------


@method("take")
@api_boundary
def take(
    a: ArrayLike,
    indices: ArrayLike,
    axis: int | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Any = None,
) -> Array:
    """The elements at `indices` along an axis, as numpy.take gives them.

    Args:
        a: an array.
        indices: integers of any shape, which takes the place of the axis.
        axis: None takes from the flattened array.
        mode: what happens out of bounds. "fill" (default) gives fill_value, negative indices
            counting from the end; "clip" takes the nearest element; "wrap" counts around; "raise"
            raises, for known indices only.
        fill_value: NaN, or the least integer, where not given.
    Raises:
        IndexOutOfBoundsError: the axis is empty, or mode is "raise".
    Example:
        >>> mnp.take(mnp.array([10.0, 20.0]), mnp.array([1, 5]))
        Array([20., nan], dtype=float32)
    """
    if out is not None:
        raise ArgumentError("take: out is not supported, since arrays are immutable. Drop it.")
    x, i = _array("take", a), _integers("take", indices)
    if axis is None:
        x, at = reshape(x, (x.size,)), 0
    else:
        at = normalize_axis("take", axis, x.ndim)
    n = x.shape[at]
    shape = (*x.shape[:at], *i.shape, *x.shape[at + 1 :])
    if not n and i.size:
        raise IndexOutOfBoundsError(f"take: cannot take from the empty axis {at} of {x.aval}.")
    if mode == "raise":
        values = _needed("take", i, "Use mode='fill', 'clip' or 'wrap'.")
        if values.size and (values.min() < -n or values.max() >= n):
            raise IndexOutOfBoundsError(
                f"take: indices must lie in [-{n}, {n}) for axis {at} of {x.aval}, got "
                f"[{values.min()}, {values.max()}]."
            )
    elif mode not in (None, "fill", "clip", "wrap"):
        raise ArgumentError(f"take: mode must be 'fill', 'clip', 'wrap' or 'raise', got {mode!r}.")
    if (
        state.current is None
        and x.__class__ is ConcreteArray
        and i.__class__ is ConcreteArray
        and mode != "wrap"
        and mode != "clip"
    ):
        try:
            return ConcreteArray(np.asarray(np.take(x._data, i._data, axis=at)), x._weak)
        except IndexError:
            pass  # out of bounds: filled below
    if 0 in shape:
        return zeros(ShapedArray(shape, x.dtype))
    if mode == "wrap":
        i = remainder(convert(i, index_dtype((n,))) if i.dtype.itemsize < 4 else i, n)
    elif mode != "clip":
        i = wrapped(i, n) if known(i) is None else _wrapped_known(known(i), n)
    offset = tuple(d for d in range(len(shape)) if not at <= d < at + i.ndim)
    parsed = CLIP if mode == "clip" else PROMISE if mode == "wrap" else FILL
    out_ = gather_p.bind1(
        x,
        reshape(i, (*i.shape, 1)),
        dimension_numbers=GatherDimensionNumbers(offset, (at,), (at,)),
        slice_sizes=(*x.shape[:at], 1, *x.shape[at + 1 :]),
        indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices),
        mode=parsed,
        fill_value=fill_param(fill_value, x.dtype) if parsed is FILL else None,
    )
    return convert(out_, x.dtype, True) if x.weak_type else out_


def _wrapped_known(i: Any, n: int) -> ConcreteArray:
    if i.dtype == np.uint64:
        i = np.minimum(i, np.uint64(2**63 - 1))
    i = i.astype(np.int64)
    return _constant(np.clip(np.where(i < 0, i + n, i), -1, n).astype(index_dtype((n,))))


@api_boundary
def take_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    axis: int | None = -1,
    mode: str | GatherScatterMode | None = None,
    fill_value: Any = None,
) -> Array:
    """For each index the element of its own row, as numpy.take_along_axis gives it.

    Args:
        arr: an array.
        indices: integers of arr's rank; the other dimensions broadcast with arr's.
        axis: the dimension that is indexed; None flattens arr.
        mode: "fill" (default), "clip" or "promise_in_bounds"; negative indices count from the end.
        fill_value: for "fill"; NaN, or the least integer, where not given.
    """
    x, i = _array("take_along_axis", arr), _integers("take_along_axis", indices)
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    x, i, at = _aligned_rows("take_along_axis", x, i, axis)
    if 0 in i.shape:
        return zeros(ShapedArray(i.shape, x.dtype))
    parsed = GatherScatterMode.from_any(mode)
    _, rows, column, numbers = _along(x, i, at)
    return gather_p.bind1(
        x,
        column,
        dimension_numbers=GatherDimensionNumbers((), (at,), (at,), rows, numbers),
        slice_sizes=(1,) * x.ndim,
        indices_are_sorted=False,
        unique_indices=False,
        mode=parsed,
        fill_value=fill_param(fill_value, x.dtype) if parsed is FILL else None,
    )


def _aligned_rows(name: str, x: Any, i: Any, axis: int) -> tuple[Any, Any, int]:
    """x and the indices with all dimensions but the axis broadcast."""
    if x.ndim != i.ndim:
        raise ShapeError(f"{name}: needs indices of the array's rank, got {x.aval} and {i.aval}.")
    at = normalize_axis(name, axis, x.ndim)
    rest = [(*a.shape[:at], 1, *a.shape[at + 1 :]) for a in (x, i)]
    common = result_shape(name, rest, (x.aval, i.aval))
    n, m = x.shape[at], i.shape[at]
    x = broadcast_to_shape(x, (*common[:at], n, *common[at + 1 :]))
    i = broadcast_to_shape(i, (*common[:at], m, *common[at + 1 :]))
    if not n and i.size:
        raise IndexOutOfBoundsError(f"{name}: cannot index the empty axis {at} of {x.aval}.")
    return x, i, at


def _along(x: Any, i: Any, at: int) -> tuple:
    value = known(i)
    n = x.shape[at]
    i = wrapped(i, n) if value is None else _wrapped_known(value, n)
    rows = tuple(d for d in range(x.ndim) if d != at)
    return i, rows, reshape(i, (*i.shape, 1)), rows


@api_boundary
def put_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    values: ArrayLike,
    axis: int | None,
    inplace: bool = True,
    *,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """A copy of arr with `values` at `indices` along an axis, each row by its own.

    Raises:
        ArgumentError: inplace is not False; arrays are immutable, so the copy is the result.
    """
    if inplace:
        raise ArgumentError(
            "put_along_axis: arrays are immutable, so it can't write in place. Write "
            "x = put_along_axis(x, indices, values, axis, inplace=False)."
        )
    x, i = _array("put_along_axis", arr), _integers("put_along_axis", indices)
    v = convert(_array("put_along_axis", values), x.dtype)
    original = x.shape
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    wide, i, at = _aligned_rows("put_along_axis", x, i, axis)
    if wide.shape != x.shape:
        raise ShapeError(f"put_along_axis: the indices {i.aval} must broadcast to {x.aval}.")
    v = broadcast_to_shape(v, i.shape)
    if 0 in i.shape:
        return reshape(x, original)
    _, rows, column, numbers = _along(x, i, at)
    out = scatter_p.bind1(
        x,
        column,
        v,
        dimension_numbers=ScatterDimensionNumbers((), (at,), (at,), rows, numbers),
        mode=GatherScatterMode.from_any(mode),
        indices_are_sorted=False,
        unique_indices=False,
    )
    return reshape(out, original)


@api_boundary
def put(
    a: ArrayLike, ind: ArrayLike, v: ArrayLike, mode: str | None = None, *, inplace: bool = True
) -> Array:
    """A copy of `a` with `v` (repeated as needed) at flat indices.

    Args:
        a: an array.
        ind: flat indices.
        v: values; repeated where there are fewer than indices.
        mode: None drops what is out of bounds; "clip"; "wrap".
    Raises:
        ArgumentError: inplace is not False.
    """
    if inplace:
        raise ArgumentError(
            "put: arrays are immutable, so it can't write in place. Write "
            "x = put(x, indices, values, inplace=False)."
        )
    x = _array("put", a)
    i = reshape(_integers("put", ind), (-1,)) if as_size(ind) else None
    values = _array("put", v)
    if i is None or not x.size or not values.size:
        return x
    values = reshape(values, (values.size,))
    n = i.shape[0]
    times = -(-n // values.shape[0])
    values = tile(values, times)[:n]
    if mode == "wrap":
        i = remainder(i, x.size)
    elif mode == "clip":
        i = clip(i, 0, x.size - 1)
    elif mode is not None:
        raise ArgumentError(f"put: mode must be None, 'clip' or 'wrap', got {mode!r}.")
    return reshape(index_set(reshape(x, (x.size,)), i, values), x.shape)


def as_size(x: Any) -> int:
    """Number of elements of anything array-like."""
    return len(x) if isinstance(x, (list, tuple)) else as_array(x).size


# -- diagonals and triangles ----------------------------------------------------------------------


@method("diagonal")
@api_boundary
def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The diagonal of the matrices in two dimensions, as the last dimension of the result."""
    x = _array("diagonal", a)
    if x.ndim < 2:
        raise ShapeError(f"diagonal: needs rank 2 or more, got {x.aval}.")
    i, j = (normalize_axis("diagonal", d, x.ndim) for d in (axis1, axis2))
    if i == j:
        raise ShapeError(f"diagonal: axis1 and axis2 must differ, got {axis1} and {axis2}.")
    x = moveaxis(x, (i, j), (-2, -1))
    n, m = x.shape[-2:]
    k = operator.index(offset)
    count = max(0, min(n, m - k) if k >= 0 else min(n + k, m))
    lead = x.shape[:-2]
    if not count or 0 in lead:
        return zeros(ShapedArray((*lead, count), x.dtype))
    # In the flattened matrix neighbours on the diagonal are m + 1 apart.
    start = k if k >= 0 else -k * m
    flat = reshape(x, (*lead, n * m))
    limit = start + (count - 1) * (m + 1) + 1
    zero, one = (0,) * len(lead), (1,) * len(lead)
    return strided_slice(flat, (*zero, start), (*lead, limit), (*one, m + 1 if count > 1 else 1))


@api_boundary
def diag(v: ArrayLike, k: int = 0) -> Array:
    """The k-th diagonal of a matrix, or the matrix that has a vector on it, as numpy.diag."""
    x = _array("diag", v)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ShapeError(f"diag: needs rank 1 or 2, got {x.aval}. Use diagflat or diagonal.")
    k = operator.index(k)
    n = x.shape[0]
    size = n + abs(k)
    start = k if k >= 0 else -k * size
    if not n:
        return zeros(ShapedArray((size, size), x.dtype))
    high = size * size - start - (n - 1) * (size + 1) - 1
    flat = pad_p.bind1(x, scalar(0, x.dtype), padding_config=((start, high, size),))
    return reshape(flat, (size, size))


@api_boundary
def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """`diag` of the flattened array."""
    x = _array("diagflat", v)
    return diag(reshape(x, (x.size,)), k)


@method("trace")
@api_boundary
def trace(
    a: ArrayLike,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: DTypeLike = None,
    out: None = None,
) -> Array:
    """The sum of the diagonal of the matrices in two dimensions, as numpy.trace gives it."""
    return METHODS["sum"](diagonal(a, offset, axis1, axis2), -1, dtype, out)


@api_boundary
def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """The indices of the main diagonal of an array with `ndim` dimensions of size n."""
    return (iota(np.int32, operator.index(n)),) * ndim


@api_boundary
def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """`diag_indices` for an array, whose dimensions must have one size."""
    x = _array("diag_indices_from", arr)
    if x.ndim < 2 or len(set(x.shape)) != 1:
        raise ShapeError(
            f"diag_indices_from: needs rank 2 or more and one size in all dimensions, got {x.aval}."
        )
    return diag_indices(x.shape[0], x.ndim)


def _lower(shape: tuple[int, int], k: int) -> Any:
    """True on and below the k-th diagonal."""
    dtype = np.dtype(np.int32)
    row, column = (broadcasted_iota(dtype, shape, d) for d in (0, 1))
    return row + scalar(max(min(k, 2**30), -(2**30)), dtype) >= column


@api_boundary
def tri(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike = None) -> Array:
    """1 on and below the k-th diagonal of an N x M matrix and 0 above, as numpy.tri."""
    new = dtypes.default_float() if dtype is None else dtypes.canonical(dtype)
    m = N if M is None else M
    return convert(_lower((operator.index(N), operator.index(m)), operator.index(k)), new)


@api_boundary
def tril(m: ArrayLike, k: int = 0) -> Array:
    """The matrix with zeros above the k-th diagonal; leading dimensions are a batch."""
    return _triangle("tril", m, k, True)


@api_boundary
def triu(m: ArrayLike, k: int = 0) -> Array:
    """The matrix with zeros below the k-th diagonal; leading dimensions are a batch."""
    return _triangle("triu", m, k - 1, False)


def _triangle(name: str, m: Any, k: int, lower: bool) -> Any:
    x = _array(name, m)
    if x.ndim < 2:
        raise ShapeError(f"{name}: needs rank 2 or more, got {x.aval}.")
    inside = broadcast_to_shape(_lower(x.shape[-2:], operator.index(k)), x.shape)
    zero = scalar(0, x.dtype)
    return where(inside, x, zero) if lower else where(inside, zero, x)


@api_boundary
def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Row and column indices of the lower triangle of an n x m matrix."""
    i, j = np.tril_indices(n, k, m)
    return _constant(i.astype(np.int32)), _constant(j.astype(np.int32))


@api_boundary
def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Row and column indices of the upper triangle of an n x m matrix."""
    i, j = np.triu_indices(n, k, m)
    return _constant(i.astype(np.int32)), _constant(j.astype(np.int32))


@api_boundary
def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """`tril_indices` for a matrix."""
    n, m = _array("tril_indices_from", arr).shape
    return tril_indices(n, k, m)


@api_boundary
def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """`triu_indices` for a matrix."""
    n, m = _array("triu_indices_from", arr).shape
    return triu_indices(n, k, m)


@api_boundary
def mask_indices(
    n: int, mask_func: Callable[..., Any], k: Any = 0, size: int | None = None
) -> tuple[Array, ...]:
    """The indices where mask_func(ones((n, n)), k) is not 0."""
    ones = full_like_aval(1, ShapedArray((n, n), dtypes.default_int()))
    return nonzero(mask_func(ones, k), size=size)


# -- where something holds ------------------------------------------------------------------------


@method("nonzero")
@api_boundary
def nonzero(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> tuple[Array, ...]:
    """The indices of the elements that are not 0, one array for each dimension.

    Args:
        a: an array of rank 1 or more.
        size: number of indices to give, for use under jit: the first ones, and fill_value beyond
            the last.
        fill_value: a number, or one for each dimension; default 0.
    Raises:
        ConcretizationTypeError: a is traced and there is no size.
    Example:
        >>> mnp.nonzero(mnp.array([0, 3, 0, 4]))
        (Array([1, 3], dtype=int32),)
    """
    x = _array("nonzero", a)
    if not x.ndim:
        raise ShapeError(f"nonzero: needs rank 1 or more, got {x.aval}. Use atleast_1d.")
    dtype = index_dtype((x.size,))
    if size is None:
        found = np.nonzero(_needed("nonzero", x, "Pass size=n, or use where(mask, x, y)."))
        return tuple(_constant(i.astype(dtype)) for i in found)
    n = operator.index(size)
    fills = fill_value if isinstance(fill_value, (tuple, list)) else (fill_value,) * x.ndim
    if len(fills) != x.ndim:
        raise ArgumentError(f"nonzero: needs one fill value for each dimension, got {fills}.")
    fills = tuple(0 if f is None else f for f in fills)
    if not n or not x.size:
        return tuple(
            broadcast_to_shape(convert(as_array(f, "nonzero"), dtype), (n,)) for f in fills
        )
    holds = reshape(truth(x), (x.size,))
    # Element number r of those that hold goes to place r; the others, and those too many, drop.
    place = METHODS["cumsum"](convert(holds, dtype)) - scalar(1, dtype)
    place = where(holds, place, scalar(n, dtype))
    flat = scatter_p.bind1(
        full_like_aval(-1, ShapedArray((n,), dtype)),
        reshape(place, (x.size, 1)),
        iota(dtype, x.size),
        dimension_numbers=ScatterDimensionNumbers((), (0,), (0,)),
        mode=FILL,
        indices_are_sorted=False,
        unique_indices=True,
    )
    missing = flat < scalar(0, dtype)
    out = []
    for i, f in zip(unravel_index(flat, x.shape), fills, strict=True):
        out.append(where(missing, convert(as_array(f, "nonzero"), dtype), convert(i, dtype)))
    return tuple(out)


@api_boundary
def flatnonzero(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """The flat indices of the elements that are not 0; size and fill_value as for `nonzero`."""
    x = _array("flatnonzero", a)
    return nonzero(reshape(x, (x.size,)), size=size, fill_value=fill_value)[0]


@api_boundary
def argwhere(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """The indices of the elements that are not 0, one row each; see `nonzero`."""
    x = _array("argwhere", a)
    if not x.ndim:
        found = _needed("argwhere", x, "It has no dimension to index.")
        return _constant(np.zeros((int(bool(found)), 0), np.int32))
    columns = nonzero(x, size=size, fill_value=fill_value)
    n = columns[0].shape[0]
    return concatenate_p.bind1(*(reshape(c, (n, 1)) for c in columns), dimension=1)


@api_boundary
def compress(
    condition: ArrayLike,
    a: ArrayLike,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: Any = 0,
    out: None = None,
) -> Array:
    """The slices along an axis where a condition holds, as numpy.compress gives them.

    Args:
        condition: a vector of booleans, at most as long as the axis.
        a: an array.
        axis: None compresses the flattened array.
        size: number of slices to give, for use under jit; beyond the last comes fill_value.
    """
    c, x = truth(_array("compress", condition)), _array("compress", a)
    if c.ndim != 1:
        raise ShapeError(f"compress: the condition must have rank 1, got {c.aval}.")
    if axis is None:
        x, at = reshape(x, (x.size,)), 0
    else:
        at = normalize_axis("compress", axis, x.ndim)
    n = x.shape[at]
    beyond = None if c.shape[0] <= n else known(c)
    if beyond is not None and beyond[n:].any():
        raise IndexOutOfBoundsError(
            f"compress: the condition holds beyond the {n} slices of axis {at}. Shorten it."
        )
    (i,) = nonzero(c[:n], size=size, fill_value=n)
    if not n:
        return take(x, ConcreteArray(np.zeros(0, np.int32)), at)
    return take(x, i, at, mode="fill", unique_indices=size is None, fill_value=fill_value)


@method("compress")
@api_boundary
def _compress_method(a: Array, condition: ArrayLike, axis: int | None = None) -> Array:
    # As a method the array comes first.
    return compress(condition, a, axis)


@api_boundary
def extract(
    condition: ArrayLike, arr: ArrayLike, *, size: int | None = None, fill_value: Any = 0
) -> Array:
    """The elements of arr where a condition of its size holds, in one dimension."""
    c = _array("extract", condition)
    return compress(reshape(c, (c.size,)), arr, size=size, fill_value=fill_value)


# -- choices --------------------------------------------------------------------------------------


@method("choose")
@api_boundary
def choose(a: ArrayLike, choices: Any, out: None = None, mode: str = "raise") -> Array:
    """For each element of `a` the element of the choice that it numbers, as numpy.choose.

    Args:
        a: integers in [0, number of choices).
        choices: arrays that broadcast with a.
        mode: "raise" needs known integers; "wrap"; "clip".
    """
    if out is not None:
        raise ArgumentError("choose: out is not supported, since arrays are immutable. Drop it.")
    which = _integers("choose", a)
    arrays = promoted("choose", list(choices))
    n = len(arrays)
    if not n:
        raise ArgumentError("choose: needs at least one choice, got none.")
    if mode == "raise":
        values = _needed("choose", which, "Pass mode='wrap' or mode='clip'.")
        if values.size and (values.min() < 0 or values.max() >= n):
            raise IndexOutOfBoundsError(f"choose: entries of a must lie in [0, {n}).")
    elif mode == "wrap":
        which = remainder(which, n)
    elif mode == "clip":
        which = clip(which, 0, n - 1)
    else:
        raise ArgumentError(f"choose: mode must be 'raise', 'wrap' or 'clip', got {mode!r}.")
    shape = result_shape("choose", [which.shape, *(c.shape for c in arrays)], [which.aval])
    which = broadcast_to_shape(which, shape)
    result = broadcast_to_shape(arrays[0], shape)
    for k, c in enumerate(arrays[1:], 1):
        result = where(which == scalar(k, which.dtype), c, result)
    return result


@api_boundary
def select(
    condlist: Sequence[ArrayLike], choicelist: Sequence[ArrayLike], default: ArrayLike = 0
) -> Array:
    """The choice of the first condition that holds, elementwise, as numpy.select gives it."""
    if len(condlist) != len(choicelist) or not len(condlist):
        raise ArgumentError(
            f"select: needs as many conditions as choices, at least one, got {len(condlist)} and "
            f"{len(choicelist)}."
        )
    *choices, result = promoted("select", [*choicelist, default])
    for c, choice in zip(reversed(condlist), reversed(choices), strict=True):
        c = _array("select", c)
        if c.dtype != BOOL:
            raise DTypeError(f"select: conditions must be booleans, got {c.aval}. Compare first.")
        result = where(c, choice, result)
    return result


@api_boundary
def piecewise(x: ArrayLike, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Array:
    """The function of the last condition that holds, applied to x, as numpy.piecewise gives it.

    All functions are evaluated everywhere. One more function than conditions is the default, which
    is 0 otherwise. The result has the dtype of x.
    """
    (a,) = promoted("piecewise", (x,))
    if not isinstance(condlist, (list, tuple)):
        c = as_array(condlist, "piecewise")
        condlist = [c] if c.ndim == a.ndim else [c[i] for i in range(c.shape[0])]
    conditions = [truth(_array("piecewise", c)) for c in condlist]
    functions = list(funclist)
    if len(functions) not in (len(conditions), len(conditions) + 1):
        raise ArgumentError(
            f"piecewise: needs {len(conditions)} functions or one more, got {len(functions)}."
        )
    value: Any = functions.pop() if len(functions) > len(conditions) else 0
    result = value(a, *args, **kw) if callable(value) else value
    result = broadcast_to_shape(convert(_array("piecewise", result), a.dtype), a.shape)
    for c, f in zip(conditions, functions, strict=True):
        y = f(a, *args, **kw) if callable(f) else f
        result = where(c, convert(_array("piecewise", y), a.dtype), result)
    return result


# -- moving and repeating -------------------------------------------------------------------------


@api_boundary
def roll(a: ArrayLike, shift: Any, axis: int | Sequence[int] | None = None) -> Array:
    """Move elements along axes; what leaves at the end comes back at the start, as numpy.roll.

    Args:
        a: an array.
        shift: number of places, an integer or one for each axis; may be traced.
        axis: None rolls the flattened array.
    """
    x = _array("roll", a)
    if axis is None:
        return reshape(roll(reshape(x, (x.size,)), shift, 0), x.shape)
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    if isinstance(shift, (tuple, list)):
        shifts = list(shift)
    else:
        s = as_array(shift, "roll")
        shifts = [shift] if not s.ndim else [s[i] for i in range(s.shape[0])]
    pairs = np.broadcast(np.arange(len(shifts)), np.arange(len(axes)))
    for k, d in pairs:
        at = normalize_axis("roll", axes[d], x.ndim)
        n = x.shape[at]
        if n <= 1:
            continue
        s = shifts[k]
        value = known(s) if isinstance(s, Array) else s
        if value is not None:
            if (
                not isinstance(value, (int, np.integer))
                and np.asarray(value).dtype.kind not in "iu"
            ):
                raise DTypeError(f"roll: shift must be an integer, got {value!r}.")
            m = int(value) % n
            if m:
                parts = (slice_in_dim(x, n - m, n, 1, at), slice_in_dim(x, 0, n - m, 1, at))
                x = concatenate_p.bind1(*parts, dimension=at)
            continue
        if not dtypes.is_integer(s.dtype):
            raise DTypeError(f"roll: shift must be an integer, got {s.aval}. Cast it with astype.")
        s = convert(s, index_dtype((2 * n,))) if s.dtype.itemsize < 4 else s
        start = scalar(n, s.dtype) - remainder(s, scalar(n, s.dtype))
        x = dynamic_slice_in_dim(concatenate_p.bind1(x, x, dimension=at), start, n, at)
    return x


@method("repeat")
@api_boundary
def repeat(
    a: ArrayLike,
    repeats: ArrayLike,
    axis: int | None = None,
    *,
    total_repeat_length: int | None = None,
) -> Array:
    """Repeat each element along an axis, as numpy.repeat does.

    Args:
        a: an array.
        repeats: how often, an integer or one for each element of the axis.
        axis: None repeats in the flattened array.
        total_repeat_length: size of the result along the axis, for traced repeats: longer results
            are cut, shorter ones continue with the last element.
    """
    x = _array("repeat", a)
    if axis is None:
        x, at = reshape(x, (x.size,)), 0
    else:
        at = normalize_axis("repeat", axis, x.ndim)
    n = x.shape[at]
    counts = _integers("repeat", repeats)
    if counts.ndim > 1 or (counts.ndim == 1 and counts.shape[0] not in (1, n)):
        raise ShapeError(f"repeat: needs one integer or {n} of them, got {counts.aval}.")
    values = known(counts)
    if values is not None and total_repeat_length is None:
        if values.size and values.min() < 0:
            raise ArgumentError(f"repeat: repeats must be 0 or more, got {values.min()}.")
        if values.size == 1:
            times = int(values.reshape(()))
            shape = (*x.shape[: at + 1], times, *x.shape[at + 1 :])
            dims = (*range(at + 1), *range(at + 2, x.ndim + 1))
            wide = broadcast_in_dim(x, shape, dims)
            return reshape(wide, (*x.shape[:at], n * times, *x.shape[at + 1 :]))
        index = np.repeat(np.arange(n, dtype=index_dtype((n,))), values)
        return take(x, _constant(index), at, mode="clip", indices_are_sorted=True)
    if total_repeat_length is None:
        _needed("repeat", counts, "Pass total_repeat_length=n.")
    total = operator.index(total_repeat_length)  # type: ignore[arg-type]  # checked above
    dtype = index_dtype((max(total, n, 1),))
    if not n or not total:
        shape = (*x.shape[:at], total, *x.shape[at + 1 :])
        if total and 0 not in x.shape[:at] + x.shape[at + 1 :]:
            raise IndexOutOfBoundsError(f"repeat: axis {at} of {x.aval} has nothing to repeat.")
        return zeros(ShapedArray(shape, x.dtype))
    counts = broadcast_to_shape(convert(reshape(counts, (counts.size,)), dtype), (n,))
    # Element k begins where those before it end: mark the beginnings and count them.
    ends = METHODS["cumsum"](counts)
    marks = METHODS["index_add"](
        zeros(ShapedArray((total,), dtype)), ends[:-1], scalar(1, dtype), True, False, "drop"
    )
    return take(x, METHODS["cumsum"](marks), at, mode="clip", indices_are_sorted=True)


@api_boundary
def tile(A: ArrayLike, reps: int | Sequence[int]) -> Array:
    """Repeat a whole array along its dimensions, as numpy.tile does."""
    x = _array("tile", A)
    times = canonical_shape("tile", reps)
    ndim = max(x.ndim, len(times))
    times = (1,) * (ndim - len(times)) + times
    sizes = (1,) * (ndim - x.ndim) + x.shape
    shape = tuple(d for pair in zip(times, sizes, strict=True) for d in pair)
    dims = tuple(2 * i + 1 for i in range(ndim - x.ndim, ndim))
    wide = broadcast_in_dim(x, shape, dims)
    return reshape(wide, tuple(t * n for t, n in zip(times, sizes, strict=True)))


@api_boundary
def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """`values` after arr along an axis; None flattens both first."""
    a, b = promoted("append", (arr, values))
    if axis is None:
        return concatenate_p.bind1(reshape(a, (a.size,)), reshape(b, (b.size,)), dimension=0)
    at = normalize_axis("append", axis, a.ndim)
    return concatenate_p.bind1(a, b, dimension=at)


def _flat_axis(name: str, x: Any, axis: int | None) -> tuple[Any, int]:
    if axis is None:
        return reshape(x, (x.size,)), 0
    return x, normalize_axis(name, axis, x.ndim)


def _places(name: str, obj: Any) -> Any:
    """A known index of insert or delete as NumPy takes it."""
    if isinstance(obj, (slice, int)):
        return obj
    i = _array(name, obj) if not (isinstance(obj, (list, tuple)) and not obj) else np.zeros(0, int)
    return _needed(name, i, "Use where, or a mask, instead.") if isinstance(i, Array) else i


@api_boundary
def delete(arr: ArrayLike, obj: Any, axis: int | None = None) -> Array:
    """arr without the elements at known places along an axis, as numpy.delete gives it."""
    x, at = _flat_axis("delete", _array("delete", arr), axis)
    n = x.shape[at]
    try:
        kept = np.delete(np.arange(n, dtype=index_dtype((n,))), _places("delete", obj))
    except IndexError as e:
        raise IndexOutOfBoundsError(f"delete: {e}.") from None
    if not kept.size:
        return slice_in_dim(x, 0, 0, 1, at)
    return take(x, _constant(kept), at, mode="clip", indices_are_sorted=True, unique_indices=True)


@api_boundary
def insert(arr: ArrayLike, obj: Any, values: ArrayLike, axis: int | None = None) -> Array:
    """arr with `values` inserted before known places along an axis, as numpy.insert gives it."""
    x, at = _flat_axis("insert", _array("insert", arr), axis)
    v = convert(_array("insert", values), x.dtype)
    n = x.shape[at]
    places = _places("insert", obj)
    single = isinstance(places, int) or (isinstance(places, np.ndarray) and places.ndim == 0)
    if single and v.ndim:
        # NumPy: one place takes all the values along the axis.
        v = moveaxis(reshape(v, (1,) * (x.ndim - v.ndim) + v.shape), 0, at)
    m = v.shape[at] if v.ndim == x.ndim else 1
    if not single:
        m = np.arange(n + 1)[places].size if isinstance(places, slice) else np.size(places)
        m = int(places.sum()) if isinstance(places, np.ndarray) and places.dtype == bool else m
    shape = (*x.shape[:at], m, *x.shape[at + 1 :])
    try:
        order = np.insert(np.arange(n), places, np.arange(n, n + m))
    except IndexError as e:
        raise IndexOutOfBoundsError(f"insert: {e}.") from None
    if v.ndim > x.ndim:
        raise ShapeError(f"insert: the values {v.aval} must not exceed the rank of {x.aval}.")
    both = concatenate_p.bind1(x, broadcast_to_shape(v, shape), dimension=at)
    if not order.size:
        return both
    index = order.astype(index_dtype((n + m,)))
    return take(both, _constant(index), at, mode="clip", unique_indices=True)


# -- index arithmetic -----------------------------------------------------------------------------


@api_boundary
def unravel_index(indices: ArrayLike, shape: Any) -> tuple[Array, ...]:
    """Flat indices as one index array for each dimension of `shape`, as numpy.unravel_index.

    Out-of-bounds indices are clipped; negative ones count from the end.
    """
    i = _integers("unravel_index", indices)
    sizes = canonical_shape("unravel_index", shape)
    total = math.prod(sizes)
    dtype = i.dtype
    if dtype.itemsize < 4 or total > np.iinfo(dtype).max:
        dtype = index_dtype((total,))
        i = convert(i, dtype)
    i = clip(where(i < 0, i + scalar(total, dtype), i), 0, max(total - 1, 0))
    out = []
    for n in reversed(sizes):
        n = max(n, 1)
        out.append(remainder(i, scalar(n, dtype)))
        i = i // scalar(n, dtype)
    return tuple(reversed(out))


@api_boundary
def ravel_multi_index(
    multi_index: Sequence[ArrayLike], dims: Sequence[int], mode: str = "raise", order: str = "C"
) -> Array:
    """Index arrays of each dimension as flat indices, as numpy.ravel_multi_index.

    Args:
        multi_index: an integer array for each of dims.
        dims: the sizes.
        mode: "raise" needs known integers in bounds; "wrap"; "clip".
        order: "C", last index fastest, or "F".
    """
    sizes = canonical_shape("ravel_multi_index", tuple(dims))
    if len(multi_index) != len(sizes):
        raise ArgumentError(
            f"ravel_multi_index: needs {len(sizes)} index arrays, got {len(multi_index)}."
        )
    if order not in ("C", "F"):
        raise ArgumentError(f"ravel_multi_index: order must be 'C' or 'F', got {order!r}.")
    parts = [_integers("ravel_multi_index", i) for i in multi_index]
    dtype = index_dtype((math.prod(sizes),))
    total: Any = scalar(0, dtype)
    stride = 1
    pairs = list(zip(parts, sizes, strict=True))
    for i, n in pairs if order == "F" else reversed(pairs):
        if mode == "raise":
            values = _needed("ravel_multi_index", i, "Pass mode='wrap' or mode='clip'.")
            if values.size and (values.min() < 0 or values.max() >= n):
                raise IndexOutOfBoundsError(f"ravel_multi_index: indices must lie in [0, {n}).")
        elif mode == "wrap":
            i = remainder(i, n)
        elif mode == "clip":
            i = clip(i, 0, n - 1)
        else:
            raise ArgumentError(
                f"ravel_multi_index: mode must be 'raise', 'wrap' or 'clip', got {mode!r}."
            )
        total = total + convert(i, dtype) * scalar(stride, dtype)
        stride *= n
    return total


@api_boundary
def indices(
    dimensions: Sequence[int], dtype: DTypeLike = None, sparse: bool = False
) -> Array | tuple[Array, ...]:
    """The index along each dimension of a grid, as numpy.indices gives it."""
    sizes = canonical_shape("indices", tuple(dimensions))
    new = dtypes.default_int() if dtype is None else dtypes.canonical(dtype)
    if sparse:
        return tuple(
            reshape(iota(new, n), tuple(n if j == i else 1 for j in range(len(sizes))))
            for i, n in enumerate(sizes)
        )
    if not sizes:
        return zeros(ShapedArray((0,), new))
    grids = [reshape(broadcasted_iota(new, sizes, i), (1, *sizes)) for i in range(len(sizes))]
    return concatenate_p.bind1(*grids, dimension=0)


@api_boundary
def ix_(*args: ArrayLike) -> tuple[Array, ...]:
    """Index arrays that pick the grid of some vectors, as numpy.ix_ gives them."""
    out = []
    for k, a in enumerate(args):
        x = _array("ix_", a)
        if x.ndim != 1:
            raise ShapeError(f"ix_: arguments must have rank 1, got {x.aval}.")
        if x.dtype == BOOL:
            (x,) = nonzero(x)
        shape = [1] * len(args)
        shape[k] = x.shape[0]
        out.append(reshape(x, tuple(shape)))
    return tuple(out)
