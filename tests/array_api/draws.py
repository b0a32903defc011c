"""What hypothesis draws: dtypes, shapes, arrays, axes, Python numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.array_api.oracle import DType

Draw = Any  # hypothesis' draw function

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
REAL_FLOATS = ("float32", "float64")
COMPLEXES = ("complex64", "complex128")
INTEGERS = SIGNED + UNSIGNED
FLOATS = REAL_FLOATS + COMPLEXES
REALS = INTEGERS + REAL_FLOATS
NUMBERS = INTEGERS + FLOATS
ALL = ("bool", *NUMBERS)

# Two dtypes of one row have a common one in the standard; those of different rows may not have.
PROMOTABLE = (
    ("bool",),
    SIGNED,
    UNSIGNED,
    SIGNED + UNSIGNED[:3],  # no signed type holds all of uint64
    FLOATS,
)

SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
VECTORS = hnp.array_shapes(min_dims=1, max_dims=1, min_side=0, max_side=6)
NOT_SCALARS = hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4)
NOT_EMPTY = hnp.array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=4)
STACKS = hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3)
MATRICES = hnp.array_shapes(min_dims=2, max_dims=4, min_side=0, max_side=3)

SPECIAL = (0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1.0, -1.0, 0.5, 2.0)


def elements(dtype: str, special: bool = True, bound: float = 100.0, low: Any = None) -> Any:
    """Elements of a dtype.

    Args:
        dtype: its name.
        special: whether nan, the infinities and zeros of both signs occur often.
        bound: the largest magnitude of the other floats, and of integers.
        low: the smallest real element; None for -bound, or 0 where nothing is below.
    """
    if dtype == "bool":
        return st.booleans()
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        least = max(info.min, -int(bound)) if low is None else max(info.min, int(low))
        return st.integers(least, min(info.max, int(bound)))
    if dtype in COMPLEXES:
        part = elements("float32" if dtype == "complex64" else "float64", False, bound)
        return st.builds(complex, part, part)
    width = 32 if dtype == "float32" else 64
    plain = st.floats(
        -bound if low is None else low, bound, width=width, allow_subnormal=False, allow_nan=False
    )
    return st.one_of(st.sampled_from(SPECIAL), plain) if special else plain


def arrays(dtype: str, shape: Any, special: bool = True, **limits: Any) -> Any:
    return hnp.arrays(dtype, shape, elements=elements(dtype, special, **limits))


def dtypes(names: tuple[str, ...]) -> Any:
    return st.sampled_from(names)


@st.composite
def any_array(
    draw: Draw, names: tuple[str, ...], shape: Any = SHAPES, special: bool = True, **limits: Any
) -> np.ndarray:
    return draw(arrays(draw(dtypes(names)), shape, special, **limits))


@st.composite
def maybe_dtype(draw: Draw, names: tuple[str, ...] = ALL) -> DType | None:
    return draw(st.none() | st.builds(DType, dtypes(names)))


@st.composite
def promotable_dtypes(draw: Draw, names: tuple[str, ...], count: int) -> list[str]:
    rows = [kept for row in PROMOTABLE if (kept := tuple(d for d in row if d in names))]
    row = draw(st.sampled_from(rows))
    return [draw(dtypes(row)) for _ in range(count)]


@st.composite
def shapes_that_broadcast(draw: Draw, count: int) -> tuple[tuple[int, ...], ...]:
    drawn = draw(
        hnp.mutually_broadcastable_shapes(
            num_shapes=count, min_dims=0, max_dims=3, min_side=0, max_side=3
        )
    )
    return drawn.input_shapes


def scalar_like(dtype: str) -> Any:
    """A Python number of the kind of a dtype, or of one below."""
    if dtype == "bool":
        return st.booleans()
    whole = st.integers(0 if dtype in UNSIGNED else -5, 5)
    if dtype in INTEGERS:
        return whole
    real = st.one_of(whole, st.floats(-5, 5, width=32, allow_subnormal=False))
    if dtype in REAL_FLOATS:
        return real
    return st.one_of(
        real, st.builds(complex, st.floats(-5, 5, width=16), st.floats(-5, 5, width=16))
    )


@st.composite
def axis_of(draw: Draw, x: np.ndarray) -> int:
    return draw(st.integers(-x.ndim, x.ndim - 1))


@st.composite
def axes_of(draw: Draw, x: np.ndarray) -> int | tuple[int, ...] | None:
    """What axis= of a reduction may be; a tuple names no dimension twice."""
    if x.ndim == 0:
        return draw(st.sampled_from([None, ()]))
    chosen = draw(st.lists(st.integers(0, x.ndim - 1), unique=True, max_size=x.ndim))
    some = tuple(a - x.ndim if draw(st.booleans()) else a for a in chosen)
    return draw(st.one_of(st.none(), axis_of(x), st.just(some)))
