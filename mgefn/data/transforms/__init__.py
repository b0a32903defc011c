"""Transforms of samples on the host, driven by keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mgefn.data.transforms.base import (
    Compose,
    Draws,
    PseudoTransform,
    Transform,
    VisionTransform,
)
from mgefn.data.transforms.colour import (
    BrightnessTransform,
    ColorJitter,
    ContrastTransform,
    GaussianNoise,
    HueTransform,
    Lighting,
    Normalize,
    SaturationTransform,
    ToMode,
    to_bgr,
    to_gray,
)
from mgefn.data.transforms.geometry import (
    CenterCrop,
    Pad,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomVerticalFlip,
)
from mgefn.data.transforms.resizing import RandomResize, Resize, ShortestEdgeResize
from mgefn.errors import MissingNameError, explain_constructors

__all__ = [
    "BrightnessTransform",
    "CenterCrop",
    "ColorJitter",
    "Compose",
    "ContrastTransform",
    "Draws",
    "GaussianNoise",
    "HueTransform",
    "Lighting",
    "Normalize",
    "Pad",
    "PseudoTransform",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomResize",
    "RandomResizedCrop",
    "RandomVerticalFlip",
    "Resize",
    "SaturationTransform",
    "ShortestEdgeResize",
    "ToMode",
    "Transform",
    "VisionTransform",
    "to_bgr",
    "to_gray",
]

explain_constructors(globals(), __all__)


if not TYPE_CHECKING:  # type checkers take a module with __getattr__ to have every name

    def __getattr__(name: str) -> Any:
        raise MissingNameError(__name__, name, __all__)
