"""Functions with weights: linear maps, convolutions, look-ups, and what rearranges their inputs.

Weights have MegEngine's and PyTorch's layout: linear (out, in), convolution (out, in / groups,
*kernel), transposed convolution (in, out / groups, *kernel). Arrays are (batch, channels,
*spatial), or (channels, *spatial) without a batch.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Sequence
from typing import Any

from mgefn import dtypes, random
from mgefn import numpy as mnp
from mgefn.api.derivatives import linear_transpose
from mgefn.api.stages import ShapeDtypeStruct
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import ArgumentError, DTypeError, ShapeError, api_boundary
from mgefn.nn.checks import check_range, check_window_fits
from mgefn.nn.norms import normalize
from mgefn.ops.convolution import conv_general_dilated, conv_general_dilated_patches
from mgefn.ops.elementwise import promoted, stop_gradient_leaf

__all__ = [
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "dropout",
    "embedding",
    "fold",
    "linear",
    "pad",
    "pixel_shuffle",
    "unfold",
]

Sizes = int | Sequence[int]


def sizes(name: str, what: str, value: Any, n: int, least: int = 1) -> tuple[int, ...]:
    """n integers, from one for all or from one for each spatial dimension."""
    try:
        got = (operator.index(value),) * n
    except TypeError:
        try:
            got = tuple(operator.index(v) for v in value)
        except TypeError:
            got = ()
    if len(got) != n or builtins.any(v < least for v in got):
        raise ArgumentError(
            f"{name}: {what} must be an integer of {least} or more, or {n} of them, got {value!r}."
        )
    return got


def paddings(name: str, padding: Any, n: int) -> Any:
    """Pairs (low, high), or a name that the convolution knows."""
    if isinstance(padding, str):
        return padding.upper()
    if isinstance(padding, Sequence) and builtins.any(isinstance(p, Sequence) for p in padding):
        pairs = tuple(sizes(name, "a pair of padding", p, 2, 0) for p in padding)
        if len(pairs) != n:
            raise ArgumentError(f"{name}: padding must have {n} pairs, got {padding!r}.")
        return pairs
    return tuple((p, p) for p in sizes(name, "padding", padding, n, 0))


@api_boundary
def linear(inp: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None) -> Array:
    """x @ weight.T + bias.

    Args:
        inp: shape (..., in).
        weight: shape (out, in).
        bias: shape (out,); None: 0.

    Returns:
        Array of shape (..., out).

    Example:
        >>> mgefn.nn.linear(mnp.array([1.0, 2.0]), mnp.array([[3.0, 4.0]]), mnp.array([5.0]))
        Array([16.], dtype=float32)
    """
    x, w = promoted("linear", (inp, weight))
    if w.ndim != 2 or not x.ndim or x.shape[-1] != w.shape[1]:
        raise ShapeError(
            f"linear: needs x (..., in) and weight (out, in), got {x.aval} and {w.aval}. "
            "Transpose the weight?"
        )
    y = mnp.matmul(x, w.T)
    return y if bias is None else y + mnp.asarray(bias)


def _convolved(
    name: str, n: int, inp: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any,
    groups: int,
) -> Any:  # fmt: skip
    x, w = promoted(name, (inp, weight))
    groups = _groups(name, groups)
    if w.ndim == n + 3 and w.shape[0] == groups:  # MegEngine's (groups, out / groups, ...)
        w = w.reshape((groups * w.shape[1], *w.shape[2:]))
    batched = _batched(name, n, x, w)
    y = conv_general_dilated(
        x if batched else x[None],
        w,
        sizes(name, "stride", stride, n),
        paddings(name, padding, n),
        rhs_dilation=sizes(name, "dilation", dilation, n),
        feature_group_count=groups,
    )
    y = y if batched else y[0]
    check_window_fits(name, x, y, w.shape[2:], range(-n, 0))
    return _biased(name, y, bias, n)


def _groups(name: str, groups: Any) -> int:
    (count,) = sizes(name, "groups", groups, 1)
    return count


def _batched(name: str, n: int, x: Any, w: Any) -> bool:
    if x.ndim not in (n + 1, n + 2) or w.ndim != n + 2:
        raise ShapeError(
            f"{name}: needs an array of rank {n + 2} (batch, channels, *spatial) or {n + 1}, and "
            f"a weight of rank {n + 2}, got {x.aval} and {w.aval}."
        )
    return x.ndim == n + 2


def _biased(name: str, y: Any, bias: Any, n: int) -> Any:
    if bias is None:
        return y
    b = mnp.asarray(bias)
    if b.size != y.shape[-n - 1]:
        raise ShapeError(f"{name}: bias must have {y.shape[-n - 1]} elements, got {b.aval}.")
    return y + b.reshape((-1,) + (1,) * n)


@api_boundary
def conv1d(
    inp: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, stride: Sizes = 1,
    padding: Sizes | str | Sequence[tuple[int, int]] = 0, dilation: Sizes = 1, groups: int = 1,
) -> Array:  # fmt: skip
    """Convolution of sequences; arguments as for `conv2d` with one spatial dimension."""
    return _convolved("conv1d", 1, inp, weight, bias, stride, padding, dilation, groups)


@api_boundary
def conv2d(
    inp: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, stride: Sizes = 1,
    padding: Sizes | str | Sequence[tuple[int, int]] = 0, dilation: Sizes = 1, groups: int = 1,
) -> Array:  # fmt: skip
    """Convolution of images, in the sense of neural networks: the kernel is not turned around.

    Args:
        inp: shape (batch, in, height, width) or (in, height, width).
        weight: shape (out, in / groups, height, width), or MegEngine's (groups, out / groups,
            in / groups, height, width).
        bias: one number for each output channel; None: 0.
        stride: distance of neighbouring windows, one number or one for each dimension.
        padding: zeros on both sides, one number, one for each dimension, or pairs (low, high);
            "valid" or "same".
        dilation: distance of neighbouring elements of the kernel.
        groups: into how many parts the channels are split; output channels of a part see its
            input channels only.

    Returns:
        Array of shape (batch, out, height, width), or without batch.

    Raises:
        ShapeError: the channels do not fit. ArgumentError: a setting has another form.

    Example:
        >>> x = mnp.ones((1, 1, 3, 3))
        >>> mgefn.nn.conv2d(x, mnp.ones((1, 1, 3, 3)), padding=1)[0, 0]
        Array([[4., 6., 4.],
               [6., 9., 6.],
               [4., 6., 4.]], dtype=float32)
    """
    return _convolved("conv2d", 2, inp, weight, bias, stride, padding, dilation, groups)


@api_boundary
def conv3d(
    inp: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, stride: Sizes = 1,
    padding: Sizes | str | Sequence[tuple[int, int]] = 0, dilation: Sizes = 1, groups: int = 1,
) -> Array:  # fmt: skip
    """Convolution of volumes; arguments as for `conv2d` with three spatial dimensions."""
    return _convolved("conv3d", 3, inp, weight, bias, stride, padding, dilation, groups)


def _transposed(
    name: str, n: int, inp: Any, weight: Any, bias: Any, stride: Any, padding: Any,
    output_padding: Any, groups: int, dilation: Any,
) -> Any:  # fmt: skip
    x, w = promoted(name, (inp, weight))
    groups = _groups(name, groups)
    if w.ndim == n + 3 and w.shape[0] == groups:
        w = w.reshape((groups * w.shape[1], *w.shape[2:]))
    batched = _batched(name, n, x, w)
    if x.shape[-n - 1] != w.shape[0] or w.shape[0] % groups:
        raise ShapeError(
            f"{name}: needs as many input channels as the weight (in, out / groups, ...) has, "
            f"split into {groups}, got {x.aval} and {w.aval}."
        )
    steps, spread = sizes(name, "stride", stride, n), sizes(name, "dilation", dilation, n)
    more = sizes(name, "output_padding", output_padding, n, 0)
    if isinstance(padding, str):
        raise ArgumentError(f"{name}: padding must be numbers, got {padding!r}.")
    pads = [
        (d * (k - 1) - low, d * (k - 1) - high + o)
        for d, k, (low, high), o in zip(
            spread, w.shape[2:], paddings(name, padding, n), more, strict=True
        )
    ]
    # (in, out / groups) to (out, in / groups), the kernel turned around.
    parts = w.reshape((groups, w.shape[0] // groups, *w.shape[1:]))
    parts = mnp.flip(mnp.swapaxes(parts, 1, 2), tuple(range(3, n + 3)))
    y = conv_general_dilated(
        x if batched else x[None],
        parts.reshape((groups * w.shape[1], w.shape[0] // groups, *w.shape[2:])),
        (1,) * n,
        pads,
        lhs_dilation=steps,
        rhs_dilation=spread,
        feature_group_count=groups,
    )
    return _biased(name, y if batched else y[0], bias, n)


@api_boundary
def conv_transpose1d(
    inp: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, stride: Sizes = 1,
    padding: Sizes = 0, output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1,
) -> Array:  # fmt: skip
    """Transposed convolution of sequences; arguments as for `conv_transpose2d`."""
    return _transposed("conv_transpose1d", 1, inp, weight, bias, stride, padding, output_padding,
                       groups, dilation)  # fmt: skip


@api_boundary
def conv_transpose2d(
    inp: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, stride: Sizes = 1,
    padding: Sizes = 0, output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1,
) -> Array:  # fmt: skip
    """The derivative of `conv2d` by its input, as a function: it makes images larger.

    The size of the result is (size - 1) * stride - 2 * padding + dilation * (kernel - 1) +
    output_padding + 1.

    Args:
        inp: shape (batch, in, height, width) or (in, height, width).
        weight: shape (in, out / groups, height, width).
        bias: one number for each output channel; None: 0.
        stride, padding, dilation: those of the convolution.
        output_padding: what is added to the size at the high end.
        groups: as for `conv2d`. The order of the last two is PyTorch's; MegEngine has them the
            other way round, so name them.

    Example:
        >>> x = mnp.ones((1, 1, 2, 2))
        >>> mgefn.nn.conv_transpose2d(x, mnp.ones((1, 1, 2, 2)), stride=2).shape
        (1, 1, 4, 4)
    """
    return _transposed("conv_transpose2d", 2, inp, weight, bias, stride, padding, output_padding,
                       groups, dilation)  # fmt: skip


@api_boundary
def conv_transpose3d(
    inp: ArrayLike, weight: ArrayLike, bias: ArrayLike | None = None, stride: Sizes = 1,
    padding: Sizes = 0, output_padding: Sizes = 0, groups: int = 1, dilation: Sizes = 1,
) -> Array:  # fmt: skip
    """Transposed convolution of volumes; arguments as for `conv_transpose2d`."""
    return _transposed("conv_transpose3d", 3, inp, weight, bias, stride, padding, output_padding,
                       groups, dilation)  # fmt: skip


@api_boundary
def unfold(
    inp: ArrayLike, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
) -> Array:
    """The windows of an image as columns (im2col).

    Args:
        inp: shape (batch, channels, height, width).
        kernel_size, dilation, padding, stride: as for `conv2d`.

    Returns:
        Array of shape (batch, channels * kernel height * kernel width, windows).

    Example:
        >>> mgefn.nn.unfold(mnp.arange(4.0).reshape(1, 1, 2, 2), (1, 2))
        Array([[[0., 2.],
                [1., 3.]]], dtype=float32)
    """
    (x,) = promoted("unfold", (inp,))
    if x.ndim != 4:
        raise ShapeError(f"unfold: needs (batch, channels, height, width), got {x.aval}.")
    kernel = sizes("unfold", "kernel_size", kernel_size, 2)
    patches = conv_general_dilated_patches(
        x,
        kernel,
        sizes("unfold", "stride", stride, 2),
        paddings("unfold", padding, 2),
        rhs_dilation=sizes("unfold", "dilation", dilation, 2),
    )
    check_window_fits("unfold", x, patches, kernel, (-2, -1))
    return patches.reshape((*patches.shape[:2], patches.shape[2] * patches.shape[3]))


@api_boundary
def fold(
    inp: ArrayLike, output_size: Sizes, kernel_size: Sizes, dilation: Sizes = 1,
    padding: Sizes = 0, stride: Sizes = 1,
) -> Array:  # fmt: skip
    """The transpose of `unfold`: columns added up where their windows stood.

    Args:
        inp: shape (batch, channels * kernel height * kernel width, windows).
        output_size: (height, width) of the images.
        kernel_size, dilation, padding, stride: as for `unfold`.

    Returns:
        Array of shape (batch, channels, *output_size).

    Example:
        >>> columns = mgefn.nn.unfold(mnp.ones((1, 1, 1, 3)), (1, 2))
        >>> mgefn.nn.fold(columns, (1, 3), (1, 2)).ravel()
        Array([1., 2., 1.], dtype=float32)
    """
    (x,) = promoted("fold", (inp,), inexact=True)
    size = sizes("fold", "output_size", output_size, 2)
    kernel = sizes("fold", "kernel_size", kernel_size, 2)
    area = kernel[0] * kernel[1]
    if x.ndim != 3 or x.shape[1] % area:
        raise ShapeError(
            f"fold: needs (batch, channels * {area}, windows), got {x.aval}. "
            "unfold makes such arrays."
        )
    image = ShapeDtypeStruct((x.shape[0], x.shape[1] // area, *size), x.dtype)
    (y,) = linear_transpose(lambda i: unfold(i, kernel, dilation, padding, stride), image)(x)
    return y


@api_boundary
def pixel_shuffle(inp: ArrayLike, upscale_factor: int) -> Array:
    """Channels spread over space: (..., c * r * r, h, w) becomes (..., c, h * r, w * r).

    Example:
        >>> mgefn.nn.pixel_shuffle(mnp.arange(4.0).reshape(4, 1, 1), 2)[0]
        Array([[0., 1.],
               [2., 3.]], dtype=float32)

    Source: Shi et al. (2016), arXiv:1609.05158.
    """
    (x,) = promoted("pixel_shuffle", (inp,))
    (r,) = sizes("pixel_shuffle", "upscale_factor", upscale_factor, 1)
    if x.ndim < 3 or x.shape[-3] % (r * r):
        raise ShapeError(f"pixel_shuffle: needs (..., channels * {r * r}, h, w), got {x.aval}.")
    *batch, c, h, w = x.shape
    y = x.reshape((*batch, c // (r * r), r, r, h, w))
    n = len(batch)
    y = mnp.transpose(y, (*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return y.reshape((*batch, c // (r * r), h * r, w * r))


@api_boundary
def pad(
    src: ArrayLike,
    pad_width: Sequence[tuple[int, int]],
    mode: str = "constant",
    constant_value: float = 0.0,
) -> Array:
    """An array with more elements at the ends of its dimensions; `numpy.pad` in MegEngine's words.

    Args:
        src: any array.
        pad_width: (low, high) for each dimension.
        mode: "constant", "replicate" (the elements at the ends) or "reflect".
        constant_value: for the first mode.
    """
    modes = {"constant": "constant", "replicate": "edge", "reflect": "reflect"}
    key = mode.lower() if isinstance(mode, str) else mode
    if key not in modes:
        raise ArgumentError(f"pad: mode must be one of {', '.join(modes)}, got {mode!r}.")
    widths = tuple(tuple(p) for p in pad_width)
    if key == "constant":
        return mnp.pad(src, widths, constant_values=constant_value)
    return mnp.pad(src, widths, mode=modes[key])


@api_boundary
def embedding(
    inp: ArrayLike,
    weight: ArrayLike,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float | None = None,
) -> Array:
    """The rows of a table that integers number.

    Args:
        inp: integers of any shape. Negative ones count from the end.
        weight: shape (entries, features).
        padding_idx: no derivative flows to this row.
        max_norm: rows that are longer are shortened to this norm; the table stays as it is.
        norm_type: which norm; None: 2.

    Returns:
        Array of shape (*inp.shape, features).

    Raises:
        IndexOutOfBoundsError: a number is that of no row. Only where they are known: under jit and
            vmap such a row is NaN, as in JAX's `take`.

    Example:
        >>> mgefn.nn.embedding(mnp.array([1, 0]), mnp.array([[1.0, 2.0], [3.0, 4.0]]))
        Array([[3., 4.],
               [1., 2.]], dtype=float32)
    """
    i, table = mnp.asarray(inp), mnp.asarray(weight)
    if not dtypes.is_integer(i.dtype):
        raise DTypeError(f"embedding: needs integers, got {i.aval}. Cast them.")
    if table.ndim != 2:
        raise ShapeError(f"embedding: weight must be (entries, features), got {table.aval}.")
    check_range("embedding", "inp", i, table.shape[0], "rows of the table")
    rows = mnp.take(table, i, axis=0)
    if padding_idx is not None:
        row = operator.index(padding_idx) % table.shape[0]
        hit = mnp.expand_dims(i % table.shape[0] == row, -1)
        rows = mnp.where(hit, stop_gradient_leaf(rows), rows)
    if max_norm is not None:
        unit = normalize(rows, 2 if norm_type is None else norm_type, axis=-1)
        size = mnp.linalg.norm(
            stop_gradient_leaf(rows), 2 if norm_type is None else norm_type, axis=-1, keepdims=True
        )
        rows = mnp.where(size > max_norm, max_norm * unit, rows).astype(table.dtype)
    return rows


@api_boundary
def dropout(
    inp: ArrayLike,
    drop_prob: float,
    training: bool = True,
    *,
    key: ArrayLike | None = None,
    broadcast_dims: Sequence[int] = (),
) -> Array:
    """Elements replaced by 0 at random, the others divided by the probability to stay.

    Args:
        inp: any floating or complex array.
        drop_prob: in [0, 1]: the probability that an element is dropped.
        training: False: return x as it is.
        key: random key; needed where something can be dropped.
        broadcast_dims: dimensions along which elements share one draw.

    Raises:
        ArgumentError: no key, or drop_prob is out of range.

    Example:
        >>> mgefn.nn.dropout(mnp.ones(3), 0.5, training=False)
        Array([1., 1., 1.], dtype=float32)

    Source: Srivastava et al. (2014), JMLR 15, 1929-1958.
    """
    (x,) = promoted("dropout", (inp,), inexact=True)
    if isinstance(drop_prob, (int, float)) and not 0 <= drop_prob <= 1:
        raise ArgumentError(f"dropout: drop_prob must be in [0, 1], got {drop_prob}.")
    never = isinstance(drop_prob, (int, float)) and drop_prob == 0
    if not training or never:
        return x
    if isinstance(drop_prob, (int, float)) and drop_prob == 1:
        return mnp.zeros_like(x)
    if key is None:
        raise ArgumentError("dropout: needs a key when training. Pass key=random.key(seed).")
    shared = {operator.index(d) % x.ndim for d in broadcast_dims}
    shape = tuple(1 if d in shared else n for d, n in enumerate(x.shape))
    keep = 1 - drop_prob
    return mnp.where(random.bernoulli(key, keep, shape), x / keep, 0).astype(x.dtype)
