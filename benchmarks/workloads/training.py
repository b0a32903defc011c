"""Training steps: from parameters and a batch to new parameters, and the parts of a transformer.

Optimizers are written out here, so that a step is the same arithmetic in every library.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from .registry import Size, normals, override, workload
from .rows import mean_cross_entropy

RATE = 0.05


def mlp_weights(rng: np.random.Generator, size: Size) -> list[tuple[np.ndarray, np.ndarray]]:
    widths = (size["inputs"], size["hidden"], size["hidden"], size["classes"])
    return [
        (normals(rng, (m, n), scale=m**-0.5), np.zeros(n, np.float32))
        for m, n in itertools.pairwise(widths)
    ]


def mlp_inputs(rng: np.random.Generator, size: Size) -> tuple[Any, ...]:
    labels = rng.integers(0, size["classes"], size["batch"], dtype=np.int32)
    return mlp_weights(rng, size), normals(rng, (size["batch"], size["inputs"])), labels


def mlp_loss(lib: Any) -> Callable[..., Any]:
    xp, cross_entropy = lib.numpy, mean_cross_entropy(lib)

    def loss(layers: Any, x: Any, labels: Any) -> Any:
        for w, b in layers[:-1]:
            x = xp.tanh(x @ w + b)
        w, b = layers[-1]
        return cross_entropy(x @ w + b, labels)

    return loss


@workload("mlp_sgd", inputs=mlp_inputs, vary="batch", memory=True)
def mlp_sgd(lib: Any, size: Size) -> Callable[..., Any]:
    value_and_grad = lib.value_and_grad(mlp_loss(lib))

    def step(layers: Any, x: Any, labels: Any) -> Any:
        value, slopes = value_and_grad(layers, x, labels)
        return lib.tree.map(lambda w, g: w - RATE * g, layers, slopes), value

    return step


@override("torch", "mlp_sgd")
def mlp_sgd_torch(torch: Any, size: Size) -> Callable[..., Any]:
    def step(layers: Any, x: Any, labels: Any) -> Any:
        layers = [(w.detach().requires_grad_(), b.detach().requires_grad_()) for w, b in layers]
        flat = [leaf for layer in layers for leaf in layer]
        for w, b in layers[:-1]:
            x = torch.tanh(x @ w + b)
        w, b = layers[-1]
        value = torch.nn.functional.cross_entropy(x @ w + b, labels.long())
        slopes = torch.autograd.grad(value, flat)
        with torch.no_grad():
            return [w - RATE * g for w, g in zip(flat, slopes, strict=True)], value

    return step


def adam_inputs(rng: np.random.Generator, size: Size) -> tuple[Any, ...]:
    """Parameters, the two moments after some steps, their number, and a batch."""
    layers, x, labels = mlp_inputs(rng, size)
    first = [tuple(0.01 * normals(rng, w.shape) for w in layer) for layer in layers]
    second = [tuple(0.01 * np.abs(normals(rng, w.shape)) + 1e-4 for w in layer) for layer in layers]
    return layers, first, second, np.float32(10), x, labels


@workload("mlp_adam", inputs=adam_inputs, vary="batch", memory=True)
def mlp_adam(lib: Any, size: Size) -> Callable[..., Any]:
    xp, tree = lib.numpy, lib.tree
    value_and_grad = lib.value_and_grad(mlp_loss(lib))

    def step(layers: Any, first: Any, second: Any, count: Any, x: Any, labels: Any) -> Any:
        value, slopes = value_and_grad(layers, x, labels)
        count = count + 1
        first = tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, slopes)
        second = tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, slopes)

        def moved(w: Any, m: Any, v: Any) -> Any:
            m, v = m / (1 - 0.9**count), v / (1 - 0.999**count)
            return w - 1e-3 * m / (xp.sqrt(v) + 1e-8)

        return tree.map(moved, layers, first, second), first, second, count, value

    return step


def images(rng: np.random.Generator, size: Size) -> tuple[Any, ...]:
    """The parameters of two convolutions and a dense layer, and a batch of images."""
    side, channels, features = size["side"], size["channels"], size["features"]
    flat = (side // 4) ** 2 * 2 * features
    parameters = {
        "first": normals(rng, (3, 3, channels, features), scale=(9 * channels) ** -0.5),
        "second": normals(rng, (3, 3, features, 2 * features), scale=(9 * features) ** -0.5),
        "dense": normals(rng, (flat, 10), scale=flat**-0.5),
    }
    labels = rng.integers(0, 10, size["batch"], dtype=np.int32)
    return parameters, normals(rng, (size["batch"], side, side, channels)), labels


@workload("conv_step", inputs=images, vary="batch", memory=True, tolerance=1e-3)
def conv_step(lib: Any, size: Size) -> Callable[..., Any]:
    """A step of SGD of a convolutional net with two poolings."""
    xp, lax, cross_entropy = lib.numpy, lib.lax, mean_cross_entropy(lib)

    def conv(x: Any, kernel: Any) -> Any:
        layout = ("NHWC", "HWIO", "NHWC")
        x = lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=layout)
        x = xp.maximum(x, 0)
        return lax.reduce_window(x, -xp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    def loss(parameters: Any, x: Any, labels: Any) -> Any:
        x = conv(conv(x, parameters["first"]), parameters["second"])
        return cross_entropy(x.reshape(x.shape[0], -1) @ parameters["dense"], labels)

    def step(parameters: Any, x: Any, labels: Any) -> Any:
        value, slopes = lib.value_and_grad(loss)(parameters, x, labels)
        return lib.tree.map(lambda w, g: w - RATE * g, parameters, slopes), value

    return step


@override("torch", "conv_step")
def conv_step_torch(torch: Any, size: Size) -> Callable[..., Any]:
    functional = torch.nn.functional

    def conv(x: Any, kernel: Any) -> Any:
        x = functional.conv2d(x, kernel.permute(3, 2, 0, 1), padding=1)
        return functional.max_pool2d(torch.relu(x), 2)

    def step(parameters: Any, x: Any, labels: Any) -> Any:
        taken = {name: w.detach().requires_grad_() for name, w in parameters.items()}
        x = conv(conv(x.permute(0, 3, 1, 2), taken["first"]), taken["second"])
        scores = x.permute(0, 2, 3, 1).reshape(x.shape[0], -1) @ taken["dense"]
        value = functional.cross_entropy(scores, labels.long())
        slopes = torch.autograd.grad(value, list(taken.values()))
        with torch.no_grad():
            moved = [w - RATE * g for w, g in zip(taken.values(), slopes, strict=True)]
        return dict(zip(taken, moved, strict=True)), value

    return step


def queries(rng: np.random.Generator, size: Size) -> tuple[Any, ...]:
    """Queries, keys, values, and a weight for each element of the result."""
    shape = (size["batch"], size["heads"], size["length"], size["width"])
    return tuple(normals(rng, shape) for _ in range(4))


def causal_attention(lib: Any) -> Callable[..., Any]:
    xp = lib.numpy

    def fun(q: Any, k: Any, v: Any) -> Any:
        scores = xp.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[-1] ** -0.5
        n = scores.shape[-1]
        later = xp.arange(n)[:, None] < xp.arange(n)[None, :]
        scores = xp.where(later, -1e9, scores)
        e = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
        return xp.einsum("bhqk,bhkd->bhqd", e / xp.sum(e, axis=-1, keepdims=True), v)

    return fun


@workload("attention", inputs=queries, vary="batch")
def attention(lib: Any, size: Size) -> Callable[..., Any]:
    fun = causal_attention(lib)
    return lambda q, k, v, weights: fun(q, k, v) * weights


@workload("attention_grad", inputs=queries, vary="batch")
def attention_grad(lib: Any, size: Size) -> Callable[..., Any]:
    fun = causal_attention(lib)
    loss = lambda q, k, v, weights: lib.numpy.sum(fun(q, k, v) * weights)  # noqa: E731
    return lib.grad(loss, argnums=(0, 1, 2))


@override("torch", "attention")
def attention_torch(torch: Any, size: Size) -> Callable[..., Any]:
    fused = torch.nn.functional.scaled_dot_product_attention
    return lambda q, k, v, weights: fused(q, k, v, is_causal=True) * weights


def block_inputs(rng: np.random.Generator, size: Size) -> tuple[Any, ...]:
    """The parameters of a transformer block, and a batch of sequences."""
    width = size["width"]

    def dense(m: int, n: int) -> np.ndarray:
        return normals(rng, (m, n), scale=m**-0.5)

    parameters = {
        "query": dense(width, width),
        "key": dense(width, width),
        "value": dense(width, width),
        "out": dense(width, width),
        "up": dense(width, 4 * width),
        "down": dense(4 * width, width),
        "gain": np.ones((2, width), np.float32),
        "bias": np.zeros((2, width), np.float32),
    }
    return parameters, normals(rng, (size["batch"], size["length"], width))


def transformer_block(lib: Any, heads: int) -> Callable[..., Any]:
    xp, attend = lib.numpy, causal_attention(lib)

    def norm(x: Any, gain: Any, bias: Any) -> Any:
        centred = x - xp.mean(x, axis=-1, keepdims=True)
        variance = xp.mean(centred * centred, axis=-1, keepdims=True)
        return centred / xp.sqrt(variance + 1e-5) * gain + bias

    def fun(p: Any, x: Any) -> Any:
        batch, length, width = x.shape

        def split(y: Any) -> Any:
            return y.reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3)

        y = norm(x, p["gain"][0], p["bias"][0])
        y = attend(split(y @ p["query"]), split(y @ p["key"]), split(y @ p["value"]))
        x = x + y.transpose(0, 2, 1, 3).reshape(batch, length, width) @ p["out"]
        y = norm(x, p["gain"][1], p["bias"][1])
        return x + lib.nn.gelu(y @ p["up"]) @ p["down"]

    return fun


@workload("transformer", inputs=block_inputs, vary="batch")
def transformer(lib: Any, size: Size) -> Callable[..., Any]:
    return transformer_block(lib, size["heads"])


@workload("transformer_grad", inputs=block_inputs, vary="batch", memory=True)
def transformer_grad(lib: Any, size: Size) -> Callable[..., Any]:
    fun = transformer_block(lib, size["heads"])
    loss = lambda p, x: lib.numpy.mean(lib.numpy.tanh(fun(p, x)))  # noqa: E731
    return lib.value_and_grad(loss)


@override("torch", "attention_grad")
def attention_grad_torch(torch: Any, size: Size) -> Callable[..., Any]:
    fun = attention_torch(torch, size)

    def gradients(q: Any, k: Any, v: Any, weights: Any) -> Any:
        taken = [leaf.detach().requires_grad_() for leaf in (q, k, v)]
        return torch.autograd.grad(fun(*taken, weights).sum(), taken)

    return gradients
