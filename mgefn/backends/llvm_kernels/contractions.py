"""Matrix products: which native kernel takes a dot_general, and with what strides."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from mgefn.compiler import steps
from mgefn.compiler.codegen.gemm import Dots, Pack, Tile, Tiny
from mgefn.compiler.codegen.linalg import BlasProduct
from mgefn.compiler.codegen.values import FLOATS
from mgefn.compiler.native import dtype_name, vector_bytes
from mgefn.compiler.steps import Call, Lowered, NativeStep, Place, Scratch, roots_of
from mgefn.core.avals import contiguous_strides
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


class _Product(NamedTuple):
    """A product as one of matrices, many times.

    Attributes:
        m, k, n: sizes. With them go strides in bytes, of A (m, k), B (k, n) and C (m), whose rows
            are contiguous.
        batch: how many; `inner`, how many of them lie evenly after one another, and for A, B and C
            the strides along an outer and an inner axis.
    """

    m: int
    k: int
    n: int
    a: tuple[int, int]
    b: tuple[int, int]
    c_m: int
    batch: int
    inner: int
    batches: list[list[int]]


def _batch_axes(
    sizes: Sequence[int], operands: Sequence[Sequence[int]]
) -> tuple[int, list[list[int]]] | None:
    """The batch as an outer and an inner axis that lie evenly in all operands.

    Args:
        sizes: of the batch's axes.
        operands: of each its strides along them.

    Returns:
        The inner one's size, and for each operand the strides of the outer and the inner one; None
        where two axes do not do.
    """
    axes = range(len(sizes))
    for cut in range(max(1, len(axes))):
        found = [
            _one_axis(sizes, strides, part)
            for strides in operands
            for part in (axes[:cut], axes[cut:])
        ]
        strides = [s for s in found if s is not None]
        if len(strides) == len(found):
            pairs = [strides[i : i + 2] for i in range(0, len(strides), 2)]
            return math.prod(sizes[i] for i in axes[cut:]), pairs
    return None


def _products(eqn: Eqn, places: Sequence[Place]) -> Iterator[_Product]:
    """Ways to see a dot_general as a product of matrices, the simplest first.

    Axes of one operand that are no axis of a matrix belong to the batch, where the other operand
    stays.
    """
    x, y = (a.aval.shape for a in eqn.inputs)
    (xp, yp), aval = places, eqn.out_binders[0].aval
    xs, ys, size = xp.strides, yp.strides, aval.dtype.itemsize
    (x_contract, y_contract), (x_batch, y_batch) = eqn.params["dimension_numbers"]
    x_free = [i for i in range(len(x)) if i not in x_contract and i not in x_batch]
    y_free = [i for i in range(len(y)) if i not in y_contract and i not in y_batch]
    a_k, b_k = _one_axis(x, xs, x_contract), _one_axis(y, ys, y_contract)
    if a_k is None or b_k is None:
        return
    out = contiguous_strides(aval.shape, size)
    first, second = len(x_batch), len(x_batch) + len(x_free)  # where free axes begin in the result
    of_x = [([], x_free), *((x_free[:i], x_free[i:]) for i in range(1, len(x_free)))]
    of_x += [(x_free[i:], x_free[:i]) for i in range(1, len(x_free))]
    # Those of B's rows, which are contiguous in C, are the last ones.
    of_y = [([], y_free), *((y_free[:i], y_free[i:]) for i in range(1, len(y_free)))]
    for x_more, rows in of_x:
        for y_more, columns in of_y:
            a_m, b_n = _one_axis(x, xs, rows), _one_axis(y, ys, columns)
            in_c = [first + x_free.index(i) for i in rows]
            c_m = _one_axis(aval.shape, out, in_c)
            if a_m is None or b_n is None or c_m is None:
                continue
            of_batch = [(x[i], xs[i], ys[j], out[n]) for n, (i, j) in enumerate(
                zip(x_batch, y_batch, strict=True))]  # fmt: skip
            of_batch += [(x[i], xs[i], 0, out[first + x_free.index(i)]) for i in x_more]
            of_batch += [(y[i], 0, ys[i], out[second + y_free.index(i)]) for i in y_more]
            sizes, *strides = zip(*of_batch, strict=True) if of_batch else ((), (), (), ())
            batches = _batch_axes(sizes, strides)
            if batches is not None:
                yield _Product(
                    math.prod(x[i] for i in rows), math.prod(x[i] for i in x_contract),
                    math.prod(y[i] for i in columns), (a_m, a_k), (b_k, b_n), c_m,
                    math.prod(sizes), *batches,
                )  # fmt: skip


chunk_of = functools.partial(steps.chunk_of, piece=PIECE)


def _lower(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    x, y = (a.aval for a in eqn.inputs)
    out = eqn.out_binders[0]
    dtype = dtype_name(x)
    if dtype not in FLOATS or dtype_name(y) != dtype or dtype_name(out.aval) != dtype:
        return None
    product = next(_products(eqn, places), None)
    if product is None:
        return None
    m, k, n, (a_m, a_k), (b_k, b_n), c_m, batch, inner, batches = product
    a_batch, b_batch, c_batch = batches
    (xp, yp), size = places, x.dtype.itemsize
    width, c_n = vector_bytes() // size, size
    a_root, b_root = (xp.root, xp.offset), (yp.root, yp.offset)
    if max(m, k, n) <= TINY:
        nanoseconds = batch * m * k * 0.5 + 5
        return NativeStep(
            [
                Call(
                    Tiny(dtype, m, k, n, b_n == size or n == 1, inner != batch),
                    ((xp.root, xp.offset), (yp.root, yp.offset), (out, 0)),
                    (inner, *a_batch, a_m, a_k, *b_batch, b_k, b_n, *c_batch, c_m),
                    batch,
                    chunk_of(batch, nanoseconds),
                )
            ],
            roots_of(places), [out], "dot_general", flops=2.0 * batch * m * n * k,
            moved=batch * (m * k + k * n + m * n) * size,
        )  # fmt: skip
    blas = _by_blas(dtype, product, size)
    if blas is not None:
        kernel, numbers = blas
        numbers = (inner, *numbers, *a_batch, *b_batch, *c_batch)
        slots = ((xp.root, xp.offset), (yp.root, yp.offset), (out, 0))
        return NativeStep(
            [Call(kernel, slots, numbers, batch, 0)], roots_of(places), [out], "dot_general",
            flops=2.0 * batch * m * n * k, moved=batch * (m * k + k * n + m * n) * size,
        )  # fmt: skip
    if n == 1 and (m == 1 or c_m == size) and (m > 1 or b_k != size):
        # A column is the row of the transposed product.
        a_batch, a_m, a_k, b_batch, b_k, b_n = b_batch, b_n, b_k, a_batch, a_k, a_m
        a_root, b_root = b_root, a_root
        m, n = n, m
        c_m = size * n
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
    dtype: str, product: _Product, size: int
) -> tuple[BlasProduct, tuple[int, ...]] | None:
    """The kernel of a product that is large enough, and its first numbers after the inner batch."""
    m, k, n, a, b, c_m, *_ = product
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
    return BlasProduct(dtype, a_along, b_along), (m, n, k, a_line, b_line, c_m // size)


dot_general = Lowered(_lower, dense=False)
