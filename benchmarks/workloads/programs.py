"""Programs that are long, and programs that do next to nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .registry import Size, normal, normals, override, workload

LAYERS = 300


def deep_inputs(rng: np.random.Generator, size: Size) -> tuple[Any, ...]:
    """A batch, and a weight matrix for each of 300 layers, in one array."""
    width = size["width"]
    return (
        normals(rng, (size["batch"], width)),
        normals(rng, (LAYERS, width, width), scale=0.3 * width**-0.5),
    )


def residual_layers(lib: Any) -> Callable[..., Any]:
    def fun(x: Any, weights: Any) -> Any:
        for i in range(LAYERS):
            x = x + 0.3 * lib.numpy.tanh(x @ weights[i])
        return x

    return fun


@workload("layers_300", inputs=deep_inputs, also=("numpy",), vary="batch")
def layers_300(lib: Any, size: Size) -> Callable[..., Any]:
    return residual_layers(lib)


@workload("layers_300_grad", inputs=deep_inputs, vary="batch", memory=True)
def layers_300_grad(lib: Any, size: Size) -> Callable[..., Any]:
    fun = residual_layers(lib)
    return lib.grad(lambda x, weights: lib.numpy.mean(fun(x, weights) ** 2), argnums=1)


@workload("dispatch_4", inputs=normal("n"), also=("numpy", "torch"), vary="n")
def dispatch_4(lib: Any, size: Size) -> Callable[..., Any]:
    return lambda x: 2 * x + 1


@workload("dispatch_4_grad", inputs=normal("n"), also=("autograd",), vary="n")
def dispatch_4_grad(lib: Any, size: Size) -> Callable[..., Any]:
    return lib.grad(lambda x: lib.numpy.sum(lib.numpy.tanh(x) * x))


def twenty(rng: np.random.Generator, size: Size) -> tuple[Any, ...]:
    return ({f"k{i:02}": normals(rng, (size["n"],)) for i in range(20)},)


@workload("dispatch_20_leaves", inputs=twenty, vary="n")
def dispatch_20_leaves(lib: Any, size: Size) -> Callable[..., Any]:
    return lambda tree: lib.tree.map(lambda leaf: leaf + 1, tree)


@override("numpy", "dispatch_20_leaves")
@override("torch", "dispatch_20_leaves")
def dispatch_20_leaves_plain(lib: Any, size: Size) -> Callable[..., Any]:
    return lambda tree: {name: leaf + 1 for name, leaf in tree.items()}
