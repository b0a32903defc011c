"""Exponentials, logarithms and powers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.config import config
from mgefn.core.array import as_array, scalar
from mgefn.core.array_methods import Array, ArrayLike, method
from mgefn.core.avals import ShapedArray, Zero
from mgefn.errors import DTypeError, api_boundary, leave_api
from mgefn.ops.elementwise.arithmetic import square_p
from mgefn.ops.elementwise.choice import where
from mgefn.ops.elementwise.common import (
    INEXACT,
    NUMBER,
    binary,
    broadcasted,
    elementwise,
    nary,
    promoted,
    unary,
)
from mgefn.ops.elementwise.complex_parts import complex_p, imag_p, real_p
from mgefn.ops.elementwise.rounding import abs_p, is_finite_p
from mgefn.ops.elementwise.scale import scale
from mgefn.ops.shaping import full_like_aval

pow_p = elementwise(
    "pow",
    INEXACT,
    lambda z, x, y: _pow_slope_base(x, y),
    # Where x = 0 the exponent's slope 0 * log(0) is taken as 0.
    lambda z, x, y: z * log_p.bind1(where(x == 0, 1, x)),
    called="power",
)

integer_pow_p = elementwise("integer_pow", NUMBER, called="power")  # params: y, an int


def _pow_slope_base(x: Any, y: Any) -> Any:
    # y = 0 is the constant 1, also at x = 0, where x**(y - 1) is infinite.
    return where(y == 0, 0, y * pow_p.bind1(x, where(y == 0, 1, y - 1)))


@integer_pow_p.def_jvp
def _integer_pow_jvp(primals, tangents, *, y):
    (x,), (t,) = primals, tangents
    if not dtypes.is_inexact(x.dtype):
        out = integer_pow_p.bind1(x, y=y)
        return (out,), (Zero(out.aval),)
    slope = _integer_pow_slope(x, y)
    return integer_pow_p.bind(x, y=y), (scale(t, slope),)


def _integer_pow_slope(x: Any, y: int) -> Any:
    if y == 0:
        return full_like_aval(0, x.aval)
    return y * integer_pow(x, y - 1)


@api_boundary
def integer_pow(x: ArrayLike, y: int) -> Array:
    """x raised to the power of a Python integer.

    Raises:
        DTypeError: x has an integer dtype and y is negative.
    """
    a = as_array(x, "integer_pow")
    if y == 1 and not dtypes.is_bool(a.dtype):
        return a
    if y == 2:
        return square_p.bind1(a)
    if y < 0 and not dtypes.is_inexact(a.dtype):
        raise DTypeError(
            f"power: integers have no negative powers, got {a.aval} ** {y}. Cast x to a "
            "float first."
        )
    return integer_pow_p.bind1(a, y=y)


@method("power")
def power(x: ArrayLike, y: ArrayLike) -> Array:
    """x ** y, elementwise, as numpy.power gives it.

    A Python integer as exponent multiplies repeatedly and keeps an integer dtype. Derivative at
    y = 0 is 0 in x; at x = 0 it is 0 in y.

    Raises:
        DTypeError: x has an integer dtype and y is a negative Python integer.
    """
    try:
        if y.__class__ is int or (isinstance(y, np.integer) and not isinstance(x, np.generic)):
            a = as_array(x, "power") if isinstance(x, (Array, np.ndarray)) else None
            if a is not None and dtypes.is_bool(a.dtype) and y.__class__ is int and y < 0:
                return integer_pow(a, int(y))  # which has none
            if a is not None and not dtypes.is_bool(a.dtype):
                if y == 0:
                    return full_like_aval(1, a.aval)
                if config.enable_x64 or y.__class__ is int:
                    return integer_pow(a, int(y))
        x, y = broadcasted("power", promoted("power", (x, y)))
        if dtypes.is_inexact(x.dtype):
            return pow_p.bind1(x, y)
        return _integer_power(x, y)
    except BaseException as e:
        leave_api(e)
        raise


def _integer_power(x: Any, y: Any) -> Any:
    """Powers of integers by repeated squaring; negative ones truncate to 0, or +-1."""
    dtype = x.dtype
    if dtypes.is_bool(dtype):
        x, y = x.astype(np.int8), y.astype(np.int8)
        dtype = x.dtype
    one = scalar(1, dtype)
    result = full_like_aval(1, ShapedArray(x.shape or y.shape, dtype))
    base, rest = x, y
    # An exponent of 64 bits or more only matters for bases -1, 0 and 1, which settle before that.
    for _ in range(dtype.itemsize * 8):
        result = where((rest & one) == one, result * base, result)
        base = base * base
        rest = rest >> one
    if not dtypes.is_signed(dtype):
        return result
    odd = (y & one) == one
    inverse = where(x == 1, 1, where(x == -1, where(odd, -1, 1), 0)).astype(dtype)
    return where(y < 0, inverse, result)


@method("float_power")
@api_boundary
def float_power(x: ArrayLike, y: ArrayLike) -> Array:
    """x ** y in floating point, also for integers."""
    return nary(pow_p, x, y, inexact=True)


exp_p = elementwise("exp", INEXACT, lambda y, x: y)

exp2_p = elementwise("exp2", INEXACT, lambda y, x: math.log(2) * y)

expm1_p = elementwise("expm1", INEXACT, lambda y, x: y + 1)

log_p = elementwise("log", INEXACT, lambda y, x: 1 / x)

log1p_p = elementwise("log1p", INEXACT, lambda y, x: 1 / (x + 1))

logistic_p = elementwise("logistic", INEXACT, lambda y, x: y * (1 - y))


@method("exp")
def exp(x: ArrayLike) -> Array:
    """e**x, elementwise."""
    try:
        return unary(exp_p, x, inexact=True)
    except BaseException as e:
        leave_api(e)
        raise


@method("exp2")
@api_boundary
def exp2(x: ArrayLike) -> Array:
    """2**x, elementwise."""
    return unary(exp2_p, x, inexact=True)


@method("expm1")
@api_boundary
def expm1(x: ArrayLike) -> Array:
    """e**x - 1, elementwise, exact for small x."""
    y = unary(expm1_p, x, inexact=True)
    if dtypes.is_complex(y.dtype):
        # The kernel is exact for small x. It is NumPy's, and makes NaNs of infinities that exp
        # keeps: at inf+0j Annex G of C has inf+0j for exp, and NumPy's expm1 inf+nanj.
        (a,) = promoted("expm1", (x,), inexact=True)
        finite = is_finite_p.bind1(a)
        return where(finite, y, exp_p.bind1(where(finite, 0, a)) - 1)
    return y


@method("log")
def log(x: ArrayLike) -> Array:
    """Natural logarithm, elementwise: -inf at 0, NaN below."""
    try:
        return unary(log_p, x, inexact=True)
    except BaseException as e:
        leave_api(e)
        raise


@method("log2")
@api_boundary
def log2(x: ArrayLike) -> Array:
    """Logarithm to base 2, elementwise."""
    return _log_to_base("log2", x, 2)


@method("log10")
@api_boundary
def log10(x: ArrayLike) -> Array:
    """Logarithm to base 10, elementwise."""
    return _log_to_base("log10", x, 10)


def _log_to_base(name: str, x: ArrayLike, base: int) -> Any:
    (a,) = promoted(name, (x,), inexact=True)
    y, factor = log_p.bind1(a), 1 / math.log(base)
    if dtypes.is_complex(y.dtype):
        # Part by part: times a complex factor, -inf + 0j has an infinity times 0, which is NaN.
        return complex_p.bind1(real_p.bind1(y) * factor, imag_p.bind1(y) * factor)
    return y * factor


@method("log1p")
@api_boundary
def log1p(x: ArrayLike) -> Array:
    """log(1 + x), elementwise, exact for small x."""
    return unary(log1p_p, x, inexact=True)


def logistic(x: ArrayLike) -> Array:
    """1 / (1 + e**-x), elementwise."""
    try:
        return unary(logistic_p, x, inexact=True)
    except BaseException as e:
        leave_api(e)
        raise


@method("logaddexp")
@api_boundary
def logaddexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """log(e**x1 + e**x2), elementwise, safe from overflow. Derivatives: e**(x - result)."""
    x, y = promoted("logaddexp", (x1, x2), inexact=True)
    if dtypes.is_complex(x.dtype):
        first = real_p.bind1(x) >= real_p.bind1(y)
        big, small = where(first, x, y), where(first, y, x)
        # inf - inf would be NaN; between finite equals the difference carries the slope.
        below = where((small == big) & (abs_p.bind1(big) == np.inf), 0, small - big)
        return big + log1p_p.bind1(exp_p.bind1(below))
    return binary(logaddexp_p, x, y, inexact=True)


logaddexp_p = elementwise(
    "logaddexp",
    INEXACT,
    lambda z, x, y: _logaddexp_slope(z, x, y),
    lambda z, x, y: _logaddexp_slope(z, y, x),
)


def _logaddexp_slope(z: Any, x: Any, other: Any) -> Any:
    # Where both are +inf or both -inf the weights share; z - x would be NaN there. An infinity
    # above the other operand has the whole weight, e**0.
    same = x == z
    weight = exp_p.bind1(where(same, 0, x - z))
    if dtypes.is_complex(x.dtype):
        return weight
    infinite = abs_p.bind1(z) == np.inf
    return where(infinite & (x == other), 0.5, weight)


@method("logaddexp2")
@api_boundary
def logaddexp2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """log2(2**x1 + 2**x2), elementwise, safe from overflow."""
    x, y = promoted("logaddexp2", (x1, x2), inexact=True)
    ln2 = math.log(2)
    return logaddexp(x * ln2, y * ln2) * (1 / ln2)
