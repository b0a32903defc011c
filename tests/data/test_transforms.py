"""Transforms: against plain formulas, Pillow and the standard library."""

from __future__ import annotations

import colorsys
import inspect

import numpy as np
import pytest
from PIL import Image

import mgefn
from mgefn import random
from mgefn.data import transforms as T
from mgefn.errors import ArgumentError, ShapeError

RNG = np.random.default_rng(0)
IMAGE = RNG.integers(0, 256, (12, 17, 3)).astype(np.uint8)
KEY = random.key(5)
RANDOM = [
    T.RandomCrop(8, 2), T.RandomHorizontalFlip(), T.RandomVerticalFlip(), T.RandomResize((0.5, 2)),
    T.RandomResizedCrop(9), T.GaussianNoise(0, 20), T.BrightnessTransform(0.5),
    T.ContrastTransform(0.5), T.SaturationTransform(0.5), T.HueTransform(0.4),
    T.ColorJitter(0.3, 0.3, 0.3, 0.3), T.Lighting(10.0), T.ShortestEdgeResize((5, 30)),
]  # fmt: skip


@pytest.mark.parametrize("transform", RANDOM, ids=lambda t: type(t).__name__)
def test_random_transforms_are_functions_of_the_key(transform):
    outs = [transform(IMAGE, random.key(i)) for i in range(8)]
    assert len({o.tobytes() + str(o.shape).encode() for o in outs}) > 1
    assert all(o.dtype == np.uint8 for o in outs)
    for i, out in enumerate(outs):
        assert np.array_equal(transform(IMAGE, random.key(i)), out)
        words = tuple(np.asarray(random.key_data(random.key(i))).tolist())
        assert np.array_equal(transform(IMAGE, words), out)
    batch = transform.apply_batch([IMAGE, IMAGE], KEY)
    assert np.array_equal(batch[0], transform.apply_batch([IMAGE], KEY)[0])
    with pytest.raises(ArgumentError, match="a random transform needs a key"):
        transform(IMAGE)


@pytest.mark.parametrize("transform", RANDOM, ids=lambda t: type(t).__name__)
def test_floats_and_gray_images(transform):
    assert transform(IMAGE / 255.0, KEY).dtype == np.float64
    if not isinstance(transform, T.Lighting):
        assert transform(IMAGE[..., 0], KEY).ndim == 2


def test_draws():
    draws = T.Draws(KEY)
    u = draws.uniform(2, 3, (100_000,))
    assert 2 <= u.min() < u.max() < 3
    assert abs(u.mean() - 2.5) < 5 * np.sqrt(1 / 12 / 1e5)  # five standard errors
    z = draws.normal((100_000,))
    assert abs(z.mean()) < 5 / np.sqrt(1e5)
    assert abs(z.var() - 1) < 5 * np.sqrt(2 / 1e5)
    assert set(draws.integer(3) for _ in range(100)) == {0, 1, 2}
    assert sorted(draws.order(6)) == list(range(6))
    # No release of NumPy may change what a key draws.
    assert T.Draws((1, 2, 3)).uniform().hex() == FIXED


FIXED = "0x1.7096262293ae3p-1"


@pytest.mark.parametrize("size", [(24, 34), (32, 40), (12, 17), (16, 20)])
def test_linear_enlargement_is_pillows(size):
    """Pillow rounds its weights, hence the tolerance of one step. No centre falls on an edge."""
    theirs = np.asarray(
        Image.fromarray(IMAGE).resize(size[::-1], Image.Resampling.BILINEAR), np.int32
    )
    assert np.abs(T.Resize(size)(IMAGE).astype(np.int32) - theirs).max() <= 1
    theirs = np.asarray(Image.fromarray(IMAGE).resize(size[::-1], Image.Resampling.NEAREST))
    assert np.array_equal(T.Resize(size, "nearest")(IMAGE), theirs)


def test_sizes():
    assert T.Resize(6)(IMAGE).shape == (6, 8, 3)
    assert T.Resize((5, 1))(IMAGE[..., 0]).shape == (5, 1)
    assert T.Resize((3, 3))(np.zeros((1, 1, 3))).shape == (3, 3, 3)
    assert T.ShortestEdgeResize(24, 30)(IMAGE).shape == (21, 30, 3)
    choices = {
        min(T.ShortestEdgeResize((5, 9), sample_style="choice")(IMAGE, (i,)).shape[:2])
        for i in range(20)
    }
    assert choices == {5, 9}
    assert T.RandomResizedCrop(8)(np.zeros((1, 50, 3)), KEY).shape == (8, 8, 3)
    with pytest.raises(ArgumentError, match=r"\(height, width\) or one number, got \(1, 2, 3\)"):
        T.Resize((1, 2, 3))
    with pytest.raises(ArgumentError, match="'nearest' or 'linear', got 'cubic'"):
        T.Resize(3, "cubic")
    with pytest.raises(ShapeError, match="at least 13x13, got 12x17"):
        T.CenterCrop(13)(IMAGE)
    with pytest.raises(ShapeError, match=r"got shape \[2, 12, 17, 3\]"):
        T.CenterCrop(3)(np.stack([IMAGE, IMAGE]))


def test_crops_and_flips():
    assert np.array_equal(T.CenterCrop((4, 5))(IMAGE), IMAGE[4:8, 6:11])
    padded = T.Pad((1, 2, 3, 4), value=[1, 2, 3])(IMAGE)
    assert padded.shape == (15, 24, 3)
    assert padded[0, 0].tolist() == [1, 2, 3]
    assert np.array_equal(padded[1:-2, 3:-4], IMAGE)
    assert np.array_equal(T.RandomHorizontalFlip(1.0)(IMAGE, KEY), IMAGE[:, ::-1])
    assert np.array_equal(T.RandomVerticalFlip(1.0)(IMAGE, KEY), IMAGE[::-1])
    assert np.array_equal(T.RandomVerticalFlip(0.0)(IMAGE, KEY), IMAGE)
    seen = set()
    for i in range(200):
        crop = T.RandomCrop((11, 16))(IMAGE, (i,))
        places = [
            (r, c)
            for r in range(2)
            for c in range(2)
            if np.array_equal(crop, IMAGE[r : r + 11, c : c + 16])
        ]
        assert len(places) == 1
        seen.update(places)
    assert seen == {(0, 0), (0, 1), (1, 0), (1, 1)}


GEOMETRY = [
    T.RandomCrop(8, 2), T.RandomHorizontalFlip(1.0), T.RandomVerticalFlip(1.0), T.Resize((24, 51)),
    T.RandomResizedCrop((20, 30), (0.6, 1.0)), T.Pad((1, 2)), T.CenterCrop(10),
]  # fmt: skip


@pytest.mark.parametrize("transform", GEOMETRY, ids=lambda t: type(t).__name__)
def test_what_belongs_to_an_image_moves_with_it(transform):
    """One bright pixel: its mask, the box around it and its centre stay together."""
    image = np.zeros((12, 17, 3))
    image[5, 8] = 1
    mask = (image[..., 0] > 0).astype(np.int32)
    sample = (image, mask, np.array([[8.5, 5.5]]), np.array([[8.0, 5.0, 9.0, 6.0]]), "label")
    both = T.Compose([transform], order=("image", "mask", "coords", "boxes"))
    out, out_mask, coords, boxes, label = both(sample, (3, 4))
    assert label == "label"
    assert out.shape[:2] == out_mask.shape
    rows, columns = np.nonzero(out_mask)
    assert len(rows), "the pixel must stay in view for this test"
    x0, y0, x1, y1 = boxes[0]
    assert x0 - 0.5 <= columns.min() + 0.5 <= columns.max() + 0.5 <= x1 + 0.5
    assert y0 - 0.5 <= rows.min() + 0.5 <= rows.max() + 0.5 <= y1 + 0.5
    np.testing.assert_allclose(coords[0], [(x0 + x1) / 2, (y0 + y1) / 2])
    peak = np.unravel_index(out[..., 0].argmax(), out.shape[:2])
    assert abs(peak[0] + 0.5 - coords[0, 1]) <= max(1, (y1 - y0) / 2)
    assert transform.order == ("image",)


def test_boxes_stay_boxes_when_flipped():
    flip = T.RandomHorizontalFlip(1.0, order=("image", "boxes"))
    _, boxes = flip((IMAGE, np.array([[1.0, 2.0, 4.0, 6.0]])), KEY)
    assert boxes.tolist() == [[13.0, 2.0, 16.0, 6.0]]
    _, none = flip((IMAGE, np.zeros((0, 4))), KEY)
    assert none.shape == (0, 4)


def test_colours():
    x = np.array([[[200, 100, 50]]], np.uint8)
    assert T.Normalize([100, 50, 0], [10, 10, 10])(x).tolist() == [[[10.0, 5.0, 5.0]]]
    assert T.Normalize()(x).dtype == np.float32
    gray = round(200 * 0.299 + 100 * 0.587 + 50 * 0.114)
    assert T.to_gray(x).tolist() == [[[gray] * 3]]
    assert T.to_bgr(x).tolist() == [[[50, 100, 200]]]
    assert T.ToMode("CHW")(IMAGE).shape == (3, 12, 17)
    assert T.ToMode("CHW")(IMAGE[..., 0]).shape == (1, 12, 17)
    for value in (T.BrightnessTransform, T.ContrastTransform, T.SaturationTransform):
        assert np.array_equal(value(0)(IMAGE), IMAGE)
    bright = T.BrightnessTransform(0.5)
    factor = bright.plan(1, 1, lambda: T.Draws((7,)))
    expected = np.clip(np.rint(IMAGE * factor), 0, 255)
    assert np.abs(bright(IMAGE, (7,)) - expected).max() <= 1  # float32 beside float64
    flat = np.full((4, 4, 3), 77, np.uint8)
    assert np.array_equal(T.ContrastTransform(0.9)(flat, KEY), flat)
    assert np.array_equal(T.SaturationTransform(0.9)(flat, KEY), flat)
    with pytest.raises(ArgumentError, match=r"value must be in \[0, 0\.5\]"):
        T.HueTransform(0.6)
    with pytest.raises(ShapeError, match=r"needs \(height, width, 3\)"):
        T.to_gray(np.zeros((2, 2)))


@pytest.mark.parametrize("turn", [0.1, -0.3, 0.5])
def test_hue_is_colorsys(turn):
    colours = RNG.uniform(size=(5, 4, 3))
    got = T.colour.turned(colours, turn)
    for (i, j), _ in np.ndenumerate(colours[..., 0]):
        h, s, v = colorsys.rgb_to_hsv(*colours[i, j])
        np.testing.assert_allclose(got[i, j], colorsys.hsv_to_rgb((h + turn) % 1, s, v), atol=1e-12)


def test_compose_gives_each_its_own_key():
    twice = T.Compose([T.GaussianNoise(0, 1), T.GaussianNoise(0, 1)])
    zero = np.zeros((6, 6))
    once = T.GaussianNoise(0, 1)
    words = T.base.entropy_of(KEY)
    expected = once(once(zero, (*words, 0)), (*words, 1))
    assert np.array_equal(twice(zero, KEY), expected)
    assert T.Compose([lambda s: s + 1, T.PseudoTransform()])(1) == 2
    with pytest.raises(ArgumentError, match="needs transforms or functions, got 3"):
        T.Compose([3])
    with pytest.raises(ArgumentError, match=r"got \['picture'\]"):
        T.CenterCrop(2, order=("picture",))
    with pytest.raises(ArgumentError, match="must define apply"):
        mgefn.data.Transform()(1)


def test_every_transform_is_tested_here():
    classes = {c for c in map(vars(T).get, T.__all__) if inspect.isclass(c)}
    source = inspect.getsource(inspect.getmodule(test_every_transform_is_tested_here))
    assert [c.__name__ for c in classes if f"T.{c.__name__}" not in source] in (
        ["VisionTransform"], ["Transform", "VisionTransform"], ["VisionTransform", "Transform"],
    )  # fmt: skip
