"""Maximum and minimum, and where they stand.

The elements that attain the extremum share its derivative equally. NaN counts as the greatest of
all and as the least, as in NumPy. The primitives give their identity over an empty axis; in the
public functions the extremum of nothing is an error, unless `initial` says what it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Never

import numpy as np

from mgefn import dtypes
from mgefn.core.array import ConcreteArray
from mgefn.core.array_methods import Array, ArrayLike, Axis, DTypeLike, method
from mgefn.core.avals import ShapedArray
from mgefn.core.interpreter import state
from mgefn.core.primitive import Primitive
from mgefn.errors import (
    ArgumentError,
    DTypeError,
    ShapeError,
    api_boundary,
    leave_api,
    no_such_keyword,
    tells_keywords,
)
from mgefn.ops.elementwise import convert, div_p, eq_p, max_p, min_p, ne_p, or_p, scale, sub_p
from mgefn.ops.reductions.common import (
    COMPARABLE,
    any_of,
    batch_reduction,
    by_axes,
    check_axes,
    checked,
    dropped,
    is_any,
    kept_axes,
    mask_of,
    masked,
    no_out,
    operand_of,
    quick,
    reduction,
    restore_axes,
    with_initial,
)
from mgefn.ops.reductions.sums import reduce_sum_p
from mgefn.ops.shaping import broadcast_in_dim, normalize_axes, normalize_axis, ravel


def lowest(dtype: np.dtype) -> Any:
    """The identity of max: -inf, or the least value of a dtype without it."""
    if dtypes.is_bool(dtype):
        return False
    if dtypes.is_integer(dtype):
        return int(dtypes.iinfo(dtype).min)
    if dtypes.is_complex(dtype):
        return complex(-math.inf, -math.inf)
    return -math.inf if _has_inf(dtype) else float(dtypes.finfo(dtype).min)


def highest(dtype: np.dtype) -> Any:
    """The identity of min: inf, or the greatest value of a dtype without it."""
    if dtypes.is_bool(dtype):
        return True
    if dtypes.is_integer(dtype):
        return int(dtypes.iinfo(dtype).max)
    if dtypes.is_complex(dtype):
        return complex(math.inf, math.inf)
    return math.inf if _has_inf(dtype) else float(dtypes.finfo(dtype).max)


def _has_inf(dtype: np.dtype) -> bool:
    return dtype.itemsize > 1 or bool(np.isinf(np.array(math.inf).astype(dtype).astype(np.float32)))


# -- reduce_max, reduce_min -----------------------------------------------------------------------

reduce_max_p = reduction("reduce_max", is_any, "any dtype")
reduce_min_p = reduction("reduce_min", is_any, "any dtype")
for _p in (reduce_max_p, reduce_min_p):
    _p.no_rule("transpose", "not linear")


def _chooser_jvp(primitive: Primitive) -> None:
    @primitive.def_jvp
    def rule(primals, tangents, *, axes):
        (x,), (t,) = primals, tangents
        y = primitive.bind1(x, axes=axes)
        kept = kept_axes(x.ndim, axes)
        # The elements that attain the extremum share the tangent equally, as in JAX. Where the
        # extremum is NaN these are the NaN.
        chosen = or_p.bind1(eq_p.bind1(x, broadcast_in_dim(y, x.shape, kept)), ne_p.bind1(x, x))
        # Counted in float32 at least: a float16 overflows at 65520 ties.
        wide = dtypes.accumulator(dtypes.real_part_dtype(x.dtype))
        weights = convert(chosen, wide)
        count = reduce_sum_p.bind1(weights, axes=axes)
        weights = div_p.bind1(weights, broadcast_in_dim(count, x.shape, kept))
        return (y,), (reduce_sum_p.bind1(scale(t, weights), axes=axes),)


_chooser_jvp(reduce_max_p)
_chooser_jvp(reduce_min_p)

# -- the primitives of argmax and argmin ----------------------------------------------------------

# params: axes, one int in a tuple; index_dtype. NaN counts as extreme; the first index wins a tie.
argmax_p = Primitive("argmax", constant=True, weak_result=False)
argmin_p = Primitive("argmin", constant=True, weak_result=False)


def _def_argument(primitive: Primitive) -> None:
    name = primitive.name
    primitive.no_rule("transpose", "integer output")
    primitive.def_batch(batch_reduction(primitive))

    @primitive.def_abstract_eval
    def abstract_eval(x: ShapedArray, *, axes, index_dtype):
        check_axes(name, x, axes)
        if len(axes) != 1:
            raise ArgumentError(f"{name}: needs one axis, got {axes}. Reshape to join several.")
        if not dtypes.is_integer(index_dtype):
            raise DTypeError(f"{name}: index_dtype must be an integer type, got {index_dtype}.")
        if x.shape[axes[0]] == 0:
            raise _nothing_to_find(name, x, axes[0])
        return (ShapedArray(dropped(x.shape, axes), index_dtype),)


def _nothing_to_find(name: str, x: ShapedArray, axis: int) -> ShapeError:
    return ShapeError(
        f"{name}: needs at least one element along axis {axis}, got {x}. An empty axis has no "
        "index; test its size first."
    )


_def_argument(argmax_p)
_def_argument(argmin_p)


# -- reductions by axes, as in jax.lax ------------------------------------------------------------


@api_boundary
def reduce_max(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Maximum over axes; -inf, or the least integer, over an empty one."""
    return by_axes(reduce_max_p, operand, axes)


@api_boundary
def reduce_min(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Minimum over axes; inf, or the greatest integer, over an empty one."""
    return by_axes(reduce_min_p, operand, axes)


@api_boundary
def argmax_along(operand: ArrayLike, axis: int, index_dtype: DTypeLike) -> Array:
    """Index of the first maximum along an axis, in a given integer dtype: jax.lax.argmax."""
    return _argument_along(argmax_p, operand, axis, index_dtype)


@api_boundary
def argmin_along(operand: ArrayLike, axis: int, index_dtype: DTypeLike) -> Array:
    """Index of the first minimum along an axis, in a given integer dtype: jax.lax.argmin."""
    return _argument_along(argmin_p, operand, axis, index_dtype)


def _argument_along(primitive: Primitive, operand: Any, axis: int, index_dtype: Any) -> Array:
    x = operand_of(primitive.name, operand)
    axes = (normalize_axis(primitive.name, axis, x.ndim),)
    return checked(primitive, x, axes=axes, index_dtype=dtypes.canonical(index_dtype))


_maximum_reduce = np.maximum.reduce
_minimum_reduce = np.minimum.reduce


# -- max, min -------------------------------------------------------------------------------------


@method("max")
@tells_keywords
def max(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    **unknown: Never,
) -> Array:
    """Maximum of the elements over `axis`, as numpy.max gives it; NaN where there is one.

    Derivative: shared equally among the elements that attain the maximum.

    Args:
        a: an array.
        axis: dimension or dimensions to search, each in [-ndim, ndim); None means all.
        out: must be None.
        keepdims: keep the searched dimensions with size 1.
        initial: a number that takes part; needed over an empty axis, and with `where`.
        where: booleans that broadcast to a: which elements take part.
    Raises:
        ShapeError: an axis is empty and there is no initial.
        ArgumentError: where is given without initial.

    Example:
        >>> mnp.max(mnp.array([[1, 5], [3, 2]]), axis=1)
        Array([5, 3], dtype=int32)
    """
    try:
        if unknown:
            raise no_such_keyword(max, unknown)
        if (
            a.__class__ is ConcreteArray
            and state.current is None
            and (axis is None or axis.__class__ is int)
            and initial is None
            and where is None
            and out is None
        ):
            data = a._data  # type: ignore[union-attr]  # a ConcreteArray
            if data.dtype in COMPARABLE and data.size:
                found = quick(_maximum_reduce, data, axis, keepdims)
                if found is not None:
                    return found
        return _extremum("max", reduce_max_p, max_p, lowest, a, axis, out, keepdims, initial, where)
    except BaseException as e:
        leave_api(e)
        raise


@method("min")
@tells_keywords
def min(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    **unknown: Never,
) -> Array:
    """Minimum of the elements over `axis`, as numpy.min gives it; NaN where there is one.

    The arguments, errors and derivative are those of `max`.

    Example:
        >>> mnp.min(mnp.array([[1, 5], [3, 2]]), axis=1)
        Array([1, 2], dtype=int32)
    """
    try:
        if unknown:
            raise no_such_keyword(min, unknown)
        if (
            a.__class__ is ConcreteArray
            and state.current is None
            and (axis is None or axis.__class__ is int)
            and initial is None
            and where is None
            and out is None
        ):
            data = a._data  # type: ignore[union-attr]  # a ConcreteArray
            if data.dtype in COMPARABLE and data.size:
                found = quick(_minimum_reduce, data, axis, keepdims)
                if found is not None:
                    return found
        return _extremum(
            "min", reduce_min_p, min_p, highest, a, axis, out, keepdims, initial, where
        )
    except BaseException as e:
        leave_api(e)
        raise


amax, amin = max, min


def _extremum(
    name: str,
    primitive: Primitive,
    combine: Primitive,
    identity: Callable[[np.dtype], Any],
    a: Any,
    axis: Any,
    out: Any,
    keepdims: bool,
    initial: Any,
    where: Any,
) -> Array:
    """max and min."""
    no_out(name, out)
    x = operand_of(name, a)
    axes = normalize_axes(name, axis, x.ndim)
    if initial is None:
        if where is not None:
            raise ArgumentError(
                f"{name}: where may leave no element, so it needs initial, got None. Pass the "
                "value for that case as initial."
            )
        if any_of(x.shape[i] == 0 for i in axes) and 0 not in dropped(x.shape, axes):
            raise ShapeError(
                f"{name}: needs at least one element, got {x.aval} over axes {axes}. Pass the "
                "value for an empty array as initial."
            )
    if where is not None:
        x = masked(mask_of(name, where, x), x, identity(x.dtype))
    y = restore_axes(primitive.bind1(x, axes=axes), x, axes, keepdims)
    return with_initial(combine, name, y, initial)


@method("ptp")
@api_boundary
def ptp(a: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
    """Maximum minus minimum over `axis`, as numpy.ptp gives it."""
    no_out("ptp", out)
    x = operand_of("ptp", a)
    if dtypes.is_bool(x.dtype):
        raise DTypeError(f"ptp: needs numbers, got {x.aval}. Cast it with astype.")
    return sub_p.bind1(max(x, axis, None, keepdims), min(x, axis, None, keepdims))


# -- argmax, argmin -------------------------------------------------------------------------------


@method("argmax")
@api_boundary
def argmax(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """Index of the first maximum along `axis`, as numpy.argmax gives it; NaN counts as greatest.

    Args:
        a: an array.
        axis: dimension to search; None searches all elements in C order.
        out: must be None.
        keepdims: keep the searched dimensions with size 1.
    Returns:
        Indices of the default integer dtype.
    Raises:
        ShapeError: the axis is empty.

    Example:
        >>> mnp.argmax(mnp.array([3, 7, 7]))
        Array(1, dtype=int32)
    """
    return _argument("argmax", argmax_p, a, axis, out, keepdims)


@method("argmin")
@api_boundary
def argmin(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """Index of the first minimum along `axis`, as numpy.argmin gives it; NaN counts as least.

    The arguments and errors are those of `argmax`.
    """
    return _argument("argmin", argmin_p, a, axis, out, keepdims)


def _argument(
    name: str, primitive: Primitive, a: Any, axis: Any, out: Any, keepdims: bool | None
) -> Array:
    if (
        a.__class__ is ConcreteArray
        and state.current is None
        and (axis is None or axis.__class__ is int)
        and out is None
    ):
        data = a._data
        if data.dtype in COMPARABLE and 0 < data.size < 2**31:
            try:
                found = getattr(data, name)(axis, keepdims=bool(keepdims))
            except ValueError:
                pass  # an axis out of range: the careful way tells
            else:
                return ConcreteArray(np.asarray(found, dtypes.default_int()))
    no_out(name, out)
    x = operand_of(name, a)
    if axis is None:
        axes = tuple(range(x.ndim))
        flat, along = ravel(x), 0
    else:
        along = normalize_axis(name, axis, x.ndim)
        axes, flat = (along,), x
    if flat.shape[along] == 0:
        raise _nothing_to_find(name, flat.aval, along)
    index_dtype = dtypes.default_int()
    if flat.shape[along] > np.iinfo(index_dtype).max:
        index_dtype = np.dtype(np.int64)
    y = primitive.bind1(flat, axes=(along,), index_dtype=index_dtype)
    return restore_axes(y, x, axes, bool(keepdims))
