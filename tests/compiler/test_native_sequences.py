"""Native scans, positions of extremes, sorts and searches against the NumPy kernels.

Eager calls run the NumPy kernels, which the rest of the tests hold to the reference; compiled ones
run the native kernels.
"""

import numpy as np
import pytest

import mgefn
from mgefn import lax
from mgefn import numpy as mnp
from mgefn.compiler import native
from mgefn.compiler.codegen.sorting import FEW, SHORT, RadixSort, RankSort, Sorted
from mgefn.ops import cumulative, reductions, sorting

pytestmark = pytest.mark.skipif(not native.enabled(), reason="needs LLVM")

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
SHAPES = ((1,), (7,), (300,), (5, 3), (3, 37, 2), (2, 140))
TOLERANCES = {"float16": 2e-2, "bfloat16": 2e-1, "float32": 1e-5, "float64": 1e-12}


def array(seed, shape, dtype, special=False):
    """Numbers of a dtype, some of them equal."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return mnp.asarray(rng.integers(0, 2, shape).astype(bool))
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        x = rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
        return mnp.asarray(np.where(rng.random(shape) < 0.3, x.ravel()[0], x))
    x = rng.integers(-40, 40, shape) / 8
    if special:
        kinds = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0])
        x = np.where(rng.random(shape) < 0.5, rng.choice(kinds, shape), x)
    return mnp.asarray(x).astype(dtype)


def bits(x):
    x = np.asarray(x)
    return x.view(f"u{x.dtype.itemsize}") if x.dtype.itemsize <= 8 else x


def both(f, *args):
    """The results of the compiled function, all of whose steps are native, and of the eager one."""
    compiled = mgefn.jit(f).lower(*args).compile()
    steps = compiled.as_text().splitlines()[1:]
    assert steps and all("native" in s or "bitcast" in s for s in steps), compiled.as_text()
    got, want = compiled(*args), f(*args)
    if not isinstance(got, tuple | list):
        got, want = (got,), (want,)
    for g, w in zip(got, want, strict=True):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
    return [np.asarray(g) for g in got], [np.asarray(w) for w in want]


def same(f, *args):
    for g, w in zip(*both(f, *args), strict=True):
        kind = g.dtype.kind
        wide = "complex128" if kind == "c" else g.dtype if kind in "biu" else "float64"
        np.testing.assert_array_equal(g.astype(wide), w.astype(wide))
        if kind == "f":  # zeros have signs
            np.testing.assert_array_equal(np.signbit(g[g == 0]), np.signbit(w[w == 0]))


# -- scans ----------------------------------------------------------------------------------------

SCANS = ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")


def scanned(name, axis, reverse):
    primitive = getattr(cumulative, f"{name}_p")
    return lambda x: primitive.bind1(x, axis=axis, reverse=reverse)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ("bool", *INTEGERS, *FLOATS, "complex64", "complex128"))
def test_scans(dtype, shape):
    for name in SCANS:
        if dtype == "bool" and name in ("cumsum", "cumprod"):
            continue
        if dtype not in FLOATS and name == "cumlogsumexp":
            continue
        if dtype.startswith("complex") and name != "cumsum":
            continue
        x = array(0, shape, dtype.replace("complex64", "float32").replace("complex128", "float64"))
        if dtype.startswith("complex"):
            x = (x + 1j * x[::-1]).astype(dtype)
        for axis in range(len(shape)):
            for reverse in (False, True):
                f = scanned(name, axis, reverse)
                if name in ("cummax", "cummin") or dtype not in FLOATS:
                    same(f, x)
                    continue
                (got,), (want,) = both(f, x)
                rtol = TOLERANCES[dtype]
                np.testing.assert_allclose(
                    got.astype("float64"), want.astype("float64"), rtol, rtol * np.sqrt(x.size)
                )


@pytest.mark.parametrize("name", SCANS)
@pytest.mark.parametrize("dtype", ("float32", "float64"))
def test_scans_of_what_is_not_finite(name, dtype):
    for x in (
        [np.inf, 1.0, -np.inf, 2.0],
        [1.0, np.nan, np.inf, 3.0] * 9,
        [-np.inf] * 5,
        [np.inf] * 70,
        [-0.0, -0.0],
    ):
        for shape in ((len(x),), (len(x), 1, 1)):
            for reverse in (False, True):
                (got,), (want,) = both(
                    scanned(name, 0, reverse), mnp.asarray(np.reshape(np.array(x, dtype), shape))
                )
                np.testing.assert_allclose(got, want, 1e-6)
                if name == "cumsum":
                    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize("reverse", (False, True))
def test_a_long_sum_in_pieces_is_as_good_as_numpys(reverse):
    x = np.random.default_rng(0).normal(size=(2, 100_003)).astype("float32")
    got = np.asarray(mgefn.jit(scanned("cumsum", 1, reverse))(mnp.asarray(x)), np.float64)
    step = -1 if reverse else 1
    exact = np.cumsum(x[:, ::step], 1, np.float64)[:, ::step]
    numpys = np.cumsum(x[:, ::step], 1)[:, ::step]
    assert abs(got - exact).max() <= abs(numpys - exact).max()
    whole = np.asarray(mgefn.jit(scanned("cumsum", 1, reverse))(mnp.asarray(x).astype("int32")))
    of_ints = np.cumsum(x.astype("int32")[:, ::step], 1)[:, ::step]
    np.testing.assert_array_equal(whole, of_ints)


def test_scans_in_the_memory_of_their_operand():
    x = array(12, (70, 9), "float64")
    for name in SCANS:
        for axis in (0, 1):
            for reverse in (False, True):
                f = scanned(name, axis, reverse)
                (got,), (want,) = both(lambda x, f=f: f(x * 0.125) + 1, x)
                np.testing.assert_allclose(got, want, 1e-10)
    long = array(13, (200_000,), "int32")
    same(lambda x: scanned("cumsum", 0, True)(x + 1) * 2, long)


def test_scans_of_views_and_in_loops():
    x = array(1, (6, 8), "float64")
    same(lambda x: lax.cummax(x.T[::2], axis=1), x)

    def body(carry, row):
        y = mnp.sort(carry + row)
        return y, (mnp.argmax(y), lax.cummax(row[::-1]), lax.top_k(row, 2)[1])

    def loop(x):
        carry, outs = lax.scan(body, x[0], x)
        return carry, *outs

    same(loop, x)


# -- positions of extremes ------------------------------------------------------------------------


@pytest.mark.parametrize("shape", (*SHAPES, (2, 70_000)))
@pytest.mark.parametrize("dtype", ("bool", *INTEGERS, *FLOATS))
def test_positions_of_extremes(dtype, shape):
    for special in (False, True):
        x = array(2, shape, dtype, special)
        for primitive in (reductions.argmax_p, reductions.argmin_p):
            for axis in range(len(shape)):
                for index in ("int32", "uint8", "int64"):
                    same(
                        lambda x, p=primitive, a=axis, i=index: p.bind1(
                            x, axes=(a,), index_dtype=np.dtype(i)
                        ),
                        x,
                    )


def test_positions_where_all_are_the_neutral_element():
    for value in (-np.inf, np.inf, np.nan):
        for shape in ((70,), (70, 3)):
            x = mnp.full(shape, value, "float32")
            same(lambda x: (mnp.argmax(x, 0), mnp.argmin(x, 0)), x)
    same(lambda x: (mnp.argmax(x), mnp.argmin(x)), mnp.full((70,), -128, "int8"))


def test_the_first_nan_wins_wherever_it_lies():
    for first in range(0, 150, 7):
        x = np.arange(200.0)
        x[[first, first + 1, first + 17, 199]] = np.nan
        for y in (x, np.stack([x, x], 1)):
            same(lambda x: (mnp.argmax(x, 0), mnp.argmin(x, 0)), mnp.asarray(y))


# -- sorting --------------------------------------------------------------------------------------

LINES = ((1,), (6,), (SHORT,), (SHORT + 1,), (5000,), (4, 3), (2, 40, 3), (2, 200, 2))


@pytest.mark.parametrize("shape", LINES)
@pytest.mark.parametrize("dtype", ("bool", *INTEGERS, *FLOATS))
def test_sorts(dtype, shape):
    for special in (False, True) if dtype in FLOATS else (False,):
        x = array(3, shape, dtype, special)
        for axis in range(len(shape)):
            same(
                lambda x, a=axis: sorting.sort_p.bind1(x, dimension=a, num_keys=1, is_stable=True),
                x,
            )
            for index in ("int32", "uint64"):
                same(
                    lambda x, a=axis, i=index: sorting.argsort_p.bind1(
                        x, dimension=a, is_stable=True, index_dtype=np.dtype(i)
                    ),
                    x,
                )


@pytest.mark.parametrize("shape", LINES)
@pytest.mark.parametrize("value", ("bool", "float16", "complex64", "complex128"))
def test_sorts_by_several_keys(shape, value):
    first, second = array(4, shape, "bool"), array(5, shape, "float32", True)
    third = mnp.asarray(np.random.default_rng(6).integers(0, 2, shape)).astype(value)
    for axis in range(len(shape)):
        for keys in (1, 2):
            same(
                lambda x, y, z, a=axis, k=keys: sorting.sort_p.bind(
                    x, y, z, dimension=a, num_keys=k, is_stable=True
                ),
                first, second, third,
            )  # fmt: skip
        same(lambda x, y, a=axis: mnp.lexsort((y, x), a), first, second)


@pytest.mark.parametrize("shape", LINES)
@pytest.mark.parametrize("dtype", ("bool", *INTEGERS, *FLOATS))
def test_largest(dtype, shape):
    for special in (False, True) if dtype in FLOATS else (False,):
        x = array(7, shape, dtype, special)
        for axis, n in enumerate(shape):
            for k in {1, min(3, n), min(FEW, n), min(FEW + 5, n), n}:
                same(lambda x, k=k, a=axis: sorting.top_k_p.bind(x, k=k, axis=a), x)
    ascending = mnp.arange(1000, dtype="int32")
    same(lambda x: lax.top_k(x, 20), ascending)


def test_nan_of_either_sign_comes_last_with_its_bits():
    for n in (20, 500):
        x = np.where(np.arange(n) % 3 == 0, np.nan, -np.arange(n)).astype("float32")
        x[::2] = -x[::2]
        y = np.asarray(mgefn.jit(mnp.sort)(mnp.asarray(x)))
        order = np.argsort(x, kind="stable")
        np.testing.assert_array_equal(bits(y), bits(x[order]))


def test_many_lines_are_sorted_in_chunks():
    for shape in ((5000, 20), (40, 3000)):
        x = array(8, shape, "float32")
        same(mnp.sort, x)
        same(mnp.argsort, x)


@pytest.mark.parametrize("dtype", ("int8", "int64", "float16", "float32"))
@pytest.mark.parametrize("shape", ((70_000,), (2, 66_000), (66_000, 2)))
def test_long_lines_are_sorted_in_pieces(dtype, shape):
    axis = int(shape[0] == 2)
    for special in (False, True) if dtype.startswith("float") else (False,):
        x = array(11, shape, dtype, special)
        same(lambda x: mnp.sort(x, axis), x)
        same(lambda x: mnp.argsort(x, axis), x)
        same(lambda x: lax.top_k(x, FEW + 1, axis=axis), x)
        same(lambda x: lax.sort((x % 2, x, x), axis, num_keys=2), x)


def test_kernels_of_different_classes_are_different():
    # As tuples they are equal.
    what = Sorted("int32", False, False, "", False, True)
    assert RankSort(what, 4) == RadixSort(what, 4)
    assert native.named(RankSort(what, 4)) != native.named(RadixSort(what, 4))


# -- searching ------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ("left", "right"))
@pytest.mark.parametrize("dtype", ("bool", *INTEGERS, *FLOATS))
def test_searches(dtype, side):
    for n, m in ((1, 1), (2, 5), (63, 40), (64, 3), (65, 100)):
        for special in (False, True):
            lines = mnp.sort(array(9, (3, n), dtype, special), -1)
            values = array(10, (3, m, 2), dtype, special)
            same(lambda a, v: mnp.searchsorted(a, v, side), lines[0], values)
            for index in ("int32", "int64"):
                same(
                    lambda a, v, i=index: sorting.searchsorted_p.bind1(
                        a, v, side=side, batch_dims=1, index_dtype=np.dtype(i)
                    ),
                    lines, values,
                )  # fmt: skip
