"""Convolutions, filters and spectra under scipy.signal's names.

Windows are those of scipy.signal.get_window, computed once as constants.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mgefn import dtypes, lax
from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import ArgumentError, ShapeError, api_boundary
from mgefn.ops.elementwise import convert, promoted, where
from mgefn.ops.shaping import normalize_axes, normalize_axis

__all__ = [
    "convolve",
    "convolve2d",
    "correlate",
    "correlate2d",
    "csd",
    "detrend",
    "fftconvolve",
    "istft",
    "lfilter",
    "sosfilt",
    "stft",
    "welch",
]

# -- convolution ----------------------------------------------------------------------------------


def _two(name: str, in1: Any, in2: Any, mode: str) -> tuple[Any, Any]:
    x, y = promoted(name, (in1, in2), inexact=True)
    if mode not in ("full", "same", "valid"):
        raise ArgumentError(f"{name}: mode must be 'full', 'same' or 'valid', got {mode!r}.")
    if x.ndim != y.ndim:
        raise ShapeError(f"{name}: needs arrays of one rank, got {x.aval} and {y.aval}.")
    if not x.size or not y.size:
        raise ShapeError(f"{name}: needs arrays with elements, got {x.aval} and {y.aval}.")
    return x, y


def _swapped(name: str, x: Any, y: Any, mode: str, axes: Sequence[int]) -> tuple[Any, Any]:
    """The larger one first, where a valid convolution needs it."""
    if mode != "valid" or all(x.shape[a] >= y.shape[a] for a in axes):
        return x, y
    if all(x.shape[a] <= y.shape[a] for a in axes):
        return y, x
    raise ShapeError(
        f"{name}: mode 'valid' needs one array at least as large as the other in every dimension, "
        f"got {x.aval} and {y.aval}."
    )


def _direct(x: Any, y: Any, mode: str) -> Any:
    """Convolution of arrays of one rank by sums of products."""
    if not x.ndim:
        return x * y
    pads = {
        "full": [(s - 1, s - 1) for s in y.shape],
        # The middle of the full one.
        "same": [(s // 2, (s - 1) // 2) for s in y.shape],
        "valid": [(0, 0)] * x.ndim,
    }[mode]
    kernel = mnp.flip(y)
    out = lax.conv_general_dilated(x[None, None], kernel[None, None], (1,) * x.ndim, pads)
    return out[0, 0]


def _convolve(name: str, in1: Any, in2: Any, mode: str, method: str, conjugate: bool) -> Any:
    if method not in ("auto", "direct", "fft"):
        raise ArgumentError(f"{name}: method must be 'auto', 'direct' or 'fft', got {method!r}.")
    x, y = _two(name, in1, in2, mode)
    if conjugate:
        y = mnp.flip(mnp.conj(y))
    if method == "fft":
        return fftconvolve(x, y, mode)
    return _direct(*_swapped(name, x, y, mode, range(x.ndim)), mode)


@api_boundary
def convolve(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    method: str = "auto",
    precision: Any = None,
) -> Array:
    """Convolution of two arrays of one rank.

    Args:
        in1, in2: numbers; integers are taken as the default float.
        mode: "full": all overlaps; "same": its middle part of in1's shape; "valid": where one
            array lies within the other.
        method: "direct" (also "auto"): sums of products; "fft": see `fftconvolve`.
        precision: accepted for JAX's programs.

    Raises:
        ShapeError: the ranks differ, or neither array contains the other in mode "valid".
        ArgumentError: another mode or method.

    Example:
        >>> mgefn.scipy.signal.convolve(mnp.array([1.0, 2.0]), mnp.array([1.0, 1.0]))
        Array([1., 3., 2.], dtype=float32)
    """
    return _convolve("convolve", in1, in2, mode, method, False)


@api_boundary
def correlate(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    method: str = "auto",
    precision: Any = None,
) -> Array:
    """Cross-correlation: the convolution with in2 reversed and conjugated; see `convolve`."""
    return _convolve("correlate", in1, in2, mode, method, True)


_BOUNDARIES = {"fill": "constant", "wrap": "wrap", "symm": "symmetric"}


def _two_dimensional(
    name: str, in1: Any, in2: Any, mode: str, boundary: str, fillvalue: Any, conjugate: bool
) -> Any:
    if boundary not in _BOUNDARIES:
        raise ArgumentError(f"{name}: boundary must be 'fill', 'wrap' or 'symm', got {boundary!r}.")
    x, y = _two(name, in1, in2, mode)
    if x.ndim != 2:
        raise ShapeError(f"{name}: needs arrays of rank 2, got {x.aval} and {y.aval}.")
    if conjugate:
        y = mnp.flip(mnp.conj(y))
    if mode == "valid":
        return _direct(*_swapped(name, x, y, mode, (0, 1)), mode)
    if mode == "full":
        pads = [(s - 1, s - 1) for s in y.shape]
    elif conjugate:
        pads = [((s - 1) // 2, s // 2) for s in y.shape]
    else:
        pads = [(s // 2, (s - 1) // 2) for s in y.shape]
    options = {"constant_values": fillvalue} if boundary == "fill" else {}
    return _direct(mnp.pad(x, pads, mode=_BOUNDARIES[boundary], **options), y, "valid")


@api_boundary
def convolve2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: ArrayLike = 0,
    precision: Any = None,
) -> Array:
    """Convolution of two matrices.

    Args:
        in1, in2, mode, precision: as for `convolve`.
        boundary: what lies beyond in1: "fill": fillvalue; "wrap": in1 again; "symm": its mirror
            image.
        fillvalue: the constant.
    """
    return _two_dimensional("convolve2d", in1, in2, mode, boundary, fillvalue, False)


@api_boundary
def correlate2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: ArrayLike = 0,
    precision: Any = None,
) -> Array:
    """Cross-correlation of two matrices; arguments as for `convolve2d`."""
    return _two_dimensional("correlate2d", in1, in2, mode, boundary, fillvalue, True)


@api_boundary
def fftconvolve(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: int | Sequence[int] | None = None
) -> Array:
    """Convolution by Fourier transforms.

    Args:
        in1, in2, mode: as for `convolve`.
        axes: the dimensions along which to convolve, the others broadcasting; None: all.
    """
    x, y = _two("fftconvolve", in1, in2, mode)
    if not x.ndim:
        return x * y
    given = range(x.ndim) if axes is None else (axes,) if isinstance(axes, int) else axes
    dims = normalize_axes("fftconvolve", tuple(given), x.ndim)
    for i in range(x.ndim):
        if i not in dims and x.shape[i] != y.shape[i] and 1 not in (x.shape[i], y.shape[i]):
            raise ShapeError(
                f"fftconvolve: dimension {i}, which is not in axes, must broadcast, got {x.aval} "
                f"and {y.aval}."
            )
    x, y = _swapped("fftconvolve", x, y, mode, dims)
    full = [x.shape[a] + y.shape[a] - 1 for a in dims]
    if dtypes.is_complex(x.dtype):
        product = mnp.fft.fftn(x, full, dims) * mnp.fft.fftn(y, full, dims)
        out = mnp.fft.ifftn(product, full, dims)
    else:
        product = mnp.fft.rfftn(x, full, dims) * mnp.fft.rfftn(y, full, dims)
        out = mnp.fft.irfftn(product, full, dims)
    index = [slice(None)] * x.ndim
    for a, size in zip(dims, full, strict=True):
        length = {
            "full": size,
            "same": x.shape[a],
            "valid": x.shape[a] - y.shape[a] + 1,
        }[mode]
        start = (size - length) // 2
        index[a] = slice(start, start + length)
    return out[tuple(index)].astype(x.dtype)


# -- filters --------------------------------------------------------------------------------------


@api_boundary
def lfilter(
    b: ArrayLike, a: ArrayLike, x: ArrayLike, axis: int = -1, zi: ArrayLike | None = None
) -> Any:
    """Filter by a rational transfer function, a scan along an axis.

    a[0] y[n] = b[0] x[n] + ... + b[M] x[n - M] - a[1] y[n - 1] - ... - a[N] y[n - N].

    Args:
        b, a: the numerator's and the denominator's coefficients, vectors.
        x: the signal.
        axis: the dimension along which to filter.
        zi: the delays at the start, x's shape with max(M, N) along the axis; None: zeros.

    Returns:
        The filtered signal; with zi also the delays at the end.

    Raises:
        ShapeError: b or a is no vector with elements.

    Example:
        >>> mgefn.scipy.signal.lfilter([1.0], [1.0, -0.5], mnp.array([1.0, 0.0, 0.0]))
        Array([1.  , 0.5 , 0.25], dtype=float32)
    """
    num, den, signal = promoted("lfilter", (b, a, x), inexact=True)
    num, den = mnp.atleast_1d(num), mnp.atleast_1d(den)
    if num.ndim != 1 or den.ndim != 1 or not num.size or not den.size:
        raise ShapeError(
            f"lfilter: b and a must be vectors with elements, got {num.aval} and {den.aval}."
        )
    axis = normalize_axis("lfilter", axis, signal.ndim)
    order = max(num.size, den.size) - 1
    num = mnp.pad(num, (0, order + 1 - num.size)) / den[0]
    den = mnp.pad(den, (0, order + 1 - den.size)) / den[0]
    samples = mnp.moveaxis(signal, axis, 0)
    batch = samples.shape[1:]
    if zi is None:
        state = mnp.zeros((order, *batch), samples.dtype)
    else:
        state = mnp.moveaxis(convert(mnp.asarray(zi), samples.dtype), axis, 0)
        state = mnp.broadcast_to(state, (order, *batch))
    shape = (-1,) + (1,) * len(batch)
    num_rest, den_rest = mnp.reshape(num[1:], shape), mnp.reshape(den[1:], shape)

    def step(delays: Any, sample: Any) -> tuple[Any, Any]:
        if not order:
            return delays, num[0] * sample
        out = num[0] * sample + delays[0]
        shifted = mnp.concatenate([delays[1:], mnp.zeros_like(delays[:1])])
        return shifted + num_rest * sample - den_rest * out, out

    state, filtered = lax.scan(step, state, samples)
    filtered = mnp.moveaxis(filtered, 0, axis)
    return filtered if zi is None else (filtered, mnp.moveaxis(state, 0, axis))


@api_boundary
def sosfilt(sos: ArrayLike, x: ArrayLike, axis: int = -1, zi: ArrayLike | None = None) -> Any:
    """Filter by second-order sections, one after the other.

    Args:
        sos: shape (sections, 6): b and a of each section, as `lfilter` takes them.
        x: the signal.
        axis: the dimension along which to filter.
        zi: the delays at the start, shape (sections, ..., 2, ...); None: zeros.

    Returns:
        The filtered signal; with zi also the delays at the end.

    Raises:
        ShapeError: sos is not of shape (sections, 6).
    """
    sections, signal = promoted("sosfilt", (sos, x), inexact=True)
    if sections.ndim != 2 or sections.shape[1] != 6:
        raise ShapeError(f"sosfilt: sos must have shape (sections, 6), got {sections.aval}.")
    start = None if zi is None else mnp.asarray(zi)
    ends = []
    for i in range(sections.shape[0]):
        out = lfilter(
            sections[i, :3], sections[i, 3:], signal, axis, None if start is None else start[i]
        )
        if start is None:
            signal = out
        else:
            signal, end = out
            ends.append(end)
    return signal if start is None else (signal, mnp.stack(ends))


@api_boundary
def detrend(
    data: ArrayLike,
    axis: int = -1,
    type: str = "linear",
    bp: int | Sequence[int] | np.ndarray = 0,
    overwrite_data: None = None,
) -> Array:
    """Take away the line, or the mean, that fits best along an axis.

    Args:
        data: the signal.
        axis: the dimension.
        type: "linear" or "constant".
        bp: places where one line ends and the next begins.
        overwrite_data: must be None: arrays are immutable.

    Raises:
        ArgumentError: another type, or a place outside.
    """
    if overwrite_data is not None:
        raise ArgumentError("detrend: overwrite_data must be None. Arrays are immutable.")
    (x,) = promoted("detrend", (data,), inexact=True)
    if type not in ("linear", "constant"):
        raise ArgumentError(f"detrend: type must be 'linear' or 'constant', got {type!r}.")
    if type == "constant":
        return x - mnp.mean(x, axis=axis, keepdims=True)
    axis = normalize_axis("detrend", axis, x.ndim)
    n = x.shape[axis]
    cuts = np.unique(np.concatenate([[0], np.atleast_1d(bp), [n]]).astype(int))
    if cuts[0] < 0 or cuts[-1] > n:
        raise ArgumentError(f"detrend: bp must lie within [0, {n}], got {bp!r}.")
    y = mnp.moveaxis(x, axis, -1)
    parts = []
    for start, stop in itertools.pairwise(cuts):
        size = stop - start
        lines = np.stack([np.ones(size), np.arange(1, size + 1) / size], axis=1)
        basis = mnp.asarray(np.linalg.qr(lines)[0].astype(dtypes.real_part_dtype(y.dtype)))
        piece = y[..., start:stop]
        parts.append(piece - (piece @ basis) @ basis.T)
    return mnp.moveaxis(mnp.concatenate(parts, axis=-1), -1, axis)


# -- spectra --------------------------------------------------------------------------------------


def _window(name: str, window: Any, nperseg: int, dtype: np.dtype) -> Any:
    if isinstance(window, (str, tuple)):
        import scipy.signal  # a heavy library, needed by few programs

        return mnp.asarray(np.asarray(scipy.signal.get_window(window, nperseg)).astype(dtype))
    values = mnp.asarray(window)
    if values.shape != (nperseg,):
        raise ShapeError(f"{name}: window must have length {nperseg}, got {values.aval}.")
    return values.astype(dtype)


def _segments(x: Any, nperseg: int, step: int) -> Any:
    """Overlapping pieces of the last axis: shape (..., pieces, nperseg)."""
    count = (x.shape[-1] - nperseg) // step + 1
    return x[..., step * np.arange(count)[:, None] + np.arange(nperseg)]


def _extended(name: str, x: Any, boundary: str, n: int) -> Any:
    """The last axis extended by n elements at both ends."""
    left, right = x[..., :1], x[..., -1:]
    if boundary == "zeros":
        left = right = mnp.zeros((*x.shape[:-1], n), x.dtype)
    elif boundary == "constant":
        left, right = mnp.repeat(left, n, axis=-1), mnp.repeat(right, n, axis=-1)
    elif boundary in ("even", "odd"):
        first, last = mnp.flip(x[..., 1 : n + 1], -1), mnp.flip(x[..., -n - 1 : -1], -1)
        odd = boundary == "odd"
        left, right = (2 * left - first, 2 * right - last) if odd else (first, last)
    else:
        raise ArgumentError(
            f"{name}: boundary must be 'even', 'odd', 'constant', 'zeros' or None, got "
            f"{boundary!r}."
        )
    return mnp.concatenate([left, x, right], axis=-1)


def _lengths(
    name: str, size: int, window: Any, nperseg: Any, noverlap: Any, nfft: Any
) -> tuple[int, int, int]:
    if nperseg is None:
        nperseg = min(256, size) if isinstance(window, (str, tuple)) else len(window)
    nperseg = operator.index(nperseg)
    if nperseg < 1:
        raise ArgumentError(f"{name}: nperseg must be at least 1, got {nperseg}.")
    nperseg = min(nperseg, size)
    noverlap = nperseg // 2 if noverlap is None else operator.index(noverlap)
    nfft = nperseg if nfft is None else operator.index(nfft)
    if noverlap >= nperseg:
        raise ArgumentError(
            f"{name}: noverlap must be less than nperseg, got {noverlap} and {nperseg}."
        )
    if nfft < nperseg:
        raise ArgumentError(f"{name}: nfft must be at least nperseg, got {nfft} and {nperseg}.")
    return nperseg, noverlap, nfft


def _spectra(
    name: str,
    x: ArrayLike,
    y: ArrayLike | None,
    fs: ArrayLike,
    window: Any,
    nperseg: Any,
    noverlap: Any,
    nfft: Any,
    trend: str | bool | Callable[[Any], Any],
    return_onesided: bool,
    scaling: str,
    axis: int,
    boundary: str | None = None,
    padded: bool = False,
    amplitudes: bool = False,
) -> tuple[Any, Any, Any]:
    """Frequencies, times, and the short spectra (..., frequencies, times) of each segment."""
    same = y is None or y is x
    arrays = promoted(name, (x,) if same else (x, y), inexact=True)
    if scaling not in ("density", "spectrum"):
        raise ArgumentError(f"{name}: scaling must be 'density' or 'spectrum', got {scaling!r}.")
    axis = normalize_axis(name, axis, arrays[0].ndim)
    arrays = [mnp.moveaxis(a, axis, -1) for a in arrays]
    if any(not a.size for a in arrays):
        raise ShapeError(f"{name}: needs a signal with elements, got {arrays[0].aval}.")
    size = max(a.shape[-1] for a in arrays)
    arrays = [
        mnp.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, size - a.shape[-1])]) if a.shape[-1] < size else a
        for a in arrays
    ]
    nperseg, noverlap, nfft = _lengths(name, size, window, nperseg, noverlap, nfft)
    step = nperseg - noverlap
    if boundary is not None:
        arrays = [_extended(name, a, boundary, nperseg // 2) for a in arrays]
    if padded:
        more = (-(arrays[0].shape[-1] - nperseg) % step) % nperseg
        arrays = [mnp.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, more)]) for a in arrays]
    dtype = arrays[0].dtype
    is_complex = dtypes.is_complex(dtype)
    real_dtype = dtypes.real_part_dtype(dtype)
    win = _window(name, window, nperseg, real_dtype)
    onesided = return_onesided and not is_complex

    def spectrum(a: Any) -> Any:
        pieces = _segments(a, nperseg, step)
        if callable(trend):
            pieces = trend(pieces)
        elif trend:
            pieces = detrend(pieces, -1, trend if isinstance(trend, str) else "constant")
        pieces = pieces * win
        return mnp.fft.rfft(pieces, nfft) if onesided else mnp.fft.fft(pieces, nfft)

    first = spectrum(arrays[0])
    if scaling == "density":
        scale = 1 / (fs * mnp.sum(win * win))
    else:
        scale = 1 / mnp.square(mnp.sum(win))
    if amplitudes:
        result = first * mnp.sqrt(scale)
    else:
        second = first if same else spectrum(arrays[1])
        result = mnp.conj(first) * second * scale
        if onesided:
            doubled = np.full(result.shape[-1], 2.0)
            doubled[0] = 1
            if nfft % 2 == 0:
                doubled[-1] = 1
            result = result * doubled.astype(real_dtype)
    count = result.shape[-2]
    times = (nperseg / 2 + step * np.arange(count)).astype(real_dtype) / fs
    if boundary is not None:
        times = times - (nperseg / 2) / fs
    spacing = 1 / fs
    freqs = (
        mnp.fft.rfftfreq(nfft, spacing, dtype=real_dtype)
        if onesided
        else mnp.fft.fftfreq(nfft, spacing, dtype=real_dtype)
    )
    # Frequencies stand where the signal's axis was, times last.
    return freqs, times, mnp.moveaxis(result, -1, axis)


@api_boundary
def stft(
    x: ArrayLike,
    fs: ArrayLike = 1.0,
    window: Any = "hann",
    nperseg: int = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: str | bool | Callable[[Any], Any] = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
) -> tuple[Array, Array, Array]:
    """Short-time Fourier transform.

    Args:
        x: the signal.
        fs: samples in a unit of time.
        window: a name of scipy.signal.get_window, or its values.
        nperseg: samples in a segment.
        noverlap: samples that segments share; None: half of them.
        nfft: the transforms' length; None: nperseg.
        detrend: "linear", "constant" or a function, applied to each segment; False: nothing.
        return_onesided: of a real signal only the frequencies from 0 on.
        boundary: how x is extended at both ends: "zeros", "even", "odd", "constant" or None.
        padded: add zeros so that whole segments fit.
        axis: the dimension of time.

    Returns:
        Frequencies, times of the segments, and the transforms: frequencies stand where the axis
        was, times last.
    """
    return _spectra(
        "stft", x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, "spectrum",
        axis, boundary, padded, amplitudes=True,
    )  # fmt: skip


@api_boundary
def csd(
    x: ArrayLike,
    y: ArrayLike | None,
    fs: ArrayLike = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: str | bool | Callable[[Any], Any] = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """Cross power spectral density of two signals by Welch's method.

    Args:
        x, y: the signals, the shorter one filled with zeros; y None: x.
        fs, window, nperseg, noverlap, nfft, detrend, return_onesided, axis: as for `stft`; nperseg
            None: 256.
        scaling: "density", per unit of frequency, or "spectrum".
        average: "mean" or "median" of the segments.

    Returns:
        Frequencies and the density.
    """
    freqs, _, spectra = _spectra(
        "csd", x, y, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis
    )
    if average not in ("mean", "median"):
        raise ArgumentError(f"csd: average must be 'mean' or 'median', got {average!r}.")
    n = spectra.shape[-1]
    if average == "mean" or n == 1:
        return freqs, mnp.mean(spectra, axis=-1)
    # The expectation of the median of n exponential numbers, relative to their mean.
    pairs = 2 * np.arange(1, (n - 1) // 2 + 1)
    bias = 1 + float(np.sum(1 / (pairs + 1) - 1 / pairs))
    median = lax.complex(
        mnp.median(mnp.real(spectra), axis=-1), mnp.median(mnp.imag(spectra), axis=-1)
    )
    return freqs, median / bias


@api_boundary
def welch(
    x: ArrayLike,
    fs: ArrayLike = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: str | bool | Callable[[Any], Any] = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Array, Array]:
    """Power spectral density by Welch's method; arguments as for `csd`."""
    freqs, density = csd(
        x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis,
        average,
    )  # fmt: skip
    return freqs, mnp.real(density)


@api_boundary
def istft(
    Zxx: ArrayLike,
    fs: ArrayLike = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
) -> tuple[Array, Array]:
    """Inverse of `stft`, by adding up overlapping segments.

    Args:
        Zxx: transforms of the segments.
        fs, window, nperseg, noverlap, nfft: as given to stft.
        input_onesided: Zxx has the frequencies from 0 on.
        boundary: the signal had been extended at its ends, which are cut off.
        time_axis, freq_axis: the dimensions of Zxx.

    Returns:
        Times and the signal, its axis where the frequencies were.

    Raises:
        ShapeError: Zxx has rank below 2. ArgumentError: lengths that do not fit.
    """
    (z,) = promoted("istft", (Zxx,), inexact=True)
    z = convert(z, dtypes.promote_types(z.dtype, "complex64"))
    if z.ndim < 2:
        raise ShapeError(f"istft: Zxx must have rank 2 at least, got {z.aval}.")
    time_axis = normalize_axis("istft", time_axis, z.ndim)
    freq_axis = normalize_axis("istft", freq_axis, z.ndim)
    if time_axis == freq_axis:
        raise ArgumentError("istft: time_axis and freq_axis must differ.")
    z = mnp.moveaxis(z, (time_axis, freq_axis), (-2, -1))
    count, n_freq = z.shape[-2:]
    default = 2 * (n_freq - 1) if input_onesided else n_freq
    nperseg = default if nperseg is None else operator.index(nperseg)
    if nfft is None:
        nfft = nperseg if input_onesided and nperseg == default + 1 else default
    nfft = operator.index(nfft)
    if nperseg < 1 or nfft < nperseg:
        raise ArgumentError(
            f"istft: nfft must be at least nperseg, and both positive, got {nfft} and {nperseg}."
        )
    noverlap = nperseg // 2 if noverlap is None else operator.index(noverlap)
    if noverlap >= nperseg:
        raise ArgumentError(
            f"istft: noverlap must be less than nperseg, got {noverlap} and {nperseg}."
        )
    step = nperseg - noverlap
    real_dtype = dtypes.real_part_dtype(z.dtype)
    win = _window("istft", window, nperseg, real_dtype)
    pieces = mnp.fft.irfft(z, nfft) if input_onesided else mnp.fft.ifft(z, nfft)
    pieces = pieces[..., :nperseg] * (win * mnp.sum(win))
    length = nperseg + (count - 1) * step
    places = step * np.arange(count)[:, None] + np.arange(nperseg)
    total = mnp.zeros((*z.shape[:-2], length), pieces.dtype).at[..., places].add(pieces)
    squares = mnp.broadcast_to(win * win, (count, nperseg))
    weight = mnp.zeros(length, real_dtype).at[places].add(squares)
    if boundary:
        cut = nperseg // 2
        total, weight = total[..., cut : length - cut], weight[cut : length - cut]
    x = total / where(weight > 1e-10, weight, 1)
    if x.ndim > 1:
        axis = freq_axis - (time_axis < freq_axis)
        x = mnp.moveaxis(x, -1, axis)
    times = np.arange(weight.shape[0]).astype(real_dtype) / fs
    return mnp.asarray(times), x
