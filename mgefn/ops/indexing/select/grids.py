"""Index arrays of grids: `indices` of a whole one, `ix_` of the one that some vectors span."""

from __future__ import annotations

from collections.abc import Sequence

from mgefn import dtypes
from mgefn.core.array_methods import Array, ArrayLike, DTypeLike
from mgefn.core.avals import ShapedArray
from mgefn.errors import ShapeError, api_boundary
from mgefn.ops.indexing.select.choosing import nonzero
from mgefn.ops.indexing.select.common import BOOL, array_of
from mgefn.ops.shaping import broadcasted_iota, canonical_shape, concatenate_p, iota, reshape, zeros


@api_boundary
def indices(
    dimensions: Sequence[int], dtype: DTypeLike = None, sparse: bool = False
) -> Array | tuple[Array, ...]:
    """The index along each dimension of a grid, as numpy.indices gives it."""
    sizes = canonical_shape("indices", tuple(dimensions))
    new = dtypes.default_int() if dtype is None else dtypes.canonical(dtype)
    if sparse:
        return tuple(
            reshape(iota(new, n), tuple(n if j == i else 1 for j in range(len(sizes))))
            for i, n in enumerate(sizes)
        )
    if not sizes:
        return zeros(ShapedArray((0,), new))
    grids = [reshape(broadcasted_iota(new, sizes, i), (1, *sizes)) for i in range(len(sizes))]
    return concatenate_p.bind1(*grids, dimension=0)


@api_boundary
def ix_(*args: ArrayLike) -> tuple[Array, ...]:
    """Index arrays that pick the grid of some vectors, as numpy.ix_ gives them."""
    out = []
    for k, a in enumerate(args):
        x = array_of("ix_", a)
        if x.ndim != 1:
            raise ShapeError(f"ix_: arguments must have rank 1, got {x.aval}.")
        if x.dtype == BOOL:
            (x,) = nonzero(x)
        shape = [1] * len(args)
        shape[k] = x.shape[0]
        out.append(reshape(x, tuple(shape)))
    return tuple(out)
