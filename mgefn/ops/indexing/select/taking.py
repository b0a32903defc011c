"""take and take_along_axis: elements read at an array of indices, by one gather.

Negative indices count from the end; what an index out of bounds means is `mode`. Indices whose
values are known are wrapped in NumPy, so that the program holds the wrapped ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mgefn.core.array import ConcreteArray
from mgefn.core.array_methods import Array, ArrayLike, method
from mgefn.core.avals import ShapedArray
from mgefn.core.interpreter import state
from mgefn.errors import ArgumentError, IndexOutOfBoundsError, ShapeError, api_boundary
from mgefn.ops.elementwise import convert, remainder
from mgefn.ops.indexing.gather import (
    CLIP,
    FILL,
    PROMISE,
    GatherDimensionNumbers,
    GatherScatterMode,
    fill_param,
    gather_p,
)
from mgefn.ops.indexing.select.common import array_of, constant, integers_of, known, needed
from mgefn.ops.indexing.slices import index_dtype, within_int64, wrapped
from mgefn.ops.shaping import broadcast_to_shape, normalize_axis, reshape, result_shape, zeros


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
    x, i = array_of("take", a), integers_of("take", indices)
    if axis is None:
        x, at = reshape(x, (x.size,)), 0
    else:
        at = normalize_axis("take", axis, x.ndim)
    n = x.shape[at]
    shape = (*x.shape[:at], *i.shape, *x.shape[at + 1 :])
    if not n and i.size:
        raise IndexOutOfBoundsError(f"take: cannot take from the empty axis {at} of {x.aval}.")
    if mode == "raise":
        values = needed("take", i, "Use mode='fill', 'clip' or 'wrap'.")
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


def _wrapped_known(i: Any, n: int, wrap: bool = True) -> ConcreteArray:
    i = within_int64(i)
    i = np.where(i < 0, i + n, i) if wrap else i
    return constant(np.clip(i, -1, n).astype(index_dtype((n,))))


@api_boundary
def take_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    axis: int | None = -1,
    mode: str | GatherScatterMode | None = None,
    fill_value: Any = None,
    *,
    wrap_negative_indices: bool | None = None,
) -> Array:
    """For each index the element of its own row, as numpy.take_along_axis gives it.

    Args:
        arr: an array.
        indices: integers of arr's rank; the other dimensions broadcast with arr's.
        axis: the dimension that is indexed; None flattens arr.
        mode: "fill" (default), "clip" or "promise_in_bounds".
        fill_value: for "fill"; NaN, or the least integer, where not given.
        wrap_negative_indices: False takes negative indices for out of bounds; else they count from
            the end.
    """
    x, i = array_of("take_along_axis", arr), integers_of("take_along_axis", indices)
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    x, i, at = aligned_rows("take_along_axis", x, i, axis)
    if 0 in i.shape:
        return zeros(ShapedArray(i.shape, x.dtype))
    parsed = GatherScatterMode.from_any(mode)
    wrap = wrap_negative_indices is None or bool(wrap_negative_indices)
    _, rows, column, numbers = along(x, i, at, wrap)
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


def aligned_rows(name: str, x: Any, i: Any, axis: int) -> tuple[Any, Any, int]:
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


def along(x: Any, i: Any, at: int, wrap: bool = True) -> tuple:
    value = known(i)
    n = x.shape[at]
    i = wrapped(i, n, wrap) if value is None else _wrapped_known(value, n, wrap)
    rows = tuple(d for d in range(x.ndim) if d != at)
    return i, rows, reshape(i, (*i.shape, 1)), rows
