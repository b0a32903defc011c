"""NumPy's functions that choose, move or repeat elements by index.

None has a primitive of its own: static ones are slices, reshapes and pads, the others gathers. A
function whose result size depends on values (nonzero, compress, ...) takes `size` for use under
jit; without it the values must be known.
"""

from __future__ import annotations

from mgefn.ops.indexing.select.choosing import (
    argwhere,
    choose,
    compress,
    extract,
    flatnonzero,
    nonzero,
    piecewise,
    select,
)
from mgefn.ops.indexing.select.common import BOOL, as_size, known
from mgefn.ops.indexing.select.flat_indices import ravel_multi_index, unravel_index
from mgefn.ops.indexing.select.grids import indices, ix_
from mgefn.ops.indexing.select.putting import fill_diagonal, place, put, put_along_axis
from mgefn.ops.indexing.select.rearranging import append, delete, insert, repeat, roll, tile
from mgefn.ops.indexing.select.taking import take, take_along_axis
from mgefn.ops.indexing.select.triangles import (
    diag,
    diag_indices,
    diag_indices_from,
    diagflat,
    diagonal,
    mask_indices,
    trace,
    tri,
    tril,
    tril_indices,
    tril_indices_from,
    triu,
    triu_indices,
    triu_indices_from,
)

__all__ = [
    "BOOL",
    "append",
    "argwhere",
    "as_size",
    "choose",
    "compress",
    "delete",
    "diag",
    "diag_indices",
    "diag_indices_from",
    "diagflat",
    "diagonal",
    "extract",
    "fill_diagonal",
    "flatnonzero",
    "indices",
    "insert",
    "ix_",
    "known",
    "mask_indices",
    "nonzero",
    "piecewise",
    "place",
    "put",
    "put_along_axis",
    "ravel_multi_index",
    "repeat",
    "roll",
    "select",
    "take",
    "take_along_axis",
    "tile",
    "trace",
    "tri",
    "tril",
    "tril_indices",
    "tril_indices_from",
    "triu",
    "triu_indices",
    "triu_indices_from",
    "unravel_index",
]
