"""Logarithms to the bases e, 2 and 10, and of 1 + x."""

from __future__ import annotations

import math
from collections.abc import Callable

from mgefn.compiler.codegen.builder import element
from mgefn.compiler.codegen.vector_math.exponentials import LN2_PARTS
from mgefn.compiler.codegen.vector_math.values import (
    INF,
    Format,
    Value,
    absolute,
    fma,
    format_of,
    polynomial,
    select,
)

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
    "log": (LN2_PARTS, (1.0, 0.0)),
    "log2": ((1.0, 0.0), (1.4426950408889634, 2.0355273740931033e-17)),
    "log10": (
        (0.3010299956639812, -2.8037281277851704e-18),
        (0.4342944819032518, 1.098319650216765e-17),
    ),
}


def log_remainder(f: Value) -> Value:
    """log(1 + f) - f for 1 + f in [sqrt(1/2), sqrt(2))."""
    if element(f.ty) == "float":
        z = f * f
        return z * fma(f, polynomial(f, _LOG_FLOAT), -0.5)
    s = f / (f + 2.0)
    z = s * s
    half_square = f * f * 0.5
    return fma(s, fma(z, polynomial(z, _LOG_DOUBLE), half_square), -half_square)


def split_exponent(x: Value, correction: Value | float = 0.0) -> tuple[Value, Value]:
    """(e, m) with x = m 2^e and m in [sqrt(1/2), sqrt(2)), for normal x > 0; e + correction."""
    t = format_of(x)
    u = x.bits() + (t.one - t.root_half)
    m = ((u & ((1 << t.mantissa) - 1)) + t.root_half).as_float()
    # The biased exponent as the last bits of a float, which is faster than a conversion.
    biased = ((u >> t.mantissa) | (t.one + (t.mantissa << t.mantissa))).as_float()
    zero = 2.0**t.mantissa + t.bias
    return biased - (zero - correction), m


def log_of(base: str, e: Value, f: Value, y: Value) -> Value:
    """The logarithm of 2^e (1 + f), given y = log(1 + f) - f."""
    t = format_of(f)
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
    high, low = rounded_split(t, of_two)
    whole = e * high
    total = whole + main
    rest = rest + fma(e, low, (whole - total) + main)
    return total + rest


def rounded_split(t: Format, value: tuple[float, float]) -> tuple[float, float]:
    """As Format.split, the first so short that its product with an exponent is exact."""
    unit = 2.0 ** (13 if t.scalar == "float" else 40)
    high = math.floor(value[0] * unit) / unit
    return high, (value[0] - high) + value[1]


def log_any(base: str) -> Callable[[Value], Value]:
    def log(x: Value) -> Value:
        t = format_of(x)
        small = x < t.least_normal
        shift = t.mantissa + 2.0
        scaled = select(small, x * 2.0**shift, x)
        zero = select(small, shift, 0.0, t.scalar)
        e, m = split_exponent(scaled)
        e = e - zero
        f = m - 1.0
        return _log_ends(x, log_of(base, e, f, log_remainder(f)), x)

    return log


def _log_ends(argument: Value, y: Value, x: Value) -> Value:
    """y where the argument of a logarithm is positive and finite, else what it is there."""
    y = select(argument < INF, y, x)  # inf and nan
    outside = select(argument.equals(0.0), -INF, math.nan, element(x.ty))
    return select(argument <= 0.0, outside, y)


def log1p(x: Value) -> Value:
    t = format_of(x)
    u = x + 1.0
    e, f, _ = log1p_reduced(x, u)
    y = _log_ends(u, log_of("log", e, f, log_remainder(f)), x)
    return select(absolute(x) < 2.0 ** -(t.mantissa + 2), x, y)  # keeps -0 and subnormals


def log1p_reduced(x: Value, u: Value) -> tuple[Value, Value, Value]:
    """(e, f, 4 2^-e) with 1 + x = 2^e (1 + f), given u = 1 + x rounded."""
    t = format_of(x)
    biased = (u.bits() + (t.one - t.root_half)) >> t.mantissa
    e = (biased | (t.one + (t.mantissa << t.mantissa))).as_float() - (2.0**t.mantissa + t.bias)
    # f = x 2^-e + (2^-e - 1), rounded once; by 4 2^-e, which does not underflow.
    scale = ((2 * t.bias + 2 << t.mantissa) - (biased << t.mantissa)).as_float()
    return e, fma(x * 0.25, scale, fma(scale, 0.25, -1.0)), scale
