"""Trigonometric and hyperbolic functions; angles are in radians."""

from __future__ import annotations

import math
from typing import Any

from mgefn.core.array_methods import METHODS, Array, ArrayLike, method
from mgefn.errors import api_boundary, leave_api
from mgefn.ops.elementwise.arithmetic import multiply, rsqrt_p
from mgefn.ops.elementwise.choice import where
from mgefn.ops.elementwise.common import FLOAT, INEXACT, binary, elementwise, promoted, unary
from mgefn.ops.elementwise.complex_parts import imag, real

sin_p = elementwise("sin", INEXACT, lambda y, x: cos_p.bind1(x))

cos_p = elementwise("cos", INEXACT, lambda y, x: -sin_p.bind1(x))

tan_p = elementwise("tan", INEXACT, lambda y, x: 1 + y * y)

asin_p = elementwise(
    "asin", INEXACT, lambda y, x: rsqrt_p.bind1((1 - x) * (1 + x)), called="arcsin"
)

acos_p = elementwise(
    "acos", INEXACT, lambda y, x: -rsqrt_p.bind1((1 - x) * (1 + x)), called="arccos"
)

atan_p = elementwise("atan", INEXACT, lambda y, x: 1 / (1 + x * x), called="arctan")

atan2_p = elementwise(
    "atan2",
    FLOAT,
    lambda z, x, y: y / (x * x + y * y),
    lambda z, x, y: -(x / (x * x + y * y)),
    called="arctan2",
)

sinh_p = elementwise("sinh", INEXACT, lambda y, x: cosh_p.bind1(x))

cosh_p = elementwise("cosh", INEXACT, lambda y, x: sinh_p.bind1(x))

tanh_p = elementwise("tanh", INEXACT, lambda y, x: 1 - y * y)

asinh_p = elementwise("asinh", INEXACT, lambda y, x: rsqrt_p.bind1(x * x + 1), called="arcsinh")

acosh_p = elementwise(
    "acosh", INEXACT, lambda y, x: rsqrt_p.bind1(x - 1) * rsqrt_p.bind1(x + 1), called="arccosh"
)

atanh_p = elementwise("atanh", INEXACT, lambda y, x: 1 / ((1 - x) * (1 + x)), called="arctanh")


@method("sin")
def sin(x: ArrayLike) -> Array:
    """Sine of x in radians, elementwise."""
    try:
        return unary(sin_p, x, inexact=True)
    except BaseException as e:
        leave_api(e)
        raise


@method("cos")
def cos(x: ArrayLike) -> Array:
    """Cosine of x in radians, elementwise."""
    try:
        return unary(cos_p, x, inexact=True)
    except BaseException as e:
        leave_api(e)
        raise


@method("tan")
@api_boundary
def tan(x: ArrayLike) -> Array:
    """Tangent of x in radians, elementwise."""
    return unary(tan_p, x, inexact=True)


@method("arcsin")
@api_boundary
def arcsin(x: ArrayLike) -> Array:
    """Inverse sine in radians, in [-pi/2, pi/2], elementwise; NaN outside [-1, 1]."""
    return unary(asin_p, x, inexact=True)


@method("arccos")
@api_boundary
def arccos(x: ArrayLike) -> Array:
    """Inverse cosine in radians, in [0, pi], elementwise; NaN outside [-1, 1]."""
    return unary(acos_p, x, inexact=True)


@method("arctan")
@api_boundary
def arctan(x: ArrayLike) -> Array:
    """Inverse tangent in radians, in [-pi/2, pi/2], elementwise."""
    return unary(atan_p, x, inexact=True)


@method("arctan2")
@api_boundary
def arctan2(x: ArrayLike, y: ArrayLike) -> Array:
    """Angle in radians of the point (y, x) from the positive y axis, elementwise."""
    return binary(atan2_p, x, y, inexact=True)


@method("sinh")
@api_boundary
def sinh(x: ArrayLike) -> Array:
    """Hyperbolic sine, elementwise."""
    return unary(sinh_p, x, inexact=True)


@method("cosh")
@api_boundary
def cosh(x: ArrayLike) -> Array:
    """Hyperbolic cosine, elementwise."""
    return unary(cosh_p, x, inexact=True)


@method("tanh")
def tanh(x: ArrayLike) -> Array:
    """Hyperbolic tangent, elementwise."""
    try:
        return unary(tanh_p, x, inexact=True)
    except BaseException as e:
        leave_api(e)
        raise


@method("arcsinh")
@api_boundary
def arcsinh(x: ArrayLike) -> Array:
    """Inverse hyperbolic sine, elementwise."""
    return unary(asinh_p, x, inexact=True)


@method("arccosh")
@api_boundary
def arccosh(x: ArrayLike) -> Array:
    """Inverse hyperbolic cosine, elementwise; NaN below 1."""
    return unary(acosh_p, x, inexact=True)


@method("arctanh")
@api_boundary
def arctanh(x: ArrayLike) -> Array:
    """Inverse hyperbolic tangent, elementwise; NaN outside [-1, 1]."""
    return unary(atanh_p, x, inexact=True)


asin, acos, atan, atan2 = arcsin, arccos, arctan, arctan2

asinh, acosh, atanh = arcsinh, arccosh, arctanh


@method("hypot")
@api_boundary
def hypot(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """sqrt(x1**2 + x2**2), elementwise, safe from overflow. Derivative at (0, 0) is 0."""
    return binary(hypot_p, x1, x2, inexact=True)


hypot_p = elementwise(
    "hypot",
    FLOAT,
    lambda z, x, y: _hypot_slope(z, x),
    lambda z, x, y: _hypot_slope(z, y),
)


def _hypot_slope(z: Any, x: Any) -> Any:
    return where(z == 0, 0, x / where(z == 0, 1, z))


@api_boundary
def deg2rad(x: ArrayLike) -> Array:
    """Degrees to radians."""
    (a,) = promoted("deg2rad", (x,), inexact=True)
    return multiply(a, math.pi / 180)


@api_boundary
def rad2deg(x: ArrayLike) -> Array:
    """Radians to degrees."""
    (a,) = promoted("rad2deg", (x,), inexact=True)
    return multiply(a, 180 / math.pi)


radians, degrees = deg2rad, rad2deg

METHODS.update(deg2rad=deg2rad, radians=deg2rad, rad2deg=rad2deg, degrees=rad2deg)


@api_boundary
def angle(z: ArrayLike, deg: bool = False) -> Array:
    """Argument of a complex number in (-pi, pi], in radians or degrees."""
    (a,) = promoted("angle", (z,), inexact=True)
    result = arctan2(imag(a), real(a))
    return rad2deg(result) if deg else result
