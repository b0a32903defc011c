"""The pool as users see it."""

from __future__ import annotations

import gc
import sys
import threading

import numpy as np
import pytest

import mgefn
from mgefn import memory
from mgefn.compiler import program
from mgefn.compiler.pool import Pool, pool


def test_idle_memory_is_seen_and_given_back():
    try:
        memory.clear()
        f = mgefn.jit(lambda x: mgefn.numpy.cumsum(mgefn.numpy.sin(x))[::2].sum())
        f(np.ones(1 << 20))
        assert memory.stats()["slab_bytes"] >= 8 << 20
        memory.set_limit(1 << 20)
        assert memory.stats()["slab_bytes"] == 0
        assert memory.stats()["idle_bytes"] <= 1 << 20
    finally:
        memory.set_limit(None)


def test_negative_limit():
    with pytest.raises(mgefn.errors.ArgumentError, match="0 or more bytes, got -1"):
        memory.set_limit(-1)


def test_peaks_are_those_of_programs_and_large_outputs():
    x = mgefn.numpy.ones((1000, 1000))
    f = mgefn.jit(lambda x: mgefn.numpy.sin(x) @ mgefn.numpy.cos(x))
    gc.collect()  # programs of other tests give their slabs back when they are found to be gone
    memory.clear_cache()
    held = memory.get_allocated_memory()
    memory.reset_max_memory_stats()
    y = f(x)
    assert memory.get_allocated_memory() - held == y.nbytes
    peak = memory.get_max_allocated_memory() - held
    assert peak >= 3 * y.nbytes  # sin x, cos x and the product
    assert memory.get_max_reserved_memory() >= memory.get_max_allocated_memory()
    del y
    assert memory.get_allocated_memory() == held
    assert memory.get_reserved_memory() > held
    memory.clear_cache()
    assert memory.get_reserved_memory() == held
    memory.reset_max_memory_stats()
    assert memory.get_max_allocated_memory() == held


def test_plan_tells_the_peak_before_running():
    big = mgefn.ShapeDtypeStruct((1 << 15, 1 << 15), "float32")
    needs = memory.plan(lambda x: mgefn.numpy.sin(x).sum(), big)
    assert needs.peak_memory_in_bytes < 1 << 20  # one loop, which keeps a sum for each row
    with mgefn.config.override(jit_backend="numpy"):
        needs = memory.plan(lambda x: mgefn.numpy.sin(x).sum(), big)
    assert 4 << 30 <= needs.peak_memory_in_bytes < 5 << 30
    assert memory.plan(mgefn.jit(lambda x: x + 1), np.ones(3)).output_size_in_bytes == 24


def test_the_newest_slab_is_kept_whatever_its_size(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pool, "limit", 4 << 20)
    memory.clear()
    f = mgefn.jit(lambda x: mgefn.numpy.cumsum(mgefn.numpy.sin(x))[::2].sum())
    first = f(np.ones(1 << 20))
    assert memory.stats()["slab_bytes"] >= 8 << 20
    allocated = memory.stats()["blocks_allocated"]
    assert f(np.ones(1 << 20)) == first
    assert memory.stats()["blocks_allocated"] == allocated
    g = mgefn.jit(lambda x: mgefn.numpy.cumsum(mgefn.numpy.cos(x))[::3].sum())
    g(np.ones(3 << 19))
    assert 12 << 20 <= memory.stats()["slab_bytes"] < 20 << 20  # that of g, and no other
    assert f(np.ones(1 << 20)) == first


def test_a_program_of_ever_new_shapes_has_one_slab_and_two_by_turns_have_their_own():
    f = mgefn.jit(lambda x: mgefn.numpy.cumsum(mgefn.numpy.sin(x))[::2].sum())

    def called(n: int) -> tuple[int, int]:
        """How many slabs wait after a call, and how many blocks were newly made for it."""
        before = memory.stats()["blocks_allocated"]
        assert float(f(np.ones(n))) == pytest.approx(np.sin(1.0) * (n / 2) ** 2)
        return len(program.frames._large), memory.stats()["blocks_allocated"] - before

    memory.clear()
    n = 1 << 20
    assert [called(n + 2 * i)[0] for i in range(5)] == [1] * 5
    for _ in range(2):
        called(n)
        called(n + 2)
    assert [called(n + 2 * (i % 2)) for i in range(4)] == [(2, 0)] * 4
    assert called(1 << 23)[0] == 3  # one of another order of size takes none


@pytest.mark.skipif(sys.platform != "linux", reason="other systems can't resize a mapping")
def test_an_idle_block_of_another_size_keeps_its_pages():
    mine = Pool()
    block = mine.take(8 << 20)
    block[:] = 7
    mine.give(block)
    del block
    longer = mine.take(12 << 20)
    assert longer.nbytes == 12 << 20 and (longer[: 8 << 20] == 7).all() and not longer[-1]
    assert mine.stats()["idle_bytes"] == 0
    mine.give(longer)
    del longer
    shorter = mine.take(7 << 20)
    assert shorter.nbytes == 7 << 20 and (shorter == 7).all()
    # A view that is still alive keeps the block as it is, and another one is made.
    view = shorter[5:]
    mine.give(shorter)
    del shorter
    other = mine.take(12 << 20)
    assert other.nbytes == 12 << 20 and view[0] == 7 and not other[:9].any()


def test_idle_blocks_above_the_limit_may_lose_their_pages_and_serve_again():
    mine = Pool(limit=1 << 20)
    for value in range(3):
        block = mine.take(6 << 20)
        block[:] = value
        assert (block == value).all()
        mine.give(block)
        del block
        assert mine.stats()["idle_bytes"] == 6 << 20
    mine.set_limit(1 << 20)
    assert mine.stats()["idle_bytes"] == 0


def test_no_call_loses_its_slab_to_another_thread(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pool, "limit", 1 << 20)
    f = mgefn.jit(lambda x: mgefn.numpy.cumsum(mgefn.numpy.sin(x))[::2].sum())
    sizes = [np.linspace(0, 1, n) for n in (1 << 18, 3 << 17, 1 << 19)]
    want = [float(f(x)) for x in sizes]
    wrong: list[int] = []

    def work(k: int) -> None:
        for i in range(40):
            at = (i * k) % 3
            if float(f(sizes[at])) != want[at]:
                wrong.append(at)

    threads = [threading.Thread(target=work, args=(k,)) for k in (1, 2, 4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_memory_that_is_not_there_is_not_counted(monkeypatch: pytest.MonkeyPatch):
    def nothing(size: int) -> np.ndarray:
        raise MemoryError(size)

    mine = Pool()
    monkeypatch.setattr("mgefn.compiler.pool._fresh", nothing)
    for _ in range(2):
        with pytest.raises(MemoryError):
            mine.take(8 << 20)
    assert mine.in_use_bytes == mine.most_allocated == mine.allocated == 0
