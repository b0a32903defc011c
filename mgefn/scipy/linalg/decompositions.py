"""Factors of matrices, and eigenvalues."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from mgefn import dtypes, lax, lax_linalg
from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import ArgumentError, ShapeError, api_boundary
from mgefn.ops.elementwise import promoted, where
from mgefn.scipy.linalg.matrices import adjoint, matrices
from mgefn.scipy.linalg.triangular import solve_triangular


@api_boundary
def cholesky(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Array:
    """Cholesky's factor of positive definite matrices: the upper R with R^H R = a, or the lower.

    Args:
        a: shape (..., n, n).
        lower: return the lower factor L, with L L^H = a.

    Returns:
        Array of a's shape; NaN where a matrix is not positive definite.

    Raises:
        ShapeError: a is not square.

    Example:
        >>> mgefn.scipy.linalg.cholesky(mnp.array([[4.0, 2.0], [2.0, 5.0]]))
        Array([[2., 1.],
               [0., 2.]], dtype=float32)
    """
    x = matrices("cholesky", a, square=1)
    # SciPy reads the triangle of the factor it returns, and so does JAX.
    return mnp.linalg.cholesky(x, upper=not lower, symmetrize_input=False)


@api_boundary
def cho_factor(
    a: ArrayLike, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, bool]:
    """Cholesky's factor and whether it is the lower one, for `cho_solve`."""
    return cholesky(a, lower=lower), lower


@api_boundary
def cho_solve(
    c_and_lower: tuple[ArrayLike, bool],
    b: ArrayLike,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """Solve a x = b by the Cholesky factor of a.

    Args:
        c_and_lower: what `cho_factor` returned.
        b: shape (..., n) or (..., n, k): as for `solve`.
    """
    c, lower = c_and_lower
    factor = matrices("cho_solve", c, square=1)
    first = solve_triangular(factor, b, trans=0 if lower else 2, lower=lower)
    return solve_triangular(factor, first, trans=2 if lower else 0, lower=lower)


@api_boundary
def lu(
    a: ArrayLike, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """LU decomposition with row exchanges: a = P L U.

    Args:
        a: shape (..., m, n).
        permute_l: return P L instead of P and L.

    Returns:
        (P, L, U), or (P L, U).
    """
    x = matrices("lu", a)
    packed, _, permutation = lax_linalg.lu(x)
    m, n = x.shape[-2:]
    k = min(m, n)
    lower = mnp.tril(packed, -1)[..., :, :k] + mnp.eye(m, k, dtype=packed.dtype)
    upper = mnp.triu(packed)[..., :k, :]
    exchange = permutation[..., None, :] == lax.iota("int32", m)[:, None]
    exchange = exchange.astype(dtypes.real_part_dtype(packed.dtype))
    if permute_l:
        return mnp.matmul(exchange.astype(packed.dtype), lower), upper
    return exchange, lower, upper


@api_boundary
def lu_factor(
    a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, Array]:
    """LU decomposition for `lu_solve`: L and U in one matrix, and the rows exchanged in turn."""
    packed, pivots, _ = lax_linalg.lu(matrices("lu_factor", a, square=1))
    return packed, pivots


@api_boundary
def lu_solve(
    lu_and_piv: tuple[ArrayLike, ArrayLike],
    b: ArrayLike,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """Solve a x = b by the LU decomposition of a.

    Args:
        lu_and_piv: what `lu_factor` returned.
        b: shape (n,) or (n, k), with batch dimensions as in a.
        trans: 0: a x = b; 1: a^T x = b; 2: a^H x = b.
    """
    packed, pivots = lu_and_piv
    factors, right = promoted("lu_solve", (packed, b), inexact=True)
    if factors.ndim < 2 or factors.shape[-1] != factors.shape[-2]:
        raise ShapeError(f"lu_solve: needs a square matrix of factors, got {factors.aval}.")
    n = factors.shape[-1]
    vector = right.ndim == factors.ndim - 1
    if vector:
        right = right[..., None]
    if right.ndim != factors.ndim or right.shape[-2] != n:
        raise ShapeError(f"lu_solve: b must have {n} rows, got {right.aval}.")
    order = lax_linalg.lu_pivots_to_permutation(mnp.asarray(pivots), n)
    solver = lax_linalg.triangular_solve
    if trans == 0:
        x = mnp.take_along_axis(right, order[..., None], axis=-2)
        x = solver(factors, x, left_side=True, lower=True, unit_diagonal=True)
        x = solver(factors, x, left_side=True, lower=False)
    elif trans in (1, 2):
        turned = {"transpose_a": True, "conjugate_a": trans == 2, "left_side": True}
        x = solver(factors, right, lower=False, **turned)
        x = solver(factors, x, lower=True, unit_diagonal=True, **turned)
        x = mnp.take_along_axis(x, mnp.argsort(order, axis=-1)[..., None], axis=-2)
    else:
        raise ArgumentError(f"lu_solve: trans must be 0, 1 or 2, got {trans!r}.")
    return x[..., 0] if vector else x


@api_boundary
def qr(
    a: ArrayLike,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> Any:
    """QR decomposition a = Q R.

    Args:
        a: shape (..., m, n).
        mode: "full": Q is square; "economic": it has min(m, n) columns; "r": R alone, in a tuple.
        pivoting: exchange columns so that R's diagonal falls: a[:, P] = Q R.

    Returns:
        (Q, R), (R,), or these with P.
    """
    if mode not in ("full", "r", "economic"):
        raise ArgumentError(f"qr: mode must be 'full', 'economic' or 'r', got {mode!r}.")
    out = lax_linalg.qr(matrices("qr", a), pivoting=pivoting, full_matrices=mode != "economic")
    return out[1:] if mode == "r" else out


@api_boundary
def qr_multiply(
    a: ArrayLike,
    c: ArrayLike,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> Any:
    """Product of c and the Q of a QR decomposition, and R.

    Args:
        a: the matrix that is decomposed, shape (m, n).
        c: matrix or vector.
        mode: "left": Q c; "right": c Q.
        pivoting: as for `qr`.
        conjugate: multiply by the conjugate of Q.

    Returns:
        (product, R), or with P.
    """
    if mode not in ("left", "right"):
        raise ArgumentError(f"qr_multiply: mode must be 'left' or 'right', got {mode!r}.")
    x = matrices("qr_multiply", a)
    q, r, *rest = lax_linalg.qr(x, pivoting=pivoting, full_matrices=False)
    if conjugate:
        q = mnp.conj(q)
    right = mnp.asarray(c)
    if mode == "right" or right.ndim == 1 or right.shape[0] == q.shape[1]:
        product = mnp.matmul(q, right) if mode == "left" else mnp.matmul(right, q)
    else:
        whole = lax_linalg.qr(x, pivoting=pivoting, full_matrices=True)[0]
        product = mnp.matmul(mnp.conj(whole) if conjugate else whole, right)
    return (product, r, *rest)


@api_boundary
def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """Singular value decomposition; see `mgefn.numpy.linalg.svd`. The driver is not chosen."""
    if lapack_driver not in ("gesdd", "gesvd"):
        raise ArgumentError(
            f"svd: lapack_driver must be 'gesdd' or 'gesvd', got {lapack_driver!r}."
        )
    out = mnp.linalg.svd(a, full_matrices=full_matrices, compute_uv=compute_uv)
    return tuple(out) if compute_uv else out


@api_boundary
def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Determinants of square matrices."""
    return mnp.linalg.det(a)


@api_boundary
def inv(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """Inverses of square matrices."""
    return mnp.linalg.inv(a)


@api_boundary
def eigh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Any:
    """Eigenvalues and eigenvectors of Hermitian matrices, also generalised.

    Args:
        a: shape (..., n, n).
        b: positive definite, shape (..., n, n); None: the identity.
        lower: which triangle of a is read.
        eigvals_only: return the eigenvalues alone.
        turbo: has no meaning any more.
        eigvals: must be None. Slice the result.
        type: with b: 1: a v = w b v; 2: a b v = w v; 3: b a v = w v.

    Returns:
        (w, v): ascending real eigenvalues, and vectors in columns; or w.
    """
    if eigvals is not None:
        raise ArgumentError(f"eigh: eigvals must be None, got {eigvals!r}. Slice the result.")
    if type not in (1, 2, 3):
        raise ArgumentError(f"eigh: type must be 1, 2 or 3, got {type!r}.")
    uplo = "L" if lower else "U"
    if b is None:
        x = matrices("eigh", a, square=1)
        if eigvals_only:
            return mnp.linalg.eigvalsh(x, uplo, symmetrize_input=False)
        return tuple(mnp.linalg.eigh(x, uplo, symmetrize_input=False))
    x, y = matrices("eigh", a, b, square=2)
    triangle = mnp.tril(x) if lower else mnp.triu(x)
    strict = mnp.tril(x, -1) if lower else mnp.triu(x, 1)
    x = triangle + adjoint(strict)
    root = mnp.linalg.cholesky(y)
    if type == 1:
        left = solve_triangular(root, x, lower=True)
        reduced = adjoint(solve_triangular(root, adjoint(left), lower=True))
    else:
        reduced = mnp.matmul(adjoint(root), mnp.matmul(x, root))
    if eigvals_only:
        return mnp.linalg.eigvalsh(reduced)
    w, v = mnp.linalg.eigh(reduced)
    if type == 3:
        return w, mnp.matmul(root, v)
    return w, solve_triangular(root, v, trans=2, lower=True)


@api_boundary
def eigh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    *,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: tuple[float, float] | None = None,
    tol: float | None = None,
    key: Any = None,
) -> Any:
    """Eigenvalues and eigenvectors of a Hermitian tridiagonal matrix.

    Args:
        d: the diagonal, real, shape (n,).
        e: the elements below it, shape (n - 1,).
        eigvals_only: return the eigenvalues alone.
        select: "a": all of them; "i": those numbered from select_range[0] to select_range[1]; "v":
            refused, because their number would depend on values.
        select_range: see select.
        tol, key: accepted for JAX's programs.

    Returns:
        (w, v), or w.
    """
    diagonal, off = promoted("eigh_tridiagonal", (d, e), inexact=True)
    if diagonal.ndim != 1 or off.shape != (max(diagonal.shape[0] - 1, 0),):
        raise ShapeError(
            "eigh_tridiagonal: d and e must be vectors of lengths n and n - 1, got "
            f"{diagonal.aval} and {off.aval}."
        )
    if select not in ("a", "i"):
        raise ArgumentError(f"eigh_tridiagonal: select must be 'a' or 'i', got {select!r}.")
    matrix = mnp.diag(diagonal) + mnp.diag(off, -1) + mnp.diag(mnp.conj(off), 1)
    part = slice(None)
    if select == "i":
        if select_range is None:
            raise ArgumentError("eigh_tridiagonal: select='i' needs select_range.")
        low, high = (operator.index(i) for i in select_range)  # type: ignore[arg-type]  # index numbers for "i"
        part = slice(low, high + 1)
    if eigvals_only:
        return mnp.linalg.eigvalsh(matrix)[part]
    w, v = mnp.linalg.eigh(matrix)
    return w[part], v[:, part]


@api_boundary
def schur(a: ArrayLike, output: str = "real") -> tuple[Array, Array]:
    """Schur decomposition a = Z T Z^H.

    Args:
        a: shape (..., n, n).
        output: "real": T of a real matrix is real, with 2 by 2 blocks for pairs of complex
            eigenvalues; "complex": T is triangular and complex.

    Returns:
        (T, Z).
    """
    if output not in ("real", "complex"):
        raise ArgumentError(f"schur: output must be 'real' or 'complex', got {output!r}.")
    x = matrices("schur", a, square=1)
    if output == "complex":
        x = x.astype(dtypes.promote_types(x.dtype, "complex64"))
    t, z = lax_linalg.schur(x)
    return t, z


@api_boundary
def rsf2csf(T: ArrayLike, Z: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """The complex Schur form from the real one, T triangular."""
    t, z = matrices("rsf2csf", T, Z, square=2)
    upper, turn = schur(t, "complex")
    return upper, mnp.matmul(z, turn)


@api_boundary
def hessenberg(
    a: ArrayLike, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """Hessenberg form a = Q H Q^H: H is 0 below the first subdiagonal, Q unitary.

    Args:
        a: shape (..., n, n).
        calc_q: return Q too.

    Returns:
        H, or (H, Q).
    """
    x = matrices("hessenberg", a, square=1)
    n = x.shape[-1]
    rows = np.arange(n)
    q = mnp.broadcast_to(mnp.eye(n, dtype=x.dtype), x.shape)
    for k in range(n - 2):
        column = where(rows > k, x[..., :, k], 0)
        head = column[..., k + 1]
        size = mnp.sqrt(mnp.sum(mnp.real(column * mnp.conj(column)), axis=-1))
        length = mnp.where(head == 0, 1, abs(head))
        phase = where(head == 0, 1, head / length)
        v = column + (rows == k + 1) * (phase * size)[..., None]
        norm = mnp.sum(mnp.real(v * mnp.conj(v)), axis=-1)[..., None, None]
        # Nothing to do where the column is already 0 below the subdiagonal.
        rest = mnp.sum(abs(where(rows > k + 1, column, 0)), axis=-1)[..., None, None]
        outer = v[..., :, None] * mnp.conj(v)[..., None, :]
        mirror = mnp.eye(n, dtype=x.dtype) - where(
            rest == 0, 0, 2 * outer / where(norm == 0, 1, norm)
        )
        x = mnp.matmul(mirror, mnp.matmul(x, mirror))
        q = mnp.matmul(q, mirror)
    h = mnp.triu(x, -1)
    return (h, q) if calc_q else h


@api_boundary
def polar(
    a: ArrayLike,
    side: str = "right",
    *,
    method: str = "qdwh",
    eps: float | None = None,
    max_iterations: int | None = None,
) -> tuple[Array, Array]:
    """Polar decomposition a = U P, or P U with side "left": U unitary, P positive semidefinite.

    Args:
        a: shape (m, n).
        side: on which side P stands.
        method: "qdwh" or "svd", accepted for JAX's programs: singular values are used.
        eps, max_iterations: of the iteration, which is not used.

    Returns:
        (U, P).
    """
    if side not in ("right", "left"):
        raise ArgumentError(f"polar: side must be 'right' or 'left', got {side!r}.")
    if method not in ("qdwh", "svd"):
        raise ArgumentError(f"polar: method must be 'qdwh' or 'svd', got {method!r}.")
    w, s, vh = mnp.linalg.svd(matrices("polar", a), full_matrices=False)
    if side == "right":
        root = adjoint(vh)
        positive = mnp.matmul(root * s[..., None, :], vh)
    else:
        positive = mnp.matmul(w * s[..., None, :], adjoint(w))
    return mnp.matmul(w, vh), positive
