"""Every method and operator of arrays and tracers, typed in one place.

Each calls `METHODS[name]`, which `ops/` and `numpy/` fill while they are imported; a test finds no
hole. `Array` is what users see: `isinstance(x, Array)` holds for concrete arrays of every backend
and for tracers. It has no constructor of its own; `mgefn.numpy.array` makes arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mgefn.errors import ArgumentError

METHODS: dict[str, Callable[..., Any]] = {}

# NumPy's name for a ufunc -> the key of METHODS, where the two differ.
UFUNC_NAMES = {
    "divide": "true_divide",
    "absolute": "abs",
    "conjugate": "conj",
}

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
    def T(self) -> Array:
        return METHODS["transpose"](self)

    @property
    def mT(self) -> Array:
        return METHODS["matrix_transpose"](self)

    @property
    def real(self) -> Array:
        return METHODS["real"](self)

    @property
    def imag(self) -> Array:
        return METHODS["imag"](self)

    @property
    def flat(self) -> Iterator[Array]:
        return iter(METHODS["ravel"](self))

    @property
    def at(self) -> IndexUpdateHelper:
        """`x.at[index].set(v)`: a copy of x with v at index; also add, multiply, ... and get."""
        return IndexUpdateHelper(self)

    def __len__(self) -> int:
        shape = self.shape
        if not shape:
            raise ArgumentError(
                f"len: needs an array of rank 1 or more, got {self.aval}. A number has no length."
            )
        return shape[0]

    def __iter__(self) -> Iterator[Array]:
        shape = self.shape
        if not shape:
            raise ArgumentError(
                f"iter: needs an array of rank 1 or more, got {self.aval}. Wrap it: x[None]."
            )
        return (METHODS["getitem"](self, i) for i in range(shape[0]))

    def __getitem__(self, index: Any) -> Array:
        return METHODS["getitem"](self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        raise ArgumentError(
            "setitem: arrays are immutable, so x[index] = value is not possible. Write "
            "x = x.at[index].set(value)."
        )

    def __contains__(self, value: ArrayLike) -> bool:
        return bool((self == value).any())

    def __array_ufunc__(self, ufunc: np.ufunc, how: str, *inputs: Any, **kwargs: Any) -> Any:
        name = UFUNC_NAMES.get(ufunc.__name__, ufunc.__name__)
        fn = METHODS.get(name)
        if how != "__call__" or fn is None or kwargs:
            extra = f" with {', '.join(kwargs)}" if kwargs else ""
            raise ArgumentError(
                f"numpy.{ufunc.__name__}: {how}{extra} has no counterpart here for mgefn arrays. "
                "Call the function of mgefn.numpy, or convert with numpy.asarray first."
            )
        return fn(*inputs)

    # -- operators --------------------------------------------------------------------------------

    def __add__(self, other: ArrayLike) -> Array:
        if isinstance(other, _OPERANDS):
            return METHODS["add"](self, other)
        return NotImplemented

    def __radd__(self, other: ArrayLike) -> Array:
        if isinstance(other, _NUMBERS):
            return METHODS["add"](other, self)
        return NotImplemented

    def __sub__(self, other: ArrayLike) -> Array:
        if isinstance(other, _OPERANDS):
            return METHODS["subtract"](self, other)
        return NotImplemented

    def __rsub__(self, other: ArrayLike) -> Array:
        if isinstance(other, _NUMBERS):
            return METHODS["subtract"](other, self)
        return NotImplemented

    def __mul__(self, other: ArrayLike) -> Array:
        if isinstance(other, _OPERANDS):
            return METHODS["multiply"](self, other)
        return NotImplemented

    def __rmul__(self, other: ArrayLike) -> Array:
        if isinstance(other, _NUMBERS):
            return METHODS["multiply"](other, self)
        return NotImplemented

    def __truediv__(self, other: ArrayLike) -> Array:
        if isinstance(other, _OPERANDS):
            return METHODS["true_divide"](self, other)
        return NotImplemented

    def __rtruediv__(self, other: ArrayLike) -> Array:
        if isinstance(other, _NUMBERS):
            return METHODS["true_divide"](other, self)
        return NotImplemented

    def __floordiv__(self, other: ArrayLike) -> Array:
        if isinstance(other, _OPERANDS):
            return METHODS["floor_divide"](self, other)
        return NotImplemented

    def __rfloordiv__(self, other: ArrayLike) -> Array:
        if isinstance(other, _NUMBERS):
            return METHODS["floor_divide"](other, self)
        return NotImplemented

    def __mod__(self, other: ArrayLike) -> Array:
        if isinstance(other, _OPERANDS):
            return METHODS["remainder"](self, other)
        return NotImplemented

    def __rmod__(self, other: ArrayLike) -> Array:
        if isinstance(other, _NUMBERS):
            return METHODS["remainder"](other, self)
        return NotImplemented

    def __divmod__(self, other: ArrayLike) -> tuple[Array, Array]:
        if isinstance(other, _OPERANDS):
            return METHODS["divmod"](self, other)
        return NotImplemented

    def __rdivmod__(self, other: ArrayLike) -> tuple[Array, Array]:
        if isinstance(other, _NUMBERS):
            return METHODS["divmod"](other, self)
        return NotImplemented

    def __pow__(self, other: ArrayLike) -> Array:
        if isinstance(other, _OPERANDS):
            return METHODS["power"](self, other)
        return NotImplemented

    def __rpow__(self, other: ArrayLike) -> Array:
        if isinstance(other, _NUMBERS):
            return METHODS["power"](other, self)
        return NotImplemented

    def __matmul__(self, other: ArrayLike) -> Array:
        if isinstance(other, _OPERANDS):
            return METHODS["matmul"](self, other)
        return NotImplemented

    def __rmatmul__(self, other: ArrayLike) -> Array:
        if isinstance(other, _NUMBERS):
            return METHODS["matmul"](other, self)
        return NotImplemented

    def __and__(self, other: ArrayLike) -> Array:
        if isinstance(other, _OPERANDS):
            return METHODS["bitwise_and"](self, other)
        return NotImplemented

    def __rand__(self, other: ArrayLike) -> Array:
        if isinstance(other, _NUMBERS):
            return METHODS["bitwise_and"](other, self)
        return NotImplemented

    def __or__(self, other: ArrayLike) -> Array:
        if isinstance(other, _OPERANDS):
            return METHODS["bitwise_or"](self, other)
        return NotImplemented

    def __ror__(self, other: ArrayLike) -> Array:
        if isinstance(other, _NUMBERS):
            return METHODS["bitwise_or"](other, self)
        return NotImplemented

    def __xor__(self, other: ArrayLike) -> Array:
        if isinstance(other, _OPERANDS):
            return METHODS["bitwise_xor"](self, other)
        return NotImplemented

    def __rxor__(self, other: ArrayLike) -> Array:
        if isinstance(other, _NUMBERS):
            return METHODS["bitwise_xor"](other, self)
        return NotImplemented

    def __lshift__(self, other: ArrayLike) -> Array:
        if isinstance(other, _OPERANDS):
            return METHODS["left_shift"](self, other)
        return NotImplemented

    def __rlshift__(self, other: ArrayLike) -> Array:
        if isinstance(other, _NUMBERS):
            return METHODS["left_shift"](other, self)
        return NotImplemented

    def __rshift__(self, other: ArrayLike) -> Array:
        if isinstance(other, _OPERANDS):
            return METHODS["right_shift"](self, other)
        return NotImplemented

    def __rrshift__(self, other: ArrayLike) -> Array:
        if isinstance(other, _NUMBERS):
            return METHODS["right_shift"](other, self)
        return NotImplemented

    def __eq__(self, other: ArrayLike) -> Any:
        if isinstance(other, _OPERANDS):
            return METHODS["equal"](self, other)
        return NotImplemented

    def __ne__(self, other: ArrayLike) -> Any:
        if isinstance(other, _OPERANDS):
            return METHODS["not_equal"](self, other)
        return NotImplemented

    def __lt__(self, other: ArrayLike) -> Array:
        if isinstance(other, _OPERANDS):
            return METHODS["less"](self, other)
        return NotImplemented

    def __le__(self, other: ArrayLike) -> Array:
        if isinstance(other, _OPERANDS):
            return METHODS["less_equal"](self, other)
        return NotImplemented

    def __gt__(self, other: ArrayLike) -> Array:
        if isinstance(other, _OPERANDS):
            return METHODS["greater"](self, other)
        return NotImplemented

    def __ge__(self, other: ArrayLike) -> Array:
        if isinstance(other, _OPERANDS):
            return METHODS["greater_equal"](self, other)
        return NotImplemented

    def __neg__(self) -> Array:
        return METHODS["negative"](self)

    def __pos__(self) -> Array:
        return METHODS["positive"](self)

    def __abs__(self) -> Array:
        return METHODS["abs"](self)

    def __invert__(self) -> Array:
        return METHODS["invert"](self)

    def __round__(self, ndigits: int | None = None) -> Array:
        return METHODS["round"](self, ndigits or 0)

    # -- methods of numpy.ndarray ----------------------------------------------------------------

    def sum(
        self,
        axis: Axis = None,
        dtype: DTypeLike = None,
        out: None = None,
        keepdims: bool = False,
        *,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Array:
        return METHODS["sum"](self, axis, dtype, out, keepdims, initial=initial, where=where)

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

    def mean(
        self,
        axis: Axis = None,
        dtype: DTypeLike = None,
        out: None = None,
        keepdims: bool = False,
        *,
        where: ArrayLike | None = None,
    ) -> Array:
        return METHODS["mean"](self, axis, dtype, out, keepdims, where=where)

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

    def max(
        self,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Array:
        return METHODS["max"](self, axis, out, keepdims, initial, where)

    def min(
        self,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        initial: ArrayLike | None = None,
        where: ArrayLike | None = None,
    ) -> Array:
        return METHODS["min"](self, axis, out, keepdims, initial, where)

    def all(
        self,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        *,
        where: ArrayLike | None = None,
    ) -> Array:
        return METHODS["all"](self, axis, out, keepdims, where=where)

    def any(
        self,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        *,
        where: ArrayLike | None = None,
    ) -> Array:
        return METHODS["any"](self, axis, out, keepdims, where=where)

    def argmax(
        self, axis: int | None = None, out: None = None, keepdims: bool | None = None
    ) -> Array:
        return METHODS["argmax"](self, axis, out, keepdims)

    def argmin(
        self, axis: int | None = None, out: None = None, keepdims: bool | None = None
    ) -> Array:
        return METHODS["argmin"](self, axis, out, keepdims)

    def ptp(self, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
        return METHODS["ptp"](self, axis, out, keepdims)

    def cumsum(self, axis: int | None = None, dtype: DTypeLike = None, out: None = None) -> Array:
        return METHODS["cumsum"](self, axis, dtype, out)

    def cumprod(self, axis: int | None = None, dtype: DTypeLike = None, out: None = None) -> Array:
        return METHODS["cumprod"](self, axis, dtype, out)

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

    def clip(self, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Array:
        return METHODS["clip"](self, min, max)

    def conj(self) -> Array:
        return METHODS["conj"](self)

    def conjugate(self) -> Array:
        return METHODS["conj"](self)

    def dot(self, b: ArrayLike) -> Array:
        return METHODS["dot"](self, b)

    def ravel(self, order: str = "C") -> Array:
        return METHODS["ravel"](self, order)

    def flatten(self, order: str = "C") -> Array:
        return METHODS["ravel"](self, order)

    def squeeze(self, axis: Axis = None) -> Array:
        return METHODS["squeeze"](self, axis)

    def swapaxes(self, axis1: int, axis2: int) -> Array:
        return METHODS["swapaxes"](self, axis1, axis2)

    def repeat(
        self, repeats: ArrayLike, axis: int | None = None, *, total_repeat_length: int | None = None
    ) -> Array:
        return METHODS["repeat"](self, repeats, axis, total_repeat_length=total_repeat_length)

    def take(
        self, indices: ArrayLike, axis: int | None = None, out: None = None, mode: str | None = None
    ) -> Array:
        return METHODS["take"](self, indices, axis, out, mode)

    def compress(self, condition: ArrayLike, axis: int | None = None) -> Array:
        return METHODS["compress"](self, condition, axis)

    def choose(self, choices: Any, out: None = None, mode: str = "raise") -> Array:
        return METHODS["choose"](self, choices, out, mode)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
        return METHODS["diagonal"](self, offset, axis1, axis2)

    def trace(
        self,
        offset: int = 0,
        axis1: int = 0,
        axis2: int = 1,
        dtype: DTypeLike = None,
        out: None = None,
    ) -> Array:
        return METHODS["trace"](self, offset, axis1, axis2, dtype, out)

    def nonzero(self, *, size: int | None = None, fill_value: Any = None) -> tuple[Array, ...]:
        return METHODS["nonzero"](self, size=size, fill_value=fill_value)

    def searchsorted(
        self, v: ArrayLike, side: str = "left", sorter: ArrayLike | None = None
    ) -> Array:
        return METHODS["searchsorted"](self, v, side, sorter)

    def round(self, decimals: int = 0, out: None = None) -> Array:
        return METHODS["round"](self, decimals, out)

    def astype(self, dtype: DTypeLike, copy: bool = False, device: Any = None) -> Array:
        return METHODS["astype"](self, dtype, copy, device)

    def view(self, dtype: DTypeLike = None) -> Array:
        return METHODS["view"](self, dtype)

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Array:
        new = shape[0] if len(shape) == 1 else shape
        return METHODS["reshape"](self, new, order=order, copy=copy)

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
    `mode` ("drop", the default: updates out of bounds are ignored; "clip"; "promise_in_bounds";
    for `get` the default "fill") and, for `get`, `fill_value` (NaN, or the least integer).
    """

    __slots__ = ("array", "index")

    def __init__(self, array: Array, index: Any):
        self.array = array
        self.index = index

    def set(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
    ) -> Array:
        """A copy of x after x[index] = values."""
        return METHODS["index_set"](
            self.array, self.index, values, indices_are_sorted, unique_indices, mode
        )

    def add(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
    ) -> Array:
        """A copy of x after x[index] += values, repeated indices added up."""
        return METHODS["index_add"](
            self.array, self.index, values, indices_are_sorted, unique_indices, mode
        )

    def subtract(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
    ) -> Array:
        """A copy of x after x[index] -= values."""
        return METHODS["index_subtract"](
            self.array, self.index, values, indices_are_sorted, unique_indices, mode
        )

    def multiply(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
    ) -> Array:
        """A copy of x after x[index] *= values, repeated indices multiplied."""
        return METHODS["index_multiply"](
            self.array, self.index, values, indices_are_sorted, unique_indices, mode
        )

    def divide(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
    ) -> Array:
        """A copy of x after x[index] /= values."""
        return METHODS["index_divide"](
            self.array, self.index, values, indices_are_sorted, unique_indices, mode
        )

    def power(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
    ) -> Array:
        """A copy of x after x[index] **= values."""
        return METHODS["index_power"](
            self.array, self.index, values, indices_are_sorted, unique_indices, mode
        )

    def min(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
    ) -> Array:
        """A copy of x after the smaller of x[index] and values."""
        return METHODS["index_min"](
            self.array, self.index, values, indices_are_sorted, unique_indices, mode
        )

    def max(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
    ) -> Array:
        """A copy of x after the larger of x[index] and values."""
        return METHODS["index_max"](
            self.array, self.index, values, indices_are_sorted, unique_indices, mode
        )

    mul = multiply

    def apply(
        self,
        func: Callable[[Array], Array],
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
    ) -> Array:
        """A copy of x with func applied to x[index], as numpy.ufunc.at does for unary ufuncs."""
        return METHODS["index_apply"](
            self.array, self.index, func, indices_are_sorted, unique_indices, mode
        )

    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        fill_value: Any = None,
    ) -> Array:
        """x[index] with a say in what happens out of bounds."""
        return METHODS["index_get"](
            self.array, self.index, indices_are_sorted, unique_indices, mode, fill_value
        )

    def __repr__(self) -> str:
        return f"{self.array!r}.at[{self.index!r}]"


# What operators accept on their right: anything else gets its chance to answer first.
_OPERANDS = (Array, *_NUMBERS)
