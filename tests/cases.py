"""One row for each configuration of each primitive: what it computes and where it is smooth.

`tests/test_primitives.py` runs every checker of `tests/checks.py` on every row, and fails on a
primitive of the package without a row. A row's function binds the primitive itself or calls the
public function that does little else. The reference is NumPy (or a loop written here), never the
package.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import scipy.special

import mgefn
from mgefn.control import (
    branching,
    callbacks,
    checkpoint,
    checks,
    custom_batching,
    custom_rules,
    implicit,
    linear_call,
    loops,
    scan,
)
from mgefn.control import reduce as reduce_module
from mgefn.control.linalg import eigen, lu, qr, spread, svd, triangular, tridiagonal
from mgefn.core.primitive import Primitive
from mgefn.interpreters.jit import jit_p
from mgefn.ops import collectives as co
from mgefn.ops import contractions as c
from mgefn.ops import convolution, random_bits, windows
from mgefn.ops import cumulative as u
from mgefn.ops import elementwise as e
from mgefn.ops import fft as fourier
from mgefn.ops import indexing as i
from mgefn.ops import reductions as r
from mgefn.ops import shaping as s
from mgefn.ops import sorting as o
from mgefn.ops import special as f

Draw = Callable[[np.random.Generator, np.dtype], tuple]

FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEXES = ("complex64", "complex128")
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTS = SIGNED + UNSIGNED
BOOL = ("bool",)
INEXACT = FLOATS + COMPLEXES
NUMBERS = INTS + INEXACT
ORDERED = BOOL + INTS + FLOATS
ANY = BOOL + NUMBERS


@dataclass(frozen=True)
class OpCase:
    """A primitive with its parameters.

    Args:
        name: the row's, unique.
        primitive: which primitive the row is for.
        fun: a function of arrays.
        reference: the same in NumPy. Of float and complex arguments it gets 64-bit copies, unless
            `own_dtype`. None where the values are checked elsewhere; the row then says where.
        draw: (rng, dtype) -> arguments away from points where fun is not smooth.
        dtypes: where it is defined; the derivatives are checked in float64 and complex128.
        edges: draws of further arguments, of size zero and rank 0, for values, shapes and batches.
        differentiable: which arguments; None: all that are floating or complex.
        linear: the sets of arguments in which fun is linear.
        ulps: largest error of a value in units of its dtype's rounding.
        second_order: check second derivatives.
        own_dtype: the reference depends on the dtype's bits.
        skip: name of a checker -> why it does not apply.
    """

    name: str
    primitive: Primitive
    fun: Callable[..., Any]
    reference: Callable[..., Any] | None
    draw: Draw
    dtypes: tuple[str, ...] = ("float32", "float64")
    edges: tuple[Draw, ...] = ()
    differentiable: tuple[int, ...] | None = None
    linear: tuple[tuple[int, ...], ...] = ()
    ulps: float = 4
    second_order: bool = True
    own_dtype: bool = False
    skip: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return self.name


def dtype_of(name: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


# -- draws ----------------------------------------------------------------------------------------


def sample(rng: np.random.Generator, dtype: np.dtype, low: float, high: float, shape: Any) -> Any:
    """Numbers in [low, high) of any dtype; of complex ones both parts lie there."""
    if dtype.kind == "b":
        return np.asarray(rng.random(shape) < 0.5)
    if dtype.kind == "u":
        return np.asarray(rng.integers(0, max(2, math.ceil(abs(high) * 4)), shape)).astype(dtype)
    if dtype.kind == "i":
        return np.asarray(rng.integers(math.floor(low * 4), math.ceil(high * 4), shape)).astype(
            dtype
        )
    x = np.asarray(rng.uniform(low, high, shape))
    if dtype.kind == "c":
        x = x + 1j * rng.uniform(low, high, shape)
    return np.asarray(x).astype(dtype)


def within(low: float, high: float, *shapes: tuple[int, ...]) -> Draw:
    return lambda rng, dtype: tuple(sample(rng, dtype, low, high, shape) for shape in shapes)


def normal(*shapes: tuple[int, ...]) -> Draw:
    """Numbers around 0, none of them near it (within 0.05), and no two of them near each other."""

    def draw(rng: np.random.Generator, dtype: np.dtype) -> tuple:
        if dtype.kind in "biu":
            return tuple(sample(rng, dtype, -2, 2, shape) for shape in shapes)
        total = sum(math.prod(shape) for shape in shapes)
        # A shuffled grid with jitter: ties and kinks of max, sort or abs stay away.
        grid = (np.arange(total) + rng.uniform(0.3, 0.7, total)) / max(total, 1) * 4 - 2
        grid = grid + np.where(grid < 0, -0.05, 0.05)
        rng.shuffle(grid)
        out, at = [], 0
        for shape in shapes:
            n = math.prod(shape)
            x = grid[at : at + n].reshape(shape)
            at += n
            if dtype.kind == "c":
                x = x + 1j * rng.uniform(-2, 2, shape)
            out.append(np.asarray(x).astype(dtype))
        return tuple(out)

    return draw


def with_also(draw: Draw, *more: Callable[[np.random.Generator], Any]) -> Draw:
    """Further arguments, whose dtype is their own."""
    return lambda rng, dtype: (*draw(rng, dtype), *(m(rng) for m in more))


def integers(low: int, high: int, shape: tuple[int, ...], dtype: str = "int32") -> Any:
    return lambda rng: np.asarray(rng.integers(low, high, shape)).astype(dtype)


def booleans(shape: tuple[int, ...]) -> Any:
    return lambda rng: np.asarray(rng.random(shape) < 0.5)


def bind(primitive: Primitive, **params: Any) -> Callable[..., Any]:
    return functools.partial(primitive.bind1, **params)


ROWS: list[OpCase] = []


def row(name: str, *args: Any, **options: Any) -> None:
    ROWS.append(OpCase(name, *args, **options))


# -- elementwise ----------------------------------------------------------------------------------


def unary(
    primitive: Primitive,
    reference: Callable[..., Any],
    dtypes: tuple[str, ...],
    low: float | None = None,
    high: float = 2.0,
    **options: Any,
) -> None:
    def draw(*shapes: tuple[int, ...]) -> Draw:
        return normal(*shapes) if low is None else within(low, high, *shapes)

    params = options.pop("params", {})
    suffix = options.pop("suffix", "")
    row(
        f"{primitive.name}{suffix}",
        primitive,
        bind(primitive, **params),
        reference,
        draw((3, 4)),
        dtypes,
        edges=(draw(()), draw((0, 3))),
        **options,
    )


_ONE_OF_A_KIND = ("bool", "int32", "float64", "complex128")


def binary(
    primitive: Primitive,
    reference: Callable[..., Any],
    dtypes: tuple[str, ...],
    low: float | None = None,
    high: float = 2.0,
    linear: tuple[tuple[int, ...], ...] = (),
    **options: Any,
) -> None:
    def draw(*shapes: tuple[int, ...]) -> Draw:
        return normal(*shapes) if low is None else within(low, high, *shapes)

    full, edges = (3, 4), (draw((), ()), draw((0, 3), (0, 3)), draw((0,), ()))
    for suffix, shapes in (("", (full, full)), ("-scalar", (full, ())), ("-of-scalar", ((), full))):
        row(
            f"{primitive.name}{suffix}",
            primitive,
            primitive.bind1,
            reference,
            draw(*shapes),
            dtypes if not suffix else tuple(d for d in dtypes if d in _ONE_OF_A_KIND),
            edges=edges if not suffix else (),
            linear=linear,
            **options,
        )


def _scaled(t: Any, slope: Any) -> Any:
    # A factor of exactly 0 wins over one that is not finite.
    return np.where((t == 0) | (slope == 0), np.where(np.isnan(t * slope), 0, t * slope), t * slope)


def _joined_parts(x: Any, y: Any) -> np.ndarray:
    out = np.empty(np.broadcast_shapes(x.shape, y.shape), complex)
    out.real, out.imag = x, y  # x + 1j * y would mix infinite parts
    return out


def _integer_quotient(x: Any, y: Any) -> Any:
    if np.asarray(x).dtype.kind not in "iu":
        return x / y
    # Truncates; a division by 0 gives all bits set.
    safe = np.where(y == 0, 1, y).astype(object)
    q = np.asarray(np.abs(x.astype(object)) // np.abs(safe), object)
    q = np.where((x < 0) != (y < 0), -q, q)
    return np.where(y == 0, np.asarray(-1).astype(x.dtype).astype(object), q).astype(x.dtype)


def _remainder(x: Any, y: Any) -> Any:
    if np.asarray(x).dtype.kind not in "iu":
        return np.fmod(x, y)
    return np.where(y == 0, x, np.fmod(x, np.where(y == 0, 1, y)))


binary(e.scale_p, _scaled, INEXACT, linear=((0,), (1,)))
binary(e.add_p, np.add, ANY, linear=((0, 1),))
binary(e.sub_p, np.subtract, NUMBERS, linear=((0, 1),))
binary(e.mul_p, np.multiply, ANY, linear=((0,), (1,)))
binary(e.div_p, _integer_quotient, NUMBERS, linear=((0,),))
unary(e.neg_p, np.negative, NUMBERS, linear=((0,),))


def _remainder_draw(rng: np.random.Generator, dtype: np.dtype) -> tuple:
    if dtype.kind in "iu":
        return normal((3, 4), (3, 4))(rng, dtype)
    # No quotient is near an integer.
    x = rng.uniform(2.1, 2.9, (3, 4)) * rng.choice([-1, 1], (3, 4))
    return np.asarray(x).astype(dtype), np.asarray(rng.uniform(0.98, 1.02, (3, 4))).astype(dtype)


row(
    "rem",
    e.rem_p,
    e.rem_p.bind1,
    _remainder,
    _remainder_draw,
    INTS + FLOATS,
    edges=(within(0.5, 2, (), ()), within(0.5, 2, (0, 2), (0, 2))),
)
unary(e.square_p, np.square, NUMBERS)
unary(e.sqrt_p, np.sqrt, INEXACT, 0.5)
unary(e.rsqrt_p, lambda x: 1 / np.sqrt(x), INEXACT, 0.5)
unary(e.cbrt_p, np.cbrt, FLOATS)
binary(e.pow_p, np.power, INEXACT, 0.5, ulps=16)  # complex powers go by log and exp
for _n in (0, 1, 2, 3, 7, -1, -3):
    unary(
        e.integer_pow_p,
        lambda x, n=_n: np.asarray(x) ** np.asarray(n, np.asarray(x).dtype),
        # bfloat16 and float16 round after each product.
        NUMBERS if _n >= 0 else INEXACT,
        0.5,
        1.5,
        params={"y": _n},
        suffix=f"-{_n}",
        ulps=16,
    )
row(
    "nextafter",
    e.nextafter_p,
    e.nextafter_p.bind1,
    np.nextafter,
    normal((3, 4), (3, 4)),
    FLOATS,
    edges=(normal((), ()), normal((0, 3), (0, 3))),
    own_dtype=True,
    ulps=0,
)


unary(e.sign_p, np.sign, INTS + FLOATS)
unary(
    e.sign_p,
    np.sign,
    COMPLEXES,
    suffix="-complex",
    skip=dict.fromkeys(("jvp", "second_order"), "declared constant, as in JAX; x / |x| is not"),
)
unary(e.floor_p, np.floor, FLOATS)
unary(e.ceil_p, np.ceil, FLOATS)
unary(e.round_p, np.rint, FLOATS, params={"rounding_method": 1}, suffix="-even")
unary(
    e.round_p,
    lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    FLOATS,
    params={"rounding_method": 0},
    suffix="-away",
)
unary(e.is_finite_p, np.isfinite, INEXACT)
unary(e.abs_p, np.abs, NUMBERS)
binary(e.copysign_p, np.copysign, FLOATS)
binary(e.zero_sign_p, lambda x, y: np.where(x == 0, np.copysign(x, y), x), FLOATS)
unary(e.exp_p, np.exp, INEXACT)
unary(e.exp2_p, np.exp2, INEXACT)
unary(e.expm1_p, np.expm1, INEXACT)
unary(e.log_p, np.log, INEXACT, 0.5)
unary(e.log1p_p, np.log1p, INEXACT, -0.5)
unary(e.logistic_p, lambda x: 1 / (1 + np.exp(-x)), INEXACT)
binary(
    e.logaddexp_p,
    np.logaddexp,
    FLOATS,
)
unary(e.sin_p, np.sin, INEXACT)
unary(e.cos_p, np.cos, INEXACT)
unary(e.tan_p, np.tan, INEXACT, -1.2, 1.2)
unary(e.asin_p, np.arcsin, INEXACT, -0.6, 0.6)
unary(e.acos_p, np.arccos, INEXACT, -0.6, 0.6)
unary(e.atan_p, np.arctan, INEXACT, 0.2, 2)
binary(e.atan2_p, np.arctan2, FLOATS)
unary(e.sinh_p, np.sinh, INEXACT)
unary(e.cosh_p, np.cosh, INEXACT)
unary(e.tanh_p, np.tanh, INEXACT, -1.2, 1.2)
unary(e.asinh_p, np.arcsinh, INEXACT, 0.2, 2)
unary(e.acosh_p, np.arccosh, INEXACT, 1.3, 3)
unary(e.atanh_p, np.arctanh, INEXACT, -0.6, 0.6)
binary(e.hypot_p, np.hypot, FLOATS)
unary(e.real_p, np.real, COMPLEXES, linear=((0,),))
unary(e.imag_p, np.imag, COMPLEXES, linear=((0,),))
unary(e.conj_p, np.conj, COMPLEXES, linear=((0,),))
binary(e.complex_p, _joined_parts, ("float32", "float64"), linear=((0, 1),))
for _p, _f in (
    (e.eq_p, np.equal),
    (e.ne_p, np.not_equal),
    (e.lt_p, np.less),
    (e.le_p, np.less_equal),
    (e.gt_p, np.greater),
    (e.ge_p, np.greater_equal),
):
    binary(_p, _f, ANY)
unary(e.not_p, np.invert, BOOL + INTS)
binary(e.and_p, np.bitwise_and, BOOL + INTS)
binary(e.or_p, np.bitwise_or, BOOL + INTS)
binary(e.xor_p, np.bitwise_xor, BOOL + INTS)


def _bits(dtype: np.dtype) -> int:
    return np.dtype(dtype).itemsize * 8


def _shift(kind: str) -> Callable[..., Any]:
    """A shift of Python integers, bit by bit what XLA says; beyond the width nothing is left."""

    def one(x: int, y: int, dtype: np.dtype) -> int:
        n = _bits(dtype)
        pattern = x % (1 << n)
        if kind == "arithmetic" and pattern >> (n - 1):
            moved = (pattern - (1 << n)) >> min(max(y, 0) if y >= 0 else n, n)
        elif not 0 <= y < n:
            moved = 0
        else:
            moved = pattern << y if kind == "left" else pattern >> y
        moved %= 1 << n
        return moved - (1 << n) if dtype.kind == "i" and moved >> (n - 1) else moved

    def reference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        x, y = np.broadcast_arrays(x, y)
        out = np.empty(x.shape, x.dtype)
        for k in np.ndindex(*x.shape):
            out[k] = one(int(x[k]), int(y[k]), x.dtype)
        return out

    return reference


def _shift_draw(*shapes: tuple[int, ...]) -> Draw:
    def draw(rng: np.random.Generator, dtype: np.dtype) -> tuple:
        info = np.iinfo(dtype)
        x = rng.integers(info.min, info.max, shapes[0], dtype=dtype, endpoint=True)
        low = -2 if dtype.kind == "i" else 0
        y = np.asarray(rng.integers(low, _bits(dtype) + 2, shapes[1])).astype(dtype)
        return np.asarray(x, dtype), y

    return draw


for _p, _k in (
    (e.shift_left_p, "left"),
    (e.shift_right_arithmetic_p, "arithmetic"),
    (e.shift_right_logical_p, "logical"),
):
    row(
        _p.name,
        _p,
        _p.bind1,
        _shift(_k),
        _shift_draw((6, 5), (6, 5)),
        INTS,
        edges=(_shift_draw((), ()), _shift_draw((0, 2), (0, 2)), _shift_draw((3,), ())),
    )


def _per_integer(count: Callable[[int, int], int]) -> Callable[..., Any]:
    def reference(x: np.ndarray) -> np.ndarray:
        out = np.empty(x.shape, x.dtype)
        for k in np.ndindex(*x.shape):
            n = _bits(x.dtype)
            out[k] = count(int(x[k]) % (1 << n), n)
        return out

    return reference


def _any_integer(*shapes: tuple[int, ...]) -> Draw:
    return lambda rng, dtype: tuple(_shift_draw(shape, ())(rng, dtype)[0] for shape in shapes)


for _p, _count in (
    (e.population_count_p, lambda pattern, n: pattern.bit_count()),
    (e.clz_p, lambda pattern, n: n - pattern.bit_length()),
):
    row(
        _p.name,
        _p,
        _p.bind1,
        _per_integer(_count),
        _any_integer((4, 4)),
        INTS,
        edges=(_any_integer(()), _any_integer((0, 2))),
    )

binary(e.max_p, np.maximum, ANY)
binary(e.min_p, np.minimum, ANY)
row(
    "max-ties",
    e.max_p,
    lambda x: e.max_p.bind1(x, x),
    np.asarray,
    normal((3,)),
    ("float32", "float64"),
)


def _select(which: Any, *cases: Any) -> Any:
    shape = np.broadcast_shapes(which.shape, *(a.shape for a in cases))
    return np.choose(which.astype(int), [np.broadcast_to(a, shape) for a in cases])


def _select_draw(which: Any, which_shape: tuple[int, ...], *shapes: tuple[int, ...]) -> Draw:
    return lambda rng, dtype: (which(which_shape)(rng), *normal(*shapes)(rng, dtype))


def _three(shape: tuple[int, ...]) -> Any:
    return integers(0, 3, shape)


for _name, _draw, _arity in (
    ("bool", _select_draw(booleans, (3, 4), (3, 4), (3, 4)), 2),
    ("bool-scalar-which", _select_draw(booleans, (), (3, 4), (3, 4)), 2),
    ("bool-scalar-case", _select_draw(booleans, (3, 4), (), (3, 4)), 2),
    ("bool-scalar-cases", _select_draw(booleans, (3, 4), (), ()), 2),
    ("int", _select_draw(_three, (3, 4), (3, 4), (3, 4), (3, 4)), 3),
):
    _which = booleans if _arity == 2 else _three
    row(
        f"select_n-{_name}",
        e.select_n_p,
        e.select_n_p.bind1,
        _select,
        _draw,
        ANY,
        edges=(
            _select_draw(_which, (), *[()] * _arity),
            _select_draw(_which, (0, 2), *[(0, 2)] * _arity),
        ),
        linear=(tuple(range(1, _arity + 1)),),
    )


def _clamp_draw(low: tuple, shape: tuple, high: tuple) -> Draw:
    def draw(rng: np.random.Generator, dtype: np.dtype) -> tuple:
        if dtype.kind in "iu":
            a, x, b = (np.asarray(rng.integers(0, 9, n)).astype(dtype) for n in (low, shape, high))
            return a, x, b
        # Bounds lie in (-1, -0.6) and (0.6, 1), and x leaves a gap around both.
        x = rng.choice([-1.5, 0.0, 1.5], shape) + rng.uniform(-0.3, 0.3, shape)
        return tuple(
            np.asarray(v).astype(dtype)
            for v in (rng.uniform(-1, -0.6, low), x, rng.uniform(0.6, 1, high))
        )

    return draw


row(
    "clamp",
    e.clamp_p,
    e.clamp_p.bind1,
    lambda low, x, high: np.minimum(np.maximum(low, x), high),
    _clamp_draw((3, 4), (3, 4), (3, 4)),
    INTS + FLOATS,
    edges=(_clamp_draw((), (), ()), _clamp_draw((), (0, 3), ())),
)
row(
    "clamp-scalar-bounds",
    e.clamp_p,
    e.clamp_p.bind1,
    lambda low, x, high: np.minimum(np.maximum(low, x), high),
    _clamp_draw((), (3, 4), ()),
)


def _converted(new: str) -> Callable[..., Any]:
    dtype = dtype_of(new)

    def reference(x: np.ndarray) -> Any:
        if x.dtype.kind == "c" and dtype.kind not in "cb":
            x = x.real
        if x.dtype.kind in "fV" and dtype.kind in "iu":
            info = np.iinfo(dtype)
            # Toward zero, limited to the range.
            ends = {math.inf: info.max, -math.inf: info.min}
            clean = [
                0
                if v != v
                else ends[float(v)]
                if float(v) in ends
                else min(max(int(v), info.min), info.max)
                for v in x.ravel()
            ]
            return np.array(clean, dtype).reshape(x.shape)
        return x.astype(dtype)

    return reference


for _new in ("bool", "int8", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64",
             "complex64", "complex128"):  # fmt: skip
    row(
        f"convert_element_type-{_new}",
        e.convert_element_type_p,
        bind(e.convert_element_type_p, new_dtype=dtype_of(_new), weak_type=False),
        _converted(_new),
        normal((3, 4)),
        ANY,
        edges=(normal(()), normal((0, 3))),
        # The difference of a result rounded to few digits is no derivative.
        skip={}
        if _new in ("bool", "int8", "uint8", "int32", "int64", "float64", "complex128")
        else {
            name: "differences see the rounding to a narrow dtype"
            for name in ("jvp", "second_order")
        }
        | {"transpose": "the narrow dtype rounds the pairing", "linear_transpose": "likewise"},
        linear=((0,),) if _new in ("float64", "complex128") else (),
        own_dtype=True,
        ulps=0,
    )


def _reduced_precision(exponent_bits: int, mantissa_bits: int) -> Callable[..., Any]:
    def reference(x: np.ndarray) -> np.ndarray:
        wide = x.astype(np.float64)
        mantissa, exponent = np.frexp(wide)
        step = 2.0 ** (mantissa_bits + 1)
        rounded = np.ldexp(np.rint(mantissa * step) / step, exponent)
        bias = 2 ** (exponent_bits - 1) - 1
        largest = 2.0**bias * (2 - 2.0**-mantissa_bits)
        rounded = np.where(np.abs(rounded) > largest, np.copysign(np.inf, wide), rounded)
        return np.where(np.abs(rounded) < 2.0 ** (1 - bias), np.copysign(0, wide), rounded)

    return reference


_ROUNDS = "declared to have the derivative of the identity, which differences do not see"
for _bits_pair in ((5, 7), (8, 3), (3, 2)):
    row(
        f"reduce_precision-{_bits_pair}",
        e.reduce_precision_p,
        bind(e.reduce_precision_p, exponent_bits=_bits_pair[0], mantissa_bits=_bits_pair[1]),
        _reduced_precision(*_bits_pair),
        normal((3, 4)),
        ("float16", "float32", "float64") if _bits_pair[0] <= 5 else ("float32", "float64"),
        edges=(normal(()), normal((0, 3))),
        own_dtype=True,
        ulps=0,
        skip=dict.fromkeys(("jvp", "second_order", "transpose"), _ROUNDS),
    )


def _bitcast(new: str) -> Callable[..., Any]:
    dtype = np.dtype(new)

    def reference(x: np.ndarray) -> np.ndarray:
        if dtype.itemsize == x.dtype.itemsize:
            return x.reshape(-1).view(dtype).reshape(x.shape)
        if dtype.itemsize < x.dtype.itemsize:
            ratio = x.dtype.itemsize // dtype.itemsize
            return x.reshape(-1).view(dtype).reshape((*x.shape, ratio))
        return x.reshape(-1).view(dtype).reshape(x.shape[:-1])

    return reference


for _new, _from, _shape, _more in (
    ("int32", ("float32", "uint32"), (3, 4), ((), (0, 3))),
    ("float64", ("int64", "uint64"), (3, 4), ((), (0, 3))),
    ("uint8", ("float32", "int16", "float64"), (3, 4), ((), (0, 3))),
    ("uint16", ("float16",), (3, 4), ((), (0, 3))),
    ("int64", ("int32", "float32"), (3, 2), ((2,), (0, 2))),
):
    row(
        f"bitcast_convert_type-{_new}",
        e.bitcast_convert_type_p,
        bind(e.bitcast_convert_type_p, new_dtype=np.dtype(_new)),
        _bitcast(_new),
        normal(_shape),
        _from,
        edges=tuple(normal(m) for m in _more),
        own_dtype=True,
        ulps=0,
        skip=dict.fromkeys(("jvp", "second_order"), "reads bits: it has no derivative"),
    )

_STOPS = "declared to have the derivative 0, which differences do not see"
unary(
    e.stop_gradient_p,
    np.asarray,
    ANY,
    skip=dict.fromkeys(("jvp", "second_order"), _STOPS),
)
unary(f.erf_p, scipy.special.erf, FLOATS)
unary(f.erfc_p, scipy.special.erfc, FLOATS, ulps=8)
unary(f.erf_inv_p, scipy.special.erfinv, FLOATS, -0.8, 0.8, ulps=8)
unary(f.lgamma_p, scipy.special.gammaln, FLOATS, 2.3, 5, ulps=8)
unary(f.digamma_p, scipy.special.psi, FLOATS, 2, 5, ulps=8)


def _polygamma_draw(shape: tuple[int, ...]) -> Draw:
    return lambda rng, dtype: (
        np.asarray(rng.integers(0, 3, shape)).astype(dtype),
        sample(rng, dtype, 1.5, 4, shape),
    )


row(
    "polygamma",
    f.polygamma_p,
    f.polygamma_p.bind1,
    lambda m, x: scipy.special.polygamma(m.astype(int), x),
    _polygamma_draw((3, 4)),
    FLOATS,
    edges=(_polygamma_draw(()), _polygamma_draw((0, 3))),
    differentiable=(1,),
    ulps=32,  # scipy's zeta in float32
)
unary(f.bessel_i0e_p, scipy.special.i0e, FLOATS, ulps=8)
unary(f.bessel_i1e_p, scipy.special.i1e, FLOATS, ulps=8)
unary(f.sinc_p, np.sinc, INEXACT, ulps=16)


def _sinc_derivative(order: int) -> Callable[..., Any]:
    # sinc is the integral of cos(pi x t) over t in [0, 1]; Gauss-Legendre is exact to rounding.
    nodes, weights = np.polynomial.legendre.leggauss(40)
    t, w = (nodes + 1) / 2, weights / 2

    def reference(x: np.ndarray) -> Any:
        phase = np.pi * np.asarray(x)[..., None] * t + order * np.pi / 2
        return ((np.pi * t) ** order * np.cos(phase)) @ w

    return reference


for _order in (1, 2, 3):
    unary(
        f.sinc_derivative_p,
        _sinc_derivative(_order),
        INEXACT,
        params={"order": _order},
        suffix=f"-{_order}",
        ulps=512,  # an absolute error in units of pi**order, to which the terms cancel
    )

# -- incomplete gamma and beta functions, zeta ----------------------------------------------------


def _order_derivative(a: Any, x: Any) -> Any:
    """d/da of the regularized lower incomplete gamma function, by Gauss-Legendre quadrature.

    With t = e**s the integral of t**(a - 1) log(t) e**-t over [0, x] is that of a smooth function
    of s, which has died out 90 below log(x) for a above 0.5. It is cut into 60 panels.
    """
    nodes, weights = np.polynomial.legendre.leggauss(20)
    places = (np.arange(60)[:, None] + (nodes + 1) / 2).reshape(-1) * 1.5 - 90
    weights = np.tile(weights, 60) * 0.75
    s = np.log(x)[..., None] + places
    integrand = np.exp(np.asarray(a)[..., None] * s - np.exp(s)) * s
    gamma = np.exp(scipy.special.gammaln(a))
    return integrand @ weights / gamma - scipy.special.psi(a) * scipy.special.gammainc(a, x)


def _sample_derivative(a: Any, x: Any) -> Any:
    density = np.exp((a - 1) * np.log(x) - x - scipy.special.gammaln(a))
    return -_order_derivative(a, x) / density


_IN_THE_ORDER = "its derivative in the order is declared to have none of its own"
_gammas = (within(0.7, 4, (3, 4), (3, 4)), within(0.7, 4, (), ()), within(0.7, 4, (0, 2), (0, 2)))
for _p, _f in ((f.igamma_p, scipy.special.gammainc), (f.igammac_p, scipy.special.gammaincc)):
    row(_p.name, _p, _p.bind1, _f, _gammas[0], FLOATS, edges=_gammas[1:], ulps=32,
        skip={"second_order": _IN_THE_ORDER})  # fmt: skip
    row(f"{_p.name}-in-x", _p, _p.bind1, _f, _gammas[0], ulps=32, differentiable=(1,))
for _p, _f in (
    (f.igamma_grad_a_p, _order_derivative),
    (f.random_gamma_grad_p, _sample_derivative),
):
    row(
        _p.name,
        _p,
        _p.bind1,
        _f,
        _gammas[0],
        FLOATS,
        edges=_gammas[1:],
        ulps=4096,  # terms cancel, in the reference too
        differentiable=(),
        skip=dict.fromkeys(("jvp", "transpose", "second_order"), "declared to have no derivative")
        | {"special": "the quadrature knows no limits"},
    )
row(
    "betainc",
    f.regularized_incomplete_beta_p,
    f.regularized_incomplete_beta_p.bind1,
    scipy.special.betainc,
    within(0.2, 0.8, (3, 4), (3, 4), (3, 4)),
    FLOATS,
    edges=(within(0.2, 0.8, (), (), ()), within(0.2, 0.8, (0,), (0,), (0,))),
    differentiable=(2,),
    ulps=32,
)
row(
    "zeta",
    f.zeta_p,
    f.zeta_p.bind1,
    scipy.special.zeta,
    within(1.5, 4, (3, 4), (3, 4)),
    FLOATS,
    edges=(within(1.5, 4, (), ()), within(1.5, 4, (0,), (0,))),
    differentiable=(1,),
    ulps=32,
)


def _orders(low: int, high: int, x_low: float, x_high: float, shape: tuple[int, ...]) -> Draw:
    return lambda rng, dtype: (
        np.asarray(rng.integers(low, high, shape)).astype(dtype),
        sample(rng, dtype, x_low, x_high, shape),
    )


def _exponential_integral(n: np.ndarray, x: np.ndarray) -> Any:
    # The integral of e**(-x t) / t**n from 1 to infinity, by t = 1 - log(u) / x.
    nodes, weights = np.polynomial.laguerre.laggauss(60)
    n, x = np.asarray(n)[..., None], np.asarray(x)[..., None]
    return np.sum(weights * (1 + nodes / x) ** -n * np.exp(-x) / x, axis=-1)


for _p, _f, _low, _high in (
    (f.gamma_p, scipy.special.gamma, 0.6, 4),
    (f.erfcx_p, scipy.special.erfcx, -1, 3),
    (f.ndtri_p, scipy.special.ndtri, 0.1, 0.9),
    (f.dawsn_p, scipy.special.dawsn, 0.2, 0.8),
    (f.spence_p, scipy.special.spence, 0.2, 0.9),
    (f.expi_p, scipy.special.expi, 0.6, 3),
    (f.fresnel_sin_p, lambda x: scipy.special.fresnel(x)[0], 0.2, 1.2),
    (f.fresnel_cos_p, lambda x: scipy.special.fresnel(x)[1], 0.2, 0.9),
    (f.sine_integral_p, lambda x: scipy.special.sici(x)[0], 0.2, 2),
    (f.cosine_integral_p, lambda x: scipy.special.sici(x)[1], 0.8, 2),
):
    unary(_p, _f, FLOATS, _low, _high, ulps=16)
for _p, _f in ((f.expn_p, _exponential_integral), (f.bessel_j_p, scipy.special.jv)):
    row(
        _p.name,
        _p,
        _p.bind1,
        _f,
        _orders(0, 3, 2, 4, (3, 4)),
        FLOATS,
        edges=(_orders(0, 3, 2, 4, ()), _orders(0, 3, 2, 4, (0, 3))),
        differentiable=(1,),
        ulps=64,
        skip={"special": "the quadrature needs x above 1"} if _p is f.expn_p else {},
    )
row(
    "expn-negative",
    f.expn_p,
    f.expn_p.bind1,
    _exponential_integral,
    _orders(-3, 0, 1, 4, (3, 4)),
    differentiable=(1,),
    skip={"special": "the quadrature needs x above 1"},
    ulps=1024,  # of the quadrature
)
for _p, _f, _n, _smooth in (
    (f.owens_t_p, scipy.special.owens_t, 2, (0, 1)),
    (f.hyp1f1_p, scipy.special.hyp1f1, 3, (2,)),
    (f.hyp2f1_p, scipy.special.hyp2f1, 4, (3,)),
):
    _shapes = tuple([s] * _n for s in ((3, 4), (), (0, 3)))
    row(
        _p.name,
        _p,
        _p.bind1,
        _f,
        within(0.2, 0.8, *_shapes[0]),
        FLOATS,
        edges=tuple(within(0.2, 0.8, *s) for s in _shapes[1:]),
        differentiable=_smooth,
        ulps=64,
        skip={"special": "SciPy's loop does not end at infinities"} if _p is f.hyp1f1_p else {},
    )
for _p, _f, _more in (
    (f.wofz_p, scipy.special.wofz, {}),
    (
        f.complex_lgamma_p,
        scipy.special.loggamma,
        {"skip": {"second_order": "the complex trigamma function is declared to have no kernel"}},
    ),
    (f.complex_digamma_p, scipy.special.psi, {"differentiable": ()}),
):
    unary(_p, _f, COMPLEXES, 0.7, 2, ulps=32, **_more)

# -- shaping --------------------------------------------------------------------------------------


def linear_row(
    name: str,
    primitive: Primitive,
    params: dict[str, Any],
    reference: Callable[..., Any],
    *shapes: tuple[int, ...],
    dtypes: tuple[str, ...] = ANY,
    **options: Any,
) -> None:
    """A row for a primitive that is linear in all its operands together."""
    row(
        f"{primitive.name}-{name}",
        primitive,
        bind(primitive, **params),
        reference,
        normal(*shapes),
        dtypes,
        linear=(tuple(range(len(shapes))),),
        **options,
    )


def _broadcast(shape: tuple[int, ...], dims: tuple[int, ...]) -> Callable[..., Any]:
    def reference(x: np.ndarray) -> np.ndarray:
        sizes = [1] * len(shape)
        for n, d in zip(x.shape, dims, strict=True):
            sizes[d] = n
        return np.broadcast_to(x.reshape(sizes), shape)

    return reference


for _name, _x, _shape, _dims in (
    ("scalar", (), (2, 3), ()),
    ("rows", (3,), (2, 3), (1,)),
    ("columns", (2,), (2, 3), (0,)),
    ("stretched", (2, 1, 4), (2, 3, 5, 4), (0, 1, 3)),
    ("ones", (1, 1), (1, 4, 1), (0, 2)),
    ("to-empty", (1, 3), (0, 3), (0, 1)),
    ("empty", (0,), (2, 0), (1,)),
    ("scalar-to-scalar", (), (), ()),
):
    linear_row(
        _name,
        s.broadcast_in_dim_p,
        {"shape": _shape, "broadcast_dimensions": _dims},
        _broadcast(_shape, _dims),
        _x,
    )

for _x, _new in (((3, 4), (2, 6)), ((6,), (1, 2, 3, 1)), ((1, 1), ()), ((), (1,)), ((0, 3), (0,))):
    linear_row(
        f"{_x}-{_new}",
        s.reshape_p,
        {"new_sizes": _new},
        lambda x, new=_new: x.reshape(new),
        _x,
    )

for _x, _perm in (((2, 3), (1, 0)), ((2, 3, 4), (2, 0, 1)), ((2, 3, 4), (0, 2, 1)), ((), ()),
                  ((0, 3, 2), (2, 1, 0))):  # fmt: skip
    linear_row(
        f"{_x}-{_perm}",
        s.transpose_p,
        {"permutation": _perm},
        lambda x, perm=_perm: x.transpose(perm),
        _x,
    )

for _x, _dims in (((3,), (0,)), ((2, 3), (1,)), ((2, 3, 4), (0, 2)), ((0, 2), (0, 1)), ((), ())):
    linear_row(
        f"{_x}-{_dims}",
        s.rev_p,
        {"dimensions": _dims},
        lambda x, dims=_dims: np.flip(x, dims),
        _x,
    )

for _shapes, _dim in (
    (((2, 3), (1, 3)), 0),
    (((2, 3), (2, 1), (2, 2)), 1),
    (((3,),), 0),
    (((0, 2), (3, 2)), 0),
    (((0,), (0,)), 0),
):
    linear_row(
        f"{_shapes}-{_dim}",
        s.concatenate_p,
        {"dimension": _dim},
        lambda *xs, dim=_dim: np.concatenate(xs, dim),
        *_shapes,
    )


def _pad(config: tuple) -> Callable[..., Any]:
    def reference(x: np.ndarray, value: np.ndarray) -> np.ndarray:
        for axis, (low, high, interior) in enumerate(config):
            n = x.shape[axis]
            size = low + high + n + max(n - 1, 0) * interior
            out = np.full((*x.shape[:axis], size, *x.shape[axis + 1 :]), value, x.dtype)
            for k in range(n):
                at = low + k * (interior + 1)
                if 0 <= at < size:
                    out[(slice(None),) * axis + (at,)] = x[(slice(None),) * axis + (k,)]
            x = out
        return x

    return reference


for _name, _x, _config in (
    ("edges", (3,), ((1, 2, 0),)),
    ("interior", (3, 2), ((0, 0, 1), (1, 0, 2))),
    ("negative", (5,), ((-1, -2, 0),)),
    ("negative-interior", (4, 3), ((-2, 1, 2), (2, -3, 1))),
    ("negative-to-nothing", (3,), ((-3, 0, 0),)),
    ("negative-beyond", (2,), ((-3, 4, 0),)),
    ("scalar", (), ()),
    ("empty", (0, 2), ((2, 1, 3), (0, 0, 0))),
):
    linear_row(_name, s.pad_p, {"padding_config": _config}, _pad(_config), _x, ())

for _x, _start, _limit, _step in (
    ((5,), (1,), (4,), (1,)),
    ((7, 4), (0, 1), (7, 4), (3, 2)),
    ((7,), (2,), (6,), (5,)),
    ((5, 3), (2, 0), (2, 3), (1, 1)),
    ((0, 2), (0, 0), (0, 2), (1, 1)),
    ((), (), (), ()),
):
    linear_row(
        f"{_x}-{_start}-{_limit}-{_step}",
        s.slice_p,
        {"start_indices": _start, "limit_indices": _limit, "strides": _step},
        lambda x, a=_start, b=_limit, d=_step: x[tuple(map(slice, a, b, d))],
        _x,
    )

for _dtype, _shape, _dim in (("int32", (4,), 0), ("float32", (2, 3), 1), ("uint8", (2, 0, 3), 0),
                             ("bfloat16", (3, 2), 0), ("complex64", (2, 3), 1)):  # fmt: skip
    row(
        f"iota-{_dtype}-{_shape}-{_dim}",
        s.iota_p,
        # The unused argument lets the row pass through the checkers.
        lambda x, dtype=_dtype, shape=_shape, dim=_dim: s.iota_p.bind1(
            dtype=dtype_of(dtype), shape=shape, dimension=dim
        ),
        lambda x, dtype=_dtype, shape=_shape, dim=_dim: np.indices(shape)[dim].astype(
            dtype_of(dtype)
        ),
        normal((2,)),
        ("float64",),
    )

# -- reductions -----------------------------------------------------------------------------------

_REDUCED = (((3, 4), (0,)), ((3, 4), (1,)), ((3, 4), (0, 1)), ((2, 3, 4), (0, 2)), ((2, 3), ()),
            ((), ()))  # fmt: skip
_EMPTY = (((0, 3), (0,)), ((0, 3), (1,)), ((2, 0), (0, 1)))


def _extremum_reference(which: str) -> Callable[..., Any]:
    def reference(x: np.ndarray, axes: tuple[int, ...]) -> Any:
        ufunc = np.maximum if which == "max" else np.minimum
        if math.prod([x.shape[a] for a in axes]):
            return ufunc.reduce(x, axis=axes)
        shape = [n for k, n in enumerate(x.shape) if k not in axes]
        if x.dtype.kind == "b":
            return np.full(shape, which == "min")
        if x.dtype.kind in "iu":
            info = np.iinfo(x.dtype)
            return np.full(shape, info.min if which == "max" else info.max, x.dtype)
        value = -np.inf if which == "max" else np.inf
        if x.dtype.kind == "c":
            value = complex(value, value)
        return np.full(shape, value)

    return reference


for _p, _f, _dtypes in (
    (r.reduce_sum_p, lambda x, axes: np.sum(x, axis=axes, dtype=x.dtype), NUMBERS),
    (r.reduce_prod_p, lambda x, axes: np.prod(x, axis=axes, dtype=x.dtype), NUMBERS),
    (r.reduce_max_p, _extremum_reference("max"), ANY),
    (r.reduce_min_p, _extremum_reference("min"), ANY),
    (r.reduce_and_p, lambda x, axes: np.bitwise_and.reduce(x, axis=axes), BOOL + INTS),
    (r.reduce_or_p, lambda x, axes: np.bitwise_or.reduce(x, axis=axes), BOOL + INTS),
    (r.reduce_xor_p, lambda x, axes: np.bitwise_xor.reduce(x, axis=axes), BOOL + INTS),
):
    for _x, _axes in _REDUCED + _EMPTY:
        row(
            f"{_p.name}-{_x}-{_axes}",
            _p,
            bind(_p, axes=_axes),
            lambda x, f=_f, axes=_axes: f(x, axes),
            normal(_x),
            _dtypes,
            linear=((0,),) if _p is r.reduce_sum_p else (),
            ulps=8,
            skip={"jvp": "the extremum of nothing is infinite"}
            if _p in (r.reduce_max_p, r.reduce_min_p) and 0 in [_x[a] for a in _axes]
            else {},
        )
row(
    "reduce_sum-blocks",  # long enough for the kernel's sums by blocks
    r.reduce_sum_p,
    bind(r.reduce_sum_p, axes=(0,)),
    lambda x: np.sum(x, axis=0, dtype=x.dtype),
    normal((700, 3)),
    FLOATS + COMPLEXES,
    linear=((0,),),
    ulps=512,  # terms of both signs cancel
)
row(
    "reduce_prod-zeros",
    r.reduce_prod_p,
    bind(r.reduce_prod_p, axes=(1,)),
    lambda x: np.prod(x, axis=1),
    lambda rng, dtype: (
        # One, two and five zeros in a row of five.
        np.asarray(rng.uniform(0.5, 2, (4, 5)) * (np.arange(5) >= [[0], [1], [2], [5]]), dtype),
    ),
    ("float32", "float64"),
)  # fmt: skip
_ARGUMENTS = (((3, 4), 0, "int32"), ((3, 4), 1, "int64"), ((5,), 0, "uint8"), ((0, 2), 1, "int32"))
for _p, _f in ((r.argmax_p, np.argmax), (r.argmin_p, np.argmin)):
    for _x, _axis, _index in _ARGUMENTS:
        row(
            f"{_p.name}-{_x}-{_axis}-{_index}",
            _p,
            bind(_p, axes=(_axis,), index_dtype=np.dtype(_index)),
            lambda x, f=_f, axis=_axis, index=_index: f(x, axis=axis).astype(index),
            normal(_x),
            ORDERED,
        )


def _probabilistic_or(x: np.ndarray, start: Any, axes: tuple[int, ...]) -> Any:
    return 1 - (1 - start) * np.prod(1 - x, axis=axes)


for _x, _axes in (
    ((5,), (0,)),
    ((3, 4), (0,)),
    ((3, 4), (0, 1)),
    ((2, 3, 4), (0, 2)),
    ((0, 3), (0,)),
    ((3, 0), (0,)),
):
    row(
        f"reduce-{_x}-{_axes}",
        reduce_module.reduce_p,
        lambda x, start, axes=_axes: reduce_module.reduce(
            x, start, lambda a, b: a + b - a * b, axes
        ),
        lambda x, start, axes=_axes: _probabilistic_or(x, start, axes),
        normal(_x, ()),
        ("float32", "float64", "complex128"),
        ulps=32,
        skip={"special": "the reference joins by another formula"},
    )
row(
    "reduce-two",  # a product of affine maps, joined in order
    reduce_module.reduce_p,
    lambda a, b: tuple(
        reduce_module.reduce(
            (a, b), (1.0, 0.0), lambda x, y: (x[0] * y[0], x[1] * y[0] + y[1]), (0,)
        )
    ),
    lambda a, b: (
        np.prod(a, 0),
        functools.reduce(lambda y, k: y * a[k] + b[k], range(len(a)), np.zeros(a.shape[1:])),
    ),
    normal((5, 2), (5, 2)),
    ulps=32,
)

# -- cumulative -----------------------------------------------------------------------------------

_CUMULATED = (((4,), 0), ((3, 5), 1), ((6, 2), 0), ((1, 2), 0), ((0, 2), 0), ((2, 0), 0))
for _p, _f, _dtypes in (
    (u.cumsum_p, np.add, NUMBERS),
    (u.cumprod_p, np.multiply, NUMBERS),
    (u.cummax_p, np.maximum, ANY),
    (u.cummin_p, np.minimum, ANY),
    (u.cumlogsumexp_p, np.logaddexp, FLOATS),
):
    for _x, _axis in _CUMULATED:
        for _reverse in (False, True):
            row(
                f"{_p.name}-{_x}-{_axis}{'-reverse' if _reverse else ''}",
                _p,
                bind(_p, axis=_axis, reverse=_reverse),
                lambda x, f=_f, axis=_axis, back=_reverse: (
                    np.flip(f.accumulate(np.flip(x, axis), axis=axis, dtype=x.dtype), axis)
                    if back
                    else f.accumulate(x, axis=axis, dtype=x.dtype)
                ),
                normal(_x),
                _dtypes,
                linear=((0,),) if _p is u.cumsum_p else (),
                ulps=8,
            )
row(
    "cumprod-zeros",
    u.cumprod_p,
    bind(u.cumprod_p, axis=0, reverse=False),
    np.cumprod,
    lambda rng, dtype: (np.asarray(rng.uniform(0.5, 2, 7) * [1, 1, 0, 1, 1, 0, 1], dtype),),
    ("float32", "float64"),
)

# -- contractions ---------------------------------------------------------------------------------


def _dot_general(numbers: Any) -> Callable[..., Any]:
    (lc, rc), (lb, rb) = numbers

    def reference(x: np.ndarray, y: np.ndarray) -> Any:
        letters = iter("abcdefghijklmnop")
        left = [next(letters) for _ in range(x.ndim)]
        right = [next(letters) for _ in range(y.ndim)]
        for a, b in zip((*lc, *lb), (*rc, *rb), strict=True):
            right[b] = left[a]
        out = [left[a] for a in lb]
        out += [left[a] for a in range(x.ndim) if a not in lc and a not in lb]
        out += [right[b] for b in range(y.ndim) if b not in rc and b not in rb]
        text = f"{''.join(left)},{''.join(right)}->{''.join(out)}"
        return np.einsum(text, x, y)

    return reference


for _name, _x, _y, _numbers in (
    ("matrices", (3, 4), (4, 5), (((1,), (0,)), ((), ()))),
    ("vectors", (4,), (4,), (((0,), (0,)), ((), ()))),
    ("matrix-vector", (3, 4), (4,), (((1,), (0,)), ((), ()))),
    ("first-axes", (4, 3), (4, 2), (((0,), (0,)), ((), ()))),
    ("batched", (2, 3, 4), (2, 4, 5), (((2,), (1,)), ((0,), (0,)))),
    ("batch-last", (3, 4, 2), (4, 2, 5), (((1,), (0,)), ((2,), (1,)))),
    ("two-contracted", (2, 3, 4), (4, 5, 3), (((1, 2), (2, 0)), ((), ()))),
    ("two-batches", (2, 3, 4), (3, 2, 4), (((2,), (2,)), ((0, 1), (1, 0)))),
    ("outer", (2,), (3,), (((), ()), ((), ()))),
    ("scalars", (), (), (((), ()), ((), ()))),
    ("nothing-contracted", (2, 3), (2, 4), (((), ()), ((0,), (0,)))),
    ("empty-sum", (2, 0), (0, 3), (((1,), (0,)), ((), ()))),
    ("empty", (0, 3), (3, 2), (((1,), (0,)), ((), ()))),
    ("elementwise", (2, 3), (2, 3), (((), ()), ((0, 1), (0, 1)))),
):
    row(
        f"dot_general-{_name}",
        c.dot_general_p,
        bind(c.dot_general_p, dimension_numbers=_numbers, preferred_element_type=None),
        _dot_general(_numbers),
        normal(_x, _y),
        NUMBERS,
        linear=((0,), (1,)),
        ulps=16,
    )
for _old, _new in (
    ("float16", "float32"),
    ("bfloat16", "float32"),
    ("float32", "float64"),
    ("int8", "int32"),
    ("int32", "float32"),
    ("complex64", "complex128"),
):
    row(
        f"dot_general-preferred-{_old}-{_new}",
        c.dot_general_p,
        bind(
            c.dot_general_p,
            dimension_numbers=(((1,), (0,)), ((), ())),
            preferred_element_type=np.dtype(_new),
        ),
        lambda x, y, new=_new: np.matmul(x.astype(new), y.astype(new)),
        normal((3, 4), (4, 2)),
        (_old,),
        ulps=16,
    )

# -- indexing -------------------------------------------------------------------------------------


def _clamped_window(x: np.ndarray, starts: Sequence[Any], sizes: Sequence[int]) -> tuple:
    at = [min(max(int(k), 0), n - m) for k, n, m in zip(starts, x.shape, sizes, strict=True)]
    return tuple(slice(k, k + m) for k, m in zip(at, sizes, strict=True))


def _dynamic_update(x: np.ndarray, new: np.ndarray, *starts: Any) -> np.ndarray:
    out = x.copy()
    out[_clamped_window(x, starts, new.shape)] = new
    return out


for _x, _sizes in (((6,), (3,)), ((4, 5), (2, 5)), ((4, 5), (1, 3)), ((3,), (0,)), ((0, 2), (0, 1)),
                   ((), ())):  # fmt: skip
    _starts = [integers(-2, 7, ()) for _ in _x]
    row(
        f"dynamic_slice-{_x}-{_sizes}",
        i.dynamic_slice_p,
        bind(i.dynamic_slice_p, slice_sizes=_sizes),
        lambda x, *starts, sizes=_sizes: x[_clamped_window(x, starts, sizes)],
        with_also(normal(_x), *_starts),
        ANY,
        linear=((0,),),
    )
    row(
        f"dynamic_update_slice-{_x}-{_sizes}",
        i.dynamic_update_slice_p,
        i.dynamic_update_slice_p.bind1,
        _dynamic_update,
        with_also(normal(_x, _sizes), *_starts),
        ANY,
        linear=((0, 1),),
    )
row(
    "dynamic_slice-uint8-starts",
    i.dynamic_slice_p,
    bind(i.dynamic_slice_p, slice_sizes=(2, 2)),
    lambda x, *starts: x[_clamped_window(x, starts, (2, 2))],
    with_also(normal((4, 5)), integers(0, 9, (), "uint8"), integers(0, 9, (), "uint8")),
    ("float64",),
    linear=((0,),),
)


@dataclass(frozen=True)
class Windows:
    """Dimension numbers of a gather, and of the scatter that is its transpose."""

    x: tuple[int, ...]
    indices: tuple[int, ...]
    offset: tuple[int, ...]
    collapsed: tuple[int, ...]
    mapped: tuple[int, ...]
    sizes: tuple[int, ...]
    batching: tuple[int, ...] = ()
    indices_batching: tuple[int, ...] = ()

    def places(self, x: np.ndarray, indices: np.ndarray, sizes: Any) -> Any:
        """(index of the batch in the merged layout, window in x, is it inside as it stands?)"""
        left_out = {*self.collapsed, *self.batching}
        batch = indices.shape[:-1]
        rank = len(batch) + x.ndim - len(left_out)
        for b in np.ndindex(*batch):
            start = [0] * x.ndim
            for k, d in enumerate(self.mapped):
                start[d] = int(indices[(*b, k)])
            for d, ib in zip(self.batching, self.indices_batching, strict=True):
                start[d] = b[ib]
            inside = all(0 <= a <= n - m for a, n, m in zip(start, x.shape, sizes, strict=True))
            start = [min(max(a, 0), n - m) for a, n, m in zip(start, x.shape, sizes, strict=True)]
            rest = iter(b)
            at = tuple(slice(None) if k in self.offset else next(rest) for k in range(rank))
            yield at, tuple(slice(a, a + m) for a, m in zip(start, sizes, strict=True)), inside

    def window(self, sizes: Any) -> tuple[int, ...]:
        left_out = {*self.collapsed, *self.batching}
        return tuple(m for d, m in enumerate(sizes) if d not in left_out)

    @property
    def merged(self) -> tuple[int, ...]:
        batch, window = iter(self.indices[:-1]), iter(self.window(self.sizes))
        rank = len(self.indices) - 1 + len(self.window(self.sizes))
        return tuple(next(window) if k in self.offset else next(batch) for k in range(rank))

    def gather(self, mode: str, fill: Any) -> Callable[..., Any]:
        def reference(x: np.ndarray, indices: np.ndarray) -> np.ndarray:
            out = np.empty(self.merged, x.dtype)
            for at, window, inside in self.places(x, indices, self.sizes):
                out[at] = x[window].reshape(self.window(self.sizes))
                if mode == "fill" and not inside:
                    out[at] = fill
            return out

        return reference

    def scatter(self, mode: str, join: Any) -> Callable[..., Any]:
        def reference(x: np.ndarray, indices: np.ndarray, new: np.ndarray) -> np.ndarray:
            out = x.copy()
            for at, window, inside in self.places(x, indices, self.sizes):
                if mode == "clip" or inside:
                    update = new[at].reshape([k.stop - k.start for k in window])
                    out[window] = update if join is None else join(out[window], update)
            return out

        return reference

    def gather_numbers(self) -> Any:
        return i.GatherDimensionNumbers(
            self.offset, self.collapsed, self.mapped, self.batching, self.indices_batching
        )

    def scatter_numbers(self) -> Any:
        return i.ScatterDimensionNumbers(
            self.offset, self.collapsed, self.mapped, self.batching, self.indices_batching
        )


WINDOWS = {
    "rows": Windows((5, 3), (4, 1), (1,), (0,), (0,), (1, 3)),
    "elements": Windows((5, 3), (4, 2), (), (0, 1), (0, 1), (1, 1)),
    "swapped-columns": Windows((5, 3), (4, 2), (), (0, 1), (1, 0), (1, 1)),
    "columns-first": Windows((3, 5), (2, 4, 1), (0,), (1,), (1,), (3, 1)),
    "windows": Windows((6, 4), (3, 2), (1, 2), (), (0, 1), (2, 3)),
    "windows-in-front": Windows((6, 4), (3, 2), (0, 1), (), (0, 1), (2, 3)),
    "one-window": Windows((5,), (1,), (0,), (), (0,), (2,)),
    "batched": Windows((3, 5), (3, 2, 1), (), (1,), (1,), (1, 1), (0,), (0,)),
    "batched-windows": Windows((3, 5, 4), (2, 3, 1), (2, 3), (), (1,), (1, 2, 4), (0,), (1,)),
    "no-columns": Windows((3, 2), (2, 0), (1, 2), (), (), (2, 2)),
    "empty-indices": Windows((5, 3), (0, 1), (1,), (0,), (0,), (1, 3)),
    "empty-window": Windows((5, 3), (2, 1), (1,), (0,), (0,), (1, 0)),
}


def _window_draw(w: Windows, updates: bool, unique: bool, low: int, high: int) -> Draw:
    def draw(rng: np.random.Generator, dtype: np.dtype) -> tuple:
        columns = w.indices[-1]
        indices = rng.integers(low, high, w.indices)
        if unique and columns == 1 and not w.batching and w.sizes[w.mapped[0]] == 1:
            n = math.prod(w.indices[:-1])
            indices = rng.permutation(np.arange(low, low + max(n, high - low)))[:n]
            indices = indices.reshape(w.indices)
        shapes = (w.x, w.merged) if updates else (w.x,)
        x, *new = normal(*shapes)(rng, dtype)
        return x, indices.astype(np.int32), *new

    return draw


for _name, _w in WINDOWS.items():
    for _mode, _fill in (("clip", None), ("fill", 7), ("promise_in_bounds", None)):
        _low, _high = (-2, 7) if _mode != "promise_in_bounds" else (0, 1)
        row(
            f"gather-{_name}-{_mode}",
            i.gather_p,
            functools.partial(
                i.gather,
                dimension_numbers=_w.gather_numbers(),
                slice_sizes=_w.sizes,
                mode=_mode,
                fill_value=_fill if _fill is None else np.int8(_fill),
            ),
            _w.gather(_mode, _fill),
            _window_draw(_w, False, False, _low, _high),
            # The fill value is a constant, so with it the gather is affine.
            tuple(d for d in ANY if d != "bool" or _mode != "fill"),
            linear=((0,),) if _mode != "fill" else (),
        )
    for _f, _p, _join in (
        (i.scatter, i.scatter_p, None),
        (i.scatter_add, i.scatter_add_p, np.add),
        (i.scatter_mul, i.scatter_mul_p, np.multiply),
        (i.scatter_min, i.scatter_min_p, np.minimum),
        (i.scatter_max, i.scatter_max_p, np.maximum),
    ):
        for _mode in ("clip", "drop"):
            # Where windows overlap, it is not said which update a plain scatter keeps.
            _apart = _p is i.scatter_p and _name not in ("rows", "columns-first", "one-window",
                                                         "no-columns", "empty-indices",
                                                         "empty-window")  # fmt: skip
            _once = _p is i.scatter_p
            if _once and _mode == "clip" and _name == "rows":
                _low, _high = 0, 5
            else:
                _low, _high = -2, 7
            if _apart or (_once and _name in ("no-columns", "columns-first")):
                continue
            row(
                f"{_p.name}-{_name}-{_mode}",
                _p,
                functools.partial(_f, dimension_numbers=_w.scatter_numbers(), mode=_mode),
                _w.scatter(_mode, _join),
                _window_draw(_w, True, _once, _low, _high),
                tuple(
                    d
                    for d in (ORDERED if _join in (np.minimum, np.maximum) else ANY)
                    if d != "bool" or _join is None
                ),
                linear={i.scatter_add_p: ((0, 2),), i.scatter_mul_p: ((0,),)}.get(_p, ()),
                # Many windows meet in one place, so products of 2-byte floats round often.
                ulps=32,
                second_order=_p is not i.scatter_mul_p,  # see scatter_mul's docstring
            )  # fmt: skip

# -- sorting --------------------------------------------------------------------------------------

_LINES = (((5,), 0), ((3, 4), 1), ((4, 3), 0), ((2, 3, 2), 1), ((0, 3), 0), ((3, 0), 0))


def _repeats(shape: tuple[int, ...]) -> Draw:
    """Many equal elements, for the order of ties."""
    return lambda rng, dtype: (np.asarray(rng.integers(0, 4, shape)).astype(dtype),)


def _takeable(x: tuple[int, ...], index: tuple[int, ...], d: int, unique: bool, size: int) -> Draw:
    def draw(rng: np.random.Generator, dtype: np.dtype) -> tuple:
        if unique:
            lines = np.argsort(rng.random((*index[:d], size, *index[d + 1 :])), axis=d)
            at = lines[(slice(None),) * d + (slice(0, index[d]),)]
        else:
            at = rng.integers(0, max(size, 1), index)
        return (*normal(x)(rng, dtype), np.asarray(at).astype(np.int32))

    return draw


def _put_along(x: np.ndarray, index: np.ndarray, d: int, size: int) -> np.ndarray:
    out = np.zeros((*x.shape[:d], size, *x.shape[d + 1 :]), x.dtype)
    for k in np.ndindex(*x.shape):
        at = (*k[:d], int(index[k]), *k[d + 1 :])
        out[at] = out[at] + x[k]
    return out


for _x, _index, _d in (
    ((5,), (3,), 0),
    ((3, 4), (3, 2), 1),
    ((4, 3), (4, 3), 0),
    ((2, 3, 2), (2, 2, 2), 1),
    ((3, 2), (0, 2), 0),
):
    for _unique in (False, True):
        _tag = f"{_x}-{_index}-{_d}{'-unique' if _unique else ''}"
        row(
            f"take_along-{_tag}",
            o.take_along_p,
            bind(o.take_along_p, dimension=_d, unique=_unique),
            lambda x, index, d=_d: np.take_along_axis(x, index, d),
            _takeable(_x, _index, _d, _unique, _x[_d]),
            ANY,
            linear=((0,),),
        )
        row(
            f"put_along-{_tag}",
            o.put_along_p,
            bind(o.put_along_p, dimension=_d, unique=_unique, size=_x[_d]),
            lambda x, index, d=_d, size=_x[_d]: _put_along(x, index, d, size),
            _takeable(_index, _index, _d, _unique, _x[_d]),
            NUMBERS,
            linear=((0,),),
            ulps=16,
        )
for _x, _d in _LINES:
    for _stable in (True, False):
        _tag = f"{_x}-{_d}{'-stable' if _stable else ''}"
        row(
            f"sort-{_tag}",
            o.sort_p,
            bind(o.sort_p, dimension=_d, num_keys=1, is_stable=_stable),
            lambda x, d=_d: np.sort(x, axis=d),
            normal(_x),
            ANY,
        )
    for _keys in (1, 2):
        row(
            f"sort-two-{_keys}-{_x}-{_d}",
            o.sort_p,
            lambda x, y, d=_d, n=_keys: tuple(
                o.sort_p.bind(x, y, dimension=d, num_keys=n, is_stable=True)
            ),
            lambda x, y, d=_d, n=_keys: tuple(
                np.take_along_axis(a, np.lexsort((y, x) if n == 2 else (x,), axis=d), d)
                for a in (x, y)
            ),
            normal(_x, _x),
            ORDERED,
        )
    row(
        f"argsort-{_x}-{_d}",
        o.argsort_p,
        bind(o.argsort_p, dimension=_d, is_stable=True, index_dtype=np.dtype("int32")),
        lambda x, d=_d: np.argsort(x, axis=d, kind="stable").astype(np.int32),
        _repeats(_x),
        ANY,
    )
    row(
        f"argsort-two-{_x}-{_d}",
        o.argsort_p,
        bind(o.argsort_p, dimension=_d, is_stable=True, index_dtype=np.dtype("int64")),
        lambda x, y, d=_d: np.lexsort((y, x), axis=d),
        lambda rng, dtype, x=_x: _repeats(x)(rng, dtype) + _repeats(x)(rng, dtype),
        ORDERED,
    )
    row(
        f"top_k-{_x}-{_d}",
        o.top_k_p,
        lambda x, d=_d, k=_x[_d] // 2: tuple(o.top_k_p.bind(x, k=k, axis=d)),
        lambda x, d=_d, k=_x[_d] // 2: _top_k(x, k, d),
        normal(_x),
        ORDERED,
    )
row(
    "argsort-long",  # long enough for the kernel's packed keys
    o.argsort_p,
    bind(o.argsort_p, dimension=0, is_stable=True, index_dtype=np.dtype("int32")),
    lambda x: np.argsort(x, axis=0, kind="stable").astype(np.int32),
    _repeats((600,)),
    ANY,
)
row(
    "sort-long",
    o.sort_p,
    bind(o.sort_p, dimension=0, num_keys=1, is_stable=True),
    np.sort,
    normal((600,)),
    ANY,
    skip=dict.fromkeys(("jvp", "second_order"), "neighbours come nearer than a step"),
)
row(
    "top_k-ties",
    o.top_k_p,
    lambda x: tuple(o.top_k_p.bind(x, k=5, axis=1)),
    lambda x: _top_k(x, 5, 1),
    _repeats((3, 9)),
    ORDERED,
    skip=dict.fromkeys(("jvp", "second_order"), "equal elements have no derivative"),
)


def _top_k(x: np.ndarray, k: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """The k largest; of equal ones the first."""
    n = x.shape[d]
    backwards = np.argsort(np.flip(x, d), axis=d, kind="stable")
    index = np.take(np.flip(n - 1 - backwards, d), np.arange(k), axis=d)
    return np.take_along_axis(x, index, d), index.astype(np.int32)


def _sorted_draw(a: tuple[int, ...], v: tuple[int, ...]) -> Draw:
    def draw(rng: np.random.Generator, dtype: np.dtype) -> tuple:
        (x,) = _repeats(a)(rng, dtype)
        return (np.sort(x, axis=-1), *_repeats(v)(rng, dtype))

    return draw


for _side in ("left", "right"):
    for _a, _v in (((6,), (3, 2)), ((6,), ()), ((0,), (2,)), ((4,), (0,))):
        row(
            f"searchsorted-{_side}-{_a}-{_v}",
            o.searchsorted_p,
            bind(o.searchsorted_p, side=_side, batch_dims=0, index_dtype=np.dtype("int32")),
            lambda a, v, side=_side: np.searchsorted(a, v, side).astype(np.int32),
            _sorted_draw(_a, _v),
            ORDERED,
            skip={"special": "special values at drawn places leave the array unsorted"},
        )
    row(
        f"searchsorted-{_side}-batched",
        o.searchsorted_p,
        bind(o.searchsorted_p, side=_side, batch_dims=1, index_dtype=np.dtype("int64")),
        lambda a, v, side=_side: np.stack(
            [np.searchsorted(x, y, side) for x, y in zip(a, v, strict=True)]
        ),
        _sorted_draw((2, 5), (2, 3)),
        ORDERED,
        skip={"special": "special values at drawn places leave the arrays unsorted"},
    )

# -- random bits ----------------------------------------------------------------------------------


def _threefry(k0: Any, k1: Any, c0: Any, c1: Any) -> tuple[np.ndarray, np.ndarray]:
    """Threefry-2x32 with 20 rounds in Python integers, from the paper's description."""

    def one(k0: int, k1: int, x0: int, x1: int) -> tuple[int, int]:
        limit = 1 << 32
        keys = (k0, k1, k0 ^ k1 ^ 0x1BD11BDA)
        x0, x1 = (x0 + k0) % limit, (x1 + k1) % limit
        for n in range(20):
            r = ((13, 15, 26, 6), (17, 29, 16, 24))[n // 4 % 2][n % 4]
            x0 = (x0 + x1) % limit
            x1 = ((x1 << r) | (x1 >> (32 - r))) % limit ^ x0
            if n % 4 == 3:
                m = n // 4 + 1
                x0, x1 = (x0 + keys[m % 3]) % limit, (x1 + keys[(m + 1) % 3] + m) % limit
        return x0, x1

    words = np.broadcast_arrays(k0, k1, c0, c1)
    outs = np.empty((2, *words[0].shape), np.uint32)
    for k in np.ndindex(*words[0].shape):
        outs[(slice(None), *k)] = one(*(int(w[k]) for w in words))
    return outs[0], outs[1]


for _key, _counter in (((), (3, 4)), ((3,), (3,)), ((), ())):
    row(
        f"threefry2x32-{_key}-{_counter}",
        random_bits.threefry2x32_p,
        lambda *words: tuple(random_bits.threefry2x32_p.bind(*words)),
        _threefry,
        _any_integer(_key, _key, _counter, _counter),
        ("uint32",),
        edges=(_any_integer((), (), (0, 2), (0, 2)), _any_integer((), (), (), (2,))),
    )

# The functions by which samplers make numbers of bits: JAX's numbers, and so not the most exact.
unary(random_bits.sampling_log_p, np.log, FLOATS, 0.2, 3, ulps=8)
unary(random_bits.sampling_log1p_p, np.log1p, FLOATS, -0.28, 3, ulps=8)
unary(random_bits.sampling_exp_p, np.exp, FLOATS, ulps=8)
unary(random_bits.sampling_erf_p, scipy.special.erf, FLOATS, ulps=8)
for _exact in (True, False):
    unary(
        random_bits.sampling_erf_inv_p,
        scipy.special.erfinv,
        FLOATS,
        -0.5,
        0.5,
        ulps=16,
        params={"exact": _exact},
        suffix=f"-exact-{_exact}",
    )
row(
    "sampling_fma",
    random_bits.sampling_fma_p,
    bind(random_bits.sampling_fma_p),
    lambda x, y, z: x * y + z,
    normal((3, 4), (3, 4), (3, 4)),
    FLOATS,
    edges=(normal((), (), ()), normal((0, 3), (0, 3), ())),
)

# -- calls ----------------------------------------------------------------------------------------

row(
    "jit",
    jit_p,
    mgefn.jit(lambda x, y: e.sin(x) * y + x),
    lambda x, y: np.sin(x) * y + x,
    normal((3, 4), (3, 4)),
    ("float32", "float64", "complex128"),
    edges=(normal((), ()), normal((0, 2), (0, 2))),
)
row(
    "jit-linear",
    jit_p,
    mgefn.jit(lambda x, y: (x * 2 + y, y)),
    lambda x, y: (x * 2 + y, y),
    normal((3, 4), (3, 4)),
    ("float32", "float64", "complex128"),
    linear=((0, 1),),
)
row(
    "jit-integers",
    jit_p,
    mgefn.jit(lambda x, k: (x * 2, k + 1)),
    lambda x, k: (x * 2, k + 1),
    with_also(normal((3,)), integers(0, 5, (3,))),
    ("float64",),
)


@custom_rules.custom_jvp
def _sine(x: Any, y: Any) -> Any:
    return e.sin(x) * y


@_sine.defjvp
def _sine_jvp(primals: Any, tangents: Any) -> Any:
    (x, y), (x_dot, y_dot) = primals, tangents
    return _sine(x, y), e.cos(x) * y * x_dot + e.sin(x) * y_dot


@custom_rules.custom_vjp
def _product(x: Any, y: Any) -> Any:
    return e.sin(x) * y


_product.defvjp(
    lambda x, y: (_product(x, y), (x, y)),
    lambda saved, ct: (ct * e.cos(saved[0]) * saved[1], ct * e.sin(saved[0])),
)
_REVERSE_ONLY = dict.fromkeys(
    ("jvp", "transpose", "second_order", "narrow", "jaxpr"),
    "a custom_vjp function has no forward mode; test_vjp_of_reverse_only_rows looks at its reverse",
)
for _primitive, _fun, _skip in (
    (checkpoint.remat_p, checkpoint.checkpoint(lambda x, y: e.sin(x) * y), {}),
    (custom_rules.custom_jvp_call_p, _sine, {}),
    (custom_rules.custom_jvp_staged_p, mgefn.jit(_sine), {}),
    (custom_rules.custom_vjp_call_p, _product, _REVERSE_ONLY),
    (custom_rules.custom_vjp_staged_p, mgefn.jit(_product), _REVERSE_ONLY),
    (custom_rules.custom_transpose_call_p, lambda x, y: _product(x, y) * 2, _REVERSE_ONLY),
):
    row(
        f"{_primitive.name}{'' if _primitive.closes_over else '-staged'}"
        if _primitive.name.startswith("custom_")
        else _primitive.name,
        _primitive,
        _fun,
        lambda x, y, n=2 if _primitive is custom_rules.custom_transpose_call_p else 1: (
            np.sin(x) * y * n
        ),
        normal((3, 4), (3, 4)),
        ("float32", "float64"),
        edges=(normal((), ()), normal((0, 2), (0, 2))),
        skip=_skip,
    )
linear_row("plain", checkpoint.name_p, {"name": "x"}, np.asarray, (3, 4))
row(
    "optimization_barrier",
    checkpoint.optimization_barrier_p,
    lambda x, y: tuple(checkpoint.optimization_barrier_p.bind(x, y)),
    lambda x, y: (x, y),
    normal((3, 4), ()),
    ANY,
    edges=(normal((0,), ()),),
    linear=((0, 1),),
)


def _in_python(x: Any, k: Any) -> Any:
    shape = mgefn.ShapeDtypeStruct(x.shape, x.dtype)
    return callbacks.pure_callback(lambda a, b: a * b, shape, x, k, vmap_method="sequential")


def _with_effect(x: Any, k: Any) -> Any:
    shape = mgefn.ShapeDtypeStruct(x.shape, x.dtype)
    return callbacks.io_callback(lambda a, b: a * b, shape, x, k)


def _watched(x: Any, k: Any) -> Any:
    callbacks.debug_callback(lambda a: None, (x,), {}, False, "watch")
    return x * k


for _primitive, _fun in (
    (callbacks.pure_callback_p, _in_python),
    (callbacks.io_callback_p, _with_effect),
    (callbacks.debug_callback_p, _watched),
):
    row(
        _primitive.name,
        _primitive,
        _fun,
        lambda x, k: x * k,
        lambda rng, dtype: normal((3, 4), (3, 4))(rng, np.dtype("int32")),
        ("int32",),
        edges=(lambda rng, dtype: normal((), ())(rng, np.dtype("int32")),),
    )


@custom_batching.custom_vmap
def _mapped_by_hand(x: Any, y: Any) -> Any:
    return e.sin(x) * y


@_mapped_by_hand.def_vmap
def _mapped_rule(axis_size: int, in_batched: Any, x: Any, y: Any) -> Any:
    def whole(v: Any, batched: bool) -> Any:
        return v if batched else s.broadcast_to(v, (axis_size, *v.shape))

    return e.sin(whole(x, in_batched[0])) * whole(y, in_batched[1]), True


row(
    "custom_vmap_call",
    custom_batching.custom_vmap_p,
    mgefn.jit(_mapped_by_hand),
    lambda x, y: np.sin(x) * y,
    normal((3, 4), (3, 4)),
    ("float32", "float64"),
    edges=(normal((), ()), normal((0, 2), (0, 2))),
)
row(
    "linear_call",
    linear_call.linear_call_p,
    lambda x: linear_call.linear_call(lambda k, x: x * k, lambda k, ct: ct * k, 2, x),
    lambda x: x * 2,
    normal((3, 4)),
    ("float32", "float64"),
    edges=(normal(()), normal((0, 2))),
    linear=((0,),),
)


def _stated(x: Any, k: Any) -> Any:
    checks.check((x == x).all(), "never")
    return x * k


row(
    "check",
    checks.check_p,
    _stated,
    lambda x, k: x * k,
    lambda rng, dtype: normal((3, 4), (3, 4))(rng, np.dtype("int32")),
    ("int32",),
    edges=(lambda rng, dtype: normal((), ())(rng, np.dtype("int32")),),
)

# -- control flow ---------------------------------------------------------------------------------

# Under jit, so that the index is traced and the primitive is bound.
_with_flag = _select_draw(booleans, (), (3, 4), (3, 4))
row(
    "cond",
    branching.cond_p,
    mgefn.jit(
        lambda flag, x, y: branching.cond(
            flag, lambda x, y: e.sin(x) * y, lambda x, y: x + y * y, x, y
        )
    ),
    lambda flag, x, y: np.sin(x) * y if flag else x + y * y,
    _with_flag,
    ("float32", "float64", "complex128"),
    edges=(_select_draw(booleans, (), (), ()), _select_draw(booleans, (), (0, 2), (0, 2))),
)
row(
    "cond-linear",  # one branch leaves an operand out
    branching.cond_p,
    mgefn.jit(
        lambda flag, x, y: branching.cond(
            flag, lambda x, y: (x * 2 + y, y), lambda x, y: (-y, x * 0), x, y
        )
    ),
    lambda flag, x, y: (x * 2 + y, y) if flag else (-y, x * 0),
    _with_flag,
    ("float32", "float64", "complex128"),
    linear=((1, 2),),
)
row(
    "switch",
    branching.cond_p,
    mgefn.jit(lambda k, x: branching.switch(k, [e.sin, lambda x: x * x, lambda x: x * 0 + 1], x)),
    lambda k, x: [np.sin(x), x * x, np.ones_like(x)][min(max(int(k), 0), 2)],
    _select_draw(lambda shape: integers(-1, 4, shape), (), (3, 4)),
    ("float32", "float64", "complex128"),
    skip={"special": "0 times infinity"},
)


def _recurrence(w: Any, h: Any, xs: Any) -> Any:
    def step(c: Any, x: Any) -> Any:
        new = e.sin(0.3 * (c * w + x))
        return new, new * x

    return scan.scan(step, h, xs)


def _recurrence_in_numpy(w: Any, h: Any, xs: Any) -> Any:
    ys = []
    for x in xs:
        h = np.sin(0.3 * (h * w + x))
        ys.append(h * x)
    return h, np.array(ys).reshape(xs.shape)


row(
    "scan",
    scan.scan_p,
    _recurrence,
    _recurrence_in_numpy,
    normal((3,), (3,), (4, 3)),
    ("float32", "float64", "complex128"),
    edges=(normal((), (), (2,)), normal((2,), (2,), (0, 2)), normal((0,), (0,), (2, 0))),
    ulps=64,  # four sines, one after the other
)
row(
    "scan-linear",
    scan.scan_p,
    lambda h, xs: scan.scan(lambda c, x: (c * 2 + x, c - x), h, xs, reverse=True),
    None,  # tests/control/test_scan.py
    normal((3,), (4, 3)),
    ("float64", "complex128"),
    linear=((0, 1),),
    skip={"values": "in tests/control/test_scan.py"},
)
row(
    "while",
    loops.while_p,
    lambda x: loops.while_loop(lambda v: v[0] < 3, lambda v: (v[0] + 1, e.sin(v[1])), (0, x))[1],
    lambda x: np.sin(np.sin(np.sin(x))),
    normal((3, 4)),
    ("float32", "float64", "complex128"),
    edges=(normal(()), normal((0, 2))),
    ulps=64,  # three sines, one after the other; where they are large each enlarges an error
    skip=dict.fromkeys(
        ("transpose", "second_order", "narrow", "jit", "jaxpr"),
        "no reverse mode: tests/control/test_loops.py",
    ),
)


def _halved(m: Any, b: Any) -> Any:
    """The solution of (2 + m * m) x = b, elementwise."""

    def solve(matvec: Any, b: Any) -> Any:
        return b / matvec(b * 0 + 1)

    return implicit.custom_linear_solve(lambda x: (m * m + 2) * x, b, solve, solve)


row(
    "custom_linear_solve",
    implicit.linear_solve_p,
    _halved,
    lambda m, b: b / (2 + m * m),
    within(-1, 1, (3,), (3,)),
    ("float32", "float64"),
    edges=(within(-1, 1, (), ()), within(-1, 1, (0, 2), (0, 2))),
    skip={"special": "the solver multiplies by 0"},
)

# -- convolution, windows, Fourier transforms -----------------------------------------------------


def _spread(x: np.ndarray, axis: int, step: int, low: int, high: int, fill: Any) -> np.ndarray:
    """Elements `step` apart along an axis, with padding around, negative to cut."""
    n = x.shape[axis]
    size = (n - 1) * step + 1 if n else 0
    out = np.full((*x.shape[:axis], size, *x.shape[axis + 1 :]), fill, x.dtype)
    at = [slice(None)] * x.ndim
    at[axis] = slice(None, None, step)
    out[tuple(at)] = x
    widths = [(0, 0)] * x.ndim
    widths[axis] = (max(low, 0), max(high, 0))
    out = np.pad(out, widths, constant_values=fill)
    at[axis] = slice(max(-low, 0), out.shape[axis] - max(-high, 0))
    return out[tuple(at)]


def _fitting(size: int, window: int, step: int, stride: int) -> int:
    room = size - ((window - 1) * step + 1 if window else 0)
    return 0 if room < 0 else room // stride + 1


def convolution_by_loops(
    x: np.ndarray,
    w: np.ndarray,
    *,
    window_strides: Any,
    padding: Any,
    lhs_dilation: Any,
    rhs_dilation: Any,
    dimension_numbers: Any,
    feature_group_count: int,
    batch_group_count: int,
    preferred_element_type: Any,
) -> np.ndarray:
    """Plain loops over the outputs."""
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    x, w = x.transpose(lhs_spec), w.transpose(rhs_spec)
    for d, (step, (low, high)) in enumerate(zip(lhs_dilation, padding, strict=True)):
        x = _spread(x, d + 2, step, low, high, 0)
    columns = (w.shape[2:], rhs_dilation, window_strides)
    spatial = [_fitting(n, *row) for n, *row in zip(x.shape[2:], *columns, strict=True)]
    inputs, per_group = w.shape[1], w.shape[0] // (feature_group_count * batch_group_count)
    batch = x.shape[0] // batch_group_count
    out = np.zeros((batch, w.shape[0], *spatial), preferred_element_type or x.dtype)
    for index in np.ndindex(*out.shape):
        n, o, *place = index
        group = o // per_group
        features = slice(group * inputs, (group + 1) * inputs)
        if batch_group_count > 1:
            n, features = n + group * batch, slice(None)
        seen = tuple(
            slice(p * s, p * s + (k - 1) * d + 1 if k else p * s, d)
            for p, k, d, s in zip(place, *columns, strict=True)
        )
        out[index] = (x[(n, features, *seen)].astype(out.dtype) * w[o]).sum(dtype=out.dtype)
    return out.transpose(np.argsort(out_spec))


def conv_params(letters: tuple[str, str, str], **given: Any) -> dict[str, Any]:
    lhs, rhs, out = letters
    spatial = [c for c in rhs if c not in "OI"]
    n = len(spatial)
    return {
        "window_strides": (1,) * n,
        "padding": ((0, 0),) * n,
        "lhs_dilation": (1,) * n,
        "rhs_dilation": (1,) * n,
        "dimension_numbers": convolution.ConvDimensionNumbers(
            *[
                tuple(spec.index(c) for c in (*pair, *spatial))
                for spec, pair in ((lhs, "NC"), (rhs, "OI"), (out, "NC"))
            ]
        ),
        "feature_group_count": 1,
        "batch_group_count": 1,
        "preferred_element_type": None,
        **given,
    }


_FIRST, _LAST = ("NCHW", "OIHW", "NCHW"), ("NHWC", "HWIO", "NHWC")
for _name, _x, _w, _letters, _given in (
    ("first", (2, 3, 5, 4), (4, 3, 3, 2), _FIRST, {}),
    ("last", (2, 5, 4, 3), (3, 2, 3, 4), _LAST, {}),
    ("one-place", (2, 3, 3, 4), (1, 1, 4, 2), _LAST, {"window_strides": (2, 1)}),
    ("one-place-first", (2, 3, 3, 4), (2, 3, 1, 1), _FIRST, {"padding": ((0, -1), (0, 0))}),
    ("strided", (2, 2, 7), (3, 2, 3), ("NCW", "OIW", "NCW"),
     {"window_strides": (2,), "padding": ((1, 2),)}),
    ("dilated", (2, 2, 4), (3, 2, 3), ("NCW", "OIW", "NCW"),
     {"lhs_dilation": (3,), "rhs_dilation": (2,), "window_strides": (2,), "padding": ((2, -1),)}),
    ("groups", (2, 4, 5), (6, 2, 2), ("NCW", "OIW", "NCW"),
     {"feature_group_count": 2, "padding": ((1, 0),)}),
    ("depthwise", (2, 5, 4, 3), (3, 2, 1, 6), _LAST,
     {"feature_group_count": 3, "padding": ((1, 1), (0, 0)), "window_strides": (2, 1)}),
    ("batch-groups", (4, 2, 5), (6, 2, 3), ("NCW", "OIW", "NCW"),
     {"batch_group_count": 2, "padding": ((0, 2),)}),
    ("mixed", (4, 2, 1, 3), (3, 2, 2, 3), ("HNWC", "IHOW", "WCHN"), {"padding": ((0, 0), (1, 1))}),
    ("volume", (1, 2, 3, 3, 2), (2, 2, 2, 2, 2), ("NCXYZ", "OIZYX", "NCXYZ"), {}),
    ("no-space", (3, 4), (5, 4), ("NC", "OI", "NC"), {}),
    ("no-space-groups", (3, 4), (2, 2), ("NC", "OI", "NC"), {"feature_group_count": 2}),
    ("no-room", (2, 2, 2), (3, 2, 4), ("NCW", "OIW", "NCW"), {}),
    ("no-batch", (0, 2, 4), (3, 2, 2), ("NCW", "OIW", "NCW"), {}),
    ("no-features", (2, 0, 4), (3, 0, 2), ("NCW", "OIW", "NCW"), {"padding": ((1, 1),)}),
):  # fmt: skip
    _params = conv_params(_letters, **_given)
    row(
        f"conv_general_dilated-{_name}",
        convolution.conv_general_dilated_p,
        bind(convolution.conv_general_dilated_p, **_params),
        functools.partial(convolution_by_loops, **_params),
        normal(_x, _w),
        NUMBERS if _name in ("strided", "groups", "depthwise") else INEXACT,
        linear=((0,), (1,)),
        ulps=32,
        skip={"special": "0 times infinity"},
    )
for _old, _new in (("float16", "float32"), ("int8", "int32"), ("complex64", "complex128")):
    _params = conv_params(("NCW", "OIW", "NCW"), preferred_element_type=np.dtype(_new))
    row(
        f"conv_general_dilated-preferred-{_old}-{_new}",
        convolution.conv_general_dilated_p,
        bind(convolution.conv_general_dilated_p, **_params),
        functools.partial(convolution_by_loops, **_params),
        normal((2, 2, 5), (3, 2, 3)),
        (_old,),
        ulps=32,
    )


def window_params(n: int, window: tuple[int, ...], **given: Any) -> dict[str, Any]:
    ones = (1,) * n
    return {
        "window_dimensions": window,
        "window_strides": ones,
        "padding": ((0, 0),) * n,
        "base_dilation": ones,
        "window_dilation": ones,
        **given,
    }


def _each_window(x: np.ndarray, fill: Any, params: dict[str, Any]) -> Any:
    """(index of the output, the elements it sees) for each window."""
    for d, (step, (low, high)) in enumerate(
        zip(params["base_dilation"], params["padding"], strict=True)
    ):
        x = _spread(x, d, step, low, high, fill)
    columns = [params[k] for k in ("window_dimensions", "window_dilation", "window_strides")]
    shape = tuple(_fitting(n, *row) for n, *row in zip(x.shape, *columns, strict=True))
    seen = [
        x[
            tuple(
                slice(p * s, p * s + (k - 1) * d + 1, d)
                for p, k, d, s in zip(index, *columns, strict=True)
            )
        ]
        for index in np.ndindex(*shape)
    ]
    return shape, seen


def windows_by_loops(
    function: Any, identity: Callable[[np.dtype], Any], x: np.ndarray, **params: Any
) -> np.ndarray:
    shape, seen = _each_window(x, identity(x.dtype), params)
    return np.array([function(part) for part in seen], x.dtype).reshape(shape)


def _least(dtype: np.dtype) -> Any:
    return False if dtype.kind == "b" else np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf


def _greatest(dtype: np.dtype) -> Any:
    return True if dtype.kind == "b" else np.iinfo(dtype).max if dtype.kind in "iu" else np.inf


def _selected(select: str, x: np.ndarray, params: dict[str, Any]) -> tuple:
    """The shape of the windows, and the flat index of the element each selects, -1 for none."""
    shape, places = _each_window(np.arange(x.size).reshape(x.shape), -1, params)
    best = np.argmax if select == "max" else np.argmin
    chosen = []
    for place in places:
        inside = place.ravel()[place.ravel() >= 0]
        chosen.append(inside[best(x.ravel()[inside])] if inside.size else -1)
    return shape, chosen


def gathered_by_loops(t: np.ndarray, x: np.ndarray, *, select: str, **params: Any) -> np.ndarray:
    shape, chosen = _selected(select, x, params)
    return np.array([t.ravel()[k] if k >= 0 else 0 for k in chosen], t.dtype).reshape(shape)


def scattered_by_loops(
    source: np.ndarray, x: np.ndarray, *, select: str, **params: Any
) -> np.ndarray:
    _, chosen = _selected(select, x, params)
    out = np.zeros(x.size, source.dtype)
    for k, value in zip(chosen, source.ravel(), strict=True):
        if k >= 0:
            out[k] += value
    return out.reshape(x.shape)


_WINDOWS: tuple[tuple[str, tuple[int, ...], dict[str, Any]], ...] = (
    ("plain", (4, 5), window_params(2, (2, 3))),
    ("strided", (7,), window_params(1, (3,), window_strides=(2,), padding=((1, 2),))),
    ("dilated", (5, 4), window_params(2, (2, 2), base_dilation=(3, 1), window_dilation=(2, 3),
                                       window_strides=(2, 1), padding=((3, 0), (-1, 2)))),
    ("ones", (3, 2), window_params(2, (1, 1))),
    ("no-room", (2, 3), window_params(2, (3, 1))),
    ("empty", (0, 3), window_params(2, (2, 2), padding=((2, 2), (0, 0)))),
    ("scalar", (), window_params(0, ())),
)  # fmt: skip
for _name, _shape, _params in _WINDOWS:
    linear_row(
        _name,
        windows.reduce_window_sum_p,
        _params,
        functools.partial(windows_by_loops, np.sum, lambda dtype: 0, **_params),
        _shape,
        dtypes=NUMBERS,
        ulps=16,
    )
    for _primitive, _function, _identity in (
        (windows.reduce_window_max_p, np.max, _least),
        (windows.reduce_window_min_p, np.min, _greatest),
    ):
        row(
            f"{_primitive.name}-{_name}",
            _primitive,
            bind(_primitive, **_params),
            functools.partial(windows_by_loops, _function, _identity, **_params),
            normal(_shape),
            ORDERED,
            ulps=0,
            skip={"jvp": "windows of padding only are infinite"}
            if _name in ("dilated", "empty")
            else {},
        )
    _out = windows.out_sizes(_shape, **_params)
    for _select in ("max", "min"):
        for _primitive, _reference, _shapes in (
            (windows.select_and_gather_add_p, gathered_by_loops, (_shape, _shape)),
            (windows.select_and_scatter_add_p, scattered_by_loops, (_out, _shape)),
        ):
            row(
                f"{_primitive.name}-{_select}-{_name}",
                _primitive,
                bind(_primitive, select=_select, **_params),
                functools.partial(_reference, select=_select, **_params),
                normal(*_shapes),
                (*SIGNED, *FLOATS),
                linear=((0,),),
                ulps=16,
            )

for _kind, _x, _lengths in (
    (fourier.FftType.FFT, (2, 6), (6,)),
    (fourier.FftType.FFT, (3, 4), (3, 4)),
    (fourier.FftType.FFT, (0, 4), (4,)),
    (fourier.FftType.IFFT, (2, 5), (5,)),
    (fourier.FftType.IFFT, (2, 3, 4), (3, 4)),
    (fourier.FftType.RFFT, (2, 6), (6,)),
    (fourier.FftType.RFFT, (3, 5), (3, 5)),
    (fourier.FftType.RFFT, (2, 1), (1,)),
    (fourier.FftType.RFFT, (0, 4), (4,)),
    (fourier.FftType.IRFFT, (2, 4), (6,)),
    (fourier.FftType.IRFFT, (3, 4, 3), (4, 5)),
    (fourier.FftType.IRFFT, (2, 1), (1,)),
    (fourier.FftType.IRFFT, (0, 3), (4,)),
):
    _axes = tuple(range(len(_x) - len(_lengths), len(_x)))
    _numpy = getattr(np.fft, f"{_kind.name.lower()}n")
    linear_row(
        f"{_kind.name}-{_x}-{_lengths}",
        fourier.fft_p,
        {"fft_type": _kind, "fft_lengths": _lengths},
        functools.partial(_numpy, s=_lengths, axes=_axes),
        _x,
        dtypes=("float32", "float64") if _kind == fourier.FftType.RFFT else COMPLEXES,
        ulps=32,
        skip={"special": "0 times infinity"},
    )

# -- linear algebra -------------------------------------------------------------------------------

MATRICES = ("float32", "float64", "complex64", "complex128")
_LAPACK = {"special": "what LAPACK makes of infinities and NaN: tests/control/test_linalg.py"}
_NO_DERIVATIVE = _LAPACK | dict.fromkeys(
    ("jvp", "transpose", "second_order"), "its jvp rule is a declared hole"
)


def near_identity(*shapes: tuple[int, ...], scale: float = 3.0) -> Draw:
    """Matrices with a large diagonal, so that they are far from singular."""

    def draw(rng: np.random.Generator, dtype: np.dtype) -> tuple:
        return tuple(
            np.asarray(x + scale * np.eye(*x.shape[-2:])).astype(dtype) if x.ndim > 1 else x
            for x in normal(*shapes)(rng, dtype)
        )

    return draw


def positive(shape: tuple[int, ...]) -> Draw:
    """Positive definite matrices with eigenvalues that differ."""

    def draw(rng: np.random.Generator, dtype: np.dtype) -> tuple:
        (x,) = normal(shape)(rng, dtype)
        product = x @ np.conj(np.swapaxes(x, -1, -2))
        return (np.asarray(product + np.diag(np.arange(1.0, shape[-1] + 1))).astype(dtype),)

    return draw


def linalg_row(
    name: str, primitive: Primitive, fun: Any, reference: Any, draw: Draw, **options: Any
) -> None:
    options.setdefault("ulps", 400)
    options.setdefault("skip", _LAPACK)
    dtypes = options.pop("dtypes", MATRICES)
    row(name, primitive, fun, reference, draw, dtypes, **options)


linalg_row(
    "cholesky",
    triangular.cholesky_p,
    bind(triangular.cholesky_p),
    np.linalg.cholesky,
    positive((3, 3)),
    edges=(positive((2, 3, 3)), within(1, 2, (0, 0))),
)


def _triangular_reference(a: Any, b: Any, left: bool, lower: bool, op: str, unit: bool) -> Any:
    a = np.tril(a) if lower else np.triu(a)
    if unit:
        a = a - a * np.eye(a.shape[-1]) + np.eye(a.shape[-1])
    a = a.conj() if "c" in op else a
    a = np.swapaxes(a, -1, -2) if "t" in op else a
    if left:
        return np.linalg.solve(a, b)
    return np.swapaxes(np.linalg.solve(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)), -1, -2)


for _left, _lower, _op, _unit in (
    (True, True, "", False),
    (True, False, "t", True),
    (False, True, "tc", False),
    (False, False, "c", True),
    (False, False, "", False),
):
    _b = (3, 2) if _left else (2, 3)
    linalg_row(
        f"triangular_solve-{_left}-{_lower}-{_op}-{_unit}",
        triangular.triangular_solve_p,
        bind(
            triangular.triangular_solve_p,
            left_side=_left,
            lower=_lower,
            transpose_a="t" in _op,
            conjugate_a="c" in _op,
            unit_diagonal=_unit,
        ),
        functools.partial(_triangular_reference, left=_left, lower=_lower, op=_op, unit=_unit),
        near_identity((3, 3), _b),
        edges=(
            near_identity((2, 3, 3), (2, *_b)),
            near_identity((5, 3, 3), (5, *_b)),
            near_identity((0, 0), (0, 2) if _left else (2, 0)),
        ),
        linear=((1,),),
    )


def _lu_reference(a: Any) -> Any:
    """LU with partial pivoting, step by step."""
    lu = np.array(a)
    m, n = a.shape[-2:]
    pivots = np.zeros((*a.shape[:-2], min(m, n)), np.int32)
    order = np.zeros((*a.shape[:-2], m), np.int32) + np.arange(m, dtype=np.int32)
    for at in np.ndindex(*a.shape[:-2]):
        x = lu[at]
        for k in range(min(m, n)):
            size = np.abs(x[k:, k].real) + np.abs(x[k:, k].imag)
            p = k + int(np.argmax(size))
            pivots[at][k] = p
            x[[k, p]] = x[[p, k]]
            order[at][[k, p]] = order[at][[p, k]]
            x[k + 1 :, k] /= x[k, k]
            x[k + 1 :, k + 1 :] -= np.outer(x[k + 1 :, k], x[k, k + 1 :])
    return lu, pivots, order


for _shape in ((3, 3), (4, 2), (2, 4)):
    linalg_row(
        f"lu-{_shape}",
        lu.lu_p,
        lambda x: tuple(lu.lu_p.bind(x)),
        _lu_reference,
        near_identity(_shape),
        edges=(near_identity((2, *_shape)), normal((0, 3)), normal((2, 0))),
    )

row(
    "lu_pivots_to_permutation",
    lu.lu_pivots_to_permutation_p,
    bind(lu.lu_pivots_to_permutation_p, permutation_size=4),
    lambda p: np.stack(
        [
            functools.reduce(
                lambda o, s: [o[{s[0]: s[1], s[1]: s[0]}.get(k, k)] for k in range(4)],
                enumerate(map(int, one)),
                list(range(4)),
            )
            for one in p.reshape(-1, 3)
        ]
    ).reshape(*p.shape[:-1], 4),
    lambda rng, dtype: (integers(0, 4, (3,), dtype.name)(rng),),
    ("int32", "int64"),
    edges=(lambda rng, dtype: (integers(0, 4, (2, 3), dtype.name)(rng),),),
)

for _transpose in (False, True):
    linalg_row(
        f"solve-{_transpose}",
        lu.solve_p,
        bind(lu.solve_p, transpose_a=_transpose),
        lambda a, b, t=_transpose: np.linalg.solve(np.swapaxes(a, -1, -2) if t else a, b),
        near_identity((3, 3), (3, 2)),
        edges=(near_identity((2, 3, 3), (2, 3, 2)), near_identity((0, 0), (0, 2))),
        linear=((1,),),
    )
linalg_row(
    "solve-with-factors",
    lu.solve_p,
    lu.solve_matrices,
    np.linalg.solve,
    near_identity((3, 3), (3, 2)),
    edges=(near_identity((0, 0), (0, 2)),),
    linear=((1,),),
)


def _minors(a: Any) -> Any:
    n = a.shape[-1]
    out = np.ones_like(a)
    for k, j in itertools.product(range(n), range(n)):
        rest = np.delete(np.delete(a, k, -2), j, -1)
        out[..., k, j] = (-1) ** (k + j) * np.linalg.det(rest)
    return out


def singular(shape: tuple[int, ...], rank: int) -> Draw:
    def draw(rng: np.random.Generator, dtype: np.dtype) -> tuple:
        left, right = normal((*shape[:-1], rank), (*shape[:-2], rank, shape[-1]))(rng, dtype)
        return (np.asarray(left @ right).astype(dtype),)

    return draw


def _pinv(x: Any) -> Any:
    limit = np.full(x.shape[:-2], 1e-5, np.empty(0, x.dtype).real.dtype)
    return svd.pinv_p.bind1(x, mgefn.device_put(limit), hermitian=False)


for _primitive, _reference in ((lu.det_p, np.linalg.det), (lu.cofactor_p, _minors)):
    for _name, _draw in (
        ("regular", near_identity((4, 4), scale=1)),
        ("rank-3", singular((4, 4), 3)),
        ("rank-2", singular((4, 4), 2)),
    ):
        linalg_row(
            f"{_primitive.name}-{_name}",
            _primitive,
            bind(_primitive),
            _reference,
            _draw,
            edges=(near_identity((2, 3, 3)), within(1, 2, (1, 1)), within(1, 2, (0, 0))),
            ulps=4000,
            second_order=_primitive is lu.det_p or _name == "regular",
        )

for _shape in ((3, 3), (4, 2), (2, 4)):
    for _full in (False, True):
        linalg_row(
            f"qr-{_shape}-{_full}",
            qr.qr_p,
            lambda x, full=_full: tuple(qr.qr_p.bind(x, pivoting=False, full_matrices=full)),
            lambda x, full=_full: np.linalg.qr(x, "complete" if full else "reduced"),
            near_identity(_shape, scale=1),
            edges=(near_identity((2, *_shape), scale=1), normal((0, 3))),
        )
    linalg_row(
        f"qr-pivoting-{_shape}",
        qr.qr_p,
        lambda x: tuple(qr.qr_p.bind(x, pivoting=True, full_matrices=False)),
        None,  # tests/control/test_linalg.py
        near_identity(_shape, scale=1),
        edges=(near_identity((2, *_shape), scale=1), normal((0, 3))),
    )
    linalg_row(
        f"geqrf-{_shape}",
        qr.geqrf_p,
        lambda x: tuple(qr.geqrf_p.bind(x)),
        lambda x: (lambda h, tau: (np.swapaxes(h, -1, -2), tau))(*np.linalg.qr(x, "raw")),
        near_identity(_shape),
        edges=(near_identity((2, *_shape)),),
        differentiable=(),
        skip=_NO_DERIVATIVE,
    )
    linalg_row(
        f"svd-values-{_shape}",
        svd.svd_p,
        bind(svd.svd_p, full_matrices=False, compute_uv=False),
        lambda x: np.linalg.svd(x, compute_uv=False),
        near_identity(_shape, scale=1),
        edges=(near_identity((2, *_shape), scale=1), normal((0, 3))),
    )

    def _by_singular_values(x: Any) -> Any:
        """What does not depend on the phases of singular vectors."""
        u, s, vh = svd.svd_p.bind(x, full_matrices=x.shape[-1] == x.shape[-2], compute_uv=True)
        return s, (u * (s * s)[..., None, :].astype(u.dtype)) @ vh, u @ vh

    def _by_singular_values_reference(x: Any) -> Any:
        u, s, vh = np.linalg.svd(x, full_matrices=False)
        return s, (u * (s * s)[..., None, :]) @ vh, u @ vh

    linalg_row(
        f"svd-{_shape}",
        svd.svd_p,
        _by_singular_values,
        _by_singular_values_reference,
        near_identity(_shape, scale=1),
        edges=(near_identity((2, *_shape), scale=1), normal((0, 3))),
    )
    linalg_row(
        f"pinv-{_shape}",
        svd.pinv_p,
        _pinv,
        np.linalg.pinv,
        near_identity(_shape, scale=1),
        edges=(near_identity((2, *_shape), scale=1), normal((0, 3))),
        ulps=4000,
    )

linalg_row(
    "householder_product",
    qr.householder_product_p,
    bind(qr.householder_product_p),
    None,  # tests/control/test_linalg.py
    normal((4, 3), (2,)),
    edges=(normal((2, 4, 3), (2, 3)), normal((3, 0), (0,))),
    differentiable=(),
    skip=_NO_DERIVATIVE,
)
row(
    "spread",
    spread.spread_p,
    lambda w: tuple(spread.spread_p.bind(w)),
    lambda w: (np.zeros_like(w), np.zeros(w.shape)[..., None] + np.eye(w.shape[-1]) == 0),
    lambda rng, dtype: (np.sort(normal((4,))(rng, dtype)[0]),),
    ("float32", "float64"),
    edges=(lambda rng, dtype: (np.zeros((0, 3), dtype),), normal((0,))),
    skip=_LAPACK,
)


def _by_eigenvalues(x: Any, lower: bool) -> Any:
    """What does not depend on the phases of eigenvectors."""
    v, w = eigen.eigh_p.bind(x, lower=lower, vectors=True)
    return w, (v * (w * w)[..., None, :].astype(v.dtype)) @ e.conj(v).swapaxes(-1, -2)


def _by_eigenvalues_reference(x: Any, lower: bool) -> Any:
    w, v = np.linalg.eigh(x, "L" if lower else "U")
    return w, (v * (w * w)[..., None, :]) @ np.conj(np.swapaxes(v, -1, -2))


for _lower in (True, False):
    linalg_row(
        f"eigh-{_lower}",
        eigen.eigh_p,
        functools.partial(_by_eigenvalues, lower=_lower),
        functools.partial(_by_eigenvalues_reference, lower=_lower),
        positive((3, 3)),
        edges=(positive((2, 3, 3)), normal((0, 0))),
    )
    linalg_row(
        f"eigvalsh-{_lower}",
        eigen.eigh_p,
        bind(eigen.eigh_p, lower=_lower, vectors=False),
        functools.partial(np.linalg.eigvalsh, UPLO="L" if _lower else "U"),
        positive((3, 3)),
        edges=(positive((2, 3, 3)), normal((0, 0))),
    )


def separate(shape: tuple[int, ...]) -> Draw:
    """Matrices with real eigenvalues near 1, 2, 3, ..., whose order does not change."""

    def draw(rng: np.random.Generator, dtype: np.dtype) -> tuple:
        (x,) = within(-0.2, 0.2, shape)(rng, dtype)
        return (np.asarray(x + np.diag(np.arange(1.0, shape[-1] + 1))).astype(dtype),)

    return draw


for _vectors in (False, True):
    linalg_row(
        f"eig-{_vectors}",
        eigen.eig_p,
        lambda x, v=_vectors: tuple(eigen.eig_p.bind(x, left=False, right=v, derivatives=v)),
        lambda x, v=_vectors: np.linalg.eig(x) if v else (np.linalg.eigvals(x),),
        separate((3, 3)),
        edges=(separate((2, 3, 3)), normal((0, 0))),
    )
linalg_row(
    "eig-left",
    eigen.eig_p,
    lambda x: tuple(eigen.eig_p.bind(x, left=True, right=True, derivatives=True)),
    None,  # tests/control/test_linalg.py
    separate((3, 3)),
    edges=(separate((2, 3, 3)), normal((0, 0))),
)
linalg_row(
    "schur",
    eigen.schur_p,
    lambda x: tuple(eigen.schur_p.bind(x, vectors=True)),
    None,  # tests/control/test_linalg.py
    separate((3, 3)),
    edges=(separate((2, 3, 3)),),
    differentiable=(),
    skip=_NO_DERIVATIVE,
)


def _tridiagonal_reference(dl: Any, d: Any, du: Any, b: Any) -> Any:
    n = d.shape[-1]
    low, up = np.eye(n, k=-1), np.eye(n, k=1)
    a = d[..., None] * np.eye(n) + dl[..., None] * low + du[..., None] * up
    return np.linalg.solve(a, b)


def _tridiagonal(n: int, lead: tuple[int, ...] = ()) -> Draw:
    def draw(rng: np.random.Generator, dtype: np.dtype) -> tuple:
        dl, d, du, b = normal((*lead, n), (*lead, n), (*lead, n), (*lead, n, 2))(rng, dtype)
        return dl, (d + 6).astype(dtype), du, b

    return draw


linalg_row(
    "tridiagonal_solve",
    tridiagonal.tridiagonal_solve_p,
    bind(tridiagonal.tridiagonal_solve_p),
    _tridiagonal_reference,
    _tridiagonal(4),
    edges=(_tridiagonal(3, (2,)), _tridiagonal(1), _tridiagonal(0), _tridiagonal(2)),
    linear=((3,),),
)

# -- collectives ----------------------------------------------------------------------------------

# The map resolves them, so a row is the map of a program that holds one.


def _mapped(one: Callable[..., Any]) -> Callable[..., Any]:
    return mgefn.vmap(mgefn.jit(one), axis_name="i")


def _repeated(x: Any) -> Any:
    return np.broadcast_to(x, (3, *x.shape))


for _name, _primitive, _one, _whole, _linear in [
    ("psum", co.psum_p, lambda x: co.psum(x, "i"), lambda x: _repeated(x.sum(0)), True),
    ("pmax", co.pmax_p, lambda x: co.pmax(x, "i"), lambda x: _repeated(x.max(0)), False),
    ("pmin", co.pmin_p, lambda x: co.pmin(x, "i"), lambda x: _repeated(x.min(0)), False),
    ("all_gather", co.all_gather_p, lambda x: co.all_gather(x, "i", axis=1), lambda x: _repeated(
        np.moveaxis(x, 0, 1)), True),
    ("psum_scatter", co.psum_scatter_p, lambda x: co.psum_scatter(x, "i"), lambda x: x.sum(0),
     True),
    ("all_to_all", co.all_to_all_p, lambda x: co.all_to_all(x, "i", 0, 0),
     lambda x: np.swapaxes(x, 0, 1), True),
    ("ppermute", co.ppermute_p, lambda x: co.ppermute(x, "i", [(0, 2), (1, 0)]),
     lambda x: np.stack([x[1], 0 * x[0], x[0]]), True),
    ("axis_index", co.axis_index_p, lambda x: x * co.axis_index("i"),
     lambda x: x * np.arange(3).reshape(3, 1, 1), True),
]:  # fmt: skip
    row(
        _name,
        _primitive,
        _mapped(_one),
        _whole,
        normal((3, 3, 2)),
        ("float32", "float64") if not _linear else ("float32", "float64", "complex128"),
        edges=(normal((3, 3, 0)),),
        linear=((0,),) if _linear else (),
        skip={"special": "0 times infinity"} if _name in ("axis_index", "ppermute") else {},
    )

CASES: tuple[OpCase, ...] = tuple(ROWS)
