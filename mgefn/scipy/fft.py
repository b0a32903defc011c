"""Discrete cosine transforms under scipy.fft's names.

Each is a complex FFT of twice the length, whose twiddle factors turn it into a sum of cosines.

Source: Makhoul (1980), IEEE Trans. Acoust. 28(1), 27-34, doi:10.1109/TASSP.1980.1163351.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import ArgumentError, DTypeError, ShapeError, api_boundary
from mgefn.ops.elementwise import promoted
from mgefn.ops.shaping import normalize_axes, normalize_axis

__all__ = ["dct", "dctn", "idct", "idctn"]

_INVERSE = {1: 1, 2: 3, 3: 2, 4: 4}
_FLIPPED = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


def _checked(name: str, x: ArrayLike, type: int, norm: str | None) -> Any:
    (a,) = promoted(name, (x,), inexact=True)
    if dtypes.is_complex(a.dtype):
        raise DTypeError(f"{name}: needs a real array, got {a.aval}.")
    if type not in _INVERSE:
        raise ArgumentError(f"{name}: type must be 1, 2, 3 or 4, got {type!r}.")
    if norm not in _FLIPPED:
        raise ArgumentError(
            f"{name}: norm must be None, 'backward', 'ortho' or 'forward', got {norm!r}."
        )
    return a


def _resized(x: Any, n: int) -> Any:
    """The last axis cut or padded with zeros to the length n."""
    size = x.shape[-1]
    if n < 1:
        raise ShapeError(f"dct: the length must be at least 1, got {n}.")
    if n <= size:
        return x[..., :n]
    return mnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, n - size)])


def _cosine(x: Any, kind: int, norm: str | None) -> Any:
    """The transform along the last axis."""
    n = x.shape[-1]
    asked = x.dtype
    half = x.dtype.itemsize < 4
    if half:
        x = x.astype("float32")
    twin = np.complex128 if x.dtype.itemsize == 8 else np.complex64
    k = np.arange(n)
    ortho = norm == "ortho"
    ends = np.ones(n)
    if kind == 1:
        if n < 2:
            raise ShapeError("dct: type 1 needs a length of at least 2, got 1.")
        ends[[0, -1]] = math.sqrt(2)
        if ortho:
            x = x * ends.astype(x.dtype)
        even = mnp.concatenate([x, mnp.flip(x[..., 1:-1], -1)], axis=-1)
        y = mnp.real(mnp.fft.fft(even))[..., :n]
        period = 2 * (n - 1)
    else:
        period = 2 * n
        ends[0] = math.sqrt(2)
        if kind == 3 and ortho:
            x = x * ends.astype(x.dtype)
        before = {
            2: np.ones(n),
            3: np.exp(-0.5j * np.pi * k / n),
            4: np.exp(-0.25j * np.pi * (2 * k + 1) / n),
        }[kind]
        spectrum = mnp.fft.fft(x * before.astype(twin), n=period)[..., :n]
        if kind != 3:
            spectrum = spectrum * np.exp(-0.5j * np.pi * k / n).astype(twin)
        y = 2 * mnp.real(spectrum)
        if kind == 3:
            y = y - x[..., :1]
    if ortho:
        y = y / math.sqrt(period)
        if kind in (1, 2):
            y = y / ends.astype(y.dtype)
    elif norm == "forward":
        y = y / period
    return y.astype(asked) if half else y


def _along(x: Any, kind: int, n: Any, axis: int, norm: str | None) -> Any:
    y = mnp.moveaxis(x, axis, -1)
    y = _resized(y, y.shape[-1] if n is None else operator.index(n))
    return mnp.moveaxis(_cosine(y, kind, norm), -1, axis)


@api_boundary
def dct(
    x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Array:
    """Discrete cosine transform along an axis.

    Type 2, without norm: y[k] = 2 * sum over m of x[m] cos(pi k (2 m + 1) / (2 n)).

    Args:
        x: real; integers are taken as the default float.
        type: 1, 2, 3 or 4, as in SciPy.
        n: the length, to which x is cut or padded with zeros; None: x's own.
        axis: the dimension.
        norm: "backward" (also None): the sum itself; "forward": divided by 2 n, or 2 (n - 1) of
            type 1; "ortho": scaled to an orthogonal transform.

    Raises:
        DTypeError: x is complex. ArgumentError: another type or norm. ShapeError: n below 1.

    Example:
        >>> mgefn.scipy.fft.dct(mnp.array([1.0, 1.0]), norm="ortho")
        Array([1.4142135, 0.       ], dtype=float32)
    """
    a = _checked("dct", x, type, norm)
    return _along(a, type, n, normalize_axis("dct", axis, a.ndim), norm)


@api_boundary
def idct(
    x: ArrayLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None
) -> Array:
    """Inverse of `dct` of the same type and norm."""
    a = _checked("idct", x, type, norm)
    axis = normalize_axis("idct", axis, a.ndim)
    return _along(a, _INVERSE[type], n, axis, _FLIPPED[norm])


def _several(name: str, x: Any, kind: int, s: Any, axes: Any, norm: str | None) -> Any:
    if axes is None:
        axes = range(x.ndim) if s is None else range(x.ndim - len(s), x.ndim)
    dims = normalize_axes(name, tuple(axes), x.ndim)
    lengths = [None] * len(dims) if s is None else list(s)
    if len(lengths) != len(dims):
        raise ShapeError(f"{name}: s and axes must have one length, got {s!r} and {axes!r}.")
    # normalize_axes sorts; each length belongs to the axis as it was given.
    given = [a + x.ndim if a < 0 else a for a in map(operator.index, axes)]
    for axis, n in zip(given, lengths, strict=True):
        x = _along(x, kind, n, axis, norm)
    return x


@api_boundary
def dctn(
    x: ArrayLike,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """`dct` along several axes, or all; s gives their lengths."""
    return _several("dctn", _checked("dctn", x, type, norm), type, s, axes, norm)


@api_boundary
def idctn(
    x: ArrayLike,
    type: int = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """`idct` along several axes, or all; s gives their lengths."""
    a = _checked("idctn", x, type, norm)
    return _several("idctn", a, _INVERSE[type], s, axes, _FLIPPED[norm])
