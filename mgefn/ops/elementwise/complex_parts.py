"""Real and imaginary part, conjugate. They are linear over the reals, as tangents are."""

from __future__ import annotations

import numpy as np

from mgefn import dtypes
from mgefn.core.array import scalar
from mgefn.core.array_methods import Array, ArrayLike, method
from mgefn.core.avals import ShapedArray, is_undefined
from mgefn.core.device_array import beside
from mgefn.core.primitive import Primitive
from mgefn.errors import DTypeError, api_boundary
from mgefn.ops.elementwise.common import (
    COMPLEX,
    batch_elementwise,
    common_shape,
    elementwise,
    promoted,
    sum_to_shape,
)
from mgefn.ops.shaping import full_like_aval

real_p = elementwise("real", COMPLEX, result="real")

imag_p = elementwise("imag", COMPLEX, result="real")

conj_p = elementwise("conj", COMPLEX)

complex_p = Primitive("complex", elementwise=True, linear=True)

for _p in (real_p, imag_p, conj_p):
    # Linear over the reals, which is what tangents of complex numbers are.
    _p.linear = True
    _p.holes.pop("transpose")


@real_p.def_transpose
def _real_transpose(cts, x):
    (ct,) = cts
    return (complex_p.bind1(ct, scalar(0, ct.dtype)),)


@imag_p.def_transpose
def _imag_transpose(cts, x):
    (ct,) = cts
    # Cotangents pair by x.real * ct.real - x.imag * ct.imag, so the imaginary part changes sign.
    return (complex_p.bind1(scalar(0, ct.dtype), -ct),)


@conj_p.def_transpose
def _conj_transpose(cts, x):
    return (conj_p.bind1(cts[0]),)


@complex_p.def_abstract_eval
def _complex_abstract_eval(x: ShapedArray, y: ShapedArray):
    if x.dtype != y.dtype or x.dtype not in (np.float32, np.float64):
        raise DTypeError(
            f"complex: needs two operands of float32 or of float64, got {x} and {y}. Cast them."
        )
    return (ShapedArray(common_shape("complex", (x, y)), dtypes.complex_dtype(x.dtype)),)


@complex_p.def_transpose
def _complex_transpose(cts, x, y):
    (ct,) = cts
    return (
        sum_to_shape(real_p.bind1(ct), x.aval.shape) if is_undefined(x) else None,
        sum_to_shape(-imag_p.bind1(ct), y.aval.shape) if is_undefined(y) else None,
    )


complex_p.def_batch(batch_elementwise(complex_p))


@method("real")
@api_boundary
def real(x: ArrayLike) -> Array:
    """Real part, elementwise; real arrays stay as they are."""
    (a,) = promoted("real", (x,))
    return real_p.bind1(a) if dtypes.is_complex(a.dtype) else a


@method("imag")
@api_boundary
def imag(x: ArrayLike) -> Array:
    """Imaginary part, elementwise; 0 for real arrays."""
    (a,) = promoted("imag", (x,))
    return imag_p.bind1(a) if dtypes.is_complex(a.dtype) else beside(full_like_aval(0, a.aval), a)


@method("conj")
@api_boundary
def conj(x: ArrayLike) -> Array:
    """Complex conjugate, elementwise; real arrays stay as they are."""
    (a,) = promoted("conj", (x,))
    return conj_p.bind1(a) if dtypes.is_complex(a.dtype) else a


conjugate = conj
