"""Elementwise functions: of one operand, of two, of more."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import ml_dtypes
import numpy as np

from tests.peers.frame import Case, Spec, bfloat16, drawn, is_inexact

FLOATS = (np.float16, bfloat16, np.float32, np.float64)
COMPLEXES = (np.complex64, np.complex128)
INEXACT = FLOATS + COMPLEXES
INTS = (np.int8, np.uint8, np.int32, np.uint32, np.int64)
BOOL = (np.bool_,)
REAL = BOOL + INTS + FLOATS
ANY = REAL + COMPLEXES

Rng = np.random.Generator


def name(dtype: object) -> str:
    return np.dtype(dtype).name  # type: ignore[arg-type]


def edges(dtype: object) -> np.ndarray:
    """Zeros, ones, a huge and a small number, infinities and nan; the ends of an integer type."""
    kind = np.dtype(dtype)  # type: ignore[arg-type]
    if kind.kind in "iu":
        ends = np.iinfo(kind)
        return np.array([0, 1, ends.min, ends.max], kind)
    top = float(ml_dtypes.finfo(kind).max) if kind.kind != "c" else 1e30
    x = [0.0, -0.0, 1.0, -1.0, 0.5, top, -top, 1e-4, np.inf, -np.inf, np.nan]
    return np.array(x).astype(kind)


def unary(
    dtypes: tuple = ANY,
    low: float = -3.0,
    high: float = 3.0,
    at_edges: bool = True,
    ulps: float = 8,
    scale: str = "each",
    slope_ulps: float = 64,
    scalars: tuple = (True, 2, 0.5),
    edge_dtypes: tuple = (np.float32, np.float64, np.int32),
    **kwargs: object,
) -> Spec:
    """A function of one array, for each dtype, in several shapes, at special values."""

    def draw(rng: Rng) -> Iterator[Case]:
        for dtype in dtypes:
            yield Case(name(dtype), (drawn(rng, (2, 3), dtype, low, high),), kwargs)
        for shape in ((), (0,), (2, 0, 3)):
            yield Case(f"f32{shape}", (drawn(rng, shape, np.float32, low, high),), kwargs)
        yield Case("f64()", (drawn(rng, (), np.float64, low, high),), kwargs)
        if at_edges:
            for dtype in edge_dtypes:
                if dtype in dtypes:
                    yield Case(f"edges {name(dtype)}", (edges(dtype),), kwargs, diff=())
        for scalar in scalars:
            if low <= scalar <= high:
                yield Case(f"scalar {scalar}", (scalar,), kwargs)

    return Spec(draw, ulps, scale, slope_ulps=slope_ulps)


PAIRS = (
    (np.bool_, np.bool_), (np.int32, np.int32), (np.int8, np.uint8), (np.uint32, np.int32),
    (np.int64, np.int64), (np.int32, np.float16), (np.float16, np.float16), (np.float16, bfloat16),
    (bfloat16, np.float32), (np.float32, np.float32), (np.int64, np.float32),
    (np.float64, np.float64), (np.float32, np.float64), (np.bool_, np.complex64),
    (np.complex64, np.complex64), (np.complex64, np.float64), (np.complex128, np.complex128),
)  # fmt: skip
SAME = tuple((d, d) for d in ANY)


def binary(
    pairs: tuple = PAIRS,
    low: tuple[float, float] = (-3.0, -3.0),
    high: tuple[float, float] = (3.0, 3.0),
    at_edges: bool = True,
    scalars: tuple = (True, 2, 0.5, 1j),
    ulps: float = 8,
    scale: str = "each",
    shapes: tuple = (((2, 3), (3,)), ((2, 1), (1, 3)), ((), (3,)), ((0, 3), (1,)), ((), ())),
    second: Callable[[np.ndarray], np.ndarray] = lambda y: y,
    slope_ulps: float = 64,
) -> Spec:
    """A function of two arrays that promotes and broadcasts; Python scalars on either side."""

    def two(rng: Rng, shapes: tuple, dtypes: tuple) -> tuple[np.ndarray, np.ndarray]:
        (a, b), (s, t) = shapes, dtypes
        return drawn(rng, a, s, low[0], high[0]), second(drawn(rng, b, t, low[1], high[1]))

    def draw(rng: Rng) -> Iterator[Case]:
        first = shapes[0]
        for pair in pairs:
            yield Case(" ".join(map(name, pair)), two(rng, first, pair))
        own = [p for p in ((np.float32,) * 2, (np.float64,) * 2, (np.int32,) * 2) if p in pairs]
        for both in shapes[1:]:
            for pair in own[1:]:
                yield Case(f"{both} {name(pair[0])}", two(rng, both, pair))
        for pair in own if at_edges else ():
            x = edges(pair[0])
            yield Case(f"edges {name(pair[0])}", (x[:, None], second(x)), diff=())
        for dtype in (np.bool_, np.uint8, np.int32, bfloat16, np.float64, np.complex64):
            for scalar in scalars:
                if low[1] <= np.real(scalar) <= high[1] and any(dtype in p for p in pairs):
                    x = drawn(rng, (3,), dtype, low[0], high[0])
                    yield Case(f"{name(dtype)} with {scalar}", (x, scalar))
                    if dtype is bfloat16:
                        yield Case(f"{scalar} with {name(dtype)}", (scalar, second(x)))

    return Spec(draw, ulps, scale, slope_ulps=slope_ulps)


def each(names: str, spec: Spec, prefix: str = "numpy.") -> dict[str, Spec]:
    return {prefix + n: spec for n in names.split()}


REALS = tuple(p for p in PAIRS if not any(np.dtype(d).kind == "c" for d in p))
INT_PAIRS = tuple(p for p in PAIRS if not any(is_inexact(np.zeros(1, d)) for d in p))

NUMPY = {
    **each("abs absolute conj conjugate negative positive square sign real imag angle", unary()),
    **each("exp expm1 exp2 sinh cosh tanh sin cos tan", unary()),
    **each("arctan atan arcsinh asinh cbrt", unary()),
    **each("arcsin arccos asin acos", unary(low=-0.9, high=0.9)),
    # XLA's in float64 is wrong by 69 units for one of 1000 drawn numbers; NumPy's by none.
    **each("arctanh atanh", unary(low=-0.9, high=0.9, ulps=256)),
    **each("arccosh acosh", unary(low=1.1, high=4.0)),
    **each("sqrt log log2 log10 log1p reciprocal", unary(low=0.2, high=4.0)),
    **each("sinc", unary(scale="all")),
    **each("i0", unary(REAL)),
    **each("ceil floor rint trunc fabs degrees radians deg2rad rad2deg", unary()),
    **each("isfinite isinf isnan isneginf isposinf iscomplex isreal logical_not signbit", unary()),
    **each("iscomplexobj isrealobj", unary(at_edges=False)),
    **each("nan_to_num round around spacing frexp modf", unary()),
    **each("invert bitwise_not bitwise_invert bitwise_count", unary(BOOL + INTS)),
    # of two
    **each("add subtract multiply", binary()),
    **each("true_divide divide", binary(second=lambda y: y + (y == 0))),
    **each("equal not_equal less less_equal greater greater_equal maximum minimum", binary()),
    **each("logical_and logical_or logical_xor", binary()),
    **each("fmax fmin arctan2 atan2 copysign nextafter heaviside", binary()),
    **each("hypot logaddexp logaddexp2", binary()),
    **each("float_power", binary(low=(0.3, -3.0))),
    # An integer to a negative integer power is no integer.
    **each("power pow", binary(low=(0.3, 0.0), scalars=(2, 0.5, 3), second=abs)),
    **each("fmod mod remainder floor_divide divmod", binary(second=lambda y: y + (y == 0))),
    **each("bitwise_and bitwise_or bitwise_xor", binary(INT_PAIRS, scalars=(True, 2))),
    **each(
        "left_shift right_shift bitwise_left_shift bitwise_right_shift",
        binary(INT_PAIRS, low=(-3, 0), scalars=(True, 2)),
    ),
    **each("isclose", binary()),
}
