"""Contractions: sums of products over shared dimensions. `dot_general_p` is all of them.

Its output has the batch dimensions first, then the free dimensions of the left operand, then those
of the right. matmul, tensordot, einsum and their kin choose the dimensions and reorder the result.
Elementwise products without a sum are multiplications, which the compiler fuses.
"""

from __future__ import annotations

from mgefn.ops.contractions.dot_general import (
    DimensionNumbers,
    Dims,
    check_preferred,
    dot_general,
    dot_general_p,
)
from mgefn.ops.contractions.einsum import Label, einsum, einsum_path
from mgefn.ops.contractions.products import (
    batch_matmul,
    cross,
    dot,
    inner,
    kron,
    lax_dot,
    matmul,
    matvec,
    outer,
    tensordot,
    vdot,
    vecdot,
    vecmat,
)

__all__ = [
    "DimensionNumbers",
    "Dims",
    "Label",
    "batch_matmul",
    "check_preferred",
    "cross",
    "dot",
    "dot_general",
    "dot_general_p",
    "einsum",
    "einsum_path",
    "inner",
    "kron",
    "lax_dot",
    "matmul",
    "matvec",
    "outer",
    "tensordot",
    "vdot",
    "vecdot",
    "vecmat",
]
