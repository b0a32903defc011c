"""Functions of mathematics as vector instructions.

`emit(b, name, scalar, width, *args)` writes straight-line code for FUNCTIONS[name] arguments of
`width` elements of type float or double; half and bfloat are computed in float and rounded once.

The error is at most 2 units in the last place, but 2.5 for logaddexp and 3 for lgamma and digamma
of doubles (BOUNDS in tests/compiler/test_vector_math.py has what was measured). Where logaddexp, or
lgamma or digamma of a negative argument, is a difference of greater terms, the error is relative to
those. Subnormal numbers are numbers like others; zeros, infinities and nans give what C's functions
give.

Polynomials are minimax fits found by tests/compiler/fit_polynomial.py, a pair (for float, for
double) unless a comment says otherwise; comments give the intervals and the errors of the fits.
`fma` stands where one rounding fewer is meant; all else is rounded after each operation, which the
compensated sums rely on: no pass may contract or reassociate it.

Branches are for what is rare: arguments of sin, cos and tan beyond the exact range of a reduction
by three constants, quotients of `rem` beyond the precision of the type, the tails of `erf_inv`,
negative arguments of lgamma and digamma.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence

from mgefn.compiler.codegen.builder import (
    Builder,
    Module,
    bits_of,
    element,
    like,
    number,
    vector,
    width_of,
)

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


class _Format:
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
        high = _to_single(value[0])
        return high, (value[0] - high) + value[1]


def _to_single(x: float) -> float:
    return struct.unpack("<f", struct.pack("<f", x))[0]


_FORMATS = {"float": _Format("float"), "double": _Format("double")}


def _format(x: Value) -> _Format:
    return _FORMATS[element(x.ty)]


def _intrinsic(name: str, x: Value, *others: Value | float) -> Value:
    texts = [x._text(y) for y in others]
    return Value(x.b, x.ty, x.b.call_intrinsic(name, x.ty, x.name, *texts))


def fma(x: Value, y: Value | float, z: Value | float) -> Value:
    return _intrinsic("fma", x, y, z)


def absolute(x: Value) -> Value:
    return _intrinsic("fabs", x)


def sqrt(x: Value) -> Value:
    return _intrinsic("sqrt", x)


def copysign(magnitude: Value, sign: Value) -> Value:
    return _intrinsic("copysign", magnitude, sign)


def constant(like_value: Value, value: float) -> Value:
    return Value(like_value.b, like_value.ty, like_value.b.const(like_value.ty, value))


def select(mask: Value, yes: Value | float, no: Value | float, ty: str = "") -> Value:
    b = mask.b
    given = yes if isinstance(yes, Value) else no
    ty = given.ty if isinstance(given, Value) else like(mask.ty, ty)
    texts = [v.name if isinstance(v, Value) else b.const(ty, v) for v in (yes, no)]
    return Value(b, ty, b.select(ty, mask.name, *texts))


def _polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """Sum of c[k] x^k; a long one in blocks of four, for a shorter chain of dependent operations.

    As accurate as Horner's rule where the signs alternate, unlike a split by even and odd powers.
    """
    if len(coefficients) > 6:
        square = x * x
        step, whole = square * square, coefficients
        blocks = [_polynomial(x, whole[i : i + 4]) for i in range(0, len(whole), 4)]
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


# -- exponentials ----------------------------------------------------------------------------------

# (exp(r) - 1 - r) / r^2 on [-ln 2 / 2, ln 2 / 2]: errors 3.1e-9 and 3.4e-18, relative to exp(r).
_EXP = (
    (0.5, 0.1666652, 0.041666202, 0.008368873, 0.0013950615),
    (0.5000000000000012, 0.166666666666667, 0.04166666666651561, 0.008333333333307392,
     0.0013888888946963095, 0.00019841269917184737, 2.480148999879494e-05, 2.7557216368277874e-06,
     2.763125950861739e-07, 2.5117861090028054e-08),
)  # fmt: skip

_LN2 = (0.6931471805599453, 2.3190468138462996e-17)

# exp is 0 below the first, inf above the second.
_EXP_LOW = (-104.0, -746.0)
_EXP_HIGH = (88.72283172607422, 709.782712893384)


def _reduce_exp(x: Value) -> tuple[Value, Value]:
    """x = n ln 2 + r with |r| <= ln 2 / 2: (n in the place of the exponent's bits, r)."""
    n, high, multiple, low_ln2 = _reduce_exp_exactly(x)
    return n, fma(multiple, -low_ln2, high)


def _reduce_exp_exactly(x: Value) -> tuple[Value, Value, Value, float]:
    """The same, r as high - n low: (n's bits, high, n, low)."""
    t = _format(x)
    high_ln2, low_ln2 = t.split(_LN2)
    shifted = fma(x, 1 / LN2, t.magic)
    n = shifted - t.magic
    high = fma(n, -high_ln2, x)  # exact: a multiple of the unit of x or ln 2, and small
    return shifted.bits() << t.mantissa, high, n, low_ln2


def _exp_minus_one(r: Value) -> Value:
    square = r * r
    return fma(square, _polynomial(r, _EXP[_format(r).pick]), r)


def _scale(p: Value, n: Value) -> Value:
    """p 2^n, rounded once, for p in [0.7, 1.5) and n (as from _reduce_exp) down to where it is 0.

    Finite where the result is, though 2^n may not be. Garbage for nan.
    """
    t = _format(p)
    floor = -(t.bias - 27) << t.mantissa
    high = _intrinsic("smax", n, floor)
    low = (n - high + t.one).as_float()
    return (p.bits() + high).as_float() * low


def _at_least(x: Value, low: float) -> Value:
    return select(x < low, low, x)


def _exp(x: Value) -> Value:
    t = _format(x)
    n, r = _reduce_exp(_at_least(x, _EXP_LOW[t.pick]))
    y = _scale(_exp_minus_one(r) + 1.0, n)
    return select(x <= _EXP_HIGH[t.pick], y, x + INF)


def _exp_nonpositive(x: Value) -> Value:
    """exp(x) for x <= 0; garbage for nan."""
    n, r = _reduce_exp(_at_least(x, _EXP_LOW[_format(x).pick]))
    return _scale(_exp_minus_one(r) + 1.0, n)


# (2^r - 1) / r on [-1/2, 1/2]: errors EXP2_ERRORS relative to 2^r.
_EXP2 = (  # errors 2.6e-9, 1.8e-17
    (0.69314724, 0.24022652, 0.055503108, 0.009617699, 0.0013406588, 0.0001559268),
    (0.6931471805599457, 0.24022650695910097, 0.055504108664790414, 0.009618129107607,
     0.001333355815343531, 0.00015403530441574525, 1.5252727389864272e-05, 1.3215442674624016e-06,
     1.0180645730242882e-07, 7.072570459564738e-09, 4.0783533927324096e-10),
)  # fmt: skip


def _exp2(x: Value) -> Value:
    t = _format(x)
    clamped = _at_least(x, -float(t.bias + t.mantissa + 2))
    shifted = clamped + t.magic
    r = clamped - (shifted - t.magic)
    p = fma(r, _polynomial(r, _EXP2[t.pick]), 1.0)
    y = _scale(p, shifted.bits() << t.mantissa)
    return select(x < t.bias + 1.0, y, x + INF)


def _expm1(x: Value) -> Value:
    t = _format(x)
    n, r = _reduce_exp(_at_least(x, -40.0))
    half_scale = (n + (t.one - (1 << t.mantissa))).as_float()  # 2^n may overflow, its half does not
    y = fma(half_scale, _exp_minus_one(r), half_scale - 0.5)
    y = y + y
    y = select(x <= _EXP_HIGH[t.pick], y, x + INF)
    return select(absolute(x) < 2.0 ** -(t.mantissa + 2), x, y)  # keeps -0 and subnormals


# (tanh(x) - x) / x^3 in z = x^2, up to 0.55^2, relative to x.
_TANH = (  # errors 9.9e-10, 1.9e-17
    (-0.3333332, 0.13332602, -0.05385391, 0.021077964, -0.006282755),
    (-0.33333333333332354, 0.13333333333173797, -0.053968253878387114, 0.021869486026282473,
     -0.00886319515460247, 0.003591724664935951, -0.001453240130321993, 0.0005792032890439493,
     -0.00021040623202236433, 5.109052113813852e-05),
)  # fmt: skip


def _tanh(x: Value) -> Value:
    # 1 - 2 / (exp(2 |x|) + 1), which would cancel where a polynomial takes over.
    t = _format(x)
    a = absolute(x)
    n, r = _reduce_exp(select(a > 20.0, 20.0, a) * 2.0)
    scale = (n + t.one).as_float()
    y = 1.0 - 2.0 / (fma(scale, _exp_minus_one(r), scale) + 1.0)
    z = a * a
    near = fma(a * z, _polynomial(z, _TANH[t.pick]), a)
    return copysign(select(a < 0.55, near, y), x)


def _logistic(x: Value) -> Value:
    # Of e = exp(-|x|), which does not overflow; e / (1 + e) = e - e (e / (1 + e)) spares the error
    # of the sum where e is small.
    e = _exp_nonpositive(-absolute(x))
    q = e / (e + 1.0)
    y = select(x < 0.0, fma(-e, q, e), 1.0 - q)
    return select(x.equals(x), y, x)


# (cosh(r) - 1) / z and (sinh(r) - r) / r^3 in z = r^2, r up to ln 2 / 2.
_COSH = (  # errors 4.7e-11, 3.4e-18
    (0.5, 0.04166627, 0.0013946198),
    (0.5000000000000013, 0.04166666666651451, 0.0013888888947204165, 2.480148978263509e-05,
     2.7631328041922604e-07),
)  # fmt: skip
_SINH = (  # errors 5.2e-12, 2.6e-19
    (0.16666667, 0.008333289, 0.00019904926),
    (0.16666666666666677, 0.008333333333321633, 0.00019841269886116346, 2.755724422619555e-06,
     2.510902875971711e-08),
)  # fmt: skip


def _reduce_hyperbolic(x: Value) -> tuple[Value, Value, Value, Value, Value]:
    """With |x| = n ln 2 + r: a high part of r, sinh r less that, cosh r - 1, 2^n / 8, 2^-n / 8."""
    t = _format(x)
    limit = (t.bias + 2.5) * LN2  # beyond overflow of the result, below that of 2^n / 8
    a = absolute(x)
    n, high, multiple, low_ln2 = _reduce_exp_exactly(select(a > limit, limit, a))
    low = multiple * -low_ln2
    r = high + low
    z = r * r
    cosh = z * _polynomial(z, _COSH[t.pick])
    sinh = fma(r * z, _polynomial(z, _SINH[t.pick]), low)
    eighth = t.one - (3 << t.mantissa)
    up = (n + eighth).as_float()
    down = (eighth - _intrinsic("smin", n, 80 << t.mantissa)).as_float()
    return high, sinh, cosh, up, down


def _sinh(x: Value) -> Value:
    t = _format(x)
    high, sinh, cosh, up, down = _reduce_hyperbolic(x)
    total, difference = up + down, up - down
    y = fma(total, sinh, fma(difference, cosh, fma(total, high, difference))) * 4.0
    return select(absolute(x) < 2.0 ** -(t.mantissa // 2 + 2), x, copysign(y, x))


def _cosh(x: Value) -> Value:
    high, sinh, cosh, up, down = _reduce_hyperbolic(x)
    sinh = high + sinh
    return fma(down, cosh - sinh + 1.0, fma(up, cosh + sinh, up)) * 4.0


# -- logarithms ------------------------------------------------------------------------------------

# (log(1 + f) - f + f^2 / 2) / f^3 on [sqrt(1/2) - 1, sqrt(2) - 1], relative to log(1 + f).
_LOG_FLOAT = (  # error 5.8e-9
    0.3333333, -0.2500082, 0.20001222, -0.1662337, 0.14201859, -0.13160144, 0.12760867,
    -0.076337345,
)  # fmt: skip
# (log((1 + s) / (1 - s)) - 2 s) / s^3 in z = s^2, up to 0.1716^2, relative to 2 s.
_LOG_DOUBLE = (  # error 2.5e-18
    0.6666666666666734, 0.39999999999415126, 0.28571428742268, 0.22222198587147002,
    0.18183563532274588, 0.1531407221591447, 0.147957224130853,
)  # fmt: skip

_LOG_2_OF = {  # of base e, 2, 10: the logarithm of 2 and of e, each a sum of two doubles
    "log": (_LN2, (1.0, 0.0)),
    "log2": ((1.0, 0.0), (1.4426950408889634, 2.0355273740931033e-17)),
    "log10": (
        (0.3010299956639812, -2.8037281277851704e-18),
        (0.4342944819032518, 1.098319650216765e-17),
    ),
}


def _log_remainder(f: Value) -> Value:
    """log(1 + f) - f for 1 + f in [sqrt(1/2), sqrt(2))."""
    if element(f.ty) == "float":
        z = f * f
        return z * fma(f, _polynomial(f, _LOG_FLOAT), -0.5)
    s = f / (f + 2.0)
    z = s * s
    half_square = f * f * 0.5
    return fma(s, fma(z, _polynomial(z, _LOG_DOUBLE), half_square), -half_square)


def _exponent(x: Value, correction: Value | float = 0.0) -> tuple[Value, Value]:
    """(e, m) with x = m 2^e and m in [sqrt(1/2), sqrt(2)), for normal x > 0; e + correction."""
    t = _format(x)
    u = x.bits() + (t.one - t.root_half)
    m = ((u & ((1 << t.mantissa) - 1)) + t.root_half).as_float()
    # The biased exponent as the last bits of a float, which is faster than a conversion.
    biased = ((u >> t.mantissa) | (t.one + (t.mantissa << t.mantissa))).as_float()
    zero = 2.0**t.mantissa + t.bias
    return biased - (zero - correction), m


def _log_of(base: str, e: Value, f: Value, y: Value) -> Value:
    """The logarithm of 2^e (1 + f), given y = log(1 + f) - f."""
    t = _format(f)
    of_two, of_e = _LOG_2_OF[base]
    if base == "log":
        high, low = t.split(of_two)
        return fma(e, high, f + fma(e, low, y))
    factor, factor_low = t.split(of_e)
    main = f * factor
    rest = fma(f, factor, -main)
    rest = fma(y, factor, fma(f, factor_low, rest))
    if base == "log2":
        return e + (main + rest)
    # e times the first constant is exact, and so is the error of the sum.
    high, low = _rounded_split(t, of_two)
    whole = e * high
    total = whole + main
    rest = rest + fma(e, low, (whole - total) + main)
    return total + rest


def _rounded_split(t: _Format, value: tuple[float, float]) -> tuple[float, float]:
    """As _Format.split, the first so short that its product with an exponent is exact."""
    unit = 2.0 ** (13 if t.scalar == "float" else 40)
    high = math.floor(value[0] * unit) / unit
    return high, (value[0] - high) + value[1]


def _log_any(base: str) -> Callable[[Value], Value]:
    def log(x: Value) -> Value:
        t = _format(x)
        small = x < t.least_normal
        shift = t.mantissa + 2.0
        scaled = select(small, x * 2.0**shift, x)
        zero = select(small, shift, 0.0, t.scalar)
        e, m = _exponent(scaled)
        e = e - zero
        f = m - 1.0
        return _log_ends(x, _log_of(base, e, f, _log_remainder(f)), x)

    return log


def _log_ends(argument: Value, y: Value, x: Value) -> Value:
    """y where the argument of a logarithm is positive and finite, else what it is there."""
    y = select(argument < INF, y, x)  # inf and nan
    outside = select(argument.equals(0.0), -INF, math.nan, element(x.ty))
    return select(argument <= 0.0, outside, y)


def _log1p(x: Value) -> Value:
    t = _format(x)
    u = x + 1.0
    e, f, _ = _log1p_reduced(x, u)
    y = _log_ends(u, _log_of("log", e, f, _log_remainder(f)), x)
    return select(absolute(x) < 2.0 ** -(t.mantissa + 2), x, y)  # keeps -0 and subnormals


def _log1p_reduced(x: Value, u: Value) -> tuple[Value, Value, Value]:
    """(e, f, 4 2^-e) with 1 + x = 2^e (1 + f), given u = 1 + x rounded."""
    t = _format(x)
    biased = (u.bits() + (t.one - t.root_half)) >> t.mantissa
    e = (biased | (t.one + (t.mantissa << t.mantissa))).as_float() - (2.0**t.mantissa + t.bias)
    # f = x 2^-e + (2^-e - 1), rounded once; by 4 2^-e, which does not underflow.
    scale = ((2 * t.bias + 2 << t.mantissa) - (biased << t.mantissa)).as_float()
    return e, fma(x * 0.25, scale, fma(scale, 0.25, -1.0)), scale


# -- circular functions ----------------------------------------------------------------------------

# (sin(r) - r) / r^3 and (cos(r) - 1 + z / 2) / z^2 in z = r^2, r up to 0.79.
_SIN = (  # errors 3.8e-9, 3.7e-18
    (-0.16666655, 0.008332152, -0.00019513632),
    (-0.1666666666666663, 0.008333333333321766, -0.00019841269829268943, 2.7557313498508224e-06,
     -2.5050726895224773e-08, 1.5894935571881284e-10),
)  # fmt: skip
_COS = (  # errors 1.0e-10, 5.1e-20
    (0.041666646, -0.0013887333, 2.443432e-05),
    (0.041666666666666595, -0.0013888888888873253, 2.480158728891435e-05, -2.755731418209082e-07,
     2.087569935466876e-09, -1.135837207520006e-11),
)  # fmt: skip
# (tan(r) - r) / r^3 in z = r^2, r up to 0.79, relative to tan(r).
_TAN = (  # errors 1.6e-9, 1.2e-18
    (0.33333352, 0.13332546, 0.0540729, 0.021216389, 0.011003792, -0.00012081346, 0.0044790125),
    (0.333333333333334, 0.13333333333323238, 0.053968253974013725, 0.021869488369709568,
     0.00886323838998954, 0.0035920961053679313, 0.0014560787951756475, 0.0005887016894388346,
     0.0002443223611161715, 8.211859775136264e-05, 6.981039057990159e-05, -2.886860521270684e-05,
     5.130652421381176e-05, -2.5583116753345177e-05, 1.0087583501727908e-05),
)  # fmt: skip

_PI = (3.141592653589793, 1.2246467991473532e-16, -2.9947698097183397e-33)

# Up to these a reduction by pi / 2 in three parts is exact enough; beyond, _reduce_far.
_FAR = (2.0**17, 2.0**30)


def _half_pi(t: _Format) -> tuple[float, float, float]:
    if t.scalar == "double":
        return _PI[0] / 2, _PI[1] / 2, _PI[2] / 2
    first = _to_single(_PI[0] / 2)
    second = _to_single(_PI[0] / 2 - first)
    return first, second, _to_single((_PI[0] / 2 - first - second) + _PI[1] / 2)


def _circular(x: Value) -> tuple[Value, Value, Value]:
    """sin r, cos r and q, where x = q pi / 2 + r with |r| <= pi / 4, q in its last two bits."""
    t = _format(x)
    first, second, third = _half_pi(t)
    shifted = fma(x, 2 / math.pi, t.magic)
    n = shifted - t.magic
    # The innermost step is exact.
    r = fma(n, -third, fma(n, -second, fma(n, -first, x)))
    r, q = _unless_far(x, r, None, shifted.bits())
    z = r * r
    sin = fma(r * z, _polynomial(z, _SIN[t.pick]), r)
    cos = fma(z, fma(z, _polynomial(z, _COS[t.pick]), -0.5), 1.0)
    return sin, cos, q


def _signed(y: Value, q: Value) -> Value:
    """y with its sign changed where the bit of value 2 is set."""
    return (y.bits() ^ ((q & 2) << (bits_of(y.ty) - 2))).as_float()


def _sin(x: Value) -> Value:
    sin, cos, q = _circular(x)
    y = _signed(select((q & 1).equals(0), sin, cos), q)
    return select(absolute(x) < 2.0 ** -(_format(x).mantissa // 2 + 2), x, y)  # keeps -0


def _cos(x: Value) -> Value:
    sin, cos, q = _circular(x)
    return _signed(select((q & 1).equals(0), cos, sin), q + 1)


def _tan(x: Value) -> Value:
    t = _format(x)
    first, second, third = _half_pi(t)
    shifted = fma(x, 2 / math.pi, t.magic)
    n = shifted - t.magic
    # r and what it lacks, lest the reciprocal of the tangent doubles its error.
    exact = fma(n, -first, x)
    product = n * second
    r = exact - product
    low = fma(n, -third, ((exact - r) - product) - fma(n, second, -product))
    r, low, q = _unless_far(x, r, low, shifted.bits())
    z = r * r
    y = r + fma(r * z, _polynomial(z, _TAN[t.pick]), low)
    y = select((q & 1).equals(0), y, -1.0 / y)
    return select(absolute(x) < 2.0 ** -(t.mantissa // 2 + 2), x, y)


def _unless_far(x: Value, r: Value, low: Value | None, q: Value) -> list[Value]:
    """A reduction by pi / 2, or where |x| is great what _reduce_far gives."""
    b = x.b
    near = [v for v in (r, low, q) if v is not None]
    far = absolute(x) > _FAR[_format(x).pick]
    any_far = b.any_of(far.ty, far.name)
    slow, join, before = b.label("far"), b.label("near"), b.block
    b.cond_br(any_far, slow, join, likely=False)
    b.place(slow)
    results = _reduce_far(x, near)
    b.br(join)
    b.place(join)
    return [
        Value(b, v.ty, b.phi(v.ty, (v.name, before), (w.name, slow)))
        for v, w in zip(near, results, strict=True)
    ]


# 1 / pi: 64 zero bits, then the bits after the point.
_INVERSE_PI = (
    0, 0x517CC1B727220A94, 0xFE13ABE8FA9A6EE0, 0x6DB14ACC9E21C820, 0xFF28B1D5EF5DE2B0,
    0xDB92371D2126E970, 0x0324977504E8C90E, 0x7F0EF58E5894D39F, 0x74411AFA975DA242,
    0x74CE38135A2FBF20, 0x9CC8EB1CC1A99CFA, 0x4E422FC5DEFC941D, 0x8FFC4BFFEF02CC07,
    0xF79788C5AD05368F, 0xB69B3F6793E584DB, 0xA7A31FB34F2FF516, 0xBA93DD63F5F2F8BD,
    0x9E839CFBC5294975, 0x35FDAFD88FC6AE84, 0x2B0198237E3DB5D5, 0xF867DE104D7A1B0E,
)  # fmt: skip

# x = q pi / 2 + r for |x| >= 2^17: (r, what it lacks, q mod 4), from the product of the bits of x
# and those 192 bits of 1 / pi that matter (Payne and Hanek 1983, ACM SIGNUM Newsletter 18(1),
# 19-24). %turns is |x| / pi mod 2 in units of 2^-127.
_REDUCE_ONE = """
define internal {{ double, double, i64 }} @mgefn.reduce_far(double %x) noinline cold nounwind {{
  %bits = bitcast double %x to i64
  %shifted = lshr i64 %bits, 52
  %exponent = and i64 %shifted, 2047
  %position = add i64 %exponent, -1012
  %fraction = and i64 %bits, 4503599627370495
  %m = or i64 %fraction, 4503599627370496
  %word = lshr i64 %position, 6
  %offset = and i64 %position, 63
  %p0 = getelementptr [{count} x i64], ptr @mgefn.inverse_pi, i64 0, i64 %word
  %p1 = getelementptr i64, ptr %p0, i64 1
  %p2 = getelementptr i64, ptr %p0, i64 2
  %p3 = getelementptr i64, ptr %p0, i64 3
  %t0 = load i64, ptr %p0
  %t1 = load i64, ptr %p1
  %t2 = load i64, ptr %p2
  %t3 = load i64, ptr %p3
  %w0 = call i64 @llvm.fshl.i64(i64 %t0, i64 %t1, i64 %offset)
  %w1 = call i64 @llvm.fshl.i64(i64 %t1, i64 %t2, i64 %offset)
  %w2 = call i64 @llvm.fshl.i64(i64 %t2, i64 %t3, i64 %offset)
  %wide = zext i64 %m to i128
  %wide1 = zext i64 %w1 to i128
  %wide2 = zext i64 %w2 to i128
  %low = mul i128 %wide, %wide2
  %carried = lshr i128 %low, 64
  %middle = mul i128 %wide, %wide1
  %sum = add i128 %middle, %carried
  %high = mul i64 %m, %w0
  %high128 = zext i64 %high to i128
  %placed = shl i128 %high128, 64
  %turns = add i128 %placed, %sum
  %rounded = add i128 %turns, 42535295865117307932921825928971026432
  %q128 = lshr i128 %rounded, 126
  %q_size = trunc i128 %q128 to i64
  %minus_q = sub i64 0, %q_size
  %below = icmp slt i64 %bits, 0
  %q = select i1 %below, i64 %minus_q, i64 %q_size
  %distance = shl i128 %turns, 2
  %rounded_up = icmp slt i128 %distance, 0
  %negative = xor i1 %rounded_up, %below
  %size = call i128 @llvm.abs.i128(i128 %distance, i1 false)
  %zeros = call i128 @llvm.ctlz.i128(i128 %size, i1 false)
  %normal = shl i128 %size, %zeros
  %first128 = lshr i128 %normal, 75
  %first64 = trunc i128 %first128 to i64
  %first = sitofp i64 %first64 to double
  %next128 = shl i128 %normal, 53
  %second128 = lshr i128 %next128, 75
  %second64 = trunc i128 %second128 to i64
  %second = sitofp i64 %second64 to double
  %zeros64 = trunc i128 %zeros to i64
  %biased = sub i64 970, %zeros64
  %scale_bits = shl i64 %biased, 52
  %scale = bitcast i64 %scale_bits to double
  %a = fmul double %first, %scale
  %b1 = fmul double %second, %scale
  %b = fmul double %b1, {unit}
  %r = fmul double %a, {pi}
  %minus = fneg double %r
  %error = call double @llvm.fma.f64(double %a, double {pi}, double %minus)
  %e1 = call double @llvm.fma.f64(double %a, double {pi_low}, double %error)
  %r_low = call double @llvm.fma.f64(double %b, double {pi}, double %e1)
  %s = fadd double %r, %r_low
  %back = fsub double %s, %r
  %s_low = fsub double %r_low, %back
  %minus_s = fneg double %s
  %minus_low = fneg double %s_low
  %y = select i1 %negative, double %minus_s, double %s
  %y_low = select i1 %negative, double %minus_low, double %s_low
  %infinite = icmp eq i64 %exponent, 2047
  %z = select i1 %infinite, double {nan}, double %y
  %o1 = insertvalue {{ double, double, i64 }} poison, double %z, 0
  %o2 = insertvalue {{ double, double, i64 }} %o1, double %y_low, 1
  %o3 = insertvalue {{ double, double, i64 }} %o2, i64 %q, 2
  ret {{ double, double, i64 }} %o3
}}
"""


def _reduce_far(x: Value, near: Sequence[Value]) -> list[Value]:
    """(r, q) or (r, low, q) by a call for each element that is great; `near` for the others."""
    b, t, w = x.b, _format(x), width_of(x.ty)
    module = b.module
    if "mgefn.reduce_far" not in module.definitions:
        words = ", ".join(f"i64 {v}" for v in _INVERSE_PI)
        module.definitions["mgefn.inverse_pi"] = (
            f"@mgefn.inverse_pi = internal constant [{len(_INVERSE_PI)} x i64] [{words}]\n"
        )
        for intrinsic, ty, arguments in (
            ("fshl.i64", "i64", ["i64"] * 3),
            ("abs.i128", "i128", ["i128", "i1"]),
            ("ctlz.i128", "i128", ["i128", "i1"]),
            ("fma.f64", "double", ["double"] * 3),
        ):
            module.declare(f"llvm.{intrinsic}", ty, arguments)
        module.definitions["mgefn.reduce_far"] = _REDUCE_ONE.format(
            count=len(_INVERSE_PI), unit=number("double", 2.0**-53),
            nan=number("double", math.nan), pi=number("double", _PI[0] / 2),
            pi_low=number("double", _PI[1] / 2),
        )  # fmt: skip
    helper = f"mgefn.reduce_far.{len(near)}.{t.scalar}.{w}"
    result = "{ " + ", ".join(v.ty for v in near) + " }"
    if helper not in module.definitions:
        _define_reduce_far(module, helper, x.ty, [v.ty for v in near], result)
    out = b.call(helper, result, (x.ty, x.name), *((v.ty, v.name) for v in near))
    return [Value(b, v.ty, b.emit(f"extractvalue {result} {out}, {i}")) for i, v in enumerate(near)]


def _define_reduce_far(module: Module, helper: str, ty: str, near: list[str], result: str) -> None:
    """A function of x and the results of the near reduction: these where |x| is not great."""
    b, scalar, w = Builder(module), element(ty), width_of(ty)
    types = [ty, *near]
    slots = [b.emit(f"alloca {u}") for u in types]
    for i, (u, slot) in enumerate(zip(types, slots, strict=True)):
        b.store(u, f"%a{i}", slot)
    b.br("loop")
    b.place("loop")
    b.do("%i = phi i64 [ 0, %entry ], [ %next, %latch ]")
    places = [
        b.emit(f"getelementptr {element(u)}, ptr {s}, i64 %i")
        for u, s in zip(types, slots, strict=True)
    ]
    x = Value(b, scalar, b.load(scalar, places[0]))
    b.cond_br((absolute(x) > _FAR[_format(x).pick]).name, "far", "latch")
    b.place("far")
    struct_ty = "{ double, double, i64 }"
    out = b.call("mgefn.reduce_far", struct_ty, ("double", x.convert("fpext", "double").name))
    r, low = (Value(b, "double", b.emit(f"extractvalue {struct_ty} {out}, {i}")) for i in range(2))
    q = Value(b, "i64", b.emit(f"extractvalue {struct_ty} {out}, 2"))
    first = r.convert("fptrunc", scalar)
    b.store(scalar, first.name, places[1])
    if len(near) == 3:
        if scalar == "float":
            low = low + (r - first.convert("fpext", "double"))
        b.store(scalar, low.convert("fptrunc", scalar).name, places[2])
    integer = element(types[-1])
    b.store(integer, q.convert("trunc", integer).name, places[-1])
    b.br("latch")
    b.place("latch")
    b.do("%next = add i64 %i, 1")
    b.cond_br(b.emit(f"icmp eq i64 %next, {w}"), "done", "loop")
    b.place("done")
    value = "poison"
    for i, u in enumerate(near):
        loaded = b.load(u, slots[i + 1])
        value = b.emit(f"insertvalue {result} {value}, {u} {loaded}, {i}")
    b.do(f"ret {result} {value}")
    b.function(helper, result, [(u, f"a{i}") for i, u in enumerate(types)],
               "noinline cold nounwind", "internal")  # fmt: skip


# -- inverse circular and hyperbolic functions -----------------------------------------------------

# (asin(s) - s) / s^3 in z = s^2 up to 1/4, relative to asin(s).
_ASIN = (  # errors 5.0e-9, 9.8e-19
    (0.16666754, 0.074952446, 0.0454768, 0.024148973, 0.04221629),
    (0.16666666666666763, 0.07499999999970222, 0.044642857175152276, 0.030381942682428064,
     0.02237221568629832, 0.017351599733613048, 0.013980964703034667, 0.011397756198766719,
     0.010786609429987873, 0.0036828307157248104, 0.021763833036484652, -0.021077559979062015,
     0.03267695420680692),
)  # fmt: skip
# (atan(q) - q) / q^3 in z = q^2 up to 1, relative to atan(q).
_ATAN = (  # errors 2.6e-9, 4.6e-18
    (-0.333333, 0.19998549, -0.14264247, 0.10952211, -0.08403526, 0.0579589, -0.031179158,
     0.010915312, -0.0017937794),
    (-0.33333333333333065, 0.1999999999995143, -0.14285714282573678, 0.11111111006991203,
     -0.09090907002448258, 0.07692279833537771, -0.06666404014075823, 0.05880527572337634,
     -0.0525351753484261, 0.047223189345278846, -0.042191707454752085, 0.03664175065373446,
     -0.029903614199597313, 0.021984563926714613, -0.013900296575964423, 0.007196322461932311,
     -0.0028848281868468105, 0.0008312908694074485, -0.00015215433655894537,
     1.3224438654208716e-05),
)  # fmt: skip


def _asin_parts(x: Value) -> tuple[Value, Value, Value]:
    """|x| > 1/2; s and c, where asin(s) = s + c and s is |x|, or sqrt((1 - |x|) / 2) there."""
    a = absolute(x)
    large = a > 0.5
    z = select(large, 0.5 - a * 0.5, a * a)
    s = select(large, sqrt(z), a)
    return large, s, s * z * _polynomial(z, _ASIN[_format(x).pick])


def _asin(x: Value) -> Value:
    large, s, c = _asin_parts(x)
    high, low, _ = _half_pi(_format(x))
    y = fma(s, -2.0, high)
    lost = fma(s, -2.0, high - y)
    y = y + (lost + fma(c, -2.0, low))
    return copysign(select(large, y, s + c), x)


def _acos(x: Value) -> Value:
    large, s, c = _asin_parts(x)
    high, low, _ = _half_pi(_format(x))
    # 2 (s + c) near 1, pi - 2 (s + c) near -1, pi / 2 -+ (s + c) between.
    positive = x > 0.0
    two_or_one = select(large, 2.0, -1.0, element(x.ty))
    factor = select(positive, two_or_one, -two_or_one)
    base = select(large, select(positive, constant(x, 0.0), 2 * high), high)
    base_low = select(large, select(positive, constant(x, 0.0), 2 * low), low)
    return fma(factor, s, base) + fma(factor, c, base_low)


def _atan(x: Value) -> Value:
    a = absolute(x)
    large = a > 1.0
    q = select(large, -1.0, a) / select(large, a, 1.0)
    z = q * q
    c = q * z * _polynomial(z, _ATAN[_format(x).pick])
    high, low, _ = _half_pi(_format(x))
    y = select(large, constant(x, high), 0.0) + (q + (c + select(large, constant(x, low), 0.0)))
    return copysign(y, x)


def _atan2(y: Value, x: Value) -> Value:
    t = _format(x)
    ax, ay = absolute(x), absolute(y)
    steep = ay > ax
    q = select(steep, ax, ay) / select(steep, ay, ax)
    # 0 / 0 is 0 here, inf / inf is 1.
    q = select(ay.equals(0.0), ay, q)
    q = select(ay.equals(INF), select(ax.equals(INF), 1.0, constant(x, 0.0)), q)
    z = q * q
    c = q * z * _polynomial(z, _ATAN[t.pick])
    high, low, _ = _half_pi(t)
    # pi / 2 - angle in the steep half, then pi - that for negative x: base + sign (q + c).
    sign_bit = t.sign
    negative = (x.bits() & sign_bit).differs(0)
    turned = select(negative, constant(x, 2 * high), 0.0)
    turned_low = select(negative, constant(x, 2 * low), 0.0)
    base = select(steep, constant(x, high), turned)
    base_low = select(steep, constant(x, low), turned_low)
    flip = select(steep, sign_bit, 0, element(x.bits().ty)) ^ (x.bits() & sign_bit)
    q, c = (q.bits() ^ flip).as_float(), (c.bits() ^ flip).as_float()
    out = base + (q + (c + base_low))
    # Of nan: the sum is nan unless ay was 0 or inf.
    return copysign(select(x.equals(x), out, x), y)


def _log1p_large(a: Value, low: Value, large: Value, x: Value) -> Value:
    """log1p(a + low), or log(2 x) where large, and 1 + x no other number than x."""
    a = select(large, x, a)
    e, f, scale = _log1p_reduced(a, a + 1.0)
    # Part of low / (1 + a): a low of half a unit at most need not be exact.
    y = fma(low * 0.25, scale, _log_remainder(f))
    e = e + select(large, 1.0, 0.0, element(x.ty))
    return _log_of("log", e, f, y)


def _asinh(x: Value) -> Value:
    t = _format(x)
    a = absolute(x)
    large = a > 2.0 ** (t.mantissa + 2)
    square = a * a
    second = square / (sqrt(square + 1.0) + 1.0)  # sqrt(a^2 + 1) - 1
    total = a + second
    low = select(large, 0.0, (a - total) + second)
    y = _log1p_large(total, low, large, a)
    y = select(a < INF, y, a)
    return select(a < 2.0 ** -(t.mantissa // 2 + 2), x, copysign(y, x))


def _acosh(x: Value) -> Value:
    t = _format(x)
    large = x > 2.0 ** (t.mantissa + 2)
    above = x - 1.0
    root = sqrt(fma(above, above, above + above))
    total = above + root
    low = select(large, 0.0, (root - total) + above)
    y = _log1p_large(total, low, large, x)
    y = select(x < INF, y, x)
    return select(x < 1.0, math.nan, y)


def _atanh(x: Value) -> Value:
    # log1p(2 a / (1 - a)) / 2
    t = _format(x)
    a = absolute(x)
    d = 1.0 - a
    d_low = (1.0 - d) - a
    inverse = 1.0 / d
    twice = a + a
    q = twice * inverse
    low = fma(q, -d_low, fma(q, -d, twice)) * inverse
    e, f, scale = _log1p_reduced(q, q + 1.0)
    y = _log_of("log", e, f, fma(low * 0.25, scale, _log_remainder(f))) * 0.5
    y = select(a < 1.0, y, select(a.equals(1.0), INF, math.nan, element(x.ty)))
    return select(a < 2.0 ** -(t.mantissa // 2 + 2), x, copysign(y, x))


# -- powers and roots ------------------------------------------------------------------------------


def _cbrt(x: Value) -> Value:
    t = _format(x)
    a = absolute(x)
    small = a < t.least_normal
    scaled = select(small, a * 2.0 ** (3 * (t.mantissa // 3 + 2)), a)
    # a^(-1/3) within 4 % from a third of the bits, then steps of fourth order; only the upper 32
    # bits, which every processor converts.
    high = scaled.bits()
    if t.scalar == "double":
        high = (high >> 32).convert("trunc", "i32")
    third = high.convert("sitofp", "float") * (-1.0 / 3.0)
    unit = 2.0**23 if t.scalar == "float" else 2.0**20
    guess = (third + unit * (t.bias * 4.0 / 3.0 - 0.04)).convert("fptosi", "i32")
    if t.scalar == "double":
        guess = guess.convert("zext", "i64") << 32
    r = guess.as_float()
    for _ in range(2 if t.scalar == "float" else 3):
        e = fma(r * r * r, -scaled, 1.0)
        r = fma(r * e, fma(e, fma(e, 14 / 81, 2 / 9), 1 / 3), r)
    square = r * r
    y = scaled * square
    # One step of Newton on y^3 with the exact error of y^2.
    y2 = y * y
    low = fma(y, y, -y2)
    residual = fma(y2, -y, scaled) - y * low
    y = fma(residual, square * (1 / 3), y)
    y = select(small, y * 2.0 ** -(t.mantissa // 3 + 2), y)
    plain = select(a > 0.0, y, a)
    return copysign(select(a < INF, plain, a), x)


def _hypot(x: Value, y: Value) -> Value:
    t = _format(x)
    ax, ay = absolute(x), absolute(y)
    swap = ax < ay
    great, less = select(swap, ay, ax), select(swap, ax, ay)
    power = 66 if t.scalar == "float" else 540
    huge, tiny = great > 2.0 ** (t.bias // 2 - 2), great < 2.0 ** -(t.bias // 2 - t.mantissa // 2)
    up, down = 2.0 ** (power + t.mantissa // 2 + 8), 2.0**-power
    scale = select(huge, down, select(tiny, up, constant(x, 1.0)))
    back = select(huge, 1 / down, select(tiny, 1 / up, constant(x, 1.0)))
    great, less = great * scale, less * scale
    out = sqrt(fma(great, great, less * less)) * back
    infinite = Value(
        x.b, huge.ty, x.b.binary("or", huge.ty, ax.equals(INF).name, ay.equals(INF).name)
    )
    out = select(x.equals(x), out, x)
    out = select(y.equals(y), out, y)
    return select(infinite, INF, out)


# (log(1 + f) - f) / f^2 on [sqrt(1/2) - 1, sqrt(2) - 1] and (2^r - 1) / r on [-1/2, 1/2], for the
# power of floats in double.
_POW_LOG = (  # error 4.8e-11
    -0.5000000016795036, 0.3333333346807045, -0.24999966434107732, 0.19999952715746258,
    -0.16668531057073138, 0.1428947703254711, -0.12459180727670975, 0.11000823379034873,
    -0.10337677420950805, 0.10395495088580839, -0.0823320111921088, 0.0297159042626133,
)  # fmt: skip
_POW_EXP2 = (  # error 2.3e-10
    0.6931471838155702, 0.24022650920816635, 0.05550400382114087, 0.009618056917889322,
    0.0013341945161312765, 0.00015461367396859486, 1.33611467586302e-05,
)  # fmt: skip
# (log((1 + s) / (1 - s)) - 2 s - 2 s^3 / 3) / s^5 in z = s^2 up to 0.1716^2.
_POW_LOG_DOUBLE = (  # error 2.2e-20
    0.4000000000000225, 0.28571428570101387, 0.22222222519618787, 0.18181784392159334,
    0.15386756237050786, 0.13256842167019725, 0.13196109286958477,
)  # fmt: skip


def _pow(x: Value, y: Value) -> Value:
    t = _format(x)
    b = x.b

    def either(op: str, p: Value, q: Value) -> Value:
        return Value(b, p.ty, b.binary(op, p.ty, p.name, q.name))

    a = absolute(x)
    # So great an exponent over- or underflows anyway, but is finite.
    limit = 2.0 ** (t.mantissa + 12)
    exponent = select(y > limit, limit, select(y < -limit, -limit, y))
    positive = select(either("or", a.equals(0.0), a.equals(INF)), 1.0, a)
    power = (_pow_float if t.scalar == "float" else _pow_double)(positive, exponent)
    # 0 and inf: to a positive and to a negative power.
    grows = either("xor", a.equals(0.0), y > 0.0)
    ends = select(grows, INF, 0.0, t.scalar)
    power = select(either("or", a.equals(0.0), a.equals(INF)), ends, power)
    half = y * 0.5
    whole = y.equals(_intrinsic("rint", y))
    odd = either("and", whole, half.differs(_intrinsic("rint", half)))
    flip = x.bits() & select(odd, t.sign, 0, element(x.bits().ty))
    power = (power.bits() ^ flip).as_float()
    bad = either("and", either("and", x < 0.0, a < INF), y.differs(_intrinsic("rint", y)))
    unordered = Value(b, bad.ty, b.fcmp("uno", x.ty, x.name, y.name))
    power = select(either("or", bad, unordered), math.nan, power)
    return select(either("or", y.equals(0.0), x.equals(1.0)), 1.0, power)


def _pow_float(a: Value, y: Value) -> Value:
    """a^y for finite a > 0, in double: overflow and subnormal results by the last rounding."""
    e, m = _exponent(a.convert("fpext", "double"))
    f = m - 1.0
    log = fma(f * f, _polynomial(f, _POW_LOG), f)
    log2 = fma(log, 1 / LN2, e)
    power = y.convert("fpext", "double") * log2
    power = select(power > 200.0, 200.0, select(power < -200.0, -200.0, power))
    t = _FORMATS["double"]
    shifted = power + t.magic
    r = power - (shifted - t.magic)
    p = fma(r, _polynomial(r, _POW_EXP2), 1.0)
    scale = ((shifted.bits() << t.mantissa) + t.one).as_float()
    return (p * scale).convert("fptrunc", "float")


def _pow_double(a: Value, y: Value) -> Value:
    """a^y for finite a > 0, by the logarithm as a sum of two."""
    t = _FORMATS["double"]
    small = a < t.least_normal
    e, m = _exponent(select(small, a * 2.0**54, a))
    e = e - select(small, 54.0, 0.0, "double")
    # log(m) = 2 s + s^3 (2/3 + z Q(z)), s = f / (2 + f), z = s^2; each but Q as a sum of two.
    f = m - 1.0
    d = f + 2.0
    d_low = f - (d - 2.0)
    inverse = 1.0 / d
    s = f * inverse
    s_low = fma(s, -d_low, fma(s, -d, f)) * inverse
    z = s * s
    z_low = fma(s, s_low + s_low, fma(s, s, -z))
    zq = z * _polynomial(z, _POW_LOG_DOUBLE)
    c = zq + 2 / 3
    c_low = (zq - (c - 2 / 3)) + 3.700743415417188e-17  # what the double 2/3 lacks
    cube = z * c
    cube_low = fma(z_low, c, fma(z, c_low, fma(z, c, -cube)))
    term = s * cube
    term_low = fma(s_low, cube, fma(s, cube_low, fma(s, cube, -term)))
    high, low = _rounded_split(t, _LN2)
    whole, twice = e * high, s + s
    total = whole + twice
    total_low = (whole - total) + twice
    log = total + term
    rest = (total - log) + term + total_low + (fma(e, low, term_low) + (s_low + s_low))
    log_high = log + rest
    log_low = (log - log_high) + rest
    power = y * log_high
    power_low = fma(y, log_low, fma(y, log_high, -power))
    clamped = select(power > 800.0, 800.0, select(power < -800.0, -800.0, power))
    power_low = select(power.equals(clamped), power_low, 0.0)
    n, r = _reduce_exp(clamped)
    scaled = _scale(_exp_minus_one(r + power_low) + 1.0, n)
    return select(clamped + power_low > _EXP_HIGH[1], INF, scaled)


def _logaddexp(x: Value, y: Value) -> Value:
    # The error is that of the greater argument where the logarithm cancels it.
    t = _format(x)
    e = _exp_nonpositive(-absolute(x - y))
    exponent, f, _ = _log1p_reduced(e, e + 1.0)
    log = _log_of("log", exponent, f, _log_remainder(f))
    log = select(e < 2.0 ** -(t.mantissa + 2), e, log)
    out = select(x > y, x, y) + log
    out = select(x.equals(y), x + LN2, out)
    unordered = Value(x.b, like(x.ty, "i1"), x.b.fcmp("uno", x.ty, x.name, y.name))
    return select(unordered, x + y, out)


def _rem(x: Value, y: Value) -> Value:
    t, b = _format(x), x.b
    a, d = absolute(x), absolute(y)
    q = a / d
    far = q >= 2.0**t.mantissa
    # The quotient may be rounded up to an integer: the remainder is then negative, and exact.
    r = fma(_intrinsic("trunc", q), -d, a)
    r = select(r < 0.0, r + d, r)
    r = select(a < d, a, r)
    any_far = b.any_of(far.ty, far.name)
    slow, join, before = b.label("far"), b.label("near"), b.block
    b.cond_br(any_far, slow, join, likely=False)
    b.place(slow)
    helper = f"mgefn.rem_far.{t.scalar}.{width_of(x.ty)}"
    if helper not in b.module.definitions:
        _define_rem_far(b.module, helper, x.ty)
    exact = b.call(helper, x.ty, (x.ty, a.name), (x.ty, d.name))
    b.br(join)
    b.place(join)
    return copysign(Value(b, x.ty, b.phi(x.ty, (r.name, before), (exact, slow))), x)


def _define_rem_far(module: Module, helper: str, ty: str) -> None:
    """The remainder of a >= 0 by d >= 0, `mantissa` bits of the quotient at a step."""
    b = Builder(module)
    start, d = Value(b, ty, "%a"), Value(b, ty, "%d")
    t = _format(d)
    b.br("loop")
    b.place("loop")
    b.do(f"%r = phi {ty} [ %a, %entry ], [ %next, %more ]")
    r = Value(b, ty, "%r")
    active = absolute(r) >= d
    finite = start < INF
    mask = b.binary("and", active.ty, active.name, finite.name)
    nonzero = d > 0.0
    active = Value(b, active.ty, b.binary("and", active.ty, mask, nonzero.name))
    b.cond_br(b.any_of(active.ty, active.name), "more", "done")
    b.place("more")
    # A power of two times d where the quotient overflows, twice if need be.
    factor = 2.0**80 if t.scalar == "float" else 2.0**600
    multiple = d
    for _ in range(2):
        overflows = absolute(r / multiple).equals(INF)
        multiple = select(overflows, multiple * factor, multiple)
    # An integer even where it is rounded; the product has no more bits than fit, so r is exact.
    q = _intrinsic("trunc", r / multiple)
    stepped = select(active, fma(q, -multiple, r), r)
    b.do(f"%next = select {like(ty, 'i1')} {active.name}, {ty} {stepped.name}, {ty} {r.name}")
    b.br("loop")
    b.place("done")
    y = select(r < 0.0, r + d, r)
    y = select(start < INF, y, math.nan)
    y = select(d > 0.0, y, math.nan)
    b.do(f"ret {ty} {y.name}")
    b.function(helper, ty, [(ty, "a"), (ty, "d")], "noinline cold nounwind", "internal")


def _nextafter(b: Builder, ty: str, x: str, y: str) -> str:
    """Of half and bfloat too: the step is one of their own bits."""
    ints = like(ty, f"i{bits_of(ty)}")
    sign = 1 << (bits_of(ty) - 1)
    x_bits, y_bits = (Value(b, ints, b.cast("bitcast", v, ty, ints)) for v in (x, y))
    wide = like(ty, "float") if bits_of(ty) == 16 else ty
    u, v = (Value(b, wide, b.widen(ty, w) if wide != ty else w) for w in (x, y))
    upward = u < v
    outward = Value(b, upward.ty, b.icmp("eq", upward.ty, upward.name, (x_bits >= 0).name))
    stepped = x_bits + select(outward, 1, -1, element(ints))
    stepped = select((x_bits & (sign - 1)).equals(0), (y_bits & sign) | 1, stepped)
    stepped = select(u.equals(v), y_bits, stepped)
    stepped = select(v.equals(v), stepped, y_bits)
    stepped = select(u.equals(u), stepped, x_bits)
    return b.cast("bitcast", stepped.name, ints, ty)


# -- error functions -------------------------------------------------------------------------------

# erf(x) / x - 1 in z = x^2 up to 1.
_ERF = (  # errors 1.2e-9, 7.1e-18
    (0.12837917, -0.37612626, 0.112836, -0.026854442, 0.005189532, -0.0008020823, 7.8890924e-05),
    (0.12837916709551256, -0.3761263890318355, 0.11283791670945245, -0.02686617064327517,
     0.0052239776074166485, -0.0008548325989437867, 0.00012055295314418453,
     -1.492474457328572e-05, 1.6447516844170422e-06, -1.620917133470938e-07,
     1.3722963175749655e-08, -7.801175253693863e-10),
)  # fmt: skip
# log(erfc(1 + u)) where erf is not yet 1, weighted by erfc.
_ERF_TAIL = (  # errors 1.0e-9, 6.6e-18
    (-1.8496056, -2.6389668, -0.84311837, -0.041500624, 0.009890792, -0.0018260852, 0.00018555099),
    (-1.8496055099332482, -2.6389675142347757, -0.8431072563594145, -0.04156109802504508,
     0.010033825178783321, -0.0019779012138347323, 0.00023731642731520213, 2.6296346371801453e-05,
     -2.7199008903437908e-05, 9.671426194143819e-06, -2.1319890628465815e-06,
     2.04848227454281e-07, 5.799199818733814e-08, -3.338363064948794e-08, 8.516694494218298e-09,
     -1.3187281278909717e-09, 1.1928574278066002e-10, -4.8630923553832686e-12),
)  # fmt: skip
# exp(x^2) erfc(x) (1 + 2 x) in (x - 2) / (x + 2), for x from 1/2 on.
_ERFC = (  # errors 5.4e-9, 1.2e-18
    (1.2769783849975729, -0.09276376, -0.16603082, 0.16404858, -0.05421128, -0.008003897,
     0.008659534, 0.0011396414, -0.001266429, -0.00021689649),
    (1.2769783815525286, -0.09276382658574604, -0.1660303976152888, 0.16405128003344774,
     -0.05422000099209458, -0.008034015082733081, 0.008722653877915707, 0.0012713389732961454,
     -0.0014568139915040257, -0.0004543409201815668, 0.00020636774715416186,
     0.00015103973101680303, -1.5139363642141805e-06, -3.642459990078361e-05,
     -1.3472659423553428e-05, 3.7057229414662227e-06, 5.15994952523328e-06,
     1.5480039010502425e-06, -5.73579125120007e-07, -9.688149965652576e-07,
     -3.816665313980002e-07, 3.376747184452347e-07, 1.862426996502358e-07,
     -1.0197064868665768e-07),
)  # fmt: skip
# What the first of these loses as a double.
_ERFC_LOW = (0.0, 8.8589974048303e-17)
# erf_inv(x) / x - 1 in w = -log(1 - x^2) up to the bound; beyond erf_inv(x) / x - 2 in
# (s - c) / (s + 1), s = sqrt(w), c the centre.
_ERF_INV_BOUND = (5.0, 6.25)
_ERF_INV_CENTRE = (3.0, 4.0)
_ERF_INV = (  # errors 9.0e-9, 3.8e-18
    (0.1273744, 0.24783291, 0.0042506303, -0.0023764828, 0.00010032265, 3.8241888e-05,
     -4.431573e-06, -5.10679e-07, 1.391597e-07, -8.59075e-09),
    (0.37721521151481846, 0.24976806887075081, -0.0019681435417812517, -0.0016921483697709854,
     0.00021593778927860312, 7.581550375252656e-06, -4.874470697673962e-06,
     3.1694288517542594e-07, 6.906214720207054e-08, -1.2896044743534123e-08,
     -2.563271661899161e-10, 2.939170190272439e-10, -2.1235700681325934e-11,
     -4.329253113193409e-12, 8.457829468952635e-13, 1.6421549954902213e-14,
     -1.974495456255008e-14, 1.4632629386856855e-15, 2.89986994827538e-16, -6.079745575785554e-17,
     5.325455137556649e-19, 1.1636267267173015e-18, -1.772975276340997e-19, 1.187443459044953e-20,
     -3.211760858973027e-22),
)  # fmt: skip
_ERF_INV_TAIL = (  # errors 6.8e-9, 5.7e-18
    (0.8329768, 4.0067015, 4.157833, 3.8196561, 4.447206, 3.8629274, 2.3281355, 5.6848326,
     8.693717, 0.9222763),
    (1.8397837974115536, 5.047466266227119, 5.078962447904312, 5.001834653936341,
     5.016679786948082, 4.955767279042204, 5.152960173895579, 4.770731052659861,
     4.878058504284182, 6.229999464569255, 3.7985550060769198, 1.3421516178298836,
     12.27788795126653, 15.208800587297718, -23.67803218999135, -29.55363609878149,
     98.77058584087709, 146.16983617287661, -243.34672223465924, -564.5791191432538,
     414.17937991896736, 1881.3770365614112, 281.9386034603834, -4100.72243718273,
     -3751.551380475918, 3535.7644852423496, 7455.885913279151, 3456.312019769124),
)  # fmt: skip


def _erf_near(x: Value) -> Value:
    return fma(x, _polynomial(x * x, _ERF[_format(x).pick]), x)


def _erf(x: Value) -> Value:
    t = _format(x)
    a = absolute(x)
    limit = (4.0, 6.0)[t.pick]
    u = select(a > limit, limit, a) - 1.0
    n, r = _reduce_exp(_polynomial(u, _ERF_TAIL[t.pick]))
    scale = (n + t.one).as_float()
    tail = copysign(1.0 - fma(scale, _exp_minus_one(r), scale), x)
    return select(a < 1.0, _erf_near(x), tail)


def _erfc(x: Value) -> Value:
    t = _format(x)
    limit = (10.2, 27.4)[t.pick]
    a = absolute(x)
    a = select(a > limit, limit, a)
    square = a * a
    n, high, multiple, low_ln2 = _reduce_exp_exactly(-square)
    low = fma(multiple, -low_ln2, -fma(a, a, -square))
    r = high + low
    p = high + fma(r * r, _polynomial(r, _EXP[t.pick]), low)  # exp(r) - 1
    # exp(-x^2) q / (1 + 2 x): the quotient with what the rounding of each of its parts lost.
    first, *others = _ERFC[t.pick]
    first, first_low = t.split((first, _ERFC_LOW[t.pick]))
    v = (a - 2.0) / (a + 2.0)
    v = fma(v, _polynomial(v, others), first_low)
    q = v + first
    q_low = v - (q - first)
    d = fma(a, 2.0, 1.0)
    d_low = 1.0 - fma(a, -2.0, d)
    inverse = 1.0 / d
    quotient = q * inverse
    rest = (fma(quotient, -d_low, fma(quotient, -d, q)) + q_low) * inverse
    p = quotient + fma(p, quotient, rest)
    floor = _intrinsic("smax", n, -(t.bias - 27) << t.mantissa)
    tail = p * (floor + t.one).as_float() * (n - floor + t.one).as_float()
    tail = select(x < 0.0, 2.0 - tail, tail)
    y = select(absolute(x) < 0.75, 1.0 - _erf_near(x), tail)
    return select(x.equals(x), y, x)


def _erf_inv(x: Value) -> Value:
    t, b = _format(x), x.b
    u = fma(x, -x, 1.0)
    e, m = _exponent(u)
    f = m - 1.0
    w = -_log_of("log", e, f, _log_remainder(f))
    bound = _ERF_INV_BOUND[t.pick]
    p = _polynomial(w - (1.0, 2.0)[t.pick], _ERF_INV[t.pick])
    far = w > bound
    any_far = b.any_of(far.ty, far.name)
    slow, join, before = b.label("tail"), b.label("near"), b.block
    b.cond_br(any_far, slow, join)
    b.place(slow)
    root = sqrt(w)
    v = (root - _ERF_INV_CENTRE[t.pick]) / (root + 1.0)
    tail = _polynomial(v, _ERF_INV_TAIL[t.pick]) + 1.0
    both = select(far, tail, p)
    b.br(join)
    b.place(join)
    p = Value(b, x.ty, b.phi(x.ty, (p.name, before), (both.name, slow)))
    a = absolute(x)
    y = select(a.equals(1.0), x * INF, fma(x, p, x))
    return select(a > 1.0, math.nan, copysign(y, x))


# -- gamma functions -------------------------------------------------------------------------------

# Of double; float is computed in double. Of lgamma(x) / ((x - 1) (x - 2)) in x - 3/2, x from 0.8 to
# 2.2, and of (lgamma(x) - (x - 1/2) log x + x - log(2 pi) / 2) x in 1 / x^2, x from 8 on.
_LGAMMA = (  # error 2.0e-17
    0.4831289505409809, -0.1459598959143062, 0.06291140107456093, -0.03130848750098586,
    0.016797098631640257, -0.009425622450180188, 0.005446457824427014, -0.003212074022872721,
    0.0019229166032302585, -0.0011644154477292508, 0.0007115159403011949, -0.0004379842320453378,
    0.0002713322069223989, -0.0001689748059290395, 0.00010530344913950638,
    -6.590783457417704e-05, 4.30393834075407e-05, -2.7811983824842328e-05,
    1.3356565394034687e-05, -7.251771635992665e-06, 1.270721854875708e-05, -9.68796250272382e-06,
    -3.6995707359362593e-06, 3.5425300115640597e-06, 4.7678016091501295e-06,
    -3.445155258351983e-06,
)  # fmt: skip
_LGAMMA_TAIL = (  # error 5.8e-19
    0.08333333333333333, -0.0027777777777740964, 0.0007936507898336323, -0.0005952366067628156,
    0.0008414728390309973, -0.001890539945411422, 0.005069258796964341,
)  # fmt: skip
# Of digamma(x) / (x - root) in x - 1.625, x from 1 to 2.25, and of
# (digamma(x) - log x + 1 / (2 x)) x^2 in 1 / x^2, x from 8 on.
_DIGAMMA = (  # error 3.2e-18
    0.9015925158282158, -0.36977496445741076, 0.19272012460146148, -0.10919698588599218,
    0.06426251743371243, -0.038557826793605525, 0.023380439929873643, -0.014262521427043437,
    0.008730867881134818, -0.00535572905994713, 0.0032894273933532577, -0.002021877705097209,
    0.001243340132757078, -0.0007645884561930617, 0.00047027917497992187,
    -0.00029046485685563266, 0.00017915920012584195, -0.00010604938805666787,
    6.41059832419958e-05, -5.00215977420163e-05, 3.273874581425913e-05, -3.102250091135352e-06,
    7.577476799953953e-10, -1.5894102420675264e-05, 1.0595199080651308e-05,
)  # fmt: skip
_DIGAMMA_TAIL = (  # error 8.3e-18
    -0.08333333333333333, 0.008333333333280383, -0.00396825391326446, 0.004166645182050577,
    -0.007571734022547601, 0.02070051737628259, -0.06367554993101,
)  # fmt: skip
_DIGAMMA_ROOT = (1.4616321449683622, 9.549995429965697e-17)


def _in_double(function: Callable[[Value], Value]) -> Callable[[Value], Value]:
    def wrapped(x: Value) -> Value:
        if element(x.ty) == "double":
            return function(x)
        return function(x.convert("fpext", "double")).convert("fptrunc", "float")

    return wrapped


def _sin_cos_pi(x: Value) -> tuple[Value, Value]:
    """sin(pi r) and cos(pi r) for r = x less the nearest integer."""
    r = x - _intrinsic("rint", x)
    a = absolute(r)
    outer = a > 0.25
    u = select(outer, 0.5 - a, a) * math.pi
    z = u * u
    sin = fma(u * z, _polynomial(z, _SIN[1]), u)
    cos = fma(z, fma(z, _polynomial(z, _COS[1]), -0.5), 1.0)
    return copysign(select(outer, cos, sin), r), select(outer, sin, cos)


def _if_any(mask: Value, y: Value, otherwise: Callable[[Value], Value]) -> Value:
    """y, or where the mask is set otherwise(y), which costs nothing where no element has it set."""
    b = y.b
    slow, join, before = b.label("some"), b.label("none"), b.block
    b.cond_br(b.any_of(mask.ty, mask.name), slow, join)
    b.place(slow)
    other = select(mask, otherwise(y), y)
    last = b.block
    b.br(join)
    b.place(join)
    return Value(b, y.ty, b.phi(y.ty, (y.name, before), (other.name, last)))


def _lgamma(x: Value) -> Value:
    """For x < 0 the error is one relative to the terms of the reflection, which may cancel."""
    log = _log_any("log")
    a = absolute(x)
    # gamma(a) = (a - 1) ... (a - n) gamma(a - n), a - n in [1.2, 2.2]; gamma(a + 1) = a gamma(a).
    below, above = a < 0.8, a >= 8.0
    r, product = select(below, a + 1.0, a), select(below, a, 1.0)
    for _ in range(6):
        more = r > 2.2
        r = select(more, r - 1.0, r)
        product = select(more, product * r, product)
    near = (r - 1.0) * (r - 2.0) * _polynomial(r - 1.5, _LGAMMA)
    t = log(select(above, a, product))
    z = 1.0 / a
    # 0.4189... is (log(2 pi) - 1) / 2.
    rest = fma(z, _polynomial(z * z, _LGAMMA_TAIL), 0.4189385332046727)
    y = select(above, fma(a - 0.5, t - 1.0, rest), near + select(below, -t, t))

    def reflected(y: Value) -> Value:
        sin, _ = _sin_cos_pi(a)
        return select(sin.equals(0.0), INF, log(math.pi / (a * absolute(sin))) - y)

    y = _if_any(x < -(2.0**-60), y, reflected)
    return select(a.equals(INF), INF, y)


def _digamma(x: Value) -> Value:
    """For x < 0 the error is one relative to the terms of the reflection, which may cancel."""
    a = select(x < 0.0, -x, x)
    # digamma(a) = digamma(a - n) + 1 / (a - 1) + ... + 1 / (a - n), a - n in [1.25, 2.25].
    below, above = a < 1.0, a >= 8.0
    r = select(below, a + 1.0, a)
    numerator, denominator = select(below, -1.0, 0.0, "double"), select(below, a, 1.0)
    for _ in range(6):
        more = r > 2.25
        r = select(more, r - 1.0, r)
        numerator = select(more, fma(numerator, r, denominator), numerator)
        denominator = select(more, denominator * r, denominator)
    root, root_low = _DIGAMMA_ROOT
    near = ((r - root) - root_low) * _polynomial(r - 1.625, _DIGAMMA)
    quotient = select(above, -0.5, numerator) / select(above, a, denominator)
    inverse = quotient * -2.0  # 1 / a where above
    square = inverse * inverse
    far = fma(square, _polynomial(square, _DIGAMMA_TAIL), quotient)
    y = select(above, _log_any("log")(a) + far, near + quotient)

    def reflected(y: Value) -> Value:
        sin, cos = _sin_cos_pi(x)
        pole = select(sin.equals(0.0), math.nan, cos / sin)
        return select(below, near, y - 1.0 / x) - pole * math.pi

    return _if_any(x < 0.0, y, reflected)


# -- the table -------------------------------------------------------------------------------------

_EMITTERS: dict[str, tuple[int, Callable[..., Value]]] = {
    "exp": (1, _exp),
    "exp2": (1, _exp2),
    "expm1": (1, _expm1),
    "log": (1, _log_any("log")),
    "log2": (1, _log_any("log2")),
    "log10": (1, _log_any("log10")),
    "log1p": (1, _log1p),
    "tanh": (1, _tanh),
    "logistic": (1, _logistic),
    "sinh": (1, _sinh),
    "cosh": (1, _cosh),
    "sin": (1, _sin),
    "cos": (1, _cos),
    "tan": (1, _tan),
    "asin": (1, _asin),
    "acos": (1, _acos),
    "atan": (1, _atan),
    "atan2": (2, _atan2),
    "asinh": (1, _asinh),
    "acosh": (1, _acosh),
    "atanh": (1, _atanh),
    "erf": (1, _erf),
    "erfc": (1, _erfc),
    "erf_inv": (1, _erf_inv),
    "lgamma": (1, _in_double(_lgamma)),
    "digamma": (1, _in_double(_digamma)),
    "pow": (2, _pow),
    "cbrt": (1, _cbrt),
    "hypot": (2, _hypot),
    "logaddexp": (2, _logaddexp),
    "rem": (2, _rem),
    "rsqrt": (1, lambda x: 1.0 / sqrt(x)),
}

FUNCTIONS: dict[str, int] = {name: count for name, (count, _) in _EMITTERS.items()}
FUNCTIONS["nextafter"] = 2


def emit(b: Builder, name: str, scalar: str, width: int, *args: str) -> str:
    """The value of a function of mathematics, element by element.

    Args:
        b: where the instructions go. A function with a rare path begins a new block: after the
            call b.block need not be what it was.
        name: a key of FUNCTIONS.
        scalar: half, bfloat, float or double.
        width: elements; 1 is a scalar.
        args: FUNCTIONS[name] values of type vector(scalar, width).
    Returns:
        The name of a value of the same type.
    Raises:
        KeyError: no such function.
    """
    if len(args) != FUNCTIONS[name]:
        raise TypeError(f"{name}: need {FUNCTIONS[name]} arguments, got {len(args)}")
    ty = vector(scalar, width)
    if name == "nextafter":
        return _nextafter(b, ty, *args)
    _, function = _EMITTERS[name]
    if scalar in _FORMATS:
        return function(*(Value(b, ty, a) for a in args)).name
    wide = like(ty, "float")
    return b.narrow(ty, function(*(Value(b, wide, b.widen(ty, a)) for a in args)).name)
