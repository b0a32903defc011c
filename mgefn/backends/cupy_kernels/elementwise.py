"""Kernels of `ops/elementwise/` that are more than one ufunc."""

from __future__ import annotations

from typing import Any

import numpy as np

from mgefn.backends.cupy_kernels.base import bits, choose, contiguous, full, is_narrow, put, widened
from mgefn.backends.numpy_kernels.elementwise import power_by_squaring
from mgefn.core.cuda import xp
from mgefn.dtypes import is_key


def scale(t: Any, slope: Any) -> tuple:
    """t * slope, where a factor of exactly 0 wins over one that is not finite."""
    product = xp.multiply(t, slope)
    put(product, 0, xp.isnan(product) & (xp.equal(t, 0) | xp.equal(slope, 0)))
    return (product,)


def divide(x: Any, y: Any) -> tuple:
    if x.dtype.kind not in "iu":
        return (xp.divide(x, y),)
    # Truncated division; by 0 it gives -1 (all bits set), as XLA does.
    zero = xp.equal(y, 0)
    safe = xp.where(zero, x.dtype.type(1), y)
    quotient = xp.floor_divide(x, safe)
    if x.dtype.kind == "i":
        inexact = xp.not_equal(quotient * safe, x)
        opposite = xp.not_equal(xp.less(x, 0), xp.less(safe, 0))
        quotient = quotient + (inexact & opposite).astype(x.dtype)
    all_ones = np.array(-1).astype(x.dtype)[()]
    return (xp.where(zero, all_ones, quotient),)


def rem(x: Any, y: Any) -> tuple:
    if x.dtype.kind not in "iu":
        # CuPy's fmod has no loop for bfloat16; the remainder of two of them is exact in float32.
        return (xp.fmod(widened(x), widened(y)).astype(x.dtype),)
    # x rem 0 is x, as in XLA.
    zero = xp.equal(y, 0)
    found = xp.fmod(x, xp.where(zero, x.dtype.type(1), y))
    return (xp.where(zero, x, found),)


def integer_pow(x: Any, *, y: int) -> tuple:
    """x to an integer power by squaring, in the dtype of x."""
    result = power_by_squaring(x, abs(y))
    if result is None:
        result = full(x.shape, 1, x.dtype)
    if y < 0:
        result = xp.divide(full((), 1, x.dtype), result)
    return (result,)


def zero_sign(x: Any, y: Any) -> tuple:
    return (choose(xp.equal(x, 0), xp.copysign(x, y), x),)


def sign(x: Any) -> tuple:
    if x.dtype.kind != "c":
        return (xp.sign(x),)
    size = xp.absolute(x)  # CuPy's sign takes no complex numbers
    zero = xp.equal(size, 0)
    return (xp.where(zero, x, x / xp.where(zero, size.dtype.type(1), size)),)


def rsqrt(x: Any) -> tuple:
    return (xp.divide(full((), 1, x.dtype), xp.sqrt(x)),)


def logistic(x: Any) -> tuple:
    one = full((), 1, x.dtype)
    return (xp.divide(one, xp.add(xp.exp(xp.negative(x)), one)),)


def round_(x: Any, *, rounding_method: int) -> tuple:
    if rounding_method == 1:
        return (xp.rint(x),)
    # Not floor(|x| + 0.5): the sum rounds up just below a half, and for large odd integers.
    wide = widened(x)
    whole = xp.trunc(wide)
    up = xp.greater_equal(xp.absolute(wide - whole), 0.5)
    away = whole + xp.copysign(up.astype(wide.dtype), wide)
    return (xp.where(up, away, whole).astype(x.dtype),)


def floor(x: Any) -> tuple:
    return (xp.floor(widened(x)).astype(x.dtype, copy=False),)


def ceil(x: Any) -> tuple:
    return (xp.ceil(widened(x)).astype(x.dtype, copy=False),)


def complex_(x: Any, y: Any) -> tuple:
    shape = x.shape or y.shape
    out = xp.empty(shape, np.complex64 if x.dtype == np.float32 else np.complex128)
    out.real[...] = x
    out.imag[...] = y
    return (out,)


def real(x: Any) -> tuple:
    return (x.real,)


def imag(x: Any) -> tuple:
    return (x.imag,)


def _unsigned(x: Any) -> Any:
    """The same bits without a sign."""
    return x.view("u" + x.dtype.name) if x.dtype.kind == "i" else x


def _signed(x: Any) -> Any:
    """The same bits with a sign."""
    return x.view(x.dtype.name[1:]) if x.dtype.kind == "u" else x


def _shift(shifted: Any, x: Any, y: Any) -> tuple:
    """A shift of bits in which none are left where the count is out of range."""
    dtype = x.dtype
    x, y = _unsigned(x), _unsigned(y)
    nothing = y.dtype.type(0)
    far = xp.greater_equal(y, dtype.itemsize * 8)  # so is a negative count without its sign
    moved = shifted(x, xp.where(far, nothing, y))
    return (xp.where(far, nothing, moved).view(dtype),)


def shift_left(x: Any, y: Any) -> tuple:
    return _shift(xp.left_shift, x, y)


def shift_right_logical(x: Any, y: Any) -> tuple:
    return _shift(xp.right_shift, x, y)


def shift_right_arithmetic(x: Any, y: Any) -> tuple:
    top = x.dtype.itemsize * 8 - 1
    # The sign alone is left where the count is out of range, as it is after `top` places.
    count = xp.minimum(_unsigned(y), top)
    return (xp.right_shift(_signed(x), _signed(count)).view(x.dtype),)


def population_count(x: Any) -> tuple:
    return (xp.bitwise_count(_unsigned(x)).astype(x.dtype),)


def clz(x: Any) -> tuple:
    rest = _unsigned(x)
    # Fill every bit below the highest one set, and count what stays empty.
    for places in (1, 2, 4, 8, 16, 32):
        if places < x.dtype.itemsize * 8:
            rest = rest | (rest >> places)
    return ((x.dtype.itemsize * 8 - xp.bitwise_count(rest)).astype(x.dtype),)


def select_n(which: Any, *cases: Any) -> tuple:
    if which.dtype.kind == "b":
        return (choose(which, cases[1], cases[0]),)
    chosen = cases[0]
    for i, case in enumerate(cases[1:], 1):
        chosen = choose(xp.equal(which, i), case, chosen)
    shape = which.shape or cases[0].shape
    return (chosen if chosen.shape == shape else xp.broadcast_to(chosen, shape),)


def clamp(low: Any, x: Any, high: Any) -> tuple:
    return (xp.minimum(xp.maximum(low, x), high),)


def convert_element_type(x: Any, *, new_dtype: np.dtype, weak_type: bool) -> tuple:
    if x.dtype.kind == "c" and new_dtype.kind not in "cb":
        x = x.real
    if x.dtype.kind in "fV" and new_dtype.kind in "iu":
        return (_float_to_integer(widened(x), new_dtype),)
    if x.dtype.kind == "V" and new_dtype.kind != "V":
        x = x.astype(np.float32)
    elif new_dtype.kind == "V" and x.dtype.kind != "V":
        x = x.astype(np.float32)
    return (x.astype(new_dtype, copy=False),)


def conversion_refused(arrays: tuple, params: dict[str, Any]) -> str | None:
    if params["new_dtype"].name.startswith("float8"):
        return "CuPy has no arithmetic for float8"
    return None


def _float_to_integer(x: Any, dtype: np.dtype) -> Any:
    """Truncated and saturated; NaN becomes 0."""
    info = np.iinfo(dtype)
    # Both bounds are powers of 2 or 0, so they are exact in floating point.
    high, low = xp.greater_equal(x, float(info.max) + 1), xp.less(x, float(info.min))
    nan = xp.isnan(x)
    out = xp.where(high | low | nan, x.dtype.type(0), x).astype(dtype)
    put(out, info.max, high)
    put(out, info.min, low)
    return out


def reduce_precision(x: Any, *, exponent_bits: int, mantissa_bits: int) -> tuple:
    widths = {2: (5, 10), 4: (8, 23), 8: (11, 52)}[x.dtype.itemsize]
    if x.dtype.kind == "V":
        widths = (8, 7)
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    words = contiguous(x).view(unsigned)
    drop = widths[1] - mantissa_bits
    if drop > 0:
        last = (words >> drop) & 1
        mask = (1 << (8 * x.dtype.itemsize)) - (1 << drop)
        rounded = (words + ((1 << (drop - 1)) - 1) + last) & mask
        words = xp.where(xp.isnan(x), words, rounded)
    y = words.view(x.dtype)
    if exponent_bits < widths[0]:
        bias = (1 << (exponent_bits - 1)) - 1
        wide = widened(y).astype(np.float64)
        size = xp.absolute(wide)
        large = xp.greater(size, 2.0**bias * (2 - 2.0**-mantissa_bits))
        small = xp.less(size, 2.0 ** (1 - bias))
        ends = xp.where(large, np.float64(np.inf), np.float64(0))
        ends = xp.copysign(ends, wide).astype(np.float32 if is_narrow(x.dtype) else x.dtype)
        y = choose(large | small, ends.astype(x.dtype), y)
    return (y,)


def bitcast_convert_type(x: Any, *, new_dtype: np.dtype) -> tuple:
    if is_key(new_dtype):
        new_dtype = np.dtype(np.uint64)  # as keys lie on a device
    x = contiguous(x)
    old, new = x.dtype.itemsize, new_dtype.itemsize
    if old == new:
        return (x.view(new_dtype),)
    if old > new:
        return (x.reshape((*x.shape, 1)).view(new_dtype),)
    return (x.view(new_dtype).reshape(x.shape[:-1]),)


def same(x: Any) -> tuple:
    return (x,)


def nextafter(x: Any, y: Any) -> tuple:
    """The next number from x towards y; of 2-byte floats by their bits."""
    if not is_narrow(x.dtype):
        return (xp.nextafter(x, y),)
    word = x.view(np.int16)
    outwards = xp.equal(xp.less(x, y), xp.greater(x, 0))
    step = xp.where(outwards, np.int16(1), np.int16(-1))
    smallest = xp.where(xp.less(y, 0), np.int16(-(2**15) + 1), np.int16(1))
    moved = xp.where(xp.equal(x, 0), smallest, word + step)
    nan = xp.isnan(x) | xp.isnan(y)
    moved = xp.where(xp.equal(x, y), bits(y).view(np.int16), moved)
    broken = np.asarray(np.nan, x.dtype).view(np.int16)[()]
    return (xp.where(nan, broken, moved).view(x.dtype),)
