"""Window reductions and pooling: values against loops, ties, derivatives, batches, errors."""

from __future__ import annotations

import tracemalloc
from functools import partial
from typing import Any

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import lax, nn
from mgefn.backends.numpy_kernels import windows as kernels
from mgefn.core.avals import ShapedArray
from mgefn.errors import ArgumentError, DTypeError, ShapeError
from mgefn.ops import windows
from tests.cases import gathered_by_loops, scattered_by_loops, windows_by_loops
from tests.kernels import scratch_of

inf, nan = np.inf, np.nan


def setting(rng: np.random.Generator) -> tuple[tuple[int, ...], dict[str, Any]]:
    """A shape and the params of a reduction, at random."""
    n = int(rng.integers(0, 4))

    def ints(low: int, high: int) -> tuple[int, ...]:
        return tuple(map(int, rng.integers(low, high, n)))

    params = {
        "window_dimensions": ints(1, 4),
        "window_strides": ints(1, 4),
        "padding": tuple(zip(ints(-1, 3), ints(-1, 3), strict=True)),
        "base_dilation": ints(1, 4),
        "window_dilation": ints(1, 3),
    }
    return ints(2, 7), params


def test_reductions_match_loops() -> None:
    rng = np.random.default_rng(0)
    for _ in range(80):
        shape, params = setting(rng)
        x = np.array(np.round(rng.standard_normal(shape) * 2))  # with ties; no NumPy scalar
        for join, function, identity in (
            (lax.add, np.sum, 0.0),
            (lax.max, np.max, -inf),
            (lax.min, np.min, inf),
            (lax.mul, np.prod, 1.0),
            (lambda a, b: a + b - a * b, lambda v: 1 - np.prod(1 - v), 0.0),
        ):
            want = windows_by_loops(function, lambda dtype, fill=identity: fill, x, **params)
            reduced = partial(lax.reduce_window, init_value=identity, computation=join, **params)
            for got in (reduced(x), mgefn.jit(reduced)(x), mgefn.vmap(reduced)(x[None])[0]):
                assert got.shape == want.shape and got.dtype == want.dtype
                np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def test_selection_matches_loops() -> None:
    rng = np.random.default_rng(1)
    for _ in range(60):
        shape, params = setting(rng)
        x = np.round(rng.standard_normal(shape) * 2)
        x = np.where(rng.random(shape) < 0.1, nan, x)
        t = np.array(rng.standard_normal(shape))
        source = np.array(rng.standard_normal(windows.out_sizes(shape, **params)))
        for select in ("max", "min"):
            got = windows.select_and_gather_add_p.bind1(t, x, select=select, **params)
            np.testing.assert_allclose(got, gathered_by_loops(t, x, select=select, **params))
            got = windows.select_and_scatter_add_p.bind1(source, x, select=select, **params)
            want = scattered_by_loops(source, x, select=select, **params)
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def test_derivatives_satisfy_the_transpose_identity_to_second_order() -> None:
    rng = np.random.default_rng(2)
    for _ in range(30):
        shape, params = setting(rng)
        x, dx = (np.array(rng.standard_normal(shape)) for _ in range(2))
        for join, identity in ((lax.add, 0.0), (lax.max, -inf), (lax.min, inf), (lax.mul, 1.0)):
            reduced = partial(lax.reduce_window, init_value=identity, computation=join, **params)
            y, dy = mgefn.jvp(reduced, (x,), (dx,))
            ct = np.array(rng.standard_normal(y.shape))
            back = np.asarray(mgefn.vjp(reduced, x)[1](ct)[0])
            np.testing.assert_allclose(
                (back * dx).sum(), (np.asarray(dy) * ct).sum(), rtol=1e-11, atol=1e-11
            )

            def cubes(v: Any, reduced: Any = reduced, ct: Any = ct) -> Any:
                w = reduced(v)
                return (mnp.where(mnp.isfinite(w), w, 0.0) ** 3 * ct).sum()

            gradient = mgefn.grad(cubes)
            _, forward = mgefn.jvp(gradient, (x,), (dx,))
            h = 1e-5
            ends = [np.asarray(gradient(np.array(x + s * h * dx))) for s in (1, -1)]
            near = (ends[0] - ends[1]) / (2 * h)
            np.testing.assert_allclose(forward, near, rtol=1e-5, atol=1e-5)
            reverse = mgefn.grad(lambda v, g=gradient, t=dx: (g(v) * t).sum())(x)
            np.testing.assert_allclose(reverse, forward, rtol=1e-9, atol=1e-9)


def test_the_first_of_equal_elements_takes_the_gradient() -> None:
    x = np.array([1.0, 3.0, 3.0, 3.0, 0.0])
    for join, identity, sign in ((lax.max, -inf, 1), (lax.min, inf, -1)):
        slope = mgefn.grad(lambda v: lax.reduce_window(v, identity, join, (3,)).sum())(sign * x)  # noqa: B023  # called at once
        np.testing.assert_array_equal(slope, [0, 2, 1, 0, 0])


def test_nan_is_selected_and_padding_is_not() -> None:
    pool = partial(
        lax.reduce_window, init_value=-inf, computation=lax.max, window_dimensions=(2,),
        window_strides=(2,), padding=((1, 1),),
    )  # fmt: skip
    x = np.array([-inf, nan, 1.0, -inf])
    np.testing.assert_array_equal(pool(x), [-inf, nan, -inf])
    # An element that is -inf takes the slope before the padding that counts as -inf.
    np.testing.assert_array_equal(mgefn.grad(lambda v: pool(v).sum())(x), [1, 1, 0, 1])


def test_starts_that_are_not_neutral_join_once() -> None:
    x = np.array([1, 2, 3], np.int32)
    pads = ((1, 1),)
    sums = lax.reduce_window(x, 10, lax.add, (2,), padding=pads)
    np.testing.assert_array_equal(sums, [11, 13, 15, 13])
    np.testing.assert_array_equal(
        mgefn.jit(lambda s: lax.reduce_window(x, s, lax.add, (2,), padding=pads))(10), sums
    )
    np.testing.assert_array_equal(
        lax.reduce_window(x, 2, lax.max, (2,), padding=pads), [2, 2, 3, 3]
    )
    np.testing.assert_array_equal(
        lax.reduce_window(x, 2, lax.mul, (2,), padding=pads), [2, 4, 12, 6]
    )
    assert lax.reduce_window(x, 0, lax.add, (2,)).dtype == np.int32


def test_booleans_and_bits() -> None:
    x = np.array([True, False, False])
    for join, want in ((lax.bitwise_or, [1, 0]), (lax.add, [1, 0]), (lax.max, [1, 0]),
                       (lax.bitwise_and, [0, 0]), (lax.mul, [0, 0])):  # fmt: skip
        start = join in (lax.bitwise_and, lax.mul)
        np.testing.assert_array_equal(lax.reduce_window(x, start, join, (2,)), np.array(want, bool))
    bits = np.array([6, 3, 5], np.uint8)
    got = lax.reduce_window(bits, np.uint8(255), lax.bitwise_and, (2,), padding=((0, 1),))
    np.testing.assert_array_equal(got, [2, 1, 5])
    got = lax.reduce_window(bits, np.uint8(0), lax.bitwise_xor, (2,), padding=((0, 1),))
    np.testing.assert_array_equal(got, [5, 6, 5])


def test_a_function_of_several_operands() -> None:
    def later(left: Any, right: Any) -> Any:
        (a, i), (b, j) = left, right
        keep = a >= b
        return mnp.where(keep, a, b), mnp.where(keep, i, j)

    x = np.array([1.0, 5.0, 2.0, 7.0], np.float32)
    values, places = lax.reduce_window(
        (x, np.arange(4, dtype=np.int32)), (-inf, -1), later, (2,), (2,)
    )
    np.testing.assert_array_equal(values, [5, 7])
    np.testing.assert_array_equal(places, [1, 3])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
@pytest.mark.parametrize("k", [1, 3])
def test_scratch_stays_within_what_is_declared(dtype: str, k: int) -> None:
    rng = np.random.default_rng(3)
    x = (rng.standard_normal((4, 64, 64, 16)) * 9).astype(dtype)
    params = windows.window_params("test", x.shape, (1, k, 3, 1), (1, 2, 1, 1), "SAME")
    shape = windows.out_sizes(x.shape, **params)
    source = np.ones(shape, dtype)
    for primitive, kernel, args in (
        (windows.reduce_window_sum_p, kernels.reduce_window_sum, (x,)),
        (windows.reduce_window_max_p, kernels.reduce_window_max, (x,)),
        (windows.select_and_gather_add_p, kernels.select_and_gather_add, (x, x)),
        (windows.select_and_scatter_add_p, kernels.select_and_scatter_add, (source, x)),
    ):
        given = {**params, "select": "max"} if len(args) == 2 else params
        avals = [ShapedArray(a.shape, a.dtype) for a in args]
        outs = primitive.out_avals(avals, given)
        out = np.empty(outs[0].shape, outs[0].dtype)
        bound = scratch_of(kernel, avals, outs, given)
        tracemalloc.start()
        kernel(*args, **given, outs=(out,))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= bound + 32 * 1024, (primitive, peak, bound)


# -- pooling --------------------------------------------------------------------------------------


def test_pooling_takes_any_number_of_batch_dimensions() -> None:
    x = np.arange(32.0).reshape(4, 4, 2)
    want = np.array([[[10, 11], [14, 15]], [[26, 27], [30, 31]]], float)
    for lead in ((), (3,), (2, 3)):
        y = np.broadcast_to(x, (*lead, *x.shape)).copy()
        got = nn.max_pool(y, (2, 2), strides=(2, 2))
        np.testing.assert_array_equal(got, np.broadcast_to(want, (*lead, *want.shape)))
        got = nn.min_pool(y, (2, 2), strides=(2, 2))
        np.testing.assert_array_equal(got, np.broadcast_to(want - 10, (*lead, *want.shape)))
        got = nn.avg_pool(y, (2, 2), strides=(2, 2))
        np.testing.assert_array_equal(got, np.broadcast_to(want - 5, (*lead, *want.shape)))


def test_average_pooling_counts_padding_or_not() -> None:
    x = np.ones((1, 3, 3, 1), np.float32)
    pads = ((1, 0), (0, 1))
    counted = nn.avg_pool(x, (2, 2), padding=pads)
    np.testing.assert_array_equal(counted[0, :, :, 0], [[0.5, 0.5, 0.25], [1, 1, 0.5], [1, 1, 0.5]])
    np.testing.assert_array_equal(nn.avg_pool(x, (2, 2), padding=pads, count_include_pad=False), x)
    slope = mgefn.grad(
        lambda v: nn.avg_pool(v, (2, 2), padding=pads, count_include_pad=False).sum()
    )(x)
    np.testing.assert_allclose(np.asarray(slope).sum(), 9, rtol=1e-6)
    assert nn.avg_pool(np.ones((4, 1), np.int32), (2,)).dtype == np.float32


def test_pooling_with_any_function() -> None:
    x = np.array([1.0, 2.0, 4.0]).reshape(3, 1)
    got = nn.pool(x, -inf, mnp.logaddexp, (2,), (1,), ((0, 1),))
    np.testing.assert_allclose(got[:, 0], [np.logaddexp(1, 2), np.logaddexp(2, 4), 4], rtol=1e-12)


# -- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "match", "call"),
    [
        (ShapeError, "window_dimensions needs 1 entries",
         lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 2))),
        (ShapeError, "window_dimensions must be 1 or more",
         lambda x: lax.reduce_window(x, 0.0, lax.add, (0,))),
        (ArgumentError, "sequence of ints, got 2", lambda x: nn.max_pool(x[:, None], 2)),
        (ShapeError, "window_strides must be 1 or more",
         lambda x: lax.reduce_window(x, 0.0, lax.add, (2,), (0,))),
        (ArgumentError, "padding must be",
         lambda x: lax.reduce_window(x, 0.0, lax.add, (2,), None, "FULL")),
        (ArgumentError, "structure of operand",
         lambda x: lax.reduce_window((x, x), 0.0, lax.add, (2,))),
        (ShapeError, "scalar init_values",
         lambda x: lax.reduce_window(x, np.zeros(2), lax.add, (2,))),
        (DTypeError, "reduce_window: .* must return",
         lambda x: lax.reduce_window(x, 0.0, lambda a, b: a < b, (2,))),
        (ShapeError, "max_pool: a window over 2 dimensions", lambda x: nn.max_pool(x, (2, 2))),
    ],
)  # fmt: skip
def test_errors(error: Any, match: str, call: Any) -> None:
    with pytest.raises(error, match=match):
        call(np.ones(4))
