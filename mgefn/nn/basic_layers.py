"""Linear maps, tables, dropout, and modules made of modules."""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from mgefn import numpy as mnp
from mgefn.errors import ArgumentError, ShapeError
from mgefn.nn import functions, initializers
from mgefn.nn.linear_maps import dropout, embedding, linear
from mgefn.nn.module import Module, Run
from mgefn.ops.shaping import normalize_axes, normalize_axis

__all__ = [
    "MLP",
    "Bilinear",
    "DenseGeneral",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "Embedding",
    "Flatten",
    "Identity",
    "Lambda",
    "Linear",
    "LoRALinear",
    "PReLU",
    "Parallel",
    "Residual",
    "Sequential",
    "Unflatten",
]

# Weights are (out, in, ...).
OUT_IN = initializers.lecun_normal(in_axis=1, out_axis=0)
EMBED = initializers.variance_scaling(1.0, "fan_in", "normal", out_axis=0)


def known(
    run: Run,
    name: str,
    what: str,
    given: int | None,
    x: Any,
    axis: int = -1,
    held: tuple[str, ...] = (),
    held_axis: int = 0,
    times: int = 1,
) -> int:
    """The size of an input, which must be the one that is given, or that parameters were made for.

    Args:
        run: of the layer.
        name: its class.
        what: the field that says the size.
        given: its value.
        x: the input.
        axis: the dimension of the input.
        held, held_axis: where to find the size without given: the path to a parameter or a piece
            of state, and its dimension.
        times: the size is that many times the parameter's.
    """
    shape = mnp.shape(x)
    if not -len(shape) <= axis < len(shape):
        raise ShapeError(
            f"{run.label(name)}: needs an input with a dimension {axis} for {what}, got "
            f"{mnp.asarray(x).aval}. Add dimensions."
        )
    found, want, repair = shape[axis], None, ""
    if given is not None:
        want, repair = operator.index(given), f"make the layer with {what}={found}"
    elif held and (size := run.held_size(*held, axis=held_axis)) is not None:
        want, repair = size * times, "call init with an input like this one"
    if want is not None and want != found:
        by = "" if given is not None else " in the parameters"
        raise ShapeError(
            f"{run.label(name)}: {what} is {want}{by}, got an input {mnp.asarray(x).aval} with "
            f"{found} in dimension {axis}. Pass inputs with {want} there, or {repair}."
        )
    return found


@dataclasses.dataclass(frozen=True)
class Linear(Module):
    """x @ weight.T + bias, over the last dimension.

    Args:
        in_features: None: that of the input.
        out_features: of the output.
        bias: whether there is one.
        weight_init, bias_init: initializers.

    Parameters: weight (out, in), bias (out,).
    """

    in_features: int | None
    out_features: int
    bias: bool = True
    _: dataclasses.KW_ONLY
    weight_init: Callable[..., Any] = OUT_IN
    bias_init: Callable[..., Any] = initializers.zeros

    def forward(self, run: Run, x: Any) -> Any:
        """(..., in) to (..., out)."""
        n = known(run, "Linear", "in_features", self.in_features, x, -1, ("weight",), 1)
        w = run.param("weight", self.weight_init, (self.out_features, n))
        b = run.param("bias", self.bias_init, (self.out_features,)) if self.bias else None
        return linear(x, w, b)


@dataclasses.dataclass(frozen=True)
class DenseGeneral(Module):
    """A linear map of some dimensions of the input to others, which become the last ones.

    Args:
        features: sizes of the new dimensions.
        axis: which dimensions go.
        bias: whether there is one.

    Parameters: weight (*sizes of axis, *features), bias features.
    """

    features: int | tuple[int, ...]
    axis: int | tuple[int, ...] = -1
    bias: bool = True

    def forward(self, run: Run, x: Any) -> Any:
        """(..., *sizes of axis) to (..., *features)."""
        x = mnp.asarray(x)
        new = (self.features,) if isinstance(self.features, int) else tuple(self.features)
        axes = normalize_axes("DenseGeneral", self.axis, x.ndim)
        old = tuple(x.shape[a] for a in axes)
        flat = (math.prod(old), math.prod(new))

        def start(key: Any, shape: Any, dtype: Any) -> Any:
            return initializers.lecun_normal()(key, flat, dtype).reshape(shape)

        w = run.param("weight", start, (*old, *new))
        y = mnp.tensordot(x, w, (axes, tuple(range(len(axes)))))
        return y + run.param("bias", initializers.zeros, new) if self.bias else y


@dataclasses.dataclass(frozen=True)
class LoRALinear(Module):
    """`Linear` whose weight is a matrix to be kept plus a product of two thin ones to be learned.

    Args:
        in_features, out_features, bias: as for `Linear`.
        rank: of the product, which starts as 0.
        alpha: the product is scaled by alpha / rank.

    Parameters: weight, bias, and lora: {a (rank, in), b (out, rank)}.

    Source: Hu et al. (2021), arXiv:2106.09685.
    """

    in_features: int | None
    out_features: int
    bias: bool = True
    rank: int = 8
    alpha: float = 8.0

    def forward(self, run: Run, x: Any) -> Any:
        """(..., in) to (..., out)."""
        n = known(run, "LoRALinear", "in_features", self.in_features, x, -1, ("weight",), 1)
        y = Linear(n, self.out_features, self.bias).forward(run, x)
        low = run("lora", _Product(self.out_features, self.rank), x)
        return y + (self.alpha / self.rank) * low


@dataclasses.dataclass(frozen=True)
class _Product(Module):
    out_features: int
    rank: int

    def forward(self, run: Run, x: Any) -> Any:
        a = run.param("a", OUT_IN, (self.rank, mnp.shape(x)[-1]))
        b = run.param("b", initializers.zeros, (self.out_features, self.rank))
        return linear(linear(x, a), b)


@dataclasses.dataclass(frozen=True)
class Bilinear(Module):
    """x weight y for pairs of inputs, plus bias.

    Parameters: weight (out, in1, in2), bias (out,).
    """

    in1_features: int | None
    in2_features: int | None
    out_features: int
    bias: bool = True

    def forward(self, run: Run, x: Any, y: Any) -> Any:
        """(..., in1) and (..., in2) to (..., out)."""
        n = known(run, "Bilinear", "in1_features", self.in1_features, x, -1, ("weight",), 1)
        m = known(run, "Bilinear", "in2_features", self.in2_features, y, -1, ("weight",), 2)
        w = run.param("weight", OUT_IN, (self.out_features, n, m))
        z = mnp.einsum("...i,oij,...j->...o", x, w, y)
        return z + run.param("bias", initializers.zeros, (self.out_features,)) if self.bias else z


@dataclasses.dataclass(frozen=True)
class Embedding(Module):
    """Rows of a table that integers number.

    Args:
        num_embeddings: rows.
        embedding_dim: their size.
        padding_idx: a row that starts as 0 and gets no gradient.
        weight_init: initializer.

    Parameters: weight (rows, features).
    """

    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None = None
    _: dataclasses.KW_ONLY
    weight_init: Callable[..., Any] = EMBED

    def forward(self, run: Run, x: Any) -> Any:
        """Integers of any shape to (..., features)."""

        def start(key: Any, shape: Any, dtype: Any) -> Any:
            table = self.weight_init(key, shape, dtype)
            return table if self.padding_idx is None else table.at[self.padding_idx].set(0)

        w = run.param("weight", start, (self.num_embeddings, self.embedding_dim))
        return embedding(x, w, self.padding_idx)


@dataclasses.dataclass(frozen=True)
class Dropout(Module):
    """Elements replaced by 0 at random when training; needs a key then.

    Args:
        drop_prob: the probability.
        broadcast_dims: dimensions along which elements share one draw.
    """

    drop_prob: float = 0.5
    broadcast_dims: tuple[int, ...] = ()

    def forward(self, run: Run, x: Any) -> Any:
        """An array of the same shape."""
        if not run.train or self.drop_prob == 0:
            return mnp.asarray(x)
        key = run.needed_key("Dropout")
        return dropout(x, self.drop_prob, key=key, broadcast_dims=self.broadcast_dims)


@dataclasses.dataclass(frozen=True)
class Dropout1d(Module):
    """`Dropout` of whole channels of (batch, channels, length)."""

    p: float = 0.5

    def forward(self, run: Run, x: Any) -> Any:
        """An array of the same shape."""
        return Dropout(self.p, (-1,)).forward(run, x)


@dataclasses.dataclass(frozen=True)
class Dropout2d(Module):
    """`Dropout` of whole channels of (batch, channels, height, width)."""

    p: float = 0.5

    def forward(self, run: Run, x: Any) -> Any:
        """An array of the same shape."""
        return Dropout(self.p, (-1, -2)).forward(run, x)


@dataclasses.dataclass(frozen=True)
class Dropout3d(Module):
    """`Dropout` of whole channels of (batch, channels, depth, height, width)."""

    p: float = 0.5

    def forward(self, run: Run, x: Any) -> Any:
        """An array of the same shape."""
        return Dropout(self.p, (-1, -2, -3)).forward(run, x)


@dataclasses.dataclass(frozen=True, init=False)
class PReLU(Module):
    """x above 0, a learned multiple of it below.

    Args:
        num_parameters: 1, or the number of channels, dimension 1 of the input.
        init: the multiple to start with.

    Parameters: weight (num_parameters,).
    """

    num_parameters: int
    slope: float  # not `init`, which is a method

    def __init__(self, num_parameters: int = 1, init: float = 0.25) -> None:
        object.__setattr__(self, "num_parameters", num_parameters)
        object.__setattr__(self, "slope", init)

    def forward(self, run: Run, x: Any) -> Any:
        """An array of the same shape."""
        x = mnp.asarray(x)
        a = run.param("weight", _filled(self.slope), (self.num_parameters,))
        if self.num_parameters != 1:
            if x.ndim < 2:
                raise ShapeError(f"PReLU: needs (batch, channels, ...), got {x.aval}.")
            a = a.reshape((-1,) + (1,) * (x.ndim - 2))
        return functions.prelu(x, a)


def _filled(value: float) -> Callable[..., Any]:
    return lambda key, shape, dtype: mnp.full(shape, value, dtype)


@dataclasses.dataclass(frozen=True, init=False)
class Identity(Module):
    """The input as it is. Arguments are taken and not used."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def forward(self, run: Run, x: Any) -> Any:
        """The input."""
        return x


@dataclasses.dataclass(frozen=True)
class Lambda(Module):
    """A function without parameters, such as `nn.relu`, as a module."""

    fn: Callable[..., Any]

    def forward(self, run: Run, *inputs: Any) -> Any:
        """fn(*inputs)."""
        return self.fn(*inputs)


@dataclasses.dataclass(frozen=True)
class Flatten(Module):
    """Dimensions start_axis to end_axis as one."""

    start_axis: int = 1
    end_axis: int = -1

    def forward(self, run: Run, x: Any) -> Any:
        """An array of lower rank."""
        x = mnp.asarray(x)
        i, j = self.start_axis % max(x.ndim, 1), self.end_axis % max(x.ndim, 1)
        if i > j:
            raise ShapeError(f"Flatten: axis {i} lies behind axis {j} in {x.aval}.")
        size = math.prod(x.shape[i : j + 1])
        return x.reshape((*x.shape[:i], size, *x.shape[j + 1 :]))


@dataclasses.dataclass(frozen=True)
class Unflatten(Module):
    """One dimension as several, the inverse of `Flatten`.

    Args:
        axis: the dimension.
        shape: sizes of those in its place; one of them may be -1, for what is left.

    Example:
        >>> from mgefn import nn
        >>> nn.Unflatten(1, (2, -1)).apply({}, {}, mnp.ones((4, 6)))[0].shape
        (4, 2, 3)
    """

    axis: int
    shape: tuple[int, ...]

    def forward(self, run: Run, x: Any) -> Any:
        """An array of higher rank."""
        x = mnp.asarray(x)
        axis = normalize_axis("Unflatten", self.axis, x.ndim)
        new = tuple(operator.index(n) for n in self.shape)
        others = math.prod(n for n in new if n != -1)
        size = x.shape[axis]
        if any(n < -1 for n in new) or new.count(-1) > 1:
            raise ShapeError(
                f"Unflatten: shape must hold sizes and at most one -1, got {new}. Correct it."
            )
        if -1 in new and others and size % others == 0:
            new = tuple(size // others if n == -1 else n for n in new)
        if -1 in new or math.prod(new) != size:
            raise ShapeError(
                f"Unflatten: shape must have the {size} elements of axis {axis} of {x.aval}, got "
                f"{new}. Correct it, or write -1 for one of the sizes."
            )
        return x.reshape((*x.shape[:axis], *new, *x.shape[axis + 1 :]))


def _as_module(name: str, layer: Any) -> Module:
    if isinstance(layer, Module):
        return layer
    if isinstance(layer, type) and issubclass(layer, Module):
        raise ArgumentError(
            f"{name}: needs modules or functions, got the class {layer.__name__}. Make a module of "
            f"it: {layer.__name__}(...)."
        )
    if callable(layer):
        return Lambda(layer)
    raise ArgumentError(f"{name}: needs modules or functions, got {layer!r}.")


@dataclasses.dataclass(frozen=True, init=False)
class Sequential(Module):
    """Modules one after the other; functions count as modules without parameters.

    Args:
        *args: modules, under the names "0", "1", ...
        **named: modules under names of their own, after those.

    Example:
        >>> from mgefn import nn
        >>> model = nn.Sequential(nn.Linear(2, 8), nn.relu, head=nn.Linear(8, 1))
        >>> params, state = model.init(mgefn.random.key(0), mnp.ones((1, 2)))
        >>> list(params)
        ['0', 'head']
    """

    layers: tuple[tuple[str, Module], ...]

    def __init__(self, *args: Any, **named: Any) -> None:
        if len(args) == 1 and isinstance(args[0], (list, tuple)):
            args = tuple(args[0])
        pairs = [(str(i), layer) for i, layer in enumerate(args)] + list(named.items())
        made = tuple((name, _as_module("Sequential", layer)) for name, layer in pairs)
        object.__setattr__(self, "layers", made)

    def forward(self, run: Run, x: Any) -> Any:
        """The output of the last module."""
        for name, layer in self.layers:
            x = run(name, layer, x)
        return x


@dataclasses.dataclass(frozen=True)
class Residual(Module):
    """x + layer(x), or shortcut(x) + layer(x).

    Parameters: those of layer and of shortcut, under these names.
    """

    layer: Module
    shortcut: Module | None = None

    def forward(self, run: Run, x: Any) -> Any:
        """The sum."""
        y = run("layer", self.layer, x)
        return y + (x if self.shortcut is None else run("shortcut", self.shortcut, x))


@dataclasses.dataclass(frozen=True, init=False)
class Parallel(Module):
    """Modules with the same input, their outputs joined.

    Args:
        *args: modules, under the names "0", "1", ...
        join: (list of outputs) -> output; None: the tuple of them.
    """

    layers: tuple[Module, ...]
    join: Callable[[Sequence[Any]], Any] | None = None

    def __init__(self, *args: Any, join: Callable[[Sequence[Any]], Any] | None = None) -> None:
        object.__setattr__(self, "layers", tuple(_as_module("Parallel", a) for a in args))
        object.__setattr__(self, "join", join)

    def forward(self, run: Run, *inputs: Any) -> Any:
        """The joined outputs."""
        outputs = [run(str(i), layer, *inputs) for i, layer in enumerate(self.layers)]
        return tuple(outputs) if self.join is None else self.join(outputs)


@dataclasses.dataclass(frozen=True)
class MLP(Module):
    """Linear layers with an activation between them.

    Args:
        in_size: None: that of the input.
        out_size: of the output.
        width_size: of the hidden layers.
        depth: how many hidden layers.
        activation: between layers.
        final_activation: after the last one.
        bias: whether layers have one.
        dropout: probability, after each hidden layer.

    Parameters: "0" to str(depth), each those of `Linear`.
    """

    in_size: int | None
    out_size: int
    width_size: int
    depth: int
    activation: Callable[[Any], Any] = functions.relu
    final_activation: Callable[[Any], Any] | None = None
    bias: bool = True
    dropout: float = 0.0

    def forward(self, run: Run, x: Any) -> Any:
        """(..., in) to (..., out)."""
        size = self.in_size
        for i in range(self.depth):
            x = self.activation(run(str(i), Linear(size, self.width_size, self.bias), x))
            x = run("dropout", Dropout(self.dropout), x)
            size = self.width_size
        y = run(str(self.depth), Linear(size, self.out_size, self.bias), x)
        return y if self.final_activation is None else self.final_activation(y)
