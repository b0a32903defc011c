"""Numbers equal to jax.random's to the last bit, in float32 and narrower, and nearly so in float64.

All values are recorded with JAX 0.10.2 on a CPU: jax.random.PRNGKey(42), those of float64 with
jax_enable_x64.
"""

import zlib

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import random
from mgefn.backends.numpy_kernels import sampling

KEY = random.key(42)

EXACT = {
    "normal(KEY, (6,))": [
        "-0x1.cfbe2a0000000p-6",
        "0x1.de57d00000000p-2",
        "0x1.2eccc20000000p-2",
        "0x1.3a76480000000p-3",
        "-0x1.fc09d60000000p-4",
        "0x1.bc42340000000p-3",
    ],
    "truncated_normal(KEY, -1.0, 2.0, (4,))": [
        "0x1.2e7d5e0000000p-3",
        "0x1.230b360000000p-1",
        "0x1.af21500000000p-2",
        "0x1.332b560000000p-2",
    ],
    "lognormal(KEY, 1.5, (4,))": [
        "0x1.eab7900000000p-1",
        "0x1.01f0b60000000p+1",
        "0x1.8ee88e0000000p+0",
        "0x1.424dea0000000p+0",
    ],
    "exponential(KEY, (4,))": [
        "0x1.5775640000000p-1",
        "0x1.2388700000000p+0",
        "0x1.ea67620000000p-1",
        "0x1.a586980000000p-1",
    ],
    "gumbel(KEY, (4,))": [
        "0x1.561c940000000p-2",
        "0x1.e76f180000000p-1",
        "0x1.7378be0000000p-1",
        "0x1.18a9f00000000p-1",
    ],
    "gumbel(KEY, (4,), mode='high')": [
        "0x1.98d7160000000p-2",
        "-0x1.0a30a80000000p-3",
        "0x1.6109a20000000p-5",
        "0x1.8e38840000000p-3",
    ],
    "laplace(KEY, (4,))": [
        "0x1.7634720000000p-6",
        "-0x1.c859680000000p-2",
        "-0x1.0f066a0000000p-2",
        "-0x1.0a89aa0000000p-3",
    ],
    "logistic(KEY, (4,))": [
        "-0x1.7207200000000p-5",
        "0x1.8174380000000p-1",
        "0x1.e51f540000000p-2",
        "0x1.f658e80000000p-3",
    ],
    "pareto(KEY, 3.0, (4,))": [
        "0x1.4025e00000000p+0",
        "0x1.7631fc0000000p+0",
        "0x1.6049e40000000p+0",
        "0x1.50d7100000000p+0",
    ],
    "rayleigh(KEY, 2.0, (4,))": [
        "0x1.3257ba0000000p+1",
        "0x1.c1d6a40000000p+0",
        "0x1.f7c6d00000000p+0",
        "0x1.133efa0000000p+1",
    ],
    "maxwell(KEY, (4,))": [
        "0x1.1b6f2a0000000p-1",
        "0x1.2c52ec0000000p-2",
        "0x1.b567020000000p+0",
        "0x1.822a4a0000000p+0",
    ],
    "wald(KEY, 2.0, (4,))": [
        "0x1.1d00da0000000p+1",
        "0x1.f6bf480000000p+1",
        "0x1.8ed2a00000000p-2",
        "0x1.f2d0540000000p-1",
    ],
    "triangular(KEY, -1.0, 0.5, 3.0, (4,))": [
        "0x1.7a47800000000p-1",
        "0x1.35e87e0000000p+0",
        "0x1.0a859a0000000p+0",
        "0x1.cf42b00000000p-1",
    ],
    "gamma(KEY, 2.0, (4,))": [
        "0x1.d615060000000p+1",
        "0x1.17a6920000000p+0",
        "0x1.c03c440000000p+1",
        "0x1.256ddc0000000p+0",
    ],
    "loggamma(KEY, 0.05, (4,))": [
        "-0x1.3f20740000000p+3",
        "-0x1.0e8d120000000p+2",
        "-0x1.1ef3d00000000p+2",
        "-0x1.e5eda40000000p+4",
    ],
    "t(KEY, 3.0, (4,))": [
        "0x1.70208a0000000p-4",
        "-0x1.bc59e60000000p+0",
        "0x1.2d0ef60000000p+1",
        "0x1.29dc640000000p+0",
    ],
    "chisquare(KEY, 3.0, (4,))": [
        "0x1.77b9c80000000p+2",
        "0x1.65d9900000000p+0",
        "0x1.63cd980000000p+2",
        "0x1.7ba5340000000p+0",
    ],
    "normal(KEY, (4,), 'float16')": [
        "-0x1.6e00000000000p+0",
        "-0x1.c040000000000p-1",
        "0x1.f980000000000p+0",
        "0x1.64c0000000000p-1",
    ],
    "normal(KEY, (4,), 'bfloat16')": [
        "0x1.6000000000000p-2",
        "0x1.0400000000000p+0",
        "0x1.e400000000000p+0",
        "0x1.f800000000000p-1",
    ],
    "uniform(KEY, (4,), 'float16', -5.0, 3.0)": [
        "-0x1.1900000000000p+2",
        "-0x1.bd00000000000p+1",
        "0x1.6700000000000p+1",
        "0x1.0e00000000000p+0",
    ],
    "truncated_normal(KEY, -1.0, 2.0, (4,), 'float16')": [
        "-0x1.89c0000000000p-1",
        "-0x1.ee80000000000p-2",
        "0x1.b780000000000p+0",
        "0x1.87c0000000000p-1",
    ],
}
# Within 4 units in the last place.
FLOAT64 = {
    "normal(KEY, (4,), 'float64')": [
        "-0x1.7a4a26c962159p-3",
        "-0x1.15bccfaa7ba3ap+1",
        "0x1.7ed8110b50460p-3",
        "0x1.397ad84a04356p-1",
    ],
    "truncated_normal(KEY, -1.0, 2.0, (4,), 'float64')": [
        "0x1.476d2d51917c6p-6",
        "-0x1.e6a113b26a9afp-1",
        "0x1.5026637a6c656p-2",
        "0x1.633370a002275p-1",
    ],
    "lognormal(KEY, 1.0, (4,), 'float64')": [
        "0x1.a9a5e7f65dfe4p-1",
        "0x1.d3c0ea3c9dfb6p-4",
        "0x1.349ee5d208afdp+0",
        "0x1.d8380e8aec3f1p+0",
    ],
}
# Of a million draws in float64: the places of the largest, and these.
TAIL = [
    (531358, "0x1.502438f1d897bp+2"),
    (936084, "-0x1.4116dd50f1c74p+2"),
    (663405, "-0x1.34b4bbf624d30p+2"),
    (444741, "0x1.2f2e11d223b00p+2"),
    (706107, "-0x1.2de3102ceabcep+2"),
    (337267, "-0x1.25de41c2ca084p+2"),
]
# zlib.crc32 of the bytes of a million draws.
DIGESTS = {
    "normal(KEY, (1_000_000,))": 546355951,
    "truncated_normal(KEY, -1.0, 2.0, (1_000_000,))": 226642068,
    "lognormal(KEY, 1.0, (1_000_000,))": 455953067,
    "exponential(KEY, (1_000_000,))": 3595838532,
    "gumbel(KEY, (1_000_000,))": 475520680,
}
# mean: the sum of 20,000 draws as int32, and crc32 of their bytes
POISSON = {
    3.0: (60048, 3078678716),
    30.0: (599626, 2916165041),
    100000.0: (1999967807, 83631704),
    1000000.0: (19999826543, 566548992),
    1000000000.0: (19999994067968, 2903254161),
}
# n, p: the same of draws as float32
BINOMIAL = {
    (20, 0.2): (79950, 311861986),
    (1000.0, 0.3): (5997455, 3084228017),
    (1000000.0, 0.7): (14000110092, 2939384456),
}


def call(expression: str, key=KEY) -> np.ndarray:
    return np.asarray(eval(f"random.{expression}", {"random": random, "KEY": key}))


def digest(x) -> int:
    return zlib.crc32(np.ascontiguousarray(x).tobytes())


@pytest.mark.parametrize("expression", EXACT)
def test_equal_to_the_last_bit(expression: str) -> None:
    got = call(expression).astype(np.float64)
    assert got.tolist() == [float.fromhex(x) for x in EXACT[expression]]


@pytest.mark.parametrize("expression", DIGESTS)
def test_a_million_draws(expression: str) -> None:
    got = call(expression)
    assert got.dtype == np.float32 and digest(got) == DIGESTS[expression]


@pytest.mark.parametrize("expression", FLOAT64)
def test_float64(expression: str) -> None:
    want = np.array([float.fromhex(x) for x in FLOAT64[expression]])
    np.testing.assert_array_max_ulp(call(expression), want, 4)


def test_float64_far_from_the_mean() -> None:
    x = call("normal(KEY, (1_000_000,), 'float64')")
    want = np.array([float.fromhex(v) for _, v in TAIL])
    np.testing.assert_array_max_ulp(x[[i for i, _ in TAIL]], want, 4)


@pytest.mark.parametrize("mean", POISSON)
def test_poisson(mean: float) -> None:
    x = np.asarray(random.poisson(KEY, mean, (20_000,)))
    assert (int(x.astype(np.int64).sum()), digest(x)) == POISSON[mean]


@pytest.mark.parametrize("parameters", BINOMIAL)
def test_binomial(parameters: tuple) -> None:
    x = np.asarray(random.binomial(KEY, *parameters, (20_000,)))
    assert (int(x.astype(np.int64).sum()), digest(x)) == BINOMIAL[parameters]


@pytest.mark.parametrize("expression", [*EXACT, *FLOAT64, "poisson(KEY, 1e6, (9,))"])
def test_the_same_numbers_eager_jitted_and_mapped(expression: str) -> None:
    keys = random.split(KEY, 3)
    want = np.stack([call(expression, k) for k in keys])

    def f(key):
        return eval(f"random.{expression}", {"random": random, "KEY": key})

    jitted = mgefn.jit(f)
    np.testing.assert_array_equal(np.stack([np.asarray(jitted(k)) for k in keys]), want)
    np.testing.assert_array_equal(mgefn.vmap(f)(keys), want)
    np.testing.assert_array_equal(mgefn.jit(mgefn.vmap(f))(keys), want)


# -- the functions with fixed arithmetic ----------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_near_the_functions_they_stand_for(dtype: str) -> None:
    import scipy.special as sp

    d = mnp.dtype(dtype)
    rng = np.random.default_rng(0)
    positive = np.exp(rng.normal(size=40_000) * 2).astype(d)
    inner = rng.uniform(-0.9, 0.9, 40_000).astype(d)
    # log1p leaves the range its series is made for, down to -0.29, and loses 130 units there.
    rtol = 150 * float(mnp.finfo(d).eps) if d.itemsize > 4 else 4 * float(mnp.finfo(d).eps)
    for kernel, exact, x in (
        (sampling.log, np.log, positive),
        (sampling.log1p, np.log1p, np.concatenate([positive, inner])),
        (sampling.exp, np.exp, (inner * 9).astype(d)),
        (sampling.erf, sp.erf, inner),
    ):
        (y,) = kernel(x)
        assert y.dtype == d and y.shape == x.shape
        want = exact(x.astype(np.float64))
        np.testing.assert_allclose(y.astype(np.float64), want, rtol, rtol)
    for exact_steps in (False, True):
        (y,) = sampling.erf_inv(inner, exact=exact_steps)
        want = sp.erfinv(inner.astype(np.float64))
        np.testing.assert_allclose(y.astype(np.float64), want, rtol)


def test_at_the_ends() -> None:
    with np.errstate(all="ignore"):
        for d in (np.float32, np.float64):
            x = np.array([0, np.inf, -1, np.nan, 1, 1e-45], d)
            np.testing.assert_allclose(sampling.log(x)[0], np.log(x), rtol=1e-6)
            np.testing.assert_allclose(sampling.log1p(x)[0], np.log1p(x), rtol=1e-6)
            y = np.array([-np.inf, np.inf, np.nan, -87.5, 88.9, -1e4, 1e4, 0], d)
            np.testing.assert_allclose(sampling.exp(y)[0], np.exp(y), rtol=1e-6)
            ends = sampling.erf_inv(np.array([-1, 1, 2, np.nan, 0], d), exact=False)[0]
            np.testing.assert_array_equal(ends, [-np.inf, np.inf, np.nan, np.nan, 0])
            far = np.array([-np.inf, -6, 6, np.inf, np.nan], d)
            np.testing.assert_allclose(sampling.erf(far)[0], [-1, -1, 1, 1, np.nan])
            assert sampling.log(np.zeros((0, 3), d))[0].shape == (0, 3)
            assert sampling.log(np.ones((), d))[0].shape == ()


def test_fused_operation_rounds_once() -> None:
    a = np.array([1 + 2.0**-30, 1e308, 3.0, np.inf])
    b = np.array([1 - 2.0**-30, 10.0, np.nan, 2.0])
    with np.errstate(all="ignore"):
        got = sampling.fma(a, b, np.array([-1.0, 0.0, 1.0, 1.0]))[0]
    np.testing.assert_array_equal(got, [-(2.0**-60), np.inf, np.nan, np.inf])
    x = np.float32(1 + 2.0**-12)
    assert sampling.fma(x[()] * np.ones(1, "f4"), x * np.ones(1, "f4"), -np.ones(1, "f4"))[0] == (
        np.float32(float(x) ** 2 - 1)
    )


def test_bounds_of_truncated_normal_have_derivatives() -> None:
    def f(low):
        return random.truncated_normal(KEY, low, 2.0, dtype="float64")

    low, step = np.array(-1.0), 1e-6
    slope = mgefn.grad(f)(low)
    near = (float(f(low + step)) - float(f(low - step))) / (2 * step)
    np.testing.assert_allclose(slope, near, rtol=1e-6)
