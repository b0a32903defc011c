"""Native data movement against the NumPy kernels: slices, gathers, scatters, joining, padding.

Eager calls run the NumPy kernels, which the rest of the tests hold to the reference; compiled ones
run the native kernels. Each element must be the same.
"""

import math

import numpy as np
import pytest

import mgefn
from mgefn import lax
from mgefn import numpy as mnp
from mgefn.backends.llvm_kernels import control
from mgefn.compiler import native
from mgefn.compiler.codegen.movement import Move, Turn
from mgefn.compiler.steps import Repeat, While
from mgefn.lax import GatherDimensionNumbers, GatherScatterMode, ScatterDimensionNumbers
from mgefn.ops import indexing, sorting

pytestmark = pytest.mark.skipif(not native.enabled(), reason="needs LLVM")

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
DTYPES = ("bool", *INTEGERS, *FLOATS, "complex64", "complex128")
MODES = tuple(GatherScatterMode)
SCATTERS = {
    "scatter": indexing.scatter_p,
    "scatter_add": indexing.scatter_add_p,
    "scatter_mul": indexing.scatter_mul_p,
    "scatter_min": indexing.scatter_min_p,
    "scatter_max": indexing.scatter_max_p,
}


def array(rng, shape, dtype="float32"):
    """Numbers of a dtype, as different as it allows."""
    x = rng.integers(0, 2 if dtype == "bool" else 100, shape)
    if dtype.startswith("complex"):
        return mnp.asarray(x + 1j * rng.integers(0, 100, shape)).astype(dtype)
    return mnp.asarray(x).astype(dtype)


def check(f, *args, step, kernels=(Move, Turn)):
    """Compiled, f is the same as eagerly, and its step `step` is native."""
    compiled = mgefn.jit(f).lower(*args).compile()
    text = compiled.as_text()
    assert f"native {step}:" in text, text
    calls = [
        c.kernel
        for e in compiled._entry.compiled().closed.jaxpr.eqns
        if e.primitive is native.native_p and e.params["step"].label == step
        for c in native.calls_in(e.params["step"].code)
    ]
    assert calls, "the step has calls"
    assert all(isinstance(k, kernels) for k in calls), calls
    want, got = f(*args), compiled(*args)
    assert got.dtype == want.dtype
    same(got, want)
    return calls


def same(got, want):
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if got.dtype.name == "bfloat16":  # whose NaNs NumPy does not know
        got, want = got.astype(np.float32), want.astype(np.float32)
    np.testing.assert_array_equal(got, want)


# -- slices ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("start", [0, 2, 9, -3])
def test_dynamic_slice_and_update(dtype, start):
    rng = np.random.default_rng(0)
    x, u = array(rng, (5, 13, 3), dtype), array(rng, (2, 7, 3), dtype)
    at = mnp.asarray(start)
    check(lambda x, i: lax.dynamic_slice(x, (i, 1, 0), (2, 7, 3)), x, at, step="dynamic_slice")
    check(
        lambda x, u, i: lax.dynamic_update_slice(x, u, (1, i, 0)), x, u, at,
        step="dynamic_update_slice",
    )  # fmt: skip


@pytest.mark.parametrize("dtype", INTEGERS)
def test_starts_of_every_integer_dtype(dtype):
    x = mnp.arange(40.0)
    info = np.iinfo(dtype)
    for start in (0, 7, info.min, info.max):
        at = mnp.asarray(np.array(start, dtype))
        check(lambda x, i: lax.dynamic_slice(x, (i,), (5,)), x, at, step="dynamic_slice")
        for mode in MODES:
            check(lambda x, i, m=mode: gather_rows(x, i.reshape(1, 1), m), x, at, step="gather")
            check(
                lambda x, i, m=mode: lax.scatter(
                    x, i.reshape(1, 1), mnp.ones((1,)), ScatterDimensionNumbers((), (0,), (0,)),
                    mode=m,
                ),
                x, at, step="scatter",
            )  # fmt: skip


def gather_rows(x, indices, mode):
    """Elements of the first dimension."""
    rest = tuple(range(1, x.ndim))
    return lax.gather(
        x, indices, GatherDimensionNumbers(rest, (0,), (0,)), (1, *x.shape[1:]), mode=mode
    )


def test_slices_of_views():
    rng = np.random.default_rng(1)
    x, u = array(rng, (6, 8, 5)), array(rng, (2, 3, 4))
    at = mnp.asarray(1)
    check(
        lambda x, i: lax.dynamic_slice(x.T[::-1], (i, i, i), (2, 3, 4)), x, at,
        step="dynamic_slice",
    )  # fmt: skip
    check(
        lambda x, u, i: lax.dynamic_update_slice(x.T[:, ::2], u.T, (i, i, i)), x, u, at,
        step="dynamic_update_slice",
    )  # fmt: skip
    # The update is a part of the operand, which must not be overwritten before it is read.
    check(
        lambda x, i: lax.dynamic_update_slice(x + 1, (x + 1)[:2, :3, ::-1], (i, i, i)), x, at,
        step="dynamic_update_slice",
    )  # fmt: skip


def test_whole_update_and_scalars():
    x, at = mnp.arange(6.0), mnp.asarray(3)
    check(lambda x, i: lax.dynamic_update_slice(x, x[::-1], (i,)), x, at,
          step="dynamic_update_slice")  # fmt: skip
    check(lambda x: lax.dynamic_update_slice(x, x + 1, ()), mnp.asarray(1.0),
          step="dynamic_update_slice")  # fmt: skip
    check(lambda x: lax.dynamic_slice(x, (), ()), mnp.asarray(1.0), step="dynamic_slice")


def test_updates_in_place():
    """Where the operand dies in the step, its block is the output's, and is not copied."""

    def f(x, i):
        y = mnp.sin(x)
        z = lax.dynamic_update_slice(y, mnp.ones((1, 4)), (i, 0))
        return mnp.cos(z.at[i + 1].add(1.0)).sum()

    x, at = mnp.arange(40.0).reshape(10, 4), mnp.asarray(2)
    compiled = mgefn.jit(f).lower(x, at).compile()
    lines = compiled.as_text().splitlines()
    blocks = {
        line.split("[slab+")[1].split("]")[0]
        for line in lines
        if any(w in line for w in ("native sin", "native dynamic_update", "native scatter_add"))
    }
    assert len(blocks) == 1, lines
    np.testing.assert_allclose(np.asarray(compiled(x, at)), np.asarray(f(x, at)), rtol=1e-6)


# -- gather and scatter of all kinds --------------------------------------------------------------


def some_numbers(rng):
    """Operand, indices' shape, window sizes and dimension numbers, all at random."""
    ndim = int(rng.integers(1, 5))
    shape = tuple(int(n) for n in rng.integers(1, 6, ndim))
    dims = [int(d) for d in rng.permutation(ndim)]
    batching = dims[: int(rng.integers(0, ndim))][:2]
    others = [d for d in dims if d not in batching]
    mapped = others[: int(rng.integers(1, len(others) + 1))]
    sizes = [1 if d in batching else int(rng.integers(1, n + 1)) for d, n in enumerate(shape)]
    collapsed = []
    for d in others:
        if rng.random() < 0.4:
            collapsed.append(d)
            sizes[d] = 1
    extra = [int(n) for n in rng.integers(1, 4, int(rng.integers(0, 3)))]
    batch = [(shape[d], d) for d in batching] + [(n, None) for n in extra]
    batch = [batch[i] for i in rng.permutation(len(batch))]
    where = {d: i for i, (_, d) in enumerate(batch) if d is not None}
    window = ndim - len(batching) - len(collapsed)
    rank = window + len(batch)
    offset = tuple(sorted(int(i) for i in rng.permutation(rank)[:window]))
    order = sorted(batching)
    numbers = (offset, tuple(sorted(collapsed)), tuple(mapped), tuple(order),
               tuple(where[d] for d in order))  # fmt: skip
    indices_shape = (*(n for n, _ in batch), len(mapped))
    merged_batch = iter(n for n, _ in batch)
    sizes_of_window = iter(
        n for d, n in enumerate(sizes) if d not in collapsed and d not in batching
    )
    out_shape = tuple(
        next(sizes_of_window) if i in offset else next(merged_batch) for i in range(rank)
    )
    indices = rng.integers(-2, 7, indices_shape)
    return shape, tuple(sizes), numbers, mnp.asarray(indices), out_shape


@pytest.mark.parametrize("seed", range(40))
def test_gathers(seed):
    rng = np.random.default_rng(seed)
    dtype = DTYPES[seed % len(DTYPES)]
    shape, sizes, numbers, indices, out_shape = some_numbers(rng)
    x = array(rng, shape, dtype)
    mode = MODES[seed % 3]
    fill = None if seed % 2 else 1

    def f(x, indices):
        return lax.gather(
            x, indices, GatherDimensionNumbers(*numbers), sizes, mode=mode, fill_value=fill
        )

    assert f(x, indices).shape == out_shape
    check(f, x, indices, step="gather")
    turned = mnp.asarray(np.asarray(x).T)
    check(lambda x, i: f(x.T, i[..., ::-1][..., ::-1]), turned, indices, step="gather")


@pytest.mark.parametrize("name", SCATTERS)
@pytest.mark.parametrize("seed", range(24))
def test_scatters(name, seed):
    rng = np.random.default_rng(100 + seed)
    dtypes = DTYPES
    if name not in ("scatter", "scatter_add"):
        dtypes = tuple(d for d in dtypes if not d.startswith("complex"))
    dtype = dtypes[seed % len(dtypes)]
    shape, sizes, numbers, indices, u_shape = some_numbers(rng)
    del sizes
    x, u = array(rng, shape, dtype), array(rng, u_shape, dtype)
    mode = MODES[seed % 3]

    def f(x, indices, u):
        return SCATTERS[name].bind1(
            x, indices, u, dimension_numbers=ScatterDimensionNumbers(*numbers), mode=mode,
            indices_are_sorted=False, unique_indices=False,
        )  # fmt: skip

    check(f, x, indices, u, step=name)
    turned = mnp.asarray(np.asarray(u).T)
    check(lambda x, i, u: f(x, i, u.T), x, indices, turned, step=name)


@pytest.mark.parametrize("n", [1, 3, 4, 7, 16, 31, 32, 33, 64, 100, 257])
@pytest.mark.parametrize("dtype", ["int8", "float32", "float64", "complex128"])
def test_rows_of_every_length(n, dtype):
    rng = np.random.default_rng(n)
    x = array(rng, (9, n), dtype)
    rows = mnp.asarray([[3], [8], [3], [-1], [12], [0]])
    u = array(rng, (6, n), dtype)
    for mode in MODES:
        check(lambda x, i, m=mode: gather_rows(x, i, m), x, rows, step="gather")
    numbers = ScatterDimensionNumbers((1,), (0,), (0,))
    check(lambda x, i, u: lax.scatter_add(x, i, u, numbers), x, rows, u, step="scatter_add")
    check(lambda x, i, u: lax.scatter(x, i, u, numbers), x, rows, u, step="scatter")


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "float32", "bfloat16", "complex64"])
def test_default_fill(dtype):
    x = array(np.random.default_rng(0), (4, 40), dtype)
    rows = mnp.asarray([[1], [4], [-1]])
    check(lambda x, i: gather_rows(x, i, "fill"), x, rows, step="gather")
    check(lambda x, i: gather_rows(x[:, 0], i, "fill"), x, rows, step="gather")


def test_random_keys():
    keys = mgefn.random.split(mgefn.random.key(0), 6)
    check(lambda k, i: gather_words(k, i), keys, mnp.asarray([[5], [9], [2]]), step="gather")


def gather_words(keys, indices):
    return mgefn.random.key_data(gather_rows(keys, indices, "clip"))


def test_nan_in_extremes():
    x = mnp.asarray([1.0, math.nan, 3.0, 4.0])
    u = mnp.asarray([math.nan, 2.0, 5.0, math.nan, 1.0])
    at = mnp.asarray([[0], [1], [2], [3], [3]])
    numbers = ScatterDimensionNumbers((), (0,), (0,))
    check(lambda x, i, u: lax.scatter_min(x, i, u, numbers), x, at, u, step="scatter_min")
    check(lambda x, i, u: lax.scatter_max(x, i, u, numbers), x, at, u, step="scatter_max")


# -- what threads share ---------------------------------------------------------------------------


def some_split(calls):
    return any(isinstance(k, Turn) or k.split >= 0 for k in calls)


def test_sums_of_many_rows_are_in_order():
    """Each thread has columns of its own, and adds the rows in their order."""
    rng = np.random.default_rng(0)
    x = mnp.asarray(rng.standard_normal((50, 700)).astype("float32"))
    u = mnp.asarray(rng.standard_normal((900, 700)).astype("float32"))
    at = mnp.asarray(rng.integers(0, 50, (900, 1)))
    numbers = ScatterDimensionNumbers((1,), (0,), (0,))
    calls = check(lambda x, i, u: lax.scatter_add(x, i, u, numbers), x, at, u, step="scatter_add")
    assert some_split(calls)


def test_overlapping_windows_are_not_divided():
    rng = np.random.default_rng(0)
    x = mnp.asarray(rng.standard_normal(5000).astype("float32"))
    u = mnp.asarray(rng.standard_normal((300, 2000)).astype("float32"))
    at = mnp.asarray(rng.integers(0, 3000, (300, 1)))
    numbers = ScatterDimensionNumbers((1,), (), (0,))
    calls = check(lambda x, i, u: lax.scatter_add(x, i, u, numbers), x, at, u, step="scatter_add")
    assert not some_split(calls)
    check(lambda x, i, u: lax.scatter(x, i, u, numbers), x, at, u, step="scatter")


def test_places_of_their_own_are_divided():
    """Unique places, and what is mapped over: threads may take parts of the updates."""
    rng = np.random.default_rng(0)
    n = 50000
    x, u = mnp.asarray(rng.standard_normal(n)), mnp.asarray(rng.standard_normal(n))
    at = mnp.asarray(rng.permutation(n))
    calls = check(lambda x, i, u: x.at[i].add(u, unique_indices=True), x, at, u, step="scatter_add")
    assert calls[-1].split >= 0
    calls = check(lambda x, i, u: x.at[i].add(u), x, at, u, step="scatter_add")
    assert calls[-1].split < 0

    x, u = x.reshape(50, 1000), u.reshape(50, 1000)
    rows = mnp.asarray(rng.integers(-1000, 1000, (50, 1000)))
    one = mgefn.vmap(lambda x, i, u: x.at[i].add(u))
    assert check(one, x, rows, u, step="scatter_add")[-1].split >= 0
    one = mgefn.vmap(lambda x, i: x[i])
    assert check(one, x, rows, step="gather")[-1].split >= 0
    rows = mnp.abs(rows) % 1000

    def take(x, i):
        return sorting.take_along_p.bind1(x, i, dimension=1, unique=False)

    def put(x, i):
        return sorting.put_along_p.bind1(x, i, dimension=1, unique=False, size=1000)

    assert check(take, x, rows, step="take_along")[-1].split >= 0
    assert check(put, u, rows, step="put_along")[-1].split >= 0


@pytest.mark.parametrize("shape", [(3, 400000), (400000, 3), (1000, 1000), (100, 90, 70)])
def test_much_at_once(shape):
    rng = np.random.default_rng(0)
    x = mnp.asarray(rng.standard_normal(shape).astype("float32"))
    at = mnp.asarray(1)
    u = x[1:-1]
    starts = (at,) + (0,) * (x.ndim - 1)
    sizes = tuple(n - 1 for n in shape)
    assert some_split(
        check(lambda x, i: lax.dynamic_slice(x, (i,) * x.ndim, sizes), x, at,
              step="dynamic_slice")
    )  # fmt: skip
    assert some_split(
        check(lambda x, u: lax.dynamic_update_slice(x, u, starts), x, u,
              step="dynamic_update_slice")
    )  # fmt: skip
    config = ((1, 2, 0),) * x.ndim
    assert some_split(check(lambda x: lax.pad(x, 7.0, config), x, step="pad"))
    assert some_split(check(lambda x: mnp.concatenate([x, x[::-1]], -1), x, step="concatenate"))
    assert some_split(check(lambda x: x.T.reshape(-1), x, step="reshape"))
    rows = mnp.asarray(rng.integers(0, shape[0], (2 * shape[0], 1)))
    assert some_split(check(lambda x, i: gather_rows(x, i, "clip"), x, rows, step="gather"))


# -- concatenate, pad, reshape --------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_concatenate(dtype):
    rng = np.random.default_rng(0)
    x, y, z = (
        array(rng, (3, 1, 5), dtype),
        array(rng, (3, 4, 5), dtype),
        array(rng, (4, 5, 3), dtype),
    )
    for d in range(3):
        check(lambda x, y, z, d=d: mnp.concatenate([y, z.transpose(2, 0, 1)[:, ::-1], y], d),
              x, y, z, step="concatenate")  # fmt: skip
    check(lambda x, y: mnp.concatenate([x, y, x], 1), x, y, step="concatenate")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "config",
    [
        ((1, 2, 0), (0, 0, 0), (3, 0, 0)),
        ((-1, 2, 0), (1, -3, 0), (0, 0, 0)),
        ((1, 2, 1), (0, 0, 3), (-1, -1, 0)),
        ((-2, -1, 2), (2, 2, 0), (-3, 1, 4)),
        ((-4, 6, 0), (0, 0, 0), (0, 0, 0)),
    ],
)
def test_pad(dtype, config):
    x = array(np.random.default_rng(0), (3, 6, 4), dtype)
    check(lambda x: lax.pad(x, x[0, 0, 1], config), x, step="pad")
    check(lambda x: lax.pad(x.T[::-1].transpose(1, 2, 0), x[0, 0, 1], config),
          array(np.random.default_rng(0), (6, 4, 3), dtype), step="pad")  # fmt: skip


def test_a_padding_that_only_takes_away_is_a_view():
    x = array(np.random.default_rng(0), (3, 6, 4), "float32")
    cropped = lambda x: lax.pad(x, x[0, 0, 1], ((0, 0, 0), (-2, -2, 0), (-1, 0, 0)))
    compiled = mgefn.jit(cropped).lower(x).compile()
    same(compiled(x), cropped(x))
    assert all(s.kind == "view" for s in compiled.report().steps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(17, 23), (8, 8), (9, 64, 11), (70, 130), (3, 5), (2, 9, 3, 10)])
def test_reshape_of_what_lies_otherwise(dtype, shape):
    x = array(np.random.default_rng(0), shape, dtype)
    check(lambda x: x.T.reshape(-1), x, step="reshape")
    check(lambda x: x[::-1, ::2].reshape(-1), x, step="reshape")
    check(lambda x: x.swapaxes(0, -1)[::-1].reshape(-1), x, step="reshape")


def test_blocks_in_registers():
    x = array(np.random.default_rng(0), (64, 100))
    kernels = check(lambda x: x.T.reshape(-1), x, step="reshape")
    assert [type(k) for k in kernels] == [Turn]


# -- elements along a dimension -------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [0, 1, 2])
def test_along(dtype, d):
    rng = np.random.default_rng(d)
    x = array(rng, (4, 5, 6), dtype)
    index_shape = tuple(3 if i == d else n for i, n in enumerate(x.shape))
    for index_dtype in ("int32", "uint8"):
        index = mnp.asarray(rng.integers(0, x.shape[d], index_shape)).astype(index_dtype)
        check(
            lambda x, i: sorting.take_along_p.bind1(x, i, dimension=d, unique=False), x, index,
            step="take_along",
        )  # fmt: skip
        u = array(rng, index_shape, dtype)

        def put(u, i, unique):
            return sorting.put_along_p.bind1(u, i, dimension=d, unique=unique, size=x.shape[d])

        check(lambda u, i: put(u, i, False), u, index, step="put_along")
    order = mnp.argsort(array(rng, x.shape), axis=d)
    check(lambda x, i: put(x, i, True), x, order, step="put_along")


# -- inside of loops ------------------------------------------------------------------------------


def test_inside_of_scan():
    rng = np.random.default_rng(0)
    x = array(rng, (6, 5))
    rows = mnp.asarray([3, 1, 3, 0, 5, 2])

    def f(x, rows):
        def body(carry, row):
            carry = carry.at[row].add(1.0)
            carry = lax.dynamic_update_slice(carry, carry[:1] * 2, (row, 0))
            y = lax.dynamic_slice(carry, (row, 1), (1, 3))
            padded = lax.pad(y, 0.0, ((1, 0, 0), (0, 2, 0)))
            return carry, mnp.concatenate([padded, carry[rows[:2]]], 0)

        return lax.scan(body, x, rows)

    compiled = mgefn.jit(f).lower(x, rows).compile()
    assert "native scan:" in compiled.as_text()
    for got, want in zip(compiled(x, rows), f(x, rows), strict=True):
        same(got, want)


def test_inside_of_a_derivative():
    x = mnp.arange(12.0).reshape(4, 3)
    rows = mnp.asarray([3, 1, 3])

    def f(x):
        return (lax.dynamic_slice(x, (1, 0), (2, 3)) ** 2).sum() + (x[rows] ** 3).sum()

    got, want = mgefn.jit(mgefn.grad(f))(x), mgefn.grad(f)(x)
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-6)


# -- 2-byte floats --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", [n for n in SCATTERS if n != "scatter"])
def test_narrow_floats_are_combined_in_float32(dtype, name):
    rng = np.random.default_rng(0)
    x = mnp.asarray(rng.standard_normal((5, 37))).astype(dtype)
    u = mnp.asarray(rng.standard_normal((40, 37))).astype(dtype)
    x, u = x.at[0, :3].set(math.nan), u.at[3, 30:].set(math.inf)
    at = mnp.asarray(rng.integers(-1, 6, (40, 1)))
    numbers = ScatterDimensionNumbers((1,), (0,), (0,))
    check(lambda x, i, u: getattr(lax, name)(x, i, u, numbers), x, at, u, step=name)
    turned = mnp.asarray(np.asarray(x).T)
    check(lambda x, i, u: getattr(lax, name)(x.T, i, u, numbers), turned, at, u, step=name)


# -- what is left to NumPy ------------------------------------------------------------------------


def test_products_of_complex_numbers():
    rng = np.random.default_rng(0)
    x, u = array(rng, (5,), "complex64"), array(rng, (8,), "complex64")
    at = mnp.asarray(rng.integers(0, 5, (8, 1)))
    numbers = ScatterDimensionNumbers((), (0,), (0,))

    def f(x, i, u):
        return lax.scatter_mul(x, i, u, numbers)

    same(mgefn.jit(f)(x, at, u), f(x, at, u))


# -- carries that are written where they lie ------------------------------------------------------


def copies_of_the_carry(f, *args):
    """How many whole copies two rounds of the compiled loop make; its results are right."""
    compiled = mgefn.jit(f).lower(*args).compile()
    for got, want in zip(
        mgefn.tree.leaves(compiled(*args)), mgefn.tree.leaves(f(*args)), strict=True
    ):
        same(got, want)
    loops = [
        i
        for e in compiled._entry.compiled().closed.jaxpr.eqns
        if e.primitive is native.native_p
        for i in e.params["step"].code
        if isinstance(i, (Repeat, While))
    ]
    assert len(loops) == 1, compiled.as_text()
    calls = native.calls_in([*loops[0].first, *loops[0].second])
    return sum(isinstance(c.kernel, Move) and c.kernel.op == "keep" for c in calls)


@pytest.mark.parametrize("length", [1, 2, 5, 6])
def test_carries_written_in_place(length, monkeypatch):
    # Loops of kernels, not those that are one (test_straight_loops.py).
    monkeypatch.setattr(control, "scan_loop", lambda params: None)
    monkeypatch.setattr(control, "while_loop", lambda params: None)
    x, steps = mnp.zeros((10, 3)), mnp.arange(length)

    def scanned(body):
        return lambda *carry: lax.scan(body, carry[0] if len(carry) == 1 else carry, steps)

    def one(c, i):
        return c.at[i].set(i * 1.0), c[0, 0]

    def chain(c, i):
        return c.at[i].set(i * 1.0).at[i + 1].add(2.0) * 2, None

    def read_again(c, i):
        d = c.at[i].set(i * 1.0)
        return d, c + d

    def swapped(c, i):
        return (c[1].at[i].set(5.0), c[0] + 1), None

    def twice(c, i):
        d = c[0].at[i].add(5.0)
        return (d, d), None

    assert copies_of_the_carry(scanned(one), x) == 0
    assert copies_of_the_carry(scanned(chain), x) == 0
    assert copies_of_the_carry(scanned(twice), x, x) == 0
    # The old carry is read behind the update, or becomes another one.
    assert copies_of_the_carry(scanned(read_again), x) == 2
    assert copies_of_the_carry(scanned(swapped), x, x) == 2

    def counted(i, c):
        return c.at[i].add(c[i - 1] + 1)

    assert copies_of_the_carry(lambda x: lax.fori_loop(0, length, counted, x), x) == 0

    def searched(c):
        i, y = c
        return i + 1, y.at[i % 10].add(y[i - 1] + 1)

    def more(c):
        return c[1].sum() < 7 * length

    assert (
        copies_of_the_carry(lambda x: lax.while_loop(more, searched, (mnp.asarray(0), x)), x) == 0
    )
