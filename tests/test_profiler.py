"""Traces: what they record, and that they change nothing."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import lax, profiler
from mgefn.core.interpreter import state
from mgefn.errors import ArgumentError
from mgefn.scipy import special
from tests.checks import run_side_by_side


def f(x):
    return mnp.sum(mnp.tanh(x) * 2)


def program(x):
    value, slope = mgefn.value_and_grad(f)(x)
    y = mgefn.jit(f)(x) + lax.fori_loop(0, 3, lambda i, v: v + i, value)
    return y, slope, mgefn.vmap(mnp.sin)(x)


def test_a_trace_changes_no_result_and_records(tmp_path):
    x = mnp.arange(4.0)
    want = program(x)
    with profiler.Profiler(tmp_path) as p, profiler.TraceAnnotation("all", size=4):
        assert profiler.is_profiling()
        got = program(x)
    assert not profiler.is_profiling()
    assert state.current is None
    assert all(a.tolist() == b.tolist() for a, b in zip(want, got, strict=True))
    names = [e["name"] for e in p.events]
    assert {"tanh", "reduce_sum", "sin", "jit(f)", "all"} <= set(names)
    document = json.loads(p.path.read_text())
    assert document["traceEvents"] == p.events
    whole = next(e for e in p.events if e["name"] == "all")
    assert whole["args"] == {"size": "4"}
    for e in p.events:
        assert e["ph"] == "X"
        assert whole["ts"] <= e["ts"]
        assert e["ts"] + e["dur"] <= whole["ts"] + whole["dur"] + 1e-3
    sine = next(e for e in p.events if e["name"] == "sin")
    assert sine["args"] == {"in": "f32[4]", "out": "f32[4]"}
    summary = p.summary()
    assert next(iter(summary)) == "all"
    assert summary["tanh"]["calls"] == names.count("tanh")


def test_start_stop_and_annotations(tmp_path):
    profiler.start_trace(tmp_path / "a")
    try:
        with pytest.raises(ArgumentError, match="runs already"):
            profiler.start_trace(tmp_path / "b")
        profiler.annotate_function(f, step=3)(mnp.ones(2))
        with profiler.StepTraceAnnotation("train", step_num=7):
            mnp.sin(1.0)
        with pytest.raises(ArgumentError, match="cannot end inside"):
            mgefn.grad(lambda x: (profiler.stop_trace(), x)[1])(1.0)
    finally:
        profiler.stop_trace()
    events = json.loads((tmp_path / "a" / "trace.json").read_text())["traceEvents"]
    kinds = {e["name"]: e for e in events if e["cat"] == "annotation"}
    assert kinds["f"]["args"] == {"step": "3"}
    assert kinds["train"]["args"] == {"step_num": "7"}
    with pytest.raises(ArgumentError, match="no trace runs"):
        profiler.stop_trace()
    with pytest.raises(ArgumentError, match=r"cannot begin inside of grad"):
        mgefn.grad(lambda x: (profiler.start_trace(tmp_path), x)[1])(1.0)
    with pytest.raises(ArgumentError, match="format must be"):
        profiler.Profiler(tmp_path, "other")


def test_an_error_inside_ends_the_trace(tmp_path):
    with pytest.raises(ZeroDivisionError), profiler.trace(tmp_path):
        mnp.sin(1.0)
        1 / 0  # noqa: B018
    assert not profiler.is_profiling()
    assert (tmp_path / "trace.json").exists()


def test_profiler_as_a_decorator(tmp_path):
    p = profiler.Profiler(tmp_path)
    timed = p(f)
    timed(mnp.ones(2))
    once = len(p.events)
    timed(mnp.ones(2))
    assert len(p.events) == 2 * once > 0


def test_profile_and_benchmark(tmp_path):
    with profiler.profile(tmp_path) as p:
        mnp.sin(1.0)
    assert p.path.exists()
    calls = []
    result = profiler.benchmark(lambda a, b=0: calls.append((a, b)), (1,), {"b": 2}, 3, n_warmup=2)
    assert calls == [(1, 2)] * 5
    assert len(result.seconds) == 3
    assert result.best <= result.median
    assert "of 3 calls" in repr(result)
    with pytest.raises(ArgumentError, match="n_repeat must be 1 or more"):
        profiler.benchmark(f, n_repeat=0)


# -- inside of compiled calls ---------------------------------------------------------------------


def body(carry, x):
    y = mnp.tanh(carry @ x)
    return y, mnp.sort(y)[0]


def loop(x):
    carry, ys = lax.scan(body, x[0], x)
    return carry, ys, special.hyp1f1(1.0, 2.0, x[0])  # it has no native code


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
def test_steps_and_kernels_of_a_compiled_call(tmp_path, backend):
    x = np.random.default_rng(0).normal(size=(7, 20, 20)).astype(np.float32)
    fun = mgefn.jit(loop, backend=backend)
    want = fun(x)
    with mgefn.config.override(jit_backend=backend), profiler.Profiler(tmp_path) as p:
        got = fun(x)
        again = fun(x)
    for a, b, c in zip(want, got, again, strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes() == np.asarray(c).tobytes()
    calls = [e for e in p.events if e["name"] == "jit(loop)"]
    assert len(calls) == 2
    for call in calls:
        inside = [
            e
            for e in p.events
            if e is not call and call["ts"] <= e["ts"] and e["ts"] < call["ts"] + call["dur"]
        ]
        steps = [e for e in inside if e["cat"] == "step"]
        assert any(e["name"].startswith("scan (test_profiler.py:") for e in steps)
        assert any("hyp1f1" in e["name"] and e["args"]["reason"] for e in steps)
        assert sum(e["dur"] for e in steps) <= call["dur"]
        for e in inside:
            assert e["ts"] + e["dur"] <= call["ts"] + call["dur"] + 1e-3
        kernels = [e for e in inside if e["cat"] == "kernel"]
        if backend == "llvm":
            scan = next(e for e in steps if e["name"].startswith("scan"))
            assert scan["args"]["kind"] == "native" and "loop" in scan["args"]["lines"]
            assert {"Tile", "tanh"} <= {e["name"] for e in kernels}
            assert all(e["args"]["runs"] == 7 for e in kernels)
            assert sum(e["dur"] for e in kernels) <= scan["dur"] + 1e-3
        else:
            assert not kernels


def test_a_traced_call_that_fails_leaves_the_trace_usable(tmp_path):
    def fail(x):
        raise ValueError("from the callback")

    fun = mgefn.jit(lambda x: mgefn.pure_callback(fail, x, x) + 1)
    with profiler.Profiler(tmp_path) as p:
        with pytest.raises(Exception, match="from the callback"):
            fun(np.float32(1))
        y = mgefn.jit(lambda x: mnp.sin(x) * 2)(np.float32(1))
    assert state.current is None
    assert float(y) == pytest.approx(2 * np.sin(1), rel=1e-6)
    assert any(e["cat"] == "step" for e in p.events)


def test_threads_trace_one_program(tmp_path):
    fun = mgefn.jit(lambda x: mnp.exp(-x) @ x)
    x = np.linspace(0, 1, 36, dtype=np.float32).reshape(6, 6)
    want = np.asarray(fun(x)).tobytes()

    def work(i):
        with profiler.Profiler(tmp_path / str(i)) as p:
            for _ in range(20):
                assert np.asarray(fun(x)).tobytes() == want
        assert sum(e["cat"] == "operation" for e in p.events) == 20

    run_side_by_side(work, 4)


def test_a_traced_callback_may_wait_for_a_trace_of_another_thread(tmp_path):
    x = np.ones(4, np.float32)
    inner = mgefn.jit(lambda x: mnp.sin(x) * 2)

    def callback(a):
        made = []

        def work():
            with profiler.trace(tmp_path / "inner"):
                made.append(np.asarray(inner(x)))

        other = threading.Thread(target=work, daemon=True)
        other.start()
        other.join(60)
        return made[0]

    fun = mgefn.jit(lambda x: mgefn.pure_callback(callback, x, x) + 1)
    with profiler.trace(tmp_path / "outer"):
        got = fun(x)
    np.testing.assert_allclose(got, 2 * np.sin(x) + 1, rtol=1e-6)
