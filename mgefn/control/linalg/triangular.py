"""Triangular systems and Cholesky's decomposition.

Source for its derivative: Murray (2016), Differentiation of the Cholesky decomposition,
arXiv:1602.07527.
"""

from __future__ import annotations

import functools
from typing import Any

from mgefn import dtypes
from mgefn.control.linalg.matrices import (
    adjoint,
    check_square,
    define_stacked_batch,
    eye,
    from_triangle,
    in_front,
    matmul,
    matrices,
    matrix_transpose,
    scaled,
    tril,
    triu,
)
from mgefn.core.array import scalar
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.core.avals import ShapedArray, Zero
from mgefn.core.primitive import Primitive
from mgefn.errors import ShapeError, api_boundary
from mgefn.ops.elementwise import add_p, conj, neg_p
from mgefn.ops.shaping import expand_dims, moveaxis, reshape, squeeze

# -- triangular_solve -----------------------------------------------------------------------------

# operands: a [..., n, n]; b [..., n, k], or [..., k, n] where left_side is False. Solves
# op(a) x = b or x op(a) = b. params: left_side; lower; transpose_a; conjugate_a; unit_diagonal
triangular_solve_p = Primitive("triangular_solve", weak_result=False)


@api_boundary
def triangular_solve(
    a: ArrayLike,
    b: ArrayLike,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """Solve op(a) x = b (left_side) or x op(a) = b for x with triangular matrices a.

    Args:
        a: shape (..., n, n); the other triangle is not read.
        b: shape (..., n, k), or (..., k, n) where left_side is False, with a's leading dimensions;
            or one dimension less than a, for one column (or row).
        left_side: on which side of x the matrix stands.
        lower: a is lower triangular; False: upper.
        transpose_a: op transposes.
        conjugate_a: op conjugates.
        unit_diagonal: take the diagonal for ones without reading it.

    Returns:
        Array of b's shape. Where the diagonal has a 0 it holds infinities and NaN.

    Raises:
        ShapeError: the sizes do not fit. DTypeError: half precision.
    """
    name = "triangular_solve"
    one = getattr(b, "ndim", None) == getattr(a, "ndim", 0) - 1
    if one:
        b = expand_dims(b, -1 if left_side else -2)
    x, y = matrices(name, a, b, square=1)
    _check_system(name, x.aval, y.aval, left_side)
    out = triangular_solve_p.bind1(
        x,
        y,
        left_side=bool(left_side),
        lower=bool(lower),
        transpose_a=bool(transpose_a),
        conjugate_a=bool(conjugate_a) and dtypes.is_complex(x.dtype),
        unit_diagonal=bool(unit_diagonal),
    )
    return squeeze(out, -1 if left_side else -2) if one else out


def _check_system(name: str, a: ShapedArray, b: ShapedArray, left_side: bool) -> None:
    axis = -2 if left_side else -1
    if a.shape[:-2] != b.shape[:-2] or a.shape[-1] != b.shape[axis]:
        raise ShapeError(
            f"{name}: a and b must have the same leading dimensions, and b.shape[{axis}] the size "
            f"of a, got a {a} and b {b}. Broadcast or transpose one of them."
        )


@triangular_solve_p.def_abstract_eval
def _triangular_solve_abstract_eval(a: ShapedArray, b: ShapedArray, *, left_side, **params):
    check_square("triangular_solve", a)
    _check_system("triangular_solve", a, b, left_side)
    return (ShapedArray(b.shape, b.dtype),)


@triangular_solve_p.def_jvp(symbolic_zeros=True)
def _triangular_solve_jvp(primals, tangents, **params):
    (a, b), (da, db) = primals, tangents
    x = triangular_solve_p.bind1(a, b, **params)
    # op(a) x = b, so op(a) dx = db - op(da) x.
    right = None if db.__class__ is Zero else db
    if da.__class__ is not Zero:
        k = 1 if params["unit_diagonal"] else 0
        da = tril(da, -k) if params["lower"] else triu(da, k)
        da = matrix_transpose(da) if params["transpose_a"] else da
        da = conj(da) if params["conjugate_a"] else da
        moved = neg_p.bind1(matmul(da, x) if params["left_side"] else matmul(x, da))
        right = moved if right is None else add_p.bind1(right, moved)
    if right is None:
        return (x,), (Zero(x.aval),)
    return (x,), triangular_solve_p.bind(a, right, **params)


@triangular_solve_p.def_transpose
def _triangular_solve_transpose(cts, a, b, *, transpose_a, **params):
    # The transpose of b -> op(a)**-1 b is ct -> op(a)**-T ct, without conjugation.
    return None, *triangular_solve_p.bind(a, cts[0], transpose_a=not transpose_a, **params)


@triangular_solve_p.def_batch
def _triangular_solve_batch(args, bdims, *, left_side, **params):
    (a, b), (a_bdim, b_bdim) = args, bdims
    if a_bdim is None:
        # One matrix, more right-hand sides: the batch becomes columns (or rows).
        solve = functools.partial(triangular_solve_p.bind1, a, left_side=left_side, **params)
        return merged_columns(solve, b, b_bdim, left_side)
    outs = triangular_solve_p.bind(*in_front(args, bdims), left_side=left_side, **params)
    return outs, (0,)


def merged_columns(solve: Any, b: Any, bdim: int, left_side: bool = True) -> tuple:
    """A batch of right-hand sides solved as one with more columns (or rows)."""
    at = b.ndim - 2 if left_side else b.ndim - 3  # in front of the columns, or of the rows
    b = moveaxis(b, bdim, at)
    shape = b.shape
    flat = reshape(b, (*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :]))
    return (reshape(solve(flat), shape),), (at,)


# -- cholesky -------------------------------------------------------------------------------------

# operand: [..., n, n], whose lower triangle is read; output: the lower factor, 0 above the diagonal
cholesky_p = Primitive("cholesky", weak_result=False)
cholesky_p.no_rule("transpose", "not linear")
define_stacked_batch(cholesky_p)


@api_boundary
def cholesky(x: ArrayLike, *, symmetrize_input: bool = True) -> Array:
    """The lower triangular L with L L^H = x, for positive definite x, as jax.lax.linalg.cholesky.

    Args:
        x: shape (..., n, n).
        symmetrize_input: take (x + x^H) / 2 for x. False: read the lower triangle only.

    Returns:
        Array of x's shape; NaN where the matrix is not positive definite.

    Raises:
        ShapeError: x is not square. DTypeError: half precision.
    """
    (a,) = matrices("cholesky", x, square=1)
    return cholesky_p.bind1(symmetrized(a) if symmetrize_input else a)


def symmetrized(a: Any) -> Any:
    return (a + adjoint(a)) * 0.5


@cholesky_p.def_abstract_eval
def _cholesky_abstract_eval(a: ShapedArray):
    check_square("cholesky", a)
    return (ShapedArray(a.shape, a.dtype),)


@cholesky_p.def_jvp
def _cholesky_jvp(primals, tangents):
    factor = cholesky_p.bind1(primals[0])
    # L**-1 dA L**-H is Hermitian, and its lower triangle with half the diagonal is L**-1 dL.
    inner = _solve(factor, from_triangle(tangents[0], lower=True), left_side=True)
    inner = _solve(factor, inner, left_side=False, adjoint_a=True)
    n = factor.shape[-1]
    half = scalar(1, factor.dtype) - eye(n, factor.dtype) * 0.5
    return (factor,), (matmul(factor, scaled(tril(inner), half)),)


def _solve(a: Any, b: Any, left_side: bool, adjoint_a: bool = False) -> Any:
    return triangular_solve_p.bind1(
        a,
        b,
        left_side=left_side,
        lower=True,
        transpose_a=adjoint_a,
        conjugate_a=adjoint_a and dtypes.is_complex(a.dtype),
        unit_diagonal=False,
    )


@api_boundary
def cholesky_update(r_matrix: ArrayLike, w_vector: ArrayLike) -> Array:
    """The upper triangular factor of r^T r + w w^T, from that of r^T r.

    Args:
        r_matrix: shape (..., n, n), upper triangular and real.
        w_vector: shape (..., n).

    Returns:
        Array of r_matrix's shape with a positive diagonal.

    Raises:
        ShapeError: the sizes do not fit.
    """
    r, w = matrices("cholesky_update", r_matrix, expand_dims(w_vector, -2), square=1)
    if r.shape[:-2] != w.shape[:-2] or r.shape[-1] != w.shape[-1]:
        raise ShapeError(
            f"cholesky_update: w_vector must have the size of r_matrix, got {r.aval} and {w.aval}."
        )
    r = triu(r)
    product = matmul(adjoint(r), r) + matmul(adjoint(w), w)
    return adjoint(cholesky(product, symmetrize_input=False))


@api_boundary
def symmetric_product(
    a_matrix: ArrayLike,
    c_matrix: ArrayLike,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    symmetrize_output: bool = False,
) -> Array:
    """alpha a a^T + beta c for symmetric c.

    Args:
        a_matrix: shape (..., m, n).
        c_matrix: shape (..., m, m).
        alpha: factor of the product.
        beta: factor of c.
        symmetrize_output: take the upper triangle from the lower one.

    Returns:
        Array of c's shape.
    """
    c, a = matrices("symmetric_product", c_matrix, a_matrix, square=1)
    out = matmul(a, matrix_transpose(a)) * alpha + c * beta
    return tril(out) + matrix_transpose(tril(out, -1)) if symmetrize_output else out
