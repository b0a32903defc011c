"""Large pages of new memory: made one by one, and left to small ones where they are slow."""

from __future__ import annotations

import gc
import mmap
import sys
import time

import numpy as np
import pytest

import mgefn
from mgefn.compiler import pages
from mgefn.compiler.pool import HUGE, Pool
from mgefn.core import background

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pages are chosen on Linux only")

PAGES = 6
SIZE = PAGES * pages.LARGE_PAGE


@pytest.fixture
def jobs(monkeypatch):
    """The jobs for the background, and no memory of slow pages."""
    held = []
    monkeypatch.setattr(background, "later", held.extend)
    monkeypatch.setattr(pages, "_slow_until", 0.0)
    monkeypatch.setattr(pages, "_SHARED", 10**6)  # one thread, whose pages can be counted
    return held


@pytest.fixture
def advised(monkeypatch):
    """(first byte, bytes, advice) of all advice, which is still given."""
    seen = []
    advise = pages._madvise()

    def recorded(at, size, advice):
        seen.append((at, size, advice))
        return advise(at, size, advice)

    monkeypatch.setattr(pages, "_madvise", lambda: recorded)
    return seen


def mapping(size=SIZE):
    return np.frombuffer(mmap.mmap(-1, size), np.uint8)


def slow_from(monkeypatch, page):
    """Large pages take a hundred times the bound from this one on."""
    count = iter(range(10**6))

    def thread_time():
        calls = next(count)  # two for each page
        return max(0, (calls + 1) // 2 - page) * 100 * pages._SLOW

    monkeypatch.setattr(time, "thread_time", thread_time)


def populated(advised):
    return sum(advice == pages._POPULATE_WRITE for _, _, advice in advised)


def test_fast_pages_are_all_made(jobs, advised, monkeypatch):
    slow_from(monkeypatch, PAGES + 1)
    block = mapping()
    pages.choose(block)
    inside = len(pages._large_pages(block))
    assert inside in (PAGES - 1, PAGES)  # a mapping need not begin with a large page
    assert populated(advised) == inside
    assert not jobs
    assert not block.any()


@pytest.mark.parametrize("page", [0, 2])
def test_after_a_slow_page_small_ones_are_joined_later(jobs, advised, monkeypatch, page):
    slow_from(monkeypatch, page)
    block, other = mapping(), mapping()
    pages.choose(block)
    assert populated(advised) == page + 1
    assert advised[-1] == (block.ctypes.data, SIZE, mmap.MADV_NOHUGEPAGE)
    # Another block does not try again so soon.
    pages.choose(other)
    assert populated(advised) == page + 1
    block[:] = np.arange(SIZE, dtype=np.uint8)
    assert len(jobs) == 2
    for job in jobs:
        job()
    np.testing.assert_array_equal(block, np.arange(SIZE, dtype=np.uint8))
    assert not other.any()
    assert any(advice == pages._COLLAPSE for _, _, advice in advised)


def test_slow_pages_are_forgotten(jobs, advised, monkeypatch):
    slow_from(monkeypatch, 0)
    pages.choose(mapping())
    monkeypatch.setattr(pages, "_slow_until", time.monotonic() - 1)
    slow_from(monkeypatch, PAGES + 1)
    pages.choose(mapping())
    assert populated(advised) >= PAGES
    assert len(jobs) == 1


def test_what_is_gone_is_not_joined(jobs, advised, monkeypatch):
    slow_from(monkeypatch, 0)
    block = mapping()
    pages.choose(block)
    del block
    gc.collect()
    count = len(advised)
    jobs.pop()()
    assert len(advised) == count


def test_a_system_that_knows_no_such_advice(jobs, monkeypatch):
    def refused(at, size, advice):
        return -1 if advice in (pages._POPULATE_WRITE, pages._COLLAPSE) else 0

    monkeypatch.setattr(pages, "_madvise", lambda: refused)
    block = mapping()
    pages.choose(block)
    block[:] = 7
    assert not jobs
    monkeypatch.setattr(pages, "_slow_until", time.monotonic() + 60)
    pages.choose(block)
    jobs.pop()()
    assert (block == 7).all()


def test_a_block_that_grows_keeps_its_contents(jobs, advised, monkeypatch):
    slow_from(monkeypatch, 10**6)
    pool = Pool()
    block = pool.take(HUGE)
    block[:] = 5
    pool.give(block)
    del block
    before = populated(advised)
    grown = pool.take(2 * HUGE)
    assert grown.nbytes == 2 * HUGE
    assert (grown[:HUGE] == 5).all()  # the same pages
    assert not grown[HUGE:].any()
    assert 0 < populated(advised) - before <= HUGE // pages.LARGE_PAGE


def test_two_threads_make_all_pages(jobs, advised, monkeypatch):
    monkeypatch.setattr(pages, "_SHARED", 2)
    monkeypatch.setattr(pages, "_SLOW", 1e3)
    with mgefn.config.override(num_threads=2):
        block = mapping()
        pages.choose(block)
    made = [at for at, _, advice in advised if advice == pages._POPULATE_WRITE]
    assert sorted(made) == list(pages._large_pages(block))
    assert not jobs
    monkeypatch.setattr(pages, "_SLOW", -1.0)
    with mgefn.config.override(num_threads=2):
        pages.choose(mapping())
    assert populated(advised) - len(made) in (1, 2)  # each thread may meet its own slow page
    assert len(jobs) == 1
