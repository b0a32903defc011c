"""Datasets: what has a length and gives the sample of an index, and streams, which only go on.

Samples are pytrees of NumPy arrays, numbers and texts. They stay on the host until a batch is
handed to the program; see `prefetch_to_device`.
"""

from __future__ import annotations

import operator
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import numpy as np

from mgefn import tree
from mgefn.errors import ArgumentError, IndexOutOfBoundsError, ShapeError, api_boundary
from mgefn.io.files import load_arrays
from mgefn.random import key as make_key
from mgefn.random import permutation


def index_of(dataset: Any, index: Any, n: int) -> int:
    """A checked index, counted from the start."""
    try:
        i = operator.index(index)
    except TypeError:
        raise ArgumentError(
            f"{type(dataset).__name__}: an index must be an integer, got {index!r}. Use Subset for "
            "several."
        ) from None
    if not -n <= i < n:
        raise IndexOutOfBoundsError(
            f"{type(dataset).__name__}: the index must be in [-{n}, {n}), got {i}."
        )
    return i % n


class Dataset:
    """Samples by number. Subclasses define `__getitem__`, which takes 0 to len - 1, and `__len__`.

    Example:
        >>> class Squares(mgefn.data.Dataset):
        ...     def __getitem__(self, index):
        ...         return index**2
        ...     def __len__(self):
        ...         return 3
        >>> list(Squares())
        [0, 1, 4]
    """

    def __getitem__(self, index: int) -> Any:
        raise ArgumentError(
            f"{type(self).__name__}: a dataset must define __getitem__(index). Add it."
        )

    def __len__(self) -> int:
        raise ArgumentError(f"{type(self).__name__}: a dataset must define __len__(). Add it.")

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def batch_of(self, indices: np.ndarray) -> Any:
        """Samples already put together, where that is faster than one by one; None where not."""
        return None

    def item(self, index: int) -> Any:
        """The sample of a number that may go on past the end, into the second epoch and further."""
        return self[index % len(self)]


class StreamDataset(Dataset):
    """Samples in a row, without numbers: subclasses define `__iter__`, or pass a function.

    Args:
        make: a function without arguments that begins from the start and gives an iterator.

    A stream that is resumed is read from its start and what was seen is dropped; a subclass that
    can do better defines `iterate_from(count)`.

    Example:
        >>> list(mgefn.data.StreamDataset(lambda: iter("abc")).iterate_from(1))
        ['b', 'c']
    """

    def __init__(self, make: Callable[[], Iterable[Any]] | None = None) -> None:
        self._make = make

    def __iter__(self) -> Iterator[Any]:
        if getattr(self, "_make", None) is None:
            raise ArgumentError(
                f"{type(self).__name__}: a stream must define __iter__(), or be made with a "
                "function that gives an iterator. Add it."
            )
        return iter(self._make())  # type: ignore[misc]

    def __getitem__(self, index: int) -> Any:
        raise ArgumentError("StreamDataset: a stream has no numbers. Iterate over it.")

    def __len__(self) -> int:
        raise ArgumentError("StreamDataset: a stream has no length. Iterate over it.")

    def iterate_from(self, count: int) -> Iterator[Any]:
        """The samples after the first `count`."""
        return islice(iter(self), count, None)


class ArrayDataset(Dataset):
    """Rows of arrays of one length: sample i is the tuple of their rows i.

    Args:
        arrays: arrays, or pytrees of arrays, whose first dimensions are equal.

    Raises:
        ShapeError: the lengths differ, or an array has no dimension.

    Example:
        >>> pairs = mgefn.data.ArrayDataset(np.arange(6).reshape(3, 2), np.array([7, 8, 9]))
        >>> len(pairs), pairs[1]
        (3, (array([2, 3]), np.int64(8)))
    """

    def __init__(self, *arrays: Any) -> None:
        self.arrays = tree.map(_host, arrays)
        leaves = tree.leaves(self.arrays)
        lengths = {a.shape[0] if a.ndim else None for a in leaves}
        if len(lengths) != 1 or None in lengths:
            shapes = [list(a.shape) for a in leaves]
            raise ShapeError(
                f"ArrayDataset: needs arrays of one length, got shapes {shapes}. Give each array "
                "one row a sample."
            )
        (self._length,) = lengths

    def __len__(self) -> int:
        return int(self._length or 0)

    def __getitem__(self, index: int) -> Any:
        i = index_of(self, index, len(self))
        return tree.map(lambda a: a[i], self.arrays)

    def batch_of(self, indices: np.ndarray) -> Any:
        return tree.map(lambda a: a[indices], self.arrays)


class TreeDataset(ArrayDataset):
    """Rows of a pytree of arrays: sample i has the structure of the tree.

    Example:
        >>> mgefn.data.TreeDataset({"x": np.arange(3.0)})[2]
        {'x': np.float64(2.0)}
    """

    def __init__(self, arrays: Any) -> None:
        super().__init__(arrays)
        (self.arrays,) = self.arrays


class FileDataset(TreeDataset):
    """The arrays of a .safetensors, .npz or .npy file, by name; read without pickles.

    Args:
        path: the file.
        names: which of its arrays; all without it.
    """

    def __init__(self, path: Any, names: Sequence[str] | None = None) -> None:
        found = load_arrays(path)
        missing = [n for n in names or () if n not in found]
        if missing:
            raise ArgumentError(
                f"FileDataset: the file must hold {missing}, and has {sorted(found)}."
            )
        super().__init__({n: found[n] for n in (sorted(found) if names is None else names)})


class FolderDataset(Dataset):
    """Files below a folder, in the order of their paths; sample i is what `load` makes of file i.

    Args:
        root: the folder.
        load: path -> sample; without it, the arrays of a .safetensors, .npz or .npy file.
        pattern: which files, as for pathlib.Path.glob.
    """

    def __init__(
        self, root: Any, load: Callable[[Path], Any] = load_arrays, pattern: str = "**/*"
    ) -> None:
        self.root, self.load = Path(root), load
        if not self.root.is_dir():
            raise ArgumentError(f"FolderDataset: {self.root} must be a folder. Correct the path.")
        self.paths = sorted(p for p in self.root.glob(pattern) if p.is_file())

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        return self.load(self.paths[index_of(self, index, len(self))])


class ConcatDataset(Dataset):
    """Datasets one after the other.

    Example:
        >>> both = mgefn.data.ConcatDataset([["a", "b"], ["c"]])
        >>> len(both), both[2]
        (3, 'c')
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if any(isinstance(d, StreamDataset) for d in self.datasets):
            raise ArgumentError("ConcatDataset: takes datasets with a length, got a stream.")
        self.ends = list(accumulate(map(len, self.datasets)))

    def __len__(self) -> int:
        return self.ends[-1] if self.ends else 0

    def __getitem__(self, index: int) -> Any:
        i = index_of(self, index, len(self))
        part = bisect_right(self.ends, i)
        return self.datasets[part][i - (self.ends[part - 1] if part else 0)]


class Subset(Dataset):
    """The samples of some numbers of a dataset, in the order of the numbers.

    Args:
        dataset: a dataset.
        indices: integers, each in [-len, len).
    """

    def __init__(self, dataset: Any, indices: Any) -> None:
        self.dataset = dataset
        n = len(dataset)
        self.indices = np.array([index_of(self, i, n) for i in np.asarray(indices).tolist()], int)

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Any:
        return self.dataset[int(self.indices[index_of(self, index, len(self))])]

    def batch_of(self, indices: np.ndarray) -> Any:
        whole = getattr(self.dataset, "batch_of", None)
        return None if whole is None else whole(self.indices[indices])


@api_boundary
def random_split(dataset: Any, lengths: Sequence[float], key: Any = None) -> list[Subset]:
    """A dataset in parts without overlap, drawn by a key.

    Args:
        dataset: a dataset.
        lengths: integers that add up to len(dataset), or fractions that add up to 1.
        key: a random key; key(0) without it, so that the parts are always the same.

    Returns:
        A Subset for each length.

    Raises:
        ArgumentError: the lengths add up to something else.

    Example:
        >>> [len(part) for part in mgefn.data.random_split(range(10), [0.75, 0.25])]
        [8, 2]
    """
    n = len(dataset)
    sizes = list(lengths)
    if any(isinstance(s, float) for s in sizes) and abs(sum(sizes) - 1) < 1e-9:
        # Each rounded down; what is left over goes to the first parts, one each.
        fractions, sizes = sizes, [int(s * n) for s in sizes]
        for i in range(n - sum(sizes)):
            sizes[i % len(fractions)] += 1
    if sum(sizes) != n or any(int(s) != s or s < 0 for s in sizes):
        raise ArgumentError(
            f"random_split: lengths must add up to {n}, or to 1.0 as fractions, got "
            f"{list(lengths)}."
        )
    order = np.asarray(permutation(make_key(0) if key is None else key, n))
    ends = list(accumulate(int(s) for s in sizes))
    return [
        Subset(dataset, order[end - int(size) : end]) for end, size in zip(ends, sizes, strict=True)
    ]


def _host(a: Any) -> np.ndarray:
    a = np.asarray(a)
    if a.dtype == object:
        raise ArgumentError(
            "ArrayDataset: needs arrays of numbers or texts, got objects. Give all rows one shape."
        )
    return a
