"""Errors that say what and where, interrupts, threads, long programs, NumPy on the left."""

from __future__ import annotations

import datetime
import gc
import os
import signal
import subprocess
import sys
import threading
import traceback

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import lax
from mgefn.core import backends
from mgefn.errors import MgefnError
from tests.kinds.interrupts import AGAIN, LOST

X = np.ones((2, 3), np.float32)
Y = np.ones((4, 5), np.float32)


@pytest.mark.filterwarnings(LOST)
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no timers")
def test_an_interrupt_stays_one_wherever_it_falls():
    def interrupt(*_):
        raise KeyboardInterrupt

    f = mgefn.jit(lambda x, n: x * n + 1, static_argnums=1)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for k in range(15):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.004 + 0.0013 * k, AGAIN)
                x, i = mnp.asarray(1.0), 0
                while True:
                    x = f(x * 0.5 + mnp.sin(x), i % 3)
                    mgefn.grad(lambda v: v * v)(0.5)
                    i += 1
            except KeyboardInterrupt:
                pass
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert float(f(1.0, 2)) == 3.0 and float(mgefn.grad(lambda v: v * v)(3.0)) == 6.0
    assert mgefn.vmap(lambda v: v + 1)(mnp.ones(2)).tolist() == [2.0, 2.0]


INTERRUPTED = """
import random, signal, sys
import mgefn, mgefn.numpy as mnp

def interrupt(*_):
    raise KeyboardInterrupt

draw = random.Random(int(sys.argv[1]))
signal.signal(signal.SIGALRM, interrupt)
f = mgefn.jit(lambda x, n: x * n + 1, static_argnums=1)
for _ in range(12):
    try:
        signal.setitimer(signal.ITIMER_REAL, draw.uniform(0.0005, 0.03), 1.0)
        x, i = mnp.asarray(1.0), 0
        while True:
            x = f(x * 0.5 + mnp.sin(x), i % 3)
            mgefn.grad(lambda v: v * v)(0.5)
            i += 1
    except KeyboardInterrupt:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
assert float(f(1.0, 2)) == 3
mgefn.jit(lambda x: mnp.tanh(x) + x)(mnp.ones(3))
mgefn.compilation_barrier()
print("healthy")
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no timers")
@pytest.mark.parametrize("seed", range(4))
def test_a_process_interrupted_from_its_first_call_on(tmp_path, seed):
    """Whatever is loaded, started or compiled for the first time: no lock stays taken."""
    environment = {**os.environ, "MGEFN_CACHE_DIR": str(tmp_path), "MGEFN_TIERED_COMPILATION": "1"}
    result = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(seed)], env=environment, capture_output=True,
        text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (result.stdout, result.returncode) == ("healthy\n", 0), result.stderr


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_first_call_that_was_interrupted_leaves_nothing_half_loaded(tmp_path):
    """A few draws of the day; `python -m tests.kinds.interrupts SEED DRAWS` takes more."""
    environment = {**os.environ, "MGEFN_CACHE_DIR": str(tmp_path)}
    seed = os.environ.get("MGEFN_TEST_SEED") or datetime.date.today().strftime("%Y%m%d")
    result = subprocess.run(
        [sys.executable, "-m", "tests.kinds.interrupts", seed, "5"], env=environment,
        capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_table_whose_load_was_interrupted_is_loaded_again():
    loads = []

    def load():
        loads.append(1)
        if len(loads) == 1:
            raise KeyboardInterrupt

    backends.set_late_table("of this test", load)
    with pytest.raises(KeyboardInterrupt):
        backends.load_table("of this test")
    for _ in range(2):
        backends.load_table("of this test")
    assert len(loads) == 2


FORKED = """
import faulthandler, os, threading, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python's, about forks beside threads
import mgefn, mgefn.numpy as mnp

# What is lazy is loaded: Python itself leaves the lock of a module taken that a thread imports.
mgefn.jit(lambda x: x + 1)(mnp.ones(3))

def work():
    for n in range(3, 10**6):
        mgefn.jit(lambda x: mnp.sin(x) + x**n)(mnp.ones((n, 5)))

for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
statuses = []
for i in range(8):
    time.sleep(0.02)
    pid = os.fork()
    if not pid:
        faulthandler.dump_traceback_later(30, exit=True)
        value = mgefn.jit(lambda x: mnp.cos(x * i).sum() + x)(mnp.ones((i + 2, 7)))
        os._exit(0 if value.shape == (i + 2, 7) else 3)
    statuses.append(os.waitpid(pid, 0)[1])
print(statuses, flush=True)
os._exit(0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("tiered", ["0", "1"])
def test_a_child_forked_while_threads_compile_compiles(tmp_path, tiered):
    environment = {
        **os.environ, "MGEFN_CACHE_DIR": str(tmp_path), "MGEFN_TIERED_COMPILATION": tiered
    }  # fmt: skip
    result = subprocess.run(
        [sys.executable, "-c", FORKED], env=environment, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert (result.stdout, result.returncode) == (f"{[0] * 8}\n", 0), result.stderr


WRONG_SHAPES = {
    "add": lambda: mnp.asarray(X) + mnp.asarray(Y),
    "matmul": lambda: mnp.asarray(X) @ mnp.asarray(Y),
    "concatenate": lambda: mnp.concatenate([X, Y], axis=0),
    "where": lambda: mnp.where(X > 0, Y, 0),
    "reshape": lambda: mnp.reshape(X, (4, 5)),
    "einsum": lambda: mnp.einsum("ij,jk", X, Y),
    "maximum": lambda: mnp.maximum(X, Y),
    "dot": lambda: mnp.dot(X, Y),
    "stack": lambda: mnp.stack([X, Y]),
    "broadcast_to": lambda: mnp.broadcast_to(X, (4, 5)),
    "solve": lambda: mnp.linalg.solve(np.ones((2, 2)), np.ones((5, 3))),
    "vmap": lambda: mgefn.vmap(lambda a, b: a)(np.ones((2, 3)), np.ones((4, 5))),
    "jvp": lambda: mgefn.jvp(mnp.sin, (X,), (Y,)),
    "set": lambda: mnp.asarray(X).at[:].set(Y),
}


@pytest.mark.parametrize("name", WRONG_SHAPES)
def test_errors_of_shapes_name_both(name):
    with pytest.raises(MgefnError) as e:
        WRONG_SHAPES[name]()
    assert isinstance(e.value, (TypeError, ValueError))
    text = str(e.value)
    assert any(c in text for c in "23") and any(c in text for c in "45"), text
    assert len(text.splitlines()) <= 5


DEEP = {
    "grad": mgefn.grad,
    "jit of grad": lambda f: mgefn.jit(mgefn.grad(f)),
    "jit of vmap of grad": lambda f: lambda x: mgefn.jit(mgefn.vmap(mgefn.grad(f)))(x[None]),
    "checkpoint": lambda f: mgefn.grad(mgefn.checkpoint(f)),
    "scan": lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2),
    "cond": lambda f: lambda x: mgefn.jit(lambda x: lax.cond(True, f, f, x))(x),
    "hessian": mgefn.hessian,
}


@pytest.mark.parametrize("name", DEEP)
def test_tracebacks_point_at_the_users_line(name):
    def inner_of_user(x):
        return (x @ mnp.ones((5, 2))).sum()  # (3,) and (5, 2) do not go together

    with pytest.raises(MgefnError) as e:
        DEEP[name](inner_of_user)(mnp.ones(3))
    text = "".join(traceback.format_exception(e.value))
    assert "inner_of_user" in text and "do not go together" in text
    assert text.count('  File "') < 12
    assert "3" in str(e.value) and "5" in str(e.value)


TRACED = {
    "float": lambda x: float(x),
    "int": lambda x: mnp.zeros(int(x)),
    "numpy": lambda x: np.asarray(x) + 1,
    "shape": lambda x: mnp.zeros((x,)),
    "index of a list": lambda x: [1, 2][x.astype(int)],
    "range": lambda x: range(x.astype(int)),
    "truth": lambda x: 1 if x > 0 else 2,
}


@pytest.mark.parametrize("name", TRACED)
def test_asking_for_a_traced_value_says_so(name):
    with pytest.raises(MgefnError) as e:
        mgefn.jit(TRACED[name])(1.0)
    text = str(e.value).lower()
    assert "traced" in text and len(text.splitlines()) < 10
    assert float(mgefn.jit(lambda x: x + 1)(1.0)) == 2.0


def test_many_threads_trace_at_once():
    shared = mgefn.jit(lambda x: (mnp.sin(x) * x).sum())
    failures = []

    def work(k):
        try:
            own = mgefn.jit(lambda x: (x * k).sum())
            for n in range(1, 6):
                x = np.full(n + k % 3, 0.1 * (k + 1))
                np.testing.assert_allclose(shared(x), (np.sin(x) * x).sum(), rtol=1e-6)
                np.testing.assert_allclose(
                    mgefn.grad(shared)(x), np.cos(x) * x + np.sin(x), rtol=1e-6
                )
                np.testing.assert_allclose(own(x), (x * k).sum(), rtol=1e-6)
                np.testing.assert_allclose(mgefn.vmap(mgefn.grad(lambda v: v**2))(x), 2 * x)
                scanned = lax.scan(lambda c, v: (c + v, c), 0.0, x)[0]
                np.testing.assert_allclose(scanned, x.sum(), rtol=1e-6)
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failures == []


@pytest.mark.parametrize("trace", [mgefn.jit, mgefn.grad, mgefn.vmap, mgefn.make_jaxpr])
def test_a_trace_is_of_its_thread(trace):
    inside, go_on, seen = threading.Event(), threading.Event(), []

    def slow(x):
        inside.set()
        assert go_on.wait(20)
        return x * 2

    x = np.ones(1) if trace is mgefn.vmap else np.float32(1)
    t = threading.Thread(target=lambda: seen.append(trace(slow)(x)))
    t.start()
    assert inside.wait(20)
    try:
        y = mnp.asarray(3.0) * mnp.arange(3.0)
        assert isinstance(np.asarray(y), np.ndarray) and y.tolist() == [0.0, 3.0, 6.0]
        assert float(mgefn.grad(lambda v: v**3)(2.0)) == 12.0
        assert float(mgefn.jit(lambda v: v - 1)(2.0)) == 1.0
    finally:
        go_on.set()
        t.join()
    assert len(seen) == 1


def test_programs_of_thousands_of_steps():
    n = 3000

    def f(x):
        for _ in range(n):
            x = x * 0.9999 + 0.001
        return x

    assert sys.getrecursionlimit() <= 3000
    want = 0.9999**n
    assert float(mgefn.grad(f)(1.0)) == pytest.approx(want, rel=1e-3)
    assert float(mgefn.jvp(f, (1.0,), (1.0,))[1]) == pytest.approx(want, rel=1e-3)
    program = mgefn.make_jaxpr(mgefn.grad(f))(1.0)
    assert len(str(program).splitlines()) >= n
    del program
    gc.collect()


LEFT = {
    "add": lambda n, x: n + x,
    "subtract": lambda n, x: n - x,
    "multiply": lambda n, x: n * x,
    "divide": lambda n, x: n / x,
    "matmul": lambda n, x: n @ x,
    "power": lambda n, x: n**x,
    "greater": lambda n, x: n > x,
    "equal": lambda n, x: n == x,
    "mod": lambda n, x: n % x,
    "floor_divide": lambda n, x: n // x,
    "scalar": lambda n, x: np.float32(2) * x,
    "int": lambda n, x: 3 - x,
    "sum": lambda n, x: sum([x, x, n]),
    "ufunc": lambda n, x: np.add(n, x),
    "in place": lambda n, x: _in_place(n, x),
}


def _in_place(n, x):
    n = x * 1
    n += x
    return n


@pytest.mark.parametrize("name", LEFT)
def test_numpy_on_the_left_gives_arrays_of_ours(name):
    n, x = np.arange(1, 4, dtype=np.float32), np.full(3, 2.0, np.float32)
    f = lambda v: LEFT[name](n, v)
    want = f(x)
    for got in (f(mnp.asarray(x)), mgefn.jit(f)(x), mgefn.vmap(f)(mnp.stack([x, x]))[0]):
        assert isinstance(got, mgefn.Array) and got.dtype == np.asarray(want).dtype
        np.testing.assert_allclose(got, want, rtol=1e-6)
    if np.asarray(want).dtype == np.float32:
        slope = mgefn.grad(lambda v: mnp.sum(f(v)))(x)
        assert slope.shape == (3,) and np.isfinite(np.asarray(slope)).all()
