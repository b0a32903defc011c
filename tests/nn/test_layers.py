"""Every layer: shapes, gradients, jit, ensembles by vmap, and state in training and evaluation."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import nn, random
from tests.nn.layer_cases import (
    LAYERS,
    TIME,
    close,
    floating,
    joined,
    shapes,
    started,
)


def test_every_layer_is_here() -> None:
    kinds = {
        name
        for name in nn.__all__
        if isinstance(getattr(nn, name), type) and issubclass(getattr(nn, name), nn.Module)
    }
    tested = {type(layer).__name__ for layer, _, _ in LAYERS.values()}
    assert kinds - tested == {"Module"}


@pytest.mark.parametrize("name", LAYERS)
def test_shapes_and_structures(name: str) -> None:
    layer, inputs, want = LAYERS[name]
    params, state = layer.init(random.key(0), *inputs)
    y, new = layer.apply(params, state, *inputs)
    assert shapes(y) == want
    close(new, state)
    _, trained = layer.apply(params, state, *inputs, key=random.key(1), train=True)
    assert shapes(trained) == shapes(state)
    # init needs shapes only, is the same under jit, and the parameters are in the default float.
    structs = mgefn.tree.map(lambda x: mgefn.ShapeDtypeStruct(x.shape, x.dtype), inputs)
    close(mgefn.jit(lambda key: layer.init(key, *structs))(random.key(0)), (params, state), 1e-6)
    assert all(p.dtype == np.float32 for p in mgefn.tree.leaves(params))
    assert layer == dataclasses.replace(layer) if not _own_init(layer) else hash(layer)


def _own_init(layer: nn.Module) -> bool:
    return "__init__" in vars(type(layer)) and not type(layer).__dataclass_params__.init


@pytest.mark.parametrize("train", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("name", LAYERS)
def test_jit_and_gradients(name: str, train: bool) -> None:
    layer, inputs, _ = LAYERS[name]
    params, state = started(layer, inputs)
    key = random.key(1)

    def run(params: Any, state: Any, *inputs: Any) -> Any:
        return layer.apply(params, state, *inputs, key=key, train=train)

    close(mgefn.jit(run)(params, state, *inputs), run(params, state, *inputs))
    if train and name == "SpectralNorm":
        # The vectors that a step improves count as constants, so differences see more than this.
        return

    def loss(params: Any, inputs: Any) -> Any:
        return joined(run(params, state, *inputs)[0])

    if floating(inputs):
        mgefn.test_util.check_grads(loss, (params, inputs), order=1, rtol=1e-5, atol=1e-5)
    else:
        mgefn.test_util.check_grads(lambda p: loss(p, inputs), (params,), order=1)


@pytest.mark.parametrize("name", LAYERS)
def test_ensembles(name: str) -> None:
    """vmap over keys, then over parameters and states, is one member after the other."""
    layer, inputs, _ = LAYERS[name]
    keys = random.split(random.key(3), 2)
    many = mgefn.vmap(lambda key: layer.init(key, *inputs))(keys)
    many = mgefn.tree.map(lambda x: mnp.asarray(x, "float64"), many)

    def member(p: Any, s: Any) -> Any:
        return layer.apply(p, s, *inputs, key=random.key(5), train=True)

    if not mgefn.tree.leaves(many):
        close(member(*many), member({}, {}))
        return
    got = mgefn.vmap(member)(*many)
    for i in range(2):
        p, s = mgefn.tree.map(lambda x, i=i: x[i], many)
        close(mgefn.tree.map(lambda x, i=i: x[i], got), member(p, s), 1e-8)
        own = layer.init(keys[i], *inputs)
        close(own, (p, s), 1e-6)


@pytest.mark.parametrize("name", LAYERS)
def test_empty_batches(name: str) -> None:
    layer, inputs, _ = LAYERS[name]
    axis = 1 if inputs[0] is TIME else 0
    empty = mgefn.tree.map(lambda x: np.take(x, [], axis=axis), inputs)
    params, state = layer.init(random.key(0), *inputs)
    for train in (False, True):
        y, _ = layer.apply(params, state, *empty, key=random.key(1), train=train)
        assert all(0 in x.shape for x in mgefn.tree.leaves(y))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", LAYERS)
def test_narrow_dtypes(name: str, dtype: str) -> None:
    """Parameters and inputs of 16 bits give 16 bits near the value in 64."""
    layer, inputs, _ = LAYERS[name]
    wide, state = started(layer, inputs)
    state = mgefn.tree.map(lambda s: s.astype("float32"), state)
    params = mgefn.tree.map(lambda p: p.astype(dtype), wide)
    narrow = mgefn.tree.map(lambda x: mnp.asarray(x, dtype) if floating(x) else x, inputs)
    y, _ = layer.apply(params, state, *narrow)
    want, _ = layer.apply(wide, state, *inputs)
    # 11 and 8 bits, through a few sums of up to 20 products of numbers below 10.
    tolerance = 0.05 if dtype == "float16" else 0.4
    for g, w in zip(mgefn.tree.leaves(y), mgefn.tree.leaves(want), strict=True):
        assert str(g.dtype) == dtype
        np.testing.assert_allclose(g.astype("float64"), w, rtol=tolerance, atol=tolerance)
    mixed, _ = layer.apply(wide, state, *narrow)
    assert all(str(m.dtype) in (dtype, "float64") for m in mgefn.tree.leaves(mixed))
