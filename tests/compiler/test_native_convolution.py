"""Convolutions and sliding windows as native code, against the NumPy kernels."""

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import lax
from mgefn.config import config

IMAGES = ("NHWC", "HWIO", "NHWC")
CHANNELS_FIRST = ("NCHW", "OIHW", "NCHW")
LINES = ("NWC", "WIO", "NWC")


def drawn(seed, shape, dtype):
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    return rng.integers(0 if dtype.kind == "u" else -100, 100, shape).astype(dtype)


def assert_native(f, *args, name="conv_general_dilated"):
    """The compiled function gives what it gives by NumPy, and the steps of this name are native."""
    compiled = mgefn.jit(f).lower(*args).compile()
    text = compiled.as_text()
    assert f"= {name}" not in text, text
    assert "= native" in text
    want = mgefn.tree.leaves(f(*args))
    for got, right in zip(mgefn.tree.leaves(compiled(*args)), want, strict=True):
        got, right = np.asarray(got), np.asarray(right)
        assert got.dtype == right.dtype and got.shape == right.shape
        if right.dtype.kind == "f":
            # Sums in another order.
            tolerance = 400 * np.finfo(right.dtype).eps
            scale = np.abs(right[np.isfinite(right)]).max(initial=1.0)
            np.testing.assert_allclose(got, right, rtol=tolerance, atol=tolerance * scale)
        else:
            np.testing.assert_array_equal(got, right)


def check_convolution(x_shape, w_shape, dtype="float32", **params):
    """The value, and both gradients of a float."""
    x, w = drawn(1, x_shape, dtype), drawn(2, w_shape, dtype)

    def f(x, w):
        return lax.conv_general_dilated(x, w, **params)

    assert_native(f, x, w)
    if np.dtype(dtype).kind == "f":
        ct = drawn(3, f(x, w).shape, dtype)
        assert_native(lambda x, w, ct: mgefn.vjp(f, x, w)[1](ct), x, w, ct)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("outputs", [1, 3, 8, 17, 33, 70])
@pytest.mark.parametrize("stride", [1, 2])
def test_images(dtype, outputs, stride):
    check_convolution(
        (2, 9, 13, 5), (3, 3, 5, outputs), dtype, window_strides=(stride, stride), padding="SAME",
        dimension_numbers=IMAGES,
    )  # fmt: skip


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("inputs", [1, 3, 16])
def test_channels_first(padding, inputs):
    check_convolution(
        (3, inputs, 11, 10), (7, inputs, 3, 2), window_strides=(1, 2), padding=padding,
        dimension_numbers=CHANNELS_FIRST,
    )  # fmt: skip


@pytest.mark.parametrize("outputs", [1, 2, 3, 20])
@pytest.mark.parametrize("inputs", [1, 5])
@pytest.mark.parametrize("window", [1, 3])
def test_vectors_along_positions(outputs, inputs, window):
    check_convolution(
        (2, inputs, 9, 45), (outputs, inputs, window, window), window_strides=(1, 1),
        padding="SAME", dimension_numbers=CHANNELS_FIRST,
    )  # fmt: skip
    check_convolution(
        (2, 3 * inputs, 9, 45), (3 * outputs, inputs, window, window), "float64",
        window_strides=(1, 1), padding="VALID", rhs_dilation=(2, 3), feature_group_count=3,
        dimension_numbers=CHANNELS_FIRST,
    )  # fmt: skip


@pytest.mark.parametrize("n", [30, 500])
def test_filter_of_a_signal(n):
    x, w = drawn(1, (n,), "float64"), drawn(2, (17,), "float64")
    assert_native(lambda x, w: mnp.convolve(x, w), x, w)
    ct = drawn(3, (n + 16,), "float64")
    assert_native(lambda x, w, ct: mgefn.vjp(mnp.convolve, x, w)[1](ct), x, w, ct)


@pytest.mark.parametrize("stride", [1, 2])
def test_window_of_one_place(stride):
    check_convolution(
        (3, 6, 8, 40), (1, 1, 40, 24), window_strides=(stride, stride), padding="VALID",
        dimension_numbers=IMAGES,
    )  # fmt: skip


@pytest.mark.parametrize("multiplier", [1, 2])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("first", [False, True])
def test_depthwise(multiplier, stride, first):
    features = 36
    x, w = (2, 7, 9, features), (3, 3, 1, features * multiplier)
    if first:
        x, w = (2, features, 7, 9), (features * multiplier, 1, 3, 3)
    check_convolution(
        x, w, window_strides=(stride, stride), padding="SAME", feature_group_count=features,
        dimension_numbers=CHANNELS_FIRST if first else IMAGES,
    )  # fmt: skip


@pytest.mark.parametrize("groups", [2, 3, 6])
def test_groups(groups):
    check_convolution(
        (2, 7, 9, 12), (3, 3, 12 // groups, 18), window_strides=(1, 1), padding="SAME",
        feature_group_count=groups, dimension_numbers=IMAGES,
    )  # fmt: skip
    check_convolution(
        (6, 7, 9, 4), (3, 3, 4, 18), window_strides=(2, 1), padding="SAME",
        batch_group_count=groups, dimension_numbers=IMAGES,
    )  # fmt: skip


def test_ranks():
    check_convolution((3, 5), (4, 5), window_strides=(), padding=())
    check_convolution(
        (2, 101, 3), (5, 3, 8), window_strides=(2,), padding="SAME", dimension_numbers=LINES
    )
    check_convolution(
        (1, 4001, 1), (9, 1, 1), window_strides=(1,), padding="SAME", dimension_numbers=LINES
    )
    check_convolution(
        (2, 5, 6, 7, 3), (2, 3, 2, 3, 4), window_strides=(1, 2, 1), padding="SAME",
        dimension_numbers=("NDHWC", "DHWIO", "NDHWC"),
    )  # fmt: skip
    check_convolution((2, 3, 5, 6, 7), (4, 3, 2, 3, 2), "float64", window_strides=(2, 1, 1),
                      padding="SAME")  # fmt: skip


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64",
                                   "uint64"])  # fmt: skip
def test_integers_wrap(dtype):
    check_convolution(
        (2, 9, 9, 5), (3, 3, 5, 9), dtype, window_strides=(1, 1), padding="SAME",
        dimension_numbers=IMAGES,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_any_parameters(seed):
    """Random layouts, strides, paddings, dilations and groups."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 4))

    def sizes(low, high):
        return [int(k) for k in rng.integers(low, high, n)]

    specs = [[int(i) for i in rng.permutation(n + 2)] for _ in range(3)]
    fg, bg = int(rng.integers(1, 4)), 1
    if rng.random() < 0.3:
        fg, bg = 1, int(rng.integers(1, 4))
    batch, inputs = int(rng.integers(1, 4)) * bg, int(rng.integers(1, 5))
    outputs = int(rng.integers(1, 7)) * fg * bg
    spatial, window = sizes(1, 9), sizes(1, 4)
    strides, base, dilation = sizes(1, 4), sizes(1, 4), sizes(1, 4)
    padding = []
    for k, w, spread, step in zip(spatial, window, base, dilation, strict=True):
        low = int(rng.integers(-2, 4))
        whole, reach = (k - 1) * spread + 1, (w - 1) * step + 1
        low = max(low, 1 - whole)
        padding.append((low, max(int(rng.integers(-2, 4)), reach - whole - low)))
    x_shape, w_shape = [0] * (n + 2), [0] * (n + 2)
    for d, k in zip(specs[0], (batch, inputs * fg, *spatial), strict=True):
        x_shape[d] = k
    for d, k in zip(specs[1], (outputs, inputs, *window), strict=True):
        w_shape[d] = k
    check_convolution(
        x_shape, w_shape, "float64", window_strides=strides, padding=padding, lhs_dilation=base,
        rhs_dilation=dilation, feature_group_count=fg, batch_group_count=bg,
        dimension_numbers=lax.ConvDimensionNumbers(*map(tuple, specs)),
    )  # fmt: skip


def test_transposed_operands():
    x, w = drawn(1, (5, 8, 9, 2), "float32"), drawn(2, (3, 3, 5, 20), "float32")

    def f(x, w):
        return lax.conv_general_dilated(
            x.T, w[::-1, ::-1], (1, 1), "SAME", dimension_numbers=IMAGES
        )

    assert_native(f, x, w)


@pytest.mark.parametrize("numbers", [IMAGES, CHANNELS_FIRST])
def test_sums_in_parts(numbers):
    """Sums of more terms than are formed at once: in the gradient by the kernel, or forward."""
    first = numbers is CHANNELS_FIRST
    check_convolution(
        (6, 29, 40, 37) if first else (6, 40, 37, 29), (35, 29, 3, 3) if first else (3, 3, 29, 35),
        window_strides=(1, 2), padding="SAME", dimension_numbers=numbers,
    )  # fmt: skip
    check_convolution(
        (2, 5003, 30), (1, 5003, 40), window_strides=(1,), padding="VALID",
        dimension_numbers=("NCW", "WIO", "NCW"),
    )  # fmt: skip


def test_divided_among_threads():
    """Enough work to be divided; each element is the same sum."""
    x, w = drawn(1, (4, 30, 31, 32), "float32"), drawn(2, (3, 3, 32, 48), "float32")

    def f(x, w):
        return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=IMAGES)

    assert_native(f, x, w)
    compiled = mgefn.jit(f)
    made = []
    before = config.num_threads
    try:
        for n in (1, 3):
            config.num_threads = n
            made.append(np.asarray(compiled(x, w)))
    finally:
        config.num_threads = before
    np.testing.assert_array_equal(*made)


def test_in_scan():
    w = drawn(2, (3, 3, 4, 4), "float32")
    x = drawn(1, (2, 6, 6, 4), "float32")

    def f(x, w):
        def step(x, _):
            y = lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=IMAGES)
            return y * 0.1, y.sum()

        return lax.scan(step, x, None, length=3)

    assert_native(f, x, w)
