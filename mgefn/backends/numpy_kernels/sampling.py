"""Kernels of the functions by which samplers make numbers of bits, with their arithmetic fixed.

log, log1p, exp, erf and erf_inv are approximated by the polynomials and in the order of operations
that XLA has for CPUs, fused multiplications and additions included: random numbers are then the
same as jax.random's, also where a small difference decides whether a draw is accepted. They are not
more exact than NumPy's functions; erf_inv loses digits near +-1, where 1 - x**2 cancels.

float32 is reproduced to the last bit. A fused operation is computed in float64, where the product
is exact, and rounded to float32. float64 has no wider type to do so: a fused operation takes some
twenty plain ones. erf_inv leaves them out unless asked to be exact, and is then within 3 units in
the last place of XLA's; log is NumPy's, within one. Narrower types go through float32.

Sources: Moshier, Methods and Programs for Mathematical Functions, 1989 (log, log1p, exp); Giles,
Approximating the erfinv function, GPU Computing Gems 2 (2012), 109-116.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mgefn.backends.numpy_kernels.base import deliver, temp_bytes

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)

# Elements at a time: the scratch arrays of so many stay in the second-level cache.
CHUNK = 16384
_SCRATCH = 12  # arrays of float64 of a chunk's size, more than any function here holds at once


class Chunked:
    """A unary kernel that goes over its operand in chunks, in float32 or float64."""

    def __init__(self, name: str, narrow: Callable[..., Any], wide: Callable[..., Any]):
        self.__name__ = name
        self.narrow, self.wide = narrow, wide

    def __call__(self, x: np.ndarray, *, outs: tuple = (None,), **params: Any) -> tuple:
        out = np.empty(x.shape, x.dtype) if outs[0] is None else outs[0]
        assert out.flags.c_contiguous, "blocks of the arena are contiguous"
        source, target = x.reshape(-1), out.reshape(-1)
        is_wide = x.dtype == F64
        fn, dtype = (self.wide, F64) if is_wide else (self.narrow, F32)
        for start in range(0, source.size, CHUNK):
            part = slice(start, start + CHUNK)
            target[part] = fn(source[part].astype(dtype, copy=False), **params)
        return (out,)

    def temp_bytes(self, in_avals: Any, out_avals: Any, **params: Any) -> int:
        """A copy of an operand that is not contiguous, and a chunk's scratch."""
        return in_avals[0].nbytes + 8 * _SCRATCH * min(CHUNK, out_avals[0].size) + 4096


# -- fused multiplication and addition ------------------------------------------------------------


def _parts(x: Any) -> tuple[Any, Any]:
    """Two float64 of 26 bits each that add up to x."""
    big = x * 134217729.0  # 2**27 + 1
    high = big - (big - x)
    return high, x - high


def sum_with_errors(a: Any, b: Any, c: Any) -> tuple[Any, Any]:
    """a * b + c with the errors of the product and of the sum added at the end, and without.

    Of any kind of float64 arrays. Where a part overflows there are no errors to add, and the first
    is not finite.
    """
    p = a * b
    (a1, a0), (b1, b0) = _parts(a), _parts(b)
    of_product = ((a1 * b1 - p) + a1 * b0 + a0 * b1) + a0 * b0
    s = p + c
    d = s - p
    of_sum = (p - (s - d)) + (c - d)
    return s + (of_product + of_sum), s


def _fma64(a: np.ndarray, b: Any, c: Any) -> np.ndarray:
    exact, plain = sum_with_errors(a, b, c)
    return np.where(np.isfinite(exact), exact, plain)


def fma(a, b, c, *, outs: tuple = (None,)) -> tuple:
    if a.dtype == F64:
        return (deliver(_fma64(a, b, c), outs[0]),)
    wide = a.astype(F64) * b.astype(F64) + c.astype(F64)
    return (deliver(wide.astype(a.dtype), outs[0]),)


temp_bytes(lambda i, o, **p: 8 * _SCRATCH * o[0].size + 4096)(fma)


def _rounded(wide: np.ndarray) -> np.ndarray:
    return wide.astype(F32).astype(F64)


def _horner(coefficients: tuple[float, ...], x: np.ndarray) -> np.ndarray:
    """A polynomial of float32 numbers held as float64, by fused steps."""
    p = np.full_like(x, coefficients[0])
    narrow = np.empty(x.shape, F32)
    for c in coefficients[1:]:
        np.multiply(p, x, out=p)
        np.add(p, c, out=p)
        np.copyto(narrow, p, casting="same_kind")
        np.copyto(p, narrow)
    return p


def _horner64(coefficients: tuple[float, ...], x: np.ndarray, exact: bool) -> np.ndarray:
    """A polynomial in float64, by fused steps or by plain ones."""
    p = np.full_like(x, coefficients[0])
    for c in coefficients[1:]:
        if exact:
            p = _fma64(p, x, c)
        else:
            np.multiply(p, x, out=p)
            np.add(p, c, out=p)
    return p


def _float32(*values: float) -> tuple[float, ...]:
    """The numbers rounded to float32."""
    return tuple(np.array(values, F32).astype(F64).tolist())


# -- log and log1p --------------------------------------------------------------------------------

_LOG = tuple(
    _float32(*part)
    for part in (
        (7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1),
        (-1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1),
        (2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
    )
)
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
_ROOT_HALF = np.float32(0.707106781186547524)


def _log(x: np.ndarray) -> np.ndarray:
    word = x.view(np.int32)
    # x = m * 2**e with m in [1/2, 1), taken to [sqrt(1/2), sqrt(2)) and less 1.
    m = ((word & 0x007FFFFF) | 0x3F000000).view(F32)
    below = m < _ROOT_HALF
    e = ((word >> 23) - 126 - below).astype(F32)
    z = (m - F32.type(1)) + m * below
    square = z * z
    wide, cube = z.astype(F64), (square * z).astype(F64)
    y = _horner(_LOG[0], wide)
    for part in _LOG[1:]:
        y *= cube
        y += _horner(part, wide)
        y = _rounded(y)
    y *= cube
    y += _LN2_LOW * e
    z -= square * F32.type(0.5)
    z += y.astype(F32)
    z += _LN2_HIGH * e
    usual = (x >= np.finfo(F32).tiny) & (x < np.inf)
    return z if usual.all() else np.where(usual, z, np.log(x))


_TOP = (
    4.5270000862445199635215e-5,
    4.9854102823193375972212e-1,
    6.5787325942061044846969,
    2.9911919328553073277375e1,
    6.0949667980987787057556e1,
    5.7112963590585538103336e1,
    2.0039553499201281259648e1,
)
_BOTTOM = (
    1.0,
    1.5062909083469192043167e1,
    8.3047565967967209469434e1,
    2.2176239823732856465394e2,
    3.0909872225312059774938e2,
    2.1642788614495947685003e2,
    6.0118660497603843919306e1,
)
_TOP32, _BOTTOM32 = _float32(*_TOP), _float32(*_BOTTOM)
_SMALL = 0.41421356237309504880


def _log1p(x: np.ndarray) -> np.ndarray:
    out = np.empty_like(x)
    small = np.abs(x) < F32.type(_SMALL)
    at = np.flatnonzero(small)
    near = x.take(at)
    if near.size:
        wide = near.astype(F64)
        ratio = _horner(_TOP32, wide).astype(F32) / _horner(_BOTTOM32, wide).astype(F32)
        square = near * near
        tail = ((square * near) * ratio).astype(F64)
        out[at] = near + (tail - 0.5 * square.astype(F64)).astype(F32)
    if near.size < x.size:
        at = np.flatnonzero(~small)
        out[at] = _log(F32.type(1) + x.take(at))
    return out


def _log1p64(x: np.ndarray, exact: bool = False) -> np.ndarray:
    out = np.empty_like(x)
    small = np.abs(x) < _SMALL
    at = np.flatnonzero(small)
    near = x.take(at)
    if near.size:
        square = near * near
        ratio = _horner64(_TOP, near, exact) / _horner64(_BOTTOM, near, exact)
        tail = (square * near) * ratio
        out[at] = near + (_fma64(square, -0.5, tail) if exact else tail - 0.5 * square)
    if near.size < x.size:
        at = np.flatnonzero(~small)
        out[at] = np.log(1 + x.take(at))
    return out


# -- exp ------------------------------------------------------------------------------------------

_EXP = _float32(
    1.9875691500e-4,
    1.3981999507e-3,
    8.3334519073e-3,
    4.1665795894e-2,
    1.6666665459e-1,
    5.0000001201e-1,
)
# Between these the result is a normal number.
_EXP_LOW, _EXP_HIGH = np.float32(-87.0), np.float32(88.7228)


def _exp(x: np.ndarray) -> np.ndarray:
    usual = (x > _EXP_LOW) & (x < _EXP_HIGH)
    every = usual.all()
    whole = x
    if not every:
        x = np.where(usual, x, F32.type(0))
    n = np.rint(x * F32.type(1.44269504088896341))
    wide = n.astype(F64)
    r = _rounded(x - wide * float(_LN2_HIGH))
    r = _rounded(r - wide * float(_LN2_LOW))
    square = _rounded(r * r)
    y = (_horner(_EXP, r) * square + r).astype(F32) + F32.type(1)
    out = np.ldexp(y, n.astype(np.int32))
    return out if every else np.where(usual, out, np.exp(whole))


_EXP64_TOP = (1.2617719307481059e-4, 3.0299440770744196e-2, 1.0)
_EXP64_BOTTOM = (3.0019850513866446e-6, 2.5244834034968410e-3, 2.2726554820815503e-1, 2.0)


def _exp64(x: np.ndarray) -> np.ndarray:
    usual = np.abs(x) < 700  # the result is a normal number
    every = usual.all()
    whole = x
    if not every:
        x = np.where(usual, x, 0.0)
    n = np.floor(_fma64(x, 1.4426950408889634, 0.5))
    r = _fma64(n, -0.693145751953125, x)
    r = _fma64(n, -1.4286068203094173e-6, r)
    square = r * r
    p = _horner64(_EXP64_TOP, square, True) * r
    y = 1 + 2 * (p / (_horner64(_EXP64_BOTTOM, square, True) - p))
    out = np.ldexp(y, n.astype(np.int32))
    return out if every else np.where(usual, out, np.exp(whole))


# -- erf and its inverse --------------------------------------------------------------------------

_ERF_TOP = _float32(
    2.2905065861350646e-4,
    3.4082910107109506e-3,
    5.0955695062380861e-2,
    1.8520832239976145e-1,
    1.128379143519084,
)
_ERF_BOTTOM = _float32(
    -1.1791602954361697e-7,
    2.3547966471313185e-5,
    1.0179625278914885e-3,
    1.4070470171167667e-2,
    1.1098505178285362e-1,
    4.9746925110067538e-1,
    1.0,
)
_ERF_BOUND = np.float32(3.7439211627767994)


def _erf(x: np.ndarray) -> np.ndarray:
    z = np.clip(x, -_ERF_BOUND, _ERF_BOUND)
    square = (z * z).astype(F64)
    top, bottom = (_horner(c, square).astype(F32) for c in (_ERF_TOP, _ERF_BOTTOM))
    return np.where(np.abs(x) >= _ERF_BOUND, np.copysign(F32.type(1), x), z * top / bottom)


def _erf64(x: np.ndarray) -> np.ndarray:
    # The C library's function, one number after the other: only bounds go through it.
    return np.array([math.erf(v) for v in x.tolist()], F64)


_CENTRAL = _float32(
    2.81022636e-08,
    3.43273939e-07,
    -3.5233877e-06,
    -4.39150654e-06,
    0.00021858087,
    -0.00125372503,
    -0.00417768164,
    0.246640727,
    1.50140941,
)
_TAIL = _float32(
    -0.000200214257,
    0.000100950558,
    0.00134934322,
    -0.00367342844,
    0.00573950773,
    -0.0076224613,
    0.00943887047,
    1.00167406,
    2.83297682,
)


def _erf_inv(x: np.ndarray, exact: bool) -> np.ndarray:
    w = -_log1p(-(x * x))
    p = _horner(_CENTRAL, (w - F32.type(2.5)).astype(F64)).astype(F32)
    tail = np.flatnonzero(~(w < 5))
    if tail.size:
        p[tail] = _horner(_TAIL, (np.sqrt(w[tail]) - F32.type(3)).astype(F64)).astype(F32)
    return _with_ends(x, p * x)


def _with_ends(x: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    ends = np.abs(x) == 1
    return np.where(ends, x * np.inf, inverse) if ends.any() else inverse


_CENTRAL64 = (
    -3.64441206401782e-21,
    -1.6850591381820166e-19,
    1.28584807152564e-18,
    1.1157877678025181e-17,
    -1.3331716628546209e-16,
    2.0972767875968562e-17,
    6.6376381343583238e-15,
    -4.0545662729752069e-14,
    -8.1519341976054722e-14,
    2.6335093153082323e-12,
    -1.2975133253453532e-11,
    -5.4154120542946279e-11,
    1.0512122733215323e-09,
    -4.1126339803469837e-09,
    -2.9070369957882005e-08,
    4.2347877827932404e-07,
    -1.3654692000834679e-06,
    -1.3882523362786469e-05,
    0.00018673420803405714,
    -0.000740702534166267,
    -0.0060336708714301491,
    0.24015818242558962,
    1.6536545626831027,
)
_MIDDLE64 = (
    2.2137376921775787e-09,
    9.0756561938885391e-08,
    -2.7517406297064545e-07,
    1.8239629214389228e-08,
    1.5027403968909828e-06,
    -4.013867526981546e-06,
    2.9234449089955446e-06,
    1.2475304481671779e-05,
    -4.7318229009055734e-05,
    6.8284851459573175e-05,
    2.4031110387097894e-05,
    -0.00035503752036284748,
    0.0009532893797373805,
    -0.0016882755560235047,
    0.0024914420961078508,
    -0.0037512085075692412,
    0.0053709145535900636,
    1.0052589676941592,
    3.0838856104922208,
)
_TAIL64 = (
    -2.7109920616438573e-11,
    -2.5556418169965252e-10,
    1.5076572693500548e-09,
    -3.789465440126737e-09,
    7.61570120807834e-09,
    -1.496002662714924e-08,
    2.9147953450901081e-08,
    -6.7711997758452339e-08,
    2.2900482228026655e-07,
    -9.9298272942317e-07,
    4.5260625972231537e-06,
    -1.9681778105531671e-05,
    7.5995277030017761e-05,
    -0.00021503011930044477,
    -0.00013871931833623122,
    1.0103004648645344,
    4.8499064014085844,
)


def _erf_inv64(x: np.ndarray, exact: bool) -> np.ndarray:
    w = -_log1p64(-(x * x), exact)
    p = _horner64(_CENTRAL64, w - 3.125, exact)
    outer = np.flatnonzero(~(w < 6.25))
    if outer.size:
        far = w[outer]
        root = np.sqrt(far)
        middle = _horner64(_MIDDLE64, root - 3.25, exact)
        p[outer] = np.where(far < 16, middle, _horner64(_TAIL64, root - 5.0, exact))
    return _with_ends(x, p * x)


log = Chunked("log", _log, np.log)
log1p = Chunked("log1p", _log1p, _log1p64)
exp = Chunked("exp", _exp, _exp64)
erf = Chunked("erf", _erf, _erf64)
erf_inv = Chunked("erf_inv", _erf_inv, _erf_inv64)
