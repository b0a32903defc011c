"""Cumulative operations: values against NumPy, derivatives against differences and by hand."""

from __future__ import annotations

import tracemalloc
from functools import partial

import numpy as np
import pytest

import mgefn.backends.numpy_cpu  # noqa: F401  # registers the kernels
from mgefn import dtypes
from mgefn.api.batch import vmap
from mgefn.api.derivatives import grad, hessian, jacfwd, jacrev, jvp, vjp
from mgefn.core.array import as_array
from mgefn.core.avals import ShapedArray
from mgefn.core.jaxpr import check_jaxpr
from mgefn.errors import ArgumentError, AxisError, DTypeError
from mgefn.interpreters.evaluate import eval_jaxpr
from mgefn.interpreters.staging import trace_closed
from mgefn.ops import cumulative as c

nan, inf = np.nan, np.inf
BF16 = np.dtype(dtypes.bfloat16)
NUMBERS = [
    *map(np.dtype, "int8 int32 int64 uint16 uint64 float16 float32 float64".split()),
    np.dtype(np.complex64),
    BF16,
]
TOLERANCE = {"float16": 5e-3, "bfloat16": 4e-2, "float32": 1e-5, "complex64": 1e-5}
SCANS = {
    "cumsum": (c.cumsum_p, c.cumsum_along, np.add),
    "cumprod": (c.cumprod_p, c.cumprod_along, np.multiply),
    "cummax": (c.cummax_p, c.cummax_along, np.maximum),
    "cummin": (c.cummin_p, c.cummin_along, np.minimum),
    "cumlogsumexp": (c.cumlogsumexp_p, c.cumlogsumexp_along, np.logaddexp),
}


def draw(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    x = rng.normal(size=shape)
    if dtype.kind == "c":
        x = x + 1j * rng.normal(size=shape)
    elif dtype.kind in "iu":
        x = np.abs(x) * 3 if dtype.kind == "u" else x * 3
    return np.array(x).astype(dtype)


def wide(x):
    return x.astype(np.float64) if x.dtype.kind == "V" or x.dtype == np.float16 else x


def scratch_of(kernel, in_avals, out_avals, params):
    bound = getattr(kernel, "temp_bytes", None)
    return 0 if bound is None else bound(in_avals, out_avals, **params)


def close(got, want, dtype=None, tol=None):
    got = np.asarray(got)
    tol = tol or TOLERANCE.get(got.dtype.name, 1e-12)
    if dtype is not None:
        assert got.dtype == dtype, (got.dtype, dtype)
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(
        got.astype(np.complex128), np.asarray(want).astype(np.complex128), rtol=tol, atol=tol
    )


# -- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, dtype",
    [(n, d) for n in SCANS for d in NUMBERS if n != "cumlogsumexp" or d.kind in "fV"],
    ids=str,
)
def test_scans_match_numpy(name, dtype):
    _, along, ufunc = SCANS[name]
    for shape in [(5,), (3, 4), (2, 3, 4), (0,), (2, 0, 3), (1,)]:
        x = draw(shape, dtype)
        for axis in range(-x.ndim, x.ndim):
            want = ufunc.accumulate(wide(x), axis=axis, dtype=wide(x).dtype)
            close(along(x, axis), want, dtype)
            want = np.flip(
                ufunc.accumulate(np.flip(wide(x), axis), axis=axis, dtype=wide(x).dtype), axis
            )
            close(along(x, axis, reverse=True), want, dtype)


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "nancumsum", "nancumprod"])
def test_numpy_functions(name):
    f, want = getattr(c, name), getattr(np, name)
    x = draw((3, 4), np.float64)
    for axis in (None, 0, -1):
        close(f(x, axis), want(x, axis))
    close(f(np.array(3.0)), [3.0])
    close(f(np.array(3.0), 0), [3.0])
    close(f(np.array([1, 2, 3], np.int8)), want([1, 2, 3]), np.int32)
    close(f(np.array([True, True])), want([1, 1]), np.int32)
    close(f(np.array([1, 2], np.uint8)), want([1, 2]), np.uint32)
    close(f(np.array([1, 2]), dtype="float16"), want([1, 2]), np.float16)
    close(f(np.array([0, 1, -1, 0]), dtype=bool), want([0, 1, -1, 0], dtype=bool), bool)
    if name.startswith("nan"):
        y = np.array([[1, nan, 2], [nan, 3, 4.0]])
        close(f(y, 1), want(y, 1))
    else:
        close(getattr(as_array(x), name)(1), want(x, 1))


def test_cumulative_sum_and_prod():
    x = np.array([[1.0, 2, 3], [4, 5, 6]])
    close(c.cumulative_sum(x, axis=1), x.cumsum(1))
    close(c.cumulative_sum(x, axis=0, include_initial=True), [[0, 0, 0], [1, 2, 3], [5, 7, 9]])
    close(c.cumulative_prod(x[0], include_initial=True), [1, 1, 2, 6])
    with pytest.raises(ArgumentError, match="cumulative_sum: needs an array of rank 1"):
        c.cumulative_sum(x)
    with pytest.raises(ArgumentError, match="cumulative_prod: needs an array of rank 1"):
        c.cumulative_prod(3.0)


def test_errors():
    with pytest.raises(AxisError, match="cumsum: axis 1 is out of range"):
        c.cumsum(np.ones(3), 1)
    with pytest.raises(ArgumentError, match="cumsum: out must be None"):
        c.cumsum(np.ones(3), out=np.ones(3))
    with pytest.raises(DTypeError, match="cumsum: needs numbers"):
        c.cumsum_along(np.ones(3, bool))
    with pytest.raises(DTypeError, match="cumlogsumexp: needs a floating dtype"):
        c.cumlogsumexp_along(np.ones(3, complex))
    with pytest.raises(AxisError, match="cummax: axis 0 is out of range"):
        c.cummax_along(np.array(1.0))


def test_special_values():
    close(c.cumsum(np.array([1, inf, -inf, 2])), [1, inf, nan, nan])
    close(c.cummax_along(np.array([1, nan, 3.0])), [1, nan, nan])
    close(c.cumlogsumexp_along(np.array([-inf, -inf, 0, -inf])), [-inf, -inf, 0, 0])
    close(c.cumlogsumexp_along(np.array([1000.0, 1000])), [1000, 1000 + np.log(2)])
    close(c.cumlogsumexp_along(np.array([1, 1])), [1, 1 + np.log(2)], np.float32)
    close(c.cummax_along(np.array([False, True, False])), [0, 1, 1], bool)
    assert float(c.cumsum(np.full(10000, 0.5, BF16))[-1:].sum()) == 4992  # bfloat16 next to 5000


# -- kernels --------------------------------------------------------------------------------------


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["float16", BF16, "float32", "float64"], ids=str)
@pytest.mark.parametrize("name", SCANS)
def test_kernels_keep_to_their_blocks_and_memory(name, dtype, reverse):
    primitive = SCANS[name][0]
    kernel = primitive.kernels["numpy"]
    dtype = np.dtype(dtype)
    for shape, axis in [((200, 300), 0), ((200, 300), 1), ((50000,), 0)]:
        x = np.full(shape, 0.01).astype(dtype)
        params = {"axis": axis, "reverse": reverse}
        block = np.empty(shape, dtype)
        kernel(x, **params, outs=(block,))
        tracemalloc.start()
        (out,) = kernel(x, **params, outs=(block,))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert out is block
        np.testing.assert_array_equal(kernel(x, **params)[0], block)
        aval = ShapedArray(shape, dtype)
        plan = 2 * x.nbytes + scratch_of(kernel, (aval,), (aval,), params)
        assert 2 * x.nbytes + peak <= 1.05 * plan


# -- derivatives ----------------------------------------------------------------------------------

CASES = [(name, axis, reverse) for name in SCANS for axis in (0, 1) for reverse in (False, True)]


def difference(f, x, dx, h=1e-6):
    return (np.asarray(f(as_array(x + h * dx))) - np.asarray(f(as_array(x - h * dx)))) / (2 * h)


@pytest.mark.parametrize("name, axis, reverse", CASES)
def test_derivatives_batching_and_staging(name, axis, reverse):
    f = partial(SCANS[name][1], axis=axis, reverse=reverse)
    rng = np.random.default_rng(1)
    x, dx = rng.normal(size=(4, 5)), rng.normal(size=(4, 5))
    y, dy = jvp(f, (x,), (dx,))
    close(y, f(x))
    np.testing.assert_allclose(dy, difference(f, x, dx), rtol=1e-6, atol=1e-7)
    ct = rng.normal(size=y.shape)
    back = np.asarray(vjp(f, x)[1](as_array(ct))[0])
    np.testing.assert_allclose(np.vdot(back, dx), np.vdot(ct, dy), rtol=1e-12)
    g = grad(lambda v: (f(v) ** 2 * ct).sum())
    want = difference(g, x, dx)
    np.testing.assert_allclose(jvp(g, (x,), (dx,))[1], want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(grad(lambda v: (g(v) * dx).sum())(x), want, rtol=1e-5, atol=1e-6)

    batch = rng.normal(size=(4, 3, 5))
    want = np.stack([np.asarray(f(batch[:, i])) for i in range(3)])
    close(vmap(f, in_axes=1)(batch), want)
    close(vmap(g)(batch.swapaxes(0, 1)), np.stack([np.asarray(g(batch[:, i])) for i in range(3)]))
    closed = trace_closed(lambda v: [f(v)], [ShapedArray((4, 5), np.dtype(np.float64))], "test")
    check_jaxpr(closed)
    close(eval_jaxpr(closed.jaxpr, closed.consts, [as_array(x)])[0], f(x))


@pytest.mark.parametrize("name", SCANS)
def test_derivatives_of_any_length(name):
    along = SCANS[name][1]
    for n in range(12):
        x = np.random.default_rng(n).normal(size=n)
        jac = jacrev(along)(x)
        assert jac.shape == (n, n)
        want = [difference(along, x, e) for e in np.eye(n)]
        np.testing.assert_allclose(jac, np.reshape(want, (n, n)).T, rtol=1e-6, atol=1e-8)


def test_cumprod_at_zeros():
    """a + ab + abc at (2, 0, 3): (1 + b + bc, a + ac, ab)."""
    f = lambda x: c.cumprod(x).sum()
    close(grad(f)(np.array([2.0, 0, 3])), [1, 8, 0])
    close(jacfwd(f)(np.array([2.0, 0, 3])), [1, 8, 0])
    close(hessian(f)(np.array([2.0, 0, 3])), [[0, 4, 0], [4, 0, 2], [0, 2, 0]])
    close(hessian(f)(np.array([0.0, 0, 7])), [[0, 8, 0], [8, 0, 0], [0, 0, 0]])
    x = np.array([[0.0, 2], [3, 0], [4, 5]])
    last = lambda v: (c.cumprod(v, axis=0) * np.array([[0.0], [0], [1]])).sum()
    close(grad(last)(x), [[12, 0], [0, 10], [0, 0]])


# As JAX 0.10 gives them: the joins of the tree share their ties one by one.
TIES = [
    ([1.0, 1, 1, 1, 1], False, [1531, 1530, 1550, 1500, 5000]),
    ([1.0, 2, 2, 3, 3], False, [1, 60, 50, 6000, 5000]),
    ([3.0, 2, 1, 3, 2], False, [5611, 0, 0, 5500, 0]),
    ([2.0, 1, 2, 2, 3], False, [561, 0, 300, 250, 10000]),
    ([1.0, 1, 1, 1, 1], True, [0.5, 2.625, 52.625, 527.625, 10527.625]),
    ([1.0, 2, 2, 3, 3], True, [0, 0, 0, 555.5, 10555.5]),
]


@pytest.mark.parametrize("x, reverse, want", TIES)
def test_cummax_shares_ties(x, reverse, want):
    weights = np.array([1.0, 10, 100, 1000, 10000])
    x = np.array(x)
    close(grad(lambda v: (c.cummax_along(v, 0, reverse) * weights).sum())(x), want)
    close(grad(lambda v: (-c.cummin_along(-v, 0, reverse) * weights).sum())(x), want)


def test_cumlogsumexp_derivative_without_nan_of_its_own():
    f = lambda v: c.cumlogsumexp_along(v).sum()
    # The first result is the first element itself, so its derivative is 1 also at -inf.
    close(grad(f)(np.array([-inf, 0.0, -inf, 0.0])), [1, 2.5, 0, 0.5])
    g = np.asarray(grad(f)(np.full(5, -inf)))
    assert np.isfinite(g).all() and g.sum() == 5  # all are -inf: shared like any tie
    assert np.isfinite(np.asarray(hessian(f)(np.array([-inf, 0.0, -inf, 1.0])))).all()


def test_length_one():
    x = np.array([[5.0]])
    for name in SCANS:
        close(grad(lambda v, name=name: SCANS[name][1](v, 1).sum())(x), [[1]])
