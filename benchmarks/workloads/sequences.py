"""Recurrent cells run along a sequence by `scan`, and the gradients of their weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .registry import Inputs, Size, normals, workload


def cell_inputs(gates: int) -> Inputs:
    """The weights of a cell with some gates, and a batch of sequences, time first."""

    def make(rng: np.random.Generator, size: Size) -> tuple[Any, ...]:
        m, n = size["inputs"], size["hidden"]
        weights = {
            "inputs": normals(rng, (m, gates * n), scale=m**-0.5),
            "hidden": normals(rng, (n, gates * n), scale=n**-0.5),
            "bias": np.zeros(gates * n, np.float32),
        }
        return weights, normals(rng, (size["steps"], size["batch"], m))

    return make


def _sigmoid(xp: Any, x: Any) -> Any:
    return 0.5 * (1 + xp.tanh(0.5 * x))


def rnn_states(lib: Any) -> Callable[..., Any]:
    xp = lib.numpy

    def fun(w: Any, x: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = xp.tanh(x @ w["inputs"] + h @ w["hidden"] + w["bias"])
            return h, h

        start = xp.zeros((x.shape[1], w["hidden"].shape[0]), "float32")
        return lib.lax.scan(step, start, x)[1]

    return fun


def lstm_states(lib: Any) -> Callable[..., Any]:
    xp = lib.numpy

    def fun(w: Any, x: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            h, c = state
            gates = x @ w["inputs"] + h @ w["hidden"] + w["bias"]
            i, f, g, o = xp.split(gates, 4, axis=-1)
            c = _sigmoid(xp, f + 1) * c + _sigmoid(xp, i) * xp.tanh(g)
            h = _sigmoid(xp, o) * xp.tanh(c)
            return (h, c), h

        start = xp.zeros((x.shape[1], w["hidden"].shape[0]), "float32")
        return lib.lax.scan(step, (start, start), x)[1]

    return fun


def gru_states(lib: Any) -> Callable[..., Any]:
    xp = lib.numpy

    def fun(w: Any, x: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            r, z, n = xp.split(x @ w["inputs"] + w["bias"], 3, axis=-1)
            hr, hz, hn = xp.split(h @ w["hidden"], 3, axis=-1)
            r, z = _sigmoid(xp, r + hr), _sigmoid(xp, z + hz)
            h = (1 - z) * xp.tanh(n + r * hn) + z * h
            return h, h

        start = xp.zeros((x.shape[1], w["hidden"].shape[0]), "float32")
        return lib.lax.scan(step, start, x)[1]

    return fun


def _weight_gradient(lib: Any, states: Callable[..., Any]) -> Callable[..., Any]:
    return lib.value_and_grad(lambda w, x: lib.numpy.mean(states(w, x) ** 2))


@workload("rnn", inputs=cell_inputs(1), vary="batch")
def rnn(lib: Any, size: Size) -> Callable[..., Any]:
    return rnn_states(lib)


@workload("rnn_grad", inputs=cell_inputs(1), vary="batch", memory=True)
def rnn_grad(lib: Any, size: Size) -> Callable[..., Any]:
    return _weight_gradient(lib, rnn_states(lib))


@workload("lstm", inputs=cell_inputs(4), vary="batch")
def lstm(lib: Any, size: Size) -> Callable[..., Any]:
    return lstm_states(lib)


@workload("lstm_grad", inputs=cell_inputs(4), vary="batch", memory=True)
def lstm_grad(lib: Any, size: Size) -> Callable[..., Any]:
    return _weight_gradient(lib, lstm_states(lib))


@workload("gru", inputs=cell_inputs(3), vary="batch")
def gru(lib: Any, size: Size) -> Callable[..., Any]:
    return gru_states(lib)


@workload("gru_grad", inputs=cell_inputs(3), vary="batch", memory=True)
def gru_grad(lib: Any, size: Size) -> Callable[..., Any]:
    return _weight_gradient(lib, gru_states(lib))
