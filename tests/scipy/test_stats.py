"""mgefn.scipy.stats against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

import mgefn
import mgefn.numpy as mnp
from mgefn import errors
from mgefn.scipy import stats

X = np.array(
    [-np.inf, -50, -12, -7.5, -3, -1, -0.5, 0, 0.01, 0.2, 0.5, 0.8, 1, 1.5, 2, 3, 6.2, 9, 20, 60,
     np.inf, np.nan]
)  # fmt: skip
Q = np.array([-0.1, 0, 1e-10, 0.01, 0.3, 0.5, 0.7, 0.99, 1, 1.1, np.nan])
K = np.array([-1.0, 0, 1, 2, 3, 4.5, 7, 10, 11, np.nan, 50])

CONTINUOUS = {
    "norm": [()], "uniform": [()], "expon": [()], "gamma": [(0.5,), (1,), (3.2,)],
    "chi2": [(1,), (2,), (7.0,)], "beta": [(0.5, 0.5), (1, 1), (2, 5)], "t": [(1,), (3,), (1e6,)],
    "cauchy": [()], "laplace": [()], "logistic": [()], "pareto": [(1.0,), (3,)], "gumbel_l": [()],
    "gumbel_r": [()], "gennorm": [(1.0,), (2.5,)],
    "truncnorm": [(-1, 2), (3, 5), (-10, -8), (-np.inf, 0.5), (-2, np.inf), (20, 30)],
    "vonmises": [(0.5,), (50,)], "wrapcauchy": [(0.3,), (0.9,)],
}  # fmt: skip
DISCRETE = {
    "poisson": [(0.5,), (7,)], "bernoulli": [(0.3,), (1,)], "binom": [(10, 0.3), (10, 0.0)],
    "nbinom": [(3, 0.4)], "geom": [(0.3,)], "betabinom": [(10, 2.0, 3.0)],
}  # fmt: skip
FUNCTIONS = [
    (name, function, p)
    for name, parameters in (CONTINUOUS | DISCRETE).items()
    for function in getattr(stats, name).__all__
    if function != "entropy"
    for p in parameters
]


@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize(("name", "function", "parameters"), FUNCTIONS)
def test_values(name, function, parameters, dtype):
    x = (Q if function in ("ppf", "isf") else K if name in DISCRETE else X).astype(dtype)
    p = [np.asarray(v, dtype) for v in parameters]
    got = np.asarray(getattr(getattr(stats, name), function)(x, *p))
    assert got.dtype == dtype
    with np.errstate(all="ignore"):
        want = getattr(getattr(scipy.stats, name), function)(x.astype("d"), *map(float, p))
    where = np.isfinite(want) | (not name.startswith("gumbel"))  # SciPy: NaN at infinity
    if dtype == "f":
        # Logarithms of what float32 can't hold.
        where = where & ~(np.isneginf(got) & (want < -80)) & (np.abs(want) < 3e38)
        x = x[where]
    np.testing.assert_allclose(
        got[where], want[where], rtol=1e-5 if dtype == "f" else 1e-10,
        atol=1e-6 if dtype == "f" else 1e-13,
    )  # fmt: skip


SHIFTED = [n for n in CONTINUOUS if n not in ("gennorm", "vonmises", "wrapcauchy")]


@pytest.mark.parametrize("name", SHIFTED)
def test_loc_and_scale(name):
    p = CONTINUOUS[name][0]
    x = np.linspace(-2, 5, 9)
    for function in getattr(stats, name).__all__:
        at = np.linspace(0.1, 0.9, 5) if function in ("ppf", "isf") else x
        got = getattr(getattr(stats, name), function)(at, *p, 0.7, 1.3)
        with np.errstate(divide="ignore"):
            want = getattr(getattr(scipy.stats, name), function)(at, *p, 0.7, 1.3)
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize(("name", "function", "parameters"), FUNCTIONS)
def test_gradients_are_not_nan(name, function, parameters):
    if name == "beta" and function == "pdf" and parameters == (0.5, 0.5):
        pytest.skip("the density is infinite at both ends")
    f = getattr(getattr(stats, name), function)
    x = Q if function in ("ppf", "isf") else K if name in DISCRETE else X
    x = x[np.isfinite(x) & np.isfinite(np.asarray(f(x, *parameters)))]
    g = mgefn.jit(mgefn.vmap(mgefn.grad(lambda t: f(t, *parameters))))(x)
    assert not np.isnan(np.asarray(g)).any()


@pytest.mark.parametrize(
    ("name", "function", "parameters"),
    [(n, f, p) for n, f, p in FUNCTIONS if n in CONTINUOUS and n not in ("truncnorm", "pareto")],
)
def test_derivatives(name, function, parameters):
    f = getattr(getattr(stats, name), function)
    narrow = function in ("ppf", "isf") or name in ("beta", "uniform")
    x = np.random.default_rng(0).uniform(*((0.05, 0.95) if narrow else (0.2, 2)), 10)
    h = 1e-6
    want = (np.asarray(f(x + h, *parameters)) - np.asarray(f(x - h, *parameters))) / (2 * h)
    got = mgefn.vmap(mgefn.grad(lambda t: f(t, *parameters)))(x)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("name", ["norm", "gamma", "beta", "t", "truncnorm", "poisson", "binom"])
def test_derivatives_in_parameters(name):
    function = stats.__dict__[name]
    log = function.logpmf if name in DISCRETE else function.logpdf
    p = {"norm": (0.2, 1.3), "truncnorm": (-1.0, 2.0), "poisson": (0.5,), "binom": (5.0, 0.3)}
    p = p.get(name) or CONTINUOUS[name][-1]
    x = mnp.array([0.0, 1, 3]) if name in DISCRETE else mnp.array([0.3, 0.7])
    for k in range(len(p)):
        if name == "binom" and k == 0:
            continue

        def f(v, k=k):
            return log(x.astype("float64"), *p[:k], v, *p[k + 1 :])

        h = 1e-6
        v = np.asarray(float(p[k]))
        want = (np.asarray(f(np.asarray(v + h))) - np.asarray(f(np.asarray(v - h)))) / (2 * h)
        np.testing.assert_allclose(mgefn.jacfwd(f)(v), want, rtol=1e-4, atol=1e-7)


def test_several_dimensions():
    rng = np.random.default_rng(0)
    c = rng.standard_normal((4, 3))
    cov, mean, x = c.T @ c, rng.standard_normal(3), rng.standard_normal((5, 3))
    ours, theirs = stats.multivariate_normal, scipy.stats.multivariate_normal
    np.testing.assert_allclose(ours.logpdf(x, mean, cov), theirs.logpdf(x, mean, cov))
    np.testing.assert_allclose(ours.pdf(x, mean, 2.0), theirs.pdf(x, mean, 2.0))
    stacked = ours.logpdf(x, mean, np.stack([cov] * 5))
    np.testing.assert_allclose(stacked, theirs.logpdf(x, mean, cov))
    with pytest.raises(errors.ShapeError, match="cov must have shape"):
        ours.logpdf(x, mean, np.eye(2))
    alpha, p = np.array([0.5, 1, 3]), np.array([0.2, 0.3, 0.5])
    want = scipy.stats.dirichlet.logpdf(p, alpha)
    np.testing.assert_allclose(stats.dirichlet.logpdf(p, alpha), want)
    np.testing.assert_allclose(stats.dirichlet.logpdf(p[:2], alpha), want)
    assert stats.dirichlet.pdf(p + 0.1, alpha) == 0
    counts, p = np.array([[1, 2, 0], [1, 1, 1], [3, 0, 0]]), np.array([0.2, 0.8, 0.0])
    want = scipy.stats.multinomial.logpmf(counts, 3, p)
    np.testing.assert_allclose(stats.multinomial.logpmf(counts, 3, p), want)


def test_entropy_of_poisson():
    mu = np.array([0.01, 0.5, 7, 99, 101, 500])
    np.testing.assert_allclose(
        stats.poisson.entropy(mu), scipy.stats.poisson.entropy(mu), rtol=1e-8
    )


@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_samples(axis):
    x = np.random.default_rng(0).integers(0, 4, (5, 6)).astype(float)
    for keepdims in (False, True):
        got, want = (s.mode(x, axis, keepdims=keepdims) for s in (stats, scipy.stats))
        np.testing.assert_array_equal(got.mode, want.mode)
        np.testing.assert_array_equal(got.count, want.count)
    for method in ("average", "min", "max", "dense", "ordinal"):
        np.testing.assert_array_equal(
            stats.rankdata(x, method, axis=axis), scipy.stats.rankdata(x, method, axis=axis)
        )
    np.testing.assert_allclose(stats.sem(x, axis), scipy.stats.sem(x, axis))
    x[1, 2] = np.nan
    for policy in ("propagate", "omit"):
        np.testing.assert_allclose(
            stats.sem(x, axis, nan_policy=policy), scipy.stats.sem(x, axis, nan_policy=policy)
        )
    with pytest.raises(errors.ArgumentError, match="nan_policy"):
        stats.mode(x, nan_policy="omit")


def test_kernel_density():
    rng = np.random.default_rng(0)
    data, weights, points = rng.standard_normal((2, 30)), rng.random(30), rng.random((2, 7))
    small = stats.gaussian_kde(data[:, :9]), scipy.stats.gaussian_kde(data[:, :9])
    for bandwidth in (None, "silverman", 0.4):
        got = stats.gaussian_kde(data, bandwidth, weights)
        want = scipy.stats.gaussian_kde(data, bandwidth, weights)
        np.testing.assert_allclose(mgefn.jit(lambda k, p: k(p))(got, points), want(points))
        np.testing.assert_allclose(got.logpdf(points), want.logpdf(points))
        np.testing.assert_allclose(
            got.integrate_gaussian([0.0, 0.0], np.eye(2)),
            want.integrate_gaussian([0, 0], np.eye(2)),
        )
        np.testing.assert_allclose(got.integrate_kde(small[0]), want.integrate_kde(small[1]))
    line = stats.gaussian_kde(data[0]), scipy.stats.gaussian_kde(data[0])
    np.testing.assert_allclose(line[0].integrate_box_1d(-1, 1), line[1].integrate_box_1d(-1, 1))
    draws = line[0].resample(mgefn.random.key(0), (4000,))
    assert draws.shape == (1, 4000)
    np.testing.assert_allclose(np.mean(draws), data[0].mean(), atol=0.1)
    with pytest.raises(errors.ShapeError, match="points must have shape"):
        got(np.zeros((3, 4)))
