"""Random bits, and the functions by which samplers make numbers of them, as instructions.

The arithmetic of the `sampling_` functions is that of numpy_kernels/sampling.py, which says where
it comes from; a fused multiplication and addition is one instruction here. float32 has the same
bits as there. float64 has them but for log and erf, which the reference takes from NumPy and the C
library, and for the last bit of fused operations, which it has no instruction for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mgefn.backends.llvm_kernels.elementwise import Elementwise
from mgefn.backends.numpy_kernels import sampling as reference
from mgefn.backends.numpy_kernels.random_bits import PARITY, ROTATIONS
from mgefn.compiler.codegen import vector_math
from mgefn.compiler.codegen.builder import Builder, like
from mgefn.compiler.codegen.values import FLOATS, LLVM_TYPES, Operand, ty

UINT32 = frozenset(("uint32",))


def _threefry2x32(b: Builder, out: str, width: int, ops: Sequence[Operand], params: Any) -> str:
    """One of the two words; the rounds are written once for both."""
    operands = tuple([o.value for o in ops])
    key = ("threefry2x32", width, operands)
    if key not in b.shared:
        b.shared[key] = _rounds(b, ty("uint32", width), *operands)
    return b.shared[key][params["output"]]


def _rounds(b: Builder, t: str, k0: str, k1: str, x0: str, x1: str) -> tuple[str, str]:
    parity = b.const(t, int(PARITY))
    k2 = b.binary("xor", t, b.binary("xor", t, k0, k1), parity)
    schedule = (k0, k1, k2)
    x0, x1 = b.binary("add", t, x0, k0), b.binary("add", t, x1, k1)
    for i in range(5):
        for r in ROTATIONS[i % 2]:
            x0 = b.binary("add", t, x0, x1)
            x1 = b.binary("xor", t, b.call_intrinsic("fshl", t, x1, x1, b.const(t, r)), x0)
        x0 = b.binary("add", t, x0, schedule[(i + 1) % 3])
        injected = b.binary("add", t, schedule[(i + 2) % 3], b.const(t, i + 1))
        x1 = b.binary("add", t, x1, injected)
    return x0, x1


class _Floats:
    """Arithmetic on vectors of one float type, by the names of values; numbers are constants.

    Args:
        exact: are steps in float64 fused? Those in float32 are.
    """

    def __init__(self, b: Builder, dtype: str, width: int, exact: bool):
        self.b = b
        self.scalar = LLVM_TYPES[dtype]
        self.width = width
        self.t = ty(dtype, width)
        self.narrow = dtype == "float32"
        self.fused = self.narrow or exact
        self.ints = like(self.t, "i32" if self.narrow else "i64")

    def value(self, x: str | float) -> str:
        return x if isinstance(x, str) else self.b.const(self.t, float(x))

    def add(self, x: str | float, y: str | float) -> str:
        return self.b.fadd(self.t, self.value(x), self.value(y))

    def sub(self, x: str | float, y: str | float) -> str:
        return self.b.fsub(self.t, self.value(x), self.value(y))

    def mul(self, x: str | float, y: str | float) -> str:
        return self.b.fmul(self.t, self.value(x), self.value(y))

    def div(self, x: str | float, y: str | float) -> str:
        return self.b.fdiv(self.t, self.value(x), self.value(y))

    def fma(self, x: str | float, y: str | float, z: str | float) -> str:
        return self.b.fma(self.t, self.value(x), self.value(y), self.value(z))

    def unary(self, name: str, x: str) -> str:
        return self.b.call_intrinsic(name, self.t, x)

    def compare(self, predicate: str, x: str, y: str | float) -> str:
        return self.b.fcmp(predicate, self.t, x, self.value(y))

    def select(self, mask: str, yes: str | float, no: str | float) -> str:
        return self.b.select(self.t, mask, self.value(yes), self.value(no))

    def both(self, x: str, y: str) -> str:
        return self.b.binary("and", like(self.t, "i1"), x, y)

    def multiply_add(self, x: str | float, y: str | float, z: str | float) -> str:
        """Fused where the reference kernel's is."""
        return self.fma(x, y, z) if self.fused else self.add(self.mul(x, y), z)

    def horner(self, coefficients: Sequence[float], x: str) -> str:
        p: str | float = coefficients[0]
        for c in coefficients[1:]:
            p = self.multiply_add(p, x, c)
        return self.value(p)

    def integer(self, op: str, x: str, y: int | str) -> str:
        return self.b.binary(op, self.ints, x, y if isinstance(y, str) else self.int(y))

    def int(self, y: int) -> str:
        return self.b.const(self.ints, y)

    def power_of_two(self, n: str) -> str:
        """2**n for integers n within the range of normal exponents."""
        bias, bits = (127, 23) if self.narrow else (1023, 52)
        shifted = self.integer("shl", self.integer("add", n, bias), bits)
        return self.b.cast("bitcast", shifted, self.ints, self.t)

    def otherwise(self, usual: str, y: str, name: str, x: str) -> str:
        """y, and where it is not `usual` the function of vector_math, at no cost where all are."""
        b, masks = self.b, like(self.t, "i1")
        rare, join, before = b.label("rare"), b.label("join"), b.block
        unusual = b.binary("xor", masks, usual, b.const(masks, True))
        b.cond_br(b.any_of(masks, unusual), rare, join, likely=False)
        b.place(rare)
        other = self.select(usual, y, vector_math.emit(b, name, self.scalar, self.width, x))
        last = b.block
        b.br(join)
        b.place(join)
        return b.phi(self.t, (y, before), (other, last))


def _log(f: _Floats, x: str) -> str:
    if not f.narrow:
        return vector_math.emit(f.b, "log", f.scalar, f.width, x)
    b = f.b
    word = b.cast("bitcast", x, f.t, f.ints)
    bits = f.integer("or", f.integer("and", word, 0x007FFFFF), 0x3F000000)
    m = b.cast("bitcast", bits, f.ints, f.t)
    below = f.compare("olt", m, float(reference._ROOT_HALF))
    whole = f.integer("sub", f.integer("ashr", word, 23), 126)
    whole = f.integer("add", whole, b.emit(f"sext {like(f.t, 'i1')} {below} to {f.ints}"))
    e = b.emit(f"sitofp {f.ints} {whole} to {f.t}")
    z = f.add(f.sub(m, 1.0), f.select(below, m, 0.0))
    square = f.mul(z, z)
    cube = f.mul(square, z)
    y = f.horner(reference._LOG[0], z)
    for part in reference._LOG[1:]:
        y = f.fma(y, cube, f.horner(part, z))
    y = f.fma(y, cube, f.mul(float(reference._LN2_LOW), e))
    z = f.sub(z, f.mul(square, 0.5))
    z = f.add(f.add(z, y), f.mul(float(reference._LN2_HIGH), e))
    normal = f.compare("oge", x, float(np.finfo(np.float32).tiny))
    usual = f.both(normal, f.compare("olt", x, float("inf")))
    return f.otherwise(usual, z, "log", x)


def _log1p(f: _Floats, x: str) -> str:
    top, bottom = reference._TOP, reference._BOTTOM
    if f.narrow:
        top, bottom = reference._TOP32, reference._BOTTOM32
    ratio = f.div(f.horner(top, x), f.horner(bottom, x))
    square = f.mul(x, x)
    near = f.add(x, f.multiply_add(square, -0.5, f.mul(f.mul(square, x), ratio)))
    small = f.compare("olt", f.unary("fabs", x), reference._SMALL)
    return f.select(small, near, _log(f, f.add(x, 1.0)))


def _exp(f: _Floats, x: str) -> str:
    b = f.b
    if f.narrow:
        low, high = float(reference._EXP_LOW), float(reference._EXP_HIGH)
        usual = f.both(f.compare("ogt", x, low), f.compare("olt", x, high))
        inside = f.select(usual, x, 0.0)
        n = f.unary("rint", f.mul(inside, 1.44269504088896341))
        r = f.fma(n, -float(reference._LN2_HIGH), inside)
        r = f.fma(n, -float(reference._LN2_LOW), r)
        y = f.add(f.fma(f.horner(reference._EXP, r), f.mul(r, r), r), 1.0)
    else:
        usual = f.compare("olt", f.unary("fabs", x), 700.0)
        inside = f.select(usual, x, 0.0)
        n = f.unary("floor", f.fma(inside, 1.4426950408889634, 0.5))
        r = f.fma(n, -0.693145751953125, inside)
        r = f.fma(n, -1.4286068203094173e-6, r)
        square = f.mul(r, r)
        p = f.mul(f.horner(reference._EXP64_TOP, square), r)
        ratio = f.div(p, f.sub(f.horner(reference._EXP64_BOTTOM, square), p))
        y = f.add(f.mul(ratio, 2.0), 1.0)
    whole = b.emit(f"fptosi {f.t} {n} to {f.ints}")
    # In two steps: 2**n alone may be too large.
    half = f.integer("ashr", whole, 1)
    y = f.mul(y, f.power_of_two(half))
    y = f.mul(y, f.power_of_two(f.integer("sub", whole, half)))
    return f.otherwise(usual, y, "exp", x)


def _erf(f: _Floats, x: str) -> str:
    if not f.narrow:
        return vector_math.emit(f.b, "erf", f.scalar, f.width, x)
    bound = float(reference._ERF_BOUND)
    z = f.select(f.compare("ogt", x, bound), bound, x)
    z = f.select(f.compare("olt", z, -bound), -bound, z)
    square = f.mul(z, z)
    top, bottom = (f.horner(c, square) for c in (reference._ERF_TOP, reference._ERF_BOTTOM))
    one = f.b.call_intrinsic("copysign", f.t, f.value(1.0), x)
    far = f.compare("oge", f.unary("fabs", x), bound)
    return f.select(far, one, f.div(f.mul(z, top), bottom))


def _erf_inv(f: _Floats, x: str) -> str:
    w = f.b.fneg(f.t, _log1p(f, f.b.fneg(f.t, f.mul(x, x))))
    if f.narrow:
        p = f.horner(reference._CENTRAL, f.sub(w, 2.5))
        tail = f.horner(reference._TAIL, f.sub(f.unary("sqrt", w), 3.0))
        p = f.select(f.compare("olt", w, 5.0), p, tail)
    else:
        p = f.horner(reference._CENTRAL64, f.sub(w, 3.125))
        root = f.unary("sqrt", w)
        middle = f.horner(reference._MIDDLE64, f.sub(root, 3.25))
        tail = f.horner(reference._TAIL64, f.sub(root, 5.0))
        outer = f.select(f.compare("olt", w, 16.0), middle, tail)
        p = f.select(f.compare("olt", w, 6.25), p, outer)
    ends = f.compare("oeq", f.unary("fabs", x), 1.0)
    return f.select(ends, f.mul(x, float("inf")), f.mul(p, x))


def _fma(f: _Floats, x: str, y: str, z: str) -> str:
    return f.fma(x, y, z)


def _of(function: Any, cost: float, exact: bool = True) -> Elementwise:
    def emit(b: Builder, out: str, width: int, ops: Sequence[Operand], params: Any) -> str:
        f = _Floats(b, out, width, params.get("exact", exact))
        return function(f, *(o.value for o in ops))

    return Elementwise(emit, FLOATS, cost)


threefry2x32 = Elementwise(_threefry2x32, UINT32, 70, outputs=2)
sampling_log = _of(_log, 20)
sampling_log1p = _of(_log1p, 40, exact=False)
sampling_exp = _of(_exp, 15)
sampling_erf = _of(_erf, 25)
sampling_erf_inv = _of(_erf_inv, 70)
sampling_fma = _of(_fma, 1)
