"""Incomplete gamma and beta functions and the Hurwitz zeta function, elementwise.

Derivatives in the argument are closed forms. That of the incomplete gamma function in its order a
is computed by differentiating its series or continued fraction, and has no derivative of its own;
those of the incomplete beta function in a and b, and of zeta in x, are not defined here.

Sources: NIST Digital Library of Mathematical Functions, dlmf.nist.gov, chapters 8 and 25; Moshier,
Methods and Programs for Mathematical Functions, 1989 (the continued fraction).
"""

from __future__ import annotations

from typing import Any

from mgefn.core.array import scalar
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import UnsupportedError, api_boundary
from mgefn.ops.elementwise import (
    FLOAT,
    elementwise,
    exp_p,
    lgamma_p,
    log1p_p,
    log_p,
    nary,
    where,
)


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
