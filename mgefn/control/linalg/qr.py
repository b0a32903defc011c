"""QR decomposition.

Sources for derivatives: Walter and Lehmann (2010); Townsend, Differentiating the QR decomposition
(j-towns.github.io/papers/qr-derivative.pdf); for the complete factor arXiv:2409.13374.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.control.linalg.lu import solve_matrices
from mgefn.control.linalg.matrices import (
    adjoint,
    check_rank,
    define_stacked_batch,
    diagonal,
    eye,
    matmul,
    matrices,
    on_diagonal,
    tril,
    zeros_of,
)
from mgefn.control.linalg.triangular import triangular_solve_p
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.core.avals import ShapedArray, Zero
from mgefn.core.primitive import Primitive
from mgefn.errors import ShapeError, api_boundary
from mgefn.ops.elementwise import add_p, complex_p, imag_p, neg_p, sub_p
from mgefn.ops.shaping import (
    broadcast_to_shape,
    concatenate_p,
    expand_dims,
    full_like_aval,
    slice_in_dim,
)
from mgefn.ops.sorting import take_along_p

# operand: [..., m, n]. params: pivoting; full_matrices. outputs: q [..., m, k]; r [..., k, n]; with
# pivoting the columns' order, int32 [..., n]. k is m for full matrices, else min(m, n)
qr_p = Primitive("qr", weak_result=False)
qr_p.no_rule("transpose", "not linear")
define_stacked_batch(qr_p)

# operand: [..., m, n]; outputs: R with the reflectors below it, [..., m, n]; their factors
# [..., min(m, n)]
geqrf_p = Primitive("geqrf", weak_result=False, called="qr with mode='raw'")
geqrf_p.no_rule("jvp", "reflectors have none; use mode='reduced'")
geqrf_p.no_rule("transpose", "not linear")
define_stacked_batch(geqrf_p)

# operands: reflectors below the diagonal of a [..., m, n]; their factors [..., k], k <= n
householder_product_p = Primitive("householder_product", weak_result=False)
householder_product_p.no_rule("jvp", "reflectors have none; use qr")
householder_product_p.no_rule("transpose", "not linear")
define_stacked_batch(householder_product_p)


@api_boundary
def qr(x: ArrayLike, *, pivoting: bool = False, full_matrices: bool = True) -> tuple[Array, ...]:
    """QR decomposition x = q r, as jax.lax.linalg.qr.

    Args:
        x: shape (..., m, n).
        pivoting: reorder the columns so that r's diagonal does not grow: x[:, p] = q r.
        full_matrices: q is square. False: it has min(m, n) columns.

    Returns:
        (q, r), or (q, r, p) with p the int32 order of columns.

    Raises:
        ShapeError: x has rank below 2. DTypeError: half precision.
    """
    (a,) = matrices("qr", x)
    return tuple(qr_p.bind(a, pivoting=bool(pivoting), full_matrices=bool(full_matrices)))


@api_boundary
def householder_product(a: ArrayLike, taus: ArrayLike) -> Array:
    """The first n columns of the product of elementary reflectors, as LAPACK's geqrf leaves them.

    Args:
        a: shape (..., m, n), n <= m, with the reflectors below its diagonal.
        taus: shape (..., k), k <= n, their factors.

    Returns:
        Array of a's shape with orthonormal columns.

    Raises:
        ShapeError: the sizes do not fit.
    """
    x, t = matrices("householder_product", a, expand_dims(taus, -1))
    t = t[..., 0]
    householder_product_p.out_avals([x.aval, t.aval], {})
    return householder_product_p.bind1(x, t)


@householder_product_p.def_abstract_eval
def _householder_product_abstract_eval(a: ShapedArray, taus: ShapedArray):
    check_rank("householder_product", a)
    *lead, m, n = a.shape
    if taus.shape[:-1] != tuple(lead) or not taus.shape[-1] <= n <= m:
        raise ShapeError(
            "householder_product: needs a of shape (..., m, n) and taus of shape (..., k) with "
            f"k <= n <= m, got a {a} and taus {taus}."
        )
    return (ShapedArray(a.shape, a.dtype),)


@geqrf_p.def_abstract_eval
def _geqrf_abstract_eval(a: ShapedArray):
    *lead, m, n = a.shape
    return ShapedArray(a.shape, a.dtype), ShapedArray((*lead, min(m, n)), a.dtype)


@qr_p.def_abstract_eval
def _qr_abstract_eval(a: ShapedArray, *, pivoting, full_matrices):
    check_rank("qr", a)
    *lead, m, n = a.shape
    k = m if full_matrices else min(m, n)
    outs = ShapedArray((*lead, m, k), a.dtype), ShapedArray((*lead, k, n), a.dtype)
    return (*outs, ShapedArray((*lead, n), np.dtype(np.int32))) if pivoting else outs


@qr_p.def_jvp
def _qr_jvp(primals, tangents, *, pivoting, full_matrices):
    (a,), (da,) = primals, tangents
    outs = qr_p.bind(a, pivoting=pivoting, full_matrices=full_matrices)
    q, r = outs[:2]
    *lead, m, n = a.shape
    axis = a.ndim - 1
    if pivoting:
        index = broadcast_to_shape(expand_dims(outs[2], -2), a.shape)
        da = take_along_p.bind1(da, index, dimension=axis, unique=True)
    if m < n:
        # The left square is a QR decomposition of its own, and the rest is R2 = Q^H A2 = Q^H Q R2.
        dq, dr1 = _thin_tangents(q, slice_in_dim(r, 0, m, axis=-1), slice_in_dim(da, 0, m, axis=-1))
        r2, da2 = slice_in_dim(r, m, n, axis=-1), slice_in_dim(da, m, n, axis=-1)
        dr2 = add_p.bind1(matmul(matmul(adjoint(dq), q), r2), matmul(adjoint(q), da2))
        dr = concatenate_p.bind1(dr1, dr2, dimension=axis)
    elif m == n or not full_matrices:
        dq, dr = _thin_tangents(q, r, da)
    else:
        q1, q2 = slice_in_dim(q, 0, n, axis=-1), slice_in_dim(q, n, m, axis=-1)
        dq1, dr1 = _thin_tangents(q1, slice_in_dim(r, 0, n, axis=-2), da)
        dq2 = _complement_tangent(q1, q2, dq1)
        dq = concatenate_p.bind1(dq1, dq2, dimension=axis)
        below = zeros_of((*lead, m - n, n), a.dtype)
        dr = concatenate_p.bind1(dr1, below, dimension=axis - 1)
    return outs, (dq, dr, Zero(outs[2].aval)) if pivoting else (dq, dr)


def _thin_tangents(q: Any, r: Any, da: Any) -> tuple[Any, Any]:
    """Tangents of q [m, n] and r [n, n] for m >= n."""
    da_r = triangular_solve_p.bind1(
        r,
        da,
        left_side=False,
        lower=False,
        transpose_a=False,
        conjugate_a=False,
        unit_diagonal=False,
    )
    inner = matmul(adjoint(q), da_r)
    # q^H dq is skew-Hermitian, and what is below the diagonal of `inner` belongs to it.
    below = tril(inner, -1)
    turn = sub_p.bind1(below, adjoint(below))
    if dtypes.is_complex(inner.dtype):
        # r's diagonal stays real, so the imaginary part on the diagonal turns q.
        part = imag_p.bind1(diagonal(inner, 0, -2, -1))
        part = complex_p.bind1(full_like_aval(0, part.aval), part)
        turn = add_p.bind1(turn, on_diagonal(part))
    rest = sub_p.bind1(inner, turn)
    return add_p.bind1(da_r, neg_p.bind1(matmul(q, rest))), matmul(rest, r)


def _complement_tangent(q1: Any, q2: Any, dq1: Any) -> Any:
    """Tangent of the columns [m, m - n] that complete q1 [m, n], as reflectors choose them."""
    n, m = q1.shape[-1], q1.shape[-2]
    top, bottom = slice_in_dim(q1, 0, n, axis=-2), slice_in_dim(q1, n, m, axis=-2)
    d_top, d_bottom = slice_in_dim(dq1, 0, n, axis=-2), slice_in_dim(dq1, n, m, axis=-2)
    # z = bottom (top - 1)**-1
    near = adjoint(top - eye(n, q1.dtype, q1.shape[:-2]))
    z_adjoint = solve_matrices(near, adjoint(bottom))
    z = adjoint(z_adjoint)
    moved = sub_p.bind1(d_bottom, matmul(z, d_top))
    return sub_p.bind1(matmul(dq1, z_adjoint), matmul(q1 + matmul(q2, z), adjoint(moved)))
