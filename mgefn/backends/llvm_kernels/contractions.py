"""Matrix products: which native kernel takes a dot_general, and with what strides."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from mgefn.compiler import steps
from mgefn.compiler.codegen.gemm import Dots, Pack, Tile, Tiny
from mgefn.compiler.codegen.linalg import BlasProduct
from mgefn.compiler.codegen.values import FLOATS
from mgefn.compiler.native import dtype_name, vector_bytes
from mgefn.compiler.steps import Call, Lowered, NativeStep, Place, Scratch, roots_of
from mgefn.core.jaxpr import Eqn

FLOPS = 25.0  # a thread's, for each nanosecond: decides what is divided
PIECE = 20e3  # nanoseconds that are worth handing to a thread
TINY = 8  # largest size of a product that is written out
LARGE = (
    1.5e8  # operations from which BLAS takes a product, with its blocks for every level of cache
)
LEAST = 48  # and the least size of each of its axes
FEW = 8  # rows of a product that is dot products, where its operands lie for them


def _one_axis(shape: Sequence[int], strides: Sequence[int], axes: Sequence[int]) -> int | None:
    """The stride of some axes as one, in their order; None where they do not lie evenly."""
    stride, extent = None, 1
    for axis in reversed(axes):
        n, s = shape[axis], strides[axis]
        if n == 1:
            continue
        if stride is None:
            stride = s
        elif s != stride * extent:
            return None
        extent *= n
    return 0 if stride is None else stride


class _Laid(NamedTuple):
    """An operand's shape and strides, and its axes of the batch."""

    shape: Sequence[int]
    strides: Sequence[int]
    batch: Sequence[int]


def _batch_axes(*operands: _Laid) -> tuple[int, list[list[int]]] | None:
    """The batch as an outer and an inner axis that lie evenly in all operands.

    The inner one's size, and for each operand the strides of the outer and the inner one; None
    where two axes do not do.
    """
    shape, _, axes = operands[0]
    for cut in range(max(1, len(axes))):
        found = [
            _one_axis(x.shape, x.strides, part)
            for x in operands
            for part in (x.batch[:cut], x.batch[cut:])
        ]
        strides = [s for s in found if s is not None]
        if len(strides) == len(found):
            pairs = [strides[i : i + 2] for i in range(0, len(strides), 2)]
            return math.prod(shape[i] for i in axes[cut:]), pairs
    return None


chunk_of = functools.partial(steps.chunk_of, piece=PIECE)


def _lower(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    x, y = (a.aval for a in eqn.inputs)
    out = eqn.out_binders[0]
    dtype = dtype_name(x)
    if dtype not in FLOATS or dtype_name(y) != dtype or dtype_name(out.aval) != dtype:
        return None
    (x_contract, y_contract), (x_batch, y_batch) = eqn.params["dimension_numbers"]
    x_free = [i for i in range(len(x.shape)) if i not in x_contract and i not in x_batch]
    y_free = [i for i in range(len(y.shape)) if i not in y_contract and i not in y_batch]
    (xp, yp) = places
    found = [
        _one_axis(x.shape, xp.strides, x_free),
        _one_axis(x.shape, xp.strides, x_contract),
        _one_axis(y.shape, yp.strides, y_contract),
        _one_axis(y.shape, yp.strides, y_free),
    ]
    batches = _batch_axes(_Laid(x.shape, xp.strides, x_batch), _Laid(y.shape, yp.strides, y_batch))
    if batches is None or any(s is None for s in found):
        return None
    a_m, a_k, b_k, b_n = (s for s in found if s is not None)
    inner, (a_batch, b_batch) = batches
    batch = math.prod(x.shape[i] for i in x_batch)
    m = math.prod(x.shape[i] for i in x_free)
    k = math.prod(x.shape[i] for i in x_contract)
    n = math.prod(y.shape[i] for i in y_free)
    size = x.dtype.itemsize
    width = vector_bytes() // size
    # The result's rows are contiguous; of a single row or column either order will do.
    c_batch, c_m, c_n = [inner * m * n * size, m * n * size], n * size, size
    a_root, b_root = (xp.root, xp.offset), (yp.root, yp.offset)
    if max(m, k, n) <= TINY:
        nanoseconds = batch * m * k * 0.5 + 5
        return NativeStep(
            [
                Call(
                    Tiny(dtype, m, k, n, b_n == size or n == 1, inner != batch),
                    ((xp.root, xp.offset), (yp.root, yp.offset), (out, 0)),
                    (inner, *a_batch, a_m, a_k, *b_batch, b_k, b_n, *c_batch),
                    batch,
                    chunk_of(batch, nanoseconds),
                )
            ],
            roots_of(places), [out], "dot_general", flops=2.0 * batch * m * n * k,
            moved=batch * (m * k + k * n + m * n) * size,
        )  # fmt: skip
    blas = _by_blas(dtype, m, k, n, (a_m, a_k), (b_k, b_n), size)
    if blas is not None:
        kernel, numbers = blas
        numbers = (inner, *numbers, *a_batch, *b_batch, *c_batch)
        slots = ((xp.root, xp.offset), (yp.root, yp.offset), (out, 0))
        return NativeStep(
            [Call(kernel, slots, numbers, batch, 0)], roots_of(places), [out], "dot_general",
            flops=2.0 * batch * m * n * k, moved=batch * (m * k + k * n + m * n) * size,
        )  # fmt: skip
    if n == 1 and (m > 1 or b_k != size):
        # A column is the row of the transposed product.
        a_batch, a_m, a_k, b_batch, b_k, b_n = b_batch, b_n, b_k, a_batch, a_k, a_m
        a_root, b_root = b_root, a_root
        m, n = n, m
        c_m, c_n = size * n, size
    flops = 2.0 * batch * m * n * k
    nanoseconds = max(flops / FLOPS, batch * n * k * size / 15.0)
    calls: list[Call] = []
    scratch: list[int] = []
    c_root = (out, 0)
    along = (a_k == size or k == 1) and (b_k == size or k == 1)
    if along and (n == 1 or (b_n != size and (m <= FEW or n <= FEW))):
        rows, columns = min(4, m), 4 if n > 2 else n
        m_tiles, n_tiles = -(-m // rows), -(-n // columns)
        kernel: Any = Dots(dtype, rows, columns, width)
        count = batch * m_tiles * n_tiles
        numbers = (
            inner, n_tiles, m_tiles, m, n, k, *a_batch, a_m, *b_batch, b_n, *c_batch, c_m, c_n,
        )  # fmt: skip
        calls.append(
            Call(kernel, (a_root, b_root, c_root), numbers, count, chunk_of(count, nanoseconds))
        )
    else:
        panels = -(-n // (2 * width))
        b_panel = 2 * width * size
        if n > 1 and b_n != size:
            step = max(1, min(k, 256))
            blocks = -(-k // step)
            scratch.append(batch * panels * k * b_panel)
            packed = (Scratch(0), 0)
            count = batch * panels * blocks
            calls.append(
                Call(
                    Pack(dtype, width), (b_root, packed),
                    (inner, panels, blocks, step, n, k, *b_batch, b_k, b_n),
                    count, chunk_of(count, batch * n * k * 1.5),
                )
            )  # fmt: skip
            b_root, b_k = packed, b_panel
            b_batch = [inner * panels * k * b_panel, panels * k * b_panel]
            b_panel = k * b_panel
        most = 12 if vector_bytes() == 64 else 6
        rows = most if m >= most else 4 if m > 2 else m
        tiles = -(-m // rows)
        each = max(1, min(tiles, 8))
        blocks = -(-tiles // each)
        if nanoseconds >= steps.SERIAL and batch * panels * blocks < 8:
            each = max(1, -(-tiles * batch * panels // 16))
            blocks = -(-tiles // each)
        count = batch * panels * blocks
        numbers = (
            inner, panels, blocks, each, m, n, k,
            *a_batch, a_m, a_k, *b_batch, b_panel, b_k, *c_batch, c_m,
        )  # fmt: skip
        calls.append(
            Call(
                Tile(dtype, rows, width), (a_root, b_root, c_root), numbers, count,
                chunk_of(count, nanoseconds),
            )
        )  # fmt: skip
    return NativeStep(
        calls, roots_of(places), [out], "dot_general", scratch=scratch, flops=flops,
        moved=(batch * (m * k + k * n + m * n)) * size,
    )  # fmt: skip


def _by_blas(
    dtype: str, m: int, k: int, n: int, a: tuple[int, int], b: tuple[int, int], size: int
) -> tuple[BlasProduct, tuple[int, ...]] | None:  # fmt: skip
    """The kernel of a product that is large enough, and its first numbers after the inner batch."""
    if 2.0 * m * k * n < LARGE or min(m, k, n) < LEAST or max(m, k, n) >= 2**31:
        return None
    lines: list[tuple[bool, int]] = []
    for strides, shape in ((a, (m, k)), (b, (k, n))):
        rows_lie = strides[1] == size
        line, length = (strides[0], shape[1]) if rows_lie else (strides[1], shape[0])
        contiguous = rows_lie or strides[0] == size
        # BLAS takes lines that do not overlap, whole elements apart.
        if not contiguous or line % size or not length <= line // size < 2**31:
            return None
        lines.append((rows_lie, line // size))
    (a_along, a_line), (b_along, b_line) = lines
    return BlasProduct(dtype, a_along, b_along), (m, n, k, a_line, b_line)


dot_general = Lowered(_lower, dense=False)
