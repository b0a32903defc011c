"""The pool of threads: what runs, where the cuts are, and what it survives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from mgefn.compiler import host, threads
from mgefn.config import config
from tests import kernels_native as kernels
from tests.kernels_native import kernel


@pytest.fixture(autouse=True)
def _as_many_threads_as_before():
    before = config.num_threads
    yield
    config.num_threads = before


def addresses(*arrays: np.ndarray) -> np.ndarray:
    return np.array([a.ctypes.data for a in arrays], np.int64)


class Trace:
    """Runs the tracing kernel and tells what it wrote."""

    def __init__(self, size: int):
        self.ends = np.full(size + 1, -1, np.int64)
        self.workers = np.full(size + 1, -1, np.int64)
        self.counts = np.zeros(size + 1, np.int64)
        self.ptrs = addresses(self.ends, self.workers, self.counts)
        self.code = kernel(kernels.TRACE, "trace")

    def run(self, count: int, chunk: int) -> dict[int, int]:
        threads.pool().parallel_for(self.code, self.ptrs.ctypes.data, 0, count, chunk)
        return {int(b): int(self.ends[b]) for b in np.flatnonzero(self.ends != -1)}


@pytest.mark.parametrize("num_threads", [1, 2, 5])
@pytest.mark.parametrize(
    ("count", "chunk"), [(1, 1), (7, 1), (7, 3), (6, 3), (1000, 7), (10, 10), (10, 100), (10, 0)]
)
def test_the_cuts_do_not_depend_on_the_threads(num_threads, count, chunk):
    config.num_threads = num_threads
    trace = Trace(count)
    cuts = trace.run(count, chunk)
    size = chunk or count
    assert cuts == {b: min(b + size, count) for b in range(0, count, size)}
    assert trace.counts[:count].tolist() == [1] * count
    assert trace.counts[count] == 0
    assert set(trace.workers[list(cuts)]) <= set(range(num_threads))


def test_nothing_to_do_is_one_empty_call():
    trace = Trace(3)
    assert trace.run(0, 5) == {0: 0}
    assert not trace.counts.any()


def test_every_element_once_over_many_regions():
    config.num_threads = 4
    trace = Trace(1000)
    for _ in range(2000):
        trace.run(1000, 13)
    assert set(trace.counts[:1000]) == {2000}


def test_sums_are_the_same_bits_on_any_number_of_threads():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(10_001).astype(np.float32)
    chunk = np.array([97], np.int64)
    code = kernel(kernels.SUM, "sum")
    results = set()
    for num_threads in (1, 2, 3, 8):
        config.num_threads = num_threads
        for _ in range(5):
            partial = np.zeros(-(-len(x) // 97), np.float32)
            ptrs = addresses(x, partial)
            threads.pool().parallel_for(code, ptrs.ctypes.data, chunk.ctypes.data, len(x), 97)
            results.add(partial.tobytes())
    assert len(results) == 1
    assert np.isclose(np.frombuffer(results.pop(), np.float32).sum(), x.sum(), rtol=1e-4)


def meet(parties: int) -> int:
    """A region of chunks that wait for each other; how many waited in vain."""
    cell = np.zeros(2, np.int64)
    desc = np.array([1 << 32, parties], np.int64)
    ptrs = addresses(cell)
    code = kernel(kernels.MEET, "meet")
    threads.pool().parallel_for(code, ptrs.ctypes.data, desc.ctypes.data, parties, 1)
    assert cell[0] == parties
    return int(cell[1])


def test_the_kernel_that_meets_tells_when_it_is_alone():
    cell = np.zeros(2, np.int64)
    desc = np.array([1000, 2], np.int64)
    ptrs = addresses(cell)
    config.num_threads = 1
    code = kernel(kernels.MEET, "meet")
    threads.pool().parallel_for(code, ptrs.ctypes.data, desc.ctypes.data, 2, 1)
    assert cell.tolist() == [2, 1]


@pytest.mark.parametrize("parties", [2, 4, 9])
def test_workers_take_part_also_after_they_slept(parties):
    config.num_threads = parties
    for pause in (0.0, 0.0, 0.02, 0.0, 0.02):
        time.sleep(pause)
        assert meet(parties) == 0


def test_threads_come_and_go_with_the_setting():
    pool = threads.pool()
    for num_threads in (3, 1, 6, 2, 2, 5, 1):
        config.num_threads = num_threads
        assert pool.workers < num_threads  # those too many are gone at once
        for _ in range(4):
            assert meet(num_threads) == 0
        assert pool.workers == num_threads - 1
        names = [t.name for t in threading.enumerate() if t.name.startswith("mgefn-")]
        assert len(names) == num_threads - 1


def test_an_override_resizes_until_it_ends():
    config.num_threads = 2
    meet(2)
    with config.override(num_threads=4):
        assert meet(4) == 0
    assert threads.pool().workers <= 1


def test_many_resizes_with_work_between():
    trace = Trace(100)
    rounds = 60
    for i in range(rounds):
        config.num_threads = 1 + i * 7 % 5
        for _ in range(10):
            trace.run(100, 3)
    assert set(trace.counts[:100]) == {10 * rounds}


def test_a_second_caller_runs_alone_over_the_same_chunks():
    config.num_threads = 3
    pool = threads.pool()
    before = pool.regions_alone
    traces = [Trace(2000) for _ in range(4)]

    def work(trace: Trace) -> None:
        for _ in range(300):
            trace.run(2000, 11)

    callers = [threading.Thread(target=work, args=(trace,)) for trace in traces]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    for trace in traces:
        assert set(trace.counts[:2000]) == {300}
        begins = np.flatnonzero(trace.ends != -1)
        assert begins.tolist() == list(range(0, 2000, 11))
    assert pool.regions_alone > before


def test_resizing_while_others_run():
    trace = Trace(3000)
    rounds = 400
    worker = threading.Thread(target=lambda: [trace.run(3000, 17) for _ in range(rounds)])
    worker.start()
    n = 0
    while worker.is_alive():
        n += 1
        config.num_threads = 1 + n % 4
    worker.join()
    assert set(trace.counts[:3000]) == {rounds}


def test_a_region_inside_a_region_runs_alone():
    config.num_threads = 3
    pool = threads.pool()
    trace = Trace(50)
    nested = kernel(kernels.NESTED, "nested", mgefn_parallel_for=pool.parallel_for_address)
    desc = np.array([trace.code, 50, 4], np.int64)
    pool.parallel_for(nested, trace.ptrs.ctypes.data, desc.ctypes.data, 6, 1)
    assert set(trace.counts[:50]) == {6}
    assert np.flatnonzero(trace.ends != -1).tolist() == list(range(0, 50, 4))


@pytest.mark.parametrize("value", [0, -1, 2.0, True, "two", 1025])
def test_the_setting_accepts_counts(value):
    with pytest.raises(ValueError, match="num_threads must be None or an integer from 1 to 1024"):
        config.num_threads = value


def test_the_setting_takes_numpy_integers():
    config.num_threads = np.int32(2)
    assert config.num_threads == 2 and type(config.num_threads) is int


def run(program: str, timeout: float = 120, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=os.environ | environment,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_the_environment_sets_the_number():
    program = "from mgefn.compiler.host import thread_count; print(thread_count())"
    assert run(program, MGEFN_NUM_THREADS="3").strip() == "3"
    assert int(run(program, MGEFN_NUM_THREADS="")) == host.cpu_count()


def test_the_environment_is_checked():
    with pytest.raises(AssertionError, match=r"MGEFN_NUM_THREADS.*must be None or an integer"):
        run("import mgefn", MGEFN_NUM_THREADS="0")


PRELUDE = """
import os, signal, sys, threading, time
from mgefn.config import config
config.num_threads = 4
from tests.compiler.test_threads import Trace, meet, threads
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_a_pool_of_its_own():
    # With warnings as errors: the workers have ended before Python looks for threads.
    program = (
        PRELUDE
        + """
assert meet(4) == 0
for _ in range(5):
    pid = os.fork()
    if pid == 0:
        assert threads.pool().workers == 0
        assert meet(4) == 0 and threads.pool().workers == 3
        grandchild = os.fork()
        if grandchild == 0:
            os._exit(17 if meet(4) == 0 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]) == 17
        os._exit(23)
    assert meet(4) == 0
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 23
print("done")
"""
    )
    assert run(program).strip() == "done"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_while_another_thread_is_in_a_region():
    program = (
        PRELUDE
        + """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python's, about forks beside threads
trace = Trace(100_000)
stop = threading.Event()
def work():
    while not stop.is_set():
        trace.run(100_000, 1000)
busy = threading.Thread(target=work)
busy.start()
for _ in range(10):
    time.sleep(0.003)
    pid = os.fork()
    if pid == 0:
        os._exit(17 if meet(3) == 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 17
stop.set()
busy.join()
assert len(set(trace.counts[:100_000])) == 1
print("done")
"""
    )
    assert run(program).strip() == "done"


def test_the_process_ends_with_workers_asleep_and_awake():
    program = (
        PRELUDE
        + """
meet(4)
time.sleep(float(sys.argv[1]) if len(sys.argv) > 1 else 0.0)
print("done")
"""
    )
    assert run(program, timeout=60).strip() == "done"
    assert run(program.replace("0.0)", "0.05)"), timeout=60).strip() == "done"


def test_the_process_ends_while_a_daemon_thread_works():
    program = (
        PRELUDE
        + """
trace = Trace(10_000)
def work():
    while True:
        trace.run(10_000, 10)
threading.Thread(target=work, daemon=True).start()
time.sleep(0.1)
print("done")
"""
    )
    assert run(program, timeout=60).strip() == "done"


def test_a_closed_pool_works_on_the_caller():
    program = (
        PRELUDE
        + """
meet(4)
threads.pool().close()
trace = Trace(100)
trace.run(100, 7)
assert set(trace.counts[:100]) == {1} and set(trace.workers) == {-1, 0}
config.num_threads = 3
trace.run(100, 7)
assert threads.pool().workers == 0
print("done")
"""
    )
    assert run(program).strip() == "done"


@pytest.mark.skipif(os.name != "posix", reason="sends a signal to itself")
def test_an_interrupt_comes_after_the_region():
    program = (
        PRELUDE
        + """
from tests import kernels_native as kernels
import numpy as np
cell, desc = np.zeros(2, np.int64), np.array([40_000_000, 9], np.int64)
ptrs = np.array([cell.ctypes.data])
code = kernels.kernel(kernels.MEET, "meet")
meet(4)
threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    # Chunks that wait in vain for one more than there are: long enough to be interrupted.
    threads.pool().parallel_for(code, ptrs.ctypes.data, desc.ctypes.data, 8, 1)
    time.sleep(60)
except KeyboardInterrupt:
    assert cell.tolist() == [8, 8]
    assert meet(4) == 0
    print("done")
"""
    )
    assert run(program).strip() == "done"


def test_a_quota_of_a_cgroup_is_read(tmp_path):
    assert host._quota(str(tmp_path)) is None
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert host._quota(str(tmp_path)) is None
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert host._quota(str(tmp_path)) == 1.5
    (tmp_path / "cpu.max").unlink()
    (tmp_path / "cpu.cfs_quota_us").write_text("-1\n")
    (tmp_path / "cpu.cfs_period_us").write_text("100000\n")
    assert host._quota(str(tmp_path)) is None
    (tmp_path / "cpu.cfs_quota_us").write_text("400000\n")
    assert host._quota(str(tmp_path)) == 4.0


def test_there_is_at_least_one_cpu():
    assert host.cpu_count() >= 1
    if hasattr(os, "sched_getaffinity"):
        assert host.cpu_count() <= len(os.sched_getaffinity(0))


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="needs POSIX signals")
def test_signals_do_not_go_to_workers():
    config.num_threads = 2
    meet(2)
    got = []
    previous = signal.signal(signal.SIGUSR1, lambda *_: got.append(threading.current_thread()))
    try:
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(0.01)
    finally:
        signal.signal(signal.SIGUSR1, previous)
    assert got == [threading.main_thread()]
