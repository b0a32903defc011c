"""Convolutions as launches on a GPU: which tiles, and which part of the sums a block has.

It depends on shapes alone, as in gpu_lowering.py. What is one product of matrices as it lies is
left to CuPy, which has cuBLAS for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mgefn import dtypes
from mgefn.compiler.codegen.ptx import THREADS
from mgefn.compiler.codegen.ptx_convolution import Convolution, SplitSum
from mgefn.compiler.codegen.values import FLOATS, HALVES, itemsize
from mgefn.compiler.gpu_launch import Launch
from mgefn.compiler.gpu_lowering import MOST_BLOCKS
from mgefn.compiler.native import dtype_name
from mgefn.compiler.steps import Lowered, NativeStep, Place, Scratch, Spot, roots_of
from mgefn.core.avals import contiguous_strides
from mgefn.core.jaxpr import Eqn

WIDE = 1 << 31  # rows, terms or coordinates that a thread can't count in 32 bits
MOST_RANK = 6  # spatial dimensions
BLOCKS_WANTED = 256  # blocks, below which the terms are divided
LEAST_TILES = 16  # tiles of terms that a block adds up where they are
MOST_PARTS = 64  # blocks that share the terms of an output
# (rows, columns, depth, across) of a tile.
SQUARE, TALL, WIDE_TILE, THIN = (64, 64, 16, 4), (256, 16, 16, 4), (16, 256, 16, 4), (256, 1, 4, 1)


def _tile(rows: int, columns: int) -> tuple[int, int, int, int]:
    if columns < 4:
        return THIN
    if columns <= 16 and rows > 64:
        return TALL
    return WIDE_TILE if rows <= 16 and columns > 64 else SQUARE


def _is_product(eqn: Eqn, x: Place) -> bool:
    """Is it one product of matrices for each example, with nothing to be copied before?"""
    p, (a, w) = eqn.params, (v.aval for v in eqn.inputs)
    lhs, rhs, out = p["dimension_numbers"]
    plain = tuple(range(a.ndim))
    return (
        tuple(lhs) == tuple(out) == plain
        and all(w.shape[d] == 1 for d in rhs[2:])
        and all(n == 1 for n in (*p["window_strides"], *p["lhs_dilation"]))
        and all(tuple(pair) == (0, 0) for pair in p["padding"])
        and p["feature_group_count"] == p["batch_group_count"] == 1
        and x.strides == contiguous_strides(a.shape, a.dtype.itemsize)
        and min(w.shape[d] for d in rhs[:2]) >= 16
    )


def _convolution(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    p, (result,) = eqn.params, eqn.out_binders
    (x, w), y = (a.aval for a in eqn.inputs), result.aval
    dtype, out, rank = dtype_name(x), dtype_name(y), x.ndim - 2
    if dtype not in FLOATS | HALVES.keys() or out not in FLOATS | HALVES.keys():
        return None
    if rank > MOST_RANK or _is_product(eqn, places[0]):
        return None
    computed = dtypes.accumulator(y.dtype).name
    if computed not in FLOATS or (out != computed and out not in HALVES):
        return None
    lhs, rhs, spec = p["dimension_numbers"]
    x_at, w_at = places[0].strides, places[1].strides
    y_at = contiguous_strides(y.shape, itemsize(out))
    by_feature, by_batch = p["feature_group_count"], p["batch_group_count"]
    groups = by_feature * by_batch
    examples, features = x.shape[lhs[0]] // by_batch, w.shape[rhs[1]]
    columns = w.shape[rhs[0]] // groups
    x_example, x_feature = x_at[lhs[0]], x_at[lhs[1]]
    x_group = examples * x_example if by_batch > 1 else features * x_feature
    windows, spatial = [w.shape[d] for d in rhs[2:]], [y.shape[d] for d in spec[2:]]
    rows, terms = examples * math.prod(spatial), features * math.prod(windows)
    extents = [(x.shape[d] - 1) * n + 1 for d, n in zip(lhs[2:], p["lhs_dilation"], strict=True)]
    reach = [
        abs(low) + n * stride + q * step + extent
        for (low, _), n, stride, q, step, extent in zip(
            p["padding"], spatial, p["window_strides"], windows, p["rhs_dilation"], extents,
            strict=True,
        )
    ]  # fmt: skip
    if max(rows, terms, columns, *reach, 1) >= WIDE:
        return None
    tile = _tile(rows, columns)
    tiles = (-(-rows // tile[0]), -(-columns // tile[1]))
    blocks = math.prod(tiles) * groups
    depth = tile[2]
    parts = min(
        -(-BLOCKS_WANTED // blocks) if blocks < BLOCKS_WANTED // 2 else 1,
        max(1, terms // (depth * LEAST_TILES)),
        MOST_PARTS,
    )
    share = -(-terms // (parts * depth)) * depth
    parts = -(-terms // share)
    if blocks * parts >= WIDE:
        return None
    batch_last, feature_last = False, False
    row_step, term_step, term_of_w = x_example, x_feature, w_at[rhs[1]]
    if rank:
        last, step_of_w = x_at[lhs[-1]], w_at[rhs[-1]]
        # Indices of which there is one only tell nothing.
        batch_last = examples > 1 and abs(x_example) < abs(last * p["window_strides"][-1])
        feature_last = features > 1 and (
            abs(x_feature) < abs(last * p["rhs_dilation"][-1]) or math.prod(windows) == 1
        )
        row_step = x_example if batch_last else last * p["window_strides"][-1]
        term_step = x_feature if feature_last else last * p["rhs_dilation"][-1]
        term_of_w = w_at[rhs[1]] if feature_last else step_of_w
    by_term = abs(term_step) < abs(row_step), abs(term_of_w) < abs(w_at[rhs[0]])
    kernel = Convolution(
        dtype, computed, computed if parts > 1 else out, rank,
        any(n > 1 for n in p["lhs_dilation"]), batch_last, feature_last, by_term, *tile,
    )  # fmt: skip
    if parts > 1:
        y_at = contiguous_strides(y.shape, itemsize(computed))
    y_feature = y_at[spec[1]]
    numbers = [
        rows, terms, columns, *tiles, groups, share, y.size * itemsize(computed),
        x_example, x_group, x_feature,
        columns * w_at[rhs[0]], w_at[rhs[0]], w_at[rhs[1]],
        y_at[spec[0]], columns * y_feature, y_feature,
    ]  # fmt: skip
    for i in range(rank):
        numbers += [
            spatial[i], windows[i], extents[i], p["lhs_dilation"][i], p["window_strides"][i],
            p["rhs_dilation"][i], p["padding"][i][0],
            x_at[lhs[2 + i]], w_at[rhs[2 + i]], y_at[spec[2 + i]],
        ]  # fmt: skip
    target: Spot = (Scratch(0), 0) if parts > 1 else (result, 0)
    slots = (*((at.root, at.offset) for at in places), target)
    code = [Launch(kernel, slots, tuple(numbers), blocks * parts, kernel.most_threads)]
    scratch = []
    if parts > 1:
        scratch = [parts * y.size * itemsize(computed)]
        grid = min(-(-y.size // THREADS), MOST_BLOCKS)
        own = ((Scratch(0), 0), (result, 0))
        code.append(Launch(SplitSum(computed, out), own, (y.size, parts), grid, THREADS))
    return NativeStep(
        code, roots_of(places), [result], eqn.primitive.name, scratch=scratch,
        flops=2.0 * y.size * terms, moved=x.nbytes + w.nbytes + y.nbytes, sources=[eqn.source],
    )  # fmt: skip


convolution = Lowered(_convolution, dense=False)
