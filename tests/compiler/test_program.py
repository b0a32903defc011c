"""Executables: results that hold, memory that is not shared by mistake, donation, inner calls."""

from __future__ import annotations

import gc
import sys
import threading
import weakref

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn.compiler.frames import frames
from mgefn.compiler.passes import optimized
from mgefn.compiler.pool import LARGE, Pool, pool
from mgefn.compiler.program import Executable
from mgefn.config import config
from mgefn.interpreters.evaluate import eval_jaxpr


def mixed(x, y):
    a = mnp.tanh(x) * y
    b = mnp.where(a > 0.1, a.T.T, x[::-1])
    c = mnp.concatenate([b, a.reshape(-1).reshape(a.shape)], axis=0)
    return c.sum(axis=0), a.T, b[0], c * 2, x, mnp.exp(c).sum()


def arguments(seed, n=5, m=4, dtype="float32"):
    rng = np.random.default_rng(seed)
    return tuple(mnp.asarray(rng.standard_normal((n, m)), dtype) for _ in range(2))


def test_results_of_earlier_calls_stay():
    f = mgefn.jit(mixed)
    kept = []
    for seed in range(100):
        args = arguments(seed)
        outs = f(*args)
        kept.append((outs, [np.array(o) for o in outs]))
    for outs, copies in kept:
        for o, c in zip(outs, copies, strict=True):
            np.testing.assert_array_equal(o, c)


def test_arena_equals_evaluation_bit_for_bit():
    for seed in range(20):
        args = arguments(seed, n=1 + seed % 6, m=seed % 4)
        closed = mgefn.make_jaxpr(mixed)(*args)
        expected = eval_jaxpr(closed.jaxpr, closed.consts, args)
        with mgefn.config.override(jit_backend="numpy"):
            got = Executable(closed)(args)
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_large_outputs_come_back_to_the_pool_only_when_free():
    f = mgefn.jit(mnp.sin)
    x = mnp.ones(LARGE // 4, "float32")
    first = f(x)
    view = first[:10]
    held = np.asarray(first)
    copy = np.array(first)
    del first
    others = [f(x * i) for i in range(3)]
    np.testing.assert_array_equal(held, copy)
    np.testing.assert_array_equal(view, copy[:10])
    assert len(others) == 3


def test_numpy_arguments_are_read_before_the_call_returns():
    f = mgefn.jit(lambda x: (x, x.T, x[1:], x * 2))
    x = np.arange(6.0).reshape(2, 3)
    outs = f(x)
    x[:] = -1
    np.testing.assert_array_equal(outs[0], np.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(outs[1], np.arange(6.0).reshape(2, 3).T)
    np.testing.assert_array_equal(outs[2], [[3, 4, 5]])


def test_donation_reuses_the_buffer():
    step = mgefn.jit(lambda s, x: s + x, donate_argnums=0)
    s = mnp.ones(1000, "float32")
    where = s.unsafe_buffer_pointer()
    r = step(s, 1.0)
    assert r.unsafe_buffer_pointer() == where
    np.testing.assert_array_equal(r, np.full(1000, 2, "float32"))
    with pytest.raises(mgefn.errors.DonatedBufferError, match=r"donated at test_program\.py"):
        s + 1
    assert s.is_deleted()


def test_donation_leaves_what_others_hold():
    step = mgefn.jit(lambda s, x: s + x, donate_argnums=0)
    s = mnp.ones(1000, "float32")
    seen = np.asarray(s)
    part = s[:5]
    r = step(s, 1.0)
    np.testing.assert_array_equal(seen, np.ones(1000))
    np.testing.assert_array_equal(part, np.ones(5))
    np.testing.assert_array_equal(r, np.full(1000, 2))


def test_donation_waits_for_the_last_use():
    # The donated input is still read after the first output of its type is made.
    f = mgefn.jit(lambda s: (s * 2, (s * 3).sum(), s - 1), donate_argnums=0)
    s = np.arange(8, dtype="float32")
    a, b, c = f(mnp.asarray(s))
    np.testing.assert_array_equal(a, s * 2)
    np.testing.assert_array_equal(b, (s * 3).sum())
    np.testing.assert_array_equal(c, s - 1)


def test_one_array_donated_twice_is_refused():
    f = mgefn.jit(lambda a, b: a + b, donate_argnums=(0, 1))
    x = mnp.ones(3)
    with pytest.raises(mgefn.errors.ArgumentError, match="passed twice and is donated"):
        f(x, x)


def test_often_called_programs_stay_calls():
    @mgefn.jit
    def inner(x):
        for _ in range(40):
            x = mnp.sin(x) + mnp.cos(x)
        return x, x.sum()

    def f(x):
        total = 0.0
        for _ in range(10):
            x, s = inner(x)
            total = total + s
        return x, total

    x = mnp.linspace(0, 1, 7)
    closed = optimized(mgefn.make_jaxpr(f)(x))
    assert sum(e.primitive.name == "jit" for e in closed.eqns) == 10
    got, expected = mgefn.jit(f)(x), None
    with mgefn.disable_jit():
        expected = f(x)
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_each_pass_leaves_a_sound_jaxpr():
    with config.override(check_jaxprs=True):
        f = mgefn.jit(mgefn.grad(lambda x, y: mixed(x, y)[5]))
        f(*arguments(0))


def test_passes_keep_signed_zeros_and_nans():
    def f(x):
        return x + 0.0, x * 1.0, x - 0.0, x / 1.0, x * 0.0

    x = mnp.asarray(np.array([-0.0, 0.0, np.nan, np.inf], "float32"))
    for a, b in zip(mgefn.jit(f)(x), f(x), strict=True):
        np.testing.assert_array_equal(np.asarray(a).view("int32"), np.asarray(b).view("int32"))


def test_equal_work_is_done_once():
    closed = mgefn.make_jaxpr(lambda x: mnp.sin(x) + mnp.sin(x))(1.0)
    assert [e.primitive.name for e in optimized(closed).eqns] == ["sin", "add"]


def test_work_on_constants_is_done_at_compile_time():
    closed = mgefn.make_jaxpr(lambda x: x + mnp.sin(mnp.ones(3)))(1.0)
    names = [e.primitive.name for e in optimized(closed).eqns]
    assert names == ["add"], names


def test_memory_analysis_counts_slab_outputs_and_scratch():
    x = mnp.ones((256, 256))
    compiled = mgefn.jit(lambda x: mnp.tanh(x @ x).sum()).lower(x).compile()
    memory = compiled.memory_analysis()
    assert memory.argument_size_in_bytes == x.nbytes
    assert memory.output_size_in_bytes == 4
    # The product becomes its own tanh in place, so one block is all the slab.
    assert x.nbytes <= memory.temp_size_in_bytes <= 2 * x.nbytes
    assert memory.peak_memory_in_bytes >= memory.temp_size_in_bytes


def test_as_text_names_places_and_lines():
    text = mgefn.jit(lambda x: mnp.sin(x) * 2).lower(1.0).compile().as_text()
    assert "sin" in text and "slab" in text and "test_program.py" in text


def test_cost_analysis_counts():
    cost = mgefn.jit(lambda x: x * 2 + 1).lower(mnp.ones(10)).compile().cost_analysis()
    assert cost["flops"] == 20
    assert cost["bytes accessed"] >= 120


def test_idle_slabs_are_bounded_and_go_with_their_program():
    limit = pool.limit
    try:
        pool.clear()
        frames.clear()
        pool.set_limit(8 << 20)
        programs = []
        for i in range(12):
            f = mgefn.jit(lambda x, i=i: mnp.cumsum(mnp.sin(x) + i).sum())
            f(mnp.ones(1 << 19))
            programs.append(f)
        assert frames.bytes <= 8 << 20
        assert pool.idle_bytes <= 8 << 20
    finally:
        pool.set_limit(limit)


def test_programs_are_freed():
    f = mgefn.jit(lambda x: mnp.sin(x).sum())
    f(mnp.ones(3))
    gone = weakref.ref(f)
    del f
    gc.collect()
    assert gone() is None


def test_pool_keeps_within_its_limit():
    p = Pool(limit=1000)
    blocks = [p.take(400) for _ in range(4)]
    assert p.in_use_bytes == 1600
    for b in blocks:
        p.give(b)
    assert p.idle_bytes <= 1000 and p.in_use_bytes == 0
    again = p.take(400)
    assert any(again is b for b in blocks)
    p.clear()
    assert p.idle_bytes == 0


def test_pool_makes_outputs_of_blocks_that_hold_no_whole_number_of_elements():
    p = Pool()
    block = p.take(1004)
    p.give(block)
    out = p.output((31, 2), np.dtype(np.complex128), 992)
    assert p.reused == 1 and np.shares_memory(out, block)
    assert out.shape == (31, 2) and out.dtype == np.complex128


def test_concurrent_calls_do_not_share_a_slab():
    import threading

    f = mgefn.jit(lambda x: (mnp.sin(x) * mnp.cos(x) + mnp.tanh(x)).sum())
    xs = [mnp.linspace(0, i + 1, 20_000) for i in range(4)]
    expected = [float(f(x)) for x in xs]
    wrong: list = []

    def work(i):
        for _ in range(30):
            if float(f(xs[i])) != expected[i]:
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_frame_that_is_taken_as_soon_as_it_is_given_is_counted_once():
    """Threads that call one program count its idle slab once, and not while it is in use."""
    f = mgefn.jit(lambda x: mnp.cumsum(mnp.sort(x, axis=0), 0) * 2)
    x = np.ones((900, 300), np.float32)
    f(x)
    frames.clear()
    pool.clear()
    before = pool.allocated_bytes

    def many():
        for _ in range(200):
            f(x)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=many) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(interval)
    held = sum(frame.slab.nbytes for _, frame in frames._large.values())
    assert pool.idle_slab_bytes == held
    frames.clear()
    pool.clear()
    assert pool.allocated_bytes == before
