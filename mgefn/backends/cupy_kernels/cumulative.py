"""Kernels of `ops/cumulative.py`: sums and products by CuPy's scans, the others by doubling.

Doubling joins each element with the one 1, 2, 4, ... places before it; after log2(n) steps it holds
all of them. CuPy has no scan for maxima, minima and logaddexp.
"""

from __future__ import annotations

from typing import Any

from mgefn import dtypes
from mgefn.backends.cupy_kernels.base import widened
from mgefn.core.cuda import xp


class Scan:
    """A cumulative sum or product, in the accumulator's dtype on the way."""

    def __init__(self, name: str):
        self.name = name

    def __call__(self, x: Any, *, axis: int, reverse: bool) -> tuple:
        backwards = (*(slice(None),) * axis, slice(None, None, -1))
        lines = x[backwards] if reverse else x
        wide = dtypes.accumulator(x.dtype)
        if x.size == 0:
            return (x.copy(),)
        y = getattr(xp, self.name)(widened(lines), axis=axis, dtype=wide)
        y = y.astype(x.dtype, copy=False)
        return (y[backwards] if reverse else y,)


class Doubling:
    """A cumulative operation by any associative ufunc."""

    def __init__(self, name: str):
        self.name = name

    def __call__(self, x: Any, *, axis: int, reverse: bool) -> tuple:
        ufunc = getattr(xp, self.name)
        lead = (slice(None),) * axis
        backwards = (*lead, slice(None, None, -1))
        y = widened(x[backwards] if reverse else x).copy()
        n, step = x.shape[axis], 1
        while step < n:
            joined = ufunc(y[(*lead, slice(0, n - step))], y[(*lead, slice(step, n))])
            y[(*lead, slice(step, n))] = joined
            step *= 2
        y = y.astype(x.dtype, copy=False)
        return (y[backwards] if reverse else y,)


cumsum, cumprod = Scan("cumsum"), Scan("cumprod")
cummax, cummin, cumlogsumexp = Doubling("maximum"), Doubling("minimum"), Doubling("logaddexp")
