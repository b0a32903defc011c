"""Making arrays: from values, filled with one value, from ranges and from index formulas.

`asarray` is what every function here does with nested lists. A Python number makes a weak array,
lists make strong ones.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any, Never

import numpy as np

from mgefn import dtypes
from mgefn.api.placement import array_with_sharding
from mgefn.core.array import ConcreteArray, as_array, described, is_arraylike, owned
from mgefn.core.array_methods import Array, ArrayLike, DTypeLike, Shape, method
from mgefn.core.avals import ShapedArray
from mgefn.core.device_array import DeviceArray, beside
from mgefn.core.devices import checked_place
from mgefn.core.interpreter import interpreter_set_to, quietly, state
from mgefn.core.tracer import Tracer
from mgefn.errors import (
    ArgumentError,
    ConcretizationTypeError,
    OverflowDTypeError,
    ShapeError,
    api_boundary,
    leave_api,
    no_such_keyword,
    tells_keywords,
)
from mgefn.interpreters.on_device import DefaultDevice
from mgefn.ops.elementwise import convert, power, promoted, where
from mgefn.ops.indexing.select import indices
from mgefn.ops.shaping import (
    broadcast_in_dim,
    broadcast_to_shape,
    broadcasted_iota,
    canonical_shape,
    concatenate_p,
    full_like_aval,
    integer_sizes,
    iota,
    moveaxis,
    normalize_axis,
    reshape,
)

# -- from values ----------------------------------------------------------------------------------

_PYTHON_NUMBERS = frozenset((bool, int, float, complex))


@api_boundary
def array(
    object: Any,
    dtype: DTypeLike | None = None,
    copy: bool = True,
    order: str | None = "K",
    ndmin: int = 0,
    *,
    device: Any = None,
) -> Array:
    """Make an array from numbers, NumPy arrays, arrays or nested lists of them.

    What comes from NumPy is copied, so that writing into it later changes nothing here.

    Args:
        object: the values. Nested lists and tuples must be regular; they may hold arrays of one
            shape, also traced ones.
        dtype: the result's; None: that of the values, with Python numbers as the defaults.
        copy: whether an array is returned as another one, which stays when `object` is donated.
            They share memory: nothing writes into it while both are there.
        order: accepted: "K", "C", "A" or "F"; arrays have no memory order to choose.
        ndmin: prepend dimensions of size 1 until the rank is this.
        device: None, a device of mgefn.devices(), or its name.

    Returns:
        An array; for a Python number a weak one, which takes the dtype of what it meets.

    Raises:
        ShapeError: a nested list is ragged.
        DTypeError: the values are not numbers.

    Example:
        >>> mnp.array([[1, 2], [3, 4]])
        Array([[1, 2],
               [3, 4]], dtype=int32)
    """
    x = asarray(object, dtype, order, device=device)
    if copy and x is object:
        x = x.copy()
    if ndmin > x.ndim:
        x = reshape(x, (1,) * (ndmin - x.ndim) + x.shape)
    return x


@method("asarray")
@tells_keywords
def asarray(
    a: Any,
    dtype: DTypeLike | None = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    device: Any = None,
    **unknown: Never,
) -> Array:
    """An array of anything array-like; an array itself is returned as it is, without copy=True.

    A Python number gives a weak array, which takes the dtype of what it meets.

    Raises:
        ArgumentError: copy is False, and a is no array or one of another dtype than asked for.

    Example:
        >>> mnp.asarray(2.0) * mnp.ones(2, mnp.float16)
        Array([2., 2.], dtype=float16)
    """
    try:
        if unknown:
            raise no_such_keyword(asarray, unknown)
        if device is not None or state.current.__class__ is DefaultDevice:
            with interpreter_set_to(None):
                made = asarray(a, dtype, order, copy=copy)
            return on("asarray", made, device)
        if order not in (None, "C", "F", "A", "K"):
            raise ArgumentError(f"array: order must be 'C', 'F', 'A' or 'K', got {order!r}.")
        new = None if dtype is None else dtypes.canonical(dtype)
        if copy is False and not (isinstance(a, Array) and new in (None, a.dtype)):
            raise ArgumentError(
                f"asarray: copy=False needs an array{f' of dtype {new}' if new else ''}, got "
                f"{described(a)}. Leave copy out, or use from_dlpack."
            )
        if isinstance(a, (list, tuple, range)):
            return _from_nested(a, new)
        if new is None:
            x = as_array(_unwrapped(a), "array")
            return x.copy() if copy and x is a else x
        if a.__class__ is int and dtypes.is_integer(new):
            dtypes.check_scalar_fits(a, new)
            return ConcreteArray(np.array(a, new))
        if isinstance(a, np.ndarray) and a.dtype != new:
            # Straight to the asked dtype: a 64-bit input must not lose bits on the way.
            dtypes.canonical(a.dtype)
            x: Array = ConcreteArray(owned(a))
        elif isinstance(a, (np.generic, int, float, complex)):
            x = ConcreteArray(np.array(a))  # not narrowed to the default first
        else:
            x = as_array(_unwrapped(a), "array")
        made = _cast(x, new)
        return made.copy() if copy and made is a else made
    except BaseException as e:
        leave_api(e)
        raise


def _unwrapped(a: Any) -> Any:
    """Arrays in disguise: JAX's protocol, and memory that NumPy can read."""
    if hasattr(a, "__jax_array__"):
        return a.__jax_array__()
    if isinstance(a, (memoryview, bytearray)):
        return np.array(a)
    return a


def _cast(x: Any, dtype: np.dtype) -> Any:
    """To a dtype as astype does: a complex number that becomes real loses its imaginary part."""
    if dtypes.is_bool(dtype) and not dtypes.is_bool(x.dtype):
        return x != 0
    return convert(x, dtype)


def check_device(name: str, device: Any) -> None:
    """Raise unless the device, or None, is one there is."""
    if device is not None:
        checked_place(name, device)


def on(name: str, x: Any, device: Any, like: Any = None) -> Any:
    """A new array where `device` says, or beside the array it is like, or where new arrays go."""
    if device is None:
        if like.__class__ is DeviceArray:
            return beside(x, like)
        if state.current is None:
            return x
    return array_with_sharding(name, x, checked_place(name, device, x.shape))


def _from_nested(values: Any, dtype: np.dtype | None) -> Array:
    """The array of nested lists. Goes level by level, so depth costs no recursion."""
    shape: list[int] = []
    level: list[Any] = [values]
    while level and any(isinstance(v, (list, tuple, range)) for v in level):
        if not all(isinstance(v, (list, tuple, range)) for v in level):
            if all(is_arraylike(v) or isinstance(v, (list, tuple, range)) for v in level):
                # Lists beside arrays: what a list holds becomes an array first.
                level = [v if is_arraylike(v) else _from_nested(v, dtype) for v in level]
                break
            raise ShapeError("array: lists and numbers stand side by side. Make the lists regular.")
        sizes = {len(v) for v in level}
        if len(sizes) > 1:
            raise ShapeError(
                f"array: nested lists must have equal lengths, got {sorted(sizes)[:8]}. "
                "Pad them, or keep a list of arrays."
            )
        shape.append(sizes.pop())
        level = list(itertools.chain.from_iterable(level))
    return _from_leaves(level, tuple(shape), dtype)


def _from_leaves(leaves: list[Any], shape: tuple[int, ...], dtype: np.dtype | None) -> Array:
    if not leaves:
        return ConcreteArray(np.zeros(shape, dtype or dtypes.default_float()))
    kinds = set(map(type, leaves))
    if kinds <= _PYTHON_NUMBERS:
        if dtype is None:
            dtype = dtypes.result_type(*kinds)
        if dtypes.is_integer(dtype) and kinds <= {bool, int}:
            try:
                return ConcreteArray(np.array(leaves, dtype).reshape(shape))
            except OverflowError:
                wrong = next(v for v in leaves if not _fits(v, dtype))
                raise OverflowDTypeError(
                    f"array: a Python integer must fit {dtype.name}, got {wrong}. Pass a wider "
                    "dtype."
                ) from None
        if dtype.kind == "c" or (dtype.kind == "f" and complex not in kinds):
            return ConcreteArray(quietly(np.array, leaves, dtype).reshape(shape))
        return _cast(ConcreteArray(np.array(leaves).reshape(shape)), dtype)
    arrays = [as_array(_unwrapped(v), "array") for v in leaves]
    if dtype is None:
        # The leaves themselves, because a Python number among them is weak.
        dtype = dtypes.result_type(
            *(v if type(v) in _PYTHON_NUMBERS else a for v, a in zip(leaves, arrays, strict=True))
        )
    inner = arrays[0].shape
    for a in arrays:
        if a.shape != inner:
            raise ShapeError(
                f"array: arrays in a list must have one shape, got {arrays[0].aval} and {a.aval}. "
                "Broadcast them first."
            )
    arrays = [_cast(a, dtype) for a in arrays]
    if dtypes.is_key(dtype) or any(isinstance(a, Tracer) for a in arrays):
        rows = [reshape(a, (1, *inner)) for a in arrays]
        return reshape(concatenate_p.bind1(*rows, dimension=0), shape + inner)
    stacked = np.array([np.asarray(a) for a in arrays], dtype)
    return ConcreteArray(stacked.reshape(shape + inner))


def _fits(value: int, dtype: np.dtype) -> bool:
    info = np.iinfo(dtype)
    return info.min <= value <= info.max


@api_boundary
def copy(a: ArrayLike, order: str | None = None) -> Array:
    """An array of the same values, which stays when `a` is donated; they share memory until then.

    Example:
        >>> x = mnp.ones(3)
        >>> kept = mnp.copy(x)
        >>> y = mgefn.jit(lambda x: 2 * x, donate_argnums=0)(x)
        >>> kept
        Array([1., 1., 1.], dtype=float32)
    """
    return array(a, order=order)


@api_boundary
def frombuffer(buffer: Any, dtype: DTypeLike = float, count: int = -1, offset: int = 0) -> Array:
    """A one-dimensional array of the bytes of an object, as numpy.frombuffer reads them.

    Args:
        buffer: bytes, bytearray, memoryview and the like; it is copied.
        dtype: of the elements.
        count: how many to read; -1: all.
        offset: where to start, in bytes.
    """
    return ConcreteArray(np.array(np.frombuffer(buffer, dtypes.canonical(dtype), count, offset)))


@api_boundary
def fromfile(
    file: Any, dtype: DTypeLike = float, count: int = -1, sep: str = "", offset: int = 0
) -> Array:
    """An array of the content of a file, as numpy.fromfile reads it."""
    return ConcreteArray(np.fromfile(file, dtypes.canonical(dtype), count, sep, offset))


@api_boundary
def fromiter(iter: Any, dtype: DTypeLike, count: int = -1) -> Array:
    """A one-dimensional array of the numbers an iterator gives."""
    return ConcreteArray(np.fromiter(iter, dtypes.canonical(dtype), count))


@api_boundary
def fromstring(string: str, dtype: DTypeLike = float, count: int = -1, *, sep: str) -> Array:
    """A one-dimensional array of the numbers in a text, between separators."""
    return ConcreteArray(np.fromstring(string, dtypes.canonical(dtype), count, sep=sep))


@api_boundary
def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array of what another library holds, by the DLPack protocol; the values are copied."""
    if not isinstance(x, Array):
        on_host = x.__dlpack_device__()[0] == 1
        x = ConcreteArray(np.array(np.from_dlpack(x))) if on_host else as_array(x, "from_dlpack")
    return on("from_dlpack", x, device)


@api_boundary
def fromfunction(
    function: Callable[..., Any], shape: Any, *, dtype: DTypeLike = float, **kwargs: Any
) -> Any:
    """What `function` gives for the index arrays of a shape, as numpy.fromfunction does."""
    return function(*indices(shape, dtype=dtype), **kwargs)


# -- filled with one value ------------------------------------------------------------------------


def _filled(value: Any, shape: tuple[int, ...], dtype: np.dtype, weak: bool = False) -> Array:
    if state.current is None:
        data = np.full(shape, value, dtype) if value else np.zeros(shape, dtype)
        return ConcreteArray(data, weak)
    # Under a transformation one scalar and a broadcast, so that a program holds no constant block.
    x = full_like_aval(value, ShapedArray(shape, dtype))
    return convert(x, dtype, weak) if weak else x


def _dtype_or_float(dtype: DTypeLike | None) -> np.dtype:
    return dtypes.default_float() if dtype is None else dtypes.canonical(dtype)


@api_boundary
def zeros(shape: Shape, dtype: DTypeLike | None = None, *, device: Any = None) -> Array:
    """An array of zeros; the default dtype is float32.

    Example:
        >>> mnp.zeros((2, 2))
        Array([[0., 0.],
               [0., 0.]], dtype=float32)
    """
    made = _filled(0, canonical_shape("zeros", shape), _dtype_or_float(dtype))
    return on("zeros", made, device)


@api_boundary
def ones(shape: Shape, dtype: DTypeLike | None = None, *, device: Any = None) -> Array:
    """An array of ones; the default dtype is float32."""
    made = _filled(1, canonical_shape("ones", shape), _dtype_or_float(dtype))
    return on("ones", made, device)


@api_boundary
def empty(shape: Shape, dtype: DTypeLike | None = None, *, device: Any = None) -> Array:
    """An array of zeros: programs are pure, so there are no values left to chance."""
    made = _filled(0, canonical_shape("empty", shape), _dtype_or_float(dtype))
    return on("empty", made, device)


@api_boundary
def full(
    shape: Shape, fill_value: ArrayLike, dtype: DTypeLike | None = None, *, device: Any = None
) -> Array:
    """An array of one value, or of an array broadcast to `shape`.

    Args:
        shape: an int or a sequence of ints.
        fill_value: a number, or an array that broadcasts to shape.
        dtype: None: that of fill_value; a Python number then gives a weak array.
        device: None, a device of mgefn.devices(), or its name.

    Raises:
        ShapeError: fill_value does not broadcast to shape.
    """
    sizes = canonical_shape("full", shape)
    x = asarray(fill_value, dtype)
    if x.ndim > len(sizes) or any(
        n not in (1, m) for n, m in zip(x.shape, sizes[len(sizes) - x.ndim :], strict=True)
    ):
        raise ShapeError(f"full: fill_value {x.aval} does not broadcast to the shape {sizes}.")
    if state.current is None and type(x) is ConcreteArray:
        made = ConcreteArray(np.array(np.broadcast_to(x._data, sizes), order="C"), x._weak)
        return on("full", made, device)
    return on("full", broadcast_to_shape(x, sizes), device)


def _like(name: str, a: Any, dtype: Any, shape: Any) -> tuple[tuple[int, ...], np.dtype, bool]:
    if not (hasattr(a, "shape") and hasattr(a, "dtype")):
        a = asarray(a)
    new_shape = a.shape if shape is None else canonical_shape(name, shape)
    if dtype is not None:
        return new_shape, dtypes.canonical(dtype), False
    new, weak = dtypes.dtype_and_weak(a)
    return new_shape, new, weak


@tells_keywords
def zeros_like(
    a: Any,
    dtype: DTypeLike | None = None,
    shape: Any = None,
    *,
    device: Any = None,
    **unknown: Never,
) -> Array:
    """Zeros of the shape and dtype of `a`, which may be anything with a shape and a dtype."""
    try:
        if unknown:
            raise no_such_keyword(zeros_like, unknown)
        return on("zeros_like", _filled(0, *_like("zeros_like", a, dtype, shape)), device, a)
    except BaseException as e:
        leave_api(e)
        raise


@api_boundary
def ones_like(
    a: Any, dtype: DTypeLike | None = None, shape: Any = None, *, device: Any = None
) -> Array:
    """Ones of the shape and dtype of `a`, which may be anything with a shape and a dtype."""
    return on("ones_like", _filled(1, *_like("ones_like", a, dtype, shape)), device, a)


@api_boundary
def empty_like(
    prototype: Any, dtype: DTypeLike | None = None, shape: Any = None, *, device: Any = None
) -> Array:
    """Zeros of the shape and dtype of `prototype`: there are no values left to chance."""
    made = _filled(0, *_like("empty_like", prototype, dtype, shape))
    return on("empty_like", made, device, prototype)


@api_boundary
def full_like(
    a: Any,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: Any = None,
    *,
    device: Any = None,
) -> Array:
    """`fill_value` broadcast to the shape, in the dtype of `a`."""
    new_shape, new, weak = _like("full_like", a, dtype, shape)
    x = full(new_shape, fill_value, new)
    return on("full_like", convert(x, new, weak) if weak else x, device, a)


# -- ranges ---------------------------------------------------------------------------------------


def _known_number(name: str, what: str, x: Any) -> Any:
    """A Python number from something that must be known while tracing."""
    if isinstance(x, (int, float, complex)):
        return x
    if isinstance(x, Tracer):
        inner = x.concrete()
        if inner is None:
            raise ConcretizationTypeError(
                f"{name}: {what} must be a known number, because it decides the result's shape, "
                f"got the traced {x.aval}. Mark the argument it comes from with static_argnums."
            )
        x = inner
    if not is_arraylike(x):
        raise ArgumentError(f"{name}: {what} must be a number, got {type(x).__name__}.")
    data = np.asarray(x)
    if data.ndim:
        raise ArgumentError(f"{name}: {what} must be a number, got an array of rank {data.ndim}.")
    value = data.item()
    return value if isinstance(value, (bool, int, float, complex)) else float(data)


@api_boundary
def arange(
    start: Any,
    stop: Any = None,
    step: Any = None,
    dtype: DTypeLike | None = None,
    *,
    device: Any = None,
) -> Array:
    """The numbers from start (0 if it is the only argument) by step to stop, which is left out.

    Args:
        start, stop, step: known numbers: they decide the length.
        dtype: None: the common dtype of the arguments; Python's ints give int32.
        device: None, a device of mgefn.devices(), or its name.

    Raises:
        ConcretizationTypeError: an argument is traced.

    Example:
        >>> mnp.arange(3)
        Array([0, 1, 2], dtype=int32)
    """
    given = [v for v in (start, stop, step) if v is not None]
    if not given:
        raise ArgumentError("arange: needs a stop, got None. Pass a number.")
    new = dtypes.result_type(*given) if dtype is None else dtypes.canonical(dtype)
    if stop is None:
        start, stop = 0, start
    first = _known_number("arange", "start", start if start is not None else 0)
    last = _known_number("arange", "stop", stop)
    by = _known_number("arange", "step", 1 if step is None else step)
    if dtypes.is_bool(new):
        new = dtypes.default_int()
    if by == 0:
        raise ArgumentError("arange: step must not be 0.")
    if state.current is not None and first == 0 and by == 1 and isinstance(last, int):
        return on("arange", iota(new, max(last, 0)), device)
    if isinstance(first, int) and isinstance(last, int) and isinstance(by, int):
        size = len(range(first, last, by))
        if size and dtypes.is_integer(new):
            dtypes.check_scalar_fits(first, new, "arange")
            dtypes.check_scalar_fits(first + (size - 1) * by, new, "arange")
    data = np.arange(first, last, by)
    return on("arange", ConcreteArray(quietly(data.astype, new)), device)


@api_boundary
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """`num` evenly spaced numbers from start to stop.

    Args:
        start, stop: numbers or arrays that broadcast together; they may be traced.
        num: how many, an int.
        endpoint: is stop the last one? If not, the numbers stop one step before it.
        retstep: return (numbers, step).
        dtype: None: that of the arguments, integers as the default float.
        axis: where the new dimension goes.
        device: None, a device of mgefn.devices(), or its name.

    Example:
        >>> mnp.linspace(0, 1, 3)
        Array([0. , 0.5, 1. ], dtype=float32)
    """
    (n,) = integer_sizes("linspace", (num,))
    if n < 0:
        raise ArgumentError(f"linspace: num must be 0 or more, got {n}.")
    a, b = promoted("linspace", (start, stop), inexact=True)
    asked = a.dtype if dtype is None else dtypes.canonical(dtype)
    work = a.dtype
    if dtypes.is_inexact(asked):
        work = dtypes.promote_types(work, asked)  # numbers are not rounded on the way to 64 bits
    shape = np.broadcast_shapes(a.shape, b.shape)
    a, b = (broadcast_to_shape(convert(v, work), shape) for v in (a, b))
    div = n - 1 if endpoint else n
    step = (b - a) / div if div > 0 else a * np.nan
    if n == 0:
        out = zeros((0, *shape), work)
    elif n == 1:
        out = reshape(a, (1, *shape))
    else:
        real = dtypes.real_part_dtype(work)
        wide = dtypes.accumulator(real)
        weight = (np.arange(n) / div).astype(wide).astype(real)
        t = ConcreteArray(weight.reshape((n,) + (1,) * len(shape)))
        out = a * (1 - t) + b * t
        if endpoint:
            # Rounding must not move the last number off stop.
            last = ConcreteArray((np.arange(n) == n - 1).reshape((n,) + (1,) * len(shape)))
            out = where(last, b, out)
    out = moveaxis(out, 0, normalize_axis("linspace", axis, out.ndim))
    if dtypes.is_integer(asked) and asked != out.dtype:
        out = _floor(out)
    out = on("linspace", convert(out, asked), device)
    return (out, step) if retstep else out


def _floor(x: Any) -> Any:
    from_complex = x.real if dtypes.is_complex(x.dtype) else x
    return from_complex - from_complex % 1


@api_boundary
def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    base: ArrayLike = 10.0,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Array:
    """`num` numbers from base**start to base**stop whose logarithms are evenly spaced."""
    wide = None if dtype is None or not dtypes.is_inexact(dtypes.canonical(dtype)) else dtype
    exponents = linspace(start, stop, num, endpoint, dtype=wide, axis=axis)
    out = power(base, exponents)
    return out if dtype is None else convert(out, dtypes.canonical(dtype))


@api_boundary
def geomspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Array:
    """`num` numbers from start to stop in geometric progression."""
    a, b = promoted("geomspace", (start, stop), inexact=True)
    work = a.dtype
    if dtype is not None and dtypes.is_inexact(dtypes.canonical(dtype)):
        work = dtypes.promote_types(work, dtype)
    a, b = convert(a, work), convert(b, work)
    ratio = b / a
    # start * ratio**t keeps the sign, so both may be negative.
    t = linspace(0, 1, num, endpoint, dtype=dtypes.real_part_dtype(a.dtype))
    shape = np.broadcast_shapes(a.shape, b.shape)
    t = reshape(t, (t.shape[0],) + (1,) * len(shape))
    out = a * power(ratio, t)
    if endpoint and num > 1:
        last = ConcreteArray((np.arange(num) == num - 1).reshape(t.shape))
        out = where(last, b, out)
    out = moveaxis(out, 0, normalize_axis("geomspace", axis, out.ndim))
    return out if dtype is None else convert(out, dtypes.canonical(dtype))


# -- from index formulas --------------------------------------------------------------------------


@api_boundary
def eye(
    N: int,
    M: int | None = None,
    k: Any = 0,
    dtype: DTypeLike | None = None,
    *,
    device: Any = None,
) -> Array:
    """Ones on the k-th diagonal and zeros elsewhere, of shape (N, M); M is N if left out.

    Example:
        >>> mnp.eye(2)
        Array([[1., 0.],
               [0., 1.]], dtype=float32)
    """
    shape = canonical_shape("eye", (N, N if M is None else M))
    new = _dtype_or_float(dtype)
    if state.current is None and not isinstance(k, Array):
        ones_ = np.eye(shape[0], shape[1], operator.index(k), np.dtype(bool))
        return on("eye", ConcreteArray(ones_.astype(new)), device)
    index = dtypes.default_int()
    diagonal = broadcasted_iota(index, shape, 0) + k == broadcasted_iota(index, shape, 1)
    return on("eye", convert(diagonal, new), device)


@api_boundary
def identity(n: int, dtype: DTypeLike | None = None) -> Array:
    """The identity matrix of shape (n, n)."""
    return eye(n, dtype=dtype)


@api_boundary
def meshgrid(
    *xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> list[Array]:
    """Coordinate arrays from coordinate vectors, as numpy.meshgrid makes them.

    Args:
        xi: vectors or numbers.
        copy: must be true; accepted for NumPy's programs.
        sparse: keep size 1 in the dimensions along which a coordinate does not change.
        indexing: "xy": the first vector runs along axis 1; "ij": along axis 0.
    """
    if indexing not in ("xy", "ij"):
        raise ArgumentError(f"meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}.")
    vectors = [asarray(x) for x in xi]
    for x in vectors:
        if x.ndim > 1:
            raise ShapeError(f"meshgrid: needs arrays of rank 1, got {x.aval}.")
    vectors = [reshape(x, (1,)) if not x.ndim else x for x in vectors]
    n = len(vectors)
    places = list(range(n))
    if indexing == "xy" and n >= 2:
        places[:2] = [1, 0]
    sizes = [1] * n
    for x, place in zip(vectors, places, strict=True):
        sizes[place] = x.shape[0]
    out = []
    for x, place in zip(vectors, places, strict=True):
        shape = (
            tuple(sizes) if not sparse else tuple(x.shape[0] if i == place else 1 for i in range(n))
        )
        out.append(broadcast_in_dim(x, shape, (place,)))
    return out


class _Grid:
    """Index it with slices to get coordinates; `mgrid` and `ogrid` are its two instances."""

    def __init__(self, sparse: bool):
        self.sparse = sparse

    def __repr__(self) -> str:
        return "mgefn.numpy.ogrid" if self.sparse else "mgefn.numpy.mgrid"

    def __getitem__(self, key: Any) -> Any:
        single = not isinstance(key, tuple)
        axes = [_along(s) for s in ((key,) if single else key)]
        if single:
            return axes[0]
        new = dtypes.result_type(*axes)
        grids = meshgrid(*(convert(a, new) for a in axes), sparse=self.sparse, indexing="ij")
        if self.sparse:
            return tuple(grids)
        if not grids:
            return zeros((0,), dtypes.default_int())
        rows = [reshape(g, (1, *g.shape)) for g in grids]
        return concatenate_p.bind1(*rows, dimension=0)


def _along(s: Any) -> Array:
    """The numbers of one slice; an imaginary step counts them."""
    if not isinstance(s, slice):
        raise ArgumentError(f"mgrid: needs slices, got {s!r}. Write start:stop:step.")
    start = 0 if s.start is None else s.start
    step = 1 if s.step is None else s.step
    if isinstance(step, complex):
        return linspace(start, s.stop, int(abs(step)))
    return arange(start, s.stop, step)


mgrid = _Grid(sparse=False)
ogrid = _Grid(sparse=True)


class _Concatenator:
    """Index it with arrays, numbers and slices to join them; `r_` and `c_` are its instances."""

    def __init__(self, name: str, columns: bool):
        self.name, self.columns = name, columns

    def __repr__(self) -> str:
        return f"mgefn.numpy.{self.name}"

    def __getitem__(self, key: Any) -> Array:
        entries = key if isinstance(key, tuple) else (key,)
        axis, ndmin, place = (-1, 2, 0) if self.columns else (0, 1, -1)
        if entries and isinstance(entries[0], str):
            axis, ndmin, place = self._directive(entries[0])
            entries = entries[1:]
        if not entries:
            raise ArgumentError(f"{self.name}: needs something to join, got nothing.")
        arrays = []
        for entry in entries:
            x = _along(entry) if isinstance(entry, slice) else asarray(entry)
            missing = ndmin - x.ndim
            if missing > 0:
                # `place` says where the first own dimension stands among ndmin.
                first = place if place >= 0 else missing + place + 1
                first = min(max(first, 0), missing)
                x = reshape(x, (1,) * first + x.shape + (1,) * (missing - first))
            arrays.append(x)
        arrays = promoted(self.name, arrays)
        arrays = [convert(a, a.dtype) for a in arrays]
        i = normalize_axis(self.name, axis, arrays[0].ndim)
        return concatenate_p.bind1(*arrays, dimension=i)

    def _directive(self, text: str) -> tuple[int, int, int]:
        if text in ("r", "c"):
            raise ArgumentError(
                f"{self.name}: {text!r} asks for a matrix, which does not exist here. Leave it out."
            )
        try:
            numbers = [int(part) for part in text.split(",")]
        except ValueError:
            raise ArgumentError(
                f"{self.name}: a directive is up to three integers such as '0,2', got {text!r}."
            ) from None
        axis, ndmin, place = (*numbers, *(0, 1, -1)[len(numbers) :])
        return axis, ndmin, place


r_ = _Concatenator("r_", columns=False)
c_ = _Concatenator("c_", columns=True)


# -- windows --------------------------------------------------------------------------------------


def _window(name: str, M: int, formula: Callable[[int], np.ndarray]) -> Array:
    return ConcreteArray(formula(operator.index(M)).astype(dtypes.default_float()))


@api_boundary
def bartlett(M: int) -> Array:
    """The triangular window of M points that ends in zeros."""
    return _window("bartlett", M, np.bartlett)


@api_boundary
def blackman(M: int) -> Array:
    """The Blackman window of M points."""
    return _window("blackman", M, np.blackman)


@api_boundary
def hamming(M: int) -> Array:
    """The Hamming window of M points."""
    return _window("hamming", M, np.hamming)


@api_boundary
def hanning(M: int) -> Array:
    """The Hann window of M points."""
    return _window("hanning", M, np.hanning)


@api_boundary
def kaiser(M: int, beta: Any) -> Array:
    """The Kaiser window of M points with the shape parameter beta, a known number."""
    b = _known_number("kaiser", "beta", beta)
    return _window("kaiser", M, lambda m: np.kaiser(m, b))


@api_boundary
def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:
    """Powers of the elements of a vector as columns, the highest first unless `increasing`."""
    a = asarray(x)
    if a.ndim != 1:
        raise ShapeError(f"vander: needs an array of rank 1, got {a.aval}.")
    n = a.shape[0] if N is None else operator.index(N)
    if n < 0:
        raise ArgumentError(f"vander: N must be 0 or more, got {n}.")
    exponents = iota(dtypes.default_int(), n)
    if not increasing:
        exponents = n - 1 - exponents
    return power(reshape(a, (a.shape[0], 1)), convert(exponents, _exponent_dtype(a.dtype)))


def _exponent_dtype(dtype: np.dtype) -> np.dtype:
    return dtype if dtypes.is_inexact(dtype) else dtypes.result_type(dtype, "int8")
