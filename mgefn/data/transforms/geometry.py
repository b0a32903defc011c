"""Crops, borders and flips."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mgefn.data.transforms.base import Draws, VisionTransform, float_range, size_pair
from mgefn.data.transforms.resizing import method, resized
from mgefn.errors import ArgumentError, ShapeError


class Pad(VisionTransform):
    """A border around an image.

    Args:
        size: one width for all sides, (vertical, horizontal), or (top, bottom, left, right).
        value: its colour, one number or one a channel.
        mask_value: its class in masks.
        order: see VisionTransform.

    Example:
        >>> from mgefn.data import transforms as T
        >>> T.Pad(1, value=7)(np.zeros((1, 1)))
        array([[7., 7., 7.],
               [7., 0., 7.],
               [7., 7., 7.]])
    """

    def __init__(
        self,
        size: Any = 0,
        value: Any = 0,
        mask_value: Any = 0,
        *,
        order: Sequence[str] | None = None,
    ) -> None:
        super().__init__(order)
        sides = (size,) * 4 if np.ndim(size) == 0 else tuple(size)
        if len(sides) == 2:
            sides = (sides[0], sides[0], sides[1], sides[1])
        if len(sides) != 4 or any(int(s) != s or s < 0 for s in sides):
            raise ArgumentError(f"Pad: size must be 1, 2 or 4 integers >= 0, got {size!r}.")
        self.sides, self.value, self.mask_value = sides, value, mask_value

    def image(self, x: np.ndarray, plan: Any) -> np.ndarray:
        return padded(x, self.sides, self.value)

    def mask(self, x: np.ndarray, plan: Any) -> np.ndarray:
        return padded(x, self.sides, self.mask_value)

    def coords(self, x: np.ndarray, plan: Any) -> np.ndarray:
        return x + np.array([self.sides[2], self.sides[0]])


def padded(x: np.ndarray, sides: tuple[int, ...], value: Any) -> np.ndarray:
    top, bottom, left, right = map(int, sides)
    h, w = x.shape[:2]
    if np.ndim(value) and x.ndim == 2:
        value = np.asarray(value).reshape(-1)[0]
    out = np.empty((h + top + bottom, w + left + right, *x.shape[2:]), x.dtype)
    out[...] = value
    out[top : top + h, left : left + w] = x
    return out


class _Window(VisionTransform):
    """Cuts the window (top, left, height, width) that `plan` gives."""

    def image(self, x: np.ndarray, plan: Any) -> np.ndarray:
        top, left, h, w = plan
        return x[top : top + h, left : left + w]

    def mask(self, x: np.ndarray, plan: Any) -> np.ndarray:
        return _Window.image(self, x, plan)

    def coords(self, x: np.ndarray, plan: Any) -> np.ndarray:
        return x - np.array([plan[1], plan[0]])


def _fits(name: str, size: tuple[int, int], height: int, width: int) -> None:
    if size[0] > height or size[1] > width:
        raise ShapeError(
            f"{name}: an image must be at least {size[0]}x{size[1]}, got {height}x{width}. Pad or "
            "resize it before."
        )


class CenterCrop(_Window):
    """The middle of an image.

    Args:
        output_size: (height, width), or one number for both.
        order: see VisionTransform.

    Example:
        >>> from mgefn.data import transforms as T
        >>> T.CenterCrop((1, 2))(np.arange(12).reshape(3, 4))
        array([[5, 6]])
    """

    def __init__(self, output_size: Any, *, order: Sequence[str] | None = None) -> None:
        super().__init__(order)
        self.output_size = size_pair("CenterCrop", output_size)

    def plan(self, height: int, width: int, draws: Callable[[], Draws]) -> Any:
        h, w = self.output_size
        _fits("CenterCrop", self.output_size, height, width)
        return (height - h) // 2, (width - w) // 2, h, w


class RandomCrop(_Window):
    """A window of an image, anywhere, after a border was put around it.

    Args:
        output_size: (height, width), or one number for both.
        padding_size: the border, as size of Pad.
        padding_value: its colour.
        padding_maskvalue: its class in masks.
        order: see VisionTransform.

    Example:
        >>> from mgefn.data import transforms as T
        >>> T.RandomCrop(32, padding_size=4)(np.zeros((32, 32, 3)), mgefn.random.key(0)).shape
        (32, 32, 3)
    """

    def __init__(
        self,
        output_size: Any,
        padding_size: Any = 0,
        padding_value: Any = 0,
        padding_maskvalue: Any = 0,
        *,
        order: Sequence[str] | None = None,
    ) -> None:
        super().__init__(order)
        self.output_size = size_pair("RandomCrop", output_size)
        self._pad = Pad(padding_size, padding_value, padding_maskvalue)

    def plan(self, height: int, width: int, draws: Callable[[], Draws]) -> Any:
        top, bottom, left, right = self._pad.sides
        height, width = height + top + bottom, width + left + right
        h, w = self.output_size
        _fits("RandomCrop", self.output_size, height, width)
        numbers = draws()
        return numbers.integer(height - h + 1), numbers.integer(width - w + 1), h, w

    def image(self, x: np.ndarray, plan: Any) -> np.ndarray:
        return super().image(self._pad.image(x, None), plan)

    def mask(self, x: np.ndarray, plan: Any) -> np.ndarray:
        return super().mask(self._pad.mask(x, None), plan)

    def coords(self, x: np.ndarray, plan: Any) -> np.ndarray:
        return super().coords(self._pad.coords(x, None), plan)


class RandomResizedCrop(_Window):
    """A window of random area and shape, scaled to one size.

    Args:
        output_size: (height, width), or one number for both.
        scale_range: the share of the image's area, (low, high).
        ratio_range: width over height, (low, high).
        interpolation: as Resize.
        order: see VisionTransform.

    Source: C. Szegedy et al., Going deeper with convolutions, CVPR 2015, section 6.
    """

    def __init__(
        self,
        output_size: Any,
        scale_range: Any = (0.08, 1.0),
        ratio_range: Any = (3.0 / 4, 4.0 / 3),
        interpolation: Any = "linear",
        *,
        order: Sequence[str] | None = None,
    ) -> None:
        super().__init__(order)
        name = "RandomResizedCrop"
        self.output_size = size_pair(name, output_size)
        self.scale_range = float_range(name, "scale_range", scale_range)
        self.ratio_range = float_range(name, "ratio_range", ratio_range, 1e-6)
        self.interpolation = method(name, interpolation)

    def plan(self, height: int, width: int, draws: Callable[[], Draws]) -> Any:
        numbers = draws()
        for _ in range(10):
            area = numbers.uniform(*self.scale_range) * height * width
            ratio = math.exp(numbers.uniform(*map(math.log, self.ratio_range)))
            h, w = round(math.sqrt(area / ratio)), round(math.sqrt(area * ratio))
            if 0 < h <= height and 0 < w <= width:
                return numbers.integer(height - h + 1), numbers.integer(width - w + 1), h, w
        # An image too long for the ratios: the largest window in the middle that they allow.
        low, high = self.ratio_range
        w = max(1, min(width, round(height * high)))
        h = max(1, min(height, round(width / low)))
        return (height - h) // 2, (width - w) // 2, h, w

    def image(self, x: np.ndarray, plan: Any) -> np.ndarray:
        return resized(super().image(x, plan), self.output_size, self.interpolation)

    def mask(self, x: np.ndarray, plan: Any) -> np.ndarray:
        return resized(super().mask(x, plan), self.output_size, "nearest")

    def coords(self, x: np.ndarray, plan: Any) -> np.ndarray:
        h, w = self.output_size
        return super().coords(x, plan) * np.array([w / plan[3], h / plan[2]])


class _Flip(VisionTransform):
    axis = 0

    def __init__(self, prob: float = 0.5, *, order: Sequence[str] | None = None) -> None:
        super().__init__(order)
        if not 0 <= prob <= 1:
            raise ArgumentError(f"{type(self).__name__}: prob must be in [0, 1], got {prob}.")
        self.prob = prob

    def plan(self, height: int, width: int, draws: Callable[[], Draws]) -> Any:
        return draws().uniform() < self.prob, (height, width)[self.axis]

    def image(self, x: np.ndarray, plan: Any) -> np.ndarray:
        return np.flip(x, self.axis) if plan[0] else x

    def mask(self, x: np.ndarray, plan: Any) -> np.ndarray:
        return self.image(x, plan)

    def coords(self, x: np.ndarray, plan: Any) -> np.ndarray:
        flipped, size = plan
        if not flipped:
            return x
        x = np.array(x)
        x[:, 1 - self.axis] = size - x[:, 1 - self.axis]
        return x


class RandomHorizontalFlip(_Flip):
    """Left and right exchanged, or not.

    Args:
        prob: how likely.
        order: see VisionTransform.

    Example:
        >>> from mgefn.data import transforms as T
        >>> T.RandomHorizontalFlip(1.0)(np.array([[1, 2, 3]]), mgefn.random.key(0))
        array([[3, 2, 1]])
    """

    axis = 1


class RandomVerticalFlip(_Flip):
    """Top and bottom exchanged, or not.

    Args:
        prob: how likely.
        order: see VisionTransform.
    """

    axis = 0
