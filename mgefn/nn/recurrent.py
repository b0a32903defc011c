"""Recurrent networks: cells, which make one step, and layers, which run them over time.

Weights are PyTorch's: weight_ih (gates * hidden, in), weight_hh (gates * hidden, hidden), bias_ih
and bias_hh (gates * hidden,), the gates in its order; they start uniform in +-1 / sqrt(hidden).
A layer multiplies all inputs by weight_ih at once; only what depends on the step before is in the
loop, one `lax.scan`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, ClassVar

from mgefn import numpy as mnp
from mgefn import random, tree
from mgefn.control.scan import scan
from mgefn.errors import ArgumentError, ShapeError
from mgefn.nn.basic_layers import Dropout, known
from mgefn.nn.linear_maps import linear
from mgefn.nn.module import Module, Run
from mgefn.ops.elementwise import logistic, maximum, promoted, tanh

__all__ = ["GRU", "LSTM", "RNN", "Bidirectional", "GRUCell", "LSTMCell", "RNNCell"]


def _uniform(hidden: int) -> Callable[..., Any]:
    bound = 1 / math.sqrt(max(hidden, 1))
    return lambda key, shape, dtype: random.uniform(key, shape, dtype, -bound, bound)


def _rnn(nonlinearity: str) -> Callable[..., Any]:
    if nonlinearity not in ("tanh", "relu"):
        raise ArgumentError(f"RNN: nonlinearity must be 'tanh' or 'relu', got {nonlinearity!r}.")

    def step(x: Any, h: Any, w: Any, b: Any) -> Any:
        z = x + linear(h, w, b)
        return tanh(z) if nonlinearity == "tanh" else maximum(z, 0)

    return step


def _gru(x: Any, h: Any, w: Any, b: Any) -> Any:
    xr, xz, xn = mnp.split(x, 3, -1)
    hr, hz, hn = mnp.split(linear(h, w, b), 3, -1)
    reset, keep = logistic(xr + hr), logistic(xz + hz)
    new = tanh(xn + reset * hn)
    return new + keep * (h - new)


def _lstm(x: Any, carry: Any, w: Any, b: Any) -> Any:
    h, c = carry
    i, f, g, o = mnp.split(x + linear(h, w, b), 4, -1)
    c = logistic(f) * c + logistic(i) * tanh(g)
    return logistic(o) * tanh(c), c


@dataclasses.dataclass(frozen=True)
class _Weights(Module):
    """The parameters of a cell, their names ending in a suffix."""

    gates: int
    hidden: int
    bias: bool
    suffix: str = ""

    def of(self, run: Run, n: int) -> tuple[Any, Any, Any, Any]:
        start, rows = _uniform(self.hidden), self.gates * self.hidden
        wi = run.param(f"weight_ih{self.suffix}", start, (rows, n))
        wh = run.param(f"weight_hh{self.suffix}", start, (rows, self.hidden))
        if not self.bias:
            return wi, wh, None, None
        bi = run.param(f"bias_ih{self.suffix}", start, (rows,))
        return wi, wh, bi, run.param(f"bias_hh{self.suffix}", start, (rows,))


@dataclasses.dataclass(frozen=True)
class _Cell(Module):
    input_size: int | None
    hidden_size: int
    bias: bool = True

    gates: ClassVar[int]
    pair: ClassVar[bool] = False

    def _step(self) -> Callable[..., Any]:
        raise ArgumentError(f"{type(self).__name__}: defines no step.")

    def forward(self, run: Run, x: Any, carry: Any = None) -> Any:
        """Input (..., in) and what the last step gave, or None for zeros, to the next such."""
        x = mnp.asarray(x)
        name = type(self).__name__
        n = known(run, name, "input_size", self.input_size, x, -1, ("weight_ih",), 1)
        wi, wh, bi, bh = _Weights(self.gates, self.hidden_size, self.bias).of(run, n)
        z = linear(x, wi, bi)
        if carry is None:
            zeros = mnp.zeros((*x.shape[:-1], self.hidden_size), z.dtype)
            carry = (zeros, zeros) if self.pair else zeros
        return self._step()(z, carry, wh, bh)


@dataclasses.dataclass(frozen=True)
class RNNCell(_Cell):
    """h' = tanh(W x + U h + b): (x, h) -> h'.

    Args:
        input_size: None: that of the input.
        hidden_size: of h.
        bias: whether there are biases.
        nonlinearity: "tanh" or "relu".
    """

    nonlinearity: str = "tanh"
    gates = 1

    def _step(self) -> Callable[..., Any]:
        return _rnn(self.nonlinearity)


class GRUCell(_Cell):
    """Gated recurrent unit: (x, h) -> h'. Arguments as for `RNNCell`.

    Source: Cho et al. (2014), arXiv:1406.1078.
    """

    gates = 3

    def _step(self) -> Callable[..., Any]:
        return _gru


class LSTMCell(_Cell):
    """Long short-term memory: (x, (h, c)) -> (h', c'). Arguments as for `RNNCell`.

    Source: Hochreiter, Schmidhuber (1997), Neural Computation 9(8), 1735-1780.
    """

    gates = 4
    pair = True

    def _step(self) -> Callable[..., Any]:
        return _lstm


@dataclasses.dataclass(frozen=True)
class _Layer(Module):
    input_size: int | None
    hidden_size: int
    num_layers: int = 1
    bias: bool = True
    batch_first: bool = False
    dropout: float = 0.0
    bidirectional: bool = False

    gates: ClassVar[int]
    pair: ClassVar[bool] = False

    def _step(self) -> Callable[..., Any]:
        raise ArgumentError(f"{type(self).__name__}: defines no step.")

    def forward(self, run: Run, x: Any, carry: Any = None) -> Any:
        """(T, batch, in) and a start, or None for zeros, to (outputs (T, batch, out), end).

        Without a batch (T, in) to (T, out). Starts and ends are (layers * directions, batch,
        hidden), in pairs (h, c) for LSTM; out is hidden * directions.
        """
        name = type(self).__name__
        x = mnp.asarray(x)
        if x.ndim not in (2, 3):
            raise ShapeError(f"{name}: needs (T, batch, in) or (T, in), got {x.aval}.")
        known(run, name, "input_size", self.input_size, x, -1, ("weight_ih_l0",), 1)
        swap = self.batch_first and x.ndim == 3
        x = mnp.swapaxes(x, 0, 1) if swap else x
        directions = ("", "_reverse") if self.bidirectional else ("",)
        ends: list[Any] = []
        for layer in range(self.num_layers):
            if layer:
                x = run(f"dropout{layer}", Dropout(self.dropout), x)
            outputs = []
            for d, ending in enumerate(directions):
                at = len(ends)
                start = None if carry is None else self._at(name, carry, at)
                y, end = self._over_time(run, x, start, f"_l{layer}{ending}", bool(d))
                outputs.append(y)
                ends.append(end)
            x = outputs[0] if len(outputs) == 1 else mnp.concatenate(outputs, -1)
        if self.pair:
            end = tuple(mnp.stack([e[i] for e in ends]) for i in range(2))
        else:
            end = mnp.stack(ends)
        return (mnp.swapaxes(x, 0, 1) if swap else x), end

    def _at(self, name: str, carry: Any, at: int) -> Any:
        parts = tuple(carry) if self.pair else (carry,)
        count = self.num_layers * (2 if self.bidirectional else 1)
        if len(parts) != 1 + self.pair or any(mnp.shape(p)[:1] != (count,) for p in parts):
            what = "a pair (h, c) of arrays" if self.pair else "an array"
            raise ShapeError(f"{name}: needs as start {what} ({count}, batch, hidden).")
        return tuple(p[at] for p in parts) if self.pair else carry[at]

    def _over_time(self, run: Run, x: Any, start: Any, suffix: str, reverse: bool) -> Any:
        weights = _Weights(self.gates, self.hidden_size, self.bias, suffix)
        wi, wh, bi, bh = weights.of(run, x.shape[-1])
        z = linear(x, wi, bi)
        if start is None:
            zeros = mnp.zeros((*x.shape[1:-1], self.hidden_size), z.dtype)
            start = (zeros, zeros) if self.pair else zeros
        # A wider start makes all wider, a narrower one is widened: the loop keeps one dtype.
        parts = promoted(type(self).__name__, (z, wh, *tree.leaves(start)))
        z, start = parts[0], tuple(parts[2:]) if self.pair else parts[2]
        step = self._step()

        def body(carry: Any, zt: Any) -> tuple[Any, Any]:
            carry = step(zt, carry, wh, bh)
            return carry, carry[0] if self.pair else carry

        end, ys = scan(body, start, z, reverse=reverse)
        return ys, end


@dataclasses.dataclass(frozen=True)
class RNN(_Layer):
    """Elman network: `RNNCell` over time.

    Args:
        input_size: None: that of the input.
        hidden_size: of h.
        num_layers: one on the outputs of the other.
        bias: whether there are biases.
        batch_first: inputs and outputs are (batch, T, ...).
        dropout: probability, between layers, when training.
        bidirectional: also from the end to the start.
        nonlinearity: "tanh" or "relu".

    Parameters: weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, and so on, with _reverse for the
        other direction.
    """

    nonlinearity: str = "tanh"
    gates = 1

    def _step(self) -> Callable[..., Any]:
        return _rnn(self.nonlinearity)


class GRU(_Layer):
    """`GRUCell` over time; arguments and parameters as for `RNN`."""

    gates = 3

    def _step(self) -> Callable[..., Any]:
        return _gru


class LSTM(_Layer):
    """`LSTMCell` over time; arguments and parameters as for `RNN`."""

    gates = 4
    pair = True

    def _step(self) -> Callable[..., Any]:
        return _lstm


@dataclasses.dataclass(frozen=True)
class Bidirectional(Module):
    """Two layers of a kind, one from each end of time, their outputs joined along the last axis.

    Args:
        forward_rnn, backward_rnn: `RNN`, `GRU` or `LSTM` of one direction.

    Parameters: forward, backward.
    """

    forward_rnn: Module
    backward_rnn: Module

    def forward(self, run: Run, x: Any) -> Any:
        """(T, batch, in) to (outputs, (end of the first, end of the second))."""
        axis = 1 if getattr(self.forward_rnn, "batch_first", False) and mnp.ndim(x) == 3 else 0
        first, end = run("forward", self.forward_rnn, x)
        second, start = run("backward", self.backward_rnn, mnp.flip(mnp.asarray(x), axis))
        return mnp.concatenate([first, mnp.flip(second, axis)], -1), (end, start)
