"""Filters and transforms in plain NumPy: spectrograms, windows, resampling, adaptive filters."""

import numpy as np


def spectrogram(x, size=6, hop=3):
    """Power of overlapping windowed frames in decibels, and the spectral flux."""
    n = np.arange(size)
    window = 0.54 - 0.46 * np.cos(2 * np.pi * n / (size - 1))
    starts = np.arange(0, len(x) - size + 1, hop)
    frames = x[starts[:, None] + n[None, :]]
    frames = frames - frames.mean(axis=1, keepdims=True)
    spectrum = np.fft.rfft(frames * window, axis=-1)
    power = spectrum.real**2 + spectrum.imag**2
    decibels = 10 * np.log10(power[:, 1:] / np.sum(window**2) + 1e-2)
    rise = np.diff(np.sqrt(power[:, 1:]), axis=0)
    flux = np.where(rise > 0, rise, 0).sum(axis=1)
    return decibels, flux


def windowed_sinc_filter(x, cutoff, taps=7):
    """A low-pass filter designed with a Blackman window, its output and its response."""
    n = np.arange(taps) - (taps - 1) / 2
    ideal = 2 * cutoff * np.sinc(2 * cutoff * n)
    kernel = ideal * np.blackman(taps + 2)[1:-1]
    kernel = kernel / kernel.sum()
    filtered = np.convolve(x, kernel, mode="same")
    frequencies = np.linspace(0, 0.5, 5)
    phases = np.exp(-2j * np.pi * np.outer(frequencies, np.arange(taps)))
    response = np.abs(phases @ kernel)
    delay = np.sum(n * kernel)
    return filtered, response, delay + (taps - 1) / 2


def welch_density(x, size=4):
    """Power spectral density from half-overlapping segments, and the power in a band."""
    hop = size // 2
    window = np.hanning(size + 1)[:-1]
    scale = 1 / np.sum(window**2)
    periodograms = []
    for start in range(0, x.size - size + 1, hop):
        segment = x[start : start + size]
        trend = np.polyfit(np.arange(size), segment, 1)
        segment = segment - np.polyval(trend, np.arange(size))
        periodograms.append(scale * np.abs(np.fft.rfft(window * segment)) ** 2)
    segments = np.stack(periodograms)
    density = segments.mean(axis=0)
    density = np.concatenate([density[:1], 2 * density[1:-1], density[-1:]])
    frequencies = np.fft.rfftfreq(size)
    band = np.where((frequencies > 0.1) & (frequencies < 0.6), density, 0)
    return density, np.trapezoid(band, frequencies), segments.std(axis=0)


def least_mean_squares(x, desired, rate=0.05, taps=3):
    """An adaptive filter that learns to predict a signal, and its errors."""
    w = np.zeros(taps)
    padded = np.concatenate([np.zeros(taps - 1), x])
    errors = []
    for k in range(len(x)):
        recent = padded[k : k + taps][::-1]
        output = np.dot(w, recent)
        error = desired[k] - output
        power = 0.1 + np.dot(recent, recent)
        w = w + rate * error * recent / power
        errors.append(error)
    errors = np.stack(errors)
    return w, np.mean(errors**2), np.cumsum(np.abs(errors))[-1]


def cepstrum_and_pitch(x):
    """Real cepstrum of a signal, its smooth envelope, and the parabola around its peak."""
    n = x.size
    spectrum = np.fft.fft(x * np.bartlett(n + 2)[1:-1])
    log_magnitude = np.log(np.abs(spectrum) + 0.05)
    cepstrum = np.fft.ifft(log_magnitude).real
    quefrency = np.minimum(np.arange(n), n - np.arange(n))
    lifter = np.where(quefrency <= 2, 1.0, 0.0)
    envelope = np.fft.fft(cepstrum * lifter).real
    k = np.argmax(cepstrum[2 : n // 2]) + 2
    left, middle, right = cepstrum[k - 1], cepstrum[k], cepstrum[k + 1]
    shift = 0.5 * (left - right) / (left - 2 * middle + right)
    return envelope, k + shift


def resampled(x, factor=2):
    """A periodic signal on a finer grid by zero padding of its spectrum, and its derivative."""
    n = x.shape[-1]
    spectrum = np.fft.fftshift(np.fft.fft(x))
    extra = n * (factor - 1)
    padded = np.pad(spectrum, (extra // 2 + extra % 2, extra // 2))
    fine = np.fft.ifft(np.fft.ifftshift(padded)) * factor
    frequencies = np.fft.fftfreq(n, 1 / n)
    derivative = np.fft.ifft(1j * frequencies * np.fft.fft(x))
    correlation = np.fft.irfft(np.fft.rfft(x) * np.conj(np.fft.rfft(np.roll(x, 2))), n)
    return np.real(fine), derivative.real, correlation / np.dot(x, x)


def denoised_wavelet(x, threshold):
    """A signal after soft thresholding of its Daubechies-4 wavelet coefficients."""
    root3 = np.sqrt(3)
    low = np.array([1 + root3, 3 + root3, 3 - root3, 1 - root3]) / (4 * np.sqrt(2))
    high = low[::-1] * np.array([1, -1, 1, -1])
    n = len(x)
    taken = (np.arange(0, n, 2)[:, None] + np.arange(4)) % n
    smooth, detail = x[taken] @ low, x[taken] @ high
    shrunk = np.sign(detail) * np.maximum(np.abs(detail) - threshold, 0)
    rows = np.eye(n)[taken]
    analysis_low = np.einsum("k,rkn->rn", low, rows)
    analysis_high = np.einsum("k,rkn->rn", high, rows)
    restored = smooth @ analysis_low + shrunk @ analysis_high
    return restored, np.sum((restored - x) ** 2)


def savitzky_golay(x, half=2, degree=2):
    """Smoothed signal and slope by a polynomial in a moving window, the ends mirrored."""
    offsets = np.arange(-half, half + 1)
    A = np.vander(offsets, degree + 1, increasing=True).astype(float)
    weights = np.linalg.pinv(A)
    padded = np.pad(x, half, mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1)
    smooth = windows @ weights[0]
    slope = windows @ weights[1]
    curvature = 2 * windows @ weights[2]
    residual = x - smooth
    roughness = np.sqrt(np.mean(curvature**2))
    return smooth, slope, roughness + np.linalg.norm(residual)


def phase_vocoder(x, stretch, size=4):
    """Frames between the frames of a signal: magnitudes mixed, phases advanced."""
    hop = size // 2
    window = np.sin(np.pi * (np.arange(size) + 0.5) / size)
    frames = [x[i : i + size] * window for i in range(0, len(x) - size + 1, hop)]
    spectra = np.fft.rfft(np.stack(frames), axis=1)
    magnitude, phase = np.abs(spectra), np.angle(spectra)
    advance = np.diff(phase, axis=0)
    advance = advance - 2 * np.pi * np.round(advance / (2 * np.pi))
    mixed = (1 - stretch) * magnitude[:-1] + stretch * magnitude[1:]
    turned = phase[:-1] + stretch * advance
    between = np.fft.irfft(mixed * np.exp(1j * turned), size, axis=1) * window
    rows = [np.pad(f, (i * hop, len(x) - size - i * hop)) for i, f in enumerate(between)]
    return np.add.reduce(np.stack(rows), axis=0)


_rng = np.random.default_rng(23)
_x = np.sin(1.1 * np.arange(12)) + 0.4 * _rng.normal(size=12)

PROGRAMS = [
    (spectrogram, (_x,)),
    (windowed_sinc_filter, (_x[:9], np.array(0.2))),
    (welch_density, (_x[:8],)),
    (least_mean_squares, (_x[:8], np.roll(_x[:8], 1))),
    (cepstrum_and_pitch, (_x[:10],)),
    (resampled, (_x[:7],)),
    (denoised_wavelet, (_x[:8], np.array(0.3))),
    (savitzky_golay, (_x[:8],)),
    (phase_vocoder, (_x[:10], np.array(0.35))),
]
