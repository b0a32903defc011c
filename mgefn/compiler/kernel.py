"""Loop nests: what one fused kernel computes, apart from any sizes.

A `Kernel` is hashable and says everything that decides the native code: how many loops there are,
which values are loaded, computed, reduced and stored, and whether the innermost stride of an
access is 1, 0 or something else. Sizes, strides, offsets and most constants are run-time numbers
in a descriptor, so a new shape of the same rank needs no new code.

The loops are outer ones, over [begin, end) of their product, and inner ones over the row, the last
of which runs in vectors. A row is read several times where a reduction over it feeds what follows:
stage 0 computes what needs no reduction, stage 1 what needs those of stage 0, and so on. Values
that do not vary within the row are computed once a row, as scalars.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

# How an access moves along the innermost loop.
UNIT, ZERO, STRIDED = "unit", "zero", "strided"
BACKWARD, PAIRS = "backward", "pairs"  # by -1 element and by 2

# How the rows of a kernel lie in its parallel domain.
ROWS = "rows"  # the domain counts rows
FLAT = "flat"  # one row, which the domain divides: [begin, end) are elements
RAGGED = "ragged"  # one row in pieces of equal length, but for the last; the domain counts pieces
ACROSS = "across"  # short rows, many of them in a vector: see codegen.across
TILED = "tiled"  # rows in tiles, where some memory is walked down its columns: see codegen.tiled

MOST_ACROSS = 8  # elements of a row that vectors run across
TILE = 16  # rows: as many float32 as a line of the cache holds
BAND = 4 * TILE  # rows of tiles that are done together, as what is walked down lies far apart

# What an access is.
LOAD, STORE, INDEX, KEEP, GATHERED = "load", "store", "index", "keep", "gathered"


# How far ahead of its use memory is asked for: AHEAD_BYTES, or in the first loop over a row that
# reads something else also what lies at the same place of the next row.
AHEAD, NEXT_ROW = "ahead", "next row"
AHEAD_BYTES = 2048


class Access(NamedTuple):
    """Memory that a kernel reads or writes, or for INDEX the numbers of positions.

    KEEP is memory for a row of each chunk, that a later stage reads again; GATHERED the same, for
    sums over the outer loops.
    """

    kind: str
    dtype: str
    inner: str
    varies: bool  # within the row
    # Is it written past the caches, or read ahead of its use? AHEAD or NEXT_ROW if that.
    past: bool = False
    ahead: str = ""
    turned: bool = False  # of TILED: do the elements of a column lie side by side?


class Node(NamedTuple):
    """A value: op is "load", "index", "inside", "const", "apply" or "reduce".

    A "load" with operands reads an array that is padded: the first is the padding, the others are
    conditions, of which all must hold where there is memory. Such a condition, "inside", is that a
    position is at least 0 and less than a run-time constant.
    """

    op: str
    dtype: str
    ins: tuple[int, ...]
    # access number | access and number of a constant | literal or number of a run-time constant |
    # row and params | kind
    data: Any
    in_row: bool  # does it vary within the row?
    stage: int


class Kernel(NamedTuple):
    """A loop nest; see the module's docstring.

    Of ACROSS the two inner loops are the row and the loop in vectors; `varies` is within the row,
    and a keep has no access.
    """

    layout: str
    outer: int  # loops
    inner: int  # loops of a row
    width: int  # elements of a vector
    accesses: tuple[Access, ...]
    nodes: tuple[Node, ...]
    stores: tuple[tuple[int, int], ...]  # (node, access)
    keeps: tuple[tuple[int, int], ...]  # (node, access): computed at its stage, then read again
    sums: tuple[tuple[str, int, int], ...]  # (kind, node, access) over the outer loops
    led: bool  # the sums begin anew every so many rows; else once a chunk
    constants: int  # run-time constants


def bits_of_constant(value: Any, dtype: str) -> int:
    """A run-time constant as an i64: floats as a double's bits, so that one load serves all."""
    if dtype in ("float16", "bfloat16"):
        dtype = "float32"
    kind = np.dtype(dtype).kind
    if kind == "f":
        return int(np.float64(value).view(np.int64))
    return (
        int(np.asarray(value).astype(np.int64))
        if kind != "u"
        else int(np.asarray(value).astype(np.uint64).view(np.int64))
    )
