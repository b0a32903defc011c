"""What the decompositions share: checks of matrices, and small linear maps of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.core.array import scalar
from mgefn.core.array_methods import ArrayLike
from mgefn.core.avals import ShapedArray
from mgefn.core.primitive import Primitive
from mgefn.errors import DTypeError, ShapeError
from mgefn.ops.contractions import matmul
from mgefn.ops.elementwise import conj, convert, promoted, scale
from mgefn.ops.indexing.select import diagonal, tril, triu
from mgefn.ops.shaping import (
    broadcast_in_dim,
    broadcast_to_shape,
    broadcasted_iota,
    expand_dims,
    full_like_aval,
    matrix_transpose,
    moveaxis,
)

LAPACK_DTYPES = frozenset(map(np.dtype, ("float32", "float64", "complex64", "complex128")))

__all__ = [
    "adjoint",
    "check_dtype",
    "check_rank",
    "check_square",
    "define_stacked_batch",
    "diagonal",
    "eye",
    "from_triangle",
    "in_front",
    "matmul",
    "matrices",
    "matrix_transpose",
    "scaled",
    "tril",
    "triu",
]


def check_dtype(name: str, aval: ShapedArray) -> None:
    """LAPACK has no half precision."""
    if aval.dtype in LAPACK_DTYPES:
        return
    repair = 'Cast it with astype("float32")' if dtypes.is_inexact(aval.dtype) else "Cast it"
    raise DTypeError(
        f"{name}: needs float32, float64, complex64 or complex128, got {aval}. {repair}."
    )


def check_rank(name: str, aval: ShapedArray, rank: int = 2) -> None:
    if aval.ndim < rank:
        raise ShapeError(
            f"{name}: needs rank {rank} or more, the matrices in the last dimensions, got {aval}. "
            "Reshape it."
        )


def check_square(name: str, aval: ShapedArray) -> None:
    check_rank(name, aval)
    if aval.shape[-1] != aval.shape[-2]:
        raise ShapeError(
            f"{name}: needs square matrices in the last two dimensions, got {aval}. Slice it, or "
            "use a decomposition of rectangular matrices (qr, svd)."
        )


def matrices(name: str, *args: ArrayLike, square: int = 0) -> list[Any]:
    """The arguments as arrays of one floating or complex dtype; the first `square` are square."""
    arrays = promoted(name, args, inexact=True)
    for i, x in enumerate(arrays):
        check_dtype(name, x.aval)
        (check_square if i < square else check_rank)(name, x.aval)
    return arrays


def eye(n: int, dtype: np.dtype, shape: Sequence[int] = ()) -> Any:
    """The identity matrix, repeated over leading dimensions."""
    row, column = (broadcasted_iota(np.int32, (n, n), d) for d in (0, 1))
    return broadcast_to_shape(convert(row == column, dtype), (*shape, n, n))


def adjoint(x: Any) -> Any:
    """The conjugate transpose."""
    return conj(matrix_transpose(x))


def scaled(t: Any, slope: Any) -> Any:
    """The product of a tangent with local slopes, which broadcast to it; linear in t."""
    slope = convert(slope, t.dtype)
    return scale(t, broadcast_to_shape(slope, t.shape) if slope.shape else slope)


def from_triangle(x: Any, lower: bool) -> Any:
    """The Hermitian matrix that has the lower (or upper) triangle of x; linear over the reals."""
    n = x.shape[-1]
    half = scalar(1, x.dtype) - eye(n, x.dtype) * 0.5
    part = scaled(tril(x) if lower else triu(x), half)
    return part + adjoint(part)


def on_diagonal(d: Any) -> Any:
    """The diagonal matrices of the vectors in the last dimension."""
    n = d.shape[-1]
    return scaled(
        broadcast_to_shape(expand_dims(d, -1), (*d.shape, n)), eye(n, d.dtype, d.shape[:-1])
    )


def zeros_of(shape: Sequence[int], dtype: np.dtype) -> Any:
    return full_like_aval(0, ShapedArray(tuple(shape), dtype))


def in_front(args: Sequence[Any], bdims: Sequence[int | None]) -> list[Any]:
    """Operands with the batch dimension first, repeated for those without it."""
    size = next(x.shape[b] for x, b in zip(args, bdims, strict=True) if b is not None)
    return [
        moveaxis(x, b, 0)
        if b is not None
        else broadcast_in_dim(x, (size, *x.shape), tuple(range(1, x.ndim + 1)))
        for x, b in zip(args, bdims, strict=True)
    ]


def define_stacked_batch(primitive: Primitive) -> None:
    """The batch rule of a primitive whose leading dimensions are a batch already."""

    def rule(args: Sequence[Any], bdims: Sequence[int | None], **params: Any) -> tuple:
        outs = primitive.bind(*in_front(args, bdims), **params)
        return outs, (0,) * len(outs)

    primitive.def_batch(rule)
