"""Arrays that are padded, read from the memory of what is not padding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mgefn
import mgefn.numpy as mnp
from mgefn import lax
from mgefn.compiler import native

RNG = np.random.default_rng(0)


def drawn(*shape: int, dtype: str = "float32") -> np.ndarray:
    x = RNG.uniform(-3, 3, shape)
    return np.asarray(x + 1j * RNG.uniform(-3, 3, shape) if "c" in dtype else x).astype(dtype)


def kernels(fun: Callable[..., Any], *args: Any) -> list[str]:
    """The labels of the native steps; "pad" is one that writes a padded array."""
    report = mgefn.jit(fun, backend="llvm").lower(*args).compile().report()
    return [step.operations for step in report.steps]


def check(fun: Callable[..., Any], *args: Any, fused: bool = True) -> None:
    """The native program gives what NumPy's kernels give, and pads nothing in memory if `fused`."""
    got = mgefn.tree.leaves(mgefn.jit(fun, backend="llvm")(*args))
    want = mgefn.tree.leaves(mgefn.jit(fun, backend="numpy")(*args))
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape and g.dtype == w.dtype
        np.testing.assert_allclose(g, w, rtol=2e-5, atol=2e-5)
    if native.enabled():
        assert ("pad" in kernels(fun, *args)) != fused


def padded(x: Any, value: Any, *config: tuple[int, int]) -> Any:
    return lax.pad(x, mnp.asarray(value, x.dtype), [(low, high, 0) for low, high in config])


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "elementwise": lambda x: padded(x, 0, (1, 2), (3, 4)) * 2,
    "a sum of rows": lambda x: padded(x, 7, (1, 2), (3, 4)).sum(1),
    "a sum of columns": lambda x: padded(x, 7, (1, 2), (3, 4)).sum(0),
    "a sum of all": lambda x: padded(x, 7, (1, 2), (3, 4)).sum(),
    "cropped": lambda x: padded(x, 3, (-1, 2), (3, -4)) * 2,
    "only cropped": lambda x: padded(x, 3, (-1, -2), (0, -4)) * 2,
    "all cropped but for padding": lambda x: padded(x, 3, (-40, 70), (0, 0)) * 2,
    "rows only": lambda x: padded(x, 1, (2, 1), (0, 0)) + 1,
    "columns only": lambda x: padded(x, 1, (0, 0), (2, 1)) + 1,
    "twice": lambda x: padded(padded(x, 3, (1, 2), (3, 4)), 3, (1, 1), (-2, 5)) * 2,
    "a value of the program": lambda x: padded(x, x[0, 0] + 1, (1, 2), (3, 4)) * 2,
    "a view of it": lambda x: padded(x, 3, (1, 2), (3, 4)).T[::2, ::-3] * 2,
    "a row of it": lambda x: padded(x, 3, (1, 2), (3, 4))[4] * 2,
    "with an axis more": lambda x: padded(x, 3, (1, 2), (3, 4))[:, None] * mnp.ones((3, 1)),
    "repeated along a row": lambda x: padded(x[:, 0], 3, (1, 2))[:, None] * mnp.ones((1, 9)),
    "repeated along a column": lambda x: padded(x[0], 3, (1, 2))[None] * mnp.ones((9, 1)),
    "of what is repeated": lambda x: padded(
        mnp.broadcast_to(x[:1], (9, x.shape[1])), 3, (1, 2), (0, 1)
    )
    * 2,
    "of one row": lambda x: padded(x[:1], 3, (3, 2), (0, 1)) * 2,
    "of one column": lambda x: padded(x[:, :1], 3, (3, 2), (2, 1)) * 2,
    "of a number": lambda x: padded(x[:1, :1], 3, (3, 2), (2, 1)) * 2,
    "short rows": lambda x: padded(x[:, :2], 3, (1, 0), (1, 1)) * 2,
    "sums of short rows": lambda x: padded(x[:, :2], 3, (1, 0), (1, 1)).sum(1),
    "columns of short rows": lambda x: padded(x[:, :2], 3, (1, 0), (1, 1)).sum(0),
    "softmax": lambda x: mgefn.nn.softmax(padded(x, -np.inf, (0, 0), (1, 1)), axis=1),
    "several at once": lambda x: sum(
        padded(x[:, i:], i, (i, 0), (i, 0))[i:] for i in range(min(3, x.shape[1]))
    ),
    "two that read the same": lambda x: (padded(x, 0, (1, 0), (0, 0))[:-1] - x, mnp.tanh(x)),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("shape", [(30, 40), (5, 6), (3000, 5), (5, 3000)])
def test_what_reads_a_padded_array(name: str, shape: tuple[int, int]) -> None:
    check(FUNCTIONS[name], drawn(*shape))


@pytest.mark.parametrize(
    "dtype", ["float64", "float16", "int32", "uint8", "bool", "complex64", "complex128"]
)
@pytest.mark.parametrize(
    "name", ["elementwise", "cropped", "a view of it", "of one column", "repeated along a row"]
)
def test_every_dtype(name: str, dtype: str) -> None:
    def fun(x: Any) -> Any:
        y = FUNCTIONS[name](x)
        return mnp.where(y == 0, mnp.ones((), y.dtype), y)

    check(fun, drawn(30, 40, dtype=dtype))


MATERIALISED: dict[str, Callable[[Any], Any]] = {
    "a result": lambda x: padded(x, 0, (1, 2), (3, 4)),
    "an operand of a product": lambda x: padded(x, 0, (0, 0), (1, 2)) @ mnp.ones((43, 2), x.dtype),
    "sorted": lambda x: mnp.sort(padded(x, 0, (1, 2), (3, 4))),
    "a flat view": lambda x: padded(x, 0, (1, 2), (3, 4)).reshape(-1) * 2,
    "with elements between": lambda x: lax.pad(x, x.dtype.type(0), ((0, 0, 1), (0, 0, 2))) * 2,
    "around another value": lambda x: padded(padded(x, 3, (1, 2), (3, 4)), 2, (1, 1), (2, 5)) * 2,
    "a result that is read too": lambda x: (
        padded(x, 0, (1, 2), (3, 4)),
        padded(x, 0, (1, 2), (3, 4)) * 2,
    ),
}


@pytest.mark.parametrize("name", MATERIALISED)
def test_what_needs_memory_gets_it(name: str) -> None:
    check(MATERIALISED[name], drawn(30, 40), fused=False)


def test_zero_sizes() -> None:
    for shape in ((0, 3), (3, 0)):
        fun = lambda x: padded(x, 2, (1, 1), (1, 0)) * 2
        np.testing.assert_array_equal(mgefn.jit(fun)(drawn(*shape)), fun(drawn(*shape)))
    empty = lambda x: padded(x, 2, (-3, 0), (0, 0)) * 2
    assert mgefn.jit(empty)(drawn(3, 4)).shape == (0, 4)


def test_gradients_of_slices_are_added_up_in_one_loop() -> None:
    def fun(x: Any) -> Any:
        return sum((i + 1) * x[i : x.shape[0] - 4 + i] ** 2 for i in range(5)).sum()

    grad = mgefn.grad(fun)
    check(grad, drawn(1000))
    check(mgefn.vmap(grad), drawn(10, 1000))
    check(mgefn.grad(lambda x: (grad(x) ** 2).sum()), drawn(100))


@given(st.data())
def test_drawn_paddings(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 3))
    shape = tuple(data.draw(st.integers(1, 9)) for _ in range(rank))
    x = mnp.asarray(np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1)
    value = data.draw(st.sampled_from([0.0, -0.0, 2.5, np.nan]))

    def config(shape: tuple[int, ...]) -> list[tuple[int, int]]:
        edges = []
        for n in shape:
            low = data.draw(st.integers(-n, 4))
            edges.append((low, data.draw(st.integers(max(-n - low, -n), 4))))
        return edges

    first = config(shape)
    again = config(padded(x, value, *first).shape) if data.draw(st.booleans()) else None
    turned = data.draw(st.permutations(range(rank)))
    steps = [data.draw(st.sampled_from([1, 2, -1, -3])) for _ in range(rank)]
    reduced = data.draw(st.sampled_from([None, *range(rank)]))

    def fun(x: Any) -> Any:
        y = padded(x, value, *first)
        if again is not None:
            y = padded(y, value, *again)
        y = mnp.transpose(y, turned)[tuple(slice(None, None, s) for s in steps)]
        return mnp.cos(y) if reduced is None else (y * 2).sum(reduced)

    got = mgefn.jit(fun, backend="llvm")(x)
    np.testing.assert_allclose(got, fun(x), rtol=1e-5, atol=1e-5)
