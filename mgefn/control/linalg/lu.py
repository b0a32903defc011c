"""LU decomposition with partial pivoting, general systems, determinants.

Sources for derivatives: de Hoog, Anderssen, Lukas (2011), Differentiation of matrix functionals
using triangular factorization, Math. Comp. 80(275); the determinant's are sums of minors, formed
from singular values without a division, so they hold for singular matrices.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.control.linalg.matrices import (
    adjoint,
    check_rank,
    check_square,
    define_stacked_batch,
    diagonal,
    eye,
    in_front,
    matmul,
    matrices,
    matrix_transpose,
    on_diagonal,
    scaled,
    tril,
    triu,
)
from mgefn.control.linalg.svd import svd_p
from mgefn.control.linalg.triangular import merged_columns, triangular_solve_p
from mgefn.core.array import as_array, scalar
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.core.avals import ShapedArray, Zero
from mgefn.core.primitive import Primitive
from mgefn.errors import DTypeError, ShapeError, api_boundary
from mgefn.ops.cumulative import cumprod_along
from mgefn.ops.elementwise import add_p, conj, convert, neg_p, stop_gradient_p, where
from mgefn.ops.reductions import reduce_sum_p
from mgefn.ops.shaping import (
    broadcast_to_shape,
    broadcasted_iota,
    concatenate_p,
    expand_dims,
    pad_p,
    rev,
    slice_in_dim,
)
from mgefn.ops.sorting import take_along_p

_INT32 = np.dtype(np.int32)

# -- lu -------------------------------------------------------------------------------------------

# operand: [..., m, n]; outputs: L below the diagonal and U on and above it, [..., m, n]; pivots,
# int32 [..., min(m, n)], the row that step i exchanges with row i; permutation, int32 [..., m],
# with a[permutation] = L U
lu_p = Primitive("lu", weak_result=False)
lu_p.no_rule("transpose", "not linear")
define_stacked_batch(lu_p)


@api_boundary
def lu(x: ArrayLike) -> tuple[Array, Array, Array]:
    """LU decomposition with partial pivoting: x[permutation] = L U, as jax.lax.linalg.lu.

    Args:
        x: shape (..., m, n).

    Returns:
        lu: x's shape, L below the diagonal (its own diagonal is ones) and U on and above it.
        pivots: int32 (..., min(m, n)); step i exchanges rows i and pivots[i].
        permutation: int32 (..., m); the rows' order after all exchanges.

    Raises:
        ShapeError: x has rank below 2. DTypeError: half precision.
    """
    (a,) = matrices("lu", x)
    return tuple(lu_p.bind(a))  # type: ignore[return-value]  # three outputs


@lu_p.def_abstract_eval
def _lu_abstract_eval(a: ShapedArray):
    check_rank("lu", a)
    *lead, m, n = a.shape
    return (
        ShapedArray(a.shape, a.dtype),
        ShapedArray((*lead, min(m, n)), _INT32),
        ShapedArray((*lead, m), _INT32),
    )


@lu_p.def_jvp
def _lu_jvp(primals, tangents):
    (a,), (da,) = primals, tangents
    factors, pivots, permutation = lu_p.bind(a)
    *lead, m, n = a.shape
    k = min(m, n)
    lower = _padded(tril(slice_in_dim(factors, 0, k, axis=-1), -1), m, m)
    lower = lower + eye(m, a.dtype, lead)
    upper = _padded(triu(slice_in_dim(factors, 0, k, axis=-2)), n, n)
    if n > k:
        # Where U has no rows, those of the identity make it invertible.
        rest = convert(broadcasted_iota(_INT32, (n,), 0) >= k, a.dtype)
        upper = upper + broadcast_to_shape(on_diagonal(rest), upper.shape)
    index = broadcast_to_shape(expand_dims(permutation, -1), a.shape)
    da = take_along_p.bind1(da, index, dimension=a.ndim - 2, unique=True)
    # L**-1 da U**-1 = L**-1 dL + dU U**-1: strictly lower plus upper triangular.
    inner = _solve(lower, da, left_side=True, lower=True, unit_diagonal=True)
    inner = _solve(upper, inner, left_side=False, lower=False)
    d_factors = add_p.bind1(matmul(lower, tril(inner, -1)), matmul(triu(inner), upper))
    return (factors, pivots, permutation), (d_factors, Zero(pivots.aval), Zero(permutation.aval))


def _solve(a: Any, b: Any, left_side: bool, lower: bool, unit_diagonal: bool = False) -> Any:
    return triangular_solve_p.bind1(
        a,
        b,
        left_side=left_side,
        lower=lower,
        transpose_a=False,
        conjugate_a=False,
        unit_diagonal=unit_diagonal,
    )


def _padded(x: Any, m: int, n: int) -> Any:
    """Zeros below and to the right, up to m rows and n columns."""
    *lead, rows, columns = x.shape
    config = (*((0, 0, 0) for _ in lead), (0, m - rows, 0), (0, n - columns, 0))
    return pad_p.bind1(x, scalar(0, x.dtype), padding_config=config)


# -- lu_pivots_to_permutation ---------------------------------------------------------------------

# operand: pivots [..., k] of an integer dtype; params: permutation_size
lu_pivots_to_permutation_p = Primitive("lu_pivots_to_permutation", constant=True, weak_result=False)
lu_pivots_to_permutation_p.no_rule("transpose", "integer output")
define_stacked_batch(lu_pivots_to_permutation_p)


@api_boundary
def lu_pivots_to_permutation(pivots: ArrayLike, permutation_size: int) -> Array:
    """The order of rows after the exchanges that LU's pivots stand for.

    Args:
        pivots: integers, shape (..., k); step i exchanges rows i and pivots[i].
        permutation_size: how many rows, at least k.

    Returns:
        Integers of shape (..., permutation_size).

    Raises:
        ShapeError: fewer rows than pivots. DTypeError: pivots are no integers.
    """
    x = as_array(pivots, "lu_pivots_to_permutation")
    out = lu_pivots_to_permutation_p.out_avals(
        [x.aval], {"permutation_size": int(permutation_size)}
    )
    assert out  # evaluation does not check, so what the user wrote was checked here
    return lu_pivots_to_permutation_p.bind1(x, permutation_size=int(permutation_size))


@lu_pivots_to_permutation_p.def_abstract_eval
def _lu_pivots_to_permutation_abstract_eval(pivots: ShapedArray, *, permutation_size):
    name = "lu_pivots_to_permutation"
    if not dtypes.is_integer(pivots.dtype):
        raise DTypeError(f"{name}: pivots must be integers, got {pivots}. Cast them with astype.")
    if not pivots.ndim or pivots.shape[-1] > permutation_size:
        raise ShapeError(
            f"{name}: needs at most permutation_size={permutation_size} pivots, got {pivots}."
        )
    return (ShapedArray((*pivots.shape[:-1], permutation_size), pivots.dtype),)


# -- solve ----------------------------------------------------------------------------------------

# operands: a [..., n, n]; then perhaps the lu and pivots of a, so that a system and its transpose
# are solved with one decomposition; b [..., n, k]. The derivative goes by a, never by the factors.
# params: transpose_a
solve_p = Primitive("solve", weak_result=False)


def solve_matrices(a: Any, b: Any) -> Any:
    """x with a x = b for arrays of one dtype, shapes (..., n, n) and (..., n, k)."""
    if a.ndim == 2:
        factors, pivots, _ = lu_p.bind(stop_gradient_p.bind1(a))
        return solve_p.bind1(a, factors, pivots, b, transpose_a=False)
    # For stacks of matrices LAPACK's driver for whole systems is called once for all of them.
    return solve_p.bind1(a, b, transpose_a=False)


@solve_p.def_abstract_eval
def _solve_abstract_eval(a: ShapedArray, *rest: ShapedArray, transpose_a):
    check_square("solve", a)
    b = rest[-1]
    if b.shape[:-1] != a.shape[:-1]:
        raise ShapeError(f"solve: b must have as many rows as a, got a {a} and b {b}.")
    return (ShapedArray(b.shape, b.dtype),)


@solve_p.def_jvp(symbolic_zeros=True)
def _solve_jvp(primals, tangents, *, transpose_a):
    *known, _ = primals
    da, db = tangents[0], tangents[-1]
    x = solve_p.bind1(*primals, transpose_a=transpose_a)
    right = None if db.__class__ is Zero else db
    if da.__class__ is not Zero:
        moved = neg_p.bind1(matmul(matrix_transpose(da) if transpose_a else da, x))
        right = moved if right is None else add_p.bind1(right, moved)
    if right is None:
        return (x,), (Zero(x.aval),)
    return (x,), solve_p.bind(*known, right, transpose_a=transpose_a)


@solve_p.def_transpose
def _solve_transpose(cts, *args, transpose_a):
    *known, _ = args
    ct = solve_p.bind1(*known, cts[0], transpose_a=not transpose_a)
    return *(None for _ in known), ct


@solve_p.def_batch
def _solve_batch(args, bdims, *, transpose_a):
    *known, b = args
    if all(d is None for d in bdims[:-1]):
        solve = functools.partial(solve_p.bind1, *known, transpose_a=transpose_a)
        return merged_columns(solve, b, bdims[-1])
    pair = in_front((args[0], b), (bdims[0], bdims[-1])) if bdims[0] is not None else None
    if pair is None:
        pair = in_front(args, bdims)
    return solve_p.bind(*pair, transpose_a=transpose_a), (0,)


# -- det ------------------------------------------------------------------------------------------

det_p = Primitive("det", weak_result=False)  # operand: [..., n, n]
det_p.no_rule("transpose", "not linear")
define_stacked_batch(det_p)

# The derivatives of the determinant by each element, [..., n, n] like the operand
cofactor_p = Primitive("cofactor", weak_result=False)
cofactor_p.no_rule("transpose", "not linear")
define_stacked_batch(cofactor_p)


@det_p.def_abstract_eval
def _det_abstract_eval(a: ShapedArray):
    check_square("det", a)
    return (ShapedArray(a.shape[:-2], a.dtype),)


@det_p.def_jvp
def _det_jvp(primals, tangents):
    (a,), (da,) = primals, tangents
    products = scaled(da, cofactor_p.bind1(a))
    return det_p.bind(a), reduce_sum_p.bind(products, axes=(a.ndim - 2, a.ndim - 1))


@cofactor_p.def_abstract_eval
def _cofactor_abstract_eval(a: ShapedArray):
    check_square("cofactor", a)
    return (ShapedArray(a.shape, a.dtype),)


@cofactor_p.def_jvp
def _cofactor_jvp(primals, tangents):
    (a,), (da,) = primals, tangents
    cofactors = cofactor_p.bind1(a)
    n = a.shape[-1]
    if n < 2:
        return (cofactors,), (scaled(da, scalar(0, a.dtype)),)
    # With a = U S V^H and Y = U^H da V the tangent in these bases is, with p_ij the product of the
    # singular values but the i-th and j-th: -p_ij Y_ji off the diagonal, and on it the sum over
    # k != i of p_ik Y_kk.
    u, s, vh = svd_p.bind(a, full_matrices=False, compute_uv=True)
    inner = matmul(matmul(adjoint(u), da), adjoint(vh))
    p = _products_of_others(s)
    across = neg_p.bind1(scaled(matrix_transpose(inner), p))
    along = matmul(convert(p, a.dtype), expand_dims(diagonal(inner, 0, -2, -1), -1))
    in_bases = add_p.bind1(across, scaled(broadcast_to_shape(along, a.shape), eye(n, a.dtype)))
    phase = expand_dims(det_p.bind1(u) * det_p.bind1(vh), (-2, -1))
    out = matmul(matmul(conj(u), in_bases), conj(vh))
    return (cofactors,), (scaled(out, phase),)


def _products_of_others(s: Any) -> Any:
    """p[i, j]: the product of all s but those at i and j, and 0 on the diagonal."""
    *lead, n = s.shape
    one = scalar(1, s.dtype)
    ones = broadcast_to_shape(one, (*lead, 1))

    def before(x: Any) -> Any:
        """The products of all earlier elements."""
        earlier = slice_in_dim(cumprod_along(x, x.ndim - 1), 0, n - 1, axis=-1)
        return concatenate_p.bind1(ones, earlier, dimension=x.ndim - 1)

    axis = s.ndim - 1
    first, last = before(s), rev(before(rev(s, (axis,))), (axis,))
    row, column = (broadcasted_iota(_INT32, (n, n), d) for d in (0, 1))
    spread = broadcast_to_shape(expand_dims(s, -2), (*lead, n, n))
    # In row i: the products of the elements after i and before each column.
    after = where(broadcast_to_shape(column > row, spread.shape), spread, one)
    running = cumprod_along(after, axis + 1)
    shifted = slice_in_dim(running, 0, n - 1, axis=-1)
    edge = broadcast_to_shape(one, (*lead, n, 1))
    between = concatenate_p.bind1(edge, shifted, dimension=axis + 1)
    upper = triu(expand_dims(first, -1) * between * expand_dims(last, -2), 1)
    return upper + matrix_transpose(upper)
