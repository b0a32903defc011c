"""What a CuPy kernel is.

A kernel is called as kernel(*arrays, **params) with arrays of one device and returns a tuple of
arrays there: new ones, or views of operands. It starts work on the current stream and does not wait
for it: no decision depends on an element, except where `cuda.flag` says so by name. One whose
results are always new memory may say so with `makes_new`: programs write over them once they are
dead.

Kernels name functions through `xp`, so the same code runs on any library with NumPy's functions.
They keep to what CuPy has: no `where=` or `out=` of another kind, no `accumulate` but of sums and
products, no kernels for bfloat16 beyond its ufuncs. What only moves elements takes bfloat16 as its
bits; what computes and has no loop for 2-byte floats goes through float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mgefn.core.cuda import xp
from mgefn.core.devices import Device

F32, U16, BOOL = np.dtype(np.float32), np.dtype(np.uint16), np.dtype(bool)


def is_narrow(dtype: np.dtype) -> bool:
    """Is this float16 or bfloat16?"""
    return dtype.itemsize == 2 and dtype.kind in "fV"


def bits(x: Any) -> Any:
    """The same elements in a dtype that every function which moves them takes."""
    return x.view(U16) if x.dtype.kind == "V" else x


def widened(x: Any) -> Any:
    """float16 and bfloat16 as float32, the rest as it is."""
    return x.astype(F32) if is_narrow(x.dtype) else x


def choose(condition: Any, x: Any, y: Any) -> Any:
    """Elements of x where the condition holds, else of y; both arrays of one dtype."""
    return xp.where(condition, bits(x), bits(y)).view(x.dtype)


def full(shape: Any, value: Any, dtype: np.dtype) -> Any:
    """An array of one value."""
    if dtype.kind == "V":
        return xp.full(shape, value, F32).astype(dtype)
    return xp.full(shape, value, dtype)


def put(target: Any, value: Any, where: Any) -> None:
    """Write one number into target where the mask holds."""
    if target.dtype.kind == "V":
        raw = np.asarray(value, target.dtype).view(U16).item()
        xp.copyto(target.view(U16), raw, where=where, casting="unsafe")
    else:
        xp.copyto(target, value, where=where, casting="unsafe")


def contiguous(x: Any) -> Any:
    """In C order; rank 0 stays rank 0, unlike in ascontiguousarray."""
    return x if x.flags.c_contiguous else x.copy(order="C")


def copied(x: Any) -> tuple:
    """The kernel of a copy in memory of its own."""
    return (x.copy(order="C"),)


class Ufunc:
    """A kernel that is one ufunc, whose result has the operands' dtype (or is bool).

    Args:
        name: the ufunc's, in the library.
    """

    def __init__(self, name: str):
        self.name = name

    def __call__(self, *arrays: Any, **params: Any) -> tuple:
        return (getattr(xp, self.name)(*arrays),)


class ViaFloat32:
    """A function of arrays that is computed in float32 for 2-byte floats."""

    def __init__(self, fn: Callable[..., Any]):
        self.fn = fn

    def __call__(self, *arrays: Any, **params: Any) -> tuple:
        dtype = arrays[0].dtype
        if is_narrow(dtype):
            return (self.fn(*[a.astype(F32) for a in arrays], **params).astype(dtype),)
        return (self.fn(*arrays, **params),)


class Limited:
    """A kernel that does not take every operand.

    Args:
        kernel: what computes.
        refuses: (arrays, params) -> why it does not take them, or None.
        note: the same in a few words, for the table of backends.
    """

    def __init__(self, kernel: Callable[..., tuple], refuses: Callable[..., Any], note: str):
        self.kernel = kernel
        self.refuses = refuses
        self.note = note

    def __call__(self, *arrays: Any, **params: Any) -> tuple:
        return self.kernel(*arrays, **params)


class Program:
    """A row for a primitive that holds programs or Python functions.

    Args:
        run: (device, args, params) -> outputs; args and outputs are arrays of the package there.
        note: what is particular to the device, for the table of backends.
        keeps: may it hand its operands to Python functions, which could keep them?
    """

    def __init__(
        self, run: Callable[[Device, tuple, dict[str, Any]], tuple], note: str = "",
        keeps: bool = False,
    ):  # fmt: skip
        self.run = run
        self.note = note
        self.keeps = keeps
