"""Convolutions: `conv_general_dilated_p` is all of them, its transposes included.

As in machine learning, the kernel is not reversed. Ignoring the spatial dimensions, a convolution
multiplies matrices, [m, j] [j, k] -> [m, k], where m counts examples, j input and k output
features. Its transposes are products of the same kind, [m, k] [k, j] -> [m, j] and [j, m] [m, k]
-> [j, k], so they are convolutions with the roles of the dimensions exchanged. With g feature
groups, [m, gj] [j, gk] -> [m, gk], the transpose by the kernel is one with batch groups, [gj, m]
[m, gk] -> [j, gk], and the other way round. The formulas are those of JAX.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mgefn import dtypes
from mgefn.core.array_methods import Array, ArrayLike, DTypeLike
from mgefn.core.avals import ShapedArray, is_undefined
from mgefn.core.primitive import Primitive
from mgefn.errors import ArgumentError, DTypeError, ShapeError, api_boundary
from mgefn.ops.contractions import check_preferred, dot_general
from mgefn.ops.elementwise import convert, eq_p, promoted
from mgefn.ops.shaping import (
    broadcast_in_dim,
    broadcasted_iota,
    inverse_permutation,
    moveaxis,
    reshape,
    rev,
    swapaxes,
    transpose,
    zeros,
)
from mgefn.ops.windows import Padding, dilated, out_sizes, padding_pairs, per_axis

Spec = tuple[int, ...]


class ConvDimensionNumbers(NamedTuple):
    """Which dimension of each array plays which role.

    lhs_spec: the dimensions of the input: batch, feature, then spatial ones.
    rhs_spec: those of the kernel: output feature, input feature, spatial ones.
    out_spec: those of the output: batch, feature, spatial ones.
    """

    lhs_spec: Spec
    rhs_spec: Spec
    out_spec: Spec


# -- conv_general_dilated -------------------------------------------------------------------------

# params: window_strides, lhs_dilation, rhs_dilation, positive ints for each spatial dimension;
# padding, (low, high) for each, which may be negative; dimension_numbers, a ConvDimensionNumbers;
# feature_group_count, batch_group_count, of which one is 1; preferred_element_type, the output's
# dtype, or None for the operands'
conv_general_dilated_p = Primitive("conv_general_dilated", bilinear=True)


@api_boundary
def conv_general_dilated(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
    out_sharding: None = None,
) -> Array:
    """Convolution over any number of spatial dimensions, as jax.lax.conv_general_dilated gives it.

    out[n, k, i] = sum over j and q of lhs[n, j, i * stride + q * rhs_dilation - low] * rhs[k, j, q]
    where lhs is spread out by lhs_dilation, and 0 outside. Both derivatives are convolutions.

    Args:
        lhs: input of rank n + 2, by default (batch, features, *spatial).
        rhs: kernel of rank n + 2, by default (output features, input features, *spatial); both are
            promoted to one dtype of numbers.
        window_strides: n distances between neighbouring outputs.
        padding: n pairs (low, high) of zeros to put around lhs, negative to cut; or "VALID", "SAME"
            or "SAME_LOWER".
        lhs_dilation: n distances at which the elements of lhs stand, with zeros between.
        rhs_dilation: n distances at which the elements of rhs stand.
        dimension_numbers: three strings such as ("NHWC", "HWIO", "NHWC"): N batch, C features, I
            and O input and output features, any other letters the spatial dimensions, in the
            order of the second string. Or a ConvDimensionNumbers. None: the defaults above.
        feature_group_count: groups of input features; each makes its share of the output features.
        batch_group_count: groups of the batch; each makes its share of the output features.
        precision: taken for the sake of ported programs; sums always have full precision.
        preferred_element_type: dtype of the sums and of the result, no narrower than the operands'.
            None: the operands' dtype, with sums of float16 and bfloat16 formed in float32.
        out_sharding: must be None.
    Returns:
        Array (batch, output features, *spatial), in the order of dimension_numbers.
    Raises:
        ShapeError: the shapes, groups or paddings do not fit each other.
        ArgumentError: dimension_numbers or a padding string make no sense; a padding string with
            lhs_dilation.
        DTypeError: the operands are bool.
    Example:
        >>> x = mnp.arange(5.0).reshape(1, 1, 5)
        >>> kernel = mnp.array([[[1.0, 0.0, -1.0]]])
        >>> mgefn.lax.conv_general_dilated(x, kernel, (1,), "VALID")
        Array([[[-2., -2., -2.]]], dtype=float32)
    """
    return _conv(
        "conv_general_dilated",
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        dimension_numbers,
        feature_group_count,
        batch_group_count,
        preferred_element_type,
        out_sharding,
    )


def _conv(
    name: str,
    lhs: Any,
    rhs: Any,
    window_strides: Any,
    padding: Any,
    lhs_dilation: Any = None,
    rhs_dilation: Any = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    preferred: DTypeLike = None,
    out_sharding: Any = None,
) -> Any:
    """Bind the primitive to what a user gave."""
    if out_sharding is not None:
        raise ArgumentError(f"{name}: out_sharding must be None, got {out_sharding!r}.")
    x, w = promoted(name, (lhs, rhs))
    numbers = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    n = x.ndim - 2
    strides = per_axis(name, "window_strides", window_strides, n)
    spread = per_axis(name, "lhs_dilation", lhs_dilation, n)
    steps = per_axis(name, "rhs_dilation", rhs_dilation, n)
    if isinstance(padding, str) and padding.upper() != "VALID" and any(s > 1 for s in spread):
        raise ArgumentError(
            f"{name}: with lhs_dilation the padding must be (low, high) pairs, got {padding!r}. "
            "Use conv_transpose, which knows what the strings mean there."
        )
    params = {
        "window_strides": strides,
        "padding": padding_pairs(
            name,
            padding,
            [dilated(x.shape[d], s) for d, s in zip(numbers.lhs_spec[2:], spread, strict=True)],
            [dilated(w.shape[d], s) for d, s in zip(numbers.rhs_spec[2:], steps, strict=True)],
            strides,
        ),
        "lhs_dilation": spread,
        "rhs_dilation": steps,
        "dimension_numbers": numbers,
        "feature_group_count": int(feature_group_count),
        "batch_group_count": int(batch_group_count),
        "preferred_element_type": None,
    }
    if preferred is not None:
        wanted = dtypes.canonical(preferred)
        params["preferred_element_type"] = None if wanted == x.dtype else wanted
    # Evaluation does not check types, so what the user wrote is checked here.
    _conv_abstract_eval(x.aval, w.aval, name=name, **params)
    return conv_general_dilated_p.bind1(x, w, **params)


def _conv_abstract_eval(
    x: ShapedArray,
    w: ShapedArray,
    *,
    window_strides,
    padding,
    lhs_dilation,
    rhs_dilation,
    dimension_numbers,
    feature_group_count,
    batch_group_count,
    preferred_element_type,
    name="conv_general_dilated",
):
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    if not x.ndim == w.ndim == len(lhs_spec) == len(rhs_spec) == len(out_spec):
        raise ShapeError(
            f"{name}: input and kernel must have the rank that dimension_numbers name, got {x} and "
            f"{w} for {tuple(dimension_numbers)}."
        )
    if x.dtype != w.dtype or dtypes.is_bool(x.dtype):
        raise DTypeError(
            f"{name}: needs numbers of one dtype, got {x} and {w}. Cast them with astype."
        )
    if feature_group_count < 1 or batch_group_count < 1:
        raise ArgumentError(f"{name}: group counts must be positive.")
    if feature_group_count > 1 and batch_group_count > 1:
        raise ArgumentError(
            f"{name}: feature_group_count and batch_group_count cannot both be above 1, got "
            f"{feature_group_count} and {batch_group_count}."
        )
    features, (outputs, inputs) = x.shape[lhs_spec[1]], [w.shape[d] for d in rhs_spec[:2]]
    if features != inputs * feature_group_count:
        raise ShapeError(
            f"{name}: the input must have {feature_group_count} (feature_group_count) times the "
            f"kernel's {inputs} input features, got {features} in dimension {lhs_spec[1]} of {x}, "
            f"for the kernel {w}. Do dimension_numbers say which dimension is which?"
        )
    batch = x.shape[lhs_spec[0]]
    groups = feature_group_count * batch_group_count
    if outputs % groups or batch % batch_group_count:
        raise ShapeError(
            f"{name}: groups must share out the {outputs} output features, and batch groups the "
            f"batch of {batch}, evenly, got {feature_group_count} feature and {batch_group_count} "
            "batch groups."
        )
    if preferred_element_type is not None:
        check_preferred(name, x.dtype, preferred_element_type)
    sizes = [x.shape[d] for d in lhs_spec[2:]]
    for n, spread, (low, high) in zip(sizes, lhs_dilation, padding, strict=True):
        if dilated(n, spread) + low + high < 0:
            raise ShapeError(
                f"{name}: negative padding may cut no more than there is, got {padding} for the "
                f"spatial sizes {tuple(sizes)}."
            )
    spatial = out_sizes(
        sizes,
        [w.shape[d] for d in rhs_spec[2:]],
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
    )
    shape = (batch // batch_group_count, outputs, *spatial)
    order = inverse_permutation(out_spec)
    return (ShapedArray(tuple([shape[d] for d in order]), preferred_element_type or x.dtype),)


conv_general_dilated_p.def_abstract_eval(_conv_abstract_eval)


def _flops(in_avals: Sequence[ShapedArray], params: dict[str, Any]) -> float:
    """Two operations for each product of an output's sum."""
    (out,) = _conv_abstract_eval(*in_avals, **params)
    w, rhs_spec = in_avals[1], params["dimension_numbers"].rhs_spec
    return 2.0 * out.size * math.prod([w.shape[d] for d in rhs_spec[1:]])


conv_general_dilated_p.flops = _flops

# -- its transposes -------------------------------------------------------------------------------


def _split(x: Any, axis: int, outer: int) -> Any:
    """A dimension as two, the first of size `outer`."""
    n = x.shape[axis]
    inner = n // outer if outer else 0
    return reshape(x, (*x.shape[:axis], outer, inner, *x.shape[axis + 1 :]))


def _merged(x: Any, source: int, target: int) -> Any:
    """A dimension moved in front of another and merged with it.

    `target` counts the dimensions without `source`.
    """
    x = moveaxis(x, source, target)
    n = x.shape[target] * x.shape[target + 1]
    return reshape(x, (*x.shape[:target], n, *x.shape[target + 2 :]))


def _exchanged(spec: Spec) -> Spec:
    return (spec[1], spec[0], *spec[2:])


@conv_general_dilated_p.def_transpose
def _conv_transpose(cts, x, w, **params):
    (ct,) = cts
    unknown = x if is_undefined(x) else w
    if 0 in ct.shape or 0 in x.aval.shape or 0 in w.aval.shape:
        zero = zeros(unknown.aval)
        return (zero, None) if unknown is x else (None, zero)
    if unknown is x:
        return _transpose_input(ct, x.aval, w, **params), None
    return None, _transpose_kernel(ct, x, w.aval, **params)


def _transpose_input(
    ct: Any,
    x: ShapedArray,
    w: Any,
    *,
    window_strides,
    padding,
    lhs_dilation,
    rhs_dilation,
    dimension_numbers,
    feature_group_count,
    batch_group_count,
    preferred_element_type,
) -> Any:
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    pairs = []
    for d, k, o, stride, (low, _), spread, step in zip(
        lhs_spec[2:],
        rhs_spec[2:],
        out_spec[2:],
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        strict=True,
    ):
        window = dilated(w.shape[k], step)
        before = window - low - 1
        after = dilated(x.shape[d], spread) + window - 1 - dilated(ct.shape[o], stride) - before
        pairs.append((before, after))
    groups = feature_group_count * batch_group_count
    if groups > 1:
        # The groups of the kernel's output features become groups of its input features.
        w = _merged(_split(w, rhs_spec[0], groups), rhs_spec[0], rhs_spec[1])
    out = conv_general_dilated_p.bind1(
        ct,
        convert(rev(w, rhs_spec[2:]), ct.dtype),
        window_strides=lhs_dilation,
        padding=tuple(pairs),
        lhs_dilation=window_strides,
        rhs_dilation=rhs_dilation,
        dimension_numbers=ConvDimensionNumbers(out_spec, _exchanged(rhs_spec), lhs_spec),
        feature_group_count=groups,
        batch_group_count=1,
        preferred_element_type=None,
    )
    if batch_group_count > 1:
        out = _merged(_split(out, lhs_spec[1], groups), lhs_spec[1], lhs_spec[0])
    return convert(out, x.dtype)


def _transpose_kernel(
    ct: Any,
    x: Any,
    w: ShapedArray,
    *,
    window_strides,
    padding,
    lhs_dilation,
    rhs_dilation,
    dimension_numbers,
    feature_group_count,
    batch_group_count,
    preferred_element_type,
) -> Any:
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    pairs = []
    for d, k, o, stride, (low, _), spread, step in zip(
        lhs_spec[2:],
        rhs_spec[2:],
        out_spec[2:],
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        strict=True,
    ):
        after = dilated(ct.shape[o], stride) - dilated(x.shape[d], spread)
        pairs.append((low, after + dilated(w.shape[k], step) - low - 1))
    out = conv_general_dilated_p.bind1(
        convert(x, ct.dtype),
        ct,
        window_strides=rhs_dilation,
        padding=tuple(pairs),
        lhs_dilation=lhs_dilation,
        rhs_dilation=window_strides,
        dimension_numbers=ConvDimensionNumbers(
            _exchanged(lhs_spec), _exchanged(out_spec), _exchanged(rhs_spec)
        ),
        feature_group_count=batch_group_count,
        batch_group_count=feature_group_count,
        preferred_element_type=None,
    )
    return convert(out, w.dtype)


@conv_general_dilated_p.def_batch
def _conv_batch(args, bdims, **params):
    (x, w), (x_bdim, w_bdim) = args, bdims
    lhs_spec, rhs_spec, out_spec = params["dimension_numbers"]
    features, batches = params["feature_group_count"], params["batch_group_count"]
    size = x.shape[x_bdim] if x_bdim is not None else w.shape[w_bdim]
    if size == 0:
        return (_no_examples(x, w, x_bdim, w_bdim, params),), (0,)
    if x_bdim is not None and w_bdim is not None:
        # Examples become groups in front of those that there are.
        x = _merged(x, x_bdim, lhs_spec[0] if batches > 1 else lhs_spec[1])
        w = _merged(w, w_bdim, rhs_spec[0])
        count = "batch_group_count" if batches > 1 else "feature_group_count"
        out = conv_general_dilated_p.bind1(x, w, **{**params, count: params[count] * size})
        return (_split(out, out_spec[1], size),), (out_spec[1],)
    if x_bdim is not None:
        if batches == 1:
            x = _merged(x, x_bdim, lhs_spec[0])
        else:
            # Batch groups stay outermost.
            n = lhs_spec[0]
            x = _split(moveaxis(x, x_bdim, 0), n + 1, batches)
            x = _merged(x, 0, n + 1)
            x = _merged(x, n, n)
        out = conv_general_dilated_p.bind1(x, w, **params)
        return (_split(out, out_spec[0], size),), (out_spec[0],)
    assert w_bdim is not None  # one of the two is batched
    groups = features * batches
    if groups == 1:
        out = conv_general_dilated_p.bind1(x, _merged(w, w_bdim, rhs_spec[0]), **params)
        return (_split(out, out_spec[1], size),), (out_spec[1],)
    # Groups stay outermost among the output features.
    o = rhs_spec[0]
    w = _split(moveaxis(w, w_bdim, 0), o + 1, groups)
    w = _merged(_merged(w, 0, o + 1), o, o)
    out = conv_general_dilated_p.bind1(x, w, **params)
    f = out_spec[1]
    out = _split(_split(out, f, groups), f + 1, size)
    return (_merged(out, f, f + 1),), (f,)


def _no_examples(x: Any, w: Any, x_bdim: Any, w_bdim: Any, params: dict[str, Any]) -> Any:
    def example(a: Any, bdim: int | None) -> ShapedArray:
        shape = a.shape if bdim is None else (*a.shape[:bdim], *a.shape[bdim + 1 :])
        return ShapedArray(shape, a.dtype)

    (out,) = _conv_abstract_eval(example(x, x_bdim), example(w, w_bdim), **params)
    return zeros(ShapedArray((0, *out.shape), out.dtype))


# -- dimension numbers ----------------------------------------------------------------------------


@api_boundary
def conv_dimension_numbers(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: Any
) -> ConvDimensionNumbers:
    """The ConvDimensionNumbers that strings, or None, stand for.

    Args:
        lhs_shape: shape of the input.
        rhs_shape: shape of the kernel.
        dimension_numbers: as for `conv_general_dilated`.
    Raises:
        ShapeError: the ranks differ, are below 2, or are not those of the strings.
        ArgumentError: the strings are not three, or lack or repeat a letter.
    Example:
        >>> mgefn.lax.conv_dimension_numbers((1, 8, 8, 3), (3, 3, 3, 6), ("NHWC", "HWIO", "NHWC"))
        ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    """
    name = "conv_general_dilated"
    ndim = len(lhs_shape)
    if len(rhs_shape) != ndim or ndim < 2:
        raise ShapeError(
            f"{name}: input and kernel must have one rank, 2 or more, got shapes "
            f"{tuple(lhs_shape)} and {tuple(rhs_shape)}. Each has two dimensions besides the "
            "spatial ones."
        )
    if dimension_numbers is None:
        same = tuple(range(ndim))
        return ConvDimensionNumbers(same, same, same)
    if not isinstance(dimension_numbers, (tuple, list)) or len(dimension_numbers) != 3:
        raise ArgumentError(
            f"{name}: dimension_numbers must be three strings, as in ('NHWC', 'HWIO', 'NHWC'), a "
            f"ConvDimensionNumbers or None, got {dimension_numbers!r}."
        )
    specs = tuple(dimension_numbers)
    if not all(isinstance(s, str) for s in specs):
        if any(not hasattr(s, "__len__") or sorted(s) != list(range(ndim)) for s in specs):
            raise ArgumentError(
                f"{name}: each entry of dimension_numbers must be a string or name the dimensions "
                f"0 to {ndim - 1} once, got {dimension_numbers!r}."
            )
        return ConvDimensionNumbers(*[tuple(map(int, s)) for s in specs])
    if any(len(s) != ndim for s in specs):
        raise ShapeError(
            f"{name}: each string of dimension_numbers needs {ndim} letters for the shapes "
            f"{tuple(lhs_shape)} and {tuple(rhs_shape)}, got {specs}."
        )
    roles = ("NC", "OI", "NC")
    for spec, pair in zip(specs, roles, strict=True):
        if len(set(spec)) != ndim or not set(pair) <= set(spec):
            raise ArgumentError(
                f"{name}: {spec!r} in dimension_numbers must have the letters {pair[0]} and "
                f"{pair[1]}, and each letter once."
            )
    spatial = [[c for c in spec if c not in pair] for spec, pair in zip(specs, roles, strict=True)]
    if not set(spatial[0]) == set(spatial[1]) == set(spatial[2]):
        raise ArgumentError(
            f"{name}: the strings of dimension_numbers must have the same spatial letters, got "
            f"{specs}."
        )
    return ConvDimensionNumbers(
        *[
            tuple([spec.index(c) for c in (*pair, *spatial[1])])
            for spec, pair in zip(specs, roles, strict=True)
        ]
    )


# -- special cases --------------------------------------------------------------------------------


@api_boundary
def conv(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: Padding,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """Convolution of (batch, features, *spatial) with (out features, in features, *spatial).

    The arguments are those of `conv_general_dilated`.
    """
    return _conv("conv", lhs, rhs, window_strides, padding, preferred=preferred_element_type)


@api_boundary
def conv_with_general_padding(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """`conv` with dilations. The arguments are those of `conv_general_dilated`."""
    return _conv(
        "conv_with_general_padding",
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        preferred=preferred_element_type,
    )


_CHANNELS_LAST = {
    2: ("NC", "IO", "NC"),
    3: ("NHC", "HIO", "NHC"),
    4: ("NHWC", "HWIO", "NHWC"),
    5: ("NHWDC", "HWDIO", "NHWDC"),
}


@api_boundary
def conv_transpose(
    lhs: ArrayLike,
    rhs: ArrayLike,
    strides: Sequence[int],
    padding: Padding,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    transpose_kernel: bool = False,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
    use_consistent_padding: bool = False,
) -> Array:
    """Convolution with fractional strides, as jax.lax.conv_transpose gives it.

    With transpose_kernel it is the derivative of a convolution by its input.

    Args:
        lhs: input of rank n + 2.
        rhs: kernel of rank n + 2.
        strides: by how much each spatial dimension grows.
        padding: "SAME" or "VALID", of the convolution this is the transpose of; or pairs (low,
            high) of zeros around the spread input.
        rhs_dilation: n distances at which the elements of rhs stand.
        dimension_numbers: as for `conv_general_dilated`; None: channels last, as "NHWC", "HWIO".
        transpose_kernel: reverse the kernel's spatial dimensions and exchange its features.
        precision: taken for the sake of ported programs; sums always have full precision.
        preferred_element_type: dtype of the sums and of the result.
        use_consistent_padding: pairs too are the padding of the transposed convolution.
    Example:
        >>> x = mnp.array([1.0, 2.0]).reshape(1, 2, 1)
        >>> kernel = mnp.array([1.0, 10.0]).reshape(2, 1, 1)
        >>> mgefn.lax.conv_transpose(x, kernel, (2,), "VALID").ravel()
        Array([10.,  1., 20.,  2.], dtype=float32)
    """
    name = "conv_transpose"
    x, w = promoted(name, (lhs, rhs))
    if dimension_numbers is None:
        if x.ndim not in _CHANNELS_LAST:
            raise ArgumentError(
                f"{name}: needs dimension_numbers for an input of rank {x.ndim}, got {x.aval}."
            )
        dimension_numbers = _CHANNELS_LAST[x.ndim]
    numbers = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    n = x.ndim - 2
    grow = per_axis(name, "strides", strides, n)
    steps = per_axis(name, "rhs_dilation", rhs_dilation, n)
    spatial = numbers.rhs_spec[2:]
    is_name = isinstance(padding, str)
    if use_consistent_padding or (is_name and padding.upper() in ("SAME", "VALID")):
        given = [padding.upper()] * n if is_name else list(padding)
        if len(given) != n:
            raise ShapeError(f"{name}: padding needs {n} pairs, got {padding}.")
        padding = tuple(
            [
                _transposed_padding(dilated(w.shape[d], step), s, p)
                for d, step, s, p in zip(spatial, steps, grow, given, strict=True)
            ]
        )
    if transpose_kernel:
        w = swapaxes(rev(w, spatial), numbers.rhs_spec[0], numbers.rhs_spec[1])
    return _conv(
        name, x, w, (1,) * n, padding, grow, steps, numbers, preferred=preferred_element_type
    )


def _transposed_padding(window: int, stride: int, padding: Any) -> tuple[int, int]:
    """Around the spread input, for the padding of the transposed convolution."""
    if padding == "SAME":
        total = window + stride - 2
        low = window - 1 if stride > window - 1 else -(-total // 2)
    elif padding == "VALID":
        total = window + stride - 2 + max(window - stride, 0)
        low = window - 1
    elif isinstance(padding, str):
        raise ArgumentError(
            f"conv_transpose: padding must be 'SAME', 'VALID' or pairs, got {padding!r}."
        )
    else:
        low, high = [window - 1 - p for p in padding]
        total = low + high
    return low, total - low


@api_boundary
def conv_general_dilated_patches(
    lhs: ArrayLike,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """What the windows of a convolution see, as output features.

    Args:
        lhs: input of rank n + 2.
        filter_shape: n sizes of the window.
        window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers, precision,
            preferred_element_type: as for `conv_general_dilated`.
    Returns:
        Array with features * prod(filter_shape) output features, the window's places fastest.
    """
    name = "conv_general_dilated_patches"
    (x,) = promoted(name, (lhs,))
    window = per_axis(name, "filter_shape", filter_shape, x.ndim - 2)
    numbers = conv_dimension_numbers(x.shape, (1, 1, *window), dimension_numbers)
    features = x.shape[numbers.lhs_spec[1]]
    places = math.prod(window)
    # One output feature for each feature and place, that copies it.
    row = broadcasted_iota(np.int32, (places, places), 0)
    column = broadcasted_iota(np.int32, (places, places), 1)
    unit = reshape(convert(eq_p.bind1(row, column), x.dtype), (1, places, 1, *window))
    kernel = broadcast_in_dim(unit, (features, places, 1, *window), tuple(range(unit.ndim)))
    kernel = reshape(kernel, (features * places, 1, *window))
    kernel = transpose(kernel, inverse_permutation(numbers.rhs_spec))
    return _conv(
        name,
        x,
        kernel,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        numbers,
        features,
        preferred=preferred_element_type,
    )


@api_boundary
def conv_general_dilated_local(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: Padding,
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: Any = None,
) -> Array:
    """A convolution with a kernel of its own for each place of the output.

    Args:
        lhs: input of rank n + 2.
        rhs: shape (output features, features * prod(filter_shape), *output's spatial sizes), in the
            order of dimension_numbers; the window's places fastest.
        filter_shape: n sizes of the window.
        window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers, precision: as for
            `conv_general_dilated`.
    Returns:
        Array (batch, output features, *spatial), in the order of dimension_numbers.
    """
    name = "conv_general_dilated_local"
    x, w = promoted(name, (lhs, rhs))
    numbers = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    _, rhs_spec, out_spec = numbers
    seen = conv_general_dilated_patches(
        x, filter_shape, window_strides, padding, lhs_dilation, rhs_dilation, numbers
    )
    contract = ((rhs_spec[1],), (out_spec[1],))
    out = dot_general(w, seen, (contract, (rhs_spec[2:], out_spec[2:])))
    # (*spatial, output features, batch)
    n = x.ndim - 2
    return transpose(out, [(n + 1, n, *range(n))[r] for r in inverse_permutation(out_spec)])
