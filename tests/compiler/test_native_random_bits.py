"""Native random bits, sampling functions and special functions against the NumPy kernels."""

import numpy as np
import pytest

import mgefn
from mgefn import lax, random
from mgefn import numpy as mnp
from mgefn.compiler import native
from mgefn.ops import random_bits, special

pytestmark = pytest.mark.skipif(not native.enabled(), reason="needs LLVM")

KEY = random.key(7)


def steps(f, *args):
    return mgefn.jit(f).lower(*args).compile().as_text().splitlines()[1:]


def check(f, *args):
    """All steps of the compiled function are native, and its result is that of the eager one."""
    assert all("native" in s for s in steps(f, *args)), steps(f, *args)
    got, want = mgefn.jit(f)(*args), f(*args)
    for g, w in zip(mgefn.tree.leaves(got), mgefn.tree.leaves(want), strict=True):
        if mgefn.dtypes.issubdtype(g.dtype, mgefn.dtypes.prng_key):
            g, w = random.key_data(g), random.key_data(w)
        np.testing.assert_array_equal(np.asarray(g), np.asarray(w))


@pytest.mark.parametrize("shape", ((), (1,), (37,), (3, 5, 7), (50_000,), (200, 300)))
@pytest.mark.parametrize("dtype", ("uint8", "uint16", "uint32", "uint64"))
def test_bits(shape, dtype):
    check(lambda key: random.bits(key, shape, dtype), KEY)


@pytest.mark.parametrize("shape", ((), (9,), (4, 6), (100, 400)))
def test_samples(shape):
    check(lambda key: random.uniform(key, shape, minval=-2.0, maxval=3.0), KEY)
    check(lambda key: random.normal(key, shape), KEY)
    check(lambda key: random.exponential(key, shape), KEY)
    check(lambda key: random.uniform(key, shape, "float64"), KEY)


def test_keys_of_many_counters_and_counters_of_many_keys():
    keys = random.split(KEY, 6)
    check(mgefn.vmap(lambda key: random.bits(key, (5,))), keys)
    check(lambda key: random.split(key, (2, 3)), KEY)
    check(lambda key: random.fold_in(key, 3), KEY)


def test_either_word_alone():
    words = [mnp.arange(40, dtype="uint32") * k for k in (3, 5, 7, 11)]
    check(lambda *w: random_bits.threefry2x32_p.bind(*w), *words)
    check(lambda *w: random_bits.threefry2x32_p.bind(*w)[0], *words)
    check(lambda *w: random_bits.threefry2x32_p.bind(*w)[1] + 1, *words)
    check(lambda *w: mnp.sum(random_bits.threefry2x32_p.bind(*w)[1].reshape(4, 10), 1), *words)


def test_samples_join_what_uses_them():
    def f(key, x):
        return mnp.sum(mnp.where(random.uniform(key, x.shape) < 0.5, x, 0), -1)

    x = mnp.ones((30, 40))
    text = [s for s in steps(f, KEY, x) if "threefry" in s]
    assert len(text) == 1
    assert "f32[30] [output]" in text[0]
    check(f, KEY, x)


def test_keys_in_loops():
    def body(key, _):
        key, sub = random.split(key)
        return key, random.normal(sub, (3,))

    check(lambda key: lax.scan(body, key, None, length=5), KEY)
    check(lambda key: lax.fori_loop(0, 4, lambda i, k: random.fold_in(k, i), key), KEY)


def test_a_strided_line_cut_into_lines():
    x = mnp.arange(48.0)
    check(lambda x: x[::2].reshape(4, 6) * 2, x)
    check(lambda x: x[::-3].reshape(2, 1, 8) + 1, x)
    check(lambda x: mnp.sum(x[5:29].reshape(4, 6), 0), x)
    check(lambda x: x.reshape(48, 1)[::2].reshape(3, 8) + 1, x)


# -- functions ------------------------------------------------------------------------------------

NUMBERS = np.concatenate(
    [
        [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, 88.6, 89.0, -87.5, -100, 710, -740],
        np.random.default_rng(0).uniform(-1, 2, 1000),
        np.random.default_rng(1).normal(size=1000) * 20,
    ]
)


@pytest.mark.parametrize("name", ("log", "log1p", "exp", "erf", "erf_inv", "fma"))
@pytest.mark.parametrize("dtype", ("float32", "float64"))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_sampling_functions(name, dtype):
    x = NUMBERS.clip(-1, 1) if name == "erf_inv" else NUMBERS
    x = mnp.asarray(x.astype(dtype))
    primitive = getattr(random_bits, f"sampling_{name}_p")
    params = {"exact": True} if name == "erf_inv" else {}
    args = (x, x[::-1], x) if name == "fma" else (x,)

    def f(*args):
        return primitive.bind1(*args, **params)

    assert all("native" in s for s in steps(f, *args))
    got, want = np.asarray(mgefn.jit(f)(*args)), np.asarray(f(*args))
    if dtype == "float32":
        np.testing.assert_array_equal(got, want)
    else:  # the NumPy kernel's fused operations are not quite that
        np.testing.assert_allclose(got, want, 4e-16)


@pytest.mark.parametrize("name", ("erf", "erfc", "erf_inv", "lgamma", "digamma"))
@pytest.mark.parametrize("dtype", ("float32", "float64"))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_special_functions(name, dtype):
    # Near the pole at -1 digamma's NumPy kernel loses digits.
    x = mnp.asarray(NUMBERS[NUMBERS > -0.5].astype(dtype))
    f = getattr(special, name)
    assert all("native" in s for s in steps(f, x))
    # Near a zero the error is one relative to the slope.
    np.testing.assert_allclose(
        np.asarray(mgefn.jit(f)(x)), np.asarray(f(x)),
        20 * np.finfo(dtype).eps, 4 * np.finfo(dtype).eps,
    )  # fmt: skip
