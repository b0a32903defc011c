"""The virtual machine: every instruction, its arguments, Python inside it, and what it leaves."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest

from mgefn.compiler import runtime
from mgefn.compiler.runtime import Assembler, Frame
from mgefn.config import config
from tests import kernels_native as kernels
from tests.kernels_native import cell

GIL = pytest.mark.parametrize("release_gil", [False, True], ids=["with-gil", "without-gil"])


def frame_of(assembler: Assembler, pointers, *args, **kwargs) -> Frame:
    return Frame(assembler.finish(), pointers, *args, **kwargs)


def add_frame(n: int, **kwargs) -> Frame:
    """out = x + y over float32 arrays: the third argument is the output."""
    a = Assembler()
    a.call(cell(kernels.ADD, "add"), 0, 0, n, operands=3)
    return frame_of(a, [0] * 3, [(0, 0, 0), (1, 1, 0), (2, 2, 0)], 3, **kwargs)


def numbers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def test_programs_run_here():
    assert runtime.available(), runtime.why_unavailable()


def test_an_empty_program_returns_none():
    assert frame_of(Assembler(), []).call() is None


@GIL
def test_arguments_are_read_in_place(release_gil):
    frame = add_frame(5, release_gil=release_gil)
    x, y = np.arange(5, dtype=np.float32), np.full(5, 0.5, np.float32)
    for _ in range(3):
        out = np.zeros(5, np.float32)
        assert frame.call(x, y, out) is None
        np.testing.assert_array_equal(out, x + y)
        x = out


def test_fixups_add_an_offset_and_may_repeat_an_argument():
    a = Assembler()
    a.call(cell(kernels.ADD, "add"), 1, 0, 3, operands=3)
    frame = frame_of(a, [0] * 4, [(0, 1, 0), (0, 2, 12), (1, 3, 4)], 2)
    x, out = np.arange(6, dtype=np.float32), np.zeros(5, np.float32)
    frame.call(x, out)
    np.testing.assert_array_equal(out, [0, 3, 5, 7, 0])


def test_views_and_read_only_arrays_are_arguments():
    frame = add_frame(3)
    base = np.arange(10, dtype=np.float32)
    base.setflags(write=False)
    out = np.zeros(3, np.float32)
    frame.call(base[2:], base[5:8], out)
    np.testing.assert_array_equal(out, [7, 9, 11])


@pytest.mark.parametrize("count", [0, 2, 4])
def test_a_wrong_number_of_arguments(count):
    frame = add_frame(1)
    with pytest.raises(TypeError, match="native program: wrong number of arguments"):
        frame.call(*[np.zeros(1, np.float32)] * count)
    with pytest.raises(TypeError, match="keyword"):
        frame.call(x=1)


def test_count_zero_touches_nothing():
    out = np.zeros(0, np.float32)
    add_frame(0).call(out, out, out)


def test_loop_repeats_and_counts_down():
    total = numbers(0)
    a = Assembler()
    a.set_int(0, 1000)
    again = a.here()
    a.call(cell(kernels.ADD_NUMBER, "add_number"), 1, a.numbers([7]), 1)
    a.loop(0, again)
    frame = frame_of(a, [0, total.ctypes.data])
    for rounds in (1, 2):
        frame.call()
        assert total[0] == 7000 * rounds
        assert frame.pointers[0] == 0


@pytest.mark.parametrize("start", [1, 0, -5])
def test_loop_goes_on_only_while_positive(start):
    total = numbers(0)
    a = Assembler()
    a.set_int(0, start)
    again = a.here()
    a.call(cell(kernels.ADD_NUMBER, "add_number"), 1, a.numbers([1]), 1)
    a.loop(0, again)
    frame_of(a, [0, total.ctypes.data]).call()
    assert total[0] == 1


def test_nested_loops():
    total = numbers(0)
    a = Assembler()
    a.set_int(0, 30)
    outer = a.here()
    a.set_int(1, 40)
    inner = a.here()
    a.call(cell(kernels.ADD_NUMBER, "add_number"), 2, a.numbers([1]), 1)
    a.loop(1, inner)
    a.loop(0, outer)
    frame_of(a, [0, 0, total.ctypes.data]).call()
    assert total[0] == 1200


def test_advance_walks_through_arrays():
    x, out = np.arange(12, dtype=np.float32), np.zeros(4, np.float32)
    a = Assembler()
    a.set_ptr(1, 4)
    a.set_ptr(2, 4, 16)
    a.set_ptr(3, 5, 12)
    a.set_int(0, 4)
    again = a.here()
    a.call(cell(kernels.ADD, "add"), 1, 0, 1, operands=3)
    a.advance([(1, 4), (2, 4), (3, -4)])
    a.loop(0, again)
    frame = frame_of(a, [0, 0, 0, 0, x.ctypes.data, out.ctypes.data])
    for _ in range(2):
        out[:] = 0
        frame.call()
        np.testing.assert_array_equal(out, (x[:4] + x[4:8])[::-1])


def test_advance_of_nothing():
    a = Assembler()
    a.advance([])
    a.set_int(0, 3)
    frame = frame_of(a, [0])
    frame.call()
    assert frame.pointers.tolist() == [3]


def test_set_and_swap():
    a = Assembler()
    a.set_ptr(1, 0, 5)
    a.set_int(2, -(1 << 62))
    a.swap(0, 2)
    frame = frame_of(a, [10, 0, 0])
    frame.call()
    assert frame.pointers.tolist() == [-(1 << 62), 15, 10]


def test_jumps_forward_skip():
    a = Assembler()
    end = a.label()
    a.set_int(0, 1)
    a.jump(end)
    a.set_int(0, 2)
    a.place(end)
    a.set_int(1, 3)
    frame = frame_of(a, [0, 0])
    frame.call()
    assert frame.pointers.tolist() == [1, 3]


@pytest.mark.parametrize(("byte", "taken"), [(0, True), (1, False), (255, False)])
def test_jump_unless_looks_at_one_byte(byte, taken):
    flag = np.array([byte, 1 - min(byte, 1)], np.uint8)  # what follows is the opposite
    a = Assembler()
    end = a.label()
    a.jump_unless(0, end)
    a.set_int(1, 1)
    a.place(end)
    frame = frame_of(a, [flag.ctypes.data, 0])
    frame.call()
    assert frame.pointers[1] == (0 if taken else 1)


@GIL
def test_a_while_loop(release_gil):
    counter, flag = numbers(0), np.ones(1, np.uint8)
    a = Assembler()
    top, end = a.label(), a.label()
    a.place(top)
    a.jump_unless(1, end)
    a.call(cell(kernels.COUNT_BELOW, "count_below"), 0, a.numbers([100_000]), 1, operands=2)
    a.jump(top)
    a.place(end)
    frame_of(a, [counter.ctypes.data, flag.ctypes.data], release_gil=release_gil).call()
    assert counter[0] == 100_000


@pytest.mark.parametrize(
    ("index", "branch"),
    [(0, 0), (1, 1), (2, 2), (3, 2), (-1, 0), (2**31 - 1, 2), (-(2**31), 0)],
)
def test_switch_clamps_its_index(index, branch):
    chosen = np.array([index, 12345], np.int32)
    a = Assembler()
    labels, end = [a.label() for _ in range(3)], a.label()
    a.switch(0, labels)
    for number, label in enumerate(labels):
        a.place(label)
        a.set_int(1, number)
        a.jump(end)
    a.place(end)
    frame = frame_of(a, [chosen.ctypes.data, -7])
    frame.call()
    assert frame.pointers[1] == branch


def test_switch_of_one_branch():
    a = Assembler()
    only = a.label()
    a.switch(0, [only])
    a.place(only)
    frame_of(a, [np.array([9], np.int32).ctypes.data]).call()


@pytest.mark.parametrize("n", [0, 1, 5, 1000])
def test_copy(n):
    x, out = np.arange(1000, dtype=np.uint8), np.zeros(1000, np.uint8)
    a = Assembler()
    a.copy(1, 0, n)
    frame_of(a, [x.ctypes.data, out.ctypes.data]).call()
    np.testing.assert_array_equal(out[:n], x[:n])
    assert not out[n:].any()


def test_copy_may_overlap():
    x = np.arange(100, dtype=np.uint8)
    a = Assembler()
    a.set_ptr(1, 0, 1)
    a.copy(1, 0, 99)
    frame_of(a, [x.ctypes.data, 0]).call()
    assert x.tolist() == [0, *range(99)]


def test_integers_are_stored():
    narrow, wide = np.full(3, 7, np.int32), numbers(7, 7, 7)
    a = Assembler()
    a.store_i32(0, 2)
    a.store_i64(1, 2)
    value = (5 << 32) - 3
    frame_of(a, [narrow[1:].ctypes.data, wide[1:].ctypes.data, value]).call()
    assert narrow.tolist() == [7, -3, 7]
    assert wide.tolist() == [7, value, 7]


@pytest.mark.parametrize("num_threads", [1, 3])
@GIL
def test_kernels_run_in_chunks(num_threads, release_gil):
    before = config.num_threads
    config.num_threads = num_threads
    try:
        n = 100_003
        frame_out = np.zeros(n, np.int64)
        a = Assembler()
        a.set_int(0, 50)
        again = a.here()
        a.call(cell(kernels.ADD_NUMBER, "add_number"), 1, a.numbers([2]), n, 5000)
        a.loop(0, again)
        frame_of(a, [0, frame_out.ctypes.data], release_gil=release_gil).call()
        assert set(frame_out) == {100}
    finally:
        config.num_threads = before


# -- Python inside --------------------------------------------------------------------------------


@GIL
def test_python_is_called_with_the_number(release_gil):
    got = []
    a = Assembler()
    a.set_int(0, 3)
    again = a.here()
    a.py_call(5)
    a.py_call(1 << 40)
    a.loop(0, again)
    frame_of(a, [0], callback=got.append, release_gil=release_gil).call()
    assert got == [5, 1 << 40] * 3


@GIL
def test_an_exception_ends_the_program(release_gil):
    total = numbers(0)
    fail_at = [2]

    def callback(number):
        fail_at[0] -= 1
        if fail_at[0] == 0:
            raise KeyError("inside")

    a = Assembler()
    a.set_int(0, 5)
    again = a.here()
    a.call(cell(kernels.ADD_NUMBER, "add_number"), 1, a.numbers([1]), 1)
    a.py_call(0)
    a.loop(0, again)
    frame = frame_of(a, [0, total.ctypes.data], callback=callback, release_gil=release_gil)
    with pytest.raises(KeyError, match="inside"):
        frame.call()
    assert total[0] == 2
    frame.call()  # the frame is free again
    assert total[0] == 7


@GIL
def test_programs_call_programs(release_gil):
    x, out = np.ones(3, np.float32), np.zeros(3, np.float32)
    inner = add_frame(3)
    a = Assembler()
    a.py_call(0)
    frame_of(a, [], callback=lambda _: inner.call(x, x, out), release_gil=release_gil).call()
    assert out.tolist() == [2, 2, 2]


def test_a_frame_runs_once_at_a_time():
    frames = []
    a = Assembler()
    a.py_call(0)
    frames.append(frame_of(a, [], callback=lambda _: frames[0].call()))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="this frame runs already"):
            frames[0].call()


def test_time_adds_up():
    a = Assembler()
    clock, ignored, first, second = numbers(0), numbers(0, 0), numbers(0, 0), numbers(5, 5)
    counter, flag = np.zeros(1, np.int64), np.zeros(1, np.int64)
    a.time(clock.ctypes.data, ignored.ctypes.data)
    again = a.here()
    a.call(cell(kernels.COUNT_BELOW, "count_below"), 0, a.numbers([100_000]), 1, operands=2)
    a.time(clock.ctypes.data, first.ctypes.data)
    a.jump_unless(1, end := a.label())
    a.jump(again)
    a.place(end)
    a.time(clock.ctypes.data, second.ctypes.data)
    start = time.perf_counter_ns()
    frame_of(a, [counter.ctypes.data, flag.ctypes.data]).call()
    assert first[1] == 100_000 and second[1] == 6
    assert 0 < first[0] <= time.perf_counter_ns() - start
    assert clock[0] > 0 and ignored[1] == 1


# -- threads, signals, forks ----------------------------------------------------------------------


def test_threads_run_at_once_without_the_gil():
    """Two programs that wait for each other end only if both run."""
    met = numbers(0, 0)
    code = cell(kernels.MEET, "meet")

    def program(release_gil):
        a = Assembler()
        a.call(code, 0, a.numbers([1 << 33, 2]), 1)
        return frame_of(a, [met.ctypes.data], release_gil=release_gil)

    callers = [threading.Thread(target=program(True).call) for _ in range(2)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert met.tolist() == [2, 0]


def test_many_threads_with_frames_of_their_own():
    def work(results, seed):
        frame = add_frame(1000, release_gil=True)
        rng = np.random.default_rng(seed)
        for _ in range(300):
            x, y = (rng.standard_normal(1000).astype(np.float32) for _ in range(2))
            out = np.zeros(1000, np.float32)
            frame.call(x, y, out)
            results.append(np.array_equal(out, x + y))

    results: list[bool] = []
    callers = [threading.Thread(target=work, args=(results, seed)) for seed in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(results) == 1800 and all(results)


@GIL
def test_other_threads_run_during_a_long_loop(release_gil):
    """A loop that only Python in another thread can end."""
    flag = np.ones(1, np.uint8)
    a = Assembler()
    top, end = a.here(), a.label()
    a.jump_unless(0, end)
    a.jump(top)
    a.place(end)
    frame = frame_of(a, [flag.ctypes.data], release_gil=release_gil)
    caller = threading.Thread(target=frame.call)
    caller.start()
    time.sleep(0.05)
    assert caller.is_alive()
    flag[0] = 0
    caller.join(60)
    assert not caller.is_alive()


def run(program: str, timeout: float = 120) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(os.name != "posix", reason="sends a signal to itself")
@pytest.mark.parametrize("jump", ["jump", "loop", "switch", "jump_unless"])
def test_an_interrupt_ends_a_loop(jump):
    program = f"""
import os, signal, threading, time
import numpy as np
from mgefn.compiler.runtime import Assembler, Frame
word = np.zeros(1, np.int64)
for release_gil in (False, True):
    a = Assembler()
    a.set_int(0, 1 << 62)
    top = a.here()
    dict(
        jump=lambda: a.jump(top),
        loop=lambda: a.loop(0, top),
        switch=lambda: a.switch(1, [top]),
        jump_unless=lambda: a.jump_unless(1, top),
    )[{jump!r}]()
    frame = Frame(a.finish(), [0, word.ctypes.data], release_gil=release_gil)
    for _ in range(2):
        threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        begin = time.monotonic()
        try:
            frame.call()
        except KeyboardInterrupt:
            assert time.monotonic() - begin < 30
        else:
            raise AssertionError("the loop has no end")
print("done")
"""
    assert run(program).strip() == "done"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_runs_programs():
    program = """
import os
import numpy as np
from tests.compiler.test_runtime import add_frame
frame = add_frame(3, release_gil=True)
x, out = np.ones(3, np.float32), np.zeros(3, np.float32)
frame.call(x, x, out)
pid = os.fork()
if pid == 0:
    out[:] = 0
    frame.call(x, x, out)
    add_frame(3).call(x, x, out)
    os._exit(17 if out.tolist() == [2, 2, 2] else 1)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 17
print("done")
"""
    assert run(program).strip() == "done"


# -- what a call leaves ---------------------------------------------------------------------------


@GIL
def test_no_references_are_lost_or_kept(release_gil):
    frame = add_frame(3, release_gil=release_gil)
    arrays = [np.zeros(3, np.float32) for _ in range(3)]
    everything = [None, *arrays, frame, frame.call]
    frame.call(*arrays)
    before = [sys.getrefcount(o) for o in everything]
    for _ in range(10_000):
        frame.call(*arrays)
    after = [sys.getrefcount(o) for o in everything]
    assert max(abs(a - b) for a, b in zip(after, before, strict=True)) < 100


def test_callbacks_and_their_numbers_are_let_go():
    def callback(number):
        if number == 1 << 41:
            raise ValueError
        return object()

    a = Assembler()
    a.py_call(1 << 40)
    a.py_call(1 << 41)
    frame = frame_of(a, [], callback=callback)

    def call():
        with pytest.raises(ValueError):
            frame.call()

    call()
    before, blocks = sys.getrefcount(callback), sys.getallocatedblocks()
    for _ in range(2000):
        call()
    gc.collect()
    assert sys.getrefcount(callback) == before
    assert sys.getallocatedblocks() - blocks < 1000


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_stays_flat():
    def resident() -> int:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    frame = add_frame(3, release_gil=True)
    x = np.zeros(3, np.float32)
    for _ in range(10_000):
        frame.call(x, x, x)
    before = resident()
    for _ in range(100_000):
        frame.call(x, x, x)
    assert resident() - before < 1 << 20  # ten bytes a call


def test_frames_go_away():
    frame = add_frame(3)
    gone = weakref.ref(frame)
    del frame
    assert gone() is None


def test_what_a_frame_points_to_lives_with_its_function():
    class Callback:
        def __call__(self, number):
            return None

    callback = Callback()
    alive = weakref.ref(callback)
    out = numbers(0)
    a = Assembler()
    a.py_call(0)
    a.call(cell(kernels.ADD_NUMBER, "add_number"), 0, a.numbers([3]), 1)
    call = frame_of(a, [out.ctypes.data], callback=callback, keep=[out]).call
    del a, callback
    gc.collect()
    junk = [np.zeros(1, np.int64) for _ in range(1000)]  # would take freed memory
    call()
    assert alive() is not None
    assert out[0] == 3
    del call, junk
    gc.collect()
    assert alive() is None


def test_calls_are_counted():
    frame = frame_of(Assembler(), [])
    before = runtime.native_calls()
    for _ in range(5):
        frame.call()
    assert runtime.native_calls() - before == 5


# -- the assembler --------------------------------------------------------------------------------


def test_code_is_shared_by_frames_and_kept_from_change():
    a = Assembler()
    a.set_int(0, 4)
    code = a.finish()
    first, second = Frame(code, [0]), Frame(code, [0])
    first.call()
    assert (first.pointers[0], second.pointers[0]) == (4, 0)
    with pytest.raises(ValueError, match="read-only"):
        code.words[0] = 1


def test_the_assembler_counts_slots():
    a = Assembler()
    a.call(1, 3, 0, 1, operands=4)
    a.swap(1, 2)
    assert a.finish().slots == 7


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda a: a.jump(a.label()), "without a place"),
        (lambda a: a.set_int(-1, 0), "slots count from 0"),
        (lambda a: a.switch(0, []), "at least one branch"),
        (lambda a: [a.place(label) for label in [a.here()]], "one place"),
    ],
)
def test_the_assembler_checks(build, message):
    a = Assembler()
    with pytest.raises(AssertionError, match=message):
        build(a)
        a.finish()


def test_a_frame_checks():
    a = Assembler()
    a.set_int(2, 0)
    a.py_call(0)
    code = a.finish()
    with pytest.raises(AssertionError, match="uses 3 slots, P has 2"):
        Frame(code, [0, 0])
    with pytest.raises(AssertionError, match="needs a callback"):
        Frame(code, [0, 0, 0])
    for fixup in ((1, 0, 0), (-1, 0, 0), (0, 3, 0), (0, -1, 0)):
        with pytest.raises(AssertionError):
            Frame(code, [0, 0, 0], [fixup], 1, callback=print)
