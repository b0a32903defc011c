"""Contractions: sums of products over shared dimensions. `dot_general_p` is all of them.

Its output has the batch dimensions first, then the free dimensions of the left operand, then those
of the right. matmul, tensordot, einsum and their kin choose the dimensions and reorder the result.
Elementwise products without a sum are multiplications, which the compiler fuses.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.core.array import ConcreteArray, as_array
from mgefn.core.array_methods import METHODS, Array, ArrayLike, DTypeLike, method
from mgefn.core.avals import ShapedArray, is_undefined
from mgefn.core.interpreter import state
from mgefn.core.primitive import Primitive
from mgefn.errors import ArgumentError, AxisError, DTypeError, ShapeError, api_boundary, leave_api
from mgefn.ops.elementwise import conj, convert, multiply, promoted
from mgefn.ops.shaping import (
    broadcast_in_dim,
    broadcast_to_shape,
    concatenate_p,
    expand_dims,
    moveaxis,
    normalize_axis,
    ravel,
    reshape,
    result_shape,
    slice_in_dim,
    squeeze,
    strided_slice,
    transpose,
)

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
    return _dot_general(x, y, numbers, preferred_element_type)


def _dot_general(x: Any, y: Any, numbers: DimensionNumbers, preferred: DTypeLike = None) -> Any:
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
        out = _dot_general(ct, y, ((ct_rf, rf), (batch, rb)))
        order = (*lb, *lf, *(lc[rc.index(i)] for i in sorted(rc)))
        return convert(_reordered(out, order), x.aval.dtype), None
    x = convert(x, ct.dtype)
    lf, rf = _free(x.ndim, lc, lb), _free(y.aval.ndim, rc, rb)
    ct_lf = tuple(range(nb, nb + len(lf)))
    out = _dot_general(x, ct, ((lf, ct_lf), (lb, batch)))
    order = (*rb, *(rc[lc.index(i)] for i in sorted(lc)), *rf)
    return None, convert(_reordered(out, order), y.aval.dtype)


def _reordered(x: Any, order: Sequence[int]) -> Any:
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


# -- products of vectors and matrices -------------------------------------------------------------

# Eager products of these dtypes go straight to NumPy.
_DIRECT = frozenset(map(np.dtype, ("float32", "float64", "complex64", "complex128")))


@method("matmul")
def matmul(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """Matrix product x1 @ x2, as numpy.matmul gives it; leading dimensions broadcast.

    Derivatives: ct @ x2.T for x1 and x1.T @ ct for x2.

    Args:
        x1: shape (..., m, k) or (k,).
        x2: shape (..., k, n) or (k,); both are promoted to one dtype. For bool, "or" of "and".
        precision: taken for the sake of ported programs; sums always have full precision.
        preferred_element_type: dtype of the sums and of the result; see `lax.dot_general`.
    Returns:
        Array of shape (..., m, n), without m or n where an operand has rank 1. Where k = 0 it is 0.
    Raises:
        ShapeError: the sizes k differ, an operand has rank 0, or leading dimensions do not
            broadcast.
    Example:
        >>> mnp.array([[1.0, 2.0], [3.0, 4.0]]) @ mnp.array([1.0, -1.0])
        Array([-1., -1.], dtype=float32)
    """
    try:
        if (
            state.current is None
            and x1.__class__ is ConcreteArray
            and x2.__class__ is ConcreteArray
            and preferred_element_type is None
        ):
            a, b = x1._data, x2._data
            if a.dtype is b.dtype and a.dtype in _DIRECT:
                try:
                    if a.ndim <= 2 or b.ndim > 2:
                        out = state.quiet(np.matmul, a, b)
                    else:
                        # A stack of matrices times one matrix is one large product.
                        rows = a.reshape(-1, a.shape[-1])
                        out = state.quiet(np.matmul, rows, b).reshape(a.shape[:-1] + b.shape[1:])
                except (RuntimeError, ValueError):
                    pass  # a context entered twice, or shapes that do not fit: the slow way tells
                else:
                    if out.__class__ is not np.ndarray:
                        out = np.asarray(out)
                    return ConcreteArray(out, x1._weak and x2._weak)
        return _matmul("matmul", x1, x2, preferred_element_type)
    except BaseException as e:
        leave_api(e)
        raise


def _matmul(name: str, x1: ArrayLike, x2: ArrayLike, preferred: DTypeLike = None) -> Any:
    a, b = promoted(name, (x1, x2))
    has_m, has_n = a.ndim > 1, b.ndim > 1
    if not a.ndim or not b.ndim:
        raise ShapeError(
            f"{name}: operands must have rank 1 or more, got x {a.aval} and y {b.aval}. Use * for "
            "numbers."
        )
    k_axis = b.ndim - 2 if b.ndim > 1 else 0
    if a.shape[-1] != b.shape[k_axis]:
        raise ShapeError(
            f"{name}: x.shape[-1] must equal y.shape[{-2 if b.ndim > 1 else -1}], got x {a.aval} "
            f"and y {b.aval}. Transpose one of them?"
        )
    if a.ndim <= 2 and b.ndim <= 2:
        return _dot_general(a, b, (((a.ndim - 1,), (0,)), ((), ())), preferred)
    lead_a, lead_b = a.shape[:-2], b.shape[:-2]
    result_shape(name, (lead_a, lead_b), (a.aval, b.aval))
    # Leading dimensions of both are batch dimensions; those of one alone are free ones of it.
    n = max(len(lead_a), len(lead_b))
    lb, rb, a_alone, b_alone = [], [], [], []
    a_dropped, b_dropped = [], []
    for place in range(n):
        i, j = place - n + len(lead_a), place - n + len(lead_b)
        if i < 0:
            b_alone.append((place, j))
        elif j < 0:
            a_alone.append((place, i))
        elif lead_a[i] == lead_b[j]:
            lb.append((place, i))
            rb.append(j)
        elif lead_a[i] == 1:
            a_dropped.append(i)
            b_alone.append((place, j))
        else:
            b_dropped.append(j)
            a_alone.append((place, i))
    if a_dropped:
        a = squeeze(a, tuple(a_dropped))
    if b_dropped:
        b = squeeze(b, tuple(b_dropped))

    def kept(i: int, dropped: list[int]) -> int:
        return i - sum(d < i for d in dropped)

    batch = (
        tuple([kept(i, a_dropped) for _, i in lb]),
        tuple([kept(j, b_dropped) for j in rb]),
    )
    contract = ((a.ndim - 1,), (max(b.ndim - 2, 0),))
    out = _dot_general(a, b, (contract, batch), preferred)
    # Where each dimension of the product belongs.
    order = [place for place, _ in lb] + [place for place, _ in a_alone]
    if has_m:
        order.append(n)
    order += [place for place, _ in b_alone]
    if has_n:
        order.append(n + has_m)
    return _reordered(out, order)


@method("dot")
def dot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """Sum of products over the last axis of a and the second to last of b, as numpy.dot gives it.

    Args:
        a: shape (..., k), or a number.
        b: shape (..., k, n) or (k,), or a number; a number multiplies the other operand.
        precision: taken for the sake of ported programs; sums always have full precision.
        preferred_element_type: dtype of the sums and of the result; see `lax.dot_general`.
    Returns:
        Array of shape a.shape[:-1] + b.shape without k. `matmul` broadcasts instead of combining
        all leading dimensions.
    Raises:
        ShapeError: the sizes k differ.
    """
    try:
        if (
            state.current is None
            and a.__class__ is ConcreteArray
            and b.__class__ is ConcreteArray
            and preferred_element_type is None
        ):
            x, y = a._data, b._data
            if x.dtype is y.dtype and x.dtype in _DIRECT and 0 < x.ndim <= 2 and 0 < y.ndim <= 2:
                try:
                    out = state.quiet(np.matmul, x, y)
                except (RuntimeError, ValueError):
                    pass  # a context entered twice, or shapes that do not fit: the slow way tells
                else:
                    if out.__class__ is not np.ndarray:
                        out = np.asarray(out)
                    return ConcreteArray(out, a._weak and b._weak)
        x, y = promoted("dot", (a, b))
        if not x.ndim or not y.ndim:
            return _product("dot", x, y, preferred_element_type)
        k_axis = y.ndim - 2 if y.ndim > 1 else 0
        if x.shape[-1] != y.shape[k_axis]:
            raise ShapeError(
                f"dot: a.shape[-1] must equal b.shape[{-2 if y.ndim > 1 else -1}], got a {x.aval} "
                f"and b {y.aval}. Transpose one of them?"
            )
        return _dot_general(x, y, (((x.ndim - 1,), (k_axis,)), ((), ())), preferred_element_type)
    except BaseException as e:
        leave_api(e)
        raise


def _product(name: str, x: Any, y: Any, preferred: DTypeLike) -> Any:
    """x * y, in the preferred dtype."""
    if preferred is not None:
        dtype = dtypes.canonical(preferred)
        check_preferred(name, x.dtype, dtype)
        x, y = convert(x, dtype), convert(y, dtype)
    return multiply(x, y)


@api_boundary
def vdot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """Sum of conj(a) * b over all elements, as numpy.vdot gives it; operands are flattened."""
    x, y = promoted("vdot", (a, b))
    if x.size != y.size:
        raise ShapeError(f"vdot: operands must have equal sizes, got {x.aval} and {y.aval}.")
    return _dot_general(conj(ravel(x)), ravel(y), (((0,), (0,)), ((), ())), preferred_element_type)


@method("vecdot")
@api_boundary
def vecdot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    *,
    axis: int = -1,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """Sum of conj(x1) * x2 over an axis, as numpy.vecdot gives it; other dimensions broadcast."""
    a, b = promoted("vecdot", (x1, x2))
    a = moveaxis(a, normalize_axis("vecdot", axis, a.ndim), -1)
    b = moveaxis(b, normalize_axis("vecdot", axis, b.ndim), -1)
    if a.shape[-1] != b.shape[-1]:
        raise ShapeError(f"vecdot: operands must agree along the axis, got {a.aval} and {b.aval}.")
    rows, columns = expand_dims(conj(a), -2), expand_dims(b, -1)
    return squeeze(_matmul("vecdot", rows, columns, preferred_element_type), (-2, -1))


@method("matvec")
@api_boundary
def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Matrices (..., m, n) times vectors (..., n), as numpy.matvec gives it."""
    a, b = promoted("matvec", (x1, x2))
    if a.ndim < 2 or not b.ndim or a.shape[-1] != b.shape[-1]:
        raise ShapeError(
            f"matvec: needs shapes (..., m, n) and (..., n), got {a.aval} and {b.aval}."
        )
    if b.ndim == 1:
        return matmul(a, b)
    return squeeze(_matmul("matvec", a, expand_dims(b, -1)), -1)


@method("vecmat")
@api_boundary
def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Conjugated vectors (..., n) times matrices (..., n, m), as numpy.vecmat gives it."""
    a, b = promoted("vecmat", (x1, x2))
    if b.ndim < 2 or not a.ndim or a.shape[-1] != b.shape[-2]:
        raise ShapeError(
            f"vecmat: needs shapes (..., n) and (..., n, m), got {a.aval} and {b.aval}."
        )
    return squeeze(_matmul("vecmat", expand_dims(conj(a), -2), b), -2)


@api_boundary
def inner(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """Sum of products over the last axes, as numpy.inner gives it; nothing is conjugated."""
    x, y = promoted("inner", (a, b))
    if not x.ndim or not y.ndim:
        return _product("inner", x, y, preferred_element_type)
    if x.shape[-1] != y.shape[-1]:
        raise ShapeError(f"inner: last dimensions must agree, got {x.aval} and {y.aval}.")
    numbers = (((x.ndim - 1,), (y.ndim - 1,)), ((), ()))
    return _dot_general(x, y, numbers, preferred_element_type)


@api_boundary
def outer(a: ArrayLike, b: ArrayLike, out: None = None) -> Array:
    """Products of all pairs of elements, as numpy.outer gives them: shape (a.size, b.size)."""
    if out is not None:
        raise ArgumentError("outer: arrays are immutable, so out must be None. Use the result.")
    x, y = promoted("outer", (a, b))
    return multiply(reshape(x, (x.size, 1)), reshape(y, (1, y.size)))


@api_boundary
def tensordot(
    a: ArrayLike,
    b: ArrayLike,
    axes: Any = 2,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """Sum of products over pairs of axes, as numpy.tensordot gives it.

    Args:
        a: an array.
        b: an array.
        axes: a number n, for the last n axes of a with the first n of b in order, or a pair
            (axes of a, axes of b), each an int or a sequence of ints.
        precision: taken for the sake of ported programs; sums always have full precision.
        preferred_element_type: dtype of the sums and of the result; see `lax.dot_general`.
    Returns:
        Array with the other axes of a, then those of b.
    Raises:
        ShapeError: paired axes differ in size.
    """
    x, y = promoted("tensordot", (a, b))
    if isinstance(axes, (tuple, list)) or (hasattr(axes, "__len__") and np.ndim(axes)):
        if len(axes) != 2:
            raise ArgumentError(f"tensordot: axes must be an int or a pair of axes, got {axes!r}.")
        left, right = (
            tuple(s) if isinstance(s, (tuple, list)) or np.ndim(s) else (s,) for s in axes
        )
    else:
        n = operator.index(axes)
        if not 0 <= n <= min(x.ndim, y.ndim):
            raise ArgumentError(
                f"tensordot: axes must be in [0, {min(x.ndim, y.ndim)}] for {x.aval} and {y.aval}, "
                f"got {n}."
            )
        left, right = tuple(range(x.ndim - n, x.ndim)), tuple(range(n))
    if len(left) != len(right):
        raise ArgumentError(f"tensordot: axes must pair up, got {left} and {right}.")
    lc = tuple([normalize_axis("tensordot", i, x.ndim) for i in left])
    rc = tuple([normalize_axis("tensordot", i, y.ndim) for i in right])
    if any(x.shape[i] != y.shape[j] for i, j in zip(lc, rc, strict=True)):
        raise ShapeError(
            f"tensordot: paired axes must agree in size, got {left} of {x.aval} and {right} of "
            f"{y.aval}. Correct axes, or transpose one of them."
        )
    return _dot_general(x, y, ((lc, rc), ((), ())), preferred_element_type)


@api_boundary
def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """Kronecker product, as numpy.kron gives it: blocks of b scaled by the elements of a."""
    x, y = promoted("kron", (a, b))
    n = max(x.ndim, y.ndim)
    x_shape = (1,) * (n - x.ndim) + x.shape
    y_shape = (1,) * (n - y.ndim) + y.shape
    x = reshape(x, tuple(s for d in x_shape for s in (d, 1)))
    y = reshape(y, tuple(s for d in y_shape for s in (1, d)))
    shape = tuple(p * q for p, q in zip(x_shape, y_shape, strict=True))
    return reshape(multiply(x, y), shape)


@api_boundary
def cross(
    a: ArrayLike,
    b: ArrayLike,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> Array:
    """Vector product along an axis of size 3 (or 2, the third component being 0).

    As numpy.cross gives it. Two operands of size 2 give the third component alone.

    Args:
        a: vectors along `axisa`.
        b: vectors along `axisb`; the other dimensions broadcast.
        axisa: see a.
        axisb: see b.
        axisc: where the result has its vectors.
        axis: overrides the other three.
    Raises:
        ShapeError: the axes have other sizes.
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = promoted("cross", (a, b))
    x = moveaxis(x, normalize_axis("cross", axisa, x.ndim), -1)
    y = moveaxis(y, normalize_axis("cross", axisb, y.ndim), -1)
    if x.shape[-1] not in (2, 3) or y.shape[-1] not in (2, 3):
        raise ShapeError(f"cross: vectors must have 2 or 3 components, got {x.aval} and {y.aval}.")
    if x.shape[-1] == y.shape[-1] == 2:
        x0, x1 = _component(x, 0), _component(x, 1)
        return x0 * _component(y, 1) - x1 * _component(y, 0)
    x, y = _with_third(x), _with_third(y)
    out = _rolled(x, 1) * _rolled(y, 2) - _rolled(x, 2) * _rolled(y, 1)
    return moveaxis(out, -1, normalize_axis("cross", axisc, out.ndim))


def _component(x: Any, i: int) -> Any:
    return squeeze(slice_in_dim(x, i, i + 1, axis=-1), -1)


def _with_third(x: Any) -> Any:
    if x.shape[-1] == 3:
        return x
    zero = broadcast_in_dim(convert(as_array(0), x.dtype), (*x.shape[:-1], 1), ())
    return concatenate_p.bind1(x, zero, dimension=x.ndim - 1)


def _rolled(x: Any, by: int) -> Any:
    """Component i becomes component i + by, cyclically."""
    ends = slice_in_dim(x, by, None, axis=-1), slice_in_dim(x, 0, by, axis=-1)
    return concatenate_p.bind1(*ends, dimension=x.ndim - 1)


# -- lax ------------------------------------------------------------------------------------------


@api_boundary
def lax_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
    *,
    dimension_numbers: Any = None,
) -> Array:
    """Vector and matrix products of operands of rank 1 or 2, or any product by dimension_numbers.

    Raises:
        ShapeError: an operand has another rank, or the contracted sizes differ.
    """
    x, y = promoted("dot", (lhs, rhs))
    if dimension_numbers is not None:
        return dot_general(x, y, dimension_numbers, None, preferred_element_type)
    if not (1 <= x.ndim <= 2 and 1 <= y.ndim <= 2):
        raise ShapeError(
            f"dot: operands must have rank 1 or 2, got {x.aval} and {y.aval}. Use numpy.matmul, or "
            "pass dimension_numbers."
        )
    return dot(x, y, preferred_element_type=preferred_element_type)


@api_boundary
def batch_matmul(lhs: ArrayLike, rhs: ArrayLike, precision: Any = None) -> Array:
    """Products of stacks of matrices whose leading dimensions are equal.

    Raises:
        ShapeError: a rank is below 2, the leading dimensions differ, or the contracted sizes do.
    """
    x, y = promoted("batch_matmul", (lhs, rhs))
    if x.ndim < 2 or x.shape[:-2] != y.shape[:-2]:
        raise ShapeError(
            "batch_matmul: operands must have rank 2 or more and equal leading dimensions, got "
            f"{x.aval} and {y.aval}. Use numpy.matmul to broadcast."
        )
    return _matmul("batch_matmul", x, y)


# -- einsum ---------------------------------------------------------------------------------------

# A label of a dimension: a letter, or a negative int for a dimension under an ellipsis, counted
# from the right.
Label = str | int


@api_boundary
def einsum(
    subscripts: Any,
    /,
    *operands: Any,
    out: None = None,
    optimize: Any = "auto",
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
) -> Array:
    """Sums of products named by index letters, as numpy.einsum gives them.

    Letters that are missing in the output are summed over; a letter twice in one operand takes its
    diagonal. Three operands or more are contracted in pairs, in an order that opt_einsum finds.

    Args:
        subscripts: such as "ij,jk->ik"; without "->" the output has the letters that occur once, in
            alphabetical order. "..." stands for dimensions that broadcast. Or the interleaved form:
            einsum(x, [0, 1], y, [1, 2], [0, 2]).
        operands: one array for each term; all are promoted to one dtype.
        out: must be None.
        optimize: how to find the order: "auto", "optimal", "greedy" and the like, True for "auto",
            False for left to right, or a path such as [(0, 1), (0, 1)].
        precision: taken for the sake of ported programs; sums always have full precision.
        preferred_element_type: dtype of the sums and of the result; see `lax.dot_general`.
    Raises:
        ShapeError: a letter has two sizes, or a term has not as many letters as its operand
            dimensions. ArgumentError: subscripts are malformed.
    Example:
        >>> mnp.einsum("ii->", mnp.array([[1.0, 2.0], [3.0, 4.0]]))
        Array(5., dtype=float32)
    """
    if out is not None:
        raise ArgumentError("einsum: arrays are immutable, so out must be None. Use the result.")
    if not isinstance(subscripts, str):
        subscripts, operands = _interleaved((subscripts, *operands))
    if not operands:
        raise ArgumentError("einsum: needs at least one operand, got none.")
    arrays = promoted("einsum", operands)
    dtype = None
    if preferred_element_type is not None:
        dtype = dtypes.canonical(preferred_element_type)
        check_preferred("einsum", arrays[0].dtype, dtype)
        if len(arrays) != 2:
            arrays = [convert(x, dtype) for x in arrays]
    if isinstance(optimize, list):
        optimize = tuple(tuple(p) if isinstance(p, (list, tuple)) else p for p in optimize)
    terms, output, path = _einsum_plan(
        subscripts, tuple([tuple(x.shape) for x in arrays]), optimize
    )
    sizes = _label_sizes(subscripts, terms, [x.shape for x in arrays])
    pending = [_simplified(x, term, sizes) for x, term in zip(arrays, terms, strict=True)]
    for step in path:
        chosen = [pending[i] for i in step]
        pending = [p for i, p in enumerate(pending) if i not in step]
        x, labels = chosen[0]
        for i, (y, y_labels) in enumerate(chosen[1:]):
            kept = set(output).union(*(p[1] for p in (*pending, *chosen[i + 2 :])))
            last = not pending and i == len(chosen) - 2
            x, labels = _contracted(
                x, labels, y, y_labels, kept, output if last else None, preferred_element_type
            )
        if len(chosen) == 1:
            kept = set(output).union(*(p[1] for p in pending))
            x, labels = _summed(x, labels, kept)
        pending.append((x, labels))
    ((x, labels),) = pending
    x, labels = _summed(x, labels, set(output))
    x = transpose(x, [labels.index(i) for i in output if i in labels])
    # What is left are output labels that only dimensions of size 1 had.
    shape = tuple(sizes[i] for i in output)
    x = x if x.shape == shape else reshape(x, shape)
    return x if dtype is None else convert(x, dtype)


def _interleaved(args: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    """Subscripts and operands of einsum(x, [0, 1], y, [1, 2], [0, 2])."""
    n = len(args) // 2
    operands = tuple(args[0 : 2 * n : 2])
    lists = [*args[1 : 2 * n : 2], *([args[-1]] if len(args) % 2 else [])]
    try:
        names = sorted({operator.index(i) for term in lists for i in term if i is not Ellipsis})
    except TypeError:
        raise ArgumentError(
            "einsum: the interleaved form needs a list of ints after each operand. Write "
            "einsum(x, [0, 1], y, [1, 2], [0, 2])."
        ) from None
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    if len(names) > len(letters):
        raise ArgumentError(f"einsum: takes up to {len(letters)} indices, got {len(names)}.")
    letter = {i: letters[k] for k, i in enumerate(names)}
    texts = [
        "".join("..." if i is Ellipsis else letter[operator.index(i)] for i in term)
        for term in lists
    ]
    subscripts = ",".join(texts[:n])
    return subscripts + (f"->{texts[n]}" if len(args) % 2 else ""), operands


@functools.lru_cache(maxsize=1024)
def _einsum_plan(
    subscripts: str, shapes: tuple[tuple[int, ...], ...], optimize: Any
) -> tuple[tuple[tuple[Label, ...], ...], tuple[Label, ...], tuple[tuple[int, ...], ...]]:
    """Labels of the operands, those of the output, and the order of contraction."""
    text = subscripts.replace(" ", "")
    inputs, arrow, result = text.partition("->")
    texts = inputs.split(",")
    if len(texts) != len(shapes):
        raise ArgumentError(
            f"einsum: {subscripts!r} has {len(texts)} terms for {len(shapes)} operands."
        )
    terms: list[tuple[Label, ...]] = []
    dots = 0
    for term, shape in zip(texts, shapes, strict=True):
        n = _named(subscripts, term)
        hidden = len(shape) - n
        if hidden < 0 or (hidden > 0 and "..." not in term):
            raise ShapeError(
                f"einsum: the term {term!r} of {subscripts!r} must name the dimensions of its "
                f"operand, got shape {shape}. Add or drop letters, or write '...'."
            )
        dots = max(dots, hidden)
        terms.append(_labels(term, hidden))
    if arrow:
        _named(subscripts, result)
        if dots and "..." not in result:
            raise ArgumentError(
                f"einsum: the output of {subscripts!r} must have '...', as the operands do. To sum "
                "over these dimensions, name them."
            )
        output = _labels(result, dots)
        used = {i for t in terms for i in t}
        if len(set(output)) != len(output) or not used.issuperset(
            i for i in output if isinstance(i, str)
        ):
            raise ArgumentError(
                f"einsum: each letter of the output of {subscripts!r} must occur there once and in "
                "an operand. Sums over other letters are taken by leaving them out."
            )
    else:
        every = [i for t in terms for i in t]
        once = sorted(i for i in set(every) if isinstance(i, str) and every.count(i) == 1)
        output = (*range(-dots, 0), *once)
    return tuple(terms), output, _einsum_path(subscripts, terms, output, shapes, optimize)


def _named(subscripts: str, term: str) -> int:
    """The number of letters in a term, which is checked."""
    letters = term.replace("...", "", 1)
    if not all(c.isalpha() for c in letters):
        raise ArgumentError(
            f"einsum: subscripts are letters, ',', '->' and one '...' a term, got {subscripts!r}."
        )
    return len(letters)


def _labels(term: str, hidden: int) -> tuple[Label, ...]:
    before, dots, after = term.partition("...")
    return (*before, *(range(-hidden, 0) if dots else ()), *after)


def _label_sizes(
    subscripts: str, terms: Sequence[Sequence[Label]], shapes: Sequence[Sequence[int]]
) -> dict[Label, int]:
    """The size of each label; 1 gives way to others."""
    sizes: dict[Label, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for label, n in zip(term, shape, strict=True):
            before = sizes.setdefault(label, n)
            if before == 1:
                sizes[label] = n
            elif n not in (1, before):
                name = f"the letter {label!r}" if isinstance(label, str) else "a dimension of '...'"
                raise ShapeError(
                    f"einsum: {name} of {subscripts!r} must have one size, got {before} and {n}, "
                    f"operands of shapes {', '.join(str(tuple(s)) for s in shapes)}. Transpose one "
                    "of them, or correct the letters."
                )
    return sizes


def _einsum_path(
    subscripts: str,
    terms: Sequence[tuple[Label, ...]],
    output: Sequence[Label],
    shapes: Sequence[tuple[int, ...]],
    optimize: Any,
) -> tuple[tuple[int, ...], ...]:
    n = len(terms)
    if isinstance(optimize, tuple):
        path = tuple(tuple(p) for p in optimize if not isinstance(p, str))
        left = n
        for step in path:
            if not step or len(set(step)) != len(step) or not all(0 <= i < left for i in step):
                raise ArgumentError(f"einsum: the path {optimize} does not fit {n} operands.")
            left += 1 - len(step)
        # What a path leaves over is contracted in one go.
        return path if left == 1 else (*path, tuple(range(left)))
    if n <= 2:
        return (tuple(range(n)),)
    if optimize is False:
        return ((0, 1), *((0, n - 2 - i) for i in range(n - 2)))
    import opt_einsum  # here, because only products of three or more operands need it

    sizes = _label_sizes(subscripts, terms, shapes)
    symbol = {label: opt_einsum.get_symbol(i) for i, label in enumerate(sizes)}
    # Each label once a term and none that broadcasts, as the operands will be when contracted.
    texts, views = [], []
    for term, shape in zip(terms, shapes, strict=True):
        kept = {a: k for a, k in zip(term, shape, strict=True) if k == sizes[a]}
        texts.append("".join(symbol[a] for a in kept))
        views.append(tuple(kept.values()))
    present = {a for t in texts for a in t}
    result = "".join(symbol[a] for a in output if symbol[a] in present)
    path, _ = opt_einsum.contract_path(
        f"{','.join(texts)}->{result}",
        *views,
        shapes=True,
        optimize="auto" if optimize is True else optimize,
    )
    return tuple(tuple(sorted(step)) for step in path)


def _simplified(x: Any, term: Sequence[Label], sizes: dict[Label, int]) -> tuple[Any, list[Label]]:
    """An operand without dimensions that broadcast, and with each label once."""
    single = tuple(i for i, a in enumerate(term) if x.shape[i] == 1 and sizes[a] != 1)
    if single:
        x = squeeze(x, single)
    labels = [a for i, a in enumerate(term) if i not in single]
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            x = _diagonal(x, i, j)
            del labels[j], labels[i]
            labels.append(label)
    return x, labels


def _diagonal(x: Any, i: int, j: int) -> Any:
    """The elements at equal indices of two dimensions, along a new last one."""
    n = x.shape[i]
    x = moveaxis(x, (i, j), (-2, -1))
    lead = x.shape[:-2]
    # In the flattened square they lie n + 1 apart.
    x = reshape(x, (*lead, n * n))
    zeros = (0,) * len(lead)
    return strided_slice(x, (*zeros, 0), x.shape, (*(1,) * len(lead), n + 1))


def _summed(x: Any, labels: list[Label], kept: set[Label]) -> tuple[Any, list[Label]]:
    """An operand summed over the labels that nobody asks for."""
    axes = tuple(i for i, a in enumerate(labels) if a not in kept)
    if not axes:
        return x, labels
    if dtypes.is_bool(x.dtype):
        x = METHODS["any"](x, axes)
    else:
        x = METHODS["sum"](x, axes, dtype=x.dtype)
    return x, [a for a in labels if a in kept]


def _contracted(
    x: Any,
    x_labels: list[Label],
    y: Any,
    y_labels: list[Label],
    kept: set[Label],
    output: Sequence[Label] | None,
    preferred: DTypeLike,
) -> tuple[Any, list[Label]]:
    """The product of two operands, summed over their labels that are not kept.

    `output` is the wanted order of labels where this is the last product.
    """
    x, x_labels = _summed(x, x_labels, kept.union(y_labels))
    y, y_labels = _summed(y, y_labels, kept.union(x_labels))
    if x.dtype != y.dtype:
        # An earlier product has the preferred dtype already.
        wide = dtypes.promote_types(x.dtype, y.dtype)
        x, y = convert(x, wide), convert(y, wide)
    shared = [a for a in x_labels if a in y_labels]
    batch = [a for a in shared if a in kept]
    if output is not None:
        batch.sort(key=list(output).index)
    contract = [a for a in shared if a not in kept]
    x_free = [a for a in x_labels if a not in shared]
    y_free = [a for a in y_labels if a not in shared]
    if not contract:
        labels = [*batch, *x_free, *y_free]
        if output is not None:
            labels.sort(key=list(output).index)
        return _outer(x, x_labels, y, y_labels, labels, preferred), labels
    if output is not None and [*batch, *y_free, *x_free] == [a for a in output if a in kept]:
        x, x_labels, x_free, y, y_labels, y_free = y, y_labels, y_free, x, x_labels, x_free
    numbers = (
        (
            tuple([x_labels.index(a) for a in contract]),
            tuple([y_labels.index(a) for a in contract]),
        ),
        (tuple([x_labels.index(a) for a in batch]), tuple([y_labels.index(a) for a in batch])),
    )
    if preferred is not None and dtypes.canonical(preferred).itemsize < x.dtype.itemsize:
        preferred = None
    return _dot_general(x, y, numbers, preferred), [*batch, *x_free, *y_free]


def _outer(
    x: Any,
    x_labels: list[Label],
    y: Any,
    y_labels: list[Label],
    labels: list[Label],
    preferred: DTypeLike,
) -> Any:
    """A product without a sum."""

    def placed(a: Any, a_labels: list[Label]) -> Any:
        order = [i for i in labels if i in a_labels]
        a = transpose(a, [a_labels.index(i) for i in order])
        sizes = dict(zip(order, a.shape, strict=True))
        return reshape(a, tuple(sizes.get(i, 1) for i in labels))

    a, b = placed(x, x_labels), placed(y, y_labels)
    shape = tuple(max(p, q) if p and q else 0 for p, q in zip(a.shape, b.shape, strict=True))
    if a.shape and a.shape != shape:
        a = broadcast_to_shape(a, shape)
    if b.shape and b.shape != shape:
        b = broadcast_to_shape(b, shape)
    return _product("einsum", a, b, preferred)


@api_boundary
def einsum_path(subscripts: Any, /, *operands: Any, optimize: Any = "auto") -> tuple[list, Any]:
    """The order in which einsum would contract, and a description, as numpy.einsum_path."""
    import opt_einsum  # here, because few programs need it

    if not isinstance(subscripts, str):
        subscripts, operands = _interleaved((subscripts, *operands))
    shapes = [as_array(x, "einsum_path").shape for x in operands]
    path, info = opt_einsum.contract_path(
        subscripts, *shapes, shapes=True, optimize="auto" if optimize is True else optimize
    )
    return ["einsum_path", *path], info
