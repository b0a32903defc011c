"""Elementwise primitives: how operands are promoted and broadcast, how a primitive is made.

A primitive takes operands of one dtype and one shape, or of rank 0. Almost all declare slopes,
their partial derivatives by operand; jvp and reverse mode follow from these through `scale_p`.

Sources for derivatives: Abramowitz and Stegun, Handbook of Mathematical Functions, 1964; NIST
Digital Library of Mathematical Functions, dlmf.nist.gov.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.core.array import (
    ConcreteArray,
    as_array,
    exact_scalar,
    is_arraylike,
    not_an_array,
    scalar,
)
from mgefn.core.array_methods import METHODS, Array, ArrayLike
from mgefn.core.avals import ShapedArray, Zero
from mgefn.core.interpreter import state
from mgefn.core.primitive import Primitive
from mgefn.errors import DTypeError, ShapeError
from mgefn.ops.shaping import broadcast_in_dim, broadcast_to_shape, moveaxis, result_shape

BOOL = np.dtype(bool)

FLOAT = "float"

COMPLEX = "complex"

INEXACT = "float or complex"

INTEGER = "integer"

INTEGRAL = "integer or bool"

REAL = "real number"

NUMBER = "number"

ANY = "any"

# Dtypes of NumPy's own in which a Python number takes the array's dtype.
NUMPY_FLOATS = frozenset(map(np.dtype, ("float32", "float64", "complex64", "complex128")))

_ACCEPTS: dict[str, Callable[[np.dtype], bool]] = {
    FLOAT: dtypes.is_float,
    COMPLEX: dtypes.is_complex,
    INEXACT: dtypes.is_inexact,
    INTEGER: dtypes.is_integer,
    INTEGRAL: lambda d: dtypes.is_integer(d) or dtypes.is_bool(d),
    REAL: lambda d: not dtypes.is_complex(d) and not dtypes.is_bool(d),
    NUMBER: lambda d: not dtypes.is_bool(d),
    ANY: lambda d: True,
}


def convert(x: Any, dtype: np.dtype, weak: bool = False) -> Any:
    """An Array or tracer with this dtype and weakness; x itself where it has them."""
    if x.dtype == dtype and x.weak_type == weak:
        return x
    if x.dtype.names is not None or dtype.names is not None:
        raise no_conversion(x.aval, dtype)
    exact = exact_scalar(x, dtype, weak)
    if exact is not None:
        return exact
    return convert_element_type_p.bind1(x, new_dtype=dtype, weak_type=weak)


def no_conversion(aval: ShapedArray, dtype: np.dtype) -> DTypeError:
    """The error for a conversion from or to the dtype of random keys, or to float0."""
    return DTypeError(
        f"convert_element_type: random keys and numbers do not become one another, got {aval} and "
        f"{dtypes.short_name(dtype)}. Use random.key_data and random.wrap_key_data."
    )


def promoted(name: str, args: Sequence[Any], inexact: bool = False) -> list[Any]:
    """The arguments as arrays of their common dtype; `inexact` takes integers to the float."""
    values = [
        a if a.__class__ in _KNOWN or isinstance(a, Array) else _array_argument(name, a)
        for a in args
    ]
    dtype, weak = dtypes.result_type(*values, return_weak=True)
    if inexact:
        dtype = dtypes.to_inexact(dtype)
    out = []
    for v in values:
        if v.__class__ in _KNOWN:
            if v.__class__ is int:
                dtypes.check_scalar_fits(v, dtype, name)
            out.append(scalar(v, dtype, weak))
        else:
            out.append(convert(as_array(v, name), dtype, weak))
    return out


_KNOWN = frozenset((bool, int, float, complex))


def _array_argument(name: str, a: Any) -> Any:
    if isinstance(a, np.generic):
        return a
    if isinstance(a, (list, tuple)):
        return METHODS["asarray"](a)
    if a is None or not is_arraylike(a):
        raise not_an_array(name, a)
    return as_array(a, name)


def broadcasted(name: str, args: Sequence[Any]) -> list[Any]:
    """Arrays of one shape; those of rank 0 stay as they are."""
    shapes = [a.shape for a in args if a.shape]
    if not shapes or all(s == shapes[0] for s in shapes):
        return list(args)
    shape = result_shape(name, shapes, [a.aval for a in args])
    return [broadcast_to_shape(a, shape) if a.shape else a for a in args]


def unary(primitive: Primitive, x: Any, inexact: bool = False) -> Any:
    """Bind a primitive to one promoted operand."""
    if state.current is None and x.__class__ is ConcreteArray:
        data = x._data
        if data.dtype in primitive.ufunc_dtypes:
            try:
                out = state.quiet(primitive.ufunc, data)
            except (RuntimeError, TypeError):
                return primitive.bind1(x)  # a context entered twice, or a dtype it does not take
            if out.__class__ is not np.ndarray:
                out = np.asarray(out)
            return ConcreteArray(out, x._weak)
    elif isinstance(x, Array) and x.dtype.kind in "fc":
        return primitive.bind1(x)
    (x,) = promoted(primitive.called, (x,), inexact)
    return primitive.bind1(x)


def binary(primitive: Primitive, x: Any, y: Any, inexact: bool = False) -> Any:
    """Bind a primitive to two promoted operands of one shape."""
    if state.current is None:
        # The fast way: both known, of one dtype, and the operation is a NumPy ufunc.
        cls = y.__class__
        if x.__class__ is ConcreteArray:
            a, weak = x._data, x._weak
            if cls is ConcreteArray:
                b = y._data
                weak = weak and y._weak
                fast = a.dtype is b.dtype and a.dtype in primitive.ufunc_dtypes
            else:
                fast = (
                    (cls is float or (cls is int and -0x80000000 <= y <= 0x7FFFFFFF))
                    and not weak
                    and a.dtype in primitive.ufunc_scalar_dtypes
                )
                b = scalar(y, a.dtype)._data if fast else None
        elif cls is ConcreteArray:
            b, weak = y._data, y._weak
            cls = x.__class__
            fast = (
                (cls is float or (cls is int and -0x80000000 <= x <= 0x7FFFFFFF))
                and not weak
                and b.dtype in primitive.ufunc_scalar_dtypes
            )
            a = scalar(x, b.dtype)._data if fast else None
        else:
            a = b = None
            fast = weak = False
        if fast:
            try:
                out = state.quiet(primitive.ufunc, a, b)
            except (RuntimeError, ValueError, TypeError):
                pass  # a context entered twice, or operands that do not fit: the slow way tells
            else:
                if out.__class__ is not np.ndarray:
                    out = np.asarray(out)
                return ConcreteArray(out, weak)
    elif isinstance(x, Array):
        # Tracers that need neither promotion nor broadcasting.
        dtype = x.dtype
        if dtype.kind in "fc":
            if isinstance(y, Array):
                if y.dtype is dtype and x.weak_type == y.weak_type:
                    a, b = x.shape, y.shape
                    if a == b or not a or not b:
                        return primitive.bind1(x, y)
            elif (y.__class__ is float or y.__class__ is int) and not x.weak_type:
                return primitive.bind1(x, scalar(y, dtype))
    x, y = promoted(primitive.called, (x, y), inexact)
    if x.shape != y.shape and x.shape and y.shape:
        x, y = broadcasted(primitive.called, (x, y))
    return primitive.bind1(x, y)


def nary(primitive: Primitive, *args: Any, inexact: bool = False) -> Any:
    """Bind a primitive to promoted operands of one shape."""
    return primitive.bind1(
        *broadcasted(primitive.called, promoted(primitive.called, args, inexact))
    )


def common_shape(name: str, avals: Sequence[ShapedArray]) -> tuple[int, ...]:
    """The shape of the operands, where those of rank 0 fit any."""
    shape: tuple[int, ...] = ()
    for a in avals:
        if a.shape and a.shape != shape:
            if shape:
                raise ShapeError(
                    f"{name}: operands must have one shape or rank 0, got "
                    f"{' and '.join(map(str, avals))}. Broadcast them first."
                )
            shape = a.shape
    return shape


def elementwise(
    name: str,
    accepts: str,
    *slopes: Callable[..., Any] | int,
    result: str = "same",
    constant: bool = False,
    called: str | None = None,
) -> Primitive:
    """An elementwise primitive whose operands share a dtype.

    Args:
        name: the primitive's.
        accepts: which dtypes, a key of _ACCEPTS.
        slopes: see Primitive.def_slopes.
        result: "same" dtype, "bool", or "real": the real part's dtype.
        constant: has no derivative.
        called: the public function's name, where it is another one.
    """
    primitive = Primitive(
        name,
        elementwise=True,
        constant=constant,
        weak_result=result != "bool",
        called=called,
    )
    name = primitive.called  # from here on for messages
    primitive.accepts = test = _ACCEPTS[accepts]

    def abstract_eval(*avals: ShapedArray, **params: Any) -> tuple[ShapedArray]:
        dtype = avals[0].dtype
        for a in avals[1:]:
            if a.dtype != dtype:
                raise DTypeError(
                    f"{name}: operands must have one dtype, got {avals[0]} and {a}. Cast one with "
                    "astype."
                )
        if not test(dtype):
            repair = "Cast it with astype"
            if accepts == NUMBER and dtypes.is_bool(dtype):
                repair += ", or use logical_not or logical_xor"
            needed = f"{'an' if accepts[0] in 'aeiou' else 'a'} {accepts}"
            raise DTypeError(f"{name}: needs {needed} dtype, got {avals[0]}. {repair}.")
        if result == "bool":
            dtype = BOOL
        elif result == "real":
            dtype = dtypes.real_part_dtype(dtype)
        return (ShapedArray(common_shape(name, avals), dtype),)

    primitive.def_abstract_eval(abstract_eval)
    primitive.def_batch(batch_elementwise(primitive))
    if slopes:
        primitive.def_slopes(*slopes)
    if constant:
        primitive.no_rule("transpose", "has no derivative")
    else:
        primitive.no_rule("transpose", "not linear")
    return primitive


def batch_elementwise(primitive: Primitive) -> Callable[..., Any]:
    """The batch rule of an elementwise primitive."""

    def rule(args: Sequence[Any], bdims: Sequence[int | None], **params: Any) -> tuple:
        args, bdim = aligned(args, bdims)
        outs = primitive.bind(*args, **params)
        return outs, (bdim,) * len(outs)

    return rule


def aligned(args: Sequence[Any], bdims: Sequence[int | None]) -> tuple[list[Any], int]:
    """Operands of an elementwise operation with the batch dimension in one place."""
    ndims = [len(a.shape) - (b is not None) for a, b in zip(args, bdims, strict=True)]
    ndim = max(ndims)
    target = 0
    for b, n in zip(bdims, ndims, strict=True):
        if b is not None and n == ndim:
            target = b
            break
    size = next(a.shape[b] for a, b in zip(args, bdims, strict=True) if b is not None)
    full = next(
        (
            a.shape[:b] + a.shape[b + 1 :] if b is not None else a.shape
            for a, b, n in zip(args, bdims, ndims, strict=True)
            if n == ndim
        )
    )
    shape = (*full[:target], size, *full[target:])
    rest = tuple(i for i in range(ndim + 1) if i != target)
    out = []
    for a, b, n in zip(args, bdims, ndims, strict=True):
        if b is None:
            # Rank 0 fits any shape as it is.
            out.append(broadcast_in_dim(a, shape, rest) if n else a)
        elif n == ndim:
            out.append(moveaxis(a, b, target))
        else:
            out.append(broadcast_in_dim(a, shape, (target,)))
    return out, target


def sum_to_shape(ct: Any, shape: tuple[int, ...]) -> Any:
    """The cotangent of an operand that was of rank 0 or of the full shape."""
    return ct if ct.shape == shape else ct.sum()


def mask(condition: Any, like: Any) -> Any:
    """1 where a condition holds and 0 elsewhere, in the dtype of `like`."""
    return convert(condition, like.dtype)


def truth(x: ArrayLike) -> Any:
    """x != 0 as booleans; booleans stay as they are."""
    (a,) = promoted("logical", (x,))
    return a if dtypes.is_bool(a.dtype) else a != scalar(0, a.dtype)


# params: new_dtype; weak_type, of the result
convert_element_type_p = Primitive("convert_element_type", elementwise=True, weak_result=False)


@convert_element_type_p.def_abstract_eval
def _convert_element_type_abstract_eval(x: ShapedArray, *, new_dtype, weak_type):
    return (ShapedArray(x.shape, new_dtype, weak_type),)


# Tracers hold weak arrays too, so the number behind one is looked for once more when it is known.
convert_element_type_p.by_value = lambda args, params: exact_scalar(
    args[0], params["new_dtype"], params["weak_type"]
)
convert_element_type_p.weak_of = lambda weak, params: params["weak_type"]

convert_element_type_p.def_batch(batch_elementwise(convert_element_type_p))


@convert_element_type_p.def_jvp
def _convert_element_type_jvp(primals, tangents, *, new_dtype, weak_type):
    (x,), (t,) = primals, tangents
    y = convert_element_type_p.bind1(x, new_dtype=new_dtype, weak_type=weak_type)
    if t.__class__ is Zero or not dtypes.is_inexact(new_dtype):
        return (y,), (Zero(y.aval),)
    if dtypes.is_complex(t.dtype) and not dtypes.is_complex(new_dtype):
        t = METHODS["real"](t)
    return (y,), (convert(t, new_dtype),)


@convert_element_type_p.def_transpose
def _convert_element_type_transpose(cts, x, *, new_dtype, weak_type):
    (ct,) = cts
    old = x.aval.dtype
    if dtypes.is_complex(ct.dtype) and not dtypes.is_complex(old):
        ct = METHODS["real"](ct)
    return (convert(ct, old),)


convert_element_type_p.simplify = lambda inputs, params, out_avals: (
    [inputs[0]] if inputs[0].aval.dtype == params["new_dtype"] else None
)
