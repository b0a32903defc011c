"""lgamma and digamma."""

from __future__ import annotations

import math
from collections.abc import Callable

from mgefn.compiler.codegen.builder import element
from mgefn.compiler.codegen.vector_math.circular import COS, SIN
from mgefn.compiler.codegen.vector_math.logarithms import log_any
from mgefn.compiler.codegen.vector_math.values import (
    INF,
    Value,
    absolute,
    copysign,
    fma,
    intrinsic,
    polynomial,
    select,
)

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


def in_double(function: Callable[[Value], Value]) -> Callable[[Value], Value]:
    def wrapped(x: Value) -> Value:
        if element(x.ty) == "double":
            return function(x)
        return function(x.convert("fpext", "double")).convert("fptrunc", "float")

    return wrapped


def _sin_cos_pi(x: Value) -> tuple[Value, Value]:
    """sin(pi r) and cos(pi r) for r = x less the nearest integer."""
    r = x - intrinsic("rint", x)
    a = absolute(r)
    outer = a > 0.25
    u = select(outer, 0.5 - a, a) * math.pi
    z = u * u
    sin = fma(u * z, polynomial(z, SIN[1]), u)
    cos = fma(z, fma(z, polynomial(z, COS[1]), -0.5), 1.0)
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


def lgamma(x: Value) -> Value:
    """For x < 0 the error is one relative to the terms of the reflection, which may cancel."""
    log = log_any("log")
    a = absolute(x)
    # gamma(a) = (a - 1) ... (a - n) gamma(a - n), a - n in [1.2, 2.2]; gamma(a + 1) = a gamma(a).
    below, above = a < 0.8, a >= 8.0
    r, product = select(below, a + 1.0, a), select(below, a, 1.0)
    for _ in range(6):
        more = r > 2.2
        r = select(more, r - 1.0, r)
        product = select(more, product * r, product)
    near = (r - 1.0) * (r - 2.0) * polynomial(r - 1.5, _LGAMMA)
    t = log(select(above, a, product))
    z = 1.0 / a
    # 0.4189... is (log(2 pi) - 1) / 2.
    rest = fma(z, polynomial(z * z, _LGAMMA_TAIL), 0.4189385332046727)
    y = select(above, fma(a - 0.5, t - 1.0, rest), near + select(below, -t, t))

    def reflected(y: Value) -> Value:
        sin, _ = _sin_cos_pi(a)
        return select(sin.equals(0.0), INF, log(math.pi / (a * absolute(sin))) - y)

    y = _if_any(x < -(2.0**-60), y, reflected)
    return select(a.equals(INF), INF, y)


def digamma(x: Value) -> Value:
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
    near = ((r - root) - root_low) * polynomial(r - 1.625, _DIGAMMA)
    quotient = select(above, -0.5, numerator) / select(above, a, denominator)
    inverse = quotient * -2.0  # 1 / a where above
    square = inverse * inverse
    far = fma(square, polynomial(square, _DIGAMMA_TAIL), quotient)
    y = select(above, log_any("log")(a) + far, near + quotient)

    def reflected(y: Value) -> Value:
        sin, cos = _sin_cos_pi(x)
        pole = select(sin.equals(0.0), math.nan, cos / sin)
        return select(below, near, y - 1.0 / x) - pole * math.pi

    return _if_any(x < 0.0, y, reflected)
