"""jax.lax's names for the primitives' functions.

Most are the very functions of `mgefn.numpy` under lax's name (`lax.mul` is `mnp.multiply`): they
promote and broadcast, which jax.lax refuses. The functions of the table below have a name in common
with NumPy and another meaning or signature, so they are defined here, or beside their primitive:

    lax                                 mgefn.numpy
    argmax, argmin (axis, index_dtype)  axis may be None; the default integer
    concatenate (operands, dimension)   axis=0, or None for flattened
    cumsum and kin (axis=0, reverse)    axis=None flattens; dtype
    div: truncates integers             divide: integers as floats
    dot: rank 1 and 2 only              dot: any rank, last with last but one
    expand_dims, squeeze (dimensions)   axis
    pad (padding_value, padding_config) pad_width, mode; lax also crops and pads between
    rem: sign of the dividend           remainder: sign of the divisor
    full_like (x, sharding)             a, device
    reshape (new_sizes, dimensions)     shape, order
    round: halves away from zero        round: halves to even; decimals
    shift_right_logical: fills with 0   right_shift: signed integers keep their sign
    sort: several operands together     one array; axis
    split (sizes)                       sections or indices
    stack, tile (operands, operand)     arrays, A
    transpose (permutation)             axes may be None
    unstack: axis by position           axis by keyword
"""

from __future__ import annotations

import builtins
import enum
import math
import operator as _operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from mgefn import dtypes, tree
from mgefn import lax_linalg as linalg
from mgefn.api.batch import vmap
from mgefn.api.placement import array_with_sharding, placed
from mgefn.control.branching import cond, switch
from mgefn.control.checkpoint import optimization_barrier
from mgefn.control.implicit import custom_linear_solve, custom_root
from mgefn.control.loops import fori_loop, while_loop
from mgefn.control.reduce import reduce
from mgefn.control.reduce_window import reduce_window
from mgefn.control.scan import associative_scan, map, scan
from mgefn.core.array import as_array, is_arraylike
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.core.tracer import Tracer
from mgefn.errors import AxisError, MissingNameError, ShapeError, api_boundary
from mgefn.numpy import creation as _creation
from mgefn.numpy.assembling import broadcast_shapes
from mgefn.numpy.assembling import concatenate as _concatenate
from mgefn.numpy.assembling import stack as _stack
from mgefn.numpy.assembling import unstack as _unstack
from mgefn.numpy.creation import empty, full
from mgefn.ops import elementwise as _e
from mgefn.ops import shaping as _s
from mgefn.ops.collectives import (
    all_gather,
    all_to_all,
    axis_index,
    axis_size,
    pbroadcast,
    pcast,
    pmax,
    pmean,
    pmin,
    ppermute,
    pshuffle,
    psum,
    psum_scatter,
    pswapaxes,
)
from mgefn.ops.contractions import batch_matmul, dot_general
from mgefn.ops.contractions import lax_dot as dot
from mgefn.ops.convolution import (
    ConvDimensionNumbers,
    conv,
    conv_dimension_numbers,
    conv_general_dilated,
    conv_general_dilated_local,
    conv_general_dilated_patches,
    conv_transpose,
    conv_with_general_padding,
)
from mgefn.ops.cumulative import cumlogsumexp_along as cumlogsumexp
from mgefn.ops.cumulative import cummax_along as cummax
from mgefn.ops.cumulative import cummin_along as cummin
from mgefn.ops.cumulative import cumprod_along as cumprod
from mgefn.ops.cumulative import cumsum_along as cumsum
from mgefn.ops.elementwise import (
    abs,
    bitcast_convert_type,
    cbrt,
    ceil,
    clamp,
    clz,
    conj,
    convert_element_type,
    cos,
    cosh,
    exp,
    exp2,
    expm1,
    floor,
    imag,
    integer_pow,
    log,
    log1p,
    logistic,
    nextafter,
    population_count,
    real,
    reciprocal,
    reduce_precision,
    rsqrt,
    select,
    select_n,
    sign,
    sin,
    sinh,
    sqrt,
    square,
    tan,
    tanh,
)
from mgefn.ops.elementwise import add as add
from mgefn.ops.elementwise import arccos as acos
from mgefn.ops.elementwise import arccosh as acosh
from mgefn.ops.elementwise import arcsin as asin
from mgefn.ops.elementwise import arcsinh as asinh
from mgefn.ops.elementwise import arctan as atan
from mgefn.ops.elementwise import arctan2 as atan2
from mgefn.ops.elementwise import arctanh as atanh
from mgefn.ops.elementwise import bitwise_and as bitwise_and
from mgefn.ops.elementwise import bitwise_or as bitwise_or
from mgefn.ops.elementwise import bitwise_xor as bitwise_xor
from mgefn.ops.elementwise import equal as eq
from mgefn.ops.elementwise import greater as gt
from mgefn.ops.elementwise import greater_equal as ge
from mgefn.ops.elementwise import invert as bitwise_not
from mgefn.ops.elementwise import isfinite as is_finite
from mgefn.ops.elementwise import left_shift as shift_left
from mgefn.ops.elementwise import less as lt
from mgefn.ops.elementwise import less_equal as le
from mgefn.ops.elementwise import maximum as max
from mgefn.ops.elementwise import minimum as min
from mgefn.ops.elementwise import multiply as mul
from mgefn.ops.elementwise import negative as neg
from mgefn.ops.elementwise import not_equal as ne
from mgefn.ops.elementwise import power as pow
from mgefn.ops.elementwise import subtract as sub
from mgefn.ops.fft import FftType, fft
from mgefn.ops.indexing import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    dynamic_index_in_dim,
    dynamic_slice,
    dynamic_slice_in_dim,
    dynamic_update_index_in_dim,
    dynamic_update_slice,
    dynamic_update_slice_in_dim,
    gather,
    index_in_dim,
    index_take,
    scatter,
    scatter_add,
    scatter_max,
    scatter_min,
    scatter_mul,
    scatter_sub,
)
from mgefn.ops.indexing.select import tile as _tile
from mgefn.ops.reductions import argmax_along as argmax
from mgefn.ops.reductions import argmin_along as argmin
from mgefn.ops.reductions import (
    reduce_and,
    reduce_max,
    reduce_min,
    reduce_or,
    reduce_prod,
    reduce_sum,
    reduce_xor,
)
from mgefn.ops.shaping import broadcast_in_dim, broadcasted_iota, iota, rev, slice_in_dim
from mgefn.ops.shaping import strided_slice as slice
from mgefn.ops.sorting import lax_sort as sort
from mgefn.ops.sorting import sort_key_val, top_k
from mgefn.ops.special import (
    bessel_i0e,
    bessel_i1e,
    betainc,
    digamma,
    erf,
    erf_inv,
    erfc,
    igamma,
    igamma_grad_a,
    igammac,
    lgamma,
    polygamma,
    random_gamma_grad,
    zeta,
)

__all__ = [
    "ConvDimensionNumbers",
    "FftType",
    "GatherDimensionNumbers",
    "GatherScatterMode",
    "Precision",
    "PrecisionLike",
    "RoundingMethod",
    "ScatterDimensionNumbers",
    "abs",
    "acos",
    "acosh",
    "add",
    "all_gather",
    "all_to_all",
    "approx_max_k",
    "approx_min_k",
    "argmax",
    "argmin",
    "asin",
    "asinh",
    "associative_scan",
    "atan",
    "atan2",
    "atanh",
    "axis_index",
    "axis_size",
    "batch_matmul",
    "bessel_i0e",
    "bessel_i1e",
    "betainc",
    "bitcast_convert_type",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "broadcast",
    "broadcast_in_dim",
    "broadcast_shapes",
    "broadcast_to_rank",
    "broadcasted_iota",
    "cbrt",
    "ceil",
    "clamp",
    "clz",
    "collapse",
    "complex",
    "concatenate",
    "cond",
    "conj",
    "conv",
    "conv_dimension_numbers",
    "conv_general_dilated",
    "conv_general_dilated_local",
    "conv_general_dilated_patches",
    "conv_transpose",
    "conv_with_general_padding",
    "convert_element_type",
    "cos",
    "cosh",
    "cumlogsumexp",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "custom_linear_solve",
    "custom_root",
    "digamma",
    "div",
    "dot",
    "dot_general",
    "dtype",
    "dynamic_index_in_dim",
    "dynamic_slice",
    "dynamic_slice_in_dim",
    "dynamic_update_index_in_dim",
    "dynamic_update_slice",
    "dynamic_update_slice_in_dim",
    "empty",
    "eq",
    "erf",
    "erf_inv",
    "erfc",
    "exp",
    "exp2",
    "expand_dims",
    "expm1",
    "fft",
    "floor",
    "fori_loop",
    "full",
    "full_like",
    "gather",
    "ge",
    "gt",
    "igamma",
    "igamma_grad_a",
    "igammac",
    "imag",
    "index_in_dim",
    "index_take",
    "integer_pow",
    "iota",
    "is_finite",
    "le",
    "lgamma",
    "linalg",
    "log",
    "log1p",
    "logistic",
    "lt",
    "map",
    "max",
    "min",
    "mul",
    "ne",
    "neg",
    "nextafter",
    "optimization_barrier",
    "pad",
    "pbroadcast",
    "pcast",
    "pmax",
    "pmean",
    "pmin",
    "polygamma",
    "population_count",
    "pow",
    "ppermute",
    "pshuffle",
    "psum",
    "psum_scatter",
    "pswapaxes",
    "random_gamma_grad",
    "real",
    "reciprocal",
    "reduce",
    "reduce_and",
    "reduce_max",
    "reduce_min",
    "reduce_or",
    "reduce_precision",
    "reduce_prod",
    "reduce_sum",
    "reduce_window",
    "reduce_xor",
    "rem",
    "reshape",
    "rev",
    "round",
    "rsqrt",
    "scan",
    "scatter",
    "scatter_add",
    "scatter_apply",
    "scatter_max",
    "scatter_min",
    "scatter_mul",
    "scatter_sub",
    "select",
    "select_n",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
    "sign",
    "sin",
    "sinh",
    "slice",
    "slice_in_dim",
    "sort",
    "sort_key_val",
    "split",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "stop_gradient",
    "sub",
    "switch",
    "tan",
    "tanh",
    "tile",
    "top_k",
    "transpose",
    "unstack",
    "while_loop",
    "with_sharding_constraint",
    "zeta",
]

PrecisionLike = Any
T = TypeVar("T")


class Precision(enum.Enum):
    """Accuracy of matrix products; accepted everywhere, and always HIGHEST here."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2


class RoundingMethod(enum.IntEnum):
    """What `round` does with halves."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


# -- elementwise ----------------------------------------------------------------------------------


@api_boundary
def div(x: ArrayLike, y: ArrayLike) -> Array:
    """x / y, elementwise; integers are truncated towards zero.

    Example:
        >>> mgefn.lax.div(-7, 2)
        Array(-3, dtype=int32, weak_type=True)
    """
    return _e.binary(_e.div_p, x, y)


@api_boundary
def rem(x: ArrayLike, y: ArrayLike) -> Array:
    """The remainder of x / y, elementwise, with the sign of x."""
    return _e.binary(_e.rem_p, x, y)


@api_boundary
def round(x: ArrayLike, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Array:
    """The nearest integer, elementwise, halves by `rounding_method`."""
    (a,) = _e.promoted("round", (x,))
    return _e.round_p.bind1(a, rounding_method=int(RoundingMethod(rounding_method)))


@api_boundary
def shift_right_arithmetic(x: ArrayLike, y: ArrayLike) -> Array:
    """x shifted right by y bits, elementwise; the sign bit fills in."""
    return _e.binary(_e.shift_right_arithmetic_p, x, y)


@api_boundary
def shift_right_logical(x: ArrayLike, y: ArrayLike) -> Array:
    """x shifted right by y bits, elementwise; zeros fill in."""
    return _e.binary(_e.shift_right_logical_p, x, y)


@api_boundary
def complex(x: ArrayLike, y: ArrayLike) -> Array:
    """x + i y, elementwise, of two real arrays of float32 or float64."""
    return _e.binary(_e.complex_p, x, y, inexact=True)


@api_boundary
def stop_gradient(x: T) -> T:
    """The same values, through which no derivative flows.

    Args:
        x: an array or a pytree of arrays; integers and leaves that are not arrays stay as they are.
    Example:
        >>> mgefn.grad(lambda x: x * mgefn.lax.stop_gradient(x))(3.0)
        Array(3., dtype=float32)
    """
    return tree.map(_stopped, x)


def _stopped(leaf: Any) -> Any:
    if not is_arraylike(leaf) or not dtypes.is_inexact(dtypes.dtype_and_weak(leaf)[0]):
        return leaf
    return _e.stop_gradient_leaf(leaf)


# -- shapes ---------------------------------------------------------------------------------------


@api_boundary
def broadcast(operand: ArrayLike, sizes: Sequence[int]) -> Array:
    """The array repeated along new leading dimensions of these sizes."""
    x = as_array(operand, "broadcast")
    shape = (*builtins.map(_operator.index, sizes), *x.shape)
    return broadcast_in_dim(x, shape, tuple(range(len(shape) - x.ndim, len(shape))))


@api_boundary
def broadcast_to_rank(x: ArrayLike, rank: int) -> Array:
    """The array with leading dimensions of size 1 up to a rank."""
    a = as_array(x, "broadcast_to_rank")
    if rank < a.ndim:
        raise ShapeError(f"broadcast_to_rank: rank must be at least {a.ndim} for {a.aval}.")
    return _s.reshape(a, (1,) * (rank - a.ndim) + a.shape)


@api_boundary
def collapse(operand: ArrayLike, start_dimension: int, stop_dimension: int | None = None) -> Array:
    """Merge the dimensions from start to stop (left out; None: all that follow) into one."""
    x = as_array(operand, "collapse")
    start, stop, _ = builtins.slice(start_dimension, stop_dimension).indices(x.ndim)
    if stop < start:
        raise AxisError(
            f"collapse: stop_dimension {stop_dimension} is before start {start_dimension}."
        )
    merged = math.prod(x.shape[start:stop])
    return _s.reshape(x, (*x.shape[:start], merged, *x.shape[stop:]))


@api_boundary
def concatenate(operands: Any, dimension: int) -> Array:
    """Join arrays along a dimension."""
    return _concatenate(operands, _operator.index(dimension))


@api_boundary
def expand_dims(array: ArrayLike, dimensions: int | Sequence[int]) -> Array:
    """Insert dimensions of size 1 where the result has `dimensions`."""
    return _s.expand_dims(array, dimensions)


@api_boundary
def squeeze(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Drop these dimensions, which have size 1."""
    return _s.squeeze(array, tuple(dimensions))


@api_boundary
def reshape(
    operand: ArrayLike, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None
) -> Array:
    """The elements in a new shape, read in the order of `dimensions` where it is given."""
    x = as_array(operand, "reshape")
    if dimensions is not None:
        x = _s.transpose(x, dimensions)
    return _s.reshape(x, new_sizes)


@api_boundary
def stack(operands: Any, axis: int = 0) -> Array:
    """Join arrays of one shape along a new dimension.

    Args:
        operands: a sequence of arrays.
        axis: the place of the new dimension in the result.
    """
    return _stack(operands, axis)


@api_boundary
def unstack(x: ArrayLike, axis: int = 0) -> tuple[Array, ...]:
    """The slices of an array along a dimension, without it."""
    return _unstack(x, axis=axis)


@api_boundary
def tile(operand: ArrayLike, reps: Sequence[int]) -> Array:
    """Repeat a whole array along its dimensions, as often as `reps` says for each."""
    return _tile(operand, reps)


@api_boundary
def full_like(
    x: Any,
    fill_value: ArrayLike,
    dtype: Any = None,
    shape: Any = None,
    sharding: Any = None,
) -> Array:
    """An array filled with one value.

    Args:
        x: what gives dtype and shape where they are None.
        fill_value: a number.
        dtype: of the result.
        shape: of the result.
        sharding: taken for the sake of ported programs; the result lies on this device.
    """
    return _creation.full_like(x, fill_value, dtype, shape)


@api_boundary
def transpose(operand: ArrayLike, permutation: Sequence[int]) -> Array:
    """Dimension i of the result is dimension permutation[i] of the operand."""
    return _s.transpose(operand, tuple(permutation))


@api_boundary
def pad(
    operand: ArrayLike, padding_value: ArrayLike, padding_config: Sequence[tuple[int, int, int]]
) -> Array:
    """Put a value around and between the elements of an array.

    Args:
        operand: an array.
        padding_value: a number.
        padding_config: for each dimension (low, high, interior): how many to put before, after and
            between neighbours; a negative low or high crops.
    Example:
        >>> mgefn.lax.pad(mnp.array([1, 2]), 0, [(1, 0, 1)])
        Array([0, 1, 0, 2], dtype=int32)
    """
    x = as_array(operand, "pad")
    value = as_array(padding_value, "pad")
    if value.ndim:
        raise ShapeError(f"pad: the padding value must have rank 0, got {value.aval}.")
    config = tuple(tuple(builtins.map(_operator.index, c)) for c in padding_config)
    # Evaluation does not check types, so what the user wrote is checked here.
    value = _e.convert(value, x.dtype)
    _s.pad_p.out_avals((x.aval, value.aval), {"padding_config": config})
    return _s.pad_p.bind1(x, value, padding_config=config)


@api_boundary
def split(operand: ArrayLike, sizes: Sequence[int], axis: int = 0) -> list[Array]:
    """Cut an array into parts of these sizes along an axis; the sizes add up to the axis's.

    Raises:
        ShapeError: they do not.
    """
    x = as_array(operand, "split")
    i = _s.normalize_axis("split", axis, x.ndim)
    parts = [_operator.index(n) for n in sizes]
    if sum(parts) != x.shape[i] or any(n < 0 for n in parts):
        raise ShapeError(f"split: sizes must add up to {x.shape[i]}, got {parts}.")
    out, start = [], 0
    for n in parts:
        out.append(slice_in_dim(x, start, start + n, axis=i))
        start += n
    return out


# -- updates --------------------------------------------------------------------------------------


@api_boundary
def scatter_apply(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    func: Callable[[Any], Any],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Array:
    """Apply a function to the elements that indices name, once for each time they are named.

    Args:
        operand: an array.
        scatter_indices: as for `scatter`.
        func: number -> number, of the same dtype.
        dimension_numbers: as for `scatter`.
        update_shape: the shape that updates would have in `scatter`.
        indices_are_sorted: the indices ascend.
        unique_indices: no element is named twice; func is then called once for all elements.
        mode: as for `scatter`: what happens to indices out of bounds.

    Example:
        >>> dims = mgefn.lax.ScatterDimensionNumbers((), (0,), (0,))
        >>> mgefn.lax.scatter_apply(
        ...     mnp.array([1, 2, 3]), mnp.array([[0], [2], [2]]), lambda x: -2 * x, dims,
        ...     update_shape=(3,),
        ... )
        Array([-2,  2, 12], dtype=int32)
    """
    x = as_array(operand, "scatter_apply")
    named = scatter_add(
        _creation.zeros(x.shape, "int32"),
        scatter_indices,
        _creation.ones(tuple(update_shape), "int32"),
        dimension_numbers,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        mode=mode,
    )

    def applied(values: Any) -> Any:
        flat = vmap(func)(_s.reshape(values, (values.size,)))
        return _e.convert(_s.reshape(flat, values.shape), x.dtype)

    # Where an element is not named func sees 1 in its place: a derivative that is infinite at the
    # value that stays would make a NaN of the zero that flows back.
    def step(k: Any, values: Any) -> Any:
        due = named > k
        return _e.where(due, applied(_e.where(due, values, 1).astype(x.dtype)), values)

    if not x.size:
        return x
    if unique_indices:
        return step(0, x)
    times = reduce_max(named, tuple(range(x.ndim)))
    if not isinstance(times, Tracer):
        for k in range(int(times)):
            x = step(k, x)
        return x
    return fori_loop(0, times, step, x)


# -- others ---------------------------------------------------------------------------------------


@api_boundary
def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """The arrays of a pytree, of which the program says how they are spread over devices.

    Args:
        x: a pytree of arrays.
        shardings: shardings, PartitionSpecs for the mesh of the context, None, or a tree of them
            that is a prefix of x. They are checked; there is one device.

    Raises:
        ArgumentError: a PartitionSpec without a mesh. ShapeError: a sharding does not fit its
            array. TreeError: shardings is no prefix of x.
    """
    return placed("with_sharding_constraint", x, shardings, array_with_sharding)


@api_boundary
def dtype(x: Any) -> Any:
    """The dtype of an array or number."""
    return dtypes.dtype_and_weak(x)[0]


# -- the largest elements -------------------------------------------------------------------------


@api_boundary
def approx_max_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[Array, Array]:
    """The k largest elements along a dimension and their positions, found exactly."""
    return top_k(operand, k, axis=reduction_dimension)


@api_boundary
def approx_min_k(
    operand: ArrayLike,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[Array, Array]:
    """The k smallest elements along a dimension and their positions, found exactly."""
    values, index = top_k(neg(operand), k, axis=reduction_dimension)
    return neg(values), index


if not TYPE_CHECKING:  # type checkers take a module with __getattr__ to have every name

    def __getattr__(name: str) -> Any:
        raise MissingNameError(__name__, name, __all__)
