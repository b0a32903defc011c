"""DataLoader: batches of a dataset in the order of a sampler, made ahead by workers.

The position of an iterator is a value: {"epoch": e, "batch": b}, the next batch it will give. What
workers have made ahead does not count. A batch is a function of the dataset, the sampler, the key
and this position, whatever the number of workers, so a run that is resumed sees what it would have
seen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from mgefn.api.inspection import device_put
from mgefn.data.collating import Collator
from mgefn.data.samplers import Infinite, Sampler, SequentialSampler, StreamSampler
from mgefn.data.sources import StreamDataset
from mgefn.data.transforms.base import Transform
from mgefn.data.workers import Workers
from mgefn.errors import ArgumentError, api_boundary
from mgefn.random import key as make_key
from mgefn.random.keys import key_words


class _MakeBatch:
    """From numbers, or from samples of a stream, to a batch. Goes to processes by pickle."""

    def __init__(self, dataset: Any, transform: Any, collator: Any, words: tuple[int, ...]):
        self.dataset, self.transform, self.collator, self.words = (
            dataset,
            transform,
            collator,
            words,
        )

    def __call__(self, epoch: int, first: int, indices: Any, samples: list[Any] | None) -> Any:
        if samples is None:
            whole = getattr(self.dataset, "batch_of", None)
            if self.transform is None and type(self.collator) is Collator and whole is not None:
                made = whole(np.asarray(indices))
                if made is not None:
                    return made
            samples = [self.dataset[i] for i in np.asarray(indices).tolist()]
        if isinstance(self.transform, Transform):
            # By its place in the epoch, not by its number, which may be drawn twice.
            samples = [
                self.transform.apply(s, (*self.words, epoch, first + i))
                for i, s in enumerate(samples)
            ]
        elif self.transform is not None:
            samples = [self.transform(s) for s in samples]
        return self.collator(samples)


class DataLoader:
    """Batches of a dataset.

    Args:
        dataset: a Dataset, a StreamDataset, or anything with a length and numbers.
        sampler: which samples make up which batch. Without it: in order, one each.
        transform: sample -> sample. A Transform is driven by the key: what it draws depends on the
            key, the epoch and the place in the epoch.
        collator: list of samples -> batch; `Collator()` without it.
        num_workers: threads or processes that make batches ahead; 0 makes them when asked for.
        timeout: seconds to wait for a batch; 0 for ever.
        preload: give arrays of mgefn, put on the device ahead, instead of NumPy's.
        key: a random key for the transform; key(0) without it.
        worker: "thread", or "process" for transforms that keep Python itself busy.
        ahead: how many batches are made ahead; 2 a worker without it.

    `iter(loader)` goes through one epoch, each time the next; through all of them if the sampler
    is Infinite. `loader.resume(state)` goes on from a position.

    Example:
        >>> dataset = mgefn.data.ArrayDataset(np.arange(4.0), np.arange(4))
        >>> sampler = mgefn.data.SequentialSampler(dataset, batch_size=2)
        >>> loader = mgefn.data.DataLoader(dataset, sampler)
        >>> batches = iter(loader)
        >>> next(batches)
        (array([0., 1.]), array([0, 1]))
        >>> batches.get_state()
        {'epoch': 0, 'batch': 1}
        >>> next(loader.resume({'epoch': 0, 'batch': 1}))
        (array([2., 3.]), array([2, 3]))
    """

    def __init__(
        self,
        dataset: Any,
        sampler: Sampler | None = None,
        transform: Any = None,
        collator: Any = None,
        num_workers: int = 0,
        timeout: float = 0,
        preload: bool = False,
        *,
        key: Any = None,
        worker: str = "thread",
        ahead: int | None = None,
    ) -> None:
        self.is_stream = isinstance(dataset, StreamDataset)
        if sampler is None:
            sampler = StreamSampler() if self.is_stream else SequentialSampler(dataset)
        kind = sampler.sampler if isinstance(sampler, Infinite) else sampler
        if not isinstance(sampler, Sampler):
            raise ArgumentError(
                f"DataLoader: sampler must be a Sampler, got {type(sampler).__name__}. Pass "
                "RandomSampler(dataset, batch_size)."
            )
        if self.is_stream != isinstance(kind, StreamSampler):
            raise ArgumentError(
                f"DataLoader: a stream needs a StreamSampler, other datasets another, got "
                f"{type(dataset).__name__} with {type(kind).__name__}."
            )
        for name, value in (("transform", transform), ("collator", collator)):
            if value is not None and not callable(value):
                raise ArgumentError(f"DataLoader: {name} must be a function, got {value!r}.")
        if num_workers < 0 or timeout < 0 or (ahead is not None and ahead < 1):
            raise ArgumentError(
                f"DataLoader: num_workers and timeout must be 0 or more and ahead 1 or more, got "
                f"{num_workers}, {timeout} and {ahead}."
            )
        words = key_words("DataLoader", make_key(0) if key is None else key)
        self.dataset, self.sampler = dataset, sampler
        self.num_workers, self.preload, self.timeout = num_workers, preload, timeout
        self.worker = worker
        self.ahead = ahead or max(2 * num_workers, 1)
        self.make_batch = _MakeBatch(
            dataset, transform, collator or Collator(), tuple(np.asarray(words).tolist())
        )
        self._next_epoch = 0

    def __len__(self) -> int:
        """How many batches an epoch has."""
        return len(self.sampler)

    def __iter__(self) -> LoaderIterator:
        epoch = self._next_epoch
        self._next_epoch += 1
        return LoaderIterator(self, epoch, 0)

    def resume(self, state: dict[str, int]) -> LoaderIterator:
        """An iterator that goes on from a position that get_state gave."""
        epoch, batch = _position("DataLoader.resume", state)
        self._next_epoch = epoch + 1
        return LoaderIterator(self, epoch, batch)


def _position(operation: str, state: Any) -> tuple[int, int]:
    try:
        epoch, batch = int(state["epoch"]), int(state["batch"])
    except (TypeError, KeyError, ValueError):
        epoch = batch = -1
    if epoch < 0 or batch < 0:
        raise ArgumentError(
            f"{operation}: needs a position such as {{'epoch': 0, 'batch': 3}}, got {state!r}. "
            "Pass what get_state gave."
        )
    return epoch, batch


class LoaderIterator:
    """Batches from a position on. Made by DataLoader."""

    def __init__(self, loader: DataLoader, epoch: int, batch: int) -> None:
        self._loader = loader
        self._workers: Workers | None = None
        self._begin(epoch, batch)

    def _begin(self, epoch: int, batch: int) -> None:
        self._epoch, self._batch = epoch, batch
        self._tasks = self._plan(epoch, batch)
        self._made: deque[tuple[int, int, Any]] = deque()  # position, future
        self._done = False

    def _plan(self, epoch: int, batch: int) -> Iterator[tuple[int, int, tuple[Any, ...]]]:
        """Positions and arguments of _MakeBatch, from a position on."""
        sampler = self._loader.sampler
        while True:
            found = False
            tasks = (
                self._stream(epoch, batch)
                if self._loader.is_stream
                else (
                    (b, (epoch, first, indices, None))
                    for b, first, indices in self._numbers(epoch)
                    if b >= batch
                )
            )
            for b, task in tasks:
                found = True
                yield epoch, b, task
            if not sampler.infinite or not (found or batch):
                return
            epoch, batch = epoch + 1, 0

    def _numbers(self, epoch: int) -> Iterator[tuple[int, int, Any]]:
        first = 0
        for b, indices in enumerate(self._loader.sampler.epoch(epoch)):
            yield b, first, indices
            first += len(indices)

    def _stream(self, epoch: int, batch: int) -> Iterator[tuple[int, tuple[Any, ...]]]:
        sampler = self._loader.sampler
        kind: Any = sampler.sampler if isinstance(sampler, Infinite) else sampler
        samples = iter(self._loader.dataset.iterate_from(batch * kind.batch_size))
        while some := list(islice(samples, kind.batch_size)):
            if len(some) < kind.batch_size and kind.drop_last:
                return
            yield batch, (epoch, batch * kind.batch_size, None, some)
            batch += 1

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._done:
            raise StopIteration
        loader = self._loader
        if self._workers is None:
            self._workers = Workers(
                loader.make_batch, loader.num_workers, loader.worker, loader.timeout
            )
        while len(self._made) < loader.ahead:
            task = next(self._tasks, None)
            if task is None:
                break
            epoch, batch, args = task
            self._made.append((epoch, batch, self._workers.submit(*args)))
        if not self._made:
            self.close()
            self._done = True
            raise StopIteration
        epoch, batch, future = self._made.popleft()
        made = self._workers.result(future)
        self._epoch, self._batch = epoch, batch + 1
        return device_put(made) if loader.preload else made

    def get_state(self) -> dict[str, int]:
        """The position of the batch that comes next, which json can write."""
        return {"epoch": self._epoch, "batch": self._batch}

    def set_state(self, state: dict[str, int]) -> LoaderIterator:
        """Go to a position that get_state gave; returns the iterator."""
        position = _position("LoaderIterator.set_state", state)
        for _, _, future in self._made:
            future.cancel()
        self._begin(*position)
        return self

    def close(self) -> None:
        """End the workers."""
        if self._workers is not None:
            self._workers.close()
            self._workers = None

    def __del__(self) -> None:
        if getattr(self, "_workers", None) is not None:
            self.close()


class _Prefetch:
    """Batches on their way to the device. Its position is that of the next batch it gives."""

    def __init__(self, iterator: Iterator[Any], size: int, device: Any) -> None:
        self._iterator, self._size, self._device = iterator, size, device
        self._waiting: deque[tuple[Any, Any]] = deque()  # batch, position after it
        self._position = _state_of(iterator)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        while len(self._waiting) < self._size:
            try:
                made = next(self._iterator)
            except StopIteration:
                break
            self._waiting.append((device_put(made, self._device), _state_of(self._iterator)))
        if not self._waiting:
            raise StopIteration
        made, self._position = self._waiting.popleft()
        return made

    def get_state(self) -> Any:
        """The position of the batch that comes next."""
        if self._position is None:
            raise ArgumentError(
                "prefetch_to_device: the iterator below must have get_state. Prefetch a "
                "DataLoader's iterator."
            )
        return self._position

    def set_state(self, state: Any) -> _Prefetch:
        """Go to a position; returns the iterator."""
        self._iterator.set_state(state)  # type: ignore[attr-defined]
        self._waiting.clear()
        self._position = state
        return self


def _state_of(iterator: Any) -> Any:
    get = getattr(iterator, "get_state", None)
    return None if get is None else get()


@api_boundary
def prefetch_to_device(
    iterator: Iterable[Any], size: int = 2, devices: Any = None
) -> Iterator[Any]:
    """Batches as arrays of mgefn, put on the device `size` batches ahead.

    Args:
        iterator: batches of NumPy arrays.
        size: how many batches wait on the device.
        devices: a device, or a list of one; the default device without it.

    Returns:
        An iterator. It has get_state and set_state where `iterator` has them.

    Example:
        >>> list(mgefn.data.prefetch_to_device([np.zeros(1), np.ones(1)]))
        [Array([0.], dtype=float64), Array([1.], dtype=float64)]
    """
    if size < 1:
        raise ArgumentError(f"prefetch_to_device: size must be 1 or more, got {size}.")
    if isinstance(devices, (list, tuple)):
        if len(devices) > 1:
            raise ArgumentError(
                f"prefetch_to_device: takes one device, got {len(devices)}. Shard the batch "
                "with device_put."
            )
        devices = devices[0] if devices else None
    return _Prefetch(iter(iterator), size, devices)


@api_boundary
def checkpoint_iterator(iterator: Any) -> Any:
    """The position of an iterator as a value that json can write.

    Args:
        iterator: of a DataLoader, a dataset or prefetch_to_device.

    Example:
        >>> numbers = mgefn.data.DatasetIterator(range(5))
        >>> _ = next(numbers)
        >>> mgefn.data.checkpoint_iterator(numbers)
        {'next': 1}
    """
    if not hasattr(iterator, "get_state"):
        raise ArgumentError(
            f"checkpoint_iterator: needs an iterator with a position, got "
            f"{type(iterator).__name__}. Iterate over a DataLoader or a DatasetIterator."
        )
    return iterator.get_state()


@api_boundary
def restore_iterator(iterator: Any, state: Any) -> Any:
    """The iterator, moved to a position that checkpoint_iterator gave."""
    if not hasattr(iterator, "set_state"):
        raise ArgumentError(
            f"restore_iterator: needs an iterator with a position, got {type(iterator).__name__}."
        )
    return iterator.set_state(state)
