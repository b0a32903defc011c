"""Samplers: which numbers make up which batch. The order of an epoch is a function of the key.

`sampler.epoch(e)` gives the batches of epoch e, always the same; nothing is drawn from hidden
state. With `world_size` and `rank` each process gets its share, and all get equally many batches.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import numpy as np

from mgefn.errors import ArgumentError, ShapeError
from mgefn.random import fold_in, permutation, uniform
from mgefn.random import key as make_key
from mgefn.random.keys import key_words


class Sampler:
    """Lists of numbers. Subclasses define `epoch(number)`, which gives arrays of numbers, and
    `__len__`, how many batches an epoch has."""

    infinite = False

    def epoch(self, number: int) -> Iterator[Any]:
        """The batches of an epoch."""
        raise ArgumentError(f"{type(self).__name__}: a sampler must define epoch(number). Add it.")

    def __len__(self) -> int:
        raise ArgumentError(f"{type(self).__name__}: a sampler must define __len__(). Add it.")

    def __iter__(self) -> Iterator[list[int]]:
        return (np.asarray(indices).tolist() for indices in self.epoch(0))


class MapSampler(Sampler):
    """Numbers of a dataset, in order; subclasses define `order(epoch)`.

    Args:
        dataset: a dataset with a length.
        batch_size: how many numbers a batch has; the last may have fewer.
        drop_last: leave out a last batch that has fewer.
        num_samples: how many numbers an epoch has; the length of the dataset without it.
        world_size: how many processes share an epoch. The order is cut into world_size equal
            shares; where the length is no multiple, numbers from the beginning fill up, or with
            drop_last those at the end are left out.
        rank: which of them this is.
        seed: an integer that the key is made of, where the order is drawn.
        key: a random key in its place. The order of an epoch is a function of the key and the
            epoch's number, so that a run can be repeated and resumed. Without seed and key it is
            key(0): each run of a program has the same orders; give another seed for others.

    Raises:
        ArgumentError: a size is no positive integer, or rank is not in [0, world_size).
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        drop_last: bool = False,
        num_samples: int | None = None,
        world_size: int | None = None,
        rank: int | None = None,
        seed: int | None = None,
        *,
        key: Any = None,
    ) -> None:
        name = type(self).__name__
        self.dataset = dataset
        self.batch_size = _positive(name, "batch_size", batch_size)
        self.drop_last = bool(drop_last)
        self.num_samples = (
            len(dataset) if num_samples is None else _positive(name, "num_samples", num_samples)
        )
        self.world_size = 1 if world_size is None else _positive(name, "world_size", world_size)
        self.rank = 0 if rank is None else operator.index(rank)
        if not 0 <= self.rank < self.world_size:
            raise ArgumentError(
                f"{name}: rank must be in [0, {self.world_size}), got {rank}. Pass world_size too."
            )
        if seed is not None and key is not None:
            raise ArgumentError(f"{name}: needs a seed or a key, got both. Leave one out.")
        self.key = make_key(0 if seed is None else seed) if key is None else key
        key_words(name, self.key)  # checked now, not in the first epoch

    def order(self, epoch: int) -> np.ndarray:
        """All numbers of an epoch, for all processes."""
        return np.arange(self.num_samples) % max(len(self.dataset), 1)

    def drawn(self, epoch: int) -> Any:
        """The key of an epoch."""
        return fold_in(self.key, epoch)

    def _share(self, total: int) -> int:
        return total // self.world_size if self.drop_last else -(-total // self.world_size)

    def epoch(self, number: int) -> Iterator[np.ndarray]:
        order = self.order(number)
        if self.world_size > 1 and len(order):
            order = np.resize(order, self._share(len(order)) * self.world_size)
            order = order[self.rank :: self.world_size]
        end = len(self) * self.batch_size
        for start in range(0, end, self.batch_size):
            yield order[start : start + self.batch_size]

    def _size(self) -> int:
        return self.num_samples

    def __len__(self) -> int:
        share = self._share(self._size())
        return share // self.batch_size if self.drop_last else -(-share // self.batch_size)


class SequentialSampler(MapSampler):
    """The numbers of a dataset in order.

    Args:
        indices: numbers to go through instead of all.
        Others: as MapSampler.

    Example:
        >>> list(mgefn.data.SequentialSampler(range(5), batch_size=2))
        [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        drop_last: bool = False,
        indices: Any = None,
        world_size: int | None = None,
        rank: int | None = None,
    ) -> None:
        super().__init__(dataset, batch_size, drop_last, None, world_size, rank)
        self.indices = _indices(type(self).__name__, indices, dataset)

    def order(self, epoch: int) -> np.ndarray:
        return self.indices

    def _size(self) -> int:
        return len(self.indices)


class RandomSampler(MapSampler):
    """The numbers of a dataset, each once, in an order drawn for each epoch: a shuffle.

    Args:
        dataset, batch_size, drop_last, world_size, rank: as for MapSampler.
        indices: numbers to draw from instead of all.
        seed: an integer: random.key(seed) draws the orders.
        key: a random key in its place, not both. Without either it is key(0), and each run of a
            program has the same orders. Epochs have different ones; `iter(sampler)` is the first
            epoch each time, `iter(DataLoader(dataset, sampler))` the next one each time.

    Example:
        >>> sampler = mgefn.data.RandomSampler(range(6), batch_size=3, key=mgefn.random.key(1))
        >>> first = list(sampler)
        >>> first == list(sampler), sorted(sum(first, []))
        (True, [0, 1, 2, 3, 4, 5])
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        drop_last: bool = False,
        indices: Any = None,
        world_size: int | None = None,
        rank: int | None = None,
        seed: int | None = None,
        *,
        key: Any = None,
    ) -> None:
        super().__init__(dataset, batch_size, drop_last, None, world_size, rank, seed, key=key)
        self.indices = _indices(type(self).__name__, indices, dataset)

    def order(self, epoch: int) -> np.ndarray:
        return self.indices[np.asarray(permutation(self.drawn(epoch), len(self.indices)))]

    def _size(self) -> int:
        return len(self.indices)


class ReplacementSampler(MapSampler):
    """Numbers drawn one by one, each time from all, by weights where they are given.

    Args:
        weights: how often each number is drawn, relative to the others; 0 or more each.
        Others: as MapSampler.

    Example:
        >>> sampler = mgefn.data.ReplacementSampler(range(3), 4, weights=[0.0, 1.0, 0.0])
        >>> list(sampler)
        [[1, 1, 1]]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        drop_last: bool = False,
        num_samples: int | None = None,
        weights: Any = None,
        world_size: int | None = None,
        rank: int | None = None,
        seed: int | None = None,
        *,
        key: Any = None,
    ) -> None:
        super().__init__(
            dataset, batch_size, drop_last, num_samples, world_size, rank, seed, key=key
        )
        name, n = type(self).__name__, len(dataset)
        w = np.ones(n) if weights is None else np.asarray(weights, np.float64)
        if w.shape != (n,):
            raise ShapeError(f"{name}: needs {n} weights, got shape {list(w.shape)}.")
        if not np.all(np.isfinite(w)) or np.any(w < 0) or not w.sum() > 0:
            raise ArgumentError(
                f"{name}: weights must be finite, 0 or more, and not all 0. Correct them."
            )
        self._ends = np.cumsum(w) / w.sum()
        self._last = int(np.flatnonzero(w)[-1])

    def order(self, epoch: int) -> np.ndarray:
        u = np.asarray(uniform(self.drawn(epoch), (self.num_samples,), "float64"))
        # u < 1, but the last of the ends may be below 1 by rounding
        return np.minimum(np.searchsorted(self._ends, u, side="right"), self._last)


WeightedSampler = ReplacementSampler


class StratifiedSampler(MapSampler):
    """Every number once, in an order in which each stretch has the classes in their proportions.

    Args:
        dataset: a dataset with a length.
        labels: the class of each number.
        Others: as MapSampler.

    Example:
        >>> labels = np.array([0, 0, 0, 0, 1, 1])
        >>> sampler = mgefn.data.StratifiedSampler(range(6), labels, batch_size=3)
        >>> [sorted(labels[batch].tolist()) for batch in sampler]
        [[0, 0, 1], [0, 0, 1]]
    """

    def __init__(
        self,
        dataset: Any,
        labels: Any,
        batch_size: int = 1,
        drop_last: bool = False,
        world_size: int | None = None,
        rank: int | None = None,
        seed: int | None = None,
        *,
        key: Any = None,
    ) -> None:
        super().__init__(dataset, batch_size, drop_last, None, world_size, rank, seed, key=key)
        _, self._classes = np.unique(np.asarray(labels), return_inverse=True)
        if self._classes.shape != (len(dataset),):
            raise ShapeError(
                f"StratifiedSampler: needs {len(dataset)} labels, got shape "
                f"{list(np.shape(labels))}."
            )

    def order(self, epoch: int) -> np.ndarray:
        shuffled = np.asarray(permutation(self.drawn(epoch), len(self._classes)))
        # The k-th of a class of n has its place at (k + 1/2) / n of the epoch.
        place = np.empty(len(shuffled))
        classes = self._classes[shuffled]
        for c in range(classes.max(initial=-1) + 1):
            (members,) = np.nonzero(classes == c)
            place[members] = (np.arange(len(members)) + 0.5) / len(members)
        return shuffled[np.argsort(place, kind="stable")]


class StreamSampler(Sampler):
    """How many samples of a stream make a batch.

    Args:
        batch_size: so many.
        drop_last: leave out a last batch that has fewer.
    """

    def __init__(self, batch_size: int = 1, drop_last: bool = False) -> None:
        self.batch_size = _positive(type(self).__name__, "batch_size", batch_size)
        self.drop_last = bool(drop_last)


class Infinite(Sampler):
    """A sampler whose epochs follow each other without end.

    Args:
        sampler: a sampler with epochs.
    """

    infinite = True

    def __init__(self, sampler: Sampler) -> None:
        if not isinstance(sampler, Sampler):
            raise ArgumentError(
                f"Infinite: needs a sampler, got {type(sampler).__name__}. Pass RandomSampler(...)."
            )
        self.sampler = sampler

    def epoch(self, number: int) -> Iterator[Any]:
        return self.sampler.epoch(number)

    def __iter__(self) -> Iterator[list[int]]:
        number = 0
        while len(self.sampler):
            yield from (np.asarray(indices).tolist() for indices in self.epoch(number))
            number += 1

    def __len__(self) -> int:
        return len(self.sampler)


def _positive(name: str, what: str, x: Any) -> int:
    try:
        n = operator.index(x)
    except TypeError:
        n = 0
    if n < 1:
        raise ArgumentError(f"{name}: {what} must be an integer of 1 or more, got {x!r}.")
    return n


def _indices(name: str, indices: Any, dataset: Any) -> np.ndarray:
    if indices is None:
        return np.arange(len(dataset))
    found = np.asarray(indices)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise ArgumentError(f"{name}: indices must be a list of integers, got {indices!r}.")
    return found.astype(np.int64)
