"""Concrete arrays: one buffer that nobody writes again.

`ConcreteArray` wraps a NumPy array, `DeviceArray` the array of another backend's library. Memory a
caller can write is never shared: `asarray` copies what comes in unless it is read-only and owned,
and what goes out through NumPy is a read-only view. Arrays may share buffers with each other. A
slice that keeps a much larger buffer alive is copied by the operation that makes it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.config import config
from mgefn.core.array_methods import Array
from mgefn.core.avals import ShapedArray
from mgefn.core.devices import Sharding, SingleDeviceSharding
from mgefn.errors import (
    ArgumentError,
    DonatedBufferError,
    DTypeError,
    api_boundary,
    leave_api,
)


class DonatedBuffer:
    """Stands where a donated buffer was; every use of it raises."""

    __slots__ = ("about", "tell")

    def __init__(self, tell: Callable[..., str], *about: Any):
        # The message, tell(*about), is put together only when it is needed.
        self.tell = tell
        self.about = about

    def _raise(self) -> Any:
        raise DonatedBufferError(self.tell(*self.about))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in ("__array__", "__array_interface__"):
            raise AttributeError(name)
        return self._raise()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self._raise()

    def __array_ufunc__(self, *args: Any, **kwargs: Any) -> Any:
        return self._raise()

    def __getitem__(self, index: Any) -> Any:
        return self._raise()

    def __len__(self) -> int:
        return self._raise()


def _holds_keys(data: np.ndarray) -> bool:
    """Are the elements random keys? They and float0 are the dtypes with fields."""
    return data.dtype.names is not None and dtypes.is_key(data.dtype)


class HeldArray(Array):
    """An array whose values are known, in somebody's memory: `_data` holds them."""

    __slots__ = ()

    _data: Any

    def copy(self, order: str = "C") -> Array:
        """An array of its own: when one of them is donated, the other stays.

        They share memory, which nothing writes into while both are there.
        """
        if type(self._data) is DonatedBuffer:
            self._data._raise()
        made = object.__new__(type(self))
        for name in type(self).__slots__:
            if name != "__weakref__" and hasattr(self, name):
                setattr(made, name, getattr(self, name))
        return made

    def __copy__(self) -> Array:
        return self.copy()

    def __deepcopy__(self, memo: dict) -> Array:
        return self.copy()

    _data: Any
    _weak: bool

    @property
    def shape(self) -> tuple[int, ...]:
        return self._data.shape

    @property
    def ndim(self) -> int:
        return self._data.ndim

    @property
    def size(self) -> int:
        return self._data.size

    @property
    def weak_type(self) -> bool:
        return self._weak

    def is_deleted(self) -> bool:
        """Was the buffer donated to a compiled call?"""
        return type(self._data) is DonatedBuffer

    def delete(self) -> None:
        """Let go of the buffer now; using the array afterwards is an error."""
        self._data = DonatedBuffer(
            lambda: "delete: this array was deleted. Keep what you still need."
        )


class ConcreteArray(HeldArray):
    """An array whose values are known: `_data` is the NumPy array that holds them."""

    __slots__ = ("__weakref__", "_data", "_exact", "_sharding", "_weak")

    _data: np.ndarray
    _weak: bool
    # The Python number that a weak array of rank 0 stands for. It is set by `scalar` only: where
    # the array meets a wider dtype, the number is taken anew and not its rounded value.
    _exact: Any
    _sharding: Sharding  # set by device_put only

    def __init__(self, data: np.ndarray, weak: bool = False):
        self._data = data
        self._weak = weak

    @property
    def aval(self) -> ShapedArray:
        data = self._data
        return ShapedArray(data.shape, data.dtype, self._weak)

    @property
    def dtype(self) -> np.dtype:
        return self._data.dtype

    @property
    def sharding(self) -> Sharding:
        """How the array is spread over devices: as `device_put` was told, else on one."""
        return getattr(self, "_sharding", None) or SingleDeviceSharding()

    def block_until_ready(self) -> Array:
        return self

    # -- leaving for NumPy and Python -------------------------------------------------------------

    @api_boundary
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        data = self._data
        if _holds_keys(data):
            raise self._key_misused("numpy.asarray")
        if dtype is not None and np.dtype(dtype) != data.dtype:
            if copy is False:
                raise ArgumentError(
                    f"numpy.asarray: needs a copy to go from {data.dtype} to {np.dtype(dtype)}, "
                    "and copy=False was passed. Leave copy out."
                )
            return data.astype(dtype)
        if copy:
            return np.array(data)
        view = data.view()
        view.flags.writeable = False
        return view

    @api_boundary
    def __dlpack__(self, **kwargs: Any) -> Any:
        # NumPy exports read-only arrays only where the consumer speaks DLPack 1.0 and can be told.
        if kwargs.get("max_version") is not None:
            return self.__array__().__dlpack__(**kwargs)
        return np.array(self._data).__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._data.__dlpack_device__()

    def __reduce__(self) -> Any:
        return _rebuild, (np.array(self._data), self._weak)

    def _key_misused(self, what: str) -> DTypeError:
        return DTypeError(
            f"{what}: needs numbers, got the random keys {self.aval}. Draw numbers with them, or "
            "take their words with random.key_data."
        )

    def _scalar(self, kind: str) -> Any:
        if _holds_keys(self._data):
            raise self._key_misused(kind)
        if self._data.ndim:
            raise ArgumentError(
                f"{kind}: needs an array of rank 0, got {self.aval}. Index or reduce it first."
            )
        return self._data[()]

    def __bool__(self) -> bool:
        try:
            data = self._data
            if _holds_keys(data):
                raise self._key_misused("bool")
            if data.size == 1:
                return bool(data)
            if data.size == 0:
                raise ArgumentError(
                    f"bool: the truth of the empty {self.aval} is not defined. Use x.size > 0."
                )
            raise ArgumentError(
                f"bool: the truth of {self.aval} with more than one element is not defined. Use "
                "x.any() or x.all()."
            )
        except BaseException as e:
            leave_api(e)
            raise

    def _real(self, what: str) -> Any:
        if self._data.dtype.kind == "c":
            raise DTypeError(
                f"{what}: needs a real number, got {self.aval}. Take x.real, or use complex(x)."
            )
        return self._scalar(what)

    def __int__(self) -> int:
        try:
            return int(self._real("int"))
        except BaseException as e:
            leave_api(e)
            raise

    def __float__(self) -> float:
        try:
            return float(self._real("float"))
        except BaseException as e:
            leave_api(e)
            raise

    @api_boundary
    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    def __index__(self) -> int:
        try:
            value = self._scalar("index")
            if self._data.dtype.kind not in "iu":
                raise DTypeError(
                    f"index: needs an integer array of rank 0, got {self.aval}. Cast it."
                )
            return int(value)
        except BaseException as e:
            leave_api(e)
            raise

    @api_boundary
    def item(self, *args: int) -> Any:
        if _holds_keys(self._data):
            raise self._key_misused("item")
        if not args and self._data.size != 1:
            raise ArgumentError(
                f"item: needs an array of one element, got {self.aval}. Index it first, or use "
                "tolist."
            )
        value = self._data.item(*args)
        return float(value) if isinstance(value, np.generic) else value

    @api_boundary
    def tolist(self) -> Any:
        data = self._data
        if _holds_keys(data):
            raise self._key_misused("tolist")
        return data.astype(np.float32).tolist() if data.dtype.kind == "V" else data.tolist()

    @api_boundary
    def tobytes(self, order: str = "C") -> bytes:
        return self._data.tobytes(order)  # type: ignore[arg-type]  # NumPy types it as a Literal

    def unsafe_buffer_pointer(self) -> int:
        """Address of the first element."""
        return self._data.ctypes.data

    # -- text -------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        if type(self._data) is DonatedBuffer:
            return "Array(<donated or deleted>)"
        prefix = "Array("
        data = self._data
        name = data.dtype.name
        if _holds_keys(data):
            name, prefix = dtypes.short_name(data.dtype), "Array(words="
        shown = _words(data) if _holds_keys(data) else data
        body = np.array2string(shown, separator=", ", prefix=prefix)
        if data.size == 0:
            body = f"[], shape={data.shape}"
        weak = ", weak_type=True" if self._weak else ""
        return f"{prefix}{body}, dtype={name}{weak})"

    def __str__(self) -> str:
        if type(self._data) is DonatedBuffer or _holds_keys(self._data):
            return repr(self)
        return str(self._data)

    @api_boundary
    def __format__(self, spec: str) -> str:
        if self._data.ndim == 0 and self._data.dtype.names is None:
            return format(self._data[()].item() if spec else self._data[()], spec)
        return format(str(self) if not spec else self._data, spec)


# In messages of Python's own, as in those of ours, arrays have the name that users know.
ConcreteArray.__name__ = ConcreteArray.__qualname__ = "Array"


def _words(data: np.ndarray) -> np.ndarray:
    """The words of keys, in a last dimension."""
    return np.asarray(data, order="C").reshape((*data.shape, 1)).view(np.uint32)


def _rebuild(data: np.ndarray, weak: bool) -> ConcreteArray:
    data.flags.writeable = False
    return ConcreteArray(data, weak)


# -- making arrays --------------------------------------------------------------------------------

_SCALARS: dict[Any, ConcreteArray] = {}


def scalar(value: Any, dtype: np.dtype, weak: bool = False) -> ConcreteArray:
    """A rank-0 array of a Python number; small ones are kept, since rules ask for them often."""
    # Zeros of both signs are equal as keys, and NaN never is, so neither is kept; the class stands
    # in the key because 1, 1.0 and True are equal.
    cls = value.__class__
    key: Any = None
    if cls is int or (value and value == value):
        key = (value, cls, dtype, weak)
        found = _SCALARS.get(key)
        if found is not None:
            return found
    if cls is int and dtype.kind in "iu":
        dtypes.check_scalar_fits(value, dtype)
    if cls is float and dtype.itemsize < 8 and (value > 6e4 or value < -6e4):
        with np.errstate(over="ignore"):  # beyond the dtype's range it is infinite
            data = np.array(value, dtype)
    else:
        data = np.array(value, dtype)
    data.flags.writeable = False
    made = ConcreteArray(data, weak)
    if weak:
        made._exact = value
    if key is not None:
        if len(_SCALARS) >= 4096:
            _SCALARS.clear()
        _SCALARS[key] = made
    return made


def exact_scalar(x: Any, dtype: np.dtype, weak: bool) -> ConcreteArray | None:
    """A weak array of rank 0 in another floating dtype, from the number it stands for.

    None where x is not made from a Python number, or dtype is none that holds fractions.
    """
    if dtype.kind not in "fcV":
        return None
    value = number_of(x)
    if value is None or (value.__class__ is complex and dtype.kind != "c"):
        return None
    return scalar(value, dtype, weak)


def number_of(x: Any) -> int | float | complex | None:
    """The Python number that a weak array stands for, None where x is made from none."""
    return getattr(x, "_exact", None) if x.__class__ is ConcreteArray and x._weak else None


def owned(data: np.ndarray) -> np.ndarray:
    """`data` itself where nobody can write it: read-only and owner of its memory; else a copy."""
    flags = data.flags
    if not flags.writeable and flags.owndata:
        return data
    return np.array(data, order="C")


# (x) -> the Array of what another library holds in memory that NumPy can't read, or None.
foreign_arrays: list[Callable[[Any], Array | None]] = []


def as_array(x: Any, what: str = "asarray") -> Array:
    """The Array or tracer that a leaf stands for; Python numbers give weak arrays.

    NumPy arrays are copied. `what` names the operation in errors.
    """
    if isinstance(x, Array):
        return x
    cls = x.__class__
    if cls in _PYTHON_NUMBERS:
        dtype, weak = dtypes.dtype_and_weak(x)
        return scalar(x, dtype, weak)
    if isinstance(x, np.ndarray):
        data = x
        dtype = dtypes.canonical(data.dtype)
        if config.narrow_inputs:
            dtype = dtypes.narrowed(dtype)
        if dtype != data.dtype:
            return ConcreteArray(data.astype(dtype))
        return ConcreteArray(owned(data))
    if isinstance(x, (np.generic, bool, int, float, complex)):
        dtype, weak = dtypes.dtype_and_weak(x)
        if weak and isinstance(x, np.generic):
            return scalar(x.item(), dtype, weak)
        return ConcreteArray(np.array(x, dtype), weak)
    if hasattr(x, "__array__"):
        for take in foreign_arrays:
            found = take(x)
            if found is not None:
                return found
        return as_array(np.asarray(x), what)
    raise not_an_array(what, x)


_PYTHON_NUMBERS = frozenset((bool, int, float, complex))


def not_an_array(what: str, x: Any) -> ArgumentError:
    """The error for an operand that is no array; `what` names the operation."""
    if x is None:
        repair = "Leave the operation out where there is nothing."
    elif isinstance(x, (str, bytes)):
        repair = "Text stays outside of arrays: close over it, or make it a static argument."
    elif isinstance(x, (list, tuple, set, frozenset, range)):
        repair = "Convert it with mgefn.numpy.array first."
    elif isinstance(x, dict):
        repair = "Operate on its leaves, with mgefn.tree.map."
    else:
        repair = "Convert it to NumPy or to numbers; if it is neither, close over it."
    return ArgumentError(f"{what}: needs an array or a number, got {described(x)}. {repair}")


def described(x: Any) -> str:
    """What a value is, for messages: f32[3] for arrays, "a tuple of 2", else its class."""
    if isinstance(x, Array):
        return str(x.aval)
    if isinstance(x, (tuple, list)):
        return f"a {type(x).__name__} of {len(x)}"
    if isinstance(x, np.ndarray):
        return f"a NumPy array {x.dtype.name}{list(x.shape)}"
    return "None" if x is None else f"{type(x).__name__}"


def is_arraylike(x: Any) -> bool:
    """Can `as_array` make an array of x?"""
    return isinstance(x, (Array, np.ndarray, np.generic, bool, int, float, complex)) or hasattr(
        x, "__array__"
    )
