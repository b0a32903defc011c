"""Random numbers: recorded values of jax.random, moments, and behaviour under transformations."""

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import errors, random

# The words of a key; tests/test_random_keys.py has keys of their own dtype.
KEY = random.PRNGKey(42)
P = np.array([0.1, 0.2, 0.3, 0.4], np.float32)

# Recorded with JAX 0.10.2, jax.random.PRNGKey(42) and jax_threefry_partitionable, its default.
EXACT = {
    "split(KEY, 3)": [[1832780943, 270669613], [64467757, 2916123636], [2465931498, 255383827]],
    "split(KEY, (2, 1))": [[[1832780943, 270669613]], [[64467757, 2916123636]]],
    "fold_in(KEY, 77)": [3343870397, 3703666311],
    "fold_in(KEY, 2**32 - 5)": [1987571745, 631152681],
    "bits(KEY, (3,))": [2098992034, 2919706841, 2646866425],
    "bits(KEY, (3,), 'uint8')": [162, 217, 249],
    "bits(KEY, (3,), 'uint16')": [5026, 12505, 63993],
    "randint(KEY, (4,), -5, 100)": [94, 49, 76, -1],
    "randint(KEY, (4,), -128, 128, 'int8')": [68, -110, 55, 65],
    "randint(KEY, (3,), 0, 3_000_000_000, 'uint32')": [125294276, 383865362, 780371127],
    "randint(KEY, (2,), 5, 5)": [5, 5],
    "permutation(KEY, 6)": [4, 2, 5, 3, 0, 1],
    "permutation(KEY, np.arange(6).reshape(2, 3), 1, True)": [[2, 0, 1], [4, 5, 3]],
    "permutation(KEY, np.arange(6).reshape(2, 3), 1)": [[2, 0, 1], [5, 3, 4]],
    "choice(KEY, 10, (4,))": [4, 4, 1, 9],
    "choice(KEY, 10, (4,), replace=False)": [7, 4, 2, 5],
    "choice(KEY, 4, (5,), p=P)": [2, 2, 2, 2, 2],
    "choice(KEY, 4, (3,), replace=False, p=P)": [3, 2, 1],
    "categorical(KEY, np.log(P), shape=(5,))": [3, 3, 3, 3, 3],
    "bernoulli(KEY, 0.3, (6,))": [False, False, False, False, False, False],
    "bernoulli(KEY, 0.3, (6,), mode='high')": [False, False, False, False, False, False],
    "rademacher(KEY, (5,))": [1, -1, -1, -1, 1],
}

EXACT_FLOATS = {
    "uniform(KEY, (3,))": ["0x1.f470480000000p-2", "0x1.5c0e600000000p-1", "0x1.3b87f00000000p-1"],
    "uniform(KEY, (3,), 'float16')": [
        "0x1.3800000000000p-4",
        "0x1.8600000000000p-3",
        "0x1.f380000000000p-1",
    ],
    "uniform(KEY, (3,), 'bfloat16')": [
        "0x1.4400000000000p-1",
        "0x1.b000000000000p-1",
        "0x1.f000000000000p-1",
    ],
    "uniform(KEY, (3,), minval=-5, maxval=3)": [
        "-0x1.171f700000000p+0",
        "0x1.c0e6000000000p-2",
        "-0x1.1e04000000000p-4",
    ],
}

# Through log, tan and erf_inv.
NEAR = {
    "normal(KEY, (3,))": [-0.02830461598932743, 0.4671318531036377, 0.2957029640674591],
    "truncated_normal(KEY, -1, 2, (3,))": [
        0.14770005643367767,
        0.5684449076652527,
        0.42102551460266113,
    ],
    "exponential(KEY, (3,))": [0.670817494392395, 1.1388006210327148, 0.9578199982643127],
    "gumbel(KEY, (3,))": [0.3340933918952942, 0.952019453048706, 0.7255305647850037],
    "gumbel(KEY, (3,), mode='high')": [
        0.39925798773765564,
        -0.12997561693191528,
        0.043095413595438004,
    ],
    "laplace(KEY, (3,))": [0.022839652374386787, -0.4456535577774048, -0.2646729052066803],
    "logistic(KEY, (3,))": [-0.0451694130897522, 0.7528398036956787, 0.47375231981277466],
    "cauchy(KEY, (3,))": [-0.03548463061451912, 0.6337261199951172, 0.38244056701660156],
}


def call(expression: str):
    return eval(f"random.{expression}", {"random": random, "KEY": KEY, "P": P, "np": np})


@pytest.mark.parametrize("expression", EXACT)
def test_recorded_integers(expression: str) -> None:
    assert call(expression).tolist() == EXACT[expression]


@pytest.mark.parametrize("expression", EXACT_FLOATS)
def test_recorded_floats(expression: str) -> None:
    got = np.asarray(call(expression)).astype(np.float64)
    assert got.tolist() == [float.fromhex(x) for x in EXACT_FLOATS[expression]]


@pytest.mark.parametrize("expression", NEAR)
def test_recorded_nearly(expression: str) -> None:
    np.testing.assert_allclose(call(expression), NEAR[expression], rtol=3e-6)


@pytest.mark.parametrize(
    ("seed", "words"),
    [(0, [0, 0]), (-1, [0, 2**32 - 1]), (2**40 + 5, [0, 5]), (np.int64(2**40 + 5), [0, 5])],
)
def test_seeds(seed: int, words: list) -> None:
    assert random.PRNGKey(seed).tolist() == words
    assert random.key_data(random.key(seed)).tolist() == words


def test_seeds_of_64_bits() -> None:
    assert random.PRNGKey(mnp.array(2**40 + 5, "int64")).tolist() == [256, 5]
    with mgefn.config.override(enable_x64=True):
        assert random.PRNGKey(2**40 + 5).tolist() == [256, 5]


def test_many_counters_agree_with_few() -> None:
    """Chunks, Python's integers and batches of keys give the same bits."""
    many = random.bits(KEY, (40_000,))
    for n in (1, 5, 7, 16_384, 16_385):
        np.testing.assert_array_equal(random.bits(KEY, (n,)), np.asarray(many)[:n])
    keys = random.split(KEY, 3)
    mapped = mgefn.vmap(lambda k: random.normal(k, (5,)))(keys)
    for row, key in zip(mapped, keys, strict=True):
        np.testing.assert_array_equal(row, random.normal(key, (5,)))
        np.testing.assert_array_equal(mgefn.jit(random.normal, static_argnums=1)(key, (5,)), row)


def test_moments() -> None:
    n = 200_000
    x = np.asarray(random.normal(KEY, (n,)))
    np.testing.assert_allclose([x.mean(), x.var(), (x**3).mean()], [0, 1, 0], atol=0.015)
    z = np.asarray(random.normal(KEY, (n,), "complex64"))
    np.testing.assert_allclose([z.real.var(), z.imag.var()], [0.5, 0.5], atol=0.01)
    e = np.asarray(random.exponential(KEY, (n,), "float64"))
    np.testing.assert_allclose([e.mean(), e.var()], [1, 1], atol=0.02)
    i = np.asarray(random.randint(KEY, (n,), 0, 2**40, "int64"))
    np.testing.assert_allclose(i.mean() / 2**40, 0.5, atol=0.005)
    assert i.min() >= 0 and i.max() < 2**40


def test_integers_up_to_the_end_of_the_range() -> None:
    x = np.asarray(random.randint(KEY, (1000,), -(2**31), 2**31))
    assert x.min() < -(2**30) and x.max() > 2**30


def test_zero_size() -> None:
    assert random.normal(KEY, (0, 3)).shape == (0, 3)
    assert random.permutation(KEY, 0).shape == (0,)
    assert random.split(KEY, 0).shape == (0, 2)


def test_bounds_have_derivatives() -> None:
    u = random.uniform(KEY, ())
    slope = mgefn.grad(lambda high: random.uniform(KEY, (), maxval=high))(1.0)
    np.testing.assert_allclose(slope, u, rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: random.normal(0), errors.ArgumentError, "random.key"),
        (lambda: random.normal(random.split(KEY)), errors.ShapeError, "vmap"),
        (lambda: random.uniform(KEY, (), "int32"), errors.DTypeError, "floating"),
        (lambda: random.choice(KEY, 3, (4,), replace=False), errors.ArgumentError, "replace=True"),
        (lambda: random.key(0, impl="rbg"), errors.ArgumentError, "impl"),
        (lambda: mgefn.jit(random.permutation)(KEY, 3), errors.ConcretizationTypeError, "static"),
        (lambda: random.uniform(KEY, (2,), minval=np.zeros(3)), errors.ShapeError, "broadcast"),
    ],
)
def test_refusals(call, error: type, match: str) -> None:
    with pytest.raises(error, match=match):
        call()
