"""What a workload is, and the table of all of them.

A workload is written once: `build(lib, size)` returns a function of arrays, in names that mgefn and
JAX share, and `inputs(rng, size)` makes its arguments with NumPy. The group is the file's name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .sizes import SIZES, Size

Builder = Callable[[Any, Size], Callable[..., Any]]
Inputs = Callable[[np.random.Generator, Size], tuple[Any, ...]]

# The largest difference over the largest element, for results that are rounded in another order.
FLOAT32 = 1e-4
FLOAT64 = 1e-9


@dataclass(frozen=True)
class Workload:
    name: str
    group: str
    build: Builder
    inputs: Inputs
    tolerance: float = FLOAT32
    x64: bool = False  # run with 64-bit defaults
    vary: str | None = None  # the size that may change while the function stays the same
    memory: bool = False  # report the peak resident memory
    peers: dict[str, Builder] = field(default_factory=dict)  # besides mgefn and JAX

    @property
    def sizes(self) -> dict[str, Size]:
        return SIZES[self.name]

    def builder(self, library: str) -> Builder | None:
        """What makes this workload's function in a library; None where that is not natural."""
        return self.build if library in ("mgefn", "jax") else self.peers.get(library)

    def arguments(self, size: Size) -> tuple[Any, ...]:
        return self.inputs(np.random.default_rng(0), size)

    def longer(self, size: Size) -> Size | None:
        """The same size with one dimension a tenth longer; None where none may change."""
        if self.vary is None:
            return None
        return {**size, self.vary: size[self.vary] + max(1, size[self.vary] // 10)}


WORKLOADS: dict[str, Workload] = {}


def workload(
    name: str,
    *,
    inputs: Inputs,
    also: tuple[str, ...] = (),
    tolerance: float | None = None,
    x64: bool = False,
    vary: str | None = None,
    memory: bool = False,
) -> Callable[[Builder], Builder]:
    """Enter a builder into the table.

    Args:
        name: the workload's name, a key of `SIZES`.
        inputs: makes the arguments from a generator and a size.
        also: peers that run the same body: "numpy", "autograd".
        tolerance: the largest difference allowed, over the largest element of the result.
        x64: run with 64-bit defaults, as float64 workloads need in JAX.
        vary: a size that the builder does not read, for the call with a new shape.
        memory: report the peak resident memory.
    """

    def enter(build: Builder) -> Builder:
        if name in WORKLOADS:
            raise ValueError(f"there are two workloads named {name!r}")
        group = build.__module__.rpartition(".")[2]
        allowed = (FLOAT64 if x64 else FLOAT32) if tolerance is None else tolerance
        peers = dict.fromkeys(also, build)
        WORKLOADS[name] = Workload(name, group, build, inputs, allowed, x64, vary, memory, peers)
        return build

    return enter


def override(library: str, *names: str) -> Callable[[Builder], Builder]:
    """Enter a builder of one library for the workloads that are written differently there."""

    def enter(build: Builder) -> Builder:
        for name in names:
            WORKLOADS[name].peers[library] = build
        return build

    return enter


def normal(*shapes: str, dtype: str = "float32", scale: float = 1.0) -> Inputs:
    """Inputs of normal numbers, an array for each text of sizes such as "rows columns"."""

    def make(rng: np.random.Generator, size: Size) -> tuple[Any, ...]:
        dims = [tuple(size[name] for name in shape.split()) for shape in shapes]
        return tuple(normals(rng, dim, dtype, scale) for dim in dims)

    return make


def normals(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: str = "float32", scale: float = 1.0
) -> np.ndarray:
    made = rng.standard_normal(shape, dtype="float32" if dtype == "float32" else "float64")
    made *= scale
    return made
