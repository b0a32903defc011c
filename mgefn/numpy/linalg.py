"""Decompositions, systems, norms and products of matrices under the names of numpy.linalg.

The decompositions themselves are in `control/linalg/`. Unlike numpy.linalg nothing raises for a
matrix of a certain value: what does not exist is NaN, so that programs can be traced. Matrices that
must be Hermitian are symmetrised first, as in JAX, so gradients by them are Hermitian.

Norms are written so that their gradient is finite everywhere, 0 at 0: the square root's infinite
slope meets a square whose slope is exactly 0.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mgefn import dtypes
from mgefn.control.linalg import eigen, lu, triangular
from mgefn.control.linalg import qr as _qr
from mgefn.control.linalg import svd as _svd
from mgefn.control.linalg.matrices import adjoint, eye, matrices
from mgefn.core.array_methods import METHODS, Array, ArrayLike, Axis
from mgefn.errors import ArgumentError, ShapeError, api_boundary
from mgefn.numpy.creation import asarray
from mgefn.ops import contractions, reductions
from mgefn.ops.contractions import (
    matmul,
    tensordot,
    vecdot,
)
from mgefn.ops.elementwise import abs as absolute
from mgefn.ops.elementwise import (
    conj,
    convert,
    flat_at_zero,
    isnan,
    log,
    logical_and,
    logical_not,
    power,
    promoted,
    real,
    sign,
    sqrt,
    square,
    where,
)
from mgefn.ops.indexing.select import diagonal as _diagonal
from mgefn.ops.indexing.select import trace as _trace
from mgefn.ops.shaping import (
    broadcast_to_shape,
    broadcasted_iota,
    expand_dims,
    flip,
    matrix_transpose,
    moveaxis,
    normalize_axes,
    normalize_axis,
    reshape,
    result_shape,
    squeeze,
)
from mgefn.ops.sorting import argsort, take_along_p

__all__ = [
    "EigResult",
    "EighResult",
    "LinAlgError",
    "QRResult",
    "SVDResult",
    "SlogdetResult",
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vecdot",
    "vector_norm",
]

LinAlgError = np.linalg.LinAlgError


class EigResult(NamedTuple):
    """What `eig` returns."""

    eigenvalues: Array
    eigenvectors: Array


class EighResult(NamedTuple):
    """What `eigh` returns."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """What `qr` returns."""

    Q: Array
    R: Array


class SlogdetResult(NamedTuple):
    """What `slogdet` returns."""

    sign: Array
    logabsdet: Array


class SVDResult(NamedTuple):
    """What `svd` returns."""

    U: Array
    S: Array
    Vh: Array


# -- decompositions -------------------------------------------------------------------------------


@api_boundary
def cholesky(a: ArrayLike, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
    """Cholesky's factor of positive definite matrices: the lower L with L L^H = a.

    Args:
        a: shape (..., n, n); integers are taken as the default float.
        upper: return L^H, the upper factor.
        symmetrize_input: take (a + a^H) / 2 for a. False: read one triangle only, the upper one for
            the upper factor.

    Returns:
        Array of a's shape; NaN where a matrix is not positive definite.

    Raises:
        ShapeError: a is not square. DTypeError: half precision.

    Example:
        >>> mnp.linalg.cholesky(mnp.array([[4.0, 2.0], [2.0, 5.0]]))
        Array([[2., 0.],
               [1., 2.]], dtype=float32)
    """
    (x,) = matrices("cholesky", a, square=1)
    if symmetrize_input:
        x = triangular.symmetrized(x)
    elif upper:
        x = adjoint(x)
    factor = triangular.cholesky_p.bind1(x)
    return adjoint(factor) if upper else factor


@api_boundary
def qr(a: ArrayLike, mode: str = "reduced") -> Any:
    """QR decomposition a = Q R with orthonormal columns in Q and upper triangular R.

    Args:
        a: shape (..., m, n).
        mode: "reduced": Q has min(m, n) columns; "complete": Q is square; "r": R alone, reduced;
            "raw": LAPACK's reflectors, transposed, and their factors, without derivative.

    Returns:
        QRResult(Q, R), or R.

    Raises:
        ShapeError: a has rank below 2. DTypeError: half precision. ArgumentError: another mode.

    Example:
        >>> q, r = mnp.linalg.qr(mnp.array([[3.0, 1.0], [4.0, 2.0]]))
        >>> mnp.allclose(q @ r, mnp.array([[3.0, 1.0], [4.0, 2.0]]), atol=1e-6)
        Array(True, dtype=bool)
    """
    if mode not in ("reduced", "complete", "r", "raw", "full"):
        raise ArgumentError(
            f"qr: mode must be 'reduced', 'complete', 'r' or 'raw', got {mode!r}. Use one of them."
        )
    (x,) = matrices("qr", a)
    if mode == "raw":
        packed, factors = _qr.geqrf_p.bind(x)
        return QRResult(matrix_transpose(packed), factors)
    q, r = _qr.qr_p.bind(x, pivoting=False, full_matrices=mode == "complete")
    return r if mode == "r" else QRResult(q, r)


@api_boundary
def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Any:
    """Singular value decomposition a = U diag(S) Vh.

    Derivatives of U and Vh need full_matrices=False, or square matrices. What does not depend on
    the choice of singular vectors has finite derivatives at equal singular values too.

    Args:
        a: shape (..., m, n).
        full_matrices: U and Vh are square. False: they have min(m, n) columns and rows.
        compute_uv: False: the singular values alone.
        hermitian: a is Hermitian; uses its eigenvectors.
        subset_by_index: (start, stop) of the singular values to return.

    Returns:
        SVDResult(U, S, Vh), or S; S is real and descending. NaN for a matrix with NaN.

    Raises:
        ShapeError: a has rank below 2, or is not square with hermitian. DTypeError: half precision.

    Example:
        >>> mnp.linalg.svd(mnp.array([[0.0, 3.0], [2.0, 0.0]]), compute_uv=False)
        Array([3., 2.], dtype=float32)
    """
    if not hermitian:
        outs = _svd.svd(
            a,
            full_matrices=full_matrices,
            compute_uv=compute_uv,
            subset_by_index=subset_by_index,
        )
        return SVDResult(*outs) if compute_uv else outs
    if subset_by_index is not None:
        raise ArgumentError("svd: subset_by_index needs hermitian=False, got True. Slice instead.")
    if not compute_uv:
        size = absolute(eigvalsh(a))
        return flip(METHODS["sort"](size), -1)
    w, v = eigh(a)
    order = flip(argsort(absolute(w)), -1)
    w = take_along_p.bind1(w, order, dimension=w.ndim - 1, unique=True)
    columns = broadcast_to_shape(expand_dims(order, -2), v.shape)
    v = take_along_p.bind1(v, columns, dimension=v.ndim - 1, unique=True)
    signs = where(w < 0, -1, 1).astype(v.dtype)
    return SVDResult(v, absolute(w), adjoint(v * expand_dims(signs, -2)))


@api_boundary
def svdvals(x: ArrayLike, /) -> Array:
    """The singular values of matrices, descending."""
    return _svd.svd(x, compute_uv=False)


def _lower(name: str, UPLO: Any) -> bool:
    if UPLO not in (None, "L", "U", "l", "u"):
        raise ArgumentError(f"{name}: UPLO must be 'L' or 'U', got {UPLO!r}. Use one of them.")
    return UPLO in (None, "L", "l")


@api_boundary
def eigh(a: ArrayLike, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """Eigenvalues and eigenvectors of Hermitian (real: symmetric) matrices.

    A function of them that does not depend on the choice of eigenvectors, like V g(W) V^H, has its
    derivative at equal eigenvalues too. There, and only where a derivative is taken, equal
    eigenvalues come out moved apart by about 3e-4 (float32) or 1e-8 (float64) of their size; this
    is also the accuracy of the derivative. `eigvalsh` is exact everywhere.

    Args:
        a: shape (..., n, n).
        UPLO: the triangle that is read, "L" (also None) or "U", if not symmetrize_input.
        symmetrize_input: take (a + a^H) / 2 for a.

    Returns:
        EighResult(eigenvalues, eigenvectors): real and ascending; vectors in columns. NaN for a
        matrix with NaN.

    Raises:
        ShapeError: a is not square. DTypeError: half precision. ArgumentError: another UPLO.

    Example:
        >>> mnp.linalg.eigh(mnp.array([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
        Array([1., 2.], dtype=float32)
    """
    lower = _lower("eigh", UPLO)
    v, w = eigen.eigh(a, lower=lower, symmetrize_input=symmetrize_input)
    return EighResult(w, v)


@api_boundary
def eigvalsh(a: ArrayLike, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Array:
    """The eigenvalues of Hermitian matrices, ascending; see `eigh`."""
    (x,) = matrices("eigvalsh", a, square=1)
    if symmetrize_input:
        x = triangular.symmetrized(x)
    return eigen.eigh_p.bind1(x, lower=_lower("eigvalsh", UPLO), vectors=False)


@api_boundary
def eig(a: ArrayLike) -> EigResult:
    """Eigenvalues and right eigenvectors of general matrices, both complex.

    It has no derivative: see `lax.linalg.eig` with enable_eigvec_derivs, `eigvals`, and `eigh`.

    Args:
        a: shape (..., n, n).

    Returns:
        EigResult(eigenvalues, eigenvectors) with vectors of norm 1 in columns, in LAPACK's order.

    Raises:
        ShapeError: a is not square. DTypeError: half precision.
    """
    w, v = eigen.eig(a, compute_left_eigenvectors=False)
    return EigResult(w, v)


@api_boundary
def eigvals(a: ArrayLike) -> Array:
    """The eigenvalues of general matrices, complex, in LAPACK's order."""
    return eigen.eig(a, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0]


# -- systems and determinants ---------------------------------------------------------------------


@api_boundary
def solve(a: ArrayLike, b: ArrayLike) -> Array:
    """The x with a x = b, by LU decomposition with partial pivoting.

    Args:
        a: shape (..., n, n).
        b: shape (n,), or (..., n, k); leading dimensions broadcast.

    Returns:
        Array of b's shape after broadcasting; infinities and NaN for singular matrices.

    Raises:
        ShapeError: the sizes do not fit. DTypeError: half precision.

    Example:
        >>> mnp.linalg.solve(mnp.array([[2.0, 0.0], [0.0, 4.0]]), mnp.array([1.0, 1.0]))
        Array([0.5 , 0.25], dtype=float32)
    """
    vector = asarray(b).ndim == 1
    x, y = matrices("solve", a, expand_dims(b, -1) if vector else b, square=1)
    n = x.shape[-1]
    if y.shape[-2] != n:
        raise ShapeError(
            f"solve: b must have as many rows as a, got a {x.aval} and b {asarray(b).aval}. "
            "Index b with [..., None] where it is a stack of vectors."
        )
    if x.ndim == 2 and y.ndim > 2:
        # One decomposition for all right-hand sides.
        columns = moveaxis(y, -2, 0)
        out = lu.solve_matrices(x, reshape(columns, (n, math.prod(columns.shape[1:]))))
        return moveaxis(reshape(out, columns.shape), 0, -2)
    lead = result_shape("solve", (x.shape[:-2], y.shape[:-2]), (x.aval, y.aval))
    x = broadcast_to_shape(x, (*lead, n, n))
    out = lu.solve_matrices(x, broadcast_to_shape(y, (*lead, *y.shape[-2:])))
    return squeeze(out, -1) if vector else out


@api_boundary
def inv(a: ArrayLike) -> Array:
    """The inverse matrices; infinities and NaN for singular ones.

    Args:
        a: shape (..., n, n).

    Returns:
        Array of a's shape. `solve` is faster and more accurate than a product with it.

    Raises:
        ShapeError: a is not square. DTypeError: half precision.
    """
    (x,) = matrices("inv", a, square=1)
    return lu.solve_matrices(x, eye(x.shape[-1], x.dtype, x.shape[:-2]))


@api_boundary
def pinv(
    a: ArrayLike, rcond: ArrayLike | None = None, hermitian: bool = False, *, rtol: Any = None
) -> Array:
    """The Moore-Penrose pseudo-inverse.

    The derivative holds while the rank stays the same.

    Args:
        a: shape (..., m, n).
        rcond: singular values up to rcond times the largest count as 0; shape (...) or a number.
            None: 10 * max(m, n) * eps.
        hermitian: a is Hermitian; uses its eigenvalues.
        rtol: another name of rcond.

    Returns:
        Array of shape (..., n, m).

    Raises:
        ShapeError: a has rank below 2. DTypeError: half precision. ArgumentError: rcond and rtol.

    Example:
        >>> mnp.linalg.pinv(mnp.array([[2.0, 0.0], [0.0, 0.0]]))
        Array([[0.5, 0. ],
               [0. , 0. ]], dtype=float32)
    """
    if rcond is not None and rtol is not None:
        raise ArgumentError("pinv: takes rcond or rtol, got both. They mean the same; drop one.")
    (x,) = matrices("pinv", a, square=1 if hermitian else 0)
    if hermitian:
        x = triangular.symmetrized(x)
    given = rcond if rtol is None else rtol
    return _pinv(x, given, hermitian)


def _pinv(x: Any, rtol: Any, hermitian: bool = False) -> Any:
    """The pseudo-inverse of an array; rtol may be None."""
    dtype = dtypes.real_part_dtype(x.dtype)
    if rtol is None:
        rtol = 10 * max(1, *x.shape[-2:]) * float(np.finfo(dtype).eps)
    limit = broadcast_to_shape(asarray(rtol).astype(dtype), x.shape[:-2])
    return _svd.pinv_p.bind1(x, limit, hermitian=bool(hermitian))


@api_boundary
def lstsq(
    a: ArrayLike, b: ArrayLike, rcond: Any = None, *, numpy_resid: bool = False
) -> tuple[Array, Array, Array, Array]:
    """The x that minimises the norm of a x - b, and among those has the least norm.

    Args:
        a: shape (m, n).
        b: shape (m,) or (m, k).
        rcond: singular values below rcond times the largest count as 0; None: eps * max(m, n).
        numpy_resid: return no residuals where a has not full column rank, as numpy does; the rank
            must then be known.

    Returns:
        x, shape (n,) or (n, k); the squared norms of the residuals, shape (k,); the rank of a; the
        singular values of a.

    Raises:
        ShapeError: the sizes do not fit. DTypeError: half precision.
    """
    vector = asarray(b).ndim == 1
    x, y = matrices("lstsq", a, expand_dims(b, -1) if vector else b)
    if x.ndim != 2 or y.ndim != 2 or x.shape[0] != y.shape[0]:
        raise ShapeError(
            f"lstsq: needs a of shape (m, n) and b of shape (m,) or (m, k), got {x.aval} and "
            f"{asarray(b).aval}. Use vmap for stacks."
        )
    m, n = x.shape
    s = svdvals(x)
    eps = float(np.finfo(s.dtype).eps)
    limit: Any = eps * max(n, m) if rcond is None else where(asarray(rcond) < 0, eps, rcond)
    if x.size:
        rank = reductions.sum(logical_and(s > 0, s >= limit * s[0]))
    else:
        rank = asarray(0)
    solution = matmul(_pinv(x, limit), y)
    if numpy_resid and (int(rank) < n or m <= n):
        residuals = reshape(solution, (-1,))[:0].astype(s.dtype)
    else:
        residuals = reductions.sum(square(absolute(y - matmul(x, solution))), 0)
    return squeeze(solution, -1) if vector else solution, residuals, rank, s


@api_boundary
def det(a: ArrayLike) -> Array:
    """The determinants of matrices.

    The derivative is the matrix of cofactors, right for singular matrices too.

    Args:
        a: shape (..., n, n).

    Returns:
        Array of shape (...); 1 for n = 0.

    Raises:
        ShapeError: a is not square. DTypeError: half precision.

    Example:
        >>> mgefn.grad(mnp.linalg.det)(mnp.array([[1.0, 2.0], [2.0, 4.0]]))
        Array([[ 4., -2.],
               [-2.,  1.]], dtype=float32)
    """
    (x,) = matrices("det", a, square=1)
    return lu.det_p.bind1(x)


@api_boundary
def slogdet(a: ArrayLike, *, method: str | None = None) -> SlogdetResult:
    """Sign and logarithm of the absolute value of determinants, which do not overflow.

    Args:
        a: shape (..., n, n).
        method: None or "lu".

    Returns:
        SlogdetResult(sign, logabsdet), shape (...): det = sign * exp(logabsdet). The sign of a
        complex determinant is a number of size 1; for singular matrices it is 0 and the logarithm
        -inf.

    Raises:
        ShapeError: a is not square. DTypeError: half precision. ArgumentError: another method.
    """
    if method not in (None, "lu"):
        raise ArgumentError(f"slogdet: method must be None or 'lu', got {method!r}. Leave it out.")
    (x,) = matrices("slogdet", a, square=1)
    factors, pivots, _ = lu.lu_p.bind(x)
    diagonals = _diagonal(factors, 0, -2, -1)
    steps = broadcasted_iota(pivots.dtype, pivots.shape, pivots.ndim - 1)
    exchanges = reductions.sum((pivots != steps).astype(pivots.dtype), -1)
    parity = (1 - 2 * (exchanges % 2)).astype(x.dtype)
    # Not by abs, whose slope at 0 is 0: it would hide that at a singular matrix there is no
    # derivative.
    if dtypes.is_complex(x.dtype):
        size = absolute(diagonals)
        signs = diagonals / convert(where(size == 0, 1, size), x.dtype)
        logs = real(log(diagonals))
    else:
        signs = sign(diagonals)
        logs = log(where(diagonals < 0, -diagonals, diagonals))
    return SlogdetResult(reductions.prod(signs, -1) * parity, reductions.sum(logs, -1))


@api_boundary
def matrix_rank(
    M: ArrayLike, tol: Any = None, hermitian: bool = False, *, rtol: Any = None
) -> Array:
    """How many singular values of matrices are not 0.

    Args:
        M: shape (..., m, n); of an array of lower rank, whether any element is not 0.
        tol: singular values up to tol count as 0; shape (...) or a number.
        hermitian: M is Hermitian.
        rtol: the same relative to the largest singular value. Without both: max(m, n) * eps.

    Returns:
        Integer array of shape (...).

    Raises:
        ArgumentError: tol and rtol. DTypeError: half precision.
    """
    if tol is not None and rtol is not None:
        raise ArgumentError("matrix_rank: takes tol or rtol, got both. Drop one.")
    (x,) = promoted("matrix_rank", (M,), inexact=True)
    if x.ndim < 2:
        return METHODS["any"](x != 0).astype(dtypes.default_int())
    s = svd(x, full_matrices=False, compute_uv=False, hermitian=hermitian)
    if not s.shape[-1]:
        return reductions.sum((s > 0).astype(np.int32), -1)
    if tol is None:
        if rtol is None:
            rtol = max(x.shape[-2:]) * float(np.finfo(s.dtype).eps)
        limit = reductions.max(s, -1, keepdims=True) * expand_dims(asarray(rtol), -1)
    else:
        limit = expand_dims(asarray(tol), -1)
    return reductions.sum((s > limit).astype(np.int32), -1)


@api_boundary
def cond(x: ArrayLike, p: Any = None) -> Array:
    """Condition numbers of matrices: norm(x) * norm(inv(x)).

    Args:
        x: shape (..., m, n), square for norms other than 2 and -2.
        p: the norm's ord; None: 2.

    Returns:
        Real array of shape (...); inf for singular matrices.

    Raises:
        ShapeError: x is empty, or not square.
    """
    (a,) = matrices("cond", x)
    if 0 in a.shape[-2:]:
        raise ShapeError(f"cond: needs matrices with elements, got {a.aval}.")
    if p in (None, 2, -2):
        s = svdvals(a)
        first, last = s[..., 0], s[..., -1]
        ratio = last / first if p == -2 else first / last
    else:
        (a,) = matrices("cond", a, square=1)
        ratio = norm(a, p, (-2, -1)) * norm(inv(a), p, (-2, -1))
    known = logical_not(METHODS["any"](isnan(a), (-2, -1)))
    return where(logical_and(isnan(ratio), known), math.inf, ratio)


@api_boundary
def tensorinv(a: ArrayLike, ind: int = 2) -> Array:
    """The inverse of `tensordot` with a over its first `ind` dimensions.

    Args:
        a: the sizes of the first `ind` dimensions multiply to the same as those of the others.
        ind: a positive number of dimensions.

    Returns:
        Array of shape a.shape[ind:] + a.shape[:ind].

    Raises:
        ShapeError: the sizes do not fit. ArgumentError: ind is not positive.
    """
    x = asarray(a)
    k = operator.index(ind)
    if k <= 0:
        raise ArgumentError(f"tensorinv: ind must be positive, got {k}.")
    rows, columns = x.shape[:k], x.shape[k:]
    if math.prod(rows) != math.prod(columns):
        raise ShapeError(
            f"tensorinv: the first {k} sizes of {x.aval} must multiply to the same as the others."
        )
    flat = reshape(x, (math.prod(rows), math.prod(columns)))
    return reshape(inv(flat), (*columns, *rows))


@api_boundary
def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """The x with tensordot(a, x, x.ndim) = b.

    Args:
        a: shape b.shape + x.shape, where the sizes of b and x multiply to the same.
        b: the right-hand side.
        axes: dimensions of a to move to its end first.

    Returns:
        x.

    Raises:
        ShapeError: the sizes do not fit.
    """
    x, y = promoted("tensorsolve", (a, b), inexact=True)
    if axes is not None:
        x = moveaxis(x, tuple(axes), tuple(range(x.ndim - len(axes), x.ndim)))
    shape = x.shape[y.ndim :]
    if x.shape[: y.ndim] != y.shape or y.size != math.prod(shape):
        raise ShapeError(
            "tensorsolve: a must have b's sizes first and others that multiply to the same, got a "
            f"{x.aval} and b {y.aval}."
        )
    out = solve(reshape(x, (y.size, y.size)), reshape(y, (y.size,)))
    return reshape(out, shape)


# -- norms ----------------------------------------------------------------------------------------


@api_boundary
def norm(x: ArrayLike, ord: Any = None, axis: Axis = None, keepdims: bool = False) -> Array:
    """Norm of vectors or matrices, as numpy.linalg.norm gives it.

    Args:
        x: an array; integers are taken as the default float.
        ord: None: the square root of the sum of squares. For vectors: any number p, for the p-th
            root of the sum of |x|**p; inf and -inf: the largest and smallest |x|; 0: how many are
            not 0. For matrices: "fro"; 1 and -1: the largest and smallest sum of a column; inf and
            -inf: of a row; 2 and -2: the largest and smallest singular value; "nuc": their sum.
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
    return flat_at_zero(sqrt, reductions.sum(squares, axes, keepdims=keepdims))


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
    if ord < 0:
        return power(total, 1 / ord)
    return flat_at_zero(lambda t: power(t, 1 / ord), total)


def _matrix_norm(x: Any, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    row, column = axes
    if ord in (None, "fro", "f"):
        return _root_of_squares(x, normalize_axes("norm", axes, x.ndim), keepdims)
    if ord in (1, -1):
        summed, chosen = row, column
    elif ord in (math.inf, -math.inf):
        summed, chosen = column, row
    elif ord in (2, -2, "nuc"):
        s = svdvals(moveaxis(x, axes, (-2, -1)))
        reduce = {2: reductions.max, -2: reductions.min, "nuc": reductions.sum}[ord]
        # An empty matrix has norm 0; its smallest singular value does not exist.
        out = reduce(s, -1, initial=0) if ord == 2 else reduce(s, -1)
        return expand_dims(out, axes) if keepdims else out
    else:
        raise ArgumentError(
            "norm: ord of matrices must be None, 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, got "
            f"{ord!r}. Use one of them."
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


# -- products --------------------------------------------------------------------------------------


@api_boundary
def matrix_power(a: ArrayLike, n: int) -> Array:
    """Square matrices to an integer power; n = 0 gives the identity, n < 0 powers of the inverse.

    Raises:
        ShapeError: the last two dimensions differ.
    """
    x = asarray(a)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ShapeError(f"matrix_power: needs square matrices, got {x.aval}.")
    k = operator.index(n)
    if k < 0:
        x, k = inv(x), -k
    if k == 0:
        return eye(x.shape[-1], x.dtype, x.shape[:-2])
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
