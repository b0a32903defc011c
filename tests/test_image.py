"""Resampling: known answers, properties of the kernels, derivatives."""

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import errors, image

RNG = np.random.default_rng(0)
SMOOTH = ["linear", "cubic", "cubic-pytorch", "lanczos3", "lanczos5", "area"]


def test_known_answers() -> None:
    x = np.array([0.0, 4.0])
    np.testing.assert_array_equal(image.resize(x, (4,), "nearest"), [0, 0, 4, 4])
    np.testing.assert_array_equal(image.resize(x, (4,), "linear"), [0, 1, 3, 4])
    np.testing.assert_array_equal(image.resize(x, (4,), "area"), [0, 0, 4, 4])
    ramp = np.arange(8.0)
    np.testing.assert_allclose(image.resize(ramp, (4,), "area"), [0.5, 2.5, 4.5, 6.5])
    np.testing.assert_allclose(image.resize(ramp, (4,), "linear", antialias=False)[1], 2.5)
    # Keys' kernel is exact for parabolas, away from the edges.
    parabola = (np.arange(12) + 0.5) ** 2
    got = image.resize(parabola, (24,), "cubic")
    want = ((np.arange(24) + 0.5) / 2) ** 2
    np.testing.assert_allclose(got[4:-4], want[4:-4], rtol=1e-6)


@pytest.mark.parametrize("method", SMOOTH)
@pytest.mark.parametrize("antialias", [True, False])
def test_constants_stay_and_sizes_are_independent(method: str, antialias: bool) -> None:
    flat = image.resize(np.full((2, 5, 7), 3.0), (2, 9, 3), method, antialias)
    np.testing.assert_allclose(flat, np.full((2, 9, 3), 3.0), rtol=1e-6)
    x = RNG.standard_normal((2, 5, 7))
    once = image.resize(x, (2, 9, 3), method, antialias)
    steps = image.resize(
        image.resize(x, (2, 9, 7), method, antialias), (2, 9, 3), method, antialias
    )
    np.testing.assert_allclose(once, steps, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(image.resize(x, x.shape, method, antialias), x)


def test_dtypes_and_no_pixels() -> None:
    pixels = np.arange(6, dtype=np.uint8).reshape(2, 3)
    assert image.resize(pixels, (4, 3), "nearest").dtype == np.uint8
    assert image.resize(pixels, (4, 3), image.ResizeMethod.LINEAR).dtype == np.float32
    assert image.resize(mnp.ones((2, 2), "bfloat16"), (3, 3), "cubic").dtype.name == "bfloat16"
    assert image.resize(pixels, (0, 3), "linear").shape == (0, 3)


@pytest.mark.parametrize("method", SMOOTH)
def test_scale_and_translate(method: str) -> None:
    x = RNG.standard_normal((5, 6))

    def moved(scale, translation):
        return image.scale_and_translate(x, (8, 4), (0, 1), scale, translation, method)

    scale, translation = np.array([1.3, 0.63]), np.array([0.71, -0.37])
    np.testing.assert_allclose(
        image.scale_and_translate(x, (9, 6), (0,), [9 / 5], [0.0], method),
        image.resize(x, (9, 6), method),
        rtol=1e-5,
        atol=1e-6,
    )
    jacobian = mgefn.jit(mgefn.jacfwd(moved, (0, 1)))(scale, translation)
    for i, (ds, dt) in enumerate(((np.array([1, 0]), 0), (0, np.array([0, 1])))):
        h = 1e-6
        up = moved(scale + h * ds, translation + h * dt)
        down = moved(scale - h * ds, translation - h * dt)
        got = jacobian[i][..., i]
        np.testing.assert_allclose(got, (up - down) / (2 * h), rtol=1e-4, atol=1e-6)


def test_errors() -> None:
    x = np.ones((2, 2))
    with pytest.raises(errors.ArgumentError, match="method must be one of nearest"):
        image.resize(x, (3, 3), "sharp")
    with pytest.raises(errors.ShapeError, match="rank 2"):
        image.resize(x, (3,), "linear")
    with pytest.raises(errors.ArgumentError, match="not be 'nearest'"):
        image.scale_and_translate(x, (3, 3), (0,), [1.0], [0.0], "nearest")
    with pytest.raises(errors.ShapeError, match=r"shape \(1,\)"):
        image.scale_and_translate(x, (3, 3), (0,), [1.0, 2.0], [0.0, 0.0], "linear")
