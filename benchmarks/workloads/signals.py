"""Convolution by FFT, and filters of images written with slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .registry import Size, normal, override, workload

BLUR = (1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16)


@workload("fft_convolution", inputs=normal("n", "taps"), also=("numpy", "torch"))
def fft_convolution(lib: Any, size: Size) -> Callable[..., Any]:
    fft = (lib.numpy if hasattr(lib, "numpy") else lib).fft
    n = size["n"] + size["taps"] - 1

    def fun(x: Any, taps: Any) -> Any:
        return fft.irfft(fft.rfft(x, n) * fft.rfft(taps, n), n)

    return fun


@workload("fft_convolution_grad", inputs=normal("n", "taps"))
def fft_convolution_grad(lib: Any, size: Size) -> Callable[..., Any]:
    fun = fft_convolution(lib, size)
    return lib.grad(lambda x, taps: lib.numpy.sum(lib.numpy.tanh(fun(x, taps))), argnums=(0, 1))


def edges(lib: Any) -> Callable[..., Any]:
    """The strength of edges in a blurred image: a binomial blur, then Sobel's two slopes."""
    xp = lib.numpy

    def blurred(x: Any) -> Any:
        n, m = x.shape
        x = sum(w * x[i : n - 4 + i] for i, w in enumerate(BLUR))
        return sum(w * x[:, i : m - 4 + i] for i, w in enumerate(BLUR))

    def fun(image: Any) -> Any:
        x = blurred(image)
        across = x[:, 2:] - x[:, :-2]
        down = x[2:] - x[:-2]
        across = across[:-2] + 2 * across[1:-1] + across[2:]
        down = down[:, :-2] + 2 * down[:, 1:-1] + down[:, 2:]
        return xp.sqrt(across * across + down * down + 1e-6)

    return fun


@workload("image_filter", inputs=normal("n n"), also=("numpy",), vary="n")
def image_filter(lib: Any, size: Size) -> Callable[..., Any]:
    return edges(lib)


@workload("image_filter_grad", inputs=normal("n n"), also=("autograd",), vary="n")
def image_filter_grad(lib: Any, size: Size) -> Callable[..., Any]:
    fun = edges(lib)
    return lib.grad(lambda image: lib.numpy.sum(fun(image)))


@override("torch", "image_filter")
def image_filter_torch(torch: Any, size: Size) -> Callable[..., Any]:
    class Names:
        numpy = torch

    return edges(Names)
