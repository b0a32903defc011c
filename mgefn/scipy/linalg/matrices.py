"""What the functions of scipy.linalg ask of their matrices."""

from __future__ import annotations

from typing import Any

from mgefn import numpy as mnp
from mgefn.core.array_methods import ArrayLike
from mgefn.errors import ShapeError
from mgefn.ops.elementwise import promoted


def matrices(name: str, *args: ArrayLike, square: int = 0) -> Any:
    """Arrays of one floating or complex dtype and rank at least 2, the first ones square."""
    arrays = promoted(name, args, inexact=True)
    for i, a in enumerate(arrays):
        if a.ndim < 2:
            raise ShapeError(f"{name}: needs matrices, got {a.aval}.")
        if i < square and a.shape[-1] != a.shape[-2]:
            raise ShapeError(f"{name}: needs square matrices, got {a.aval}.")
    return arrays[0] if len(arrays) == 1 else arrays


def adjoint(a: Any) -> Any:
    return mnp.conj(mnp.matrix_transpose(a))
