"""Every method and operator of arrays and tracers, typed in one place.

Each calls `METHODS[name]`, which `ops/` and `numpy/` fill while they are imported; a test finds no
hole. `Array` is what users see: `isinstance(x, Array)` holds for concrete arrays of every backend
and for tracers. It has no constructor of its own; `mgefn.numpy.array` makes arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any, Never

import numpy as np

from mgefn import suggestions
from mgefn.core.devices import CPU, Device, Shard, Sharding, SingleDeviceSharding
from mgefn.errors import (
    ArgumentError,
    MissingNameError,
    api_boundary,
    leave_api,
    no_such_keyword,
    tells_keywords,
)

METHODS: dict[str, Callable[..., Any]] = {}

ArrayLike = Any  # an Array, a NumPy array or scalar, a Python number, or nested lists of them
DTypeLike = Any  # what mgefn.dtypes.canonical accepts
Axis = int | tuple[int, ...] | None
Shape = int | tuple[int, ...]


def method(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Fill METHODS[name] with the decorated function."""

    def fill(fn: Callable[..., Any]) -> Callable[..., Any]:
        METHODS[name] = fn
        return fn

    return fill


_NUMBERS = (bool, int, float, complex, np.generic, np.ndarray, list, tuple)


class Array:
    """An immutable n-dimensional array of one dtype.

    Arrays come from `mgefn.numpy.array` and its kin and from operations; nothing writes into one.
    `x.at[i].set(v)` gives the updated copy. Methods and operators are those of `numpy.ndarray`
    that make sense for a value that never changes.

    Example:
        >>> mgefn.numpy.array([1.0, 2.0]) * 3
        Array([3., 6.], dtype=float32)
    """

    __slots__ = ()

    __array_priority__ = 100  # NumPy's operators leave mixed operands to ours
    # Arrays are compared by value, so, as in NumPy, they are not hashable.
    __hash__ = None  # type: ignore[assignment]  # the way to say so to Python

    @api_boundary
    def __init__(self, *args: Any, **kwargs: Any):
        raise ArgumentError(
            "Array: has no constructor for users. Use mgefn.numpy.array(values) or "
            "mgefn.numpy.asarray(values)."
        )

    # -- what an array is -----------------------------------------------------------------------

    @property
    def aval(self) -> Any:
        raise NotImplementedError  # concrete arrays and tracers define it

    @property
    def shape(self) -> tuple[int, ...]:
        raise NotImplementedError  # concrete arrays and tracers define it

    @property
    def dtype(self) -> np.dtype:
        raise NotImplementedError  # concrete arrays and tracers define it

    @property
    def weak_type(self) -> bool:
        raise NotImplementedError  # concrete arrays and tracers define it

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        n = 1
        for d in self.shape:
            n *= d
        return n

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    @api_boundary
    def T(self) -> Array:
        return METHODS["transpose"](self)

    @property
    @api_boundary
    def mT(self) -> Array:
        return METHODS["matrix_transpose"](self)

    @property
    @api_boundary
    def real(self) -> Array:
        return METHODS["real"](self)

    @property
    @api_boundary
    def imag(self) -> Array:
        return METHODS["imag"](self)

    @property
    @api_boundary
    def flat(self) -> Iterator[Array]:
        return iter(METHODS["ravel"](self))

    @property
    def at(self) -> IndexUpdateHelper:
        """`x.at[index].set(v)`: a copy of x with v at index; also add, multiply, ... and get."""
        return IndexUpdateHelper(self)

    @api_boundary
    def __len__(self) -> int:
        shape = self.shape
        if not shape:
            raise ArgumentError(
                f"len: needs an array of rank 1 or more, got {self.aval}. A number has no length."
            )
        return shape[0]

    @api_boundary
    def __iter__(self) -> Iterator[Array]:
        shape = self.shape
        if not shape:
            raise ArgumentError(
                f"iter: needs an array of rank 1 or more, got {self.aval}. Wrap it: x[None]."
            )
        return (METHODS["getitem"](self, i) for i in range(shape[0]))

    def __getitem__(self, index: Any) -> Array:
        try:
            return METHODS["getitem"](self, index)
        except BaseException as e:
            leave_api(e)
            raise

    @api_boundary
    def __setitem__(self, index: Any, value: Any) -> None:
        raise ArgumentError(
            "setitem: arrays are immutable, so x[index] = value is not possible. Write "
            "x = x.at[index].set(value)."
        )

    @api_boundary
    def __contains__(self, value: ArrayLike) -> bool:
        return bool((self == value).any())

    # -- protocols by which other libraries take arrays -------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, how: str, *inputs: Any, **kwargs: Any) -> Any:
        """NEP 13: `numpy.sin(x)` is `mgefn.numpy.sin(x)`."""
        try:
            return METHODS["array_ufunc"](ufunc, how, inputs, kwargs)
        except BaseException as e:
            leave_api(e)
            raise

    @api_boundary
    def __array_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """NEP 18: `numpy.linalg.norm(x)` is `mgefn.numpy.linalg.norm(x)`."""
        return METHODS["array_function"](func, types, args, kwargs)

    @api_boundary
    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        """The array API standard: `mgefn.numpy`."""
        return METHODS["array_namespace"](api_version)

    @property
    def device(self) -> Device:
        """Where the values live."""
        return CPU

    def devices(self) -> set[Device]:
        """The devices that hold a part of the array."""
        return {CPU}

    @property
    def sharding(self) -> Sharding:
        """How the array is spread over devices."""
        return SingleDeviceSharding()

    @property
    def is_fully_addressable(self) -> bool:
        """Does this process reach all of the array?"""
        return True

    @property
    def is_fully_replicated(self) -> bool:
        """Does each device hold the whole array?"""
        return True

    @property
    def addressable_shards(self) -> list[Shard]:
        """The parts of the array in this process: one, the whole."""
        return [Shard(self, CPU, (slice(None),) * self.ndim)]

    @property
    def global_shards(self) -> list[Shard]:
        """The parts of the array on all devices: one, the whole."""
        return self.addressable_shards

    @api_boundary
    def addressable_data(self, index: int) -> Array:
        """The part of the array with this number in this process."""
        return self.addressable_shards[index].data

    @api_boundary
    def to_device(self, device: Any, *, stream: Any = None) -> Array:
        return METHODS["to_device"](self, device, stream)

    def copy_to_host_async(self) -> None:
        """Nothing to do for arrays in the host's memory; others start their way to it."""

    def numpy(self) -> np.ndarray:
        """The values as a NumPy array, a read-only view where that is possible."""
        return np.asarray(self)

    # -- operators --------------------------------------------------------------------------------

    def __add__(self, other: ArrayLike) -> Array:
        if isinstance(other, _OPERANDS):
            try:
                return METHODS["add"](self, other)
            except BaseException as e:
                leave_api(e)
                raise
        return NotImplemented

    def __radd__(self, other: ArrayLike) -> Array:
        if isinstance(other, _NUMBERS):
            try:
                return METHODS["add"](other, self)
            except BaseException as e:
                leave_api(e)
                raise
        return NotImplemented

    def __sub__(self, other: ArrayLike) -> Array:
        if isinstance(other, _OPERANDS):
            try:
                return METHODS["subtract"](self, other)
            except BaseException as e:
                leave_api(e)
                raise
        return NotImplemented

    def __rsub__(self, other: ArrayLike) -> Array:
        if isinstance(other, _NUMBERS):
            try:
                return METHODS["subtract"](other, self)
            except BaseException as e:
                leave_api(e)
                raise
        return NotImplemented

    def __mul__(self, other: ArrayLike) -> Array:
        if isinstance(other, _OPERANDS):
            try:
                return METHODS["multiply"](self, other)
            except BaseException as e:
                leave_api(e)
                raise
        return NotImplemented

    def __rmul__(self, other: ArrayLike) -> Array:
        if isinstance(other, _NUMBERS):
            try:
                return METHODS["multiply"](other, self)
            except BaseException as e:
                leave_api(e)
                raise
        return NotImplemented

    def __truediv__(self, other: ArrayLike) -> Array:
        if isinstance(other, _OPERANDS):
            try:
                return METHODS["true_divide"](self, other)
            except BaseException as e:
                leave_api(e)
                raise
        return NotImplemented

    def __rtruediv__(self, other: ArrayLike) -> Array:
        if isinstance(other, _NUMBERS):
            try:
                return METHODS["true_divide"](other, self)
            except BaseException as e:
                leave_api(e)
                raise
        return NotImplemented

    @api_boundary
    def __floordiv__(self, other: ArrayLike) -> Array:
        if isinstance(other, _OPERANDS):
            return METHODS["floor_divide"](self, other)
        return NotImplemented

    @api_boundary
    def __rfloordiv__(self, other: ArrayLike) -> Array:
        if isinstance(other, _NUMBERS):
            return METHODS["floor_divide"](other, self)
        return NotImplemented

    @api_boundary
    def __mod__(self, other: ArrayLike) -> Array:
        if isinstance(other, _OPERANDS):
            return METHODS["remainder"](self, other)
        return NotImplemented

    @api_boundary
    def __rmod__(self, other: ArrayLike) -> Array:
        if isinstance(other, _NUMBERS):
            return METHODS["remainder"](other, self)
        return NotImplemented

    @api_boundary
    def __divmod__(self, other: ArrayLike) -> tuple[Array, Array]:
        if isinstance(other, _OPERANDS):
            return METHODS["divmod"](self, other)
        return NotImplemented

    @api_boundary
    def __rdivmod__(self, other: ArrayLike) -> tuple[Array, Array]:
        if isinstance(other, _NUMBERS):
            return METHODS["divmod"](other, self)
        return NotImplemented

    def __pow__(self, other: ArrayLike) -> Array:
        if isinstance(other, _OPERANDS):
            try:
                return METHODS["power"](self, other)
            except BaseException as e:
                leave_api(e)
                raise
        return NotImplemented

    @api_boundary
    def __rpow__(self, other: ArrayLike) -> Array:
        if isinstance(other, _NUMBERS):
            return METHODS["power"](other, self)
        return NotImplemented

    def __matmul__(self, other: ArrayLike) -> Array:
        if isinstance(other, _OPERANDS):
            try:
                return METHODS["matmul"](self, other)
            except BaseException as e:
                leave_api(e)
                raise
        return NotImplemented

    @api_boundary
    def __rmatmul__(self, other: ArrayLike) -> Array:
        if isinstance(other, _NUMBERS):
            return METHODS["matmul"](other, self)
        return NotImplemented

    @api_boundary
    def __and__(self, other: ArrayLike) -> Array:
        if isinstance(other, _OPERANDS):
            return METHODS["bitwise_and"](self, other)
        return NotImplemented

    @api_boundary
    def __rand__(self, other: ArrayLike) -> Array:
        if isinstance(other, _NUMBERS):
            return METHODS["bitwise_and"](other, self)
        return NotImplemented

    @api_boundary
    def __or__(self, other: ArrayLike) -> Array:
        if isinstance(other, _OPERANDS):
            return METHODS["bitwise_or"](self, other)
        return NotImplemented

    @api_boundary
    def __ror__(self, other: ArrayLike) -> Array:
        if isinstance(other, _NUMBERS):
            return METHODS["bitwise_or"](other, self)
        return NotImplemented

    @api_boundary
    def __xor__(self, other: ArrayLike) -> Array:
        if isinstance(other, _OPERANDS):
            return METHODS["bitwise_xor"](self, other)
        return NotImplemented

    @api_boundary
    def __rxor__(self, other: ArrayLike) -> Array:
        if isinstance(other, _NUMBERS):
            return METHODS["bitwise_xor"](other, self)
        return NotImplemented

    @api_boundary
    def __lshift__(self, other: ArrayLike) -> Array:
        if isinstance(other, _OPERANDS):
            return METHODS["left_shift"](self, other)
        return NotImplemented

    @api_boundary
    def __rlshift__(self, other: ArrayLike) -> Array:
        if isinstance(other, _NUMBERS):
            return METHODS["left_shift"](other, self)
        return NotImplemented

    @api_boundary
    def __rshift__(self, other: ArrayLike) -> Array:
        if isinstance(other, _OPERANDS):
            return METHODS["right_shift"](self, other)
        return NotImplemented

    @api_boundary
    def __rrshift__(self, other: ArrayLike) -> Array:
        if isinstance(other, _NUMBERS):
            return METHODS["right_shift"](other, self)
        return NotImplemented

    def __eq__(self, other: ArrayLike) -> Any:
        if isinstance(other, _OPERANDS):
            try:
                return METHODS["equal"](self, other)
            except BaseException as e:
                leave_api(e)
                raise
        return NotImplemented

    def __ne__(self, other: ArrayLike) -> Any:
        if isinstance(other, _OPERANDS):
            try:
                return METHODS["not_equal"](self, other)
            except BaseException as e:
                leave_api(e)
                raise
        return NotImplemented

    def __lt__(self, other: ArrayLike) -> Array:
        if isinstance(other, _OPERANDS):
            try:
                return METHODS["less"](self, other)
            except BaseException as e:
                leave_api(e)
                raise
        return NotImplemented

    def __le__(self, other: ArrayLike) -> Array:
        if isinstance(other, _OPERANDS):
            try:
                return METHODS["less_equal"](self, other)
            except BaseException as e:
                leave_api(e)
                raise
        return NotImplemented

    def __gt__(self, other: ArrayLike) -> Array:
        if isinstance(other, _OPERANDS):
            try:
                return METHODS["greater"](self, other)
            except BaseException as e:
                leave_api(e)
                raise
        return NotImplemented

    def __ge__(self, other: ArrayLike) -> Array:
        if isinstance(other, _OPERANDS):
            try:
                return METHODS["greater_equal"](self, other)
            except BaseException as e:
                leave_api(e)
                raise
        return NotImplemented

    def __neg__(self) -> Array:
        try:
            return METHODS["negative"](self)
        except BaseException as e:
            leave_api(e)
            raise

    @api_boundary
    def __pos__(self) -> Array:
        return METHODS["positive"](self)

    @api_boundary
    def __abs__(self) -> Array:
        return METHODS["abs"](self)

    @api_boundary
    def __invert__(self) -> Array:
        return METHODS["invert"](self)

    @api_boundary
    def __round__(self, ndigits: int | None = None) -> Array:
        return METHODS["round"](self, ndigits or 0)

    # -- methods of numpy.ndarray ----------------------------------------------------------------

    @tells_keywords
    def sum(
        self,
        axis: Axis = None,
        dtype: DTypeLike = None,
        out: None = None,
        keepdims: bool = False,
        *,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
        **unknown: Never,
    ) -> Array:
        try:
            if unknown:
                raise no_such_keyword(Array.sum, unknown)
            return METHODS["sum"](self, axis, dtype, out, keepdims, initial=initial, where=where)
        except BaseException as e:
            leave_api(e)
            raise

    @api_boundary
    def prod(
        self,
        axis: Axis = None,
        dtype: DTypeLike = None,
        out: None = None,
        keepdims: bool = False,
        *,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Array:
        return METHODS["prod"](self, axis, dtype, out, keepdims, initial=initial, where=where)

    @tells_keywords
    def mean(
        self,
        axis: Axis = None,
        dtype: DTypeLike = None,
        out: None = None,
        keepdims: bool = False,
        *,
        where: ArrayLike | None = None,
        **unknown: Never,
    ) -> Array:
        try:
            if unknown:
                raise no_such_keyword(Array.mean, unknown)
            return METHODS["mean"](self, axis, dtype, out, keepdims, where=where)
        except BaseException as e:
            leave_api(e)
            raise

    @api_boundary
    def var(
        self,
        axis: Axis = None,
        dtype: DTypeLike = None,
        out: None = None,
        ddof: int = 0,
        keepdims: bool = False,
        *,
        where: ArrayLike | None = None,
        correction: float | None = None,
    ) -> Array:
        return METHODS["var"](
            self, axis, dtype, out, ddof, keepdims, where=where, correction=correction
        )

    @api_boundary
    def std(
        self,
        axis: Axis = None,
        dtype: DTypeLike = None,
        out: None = None,
        ddof: int = 0,
        keepdims: bool = False,
        *,
        where: ArrayLike | None = None,
        correction: float | None = None,
    ) -> Array:
        return METHODS["std"](
            self, axis, dtype, out, ddof, keepdims, where=where, correction=correction
        )

    @tells_keywords
    def max(
        self,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
        **unknown: Never,
    ) -> Array:
        try:
            if unknown:
                raise no_such_keyword(Array.max, unknown)
            return METHODS["max"](self, axis, out, keepdims, initial, where)
        except BaseException as e:
            leave_api(e)
            raise

    @api_boundary
    def min(
        self,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Array:
        return METHODS["min"](self, axis, out, keepdims, initial, where)

    @api_boundary
    def all(
        self,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        *,
        where: ArrayLike | None = None,
    ) -> Array:
        return METHODS["all"](self, axis, out, keepdims, where=where)

    @api_boundary
    def any(
        self,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        *,
        where: ArrayLike | None = None,
    ) -> Array:
        return METHODS["any"](self, axis, out, keepdims, where=where)

    @api_boundary
    def argmax(
        self, axis: int | None = None, out: None = None, keepdims: bool | None = None
    ) -> Array:
        return METHODS["argmax"](self, axis, out, keepdims)

    @api_boundary
    def argmin(
        self, axis: int | None = None, out: None = None, keepdims: bool | None = None
    ) -> Array:
        return METHODS["argmin"](self, axis, out, keepdims)

    @api_boundary
    def ptp(self, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
        return METHODS["ptp"](self, axis, out, keepdims)

    @api_boundary
    def cumsum(self, axis: int | None = None, dtype: DTypeLike = None, out: None = None) -> Array:
        return METHODS["cumsum"](self, axis, dtype, out)

    @api_boundary
    def cumprod(self, axis: int | None = None, dtype: DTypeLike = None, out: None = None) -> Array:
        return METHODS["cumprod"](self, axis, dtype, out)

    @api_boundary
    def argpartition(self, kth: int, axis: int | None = -1) -> Array:
        return METHODS["argpartition"](self, kth, axis)

    @api_boundary
    def argsort(
        self,
        axis: int | None = -1,
        *,
        kind: None = None,
        order: None = None,
        stable: bool = True,
        descending: bool = False,
    ) -> Array:
        return METHODS["argsort"](
            self, axis, kind=kind, order=order, stable=stable, descending=descending
        )

    @api_boundary
    def sort(
        self,
        axis: int | None = -1,
        *,
        kind: None = None,
        order: None = None,
        stable: bool = True,
        descending: bool = False,
    ) -> Array:
        return METHODS["sort"](
            self, axis, kind=kind, order=order, stable=stable, descending=descending
        )

    @api_boundary
    def clip(self, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Array:
        return METHODS["clip"](self, min, max)

    @api_boundary
    def conj(self) -> Array:
        return METHODS["conj"](self)

    @api_boundary
    def conjugate(self) -> Array:
        return METHODS["conj"](self)

    @api_boundary
    def dot(self, b: ArrayLike) -> Array:
        return METHODS["dot"](self, b)

    @api_boundary
    def ravel(self, order: str = "C") -> Array:
        return METHODS["ravel"](self, order)

    @api_boundary
    def flatten(self, order: str = "C") -> Array:
        return METHODS["ravel"](self, order)

    @api_boundary
    def squeeze(self, axis: Axis = None) -> Array:
        return METHODS["squeeze"](self, axis)

    @api_boundary
    def swapaxes(self, axis1: int, axis2: int) -> Array:
        return METHODS["swapaxes"](self, axis1, axis2)

    @api_boundary
    def repeat(
        self, repeats: ArrayLike, axis: int | None = None, *, total_repeat_length: int | None = None
    ) -> Array:
        return METHODS["repeat"](self, repeats, axis, total_repeat_length=total_repeat_length)

    @api_boundary
    def take(
        self,
        indices: ArrayLike,
        axis: int | None = None,
        out: None = None,
        mode: str | None = None,
        unique_indices: bool = False,
        indices_are_sorted: bool = False,
        fill_value: Any = None,
    ) -> Array:
        return METHODS["take"](
            self, indices, axis, out, mode, unique_indices, indices_are_sorted, fill_value
        )

    @api_boundary
    def compress(self, condition: ArrayLike, axis: int | None = None) -> Array:
        return METHODS["compress"](self, condition, axis)

    @api_boundary
    def choose(self, choices: Any, out: None = None, mode: str = "raise") -> Array:
        return METHODS["choose"](self, choices, out, mode)

    @api_boundary
    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
        return METHODS["diagonal"](self, offset, axis1, axis2)

    @api_boundary
    def trace(
        self,
        offset: int = 0,
        axis1: int = 0,
        axis2: int = 1,
        dtype: DTypeLike = None,
        out: None = None,
    ) -> Array:
        return METHODS["trace"](self, offset, axis1, axis2, dtype, out)

    @api_boundary
    def nonzero(self, *, size: int | None = None, fill_value: Any = None) -> tuple[Array, ...]:
        return METHODS["nonzero"](self, size=size, fill_value=fill_value)

    @api_boundary
    def searchsorted(
        self, v: ArrayLike, side: str = "left", sorter: ArrayLike | None = None
    ) -> Array:
        return METHODS["searchsorted"](self, v, side, sorter)

    @api_boundary
    def round(self, decimals: int = 0, out: None = None) -> Array:
        return METHODS["round"](self, decimals, out)

    @tells_keywords
    def astype(
        self, dtype: DTypeLike, copy: bool = False, device: Any = None, **unknown: Never
    ) -> Array:
        try:
            if unknown:
                raise no_such_keyword(Array.astype, unknown)
            return METHODS["astype"](self, dtype, copy, device)
        except BaseException as e:
            leave_api(e)
            raise

    @api_boundary
    def view(self, dtype: DTypeLike = None, type: None = None, *sizes: Never) -> Array:
        given = [d for d in (dtype, type, *sizes) if d is not None]
        if sizes or (given and all(isinstance(d, (int, tuple)) for d in given)):
            raise ArgumentError(
                f"view: takes a dtype, got the sizes {', '.join(map(repr, given))}. Write "
                f"x.reshape({', '.join(map(repr, given))})."
            )
        if type is not None:
            raise ArgumentError(
                f"view: type must be None, got {type!r}, because arrays here have one class. Pass "
                "a dtype."
            )
        return METHODS["view"](self, dtype)

    @tells_keywords
    def reshape(
        self, *shape: Any, order: str = "C", copy: bool | None = None, **unknown: Never
    ) -> Array:
        try:
            if unknown:
                raise no_such_keyword(Array.reshape, unknown)
            new = shape[0] if len(shape) == 1 else shape
            return METHODS["reshape"](self, new, order=order, copy=copy)
        except BaseException as e:
            leave_api(e)
            raise

    @api_boundary
    def transpose(self, *axes: Any) -> Array:
        new = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
        return METHODS["transpose"](self, new)

    def copy(self, order: str = "C") -> Array:
        return self  # nothing writes into an array, so the array is its own copy

    def __copy__(self) -> Array:
        return self

    def __deepcopy__(self, memo: dict) -> Array:
        return self

    # -- where Python wants a number ------------------------------------------------------------

    def __bool__(self) -> bool:
        raise NotImplementedError  # concrete arrays and tracers define it

    def __int__(self) -> int:
        raise NotImplementedError  # concrete arrays and tracers define it

    def __float__(self) -> float:
        raise NotImplementedError  # concrete arrays and tracers define it

    def __complex__(self) -> complex:
        raise NotImplementedError  # concrete arrays and tracers define it

    def __index__(self) -> int:
        raise NotImplementedError  # concrete arrays and tracers define it

    def item(self, *args: int) -> Any:
        raise NotImplementedError  # concrete arrays and tracers define it

    def tolist(self) -> Any:
        raise NotImplementedError  # concrete arrays and tracers define it

    def block_until_ready(self) -> Array:
        raise NotImplementedError  # concrete arrays and tracers define it

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in suggestions.ATTRIBUTES["array"]]


class _Elsewhere:
    """Stands for a method that arrays of other libraries have: there is none, and what is instead.

    A `__getattr__` would do the same for all names, and cost each conversion to NumPy, which asks
    for protocols that arrays do not have.
    """

    __slots__ = ("name",)

    def __init__(self, name: str):
        self.name = name

    def __get__(self, array: Any, owner: type) -> Any:
        raise MissingNameError("Array", "array", self.name, ())


for _name in suggestions.ATTRIBUTES["array"]:
    setattr(Array, _name, _Elsewhere(_name))


class IndexUpdateHelper:
    """`x.at`: index it to get the functional updates of x at that index."""

    __slots__ = ("array",)

    def __init__(self, array: Array):
        self.array = array

    def __getitem__(self, index: Any) -> IndexUpdate:
        return IndexUpdate(self.array, index)

    def __repr__(self) -> str:
        return f"{self.array!r}.at"


class IndexUpdate:
    """`x.at[index]`: each method gives a new array and leaves x as it is.

    All take `indices_are_sorted` and `unique_indices` (promises that may speed the update up),
    `mode` ("drop", the default: updates out of bounds are ignored; "clip"; "promise_in_bounds"),
    and `wrap_negative_indices`: whether negative indices count from the end, as they do without a
    word; else they are out of bounds.
    `get` has the modes "clip", the default, and "fill", which is it where a `fill_value` is given;
    "fill" alone takes NaN, the least signed or the greatest unsigned integer, or True.
    """

    __slots__ = ("array", "index")

    def __init__(self, array: Array, index: Any):
        self.array = array
        self.index = index

    @api_boundary
    def set(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """A copy of x after x[index] = values."""
        how = indices_are_sorted, unique_indices, mode, wrap_negative_indices
        return METHODS["index_set"](self.array, self.index, values, *how)

    @api_boundary
    def add(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """A copy of x after x[index] += values, repeated indices added up."""
        how = indices_are_sorted, unique_indices, mode, wrap_negative_indices
        return METHODS["index_add"](self.array, self.index, values, *how)

    @api_boundary
    def subtract(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """A copy of x after x[index] -= values."""
        how = indices_are_sorted, unique_indices, mode, wrap_negative_indices
        return METHODS["index_subtract"](self.array, self.index, values, *how)

    @api_boundary
    def multiply(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """A copy of x after x[index] *= values, repeated indices multiplied."""
        how = indices_are_sorted, unique_indices, mode, wrap_negative_indices
        return METHODS["index_multiply"](self.array, self.index, values, *how)

    @api_boundary
    def divide(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """A copy of x after x[index] /= values, in floats where x holds integers."""
        how = indices_are_sorted, unique_indices, mode, wrap_negative_indices
        return METHODS["index_divide"](self.array, self.index, values, *how)

    @api_boundary
    def power(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """A copy of x after x[index] **= values; repeated exponents multiply."""
        how = indices_are_sorted, unique_indices, mode, wrap_negative_indices
        return METHODS["index_power"](self.array, self.index, values, *how)

    @api_boundary
    def min(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """A copy of x after the smaller of x[index] and values."""
        how = indices_are_sorted, unique_indices, mode, wrap_negative_indices
        return METHODS["index_min"](self.array, self.index, values, *how)

    @api_boundary
    def max(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """A copy of x after the larger of x[index] and values."""
        how = indices_are_sorted, unique_indices, mode, wrap_negative_indices
        return METHODS["index_max"](self.array, self.index, values, *how)

    mul = multiply

    @api_boundary
    def apply(
        self,
        func: Callable[[Array], Array],
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """A copy of x with func applied to x[index], once where an index is repeated."""
        how = indices_are_sorted, unique_indices, mode, wrap_negative_indices
        return METHODS["index_apply"](self.array, self.index, func, *how)

    @api_boundary
    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        wrap_negative_indices: bool = True,
        fill_value: Any = None,
    ) -> Array:
        """x[index] with a say in what happens out of bounds."""
        how = indices_are_sorted, unique_indices, mode, fill_value, wrap_negative_indices
        return METHODS["index_get"](self.array, self.index, *how)

    def __repr__(self) -> str:
        return f"{self.array!r}.at[{self.index!r}]"


# What operators accept on their right: anything else gets its chance to answer first.
_OPERANDS = (Array, *_NUMBERS)
