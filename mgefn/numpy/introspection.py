"""Questions about arrays that their types answer, and comparisons of whole arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.core.array import scalar
from mgefn.core.array_methods import Array, ArrayLike, DTypeLike
from mgefn.errors import ArgumentError, DTypeError, api_boundary
from mgefn.numpy.creation import asarray
from mgefn.ops import reductions
from mgefn.ops.elementwise import (
    abs,
    broadcasted,
    convert,
    equal,
    imag,
    isfinite,
    isnan,
    promoted,
)
from mgefn.ops.shaping import normalize_axes


@api_boundary
def shape(a: ArrayLike) -> tuple[int, ...]:
    """The shape of an array or of what can become one."""
    return a.shape if isinstance(a, (Array, np.ndarray)) else asarray(a).shape


@api_boundary
def ndim(a: ArrayLike) -> int:
    """The number of dimensions."""
    return len(shape(a))


@api_boundary
def size(a: ArrayLike, axis: int | tuple[int, ...] | None = None) -> int:
    """The number of elements, or the size along axes."""
    sizes = shape(a)
    return math.prod(sizes[i] for i in normalize_axes("size", axis, len(sizes)))


@api_boundary
def isscalar(element: Any) -> bool:
    """Is it a number, a string, or an array of rank 0?"""
    return isinstance(element, (np.generic, bool, int, float, complex, str, bytes)) or (
        isinstance(element, (Array, np.ndarray)) and element.ndim == 0
    )


def _dtype_of(x: Any) -> np.dtype:
    return dtypes.dtype_and_weak(x if hasattr(x, "dtype") else asarray(x))[0]


@api_boundary
def iscomplexobj(x: Any) -> bool:
    """Does the array have a complex dtype, whatever its values?"""
    return dtypes.is_complex(_dtype_of(x))


@api_boundary
def isrealobj(x: Any) -> bool:
    """Has the array a dtype that is not complex?"""
    return not iscomplexobj(x)


@api_boundary
def iscomplex(x: ArrayLike) -> Array:
    """Is the imaginary part other than 0? Elementwise."""
    return imag(x) != 0


@api_boundary
def isreal(x: ArrayLike) -> Array:
    """Is the imaginary part 0? Elementwise."""
    return imag(x) == 0


@api_boundary
def isposinf(x: ArrayLike, /, out: None = None) -> Array:
    """Is x positive infinity? Elementwise."""
    (a,) = promoted("isposinf", (x,))
    if not dtypes.is_inexact(a.dtype):
        return isnan(a)
    return a == math.inf


@api_boundary
def isneginf(x: ArrayLike, /, out: None = None) -> Array:
    """Is x negative infinity? Elementwise."""
    (a,) = promoted("isneginf", (x,))
    if not dtypes.is_inexact(a.dtype):
        return isnan(a)
    return a == -math.inf


_KINDS = {
    "bool": dtypes.is_bool,
    "signed integer": lambda d: dtypes.is_integer(d) and dtypes.is_signed(d),
    "unsigned integer": lambda d: dtypes.is_integer(d) and not dtypes.is_signed(d),
    "integral": dtypes.is_integer,
    "real floating": dtypes.is_float,
    "complex floating": dtypes.is_complex,
    "numeric": lambda d: not dtypes.is_bool(d),
}


@api_boundary
def isdtype(dtype: DTypeLike, kind: Any) -> bool:
    """Is a dtype of a kind, or of one of several, as the array API standard names them?

    Args:
        dtype: a dtype.
        kind: "bool", "signed integer", "unsigned integer", "integral", "real floating",
            "complex floating", "numeric", a dtype, or a tuple of these.
    """
    d = dtypes.canonical(dtype)
    for k in kind if isinstance(kind, tuple) else (kind,):
        test = _KINDS.get(k) if isinstance(k, str) else None
        if test is not None:
            if test(d):
                return True
            continue
        try:
            same = d == dtypes.canonical(k)
        except DTypeError:
            raise ArgumentError(
                f"isdtype: kind must be a dtype or one of {', '.join(_KINDS)}, got {k!r}."
            ) from None
        if same:
            return True
    return False


@api_boundary
def isclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: ArrayLike = 1e-5,
    atol: ArrayLike = 1e-8,
    equal_nan: bool = False,
) -> Array:
    """Is |a - b| at most atol + rtol * |b|? Elementwise; infinities are close to themselves only.

    Args:
        a, b: arrays that broadcast together.
        rtol, atol: tolerances.
        equal_nan: are NaNs close to each other?
    """
    x, y = broadcasted("isclose", promoted("isclose", (a, b)))
    if not dtypes.is_inexact(x.dtype):
        x, y = (convert(v, dtypes.default_float()) for v in (x, y))
    real = dtypes.real_part_dtype(x.dtype)
    near = abs(x - y) <= convert(asarray(atol), real) + convert(asarray(rtol), real) * abs(y)
    result = (near & isfinite(y)) | (x == y)
    return result | (isnan(x) & isnan(y)) if equal_nan else result


@api_boundary
def allclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: ArrayLike = 1e-5,
    atol: ArrayLike = 1e-8,
    equal_nan: bool = False,
) -> Array:
    """Is `isclose` true for all elements?"""
    return reductions.all(isclose(a, b, rtol, atol, equal_nan))


@api_boundary
def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Array:
    """Have the arrays one shape and equal elements? A boolean of rank 0."""
    x, y = asarray(a1), asarray(a2)
    if x.shape != y.shape:
        return scalar(False, np.dtype(bool))
    same = equal(x, y)
    if equal_nan:
        same = same | (isnan(x) & isnan(y))
    return reductions.all(same)


@api_boundary
def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Do the arrays broadcast together and have equal elements then?"""
    x, y = asarray(a1), asarray(a2)
    try:
        np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return scalar(False, np.dtype(bool))
    return reductions.all(equal(x, y))


@api_boundary
def array_repr(
    arr: Any,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """The text of an array with its type, as numpy.array_repr writes it."""
    return np.array_repr(np.asarray(arr), max_line_width, precision, suppress_small)


@api_boundary
def array_str(
    a: Any,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """The text of an array's elements."""
    return np.array_str(np.asarray(a), max_line_width, precision, suppress_small)
