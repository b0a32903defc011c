"""How elementwise primitives become instructions.

A lowering is called as lower(b, out, width, operands, params), where `b` is the Builder, `out` the
output's dtype name, and each operand an `Operand`: the name of a value of `width` elements and its
dtype's name. It gives the name of the output's value. Values of bool are i1, of float16 and
bfloat16 are in float32 between the operations: the caller widens them, and rounds each result.

What a lowering cannot do it refuses by dtype, in the table; the reference kernel then runs.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from mgefn.compiler.codegen import vector_math
from mgefn.compiler.codegen.builder import Builder, bits_of
from mgefn.compiler.codegen.values import (
    ALL,
    BOOL,
    FLOATS,
    INTEGERS,
    LLVM_TYPES,
    NUMBERS,
    SIGNED,
    UNSIGNED,
    Operand,
    extreme,
    ty,
)
from mgefn.compiler.steps import Lowered

Emit = Callable[[Builder, str, int, Sequence[Operand], dict[str, Any]], str]


class Elementwise:
    """A row of the table.

    Args:
        emit: writes the instructions.
        dtypes: of the operands, for which it can.
        cost: in cycles for a vector, roughly; decides between computing again and keeping.
        outputs: how many there are. Where there are several, `emit` is called for each, and finds
            its number under "output" in the parameters.
    """

    def __init__(self, emit: Emit, dtypes: frozenset[str], cost: float = 1.0, outputs: int = 1):
        self.emit = emit
        self.dtypes = dtypes
        self.cost = cost
        self.outputs = outputs
        self.otherwise: Lowered | None = None

    def accepts(self, dtypes: Sequence[str]) -> bool:
        return all(d in self.dtypes for d in dtypes)

    def or_else(self, otherwise: Lowered) -> Elementwise:
        """The row that makes a step of its own of what can't join others."""
        row = copy.copy(self)
        row.otherwise = otherwise
        return row


def _arithmetic(of_floats: str, of_integers: str | None, of_bools: str | None = None) -> Emit:
    def emit(
        b: Builder, out: str, width: int, ops: Sequence[Operand], params: dict[str, Any]
    ) -> str:
        x, y = ops
        t = ty(x.dtype, width)
        op = of_floats if x.dtype in FLOATS else of_bools if x.dtype == "bool" else of_integers
        return b.emit(f"{op} {t} {x.value}, {y.value}")

    return emit


def _divide(b: Builder, out: str, width: int, ops: Sequence[Operand], params: Any) -> str:
    x, y = ops
    t = ty(out, width)
    if out in FLOATS:
        return b.fdiv(t, x.value, y.value)
    # Truncated; by 0 it gives -1, as XLA does. INT_MIN / -1 wraps, where the processor traps.
    zero, one = b.const(t, 0), b.const(t, 1)
    by_zero = b.icmp("eq", t, y.value, zero)
    if out in UNSIGNED:
        safe = b.select(t, by_zero, one, y.value)
        quotient = b.emit(f"udiv {t} {x.value}, {safe}")
    else:
        minus = b.icmp("eq", t, y.value, b.const(t, -1))
        safe = b.select(t, minus, one, b.select(t, by_zero, one, y.value))
        plain = b.emit(f"sdiv {t} {x.value}, {safe}")
        quotient = b.select(t, minus, b.emit(f"sub {t} {zero}, {x.value}"), plain)
    return b.select(t, by_zero, b.const(t, -1), quotient)


def _rem(b: Builder, out: str, width: int, ops: Sequence[Operand], params: Any) -> str:
    x, y = ops
    t = ty(out, width)
    if out in FLOATS:
        return vector_math.emit(b, "rem", LLVM_TYPES[out], width, x.value, y.value)
    zero, one = b.const(t, 0), b.const(t, 1)
    by_zero = b.icmp("eq", t, y.value, zero)
    safe = b.select(t, by_zero, one, y.value)
    if out in SIGNED:  # x rem -1 is 0, where the processor traps for INT_MIN
        safe = b.select(t, b.icmp("eq", t, safe, b.const(t, -1)), one, safe)
    rest = b.emit(f"{'urem' if out in UNSIGNED else 'srem'} {t} {x.value}, {safe}")
    return b.select(t, by_zero, x.value, rest)


def _negative(b: Builder, out: str, width: int, ops: Sequence[Operand], params: Any) -> str:
    t = ty(out, width)
    if out in FLOATS:
        return b.fneg(t, ops[0].value)
    return b.emit(f"sub {t} {b.const(t, 0)}, {ops[0].value}")


def _multiply(b: Builder, dtype: str, width: int, x: str, y: str) -> str:
    op = "fmul" if dtype in FLOATS else "and" if dtype == "bool" else "mul"
    return b.emit(f"{op} {ty(dtype, width)} {x}, {y}")


def _square(b: Builder, out: str, width: int, ops: Sequence[Operand], params: Any) -> str:
    return _multiply(b, out, width, ops[0].value, ops[0].value)


def _integer_pow(b: Builder, out: str, width: int, ops: Sequence[Operand], params: Any) -> str:
    """By squaring, in the order of the reference kernel."""
    t = ty(out, width)
    n = abs(params["y"])
    one = b.const(t, 1)
    result, base = None, ops[0].value
    while n:
        if n & 1:
            result = base if result is None else _multiply(b, out, width, result, base)
        n >>= 1
        if n:
            base = _multiply(b, out, width, base, base)
    if result is None:
        result = one
    return b.fdiv(t, one, result) if params["y"] < 0 else result


def _scale(b: Builder, out: str, width: int, ops: Sequence[Operand], params: Any) -> str:
    """t * slope, where a factor of exactly 0 wins over one that is not finite."""
    t = ty(out, width)
    x, y = (o.value for o in ops)
    zero = b.const(t, 0)
    either = b.emit(
        f"or {ty('bool', width)} {b.fcmp('oeq', t, x, zero)}, {b.fcmp('oeq', t, y, zero)}"
    )
    product = b.fmul(t, x, y)
    bad = b.emit(f"and {ty('bool', width)} {either}, {b.fcmp('uno', t, product, product)}")
    return b.select(t, bad, zero, product)


def _intrinsic(name: str) -> Emit:
    def emit(b: Builder, out: str, width: int, ops: Sequence[Operand], params: Any) -> str:
        return b.call_intrinsic(name, ty(out, width), *(o.value for o in ops))

    return emit


def _math(name: str) -> Emit:
    def emit(b: Builder, out: str, width: int, ops: Sequence[Operand], params: Any) -> str:
        return vector_math.emit(b, name, LLVM_TYPES[out], width, *(o.value for o in ops))

    return emit


def _extreme(largest: bool) -> Emit:
    def emit(b: Builder, out: str, width: int, ops: Sequence[Operand], params: Any) -> str:
        return extreme(b, out, width, ops[0].value, ops[1].value, largest)

    return emit


def _compare(of_floats: str, of_integers: str) -> Emit:
    def emit(b: Builder, out: str, width: int, ops: Sequence[Operand], params: Any) -> str:
        x, y = ops
        t = ty(x.dtype, width)
        if x.dtype in FLOATS:
            return b.fcmp(of_floats, t, x.value, y.value)
        predicate = of_integers
        if predicate not in ("eq", "ne"):
            predicate = ("s" if x.dtype in SIGNED else "u") + predicate
        return b.icmp(predicate, t, x.value, y.value)

    return emit


def _not(b: Builder, out: str, width: int, ops: Sequence[Operand], params: Any) -> str:
    t = ty(out, width)
    return b.emit(f"xor {t} {ops[0].value}, {b.const(t, True if out == 'bool' else -1)}")


def _bitwise(op: str) -> Emit:
    return _arithmetic(op, op, op)


def _shift(op: str) -> Emit:
    def emit(b: Builder, out: str, width: int, ops: Sequence[Operand], params: Any) -> str:
        x, y = (o.value for o in ops)
        t = ty(out, width)
        bits = b.const(t, bits_of(t))
        inside = b.icmp("ult", t, y, bits)
        if op == "ashr":  # the sign alone is left where the count is out of range
            return b.emit(f"ashr {t} {x}, {b.select(t, inside, y, b.const(t, bits_of(t) - 1))}")
        moved = b.emit(f"{op} {t} {x}, {b.select(t, inside, y, b.const(t, 0))}")
        return b.select(t, inside, moved, b.const(t, 0))

    return emit


def _sign(b: Builder, out: str, width: int, ops: Sequence[Operand], params: Any) -> str:
    t, x = ty(out, width), ops[0].value
    zero, one = b.const(t, 0), b.const(t, 1)
    if out in FLOATS:
        up = b.select(t, b.fcmp("ogt", t, x, zero), one, x)  # 0, -0 and NaN stay
        return b.select(t, b.fcmp("olt", t, x, zero), b.const(t, -1), up)
    if out in UNSIGNED:
        return b.select(t, b.icmp("eq", t, x, zero), zero, one)
    up = b.select(t, b.icmp("sgt", t, x, zero), one, zero)
    return b.select(t, b.icmp("slt", t, x, zero), b.const(t, -1), up)


def _abs(b: Builder, out: str, width: int, ops: Sequence[Operand], params: Any) -> str:
    t, x = ty(out, width), ops[0].value
    if out in FLOATS:
        return b.call_intrinsic("fabs", t, x)
    if out in UNSIGNED:
        return x
    negative = b.emit(f"sub {t} {b.const(t, 0)}, {x}")
    return b.select(t, b.icmp("slt", t, x, b.const(t, 0)), negative, x)


def _round(b: Builder, out: str, width: int, ops: Sequence[Operand], params: Any) -> str:
    name = "roundeven" if params["rounding_method"] == 1 else "round"
    return b.call_intrinsic(name, ty(out, width), ops[0].value)


def _is_finite(b: Builder, out: str, width: int, ops: Sequence[Operand], params: Any) -> str:
    t = ty(ops[0].dtype, width)
    size = b.call_intrinsic("fabs", t, ops[0].value)
    return b.fcmp("olt", t, size, b.const(t, float("inf")))


def _zero_sign(b: Builder, out: str, width: int, ops: Sequence[Operand], params: Any) -> str:
    t = ty(out, width)
    x, y = (o.value for o in ops)
    signed = b.call_intrinsic("copysign", t, x, y)
    return b.select(t, b.fcmp("oeq", t, x, b.const(t, 0)), signed, x)


def _select(b: Builder, out: str, width: int, ops: Sequence[Operand], params: Any) -> str:
    which, *cases = ops
    t = ty(out, width)
    if which.dtype == "bool":
        return b.select(t, which.value, cases[1].value, cases[0].value)
    w = ty(which.dtype, width)
    result = cases[0].value
    for i, case in enumerate(cases[1:], 1):
        here = b.icmp("eq", w, which.value, b.const(w, i))
        result = b.select(t, here, case.value, result)
    return result


def _clamp(b: Builder, out: str, width: int, ops: Sequence[Operand], params: Any) -> str:
    low, x, high = (o.value for o in ops)
    return extreme(b, out, width, extreme(b, out, width, low, x, True), high, False)


def _convert(b: Builder, out: str, width: int, ops: Sequence[Operand], params: Any) -> str:
    value, source = ops[0]
    return convert(b, value, source, out, width)


def convert(b: Builder, x: str, source: str, target: str, width: int) -> str:
    """A value in another dtype: truncated and saturated from float to integer, NaN to 0."""
    if source == target:
        return x
    s, t = ty(source, width), ty(target, width)
    if target == "bool":
        if source in FLOATS:
            return b.fcmp("une", s, x, b.const(s, 0))
        return b.icmp("ne", s, x, b.const(s, 0))
    if source == "bool":
        if target in FLOATS:
            return b.emit(f"uitofp {s} {x} to {t}")
        return b.emit(f"zext {s} {x} to {t}")
    if source in FLOATS:
        if target in FLOATS:
            return b.cast("fpext" if target == "float64" else "fptrunc", x, s, t)
        name = "fptosi" if target in SIGNED else "fptoui"
        tail = f"v{width}" if width > 1 else ""
        kind = "f32" if source == "float32" else "f64"
        full = f"llvm.{name}.sat.{tail}{LLVM_TYPES[target]}.{tail}{kind}"
        b.module.declare(full, t, [s])
        return b.emit(f"call {t} @{full}({s} {x})")
    if target in FLOATS:
        return b.emit(f"{'sitofp' if source in SIGNED else 'uitofp'} {s} {x} to {t}")
    old, new = bits_of(s), bits_of(t)
    if old == new:
        return x
    op = "trunc" if new < old else "sext" if source in SIGNED else "zext"
    return b.emit(f"{op} {s} {x} to {t}")


def _bitcast(b: Builder, out: str, width: int, ops: Sequence[Operand], params: Any) -> str:
    return b.cast("bitcast", ops[0].value, ty(ops[0].dtype, width), ty(out, width))


def _population_count(b: Builder, out: str, width: int, ops: Sequence[Operand], p: Any) -> str:
    return b.call_intrinsic("ctpop", ty(out, width), ops[0].value)


def _clz(b: Builder, out: str, width: int, ops: Sequence[Operand], params: Any) -> str:
    t = ty(out, width)
    tail = f"v{width}" if width > 1 else ""
    full = f"llvm.ctlz.{tail}{LLVM_TYPES[out]}"
    b.module.declare(full, t, [t, "i1"])
    return b.emit(f"call {t} @{full}({t} {ops[0].value}, i1 false)")


def _same(b: Builder, out: str, width: int, ops: Sequence[Operand], params: Any) -> str:
    return ops[0].value


add = Elementwise(_arithmetic("fadd", "add", "or"), ALL)
subtract = Elementwise(_arithmetic("fsub", "sub"), NUMBERS)
multiply = Elementwise(_arithmetic("fmul", "mul", "and"), ALL)
divide = Elementwise(_divide, NUMBERS, 5)
rem = Elementwise(_rem, NUMBERS, 20)
negative = Elementwise(_negative, NUMBERS, 0.5)
square = Elementwise(_square, ALL)
integer_pow = Elementwise(_integer_pow, NUMBERS, 3)
scale = Elementwise(_scale, FLOATS, 3)
sqrt = Elementwise(_intrinsic("sqrt"), FLOATS, 6)
maximum = Elementwise(_extreme(True), ALL, 2)
minimum = Elementwise(_extreme(False), ALL, 2)
equal = Elementwise(_compare("oeq", "eq"), ALL)
not_equal = Elementwise(_compare("une", "ne"), ALL)
less = Elementwise(_compare("olt", "lt"), ALL)
less_equal = Elementwise(_compare("ole", "le"), ALL)
greater = Elementwise(_compare("ogt", "gt"), ALL)
greater_equal = Elementwise(_compare("oge", "ge"), ALL)
invert = Elementwise(_not, INTEGERS | BOOL, 0.5)
bitwise_and = Elementwise(_bitwise("and"), INTEGERS | BOOL, 0.5)
bitwise_or = Elementwise(_bitwise("or"), INTEGERS | BOOL, 0.5)
bitwise_xor = Elementwise(_bitwise("xor"), INTEGERS | BOOL, 0.5)
shift_left = Elementwise(_shift("shl"), INTEGERS, 2)
shift_right_arithmetic = Elementwise(_shift("ashr"), INTEGERS, 2)
shift_right_logical = Elementwise(_shift("lshr"), INTEGERS, 2)
sign = Elementwise(_sign, NUMBERS, 2)
absolute = Elementwise(_abs, NUMBERS, 0.5)
floor = Elementwise(_intrinsic("floor"), FLOATS)
ceil = Elementwise(_intrinsic("ceil"), FLOATS)
round_ = Elementwise(_round, FLOATS)
is_finite = Elementwise(_is_finite, FLOATS)
copysign = Elementwise(_intrinsic("copysign"), FLOATS)
zero_sign = Elementwise(_zero_sign, FLOATS, 2)
select_n = Elementwise(_select, ALL)
clamp = Elementwise(_clamp, NUMBERS, 4)
convert_element_type = Elementwise(_convert, ALL)
bitcast_convert_type = Elementwise(_bitcast, NUMBERS, 0)
population_count = Elementwise(_population_count, INTEGERS, 3)
clz = Elementwise(_clz, INTEGERS, 3)
stop_gradient = Elementwise(_same, ALL, 0)


def _lgamma(b: Builder, out: str, width: int, ops: Sequence[Operand], params: Any) -> str:
    """As SciPy's, which is -inf at -inf where C's is inf."""
    t, x = ty(out, width), ops[0].value
    y = vector_math.emit(b, "lgamma", LLVM_TYPES[out], width, x)
    low = b.const(t, float("-inf"))
    return b.select(t, b.fcmp("oeq", t, x, low), low, y)


lgamma = Elementwise(_lgamma, FLOATS, 120)


class _OfMath(Elementwise):
    """A function of vector_math, where that has it."""

    def __init__(self, name: str, cost: float):
        super().__init__(_math(name), FLOATS, cost)
        self.name = name

    def accepts(self, dtypes: Sequence[str]) -> bool:
        return self.name in vector_math.FUNCTIONS and super().accepts(dtypes)


def of_math(name: str, cost: float) -> Elementwise:
    return _OfMath(name, cost)
