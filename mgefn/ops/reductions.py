"""Reductions: sum, product, extrema, logic, argmax, and the statistics made of them.

The primitives take `axes`, increasing and in [0, ndim), and drop these dimensions. Over an empty
axis they give their identity; that max and min of nothing is an error is the public functions'
rule. The public functions have NumPy's signatures. `where` leaves elements out of the value and of
the derivative: what stands in them, NaN included, has no influence on either.

bool and small integers are summed as the default integer, as JAX does. float16 and bfloat16
accumulate in float32.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.core.array import ConcreteArray, scalar
from mgefn.core.array_methods import Array, ArrayLike, Axis, DTypeLike, method
from mgefn.core.avals import ShapedArray, Zero
from mgefn.core.interpreter import state
from mgefn.core.primitive import Primitive
from mgefn.errors import ArgumentError, DTypeError, ShapeError, api_boundary, leave_api
from mgefn.ops.elementwise import (
    abs_p,
    add_p,
    and_p,
    astype,
    broadcasted,
    conj,
    convert,
    div_p,
    eq_p,
    exp_p,
    is_finite_p,
    log_p,
    max_p,
    min_p,
    mul_p,
    ne_p,
    or_p,
    promoted,
    real_p,
    scale,
    scale_p,
    select_n_p,
    sign_p,
    sqrt_p,
    square_p,
    stop_gradient_p,
    sub_p,
    truth,
)
from mgefn.ops.shaping import (
    broadcast_in_dim,
    broadcast_in_dim_p,
    broadcast_to_shape,
    concatenate_p,
    normalize_axes,
    normalize_axis,
    ravel,
    reshape,
    result_shape,
    slice_in_dim,
    transpose,
)

BOOL = np.dtype(bool)

# -- what the primitives share --------------------------------------------------------------------


def dropped(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape without the dimensions in `axes`."""
    return tuple([n for i, n in enumerate(shape) if i not in axes])


def kept_axes(ndim: int, axes: tuple[int, ...]) -> tuple[int, ...]:
    """The dimensions that are not in `axes`."""
    return tuple([i for i in range(ndim) if i not in axes])


def _check_axes(name: str, x: ShapedArray, axes: tuple[int, ...]) -> None:
    if any_of(not 0 <= a < x.ndim for a in axes) or list(axes) != sorted(set(axes)):
        raise ArgumentError(
            f"{name}: axes must increase within [0, {x.ndim}) for {x}, got {axes}. Use the "
            "function of mgefn.numpy, which takes them in any form."
        )


# The names of the builtins belong to NumPy's functions in this file.
any_of, all_of = builtins.any, builtins.all


def reduction(
    name: str, accepts: Callable[[np.dtype], bool], needs: str, **kinds: Any
) -> Primitive:
    """A primitive that drops `axes` and keeps the dtype."""
    primitive = Primitive(name, weak_result=False, **kinds)

    def abstract_eval(x: ShapedArray, *, axes: tuple[int, ...]) -> tuple[ShapedArray]:
        _check_axes(name, x, axes)
        if not accepts(x.dtype):
            raise DTypeError(f"{name}: needs {needs}, got {x}. Cast it with astype.")
        return (ShapedArray(dropped(x.shape, axes), x.dtype),)

    primitive.def_abstract_eval(abstract_eval)
    primitive.def_batch(batch_reduction(primitive))
    primitive.simplify = lambda inputs, params, out_avals: None if params["axes"] else [inputs[0]]
    return primitive


def batch_reduction(primitive: Primitive) -> Callable[..., Any]:
    """The batch rule of a reduction: step over the batch dimension."""

    def rule(args: Sequence[Any], bdims: Sequence[Any], *, axes: tuple[int, ...], **params: Any):
        (x,), (bdim,) = args, bdims
        axes = tuple([a + (a >= bdim) for a in axes])
        out_bdim = bdim - builtins.sum(a < bdim for a in axes)
        return primitive.bind(x, axes=axes, **params), (out_bdim,)

    return rule


def _is_number(dtype: np.dtype) -> bool:
    return not dtypes.is_bool(dtype)


def _is_logical(dtype: np.dtype) -> bool:
    return dtypes.is_bool(dtype) or dtypes.is_integer(dtype)


def _is_any(dtype: np.dtype) -> bool:
    return True


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


# -- reduce_sum -----------------------------------------------------------------------------------

reduce_sum_p = reduction("reduce_sum", _is_number, "numbers", linear=True)


@reduce_sum_p.def_transpose
def _reduce_sum_transpose(cts, x, *, axes):
    (ct,) = cts
    # Each summed element enters the output with weight 1, so it receives the whole cotangent.
    shape = x.aval.shape
    kept = kept_axes(len(shape), axes)
    return broadcast_in_dim_p.bind(ct, shape=shape, broadcast_dimensions=kept)


# -- reduce_prod ----------------------------------------------------------------------------------

reduce_prod_p = reduction("reduce_prod", _is_number, "numbers")
reduce_prod_p.no_rule("transpose", "not linear")


@reduce_prod_p.def_jvp
def _reduce_prod_jvp(primals, tangents, *, axes):
    (x,), (t,) = primals, tangents
    y = reduce_prod_p.bind1(x, axes=axes)
    n = math.prod([x.shape[a] for a in axes])
    if n == 0:
        return (y,), (Zero(y.aval),)
    # The product rule along a balanced tree of pairs: no division, so zeros need no care, and its
    # own derivatives are right too.
    order = (*axes, *kept_axes(x.ndim, axes))
    shape = (n, *y.shape)
    x, t = reshape(transpose(x, order), shape), reshape(transpose(t, order), shape)
    while n > 1:
        half = n // 2
        a, b = slice_in_dim(x, 0, half), slice_in_dim(x, half, 2 * half)
        a_dot, b_dot = slice_in_dim(t, 0, half), slice_in_dim(t, half, 2 * half)
        rest, rest_dot = slice_in_dim(x, 2 * half, n), slice_in_dim(t, 2 * half, n)
        x = mul_p.bind1(a, b)
        t = add_p.bind1(scale(a_dot, b), scale(b_dot, a))
        if n % 2:
            x = concatenate_p.bind1(x, rest, dimension=0)
            t = concatenate_p.bind1(t, rest_dot, dimension=0)
        n -= half
    return (y,), (reshape(t, y.shape),)


# -- reduce_max, reduce_min -----------------------------------------------------------------------

reduce_max_p = reduction("reduce_max", _is_any, "any dtype")
reduce_min_p = reduction("reduce_min", _is_any, "any dtype")
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

# -- reduce_and, reduce_or, reduce_xor ------------------------------------------------------------

reduce_and_p = reduction("reduce_and", _is_logical, "booleans or integers", constant=True)
reduce_or_p = reduction("reduce_or", _is_logical, "booleans or integers", constant=True)
reduce_xor_p = reduction("reduce_xor", _is_logical, "booleans or integers", constant=True)
for _p in (reduce_and_p, reduce_or_p, reduce_xor_p):
    _p.no_rule("transpose", "has no derivative")

# -- argmax, argmin -------------------------------------------------------------------------------

# params: axes, one int in a tuple; index_dtype. NaN counts as extreme; the first index wins a tie.
argmax_p = Primitive("argmax", constant=True, weak_result=False)
argmin_p = Primitive("argmin", constant=True, weak_result=False)


def _def_argument(primitive: Primitive) -> None:
    name = primitive.name
    primitive.no_rule("transpose", "integer output")
    primitive.def_batch(batch_reduction(primitive))

    @primitive.def_abstract_eval
    def abstract_eval(x: ShapedArray, *, axes, index_dtype):
        _check_axes(name, x, axes)
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


def _by_axes(primitive: Primitive, operand: ArrayLike, axes: Sequence[int]) -> Array:
    x = operand_of(primitive.name, operand)
    return checked(primitive, x, axes=normalize_axes(primitive.name, tuple(axes), x.ndim))


def checked(primitive: Primitive, x: Any, **params: Any) -> Any:
    """Bind a primitive of one operand; evaluation alone would not look at types."""
    if state.current is None:
        primitive.out_avals((x.aval,), params)
    return primitive.bind1(x, **params)


@api_boundary
def reduce_sum(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Sum over axes in the operand's own dtype."""
    return _by_axes(reduce_sum_p, operand, axes)


@api_boundary
def reduce_prod(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Product over axes in the operand's own dtype."""
    return _by_axes(reduce_prod_p, operand, axes)


@api_boundary
def reduce_max(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Maximum over axes; -inf, or the least integer, over an empty one."""
    return _by_axes(reduce_max_p, operand, axes)


@api_boundary
def reduce_min(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Minimum over axes; inf, or the greatest integer, over an empty one."""
    return _by_axes(reduce_min_p, operand, axes)


@api_boundary
def reduce_and(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Bitwise and over axes, of booleans or integers."""
    return _by_axes(reduce_and_p, operand, axes)


@api_boundary
def reduce_or(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Bitwise or over axes, of booleans or integers."""
    return _by_axes(reduce_or_p, operand, axes)


@api_boundary
def reduce_xor(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Bitwise exclusive or over axes, of booleans or integers."""
    return _by_axes(reduce_xor_p, operand, axes)


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


# -- what the public functions share --------------------------------------------------------------


def operand_of(name: str, a: Any) -> Any:
    """The array that an argument stands for."""
    return a if isinstance(a, Array) else promoted(name, (a,))[0]


def no_out(name: str, out: Any) -> None:
    """Refuse NumPy's `out`: arrays are immutable."""
    if out is not None:
        raise ArgumentError(
            f"{name}: out must be None, got {type(out).__name__}, because arrays are immutable. "
            "Use the returned array."
        )


def mask_of(name: str, where: ArrayLike, x: Array) -> Any:
    """The argument `where` as booleans of the shape of x, or of rank 0."""
    mask = operand_of(name, where)
    if mask.dtype != BOOL:
        raise DTypeError(f"{name}: where must be boolean, got {mask.aval}. Compare it: where != 0.")
    if mask.shape in ((), x.shape):
        return mask
    if result_shape(name, (x.shape, mask.shape), (x.aval, mask.aval)) != x.shape:
        raise ShapeError(
            f"{name}: where must broadcast to the array, got {mask.aval} for {x.aval}. Broadcast "
            "the array first."
        )
    return broadcast_to_shape(mask, x.shape)


def masked(mask: Any, x: Any, fill: Any) -> Any:
    """x where the mask holds, the number `fill` elsewhere."""
    return select_n_p.bind1(mask, scalar(fill, x.dtype), x)


def restore_axes(y: Any, x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """The reduced array with dimensions of size 1 where it lost some, if asked for."""
    if not keepdims:
        return y
    return reshape(y, tuple([1 if i in axes else n for i, n in enumerate(x.shape)]))


def with_initial(primitive: Primitive, name: str, y: Any, initial: Any) -> Any:
    """The reduced array joined with the argument `initial`."""
    if initial is None:
        return y
    start = operand_of(name, initial)
    if start.shape:
        raise ShapeError(f"{name}: initial must be a number, got {start.aval}. Index it first.")
    return primitive.bind1(astype(start, y.dtype), y)


def sum_dtype(dtype: np.dtype, promote: bool = True) -> np.dtype:
    """The dtype in which integers of a dtype are summed; bool counts as an integer."""
    if dtypes.is_bool(dtype):
        return dtypes.default_int()
    if not promote or not dtypes.is_integer(dtype):
        return dtype
    default = dtypes.default_int()
    if dtype.itemsize >= default.itemsize:
        return dtype
    return default if dtypes.is_signed(dtype) else np.dtype(f"u{default.name}")


def asked_dtype(name: str, dtype: DTypeLike) -> np.dtype | None:
    """The argument `dtype`."""
    return None if dtype is None else dtypes.canonical(dtype)


# Sums over dtypes with a plain loop, of arrays so small that no blocking is due, go straight to
# NumPy when nothing is traced.
_SUMMABLE = frozenset(map(np.dtype, ("float32", "float64", "complex64", "complex128")))
_COMPARABLE = frozenset(np.dtype(c) for c in "?bBhHiIlLqQefd")
_SMALL = 4096

_add_reduce: Callable[..., Any] = np.add.reduce
_maximum_reduce = np.maximum.reduce
_minimum_reduce = np.minimum.reduce
_logical_and_reduce = np.logical_and.reduce
_logical_or_reduce = np.logical_or.reduce


def _quick(reduce: Any, data: np.ndarray, axis: Any, keepdims: bool) -> Any:
    """What a NumPy reduction gives, or None where it fails and the careful way must tell why."""
    try:
        out = state.quiet(reduce, data, axis, None, None, keepdims)
    except (RuntimeError, ValueError):
        return None
    return ConcreteArray(out if out.__class__ is np.ndarray else np.asarray(out))


# -- sum, prod ------------------------------------------------------------------------------------


@method("sum")
def sum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """Sum of the elements over `axis`, as numpy.sum gives it.

    Args:
        a: an array.
        axis: dimension or dimensions to sum over, each in [-ndim, ndim); None means all.
        dtype: of the result and of the sum; None keeps that of a, but takes bool and integers
            narrower than the default integer to it (unsigned ones to its unsigned kin).
        out: must be None.
        keepdims: keep the summed dimensions with size 1.
        initial: a number that is added.
        where: booleans that broadcast to a: which elements to sum.
        promote_integers: False keeps the dtype of narrow integers.
    Returns:
        The sums; 0 over an empty axis.
    Raises:
        AxisError: an axis is out of range or named twice.

    Example:
        >>> mnp.sum(mnp.array([[1.0, 2.0], [3.0, 4.0]]), axis=0)
        Array([4., 6.], dtype=float32)
    """
    try:
        if (
            a.__class__ is ConcreteArray
            and state.current is None
            and (axis is None or axis.__class__ is int)
            and dtype is None
            and initial is None
            and where is None
            and out is None
        ):
            data = a._data  # type: ignore[union-attr]  # a ConcreteArray
            if data.dtype in _SUMMABLE and data.size <= _SMALL:
                total = _quick(_add_reduce, data, axis, keepdims)
                if total is not None:
                    return total
        elif (
            axis is None
            and not keepdims
            and dtype is None
            and initial is None
            and where is None
            and out is None
            and isinstance(a, Array)
            and a.dtype.kind in "fc"
        ):
            return reduce_sum_p.bind1(a, axes=tuple(range(len(a.shape))))
        return _accumulate(
            "sum", reduce_sum_p, add_p, 0, a, axis, dtype, out, keepdims, initial, where,
            promote_integers,
        )  # fmt: skip
    except BaseException as e:
        leave_api(e)
        raise


@method("prod")
@api_boundary
def prod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
    promote_integers: bool = True,
) -> Array:
    """Product of the elements over `axis`, as numpy.prod gives it.

    The arguments are those of `sum`. The derivative is right, to any order, also where elements
    are 0.

    Example:
        >>> mnp.prod(mnp.array([2.0, 3.0, 4.0]))
        Array(24., dtype=float32)
    """
    return _accumulate(
        "prod", reduce_prod_p, mul_p, 1, a, axis, dtype, out, keepdims, initial, where,
        promote_integers,
    )  # fmt: skip


def _accumulate(
    name: str,
    primitive: Primitive,
    combine: Primitive,
    identity: int,
    a: Any,
    axis: Any,
    dtype: Any,
    out: Any,
    keepdims: bool,
    initial: Any,
    where: Any,
    promote_integers: bool,
) -> Array:
    """sum and prod."""
    no_out(name, out)
    x = operand_of(name, a)
    axes = normalize_axes(name, axis, x.ndim)
    new = asked_dtype(name, dtype)
    if new is None:
        new = sum_dtype(x.dtype, promote_integers)
    if where is not None:
        x = masked(mask_of(name, where, x), x, identity)
    if new == BOOL:
        # Among booleans addition is "or" and multiplication "and".
        x = truth(x)
        primitive = reduce_or_p if primitive is reduce_sum_p else reduce_and_p
    elif x.dtype != new:
        x = astype(x, new)
    y = restore_axes(primitive.bind1(x, axes=axes), x, axes, keepdims)
    return with_initial(combine, name, y, initial)


# -- max, min -------------------------------------------------------------------------------------


@method("max")
def max(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
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
        if (
            a.__class__ is ConcreteArray
            and state.current is None
            and (axis is None or axis.__class__ is int)
            and initial is None
            and where is None
            and out is None
        ):
            data = a._data  # type: ignore[union-attr]  # a ConcreteArray
            if data.dtype in _COMPARABLE and data.size:
                found = _quick(_maximum_reduce, data, axis, keepdims)
                if found is not None:
                    return found
        return _extremum("max", reduce_max_p, max_p, lowest, a, axis, out, keepdims, initial, where)
    except BaseException as e:
        leave_api(e)
        raise


@method("min")
def min(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Minimum of the elements over `axis`, as numpy.min gives it; NaN where there is one.

    The arguments, errors and derivative are those of `max`.

    Example:
        >>> mnp.min(mnp.array([[1, 5], [3, 2]]), axis=1)
        Array([1, 2], dtype=int32)
    """
    try:
        if (
            a.__class__ is ConcreteArray
            and state.current is None
            and (axis is None or axis.__class__ is int)
            and initial is None
            and where is None
            and out is None
        ):
            data = a._data  # type: ignore[union-attr]  # a ConcreteArray
            if data.dtype in _COMPARABLE and data.size:
                found = _quick(_minimum_reduce, data, axis, keepdims)
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


# -- all, any -------------------------------------------------------------------------------------


@method("all")
@api_boundary
def all(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Are all elements over `axis` nonzero? As numpy.all; True over an empty axis."""
    if (
        a.__class__ is ConcreteArray
        and state.current is None
        and (axis is None or axis.__class__ is int)
        and where is None
        and out is None
    ):
        data = a._data  # type: ignore[union-attr]  # a ConcreteArray
        if data.dtype in _COMPARABLE:
            found = _quick(_logical_and_reduce, data, axis, keepdims)
            if found is not None:
                return found
    return _logical("all", reduce_and_p, True, a, axis, out, keepdims, where)


@method("any")
@api_boundary
def any(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Is any element over `axis` nonzero? As numpy.any; False over an empty axis."""
    if (
        a.__class__ is ConcreteArray
        and state.current is None
        and (axis is None or axis.__class__ is int)
        and where is None
        and out is None
    ):
        data = a._data  # type: ignore[union-attr]  # a ConcreteArray
        if data.dtype in _COMPARABLE:
            found = _quick(_logical_or_reduce, data, axis, keepdims)
            if found is not None:
                return found
    return _logical("any", reduce_or_p, False, a, axis, out, keepdims, where)


def _logical(
    name: str,
    primitive: Primitive,
    identity: bool,
    a: Any,
    axis: Any,
    out: Any,
    keepdims: bool,
    where: Any,
) -> Array:
    no_out(name, out)
    x = truth(operand_of(name, a))
    if where is not None:
        x = masked(mask_of(name, where, x), x, identity)
    axes = normalize_axes(name, axis, x.ndim)
    return restore_axes(primitive.bind1(x, axes=axes), x, axes, keepdims)


@api_boundary
def count_nonzero(a: ArrayLike, axis: Axis = None, keepdims: bool = False) -> Array:
    """Number of elements over `axis` that are not 0, as numpy.count_nonzero gives it."""
    return sum(truth(operand_of("count_nonzero", a)), axis, None, None, keepdims)


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
        if data.dtype in _COMPARABLE and 0 < data.size < 2**31:
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


# -- mean, variance -------------------------------------------------------------------------------


@method("mean")
def mean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Arithmetic mean over `axis`, as numpy.mean gives it; NaN over an empty axis.

    Args:
        a: an array; integers are averaged as the default float.
        axis: dimension or dimensions to average over, each in [-ndim, ndim); None means all.
        dtype: of the result; None keeps that of a. float16 and bfloat16 are summed as float32.
        out: must be None.
        keepdims: keep the averaged dimensions with size 1.
        where: booleans that broadcast to a: which elements to average.

    Example:
        >>> mnp.mean(mnp.array([[1, 2], [3, 4]]), axis=0)
        Array([2., 3.], dtype=float32)
    """
    try:
        if (
            a.__class__ is ConcreteArray
            and state.current is None
            and (axis is None or axis.__class__ is int)
            and dtype is None
            and where is None
            and out is None
        ):
            data = a._data  # type: ignore[union-attr]  # a ConcreteArray
            if data.dtype in _SUMMABLE and data.size <= _SMALL:
                found = _quick(_mean_reduce, data, axis, keepdims)
                if found is not None:
                    return found
        no_out("mean", out)
        x = operand_of("mean", a)
        axes = normalize_axes("mean", axis, x.ndim)
        result = asked_dtype("mean", dtype) or dtypes.to_inexact(x.dtype)
        x = astype(x, dtypes.accumulator(dtypes.to_inexact(result)))
        mask = None if where is None else mask_of("mean", where, x)
        return astype(_mean(x, axes, keepdims, mask), result)
    except BaseException as e:
        leave_api(e)
        raise


def _mean_reduce(data: np.ndarray, axis: Any, dtype: Any, out: Any, keepdims: bool) -> Any:
    n = data.size if axis is None else data.shape[axis]
    return _add_reduce(data, axis, dtype, out, keepdims) / n


def _mean(x: Any, axes: tuple[int, ...], keepdims: bool, mask: Any) -> Any:
    """The mean of an inexact array."""
    kept = x if mask is None else masked(mask, x, 0)
    total = restore_axes(reduce_sum_p.bind1(kept, axes=axes), x, axes, keepdims)
    return div_p.bind1(total, _count(x, axes, keepdims, mask, x.dtype))


def _count(x: Any, axes: tuple[int, ...], keepdims: bool, mask: Any, dtype: np.dtype) -> Any:
    """How many elements a reduction joins, in an inexact dtype; of rank 0 without a mask."""
    if mask is None:
        return scalar(math.prod([x.shape[i] for i in axes]), dtype)
    # Counted as integers: a float32 sum of ones could stick at 2**24.
    ones = convert(broadcast_to_shape(mask, x.shape), np.dtype(np.int32))
    counted = reduce_sum_p.bind1(ones, axes=axes)
    return convert(restore_axes(counted, x, axes, keepdims), dtype)


@method("var")
@api_boundary
def var(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """Variance over `axis`, as numpy.var gives it: the mean of |x - mean(x)|**2.

    Computed in two passes, first the mean. float16 and bfloat16 are computed as float32.

    Args:
        a: an array; integers are taken as the default float.
        axis: dimension or dimensions, each in [-ndim, ndim); None means all.
        dtype: of the result; None means that of a, or of its real part.
        out: must be None.
        ddof: what is subtracted from the number of elements before dividing by it.
        keepdims: keep the reduced dimensions with size 1.
        where: booleans that broadcast to a: which elements take part.
        mean: the mean where it is known, with the reduced dimensions kept.
        correction: the array API's name for ddof.
    Returns:
        The variances; NaN where not more than ddof elements take part.
    Raises:
        ArgumentError: both ddof and correction are given.

    Example:
        >>> mnp.var(mnp.array([1.0, 2.0, 3.0, 4.0]))
        Array(1.25, dtype=float32)
    """
    y, result = _variance("var", a, axis, dtype, out, ddof, keepdims, where, mean, correction)
    return astype(y, result)


@method("std")
@api_boundary
def std(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """Standard deviation over `axis`, as numpy.std gives it: the square root of `var`.

    The arguments and errors are those of `var`. Derivative where all elements are equal: 0.

    Example:
        >>> mnp.std(mnp.array([1.0, 3.0]))
        Array(1., dtype=float32)
    """
    y, result = _variance("std", a, axis, dtype, out, ddof, keepdims, where, mean, correction)
    return astype(sqrt_p.bind1(y), result)


def _variance(
    name: str,
    a: Any,
    axis: Any,
    dtype: Any,
    out: Any,
    ddof: float,
    keepdims: bool,
    where: Any,
    mean: Any,
    correction: float | None,
) -> tuple[Any, np.dtype]:
    """The variance in the dtype it is computed in, and the dtype it shall get."""
    no_out(name, out)
    if correction is not None:
        if ddof:
            raise ArgumentError(
                f"{name}: ddof and correction are one thing, got ddof={ddof} and "
                f"correction={correction}. Pass one of them."
            )
        ddof = correction
    x = operand_of(name, a)
    axes = normalize_axes(name, axis, x.ndim)
    asked = asked_dtype(name, dtype)
    if asked is None:
        asked = dtypes.to_inexact(x.dtype)
        result = dtypes.real_part_dtype(asked)
    else:
        result = asked
        if not dtypes.is_inexact(asked):
            raise DTypeError(
                f"{name}: dtype must be inexact, got {asked}. Cast the result instead."
            )
        if dtypes.is_complex(x.dtype):
            # The variance of complex numbers is real, whatever dtype is asked for.
            asked = dtypes.complex_dtype(asked)
    x = astype(x, dtypes.accumulator(asked))
    mask = None if where is None else mask_of(name, where, x)
    if mean is None:
        center = _mean(x, axes, True, mask)
    else:
        center = astype(operand_of(name, mean), x.dtype)
    centered = sub_p.bind1(x, broadcast_to_shape(center, x.shape))
    if mask is not None:
        centered = masked(mask, centered, 0)
    if dtypes.is_complex(x.dtype):
        squares = real_p.bind1(mul_p.bind1(centered, conj(centered)))
    else:
        squares = square_p.bind1(centered)
    total = restore_axes(reduce_sum_p.bind1(squares, axes=axes), x, axes, keepdims)
    count = _count(x, axes, keepdims, mask, total.dtype)
    if mask is None:
        left = math.prod([x.shape[i] for i in axes]) - ddof
        return div_p.bind1(
            total, scalar(float(left) if left > 0 else math.nan, total.dtype)
        ), result
    left = sub_p.bind1(count, scalar(float(ddof), total.dtype))
    return div_p.bind1(total, masked(left > 0, left, math.nan)), result


@api_boundary
def average(
    a: ArrayLike,
    axis: Axis = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Any:
    """Weighted mean over `axis`, as numpy.average gives it.

    Args:
        a: an array.
        axis: dimension or dimensions to average over; None means all.
        weights: of the shape of a, or of its dimensions in `axis`; None weighs all alike.
        returned: return (mean, sum of the weights) instead of the mean.
        keepdims: keep the averaged dimensions with size 1.
    Raises:
        ShapeError: the weights fit neither a nor `axis`.

    Example:
        >>> mnp.average(mnp.array([1.0, 4.0]), weights=mnp.array([2.0, 1.0]))
        Array(2., dtype=float32)
    """
    x = operand_of("average", a)
    if weights is None:
        y = mean(x, axis, keepdims=keepdims)
        axes = normalize_axes("average", axis, x.ndim)
        total = _count(x, axes, keepdims, None, y.dtype)
    else:
        x, w = promoted("average", (x, weights), inexact=True)
        if w.shape != x.shape:
            w = _fitted_weights(x, axis, w)
        total = sum(w, axis, None, None, keepdims)
        y = div_p.bind1(sum(mul_p.bind1(x, w), axis, None, None, keepdims), total)
    return (y, broadcast_to_shape(total, y.shape)) if returned else y


def _fitted_weights(x: Any, axis: Any, w: Any) -> Any:
    """Weights given for the averaged dimensions only, at the shape of x."""
    if axis is None:
        raise ShapeError(
            f"average: weights of another shape than a need axis, got {w.aval} for {x.aval}. Pass "
            "the axis they belong to."
        )
    # In the order in which they are named, as the dimensions of the weights are.
    named = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    named = tuple([normalize_axis("average", i, x.ndim) for i in named])
    need = tuple([x.shape[i] for i in named])
    if w.shape != need:
        raise ShapeError(
            f"average: weights must have the shape of a, or {need} along axis {axis}, got {w.aval} "
            f"for {x.aval}."
        )
    order = sorted(range(len(named)), key=lambda i: named[i])
    return broadcast_in_dim(transpose(w, order), x.shape, tuple(sorted(named)))


# -- reductions that leave out NaN ----------------------------------------------------------------


def _without_nan(name: str, a: Any, fill: Callable[[np.dtype], Any]) -> tuple[Any, Any]:
    """The array with NaN replaced, and where they were (None: no dtype for them)."""
    x = operand_of(name, a)
    if not dtypes.is_inexact(x.dtype):
        return x, None
    nan = ne_p.bind1(x, x)
    return select_n_p.bind1(nan, x, scalar(fill(x.dtype), x.dtype)), nan


def _zero(dtype: np.dtype) -> int:
    return 0


def _one(dtype: np.dtype) -> int:
    return 1


@api_boundary
def nansum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """`sum` of the elements that are not NaN, as numpy.nansum gives it."""
    x, _ = _without_nan("nansum", a, _zero)
    return sum(x, axis, dtype, out, keepdims, initial, where)


@api_boundary
def nanprod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """`prod` of the elements that are not NaN, as numpy.nanprod gives it."""
    x, _ = _without_nan("nanprod", a, _one)
    return prod(x, axis, dtype, out, keepdims, initial, where)


@api_boundary
def nanmax(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """`max` of the elements that are not NaN, as numpy.nanmax gives it; NaN where all are."""
    x, nan = _without_nan("nanmax", a, lowest)
    y = max(x, axis, out, keepdims, initial, where)
    return _nan_where_all(nan, y, axis, keepdims, initial)


@api_boundary
def nanmin(
    a: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """`min` of the elements that are not NaN, as numpy.nanmin gives it; NaN where all are."""
    x, nan = _without_nan("nanmin", a, highest)
    y = min(x, axis, out, keepdims, initial, where)
    return _nan_where_all(nan, y, axis, keepdims, initial)


def _nan_where_all(nan: Any, y: Any, axis: Any, keepdims: bool, initial: Any) -> Any:
    if nan is None or initial is not None:
        return y
    return select_n_p.bind1(all(nan, axis, None, keepdims), y, scalar(math.nan, y.dtype))


def _not_nan(name: str, a: Any, where: Any) -> tuple[Any, Any]:
    """The array, and `where` without the places of NaN."""
    x = operand_of(name, a)
    if not dtypes.is_inexact(x.dtype):
        return x, where
    valid = eq_p.bind1(x, x)
    if where is not None:
        valid = and_p.bind1(valid, mask_of(name, where, x))
    return x, valid


@api_boundary
def nanmean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    keepdims: bool = False,
    where: ArrayLike | None = None,
) -> Array:
    """`mean` of the elements that are not NaN, as numpy.nanmean gives it; NaN where all are.

    Example:
        >>> mnp.nanmean(mnp.array([1.0, mnp.nan, 3.0]))
        Array(2., dtype=float32)
    """
    x, valid = _not_nan("nanmean", a, where)
    return mean(x, axis, dtype, out, keepdims, where=valid)


@api_boundary
def nanvar(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """`var` of the elements that are not NaN, as numpy.nanvar gives it."""
    x, valid = _not_nan("nanvar", a, where)
    return var(x, axis, dtype, out, ddof, keepdims, where=valid, mean=mean, correction=correction)


@api_boundary
def nanstd(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: None = None,
    ddof: int = 0,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float | None = None,
) -> Array:
    """`std` of the elements that are not NaN, as numpy.nanstd gives it."""
    x, valid = _not_nan("nanstd", a, where)
    return std(x, axis, dtype, out, ddof, keepdims, where=valid, mean=mean, correction=correction)


@api_boundary
def nanargmax(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """`argmax` of the elements that are not NaN; -1 where all are, as in JAX."""
    x, nan = _without_nan("nanargmax", a, lowest)
    return _no_index_where_all(nan, argmax(x, axis, out, keepdims), axis, keepdims)


@api_boundary
def nanargmin(
    a: ArrayLike, axis: int | None = None, out: None = None, keepdims: bool | None = None
) -> Array:
    """`argmin` of the elements that are not NaN; -1 where all are, as in JAX."""
    x, nan = _without_nan("nanargmin", a, highest)
    return _no_index_where_all(nan, argmin(x, axis, out, keepdims), axis, keepdims)


def _no_index_where_all(nan: Any, y: Any, axis: Any, keepdims: Any) -> Any:
    if nan is None:
        return y
    return select_n_p.bind1(all(nan, axis, None, bool(keepdims)), y, scalar(-1, y.dtype))


# -- logsumexp ------------------------------------------------------------------------------------


@api_boundary
def logsumexp(
    a: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> Any:
    """Logarithm of a sum of exponentials, log(sum(b * exp(a))), safe from overflow.

    Computed as m + log(sum(b * exp(a - m))), m the maximum of a over `axis`. Derivative in a:
    softmax of a over `axis`, and 0 where all elements are -inf.

    Args:
        a: any shape and floating or complex dtype; integers are taken to the default float.
        axis: dimension or dimensions to sum over, each in [-ndim, ndim); None means all.
        b: factors of the exponentials; broadcasts with a. A factor of 0 leaves its element out.
        keepdims: keep the summed dimensions with size 1.
        return_sign: return (log|sum|, sign of the sum) instead, so that the sum may be negative.
        where: booleans that broadcast to a: which elements to sum.
    Returns:
        Array of the dtype of a without the dimensions in `axis`; -inf where every element is -inf
        or there is none; NaN where the sum is negative.
    Raises:
        AxisError: an axis is out of range or named twice.

    Example:
        >>> mgefn.nn.logsumexp(mnp.array([1000.0, 1000.0]))
        Array(1000.6932, dtype=float32)

    Source: Blanchard, Higham, Higham (2021), IMA J. Numer. Anal. 41(4), 2311-2330,
    doi:10.1093/imanum/draa038.
    """
    if b is None:
        (x,) = promoted("logsumexp", (a,), inexact=True)
        factors = None
    else:
        x, factors = broadcasted("logsumexp", promoted("logsumexp", (a, b), inexact=True))
        shape = x.shape or factors.shape
        x, factors = broadcast_to_shape(x, shape), broadcast_to_shape(factors, shape)
    result = x.dtype
    x = astype(x, dtypes.accumulator(result))
    if where is not None:
        x = masked(mask_of("logsumexp", where, x), x, -math.inf)
    axes = normalize_axes("logsumexp", axis, x.ndim)
    heights = real_p.bind1(x) if dtypes.is_complex(x.dtype) else x
    if factors is not None:
        factors = astype(factors, x.dtype)
        heights = masked(ne_p.bind1(factors, scalar(0, factors.dtype)), heights, -math.inf)
    top = reduce_max_p.bind1(stop_gradient_p.bind1(heights), axes=axes)
    # Where all are -inf, or one is inf, subtracting the maximum would give NaN.
    top = masked(is_finite_p.bind1(top), top, 0)
    spread = broadcast_in_dim(top, x.shape, kept_axes(x.ndim, axes))
    terms = exp_p.bind1(sub_p.bind1(x, convert(spread, x.dtype)))
    if factors is not None:
        # By scale_p, as an element with factor 0 may be far above the maximum of the others.
        terms = scale_p.bind1(terms, factors)
    total = reduce_sum_p.bind1(terms, axes=axes)
    if return_sign:
        sign = restore_axes(sign_p.bind1(total), x, axes, keepdims)
        y = add_p.bind1(log_p.bind1(abs_p.bind1(total)), top)
        y = restore_axes(y, x, axes, keepdims)
        return convert(y, dtypes.real_part_dtype(result)), convert(sign, result)
    y = add_p.bind1(log_p.bind1(total), convert(top, total.dtype))
    return convert(restore_axes(y, x, axes, keepdims), result)
