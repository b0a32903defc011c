"""Images of another size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mgefn.data.transforms.base import (
    Draws,
    VisionTransform,
    float_range,
    in_kind_of,
    size_pair,
)
from mgefn.errors import ArgumentError

_METHODS = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", 0: "nearest"}
_METHODS[1] = "linear"  # 0 and 1 are OpenCV's numbers


def method(name: str, interpolation: Any) -> str:
    if interpolation not in _METHODS:
        raise ArgumentError(
            f"{name}: interpolation must be 'nearest' or 'linear', got {interpolation!r}."
        )
    return _METHODS[interpolation]


def resized(image: np.ndarray, size: tuple[int, int], how: str) -> np.ndarray:
    """The image sampled at the centres of new pixels, without smoothing beforehand."""
    if image.shape[:2] == size:
        return image
    if 0 in image.shape[:2]:
        raise ArgumentError(f"Resize: an image must have pixels, got shape {list(image.shape)}.")
    if how == "nearest":
        rows, columns = (
            (2 * np.arange(new) + 1) * old // (2 * new)  # exact where a centre is on an edge
            for new, old in zip(size, image.shape[:2], strict=True)
        )
        return image[rows[:, None], columns]
    x = image.astype(image.dtype if image.dtype.kind == "f" else np.float32)
    for axis in (0, 1):
        old, new = x.shape[axis], size[axis]
        place = np.clip((np.arange(new) + 0.5) * old / new - 0.5, 0, old - 1)
        low = np.minimum(place.astype(int), max(old - 2, 0))
        weight = (place - low).astype(x.dtype)
        weight = weight.reshape((-1,) + (1,) * (x.ndim - 1 - axis))
        high = np.minimum(low + 1, old - 1)
        x = x.take(low, axis) * (1 - weight) + x.take(high, axis) * weight
    return in_kind_of(image, x)


class _Sized(VisionTransform):
    """Scales everything from (height, width) to the size that `target` gives."""

    def __init__(self, interpolation: Any, order: Sequence[str] | None) -> None:
        super().__init__(order)
        self.interpolation = method(type(self).__name__, interpolation)

    def target(self, height: int, width: int, draws: Callable[[], Draws]) -> tuple[int, int]:
        raise ArgumentError(f"{type(self).__name__}: must define target.")

    def plan(self, height: int, width: int, draws: Callable[[], Draws]) -> Any:
        return (height, width), self.target(height, width, draws)

    def image(self, x: np.ndarray, plan: Any) -> np.ndarray:
        return resized(x, plan[1], self.interpolation)

    def mask(self, x: np.ndarray, plan: Any) -> np.ndarray:
        return resized(x, plan[1], "nearest")  # classes have no value in between

    def coords(self, x: np.ndarray, plan: Any) -> np.ndarray:
        (h, w), (new_h, new_w) = plan
        return x * np.array([new_w / w, new_h / h])


def scaled(height: int, width: int, scale: float) -> tuple[int, int]:
    return max(1, round(height * scale)), max(1, round(width * scale))


class Resize(_Sized):
    """An image of a given size.

    Args:
        output_size: (height, width); or the new length of the shorter side.
        interpolation: "linear" or "nearest"; masks are always "nearest".
        order: see VisionTransform.

    Example:
        >>> from mgefn.data import transforms as T
        >>> T.Resize((1, 2))(np.array([[0.0, 1.0, 2.0, 3.0]]))
        array([[0.5, 2.5]])
        >>> T.Resize(10)(np.zeros((20, 40, 3))).shape
        (10, 20, 3)
    """

    def __init__(
        self,
        output_size: Any,
        interpolation: Any = "linear",
        *,
        order: Sequence[str] | None = None,
    ) -> None:
        super().__init__(interpolation, order)
        size_pair("Resize", output_size)
        self.output_size = output_size

    def target(self, height: int, width: int, draws: Callable[[], Draws]) -> tuple[int, int]:
        if np.ndim(self.output_size):
            return size_pair("Resize", self.output_size)
        return scaled(height, width, self.output_size / min(height, width))


class ShortestEdgeResize(_Sized):
    """An image whose shorter side has a given length, unless the longer would be too long.

    Args:
        min_size: the length of the shorter side, or several to draw from.
        max_size: the longest that the longer side may be; None for no limit.
        sample_style: "range" draws an integer from min_size[0] to min_size[1], "choice" one of
            min_size.
        interpolation: as Resize.
        order: see VisionTransform.

    Example:
        >>> from mgefn.data import transforms as T
        >>> T.ShortestEdgeResize(10, max_size=15)(np.zeros((20, 40))).shape
        (8, 15)
    """

    def __init__(
        self,
        min_size: Any,
        max_size: int | None = None,
        sample_style: str = "range",
        interpolation: Any = "linear",
        *,
        order: Sequence[str] | None = None,
    ) -> None:
        super().__init__(interpolation, order)
        if sample_style not in ("range", "choice"):
            raise ArgumentError(
                f"ShortestEdgeResize: sample_style must be 'range' or 'choice', got "
                f"{sample_style!r}."
            )
        sizes = (min_size,) if np.ndim(min_size) == 0 else tuple(min_size)
        if not sizes or min(sizes) < 1 or (sample_style == "range" and len(sizes) > 2):
            raise ArgumentError(
                f"ShortestEdgeResize: min_size must be lengths, two for 'range', got {min_size!r}."
            )
        self.sizes, self.max_size, self.sample_style = sizes, max_size, sample_style

    def target(self, height: int, width: int, draws: Callable[[], Draws]) -> tuple[int, int]:
        if len(self.sizes) == 1:
            short = self.sizes[0]
        elif self.sample_style == "range":
            low, high = min(self.sizes), max(self.sizes)
            short = low + draws().integer(high - low + 1)
        else:
            short = self.sizes[draws().integer(len(self.sizes))]
        scale = short / min(height, width)
        if self.max_size is not None:
            scale = min(scale, self.max_size / max(height, width))
        return scaled(height, width, scale)


class RandomResize(_Sized):
    """An image scaled by a factor that is drawn.

    Args:
        scale_range: (low, high).
        interpolation: as Resize.
        order: see VisionTransform.
    """

    def __init__(
        self,
        scale_range: Any,
        interpolation: Any = "linear",
        *,
        order: Sequence[str] | None = None,
    ) -> None:
        super().__init__(interpolation, order)
        self.scale_range = float_range("RandomResize", "scale_range", scale_range)

    def target(self, height: int, width: int, draws: Callable[[], Draws]) -> tuple[int, int]:
        return scaled(height, width, draws().uniform(*self.scale_range))
