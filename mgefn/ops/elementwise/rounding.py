"""Sign, absolute value, rounding to integers, and the classes of floats."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.core.array import as_array, scalar
from mgefn.core.array_methods import Array, ArrayLike, method
from mgefn.core.avals import ShapedArray, Zero
from mgefn.core.device_array import beside
from mgefn.core.primitive import Primitive
from mgefn.errors import api_boundary, leave_api
from mgefn.ops.elementwise.choice import where
from mgefn.ops.elementwise.common import (
    BOOL,
    FLOAT,
    INEXACT,
    NUMBER,
    binary,
    broadcasted,
    elementwise,
    mask,
    promoted,
    unary,
)
from mgefn.ops.elementwise.complex_parts import complex_p, conj, imag_p, real_p
from mgefn.ops.elementwise.scale import scale
from mgefn.ops.shaping import full_like_aval


def _truncated(x: Any) -> Any:
    return where(x < 0, ceil_p.bind1(x), floor_p.bind1(x))


sign_p = elementwise("sign", NUMBER, constant=True)

floor_p = elementwise("floor", FLOAT, constant=True)

ceil_p = elementwise("ceil", FLOAT, constant=True)

round_p = elementwise("round", FLOAT, constant=True)  # params: rounding_method, 0 or 1

is_finite_p = elementwise("is_finite", INEXACT, result="bool", constant=True, called="isfinite")

abs_p = elementwise("abs", NUMBER, result="real")

# x, and where x is a zero the zero with the sign of y; the derivative is that of x everywhere
zero_sign_p = elementwise("zero_sign", FLOAT, 1, 0)
copysign_p = elementwise("copysign", FLOAT, lambda z, x, y: _copysign_slope(z, x), 0)

AWAY_FROM_ZERO, TO_NEAREST_EVEN = 0, 1  # rounding_method


def _copysign_slope(z: Any, x: Any) -> Any:
    return where(x == 0, 0, sign_p.bind1(x) * sign_p.bind1(z))


@abs_p.def_jvp
def _abs_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    y = abs_p.bind1(x)
    if t.__class__ is Zero:
        return (y,), (Zero(y.aval),)
    if dtypes.is_complex(x.dtype):
        # x / |x|, and 0 at 0. Not sign(x), which is declared constant: this turns with x.
        # Part by part: the quotient of complex numbers overflows where y is subnormal.
        size = where(y == 0, 1, y)
        unit = complex_p.bind1(real_p.bind1(x) / size, imag_p.bind1(x) / size)
        return (y,), (real_p.bind1(scale(t, conj(unit))),)
    return (y,), (scale(t, sign_p.bind1(x)),)


@method("abs")
def abs(x: ArrayLike) -> Array:
    """Absolute value, elementwise; of a complex number its modulus. Derivative at 0 is 0."""
    try:
        if x.__class__ is bool or getattr(x, "dtype", None) == BOOL:
            return as_array(x, "abs")
        return unary(abs_p, x)
    except BaseException as e:
        leave_api(e)
        raise


absolute = abs


@method("fabs")
@api_boundary
def fabs(x: ArrayLike) -> Array:
    """Absolute value in floating point."""
    (a,) = promoted("fabs", (x,), inexact=True)
    return abs_p.bind1(a)


@method("sign")
@api_boundary
def sign(x: ArrayLike) -> Array:
    """-1, 0 or 1 by the sign of x; of a complex number x / |x|. It has no derivative."""
    y = unary(sign_p, x)
    if dtypes.is_complex(y.dtype):
        # The kernel is NumPy's: beside a NaN it takes an infinite part for the whole, so that
        # inf+nanj has the sign 1. Annex G of C has no such function, and the array API standard
        # wants NaNs of whatever has a NaN in it.
        (a,) = promoted("sign", (x,))
        return where(a != a, complex(math.nan, math.nan), y)
    return y


@method("floor")
@api_boundary
def floor(x: ArrayLike) -> Array:
    """The largest integer at most x, elementwise; integers stay as they are."""
    return _rounding(floor_p, x)


@method("ceil")
@api_boundary
def ceil(x: ArrayLike) -> Array:
    """The smallest integer at least x, elementwise; integers stay as they are."""
    return _rounding(ceil_p, x)


def _rounding(primitive: Primitive, x: Any, **params: Any) -> Any:
    (a,) = promoted(primitive.name, (x,))
    return a if not dtypes.is_inexact(a.dtype) else primitive.bind1(a, **params)


@method("trunc")
@api_boundary
def trunc(x: ArrayLike) -> Array:
    """x without its fraction, elementwise."""
    (a,) = promoted("trunc", (x,))
    return _truncated(a) if dtypes.is_inexact(a.dtype) else a


fix = trunc


@method("rint")
@api_boundary
def rint(x: ArrayLike) -> Array:
    """The nearest integer, halves to the even one, elementwise."""
    (a,) = promoted("rint", (x,), inexact=True)
    if dtypes.is_complex(a.dtype):
        return complex_p.bind1(rint(real_p.bind1(a)), rint(imag_p.bind1(a)))
    return round_p.bind1(a, rounding_method=TO_NEAREST_EVEN)


@method("round")
@api_boundary
def round(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    """Round to `decimals` places, halves to even, as numpy.round does.

    More places than the dtype holds leave x as it is; negative places round before the point.
    """
    x = as_array(a, "round")
    if dtypes.is_complex(x.dtype):
        return complex_p.bind1(round(x.real, decimals), round(x.imag, decimals))
    if not dtypes.is_inexact(x.dtype):
        if decimals >= 0:
            return x
        step = 10**-decimals
        if step > np.iinfo(x.dtype).max:
            return full_like_aval(0, x.aval)
        half = x // step
        rest = x - half * step
        up = (rest * 2 > step) | ((rest * 2 == step) & ((half & 1) == 1))
        return (half + up.astype(x.dtype)) * step
    if decimals == 0:
        return round_p.bind1(x, rounding_method=TO_NEAREST_EVEN)
    limit = {2: 5, 4: 39, 8: 309}.get(x.dtype.itemsize, 5)
    if builtins_abs(decimals) >= limit:
        return x if decimals > 0 else full_like_aval(0, x.aval)
    factor = 10.0**decimals if decimals > 0 else 10.0**-decimals
    if decimals > 0:
        moved = x * factor
        back = round_p.bind1(moved, rounding_method=TO_NEAREST_EVEN) / factor
        return where(abs(moved) < np.inf, back, x)
    return round_p.bind1(x / factor, rounding_method=TO_NEAREST_EVEN) * factor


def builtins_abs(n: int) -> int:
    return n if n >= 0 else -n


around = round


@method("isfinite")
@api_boundary
def isfinite(x: ArrayLike) -> Array:
    """Is x neither infinite nor NaN? Elementwise."""
    (a,) = promoted("isfinite", (x,))
    if not dtypes.is_inexact(a.dtype):
        return beside(full_like_aval(True, ShapedArray(a.shape, BOOL)), a)
    return is_finite_p.bind1(a)


@method("isnan")
@api_boundary
def isnan(x: ArrayLike) -> Array:
    """Is x not a number? Elementwise."""
    (a,) = promoted("isnan", (x,))
    return a != a


@method("isinf")
@api_boundary
def isinf(x: ArrayLike) -> Array:
    """Is x infinite? Elementwise; a complex number is when one of its parts is."""
    (a,) = promoted("isinf", (x,))
    if dtypes.is_complex(a.dtype):
        return isinf(real_p.bind1(a)) | isinf(imag_p.bind1(a))
    if not dtypes.is_inexact(a.dtype):
        return full_like_aval(False, ShapedArray(a.shape, BOOL))
    return abs_p.bind1(a) == np.inf


@method("signbit")
@api_boundary
def signbit(x: ArrayLike) -> Array:
    """Is the sign bit set? Elementwise; true for -0.0."""
    (a,) = promoted("signbit", (x,))
    if dtypes.is_inexact(a.dtype):
        return copysign_p.bind1(scalar(1, a.dtype), a) < 0
    return a < 0 if dtypes.is_signed(a.dtype) else full_like_aval(False, a.aval.update(dtype=BOOL))


@method("copysign")
@api_boundary
def copysign(x: ArrayLike, y: ArrayLike) -> Array:
    """|x| with the sign of y, elementwise."""
    return binary(copysign_p, x, y, inexact=True)


@method("heaviside")
@api_boundary
def heaviside(x: ArrayLike, y: ArrayLike) -> Array:
    """0 below 0, y at 0, 1 above 0, elementwise."""
    a, b = broadcasted("heaviside", promoted("heaviside", (x, y), inexact=True))
    return where(isnan(a), a, where(a == 0, b, mask(a > 0, a)))
