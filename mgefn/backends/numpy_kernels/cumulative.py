"""Kernels of `ops/cumulative.py`: NumPy's accumulate, in float32 for narrower floats."""

from __future__ import annotations

from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.backends.numpy_kernels.base import BUFFER_ELEMENTS, deliver


class Accumulate:
    """The kernel of a cumulative operation.

    Args:
        ufunc: NumPy's, whose accumulate joins the elements.
        exact: the result is always one of the elements, so no wider dtype is needed.
    """

    def __init__(self, ufunc: Any, exact: bool = False):
        self.ufunc = ufunc
        self.exact = exact

    def __call__(
        self, x: np.ndarray, *, axis: int, reverse: bool, outs: tuple = (None,)
    ) -> tuple[np.ndarray]:
        out = outs[0]
        wide = x.dtype if self.exact else dtypes.accumulator(x.dtype)
        backwards = (*(slice(None),) * axis, slice(None, None, -1))
        if wide != x.dtype:
            target = np.empty(x.shape, wide)
        else:
            target = np.empty(x.shape, x.dtype) if out is None else out
        self.ufunc.accumulate(
            x[backwards] if reverse else x,
            axis=axis,
            dtype=wide,
            out=target[backwards] if reverse else target,
        )
        if wide != x.dtype:
            return (target.astype(x.dtype) if out is None else deliver(target, out),)
        return (target,)

    def temp_bytes(self, in_avals: Any, out_avals: Any, **params: Any) -> int:
        x = in_avals[0]
        wide = x.dtype if self.exact else dtypes.accumulator(x.dtype)
        if wide == x.dtype:
            return 0
        # The wide result, and NumPy's copy of the operand in its dtype.
        return 2 * x.size * wide.itemsize + BUFFER_ELEMENTS * wide.itemsize


cumsum = Accumulate(np.add)
cumprod = Accumulate(np.multiply)
cummax = Accumulate(np.maximum, exact=True)
cummin = Accumulate(np.minimum, exact=True)
cumlogsumexp = Accumulate(np.logaddexp)
