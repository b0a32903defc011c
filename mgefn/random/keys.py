"""Keys: made from integers, split, folded.

A key is two words of 32 bits. `key` gives an array of dtype `key<fry>`, one element a key: its
shape leaves the words out, it takes indices, reshapes, stacks and maps like any array, and it takes
no arithmetic. `PRNGKey` gives the words themselves, an array of uint32 whose last dimension is 2.
Every function that takes a key takes either, and `split`, `fold_in` and `clone` give back what they
were given. `key_data` and `wrap_key_data` lead from one to the other; files hold the words.

The dtype is a NumPy structure of one field, of 8 bytes. So whatever moves elements needs to know
nothing about keys (kernels, batch rules, loops, the memory plan), and what computes refuses them,
since they are in no class of dtypes that a primitive accepts.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.config import config
from mgefn.core.array import ConcreteArray, as_array, described, is_arraylike, scalar
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
    bitcast_convert_type_p,
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


def _check_impl(name: str, impl: Any, dtype: Any = None) -> None:
    if impl not in (None, IMPLEMENTATION, "fry"):
        raise ArgumentError(f"{name}: impl must be {IMPLEMENTATION!r}, got {impl!r}. Leave it out.")
    if dtype is not None and dtypes.canonical(dtype) != dtypes.key_fry:
        raise ArgumentError(
            f"{name}: dtype must be {dtypes.short_name(dtypes.key_fry)}, got {dtype!r}. "
            "Leave it out."
        )


def is_key(x: Any) -> bool:
    """Is x an array of keys, and not of their words?"""
    return isinstance(x, Array) and dtypes.is_key(x.dtype)


def wrapped(x: Any) -> Any:
    """Keys from their words."""
    return bitcast_convert_type_p.bind1(x, new_dtype=dtypes.key_fry)


def unwrapped(keys: Any) -> Any:
    """The words of keys."""
    return bitcast_convert_type_p.bind1(keys, new_dtype=UINT32)


@api_boundary
def key(seed: ArrayLike, *, impl: Any = None, dtype: Any = None) -> Array:
    """A key from an integer.

    Args:
        seed: an integer. Its low 32 bits count, and the high ones too where
            `config.enable_x64` is on or it is an array of 64 bits.
        impl: None or "threefry2x32".
        dtype: None or `key_dtype()`.

    Returns:
        Array of rank 0 and dtype `key<fry>`.

    Raises:
        ArgumentError: the seed is no integer of rank 0, or impl is none that is known.

    Example:
        >>> mgefn.random.key(7)
        Array(words=[0, 7], dtype=key<fry>)
    """
    _check_impl("key", impl, dtype)
    return wrapped(_seeded("key", seed))


@api_boundary
def PRNGKey(seed: ArrayLike, *, impl: Any = None) -> Array:
    """A key from an integer, as its two words.

    Args:
        seed: an integer, as for `key`.
        impl: None or "threefry2x32".

    Returns:
        Array of two uint32.

    Raises:
        ArgumentError: the seed is no integer of rank 0, or impl is none that is known.

    Example:
        >>> mgefn.random.PRNGKey(7)
        Array([0, 7], dtype=uint32)
    """
    _check_impl("PRNGKey", impl)
    return _seeded("PRNGKey", seed)


def _seeded(name: str, seed: Any) -> Any:
    if isinstance(seed, (int, np.integer)) and not isinstance(seed, np.ndarray):
        value = operator.index(seed)
        if not -(2**63) <= value < 2**64:
            raise ArgumentError(f"{name}: seed must fit 64 bits, got {value}.")
        high = (value >> 32) & 0xFFFFFFFF if config.enable_x64 else 0
        return ConcreteArray(np.array([high, value & 0xFFFFFFFF], UINT32))
    x = as_array(seed, name)
    if x.ndim or not dtypes.is_integer(x.dtype):
        raise ArgumentError(
            f"{name}: seed must be an integer of rank 0, got {x.aval}. Use vmap for many seeds."
        )
    if x.dtype.itemsize == 8:
        wide = convert(x, UINT64)
        words = [convert(shift_right_logical_p.bind1(wide, scalar(32, UINT64)), UINT32)]
    else:
        words = [scalar(0, UINT32)]
    return stack([*words, convert(x, UINT32)])


@api_boundary
def key_dtype(impl_spec: Any = None) -> np.dtype:
    """The dtype of keys.

    Args:
        impl_spec: None or "threefry2x32".

    Raises:
        ArgumentError: another generator.

    Example:
        >>> mgefn.random.key_dtype() == mgefn.random.key(0).dtype
        True
    """
    _check_impl("key_dtype", impl_spec)
    return dtypes.key_fry


@api_boundary
def key_data(keys: ArrayLike) -> Array:
    """The words of keys, as an array of uint32 with one dimension more, of size 2.

    Args:
        keys: keys of any shape; words are returned as they are.

    Raises:
        DTypeError: they are neither.

    Example:
        >>> mgefn.random.key_data(mgefn.random.key(7))
        Array([0, 7], dtype=uint32)
    """
    return unwrapped(keys) if is_key(keys) else _words_of("key_data", keys)


@api_boundary
def wrap_key_data(key_bits_array: ArrayLike, *, impl: Any = None, dtype: Any = None) -> Array:
    """The keys that have these words.

    Args:
        key_bits_array: an array of uint32 whose last dimension is 2.
        impl: None or "threefry2x32".
        dtype: None or `key_dtype()`.

    Returns:
        Array of keys of the shape without the last dimension.

    Raises:
        DTypeError: they are not uint32. ShapeError: the last dimension is not 2.

    Example:
        >>> words = mnp.array([[0, 7], [1, 2]], "uint32")
        >>> mgefn.random.wrap_key_data(words).shape
        (2,)
    """
    _check_impl("wrap_key_data", impl, dtype)
    return wrapped(_words_of("wrap_key_data", key_bits_array))


@api_boundary
def key_impl(keys: ArrayLike) -> str:
    """The name of the generator that keys are for.

    Args:
        keys: keys, or words.

    Raises:
        DTypeError: they are neither.

    Example:
        >>> mgefn.random.key_impl(mgefn.random.key(0))
        'threefry2x32'
    """
    if not is_key(keys):
        _words_of("key_impl", keys)
    return IMPLEMENTATION


@api_boundary
def clone(key: ArrayLike) -> Array:
    """The key, marked as meant to be used again; keys of any shape.

    Args:
        key: keys, or words.

    Raises:
        DTypeError: they are neither.

    Example:
        >>> key = mgefn.random.key(0)
        >>> bool(mgefn.random.clone(key) == key)
        True
    """
    return key if is_key(key) else _words_of("clone", key)


def _words_of(name: str, x: Any) -> Any:
    """An array of words, checked."""
    if not is_arraylike(x) and not isinstance(x, (list, tuple)):
        raise DTypeError(f"{name}: needs random keys, got {described(x)}. Use random.key(seed).")
    a = asarray(x)
    if a.dtype != UINT32:
        raise DTypeError(
            f"{name}: needs random keys or their words of uint32, got {a.aval}. Make keys with "
            "random.key(seed)."
        )
    if not a.ndim or a.shape[-1] != 2:
        raise ShapeError(f"{name}: the last dimension of words must be 2, got {a.aval}.")
    return a


def key_words(name: str, key: Any) -> Any:
    """The words of one key, u32[2], from itself or from its words."""
    if not isinstance(key, Array) and not is_arraylike(key):
        raise ArgumentError(
            f"{name}: needs a random key, got {described(key)}. Make one with random.key(seed)."
        )
    x = key if isinstance(key, Array) else as_array(key, name)
    if dtypes.is_key(x.dtype) and not x.shape:
        return unwrapped(x)
    if x.shape == (2,) and x.dtype == UINT32:
        return x
    if dtypes.is_key(x.dtype) or (x.dtype == UINT32 and x.ndim > 1 and x.shape[-1] == 2):
        raise ShapeError(f"{name}: takes one key, got a batch of keys {x.aval}. Use vmap.")
    raise ArgumentError(
        f"{name}: needs a key, key<fry>[] or its words u32[2], got {x.aval}. Make one with "
        "random.key(seed)."
    )


def words(name: str, key: Any) -> tuple[Any, Any]:
    """The two words of one key."""
    x = key_words(name, key)
    return reshape(slice_in_dim(x, 0, 1), ()), reshape(slice_in_dim(x, 1, 2), ())


@api_boundary
def split(key: ArrayLike, num: int | Sequence[int] = 2) -> Array:
    """New keys from one, which must not be used again.

    Args:
        key: a key.
        num: how many, or the shape of an array of keys.

    Returns:
        Array of keys of shape (num,); it can be unpacked. For a key given by its words: words, of
        shape (num, 2).

    Raises:
        ShapeError: key is a batch of keys. ArgumentError: it is none.

    Example:
        >>> a, b = mgefn.random.split(mgefn.random.key(0))
        >>> mgefn.random.key_data(a)
        Array([1797259609, 2579123966], dtype=uint32)
    """
    shape = canonical_shape("split", tuple(num) if isinstance(num, (tuple, list)) else (num,))
    new = _split(*words("split", key), shape)
    return wrapped(new) if is_key(key) else new


def _split(k0: Any, k1: Any, shape: tuple[int, ...]) -> Any:
    return stack(threefry2x32_p.bind(k0, k1, *counters(shape)), axis=-1)


@api_boundary
def fold_in(key: ArrayLike, data: ArrayLike) -> Array:
    """A new key from a key and an integer, such as the number of a step or a layer.

    Args:
        key: a key, or its words.
        data: an integer of rank 0; its low 32 bits count.

    Returns:
        A key, or words.

    Raises:
        ShapeError: key is a batch of keys. ArgumentError: it is none, or data is no integer.

    Example:
        >>> mgefn.random.key_data(mgefn.random.fold_in(mgefn.random.PRNGKey(42), 77))
        Array([3343870397, 3703666311], dtype=uint32)
    """
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
    new = stack(threefry2x32_p.bind(k0, k1, scalar(0, UINT32), word))
    return wrapped(new) if is_key(key) else new


def row(keys: Any, i: int) -> Any:
    """One of several keys."""
    return reshape(slice_in_dim(keys, i, i + 1), keys.shape[1:])


__all__ = [
    "PRNGKey",
    "clone",
    "fold_in",
    "key",
    "key_data",
    "key_dtype",
    "key_impl",
    "split",
    "wrap_key_data",
]
