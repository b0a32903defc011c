"""Normalisation as modules. Running moments are state: apply returns the new ones."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence
from typing import Any, ClassVar

from mgefn import numpy as mnp
from mgefn.errors import ShapeError
from mgefn.nn import initializers, norms
from mgefn.nn.basic_layers import known
from mgefn.nn.module import Module, Run

__all__ = [
    "BatchNorm",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "GroupNorm",
    "InstanceNorm",
    "LayerNorm",
    "LocalResponseNorm",
    "RMSNorm",
    "SyncBatchNorm",
]

_ones, _zeros = initializers.ones, initializers.zeros


def _affine(run: Run, shape: tuple[int, ...]) -> tuple[Any, Any]:
    return run.param("weight", _ones, shape), run.param("bias", _zeros, shape)


def _channels(
    run: Run,
    name: str,
    what: str,
    given: int | None,
    x: Any,
    held: str = "weight",
    ranks: tuple[int, ...] = (),
) -> int:
    if x.ndim < 2 or (ranks and x.ndim not in ranks):
        wanted = " or ".join(map(str, ranks)) or "2 or more"
        raise ShapeError(
            f"{run.label(name)}: needs (batch, channels, ...) of rank {wanted}, got {x.aval}. "
            "Reshape it."
        )
    return known(run, name, what, given, x, 1, (held,))


@dataclasses.dataclass(frozen=True)
class BatchNorm(Module):
    """Whiten each channel: by the moments of the batch when training, else by the running ones.

    Args:
        num_features: channels; None: those of the input.
        eps: keeps the quotient finite where the variance is 0.
        momentum: what is kept of the running moments at a step, as in MegEngine. (PyTorch calls
            1 - momentum by this name.)
        affine: whether there are a weight and a bias.
        axis_name: of a surrounding vmap or shard_map over which moments are joined.

    Parameters: weight, bias; state: running_mean, running_var; each (channels,).
    """

    num_features: int | None = None
    eps: float = 1e-5
    momentum: float = 0.9
    affine: bool = True
    _: dataclasses.KW_ONLY
    axis_name: Any = None

    ranks: ClassVar[tuple[int, ...]] = ()

    def forward(self, run: Run, x: Any) -> Any:
        """An array (batch, channels, *spatial) of the same shape."""
        x = mnp.asarray(x)
        name = type(self).__name__
        c = _channels(run, name, "num_features", self.num_features, x, "running_mean", self.ranks)
        weight, bias = _affine(run, (c,)) if self.affine else (None, None)
        y, mean, var = norms.sync_batch_norm(
            x,
            run.state("running_mean", _zeros, (c,)),
            run.state("running_var", _ones, (c,)),
            weight,
            bias,
            run.train,
            self.momentum,
            self.eps,
            axis_name=self.axis_name,
        )
        if run.train:
            run.set_state("running_mean", mean)
            run.set_state("running_var", var)
        return y


class BatchNorm1d(BatchNorm):
    """`BatchNorm` of (batch, channels) or (batch, channels, length)."""

    ranks = (2, 3)


class BatchNorm2d(BatchNorm):
    """`BatchNorm` of (batch, channels, height, width)."""

    ranks = (4,)


class BatchNorm3d(BatchNorm):
    """`BatchNorm` of (batch, channels, depth, height, width)."""

    ranks = (5,)


class SyncBatchNorm(BatchNorm):
    """`BatchNorm`, by the name under which others join the moments of devices; give axis_name."""


@dataclasses.dataclass(frozen=True)
class LayerNorm(Module):
    """`nn.layer_norm` as a module.

    Args:
        normalized_shape: sizes of the last dimensions; None: the last one of the input.
        eps: keeps the quotient finite where the variance is 0.
        affine: whether there are a weight and a bias.

    Parameters: weight, bias of normalized_shape.
    """

    normalized_shape: int | tuple[int, ...] | None = None
    eps: float = 1e-5
    affine: bool = True

    def forward(self, run: Run, x: Any) -> Any:
        """An array of the same shape."""
        shape = _trailing(run, "LayerNorm", "normalized_shape", self.normalized_shape, x)
        weight, bias = _affine(run, shape) if self.affine else (None, None)
        return norms.layer_norm(x, shape, self.affine, weight, bias, self.eps)


def _trailing(
    run: Run, name: str, what: str, shape: int | Sequence[int] | None, x: Any
) -> tuple[int, ...]:
    """The sizes of the last dimensions: those given, or the last one of the input."""
    if shape is None:
        return (known(run, name, what, None, x, -1, ("weight",)),)
    wanted = (shape,) if isinstance(shape, int) else tuple(operator.index(n) for n in shape)
    for axis, size in zip(range(-len(wanted), 0), wanted, strict=True):
        known(run, name, what if len(wanted) == 1 else f"{what}[{axis}]", size, x, axis)
    return wanted


@dataclasses.dataclass(frozen=True)
class RMSNorm(Module):
    """`nn.rms_norm` as a module.

    Args:
        shape: the size of the last dimension; None: that of the input.
        eps: keeps the quotient finite where all elements are 0.

    Parameters: weight of shape.
    """

    shape: int | tuple[int] | None = None
    eps: float = 1e-5

    def forward(self, run: Run, x: Any) -> Any:
        """An array of the same shape."""
        shape = _trailing(run, "RMSNorm", "shape", self.shape, x)
        return norms.rms_norm(x, run.param("weight", _ones, shape), self.eps)


@dataclasses.dataclass(frozen=True)
class GroupNorm(Module):
    """`nn.group_norm` as a module.

    Args:
        num_groups: a divisor of the channels.
        num_channels: None: those of the input.
        eps: keeps the quotient finite where the variance is 0.
        affine: whether there are a weight and a bias.

    Parameters: weight, bias (channels,).
    """

    num_groups: int
    num_channels: int | None = None
    eps: float = 1e-5
    affine: bool = True

    def forward(self, run: Run, x: Any) -> Any:
        """An array (batch, channels, *spatial) of the same shape."""
        x = mnp.asarray(x)
        c = _channels(run, "GroupNorm", "num_channels", self.num_channels, x)
        weight, bias = _affine(run, (c,)) if self.affine else (None, None)
        return norms.group_norm(x, self.num_groups, self.affine, weight, bias, self.eps)


@dataclasses.dataclass(frozen=True)
class InstanceNorm(Module):
    """`nn.instance_norm` as a module; arguments and parameters as for `GroupNorm`."""

    num_channels: int | None = None
    eps: float = 1e-5
    affine: bool = True

    def forward(self, run: Run, x: Any) -> Any:
        """An array (batch, channels, *spatial) of the same shape."""
        x = mnp.asarray(x)
        c = _channels(run, "InstanceNorm", "num_channels", self.num_channels, x)
        weight, bias = _affine(run, (c,)) if self.affine else (None, None)
        return norms.instance_norm(x, self.affine, weight, bias, self.eps)


@dataclasses.dataclass(frozen=True)
class LocalResponseNorm(Module):
    """`nn.local_response_norm` as a module."""

    kernel_size: int = 5
    k: float = 1.0
    alpha: float = 1e-4
    beta: float = 0.75

    def forward(self, run: Run, x: Any) -> Any:
        """An array (batch, channels, *spatial) of the same shape."""
        return norms.local_response_norm(x, self.kernel_size, self.k, self.alpha, self.beta)
