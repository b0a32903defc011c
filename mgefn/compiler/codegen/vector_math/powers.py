"""Powers, roots, logaddexp, remainders and the next number."""

from __future__ import annotations

import math

from mgefn.compiler.codegen.builder import Builder, Module, bits_of, element, like, width_of
from mgefn.compiler.codegen.vector_math.exponentials import (
    EXP_HIGH,
    LN2_PARTS,
    exp_minus_one,
    exp_nonpositive,
    reduce_exp,
    times_power_of_two,
)
from mgefn.compiler.codegen.vector_math.logarithms import (
    log1p_reduced,
    log_of,
    log_remainder,
    rounded_split,
    split_exponent,
)
from mgefn.compiler.codegen.vector_math.values import (
    FORMATS,
    INF,
    LN2,
    Value,
    absolute,
    constant,
    copysign,
    fma,
    format_of,
    intrinsic,
    polynomial,
    select,
    sqrt,
)


def cbrt(x: Value) -> Value:
    t = format_of(x)
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


def hypot(x: Value, y: Value) -> Value:
    t = format_of(x)
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


def power(x: Value, y: Value) -> Value:
    t = format_of(x)
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
    whole = y.equals(intrinsic("rint", y))
    odd = either("and", whole, half.differs(intrinsic("rint", half)))
    flip = x.bits() & select(odd, t.sign, 0, element(x.bits().ty))
    power = (power.bits() ^ flip).as_float()
    bad = either("and", either("and", x < 0.0, a < INF), y.differs(intrinsic("rint", y)))
    unordered = Value(b, bad.ty, b.fcmp("uno", x.ty, x.name, y.name))
    power = select(either("or", bad, unordered), math.nan, power)
    return select(either("or", y.equals(0.0), x.equals(1.0)), 1.0, power)


def _pow_float(a: Value, y: Value) -> Value:
    """a^y for finite a > 0, in double: overflow and subnormal results by the last rounding."""
    e, m = split_exponent(a.convert("fpext", "double"))
    f = m - 1.0
    log = fma(f * f, polynomial(f, _POW_LOG), f)
    log2 = fma(log, 1 / LN2, e)
    power = y.convert("fpext", "double") * log2
    power = select(power > 200.0, 200.0, select(power < -200.0, -200.0, power))
    t = FORMATS["double"]
    shifted = power + t.magic
    r = power - (shifted - t.magic)
    p = fma(r, polynomial(r, _POW_EXP2), 1.0)
    scale = ((shifted.bits() << t.mantissa) + t.one).as_float()
    return (p * scale).convert("fptrunc", "float")


def _pow_double(a: Value, y: Value) -> Value:
    """a^y for finite a > 0, by the logarithm as a sum of two."""
    t = FORMATS["double"]
    small = a < t.least_normal
    e, m = split_exponent(select(small, a * 2.0**54, a))
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
    zq = z * polynomial(z, _POW_LOG_DOUBLE)
    c = zq + 2 / 3
    c_low = (zq - (c - 2 / 3)) + 3.700743415417188e-17  # what the double 2/3 lacks
    cube = z * c
    cube_low = fma(z_low, c, fma(z, c_low, fma(z, c, -cube)))
    term = s * cube
    term_low = fma(s_low, cube, fma(s, cube_low, fma(s, cube, -term)))
    high, low = rounded_split(t, LN2_PARTS)
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
    n, r = reduce_exp(clamped)
    scaled = times_power_of_two(exp_minus_one(r + power_low) + 1.0, n)
    return select(clamped + power_low > EXP_HIGH[1], INF, scaled)


def logaddexp(x: Value, y: Value) -> Value:
    # The error is that of the greater argument where the logarithm cancels it.
    t = format_of(x)
    e = exp_nonpositive(-absolute(x - y))
    exponent, f, _ = log1p_reduced(e, e + 1.0)
    log = log_of("log", exponent, f, log_remainder(f))
    log = select(e < 2.0 ** -(t.mantissa + 2), e, log)
    out = select(x > y, x, y) + log
    out = select(x.equals(y), x + LN2, out)
    unordered = Value(x.b, like(x.ty, "i1"), x.b.fcmp("uno", x.ty, x.name, y.name))
    return select(unordered, x + y, out)


def rem(x: Value, y: Value) -> Value:
    t, b = format_of(x), x.b
    a, d = absolute(x), absolute(y)
    q = a / d
    far = q >= 2.0**t.mantissa
    # The quotient may be rounded up to an integer: the remainder is then negative, and exact.
    r = fma(intrinsic("trunc", q), -d, a)
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
    t = format_of(d)
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
    q = intrinsic("trunc", r / multiple)
    stepped = select(active, fma(q, -multiple, r), r)
    b.do(f"%next = select {like(ty, 'i1')} {active.name}, {ty} {stepped.name}, {ty} {r.name}")
    b.br("loop")
    b.place("done")
    y = select(r < 0.0, r + d, r)
    y = select(start < INF, y, math.nan)
    y = select(d > 0.0, y, math.nan)
    b.do(f"ret {ty} {y.name}")
    b.function(helper, ty, [(ty, "a"), (ty, "d")], "noinline cold nounwind", "internal")


def nextafter(b: Builder, ty: str, x: str, y: str) -> str:
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
