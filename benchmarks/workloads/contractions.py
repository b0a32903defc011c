"""Products of matrices, alone, in batches, and as einsum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .registry import Size, normal, override, workload


@workload("matmul", inputs=normal("n n", "n n"), also=("numpy",))
@workload("matmul_f64", inputs=normal("n n", "n n", dtype="float64"), also=("numpy",), x64=True)
@workload("batched_matmul", inputs=normal("batch n n", "batch n n"), also=("numpy",), vary="batch")
def matmul(lib: Any, size: Size) -> Callable[..., Any]:
    return lambda a, b: lib.numpy.matmul(a, b)


@override("torch", "matmul", "matmul_f64", "batched_matmul")
def matmul_torch(torch: Any, size: Size) -> Callable[..., Any]:
    return torch.matmul


@workload("matmul_bias_relu", inputs=normal("n n", "n n", "n"), also=("numpy",))
def matmul_bias_relu(lib: Any, size: Size) -> Callable[..., Any]:
    return lambda a, b, bias: lib.numpy.maximum(a @ b + bias, 0)


@workload("einsum_chain", inputs=normal("n n", "n n", "n n", "n"), also=("numpy",))
def einsum_chain(lib: Any, size: Size) -> Callable[..., Any]:
    # Left to right this has two products of matrices; the best order has none.
    def fun(a: Any, b: Any, c: Any, x: Any) -> Any:
        return lib.numpy.einsum("ab,bc,cd,d->a", a, b, c, x, optimize="optimal")

    return fun


def bilinear(lib: Any) -> Callable[..., Any]:
    def fun(x: Any, form: Any, y: Any) -> Any:
        return lib.numpy.einsum("bi,ij,bj->b", x, form, y, optimize="optimal")

    return fun


@workload("einsum_bilinear", inputs=normal("batch n", "n n", "batch n"), also=("numpy",))
def einsum_bilinear(lib: Any, size: Size) -> Callable[..., Any]:
    return bilinear(lib)


@workload("einsum_grad", inputs=normal("batch n", "n n", "batch n"))
def einsum_grad(lib: Any, size: Size) -> Callable[..., Any]:
    fun = bilinear(lib)
    loss = lambda x, form, y: lib.numpy.mean(lib.numpy.tanh(fun(x, form, y)))  # noqa: E731
    return lib.grad(loss, argnums=(0, 1, 2))


@override("torch", "einsum_bilinear")
def einsum_bilinear_torch(torch: Any, size: Size) -> Callable[..., Any]:
    return lambda x, form, y: torch.einsum("bi,ij,bj->b", x, form, y)
