"""Signal processing in plain NumPy: spectra, filters, wavelets, windows."""

import numpy as np


def power_spectrum(x):
    """One-sided power spectrum of a windowed signal, and its centroid."""
    n = len(x)
    window = np.hanning(n)
    spectrum = np.fft.rfft(x * window)
    power = np.abs(spectrum) ** 2 / np.sum(window**2)
    frequencies = np.fft.rfftfreq(n, d=1 / 100)
    return power, np.sum(frequencies * power) / np.sum(power)


def band_pass(x, low=0.1, high=0.3):
    """The part of a signal between two frequencies, by cutting the rest of its transform."""
    frequencies = np.abs(np.fft.fftfreq(x.size))
    spectrum = np.fft.fft(x)
    spectrum = np.where((frequencies >= low) & (frequencies <= high), spectrum, 0)
    return np.fft.ifft(spectrum).real


def envelope(x):
    """Amplitude and unwrapped phase of the analytic signal."""
    n = x.shape[-1]
    gain = np.zeros(n)
    gain[0] = 1
    gain[1 : (n + 1) // 2] = 2
    if n % 2 == 0:
        gain[n // 2] = 1
    analytic = np.fft.ifft(np.fft.fft(x) * gain)
    return np.abs(analytic), np.unwrap(np.angle(analytic))


def biquad(x, b, a):
    """A second-order recursive filter, direct form II transposed."""
    s1 = s2 = 0.0
    out = []
    for sample in x:
        y = b[0] * sample + s1
        s1 = b[1] * sample - a[0] * y + s2
        s2 = b[2] * sample - a[1] * y
        out.append(y)
    return np.stack(out)


def haar_wavelet(x, levels=2):
    """Haar wavelet coefficients, coarse to fine."""
    details = []
    for _ in range(levels):
        even, odd = x[::2], x[1::2]
        details.append((even - odd) / np.sqrt(2))
        x = (even + odd) / np.sqrt(2)
    return np.concatenate([x, *details[::-1]])


def autocorrelation(x, lags=4):
    """Autocorrelation at the first lags, and whether most neighbours change sign."""
    x = x - x.mean()
    full = np.correlate(x, x, mode="full")
    positive = full[x.size - 1 :]
    crossings = np.mean(np.where(np.sign(x[1:]) != np.sign(x[:-1]), 1.0, 0.0))
    return positive[1 : lags + 1] / positive[0], crossings


def median_filter(x, width=3):
    """Moving median, with the ends repeated."""
    half = width // 2
    padded = np.pad(x, half, mode="edge")
    windows = np.stack([padded[i : i + len(x)] for i in range(width)], axis=-1)
    return np.median(windows, axis=-1)


def synthesized_tone(frequency, amplitudes):
    """Harmonics of a tone under a decay, forwards then backwards, with a soft limiter."""
    t = np.arange(12) / 12
    harmonics = np.arange(1, len(amplitudes) + 1)
    waves = np.sin(2 * np.pi * np.outer(harmonics, t) * frequency)
    tone = np.tanh(amplitudes @ waves) * np.exp(-2 * t)
    return np.hstack([tone, tone[::-1]])


def windowed_energy(x, width=3):
    """Energy and range of every window that fits, and the fall from window to window."""
    windows = np.lib.stride_tricks.sliding_window_view(x, width)
    energy = (windows**2).sum(axis=-1)
    return energy, np.ptp(windows, axis=-1), np.diff(energy, prepend=0)


_rng = np.random.default_rng(3)
_x = _rng.normal(size=8)

PROGRAMS = [
    (power_spectrum, (_x,)),
    (band_pass, (_x,)),
    (envelope, (_x,)),
    (biquad, (_x, np.array([0.2, 0.4, 0.2]), np.array([-0.4, 0.2]))),
    (haar_wavelet, (_x,)),
    (autocorrelation, (_x,)),
    (median_filter, (_x,)),
    (synthesized_tone, (np.array(2.3), np.array([1.0, 0.5, 0.3]))),
    (windowed_energy, (_x,)),
]
