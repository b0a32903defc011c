"""Sums, products, quotients, remainders and roots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.core.array import scalar
from mgefn.core.array_methods import Array, ArrayLike, method
from mgefn.core.avals import ShapedArray, is_undefined
from mgefn.core.interpreter import state
from mgefn.errors import DTypeError, UnsupportedError, api_boundary, leave_api
from mgefn.ops.elementwise.choice import where
from mgefn.ops.elementwise.common import (
    ANY,
    FLOAT,
    INEXACT,
    NUMBER,
    REAL,
    binary,
    broadcasted,
    elementwise,
    promoted,
    sum_to_shape,
    unary,
)
from mgefn.ops.elementwise.rounding import _truncated, abs, floor_p, sign_p, zero_sign_p
from mgefn.ops.elementwise.scale import scale_p

add_p = elementwise("add", ANY, 1, 1)

sub_p = elementwise("sub", NUMBER, 1, -1, called="subtract")

mul_p = elementwise("mul", ANY, lambda z, x, y: y, lambda z, x, y: x, called="multiply")

div_p = elementwise("div", NUMBER, lambda z, x, y: 1 / y, lambda z, x, y: -(z / y), called="divide")

neg_p = elementwise("neg", NUMBER, -1, called="negative")

# rem takes the sign of x, as C's fmod does
rem_p = elementwise("rem", REAL, 1, lambda z, x, y: -_truncated(x / y), called="fmod")

square_p = elementwise("square", NUMBER, lambda y, x: 2 * x)

sqrt_p = elementwise("sqrt", INEXACT, lambda y, x: 0.5 / y)

rsqrt_p = elementwise("rsqrt", INEXACT, lambda y, x: -0.5 * (y / x))

cbrt_p = elementwise("cbrt", FLOAT, lambda y, x: (1 / 3) / (y * y))

# One step of rounding further: to its derivative the step is constant.
nextafter_p = elementwise("nextafter", FLOAT, 1, 0)


def _is_number(a: Any, value: int) -> bool:
    """Is this atom the literal `value`? Minus zero is not zero here."""
    literal = getattr(a, "value", None)
    if literal is None:
        return False
    data = literal._data
    return bool(data == value) and not (
        value == 0 and data.dtype.kind in "fc" and np.signbit(data.real)
    )


def _identity(neutral: int, *places: int) -> Callable[..., Any]:
    """x op neutral is x, bit for bit, where the neutral literal stands at one of `places`."""

    def rule(inputs: Sequence[Any], params: dict, out_avals: Sequence[ShapedArray]) -> Any:
        if neutral == 1 and dtypes.is_complex(out_avals[0].dtype):
            return None  # inf * (1 + 0j) has inf * 0 in it, which is NaN
        for i in places:
            other = inputs[1 - i]
            if _is_number(inputs[i], neutral) and other.aval.same_type(out_avals[0]):
                return [other]
        return None

    return rule


# x + 0 is left alone: it turns -0.0 into 0.0.
mul_p.simplify = _identity(1, 0, 1)

scale_p.simplify = _identity(1, 0, 1)

div_p.simplify = _identity(1, 1)

sub_p.simplify = _identity(0, 1)


@add_p.def_transpose
def _add_transpose(cts, x, y):
    (ct,) = cts
    return tuple(sum_to_shape(ct, a.aval.shape) if is_undefined(a) else None for a in (x, y))


@sub_p.def_transpose
def _sub_transpose(cts, x, y):
    (ct,) = cts
    return (
        sum_to_shape(ct, x.aval.shape) if is_undefined(x) else None,
        sum_to_shape(-ct, y.aval.shape) if is_undefined(y) else None,
    )


@mul_p.def_transpose
def _mul_transpose(cts, x, y):
    (ct,) = cts
    if is_undefined(x) and is_undefined(y):
        raise UnsupportedError("multiply: has no transpose rule: not linear in both operands.")
    if is_undefined(x):
        return sum_to_shape(mul_p.bind1(ct, y), x.aval.shape), None
    return None, sum_to_shape(mul_p.bind1(ct, x), y.aval.shape)


@div_p.def_transpose
def _div_transpose(cts, x, y):
    (ct,) = cts
    return sum_to_shape(div_p.bind1(ct, y), x.aval.shape), None


@neg_p.def_transpose
def _neg_transpose(cts, x):
    return (neg_p.bind1(cts[0]),)


for _p in (add_p, sub_p, mul_p, div_p, neg_p, scale_p):
    _p.holes.pop("transpose", None)


@method("add")
def add(x: ArrayLike, y: ArrayLike) -> Array:
    """x + y, elementwise, as numpy.add gives it."""
    try:
        return binary(add_p, x, y)
    except BaseException as e:
        leave_api(e)
        raise


@method("subtract")
def subtract(x: ArrayLike, y: ArrayLike) -> Array:
    """x - y, elementwise, as numpy.subtract gives it."""
    try:
        return binary(sub_p, x, y)
    except BaseException as e:
        leave_api(e)
        raise


@method("multiply")
def multiply(x: ArrayLike, y: ArrayLike) -> Array:
    """x * y, elementwise, as numpy.multiply gives it."""
    try:
        return binary(mul_p, x, y)
    except BaseException as e:
        leave_api(e)
        raise


@method("true_divide")
def true_divide(x: ArrayLike, y: ArrayLike) -> Array:
    """x / y, elementwise; integers are divided as floats, as numpy.true_divide does."""
    try:
        return binary(div_p, x, y, inexact=True)
    except BaseException as e:
        leave_api(e)
        raise


divide = true_divide


@method("negative")
def negative(x: ArrayLike) -> Array:
    """-x, elementwise."""
    try:
        return unary(neg_p, x)
    except BaseException as e:
        leave_api(e)
        raise


@method("positive")
@api_boundary
def positive(x: ArrayLike) -> Array:
    """+x: the array itself."""
    return promoted("positive", (x,))[0]


@method("floor_divide")
@api_boundary
def floor_divide(x: ArrayLike, y: ArrayLike) -> Array:
    """The largest integer at most x / y, elementwise, as numpy.floor_divide gives it.

    Two bools give an int8. Floats follow IEEE 754: 1 // 0 is inf. An integer or a bool divided by 0
    gives 0, as in NumPy, but without a warning; `lax.div` gives -1 there, as in JAX.

    Example:
        >>> mnp.floor_divide(mnp.array([7, -7, 7]), mnp.array([2, 2, 0]))
        Array([ 3, -4,  0], dtype=int32)
    """
    nonzero = _nonzero_number(y)
    x, y = broadcasted("floor_divide", promoted("floor_divide", (x, y)))
    dtype = x.dtype
    if dtypes.is_bool(dtype):
        x, y = x.astype(np.int8), y.astype(np.int8)
        dtype = x.dtype
    if dtypes.is_complex(dtype):
        raise DTypeError(f"floor_divide: needs real operands, got {x.aval}. Divide with /.")
    if dtypes.is_integer(dtype):
        quotient = div_p.bind1(x, y)
        if dtypes.is_signed(dtype):
            signs_differ = sign_p.bind1(x) != sign_p.bind1(y)
            quotient = where(signs_differ & (rem_p.bind1(x, y) != 0), quotient - 1, quotient)
        return _zero_by_zero(quotient, y, nonzero)
    quotient = div_p.bind1(x, y)
    # x / y rounded may reach the next integer, which floor must not: go by the exact remainder.
    r = rem_p.bind1(x, y)
    exact = div_p.bind1(x - r, y)
    exact = where((r != 0) & ((r < 0) != (y < 0)), exact - 1, exact)
    rounded = floor_p.bind1(exact)
    nearest = where(exact - rounded > 0.5, rounded + 1, rounded)
    nearest = zero_sign_p.bind1(nearest, quotient)
    # Infinite by division by 0 or by overflow; an infinite x leaves nothing to round.
    beyond = where((y == 0) | (abs(x) < np.inf), floor_p.bind1(quotient), np.nan)
    return where(abs(quotient) < np.inf, nearest, beyond)


def _nonzero_number(y: Any) -> bool:
    """Whether y is a Python integer other than 0, so that no element needs to be looked at."""
    return y.__class__ is int and y != 0


def _zero_by_zero(x: Any, y: Any, nonzero: bool) -> Any:
    """x, but NumPy's 0 where an integer y is 0. Chosen afterwards: checkify sees the division."""
    return x if nonzero else where(y == 0, 0, x)


@method("remainder")
@api_boundary
def remainder(x: ArrayLike, y: ArrayLike) -> Array:
    """x - floor(x / y) * y, elementwise: takes the sign of y, as numpy.remainder does.

    Two bools give an int8. An integer or a bool by 0 leaves 0, as in NumPy, but without a warning;
    `lax.rem` leaves x. Derivative: 1 in x, -floor(x / y) in y.
    """
    nonzero = _nonzero_number(y)
    x, y = broadcasted("remainder", promoted("remainder", (x, y)))
    if dtypes.is_bool(x.dtype):
        x, y = x.astype(np.int8), y.astype(np.int8)
    if dtypes.is_complex(x.dtype):
        raise DTypeError(f"remainder: needs real operands, got {x.aval}.")
    r = rem_p.bind1(x, y)
    if dtypes.is_integer(x.dtype):
        if dtypes.is_signed(x.dtype):
            r = where((r != 0) & ((r < 0) != (y < 0)), r + y, r)
        return _zero_by_zero(r, y, nonzero)
    moved = where((r != 0) & ((r < 0) != (y < 0)), r + y, r)
    # A remainder of zero has the sign of y as well.
    return zero_sign_p.bind1(moved, y)


mod = remainder


@method("divmod")
@api_boundary
def divmod(x: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:
    """(x // y, x % y), elementwise; (0, 0) where an integer is divided by 0."""
    return floor_divide(x, y), remainder(x, y)


@method("fmod")
@api_boundary
def fmod(x: ArrayLike, y: ArrayLike) -> Array:
    """The remainder of x / y with the sign of x, as C's fmod and numpy.fmod give it.

    Two bools give an int8, as NumPy's. An integer or a bool by 0 leaves 0, as in NumPy, but without
    a warning; `lax.rem` leaves x.
    """
    nonzero = _nonzero_number(y)
    x, y = promoted("fmod", (x, y))
    if x.dtype == np.bool_:
        x, y = x.astype(np.int8), y.astype(np.int8)
    r = binary(rem_p, x, y)
    return _zero_by_zero(r, y, nonzero) if dtypes.is_integer(x.dtype) else r


@method("square")
def square(x: ArrayLike) -> Array:
    """x * x, elementwise; a bool gives an int8, as NumPy's."""
    try:
        if getattr(x, "dtype", None) == np.bool_ or isinstance(x, bool):
            (x,) = promoted("square", (x,))
            x = x.astype(np.int8)
        return unary(square_p, x)
    except BaseException as e:
        leave_api(e)
        raise


@method("sqrt")
def sqrt(x: ArrayLike) -> Array:
    """Square root, elementwise; NaN below 0. Derivative 1 / (2 sqrt(x)), which is inf at 0."""
    try:
        return unary(sqrt_p, x, inexact=True)
    except BaseException as e:
        leave_api(e)
        raise


def flat_at_zero(root: Callable[[Any], Any], total: Any) -> Any:
    """root(total), with the derivative 0 where total is 0: for sums of squares and other powers.

    They underflow before their roots do. At 1e-23 a norm in float32 is 0, as NumPy has it, and its
    slope would be an infinity times 1e-23; the shortest subgradient of a norm at 0 is 0.
    """
    if state.current is None:
        return root(total)
    none = total == 0
    return where(none, scalar(0, total.dtype), root(where(none, scalar(1, total.dtype), total)))


@api_boundary
def rsqrt(x: ArrayLike) -> Array:
    """1 / sqrt(x), elementwise."""
    return unary(rsqrt_p, x, inexact=True)


@method("cbrt")
@api_boundary
def cbrt(x: ArrayLike) -> Array:
    """Real cube root, elementwise; negative for negative x."""
    return unary(cbrt_p, x, inexact=True)


@method("reciprocal")
@api_boundary
def reciprocal(x: ArrayLike) -> Array:
    """1 / x, elementwise, in floating point.

    Of a complex number too small for that, the infinities of C's Annex G, with zeros beside them; 0
    gives what 1 / 0 gives, which is such an infinity too, and no NaN as numpy.reciprocal has there.
    """
    (a,) = promoted("reciprocal", (x,), inexact=True)
    y = div_p.bind1(scalar(1, a.dtype), a)
    if not dtypes.is_complex(a.dtype):
        return y
    # Complex division multiplies an infinite quotient by 0, so it is taken in two steps.
    size = abs(a)
    small = (size < float(dtypes.finfo(dtypes.real_part_dtype(a.dtype)).tiny)) & (size > 0)
    step = 2.0**64
    return where(small, (1 / (where(small, a, 1) * step)) * step, y)


@method("nextafter")
@api_boundary
def nextafter(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The next representable number after x1 towards x2, elementwise. Derivatives: 1 and 0."""
    return binary(nextafter_p, x1, x2, inexact=True)
