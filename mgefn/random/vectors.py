"""Vectors and matrices that are made from normal ones by linear algebra."""

from __future__ import annotations

import operator
from typing import Any

from mgefn import dtypes
from mgefn.core.array_methods import Array, ArrayLike, DTypeLike
from mgefn.errors import (
    ArgumentError,
    DTypeError,
    ShapeError,
    api_boundary,
)
from mgefn.numpy.assembling import broadcast_shapes
from mgefn.numpy.linalg import cholesky, diagonal, eigh, qr, svd
from mgefn.ops.contractions import matmul
from mgefn.ops.elementwise import (
    promoted,
    sign,
    sqrt,
)
from mgefn.ops.shaping import (
    canonical_shape,
    expand_dims,
    reshape,
)
from mgefn.random.continuous import normal
from mgefn.random.uniforms import (
    float_dtype,
)


@api_boundary
def multivariate_normal(
    key: ArrayLike,
    mean: ArrayLike,
    cov: ArrayLike,
    shape: Any = None,
    dtype: DTypeLike | None = None,
    method: str = "cholesky",
) -> Array:
    """Vectors from the normal distribution with a mean and a covariance matrix.

    Args:
        key: a key.
        mean: vectors along the last dimension.
        cov: positive semidefinite matrices, positive definite for "cholesky".
        shape: of the result without its last dimension; None: that of mean and cov together.
        dtype: of the numbers drawn; None: that of mean and cov.
        method: how the matrix is factored: "cholesky", or the slower "eigh" and "svd", which take
            singular matrices.

    Raises:
        ShapeError: the sizes of mean and cov do not fit.

    Example:
        >>> mgefn.random.multivariate_normal(mgefn.random.key(0), mnp.zeros(2), mnp.eye(2))
        Array([1.6226422, 2.0252647], dtype=float32)
    """
    if method not in ("cholesky", "eigh", "svd"):
        raise ArgumentError(
            f"multivariate_normal: method must be 'cholesky', 'eigh' or 'svd', got {method!r}."
        )
    m, c = promoted("multivariate_normal", (mean, cov), inexact=True)
    new = float_dtype("multivariate_normal", m.dtype if dtype is None else dtype)
    if m.ndim < 1 or c.ndim < 2 or c.shape[-2:] != (m.shape[-1],) * 2:
        raise ShapeError(
            "multivariate_normal: mean and cov must have shapes (..., n) and (..., n, n), got "
            f"{m.aval} and {c.aval}."
        )
    if shape is None:
        sizes = broadcast_shapes(m.shape[:-1], c.shape[:-2])
    else:
        sizes = canonical_shape("multivariate_normal", shape)
        for lead in (m.shape[:-1], c.shape[:-2]):
            if len(lead) > len(sizes) or broadcast_shapes(lead, sizes) != sizes:
                raise ShapeError(
                    f"multivariate_normal: a parameter of shape {lead} does not broadcast to "
                    f"{sizes}."
                )
    if method == "cholesky":
        factor: Any = cholesky(c)
    elif method == "eigh":
        w, v = eigh(c)
        factor = v * sqrt(expand_dims(w, -2))
    else:
        u, s, _ = svd(c)
        factor = u * sqrt(expand_dims(s, -2))
    z = normal(key, (*sizes, m.shape[-1]), new)
    return m + reshape(matmul(factor, expand_dims(z, -1)), z.shape)


@api_boundary
def orthogonal(
    key: ArrayLike,
    n: int,
    shape: Any = (),
    dtype: DTypeLike | None = None,
    m: int | None = None,
) -> Array:
    """Orthogonal matrices, evenly distributed; unitary ones for complex dtypes.

    Args:
        key: a key.
        n: the number of rows.
        shape: of the result without its last two dimensions.
        dtype: a floating or complex type; None: float32 by default.
        m: the number of columns; None: n. The longer vectors of the two kinds are then not a
            basis, but the shorter ones are orthonormal.

    Source: Mezzadri (2007), How to generate random matrices from the classical compact groups,
    Notices of the AMS 54(5), 592-604.
    """
    new = dtypes.default_float() if dtype is None else dtypes.canonical(dtype)
    if not dtypes.is_inexact(new):
        raise DTypeError(f"orthogonal: dtype must be floating or complex, got {new}.")
    rows = operator.index(n)
    columns = rows if m is None else operator.index(m)
    sizes = canonical_shape("orthogonal", shape)
    z = normal(key, (*sizes, max(rows, columns), min(rows, columns)), new)
    q, r = qr(z)
    # Without the signs of r the distribution would depend on the algorithm of qr.
    x = q * expand_dims(sign(diagonal(r)), -2)
    return x.mT if rows < columns else x


__all__ = [
    "multivariate_normal",
    "orthogonal",
]
