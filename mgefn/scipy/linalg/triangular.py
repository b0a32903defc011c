"""Triangular systems of equations."""

from __future__ import annotations

from typing import Any

from mgefn import lax_linalg
from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import ArgumentError, ShapeError, api_boundary
from mgefn.ops.elementwise import promoted
from mgefn.scipy.linalg.matrices import matrices


def columns(name: str, a: Any, b: Any) -> tuple[Any, bool]:
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
    matrices("solve_triangular", x, square=1)
    right, vector = columns("solve_triangular", x, right)
    batch = mnp.broadcast_shapes(x.shape[:-2], right.shape[:-2])
    x = mnp.broadcast_to(x, (*batch, *x.shape[-2:]))
    right = mnp.broadcast_to(right, (*batch, *right.shape[-2:]))
    out = lax_linalg.triangular_solve(
        x, right, left_side=True, lower=lower, transpose_a=kind > 0, conjugate_a=kind == 2,
        unit_diagonal=unit_diagonal,
    )  # fmt: skip
    return out[..., 0] if vector else out
