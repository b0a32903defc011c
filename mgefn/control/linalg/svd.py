"""Singular value decomposition.

Source for its derivative: Giles (2008), Collected matrix derivative results for forward and reverse
mode algorithmic differentiation, section 3.3; Townsend (2016), Differentiating the singular value
decomposition.
"""

from __future__ import annotations

import enum
from typing import Any

from mgefn import dtypes
from mgefn.control.linalg.matrices import (
    adjoint,
    check_rank,
    define_stacked_batch,
    diagonal,
    eye,
    from_triangle,
    matmul,
    matrices,
    scaled,
)
from mgefn.control.linalg.spread import spread
from mgefn.core.array import scalar
from mgefn.core.array_methods import ArrayLike
from mgefn.core.avals import ShapedArray, Zero
from mgefn.core.primitive import Primitive
from mgefn.errors import ArgumentError, UnsupportedError, api_boundary
from mgefn.ops.elementwise import add_p, neg_p, real, sub_p, where
from mgefn.ops.shaping import expand_dims, slice_in_dim

# operand: [..., m, n]. params: full_matrices; compute_uv. outputs: u [..., m, k], s [..., l],
# vh [..., k, n] with l = min(m, n), or s alone; k is l, or m and n for full matrices
svd_p = Primitive("svd", weak_result=False)
svd_p.no_rule("transpose", "not linear")
define_stacked_batch(svd_p)


class SvdAlgorithm(enum.Enum):
    """jax.lax.linalg's choices; LAPACK's divide and conquer is the only one here."""

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


@api_boundary
def svd(
    x: ArrayLike,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: Any = None,
) -> Any:
    """Singular value decomposition x = u diag(s) vh, as jax.lax.linalg.svd.

    Derivatives of u and vh exist where singular values differ and, for full matrices, x is square.

    Args:
        x: shape (..., m, n).
        full_matrices: u and vh are square. False: they have min(m, n) columns and rows.
        compute_uv: False: the singular values alone.
        subset_by_index: (start, stop) of the singular values to return, in their order.
        algorithm: taken for the sake of ported programs.

    Returns:
        (u, s, vh), or s; s is real and descending.

    Raises:
        ShapeError: x has rank below 2. DTypeError: half precision.
        ArgumentError: full_matrices with a subset.
    """
    (a,) = matrices("svd", x)
    count = min(a.shape[-2:])
    part = subset_by_index
    if part is not None and full_matrices and compute_uv and tuple(part) != (0, count):
        raise ArgumentError("svd: subset_by_index needs full_matrices=False, got True. Pass False.")
    outs = svd_p.bind(a, full_matrices=bool(full_matrices), compute_uv=bool(compute_uv))
    if part is None or tuple(part) == (0, count):
        return tuple(outs) if compute_uv else outs[0]
    start, stop = part
    if not compute_uv:
        return slice_in_dim(outs[0], start, stop, axis=-1)
    u, s, vh = outs
    return (
        slice_in_dim(u, start, stop, axis=-1),
        slice_in_dim(s, start, stop, axis=-1),
        slice_in_dim(vh, start, stop, axis=-2),
    )


@svd_p.def_abstract_eval
def _svd_abstract_eval(a: ShapedArray, *, full_matrices, compute_uv):
    check_rank("svd", a)
    *lead, m, n = a.shape
    count = min(m, n)
    s = ShapedArray((*lead, count), dtypes.real_part_dtype(a.dtype))
    if not compute_uv:
        return (s,)
    return (
        ShapedArray((*lead, m, m if full_matrices else count), a.dtype),
        s,
        ShapedArray((*lead, n if full_matrices else count, n), a.dtype),
    )


@svd_p.def_jvp
def _svd_jvp(primals, tangents, *, full_matrices, compute_uv):
    (a,), (da,) = primals, tangents
    m, n = a.shape[-2:]
    if full_matrices and compute_uv and m != n:
        raise UnsupportedError(
            f"svd: has no derivative with full_matrices=True for {a.aval}, because the columns "
            "that complete the square matrix are arbitrary. Pass full_matrices=False."
        )
    u, s, vh = svd_p.bind(a, full_matrices=False, compute_uv=True)
    uh, v = adjoint(u), adjoint(vh)
    inner = matmul(matmul(uh, da), v)
    ds = real(diagonal(inner, 0, -2, -1))
    if not compute_uv:
        return (s,), (ds,)
    s, inverse_difference = spread(s)
    # inner = turn_u S + dS - S turn_v with skew-Hermitian turns: its Hermitian part gives their
    # sum by the differences of singular values, its skew part their difference by the sums.
    one, zero = scalar(1, s.dtype), scalar(0, s.dtype)
    sums = expand_dims(s, -2) + expand_dims(s, -1)
    positive = sums > zero
    inverse_sum = where(positive, one / where(positive, sums, one), zero)
    same = eye(s.shape[-1], s.dtype)
    across = inverse_sum * (one - same)
    # On the diagonal only turn_u - turn_v is fixed; u takes all of it.
    along = inverse_sum * same * 2
    flipped = adjoint(inner)
    by_difference = skew(scaled(add_p.bind1(inner, flipped), inverse_difference * 0.5))
    skew_part = sub_p.bind1(inner, flipped)
    by_sum = scaled(skew_part, across * 0.5)
    turn_u = add_p.bind1(by_difference, by_sum)
    if dtypes.is_complex(a.dtype):
        turn_u = add_p.bind1(turn_u, scaled(skew_part, along * 0.5))
    turn_v = sub_p.bind1(by_difference, by_sum)
    du, dv = matmul(u, turn_u), matmul(v, turn_v)
    inverse = expand_dims(where(s > zero, one / where(s > zero, s, one), zero), -2)
    if m > n:
        image = matmul(da, v)
        outside = sub_p.bind1(image, matmul(u, matmul(uh, image)))
        du = add_p.bind1(du, scaled(outside, inverse))
    if n > m:
        image = matmul(adjoint(da), u)
        outside = sub_p.bind1(image, matmul(v, matmul(vh, image)))
        dv = add_p.bind1(dv, scaled(outside, inverse))
    return (u, s, vh), (du, ds, adjoint(dv))


def skew(x: Any) -> Any:
    """x itself, which is skew-Hermitian; transposed, the skew part is taken before large slopes."""
    half = scalar(0.5, x.dtype)
    return scaled(sub_p.bind1(x, adjoint(x)), half)


# -- pinv -----------------------------------------------------------------------------------------

# operands: a [..., m, n]; rtol [...], real: singular values up to rtol times the largest count as
# 0. params: hermitian, a is and its lower triangle is read. output: [..., n, m]
pinv_p = Primitive("pinv", weak_result=False)
pinv_p.no_rule("transpose", "not linear")
define_stacked_batch(pinv_p)


@pinv_p.def_abstract_eval
def _pinv_abstract_eval(a: ShapedArray, rtol: ShapedArray, *, hermitian):
    check_rank("pinv", a)
    *lead, m, n = a.shape
    return (ShapedArray((*lead, n, m), a.dtype),)


@pinv_p.def_jvp(symbolic_zeros=True)
def _pinv_jvp(primals, tangents, *, hermitian):
    # Golub and Pereyra (1973), SIAM J. Numer. Anal. 10(2), equation 4.12: while the rank stays.
    (a, rtol), da = primals, tangents[0]
    p = pinv_p.bind1(a, rtol, hermitian=hermitian)
    if da.__class__ is Zero:
        return (p,), (Zero(p.aval),)
    if hermitian:
        da, a = from_triangle(da, lower=True), from_triangle(a, lower=True)
    m, n = a.shape[-2:]
    ph, dah = adjoint(p), adjoint(da)
    rows = eye(m, a.dtype, a.shape[:-2]) - matmul(a, p)
    columns = eye(n, a.dtype, a.shape[:-2]) - matmul(p, a)
    dp = neg_p.bind1(matmul(matmul(p, da), p))
    dp = add_p.bind1(dp, matmul(matmul(matmul(p, ph), dah), rows))
    return (p,), (add_p.bind1(dp, matmul(matmul(columns, dah), matmul(ph, p))),)
