"""Modules around modules: weights brought to a norm, layers stacked into one loop."""

from __future__ import annotations

import dataclasses
from typing import Any

from mgefn import numpy as mnp
from mgefn import random, tree
from mgefn.api.batch import vmap
from mgefn.api.inspection import eval_shape
from mgefn.api.stages import ShapeDtypeStruct
from mgefn.control.checkpoint import checkpoint as remat
from mgefn.control.scan import scan
from mgefn.core.array import Array
from mgefn.errors import ArgumentError, ShapeError, api_boundary
from mgefn.nn.module import Module, Remat, Run
from mgefn.ops.elementwise import rsqrt, stop_gradient_leaf

__all__ = ["ScanLayers", "SpectralNorm", "WeightNorm", "remat_layer", "scan_layers"]


def _structs(inputs: Any) -> Any:
    return tree.map(lambda x: ShapeDtypeStruct(mnp.shape(x), mnp.asarray(x).dtype), inputs)


def _weight(name: str, params: Any, weight_name: str) -> Any:
    if weight_name not in params:
        raise ArgumentError(
            f"{name}: the layer has no parameter {weight_name!r}, got {sorted(params)}."
        )
    return params[weight_name]


def _inner(run: Run, layer: Module, params: Any, state: Any, inputs: Any, options: Any) -> Any:
    """Run a module with these parameters."""
    y, new = layer.apply(params, state, *inputs, key=run.key(), train=run.train, **options)
    if new:
        run.set_state("layer", new)
    return y


@dataclasses.dataclass(frozen=True)
class WeightNorm(Module):
    """A layer whose weight is learned as a direction and a length: weight = g * v / |v|.

    Args:
        layer: any with a parameter of that name.
        weight_name: which parameter.
        axis: the dimension along which lengths differ; None: one length for all.

    Parameters: layer: those of it, with {weight_name}_v and {weight_name}_g for its weight. At the
        start it computes what it would without this.

    Source: Salimans, Kingma (2016), arXiv:1602.07868.
    """

    layer: Module
    weight_name: str = "weight"
    axis: int | None = 0

    def forward(self, run: Run, *inputs: Any, **options: Any) -> Any:
        """The output of layer."""
        name, structs = self.weight_name, _structs(inputs)

        def start(key: Any) -> Any:
            params, state = self.layer.init(key, *structs, **options)
            v = _weight("WeightNorm", params, name)
            rest = {k: p for k, p in params.items() if k != name}
            return {**rest, f"{name}_v": v, f"{name}_g": mnp.sqrt(self._squares(v))}, state

        given, state = run.nested("layer", start)
        params = dict(given)
        v, g = params.pop(f"{name}_v"), params.pop(f"{name}_g")
        params[name] = v * (g * rsqrt(self._squares(v)))
        return _inner(run, self.layer, params, state, inputs, options)

    def _squares(self, v: Any) -> Any:
        kept = None if self.axis is None else self.axis % v.ndim
        axes = tuple(d for d in range(v.ndim) if d != kept)
        return mnp.sum(v * v, axes, keepdims=True)


@dataclasses.dataclass(frozen=True)
class SpectralNorm(Module):
    """A layer whose weight is divided by its largest singular value.

    The weight counts as a matrix (out, the rest). The singular vectors are state; each step of
    training improves them by power iterations, and they count as constants in derivatives.

    Args:
        layer: any with a parameter of that name.
        weight_name: which parameter.
        num_power_iterations: at each step of training.
        eps: the least divisor.

    Parameters: layer; state: u, v.

    Source: Miyato et al. (2018), arXiv:1802.05957.
    """

    layer: Module
    weight_name: str = "weight"
    num_power_iterations: int = 1
    eps: float = 1e-12

    def forward(self, run: Run, *inputs: Any, **options: Any) -> Any:
        """The output of layer."""
        name, structs = self.weight_name, _structs(inputs)

        def start(key: Any) -> Any:
            return self.layer.init(key, *structs, **options)

        given, state = run.nested("layer", start)
        params = dict(given)
        w = _weight("SpectralNorm", params, name)
        if w.ndim < 2:
            raise ShapeError(f"SpectralNorm: {name} must be a matrix or more, got {w.aval}.")
        matrix = w.reshape((w.shape[0], -1))
        fixed = stop_gradient_leaf(matrix)
        u = run.state("u", _unit, (matrix.shape[0],))
        v = run.state("v", _unit, (matrix.shape[1],))
        if run.train:
            for _ in range(self.num_power_iterations):
                v = self._scaled(fixed.T @ u)
                u = self._scaled(fixed @ v)
            run.set_state("u", u)
            run.set_state("v", v)
        sigma = mnp.dot(u, matrix @ v)
        size = mnp.maximum(mnp.abs(sigma), self.eps)
        # A state kept in float32 leaves narrower weights as they are.
        params[name] = (w / size).astype(w.dtype)
        return _inner(run, self.layer, params, state, inputs, options)

    def _scaled(self, x: Any) -> Any:
        return x / mnp.maximum(mnp.sqrt(mnp.sum(x * x)), self.eps)


def _unit(key: Any, shape: Any, dtype: Any) -> Any:
    x = random.normal(key, shape, dtype)
    return x / mnp.sqrt(mnp.sum(x * x))


@dataclasses.dataclass(frozen=True)
class ScanLayers(Module):
    """Equal layers one after the other, as one loop with one traced body.

    Args:
        layer: a module whose output has the shape of its input.
        num_layers: how many.
        checkpoint: compute each again in the backward pass instead of keeping its values.

    Parameters: layer, each array with one more dimension in front, of size num_layers.
    """

    layer: Module
    num_layers: int
    checkpoint: bool = False

    def forward(self, run: Run, x: Any, *inputs: Any, **options: Any) -> Any:
        """An array of the shape of x; the other inputs go to every layer."""
        structs = _structs((x, *inputs))

        def start(key: Any) -> Any:
            keys = random.split(key, self.num_layers)
            return vmap(lambda k: self.layer.init(k, *structs, **options))(keys)

        params, state = run.nested("layer", start)
        key = run.key()
        keys: Array | None = None if key is None else random.split(key, self.num_layers)

        def body(y: Any, one: Any) -> Any:
            p, s, k = one
            return self.layer.apply(p, s, y, *inputs, key=k, train=run.train, **options)

        # What is carried has the dtype that the input takes on among the parameters.
        x = mnp.asarray(x)
        first = tree.map(lambda a: a[0], (params, state, keys))
        x = x.astype(eval_shape(body, x, first)[0].dtype)
        body = remat(body) if self.checkpoint else body
        y, new = scan(body, x, (params, state, keys), length=self.num_layers)
        if new:
            run.set_state("layer", new)
        return y


@api_boundary
def scan_layers(layer: Module, num_layers: int, checkpoint: bool = False) -> ScanLayers:
    """`ScanLayers`, as a function: equal layers as one loop.

    Example:
        >>> deep = mgefn.nn.scan_layers(mgefn.nn.Linear(None, 3), 12)
        >>> params, state = deep.init(mgefn.random.key(0), mnp.ones((2, 3)))
        >>> params["layer"]["weight"].shape
        (12, 3, 3)
    """
    if not isinstance(layer, Module):
        raise ArgumentError(f"scan_layers: needs a module, got {layer!r}.")
    return ScanLayers(layer, num_layers, checkpoint)


@api_boundary
def remat_layer(layer: Module) -> Module:
    """The same module, computed again in the backward pass instead of keeping its values.

    Its parameters have the same names, so that it can be put in and taken out.
    """
    if not isinstance(layer, Module):
        raise ArgumentError(f"remat_layer: needs a module, got {layer!r}.")
    return Remat(layer)
