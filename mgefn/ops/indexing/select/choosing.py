"""Elements chosen by conditions: nonzero, compress, choose, select and their kin.

The size of a result that depends on values is `size` where it is given; without it the values must
be known.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from mgefn.core.array import ConcreteArray, as_array, scalar
from mgefn.core.array_methods import METHODS, Array, ArrayLike, method
from mgefn.core.avals import ShapedArray
from mgefn.errors import ArgumentError, DTypeError, IndexOutOfBoundsError, ShapeError, api_boundary
from mgefn.ops.elementwise import clip, convert, promoted, remainder, truth, where
from mgefn.ops.indexing.gather import FILL, ScatterDimensionNumbers, scatter_p
from mgefn.ops.indexing.select.common import (
    BOOL,
    array_of,
    constant,
    indices_dtype,
    integers_of,
    known,
    needed,
)
from mgefn.ops.indexing.select.flat_indices import unravel_index
from mgefn.ops.indexing.select.taking import take
from mgefn.ops.shaping import (
    broadcast_to_shape,
    concatenate_p,
    full_like_aval,
    iota,
    normalize_axis,
    reshape,
    result_shape,
)


@method("nonzero")
@api_boundary
def nonzero(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> tuple[Array, ...]:
    """The indices of the elements that are not 0, one array for each dimension.

    Args:
        a: an array of rank 1 or more.
        size: number of indices to give, for use under jit: the first ones, and fill_value beyond
            the last.
        fill_value: a number, or one for each dimension; default 0.
    Raises:
        ConcretizationTypeError: a is traced and there is no size.
    Example:
        >>> mnp.nonzero(mnp.array([0, 3, 0, 4]))
        (Array([1, 3], dtype=int32),)
    """
    x = array_of("nonzero", a)
    if not x.ndim:
        raise ShapeError(f"nonzero: needs rank 1 or more, got {x.aval}. Use atleast_1d.")
    dtype = indices_dtype((x.size,))
    if size is None:
        found = np.nonzero(needed("nonzero", x, "Pass size=n, or use where(mask, x, y)."))
        return tuple(constant(i.astype(dtype)) for i in found)
    n = operator.index(size)
    fills = fill_value if isinstance(fill_value, (tuple, list)) else (fill_value,) * x.ndim
    if len(fills) != x.ndim:
        raise ArgumentError(f"nonzero: needs one fill value for each dimension, got {fills}.")
    fills = tuple(0 if f is None else f for f in fills)
    if not n or not x.size:
        return tuple(
            broadcast_to_shape(convert(as_array(f, "nonzero"), dtype), (n,)) for f in fills
        )
    holds = reshape(truth(x), (x.size,))
    # Element number r of those that hold goes to place r; the others, and those too many, drop.
    place = METHODS["cumsum"](convert(holds, dtype)) - scalar(1, dtype)
    place = where(holds, place, scalar(n, dtype))
    flat = scatter_p.bind1(
        full_like_aval(-1, ShapedArray((n,), dtype)),
        reshape(place, (x.size, 1)),
        iota(dtype, x.size),
        dimension_numbers=ScatterDimensionNumbers((), (0,), (0,)),
        mode=FILL,
        indices_are_sorted=False,
        unique_indices=True,
    )
    missing = flat < scalar(0, dtype)
    out = []
    for i, f in zip(unravel_index(flat, x.shape), fills, strict=True):
        out.append(where(missing, convert(as_array(f, "nonzero"), dtype), convert(i, dtype)))
    return tuple(out)


@api_boundary
def flatnonzero(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """The flat indices of the elements that are not 0; size and fill_value as for `nonzero`."""
    x = array_of("flatnonzero", a)
    return nonzero(reshape(x, (x.size,)), size=size, fill_value=fill_value)[0]


@api_boundary
def argwhere(a: ArrayLike, *, size: int | None = None, fill_value: Any = None) -> Array:
    """The indices of the elements that are not 0, one row each; see `nonzero`."""
    x = array_of("argwhere", a)
    if not x.ndim:
        found = needed("argwhere", x, "It has no dimension to index.")
        return constant(np.zeros((int(bool(found)), 0), indices_dtype(())))
    columns = nonzero(x, size=size, fill_value=fill_value)
    n = columns[0].shape[0]
    return concatenate_p.bind1(*(reshape(c, (n, 1)) for c in columns), dimension=1)


@api_boundary
def compress(
    condition: ArrayLike,
    a: ArrayLike,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: Any = 0,
    out: None = None,
) -> Array:
    """The slices along an axis where a condition holds, as numpy.compress gives them.

    Args:
        condition: a vector of booleans, at most as long as the axis.
        a: an array.
        axis: None compresses the flattened array.
        size: number of slices to give, for use under jit; beyond the last comes fill_value.
    """
    c, x = truth(array_of("compress", condition)), array_of("compress", a)
    if c.ndim != 1:
        raise ShapeError(f"compress: the condition must have rank 1, got {c.aval}.")
    if axis is None:
        x, at = reshape(x, (x.size,)), 0
    else:
        at = normalize_axis("compress", axis, x.ndim)
    n = x.shape[at]
    beyond = None if c.shape[0] <= n else known(c)
    if beyond is not None and beyond[n:].any():
        raise IndexOutOfBoundsError(
            f"compress: the condition holds beyond the {n} slices of axis {at}. Shorten it."
        )
    (i,) = nonzero(c[:n], size=size, fill_value=n)
    if not n:
        return take(x, ConcreteArray(np.zeros(0, np.int32)), at)
    return take(x, i, at, mode="fill", unique_indices=size is None, fill_value=fill_value)


@method("compress")
@api_boundary
def _compress_method(a: Array, condition: ArrayLike, axis: int | None = None) -> Array:
    # As a method the array comes first.
    return compress(condition, a, axis)


@api_boundary
def extract(
    condition: ArrayLike, arr: ArrayLike, *, size: int | None = None, fill_value: Any = 0
) -> Array:
    """The elements of arr where a condition of its size holds, in one dimension."""
    c = array_of("extract", condition)
    return compress(reshape(c, (c.size,)), arr, size=size, fill_value=fill_value)


# -- choices --------------------------------------------------------------------------------------


@method("choose")
@api_boundary
def choose(a: ArrayLike, choices: Any, out: None = None, mode: str = "raise") -> Array:
    """For each element of `a` the element of the choice that it numbers, as numpy.choose.

    Args:
        a: integers in [0, number of choices).
        choices: arrays that broadcast with a.
        mode: "raise" needs known integers; "wrap"; "clip".
    """
    if out is not None:
        raise ArgumentError("choose: out is not supported, since arrays are immutable. Drop it.")
    which = integers_of("choose", a)
    arrays = promoted("choose", list(choices))
    n = len(arrays)
    if not n:
        raise ArgumentError("choose: needs at least one choice, got none.")
    if mode == "raise":
        values = needed("choose", which, "Pass mode='wrap' or mode='clip'.")
        if values.size and (values.min() < 0 or values.max() >= n):
            raise IndexOutOfBoundsError(f"choose: entries of a must lie in [0, {n}).")
    elif mode == "wrap":
        which = remainder(which, n)
    elif mode == "clip":
        which = clip(which, 0, n - 1)
    else:
        raise ArgumentError(f"choose: mode must be 'raise', 'wrap' or 'clip', got {mode!r}.")
    shape = result_shape("choose", [which.shape, *(c.shape for c in arrays)], [which.aval])
    which = broadcast_to_shape(which, shape)
    result = broadcast_to_shape(arrays[0], shape)
    for k, c in enumerate(arrays[1:], 1):
        result = where(which == scalar(k, which.dtype), c, result)
    return result


@api_boundary
def select(
    condlist: Sequence[ArrayLike], choicelist: Sequence[ArrayLike], default: ArrayLike = 0
) -> Array:
    """The choice of the first condition that holds, elementwise, as numpy.select gives it."""
    if len(condlist) != len(choicelist) or not len(condlist):
        raise ArgumentError(
            f"select: needs as many conditions as choices, at least one, got {len(condlist)} and "
            f"{len(choicelist)}."
        )
    *choices, result = promoted("select", [*choicelist, default])
    for c, choice in zip(reversed(condlist), reversed(choices), strict=True):
        c = array_of("select", c)
        if c.dtype != BOOL:
            raise DTypeError(f"select: conditions must be booleans, got {c.aval}. Compare first.")
        result = where(c, choice, result)
    return result


@api_boundary
def piecewise(x: ArrayLike, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Array:
    """The function of the last condition that holds, applied to x, as numpy.piecewise gives it.

    All functions are evaluated everywhere. One more function than conditions is the default, which
    is 0 otherwise. The result has the dtype of x.
    """
    (a,) = promoted("piecewise", (x,))
    if not isinstance(condlist, (list, tuple)):
        c = as_array(condlist, "piecewise")
        condlist = [c] if c.ndim == a.ndim else [c[i] for i in range(c.shape[0])]
    conditions = [truth(array_of("piecewise", c)) for c in condlist]
    functions = list(funclist)
    if len(functions) not in (len(conditions), len(conditions) + 1):
        raise ArgumentError(
            f"piecewise: needs {len(conditions)} functions or one more, got {len(functions)}."
        )
    value: Any = functions.pop() if len(functions) > len(conditions) else 0
    result = value(a, *args, **kw) if callable(value) else value
    result = broadcast_to_shape(convert(array_of("piecewise", result), a.dtype), a.shape)
    for c, f in zip(conditions, functions, strict=True):
        y = f(a, *args, **kw) if callable(f) else f
        result = where(c, convert(array_of("piecewise", y), a.dtype), result)
    return result
