"""mgefn.scipy.signal, fft, ndimage, interpolate, integrate and cluster against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.cluster.vq
import scipy.fft
import scipy.integrate
import scipy.interpolate
import scipy.ndimage
import scipy.signal

import mgefn
import mgefn.numpy as mnp
from mgefn import errors
from mgefn.scipy import cluster, fft, integrate, interpolate, ndimage, signal

# SciPy tells that the default segment is longer than the signal.
pytestmark = pytest.mark.filterwarnings("ignore:nperseg")


def close(got, want):
    got, want = (x if isinstance(x, tuple) else (x,) for x in (got, want))
    for a, b in zip(got, want, strict=True):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


SHAPES = [((7,), (3,)), ((7,), (4,)), ((3,), (8,)), ((6, 5), (2, 3)), ((2, 2), (4, 5))]


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize(("first", "second"), SHAPES)
def test_convolutions(rng, first, second, mode, is_complex):
    a, b = rng.standard_normal(first), rng.standard_normal(second)
    if is_complex:
        a, b = a + 1j * rng.standard_normal(first), b - 1j * rng.standard_normal(second)
    for name in ("convolve", "correlate", "fftconvolve"):
        close(getattr(signal, name)(a, b, mode), getattr(scipy.signal, name)(a, b, mode))
    close(signal.convolve(a, b, mode, "fft"), scipy.signal.convolve(a, b, mode))
    if a.ndim == 2:
        close(signal.convolve2d(a, b, mode), scipy.signal.convolve2d(a, b, mode))
        # SciPy's correlate2d leaves a swapped pair unconjugated: its correlate does not.
        close(
            signal.correlate2d(a, b, mode),
            scipy.signal.correlate2d(a, b, mode)
            if not (is_complex and mode == "valid")
            else scipy.signal.correlate(a, b, mode),
        )


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("boundary", ["fill", "wrap", "symm"])
def test_boundaries(rng, boundary, mode):
    a, b = rng.standard_normal((6, 5)), rng.standard_normal((3, 2))
    for name in ("convolve2d", "correlate2d"):
        got = getattr(signal, name)(a, b, mode, boundary, 0.5)
        close(got, getattr(scipy.signal, name)(a, b, mode, boundary, 0.5))


def test_refusals():
    with pytest.raises(errors.ShapeError, match="one rank"):
        signal.convolve(np.ones(3), np.ones((2, 2)))
    with pytest.raises(errors.ArgumentError, match="mode must be"):
        signal.convolve(np.ones(3), np.ones(2), "middle")
    with pytest.raises(errors.ShapeError, match="in every dimension"):
        signal.convolve(np.ones((3, 1)), np.ones((1, 3)), "valid")
    with pytest.raises(errors.ArgumentError, match="noverlap must be less"):
        signal.stft(np.ones(30), nperseg=8, noverlap=8)
    with pytest.raises(errors.ArgumentError, match="order must be 0 or 1"):
        ndimage.map_coordinates(np.ones(3), [np.ones(1)], 3)
    with pytest.raises(errors.ArgumentError, match="must increase"):
        interpolate.CubicSpline([0.0, 2.0, 1.0], np.ones(3))


def test_detrend(rng):
    x = rng.standard_normal((3, 50))
    close(signal.detrend(x), scipy.signal.detrend(x))
    close(signal.detrend(x, bp=[10, 20]), scipy.signal.detrend(x, bp=[10, 20]))
    close(signal.detrend(x, 0, "constant"), scipy.signal.detrend(x, 0, "constant"))


@pytest.mark.parametrize("options", [
    {}, {"nperseg": 15, "noverlap": 4, "nfft": 32}, {"nperseg": 2, "axis": 0},
    {"nperseg": 16, "window": "boxcar", "boundary": None, "padded": False},
    {"nperseg": 16, "boundary": "odd"}, {"nperseg": 16, "boundary": "even", "fs": 10.0},
    {"nperseg": 16, "return_onesided": False}, {"nperseg": 16, "detrend": "linear"},
])  # fmt: skip
def test_stft(rng, options):
    x = rng.standard_normal((3, 50))
    close(signal.stft(x, **options), scipy.signal.stft(x, **options))


def test_istft_inverts(rng):
    x = rng.standard_normal((3, 50))
    for options in ({"nperseg": 16}, {"nperseg": 15, "noverlap": 10}):
        z = signal.stft(x, **options)[2]
        times, y = signal.istft(z, **options)
        close(y, scipy.signal.istft(np.asarray(z), **options)[1])
        np.testing.assert_allclose(y[:, :50], x, atol=1e-12)
        assert times.shape == y.shape[-1:]


@pytest.mark.parametrize("options", [
    {}, {"nperseg": 16}, {"nperseg": 16, "average": "median", "scaling": "spectrum"},
    {"nperseg": 10, "detrend": "linear", "nfft": 20, "fs": 4.0},
    {"nperseg": 16, "return_onesided": False},
])  # fmt: skip
def test_densities(rng, options):
    x, y = rng.standard_normal((2, 3, 50))
    close(signal.welch(x, **options), scipy.signal.welch(x, **options))
    close(signal.csd(x, y, **options), scipy.signal.csd(x, y, **options))


def test_filters(rng):
    x, zi = rng.standard_normal((3, 50)), rng.standard_normal((3, 3))
    b, a = scipy.signal.butter(3, 0.2)
    sos = scipy.signal.butter(4, 0.3, output="sos")
    close(signal.lfilter(b, a, x), scipy.signal.lfilter(b, a, x))
    close(signal.lfilter(b, [2.0], x, axis=0), scipy.signal.lfilter(b, [2.0], x, axis=0))
    close(signal.lfilter(b, a, x, zi=zi), scipy.signal.lfilter(b, a, x, zi=zi))
    close(signal.sosfilt(sos, x), scipy.signal.sosfilt(sos, x))
    step = mgefn.grad(lambda a: mnp.sum(signal.lfilter(b, a, x) ** 2))(a)
    h = 1e-6 * np.array([0, 1, 0, 0])
    f = [np.sum(scipy.signal.lfilter(b, v, x) ** 2) for v in (a + h, a - h)]
    np.testing.assert_allclose(step[1], (f[0] - f[1]) / 2e-6, rtol=1e-5)


@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
@pytest.mark.parametrize("kind", [1, 2, 3, 4])
def test_cosine_transforms(rng, kind, norm):
    x = rng.standard_normal((4, 5))
    for n in (None, 7, 3):
        close(fft.dct(x, kind, n, norm=norm), scipy.fft.dct(x, kind, n, norm=norm))
        close(fft.idct(x, kind, n, 0, norm), scipy.fft.idct(x, kind, n, 0, norm))
    close(fft.dctn(x, kind, norm=norm), scipy.fft.dctn(x, kind, norm=norm))
    want = scipy.fft.idctn(x, kind, s=(3, 6), axes=(1, 0), norm=norm)
    close(fft.idctn(x, kind, s=(3, 6), axes=(1, 0), norm=norm), want)


# JAX calls SciPy's "grid-constant" and "grid-wrap" by their shorter names.
MODES = {"constant": "grid-constant", "nearest": "nearest", "wrap": "grid-wrap",
         "mirror": "mirror", "reflect": "reflect"}  # fmt: skip


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("mode", MODES)
def test_map_coordinates(rng, mode, order):
    image, at = rng.standard_normal((5, 6)), list(rng.uniform(-9, 12, (2, 20)))
    got = mgefn.jit(lambda a: ndimage.map_coordinates(image, a, order, mode, 0.5))(at)
    close(got, scipy.ndimage.map_coordinates(image, at, order=order, mode=MODES[mode], cval=0.5))


def test_grid(rng):
    points = np.sort(rng.random(4)), np.sort(rng.random(5))
    values, at = rng.standard_normal((4, 5, 2)), rng.random((6, 3, 2))
    for method in ("linear", "nearest"):
        for fill in (np.nan, None, 3.0):
            f, g = (m.RegularGridInterpolator(points, values, method, False, fill)
                    for m in (interpolate, scipy.interpolate))  # fmt: skip
            close(mgefn.jit(f)(at), g(at))


@pytest.mark.parametrize("ends", ["not-a-knot", "natural", "clamped", "periodic",
                                  ((1, 0.5), (2, -1.0))])  # fmt: skip
def test_splines(rng, ends):
    x, y, at = np.sort(rng.random(7)), rng.standard_normal(7), rng.uniform(-0.2, 1.2, (3, 4))
    y[-1] = y[0]
    f, g = (m.CubicSpline(x, y, bc_type=ends) for m in (interpolate, scipy.interpolate))
    for nu in range(4):
        close(f(at, nu), g(at, nu))
    slope = mgefn.grad(f)(np.asarray(at[0, 0]))
    np.testing.assert_allclose(slope, g(at[0, 0], 1), rtol=1e-9)
    two = rng.standard_normal((2, 4))
    for n in (2, 3, 4):
        if ends == "not-a-knot":
            f, g = (m.CubicSpline(x[:n], two[:, :n], axis=1)
                    for m in (interpolate, scipy.interpolate))  # fmt: skip
            close(f(at), g(at))


def test_integrals(rng):
    x, y = np.sort(rng.random(7)), rng.standard_normal((2, 7))
    for n in range(2, 7):
        close(integrate.simpson(y[:, :n], x[:n]), scipy.integrate.simpson(y[:, :n], x=x[:n]))
    close(integrate.trapezoid(y, x), scipy.integrate.trapezoid(y, x))
    got = integrate.cumulative_trapezoid(y, dx=0.5, axis=0, initial=0)
    close(got, scipy.integrate.cumulative_trapezoid(y, dx=0.5, axis=0, initial=0))


def test_vq(rng):
    x = rng.standard_normal((9, 3))
    close(cluster.vq.vq(x, x[:4] + 0.1), scipy.cluster.vq.vq(x, x[:4] + 0.1))
