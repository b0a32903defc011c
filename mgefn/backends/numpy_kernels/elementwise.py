"""Kernels of `ops/elementwise/` that are more than one NumPy ufunc."""

from __future__ import annotations

from typing import Any

import numpy as np

from mgefn.backends.numpy_kernels.base import deliver, in_place, temp_bytes


def _mask_bytes(in_avals: Any, out_avals: Any, **params: Any) -> int:
    return 3 * out_avals[0].size


@in_place
def scale(t, slope, *, outs: tuple = (None,)) -> tuple:
    """t * slope, where a factor of exactly 0 wins over one that is not finite."""
    out = outs[0]
    if out is not None and (np.may_share_memory(out, t) or np.may_share_memory(out, slope)):
        # The repair below reads the factors again, so they must outlive the product.
        zero = np.equal(t, 0) | np.equal(slope, 0)
        product = np.multiply(t, slope, out=out)
        np.copyto(product, 0, where=zero & np.isnan(product))
        return (product,)
    product = np.multiply(t, slope) if out is None else np.multiply(t, slope, out=out)
    product = np.asarray(product)
    if _has_nan(product):
        repair = np.isnan(product)
        repair &= np.equal(t, 0) | np.equal(slope, 0)
        np.copyto(product, 0, where=repair)
    return (product,)


temp_bytes(_mask_bytes)(scale)


def _has_nan(x: np.ndarray) -> bool:
    """Is there a NaN? For contiguous floats one product of squares tells: they do not cancel."""
    if x.dtype.kind == "f" and x.dtype.itemsize >= 4 and x.flags.c_contiguous:
        flat = x.reshape(-1)
        value = np.dot(flat, flat)
        return bool(value != value)
    return bool(np.isnan(x).any())


def _divide(x, y, *, outs: tuple = (None,)) -> tuple:
    if x.dtype.kind not in "iu":
        return (np.divide(x, y, out=outs[0]) if outs[0] is not None else np.divide(x, y),)
    # Truncated division; by 0 it gives -1 (all bits set), as XLA does.
    x, y = np.broadcast_arrays(x, y)
    zero = y == 0
    safe = np.where(zero, 1, y).astype(x.dtype)
    quotient = np.floor_divide(x, safe)
    if x.dtype.kind == "i":
        quotient = quotient + ((quotient * safe != x) & ((x < 0) != (safe < 0))).astype(x.dtype)
    all_ones = np.array(-1).astype(x.dtype)
    return (deliver(np.where(zero, all_ones, quotient).astype(x.dtype), outs[0]),)


def _divide_temp(in_avals: Any, out_avals: Any, **params: Any) -> int:
    out = out_avals[0]
    return 0 if out.dtype.kind not in "iu" else 5 * out.nbytes + 4 * out.size


temp_bytes(_divide_temp)(_divide)
divide = in_place(_divide)


def rem(x, y, *, outs: tuple = (None,)) -> tuple:
    if x.dtype.kind not in "iu":
        return (np.fmod(x, y) if outs[0] is None else np.fmod(x, y, out=outs[0]),)
    # x rem 0 is x, as in XLA.
    zero = y == 0
    out = np.fmod(x, np.where(zero, 1, y).astype(x.dtype))
    return (deliver(np.where(zero, x, out).astype(x.dtype), outs[0]),)


def _rem_temp(in_avals: Any, out_avals: Any, **params: Any) -> int:
    out = out_avals[0]
    return 0 if out.dtype.kind not in "iu" else 3 * out.nbytes + out.size


temp_bytes(_rem_temp)(rem)


def power_by_squaring(x: Any, n: int) -> Any:
    """x to a power of at least 0, of any kind of array; None for 0."""
    result, base = None, x
    while n:
        if n & 1:
            result = base if result is None else result * base
        n >>= 1
        if n:
            base = base * base
    return result


def _binary_power(x, y, *, outs: tuple = (None,)) -> tuple:
    """x to an integer power by squaring, in the dtype of x."""
    result = power_by_squaring(x, abs(y))
    if result is None:
        result = np.ones_like(x)
    if y < 0:
        result = np.divide(np.ones((), x.dtype), result)
    return (deliver(result, outs[0]),)


temp_bytes(lambda i, o, **p: 3 * o[0].nbytes)(_binary_power)
integer_pow = _binary_power


def _zero_sign_temp(in_avals: Any, out_avals: Any, **params: Any) -> int:
    return 2 * out_avals[0].nbytes + out_avals[0].size


@temp_bytes(_zero_sign_temp)
def zero_sign(x, y, *, outs: tuple = (None,)) -> tuple:
    return (deliver(np.where(x == 0, np.copysign(x, y), x).astype(x.dtype), outs[0]),)


def sign(x, *, outs: tuple = (None,)) -> tuple:
    return (np.sign(x, out=outs[0]) if outs[0] is not None else np.sign(x),)


def logistic(x, *, outs: tuple = (None,)) -> tuple:
    one = np.ones((), x.dtype)
    y = np.negative(x) if outs[0] is None else np.negative(x, out=outs[0])
    y = np.asarray(y)
    np.exp(y, out=y)
    np.add(y, one, out=y)
    np.divide(one, y, out=y)
    return (y,)


def rsqrt(x, *, outs: tuple = (None,)) -> tuple:
    y = np.asarray(np.sqrt(x) if outs[0] is None else np.sqrt(x, out=outs[0]))
    np.divide(np.ones((), x.dtype), y, out=y)
    return (y,)


def round_(x, *, rounding_method, outs: tuple = (None,)) -> tuple:
    if rounding_method == 1:
        return (np.rint(x) if outs[0] is None else np.rint(x, out=outs[0]),)
    # Not floor(|x| + 0.5): the sum rounds up just below a half, and for large odd integers.
    whole = np.trunc(x)
    up = np.abs(x - whole) >= np.asarray(0.5, x.dtype)
    away = whole + np.copysign(up.astype(x.dtype), x)
    return (deliver(np.where(up, away, whole), outs[0]),)


def _round_temp(in_avals: Any, out_avals: Any, *, rounding_method: int) -> int:
    return 0 if rounding_method == 1 else 5 * out_avals[0].nbytes + out_avals[0].size


temp_bytes(_round_temp)(round_)


def complex_(x, y, *, outs: tuple = (None,)) -> tuple:
    shape = x.shape or y.shape
    out = outs[0]
    if out is None:
        out = np.empty(shape, np.complex64 if x.dtype == np.float32 else np.complex128)
    out.real = x
    out.imag = y
    return (out,)


def real(x, *, outs: tuple = (None,)) -> tuple:
    return (x.real if outs[0] is None else deliver(x.real, outs[0]),)


def imag(x, *, outs: tuple = (None,)) -> tuple:
    return (x.imag if outs[0] is None else deliver(x.imag, outs[0]),)


def absolute(x, *, outs: tuple = (None,)) -> tuple:
    if x.dtype.kind == "u":
        return (x if outs[0] is None else deliver(x, outs[0]),)
    return (np.abs(x) if outs[0] is None else np.abs(x, out=outs[0]),)


def _unsigned(x: np.ndarray) -> np.ndarray:
    """The same bits without a sign."""
    return x.view("u" + x.dtype.name) if x.dtype.kind == "i" else x


def _signed(x: np.ndarray) -> np.ndarray:
    """The same bits with a sign."""
    return x.view(x.dtype.name[1:]) if x.dtype.kind == "u" else x


def _shift(shifted: Any, x: np.ndarray, y: np.ndarray, out: np.ndarray | None) -> tuple:
    """A shift of bits in which none are left where the count is out of range."""
    x, y, dtype = _unsigned(x), _unsigned(y), x.dtype
    far = y >= x.dtype.itemsize * 8  # so is a negative count without its sign
    count = np.where(far, np.zeros((), y.dtype), y)
    into = None if out is None else _unsigned(out)
    moved = np.asarray(shifted(x, count) if into is None else shifted(x, count, out=into))
    np.copyto(moved, 0, where=far)
    return (moved.view(dtype) if out is None else out,)


def _shift_temp(in_avals: Any, out_avals: Any, **params: Any) -> int:
    y = in_avals[1]
    return 2 * y.nbytes + y.size


@temp_bytes(_shift_temp)
def shift_left(x, y, *, outs: tuple = (None,)) -> tuple:
    return _shift(np.left_shift, x, y, outs[0])


@temp_bytes(_shift_temp)
def shift_right_logical(x, y, *, outs: tuple = (None,)) -> tuple:
    return _shift(np.right_shift, x, y, outs[0])


@temp_bytes(_shift_temp)
def shift_right_arithmetic(x, y, *, outs: tuple = (None,)) -> tuple:
    top = x.dtype.itemsize * 8 - 1
    # The sign alone is left where the count is out of range, as it is after `top` places.
    count = np.minimum(_unsigned(y), np.asarray(top, _unsigned(y).dtype))
    into = None if outs[0] is None else _signed(outs[0])
    bits, count = _signed(x), _signed(np.asarray(count))
    moved = np.right_shift(bits, count) if into is None else np.right_shift(bits, count, out=into)
    return (np.asarray(moved).view(x.dtype) if into is None else outs[0],)


def population_count(x, *, outs: tuple = (None,)) -> tuple:
    bits = x.view("u" + x.dtype.name) if x.dtype.kind == "i" else x
    return (deliver(np.bitwise_count(bits).astype(x.dtype), outs[0]),)


def clz(x, *, outs: tuple = (None,)) -> tuple:
    unsigned = x.dtype.name if x.dtype.kind == "u" else "u" + x.dtype.name
    rest = x.astype(unsigned)
    # Fill every bit below the highest one set, and count what stays empty.
    for shift in (1, 2, 4, 8, 16, 32):
        if shift < x.dtype.itemsize * 8:
            rest = rest | (rest >> np.asarray(shift, rest.dtype))
    return (deliver((x.dtype.itemsize * 8 - np.bitwise_count(rest)).astype(x.dtype), outs[0]),)


for _k in (population_count, clz):
    temp_bytes(lambda i, o, **p: 4 * o[0].nbytes + o[0].size)(_k)


def maximum(x, y, *, outs: tuple = (None,)) -> tuple:
    return (np.maximum(x, y) if outs[0] is None else np.maximum(x, y, out=outs[0]),)


def select_n(which, *cases, outs: tuple = (None,)) -> tuple:
    out = outs[0]
    if which.dtype == np.bool_:
        if out is None:
            return (np.where(which, cases[1], cases[0]),)
        if np.may_share_memory(out, cases[1]):
            np.copyto(out, cases[0], where=np.logical_not(which))
            if out.shape != cases[1].shape:
                raise AssertionError("an output block is shared by operands of its shape only")
            return (out,)
        if not np.may_share_memory(out, cases[0]):
            np.copyto(out, cases[0])
        np.copyto(out, cases[1], where=which)
        return (out,)
    if out is None:
        shape = next((a.shape for a in (which, *cases) if a.shape), ())
        out = np.empty(shape, cases[0].dtype)
    for i, case in enumerate(cases):
        np.copyto(out, case, where=which == i)
    return (out,)


temp_bytes(lambda i, o, **p: o[0].size)(select_n)


def clamp(low, x, high, *, outs: tuple = (None,)) -> tuple:
    if outs[0] is None:
        return (np.asarray(np.minimum(np.maximum(low, x), high)),)
    y = np.maximum(low, x, out=outs[0])
    return (np.minimum(y, high, out=y),)


def convert_element_type(x, *, new_dtype, weak_type, outs: tuple = (None,)) -> tuple:
    out = outs[0]
    if x.dtype.kind == "c" and new_dtype.kind not in "cb":
        x = x.real
    if x.dtype.kind in "fV" and new_dtype.kind in "iu":
        return (_float_to_integer(x, new_dtype, out),)
    if out is None:
        return (x.astype(new_dtype, copy=False),)
    np.copyto(out, x, casting="unsafe")
    return (out,)


def _float_to_integer(x: np.ndarray, dtype: np.dtype, out: np.ndarray | None) -> np.ndarray:
    """Truncated and saturated; NaN becomes 0. NumPy leaves both to the processor."""
    wide = x.astype(np.float32) if x.dtype.itemsize < 4 else x
    out = np.empty(x.shape, dtype) if out is None else out
    np.copyto(out, wide, casting="unsafe")
    info = np.iinfo(dtype)
    # Both bounds are powers of 2 or 0, so they are exact in floating point.
    high, low = np.asarray(float(info.max) + 1, wide.dtype), np.asarray(info.min, wide.dtype)
    for wrong, value in ((wide >= high, info.max), (wide < low, info.min), (wide != wide, 0)):
        if wrong.any():
            np.copyto(out, np.asarray(value, dtype), where=wrong)
    return out


def _convert_temp(in_avals: Any, out_avals: Any, **params: Any) -> int:
    x, out = in_avals[0], out_avals[0]
    if x.dtype.kind in "fV" and out.dtype.kind in "iu":
        # Three masks, and the widened operand.
        return x.size * (3 + (4 if x.dtype.itemsize < 4 else 0))
    return 0


temp_bytes(_convert_temp)(convert_element_type)


def reduce_precision(x, *, exponent_bits, mantissa_bits, outs: tuple = (None,)) -> tuple:
    wide_bits = {2: (5, 10), 4: (8, 23), 8: (11, 52)}[x.dtype.itemsize]
    if x.dtype.kind == "V":
        wide_bits = (8, 7)
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    bits = np.asarray(x, order="C").view(unsigned)
    drop = wide_bits[1] - mantissa_bits
    if drop > 0:
        one = np.asarray(1, unsigned)
        last = (bits >> np.asarray(drop, unsigned)) & one
        half = np.asarray((1 << (drop - 1)) - 1, unsigned)
        rounded = (bits + half + last) & ~np.asarray((1 << drop) - 1, unsigned)
        bits = np.where(np.isnan(x), bits, rounded)
    y = bits.view(x.dtype)
    if exponent_bits < wide_bits[0]:
        bias = (1 << (exponent_bits - 1)) - 1
        largest = np.asarray(2.0**bias * (2 - 2.0**-mantissa_bits), np.float64)
        smallest = np.asarray(2.0 ** (1 - bias), np.float64)
        size = np.abs(y.astype(np.float64))
        y = np.where(size > largest, np.copysign(np.asarray(np.inf, x.dtype), y), y)
        y = np.where(size < smallest, np.copysign(np.asarray(0, x.dtype), y), y)
    return (deliver(y.astype(x.dtype), outs[0]),)


temp_bytes(lambda i, o, **p: 8 * o[0].nbytes + 24 * o[0].size)(reduce_precision)


def bitcast_convert_type(x, *, new_dtype, outs: tuple = (None,)) -> tuple:
    x = np.asarray(x, order="C")  # ascontiguousarray would give rank 0 a dimension
    old, new = x.dtype.itemsize, new_dtype.itemsize
    if old == new:
        y = x.view(new_dtype)
    elif old > new:
        y = x.reshape((*x.shape, 1)).view(new_dtype)
    else:
        y = x.view(new_dtype).reshape(x.shape[:-1])
    return (deliver(y, outs[0]),)


temp_bytes(lambda i, o, **p: o[0].nbytes)(bitcast_convert_type)
