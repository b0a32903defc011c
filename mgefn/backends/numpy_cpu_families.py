"""The rest of the NumPy backend's table: families that few programs need.

Loaded when a primitive without a kernel is first met, so that `import mgefn` need not wait for it.
"""

from __future__ import annotations

from mgefn.backends.numpy_kernels import convolution as cv
from mgefn.backends.numpy_kernels import fft as ff
from mgefn.backends.numpy_kernels import linalg as la
from mgefn.backends.numpy_kernels import random_bits as rb
from mgefn.backends.numpy_kernels import sampling as sa
from mgefn.backends.numpy_kernels import special as spk
from mgefn.backends.numpy_kernels import windows as wi
from mgefn.control import callbacks as cb
from mgefn.control import checkpoint as cp
from mgefn.control.linalg import eigen, lu, qr, svd, triangular, tridiagonal
from mgefn.control.linalg import spread as spread_
from mgefn.core.backends import register
from mgefn.ops import convolution as v
from mgefn.ops import fft as f
from mgefn.ops import random_bits as b
from mgefn.ops import special as sp
from mgefn.ops import windows as w

KERNELS = {
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
    sp.dawsn_p: spk.dawsn,
    sp.spence_p: spk.spence,
    sp.expi_p: spk.expi,
    sp.expn_p: spk.expn,
    sp.fresnel_sin_p: spk.fresnel_sin,
    sp.fresnel_cos_p: spk.fresnel_cos,
    sp.sine_integral_p: spk.sine_integral,
    sp.cosine_integral_p: spk.cosine_integral,
    sp.bessel_j_p: spk.bessel_j,
    sp.owens_t_p: spk.owens_t,
    sp.hyp1f1_p: spk.hyp1f1,
    sp.hyp2f1_p: spk.hyp2f1,
    sp.wofz_p: spk.wofz,
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
    eigen.schur_p: la.schur,
    tridiagonal.tridiagonal_solve_p: la.tridiagonal_solve,
    # programs: callbacks, checkpoint
    cb.pure_callback_p: cb.callback_kernel,
    cb.io_callback_p: cb.callback_kernel,
    cb.debug_callback_p: cb.callback_kernel,
    cp.name_p: cp.name_kernel,
    cp.optimization_barrier_p: cp.barrier_kernel,
}

register("numpy", KERNELS)
