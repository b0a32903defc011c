"""Special functions: error, gamma, Bessel, sinc, incomplete gamma and beta, Hurwitz zeta; and the
primitives of `mgefn.scipy.special`, whose public functions are there.

Derivatives in the argument are closed forms. That of the incomplete gamma function in its order a
is computed by differentiating its series or continued fraction, and has no derivative of its own;
those of the incomplete beta and the hypergeometric functions in their parameters, and of zeta in x,
are not defined here.

Sources: NIST Digital Library of Mathematical Functions, dlmf.nist.gov, chapters 5, 7, 8, 10 and 25;
Moshier, Methods and Programs for Mathematical Functions, 1989 (the continued fraction).
"""

from __future__ import annotations

import math
from typing import Any

from mgefn.core.array import scalar
from mgefn.core.array_methods import Array, ArrayLike, method
from mgefn.errors import UnsupportedError, api_boundary
from mgefn.ops.elementwise.choice import where
from mgefn.ops.elementwise.common import (
    COMPLEX,
    FLOAT,
    INEXACT,
    elementwise,
    nary,
    promoted,
    unary,
)
from mgefn.ops.elementwise.exponential import exp_p, log1p_p, log_p
from mgefn.ops.elementwise.rounding import abs_p, sign_p
from mgefn.ops.elementwise.scale import scale
from mgefn.ops.elementwise.trigonometric import cos_p, sin_p

# -- error, gamma and Bessel functions, sinc ------------------------------------------------------

erf_p = elementwise("erf", FLOAT, lambda y, x: (2 / math.sqrt(math.pi)) * exp_p.bind1(-(x * x)))

erfc_p = elementwise("erfc", FLOAT, lambda y, x: (-2 / math.sqrt(math.pi)) * exp_p.bind1(-(x * x)))

erf_inv_p = elementwise(
    "erf_inv", FLOAT, lambda y, x: (math.sqrt(math.pi) / 2) * exp_p.bind1(y * y)
)

lgamma_p = elementwise("lgamma", FLOAT, lambda y, x: digamma_p.bind1(x))

digamma_p = elementwise("digamma", FLOAT, lambda y, x: polygamma_p.bind1(scalar(1, x.dtype), x))

# The order m of polygamma(m, x) is an integer, so there is no slope in it.
polygamma_p = elementwise("polygamma", FLOAT, 0, lambda y, m, x: polygamma_p.bind1(m + 1, x))

bessel_i0e_p = elementwise(
    "bessel_i0e", FLOAT, lambda y, x: bessel_i1e_p.bind1(x) - sign_p.bind1(x) * y
)

bessel_i1e_p = elementwise("bessel_i1e", FLOAT, lambda y, x: _bessel_i1e_slope(y, x))


def _bessel_i1e_slope(y: Any, x: Any) -> Any:
    # i1e' = i0e - i1e * (sign(x) + 1 / x), whose limit at 0 is 1/2.
    zero = x == 0
    safe = where(zero, 1, x)
    return where(zero, 0.5, bessel_i0e_p.bind1(x) - y * (sign_p.bind1(x) + 1 / safe))


@api_boundary
def erf(x: ArrayLike) -> Array:
    """Error function, 2 / sqrt(pi) times the integral of e**(-t**2) from 0 to x, elementwise."""
    return unary(erf_p, x, inexact=True)


@api_boundary
def erfc(x: ArrayLike) -> Array:
    """1 - erf(x), elementwise, exact for large x."""
    return unary(erfc_p, x, inexact=True)


@api_boundary
def erf_inv(x: ArrayLike) -> Array:
    """Inverse of erf, elementwise; +-inf at +-1."""
    return unary(erf_inv_p, x, inexact=True)


@api_boundary
def lgamma(x: ArrayLike) -> Array:
    """Logarithm of |Gamma(x)|, elementwise."""
    return unary(lgamma_p, x, inexact=True)


@api_boundary
def digamma(x: ArrayLike) -> Array:
    """Derivative of lgamma, elementwise."""
    return unary(digamma_p, x, inexact=True)


@api_boundary
def polygamma(m: ArrayLike, x: ArrayLike) -> Array:
    """The m-th derivative of digamma at x, elementwise; m is a nonnegative integer."""
    return nary(polygamma_p, m, x, inexact=True)


@api_boundary
def bessel_i0e(x: ArrayLike) -> Array:
    """e**-|x| I_0(x): the exponentially scaled modified Bessel function of order 0."""
    return unary(bessel_i0e_p, x, inexact=True)


@api_boundary
def bessel_i1e(x: ArrayLike) -> Array:
    """e**-|x| I_1(x): the exponentially scaled modified Bessel function of order 1."""
    return unary(bessel_i1e_p, x, inexact=True)


@method("sinc")
@api_boundary
def sinc(x: ArrayLike) -> Array:
    """sin(pi x) / (pi x), elementwise, and 1 at 0, where all derivatives are right."""
    (a,) = promoted("sinc", (x,), inexact=True)
    return sinc_p.bind1(a)


# The derivatives of sinc are a primitive of their own: order n gives the n-th one, so that every
# order is right at 0.
sinc_p = elementwise("sinc", INEXACT, lambda y, x: sinc_derivative_p.bind1(x, order=1))

sinc_derivative_p = elementwise("sinc_derivative", INEXACT)  # params: order


@sinc_derivative_p.def_jvp
def _sinc_derivative_jvp(primals, tangents, *, order):
    (x,), (t,) = primals, tangents
    slope = sinc_derivative_p.bind1(x, order=order + 1)
    return sinc_derivative_p.bind(x, order=order), (scale(t, slope),)


# -- incomplete gamma and beta, zeta --------------------------------------------------------------


def _log_gamma_density(a: Any, x: Any) -> Any:
    """log of x**(a - 1) e**-x / Gamma(a), the derivative of igamma in x."""
    # At x = 0 the power is 0, 1 or infinite as a - 1 is positive, 0 or negative.
    power = where(a == 1, 0, (a - 1) * log_p.bind1(x))
    return power - x - lgamma_p.bind1(a)


igamma_p = elementwise(
    "igamma",
    FLOAT,
    lambda y, a, x: igamma_grad_a_p.bind1(a, x),
    lambda y, a, x: exp_p.bind1(_log_gamma_density(a, x)),
)
igammac_p = elementwise(
    "igammac",
    FLOAT,
    lambda y, a, x: -igamma_grad_a_p.bind1(a, x),
    lambda y, a, x: -exp_p.bind1(_log_gamma_density(a, x)),
)
igamma_grad_a_p = elementwise("igamma_grad_a", FLOAT)
igamma_grad_a_p.no_rule("jvp", "the second derivative in the order is not known in closed form")
random_gamma_grad_p = elementwise("random_gamma_grad", FLOAT)
random_gamma_grad_p.no_rule("jvp", "the second derivative in the order is not known in closed form")


def _no_slope(name: str, operand: str) -> Any:
    def slope(*args: Any) -> Any:
        raise UnsupportedError(
            f"{name}: has no derivative in {operand}. Hold {operand} fixed with "
            "lax.stop_gradient, or define one with custom_jvp."
        )

    return slope


def _log_beta_density(a: Any, b: Any, x: Any) -> Any:
    left = where(a == 1, 0, (a - 1) * log_p.bind1(x))
    right = where(b == 1, 0, (b - 1) * log1p_p.bind1(-x))
    return left + right + lgamma_p.bind1(a + b) - lgamma_p.bind1(a) - lgamma_p.bind1(b)


regularized_incomplete_beta_p = elementwise(
    "regularized_incomplete_beta",
    FLOAT,
    _no_slope("betainc", "a"),
    _no_slope("betainc", "b"),
    lambda y, a, b, x: exp_p.bind1(_log_beta_density(a, b, x)),
)
zeta_p = elementwise(
    "zeta",
    FLOAT,
    _no_slope("zeta", "x"),
    lambda y, x, q: -x * zeta_p.bind1(x + scalar(1, x.dtype), q),
)


@api_boundary
def igamma(a: ArrayLike, x: ArrayLike) -> Array:
    """Regularized lower incomplete gamma function P(a, x), elementwise.

    The integral of t**(a - 1) e**-t from 0 to x, divided by Gamma(a); NaN unless a > 0 and x >= 0.

    Example:
        >>> mgefn.lax.igamma(1.0, 1.0)  # 1 - 1 / e
        Array(0.63212055, dtype=float32, weak_type=True)
    """
    return nary(igamma_p, a, x, inexact=True)


@api_boundary
def igammac(a: ArrayLike, x: ArrayLike) -> Array:
    """Regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x), elementwise."""
    return nary(igammac_p, a, x, inexact=True)


@api_boundary
def igamma_grad_a(a: ArrayLike, x: ArrayLike) -> Array:
    """Derivative of igamma in its order a, elementwise."""
    return nary(igamma_grad_a_p, a, x, inexact=True)


@api_boundary
def random_gamma_grad(a: ArrayLike, x: ArrayLike) -> Array:
    """Derivative in a of a sample x of the gamma distribution of order a, elementwise.

    By implicit differentiation of P(a, x) = const: -(dP/da) / (dP/dx).
    """
    return nary(random_gamma_grad_p, a, x, inexact=True)


@api_boundary
def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Regularized incomplete beta function I_x(a, b), elementwise; x in [0, 1]."""
    return nary(regularized_incomplete_beta_p, a, b, x, inexact=True)


@api_boundary
def zeta(x: ArrayLike, q: ArrayLike) -> Array:
    """Hurwitz zeta function, the sum of (q + k)**-x over k = 0, 1, ..., elementwise; x > 1."""
    return nary(zeta_p, x, q, inexact=True)


# -- what mgefn.scipy.special is made of ----------------------------------------------------------
# Each has a kernel of its own because a composition of the others would lose digits somewhere.


def _by_asymptote(x: Any, near: Any, series: Any) -> Any:
    """near, a difference that cancels for large |x|, replaced there by its series in 1 / x**2."""
    limit = 10 if x.dtype.itemsize <= 4 else 50
    far = abs_p.bind1(x) > limit
    u = 1 / where(far, x * x, limit * limit)
    return where(far, series(u), near)


def _erfcx_slope(y: Any, x: Any) -> Any:
    def series(u: Any) -> Any:
        return -u * (1 - 1.5 * u * (1 - 2.5 * u * (1 - 3.5 * u))) / math.sqrt(math.pi)

    near = 2 * x * y - 2 / math.sqrt(math.pi)
    return where(x > 0, _by_asymptote(x, near, series), near)


def _dawsn_slope(y: Any, x: Any) -> Any:
    def series(u: Any) -> Any:
        return -0.5 * u * (1 + 1.5 * u * (1 + 2.5 * u * (1 + 3.5 * u)))

    return _by_asymptote(x, 1 - 2 * x * y, series)


def _spence_slope(y: Any, x: Any) -> Any:
    one = x == 1
    return where(one, -1, log_p.bind1(where(one, 2, x)) / (1 - where(one, 2, x)))


gamma_p = elementwise("gamma", FLOAT, lambda y, x: y * digamma_p.bind1(x))
erfcx_p = elementwise("erfcx", FLOAT, _erfcx_slope)
ndtri_p = elementwise(
    "ndtri", FLOAT, lambda y, p: math.sqrt(2 * math.pi) * exp_p.bind1(0.5 * (y * y))
)
dawsn_p = elementwise("dawsn", FLOAT, _dawsn_slope)
spence_p = elementwise("spence", FLOAT, _spence_slope)
expi_p = elementwise("expi", FLOAT, lambda y, x: exp_p.bind1(x) / x)
# The order n of expn(n, x) is an integer, of either sign, so there is no slope in it.
expn_p = elementwise("expn", FLOAT, 0, lambda y, n, x: -expn_p.bind1(n - 1, x))
fresnel_sin_p = elementwise("fresnel_sin", FLOAT, lambda y, x: sin_p.bind1((math.pi / 2) * (x * x)))
fresnel_cos_p = elementwise("fresnel_cos", FLOAT, lambda y, x: cos_p.bind1((math.pi / 2) * (x * x)))
sine_integral_p = elementwise("sine_integral", FLOAT, lambda y, x: sinc_p.bind1(x / math.pi))
cosine_integral_p = elementwise("cosine_integral", FLOAT, lambda y, x: cos_p.bind1(x) / x)
# The order n of bessel_j(n, x) is an integer.
bessel_j_p = elementwise(
    "bessel_j",
    FLOAT,
    0,
    lambda y, n, x: 0.5 * (bessel_j_p.bind1(n - 1, x) - bessel_j_p.bind1(n + 1, x)),
)


def _owens_t_slope_h(y: Any, h: Any, a: Any) -> Any:
    return exp_p.bind1(-0.5 * (h * h)) * erf_p.bind1(a * h * math.sqrt(0.5)) * -_HALF_DENSITY


def _owens_t_slope_a(y: Any, h: Any, a: Any) -> Any:
    wide = 1 + a * a
    return exp_p.bind1(-0.5 * (h * h) * wide) / (2 * math.pi * wide)


_HALF_DENSITY = 1 / (2 * math.sqrt(2 * math.pi))
owens_t_p = elementwise("owens_t", FLOAT, _owens_t_slope_h, _owens_t_slope_a)

hyp1f1_p = elementwise(
    "hyp1f1",
    FLOAT,
    _no_slope("hyp1f1", "a"),
    _no_slope("hyp1f1", "b"),
    lambda y, a, b, x: a / b * hyp1f1_p.bind1(a + 1, b + 1, x),
)
hyp2f1_p = elementwise(
    "hyp2f1",
    FLOAT,
    _no_slope("hyp2f1", "a"),
    _no_slope("hyp2f1", "b"),
    _no_slope("hyp2f1", "c"),
    lambda y, a, b, c, x: a * b / c * hyp2f1_p.bind1(a + 1, b + 1, c + 1, x),
)

# Complex functions.
wofz_p = elementwise("wofz", COMPLEX, lambda y, z: -2 * z * y + 2j / math.sqrt(math.pi))
complex_lgamma_p = elementwise("complex_lgamma", COMPLEX, lambda y, z: complex_digamma_p.bind1(z))
complex_digamma_p = elementwise("complex_digamma", COMPLEX)
complex_digamma_p.no_rule("jvp", "the complex trigamma function has no kernel")
