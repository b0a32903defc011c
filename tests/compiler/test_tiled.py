"""Kernels that walk memory down its columns tile by tile, against NumPy's kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn.compiler.kernel import ROWS, TILED
from tests.checks import layouts

SHAPES = [(200, 200), (131, 300), (1000, 17), (17, 1000), (513, 400)]
PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y.T,
    "choose": lambda x, y: mnp.where(x > y.T, x, y.T),
    "positions": lambda x, y: x * 2 + mnp.arange(x.shape[0])[:, None] + y.T[::-1],
    "several": lambda x, y: (x - y.T, (x + 1) * y.T),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_same_as_numpy(name: str, shape: tuple[int, int]) -> None:
    f, rng = PROGRAMS[name], np.random.default_rng(0)
    for dtype in (np.float32, np.float64, np.int32, np.int8, mnp.bfloat16, np.complex64):
        x, y = (np.asarray(rng.normal(0, 3, s)).astype(dtype) for s in (shape, shape[::-1]))
        got, want = (mgefn.jit(f, backend=backend)(x, y) for backend in ("llvm", "numpy"))
        for a, b in zip(mgefn.tree.leaves(got), mgefn.tree.leaves(want), strict=True):
            assert a.dtype == b.dtype
            limit = 1e-2 if dtype is mnp.bfloat16 else 1e-6
            wide = "complex128" if dtype is np.complex64 else "float64"
            np.testing.assert_allclose(np.asarray(a, wide), np.asarray(b, wide), limit, 1e-5)


def test_which_programs_run_in_tiles() -> None:
    x = np.ones((200, 300), np.float32)
    assert layouts(lambda x, y: x + y.T, x, x.T.copy()) == {TILED}
    assert TILED not in layouts(lambda x, y: x + y, x, x)
    assert layouts(lambda x, y: x + y.T, x[:20, :20].copy(), x[:20, :20].copy()) == {ROWS}


@pytest.mark.parametrize("threads", [2, 3])
def test_any_number_of_threads_gives_the_same_bits(threads: int) -> None:
    x = np.random.default_rng(1).normal(size=(700, 900)).astype("float32")
    f = mgefn.jit(lambda x: mnp.sin(x) + x.reshape(900, 700).T)
    with mgefn.config.override(num_threads=1):
        want = f(x)
    with mgefn.config.override(num_threads=threads):
        assert np.asarray(f(x)).tobytes() == np.asarray(want).tobytes()


REDUCED: dict[str, Callable[[Any, Any], Any]] = {
    "all": lambda x, y: (x + y.T).sum(),
    "rows": lambda x, y: (x * y.T).sum(1),
    "columns": lambda x, y: (x * y.T).sum(0),
    "softmax": lambda x, y: mgefn.nn.softmax(x - y.T, axis=1),
    "twice": lambda x, y: ((x - y.T) ** 2 + y.T[::-1]).max(1),
    "repeated": lambda x, y: (x * y.T * y[:, :1].T[:, ::-1]).sum(1),
    "padded": lambda x, y: (x + mnp.pad(y[1:], ((1, 0), (0, 0))).T).sum(1),
    "batched": lambda x, y: (x[None] + mnp.stack([y, y * 2]).transpose(0, 2, 1)).sum((0, 2)),
}


@pytest.mark.parametrize("name", REDUCED)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_reductions_of_what_lies_otherwise(name: str, shape: tuple[int, int]) -> None:
    f, rng = REDUCED[name], np.random.default_rng(0)
    for dtype in (np.float32, np.float64, mnp.bfloat16):
        x, y = (np.asarray(rng.normal(0, 1, s)).astype(dtype) for s in (shape, shape[::-1]))
        got, want = (mgefn.jit(f, backend=backend)(x, y) for backend in ("llvm", "numpy"))
        assert got.dtype == want.dtype
        limit = 5e-2 if dtype is mnp.bfloat16 else 1e-4
        np.testing.assert_allclose(
            np.asarray(got, "float64"), np.asarray(want, "float64"), limit, 5 * limit
        )


def test_a_reduction_copies_what_it_would_walk_down() -> None:
    x = np.ones((300, 200), np.float32)
    report = mgefn.jit(REDUCED["rows"]).lower(x, x.T.copy()).compile().report()
    assert [s.operations for s in report.steps if s.kind != "view"] == ["reshape", "mul+reduce_sum"]
    few = mgefn.jit(REDUCED["rows"]).lower(x[:20, :20].copy(), x[:20, :20].copy()).compile()
    assert len([s for s in few.report().steps if s.kind != "view"]) == 1
