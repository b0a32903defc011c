"""dot_general: the one primitive of all contractions, and its rules.

Its output has the batch dimensions first, then the free dimensions of the left operand, then those
of the right. It is linear in each operand, so the transpose contracts the cotangent with the other
operand and reorders the dimensions; the batch rule makes a batched dimension one of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.core.array_methods import Array, ArrayLike, DTypeLike
from mgefn.core.avals import ShapedArray, is_undefined
from mgefn.core.primitive import Primitive
from mgefn.errors import ArgumentError, AxisError, DTypeError, ShapeError, api_boundary
from mgefn.ops.elementwise import convert, promoted
from mgefn.ops.shaping import normalize_axis, transpose

Dims = tuple[int, ...]
DimensionNumbers = tuple[tuple[Dims, Dims], tuple[Dims, Dims]]

# -- dot_general ----------------------------------------------------------------------------------

# params: dimension_numbers, ((lhs_contract, rhs_contract), (lhs_batch, rhs_batch)), each a tuple of
# ints in [0, ndim); preferred_element_type, the output's dtype, or None for the operands'
dot_general_p = Primitive("dot_general", bilinear=True)


@api_boundary
def dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """Sum of products over contracted dimensions, for each index of the batch dimensions.

    Args:
        lhs: an array.
        rhs: an array; both are promoted to one dtype.
        dimension_numbers: ((lhs_contract, rhs_contract), (lhs_batch, rhs_batch)), sequences of
            dimensions that pair up.
        precision: taken for the sake of ported programs; sums always have full precision.
        preferred_element_type: dtype of the sums and of the result, no narrower than the operands'.
            None: the operands' dtype, with sums of float16 and bfloat16 formed in float32.
    Returns:
        Array whose dimensions are the batch dimensions, the other ones of lhs, those of rhs.
    Raises:
        ShapeError: paired dimensions differ in size.
    Example:
        >>> x = mnp.ones((2, 3, 4))
        >>> mgefn.lax.dot_general(x, x, (((2,), (2,)), ((0,), (0,)))).shape
        (2, 3, 3)
    """
    x, y = promoted("dot_general", (lhs, rhs))
    (lc, rc), (lb, rb) = dimension_numbers

    def dims(given: Iterable[Any], ndim: int) -> Dims:
        return tuple([normalize_axis("dot_general", i, ndim) for i in given])

    numbers = ((dims(lc, x.ndim), dims(rc, y.ndim)), (dims(lb, x.ndim), dims(rb, y.ndim)))
    # Evaluation does not check types, so what the user wrote is checked here.
    _dot_general_abstract_eval(
        x.aval, y.aval, dimension_numbers=numbers, preferred_element_type=None
    )
    return bind_dot_general(x, y, numbers, preferred_element_type)


def bind_dot_general(x: Any, y: Any, numbers: DimensionNumbers, preferred: DTypeLike = None) -> Any:
    """Bind the primitive to promoted operands."""
    if preferred is not None:
        preferred = dtypes.canonical(preferred)
        if preferred == x.dtype:
            preferred = None
        else:
            check_preferred("dot_general", x.dtype, preferred)
    return dot_general_p.bind1(x, y, dimension_numbers=numbers, preferred_element_type=preferred)


def _free(ndim: int, contract: Dims, batch: Dims) -> Dims:
    return tuple([i for i in range(ndim) if i not in contract and i not in batch])


@dot_general_p.def_abstract_eval
def _dot_general_abstract_eval(
    x: ShapedArray, y: ShapedArray, *, dimension_numbers, preferred_element_type
):
    (lc, rc), (lb, rb) = dimension_numbers
    for kind, left, right in (("contracted", lc, rc), ("batch", lb, rb)):
        if len(left) != len(right):
            raise ArgumentError(
                f"dot_general: {kind} dimensions must pair up, got {left} and {right}."
            )
        for i, j in zip(left, right, strict=True):
            if x.shape[i] != y.shape[j]:
                raise ShapeError(
                    f"dot_general: {kind} dimensions must agree in size, got {x.shape[i]} "
                    f"(dimension {i} of {x}) and {y.shape[j]} (dimension {j} of {y})."
                )
    for dims, aval in (((*lc, *lb), x), ((*rc, *rb), y)):
        if len(set(dims)) != len(dims):
            raise AxisError(f"dot_general: a dimension of {aval} is named twice in {dims}.")
    if x.dtype != y.dtype:
        raise DTypeError(
            f"dot_general: operands must have one dtype, got {x} and {y}. Cast one with astype."
        )
    if preferred_element_type is not None:
        check_preferred("dot_general", x.dtype, preferred_element_type)
    shape = (
        *(x.shape[i] for i in lb),
        *(x.shape[i] for i in _free(x.ndim, lc, lb)),
        *(y.shape[i] for i in _free(y.ndim, rc, rb)),
    )
    return (ShapedArray(shape, preferred_element_type or x.dtype),)


def check_preferred(name: str, dtype: np.dtype, preferred: np.dtype) -> None:
    """Refuse a preferred_element_type that is of another kind or narrower than the operands."""
    kinds = (dtypes.is_bool, dtypes.is_integer, dtypes.is_float, dtypes.is_complex)
    rank, wanted = (next(i for i, test in enumerate(kinds) if test(d)) for d in (dtype, preferred))
    # Real operands with a complex result would have tangents of the wrong dtype.
    if wanted < rank or (wanted == 3) != (rank == 3) or preferred.itemsize < dtype.itemsize:
        raise DTypeError(
            f"{name}: preferred_element_type must be of the operands' kind (integers may give "
            f"floats) and no narrower, got {dtypes.short_name(preferred)} for "
            f"{dtypes.short_name(dtype)}. Cast the result with astype."
        )


@dot_general_p.def_transpose
def _dot_general_transpose(cts, x, y, *, dimension_numbers, preferred_element_type):
    (ct,) = cts
    (lc, rc), (lb, rb) = dimension_numbers
    nb = len(lb)
    batch = tuple(range(nb))
    # The cotangent has dimensions batch, free of x, free of y. Contracted with the free dimensions
    # of the known operand it gives those of the other one, all but their order.
    if is_undefined(x):
        y = convert(y, ct.dtype)
        lf, rf = _free(x.aval.ndim, lc, lb), _free(y.ndim, rc, rb)
        ct_rf = tuple(range(nb + len(lf), ct.ndim))
        out = bind_dot_general(ct, y, ((ct_rf, rf), (batch, rb)))
        order = (*lb, *lf, *(lc[rc.index(i)] for i in sorted(rc)))
        return convert(reordered(out, order), x.aval.dtype), None
    x = convert(x, ct.dtype)
    lf, rf = _free(x.ndim, lc, lb), _free(y.aval.ndim, rc, rb)
    ct_lf = tuple(range(nb, nb + len(lf)))
    out = bind_dot_general(x, ct, ((lf, ct_lf), (lb, batch)))
    order = (*rb, *(rc[lc.index(i)] for i in sorted(lc)), *rf)
    return None, convert(reordered(out, order), y.aval.dtype)


def reordered(x: Any, order: Sequence[int]) -> Any:
    """Dimension i of x moved to order[i]."""
    inverse = [0] * len(order)
    for i, d in enumerate(order):
        inverse[d] = i
    return transpose(x, inverse)


@dot_general_p.def_batch
def _dot_general_batch(args, bdims, *, dimension_numbers, preferred_element_type):
    (x, y), (x_bdim, y_bdim) = args, bdims
    (lc, rc), (lb, rb) = dimension_numbers

    def over(dims: Dims, bdim: int) -> Dims:
        return tuple([i + (i >= bdim) for i in dims])  # step over the batch dim

    out_bdim = 0
    if x_bdim is not None:
        lc, lb = over(lc, x_bdim), over(lb, x_bdim)
    if y_bdim is not None:
        rc, rb = over(rc, y_bdim), over(rb, y_bdim)
    if x_bdim is not None and y_bdim is not None:
        lb, rb = (x_bdim, *lb), (y_bdim, *rb)
    elif x_bdim is not None:
        # One more free dimension of its operand.
        out_bdim = len(lb) + _free(x.ndim, lc, lb).index(x_bdim)
    else:
        n_left = x.ndim - len(lc)  # batch and free dimensions
        out_bdim = n_left + _free(y.ndim, rc, rb).index(y_bdim)
    outs = dot_general_p.bind(
        x,
        y,
        dimension_numbers=((lc, rc), (lb, rb)),
        preferred_element_type=preferred_element_type,
    )
    return outs, (out_bdim,)
