"""Datasets, the order of their samples, and batches made ahead; every position is a value.

dataset -> sampler (which samples, by a key) -> transform (by a key) -> collate -> device
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mgefn.data import datasets, transforms
from mgefn.data.collating import Collator, collate
from mgefn.data.loader import (
    DataLoader,
    LoaderIterator,
    checkpoint_iterator,
    prefetch_to_device,
    restore_iterator,
)
from mgefn.data.pipeline import DatasetIterator, batch, map, repeat, shuffle, take, zip
from mgefn.data.samplers import (
    Infinite,
    MapSampler,
    RandomSampler,
    ReplacementSampler,
    Sampler,
    SequentialSampler,
    StratifiedSampler,
    StreamSampler,
    WeightedSampler,
)
from mgefn.data.sources import (
    ArrayDataset,
    ConcatDataset,
    Dataset,
    FileDataset,
    FolderDataset,
    StreamDataset,
    Subset,
    TreeDataset,
    random_split,
)
from mgefn.data.transforms import Compose, PseudoTransform, Transform
from mgefn.data.workers import WorkerInfo, get_worker_info
from mgefn.errors import MissingNameError, explain_constructors

__all__ = [
    "ArrayDataset",
    "Collator",
    "Compose",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DatasetIterator",
    "FileDataset",
    "FolderDataset",
    "Infinite",
    "LoaderIterator",
    "MapSampler",
    "PseudoTransform",
    "RandomSampler",
    "ReplacementSampler",
    "Sampler",
    "SequentialSampler",
    "StratifiedSampler",
    "StreamDataset",
    "StreamSampler",
    "Subset",
    "Transform",
    "TreeDataset",
    "WeightedSampler",
    "WorkerInfo",
    "batch",
    "checkpoint_iterator",
    "collate",
    "datasets",
    "get_worker_info",
    "map",
    "prefetch_to_device",
    "random_split",
    "repeat",
    "restore_iterator",
    "shuffle",
    "take",
    "transforms",
    "zip",
]

explain_constructors(globals(), __all__)


if not TYPE_CHECKING:  # type checkers take a module with __getattr__ to have every name

    def __getattr__(name: str) -> Any:
        raise MissingNameError(__name__, name, __all__)
