"""Kernels compiled in a hurry, and for speed in the background: the same bits, and nothing lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import lax, nn, random
from mgefn.compiler import native
from mgefn.compiler.codegen import engine
from mgefn.config import config
from mgefn.core import background
from tests.compiler.test_fusion_fuzz import SEED, Draw

RNG = np.random.default_rng(0)


def drawn(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.asarray(RNG.uniform(0.1, 2, shape)).astype(dtype)


@pytest.fixture
def held(tmp_path: Any, monkeypatch: Any) -> Iterator[list[Callable[[], None]]]:
    """No kernel is known, and the jobs of the background wait in this list."""
    jobs: list[Callable[[], None]] = []
    monkeypatch.setenv("MGEFN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(engine, "_compiled", {})
    monkeypatch.setattr(native, "_cells", {})
    monkeypatch.setattr(background, "later", jobs.extend)
    mgefn.clear_caches()
    with config.override(tiered_compilation=True, jit_backend="llvm"):
        yield jobs
    mgefn.clear_caches()  # programs that would miss their kernels


def done(jobs: list[Callable[[], None]]) -> int:
    count = len(jobs)
    while jobs:
        jobs.pop(0)()
    return count


def check_bits(fun: Callable[..., Any], args: tuple, jobs: list[Callable[[], None]]) -> int:
    """Both tiers give the same bits; how many kernels the program has."""
    f = mgefn.jit(fun)
    quick = [np.asarray(x) for x in mgefn.tree.leaves(f(*args))]
    count = done(jobs)
    settled = [np.asarray(x) for x in mgefn.tree.leaves(f(*args))]
    for a, b in zip(quick, settled, strict=True):
        assert a.dtype == b.dtype and a.tobytes() == b.tobytes(), fun
    return count


def square(x: Any) -> Any:
    return x @ mnp.swapaxes(x, -1, -2) + 3 * mnp.eye(x.shape[-1], dtype=x.dtype)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple]] = {
    "gelu and its gradient": (
        lambda x: (nn.gelu(x), mgefn.grad(lambda x: nn.gelu(x).sum())(x)), (drawn(37),)
    ),
    "powers": (lambda x, y: (x**y, mnp.log(x), mnp.expm1(y), mnp.arctan2(x, y)),
               (drawn(29), drawn(29))),
    "doubles": (lambda x: (mnp.exp(x), mnp.log1p(x), mnp.tan(x), mnp.cbrt(x), lax.lgamma(x)),
                (drawn(21, dtype="float64"),)),
    "halves": (lambda x: mnp.tanh(x) * x + x.sum(1, keepdims=True),
               (drawn(5, 9, dtype="float16"),)),
    "integers": (lambda x: (x // 3, x % 7, x << 2, x**3), (np.arange(-9, 40, dtype="int32"),)),
    "softmax": (nn.softmax, (drawn(11, 65),)),
    "norms": (lambda x: ((x - x.mean(0)) / x.std(0), mnp.linalg.norm(x, axis=1)), (drawn(33, 19),)),
    "products": (
        lambda x, y: (x @ y, x.T @ x, x[0] @ y, mnp.einsum("ij,kj->ik", x, x)),
        (drawn(45, 37), drawn(37, 50)),
    ),
    "small products": (lambda x: x @ x, (drawn(12, 5, 5),)),
    "convolution": (
        mgefn.grad(lambda x, w: (lax.conv(x, w, (1, 1), "SAME") ** 2).sum(), argnums=(0, 1)),
        (drawn(2, 3, 9, 9), drawn(4, 3, 3, 3)),
    ),
    "pooling": (lambda x: lax.reduce_window(x, -mnp.inf, lax.max, (2, 2), (2, 2), "VALID"),
                (drawn(8, 8),)),
    "sorting": (lambda x: (mnp.sort(x), mnp.argsort(x), mnp.cumsum(x), mnp.median(x)),
                (drawn(71),)),
    "taking and adding": (
        lambda x, i: (x[i], mnp.zeros_like(x).at[i].add(x[: i.size])),
        (drawn(30), np.array([3, 3, 29, 0, 7])),
    ),
    "random": (lambda: random.normal(random.key(3), (40,)), ()),
    "linear algebra": (
        lambda x: (mnp.linalg.cholesky(square(x)), mnp.linalg.solve(square(x), x)),
        (drawn(3, 6, 6, dtype="float64"),),
    ),
    "scan": (
        mgefn.grad(lambda x: lax.scan(lambda c, a: (mnp.sin(c * a), c.sum()), x[0], x)[1].sum()),
        (drawn(6, 4),),
    ),
    "while": (lambda x: lax.while_loop(lambda s: s < 50, lambda s: s * 1.3 + 0.1, x),
              (np.float32(0.3),)),
    "transposed": (lambda x: x.T + x[::-1].T * 2, (drawn(40, 30),)),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_both_tiers_give_the_same_bits(name: str, held: list[Callable[[], None]]) -> None:
    fun, args = PROGRAMS[name]
    assert check_bits(fun, args, held) > 0


@pytest.mark.parametrize("number", range(int(os.environ.get("MGEFN_TIER_PROGRAMS", "12"))))
def test_both_tiers_give_the_same_bits_for_drawn_programs(
    number: int, held: list[Callable[[], None]]
) -> None:
    program = Draw(SEED * 1000 + number)
    check_bits(program, tuple(program.inputs), held)


def test_better_code_takes_the_place_of_the_first(held: list[Callable[[], None]]) -> None:
    f = mgefn.jit(lambda x: mnp.sin(x) + 1)
    x = drawn(9)
    f(x)
    ((name, cell),) = native._cells.items()
    first = int(cell.word[0])
    assert len(held) == 1 and native.cell_of(name[1]) == cell.address
    done(held)
    assert int(cell.word[0]) not in (0, first)
    np.testing.assert_allclose(f(x), np.sin(x) + 1, rtol=1e-6)
    # Its code is on the disk now, where a process takes it from at once.
    native._cells.clear()
    engine._compiled.clear()
    mgefn.clear_caches()
    f(x)
    assert "1 came from the cache on disk" in f.explain_miss() and not held


def test_much_work_is_compiled_for_speed_at_once(
    held: list[Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for bound in ("QUICK", "QUICK_TRAFFIC", "QUICK_ARITHMETIC"):
        monkeypatch.setattr(native, bound, 1e5)
    f = mgefn.jit(lambda x: mnp.sin(x) + 1)
    f(np.ones(600_000, np.float32))  # larger ones have a kernel of their own
    assert not held
    f(np.ones(3, np.float32))  # the same kernel
    assert not held and len(native._cells) == 1


def test_much_traffic_of_a_loop_nest_is_compiled_in_a_hurry(
    held: list[Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "QUICK", 1e5)
    monkeypatch.setattr(native, "QUICK_TRAFFIC", 1e6)
    monkeypatch.setattr(native, "QUICK_ARITHMETIC", 5e5)
    x = np.ones(600_000, np.float32)
    mgefn.jit(lambda x: mnp.sin(x) + 1)(x)
    assert len(held) == 1
    mgefn.jit(lambda x: mnp.sin(x) + 1)(x.astype("float64"))  # twice the arithmetic and more
    mgefn.jit(lambda x: mnp.sort(x))(x)
    mgefn.jit(lambda x: x @ x)(x.reshape(600, 1000)[:, :600])
    assert len(held) == 1


def test_ahead_of_time_is_for_speed(held: list[Callable[[], None]]) -> None:
    mgefn.jit(lambda x: mnp.cos(x) + 1).lower(np.ones(3, np.float32)).compile()
    assert not held and len(native._cells) == 1
    with config.override(tiered_compilation=False):
        mgefn.jit(lambda x: mnp.cos(x) + mnp.sin(x))(np.ones(3, np.float32))
    assert not held and len(native._cells) == 2


def test_jobs_are_done_in_order_and_one_that_fails_stops_no_other(monkeypatch: Any) -> None:
    seen: list[int] = []
    failures: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", failures.append)

    def job(i: int) -> Callable[[], None]:
        def run() -> None:
            if i == 3:
                raise ValueError("a job that fails")
            seen.append(i)

        return run

    background.later([job(i) for i in range(6)])
    background.wait()
    assert seen == [0, 1, 2, 4, 5]
    assert [f.exc_type for f in failures] == [ValueError]
    background.wait()  # nothing to wait for


PROCESS = """
import os, sys, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python's, about forks beside threads
import numpy as np
import mgefn, mgefn.numpy as mnp

def program(n):
    return mgefn.jit(lambda x: [mnp.sin(x * i + 1).sum() for i in range(n)])

x = np.ones((7, 5), np.float32)
"""


def run(tmp_path: Any, code: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MGEFN_CACHE_DIR": str(tmp_path), "MGEFN_TIERED_COMPILATION": "1"}
    return subprocess.run(
        [sys.executable, "-c", PROCESS + code], env=environment, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    "end", ["pass", "sys.exit(0)", "raise SystemExit(0)", "mgefn.compilation_barrier()"]
)
def test_a_process_may_end_while_it_compiles(tmp_path: Any, end: str) -> None:
    code = f"""
for i in range(1, 6):
    mgefn.jit(lambda x, i=i: mnp.exp(mnp.sin(x)) ** i + mnp.cumsum(x, 1) + (x @ x.T)[0, i % 5])(x)
{end}
"""
    result = run(tmp_path, code)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_forked_while_the_parent_compiles_goes_on(tmp_path: Any) -> None:
    code = """
f = program(5)
want = [float(y) for y in f(x)]
pid = os.fork()
if pid == 0:
    mgefn.compilation_barrier()
    ok = [float(y) for y in f(x)] == want and [float(y) for y in program(5)(x)] == want
    os._exit(0 if ok else 3)
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
mgefn.compilation_barrier()
assert [float(y) for y in f(x)] == want
print(status)
"""
    result = run(tmp_path, code)
    assert (result.stdout, result.stderr) == ("0\n", "")


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals that interrupt")
def test_an_interrupt_leaves_the_background_alone(tmp_path: Any) -> None:
    code = """
import signal
f = program(4)
want = [float(y) for y in f(x)]
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    pass
mgefn.compilation_barrier()
assert [float(y) for y in f(x)] == want
print("on")
"""
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    assert run(tmp_path, code).stdout == "on\n"


def test_many_threads_call_what_is_being_replaced(tmp_path: Any) -> None:
    code = """
import threading
f = mgefn.jit(lambda x: (mnp.tanh(x) @ x.T).sum(0) + mnp.exp(-x[:, 0]))
want = np.asarray(f(x)).tobytes()
wrong = []

def work(i):
    for n in range(300):
        if np.asarray(f(x)).tobytes() != want:
            wrong.append(i)
        if n % 60 == 0:
            mgefn.jit(lambda x: mnp.sin(x) * i + mnp.cos(x) ** (n + 2))(x)

threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
mgefn.compilation_barrier()
print(len(wrong), np.asarray(f(x)).tobytes() == want)
"""
    result = run(tmp_path, code)
    assert (result.stdout, result.stderr) == ("0 True\n", "")


def test_jobs_wait_while_a_first_call_is_under_way(monkeypatch):
    background.wait()
    seen: list[bool] = []
    first = background.begin()
    background.later([lambda: seen.append(first in background._first_calls)])
    time.sleep(3 * background.PAUSE)
    assert not seen
    background.end(first)
    background.wait()
    assert seen == [False]
    # Nobody waits for a first call whose end was cut off, nor for ever.
    for bound in ("LONGEST", "PATIENCE"):
        with monkeypatch.context() as patch:
            patch.setattr(background, bound, 0.05)
            lost = background.begin()
            background.later([lambda: seen.append(True)])
            until = time.monotonic() + 30
            while background._jobs or background._running:
                assert time.monotonic() < until
                time.sleep(1e-3)
            background.end(lost)
    assert seen == [False, True, True]


def test_a_call_that_fails_is_none_under_way():
    def fails(x):
        raise ValueError("from the callback")

    f = mgefn.jit(lambda x: mgefn.pure_callback(fails, x, x))
    with pytest.raises(ValueError, match="from the callback"):
        f(drawn(3))
    assert not background._first_calls
