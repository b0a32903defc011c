"""all and any, and the primitives that join booleans or the bits of integers.

None has a derivative. Over an empty axis all is true and any is false.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mgefn.core.array import ConcreteArray
from mgefn.core.array_methods import Array, ArrayLike, Axis, method
from mgefn.core.interpreter import state
from mgefn.core.primitive import Primitive
from mgefn.errors import api_boundary
from mgefn.ops.elementwise import truth
from mgefn.ops.reductions.common import (
    COMPARABLE,
    by_axes,
    is_logical,
    mask_of,
    masked,
    no_out,
    operand_of,
    quick,
    reduction,
    restore_axes,
)
from mgefn.ops.shaping import normalize_axes

reduce_and_p = reduction("reduce_and", is_logical, "booleans or integers", constant=True)
reduce_or_p = reduction("reduce_or", is_logical, "booleans or integers", constant=True)
reduce_xor_p = reduction("reduce_xor", is_logical, "booleans or integers", constant=True)
for _p in (reduce_and_p, reduce_or_p, reduce_xor_p):
    _p.no_rule("transpose", "has no derivative")


# -- reductions by axes, as in jax.lax ------------------------------------------------------------


@api_boundary
def reduce_and(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Bitwise and over axes, of booleans or integers."""
    return by_axes(reduce_and_p, operand, axes)


@api_boundary
def reduce_or(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Bitwise or over axes, of booleans or integers."""
    return by_axes(reduce_or_p, operand, axes)


@api_boundary
def reduce_xor(operand: ArrayLike, axes: Sequence[int]) -> Array:
    """Bitwise exclusive or over axes, of booleans or integers."""
    return by_axes(reduce_xor_p, operand, axes)


_logical_and_reduce = np.logical_and.reduce
_logical_or_reduce = np.logical_or.reduce


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
        if data.dtype in COMPARABLE:
            found = quick(_logical_and_reduce, data, axis, keepdims)
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
        if data.dtype in COMPARABLE:
            found = quick(_logical_or_reduce, data, axis, keepdims)
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
