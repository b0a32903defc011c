"""What the tests of kinds share: derivatives by differences, and by every way to take them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import mgefn


def differences(f: Callable[[Any], Any], x: Any, h: float = 1e-6) -> np.ndarray:
    """The gradient of a real function of a real float64 array, by central differences."""
    x = np.asarray(x, np.float64)
    slopes = np.empty(x.size)
    for i in range(x.size):
        step = np.zeros(x.size)
        step[i] = h
        above, below = x + step.reshape(x.shape), x - step.reshape(x.shape)
        slopes[i] = (float(np.asarray(f(above))) - float(np.asarray(f(below)))) / (2 * h)
    return slopes.reshape(x.shape)


def gradients(f: Callable[[Any], Any], x: Any) -> Iterator[tuple[str, np.ndarray]]:
    """The gradient of a real function of one array by each way to it: (how, gradient)."""
    x = mgefn.numpy.asarray(np.asarray(x))  # not weak, as a scalar of NumPy is
    yield "grad", np.asarray(mgefn.grad(f)(x))
    yield "jit of grad", np.asarray(mgefn.jit(mgefn.grad(f))(x))
    yield "grad of jit", np.asarray(mgefn.grad(mgefn.jit(f))(x))
    yield "vmap of grad", np.asarray(mgefn.vmap(mgefn.grad(f))(mgefn.numpy.stack([x, x]))[1])
    yield "grad of checkpoint", np.asarray(mgefn.grad(mgefn.checkpoint(f))(x))
    yield "jacfwd", np.asarray(mgefn.jacfwd(f)(x))


def check(f: Callable[[Any], Any], x: Any, want: Any, rtol: float = 1e-6, atol: float = 1e-9):
    """Every way gives the gradient `want`, in the shape and dtype of x."""
    for how, got in gradients(f, x):
        assert got.shape == np.shape(x) and got.dtype == np.asarray(x).dtype, how
        np.testing.assert_allclose(got, want, rtol=rtol, atol=atol, err_msg=how)
