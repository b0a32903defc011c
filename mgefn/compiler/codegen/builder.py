"""Text of LLVM functions, written one instruction at a time.

A `Module` collects functions and declarations; a `Builder` writes the body of one function. Values
are strings: the name of an instruction's result, or a constant. Types are strings as LLVM spells
them; a width of 1 is a scalar, so the same code emits scalar and vector instructions. Text is
parsed faster by LLVM than instruction objects are built and printed from Python.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

SCALARS = {
    "bool": "i1",
    "i8": "i8",
    "i16": "i16",
    "i32": "i32",
    "i64": "i64",
    "f16": "half",
    "bf16": "bfloat",
    "f32": "float",
    "f64": "double",
}

# Suffixes in names of overloaded intrinsics.
_SUFFIX = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}
_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64, "i1": 1}


def vector(scalar: str, width: int) -> str:
    """The type of `width` elements; a scalar for 1."""
    return scalar if width == 1 else f"<{width} x {scalar}>"


def element(ty: str) -> str:
    """The scalar type of a scalar or vector type."""
    return ty[ty.index("x ") + 2 : -1] if ty[0] == "<" else ty


def width_of(ty: str) -> int:
    return int(ty[1 : ty.index(" ")]) if ty[0] == "<" else 1


def bits_of(ty: str) -> int:
    """Bits of an element."""
    e = element(ty)
    return _BITS.get(e) or int(e[1:])


def like(ty: str, scalar: str) -> str:
    """The type of as many elements of another scalar type."""
    return vector(scalar, width_of(ty))


def number(scalar: str, value: float | int | bool) -> str:
    """A scalar constant. Floats are exact: LLVM takes the bits of a double in hexadecimal."""
    if scalar == "i1":
        return "true" if value else "false"
    if scalar[0] == "i":
        return str(int(value))
    if scalar == "half":
        return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
    if scalar == "bfloat":
        return f"0xR{struct.unpack('<I', struct.pack('<f', value))[0] >> 16:04X}"
    if scalar == "float":
        value = struct.unpack("<f", struct.pack("<f", value))[0]  # to the nearest float
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def _suffix(ty: str) -> str:
    """A type in an intrinsic's name."""
    name = _SUFFIX.get(element(ty), element(ty))
    return f"v{width_of(ty)}{name}" if ty[0] == "<" else name


def _of_masked(op: str, t: str, many: bool) -> tuple[str, str, str]:
    """The name of an operation on masked memory, and the types of its pointers and its mask."""
    w = width_of(t)
    pointers = f"<{w} x ptr>" if many else "ptr"
    return f"llvm.masked.{op}.{_suffix(t)}.{f'v{w}p0' if many else 'p0'}", pointers, f"<{w} x i1>"


class Module:
    """Functions and declarations by name; each is written once."""

    def __init__(self) -> None:
        self.definitions: dict[str, str] = {}
        self.declarations: dict[str, str] = {}

    def declare(self, name: str, result: str, arguments: Sequence[str]) -> None:
        if name not in self.declarations:
            self.declarations[name] = f"declare {result} @{name}({', '.join(arguments)})"

    def text(self) -> str:
        used = [d for n, d in self.declarations.items() if n not in self.definitions]
        return "\n".join([*used, *self.definitions.values()])


class Builder:
    """The body of a function.

    Args:
        module: where the function and what it needs is defined.
    """

    def __init__(self, module: Module):
        self.module = module
        self.lines: list[str] = []
        self.counter = 0
        self.block = "entry"  # the label of the block that is being written
        # What emitters keep for one another, by the names of the values it was made from.
        self.shared: dict[Any, Any] = {}

    # -- names, constants, raw instructions -----------------------------------------------------

    def name(self) -> str:
        self.counter += 1
        return f"%v{self.counter}"

    def emit(self, text: str) -> str:
        """An instruction with a result."""
        out = self.name()
        self.lines.append(f"  {out} = {text}")
        return out

    def do(self, text: str) -> None:
        """An instruction without a result."""
        self.lines.append(f"  {text}")

    def const(self, ty: str, value: float | int | bool) -> str:
        """A constant, the same in every element."""
        text = number(element(ty), value)
        return text if ty[0] != "<" else f"splat ({element(ty)} {text})"

    def splat(self, ty: str, x: str) -> str:
        """A scalar value in every element."""
        if ty[0] != "<":
            return x
        one = self.emit(f"insertelement {ty} poison, {element(ty)} {x}, i64 0")
        w = width_of(ty)
        return self.emit(f"shufflevector {ty} {one}, {ty} poison, <{w} x i32> zeroinitializer")

    # -- arithmetic -----------------------------------------------------------------------------

    def binary(self, op: str, ty: str, x: str, y: str) -> str:
        """op: fadd, fmul, add, and, shl, ... with flags where wanted ("fadd contract")."""
        return self.emit(f"{op} {ty} {x}, {y}")

    def fadd(self, ty: str, x: str, y: str) -> str:
        return self.emit(f"fadd {ty} {x}, {y}")

    def fsub(self, ty: str, x: str, y: str) -> str:
        return self.emit(f"fsub {ty} {x}, {y}")

    def fmul(self, ty: str, x: str, y: str) -> str:
        return self.emit(f"fmul {ty} {x}, {y}")

    def fdiv(self, ty: str, x: str, y: str) -> str:
        return self.emit(f"fdiv {ty} {x}, {y}")

    def fneg(self, ty: str, x: str) -> str:
        return self.emit(f"fneg {ty} {x}")

    def fma(self, ty: str, x: str, y: str, z: str) -> str:
        """x * y + z, rounded once."""
        return self.call_intrinsic("fma", ty, x, y, z)

    def fcmp(self, predicate: str, ty: str, x: str, y: str) -> str:
        """Element by element; the result has type like(ty, "i1")."""
        return self.emit(f"fcmp {predicate} {ty} {x}, {y}")

    def icmp(self, predicate: str, ty: str, x: str, y: str) -> str:
        return self.emit(f"icmp {predicate} {ty} {x}, {y}")

    def select(self, ty: str, mask: str, yes: str, no: str) -> str:
        return self.emit(f"select {like(ty, 'i1')} {mask}, {ty} {yes}, {ty} {no}")

    def cast(self, op: str, x: str, source: str, target: str) -> str:
        """op: bitcast, fpext, fptrunc, sitofp, uitofp, fptosi, sext, zext, trunc, ..."""
        return x if source == target else self.emit(f"{op} {source} {x} to {target}")

    def widen(self, ty: str, x: str) -> str:
        """half or bfloat to float, of as many elements.

        bfloat by its bits: compiling conversions and comparisons of bfloat for x86 aborted LLVM 22.
        """
        wide = like(ty, "float")
        if element(ty) != "bfloat":
            return self.cast("fpext", x, ty, wide)
        bits = self.cast("bitcast", x, ty, like(ty, "i16"))
        bits = self.cast("zext", bits, like(ty, "i16"), like(ty, "i32"))
        bits = self.binary("shl", like(ty, "i32"), bits, self.const(like(ty, "i32"), 16))
        return self.cast("bitcast", bits, like(ty, "i32"), wide)

    def narrow(self, ty: str, x: str) -> str:
        """float to half or bfloat, the type `ty`: to the nearest, of two the even one."""
        wide, ints = like(ty, "float"), like(ty, "i32")
        if element(ty) != "bfloat":
            return self.cast("fptrunc", x, wide, ty)
        bits = self.cast("bitcast", x, wide, ints)
        kept = self.binary("lshr", ints, bits, self.const(ints, 16))
        even = self.binary("and", ints, kept, self.const(ints, 1))
        rounded = self.binary("add", ints, bits, even)
        rounded = self.binary("add", ints, rounded, self.const(ints, 0x7FFF))
        rounded = self.binary("lshr", ints, rounded, self.const(ints, 16))
        # The carry of a nan could make it another number.
        quiet = self.binary("or", ints, kept, self.const(ints, 0x40))
        rounded = self.select(ints, self.fcmp("uno", wide, x, x), quiet, rounded)
        short = self.cast("trunc", rounded, ints, like(ty, "i16"))
        return self.cast("bitcast", short, like(ty, "i16"), ty)

    def call_intrinsic(self, name: str, ty: str, *args: str) -> str:
        """llvm.<name> overloaded on `ty`, the type of all arguments: fabs, fma, floor, sqrt, ..."""
        full = f"llvm.{name}.{_suffix(ty)}"
        self.module.declare(full, ty, [ty] * len(args))
        return self.emit(f"call {ty} @{full}({', '.join(f'{ty} {a}' for a in args)})")

    def call(self, name: str, result: str, *args: tuple[str, str]) -> str:
        """A function of the module: arguments as (type, value)."""
        joined = ", ".join(f"{t} {a}" for t, a in args)
        return self.emit(f"call {result} @{name}({joined})")

    def any_of(self, mask_ty: str, mask: str) -> str:
        """An i1: is any element of the mask true?"""
        w = width_of(mask_ty)
        if w == 1:
            return mask
        self.module.declare(f"llvm.vector.reduce.or.v{w}i1", "i1", [mask_ty])
        return self.emit(f"call i1 @llvm.vector.reduce.or.v{w}i1({mask_ty} {mask})")

    # -- memory ---------------------------------------------------------------------------------

    def offset(self, pointer: str, nbytes: str) -> str:
        """pointer + nbytes (an i64 value)."""
        return self.emit(f"getelementptr i8, ptr {pointer}, i64 {nbytes}")

    def load(self, ty: str, pointer: str, align: int | None = None) -> str:
        tail = f", align {align}" if align else ""
        return self.emit(f"load {ty}, ptr {pointer}{tail}")

    def store(self, ty: str, x: str, pointer: str, align: int | None = None) -> None:
        tail = f", align {align}" if align else ""
        self.do(f"store {ty} {x}, ptr {pointer}{tail}")

    def store_past(self, ty: str, x: str, pointer: str, align: int) -> None:
        """A store past the caches, to memory that is aligned."""
        self.do(f"store {ty} {x}, ptr {pointer}, align {align}, !nontemporal !2")

    def prefetch(self, pointer: str) -> None:
        """Ask for a line of memory that is soon read; the address need not exist."""
        self.module.declare("llvm.prefetch.p0", "void", ["ptr", *["i32 immarg"] * 3])
        self.do(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 0, i32 3, i32 1)")

    def masked_load(
        self, t: str, where: str, mask: str, align: int,
        other: str = "zeroinitializer", many: bool = False,
    ) -> str:  # fmt: skip
        """A vector of type t of the elements that a mask lets through, those of `other` elsewhere.

        where: a pointer, or one for each element if there are `many`.
        """
        name, pointers, lanes = _of_masked("gather" if many else "load", t, many)
        self.module.declare(name, t, [pointers, "i32 immarg", lanes, t])
        return self.emit(
            f"call {t} @{name}({pointers} {where}, i32 {align}, {lanes} {mask}, {t} {other})"
        )

    def masked_store(
        self, t: str, x: str, where: str, mask: str, align: int, many: bool = False
    ) -> None:
        """Store the elements that a mask lets through; `where` is as in masked_load."""
        name, pointers, lanes = _of_masked("scatter" if many else "store", t, many)
        self.module.declare(name, "void", [t, pointers, "i32 immarg", lanes])
        self.do(f"call void @{name}({t} {x}, {pointers} {where}, i32 {align}, {lanes} {mask})")

    def shuffled(self, t: str, x: str, y: str, order: Sequence[int]) -> str:
        """Elements of two vectors of type t, those of the second counted after the first one's.

        Less than 0 stands for any element.
        """
        lanes = ", ".join(f"i32 {i}" if i >= 0 else "i32 poison" for i in order)
        return self.emit(f"shufflevector {t} {x}, {t} {y}, <{len(order)} x i32> <{lanes}>")

    # -- control --------------------------------------------------------------------------------

    def label(self, hint: str = "b") -> str:
        """A fresh label, not yet placed."""
        self.counter += 1
        return f"{hint}{self.counter}"

    def place(self, label: str) -> None:
        """Begin the block of a label; the block before must have ended."""
        self.lines.append(f"{label}:")
        self.block = label

    def br(self, label: str) -> None:
        self.do(f"br label %{label}")

    def cond_br(self, condition: str, yes: str, no: str, likely: bool | None = None) -> None:
        """Branch on an i1; `likely` says which way almost always."""
        weights = ""
        if likely is not None:
            weights = f", !prof !{0 if likely else 1}"
        self.do(f"br i1 {condition}, label %{yes}, label %{no}{weights}")

    def phi(self, ty: str, *incoming: tuple[str, str]) -> str:
        """A value by the block one comes from: (value, label) pairs."""
        pairs = ", ".join(f"[ {v}, %{label} ]" for v, label in incoming)
        return self.emit(f"phi {ty} {pairs}")

    def function(self, name: str, result: str, arguments: Sequence[tuple[str, str]],
                 attributes: str = "", linkage: str = "") -> str:  # fmt: skip
        """Close the body: define the function in the module. Arguments as (type, name)."""
        args = ", ".join(f"{t} %{a}" for t, a in arguments)
        body = "\n".join(self.lines)
        self.module.definitions[name] = (
            f"define {linkage} {result} @{name}({args}) {attributes} {{\nentry:\n{body}\n}}\n"
        )
        return name


# What cond_br's weights and stores past the caches refer to; stands at the end of every module's
# text.
METADATA = (
    '!0 = !{!"branch_weights", i32 2000, i32 1}\n!1 = !{!"branch_weights", i32 1, i32 2000}\n'
    "!2 = !{i32 1}\n"
)
