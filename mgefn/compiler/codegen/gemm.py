"""Matrix products as native code.

`Tile` computes C = A B by register tiles: `rows` rows of A, each element broadcast, times two
vectors of a row of B. A may have any strides. A row of B is contiguous within a panel of two
vectors; panels and rows have strides of their own, so B is read where it lies when its rows are
contiguous, and from a packed copy (`Pack`) when not. `Dots` is for operands that both lie along
the contracted axis, where one of them has few rows: dot products along it.

A batch has two axes, an outer one and an inner one with strides of their own, as heads and batch of
attention do not lie as one axis; of a single axis the outer size is 1.

Each element is one sum in one order, whatever thread computes it. Rows beyond the last are the
last one again, which costs a little work and needs no code of its own; columns beyond the last are
masked.
"""

from __future__ import annotations

from typing import NamedTuple

from mgefn.compiler.codegen.builder import Builder, Module, vector
from mgefn.compiler.codegen.loops import fold
from mgefn.compiler.codegen.parts import (
    Loop,
    Memory,
    Numbers,
    coordinates,
    finished,
    pointers,
    walked,
)
from mgefn.compiler.codegen.values import LLVM_TYPES, itemsize


def _mul(b: Builder, x: str, y: str) -> str:
    return b.emit(f"mul i64 {x}, {y}")


class Tile(NamedTuple):
    """C[b, m, n] = sum over k of A[b, m, k] B[b, k, n].

    Pointers: A, B, C. Domain: batch x panels of B x blocks of rows. Descriptor: inner batch,
    panels, blocks, row tiles of a block, M, N, K; strides in bytes of A (outer, inner, m, k), of B
    (outer, inner, panel, k), of C (outer, inner, m).
    """

    dtype: str
    rows: int
    width: int  # elements of a vector

    def text(self, name: str) -> str:
        module = Module()
        b = Builder(module)
        scalar, w, size = LLVM_TYPES[self.dtype], self.width, itemsize(self.dtype)
        t = vector(scalar, w)
        memory = Memory(b, scalar, w, size)
        numbers = Numbers(b)
        inner, panels, blocks, tiles, m_size, n_size, k_size = numbers.take(7)
        *a_batch, a_m, a_k = numbers.take(4)
        *b_batch, b_panel, b_k = numbers.take(4)
        *c_batch, c_m = numbers.take(3)
        a_base, b_base, c_base = pointers(b, 3)
        last = b.emit(f"sub i64 {m_size}, 1")
        block_rows = _mul(b, tiles, str(self.rows))
        sums = [[b.emit(f"alloca {t}") for _ in range(2)] for _ in range(self.rows)]
        walk_a = [b.emit("alloca ptr") for _ in range(self.rows)]
        walk_b = b.emit("alloca ptr")
        outer = Loop(b, b.emit("alloca i64"), "%begin", "%end")
        row_loop_counter = b.emit("alloca i64")
        k_loop_counter = b.emit("alloca i64")
        with outer as u:
            *batch, panel, block = coordinates(b, u, ["", inner, panels, blocks])
            first = _mul(b, block, block_rows)
            stop = b.call_intrinsic("smin", "i64", m_size, b.emit(f"add i64 {first}, {block_rows}"))
            column = _mul(b, panel, str(2 * w))
            left = b.emit(f"sub i64 {n_size}, {column}")
            masks = [memory.mask(left), memory.mask(b.emit(f"sub i64 {left}, {w}"))]
            a_at = walked(b, a_base, batch, a_batch)
            b_at = walked(b, b_base, [*batch, panel], [*b_batch, b_panel])
            c_at = walked(b, c_base, [*batch, column], [*c_batch, str(size)])
            rows = Loop(b, row_loop_counter, first, stop, str(self.rows))
            with rows as m:
                starts = []
                for r in range(self.rows):
                    at = b.call_intrinsic("smin", "i64", b.emit(f"add i64 {m}, {r}"), last)
                    starts.append(at)
                    b.store("ptr", b.offset(a_at, _mul(b, at, a_m)), walk_a[r])
                    for v in range(2):
                        b.store(t, b.const(t, 0), sums[r][v])
                b.store("ptr", b_at, walk_b)
                k_loop = Loop(b, k_loop_counter, "0", k_size, "1")
                with k_loop:
                    row_of_b = b.load("ptr", walk_b)
                    ys = [
                        memory.load(b.offset(row_of_b, str(v * w * size)), masks[v])
                        for v in range(2)
                    ]
                    b.store("ptr", b.offset(row_of_b, b_k), walk_b)
                    for r in range(self.rows):
                        pointer = b.load("ptr", walk_a[r])
                        x = b.splat(t, b.load(scalar, pointer, size))
                        b.store("ptr", b.offset(pointer, a_k), walk_a[r])
                        for v in range(2):
                            total = b.fma(t, x, ys[v], b.load(t, sums[r][v]))
                            b.store(t, total, sums[r][v])
                for r in range(self.rows):
                    row = b.offset(c_at, _mul(b, starts[r], c_m))
                    for v in range(2):
                        pointer = b.offset(row, str(v * w * size))
                        memory.store(b.load(t, sums[r][v]), pointer, masks[v])
        return finished(b, name)


class Tiny(NamedTuple):
    """C[b, m, n] = sum over k of A[b, m, k] B[b, k, n] for sizes so small that all is written out.

    Pointers: A, B, C. Domain: batch. Descriptor: inner batch; strides in bytes of A (outer, inner,
    m, k), of B (outer, inner, k, n), of C (outer, inner, m); C's rows are contiguous, and so are
    B's where `rows_lie` says so. Where `nested` is false the outer size is 1.
    """

    dtype: str
    m: int
    k: int
    n: int
    rows_lie: bool
    nested: bool

    def text(self, name: str) -> str:
        module = Module()
        b = Builder(module)
        scalar, size = LLVM_TYPES[self.dtype], itemsize(self.dtype)
        w = max(2, 1 << (self.n - 1).bit_length())
        memory = Memory(b, scalar, w, size)
        t = memory.t
        inner, *numbers = Numbers(b).take(12)
        *a_batch, a_m, a_k = numbers[:4]
        *b_batch, b_k, b_n = numbers[4:8]
        *c_batch, c_m = numbers[8:]
        a_base, b_base, c_base = pointers(b, 3)
        lanes = ", ".join(f"i1 {'true' if i < self.n else 'false'}" for i in range(w))
        mask = f"<{lanes}>"
        counter = b.emit("alloca i64")
        with Loop(b, counter, "%begin", "%end") as u:
            batch = coordinates(b, u, ["", inner]) if self.nested else ["0", u]
            a_at = walked(b, a_base, batch, a_batch)
            b_at = walked(b, b_base, batch, b_batch)
            c_at = walked(b, c_base, batch, c_batch)
            rows = []
            for _ in range(self.k):
                if self.rows_lie:
                    row = memory.load(b_at, mask)
                else:
                    row, at = "zeroinitializer", b_at
                    for i in range(self.n):
                        x = b.load(scalar, at, size)
                        row = b.emit(f"insertelement {t} {row}, {scalar} {x}, i64 {i}")
                        at = b.offset(at, b_n)
                rows.append(row)
                b_at = b.offset(b_at, b_k)
            for _ in range(self.m):
                total, at = b.const(t, 0), a_at
                for row in rows:
                    x = b.splat(t, b.load(scalar, at, size))
                    total = b.fma(t, x, row, total)
                    at = b.offset(at, a_k)
                memory.store(total, c_at, mask)
                a_at, c_at = b.offset(a_at, a_m), b.offset(c_at, c_m)
        return finished(b, name)


class Pack(NamedTuple):
    """B[b, k, n] in panels of two vectors: [b][panel][k][2 width], columns beyond the last 0.

    Pointers: B, packed. Domain: batch x panels x blocks of k. Descriptor: inner batch, panels,
    blocks, k of a block, N, K; strides in bytes of B (outer, inner, k, n).
    """

    dtype: str
    width: int

    def text(self, name: str) -> str:
        module = Module()
        b = Builder(module)
        scalar, w, size = LLVM_TYPES[self.dtype], 2 * self.width, itemsize(self.dtype)
        t = vector(scalar, w)
        memory = Memory(b, scalar, w, size)
        numbers = Numbers(b)
        inner, panels, blocks, step, n_size, k_size = numbers.take(6)
        *s_batch, s_k, s_n = numbers.take(4)
        source, target = pointers(b, 2)
        inner_counter = b.emit("alloca i64")
        with Loop(b, b.emit("alloca i64"), "%begin", "%end") as u:
            whole, panel, block = coordinates(b, u, ["", panels, blocks])
            batch = coordinates(b, whole, ["", inner])
            first = _mul(b, block, step)
            stop = b.call_intrinsic("smin", "i64", k_size, b.emit(f"add i64 {first}, {step}"))
            column = _mul(b, panel, str(w))
            mask = memory.mask(b.emit(f"sub i64 {n_size}, {column}"))
            at = walked(b, source, [*batch, column], [*s_batch, s_n])
            whole = b.emit(f"add i64 {_mul(b, whole, panels)}, {panel}")
            into = b.offset(target, _mul(b, whole, _mul(b, k_size, str(w * size))))
            loop = Loop(b, inner_counter, first, stop, "1")
            with loop as k:
                pointer = b.offset(at, _mul(b, k, s_k))
                x = memory.gather(memory.spread(pointer, s_n), mask)
                b.store(t, x, b.offset(into, _mul(b, k, str(w * size))), size)
        return finished(b, name)


class Dots(NamedTuple):
    """C[b, m, n] = sum over k of A[b, m, k] B[b, n, k], both contiguous along k.

    Pointers: A, B, C. Domain: batch x tiles of n x tiles of m. Descriptor: inner batch, tiles of n,
    tiles of m, M, N, K; strides in bytes of A (outer, inner, m), of B (outer, inner, n), of C
    (outer, inner, m, n).
    """

    dtype: str
    rows: int
    columns: int
    width: int

    def text(self, name: str) -> str:
        module = Module()
        b = Builder(module)
        scalar, w, size = LLVM_TYPES[self.dtype], self.width, itemsize(self.dtype)
        t = vector(scalar, w)
        memory = Memory(b, scalar, w, size)
        numbers = Numbers(b)
        inner, n_tiles, m_tiles, m_size, n_size, k_size = numbers.take(6)
        *a_batch, a_m = numbers.take(3)
        *b_batch, b_n = numbers.take(3)
        *c_batch, c_m, c_n = numbers.take(4)
        a_base, b_base, c_base = pointers(b, 3)
        m_last, n_last = b.emit(f"sub i64 {m_size}, 1"), b.emit(f"sub i64 {n_size}, 1")
        sums = [[b.emit(f"alloca {t}") for _ in range(self.columns)] for _ in range(self.rows)]
        inner_counter = b.emit("alloca i64")
        with Loop(b, b.emit("alloca i64"), "%begin", "%end") as u:
            *batch, n_tile, m_tile = coordinates(b, u, ["", inner, n_tiles, m_tiles])
            a_at = walked(b, a_base, batch, a_batch)
            b_at = walked(b, b_base, batch, b_batch)
            c_at = walked(b, c_base, batch, c_batch)
            rows, columns = [], []
            for start, count, tile, last in (
                (rows, self.rows, m_tile, m_last),
                (columns, self.columns, n_tile, n_last),
            ):
                first = _mul(b, tile, str(count))
                for r in range(count):
                    at = b.emit(f"add i64 {first}, {r}")
                    start.append(b.call_intrinsic("smin", "i64", at, last))
            a_rows = [b.offset(a_at, _mul(b, i, a_m)) for i in rows]
            b_rows = [b.offset(b_at, _mul(b, i, b_n)) for i in columns]
            for row in sums:
                for s in row:
                    b.store(t, b.const(t, 0), s)
            loop = Loop(b, inner_counter, "0", k_size, str(w))
            with loop as k:
                mask = memory.mask(b.emit(f"sub i64 {k_size}, {k}"))
                at = _mul(b, k, str(size))
                ys = [memory.load(b.offset(p, at), mask) for p in b_rows]
                for r, p in enumerate(a_rows):
                    x = memory.load(b.offset(p, at), mask)
                    for c, y in enumerate(ys):
                        b.store(t, b.fma(t, x, y, b.load(t, sums[r][c])), sums[r][c])
            for r, i in enumerate(rows):
                row = b.offset(c_at, _mul(b, i, c_m))
                for c, j in enumerate(columns):
                    total = fold(b, "sum", self.dtype, w, b.load(t, sums[r][c]))
                    b.store(scalar, total, b.offset(row, _mul(b, j, c_n)), size)
        return finished(b, name)
