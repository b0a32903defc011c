"""numpy.fft: discrete Fourier transforms.

Transforms of float32 are complex64, as in SciPy; integers are taken as the default float. The
transforms are linear, so all derivatives are transforms again.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from mgefn import dtypes
from mgefn.core.array import scalar
from mgefn.core.array_methods import Array, ArrayLike, DTypeLike
from mgefn.errors import ArgumentError, AxisError, DTypeError, MgefnError, ShapeError, api_boundary
from mgefn.numpy.creation import arange
from mgefn.ops.elementwise import conj, convert, mul_p, promoted
from mgefn.ops.fft import FftType, transformed
from mgefn.ops.indexing.select import roll
from mgefn.ops.shaping import moveaxis, normalize_axes, normalize_axis, pad_p

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

_FORWARD = (FftType.FFT, FftType.RFFT)
_OPPOSITE = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def _norm(name: str, norm: Any) -> str:
    if norm is None:
        return "backward"
    if norm not in _OPPOSITE:
        raise ArgumentError(f'{name}: norm must be "backward", "ortho" or "forward", got {norm!r}.')
    return norm


def _integer(name: str, given: str, n: Any) -> int:
    try:
        return operator.index(n)
    except TypeError as e:
        if isinstance(e, MgefnError):
            raise  # a traced value, which says so
        raise ArgumentError(f"{name}: {given} must be an int, got {n!r}.") from None


def _length(name: str, n: Any, given: str) -> int:
    length = _integer(name, given, n)
    if length < 1:
        raise ShapeError(
            f"{name}: needs at least one point along each transformed axis, got {length}. Pass "
            f"{given}, or leave empty axes out."
        )
    return length


def _transform(
    name: str, kind: FftType, a: Any, s: Sequence[Any] | None, axes: Any, norm: Any, given: str
) -> Any:
    """The transform over axes, in the order given; the last one is that of a real transform."""
    mode = _norm(name, norm)
    (x,) = promoted(name, (a,), inexact=True)
    if kind == FftType.RFFT and dtypes.is_complex(x.dtype):
        raise DTypeError(f"{name}: needs a real array, got {x.aval}. Use fft, or the real part.")
    if axes is None:
        count = x.ndim if s is None else len(s)
        if count > x.ndim:
            raise ShapeError(f"{name}: {given} has {count} entries for {x.aval}.")
        over = tuple(range(x.ndim - count, x.ndim))
    else:
        over = tuple([normalize_axis(name, i, x.ndim) for i in axes])
    if s is not None and len(s) != len(over):
        raise ArgumentError(f"{name}: {given} and axes must have one length, got {s} and {axes}.")
    if not over:
        if kind in (FftType.RFFT, FftType.IRFFT):
            raise AxisError(f"{name}: needs at least one axis, got none for {x.aval}.")
        return x if dtypes.is_complex(x.dtype) else transformed(x, kind, ())
    if len(set(over)) != len(over):
        # NumPy transforms an axis twice where it is named twice.
        for i, axis in enumerate(over):
            n = None if s is None else (s[i],)
            x = _transform(name, kind, x, n, (axis,), norm, given)
        return x
    last = over[-1]
    lengths = []
    for i, axis in enumerate(over):
        n = None if s is None else s[i]
        if n is None or (n == -1 and given == "s"):
            n = x.shape[axis]
            if kind == FftType.IRFFT and axis == last:
                n = 2 * (n - 1)
        lengths.append(_length(name, n, given))
    wanted = list(lengths)
    if kind == FftType.IRFFT:
        wanted[-1] = lengths[-1] // 2 + 1
    x = _resized(x, over, wanted)
    ends = tuple(range(x.ndim - len(over), x.ndim))
    y = transformed(moveaxis(x, over, ends), kind, tuple(lengths))
    total = math.prod(lengths)
    # The primitive scales the inverse transforms by 1 / total.
    forward = kind in _FORWARD
    if mode == "ortho":
        factor = 1 / math.sqrt(total) if forward else math.sqrt(total)
    elif mode == "forward":
        factor = 1 / total if forward else total
    else:
        factor = 1
    if factor != 1:
        y = mul_p.bind1(y, scalar(factor, y.dtype))
    return moveaxis(y, ends, over)


def _resized(x: Any, axes: Sequence[int], lengths: Sequence[int]) -> Any:
    """The array cut, or filled up with zeros, at the end of axes."""
    config = [(0, 0, 0)] * x.ndim
    for axis, n in zip(axes, lengths, strict=True):
        config[axis] = (0, n - x.shape[axis], 0)
    if all(high == 0 for _, high, _ in config):
        return x
    return pad_p.bind1(x, scalar(0, x.dtype), padding_config=tuple(config))


def _one(name: str, kind: FftType, a: Any, n: Any, axis: Any, norm: Any) -> Any:
    if axis is None or isinstance(axis, (tuple, list)):
        raise ArgumentError(f"{name}: axis must be an int, got {axis!r}. Use {name}n for several.")
    return _transform(name, kind, a, None if n is None else (n,), (axis,), norm, "n")


# -- one axis -------------------------------------------------------------------------------------


@api_boundary
def fft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Fourier transform along an axis, X[k] = sum over j of a[j] exp(-2 pi i j k / n).

    Args:
        a: an array.
        n: length of the transform; a is cut or filled up with zeros. None: the length of a.
        axis: in [-ndim, ndim).
        norm: where to divide by n: "backward" (or None) in the inverse, "forward" here, "ortho" by
            sqrt(n) in both.
    Returns:
        Complex array with n elements along the axis, of the precision of a.
    Raises:
        ShapeError: n is less than 1, or the axis is empty.
    Example:
        >>> mnp.fft.fft(mnp.array([1.0, 0.0, 0.0, 0.0]))
        Array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    """
    return _one("fft", FftType.FFT, a, n, axis, norm)


@api_boundary
def ifft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Inverse of `fft`, which see for the arguments."""
    return _one("ifft", FftType.IFFT, a, n, axis, norm)


@api_boundary
def rfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Fourier transform of a real array: the first n // 2 + 1 elements of what `fft` gives.

    Raises:
        DTypeError: a is complex.
    Example:
        >>> mnp.fft.rfft(mnp.array([1.0, 2.0, 3.0, 4.0]))
        Array([10.+0.j, -2.+2.j, -2.+0.j], dtype=complex64)
    """
    return _one("rfft", FftType.RFFT, a, n, axis, norm)


@api_boundary
def irfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Inverse of `rfft`: real, from the first n // 2 + 1 elements of a transform.

    Args:
        a: an array; the imaginary parts of its first element and, of an even length, of its last
            one are ignored.
        n: length of the result; None: 2 * (m - 1) for m elements of a, so an odd n must be given.
        axis: in [-ndim, ndim).
        norm: as for `fft`.
    """
    return _one("irfft", FftType.IRFFT, a, n, axis, norm)


@api_boundary
def hfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Transform of an array with Hermitian symmetry, of which a is the first half: real.

    Arguments are those of `irfft`, of which it is the counterpart with the other sign.
    """
    mode = _OPPOSITE[_norm("hfft", norm)]
    (x,) = promoted("hfft", (a,), inexact=True)
    return _one("hfft", FftType.IRFFT, conj(x), n, axis, mode)


@api_boundary
def ihfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    """Inverse of `hfft`. The arguments are those of `rfft`."""
    mode = _OPPOSITE[_norm("ihfft", norm)]
    return conj(_one("ihfft", FftType.RFFT, a, n, axis, mode))


# -- several axes ---------------------------------------------------------------------------------


@api_boundary
def fftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """Fourier transform over several axes, as numpy.fft.fftn gives it.

    Args:
        a: an array.
        s: lengths along the axes; a is cut or filled up with zeros. None, or -1 in it: those of a.
        axes: which axes; None: the last len(s), or all of them.
        norm: as for `fft`, for the product of the lengths.
    """
    return _transform("fftn", FftType.FFT, a, s, axes, norm, "s")


@api_boundary
def ifftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """Inverse of `fftn`, which see for the arguments."""
    return _transform("ifftn", FftType.IFFT, a, s, axes, norm, "s")


@api_boundary
def rfftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """`fftn` of a real array, with length // 2 + 1 elements along the last of the axes."""
    return _transform("rfftn", FftType.RFFT, a, s, axes, norm, "s")


@api_boundary
def irfftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """Inverse of `rfftn`: complex inverses along the other axes, then `irfft` along the last.

    Args:
        a: an array.
        s: lengths of the result along the axes; None: those of a, in the last 2 * (m - 1).
        axes: which axes; None: the last len(s), or all of them.
        norm: as for `fftn`.
    """
    return _transform("irfftn", FftType.IRFFT, a, s, axes, norm, "s")


@api_boundary
def fft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """`fftn` over two axes."""
    return _transform("fft2", FftType.FFT, a, s, axes, norm, "s")


@api_boundary
def ifft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """`ifftn` over two axes."""
    return _transform("ifft2", FftType.IFFT, a, s, axes, norm, "s")


@api_boundary
def rfft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """`rfftn` over two axes."""
    return _transform("rfft2", FftType.RFFT, a, s, axes, norm, "s")


@api_boundary
def irfft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] = (-2, -1),
    norm: str | None = None,
) -> Array:
    """`irfftn` over two axes."""
    return _transform("irfft2", FftType.IRFFT, a, s, axes, norm, "s")


# -- frequencies ----------------------------------------------------------------------------------


def _frequencies(name: str, n: Any, dtype: Any) -> tuple[int, Any]:
    count = _integer(name, "n", n)
    if count < 1:
        raise ArgumentError(f"{name}: n must be 1 or more, got {count}.")
    wanted = dtypes.default_float() if dtype is None else dtypes.canonical(dtype)
    if not dtypes.is_inexact(wanted):
        raise DTypeError(f"{name}: dtype must be floating, got {dtypes.short_name(wanted)}.")
    return count, wanted


@api_boundary
def fftfreq(n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike = None, device: Any = None) -> Array:
    """The frequencies of the elements of `fft`, in cycles per unit of the sample distance d.

    Args:
        n: length of the transform, 1 or more.
        d: distance of samples, a number.
        dtype: of the result; None: the default float.
        device: taken for the sake of ported programs.
    Example:
        >>> mnp.fft.fftfreq(4, d=0.5)
        Array([ 0. ,  0.5, -1. , -0.5], dtype=float32)
    """
    count, wanted = _frequencies("fftfreq", n, dtype)
    numbers = roll(arange(-(count // 2), (count + 1) // 2, dtype=wanted), -(count // 2))
    return _divided(numbers, d, count)


@api_boundary
def rfftfreq(n: int, d: ArrayLike = 1.0, *, dtype: DTypeLike = None, device: Any = None) -> Array:
    """The frequencies of the elements of `rfft`. The arguments are those of `fftfreq`.

    Example:
        >>> mnp.fft.rfftfreq(4, d=0.5)
        Array([0. , 0.5, 1. ], dtype=float32)
    """
    count, wanted = _frequencies("rfftfreq", n, dtype)
    return _divided(arange(0, count // 2 + 1, dtype=wanted), d, count)


def _divided(numbers: Any, d: Any, n: int) -> Any:
    if d.__class__ in (int, float):
        step = scalar(d, numbers.dtype)
    else:
        step = convert(promoted("fftfreq", (d,))[0], numbers.dtype)
    return numbers / (step * n)


@api_boundary
def fftshift(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Array:
    """Move the zero frequency to the middle of axes (None: all).

    Example:
        >>> mnp.fft.fftshift(mnp.array([0, 1, 2, -2, -1]))
        Array([-2, -1,  0,  1,  2], dtype=int32)
    """
    return _shifted("fftshift", x, axes, 1)


@api_boundary
def ifftshift(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Array:
    """Inverse of `fftshift`."""
    return _shifted("ifftshift", x, axes, -1)


def _shifted(name: str, x: Any, axes: Any, sign: int) -> Any:
    (a,) = promoted(name, (x,))
    over = normalize_axes(name, axes, a.ndim)
    return roll(a, tuple([sign * (a.shape[i] // 2) for i in over]), over) if over else a
