"""Iterative solvers of linear systems under scipy.sparse.linalg's names.

The system may act on any pytree; inside, one vector stands for it. Derivatives do not go through
the iterations: they solve a system of the same operator, or of its transpose.

Sources: Saad, Iterative Methods for Sparse Linear Systems, SIAM 2003; van der Vorst (1992), SIAM J.
Sci. Stat. Comput. 13(2), 631-644, doi:10.1137/0913035.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from mgefn import dtypes, lax, tree
from mgefn import numpy as mnp
from mgefn.control.implicit import custom_linear_solve
from mgefn.errors import ArgumentError, ShapeError, api_boundary
from mgefn.ops.elementwise import promoted, stop_gradient_leaf, where

__all__ = ["bicgstab", "cg", "gmres"]

Operator = Callable[[Any], Any]


class _Vectors:
    """Between pytrees like the right side and vectors."""

    def __init__(self, name: str, b: Any):
        leaves, self.treedef = tree.flatten(b)
        if not leaves:
            raise ArgumentError(f"{name}: b must have arrays, got {b!r}.")
        arrays = promoted(name, leaves, inexact=True)
        self.name = name
        self.dtype = arrays[0].dtype
        self.shapes = [a.shape for a in arrays]
        self.vector = self._joined(arrays)

    def _joined(self, arrays: Any) -> Any:
        return mnp.concatenate([mnp.ravel(a) for a in arrays])

    def ravel(self, x: Any, what: str) -> Any:
        leaves, treedef = tree.flatten(x)
        arrays = [mnp.asarray(a) for a in leaves]
        if treedef != self.treedef or [a.shape for a in arrays] != self.shapes:
            raise ShapeError(
                f"{self.name}: {what} must have the structure and shapes of b, got "
                f"{[str(a.aval) for a in arrays]} for {self.shapes}."
            )
        return self._joined([a.astype(self.dtype) for a in arrays])

    def unravel(self, vector: Any) -> Any:
        leaves, start = [], 0
        for shape in self.shapes:
            size = math.prod(shape)
            leaves.append(mnp.reshape(vector[start : start + size], shape))
            start += size
        return tree.unflatten(self.treedef, leaves)


def _operator(name: str, what: str, A: Any) -> Operator:
    if callable(A):
        return A
    matrix = mnp.asarray(A)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ShapeError(f"{name}: {what} must be a function or square, got {matrix.aval}.")
    return lambda x: mnp.matmul(matrix, x)


def _solved(
    name: str,
    solver: Callable[..., Any],
    A: Any,
    b: Any,
    x0: Any,
    tol: Any,
    atol: Any,
    maxiter: Any,
    M: Any,
    symmetric: bool,
) -> tuple[Any, None]:
    vectors = _Vectors(name, b)
    apply = _operator(name, "A", A)
    right = vectors.vector
    if not callable(A):
        kind = dtypes.promote_types(vectors.dtype, dtypes.result_type(A))
        vectors.dtype = kind
        right = right.astype(kind)
    precondition = None if M is None else _operator(name, "M", M)
    start = mnp.zeros_like(right) if x0 is None else vectors.ravel(x0, "x0")
    limit = 10 * right.size if maxiter is None else maxiter

    def matvec(x: Any) -> Any:
        return vectors.ravel(apply(vectors.unravel(x)), "A(x)")

    def preconditioned(x: Any) -> Any:
        if precondition is None:
            return x
        return vectors.ravel(precondition(vectors.unravel(x)), "M(x)")

    def solve(operator: Operator, c: Any) -> Any:
        return solver(operator, c, start, tol, atol, limit, preconditioned)

    def solve_transposed(operator: Operator, c: Any) -> Any:
        # The preconditioner is that of A, so the transposed system goes without.
        return solver(operator, c, mnp.zeros_like(c), tol, atol, limit, lambda x: x)

    start = stop_gradient_leaf(start)
    x = custom_linear_solve(
        matvec,
        right,
        solve,
        transpose_solve=solve if symmetric else solve_transposed,
        symmetric=symmetric,
    )
    return vectors.unravel(x), None


def _squares(x: Any) -> Any:
    return mnp.real(mnp.vdot(x, x))


def _cg(matvec: Operator, b: Any, x0: Any, tol: Any, atol: Any, limit: Any, M: Operator) -> Any:
    goal = mnp.maximum(mnp.square(tol) * _squares(b), mnp.square(atol)).astype(_squares(b).dtype)

    def going(state: Any) -> Any:
        _, r, _, _, k = state
        return (_squares(r) > goal) & (k < limit)

    def step(state: Any) -> Any:
        x, r, gamma, p, k = state
        image = matvec(p)
        alpha = (gamma / mnp.real(mnp.vdot(p, image))).astype(b.dtype)
        x, r = x + alpha * p, r - alpha * image
        z = M(r)
        new = mnp.real(mnp.vdot(r, z))
        return x, r, new, z + (new / gamma).astype(b.dtype) * p, k + 1

    r = b - matvec(x0)
    z = M(r)
    return lax.while_loop(going, step, (x0, r, mnp.real(mnp.vdot(r, z)), z, 0))[0]


def _bicgstab(
    matvec: Operator, b: Any, x0: Any, tol: Any, atol: Any, limit: Any, M: Operator
) -> Any:
    goal = mnp.maximum(mnp.square(tol) * _squares(b), mnp.square(atol)).astype(_squares(b).dtype)
    shadow = b - matvec(x0)
    one = mnp.ones((), b.dtype)

    def going(state: Any) -> Any:
        _, r, *_, k = state
        # A negative count tells of a breakdown.
        return (_squares(r) > goal) & (k < limit) & (k >= 0)

    def step(state: Any) -> Any:
        x, r, alpha, omega, rho, p, q, k = state
        new_rho = mnp.vdot(shadow, r)
        beta = new_rho / rho * alpha / omega
        p = r + beta * (p - omega * q)
        p_hat = M(p)
        q = matvec(p_hat)
        alpha = new_rho / mnp.vdot(shadow, q)
        s = r - alpha * q
        early = _squares(s) < goal
        s_hat = M(s)
        t = matvec(s_hat)
        omega = mnp.vdot(t, s) / mnp.vdot(t, t)
        x = where(early, x + alpha * p_hat, x + alpha * p_hat + omega * s_hat)
        r = where(early, s, s - omega * t)
        broken = (new_rho == 0) | (~early & (omega == 0)) | (alpha == 0)
        return x, r, alpha, omega, new_rho, p, q, where(broken, -11, k + 1)

    start = (x0, shadow, one, one, one, mnp.zeros_like(b), mnp.zeros_like(b), mnp.asarray(0))
    return lax.while_loop(going, step, start)[0]


def _gmres_with(restart: int) -> Callable[..., Any]:
    def solver(
        matvec: Operator, b: Any, x0: Any, tol: Any, atol: Any, limit: Any, M: Operator
    ) -> Any:
        m = min(restart, b.size)
        b_norm = mnp.sqrt(_squares(b))
        needed = mnp.maximum(tol * b_norm, atol)
        safe = where(b_norm == 0, 1, b_norm)
        # The residual is measured behind the preconditioner.
        goal = mnp.sqrt(_squares(M(b))) * mnp.minimum(1, needed / safe)
        goal = goal.astype(b_norm.dtype)
        eps = float(dtypes.finfo(b.dtype).eps)

        def arnoldi(state: Any, k: Any) -> tuple[Any, Any]:
            (basis,) = state
            w = M(matvec(basis[k]))
            size = mnp.sqrt(_squares(w))
            column = mnp.zeros((m + 1,), b.dtype)
            for _ in range(2):  # twice is enough for orthogonality to rounding
                h = mnp.matmul(mnp.conj(basis), w)
                w = w - mnp.matmul(h, basis)
                column = column + h
            rest = mnp.sqrt(_squares(w))
            # What is left of w may be rounding alone: the space is complete.
            rest = where(rest > eps * size, rest, 0)
            w = where(rest > 0, w / where(rest > 0, rest, 1), 0).astype(b.dtype)
            column = column.at[k + 1].add(rest.astype(b.dtype))
            return (basis.at[k + 1].set(w),), column

        def going(state: Any) -> Any:
            _, _, size, k = state
            return (size > goal) & (k < limit)

        def step(state: Any) -> Any:
            x, r, size, k = state
            basis = mnp.zeros((m + 1, b.size), b.dtype).at[0].set(r / size.astype(b.dtype))
            (basis,), columns = lax.scan(arnoldi, (basis,), lax.iota("int32", m))
            first = mnp.zeros((m + 1,), b.dtype).at[0].set(size.astype(b.dtype))
            y = mnp.linalg.lstsq(columns.T, first)[0]
            x = x + mnp.matmul(y, basis[:m])
            r = M(b - matvec(x))
            return x, r, mnp.sqrt(_squares(r)), k + 1

        r = M(b - matvec(x0))
        return lax.while_loop(going, step, (x0, r, mnp.sqrt(_squares(r)), 0))[0]

    return solver


@api_boundary
def cg(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: Any = 1e-5,
    atol: Any = 0.0,
    maxiter: Any = None,
    M: Any = None,
) -> tuple[Any, None]:
    """Solve A x = b by conjugate gradients, for Hermitian positive definite A.

    Args:
        A: a matrix, or a linear function of pytrees like b.
        b: the right side, a pytree of arrays.
        x0: where to begin; None: zeros.
        tol, atol: stop when the residual's norm is below max(tol * norm(b), atol).
        maxiter: the largest number of steps; None: ten times the number of unknowns.
        M: approximates the inverse of A, as a matrix or function.

    Returns:
        The solution and None.

    Example:
        >>> A = mnp.array([[2.0, 0.0], [0.0, 4.0]])
        >>> mgefn.scipy.sparse.linalg.cg(A, mnp.array([2.0, 4.0]))[0].round(3)
        Array([1., 1.], dtype=float32)
    """
    return _solved("cg", _cg, A, b, x0, tol, atol, maxiter, M, symmetric=True)


@api_boundary
def bicgstab(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: Any = 1e-5,
    atol: Any = 0.0,
    maxiter: Any = None,
    M: Any = None,
) -> tuple[Any, None]:
    """Solve A x = b by stabilised biconjugate gradients; arguments as for `cg`."""
    return _solved("bicgstab", _bicgstab, A, b, x0, tol, atol, maxiter, M, symmetric=False)


@api_boundary
def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: Any = 1e-5,
    atol: Any = 0.0,
    restart: int = 20,
    maxiter: Any = None,
    M: Any = None,
    solve_method: str = "batched",
) -> tuple[Any, None]:
    """Solve A x = b by the method of generalised minimal residuals, restarted.

    Args:
        A, b, x0, tol, atol, M: as for `cg`.
        restart: the size of the Krylov space, which is rebuilt then.
        maxiter: the largest number of restarts; None: ten times the number of unknowns.
        solve_method: "batched" or "incremental", accepted for JAX's programs.

    Returns:
        The solution and None.
    """
    if solve_method not in ("batched", "incremental"):
        raise ArgumentError(
            f"gmres: solve_method must be 'batched' or 'incremental', got {solve_method!r}."
        )
    if not isinstance(restart, int) or restart < 1:
        raise ArgumentError(f"gmres: restart must be an integer above 0, got {restart!r}.")
    return _solved("gmres", _gmres_with(restart), A, b, x0, tol, atol, maxiter, M, symmetric=False)
