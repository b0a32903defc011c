"""The NumPy backend: primitive -> kernel. It is always there and judges the others.

The rows of families that few programs need stand in `numpy_cpu_families.py`, which is loaded when
one of their primitives is first met.
"""

from __future__ import annotations

import numpy as np

from mgefn.backends.numpy_kernels import contractions as co
from mgefn.backends.numpy_kernels import cumulative as cu
from mgefn.backends.numpy_kernels import elementwise as ew
from mgefn.backends.numpy_kernels import indexing as ix
from mgefn.backends.numpy_kernels import reductions as rd
from mgefn.backends.numpy_kernels import shaping as sh
from mgefn.backends.numpy_kernels import sorting as so
from mgefn.backends.numpy_kernels.base import Ufunc
from mgefn.core.backends import register
from mgefn.core.primitive import Primitive
from mgefn.ops import contractions as c
from mgefn.ops import cumulative as u
from mgefn.ops import elementwise as e
from mgefn.ops import indexing as i
from mgefn.ops import reductions as r
from mgefn.ops import shaping as s
from mgefn.ops import sorting as t

KERNELS = {
    # shaping
    s.broadcast_in_dim_p: sh.broadcast_in_dim,
    s.reshape_p: sh.reshape,
    s.transpose_p: sh.transpose,
    s.rev_p: sh.rev,
    s.concatenate_p: sh.concatenate,
    s.pad_p: sh.pad,
    s.slice_p: sh.strided_slice,
    s.iota_p: sh.iota,
    # contractions
    c.dot_general_p: co.dot_general,
    # sorting
    t.sort_p: so.sort,
    t.argsort_p: so.argsort,
    t.take_along_p: so.take_along,
    t.put_along_p: so.put_along,
    t.top_k_p: so.top_k,
    t.searchsorted_p: so.searchsorted,
    # reductions
    r.reduce_sum_p: rd.reduce_sum,
    r.reduce_prod_p: rd.reduce_prod,
    r.reduce_max_p: rd.reduce_max,
    r.reduce_min_p: rd.reduce_min,
    r.reduce_and_p: rd.reduce_and,
    r.reduce_or_p: rd.reduce_or,
    r.reduce_xor_p: rd.reduce_xor,
    r.argmax_p: rd.argmax,
    r.argmin_p: rd.argmin,
    # cumulative
    u.cumsum_p: cu.cumsum,
    u.cumprod_p: cu.cumprod,
    u.cummax_p: cu.cummax,
    u.cummin_p: cu.cummin,
    u.cumlogsumexp_p: cu.cumlogsumexp,
    # indexing
    i.dynamic_slice_p: ix.dynamic_slice,
    i.dynamic_update_slice_p: ix.dynamic_update_slice,
    i.gather_p: ix.gather,
    i.scatter_p: ix.scatter,
    i.scatter_add_p: ix.scatter_add,
    i.scatter_mul_p: ix.scatter_mul,
    i.scatter_min_p: ix.scatter_min,
    i.scatter_max_p: ix.scatter_max,
    # elementwise: arithmetic
    e.scale_p: ew.scale,
    e.add_p: Ufunc(np.add),
    e.sub_p: Ufunc(np.subtract, "iufc"),
    e.mul_p: Ufunc(np.multiply),
    e.div_p: ew.divide,
    e.neg_p: Ufunc(np.negative, "iufc"),
    e.rem_p: ew.rem,
    e.square_p: Ufunc(np.square, "iufc"),
    e.sqrt_p: Ufunc(np.sqrt, "fc"),
    e.rsqrt_p: ew.rsqrt,
    e.cbrt_p: Ufunc(np.cbrt, "f"),
    e.pow_p: Ufunc(np.power, "fc"),
    e.integer_pow_p: ew.integer_pow,
    e.nextafter_p: Ufunc(np.nextafter, "f"),
    # elementwise: sign, rounding
    e.sign_p: Ufunc(np.sign, "iufc"),
    e.floor_p: Ufunc(np.floor, "f"),
    e.ceil_p: Ufunc(np.ceil, "f"),
    e.round_p: ew.round_,
    e.is_finite_p: Ufunc(np.isfinite, "fc"),
    e.abs_p: Ufunc(np.absolute, "iufc"),
    e.copysign_p: Ufunc(np.copysign, "f"),
    e.zero_sign_p: ew.zero_sign,
    # elementwise: exponentials
    e.exp_p: Ufunc(np.exp, "fc"),
    e.exp2_p: Ufunc(np.exp2, "fc"),
    e.expm1_p: Ufunc(np.expm1, "fc"),
    e.log_p: Ufunc(np.log, "fc"),
    e.log1p_p: Ufunc(np.log1p, "fc"),
    e.logistic_p: ew.logistic,
    e.logaddexp_p: Ufunc(np.logaddexp, "f"),
    # elementwise: trigonometric and hyperbolic
    e.sin_p: Ufunc(np.sin, "fc"),
    e.cos_p: Ufunc(np.cos, "fc"),
    e.tan_p: Ufunc(np.tan, "fc"),
    e.asin_p: Ufunc(np.arcsin, "fc"),
    e.acos_p: Ufunc(np.arccos, "fc"),
    e.atan_p: Ufunc(np.arctan, "fc"),
    e.atan2_p: Ufunc(np.arctan2, "f"),
    e.sinh_p: Ufunc(np.sinh, "fc"),
    e.cosh_p: Ufunc(np.cosh, "fc"),
    e.tanh_p: Ufunc(np.tanh, "fc"),
    e.asinh_p: Ufunc(np.arcsinh, "fc"),
    e.acosh_p: Ufunc(np.arccosh, "fc"),
    e.atanh_p: Ufunc(np.arctanh, "fc"),
    e.hypot_p: Ufunc(np.hypot, "f"),
    # elementwise: complex parts
    e.real_p: ew.real,
    e.imag_p: ew.imag,
    e.conj_p: Ufunc(np.conjugate, "c"),
    e.complex_p: ew.complex_,
    # elementwise: comparison and logic
    e.eq_p: Ufunc(np.equal),
    e.ne_p: Ufunc(np.not_equal),
    e.lt_p: Ufunc(np.less),
    e.le_p: Ufunc(np.less_equal),
    e.gt_p: Ufunc(np.greater),
    e.ge_p: Ufunc(np.greater_equal),
    e.not_p: Ufunc(np.invert, "biu"),
    e.and_p: Ufunc(np.bitwise_and, "biu"),
    e.or_p: Ufunc(np.bitwise_or, "biu"),
    e.xor_p: Ufunc(np.bitwise_xor, "biu"),
    e.shift_left_p: ew.shift_left,
    e.shift_right_arithmetic_p: ew.shift_right_arithmetic,
    e.shift_right_logical_p: ew.shift_right_logical,
    e.population_count_p: ew.population_count,
    e.clz_p: ew.clz,
    # elementwise: choice and conversion
    e.max_p: Ufunc(np.maximum),
    e.min_p: Ufunc(np.minimum),
    e.select_n_p: ew.select_n,
    e.clamp_p: ew.clamp,
    e.convert_element_type_p: ew.convert_element_type,
    e.reduce_precision_p: ew.reduce_precision,
    e.bitcast_convert_type_p: ew.bitcast_convert_type,
    e.stop_gradient_p: lambda x, *, outs=(None,): (
        x if outs[0] is None else ew.deliver(x, outs[0]),
    ),
}

UNSUPPORTED: dict[Primitive, str] = {}

# Operations whose ufunc gives the right dtype for a NumPy array and a Python number: eager calls
# on a float array and a number skip the conversion of the number.
_FLOATS = frozenset(map(np.dtype, ("float32", "float64", "complex64", "complex128")))


def install() -> None:
    """Register the table, and hang the ufuncs that can be called at once on their primitives."""
    register("numpy", KERNELS, UNSUPPORTED)
    for primitive, kernel in KERNELS.items():
        if isinstance(kernel, Ufunc):
            primitive.ufunc = kernel.ufunc
            primitive.ufunc_dtypes = kernel.dtypes
            primitive.ufunc_scalar_dtypes = kernel.dtypes & _FLOATS
    e.div_p.ufunc = np.divide
    e.div_p.ufunc_dtypes = e.div_p.ufunc_scalar_dtypes = _FLOATS


install()
