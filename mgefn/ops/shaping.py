"""Shape operations: broadcast, reshape, transpose, reverse, concatenate, pad, slice, iota.

All move elements without arithmetic, so all but iota are linear.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any, Never

import numpy as np

from mgefn import dtypes
from mgefn.core.array import as_array, described, scalar
from mgefn.core.array_methods import METHODS, Array, ArrayLike, Axis, DTypeLike, method
from mgefn.core.avals import ShapedArray, UndefinedPrimal, is_undefined
from mgefn.core.primitive import Primitive
from mgefn.errors import (
    ArgumentError,
    AxisError,
    DTypeError,
    MgefnError,
    ShapeError,
    TracerIntegerConversionError,
    api_boundary,
    leave_api,
    no_such_keyword,
    tells_keywords,
)

# -- axes and shapes ------------------------------------------------------------------------------


def normalize_axis(name: str, axis: Any, ndim: int) -> int:
    """An axis in [0, ndim), from one in [-ndim, ndim)."""
    try:
        i = operator.index(axis)
    except TracerIntegerConversionError:
        raise TracerIntegerConversionError(
            f"{name}: axis must be a known integer, got the traced {axis.aval} in "
            f"{axis.interpreter.about}. {axis.to_know()}."
        ) from None
    except TypeError:
        raise ArgumentError(
            f"{name}: axis must be an integer, got {described(axis)}. Pass an int."
        ) from None
    if not -ndim <= i < ndim:
        accepted = f"Use one in [{-ndim}, {ndim})." if ndim else "A number has no axes."
        raise AxisError(f"{name}: axis {i} is out of range for an array of rank {ndim}. {accepted}")
    return i + ndim if i < 0 else i


def normalize_axes(name: str, axis: Axis | Sequence[int], ndim: int) -> tuple[int, ...]:
    """Increasing axes in [0, ndim); None means all of them."""
    if axis is None:
        return tuple(range(ndim))
    if isinstance(axis, (tuple, list)):
        axes = tuple(normalize_axis(name, a, ndim) for a in axis)
        if len(set(axes)) != len(axes):
            raise AxisError(f"{name}: an axis is named twice in {tuple(axis)}. Name it once.")
        return tuple(sorted(axes))
    return (normalize_axis(name, axis, ndim),)


def canonical_shape(name: str, shape: Any) -> tuple[int, ...]:
    """A tuple of ints >= 0 from an int or a sequence of them."""
    if shape.__class__ is not tuple:
        if isinstance(shape, (int, np.integer)) or (hasattr(shape, "ndim") and shape.ndim == 0):
            shape = (shape,)
        elif isinstance(shape, str) or not hasattr(shape, "__len__"):
            raise DTypeError(
                f"{name}: a shape is an int or a sequence of ints, got {shape!r}. Write shape=(n,)."
            )
        else:
            shape = tuple(shape)
    new = integer_sizes(name, shape)
    if new and min(new) < 0:
        raise ShapeError(f"{name}: sizes must be 0 or more, got {new}. Only reshape takes -1.")
    return new


def integer_sizes(name: str, sizes: Sequence[Any]) -> tuple[int, ...]:
    """Sizes as ints; what is no integer, or not yet known, is an error that says so."""
    try:
        return tuple([operator.index(d) for d in sizes])
    except TracerIntegerConversionError:
        unknown = next(d for d in sizes if hasattr(d, "to_know"))
        raise TracerIntegerConversionError(
            f"{name}: sizes must be known integers, because they are part of the program, got "
            f"the traced {unknown.aval} in {unknown.interpreter.about}. {unknown.to_know()}."
        ) from None
    except TypeError as e:
        if isinstance(e, MgefnError):
            raise
        raise DTypeError(
            f"{name}: a shape is an int or a sequence of ints, got {sizes!r}. Use integers."
        ) from None


def result_shape(name: str, shapes: Sequence[tuple[int, ...]], avals: Sequence[Any]) -> tuple:
    """NumPy's broadcasting rule."""
    first = shapes[0]
    if all(s == first for s in shapes):
        return first
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ShapeError(
            f"{name}: operands must broadcast together, got {' and '.join(map(str, avals))}. "
            "Reshape one, or index it with None to add a dimension."
        ) from None


# -- broadcast_in_dim -----------------------------------------------------------------------------

# params: shape; broadcast_dimensions, for each operand dimension the output dimension it becomes,
# increasing. An operand dimension of size 1 is repeated.
broadcast_in_dim_p = Primitive("broadcast_in_dim", linear=True, view=True, moves=True)


def broadcast_in_dim(
    operand: ArrayLike, shape: Sequence[int], broadcast_dimensions: Sequence[int]
) -> Array:
    """Place the dimensions of an array among those of `shape` and repeat it along the others.

    Args:
        operand: an array.
        shape: the result's shape.
        broadcast_dimensions: for each dimension of operand, its place in the result, increasing.
            Its size is that of the result, or 1.
    Example:
        >>> mgefn.lax.broadcast_in_dim(mgefn.numpy.array([1, 2]), (2, 3), (0,))
        Array([[1, 1, 1],
               [2, 2, 2]], dtype=int32)
    """
    try:
        x = as_array(operand, "broadcast_in_dim")
        shape = canonical_shape("broadcast_in_dim", shape)
        dims = tuple(operator.index(d) for d in broadcast_dimensions)
        if shape == x.shape and dims == tuple(range(len(shape))):
            return x
        return broadcast_in_dim_p.bind1(x, shape=shape, broadcast_dimensions=dims)
    except BaseException as e:
        leave_api(e)
        raise


@broadcast_in_dim_p.def_abstract_eval
def _broadcast_in_dim_abstract_eval(x: ShapedArray, *, shape, broadcast_dimensions):
    dims = broadcast_dimensions
    if len(dims) != x.ndim:
        raise ShapeError(
            f"broadcast_in_dim: broadcast_dimensions needs {x.ndim} entries for {x}, got {dims}."
        )
    if any(a >= b for a, b in itertools.pairwise(dims)) or any(
        not 0 <= d < len(shape) for d in dims
    ):
        raise ShapeError(
            f"broadcast_in_dim: broadcast_dimensions must increase within [0, {len(shape)}), "
            f"got {dims}."
        )
    for n, d in zip(x.shape, dims, strict=True):
        if n not in (1, shape[d]):
            raise ShapeError(
                f"broadcast_in_dim: a dimension of {x} must be 1 or the size it gets in {shape}, "
                f"got {n} for {shape[d]}."
            )
    return (ShapedArray(shape, x.dtype),)


@broadcast_in_dim_p.def_transpose
def _broadcast_in_dim_transpose(cts, x, *, shape, broadcast_dimensions):
    (ct,) = cts
    # Every copy of an element adds to its cotangent.
    repeated = tuple(i for i in range(len(shape)) if i not in broadcast_dimensions)
    ones = tuple(
        d
        for n, d in zip(x.aval.shape, broadcast_dimensions, strict=True)
        if n == 1 and shape[d] != 1
    )
    if repeated or ones:
        ct = ct.sum(tuple(sorted(repeated + ones)))
    return (reshape(ct, x.aval.shape),)


@broadcast_in_dim_p.def_batch
def _broadcast_in_dim_batch(args, bdims, *, shape, broadcast_dimensions):
    (x,), (bdim,) = args, bdims
    x = moveaxis(x, bdim, 0)
    dims = (0, *(d + 1 for d in broadcast_dimensions))
    return (broadcast_in_dim(x, (x.shape[0], *shape), dims),), (0,)


def broadcast_to_shape(x: Any, shape: tuple[int, ...]) -> Any:
    """NumPy's broadcasting of an array to a shape it fits."""
    if x.shape == shape:
        return x
    n = len(x.shape)
    dims = tuple(range(len(shape) - n, len(shape)))
    return broadcast_in_dim_p.bind1(x, shape=shape, broadcast_dimensions=dims)


@tells_keywords
def broadcast_to(array: ArrayLike, shape: Any, **unknown: Never) -> Array:
    """Repeat an array to `shape` by NumPy's broadcasting rule, as numpy.broadcast_to does.

    Raises:
        ShapeError: a dimension of array is neither 1 nor that of shape.
    """
    try:
        if unknown:
            raise no_such_keyword(broadcast_to, unknown)
        x = as_array(array, "broadcast_to")
        new = canonical_shape("broadcast_to", shape)
        n = len(new) - x.ndim
        if n < 0 or any(a not in (1, b) for a, b in zip(x.shape, new[n:], strict=True)):
            raise ShapeError(
                "broadcast_to: each dimension of the array must be 1 or the size it gets, counted "
                f"from the last, got {x.aval} for {new}. Reshape it, or index it with None to add "
                "a dimension."
            )
        return broadcast_to_shape(x, new)
    except BaseException as e:
        leave_api(e)
        raise


def full_like_aval(value: Any, aval: ShapedArray) -> Any:
    """An array of one value."""
    x = scalar(value, aval.dtype)
    if not aval.shape:
        return x
    return broadcast_in_dim_p.bind1(x, shape=aval.shape, broadcast_dimensions=())


def zeros(aval: ShapedArray) -> Any:
    """The zeros that a symbolic zero of this type stands for."""
    return full_like_aval(0, aval)


# -- reshape --------------------------------------------------------------------------------------

reshape_p = Primitive("reshape", linear=True, view=True, moves=True)  # params: new_sizes


@method("reshape")
@tells_keywords
def reshape(
    a: ArrayLike, shape: Any, order: str = "C", *, copy: bool | None = None, **unknown: Never
) -> Array:
    """Give an array a new shape with the same elements, as numpy.reshape does.

    Args:
        a: an array.
        shape: the new shape; one size may be -1 and is then computed.
        order: "C" reads and writes elements with the last axis fastest, "F" with the first.
    Raises:
        ShapeError: the sizes do not multiply to a's.
    """
    try:
        if unknown:
            raise no_such_keyword(reshape, unknown)
        x = as_array(a, "reshape")
        if shape.__class__ is tuple and all(s.__class__ is int for s in shape) and -1 not in shape:
            new = shape
        else:
            new = _solve_shape(x, shape)
        if order == "F":
            return transpose(reshape(transpose(x), tuple(reversed(new))))
        if order not in ("C", "A"):
            raise ArgumentError(f"reshape: order must be 'C' or 'F', got {order!r}.")
        if new == x.shape:
            return x
        return reshape_p.bind1(x, new_sizes=new)
    except BaseException as e:
        leave_api(e)
        raise


def _solve_shape(x: Array, shape: Any) -> tuple[int, ...]:
    sizes = tuple(shape) if hasattr(shape, "__len__") else (shape,)
    sizes = integer_sizes("reshape", sizes)
    if sizes.count(-1) > 1:
        raise ShapeError(f"reshape: only one size may be -1, got {sizes}. Write the others out.")
    if -1 in sizes:
        rest = math.prod(s for s in sizes if s != -1)
        if rest == 0 or x.size % rest:
            raise ShapeError(
                f"reshape: {x.aval} of {x.size} elements does not fit {sizes}. Sizes must multiply "
                f"to {x.size}."
            )
        sizes = tuple(x.size // rest if s == -1 else s for s in sizes)
    return canonical_shape("reshape", sizes)


@reshape_p.def_abstract_eval
def _reshape_abstract_eval(x: ShapedArray, *, new_sizes):
    if math.prod(new_sizes) != x.size or any(n < 0 for n in new_sizes):
        raise ShapeError(
            f"reshape: {x} of {x.size} elements does not fit {new_sizes}. Sizes must multiply to "
            f"{x.size}."
        )
    return (ShapedArray(new_sizes, x.dtype),)


@reshape_p.def_transpose
def _reshape_transpose(cts, x, *, new_sizes):
    return (reshape(cts[0], x.aval.shape),)


@reshape_p.def_batch
def _reshape_batch(args, bdims, *, new_sizes):
    (x,), (bdim,) = args, bdims
    x = moveaxis(x, bdim, 0)
    return (reshape(x, (x.shape[0], *new_sizes)),), (0,)


@method("ravel")
@api_boundary
def ravel(a: ArrayLike, order: str = "C") -> Array:
    """The elements in one dimension, as numpy.ravel gives them."""
    return reshape(a, (-1,) if as_array(a, "ravel").size else (0,), order)


@method("squeeze")
@tells_keywords
def squeeze(a: ArrayLike, axis: Axis | Sequence[int] = None, **unknown: Never) -> Array:
    """Drop dimensions of size 1, as numpy.squeeze does; None drops all of them."""
    try:
        if unknown:
            raise no_such_keyword(squeeze, unknown)
        x = as_array(a, "squeeze")
        if axis is None:
            return reshape(x, tuple(n for n in x.shape if n != 1))
        axes = normalize_axes("squeeze", axis, x.ndim)
        for i in axes:
            if x.shape[i] != 1:
                raise ShapeError(
                    f"squeeze: axis {i} of {x.aval} must have size 1, got {x.shape[i]}. Leave it "
                    "out."
                )
        return reshape(x, tuple(n for i, n in enumerate(x.shape) if i not in axes))
    except BaseException as e:
        leave_api(e)
        raise


@tells_keywords
def expand_dims(a: ArrayLike, axis: int | Sequence[int], **unknown: Never) -> Array:
    """Insert dimensions of size 1 where the result has `axis`, as numpy.expand_dims does."""
    try:
        if unknown:
            raise no_such_keyword(expand_dims, unknown)
        x = as_array(a, "expand_dims")
        axes: Any = axis if isinstance(axis, (tuple, list)) else (axis,)
        ndim = x.ndim + len(axes)
        at = normalize_axes("expand_dims", tuple(axes), ndim)
        sizes = iter(x.shape)
        return reshape(x, tuple(1 if i in at else next(sizes) for i in range(ndim)))
    except BaseException as e:
        leave_api(e)
        raise


def _same_type(inputs, params, out_avals):
    """The operand itself where nothing changes."""
    x = inputs[0]
    return [x] if x.aval.same_type(out_avals[0]) else None


reshape_p.simplify = _same_type
reshape_p.merge = lambda first, second: second


# -- transpose ------------------------------------------------------------------------------------

transpose_p = Primitive("transpose", linear=True, view=True, moves=True)  # params: permutation


@method("transpose")
@tells_keywords
def transpose(a: ArrayLike, axes: Sequence[int] | None = None, **unknown: Never) -> Array:
    """Permute the dimensions of an array, as numpy.transpose does.

    Args:
        a: an array.
        axes: dimension i of the result is dimension axes[i] of a; None reverses them.
    """
    try:
        if unknown:
            raise no_such_keyword(transpose, unknown)
        x = as_array(a, "transpose")
        n = x.ndim
        if axes is None:
            permutation = tuple(range(n - 1, -1, -1))
        else:
            permutation = tuple(normalize_axis("transpose", i, n) for i in axes)
            if sorted(permutation) != list(range(n)):
                raise AxisError(
                    f"transpose: axes must name each of the {n} dimensions of {x.aval} once, got "
                    f"{tuple(axes)}. List the axes of a in their new order."
                )
        if permutation == tuple(range(n)):
            return x
        return transpose_p.bind1(x, permutation=permutation)
    except BaseException as e:
        leave_api(e)
        raise


@transpose_p.def_abstract_eval
def _transpose_abstract_eval(x: ShapedArray, *, permutation):
    if sorted(permutation) != list(range(x.ndim)):
        raise AxisError(
            f"transpose: permutation must name each dimension of {x} once, got {permutation}."
        )
    return (ShapedArray(tuple(x.shape[i] for i in permutation), x.dtype),)


@transpose_p.def_transpose
def _transpose_transpose(cts, x, *, permutation):
    return (transpose(cts[0], inverse_permutation(permutation)),)


@transpose_p.def_batch
def _transpose_batch(args, bdims, *, permutation):
    (x,), (bdim,) = args, bdims
    permutation = (bdim, *(i + (i >= bdim) for i in permutation))
    return (transpose(x, permutation),), (0,)


transpose_p.merge = lambda first, second: {
    "permutation": tuple(first["permutation"][i] for i in second["permutation"])
}
transpose_p.simplify = lambda inputs, params, out_avals: (
    [inputs[0]] if params["permutation"] == tuple(range(len(params["permutation"]))) else None
)


def inverse_permutation(permutation: Sequence[int]) -> tuple[int, ...]:
    """The permutation that undoes one."""
    inverse = [0] * len(permutation)
    for i, p in enumerate(permutation):
        inverse[p] = i
    return tuple(inverse)


@tells_keywords
def moveaxis(a: ArrayLike, source: Any, destination: Any, **unknown: Never) -> Array:
    """Move dimensions to new places and keep the order of the others, as numpy.moveaxis does."""
    try:
        if unknown:
            raise no_such_keyword(moveaxis, unknown)
        x = as_array(a, "moveaxis")
        if source.__class__ is int and source == destination:
            return x
        sources = source if isinstance(source, (tuple, list)) else (source,)
        targets = destination if isinstance(destination, (tuple, list)) else (destination,)
        if len(sources) != len(targets):
            raise ArgumentError(
                f"moveaxis: source and destination must have the same length, got {source} and "
                f"{destination}."
            )
        src = [normalize_axis("moveaxis", i, x.ndim) for i in sources]
        dst = [normalize_axis("moveaxis", i, x.ndim) for i in targets]
        if len(set(src)) != len(src) or len(set(dst)) != len(dst):
            raise AxisError(f"moveaxis: an axis is named twice in {source} or {destination}.")
        order = [i for i in range(x.ndim) if i not in src]
        for d, s in sorted(zip(dst, src, strict=True)):
            order.insert(d, s)
        return transpose(x, order)
    except BaseException as e:
        leave_api(e)
        raise


@method("swapaxes")
@api_boundary
def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """Exchange two dimensions, as numpy.swapaxes does."""
    x = as_array(a, "swapaxes")
    i = normalize_axis("swapaxes", axis1, x.ndim)
    j = normalize_axis("swapaxes", axis2, x.ndim)
    order = list(range(x.ndim))
    order[i], order[j] = j, i
    return transpose(x, order)


@method("matrix_transpose")
@api_boundary
def matrix_transpose(x: ArrayLike, /) -> Array:
    """Exchange the last two dimensions."""
    a = as_array(x, "matrix_transpose")
    if a.ndim < 2:
        raise ShapeError(f"matrix_transpose: needs rank 2 or more, got {a.aval}.")
    return swapaxes(a, -1, -2)


# -- reverse --------------------------------------------------------------------------------------

rev_p = Primitive("rev", linear=True, view=True, moves=True)  # params: dimensions, increasing


@api_boundary
def rev(operand: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Reverse the order of elements along dimensions."""
    x = as_array(operand, "rev")
    dims = normalize_axes("rev", tuple(dimensions), x.ndim)
    return rev_p.bind1(x, dimensions=dims) if dims else x


@rev_p.def_abstract_eval
def _rev_abstract_eval(x: ShapedArray, *, dimensions):
    return (ShapedArray(x.shape, x.dtype),)


@rev_p.def_transpose
def _rev_transpose(cts, x, *, dimensions):
    return (rev(cts[0], dimensions),)


@rev_p.def_batch
def _rev_batch(args, bdims, *, dimensions):
    (x,), (bdim,) = args, bdims
    return (rev(x, tuple(d + (d >= bdim) for d in dimensions)),), (bdim,)


@api_boundary
def flip(m: ArrayLike, axis: Axis | Sequence[int] = None) -> Array:
    """Reverse the order of elements along `axis` (None: all), as numpy.flip does."""
    x = as_array(m, "flip")
    return rev(x, normalize_axes("flip", axis, x.ndim))


# -- concatenate ----------------------------------------------------------------------------------

concatenate_p = Primitive("concatenate", linear=True, moves=True)  # params: dimension


@concatenate_p.def_abstract_eval
def _concatenate_abstract_eval(*avals: ShapedArray, dimension):
    if not avals:
        raise ArgumentError("concatenate: needs at least one array, got none.")
    first = avals[0]
    if not 0 <= dimension < first.ndim:
        raise AxisError(f"concatenate: dimension {dimension} is out of range for {first}.")
    total = 0
    for a in avals:
        rest = a.shape[:dimension] + a.shape[dimension + 1 :]
        if rest != first.shape[:dimension] + first.shape[dimension + 1 :]:
            raise ShapeError(
                f"concatenate: arrays must agree in all dimensions but {dimension}, got "
                f"{' and '.join(map(str, avals[:8]))}. Pad, slice or reshape one of them."
            )
        if a.dtype != first.dtype:
            raise DTypeError(
                f"concatenate: arrays must have one dtype, got {first} and {a}. Cast one."
            )
        total += a.shape[dimension]
    shape = (*first.shape[:dimension], total, *first.shape[dimension + 1 :])
    return (ShapedArray(shape, first.dtype),)


@concatenate_p.def_transpose
def _concatenate_transpose(cts, *args, dimension):
    (ct,) = cts
    out, start = [], 0
    for x in args:
        shape = x.aval.shape
        stop = start + shape[dimension]
        out.append(slice_in_dim(ct, start, stop, axis=dimension) if is_undefined(x) else None)
        start = stop
    return tuple(out)


@concatenate_p.def_batch
def _concatenate_batch(args, bdims, *, dimension):
    size = next(x.shape[b] for x, b in zip(args, bdims, strict=True) if b is not None)
    moved = [
        moveaxis(x, b, 0)
        if b is not None
        else broadcast_in_dim(x, (size, *x.shape), tuple(range(1, x.ndim + 1)))
        for x, b in zip(args, bdims, strict=True)
    ]
    return concatenate_p.bind(*moved, dimension=dimension + 1), (0,)


# -- pad ------------------------------------------------------------------------------------------

# params: padding_config, (low, high, interior) for each dimension; low and high may be negative
pad_p = Primitive("pad", linear=True, moves=True)


@pad_p.def_abstract_eval
def _pad_abstract_eval(x: ShapedArray, value: ShapedArray, *, padding_config):
    if value.shape != () or value.dtype != x.dtype:
        raise DTypeError(
            f"pad: the padding value must have rank 0 and the operand's dtype, got {value} for {x}."
        )
    if len(padding_config) != x.ndim:
        raise ShapeError(
            f"pad: padding_config needs {x.ndim} entries (low, high, interior) for {x}, got "
            f"{len(padding_config)}."
        )
    shape = []
    for n, (low, high, interior) in zip(x.shape, padding_config, strict=True):
        if interior < 0:
            raise ArgumentError(f"pad: interior padding must be 0 or more, got {interior}.")
        size = low + high + n + max(n - 1, 0) * interior
        if size < 0:
            raise ShapeError(f"pad: {x} padded by {padding_config} would have a negative size.")
        shape.append(size)
    return (ShapedArray(tuple(shape), x.dtype),)


@pad_p.def_transpose
def _pad_transpose(cts, x, value, *, padding_config):
    (ct,) = cts
    x_ct = value_ct = None
    if is_undefined(x):
        # Take back what padding put around: crop with the negated edges, then drop the interior.
        unpadded = pad_p.bind1(
            ct,
            scalar(0, ct.dtype),
            padding_config=tuple((-lo, -hi, 0) for lo, hi, _ in padding_config),
        )
        x_ct = strided_slice(
            unpadded,
            (0,) * ct.ndim,
            unpadded.shape,
            tuple(interior + 1 for _, _, interior in padding_config),
        )
    if is_undefined(value):
        inside = x_ct
        if inside is None:
            inside = _pad_transpose(
                cts, UndefinedPrimal(x.aval), scalar(0, ct.dtype), padding_config=padding_config
            )[0]
        value_ct = ct.sum() - inside.sum()
    return x_ct, value_ct


@pad_p.def_batch
def _pad_batch(args, bdims, *, padding_config):
    (x, value), (bdim, value_bdim) = args, bdims
    if value_bdim is None:
        config = (*padding_config[:bdim], (0, 0, 0), *padding_config[bdim:])
        return pad_p.bind(x, value, padding_config=config), (bdim,)
    # A different value for each example: pad with zeros and with a mask, and put the values there.
    size = value.shape[0]
    if bdim is None:
        x = broadcast_in_dim(x, (size, *x.shape), tuple(range(1, x.ndim + 1)))
    else:
        x = moveaxis(x, bdim, 0)
    config = ((0, 0, 0), *padding_config)
    padded = pad_p.bind1(x, scalar(0, x.dtype), padding_config=config)
    inside = full_like_aval(True, ShapedArray(x.shape, np.dtype(bool)))
    mask = pad_p.bind1(inside, scalar(False, np.dtype(bool)), padding_config=config)
    values = broadcast_in_dim(value, padded.shape, (0,))
    # select stands in the next file, so it is found through the table of methods.
    return (METHODS["where"](mask, padded, values),), (0,)


# -- slice ----------------------------------------------------------------------------------------

# params: start_indices, limit_indices, strides (positive) per dimension
slice_p = Primitive("slice", linear=True, view=True, moves=True)


def _cropped(inputs: Sequence[Any], params: dict[str, Any]) -> Any:
    """A slice in the place of a padding that only takes away."""
    config, shape = params["padding_config"], inputs[0].aval.shape
    if any(low > 0 or high > 0 or interior for low, high, interior in config):
        return None
    limits = tuple(n + high for n, (_, high, _) in zip(shape, config, strict=True))
    starts = tuple(-low for low, _, _ in config)
    steps = (1,) * len(shape)
    return slice_p, inputs[:1], {"start_indices": starts, "limit_indices": limits, "strides": steps}


pad_p.instead = _cropped


@api_boundary
def strided_slice(
    operand: ArrayLike,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Array:
    """The elements from start (included) to limit (excluded) by strides, for each dimension.

    Raises:
        ShapeError: an index is outside [0, size], or limit is before start.
    """
    x = as_array(operand, "slice")
    starts = tuple(map(operator.index, start_indices))
    limits = tuple(map(operator.index, limit_indices))
    steps = (1,) * x.ndim if strides is None else tuple(map(operator.index, strides))
    if limits == x.shape and not any(starts) and all(s == 1 for s in steps):
        return x
    return slice_p.bind1(x, start_indices=starts, limit_indices=limits, strides=steps)


@api_boundary
def slice_in_dim(
    operand: ArrayLike,
    start_index: int | None,
    limit_index: int | None,
    stride: int = 1,
    axis: int = 0,
) -> Array:
    """`strided_slice` along one axis; indices may be negative or None as in Python's slices."""
    x = as_array(operand, "slice_in_dim")
    i = normalize_axis("slice_in_dim", axis, x.ndim)
    start, stop, _ = slice(start_index, limit_index).indices(x.shape[i])
    starts, limits, steps = [0] * x.ndim, list(x.shape), [1] * x.ndim
    starts[i], limits[i], steps[i] = start, max(stop, start), stride
    return strided_slice(x, starts, limits, steps)


@slice_p.def_abstract_eval
def _slice_abstract_eval(x: ShapedArray, *, start_indices, limit_indices, strides):
    if not len(start_indices) == len(limit_indices) == len(strides) == x.ndim:
        raise ShapeError(f"slice: needs {x.ndim} starts, limits and strides for {x}.")
    shape = []
    for n, start, limit, step in zip(x.shape, start_indices, limit_indices, strides, strict=True):
        if not (0 <= start <= limit <= n and step > 0):
            raise ShapeError(
                f"slice: needs 0 <= start <= limit <= size and a positive stride, got "
                f"start={start_indices}, limit={limit_indices}, strides={strides} for {x}."
            )
        shape.append(-(-(limit - start) // step))
    return (ShapedArray(tuple(shape), x.dtype),)


@slice_p.def_transpose
def _slice_transpose(cts, x, *, start_indices, limit_indices, strides):
    (ct,) = cts
    config = []
    for n, m, start, step in zip(x.aval.shape, ct.shape, start_indices, strides, strict=True):
        covered = 0 if m == 0 else start + (m - 1) * step + 1
        # An empty slice puts nothing anywhere, so all of n is padding.
        config.append((start, n - covered, step - 1) if m else (0, n, 0))
    return (pad_p.bind1(ct, scalar(0, ct.dtype), padding_config=tuple(config)),)


@slice_p.def_batch
def _slice_batch(args, bdims, *, start_indices, limit_indices, strides):
    (x,), (b,) = args, bdims
    return (
        strided_slice(
            x,
            (*start_indices[:b], 0, *start_indices[b:]),
            (*limit_indices[:b], x.shape[b], *limit_indices[b:]),
            (*strides[:b], 1, *strides[b:]),
        ),
    ), (b,)


# -- iota -----------------------------------------------------------------------------------------

# params: dtype; shape; dimension, along which the values count up
iota_p = Primitive("iota", constant=True)
iota_p.no_rule("transpose", "no operand")


@api_boundary
def iota(dtype: DTypeLike, size: int) -> Array:
    """The numbers 0, 1, ..., size - 1."""
    return broadcasted_iota(dtype, (size,), 0)


@api_boundary
def broadcasted_iota(dtype: DTypeLike, shape: Sequence[int], dimension: int) -> Array:
    """An array whose value at an index is the index along `dimension`."""
    new = canonical_shape("iota", tuple(shape))
    i = normalize_axis("iota", dimension, len(new))
    return iota_p.bind1(dtype=dtypes.canonical(dtype), shape=new, dimension=i)


@iota_p.def_abstract_eval
def _iota_abstract_eval(*, dtype, shape, dimension):
    if not 0 <= dimension < len(shape):
        raise AxisError(f"iota: dimension {dimension} is out of range for the shape {shape}.")
    return (ShapedArray(shape, dtype),)


@iota_p.def_batch
def _iota_batch(args, bdims, **params):
    raise AssertionError("iota has no operand, so no batch reaches it")
