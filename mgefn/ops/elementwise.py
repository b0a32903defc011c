"""Elementwise operations: each output element depends on the operand elements at its index.

The public functions accept anything array-like, promote and broadcast. The primitives take
operands of one dtype and one shape, or of rank 0. Almost all declare slopes, their partial
derivatives by operand; jvp and reverse mode follow from these through `scale_p`.

`scale_p(t, slope)` is the product of a tangent or cotangent t with a local slope: where one
factor is exactly 0 and the other is not finite it is 0, so a branch that was not taken leaves no
NaN. Its own derivative is the ordinary product rule.

Sources for derivatives: Abramowitz and Stegun, Handbook of Mathematical Functions, 1964; NIST
Digital Library of Mathematical Functions, dlmf.nist.gov.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.config import config
from mgefn.core.array import ConcreteArray, as_array, is_arraylike, not_an_array, scalar
from mgefn.core.array_methods import METHODS, Array, ArrayLike, DTypeLike, method
from mgefn.core.avals import ShapedArray, Zero, is_undefined
from mgefn.core.interpreter import state
from mgefn.core.primitive import Primitive
from mgefn.errors import (
    ArgumentError,
    DTypeError,
    ShapeError,
    UnsupportedError,
    api_boundary,
    leave_api,
)
from mgefn.ops.shaping import (
    broadcast_in_dim,
    broadcast_to_shape,
    full_like_aval,
    moveaxis,
    reshape,
    result_shape,
)

BOOL = np.dtype(bool)
FLOAT = "float"
COMPLEX = "complex"
INEXACT = "float or complex"
INTEGER = "integer"
INTEGRAL = "integer or bool"
REAL = "real number"
NUMBER = "number"
ANY = "any"

_ACCEPTS: dict[str, Callable[[np.dtype], bool]] = {
    FLOAT: dtypes.is_float,
    COMPLEX: dtypes.is_complex,
    INEXACT: dtypes.is_inexact,
    INTEGER: dtypes.is_integer,
    INTEGRAL: lambda d: dtypes.is_integer(d) or dtypes.is_bool(d),
    REAL: lambda d: not dtypes.is_complex(d) and not dtypes.is_bool(d),
    NUMBER: lambda d: not dtypes.is_bool(d),
    ANY: lambda d: True,
}


# -- promotion ------------------------------------------------------------------------------------


def convert(x: Any, dtype: np.dtype, weak: bool = False) -> Any:
    """An Array or tracer with this dtype and weakness; x itself where it has them."""
    if x.dtype == dtype and x.weak_type == weak:
        return x
    return convert_element_type_p.bind1(x, new_dtype=dtype, weak_type=weak)


def promoted(name: str, args: Sequence[Any], inexact: bool = False) -> list[Any]:
    """The arguments as arrays of their common dtype; `inexact` takes integers to the float."""
    values = [
        a if a.__class__ in _KNOWN or isinstance(a, Array) else _array_argument(name, a)
        for a in args
    ]
    dtype, weak = dtypes.result_type(*values, return_weak=True)
    if inexact:
        dtype = dtypes.to_inexact(dtype)
    out = []
    for v in values:
        if v.__class__ in _KNOWN:
            if v.__class__ is int:
                dtypes.check_scalar_fits(v, dtype, name)
            out.append(scalar(v, dtype, weak))
        else:
            out.append(convert(as_array(v, name), dtype, weak))
    return out


_KNOWN = frozenset((bool, int, float, complex))


def _array_argument(name: str, a: Any) -> Any:
    if isinstance(a, np.generic):
        return a
    if isinstance(a, (list, tuple)):
        return METHODS["asarray"](a)
    if a is None or not is_arraylike(a):
        raise not_an_array(name, a)
    return as_array(a, name)


def broadcasted(name: str, args: Sequence[Any]) -> list[Any]:
    """Arrays of one shape; those of rank 0 stay as they are."""
    shapes = [a.shape for a in args if a.shape]
    if not shapes or all(s == shapes[0] for s in shapes):
        return list(args)
    shape = result_shape(name, shapes, [a.aval for a in args])
    return [broadcast_to_shape(a, shape) if a.shape else a for a in args]


def unary(primitive: Primitive, x: Any, inexact: bool = False) -> Any:
    """Bind a primitive to one promoted operand."""
    if state.current is None and x.__class__ is ConcreteArray:
        data = x._data
        if data.dtype in primitive.ufunc_dtypes:
            try:
                out = state.quiet(primitive.ufunc, data)
            except (RuntimeError, TypeError):
                return primitive.bind1(x)  # a context entered twice, or a dtype it does not take
            if out.__class__ is not np.ndarray:
                out = np.asarray(out)
            return ConcreteArray(out, x._weak)
    elif isinstance(x, Array) and x.dtype.kind in "fc":
        return primitive.bind1(x)
    (x,) = promoted(primitive.called, (x,), inexact)
    return primitive.bind1(x)


def binary(primitive: Primitive, x: Any, y: Any, inexact: bool = False) -> Any:
    """Bind a primitive to two promoted operands of one shape."""
    if state.current is None:
        # The fast way: both known, of one dtype, and the operation is a NumPy ufunc.
        cls = y.__class__
        if x.__class__ is ConcreteArray:
            a, weak = x._data, x._weak
            if cls is ConcreteArray:
                b = y._data
                weak = weak and y._weak
                fast = a.dtype is b.dtype and a.dtype in primitive.ufunc_dtypes
            else:
                fast = (
                    (cls is float or (cls is int and -0x80000000 <= y <= 0x7FFFFFFF))
                    and not weak
                    and a.dtype in primitive.ufunc_scalar_dtypes
                )
                b = scalar(y, a.dtype)._data if fast else None
        elif cls is ConcreteArray:
            b, weak = y._data, y._weak
            cls = x.__class__
            fast = (
                (cls is float or (cls is int and -0x80000000 <= x <= 0x7FFFFFFF))
                and not weak
                and b.dtype in primitive.ufunc_scalar_dtypes
            )
            a = scalar(x, b.dtype)._data if fast else None
        else:
            a = b = None
            fast = weak = False
        if fast:
            try:
                out = state.quiet(primitive.ufunc, a, b)
            except (RuntimeError, ValueError, TypeError):
                pass  # a context entered twice, or operands that do not fit: the slow way tells
            else:
                if out.__class__ is not np.ndarray:
                    out = np.asarray(out)
                return ConcreteArray(out, weak)
    elif isinstance(x, Array):
        # Tracers that need neither promotion nor broadcasting.
        dtype = x.dtype
        if dtype.kind in "fc":
            if isinstance(y, Array):
                if y.dtype is dtype and x.weak_type == y.weak_type:
                    a, b = x.shape, y.shape
                    if a == b or not a or not b:
                        return primitive.bind1(x, y)
            elif (y.__class__ is float or y.__class__ is int) and not x.weak_type:
                return primitive.bind1(x, scalar(y, dtype))
    x, y = promoted(primitive.called, (x, y), inexact)
    if x.shape != y.shape and x.shape and y.shape:
        x, y = broadcasted(primitive.called, (x, y))
    return primitive.bind1(x, y)


def nary(primitive: Primitive, *args: Any, inexact: bool = False) -> Any:
    """Bind a primitive to promoted operands of one shape."""
    return primitive.bind1(
        *broadcasted(primitive.called, promoted(primitive.called, args, inexact))
    )


# -- making elementwise primitives ----------------------------------------------------------------


def common_shape(name: str, avals: Sequence[ShapedArray]) -> tuple[int, ...]:
    """The shape of the operands, where those of rank 0 fit any."""
    shape: tuple[int, ...] = ()
    for a in avals:
        if a.shape and a.shape != shape:
            if shape:
                raise ShapeError(
                    f"{name}: operands must have one shape or rank 0, got "
                    f"{' and '.join(map(str, avals))}. Broadcast them first."
                )
            shape = a.shape
    return shape


def elementwise(
    name: str,
    accepts: str,
    *slopes: Callable[..., Any] | int,
    result: str = "same",
    constant: bool = False,
    called: str | None = None,
) -> Primitive:
    """An elementwise primitive whose operands share a dtype.

    Args:
        name: the primitive's.
        accepts: which dtypes, a key of _ACCEPTS.
        slopes: see Primitive.def_slopes.
        result: "same" dtype, "bool", or "real": the real part's dtype.
        constant: has no derivative.
        called: the public function's name, where it is another one.
    """
    primitive = Primitive(
        name,
        elementwise=True,
        constant=constant,
        weak_result=result != "bool",
        called=called,
    )
    name = primitive.called  # from here on for messages
    test = _ACCEPTS[accepts]

    def abstract_eval(*avals: ShapedArray, **params: Any) -> tuple[ShapedArray]:
        dtype = avals[0].dtype
        for a in avals[1:]:
            if a.dtype != dtype:
                raise DTypeError(
                    f"{name}: operands must have one dtype, got {avals[0]} and {a}. Cast one with "
                    "astype."
                )
        if not test(dtype):
            repair = "Cast it with astype"
            if accepts == NUMBER and dtypes.is_bool(dtype):
                repair += ", or use logical_not or logical_xor"
            needed = f"{'an' if accepts[0] in 'aeiou' else 'a'} {accepts}"
            raise DTypeError(f"{name}: needs {needed} dtype, got {avals[0]}. {repair}.")
        if result == "bool":
            dtype = BOOL
        elif result == "real":
            dtype = dtypes.real_part_dtype(dtype)
        return (ShapedArray(common_shape(name, avals), dtype),)

    primitive.def_abstract_eval(abstract_eval)
    primitive.def_batch(batch_elementwise(primitive))
    if slopes:
        primitive.def_slopes(*slopes)
    if constant:
        primitive.no_rule("transpose", "has no derivative")
    else:
        primitive.no_rule("transpose", "not linear")
    return primitive


def batch_elementwise(primitive: Primitive) -> Callable[..., Any]:
    """The batch rule of an elementwise primitive."""

    def rule(args: Sequence[Any], bdims: Sequence[int | None], **params: Any) -> tuple:
        args, bdim = aligned(args, bdims)
        outs = primitive.bind(*args, **params)
        return outs, (bdim,) * len(outs)

    return rule


def aligned(args: Sequence[Any], bdims: Sequence[int | None]) -> tuple[list[Any], int]:
    """Operands of an elementwise operation with the batch dimension in one place."""
    ndims = [len(a.shape) - (b is not None) for a, b in zip(args, bdims, strict=True)]
    ndim = max(ndims)
    target = 0
    for b, n in zip(bdims, ndims, strict=True):
        if b is not None and n == ndim:
            target = b
            break
    size = next(a.shape[b] for a, b in zip(args, bdims, strict=True) if b is not None)
    full = next(
        (
            a.shape[:b] + a.shape[b + 1 :] if b is not None else a.shape
            for a, b, n in zip(args, bdims, ndims, strict=True)
            if n == ndim
        )
    )
    shape = (*full[:target], size, *full[target:])
    rest = tuple(i for i in range(ndim + 1) if i != target)
    out = []
    for a, b, n in zip(args, bdims, ndims, strict=True):
        if b is None:
            # Rank 0 fits any shape as it is.
            out.append(broadcast_in_dim(a, shape, rest) if n else a)
        elif n == ndim:
            out.append(moveaxis(a, b, target))
        else:
            out.append(broadcast_in_dim(a, shape, (target,)))
    return out, target


def sum_to_shape(ct: Any, shape: tuple[int, ...]) -> Any:
    """The cotangent of an operand that was of rank 0 or of the full shape."""
    return ct if ct.shape == shape else ct.sum()


def mask(condition: Any, like: Any) -> Any:
    """1 where a condition holds and 0 elsewhere, in the dtype of `like`."""
    return convert(condition, like.dtype)


# -- scale ----------------------------------------------------------------------------------------

scale_p = elementwise("scale", INEXACT, lambda y, t, slope: slope, lambda y, t, slope: t)


def scale(t: Any, slope: Any) -> Any:
    """t * slope, and 0 where one factor is exactly 0 and the other not finite; linear in t."""
    if slope.dtype != t.dtype:
        slope = convert(slope, t.dtype)
    return (scale_p if config.zero_annihilates else mul_p).bind1(t, slope)


@scale_p.def_transpose
def _scale_transpose(cts, t, slope):
    (ct,) = cts
    if is_undefined(slope):
        return None, sum_to_shape(scale_p.bind1(ct, t), slope.aval.shape)
    return sum_to_shape(scale_p.bind1(ct, slope), t.aval.shape), None


# -- arithmetic -----------------------------------------------------------------------------------

add_p = elementwise("add", ANY, 1, 1)
sub_p = elementwise("sub", NUMBER, 1, -1, called="subtract")
mul_p = elementwise("mul", ANY, lambda z, x, y: y, lambda z, x, y: x, called="multiply")
div_p = elementwise("div", NUMBER, lambda z, x, y: 1 / y, lambda z, x, y: -(z / y), called="divide")
neg_p = elementwise("neg", NUMBER, -1, called="negative")
# rem takes the sign of x, as C's fmod does
rem_p = elementwise("rem", REAL, 1, lambda z, x, y: -_truncated(x / y), called="fmod")
square_p = elementwise("square", ANY, lambda y, x: 2 * x)
sqrt_p = elementwise("sqrt", INEXACT, lambda y, x: 0.5 / y)
rsqrt_p = elementwise("rsqrt", INEXACT, lambda y, x: -0.5 * (y / x))
cbrt_p = elementwise("cbrt", FLOAT, lambda y, x: (1 / 3) / (y * y))
pow_p = elementwise(
    "pow",
    INEXACT,
    lambda z, x, y: _pow_slope_base(x, y),
    # Where x = 0 the exponent's slope 0 * log(0) is taken as 0.
    lambda z, x, y: z * log_p.bind1(where(x == 0, 1, x)),
    called="power",
)
integer_pow_p = elementwise("integer_pow", NUMBER, called="power")  # params: y, an int
nextafter_p = elementwise("nextafter", FLOAT, constant=True)


def _truncated(x: Any) -> Any:
    return where(x < 0, ceil_p.bind1(x), floor_p.bind1(x))


def _pow_slope_base(x: Any, y: Any) -> Any:
    # y = 0 is the constant 1, also at x = 0, where x**(y - 1) is infinite.
    return where(y == 0, 0, y * pow_p.bind1(x, where(y == 0, 1, y - 1)))


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
    if y == 1:
        return a
    if y == 2:
        return square_p.bind1(a)
    if y < 0 and not dtypes.is_inexact(a.dtype):
        raise DTypeError(
            f"power: integers have no negative powers, got {a.aval} ** {y}. Cast x to a "
            "float first."
        )
    return integer_pow_p.bind1(a, y=y)


@method("add")
def add(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x + y, elementwise, as numpy.add gives it."""
    try:
        return binary(add_p, x, y)
    except BaseException as e:
        leave_api(e)
        raise


@method("subtract")
def subtract(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x - y, elementwise, as numpy.subtract gives it."""
    try:
        return binary(sub_p, x, y)
    except BaseException as e:
        leave_api(e)
        raise


@method("multiply")
def multiply(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x * y, elementwise, as numpy.multiply gives it."""
    try:
        return binary(mul_p, x, y)
    except BaseException as e:
        leave_api(e)
        raise


@method("true_divide")
def true_divide(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x / y, elementwise; integers are divided as floats, as numpy.true_divide does."""
    try:
        return binary(div_p, x, y, inexact=True)
    except BaseException as e:
        leave_api(e)
        raise


divide = true_divide


@method("negative")
def negative(x: ArrayLike, /) -> Array:
    """-x, elementwise."""
    try:
        return unary(neg_p, x)
    except BaseException as e:
        leave_api(e)
        raise


@method("positive")
@api_boundary
def positive(x: ArrayLike, /) -> Array:
    """+x: the array itself."""
    return promoted("positive", (x,))[0]


@method("floor_divide")
@api_boundary
def floor_divide(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The largest integer at most x / y, elementwise, as numpy.floor_divide gives it.

    Floats follow IEEE 754: 1 // 0 is inf. An integer divided by 0 gives -1, as in JAX.
    """
    x, y = broadcasted("floor_divide", promoted("floor_divide", (x, y)))
    dtype = x.dtype
    if dtypes.is_bool(dtype):
        x, y = x.astype(np.int8), y.astype(np.int8)
        dtype = x.dtype
    if dtypes.is_complex(dtype):
        raise DTypeError(f"floor_divide: needs real operands, got {x.aval}. Divide with /.")
    if dtypes.is_integer(dtype):
        quotient = div_p.bind1(x, y)
        if not dtypes.is_signed(dtype):
            return quotient
        signs_differ = sign_p.bind1(x) != sign_p.bind1(y)
        return where(signs_differ & (rem_p.bind1(x, y) != 0), quotient - 1, quotient)
    quotient = div_p.bind1(x, y)
    # x / y rounded may reach the next integer, which floor must not: go by the exact remainder.
    remainder_ = remainder(x, y)
    exact = div_p.bind1(x - remainder_, y)
    rounded = floor_p.bind1(exact)
    nearest = where(exact - rounded > 0.5, rounded + 1, rounded)
    return where(abs(quotient) < np.inf, nearest, where(y == 0, quotient, floor_p.bind1(quotient)))


@method("remainder")
@api_boundary
def remainder(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x - floor(x / y) * y, elementwise: takes the sign of y, as numpy.remainder does.

    Derivative: 1 in x, -floor(x / y) in y.
    """
    x, y = broadcasted("remainder", promoted("remainder", (x, y)))
    if dtypes.is_bool(x.dtype):
        x, y = x.astype(np.int8), y.astype(np.int8)
    if dtypes.is_complex(x.dtype):
        raise DTypeError(f"remainder: needs real operands, got {x.aval}.")
    r = rem_p.bind1(x, y)
    if dtypes.is_integer(x.dtype):
        if not dtypes.is_signed(x.dtype):
            return r
        return where((r != 0) & ((r < 0) != (y < 0)), r + y, r)
    moved = where((r != 0) & ((r < 0) != (y < 0)), r + y, r)
    # A remainder of zero has the sign of y as well.
    return where(moved == 0, copysign(moved, y), moved)


mod = remainder


@method("divmod")
@api_boundary
def divmod(x: ArrayLike, y: ArrayLike, /) -> tuple[Array, Array]:
    """(x // y, x % y), elementwise."""
    return floor_divide(x, y), remainder(x, y)


@api_boundary
def fmod(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The remainder of x / y with the sign of x, as C's fmod and numpy.fmod give it."""
    return binary(rem_p, x, y)


@method("power")
def power(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x ** y, elementwise, as numpy.power gives it.

    A Python integer as exponent multiplies repeatedly and keeps an integer dtype. Derivative at
    y = 0 is 0 in x; at x = 0 it is 0 in y.

    Raises:
        DTypeError: x has an integer dtype and y is a negative Python integer.
    """
    try:
        if y.__class__ is int or (isinstance(y, np.integer) and not isinstance(x, np.generic)):
            a = as_array(x, "power") if isinstance(x, (Array, np.ndarray)) else None
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


@api_boundary
def float_power(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x ** y in floating point, also for integers."""
    return nary(pow_p, x, y, inexact=True)


@method("square")
def square(x: ArrayLike, /) -> Array:
    """x * x, elementwise."""
    try:
        return unary(square_p, x)
    except BaseException as e:
        leave_api(e)
        raise


@method("sqrt")
def sqrt(x: ArrayLike, /) -> Array:
    """Square root, elementwise; NaN below 0. Derivative 1 / (2 sqrt(x)), which is inf at 0."""
    try:
        return unary(sqrt_p, x, inexact=True)
    except BaseException as e:
        leave_api(e)
        raise


@api_boundary
def rsqrt(x: ArrayLike, /) -> Array:
    """1 / sqrt(x), elementwise."""
    return unary(rsqrt_p, x, inexact=True)


@method("cbrt")
@api_boundary
def cbrt(x: ArrayLike, /) -> Array:
    """Real cube root, elementwise; negative for negative x."""
    return unary(cbrt_p, x, inexact=True)


@method("reciprocal")
@api_boundary
def reciprocal(x: ArrayLike, /) -> Array:
    """1 / x, elementwise, in floating point."""
    (a,) = promoted("reciprocal", (x,), inexact=True)
    return div_p.bind1(scalar(1, a.dtype), a)


@method("nextafter")
@api_boundary
def nextafter(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The next representable number after x towards y, elementwise. It has no derivative."""
    return binary(nextafter_p, x, y, inexact=True)


# -- sign, rounding, classes of floats ------------------------------------------------------------

sign_p = elementwise("sign", NUMBER, constant=True)
floor_p = elementwise("floor", FLOAT, constant=True)
ceil_p = elementwise("ceil", FLOAT, constant=True)
round_p = elementwise("round", FLOAT, constant=True)  # params: rounding_method, 0 or 1
is_finite_p = elementwise("is_finite", INEXACT, result="bool", constant=True, called="isfinite")
abs_p = elementwise("abs", NUMBER, result="real")
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
        unit = x / convert(where(y == 0, 1, y), x.dtype)
        return (y,), (real_p.bind1(scale(t, conj(unit))),)
    return (y,), (scale(t, sign_p.bind1(x)),)


@method("abs")
def abs(x: ArrayLike, /) -> Array:
    """Absolute value, elementwise; of a complex number its modulus. Derivative at 0 is 0."""
    try:
        if x.__class__ is bool or getattr(x, "dtype", None) == BOOL:
            return as_array(x, "abs")
        return unary(abs_p, x)
    except BaseException as e:
        leave_api(e)
        raise


absolute = abs


@api_boundary
def fabs(x: ArrayLike, /) -> Array:
    """Absolute value in floating point."""
    (a,) = promoted("fabs", (x,), inexact=True)
    return abs_p.bind1(a)


@method("sign")
@api_boundary
def sign(x: ArrayLike, /) -> Array:
    """-1, 0 or 1 by the sign of x; of a complex number x / |x|. It has no derivative."""
    return unary(sign_p, x)


@method("floor")
@api_boundary
def floor(x: ArrayLike, /) -> Array:
    """The largest integer at most x, elementwise; integers stay as they are."""
    return _rounding(floor_p, x)


@method("ceil")
@api_boundary
def ceil(x: ArrayLike, /) -> Array:
    """The smallest integer at least x, elementwise; integers stay as they are."""
    return _rounding(ceil_p, x)


def _rounding(primitive: Primitive, x: Any, **params: Any) -> Any:
    (a,) = promoted(primitive.name, (x,))
    return a if not dtypes.is_inexact(a.dtype) else primitive.bind1(a, **params)


@method("trunc")
@api_boundary
def trunc(x: ArrayLike, /) -> Array:
    """x without its fraction, elementwise."""
    (a,) = promoted("trunc", (x,))
    return _truncated(a) if dtypes.is_inexact(a.dtype) else a


fix = trunc


@method("rint")
@api_boundary
def rint(x: ArrayLike, /) -> Array:
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
        half = floor_divide(x, step)
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
def isfinite(x: ArrayLike, /) -> Array:
    """Is x neither infinite nor NaN? Elementwise."""
    (a,) = promoted("isfinite", (x,))
    if not dtypes.is_inexact(a.dtype):
        return full_like_aval(True, ShapedArray(a.shape, BOOL))
    return is_finite_p.bind1(a)


@method("isnan")
@api_boundary
def isnan(x: ArrayLike, /) -> Array:
    """Is x not a number? Elementwise."""
    (a,) = promoted("isnan", (x,))
    return ne_p.bind1(a, a)


@method("isinf")
@api_boundary
def isinf(x: ArrayLike, /) -> Array:
    """Is x infinite? Elementwise; a complex number is when one of its parts is."""
    (a,) = promoted("isinf", (x,))
    if dtypes.is_complex(a.dtype):
        return isinf(real_p.bind1(a)) | isinf(imag_p.bind1(a))
    if not dtypes.is_inexact(a.dtype):
        return full_like_aval(False, ShapedArray(a.shape, BOOL))
    return abs_p.bind1(a) == np.inf


@method("signbit")
@api_boundary
def signbit(x: ArrayLike, /) -> Array:
    """Is the sign bit set? Elementwise; true for -0.0."""
    (a,) = promoted("signbit", (x,))
    if dtypes.is_inexact(a.dtype):
        return copysign_p.bind1(scalar(1, a.dtype), a) < 0
    return a < 0 if dtypes.is_signed(a.dtype) else full_like_aval(False, a.aval.update(dtype=BOOL))


@method("copysign")
@api_boundary
def copysign(x: ArrayLike, y: ArrayLike, /) -> Array:
    """|x| with the sign of y, elementwise."""
    return binary(copysign_p, x, y, inexact=True)


@api_boundary
def heaviside(x: ArrayLike, y: ArrayLike, /) -> Array:
    """0 below 0, y at 0, 1 above 0, elementwise."""
    a, b = broadcasted("heaviside", promoted("heaviside", (x, y), inexact=True))
    return where(isnan(a), a, where(a == 0, b, mask(a > 0, a)))


# -- exponentials and logarithms ------------------------------------------------------------------

exp_p = elementwise("exp", INEXACT, lambda y, x: y)
exp2_p = elementwise("exp2", INEXACT, lambda y, x: math.log(2) * y)
expm1_p = elementwise("expm1", INEXACT, lambda y, x: y + 1)
log_p = elementwise("log", INEXACT, lambda y, x: 1 / x)
log1p_p = elementwise("log1p", INEXACT, lambda y, x: 1 / (x + 1))
logistic_p = elementwise("logistic", INEXACT, lambda y, x: y * (1 - y))


@method("exp")
def exp(x: ArrayLike, /) -> Array:
    """e**x, elementwise."""
    try:
        return unary(exp_p, x, inexact=True)
    except BaseException as e:
        leave_api(e)
        raise


@method("exp2")
@api_boundary
def exp2(x: ArrayLike, /) -> Array:
    """2**x, elementwise."""
    return unary(exp2_p, x, inexact=True)


@method("expm1")
@api_boundary
def expm1(x: ArrayLike, /) -> Array:
    """e**x - 1, elementwise, exact for small x."""
    return unary(expm1_p, x, inexact=True)


@method("log")
def log(x: ArrayLike, /) -> Array:
    """Natural logarithm, elementwise: -inf at 0, NaN below."""
    try:
        return unary(log_p, x, inexact=True)
    except BaseException as e:
        leave_api(e)
        raise


@method("log2")
@api_boundary
def log2(x: ArrayLike, /) -> Array:
    """Logarithm to base 2, elementwise."""
    (a,) = promoted("log2", (x,), inexact=True)
    return log_p.bind1(a) * (1 / math.log(2))


@method("log10")
@api_boundary
def log10(x: ArrayLike, /) -> Array:
    """Logarithm to base 10, elementwise."""
    (a,) = promoted("log10", (x,), inexact=True)
    return log_p.bind1(a) * (1 / math.log(10))


@method("log1p")
@api_boundary
def log1p(x: ArrayLike, /) -> Array:
    """log(1 + x), elementwise, exact for small x."""
    return unary(log1p_p, x, inexact=True)


def logistic(x: ArrayLike, /) -> Array:
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
    return binary(logaddexp_p, x1, x2, inexact=True)


logaddexp_p = elementwise(
    "logaddexp",
    INEXACT,
    lambda z, x, y: _logaddexp_slope(z, x),
    lambda z, x, y: _logaddexp_slope(z, y),
)


def _logaddexp_slope(z: Any, x: Any) -> Any:
    # Where both are +inf or both -inf the weights share; z - x would be NaN there.
    same = x == z
    weight = exp_p.bind1(where(same, 0, x - z))
    if dtypes.is_complex(x.dtype):
        return weight
    infinite = abs_p.bind1(z) == np.inf
    return where(infinite & same, 0.5, weight)


@api_boundary
def logaddexp2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """log2(2**x1 + 2**x2), elementwise, safe from overflow."""
    x, y = promoted("logaddexp2", (x1, x2), inexact=True)
    ln2 = math.log(2)
    return logaddexp(x * ln2, y * ln2) * (1 / ln2)


# -- trigonometric and hyperbolic -----------------------------------------------------------------

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
def sin(x: ArrayLike, /) -> Array:
    """Sine of x in radians, elementwise."""
    try:
        return unary(sin_p, x, inexact=True)
    except BaseException as e:
        leave_api(e)
        raise


@method("cos")
def cos(x: ArrayLike, /) -> Array:
    """Cosine of x in radians, elementwise."""
    try:
        return unary(cos_p, x, inexact=True)
    except BaseException as e:
        leave_api(e)
        raise


@method("tan")
@api_boundary
def tan(x: ArrayLike, /) -> Array:
    """Tangent of x in radians, elementwise."""
    return unary(tan_p, x, inexact=True)


@method("arcsin")
@api_boundary
def arcsin(x: ArrayLike, /) -> Array:
    """Inverse sine in radians, in [-pi/2, pi/2], elementwise; NaN outside [-1, 1]."""
    return unary(asin_p, x, inexact=True)


@method("arccos")
@api_boundary
def arccos(x: ArrayLike, /) -> Array:
    """Inverse cosine in radians, in [0, pi], elementwise; NaN outside [-1, 1]."""
    return unary(acos_p, x, inexact=True)


@method("arctan")
@api_boundary
def arctan(x: ArrayLike, /) -> Array:
    """Inverse tangent in radians, in [-pi/2, pi/2], elementwise."""
    return unary(atan_p, x, inexact=True)


@method("arctan2")
@api_boundary
def arctan2(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Angle in radians of the point (x2, x1) from the positive x2 axis, elementwise."""
    return binary(atan2_p, x1, x2, inexact=True)


@method("sinh")
@api_boundary
def sinh(x: ArrayLike, /) -> Array:
    """Hyperbolic sine, elementwise."""
    return unary(sinh_p, x, inexact=True)


@method("cosh")
@api_boundary
def cosh(x: ArrayLike, /) -> Array:
    """Hyperbolic cosine, elementwise."""
    return unary(cosh_p, x, inexact=True)


@method("tanh")
def tanh(x: ArrayLike, /) -> Array:
    """Hyperbolic tangent, elementwise."""
    try:
        return unary(tanh_p, x, inexact=True)
    except BaseException as e:
        leave_api(e)
        raise


@method("arcsinh")
@api_boundary
def arcsinh(x: ArrayLike, /) -> Array:
    """Inverse hyperbolic sine, elementwise."""
    return unary(asinh_p, x, inexact=True)


@method("arccosh")
@api_boundary
def arccosh(x: ArrayLike, /) -> Array:
    """Inverse hyperbolic cosine, elementwise; NaN below 1."""
    return unary(acosh_p, x, inexact=True)


@method("arctanh")
@api_boundary
def arctanh(x: ArrayLike, /) -> Array:
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
def deg2rad(x: ArrayLike, /) -> Array:
    """Degrees to radians."""
    return multiply(x, math.pi / 180)


@api_boundary
def rad2deg(x: ArrayLike, /) -> Array:
    """Radians to degrees."""
    return multiply(x, 180 / math.pi)


radians, degrees = deg2rad, rad2deg
METHODS.update(deg2rad=deg2rad, radians=deg2rad, rad2deg=rad2deg, degrees=rad2deg)
METHODS.update(logaddexp2=logaddexp2, float_power=float_power, fabs=fabs, fmod=fmod)
METHODS.update(heaviside=heaviside)


# -- complex parts --------------------------------------------------------------------------------

real_p = elementwise("real", COMPLEX, result="real")
imag_p = elementwise("imag", COMPLEX, result="real")
conj_p = elementwise("conj", COMPLEX)
complex_p = Primitive("complex", elementwise=True, linear=True)
for _p in (real_p, imag_p, conj_p):
    # Linear over the reals, which is what tangents of complex numbers are.
    _p.linear = True
    _p.holes.pop("transpose")


@real_p.def_transpose
def _real_transpose(cts, x):
    (ct,) = cts
    return (complex_p.bind1(ct, scalar(0, ct.dtype)),)


@imag_p.def_transpose
def _imag_transpose(cts, x):
    (ct,) = cts
    # Cotangents pair by x.real * ct.real - x.imag * ct.imag, so the imaginary part changes sign.
    return (complex_p.bind1(scalar(0, ct.dtype), neg_p.bind1(ct)),)


@conj_p.def_transpose
def _conj_transpose(cts, x):
    return (conj_p.bind1(cts[0]),)


@complex_p.def_abstract_eval
def _complex_abstract_eval(x: ShapedArray, y: ShapedArray):
    if x.dtype != y.dtype or x.dtype not in (np.float32, np.float64):
        raise DTypeError(
            f"complex: needs two operands of float32 or of float64, got {x} and {y}. Cast them."
        )
    return (ShapedArray(common_shape("complex", (x, y)), dtypes.complex_dtype(x.dtype)),)


@complex_p.def_transpose
def _complex_transpose(cts, x, y):
    (ct,) = cts
    return (
        sum_to_shape(real_p.bind1(ct), x.aval.shape) if is_undefined(x) else None,
        sum_to_shape(neg_p.bind1(imag_p.bind1(ct)), y.aval.shape) if is_undefined(y) else None,
    )


complex_p.def_batch(batch_elementwise(complex_p))


@method("real")
@api_boundary
def real(x: ArrayLike, /) -> Array:
    """Real part, elementwise; real arrays stay as they are."""
    (a,) = promoted("real", (x,))
    return real_p.bind1(a) if dtypes.is_complex(a.dtype) else a


@method("imag")
@api_boundary
def imag(x: ArrayLike, /) -> Array:
    """Imaginary part, elementwise; 0 for real arrays."""
    (a,) = promoted("imag", (x,))
    return imag_p.bind1(a) if dtypes.is_complex(a.dtype) else full_like_aval(0, a.aval)


@method("conj")
@api_boundary
def conj(x: ArrayLike, /) -> Array:
    """Complex conjugate, elementwise; real arrays stay as they are."""
    (a,) = promoted("conj", (x,))
    return conj_p.bind1(a) if dtypes.is_complex(a.dtype) else a


conjugate = conj


@api_boundary
def angle(z: ArrayLike, deg: bool = False) -> Array:
    """Argument of a complex number in (-pi, pi], in radians or degrees."""
    (a,) = promoted("angle", (z,), inexact=True)
    result = arctan2(imag(a), real(a))
    return rad2deg(result) if deg else result


# -- comparison and logic -------------------------------------------------------------------------

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


@method("equal")
def equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x == y, elementwise."""
    try:
        return binary(eq_p, x, y)
    except BaseException as e:
        leave_api(e)
        raise


@method("not_equal")
def not_equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x != y, elementwise."""
    try:
        return binary(ne_p, x, y)
    except BaseException as e:
        leave_api(e)
        raise


@method("less")
def less(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x < y, elementwise; complex numbers in lexicographic order."""
    try:
        return binary(lt_p, x, y)
    except BaseException as e:
        leave_api(e)
        raise


@method("less_equal")
def less_equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x <= y, elementwise; complex numbers in lexicographic order."""
    try:
        return binary(le_p, x, y)
    except BaseException as e:
        leave_api(e)
        raise


@method("greater")
def greater(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x > y, elementwise; complex numbers in lexicographic order."""
    try:
        return binary(gt_p, x, y)
    except BaseException as e:
        leave_api(e)
        raise


@method("greater_equal")
def greater_equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x >= y, elementwise; complex numbers in lexicographic order."""
    try:
        return binary(ge_p, x, y)
    except BaseException as e:
        leave_api(e)
        raise


def truth(x: ArrayLike) -> Any:
    """x != 0 as booleans; booleans stay as they are."""
    (a,) = promoted("logical", (x,))
    return a if dtypes.is_bool(a.dtype) else a != scalar(0, a.dtype)


@method("logical_and")
@api_boundary
def logical_and(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Are both nonzero? Elementwise."""
    return binary(and_p, truth(x), truth(y))


@method("logical_or")
@api_boundary
def logical_or(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Is one nonzero? Elementwise."""
    return binary(or_p, truth(x), truth(y))


@method("logical_xor")
@api_boundary
def logical_xor(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Is just one nonzero? Elementwise."""
    return binary(xor_p, truth(x), truth(y))


@method("logical_not")
@api_boundary
def logical_not(x: ArrayLike, /) -> Array:
    """Is x zero? Elementwise."""
    return not_p.bind1(truth(x))


@method("bitwise_and")
@api_boundary
def bitwise_and(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Bitwise and of integers or booleans, elementwise."""
    return binary(and_p, x, y)


@method("bitwise_or")
@api_boundary
def bitwise_or(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Bitwise or of integers or booleans, elementwise."""
    return binary(or_p, x, y)


@method("bitwise_xor")
@api_boundary
def bitwise_xor(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Bitwise exclusive or of integers or booleans, elementwise."""
    return binary(xor_p, x, y)


@method("invert")
@api_boundary
def invert(x: ArrayLike, /) -> Array:
    """Bitwise not of integers, logical not of booleans, elementwise."""
    return unary(not_p, x)


bitwise_not = bitwise_invert = invert


@method("left_shift")
@api_boundary
def left_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x shifted left by y bits, elementwise; 0 where y is the width or more."""
    return binary(shift_left_p, x, y)


@method("right_shift")
@api_boundary
def right_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    """x shifted right by y bits, elementwise; signed integers keep their sign."""
    x, y = promoted("right_shift", (x, y))
    signed = dtypes.is_signed(x.dtype)
    return binary(shift_right_arithmetic_p if signed else shift_right_logical_p, x, y)


bitwise_left_shift, bitwise_right_shift = left_shift, right_shift


@api_boundary
def population_count(x: ArrayLike, /) -> Array:
    """Number of bits set, elementwise, in the dtype of x."""
    return unary(population_count_p, x)


@method("bitwise_count")
@api_boundary
def bitwise_count(x: ArrayLike, /) -> Array:
    """Number of bits set in |x|, elementwise, as uint8."""
    (a,) = promoted("bitwise_count", (x,))
    if dtypes.is_signed(a.dtype):
        a = abs(a)
    return population_count_p.bind1(a).astype(np.uint8)


@api_boundary
def clz(x: ArrayLike, /) -> Array:
    """Number of leading zero bits, elementwise."""
    return unary(clz_p, x)


# -- maximum, minimum, select, clamp --------------------------------------------------------------

# Where the operands are equal each takes half of the derivative, as in JAX.
max_p = elementwise(
    "max", ANY, lambda z, x, y: _share(x, y, z), lambda z, x, y: _share(y, x, z), called="maximum"
)
min_p = elementwise(
    "min", ANY, lambda z, x, y: _share(x, y, z), lambda z, x, y: _share(y, x, z), called="minimum"
)


def _share(x: Any, other: Any, z: Any) -> Any:
    if not dtypes.is_inexact(x.dtype):
        return 0
    return where(x == other, 0.5, mask(x == z, x)).astype(x.dtype)


@method("maximum")
def maximum(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The larger of x and y, elementwise; NaN where one is. Ties share the derivative."""
    try:
        return binary(max_p, x, y)
    except BaseException as e:
        leave_api(e)
        raise


@method("minimum")
def minimum(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The smaller of x and y, elementwise; NaN where one is. Ties share the derivative."""
    try:
        return binary(min_p, x, y)
    except BaseException as e:
        leave_api(e)
        raise


@method("fmax")
@api_boundary
def fmax(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The larger of x1 and x2, elementwise, ignoring NaN."""
    x, y = broadcasted("fmax", promoted("fmax", (x1, x2)))
    return where((x > y) | isnan(y), x, y)


@method("fmin")
@api_boundary
def fmin(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The smaller of x1 and x2, elementwise, ignoring NaN."""
    x, y = broadcasted("fmin", promoted("fmin", (x1, x2)))
    return where((x < y) | isnan(y), x, y)


# operands: which (bool, or int32 in [0, number of cases)), then the cases
select_n_p = Primitive("select_n", elementwise=True)


@select_n_p.def_abstract_eval
def _select_n_abstract_eval(which: ShapedArray, *cases: ShapedArray):
    if which.dtype != BOOL and which.dtype != np.int32:
        raise DTypeError(f"select_n: which must be bool or int32, got {which}. Cast it.")
    if which.dtype == BOOL and len(cases) != 2:
        raise ArgumentError(f"select_n: a bool chooses between 2 cases, got {len(cases)}.")
    if any(c.dtype != cases[0].dtype for c in cases):
        raise DTypeError(
            f"select_n: cases must have one dtype, got {' and '.join(map(str, cases))}. Cast them."
        )
    weak = all(c.weak_type for c in cases)
    shape = common_shape("select_n", (which, *cases))
    return (ShapedArray(shape, cases[0].dtype, weak),)


select_n_p.weak_result = False  # the cases decide
select_n_p.weak_of = lambda weak, params: all(weak[1:])
select_n_p.def_batch(batch_elementwise(select_n_p))


@select_n_p.def_jvp(symbolic_zeros=True)
def _select_n_jvp(primals, tangents):
    which, *cases = primals
    out = select_n_p.bind1(*primals)
    dots = tangents[1:]
    if all(t.__class__ is Zero for t in dots):
        return (out,), (Zero(out.aval),)
    filled = [
        scalar(0, c.dtype) if t.__class__ is Zero else t for c, t in zip(cases, dots, strict=True)
    ]
    t = select_n_p.bind1(which, *filled)
    return (out,), (broadcast_to_shape(t, out.shape),)


@select_n_p.def_transpose
def _select_n_transpose(cts, which, *cases):
    (ct,) = cts
    zero = scalar(0, ct.dtype)
    out = []
    for i, case in enumerate(cases):
        if not is_undefined(case):
            out.append(None)
            continue
        chosen = select_n_p.bind1(which, *(ct if j == i else zero for j in range(len(cases))))
        out.append(sum_to_shape(chosen, case.aval.shape))
    return (None, *out)


def select_n(which: ArrayLike, *cases: ArrayLike) -> Array:
    """The case that `which` numbers, elementwise.

    Args:
        which: bool (False chooses the first of two cases) or int32; the cases' shape or rank 0.
        cases: arrays of one shape and dtype.
    """
    try:
        w = as_array(which, "select_n")
        if dtypes.is_integer(w.dtype):
            w = convert(w, np.dtype(np.int32))
        return select_n_p.bind1(w, *broadcasted("select_n", promoted("select_n", cases)))
    except BaseException as e:
        leave_api(e)
        raise


@api_boundary
def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Array:
    """on_true where pred holds, on_false elsewhere."""
    return select_n(pred, on_false, on_true)


@method("where")
def where(
    condition: ArrayLike,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    /,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """x where the condition holds and y elsewhere, as numpy.where does.

    With the condition alone: the indices where it holds, as `nonzero` gives them, with `size` and
    `fill_value` for use under jit.

    The derivative of the branch that is not chosen is 0, also where its own slope is infinite or
    NaN.
    """
    try:
        if x is None and y is None:
            return METHODS["nonzero"](condition, size=size, fill_value=fill_value)
        if x is None or y is None:
            raise ArgumentError("where: needs both x and y, or neither. Pass the other one.")
        if state.current is None and condition.__class__ is ConcreteArray:
            quick = _where_known(condition._data, x, y)
            if quick is not None:
                return quick
        c = truth(condition)
        a, b = promoted("where", (x, y))
        c, a, b = broadcasted("where", (c, a, b))
        return select_n_p.bind1(c, b, a)
    except BaseException as e:
        leave_api(e)
        raise


def _where_known(condition: np.ndarray, x: Any, y: Any) -> ConcreteArray | None:
    """The shortest way for known arrays of one NumPy dtype; None where it does not apply."""
    weak = False
    if x.__class__ is ConcreteArray:
        a = x._data
        if y.__class__ is ConcreteArray:
            b, weak = y._data, x._weak and y._weak
        elif y.__class__ is float and a.dtype in add_p.ufunc_scalar_dtypes and not x._weak:
            b = scalar(y, a.dtype)._data
        else:
            return None
    elif (
        x.__class__ is float
        and y.__class__ is ConcreteArray
        and y._data.dtype in add_p.ufunc_scalar_dtypes
        and not y._weak
    ):
        b = y._data
        a = scalar(x, b.dtype)._data
    else:
        return None
    if condition.dtype != BOOL or a.dtype is not b.dtype:
        return None
    try:
        out = np.where(condition, a, b)
    except ValueError:
        return None  # shapes that do not fit: the slow way tells
    return ConcreteArray(out, weak)


clamp_p = Primitive("clamp", elementwise=True)  # operands: min, x, max


@clamp_p.def_abstract_eval
def _clamp_abstract_eval(low: ShapedArray, x: ShapedArray, high: ShapedArray):
    if not low.dtype == x.dtype == high.dtype or dtypes.is_complex(x.dtype):
        raise DTypeError(
            f"clamp: needs real operands of one dtype, got {low}, {x} and {high}. Cast them."
        )
    return (ShapedArray(common_shape("clamp", (low, x, high)), x.dtype, x.weak_type),)


clamp_p.weak_result = False  # the operand decides
clamp_p.weak_of = lambda weak, params: weak[1]
clamp_p.no_rule("transpose", "not linear")
clamp_p.def_batch(batch_elementwise(clamp_p))
# At the edges the derivative belongs to the bound, and to both where min = max, as in JAX.
clamp_p.def_slopes(
    lambda y, low, x, high: mask((low > x) & (low < high), y),
    lambda y, low, x, high: mask((x > low) & (x < high), y),
    lambda y, low, x, high: mask(x > high, y),
)


@api_boundary
def clamp(min: ArrayLike, x: ArrayLike, max: ArrayLike) -> Array:
    """x, raised to min where it is below and lowered to max where it is above, elementwise."""
    return nary(clamp_p, min, x, max)


@method("clip")
@api_boundary
def clip(arr: ArrayLike, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Array:
    """x limited to [min, max], elementwise, as numpy.clip does; None leaves a side open.

    At a limit the derivative is shared between x and the limit, as in JAX.
    """
    x = as_array(arr, "clip") if not isinstance(arr, (list, tuple)) else METHODS["asarray"](arr)
    if dtypes.is_complex(x.dtype):
        raise DTypeError(f"clip: needs a real array, got {x.aval}. Clip real and imag instead.")
    for limit in (min, max):
        if getattr(limit, "shape", ()) not in ((), x.shape):
            fits = as_array(limit, "clip")  # here, or the message would be maximum's
            result_shape("clip", (x.shape, fits.shape), (x.aval, fits.aval))
    if min is not None:
        x = maximum(min, x)
    if max is not None:
        x = minimum(max, x)
    return x


# -- conversion -----------------------------------------------------------------------------------

# params: new_dtype; weak_type, of the result
convert_element_type_p = Primitive("convert_element_type", elementwise=True, weak_result=False)


@convert_element_type_p.def_abstract_eval
def _convert_element_type_abstract_eval(x: ShapedArray, *, new_dtype, weak_type):
    return (ShapedArray(x.shape, new_dtype, weak_type),)


convert_element_type_p.weak_of = lambda weak, params: params["weak_type"]
convert_element_type_p.def_batch(batch_elementwise(convert_element_type_p))


@convert_element_type_p.def_jvp
def _convert_element_type_jvp(primals, tangents, *, new_dtype, weak_type):
    (x,), (t,) = primals, tangents
    y = convert_element_type_p.bind1(x, new_dtype=new_dtype, weak_type=weak_type)
    if t.__class__ is Zero or not dtypes.is_inexact(new_dtype):
        return (y,), (Zero(y.aval),)
    if dtypes.is_complex(t.dtype) and not dtypes.is_complex(new_dtype):
        t = real_p.bind1(t)
    return (y,), (convert(t, new_dtype),)


@convert_element_type_p.def_transpose
def _convert_element_type_transpose(cts, x, *, new_dtype, weak_type):
    (ct,) = cts
    old = x.aval.dtype
    if dtypes.is_complex(ct.dtype) and not dtypes.is_complex(old):
        ct = real_p.bind1(ct)
    return (convert(ct, old),)


convert_element_type_p.simplify = lambda inputs, params, out_avals: (
    [inputs[0]] if inputs[0].aval.dtype == params["new_dtype"] else None
)


@api_boundary
def convert_element_type(operand: ArrayLike, new_dtype: DTypeLike) -> Array:
    """The array with another dtype; complex to real takes the real part."""
    weak = new_dtype in (int, float, complex)
    return convert(as_array(operand, "convert_element_type"), dtypes.canonical(new_dtype), weak)


@method("astype")
def astype(x: ArrayLike, dtype: DTypeLike, /, copy: bool = False, device: Any = None) -> Array:
    """The array with another dtype, as numpy.ndarray.astype gives it."""
    try:
        a = as_array(x, "astype")
        new = dtypes.canonical(dtype) if dtype is not None else dtypes.default_float()
        if dtypes.is_complex(a.dtype) and not dtypes.is_complex(new):
            a = truth(a) if dtypes.is_bool(new) else real_p.bind1(a)
        return convert(a, new)
    except BaseException as e:
        leave_api(e)
        raise


# params: exponent_bits, mantissa_bits
reduce_precision_p = elementwise("reduce_precision", FLOAT)
reduce_precision_p.linear = True  # its derivative is taken as that of the identity
reduce_precision_p.holes.clear()


@reduce_precision_p.def_transpose
def _reduce_precision_transpose(cts, x, **params):
    return (reduce_precision_p.bind1(cts[0], **params),)


@api_boundary
def reduce_precision(operand: ArrayLike, exponent_bits: int, mantissa_bits: int) -> Array:
    """Round to a floating format of fewer bits and back, to nearest even."""
    (x,) = promoted("reduce_precision", (operand,))
    return reduce_precision_p.bind1(
        x, exponent_bits=int(exponent_bits), mantissa_bits=int(mantissa_bits)
    )


bitcast_convert_type_p = Primitive(
    "bitcast_convert_type", constant=True, weak_result=False
)  # params: new_dtype
bitcast_convert_type_p.no_rule("transpose", "has no derivative")


@bitcast_convert_type_p.def_abstract_eval
def _bitcast_convert_type_abstract_eval(x: ShapedArray, *, new_dtype):
    old, new = x.dtype.itemsize, new_dtype.itemsize
    if old == new:
        return (ShapedArray(x.shape, new_dtype),)
    if old > new:
        return (ShapedArray((*x.shape, old // new), new_dtype),)
    if not x.shape or x.shape[-1] * old != new:
        raise ShapeError(
            f"bitcast_convert_type: the last dimension of {x} must hold {new // old} elements to "
            f"make one {dtypes.short_name(new_dtype)}."
        )
    return (ShapedArray(x.shape[:-1], new_dtype),)


@bitcast_convert_type_p.def_batch
def _bitcast_convert_type_batch(args, bdims, *, new_dtype):
    (x,), (bdim,) = args, bdims
    return bitcast_convert_type_p.bind(moveaxis(x, bdim, 0), new_dtype=new_dtype), (0,)


@api_boundary
def bitcast_convert_type(operand: ArrayLike, new_dtype: DTypeLike) -> Array:
    """The same bits read as another dtype; a narrower one adds a last dimension."""
    x = as_array(operand, "bitcast_convert_type")
    return bitcast_convert_type_p.bind1(x, new_dtype=dtypes.canonical(new_dtype))


@method("view")
@api_boundary
def view(x: ArrayLike, dtype: DTypeLike = None) -> Array:
    """The same bits read as another dtype, as numpy.ndarray.view does along the last axis."""
    a = as_array(x, "view")
    if dtype is None:
        return a
    new = dtypes.canonical(dtype)
    old_size, new_size = a.dtype.itemsize, new.itemsize
    if old_size == new_size:
        return bitcast_convert_type(a, new)
    if not a.shape:
        raise ShapeError(f"view: a size change needs rank 1 or more, got {a.aval}.")
    if old_size > new_size:
        out = bitcast_convert_type(a, new)
        return reshape(out, (*a.shape[:-1], a.shape[-1] * (old_size // new_size)))
    n = new_size // old_size
    if a.shape[-1] % n:
        raise ShapeError(
            f"view: the last dimension must be a multiple of {n}, because so many elements make "
            f"one {dtypes.short_name(new)}, got {a.aval}. Use astype to convert values."
        )
    return bitcast_convert_type(reshape(a, (*a.shape[:-1], a.shape[-1] // n, n)), new)


stop_gradient_p = elementwise("stop_gradient", ANY, constant=True)


stop_gradient_p.simplify = lambda inputs, params, out_avals: [inputs[0]]


def stop_gradient_leaf(x: ArrayLike) -> Array:
    """The array itself, with derivative 0."""
    return stop_gradient_p.bind1(as_array(x, "stop_gradient"))


# -- special functions ----------------------------------------------------------------------------

erf_p = elementwise("erf", FLOAT, lambda y, x: (2 / math.sqrt(math.pi)) * exp_p.bind1(-(x * x)))
erfc_p = elementwise("erfc", FLOAT, lambda y, x: (-2 / math.sqrt(math.pi)) * exp_p.bind1(-(x * x)))
erf_inv_p = elementwise(
    "erf_inv", FLOAT, lambda y, x: (math.sqrt(math.pi) / 2) * exp_p.bind1(y * y)
)
lgamma_p = elementwise("lgamma", FLOAT, lambda y, x: digamma_p.bind1(x))
digamma_p = elementwise("digamma", FLOAT, lambda y, x: polygamma_p.bind1(scalar(1, x.dtype), x))
# The order m of polygamma(m, x) is an integer, so there is no slope in it.
polygamma_p = elementwise("polygamma", FLOAT, 0, lambda y, m, x: polygamma_p.bind1(m + 1, x))
bessel_i0e_p = elementwise(
    "bessel_i0e", FLOAT, lambda y, x: bessel_i1e_p.bind1(x) - sign_p.bind1(x) * y
)
bessel_i1e_p = elementwise("bessel_i1e", FLOAT, lambda y, x: _bessel_i1e_slope(y, x))


def _bessel_i1e_slope(y: Any, x: Any) -> Any:
    # i1e' = i0e - i1e * (sign(x) + 1 / x), whose limit at 0 is 1/2.
    zero = x == 0
    safe = where(zero, 1, x)
    return where(zero, 0.5, bessel_i0e_p.bind1(x) - y * (sign_p.bind1(x) + 1 / safe))


@api_boundary
def erf(x: ArrayLike, /) -> Array:
    """Error function, 2 / sqrt(pi) times the integral of e**(-t**2) from 0 to x, elementwise."""
    return unary(erf_p, x, inexact=True)


@api_boundary
def erfc(x: ArrayLike, /) -> Array:
    """1 - erf(x), elementwise, exact for large x."""
    return unary(erfc_p, x, inexact=True)


@api_boundary
def erf_inv(x: ArrayLike, /) -> Array:
    """Inverse of erf, elementwise; +-inf at +-1."""
    return unary(erf_inv_p, x, inexact=True)


@api_boundary
def lgamma(x: ArrayLike, /) -> Array:
    """Logarithm of |Gamma(x)|, elementwise."""
    return unary(lgamma_p, x, inexact=True)


@api_boundary
def digamma(x: ArrayLike, /) -> Array:
    """Derivative of lgamma, elementwise."""
    return unary(digamma_p, x, inexact=True)


@api_boundary
def polygamma(m: ArrayLike, x: ArrayLike, /) -> Array:
    """The m-th derivative of digamma at x, elementwise; m is a nonnegative integer."""
    return nary(polygamma_p, m, x, inexact=True)


@api_boundary
def bessel_i0e(x: ArrayLike, /) -> Array:
    """e**-|x| I_0(x): the exponentially scaled modified Bessel function of order 0."""
    return unary(bessel_i0e_p, x, inexact=True)


@api_boundary
def bessel_i1e(x: ArrayLike, /) -> Array:
    """e**-|x| I_1(x): the exponentially scaled modified Bessel function of order 1."""
    return unary(bessel_i1e_p, x, inexact=True)


@method("sinc")
@api_boundary
def sinc(x: ArrayLike, /) -> Array:
    """sin(pi x) / (pi x), elementwise, and 1 at 0, where all derivatives are right."""
    (a,) = promoted("sinc", (x,), inexact=True)
    return sinc_p.bind1(a)


# The derivatives of sinc are a primitive of their own: order n gives the n-th one, so that every
# order is right at 0.
sinc_p = elementwise("sinc", INEXACT, lambda y, x: sinc_derivative_p.bind1(x, order=1))
sinc_derivative_p = elementwise("sinc_derivative", INEXACT)  # params: order


@sinc_derivative_p.def_jvp
def _sinc_derivative_jvp(primals, tangents, *, order):
    (x,), (t,) = primals, tangents
    slope = sinc_derivative_p.bind1(x, order=order + 1)
    return sinc_derivative_p.bind(x, order=order), (scale(t, slope),)
