"""Batches: samples put together leaf by leaf."""

from __future__ import annotations

from typing import Any

import numpy as np

from mgefn import dtypes, tree
from mgefn.errors import ArgumentError, OverflowDTypeError, ShapeError, TreeError, api_boundary


class Collator:
    """Puts samples together; a subclass that does otherwise defines `apply`.

    Example:
        >>> mgefn.data.Collator().apply([1.5, 2.5])
        array([1.5, 2.5], dtype=float32)
    """

    def apply(self, inputs: list[Any]) -> Any:
        """The batch of a list of samples."""
        return collate(inputs)

    def __call__(self, inputs: list[Any]) -> Any:
        return self.apply(inputs)


@api_boundary
def collate(samples: list[Any]) -> Any:
    """Samples of one structure, put together leaf by leaf along a new first dimension.

    Python numbers become arrays of the default dtypes, texts a list.

    Raises:
        ArgumentError: there is no sample. ShapeError: shapes differ. TreeError: structures do.

    Example:
        >>> mgefn.data.collate([{"x": np.zeros(2), "y": 1}, {"x": np.ones(2), "y": 2}])
        {'x': array([[0., 0.],
               [1., 1.]]), 'y': array([1, 2], dtype=int32)}
    """
    samples = list(samples)
    if not samples:
        raise ArgumentError("collate: needs a sample at least, got none.")
    first = tree.structure(samples[0])
    for i, other in enumerate(samples[1:], 1):
        if tree.structure(other) != first:
            raise TreeError(
                f"collate: samples must have one structure, got {first} and, {i} later, "
                f"{tree.structure(other)}. Make them alike with a transform."
            )
    return tree.map(lambda *leaves: _stacked(leaves), *samples)


def _stacked(leaves: tuple[Any, ...]) -> Any:
    if any(isinstance(leaf, (str, bytes)) for leaf in leaves):
        return list(leaves)
    if all(type(leaf) in (bool, int, float, complex) for leaf in leaves):
        try:
            return np.array(leaves, _default(leaves))
        except OverflowError:
            raise OverflowDTypeError(
                f"collate: integers must fit {_default(leaves)}, got {max(leaves, key=abs)}. Give "
                "them a dtype, as in np.int64(x)."
            ) from None
    arrays = [np.asarray(leaf) for leaf in leaves]
    shapes = {a.shape for a in arrays}
    if len(shapes) > 1:
        raise ShapeError(
            f"collate: samples must have one shape, got {sorted(map(list, shapes))}. Crop, resize "
            "or pad them with a transform."
        )
    return np.stack(arrays)


def _default(numbers: tuple[Any, ...]) -> np.dtype:
    kinds = {type(x) for x in numbers}
    if kinds == {bool}:
        return np.dtype(bool)
    if complex in kinds:
        return np.dtype(dtypes.default_complex())
    return np.dtype(dtypes.default_float() if float in kinds else dtypes.default_int())
