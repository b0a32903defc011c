"""Chains of operations on each element: no reduction in the value, one fused loop when compiled."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .registry import Inputs, Size, normal, override, workload


@workload("gelu", inputs=normal("n"), also=("numpy", "autograd"), vary="n")
@workload("gelu_f64", inputs=normal("n", dtype="float64"), also=("numpy",), x64=True, vary="n")
def gelu(lib: Any, size: Size) -> Callable[..., Any]:
    xp = lib.numpy

    def fun(x: Any) -> Any:
        return 0.5 * x * (1 + xp.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))

    return fun


@workload("gelu_grad", inputs=normal("n"), also=("autograd",), vary="n")
@workload(
    "gelu_grad_f64", inputs=normal("n", dtype="float64"), also=("autograd",), x64=True, vary="n"
)
def gelu_grad(lib: Any, size: Size) -> Callable[..., Any]:
    fun = gelu(lib, size)
    return lib.grad(lambda x: lib.numpy.sum(fun(x)))


@override("torch", "gelu", "gelu_f64")
def gelu_torch(torch: Any, size: Size) -> Callable[..., Any]:
    return lambda x: torch.nn.functional.gelu(x, approximate="tanh")


@override("torch", "gelu_grad", "gelu_grad_f64")
def gelu_grad_torch(torch: Any, size: Size) -> Callable[..., Any]:
    return torch_gradient(torch, lambda x: gelu_torch(torch, size)(x).sum())


def torch_gradient(torch: Any, loss: Callable[..., Any]) -> Callable[..., Any]:
    """The gradient of a loss with respect to its first argument, in torch's way."""

    def fun(x: Any, *rest: Any) -> Any:
        x = x.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(loss(x, *rest), x)
        return gradient

    return fun


def options(dtype: str) -> Inputs:
    """Spot and strike prices, years and volatilities of n options."""

    def make(rng: np.random.Generator, size: Size) -> tuple[Any, ...]:
        bounds = ((80.0, 120.0), (80.0, 120.0), (0.1, 2.0), (0.1, 0.5))
        return tuple(rng.uniform(*bound, size["n"]).astype(dtype) for bound in bounds)

    return make


def call_price(lib: Any) -> Callable[..., Any]:
    """The Black-Scholes price of a European call at an interest rate of 3 %."""
    xp = lib.numpy

    def cdf(x: Any) -> Any:
        return 0.5 * (1 + lib.lax.erf(x * math.sqrt(0.5)))

    def price(spot: Any, strike: Any, years: Any, volatility: Any) -> Any:
        deviation = volatility * xp.sqrt(years)
        d1 = (xp.log(spot / strike) + (0.03 + 0.5 * volatility * volatility) * years) / deviation
        return spot * cdf(d1) - strike * xp.exp(-0.03 * years) * cdf(d1 - deviation)

    return price


@workload("black_scholes", inputs=options("float32"), also=("numpy",), vary="n")
@workload("black_scholes_f64", inputs=options("float64"), also=("numpy",), x64=True, vary="n")
def black_scholes(lib: Any, size: Size) -> Callable[..., Any]:
    return call_price(lib)


@workload("black_scholes_grad", inputs=options("float32"), vary="n")
@workload("black_scholes_grad_f64", inputs=options("float64"), x64=True, vary="n")
def black_scholes_grad(lib: Any, size: Size) -> Callable[..., Any]:
    return lib.vmap(lib.grad(call_price(lib), argnums=(0, 2, 3)))  # delta, theta, vega


@override("autograd", "black_scholes_grad", "black_scholes_grad_f64")
def black_scholes_grad_autograd(lib: Any, size: Size) -> Callable[..., Any]:
    price = call_price(lib)
    return lib.grad(lambda *prices: lib.numpy.sum(price(*prices)), argnum=(0, 2, 3))


@workload("axpy", inputs=normal("n", "n"), also=("numpy",), vary="n")
def axpy(lib: Any, size: Size) -> Callable[..., Any]:
    return lambda x, y: 2.5 * x + y


@override("torch", "axpy")
def axpy_torch(torch: Any, size: Size) -> Callable[..., Any]:
    return lambda x, y: torch.add(y, x, alpha=2.5)


@workload("huber_grad", inputs=normal("n", "n"), also=("autograd",), vary="n")
def huber_grad(lib: Any, size: Size) -> Callable[..., Any]:
    xp = lib.numpy

    def loss(x: Any, y: Any) -> Any:
        error = xp.abs(x - y)
        return xp.sum(xp.where(error < 1, 0.5 * error * error, error - 0.5))

    return lib.grad(loss)
