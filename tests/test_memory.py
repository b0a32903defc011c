"""The pool as users see it."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import mgefn
from mgefn import memory


def test_idle_memory_is_seen_and_given_back():
    before = memory.stats()["limit_bytes"]
    try:
        memory.clear()
        f = mgefn.jit(lambda x: mgefn.numpy.cumsum(mgefn.numpy.sin(x))[::2].sum())
        f(np.ones(1 << 20))
        assert memory.stats()["slab_bytes"] >= 8 << 20
        memory.set_limit(1 << 20)
        assert memory.stats()["slab_bytes"] == 0
        assert memory.stats()["idle_bytes"] <= 1 << 20
    finally:
        memory.set_limit(before)


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
