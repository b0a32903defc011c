"""Random bits, and what is uniform: numbers, integers, coins. All else is made from these."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.core.array import scalar
from mgefn.core.array_methods import Array, ArrayLike, DTypeLike
from mgefn.errors import (
    ArgumentError,
    DTypeError,
    ShapeError,
    api_boundary,
)
from mgefn.numpy.assembling import broadcast_shapes
from mgefn.numpy.creation import asarray
from mgefn.ops.elementwise import (
    bitcast_convert_type,
    bitwise_or,
    bitwise_xor,
    clip,
    convert,
    left_shift,
    maximum,
    rem_p,
    shift_right_logical_p,
    where,
)
from mgefn.ops.random_bits import UINT64, counters, sampling_fma_p, threefry2x32_p
from mgefn.ops.shaping import (
    broadcast_to,
    canonical_shape,
    reshape,
    slice_in_dim,
)
from mgefn.random.keys import row, split, words

_UINTS = {8: "uint8", 16: "uint16", 32: "uint32", 64: "uint64"}


def random_bits(name: str, key: Any, width: int, shape: tuple[int, ...]) -> Any:
    k0, k1 = words(name, key)
    high, low = threefry2x32_p.bind(k0, k1, *counters(shape))
    if width == 64:
        return bitwise_or(
            left_shift(convert(high, UINT64), scalar(32, UINT64)), convert(low, UINT64)
        )
    mixed = bitwise_xor(high, low)
    return mixed if width == 32 else convert(mixed, np.dtype(_UINTS[width]))


def result_shape(name: str, shape: Any, *parameters: Any) -> tuple[int, ...]:
    """The shape of a result; None: that of the parameters, which must broadcast to it."""
    shapes = [np.shape(p) if not isinstance(p, Array) else p.shape for p in parameters]
    if shape is None:
        return broadcast_shapes(*shapes)
    new = canonical_shape(name, shape)
    for s in shapes:
        if len(s) > len(new) or any(
            n not in (1, m) for n, m in zip(s[::-1], new[::-1], strict=False)
        ):
            raise ShapeError(f"{name}: a parameter of shape {s} does not broadcast to {new}.")
    return new


def float_dtype(name: str, dtype: DTypeLike | None) -> np.dtype:
    new = dtypes.default_float() if dtype is None else dtypes.canonical(dtype)
    if not dtypes.is_float(new):
        raise DTypeError(f"{name}: dtype must be a floating type, got {new}.")
    return new


@api_boundary
def bits(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None) -> Array:
    """Random bits as unsigned integers, by default uint32 (uint64 where ints have 64 bits)."""
    new = dtypes.canonical(f"uint{8 * dtypes.default_int().itemsize}" if dtype is None else dtype)
    if new.kind != "u":
        raise DTypeError(f"bits: dtype must be an unsigned integer, got {new}.")
    return random_bits("bits", key, 8 * new.itemsize, canonical_shape("bits", shape))


@api_boundary
def uniform(
    key: ArrayLike,
    shape: Any = (),
    dtype: DTypeLike | None = None,
    minval: ArrayLike = 0.0,
    maxval: ArrayLike = 1.0,
) -> Array:
    """Numbers evenly distributed in [minval, maxval).

    Args:
        key: a key.
        shape: of the result; minval and maxval broadcast to it.
        dtype: a floating type; None: float32 by default.
        minval, maxval: the bounds.

    Example:
        >>> mgefn.random.uniform(mgefn.random.key(0), (2,))
        Array([0.947667 , 0.9785799], dtype=float32)
    """
    return uniform_of(
        "uniform",
        key,
        result_shape("uniform", shape, minval, maxval),
        float_dtype("uniform", dtype),
        minval,
        maxval,
    )


def uniform_of(
    name: str, key: Any, shape: tuple[int, ...], dtype: np.dtype, minval: Any, maxval: Any
) -> Any:
    info = dtypes.finfo(dtype)
    width = 8 * dtype.itemsize
    drawn = 8 if info.nmant < 8 else width
    uint = np.dtype(_UINTS[width])
    random = convert(random_bits(name, key, drawn, shape), uint)
    # Random bits as the mantissa of a number in [1, 2).
    mantissa = shift_right_logical_p.bind1(random, scalar(drawn - info.nmant, uint))
    one = int(np.array(1, dtype).view(uint))
    floats = bitcast_convert_type(bitwise_or(mantissa, scalar(one, uint)), dtype)
    floats = floats - scalar(1, dtype)
    if minval.__class__ is float and maxval.__class__ is float and (minval, maxval) == (0, 1):
        return floats
    low, high = (convert(asarray(v), dtype) for v in (minval, maxval))
    return maximum(low, fma(floats, high - low, low))


def fma(a: Any, b: Any, c: Any) -> Any:
    """a * b + c, in float32 and float64 rounded once; a has the shape of the result."""
    b, c = (scalar(x, a.dtype) if x.__class__ is float else x for x in (b, c))
    if a.dtype.itemsize < 4:
        return a * b + c
    return sampling_fma_p.bind1(a, *(broadcast_to(x, a.shape) if x.ndim else x for x in (b, c)))


def _clipped(name: str, value: Any, dtype: np.dtype) -> tuple[Any, Any]:
    """A bound within the range of a dtype, and whether it lay above."""
    info = np.iinfo(dtype)
    if isinstance(value, (int, np.integer)):
        n = operator.index(value)
        return scalar(min(max(n, int(info.min)), int(info.max)), dtype), n > info.max
    x = asarray(value)
    if not dtypes.is_integer(x.dtype):
        x = x.astype(dtypes.default_int())
    if x.dtype == dtype:
        return x, False
    own = np.iinfo(x.dtype)
    low, high = max(info.min, own.min), min(info.max, own.max)
    return convert(clip(x, int(low), int(high)), dtype), x > int(high)


@api_boundary
def randint(
    key: ArrayLike,
    shape: Any,
    minval: ArrayLike,
    maxval: ArrayLike,
    dtype: DTypeLike | None = None,
) -> Array:
    """Integers in [minval, maxval), evenly distributed up to a bias of one part in 2**32.

    Args:
        key: a key.
        shape: of the result; minval and maxval broadcast to it.
        minval, maxval: integers; where maxval is not above minval the result is minval.
        dtype: an integer type; None: int32 by default.

    Example:
        >>> mgefn.random.randint(mgefn.random.key(0), (3,), 0, 10)
        Array([...], dtype=int32)
    """
    new = dtypes.default_int() if dtype is None else dtypes.canonical(dtype)
    if not dtypes.is_integer(new):
        raise DTypeError(f"randint: dtype must be an integer type, got {new}.")
    sizes = result_shape("randint", shape, minval, maxval)
    work = new
    if new.itemsize < 4:
        work = np.dtype(np.int32)
        info = np.iinfo(new)
        low, high = (
            clip(convert(_clipped("randint", v, work)[0], work), int(info.min), int(info.max) + i)
            for i, v in enumerate((minval, maxval))
        )
        above: Any = False
    else:
        low, _ = _clipped("randint", minval, work)
        high, above = _clipped("randint", maxval, work)
    width = 8 * work.itemsize
    uint = np.dtype(_UINTS[width])
    keys = split(key)
    higher, lower = (random_bits("randint", row(keys, i), width, sizes) for i in range(2))
    nonempty = high > low
    span = where(nonempty, convert(high - low, uint), scalar(1, uint))
    if above is not False:
        one_more = above & nonempty
        span = span + convert(one_more, uint)
    # 2**width modulo span weighs the higher word. A span that wrapped to 0 is the full range.
    span = broadcast_to(span, sizes)
    half = scalar(2 ** (width // 2), uint)
    root = rem_p.bind1(half, span)
    weight = rem_p.bind1(root * root, span)
    offset = rem_p.bind1(higher, span) * weight + rem_p.bind1(lower, span)
    offset = rem_p.bind1(offset, span)
    return convert(low + convert(offset, work), new)


@api_boundary
def bernoulli(key: ArrayLike, p: ArrayLike = 0.5, shape: Any = None, mode: str = "low") -> Array:
    """Booleans that are true with probability p.

    Args:
        key: a key.
        p: probabilities, floating.
        shape: of the result; None: that of p.
        mode: "low": p counts to a precision of 2**-23 for float32; "high": smaller p too.
    """
    if mode not in ("low", "high"):
        raise ArgumentError(f"bernoulli: mode must be 'low' or 'high', got {mode!r}.")
    x = asarray(p)
    if not dtypes.is_float(x.dtype):
        raise DTypeError(f"bernoulli: p must be floating, got {x.aval}. Cast it.")
    sizes = result_shape("bernoulli", shape, x)
    if mode == "low":
        return uniform_of("bernoulli", key, sizes, x.dtype, 0.0, 1.0) < x
    first, second = uniform_pair("bernoulli", key, sizes, x.dtype)
    return second * scalar(2.0 ** -dtypes.finfo(x.dtype).nmant, x.dtype) < x - first


def uniform_pair(name: str, key: Any, shape: tuple[int, ...], dtype: np.dtype) -> tuple[Any, Any]:
    both = uniform_of(name, key, (2, *shape), dtype, 0.0, 1.0)
    first, second = (reshape(slice_in_dim(both, i, i + 1), shape) for i in range(2))
    return first, second


@api_boundary
def rademacher(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None) -> Array:
    """-1 and 1, each with probability 1/2."""
    new = dtypes.default_int() if dtype is None else dtypes.canonical(dtype)
    return convert(2 * convert(bernoulli(key, 0.5, shape), new) - 1, new)


__all__ = [
    "bernoulli",
    "bits",
    "rademacher",
    "randint",
    "uniform",
]
