"""Slices whose start is a traced value: dynamic_slice and dynamic_update_slice.

The sizes are static and the starts are operands, clamped so that the slice lies inside the array.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.core.array import as_array, scalar
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.core.avals import ShapedArray, Zero, is_undefined
from mgefn.core.device_array import is_on_device
from mgefn.core.primitive import Primitive
from mgefn.core.tracer import Tracer
from mgefn.errors import ArgumentError, DTypeError, IndexOutOfBoundsError, ShapeError, api_boundary
from mgefn.ops.elementwise import convert, promoted, where
from mgefn.ops.indexing.gather import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    batch_gather,
    batch_scatter,
    gather_p,
)
from mgefn.ops.shaping import (
    concatenate_p,
    moveaxis,
    normalize_axis,
    reshape,
    slice_in_dim,
    zeros,
)

INT32 = np.dtype(np.int32)

# operands: the array, then one integer of rank 0 for each dimension; params: slice_sizes
dynamic_slice_p = Primitive("dynamic_slice", weak_result=False, moves=True)


def start_scalars(
    name: str, shape: tuple[int, ...], start_indices: Any, wrap: bool | Sequence[bool]
) -> list[Any]:
    """One integer of rank 0 for each dimension; negative ones count from the end where `wrap`."""
    if isinstance(start_indices, (Array, np.ndarray)):
        vector = as_array(start_indices, name)
        if vector.ndim != 1:
            raise ShapeError(
                f"{name}: start_indices must have rank 1 or be a sequence of scalars, got "
                f"{vector.aval}."
            )
        start_indices = [vector[i] for i in range(vector.shape[0])]
    if len(start_indices) != len(shape):
        raise ShapeError(
            f"{name}: needs one start index for each of the {len(shape)} dimensions, got "
            f"{len(start_indices)}."
        )
    wraps = tuple(wrap) if isinstance(wrap, Sequence) else (wrap,) * len(shape)
    if len(wraps) != len(shape):
        raise ShapeError(
            f"{name}: needs one bool of allow_negative_indices for each of the {len(shape)} "
            f"dimensions, got {len(wraps)}. Pass one bool for all."
        )
    columns = zip(start_indices, shape, wraps, strict=True)
    return [_start_scalar(name, i, n, bool(w)) for i, n, w in columns]


def _start_scalar(name: str, index: Any, size: int, wrap: bool) -> Any:
    if index.__class__ is int or isinstance(index, np.integer):
        i = int(index)
        i = i + size if i < 0 and wrap else i
        # Clamping ends at the size, so a huge start may be cut here to fit its dtype.
        return scalar(min(max(i, -1), max(size, 1)), index_dtype((size,)))
    x = as_array(index, name)
    if x.shape or not dtypes.is_integer(x.dtype):
        raise DTypeError(
            f"{name}: a start index must be an integer of rank 0, got {x.aval}. Cast it, or pass "
            "one scalar for each dimension."
        )
    if not isinstance(x, Tracer) and not is_on_device(x):
        return _start_scalar(name, int(x), size, wrap)
    return wrapped(x, size, wrap)


def index_dtype(shape: Sequence[int]) -> np.dtype:
    """The integer dtype that holds every index of a shape."""
    return INT32 if max(shape, default=0) < 2**31 - 1 else np.dtype(np.int64)


def within_int64(index: Any) -> Any:
    """A known index in int64: what is beyond that is out of bounds anyway."""
    if index.dtype == np.uint64:
        index = np.minimum(index, np.uint64(2**63 - 1))
    return index.astype(np.int64)


def wrapped(index: Any, size: int, wrap: bool = True) -> Any:
    """A traced index in int32 or, if need be, int64.

    wrap: negative values count from the end; they stay else.
    """
    if index.dtype.itemsize < 4 or index.dtype == np.uint32:
        index = convert(index, INT32 if index.dtype.itemsize < 4 else np.dtype(np.int64))
    elif index.dtype == np.uint64:
        # Beyond int64 every index is out of bounds anyway.
        index = convert(
            where(index > np.uint64(2**63 - 1), np.uint64(2**63 - 1), index), np.dtype(np.int64)
        )
    if not wrap:
        return index
    if size > np.iinfo(index.dtype).max:
        index = convert(index, np.dtype(np.int64))
    return where(index < 0, index + scalar(size, index.dtype), index)


@api_boundary
def dynamic_slice(
    operand: ArrayLike,
    start_indices: ArrayLike | Sequence[ArrayLike],
    slice_sizes: Sequence[int],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """A slice of static size whose start may be traced.

    Args:
        operand: an array.
        start_indices: an integer for each dimension, as a vector or a sequence of scalars.
            Negative ones count from the end; then each is clamped to [0, size - slice size].
        slice_sizes: the size of the slice in each dimension, at most operand's.
        allow_negative_indices: for each dimension or for all, whether negative ones count from the
            end; they are clamped to 0 else.
    Raises:
        ShapeError: a slice size is larger than its dimension.
    Example:
        >>> mgefn.lax.dynamic_slice(mgefn.numpy.arange(5), (3,), (3,))
        Array([2, 3, 4], dtype=int32)
    """
    x = as_array(operand, "dynamic_slice")
    starts = start_scalars("dynamic_slice", x.shape, start_indices, allow_negative_indices)
    return dynamic_slice_p.bind1(x, *starts, slice_sizes=tuple(map(operator.index, slice_sizes)))


def _check_starts(name: str, x: ShapedArray, starts: Sequence[ShapedArray]) -> None:
    if len(starts) != x.ndim:
        raise ShapeError(f"{name}: needs {x.ndim} start indices for {x}, got {len(starts)}.")
    for s in starts:
        if s.shape or not dtypes.is_integer(s.dtype):
            raise DTypeError(f"{name}: a start index must be an integer of rank 0, got {s}.")


@dynamic_slice_p.def_abstract_eval
def _dynamic_slice_abstract_eval(x: ShapedArray, *starts: ShapedArray, slice_sizes):
    _check_starts("dynamic_slice", x, starts)
    if len(slice_sizes) != x.ndim or any(
        not 0 <= n <= d for n, d in zip(slice_sizes, x.shape, strict=False)
    ):
        raise ShapeError(
            f"dynamic_slice: needs a slice size in [0, size] for each dimension of {x}, got "
            f"{slice_sizes}."
        )
    return (ShapedArray(slice_sizes, x.dtype),)


@dynamic_slice_p.def_jvp(symbolic_zeros=True)
def _dynamic_slice_jvp(primals, tangents, *, slice_sizes):
    x, *starts = primals
    out = dynamic_slice_p.bind1(x, *starts, slice_sizes=slice_sizes)
    x_dot = tangents[0]
    if x_dot.__class__ is Zero:
        return (out,), (Zero(out.aval),)
    return (out,), dynamic_slice_p.bind(x_dot, *starts, slice_sizes=slice_sizes)


@dynamic_slice_p.def_transpose
def _dynamic_slice_transpose(cts, x, *starts, slice_sizes):
    (ct,) = cts
    back = dynamic_update_slice_p.bind1(zeros(ShapedArray(x.aval.shape, ct.dtype)), ct, *starts)
    return (back, *(None for _ in starts))


@dynamic_slice_p.def_batch
def _dynamic_slice_batch(args, bdims, *, slice_sizes):
    x, *starts = args
    bdim, *start_bdims = bdims
    if all(b is None for b in start_bdims):
        starts.insert(bdim, scalar(0, INT32))
        sizes = (*slice_sizes[:bdim], x.shape[bdim], *slice_sizes[bdim:])
        return dynamic_slice_p.bind(x, *starts, slice_sizes=sizes), (bdim,)
    ndim = len(starts)
    numbers = GatherDimensionNumbers(tuple(range(ndim)), (), tuple(range(ndim)))
    return batch_gather(
        (x, _stacked_starts(starts, start_bdims)),
        (bdim, 0),
        dimension_numbers=numbers,
        slice_sizes=slice_sizes,
        indices_are_sorted=True,
        unique_indices=True,
        mode=GatherScatterMode.CLIP,
        fill_value=None,
    )


def _stacked_starts(starts: Sequence[Any], bdims: Sequence[int | None]) -> Any:
    """Batched start indices as the rows of a matrix."""
    size = next(s.shape[0] for s, b in zip(starts, bdims, strict=True) if b is not None)
    wide = any(s.dtype.itemsize == 8 or s.dtype == np.uint32 for s in starts)
    dtype = np.dtype(np.int64) if wide else INT32
    columns = []
    for s, b in zip(starts, bdims, strict=True):
        s = convert(s, dtype)
        columns.append(reshape(s, (size, 1)) if b is not None else s.reshape(1, 1))
    full = [c if c.shape[0] == size else _repeated(c, size) for c in columns]
    return concatenate_p.bind1(*full, dimension=1)


def _repeated(column: Any, size: int) -> Any:
    from_row = reshape(column, (1,))
    return reshape(from_row + zeros(ShapedArray((size,), column.dtype)), (size, 1))


# operands: the array, the update, then one integer of rank 0 for each dimension
dynamic_update_slice_p = Primitive("dynamic_update_slice", weak_result=False, moves=True)


@api_boundary
def dynamic_update_slice(
    operand: ArrayLike,
    update: ArrayLike,
    start_indices: ArrayLike | Sequence[ArrayLike],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Array:
    """A copy of an array with a slice replaced, whose start may be traced.

    Args:
        operand: an array.
        update: what to write, of operand's rank and dtype and at most its size.
        start_indices: as for `dynamic_slice`, clamped so that all of the update is written.
        allow_negative_indices: as for `dynamic_slice`.
    """
    x, u = as_array(operand, "dynamic_update_slice"), as_array(update, "dynamic_update_slice")
    if u.dtype != x.dtype and u.weak_type:
        u = convert(u, x.dtype)
    starts = start_scalars("dynamic_update_slice", x.shape, start_indices, allow_negative_indices)
    return dynamic_update_slice_p.bind1(x, u, *starts)


@dynamic_update_slice_p.def_abstract_eval
def _dynamic_update_slice_abstract_eval(x: ShapedArray, u: ShapedArray, *starts: ShapedArray):
    _check_starts("dynamic_update_slice", x, starts)
    if u.dtype != x.dtype:
        raise DTypeError(
            f"dynamic_update_slice: the update must have the operand's dtype, got {x} and {u}. "
            "Cast it with astype."
        )
    if u.ndim != x.ndim or any(n > d for n, d in zip(u.shape, x.shape, strict=True)):
        raise ShapeError(
            f"dynamic_update_slice: the update must have the operand's rank and fit into it, got "
            f"{x} and {u}."
        )
    return (ShapedArray(x.shape, x.dtype),)


@dynamic_update_slice_p.def_jvp(symbolic_zeros=True)
def _dynamic_update_slice_jvp(primals, tangents):
    x, u, *starts = primals
    out = dynamic_update_slice_p.bind1(x, u, *starts)
    x_dot, u_dot = tangents[:2]
    if x_dot.__class__ is Zero and u_dot.__class__ is Zero:
        return (out,), (Zero(out.aval),)
    x_dot = zeros(x.aval) if x_dot.__class__ is Zero else x_dot
    u_dot = zeros(u.aval) if u_dot.__class__ is Zero else u_dot
    return (out,), dynamic_update_slice_p.bind(x_dot, u_dot, *starts)


@dynamic_update_slice_p.def_transpose
def _dynamic_update_slice_transpose(cts, x, u, *starts):
    (ct,) = cts
    shape = u.aval.shape
    x_ct = u_ct = None
    if is_undefined(x):
        hole = zeros(ShapedArray(shape, ct.dtype))
        x_ct = dynamic_update_slice_p.bind1(ct, hole, *starts)
    if is_undefined(u):
        u_ct = dynamic_slice_p.bind1(ct, *starts, slice_sizes=shape)
    return (x_ct, u_ct, *(None for _ in starts))


@dynamic_update_slice_p.def_batch
def _dynamic_update_slice_batch(args, bdims):
    x, u, *starts = args
    bdim, u_bdim, *start_bdims = bdims
    if all(b is None for b in start_bdims) and bdim is not None and u_bdim is not None:
        starts.insert(bdim, scalar(0, INT32))
        return dynamic_update_slice_p.bind(x, moveaxis(u, u_bdim, bdim), *starts), (bdim,)
    ndim = len(starts)
    numbers = ScatterDimensionNumbers(tuple(range(ndim)), (), tuple(range(ndim)))
    if all(b is None for b in start_bdims):
        vector = [reshape(convert(s, INT32), (1,)) for s in starts]
        indices = concatenate_p.bind1(*vector, dimension=0) if ndim else zeros(_NO_INDEX)
        indices_bdim = None
    else:
        indices, indices_bdim = _stacked_starts(starts, start_bdims), 0
    return batch_scatter(
        (x, indices, u),
        (bdim, indices_bdim, u_bdim),
        dimension_numbers=numbers,
        indices_are_sorted=True,
        unique_indices=True,
        mode=GatherScatterMode.CLIP,
    )


_NO_INDEX = ShapedArray((0,), INT32)


# -- along one axis -------------------------------------------------------------------------------


def _starts_at(x: Any, axis: int, index: Any) -> list[Any]:
    return [index if i == axis else 0 for i in range(x.ndim)]


@api_boundary
def dynamic_slice_in_dim(
    operand: ArrayLike,
    start_index: ArrayLike,
    slice_size: int,
    axis: int = 0,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """`dynamic_slice` along one axis, whole in the others."""
    x = as_array(operand, "dynamic_slice_in_dim")
    i = normalize_axis("dynamic_slice_in_dim", axis, x.ndim)
    sizes = [slice_size if j == i else n for j, n in enumerate(x.shape)]
    starts = _starts_at(x, i, start_index)
    return dynamic_slice(x, starts, sizes, allow_negative_indices=allow_negative_indices)


@api_boundary
def dynamic_update_slice_in_dim(
    operand: ArrayLike,
    update: ArrayLike,
    start_index: ArrayLike,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """`dynamic_update_slice` along one axis, from 0 in the others."""
    x = as_array(operand, "dynamic_update_slice_in_dim")
    i = normalize_axis("dynamic_update_slice_in_dim", axis, x.ndim)
    starts = _starts_at(x, i, start_index)
    return dynamic_update_slice(x, update, starts, allow_negative_indices=allow_negative_indices)


@api_boundary
def dynamic_index_in_dim(
    operand: ArrayLike,
    index: ArrayLike,
    axis: int = 0,
    keepdims: bool = True,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """The element at a (possibly traced, clamped) index along an axis."""
    x = as_array(operand, "dynamic_index_in_dim")
    i = normalize_axis("dynamic_index_in_dim", axis, x.ndim)
    out = dynamic_slice_in_dim(x, index, 1, i, allow_negative_indices=allow_negative_indices)
    return out if keepdims else reshape(out, x.shape[:i] + x.shape[i + 1 :])


@api_boundary
def dynamic_update_index_in_dim(
    operand: ArrayLike,
    update: ArrayLike,
    index: ArrayLike,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """A copy with the element at a (possibly traced, clamped) index along an axis replaced.

    Args:
        operand: an array.
        update: the new element, with a size-1 dimension at axis or without it.
    """
    x = as_array(operand, "dynamic_update_index_in_dim")
    u = as_array(update, "dynamic_update_index_in_dim")
    i = normalize_axis("dynamic_update_index_in_dim", axis, x.ndim)
    if u.ndim != x.ndim:
        if u.ndim + 1 != x.ndim:
            raise ShapeError(
                f"dynamic_update_index_in_dim: the update must have the operand's rank or one "
                f"less, got {x.aval} and {u.aval}."
            )
        u = reshape(u, (*u.shape[:i], 1, *u.shape[i:]))
    return dynamic_update_slice_in_dim(
        x, u, index, i, allow_negative_indices=allow_negative_indices
    )


@api_boundary
def index_in_dim(operand: ArrayLike, index: int, axis: int = 0, keepdims: bool = True) -> Array:
    """The element at a static index along an axis.

    Raises:
        IndexOutOfBoundsError: index is outside [-size, size).
    """
    x = as_array(operand, "index_in_dim")
    a = normalize_axis("index_in_dim", axis, x.ndim)
    i, n = operator.index(index), x.shape[a]
    if not -n <= i < n:
        raise IndexOutOfBoundsError(
            f"index_in_dim: index {i} is out of bounds for axis {a} of {x.aval}."
        )
    i = i + n if i < 0 else i
    out = slice_in_dim(x, i, i + 1, 1, a)
    return out if keepdims else reshape(out, x.shape[:a] + x.shape[a + 1 :])


@api_boundary
def index_take(src: ArrayLike, idxs: ArrayLike | Sequence[ArrayLike], axes: Sequence[int]) -> Array:
    """The elements at index vectors along several axes; the index dimension comes first.

    Args:
        src: an array.
        idxs: one vector of indices for each of axes.
        axes: dimensions of src.
    """
    x = as_array(src, "index_take")
    vectors = [promoted("index_take", (i,))[0] for i in idxs]
    if len(vectors) != len(axes):
        raise ArgumentError(
            f"index_take: needs one index vector for each axis, got {len(vectors)} for {axes}."
        )
    at = [normalize_axis("index_take", a, x.ndim) for a in axes]
    n = vectors[0].shape[0]
    columns = [reshape(wrapped(v, x.shape[a]), (n, 1)) for v, a in zip(vectors, at, strict=True)]
    wide = any(c.dtype.itemsize == 8 for c in columns)
    columns = [convert(c, np.dtype(np.int64) if wide else INT32) for c in columns]
    kept = [i for i in range(x.ndim) if i not in at]
    return gather_p.bind1(
        x,
        concatenate_p.bind1(*columns, dimension=1),
        dimension_numbers=GatherDimensionNumbers(
            tuple(range(1, len(kept) + 1)), tuple(sorted(at)), tuple(at)
        ),
        slice_sizes=tuple(1 if i in at else m for i, m in enumerate(x.shape)),
        indices_are_sorted=False,
        unique_indices=False,
        mode=GatherScatterMode.CLIP,
        fill_value=None,
    )
