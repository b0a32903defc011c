"""Linear algebra under scipy.linalg's names.

Beyond `mgefn.numpy.linalg`: factors that are kept and solved with, functions of matrices, special
matrices. Arguments that only save memory or look at values in SciPy (overwrite_a, check_finite) are
accepted and do nothing. What does not exist is NaN.

Sources: Higham, Functions of Matrices, SIAM 2008 (exponential, square root, Parlett's recurrence);
Bartels, Stewart (1972), Commun. ACM 15(9), 820-826, doi:10.1145/361573.361582 (Sylvester).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from mgefn import dtypes, lax, lax_linalg
from mgefn import numpy as mnp
from mgefn.api.derivatives import jvp
from mgefn.control.custom_rules import custom_jvp
from mgefn.core.array_methods import Array, ArrayLike, DTypeLike
from mgefn.errors import ArgumentError, ShapeError, api_boundary
from mgefn.ops.elementwise import promoted, stop_gradient_leaf, where

__all__ = [
    "block_diag",
    "cho_factor",
    "cho_solve",
    "cholesky",
    "circulant",
    "companion",
    "convolution_matrix",
    "det",
    "dft",
    "eigh",
    "eigh_tridiagonal",
    "expm",
    "expm_frechet",
    "fiedler",
    "fiedler_companion",
    "funm",
    "hadamard",
    "hankel",
    "helmert",
    "hessenberg",
    "hilbert",
    "inv",
    "invhilbert",
    "invpascal",
    "leslie",
    "lu",
    "lu_factor",
    "lu_solve",
    "pascal",
    "polar",
    "qr",
    "qr_multiply",
    "rsf2csf",
    "schur",
    "solve",
    "solve_sylvester",
    "solve_triangular",
    "sqrtm",
    "svd",
    "toeplitz",
]


def _matrices(name: str, *args: ArrayLike, square: int = 0) -> Any:
    """Arrays of one floating or complex dtype and rank at least 2, the first ones square."""
    arrays = promoted(name, args, inexact=True)
    for i, a in enumerate(arrays):
        if a.ndim < 2:
            raise ShapeError(f"{name}: needs matrices, got {a.aval}.")
        if i < square and a.shape[-1] != a.shape[-2]:
            raise ShapeError(f"{name}: needs square matrices, got {a.aval}.")
    return arrays[0] if len(arrays) == 1 else arrays


def _adjoint(a: Any) -> Any:
    return mnp.conj(mnp.matrix_transpose(a))


# -- decompositions -------------------------------------------------------------------------------


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
    x = _matrices("cholesky", a, square=1)
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
    factor = _matrices("cho_solve", c, square=1)
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
    x = _matrices("lu", a)
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
    packed, pivots, _ = lax_linalg.lu(_matrices("lu_factor", a, square=1))
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
    out = lax_linalg.qr(_matrices("qr", a), pivoting=pivoting, full_matrices=mode != "economic")
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
    x = _matrices("qr_multiply", a)
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
        x = _matrices("eigh", a, square=1)
        if eigvals_only:
            return mnp.linalg.eigvalsh(x, uplo, symmetrize_input=False)
        return tuple(mnp.linalg.eigh(x, uplo, symmetrize_input=False))
    x, y = _matrices("eigh", a, b, square=2)
    triangle = mnp.tril(x) if lower else mnp.triu(x)
    strict = mnp.tril(x, -1) if lower else mnp.triu(x, 1)
    x = triangle + _adjoint(strict)
    root = mnp.linalg.cholesky(y)
    if type == 1:
        left = solve_triangular(root, x, lower=True)
        reduced = _adjoint(solve_triangular(root, _adjoint(left), lower=True))
    else:
        reduced = mnp.matmul(_adjoint(root), mnp.matmul(x, root))
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
    x = _matrices("schur", a, square=1)
    if output == "complex":
        x = x.astype(dtypes.promote_types(x.dtype, "complex64"))
    t, z = lax_linalg.schur(x)
    return t, z


@api_boundary
def rsf2csf(T: ArrayLike, Z: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """The complex Schur form from the real one, T triangular."""
    t, z = _matrices("rsf2csf", T, Z, square=2)
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
    x = _matrices("hessenberg", a, square=1)
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
    w, s, vh = mnp.linalg.svd(_matrices("polar", a), full_matrices=False)
    if side == "right":
        root = _adjoint(vh)
        positive = mnp.matmul(root * s[..., None, :], vh)
    else:
        positive = mnp.matmul(w * s[..., None, :], _adjoint(w))
    return mnp.matmul(w, vh), positive


# -- systems of equations -------------------------------------------------------------------------


def _columns(name: str, a: Any, b: Any) -> tuple[Any, bool]:
    """The right side with columns, and whether it was a vector."""
    n = a.shape[-2]
    if b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1]):
        vector = b[..., None]
    else:
        vector = b
    if vector.ndim < 2 or vector.shape[-2] != n:
        raise ShapeError(f"{name}: b must have {n} rows, as a {a.aval}, got {b.aval}.")
    return vector, vector is not b


@api_boundary
def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> Array:
    """Solve a x = b with triangular a.

    Args:
        a: shape (..., n, n); the other triangle is not read.
        b: shape (n,) or (..., n, k).
        trans: 0 or "N": a x = b; 1 or "T": a^T x = b; 2 or "C": a^H x = b.
        lower: a is lower triangular.
        unit_diagonal: take the diagonal as 1.

    Example:
        >>> a = mnp.array([[2.0, 0.0], [1.0, 1.0]])
        >>> mgefn.scipy.linalg.solve_triangular(a, mnp.array([2.0, 3.0]), lower=True)
        Array([1., 2.], dtype=float32)
    """
    kinds = {0: 0, "N": 0, 1: 1, "T": 1, 2: 2, "C": 2}
    if trans not in kinds:
        raise ArgumentError(f"solve_triangular: trans must be 0, 1 or 2, got {trans!r}.")
    kind = kinds[trans]
    x, right = promoted("solve_triangular", (a, b), inexact=True)
    _matrices("solve_triangular", x, square=1)
    right, vector = _columns("solve_triangular", x, right)
    batch = mnp.broadcast_shapes(x.shape[:-2], right.shape[:-2])
    x = mnp.broadcast_to(x, (*batch, *x.shape[-2:]))
    right = mnp.broadcast_to(right, (*batch, *right.shape[-2:]))
    out = lax_linalg.triangular_solve(
        x, right, left_side=True, lower=lower, transpose_a=kind > 0, conjugate_a=kind == 2,
        unit_diagonal=unit_diagonal,
    )  # fmt: skip
    return out[..., 0] if vector else out


@api_boundary
def solve(
    a: ArrayLike,
    b: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Array:
    """Solve a x = b.

    Args:
        a: shape (..., n, n).
        b: shape (n,) or (..., n, k).
        lower: read the lower triangle, with assume_a "pos".
        assume_a: "gen", "sym", "her", or "pos": positive definite, by Cholesky's factor.

    Raises:
        ShapeError: the shapes do not fit. ArgumentError: another assumption.

    Example:
        >>> mgefn.scipy.linalg.solve(mnp.array([[2.0, 0.0], [0.0, 4.0]]), mnp.array([2.0, 2.0]))
        Array([1. , 0.5], dtype=float32)
    """
    if assume_a not in ("gen", "sym", "her", "pos"):
        raise ArgumentError(
            f"solve: assume_a must be 'gen', 'sym', 'her' or 'pos', got {assume_a!r}."
        )
    x, right = promoted("solve", (a, b), inexact=True)
    _matrices("solve", x, square=1)
    if assume_a == "pos":
        return cho_solve(cho_factor(x, lower=lower), right)
    right, vector = _columns("solve", x, right)
    out = mnp.linalg.solve(x, right)
    return out[..., 0] if vector else out


def _sylvester_in_schur_form(u: Any, r: Any, v: Any, s: Any, c: Any) -> Any:
    """X with A X + X B = C, for A = u r u^H and B = v s v^H, r and s triangular."""
    f = mnp.matmul(_adjoint(u), mnp.matmul(c, v))
    n = s.shape[-1]
    identity = mnp.eye(r.shape[-1], dtype=r.dtype)

    def column(y: Any, k: Any) -> tuple[Any, None]:
        # The columns of y after k are still 0.
        right = f[:, k] - mnp.matmul(y, s[:, k])
        shifted = r + s[k, k] * identity
        new = lax_linalg.triangular_solve(shifted, right[:, None], left_side=True)[:, 0]
        return y.at[:, k].set(new), None

    y, _ = lax.scan(column, mnp.zeros_like(f), lax.iota("int32", n))
    return mnp.matmul(u, mnp.matmul(y, _adjoint(v)))


def _real_if(x: Any, real: bool) -> Any:
    return mnp.real(x) if real else x


@custom_jvp
def _sylvester(a: Any, b: Any, c: Any) -> Any:
    real = not dtypes.is_complex(c.dtype)
    (r, u), (s, v) = schur(a, "complex"), schur(b, "complex")
    return _real_if(_sylvester_in_schur_form(u, r, v, s, c.astype(r.dtype)), real)


@_sylvester.defjvp
def _sylvester_jvp(primals: Any, tangents: Any) -> Any:
    (a, b, c), (da, db, dc) = primals, tangents
    real = not dtypes.is_complex(c.dtype)
    (r, u), (s, v) = schur(a, "complex"), schur(b, "complex")
    x = _real_if(_sylvester_in_schur_form(u, r, v, s, c.astype(r.dtype)), real)
    right = (dc - mnp.matmul(da, x) - mnp.matmul(x, db)).astype(r.dtype)
    return x, _real_if(_sylvester_in_schur_form(u, r, v, s, right), real)


@api_boundary
def solve_sylvester(
    A: ArrayLike, B: ArrayLike, C: ArrayLike, *, method: str = "schur", tol: float = 1e-8
) -> Array:
    """Solve A X + X B = C.

    Args:
        A, B: shapes (m, m) and (n, n).
        C: shape (m, n).
        method: "schur" or "eigen", accepted for JAX's programs: Schur forms are used.
        tol: of the method "eigen".

    Raises:
        ShapeError: the shapes do not fit. ArgumentError: another method.
    """
    if method not in ("schur", "eigen"):
        raise ArgumentError(f"solve_sylvester: method must be 'schur' or 'eigen', got {method!r}.")
    a, b, c = _matrices("solve_sylvester", A, B, C, square=2)
    if c.ndim != 2 or c.shape != (a.shape[-1], b.shape[-1]):
        raise ShapeError(
            "solve_sylvester: C must have A's number of rows and B's of columns, got "
            f"{a.aval}, {b.aval} and {c.aval}."
        )
    return _sylvester(a, b, c)


# -- functions of matrices ------------------------------------------------------------------------

# Coefficients of the diagonal Pade approximant of degree 13 of the exponential, and the largest
# norm for which it is right to double precision.
_PADE = (
    64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000,
    10559470521600, 670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1,
)  # fmt: skip
_PADE_NORM = 5.371920351148152


@api_boundary
def expm(A: ArrayLike, *, upper_triangular: bool = False, max_squarings: int = 16) -> Array:
    """Exponentials of square matrices, by squaring a Pade approximant.

    Args:
        A: shape (..., n, n).
        upper_triangular: A is upper triangular.
        max_squarings: the result is NaN where a norm above about 5 * 2**max_squarings would need
            more.

    Example:
        >>> mgefn.scipy.linalg.expm(mnp.array([[0.0, 1.0], [0.0, 0.0]]))
        Array([[1., 1.],
               [0., 1.]], dtype=float32)
    """
    x = _matrices("expm", A, square=1)
    n = x.shape[-1]
    if not x.size:
        return x
    real_dtype = dtypes.real_part_dtype(x.dtype)
    norm = mnp.max(mnp.sum(abs(stop_gradient_leaf(x)), axis=-2), axis=-1)
    ratio = norm / _PADE_NORM
    needed = mnp.ceil(mnp.log2(where(ratio > 1, ratio, 1)))
    squarings = mnp.minimum(needed, max_squarings)[..., None, None]
    x = x * (2**-squarings).astype(real_dtype)
    # Scaled by the last coefficient, so that float32 holds them all.
    b = [p / _PADE[0] for p in _PADE]
    identity = mnp.eye(n, dtype=x.dtype)
    x2 = mnp.matmul(x, x)
    x4 = mnp.matmul(x2, x2)
    x6 = mnp.matmul(x2, x4)
    u = mnp.matmul(x6, b[13] * x6 + b[11] * x4 + b[9] * x2)
    u = mnp.matmul(x, u + b[7] * x6 + b[5] * x4 + b[3] * x2 + b[1] * identity)
    v = mnp.matmul(x6, b[12] * x6 + b[10] * x4 + b[8] * x2)
    v = v + b[6] * x6 + b[4] * x4 + b[2] * x2 + b[0] * identity
    if upper_triangular:
        result = solve_triangular(v - u, u + v)
    else:
        result = mnp.linalg.solve(v - u, u + v)

    def square(value: Any, i: Any) -> tuple[Any, None]:
        return where(i < squarings, mnp.matmul(value, value), value), None

    if max_squarings:
        result, _ = lax.scan(square, result, lax.iota("int32", max_squarings))
    # NaN also where the norm is.
    return where((needed <= max_squarings)[..., None, None], result, math.nan)


@api_boundary
def expm_frechet(
    A: ArrayLike, E: ArrayLike, *, method: str | None = None, compute_expm: bool = True
) -> Any:
    """Derivative of the matrix exponential at A in the direction E.

    Args:
        A, E: shape (..., n, n).
        method: accepted for JAX's programs.
        compute_expm: return the exponential too.

    Returns:
        (expm(A), derivative), or the derivative.
    """
    a, e = _matrices("expm_frechet", A, E, square=2)
    value, derivative = jvp(expm, (a,), (e,))
    return (value, derivative) if compute_expm else derivative


def _sqrt_triangular(t: Any) -> Any:
    """The square root of an upper triangular matrix, column by column."""
    n = t.shape[-1]
    diagonal = mnp.sqrt(mnp.diagonal(t))
    rows = np.arange(n)

    def column(u: Any, j: Any) -> tuple[Any, None]:
        # The part of u before column j is known; beyond, the diagonal keeps the system regular.
        above = rows < j
        shift = diagonal[j]
        system = where(above[:, None] & above, u, 0) + mnp.diag(
            where(above, shift, mnp.ones_like(shift))
        )
        right = where(above, t[:, j], 0)
        new = lax_linalg.triangular_solve(system, right[:, None], left_side=True)[:, 0]
        new = where(rows == j, shift, where(above, new, 0))
        return u.at[:, j].set(new), None

    u, _ = lax.scan(column, mnp.zeros_like(t), lax.iota("int32", n))
    return u


@custom_jvp
def _sqrtm(a: Any) -> Any:
    t, z = lax_linalg.schur(a)
    return mnp.matmul(z, mnp.matmul(_sqrt_triangular(t), _adjoint(z)))


@_sqrtm.defjvp
def _sqrtm_jvp(primals: Any, tangents: Any) -> Any:
    (a,), (da,) = primals, tangents
    t, z = lax_linalg.schur(a)
    root = _sqrt_triangular(t)
    x = mnp.matmul(z, mnp.matmul(root, _adjoint(z)))
    # From X X = A: dX X + X dX = dA.
    return x, _sylvester_in_schur_form(z, root, z, root, da)


@api_boundary
def sqrtm(A: ArrayLike, blocksize: int = 1) -> Array:
    """The principal square root of a square matrix; complex, as JAX gives it.

    Args:
        A: shape (n, n).
        blocksize: must be 1.

    Raises:
        ArgumentError: another blocksize.
    """
    if blocksize > 1:
        raise ArgumentError(f"sqrtm: blocksize must be 1, got {blocksize!r}.")
    a = _matrices("sqrtm", A, square=1)
    return _sqrtm(a.astype(dtypes.promote_types(a.dtype, "complex64")))


@api_boundary
def funm(A: ArrayLike, func: Callable[[Array], Array], disp: bool = True) -> Any:
    """A function of a square matrix by its Schur form and Parlett's recurrence.

    Args:
        A: shape (n, n), with distinct eigenvalues.
        func: the function, of vectors of complex eigenvalues.
        disp: return the result alone; False: also an estimate of its relative error.
    """
    a = _matrices("funm", A, square=1)
    t, z = schur(a, "complex")
    n = t.shape[-1]
    diagonal = mnp.diagonal(t)
    f = mnp.diag(mnp.asarray(func(diagonal)).astype(t.dtype))
    smallest = mnp.asarray(1.0 if not n else abs(t[0, 0]))
    for p in range(1, n):
        i, j = np.arange(n - p), np.arange(p, n)
        top = t[i, j] * (f[j, j] - f[i, i])
        for k in range(1, p):
            top = top + t[i, i + k] * f[i + k, j] - f[i, i + k] * t[i + k, j]
        gap = t[j, j] - t[i, i]
        smallest = mnp.minimum(smallest, mnp.min(abs(gap)))
        f = f.at[i, j].set(where(gap == 0, top, top / where(gap == 0, 1, gap)))
    result = mnp.matmul(z, mnp.matmul(f, _adjoint(z)))
    real = not dtypes.is_complex(a.dtype)
    eps = dtypes.finfo(t.dtype).eps
    if real:
        small = mnp.all(abs(mnp.imag(result)) <= 1e3 * eps * mnp.maximum(1, abs(result)))
        result = where(small, mnp.real(result), result)
    if disp:
        return result
    size = mnp.max(mnp.sum(abs(mnp.triu(t, 1)), axis=0)) if n else mnp.asarray(0.0)
    floor = where(smallest == 0, eps, smallest)
    return result, mnp.minimum(1, mnp.maximum(eps, eps / floor * size))


# -- special matrices -----------------------------------------------------------------------------


@api_boundary
def block_diag(*arrs: ArrayLike) -> Array:
    """A matrix with given matrices along its diagonal; vectors count as rows.

    Raises:
        ShapeError: an array has rank above 2.

    Example:
        >>> mgefn.scipy.linalg.block_diag(mnp.array([[1.0]]), mnp.array([[2.0, 3.0]]))
        Array([[1., 0., 0.],
               [0., 2., 3.]], dtype=float32)
    """
    arrays = promoted("block_diag", arrs) if arrs else [mnp.zeros((1, 0))]
    for a in arrays:
        if a.ndim > 2:
            raise ShapeError(f"block_diag: needs arrays of rank 2 at most, got {a.aval}.")
    arrays = [mnp.atleast_2d(a) for a in arrays]
    width = sum(a.shape[1] for a in arrays)
    rows, start = [], 0
    for a in arrays:
        rows.append(mnp.pad(a, ((0, 0), (start, width - start - a.shape[1]))))
        start += a.shape[1]
    return mnp.concatenate(rows)


def _vectors(name: str, *args: ArrayLike, flat: bool = False) -> Any:
    arrays = promoted(name, args)
    arrays = [mnp.ravel(a) if flat else mnp.atleast_1d(a) for a in arrays]
    for a in arrays:
        if a.ndim < 1:
            raise ShapeError(f"{name}: needs vectors, got {a.aval}.")
    return arrays[0] if len(arrays) == 1 else arrays


@api_boundary
def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """The matrix of constant diagonals with first column c and first row r.

    Args:
        c: shape (..., m).
        r: shape (..., n), whose first element is not read; None: the conjugate of c.
    """
    if r is None:
        column = _vectors("toeplitz", c)
        row = mnp.conj(column)
    else:
        column, row = _vectors("toeplitz", c, r)
    m, n = column.shape[-1], row.shape[-1]
    batch = mnp.broadcast_shapes(column.shape[:-1], row.shape[:-1])
    column = mnp.broadcast_to(column, (*batch, m))
    row = mnp.broadcast_to(row, (*batch, n))
    if not m or not n:
        return mnp.zeros((*batch, m, n), column.dtype)
    values = mnp.concatenate([mnp.flip(row[..., 1:], -1), column], axis=-1)
    return values[..., np.arange(m)[:, None] - np.arange(n) + n - 1]


@api_boundary
def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """The matrix of constant antidiagonals with first column c and last row r, or zeros."""
    if r is None:
        column = _vectors("hankel", c)
        row = mnp.zeros_like(column)
    else:
        column, row = _vectors("hankel", c, r)
    values = mnp.concatenate([column, row[..., 1:]], axis=-1)
    return values[..., np.arange(column.shape[-1])[:, None] + np.arange(row.shape[-1])]


@api_boundary
def circulant(c: ArrayLike) -> Array:
    """The circulant matrix with first column c, shape (..., n)."""
    column = _vectors("circulant", c)
    n = column.shape[-1]
    return column[..., (np.arange(n)[:, None] - np.arange(n)) % max(n, 1)]


@api_boundary
def companion(a: ArrayLike) -> Array:
    """The companion matrix of the polynomial with coefficients a, the highest first."""
    (x,) = promoted("companion", (a,), inexact=True)
    if x.ndim < 1 or x.shape[-1] < 2:
        raise ShapeError(f"companion: needs two coefficients at least, got {x.aval}.")
    n = x.shape[-1] - 1
    first = -x[..., 1:] / x[..., :1]
    below = mnp.broadcast_to(mnp.eye(n - 1, n, dtype=x.dtype), (*x.shape[:-1], n - 1, n))
    return mnp.concatenate([first[..., None, :], below], axis=-2)


@api_boundary
def fiedler(a: ArrayLike) -> Array:
    """The symmetric matrix |a[i] - a[j]|."""
    x = _vectors("fiedler", a)
    return abs(x[..., :, None] - x[..., None, :])


@api_boundary
def fiedler_companion(a: ArrayLike) -> Array:
    """The five-diagonal companion matrix of the polynomial with coefficients a."""
    (x,) = promoted("fiedler_companion", (a,), inexact=True)
    if x.ndim != 1:
        raise ShapeError(f"fiedler_companion: needs a vector, got {x.aval}.")
    if x.shape[0] <= 2:
        return mnp.zeros((0,), x.dtype) if x.shape[0] < 2 else (-x[1:] / x[:1])[:, None]
    n = x.shape[0] - 1
    x = x / x[0]
    # Ones two off the diagonal and coefficients in pairs, as in Fiedler's product of factors.
    out = mnp.zeros((n, n), x.dtype)
    i = np.arange(0, n - 2, 2)
    j = np.arange(1, n - 2, 2)
    out = out.at[j + 2, j].set(1).at[i, i + 2].set(1)
    rest = -x[3:]
    odd, even = np.arange(1, n - 1, 2), np.arange(2, n, 2)
    out = out.at[even[: rest[::2].shape[0]], odd[: rest[::2].shape[0]]].set(rest[::2])
    high = np.arange(3, n, 2)
    out = out.at[high - 1, high].set(-x[4 : 4 + 2 * high.size : 2])
    return out.at[0, 0].set(-x[1]).at[0, 1].set(-x[2]).at[1, 0].set(1)


@api_boundary
def convolution_matrix(a: ArrayLike, n: int, mode: str = "full") -> Array:
    """The matrix whose product with a vector of length n is its convolution with a."""
    x = _vectors("convolution_matrix", a)
    size = operator.index(n)
    if x.ndim != 1 or not x.size or size < 1:
        raise ShapeError(
            f"convolution_matrix: needs a vector with elements and n above 0, got {x.aval} and {n}."
        )
    if mode not in ("full", "same", "valid"):
        raise ArgumentError(
            f"convolution_matrix: mode must be 'full', 'same' or 'valid', got {mode!r}."
        )
    m = x.shape[0]
    column = mnp.concatenate([x, mnp.zeros(size - 1, x.dtype)])
    row = mnp.concatenate([x[:1], mnp.zeros(size - 1, x.dtype)])
    full = toeplitz(column, row)
    if mode == "full":
        return full
    if mode == "same":
        start = (min(m, size) - 1) // 2
        return full[start : start + max(m, size)]
    start = min(m, size) - 1
    return full[start : max(m, size)]


@api_boundary
def leslie(f: ArrayLike, s: ArrayLike) -> Array:
    """Leslie's matrix of fecundities f, shape (n,), and survival s, shape (n - 1,)."""
    birth, survival = promoted("leslie", (f, s))
    if birth.ndim != 1 or survival.ndim != 1 or birth.shape[0] != survival.shape[0] + 1:
        raise ShapeError(
            f"leslie: needs vectors of lengths n and n - 1, got {birth.aval} and {survival.aval}."
        )
    return mnp.diag(survival, -1).at[0].set(birth)


def _size(name: str, n: Any, least: int = 0) -> int:
    try:
        size = operator.index(n)
    except TypeError:
        size = least - 1
    if size < least:
        raise ArgumentError(f"{name}: n must be an integer of at least {least}, got {n!r}.")
    return size


def _constant(matrix: np.ndarray) -> Array:
    return mnp.asarray(matrix.astype(dtypes.default_float()))


@api_boundary
def dft(n: int, scale: str | None = None, *, dtype: DTypeLike = None) -> Array:
    """The matrix of the discrete Fourier transform.

    Args:
        n: its size.
        scale: None; "sqrtn" or "n": divide by that.
        dtype: complex; None: the default.
    """
    size = _size("dft", n, 1)
    if scale not in (None, "sqrtn", "n"):
        raise ArgumentError(f"dft: scale must be None, 'sqrtn' or 'n', got {scale!r}.")
    # The exponents are reduced first, which keeps the angles small and exact.
    turns = np.outer(np.arange(size), np.arange(size)) % size / size
    matrix = np.exp(-2j * np.pi * turns) / {None: 1, "sqrtn": math.sqrt(size), "n": size}[scale]
    kind = dtypes.default_complex() if dtype is None else dtypes.canonical(dtype)
    return mnp.asarray(matrix.astype(kind))


@api_boundary
def hadamard(n: int, dtype: DTypeLike = int) -> Array:
    """Sylvester's Hadamard matrix of the size n, a power of 2."""
    size = _size("hadamard", n, 1)
    if size & (size - 1):
        raise ArgumentError(f"hadamard: n must be a power of 2, got {n!r}.")
    matrix = np.ones((1, 1), int)
    while matrix.shape[0] < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return mnp.asarray(matrix.astype(dtypes.canonical(dtype)))


@api_boundary
def hilbert(n: int) -> Array:
    """The Hilbert matrix 1 / (i + j + 1)."""
    i = np.arange(_size("hilbert", n))
    return _constant(1 / (i[:, None] + i + 1))


@api_boundary
def invhilbert(n: int) -> Array:
    """The inverse of the Hilbert matrix."""
    size = _size("invhilbert", n)
    out = [
        [
            (-1) ** (i + j) * (i + j + 1) * math.comb(size + i, size - j - 1)
            * math.comb(size + j, size - i - 1) * math.comb(i + j, i) ** 2
            for j in range(size)
        ]
        for i in range(size)
    ]  # fmt: skip
    return _constant(np.array(out, dtype=object).astype(float).reshape(size, size))


def _pascal_lower(size: int) -> np.ndarray:
    rows = [[math.comb(i, j) for j in range(size)] for i in range(size)]
    return np.array(rows, dtype=float).reshape(size, size)


@api_boundary
def pascal(n: int, kind: str | None = None) -> Array:
    """Pascal's matrix of binomial coefficients: "symmetric" (also None), "lower" or "upper"."""
    lower = _pascal_lower(_size("pascal", n))
    kinds = {None: lower @ lower.T, "symmetric": lower @ lower.T, "lower": lower, "upper": lower.T}
    if kind not in kinds:
        raise ArgumentError(f"pascal: kind must be 'symmetric', 'lower' or 'upper', got {kind!r}.")
    return _constant(kinds[kind])


@api_boundary
def invpascal(n: int, kind: str | None = None) -> Array:
    """The inverse of `pascal`'s matrix."""
    size = _size("invpascal", n)
    signs = (-1.0) ** np.add.outer(np.arange(size), np.arange(size))
    lower = _pascal_lower(size) * signs
    kinds = {None: lower.T @ lower, "symmetric": lower.T @ lower, "lower": lower, "upper": lower.T}
    if kind not in kinds:
        raise ArgumentError(
            f"invpascal: kind must be 'symmetric', 'lower' or 'upper', got {kind!r}."
        )
    return _constant(kinds[kind])


@api_boundary
def helmert(n: int, full: bool = False) -> Array:
    """Helmert's matrix of orthonormal rows, without its first row unless full."""
    size = _size("helmert", n, 1)
    i = np.arange(size)
    matrix = np.tril(np.ones((size, size)), -1) - np.diag(i)
    matrix[0] = 1
    norms = np.sqrt(i * (i + 1.0))
    norms[0] = math.sqrt(size)
    matrix = matrix / norms[:, None]
    return _constant(matrix if full else matrix[1:])
