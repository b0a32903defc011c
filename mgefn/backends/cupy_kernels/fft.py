"""The kernel of `ops/fft.py`: cuFFT, which computes in the operand's precision."""

from __future__ import annotations

from typing import Any

import numpy as np

from mgefn.core.cuda import xp
from mgefn.ops.fft import FftType


def fft(x: Any, *, fft_type: FftType, fft_lengths: tuple[int, ...]) -> tuple:
    axes = tuple(range(x.ndim - len(fft_lengths), x.ndim))
    if x.size == 0:
        shape = list(x.shape)
        dtype = x.dtype
        if fft_type == FftType.RFFT:
            shape[-1] = fft_lengths[-1] // 2 + 1
            dtype = np.result_type(x.dtype, np.complex64)
        elif fft_type == FftType.IRFFT:
            shape[-1] = fft_lengths[-1]
            dtype = x.real.dtype
        return (xp.zeros(shape, dtype),)
    if fft_type == FftType.FFT:
        return (xp.fft.fftn(x, axes=axes),)
    if fft_type == FftType.IFFT:
        return (xp.fft.ifftn(x, axes=axes),)
    if fft_type == FftType.RFFT:
        return (xp.fft.rfftn(x, axes=axes),)
    return (xp.fft.irfftn(x, s=fft_lengths, axes=axes),)
