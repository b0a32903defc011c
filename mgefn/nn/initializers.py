"""Starting values of weights, under jax.nn.initializers' names.

An initializer is a function (key, shape, dtype) -> array. `zeros` and `ones` are initializers; the
others make one from their arguments. They draw the numbers of jax.nn.initializers for the same key.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from mgefn import dtypes, random
from mgefn.core.array import scalar
from mgefn.core.array_methods import Array, ArrayLike, DTypeLike
from mgefn.errors import ArgumentError, ShapeError, api_boundary
from mgefn.numpy import creation
from mgefn.ops.elementwise import convert, exp, log, sqrt
from mgefn.ops.shaping import canonical_shape, moveaxis, normalize_axis, reshape
from mgefn.recipes import maker

__all__ = [
    "Initializer",
    "calculate_gain",
    "constant",
    "delta_orthogonal",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "kaiming_normal",
    "kaiming_uniform",
    "lecun_normal",
    "lecun_uniform",
    "normal",
    "ones",
    "orthogonal",
    "truncated_normal",
    "uniform",
    "variance_scaling",
    "xavier_normal",
    "xavier_uniform",
    "zeros",
]

Axes = int | Sequence[int]


class Initializer(Protocol):
    """(key, shape, dtype) -> array."""

    def __call__(self, key: ArrayLike, shape: Any, dtype: DTypeLike | None = None, /) -> Array: ...


def _dtype(dtype: DTypeLike | None) -> np.dtype:
    return dtypes.default_float() if dtype is None else dtypes.canonical(dtype)


@api_boundary
def zeros(key: ArrayLike, shape: Any, dtype: DTypeLike | None = None) -> Array:
    """An array of zeros; the key is not used."""
    return creation.zeros(shape, _dtype(dtype))


@api_boundary
def ones(key: ArrayLike, shape: Any, dtype: DTypeLike | None = None) -> Array:
    """An array of ones; the key is not used."""
    return creation.ones(shape, _dtype(dtype))


@maker
def constant(value: ArrayLike, dtype: DTypeLike | None = None) -> Initializer:
    """An initializer that fills with one value, or with an array that broadcasts to the shape."""
    default = dtype

    def init(key: ArrayLike, shape: Any, dtype: DTypeLike | None = default) -> Array:
        return creation.full(shape, value, _dtype(dtype))

    return init


@maker
def uniform(scale: ArrayLike = 1e-2, dtype: DTypeLike | None = None) -> Initializer:
    """An initializer with numbers evenly distributed in [0, scale)."""
    default = dtype

    def init(key: ArrayLike, shape: Any, dtype: DTypeLike | None = default) -> Array:
        new = _dtype(dtype)
        return random.uniform(key, shape, new) * creation.array(scale, new)

    return init


@maker
def normal(stddev: ArrayLike = 1e-2, dtype: DTypeLike | None = None) -> Initializer:
    """An initializer with normal numbers of mean 0 and this standard deviation."""
    default = dtype

    def init(key: ArrayLike, shape: Any, dtype: DTypeLike | None = default) -> Array:
        new = _dtype(dtype)
        return random.normal(key, shape, new) * creation.array(stddev, new)

    return init


@maker
def truncated_normal(
    stddev: ArrayLike = 1e-2,
    dtype: DTypeLike | None = None,
    lower: ArrayLike = -2.0,
    upper: ArrayLike = 2.0,
) -> Initializer:
    """An initializer with standard normal numbers in [lower, upper], times `stddev`."""
    default = dtype

    def init(key: ArrayLike, shape: Any, dtype: DTypeLike | None = default) -> Array:
        new = _dtype(dtype)
        drawn = random.truncated_normal(key, lower, upper, shape, new)
        return drawn * creation.array(stddev, new)

    return init


def _fans(
    shape: tuple[int, ...], in_axis: Axes, out_axis: Axes, batch_axis: Axes
) -> tuple[float, float]:
    """How many inputs an output has, and how many outputs an input."""
    if in_axis == -2 and len(shape) < 2:
        raise ShapeError(
            f"variance_scaling: needs a shape of rank 2 or more, got {shape}. Name in_axis and "
            "out_axis for others."
        )

    def size(axes: Axes) -> int:
        return math.prod(shape[i] for i in ((axes,) if isinstance(axes, int) else axes))

    inner, outer, batch = size(in_axis), size(out_axis), size(batch_axis)
    if not inner or not outer or not batch:
        return 0.0, 0.0
    window = math.prod(shape) / inner / outer / batch
    return inner * window, outer * window


@maker
def variance_scaling(
    scale: float,
    mode: str,
    distribution: str,
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: DTypeLike | None = None,
) -> Initializer:
    """An initializer whose variance is scale / n, which keeps signals from growing or dying out.

    Args:
        scale: a positive number.
        mode: what n is: "fan_in" the inputs of an output, "fan_out" the outputs of an input,
            "fan_avg" and "fan_geo_avg" their arithmetic and geometric mean.
        distribution: "truncated_normal" (at two standard deviations), "normal" or "uniform".
        in_axis, out_axis: the dimensions of inputs and outputs; the others, but for batch_axis,
            are a window of a convolution.
        batch_axis: dimensions that are neither.
        dtype: floating or complex; None: the default float.
    """
    if mode not in ("fan_in", "fan_out", "fan_avg", "fan_geo_avg"):
        raise ArgumentError(
            "variance_scaling: mode must be 'fan_in', 'fan_out', 'fan_avg' or 'fan_geo_avg', got "
            f"{mode!r}."
        )
    if distribution not in ("truncated_normal", "normal", "uniform"):
        raise ArgumentError(
            "variance_scaling: distribution must be 'truncated_normal', 'normal' or 'uniform', got "
            f"{distribution!r}."
        )
    default = dtype

    def init(key: ArrayLike, shape: Any, dtype: DTypeLike | None = default) -> Array:
        sizes = canonical_shape("variance_scaling", shape)
        new = _dtype(dtype)
        fan_in, fan_out = _fans(sizes, in_axis, out_axis, batch_axis)
        if not math.prod(sizes):
            return creation.zeros(sizes, new)
        n = {
            "fan_in": fan_in,
            "fan_out": fan_out,
            "fan_avg": (fan_in + fan_out) / 2,
            "fan_geo_avg": math.sqrt(fan_in * fan_out),
        }[mode]
        variance = creation.array(scale / n, new)
        is_real = dtypes.is_float(new)
        if distribution == "normal":
            return random.normal(key, sizes, new) * sqrt(variance)
        if distribution == "uniform":
            if is_real:
                return random.uniform(key, sizes, new, -1) * sqrt(3 * variance)
            return _complex_uniform(key, sizes, new) * sqrt(variance)
        # The standard deviation that is left after truncation at two, so as to restore it.
        if is_real:
            deviation = sqrt(variance) / scalar(0.87962566103423978, new)
            return random.truncated_normal(key, -2, 2, sizes, new) * deviation
        deviation = sqrt(variance) / scalar(0.95311164380491208, new)
        return _complex_truncated_normal(key, sizes, new) * deviation

    return init


def _polar(key: ArrayLike, shape: tuple[int, ...], dtype: np.dtype) -> tuple[Any, Any]:
    """Uniform numbers in [0, 1) and unit complex numbers of uniform angle."""
    first, second = random.split(key)
    part = dtypes.real_part_dtype(dtype)
    u = random.uniform(first, shape, part)
    angle = convert(2 * math.pi * random.uniform(second, shape, part), dtype)
    return u, exp(1j * angle)


def _complex_uniform(key: ArrayLike, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    u, unit = _polar(key, shape, dtype)
    return convert(sqrt(2 * u), dtype) * unit


def _complex_truncated_normal(key: ArrayLike, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    u, unit = _polar(key, shape, dtype)
    t = convert((1 - math.exp(-4)) * u, dtype)
    return sqrt(-log(1 - t)) * unit


@maker
def glorot_uniform(
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: DTypeLike | None = None,
) -> Initializer:
    """`variance_scaling(1, "fan_avg", "uniform")`, for tanh. Glorot, Bengio (2010), AISTATS."""
    return variance_scaling(1.0, "fan_avg", "uniform", in_axis, out_axis, batch_axis, dtype)


@maker
def glorot_normal(
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: DTypeLike | None = None,
) -> Initializer:
    """`variance_scaling(1, "fan_avg", "truncated_normal")`, for tanh."""
    return variance_scaling(
        1.0, "fan_avg", "truncated_normal", in_axis, out_axis, batch_axis, dtype
    )


@maker
def lecun_uniform(
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: DTypeLike | None = None,
) -> Initializer:
    """`variance_scaling(1, "fan_in", "uniform")`. LeCun et al. (1998), Efficient BackProp."""
    return variance_scaling(1.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


@maker
def lecun_normal(
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: DTypeLike | None = None,
) -> Initializer:
    """`variance_scaling(1, "fan_in", "truncated_normal")`, for selu."""
    return variance_scaling(1.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


@maker
def he_uniform(
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: DTypeLike | None = None,
) -> Initializer:
    """`variance_scaling(2, "fan_in", "uniform")`, for relu. He et al. (2015), arXiv:1502.01852."""
    return variance_scaling(2.0, "fan_in", "uniform", in_axis, out_axis, batch_axis, dtype)


@maker
def he_normal(
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: DTypeLike | None = None,
) -> Initializer:
    """`variance_scaling(2, "fan_in", "truncated_normal")`, for relu."""
    return variance_scaling(2.0, "fan_in", "truncated_normal", in_axis, out_axis, batch_axis, dtype)


xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal


@maker
def orthogonal(
    scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike | None = None
) -> Initializer:
    """An initializer with orthogonal matrices, evenly distributed, times `scale`.

    The dimensions other than column_axis are taken as one; of rows and columns the fewer are
    orthonormal.

    Args:
        scale: a number.
        column_axis: the dimension of the columns.
        dtype: floating or complex; None: the default float.

    Source: Saxe, McClelland, Ganguli (2013), arXiv:1312.6120.
    """
    default = dtype

    def init(key: ArrayLike, shape: Any, dtype: DTypeLike | None = default) -> Array:
        sizes = canonical_shape("orthogonal", shape)
        new = _dtype(dtype)
        if len(sizes) < 2:
            raise ShapeError(f"orthogonal: needs a shape of rank 2 or more, got {sizes}.")
        columns = normalize_axis("orthogonal", column_axis, len(sizes))
        if not math.prod(sizes):
            return creation.zeros(sizes, new)
        n = sizes[columns]
        rest = sizes[:columns] + sizes[columns + 1 :]
        q = random.orthogonal(key, math.prod(rest), (), new, n)
        q = moveaxis(reshape(q, (*rest, n)), -1, columns)
        return creation.array(scale, new) * q

    return init


@maker
def delta_orthogonal(
    scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike | None = None
) -> Initializer:
    """An initializer for convolutions: `orthogonal` in the middle of the window, 0 around it.

    Its shape is (window..., inputs, outputs), of rank 3 to 5, with no more inputs than outputs;
    other arguments as for `orthogonal`.

    Source: Xiao et al. (2018), arXiv:1806.05393.
    """
    default = dtype

    def init(key: ArrayLike, shape: Any, dtype: DTypeLike | None = default) -> Array:
        sizes = canonical_shape("delta_orthogonal", shape)
        new = _dtype(dtype)
        if len(sizes) not in (3, 4, 5) or sizes[-1] < sizes[-2]:
            raise ShapeError(
                "delta_orthogonal: needs a shape of rank 3 to 5 with no more inputs than outputs, "
                f"got {sizes}."
            )
        matrix = orthogonal(scale, column_axis, new)(key, sizes[-2:])
        middle = tuple((n - 1) // 2 for n in sizes[:-2])
        return creation.zeros(sizes, new).at[middle].set(matrix)

    return init


@api_boundary
def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor for the standard deviation of weights that feed a nonlinearity.

    Args:
        nonlinearity: "linear", "sigmoid", "tanh", "relu", "leaky_relu" or "selu".
        param: the negative slope of leaky_relu; 0.01 where left out.
    """
    gains = {
        "linear": 1.0,
        "sigmoid": 1.0,
        "tanh": 5 / 3,
        "relu": math.sqrt(2),
        "leaky_relu": math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2)),
        "selu": 0.75,
    }
    if nonlinearity not in gains:
        raise ArgumentError(
            f"calculate_gain: nonlinearity must be one of {', '.join(gains)}, got {nonlinearity!r}."
        )
    return gains[nonlinearity]
