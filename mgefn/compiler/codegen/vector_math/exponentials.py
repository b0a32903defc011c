"""Exponentials, and what is made of them: hyperbolic functions, the logistic function."""

from __future__ import annotations

from mgefn.compiler.codegen.vector_math.values import (
    INF,
    LN2,
    Value,
    absolute,
    copysign,
    fma,
    format_of,
    intrinsic,
    polynomial,
    select,
)

# (exp(r) - 1 - r) / r^2 on [-ln 2 / 2, ln 2 / 2]: errors 3.1e-9 and 3.4e-18, relative to exp(r).
EXP = (
    (0.5, 0.1666652, 0.041666202, 0.008368873, 0.0013950615),
    (0.5000000000000012, 0.166666666666667, 0.04166666666651561, 0.008333333333307392,
     0.0013888888946963095, 0.00019841269917184737, 2.480148999879494e-05, 2.7557216368277874e-06,
     2.763125950861739e-07, 2.5117861090028054e-08),
)  # fmt: skip

LN2_PARTS = (0.6931471805599453, 2.3190468138462996e-17)

# exp is 0 below the first, inf above the second.
_EXP_LOW = (-104.0, -746.0)
EXP_HIGH = (88.72283172607422, 709.782712893384)


def reduce_exp(x: Value) -> tuple[Value, Value]:
    """x = n ln 2 + r with |r| <= ln 2 / 2: (n in the place of the exponent's bits, r)."""
    n, high, multiple, low_ln2 = reduce_exp_exactly(x)
    return n, fma(multiple, -low_ln2, high)


def reduce_exp_exactly(x: Value) -> tuple[Value, Value, Value, float]:
    """The same, r as high - n low: (n's bits, high, n, low)."""
    t = format_of(x)
    high_ln2, low_ln2 = t.split(LN2_PARTS)
    shifted = fma(x, 1 / LN2, t.magic)
    n = shifted - t.magic
    high = fma(n, -high_ln2, x)  # exact: a multiple of the unit of x or ln 2, and small
    return shifted.bits() << t.mantissa, high, n, low_ln2


def exp_minus_one(r: Value) -> Value:
    square = r * r
    return fma(square, polynomial(r, EXP[format_of(r).pick]), r)


def times_power_of_two(p: Value, n: Value) -> Value:
    """p 2^n, rounded once, for p in [0.7, 1.5) and n (as from reduce_exp) down to where it is 0.

    Finite where the result is, though 2^n may not be. Garbage for nan.
    """
    t = format_of(p)
    floor = -(t.bias - 27) << t.mantissa
    high = intrinsic("smax", n, floor)
    low = (n - high + t.one).as_float()
    return (p.bits() + high).as_float() * low


def _at_least(x: Value, low: float) -> Value:
    return select(x < low, low, x)


def exp(x: Value) -> Value:
    t = format_of(x)
    n, r = reduce_exp(_at_least(x, _EXP_LOW[t.pick]))
    y = times_power_of_two(exp_minus_one(r) + 1.0, n)
    return select(x <= EXP_HIGH[t.pick], y, x + INF)


def exp_nonpositive(x: Value) -> Value:
    """exp(x) for x <= 0; garbage for nan."""
    n, r = reduce_exp(_at_least(x, _EXP_LOW[format_of(x).pick]))
    return times_power_of_two(exp_minus_one(r) + 1.0, n)


# (2^r - 1) / r on [-1/2, 1/2]: errors EXP2_ERRORS relative to 2^r.
_EXP2 = (  # errors 2.6e-9, 1.8e-17
    (0.69314724, 0.24022652, 0.055503108, 0.009617699, 0.0013406588, 0.0001559268),
    (0.6931471805599457, 0.24022650695910097, 0.055504108664790414, 0.009618129107607,
     0.001333355815343531, 0.00015403530441574525, 1.5252727389864272e-05, 1.3215442674624016e-06,
     1.0180645730242882e-07, 7.072570459564738e-09, 4.0783533927324096e-10),
)  # fmt: skip


def exp2(x: Value) -> Value:
    t = format_of(x)
    clamped = _at_least(x, -float(t.bias + t.mantissa + 2))
    shifted = clamped + t.magic
    r = clamped - (shifted - t.magic)
    p = fma(r, polynomial(r, _EXP2[t.pick]), 1.0)
    y = times_power_of_two(p, shifted.bits() << t.mantissa)
    return select(x < t.bias + 1.0, y, x + INF)


def expm1(x: Value) -> Value:
    t = format_of(x)
    n, r = reduce_exp(_at_least(x, -40.0))
    half_scale = (n + (t.one - (1 << t.mantissa))).as_float()  # 2^n may overflow, its half does not
    y = fma(half_scale, exp_minus_one(r), half_scale - 0.5)
    y = y + y
    y = select(x <= EXP_HIGH[t.pick], y, x + INF)
    return select(absolute(x) < 2.0 ** -(t.mantissa + 2), x, y)  # keeps -0 and subnormals


# (tanh(x) - x) / x^3 in z = x^2, up to 0.55^2, relative to x.
_TANH = (  # errors 9.9e-10, 1.9e-17
    (-0.3333332, 0.13332602, -0.05385391, 0.021077964, -0.006282755),
    (-0.33333333333332354, 0.13333333333173797, -0.053968253878387114, 0.021869486026282473,
     -0.00886319515460247, 0.003591724664935951, -0.001453240130321993, 0.0005792032890439493,
     -0.00021040623202236433, 5.109052113813852e-05),
)  # fmt: skip


def tanh(x: Value) -> Value:
    # 1 - 2 / (exp(2 |x|) + 1), which would cancel where a polynomial takes over.
    t = format_of(x)
    a = absolute(x)
    n, r = reduce_exp(select(a > 20.0, 20.0, a) * 2.0)
    scale = (n + t.one).as_float()
    y = 1.0 - 2.0 / (fma(scale, exp_minus_one(r), scale) + 1.0)
    z = a * a
    near = fma(a * z, polynomial(z, _TANH[t.pick]), a)
    return copysign(select(a < 0.55, near, y), x)


def logistic(x: Value) -> Value:
    # Of e = exp(-|x|), which does not overflow; e / (1 + e) = e - e (e / (1 + e)) spares the error
    # of the sum where e is small.
    e = exp_nonpositive(-absolute(x))
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
    t = format_of(x)
    limit = (t.bias + 2.5) * LN2  # beyond overflow of the result, below that of 2^n / 8
    a = absolute(x)
    n, high, multiple, low_ln2 = reduce_exp_exactly(select(a > limit, limit, a))
    low = multiple * -low_ln2
    r = high + low
    z = r * r
    cosh = z * polynomial(z, _COSH[t.pick])
    sinh = fma(r * z, polynomial(z, _SINH[t.pick]), low)
    eighth = t.one - (3 << t.mantissa)
    up = (n + eighth).as_float()
    down = (eighth - intrinsic("smin", n, 80 << t.mantissa)).as_float()
    return high, sinh, cosh, up, down


def sinh(x: Value) -> Value:
    t = format_of(x)
    high, sinh, cosh, up, down = _reduce_hyperbolic(x)
    total, difference = up + down, up - down
    y = fma(total, sinh, fma(difference, cosh, fma(total, high, difference))) * 4.0
    return select(absolute(x) < 2.0 ** -(t.mantissa // 2 + 2), x, copysign(y, x))


def cosh(x: Value) -> Value:
    high, sinh, cosh, up, down = _reduce_hyperbolic(x)
    sinh = high + sinh
    return fma(down, cosh - sinh + 1.0, fma(up, cosh + sinh, up)) * 4.0
