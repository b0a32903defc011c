"""Colours and layouts. Channels are red, green, blue, in the last dimension.

Integers are taken as whole ranges: results are rounded and kept within the dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mgefn.data.transforms.base import (
    Draws,
    Transform,
    VisionTransform,
    checked_order,
    entropy_of,
    in_kind_of,
)
from mgefn.errors import ArgumentError, ShapeError, api_boundary

LUMA = np.array([0.299, 0.587, 0.114], np.float32)  # of red, green, blue: ITU-R BT.601


def _wide(x: np.ndarray) -> np.ndarray:
    return x if x.dtype == np.float64 else x.astype(np.float32)


def _luma(x: np.ndarray) -> np.ndarray:
    """Brightness, with a last dimension of 1."""
    return x if x.ndim == 2 or x.shape[-1] != 3 else (x @ LUMA.astype(x.dtype))[..., None]


@api_boundary
def to_gray(image: Any, /) -> np.ndarray:
    """A colour image as a grey one of three equal channels.

    Args:
        image: (height, width, 3), red first.
    """
    x = _rgb("to_gray", image)
    return in_kind_of(x, np.repeat(_luma(_wide(x)), 3, axis=-1))


@api_boundary
def to_bgr(image: Any, /) -> np.ndarray:
    """Channels in the opposite order: (height, width, 3)."""
    return _rgb("to_bgr", image)[..., ::-1]


def _rgb(name: str, image: Any) -> np.ndarray:
    x = np.asarray(image)
    if x.dtype.kind not in "uif":
        raise ArgumentError(f"{name}: needs an image of real numbers, got dtype {x.dtype}.")
    if x.ndim != 3 or x.shape[-1] != 3:
        raise ShapeError(f"{name}: needs (height, width, 3), got shape {list(x.shape)}.")
    return x


class Normalize(VisionTransform):
    """(image - mean) / std, in float32 unless the image is wider.

    Args:
        mean, std: one number, or one a channel.
        order: see VisionTransform.

    Example:
        >>> from mgefn.data import transforms as T
        >>> T.Normalize(128, 64)(np.full((1, 2), 192, np.uint8))
        array([[1., 1.]], dtype=float32)
    """

    def __init__(
        self, mean: Any = 0.0, std: Any = 1.0, *, order: Sequence[str] | None = None
    ) -> None:
        super().__init__(order)
        self.mean, self.std = np.asarray(mean, np.float64), np.asarray(std, np.float64)
        if not np.all(self.std > 0):
            raise ArgumentError(f"Normalize: std must be positive, got {std}.")

    def image(self, x: np.ndarray, plan: Any) -> np.ndarray:
        x = _wide(x)
        return (x - self.mean.astype(x.dtype)) / self.std.astype(x.dtype)


class ToMode(VisionTransform):
    """The order of an image's dimensions.

    Args:
        mode: "CHW", channels first.
        order: see VisionTransform.

    Example:
        >>> from mgefn.data import transforms as T
        >>> T.ToMode("CHW")(np.zeros((4, 5, 3))).shape
        (3, 4, 5)
    """

    def __init__(self, mode: str = "CHW", *, order: Sequence[str] | None = None) -> None:
        super().__init__(order)
        if mode not in ("CHW", "HWC"):
            raise ArgumentError(f"ToMode: mode must be 'CHW' or 'HWC', got {mode!r}.")
        self.mode = mode

    def image(self, x: np.ndarray, plan: Any) -> np.ndarray:
        x = x if x.ndim == 3 else x[..., None]
        return np.ascontiguousarray(x.transpose(2, 0, 1)) if self.mode == "CHW" else x


class GaussianNoise(VisionTransform):
    """Normal numbers added to each element.

    Args:
        mean, std: of the noise.
        order: see VisionTransform.
    """

    def __init__(
        self, mean: float = 0.0, std: float = 1.0, *, order: Sequence[str] | None = None
    ) -> None:
        super().__init__(order)
        self.mean, self.std = mean, std

    def plan(self, height: int, width: int, draws: Callable[[], Draws]) -> Draws:
        return draws()

    def image(self, x: np.ndarray, plan: Draws) -> np.ndarray:
        return in_kind_of(x, _wide(x) + self.mean + self.std * plan.normal(x.shape))


class _Strength(VisionTransform):
    """Draws a factor from [max(0, 1 - value), 1 + value)."""

    def __init__(self, value: float, *, order: Sequence[str] | None = None) -> None:
        super().__init__(order)
        if value < 0:
            raise ArgumentError(f"{type(self).__name__}: value must be 0 or more, got {value}.")
        self.value = value

    def plan(self, height: int, width: int, draws: Callable[[], Draws]) -> float:
        if self.value == 0:
            return 1.0
        return float(draws().uniform(max(0.0, 1 - self.value), 1 + self.value))


class BrightnessTransform(_Strength):
    """The image times a factor.

    Args:
        value: the factor is drawn from [max(0, 1 - value), 1 + value).
        order: see VisionTransform.
    """

    def image(self, x: np.ndarray, plan: float) -> np.ndarray:
        return in_kind_of(x, _wide(x) * plan)


class ContrastTransform(_Strength):
    """The distance from the mean brightness times a factor.

    Args:
        value, order: as BrightnessTransform.
    """

    def image(self, x: np.ndarray, plan: float) -> np.ndarray:
        wide = _wide(x)
        return in_kind_of(x, wide * plan + _luma(wide).mean() * (1 - plan))


class SaturationTransform(_Strength):
    """The distance from grey times a factor.

    Args:
        value, order: as BrightnessTransform.
    """

    def image(self, x: np.ndarray, plan: float) -> np.ndarray:
        wide = _wide(x)
        return in_kind_of(x, wide * plan + _luma(wide) * (1 - plan))


class HueTransform(VisionTransform):
    """Colours turned around the grey axis of the HSV hexagon.

    Args:
        value: the turn is drawn from [-value, value), 1 being the whole circle; at most 0.5.
        order: see VisionTransform.
    """

    def __init__(self, value: float, *, order: Sequence[str] | None = None) -> None:
        super().__init__(order)
        if not 0 <= value <= 0.5:
            raise ArgumentError(f"HueTransform: value must be in [0, 0.5], got {value}.")
        self.value = value

    def plan(self, height: int, width: int, draws: Callable[[], Draws]) -> float:
        return float(draws().uniform(-self.value, self.value)) if self.value else 0.0

    def image(self, x: np.ndarray, plan: float) -> np.ndarray:
        if x.ndim == 2 or x.shape[-1] != 3 or plan == 0:
            return x
        return in_kind_of(x, turned(_wide(x), plan))


def turned(x: np.ndarray, turn: float) -> np.ndarray:
    """Colours with another hue, and the same largest and smallest channel."""
    r, g, b = np.moveaxis(x, -1, 0)
    high, low = x.max(-1), x.min(-1)
    spread = np.where(high > low, high - low, 1)
    hue = np.where(
        high == r,
        (g - b) / spread % 6,
        np.where(high == g, (b - r) / spread + 2, (r - g) / spread + 4),
    )
    hue = hue + 6 * turn

    def channel(offset: float) -> np.ndarray:
        k = (offset + hue) % 6
        return high - (high - low) * np.clip(np.minimum(k, 4 - k), 0, 1)

    return np.stack([channel(5), channel(3), channel(1)], axis=-1)


class ColorJitter(Transform):
    """Brightness, contrast, saturation and hue changed, in an order that is drawn too.

    Args:
        brightness, contrast, saturation: as value of their transforms.
        hue: as value of HueTransform.
        order: see VisionTransform.
    """

    def __init__(
        self,
        brightness: float = 0,
        contrast: float = 0,
        saturation: float = 0,
        hue: float = 0,
        *,
        order: Sequence[str] | None = None,
    ) -> None:
        checked_order("ColorJitter", order)
        self.transforms = [
            BrightnessTransform(brightness, order=order),
            ContrastTransform(contrast, order=order),
            SaturationTransform(saturation, order=order),
            HueTransform(hue, order=order),
        ]

    def apply(self, sample: Any, key: Any = None) -> Any:
        places = Draws(key, "ColorJitter").order(len(self.transforms))
        base = entropy_of(key)
        for place in places:
            sample = self.transforms[place].apply(sample, (*base, place))
        return sample


class Lighting(VisionTransform):
    """Noise along the directions in which the colours of natural images vary most.

    Args:
        scale: how strong.
        order: see VisionTransform.

    Source: A. Krizhevsky, I. Sutskever, G. Hinton, ImageNet classification with deep convolutional
    neural networks, NeurIPS 2012, section 4.1. The directions are those of the caller's data set.
    """

    def __init__(
        self,
        scale: float,
        values: Any = (1.0, 1.0, 1.0),
        vectors: Any = ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
        *,
        order: Sequence[str] | None = None,
    ) -> None:
        super().__init__(order)
        self.scale, self.values, self.vectors = scale, np.asarray(values), np.asarray(vectors)

    def plan(self, height: int, width: int, draws: Callable[[], Draws]) -> np.ndarray:
        return self.vectors @ (self.scale * draws().normal((3,)) * self.values)

    def image(self, x: np.ndarray, plan: np.ndarray) -> np.ndarray:
        return in_kind_of(x, _wide(x) + plan)
