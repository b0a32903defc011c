"""x[index] by NumPy's rules, eager and traced.

Known values go straight to NumPy. Otherwise the index is parsed once into one entry for each
dimension (`parsed_index`): static integers and slices become slice, rev and reshape; traced scalars
dynamic_slice; arrays one gather. Reading with a traced index out of bounds clips; an index that is
known must be in bounds.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mgefn import dtypes
from mgefn.core.array import ConcreteArray, as_array, scalar
from mgefn.core.array_methods import Array, ArrayLike, method
from mgefn.core.avals import ShapedArray
from mgefn.core.device_array import DeviceArray, is_on_device
from mgefn.core.interpreter import state
from mgefn.core.tracer import Tracer
from mgefn.errors import (
    ArgumentError,
    DTypeError,
    IndexOutOfBoundsError,
    NonConcreteBooleanIndexError,
    TracerIntegerConversionError,
    api_boundary,
    leave_api,
)
from mgefn.ops.elementwise import convert
from mgefn.ops.indexing.gather import (
    CLIP,
    FILL,
    GatherDimensionNumbers,
    GatherScatterMode,
    fill_param,
    gather_p,
)
from mgefn.ops.indexing.slices import INT32, dynamic_slice_p, index_dtype, within_int64, wrapped
from mgefn.ops.shaping import (
    broadcast_to_shape,
    concatenate_p,
    reshape,
    rev,
    strided_slice,
    zeros,
)

_NEWAXIS = type(None)
_BASIC = frozenset((int, slice, _NEWAXIS, type(Ellipsis)))
_KEEPS_BASE = 1 << 16  # bytes; a small slice of a base larger than this is copied


# -- eager ----------------------------------------------------------------------------------------


@method("getitem")
def getitem(x: Array, index: Any) -> Array:
    """x[index], as NumPy has it: basic, boolean and integer-array indices in any mix.

    A view where NumPy gives one, except that a small part of a large array is copied, so that it
    does not keep the whole in memory.

    Raises:
        IndexOutOfBoundsError: a known index is out of bounds, or there are too many.
        NonConcreteBooleanIndexError: the index is a traced mask.
        DTypeError: the index is a list, a float, or of another wrong type.
    """
    try:
        if state.current is None and x.__class__ is ConcreteArray:
            cls = index.__class__
            if cls in _BASIC:
                known = index
            elif cls is tuple:
                for i in index:
                    if i.__class__ not in _BASIC:
                        known = known_index(index)
                        break
                else:
                    known = index
            else:
                known = known_index(index)
            if known is not _NOT_KNOWN:
                data: np.ndarray = x._data  # type: ignore[attr-defined]  # the class is checked above
                try:
                    part = data[known]
                except (IndexError, TypeError, ValueError) as e:
                    raise _as_ours(e, x.aval, index) from None
                if part.__class__ is not np.ndarray:
                    part = np.asarray(part)
                else:
                    base = part.base
                    if base is not None and part.nbytes * 8 < (
                        base.nbytes if base.__class__ is np.ndarray else data.nbytes
                    ):
                        whole = base.nbytes if base.__class__ is np.ndarray else data.nbytes
                        if whole > _KEEPS_BASE:
                            part = np.array(part)
                return ConcreteArray(part, x._weak)  # type: ignore[attr-defined]  # as above
        return _traced_getitem(x, index)
    except BaseException as e:
        leave_api(e)
        raise


class _NotKnown:
    """The result of `known_index` for an index with tracers."""


_NOT_KNOWN = _NotKnown()


def known_index(index: Any) -> Any:
    """The index for NumPy where all its parts are known; else _NOT_KNOWN."""
    if index.__class__ is not tuple:
        index = (index,) if not isinstance(index, list) else _refuse_list(index)
    out = []
    for i in index:
        if i.__class__ in _BASIC or i.__class__ is bool:
            out.append(i)
            continue
        if isinstance(i, Tracer) or is_on_device(i):
            return _NOT_KNOWN
        if i.__class__ is ConcreteArray:
            i = i._data
        elif isinstance(i, list):
            i = np.asarray(i)
            i = i.astype(np.intp) if not i.size else i
        elif isinstance(i, slice):
            out.append(i)
            continue
        elif not isinstance(i, (np.ndarray, np.generic)):
            if hasattr(i, "__index__"):
                i = np.asarray(operator.index(i))
            elif hasattr(i, "__array__"):
                i = np.asarray(i)
            else:
                raise wrong_index(i)
        if i.dtype.kind not in "iub":
            raise wrong_index(i)
        if i.dtype == np.uint64:  # NumPy takes what is beyond int64 for negative
            i = within_int64(i)
        out.append(i)
    return tuple(out)


def _refuse_list(index: list) -> Any:
    raise DTypeError(
        "getitem: a list is not an index here, because it is slow to convert and means either a "
        f"tuple or an array, got {index!r:.60}. Write x[tuple(index)] or x[array(index)]."
    )


def wrong_index(i: Any) -> DTypeError:
    shown = getattr(i, "dtype", type(i).__name__)
    return DTypeError(
        "getitem: an index must be an integer, a slice, None, Ellipsis, or an array of integers or "
        f"booleans, got {shown}. Cast it with astype."
    )


def _as_ours(e: Exception, aval: ShapedArray, index: Any) -> Exception:
    """NumPy's IndexError or TypeError as the one of this package."""
    if type(e).__module__.startswith("mgefn"):
        return e
    if isinstance(e, TypeError):
        return DTypeError(f"getitem: {e}, got {index!r:.80} for {aval}. Use integers.")
    if isinstance(e, ValueError):
        return ArgumentError(f"getitem: {e}, got {index!r:.80}. Use a step other than 0.")
    return IndexOutOfBoundsError(f"getitem: {e}, for {aval}. Index within [-size, size).")


# -- parsing --------------------------------------------------------------------------------------


class SliceEntry(NamedTuple):
    """start, step and number of elements in one dimension; step may be negative."""

    dim: int
    start: int
    step: int
    size: int


class ScalarEntry(NamedTuple):
    """A traced integer of rank 0, or an int in bounds or not."""

    dim: int
    index: Any


class ArrayEntry(NamedTuple):
    """Integers: a NumPy array that is known, or a tracer. dim None: a True or False."""

    dim: int | None
    index: Any


class ParsedIndex(NamedTuple):
    """One entry for each dimension, in order, with None for a new dimension.

    `entries` are in the order of the index; `advanced` says whether arrays take part, `first` the
    result dimension where their block stands; `unique` that the elements are distinct.
    """

    entries: list[SliceEntry | ScalarEntry | ArrayEntry | None]
    advanced: bool
    contiguous: bool
    unique: bool


def parsed_index(x: Any, index: Any, name: str = "getitem") -> ParsedIndex:
    """The index as one entry for each dimension of x."""
    if isinstance(index, list):
        _refuse_list(index)
    parts = list(index) if isinstance(index, tuple) else [index]
    parts = [_part(p) for p in parts]
    used = sum(_dims_used(p) for p in parts)
    ndim = x.ndim
    if used > ndim:
        raise IndexOutOfBoundsError(
            f"{name}: too many indices, got {used} for {x.aval} of rank {ndim}. Drop some."
        )
    n_ellipsis = sum(p is Ellipsis for p in parts)
    if n_ellipsis > 1:
        raise IndexOutOfBoundsError(f"{name}: an index may hold one Ellipsis, got {n_ellipsis}.")
    if not n_ellipsis:
        parts.append(Ellipsis)
    entries: list[Any] = []
    places: list[int] = []  # of the arrays and integers, to see whether they stand together
    dim = 0
    unique = True
    advanced = any(isinstance(p, (np.ndarray, Tracer, DeviceArray)) and _is_array(p) for p in parts)
    for place, p in enumerate(parts):
        if p is None:
            entries.append(None)
        elif p is Ellipsis:
            for _ in range(ndim - used):
                entries.append(SliceEntry(dim, 0, 1, x.shape[dim]))
                dim += 1
        elif isinstance(p, slice):
            entries.append(_slice_entry(p, dim, x.shape[dim]))
            dim += 1
        elif isinstance(p, int):
            entries.append(ScalarEntry(dim, p))
            places.append(place)
            dim += 1
        elif p.dtype == np.bool_:
            places.append(place)
            for found in _mask_indices(p, x, dim, name):
                entries.append(ArrayEntry(dim if p.ndim else None, found))
                dim += p.ndim > 0
        else:
            places.append(place)
            unique = unique and p.size <= 1
            entries.append(ScalarEntry(dim, p) if not p.shape else ArrayEntry(dim, p))
            dim += 1
    together = all(b - a == 1 for a, b in itertools.pairwise(places))
    n_masks = sum(isinstance(p, np.ndarray) and p.dtype == np.bool_ for p in parts)
    # Two masks, or a mask beside nothing else, name distinct elements; arrays may repeat.
    unique = unique and n_masks <= 1
    return ParsedIndex(entries, advanced, together, unique)


def _is_array(p: Any) -> bool:
    return bool(p.shape) or p.dtype == np.bool_


def _part(p: Any) -> Any:
    """A part of an index as int, slice, None, Ellipsis, known NumPy array or tracer."""
    if p is None or p is Ellipsis or p.__class__ is int:
        return p
    if isinstance(p, slice):
        return p
    if isinstance(p, Tracer):
        inner = p.concrete()
        p = p if inner is None else inner
        if isinstance(p, Tracer):
            if dtypes.is_bool(p.dtype):
                raise NonConcreteBooleanIndexError(
                    f"getitem: needs a known mask, got the traced {p.aval}, so the size of the "
                    "result is unknown. Use where(mask, x, y), or nonzero(mask, size=n)."
                )
            if not dtypes.is_integer(p.dtype):
                raise wrong_index(p)
            return p
    if isinstance(p, bool):
        return np.asarray(p)
    if isinstance(p, DeviceArray):
        if dtypes.is_bool(p.dtype):
            p = p.to_host("getitem")  # it decides the size of the result
        elif dtypes.is_integer(p.dtype):
            return p
    if isinstance(p, ConcreteArray):
        p = p._data
    elif isinstance(p, list):
        if any(isinstance(i, Tracer) for i in p):
            raise DTypeError(
                "getitem: a list of traced values is not an index. Write mgefn.numpy.stack(list)."
            )
        p = np.asarray(p)
        p = p.astype(np.intp) if not p.size else p
    elif not isinstance(p, (np.ndarray, np.generic)):
        if hasattr(p, "__index__"):
            return operator.index(p)
        if not hasattr(p, "__array__"):
            raise wrong_index(p)
        p = np.asarray(p)
    if p.dtype.kind not in "iub":
        raise wrong_index(p)
    if p.dtype.kind != "b" and not p.shape:
        return int(p)
    return np.asarray(p)


def _dims_used(p: Any) -> int:
    if p is None or p is Ellipsis:
        return 0
    if isinstance(p, np.ndarray) and p.dtype == np.bool_:
        return p.ndim
    return 1


def _slice_entry(s: slice, dim: int, size: int) -> SliceEntry:
    if any(isinstance(i, Tracer) and i.concrete() is None for i in (s.start, s.stop, s.step)):
        raise TracerIntegerConversionError(
            "getitem: start, stop and step of a slice must be known, got a traced value, so the "
            "size of the result is unknown. Use lax.dynamic_slice_in_dim(x, start, size), whose "
            "start may be traced."
        )
    try:
        start, stop, step = s.indices(size)
    except TypeError as e:
        raise DTypeError(f"getitem: {e}, got {s}. Use integers.") from None
    except ValueError as e:
        raise ArgumentError(f"getitem: {e}, got {s}. Use a step other than 0.") from None
    count = len(range(start, stop, step))
    return SliceEntry(dim, start if count else 0, step, count)


def _mask_indices(p: np.ndarray, x: Any, dim: int, name: str) -> tuple:
    if not p.ndim:
        return (np.zeros(int(p), np.int32),)
    shape = x.shape[dim : dim + p.ndim]
    if p.shape != shape:
        raise IndexOutOfBoundsError(
            f"{name}: a mask must have the shape {shape} of the dimensions it selects from in "
            f"{x.aval}, got {p.shape}."
        )
    return np.nonzero(p)


def check_known(name: str, i: Any, size: int, dim: int | None) -> None:
    """Raise where an index that is known is out of bounds."""
    if isinstance(i, int):
        low = high = i
    elif isinstance(i, np.ndarray) and i.size:
        low, high = int(i.min()), int(i.max())
    else:
        return
    if not (-size <= low and high < size):
        raise IndexOutOfBoundsError(
            f"{name}: index {low if low < -size else high} is out of bounds for axis {dim} with "
            f"size {size}. Index within [-size, size), or use x.at[index].get(mode='fill')."
        )


# -- traced ---------------------------------------------------------------------------------------


def _traced_getitem(x: Any, index: Any) -> Any:
    x = as_array(x, "getitem")
    parsed = parsed_index(x, index)
    for e in parsed.entries:
        if isinstance(e, (ScalarEntry, ArrayEntry)) and e.dim is not None:
            check_known("getitem", e.index, x.shape[e.dim], e.dim)
    out = _advanced(x, parsed) if parsed.advanced else _basic(x, parsed.entries)
    return convert(out, x.dtype, True) if x.weak_type and not out.weak_type else out


def _sliced(x: Any, entries: Sequence[Any]) -> Any:
    """x after the slices and the known scalars, whose dimensions stay with size 1."""
    starts, limits, steps = [0] * x.ndim, list(x.shape), [1] * x.ndim
    reverse = []
    for e in entries:
        if isinstance(e, SliceEntry):
            d, start, step, count = e
            last = start + (count - 1) * step
            if not count:
                starts[d] = limits[d] = 0
            elif step > 0:
                starts[d], limits[d], steps[d] = start, last + 1, step
            else:
                starts[d], limits[d], steps[d] = last, start + 1, -step
                if count > 1:
                    reverse.append(d)
            if count == 1:
                steps[d] = 1
        elif isinstance(e, ScalarEntry) and isinstance(e.index, int):
            i = e.index + x.shape[e.dim] if e.index < 0 else e.index
            starts[e.dim], limits[e.dim] = i, i + 1
    return rev(strided_slice(x, starts, limits, steps), reverse)


def _basic(x: Any, entries: Sequence[Any]) -> Any:
    traced = [e for e in entries if isinstance(e, ScalarEntry) and not isinstance(e.index, int)]
    shape: list[int] = []
    for e in entries:
        if e is None:
            shape.append(1)
        elif isinstance(e, SliceEntry):
            shape.append(e.size)
    if traced and 0 in (x.shape[e.dim] for e in traced):
        if 0 in shape:
            return zeros(ShapedArray(tuple(shape), x.dtype))
        check_known("getitem", 0, 0, traced[0].dim)
    out = _sliced(x, entries)
    if traced:
        dtype = index_dtype(x.shape)
        starts: list[Any] = [scalar(0, dtype)] * x.ndim
        sizes = list(out.shape)
        for e in traced:
            starts[e.dim] = wrapped(e.index, x.shape[e.dim])
            sizes[e.dim] = 1
        out = dynamic_slice_p.bind1(out, *starts, slice_sizes=tuple(sizes))
    return reshape(out, tuple(shape))


def as_indices(e: ScalarEntry | ArrayEntry, size: int, dtype: np.dtype, wrap: bool) -> Any:
    """Nonnegative where in bounds, in a dtype that all columns share.

    wrap: whether negative ones count from the end; they are out of bounds else.
    """
    i = e.index
    if isinstance(i, (int, np.ndarray)):
        if isinstance(i, int):
            i = np.asarray(min(max(i, -(2**63)), 2**63 - 1))
        known = within_int64(i)
        if wrap:
            known = np.where(known < 0, known + size, known)
        if dtype.itemsize == 4:
            # What is far out of bounds must stay so in the narrower dtype.
            known = np.clip(known, -(2**31), 2**31 - 1)
        return ConcreteArray(np.asarray(known, dtype))
    return convert(wrapped(i, size, wrap), dtype)


def columns_dtype(entries: Sequence[Any], shape: Sequence[int]) -> np.dtype:
    """int32, or int64 where a traced index is wide."""
    for e in entries:
        if isinstance(e, (ScalarEntry, ArrayEntry)) and isinstance(e.index, Array):
            dtype = e.index.dtype
            if dtype.itemsize == 8 or dtype == np.uint32:
                return np.dtype(np.int64)
    return index_dtype(shape)


def stacked(columns: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """Index arrays, broadcast to a shape, as the columns of gather's indices."""
    if not columns:
        return zeros(ShapedArray((*shape, 0), INT32))
    if all(c.__class__ is ConcreteArray for c in columns):
        known = np.stack([np.broadcast_to(c._data, shape) for c in columns], axis=-1)
        known.flags.writeable = False
        return ConcreteArray(known)
    parts = [reshape(broadcast_to_shape(c, shape), (*shape, 1)) for c in columns]
    return parts[0] if len(parts) == 1 else concatenate_p.bind1(*parts, dimension=len(shape))


def block_shape(name: str, entries: Sequence[Any]) -> tuple[int, ...]:
    """The shape that the index arrays broadcast to."""
    shapes = [e.index.shape for e in entries if isinstance(e, ArrayEntry)]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise IndexOutOfBoundsError(
            f"{name}: index arrays must broadcast together, got the shapes "
            f"{' and '.join(map(str, shapes))}."
        ) from None


class Plan(NamedTuple):
    """A parsed index as one gather or scatter on windows.

    The result (or update) dimensions without new ones are `shape`; those of `window_dims` run over
    the window. With the new dimensions the shape is `full_shape`.
    """

    shape: tuple[int, ...]
    full_shape: tuple[int, ...]
    window_dims: tuple[int, ...]
    left_out: tuple[int, ...]
    columns: tuple[int, ...]
    sizes: tuple[int, ...]
    indices: Any
    unique: bool


def plan(x: Any, parsed: ParsedIndex, name: str, wrap: bool = True) -> Plan:
    """Whole dimensions and slices of step 1 are windows; all else is indexed."""
    entries = parsed.entries
    dtype = columns_dtype(entries, x.shape)
    block = block_shape(name, entries) if parsed.advanced else ()
    arrays = [e for e in entries if isinstance(e, ArrayEntry) or isinstance(e, ScalarEntry)]
    # The result's dimensions: None, a SliceEntry, or the block of arrays.
    order: list[Any] = []
    for e in entries:
        if e is None or isinstance(e, SliceEntry):
            order.append(e)
        elif parsed.advanced and parsed.contiguous and _BLOCK not in order:
            order.append(_BLOCK)
    if parsed.advanced and not parsed.contiguous:
        order.insert(0, _BLOCK)

    shape: list[int] = []
    full_shape: list[int] = []
    window_dims: list[int] = []
    batch: list[tuple[Any, int]] = []  # what a batch dimension runs over, and its size
    sizes = [1] * x.ndim
    for o in order:
        if o is None:
            full_shape.append(1)
            continue
        if o is _BLOCK:
            batch += [(_BLOCK, n) for n in block]
            shape += block
            full_shape += block
            continue
        if o.step == 1 or o.size <= 1:
            window_dims.append(len(shape))
            sizes[o.dim] = o.size
        else:
            batch.append((o, o.size))
        shape.append(o.size)
        full_shape.append(o.size)
    batch_shape = tuple(n for _, n in batch)
    columns: list[int] = []
    values: list[Any] = []
    first = next((i for i, (o, _) in enumerate(batch) if o is _BLOCK), 0)
    after = len(batch) - first - len(block)
    for e in arrays:
        if e.dim is None:
            continue
        columns.append(e.dim)
        i = as_indices(e, x.shape[e.dim], dtype, wrap)
        if i.shape and after:
            i = reshape(i, (*i.shape, *(1,) * after))
        values.append(i)
    for o in order:
        if not isinstance(o, SliceEntry):
            continue
        if o.step == 1 or o.size <= 1:
            if o.size < x.shape[o.dim]:
                columns.append(o.dim)
                values.append(ConcreteArray(np.asarray(o.start, dtype)))
        else:
            at = next(i for i, (b, _) in enumerate(batch) if b is o)
            column = [1] * len(batch)
            column[at] = o.size
            steps = o.start + o.step * np.arange(o.size)
            columns.append(o.dim)
            values.append(ConcreteArray(steps.astype(dtype).reshape(column)))
    windowed = {o.dim for o in order if isinstance(o, SliceEntry) and (o.step == 1 or o.size <= 1)}
    left_out = tuple(d for d in range(x.ndim) if d not in windowed)
    return Plan(
        tuple(shape),
        tuple(full_shape),
        tuple(window_dims),
        left_out,
        tuple(columns),
        tuple(sizes),
        stacked(values, batch_shape),
        parsed.unique,
    )


_BLOCK = object()


def read_plan(
    x: Any, p: Plan, mode: GatherScatterMode, fill_value: Any, is_sorted: bool, unique: bool
) -> Any:
    """What the plan's windows hold, in the result's shape."""
    if 0 in p.shape:
        return zeros(ShapedArray(p.full_shape, x.dtype))
    if 0 in x.shape:
        check_known("getitem", 0, 0, x.shape.index(0))
    out = gather_p.bind1(
        x,
        p.indices,
        dimension_numbers=GatherDimensionNumbers(p.window_dims, p.left_out, p.columns),
        slice_sizes=p.sizes,
        indices_are_sorted=is_sorted,
        unique_indices=unique or p.unique,
        mode=mode,
        fill_value=fill_param(fill_value, x.dtype) if mode is FILL else None,
    )
    return reshape(out, p.full_shape)


def _advanced(x: Any, parsed: ParsedIndex) -> Any:
    """Slices first, so that the gather reads no more than it must, then one gather."""
    rest = []
    for e in parsed.entries:
        if isinstance(e, SliceEntry):
            rest.append(SliceEntry(e.dim, 0, 1, e.size))
        else:
            rest.append(e)
    slices = [e for e in parsed.entries if isinstance(e, SliceEntry)]
    x = _sliced(x, slices)
    p = plan(x, parsed._replace(entries=rest), "getitem")
    return read_plan(x, p, CLIP, None, False, False)


@method("index_get")
@api_boundary
def index_get(
    x: ArrayLike, index: Any, indices_are_sorted: bool, unique_indices: bool, mode: Any,
    fill_value: Any, wrap_negative_indices: bool = True,
) -> Any:  # fmt: skip
    """x[index] with a mode: "clip", "fill" or "promise_in_bounds".

    Without one, "fill" where there is a value to fill with, else "clip" as JAX does in both cases.
    """
    a = as_array(x, "get")
    if mode is None and fill_value is None:
        mode = CLIP
    parsed_mode = GatherScatterMode.from_any(mode)
    parsed = parsed_index(a, index, "get")
    p = plan(a, parsed, "get", bool(wrap_negative_indices))
    return read_plan(a, p, parsed_mode, fill_value, indices_are_sorted, unique_indices)
