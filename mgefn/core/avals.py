"""Abstract values: what is known of an array without its data.

A `ShapedArray` is the type of every variable of the IR. `Zero` and `UndefinedPrimal` stand for
operands that have a type and no value: a tangent that is known to vanish, and the operand that a
transposition solves for. All three are immutable.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mgefn import dtypes


def contiguous_strides(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Strides in bytes of an array in C order."""
    strides = []
    step = itemsize
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


class ShapedArray:
    """Shape, dtype and weak type of an array; shown as `f32[3,4]`, weak ones as `f32[]~`."""

    __slots__ = ("_hash", "dtype", "shape", "weak_type")

    shape: tuple[int, ...]
    dtype: np.dtype
    weak_type: bool

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, weak_type: bool = False):
        self.shape = shape
        self.dtype = dtype
        self.weak_type = weak_type

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        n = 1
        for d in self.shape:
            n *= d
        return n

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def strong(self) -> ShapedArray:
        """The same type without weakness."""
        return ShapedArray(self.shape, self.dtype) if self.weak_type else self

    def update(self, **changes) -> ShapedArray:
        """A copy with some of shape, dtype and weak_type replaced."""
        new = {"shape": self.shape, "dtype": self.dtype, "weak_type": self.weak_type} | changes
        return ShapedArray(**new)

    def same_type(self, other: ShapedArray) -> bool:
        """Equal shape and dtype; weakness does not count."""
        return self.shape == other.shape and self.dtype == other.dtype

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is ShapedArray
            and self.shape == other.shape
            and self.dtype == other.dtype
            and self.weak_type == other.weak_type
        )

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            self._hash = hash((self.shape, self.dtype, self.weak_type))
            return self._hash

    def str_short(self) -> str:
        return f"{dtypes.short_name(self.dtype)}[{','.join(map(str, self.shape))}]"

    def __str__(self) -> str:
        return self.str_short()

    def __repr__(self) -> str:
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapedArray({self.str_short()}{weak})"


class Zero:
    """A tangent or cotangent that is exactly zero and needs no memory."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray):
        self.aval = aval

    def __repr__(self) -> str:
        return f"Zero({self.aval})"


class UndefinedPrimal:
    """The linear operand of a transpose rule: it has a type and no value."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray):
        self.aval = aval

    def __repr__(self) -> str:
        return f"UndefinedPrimal({self.aval})"


def is_undefined(x: object) -> bool:
    return type(x) is UndefinedPrimal


def tangent_aval(aval: ShapedArray) -> ShapedArray:
    """The type of a tangent to `aval`: itself, or float0 for integers and booleans."""
    return ShapedArray(aval.shape, dtypes.tangent_dtype(aval.dtype))
