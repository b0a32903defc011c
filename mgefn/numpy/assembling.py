"""Putting arrays together, taking them apart and moving their dimensions.

Compositions of concatenate, reshape, transpose, reverse, slice and pad.
"""

from __future__ import annotations

import builtins
import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.core.array_methods import Array, ArrayLike, Axis, DTypeLike
from mgefn.core.tracer import Tracer
from mgefn.errors import ArgumentError, AxisError, ConcretizationTypeError, ShapeError, api_boundary
from mgefn.numpy.creation import asarray
from mgefn.ops.elementwise import convert, promoted
from mgefn.ops.reductions import max as reduce_max
from mgefn.ops.reductions import mean as reduce_mean
from mgefn.ops.reductions import min as reduce_min
from mgefn.ops.shaping import (
    broadcast_in_dim,
    broadcast_to_shape,
    canonical_shape,
    concatenate_p,
    moveaxis,
    normalize_axes,
    normalize_axis,
    pad_p,
    ravel,
    reshape,
    result_shape,
    rev,
    slice_in_dim,
    swapaxes,
    transpose,
)

# -- joining --------------------------------------------------------------------------------------


def _operands(name: str, arrays: Any, dtype: DTypeLike | None = None) -> list[Any]:
    """The arrays of a sequence, or the rows of one array, in one dtype."""
    if isinstance(arrays, Array | np.ndarray):
        if not arrays.ndim:
            raise ArgumentError(f"{name}: needs a sequence of arrays, got an array of rank 0.")
        x = asarray(arrays, dtype)
        rows = [slice_in_dim(x, i, i + 1, axis=0) for i in range(x.shape[0])]
        out = [reshape(r, x.shape[1:]) for r in rows]
    elif isinstance(arrays, Iterator) or not hasattr(arrays, "__len__"):
        raise ArgumentError(
            f"{name}: needs a sequence of arrays, got {type(arrays).__name__}. Write {name}([...])."
        )
    else:
        out = list(arrays)
    if not out:
        raise ArgumentError(f"{name}: needs at least one array, got none. Test for it first.")
    if dtype is not None:
        new = dtypes.canonical(dtype)
        return [convert(asarray(x), new) for x in out]
    return promoted(name, out)


@api_boundary
def concatenate(arrays: Any, axis: int | None = 0, dtype: DTypeLike | None = None) -> Array:
    """Join arrays along an existing dimension, as numpy.concatenate does.

    Args:
        arrays: a sequence of arrays of one shape but for `axis`, or one array, whose rows join.
        axis: the dimension that grows; None joins the flattened arrays.
        dtype: None: the common dtype.

    Raises:
        ShapeError: shapes differ in another dimension. AxisError: axis is out of range.

    Example:
        >>> mnp.concatenate([mnp.array([1, 2]), mnp.array([3])])
        Array([1, 2, 3], dtype=int32)
    """
    if isinstance(arrays, Array | np.ndarray) and arrays.ndim > 1 and axis is not None:
        x = asarray(arrays, dtype)
        i = normalize_axis("concatenate", axis, x.ndim - 1)
        if x.shape[0]:
            # The rows of one array side by side are the array with two dimensions merged.
            moved = moveaxis(x, 0, i)
            merged = x.shape[0] * x.shape[i + 1]
            return reshape(moved, (*moved.shape[:i], merged, *moved.shape[i + 2 :]))
    xs = _operands("concatenate", arrays, dtype)
    if axis is None:
        xs = [ravel(x) for x in xs]
        axis = 0
    if not xs[0].ndim:
        raise AxisError("concatenate: arrays of rank 0 have no dimension to join. Use stack.")
    i = normalize_axis("concatenate", axis, xs[0].ndim)
    if len(xs) == 1:
        return xs[0]
    return concatenate_p.bind1(*xs, dimension=i)


@api_boundary
def concat(arrays: Sequence[ArrayLike], /, *, axis: int | None = 0) -> Array:
    """`concatenate` under its name in the array API standard."""
    return concatenate(arrays, axis)


@api_boundary
def stack(arrays: Any, axis: int = 0, out: None = None, dtype: DTypeLike | None = None) -> Array:
    """Join arrays of one shape along a new dimension, as numpy.stack does.

    Args:
        arrays: a sequence of arrays.
        axis: the place of the new dimension in the result.
        out: must be None: arrays are immutable.
        dtype: None: the common dtype.

    Raises:
        ShapeError: the shapes differ.
    """
    _no_out("stack", out)
    if isinstance(arrays, Array | np.ndarray) and arrays.ndim and len(arrays):
        x = asarray(arrays, dtype)
        return moveaxis(x, 0, normalize_axis("stack", axis, x.ndim))
    xs = _operands("stack", arrays, dtype)
    shape = xs[0].shape
    i = normalize_axis("stack", axis, len(shape) + 1)
    for x in xs:
        if x.shape != shape:
            raise ShapeError(
                f"stack: arrays must have one shape, got {xs[0].aval} and {x.aval}. Pad or slice "
                "one, or use concatenate."
            )
    new = (*shape[:i], 1, *shape[i:])
    rows = [reshape(x, new) for x in xs]
    return rows[0] if len(rows) == 1 else concatenate_p.bind1(*rows, dimension=i)


def _no_out(name: str, out: Any) -> None:
    if out is not None:
        raise ArgumentError(f"{name}: out must be None, since arrays are immutable. Leave it out.")


@api_boundary
def vstack(tup: Any, dtype: DTypeLike | None = None) -> Array:
    """Join arrays along the first dimension; vectors become rows."""
    return concatenate([atleast_2d(x) for x in _operands("vstack", tup, dtype)])


@api_boundary
def hstack(tup: Any, dtype: DTypeLike | None = None) -> Array:
    """Join arrays along the second dimension, vectors along their only one."""
    xs = [atleast_1d(x) for x in _operands("hstack", tup, dtype)]
    return concatenate(xs, axis=0 if xs[0].ndim == 1 else 1)


@api_boundary
def dstack(tup: Any, dtype: DTypeLike | None = None) -> Array:
    """Join arrays along the third dimension; those of lower rank get dimensions of size 1."""
    return concatenate([atleast_3d(x) for x in _operands("dstack", tup, dtype)], axis=2)


@api_boundary
def column_stack(tup: Any) -> Array:
    """Join arrays along the second dimension; vectors become columns."""
    columns = [reshape(x, (x.size, 1)) if x.ndim < 2 else x for x in _operands("column_stack", tup)]
    return concatenate(columns, axis=1)


@api_boundary
def block(arrays: Any) -> Array:
    """Assemble an array from nested lists of blocks, as numpy.block does."""
    depth, inner = 0, arrays
    while isinstance(inner, list):
        if not inner:
            raise ArgumentError("block: lists must not be empty.")
        depth, inner = depth + 1, inner[0]

    def rank(node: Any, level: int) -> int:
        """The highest rank of a block; nesting is at most 64 deep, as ranks are."""
        if not isinstance(node, list):
            if level != depth:
                raise ArgumentError("block: lists must be nested equally deep everywhere.")
            return asarray(node).ndim
        if level >= depth:
            raise ArgumentError("block: lists must be nested equally deep everywhere.")
        return builtins.max(rank(child, level + 1) for child in node)

    ndim = builtins.max(depth, rank(arrays, 0))

    def join(node: Any, level: int) -> Any:
        if not isinstance(node, list):
            x = asarray(node)
            return reshape(x, (1,) * (ndim - x.ndim) + x.shape)
        return concatenate([join(c, level + 1) for c in node], axis=ndim - depth + level)

    return join(arrays, 0)


# -- splitting ------------------------------------------------------------------------------------


def _edges(name: str, size: int, indices_or_sections: Any, equal: bool) -> list[int]:
    """Where the parts of a dimension begin and end."""
    s = indices_or_sections
    if isinstance(s, Tracer) and s.concrete() is None:
        raise ConcretizationTypeError(
            f"{name}: needs known sections, got the traced {s.aval}. Use lax.dynamic_slice."
        )
    if hasattr(s, "ndim") and s.ndim == 0:
        s = int(s)
    if isinstance(s, (list, tuple, np.ndarray, Array)):
        cuts = [operator.index(i) for i in np.asarray(s).tolist()]
        cuts = [builtins.min(builtins.max(c + size if c < 0 else c, 0), size) for c in cuts]
        return [0, *cuts, size]
    n = operator.index(s)
    if n <= 0:
        raise ArgumentError(f"{name}: needs at least 1 section, got {n}.")
    if equal and size % n:
        raise ArgumentError(
            f"{name}: {n} equal sections do not fit a size of {size}. Use array_split."
        )
    base, extra = builtins.divmod(size, n)
    return [i * base + builtins.min(i, extra) for i in range(n + 1)]


def _split(name: str, ary: ArrayLike, s: Any, axis: int, equal: bool = True) -> list[Array]:
    x = asarray(ary)
    i = normalize_axis(name, axis, x.ndim)
    edges = _edges(name, x.shape[i], s, equal)
    return [slice_in_dim(x, a, builtins.max(a, b), axis=i) for a, b in itertools.pairwise(edges)]


@api_boundary
def split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Cut an array into parts along a dimension, as numpy.split does.

    Args:
        ary: an array.
        indices_or_sections: how many equal parts, or the indices where parts begin.
        axis: the dimension to cut.

    Raises:
        ArgumentError: the parts would not be equal.
    """
    return _split("split", ary, indices_or_sections, axis)


@api_boundary
def array_split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """`split` into parts that need not be equal: the first ones are longer by one."""
    return _split("array_split", ary, indices_or_sections, axis, equal=False)


@api_boundary
def vsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """Cut along the first dimension of two or more."""
    x = asarray(ary)
    if x.ndim < 2:
        raise ShapeError(f"vsplit: needs rank 2 or more, got {x.aval}.")
    return _split("vsplit", x, indices_or_sections, 0)


@api_boundary
def hsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """Cut along the second dimension, vectors along their only one."""
    x = asarray(ary)
    if x.ndim < 1:
        raise ShapeError(f"hsplit: needs rank 1 or more, got {x.aval}.")
    return _split("hsplit", x, indices_or_sections, 0 if x.ndim == 1 else 1)


@api_boundary
def dsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    """Cut along the third dimension."""
    x = asarray(ary)
    if x.ndim < 3:
        raise ShapeError(f"dsplit: needs rank 3 or more, got {x.aval}.")
    return _split("dsplit", x, indices_or_sections, 2)


@api_boundary
def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices of an array along a dimension, without it."""
    a = asarray(x)
    if not a.ndim:
        raise ShapeError("unstack: needs rank 1 or more, got rank 0.")
    i = normalize_axis("unstack", axis, a.ndim)
    rest = a.shape[:i] + a.shape[i + 1 :]
    return tuple(reshape(slice_in_dim(a, j, j + 1, axis=i), rest) for j in range(a.shape[i]))


# -- ranks and dimensions -------------------------------------------------------------------------


def _at_least(name: str, arrays: tuple, shape_of: Callable[[tuple], tuple]) -> Any:
    if len(arrays) == 1 and isinstance(arrays[0], list):
        arrays = (asarray(arrays[0]),)
    out = [reshape(x, shape_of(x.shape)) for x in map(asarray, arrays)]
    return out[0] if len(out) == 1 else out


@api_boundary
def atleast_1d(*arys: ArrayLike) -> Any:
    """Arrays of rank 1 or more; a list of them for several arguments."""
    return _at_least("atleast_1d", arys, lambda s: s or (1,))


@api_boundary
def atleast_2d(*arys: ArrayLike) -> Any:
    """Arrays of rank 2 or more; vectors become rows."""
    return _at_least("atleast_2d", arys, lambda s: (1,) * (2 - len(s)) + s)


@api_boundary
def atleast_3d(*arys: ArrayLike) -> Any:
    """Arrays of rank 3 or more; vectors become (1, n, 1), matrices (m, n, 1)."""

    def shape_of(s: tuple) -> tuple:
        if len(s) >= 3:
            return s
        return (*s, 1) if len(s) == 2 else (1, *(s or (1,)), 1)

    return _at_least("atleast_3d", arys, shape_of)


@api_boundary
def broadcast_arrays(*args: ArrayLike) -> list[Array]:
    """The arrays, repeated to their common shape."""
    xs = [asarray(x) for x in args]
    if not xs:
        return []
    shape = result_shape("broadcast_arrays", [x.shape for x in xs], [x.aval for x in xs])
    return [broadcast_to_shape(x, shape) for x in xs]


@api_boundary
def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape to which all shapes broadcast.

    Raises:
        ShapeError: they do not broadcast together.
    """
    canonical = [canonical_shape("broadcast_shapes", s) for s in shapes]
    return tuple(result_shape("broadcast_shapes", canonical, canonical)) if canonical else ()


@api_boundary
def permute_dims(a: ArrayLike, /, axes: Sequence[int]) -> Array:
    """`transpose` under its name in the array API standard."""
    return transpose(a, axes)


@api_boundary
def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    """Move a dimension back until it stands before `start`."""
    x = asarray(a)
    i = normalize_axis("rollaxis", axis, x.ndim)
    end = operator.index(start)
    if not -x.ndim <= end <= x.ndim:
        raise AxisError(f"rollaxis: start {end} is out of range for an array of rank {x.ndim}.")
    end = end + x.ndim if end < 0 else end
    return moveaxis(x, i, end - 1 if i < end else end)


@api_boundary
def rot90(m: ArrayLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """Rotate by k times 90 degrees, from the first of two axes towards the second."""
    x = asarray(m)
    i, j = (normalize_axis("rot90", a, x.ndim) for a in axes)
    if i == j:
        raise AxisError(f"rot90: needs two different axes, got {tuple(axes)}.")
    turns = operator.index(k) % 4
    if turns == 0:
        return x
    if turns == 2:
        return rev(x, (i, j))
    return swapaxes(rev(x, (j,)), i, j) if turns == 1 else rev(swapaxes(x, i, j), (j,))


@api_boundary
def fliplr(m: ArrayLike) -> Array:
    """Reverse the order of columns."""
    x = asarray(m)
    if x.ndim < 2:
        raise ShapeError(f"fliplr: needs rank 2 or more, got {x.aval}.")
    return rev(x, (1,))


@api_boundary
def flipud(m: ArrayLike) -> Array:
    """Reverse the order of rows."""
    x = asarray(m)
    if x.ndim < 1:
        raise ShapeError(f"flipud: needs rank 1 or more, got {x.aval}.")
    return rev(x, (0,))


@api_boundary
def resize(a: ArrayLike, new_shape: Any) -> Array:
    """The elements in a new shape, repeated from the start as often as it takes, or cut off."""
    x = ravel(asarray(a))
    shape = canonical_shape("resize", new_shape)
    size = math.prod(shape)
    if not size or not x.size:
        from_nothing = broadcast_in_dim(convert(asarray(0), x.dtype), shape, ())
        return from_nothing
    times = -(-size // x.size)
    if times > 1:
        x = ravel(broadcast_in_dim(x, (times, x.size), (1,)))
    return reshape(slice_in_dim(x, 0, size), shape)


@api_boundary
def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: Axis = None) -> Array:
    """Cut zeros off the ends of an array whose values are known.

    Args:
        filt: an array.
        trim: "f": from the front, "b": from the back, "fb": both.
        axis: the dimensions to trim; None: all.
    """
    x = asarray(filt)
    how = trim.lower()
    if not how or builtins.any(c not in "fb" for c in how):
        raise ArgumentError(f"trim_zeros: trim must be 'f', 'b' or 'fb', got {trim!r}.")
    places = np.nonzero(np.asarray(x))
    for i in normalize_axes("trim_zeros", axis, x.ndim):
        found = places[i]
        first = int(found.min()) if found.size else x.shape[i]
        last = int(found.max()) + 1 if found.size else x.shape[i]
        first = first if "f" in how else 0
        last = last if "b" in how else x.shape[i]
        if not found.size:
            first, last = 0, 0
        x = slice_in_dim(x, first, last, axis=i)
    return x


# -- padding --------------------------------------------------------------------------------------

_MODE_ARGUMENTS = {
    "constant": {"constant_values"},
    "edge": set(),
    "linear_ramp": {"end_values"},
    "maximum": {"stat_length"},
    "mean": {"stat_length"},
    "median": {"stat_length"},
    "minimum": {"stat_length"},
    "reflect": {"reflect_type"},
    "symmetric": {"reflect_type"},
    "wrap": set(),
    "empty": set(),
}


def _pairs(name: str, value: Any, ndim: int, convert_one: Callable[[Any], Any]) -> list[tuple]:
    """(before, after) for each dimension, from NumPy's shorthands."""
    if isinstance(value, dict):
        found: list[tuple] = [(0, 0)] * ndim
        for axis, pair in value.items():
            found[normalize_axis(name, axis, ndim)] = _pairs(name, pair, 1, convert_one)[0]
        return found
    if not isinstance(value, (list, tuple)):
        if getattr(value, "ndim", 0):
            return _pairs(name, [value[i] for i in range(len(value))], ndim, convert_one)
        one = convert_one(value)
        return [(one, one)] * ndim
    rows = [[v[i] for i in range(len(v))] if getattr(v, "ndim", 0) else v for v in value]
    if builtins.all(isinstance(r, (list, tuple)) for r in rows):
        if len(rows) == 1:
            rows = rows * ndim
        if len(rows) == ndim:
            pairs = []
            for r in rows:
                items = [convert_one(v) for v in r]
                if len(items) not in (1, 2):
                    break
                pairs.append((items[0], items[-1]))
            else:
                return pairs
    elif not builtins.any(isinstance(r, (list, tuple)) for r in rows) and len(rows) in (1, 2):
        items = [convert_one(v) for v in rows]
        return [(items[0], items[-1])] * ndim
    raise ArgumentError(
        f"{name}: needs a number, a pair (before, after), or such a pair for each of the {ndim} "
        f"dimensions, got {value!r}."
    )


def _width(value: Any) -> int:
    if isinstance(value, float) or (hasattr(value, "dtype") and value.dtype.kind not in "iu"):
        raise ArgumentError(f"pad: pad_width must hold integers, got {value!r}.")
    n = operator.index(value)
    if n < 0:
        raise ArgumentError(f"pad: pad_width must be 0 or more, got {n}. Slice to crop.")
    return n


@api_boundary
def pad(array: ArrayLike, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Array:
    """Put values around an array, as numpy.pad does.

    Args:
        array: the array.
        pad_width: how many values to put before and after: an int, a pair, a pair for each
            dimension, or a dict from axis to int or pair.
        mode: "constant" (constant_values), "edge", "linear_ramp" (end_values), "maximum", "mean",
            "median" and "minimum" (stat_length), "reflect" and "symmetric" (reflect_type "even" or
            "odd"), "wrap", "empty", or a function (row, (before, after), axis, kwargs) -> row that
            is applied to each padded row.
        kwargs: the mode's arguments, named in brackets above.

    Raises:
        ArgumentError: the mode or one of its arguments does not exist.

    Example:
        >>> mnp.pad(mnp.array([1, 2]), (1, 2))
        Array([0, 1, 2, 0, 0], dtype=int32)
    """
    x = asarray(array)
    widths = _pairs("pad", pad_width, x.ndim, _width)
    if callable(mode):
        return _pad_by_function(x, widths, mode, kwargs)
    if mode not in _MODE_ARGUMENTS:
        raise ArgumentError(f"pad: mode must be one of {', '.join(_MODE_ARGUMENTS)}, got {mode!r}.")
    unknown = set(kwargs) - _MODE_ARGUMENTS[mode]
    if unknown:
        raise ArgumentError(f"pad: mode {mode!r} takes no argument {', '.join(sorted(unknown))}.")
    if mode == "constant":
        return _pad_constant(x, widths, kwargs.get("constant_values", 0))
    if mode == "empty":
        return _pad_constant(x, widths, 0)
    if mode in ("wrap", "reflect", "symmetric", "edge"):
        odd = _is_odd(kwargs.get("reflect_type", "even"))
        for i, (before, after) in enumerate(widths):
            x = _pad_by_index(x, i, before, after, mode, odd)
        return x
    if mode == "linear_ramp":
        return _pad_ramp(x, widths, kwargs.get("end_values", 0))
    return _pad_statistic(x, widths, mode, kwargs.get("stat_length"))


def _is_odd(reflect_type: str) -> bool:
    if reflect_type not in ("even", "odd"):
        raise ArgumentError(f"pad: reflect_type must be 'even' or 'odd', got {reflect_type!r}.")
    return reflect_type == "odd"


def _pad_constant(x: Any, widths: list[tuple], constant_values: Any) -> Any:
    values = _pairs("pad", constant_values, x.ndim, lambda v: convert(asarray(v), x.dtype))
    if builtins.all(a is b for pair in values for a in pair for b in values[0]) and values:
        config = tuple((a, b, 0) for a, b in widths)
        return pad_p.bind1(x, convert(values[0][0], x.dtype), padding_config=config)
    for i, ((before, after), (low, high)) in enumerate(zip(widths, values, strict=True)):
        for width, value, at_start in ((before, low, True), (after, high, False)):
            if width:
                config = tuple(
                    ((width, 0, 0) if at_start else (0, width, 0)) if j == i else (0, 0, 0)
                    for j in range(x.ndim)
                )
                x = pad_p.bind1(x, convert(value, x.dtype), padding_config=config)
    return x


def _pad_by_index(x: Any, axis: int, before: int, after: int, mode: str, odd: bool) -> Any:
    """Put copies of slices of x beside it; repeats while the padding is longer than x."""
    size = x.shape[axis]
    if not before and not after:
        return x
    if size == 0:
        raise ArgumentError(f"pad: mode {mode!r} needs values, but axis {axis} is empty.")
    if mode == "edge":
        parts = [
            _repeated(slice_in_dim(x, 0, 1, axis=axis), axis, before),
            x,
            _repeated(slice_in_dim(x, size - 1, size, axis=axis), axis, after),
        ]
        return concatenate([p for p in parts if p.shape[axis]], axis)
    if mode == "wrap":
        left, right = -(-before // size), -(-after // size)
        whole = concatenate([x] * (left + 1 + right), axis)
        start = left * size - before
        return slice_in_dim(whole, start, start + before + size + after, axis=axis)
    if size == 1 and mode == "reflect":
        return _pad_by_index(x, axis, before, after, "edge", odd)
    # A mirrored piece leaves out the edge itself for "reflect" and repeats it for "symmetric".
    skip = 1 if mode == "reflect" else 0
    period = size - skip
    while before > 0:
        n = x.shape[axis]
        # Only at whole periods is an edge again a mirror.
        take = builtins.min(before, (n - skip) // period * period)
        piece = rev(slice_in_dim(x, skip, skip + take, axis=axis), (axis,))
        if odd:
            piece = 2 * slice_in_dim(x, 0, 1, axis=axis) - piece
        x = concatenate([piece, x], axis)
        before -= take
    while after > 0:
        n = x.shape[axis]
        take = builtins.min(after, (n - skip) // period * period)
        piece = rev(slice_in_dim(x, n - skip - take, n - skip, axis=axis), (axis,))
        if odd:
            piece = 2 * slice_in_dim(x, n - 1, n, axis=axis) - piece
        x = concatenate([x, piece], axis)
        after -= take
    return x


def _repeated(x: Any, axis: int, times: int) -> Any:
    shape = (*x.shape[:axis], times, *x.shape[axis + 1 :])
    return broadcast_in_dim(x, shape, tuple(range(x.ndim)))


def _pad_ramp(x: Any, widths: list[tuple], end_values: Any) -> Any:
    ends = _pairs("pad", end_values, x.ndim, lambda v: convert(asarray(v), x.dtype))
    for axis, ((before, after), (low, high)) in enumerate(zip(widths, ends, strict=True)):
        n = x.shape[axis]
        if (before or after) and not n:
            raise ArgumentError(f"pad: mode 'linear_ramp' needs values, but axis {axis} is empty.")
        parts = [x]
        if before:
            parts.insert(0, _ramp(low, slice_in_dim(x, 0, 1, axis=axis), axis, before))
        if after:
            ramp = _ramp(high, slice_in_dim(x, n - 1, n, axis=axis), axis, after)
            parts.append(rev(ramp, (axis,)))
        x = concatenate(parts, axis)
    return x


def _ramp(end: Any, edge: Any, axis: int, size: int) -> Any:
    """From `end` (included) towards `edge` (left out) in `size` steps."""
    work = dtypes.to_inexact(edge.dtype)
    shape = tuple(size if i == axis else 1 for i in range(edge.ndim))
    t = convert(asarray((np.arange(size) / size).reshape(shape)), dtypes.real_part_dtype(work))
    a, b = convert(end, work), convert(edge, work)
    ramp = a + (b - a) * t
    if dtypes.is_integer(edge.dtype):
        ramp = ramp - ramp % 1
    return convert(ramp, edge.dtype)


def _pad_statistic(x: Any, widths: list[tuple], mode: str, stat_length: Any) -> Any:
    if stat_length is None:
        lengths: list[tuple] = [(None, None)] * x.ndim
    else:
        lengths = _pairs(
            "pad", stat_length, x.ndim, lambda v: v if v is None else operator.index(v)
        )
    for axis, ((before, after), (low, high)) in enumerate(zip(widths, lengths, strict=True)):
        n = x.shape[axis]
        parts = [x]
        for width, length, first in ((before, low, True), (after, high, False)):
            if not width:
                continue
            m = n if length is None else builtins.min(length, n)
            if m <= 0:
                raise ArgumentError(
                    f"pad: mode {mode!r} needs at least one value along axis {axis}, got {m}."
                )
            part = (
                slice_in_dim(x, 0, m, axis=axis) if first else slice_in_dim(x, n - m, n, axis=axis)
            )
            value = _repeated(_statistic(part, axis, mode), axis, width)
            parts.insert(0, value) if first else parts.append(value)
        x = concatenate(parts, axis)
    return x


def _statistic(x: Any, axis: int, mode: str) -> Any:
    if mode == "maximum":
        return reduce_max(x, axis, keepdims=True)
    if mode == "minimum":
        return reduce_min(x, axis, keepdims=True)
    if mode == "mean":
        value = reduce_mean(x, axis, keepdims=True)
    else:
        n = x.shape[axis]
        ordered = x.sort(axis)
        middle = slice_in_dim(ordered, (n - 1) // 2, n // 2 + 1, axis=axis)
        value = reduce_mean(middle, axis, keepdims=True)
    if not dtypes.is_inexact(x.dtype):
        value = value.round()
    return convert(value, x.dtype)


def _pad_by_function(x: Any, widths: list[tuple], function: Any, kwargs: dict) -> Any:
    x = _pad_constant(x, widths, 0)
    for axis, pair in enumerate(widths):
        moved = moveaxis(x, axis, -1)
        rows = reshape(moved, (-1, moved.shape[-1])) if moved.size else moved
        done = [function(rows[i], pair, axis, kwargs) for i in range(len(rows))]
        if done:
            x = moveaxis(reshape(stack(done), moved.shape), -1, axis)
    return x
