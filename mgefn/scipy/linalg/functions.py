"""Functions of matrices: exponential, square root, and any other by Parlett's recurrence.

Source: Higham, Functions of Matrices, SIAM 2008.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mgefn import dtypes, lax, lax_linalg
from mgefn import numpy as mnp
from mgefn.api.derivatives import jvp
from mgefn.control.custom_rules import custom_jvp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import ArgumentError, api_boundary
from mgefn.ops.elementwise import stop_gradient_leaf, where
from mgefn.scipy.linalg.decompositions import schur
from mgefn.scipy.linalg.matrices import adjoint, matrices
from mgefn.scipy.linalg.systems import sylvester_in_schur_form
from mgefn.scipy.linalg.triangular import solve_triangular

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
    x = matrices("expm", A, square=1)
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
    a, e = matrices("expm_frechet", A, E, square=2)
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
    return mnp.matmul(z, mnp.matmul(_sqrt_triangular(t), adjoint(z)))


@_sqrtm.defjvp
def _sqrtm_jvp(primals: Any, tangents: Any) -> Any:
    (a,), (da,) = primals, tangents
    t, z = lax_linalg.schur(a)
    root = _sqrt_triangular(t)
    x = mnp.matmul(z, mnp.matmul(root, adjoint(z)))
    # From X X = A: dX X + X dX = dA.
    return x, sylvester_in_schur_form(z, root, z, root, da)


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
    a = matrices("sqrtm", A, square=1)
    return _sqrtm(a.astype(dtypes.promote_types(a.dtype, "complex64")))


@api_boundary
def funm(A: ArrayLike, func: Callable[[Array], Array], disp: bool = True) -> Any:
    """A function of a square matrix by its Schur form and Parlett's recurrence.

    Args:
        A: shape (n, n), with distinct eigenvalues.
        func: the function, of vectors of complex eigenvalues.
        disp: return the result alone; False: also an estimate of its relative error.
    """
    a = matrices("funm", A, square=1)
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
    result = mnp.matmul(z, mnp.matmul(f, adjoint(z)))
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
