"""The native CPU backend: primitive -> how it becomes LLVM code.

A row of an elementwise primitive is an `Elementwise`; fusion puts such operations into loop nests.
A reduction's row is the set of dtypes that it folds natively. Where complex numbers are among the
operands or the result, the rows of COMPLEX_KERNELS come first; only the CPU has them. What has no
row here, or a row that does not take its dtypes, runs by the NumPy table inside of the same
program.
"""

from __future__ import annotations

from mgefn.backends.llvm_kernels import complex_numbers as cn
from mgefn.backends.llvm_kernels import contractions as co
from mgefn.backends.llvm_kernels import control as ct
from mgefn.backends.llvm_kernels import convolution as cv
from mgefn.backends.llvm_kernels import decompositions as de
from mgefn.backends.llvm_kernels import elementwise as ew
from mgefn.backends.llvm_kernels import fourier as fo
from mgefn.backends.llvm_kernels import linalg as la
from mgefn.backends.llvm_kernels import movement as mv
from mgefn.backends.llvm_kernels import random_bits as bits
from mgefn.backends.llvm_kernels import sequences as sq
from mgefn.backends.llvm_kernels import windows as wi
from mgefn.backends.numpy_cpu import KERNELS as REFERENCE
from mgefn.compiler.codegen.values import ALL, BOOL, INTEGERS, NUMBERS
from mgefn.compiler.fusion import copy_p
from mgefn.control.branching import cond_p
from mgefn.control.linalg.eigen import eig_p, eigh_p, schur_p
from mgefn.control.linalg.lu import cofactor_p, det_p, lu_p, lu_pivots_to_permutation_p, solve_p
from mgefn.control.linalg.qr import geqrf_p, householder_product_p, qr_p
from mgefn.control.linalg.spread import spread_p
from mgefn.control.linalg.svd import pinv_p, svd_p
from mgefn.control.linalg.triangular import cholesky_p, triangular_solve_p
from mgefn.control.linalg.tridiagonal import tridiagonal_solve_p
from mgefn.control.loops import while_p
from mgefn.control.scan import scan_p
from mgefn.core.backends import register
from mgefn.interpreters.jit import jit_p
from mgefn.ops import contractions as c
from mgefn.ops import cumulative as u
from mgefn.ops import elementwise as e
from mgefn.ops import indexing as i
from mgefn.ops import random_bits as rb
from mgefn.ops import reductions as r
from mgefn.ops import shaping as s
from mgefn.ops import sorting as t
from mgefn.ops import special
from mgefn.ops import windows as w
from mgefn.ops.convolution import conv_general_dilated_p
from mgefn.ops.fft import fft_p

KERNELS = {
    copy_p: ew.stop_gradient.or_else(mv.reshape),
    # control flow
    jit_p: ct.call,
    cond_p: ct.cond,
    scan_p: ct.scan,
    while_p: ct.while_,
    # contractions
    c.dot_general_p: co.dot_general,
    conv_general_dilated_p: cv.conv_general_dilated,
    # Fourier transforms
    fft_p: fo.fft,
    # linear algebra
    cholesky_p: la.cholesky,
    triangular_solve_p: la.triangular_solve,
    lu_p: la.lu,
    lu_pivots_to_permutation_p: la.lu_pivots_to_permutation,
    solve_p: la.solve,
    det_p: la.det,
    qr_p: de.qr,
    geqrf_p: de.geqrf,
    householder_product_p: de.householder_product,
    svd_p: de.svd,
    eigh_p: de.eigh,
    eig_p: de.eig,
    schur_p: de.schur,
    tridiagonal_solve_p: de.tridiagonal_solve,
    spread_p: de.spread,
    pinv_p: de.pinv,
    cofactor_p: de.cofactor,
    # windows
    w.reduce_window_sum_p: wi.reduce_window_sum,
    w.reduce_window_max_p: wi.reduce_window_max,
    w.reduce_window_min_p: wi.reduce_window_min,
    w.select_and_gather_add_p: wi.select_and_gather_add,
    w.select_and_scatter_add_p: wi.select_and_scatter_add,
    # movement
    s.concatenate_p: mv.concatenate,
    s.pad_p: mv.pad,
    s.reshape_p: mv.reshape,
    i.dynamic_slice_p: mv.dynamic_slice,
    i.dynamic_update_slice_p: mv.dynamic_update_slice,
    i.gather_p: mv.gather,
    i.scatter_p: mv.scatter,
    i.scatter_add_p: mv.scatter_add,
    i.scatter_mul_p: mv.scatter_mul,
    i.scatter_min_p: mv.scatter_min,
    i.scatter_max_p: mv.scatter_max,
    t.take_along_p: mv.take_along,
    t.put_along_p: mv.put_along,
    # scans and positions
    u.cumsum_p: sq.cumsum,
    u.cumprod_p: sq.cumprod,
    u.cummax_p: sq.cummax,
    u.cummin_p: sq.cummin,
    u.cumlogsumexp_p: sq.cumlogsumexp,
    r.argmax_p: sq.argmax,
    r.argmin_p: sq.argmin,
    # sorting
    t.sort_p: sq.sort,
    t.argsort_p: sq.argsort,
    t.top_k_p: sq.top_k,
    t.searchsorted_p: sq.searchsorted,
    # reductions: the dtypes
    r.reduce_sum_p: NUMBERS,
    r.reduce_prod_p: NUMBERS,
    r.reduce_max_p: ALL,
    r.reduce_min_p: ALL,
    r.reduce_and_p: INTEGERS | BOOL,
    r.reduce_or_p: INTEGERS | BOOL,
    r.reduce_xor_p: INTEGERS | BOOL,
    # elementwise: arithmetic
    e.scale_p: ew.scale,
    e.add_p: ew.add,
    e.sub_p: ew.subtract,
    e.mul_p: ew.multiply,
    e.div_p: ew.divide,
    e.neg_p: ew.negative,
    e.rem_p: ew.rem,
    e.square_p: ew.square,
    e.sqrt_p: ew.sqrt,
    e.rsqrt_p: ew.of_math("rsqrt", 10),
    e.cbrt_p: ew.of_math("cbrt", 20),
    e.pow_p: ew.of_math("pow", 40),
    e.integer_pow_p: ew.integer_pow,
    e.nextafter_p: ew.of_math("nextafter", 5),
    # elementwise: sign, rounding
    e.sign_p: ew.sign,
    e.floor_p: ew.floor,
    e.ceil_p: ew.ceil,
    e.round_p: ew.round_,
    e.is_finite_p: ew.is_finite,
    e.abs_p: ew.absolute,
    e.copysign_p: ew.copysign,
    e.zero_sign_p: ew.zero_sign,
    # elementwise: exponentials
    e.exp_p: ew.of_math("exp", 12),
    e.exp2_p: ew.of_math("exp2", 12),
    e.expm1_p: ew.of_math("expm1", 16),
    e.log_p: ew.of_math("log", 16),
    e.log1p_p: ew.of_math("log1p", 20),
    e.logistic_p: ew.of_math("logistic", 18),
    e.logaddexp_p: ew.of_math("logaddexp", 40),
    # elementwise: trigonometric and hyperbolic
    e.sin_p: ew.of_math("sin", 20),
    e.cos_p: ew.of_math("cos", 20),
    e.tan_p: ew.of_math("tan", 30),
    e.asin_p: ew.of_math("asin", 20),
    e.acos_p: ew.of_math("acos", 20),
    e.atan_p: ew.of_math("atan", 20),
    e.atan2_p: ew.of_math("atan2", 25),
    e.sinh_p: ew.of_math("sinh", 20),
    e.cosh_p: ew.of_math("cosh", 20),
    e.tanh_p: ew.of_math("tanh", 18),
    e.asinh_p: ew.of_math("asinh", 25),
    e.acosh_p: ew.of_math("acosh", 25),
    e.atanh_p: ew.of_math("atanh", 25),
    e.hypot_p: ew.of_math("hypot", 15),
    # elementwise: random bits
    rb.threefry2x32_p: bits.threefry2x32,
    rb.sampling_log_p: bits.sampling_log,
    rb.sampling_log1p_p: bits.sampling_log1p,
    rb.sampling_exp_p: bits.sampling_exp,
    rb.sampling_erf_p: bits.sampling_erf,
    rb.sampling_erf_inv_p: bits.sampling_erf_inv,
    rb.sampling_fma_p: bits.sampling_fma,
    # elementwise: special functions
    special.erf_p: ew.of_math("erf", 20),
    special.erfc_p: ew.of_math("erfc", 40),
    special.erf_inv_p: ew.of_math("erf_inv", 40),
    special.lgamma_p: ew.lgamma,
    special.digamma_p: ew.of_math("digamma", 80),
    # elementwise: comparison and logic
    e.eq_p: ew.equal,
    e.ne_p: ew.not_equal,
    e.lt_p: ew.less,
    e.le_p: ew.less_equal,
    e.gt_p: ew.greater,
    e.ge_p: ew.greater_equal,
    e.not_p: ew.invert,
    e.and_p: ew.bitwise_and,
    e.or_p: ew.bitwise_or,
    e.xor_p: ew.bitwise_xor,
    e.shift_left_p: ew.shift_left,
    e.shift_right_arithmetic_p: ew.shift_right_arithmetic,
    e.shift_right_logical_p: ew.shift_right_logical,
    e.population_count_p: ew.population_count,
    e.clz_p: ew.clz,
    # elementwise: choice and conversion
    e.max_p: ew.maximum,
    e.min_p: ew.minimum,
    e.select_n_p: ew.select_n,
    e.clamp_p: ew.clamp,
    e.convert_element_type_p: ew.convert_element_type,
    e.bitcast_convert_type_p: ew.bitcast_convert_type.or_else(mv.reshape),
    e.stop_gradient_p: ew.stop_gradient.or_else(mv.reshape),
}

# Where operands or the result are complex. Not here, and so NumPy's: inverse functions (asin, acos,
# atan, asinh, acosh, atanh), which need another method in each of several regions to keep all
# digits; pow by other exponents than one constant, which NumPy multiplies out where they are whole
# numbers, element by element, to more digits than exp(y log(x)) has; and reductions by order.
COMPLEX_KERNELS = {
    copy_p: cn.copied.or_else(mv.reshape),
    c.dot_general_p: cn.dot_general,
    # reductions: the dtypes
    r.reduce_sum_p: cn.DTYPES,
    r.reduce_prod_p: cn.DTYPES,
    # elementwise: arithmetic
    e.scale_p: cn.scale,
    e.add_p: cn.add,
    e.sub_p: cn.subtract,
    e.mul_p: cn.multiply,
    e.div_p: cn.divide,
    e.neg_p: cn.negative,
    e.square_p: cn.square,
    e.sqrt_p: cn.sqrt_,
    e.rsqrt_p: cn.rsqrt,
    e.integer_pow_p: cn.integer_pow,
    e.pow_p: cn.pow_,
    e.sign_p: cn.sign,
    e.is_finite_p: cn.is_finite,
    e.abs_p: cn.absolute_value,
    # elementwise: exponentials
    e.exp_p: cn.exp,
    e.exp2_p: cn.exp2,
    e.expm1_p: cn.expm1,
    e.log_p: cn.log,
    e.log1p_p: cn.log1p,
    e.logistic_p: cn.logistic,
    # elementwise: trigonometric and hyperbolic
    e.sin_p: cn.sin,
    e.cos_p: cn.cos,
    e.tan_p: cn.tan,
    e.sinh_p: cn.sinh,
    e.cosh_p: cn.cosh,
    e.tanh_p: cn.tanh,
    # elementwise: complex parts
    e.real_p: cn.real,
    e.imag_p: cn.imag,
    e.conj_p: cn.conj,
    e.complex_p: cn.complex_,
    # elementwise: comparison, choice, conversion
    e.eq_p: cn.equal,
    e.ne_p: cn.not_equal,
    e.lt_p: cn.less,
    e.le_p: cn.less_equal,
    e.gt_p: cn.greater,
    e.ge_p: cn.greater_equal,
    e.max_p: cn.maximum,
    e.min_p: cn.minimum,
    e.select_n_p: cn.select_n,
    e.convert_element_type_p: cn.convert_element_type,
    e.stop_gradient_p: cn.copied.or_else(mv.reshape),
}

register("llvm", KERNELS)
register("llvm complex", COMPLEX_KERNELS)
# What is copied into memory of its own may have a dtype that only NumPy's kernels take.
register("numpy", {copy_p: REFERENCE[e.stop_gradient_p]})
