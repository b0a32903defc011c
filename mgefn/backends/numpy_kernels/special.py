"""Kernels of `ops/special.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mgefn.backends.numpy_kernels.base import ViaFloat32, deliver, temp_bytes


def _scipy(name: str) -> ViaFloat32:
    """A function of scipy.special, imported at its first call."""
    found: list[Any] = []

    def call(*arrays: np.ndarray) -> Any:
        if not found:
            import scipy.special  # a heavy library, needed by few programs

            found.append(getattr(scipy.special, name))
        return found[0](*arrays)

    call.__name__ = name
    return ViaFloat32(call)


# -- error, gamma and Bessel functions, sinc

erf, erfc, erf_inv = _scipy("erf"), _scipy("erfc"), _scipy("erfinv")
lgamma, digamma = _scipy("gammaln"), _scipy("psi")
bessel_i0e, bessel_i1e = _scipy("i0e"), _scipy("i1e")


def _polygamma(m: np.ndarray, x: np.ndarray) -> np.ndarray:
    import scipy.special  # a heavy library, needed by few programs

    return np.asarray(scipy.special.polygamma(m.astype(np.int64), x)).astype(x.dtype)


polygamma = ViaFloat32(_polygamma)


def sinc(x, *, outs: tuple = (None,)) -> tuple:
    return (deliver(np.sinc(x).astype(x.dtype), outs[0]),)


def sinc_series(order: int) -> tuple[int, list[float]]:
    """The least power of a derivative of sin(pi x) / (pi x), and its series from there on by 2.

    That is the sum over k of (-1)**k pi**(2k) x**(2k) / (2k+1)!, differentiated `order` times.
    """
    first = (order + 1) // 2
    coefficients = []
    for k in range(first, first + 40):
        coefficient = (-1.0) ** k * np.pi ** (2 * k)
        for i in range(1, 2 * k + 2):
            coefficient /= i
        for i in range(2 * k - order + 1, 2 * k + 1):
            coefficient *= i
        coefficients.append(coefficient)
    return 2 * first - order, coefficients


def sinc_derivative(x, *, order, outs: tuple = (None,)) -> tuple:
    """The derivative of a given order of sin(pi x) / (pi x).

    sinc is the integral of cos(pi x t) over t in [0, 1]; its n-th derivative is that of
    (pi t)**n cos(pi x t + n pi / 2). Near 0 the Taylor series of it, elsewhere the recurrence
    x f(n) + n f(n-1) = d^n/dx^n sin(pi x) / pi.
    """
    wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    near = np.abs(wide) < 1 + 0.3 * order
    f = np.sinc(wide)
    safe = np.where(near, 1, wide)
    for n in range(1, order + 1):
        f = (np.pi ** (n - 1) * np.sin(np.pi * wide + n * np.pi / 2) - n * f) / safe
    series = np.zeros_like(wide)
    least, coefficients = sinc_series(order)
    power = wide**least
    for coefficient in coefficients:
        series = series + coefficient * power
        power = power * wide * wide
    return (deliver(np.where(near, series, f).astype(x.dtype), outs[0]),)


for _k in (sinc, sinc_derivative):
    temp_bytes(lambda i, o, **p: 96 * o[0].size + 2 * o[0].nbytes)(_k)


# -- incomplete gamma and beta, zeta

igamma, igammac = _scipy("gammainc"), _scipy("gammaincc")
regularized_incomplete_beta, zeta = _scipy("betainc"), _scipy("zeta")


def _grad_series(a: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """P and dP/da by P = x**a e**-x * sum over n of x**n / Gamma(a + n + 1), for x up to about a.

    Returns the sum relative to x**a e**-x / Gamma(a + 1), and its derivative in a.
    """
    term = np.ones_like(a)
    d_term = np.zeros_like(a)  # derivative of the term in a
    total, d_total = term.copy(), d_term.copy()
    for n in range(1, 2000):
        r = x / (a + n)
        d_term = d_term * r - term * r / (a + n)
        term = term * r
        total += term
        d_total += d_term
        if np.all(np.abs(d_term) <= 1e-17 * np.abs(d_total) + 1e-300):
            break
    return total, d_total


def _grad_fraction(a: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Q relative to x**a e**-x / Gamma(a), and its derivative, by the continued fraction."""
    y, z, c = 1 - a, x + 1 - a + 1, 0.0
    p2, q2, p1, q1 = np.ones_like(a), x.copy(), x + 1, z * x
    dp2, dq2, dp1, dq1 = np.zeros_like(a), np.zeros_like(a), np.zeros_like(a), -x
    ratio = p1 / q1
    d_ratio = (dp1 - ratio * dq1) / q1
    for _ in range(2000):
        c += 1
        y, z = y + 1, z + 2
        yc = y * c
        p0 = p1 * z - p2 * yc
        q0 = q1 * z - q2 * yc
        dp0 = dp1 * z - p1 - dp2 * yc + p2 * c
        dq0 = dq1 * z - q1 - dq2 * yc + q2 * c
        new = np.where(q0 != 0, p0 / np.where(q0 != 0, q0, 1), ratio)
        d_new = np.where(q0 != 0, (dp0 - new * dq0) / np.where(q0 != 0, q0, 1), d_ratio)
        done = np.abs(d_new - d_ratio) <= 1e-16 * np.abs(d_new) + 1e-300
        ratio, d_ratio = new, d_new
        p2, q2, p1, q1 = p1, q1, p0, q0
        dp2, dq2, dp1, dq1 = dp1, dq1, dp0, dq0
        big = np.abs(p1) > 1e150
        if big.any():
            s = np.where(big, 1e-150, 1.0)
            p2, q2, p1, q1 = p2 * s, q2 * s, p1 * s, q1 * s
            dp2, dq2, dp1, dq1 = dp2 * s, dq2 * s, dp1 * s, dq1 * s
        if np.all(done):
            break
    return ratio, d_ratio


def _grad_a(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    import scipy.special as sp  # a heavy library, needed by few programs

    dtype = a.dtype
    a, x = np.broadcast_arrays(a.astype(np.float64), x.astype(np.float64))
    valid = (a > 0) & (x > 0) & np.isfinite(x) & np.isfinite(a)
    safe_a, safe_x = np.where(valid, a, 1.0), np.where(valid, x, 1.0)
    by_series = (safe_x <= 1) | (safe_x <= safe_a)
    out = np.zeros(a.shape)
    log_power = safe_a * np.log(safe_x) - safe_x
    if by_series.any():
        sa, sx = safe_a[by_series], safe_x[by_series]
        total, d_total = _grad_series(sa, sx)
        factor = np.exp(log_power[by_series] - sp.gammaln(sa + 1))
        out[by_series] = factor * (d_total + total * (np.log(sx) - sp.psi(sa + 1)))
    rest = ~by_series
    if rest.any():
        ra, rx = safe_a[rest], safe_x[rest]
        ratio, d_ratio = _grad_fraction(ra, rx)
        factor = np.exp(log_power[rest] - sp.gammaln(ra))
        out[rest] = -factor * (d_ratio + ratio * (np.log(rx) - sp.psi(ra)))
    # P(a, 0) = 0 and P(a, inf) = 1 for every a.
    flat = (a > 0) & ((x == 0) | np.isposinf(x))
    return np.where(valid, out, np.where(flat, 0.0, np.nan)).astype(dtype)


def _sample_grad(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    import scipy.special as sp  # a heavy library, needed by few programs

    wide_a, wide_x = a.astype(np.float64), x.astype(np.float64)
    log_density = (wide_a - 1) * np.log(wide_x) - wide_x - sp.gammaln(wide_a)
    grad = _grad_a(wide_a, wide_x)
    return np.asarray(-grad / np.exp(log_density)).astype(a.dtype)


class _Iterated(ViaFloat32):
    """Series and fractions hold about thirty float64 arrays of the result's size."""

    def temp_bytes(self, in_avals: Any, out_avals: Any, **params: Any) -> int:
        return 34 * 8 * out_avals[0].size


igamma_grad_a = _Iterated(_grad_a)
random_gamma_grad = _Iterated(_sample_grad)


# -- what mgefn.scipy.special is made of


def _expn(n: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Exponential integrals; of negative order -m by the sum m! / x**(m + 1) * Q(m + 1, x)."""
    import scipy.special as sp  # a heavy library, needed by few programs

    order = 1 - n
    with np.errstate(all="ignore"):
        whole = np.floor(n) == n
        # Beyond 1e9 the integral differs from that by less than rounding.
        index = np.where(whole & (n >= 0), np.minimum(n, 1e9), 0).astype(np.int64)
        falling = sp.gamma(order) * sp.gammaincc(order, x) / x**order
        rising = sp.expn(index, x)
        result = np.where(n < 0, falling, rising)
    return np.where(whole, result, np.nan).astype(x.dtype)


def _hyp1f1(a: np.ndarray, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    """NaN for infinite arguments, at which SciPy's loop does not always end."""
    import scipy.special as sp  # a heavy library, needed by few programs

    finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(x)
    safe = [np.where(finite, v, 1).astype(x.dtype) for v in (a, b, x)]
    return np.where(finite, sp.hyp1f1(*safe), np.nan).astype(x.dtype)


def _one_of(name: str, which: int) -> Callable[..., Any]:
    """One of the two results of a function of scipy.special."""

    def call(x: np.ndarray) -> Any:
        import scipy.special  # a heavy library, needed by few programs

        return getattr(scipy.special, name)(x)[which]

    return call


class _Both(ViaFloat32):
    """Both results are made before one is chosen, and the branches of expn."""

    def temp_bytes(self, in_avals: Any, out_avals: Any, **params: Any) -> int:
        return 8 * 8 * out_avals[0].size


gamma, erfcx, ndtri, dawsn = _scipy("gamma"), _scipy("erfcx"), _scipy("ndtri"), _scipy("dawsn")
spence, expi, expn = _scipy("spence"), _scipy("expi"), _Both(_expn)
fresnel_sin, fresnel_cos = _Both(_one_of("fresnel", 0)), _Both(_one_of("fresnel", 1))
sine_integral, cosine_integral = _Both(_one_of("sici", 0)), _Both(_one_of("sici", 1))
bessel_j, owens_t, wofz = _scipy("jv"), _scipy("owens_t"), _scipy("wofz")
hyp1f1, hyp2f1 = _Both(_hyp1f1), _scipy("hyp2f1")
complex_lgamma, complex_digamma = _scipy("loggamma"), _scipy("psi")
