"""Samplers and loaders: the same batches whatever makes them, and from every position."""

from __future__ import annotations

import itertools
import json
import os
import threading
import time

import numpy as np
import pytest

import mgefn
from mgefn import data, random
from mgefn.errors import ArgumentError, ShapeError, WorkerError

N = 23


def flat(batches):
    return [i for batch in batches for i in np.asarray(batch).tolist()]


# -- samplers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("batch_size", [1, 4, 23, 30])
def test_every_number_once(batch_size, drop_last):
    for sampler in (
        data.SequentialSampler(range(N), batch_size, drop_last),
        data.RandomSampler(range(N), batch_size, drop_last, seed=1),
        data.StratifiedSampler(range(N), np.arange(N) % 3, batch_size, drop_last),
    ):
        batches = list(sampler)
        assert len(batches) == len(sampler)
        assert len(set(flat(batches))) == len(flat(batches))
        assert len(flat(batches)) == (N // batch_size * batch_size if drop_last else N)


def test_an_epoch_is_a_function_of_key_and_number():
    a = data.RandomSampler(range(N), 5, key=random.key(1))
    assert flat(a.epoch(3)) == flat(data.RandomSampler(range(N), 5, seed=1).epoch(3))
    assert flat(a.epoch(3)) != flat(a.epoch(4))
    assert sorted(flat(a.epoch(4))) == list(range(N))
    assert flat(data.RandomSampler(range(N), 5, seed=2).epoch(3)) != flat(a.epoch(3))
    some = data.RandomSampler(range(N), 2, indices=[5, 7, 9])
    assert sorted(flat(some)) == [5, 7, 9]
    assert flat(data.SequentialSampler(range(N), 2, indices=[9, 1])) == [9, 1]


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("world_size", [1, 2, 3, 5])
def test_processes_share_an_epoch(world_size, drop_last):
    shares = [
        data.RandomSampler(range(N), 4, drop_last, world_size=world_size, rank=r)
        for r in range(world_size)
    ]
    batches = [list(s.epoch(2)) for s in shares]
    assert len({len(b) for b in batches}) == 1
    assert all(len(b) == len(s) for b, s in zip(batches, shares, strict=True))
    seen = [i for share in batches for i in flat(share)]
    if drop_last:
        assert len(set(seen)) == len(seen)
    else:
        assert set(seen) == set(range(N))
        assert len(seen) < N + world_size


def test_weights():
    weights = np.array([1.0, 0.0, 3.0])
    sampler = data.ReplacementSampler(range(3), 100, num_samples=20_000, weights=weights)
    counts = np.bincount(flat(sampler), minlength=3)
    assert counts.sum() == 20_000
    assert counts[1] == 0
    # five standard deviations of a binomial count
    assert abs(counts[2] - 15_000) < 5 * np.sqrt(20_000 * 0.75 * 0.25)
    assert data.WeightedSampler is data.ReplacementSampler
    for bad in ([1.0, -1.0, 1.0], [0.0] * 3, [np.nan, 1, 1]):
        with pytest.raises(ArgumentError, match="weights must be finite"):
            data.ReplacementSampler(range(3), weights=bad)
    with pytest.raises(ShapeError, match="needs 3 weights"):
        data.ReplacementSampler(range(3), weights=[1.0])


def test_strata():
    labels = np.repeat(["a", "b", "c"], [60, 30, 10])
    sampler = data.StratifiedSampler(range(100), labels, batch_size=10)
    for batch in sampler.epoch(1):
        names, counts = np.unique(labels[batch], return_counts=True)
        assert dict(zip(names, counts, strict=True)) == {"a": 6, "b": 3, "c": 1}
    assert flat(sampler.epoch(1)) != flat(sampler.epoch(0))
    with pytest.raises(ShapeError, match="needs 100 labels"):
        data.StratifiedSampler(range(100), labels[:5])


def test_infinite():
    sampler = data.Infinite(data.SequentialSampler(range(3), 2))
    assert list(itertools.islice(sampler, 5)) == [[0, 1], [2], [0, 1], [2], [0, 1]]
    with pytest.raises(ArgumentError, match="needs a sampler, got list"):
        data.Infinite([1])


def test_bad_samplers():
    with pytest.raises(ArgumentError, match="batch_size must be an integer of 1 or more, got 0"):
        data.SequentialSampler(range(3), 0)
    with pytest.raises(ArgumentError, match=r"rank must be in \[0, 2\), got 2"):
        data.RandomSampler(range(3), world_size=2, rank=2)
    with pytest.raises(ArgumentError, match="a seed or a key, got both"):
        data.RandomSampler(range(3), seed=1, key=random.key(1))
    with pytest.raises(ArgumentError, match="RandomSampler: needs a key"):
        data.RandomSampler(range(3), key=5)
    with pytest.raises(ArgumentError, match="list of integers"):
        data.SequentialSampler(range(3), indices=[0.5])


# -- loaders --------------------------------------------------------------------------------------


class Noise(data.Transform):
    """Draws; and sleeps, so that later batches are ready before earlier ones."""

    def apply(self, sample, key=None):
        x, i = sample
        time.sleep(0.002 * (int(i) % 3))
        return x + data.transforms.Draws(key).uniform(), i


class WhoAmI(data.Transform):
    def apply(self, sample, key=None):
        info = data.get_worker_info()
        return (os.getpid(), -1 if info is None else info.idx)


class Fails:
    def __call__(self, sample):
        raise KeyError("from the transform")


class Dies:
    def __call__(self, sample):
        os._exit(3)


PAIRS = data.ArrayDataset(np.zeros(N), np.arange(N))


def loader(num_workers=0, worker="thread", infinite=False, **kwargs):
    sampler = data.RandomSampler(PAIRS, 4, seed=7)
    return data.DataLoader(
        PAIRS,
        data.Infinite(sampler) if infinite else sampler,
        transform=Noise(),
        num_workers=num_workers,
        worker=worker,
        key=random.key(9),
        **kwargs,
    )


def text(batches):
    return [(x.tobytes().hex(), i.tolist()) for x, i in batches]


def test_epochs_follow_each_other_and_are_reproducible():
    one, two = loader(), loader()
    first, second = text(one), text(one)
    assert first != second
    assert [first, second] == [text(two), text(two)]
    assert len(first) == len(one) == 6
    assert sorted(i for _, batch in first for i in batch) == list(range(N))


@pytest.mark.parametrize("num_workers", [1, 3])
def test_threads_give_the_same_batches(num_workers):
    assert text(loader(num_workers)) == text(loader())


def test_processes_give_the_same_batches():
    made = loader(2, "process")
    assert text(made) == text(loader())


def test_workers_are_others():
    sampler = data.SequentialSampler(PAIRS)
    here = list(data.DataLoader(PAIRS, sampler, WhoAmI()))
    assert {(int(p[0]), int(i[0])) for p, i in here} == {(os.getpid(), -1)}
    threads = list(data.DataLoader(PAIRS, sampler, WhoAmI(), num_workers=2))
    assert {int(p[0]) for p, _ in threads} == {os.getpid()}
    assert {int(i[0]) for _, i in threads} <= {0, 1}
    processes = list(data.DataLoader(PAIRS, sampler, WhoAmI(), num_workers=1, worker="process"))
    assert {int(i[0]) for _, i in processes} == {0}
    assert os.getpid() not in {int(p[0]) for p, _ in processes}


@pytest.mark.parametrize("num_workers", [0, 2])
def test_resuming_at_every_batch_over_epochs(num_workers):
    whole = text(itertools.islice(loader(infinite=True), 15))
    for cut in (0, 1, 5, 6, 7, 12, 13):
        batches = iter(loader(num_workers, infinite=True))
        seen = text(itertools.islice(batches, cut))
        state = json.loads(json.dumps(batches.get_state()))
        batches.close()
        rest = loader(num_workers, infinite=True).resume(state)
        assert seen + text(itertools.islice(rest, 15 - cut)) == whole
        rest.close()


def test_resuming_an_epoch_goes_on_with_the_next():
    plain = loader()
    epochs = [text(plain) for _ in range(3)]
    again = loader()
    assert text(again.resume({"epoch": 1, "batch": 4})) == epochs[1][4:]
    assert text(again) == epochs[2]
    batches = iter(loader())
    next(batches)
    assert text(batches.set_state({"epoch": 1, "batch": 0})) == epochs[1]
    assert text(loader().resume({"epoch": 0, "batch": 6})) == []
    for bad in (None, {}, {"epoch": -1, "batch": 0}, {"epoch": "x", "batch": 0}):
        with pytest.raises(ArgumentError, match="needs a position"):
            loader().resume(bad)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_streams_resume(num_workers):
    stream = data.StreamDataset(lambda: iter(range(10)))

    def made(infinite=False, drop_last=False):
        sampler = data.StreamSampler(4, drop_last)
        return data.DataLoader(
            stream, data.Infinite(sampler) if infinite else sampler, num_workers=num_workers
        )

    assert flat(made()) == list(range(10))
    assert flat(made(drop_last=True)) == list(range(8))
    assert flat(made().resume({"epoch": 0, "batch": 2})) == [8, 9]
    endless = itertools.islice(made(True).resume({"epoch": 0, "batch": 2}), 2)
    assert flat(endless) == [8, 9, 0, 1, 2, 3]


def test_errors_of_the_transform_come_through():
    for kwargs in ({}, {"num_workers": 1}, {"num_workers": 1, "worker": "process"}):
        with pytest.raises(KeyError, match="from the transform"):
            list(data.DataLoader(PAIRS, transform=Fails(), **kwargs))


def test_a_worker_that_dies_is_an_error():
    with pytest.raises(WorkerError, match="a worker process ended before it was done"):
        list(data.DataLoader(PAIRS, transform=Dies(), num_workers=1, worker="process"))


def test_timeout():
    gate = threading.Event()
    slow = data.DataLoader(
        PAIRS, transform=lambda s: gate.wait(10), num_workers=1, timeout=0.05, ahead=1
    )
    batches = iter(slow)
    with pytest.raises(WorkerError, match=r"ready within 0\.05 seconds"):
        next(batches)
    gate.set()
    batches.close()


def test_to_the_device():
    made = data.DataLoader(PAIRS, data.SequentialSampler(PAIRS, 4), preload=True)
    x, _ = next(iter(made))
    assert isinstance(x, mgefn.Array)
    ahead = data.prefetch_to_device(iter(loader()), size=3)
    first = next(ahead)
    assert all(isinstance(part, mgefn.Array) for part in first)
    # What waits on the device does not count.
    assert ahead.get_state() == {"epoch": 0, "batch": 1}
    rest = text([(np.asarray(x), np.asarray(i)) for x, i in ahead])
    assert rest == text(loader())[1:]
    again = data.restore_iterator(data.prefetch_to_device(iter(loader())), {"epoch": 0, "batch": 4})
    assert text([(np.asarray(x), np.asarray(i)) for x, i in again]) == rest[3:]
    with pytest.raises(ArgumentError, match="must have get_state"):
        data.checkpoint_iterator(data.prefetch_to_device([1]))
    with pytest.raises(ArgumentError, match="size must be 1 or more"):
        data.prefetch_to_device([], 0)


def test_bad_loaders():
    with pytest.raises(ArgumentError, match="sampler must be a Sampler, got list"):
        data.DataLoader(PAIRS, [[0]])
    with pytest.raises(ArgumentError, match="a stream needs a StreamSampler"):
        data.DataLoader(PAIRS, data.StreamSampler(2))
    with pytest.raises(ArgumentError, match="transform must be a function"):
        data.DataLoader(PAIRS, transform=3)
    with pytest.raises(ArgumentError, match="worker must be 'thread' or 'process'"):
        next(iter(data.DataLoader(PAIRS, worker="fork", num_workers=1)))
    with pytest.raises(ArgumentError, match="0 or more"):
        data.DataLoader(PAIRS, num_workers=-1)
    assert list(data.DataLoader(data.ArrayDataset(np.zeros((0, 2))))) == []
