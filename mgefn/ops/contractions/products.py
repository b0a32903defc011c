"""Products of vectors, matrices and stacks of them, in the terms of numpy and of jax.lax.

Each chooses the contracted and the batch dimensions for `dot_general_p` and reorders the result.
Eager products of NumPy's own dtypes go straight to NumPy.
"""

from __future__ import annotations

import operator
from typing import Any, Never

import numpy as np

from mgefn import dtypes
from mgefn.core.array import ConcreteArray, as_array
from mgefn.core.array_methods import Array, ArrayLike, DTypeLike, method
from mgefn.core.interpreter import state
from mgefn.errors import (
    ArgumentError,
    ShapeError,
    api_boundary,
    leave_api,
    no_such_keyword,
    tells_keywords,
)
from mgefn.ops.contractions.dot_general import (
    bind_dot_general,
    check_preferred,
    dot_general,
    reordered,
)
from mgefn.ops.elementwise import conj, convert, multiply, promoted
from mgefn.ops.shaping import (
    broadcast_in_dim,
    concatenate_p,
    expand_dims,
    moveaxis,
    normalize_axis,
    ravel,
    reshape,
    result_shape,
    slice_in_dim,
    squeeze,
)

# Eager products of these dtypes go straight to NumPy.
_DIRECT = frozenset(map(np.dtype, ("float32", "float64", "complex64", "complex128")))


@method("matmul")
@tells_keywords
def matmul(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
    **unknown: Never,
) -> Array:
    """Matrix product a @ b, as numpy.matmul gives it; leading dimensions broadcast.

    Derivatives: ct @ b.T for a and a.T @ ct for b.

    Args:
        a: shape (..., m, k) or (k,).
        b: shape (..., k, n) or (k,); both are promoted to one dtype. For bool, "or" of "and".
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
        if unknown:
            raise no_such_keyword(matmul, unknown)
        if (
            state.current is None
            and a.__class__ is ConcreteArray
            and b.__class__ is ConcreteArray
            and preferred_element_type is None
        ):
            x, y = a._data, b._data
            if x.dtype is y.dtype and x.dtype in _DIRECT:
                try:
                    if x.ndim <= 2 or y.ndim > 2:
                        out = state.quiet(np.matmul, x, y)
                    else:
                        # A stack of matrices times one matrix is one large product.
                        rows = x.reshape(-1, x.shape[-1])
                        out = state.quiet(np.matmul, rows, y).reshape(x.shape[:-1] + y.shape[1:])
                except (RuntimeError, ValueError):
                    pass  # a context entered twice, or shapes that do not fit: the slow way tells
                else:
                    if out.__class__ is not np.ndarray:
                        out = np.asarray(out)
                    return ConcreteArray(out, a._weak and b._weak)
        return _matmul("matmul", a, b, preferred_element_type)
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
        return bind_dot_general(a, b, (((a.ndim - 1,), (0,)), ((), ())), preferred)
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
    out = bind_dot_general(a, b, (contract, batch), preferred)
    # Where each dimension of the product belongs.
    order = [place for place, _ in lb] + [place for place, _ in a_alone]
    if has_m:
        order.append(n)
    order += [place for place, _ in b_alone]
    if has_n:
        order.append(n + has_m)
    return reordered(out, order)


@method("dot")
@tells_keywords
def dot(
    a: ArrayLike,
    b: ArrayLike,
    *,
    precision: Any = None,
    preferred_element_type: DTypeLike = None,
    **unknown: Never,
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
        if unknown:
            raise no_such_keyword(dot, unknown)
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
            return product("dot", x, y, preferred_element_type)
        k_axis = y.ndim - 2 if y.ndim > 1 else 0
        if x.shape[-1] != y.shape[k_axis]:
            raise ShapeError(
                f"dot: a.shape[-1] must equal b.shape[{-2 if y.ndim > 1 else -1}], got a {x.aval} "
                f"and b {y.aval}. Transpose one of them?"
            )
        return bind_dot_general(
            x, y, (((x.ndim - 1,), (k_axis,)), ((), ())), preferred_element_type
        )
    except BaseException as e:
        leave_api(e)
        raise


def product(name: str, x: Any, y: Any, preferred: DTypeLike) -> Any:
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
    return bind_dot_general(
        conj(ravel(x)), ravel(y), (((0,), (0,)), ((), ())), preferred_element_type
    )


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
        return product("inner", x, y, preferred_element_type)
    if x.shape[-1] != y.shape[-1]:
        raise ShapeError(f"inner: last dimensions must agree, got {x.aval} and {y.aval}.")
    numbers = (((x.ndim - 1,), (y.ndim - 1,)), ((), ()))
    return bind_dot_general(x, y, numbers, preferred_element_type)


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
    return bind_dot_general(x, y, ((lc, rc), ((), ())), preferred_element_type)


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
