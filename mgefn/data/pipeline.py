"""Datasets of datasets: map, shuffle, repeat, batch, take, zip.

Each gives a dataset again, computed when an item is asked for. All stay addressable by number, so
the position of an iteration is one integer, and resuming costs nothing. Numbers past the end lead
into the next epoch, which `shuffle` orders anew and random transforms draw anew.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from mgefn.data.collating import collate
from mgefn.data.sources import Dataset, StreamDataset, index_of
from mgefn.errors import ArgumentError, api_boundary
from mgefn.random import fold_in, permutation
from mgefn.random import key as make_key


class Derived(Dataset):
    """A dataset whose items are computed from those of others."""

    def __init__(self, length: int, item: Callable[[int], Any]) -> None:
        self._length, self._item = length, item

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Any:
        return self._item(index_of(self, index, self._length))

    def item(self, index: int) -> Any:
        return self._item(index)

    def iterate(self) -> DatasetIterator:
        """An iterator whose position can be kept."""
        return DatasetIterator(self)


def _getter(operation: str, dataset: Any) -> tuple[int, Callable[[int], Any]]:
    """The length, and number -> item for numbers past the end too."""
    if isinstance(dataset, StreamDataset) or not (
        hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
    ):
        raise ArgumentError(
            f"{operation}: needs a dataset with a length and numbers, got "
            f"{type(dataset).__name__}. Put the samples of a stream in a list first."
        )
    n = len(dataset)
    if isinstance(dataset, Dataset):
        return n, dataset.item
    return n, lambda i: dataset[i % n]


@api_boundary
def map(dataset: Any, f: Callable[..., Any], key: Any = None) -> Derived:
    """The dataset of f(sample).

    Args:
        dataset: a dataset.
        f: sample -> sample; with a key, (sample, key) -> sample.
        key: a random key; f gets fold_in(key, number), another one in each epoch.

    Example:
        >>> list(mgefn.data.map([1, 2, 3], lambda x: 10 * x))
        [10, 20, 30]
    """
    n, get = _getter("map", dataset)
    if not callable(f):
        raise ArgumentError(f"map: f must be a function, got {f!r}. Pass the dataset first.")
    if key is None:
        return Derived(n, lambda i: f(get(i)))
    return Derived(n, lambda i: f(get(i), fold_in(key, i)))


@api_boundary
def shuffle(dataset: Any, key: Any = None) -> Derived:
    """The dataset in an order drawn by a key; `repeat` of it draws another for each epoch.

    Example:
        >>> sorted(mgefn.data.shuffle(range(5), mgefn.random.key(1)))
        [0, 1, 2, 3, 4]
    """
    n, get = _getter("shuffle", dataset)
    key = make_key(0) if key is None else key
    kept: dict[int, np.ndarray] = {}

    def item(i: int) -> Any:
        epoch, place = divmod(i, n)
        order = kept.get(epoch)
        if order is None:
            order = np.asarray(permutation(fold_in(key, epoch), n))
            kept.clear()  # one order at a time is enough for whoever goes forward
            kept[epoch] = order
        return get(epoch * n + int(order[place]))

    return Derived(n, item)


@api_boundary
def repeat(dataset: Any, num_epochs: int | None = None) -> Derived:
    """The dataset again and again; without a number, for ever.

    Example:
        >>> list(mgefn.data.repeat("ab", 2))
        ['a', 'b', 'a', 'b']
    """
    n, get = _getter("repeat", dataset)
    if num_epochs is not None and num_epochs < 0:
        raise ArgumentError(f"repeat: num_epochs must be 0 or more, got {num_epochs}.")
    return Derived(sys.maxsize if num_epochs is None and n else n * (num_epochs or 0), get)


@api_boundary
def take(dataset: Any, count: int) -> Derived:
    """The first `count` items, or all if there are fewer.

    Example:
        >>> list(mgefn.data.take(range(10), 2))
        [0, 1]
    """
    n, get = _getter("take", dataset)
    if count < 0:
        raise ArgumentError(f"take: count must be 0 or more, got {count}.")
    kept = min(n, count)
    return Derived(kept, lambda i: get(i // kept * n + i % kept))


@api_boundary
def zip(*datasets: Any) -> Derived:
    """The dataset of tuples of the items of equal number, as long as the shortest.

    Example:
        >>> list(mgefn.data.zip("ab", range(5)))
        [('a', 0), ('b', 1)]
    """
    if not datasets:
        raise ArgumentError("zip: needs a dataset at least.")
    parts = [_getter("zip", d) for d in datasets]
    shortest = min(n for n, _ in parts)
    return Derived(
        shortest,
        lambda i: tuple([get(i // shortest * n + i % shortest) for n, get in parts]),
    )


@api_boundary
def batch(
    dataset: Any,
    batch_size: int,
    drop_remainder: bool = False,
    batch_fn: Callable[[list[Any]], Any] | None = None,
) -> Derived:
    """The dataset of batches: items in a row, put together.

    Args:
        dataset: a dataset.
        batch_size: how many items a batch has; the last may have fewer.
        drop_remainder: leave out a last batch that has fewer.
        batch_fn: list of items -> batch; `collate` without it.

    Example:
        >>> list(mgefn.data.batch([1.0, 2.0, 3.0], 2))
        [array([1., 2.], dtype=float32), array([3.], dtype=float32)]
    """
    n, get = _getter("batch", dataset)
    if batch_size < 1:
        raise ArgumentError(f"batch: batch_size must be 1 or more, got {batch_size}.")
    put_together = collate if batch_fn is None else batch_fn
    count = n // batch_size if drop_remainder else -(-n // batch_size)

    def item(i: int) -> Any:
        epoch, place = divmod(i, count)
        start = place * batch_size
        return put_together([get(epoch * n + j) for j in range(start, min(start + batch_size, n))])

    return Derived(count, item)


class DatasetIterator:
    """Goes through a dataset; its position is a value.

    Example:
        >>> numbers = mgefn.data.DatasetIterator(mgefn.data.repeat(range(3)))
        >>> [next(numbers) for _ in range(4)]
        [0, 1, 2, 0]
        >>> position = numbers.get_state()
        >>> position
        {'next': 4}
        >>> next(numbers), next(numbers.set_state(position))
        (1, 1)
    """

    def __init__(self, dataset: Any, start: int = 0) -> None:
        self._length, self._get = _getter("DatasetIterator", dataset)
        self._next = start

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._next >= self._length:
            raise StopIteration
        made = self._get(self._next)
        self._next += 1
        return made

    def get_state(self) -> dict[str, int]:
        """The position, which json can write."""
        return {"next": self._next}

    def set_state(self, state: dict[str, int]) -> DatasetIterator:
        """Go to a position that get_state gave; returns the iterator."""
        self._next = int(state["next"])
        return self
