"""Keys: made from integers, split, folded.

A key is an array of two uint32 words. JAX's `random.key` gives arrays of a dtype of their own,
whose shape leaves the words out; here `key` and `PRNGKey` give the words themselves, since arrays
hold numbers only. Functions that take keys, split them and map over them run unchanged; programs
that look at a key's shape or dtype see the words, as with JAX's PRNGKey. `key_data` and
`wrap_key_data` are there and change nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.config import config
from mgefn.core.array import ConcreteArray, as_array, scalar
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import (
    ArgumentError,
    DTypeError,
    ShapeError,
    api_boundary,
)
from mgefn.numpy.assembling import stack
from mgefn.numpy.creation import asarray
from mgefn.ops.elementwise import (
    convert,
    shift_right_logical_p,
)
from mgefn.ops.random_bits import UINT32, UINT64, counters, threefry2x32_p
from mgefn.ops.shaping import (
    canonical_shape,
    reshape,
    slice_in_dim,
)

IMPLEMENTATION = "threefry2x32"


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


def words(name: str, key: Any) -> tuple[Any, Any]:
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
    k0, k1 = words("split", key)
    shape = canonical_shape("split", tuple(num) if isinstance(num, (tuple, list)) else (num,))
    first, second = threefry2x32_p.bind(k0, k1, *counters(shape))
    return stack([first, second], axis=-1)


@api_boundary
def fold_in(key: ArrayLike, data: ArrayLike) -> Array:
    """A new key from a key and an integer, such as the number of a step or a layer."""
    k0, k1 = words("fold_in", key)
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


def row(keys: Any, i: int) -> Any:
    """One of several keys."""
    return reshape(slice_in_dim(keys, i, i + 1), (2,))


__all__ = [
    "PRNGKey",
    "clone",
    "fold_in",
    "key",
    "key_data",
    "key_impl",
    "split",
    "wrap_key_data",
]
