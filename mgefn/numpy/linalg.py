"""Norms and products of matrices under the names of numpy.linalg.

Norms are written so that their gradient is finite everywhere, 0 at 0: the square root's infinite
slope meets a square whose slope is exactly 0.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from mgefn import dtypes
from mgefn.core.array_methods import Array, ArrayLike, Axis
from mgefn.errors import ArgumentError, ShapeError, api_boundary
from mgefn.numpy.creation import asarray, eye
from mgefn.ops import contractions, reductions
from mgefn.ops.contractions import (
    matmul,
    tensordot,
    vecdot,
)
from mgefn.ops.elementwise import abs as absolute
from mgefn.ops.elementwise import conj, power, promoted, real, sqrt, square
from mgefn.ops.indexing.select import diagonal as _diagonal
from mgefn.ops.indexing.select import trace as _trace
from mgefn.ops.shaping import (
    broadcast_to_shape,
    expand_dims,
    matrix_transpose,
    normalize_axes,
    normalize_axis,
    reshape,
)

__all__ = [
    "cross",
    "diagonal",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


@api_boundary
def norm(x: ArrayLike, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Array:
    """Norm of vectors or matrices, as numpy.linalg.norm gives it.

    Args:
        x: an array; integers are taken as the default float.
        ord: None: the square root of the sum of squares. For vectors: any number p, for the p-th
            root of the sum of |x|**p; inf and -inf: the largest and smallest |x|; 0: how many are
            not 0. For matrices: "fro"; 1 and -1: the largest and smallest sum of a column; inf and
            -inf: of a row.
        axis: one axis: of vectors; two: of matrices; None: the whole array, which has rank 1 or 2
            unless ord is None too.
        keepdims: keep the reduced dimensions with size 1.

    Returns:
        Real array. Its derivative at 0 is 0.

    Raises:
        ArgumentError: ord is none of these, or fits another rank.

    Example:
        >>> mgefn.grad(mnp.linalg.norm)(mnp.zeros(2))
        Array([0., 0.], dtype=float32)
    """
    (a,) = promoted("norm", (x,), inexact=True)
    if axis is None:
        if ord is None:
            return _root_of_squares(a, normalize_axes("norm", None, a.ndim), keepdims)
        if a.ndim not in (1, 2):
            raise ArgumentError(
                f"norm: with ord and without axis x must have rank 1 or 2, got {a.aval}. Pass axis."
            )
        axes = tuple(range(a.ndim))
    elif isinstance(axis, (tuple, list)):
        axes = tuple(normalize_axis("norm", i, a.ndim) for i in axis)
    else:
        axes = (normalize_axis("norm", axis, a.ndim),)
    if len(axes) == 1:
        return _vector_norm(a, 2 if ord is None else ord, axes, keepdims)
    if len(axes) != 2 or axes[0] == axes[1]:
        raise ArgumentError(f"norm: axis must name one or two different axes, got {axis}.")
    return _matrix_norm(a, ord, axes, keepdims)


def _root_of_squares(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    squares = square(x) if not dtypes.is_complex(x.dtype) else real(x * conj(x))
    return sqrt(reductions.sum(squares, axes, keepdims=keepdims))


def _vector_norm(x: Any, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    if isinstance(ord, str):
        raise ArgumentError(f"norm: ord of vectors must be a number, got {ord!r}.")
    if ord == 2:
        return _root_of_squares(x, axes, keepdims)
    size = absolute(x)
    if ord == math.inf:
        return reductions.max(size, axes, keepdims=keepdims)
    if ord == -math.inf:
        return reductions.min(size, axes, keepdims=keepdims)
    if ord == 0:
        return reductions.sum((x != 0).astype(size.dtype), axes, keepdims=keepdims)
    if ord == 1:
        return reductions.sum(size, axes, keepdims=keepdims)
    total = reductions.sum(power(size, ord), axes, keepdims=keepdims)
    return power(total, 1 / ord)


def _matrix_norm(x: Any, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    row, column = axes
    if ord in (None, "fro", "f"):
        return _root_of_squares(x, normalize_axes("norm", axes, x.ndim), keepdims)
    if ord in (1, -1):
        summed, chosen = row, column
    elif ord in (math.inf, -math.inf):
        summed, chosen = column, row
    else:
        raise ArgumentError(
            f"norm: ord of matrices must be None, 'fro', 1, -1, inf or -inf, got {ord!r}."
        )
    sums = reductions.sum(absolute(x), summed, keepdims=True)
    pick = reductions.max if ord > 0 else reductions.min
    out = pick(sums, chosen, keepdims=True)
    if keepdims:
        return out
    return reshape(out, tuple(n for i, n in enumerate(x.shape) if i not in axes))


@api_boundary
def vector_norm(
    x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False, ord: Any = 2
) -> Array:
    """Norm of vectors along one or more axes, whose elements count as one vector; None: all."""
    (a,) = promoted("vector_norm", (x,), inexact=True)
    return _vector_norm(a, ord, normalize_axes("vector_norm", axis, a.ndim), keepdims)


@api_boundary
def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """Norm of the matrices in the last two dimensions; ord as for `norm`."""
    (a,) = promoted("matrix_norm", (x,), inexact=True)
    if a.ndim < 2:
        raise ShapeError(f"matrix_norm: needs rank 2 or more, got {a.aval}.")
    return _matrix_norm(a, ord, (a.ndim - 2, a.ndim - 1), keepdims)


@api_boundary
def matrix_power(a: ArrayLike, n: int) -> Array:
    """Square matrices multiplied by themselves n - 1 times, n >= 0; n = 0 gives the identity.

    Raises:
        ShapeError: the last two dimensions differ. ArgumentError: n is negative.
    """
    x = asarray(a)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"matrix_power: needs square matrices, got {x.aval}.")
    k = operator.index(n)
    if k < 0:
        raise ArgumentError(
            f"matrix_power: n must be 0 or more, got {k}. Invert the matrix and pass {-k}."
        )
    if k == 0:
        return broadcast_to_shape(eye(x.shape[-1], dtype=x.dtype), x.shape)
    result, base = None, x
    while k:
        if k & 1:
            result = base if result is None else matmul(result, base)
        k >>= 1
        if k:
            base = matmul(base, base)
    assert result is not None
    return result


@api_boundary
def multi_dot(arrays: Sequence[ArrayLike], *, precision: Any = None) -> Array:
    """Product of two or more matrices, in the order that takes the fewest multiplications.

    The first and the last may be vectors, a row and a column.
    """
    xs = promoted("multi_dot", list(arrays))
    if len(xs) < 2:
        raise ArgumentError(f"multi_dot: needs at least 2 arrays, got {len(xs)}.")
    first, last = xs[0].ndim == 1, xs[-1].ndim == 1
    if first:
        xs[0] = expand_dims(xs[0], 0)
    if last:
        xs[-1] = expand_dims(xs[-1], 1)
    for i, x in enumerate(xs):
        if x.ndim != 2 or (i and xs[i - 1].shape[1] != x.shape[0]):
            raise ShapeError(
                f"multi_dot: needs matrices whose sizes chain, got "
                f"{' and '.join(str(v.aval) for v in xs)}."
            )
    sizes = [xs[0].shape[0], *(x.shape[1] for x in xs)]
    order = _chain_order(sizes)
    # Work off the intervals from the shortest up, so that no recursion is needed.
    todo, made = [(0, len(xs) - 1)], []
    while todo:
        i, j = todo.pop()
        made.append((i, j))
        if i < j:
            k = order[i, j]
            todo += [(i, k), (k + 1, j)]
    product: dict[tuple[int, int], Any] = {}
    for i, j in reversed(made):
        if i == j:
            product[i, j] = xs[i]
        else:
            k = order[i, j]
            product[i, j] = matmul(product[i, k], product[k + 1, j])
    out = product[0, len(xs) - 1]
    shape = (() if first else out.shape[:1]) + (() if last else out.shape[1:])
    return reshape(out, shape)


def _chain_order(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """For matrices i to j the k after which to split. Cormen et al., section 15.2."""
    n = len(sizes) - 1
    cost = {(i, i): 0 for i in range(n)}
    order: dict[tuple[int, int], int] = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            options = [
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            ]
            cost[i, j], order[i, j] = min(options)
    return order


@api_boundary
def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Products of all pairs of elements of two vectors."""
    a, b = asarray(x1), asarray(x2)
    if a.ndim != 1 or b.ndim != 1:
        raise ShapeError(f"outer: needs two vectors, got {a.aval} and {b.aval}.")
    return contractions.outer(a, b)


@api_boundary
def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """Vector product of vectors of 3 elements along an axis."""
    a, b = asarray(x1), asarray(x2)
    for x in (a, b):
        if x.ndim == 0 or x.shape[normalize_axis("cross", axis, x.ndim)] != 3:
            raise ShapeError(f"cross: needs 3 elements along axis {axis}, got {x.aval}.")
    return contractions.cross(a, b, axis=axis)


@api_boundary
def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """The diagonals of the matrices in the last two dimensions."""
    return _diagonal(x, offset, -2, -1)


@api_boundary
def trace(x: ArrayLike, /, *, offset: int = 0, dtype: Any = None) -> Array:
    """The sums of the diagonals of the matrices in the last two dimensions."""
    a = asarray(x)
    if a.ndim < 2:
        raise ShapeError(f"trace: needs rank 2 or more, got {a.aval}.")
    return _trace(a, offset, -2, -1, dtype)
