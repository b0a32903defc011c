"""Reductions along contiguous rows with work before and after them.

The gradients are of a weighted sum of the outputs: their plain sum has the gradient zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .elementwise import torch_gradient
from .registry import Size, normal, normals, override, workload


@workload("softmax", inputs=normal("rows columns"), also=("numpy",), vary="rows")
def softmax(lib: Any, size: Size) -> Callable[..., Any]:
    xp = lib.numpy

    def fun(x: Any) -> Any:
        e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
        return e / xp.sum(e, axis=-1, keepdims=True)

    return fun


@workload("softmax_grad", inputs=normal("rows columns", "rows columns"), vary="rows")
def softmax_grad(lib: Any, size: Size) -> Callable[..., Any]:
    fun = softmax(lib, size)
    return lib.grad(lambda x, weights: lib.numpy.sum(fun(x) * weights))


@override("torch", "softmax")
def softmax_torch(torch: Any, size: Size) -> Callable[..., Any]:
    return lambda x: torch.softmax(x, -1)


@override("torch", "softmax_grad")
def softmax_grad_torch(torch: Any, size: Size) -> Callable[..., Any]:
    return torch_gradient(torch, lambda x, weights: (torch.softmax(x, -1) * weights).sum())


@workload(
    "layer_norm", inputs=normal("rows columns", "columns", "columns"), also=("numpy",), vary="rows"
)
def layer_norm(lib: Any, size: Size) -> Callable[..., Any]:
    xp = lib.numpy

    def fun(x: Any, gain: Any, bias: Any) -> Any:
        centred = x - xp.mean(x, axis=-1, keepdims=True)
        variance = xp.mean(centred * centred, axis=-1, keepdims=True)
        return centred / xp.sqrt(variance + 1e-5) * gain + bias

    return fun


@workload(
    "layer_norm_grad",
    inputs=normal("rows columns", "columns", "columns", "rows columns"),
    vary="rows",
)
def layer_norm_grad(lib: Any, size: Size) -> Callable[..., Any]:
    fun = layer_norm(lib, size)

    def loss(x: Any, gain: Any, bias: Any, weights: Any) -> Any:
        return lib.numpy.sum(fun(x, gain, bias) * weights)

    return lib.grad(loss, argnums=(0, 1, 2))


@override("torch", "layer_norm")
def layer_norm_torch(torch: Any, size: Size) -> Callable[..., Any]:
    norm = torch.nn.functional.layer_norm
    return lambda x, gain, bias: norm(x, x.shape[-1:], gain, bias)


@override("torch", "layer_norm_grad")
def layer_norm_grad_torch(torch: Any, size: Size) -> Callable[..., Any]:
    fun = layer_norm_torch(torch, size)

    def gradients(x: Any, gain: Any, bias: Any, weights: Any) -> Any:
        taken = [leaf.detach().requires_grad_() for leaf in (x, gain, bias)]
        return torch.autograd.grad((fun(*taken) * weights).sum(), taken)

    return gradients


@workload("logsumexp", inputs=normal("rows columns"), also=("numpy", "autograd"), vary="rows")
def logsumexp(lib: Any, size: Size) -> Callable[..., Any]:
    xp = lib.numpy

    def fun(x: Any) -> Any:
        largest = xp.max(x, axis=-1)
        return xp.log(xp.sum(xp.exp(x - largest[:, None]), axis=-1)) + largest

    return fun


@workload("logsumexp_grad", inputs=normal("rows columns", "rows"), also=("autograd",), vary="rows")
def logsumexp_grad(lib: Any, size: Size) -> Callable[..., Any]:
    fun = logsumexp(lib, size)
    return lib.grad(lambda x, weights: lib.numpy.sum(fun(x) * weights))


@override("torch", "logsumexp")
def logsumexp_torch(torch: Any, size: Size) -> Callable[..., Any]:
    return lambda x: torch.logsumexp(x, -1)


@override("torch", "logsumexp_grad")
def logsumexp_grad_torch(torch: Any, size: Size) -> Callable[..., Any]:
    return torch_gradient(torch, lambda x, weights: (torch.logsumexp(x, -1) * weights).sum())


def labelled(rng: np.random.Generator, size: Size) -> tuple[Any, ...]:
    """Scores of each class in each row, and the right class."""
    labels = rng.integers(0, size["columns"], size["rows"], dtype=np.int32)
    return normals(rng, (size["rows"], size["columns"])), labels


def mean_cross_entropy(lib: Any) -> Callable[..., Any]:
    xp = lib.numpy

    def loss(scores: Any, labels: Any) -> Any:
        shifted = scores - xp.max(scores, axis=-1, keepdims=True)
        logs = shifted - xp.log(xp.sum(xp.exp(shifted), axis=-1, keepdims=True))
        return -xp.mean(xp.take_along_axis(logs, labels[:, None], axis=-1))

    return loss


@workload("cross_entropy", inputs=labelled, also=("numpy",), vary="rows")
def cross_entropy(lib: Any, size: Size) -> Callable[..., Any]:
    return mean_cross_entropy(lib)


@workload("cross_entropy_grad", inputs=labelled, vary="rows")
def cross_entropy_grad(lib: Any, size: Size) -> Callable[..., Any]:
    return lib.grad(mean_cross_entropy(lib))


@override("torch", "cross_entropy")
def cross_entropy_torch(torch: Any, size: Size) -> Callable[..., Any]:
    return lambda scores, labels: torch.nn.functional.cross_entropy(scores, labels.long())


@override("torch", "cross_entropy_grad")
def cross_entropy_grad_torch(torch: Any, size: Size) -> Callable[..., Any]:
    return torch_gradient(torch, cross_entropy_torch(torch, size))
