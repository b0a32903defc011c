"""Vector quantization under scipy.cluster.vq's names."""

from __future__ import annotations

from mgefn import dtypes
from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import DTypeError, ShapeError, api_boundary
from mgefn.ops.elementwise import promoted

__all__ = ["vq"]


@api_boundary
def vq(obs: ArrayLike, code_book: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """Assign each observation to the nearest code.

    Args:
        obs: observations, real, shape (m, n); or (m,), of one dimension each.
        code_book: codes, shape (k, n) or (k,).
        check_finite: accepted for SciPy's programs; values are not looked at.

    Returns:
        The codes' numbers and the distances to them, shape (m,). The first of equally near ones.

    Raises:
        ShapeError: the ranks differ or are not 1 or 2, or the lengths n differ.
        DTypeError: the arrays are complex.

    Example:
        >>> codes = mnp.array([[0.0, 0.0], [1.0, 1.0]])
        >>> mgefn.scipy.cluster.vq.vq(mnp.array([[0.9, 1.0]]), codes)[0]
        Array([1], dtype=int32)
    """
    x, codes = promoted("vq", (obs, code_book), inexact=True)
    if dtypes.is_complex(x.dtype):
        raise DTypeError(f"vq: needs real arrays, got {x.aval}.")
    if x.ndim != codes.ndim or x.ndim not in (1, 2) or x.shape[1:] != codes.shape[1:]:
        raise ShapeError(
            f"vq: obs and code_book must have shapes (m, n) and (k, n), got {x.aval} and "
            f"{codes.aval}."
        )
    if x.ndim == 1:
        x, codes = x[:, None], codes[:, None]
    distances = mnp.linalg.norm(x[:, None, :] - codes[None, :, :], axis=-1)
    return mnp.argmin(distances, axis=1), mnp.min(distances, axis=1)
