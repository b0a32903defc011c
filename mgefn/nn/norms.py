"""Normalisation: subtract a mean, divide by a deviation, then scale and shift.

Arrays are (batch, channels, *spatial), as in MegEngine and PyTorch, except where a function takes
trailing dimensions. Moments of 16-bit arrays are computed in float32.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from mgefn import dtypes
from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import ArgumentError, DTypeError, ShapeError, api_boundary
from mgefn.ops.collectives import pmean, psum
from mgefn.ops.elementwise import promoted, rsqrt
from mgefn.ops.shaping import normalize_axes, normalize_axis

__all__ = [
    "batch_norm",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "local_response_norm",
    "normalize",
    "rms_norm",
    "sync_batch_norm",
]


def _real(name: str, x: ArrayLike) -> Any:
    (a,) = promoted(name, (x,), inexact=True)
    if dtypes.is_complex(a.dtype):
        raise DTypeError(f"{name}: needs a real array, got {a.aval}. Take its parts.")
    return a


def _wide(a: Any) -> Any:
    return a.astype(dtypes.promote_types(a.dtype, "float32"))


def _images(name: str, x: ArrayLike) -> Any:
    a = _real(name, x)
    if a.ndim < 2:
        raise ShapeError(
            f"{name}: needs an array (batch, channels, ...) of rank 2 or more, got {a.aval}. "
            "Add the missing dimensions with x[None]."
        )
    return a


def _per_channel(name: str, what: str, value: ArrayLike | None, channels: int, ndim: int) -> Any:
    """One number for each channel, of any shape that has as many elements."""
    if value is None:
        return None
    v = mnp.asarray(value)
    if v.size != channels:
        raise ShapeError(f"{name}: {what} must have {channels} elements, got {v.aval}.")
    return v.reshape((1, channels) + (1,) * (ndim - 2))


def _scaled(y: Any, weight: Any, bias: Any, like: Any) -> Any:
    """y * weight + bias, in the dtype of x and the parameters together."""
    given = [like.dtype, *(v.dtype for v in (weight, bias) if v is not None)]
    if weight is not None:
        y = y * weight
    if bias is not None:
        y = y + bias
    dtype = given[0]
    for other in given[1:]:
        dtype = dtypes.promote_types(dtype, other)
    return y.astype(dtype)


def _whitened(a: Any, axes: Any, eps: Any) -> Any:
    wide = _wide(a)
    centred = wide - mnp.mean(wide, axes, keepdims=True)
    return centred * rsqrt(mnp.mean(centred * centred, axes, keepdims=True) + eps)


@api_boundary
def layer_norm(
    inp: ArrayLike,
    normalized_shape: int | Sequence[int] | None = None,
    affine: bool = True,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    eps: float = 1e-5,
) -> Array:
    """(x - mean) / sqrt(variance + eps) over the last dimensions, times weight, plus bias.

    Args:
        inp: real, shape (..., *normalized_shape).
        normalized_shape: sizes of the last dimensions, over which the moments are taken; None:
            the last dimension.
        affine: False: leave weight and bias out.
        weight, bias: shape normalized_shape; None: 1 and 0.
        eps: keeps the quotient finite where the variance is 0.

    Raises:
        ShapeError: the array does not end in normalized_shape.

    Example:
        >>> mgefn.nn.layer_norm(mnp.array([1.0, 3.0]), 2, eps=0.0)
        Array([-1.,  1.], dtype=float32)

    Source: Ba, Kiros, Hinton (2016), arXiv:1607.06450.
    """
    a = _real("layer_norm", inp)
    shape = _trailing("layer_norm", a, normalized_shape)
    y = _whitened(a, tuple(range(a.ndim - len(shape), a.ndim)), eps)
    if not affine:
        return y.astype(a.dtype)
    w, b = (_shaped("layer_norm", n, v, shape) for n, v in (("weight", weight), ("bias", bias)))
    return _scaled(y, w, b, a)


def _trailing(name: str, a: Any, shape: Any) -> tuple[int, ...]:
    if shape is None:
        shape = a.shape[-1:]
    shape = (shape,) if isinstance(shape, int) else tuple(operator.index(n) for n in shape)
    if not shape or a.shape[-len(shape) :] != shape:
        raise ShapeError(f"{name}: normalized_shape {shape} must be the end of {a.aval}'s shape.")
    return shape


def _shaped(name: str, what: str, value: ArrayLike | None, shape: tuple[int, ...]) -> Any:
    if value is None:
        return None
    v = mnp.asarray(value)
    if v.shape != shape:
        raise ShapeError(f"{name}: {what} must have shape {shape}, got {v.aval}.")
    return v


@api_boundary
def rms_norm(x: ArrayLike, weight: ArrayLike | None = None, eps: float = 1e-5) -> Array:
    """x / sqrt(mean(x**2) + eps) over the last dimension, times weight.

    Args:
        x: real, shape (..., n).
        weight: shape (n,); None: 1.
        eps: keeps the quotient finite where all elements are 0.

    Example:
        >>> mgefn.nn.rms_norm(mnp.array([3.0, -3.0]), eps=0.0)
        Array([ 1., -1.], dtype=float32)

    Source: Zhang, Sennrich (2019), arXiv:1910.07467.
    """
    a = _real("rms_norm", x)
    shape = _trailing("rms_norm", a, None)
    wide = _wide(a)
    y = wide * rsqrt(mnp.mean(wide * wide, -1, keepdims=True) + eps)
    return _scaled(y, _shaped("rms_norm", "weight", weight, shape), None, a)


@api_boundary
def group_norm(
    inp: ArrayLike,
    num_groups: int,
    affine: bool = True,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    eps: float = 1e-5,
) -> Array:
    """Whiten each example over groups of channels and all of space, then scale each channel.

    Args:
        inp: real, shape (batch, channels, *spatial).
        num_groups: a divisor of channels.
        affine: False: leave weight and bias out.
        weight, bias: one number for each channel; None: 1 and 0.
        eps: keeps the quotient finite where the variance is 0.

    Raises:
        ShapeError: num_groups does not divide the channels.

    Source: Wu, He (2018), arXiv:1803.08494.
    """
    return _grouped_norm("group_norm", _images("group_norm", inp), num_groups, affine,
                         weight, bias, eps)  # fmt: skip


def _grouped_norm(
    name: str, a: Any, num_groups: int, affine: bool, weight: Any, bias: Any, eps: Any
) -> Any:
    n, c = a.shape[:2]
    groups = operator.index(num_groups)
    if groups < 1 or c % groups:
        raise ShapeError(f"{name}: num_groups must divide the {c} channels, got {groups}.")
    grouped = a.reshape((n, groups, c // groups, *a.shape[2:]))
    y = _whitened(grouped, tuple(range(2, grouped.ndim)), eps).reshape(a.shape)
    if not affine:
        return y.astype(a.dtype)
    w = _per_channel(name, "weight", weight, c, a.ndim)
    return _scaled(y, w, _per_channel(name, "bias", bias, c, a.ndim), a)


@api_boundary
def instance_norm(
    inp: ArrayLike,
    affine: bool = True,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    eps: float = 1e-5,
) -> Array:
    """`group_norm` in which each channel is a group of its own.

    Source: Ulyanov, Vedaldi, Lempitsky (2016), arXiv:1607.08022.
    """
    a = _images("instance_norm", inp)
    if a.ndim < 3:
        raise ShapeError(f"instance_norm: needs a spatial dimension, got {a.aval}.")
    return _grouped_norm("instance_norm", a, max(a.shape[1], 1), affine, weight, bias, eps)


@api_boundary
def batch_norm(
    inp: ArrayLike,
    running_mean: ArrayLike | None = None,
    running_var: ArrayLike | None = None,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    *,
    training: bool = False,
    momentum: float = 0.9,
    eps: float = 1e-5,
) -> tuple[Array, Array | None, Array | None]:
    """Whiten each channel over the batch and space, then scale it.

    Args:
        inp: real, shape (batch, channels, *spatial).
        running_mean, running_var: one number for each channel. They whiten when training is
            False; then both are needed. When it is True, either may be None.
        weight, bias: one number for each channel; None: 1 and 0.
        training: whiten by the moments of this batch, and move the running ones towards them.
        momentum: what is kept of the running moments: new = momentum * old + (1 - momentum) *
            moment of the batch. (PyTorch calls 1 - momentum by this name.) The variance that goes
            in is the unbiased one.
        eps: keeps the quotient finite where the variance is 0.

    Returns:
        (y, running_mean, running_var): nothing is changed in place, and a program keeps the new
        moments. They are those given when training is False.

    Raises:
        ArgumentError: training is False and a running moment is None.

    Example:
        >>> x = mnp.array([[1.0], [3.0]])
        >>> y, mean, var = mgefn.nn.batch_norm(
        ...     x, mnp.zeros(1), mnp.ones(1), training=True, momentum=0.5, eps=0.0
        ... )
        >>> y.ravel(), mean, var
        (Array([-1.,  1.], dtype=float32), Array([1.], dtype=float32), Array([1.5], dtype=float32))

    Source: Ioffe, Szegedy (2015), arXiv:1502.03167.
    """
    args = (inp, running_mean, running_var, weight, bias)
    return _batch_norm("batch_norm", *args, training, momentum, eps, None)


@api_boundary
def sync_batch_norm(
    inp: ArrayLike,
    running_mean: ArrayLike | None = None,
    running_var: ArrayLike | None = None,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    training: bool = False,
    momentum: float = 0.9,
    eps: float = 1e-5,
    *,
    axis_name: Any = None,
) -> tuple[Array, Array | None, Array | None]:
    """`batch_norm` with moments over the whole of a mapped axis, as if its parts were one batch.

    Args:
        inp, running_mean, running_var, weight, bias, training, momentum, eps: as for `batch_norm`.
        axis_name: of the surrounding vmap or shard_map; None: the moments of this batch alone.
    """
    args = (inp, running_mean, running_var, weight, bias)
    return _batch_norm("sync_batch_norm", *args, training, momentum, eps, axis_name)


def _batch_norm(
    name: str,
    inp: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any,
    bias: Any,
    training: bool,
    momentum: Any,
    eps: Any,
    axis_name: Any,
) -> Any:
    a = _images(name, inp)
    c = a.shape[1]
    w = _per_channel(name, "weight", weight, c, a.ndim)
    b = _per_channel(name, "bias", bias, c, a.ndim)
    running = [
        _per_channel(name, what, v, c, a.ndim)
        for what, v in (("running_mean", running_mean), ("running_var", running_var))
    ]
    wide = _wide(a)
    if not training:
        if running[0] is None or running[1] is None:
            raise ArgumentError(
                f"{name}: needs running_mean and running_var when training is False, got None. "
                "Pass training=True to use the moments of the batch."
            )
        y = (wide - running[0]) * rsqrt(running[1] + eps)
        return _scaled(y, w, b, a), running_mean, running_var
    axes = (0, *range(2, a.ndim))
    mean = mnp.mean(wide, axes, keepdims=True)
    count: Any = a.size // c if c else 0
    if axis_name is not None:
        mean, count = pmean(mean, axis_name), psum(count, axis_name)
    centred = wide - mean
    variance = mnp.mean(centred * centred, axes, keepdims=True)
    if axis_name is not None:
        variance = pmean(variance, axis_name)
    y = centred * rsqrt(variance + eps)
    # A batch of one element has no unbiased variance; its biased one, 0, is taken.
    count = mnp.asarray(count, variance.dtype)
    unbiased = variance * (count / mnp.maximum(count - 1, 1))
    kept = [
        None if old is None else (old * momentum + new * (1 - momentum)).astype(old.dtype)
        for old, new in zip(running, (mean, unbiased), strict=True)
    ]
    given = (running_mean, running_var)
    shaped = [
        None if k is None else k.reshape(mnp.shape(g)) for k, g in zip(kept, given, strict=True)
    ]
    return _scaled(y, w, b, a), shaped[0], shaped[1]


@api_boundary
def normalize(
    inp: ArrayLike,
    ord: float | None = None,
    axis: int | Sequence[int] | None = None,
    eps: float = 1e-12,
) -> Array:
    """x divided by its norm over dimensions, or by eps where the norm is smaller.

    Args:
        inp: real or complex.
        ord: of the norm, as numpy.linalg.norm takes it for vectors; None: 2.
        axis: one or more dimensions; None: all.
        eps: the least divisor. The derivative of a row of zeros is finite: that of x / eps.

    Example:
        >>> mgefn.nn.normalize(mnp.array([3.0, 4.0]))
        Array([0.6, 0.8], dtype=float32)
    """
    (a,) = promoted("normalize", (inp,), inexact=True)
    axes = normalize_axes("normalize", axis, a.ndim)
    size = mnp.abs(a)
    if ord is None or ord == 2:
        total = mnp.sum(size * size, axes, keepdims=True)
        # The root has no derivative at 0, where it is not used.
        small = total <= eps * eps
        norm = mnp.where(small, eps, mnp.sqrt(mnp.where(small, 1, total)))
    elif ord == float("inf"):
        norm = mnp.max(size, axes, keepdims=True, initial=0)
    elif ord == 1:
        norm = mnp.sum(size, axes, keepdims=True)
    elif isinstance(ord, (int, float)) and ord > 0:
        total = mnp.sum(mnp.where(size > 0, mnp.where(size > 0, size, 1) ** ord, 0), axes,
                        keepdims=True)  # fmt: skip
        norm = mnp.where(total > 0, mnp.where(total > 0, total, 1) ** (1 / ord), 0)
    else:
        raise ArgumentError(f"normalize: ord must be None or a positive number, got {ord!r}.")
    return (a / mnp.maximum(norm, eps)).astype(a.dtype)


@api_boundary
def local_response_norm(
    inp: ArrayLike,
    kernel_size: int = 5,
    k: float = 1.0,
    alpha: float = 1e-4,
    beta: float = 0.75,
) -> Array:
    """x / (k + alpha * (sum of squares of the kernel_size channels around))**beta.

    Args:
        inp: real, shape (batch, channels, *spatial).
        kernel_size: an odd number of channels.
        k, alpha, beta: numbers of the formula. (PyTorch divides alpha by kernel_size.)

    Source: Krizhevsky, Sutskever, Hinton (2012), section 3.3.
    """
    a = _images("local_response_norm", inp)
    n = operator.index(kernel_size)
    if n < 1 or n % 2 == 0:
        raise ArgumentError(f"local_response_norm: kernel_size must be odd, got {n}.")
    i = normalize_axis("local_response_norm", 1, a.ndim)
    channels = a.shape[i]
    near = mnp.abs(mnp.arange(channels)[:, None] - mnp.arange(channels)) <= n // 2
    wide = _wide(a)
    sums = mnp.einsum("cd,nd...->nc...", near.astype(wide.dtype), wide * wide)
    return (wide * (k + alpha * sums) ** -beta).astype(a.dtype)
