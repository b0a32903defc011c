"""Distributions: recorded values of jax.random, moments, derivatives, jit and vmap."""

import numpy as np
import pytest
from scipy import stats

import mgefn
import mgefn.numpy as mnp
from mgefn import errors, random

KEY = random.PRNGKey(42)
A = np.array([0.05, 0.9, 2.5, 30.0], np.float32)
LAM = np.array([0.0, 0.5, 9.0, 60.0], np.float32)
P = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
COV = np.array([[2, 0.5], [0.5, 1]], np.float32)

# Recorded with JAX 0.10.2, jax.random.PRNGKey(42) and jax_threefry_partitionable, its default.
# fmt: off
NEAR = {
    "gamma(KEY, A)": [4.6655878e-05, 0.84629351, 4.1941113, 27.260042],
    "gamma(KEY, 2.0, (2, 2))": [[3.6725166, 1.0923854],
 [3.5018392, 1.1462076]],
    "gamma(KEY, 2.0, (3,), 'float16')": [2.3046875, 0.83740234, 5.8945312],
    "loggamma(KEY, A)": [-9.9727116, -0.16688915, 1.4336815, 3.3054218],
    "loggamma(KEY, 1e-3, (3,))": [-537.9234, -162.28209, -260.29123],
    "beta(KEY, A, 2.0)": [0.00011517935, 0.36711729, 0.8057518, 0.98340768],
    "dirichlet(KEY, A)": [1.4444327e-06, 0.026200639, 0.12984669, 0.84395128],
    "dirichlet(KEY, P, (2,))": [[0.0082727168, 0.16576704, 0.81288284, 0.013077354],
 [1.8426792e-12, 0.051792141, 0.89835876, 0.049849048]],
    "chisquare(KEY, 3 * A)": [0.0034474442, 1.170287, 11.693884, 83.396584],
    "t(KEY, 3 * A)": [62.213585, -2.0047281, 1.7512734, 0.57130396],
    "f(KEY, 3 * A, 2 * A)": [0.00041675643, 0.32416034, 0.42497426, 0.7487644],
    "generalized_normal(KEY, 1.5, (3,))": [-0.87823755, -0.20616245, 1.160471],
    "ball(KEY, 2, shape=(2,))": [[0.32345611, 0.06134896],
 [0.015618555, 0.47010365]],
    "ball(KEY, 3, 1.5)": [0.34366795, 0.051993191, 0.017910156],
    "multivariate_normal(KEY, P[:2], COV, (2,))": [[0.059971232, 0.62695467],
 [0.51818717, 0.44817585]],
    "multivariate_normal(KEY, P[:2], COV)": [0.059971232, 0.62695467],
    "orthogonal(KEY, 2)": [[-0.095284224, 0.99545008],
 [0.99545008, 0.095284283]],
    "orthogonal(KEY, 3, m=2)": [[-0.087927341, 0.87226337],
 [0.91859132, 0.25780207],
 [-0.38530377, 0.41556573]],
    "lognormal(KEY, 0.5, (3,))": [0.98594737, 1.2630961, 1.1593407],
    "pareto(KEY, A)": [670882.56, 3.5442765, 1.4668658, 1.0278231],
    "rayleigh(KEY, A)": [0.059832554, 0.79073161, 2.4598467, 32.25539],
    "weibull_min(KEY, 2.0, 1.5, (3,))": [1.5326145, 2.1810308, 1.943357],
    "maxwell(KEY, (3,))": [0.55358249, 0.29328507, 1.708603],
    "double_sided_maxwell(KEY, 1.0, 2.0, (3,))": [-1.7620435, -0.35137796, 5.4440427],
    "wald(KEY, A)": [0.050856113, 1.4219471, 0.41697764, 3.0000372],
    "triangular(KEY, -1.0, 0.5, 2.0, (3,))": [0.48296762, 0.79961979, 0.68593061],
    "truncated_normal(KEY, np.array([-1.0, 1.0], np.float32), 2.0)": [0.14770006, 1.5041814],
}

EXACT = {
    "poisson(KEY, LAM)": [0, 1, 12, 54],
    "poisson(KEY, 4.0, (5,), 'int16')": [6, 3, 2, 2, 5],
    "binomial(KEY, 20, P)": [1.0, 6.0, 4.0, 7.0],
    "binomial(KEY, 1000.0, 0.9, (4,))": [893.0, 891.0, 910.0, 907.0],
    "multinomial(KEY, 30, P)": [3.0, 4.0, 6.0, 17.0],
    "multinomial(KEY, 30, P, shape=(2, 4))": [[3.0, 4.0, 6.0, 17.0], [3.0, 7.0, 11.0, 9.0]],
    "geometric(KEY, P)": [7, 2, 2, 2],
    "rademacher(KEY, (5,), 'int8')": [1, -1, -1, -1, 1],
    "categorical(KEY, np.log(P), shape=(2,), replace=False)": [3, 2],
    "categorical(KEY, np.log(P), shape=(5,), mode='high')": [3, 2, 2, 2, 2],
    "categorical(KEY, np.log(np.stack([P, P[::-1]])))": [3, 1],
    "categorical(KEY, np.log(np.stack([P, P[::-1]])), axis=0)": [1, 1, 0, 0],
}
# fmt: on

DERIVATIVES = {
    "gamma(KEY, a)": [0.00884159654378891, 1.714995265007019, 1.3959625959396362,
                      1.107200264930725],
    "loggamma(KEY, a)": [189.50660705566406, 0.8844444751739502, 0.3188530504703522,
                         0.030345140025019646],
}  # fmt: skip


def function(expression: str):
    """The expression as a function of the key."""
    names = {"random": random, "A": A, "LAM": LAM, "P": P, "COV": COV, "np": np}
    return eval(f"lambda KEY: random.{expression}", names)


@pytest.mark.parametrize("expression", EXACT)
def test_recorded_counts(expression: str) -> None:
    assert function(expression)(KEY).tolist() == EXACT[expression]


@pytest.mark.parametrize("expression", NEAR)
def test_recorded_numbers(expression: str) -> None:
    half = "float16" in expression
    rtol = 2e-3 if half else 2e-5
    np.testing.assert_allclose(function(expression)(KEY), NEAR[expression], rtol, 1e-6)


@pytest.mark.parametrize("expression", [*NEAR, *EXACT])
def test_jit_and_vmap_draw_the_same(expression: str) -> None:
    f = function(expression)
    want = np.asarray(f(KEY))
    # A compiled program may round otherwise in the last place.
    close = {"rtol": 2e-3 if want.dtype == np.float16 else 1e-5, "atol": 1e-7}
    np.testing.assert_allclose(mgefn.jit(f)(KEY), want, **close)
    keys = random.split(KEY, 3)
    got = mgefn.vmap(f)(keys)
    for row, key in zip(got, keys, strict=True):
        np.testing.assert_allclose(row, f(key), **close)
    np.testing.assert_allclose(mgefn.jit(mgefn.vmap(f))(keys), got, **close)


@pytest.mark.parametrize("expression", DERIVATIVES)
def test_recorded_derivatives_in_the_order(expression: str) -> None:
    f = eval(f"lambda a, KEY: random.{expression}", {"random": random})
    want = DERIVATIVES[expression]
    for gradient in (mgefn.grad(f), mgefn.jit(mgefn.grad(f))):
        got = mgefn.vmap(gradient, (0, None))(A, KEY)
        np.testing.assert_allclose(got, want, rtol=2e-4)
    tangent = mgefn.vmap(lambda a: mgefn.jvp(lambda a: f(a, KEY), (a,), (mnp.ones(()),))[1])(A)
    np.testing.assert_allclose(tangent, want, rtol=2e-4)


def test_derivatives_are_implicit() -> None:
    """The derivative of a number keeps its place in the distribution function."""
    a, key = 2.5, KEY
    x = float(random.gamma(key, a, dtype="float64"))
    slope = mgefn.grad(lambda a: random.gamma(key, a, dtype="float64"))(np.array(a))
    place = stats.gamma.cdf(x, a)
    step = 1e-5
    near = (stats.gamma.ppf(place, a + step) - stats.gamma.ppf(place, a - step)) / (2 * step)
    np.testing.assert_allclose(slope, near, rtol=1e-6)
    total = mgefn.grad(lambda a: random.dirichlet(key, a).sum())(mnp.array(P))
    np.testing.assert_allclose(total, 0, atol=1e-5)
    assert np.isfinite(mgefn.grad(lambda a: random.beta(key, a, 2.0))(0.01))
    assert np.isfinite(mgefn.grad(lambda df: random.t(key, df))(3.0))


def test_parameters_that_are_mapped() -> None:
    got = mgefn.vmap(lambda a: random.gamma(KEY, a))(A)
    np.testing.assert_allclose(got, [random.gamma(KEY, a) for a in A], rtol=1e-6)
    counts = mgefn.vmap(lambda lam: random.poisson(KEY, lam, (2,)))(LAM)
    np.testing.assert_array_equal(counts, [random.poisson(KEY, lam, (2,)) for lam in LAM])


# -- distributions --------------------------------------------------------------------------------

N = 20_000
SAMPLES = {
    "gamma": (lambda: random.gamma(KEY, 0.7, (N,)), stats.gamma(0.7)),
    "large gamma": (lambda: random.gamma(KEY, 1e3, (N,)), stats.gamma(1e3)),
    "beta": (lambda: random.beta(KEY, 0.5, 3.0, (N,)), stats.beta(0.5, 3)),
    "chisquare": (lambda: random.chisquare(KEY, 3, (N,)), stats.chi2(3)),
    "t": (lambda: random.t(KEY, 4, (N,)), stats.t(4)),
    "f": (lambda: random.f(KEY, 4, 7, (N,)), stats.f(4, 7)),
    "generalized_normal": (lambda: random.generalized_normal(KEY, 3.0, (N,)), stats.gennorm(3)),
    "rayleigh": (lambda: random.rayleigh(KEY, 2.0, (N,)), stats.rayleigh(scale=2)),
    "weibull_min": (
        lambda: random.weibull_min(KEY, 2.0, 1.5, (N,)),
        stats.weibull_min(1.5, scale=2),
    ),
    "maxwell": (lambda: random.maxwell(KEY, (N,)), stats.maxwell),
    "pareto": (lambda: random.pareto(KEY, 3.0, (N,)), stats.pareto(3)),
    "lognormal": (lambda: random.lognormal(KEY, 0.5, (N,)), stats.lognorm(0.5)),
    "wald": (lambda: random.wald(KEY, 2.0, (N,)), stats.invgauss(2.0)),
    "triangular": (
        lambda: random.triangular(KEY, -1.0, 0.0, 3.0, (N,)),
        stats.triang(0.25, -1, 4),
    ),
    "truncated_normal": (
        lambda: random.truncated_normal(KEY, -1.0, 2.0, (N,)),
        stats.truncnorm(-1, 2),
    ),
    "radius of a ball": (lambda: mnp.linalg.norm(random.ball(KEY, 3, 2, (N,)), axis=-1) ** 3,
                         stats.uniform),
}  # fmt: skip
COUNTS = {
    "poisson": (lambda: random.poisson(KEY, 3.0, (N,)), stats.poisson(3)),
    "large poisson": (lambda: random.poisson(KEY, 200.0, (N,)), stats.poisson(200)),
    "binomial": (lambda: random.binomial(KEY, 20, 0.2, (N,)), stats.binom(20, 0.2)),
    "large binomial": (lambda: random.binomial(KEY, 500, 0.7, (N,)), stats.binom(500, 0.7)),
    "geometric": (lambda: random.geometric(KEY, 0.3, (N,)), stats.geom(0.3)),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_distribution_functions(name: str) -> None:
    draw, law = SAMPLES[name]
    assert stats.kstest(np.asarray(draw(), np.float64), law.cdf).pvalue > 1e-3


@pytest.mark.parametrize("name", COUNTS)
def test_frequencies(name: str) -> None:
    draw, law = COUNTS[name]
    x = np.asarray(draw(), np.float64)
    grid = np.unique(law.ppf(np.linspace(0.02, 0.98, 15)))
    below = np.array([(x <= k).mean() for k in grid])
    # Four standard deviations of a frequency.
    np.testing.assert_allclose(below, law.cdf(grid), atol=4 * 0.5 / np.sqrt(N))


def test_vectors() -> None:
    mean = np.array([1.0, -2.0], np.float32)
    for method in ("cholesky", "eigh", "svd"):
        x = np.asarray(random.multivariate_normal(KEY, mean, COV, (N,), method=method))
        np.testing.assert_allclose(x.mean(0), mean, atol=0.05)
        np.testing.assert_allclose(np.cov(x.T), COV, atol=0.06)
    parts = np.asarray(random.dirichlet(KEY, P, (N,)))
    np.testing.assert_allclose(parts.sum(-1), 1, rtol=1e-5)
    np.testing.assert_allclose(parts.mean(0), P / P.sum(), atol=0.01)
    q = np.asarray(random.orthogonal(KEY, 3, (100,)))
    np.testing.assert_allclose(
        q @ q.swapaxes(-1, -2), np.broadcast_to(np.eye(3), q.shape), atol=1e-5
    )
    wide = np.asarray(random.orthogonal(KEY, 2, m=4, dtype="complex64"))
    np.testing.assert_allclose(wide @ wide.conj().T, np.eye(2), atol=1e-5)
    counts = np.asarray(random.multinomial(KEY, 30, P, shape=(500, 4)))
    np.testing.assert_array_equal(counts.sum(-1), 30)
    np.testing.assert_allclose(counts.mean(0), 30 * P, atol=0.4)


def test_unusual_parameters() -> None:
    assert random.poisson(KEY, np.float32(np.nan)).tolist() == -1
    n = np.array([np.nan, -1, np.inf, 0], np.float32)
    got = np.asarray(random.binomial(KEY, n, 0.3))
    np.testing.assert_array_equal(got, [np.nan, np.nan, np.inf, 0])
    p = np.array([0, 1, np.nan, -0.1], np.float32)
    np.testing.assert_array_equal(random.binomial(KEY, 7, p), [0, 7, np.nan, np.nan])
    assert np.isfinite(random.loggamma(KEY, 1e-10))
    with_zero = random.multinomial(KEY, 5, np.array([0, 1, 0], np.float32))
    assert with_zero.tolist() == [0, 5, 0]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_dtypes_and_zero_size(dtype: str) -> None:
    for f in (random.gamma, random.loggamma, random.chisquare, random.t):
        assert f(KEY, 2.0, (3,), dtype).dtype == mnp.dtype(dtype)
        assert f(KEY, 2.0, (0, 3), dtype).shape == (0, 3)
    assert random.dirichlet(KEY, P, (2,), dtype).shape == (2, 4)
    assert random.ball(KEY, 3, shape=(2,), dtype=dtype).dtype == mnp.dtype(dtype)
    assert random.poisson(KEY, 2.0, (0,)).shape == (0,)
    assert random.binomial(KEY, 2, 0.5, (0,), dtype).dtype == mnp.dtype(dtype)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: random.gamma(0, 1.0), errors.ArgumentError, "random.key"),
        (lambda: random.gamma(KEY, 1.0, (), "int32"), errors.DTypeError, "floating"),
        (lambda: random.gamma(KEY, np.ones(3), (2,)), errors.ShapeError, "broadcast"),
        (lambda: random.poisson(KEY, 1.0, (), "float32"), errors.DTypeError, "integer"),
        (lambda: random.poisson(random.split(KEY), 1.0), errors.ShapeError, "vmap"),
        (lambda: random.binomial(KEY, 3, 0.5, (), "int32"), errors.DTypeError, "floating"),
        (lambda: random.dirichlet(KEY, 1.0), errors.ShapeError, "rank 1"),
        (lambda: random.multinomial(KEY, 3, 0.5), errors.ShapeError, "rank 1"),
        (
            lambda: random.multivariate_normal(KEY, np.zeros(3), COV),
            errors.ShapeError,
            r"\(\.\.\., n, n\)",
        ),
        (
            lambda: random.multivariate_normal(KEY, np.zeros(2), COV, method="lu"),
            errors.ArgumentError,
            "cholesky",
        ),
        (
            lambda: random.multivariate_normal(KEY, np.zeros((3, 2)), COV, (2,)),
            errors.ShapeError,
            "broadcast",
        ),
        (lambda: random.orthogonal(KEY, 3, dtype="int32"), errors.DTypeError, "complex"),
    ],
)
def test_refusals(call, error: type, match: str) -> None:
    with pytest.raises(error, match=match):
        call()
