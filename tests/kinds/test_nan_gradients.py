"""Products of zeros and infinities inside of derivatives: programs that are smooth all the same.

docs/derivative-conventions.md lists the functions one by one; here they meet in programs.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import nn
from tests.kinds.helpers import check

inf, nan = math.inf, math.nan
ZEROS = [np.zeros(3), np.zeros((2, 1)), np.zeros((1, 1, 2)), np.zeros(1)]
NORMS = {
    "norm": mnp.linalg.norm,
    "vector_norm": mnp.linalg.vector_norm,
    "written out": lambda x: mnp.sqrt(mnp.sum(x**2)),
    "by abs": lambda x: mnp.sqrt(mnp.sum(mnp.abs(x) ** 2)),
    "by products": lambda x: mnp.sqrt(mnp.vdot(x, x)),
    "hypot": lambda x: mnp.hypot(mnp.sum(x * x) ** 0.5, 0.0),
}
# Functions of a norm, with the gradient that they have at 0 for any direction.
OF_A_NORM = {
    "square": lambda r: r**2,
    "gaussian": lambda r: mnp.exp(-(r**2)),
    "cosine": lambda r: mnp.cos(r),
    "log of one and the square": lambda r: mnp.log1p(r * r),
    "itself": lambda r: r,
    "scaled": lambda r: 3 * r + r**3,
}


@pytest.mark.parametrize("norm, outer", list(itertools.product(NORMS, OF_A_NORM)))
def test_functions_of_norms_at_zero(norm, outer):
    """Smooth ones have slope 0; the norm itself has 0 as its shortest subgradient."""
    if norm == "by products" and outer in ("itself", "scaled"):
        return  # zeros win in elementwise functions, not in products of matrices
    for x in ZEROS[:2]:
        check(lambda v: OF_A_NORM[outer](NORMS[norm](v)), x, np.zeros(x.shape))


@pytest.mark.parametrize("norm", NORMS)
def test_what_is_always_zero_has_slope_zero(norm):
    for x in (0.0, 1.25, -3.0):
        check(lambda a: NORMS[norm](a * mnp.zeros(4)), np.asarray(x), 0.0)
        check(lambda a: (NORMS[norm](a * mnp.zeros(2)) - 1) ** 2, np.asarray(x), 0.0)


@pytest.mark.parametrize("shape", [(1,), (4,), (2, 3)])
@pytest.mark.parametrize("spread", [mnp.std, mnp.var, mnp.nanstd, mnp.nanvar])
def test_spread_of_equal_numbers(spread, shape):
    check(spread, np.full(shape, 2.5), np.zeros(shape))
    check(lambda x: mnp.sum(spread(x, axis=0)), np.full(shape, 2.5), np.zeros(shape))


def test_infinite_slopes_that_count_stay_infinite():
    for f in (mnp.sqrt, mnp.cbrt, mnp.log, lambda x: x**0.5, lambda x: mnp.sqrt(x) * 2 + x):
        for g in (mgefn.grad(f), mgefn.jit(mgefn.grad(f)), mgefn.jacfwd(f)):
            assert float(g(0.0)) == inf


REDUCTIONS = {
    "nansum": (mnp.nansum, lambda k, n: 1.0),
    "nanmean": (mnp.nanmean, lambda k, n: 1.0 / n),
    "where": (lambda x: mnp.sum(mnp.where(mnp.isnan(x), 0.0, x)), lambda k, n: 1.0),
}
BEFORE = {
    "nothing": (lambda x: x, lambda x: np.ones_like(x)),
    "square": (lambda x: x**2, lambda x: 2 * x),
    "exponential": (mnp.exp, np.exp),
    "reciprocal": (lambda x: 1 / x, lambda x: -1 / x**2),
    "logarithm": (mnp.log, lambda x: 1 / x),
}


@pytest.mark.parametrize("reduction, before", list(itertools.product(REDUCTIONS, BEFORE)))
def test_numbers_that_are_left_out_take_no_part(reduction, before):
    reduce, weight = REDUCTIONS[reduction]
    inner, slope = BEFORE[before]
    x = np.array([nan, 1.0, 2.0, nan, 3.0])
    number = ~np.isnan(x)
    want = np.where(number, slope(np.where(number, x, 1.0)) * weight(0, number.sum()), 0.0)
    check(lambda v: reduce(inner(v)), x, want)


GUARDS = {
    "sqrt": (lambda x: mnp.where(x > 0, mnp.sqrt(x), 0.0), lambda x: 0.5 / np.sqrt(x)),
    "log": (lambda x: mnp.where(x > 0, mnp.log(x), -1.0), lambda x: 1 / x),
    "reciprocal": (lambda x: mnp.where(x > 0, 1 / x, 0.0), lambda x: -1 / x**2),
    "power": (lambda x: mnp.where(x > 0, x**0.3, x * 0), lambda x: 0.3 * x**-0.7),
    "two wheres": (
        lambda x: mnp.where(x > 0, mnp.log(mnp.where(x > 0, x, 1.0)), 0.0),
        lambda x: 1 / x,
    ),
    "arctan2": (
        lambda x: mnp.where(x > 0, mnp.arctan2(x, 2 * x**2), 0.0),
        lambda x: (2 * x**2 - x * 4 * x) / ((2 * x**2) ** 2 + x**2),
    ),
    "entropy": (
        lambda x: mnp.where(x > 0, x * mnp.log(x), 0.0),
        lambda x: np.log(x) + 1,
    ),
    "select": (lambda x: mnp.select([x > 0], [mnp.sqrt(x)], 0.0), lambda x: 0.5 / np.sqrt(x)),
    "exponential": (
        lambda x: mnp.where(x > 0, x, mnp.exp(-1e4 * x) - 1) * (x > 0),
        lambda x: np.ones_like(x),
    ),
}


@pytest.mark.parametrize("name", GUARDS)
def test_one_guard_is_enough(name):
    f, slope = GUARDS[name]
    x = np.array([3.0, 0.0, -5.0, 0.5])
    want = np.where(x > 0, slope(np.where(x > 0, x, 1.0)), 0.0)
    check(lambda v: f(v).sum(), x, want)
    weights = np.array([1.0, -2.0, 3.0, 0.0])
    check(lambda v: mnp.sum(f(v) * weights), x, want * weights)


def products(x: np.ndarray, without: tuple[int, ...]) -> float:
    return float(np.prod(np.delete(x, without)))


@pytest.mark.parametrize("zeros", [(), (1,), (0, 2), (0, 1, 3), (0, 1, 2, 3)])
def test_products_with_zeros_to_third_order(zeros):
    x = np.array([2.0, -3.0, 0.5, 4.0])
    x[list(zeros)] = 0
    n = range(4)
    first = [products(x, (i,)) for i in n]
    second = [[0.0 if i == j else products(x, (i, j)) for j in n] for i in n]
    third = [
        [[products(x, (i, j, k)) if len({i, j, k}) == 3 else 0.0 for k in n] for j in n] for i in n
    ]
    at = mnp.zeros(4, int)
    for f in (
        mnp.prod,
        lambda v: mnp.cumprod(v)[-1],
        lambda v: np.multiply.reduce(v),
        lambda v: mnp.ones(1, "float64").at[at].multiply(v)[0],
        lambda v: mnp.linalg.det(mnp.diag(v)),
    ):
        check(f, x, first, atol=1e-12)
        np.testing.assert_allclose(mgefn.hessian(f)(x), second, atol=1e-10)
        np.testing.assert_allclose(mgefn.jacrev(mgefn.hessian(f))(x), third, atol=1e-9)


@pytest.mark.parametrize("axis", [0, 1])
def test_lanes_of_a_product_stand_alone(axis):
    x = np.array([[0, 5.0, 2], [0, 0, 3], [2, 3, 4]])
    w = np.array([1.0, 10, 100])
    lanes = x.T if axis == 0 else x
    others = np.array([[np.prod(np.delete(lane, k)) for k in range(3)] for lane in lanes])
    others = others.T if axis == 0 else others
    weights = w[None, :] if axis == 0 else w[:, None]
    check(lambda v: mnp.sum(w * mnp.prod(v, axis=axis)), x, others * weights)
    last = lambda v: mnp.sum(w * mnp.take(mnp.cumprod(v, axis=axis), -1, axis=axis))
    check(last, x, others * weights)


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5, 6])
def test_high_derivatives_of_poles_and_powers(order):
    x = 2.0
    factorial = math.factorial(order)
    for f, want in (
        (lambda v: 1 / v, (-1) ** order * factorial / x ** (order + 1)),
        (lambda v: v**-1, (-1) ** order * factorial / x ** (order + 1)),
        (mnp.log, (-1) ** (order - 1) * math.factorial(order - 1) / x**order),
        (lambda v: v**6, math.perm(6, order) * x ** (6 - order)),
        (lambda v: v**6.0, math.perm(6, order) * x ** (6 - order)),
        (mnp.exp, math.exp(x)),
    ):
        reverse = forward = f
        for _ in range(order):
            reverse, forward = mgefn.grad(reverse), mgefn.jacfwd(forward)
        at = mnp.asarray(np.asarray(x))
        np.testing.assert_allclose(reverse(at), want, rtol=1e-9)
        np.testing.assert_allclose(forward(at), want, rtol=1e-9)


@pytest.mark.parametrize("p", [[0.0, 0.25, 0.75], [0.0, 0.0, 1.0], [0.5, 0.5, 0.0]])
def test_entropies_with_empty_classes(p):
    p = np.array(p)
    want = np.where(p > 0, -np.log(np.where(p > 0, p, 1)) - 1, 0)

    def guarded(q):
        safe = mnp.where(q > 0, q, 1.0)
        return -mnp.sum(mnp.where(q > 0, q * mnp.log(safe), 0.0))

    check(guarded, p, want)
    check(lambda q: -mnp.sum(mnp.where(q > 0, q * mnp.log(q), 0.0)), p, want)
    # Through a softmax which is exactly 0 somewhere the infinite slope of x log x does not count.
    logits = np.where(p > 0, np.log(np.where(p > 0, p, 1)), -np.inf)
    special = mgefn.scipy.special
    f = lambda z: mnp.sum(special.entr(nn.softmax(z)))
    assert np.isfinite(np.asarray(mgefn.grad(f)(logits))).all()
