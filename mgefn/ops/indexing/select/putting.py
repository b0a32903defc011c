"""put, place and their kin: copies with some elements replaced.

Arrays are immutable, so NumPy's functions that write in place are here with `inplace=False`.
"""

from __future__ import annotations

import numpy as np

from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import ArgumentError, ShapeError, api_boundary
from mgefn.ops.cumulative import cumsum
from mgefn.ops.elementwise import clip, convert, maximum, remainder, where
from mgefn.ops.indexing.gather import GatherScatterMode, ScatterDimensionNumbers, scatter_p
from mgefn.ops.indexing.select.common import array_of, as_size, integers_of
from mgefn.ops.indexing.select.rearranging import tile
from mgefn.ops.indexing.select.taking import aligned_rows, along, take
from mgefn.ops.indexing.updates import index_set
from mgefn.ops.shaping import broadcast_to_shape, reshape


@api_boundary
def put_along_axis(
    arr: ArrayLike,
    indices: ArrayLike,
    values: ArrayLike,
    axis: int | None,
    inplace: bool = True,
    *,
    mode: str | GatherScatterMode | None = None,
) -> Array:
    """A copy of arr with `values` at `indices` along an axis, each row by its own.

    Raises:
        ArgumentError: inplace is not False; arrays are immutable, so the copy is the result.
    """
    if inplace:
        raise ArgumentError(
            "put_along_axis: arrays are immutable, so it can't write in place. Write "
            "x = put_along_axis(x, indices, values, axis, inplace=False)."
        )
    x, i = array_of("put_along_axis", arr), integers_of("put_along_axis", indices)
    v = convert(array_of("put_along_axis", values), x.dtype)
    original = x.shape
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    wide, i, at = aligned_rows("put_along_axis", x, i, axis)
    if wide.shape != x.shape:
        raise ShapeError(f"put_along_axis: the indices {i.aval} must broadcast to {x.aval}.")
    v = broadcast_to_shape(v, i.shape)
    if 0 in i.shape:
        return reshape(x, original)
    _, rows, column, numbers = along(x, i, at)
    out = scatter_p.bind1(
        x,
        column,
        v,
        dimension_numbers=ScatterDimensionNumbers((), (at,), (at,), rows, numbers),
        mode=GatherScatterMode.from_any(mode),
        indices_are_sorted=False,
        unique_indices=False,
    )
    return reshape(out, original)


@api_boundary
def put(
    a: ArrayLike, ind: ArrayLike, v: ArrayLike, mode: str | None = None, *, inplace: bool = True
) -> Array:
    """A copy of `a` with `v` (repeated as needed) at flat indices.

    Args:
        a: an array.
        ind: flat indices.
        v: values; repeated where there are fewer than indices.
        mode: None drops what is out of bounds; "clip"; "wrap".
    Raises:
        ArgumentError: inplace is not False.
    """
    if inplace:
        raise ArgumentError(
            "put: arrays are immutable, so it can't write in place. Write "
            "x = put(x, indices, values, inplace=False)."
        )
    x = array_of("put", a)
    i = reshape(integers_of("put", ind), (-1,)) if as_size(ind) else None
    values = array_of("put", v)
    if i is None or not x.size or not values.size:
        return x
    values = reshape(values, (values.size,))
    n = i.shape[0]
    times = -(-n // values.shape[0])
    values = tile(values, times)[:n]
    if mode == "wrap":
        i = remainder(i, x.size)
    elif mode == "clip":
        i = clip(i, 0, x.size - 1)
    elif mode is not None:
        raise ArgumentError(f"put: mode must be None, 'clip' or 'wrap', got {mode!r}.")
    return reshape(index_set(reshape(x, (x.size,)), i, values), x.shape)


@api_boundary
def place(arr: ArrayLike, mask: ArrayLike, vals: ArrayLike, *, inplace: bool = True) -> Array:
    """A copy of arr with `vals` where the mask holds, the first value at the first place.

    Args:
        arr: an array.
        mask: of as many elements as arr.
        vals: values, flattened; repeated where there are fewer than places.
        inplace: must be False.

    Raises:
        ArgumentError: inplace is not False, or there are no values. ShapeError: the sizes differ.
    """
    if inplace:
        raise ArgumentError(
            "place: arrays are immutable, so it can't write in place. Write "
            "x = place(x, mask, values, inplace=False)."
        )
    x, chosen, v = (array_of("place", a) for a in (arr, mask, vals))
    if chosen.size != x.size:
        raise ShapeError(f"place: needs a mask of the size of {x.aval}, got {chosen.aval}.")
    if not x.size:
        return x
    if not v.size:
        raise ArgumentError("place: needs at least one value, got none.")
    chosen = reshape(chosen, (x.size,)) != 0
    which = remainder(maximum(cumsum(chosen.astype("int32")) - 1, 0), v.size)
    values = convert(take(reshape(v, (v.size,)), which), x.dtype)
    return reshape(where(chosen, values, reshape(x, (x.size,))), x.shape)


@api_boundary
def fill_diagonal(
    a: ArrayLike, val: ArrayLike, wrap: bool = False, *, inplace: bool = True
) -> Array:
    """A copy of `a` with `val` on its main diagonal, where all indices are equal.

    Args:
        a: rank 2, or of a higher rank and equal sizes.
        val: values, flattened; repeated where there are fewer than places.
        wrap: in a tall matrix, begin the diagonal anew, after one row between.
        inplace: must be False.

    Raises:
        ArgumentError: inplace is not False. ShapeError: the rank is less than 2, or sizes differ.

    Example:
        >>> mnp.fill_diagonal(mnp.zeros((2, 3)), 7.0, inplace=False)
        Array([[7., 0., 0.],
               [0., 7., 0.]], dtype=float32)
    """
    if inplace:
        raise ArgumentError(
            "fill_diagonal: arrays are immutable, so it can't write in place. Write "
            "x = fill_diagonal(x, value, inplace=False)."
        )
    x, v = array_of("fill_diagonal", a), array_of("fill_diagonal", val)
    if x.ndim < 2 or (x.ndim > 2 and len(set(x.shape)) > 1):
        raise ShapeError(
            f"fill_diagonal: needs a matrix, or an array of equal sizes, got {x.aval}."
        )
    if not x.size or not v.size:
        return x
    # The distance of neighbours on the diagonal in the flattened array.
    if x.ndim == 2:
        step = x.shape[1] + 1
        end = x.size if wrap else min(x.size, x.shape[1] ** 2)
    else:
        step = sum(x.shape[0] ** i for i in range(x.ndim))
        end = x.size
    places = np.arange(0, end, step)
    times = -(-len(places) // v.size)
    values = tile(reshape(v, (v.size,)), times)[: len(places)]
    return reshape(index_set(reshape(x, (x.size,)), places, values), x.shape)
