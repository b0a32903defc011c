"""gather and scatter: read and write windows of an array at computed places.

The dimension numbers are XLA's, as `jax.lax` has them. For each row of `indices` a window of the
operand starts at the index: gather reads it, scatter writes (or adds, multiplies, ...) into it.
Each is the transpose of the other: gather sums up backwards by scatter_add.

Invariant: with `mode` FILL_OR_DROP a window that is not inside as a whole is filled or dropped.
PROMISE_IN_BOUNDS never reads or writes outside: a broken promise gives clamped reads and dropped
writes.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mgefn import dtypes
from mgefn.core.array import as_array, scalar
from mgefn.core.array_methods import METHODS, Array, ArrayLike
from mgefn.core.avals import ShapedArray, Zero, is_undefined
from mgefn.core.primitive import Primitive
from mgefn.errors import ArgumentError, DTypeError, ShapeError, api_boundary
from mgefn.ops.elementwise import add_p, convert, mask, mul_p, scale, select_n_p, where
from mgefn.ops.shaping import (
    broadcast_in_dim,
    broadcast_to_shape,
    iota,
    moveaxis,
    pad_p,
    reshape,
    rev,
    zeros,
)


class GatherDimensionNumbers(NamedTuple):
    """Which dimension plays which part in a gather, as in jax.lax.

    Args:
        offset_dims: dimensions of the result that run over the window, increasing.
        collapsed_slice_dims: operand dimensions of window size 1 that the result leaves out.
        start_index_map: for each column of the indices, the operand dimension it indexes.
        operand_batching_dims: operand dimensions that go along with a dimension of the indices.
        start_indices_batching_dims: those dimensions of the indices, in the same order.
    """

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


class ScatterDimensionNumbers(NamedTuple):
    """Which dimension plays which part in a scatter, as in jax.lax.

    Args:
        update_window_dims: dimensions of the updates that run over the window, increasing.
        inserted_window_dims: operand dimensions of window size 1 that the updates leave out.
        scatter_dims_to_operand_dims: for each column of the indices, the operand dimension.
        operand_batching_dims: operand dimensions that go along with a dimension of the indices.
        scatter_indices_batching_dims: those dimensions of the indices, in the same order.
    """

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()


class GatherScatterMode(enum.Enum):
    """What happens where a window is not inside the operand.

    CLIP moves it inside. FILL_OR_DROP fills what gather reads and drops what scatter writes.
    PROMISE_IN_BOUNDS says that it does not happen.
    """

    CLIP = "clip"
    FILL_OR_DROP = "fill"
    PROMISE_IN_BOUNDS = "promise_in_bounds"

    @staticmethod
    def from_any(s: str | GatherScatterMode | None) -> GatherScatterMode:
        """The mode named "clip", "fill", "drop" or "promise_in_bounds"; None means "fill"."""
        if isinstance(s, GatherScatterMode):
            return s
        found = _MODES.get(s) if s is None or isinstance(s, str) else None
        if found is None:
            raise ArgumentError(
                f"mode: must be 'clip', 'fill', 'drop' or 'promise_in_bounds', got {s!r}."
            )
        return found


_MODES = {
    None: GatherScatterMode.FILL_OR_DROP,
    "fill": GatherScatterMode.FILL_OR_DROP,
    "drop": GatherScatterMode.FILL_OR_DROP,
    "clip": GatherScatterMode.CLIP,
    "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
}
CLIP, FILL, PROMISE = (
    GatherScatterMode.CLIP,
    GatherScatterMode.FILL_OR_DROP,
    GatherScatterMode.PROMISE_IN_BOUNDS,
)


def default_fill(dtype: np.dtype) -> Any:
    """What stands for a value out of bounds: NaN, the least signed or largest unsigned integer."""
    if dtypes.is_inexact(dtype):
        return math.nan
    if dtypes.is_bool(dtype):
        return True
    if dtypes.is_key(dtype):
        return 2**64 - 1  # both words
    info = dtypes.iinfo(dtype)
    return int(info.min) if dtypes.is_signed(dtype) else int(info.max)


def fill_param(fill_value: Any, dtype: np.dtype) -> Any:
    """A fill value as a canonical Python number that fits the dtype."""
    if fill_value is None:
        return default_fill(dtype)
    value = fill_value.item() if hasattr(fill_value, "item") else fill_value
    if isinstance(value, float) and value != value:
        # One NaN object: params are compared, and NaN equals only itself by identity.
        return math.nan if dtypes.is_inexact(dtype) else default_fill(dtype)
    if dtypes.is_integer(dtype) and isinstance(value, (bool, int, float)):
        value = int(value)
        dtypes.check_scalar_fits(value, dtype, "gather")
        return value
    return value


# -- gather ---------------------------------------------------------------------------------------

# operands: the array, integer indices; params: dimension_numbers, slice_sizes, mode, fill_value (a
# number, with FILL_OR_DROP only), indices_are_sorted, unique_indices
gather_p = Primitive("gather", weak_result=False, moves=True)


@api_boundary
def gather(
    operand: ArrayLike,
    start_indices: ArrayLike,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | GatherScatterMode | None = None,
    fill_value: Any = None,
) -> Array:
    """Read windows of an array at computed places, as jax.lax.gather does.

    Args:
        operand: an array.
        start_indices: integers; its last dimension holds the start of one window.
        dimension_numbers: which dimension is which.
        slice_sizes: the window's size in each dimension of operand.
        unique_indices: promise that no two windows overlap.
        indices_are_sorted: promise that the indices increase.
        mode: "fill" (default), "clip" or "promise_in_bounds".
        fill_value: for "fill"; NaN, or the least integer, where not given.
    """
    x = as_array(operand, "gather")
    parsed = GatherScatterMode.from_any(mode)
    return gather_p.bind1(
        x,
        as_array(start_indices, "gather"),
        dimension_numbers=GatherDimensionNumbers(*map(tuple, dimension_numbers)),
        slice_sizes=tuple(map(int, slice_sizes)),
        indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices),
        mode=parsed,
        fill_value=fill_param(fill_value, x.dtype) if parsed is FILL else None,
    )


def _check_indices(name: str, indices: ShapedArray, columns: Sequence[int]) -> None:
    if not dtypes.is_integer(indices.dtype):
        raise DTypeError(f"{name}: indices must be integers, got {indices}. Cast them with astype.")
    if not indices.shape or indices.shape[-1] != len(columns):
        raise ShapeError(
            f"{name}: the last dimension of the indices must have one entry for each of the "
            f"operand dimensions {columns}, got {indices}."
        )


def _check_dims(
    name: str, x: ShapedArray, indices: ShapedArray, dropped: Any, mapped: Any, batching: Any,
    indices_batching: Any,
) -> None:  # fmt: skip
    ndim = x.ndim
    for what, dims in (
        ("collapsed or inserted dims", dropped),
        ("indexed dims", mapped),
        ("batching dims", batching),
    ):
        if len(set(dims)) != len(dims) or any(not 0 <= d < ndim for d in dims):
            raise ShapeError(f"{name}: {what} must be distinct dimensions of {x}, got {dims}.")
    if set(batching) & (set(dropped) | set(mapped)):
        raise ShapeError(
            f"{name}: batching dims {batching} must not be collapsed, inserted or indexed too."
        )
    if len(batching) != len(indices_batching) or any(
        not 0 <= b < indices.ndim - 1 or indices.shape[b] != x.shape[d]
        for b, d in zip(indices_batching, batching, strict=False)
    ):
        raise ShapeError(
            f"{name}: batching dims must pair dimensions of one size, got {batching} of {x} and "
            f"{indices_batching} of {indices}."
        )


@gather_p.def_abstract_eval
def _gather_abstract_eval(x: ShapedArray, indices: ShapedArray, *, dimension_numbers, slice_sizes,
                          **_):  # fmt: skip
    dn = dimension_numbers
    _check_indices("gather", indices, dn.start_index_map)
    _check_dims(
        "gather",
        x,
        indices,
        dn.collapsed_slice_dims,
        dn.start_index_map,
        dn.operand_batching_dims,
        dn.start_indices_batching_dims,
    )
    if len(slice_sizes) != x.ndim or any(
        not 0 <= n <= d for n, d in zip(slice_sizes, x.shape, strict=False)
    ):
        raise ShapeError(
            f"gather: needs a slice size in [0, size] for each dimension of {x}, got {slice_sizes}."
        )
    left_out = (*dn.collapsed_slice_dims, *dn.operand_batching_dims)
    if any(slice_sizes[d] > 1 for d in left_out):
        raise ShapeError(f"gather: dims {left_out} must have slice size 1, got {slice_sizes}.")
    windows = [n for d, n in enumerate(slice_sizes) if d not in left_out]
    batch = list(indices.shape[:-1])
    if len(windows) != len(dn.offset_dims) or sorted(set(dn.offset_dims)) != list(dn.offset_dims):
        raise ShapeError(
            f"gather: needs {len(windows)} increasing offset_dims, got {dn.offset_dims}."
        )
    if any(not 0 <= d < len(windows) + len(batch) for d in dn.offset_dims):
        raise ShapeError(f"gather: offset_dims {dn.offset_dims} are out of range of the result.")
    return (ShapedArray(merged(batch, windows, dn.offset_dims), x.dtype),)


def merged(batch: Sequence[int], windows: Sequence[int], window_dims: Sequence[int]) -> tuple:
    """The shape that has the window's sizes at window_dims and the batch sizes elsewhere."""
    b, w = iter(batch), iter(windows)
    n = len(batch) + len(windows)
    return tuple(next(w) if i in window_dims else next(b) for i in range(n))


@gather_p.def_jvp(symbolic_zeros=True)
def _gather_jvp(primals, tangents, **params):
    x, indices = primals
    out = gather_p.bind1(x, indices, **params)
    x_dot = tangents[0]
    if x_dot.__class__ is Zero:
        return (out,), (Zero(out.aval),)
    if params["mode"] is FILL:
        params["fill_value"] = 0
    return (out,), gather_p.bind(x_dot, indices, **params)


@gather_p.def_transpose
def _gather_transpose(cts, x, indices, *, dimension_numbers, slice_sizes, mode, fill_value,
                      indices_are_sorted, unique_indices):  # fmt: skip
    (ct,) = cts
    back = scatter_add_p.bind1(
        zeros(ShapedArray(x.aval.shape, ct.dtype)),
        indices,
        ct,
        dimension_numbers=ScatterDimensionNumbers(*dimension_numbers),
        mode=mode,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
    )
    return back, None


def _up(dims: Sequence[int]) -> tuple[int, ...]:
    """Dimension numbers after a new first dimension."""
    return tuple(d + 1 for d in dims)


@gather_p.def_batch
def batch_gather(args, bdims, *, dimension_numbers, slice_sizes, **params):
    (x, indices), (x_bdim, indices_bdim) = args, bdims
    offset, collapsed, mapped, batching, indices_batching = dimension_numbers
    if indices_bdim is None:
        # The whole batch is one more window dimension.
        x = moveaxis(x, x_bdim, 0)
        numbers = GatherDimensionNumbers(
            (0, *_up(offset)), _up(collapsed), _up(mapped), _up(batching), indices_batching
        )
        sizes = (x.shape[0], *slice_sizes)
    elif x_bdim is None:
        indices = moveaxis(indices, indices_bdim, 0)
        numbers = GatherDimensionNumbers(
            _up(offset), collapsed, mapped, batching, _up(indices_batching)
        )
        sizes = slice_sizes
        # Different examples may read the same place.
        params |= {"indices_are_sorted": False, "unique_indices": False}
    else:
        x, indices = moveaxis(x, x_bdim, 0), moveaxis(indices, indices_bdim, 0)
        numbers = GatherDimensionNumbers(
            _up(offset),
            _up(collapsed),
            _up(mapped),
            (0, *_up(batching)),
            (0, *_up(indices_batching)),
        )
        sizes = (min(1, x.shape[0]), *slice_sizes)
        params |= {"indices_are_sorted": False}
    return gather_p.bind(x, indices, dimension_numbers=numbers, slice_sizes=sizes, **params), (0,)


# -- scatter --------------------------------------------------------------------------------------

# operands: the array, integer indices, updates; params: dimension_numbers, mode,
# indices_are_sorted, unique_indices
scatter_p = Primitive("scatter", weak_result=False, moves=True)
scatter_add_p = Primitive("scatter_add", weak_result=False)
scatter_mul_p = Primitive("scatter_mul", weak_result=False)
scatter_min_p = Primitive("scatter_min", weak_result=False)
scatter_max_p = Primitive("scatter_max", weak_result=False)
SCATTERS = (scatter_p, scatter_add_p, scatter_mul_p, scatter_min_p, scatter_max_p)


def _public_scatter(primitive: Primitive, operand, indices, updates, dimension_numbers,
                    indices_are_sorted, unique_indices, mode) -> Any:  # fmt: skip
    x, u = as_array(operand, primitive.name), as_array(updates, primitive.name)
    if u.dtype != x.dtype and u.weak_type:
        u = convert(u, x.dtype)
    return primitive.bind1(
        x,
        as_array(indices, primitive.name),
        u,
        dimension_numbers=ScatterDimensionNumbers(*map(tuple, dimension_numbers)),
        mode=GatherScatterMode.from_any(mode),
        indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices),
    )


@api_boundary
def scatter(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """A copy of an array with windows at computed places replaced, as jax.lax.scatter makes it.

    Where windows overlap it is not said which update is kept; the derivative follows the one that
    is.

    Args:
        operand: an array.
        scatter_indices: integers; the last dimension holds the start of one window.
        updates: what to write, in operand's dtype.
        dimension_numbers: which dimension is which.
        indices_are_sorted: promise that the indices increase.
        unique_indices: promise that no two windows overlap.
        mode: "drop" (default), "clip" or "promise_in_bounds".
    """
    return _public_scatter(scatter_p, operand, scatter_indices, updates, dimension_numbers,
                           indices_are_sorted, unique_indices, mode)  # fmt: skip


@api_boundary
def scatter_add(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """`scatter` that adds; repeated places add up."""
    return _public_scatter(scatter_add_p, operand, scatter_indices, updates, dimension_numbers,
                           indices_are_sorted, unique_indices, mode)  # fmt: skip


@api_boundary
def scatter_sub(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """`scatter` that subtracts; repeated places add up."""
    return _public_scatter(scatter_add_p, operand, scatter_indices, -as_array(updates),
                           dimension_numbers, indices_are_sorted, unique_indices, mode)  # fmt: skip


@api_boundary
def scatter_mul(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """`scatter` that multiplies; repeated places multiply.

    The derivative with respect to repeated updates is right at zeros too; a second derivative
    there is right with unique_indices only.
    """
    return _public_scatter(scatter_mul_p, operand, scatter_indices, updates, dimension_numbers,
                           indices_are_sorted, unique_indices, mode)  # fmt: skip


@api_boundary
def scatter_min(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """`scatter` that takes the smallest; equal candidates share the derivative."""
    return _public_scatter(scatter_min_p, operand, scatter_indices, updates, dimension_numbers,
                           indices_are_sorted, unique_indices, mode)  # fmt: skip


@api_boundary
def scatter_max(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """`scatter` that takes the largest; equal candidates share the derivative."""
    return _public_scatter(scatter_max_p, operand, scatter_indices, updates, dimension_numbers,
                           indices_are_sorted, unique_indices, mode)  # fmt: skip


def window_sizes(
    shape: tuple[int, ...], update_shape: tuple[int, ...], dn: ScatterDimensionNumbers
) -> tuple[int, ...]:
    """The window's size in each operand dimension."""
    left_out = {*dn.inserted_window_dims, *dn.operand_batching_dims}
    sizes = iter(update_shape[d] for d in dn.update_window_dims)
    return tuple(1 if d in left_out else next(sizes) for d in range(len(shape)))


def check_ordered(name: str, x: ShapedArray) -> None:
    """Raise where the numbers that a scatter compares are complex."""
    if dtypes.is_complex(x.dtype):
        raise DTypeError(
            f"{name}: needs a dtype with an order, got {x}. Compare real parts or magnitudes."
        )


def _scatter_abstract_eval(name: str, ordered: bool) -> Any:
    def abstract_eval(x: ShapedArray, indices: ShapedArray, u: ShapedArray, *, dimension_numbers,
                      **_):  # fmt: skip
        dn = dimension_numbers
        _check_indices(name, indices, dn.scatter_dims_to_operand_dims)
        _check_dims(
            name,
            x,
            indices,
            dn.inserted_window_dims,
            dn.scatter_dims_to_operand_dims,
            dn.operand_batching_dims,
            dn.scatter_indices_batching_dims,
        )
        if u.dtype != x.dtype:
            raise DTypeError(
                f"{name}: updates must have the operand's dtype, got {x} and {u}. Cast them."
            )
        if ordered:
            check_ordered(name, x)
        n_windows = x.ndim - len(dn.inserted_window_dims) - len(dn.operand_batching_dims)
        dims = dn.update_window_dims
        batch = [n for i, n in enumerate(u.shape) if i not in dims]
        if (
            len(dims) != n_windows
            or list(dims) != sorted(set(dims))
            or any(not 0 <= d < u.ndim for d in dims)
            or batch != list(indices.shape[:-1])
        ):
            raise ShapeError(
                f"{name}: updates need {n_windows} window dims and the indices' dimensions "
                f"{indices.shape[:-1]}, got {u} with update_window_dims={dims}."
            )
        sizes = window_sizes(x.shape, u.shape, dn)
        too_large = any(n > d for n, d in zip(sizes, x.shape, strict=True))
        if too_large and 0 not in u.shape:
            raise ShapeError(f"{name}: the windows {sizes} must fit into the operand {x}.")
        return (ShapedArray(x.shape, x.dtype),)

    return abstract_eval


def _scatter_batch(primitive: Primitive) -> Any:
    def batch(args, bdims, *, dimension_numbers, **params):
        size = next(a.shape[b] for a, b in zip(args, bdims, strict=True) if b is not None)

        def front(a: Any, b: int | None) -> Any:
            if b is None:
                return broadcast_in_dim(a, (size, *a.shape), tuple(range(1, a.ndim + 1)))
            return moveaxis(a, b, 0)

        x, indices, u = args
        x, u = front(x, bdims[0]), front(u, bdims[2])
        windows, inserted, mapped, batching, indices_batching = dimension_numbers
        if bdims[1] is None:
            numbers = ScatterDimensionNumbers(
                (0, *_up(windows)), _up(inserted), _up(mapped), _up(batching), indices_batching
            )
        else:
            indices = moveaxis(indices, bdims[1], 0)
            numbers = ScatterDimensionNumbers(
                _up(windows),
                _up(inserted),
                _up(mapped),
                (0, *_up(batching)),
                (0, *_up(indices_batching)),
            )
            params |= {"indices_are_sorted": False}
        return primitive.bind(x, indices, u, dimension_numbers=numbers, **params), (0,)

    return batch


for _p in SCATTERS:
    _p.def_abstract_eval(_scatter_abstract_eval(_p.name, _p in (scatter_min_p, scatter_max_p)))
    _p.def_batch(_scatter_batch(_p))
batch_scatter = _scatter_batch(scatter_p)
for _p in (scatter_min_p, scatter_max_p):
    _p.no_rule("transpose", "not linear")
    # NumPy's kernels would take complex numbers in an order that no compiled program knows.
    _p.accepts = lambda dtype: not dtypes.is_complex(dtype)


def _gathered(x: Any, indices: Any, u_shape: tuple, params: dict, fill_value: Any = 0) -> Any:
    """What the windows of a scatter hold in x, in the updates' layout; for those dropped, fill."""
    dn = params["dimension_numbers"]
    mode = CLIP if params["mode"] is CLIP else FILL
    return gather_p.bind1(
        x,
        indices,
        dimension_numbers=GatherDimensionNumbers(*dn),
        slice_sizes=window_sizes(x.shape, u_shape, dn),
        indices_are_sorted=params["indices_are_sorted"],
        unique_indices=params["unique_indices"],
        mode=mode,
        fill_value=None if mode is CLIP else fill_value,
    )


def _is_unique(u: Any, params: dict) -> bool:
    """Is there at most one window, or the promise that none overlap?"""
    if params["unique_indices"]:
        return True
    dims = params["dimension_numbers"].update_window_dims
    return math.prod(n for i, n in enumerate(u.shape) if i not in dims) <= 1


@scatter_add_p.def_jvp(symbolic_zeros=True)
def _scatter_add_jvp(primals, tangents, **params):
    x, indices, u = primals
    out = scatter_add_p.bind1(x, indices, u, **params)
    x_dot, _, u_dot = tangents
    if u_dot.__class__ is Zero:
        return (out,), (Zero(out.aval) if x_dot.__class__ is Zero else x_dot,)
    x_dot = zeros(x.aval) if x_dot.__class__ is Zero else x_dot
    return (out,), scatter_add_p.bind(x_dot, indices, u_dot, **params)


@scatter_add_p.def_transpose
def _scatter_add_transpose(cts, x, indices, u, **params):
    (ct,) = cts
    u_ct = _gathered(ct, indices, u.aval.shape, params) if is_undefined(u) else None
    return (ct if is_undefined(x) else None), None, u_ct


@scatter_p.def_jvp(symbolic_zeros=True)
def _scatter_jvp(primals, tangents, **params):
    x, indices, u = primals
    out = scatter_p.bind1(x, indices, u, **params)
    x_dot, _, u_dot = tangents
    if x_dot.__class__ is Zero and u_dot.__class__ is Zero:
        return (out,), (Zero(out.aval),)
    x_dot = zeros(x.aval) if x_dot.__class__ is Zero else x_dot
    u_dot = zeros(u.aval) if u_dot.__class__ is Zero else u_dot
    if _is_unique(u, params):
        return (out,), scatter_p.bind(x_dot, indices, u_dot, **params | {"unique_indices": True})
    # Which of several updates is kept is not said, so number the windows from 1, see whose number
    # is kept, and let the tangents of those through.
    dims = params["dimension_numbers"].update_window_dims
    sizes = tuple(1 if i in dims else n for i, n in enumerate(u.shape))
    count = math.prod(sizes)
    dtype = np.dtype(np.int32 if count < 2**31 - 1 else np.int64)
    numbers = reshape(iota(dtype, count) + scalar(1, dtype), sizes)
    numbers = broadcast_to_shape(numbers, u.shape)
    kept = scatter_p.bind1(zeros(ShapedArray(x.shape, dtype)), indices, numbers, **params)
    none = scalar(0, x_dot.dtype)
    x_dot = select_n_p.bind1(kept == scalar(0, dtype), none, x_dot)
    won = _gathered(kept, indices, u.shape, params) == numbers
    u_dot = select_n_p.bind1(won, none, u_dot)
    return (out,), scatter_add_p.bind(x_dot, indices, u_dot, **params)


@scatter_p.def_transpose
def _scatter_transpose(cts, x, indices, u, **params):
    (ct,) = cts
    assert params["unique_indices"], "the jvp rule makes no other scatter of tangents"
    shape = u.aval.shape
    x_ct = u_ct = None
    if is_undefined(x):
        x_ct = scatter_p.bind1(ct, indices, zeros(ShapedArray(shape, ct.dtype)), **params)
    if is_undefined(u):
        u_ct = _gathered(ct, indices, shape, params)
    return x_ct, None, u_ct


@scatter_mul_p.def_jvp(symbolic_zeros=True)
def _scatter_mul_jvp(primals, tangents, **params):
    x, indices, u = primals
    out = scatter_mul_p.bind1(x, indices, u, **params)
    x_dot, _, u_dot = tangents
    total = None
    if x_dot.__class__ is not Zero:
        total = scatter_mul_p.bind1(x_dot, indices, u, **params)
    if u_dot.__class__ is not Zero:
        slope = _product_of_others(x, indices, u, params)
        term = scatter_add_p.bind1(zeros(x.aval), indices, scale(u_dot, slope), **params)
        total = term if total is None else add_p.bind1(total, term)
    return (out,), (Zero(out.aval) if total is None else total,)


def _product_of_others(x: Any, indices: Any, u: Any, params: dict) -> Any:
    """For each update the product of the operand and the other updates at its place."""
    if _is_unique(u, params):
        return _gathered(x, indices, u.shape, params)
    # A quotient would be wrong at zeros, and its derivative in other ways too. So the updates are
    # brought into the order of their places, and each is given the product of those before it at
    # its place and of those after it.
    count = math.prod(u.shape)
    places = reshape(iota(np.dtype(np.int64), math.prod(x.shape)), x.shape)
    places = reshape(_gathered(places, indices, u.shape, params, fill_value=-1), (count,))
    order = METHODS["argsort"](places)
    back = METHODS["argsort"](order)
    places, factors = places[order], reshape(u, (count,))[order]
    before = _product_before(places, factors)
    after = rev(_product_before(rev(places, (0,)), rev(factors, (0,))), (0,))
    others = reshape(mul_p.bind1(before, after)[back], u.shape)
    return mul_p.bind1(others, _gathered(x, indices, u.shape, params))


def _product_before(places: Any, factors: Any) -> Any:
    """For each factor the product of those before it with the same place; places are sorted."""
    one = scalar(1, factors.dtype)
    count = factors.shape[0]
    # Each holds the product of the last `step` factors before it, and step doubles.
    product = _moved(places, factors, one, 1)
    step = 1
    while step < count:
        product = mul_p.bind1(product, _moved(places, product, one, step))
        step *= 2
    return product


def _moved(places: Any, values: Any, fill: Any, step: int) -> Any:
    """values[i - step] where that has the place of i, else `fill`."""
    if not values.shape[0]:
        return values
    config = ((step, -step, 0),)
    same = pad_p.bind1(places, scalar(-2, places.dtype), padding_config=config) == places
    return where(same, pad_p.bind1(values, fill, padding_config=config), fill)


@scatter_mul_p.def_transpose
def _scatter_mul_transpose(cts, x, indices, u, **params):
    # Linear in the operand only; the jvp rule makes no scatter_mul of updates' tangents.
    return scatter_mul_p.bind1(cts[0], indices, u, **params), None, None


def _scatter_extremum_jvp(primitive: Primitive) -> Any:
    def jvp(primals, tangents, **params):
        x, indices, u = primals
        out = primitive.bind1(x, indices, u, **params)
        x_dot, _, u_dot = tangents
        if x_dot.__class__ is Zero and u_dot.__class__ is Zero:
            return (out,), (Zero(out.aval),)
        # Every candidate that equals the result has an equal share.
        from_x = mask((x == out) | (x != x), x)
        target = _gathered(out, indices, u.shape, params)
        from_u = mask(u == target, u)
        ties = scatter_add_p.bind1(from_x, indices, from_u, **params)
        total = None
        if x_dot.__class__ is not Zero:
            total = scale(x_dot, from_x / where(ties == 0, scalar(1, x.dtype), ties))
        if u_dot.__class__ is not Zero:
            here = _gathered(ties, indices, u.shape, params, fill_value=1)
            share = from_u / where(here == 0, scalar(1, u.dtype), here)
            term = scatter_add_p.bind1(zeros(x.aval), indices, scale(u_dot, share), **params)
            total = term if total is None else add_p.bind1(total, term)
        return (out,), (total,)

    return jvp


for _p in (scatter_min_p, scatter_max_p):
    _p.def_jvp(_scatter_extremum_jvp(_p), symbolic_zeros=True)
