"""Convolutions and pooling as modules: (batch, channels, *spatial), or without a batch."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from mgefn import image
from mgefn import numpy as mnp
from mgefn.errors import ArgumentError, ShapeError
from mgefn.nn import initializers, linear_maps, spatial_pooling
from mgefn.nn.basic_layers import OUT_IN, known
from mgefn.nn.linear_maps import Sizes, paddings, sizes
from mgefn.nn.module import Module, Run

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "PixelShuffle",
    "Upsample",
]

Padding = int | str | Sequence[int] | Sequence[tuple[int, int]]
IN_OUT = initializers.lecun_normal(in_axis=0, out_axis=1)
_PADDING_MODES = {
    "zeros": "constant",
    "reflect": "reflect",
    "replicate": "edge",
    "circular": "wrap",
}


def _channels(
    run: Run, name: str, n: int, x: Any, given: int | None, held_axis: int, groups: int
) -> int:
    if x.ndim not in (n + 1, n + 2):
        raise ShapeError(
            f"{run.label(name)}: needs (batch, channels, *spatial) of rank {n + 2}, or {n + 1} "
            f"without a batch, got {x.aval}. Reshape it."
        )
    return known(run, name, "in_channels", given, x, -n - 1, ("weight",), held_axis, groups)


@dataclasses.dataclass(frozen=True)
class _Conv(Module):
    in_channels: int | None
    out_channels: int
    kernel_size: Sizes
    stride: Sizes = 1
    padding: Padding = 0
    dilation: Sizes = 1
    groups: int = 1
    bias: bool = True
    padding_mode: str = "zeros"
    _: dataclasses.KW_ONLY
    weight_init: Callable[..., Any] = OUT_IN
    bias_init: Callable[..., Any] = initializers.zeros

    n: ClassVar[int]
    fun: ClassVar[Callable[..., Any]]

    def forward(self, run: Run, x: Any) -> Any:
        """(batch, in, *spatial) to (batch, out, *spatial)."""
        name, n = type(self).__name__, self.n
        x = mnp.asarray(x)
        channels = _channels(run, name, n, x, self.in_channels, 1, self.groups)
        if channels % self.groups or self.out_channels % self.groups:
            raise ShapeError(
                f"{name}: groups must divide the channels, got {self.groups} for {channels} and "
                f"{self.out_channels}."
            )
        kernel = sizes(name, "kernel_size", self.kernel_size, n)
        shape = (self.out_channels, channels // self.groups, *kernel)
        w = run.param("weight", self.weight_init, shape)
        b = run.param("bias", self.bias_init, (self.out_channels,)) if self.bias else None
        padding: Any = self.padding
        if self.padding_mode not in _PADDING_MODES:
            raise ArgumentError(
                f"{name}: padding_mode must be one of {', '.join(_PADDING_MODES)}, got "
                f"{self.padding_mode!r}."
            )
        if self.padding_mode != "zeros":
            pads = paddings(name, padding, n)
            if isinstance(pads, str):
                raise ArgumentError(f"{name}: padding must be numbers, got {padding!r}.")
            none = [(0, 0)] * (x.ndim - n)
            x = mnp.pad(x, [*none, *pads], mode=_PADDING_MODES[self.padding_mode])
            padding = 0
        fun = type(self).fun
        return fun(x, w, b, self.stride, padding, self.dilation, self.groups)


class Conv1d(_Conv):
    """Convolution of sequences; see `Conv2d`."""

    n = 1
    fun = staticmethod(linear_maps.conv1d)


class Conv2d(_Conv):
    """Convolution of images.

    Args:
        in_channels: None: those of the input.
        out_channels: of the output.
        kernel_size: one number, or one for each dimension.
        stride, padding, dilation, groups: as for `nn.conv2d`.
        bias: whether there is one.
        padding_mode: "zeros", "reflect", "replicate" or "circular".
        weight_init, bias_init: initializers.

    Parameters: weight (out, in / groups, *kernel), bias (out,).
    """

    n = 2
    fun = staticmethod(linear_maps.conv2d)


class Conv3d(_Conv):
    """Convolution of volumes; see `Conv2d`."""

    n = 3
    fun = staticmethod(linear_maps.conv3d)


@dataclasses.dataclass(frozen=True)
class _ConvTranspose(Module):
    in_channels: int | None
    out_channels: int
    kernel_size: Sizes
    stride: Sizes = 1
    padding: Sizes = 0
    output_padding: Sizes = 0
    dilation: Sizes = 1
    groups: int = 1
    bias: bool = True
    _: dataclasses.KW_ONLY
    weight_init: Callable[..., Any] = IN_OUT
    bias_init: Callable[..., Any] = initializers.zeros

    n: ClassVar[int]
    fun: ClassVar[Callable[..., Any]]

    def forward(self, run: Run, x: Any) -> Any:
        """(batch, in, *spatial) to (batch, out, *spatial)."""
        name, n = type(self).__name__, self.n
        x = mnp.asarray(x)
        channels = _channels(run, name, n, x, self.in_channels, 0, 1)
        if channels % self.groups or self.out_channels % self.groups:
            raise ShapeError(
                f"{name}: groups must divide the channels, got {self.groups} for {channels} and "
                f"{self.out_channels}."
            )
        kernel = sizes(name, "kernel_size", self.kernel_size, n)
        shape = (channels, self.out_channels // self.groups, *kernel)
        w = run.param("weight", self.weight_init, shape)
        b = run.param("bias", self.bias_init, (self.out_channels,)) if self.bias else None
        return type(self).fun(x, w, b, stride=self.stride, padding=self.padding,
                              output_padding=self.output_padding, groups=self.groups,
                              dilation=self.dilation)  # fmt: skip


class ConvTranspose1d(_ConvTranspose):
    """Transposed convolution of sequences; see `ConvTranspose2d`."""

    n = 1
    fun = staticmethod(linear_maps.conv_transpose1d)


class ConvTranspose2d(_ConvTranspose):
    """Transposed convolution of images.

    Args:
        in_channels: None: those of the input.
        out_channels, kernel_size, stride, padding, output_padding, dilation, groups: as for
            `nn.conv_transpose2d`.
        bias: whether there is one.
        weight_init, bias_init: initializers.

    Parameters: weight (in, out / groups, *kernel), bias (out,).
    """

    n = 2
    fun = staticmethod(linear_maps.conv_transpose2d)


class ConvTranspose3d(_ConvTranspose):
    """Transposed convolution of volumes; see `ConvTranspose2d`."""

    n = 3
    fun = staticmethod(linear_maps.conv_transpose3d)


# -- pooling --------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _AvgPool(Module):
    kernel_size: Sizes
    stride: Sizes | None = None
    padding: Any = 0
    mode: str = "average_count_exclude_padding"

    fun: ClassVar[Callable[..., Any]]

    def forward(self, run: Run, x: Any) -> Any:
        """(..., *spatial), fewer elements."""
        return type(self).fun(x, self.kernel_size, self.stride, self.padding, self.mode)


class AvgPool1d(_AvgPool):
    """`nn.avg_pool1d` as a module."""

    fun = staticmethod(spatial_pooling.avg_pool1d)


class AvgPool2d(_AvgPool):
    """`nn.avg_pool2d` as a module."""

    fun = staticmethod(spatial_pooling.avg_pool2d)


class AvgPool3d(_AvgPool):
    """`nn.avg_pool3d` as a module."""

    fun = staticmethod(spatial_pooling.avg_pool3d)


@dataclasses.dataclass(frozen=True)
class _MaxPool(Module):
    kernel_size: Sizes
    stride: Sizes | None = None
    padding: Any = 0
    dilation: Sizes = 1

    fun: ClassVar[Callable[..., Any]]

    def forward(self, run: Run, x: Any) -> Any:
        """(..., *spatial), fewer elements."""
        return type(self).fun(x, self.kernel_size, self.stride, self.padding, self.dilation)


class MaxPool1d(_MaxPool):
    """`nn.max_pool1d` as a module."""

    fun = staticmethod(spatial_pooling.max_pool1d)


class MaxPool2d(_MaxPool):
    """`nn.max_pool2d` as a module."""

    fun = staticmethod(spatial_pooling.max_pool2d)


class MaxPool3d(_MaxPool):
    """`nn.max_pool3d` as a module."""

    fun = staticmethod(spatial_pooling.max_pool3d)


@dataclasses.dataclass(frozen=True)
class _Adaptive(Module):
    target_shape: Sizes

    fun: ClassVar[Callable[..., Any]]

    def forward(self, run: Run, x: Any) -> Any:
        """(..., *spatial) to (..., *target_shape)."""
        return type(self).fun(x, self.target_shape)


class AdaptiveAvgPool1d(_Adaptive):
    """`nn.adaptive_avg_pool1d` as a module."""

    fun = staticmethod(spatial_pooling.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_Adaptive):
    """`nn.adaptive_avg_pool2d` as a module."""

    fun = staticmethod(spatial_pooling.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_Adaptive):
    """`nn.adaptive_avg_pool3d` as a module."""

    fun = staticmethod(spatial_pooling.adaptive_avg_pool3d)


class AdaptiveMaxPool1d(_Adaptive):
    """`nn.adaptive_max_pool1d` as a module."""

    fun = staticmethod(spatial_pooling.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_Adaptive):
    """`nn.adaptive_max_pool2d` as a module."""

    fun = staticmethod(spatial_pooling.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_Adaptive):
    """`nn.adaptive_max_pool3d` as a module."""

    fun = staticmethod(spatial_pooling.adaptive_max_pool3d)


@dataclasses.dataclass(frozen=True)
class PixelShuffle(Module):
    """`nn.pixel_shuffle` as a module."""

    upscale_factor: int

    def forward(self, run: Run, x: Any) -> Any:
        """(..., c * r * r, h, w) to (..., c, h * r, w * r)."""
        return linear_maps.pixel_shuffle(x, self.upscale_factor)


@dataclasses.dataclass(frozen=True)
class Upsample(Module):
    """Images of another size: (..., height, width) times scale_factor, or to size.

    Args:
        size: (height, width) of the output.
        scale_factor: instead of size: one number, or one for each.
        mode: a method of `image.resize`; nothing is smoothed when images shrink.
    """

    size: Sizes | None = None
    scale_factor: float | tuple[float, float] | None = None
    mode: str = "nearest"

    def forward(self, run: Run, x: Any) -> Any:
        """(..., height, width) to (..., *size)."""
        x = mnp.asarray(x)
        if x.ndim < 2:
            raise ShapeError(f"Upsample: needs (..., height, width), got {x.aval}.")
        if (self.size is None) == (self.scale_factor is None):
            raise ArgumentError("Upsample: needs size or scale_factor, and not both.")
        if self.size is not None:
            target = sizes("Upsample", "size", self.size, 2)
        else:
            f: Any = self.scale_factor
            both = f if isinstance(f, tuple) else (f, f)
            target = tuple(math.floor(n * s) for n, s in zip(x.shape[-2:], both, strict=True))
        return image.resize(x, (*x.shape[:-2], *target), self.mode, antialias=False)
