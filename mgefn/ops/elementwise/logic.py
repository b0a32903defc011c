"""Comparison, logic and bits. None of these has a derivative."""

from __future__ import annotations

from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.core.array_methods import METHODS, Array, ArrayLike, method
from mgefn.errors import api_boundary, leave_api
from mgefn.ops.elementwise.common import (
    ANY,
    INTEGER,
    INTEGRAL,
    binary,
    elementwise,
    promoted,
    truth,
    unary,
)
from mgefn.ops.elementwise.rounding import abs

eq_p = elementwise("eq", ANY, result="bool", constant=True, called="equal")

ne_p = elementwise("ne", ANY, result="bool", constant=True, called="not_equal")

lt_p = elementwise("lt", ANY, result="bool", constant=True, called="less")

le_p = elementwise("le", ANY, result="bool", constant=True, called="less_equal")

gt_p = elementwise("gt", ANY, result="bool", constant=True, called="greater")

ge_p = elementwise("ge", ANY, result="bool", constant=True, called="greater_equal")

not_p = elementwise("not", INTEGRAL, constant=True, called="invert")

and_p = elementwise("and", INTEGRAL, constant=True, called="bitwise_and")

or_p = elementwise("or", INTEGRAL, constant=True, called="bitwise_or")

xor_p = elementwise("xor", INTEGRAL, constant=True, called="bitwise_xor")

shift_left_p = elementwise("shift_left", INTEGER, constant=True, called="left_shift")

shift_right_arithmetic_p = elementwise(
    "shift_right_arithmetic", INTEGER, constant=True, called="right_shift"
)

shift_right_logical_p = elementwise("shift_right_logical", INTEGER, constant=True)

population_count_p = elementwise("population_count", INTEGER, constant=True)

clz_p = elementwise("clz", INTEGER, constant=True)


def _key_bits(name: str, x: Any, y: Any) -> list[Any]:
    """Random keys as integers, which are equal where the keys are."""
    return [METHODS["view"](v, np.uint64) for v in promoted(name, (x, y))]


@method("equal")
def equal(x: ArrayLike, y: ArrayLike) -> Array:
    """x == y, elementwise."""
    try:
        if isinstance(x, Array) and x.dtype.names is not None:
            x, y = _key_bits("equal", x, y)
        return binary(eq_p, x, y)
    except BaseException as e:
        leave_api(e)
        raise


@method("not_equal")
def not_equal(x: ArrayLike, y: ArrayLike) -> Array:
    """x != y, elementwise."""
    try:
        if isinstance(x, Array) and x.dtype.names is not None:
            x, y = _key_bits("not_equal", x, y)
        return binary(ne_p, x, y)
    except BaseException as e:
        leave_api(e)
        raise


@method("less")
def less(x: ArrayLike, y: ArrayLike) -> Array:
    """x < y, elementwise; complex numbers in lexicographic order."""
    try:
        return binary(lt_p, x, y)
    except BaseException as e:
        leave_api(e)
        raise


@method("less_equal")
def less_equal(x: ArrayLike, y: ArrayLike) -> Array:
    """x <= y, elementwise; complex numbers in lexicographic order."""
    try:
        return binary(le_p, x, y)
    except BaseException as e:
        leave_api(e)
        raise


@method("greater")
def greater(x: ArrayLike, y: ArrayLike) -> Array:
    """x > y, elementwise; complex numbers in lexicographic order."""
    try:
        return binary(gt_p, x, y)
    except BaseException as e:
        leave_api(e)
        raise


@method("greater_equal")
def greater_equal(x: ArrayLike, y: ArrayLike) -> Array:
    """x >= y, elementwise; complex numbers in lexicographic order."""
    try:
        return binary(ge_p, x, y)
    except BaseException as e:
        leave_api(e)
        raise


@method("logical_and")
@api_boundary
def logical_and(x: ArrayLike, y: ArrayLike) -> Array:
    """Are both nonzero? Elementwise."""
    return binary(and_p, truth(x), truth(y))


@method("logical_or")
@api_boundary
def logical_or(x: ArrayLike, y: ArrayLike) -> Array:
    """Is one nonzero? Elementwise."""
    return binary(or_p, truth(x), truth(y))


@method("logical_xor")
@api_boundary
def logical_xor(x: ArrayLike, y: ArrayLike) -> Array:
    """Is just one nonzero? Elementwise."""
    return binary(xor_p, truth(x), truth(y))


@method("logical_not")
@api_boundary
def logical_not(x: ArrayLike) -> Array:
    """Is x zero? Elementwise."""
    return not_p.bind1(truth(x))


@method("bitwise_and")
@api_boundary
def bitwise_and(x: ArrayLike, y: ArrayLike) -> Array:
    """Bitwise and of integers or booleans, elementwise."""
    return binary(and_p, x, y)


@method("bitwise_or")
@api_boundary
def bitwise_or(x: ArrayLike, y: ArrayLike) -> Array:
    """Bitwise or of integers or booleans, elementwise."""
    return binary(or_p, x, y)


@method("bitwise_xor")
@api_boundary
def bitwise_xor(x: ArrayLike, y: ArrayLike) -> Array:
    """Bitwise exclusive or of integers or booleans, elementwise."""
    return binary(xor_p, x, y)


@method("invert")
@api_boundary
def invert(x: ArrayLike) -> Array:
    """Bitwise not of integers, logical not of booleans, elementwise."""
    return unary(not_p, x)


bitwise_not = bitwise_invert = invert


def _integers(name: str, x: Any, y: Any) -> tuple[Any, Any]:
    """The promoted operands, bool as int8: a bool has no bit to shift to."""
    x, y = promoted(name, (x, y))
    return (x.astype(np.int8), y.astype(np.int8)) if dtypes.is_bool(x.dtype) else (x, y)


@method("left_shift")
@api_boundary
def left_shift(x: ArrayLike, y: ArrayLike) -> Array:
    """x shifted left by y bits, elementwise; 0 where y is the width or more."""
    return binary(shift_left_p, *_integers("left_shift", x, y))


@method("right_shift")
@api_boundary
def right_shift(x: ArrayLike, y: ArrayLike) -> Array:
    """x shifted right by y bits, elementwise; signed integers keep their sign."""
    x, y = _integers("right_shift", x, y)
    signed = dtypes.is_signed(x.dtype)
    return binary(shift_right_arithmetic_p if signed else shift_right_logical_p, x, y)


bitwise_left_shift, bitwise_right_shift = left_shift, right_shift


@api_boundary
def population_count(x: ArrayLike) -> Array:
    """Number of bits set, elementwise, in the dtype of x."""
    return unary(population_count_p, x)


@method("bitwise_count")
@api_boundary
def bitwise_count(x: ArrayLike) -> Array:
    """Number of bits set in |x|, elementwise, as uint8."""
    (a,) = promoted("bitwise_count", (x,))
    if dtypes.is_bool(a.dtype):
        return a.astype(np.uint8)
    if dtypes.is_signed(a.dtype):
        a = abs(a)
    return population_count_p.bind1(a).astype(np.uint8)


@api_boundary
def clz(x: ArrayLike) -> Array:
    """Number of leading zero bits, elementwise."""
    return unary(clz_p, x)
