"""Pytrees of arrays as one vector, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mgefn import dtypes, tree
from mgefn.core.array import as_array, described, is_arraylike
from mgefn.core.array_methods import Array
from mgefn.errors import ArgumentError, DTypeError, ShapeError, api_boundary
from mgefn.numpy import concatenate, ravel, zeros
from mgefn.ops.elementwise import convert, real


@api_boundary
def ravel_pytree(pytree: Any) -> tuple[Array, Callable[[Any], Any]]:
    """Lay all arrays of a pytree end to end in one vector.

    Leaves follow each other in the order of `tree.leaves`, each in row-major order, promoted to
    their common dtype. Differentiable, in both directions.

    Args:
        pytree: a pytree of arrays and numbers.

    Returns:
        (vector, unravel): unravel(vector) is a pytree of the structure, shapes and dtypes of the
        argument. An empty tree gives an empty float32 vector.

    Raises:
        ArgumentError: a leaf is no array. From unravel, ShapeError and DTypeError: the vector has
            another length, or a dtype that is not the common one.

    Example:
        >>> vector, unravel = mgefn.flatten_util.ravel_pytree({"w": mnp.ones((2, 2)), "b": 0.5})
        >>> vector
        Array([0.5, 1. , 1. , 1. , 1. ], dtype=float32)
        >>> unravel(vector * 2)["b"]
        Array(1., dtype=float32)
    """
    leaves, structure = tree.flatten(pytree)
    for x in leaves:
        if not is_arraylike(x):
            raise ArgumentError(
                f"ravel_pytree: the leaves must be arrays, got {described(x)}. Take it out of the "
                "tree, or register its class with it as metadata."
            )
    arrays = [as_array(x, "ravel_pytree") for x in leaves]
    avals = [a.aval for a in arrays]
    if not avals:
        dtype = dtypes.canonical("float32")
        vector = zeros(0, dtype)
    else:
        dtype = dtypes.result_type(*arrays)
        # convert makes it strong too: a vector of weak numbers is an array like any other.
        vector = concatenate([ravel(convert(a, dtype)) for a in arrays])
    ends = []
    end = 0
    for aval in avals:
        end += aval.size
        ends.append(end)
    total = end

    @api_boundary
    def unravel(vector: Any) -> Any:
        """The pytree that a vector of this length and dtype stands for."""
        x = as_array(vector, "unravel")
        if x.shape != (total,):
            raise ShapeError(
                f"unravel: needs a vector of {total} elements, got {x.aval}. Pass what "
                "ravel_pytree gave, or something of its shape."
            )
        if avals and x.dtype != dtype:
            raise DTypeError(
                f"unravel: needs a vector of dtype {dtype.name}, got {x.aval}. Cast it with "
                f"astype({dtype.name!r})."
            )
        parts = []
        start = 0
        for aval, stop in zip(avals, ends, strict=True):
            part = x[start:stop].reshape(aval.shape)
            if dtype.kind == "c" and aval.dtype.kind != "c":
                part = real(part)
            parts.append(convert(part, aval.dtype))
            start = stop
        return tree.unflatten(structure, parts)

    return vector, unravel


__all__ = ["ravel_pytree"]
