"""Kernels of the functions by which samplers make numbers of bits; see the NumPy kernels' file.

The polynomials and the order of operations are those of `numpy_kernels/sampling.py`, so float32 is
the same to the last bit: fused operations are computed in float64 and rounded. There is no branch:
both sides of each case are computed and one is chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mgefn.backends.numpy_kernels import sampling as host
from mgefn.core.cuda import special, xp

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)


class InOwnPrecision:
    """A unary kernel in float64 for float64 and in float32 for all else."""

    def __init__(self, narrow: Callable[..., Any], wide: Callable[..., Any]):
        self.narrow, self.wide = narrow, wide

    def __call__(self, x: Any, **params: Any) -> tuple:
        if x.dtype == F64:
            return (self.wide(x, **params),)
        return (self.narrow(x.astype(F32, copy=False), **params).astype(x.dtype, copy=False),)


# -- fused multiplication and addition ------------------------------------------------------------


def _fma64(a: Any, b: Any, c: Any) -> Any:
    exact, plain = host.sum_with_errors(a, b, c)
    return xp.where(xp.isfinite(exact), exact, plain)


def fma(a: Any, b: Any, c: Any) -> tuple:
    if a.dtype == F64:
        return (_fma64(a, b, c),)
    narrow = [v.astype(F32, copy=False).astype(F64) for v in (a, b, c)]
    wide = narrow[0] * narrow[1] + narrow[2]
    if a.dtype.kind == "V":
        wide = wide.astype(F32)
    return (wide.astype(a.dtype),)


def _rounded(wide: Any) -> Any:
    return wide.astype(F32).astype(F64)


def _horner(coefficients: tuple[float, ...], x: Any) -> Any:
    """A polynomial of float32 numbers held as float64, by fused steps."""
    p = xp.full(x.shape, coefficients[0], F64)
    for c in coefficients[1:]:
        p = _rounded(p * x + c)
    return p


def _horner64(coefficients: tuple[float, ...], x: Any, exact: bool) -> Any:
    """A polynomial in float64, by fused steps or by plain ones."""
    p = xp.full(x.shape, coefficients[0], F64)
    for c in coefficients[1:]:
        p = _fma64(p, x, c) if exact else p * x + c
    return p


# -- log and log1p --------------------------------------------------------------------------------


def _log(x: Any) -> Any:
    word = x.view(np.int32)
    # x = m * 2**e with m in [1/2, 1), taken to [sqrt(1/2), sqrt(2)) and less 1.
    m = ((word & 0x007FFFFF) | 0x3F000000).view(F32)
    below = xp.less(m, host._ROOT_HALF)
    e = ((word >> 23) - 126 - below.astype(np.int32)).astype(F32)
    z = (m - F32.type(1)) + m * below.astype(F32)
    square = z * z
    wide, cube = z.astype(F64), (square * z).astype(F64)
    y = _horner(host._LOG[0], wide)
    for part in host._LOG[1:]:
        y = _rounded(y * cube + _horner(part, wide))
    y = y * cube + (host._LN2_LOW * e).astype(F64)
    z = z - square * F32.type(0.5)
    z = z + y.astype(F32)
    z = z + host._LN2_HIGH * e
    usual = xp.greater_equal(x, np.finfo(F32).tiny) & xp.less(x, F32.type(np.inf))
    return xp.where(usual, z, xp.log(x))


def _log1p(x: Any) -> Any:
    small = xp.less(xp.absolute(x), F32.type(host._SMALL))
    near = xp.where(small, x, F32.type(0))
    wide = near.astype(F64)
    top, bottom = (_horner(c, wide).astype(F32) for c in (host._TOP32, host._BOTTOM32))
    square = near * near
    tail = ((square * near) * (top / bottom)).astype(F64)
    by_series = near + (tail - 0.5 * square.astype(F64)).astype(F32)
    return xp.where(small, by_series, _log(F32.type(1) + x))


def _log1p64(x: Any, exact: bool = False) -> Any:
    small = xp.less(xp.absolute(x), host._SMALL)
    near = xp.where(small, x, F64.type(0))
    square = near * near
    top = _horner64(host._TOP, near, exact)
    ratio = top / _horner64(host._BOTTOM, near, exact)
    tail = (square * near) * ratio
    by_series = near + (_fma64(square, -0.5, tail) if exact else tail - 0.5 * square)
    return xp.where(small, by_series, xp.log(1 + x))


# -- exp ------------------------------------------------------------------------------------------


def _exp(whole: Any) -> Any:
    usual = xp.greater(whole, host._EXP_LOW) & xp.less(whole, host._EXP_HIGH)
    x = xp.where(usual, whole, F32.type(0))
    n = xp.rint(x * F32.type(1.44269504088896341))
    wide = n.astype(F64)
    r = _rounded(x.astype(F64) - wide * float(host._LN2_HIGH))
    r = _rounded(r - wide * float(host._LN2_LOW))
    square = _rounded(r * r)
    y = (_horner(host._EXP, r) * square + r).astype(F32) + F32.type(1)
    return xp.where(usual, xp.ldexp(y, n.astype(np.int32)), xp.exp(whole))


def _exp64(whole: Any) -> Any:
    usual = xp.less(xp.absolute(whole), 700)  # the result is a normal number
    x = xp.where(usual, whole, F64.type(0))
    n = xp.floor(_fma64(x, 1.4426950408889634, 0.5))
    r = _fma64(n, -0.693145751953125, x)
    r = _fma64(n, -1.4286068203094173e-6, r)
    square = r * r
    p = _horner64(host._EXP64_TOP, square, True) * r
    y = 1 + 2 * (p / (_horner64(host._EXP64_BOTTOM, square, True) - p))
    return xp.where(usual, xp.ldexp(y, n.astype(np.int32)), xp.exp(whole))


# -- erf and its inverse --------------------------------------------------------------------------


def _erf(x: Any) -> Any:
    bound = host._ERF_BOUND
    z = xp.minimum(xp.maximum(x, -bound), bound)
    square = (z * z).astype(F64)
    top, bottom = (_horner(c, square).astype(F32) for c in (host._ERF_TOP, host._ERF_BOTTOM))
    end = xp.copysign(F32.type(1), x)
    return xp.where(xp.greater_equal(xp.absolute(x), bound), end, z * top / bottom)


def _erf64(x: Any) -> Any:
    return special.erf(x)


def _with_ends(x: Any, inverse: Any) -> Any:
    return xp.where(xp.equal(xp.absolute(x), 1), x * x.dtype.type(np.inf), inverse)


def _erf_inv(x: Any, exact: bool) -> Any:
    w = -_log1p(-(x * x))
    central = _horner(host._CENTRAL, (w - F32.type(2.5)).astype(F64)).astype(F32)
    root = xp.sqrt(w) - F32.type(3)
    tail = _horner(host._TAIL, root.astype(F64)).astype(F32)
    return _with_ends(x, xp.where(xp.less(w, 5), central, tail) * x)


def _erf_inv64(x: Any, exact: bool) -> Any:
    w = -_log1p64(-(x * x), exact)
    central = _horner64(host._CENTRAL64, w - 3.125, exact)
    root = xp.sqrt(w)
    middle = _horner64(host._MIDDLE64, root - 3.25, exact)
    far = _horner64(host._TAIL64, root - 5.0, exact)
    outer = xp.where(xp.less(w, 16), middle, far)
    return _with_ends(x, xp.where(xp.less(w, 6.25), central, outer) * x)


log = InOwnPrecision(_log, lambda x: xp.log(x))
log1p = InOwnPrecision(_log1p, _log1p64)
exp = InOwnPrecision(_exp, _exp64)
erf = InOwnPrecision(_erf, _erf64)
erf_inv = InOwnPrecision(_erf_inv, _erf_inv64)
