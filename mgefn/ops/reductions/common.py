"""What the reductions share: their primitives' rules, axes, masks, initial values, dtypes.

A reduction's primitive takes `axes`, increasing and in [0, ndim), and drops these dimensions; its
rules for types and batches are the ones made here. The public functions read their arguments
through `operand_of`, `mask_of` and `normalize_axes`, and put the reduced dimensions back, with
size 1, by `restore_axes`.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.core.array import ConcreteArray, scalar
from mgefn.core.array_methods import Array, ArrayLike, DTypeLike
from mgefn.core.avals import ShapedArray
from mgefn.core.interpreter import state
from mgefn.core.primitive import Primitive
from mgefn.errors import ArgumentError, DTypeError, ShapeError
from mgefn.ops.elementwise import astype, promoted, select_n_p
from mgefn.ops.shaping import broadcast_to_shape, normalize_axes, reshape, result_shape

BOOL = np.dtype(bool)


# -- what the primitives share --------------------------------------------------------------------


def dropped(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape without the dimensions in `axes`."""
    return tuple([n for i, n in enumerate(shape) if i not in axes])


def kept_axes(ndim: int, axes: tuple[int, ...]) -> tuple[int, ...]:
    """The dimensions that are not in `axes`."""
    return tuple([i for i in range(ndim) if i not in axes])


def check_axes(name: str, x: ShapedArray, axes: tuple[int, ...]) -> None:
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
        check_axes(name, x, axes)
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


def is_number(dtype: np.dtype) -> bool:
    return not dtypes.is_bool(dtype)


def is_logical(dtype: np.dtype) -> bool:
    return dtypes.is_bool(dtype) or dtypes.is_integer(dtype)


def is_any(dtype: np.dtype) -> bool:
    return True


# -- reductions by axes, as in jax.lax ------------------------------------------------------------


def by_axes(primitive: Primitive, operand: ArrayLike, axes: Sequence[int]) -> Array:
    x = operand_of(primitive.name, operand)
    return checked(primitive, x, axes=normalize_axes(primitive.name, tuple(axes), x.ndim))


def checked(primitive: Primitive, x: Any, **params: Any) -> Any:
    """Bind a primitive of one operand; evaluation alone would not look at types."""
    if state.current is None:
        primitive.out_avals((x.aval,), params)
    return primitive.bind1(x, **params)


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
SUMMABLE = frozenset(map(np.dtype, ("float32", "float64", "complex64", "complex128")))
COMPARABLE = frozenset(np.dtype(c) for c in "?bBhHiIlLqQefd")
SMALL = 4096


def quick(reduce: Any, data: np.ndarray, axis: Any, keepdims: bool) -> Any:
    """What a NumPy reduction gives, or None where it fails and the careful way must tell why."""
    try:
        out = state.quiet(reduce, data, axis, None, None, keepdims)
    except (RuntimeError, ValueError):
        return None
    return ConcreteArray(out if out.__class__ is np.ndarray else np.asarray(out))
