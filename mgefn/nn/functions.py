"""Activation functions and their kin, under jax.nn's names.

Where a function has a corner, its derivative there is that of the left side (relu: 0 at 0), unless
the docstring says otherwise. Functions of a distribution (softmax, logsumexp) take rows that are
-inf throughout, as masks leave them, without a NaN in value or gradient.
"""

from __future__ import annotations

import math
import operator
from typing import Any

from mgefn import dtypes
from mgefn.core.array import scalar
from mgefn.core.array_methods import Array, ArrayLike, Axis, DTypeLike
from mgefn.errors import ArgumentError, DTypeError, ShapeError, api_boundary
from mgefn.numpy.assembling import split
from mgefn.numpy.creation import asarray, ones_like
from mgefn.ops import reductions
from mgefn.ops.elementwise import (
    abs,
    clip,
    convert,
    exp,
    expm1,
    log,
    log1p,
    logaddexp,
    logistic,
    maximum,
    minimum,
    promoted,
    rsqrt,
    sqrt,
    square,
    stop_gradient_leaf,
    tanh,
    where,
)
from mgefn.ops.reductions import logsumexp
from mgefn.ops.shaping import broadcasted_iota, expand_dims, normalize_axis
from mgefn.ops.special import erfc

__all__ = [
    "celu",
    "elu",
    "gelu",
    "glu",
    "hard_shrink",
    "hard_sigmoid",
    "hard_silu",
    "hard_swish",
    "hard_tanh",
    "identity",
    "leaky_relu",
    "log1mexp",
    "log_sigmoid",
    "log_softmax",
    "logmeanexp",
    "logsumexp",
    "mish",
    "one_hot",
    "prelu",
    "relu",
    "relu2",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "soft_sign",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "sparse_plus",
    "sparse_sigmoid",
    "squareplus",
    "standardize",
    "step",
    "swish",
    "tanh",
]


def _real(name: str, x: ArrayLike) -> Any:
    (a,) = promoted(name, (x,))
    if dtypes.is_complex(a.dtype):
        raise DTypeError(f"{name}: needs a real array, got {a.aval}.")
    return a


def _float(name: str, x: ArrayLike) -> Any:
    (a,) = promoted(name, (x,), inexact=True)
    return a


# -- pieces of lines ------------------------------------------------------------------------------


@api_boundary
def relu(x: ArrayLike) -> Array:
    """max(x, 0), elementwise. Derivative 1 above 0, and 0 at 0 and below.

    Example:
        >>> mgefn.grad(mgefn.nn.relu)(0.0)
        Array(0., dtype=float32)
    """
    a = _real("relu", x)
    # Not maximum, which shares the derivative at a tie; a NaN fails the comparison and stays.
    return where(a <= 0, scalar(0, a.dtype, a.weak_type), a)


@api_boundary
def relu6(x: ArrayLike) -> Array:
    """x limited to [0, 6], elementwise. Derivative 0 at 0 and at 6."""
    a = _float("relu6", x)
    return where(a <= 0, 0, where(a >= 6, 6, a)).astype(a.dtype)


@api_boundary
def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 1e-2) -> Array:
    """x at 0 and above, negative_slope * x below, elementwise."""
    a = _float("leaky_relu", x)
    return where(a >= 0, a, negative_slope * a)


@api_boundary
def prelu(x: ArrayLike, y: ArrayLike, /) -> Array:
    """`leaky_relu` whose slope y is an array that broadcasts with x."""
    return leaky_relu(x, y)


@api_boundary
def hard_tanh(x: ArrayLike) -> Array:
    """x limited to [-1, 1], elementwise. Derivative 1 at the corners."""
    a = _real("hard_tanh", x)
    return where(a > 1, 1, where(a < -1, -1, a)).astype(a.dtype)


@api_boundary
def hard_sigmoid(x: ArrayLike) -> Array:
    """relu6(x + 3) / 6, elementwise."""
    return relu6(_float("hard_sigmoid", x) + 3.0) / 6.0


@api_boundary
def hard_silu(x: ArrayLike) -> Array:
    """x * hard_sigmoid(x), elementwise."""
    a = _float("hard_silu", x)
    return a * hard_sigmoid(a)


hard_swish = hard_silu


@api_boundary
def sparse_plus(x: ArrayLike) -> Array:
    """0 up to -1, x from 1 on, (x + 1)**2 / 4 between, elementwise."""
    a = _float("sparse_plus", x)
    return where(a <= -1, 0, where(a >= 1, a, square(a + 1) / 4))


@api_boundary
def sparse_sigmoid(x: ArrayLike) -> Array:
    """(x + 1) / 2 limited to [0, 1], elementwise."""
    return 0.5 * clip(_float("sparse_sigmoid", x) + 1.0, 0.0, 2.0)


@api_boundary
def identity(x: ArrayLike) -> Array:
    """The array itself."""
    return asarray(x)


# -- smooth ---------------------------------------------------------------------------------------


@api_boundary
def sigmoid(x: ArrayLike) -> Array:
    """1 / (1 + e**-x), elementwise."""
    return logistic(x)


@api_boundary
def silu(x: ArrayLike) -> Array:
    """x * sigmoid(x), elementwise; also called swish."""
    a = _float("silu", x)
    return a * logistic(a)


swish = silu


@api_boundary
def gelu(x: ArrayLike, approximate: bool = True) -> Array:
    """x times the probability that a standard normal number is below x, elementwise.

    Args:
        x: real; integers are taken as the default float.
        approximate: use tanh instead of the error function; off by at most 5e-4.

    Source: Hendrycks, Gimpel (2016), arXiv:1606.08415.
    """
    a = _float("gelu", x)
    if approximate:
        # 0.5 * (1 + tanh(u)) = sigmoid(2 u), which takes less time and no difference that cancels.
        return a * logistic(math.sqrt(8 / math.pi) * (a + 0.044715 * a**3))
    return 0.5 * a * erfc(-a * math.sqrt(0.5))


@api_boundary
def softplus(x: ArrayLike) -> Array:
    """log(1 + e**x), elementwise, safe from overflow."""
    return logaddexp(x, 0)


@api_boundary
def squareplus(x: ArrayLike, b: ArrayLike = 4) -> Array:
    """(x + sqrt(x**2 + b)) / 2, elementwise: softplus without an exponential."""
    a = _float("squareplus", x)
    return (a + sqrt(square(a) + b)) / 2


@api_boundary
def soft_sign(x: ArrayLike) -> Array:
    """x / (1 + |x|), elementwise."""
    a = _float("soft_sign", x)
    return a / (abs(a) + 1)


@api_boundary
def log_sigmoid(x: ArrayLike) -> Array:
    """log(sigmoid(x)), elementwise, safe from underflow."""
    return -softplus(-_float("log_sigmoid", x))


@api_boundary
def mish(x: ArrayLike) -> Array:
    """x * tanh(softplus(x)), elementwise."""
    a = _float("mish", x)
    return a * tanh(softplus(a))


@api_boundary
def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """x above 0, alpha * (e**x - 1) at 0 and below, elementwise."""
    a = _float("elu", x)
    positive = a > 0
    return where(positive, a, alpha * expm1(where(positive, 0, a)))


@api_boundary
def selu(x: ArrayLike) -> Array:
    """`elu` with the scales that keep mean 0 and variance 1 through deep networks.

    Source: Klambauer et al. (2017), arXiv:1706.02515.
    """
    return 1.0507009873554805 * elu(x, 1.6732632423543772)


@api_boundary
def celu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """max(x, 0) + alpha * (e**(min(x, 0) / alpha) - 1), elementwise: a differentiable `elu`."""
    a = _float("celu", x)
    return maximum(a, 0) + alpha * expm1(minimum(a, 0) / alpha)


@api_boundary
def log1mexp(x: ArrayLike) -> Array:
    """log(1 - e**-x), elementwise, exact for small and for large x > 0.

    Source: Mächler (2012), Accurately computing log(1 - exp(-|a|)).
    """
    a = _float("log1mexp", x)
    small = a < math.log(2)
    return where(small, log(-expm1(-where(small, a, 1))), log1p(-exp(-where(small, 1, a))))


@api_boundary
def glu(x: ArrayLike, axis: int = -1) -> Array:
    """The first half along an axis times the sigmoid of the second.

    Raises:
        ShapeError: the size of the axis is odd.
    """
    a = _float("glu", x)
    i = normalize_axis("glu", axis, a.ndim)
    if a.shape[i] % 2:
        raise ShapeError(f"glu: axis {i} of {a.aval} must have an even size.")
    first, second = split(a, 2, i)
    return first * logistic(second)


# -- thresholds -----------------------------------------------------------------------------------


@api_boundary
def relu2(x: ArrayLike) -> Array:
    """max(x, 0)**2, elementwise."""
    return square(relu(x))


@api_boundary
def step(x: ArrayLike, threshold: ArrayLike = 0.0) -> Array:
    """1 above a threshold, 0 at it and below, elementwise; its derivative is 0.

    Example:
        >>> mgefn.nn.step(mnp.array([-1.0, 0.0, 2.0]))
        Array([0., 0., 1.], dtype=float32)
    """
    a = _real("step", x)
    return convert(a > threshold, a.dtype)


@api_boundary
def softshrink(x: ArrayLike, lambd: ArrayLike = 0.5) -> Array:
    """x moved towards 0 by lambd, and 0 where it would pass it, elementwise."""
    a = _float("softshrink", x)
    return where(a > lambd, a - lambd, where(a < -asarray(lambd), a + lambd, a * 0))


@api_boundary
def hard_shrink(x: ArrayLike, lambd: ArrayLike = 0.5) -> Array:
    """x where its size is above lambd, otherwise 0, elementwise."""
    a = _float("hard_shrink", x)
    return where(abs(a) > lambd, a, a * 0)


# -- distributions --------------------------------------------------------------------------------


def _shifted(x: Any, axis: Axis, mask: Any) -> Any:
    """x minus its maximum, and -inf where a mask does not hold."""
    if mask is not None:
        x = where(mask, x, -math.inf).astype(x.dtype)
    top = reductions.max(stop_gradient_leaf(x), axis, keepdims=True, initial=-math.inf)
    # Where all are -inf, subtracting the maximum would give NaN.
    return x - where(top == -math.inf, 0, top)


@api_boundary
def softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """Exponentials divided by their sum along an axis, safe from overflow.

    Args:
        x: real; integers are taken as the default float.
        axis: one or more dimensions; None: all.
        where: which elements take part; the others get 0.

    Returns:
        Array of the shape of x. A row whose elements are all -inf, or left out, gives zeros with
        derivative 0.
    """
    a = _float("softmax", x)
    shifted = _shifted(a, axis, None if where is None else asarray(where))
    parts = exp(shifted)
    total = reductions.sum(parts, axis, keepdims=True)
    return parts / _nonzero(total)


@api_boundary
def softmin(x: ArrayLike, axis: Axis = -1) -> Array:
    """softmax(-x)."""
    return softmax(-_float("softmin", x), axis)


def _nonzero(total: Any) -> Any:
    return where(total == 0, 1, total)


@api_boundary
def log_softmax(x: ArrayLike, axis: Axis = -1, where: ArrayLike | None = None) -> Array:
    """log(softmax(x)), safe from overflow and underflow; arguments as for `softmax`."""
    a = _float("log_softmax", x)
    mask = None if where is None else asarray(where)
    shifted = _shifted(a, axis, mask)
    total = reductions.sum(exp(shifted), axis, keepdims=True)
    result = shifted - log(_nonzero(total))
    return result if mask is None else _masked_out(result, mask)


def _masked_out(result: Any, mask: Any) -> Any:
    """Elements left out are -inf whatever the others are: a constant, also to a derivative."""
    return where(mask, result, -math.inf)


@api_boundary
def logmeanexp(
    x: ArrayLike, axis: Axis = None, where: ArrayLike | None = None, keepdims: bool = False
) -> Array:
    """Logarithm of the mean of exponentials, safe from overflow."""
    a = _float("logmeanexp", x)
    counted = reductions.sum(ones_like(a), axis, where=where, keepdims=keepdims)
    return logsumexp(a, axis, keepdims=keepdims, where=where) - log(counted)


@api_boundary
def standardize(
    x: ArrayLike,
    axis: Axis = -1,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    epsilon: ArrayLike = 1e-5,
    where: ArrayLike | None = None,
    *,
    algorithm: str = "fast",
) -> Array:
    """(x - mean) / sqrt(variance + epsilon), the moments taken along an axis where not given.

    Args:
        x: real; integers are taken as the default float.
        axis: one or more dimensions; None: all.
        mean, variance: known moments that broadcast with x.
        epsilon: keeps the quotient finite where the variance is 0.
        where: which elements count for the moments.
        algorithm: "fast": the variance is mean(x**2) - mean**2, in one pass; "stable": the mean of
            squared distances, right also where the mean is large.
    """
    a = _float("standardize", x)
    if algorithm not in ("fast", "stable"):
        raise ArgumentError(
            f"standardize: algorithm must be 'fast' or 'stable', got {algorithm!r}."
        )
    if mean is None:
        mean = reductions.mean(a, axis, keepdims=True, where=where)
    if variance is None:
        if algorithm == "stable":
            variance = reductions.mean(square(a - mean), axis, keepdims=True, where=where)
        else:
            squares = reductions.mean(square(a), axis, keepdims=True, where=where)
            variance = clip(squares - square(asarray(mean)), 0)
    return (a - mean) * rsqrt(asarray(variance) + epsilon)


@api_boundary
def one_hot(
    x: ArrayLike, num_classes: int, *, dtype: DTypeLike | None = None, axis: int = -1
) -> Array:
    """Vectors with a 1 at the places that x numbers and 0 elsewhere.

    Args:
        x: integers; those outside [0, num_classes) give zeros.
        num_classes: the size of the new dimension.
        dtype: of the result; None: the default float.
        axis: the new dimension's place in the result.

    Example:
        >>> mgefn.nn.one_hot(mnp.array([0, 2]), 3)
        Array([[1., 0., 0.],
               [0., 0., 1.]], dtype=float32)
    """
    a = asarray(x)
    if not dtypes.is_integer(a.dtype):
        raise DTypeError(f"one_hot: needs integers, got {a.aval}. Cast them.")
    n = operator.index(num_classes)
    i = normalize_axis("one_hot", axis, a.ndim + 1)
    shape = [1] * (a.ndim + 1)
    shape[i] = n
    # Counted in at least 32 bits: an int8 label may be compared with class 200.
    wide = dtypes.promote_types(a.dtype, "int32") if a.dtype.itemsize < 4 else a.dtype
    hot = expand_dims(convert(a, wide), i) == broadcasted_iota(wide, shape, i)
    return convert(hot, dtypes.default_float() if dtype is None else dtypes.canonical(dtype))
