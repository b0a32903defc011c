"""Kernels of `ops/contractions/`: every contraction is one call of numpy.matmul.

The operands are seen as stacks of matrices (batch, rows, contracted) and (batch, contracted,
columns). Merging dimensions into rows, columns or the contracted one needs no copy where their
strides fit together. Where they do not, the leading dimensions become further stack dimensions (the
result is written through a permuted view), or the operand is copied once: which of them depends on
shapes and strides only, so `temp_bytes` asks the same function as the kernel.

float16, bfloat16 and float8 are computed in float32. NumPy's integer products run without BLAS, so
large ones go through float64 (or float32) where every partial sum is exact there.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mgefn import dtypes
from mgefn.backends.numpy_kernels.base import BUFFER_ELEMENTS, deliver, temp_bytes
from mgefn.core.avals import contiguous_strides

_BLAS = frozenset(map(np.dtype, ("float32", "float64", "complex64", "complex128")))
_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)

# A stack of products each smaller than this many multiplications is slower than one product of
# copied operands: a call of BLAS costs about as much as 4000 multiplications.
_SMALL_PRODUCT = 4096
# Integer products of fewer multiplications are left to NumPy's own loops.
_SMALL_INTEGER_PRODUCT = 16384


class Side(NamedTuple):
    """How one operand becomes a stack of matrices: transpose, copy if need be, reshape."""

    permutation: tuple[int, ...]
    shape: tuple[int, ...]
    copied: bool


class Plan(NamedTuple):
    """How to contract operands of certain shapes, strides and dtype.

    matmul's result is made with `stacked_shape`, which only splits dimensions of the output, and
    written through its transpose by `stacked_permutation`.
    """

    way: int  # one of the four below
    shape: tuple[int, ...]
    dtype: np.dtype  # of the output
    computed: np.dtype  # of the sums
    contracted: int  # number of products in each sum
    lhs: Side
    rhs: Side
    stacked_shape: tuple[int, ...]
    stacked_permutation: tuple[int, ...] | None  # None: the identity


ZERO, PRODUCT, MATMUL, INTEGERS = range(4)


def out_shape_of(lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: Any) -> Any:
    """Batch dimensions, free ones of the left operand, free ones of the right."""
    (lc, rc), (lb, rb) = dimension_numbers
    return (
        *(lhs_shape[i] for i in lb),
        *(n for i, n in enumerate(lhs_shape) if i not in lc and i not in lb),
        *(n for i, n in enumerate(rhs_shape) if i not in rc and i not in rb),
    )


def _merged(
    dims: Sequence[int], shape: Sequence[int], strides: Sequence[int]
) -> tuple[int, int] | None:
    """Size and stride of the one dimension that dims make up, or None if they do not."""
    size, stride = 1, 0
    for i in reversed(dims):
        n = shape[i]
        if n == 1:
            continue
        if size == 1:
            stride = strides[i]
        elif strides[i] != stride * size:
            return None
        size *= n
    return size, stride


def _blas_takes(rows: int, row_stride: int, columns: int, column_stride: int, item: int) -> bool:
    """Does BLAS read a matrix of these strides in place?"""
    if rows == 1:
        return columns == 1 or (column_stride >= item and column_stride % item == 0)
    if columns == 1:
        return row_stride >= item and row_stride % item == 0
    return (column_stride == item and row_stride >= columns * item and row_stride % item == 0) or (
        row_stride == item and column_stride >= rows * item and column_stride % item == 0
    )


def _stacked(
    free: Sequence[int],
    contract: Sequence[int],
    shape: Sequence[int],
    strides: Sequence[int],
    item: int,
    blas: bool,
    other_columns: int,
) -> int | None:
    """How many leading free dimensions to stack so that no copy is needed; None: copy."""
    merged = _merged(contract, shape, strides)
    if merged is None:
        return None
    k, k_stride = merged
    for n in range(len(free) + 1):
        rest = _merged(free[n:], shape, strides)
        if rest is None:
            continue
        rows, row_stride = rest
        if blas and not _blas_takes(rows, row_stride, k, k_stride, item):
            return None
        if math.prod(shape[i] for i in free[:n]) > 1 and rows * k * other_columns < _SMALL_PRODUCT:
            return None
        return n
    return None


@functools.lru_cache(maxsize=4096)
def plan(
    lhs_shape: tuple[int, ...],
    lhs_strides: tuple[int, ...],
    rhs_shape: tuple[int, ...],
    rhs_strides: tuple[int, ...],
    dtype: np.dtype,
    dimension_numbers: Any,
    preferred: np.dtype | None,
) -> Plan:
    """How to contract operands of these shapes, strides (in bytes) and dtype."""
    (lc, rc), (lb, rb) = dimension_numbers
    shape = out_shape_of(lhs_shape, rhs_shape, dimension_numbers)
    out_dtype = dtype if preferred is None else preferred
    computed = dtypes.accumulator(out_dtype)
    k = math.prod(lhs_shape[i] for i in lc)
    blas = computed in _BLAS
    item = dtype.itemsize
    if k == 0 or 0 in shape:
        way = ZERO
    elif k == 1:
        way = PRODUCT
    elif _goes_through_float(dtype, computed, k * math.prod(shape)):
        way = INTEGERS
    else:
        way = MATMUL
    # Operands that are cast to another dtype are copied anyway.
    converted = way == INTEGERS or computed != dtype
    lf = tuple(i for i in range(len(lhs_shape)) if i not in lc and i not in lb)
    rf = tuple(i for i in range(len(rhs_shape)) if i not in rc and i not in rb)
    m = math.prod(lhs_shape[i] for i in lf)
    n = math.prod(rhs_shape[i] for i in rf)
    batch = tuple(lhs_shape[i] for i in lb)

    # The contracted dimensions may be taken in any order: as given, or as one operand has them.
    pairs = list(zip(lc, rc, strict=True))
    orders = [pairs]
    if len(pairs) > 1 and not converted:
        orders += [sorted(pairs), sorted(pairs, key=lambda p: p[1])]
    best: Any = None
    for order in orders:
        lc_now, rc_now = tuple(p[0] for p in order), tuple(p[1] for p in order)
        if converted:
            left = right = None
        else:
            left = _stacked(lf, lc_now, lhs_shape, lhs_strides, item, blas, n)
            right = _stacked(rf, rc_now, rhs_shape, rhs_strides, item, blas, m)
        cost = math.prod(lhs_shape) * (left is None) + math.prod(rhs_shape) * (right is None)
        if best is None or cost < best[0]:
            best = cost, lc_now, rc_now, left, right
    _, lc, rc, left, right = best
    l_stack, r_stack = lf[: left or 0], rf[: right or 0]
    l_rest, r_rest = lf[len(l_stack) :], rf[len(r_stack) :]
    l_sizes = tuple(lhs_shape[i] for i in l_stack)
    r_sizes = tuple(rhs_shape[i] for i in r_stack)
    rows = math.prod(lhs_shape[i] for i in l_rest)
    columns = math.prod(rhs_shape[i] for i in r_rest)
    nb, nl, nr = len(batch), len(l_stack), len(r_stack)
    # matmul's result has its stack dimensions in front; the output has r_stack behind the rows.
    permutation = (
        *range(nb + nl),
        *range(nb + nl + 1, nb + nl + 1 + nr),
        nb + nl,
        nb + nl + 1 + nr,
    )
    return Plan(
        way,
        shape,
        out_dtype,
        computed,
        k,
        Side(
            (*lb, *l_stack, *l_rest, *lc),
            (*batch, *l_sizes, *(1,) * nr, rows, k),
            left is None,
        ),
        Side(
            (*rb, *r_stack, *rc, *r_rest),
            (*batch, *(1,) * nl, *r_sizes, k, columns),
            right is None,
        ),
        (*batch, *l_sizes, rows, *r_sizes, columns),
        permutation if nr else None,
    )


def _arranged(x: np.ndarray, side: Side, dtype: np.dtype) -> np.ndarray:
    """The operand as its stack of matrices."""
    y = x.transpose(side.permutation)
    if x.dtype is not dtype and x.dtype != dtype:
        y = y.astype(dtype, order="C")
    elif side.copied:
        y = np.array(y, order="C")
    return y.reshape(side.shape)


def exact_float(dtype: np.dtype, contracted: int) -> np.dtype | None:
    """The float type in which sums of products of integers of this dtype are exact.

    None: it depends on the values.
    """
    if dtype.itemsize > 2:
        return None
    bound = (255 if dtype.itemsize == 1 else 65535) ** 2 * contracted
    return _FLOAT32 if bound < 2**24 else _FLOAT64 if bound < 2**53 else None


def _dot_general_temp(
    in_avals: Any, out_avals: Any, *, dimension_numbers: Any, preferred_element_type: Any
) -> int:
    """Operands are taken to be in C order."""
    (lhs, rhs), (out,) = in_avals, out_avals
    dtype = lhs.dtype
    p = plan(
        lhs.shape,
        contiguous_strides(lhs.shape, dtype.itemsize),
        rhs.shape,
        contiguous_strides(rhs.shape, dtype.itemsize),
        dtype,
        dimension_numbers,
        preferred_element_type,
    )
    if p.way == ZERO:
        return 0
    if p.way == PRODUCT:
        n_batch = math.prod(lhs.shape[i] for i in dimension_numbers[1][0])
        broadcast = n_batch < lhs.size and n_batch < rhs.size
        cast = out.dtype != dtype
        # NumPy reads operands that it casts, or that both broadcast, through buffers.
        return 2 * min(out.size, BUFFER_ELEMENTS) * out.dtype.itemsize if broadcast or cast else 0
    if p.way == INTEGERS:
        item = (exact_float(dtype, p.contracted) or _FLOAT64).itemsize
        wrapped = 8 * out.size if out.dtype.itemsize < 8 else 0
        return max(item * (lhs.size + rhs.size + out.size), item * out.size + wrapped)
    if p.computed != dtype:
        unrounded = out.size if p.computed != out.dtype else 0
        return p.computed.itemsize * (lhs.size + rhs.size + unrounded)
    return dtype.itemsize * (lhs.size * p.lhs.copied + rhs.size * p.rhs.copied)


def _goes_through_float(dtype: np.dtype, computed: np.dtype, multiplications: int) -> bool:
    """Is this a large product of integers?"""
    integers = dtype.kind in "iu" and computed.kind in "iu"
    return integers and multiplications >= _SMALL_INTEGER_PRODUCT


def _multiply(
    lhs: np.ndarray, rhs: np.ndarray, dimension_numbers: Any, p: Plan, out: np.ndarray | None
) -> np.ndarray:
    """A contraction whose sums have one term: a product of broadcast operands."""
    (lc, rc), (lb, rb) = dimension_numbers
    lf = [i for i in range(lhs.ndim) if i not in lc and i not in lb]
    rf = [i for i in range(rhs.ndim) if i not in rc and i not in rb]
    a = lhs.transpose((*lb, *lf, *lc))
    a = a.reshape(a.shape[: len(lb) + len(lf)] + (1,) * len(rf))
    b = rhs.transpose((*rb, *rf, *rc))
    b = b.reshape(b.shape[: len(rb)] + (1,) * len(lf) + b.shape[len(rb) : len(rb) + len(rf)])
    if out is None:
        out = np.empty(p.shape, p.dtype)
    if p.dtype == lhs.dtype:
        np.multiply(a, b, out=out)
    else:
        np.multiply(a, b, out=out, dtype=p.dtype, casting="unsafe")
    return out


@temp_bytes(_dot_general_temp)
def dot_general(
    lhs, rhs, *, dimension_numbers, preferred_element_type, outs: tuple = (None,)
) -> tuple:
    out = outs[0]
    dtype = lhs.dtype
    if lhs.ndim == 2 and rhs.ndim == 2 and preferred_element_type is None and dtype in _BLAS:
        # The common case, without a plan.
        (lc, rc), (lb, _) = dimension_numbers
        if len(lc) == 1 and not lb and lhs.flags.forc and rhs.flags.forc:
            a = lhs if lc[0] else lhs.T
            b = rhs.T if rc[0] else rhs
            return (np.matmul(a, b) if out is None else np.matmul(a, b, out=out),)
    p = plan(
        lhs.shape,
        lhs.strides,
        rhs.shape,
        rhs.strides,
        dtype,
        dimension_numbers,
        preferred_element_type,
    )
    if out is not None and not out.flags.c_contiguous:
        # matmul could not be told to write there through a permuted view.
        return (deliver(_contracted(lhs, rhs, dimension_numbers, p, None), out),)
    return (_contracted(lhs, rhs, dimension_numbers, p, out),)


def _contracted(
    lhs: np.ndarray, rhs: np.ndarray, dimension_numbers: Any, p: Plan, out: np.ndarray | None
) -> np.ndarray:
    """The contraction by a plan, in `out` (in C order) where there is one."""
    if p.way == PRODUCT:
        return _multiply(lhs, rhs, dimension_numbers, p, out)
    if p.way == ZERO:
        if out is None:
            return np.zeros(p.shape, p.dtype)
        out[...] = 0
        return out
    if p.way == INTEGERS:
        return _integer_product(lhs, rhs, p, out)
    a = _arranged(lhs, p.lhs, p.computed)
    b = _arranged(rhs, p.rhs, p.computed)
    if p.computed is not p.dtype and p.computed != p.dtype:
        return _rounded(np.matmul(a, b), p, out)
    if p.stacked_permutation is None:
        if out is None:
            made = np.matmul(a, b)
            return made if made.shape == p.shape else made.reshape(p.shape)
        np.matmul(a, b, out=out.reshape(p.stacked_shape))
        return out
    if out is None:
        out = np.empty(p.shape, p.dtype)
    np.matmul(a, b, out=out.reshape(p.stacked_shape).transpose(p.stacked_permutation))
    return out


def _rounded(made: np.ndarray, p: Plan, out: np.ndarray | None) -> np.ndarray:
    """A result in the output's shape and dtype."""
    made = made.reshape(p.shape)
    return made.astype(p.dtype, copy=False) if out is None else deliver(made, out)


def magnitude(x: np.ndarray) -> int:
    """The largest absolute value of integers."""
    return max(int(x.max()), -int(x.min()))


def _integer_product(
    lhs: np.ndarray, rhs: np.ndarray, p: Plan, out: np.ndarray | None
) -> np.ndarray:
    """A large product of integers: through BLAS where floats hold every partial sum exactly."""
    through = exact_float(lhs.dtype, p.contracted)
    if through is None and magnitude(lhs) * magnitude(rhs) * p.contracted < 2**53:
        through = _FLOAT64
    if through is None:
        a, b = _arranged(lhs, p.lhs, p.dtype), _arranged(rhs, p.rhs, p.dtype)
        return _rounded(np.matmul(a, b), p, out)
    a, b = _arranged(lhs, p.lhs, through), _arranged(rhs, p.rhs, through)
    exact = np.matmul(a, b)
    del a, b
    if p.dtype.itemsize < 8:
        # Integers wrap; a cast from float to a narrow integer does not.
        exact = exact.astype(np.int64)
    return _rounded(exact, p, out)
