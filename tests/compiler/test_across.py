"""Kernels whose vectors run across short rows, against NumPy's kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn.compiler.kernel import ACROSS, MOST_ACROSS
from mgefn.nn import softmax
from tests.checks import layouts

# The last ones are long enough for more than one chunk.
SHAPES = [(64, 3), (1000, 2), (7, 100, 8), (50, 40, 2), (100, 5, 7), (40_001, 3), (3, 9000, 4)]
EXACT: dict[str, Callable[[Any], Any]] = {
    "last": lambda x: mnp.sum(x, -1),
    "first": lambda x: mnp.sum(x, 0),
    "middle": lambda x: mnp.sum(x, -2),
    "product": lambda x: mnp.prod(x, -1),
    "all_but_last": lambda x: mnp.max(x, tuple(range(x.ndim - 1))),
    "shifted": lambda x: x - x.max(-1, keepdims=True),
    "both": lambda x: (x.sum(tuple(range(x.ndim - 1))), (x * 2).min(-1)),
    "argmax": lambda x: mnp.argmax(x, -1),
    "positions": lambda x: mnp.sum(mnp.arange(x.shape[-2])[:, None] * x, -1),
    "reversed": lambda x: mnp.sum(x[..., ::-1, ::-1] - x, -1),
    "scalar_beside": lambda x: (mnp.sum(x * 2, -1), x.reshape(-1)[0] + 1),
}
FLOATING: dict[str, Callable[[Any], Any]] = {
    "softmax": softmax,
    "softmax_grad": mgefn.grad(lambda x: (softmax(x) ** 2).sum()),
    "var": lambda x: mnp.var(x, -1),
    "normalised": lambda x: mnp.exp(x) / mnp.sum(mnp.exp(x), -1, keepdims=True),
}
TOLERANCE = {"float16": 1e-2, "float32": 1e-4, "float64": 1e-10, "int32": 0.0}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_the_same_as_numpy(shape: tuple[int, ...], dtype: str) -> None:
    x = np.asarray(np.random.default_rng(0).normal(0, 2, shape)).astype(dtype)
    names = EXACT if dtype == "int32" else EXACT | FLOATING
    for name, f in names.items():
        got, want = (mgefn.jit(f, backend=backend)(x) for backend in ("llvm", "numpy"))
        for a, b in zip(mgefn.tree.leaves(got), mgefn.tree.leaves(want), strict=True):
            assert a.dtype == b.dtype
            b = np.asarray(b, "float64")
            size = np.abs(b[np.isfinite(b)]).max(initial=1.0)
            limit = TOLERANCE[dtype] * size
            np.testing.assert_allclose(np.asarray(a, "float64"), b, 0, limit, err_msg=name)


def test_which_rows_are_short() -> None:
    total = lambda x: mnp.sum(x * x, -1)
    assert layouts(total, np.ones((1000, 3), "float32")) == {ACROSS}
    assert layouts(total, np.ones((1000, MOST_ACROSS), "float32")) == {ACROSS}
    assert ACROSS not in layouts(total, np.ones((1000, MOST_ACROSS + 1), "float32"))
    assert ACROSS not in layouts(total, np.ones((4, 3), "float32"))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_any_number_of_threads_gives_the_same_bits(threads: int) -> None:
    x = np.random.default_rng(1).normal(size=(60_000, 3)).astype("float32")
    f = mgefn.jit(lambda x: (mnp.sum(mnp.sin(x), 0), softmax(x)))
    with mgefn.config.override(num_threads=1):
        want = f(x)
    with mgefn.config.override(num_threads=threads):
        for got, right in zip(f(x), want, strict=True):
            assert np.asarray(got).tobytes() == np.asarray(right).tobytes()
