"""Differences, integrals, interpolation, convolution of vectors, polynomials, and arithmetic that
is composed of several operations.
"""

from __future__ import annotations

import builtins
import math
import operator
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.core.array import scalar
from mgefn.core.array_methods import Array, ArrayLike, Axis, DTypeLike
from mgefn.errors import ArgumentError, DTypeError, ShapeError, api_boundary
from mgefn.numpy.assembling import concatenate
from mgefn.numpy.creation import asarray, zeros_like
from mgefn.ops import reductions
from mgefn.ops.contractions import dot_general
from mgefn.ops.elementwise import (
    abs,
    bitcast_convert_type,
    broadcasted,
    clip,
    conj,
    convert,
    exp,
    exp2,
    imag,
    isfinite,
    isnan,
    nextafter,
    not_equal,
    promoted,
    real,
    rem_p,
    remainder,
    right_shift,
    shift_right_logical_p,
    subtract,
    trunc,
    where,
)
from mgefn.ops.indexing.select import take
from mgefn.ops.shaping import (
    broadcast_to,
    broadcast_to_shape,
    normalize_axis,
    pad_p,
    ravel,
    reshape,
    rev,
    slice_in_dim,
)
from mgefn.ops.sorting import searchsorted
from mgefn.ops.special import bessel_i0e

# -- differences and integrals --------------------------------------------------------------------


def _float(name: str, x: ArrayLike) -> Any:
    (a,) = promoted(name, (x,), inexact=True)
    return a


@api_boundary
def diff(
    a: ArrayLike,
    n: int = 1,
    axis: int = -1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> Array:
    """The n-th differences of neighbours along an axis, as numpy.diff gives them.

    Args:
        a: an array of rank 1 or more.
        n: how many times to take differences.
        axis: along which.
        prepend, append: values to put before and after, numbers or arrays.
    """
    x = asarray(a)
    if not x.ndim:
        raise ShapeError("diff: needs rank 1 or more, got rank 0.")
    times = operator.index(n)
    if times < 0:
        raise ArgumentError(f"diff: n must be 0 or more, got {times}.")
    if times == 0:
        return x
    i = normalize_axis("diff", axis, x.ndim)
    parts = [x]
    for value, at_start in ((prepend, True), (append, False)):
        if value is not None:
            v = asarray(value)
            if not v.ndim:
                v = convert(v, dtypes.result_type(x, v))
                v = broadcast_to(v, tuple(1 if j == i else d for j, d in enumerate(x.shape)))
            parts.insert(0 if at_start else len(parts), v)
    if len(parts) > 1:
        x = concatenate(parts, i)
    op = not_equal if dtypes.is_bool(x.dtype) else subtract
    for _ in range(times):
        m = x.shape[i]
        if m == 0:
            break
        x = op(slice_in_dim(x, 1, m, axis=i), slice_in_dim(x, 0, m - 1, axis=i))
    return x


@api_boundary
def ediff1d(
    ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None
) -> Array:
    """The differences of neighbours of the flattened array, with values before and after."""
    x = ravel(asarray(ary))
    parts = [diff(x)]
    if to_begin is not None:
        parts.insert(0, convert(ravel(asarray(to_begin)), x.dtype))
    if to_end is not None:
        parts.append(convert(ravel(asarray(to_end)), x.dtype))
    return concatenate(parts)


@api_boundary
def gradient(
    f: ArrayLike,
    *varargs: ArrayLike,
    axis: Axis = None,
    edge_order: int | None = None,
) -> Any:
    """Derivatives from differences: central inside, one-sided at the ends; numpy.gradient.

    Args:
        f: values on a grid.
        varargs: the spacing: none for 1, one number for all axes, or for each axis a number or the
            coordinates.
        axis: the axes to differentiate along; None: all.
        edge_order: 1 or 2: the order of the differences at the ends.

    Returns:
        An array for one axis, else a list with one for each.
    """
    x = _float("gradient", f)
    order = 1 if edge_order is None else edge_order
    if order not in (1, 2):
        raise ArgumentError(f"gradient: edge_order must be 1 or 2, got {edge_order}.")
    if axis is None:
        axes = tuple(range(x.ndim))
    else:
        given = axis if isinstance(axis, (tuple, list)) else (axis,)
        axes = tuple(normalize_axis("gradient", a, x.ndim) for a in given)
    if not axes:
        return []
    spacing: list[Any] = [1.0] * len(axes)
    if len(varargs) == 1 and not asarray(varargs[0]).ndim:
        spacing = [varargs[0]] * len(axes)
    elif varargs:
        if len(varargs) != len(axes):
            raise ArgumentError(
                f"gradient: needs no spacing, one, or one for each of {len(axes)} axes, got "
                f"{len(varargs)}."
            )
        spacing = list(varargs)
    out = []
    for i, h in zip(axes, spacing, strict=True):
        if x.shape[i] < order + 1:
            raise ShapeError(
                f"gradient: axis {i} of {x.aval} must have {order + 1} elements or more."
            )
        out.append(_gradient_along(x, asarray(h), i, order))
    return out[0] if len(out) == 1 else out


def _gradient_along(x: Any, h: Any, axis: int, order: int) -> Any:
    n = x.shape[axis]

    def at(start: int, stop: int) -> Any:
        return slice_in_dim(x, start, stop, axis=axis)

    if h.ndim == 0:
        inside = (at(2, n) - at(0, n - 2)) / (2 * h)
        if order == 1:
            first, last = (at(1, 2) - at(0, 1)) / h, (at(n - 1, n) - at(n - 2, n - 1)) / h
        else:
            first = (-1.5 * at(0, 1) + 2.0 * at(1, 2) - 0.5 * at(2, 3)) / h
            last = (0.5 * at(n - 3, n - 2) - 2.0 * at(n - 2, n - 1) + 1.5 * at(n - 1, n)) / h
        return concatenate([first, inside, last], axis).astype(x.dtype)
    if h.shape != (n,):
        raise ShapeError(f"gradient: coordinates must have shape ({n},), got {h.aval}.")
    d = reshape(diff(h), tuple(n - 1 if j == axis else 1 for j in range(x.ndim)))

    def gap(start: int, stop: int) -> Any:
        return slice_in_dim(d, start, stop, axis=axis)

    left, right = gap(0, n - 2), gap(1, n - 1)
    inside = (
        -right / (left * (left + right)) * at(0, n - 2)
        + (right - left) / (left * right) * at(1, n - 1)
        + left / (right * (left + right)) * at(2, n)
    )
    if order == 1:
        first = (at(1, 2) - at(0, 1)) / gap(0, 1)
        last = (at(n - 1, n) - at(n - 2, n - 1)) / gap(n - 2, n - 1)
    else:
        a, b = gap(0, 1), gap(1, 2)
        first = (
            -(2 * a + b) / (a * (a + b)) * at(0, 1)
            + (a + b) / (a * b) * at(1, 2)
            - a / (b * (a + b)) * at(2, 3)
        )
        a, b = gap(n - 3, n - 2), gap(n - 2, n - 1)
        last = (
            b / (a * (a + b)) * at(n - 3, n - 2)
            - (b + a) / (a * b) * at(n - 2, n - 1)
            + (2 * b + a) / (b * (a + b)) * at(n - 1, n)
        )
    return concatenate([first, inside, last], axis).astype(x.dtype)


@api_boundary
def trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1
) -> Array:
    """The integral along an axis by the trapezoidal rule.

    Args:
        y: values.
        x: coordinates, along the axis or of the shape of y; None: they are dx apart.
        dx: the spacing where x is None.
        axis: the axis to integrate along.
    """
    values = _float("trapezoid", y)
    i = normalize_axis("trapezoid", axis, values.ndim)
    if x is None:
        gaps: Any = dx
    else:
        at = asarray(x)
        gaps = diff(at) if at.ndim == 1 else diff(at, axis=i)
        if at.ndim == 1:
            gaps = reshape(gaps, (-1,) + (1,) * (values.ndim - i - 1)) if gaps.size else gaps
    n = values.shape[i]
    pairs = slice_in_dim(values, 1, n, axis=i) + slice_in_dim(values, 0, max(n - 1, 0), axis=i)
    return 0.5 * reductions.sum(gaps * pairs, i)


@api_boundary
def unwrap(
    p: ArrayLike, discont: ArrayLike | None = None, axis: int = -1, period: ArrayLike = 2 * math.pi
) -> Array:
    """Angles with jumps of more than half a period replaced by their complements."""
    x = _float("unwrap", p) if not isinstance(period, int) else asarray(p)
    i = normalize_axis("unwrap", axis, x.ndim)
    if not x.shape[i]:
        return x
    jumps = diff(x, axis=i)
    half = asarray(period) / 2
    least = half if discont is None else discont
    wrapped = remainder(jumps + half, period) - half
    wrapped = where((wrapped == -half) & (jumps > 0), half, wrapped)
    shift = where(abs(jumps) < least, 0, wrapped - jumps).cumsum(i)
    first = slice_in_dim(x, 0, 1, axis=i)
    rest = slice_in_dim(x, 1, None, axis=i) + shift
    return concatenate([first.astype(rest.dtype), rest], i)


# -- interpolation and convolution ----------------------------------------------------------------


@api_boundary
def interp(
    x: ArrayLike,
    xp: ArrayLike,
    fp: ArrayLike,
    left: Any = None,
    right: Any = None,
    period: ArrayLike | None = None,
) -> Array:
    """Piecewise linear interpolation of the points (xp, fp) at x, as numpy.interp gives it.

    Args:
        x: where.
        xp: the points' coordinates, increasing.
        fp: the points' values.
        left, right: values before the first and after the last point; None: the end values;
            "extrapolate": on along the end pieces.
        period: the coordinates are angles of this period; left and right are not used.
    """
    at, points = promoted("interp", (x, xp), inexact=True)
    values = _float("interp", fp)
    wide = dtypes.promote_types(at.dtype, dtypes.real_part_dtype(values.dtype))
    at, points = convert(at, wide), convert(points, wide)
    values = convert(
        values, dtypes.complex_dtype(wide) if dtypes.is_complex(values.dtype) else wide
    )
    if points.ndim != 1 or points.shape != values.shape or not points.shape[0]:
        raise ShapeError(
            f"interp: xp and fp must be vectors of one length, at least 1, got {points.aval} and "
            f"{values.aval}."
        )
    if period is not None:
        at, points = remainder(at, period), remainder(points, period)
        order = points.argsort()
        points, values = take(points, order), take(values, order)
        points = concatenate([points[-1:] - period, points, points[:1] + period])
        values = concatenate([values[-1:], values, values[:1]])
        left = right = None
    n = points.shape[0]
    if n == 1:
        inside = broadcast_to_shape(values[0], at.shape)
    else:
        i = searchsorted(points, at, side="right")
        i = where(i < 1, 1, where(i > n - 1, n - 1, i))
        x0, x1 = take(points, i - 1), take(points, i)
        y0, y1 = take(values, i - 1), take(values, i)
        width = x1 - x0
        # Two points at one place: the value of the second.
        flat = width == 0
        inside = where(flat, y0, y0 + (at - x0) * ((y1 - y0) / where(flat, 1, width)))
    for bound, end, beyond in (
        (left, 0, at < points[0]),
        (right, n - 1, at > points[n - 1]),
    ):
        if isinstance(bound, str):
            if bound != "extrapolate":
                raise ArgumentError(
                    f"interp: left and right are values or 'extrapolate': {bound!r}."
                )
            continue
        inside = where(beyond, values[end] if bound is None else bound, inside)
    return convert(inside, values.dtype)


def _windows(x: Any, size: int) -> Any:
    """All runs of `size` neighbours of a vector, as rows."""
    n = x.shape[0] - size + 1
    index = np.arange(n)[:, None] + np.arange(size)[None, :]
    return take(x, index.astype(np.int32), 0, mode="clip")


def _convolved(name: str, a: Any, v: Any, mode: str) -> Any:
    """Sums of products of a vector with a reversed one at all shifts."""
    n, m = a.shape[0], v.shape[0]
    if not n or not m:
        raise ArgumentError(f"{name}: vectors must not be empty.")
    # "same" keeps the middle n of the full result, so that it starts (m - 1) // 2 in.
    middle = (m - 1 - (m - 1) // 2, (m - 1) // 2, 0)
    config = {"full": (m - 1, m - 1, 0), "same": middle, "valid": (0, 0, 0)}[mode]
    padded = pad_p.bind1(a, scalar(0, a.dtype), padding_config=(config,))
    count = padded.shape[0] - m + 1
    if m <= 32:
        # One shifted product for each element of the short vector: no block of windows.
        total = None
        for k in range(m):
            w = reshape(slice_in_dim(v, m - 1 - k, m - k), ())
            term = slice_in_dim(padded, k, k + count) * w
            total = term if total is None else total + term
        return total
    return dot_general(_windows(padded, m), rev(v, (0,)), (((1,), (0,)), ((), ())))


@api_boundary
def convolve(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "full",
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The convolution of two vectors, as numpy.convolve gives it.

    Args:
        a, v: vectors of one element or more.
        mode: "full": all shifts where they meet; "same": the middle ones, as many as the longer has
            elements; "valid": those where the shorter lies inside the longer.
        precision: accepted; sums always have full precision.
        preferred_element_type: dtype of the result.
    """
    x, y = _two_vectors("convolve", a, v, mode)
    if x.shape[0] < y.shape[0]:
        x, y = y, x
    out = _convolved("convolve", x, y, mode)
    return out if preferred_element_type is None else out.astype(preferred_element_type)


@api_boundary
def correlate(
    a: ArrayLike,
    v: ArrayLike,
    mode: str = "valid",
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike | None = None,
) -> Array:
    """The correlation of two vectors, the second conjugated; arguments as for `convolve`."""
    x, y = _two_vectors("correlate", a, v, mode)
    y = conj(y)
    swapped = x.shape[0] < y.shape[0]
    # Convolution with the reversed vector; where they were exchanged, the result is reversed.
    out = _convolved("correlate", *((y, rev(x, (0,))) if swapped else (x, rev(y, (0,)))), mode)
    out = rev(out, (0,)) if swapped else out
    return out if preferred_element_type is None else out.astype(preferred_element_type)


def _two_vectors(name: str, a: Any, v: Any, mode: str) -> tuple[Any, Any]:
    if mode not in ("full", "same", "valid"):
        raise ArgumentError(f"{name}: mode must be 'full', 'same' or 'valid', got {mode!r}.")
    x, y = promoted(name, (a, v))
    if x.ndim != 1 or y.ndim != 1:
        raise ShapeError(f"{name}: needs two vectors, got {x.aval} and {y.aval}.")
    if not x.shape[0] or not y.shape[0]:
        raise ArgumentError(f"{name}: vectors must not be empty.")
    return x, y


# -- numbers --------------------------------------------------------------------------------------


@api_boundary
def nan_to_num(
    x: ArrayLike,
    copy: bool = True,
    nan: ArrayLike = 0.0,
    posinf: ArrayLike | None = None,
    neginf: ArrayLike | None = None,
) -> Array:
    """NaN replaced by `nan`, infinities by the largest numbers or what is given; elementwise."""
    a = asarray(x)
    if not dtypes.is_inexact(a.dtype):
        return a
    if dtypes.is_complex(a.dtype):
        parts = (nan_to_num(v, copy, nan, posinf, neginf) for v in (real(a), imag(a)))
        re, im = parts
        return (re + 1j * im).astype(a.dtype)
    info = dtypes.finfo(a.dtype)
    high = float(info.max) if posinf is None else posinf
    low = float(info.min) if neginf is None else neginf
    out = where(isnan(a), convert(asarray(nan), a.dtype), a)
    out = where(out == math.inf, convert(asarray(high), a.dtype), out)
    return where(out == -math.inf, convert(asarray(low), a.dtype), out)


def _integers(name: str, x1: Any, x2: Any) -> tuple[Any, Any]:
    x, y = broadcasted(name, promoted(name, (x1, x2)))
    if not dtypes.is_integer(x.dtype):
        raise DTypeError(f"{name}: needs integers, got {x.aval} and {y.aval}. Cast them.")
    return x, y


@api_boundary
def gcd(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Greatest common divisor, elementwise; 0 and n have n."""
    x, y = _integers("gcd", x1, x2)
    x, y = abs(x), abs(y)
    bits = 8 * x.dtype.itemsize
    # Euclid takes the most steps for neighbours in Fibonacci's series, 1.44 for each bit.
    for _ in range(math.ceil(1.4405 * bits) + 1):
        done = y == 0
        x, y = where(done, x, y), where(done, 0, rem_p.bind1(x, where(done, 1, y)))
    return x


@api_boundary
def lcm(x1: ArrayLike, x2: ArrayLike) -> Array:
    """Least common multiple, elementwise; 0 where one is 0."""
    x, y = _integers("lcm", x1, x2)
    x, y = abs(x), abs(y)
    d = gcd(x, y)
    return where(d == 0, 0, x * (y // where(d == 0, 1, d)))


@api_boundary
def modf(x: ArrayLike, /, out: None = None) -> tuple[Array, Array]:
    """The fraction and the whole part of x, both with its sign, elementwise."""
    a = _float("modf", x)
    whole = trunc(a)
    return where(isfinite(a), a - whole, where(isnan(a), a, zeros_like(a))), whole


_FRACTION = {2: (10, 15, 0x1F), 4: (23, 127, 0xFF), 8: (52, 1023, 0x7FF)}


@api_boundary
def frexp(x: ArrayLike, /) -> tuple[Array, Array]:
    """(m, e) with x = m * 2**e and 0.5 <= |m| < 1, elementwise; e is int32."""
    a = _float("frexp", x)
    if dtypes.is_complex(a.dtype):
        raise DTypeError(f"frexp: needs a real array, got {a.aval}.")
    width = a.dtype.itemsize
    bits, bias, mask = _FRACTION[width] if a.dtype.kind != "V" else (7, 127, 0xFF)
    uint = np.dtype(f"u{width}")
    # Numbers too small for a full mantissa are scaled up first.
    small = abs(a) < float(dtypes.finfo(a.dtype).tiny)
    scaled = where(small, a * 2.0**bits, a)
    word = bitcast_convert_type(scaled, uint)
    exponent = (shift_right_logical_p.bind1(word, scalar(bits, uint)) & mask).astype(np.int32)
    exponent = exponent - (bias - 1) - where(small, bits, 0)
    plain = isfinite(a) & (a != 0)
    exponent = where(plain, exponent, 0).astype(np.int32)
    return where(plain, ldexp(a, -exponent), a), exponent


@api_boundary
def ldexp(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """x1 * 2**x2, elementwise, right also where 2**x2 alone would overflow."""
    x = _float("ldexp", x1)
    e = asarray(x2)
    if not dtypes.is_integer(e.dtype):
        raise DTypeError(f"ldexp: exponents must be integers, got {e.aval}. Cast them.")
    wide = dtypes.accumulator(x.dtype)
    far = 4 * int(dtypes.finfo(wide).maxexp)
    whole = clip(e, -far, far).astype(np.int32) if e.dtype.itemsize > 1 else e.astype(np.int32)
    # In four steps, none of which leaves the range where the result does not.
    step = right_shift(whole, 2)
    y = x.astype(wide)
    for part in (whole - 3 * step, step, step, step):
        y = y * exp2(convert(part, wide))
    return y.astype(x.dtype)


@api_boundary
def spacing(x: ArrayLike, /) -> Array:
    """The distance from x to the next number away from 0, with the sign of x, elementwise."""
    a = _float("spacing", x)
    away = where(a < 0, -math.inf, math.inf).astype(a.dtype)
    return where(isfinite(a), nextafter(a, away) - a, math.nan).astype(a.dtype)


@api_boundary
def i0(x: ArrayLike) -> Array:
    """The modified Bessel function of the first kind of order 0, elementwise."""
    a = _float("i0", x)
    return exp(abs(a)) * bessel_i0e(a)


@api_boundary
def fix(x: ArrayLike, out: None = None) -> Array:
    """x without its fraction, elementwise."""
    return trunc(x)


@api_boundary
def real_if_close(a: ArrayLike, tol: float = 100.0) -> Array:
    """The real part where all imaginary parts are within tol times the precision of 0.

    The values must be known.
    """
    x = asarray(a)
    if not dtypes.is_complex(x.dtype):
        return x
    least = tol * float(dtypes.finfo(x.dtype).eps) if tol > 1 else tol
    return real(x) if builtins.bool(reductions.all(abs(imag(x)) < least)) else x
