"""Eigenvalues and eigenvectors, of Hermitian and of general matrices, and Schur's decomposition.

Sources for derivatives: Giles (2008), Collected matrix derivative results for forward and reverse
mode algorithmic differentiation, section 3.1; for equal eigenvalues see `spread`.
"""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.control.linalg.lu import solve_matrices
from mgefn.control.linalg.matrices import (
    adjoint,
    check_square,
    define_stacked_batch,
    diagonal,
    from_triangle,
    matmul,
    matrices,
    scaled,
)
from mgefn.control.linalg.spread import spread
from mgefn.control.linalg.svd import skew
from mgefn.control.linalg.triangular import symmetrized
from mgefn.core.array import scalar
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.core.avals import ShapedArray
from mgefn.core.primitive import Primitive
from mgefn.errors import UnsupportedError, api_boundary
from mgefn.ops.elementwise import abs as absolute
from mgefn.ops.elementwise import add_p, complex_p, conj, convert, imag, neg_p, real, where
from mgefn.ops.reductions import argmax_along, reduce_sum_p
from mgefn.ops.shaping import broadcast_to_shape, broadcasted_iota, expand_dims, slice_in_dim

# -- eigh -----------------------------------------------------------------------------------------

# operand: [..., n, n], of which one triangle is read. params: lower; vectors. outputs: v
# [..., n, n] and w [..., n], real and ascending; without vectors w alone
eigh_p = Primitive("eigh", weak_result=False)
eigh_p.no_rule("transpose", "not linear")
define_stacked_batch(eigh_p)


class EighImplementation(enum.Enum):
    """jax.lax.linalg's choices; LAPACK's divide and conquer is the only one here."""

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


@api_boundary
def eigh(
    x: ArrayLike,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    implementation: Any = None,
) -> tuple[Array, Array]:
    """Eigenvectors and eigenvalues of Hermitian matrices, as jax.lax.linalg.eigh.

    Functions of them that do not depend on the choice of eigenvectors have finite derivatives at
    equal eigenvalues too. There, and only where a derivative is taken, equal eigenvalues come out
    moved apart by about 3e-4 (float32) or 1e-8 (float64) of their size.

    Args:
        x: shape (..., n, n).
        lower: which triangle to read, if not symmetrize_input.
        symmetrize_input: take (x + x^H) / 2 for x.
        sort_eigenvalues: they are sorted in any case.
        subset_by_index: (start, stop) of the eigenvalues to return, in their order.
        implementation: taken for the sake of ported programs.

    Returns:
        (v, w): v[..., :, i] is the eigenvector of w[..., i]; w is real and ascending.

    Raises:
        ShapeError: x is not square. DTypeError: half precision.
    """
    (a,) = matrices("eigh", x, square=1)
    v, w = eigh_p.bind(symmetrized(a) if symmetrize_input else a, lower=bool(lower), vectors=True)
    if subset_by_index is not None:
        start, stop = subset_by_index
        v, w = slice_in_dim(v, start, stop, axis=-1), slice_in_dim(w, start, stop, axis=-1)
    return v, w


@eigh_p.def_abstract_eval
def _eigh_abstract_eval(a: ShapedArray, *, lower, vectors):
    check_square("eigh", a)
    w = ShapedArray(a.shape[:-1], dtypes.real_part_dtype(a.dtype))
    return (ShapedArray(a.shape, a.dtype), w) if vectors else (w,)


@eigh_p.def_jvp
def _eigh_jvp(primals, tangents, *, lower, vectors):
    (a,), (da,) = primals, tangents
    v, w = eigh_p.bind(a, lower=lower, vectors=True)
    inner = matmul(matmul(adjoint(v), from_triangle(da, lower)), v)
    dw = real(diagonal(inner, 0, -2, -1))
    if not vectors:
        return (w,), (dw,)
    w, inverse_difference = spread(w)
    return (v, w), (matmul(v, skew(scaled(inner, inverse_difference))), dw)


# -- eig ------------------------------------------------------------------------------------------

# operand: [..., n, n]. params: left; right, which vectors to give; derivatives, whether they have
# any. outputs: w [..., n], then left and right vectors [..., n, n], all complex
eig_p = Primitive("eig", weak_result=False)
eig_p.no_rule("transpose", "not linear")
define_stacked_batch(eig_p)


class EigImplementation(enum.Enum):
    """jax.lax.linalg's choices; LAPACK is the only one here."""

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


@api_boundary
def eig(
    x: ArrayLike,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False,
    implementation: Any = None,
) -> list[Array]:
    """Eigenvalues and eigenvectors of general matrices, as jax.lax.linalg.eig.

    Args:
        x: shape (..., n, n).
        compute_left_eigenvectors: u with u^H x = w u^H.
        compute_right_eigenvectors: v with x v = w v.
        enable_eigvec_derivs: give eigenvectors derivatives, under the normalisation of LAPACK: norm
            1, and a real largest component. They hold where all eigenvalues differ and no vector
            has two largest components, which is not checked.
        implementation: taken for the sake of ported programs.

    Returns:
        [w, left vectors, right vectors] as far as asked for, complex; vectors in columns.

    Raises:
        ShapeError: x is not square. DTypeError: half precision.
    """
    (a,) = matrices("eig", x, square=1)
    return list(
        eig_p.bind(
            a,
            left=bool(compute_left_eigenvectors),
            right=bool(compute_right_eigenvectors),
            derivatives=bool(enable_eigvec_derivs),
        )
    )


@eig_p.def_abstract_eval
def _eig_abstract_eval(a: ShapedArray, *, left, right, derivatives):
    check_square("eig", a)
    dtype = dtypes.complex_dtype(a.dtype)
    vectors = ShapedArray(a.shape, dtype)
    return (ShapedArray(a.shape[:-1], dtype), *(vectors,) * (left + right))


@eig_p.def_jvp
def _eig_jvp(primals, tangents, *, left, right, derivatives):
    (a,), (da,) = primals, tangents
    if (left or right) and not derivatives:
        raise UnsupportedError(
            "eig: eigenvectors of general matrices have derivatives under conditions only that are "
            "not checked. Use eigvals, or eigh for Hermitian matrices, or pass "
            "enable_eigvec_derivs=True to lax.linalg.eig."
        )
    # Eigenvalues alone do not depend on how vectors are normalised, nor do their derivatives.
    outs = eig_p.bind(a, left=left, right=True, derivatives=True)
    w, v = outs[0], outs[-1]
    da = convert(da, v.dtype)
    if not (left or right):
        inner = matmul(solve_matrices(v, da), v)
        return (w,), (diagonal(inner, 0, -2, -1),)
    dw, dv = _vector_tangents(w, v, da)
    out_tangents = [dw]
    if left:
        out_tangents.append(_vector_tangents(conj(w), outs[1], adjoint(da))[1])
    if right:
        out_tangents.append(dv)
    return outs if right else outs[:-1], tuple(out_tangents)


def _vector_tangents(w: Any, v: Any, da: Any) -> tuple[Any, Any]:
    """Tangents of eigenvalues and of eigenvectors of norm 1 whose largest component is real."""
    inner = matmul(solve_matrices(v, da), v)
    if not v.shape[-1]:
        return diagonal(inner, 0, -2, -1), inner
    one, zero = scalar(1, w.dtype), scalar(0, w.dtype)
    differences = expand_dims(w, -2) - expand_dims(w, -1)
    apart = differences != zero
    inverse = where(apart, one / where(apart, differences, one), zero)
    moved = matmul(v, scaled(inner, inverse))
    # Each eigenvector is free by a factor: the norm fixes its real part, the real component k its
    # imaginary part.
    rows = v.ndim - 2
    k = expand_dims(argmax_along(absolute(v), rows, np.int32), rows)
    here = broadcasted_iota(np.int32, v.shape, rows) == broadcast_to_shape(k, v.shape)
    largest = convert(here, v.dtype)
    along = real(reduce_sum_p.bind1(scaled(moved, conj(v)), axes=(rows,)))
    turned = imag(reduce_sum_p.bind1(scaled(moved, largest), axes=(rows,)))
    size = real(reduce_sum_p.bind1(v * largest, axes=(rows,)))
    factor = complex_p.bind1(
        neg_p.bind1(along), neg_p.bind1(scaled(turned, scalar(1, size.dtype) / size))
    )
    spread_factor = broadcast_to_shape(expand_dims(factor, -2), v.shape)
    return diagonal(inner, 0, -2, -1), add_p.bind1(moved, scaled(spread_factor, v))


# -- schur ----------------------------------------------------------------------------------------

# operand: [..., n, n]. params: vectors. outputs: the (quasi) upper triangular t; with vectors the
# unitary q with a = q t q^H
schur_p = Primitive("schur", weak_result=False)
schur_p.no_rule("jvp", "the decomposition is not unique; use eig or eigh")
schur_p.no_rule("transpose", "not linear")
define_stacked_batch(schur_p)


@api_boundary
def schur(
    x: ArrayLike,
    *,
    compute_schur_vectors: bool = True,
    sort_eig_vals: bool = False,
    select_callable: Any = None,
) -> tuple[Array, ...]:
    """Schur's decomposition x = q t q^H, as jax.lax.linalg.schur; it has no derivative.

    Args:
        x: shape (..., n, n).
        compute_schur_vectors: False: t alone.
        sort_eig_vals, select_callable: not used, as in JAX.

    Returns:
        (t, q), or (t,). For real x t has blocks of 2 rows on its diagonal for pairs of complex
        eigenvalues.

    Raises:
        ShapeError: x is not square. DTypeError: half precision.
    """
    (a,) = matrices("schur", x, square=1)
    return tuple(schur_p.bind(a, vectors=bool(compute_schur_vectors)))


@schur_p.def_abstract_eval
def _schur_abstract_eval(a: ShapedArray, *, vectors):
    check_square("schur", a)
    out = ShapedArray(a.shape, a.dtype)
    return (out, out) if vectors else (out,)
