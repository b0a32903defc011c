"""Indexing: reading and writing elements at places that are static, traced or computed.

`gather.py` holds the general primitives, `slices.py` those of one window, `numpy_index.py` x[index],
`updates.py` x.at[index], and `select.py` NumPy's functions that choose or repeat elements.
"""

from __future__ import annotations

from mgefn.ops.indexing.gather import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    gather,
    gather_p,
    scatter,
    scatter_add,
    scatter_add_p,
    scatter_max,
    scatter_max_p,
    scatter_min,
    scatter_min_p,
    scatter_mul,
    scatter_mul_p,
    scatter_p,
    scatter_sub,
)
from mgefn.ops.indexing.numpy_index import getitem, index_get
from mgefn.ops.indexing.slices import (
    dynamic_index_in_dim,
    dynamic_slice,
    dynamic_slice_in_dim,
    dynamic_slice_p,
    dynamic_update_index_in_dim,
    dynamic_update_slice,
    dynamic_update_slice_in_dim,
    dynamic_update_slice_p,
    index_in_dim,
    index_take,
)
from mgefn.ops.indexing.updates import (
    index_add,
    index_apply,
    index_divide,
    index_max,
    index_min,
    index_multiply,
    index_power,
    index_set,
    index_subtract,
)
