"""Systems with tridiagonal matrices."""

from __future__ import annotations

import functools
from typing import Any

from mgefn.control.linalg.matrices import check_dtype, in_front, scaled, zeros_of
from mgefn.control.linalg.triangular import merged_columns
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.core.avals import ShapedArray, Zero
from mgefn.core.primitive import Primitive
from mgefn.errors import ArgumentError, ShapeError, api_boundary
from mgefn.ops.elementwise import add_p, neg_p, promoted
from mgefn.ops.shaping import broadcast_to_shape, concatenate_p, expand_dims, slice_in_dim

# operands: dl, d, du [..., n], of which dl[0] and du[n - 1] are not read; b [..., n, k]
tridiagonal_solve_p = Primitive("tridiagonal_solve", weak_result=False)


@api_boundary
def tridiagonal_solve(
    dl: ArrayLike, d: ArrayLike, du: ArrayLike, b: ArrayLike, *, perturb_singular: bool = False
) -> Array:
    """Solve a x = b for x with tridiagonal matrices a, as jax.lax.linalg.tridiagonal_solve.

    Args:
        dl: shape (..., n), the lower diagonal: a[i, i - 1] = dl[i]; dl[0] is not read.
        d: shape (..., n), the diagonal.
        du: shape (..., n), the upper diagonal: a[i, i + 1] = du[i]; du[n - 1] is not read.
        b: shape (..., n, k).
        perturb_singular: only False.

    Returns:
        Array of b's shape; NaN for singular matrices.

    Raises:
        ShapeError: the sizes do not fit. DTypeError: half precision.
    """
    if perturb_singular:
        raise ArgumentError(
            "tridiagonal_solve: perturb_singular must be False, got True. Add a small number to d."
        )
    args = promoted("tridiagonal_solve", (dl, d, du, b), inexact=True)
    tridiagonal_solve_p.out_avals([x.aval for x in args], {})
    return tridiagonal_solve_p.bind1(*args)


@tridiagonal_solve_p.def_abstract_eval
def _tridiagonal_solve_abstract_eval(dl: ShapedArray, d: ShapedArray, du: ShapedArray, b):
    check_dtype("tridiagonal_solve", b)
    if not dl.shape == d.shape == du.shape == b.shape[:-1] or not d.ndim:
        raise ShapeError(
            "tridiagonal_solve: the diagonals must have shape (..., n) and b (..., n, k), got "
            f"{dl}, {d}, {du} and {b}."
        )
    return (ShapedArray(b.shape, b.dtype),)


def _shifted(x: Any, by: int, axis: int) -> Any:
    """Elements moved along an axis by 1 or -1, with 0 for the one that comes in."""
    n = x.shape[axis]
    if not n:
        return x
    edge = zeros_of((*x.shape[:axis], 1, *x.shape[axis + 1 :]), x.dtype)
    if by == 1:
        return concatenate_p.bind1(edge, slice_in_dim(x, 0, n - 1, axis=axis), dimension=axis)
    return concatenate_p.bind1(slice_in_dim(x, 1, n, axis=axis), edge, dimension=axis)


@tridiagonal_solve_p.def_jvp(symbolic_zeros=True)
def _tridiagonal_solve_jvp(primals, tangents):
    *diagonals, _ = primals
    *d_diagonals, db = tangents
    x = tridiagonal_solve_p.bind1(*primals)
    rows = x.ndim - 2
    right = None if db.__class__ is Zero else db
    for t, by in zip(d_diagonals, (1, 0, -1), strict=True):
        if t.__class__ is Zero:
            continue
        # Row i of the lower diagonal meets x[i - 1], of the upper one x[i + 1].
        neighbour = _shifted(x, by, rows) if by else x
        spread = broadcast_to_shape(expand_dims(t, -1), x.shape)
        moved = neg_p.bind1(scaled(spread, neighbour))
        right = moved if right is None else add_p.bind1(right, moved)
    if right is None:
        return (x,), (Zero(x.aval),)
    return (x,), tridiagonal_solve_p.bind(*diagonals, right)


@tridiagonal_solve_p.def_transpose
def _tridiagonal_solve_transpose(cts, dl, d, du, b):
    axis = d.ndim - 1
    return (
        None,
        None,
        None,
        tridiagonal_solve_p.bind1(_shifted(du, 1, axis), d, _shifted(dl, -1, axis), cts[0]),
    )


@tridiagonal_solve_p.def_batch
def _tridiagonal_solve_batch(args, bdims):
    *diagonals, b = args
    if all(x is None for x in bdims[:-1]):
        return merged_columns(
            functools.partial(tridiagonal_solve_p.bind1, *diagonals), b, bdims[-1]
        )
    return tridiagonal_solve_p.bind(*in_front(args, bdims)), (0,)
