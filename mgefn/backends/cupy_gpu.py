"""The CuPy backend: primitive -> kernel on an NVIDIA GPU, one row for each primitive.

`UNSUPPORTED` gives the reason for what a device has no kernel for; a `Limited` row takes some
operands only and says which; a `Program` row runs what the primitive holds.
"""

from __future__ import annotations

from mgefn.backends.cupy_kernels import contractions as co
from mgefn.backends.cupy_kernels import convolution as cv
from mgefn.backends.cupy_kernels import cumulative as cu
from mgefn.backends.cupy_kernels import elementwise as ew
from mgefn.backends.cupy_kernels import fft as ff
from mgefn.backends.cupy_kernels import indexing as ix
from mgefn.backends.cupy_kernels import linalg as la
from mgefn.backends.cupy_kernels import programs as pr
from mgefn.backends.cupy_kernels import random_bits as rb
from mgefn.backends.cupy_kernels import reductions as rd
from mgefn.backends.cupy_kernels import sampling as sa
from mgefn.backends.cupy_kernels import shaping as sh
from mgefn.backends.cupy_kernels import sorting as so
from mgefn.backends.cupy_kernels import special as spk
from mgefn.backends.cupy_kernels import windows as wi
from mgefn.backends.cupy_kernels.base import Limited, Ufunc, copied
from mgefn.compiler.fusion import copy_p
from mgefn.control import branching, checkpoint, custom_batching, implicit, linear_call, loops, scan
from mgefn.control import callbacks as cb
from mgefn.control import checks as ch
from mgefn.control import reduce as red
from mgefn.control.custom_rules import jvp as cr_jvp
from mgefn.control.custom_rules import vjp as cr_vjp
from mgefn.control.linalg import eigen, lu, qr, svd, triangular, tridiagonal
from mgefn.control.linalg import spread as spread_
from mgefn.core.backends import register
from mgefn.core.primitive import Primitive
from mgefn.interpreters.jit import jit_p
from mgefn.ops import collectives as col
from mgefn.ops import contractions as c
from mgefn.ops import convolution as v
from mgefn.ops import cumulative as u
from mgefn.ops import elementwise as e
from mgefn.ops import fft as f
from mgefn.ops import indexing as i
from mgefn.ops import random_bits as b
from mgefn.ops import reductions as r
from mgefn.ops import shaping as s
from mgefn.ops import sorting as t
from mgefn.ops import special as sp
from mgefn.ops import windows as w

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
    copy_p: copied,
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
    e.add_p: Ufunc("add"),
    e.sub_p: Ufunc("subtract"),
    e.mul_p: Ufunc("multiply"),
    e.div_p: ew.divide,
    e.neg_p: Ufunc("negative"),
    e.rem_p: ew.rem,
    e.square_p: Ufunc("square"),
    e.sqrt_p: Ufunc("sqrt"),
    e.rsqrt_p: ew.rsqrt,
    e.cbrt_p: Ufunc("cbrt"),
    e.pow_p: Ufunc("power"),
    e.integer_pow_p: ew.integer_pow,
    e.nextafter_p: ew.nextafter,
    # elementwise: sign, rounding
    e.sign_p: ew.sign,
    e.floor_p: ew.floor,
    e.ceil_p: ew.ceil,
    e.round_p: ew.round_,
    e.is_finite_p: Ufunc("isfinite"),
    e.abs_p: Ufunc("absolute"),
    e.copysign_p: Ufunc("copysign"),
    e.zero_sign_p: ew.zero_sign,
    # elementwise: exponentials
    e.exp_p: Ufunc("exp"),
    e.exp2_p: Ufunc("exp2"),
    e.expm1_p: Ufunc("expm1"),
    e.log_p: Ufunc("log"),
    e.log1p_p: Ufunc("log1p"),
    e.logistic_p: ew.logistic,
    e.logaddexp_p: Ufunc("logaddexp"),
    # elementwise: trigonometric and hyperbolic
    e.sin_p: Ufunc("sin"),
    e.cos_p: Ufunc("cos"),
    e.tan_p: Ufunc("tan"),
    e.asin_p: Ufunc("arcsin"),
    e.acos_p: Ufunc("arccos"),
    e.atan_p: Ufunc("arctan"),
    e.atan2_p: Ufunc("arctan2"),
    e.sinh_p: Ufunc("sinh"),
    e.cosh_p: Ufunc("cosh"),
    e.tanh_p: Ufunc("tanh"),
    e.asinh_p: Ufunc("arcsinh"),
    e.acosh_p: Ufunc("arccosh"),
    e.atanh_p: Ufunc("arctanh"),
    e.hypot_p: Ufunc("hypot"),
    # elementwise: complex parts
    e.real_p: ew.real,
    e.imag_p: ew.imag,
    e.conj_p: Ufunc("conjugate"),
    e.complex_p: ew.complex_,
    # elementwise: comparison and logic
    e.eq_p: Ufunc("equal"),
    e.ne_p: Ufunc("not_equal"),
    e.lt_p: Ufunc("less"),
    e.le_p: Ufunc("less_equal"),
    e.gt_p: Ufunc("greater"),
    e.ge_p: Ufunc("greater_equal"),
    e.not_p: Ufunc("invert"),
    e.and_p: Ufunc("bitwise_and"),
    e.or_p: Ufunc("bitwise_or"),
    e.xor_p: Ufunc("bitwise_xor"),
    e.shift_left_p: ew.shift_left,
    e.shift_right_arithmetic_p: ew.shift_right_arithmetic,
    e.shift_right_logical_p: ew.shift_right_logical,
    e.population_count_p: ew.population_count,
    e.clz_p: ew.clz,
    # elementwise: choice and conversion
    e.max_p: Ufunc("maximum"),
    e.min_p: Ufunc("minimum"),
    e.select_n_p: ew.select_n,
    e.clamp_p: ew.clamp,
    e.convert_element_type_p: Limited(
        ew.convert_element_type, ew.conversion_refused, "not to float8"
    ),
    e.reduce_precision_p: ew.reduce_precision,
    e.bitcast_convert_type_p: Limited(
        ew.bitcast_convert_type, ew.conversion_refused, "not to float8"
    ),
    e.stop_gradient_p: ew.same,
    # convolution, windows, Fourier transforms
    v.conv_general_dilated_p: cv.conv_general_dilated,
    w.reduce_window_sum_p: wi.reduce_window_sum,
    w.reduce_window_max_p: wi.reduce_window_max,
    w.reduce_window_min_p: wi.reduce_window_min,
    w.select_and_gather_add_p: wi.select_and_gather_add,
    w.select_and_scatter_add_p: wi.select_and_scatter_add,
    f.fft_p: ff.fft,
    # random bits
    b.threefry2x32_p: rb.threefry2x32,
    b.sampling_log_p: sa.log,
    b.sampling_log1p_p: sa.log1p,
    b.sampling_exp_p: sa.exp,
    b.sampling_erf_p: sa.erf,
    b.sampling_erf_inv_p: sa.erf_inv,
    b.sampling_fma_p: sa.fma,
    # special
    sp.igamma_p: spk.igamma,
    sp.igammac_p: spk.igammac,
    sp.igamma_grad_a_p: spk.igamma_grad_a,
    sp.random_gamma_grad_p: spk.random_gamma_grad,
    sp.regularized_incomplete_beta_p: spk.regularized_incomplete_beta,
    sp.zeta_p: spk.zeta,
    sp.erf_p: spk.erf,
    sp.erfc_p: spk.erfc,
    sp.erf_inv_p: spk.erf_inv,
    sp.lgamma_p: spk.lgamma,
    sp.digamma_p: spk.digamma,
    sp.polygamma_p: spk.polygamma,
    sp.bessel_i0e_p: spk.bessel_i0e,
    sp.bessel_i1e_p: spk.bessel_i1e,
    sp.sinc_p: spk.sinc,
    sp.sinc_derivative_p: spk.sinc_derivative,
    sp.gamma_p: spk.gamma,
    sp.erfcx_p: spk.erfcx,
    sp.ndtri_p: spk.ndtri,
    sp.expi_p: spk.expi,
    sp.expn_p: spk.expn,
    sp.sine_integral_p: spk.sine_integral,
    sp.cosine_integral_p: spk.cosine_integral,
    sp.complex_lgamma_p: spk.complex_lgamma,
    sp.complex_digamma_p: spk.complex_digamma,
    # linear algebra
    triangular.triangular_solve_p: la.triangular_solve,
    triangular.cholesky_p: la.cholesky,
    lu.lu_p: la.lu,
    lu.lu_pivots_to_permutation_p: la.lu_pivots_to_permutation,
    lu.solve_p: la.solve,
    lu.det_p: la.det,
    lu.cofactor_p: la.cofactor,
    qr.qr_p: la.qr,
    qr.geqrf_p: la.geqrf,
    qr.householder_product_p: la.householder_product,
    svd.svd_p: la.svd,
    svd.pinv_p: la.pinv,
    spread_.spread_p: la.spread,
    eigen.eigh_p: la.eigh,
    eigen.eig_p: la.eig,
    tridiagonal.tridiagonal_solve_p: la.tridiagonal_solve,
    # what holds programs
    jit_p: pr.call,
    checkpoint.remat_p: pr.call,
    checkpoint.name_p: lambda x, *, name: (x,),
    checkpoint.optimization_barrier_p: lambda *arrays: arrays,
    linear_call.linear_call_p: pr.call,
    custom_batching.custom_vmap_p: pr.call,
    cr_jvp.custom_jvp_staged_p: pr.call,
    cr_vjp.custom_vjp_staged_p: pr.call,
    cr_jvp.custom_jvp_call_p: pr.own_way(cr_jvp.custom_jvp_call_p),
    cr_vjp.custom_vjp_call_p: pr.own_way(cr_vjp.custom_vjp_call_p),
    cr_vjp.custom_transpose_call_p: pr.own_way(cr_vjp.custom_transpose_call_p),
    implicit.linear_solve_p: pr.linear_solve,
    red.reduce_p: pr.own_way(red.reduce_p),
    branching.cond_p: pr.cond,
    loops.while_p: pr.while_,
    scan.scan_p: pr.scan,
    # what the host does
    ch.check_p: pr.by_host(ch.check_p, "the host reads the verdict"),
    cb.pure_callback_p: pr.by_host(cb.pure_callback_p, "the callback gets copies on the host"),
    cb.io_callback_p: pr.by_host(cb.io_callback_p, "the callback gets copies on the host"),
    cb.debug_callback_p: pr.by_host(cb.debug_callback_p, "the callback gets copies on the host"),
    # collectives: none is left to compute once vmap has read them
    col.all_gather_p: pr.own_way(col.all_gather_p),
    col.all_to_all_p: pr.own_way(col.all_to_all_p),
    col.axis_index_p: pr.own_way(col.axis_index_p),
    col.pmax_p: pr.own_way(col.pmax_p),
    col.pmin_p: pr.own_way(col.pmin_p),
    col.ppermute_p: pr.own_way(col.ppermute_p),
    col.psum_p: pr.own_way(col.psum_p),
    col.psum_scatter_p: pr.own_way(col.psum_scatter_p),
}

_MISSING = "cupyx.scipy.special has no such function"

UNSUPPORTED: dict[Primitive, str] = {
    sp.dawsn_p: _MISSING,
    sp.spence_p: _MISSING,
    sp.fresnel_sin_p: _MISSING,
    sp.fresnel_cos_p: _MISSING,
    sp.bessel_j_p: "cupyx.scipy.special has Bessel functions of orders 0 and 1 only",
    sp.owens_t_p: _MISSING,
    sp.hyp1f1_p: _MISSING,
    sp.hyp2f1_p: _MISSING,
    sp.wofz_p: _MISSING,
    eigen.schur_p: "cuSOLVER has no Schur decomposition",
}

register("cupy", KERNELS, UNSUPPORTED)
