"""The pool as users see it."""

from __future__ import annotations

import numpy as np
import pytest

import mgefn
from mgefn import memory


def test_idle_memory_is_seen_and_given_back():
    before = memory.stats()["limit_bytes"]
    try:
        memory.clear()
        f = mgefn.jit(lambda x: mgefn.numpy.sin(x).sum())
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
