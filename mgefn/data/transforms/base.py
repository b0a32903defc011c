"""What transforms have in common: the numbers they draw, and which parts of a sample they change.

A transform runs on the host, on NumPy arrays, often in a worker. What it draws is a function of its
key alone: Philox bits made into numbers here, so that no release of NumPy changes them.

Source: J. Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC 2011 (Philox).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from mgefn.errors import ArgumentError, ShapeError
from mgefn.random.keys import key_words


class Draws:
    """Numbers in a row from a key: a random key of mgefn, or a tuple of integers.

    Example:
        >>> from mgefn.data.transforms import Draws
        >>> Draws((1, 2)).integer(10) == Draws((1, 2)).integer(10)
        True
    """

    def __init__(self, key: Any, name: str = "Draws") -> None:
        if key is None:
            raise ArgumentError(
                f"{name}: a random transform needs a key. Call transform(sample, key), or hand it "
                "to a DataLoader, which has one."
            )
        self._bits = np.random.Philox(np.random.SeedSequence(entropy_of(key)))

    def uniform(self, low: float = 0.0, high: float = 1.0, shape: Any = ()) -> Any:
        """Floats in [low, high)."""
        count = math.prod(shape)
        raw = self._bits.random_raw(count) >> np.uint64(11)
        u = (raw * 2.0**-53).reshape(shape)
        return low + (high - low) * (u if shape else float(u))

    def integer(self, n: int) -> int:
        """An integer in [0, n)."""
        return min(int(self.uniform() * n), n - 1)

    def normal(self, shape: Any = ()) -> np.ndarray:
        """Floats from the standard normal distribution, by Box and Muller's formula."""
        radius = np.sqrt(-2.0 * np.log1p(-self.uniform(shape=(math.prod(shape),))))
        angle = 2 * np.pi * self.uniform(shape=(math.prod(shape),))
        return (radius * np.cos(angle)).reshape(shape)

    def order(self, n: int) -> list[int]:
        """0 to n - 1 in some order."""
        return np.argsort(self.uniform(shape=(n,)), kind="stable").tolist()


def entropy_of(key: Any) -> tuple[int, ...]:
    """A key as a tuple of integers."""
    if isinstance(key, tuple):
        return key
    return tuple(np.asarray(key_words("transform", key)).tolist())


class Transform:
    """A function of a sample, and of a key where it draws. Subclasses define `apply`.

    Example:
        >>> class Noise(mgefn.data.Transform):
        ...     def apply(self, sample, key=None):
        ...         return sample + mgefn.data.transforms.Draws(key).normal(sample.shape)
        >>> Noise()(np.zeros(3), mgefn.random.key(0)).shape
        (3,)
    """

    def apply(self, sample: Any, key: Any = None) -> Any:
        """The sample after the transform.

        Args:
            sample: one sample.
            key: a random key, or a tuple of integers.
        """
        raise ArgumentError(
            f"{type(self).__name__}: a transform must define apply(sample, key=None). Add it."
        )

    def apply_batch(self, samples: Iterable[Any], key: Any = None) -> list[Any]:
        """The samples of a list, each with a key of its own."""
        base = None if key is None else entropy_of(key)
        return [self.apply(s, None if base is None else (*base, i)) for i, s in enumerate(samples)]

    def __call__(self, sample: Any, key: Any = None) -> Any:
        return self.apply(sample, key)


class PseudoTransform(Transform):
    """Changes nothing."""

    def apply(self, sample: Any, key: Any = None) -> Any:
        return sample


class Compose(Transform):
    """Transforms one after the other, each with a key of its own.

    Args:
        transforms: Transforms, or functions of a sample.
        order: what the parts of a sample are, for transforms that can tell; see VisionTransform.

    Example:
        >>> from mgefn.data import transforms as T
        >>> T.Compose([T.CenterCrop(2), T.ToMode("CHW")])(np.zeros((4, 4, 3))).shape
        (3, 2, 2)
    """

    def __init__(
        self, transforms: Sequence[Any] = (), *, order: Sequence[str] | None = None
    ) -> None:
        self.transforms = []
        for t in transforms:
            if not callable(t):
                raise ArgumentError(f"Compose: needs transforms or functions, got {t!r}.")
            if order is not None and isinstance(t, VisionTransform):
                t = copy.copy(t)  # the caller's stays as it is
                t.order = checked_order("Compose", order)
            self.transforms.append(t)

    def apply(self, sample: Any, key: Any = None) -> Any:
        base = None if key is None else entropy_of(key)
        for i, t in enumerate(self.transforms):
            if isinstance(t, Transform):
                sample = t.apply(sample, None if base is None else (*base, i))
            else:
                sample = t(sample)
        return sample


KINDS = (
    *("image", "mask", "coords", "boxes"),
    *("category", "image_category", "boxes_category", "mask_category", "info"),
)


def checked_order(name: str, order: Any) -> tuple[str, ...]:
    order = ("image",) if order is None else tuple(order)
    unknown = [kind for kind in order if kind not in KINDS]
    if unknown:
        raise ArgumentError(f"{name}: order takes {KINDS}, got {unknown}. Name these.")
    return order


class VisionTransform(Transform):
    """A transform of an image, and of what belongs to it.

    Args:
        order: what the parts of a sample are: "image" (height, width, channels in RGB order, or
            height, width), "mask" (height, width), "coords" (n, 2) as x, y, "boxes" (n, 4) as x0,
            y0, x1, y1. Other kinds, and parts after the last named, stay as they are. With one
            kind a sample may be the part itself instead of a tuple.

    Subclasses define `plan`, what is drawn or computed once a sample, and how it changes each kind.
    """

    def __init__(self, order: Sequence[str] | None = None) -> None:
        self.order = checked_order(type(self).__name__, order)

    def plan(self, height: int, width: int, draws: Callable[[], Draws]) -> Any:
        """What all parts share; draws() gives the numbers of the sample."""
        return None

    def image(self, x: np.ndarray, plan: Any) -> np.ndarray:
        """The image."""
        return x

    def mask(self, x: np.ndarray, plan: Any) -> np.ndarray:
        """The mask."""
        return x

    def coords(self, x: np.ndarray, plan: Any) -> np.ndarray:
        """Points."""
        return x

    def boxes(self, x: np.ndarray, plan: Any) -> np.ndarray:
        """Boxes: those around their corners."""
        x = np.asarray(x)
        corners = x[:, [0, 1, 2, 1, 0, 3, 2, 3]].reshape(-1, 2)
        moved = np.asarray(self.coords(corners, plan)).reshape(-1, 4, 2)
        return np.concatenate([moved.min(1), moved.max(1)], axis=1) if len(x) else x

    def apply(self, sample: Any, key: Any = None) -> Any:
        name = type(self).__name__
        alone = not isinstance(sample, (tuple, list))
        parts = (sample,) if alone else tuple(sample)
        if len(parts) < len(self.order):
            raise ArgumentError(
                f"{name}: a sample must have the parts {self.order}, got {len(parts)}. Correct "
                "order."
            )
        known = dict(zip(self.order, parts, strict=False))
        whole = known.get("image", known.get("mask"))
        if whole is None:
            raise ArgumentError(f"{name}: order must name an image or a mask, got {self.order}.")
        shape = np.shape(whole)
        if len(shape) not in (2, 3):
            raise ShapeError(
                f"{name}: an image must be (height, width, channels) or (height, width), got shape "
                f"{list(shape)}. Apply transforms to one sample, before it is batched."
            )
        plan = self.plan(shape[0], shape[1], lambda: Draws(key, name))
        done = [
            getattr(self, kind)(np.asarray(part), plan)
            if kind in ("image", "mask", "coords", "boxes")
            else part
            for kind, part in zip(self.order, parts, strict=False)
        ]
        return done[0] if alone else (*done, *parts[len(self.order) :])


def in_kind_of(like: np.ndarray, x: np.ndarray) -> np.ndarray:
    """x in the dtype of `like`; integers rounded, and kept within their range."""
    if like.dtype.kind in "iu":
        limits = np.iinfo(like.dtype)
        x = np.clip(np.rint(x), limits.min, limits.max)
    return x.astype(like.dtype)


def size_pair(name: str, size: Any) -> tuple[int, int]:
    """(height, width) of a number or a pair."""
    pair = (size, size) if np.ndim(size) == 0 else tuple(size)
    if len(pair) != 2 or any(int(s) != s or s < 1 for s in pair):
        raise ArgumentError(f"{name}: a size must be (height, width) or one number, got {size!r}.")
    return int(pair[0]), int(pair[1])


def float_range(name: str, what: str, pair: Any, least: float = 0.0) -> tuple[float, float]:
    low, high = map(float, pair)
    if not least <= low <= high:
        raise ArgumentError(f"{name}: {what} must be (low, high) with low >= {least}, got {pair}.")
    return low, high
