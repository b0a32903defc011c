"""The kernel of `ops/contractions/`: every contraction is one matmul, which is cuBLAS for floats.

The operands become stacks of matrices (batch, rows, contracted) and (batch, contracted, columns) by
a transpose and a reshape, which copies only where dimensions do not lie together. 2-byte floats are
multiplied in float32. TF32 is off, as CuPy leaves it, unless `config.tf32` allows it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mgefn import dtypes, forks
from mgefn.config import config
from mgefn.core.cuda import xp

TF32 = 7  # CuPy's number of this type of computation
TF32_FROM = 80  # compute capability
# CuPy has one type of computation for each dtype in a process.
_lock = forks.lock()


def _product(a: Any, b: Any) -> Any:
    """A product of stacks of matrices, of float32 with what `config.tf32` allows."""
    if a.dtype.char not in "fF":
        return xp.matmul(a, b)
    with _lock:
        if not config.tf32 or int(xp.cuda.Device().compute_capability) < TF32_FROM:
            return xp.matmul(a, b)
        before = xp._core.get_compute_type(np.float32)
        xp._core.set_compute_type(np.float32, TF32)
        try:
            return xp.matmul(a, b)
        finally:
            xp._core.set_compute_type(np.float32, before)


def dot_general(
    lhs: Any, rhs: Any, *, dimension_numbers: Any, preferred_element_type: Any
) -> tuple:
    (lc, rc), (lb, rb) = dimension_numbers
    lf = [i for i in range(lhs.ndim) if i not in lc and i not in lb]
    rf = [i for i in range(rhs.ndim) if i not in rc and i not in rb]
    batch = [lhs.shape[i] for i in lb]
    rows, columns = [lhs.shape[i] for i in lf], [rhs.shape[i] for i in rf]
    shape = (*batch, *rows, *columns)
    k = math.prod([lhs.shape[i] for i in lc])
    dtype = preferred_element_type or lhs.dtype
    if k == 0 or 0 in shape:
        return (xp.zeros(shape, dtype),)
    computed = np.dtype(np.int32) if dtype.kind == "b" else dtypes.accumulator(dtype)
    a = lhs.transpose((*lb, *lf, *lc)).astype(computed, copy=False)
    b = rhs.transpose((*rb, *rc, *rf)).astype(computed, copy=False)
    a = a.reshape((*batch, math.prod(rows), k))
    b = b.reshape((*batch, k, math.prod(columns)))
    made = xp.multiply(a, b) if k == 1 else _product(a, b)
    return (made.reshape(shape).astype(dtype, copy=False),)


dot_general.makes_new = True  # type: ignore[attr-defined]  # read by compiler/device_program.py
