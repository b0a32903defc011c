"""Complex numbers in registers: vectors of parts, real and imaginary by turns, as in memory.

What is computed part by part has two vectors, of which the one by turns is made at once. Builders
keep the parts beside it (`Builder.shared`): who needs parts takes them, and what nobody reads LLVM
drops. So a chain of operations goes from parts to parts, and shuffles where memory is.
"""

from __future__ import annotations

from mgefn.compiler.codegen.builder import Builder, number
from mgefn.compiler.codegen.values import COMPLEX, LLVM_TYPES, ty


def joined(b: Builder, dtype: str, width: int, re: str, im: str) -> str:
    """The value with these parts, each a vector of `width` elements."""
    part, t = ty(COMPLEX[dtype], width), ty(dtype, width)
    if width == 1:
        first = b.emit(f"insertelement {t} poison, {part} {re}, i64 0")
        x = b.emit(f"insertelement {t} {first}, {part} {im}, i64 1")
    else:
        x = b.shuffled(part, re, im, [i // 2 + i % 2 * width for i in range(2 * width)])
    keep(b, x, re, im)
    return x


def keep(b: Builder, x: str, re: str, im: str) -> None:
    """Say which parts a value has. They must be known wherever the value is."""
    b.shared["parts", x] = re, im


def parted(b: Builder, dtype: str, width: int, x: str, kept: bool = False) -> tuple[str, str]:
    """The parts of a value; `kept`: x was made just here, so that they hold wherever it does."""
    found = b.shared.get(("parts", x))
    if found is not None:
        return found
    t = ty(dtype, width)
    if width == 1:
        re, im = (b.emit(f"extractelement {t} {x}, i64 {i}") for i in range(2))
    else:
        re, im = (b.shuffled(t, x, "poison", range(i, 2 * width, 2)) for i in range(2))
    if kept:
        keep(b, x, re, im)
    return re, im


def spread(b: Builder, dtype: str, width: int, x: str) -> str:
    """A scalar in every element of a vector."""
    t = ty(COMPLEX[dtype], width)
    re, im = (b.splat(t, part) for part in parted(b, dtype, 1, x))
    return joined(b, dtype, width, re, im)


def first_of(b: Builder, dtype: str, width: int, x: str) -> str:
    """The first element of a vector of any dtype."""
    if dtype in COMPLEX:
        return b.shuffled(ty(dtype, width), x, "poison", [0, 1])
    return b.emit(f"extractelement {ty(dtype, width)} {x}, i64 0")


def turns(b: Builder, dtype: str, width: int, re: float, im: float) -> str:
    """A constant, the same in every element."""
    scalar = LLVM_TYPES[COMPLEX[dtype]]
    pair = ", ".join(f"{scalar} {number(scalar, v)}" for v in (re, im))
    return f"<{', '.join([pair] * width)}>"


def twice(b: Builder, width: int, mask: str, count: str = "") -> str:
    """A mask of elements as one of parts; `count` is the i32 number of its first ones, if known."""
    found = b.shared.get(("twice", mask))
    if found is not None:
        return found
    if not count:
        return b.shuffled(f"<{width} x i1>", mask, "poison", [i // 2 for i in range(2 * width)])
    t = f"<{2 * width} x i32>"
    lanes = "<" + ", ".join(f"i32 {i // 2}" for i in range(2 * width)) + ">"
    found = b.shared["twice", mask] = b.icmp("ult", t, lanes, b.splat(t, count))
    return found
