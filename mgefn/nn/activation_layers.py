"""Activations as modules, for use in place of functions where a module is wanted."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from mgefn.nn import functions, linear_maps
from mgefn.nn.module import Module, Run

__all__ = ["GELU", "LeakyReLU", "Pad", "ReLU", "SiLU", "Sigmoid", "Softmax", "Tanh"]


@dataclasses.dataclass(frozen=True)
class ReLU(Module):
    """`nn.relu` as a module."""

    def forward(self, run: Run, x: Any) -> Any:
        """An array of the same shape."""
        return functions.relu(x)


@dataclasses.dataclass(frozen=True)
class GELU(Module):
    """`nn.gelu` as a module; approximate by default, as the function."""

    approximate: bool = True

    def forward(self, run: Run, x: Any) -> Any:
        """An array of the same shape."""
        return functions.gelu(x, self.approximate)


@dataclasses.dataclass(frozen=True)
class Sigmoid(Module):
    """`nn.sigmoid` as a module."""

    def forward(self, run: Run, x: Any) -> Any:
        """An array of the same shape."""
        return functions.sigmoid(x)


@dataclasses.dataclass(frozen=True)
class Tanh(Module):
    """`nn.tanh` as a module."""

    def forward(self, run: Run, x: Any) -> Any:
        """An array of the same shape."""
        return functions.tanh(x)


@dataclasses.dataclass(frozen=True)
class SiLU(Module):
    """`nn.silu` as a module."""

    def forward(self, run: Run, x: Any) -> Any:
        """An array of the same shape."""
        return functions.silu(x)


@dataclasses.dataclass(frozen=True)
class LeakyReLU(Module):
    """`nn.leaky_relu` as a module."""

    negative_slope: float = 0.01

    def forward(self, run: Run, x: Any) -> Any:
        """An array of the same shape."""
        return functions.leaky_relu(x, self.negative_slope)


@dataclasses.dataclass(frozen=True)
class Softmax(Module):
    """`nn.softmax` as a module."""

    axis: int = -1

    def forward(self, run: Run, x: Any) -> Any:
        """An array of the same shape."""
        return functions.softmax(x, self.axis)


@dataclasses.dataclass(frozen=True)
class Pad(Module):
    """`nn.pad` as a module."""

    pad_width: Sequence[tuple[int, int]]
    mode: str = "constant"
    constant_val: float = 0.0

    def forward(self, run: Run, x: Any) -> Any:
        """An array with more elements at the ends of its dimensions."""
        return linear_maps.pad(x, self.pad_width, self.mode, self.constant_val)
