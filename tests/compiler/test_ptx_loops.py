"""Loops that are one launch on a GPU, in the emulator: what they give, and which ones are so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mgefn
from mgefn import lax
from mgefn import numpy as mnp
from mgefn.backends import ptx_loops
from mgefn.compiler import native
from mgefn.compiler.codegen.ptx import THREADS
from mgefn.compiler.codegen.ptx_straight import DeviceLoop
from mgefn.compiler.gpu_launch import Launch, text_of
from tests.compiler.ptx_programs import assert_close, device_program, drawn, emulated, launches_of

pytestmark = pytest.mark.skipif(not native.enabled(), reason="needs LLVM")

FLOATS = ("float16", "bfloat16", "float32", "float64")


def loops_of(fun: Callable[..., Any], *args: Any) -> list[Launch]:
    launches = launches_of(device_program(fun, *args))
    return [launch for launch in launches if isinstance(launch.kernel, DeviceLoop)]


def check(fun: Callable[..., Any], *args: Any, threads: int, scale: float = 4.0,
          block: int = 0) -> list[Launch]:  # fmt: skip
    """It is a loop of so many threads, and gives what eager evaluation does without a fault."""
    program = device_program(fun, *args)
    loops = [a for a in launches_of(program) if isinstance(a.kernel, DeviceLoop)]
    block = block or (1 if threads == 1 else THREADS)
    assert [(a.grid, a.block) for a in loops] == [(-(-threads // THREADS), block)]
    got, faults = emulated(program, *args)
    assert not faults, faults
    assert_close(got, fun(*args), scale)
    return loops


# -- a thread an element --------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(2,), (7,), (256,), (257,), (3, 5, 20), (1, 2)])
@pytest.mark.parametrize("reverse", [False, True])
def test_scans_of_elements(shape: tuple[int, ...], dtype: str, reverse: bool) -> None:
    def fun(c: Any, k: Any, xs: Any, t: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            i, c = carry
            s, u = x
            c = mnp.tanh(c * 0.5 + s * k) + u
            return (i + 1, c), (c, i * 2, u + s.astype("float32"), c > 0)

        return lax.scan(step, (0, c), (xs, t), reverse=reverse)

    c, k, xs = drawn(*shape, dtype=dtype), drawn(dtype=dtype), drawn(5, *shape, dtype=dtype)
    check(fun, c, k, xs, drawn(5, dtype=dtype, seed=4), threads=int(np.prod(shape)))


def test_constants_of_the_body_and_functions_called_in_it() -> None:
    @mgefn.jit
    def twice(x: Any) -> Any:
        return mnp.sin(x) * 2

    def fun(x: Any, w: Any) -> Any:
        inner = mgefn.checkpoint(lambda c: twice(c) * w + 0.125)
        return lax.fori_loop(0, 4, lambda i, c: inner(c) + mnp.float32(0.3), x)

    check(fun, drawn(40), drawn(40, seed=1), threads=40)


def test_gradients_of_scans_of_elements() -> None:
    def loss(x: Any, w: Any) -> Any:
        return lax.fori_loop(0, 5, lambda i, c: mnp.sin(c * w) + c, x).sum()

    fun = mgefn.grad(loss, (0, 1))
    args = [drawn(60), drawn(60, seed=1)]
    assert len(loops_of(fun, *args)) == 2  # forward and backward
    got, faults = emulated(device_program(fun, *args), *args)
    assert not faults, faults
    assert_close(got, fun(*args), 10.0)


def test_vmapped_loops_of_numbers() -> None:
    def one(x: Any) -> Any:
        return lax.scan(lambda c, t: (c * 0.9 + mnp.cos(t), c), x, mnp.arange(6.0))

    check(mgefn.vmap(one), drawn(500), threads=500)


def test_long_loops_are_several_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    def fun(x: Any, t: Any) -> Any:
        step = lambda c, t: ((c[0] + 1, c[1] * 0.9 + t), c[1].sum() if x.size < 9 else c[1])
        return lax.scan(step, (0, x), t, reverse=True)

    monkeypatch.setattr(ptx_loops, "PIECE", 1)
    for x, most, count in ((drawn(600), 64, 23), (drawn(600), 4, 4), (drawn(4), 64, 23)):
        monkeypatch.setattr(ptx_loops, "MOST_PIECES", most)
        args = x, drawn(23, seed=2)
        program = device_program(fun, *args)
        loops = [a for a in launches_of(program) if isinstance(a.kernel, DeviceLoop)]
        assert len(loops) == count and len({a.kernel for a in loops}) == 1
        got, faults = emulated(program, *args)
        assert not faults, faults
        assert_close(got, fun(*args), 4.0)


# -- a thread an element, each with rounds of its own ---------------------------------------------


def newton(a: Any, x: Any) -> Any:
    """A root by Newton's method, as long as it moves."""

    def step(state: Any) -> Any:
        i, t, _ = state
        new = t - (t * t - a) / (2 * t)
        return i + 1, new, mnp.abs(new - t)

    going = lambda s: (s[2] > 1e-3) & (s[0] < 40)
    return lax.while_loop(going, step, (0, x, mnp.ones_like(x)))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [1, 2, 7, 256, 700])
def test_vmapped_whiles(n: int, dtype: str) -> None:
    a = (mnp.arange(n) % 37 * 1000 + 1).astype(dtype)
    check(mgefn.vmap(newton), a, a * 0 + 3, threads=n, block=THREADS)
    check(mgefn.vmap(newton, (0, None)), a, mnp.array(3).astype(dtype), threads=n, block=THREADS)


def test_vmapped_whiles_that_end_at_once() -> None:
    fun = mgefn.vmap(lambda a: lax.while_loop(lambda s: s < a, lambda s: s + 3, mnp.float32(2)))
    check(fun, mnp.array([-1.0, 2.0, 2.5, 100.0, np.nan], "float32"), threads=5)
    check(fun, mnp.full(9, -1, "float32"), threads=9)


def test_vmapped_whiles_of_numbers_that_are_not_finite() -> None:
    """One that is done does not see what the others go on with, whatever its values."""

    def one(a: Any, most: Any) -> Any:
        step = lambda s: (s[0] * s[0] - a, s[1] + 1)
        return lax.while_loop(lambda s: s[1] < most, step, (a, 0))

    a = mnp.array([np.nan, np.inf, -np.inf, -0.0, 3.0, 0.5] * 50, "float32")
    check(mgefn.vmap(one), a, mnp.arange(300) % 9, threads=300)


def test_derivatives_of_vmapped_whiles() -> None:
    def one(a: Any) -> Any:
        step = lambda s: (mnp.sin(s[0]) + a, s[1] + 1)
        return lax.while_loop(lambda s: (s[0] < 0.9) & (s[1] < 20), step, (a, 0))[0]

    a = drawn(300) * 0.3
    check(lambda a: mgefn.jvp(mgefn.vmap(one), (a,), (mnp.cos(a),)), a, threads=300)


def mandelbrot(x: Any, y: Any) -> Any:
    """How many rounds a point of the plane stays near 0, and where it goes then."""

    def step(state: Any) -> Any:
        a, b, i = state
        return a * a - b * b + x, 2 * a * b + y, i + 1

    near = lambda s: (s[0] * s[0] + s[1] * s[1] < 4) & (s[2] < 30)
    return lax.while_loop(near, step, (x * 0, y * 0, 0))


@pytest.mark.parametrize("axes", [((None, 0), (0, None)), ((0, None), (None, 0)), ((0, None), 0)])
def test_whiles_on_a_grid(axes: Any) -> None:
    inner, outer = axes
    fun = mgefn.vmap(mgefn.vmap(mandelbrot, inner), outer)
    x = drawn(17, 20) * 0.8 if outer == 0 else drawn(20) * 0.8
    y = drawn(17, seed=1) * 0.8
    check(fun, x, y, threads=17 * 20)
    # Places are far from 0 from the beginning.
    check(lambda x, y: fun(x, y)[2], x * 0 + 3, y, threads=17 * 20)
    assert loops_of(mgefn.vmap(fun), mnp.stack([x, x]), mnp.stack([y, y])) == []  # under three


def test_whiles_of_matrices_of_examples() -> None:
    a = mnp.abs(drawn(3, 100)) * 1e4
    check(mgefn.vmap(mgefn.vmap(newton)), a, a * 0 + 3, threads=300)
    check(mgefn.vmap(lambda a: mgefn.vmap(newton)(a, a * 0 + 3)), a, threads=300)


def two_flags(each: Any, outer: Any, inner: Callable[..., Any] = lambda c, s: c & s) -> Any:
    """A loop as two vmaps write it, whose flags may begin as they like."""

    def fun(x: Any) -> Any:
        def step(state: Any) -> Any:
            b, c, x = state
            rows = lax.broadcast_in_dim(b, c.shape, (0,))
            new = mnp.where(c, x * 0.5, x)
            on = mnp.where(rows, inner(c, mnp.abs(new) > 0.1), c)
            return b & on.any(1), on, mnp.where(rows, new, x)

        return lax.while_loop(lambda s: s[0].any(), step, (outer, each, x))

    return fun


def test_flags_that_begin_otherwise() -> None:
    x, each = drawn(6, 50), drawn(6, 50, dtype="bool")
    outer = mnp.array([True, False, True, True, False, True])
    check(two_flags(each, outer), x, threads=300)
    check(two_flags(each, mnp.zeros(6, bool)), x, threads=300)
    check(two_flags(each & False, outer), x, threads=300)
    # An element may begin anew, or needs its row.
    assert loops_of(two_flags(each, outer, lambda c, s: s), x) == []
    assert loops_of(two_flags(each, outer, lambda c, s: c & s.any(1)[:, None]), x) == []


def test_scans_on_a_grid() -> None:
    def one(x: Any, y: Any, z: Any) -> Any:
        return lax.scan(lambda c, t: (c * y + x, c + t * z), x * y, mnp.arange(5.0))

    fun = mgefn.vmap(mgefn.vmap(one, (None, 0, None)), (0, None, None))
    check(fun, drawn(12), drawn(25, seed=1) * 0.1, drawn(seed=2), threads=300)


def test_a_mask_of_ones_own() -> None:
    def fun(x: Any, k: Any) -> Any:
        def step(state: Any) -> Any:
            x, going, same = state
            new = x * 0.5 + k
            going = going & (mnp.abs(new) > 0.3)
            return mnp.where(state[1], new, x), going, same

        return lax.while_loop(lambda s: s[1].any(), step, (x, mnp.abs(x) > 0.2, k * 2))

    check(fun, drawn(4, 80), mnp.array(0.05, "float32"), threads=320)


@pytest.mark.parametrize(
    "step",
    [
        # What counts the rounds of all goes on for an element that is done.
        lambda x, going, i: (mnp.where(going, x * 0.5, x), going & (x > 0.1), i + 1),
        # And here an element that is done begins anew.
        lambda x, going, i: (mnp.where(going, x * 0.5, x), (x > 0.1) & (i < 5), i + 1),
        lambda x, going, i: (mnp.where(going, x * 0.5, x + 0.01), going & (x > 0.1), i),
        lambda x, going, i: (mnp.where(going, x, x * 0.5), going & (x > 0.1), i),
        # Elements see others.
        lambda x, going, i: (mnp.where(going, x[::-1] * 0.5, x), going & (x > 0.1), i),
    ],
)  # fmt: skip
def test_whiles_whose_elements_need_each_other(step: Callable[..., Any]) -> None:
    def fun(x: Any) -> Any:
        state = x, x > 0, mnp.zeros((), "int32")
        return lax.while_loop(lambda s: s[1].any(), lambda s: step(*s), state)

    assert loops_of(fun, mnp.abs(drawn(300))) == []


# -- one thread -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("reverse", [False, True])
def test_scans_of_few_numbers(dtype: str, reverse: bool) -> None:
    def fun(w: Any, h: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = mnp.tanh(w @ h * 0.3 + x)
            return h, (h.sum(), h[::-1], mnp.argmax(h) if h.size < 0 else h > 0)

        return lax.scan(step, h, xs, reverse=reverse)

    args = drawn(5, 5, dtype=dtype), drawn(5, dtype=dtype), drawn(7, 5, dtype=dtype)
    check(fun, *args, threads=1, scale=20.0)


@pytest.mark.parametrize("start", [0, 3, 200])
def test_whiles(start: int) -> None:
    def fun(x: Any) -> Any:
        step = lambda s: (s[0] + 1, s[1] * 1.5 + s[0])
        return lax.while_loop(lambda s: (s[0] < 20) & (s[1].sum() < 1e4), step, (start, x))

    check(fun, drawn(3), threads=1)


def test_a_branch_within() -> None:
    def fun(x: Any) -> Any:
        step = lambda i, c: lax.cond(c[0] > 0, lambda c: c * 0.5 - 1, lambda c: c[::-1] + i, c)
        return lax.fori_loop(0, 9, step, x)

    check(fun, drawn(4), threads=1)


def test_integers_and_bools() -> None:
    def fun(x: Any) -> Any:
        def step(i: Any, c: Any) -> Any:
            n, b = c
            n = n * 77 + 45
            return n ^ (n >> 7), b ^ (n[0] > 0)

        return lax.fori_loop(0, 33, step, (x, mnp.array(False)))

    for dtype in ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"):
        check(fun, drawn(3, dtype=dtype), threads=1)


def test_a_large_carry_stays_in_memory() -> None:
    def fun(x: Any) -> Any:
        return lax.fori_loop(1, 150, lambda i, c: c.at[i].set(c[i - 1] * 0.5 + c[i]), x)

    check(fun, drawn(150), threads=1)
    assert len(launches_of(device_program(fun, drawn(150)))) == 2  # it is copied first
    large = lambda x, k: lax.fori_loop(0, 5, lambda i, c: c + x[k + i], mnp.float32(0))
    check(large, drawn(500), mnp.array(7), threads=1)


def test_not_finite() -> None:
    fun = lambda x: lax.fori_loop(0, 4, lambda i, c: (c * c - 1 / c)[::-1], x)
    check(fun, mnp.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5], "float32"), threads=1)


OPERATIONS: list[Callable[[Any], Any]] = [
    lambda c: mnp.sin(c), lambda c: c * 0.5 + 1, lambda c: mnp.where(c > 0, c, -c * 0.25),
    lambda c: c - c.mean(), lambda c: mnp.flip(c), lambda c: mnp.roll(c, 1), lambda c: c / 3,
    lambda c: mnp.cumsum(c) * 0.25, lambda c: mnp.tanh(c), lambda c: c.max() - c,
    lambda c: mnp.clip(c, -1, 1), lambda c: mnp.exp(-c * c), lambda c: mnp.round(c * 8) / 8,
]  # fmt: skip


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(
    which=st.lists(st.sampled_from(range(len(OPERATIONS))), min_size=1, max_size=4),
    size=st.sampled_from([1, 2, 3, 5, 8]),
    rounds=st.integers(1, 6),
    dtype=st.sampled_from(["float32", "float64"]),
    reverse=st.booleans(),
)
def test_drawn_bodies(which: list[int], size: int, rounds: int, dtype: str, reverse: bool) -> None:
    def fun(c: Any, xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            for i in which:
                c = OPERATIONS[i](c)
            return c + x, c

        return lax.scan(step, c, xs, reverse=reverse)

    args = drawn(size, dtype=dtype), drawn(rounds, size, dtype=dtype)
    assert len(loops_of(fun, *args)) == 1
    got, faults = emulated(device_program(fun, *args), *args)
    assert not faults, faults
    assert_close(got, fun(*args), 20.0)


# -- what the text is -----------------------------------------------------------------------------


def test_rounds_and_constants_are_no_part_of_the_text() -> None:
    def fun(x: Any, rounds: int, factor: float) -> Any:
        return lax.fori_loop(0, rounds, lambda i, c: c * factor + i, x)

    for size in (1, 40):
        a, b = (
            loops_of(lambda x, n=n, f=f: fun(x, n, f), drawn(size * k))[0].kernel
            for n, f, k in ((3, 0.3, 1), (700, 0.7, 1 if size == 1 else 5))
        )
        assert a == b


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: lax.fori_loop(0, 3, lambda i, c: mnp.sort(c), x[:4]),  # no native code
        lambda x: lax.fori_loop(0, 3, lambda i, c: c - c.mean(), x),  # too many for one thread
        lambda x: lax.while_loop(lambda c: c.sum() < 9, lambda c: c + 1, mnp.abs(x)),
        lambda x: lax.while_loop(lambda c: (c > 0).any(), lambda c: c - 1, x),
        lambda x: lax.scan(lambda c, y: (c + y, c), x[0], x[:0]),  # no round
        lambda x: lax.fori_loop(0, 3, lambda i, c: c * 2, x[:0]),  # no elements
        lambda x: lax.fori_loop(0, 3, lambda i, c: c * (1 + 2j), x[:4].astype("complex64")),
        # More than a thread has registers for.
        lambda x: lax.fori_loop(0, 3, lambda i, c: c[::-1] * 2, x[:64].astype("float64")),
    ],
)
def test_others_are_not(fun: Callable[[Any], Any]) -> None:
    assert loops_of(fun, drawn(300)) == []


# -- wrong kernels --------------------------------------------------------------------------------


def planted(fun: Callable[..., Any], args: Any, old: str, new: str) -> list[str]:
    """The faults once the loop's text is changed."""
    program = device_program(fun, *args)
    (eqn,) = [e for e in program.jaxpr.eqns if "step" in e.params]
    step = eqn.params["step"]
    assert not emulated(program, *args)[1]
    changed = []
    for launch in step.code:
        text = text_of(launch).replace(old, new)
        assert text != text_of(launch)
        kernel = DeviceLoop(text.replace("@kernel(", "@straight("), THREADS)
        changed.append(launch._replace(kernel=kernel))
    step.code = changed
    return emulated(program, *args)[1]


def test_faults_are_found() -> None:
    fun = lambda x, t: lax.scan(lambda c, t: (c * 2 + t, t + 1), x, t)
    args = drawn(300), drawn(3)
    # One round too many, and threads that have no element.
    last = "icmp slt i64 %v"
    assert any("out of bounds" in f for f in planted(fun, args, ", %end", ", 5"))
    text = text_of(loops_of(fun, *args)[0])
    assert last in text
    count = next(n for n in text.split("\n") if last in n).rsplit(", ", 1)[1]
    found = planted(fun, args, f", {count}\n", ", 310\n")
    assert any("out of bounds" in f for f in found)
    # What has no shape is written by one thread alone.
    leads = next(n for n in text.split("\n") if "icmp eq i64" in n and n.endswith(", 0"))
    every = planted(fun, args, leads, leads.replace("icmp eq", "icmp uge"))
    assert any("race" in f for f in every)
