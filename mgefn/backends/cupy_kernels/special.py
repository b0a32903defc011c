"""Kernels of `ops/special.py`: CuPy's functions, 2-byte floats in float32."""

from __future__ import annotations

from typing import Any

import numpy as np

from mgefn.backends.cupy_kernels.base import ViaFloat32
from mgefn.backends.numpy_kernels.special import sinc_series
from mgefn.core import cuda
from mgefn.core.cuda import special, xp

F64 = np.dtype(np.float64)

# How many terms of a series are added between two looks at whether they still matter.
LOOK_EVERY = 32
MOST_TERMS = 2016


def _named(name: str) -> ViaFloat32:
    """A function of cupyx.scipy.special."""
    return ViaFloat32(lambda *arrays: getattr(special, name)(*arrays))


erf, erfc, erf_inv = _named("erf"), _named("erfc"), _named("erfinv")
lgamma, digamma = _named("gammaln"), _named("psi")
bessel_i0e, bessel_i1e = _named("i0e"), _named("i1e")
igamma, igammac = _named("gammainc"), _named("gammaincc")
regularized_incomplete_beta, zeta = _named("betainc"), _named("zeta")
gamma, erfcx, ndtri = _named("gamma"), _named("erfcx"), _named("ndtri")
expi = _named("expi")
complex_lgamma, complex_digamma = _named("loggamma"), _named("psi")
sine_integral = ViaFloat32(lambda x: special.sici(x)[0])
cosine_integral = ViaFloat32(lambda x: special.sici(x)[1])


def _polygamma(m: Any, x: Any) -> Any:
    """(-1)**(m + 1) m! zeta(m + 1, x), and digamma for m = 0."""
    order, wide = m.astype(F64), x.astype(F64)
    sign = 1 - 2 * xp.fmod(order + 1, 2)
    high = sign * special.gamma(order + 1) * special.zeta(order + 1, wide)
    return xp.where(xp.equal(m, 0), special.psi(wide), high).astype(x.dtype)


polygamma = ViaFloat32(_polygamma)


def _sinc_of(x: Any) -> Any:
    safe = xp.where(xp.equal(x, 0), x.dtype.type(1), x) * np.pi
    return xp.where(xp.equal(x, 0), x.dtype.type(1), xp.sin(safe) / safe)


def sinc(x: Any) -> tuple:
    wide = x.astype(np.complex128 if x.dtype.kind == "c" else F64)
    return (_narrowed(_sinc_of(wide), x.dtype),)


def _narrowed(wide: Any, dtype: np.dtype) -> Any:
    """float64 in another dtype; CuPy knows bfloat16 from float32 only."""
    return (wide.astype(np.float32) if dtype.kind == "V" else wide).astype(dtype)


def sinc_derivative(x: Any, *, order: int) -> tuple:
    """The derivative of a given order of sin(pi x) / (pi x); see the NumPy kernel."""
    wide = (x.astype(np.float32) if x.dtype.kind == "V" else x).astype(
        np.complex128 if x.dtype.kind == "c" else F64
    )
    near = xp.less(xp.absolute(wide), 1 + 0.3 * order)
    f = _sinc_of(wide)
    safe = xp.where(near, wide.dtype.type(1), wide)
    for n in range(1, order + 1):
        f = (np.pi ** (n - 1) * xp.sin(np.pi * wide + n * np.pi / 2) - n * f) / safe
    series = xp.zeros(wide.shape, wide.dtype)
    least, coefficients = sinc_series(order)
    power = wide if least else xp.ones(wide.shape, wide.dtype)
    for coefficient in coefficients:
        series = series + coefficient * power
        power = power * wide * wide
    return (_narrowed(xp.where(near, series, f), x.dtype),)


# -- derivatives of the incomplete gamma function -------------------------------------------------


def _grad_series(a: Any, x: Any) -> tuple[Any, Any]:
    """The sum over n of x**n Gamma(a + 1) / Gamma(a + n + 1), and its derivative in a."""
    term = xp.ones(a.shape, F64)
    d_term = xp.zeros(a.shape, F64)
    total, d_total = term, d_term
    for n in range(1, MOST_TERMS):
        r = x / (a + n)
        d_term = d_term * r - term * r / (a + n)
        term = term * r
        total, d_total = total + term, d_total + d_term
        if n % LOOK_EVERY == 0:
            small = xp.less_equal(xp.absolute(d_term), 1e-17 * xp.absolute(d_total) + 1e-300)
            if cuda.flag(xp.all(small)):
                break
    return total, d_total


def _grad_fraction(a: Any, x: Any) -> tuple[Any, Any]:
    """Q relative to x**a e**-x / Gamma(a), and its derivative, by the continued fraction."""
    y, z, c = 1 - a, x + 1 - a + 1, 0.0
    one, zero = xp.ones(a.shape, F64), xp.zeros(a.shape, F64)
    p2, q2, p1, q1 = one, x, x + 1, z * x
    dp2, dq2, dp1, dq1 = zero, zero, zero, -x
    ratio = p1 / q1
    d_ratio = (dp1 - ratio * dq1) / q1
    done = xp.zeros(a.shape, bool)
    for n in range(1, MOST_TERMS):
        c += 1
        y, z = y + 1, z + 2
        yc = y * c
        p0, q0 = p1 * z - p2 * yc, q1 * z - q2 * yc
        dp0 = dp1 * z - p1 - dp2 * yc + p2 * c
        dq0 = dq1 * z - q1 - dq2 * yc + q2 * c
        usable = xp.not_equal(q0, 0) & ~done
        safe = xp.where(usable, q0, 1.0)
        new = xp.where(usable, p0 / safe, ratio)
        d_new = xp.where(usable, (dp0 - new * dq0) / safe, d_ratio)
        settled = xp.absolute(d_new - d_ratio) <= 1e-16 * xp.absolute(d_new) + 1e-300
        # What has settled stays: further terms would only add rounding.
        done = done | (settled & usable)
        ratio, d_ratio = new, d_new
        s = xp.where(xp.greater(xp.absolute(p0), 1e150), 1e-150, 1.0)
        p2, q2, p1, q1 = p1 * s, q1 * s, p0 * s, q0 * s
        dp2, dq2, dp1, dq1 = dp1 * s, dq1 * s, dp0 * s, dq0 * s
        if n % LOOK_EVERY == 0 and cuda.flag(xp.all(done)):
            break
    return ratio, d_ratio


def _grad_a(a: Any, x: Any) -> Any:
    dtype = a.dtype
    a, x = a.astype(F64), x.astype(F64)
    shape = a.shape or x.shape
    a, x = xp.broadcast_to(a, shape), xp.broadcast_to(x, shape)
    valid = xp.greater(a, 0) & xp.greater(x, 0) & xp.isfinite(x) & xp.isfinite(a)
    by_series = xp.less_equal(x, 1) | xp.less_equal(x, a)

    def chosen(where: Any) -> tuple[Any, Any]:
        return xp.where(where, a, 1.0), xp.where(where, x, 1.0)

    safe_a, safe_x = chosen(valid & by_series)
    total, d_total = _grad_series(safe_a, safe_x)
    factor = xp.exp(safe_a * xp.log(safe_x) - safe_x - special.gammaln(safe_a + 1))
    inner = factor * (d_total + total * (xp.log(safe_x) - special.psi(safe_a + 1)))
    safe_a, safe_x = chosen(valid & ~by_series)
    ratio, d_ratio = _grad_fraction(safe_a, safe_x)
    factor = xp.exp(safe_a * xp.log(safe_x) - safe_x - special.gammaln(safe_a))
    outer = -factor * (d_ratio + ratio * (xp.log(safe_x) - special.psi(safe_a)))
    # P(a, 0) = 0 and P(a, inf) = 1 for every a.
    infinite = xp.isinf(x) & xp.greater(x, 0)
    flat = xp.greater(a, 0) & (xp.equal(x, 0) | infinite)
    otherwise = xp.where(flat, F64.type(0), F64.type(np.nan))
    return xp.where(valid, xp.where(by_series, inner, outer), otherwise).astype(dtype)


def _sample_grad(a: Any, x: Any) -> Any:
    wide_a, wide_x = a.astype(F64), x.astype(F64)
    log_density = (wide_a - 1) * xp.log(wide_x) - wide_x - special.gammaln(wide_a)
    return (-_grad_a(wide_a, wide_x) / xp.exp(log_density)).astype(a.dtype)


igamma_grad_a, random_gamma_grad = ViaFloat32(_grad_a), ViaFloat32(_sample_grad)


def _expn(n: Any, x: Any) -> Any:
    """Exponential integrals; of negative order -m by the sum m! / x**(m + 1) * Q(m + 1, x)."""
    order, wide = n.astype(F64), x.astype(F64)
    whole = xp.equal(xp.floor(order), order)
    # Beyond 1e9 the integral differs from that by less than rounding.
    index = xp.where(whole & xp.greater_equal(order, 0), xp.minimum(order, 1e9), 0.0)
    up = xp.where(xp.less(order, 0), 1 - order, 1.0)
    falling = special.gamma(up) * special.gammaincc(up, wide) / xp.power(wide, up)
    found = xp.where(xp.less(order, 0), falling, special.expn(index, wide))
    return xp.where(whole, found, F64.type(np.nan)).astype(x.dtype)


expn = ViaFloat32(_expn)
