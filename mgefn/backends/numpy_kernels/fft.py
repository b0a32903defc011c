"""The kernel of `ops/fft.py`: SciPy's transforms, which compute in the operand's precision."""

from __future__ import annotations

from typing import Any

import numpy as np

from mgefn.backends.numpy_kernels.base import deliver, temp_bytes
from mgefn.ops.fft import FftType


def _fft_temp(in_avals: Any, out_avals: Any, *, fft_type: Any, fft_lengths: Any) -> int:
    """The result before it is copied into its block; more for transforms over several axes."""
    (x,), (out,) = in_avals, out_avals
    # SciPy works line by line, with a few buffers of a line and twiddle factors as long; the
    # inverse real transform over several axes goes through a complex copy.
    lines = 16 * max(fft_lengths, default=0) * 16
    between = x.nbytes if fft_type == FftType.IRFFT and len(fft_lengths) > 1 else 0
    return out.nbytes + between + lines


@temp_bytes(_fft_temp)
def fft(x, *, fft_type, fft_lengths, outs: tuple = (None,)) -> tuple:
    import scipy.fft  # here, because few programs need it

    axes = tuple(range(x.ndim - len(fft_lengths), x.ndim))
    out = outs[0]
    if x.size == 0:
        shape = list(x.shape)
        if fft_type == FftType.RFFT:
            shape[-1] = fft_lengths[-1] // 2 + 1
        elif fft_type == FftType.IRFFT:
            shape[-1] = fft_lengths[-1]
        dtype = np.result_type(x.dtype, np.complex64) if fft_type == FftType.RFFT else x.dtype
        if fft_type == FftType.IRFFT:
            dtype = x.real.dtype
        return (np.empty(shape, dtype) if out is None else out,)
    if fft_type == FftType.FFT:
        y = scipy.fft.fftn(x, axes=axes)
    elif fft_type == FftType.IFFT:
        y = scipy.fft.ifftn(x, axes=axes)
    elif fft_type == FftType.RFFT:
        y = scipy.fft.rfftn(x, axes=axes)
    else:
        y = scipy.fft.irfftn(x, s=fft_lengths, axes=axes)
    return (deliver(y, out),)
