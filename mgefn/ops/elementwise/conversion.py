"""Other dtypes: conversion, reinterpretation of bits, reduced precision; stop_gradient."""

from __future__ import annotations

from typing import Any, Never

from mgefn import dtypes
from mgefn.core.array import as_array
from mgefn.core.array_methods import Array, ArrayLike, DTypeLike, method
from mgefn.core.avals import ShapedArray, Zero
from mgefn.core.primitive import Primitive
from mgefn.errors import ShapeError, api_boundary, leave_api, no_such_keyword, tells_keywords
from mgefn.ops.elementwise.common import ANY, FLOAT, convert, elementwise, promoted, truth
from mgefn.ops.elementwise.complex_parts import real_p
from mgefn.ops.shaping import moveaxis, reshape


@api_boundary
def convert_element_type(operand: ArrayLike, new_dtype: DTypeLike) -> Array:
    """The array with another dtype; complex to real takes the real part."""
    weak = new_dtype in (int, float, complex)
    return convert(as_array(operand, "convert_element_type"), dtypes.canonical(new_dtype), weak)


@method("astype")
@tells_keywords
def astype(
    x: ArrayLike, dtype: DTypeLike, /, copy: bool = False, device: Any = None, **unknown: Never
) -> Array:
    """The array with another dtype, as numpy.ndarray.astype gives it."""
    try:
        if unknown:
            raise no_such_keyword(astype, unknown)
        a = as_array(x, "astype")
        new = dtypes.canonical(dtype) if dtype is not None else dtypes.default_float()
        if dtypes.is_complex(a.dtype) and not dtypes.is_complex(new):
            a = truth(a) if dtypes.is_bool(new) else real_p.bind1(a)
        return convert(a, new)
    except BaseException as e:
        leave_api(e)
        raise


# params: exponent_bits, mantissa_bits
reduce_precision_p = elementwise("reduce_precision", FLOAT)

reduce_precision_p.linear = True  # its derivative is taken as that of the identity

reduce_precision_p.holes.clear()


@reduce_precision_p.def_transpose
def _reduce_precision_transpose(cts, x, **params):
    return (reduce_precision_p.bind1(cts[0], **params),)


@api_boundary
def reduce_precision(operand: ArrayLike, exponent_bits: int, mantissa_bits: int) -> Array:
    """Round to a floating format of fewer bits and back, to nearest even."""
    (x,) = promoted("reduce_precision", (operand,))
    return reduce_precision_p.bind1(
        x, exponent_bits=int(exponent_bits), mantissa_bits=int(mantissa_bits)
    )


bitcast_convert_type_p = Primitive(
    "bitcast_convert_type", constant=True, weak_result=False, moves=True
)  # params: new_dtype

bitcast_convert_type_p.no_rule("transpose", "has no derivative")


@bitcast_convert_type_p.def_abstract_eval
def _bitcast_convert_type_abstract_eval(x: ShapedArray, *, new_dtype):
    old, new = x.dtype.itemsize, new_dtype.itemsize
    if old == new:
        return (ShapedArray(x.shape, new_dtype),)
    if old > new:
        return (ShapedArray((*x.shape, old // new), new_dtype),)
    if not x.shape or x.shape[-1] * old != new:
        raise ShapeError(
            f"bitcast_convert_type: the last dimension of {x} must hold {new // old} elements to "
            f"make one {dtypes.short_name(new_dtype)}."
        )
    return (ShapedArray(x.shape[:-1], new_dtype),)


@bitcast_convert_type_p.def_batch
def _bitcast_convert_type_batch(args, bdims, *, new_dtype):
    (x,), (bdim,) = args, bdims
    return bitcast_convert_type_p.bind(moveaxis(x, bdim, 0), new_dtype=new_dtype), (0,)


@api_boundary
def bitcast_convert_type(operand: ArrayLike, new_dtype: DTypeLike) -> Array:
    """The same bits read as another dtype; a narrower one adds a last dimension."""
    x = as_array(operand, "bitcast_convert_type")
    return bitcast_convert_type_p.bind1(x, new_dtype=dtypes.canonical(new_dtype))


@method("view")
@api_boundary
def view(x: ArrayLike, dtype: DTypeLike = None) -> Array:
    """The same bits read as another dtype, as numpy.ndarray.view does along the last axis."""
    a = as_array(x, "view")
    if dtype is None:
        return a
    new = dtypes.canonical(dtype)
    old_size, new_size = a.dtype.itemsize, new.itemsize
    if old_size == new_size:
        return bitcast_convert_type(a, new)
    if not a.shape:
        raise ShapeError(f"view: a size change needs rank 1 or more, got {a.aval}.")
    if old_size > new_size:
        out = bitcast_convert_type(a, new)
        return reshape(out, (*a.shape[:-1], a.shape[-1] * (old_size // new_size)))
    n = new_size // old_size
    if a.shape[-1] % n:
        raise ShapeError(
            f"view: the last dimension must be a multiple of {n}, because so many elements make "
            f"one {dtypes.short_name(new)}, got {a.aval}. Use astype to convert values."
        )
    return bitcast_convert_type(reshape(a, (*a.shape[:-1], a.shape[-1] // n, n)), new)


stop_gradient_p = elementwise("stop_gradient", ANY, constant=True)

stop_gradient_p.moves = True

stop_gradient_p.simplify = lambda inputs, params, out_avals: [inputs[0]]

stop_gradient_p.holes.pop("transpose")


@stop_gradient_p.def_transpose
def _stop_gradient_transpose(cts, x):
    # As its jvp. A linear program has it where a batched branch is filled up for other examples.
    return (Zero(x.aval),)


def stop_gradient_leaf(x: ArrayLike) -> Array:
    """The array itself, with derivative 0."""
    return stop_gradient_p.bind1(as_array(x, "stop_gradient"))
