"""The kernel of `ops/fft.py`: NumPy's transforms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mgefn.backends.numpy_kernels.base import temp_bytes
from mgefn.ops.fft import FftType


def _scaled(fft_type: Any, itemsize: int, total: int) -> bool:
    """Is a forward transform to be asked for with a factor 1 / total, and multiplied by total?

    NumPy computes forward transforms of float32 and complex64 in double precision, in memory four
    times as large, unless there is a factor. A power of two as the factor costs no accuracy.
    """
    single = itemsize == (4 if fft_type == FftType.RFFT else 8)
    forward = fft_type in (FftType.FFT, FftType.RFFT)
    return single and forward and total & (total - 1) == 0


def _fft_temp(in_avals: Any, out_avals: Any, *, fft_type: Any, fft_lengths: Any) -> int:
    """Buffers of a line, copies in double precision, and what is between several axes."""
    (x,), (out,) = in_avals, out_avals
    # NumPy works line by line, with a few buffers of a line and twiddle factors as long.
    lines = 16 * max(fft_lengths, default=0) * 16
    total = math.prod(fft_lengths)
    wide = 0
    if fft_type in (FftType.FFT, FftType.RFFT) and not _scaled(fft_type, x.dtype.itemsize, total):
        if out.dtype.itemsize == 8:
            wide = 2 * (max(x.nbytes, out.nbytes) + out.nbytes)
    # The inverse real transform has a complex copy for each of two axes.
    between = x.nbytes * min(2, len(fft_lengths) - 1) if fft_type == FftType.IRFFT else 0
    return wide + between + lines


@temp_bytes(_fft_temp)
def fft(x, *, fft_type, fft_lengths, outs: tuple = (None,)) -> tuple:
    transforms = {
        FftType.FFT: np.fft.fftn,
        FftType.IFFT: np.fft.ifftn,
        FftType.RFFT: np.fft.rfftn,
        FftType.IRFFT: np.fft.irfftn,
    }
    axes = tuple(range(x.ndim - len(fft_lengths), x.ndim))
    total = math.prod(fft_lengths)
    scaled = _scaled(fft_type, x.dtype.itemsize, total)
    norm = "forward" if scaled else "backward"
    y = transforms[fft_type](x, s=fft_lengths, axes=axes, norm=norm, out=outs[0])
    if scaled:
        y *= total
    return (y,)
