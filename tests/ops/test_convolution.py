"""Convolutions: values against loops, derivatives by the transpose identity, batches, errors."""

from __future__ import annotations

import tracemalloc
from functools import partial
from typing import Any

import numpy as np
import pytest

import mgefn
from mgefn import lax
from mgefn.backends.numpy_kernels import convolution as kernels
from mgefn.core.avals import ShapedArray
from mgefn.errors import ArgumentError, DTypeError, ShapeError
from mgefn.ops.convolution import ConvDimensionNumbers, conv_general_dilated_p
from tests.cases import conv_params, convolution_by_loops
from tests.kernels import scratch_of

FIRST = ("NCHW", "OIHW", "NCHW")
LAST = ("NHWC", "HWIO", "NHWC")


def drawn(rng: np.random.Generator, shape: Any, dtype: str = "float64") -> np.ndarray:
    if np.dtype(dtype).kind in "iu":
        return rng.integers(-9, 9, shape).astype(dtype)
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def setting(rng: np.random.Generator) -> tuple[Any, Any, dict[str, Any]]:
    """Shapes of an input and a kernel, and params, all at random."""
    spatial = "XYZ"[: int(rng.choice([0, 1, 1, 2, 2, 3]))]
    features = int(rng.choice([1, 1, 2, 3]))
    batches = 1 if features > 1 else int(rng.choice([1, 1, 2]))
    inputs = int(rng.integers(1, 4))
    outputs = int(rng.integers(1, 3)) * features * batches
    sizes = {c: int(rng.integers(1, 7)) for c in spatial}
    windows = {c: int(rng.integers(1, 4)) for c in spatial}
    letters = ("".join(rng.permutation([*pair, *spatial])) for pair in ("NC", "OI", "NC"))
    lhs, rhs, out = letters
    at = {"N": int(rng.integers(1, 4)) * batches, "C": inputs * features, **sizes}
    n = len(spatial)
    dilation = tuple(map(int, rng.choice([1, 1, 2, 3], n)))
    padding = []
    for c, step in zip([c for c in rhs if c in spatial], dilation, strict=True):
        low, high = map(int, rng.integers(-2, 4, 2))
        fits = (sizes[c] - 1) * step + 1 + low + high >= 0
        padding.append((low, high) if fits else (0, 0))
    params = conv_params(
        (lhs, rhs, out),
        window_strides=tuple(map(int, rng.integers(1, 4, n))),
        padding=tuple(padding),
        lhs_dilation=dilation,
        rhs_dilation=tuple(map(int, rng.choice([1, 1, 2, 3], n))),
        feature_group_count=features,
        batch_group_count=batches,
    )
    kernel = {"O": outputs, "I": inputs, **windows}
    return tuple(at[c] for c in lhs), tuple(kernel[c] for c in rhs), params


@pytest.mark.parametrize(
    ("copy_bytes", "few_outputs", "places"), [(2**21, 32, 256), (256, 1, 0), (2048, 32, 0)]
)
def test_every_way_of_the_kernel_gives_what_loops_give(
    monkeypatch: pytest.MonkeyPatch, copy_bytes: int, few_outputs: int, places: int
) -> None:
    # Small blocks, other layouts, and products instead of places.
    monkeypatch.setattr(kernels, "_COPY_BYTES", copy_bytes)
    monkeypatch.setattr(kernels, "_FEW_OUTPUTS", few_outputs)
    monkeypatch.setattr(kernels, "_PLACES", places)
    kernels.plan.cache_clear()
    rng = np.random.default_rng(copy_bytes)
    for _ in range(60):
        x_shape, w_shape, params = setting(rng)
        dtype = str(rng.choice(["float64", "float64", "complex128", "int32", "int8"]))
        x, w = drawn(rng, x_shape, dtype), drawn(rng, w_shape, dtype)
        want = convolution_by_loops(x, w, **params)
        (got,) = kernels.conv_general_dilated(x, w, **params)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
        out = np.full((*want.shape, 2), 7, dtype)[..., 0]  # in the arena, and not contiguous
        (same,) = kernels.conv_general_dilated(x, w, **params, outs=(out,))
        assert same is out
        np.testing.assert_allclose(out, want, rtol=1e-12, atol=1e-12)
    kernels.plan.cache_clear()


def test_derivatives_satisfy_the_transpose_identity() -> None:
    rng = np.random.default_rng(1)
    for _ in range(60):
        x_shape, w_shape, params = setting(rng)
        dtype = str(rng.choice(["float64", "complex128"]))
        x, w, dx, dw = (drawn(rng, s, dtype) for s in (x_shape, w_shape) * 2)
        conv = partial(conv_general_dilated_p.bind1, **params)
        y, dy = mgefn.jvp(conv, (x, w), (dx, dw))
        by_loops = partial(convolution_by_loops, **params)
        np.testing.assert_allclose(dy, by_loops(dx, w) + by_loops(x, dw), rtol=1e-11, atol=1e-11)
        ct = drawn(rng, y.shape, dtype)
        x_ct, w_ct = map(np.asarray, mgefn.vjp(conv, x, w)[1](ct))
        left = (x_ct * dx).sum() + (w_ct * dw).sum()
        np.testing.assert_allclose(left, (ct * np.asarray(dy)).sum(), rtol=1e-12, atol=1e-11)


def test_batches_match_loops_over_examples() -> None:
    rng = np.random.default_rng(2)
    for _ in range(40):
        x_shape, w_shape, params = setting(rng)
        conv = partial(conv_general_dilated_p.bind1, **params)
        x, w = drawn(rng, (*x_shape, 3)), drawn(rng, (3, *w_shape))
        wants = [conv(x[..., k], w[k]) for k in range(3)]
        both = mgefn.vmap(conv, (-1, 0))(x, w)
        left = mgefn.vmap(conv, (-1, None))(x, w[0])
        right = mgefn.vmap(conv, (None, 0))(x[..., 0], w)
        nested = mgefn.vmap(mgefn.vmap(conv, (None, 0)), (-1, None))(x, w)
        for k in range(3):
            np.testing.assert_allclose(both[k], wants[k], rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(left[k], conv(x[..., k], w[0]), rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(right[k], conv(x[..., 0], w[k]), rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(nested[k, k], wants[k], rtol=1e-12, atol=1e-12)


def test_a_batch_without_examples() -> None:
    conv = partial(lax.conv, window_strides=(1,), padding="SAME")
    out = mgefn.vmap(conv)(np.ones((0, 2, 3, 5)), np.ones((0, 4, 3, 2)))
    assert out.shape == (0, 2, 4, 5)
    out = mgefn.vmap(conv, (None, 1))(np.ones((2, 3, 5)), np.ones((4, 0, 3, 2)))
    assert out.shape == (0, 2, 4, 5)


def test_gradients_of_nothing_are_zeros() -> None:
    conv = partial(lax.conv, window_strides=(1,), padding="VALID")
    for x_shape, w_shape in (
        ((2, 3, 2), (4, 3, 5)),
        ((0, 3, 4), (4, 3, 2)),
        ((2, 0, 4), (4, 0, 2)),
    ):
        x, w = np.ones(x_shape), np.ones(w_shape)
        gx, gw = mgefn.grad(lambda x, w: conv(x, w).sum(), (0, 1))(x, w)
        assert gx.shape == x_shape and gw.shape == w_shape
        assert not np.asarray(gx).any() and not np.asarray(gw).any()


# -- padding and dimension numbers ----------------------------------------------------------------


def padded(padding: Any, size: int, window: int, stride: int = 1) -> Any:
    """What the padding does to a vector, seen through a window of its first place."""
    kernel = np.zeros((1, 1, window))
    kernel[0, 0, 0] = 1
    x = np.arange(1.0, size + 1).reshape(1, 1, size)
    return np.asarray(lax.conv(x, kernel, (stride,), padding)).ravel().tolist()


def test_padding_strings() -> None:
    assert padded("VALID", 4, 2) == [1, 2, 3]
    assert padded("SAME", 4, 2) == [1, 2, 3, 4]  # the odd one at the end
    assert padded("SAME_LOWER", 4, 2) == [0, 1, 2, 3]
    assert padded("same", 4, 3) == [0, 1, 2, 3]
    assert padded("SAME", 5, 3, 2) == [0, 2, 4]
    assert padded("SAME", 5, 1, 3) == [1, 4]
    assert padded([(-1, -1)], 4, 1) == [2, 3]


def test_dimension_numbers() -> None:
    rng = np.random.default_rng(3)
    x, w = drawn(rng, (2, 5, 4, 3)), drawn(rng, (3, 2, 3, 6))
    want = lax.conv(x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1), (1, 2), "SAME")
    numbers = lax.conv_dimension_numbers(x.shape, w.shape, LAST)
    assert numbers == ConvDimensionNumbers((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
    for given in (LAST, list(LAST), numbers, tuple(numbers)):
        got = lax.conv_general_dilated(x, w, (1, 2), "SAME", dimension_numbers=given)
        np.testing.assert_allclose(np.asarray(got).transpose(0, 3, 1, 2), want, rtol=1e-12)
    # Strides belong to the spatial letters in the order of the kernel's string.
    turned = ("NHWC", "WHIO", "NHWC")
    got = lax.conv_general_dilated(
        x, w.swapaxes(0, 1), (2, 1), [(0, 0), (1, 1)], dimension_numbers=turned
    )
    same = lax.conv_general_dilated(x, w, (1, 2), [(1, 1), (0, 0)], dimension_numbers=LAST)
    np.testing.assert_allclose(got, same, rtol=1e-12)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize(("stride", "window"), [(1, 3), (2, 3), (2, 2), (3, 2), (1, 4)])
def test_conv_transpose_is_the_derivative_of_a_convolution(
    padding: str, stride: int, window: int
) -> None:
    rng = np.random.default_rng(4)
    w = drawn(rng, (window, 2, 3))  # HIO of the convolution
    size = 6 * stride
    conv = partial(
        lax.conv_general_dilated,
        rhs=w,
        window_strides=(stride,),
        padding=padding,
        dimension_numbers=("NHC", "HIO", "NHC"),
    )
    y, pullback = mgefn.vjp(conv, drawn(rng, (2, size, 2)))
    ct = drawn(rng, y.shape)
    want = np.asarray(pullback(ct)[0])
    got = np.asarray(lax.conv_transpose(ct, w, (stride,), padding, transpose_kernel=True))
    assert got.shape[1] == (
        size if padding == "SAME" else y.shape[1] * stride + max(window - stride, 0)
    )
    # "VALID" ends where the last window does.
    n = min(got.shape[1], size)
    np.testing.assert_allclose(got[:, :n], want[:, :n], rtol=1e-12, atol=1e-12)


def test_conv_transpose_paddings() -> None:
    rng = np.random.default_rng(5)
    x, w = drawn(rng, (1, 4, 2)), drawn(rng, (3, 2, 2))
    pairs = lax.conv_transpose(x, w, (2,), [(1, 2)])
    assert pairs.shape == (1, 7 + 3 - 3 + 1, 2)
    consistent = lax.conv_transpose(x, w, (2,), [(1, 0)], use_consistent_padding=True)
    np.testing.assert_allclose(consistent, pairs, rtol=1e-12)
    with pytest.raises(ArgumentError, match="padding must be"):
        lax.conv_transpose(x, w, (2,), "FULL")
    with pytest.raises(ArgumentError, match="dimension_numbers for an input of rank 6"):
        lax.conv_transpose(np.ones((1,) * 6), np.ones((1,) * 6), (1,) * 4, "SAME")


def test_patches_hold_what_each_window_sees() -> None:
    rng = np.random.default_rng(6)
    x = drawn(rng, (2, 3, 5, 4))
    got = np.asarray(lax.conv_general_dilated_patches(x, (2, 3), (1, 1), "VALID"))
    assert got.shape == (2, 18, 4, 2)
    for i, j in np.ndindex(4, 2):
        np.testing.assert_array_equal(got[:, :, i, j], x[:, :, i : i + 2, j : j + 3].reshape(2, 18))


def test_a_local_convolution_has_a_kernel_for_each_place() -> None:
    rng = np.random.default_rng(9)
    x = drawn(rng, (2, 5, 4, 2))
    w = drawn(rng, (4, 2, 12, 6))  # HWIO
    local = lax.conv_general_dilated_local
    got = np.asarray(local(x, w, (1, 1), "VALID", (2, 3), dimension_numbers=LAST))
    assert got.shape == (2, 4, 2, 6)
    for i, j in np.ndindex(4, 2):
        seen = x[:, i : i + 2, j : j + 3].transpose(0, 3, 1, 2).reshape(2, 12)
        np.testing.assert_allclose(got[:, i, j], seen @ w[i, j], rtol=1e-12, atol=1e-12)


# -- dtypes and memory ----------------------------------------------------------------------------


def test_narrow_floats_accumulate_in_float32() -> None:
    for dtype in (np.float16, mgefn.dtypes.bfloat16):
        x, w = np.full((1, 4096, 1), 1, dtype), np.full((1, 4096, 1), 1, dtype)
        out = lax.conv(x, w, (1,), "VALID")
        assert out.dtype == dtype and float(out[0, 0, 0]) == 4096
        deep = lax.conv(x, w, (1,), "VALID", preferred_element_type=np.float32)
        assert deep.dtype == np.float32


def test_integers_wrap_and_are_exact() -> None:
    rng = np.random.default_rng(7)
    for dtype in ("int8", "uint8", "int32", "int64"):
        info = np.iinfo(dtype)
        x = rng.integers(info.min // 3, info.max // 3, (2, 8, 9)).astype(dtype)
        w = rng.integers(-5 if info.min else 0, 5, (4, 8, 3)).astype(dtype)
        params = conv_params(("NCW", "OIW", "NCW"), padding=((1, 1),))
        want = convolution_by_loops(x, w, **params)
        np.testing.assert_array_equal(lax.conv(x, w, (1,), [(1, 1)]), want)


@pytest.mark.parametrize(
    ("x", "w", "letters", "given"),
    [
        ((16, 24, 24, 32), (3, 3, 32, 48), LAST, {}),
        ((4, 16, 64, 64), (32, 16, 3, 3), FIRST, {"padding": ((1, 1), (1, 1))}),
        ((4, 16, 64, 64), (8, 16, 62, 62), FIRST, {}),
        ((4, 64, 64, 64), (64, 1, 3, 3), FIRST, {"feature_group_count": 64}),
        ((8, 32, 32, 64), (1, 1, 64, 8), LAST, {"window_strides": (2, 2)}),
        ((2, 28, 28, 64), (5, 5, 64, 3), LAST, {"lhs_dilation": (2, 2)}),
        ((1, 1, 600, 600), (1, 1, 9, 9), FIRST, {"padding": ((4, 4), (4, 4))}),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int32"])
def test_scratch_stays_within_what_is_declared(
    x: Any, w: Any, letters: Any, given: Any, dtype: str
) -> None:
    rng = np.random.default_rng(8)
    a, b = drawn(rng, x, dtype), drawn(rng, w, dtype)
    params = conv_params(letters, **given)
    avals = [ShapedArray(v.shape, v.dtype) for v in (a, b)]
    outs = conv_general_dilated_p.out_avals(avals, params)
    out = np.empty(outs[0].shape, outs[0].dtype)
    bound = scratch_of(kernels.conv_general_dilated, avals, outs, params)
    tracemalloc.start()
    kernels.conv_general_dilated(a, b, **params, outs=(out,))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= bound + 64 * 1024, (peak, bound)
    # Whatever the batch, the copy of what the windows see stays small.
    if dtype == "float32":
        assert bound <= 3 * kernels._COPY_BYTES + 6 * (b.nbytes + out.nbytes // len(a))


# -- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "match", "x", "w", "given"),
    [
        (ShapeError, "input and kernel must have one rank", (1, 2, 3), (1, 2), {}),
        (ShapeError, "must have one rank, 2 or more", (3,), (3,), {}),
        (ShapeError, r"times the kernel's 3 input features, got 2", (1, 2, 5), (4, 3, 2), {}),
        (ShapeError, "groups must share out", (1, 4, 5), (3, 2, 2), {"feature_group_count": 2}),
        (ShapeError, "evenly", (3, 2, 5), (4, 2, 2), {"batch_group_count": 2}),
        (ArgumentError, "cannot both", (2, 4, 5), (4, 2, 2),
         {"feature_group_count": 2, "batch_group_count": 2}),
        (ArgumentError, "must be positive", (2, 4, 5), (4, 4, 2), {"feature_group_count": 0}),
        (ShapeError, "window_strides needs 1 entries", (1, 2, 5), (4, 2, 2),
         {"window_strides": (1, 1)}),
        (ShapeError, "window_strides must be 1 or more", (1, 2, 5), (4, 2, 2),
         {"window_strides": (0,)}),
        (ArgumentError, "rhs_dilation must be a sequence of ints", (1, 2, 5), (4, 2, 2),
         {"rhs_dilation": (1.5,)}),
        (ShapeError, "padding needs 1 pairs", (1, 2, 5), (4, 2, 2), {"padding": ((0, 0), (0, 0))}),
        (ArgumentError, "padding must be 'SAME'", (1, 2, 5), (4, 2, 2), {"padding": "FULL"}),
        (ArgumentError, "pairs of ints", (1, 2, 5), (4, 2, 2), {"padding": (1,)}),
        (ShapeError, "cut no more than there is", (1, 2, 5), (4, 2, 2), {"padding": ((-3, -3),)}),
        (ArgumentError, "Use conv_transpose", (1, 2, 5), (4, 2, 2),
         {"padding": "SAME", "lhs_dilation": (2,)}),
        (ArgumentError, "three strings", (1, 2, 5), (4, 2, 2), {"dimension_numbers": "NCW"}),
        (ArgumentError, "letters N and C", (1, 2, 5), (4, 2, 2),
         {"dimension_numbers": ("NXW", "OIW", "NCW")}),
        (ArgumentError, "same spatial letters", (1, 2, 5), (4, 2, 2),
         {"dimension_numbers": ("NCW", "OIH", "NCW")}),
        (ShapeError, "needs 3 letters", (1, 2, 5), (4, 2, 2), {"dimension_numbers": FIRST}),
        (ArgumentError, "name the dimensions 0 to 2", (1, 2, 5), (4, 2, 2),
         {"dimension_numbers": ((0, 1, 1), (0, 1, 2), (0, 1, 2))}),
        (DTypeError, "conv_general_dilated: preferred_element_type", (1, 2, 5), (4, 2, 2),
         {"preferred_element_type": np.float16}),
        (ArgumentError, "out_sharding must be None", (1, 2, 5), (4, 2, 2), {"out_sharding": 1}),
    ],
)  # fmt: skip
def test_errors(error: Any, match: str, x: Any, w: Any, given: Any) -> None:
    options = {"window_strides": (1,) * (len(x) - 2), "padding": "VALID", **given}
    with pytest.raises(error, match=match):
        lax.conv_general_dilated(np.ones(x), np.ones(w), **options)


def test_booleans_are_refused() -> None:
    with pytest.raises(DTypeError, match="conv: needs numbers"):
        lax.conv(np.ones((1, 1, 2), bool), np.ones((1, 1, 1), bool), (1,), "VALID")


def test_operands_are_promoted() -> None:
    x, w = np.ones((1, 1, 3), np.float32), np.ones((1, 1, 2), np.int32)
    assert lax.conv(x, w, (1,), "VALID").dtype == np.float32
