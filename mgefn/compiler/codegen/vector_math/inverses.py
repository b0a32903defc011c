"""Inverse circular and hyperbolic functions."""

from __future__ import annotations

import math

from mgefn.compiler.codegen.builder import element
from mgefn.compiler.codegen.vector_math.circular import half_pi
from mgefn.compiler.codegen.vector_math.logarithms import log1p_reduced, log_of, log_remainder
from mgefn.compiler.codegen.vector_math.values import (
    INF,
    Value,
    absolute,
    constant,
    copysign,
    fma,
    format_of,
    polynomial,
    select,
    sqrt,
)

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
    return large, s, s * z * polynomial(z, _ASIN[format_of(x).pick])


def asin(x: Value) -> Value:
    large, s, c = _asin_parts(x)
    high, low, _ = half_pi(format_of(x))
    y = fma(s, -2.0, high)
    lost = fma(s, -2.0, high - y)
    y = y + (lost + fma(c, -2.0, low))
    return copysign(select(large, y, s + c), x)


def acos(x: Value) -> Value:
    large, s, c = _asin_parts(x)
    high, low, _ = half_pi(format_of(x))
    # 2 (s + c) near 1, pi - 2 (s + c) near -1, pi / 2 -+ (s + c) between.
    positive = x > 0.0
    two_or_one = select(large, 2.0, -1.0, element(x.ty))
    factor = select(positive, two_or_one, -two_or_one)
    base = select(large, select(positive, constant(x, 0.0), 2 * high), high)
    base_low = select(large, select(positive, constant(x, 0.0), 2 * low), low)
    return fma(factor, s, base) + fma(factor, c, base_low)


def atan(x: Value) -> Value:
    a = absolute(x)
    large = a > 1.0
    q = select(large, -1.0, a) / select(large, a, 1.0)
    z = q * q
    c = q * z * polynomial(z, _ATAN[format_of(x).pick])
    high, low, _ = half_pi(format_of(x))
    y = select(large, constant(x, high), 0.0) + (q + (c + select(large, constant(x, low), 0.0)))
    return copysign(y, x)


def atan2(y: Value, x: Value) -> Value:
    t = format_of(x)
    ax, ay = absolute(x), absolute(y)
    steep = ay > ax
    q = select(steep, ax, ay) / select(steep, ay, ax)
    # 0 / 0 is 0 here, inf / inf is 1.
    q = select(ay.equals(0.0), ay, q)
    q = select(ay.equals(INF), select(ax.equals(INF), 1.0, constant(x, 0.0)), q)
    z = q * q
    c = q * z * polynomial(z, _ATAN[t.pick])
    high, low, _ = half_pi(t)
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
    e, f, scale = log1p_reduced(a, a + 1.0)
    # Part of low / (1 + a): a low of half a unit at most need not be exact.
    y = fma(low * 0.25, scale, log_remainder(f))
    e = e + select(large, 1.0, 0.0, element(x.ty))
    return log_of("log", e, f, y)


def asinh(x: Value) -> Value:
    t = format_of(x)
    a = absolute(x)
    large = a > 2.0 ** (t.mantissa + 2)
    square = a * a
    second = square / (sqrt(square + 1.0) + 1.0)  # sqrt(a^2 + 1) - 1
    total = a + second
    low = select(large, 0.0, (a - total) + second)
    y = _log1p_large(total, low, large, a)
    y = select(a < INF, y, a)
    return select(a < 2.0 ** -(t.mantissa // 2 + 2), x, copysign(y, x))


def acosh(x: Value) -> Value:
    t = format_of(x)
    large = x > 2.0 ** (t.mantissa + 2)
    above = x - 1.0
    root = sqrt(fma(above, above, above + above))
    total = above + root
    low = select(large, 0.0, (root - total) + above)
    y = _log1p_large(total, low, large, x)
    y = select(x < INF, y, x)
    return select(x < 1.0, math.nan, y)


def atanh(x: Value) -> Value:
    # log1p(2 a / (1 - a)) / 2
    t = format_of(x)
    a = absolute(x)
    d = 1.0 - a
    d_low = (1.0 - d) - a
    inverse = 1.0 / d
    twice = a + a
    q = twice * inverse
    low = fma(q, -d_low, fma(q, -d, twice)) * inverse
    e, f, scale = log1p_reduced(q, q + 1.0)
    y = log_of("log", e, f, fma(low * 0.25, scale, log_remainder(f))) * 0.5
    y = select(a < 1.0, y, select(a.equals(1.0), INF, math.nan, element(x.ty)))
    return select(a < 2.0 ** -(t.mantissa // 2 + 2), x, copysign(y, x))
