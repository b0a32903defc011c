"""Values in native code: dtypes as LLVM types, and operations that several emitters need."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from mgefn.compiler.codegen.builder import Builder, vector

FLOATS = frozenset(("float32", "float64"))
SIGNED = frozenset(("int8", "int16", "int32", "int64"))
UNSIGNED = frozenset(("uint8", "uint16", "uint32", "uint64"))
INTEGERS = SIGNED | UNSIGNED
NUMBERS = FLOATS | INTEGERS
BOOL = frozenset(("bool",))
ALL = NUMBERS | BOOL

# Floats of 16 bits, which are float32 in registers and rounded after every operation.
HALVES = {"float16": "half", "bfloat16": "bfloat"}

# Types in registers.
LLVM_TYPES = {
    "bool": "i1",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "i8",
    "uint16": "i16",
    "uint32": "i32",
    "uint64": "i64",
    "float16": "float",
    "bfloat16": "float",
    "float32": "float",
    "float64": "double",
}


# Complex dtypes and those of their parts. In registers a complex value is a vector of parts, real
# and imaginary by turns, as in memory: of twice as many elements.
COMPLEX = {"complex64": "float32", "complex128": "float64"}


class Operand(NamedTuple):
    """A value in a register: its name and its dtype's name."""

    value: str
    dtype: str


def itemsize(dtype: str) -> int:
    """Bytes of an element in memory."""
    return 1 if dtype == "bool" else int("".join(c for c in dtype if c.isdigit())) // 8


def alignment(dtype: str) -> int:
    """Bytes of which addresses are multiples: of complex numbers those of a part."""
    return itemsize(COMPLEX.get(dtype, dtype))


def held(dtype: str) -> str:
    """The dtype that a value has in registers."""
    return "float32" if dtype in HALVES else dtype


def rounded(b: Builder, dtype: str, width: int, x: str) -> str:
    """A value as its dtype can hold it; only floats of 16 bits are wider in registers."""
    if dtype not in HALVES:
        return x
    t = vector(HALVES[dtype], width)
    return b.widen(t, b.narrow(t, x))


def ty(dtype: str, width: int) -> str:
    """The LLVM type of `width` elements of a dtype."""
    if dtype in COMPLEX:
        return vector(LLVM_TYPES[COMPLEX[dtype]], 2 * width)
    return vector(LLVM_TYPES[dtype], width)


def extreme(b: Builder, dtype: str, width: int, x: str, y: str, largest: bool) -> str:
    """The larger or smaller; NaN where either is."""
    t = ty(dtype, width)
    if dtype in FLOATS:
        # x where it wins or is NaN, else y, which is then the answer or NaN itself.
        wins = b.fcmp("ugt" if largest else "ult", t, x, y)
        nan = b.fcmp("uno", t, y, y)
        return b.select(t, nan, y, b.select(t, wins, x, y))
    if dtype == "bool":
        return b.emit(f"{'or' if largest else 'and'} {t} {x}, {y}")
    sign = "u" if dtype in UNSIGNED else "s"
    return b.call_intrinsic(f"{sign}{'max' if largest else 'min'}", t, x, y)


@functools.cache
def name_of(dtype: Any) -> str:
    """A dtype's name, empty for what is not a dtype of NumPy's kind."""
    return dtype.name if isinstance(dtype, np.dtype) else ""
