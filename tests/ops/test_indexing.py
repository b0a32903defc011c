"""x[index], x.at[index] and the functions on indices against NumPy, eager and traced; derivatives
against differences; batches against loops; kernels in given blocks and within their scratch."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import mgefn
import mgefn.numpy as mnp
from mgefn.backends.numpy_cpu import KERNELS
from mgefn.core.array import as_array
from mgefn.errors import (
    ArgumentError,
    ConcretizationTypeError,
    DTypeError,
    IndexOutOfBoundsError,
    NonConcreteBooleanIndexError,
    ShapeError,
    TracerIntegerConversionError,
)
from mgefn.ops import indexing as ix
from tests.kernels import scratch_of

X = np.arange(60.0).reshape(3, 4, 5)
UPDATES = {"set": None, "add": np.add, "multiply": np.multiply, "min": np.minimum}


def ints(values):
    return as_array(np.asarray(values, np.int32))


def traced(fun, *args):
    """fun through a staged program, with the arguments traced."""
    return mgefn.jit(fun)(*args)


def is_traceable(i):
    return type(i) is int or (isinstance(i, np.ndarray) and i.dtype != bool)


def with_traced_parts(index):
    """The integers of an index as arguments, and the index made of what comes for them."""
    parts = index if isinstance(index, tuple) else (index,)
    args = [as_array(np.asarray(i, np.int32)) for i in parts if is_traceable(i)]

    def rebuilt(given_args):
        found = iter(given_args)
        return tuple(next(found) if is_traceable(i) else i for i in parts)

    return args, rebuilt


@st.composite
def advanced(draw, shape=X.shape):
    """A mix of integers, slices, arrays and masks for a shape."""
    index = []
    block = draw(hnp.array_shapes(min_dims=1, max_dims=2, max_side=3))
    for n in shape[: draw(st.integers(1, len(shape)))]:
        kind = draw(st.sampled_from(["array", "int", "slice", "none", "mask"]))
        if kind == "array":
            index.append(draw(hnp.arrays(np.int64, block, elements=st.integers(-n, n - 1))))
        elif kind == "int":
            index.append(draw(st.integers(-n, n - 1)))
        elif kind == "slice":
            index.append(draw(st.slices(n)))
        elif kind == "mask":
            index.append(draw(hnp.arrays(bool, n)))
        else:
            index += [None, slice(None)]
    return tuple(index)


INDICES = st.one_of(hnp.basic_indices(X.shape, allow_newaxis=True, allow_ellipsis=True), advanced())


@given(index=INDICES)
def test_getitem_is_numpys(index):
    try:
        expected = X[index]
    except IndexError:
        return  # arrays that do not broadcast
    x = as_array(X)
    args, rebuilt = with_traced_parts(index)
    for got in (
        x[index],
        traced(lambda x: x[index], x),
        traced(lambda x, *a: x[rebuilt(a)], x, *args),
        traced(lambda x: x.at[index].get(), x),
    ):
        assert got.shape == np.shape(expected)
        np.testing.assert_array_equal(got, expected)


@given(index=INDICES, name=st.sampled_from(sorted(UPDATES)))
def test_updates_are_numpys(index, name):
    try:
        v = -1.5 + np.arange(X[index].size).reshape(np.shape(X[index]))
    except IndexError:
        return
    expected = X.copy()
    if name == "set":
        expected[index] = v
    else:
        UPDATES[name].at(expected, index, v)
    x, value = as_array(X), as_array(v)
    args, rebuilt = with_traced_parts(index)
    for got in (
        getattr(x.at[index], name)(value),
        traced(lambda x, v: getattr(x.at[index], name)(v), x, value),
        traced(lambda x, v, *a: getattr(x.at[rebuilt(a)], name)(v), x, value, *args),
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-12)
    np.testing.assert_array_equal(x, X)


def test_static_indices_need_no_gather():
    text = str(mgefn.make_jaxpr(lambda x: x[1, ::-2, None, -1])(as_array(X)))
    assert "gather" not in text
    assert "slice" in text


def test_a_small_part_does_not_keep_its_base():
    x = as_array(np.zeros(100_000))
    assert x[5:8]._data.base is None
    assert x[5:]._data.base is not None


@pytest.mark.parametrize("transform", [lambda f: f, mgefn.jit])
@pytest.mark.parametrize("start", [-9, -3, -1, 0, 2, 5])
def test_starts_that_may_not_be_negative_are_clamped_to_0(transform, start):
    x, u = np.arange(12.0).reshape(3, 4), np.full((1, 2), 9.0)
    for allowed in (True, False, (False, True), (True, False)):
        wraps = (allowed, allowed) if isinstance(allowed, bool) else allowed
        i, j = (
            min(max(start + n * (start < 0 and w), 0), n - k)
            for n, k, w in zip(x.shape, u.shape, wraps, strict=True)
        )
        got = transform(
            lambda s, a=allowed: ix.dynamic_slice(x, (s, s), u.shape, allow_negative_indices=a)
        )(start)
        np.testing.assert_array_equal(got, x[i : i + 1, j : j + 2])
        want = x.copy()
        want[i : i + 1, j : j + 2] = u
        got = transform(
            lambda s, a=allowed: ix.dynamic_update_slice(x, u, (s, s), allow_negative_indices=a)
        )(start)
        np.testing.assert_array_equal(got, want)
    row = ix.dynamic_index_in_dim(x, start, keepdims=False, allow_negative_indices=False)
    np.testing.assert_array_equal(row, x[min(max(start, 0), 2)])
    got = ix.dynamic_update_index_in_dim(x, -x[0], start, 0, allow_negative_indices=False)
    np.testing.assert_array_equal(got[min(max(start, 0), 2)], -x[0])
    with pytest.raises(ShapeError, match=r"dynamic_slice: .*allow_negative_indices.* got 3"):
        ix.dynamic_slice(x, (0, 0), (1, 1), allow_negative_indices=(True,) * 3)


def test_what_is_not_an_index():
    x = as_array(X)
    with pytest.raises(DTypeError, match=r"x\[array\(index\)\]"):
        x[[0, 1]]
    with pytest.raises(DTypeError, match="index"):
        x[1.0]
    with pytest.raises(DTypeError, match="float"):
        x[as_array(np.array([1.0]))]
    with pytest.raises(IndexOutOfBoundsError, match="out of bounds"):
        x[3]
    with pytest.raises(IndexOutOfBoundsError, match="out of bounds"):
        traced(lambda x: x[0, -5], x)
    with pytest.raises(IndexOutOfBoundsError, match="out of bounds"):
        x[ints([0, 7])]
    with pytest.raises(IndexOutOfBoundsError, match="too many"):
        traced(lambda x: x[0, 0, 0, 0], x)
    with pytest.raises(NonConcreteBooleanIndexError, match="where"):
        traced(lambda x: x[x > 3], x)
    with pytest.raises(TracerIntegerConversionError, match="dynamic_slice"):
        traced(lambda x, i: x[i:], x, ints(1))
    with pytest.raises(ShapeError, match="broadcast"):
        x.at[0].set(np.zeros(7))


def test_out_of_bounds():
    x = as_array(np.array([1.0, 2.0, 3.0]))
    i = ints([-4, -3, 2, 3])
    np.testing.assert_array_equal(traced(lambda x, i: x[i], x, i), [1, 1, 3, 3])
    # Without a mode as JAX: it clamps, and does not raise for an index that it knows.
    np.testing.assert_array_equal(x.at[i].get(), [1, 1, 3, 3])
    np.testing.assert_array_equal(traced(lambda x, i: x.at[i].get(), x, i), [1, 1, 3, 3])
    np.testing.assert_array_equal(x.at[i].get(mode="fill"), [np.nan, 1, 3, np.nan])
    np.testing.assert_array_equal(mgefn.grad(lambda x: x.at[i].get().sum())(x), [2, 0, 2])
    np.testing.assert_array_equal(x.at[i].get(mode="clip"), [1, 1, 3, 3])
    np.testing.assert_array_equal(x.at[i].get(fill_value=9), [9, 1, 3, 9])
    np.testing.assert_array_equal(x.at[i].set(0), [0, 2, 0])
    np.testing.assert_array_equal(x.at[i].add(1.0, mode="clip"), [3, 2, 5])
    np.testing.assert_array_equal(x.at[7].set(0), x)
    np.testing.assert_array_equal(traced(lambda x: x.at[7].set(0), x), x)
    whole = as_array(np.array([1, 2], np.int32))
    assert int(whole.at[5].get()) == 2
    assert int(whole.at[5].get(mode="fill")) == np.iinfo(np.int32).min
    assert int(whole.astype(np.uint8).at[5].get(mode="fill")) == 255
    with pytest.raises(ArgumentError, match="clip"):
        x.at[0].set(1, mode="nearest")


# What stands for x[index], with and without negative indices counting from the end.
WRAPS = [-1, -5, (1, -1), np.array([-1, 0, 3, 9]), np.array([-1, 2], np.int8),
         (slice(-2, None), -1), (None, -1), (np.array([[-1], [0]]), np.array([-1, 0]))]  # fmt: skip


@pytest.mark.parametrize("index", WRAPS, ids=str)
@pytest.mark.parametrize("jitted", [False, True])
def test_negative_indices_are_out_of_bounds_on_demand(index, jitted):
    x = as_array(np.arange(1.0, 13.0).reshape(4, 3))
    run = traced if jitted else lambda fun, *args: fun(*args)
    parts = [p if isinstance(p, slice) or p is None else np.asarray(p)
             for p in (index if isinstance(index, tuple) else (index,))]  # fmt: skip
    # Far out instead: the same as out of bounds above, for what fills or is dropped.
    beyond = tuple([np.where(p < 0, 99, p) if isinstance(p, np.ndarray) else p for p in parts])
    low = tuple([np.maximum(p, 0) if isinstance(p, np.ndarray) else p for p in parts])

    def both(name, *args, mode=None, other=beyond):
        got = run(
            lambda x: getattr(x.at[index], name)(*args, mode=mode, wrap_negative_indices=False), x
        )
        want = getattr(x.at[other], name)(*args, mode=mode)
        np.testing.assert_array_equal(got, want, err_msg=f"{name} {mode}")

    both("get", mode="fill")
    both("get", mode="clip", other=low)
    both("get", other=low)
    for name in ("set", "add", "subtract", "multiply", "divide", "power", "min", "max"):
        both(name, 2.0)
        both(name, 2.0, mode="clip", other=low)
    both("apply", lambda v: v * 3)
    both("mul", np.float16(2.0))
    same = run(lambda x: x.at[index].add(2.0, wrap_negative_indices=True), x)
    np.testing.assert_array_equal(same, x.at[index].add(2.0))
    if isinstance(index, np.ndarray):
        i = as_array(index)
        got = traced(lambda x, i: x.at[i].get(mode="fill", wrap_negative_indices=False), x, i)
        np.testing.assert_array_equal(got, x.at[beyond].get(mode="fill"))
        got = traced(lambda x, i: x.at[i].set(7, wrap_negative_indices=False), x, i)
        np.testing.assert_array_equal(got, x.at[beyond].set(7))
        g = mgefn.grad(lambda x: (x.at[i].get(mode="clip", wrap_negative_indices=False)).sum())(x)
        np.testing.assert_array_equal(g, mgefn.grad(lambda x: x.at[low].get(mode="clip").sum())(x))


def test_take_along_axis_without_counting_from_the_end():
    x, i = as_array(np.array([[1.0, 2.0, 3.0]])), np.array([[-1, 0, 5]])
    for along in (ix.take_along_axis, mgefn.jit(ix.take_along_axis, static_argnames=(
        "axis", "mode", "wrap_negative_indices"
    ))):  # fmt: skip
        got = along(x, i, axis=1, wrap_negative_indices=False)
        np.testing.assert_array_equal(got, [[np.nan, 1, np.nan]])
        got = along(x, i, axis=1, mode="clip", wrap_negative_indices=False)
        np.testing.assert_array_equal(got, [[1, 1, 3]])
        for wrap in (None, True):
            got = along(x, i, axis=1, wrap_negative_indices=wrap)
            np.testing.assert_array_equal(got, [[3, 1, np.nan]])


@pytest.mark.parametrize("i", [2**70, -(2**70), np.uint64(2**64 - 1),
                               np.array([2**64 - 1], np.uint64)], ids=str)  # fmt: skip
def test_indices_beyond_every_integer_are_out_of_bounds(i):
    x = as_array(np.arange(5.0))
    for run in (traced, lambda fun, *args: fun(*args)):
        with pytest.raises(IndexOutOfBoundsError, match="getitem"):
            run(lambda x: x[i], x)
        np.testing.assert_array_equal(run(lambda x: x.at[i].set(9), x), x)
        np.testing.assert_array_equal(run(lambda x: x.at[i].add(9), x), x)
        assert np.isnan(run(lambda x: x.at[i].get(mode="fill"), x)).all()
        edge = x[0] if np.all(np.asarray(i) < 0) else x[4]
        assert (run(lambda x: x.at[i].get(mode="clip"), x) == edge).all()


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float16", "bfloat16", "complex64"])
def test_every_dtype(dtype):
    x = as_array(np.ones((3, 2))).astype(dtype)
    i = ints([0, 2, 0])
    assert traced(lambda x, i: x[i], x, i).dtype == x.dtype
    assert traced(lambda x, i: x.at[i].add(x[i]), x, i).dtype == x.dtype
    assert traced(lambda x, i: x.at[i].set(1.0), x, i).dtype == x.dtype


def test_narrow_floats_add_up_in_float32():
    x = as_array(np.zeros(1, np.float16))
    total = x.at[ints([0] * 4096)].add(as_array(np.ones(4096, np.float16)))
    assert float(total[0]) == 4096


def test_sizes_of_zero():
    x = as_array(np.zeros((0, 3)))
    assert x[ints([])].shape == (0, 3)
    assert traced(lambda x: x[ints([])], x).shape == (0, 3)
    assert traced(lambda x: x.at[:, 0].set(1.0), x).shape == (0, 3)
    assert ix.take(as_array(X), []).shape == (0,)
    assert as_array(np.array(2.0))[...].shape == ()
    assert float(as_array(np.array(2.0)).at[()].add(1.0)) == 3
    with pytest.raises(IndexOutOfBoundsError, match="empty"):
        ix.take(x, ints([0]), axis=0)


# -- derivatives ----------------------------------------------------------------------------------

A = np.random.default_rng(0).standard_normal((4, 5))
U = np.random.default_rng(1).standard_normal((3, 5))
REPEATED, DROPPED = ints([1, 3, 1]), ints([0, 3, 7])

LINEAR_AND_NOT = {
    "getitem": (lambda x: x[REPEATED, ::2], A),
    "dynamic_slice": (lambda x: ix.dynamic_slice(x, (ints(3), ints(1)), (2, 3)), A),
    "dynamic_update_slice": (
        lambda x, u: ix.dynamic_update_slice(x, u, (ints(3), ints(-1))),
        A,
        U[:2, :3],
    ),
    "take": (lambda x: ix.take(x, ints([[0, 9], [-1, 2]]), 1, mode="clip"), A),
    "take_along_axis": (lambda x: ix.take_along_axis(x, ints([[0], [1], [-1], [2]]), 1), A),
    "put_along_axis": (
        lambda x, u: ix.put_along_axis(x, ints([[0, 0, 2]]), u[:1, :3], 1, inplace=False),
        A[:1],
        U,
    ),
    "diag": (lambda x: ix.diag(x[0], -1) + ix.diagonal(x, 1)[0], A),
    "tril": (lambda x: ix.tril(x, -1) + ix.triu(x, 1), A),
    "roll": (lambda x: ix.roll(x, ints(2), 0), A),
    "repeat": (lambda x: ix.repeat(x, ints([1, 0, 2, 3]), 0), A),
}
for _name in ("set", "add", "subtract", "multiply", "divide", "power", "min", "max"):
    for _kind, _index, _mode in (
        ("repeated", REPEATED, None),
        ("dropped", DROPPED, None),
        ("clipped", DROPPED, "clip"),
        ("slices", (slice(None, 3), slice(None, None, -1)), None),
    ):

        def _fun(x, u, name=_name, index=_index, mode=_mode):
            return getattr((abs(x) + 0.5).at[index], name)(abs(u) + 0.5, mode=mode)

        LINEAR_AND_NOT[f"{_name}-{_kind}"] = (_fun, A, U)
ZEROS = U.copy()
ZEROS[0, 0] = ZEROS[2, 1] = ZEROS[0, 2] = ZEROS[2, 2] = 0
LINEAR_AND_NOT["multiply-zeros"] = (lambda x, u: x.at[REPEATED].multiply(u), A, ZEROS)


@pytest.mark.parametrize("name", LINEAR_AND_NOT)
def test_derivatives(name):
    fun, *xs = LINEAR_AND_NOT[name]
    rng = np.random.default_rng(2)
    dots = [rng.standard_normal(x.shape) for x in xs]
    y, y_dot = mgefn.jvp(fun, tuple(xs), tuple(dots))
    h = 1e-6
    above = np.asarray(fun(*(as_array(x + h * d) for x, d in zip(xs, dots, strict=True))))
    below = np.asarray(fun(*(as_array(x - h * d) for x, d in zip(xs, dots, strict=True))))
    np.testing.assert_allclose(y_dot, (above - below) / (2 * h), atol=1e-6)
    ct = rng.standard_normal(y.shape)
    _, pullback = mgefn.vjp(fun, *xs)
    back = sum(np.vdot(c, d) for c, d in zip(pullback(as_array(ct)), dots, strict=True))
    np.testing.assert_allclose(back, np.vdot(ct, y_dot), rtol=1e-11, atol=1e-12)


def test_the_derivative_follows_the_update_that_is_kept():
    x, u = as_array(np.zeros(3)), as_array(np.array([1.0, 2.0, 3.0]))
    set_to = lambda u: x.at[ints([1, 1, 2])].set(u)
    kept = np.asarray(set_to(u))[1]
    g = np.asarray(mgefn.grad(lambda u: set_to(u)[1])(u))
    np.testing.assert_array_equal(g, [kept == 1.0, kept == 2.0, 0.0])


def test_equal_candidates_share_the_derivative():
    x, u = as_array(np.array([1.0, 0.0])), as_array(np.array([1.0, 1.0]))
    fun = lambda x, u: x.at[ints([0, 0])].max(u)[0]
    gx, gu = mgefn.grad(fun, argnums=(0, 1))(x, u)
    np.testing.assert_allclose(gx, [1 / 3, 0])
    np.testing.assert_allclose(gu, [1 / 3, 1 / 3])


# -- batching -------------------------------------------------------------------------------------

XB = np.random.default_rng(3).standard_normal((3, 4, 5))
UB = np.random.default_rng(4).standard_normal((3, 3, 5))
IB = np.random.default_rng(5).integers(-6, 6, (3, 3)).astype(np.int32)
SB = np.array([-1, 2, 9], np.int32)
BATCHED = {
    "get": (lambda x, i: x.at[i].get(fill_value=-5.0), XB, IB),
    "get-slice": (lambda x, i: x.at[1:3, i].get(fill_value=-5.0), XB, IB),
    "clip": (lambda x, i: x.at[i, ::2].get(mode="clip"), XB, IB),
    "dynamic_slice": (lambda x, s: ix.dynamic_slice(x, (s, 0), (2, 3)), XB, SB),
    "update_slice": (lambda x, s: ix.dynamic_update_slice(x, x[:2, :3], (s, 1)), XB, SB),
    "take_along": (lambda x, i: ix.take_along_axis(x, i[:, None], 0, fill_value=0.0), XB, IB),
    "take": (lambda x, i: ix.take(x, i, 1, fill_value=0.0), XB, IB),
    "roll": (lambda x, s: ix.roll(x, s, 0), XB, SB),
    "nonzero": (lambda x, s: ix.nonzero(x > s, size=7, fill_value=-1)[1], XB, SB - 2),
}
for _name in ("set", "add", "multiply", "divide", "min", "max", "power"):
    BATCHED[f"{_name}-same"] = (
        lambda x, i, name=_name: getattr(abs(x).at[i], name)(abs(as_array(U))),
        XB,
        IB,
    )
    BATCHED[f"{_name}-values"] = (
        lambda u, i, name=_name: getattr(abs(as_array(A)).at[i, ::2], name)(abs(u)[:, :3]),
        UB,
        IB,
    )


@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)])
@pytest.mark.parametrize("name", BATCHED)
def test_batching(name, axes):
    fun, a, b = BATCHED[name]
    a, b = (v if axis == 0 else v[0] for v, axis in zip((a, b), axes, strict=True))
    got = mgefn.vmap(fun, in_axes=axes)(as_array(a), as_array(b))
    one = lambda v, axis, i: as_array(np.asarray(v[i] if axis == 0 else v))
    expected = [np.asarray(fun(one(a, axes[0], i), one(b, axes[1], i))) for i in range(3)]
    np.testing.assert_allclose(got, np.stack(expected), rtol=1e-12)


# -- NumPy's functions ----------------------------------------------------------------------------

M = np.arange(12.0).reshape(3, 4)
V = np.array([0.0, 3.0, 0.0, 4.0])
K = np.array([1, 0, 2, 1])
AS_NUMPY = {
    "take": (lambda m, x: m.take(x, [2, -1, 0], 1), M),
    "diagonal": (lambda m, x: m.diagonal(x, -1), M),
    "diag": (lambda m, x: m.diag(x, 2), V),
    "diag-matrix": (lambda m, x: m.diag(x, 1), M),
    "diagflat": (lambda m, x: m.diagflat(x, -1), M),
    "trace": (lambda m, x: m.trace(x, 1), M),
    "tril": (lambda m, x: m.tril(x, 1), M),
    "triu": (lambda m, x: m.triu(x, -1), M),
    "nonzero": (lambda m, x: m.nonzero(x)[0], M),
    "flatnonzero": (lambda m, x: m.flatnonzero(x), V),
    "argwhere": (lambda m, x: m.argwhere(x), M),
    "compress": (lambda m, x: m.compress([True, False, True], x, 1), M),
    "extract": (lambda m, x: m.extract(x > 1, x), V),
    "choose": (lambda m, k: m.choose(k, [V, V + 1, V + 2]), K),
    "select": (lambda m, x: m.select([x > 3, x > 1], [x, -x], 7.0), V),
    "piecewise": (lambda m, x: m.piecewise(x, [x < 1, x > 3], [lambda t: t - 1, 2.0]), V),
    "roll": (lambda m, x: m.roll(x, (1, -2), (0, 1)), M),
    "roll-flat": (lambda m, x: m.roll(x, 5), M),
    "repeat": (lambda m, x: m.repeat(x, 2, 1), M),
    "repeat-each": (lambda m, x: m.repeat(x, [2, 0, 1], 0), M),
    "tile": (lambda m, x: m.tile(x, (2, 1, 3)), M),
    "append": (lambda m, x: m.append(x, x, 1), M),
    "delete": (lambda m, x: m.delete(x, [1, -1], 1), M),
    "delete-slice": (lambda m, x: m.delete(x, slice(None, None, 2), 1), M),
    "insert": (lambda m, x: m.insert(x, 1, 9.0, 1), M),
    "insert-many": (lambda m, x: m.insert(x, [1, 3], [[9.0, 8.0]] * 3, 1), M),
    "unravel_index": (lambda m, k: m.unravel_index(k, (2, 3))[1], K),
    "ravel_multi_index": (lambda m, k: m.ravel_multi_index((k, k), (3, 4), order="F"), K),
    "indices": (lambda m, x: m.indices((2, 3)), V),
    "ix_": (lambda m, k: m.ix_(k, [True, False, True])[1], K),
    "tri": (lambda m, x: m.tri(3, 4, 1), V),
    "diag_indices": (lambda m, x: m.diag_indices(3, 2)[1], V),
    "tril_indices": (lambda m, x: m.tril_indices(3, -1)[1], V),
    "triu_indices": (lambda m, x: m.triu_indices(3, 1)[0], V),
}


@pytest.mark.parametrize("name", AS_NUMPY)
def test_functions_are_numpys(name):
    fun, x = AS_NUMPY[name]
    got = np.asarray(fun(ix, as_array(x)))
    expected = fun(np, x)
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got, expected)


def test_sizes_under_jit():
    v = as_array(V)
    np.testing.assert_array_equal(traced(lambda v: ix.nonzero(v, size=3)[0], v), [1, 3, 0])
    np.testing.assert_array_equal(traced(lambda v: ix.compress(v > 1, v, size=3), v), [3, 4, 0])
    with pytest.raises(ConcretizationTypeError, match="size=n"):
        traced(lambda v: ix.nonzero(v), v)
    each = traced(lambda v, r: ix.repeat(v, r, total_repeat_length=5), v, ints([2, 0, 1, 1]))
    np.testing.assert_array_equal(each, [0, 0, 0, 4, 4])
    with pytest.raises(ConcretizationTypeError, match="total_repeat_length"):
        traced(lambda v, r: ix.repeat(v, r), v, ints([2, 0, 1, 1]))


def test_modes_of_take():
    v = as_array(V)
    np.testing.assert_array_equal(ix.take(v, ints([5, -1, -9])), [np.nan, 4, np.nan])
    np.testing.assert_array_equal(ix.take(v, ints([5, -1]), mode="clip"), [4, 0])
    np.testing.assert_array_equal(ix.take(v, ints([5, -1]), mode="wrap"), [3, 4])
    with pytest.raises(IndexOutOfBoundsError, match="take"):
        ix.take(v, ints([5]), mode="raise")


# -- kernels --------------------------------------------------------------------------------------

KERNEL_CASES = {
    # operand shape, indices shape, dimension numbers of gather, slice sizes
    "rows": ((200, 64), (300, 1), ((1,), (0,), (0,)), (1, 64)),
    "long-rows": ((50, 512), (300, 1), ((1,), (0,), (0,)), (1, 512)),
    "elements": ((50, 60), (3000, 2), ((), (0, 1), (0, 1)), (1, 1)),
    "windows": ((90, 40), (200, 2), ((1, 2), (), (1, 0)), (3, 7)),
    "columns": ((70, 60), (300, 1), ((0,), (1,), (1,)), (70, 1)),
    "batched": ((40, 50, 6), (40, 30, 1), ((2,), (1,), (1,), (0,), (0,)), (1, 1, 6)),
    "unindexed": ((40, 50), (300, 1), ((1,), (0,), (0,)), (1, 20)),
    "one": ((40, 50), (2,), ((0, 1), (), (0, 1)), (20, 30)),
}


@pytest.mark.parametrize("mode", ["clip", "fill"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", KERNEL_CASES)
def test_kernels_in_blocks_and_within_their_scratch(name, dtype, mode):
    shape, indices_shape, numbers, sizes = KERNEL_CASES[name]
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, shape).astype(dtype)
    indices = rng.integers(-2, 60, indices_shape).astype(np.int32)
    numbers = ix.GatherDimensionNumbers(*numbers)
    parsed = ix.GatherScatterMode.from_any(mode)
    flags = {"indices_are_sorted": False, "unique_indices": False, "mode": parsed}
    fill = 0.0 if mode == "fill" else None
    read = {"dimension_numbers": numbers, "slice_sizes": sizes, "fill_value": fill, **flags}
    expected = check_kernel(ix.gather_p, (x, indices), read)
    write = {"dimension_numbers": ix.ScatterDimensionNumbers(*numbers), **flags}
    for p in (ix.scatter_p, ix.scatter_add_p, ix.scatter_max_p, ix.scatter_mul_p):
        u = rng.integers(1, 3, expected.shape).astype(dtype)
        if p is ix.scatter_mul_p:
            u[...] = 1
        out = check_kernel(p, (x, indices, u), write)
        if p is ix.scatter_add_p and mode == "fill":
            valid = np.asarray(KERNELS[ix.gather_p](np.ones_like(x), indices, **read)[0])
            np.testing.assert_allclose(
                out.sum(dtype=np.float64) - x.sum(dtype=np.float64),
                (valid.astype(np.float64) * u).sum(),
            )


def check_kernel(primitive, arrays, params):
    """The kernel's result, the same in a fresh block and in an operand's, within its scratch."""
    kernel = KERNELS[primitive]
    avals = [as_array(a).aval for a in arrays]
    (aval,) = primitive.abstract_eval(*avals, **params)
    (expected,) = kernel(*arrays, **params)
    assert expected.shape == aval.shape
    bound = scratch_of(kernel, avals, (aval,), params)
    for alias in (None, *range(len(arrays))):
        copies = [a.copy() for a in arrays]
        out = np.empty(aval.shape, aval.dtype)
        if alias is not None:
            same = copies[alias].shape == out.shape and copies[alias].dtype == out.dtype
            if not (same and getattr(kernel, "in_place", False)):
                continue
            out = copies[alias]
        tracemalloc.start()
        (got,) = kernel(*copies, outs=(out,), **params)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert got is out
        np.testing.assert_array_equal(got, expected)
        # These arrays are small, so what Python allocates for itself shows.
        assert peak <= 1.05 * bound + 16384, (primitive, peak, bound)
    return expected


def test_quotients_of_integers_are_no_integers():
    x = np.arange(4, dtype=np.int32)
    for f in (lambda x: x.at[1:3].divide(2), mgefn.jit(lambda x: x.at[np.array([1, 2])].divide(2))):
        got = f(mnp.asarray(x))
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, [0, 0.5, 1, 3])
    assert mnp.ones(3, "float16").at[0].divide(np.float64(2)).dtype == np.float16


def test_repeated_exponents_multiply():
    x = mnp.asarray([2.0, 3.0, 5.0])
    at = np.array([0, 0, 2, -3])
    for f in (lambda x, i: x.at[i].power(2), mgefn.jit(lambda x, i: x.at[i].power(2))):
        np.testing.assert_array_equal(f(x, at), [2.0**8, 3, 25])
    wide = mnp.asarray([2.0, 3.0], "float64")
    assert wide.at[np.array([0])].power(0.1)[0] == 2.0**0.1


@pytest.mark.parametrize("how", ["min", "max"])
def test_complex_numbers_have_no_order(how):
    x = mnp.asarray([1 + 2j, 3])
    for f in (lambda x: getattr(x.at[0], how)(0.5j), lambda x: getattr(x.real.at[0], how)(0.5j)):
        for call in (f, mgefn.jit(f)):
            with pytest.raises(mgefn.errors.DTypeError, match="needs a dtype with an order"):
                call(x)
    numbers = ix.ScatterDimensionNumbers((), (0,), (0,))
    scatter = getattr(ix, f"scatter_{how}")
    for call in (scatter, mgefn.jit(scatter, static_argnums=3)):
        with pytest.raises(mgefn.errors.DTypeError, match="needs a dtype with an order"):
            call(x, np.array([[0]]), x[:1], numbers)
