"""Choosing between operands: select, where, maximum, minimum, clamp."""

from __future__ import annotations

from typing import Any, Never

import numpy as np

from mgefn import dtypes
from mgefn.core.array import ConcreteArray, as_array, scalar
from mgefn.core.array_methods import METHODS, Array, ArrayLike, method
from mgefn.core.avals import ShapedArray, Zero, is_undefined
from mgefn.core.interpreter import state
from mgefn.core.primitive import Primitive
from mgefn.errors import (
    ArgumentError,
    DTypeError,
    api_boundary,
    leave_api,
    no_such_keyword,
    tells_keywords,
)
from mgefn.ops.elementwise.common import (
    ANY,
    BOOL,
    NUMPY_FLOATS,
    batch_elementwise,
    binary,
    broadcasted,
    common_shape,
    convert,
    elementwise,
    mask,
    nary,
    promoted,
    sum_to_shape,
    truth,
)
from mgefn.ops.shaping import broadcast_to_shape, result_shape

# Where the operands are equal each takes half of the derivative, as in JAX.
max_p = elementwise(
    "max", ANY, lambda z, x, y: _share(x, y, z), lambda z, x, y: _share(y, x, z), called="maximum"
)

min_p = elementwise(
    "min", ANY, lambda z, x, y: _share(x, y, z), lambda z, x, y: _share(y, x, z), called="minimum"
)


def _share(x: Any, other: Any, z: Any) -> Any:
    if not dtypes.is_inexact(x.dtype):
        return 0
    return where(x == other, 0.5, mask(x == z, x)).astype(x.dtype)


@method("maximum")
def maximum(x: ArrayLike, y: ArrayLike) -> Array:
    """The larger of x and y, elementwise; NaN where one is. Ties share the derivative."""
    try:
        return binary(max_p, x, y)
    except BaseException as e:
        leave_api(e)
        raise


@method("minimum")
def minimum(x: ArrayLike, y: ArrayLike) -> Array:
    """The smaller of x and y, elementwise; NaN where one is. Ties share the derivative."""
    try:
        return binary(min_p, x, y)
    except BaseException as e:
        leave_api(e)
        raise


@method("fmax")
@api_boundary
def fmax(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The larger of x1 and x2, elementwise, ignoring NaN."""
    x, y = broadcasted("fmax", promoted("fmax", (x1, x2)))
    return where((x > y) | (y != y), x, y)


@method("fmin")
@api_boundary
def fmin(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The smaller of x1 and x2, elementwise, ignoring NaN."""
    x, y = broadcasted("fmin", promoted("fmin", (x1, x2)))
    return where((x < y) | (y != y), x, y)


# operands: which (bool, or int32 in [0, number of cases)), then the cases
select_n_p = Primitive("select_n", elementwise=True, moves=True)


@select_n_p.def_abstract_eval
def _select_n_abstract_eval(which: ShapedArray, *cases: ShapedArray):
    if which.dtype != BOOL and which.dtype != np.int32:
        raise DTypeError(f"select_n: which must be bool or int32, got {which}. Cast it.")
    if which.dtype == BOOL and len(cases) != 2:
        raise ArgumentError(f"select_n: a bool chooses between 2 cases, got {len(cases)}.")
    if any(c.dtype != cases[0].dtype for c in cases):
        raise DTypeError(
            f"select_n: cases must have one dtype, got {' and '.join(map(str, cases))}. Cast them."
        )
    weak = all(c.weak_type for c in cases)
    shape = common_shape("select_n", (which, *cases))
    return (ShapedArray(shape, cases[0].dtype, weak),)


select_n_p.weak_result = False  # the cases decide

select_n_p.weak_of = lambda weak, params: all(weak[1:])

select_n_p.def_batch(batch_elementwise(select_n_p))


@select_n_p.def_jvp(symbolic_zeros=True)
def _select_n_jvp(primals, tangents):
    which, *cases = primals
    out = select_n_p.bind1(*primals)
    dots = tangents[1:]
    if all(t.__class__ is Zero for t in dots):
        return (out,), (Zero(out.aval),)
    filled = [
        scalar(0, c.dtype) if t.__class__ is Zero else t for c, t in zip(cases, dots, strict=True)
    ]
    t = select_n_p.bind1(which, *filled)
    return (out,), (broadcast_to_shape(t, out.shape),)


@select_n_p.def_transpose
def _select_n_transpose(cts, which, *cases):
    (ct,) = cts
    zero = scalar(0, ct.dtype)
    out = []
    for i, case in enumerate(cases):
        if not is_undefined(case):
            out.append(None)
            continue
        chosen = select_n_p.bind1(which, *(ct if j == i else zero for j in range(len(cases))))
        out.append(sum_to_shape(chosen, case.aval.shape))
    return (None, *out)


def select_n(which: ArrayLike, *cases: ArrayLike) -> Array:
    """The case that `which` numbers, elementwise.

    Args:
        which: bool (False chooses the first of two cases) or int32; the cases' shape or rank 0.
        cases: arrays of one shape and dtype.
    """
    try:
        w = as_array(which, "select_n")
        if dtypes.is_integer(w.dtype):
            w = convert(w, np.dtype(np.int32))
        return select_n_p.bind1(w, *broadcasted("select_n", promoted("select_n", cases)))
    except BaseException as e:
        leave_api(e)
        raise


@api_boundary
def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Array:
    """on_true where pred holds, on_false elsewhere."""
    return select_n(pred, on_false, on_true)


@method("where")
@tells_keywords
def where(
    condition: ArrayLike,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    /,
    *,
    size: int | None = None,
    fill_value: Any = None,
    **unknown: Never,
) -> Any:
    """x where the condition holds and y elsewhere, as numpy.where does.

    With the condition alone: the indices where it holds, as `nonzero` gives them, with `size` and
    `fill_value` for use under jit.

    The derivative of the branch that is not chosen is 0, also where its own slope is infinite or
    NaN.
    """
    try:
        if unknown:
            raise no_such_keyword(where, unknown)
        if x is None and y is None:
            return METHODS["nonzero"](condition, size=size, fill_value=fill_value)
        if x is None or y is None:
            raise ArgumentError("where: needs both x and y, or neither. Pass the other one.")
        if state.current is None and condition.__class__ is ConcreteArray:
            quick = _where_known(condition._data, x, y)
            if quick is not None:
                return quick
        c = truth(condition)
        a, b = promoted("where", (x, y))
        c, a, b = broadcasted("where", (c, a, b))
        return select_n_p.bind1(c, b, a)
    except BaseException as e:
        leave_api(e)
        raise


def _where_known(condition: np.ndarray, x: Any, y: Any) -> ConcreteArray | None:
    """The shortest way for known arrays of one NumPy dtype; None where it does not apply."""
    weak = False
    if x.__class__ is ConcreteArray:
        a = x._data
        if y.__class__ is ConcreteArray:
            b, weak = y._data, x._weak and y._weak
        elif y.__class__ is float and a.dtype in NUMPY_FLOATS and not x._weak:
            b = scalar(y, a.dtype)._data
        else:
            return None
    elif (
        x.__class__ is float
        and y.__class__ is ConcreteArray
        and y._data.dtype in NUMPY_FLOATS
        and not y._weak
    ):
        b = y._data
        a = scalar(x, b.dtype)._data
    else:
        return None
    if condition.dtype != BOOL or a.dtype is not b.dtype:
        return None
    try:
        out = np.where(condition, a, b)
    except ValueError:
        return None  # shapes that do not fit: the slow way tells
    return ConcreteArray(out, weak)


clamp_p = Primitive("clamp", elementwise=True)  # operands: min, x, max


@clamp_p.def_abstract_eval
def _clamp_abstract_eval(low: ShapedArray, x: ShapedArray, high: ShapedArray):
    if not low.dtype == x.dtype == high.dtype or dtypes.is_complex(x.dtype):
        raise DTypeError(
            f"clamp: needs real operands of one dtype, got {low}, {x} and {high}. Cast them."
        )
    return (ShapedArray(common_shape("clamp", (low, x, high)), x.dtype, x.weak_type),)


clamp_p.weak_result = False  # the operand decides

clamp_p.weak_of = lambda weak, params: weak[1]

clamp_p.no_rule("transpose", "not linear")

clamp_p.def_batch(batch_elementwise(clamp_p))

# At the edges the derivative belongs to the bound, and to both where min = max, as in JAX.
clamp_p.def_slopes(
    lambda y, low, x, high: mask((low > x) & (low < high), y),
    lambda y, low, x, high: mask((x > low) & (x < high), y),
    lambda y, low, x, high: mask(x > high, y),
)


@api_boundary
def clamp(min: ArrayLike, x: ArrayLike, max: ArrayLike) -> Array:
    """x, raised to min where it is below and lowered to max where it is above, elementwise."""
    return nary(clamp_p, min, x, max)


@method("clip")
@api_boundary
def clip(arr: ArrayLike, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Array:
    """x limited to [min, max], elementwise, as numpy.clip does; None leaves a side open.

    At a limit the derivative is shared between x and the limit, as in JAX.
    """
    x = as_array(arr, "clip") if not isinstance(arr, (list, tuple)) else METHODS["asarray"](arr)
    if dtypes.is_complex(x.dtype):
        raise DTypeError(f"clip: needs a real array, got {x.aval}. Clip real and imag instead.")
    for limit in (min, max):
        if getattr(limit, "shape", ()) not in ((), x.shape):
            fits = as_array(limit, "clip")  # here, or the message would be maximum's
            result_shape("clip", (x.shape, fits.shape), (x.aval, fits.aval))
    if min is not None:
        x = maximum(min, x)
    if max is not None:
        x = minimum(max, x)
    return x
