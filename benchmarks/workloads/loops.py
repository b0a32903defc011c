"""Loops of many steps with next to no work in each: what a step itself costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .registry import Size, workload

SCALARS = 60


def count(rng: np.random.Generator, size: Size) -> tuple[Any, ...]:
    """A number to start from, and how many steps."""
    return np.float32(0.5), np.int32(size["steps"])


# Each step shrinks what is there by a quarter, so rounding does not pile up.
@workload("while_scalar", inputs=count)
def while_scalar(lib: Any, size: Size) -> Callable[..., Any]:
    def fun(x: Any, steps: Any) -> Any:
        def step(state: Any) -> Any:
            i, x = state
            return i + 1, 0.75 * x + 0.25 / (1 + x * x)

        return lib.lax.while_loop(lambda s: s[0] < steps, step, (lib.numpy.int32(0), x))[1]

    return fun


def matrices(rng: np.random.Generator, size: Size) -> tuple[Any, ...]:
    """A 3x3 matrix to start from, a rotation that every step applies, and one to add in each.

    A factor below 1 would have the gradient die out through the subnormal numbers, which XLA takes
    for 0 and NumPy and this library do not: their cost would be all that is compared.
    """
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    return rng.standard_normal((3, 3)), turn, rng.standard_normal((size["steps"], 3, 3))


def products(lib: Any) -> Callable[..., Any]:
    def fun(start: Any, turn: Any, added: Any) -> Any:
        def step(m: Any, a: Any) -> Any:
            return turn @ m + a, None

        return lib.lax.scan(step, start, added)[0]

    return fun


@workload("scan_matrix3", inputs=matrices, x64=True, vary="steps")
def scan_matrix3(lib: Any, size: Size) -> Callable[..., Any]:
    return products(lib)


@workload("scan_matrix3_grad", inputs=matrices, x64=True, vary="steps")
def scan_matrix3_grad(lib: Any, size: Size) -> Callable[..., Any]:
    fun = products(lib)
    return lib.grad(lambda *given: lib.numpy.sum(fun(*given) ** 2), argnums=(0, 1))


def scalars(rng: np.random.Generator, size: Size) -> tuple[Any, ...]:
    """60 numbers to start from, and one for each step."""
    start = tuple(rng.standard_normal(SCALARS).astype(np.float32))
    return start, rng.uniform(0.1, 0.9, size["steps"]).astype(np.float32)


def ring(lib: Any) -> Callable[..., Any]:
    """Each number moves towards its neighbour by the share that the step says."""

    def fun(start: Any, shares: Any) -> Any:
        def step(state: Any, share: Any) -> Any:
            following = (*state[1:], state[0])
            return tuple(a + share * (b - a) for a, b in zip(state, following, strict=True)), None

        return lib.lax.scan(step, start, shares)[0]

    return fun


@workload("scan_60_scalars", inputs=scalars, vary="steps")
def scan_60_scalars(lib: Any, size: Size) -> Callable[..., Any]:
    return ring(lib)


@workload("scan_60_scalars_grad", inputs=scalars, vary="steps")
def scan_60_scalars_grad(lib: Any, size: Size) -> Callable[..., Any]:
    fun = ring(lib)
    return lib.grad(lambda start, shares: sum(x * x for x in fun(start, shares)), argnums=(0, 1))
