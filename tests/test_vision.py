"""Sampling, warping, regions and selection of boxes against loops over pixels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import errors, vision

rng = np.random.default_rng(11)
IMAGE = rng.standard_normal((2, 3, 4, 5))

OUTSIDE = {
    "replicate": lambda i, n: min(max(i, 0), n - 1),
    "reflect": lambda i, n: (*range(n), *reversed(range(n)))[i % (2 * n)],
    "reflect_101": lambda i, n: (*range(n), *range(n - 2, 0, -1))[i % (2 * n - 2)],
    "wrap": lambda i, n: i % n,
}


def pixel(image: np.ndarray, row: int, column: int, border: str, fill: float) -> Any:
    h, w = image.shape[1:]
    if border == "constant":
        inside = 0 <= row < h and 0 <= column < w
        return image[:, row, column] if inside else np.full(image.shape[0], fill)
    return image[:, OUTSIDE[border](row, h), OUTSIDE[border](column, w)]


def read(image: np.ndarray, x: float, y: float, border: str, fill: float = 0.0) -> Any:
    """Bilinear, by its definition."""
    i, j = math.floor(y), math.floor(x)
    t, u = y - i, x - j
    return sum(
        a * b * pixel(image, i + di, j + dj, border, fill)
        for di, a in ((0, 1 - t), (1, t))
        for dj, b in ((0, 1 - u), (1, u))
    )


@pytest.mark.parametrize("border", [*OUTSIDE, "constant"])
def test_remap(border: str) -> None:
    at = rng.uniform(-7, 10, (2, 3, 4, 2))
    got = vision.remap(IMAGE, at, border, 0.5)
    nearest = vision.remap(IMAGE, at, border, 0.5, "nearest")
    for n, i, j in np.ndindex(2, 3, 4):
        x, y = at[n, i, j]
        np.testing.assert_allclose(got[n, :, i, j], read(IMAGE[n], x, y, border, 0.5), rtol=1e-9)
        row, column = math.floor(y + 0.5), math.floor(x + 0.5)
        np.testing.assert_array_equal(
            nearest[n, :, i, j], pixel(IMAGE[n], row, column, border, 0.5)
        )


def test_derivatives_of_remap() -> None:
    at = rng.uniform(0, 3, (2, 2, 2, 2))
    for mode in ("linear", "cubic"):
        mgefn.test_util.check_grads(
            lambda x, at, mode=mode: vision.remap(x, at, interp_mode=mode), (IMAGE, at), order=1
        )
    jitted = mgefn.jit(lambda x, at: vision.remap(x, at))(IMAGE, at)
    np.testing.assert_allclose(jitted, vision.remap(IMAGE, at), rtol=1e-12)


def test_cubic_keeps_lines_and_pixels() -> None:
    ramp = np.broadcast_to(np.arange(8.0) * 3 + 1, (1, 1, 8, 8))
    at = np.stack([rng.uniform(2, 5, (1, 3, 3)), rng.uniform(2, 5, (1, 3, 3))], -1)
    got = vision.remap(ramp, at, interp_mode="cubic")
    # With a = -0.75 the kernel has sum 1, but bends lines by up to 6 hundredths of a slope.
    np.testing.assert_allclose(got[0, 0], at[0, ..., 0] * 3 + 1, atol=3 * 0.1)
    whole = np.stack(np.meshgrid(np.arange(5.0), np.arange(4.0)), -1)[None].repeat(2, 0)
    np.testing.assert_allclose(vision.remap(IMAGE, whole, interp_mode="cubic"), IMAGE, rtol=1e-12)


def test_grid_sample() -> None:
    def corners(align: bool) -> np.ndarray:
        x = np.linspace(-1, 1, 5) if align else (2 * np.arange(5) + 1) / 5 - 1
        y = np.linspace(-1, 1, 4) if align else (2 * np.arange(4) + 1) / 4 - 1
        return np.stack(np.meshgrid(x, y), -1)[None].repeat(2, 0)

    for align in (False, True):
        got = vision.grid_sample(IMAGE, corners(align), align_corners=align)
        np.testing.assert_allclose(got, IMAGE, rtol=1e-9, atol=1e-12)
    far = np.full((2, 1, 1, 2), 3.0)
    np.testing.assert_array_equal(vision.grid_sample(IMAGE, far), 0)
    edge = vision.grid_sample(IMAGE, far, padding_mode="border")
    np.testing.assert_allclose(edge[:, :, 0, 0], IMAGE[:, :, -1, -1])


def test_warps() -> None:
    matrix = np.array([[1.2, 0.3, -0.5], [-0.1, 0.9, 0.7], [0.02, -0.01, 1.0]])
    got = vision.warp_perspective(IMAGE, np.stack([matrix, matrix, matrix]), (3, 6), [1, 0, 1])
    for i, j in np.ndindex(3, 6):
        u, v, w = matrix @ [j, i, 1]
        for k, n in enumerate((1, 0, 1)):
            want = read(IMAGE[n], u / w, v / w, "replicate")
            np.testing.assert_allclose(got[k, :, i, j], want, rtol=1e-9)
    last = np.moveaxis(IMAGE, 1, 3)
    affine = vision.warp_affine(last, np.stack([matrix[:2]] * 2), (3, 6), "constant", 2.0)
    same = vision.warp_perspective(
        IMAGE, np.stack([np.vstack([matrix[:2], [0, 0, 1]])] * 2), (3, 6), None, "constant", 2.0
    )
    np.testing.assert_allclose(np.moveaxis(affine, 3, 1), same, rtol=1e-12)
    mgefn.test_util.check_grads(
        lambda m: vision.warp_perspective(IMAGE[:1], m, (2, 2)), (matrix[None],), order=1
    )


def test_examples_of_megengine() -> None:
    x = np.arange(16.0).reshape(1, 1, 4, 4)
    shift = np.array([[[1.0, 0, 1], [0, 1, 1], [0, 0, 1]]])
    np.testing.assert_allclose(vision.warp_perspective(x, shift, (2, 2))[0, 0], [[5, 6], [9, 10]])
    at = np.array([[[1.0, 0], [0, 1]], [[0, 1], [0, 1]]])[None]
    np.testing.assert_allclose(vision.remap(x, at)[0, 0], [[1, 4], [4, 4]])
    small = np.arange(1.0, 5).reshape(1, 1, 2, 2)
    want = [[1, 1.25, 1.75, 2], [1.5, 1.75, 2.25, 2.5], [2.5, 2.75, 3.25, 3.5], [3, 3.25, 3.75, 4]]
    np.testing.assert_allclose(vision.interpolate(small, (4, 4))[0, 0], want)
    np.testing.assert_allclose(vision.interpolate(small, scale_factor=2.0)[0, 0], want)


def test_interpolate() -> None:
    for mode, method in (("bilinear", "linear"), ("nearest", "nearest")):
        larger = mgefn.image.resize(IMAGE, (2, 3, 8, 10), method, antialias=False)
        np.testing.assert_allclose(
            vision.interpolate(IMAGE, (8, 10), mode=mode), larger, rtol=1e-6, atol=1e-6
        )
    ends = vision.interpolate(IMAGE, (7, 9), align_corners=True)
    np.testing.assert_allclose(ends[:, :, ::2, ::2], IMAGE, rtol=1e-6, atol=1e-7)
    line = vision.interpolate(np.array([[[0.0, 2.0]]]), 4, mode="linear")
    np.testing.assert_allclose(line[0, 0], [0, 0.5, 1.5, 2])
    np.testing.assert_allclose(
        vision.interpolate(IMAGE, (4, 5), mode="bicubic"), IMAGE, rtol=1e-6, atol=1e-7
    )


def test_roi_align() -> None:
    boxes = np.array([[0, 0.5, 0.7, 3.1, 2.9], [1, 1.0, 0.0, 4.0, 3.0]])
    got = vision.roi_align(IMAGE, boxes, (2, 3), sample_points=(2, 1))
    top = vision.roi_align(IMAGE, boxes, (2, 3), "max", sample_points=(2, 1))
    for k, (n, x0, y0, x1, y1) in enumerate(boxes):
        for i, j in np.ndindex(2, 3):
            points = [
                read(
                    IMAGE[int(n)],
                    np.clip(x0 - 0.5 + (j + 0.5) * (x1 - x0) / 3, 0, 4),
                    np.clip(y0 - 0.5 + (2 * i + p + 0.5) * (y1 - y0) / 4, 0, 3),
                    "replicate",
                )
                for p in range(2)
            ]
            np.testing.assert_allclose(got[k, :, i, j], np.mean(points, 0), rtol=1e-9)
            np.testing.assert_allclose(top[k, :, i, j], np.max(points, 0), rtol=1e-9)
    outside = vision.roi_align(IMAGE, np.array([[0, 20.0, 20, 25, 25]]), 2)
    np.testing.assert_array_equal(outside, 0)
    mgefn.test_util.check_grads(lambda x: vision.roi_align(x, boxes, 2), (IMAGE,), order=1)
    assert vision.roi_align(IMAGE, np.zeros((0, 5)), 2).shape == (0, 3, 2, 2)


def greedy(boxes: np.ndarray, scores: np.ndarray, threshold: float) -> list[int]:
    overlaps = np.asarray(vision.iou(boxes, boxes))
    left, kept = list(np.argsort(-scores, kind="stable")), []
    while left:
        best = left.pop(0)
        kept.append(int(best))
        left = [i for i in left if overlaps[best, i] <= threshold]
    return kept


def test_nms() -> None:
    low = rng.uniform(0, 10, (30, 2))
    boxes = np.concatenate([low, low + rng.uniform(1, 6, (30, 2))], 1)
    scores = rng.random(30)
    want = greedy(boxes, scores, 0.3)
    assert 3 < len(want) < 30
    np.testing.assert_array_equal(vision.nms(boxes, scores, 0.3), want)
    np.testing.assert_array_equal(vision.nms(boxes, scores, 0.3, 3), want[:3])
    padded = mgefn.jit(lambda b, s: vision.nms(b, s, 0.3, padded=True))(boxes, scores)
    np.testing.assert_array_equal(padded, want + [-1] * (30 - len(want)))
    more = vision.nms(boxes, scores, 0.3, 40, padded=True)
    assert more.shape == (40,)
    two = mgefn.vmap(lambda s: vision.nms(boxes, s, 0.3, 5, padded=True))(
        np.stack([scores, -scores])
    )
    np.testing.assert_array_equal(two[0], want[:5])
    assert vision.nms(np.zeros((0, 4)), np.zeros(0), 0.5).shape == (0,)


def test_iou() -> None:
    a = np.array([[0.0, 0, 2, 2], [1, 1, 1, 1]])
    b = np.array([[1.0, 1, 3, 3], [5, 5, 6, 6], [1, 1, 1, 1]])
    np.testing.assert_allclose(vision.iou(a, b), [[1 / 7, 0, 0], [0, 0, 0]])


def test_flip_and_rot90() -> None:
    x = np.arange(6.0).reshape(1, 2, 3, 1)
    np.testing.assert_array_equal(vision.flip(x)[0, ..., 0], x[0, ::-1, ::-1, 0])
    np.testing.assert_array_equal(vision.flip(x, vertical=False)[0, ..., 0], x[0, :, ::-1, 0])
    np.testing.assert_array_equal(vision.rot90(x)[0, ..., 0], np.rot90(x[0, ..., 0], -1))
    np.testing.assert_array_equal(
        vision.rot90(x, clockwise=False)[0, ..., 0], np.rot90(x[0, ..., 0])
    )


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: vision.remap(mnp.ones((4, 4)), mnp.ones((1, 2, 2, 2))), "needs images"),
        (lambda: vision.remap(IMAGE, mnp.ones((2, 2, 2, 3))), "coordinates must be"),
        (lambda: vision.remap(IMAGE, mnp.ones((2, 1, 1, 2)), "mirror"), "border_mode must be one"),
        (lambda: vision.warp_perspective(IMAGE, mnp.ones((1, 3, 3)), 2), "one matrix for each"),
        (lambda: vision.interpolate(IMAGE), "size or scale_factor"),
        (lambda: vision.nms(mnp.ones((2, 4)), mnp.ones(3), 0.5), "scores must have shape"),
        (lambda: vision.roi_align(IMAGE, mnp.ones((2, 4)), 2), "rois must be"),
    ],
)
def test_errors(call: Any, text: str) -> None:
    with pytest.raises(errors.MgefnError, match=text):
        call()
