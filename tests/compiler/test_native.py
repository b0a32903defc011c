"""Programs as native code: what fuses, what it gives, and that no chance is in it."""

from __future__ import annotations

import collections
import concurrent.futures
import ctypes
import gc
import itertools
import mmap
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import lax, nn
from mgefn.compiler import fusion, lowering, native, runtime
from mgefn.compiler.codegen import engine
from mgefn.config import config
from mgefn.scipy import special
from tests.checks import native_kernels

pytestmark = pytest.mark.skipif(
    not runtime.available(), reason=f"no native code here: {runtime.why_unavailable()}"
)

RNG = np.random.default_rng(0)


def drawn(*shape: int, dtype: str = "float32") -> Any:
    return mnp.asarray(RNG.normal(size=shape), dtype=dtype)


def layer_norm(x: Any, g: Any, b: Any) -> Any:
    m, v = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - m) / mnp.sqrt(v + 1e-5) * g + b


def report(fun: Callable[..., Any], *args: Any) -> Any:
    return mgefn.jit(fun).lower(*args).compile().report()


def same(fun: Callable[..., Any], *args: Any, tolerance: float = 2e-5) -> None:
    """Native and by NumPy, twice each."""
    natively, by_numpy = mgefn.jit(fun, backend="llvm"), mgefn.jit(fun, backend="numpy")
    for _ in range(2):
        pairs = zip(
            mgefn.tree.leaves(natively(*args)), mgefn.tree.leaves(by_numpy(*args)), strict=True
        )
        for got, want in pairs:
            assert got.shape == want.shape and got.dtype == want.dtype
            got, want = np.asarray(got, "float64"), np.asarray(want, "float64")
            size = max(1.0, np.abs(want[np.isfinite(want)]).max(initial=0.0))
            np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * size)


# -- one kernel where one is enough --------------------------------------------------------------


ONE_KERNEL = {
    "chain": (lambda x: mnp.tanh(x * 2 + 1) * x, (drawn(40, 70),)),
    "softmax": (nn.softmax, (drawn(9, 70),)),
    "logsumexp": (lambda x: nn.logsumexp(x, axis=1), (drawn(9, 70),)),
    "layer norm": (layer_norm, (drawn(9, 70), drawn(70), drawn(70))),
    "gradients of layer norm": (
        mgefn.grad(lambda x, g, b: (layer_norm(x, g, b) ** 2).sum(), (0, 1, 2)),
        (drawn(9, 70), drawn(70), drawn(70)),
    ),
    "differences": (lambda x: x[1:] - x[:-1], (drawn(71),)),
    "transpose and add": (lambda x: x.T + 1, (drawn(30, 50),)),
    "positions": (lambda x: x * mnp.arange(70.0) + mnp.arange(9.0)[:, None], (drawn(9, 70),)),
    "column sums": (lambda x: (x * x).sum(0), (drawn(9, 70),)),
    "sums in the middle": (lambda x: (x + 1).sum(1), (drawn(4, 9, 70),)),
    "mean of all": (lambda x: (x * 2).mean(), (drawn(9, 70),)),
}


@pytest.mark.parametrize("name", ONE_KERNEL)
def test_is_one_kernel(name: str) -> None:
    fun, args = ONE_KERNEL[name]
    same(fun, *args, tolerance=1e-4)
    (step,) = [s for s in report(fun, *args).steps if s.kind != "view"]
    assert (step.kind, step.kernels) == ("native", 1), step


def test_the_report_says_what_is_not_native_and_why() -> None:
    found = report(lambda x: special.hyp1f1(1.0, 2.0, mnp.sin(x)) * 2, drawn(5, 4))
    kinds = [(s.kind, s.operations) for s in found.steps if s.kind != "view"]
    assert kinds[0] == ("native", "sin") or "sin" in kinds[0][1]
    missing = next(s for s in found.steps if "hyp1f1" in s.operations)
    assert missing.kind == "numpy" and "hyp1f1 has no" in missing.reason
    assert "steps are native" in str(found) and "because hyp1f1 has no native code" in str(found)
    by_numpy = mgefn.jit(mnp.sin, backend="numpy").lower(drawn(3)).compile().report()
    assert by_numpy.native_calls == 0 and by_numpy.steps[0].reason == "the backend is numpy"


def test_what_a_program_by_numpy_holds_runs_by_numpy() -> None:
    def fun(x: Any) -> Any:
        y, _ = lax.scan(lambda c, a: (mnp.sin(c) + a, None), x[0], x)
        return lax.while_loop(lambda s: s.sum() < 9, lambda s: s * 1.5 + 1, y)

    x = np.abs(drawn(4, 3))
    f = mgefn.jit(fun, backend="numpy")
    before = runtime.native_calls()
    got = f(x)
    assert runtime.native_calls() == before
    np.testing.assert_allclose(got, mgefn.jit(fun, backend="llvm")(x), rtol=1e-5)
    assert runtime.native_calls() == before + 1


def test_kernels_can_be_read() -> None:
    compiled = mgefn.jit(lambda x: mnp.exp(x) + 1).lower(drawn(5)).compile()
    assert "define" in compiled.as_text("llvm") and "kernel:" in compiled.as_text("asm")
    with pytest.raises(mgefn.errors.ArgumentError, match="dialect must be"):
        compiled.as_text("ptx")


# -- sizes are not part of the code --------------------------------------------------------------


@pytest.mark.parametrize("name", ["softmax", "layer norm", "differences", "column sums"])
def test_new_sizes_need_no_new_code(name: str) -> None:
    fun, args = ONE_KERNEL[name]
    before = None
    for n in (5, 17, 64, 100, 333):
        f = mgefn.jit(fun)
        f(*(mnp.asarray(np.resize(np.asarray(a), (*a.shape[:-1], n))) for a in args))
        before = native.compilations() if before is None else before
        assert native.compilations() == before


def test_literals_are_not_part_of_the_code() -> None:
    x = drawn(100)
    mgefn.jit(lambda v: v * 0.37 + 2.5)(x)
    before = native.compilations()
    np.testing.assert_allclose(
        mgefn.jit(lambda v: v * 0.91 + 7.25)(x), np.asarray(x) * 0.91 + 7.25, rtol=1e-6
    )
    assert native.compilations() == before


def test_unrolled_loops_share_their_kernels() -> None:
    def unrolled(x: Any, n: int) -> Any:
        for _ in range(n):
            x = mnp.tanh(mnp.sin(x) * 1.1 + x)
        return x.sum()

    counts = []
    for n in (150, 300):
        before = native.compilations()
        fun = mgefn.value_and_grad(lambda x, n=n: unrolled(x, n))
        same(fun, drawn(8, dtype="float64"), tolerance=1e-9)
        counts.append(native.compilations() - before)
    assert sum(counts) <= 12, counts


# -- the same bits --------------------------------------------------------------------------------


BIG = drawn(700, 1300)
DETERMINED = {
    "sum": (lambda x: x.sum(), (BIG,)),
    "flat sum": (lambda x: (x * 1.5).sum(), (BIG.reshape(-1),)),
    "sum of what is turned": (lambda x: (x.T * 1.5).sum(), (BIG.reshape(7, -1),)),
    "column sums": (lambda x: (x * 2).sum(0), (BIG,)),
    "softmax": (nn.softmax, (BIG,)),
    "norm gradients": (
        mgefn.grad(lambda x, g, b: (layer_norm(x, g, b) ** 2).sum(), (0, 1, 2)),
        (BIG, BIG[0], BIG[1]),
    ),
    "product": (lambda x: x @ x.T, (BIG,)),
    "gradient of a product": (mgefn.grad(lambda x: mnp.tanh(x @ x.T).sum()), (BIG,)),
}


@pytest.mark.parametrize("name", DETERMINED)
def test_bits_do_not_depend_on_the_number_of_threads(name: str) -> None:
    fun, args = DETERMINED[name]
    f = mgefn.jit(fun)
    results = []
    for threads in (1, 2, 3, 2):
        with config.override(num_threads=threads):
            results.append([np.asarray(y) for y in mgefn.tree.leaves(f(*args))])
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)
    same(fun, *args, tolerance=2e-3)


def test_many_python_threads_call_one_program() -> None:
    f = mgefn.jit(lambda x, k: nn.softmax(mnp.tanh(x @ x.T) * k).sum(0))
    want = [np.asarray(f(BIG, float(k))) for k in range(4)]

    def call(i: int) -> bool:
        return np.array_equal(np.asarray(f(BIG, float(i % 4))), want[i % 4])

    with concurrent.futures.ThreadPoolExecutor(6) as executor:
        assert all(executor.map(call, range(48)))


# -- memory ---------------------------------------------------------------------------------------


def test_operands_in_any_order_of_memory() -> None:
    base = np.asarray(RNG.normal(size=(12, 10)), "float32")
    for x in (base.T, base[::2], base[:, ::-1], np.asfortranarray(base), base[3:4, 2:3]):
        f = mgefn.jit(lambda v: (mnp.tanh(v) * 2).sum(-1), backend="llvm")
        want = (np.tanh(x) * 2).sum(-1)
        np.testing.assert_allclose(f(x), want, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(f(mnp.asarray(x)), want, rtol=1e-5, atol=1e-6)


def test_constants_in_any_order_of_memory() -> None:
    table = np.asarray(RNG.normal(size=(7, 5)), "float32")
    for c in (mnp.asarray(table).T, mnp.broadcast_to(mnp.asarray(table[0]), (7, 5)).T):
        f = mgefn.jit(lambda x, c=c: x + mnp.sin(c), backend="llvm")
        np.testing.assert_allclose(f(np.ones((5, 7), "f")), 1 + np.sin(np.asarray(c)), rtol=1e-5)


def test_results_are_not_overwritten_by_the_next_call() -> None:
    f = mgefn.jit(lambda x: (x + 1, (x * 2).sum(), x))
    first = f(drawn(5000))
    kept = [np.array(y) for y in first]
    for _ in range(5):
        f(drawn(5000))
    for y, k in zip(first, kept, strict=True):
        np.testing.assert_array_equal(y, k)


def test_donated_memory_is_taken() -> None:
    f = mgefn.jit(lambda x: mnp.tanh(x) * 2, donate_argnums=0)
    x = mnp.asarray(np.ones(1 << 19, "float32")) + 0
    address = np.asarray(x).ctypes.data
    y = f(x)
    assert np.asarray(y).ctypes.data == address
    np.testing.assert_allclose(y[:3], np.tanh(1.0) * 2, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_floats_of_16_bits_round_after_every_operation(dtype: str) -> None:
    x = drawn(9, 70, dtype=dtype)
    for fun in (
        lambda v: mnp.tanh(v) * v + 2.5,
        nn.softmax,
        lambda v: v.sum(1),
        lambda v: v.max(),
        lambda v: v.astype("float32") * 3,
        lambda v: v / 3,
    ):
        np.testing.assert_array_equal(
            np.asarray(mgefn.jit(fun, backend="llvm")(x)), np.asarray(fun(x))
        )


@pytest.mark.parametrize("axes", [(0, 2), (1, 3), (0, 1, 3)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_of_16_bits_are_rounded_once(dtype: str, axes: tuple[int, ...]) -> None:
    x = drawn(5, 3, 7, 6, dtype=dtype)
    wide = mnp.stack([mnp.full((3, 2), 40000, dtype), mnp.full((3, 2), -40000, dtype)])
    for fun, arg in ((lambda v: v.sum(axes), x), (lambda v: v.sum((0, 2)), wide)):
        got, want = mgefn.jit(fun, backend="llvm")(arg), fun(arg)
        np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


# -- loops and branches ---------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 2, 3, 8])
@pytest.mark.parametrize("reverse", [False, True])
def test_scan(length: int, reverse: bool) -> None:
    def fun(c: Any, xs: Any) -> Any:
        def body(c: Any, x: Any) -> Any:
            c = (
                mnp.tanh(c[0] + x),
                c[1] + 1,
                c[0],
            )  # one part of the carry is another, one step on
            return c, {"y": c[0] * 2, "n": c[1], "x": x}

        return lax.scan(body, (c, 0, c), xs, reverse=reverse)

    args = drawn(5), drawn(length, 5)
    same(fun, *args)
    same(mgefn.grad(lambda c, xs: fun(c, xs)[1]["y"].sum(), (0, 1)), *args)
    assert report(fun, *args).native_calls == 1


@pytest.mark.parametrize("stop", [0, 1, 2, 5, 6])
def test_while_loop_ends_after_any_number_of_rounds(stop: int) -> None:
    def fun(x: Any, stop: Any) -> Any:
        body = lambda c: (c[0] + 1, mnp.sin(c[1]) + x, c[1])
        return lax.while_loop(lambda c: c[0] < stop, body, (0, x, x * 2))

    same(fun, drawn(3), np.int32(stop))
    found = report(fun, drawn(3), np.int32(stop))
    assert found.native_calls == 1 and all(s.kind == "native" for s in found.steps)


def test_loops_within_loops_and_branches_within_them() -> None:
    def fun(x: Any) -> Any:
        def outer(c: Any, row: Any) -> Any:
            def inner(d: Any, v: Any) -> Any:
                d = lax.cond(v > 0, lambda u: u * 0.5 + v, lambda u: mnp.sin(u), d)
                return d, d.sum()

            d, sums = lax.scan(inner, c, row)
            _, e = lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 0.9), (0, d))
            return e, sums

        return lax.scan(outer, mnp.ones(4, x.dtype), x)

    same(fun, drawn(5, 6))
    assert report(fun, drawn(5, 6)).native_calls == 1


def test_switch_takes_the_branch_of_its_index() -> None:
    branches = [lambda x: x + 1, lambda x: x * 2, lambda x: -x]
    f = mgefn.jit(lambda i, x: lax.switch(i, branches, x), backend="llvm")
    x = drawn(4)
    for i in (-3, 0, 1, 2, 9):
        want = branches[min(max(i, 0), 2)](np.asarray(x))
        np.testing.assert_allclose(f(np.int32(i), x), want, rtol=1e-6)


def test_a_training_step_is_one_call() -> None:
    def loss(p: Any, x: Any, y: Any) -> Any:
        z = mnp.tanh(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]
        return -mnp.mean(mnp.take_along_axis(nn.log_softmax(z), y[:, None], 1))

    def step(p: Any, x: Any, y: Any) -> Any:
        value, slope = mgefn.value_and_grad(loss)(p, x, y)
        return value, mgefn.tree.map(lambda a, b: a - 0.1 * b, p, slope)

    p = {"w1": drawn(20, 30), "b1": drawn(30), "w2": drawn(30, 5), "b2": drawn(5)}
    x, y = drawn(16, 20), mnp.asarray(RNG.integers(0, 5, 16), dtype="int32")
    same(step, p, x, y, tolerance=1e-4)
    found = report(step, p, x, y)
    assert found.native_calls == 1 and all(s.kind in ("native", "view") for s in found.steps)


# -- matrix products ------------------------------------------------------------------------------


SIZES = [(1, 1, 1), (3, 4, 5), (1, 7, 20), (20, 7, 1), (13, 17, 33), (5, 100, 3), (129, 65, 70)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", SIZES)
def test_products_of_all_layouts(size: tuple[int, int, int], dtype: str) -> None:
    m, k, n = size
    for left in (drawn(m, k, dtype=dtype), drawn(k, m, dtype=dtype).T):
        for right in (drawn(k, n, dtype=dtype), drawn(n, k, dtype=dtype).T):
            # The transposes are part of the program, which reads the operands where they lie.
            if left.shape == (m, k):
                fun = lambda a, b: a @ b
            got = mgefn.jit(fun, backend="llvm")(left, right)
            want = np.asarray(left) @ np.asarray(right)
            tolerance = 1e-5 if dtype == "float32" else 1e-12
            np.testing.assert_allclose(got, want, atol=tolerance * max(k, 1), rtol=tolerance)


@pytest.mark.parametrize(
    "spec", ["bij,bjk->bik", "bij,bkj->bik", "bji,bjk->bki", "bij,bjk->ik", "ijk,kl->ijl", "i,i->"]
)
def test_contractions(spec: str) -> None:
    sizes = {"b": 3, "i": 5, "j": 7, "k": 9, "l": 4}
    shapes = [tuple(sizes[c] for c in part) for part in spec.split("->")[0].split(",")]
    args = [drawn(*shape, dtype="float64") for shape in shapes]
    same(lambda *xs: mnp.einsum(spec, *xs), *args, tolerance=1e-12)


# Sizes for each kernel of products: written out, dot products, tiles, packed tiles, BLAS.
HEADS = [
    (2, 3, 4, 5, 6), (2, 3, 5, 2, 40), (2, 3, 20, 30, 40), (2, 3, 560, 570, 500), (1, 3, 4, 5, 6),
    (2, 1, 4, 20, 30),
]  # fmt: skip


@pytest.mark.parametrize("order", ["bhmk", "bmhk", "mbhk", "hbmk", "kmhb", "mhkb"])
@pytest.mark.parametrize("sizes", HEADS)
def test_products_of_heads_that_do_not_lie_as_one_axis(sizes: tuple[int, ...], order: str) -> None:
    """Both operands are transposed within the program, so the batch has two axes at the least."""
    size = dict(zip("bhmnk", sizes, strict=True))
    other = order.replace("m", "n")
    x, y = (drawn(*(size[c] for c in o)) for o in (order, other))
    spec = f"{order},{other}->bhmn"
    back = lambda z, o: mnp.transpose(z, [o.index(c) for c in sorted(o)])

    def fun(x: Any, y: Any) -> Any:
        # einsum reads its operands where they lie; the second time they come transposed.
        turned = "bhkm,bhkn->bhmn"
        return mnp.einsum(spec, x, y) - mnp.einsum(turned, back(x, order), back(y, other))

    want = np.einsum(spec, np.asarray(x, np.float64), np.asarray(y, np.float64))
    got = mgefn.jit(lambda *xs: mnp.einsum(spec, *xs), backend="llvm")(x, y)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())
    apart = np.asarray(mgefn.jit(fun, backend="llvm")(x, y))
    assert np.abs(apart).max() <= 1e-4 * np.abs(want).max()
    found = report(lambda *xs: mnp.einsum(spec, *xs), x, y)
    assert [s.reason for s in found.steps if s.kind != "native"] == [], found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_large_products_go_to_blas(dtype: str) -> None:
    """Whichever way the operands lie, in batches and as parts of larger arrays."""
    rng = np.random.default_rng(0)
    a, b = (np.asarray(rng.normal(size=n)).astype(dtype) for n in ((450, 500), (500, 470)))
    programs = {
        "plain": lambda a, b: a @ b,
        "left": lambda a, b: mnp.asarray(a.T.copy()).T @ b,
        "right": lambda a, b: a @ mnp.asarray(b.T.copy()).T,
        "parts": lambda a, b: a[5:, 3:] @ b[3:, 7:],
        "rows apart": lambda a, b: mnp.concatenate([a, a])[::2] @ b,
        "batch": lambda a, b: mnp.stack([a, 2 * a]) @ mnp.stack([b, -b]),
    }
    for name, f in programs.items():
        got = mgefn.jit(f, backend="llvm")(a, b)
        want = np.asarray(f(np.asarray(a, "float64"), np.asarray(b, "float64")))
        limit = 1e-4 if dtype == "float32" else 1e-12
        np.testing.assert_allclose(np.asarray(got), want, 0, limit * np.abs(want).max(), name)
    kernels = native_kernels(lambda x, y: x @ y, a, b)
    assert [type(k).__name__ for k in kernels] == ["BlasProduct"]


# -- computing again ------------------------------------------------------------------------------


def test_differences_of_pairs_are_computed_again_not_read(monkeypatch: Any) -> None:
    """What few operations make of small arrays is not written for the groups that need it."""

    def fun(x: Any) -> Any:
        apart = x[:, None] - x[None]
        near = mnp.exp(-(apart * apart).sum(-1))
        return (apart * (near @ near)[:, :, None]).sum(1)

    x = drawn(200, 3, dtype="float64")
    same(fun, x, tolerance=1e-12)
    same(mgefn.grad(lambda x: (fun(x) ** 2).sum()), x, tolerance=1e-11)

    def moved() -> int:
        return sum(s.bytes for s in report(lambda x: fun(x), x).steps if s.kind == "native")

    again = moved()
    monkeypatch.setattr(fusion, "WIDE", 1 << 60)
    assert moved() > again + 1.9 * 8 * len(x) ** 2 * 3  # the differences, written and read


def test_what_is_computed_again_may_also_be_an_output() -> None:
    def fun(x: Any, y: Any) -> Any:
        apart = x[:, None] - y[None, :]
        close = mnp.abs(apart) < 0.5
        total = mnp.where(close, apart, 0).sum(1)
        return apart, total, mnp.exp(-apart).sum(0), (apart * total[:, None]).max(1)

    x, y = drawn(400), drawn(500)
    same(fun, x, y, tolerance=1e-4)
    same(lambda x, y: fun(x, y)[1:], x, y, tolerance=1e-4)
    with_iota = lambda x: [
        mnp.where(mnp.arange(600)[:, None] < mnp.arange(500)[None], 0, x * k).sum(k) for k in (0, 1)
    ]
    same(with_iota, drawn(600, 500), tolerance=1e-4)


def test_a_number_beside_an_array_is_not_written_over_what_the_array_still_reads() -> None:
    def fun(a: Any, b: Any) -> Any:
        i = mnp.exp(mnp.clip(a, -5, 5))
        return mnp.maximum(b[:, ::-1], a), mnp.maximum(b, i), lax.cumsum(mnp.sin(a)[None]) * 2

    same(fun, drawn(), drawn(17, 5))

    def rows(a: Any, b: Any) -> Any:
        i = mnp.exp(a)
        return mnp.maximum(b, i[:, None]).sum(1), mnp.sort(mnp.sin(a))

    same(rows, drawn(17), drawn(17, 5))


# -- memory walked otherwise ---------------------------------------------------------------------

WALKS: dict[str, Callable[[Any], Any]] = {
    "every second": lambda x: x[..., ::2],
    "every second from the second": lambda x: x[..., 1::2],
    "every third": lambda x: x[..., ::3],
    "backward": lambda x: x[..., ::-1],
    "backward from the second last": lambda x: x[..., -2::-1],
    "every second backward": lambda x: x[..., ::-2],
    "a column": lambda x: x[..., 0],
    "all axes backward": lambda x: x[::-1, ::-1],
    "rows backward": lambda x: x[::-1],
    "pairs": lambda x: x.reshape(*x.shape[:-1], -1, 2)[..., 1],
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "bool", "complex64"])
@pytest.mark.parametrize("name", WALKS)
def test_operands_with_strides(name: str, dtype: str) -> None:
    def agree(fun: Callable[[Any], Any]) -> None:
        got, want = (mgefn.jit(fun, backend=backend)(x) for backend in ("llvm", "numpy"))
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, 1e-6, 1e-6)

    walk = WALKS[name]
    complex_too = "float64" if dtype != "complex64" else "complex128"
    for shape in ((2, 2), (3, 64), (5, 130), (1, 2050), (300, 2), (40, 6)):
        x = mnp.asarray(RNG.integers(-9, 9, shape)).astype(dtype)
        agree(lambda x: mnp.where(walk(x) == 0, walk(x), 3 + walk(x)))
        agree(lambda x: walk(x).astype(complex_too).sum(-1))
        agree(lambda x: walk(x).astype(complex_too).sum(0) * 2)
        # The mask of a reduction that pads, and the memory that ends with the last element.
        agree(lambda x: mnp.pad(walk(x).astype(complex_too), 1)[1:].sum())


@pytest.mark.skipif(not hasattr(mmap, "PAGESIZE"), reason="needs a page that can't be read")
@pytest.mark.parametrize("name", WALKS)
def test_nothing_is_read_beside_an_operand(name: str) -> None:
    """Arrays that begin or end where the process has no memory."""
    page = mmap.PAGESIZE
    area = mmap.mmap(-1, 3 * page)
    start = np.frombuffer(area, np.uint8).ctypes.data
    protect = ctypes.CDLL(None).mprotect if sys.platform != "win32" else None
    if protect is None:
        pytest.skip("no mprotect")
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    try:
        for edge in (start, start + 2 * page):
            assert protect(edge, page, 0) == 0
        for n in (2, 30, 66, 258):
            x = np.arange(2 * n, dtype="float32").reshape(2, n)
            for at in (page, 2 * page - x.nbytes):
                inside = np.ndarray(x.shape, x.dtype, area, at)
                inside[:] = x
                walk = WALKS[name]
                f = mgefn.jit(lambda x, walk=walk: walk(x) * 2 + 1)
                np.testing.assert_array_equal(f(inside), np.asarray(f(x)))
    finally:
        for edge in (start, start + 2 * page):
            protect(edge, page, 3)


# -- results written past the caches --------------------------------------------------------------


@pytest.mark.skipif(not lowering.Lowering.past, reason="only code for x86 writes past the caches")
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int8", "bool"])
@pytest.mark.parametrize("shape", [(1,), (257,), (100_003,), (33, 1001), (7, 64, 65), (5, 3)])
def test_results_written_past_the_caches(
    shape: tuple[int, ...], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lowering, "PAST", 1)
    monkeypatch.setattr(lowering, "PAST_ROW", 1)

    def fun(x: Any) -> Any:
        y = ~x if dtype == "bool" else x + x
        return y, x.astype("float64") * 3, x == 0, mnp.sum(x.astype("float32"), -1) * 2

    def row(x: Any) -> Any:
        y = x.astype("float32")
        return y * 2 / (1 + mnp.abs(y).max(-1, keepdims=True)), y.sum()

    x = mnp.asarray(RNG.normal(size=shape) * 3).astype(dtype)
    same(fun, x)
    same(row, x)
    bits = [np.asarray(mgefn.jit(row)(x)[1]).tobytes() for _ in range(3)]
    assert len(set(bits)) == 1  # wherever the memory begins


@pytest.mark.skipif(not lowering.Lowering.past, reason="only code for x86 writes past the caches")
def test_only_large_results_of_little_arithmetic_are_written_past_the_caches() -> None:
    def code(fun: Callable[[Any], Any], n: int) -> str:
        return mgefn.jit(fun).lower(drawn(n)).compile().as_text("asm")

    assert "movnt" in code(lambda x: x * 2 + 1, 1 << 20)
    assert "movnt" not in code(lambda x: x * 2 + 1, 1 << 19)
    assert "movnt" not in code(lambda x: special.gammaln(x) + x, 1 << 20)


@pytest.mark.skipif(not lowering.Lowering.past, reason="only code for x86 reads ahead")
def test_only_large_operands_are_read_ahead() -> None:
    def prefetches(fun: Callable[[Any], Any], *shape: int) -> int:
        code = mgefn.jit(fun).lower(drawn(*shape)).compile().as_text("llvm")
        return code.count("call void @llvm.prefetch")

    def normalized(x: Any) -> Any:
        return x - x.mean(1, keepdims=True)

    assert prefetches(mnp.exp, 1 << 20) == 1
    assert prefetches(mnp.exp, 1 << 19) == 0
    assert prefetches(lambda x: x[::-1] + x, 1 << 20) == 1  # the machine's own reach is enough
    assert prefetches(normalized, 1 << 10, 1 << 10) == 2  # this row, and the next
    assert prefetches(normalized, 1 << 3, 1 << 17) == 1  # rows that the caches can't hold


# -- code that no program has any more -----------------------------------------------------------


def chain(names: tuple[str, ...]) -> Callable[[Any], Any]:
    """A function whose kernel is not that of another chain."""

    def fun(x: Any) -> Any:
        for name in names:
            x = getattr(mnp, name)(x) + 1
        return x

    return fun


def test_kernels_that_no_program_has_are_unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_recent", collections.deque(maxlen=5))
    gc.collect()
    operations = ("sin", "cos", "tanh", "arctan", "exp2")
    x = drawn(7)
    first = chain(("sin", "sinh", "sin", "cosh"))
    kept = mgefn.jit(first)
    want = np.asarray(kept(x))
    before = set(native._cells)
    made: dict[Any, Any] = {}
    for names in itertools.islice(itertools.product(operations, repeat=5), 60):
        np.testing.assert_allclose(mgefn.jit(chain(names))(x), chain(names)(x), 1e-4, 1e-5)
        made |= {k: weakref.ref(c) for k, c in native._cells.items() if k not in before}
    gc.collect()
    mgefn.compilation_barrier()
    assert len(made) >= 50
    assert sum(cell() is not None for cell in made.values()) <= 8
    np.testing.assert_array_equal(kept(x), want)
    # One that was unloaded comes back.
    names = next(itertools.product(operations, repeat=5))
    np.testing.assert_allclose(mgefn.jit(chain(names))(x), chain(names)(x), 1e-4, 1e-5)


@pytest.mark.skipif(sys.platform != "linux", reason="the system's list of mappings is Linux's")
def test_code_that_is_unloaded_leaves_no_mappings() -> None:
    def mappings() -> int:
        with open("/proc/self/maps") as file:
            return sum(1 for _ in file)

    text = "define double @kernel() {{\n ret double {}.5\n}}\n"

    def compiled(i: int) -> engine.Compiled:
        return engine.compile_modules([(text.format(i), ["kernel"], "few", {})])[0]

    held = compiled(0)
    before = mappings()
    for i in range(1, 41):
        compiled(i)
    assert mappings() - before < 20
    assert ctypes.CFUNCTYPE(ctypes.c_double)(held["kernel"])() == 0.5
    more = [compiled(i) for i in range(41)]
    assert [ctypes.CFUNCTYPE(ctypes.c_double)(m["kernel"])() for m in more] == [
        i + 0.5 for i in range(41)
    ]


# -- products with more axes than a matrix -------------------------------------------------------

LAYOUTS = {
    "one matrix by many": ("mk,bkn->bmn", "mk", "bkn"),
    "many by one": ("bmk,kn->bmn", "bmk", "kn"),
    "many by one, rows first": ("bmk,kn->mbn", "bmk", "kn"),
    "one by many in two axes": ("mk,cbkn->cbmn", "mk", "cbkn"),
    "each by each": ("abmk,ckn->abcmn", "abmk", "ckn"),
    "a batch, and more of the second": ("bmk,bckn->bcmn", "bmk", "bckn"),
    "a batch, and more of the first": ("bcmk,bkn->bcmn", "bcmk", "bkn"),
    "axes of the contraction first": ("kbm,kn->bmn", "kbm", "kn"),
    "columns apart": ("km,nbk->mbn", "km", "nbk"),
}


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("m,k,n", [(2, 2, 2), (8, 8, 8), (5, 7, 1), (1, 9, 4), (20, 30, 40)])
def test_products_of_any_layout_are_native(name: str, m: int, k: int, n: int) -> None:
    spec, *operands = LAYOUTS[name]
    sizes = {"m": m, "k": k, "n": n, "a": 2, "b": 5, "c": 3}
    for dtype in ("float32", "float64", "complex64"):
        args = [drawn(*(sizes[i] for i in axes), dtype="float64") for axes in operands]
        args = [(x + 0.5j * x[::-1]) if dtype == "complex64" else x for x in args]
        args = [x.astype(dtype) for x in args]
        product = lambda x, y: mnp.einsum(spec, x, y)
        got, want = mgefn.jit(product)(*args), np.einsum(spec, *args)
        np.testing.assert_allclose(got, want, 1e-4, 1e-4)
        assert all(s.kind in ("native", "view") for s in report(product, *args).steps)


def test_large_products_beside_a_batch_go_to_blas() -> None:
    x, y = drawn(200, 700), drawn(3, 700, 600)
    same(lambda x, y: mnp.matmul(x, y), x, y, tolerance=1e-3)
    kernels = native_kernels(mnp.matmul, x, y)
    assert "BlasProduct" in {type(k).__name__ for k in kernels}


def test_a_loop_with_a_batched_update_is_native() -> None:
    def filtered(f: Any, p: Any) -> Any:
        return lax.fori_loop(0, 5, lambda _, p: f @ p @ f.T * 0.5 + p, p)

    found = report(mgefn.vmap(filtered, (None, 0)), drawn(2, 2), drawn(32, 2, 2))
    assert {s.kind for s in found.steps} <= {"native", "view"}


def test_steps_of_a_gradient_name_the_lines_of_the_function() -> None:
    def fun(x: Any) -> Any:
        y = mnp.sin(x) @ mnp.cos(x).T
        return lax.scan(lambda c, a: (c * mnp.cos(a), None), y[0], y)[0].sum()

    first = fun.__code__.co_firstlineno
    lines = {f"test_native.py:{first + i} (" for i in (1, 2)}
    x = drawn(3, 4)
    for g in (mgefn.grad(fun), mgefn.grad(mgefn.jit(fun))):
        steps = [s for s in report(g, x).steps if s.kind != "view"]
        assert len(steps) >= 5
        for step in steps:
            assert any(line in step.source for line in lines), step


def test_the_garbage_collector_unloads_nothing_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    from llvmlite.binding import orcjit

    monkeypatch.setattr(native, "_recent", collections.deque(maxlen=1))
    linking: list[int] = []
    outside: list[int] = []
    unloaded: list[int] = []
    link, unload, dispose = engine._Linker.link, engine._unload, orcjit.ResourceTracker._dispose

    def counted_link(self: Any, *args: Any) -> Any:
        linking.append(1)
        try:
            return link(self, *args)
        finally:
            linking.pop()

    def counted_unload(pointer: Any) -> Any:
        (unloaded if linking else outside).append(1)
        return unload(pointer)

    def counted_dispose(self: Any) -> Any:
        outside.append(1)
        return dispose(self)

    monkeypatch.setattr(engine._Linker, "link", counted_link)
    monkeypatch.setattr(engine, "_unload", counted_unload)
    monkeypatch.setattr(orcjit.ResourceTracker, "_dispose", counted_dispose)
    for i in range(12):
        mgefn.jit(chain(("sin", "sinh") * (i + 1)))(drawn(3))
        mgefn.compilation_barrier()
        if i % 4 == 3:
            mgefn.clear_caches()
    assert unloaded and not outside


@pytest.mark.parametrize("look", [mgefn.clear_caches, mgefn.live_arrays])
def test_looking_at_all_objects_does_not_disturb_other_threads(look: Callable[[], Any]) -> None:
    done = threading.Event()
    errors: list[BaseException] = []

    def work() -> None:
        try:
            while not done.is_set():
                tuple(i for i in range(50))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    for _ in range(10):
        look()
    done.set()
    thread.join()
    assert not errors
