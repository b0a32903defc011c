"""Reductions over columns, which lie apart in memory, and over all elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .elementwise import torch_gradient
from .registry import Size, normal, override, workload


@workload("column_sum", inputs=normal("rows columns"), also=("numpy",), vary="rows")
def column_sum(lib: Any, size: Size) -> Callable[..., Any]:
    return lambda x: lib.numpy.sum(x, axis=0)


@override("torch", "column_sum")
def column_sum_torch(torch: Any, size: Size) -> Callable[..., Any]:
    return lambda x: x.sum(0)


@workload("column_max_grad", inputs=normal("rows columns"), also=("autograd",), vary="rows")
def column_max_grad(lib: Any, size: Size) -> Callable[..., Any]:
    xp = lib.numpy
    return lib.grad(lambda x: xp.sum(xp.max(x, axis=0) ** 2))


@workload("standardize_columns", inputs=normal("rows columns"), also=("numpy",), vary="rows")
def standardize_columns(lib: Any, size: Size) -> Callable[..., Any]:
    xp = lib.numpy
    return lambda x: (x - xp.mean(x, axis=0)) / (xp.std(x, axis=0) + 1e-5)


@workload("variance", inputs=normal("n"), also=("numpy", "autograd"), vary="n")
@workload("variance_f64", inputs=normal("n", dtype="float64"), also=("numpy",), x64=True, vary="n")
def variance(lib: Any, size: Size) -> Callable[..., Any]:
    return lambda x: lib.numpy.var(x)


@workload("variance_grad", inputs=normal("n"), also=("autograd",), vary="n")
def variance_grad(lib: Any, size: Size) -> Callable[..., Any]:
    return lib.grad(lambda x: lib.numpy.var(x))


@override("torch", "variance", "variance_f64")
def variance_torch(torch: Any, size: Size) -> Callable[..., Any]:
    return lambda x: torch.var(x, correction=0)


@override("torch", "variance_grad")
def variance_grad_torch(torch: Any, size: Size) -> Callable[..., Any]:
    return torch_gradient(torch, variance_torch(torch, size))


@workload("norm", inputs=normal("n"), also=("numpy",), vary="n")
def norm(lib: Any, size: Size) -> Callable[..., Any]:
    return lambda x: lib.numpy.sqrt(lib.numpy.sum(x * x))


@override("torch", "norm")
def norm_torch(torch: Any, size: Size) -> Callable[..., Any]:
    return torch.linalg.vector_norm
