"""Sorting, searching in sorted arrays, and quantiles.

The order is NumPy's: NaN last, -0.0 equal to 0.0, complex numbers by real, then imaginary part.
Derivatives follow the elements: a tangent takes the places that its element takes, by
`take_along_p`, whose transpose `put_along_p` takes them back.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.core.array import ConcreteArray, as_array, scalar
from mgefn.core.array_methods import METHODS, Array, ArrayLike, Axis, method
from mgefn.core.avals import ShapedArray, Zero
from mgefn.core.primitive import Primitive
from mgefn.core.tracer import Tracer
from mgefn.errors import ArgumentError, AxisError, DTypeError, ShapeError, api_boundary
from mgefn.ops import elementwise
from mgefn.ops.elementwise import convert, isnan, promoted, where
from mgefn.ops.shaping import (
    broadcast_in_dim,
    broadcast_to_shape,
    concatenate_p,
    full_like_aval,
    moveaxis,
    normalize_axes,
    normalize_axis,
    ravel,
    reshape,
    rev,
    slice_in_dim,
    transpose,
)


def _array(name: str, x: ArrayLike) -> Any:
    """The array that an argument stands for, lists included."""
    return x if isinstance(x, Array) else promoted(name, (x,))[0]


def _in_front(args: Sequence[Any], bdims: Sequence[int | None]) -> list[Any]:
    """Operands with the batch dimension first, repeated for those without it."""
    size = next(x.shape[b] for x, b in zip(args, bdims, strict=True) if b is not None)
    return [
        moveaxis(x, b, 0)
        if b is not None
        else broadcast_in_dim(x, (size, *x.shape), tuple(range(1, x.ndim + 1)))
        for x, b in zip(args, bdims, strict=True)
    ]


# -- elements along a dimension -------------------------------------------------------------------

# operands: x; index, integers in [0, size), of x's shape but for `dimension`. params: dimension;
# unique, whether the positions along a line differ.
take_along_p = Primitive("take_along", weak_result=False, moves=True)
# The transpose: adds each element of x to its position in zeros of `size` along the dimension.
put_along_p = Primitive("put_along", weak_result=False, moves=True)


@take_along_p.def_abstract_eval
def _take_along_abstract_eval(x: ShapedArray, index: ShapedArray, *, dimension, unique):
    _check_along("take_along", x, index, dimension)
    return (ShapedArray(index.shape, x.dtype, x.weak_type),)


@put_along_p.def_abstract_eval
def _put_along_abstract_eval(x: ShapedArray, index: ShapedArray, *, dimension, unique, size):
    _check_along("put_along", x, index, dimension)
    shape = (*x.shape[:dimension], size, *x.shape[dimension + 1 :])
    return (ShapedArray(shape, x.dtype, x.weak_type),)


def _check_along(name: str, x: ShapedArray, index: ShapedArray, dimension: int) -> None:
    def others(a: ShapedArray) -> tuple[int, ...]:
        return a.shape[:dimension] + a.shape[dimension + 1 :]

    if not 0 <= dimension < x.ndim or index.ndim != x.ndim or others(x) != others(index):
        raise ShapeError(
            f"{name}: index must have the operand's shape but for dimension {dimension}, got "
            f"{index} for {x}."
        )
    if not dtypes.is_integer(index.dtype):
        raise DTypeError(f"{name}: index must be of an integer dtype, got {index}.")


def _jvp_of_elements(primitive: Primitive) -> Callable[..., Any]:
    """The jvp rule of a primitive that is linear in the first of two operands."""

    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> tuple:
        (x, index), t = primals, tangents[0]
        y = primitive.bind1(x, index, **params)
        if t.__class__ is Zero:
            return (y,), (Zero(y.aval),)
        return (y,), primitive.bind(t, index, **params)

    return rule


take_along_p.def_jvp(_jvp_of_elements(take_along_p), symbolic_zeros=True)
put_along_p.def_jvp(_jvp_of_elements(put_along_p), symbolic_zeros=True)


@take_along_p.def_transpose
def _take_along_transpose(cts, x, index, *, dimension, unique):
    size = x.aval.shape[dimension]
    return *put_along_p.bind(cts[0], index, dimension=dimension, unique=unique, size=size), None


@put_along_p.def_transpose
def _put_along_transpose(cts, x, index, *, dimension, unique, size):
    return *take_along_p.bind(cts[0], index, dimension=dimension, unique=unique), None


@take_along_p.def_batch
def _take_along_batch(args, bdims, *, dimension, unique):
    x, index = _in_front(args, bdims)
    return take_along_p.bind(x, index, dimension=dimension + 1, unique=unique), (0,)


@put_along_p.def_batch
def _put_along_batch(args, bdims, *, dimension, unique, size):
    x, index = _in_front(args, bdims)
    return put_along_p.bind(x, index, dimension=dimension + 1, unique=unique, size=size), (0,)


# -- sort -----------------------------------------------------------------------------------------

# operands of one shape, sorted together by the first `num_keys` of them. params: dimension;
# num_keys; is_stable
sort_p = Primitive("sort", weak_result=False)
sort_p.no_rule("transpose", "not linear")
# The positions that sort the keys. params: dimension; is_stable; index_dtype
argsort_p = Primitive("argsort", constant=True, weak_result=False)
argsort_p.no_rule("transpose", "integer output")


@sort_p.def_abstract_eval
def _sort_abstract_eval(*avals: ShapedArray, dimension, num_keys, is_stable):
    _check_sorted("sort", avals, dimension)
    return tuple(avals)


@argsort_p.def_abstract_eval
def _argsort_abstract_eval(*avals: ShapedArray, dimension, is_stable, index_dtype):
    _check_sorted("argsort", avals, dimension)
    return (ShapedArray(avals[0].shape, index_dtype),)


def _check_sorted(name: str, avals: Sequence[ShapedArray], dimension: int) -> None:
    if any(a.shape != avals[0].shape for a in avals):
        raise ShapeError(
            f"{name}: operands must have one shape, got {' and '.join(map(str, avals))}."
        )
    if not 0 <= dimension < avals[0].ndim:
        raise AxisError(f"{name}: dimension {dimension} is out of range for {avals[0]}.")


@sort_p.def_jvp(symbolic_zeros=True)
def _sort_jvp(primals, tangents, *, dimension, num_keys, is_stable):
    if all(t.__class__ is Zero for t in tangents):
        outs = sort_p.bind(*primals, dimension=dimension, num_keys=num_keys, is_stable=is_stable)
        return outs, tuple(Zero(o.aval) for o in outs)
    index = _argsort(primals[:num_keys], dimension, is_stable)

    def moved(x: Any) -> Any:
        return take_along_p.bind1(x, index, dimension=dimension, unique=True)

    outs = tuple(moved(x) for x in primals)
    return outs, tuple(
        Zero(o.aval) if t.__class__ is Zero else moved(t)
        for o, t in zip(outs, tangents, strict=True)
    )


@sort_p.def_batch
def _sort_batch(args, bdims, *, dimension, **params):
    args = _in_front(args, bdims)
    return sort_p.bind(*args, dimension=dimension + 1, **params), (0,) * len(args)


@argsort_p.def_batch
def _argsort_batch(args, bdims, *, dimension, **params):
    return argsort_p.bind(*_in_front(args, bdims), dimension=dimension + 1, **params), (0,)


def _argsort(keys: Sequence[Any], dimension: int, is_stable: bool) -> Any:
    """Positions that sort the keys, in the default integer dtype."""
    return argsort_p.bind1(
        *keys,
        dimension=dimension,
        is_stable=is_stable,
        index_dtype=_index_dtype(keys[0], dimension),
    )


def _index_dtype(x: Any, dimension: int) -> np.dtype:
    small = x.shape[dimension] < 2**31 if x.shape else True
    return dtypes.default_int() if small else np.dtype(np.int64)


def _along(name: str, a: ArrayLike, axis: int | None) -> tuple[Any, int]:
    """Array and axis, where None means the flattened array."""
    x = _array(name, a)
    if axis is None:
        return ravel(x), 0
    return x, normalize_axis(name, axis, x.ndim)


def _check_kind(name: str, kind: str | None, order: Any) -> None:
    if kind not in (None, "quicksort", "heapsort", "mergesort", "stable"):
        raise ArgumentError(f"{name}: kind must be None or 'stable', got {kind!r}.")
    if order is not None:
        raise ArgumentError(f"{name}: arrays have no fields, so order must be None, got {order!r}.")


@method("sort")
@api_boundary
def sort(
    a: ArrayLike,
    axis: int | None = -1,
    kind: str | None = None,
    order: None = None,
    *,
    stable: bool | None = True,
    descending: bool = False,
) -> Array:
    """A sorted copy of an array, as numpy.sort gives it.

    NaN come last, complex numbers are ordered by real, then imaginary part. Derivative: that of
    each element, moved along with it.

    Args:
        a: an array of any dtype.
        axis: the axis to sort along; None sorts the flattened array.
        kind: NumPy's name of a method; all give the same.
        order: must be None.
        stable: keep equal elements in order.
        descending: the largest first, NaN before it.
    Example:
        >>> mnp.sort(mnp.array([3, 1, 2]))
        Array([1, 2, 3], dtype=int32)
    """
    _check_kind("sort", kind, order)
    x, d = _along("sort", a, axis)
    y = sort_p.bind1(x, dimension=d, num_keys=1, is_stable=bool(stable))
    return rev(y, (d,)) if descending else y


@method("argsort")
@api_boundary
def argsort(
    a: ArrayLike,
    axis: int | None = -1,
    kind: str | None = None,
    order: None = None,
    *,
    stable: bool | None = True,
    descending: bool = False,
) -> Array:
    """The positions that sort an array, as numpy.argsort gives them.

    Args:
        a: an array of any dtype.
        axis: the axis to sort along; None sorts the flattened array.
        kind: NumPy's name of a method; all give the same.
        order: must be None.
        stable: keep equal elements in order, also when descending.
        descending: the largest first, NaN before it.
    Returns:
        Array of a's shape (flat for axis None), of the default integer dtype.
    """
    _check_kind("argsort", kind, order)
    x, d = _along("argsort", a, axis)
    if not descending:
        return _argsort((x,), d, bool(stable))
    # Backwards twice: equal elements stay in order.
    index = rev(_argsort((rev(x, (d,)),), d, bool(stable)), (d,))
    return scalar(x.shape[d] - 1, index.dtype) - index


@api_boundary
def lexsort(keys: Any, axis: int = -1) -> Array:
    """The positions that sort by several keys, the last one first, as numpy.lexsort gives them.

    Args:
        keys: a sequence of arrays of one shape, or an array whose rows they are.
        axis: the axis to sort along.
    """
    arrays = [_array("lexsort", k) for k in keys]
    if not arrays:
        raise ArgumentError("lexsort: needs at least one key, got none.")
    if any(k.shape != arrays[0].shape for k in arrays):
        shapes = " and ".join(str(k.aval) for k in arrays)
        raise ShapeError(f"lexsort: keys must have one shape, got {shapes}.")
    if not arrays[0].shape:
        return scalar(0, dtypes.default_int())
    return _argsort(arrays[::-1], normalize_axis("lexsort", axis, arrays[0].ndim), True)


@api_boundary
def sort_complex(a: ArrayLike) -> Array:
    """The array as complex numbers sorted along its last axis, as numpy.sort_complex gives it."""
    x = _array("sort_complex", a)
    return sort(convert(x, dtypes.complex_dtype(x.dtype)))


@api_boundary
def partition(a: ArrayLike, kth: int, axis: int | None = -1) -> Array:
    """A copy with element kth where sorting puts it, none larger before and none smaller after.

    As numpy.partition gives it; here it is sorted completely.
    """
    x, d = _along("partition", a, axis)
    normalize_axis("partition", kth, x.shape[d])
    return sort(x, d)


@method("argpartition")
@api_boundary
def argpartition(a: ArrayLike, kth: int, axis: int | None = -1) -> Array:
    """The positions that `partition` takes elements from; those that sort the array."""
    x, d = _along("argpartition", a, axis)
    normalize_axis("argpartition", kth, x.shape[d])
    return argsort(x, d)


@api_boundary
def lax_sort(
    operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1
) -> Array | tuple[Array, ...]:
    """Sort arrays together along a dimension, by the first `num_keys` of them.

    Args:
        operand: an array, or a sequence of arrays of one shape.
        dimension: the dimension to sort along.
        is_stable: keep elements with equal keys in order.
        num_keys: how many arrays decide: the first, where it is equal the second, and so on.
    Returns:
        The sorted array, or a tuple of them for a sequence.
    Raises:
        ShapeError: the shapes differ. ArgumentError: num_keys is below 1 or above their number.
    """
    single = not isinstance(operand, (list, tuple))
    arrays = [as_array(x, "sort") for x in ([operand] if single else operand)]
    if not 1 <= num_keys <= len(arrays):
        raise ArgumentError(
            f"sort: num_keys must be in [1, {len(arrays)}], the number of operands, got {num_keys}."
        )
    d = normalize_axis("sort", dimension, arrays[0].ndim)
    _check_sorted("sort", [x.aval for x in arrays], d)
    outs = sort_p.bind(*arrays, dimension=d, num_keys=num_keys, is_stable=bool(is_stable))
    return outs[0] if single else outs


@api_boundary
def sort_key_val(
    keys: ArrayLike, values: ArrayLike, dimension: int = -1, is_stable: bool = True
) -> tuple[Array, Array]:
    """Sort keys, and values along with them."""
    k, v = lax_sort((keys, values), dimension, is_stable)
    return k, v


# -- the largest elements -------------------------------------------------------------------------

# outputs: the values and their positions, int32. params: k; axis
top_k_p = Primitive("top_k", weak_result=False)
top_k_p.no_rule("transpose", "not linear")
_INT32 = np.dtype(np.int32)


@api_boundary
def top_k(operand: ArrayLike, k: int, *, axis: int = -1) -> tuple[Array, Array]:
    """The k largest elements along an axis, in falling order, and their positions.

    NaN counts as the largest; of equal elements the one at the lower position comes first.

    Args:
        operand: an array of rank 1 or more, not complex.
        k: how many, in [0, size of the axis].
        axis: the axis to look along.
    Returns:
        (values, positions), both with k elements along the axis; positions are int32.
    Example:
        >>> mgefn.lax.top_k(mnp.array([1.0, 3.0, 2.0]), 2)
        (Array([3., 2.], dtype=float32), Array([1, 2], dtype=int32))
    """
    x = _array("top_k", operand)
    k = operator.index(k)
    d = normalize_axis("top_k", axis, x.ndim)
    _check_top_k(x.aval, k, d)
    values, index = top_k_p.bind(x, k=k, axis=d)
    return values, index


def _check_top_k(x: ShapedArray, k: int, axis: int) -> None:
    if dtypes.is_complex(x.dtype):
        raise DTypeError(f"top_k: complex numbers have no largest, got {x}. Use abs or real first.")
    if not 0 <= k <= x.shape[axis]:
        raise ArgumentError(f"top_k: k must be in [0, {x.shape[axis]}] for {x}, got {k}.")


@top_k_p.def_abstract_eval
def _top_k_abstract_eval(x: ShapedArray, *, k, axis):
    _check_top_k(x, k, axis)
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    return ShapedArray(shape, x.dtype, x.weak_type), ShapedArray(shape, _INT32)


@top_k_p.def_jvp
def _top_k_jvp(primals, tangents, *, k, axis):
    values, index = top_k_p.bind(primals[0], k=k, axis=axis)
    t = tangents[0]
    if t.__class__ is Zero:
        return (values, index), (Zero(values.aval), Zero(index.aval))
    t = take_along_p.bind1(t, index, dimension=axis, unique=True)
    return (values, index), (t, Zero(index.aval))


@top_k_p.def_batch
def _top_k_batch(args, bdims, *, k, axis):
    (x,) = _in_front(args, bdims)
    return top_k_p.bind(x, k=k, axis=axis + 1), (0, 0)


# -- searchsorted ---------------------------------------------------------------------------------

# operands: a, sorted along its last dimension; v, whose first `batch_dims` dimensions are those of
# a. params: side; batch_dims; index_dtype
searchsorted_p = Primitive("searchsorted", constant=True, weak_result=False)
searchsorted_p.no_rule("transpose", "integer output")


@method("searchsorted")
@api_boundary
def searchsorted(
    a: ArrayLike,
    v: ArrayLike,
    side: str = "left",
    sorter: ArrayLike | None = None,
    *,
    method: str = "scan",
) -> Array:
    """Where to insert values into a sorted array to keep it sorted, as numpy.searchsorted.

    Args:
        a: a sorted array of rank 1.
        v: values of any shape.
        side: "left" for the first such position, "right" for the last.
        sorter: positions that sort a, where a is not sorted.
        method: JAX's name of an algorithm ("scan", "scan_unrolled", "sort", "compare_all"); all
            give the same.
    Returns:
        Array of v's shape and the default integer dtype, in [0, a.size].
    """
    if side not in ("left", "right"):
        raise ArgumentError(f"searchsorted: side must be 'left' or 'right', got {side!r}.")
    if method not in ("scan", "scan_unrolled", "sort", "compare_all"):
        raise ArgumentError(f"searchsorted: method must be 'scan' or 'sort', got {method!r}.")
    x, y = promoted("searchsorted", (a, v))
    if x.ndim != 1:
        raise ShapeError(f"searchsorted: a must have rank 1, got {x.aval}. Use vmap for several.")
    if sorter is not None:
        index = as_array(sorter, "searchsorted")
        _check_along("searchsorted", x.aval, index.aval, 0)
        x = take_along_p.bind1(x, index, dimension=0, unique=True)
    return searchsorted_p.bind1(x, y, side=side, batch_dims=0, index_dtype=_index_dtype(x, 0))


@searchsorted_p.def_abstract_eval
def _searchsorted_abstract_eval(a: ShapedArray, v: ShapedArray, *, side, batch_dims, index_dtype):
    if a.ndim != batch_dims + 1 or a.shape[:-1] != v.shape[:batch_dims]:
        raise ShapeError(
            f"searchsorted: operands must agree in {batch_dims} leading dimensions, got {a} and "
            f"{v}."
        )
    if a.dtype != v.dtype:
        raise DTypeError(f"searchsorted: operands must have one dtype, got {a} and {v}.")
    return (ShapedArray(v.shape, index_dtype),)


@searchsorted_p.def_batch
def _searchsorted_batch(args, bdims, *, side, batch_dims, index_dtype):
    (a, v), (a_bdim, v_bdim) = args, bdims
    if a_bdim is None and batch_dims == 0:
        # Values of any shape are looked up in one array.
        outs = searchsorted_p.bind(a, v, side=side, batch_dims=0, index_dtype=index_dtype)
        return outs, (v_bdim,)
    a, v = _in_front(args, bdims)
    outs = searchsorted_p.bind(a, v, side=side, batch_dims=batch_dims + 1, index_dtype=index_dtype)
    return outs, (0,)


# -- quantiles ------------------------------------------------------------------------------------

# Hyndman and Fan's continuous methods by their constants (alpha, beta): the quantile q of n
# elements lies at n * q + alpha + q * (1 - alpha - beta) - 1.
# Source: Hyndman, Fan (1996), The American Statistician 50(4), 361-365, doi:10.2307/2684934.
_PLACES = {
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}
_METHODS = (
    "linear",
    "lower",
    "higher",
    "midpoint",
    "nearest",
    "inverted_cdf",
    "averaged_inverted_cdf",
    "closest_observation",
    *_PLACES,
)


def _neighbours(xp: Any, method: str, n: Any, q: Any) -> tuple[Any, Any, Any]:
    """The elements between which a quantile lies, and the weight of the second.

    xp: numpy, or the module of elementwise operations, for a q that is traced.
    """
    if method == "averaged_inverted_cdf":
        place = n * q - 1
        low = xp.floor(place)
        weight = xp.where(place == low, 0.5, 1.0)
        high = xp.minimum(xp.maximum(low + 1, 0), n - 1)
        return xp.minimum(xp.maximum(low, 0), n - 1), high, weight
    if method == "linear":
        place = (n - 1) * q
    elif method == "lower":
        place = xp.floor((n - 1) * q)
    elif method == "higher":
        place = xp.ceil((n - 1) * q)
    elif method == "nearest":
        place = xp.rint((n - 1) * q)
    elif method == "midpoint":
        place = 0.5 * (xp.floor((n - 1) * q) + xp.ceil((n - 1) * q))
    elif method == "inverted_cdf":
        place = xp.ceil(n * q) - 1
    elif method == "closest_observation":
        half = n * q - 1.5
        below = xp.floor(half)
        # Halfway between two elements the one at an even position, counted from 1, is taken.
        odd = below - 2 * xp.floor(below / 2) == 1
        place = xp.where((half == below) & odd, below, below + 1)
    else:
        alpha, beta = _PLACES[method]
        place = n * q + (alpha + q * (1 - alpha - beta)) - 1
    place = xp.minimum(xp.maximum(place, 0), n - 1)
    low = xp.floor(place)
    return low, xp.minimum(low + 1, n - 1), place - low


def _between(low: Any, high: Any, weight: Any) -> Any:
    """low * (1 - weight) + high * weight, where an infinite element of weight 0 does not count."""
    mixed = low * (1 - weight) + high * weight
    return where(weight == 0, low, where(weight == 1, high, mixed))


def _quantile(
    name: str,
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis | Sequence[int],
    method: str,
    keepdims: bool,
    skip_nan: bool,
    weights: ArrayLike | None = None,
) -> Any:
    if method not in _METHODS:
        raise ArgumentError(f"{name}: method must be one of {', '.join(_METHODS)}, got {method!r}.")
    (x,) = promoted(name, (a,), inexact=True)
    if dtypes.is_complex(x.dtype):
        raise DTypeError(
            f"{name}: complex numbers have no quantiles, got {x.aval}. Use real parts."
        )
    if not isinstance(q, Tracer):
        q = np.array(q._data if isinstance(q, ConcreteArray) else q, np.float64)
        if not ((q >= 0) & (q <= 1)).all():
            scale = ("percentiles", "[0, 100]") if "percentile" in name else ("quantiles", "[0, 1]")
            raise ArgumentError(f"{name}: {scale[0]} must be in {scale[1]}, got others.")
    elif not dtypes.is_float(q.dtype):
        q = convert(q, dtypes.default_float())
    if q.ndim > 1:
        raise ShapeError(f"{name}: q must have rank 0 or 1, got shape {q.shape}.")
    axes = normalize_axes(name, axis, x.ndim)
    kept = tuple(i for i in range(x.ndim) if i not in axes)
    kept_shape = tuple(x.shape[i] for i in kept)
    full_shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    if weights is not None:
        weights = _spread_weights(name, weights, x, axes, method)
    n = 1
    for i in axes:
        n *= x.shape[i]

    def lines(y: Any) -> Any:
        return reshape(transpose(y, (*kept, *axes)), (*kept_shape, n))

    dtype = x.dtype
    x = lines(x)
    # One dimension for q, last, which goes to the front at the end.
    if n == 0:
        out = full_like_aval(np.nan, ShapedArray((*kept_shape, q.size), dtype))
    elif weights is not None:
        out = _weighted_quantile(x, lines(weights), q, skip_nan)
    else:
        y = sort_p.bind1(x, dimension=x.ndim - 1, num_keys=1, is_stable=False)
        out = _quantile_of_sorted(y, q, method, skip_nan)
    out = convert(out, dtype, x.weak_type)
    out = moveaxis(out, -1, 0)
    shape = full_shape if keepdims else kept_shape
    return reshape(out, (*q.shape, *shape))


def _quantile_of_sorted(y: Any, q: Any, method: str, skip_nan: bool) -> Any:
    """Quantiles along the last axis, one for each q."""
    n = y.shape[-1]
    nan = isnan(slice_in_dim(y, n - 1, n, axis=-1))  # NaN is sorted to the end
    wide = convert(y, dtypes.accumulator(y.dtype), y.weak_type)
    if isinstance(q, np.ndarray) and not skip_nan:
        low, high, weight = _neighbours(np, method, n, q.reshape(-1))
        weight = weight.astype(wide.dtype)
        out = _elements(wide, low)
        if weight.any():
            out = _between(out, _elements(wide, high), ConcreteArray(weight))
        return where(nan, np.nan, out)
    if isinstance(q, np.ndarray):
        q = ConcreteArray(q)  # places are found in float64
    q = reshape(q, (*(1,) * (y.ndim - 1), q.size))
    count: Any = n
    if skip_nan:
        count = METHODS["sum"](~isnan(y), axis=-1, keepdims=True)
        count = convert(count, q.dtype)
    low, high, weight = _neighbours(elementwise, method, count, q)
    shape = (*y.shape[:-1], q.shape[-1])

    def pick(place: Any) -> Any:
        # Lines of NaN alone have no place; their first element is NaN.
        place = convert(where(place < 0, 0, place), _index_dtype(y, y.ndim - 1))
        index = broadcast_to_shape(place, shape)
        return take_along_p.bind1(wide, index, dimension=y.ndim - 1, unique=shape[-1] == 1)

    weight = convert(weight, wide.dtype)
    out = _between(pick(low), pick(high), broadcast_to_shape(weight, shape))
    return out if skip_nan else where(nan, np.nan, out)


def _elements(y: Any, places: np.ndarray) -> Any:
    """The elements of a sorted array at known places along its last axis."""
    index = places.astype(np.int64)
    if len(index) <= 16:
        parts = [slice_in_dim(y, int(i), int(i) + 1, axis=-1) for i in index]
        if len(parts) == 1:
            return parts[0]
        if parts:
            return concatenate_p.bind1(*parts, dimension=y.ndim - 1)
    index = index.astype(_index_dtype(y, y.ndim - 1))
    shape = (*y.shape[:-1], len(index))
    positions = broadcast_in_dim(ConcreteArray(index), shape, (y.ndim - 1,))
    return take_along_p.bind1(y, positions, dimension=y.ndim - 1, unique=False)


def _spread_weights(
    name: str, weights: ArrayLike, x: Any, axes: tuple[int, ...], method: str
) -> Any:
    """Weights of x's shape."""
    if method != "inverted_cdf":
        raise ArgumentError(
            f"{name}: only method 'inverted_cdf' takes weights, got {method!r}. Pass it."
        )
    (w,) = promoted(name, (weights,), inexact=True)
    if dtypes.is_complex(w.dtype):
        raise DTypeError(f"{name}: weights must be real, got {w.aval}.")
    if w.shape == x.shape:
        return w
    if w.shape != tuple(x.shape[i] for i in axes):
        raise ShapeError(
            f"{name}: weights must have a's shape or that of its reduced axes, got {w.aval} for "
            f"{x.aval} over {axes}."
        )
    return broadcast_in_dim(w, x.shape, axes)


def _weighted_quantile(x: Any, weights: Any, q: Any, skip_nan: bool) -> Any:
    """The first element up to which a share q of the weight lies, along the last axis."""
    d = x.ndim - 1
    if skip_nan:
        weights = where(isnan(x), 0, weights)
    y, w = sort_p.bind(x, weights, dimension=d, num_keys=1, is_stable=True)
    share = METHODS["cumsum"](w, axis=d)
    total = slice_in_dim(share, x.shape[d] - 1, None, axis=d)
    q = ConcreteArray(q) if isinstance(q, np.ndarray) else q
    q = convert(reshape(q, (*(1,) * d, q.size)), w.dtype)
    # For each q how many elements lie before: their share is below q, or they weigh nothing.
    wanted = total * q
    before = (share[..., None] < wanted[..., None, :]) | (share[..., None] == 0)
    place = METHODS["sum"](before, axis=-2)
    place = elementwise.minimum(place, x.shape[d] - 1)
    index = convert(place, _index_dtype(x, d))
    out = take_along_p.bind1(y, index, dimension=d, unique=index.shape[d] == 1)
    if skip_nan:
        return out
    return where(METHODS["any"](isnan(x), axis=-1, keepdims=True), np.nan, out)


def _check_out(name: str, out: Any) -> None:
    if out is not None:
        raise ArgumentError(f"{name}: arrays are immutable, so out must be None. Use the result.")


@api_boundary
def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis | Sequence[int] = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """The q-th quantile along axes, as numpy.quantile gives it.

    A line with a NaN gives NaN. Derivative: that of the elements next to the quantile, by their
    weights, and in a traced q that of the interpolation.

    Args:
        a: a real array; integers are promoted to the default float.
        q: numbers in [0, 1], rank 0 or 1.
        axis: axis or axes to reduce; None means all.
        out: must be None.
        overwrite_input: has no effect; arrays are immutable.
        method: how to place a quantile between elements, one of NumPy's names.
        keepdims: keep the reduced axes with size 1.
        weights: of a's shape or that of the reduced axes, for method "inverted_cdf".
    Returns:
        Array whose first dimension is that of q, if it has one.
    Raises:
        DTypeError: a is complex. ArgumentError: q is outside [0, 1].
    Example:
        >>> mnp.quantile(mnp.array([1.0, 2.0, 4.0]), 0.75)
        Array(3., dtype=float32)
    """
    _check_out("quantile", out)
    return _quantile("quantile", a, q, axis, method, keepdims, False, weights)


@api_boundary
def nanquantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis | Sequence[int] = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """`quantile` of the elements that are not NaN; NaN where there is none."""
    _check_out("nanquantile", out)
    return _quantile("nanquantile", a, q, axis, method, keepdims, True, weights)


def _hundredth(q: ArrayLike) -> Any:
    if isinstance(q, Tracer):
        return q / 100
    return np.asarray(q._data if isinstance(q, ConcreteArray) else q, np.float64) / 100


@api_boundary
def percentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis | Sequence[int] = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """The q-th percentile along axes: `quantile` with q in [0, 100]."""
    _check_out("percentile", out)
    return _quantile("percentile", a, _hundredth(q), axis, method, keepdims, False, weights)


@api_boundary
def nanpercentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis | Sequence[int] = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Array:
    """`percentile` of the elements that are not NaN; NaN where there is none."""
    _check_out("nanpercentile", out)
    return _quantile("nanpercentile", a, _hundredth(q), axis, method, keepdims, True, weights)


@api_boundary
def median(
    a: ArrayLike,
    axis: Axis | Sequence[int] = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """The middle element along axes, or the mean of the two, as numpy.median gives it.

    NaN where a line has a NaN; the derivative is shared by the two elements.
    """
    _check_out("median", out)
    return _quantile("median", a, 0.5, axis, "midpoint", keepdims, False)


@api_boundary
def nanmedian(
    a: ArrayLike,
    axis: Axis | Sequence[int] = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """`median` of the elements that are not NaN; NaN where there is none."""
    _check_out("nanmedian", out)
    return _quantile("nanmedian", a, 0.5, axis, "midpoint", keepdims, True)
