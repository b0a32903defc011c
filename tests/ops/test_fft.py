"""Fourier transforms: numpy.fft's functions against NumPy, and their derivatives."""

from __future__ import annotations

import tracemalloc
from functools import partial
from typing import Any

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import lax
from mgefn.backends.numpy_kernels import fft as kernels
from mgefn.core.avals import ShapedArray
from mgefn.errors import ArgumentError, AxisError, DTypeError, ShapeError
from mgefn.ops.fft import FftType, fft_p
from tests.kernels import scratch_of

ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
TWO = ("fft2", "ifft2", "rfft2", "irfft2")
MANY = ("fftn", "ifftn", "rfftn", "irfftn")
REAL = ("rfft", "rfft2", "rfftn", "ihfft")


def drawn(rng: np.random.Generator, shape: Any, real: bool) -> np.ndarray:
    x = np.array(rng.standard_normal(shape))
    return x if real else x + 1j * rng.standard_normal(shape)


def settings(name: str, rng: np.random.Generator) -> Any:
    """(array, keywords) of a function at random, among them lengths that cut and that fill up."""
    for _ in range(25):
        ndim = int(rng.integers(2 if name in TWO else 1, 4))
        shape = tuple(map(int, rng.integers(2, 7, ndim)))
        given: dict[str, Any] = {"norm": [None, "backward", "ortho", "forward"][rng.integers(4)]}
        if name in ONE:
            given["axis"] = int(rng.integers(-ndim, ndim))
            if rng.random() < 0.6:
                given["n"] = int(rng.integers(1, 9))
        elif name in MANY and rng.random() < 0.8:
            count = int(rng.integers(1, ndim + 1))
            axes = rng.permutation(ndim)[:count] - ndim * int(rng.integers(2))
            given["axes"] = tuple(map(int, axes))
            if rng.random() < 0.6:
                given["s"] = tuple(map(int, rng.integers(1, 9, count)))
        elif rng.random() < 0.5 and name in TWO:
            given["s"] = tuple(map(int, rng.integers(1, 9, 2)))
        yield drawn(rng, shape, name in REAL or rng.random() < 0.2), given


@pytest.mark.parametrize("name", ONE + TWO + MANY)
def test_transforms_match_numpy(name: str) -> None:
    rng = np.random.default_rng(len(name))
    for x, given in settings(name, rng):
        f = partial(getattr(mnp.fft, name), **given)
        want = getattr(np.fft, name)(x, **given)
        for got in (f(x), mgefn.jit(f)(x), mgefn.vmap(f, -1)(np.stack([x, x], -1))[1]):
            assert got.dtype == want.dtype and got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
        narrow = f(x.astype(np.float32 if x.dtype.kind == "f" else np.complex64))
        assert narrow.dtype.itemsize * 2 == want.dtype.itemsize
        np.testing.assert_allclose(narrow, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ONE + TWO + MANY)
def test_derivatives_satisfy_the_transpose_identity(name: str) -> None:
    rng = np.random.default_rng(len(name))
    for x, given in settings(name, rng):
        f = partial(getattr(mnp.fft, name), **given)
        dx = drawn(rng, x.shape, x.dtype.kind == "f")
        y, dy = mgefn.jvp(f, (x,), (dx,))
        np.testing.assert_allclose(dy, getattr(np.fft, name)(dx, **given), rtol=1e-11, atol=1e-11)
        ct = drawn(rng, y.shape, y.dtype.kind == "f")
        back = np.asarray(mgefn.vjp(f, x)[1](ct)[0])
        left, right = (back * dx).sum().real, (ct * np.asarray(dy)).sum().real
        np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-11)


def test_second_derivatives_of_a_spectrum_s_energy() -> None:
    # sum |X|^2 = n sum x^2, so the Hessian is 2 n times the identity.
    x = np.random.default_rng(0).standard_normal(6)

    def energy(v: Any) -> Any:
        return (mnp.abs(mnp.fft.fft(v)) ** 2).sum()

    np.testing.assert_allclose(mgefn.hessian(energy)(x), 12 * np.eye(6), rtol=1e-11, atol=1e-11)

    def half(v: Any) -> Any:
        spectrum = mnp.fft.rfft(v)
        return (mnp.fft.irfft(spectrum * spectrum, n=6) * x).sum()

    forward = mgefn.jacfwd(mgefn.grad(half))(x)
    np.testing.assert_allclose(mgefn.jacrev(mgefn.grad(half))(x), forward, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(forward, np.asarray(forward).T, rtol=1e-11, atol=1e-11)


def test_dtypes() -> None:
    for dtype, want in (
        (np.float16, np.complex64), (mgefn.dtypes.bfloat16, np.complex64), (np.int32, np.complex64),
        (bool, np.complex64), (np.float32, np.complex64), (np.float64, np.complex128),
        (np.complex64, np.complex64),
    ):  # fmt: skip
        x = np.array([1, 0, 1, 0]).astype(dtype)
        assert mnp.fft.fft(x).dtype == want
        if dtype != np.complex64:
            assert mnp.fft.rfft(x).dtype == want
        assert mnp.fft.irfft(x).dtype == np.zeros(0, want).real.dtype


def test_lax_fft() -> None:
    rng = np.random.default_rng(1)
    x = drawn(rng, (2, 3, 4), True)
    for kind in ("rfft", "RFFT", FftType.RFFT, 2):
        np.testing.assert_allclose(
            lax.fft(x, kind, (3, 4)), np.fft.rfft2(x), rtol=1e-12, atol=1e-12
        )
    got = lax.fft(np.fft.rfft(x), "IRFFT", (4,))
    np.testing.assert_allclose(got, x, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(lax.fft(x, "FFT", ()), x.astype(complex))
    for error, match, kind, lengths in (
        (ArgumentError, "fft_type must be one of", "DCT", (4,)),
        (ShapeError, "needs the last dimensions", "FFT", (5,)),
        (ShapeError, "lengths must be 1 or more", "FFT", (0,)),
        (ShapeError, "more entries", "FFT", (1, 2, 3, 4)),
    ):
        with pytest.raises(error, match=match):
            lax.fft(x, kind, lengths)


def test_frequencies_and_shifts() -> None:
    for n in (1, 2, 5, 8):
        for d in (1.0, 0.3):
            for name in ("fftfreq", "rfftfreq"):
                got = getattr(mnp.fft, name)(n, d, dtype=np.float64)
                np.testing.assert_allclose(got, getattr(np.fft, name)(n, d), rtol=1e-15)
                assert getattr(mnp.fft, name)(n, d).dtype == np.float32
    for shape in ((5,), (4,), (3, 4), (0, 3)):
        x = np.arange(np.prod(shape)).reshape(shape)
        for axes in (None, 0, -1, (0,)):
            for name in ("fftshift", "ifftshift"):
                got = getattr(mnp.fft, name)(x, axes)
                np.testing.assert_array_equal(got, getattr(np.fft, name)(x, axes))


@pytest.mark.parametrize(
    ("error", "match", "call"),
    [
        (ShapeError, "fft: needs at least one point", lambda f: f.fft(np.zeros((3, 0)))),
        (ShapeError, "got 0. Pass n", lambda f: f.fft(np.zeros(3), n=0)),
        (ShapeError, "irfft: needs at least one point", lambda f: f.irfft(np.zeros(1))),
        (ShapeError, "Pass s", lambda f: f.fftn(np.zeros((3, 0)))),
        (ShapeError, "s has 2 entries", lambda f: f.fftn(np.zeros(3), s=(1, 2))),
        (ArgumentError, "s and axes must have one length",
         lambda f: f.fftn(np.zeros((3, 3)), s=(1, 2), axes=(0,))),
        (ArgumentError, "n must be an int", lambda f: f.fft(np.zeros(3), n=2.5)),
        (ArgumentError, "norm must be", lambda f: f.fft(np.zeros(3), norm="both")),
        (ArgumentError, "axis must be an int", lambda f: f.fft(np.zeros(3), axis=(0,))),
        (AxisError, "axis 1 is out of range", lambda f: f.fft(np.zeros(3), axis=1)),
        (AxisError, "fft2: axis -2", lambda f: f.fft2(np.zeros(3))),
        (AxisError, "rfftn: needs at least one axis", lambda f: f.rfftn(np.array(3.0))),
        (DTypeError, "rfft: needs a real array", lambda f: f.rfft(np.zeros(3, complex))),
        (ArgumentError, "n must be 1 or more", lambda f: f.fftfreq(0)),
        (DTypeError, "dtype must be floating", lambda f: f.fftfreq(3, dtype=int)),
    ],
)  # fmt: skip
def test_errors(error: Any, match: str, call: Any) -> None:
    with pytest.raises(error, match=match):
        call(mnp.fft)


@pytest.mark.parametrize("precision", [4, 8])
def test_scratch_stays_within_what_is_declared(precision: int) -> None:
    real = np.dtype(f"f{precision}")
    whole = np.dtype(f"c{2 * precision}")
    for kind, shape, lengths, dtype in (
        (FftType.FFT, (64, 500), (500,), whole),
        (FftType.FFT, (8, 64, 60), (64, 60), whole),
        (FftType.IFFT, (4, 10007), (10007,), whole),  # a prime
        (FftType.RFFT, (64, 512), (64, 512), real),
        (FftType.IRFFT, (8, 64, 33), (64, 64), whole),
    ):
        params = {"fft_type": kind, "fft_lengths": lengths}
        x = np.ones(shape, dtype)
        avals = [ShapedArray(x.shape, x.dtype)]
        outs = fft_p.out_avals(avals, params)
        out = np.empty(outs[0].shape, outs[0].dtype)
        kernels.fft(x, **params, outs=(out,))  # SciPy keeps tables for lengths it has met
        tracemalloc.start()
        kernels.fft(x, **params, outs=(out,))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= scratch_of(kernels.fft, avals, outs, params) + 16 * 1024
