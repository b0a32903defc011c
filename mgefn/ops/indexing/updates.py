"""x.at[index].set(v) and its kin: a copy of x with some elements changed.

Known values are updated by NumPy on a copy. Otherwise one scatter does it, or, for slices in one
piece, dynamic_update_slice. Updates out of bounds are dropped; values are cast to the dtype of x,
but where integers are divided.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.core.array import ConcreteArray, as_array, scalar
from mgefn.core.array_methods import METHODS, Array, ArrayLike, method
from mgefn.core.avals import ShapedArray
from mgefn.core.interpreter import quietly, state
from mgefn.core.primitive import Primitive
from mgefn.errors import ShapeError, api_boundary
from mgefn.ops.elementwise import convert, power, real_p, true_divide
from mgefn.ops.indexing.gather import (
    CLIP,
    GatherScatterMode,
    ScatterDimensionNumbers,
    check_ordered,
    scatter_add_p,
    scatter_max_p,
    scatter_min_p,
    scatter_mul_p,
    scatter_p,
)
from mgefn.ops.indexing.numpy_index import (
    _NOT_KNOWN,
    Plan,
    ScalarEntry,
    SliceEntry,
    index_get,
    known_index,
    parsed_index,
    plan,
)
from mgefn.ops.indexing.slices import dynamic_update_slice_p, index_dtype
from mgefn.ops.shaping import broadcast_to_shape, full_like_aval, reshape

_UFUNCS: dict[Primitive, Any] = {
    scatter_p: None,
    scatter_add_p: np.add,
    scatter_mul_p: np.multiply,
    scatter_min_p: np.minimum,
    scatter_max_p: np.maximum,
}


def _update(
    primitive: Primitive, x: ArrayLike, index: Any, values: ArrayLike, is_sorted: bool,
    unique: bool, mode: Any, wrap: bool,
) -> Any:  # fmt: skip
    a = as_array(x, primitive.name)
    v = _as_values(values)
    parsed_mode = GatherScatterMode.from_any(mode)
    dtype, weak = a.dtype, a.weak_type
    if primitive is scatter_min_p or primitive is scatter_max_p:
        check_ordered(primitive.name, a.aval if dtypes.is_complex(dtype) else v.aval)
    if primitive is not scatter_p and v.dtype != dtype:
        # Arithmetic happens in the common dtype, and its result is cast back.
        common = dtypes.result_type(a, v)
        if common != dtype:
            wide = _update(primitive, convert(a, common), index, convert(v, common), is_sorted,
                           unique, mode, wrap)  # fmt: skip
            return _cast(wide, dtype, weak)
    v = _cast(v, dtype, False)
    eager = wrap and state.current is None
    if eager and isinstance(a, ConcreteArray) and isinstance(v, ConcreteArray):
        out = _known_update(primitive, a, index, v, parsed_mode)
        if out is not None:
            return out
    parsed = parsed_index(a, index, primitive.name)
    if primitive is scatter_p and not parsed.advanced:
        out = _update_one_piece(a, parsed.entries, v, wrap)
        if out is not None:
            return convert(out, dtype, weak)
    p = plan(a, parsed, primitive.name, wrap)
    u = reshape(_broadcast_values(primitive.name, v, p), p.shape)
    if 0 in p.shape or 0 in a.shape:
        return a
    out = primitive.bind1(
        a,
        p.indices,
        u,
        dimension_numbers=ScatterDimensionNumbers(p.window_dims, p.left_out, p.columns),
        mode=parsed_mode,
        indices_are_sorted=bool(is_sorted),
        unique_indices=bool(unique) or p.unique,
    )
    return convert(out, dtype, weak)


def _as_values(values: Any) -> Any:
    return METHODS["asarray"](values) if isinstance(values, (list, tuple)) else as_array(values)


def _products(a: Any, index: Any, v: Any, *how: Any) -> Any:
    """For each element of a the product of the values at its index, 1 where there are none."""
    ones = full_like_aval(1, ShapedArray(a.shape, v.dtype))
    return _update(scatter_mul_p, ones, index, v, *how)


def _cast(v: Any, dtype: np.dtype, weak: bool) -> Any:
    if dtypes.is_complex(v.dtype) and not dtypes.is_complex(dtype):
        v = real_p.bind1(v)
    return convert(v, dtype, weak)


def _broadcast_values(name: str, v: Any, p: Plan) -> Any:
    shape = p.full_shape
    # As NumPy does, leading dimensions of size 1 beyond the index's rank are dropped.
    extra = v.ndim - len(shape)
    if extra > 0 and all(n == 1 for n in v.shape[:extra]):
        v = reshape(v, v.shape[extra:])
    if v.ndim > len(shape) or any(
        n not in (1, m) for n, m in zip(v.shape[::-1], shape[::-1], strict=False)
    ):
        raise ShapeError(
            f"{name}: the values must broadcast to the shape {shape} of the index, got {v.aval}. "
            "Reshape them."
        )
    return broadcast_to_shape(v, shape)


def _known_update(
    primitive: Primitive, x: ConcreteArray, index: Any, v: ConcreteArray, mode: GatherScatterMode
) -> Any:
    """The update by NumPy; None where the general way must decide."""
    if mode is CLIP:
        return None
    ufunc = _UFUNCS[primitive]
    data, values = x._data, v._data
    if ufunc is not None and data.dtype.itemsize <= 2 and data.dtype.kind in "fV":
        return None  # sums of narrow floats are taken in float32
    known = known_index(index)
    if known is _NOT_KNOWN:
        return None
    out = np.array(data)
    try:
        if ufunc is None:
            quietly(out.__setitem__, known, values)
        elif any(isinstance(i, np.ndarray) and i.ndim for i in known):
            quietly(ufunc.at, out, known, values)
        else:
            part = out[(*known, ...) if Ellipsis not in known else known]
            if not isinstance(part, np.ndarray) or not np.may_share_memory(part, out):
                quietly(ufunc.at, out, known, values)
            else:
                quietly(ufunc, part, values, out=part)
    except (IndexError, OverflowError, ValueError, TypeError):
        return None  # out of bounds is dropped, and the general way words the errors
    return ConcreteArray(out, x._weak)


def _update_one_piece(x: Any, entries: list, v: Any, wrap: bool) -> Any:
    """The update of one contiguous box at a known place; None where the index is another."""
    starts, sizes, shape = [0] * x.ndim, list(x.shape), []
    for e in entries:
        if e is None:
            shape.append(1)
            continue
        if isinstance(e, ScalarEntry):
            if not isinstance(e.index, int):
                return None
            i = e.index + x.shape[e.dim] if wrap and e.index < 0 else e.index
            if not 0 <= i < x.shape[e.dim]:
                return None
            starts[e.dim], sizes[e.dim] = i, 1
        elif isinstance(e, SliceEntry):
            if e.step != 1 and e.size > 1:
                return None
            starts[e.dim], sizes[e.dim] = e.start, e.size
            shape.append(e.size)
    box = Plan(tuple(shape), tuple(shape), (), (), (), tuple(sizes), None, True)
    u = reshape(_broadcast_values("set", v, box), tuple(sizes))
    if 0 in sizes:
        return x
    dtype = index_dtype(x.shape)
    return dynamic_update_slice_p.bind1(x, u, *(scalar(s, dtype) for s in starts))


@method("index_set")
@api_boundary
def index_set(
    x: ArrayLike, index: Any, values: ArrayLike, indices_are_sorted: bool = False,
    unique_indices: bool = False, mode: Any = None, wrap_negative_indices: bool = True,
) -> Array:  # fmt: skip
    """A copy of x after x[index] = values; of values for one place the last known stays."""
    return _update(scatter_p, x, index, values, indices_are_sorted, unique_indices, mode,
                   wrap_negative_indices)  # fmt: skip


@method("index_add")
@api_boundary
def index_add(
    x: ArrayLike, index: Any, values: ArrayLike, indices_are_sorted: bool = False,
    unique_indices: bool = False, mode: Any = None, wrap_negative_indices: bool = True,
) -> Array:  # fmt: skip
    """A copy of x after x[index] += values, repeated indices added up."""
    return _update(scatter_add_p, x, index, values, indices_are_sorted, unique_indices, mode,
                   wrap_negative_indices)  # fmt: skip


@method("index_subtract")
@api_boundary
def index_subtract(
    x: ArrayLike, index: Any, values: ArrayLike, indices_are_sorted: bool = False,
    unique_indices: bool = False, mode: Any = None, wrap_negative_indices: bool = True,
) -> Array:  # fmt: skip
    """A copy of x after x[index] -= values, repeated indices added up."""
    v = _as_values(values)
    return _update(scatter_add_p, x, index, -v, indices_are_sorted, unique_indices, mode,
                   wrap_negative_indices)  # fmt: skip


@method("index_multiply")
@api_boundary
def index_multiply(
    x: ArrayLike, index: Any, values: ArrayLike, indices_are_sorted: bool = False,
    unique_indices: bool = False, mode: Any = None, wrap_negative_indices: bool = True,
) -> Array:  # fmt: skip
    """A copy of x after x[index] *= values, repeated indices multiplied."""
    return _update(scatter_mul_p, x, index, values, indices_are_sorted, unique_indices, mode,
                   wrap_negative_indices)  # fmt: skip


@method("index_divide")
@api_boundary
def index_divide(
    x: ArrayLike, index: Any, values: ArrayLike, indices_are_sorted: bool = False,
    unique_indices: bool = False, mode: Any = None, wrap_negative_indices: bool = True,
) -> Array:  # fmt: skip
    """A copy of x after x[index] /= values; repeated divisors multiply.

    It has the dtype of x, or that of a quotient where x holds integers or truth values.
    """
    a = as_array(x, "divide")
    v = _as_values(values)
    common = dtypes.to_inexact(dtypes.result_type(a, v))
    divisor = _products(a, index, convert(v, common), indices_are_sorted, unique_indices, mode,
                        wrap_negative_indices)  # fmt: skip
    return _cast(true_divide(a, divisor), dtypes.to_inexact(a.dtype), a.weak_type)


@method("index_power")
@api_boundary
def index_power(
    x: ArrayLike, index: Any, values: ArrayLike, indices_are_sorted: bool = False,
    unique_indices: bool = False, mode: Any = None, wrap_negative_indices: bool = True,
) -> Array:  # fmt: skip
    """A copy of x after x[index] **= values; repeated exponents multiply."""
    how = indices_are_sorted, unique_indices, mode
    a = as_array(x, "power")
    v = _as_values(values)
    if 0 in a.shape:
        return a
    if not unique_indices and parsed_index(a, index, "power").advanced:
        if v.weak_type:
            v = convert(v, dtypes.result_type(a, v))
        exponents = _products(a, index, v, *how, wrap_negative_indices)
        v = index_get(exponents, index, *how, None, wrap_negative_indices)
    old = index_get(a, index, *how, None, wrap_negative_indices)
    return _update(scatter_p, a, index, power(old, v), *how, wrap_negative_indices)


@method("index_min")
@api_boundary
def index_min(
    x: ArrayLike, index: Any, values: ArrayLike, indices_are_sorted: bool = False,
    unique_indices: bool = False, mode: Any = None, wrap_negative_indices: bool = True,
) -> Array:  # fmt: skip
    """A copy of x after the smaller of x[index] and values."""
    return _update(scatter_min_p, x, index, values, indices_are_sorted, unique_indices, mode,
                   wrap_negative_indices)  # fmt: skip


@method("index_max")
@api_boundary
def index_max(
    x: ArrayLike, index: Any, values: ArrayLike, indices_are_sorted: bool = False,
    unique_indices: bool = False, mode: Any = None, wrap_negative_indices: bool = True,
) -> Array:  # fmt: skip
    """A copy of x after the larger of x[index] and values."""
    return _update(scatter_max_p, x, index, values, indices_are_sorted, unique_indices, mode,
                   wrap_negative_indices)  # fmt: skip


@method("index_apply")
@api_boundary
def index_apply(
    x: ArrayLike, index: Any, func: Callable[[Array], Array], indices_are_sorted: bool = False,
    unique_indices: bool = False, mode: Any = None, wrap_negative_indices: bool = True,
) -> Array:  # fmt: skip
    """A copy of x with func applied to x[index]; a repeated index is applied once."""
    a = as_array(x, "apply")
    if 0 in a.shape:
        return a
    old = index_get(a, index, indices_are_sorted, unique_indices, mode, None,
                    wrap_negative_indices)  # fmt: skip
    return _update(scatter_p, a, index, func(old), indices_are_sorted, unique_indices, mode,
                   wrap_negative_indices)  # fmt: skip
