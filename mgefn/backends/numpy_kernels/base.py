"""What a NumPy kernel is.

A kernel is called as kernel(*arrays, outs=(None, ...), **params) and returns a tuple of arrays. An
entry of `outs` that is not None is a block of the arena with the output's shape and dtype: the
kernel writes there and returns it. Without one it makes its own array, or a view of an operand.

`temp_bytes` bounds the memory in bytes that a call allocates beyond its outputs, as a function of
the operands' and outputs' types and the params; the memory plan counts on it. `in_place` says that
an output block may be the block of an operand of the same shape and dtype: True, or a tuple of the
operands' positions. `whole_ufunc` is the NumPy ufunc that a kernel is nothing more than: programs
call it without the kernel, with the output by position where `out_by_position` says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

K = TypeVar("K", bound=Callable[..., Any])

# NumPy casts and unaligned operands go through buffers of this many elements each.
BUFFER_ELEMENTS = 8192


def temp_bytes(bound: Callable[..., int]) -> Callable[[K], K]:
    """Declare a kernel's scratch memory: bound(in_avals, out_avals, **params) -> bytes."""

    def mark(kernel: K) -> K:
        kernel.temp_bytes = bound  # type: ignore[attr-defined]  # functions take attributes
        return kernel

    return mark


def in_place(kernel: K) -> K:
    """Declare that a kernel may write its output over an operand."""
    kernel.in_place = True  # type: ignore[attr-defined]  # functions take attributes
    return kernel


def deliver(value: Any, out: np.ndarray | None) -> np.ndarray:
    """The value as an array, in `out` where there is one."""
    if out is None:
        return np.asarray(value)
    if value is not out:
        np.copyto(out, value, casting="unsafe")
    return out


_BUILTIN = "?bBhHiIlLqQefdFD"
_EXACT = frozenset(np.dtype(c) for c in _BUILTIN)


def dtypes_of(kinds: str) -> frozenset[np.dtype]:
    """NumPy's own dtypes of some kinds: b, i, u, f, c."""
    return frozenset(d for d in _EXACT if d.kind in kinds)


class Ufunc:
    """A kernel that is a NumPy ufunc whose result has the operands' dtype (or is bool).

    Args:
        ufunc: NumPy's.
        kinds: kinds of NumPy's own dtypes for which ufunc(x) has the right result dtype. Eager
            calls on these go straight to the ufunc; for other dtypes (bfloat16, float8) it is
            called as well, and its result cast where it must be.
    """

    in_place = True

    def __init__(self, ufunc: Any, kinds: str = "biufc"):
        self.ufunc = self.whole_ufunc = ufunc
        # NumPy deprecates a third positional argument of these two.
        self.out_by_position = ufunc not in (np.maximum, np.minimum)
        self.dtypes = dtypes_of(kinds)
        # float16 goes through float32 inside NumPy's loops with a single rounding, as it must.

    def __call__(self, *arrays: np.ndarray, outs: tuple = (None,), **params: Any) -> tuple:
        out = outs[0]
        if out is None:
            return (self.ufunc(*arrays),)
        return (self.ufunc(*arrays, out=out),)


class ViaFloat32:
    """A unary or binary function computed in float32 for float16 and narrower, else as it is."""

    def __init__(self, fn: Callable[..., Any]):
        self.fn = fn
        self.__name__ = getattr(fn, "__name__", "kernel")

    def __call__(self, *arrays: np.ndarray, outs: tuple = (None,), **params: Any) -> tuple:
        dtype = arrays[0].dtype
        if dtype.kind == "V" or dtype.itemsize < 4:
            wide = [a.astype(np.float32) for a in arrays]
            return (deliver(np.asarray(self.fn(*wide, **params)).astype(dtype), outs[0]),)
        return (deliver(self.fn(*arrays, **params), outs[0]),)

    def temp_bytes(self, in_avals: Any, out_avals: Any, **params: Any) -> int:
        """The result before it is copied into its block, and the widened operands."""
        n = out_avals[0].size
        if out_avals[0].dtype.itemsize < 4:
            return n * (4 * (len(in_avals) + 1) + out_avals[0].dtype.itemsize)
        return n * out_avals[0].dtype.itemsize
