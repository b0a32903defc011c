"""Random numbers as functions of a key: the same key gives the same numbers, everywhere.

    key = mgefn.random.key(0)
    key, subkey = mgefn.random.split(key)
    x = mgefn.random.normal(subkey, (3,))

A key is an array of two uint32 words, or, for functions that map over keys by `vmap`, a batch of
them. Use a key once, and split it for more. There is no global state.

The numbers are those of jax.random for the same key (its implementation threefry2x32 with
jax_threefry_partitionable, the default): bits, uniform, randint and permutation exactly, others up
to the rounding of erf_inv, log and their kin.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.config import config
from mgefn.core.array import ConcreteArray, as_array, scalar
from mgefn.core.array_methods import Array, ArrayLike, DTypeLike
from mgefn.core.tracer import Tracer
from mgefn.errors import (
    ArgumentError,
    ConcretizationTypeError,
    DTypeError,
    ShapeError,
    api_boundary,
)
from mgefn.numpy.assembling import broadcast_shapes, stack
from mgefn.numpy.creation import arange, asarray, zeros
from mgefn.numpy.linalg import norm
from mgefn.ops import reductions
from mgefn.ops.cumulative import cumsum
from mgefn.ops.elementwise import (
    abs,
    bitcast_convert_type,
    bitwise_or,
    bitwise_xor,
    clip,
    convert,
    exp,
    floor,
    left_shift,
    log,
    log1p,
    maximum,
    nextafter,
    power,
    promoted,
    rem_p,
    shift_right_logical_p,
    sign,
    sqrt,
    stop_gradient_leaf,
    tan,
    where,
)
from mgefn.ops.indexing.select import take
from mgefn.ops.random_bits import UINT32, UINT64, counters, threefry2x32_p
from mgefn.ops.shaping import (
    broadcast_to,
    canonical_shape,
    moveaxis,
    normalize_axis,
    reshape,
    slice_in_dim,
)
from mgefn.ops.sorting import searchsorted, sort_key_val, top_k
from mgefn.ops.special import erf, erf_inv

__all__ = [
    "PRNGKey",
    "bernoulli",
    "bits",
    "categorical",
    "cauchy",
    "choice",
    "clone",
    "double_sided_maxwell",
    "exponential",
    "fold_in",
    "geometric",
    "gumbel",
    "key",
    "key_data",
    "key_impl",
    "laplace",
    "logistic",
    "lognormal",
    "maxwell",
    "normal",
    "pareto",
    "permutation",
    "rademacher",
    "randint",
    "rayleigh",
    "split",
    "triangular",
    "truncated_normal",
    "uniform",
    "wald",
    "weibull_min",
    "wrap_key_data",
]

IMPLEMENTATION = "threefry2x32"

# -- keys -----------------------------------------------------------------------------------------


@api_boundary
def key(seed: ArrayLike, *, impl: str | None = None, dtype: Any = None) -> Array:
    """A key from an integer.

    Args:
        seed: an integer. Its low 32 bits count, and the high ones too where
            `config.enable_x64` is on or it is an array of 64 bits.
        impl: None or "threefry2x32".
        dtype: accepted; a key is an array of uint32.

    Returns:
        Array of two uint32.

    Example:
        >>> mgefn.random.key(7)
        Array([0, 7], dtype=uint32)
    """
    if impl not in (None, IMPLEMENTATION, "fry"):
        raise ArgumentError(f"key: impl must be {IMPLEMENTATION!r}, got {impl!r}. Leave it out.")
    if isinstance(seed, (int, np.integer)) and not isinstance(seed, np.ndarray):
        value = operator.index(seed)
        if not -(2**63) <= value < 2**64:
            raise ArgumentError(f"key: seed must fit 64 bits, got {value}.")
        high = (value >> 32) & 0xFFFFFFFF if config.enable_x64 else 0
        return ConcreteArray(np.array([high, value & 0xFFFFFFFF], UINT32))
    x = as_array(seed, "key")
    if x.ndim or not dtypes.is_integer(x.dtype):
        raise ArgumentError(
            f"key: seed must be an integer of rank 0, got {x.aval}. Use vmap for many seeds."
        )
    if x.dtype.itemsize == 8:
        wide = convert(x, UINT64)
        words = [convert(shift_right_logical_p.bind1(wide, scalar(32, UINT64)), UINT32)]
    else:
        words = [scalar(0, UINT32)]
    return stack([*words, convert(x, UINT32)])


@api_boundary
def PRNGKey(seed: ArrayLike, *, impl: str | None = None) -> Array:
    """`key` under its older name."""
    return key(seed, impl=impl)


@api_boundary
def key_data(keys: ArrayLike) -> Array:
    """The words of a key: the key itself."""
    return asarray(keys)


@api_boundary
def wrap_key_data(
    key_bits_array: ArrayLike, *, impl: str | None = None, dtype: Any = None
) -> Array:
    """The key that has these words.

    Raises:
        DTypeError: they are not uint32. ShapeError: the last dimension is not 2.
    """
    x = asarray(key_bits_array)
    if x.dtype != UINT32:
        raise DTypeError(f"wrap_key_data: needs words of uint32, got {x.aval}. Cast them.")
    if not x.ndim or x.shape[-1] != 2:
        raise ShapeError(f"wrap_key_data: the last dimension must be 2, got {x.aval}.")
    return x


@api_boundary
def key_impl(keys: ArrayLike) -> str:
    """The name of the generator that keys are for."""
    return IMPLEMENTATION


@api_boundary
def clone(key: ArrayLike) -> Array:
    """The key, marked as meant to be used again."""
    return asarray(key)


def _words(name: str, key: Any) -> tuple[Any, Any]:
    """The two words of one key."""
    x = key if isinstance(key, Array) else as_array(key, name)
    if x.shape != (2,) or x.dtype != UINT32:
        if x.ndim > 1 and x.shape[-1] == 2:
            raise ShapeError(f"{name}: takes one key, got a batch of keys {x.aval}. Use vmap.")
        raise ArgumentError(
            f"{name}: needs a key, an array u32[2], got {x.aval}. Make one with random.key(seed)."
        )
    return reshape(slice_in_dim(x, 0, 1), ()), reshape(slice_in_dim(x, 1, 2), ())


@api_boundary
def split(key: ArrayLike, num: int | Sequence[int] = 2) -> Array:
    """New keys from one, which must not be used again.

    Args:
        key: a key.
        num: how many, or the shape of an array of keys.

    Returns:
        Array of keys, uint32 of shape (num, 2); it can be unpacked.

    Example:
        >>> a, b = mgefn.random.split(mgefn.random.key(0))
        >>> a
        Array([1797259609, 2579123966], dtype=uint32)
    """
    k0, k1 = _words("split", key)
    shape = canonical_shape("split", tuple(num) if isinstance(num, (tuple, list)) else (num,))
    first, second = threefry2x32_p.bind(k0, k1, *counters(shape))
    return stack([first, second], axis=-1)


@api_boundary
def fold_in(key: ArrayLike, data: ArrayLike) -> Array:
    """A new key from a key and an integer, such as the number of a step or a layer."""
    k0, k1 = _words("fold_in", key)
    if isinstance(data, (int, np.integer)):
        value = operator.index(data)
        if not -(2**31) <= value < 2**32:
            raise ArgumentError(f"fold_in: data must fit 32 bits, got {value}.")
        word: Any = scalar(value & 0xFFFFFFFF, UINT32)
    else:
        word = as_array(data, "fold_in")
        if word.ndim or not dtypes.is_integer(word.dtype):
            raise ArgumentError(
                f"fold_in: data must be an integer of rank 0, got {word.aval}. Use vmap for more."
            )
        word = convert(word, UINT32)
    return stack(threefry2x32_p.bind(k0, k1, scalar(0, UINT32), word))


# -- bits, uniform numbers and integers -----------------------------------------------------------

_UINTS = {8: "uint8", 16: "uint16", 32: "uint32", 64: "uint64"}


def _random_bits(name: str, key: Any, width: int, shape: tuple[int, ...]) -> Any:
    k0, k1 = _words(name, key)
    high, low = threefry2x32_p.bind(k0, k1, *counters(shape))
    if width == 64:
        return bitwise_or(
            left_shift(convert(high, UINT64), scalar(32, UINT64)), convert(low, UINT64)
        )
    mixed = bitwise_xor(high, low)
    return mixed if width == 32 else convert(mixed, np.dtype(_UINTS[width]))


def _shape(name: str, shape: Any, *parameters: Any) -> tuple[int, ...]:
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


def _float(name: str, dtype: DTypeLike | None) -> np.dtype:
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
    return _random_bits("bits", key, 8 * new.itemsize, canonical_shape("bits", shape))


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
    return _uniform(
        "uniform",
        key,
        _shape("uniform", shape, minval, maxval),
        _float("uniform", dtype),
        minval,
        maxval,
    )


def _uniform(
    name: str, key: Any, shape: tuple[int, ...], dtype: np.dtype, minval: Any, maxval: Any
) -> Any:
    info = dtypes.finfo(dtype)
    width = 8 * dtype.itemsize
    drawn = 8 if info.nmant < 8 else width
    uint = np.dtype(_UINTS[width])
    random = convert(_random_bits(name, key, drawn, shape), uint)
    # Random bits as the mantissa of a number in [1, 2).
    mantissa = shift_right_logical_p.bind1(random, scalar(drawn - info.nmant, uint))
    one = int(np.array(1, dtype).view(uint))
    floats = bitcast_convert_type(bitwise_or(mantissa, scalar(one, uint)), dtype)
    floats = floats - scalar(1, dtype)
    if minval.__class__ is float and maxval.__class__ is float and (minval, maxval) == (0, 1):
        return floats
    low, high = (convert(asarray(v), dtype) for v in (minval, maxval))
    scaled = floats * (high - low) + low
    return maximum(low, scaled)


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
    sizes = _shape("randint", shape, minval, maxval)
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
    higher, lower = (
        _random_bits("randint", reshape(slice_in_dim(keys, i, i + 1), (2,)), width, sizes)
        for i in range(2)
    )
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


# -- permutations and choices ---------------------------------------------------------------------


def _known_int(name: str, x: Any) -> int:
    if isinstance(x, Tracer) and x.concrete() is None:
        raise ConcretizationTypeError(
            f"{name}: needs a known integer, because it decides the result's shape, got the traced "
            f"{x.aval}. Mark the argument it comes from with static_argnums."
        )
    try:
        return operator.index(x)
    except TypeError:
        raise DTypeError(
            f"{name}: needs an integer or an array of rank 1 or more, got {x!r}."
        ) from None


def _shuffled(key: Any, x: Any, axis: int) -> Any:
    # Sorting by random keys of 32 bits; enough rounds make equal keys harmless.
    rounds = math.ceil(3 * math.log(max(1, x.size)) / math.log(2**32 - 1))
    for _ in range(rounds):
        keys = split(key)
        key, subkey = (reshape(slice_in_dim(keys, i, i + 1), (2,)) for i in range(2))
        _, x = sort_key_val(_random_bits("permutation", subkey, 32, x.shape), x, axis)
    return x


@api_boundary
def permutation(key: ArrayLike, x: ArrayLike, axis: int = 0, independent: bool = False) -> Array:
    """A random order of the elements along an axis, or of the numbers below an integer.

    Args:
        key: a key.
        x: an array, or an integer n for arange(n).
        axis: the axis to shuffle.
        independent: shuffle each vector along the axis in its own way.
    """
    a = x if isinstance(x, Array) else asarray(x)
    if not a.ndim:
        return _shuffled(key, arange(_known_int("permutation", x)), 0)
    i = normalize_axis("permutation", axis, a.ndim)
    if independent or a.ndim == 1:
        return _shuffled(key, a, i)
    _words("permutation", key)
    return take(a, _shuffled(key, arange(a.shape[i]), 0), i)


@api_boundary
def choice(
    key: ArrayLike,
    a: ArrayLike,
    shape: Any = (),
    replace: bool = True,
    p: ArrayLike | None = None,
    axis: int = 0,
    mode: str | None = None,
) -> Array:
    """Elements drawn from an array along an axis, or numbers below an integer.

    Args:
        key: a key.
        a: an array, or an integer n for arange(n).
        shape: how many to draw; these dimensions replace `axis`.
        replace: may an element be drawn more than once?
        p: the probability of each, of rank 1; None: all alike.
        axis: the axis to draw along.
        mode: as for `gumbel`, used without replacement by p.

    Raises:
        ArgumentError: more draws than elements without replacement.
    """
    sizes = canonical_shape("choice", shape)
    x = a if isinstance(a, Array) else asarray(a)
    if x.ndim:
        i = normalize_axis("choice", axis, x.ndim)
        n = x.shape[i]
    else:
        i, n = 0, _known_int("choice", a)
    draws = math.prod(sizes)
    if draws == 0:
        return zeros(sizes, x.dtype)
    if n <= 0:
        raise ArgumentError(f"choice: needs at least one element to draw from, got {n}.")
    if not replace and draws > n:
        raise ArgumentError(
            f"choice: can't draw {draws} of {n} elements without replacement. Pass replace=True."
        )
    if p is None and not replace:
        whole = permutation(key, n if not x.ndim else x, i)
        result = slice_in_dim(whole, 0, draws, axis=i)
    else:
        if p is None:
            index: Any = randint(key, sizes, 0, n)
        else:
            (weights,) = promoted("choice", (p,), inexact=True)
            if weights.shape != (n,):
                raise ShapeError(f"choice: p must have shape ({n},), got {weights.aval}.")
            if replace:
                total = cumsum(weights)
                last = reshape(slice_in_dim(total, n - 1, n), ())
                r = last * (1 - uniform(key, sizes, total.dtype))
                index = convert(searchsorted(total, r), dtypes.default_int())
            else:
                score = gumbel(key, (n,), weights.dtype, mode) + log(weights)
                index = convert(top_k(score, draws)[1], dtypes.default_int())
        result = index if not x.ndim else take(x, index, i)
    return reshape(result, sizes if not x.ndim else x.shape[:i] + sizes + x.shape[i + 1 :])


@api_boundary
def categorical(
    key: ArrayLike,
    logits: ArrayLike,
    axis: int = -1,
    shape: Any = None,
    replace: bool = True,
    mode: str | None = None,
) -> Array:
    """Draw from categories by the logarithms of their probabilities, which need no normalisation.

    Args:
        key: a key.
        logits: one row of logarithms along `axis` for each draw.
        axis: the dimension of the categories.
        shape: of the result: it must end in the shape of logits without axis; None: just that.
        replace: if not, the leading dimensions of shape are drawn without repetition.
        mode: as for `gumbel`.

    Returns:
        Indices of categories.
    """
    (x,) = promoted("categorical", (logits,), inexact=True)
    i = normalize_axis("categorical", axis, x.ndim)
    rest = x.shape[:i] + x.shape[i + 1 :]
    sizes = rest if shape is None else canonical_shape("categorical", shape)
    if len(sizes) < len(rest) or broadcast_shapes(sizes, rest) != sizes:
        raise ShapeError(f"categorical: shape {sizes} must end in {rest}, that of the logits.")
    lead = sizes[: len(sizes) - len(rest)]
    if replace:
        own = list(sizes[len(lead) :])
        own.insert(i, x.shape[i])
        noise = gumbel(key, (*lead, *own), x.dtype, mode)
        return reductions.argmax(noise + x, axis=len(lead) + i)
    draws = math.prod(lead)
    if draws > x.shape[i]:
        raise ArgumentError(
            f"categorical: can't draw {draws} of {x.shape[i]} categories without replacement."
        )
    noisy = x + gumbel(key, x.shape, x.dtype, mode)
    found = top_k(moveaxis(noisy, i, -1), draws)[1]
    return reshape(moveaxis(found, -1, 0), sizes)


# -- continuous distributions ---------------------------------------------------------------------


@api_boundary
def normal(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None) -> Array:
    """Numbers from the normal distribution with mean 0 and variance 1.

    Complex numbers have independent parts of variance 1/2 each.

    Example:
        >>> mgefn.random.normal(mgefn.random.key(0), (2,))
        Array([1.622642 , 2.0252647], dtype=float32)
    """
    new = dtypes.default_float() if dtype is None else dtypes.canonical(dtype)
    sizes = canonical_shape("normal", shape)
    if dtypes.is_complex(new):
        keys = split(key)
        part = dtypes.real_part_dtype(new)
        real, imag = (
            convert(_normal(reshape(slice_in_dim(keys, i, i + 1), (2,)), sizes, part), new)
            for i in range(2)
        )
        return (real + 1j * imag) / scalar(math.sqrt(2), new)
    return _normal(key, sizes, _float("normal", new))


def _normal(key: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    low = np.nextafter(np.array(-1, dtype), np.array(0, dtype))
    u = _uniform("normal", key, shape, dtype, ConcreteArray(np.asarray(low)), scalar(1, dtype))
    return scalar(math.sqrt(2), dtype) * erf_inv(u)


@api_boundary
def truncated_normal(
    key: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    shape: Any = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Numbers from the standard normal distribution between two bounds."""
    new = _float("truncated_normal", dtype)
    sizes = _shape("truncated_normal", shape, lower, upper)
    low, high = (convert(asarray(v), new) for v in (lower, upper))
    root2 = scalar(math.sqrt(2), new)
    u = _uniform("truncated_normal", key, sizes, new, erf(low / root2), erf(high / root2))
    out = root2 * erf_inv(u)
    # Rounding must not reach the bounds.
    inf = scalar(math.inf, new)
    return clip(
        out, nextafter(stop_gradient_leaf(low), inf), nextafter(stop_gradient_leaf(high), -inf)
    )


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
    sizes = _shape("bernoulli", shape, x)
    if mode == "low":
        return _uniform("bernoulli", key, sizes, x.dtype, 0.0, 1.0) < x
    first, second = _pair("bernoulli", key, sizes, x.dtype)
    return second * scalar(2.0 ** -dtypes.finfo(x.dtype).nmant, x.dtype) < x - first


def _pair(name: str, key: Any, shape: tuple[int, ...], dtype: np.dtype) -> tuple[Any, Any]:
    both = _uniform(name, key, (2, *shape), dtype, 0.0, 1.0)
    first, second = (reshape(slice_in_dim(both, i, i + 1), shape) for i in range(2))
    return first, second


@api_boundary
def rademacher(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None) -> Array:
    """-1 and 1, each with probability 1/2."""
    new = dtypes.default_int() if dtype is None else dtypes.canonical(dtype)
    return convert(2 * convert(bernoulli(key, 0.5, shape), new) - 1, new)


@api_boundary
def exponential(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None) -> Array:
    """Numbers from the exponential distribution with mean 1."""
    new = _float("exponential", dtype)
    return -log1p(
        -_uniform("exponential", key, canonical_shape("exponential", shape), new, 0.0, 1.0)
    )


@api_boundary
def gumbel(
    key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None, mode: str | None = None
) -> Array:
    """Numbers from the standard Gumbel distribution.

    Args:
        key: a key.
        shape: of the result.
        dtype: a floating type.
        mode: None or "low": values up to 16 or so; "high": the far tail too, from twice the bits.
    """
    new = _float("gumbel", dtype)
    sizes = canonical_shape("gumbel", shape)
    info = dtypes.finfo(new)
    if mode in (None, "low"):
        u = _uniform("gumbel", key, sizes, new, scalar(float(info.tiny), new), scalar(1, new))
        return -log(-log(u))
    if mode != "high":
        raise ArgumentError(f"gumbel: mode must be None, 'low' or 'high', got {mode!r}.")
    high, low = _pair("gumbel", key, sizes, new)
    fine = high + scalar(2.0**-info.nmant, new) * low + scalar(float(info.tiny), new)
    return -log(-log1p(-where(high >= 0.5, high, fine)))


@api_boundary
def laplace(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None) -> Array:
    """Numbers from the Laplace distribution with mean 0 and scale 1."""
    new = _float("laplace", dtype)
    low = scalar(-1.0 + float(dtypes.finfo(new).epsneg), new)
    u = _uniform("laplace", key, canonical_shape("laplace", shape), new, low, scalar(1, new))
    return sign(u) * log1p(-abs(u))


@api_boundary
def logistic(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None) -> Array:
    """Numbers from the standard logistic distribution."""
    new = _float("logistic", dtype)
    low = scalar(float(dtypes.finfo(new).tiny), new)
    x = _uniform("logistic", key, canonical_shape("logistic", shape), new, low, scalar(1, new))
    return log(x) - log1p(-x)


@api_boundary
def cauchy(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None) -> Array:
    """Numbers from the standard Cauchy distribution."""
    new = _float("cauchy", dtype)
    low = scalar(float(dtypes.finfo(new).eps), new)
    u = _uniform("cauchy", key, canonical_shape("cauchy", shape), new, low, scalar(1, new))
    return tan(scalar(math.pi, new) * (u - scalar(0.5, new)))


@api_boundary
def lognormal(
    key: ArrayLike, sigma: ArrayLike = 1.0, shape: Any = None, dtype: DTypeLike | None = None
) -> Array:
    """e to the power of normal numbers of standard deviation sigma."""
    new = _float("lognormal", dtype)
    return exp(normal(key, _shape("lognormal", shape, sigma), new) * convert(asarray(sigma), new))


@api_boundary
def pareto(
    key: ArrayLike, b: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None
) -> Array:
    """Numbers from the Pareto distribution of scale 1 with the exponent b."""
    new = _float("pareto", dtype)
    return exp(exponential(key, _shape("pareto", shape, b), new) / convert(asarray(b), new))


@api_boundary
def rayleigh(
    key: ArrayLike, scale: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None
) -> Array:
    """Numbers from the Rayleigh distribution: lengths of two-dimensional normal vectors."""
    new = _float("rayleigh", dtype)
    u = uniform(key, _shape("rayleigh", shape, scale), new)
    return convert(asarray(scale), new) * sqrt(log(u) * scalar(-2, new))


@api_boundary
def maxwell(key: ArrayLike, shape: Any = (), dtype: DTypeLike | None = None) -> Array:
    """Lengths of three-dimensional normal vectors."""
    new = _float("maxwell", dtype)
    return norm(normal(key, (*canonical_shape("maxwell", shape), 3), new), axis=-1)


@api_boundary
def double_sided_maxwell(
    key: ArrayLike,
    loc: ArrayLike,
    scale: ArrayLike,
    shape: Any = (),
    dtype: DTypeLike | None = None,
) -> Array:
    """loc plus scale times `maxwell` numbers of either sign, of the shape and the parameters'."""
    new = _float("double_sided_maxwell", dtype)
    parameters = _shape("double_sided_maxwell", None, loc, scale)
    sizes = canonical_shape("double_sided_maxwell", shape) or parameters
    a, b = split(key)
    lengths = maxwell(a, sizes + parameters, new)
    signs = rademacher(b, sizes + parameters, new)
    return signs * lengths * scale + loc


@api_boundary
def weibull_min(
    key: ArrayLike,
    scale: ArrayLike,
    concentration: ArrayLike,
    shape: Any = (),
    dtype: DTypeLike | None = None,
) -> Array:
    """Numbers from the Weibull distribution of minima."""
    new = _float("weibull_min", dtype)
    u = uniform(key, shape, new)
    return power(-log1p(-u), 1.0 / asarray(concentration)) * scale


@api_boundary
def wald(
    key: ArrayLike, mean: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None
) -> Array:
    """Numbers from the Wald (inverse Gaussian) distribution of scale 1.

    Source: Michael, Schucany, Haas (1976), The American Statistician 30(2), 88-90.
    """
    new = _float("wald", dtype)
    sizes = _shape("wald", shape, mean)
    a, b = split(key)
    m = broadcast_to(convert(asarray(mean), new), sizes)
    v, z = normal(a, sizes, new), uniform(b, sizes, new)
    y = v * v
    x = m + m * m * y / 2 - m / 2 * sqrt(4 * m * y + m * m * (y * y))
    return where(z <= m / (m + x), x, m * m / x)


@api_boundary
def geometric(
    key: ArrayLike, p: ArrayLike, shape: Any = None, dtype: DTypeLike | None = None
) -> Array:
    """How many trials of success probability p it takes to the first success."""
    new = dtypes.default_int() if dtype is None else dtypes.canonical(dtype)
    (x,) = promoted("geometric", (p,), inexact=True)
    u = uniform(key, _shape("geometric", shape, x), x.dtype)
    u = where(u == 0, 1, u)
    return convert(floor(log(u) / log1p(-x)) + 1, new)


@api_boundary
def triangular(
    key: ArrayLike,
    left: ArrayLike,
    mode: ArrayLike,
    right: ArrayLike,
    shape: Any = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """Numbers from the triangular distribution on [left, right] with its peak at mode."""
    new = _float("triangular", dtype)
    sizes = _shape("triangular", shape, left, mode, right)
    a, c, b = (broadcast_to(convert(asarray(v), new), sizes) for v in (left, mode, right))
    u = uniform(key, sizes, new)
    rising = a + sqrt(u * (b - a) * (c - a))
    falling = b - sqrt((1 - u) * (b - a) * (b - c))
    return where(u < (c - a) / (b - a), rising, falling)
