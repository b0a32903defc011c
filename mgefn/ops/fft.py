"""Discrete Fourier transforms: `fft_p` transforms the last dimensions of an array.

X[k] = sum over j of x[j] exp(-2 pi i j k / n), the inverse with the other sign and 1 / n. A real
transform keeps the n // 2 + 1 elements that determine the others by symmetry.
"""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.core.array import ConcreteArray
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.core.avals import ShapedArray
from mgefn.core.primitive import Primitive
from mgefn.errors import ArgumentError, DTypeError, ShapeError, api_boundary
from mgefn.ops.elementwise import conj, convert, mul_p, promoted
from mgefn.ops.shaping import broadcast_in_dim, moveaxis, zeros


class FftType(enum.IntEnum):
    """Which transform: complex to complex and back, real to complex and back."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


# -- fft ------------------------------------------------------------------------------------------

# params: fft_type, an FftType; fft_lengths, the lengths of the last dimensions, positive: those of
# the operand, but that of the output in the last place of IRFFT
fft_p = Primitive("fft", linear=True)


@api_boundary
def fft(x: ArrayLike, fft_type: FftType | str | int, fft_lengths: Sequence[int]) -> Array:
    """Fourier transform over the last dimensions, as jax.lax.fft gives it.

    Args:
        x: an array. RFFT takes a real one, the others a complex one; real numbers are taken as
            complex where needed, integers and narrow floats as float32 or wider.
        fft_type: an FftType, or its name.
        fft_lengths: lengths of the last len(fft_lengths) dimensions, those of x; for IRFFT the last
            is that of the result, and x has length // 2 + 1 elements there.
    Returns:
        Array of the precision of x, complex but for IRFFT; for RFFT with length // 2 + 1 elements
        along the last dimension.
    Raises:
        ShapeError: the lengths are not those of x, or not positive.
        DTypeError: RFFT of a complex array.
    Example:
        >>> mgefn.lax.fft(mnp.array([1.0, 0.0, 0.0]), "RFFT", (3,))
        Array([1.+0.j, 1.+0.j], dtype=complex64)
    """
    kind = _fft_type(fft_type)
    (a,) = promoted("fft", (x,), inexact=True)
    lengths = tuple(map(operator.index, fft_lengths))
    return transformed(a, kind, lengths)


def _fft_type(given: Any) -> FftType:
    try:
        if isinstance(given, str):
            return FftType[given.upper()]
        # jax.lax.FftType's members have the same names.
        return FftType[given.name] if hasattr(given, "name") else FftType(given)
    except (KeyError, ValueError):
        raise ArgumentError(
            f"fft: fft_type must be one of {', '.join(FftType.__members__)}, got {given!r}."
        ) from None


@api_boundary
def transformed(x: Any, kind: FftType, lengths: tuple[int, ...]) -> Any:
    """Bind the primitive to an inexact array, widened to a dtype that has a transform."""
    dtype = x.dtype
    if not dtypes.is_complex(dtype):
        if dtype.itemsize < 4:
            dtype = np.dtype(np.float32)
        if kind != FftType.RFFT:
            dtype = dtypes.complex_dtype(dtype)
    x = convert(x, dtype)
    # Evaluation does not check types, so what the user wrote is checked here.
    _fft_abstract_eval(x.aval, fft_type=kind, fft_lengths=lengths)
    return fft_p.bind1(x, fft_type=kind, fft_lengths=lengths) if lengths else x


@fft_p.def_abstract_eval
def _fft_abstract_eval(x: ShapedArray, *, fft_type, fft_lengths):
    n = len(fft_lengths)
    if n > x.ndim:
        raise ShapeError(f"fft: fft_lengths {fft_lengths} has more entries than {x} dimensions.")
    if any(k < 1 for k in fft_lengths):
        raise ShapeError(f"fft: lengths must be 1 or more, got {fft_lengths} for {x}.")
    is_complex = dtypes.is_complex(x.dtype)
    if fft_type == FftType.RFFT:
        if is_complex or x.dtype.itemsize < 4 or not dtypes.is_float(x.dtype):
            raise DTypeError(f"fft: RFFT needs float32 or float64, got {x}. Use FFT, or x.real.")
    elif not is_complex:
        raise DTypeError(f"fft: {fft_type.name} needs a complex array, got {x}. Use astype.")
    if not n:
        return (x.strong(),)
    wanted = fft_lengths
    out = x.shape
    dtype = x.dtype
    half = (*fft_lengths[:-1], fft_lengths[-1] // 2 + 1)
    if fft_type == FftType.IRFFT:
        wanted, out = half, (*x.shape[:-n], *fft_lengths)
        dtype = dtypes.real_part_dtype(dtype)
    elif fft_type == FftType.RFFT:
        out = (*x.shape[:-n], *half)
        dtype = dtypes.complex_dtype(dtype)
    if x.shape[x.ndim - n :] != wanted:
        raise ShapeError(
            f"fft: {fft_type.name} with fft_lengths {fft_lengths} needs the last dimensions "
            f"{wanted}, got {x}. Pad or slice it."
        )
    return (ShapedArray(out, dtype),)


@fft_p.def_transpose
def _fft_transpose(cts, x, *, fft_type, fft_lengths):
    (ct,) = cts
    if fft_type in (FftType.FFT, FftType.IFFT):
        # The matrix exp(-2 pi i j k / n) is symmetric.
        return fft_p.bind(ct, fft_type=fft_type, fft_lengths=fft_lengths)
    if 0 in x.aval.shape:
        return (zeros(x.aval),)
    n, total = fft_lengths[-1], math.prod(fft_lengths)
    # All elements of the half that is kept stand for two, but the first and, of an even length,
    # the last one.
    weights = np.full(n // 2 + 1, 2.0)
    weights[0] = 1.0
    if n % 2 == 0:
        weights[-1] = 1.0
    if fft_type == FftType.RFFT:
        scaled = _times(conj(ct), total / weights)
        return fft_p.bind(scaled, fft_type=FftType.IRFFT, fft_lengths=fft_lengths)
    spectrum = fft_p.bind1(ct, fft_type=FftType.RFFT, fft_lengths=fft_lengths)
    return (_times(conj(spectrum), weights / total),)


def _times(x: Any, row: np.ndarray) -> Any:
    """x times known numbers along its last dimension."""
    factor = ConcreteArray(row.astype(x.dtype))
    return mul_p.bind1(x, broadcast_in_dim(factor, x.shape, (x.ndim - 1,)))


@fft_p.def_batch
def _fft_batch(args, bdims, **params):
    (x,), (bdim,) = args, bdims
    return fft_p.bind(moveaxis(x, bdim, 0), **params), (0,)


def _flops(in_avals: Sequence[ShapedArray], params: dict[str, Any]) -> float:
    """5 n log2 n for each complex transform of n elements, half of it for a real one."""
    x, lengths, kind = in_avals[0], params["fft_lengths"], params["fft_type"]
    total = math.prod(lengths)
    transforms = math.prod(x.shape[: x.ndim - len(lengths)])
    share = 1.0 if kind in (FftType.FFT, FftType.IFFT) else 0.5
    return share * 5.0 * transforms * total * math.log2(max(total, 2))


fft_p.flops = _flops
