"""Random programs run natively and by NumPy's kernels: fusion must not change what they give.

    MGEFN_FUZZ_PROGRAMS=50000 python -m pytest -n 2 tests/compiler/test_fusion_fuzz.py

draws that many programs instead of the few of a normal run. They are new every day;
MGEFN_TEST_SEED=... repeats those of a failure, which names its program's number.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import lax

PROGRAMS = int(os.environ.get("MGEFN_FUZZ_PROGRAMS", "160"))
SEED = int(os.environ.get("MGEFN_TEST_SEED") or datetime.date.today().strftime("%Y%m%d"))
BATCHES = 16

DTYPES = ("float32", "float64", "float32", "float64", "complex64", "complex128")
# Jumps stand at odd places: two values that are equal in exact arithmetic may round differently.
UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": lambda x: -x,
    "square": mnp.square,
    "abs": mnp.abs,
    "sin": mnp.sin,
    "tanh": mnp.tanh,
    "exp": lambda x: mnp.exp(mnp.clip(x, -3, 3)),
    "sqrt": lambda x: mnp.sqrt(mnp.abs(x) + 1),
    "floor": lambda x: mnp.floor(x * 1.37 + 0.241),
    "sign": lambda x: mnp.sign(x + 0.237),
    "logistic": lambda x: 1 / (1 + mnp.exp(-mnp.clip(x, -5, 5))),
    "gate": lambda x: mnp.where(x > 0.1, x, 0.5 * x),
    "cast": lambda x: (x * 1.3 + 0.31).astype("int32").astype(x.dtype),
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * mnp.clip(y, -4, 4),
    "max": mnp.maximum,
    "min": mnp.minimum,
    "div": lambda x, y: x / (1 + mnp.abs(y)),
    "pick": lambda x, y: mnp.where(x < 0.137, x, 2 * y),
}
REDUCTIONS = {"sum": mnp.mean, "max": mnp.max, "min": mnp.min, "var": mnp.var}


def inside(x: Any) -> Any:
    """A number of the unit disk, where functions grow little; off poles and branch cuts."""
    return x / (1 + mnp.abs(x))


# Where the program's dtype is complex; some values are real even so.
COMPLEX_UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": lambda x: -x,
    "conj": mnp.conj,
    "square": lambda x: mnp.square(inside(x)),
    "abs": mnp.abs,
    "real": mnp.real,
    "turned": lambda x: x * (0.6 + 0.8j),
    "sin": lambda x: mnp.sin(inside(x)),
    "tanh": lambda x: mnp.tanh(inside(x)),
    "exp": lambda x: mnp.exp(2 * inside(x)),
    "log": lambda x: mnp.log(inside(x) + 2),
    "sqrt": lambda x: mnp.sqrt(inside(x) + 2),
    "power": lambda x: inside(x) ** 3,
    "gate": lambda x: mnp.where(x.real > 0.1, x, 0.5 * x),
    "parts": lambda x: lax.complex(x.imag * 0.5, x.real),
    "cast": lambda x: (x.real * 1.3 + 0.31).astype("int32") * x,
}
COMPLEX_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * inside(y),
    "div": lambda x, y: x / (2 + inside(y)),
    "joined": lambda x, y: lax.complex(*mnp.broadcast_arrays(x.real, y.real)),
    "pick": lambda x, y: mnp.where(x.real < 0.137, x, 2 * y),
}
COMPLEX_REDUCTIONS = {"sum": mnp.mean, "var": mnp.var}


class Draw:
    """One program, drawn step by step while it runs; the same seed draws the same one."""

    def __init__(self, seed: int):
        rng = np.random.default_rng(seed)
        self.seed = int(rng.integers(1 << 31))
        self.dtype = str(rng.choice(DTYPES))
        self.complex = self.dtype.startswith("complex")
        self.unary = COMPLEX_UNARY if self.complex else UNARY
        self.binary = COMPLEX_BINARY if self.complex else BINARY
        self.reductions = COMPLEX_REDUCTIONS if self.complex else REDUCTIONS
        rank = int(rng.integers(0, 4))
        sizes = (1, 2, 3, 5, 8, 17, 40)
        self.shape = tuple(int(n) for n in rng.choice(sizes, rank))
        self.inputs = [self._array(rng, self._part(rng)) for _ in range(int(rng.integers(1, 4)))]
        self.steps = int(rng.integers(1, 22))

    def _part(self, rng: np.random.Generator) -> tuple[int, ...]:
        """A shape that broadcasts against the program's."""
        shape = [n if rng.random() < 0.8 else 1 for n in self.shape]
        drop = int(rng.integers(0, len(shape) + 1)) if rng.random() < 0.3 else 0
        return tuple(shape[drop:])

    def _array(self, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        x = rng.uniform(-2, 2, shape)
        return np.asarray(x + 1j * rng.uniform(-2, 2, shape) if self.complex else x, self.dtype)

    def __call__(self, *inputs: Any) -> list[Any]:
        rng = np.random.default_rng(self.seed)
        values = [mnp.asarray(x) for x in inputs]
        for _ in range(self.steps):
            values.append(self._step(rng, values))
        return values[len(inputs) :][-1:-4:-1]

    def _step(self, rng: np.random.Generator, values: list[Any]) -> Any:
        x = values[int(rng.integers(len(values)))]
        kind = rng.choice(
            ["unary", "binary", "reduce", "view", "index", "loop", "product"],
            p=[0.3, 0.3, 0.16, 0.14, 0.04, 0.03, 0.03],
        )
        if kind == "unary":
            return self.unary[str(rng.choice(list(self.unary)))](x)
        if kind == "binary":
            y = values[int(rng.integers(len(values)))]
            try:
                np.broadcast_shapes(x.shape, y.shape)
            except ValueError:
                y = y.mean()
            return self.binary[str(rng.choice(list(self.binary)))](x, y)
        if kind == "reduce":
            axes = tuple(i for i in range(x.ndim) if rng.random() < 0.5)
            of = self.reductions[str(rng.choice(list(self.reductions)))]
            return of(x, axis=axes, keepdims=bool(rng.random() < 0.6))
        if kind == "index":
            if x.ndim == 0:
                return x * 2
            n = x.shape[0]
            return x + mnp.arange(n, dtype=self.dtype).reshape((n,) + (1,) * (x.ndim - 1)) / n
        if kind == "loop":
            bounded = inside if self.complex else mnp.tanh
            body = lambda c, i: (bounded(c) * 0.9 + i, None)
            return lax.scan(body, x.astype(self.dtype), mnp.arange(3, dtype=self.dtype) / 3)[0]
        if kind == "product" and x.ndim == 2:
            return x @ x.T / x.shape[1]
        return self._view(rng, x)

    def _view(self, rng: np.random.Generator, x: Any) -> Any:
        what = rng.choice(["transpose", "flip", "slice", "reshape", "broadcast", "pad"])
        if what == "pad" and x.ndim:
            low, high = rng.integers(-1, 3, (2, x.ndim))
            config = [
                (int(lo), max(int(hi), 1 - n - int(lo)), int(rng.random() < 0.05))
                for lo, hi, n in zip(low, high, x.shape, strict=True)
            ]
            value = x.dtype.type(0.5) if rng.random() < 0.5 else x.ravel()[0]
            return lax.pad(x, value, config)
        if what == "transpose":
            return mnp.transpose(x, tuple(int(i) for i in rng.permutation(x.ndim)))
        if what == "flip" and x.ndim:
            return mnp.flip(x, int(rng.integers(x.ndim)))
        if what == "slice" and x.ndim:
            axis = int(rng.integers(x.ndim))
            at = [slice(None)] * x.ndim
            at[axis] = slice(int(rng.integers(0, x.shape[axis])), None, int(rng.integers(1, 3)))
            return x[tuple(at)]
        if what == "reshape":
            return x.reshape(-1) if rng.random() < 0.5 else x[None]
        return mnp.broadcast_to(x, (2, *x.shape)) if x.size < 4000 else x


def check(seed: int) -> None:
    program = Draw(seed)
    natively = mgefn.jit(program, backend="llvm")(*program.inputs)
    by_numpy = mgefn.jit(program, backend="numpy")(*program.inputs)
    tolerance = 2e-4 if program.dtype in ("float32", "complex64") else 1e-10
    for got, want in zip(natively, by_numpy, strict=True):
        assert got.shape == want.shape and got.dtype == want.dtype
        wide = "complex128" if program.complex else "float64"
        got, want = np.asarray(got, wide), np.asarray(want, wide)
        size = max(1.0, np.abs(want).max(initial=0.0))
        np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * size)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_native_programs_give_what_numpy_gives(batch: int) -> None:
    for i in range(batch, PROGRAMS, BATCHES):
        try:
            check(SEED * 100_000 + i)
        except Exception as error:
            error.add_note(f"program {SEED * 100_000 + i}")
            raise


def test_the_check_sees_a_wrong_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    from mgefn.backends.llvm_kernels import elementwise

    monkeypatch.setattr(elementwise.subtract, "emit", elementwise.add.emit)
    inputs = [np.ones((3, 4), "float32")] * 2
    wrong = mgefn.jit(lambda x, y: (x - y) * 1.0625, backend="llvm")(*inputs)
    right = mgefn.jit(lambda x, y: (x - y) * 1.0625, backend="numpy")(*inputs)
    assert not np.allclose(np.asarray(wrong), np.asarray(right))
