"""Matrix products as native code.

`Tile` computes C = A B by register tiles: `rows` rows of A, each element broadcast, times two
vectors of a row of B. A may have any strides. A row of B is contiguous within a panel of two
vectors; panels and rows have strides of their own, so B is read where it lies when its rows are
contiguous, and from a packed copy (`Pack`) when not. `Dots` is for operands that both lie along
the contracted axis, where one of them has few rows: dot products along it.

Each element is one sum in one order, whatever thread computes it. Rows beyond the last are the
last one again, which costs a little work and needs no code of its own; columns beyond the last are
masked.
"""

from __future__ import annotations

from typing import NamedTuple

from mgefn.compiler.codegen.builder import METADATA, Builder, Module, vector
from mgefn.compiler.codegen.loops import ARGUMENTS, ATTRIBUTES, fold, itemsize
from mgefn.compiler.codegen.values import LLVM_TYPES


class _Numbers:
    """The numbers of the descriptor, in order."""

    def __init__(self, b: Builder):
        self.b = b
        self.at = 0

    def take(self, count: int = 1) -> list[str]:
        out = []
        for _ in range(count):
            out.append(self.b.load("i64", self.b.offset("%desc", str(8 * self.at)), 8))
            self.at += 1
        return out


class _Loop:
    """for i in [start, stop): a counter on the stack. Use as a context."""

    def __init__(self, b: Builder, start: str, stop: str, step: str = "1", counter: str = ""):
        """counter: its memory, where the loop stands inside of another one."""
        self.b, self.start, self.stop, self.step = b, start, stop, step
        self.counter = counter or b.emit("alloca i64")
        self.i = ""

    def __enter__(self) -> str:
        b = self.b
        self.head, body, self.done = b.label("head"), b.label("body"), b.label("done")
        b.store("i64", self.start, self.counter)
        b.br(self.head)
        b.place(self.head)
        self.i = b.load("i64", self.counter)
        b.cond_br(b.icmp("slt", "i64", self.i, self.stop), body, self.done)
        b.place(body)
        return self.i

    def __exit__(self, *exception: object) -> None:
        b = self.b
        b.store("i64", b.emit(f"add i64 {self.i}, {self.step}"), self.counter)
        b.br(self.head)
        b.place(self.done)


def _mul(b: Builder, x: str, y: str) -> str:
    return b.emit(f"mul i64 {x}, {y}")


def _pointers(b: Builder, count: int) -> list[str]:
    return [b.load("ptr", b.offset("%ptrs", str(8 * i)), 8) for i in range(count)]


def _masked_load(b: Builder, t: str, pointer: str, mask: str, align: int) -> str:
    count, scalar = t[1:-1].split(" x ")
    name = f"llvm.masked.load.v{count}{'f32' if scalar == 'float' else 'f64'}.p0"
    b.module.declare(name, t, ["ptr", "i32 immarg", f"<{count} x i1>", t])
    return b.emit(
        f"call {t} @{name}(ptr {pointer}, i32 {align}, <{count} x i1> {mask}, {t} zeroinitializer)"
    )


def _masked_store(b: Builder, t: str, x: str, pointer: str, mask: str, align: int) -> None:
    count, scalar = t[1:-1].split(" x ")
    name = f"llvm.masked.store.v{count}{'f32' if scalar == 'float' else 'f64'}.p0"
    b.module.declare(name, "void", [t, "ptr", "i32 immarg", f"<{count} x i1>"])
    b.do(f"call void @{name}({t} {x}, ptr {pointer}, i32 {align}, <{count} x i1> {mask})")


def _mask(b: Builder, width: int, left: str) -> str:
    """Lanes below `left`, an i64 of any sign."""
    low = b.call_intrinsic("smax", "i64", left, "0")
    few = b.emit(f"trunc i64 {b.call_intrinsic('smin', 'i64', low, str(width))} to i32")
    lanes = "<" + ", ".join(f"i32 {i}" for i in range(width)) + ">"
    return b.icmp("ult", f"<{width} x i32>", lanes, b.splat(f"<{width} x i32>", few))


def _unit(b: Builder, u: str, n: str, m: str) -> tuple[str, str, str]:
    """u = (i * n + j) * m + k, taken apart."""
    k = b.emit(f"urem i64 {u}, {m}")
    rest = b.emit(f"udiv i64 {u}, {m}")
    return b.emit(f"udiv i64 {rest}, {n}"), b.emit(f"urem i64 {rest}, {n}"), k


class Tile(NamedTuple):
    """C[b, m, n] = sum over k of A[b, m, k] B[b, k, n].

    Pointers: A, B, C. Domain: batch x panels of B x blocks of rows. Descriptor: panels, blocks, row
    tiles of a block, M, N, K; strides in bytes of A (batch, m, k), of B (batch, panel, k), of C
    (batch, m).
    """

    dtype: str
    rows: int
    width: int  # elements of a vector

    def text(self, name: str) -> str:
        module = Module()
        b = Builder(module)
        scalar, w, size = LLVM_TYPES[self.dtype], self.width, itemsize(self.dtype)
        t = vector(scalar, w)
        numbers = _Numbers(b)
        panels, blocks, tiles, m_size, n_size, k_size = numbers.take(6)
        a_batch, a_m, a_k, b_batch, b_panel, b_k, c_batch, c_m = numbers.take(8)
        a_base, b_base, c_base = _pointers(b, 3)
        last = b.emit(f"sub i64 {m_size}, 1")
        block_rows = _mul(b, tiles, str(self.rows))
        sums = [[b.emit(f"alloca {t}") for _ in range(2)] for _ in range(self.rows)]
        walk_a = [b.emit("alloca ptr") for _ in range(self.rows)]
        walk_b = b.emit("alloca ptr")
        outer = _Loop(b, "%begin", "%end")
        row_loop_counter = b.emit("alloca i64")
        k_loop_counter = b.emit("alloca i64")
        with outer as u:
            batch, panel, block = _unit(b, u, panels, blocks)
            first = _mul(b, block, block_rows)
            stop = b.call_intrinsic("smin", "i64", m_size, b.emit(f"add i64 {first}, {block_rows}"))
            column = _mul(b, panel, str(2 * w))
            left = b.emit(f"sub i64 {n_size}, {column}")
            masks = [_mask(b, w, left), _mask(b, w, b.emit(f"sub i64 {left}, {w}"))]
            a_at = b.offset(a_base, _mul(b, batch, a_batch))
            b_at = b.offset(b_base, _mul(b, batch, b_batch))
            b_at = b.offset(b_at, _mul(b, panel, b_panel))
            c_at = b.offset(c_base, _mul(b, batch, c_batch))
            c_at = b.offset(c_at, _mul(b, column, str(size)))
            rows = _Loop(b, first, stop, str(self.rows), row_loop_counter)
            with rows as m:
                starts = []
                for r in range(self.rows):
                    at = b.call_intrinsic("smin", "i64", b.emit(f"add i64 {m}, {r}"), last)
                    starts.append(at)
                    b.store("ptr", b.offset(a_at, _mul(b, at, a_m)), walk_a[r])
                    for v in range(2):
                        b.store(t, b.const(t, 0), sums[r][v])
                b.store("ptr", b_at, walk_b)
                k_loop = _Loop(b, "0", k_size, "1", k_loop_counter)
                with k_loop:
                    row_of_b = b.load("ptr", walk_b)
                    ys = [
                        _masked_load(b, t, b.offset(row_of_b, str(v * w * size)), masks[v], size)
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
                        _masked_store(b, t, b.load(t, sums[r][v]), pointer, masks[v], size)
        b.do("ret void")
        b.function(name, "void", ARGUMENTS, ATTRIBUTES)
        return module.text() + "\n" + METADATA


class Pack(NamedTuple):
    """B[b, k, n] in panels of two vectors: [b][panel][k][2 width], columns beyond the last 0.

    Pointers: B, packed. Domain: batch x panels x blocks of k. Descriptor: panels, blocks, k of a
    block, N, K; strides in bytes of B (batch, k, n).
    """

    dtype: str
    width: int

    def text(self, name: str) -> str:
        module = Module()
        b = Builder(module)
        scalar, w, size = LLVM_TYPES[self.dtype], 2 * self.width, itemsize(self.dtype)
        t = vector(scalar, w)
        numbers = _Numbers(b)
        panels, blocks, step, n_size, k_size = numbers.take(5)
        s_batch, s_k, s_n = numbers.take(3)
        source, target = _pointers(b, 2)
        lanes = "<" + ", ".join(f"i64 {i}" for i in range(w)) + ">"
        offsets = b.emit(f"mul <{w} x i64> {lanes}, {b.splat(f'<{w} x i64>', s_n)}")
        suffix = f"v{w}{'f32' if scalar == 'float' else 'f64'}"
        gather = f"llvm.masked.gather.{suffix}.v{w}p0"
        module.declare(gather, t, [f"<{w} x ptr>", "i32 immarg", f"<{w} x i1>", t])
        inner_counter = b.emit("alloca i64")
        with _Loop(b, "%begin", "%end") as u:
            batch, panel, block = _unit(b, u, panels, blocks)
            first = _mul(b, block, step)
            stop = b.call_intrinsic("smin", "i64", k_size, b.emit(f"add i64 {first}, {step}"))
            column = _mul(b, panel, str(w))
            mask = _mask(b, w, b.emit(f"sub i64 {n_size}, {column}"))
            at = b.offset(source, _mul(b, batch, s_batch))
            at = b.offset(at, _mul(b, column, s_n))
            whole = b.emit(f"add i64 {_mul(b, batch, panels)}, {panel}")
            into = b.offset(target, _mul(b, whole, _mul(b, k_size, str(w * size))))
            loop = _Loop(b, first, stop, "1", inner_counter)
            with loop as k:
                pointer = b.offset(at, _mul(b, k, s_k))
                pointers = b.emit(f"getelementptr i8, ptr {pointer}, <{w} x i64> {offsets}")
                x = b.emit(
                    f"call {t} @{gather}(<{w} x ptr> {pointers}, i32 {size}, <{w} x i1> {mask}, "
                    f"{t} zeroinitializer)"
                )
                b.store(t, x, b.offset(into, _mul(b, k, str(w * size))), size)
        b.do("ret void")
        b.function(name, "void", ARGUMENTS, ATTRIBUTES)
        return module.text() + "\n" + METADATA


class Dots(NamedTuple):
    """C[b, m, n] = sum over k of A[b, m, k] B[b, n, k], both contiguous along k.

    Pointers: A, B, C. Domain: batch x tiles of n x tiles of m. Descriptor: tiles of n, tiles of m,
    M, N, K; strides in bytes of A (batch, m), of B (batch, n), of C (batch, m, n).
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
        numbers = _Numbers(b)
        n_tiles, m_tiles, m_size, n_size, k_size = numbers.take(5)
        a_batch, a_m, b_batch, b_n, c_batch, c_m, c_n = numbers.take(7)
        a_base, b_base, c_base = _pointers(b, 3)
        m_last, n_last = b.emit(f"sub i64 {m_size}, 1"), b.emit(f"sub i64 {n_size}, 1")
        sums = [[b.emit(f"alloca {t}") for _ in range(self.columns)] for _ in range(self.rows)]
        inner_counter = b.emit("alloca i64")
        with _Loop(b, "%begin", "%end") as u:
            batch, n_tile, m_tile = _unit(b, u, n_tiles, m_tiles)
            a_at = b.offset(a_base, _mul(b, batch, a_batch))
            b_at = b.offset(b_base, _mul(b, batch, b_batch))
            c_at = b.offset(c_base, _mul(b, batch, c_batch))
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
            loop = _Loop(b, "0", k_size, str(w), inner_counter)
            with loop as k:
                mask = _mask(b, w, b.emit(f"sub i64 {k_size}, {k}"))
                at = _mul(b, k, str(size))
                ys = [_masked_load(b, t, b.offset(p, at), mask, size) for p in b_rows]
                for r, p in enumerate(a_rows):
                    x = _masked_load(b, t, b.offset(p, at), mask, size)
                    for c, y in enumerate(ys):
                        b.store(t, b.fma(t, x, y, b.load(t, sums[r][c])), sums[r][c])
            for r, i in enumerate(rows):
                row = b.offset(c_at, _mul(b, i, c_m))
                for c, j in enumerate(columns):
                    total = fold(b, "sum", self.dtype, w, b.load(t, sums[r][c]))
                    b.store(scalar, total, b.offset(row, _mul(b, j, c_n)), size)
        b.do("ret void")
        b.function(name, "void", ARGUMENTS, ATTRIBUTES)
        return module.text() + "\n" + METADATA
