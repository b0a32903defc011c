"""Systems of equations."""

from __future__ import annotations

from typing import Any

from mgefn import dtypes, lax, lax_linalg
from mgefn import numpy as mnp
from mgefn.control.custom_rules import custom_jvp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import ArgumentError, ShapeError, api_boundary
from mgefn.ops.elementwise import promoted
from mgefn.scipy.linalg.decompositions import cho_factor, cho_solve, schur
from mgefn.scipy.linalg.matrices import adjoint, matrices
from mgefn.scipy.linalg.triangular import columns


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
    matrices("solve", x, square=1)
    if assume_a == "pos":
        return cho_solve(cho_factor(x, lower=lower), right)
    right, vector = columns("solve", x, right)
    out = mnp.linalg.solve(x, right)
    return out[..., 0] if vector else out


def sylvester_in_schur_form(u: Any, r: Any, v: Any, s: Any, c: Any) -> Any:
    """X with A X + X B = C, for A = u r u^H and B = v s v^H, r and s triangular."""
    f = mnp.matmul(adjoint(u), mnp.matmul(c, v))
    n = s.shape[-1]
    identity = mnp.eye(r.shape[-1], dtype=r.dtype)

    def column(y: Any, k: Any) -> tuple[Any, None]:
        # The columns of y after k are still 0.
        right = f[:, k] - mnp.matmul(y, s[:, k])
        shifted = r + s[k, k] * identity
        new = lax_linalg.triangular_solve(shifted, right[:, None], left_side=True)[:, 0]
        return y.at[:, k].set(new), None

    y, _ = lax.scan(column, mnp.zeros_like(f), lax.iota("int32", n))
    return mnp.matmul(u, mnp.matmul(y, adjoint(v)))


def _real_if(x: Any, real: bool) -> Any:
    return mnp.real(x) if real else x


@custom_jvp
def _sylvester(a: Any, b: Any, c: Any) -> Any:
    real = not dtypes.is_complex(c.dtype)
    (r, u), (s, v) = schur(a, "complex"), schur(b, "complex")
    return _real_if(sylvester_in_schur_form(u, r, v, s, c.astype(r.dtype)), real)


@_sylvester.defjvp
def _sylvester_jvp(primals: Any, tangents: Any) -> Any:
    (a, b, c), (da, db, dc) = primals, tangents
    real = not dtypes.is_complex(c.dtype)
    (r, u), (s, v) = schur(a, "complex"), schur(b, "complex")
    x = _real_if(sylvester_in_schur_form(u, r, v, s, c.astype(r.dtype)), real)
    right = (dc - mnp.matmul(da, x) - mnp.matmul(x, db)).astype(r.dtype)
    return x, _real_if(sylvester_in_schur_form(u, r, v, s, right), real)


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
    a, b, c = matrices("solve_sylvester", A, B, C, square=2)
    if c.ndim != 2 or c.shape != (a.shape[-1], b.shape[-1]):
        raise ShapeError(
            "solve_sylvester: C must have A's number of rows and B's of columns, got "
            f"{a.aval}, {b.aval} and {c.aval}."
        )
    return _sylvester(a, b, c)
