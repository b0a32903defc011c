"""What the functions are written in: values with operators, constants, polynomials."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

from mgefn.compiler.codegen.builder import Builder, bits_of, element, like

INF = math.inf
LN2 = math.log(2.0)


class Value:
    """A value of IR with operators; a Python number beside it is a constant of its type."""

    __slots__ = ("b", "name", "ty")

    def __init__(self, b: Builder, ty: str, name: str):
        self.b, self.ty, self.name = b, ty, name

    def _is_float(self) -> bool:
        return element(self.ty)[0] != "i"

    def _text(self, other: Value | float) -> str:
        return other.name if isinstance(other, Value) else self.b.const(self.ty, other)

    def _op(self, float_op: str, int_op: str, x: str, y: str) -> Value:
        op = float_op if self._is_float() else int_op
        return Value(self.b, self.ty, self.b.binary(op, self.ty, x, y))

    def __add__(self, y: Value | float) -> Value:
        return self._op("fadd", "add", self.name, self._text(y))

    def __sub__(self, y: Value | float) -> Value:
        return self._op("fsub", "sub", self.name, self._text(y))

    def __rsub__(self, y: float) -> Value:
        return self._op("fsub", "sub", self._text(y), self.name)

    def __mul__(self, y: Value | float) -> Value:
        return self._op("fmul", "mul", self.name, self._text(y))

    def __truediv__(self, y: Value | float) -> Value:
        return self._op("fdiv", "udiv", self.name, self._text(y))

    def __rtruediv__(self, y: float) -> Value:
        return self._op("fdiv", "udiv", self._text(y), self.name)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Value:
        return Value(self.b, self.ty, self.b.fneg(self.ty, self.name))

    # -- integers and masks

    def __and__(self, y: Value | int) -> Value:
        return self._op("", "and", self.name, self._text(y))

    def __or__(self, y: Value | int) -> Value:
        return self._op("", "or", self.name, self._text(y))

    def __xor__(self, y: Value | int) -> Value:
        return self._op("", "xor", self.name, self._text(y))

    def __lshift__(self, y: int) -> Value:
        return self._op("", "shl", self.name, self._text(y))

    def __rshift__(self, y: int) -> Value:
        """Logical."""
        return self._op("", "lshr", self.name, self._text(y))

    # -- comparisons; false for nan

    def _compare(self, float_predicate: str, int_predicate: str, y: Value | float) -> Value:
        b, other = self.b, self._text(y)
        if self._is_float():
            mask = b.fcmp(float_predicate, self.ty, self.name, other)
        else:
            mask = b.icmp(int_predicate, self.ty, self.name, other)
        return Value(b, like(self.ty, "i1"), mask)

    def __lt__(self, y: Value | float) -> Value:
        return self._compare("olt", "slt", y)

    def __le__(self, y: Value | float) -> Value:
        return self._compare("ole", "sle", y)

    def __gt__(self, y: Value | float) -> Value:
        return self._compare("ogt", "sgt", y)

    def __ge__(self, y: Value | float) -> Value:
        return self._compare("oge", "sge", y)

    def equals(self, y: Value | float) -> Value:
        return self._compare("oeq", "eq", y)

    def differs(self, y: Value | float) -> Value:
        """True for nan."""
        return self._compare("une", "ne", y)

    # -- conversions

    def bits(self) -> Value:
        ity = like(self.ty, f"i{bits_of(self.ty)}")
        return Value(self.b, ity, self.b.cast("bitcast", self.name, self.ty, ity))

    def as_float(self) -> Value:
        ty = like(self.ty, {16: "half", 32: "float", 64: "double"}[bits_of(self.ty)])
        return Value(self.b, ty, self.b.cast("bitcast", self.name, self.ty, ty))

    def convert(self, op: str, scalar: str) -> Value:
        ty = like(self.ty, scalar)
        return Value(self.b, ty, self.b.cast(op, self.name, self.ty, ty))


class Format:
    """Numbers of a floating type."""

    def __init__(self, scalar: str):
        single = scalar == "float"
        self.scalar = scalar
        self.mantissa = 23 if single else 52  # stored bits
        self.bias = 127 if single else 1023
        self.one = self.bias << self.mantissa  # bits of 1.0
        self.root_half = self.one + int((math.sqrt(0.5) * 2 - 2) * 2.0**self.mantissa)  # its bits
        self.sign = 1 << (31 if single else 63)
        self.magic = (
            1.5 * 2.0**self.mantissa
        )  # x + magic has the integer nearest to x in its last bits
        self.least_normal = 2.0 ** (1 - self.bias)
        self.pick = 0 if single else 1  # of a pair (for float, for double)

    def split(self, value: tuple[float, float]) -> tuple[float, float]:
        """A constant known as a sum of two doubles, as a sum of two numbers of this type."""
        if self.scalar == "double":
            return value
        high = to_single(value[0])
        return high, (value[0] - high) + value[1]


def to_single(x: float) -> float:
    return struct.unpack("<f", struct.pack("<f", x))[0]


FORMATS = {"float": Format("float"), "double": Format("double")}


def format_of(x: Value) -> Format:
    return FORMATS[element(x.ty)]


def intrinsic(name: str, x: Value, *others: Value | float) -> Value:
    texts = [x._text(y) for y in others]
    return Value(x.b, x.ty, x.b.call_intrinsic(name, x.ty, x.name, *texts))


def fma(x: Value, y: Value | float, z: Value | float) -> Value:
    return intrinsic("fma", x, y, z)


def absolute(x: Value) -> Value:
    return intrinsic("fabs", x)


def sqrt(x: Value) -> Value:
    return intrinsic("sqrt", x)


def copysign(magnitude: Value, sign: Value) -> Value:
    return intrinsic("copysign", magnitude, sign)


def constant(like_value: Value, value: float) -> Value:
    return Value(like_value.b, like_value.ty, like_value.b.const(like_value.ty, value))


def select(mask: Value, yes: Value | float, no: Value | float, ty: str = "") -> Value:
    b = mask.b
    given = yes if isinstance(yes, Value) else no
    ty = given.ty if isinstance(given, Value) else like(mask.ty, ty)
    texts = [v.name if isinstance(v, Value) else b.const(ty, v) for v in (yes, no)]
    return Value(b, ty, b.select(ty, mask.name, *texts))


def polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """Sum of c[k] x^k; a long one in blocks of four, for a shorter chain of dependent operations.

    As accurate as Horner's rule where the signs alternate, unlike a split by even and odd powers.
    """
    if len(coefficients) > 6:
        square = x * x
        step, whole = square * square, coefficients
        blocks = [polynomial(x, whole[i : i + 4]) for i in range(0, len(whole), 4)]
        out = blocks[-1]
        for block in blocks[-2::-1]:
            out = fma(step, out, block)
        return out
    if len(coefficients) == 1:
        return constant(x, coefficients[0])
    out = fma(x, coefficients[-1], coefficients[-2])
    for c in coefficients[-3::-1]:
        out = fma(x, out, c)
    return out
