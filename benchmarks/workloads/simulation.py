"""Physics: pairwise forces, ordinary differential equations, a stencil."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .registry import Size, normal, normals, workload


def bodies(rng: np.random.Generator, size: Size) -> tuple[Any, ...]:
    """Places and masses."""
    return normals(rng, (size["n"], 3)), rng.uniform(0.5, 1.5, size["n"]).astype(np.float32)


@workload("n_body", inputs=bodies, also=("numpy",), vary="n")
def n_body(lib: Any, size: Size) -> Callable[..., Any]:
    xp = lib.numpy

    def accelerations(places: Any, masses: Any) -> Any:
        apart = places[None, :, :] - places[:, None, :]
        squares = xp.sum(apart * apart, axis=-1) + 1e-2
        pull = masses / (squares * xp.sqrt(squares))
        return xp.sum(pull[:, :, None] * apart, axis=1)

    return accelerations


@workload("n_body_grad", inputs=bodies, also=("autograd",), vary="n")
def n_body_grad(lib: Any, size: Size) -> Callable[..., Any]:
    xp = lib.numpy

    def energy(places: Any, masses: Any) -> Any:
        apart = places[None, :, :] - places[:, None, :]
        distances = xp.sqrt(xp.sum(apart * apart, axis=-1) + 1e-2)
        return -0.5 * xp.sum(masses[None, :] * masses[:, None] / distances)

    return lib.grad(energy)


def populations(rng: np.random.Generator, size: Size) -> tuple[Any, ...]:
    """Prey and predators of n places, and the four rates that all share."""
    start = rng.uniform(0.5, 1.5, (2, size["n"])).astype(np.float32)
    return start, np.array([1.1, 0.4, 0.4, 0.1], np.float32)


def lotka_volterra(lib: Any, steps: int) -> Callable[..., Any]:
    """The populations after some steps of the classical Runge-Kutta method."""
    xp, h = lib.numpy, 0.02

    def slope(y: Any, rates: Any) -> Any:
        prey, predators = y
        met = prey * predators
        return xp.stack([rates[0] * prey - rates[1] * met, rates[3] * met - rates[2] * predators])

    def fun(start: Any, rates: Any) -> Any:
        def step(y: Any, _: Any) -> tuple[Any, Any]:
            k1 = slope(y, rates)
            k2 = slope(y + h / 2 * k1, rates)
            k3 = slope(y + h / 2 * k2, rates)
            k4 = slope(y + h * k3, rates)
            return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

        return lib.lax.scan(step, start, None, length=steps)[0]

    return fun


@workload("ode_scan", inputs=populations, vary="n")
def ode_scan(lib: Any, size: Size) -> Callable[..., Any]:
    return lotka_volterra(lib, size["steps"])


@workload("ode_scan_grad", inputs=populations, vary="n")
def ode_scan_grad(lib: Any, size: Size) -> Callable[..., Any]:
    fun = lotka_volterra(lib, size["steps"])
    loss = lambda start, rates: lib.numpy.mean(fun(start, rates) ** 2)  # noqa: E731
    return lib.grad(loss, argnums=(0, 1))


@workload("heat_step", inputs=normal("n n"), vary="n")
def heat_step(lib: Any, size: Size) -> Callable[..., Any]:
    """Ten steps of heat that spreads over a plate with cold edges."""

    def step(_: Any, x: Any) -> Any:
        inner = x[1:-1, 1:-1]
        around = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
        return x.at[1:-1, 1:-1].set(inner + 0.2 * (around - 4 * inner))

    return lambda x: lib.lax.fori_loop(0, 10, step, x)
