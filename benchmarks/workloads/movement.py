"""Elements that change places, running sums, and random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .registry import Size, normal, normals, override, workload


@workload("sort", inputs=normal("n"), also=("numpy",), vary="n")
def sort(lib: Any, size: Size) -> Callable[..., Any]:
    return lambda x: lib.numpy.sort(x)


@override("torch", "sort")
def sort_torch(torch: Any, size: Size) -> Callable[..., Any]:
    return lambda x: torch.sort(x).values


def shuffled(rng: np.random.Generator, size: Size) -> tuple[Any, ...]:
    """No two elements are equal, so there is one right order."""
    return (rng.permutation(size["n"]).astype(np.int32),)


@workload("argsort", inputs=shuffled, also=("numpy",), vary="n")
def argsort(lib: Any, size: Size) -> Callable[..., Any]:
    return lambda x: lib.numpy.argsort(x)


# One running sum of 10^7 float32 and one that adds up in blocks differ by their own rounding.
@workload("cumsum", inputs=normal("n"), also=("numpy",), vary="n", tolerance=1e-3)
def cumsum(lib: Any, size: Size) -> Callable[..., Any]:
    return lambda x: lib.numpy.cumsum(x)


@override("torch", "cumsum")
def cumsum_torch(torch: Any, size: Size) -> Callable[..., Any]:
    return lambda x: torch.cumsum(x, 0)


@workload("cumsum_grad", inputs=normal("n", "n"), vary="n", tolerance=1e-3)
def cumsum_grad(lib: Any, size: Size) -> Callable[..., Any]:
    return lib.grad(lambda x, weights: lib.numpy.sum(lib.numpy.cumsum(x) * weights))


def indexed(rng: np.random.Generator, size: Size) -> tuple[Any, ...]:
    """n values and n places among n, some of them met several times."""
    n = size["n"]
    return normals(rng, (n,)), rng.integers(0, n, n, dtype=np.int32)


@workload("scatter_add", inputs=indexed, vary="n")
def scatter_add(lib: Any, size: Size) -> Callable[..., Any]:
    return lambda x, places: lib.numpy.zeros_like(x).at[places].add(x)


@override("numpy", "scatter_add")
def scatter_add_numpy(lib: Any, size: Size) -> Callable[..., Any]:
    def fun(x: Any, places: Any) -> Any:
        total = np.zeros_like(x)
        np.add.at(total, places, x)
        return total

    return fun


@override("torch", "scatter_add")
def scatter_add_torch(torch: Any, size: Size) -> Callable[..., Any]:
    return lambda x, places: torch.zeros_like(x).index_add(0, places, x)


@workload("gather", inputs=indexed, also=("numpy", "torch"), vary="n")
def gather(lib: Any, size: Size) -> Callable[..., Any]:
    return lambda x, places: x[places]


def table(rng: np.random.Generator, size: Size) -> tuple[Any, ...]:
    """A table, rows of it to look up, and a weight for each element found."""
    found = (size["n"], size["width"])
    places = rng.integers(0, size["rows"], size["n"], dtype=np.int32)
    return normals(rng, (size["rows"], size["width"])), places, normals(rng, found)


@workload("gather_rows", inputs=table, also=("numpy", "torch"), vary="n")
def gather_rows(lib: Any, size: Size) -> Callable[..., Any]:
    return lambda rows, places, weights: rows[places] * weights


@workload("embedding_grad", inputs=table, vary="n")
def embedding_grad(lib: Any, size: Size) -> Callable[..., Any]:
    return lib.grad(lambda rows, places, weights: lib.numpy.sum(rows[places] * weights))


@override("torch", "embedding_grad")
def embedding_grad_torch(torch: Any, size: Size) -> Callable[..., Any]:
    def fun(rows: Any, places: Any, weights: Any) -> Any:
        rows = rows.detach().requires_grad_()
        found = torch.nn.functional.embedding(places, rows)
        (gradient,) = torch.autograd.grad((found * weights).sum(), rows)
        return gradient

    return fun


@workload("transpose_add", inputs=normal("n n"), also=("numpy", "torch"), vary="n")
def transpose_add(lib: Any, size: Size) -> Callable[..., Any]:
    return lambda x: x + x.T


@workload("concatenate_pad", inputs=normal("n", "n"), also=("numpy",), vary="n")
def concatenate_pad(lib: Any, size: Size) -> Callable[..., Any]:
    xp = lib.numpy
    return lambda x, y: xp.pad(xp.concatenate([x[1:], y[:-1]]), (1, 1))


def key(rng: np.random.Generator, size: Size) -> tuple[Any, ...]:
    return (np.array([0, 42], np.uint32),)


@workload("random_normal", inputs=key)
def random_normal(lib: Any, size: Size) -> Callable[..., Any]:
    return lambda key: lib.random.normal(key, (size["n"],))


@workload("random_uniform", inputs=key)
def random_uniform(lib: Any, size: Size) -> Callable[..., Any]:
    return lambda key: lib.random.uniform(key, (size["n"],))
