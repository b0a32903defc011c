"""Reductions: values against NumPy, derivatives against differences, batching against a loop."""

from __future__ import annotations

import tracemalloc
from functools import partial

import numpy as np
import pytest

import mgefn.backends.numpy_cpu  # noqa: F401  # registers the kernels
from mgefn import dtypes
from mgefn.api.batch import vmap
from mgefn.api.derivatives import grad, hessian, jacfwd, jacrev, jvp, vjp
from mgefn.backends.numpy_kernels import reductions as kernels
from mgefn.core.array import as_array
from mgefn.core.avals import ShapedArray
from mgefn.core.jaxpr import check_jaxpr
from mgefn.errors import ArgumentError, AxisError, DTypeError, ShapeError
from mgefn.interpreters.evaluate import eval_jaxpr
from mgefn.interpreters.staging import trace_closed
from mgefn.ops import reductions as r
from mgefn.ops.elementwise import exp, square, where

nan, inf = np.nan, np.inf
BF16 = np.dtype(dtypes.bfloat16)
DTYPES = [
    *map(np.dtype, "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()),
    *map(np.dtype, "float16 float32 float64 complex64 complex128".split()),
    BF16,
]
TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5, "complex64": 1e-5}
SHAPES = [(), (5,), (3, 4), (2, 3, 4), (0,), (2, 0, 3)]
AXES = [None, 0, -1, (0, 1), (-1, 0), ()]


def draw(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    x = rng.normal(size=shape) * 2
    if dtype.kind == "b":
        x = x > -0.5
    elif dtype.kind == "c":
        x = x + 1j * rng.normal(size=shape)
    elif dtype.kind in "iu":
        x = np.abs(x) * 3 if dtype.kind == "u" else x * 3
    # np.array: a NumPy scalar would be weak, which an array of rank 0 is not.
    return np.array(x).astype(dtype)


def fits(axis, ndim):
    axes = (axis,) if isinstance(axis, int) else axis or ()
    normal = [a % ndim if ndim else None for a in axes]
    return all(-ndim <= a < ndim for a in axes) and len(set(normal)) == len(normal)


def wide(x):
    """The array in a dtype that NumPy's own functions compute exactly enough in."""
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


def result_of_sum(dtype):
    if dtype.kind == "b":
        return np.dtype(np.int32)
    if dtype.kind in "iu" and dtype.itemsize < 4:
        return np.dtype({"i": np.int32, "u": np.uint32}[dtype.kind])
    return dtype


# -- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["sum", "prod", "nansum", "nanprod"])
def test_sum_and_prod_match_numpy(name, dtype):
    for shape in SHAPES:
        x = draw(shape, dtype)
        for axis in AXES:
            if not fits(axis, x.ndim):
                continue
            want_dtype = result_of_sum(dtype)
            for keepdims in (False, True):
                want = getattr(np, name)(
                    wide(x) if x.dtype.kind in "fcV" else x.astype(want_dtype),
                    axis=axis,
                    keepdims=keepdims,
                )
                got = getattr(r, name)(x, axis, keepdims=keepdims)
                tol = TOLERANCE.get(dtype.name, 1e-12) * 20
                with np.errstate(over="ignore"):
                    close(got, want.astype(want_dtype), want_dtype, tol)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["max", "min", "all", "any"])
def test_extrema_and_logic_match_numpy(name, dtype):
    for shape in SHAPES:
        x = draw(shape, dtype)
        for axis in AXES:
            if not fits(axis, x.ndim):
                continue
            try:
                want = getattr(np, name)(wide(x), axis=axis, keepdims=True)
            except ValueError:
                with pytest.raises(ShapeError, match="initial"):
                    getattr(r, name)(as_array(x), axis)
                continue
            got = getattr(r, name)(as_array(x), axis, keepdims=True)
            close(got, want, dtype if name in ("max", "min") else np.dtype(bool))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["mean", "var", "std"])
def test_moments_match_numpy(name, dtype):
    want_dtype = dtypes.to_inexact(dtype)
    if name != "mean":
        want_dtype = dtypes.real_part_dtype(want_dtype)
    for shape in SHAPES[:4]:
        x = draw(shape, dtype)
        for axis in AXES:
            if not fits(axis, x.ndim):
                continue
            want = getattr(np, name)(wide(x), axis=axis, keepdims=True)
            tol = 5 * TOLERANCE.get(want_dtype.name, 1e-12)
            close(getattr(r, name)(as_array(x), axis, keepdims=True), want, want_dtype, tol)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_argmax_matches_numpy(name, dtype):
    for shape in [(), (5,), (3, 4), (2, 3, 4)]:
        x = draw(shape, dtype)
        for axis in [None, *range(-x.ndim, x.ndim)]:
            for keepdims in (False, True):
                want = getattr(np, name)(wide(x), axis=axis, keepdims=keepdims)
                got = getattr(r, name)(as_array(x), axis, keepdims=keepdims)
                assert got.dtype == np.int32
                np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", [np.float16, BF16, np.float32, np.float64], ids=str)
def test_argmax_puts_nan_first_and_takes_the_first_tie(dtype):
    x = np.array([[1, 3, 3], [nan, 5, nan]], dtype)
    np.testing.assert_array_equal(r.argmax(x, 1), [1, 0])
    np.testing.assert_array_equal(r.argmin(x, 1), [0, 0])
    np.testing.assert_array_equal(r.nanargmax(x, 1), [1, 1])
    np.testing.assert_array_equal(r.nanargmin(x, 0), [0, 0, 0])
    assert int(r.nanargmax(np.array([nan, nan], dtype))) == -1


def test_methods_call_the_functions():
    x = as_array(draw((3, 4), np.float32))
    data = np.asarray(x)
    for name in ["sum", "prod", "max", "min", "all", "any", "mean", "var", "std", "ptp"]:
        want = getattr(np, name)(data, axis=1)
        close(getattr(x, name)(1), want, tol=1e-5)
        close(getattr(x, name)(), getattr(np, name)(data), tol=1e-5)
    np.testing.assert_array_equal(x.argmax(0), data.argmax(0))
    np.testing.assert_array_equal(x.argmin(), data.argmin())
    close(x.var(ddof=1), data.var(ddof=1), tol=1e-5)
    close(x.std(1, correction=1), data.std(1, ddof=1), tol=1e-5)
    assert float(np.sum(x)) == float(x.sum())  # NumPy hands its arguments to the method


def test_lists_and_numbers_are_taken():
    assert int(r.sum(5)) == 5
    assert float(r.mean(2.5)) == 2.5


def test_weak_operands_give_strong_results():
    for f in (r.sum, r.max, r.mean, r.prod, r.var):
        assert not f(as_array(2.0)).weak_type


def test_promote_integers_and_dtype():
    x = np.full(4, 100, np.int8)
    assert r.sum(x).dtype == np.int32 and int(r.sum(x)) == 400
    assert r.sum(x, promote_integers=False).dtype == np.int8
    assert int(r.sum(x, promote_integers=False)) == np.int8(400 - 512)
    assert r.sum(x, dtype="float64").dtype == np.float64
    assert r.sum(np.array([1, -1]), dtype=bool).dtype == np.bool_
    assert bool(r.sum(np.array([1, -1]), dtype=bool))
    assert not bool(r.prod(np.array([1, 0]), dtype=bool))
    assert r.sum(np.ones(2, np.uint16)).dtype == np.uint32


def test_where_and_initial():
    x = np.array([[1.0, nan, 3.0], [nan, nan, 7.0]])
    mask = ~np.isnan(x)
    close(r.sum(x, 1, where=mask), [4, 7])
    close(r.prod(x, 0, where=mask, initial=2.0), [2, 2, 42])
    close(r.max(x, 1, where=mask, initial=5.0), [5, 7])
    close(r.min(x, 0, where=mask, initial=inf), [1, inf, 3])
    close(r.mean(x, 1, where=mask), [2, 7])
    close(r.var(x, 1, where=mask), [1, 0])
    close(r.std(x, where=mask, ddof=1), np.std([1, 3, 7], ddof=1))
    close(r.sum(x, where=np.array([True, False, False]), axis=0), [nan, 0, 0])
    assert np.isnan(r.mean(np.ones(3), where=np.zeros(3, bool)))
    assert bool(r.all(x > 0, where=mask)) and not bool(r.any(x > 0, where=~mask))
    close(r.max(np.zeros((0, 3)), 0, initial=1.0), [1, 1, 1])
    close(r.max(np.array([1, 2], np.int8), initial=5), 5, np.int8)


def test_errors_say_what_to_do():
    x = as_array(np.ones((2, 3), np.float32))
    with pytest.raises(AxisError, match="sum: axis 2 is out of range"):
        r.sum(x, 2)
    with pytest.raises(AxisError, match="named twice"):
        r.max(x, (0, -2))
    with pytest.raises(ArgumentError, match="out must be None"):
        r.sum(x, out=np.ones(3))
    with pytest.raises(ArgumentError, match="max: where may leave no element"):
        r.max(x, where=x > 0)
    with pytest.raises(ShapeError, match=r"min: needs at least one element, got f32\[0\]"):
        r.min(as_array(np.ones(0, np.float32)))
    with pytest.raises(ShapeError, match="argmax: needs at least one element along axis 0"):
        r.argmax(np.ones((0, 2)), 0)
    with pytest.raises(DTypeError, match="where must be boolean"):
        r.sum(x, where=x)
    with pytest.raises(ShapeError, match="where must broadcast to the array"):
        r.sum(x, where=np.ones((4, 2, 3), bool))
    with pytest.raises(ShapeError, match="initial must be a number"):
        r.sum(x, initial=np.ones(2))
    with pytest.raises(ArgumentError, match="ddof and correction are one thing"):
        r.var(x, ddof=1, correction=1)
    with pytest.raises(DTypeError, match="var: dtype must be inexact"):
        r.var(x, dtype=int)
    with pytest.raises(DTypeError, match="reduce_sum: needs numbers"):
        r.reduce_sum(x > 0, (0,))
    with pytest.raises(ShapeError, match="average: weights"):
        r.average(x, weights=np.ones(4))
    with pytest.raises(DTypeError, match="ptp: needs numbers"):
        r.ptp(x > 0)


def test_extrema_of_nothing_where_nothing_is_asked():
    assert r.max(np.zeros((2, 0)), axis=0).shape == (0,)
    assert r.argmax(np.zeros((0, 3)), axis=1).shape == (0,)


def test_statistics_without_nan():
    x = draw((4, 5), np.float64)
    x[1, 2] = x[3, :] = nan
    for name in ["nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin"]:
        want = getattr(np, name)(x[:3], axis=1, keepdims=True)
        close(getattr(r, name)(x[:3], 1, keepdims=True), want)
    for f in (r.nanmean, r.nanvar, r.nanmax, r.nanmin):
        assert np.isnan(np.asarray(f(x, 1))[3])
    close(r.nanvar(x[:3], ddof=1), np.nanvar(x[:3], ddof=1))
    assert int(r.nanmax(np.array([1, 2]))) == 2
    assert np.isnan(r.sum(np.array([1.0, nan]))) and np.isnan(r.max(np.array([1.0, nan])))


def test_average():
    x, w = draw((2, 3, 4), np.float64), np.abs(draw((2, 3, 4), np.float64, 1))
    close(r.average(x, (0, 2), w), np.average(x, (0, 2), w))
    close(r.average(x, 1, w[0, :, 0]), np.average(x, 1, w[0, :, 0]))
    close(r.average(x, (2, 0), w[:, 0, :].T), np.average(x, (2, 0), w[:, 0, :].T))
    mean, total = r.average(x, 1, returned=True)
    close(mean, x.mean(1))
    close(total, np.full((2, 4), 3.0))
    close(r.average(np.array([1, 2])), 1.5, np.float32)


def test_count_nonzero():
    x = np.array([[0, 1, nan], [0, 0, 2]])
    np.testing.assert_array_equal(r.count_nonzero(x, 1), [2, 1])
    assert int(r.count_nonzero(x)) == 3


# -- logsumexp ------------------------------------------------------------------------------------


def test_logsumexp_values():
    x = draw((3, 4), np.float64)
    close(r.logsumexp(x, 1, keepdims=True), np.log(np.exp(x).sum(1, keepdims=True)))
    close(r.logsumexp(np.float32([1000, 1000])), 1000 + np.log(2), np.float32)
    assert float(r.logsumexp(np.full(3, -inf))) == -inf
    assert float(r.logsumexp(np.zeros(0))) == -inf
    assert float(r.logsumexp(np.array([1.0, inf]))) == inf
    assert np.isnan(r.logsumexp(np.array([1.0, nan])))
    close(r.logsumexp(np.array([1, 2])), np.log(np.e + np.e**2), np.float32)
    b = np.array([1.0, -2.0, 0.0, 0.5])
    total = (b * np.exp(x)).sum(1)
    y, sign = r.logsumexp(x, 1, b, return_sign=True)
    close(y, np.log(np.abs(total)))
    close(sign, np.sign(total))
    with np.errstate(invalid="ignore"):
        close(r.logsumexp(x, 1, b), np.log(total))
    # A factor of 0 leaves its element out, however large it is.
    close(r.logsumexp(np.array([0.0, 1e4]), b=np.array([1.0, 0.0])), 0.0)
    close(r.logsumexp(np.array([0.0, nan]), where=np.array([True, False])), 0.0)
    z = draw((3,), np.complex128)
    close(np.exp(np.asarray(r.logsumexp(z))), np.exp(z).sum())
    close(r.logsumexp(np.full(1000, 1.0, np.float16)), 1 + np.log(1000), np.float16)


def test_logsumexp_derivatives():
    x = draw((5,), np.float64)
    soft = np.exp(x) / np.exp(x).sum()
    close(grad(r.logsumexp)(x), soft)
    close(hessian(r.logsumexp)(x), np.diag(soft) - np.outer(soft, soft))
    close(grad(r.logsumexp)(np.full(3, -inf)), np.zeros(3))
    close(grad(r.logsumexp)(np.array([0.0, -inf])), [1, 0])
    close(
        grad(lambda v: r.logsumexp(v, where=np.array([True, False])))(np.array([2.0, nan])), [1, 0]
    )
    close(
        grad(lambda b: r.logsumexp(x, b=b))(np.array([1.0, 2, 0, 3, 0])),
        np.exp(x) / (np.exp(x) * [1, 2, 0, 3, 0]).sum(),
    )


# -- precision ------------------------------------------------------------------------------------


def test_half_precision_accumulates_in_single():
    close(r.sum(np.full((2, 10000), 0.5, BF16), 1), [5000, 5000], BF16, 4e-3)
    close(r.mean(np.full(1_000_000, 1e-5, np.float16)), 1e-5, np.float16, 1e-7)
    close(r.mean(np.full(70000, 2.0, np.float16)), 2.0, np.float16)
    close(r.var(np.tile(np.float16([0, 300]), 1000)), 22500.0, np.float16)
    close(r.prod(np.tile(np.float16([300, 1 / 300]), 8)), 1.0, np.float16, 1e-2)


@pytest.mark.parametrize("shape, axes", [((20000, 3), (0,)), ((3, 20000, 2), (1,)),
                                         ((20001, 2, 3), (0, 2)), ((20000,), (0,)),
                                         ((200, 100, 2), (0, 1)),
                                         ((64, 3, 500), (0, 2)), ((30001, 7), (0,))])  # fmt: skip
def test_long_sums_do_not_drift(shape, axes):
    """One by one, 20000 float32 are off by 1e-4; in blocks of 128 by a few 1e-6."""
    x = np.full(shape, 0.1, np.float32)
    n = np.prod([shape[a] for a in axes])
    for y in (x, np.asfortranarray(x), x[::-1]):
        (got,) = kernels.reduce_sum(y, axes=axes)
        np.testing.assert_allclose(got, np.float64(np.float32(0.1)) * n, rtol=1e-5)
    z = draw(shape, np.float64)
    np.testing.assert_allclose(kernels.reduce_sum(z, axes=axes)[0], z.sum(axes), rtol=1e-9)


def test_mean_of_many_small_integers():
    close(r.mean(np.full(50, 100, np.int8)), 100.0, np.float32)
    close(r.mean(np.full(4, 2**31 - 1, np.int32)), 2.0**31, np.float32)


# -- kernels --------------------------------------------------------------------------------------

PRIMITIVES = {
    "reduce_sum": r.reduce_sum_p,
    "reduce_prod": r.reduce_prod_p,
    "reduce_max": r.reduce_max_p,
    "reduce_min": r.reduce_min_p,
    "reduce_and": r.reduce_and_p,
    "reduce_or": r.reduce_or_p,
    "reduce_xor": r.reduce_xor_p,
    "argmax": r.argmax_p,
    "argmin": r.argmin_p,
}


def params_of(name, axes):
    return {"axes": axes, "index_dtype": np.dtype(np.int32)} if "arg" in name else {"axes": axes}


@pytest.mark.parametrize("name", PRIMITIVES)
def test_kernels_write_into_their_blocks(name):
    for dtype in DTYPES:
        logical = name in ("reduce_and", "reduce_or", "reduce_xor")
        if (logical and dtype.kind not in "biu") or (
            name in ("reduce_sum", "reduce_prod") and dtype.kind == "b"
        ):
            continue
        for shape in [(3, 4), (2, 3, 4)]:
            x = draw(shape, dtype)
            for axes in [(0,), (x.ndim - 1,), (0, 1), ()]:
                if "arg" in name and len(axes) != 1:
                    continue
                params = params_of(name, axes)
                (aval,) = PRIMITIVES[name].out_avals((ShapedArray(x.shape, x.dtype),), params)
                kernel = PRIMITIVES[name].kernels["numpy"]
                made = np.asarray(kernel(x, **params)[0])
                block = np.empty(aval.shape, aval.dtype)
                (out,) = kernel(x, **params, outs=(block,))
                assert out is block
                assert made.shape == aval.shape and made.dtype == aval.dtype
                np.testing.assert_array_equal(made, block)


@pytest.mark.parametrize(
    "name, dtype",
    [
        (name, dtype)
        for name in PRIMITIVES
        for dtype in ["float16", BF16, "float32", "int32"]
        if dtype == "int32" or name not in ("reduce_and", "reduce_or", "reduce_xor")
    ],
    ids=str,
)
@pytest.mark.parametrize("shape, axes", [((300, 500), (0,)), ((300, 500), (1,)),
                                         ((100000,), (0,)), ((5000, 20), (0,)),
                                         ((100, 20, 100), (2,))])  # fmt: skip
def test_kernels_stay_within_their_declared_memory(name, dtype, shape, axes):
    dtype = np.dtype(dtype)
    params = params_of(name, axes)
    kernel = PRIMITIVES[name].kernels["numpy"]
    avals = (ShapedArray(shape, dtype),)
    outs = PRIMITIVES[name].out_avals(avals, params)
    x = np.full(shape, 1e-4).astype(dtype)
    block = np.empty(outs[0].shape, outs[0].dtype)
    kernel(x, **params, outs=(block,))
    tracemalloc.start()
    kernel(x, **params, outs=(block,))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    plan = x.nbytes + block.nbytes + scratch_of(kernel, avals, outs, params)
    assert x.nbytes + block.nbytes + peak <= 1.05 * plan


def test_identities_of_empty_axes():
    empty = np.ones((0, 2), np.int8)
    np.testing.assert_array_equal(r.reduce_max(empty, (0,)), [-128, -128])
    np.testing.assert_array_equal(r.reduce_min(np.ones((0, 2), np.float32), (0,)), [inf, inf])
    np.testing.assert_array_equal(r.reduce_and(empty, (0,)), [-1, -1])
    np.testing.assert_array_equal(r.reduce_or(np.ones((0, 2), bool), (0,)), [False, False])


# -- derivatives ----------------------------------------------------------------------------------

SMOOTH = [
    ("sum", r.sum),
    ("sum-axis", partial(r.sum, axis=1, keepdims=True)),
    ("sum-where", partial(r.sum, axis=0, where=np.eye(3, 4) == 0)),
    ("prod", r.prod),
    ("prod-axis", partial(r.prod, axis=1)),
    ("prod-axes", partial(r.prod, axis=(0, 1))),
    ("max-axis", partial(r.max, axis=0)),
    ("min", r.min),
    ("mean", partial(r.mean, axis=1)),
    ("mean-where", partial(r.mean, axis=1, where=np.eye(3, 4) == 0)),
    ("var", partial(r.var, axis=0)),
    ("var-ddof", partial(r.var, ddof=1)),
    ("std", partial(r.std, axis=1, keepdims=True)),
    ("ptp", partial(r.ptp, axis=1)),
    ("nanvar", partial(r.nanvar, axis=1)),
    ("average", partial(r.average, axis=1, weights=np.arange(1.0, 5.0))),
    ("logsumexp", partial(r.logsumexp, axis=1)),
    ("logsumexp-b", partial(r.logsumexp, axis=0, b=np.array([[2.0], [1.0], [0.5]]))),
]


def difference(f, x, dx, h=1e-6):
    return (np.asarray(f(as_array(x + h * dx))) - np.asarray(f(as_array(x - h * dx)))) / (2 * h)


@pytest.mark.parametrize("f", [f for _, f in SMOOTH], ids=[n for n, _ in SMOOTH])
def test_derivatives(f):
    rng = np.random.default_rng(3)
    x, dx = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))
    y, dy = jvp(f, (x,), (dx,))
    close(y, f(as_array(x)))
    np.testing.assert_allclose(dy, difference(f, x, dx), rtol=1e-6, atol=1e-7)
    # The transpose identity holds up to rounding.
    ct = rng.normal(size=y.shape)
    back = np.asarray(vjp(f, x)[1](as_array(ct))[0])
    np.testing.assert_allclose(np.vdot(back, dx), np.vdot(ct, dy), rtol=1e-12)
    # Second order: differences of the gradient, forward over reverse and reverse over reverse.
    g = grad(lambda v: (square(f(v)) * ct).sum())
    want = difference(g, x, dx)
    np.testing.assert_allclose(jvp(g, (x,), (dx,))[1], want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(grad(lambda v: (g(v) * dx).sum())(x), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("f", [f for _, f in SMOOTH], ids=[n for n, _ in SMOOTH])
def test_batching_and_staging(f):
    x = np.random.default_rng(4).normal(size=(3, 5, 4))
    want = np.stack([np.asarray(f(as_array(x[:, i]))) for i in range(5)])
    close(vmap(f, in_axes=1)(x), want)
    close(vmap(f, in_axes=2)(np.moveaxis(x, 1, 2)), want)
    closed = trace_closed(lambda v: [f(v)], [ShapedArray((3, 4), np.dtype(np.float64))], "test")
    check_jaxpr(closed)
    close(eval_jaxpr(closed.jaxpr, closed.consts, [as_array(x[:, 0])])[0], want[0])
    g = grad(lambda v: f(v).sum())
    close(vmap(g)(np.moveaxis(x, 1, 0)), np.stack([np.asarray(g(x[:, i])) for i in range(5)]))


@pytest.mark.parametrize("name", ["argmax", "argmin", "all", "any", "count_nonzero", "nanargmax"])
def test_batching_without_derivative(name):
    f = partial(getattr(r, name), axis=0)
    x = draw((3, 5, 4), np.float32)
    want = np.stack([np.asarray(f(as_array(x[:, i]))) for i in range(5)])
    np.testing.assert_array_equal(vmap(f, in_axes=1)(x), want)
    closed = trace_closed(lambda v: [f(v)], [ShapedArray((3, 4), np.dtype(np.float32))], "test")
    check_jaxpr(closed)


@pytest.mark.parametrize("x, want", [([0.0, 0, 7], [[0, 7, 0], [7, 0, 0], [0, 0, 0]]),
                                     ([2.0, 0, 3], [[0, 3, 0], [3, 0, 2], [0, 2, 0]]),
                                     ([0.0, 0, 0], np.zeros((3, 3)))])  # fmt: skip
def test_prod_at_zeros(x, want):
    x = np.array(x)
    gradient = [np.prod(np.delete(x, i)) for i in range(3)]
    close(grad(r.prod)(x), gradient)
    close(jacfwd(r.prod)(x), gradient)
    close(hessian(r.prod)(x), want)
    close(jacrev(jacrev(r.prod))(x), want)


def test_third_derivative_of_prod_at_zero():
    third = jacfwd(hessian(r.prod))(np.zeros(3))
    want = np.zeros((3, 3, 3))
    for i, j, k in [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]:
        want[i, j, k] = 1
    close(third, want)


def test_prod_over_axes_and_lengths():
    x = np.array([[0.0, 5], [0, 0], [2, 3]])
    weigh = np.array([1.0, 10, 100])
    close(grad(lambda v: (r.prod(v, 1) * weigh).sum())(x), [[5, 0], [0, 0], [300, 200]])
    for n in range(9):
        y = np.arange(1.0, n + 1)
        close(grad(r.prod)(y), [np.prod(np.delete(y, i)) for i in range(n)])
    assert grad(lambda v: r.prod(v, 1).sum())(np.zeros((2, 0))).shape == (2, 0)
    z = draw((2, 3, 2), np.float64)
    close(
        grad(lambda v: r.prod(v, (0, 2)).sum())(z),
        np.array([[[np.prod(np.delete(z[:, j].ravel(), 2 * i + k)) for k in range(2)]
                   for j in range(3)] for i in range(2)]),
    )  # fmt: skip


def test_extrema_share_ties():
    x = np.array([1.0, 3, 3, 2, 3])
    close(grad(r.max)(x), np.array([0, 1, 1, 0, 1]) / 3)
    close(grad(lambda v: -r.min(-v))(x), np.array([0, 1, 1, 0, 1]) / 3)
    w = np.array([[10.0], [1.0]])
    g = grad(lambda v: (w * r.max(v, -1, keepdims=True)).sum())(np.array([[2.0, 2], [1, 5]]))
    close(g, [[5, 5], [0, 1]])
    close(hessian(r.max)(x), np.zeros((5, 5)))
    close(grad(r.max)(np.zeros(70000, np.float16)).sum(), 1.0, tol=0.1)
    assert grad(lambda v: r.max(v, 1, initial=0.0).sum())(np.zeros((2, 0))).shape == (2, 0)


def test_derivatives_without_nan_of_their_own():
    constant = np.full(4, 2.5)
    close(grad(r.var)(constant), np.zeros(4))
    close(grad(r.std)(constant), np.zeros(4))
    close(jacfwd(r.std)(constant), np.zeros(4))
    x = np.array([nan, 1, 2])
    close(grad(lambda v: r.nanmean(v**2))(x), [0, 1, 2])
    close(grad(r.nanvar)(np.array([nan, 1, 2, 3, 6])), [0, -1, -0.5, 0, 1.5])
    close(grad(r.nanstd)(np.array([nan, 1, 3])), [0, -0.5, 0.5])
    close(grad(r.nanmax)(np.array([nan, 1, 3])), [0, 0, 1])
    close(grad(r.max)(np.array([1.0, nan, 3])), [0, 1, 0])
    close(grad(lambda v: r.mean(exp(v), where=np.isfinite(v)))(np.array([0.0, inf])), [1, 0])


def test_complex_derivatives():
    z = draw((4,), np.complex128)
    f = lambda v: r.prod(v).real + r.var(v)
    g = np.asarray(vjp(f, z)[1](as_array(np.array(1.0)))[0])
    h = 1e-6
    for i in range(4):
        e = np.eye(4)[i] * h
        dx = (float(f(z + e)) - float(f(z - e))) / (2 * h)
        dy = (float(f(z + 1j * e)) - float(f(z - 1j * e))) / (2 * h)
        np.testing.assert_allclose(g[i], dx - 1j * dy, rtol=1e-5, atol=1e-7)


def test_integers_pass_through_a_differentiated_function():
    f = lambda x: r.sum(where(np.arange(3) < r.argmax(x), x, 0.0)) * r.sum(np.array([1, 2]))
    close(grad(f)(np.array([1.0, 2, 3])), [3, 3, 0])
