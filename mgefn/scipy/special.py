"""Special functions under scipy.special's names.

Integers are taken as the default float. Where a formula has the form 0 * infinity that a limit
settles, the value is the limit; a derivative that is infinite there (of x log x at 0, say) is
given as 0, so that one element at the edge does not spoil a whole gradient.

Sources: NIST Digital Library of Mathematical Functions, dlmf.nist.gov; Didonato, Morris (1992),
ACM Trans. Math. Softw. 18(3), 360-373, doi:10.1145/131766.131776 (the logarithm of beta).
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from mgefn import dtypes, lax
from mgefn import numpy as mnp
from mgefn.core.array_methods import Array, ArrayLike, Axis
from mgefn.errors import ArgumentError, DTypeError, api_boundary
from mgefn.nn import functions as nn
from mgefn.ops import special as ops
from mgefn.ops.elementwise import (
    broadcasted,
    convert,
    promoted,
    scale_p,
    stop_gradient_leaf,
    where,
)
from mgefn.ops.elementwise.common import nary
from mgefn.ops.indexing.select.common import known
from mgefn.scipy.arguments import known_count

__all__ = [
    "bernoulli",
    "bessel_jn",
    "beta",
    "betainc",
    "betaln",
    "boxcox",
    "boxcox1p",
    "comb",
    "dawsn",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp1",
    "expi",
    "expit",
    "expn",
    "factorial",
    "fresnel",
    "gamma",
    "gammainc",
    "gammaincc",
    "gammaln",
    "gammasgn",
    "hyp1f1",
    "hyp2f1",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "kl_div",
    "log_ndtr",
    "log_softmax",
    "loggamma",
    "logit",
    "logsumexp",
    "multigammaln",
    "ndtr",
    "ndtri",
    "owens_t",
    "poch",
    "polygamma",
    "rel_entr",
    "sici",
    "softmax",
    "spence",
    "sph_harm_y",
    "wofz",
    "xlog1py",
    "xlogy",
    "zeta",
]


def _floats(name: str, *args: ArrayLike) -> Any:
    """The arguments as arrays of their common real floating dtype."""
    arrays = promoted(name, args, inexact=True)
    for a in arrays:
        if dtypes.is_complex(a.dtype):
            raise DTypeError(f"{name}: needs real arrays, got {a.aval}.")
    return arrays[0] if len(arrays) == 1 else arrays


# -- error functions, the normal distribution -----------------------------------------------------


@api_boundary
def erf(x: ArrayLike) -> Array:
    """Error function, 2 / sqrt(pi) times the integral of e**(-t**2) from 0 to x, elementwise.

    Example:
        >>> mgefn.scipy.special.erf(0.5)
        Array(0.5204999, dtype=float32, weak_type=True)
    """
    return ops.erf(x)


@api_boundary
def erfc(x: ArrayLike) -> Array:
    """1 - erf(x), elementwise, exact for large x."""
    return ops.erfc(x)


@api_boundary
def erfcx(x: ArrayLike) -> Array:
    """e**(x**2) erfc(x), elementwise: erfc scaled to neither overflow nor vanish for large x."""
    return nary(ops.erfcx_p, x, inexact=True)


@api_boundary
def erfinv(x: ArrayLike) -> Array:
    """Inverse of erf, elementwise; infinite at -1 and 1, NaN beyond."""
    return ops.erf_inv(x)


@api_boundary
def ndtr(x: ArrayLike) -> Array:
    """Probability that a standard normal number is below x, elementwise."""
    return 0.5 * ops.erfc(_floats("ndtr", x) * -math.sqrt(0.5))


@api_boundary
def ndtri(p: ArrayLike) -> Array:
    """The x below which a standard normal number lies with probability p, elementwise.

    Infinite at 0 and 1, NaN outside [0, 1].
    """
    return nary(ops.ndtri_p, p, inexact=True)


@api_boundary
def log_ndtr(x: ArrayLike, series_order: int = 3) -> Array:
    """log(ndtr(x)), elementwise, without underflow for very negative x.

    Args:
        x: real.
        series_order: of an asymptotic series, accepted for JAX's programs; no series is used.
    """
    a = _floats("log_ndtr", x)
    if operator.index(series_order) < 0:
        raise ArgumentError(f"log_ndtr: series_order must not be negative, got {series_order}.")
    low = a < -1
    z = where(low, a, -1)
    tail = mnp.log(0.5 * nary(ops.erfcx_p, z * -math.sqrt(0.5))) - 0.5 * z * z
    return where(low, tail, mnp.log1p(-0.5 * ops.erfc(where(low, 0, a) * math.sqrt(0.5))))


@api_boundary
def dawsn(x: ArrayLike) -> Array:
    """Dawson's integral: e**(-x**2) times the integral of e**(t**2) from 0 to x, elementwise."""
    return nary(ops.dawsn_p, x, inexact=True)


@api_boundary
def wofz(z: ArrayLike) -> Array:
    """Faddeeva function e**(-z**2) erfc(-i z), elementwise and complex."""
    return nary(ops.wofz_p, _complexes("wofz", z))


def _complexes(name: str, z: ArrayLike) -> Any:
    (a,) = promoted(name, (z,), inexact=True)
    return convert(a, dtypes.promote_types(a.dtype, "complex64"), a.weak_type)


@api_boundary
def owens_t(h: ArrayLike, a: ArrayLike) -> Array:
    """Owen's T: P(X > h, 0 < Y < a X) of independent standard normal X and Y, elementwise."""
    return nary(ops.owens_t_p, h, a, inexact=True)


# -- gamma and beta functions ---------------------------------------------------------------------


@api_boundary
def gamma(x: ArrayLike) -> Array:
    """Gamma function, elementwise; real. Infinite at 0, NaN at negative integers.

    Example:
        >>> mgefn.scipy.special.gamma(5.0)  # 4!
        Array(24., dtype=float32, weak_type=True)
    """
    return nary(ops.gamma_p, x, inexact=True)


@api_boundary
def gammaln(x: ArrayLike) -> Array:
    """Logarithm of |gamma(x)|, elementwise; real."""
    return ops.lgamma(x)


@api_boundary
def loggamma(x: ArrayLike) -> Array:
    """Principal branch of the logarithm of the gamma function, elementwise.

    Args:
        x: real, the result is NaN for negative x; or complex, cut along the negative real axis.
    """
    (a,) = promoted("loggamma", (x,), inexact=True)
    if dtypes.is_complex(a.dtype):
        return nary(ops.complex_lgamma_p, a)
    negative = a < 0
    return where(negative, math.nan, ops.lgamma(where(negative, 1, a)))


@api_boundary
def gammasgn(x: ArrayLike) -> Array:
    """Sign of gamma(x), elementwise: 1 or -1, NaN at negative integers; that of x at 0."""
    a = _floats("gammasgn", x)
    whole = mnp.floor(a)
    negative = where(whole % 2 == 0, 1, -1)
    at_zero = where(mnp.signbit(a), -1, 1)
    sign = where(a < 0, where(a == whole, math.nan, negative), where(a == 0, at_zero, 1))
    return where(mnp.isnan(a), math.nan, sign).astype(a.dtype)


@api_boundary
def digamma(x: ArrayLike) -> Array:
    """Derivative of gammaln, elementwise."""
    return ops.digamma(x)


@api_boundary
def polygamma(n: ArrayLike, x: ArrayLike) -> Array:
    """The n-th derivative of digamma at x, elementwise; n is a nonnegative integer."""
    return ops.polygamma(n, x)


@api_boundary
def multigammaln(a: ArrayLike, d: ArrayLike) -> Array:
    """Logarithm of the multivariate gamma function of dimension d, elementwise.

    Args:
        a: real, above (d - 1) / 2.
        d: a known integer of at least 1.
    """
    x = _floats("multigammaln", a)
    n = known_count("multigammaln", "d", d, 1)
    halves = mnp.arange(n, dtype=x.dtype) / 2
    total = mnp.sum(ops.lgamma(mnp.expand_dims(x, -1) - halves), axis=-1)
    return total + n * (n - 1) / 4 * math.log(math.pi)


@api_boundary
def factorial(n: ArrayLike, exact: bool = False) -> Array:
    """gamma(n + 1), elementwise; 0 for negative n.

    Raises:
        ArgumentError: exact is asked for: integers of any size are no dtype.
    """
    if exact:
        raise ArgumentError("factorial: exact must be False. Use math.factorial for exact results.")
    a = _floats("factorial", n)
    negative = a < 0
    return where(negative, 0, nary(ops.gamma_p, where(negative, 0, a) + 1))


@api_boundary
def comb(N: ArrayLike, k: ArrayLike, *, repetition: bool = False) -> Array:
    """Number of ways to choose k of N, elementwise and floating; 0 for k outside [0, N].

    Args:
        N, k: real; between integers by the gamma function. Integers give integers.
        repetition: the same one may be chosen again.

    Example:
        >>> mgefn.scipy.special.comb(5, 2)
        Array(10., dtype=float32, weak_type=True)
    """
    n, m = _floats("comb", N, k)
    if repetition:
        return where((m == 0) & (n >= 0), 1, _comb(n + m - 1, m)).astype(n.dtype)
    return _comb(n, m)


def _comb(n: Any, k: Any) -> Any:
    n, k = broadcasted("comb", (n, k))
    there = (k <= n) & (n >= 0) & (k >= 0)
    n, k = where(there, n, 1), where(there, k, 0)
    ways = mnp.exp(-_betaln(n - k + 1, k + 1) - mnp.log(n + 1))
    exact = (n == mnp.floor(n)) & (k == mnp.floor(k)) & (ways < 1 / dtypes.finfo(ways.dtype).eps)
    # The value of an integer, the derivative of the smooth function.
    off = where(exact, stop_gradient_leaf(mnp.rint(ways) - ways), 0)
    return where(there, ways + off, 0)


@api_boundary
def poch(z: ArrayLike, m: ArrayLike) -> Array:
    """Pochhammer symbol gamma(z + m) / gamma(z), elementwise: z (z + 1) ... (z + m - 1)."""
    a, b = broadcasted("poch", _floats("poch", z, m))
    end = a + b
    # Gamma is infinite at the whole numbers below 1: there the product itself, turned round.
    whole = (a <= 0) & (a == mnp.floor(a)) & (b >= 0) & (b == mnp.floor(b))
    turned = whole & (end <= 0)
    a, end = where(turned, 1 - end, where(whole, 1, a)), where(turned, 1 - a, where(whole, 1, end))
    small = (abs(a) < 20) & (abs(end) < 20)
    direct = nary(ops.gamma_p, where(small, end, 1)) / nary(ops.gamma_p, where(small, a, 1))
    far_a, far_end = where(small, 1, a), where(small, 1, end)
    logs = mnp.exp(ops.lgamma(far_end) - ops.lgamma(far_a)) * gammasgn(far_end) * gammasgn(far_a)
    # For positive arguments the large parts of the two logarithms cancel: see betaln.
    rising = (far_a > 0) & (end > a) & ~small
    step = where(rising, end - a, 1)
    logs = where(rising, mnp.exp(ops.lgamma(step) - _betaln(where(rising, far_a, 1), step)), logs)
    sign = where(turned & (b % 2 == 1), -1, 1)
    product = sign * where(small, direct, logs)
    return where(b == 0, 1, where(whole & ~turned, 0, product))


@api_boundary
def gammainc(a: ArrayLike, x: ArrayLike) -> Array:
    """Regularized lower incomplete gamma function P(a, x), elementwise; see `lax.igamma`."""
    return ops.igamma(a, x)


@api_boundary
def gammaincc(a: ArrayLike, x: ArrayLike) -> Array:
    """Regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x), elementwise."""
    return ops.igammac(a, x)


def _stirling(x: Any) -> Any:
    """lgamma(x) - (x - 1/2) log(x) + x - log(2 pi) / 2, for x of at least 10."""
    u = 1 / x
    s = u * u
    terms = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
    total = terms[-1] * s
    for t in terms[-2:0:-1]:
        total = (t + total) * s
    return u * (terms[0] + total)


def _betaln(a: Any, b: Any) -> Any:
    a, b = broadcasted("betaln", (a, b))
    # By comparison, not minimum, which would spoil second derivatives where a equals b.
    swap = a > b
    p, q = where(swap, b, a), where(swap, a, b)
    large = (q >= 10) & (p > 0) & (q < math.inf)
    both = large & (p >= 10)
    plain = ops.lgamma(p) + ops.lgamma(where(large, 1, q)) - ops.lgamma(where(large, 2, p + q))
    # The logarithms of gamma functions of q and p + q cancel: only their difference is formed.
    one_q = where(large, q, 10)
    one_p = where(large & ~both, p, 1)
    one = (
        ops.lgamma(one_p)
        + (_stirling(one_q) - _stirling(one_p + one_q))
        - ((one_q - 0.5) * mnp.log1p(one_p / one_q) - one_p)
        - one_p * mnp.log(one_p + one_q)
    )
    two_p, two_q = where(both, p, 10), where(both, q, 10)
    two = (
        0.5 * (math.log(2 * math.pi) - mnp.log(two_q))
        + (_stirling(two_p) + _stirling(two_q) - _stirling(two_p + two_q))
        + (two_p - 0.5) * mnp.log(two_p / (two_p + two_q))
        - two_q * mnp.log1p(two_p / two_q)
    )
    return where(both, two, where(large, one, plain))


@api_boundary
def betaln(a: ArrayLike, b: ArrayLike) -> Array:
    """Logarithm of |beta(a, b)|, elementwise, exact for large arguments too."""
    return _betaln(*_floats("betaln", a, b))


@api_boundary
def beta(a: ArrayLike, b: ArrayLike) -> Array:
    """Beta function gamma(a) gamma(b) / gamma(a + b), elementwise."""
    x, y = _floats("beta", a, b)
    return gammasgn(x) * gammasgn(y) * gammasgn(x + y) * mnp.exp(_betaln(x, y))


@api_boundary
def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Regularized incomplete beta function I_x(a, b), elementwise; x in [0, 1]."""
    return ops.betainc(a, b, x)


@api_boundary
def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Array:
    """Hurwitz zeta function, the sum of (q + k)**-x over k = 0, 1, ..., elementwise; x > 1.

    Args:
        x, q: real; without q, or with q = 1, it is Riemann's zeta function.
    """
    return ops.zeta(x, 1 if q is None else q)


@api_boundary
def bernoulli(n: int) -> Array:
    """The Bernoulli numbers B_0 to B_n, in the default float.

    Example:
        >>> mgefn.scipy.special.bernoulli(2)
        Array([ 1.        , -0.5       ,  0.16666667], dtype=float32)
    """
    import scipy.special  # a heavy library, needed by few programs

    count = known_count("bernoulli", "n", n, 0)
    # scipy.special.bernoulli gives three numbers at least.
    numbers = np.asarray(scipy.special.bernoulli(max(count, 2)))[: count + 1]
    return mnp.asarray(numbers.astype(dtypes.default_float()))


# -- logarithms and exponentials ------------------------------------------------------------------


@api_boundary
def logit(x: ArrayLike) -> Array:
    """log(x / (1 - x)), elementwise: the inverse of expit. Infinite at 0 and 1."""
    a = _floats("logit", x)
    middle = (a > 0.25) & (a < 0.75)
    near, far = where(middle, a, 0.5), where(middle, 0.25, a)
    # Near 1/2 the two logarithms would cancel.
    return where(middle, 2 * mnp.arctanh(2 * near - 1), mnp.log(far) - mnp.log1p(-far))


@api_boundary
def expit(x: ArrayLike) -> Array:
    """1 / (1 + e**-x), elementwise."""
    return lax.logistic(_floats("expit", x))


def _xlogy(x: Any, y: Any) -> Any:
    x, y = broadcasted("xlogy", (x, y))
    edge = (x == 0) & ((y <= 0) | (y == math.inf))
    return x * mnp.log(where(edge, 1, y))


@api_boundary
def xlogy(x: ArrayLike, y: ArrayLike) -> Array:
    """x * log(y), elementwise, and 0 where x is 0, unless y is NaN.

    Derivatives: log(y) and x / y; at x = 0 with y <= 0 both are given as 0.

    Example:
        >>> mgefn.scipy.special.xlogy(0.0, 0.0)
        Array(0., dtype=float32, weak_type=True)
    """
    return _xlogy(*promoted("xlogy", (x, y), inexact=True)) if _real(x, y) else _complex_xlogy(x, y)


def _real(*args: ArrayLike) -> bool:
    return not dtypes.is_complex(dtypes.result_type(*args))


def _complex_xlogy(x: ArrayLike, y: ArrayLike) -> Any:
    a, b = broadcasted("xlogy", promoted("xlogy", (x, y), inexact=True))
    edge = (a == 0) & ((b == 0) | mnp.isinf(b))
    return a * mnp.log(where(edge, 1, b))


@api_boundary
def xlog1py(x: ArrayLike, y: ArrayLike) -> Array:
    """x * log1p(y), elementwise, and 0 where x is 0, unless y is NaN.

    Derivatives: log1p(y) and x / (1 + y); at x = 0 with y <= -1 both are given as 0.
    """
    a, b = broadcasted("xlog1py", promoted("xlog1py", (x, y), inexact=True))
    if dtypes.is_complex(a.dtype):
        edge = (a == 0) & ((b == -1) | mnp.isinf(b))
    else:
        edge = (a == 0) & ((b <= -1) | (b == math.inf))
    return a * mnp.log1p(where(edge, 0, b))


@api_boundary
def entr(x: ArrayLike) -> Array:
    """-x * log(x), elementwise; 0 at 0, where the derivative is inf, and -inf below."""
    a = _floats("entr", x)
    negative = a < 0
    safe = where(negative, 1, a)
    # A product in which 0 wins over the infinite logarithm, but which keeps its infinite slope.
    return where(negative, -math.inf, -scale_p.bind1(safe, mnp.log(safe)))


@api_boundary
def rel_entr(p: ArrayLike, q: ArrayLike) -> Array:
    """p * log(p / q), elementwise; 0 at p = 0 <= q, and inf where either is out of its domain.

    Example:
        >>> mgefn.scipy.special.rel_entr(mnp.array([0.5, 0.0, 0.5]), mnp.array([0.5, 0.5, 0.0]))
        Array([ 0.,  0., inf], dtype=float32)
    """
    return _rel_entr(*_floats("rel_entr", p, q))


def _rel_entr(p: Any, q: Any, divergence: bool = False) -> Any:
    p, q = broadcasted("rel_entr", (p, q))
    inside = (p > 0) & (q > 0)
    a, b = where(inside, p, 1), where(inside, q, 1)
    ratio = a / b
    normal = (ratio > dtypes.finfo(p.dtype).tiny) & (ratio < math.inf)
    near = mnp.log(where(normal, a, 1) / where(normal, b, 1))
    far = mnp.log(where(normal, 1, a)) - mnp.log(where(normal, 1, b))
    outside = where((p == 0) & (q >= 0), q if divergence else 0, math.inf)
    outside = where(mnp.isnan(p) | mnp.isnan(q), math.nan, outside)
    entropy = a * where(normal, near, far)
    return where(inside, entropy - a + b if divergence else entropy, outside)


@api_boundary
def kl_div(p: ArrayLike, q: ArrayLike) -> Array:
    """rel_entr(p, q) - p + q, elementwise: Kullback and Leibler's divergence of densities."""
    return _rel_entr(*_floats("kl_div", p, q), divergence=True)


def _power_over(z: Any, log_x: Any, lmbda: Any) -> Any:
    """(e**z - 1) / lmbda for z = lmbda * log_x, and its limit log_x at lmbda = 0."""
    near = abs(z) < 0.05
    s = where(near, z, 0)
    series = where(near, log_x, 0) * (
        1
        + s / 2 * (1 + s / 3 * (1 + s / 4 * (1 + s / 5 * (1 + s / 6 * (1 + s / 7 * (1 + s / 8))))))
    )
    return where(near, series, mnp.expm1(where(near, 1, z)) / where(near, 1, lmbda))


@api_boundary
def boxcox(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """(x**lmbda - 1) / lmbda, elementwise, and its limit log(x) at lmbda = 0."""
    a, b = broadcasted("boxcox", _floats("boxcox", x, lmbda))
    return _power_over(_xlogy(b, a), mnp.log(a), b)


@api_boundary
def boxcox1p(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """((1 + x)**lmbda - 1) / lmbda, elementwise, and its limit log1p(x) at lmbda = 0."""
    a, b = broadcasted("boxcox1p", _floats("boxcox1p", x, lmbda))
    return _power_over(xlog1py(b, a), mnp.log1p(a), b)


@api_boundary
def logsumexp(
    a: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: ArrayLike | None = None,
) -> Any:
    """log(sum(b * exp(a))), safe from overflow.

    Args:
        a: numbers.
        axis: one or more dimensions; None: all.
        b: factors that broadcast with a.
        keepdims: keep the summed dimensions with size 1.
        return_sign: also return the sign of the sum, and the logarithm of its absolute value.
        where: which elements take part.
    """
    return nn.logsumexp(a, axis=axis, b=b, keepdims=keepdims, return_sign=return_sign, where=where)


@api_boundary
def softmax(x: ArrayLike, /, *, axis: Axis = None) -> Array:
    """Exponentials divided by their sum along an axis, or over all; see `nn.softmax`."""
    return nn.softmax(x, axis)


@api_boundary
def log_softmax(x: ArrayLike, /, *, axis: Axis = None) -> Array:
    """log(softmax(x)), safe from overflow and underflow; see `nn.log_softmax`."""
    return nn.log_softmax(x, axis)


# -- Bessel and hypergeometric functions, integrals -----------------------------------------------


@api_boundary
def i0(x: ArrayLike) -> Array:
    """Modified Bessel function of the first kind and order 0, elementwise."""
    a = _floats("i0", x)
    return mnp.exp(abs(a)) * ops.bessel_i0e(a)


@api_boundary
def i0e(x: ArrayLike) -> Array:
    """e**-|x| i0(x), elementwise."""
    return ops.bessel_i0e(x)


@api_boundary
def i1(x: ArrayLike) -> Array:
    """Modified Bessel function of the first kind and order 1, elementwise."""
    a = _floats("i1", x)
    return mnp.exp(abs(a)) * ops.bessel_i1e(a)


@api_boundary
def i1e(x: ArrayLike) -> Array:
    """e**-|x| i1(x), elementwise."""
    return ops.bessel_i1e(x)


@api_boundary
def bessel_jn(z: ArrayLike, *, v: int, n_iter: int = 50) -> Array:
    """Bessel functions of the first kind of the orders 0 to v.

    Args:
        z: real.
        v: the highest order.
        n_iter: accepted for JAX's programs; no iteration is used.

    Returns:
        Array of the shape (v + 1, *z.shape).
    """
    x = _floats("bessel_jn", z)
    orders = mnp.arange(known_count("bessel_jn", "v", v, 0) + 1, dtype=x.dtype)
    return nary(ops.bessel_j_p, mnp.reshape(orders, (-1,) + (1,) * x.ndim), x)


@api_boundary
def expi(x: ArrayLike) -> Array:
    """Exponential integral Ei, the integral of e**t / t from -inf to x, elementwise."""
    return nary(ops.expi_p, x, inexact=True)


@api_boundary
def exp1(x: ArrayLike) -> Array:
    """Exponential integral E_1: of e**(-x t) / t from 1 to inf, elementwise; x >= 0."""
    (a,) = promoted("exp1", (x,), inexact=True)
    return expn(1, a)


@api_boundary
def expn(n: ArrayLike, x: ArrayLike) -> Array:
    """Exponential integral E_n, the integral of e**(-x t) / t**n from 1 to inf, elementwise.

    Args:
        n: integers.
        x: real, at least 0; NaN below. The derivative is taken in x alone.
    """
    return nary(ops.expn_p, n, x, inexact=True)


@api_boundary
def sici(x: ArrayLike) -> tuple[Array, Array]:
    """Sine and cosine integrals, elementwise.

    Returns:
        The integral of sin(t) / t from 0 to x, and that of -cos(t) / t from x to inf; the second
        is NaN for negative x.
    """
    return nary(ops.sine_integral_p, x, inexact=True), nary(ops.cosine_integral_p, x, inexact=True)


@api_boundary
def fresnel(x: ArrayLike) -> tuple[Array, Array]:
    """The integrals of sin(pi t**2 / 2) and of cos(pi t**2 / 2) from 0 to x, elementwise."""
    return nary(ops.fresnel_sin_p, x, inexact=True), nary(ops.fresnel_cos_p, x, inexact=True)


@api_boundary
def spence(x: ArrayLike) -> Array:
    """Spence's function: the integral of log(t) / (1 - t) from 1 to x, elementwise; x >= 0."""
    return nary(ops.spence_p, x, inexact=True)


@api_boundary
def hyp1f1(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Confluent hypergeometric function 1F1(a; b; x), elementwise. Differentiable in x only."""
    return nary(ops.hyp1f1_p, a, b, x, inexact=True)


@api_boundary
def hyp2f1(a: ArrayLike, b: ArrayLike, c: ArrayLike, x: ArrayLike) -> Array:
    """Gauss's hypergeometric function 2F1(a, b; c; x), elementwise. Differentiable in x only."""
    return nary(ops.hyp2f1_p, a, b, c, x, inexact=True)


@api_boundary
def sph_harm_y(
    n: ArrayLike,
    m: ArrayLike,
    theta: ArrayLike,
    phi: ArrayLike,
    diff_n: int | None = None,
    n_max: int | None = None,
) -> Array:
    """Spherical harmonics Y_n^m(theta, phi), elementwise and complex.

    Args:
        n: degrees, integers of at least 0.
        m: orders, integers; the result is 0 where |m| > n.
        theta: angles from the pole, in radians.
        phi: angles around it, in radians.
        diff_n: must be None; derivatives come from grad and jvp.
        n_max: the largest degree; None: found from n, which must then be known.
    """
    if diff_n is not None:
        raise ArgumentError("sph_harm_y: diff_n must be None. Use mgefn.jacfwd for derivatives.")
    if n_max is None:
        values = known(mnp.asarray(n))
        if values is None:
            raise ArgumentError("sph_harm_y: n is traced, so n_max must be given.")
        n_max = int(np.max(values, initial=0))
    degrees, orders = mnp.asarray(n), mnp.asarray(m)
    t, p = _floats("sph_harm_y", theta, phi)
    degrees, orders, t, p = mnp.broadcast_arrays(degrees, orders, t, p)
    size = abs(orders).astype(t.dtype)
    l_end = degrees.astype(t.dtype)
    x = mnp.cos(t)
    # The normalised Legendre functions of order |m|, by their recurrence in the degree.
    log_first = 0.5 * (
        mnp.log((2 * size + 1) / (4 * math.pi))
        + ops.lgamma(2 * size + 1)
        - 2 * (ops.lgamma(size + 1) + size * math.log(2))
    )
    sign = where(orders % 2 == 0, 1, -1).astype(t.dtype)
    sine_power = mnp.ones_like(t)
    for k in range(n_max):
        sine_power = where(size > k, sine_power * mnp.sin(t), sine_power)
    current = sign * mnp.exp(log_first) * sine_power
    before = mnp.zeros_like(current)
    for k in range(1, n_max + 1):
        step = k - size
        going = (step > 0) & (k <= l_end)
        safe = where(going, step, 1)
        spread = safe * (k + where(going, size, k - 1))
        a = mnp.sqrt((4 * k * k - 1) / spread)
        b = mnp.sqrt(where(going, ((k - 1) ** 2 - size * size), 0) / max(4 * (k - 1) ** 2 - 1, 1))
        after = a * (x * current - b * before)
        before = where(going, current, before)
        current = where(going, after, current)
    current = where(size > l_end, 0, current)
    current = where(orders < 0, sign * current, current)
    angle = orders.astype(t.dtype) * p
    return lax.complex(current * mnp.cos(angle), current * mnp.sin(angle))
