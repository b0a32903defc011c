"""Specs written as rows: each row is a call, with `A(...)` where a drawn array goes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.peers.frame import Case, Spec, drawn, normal

Rng = np.random.Generator
How = Callable[[Rng, tuple[int, ...], np.dtype], np.ndarray]

f16, f32, f64, c64, c128 = np.float16, np.float32, np.float64, np.complex64, np.complex128
i8, u8, i32, u32, i64, b1 = np.int8, np.uint8, np.int32, np.uint32, np.int64, np.bool_


def uniform(low: float = -3.0, high: float = 3.0) -> How:
    return lambda rng, shape, dtype: drawn(rng, shape, dtype, low, high)


def distinct(rng: Rng, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """No two elements are equal."""
    x = rng.permutation(int(np.prod(shape))).reshape(shape)
    x = x - x.size // 2 if dtype.kind != "u" else x
    return (x * 0.75 if dtype.kind not in "iu" else x).astype(dtype)


def increasing(rng: Rng, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Increasing along the last axis, with gaps."""
    steps = rng.uniform(0.3, 1.0, shape) if dtype.kind not in "iu" else rng.integers(1, 3, shape)
    return np.cumsum(steps, axis=-1).astype(dtype)


def positive(rng: Rng, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return drawn(rng, shape, dtype, 0.3, 2.5)


def unit(rng: Rng, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return drawn(rng, shape, dtype, 0.05, 0.95)


def well(rng: Rng, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Well conditioned: the diagonal dominates, with entries that are apart."""
    x = normal(rng, shape, dtype) * 0.4
    n = min(shape[-2:])
    k = np.arange(n)
    x[..., k, k] += (2 + k) * np.where(k % 2, -1, 1)
    return x.astype(dtype)


def hermitian(rng: Rng, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    x = well(rng, shape, dtype)
    return ((x + np.conj(np.swapaxes(x, -1, -2))) / 2).astype(dtype)


def spd(rng: Rng, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Hermitian, with positive eigenvalues that are apart."""
    x = normal(rng, shape, dtype) * 0.4
    k = np.arange(shape[-1])
    x = x @ np.conj(np.swapaxes(x, -1, -2))
    x[..., k, k] += 1 + k
    return x.astype(dtype)


@dataclass(frozen=True)
class A:
    """An array to be drawn."""

    dtype: Any
    shape: tuple[int, ...] = (2, 3)
    how: How = field(default=uniform(), repr=False)

    def __repr__(self) -> str:
        return f"{np.dtype(self.dtype).name}{list(self.shape)}"

    def draw(self, rng: Rng) -> np.ndarray:
        return self.how(rng, self.shape, np.dtype(self.dtype))


@dataclass(frozen=True)
class R:
    """A row: positional arguments, and keyword arguments of the function."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    call: Callable[..., Any] | None = None
    diff: Sequence[int] | None = None
    modes: tuple[str, ...] | None = None


def r(
    *args: Any,
    call: Callable[..., Any] | None = None,
    diff: Sequence[int] | None = None,
    modes: tuple[str, ...] | None = None,
    **kwargs: Any,
) -> R:
    return R(args, kwargs, call, diff, modes)


def fill(x: Any, rng: Rng) -> Any:
    if isinstance(x, A):
        return x.draw(rng)
    if isinstance(x, tuple | list):
        return type(x)(fill(v, rng) for v in x)
    if isinstance(x, dict):
        return {k: fill(v, rng) for k, v in x.items()}
    return x


def shown(x: Any) -> str:
    if isinstance(x, np.ndarray):
        return f"{x.dtype.name}{list(x.shape)}"
    if isinstance(x, type):
        return x.__name__
    if isinstance(x, tuple | list):
        return f"({', '.join(map(shown, x))})"
    return "f" if callable(x) else repr(x)


def rows(
    *given: R | Iterable[R],
    call: Callable[..., Any] | None = None,
    ulps: float = 8,
    scale: str = "all",
    share: float = 1.0,
    slope_ulps: float = 256,
    diff: Sequence[int] | None = None,
    extra: dict[str, Any] | None = None,
    modes: tuple[str, ...] | None = None,
) -> Spec:
    """A spec from rows; what is given here holds for every row that does not say otherwise."""
    every = [row for g in given for row in ([g] if isinstance(g, R) else g)]

    def draw(rng: Rng) -> Iterator[Case]:
        for row in every:
            kwargs = (extra or {}) | row.kwargs
            said = [shown(a) for a in row.args] + [f"{k}={shown(v)}" for k, v in kwargs.items()]
            yield Case(
                " ".join(said) or "plain",
                fill(row.args, rng),
                fill(kwargs, rng),
                row.call or call,
                diff if row.diff is None else row.diff,
                modes if row.modes is None else row.modes,
            )

    return Spec(draw, ulps, scale, share, slope_ulps)


def over(dtypes: Iterable[Any], row: Callable[[Any], R | Iterable[R]]) -> list[R]:
    """The rows for each dtype."""
    found = [row(d) for d in dtypes]
    return [x for g in found for x in ([g] if isinstance(g, R) else g)]


def each(names: str, spec: Spec, prefix: str = "numpy.") -> dict[str, Spec]:
    return {prefix + n: spec for n in names.split()}
