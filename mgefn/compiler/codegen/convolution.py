"""Convolutions as native code.

`Direct` computes register tiles as `gemm.Tile` does: `rows` outputs along one axis times vectors
along another, summed over input features and the window. No copy of what an output sees is made:
the places of the window that lie in the input are known for each output of an axis, and come as
tables. Only along the axes of the tile all outputs must see the same places; there the input is
padded (`Padded`) where the window leaves it.

Each element is one sum in one order, whatever thread computes it. The last tile of rows starts
early enough to be whole, and leaves the rows of the tile before alone.
"""

from __future__ import annotations

from typing import NamedTuple

from mgefn.compiler.codegen.builder import Builder, Module, vector
from mgefn.compiler.codegen.parts import (
    Loop,
    Memory,
    Numbers,
    coordinates,
    finished,
    pointers,
    walked,
)
from mgefn.compiler.codegen.values import FLOATS, LLVM_TYPES, itemsize

ENTRY = 4  # words of an entry of a table: places, offset in A, offset in B, rows


class Direct(NamedTuple):
    """C[.., row, lane] = sum over places of A[.., row, place] B[.., place, lane].

    Pointers: A, B, C, table. Domain: the first affine axis x panels x the other affine axes x the
    axes of the slots x blocks of rows. A slot is a loop of the sum; the table has an entry for each
    output along its axis.

    Long sums are formed in parts of the outermost slot: each part of B is used for all rows of a
    block while it is near.

    Descriptor: lanes, tiles of a block, panels, blocks, places of a part; strides in bytes of A
    (row, panel), of B (panel), of C (row, lane); for each affine axis its size and strides in A, B,
    C; for each slot the outputs along its axis, their stride in C, its steps in A and B, its
    table's offset in bytes.
    """

    dtype: str
    rows: int
    vectors: int
    width: int
    affine: int
    slots: int
    lanes: bool  # are A's elements vectors too, or is each broadcast?
    scattered: bool  # do lanes have a stride in C?

    def text(self, name: str) -> str:
        b = Builder(Module())
        scalar, w, size = LLVM_TYPES[self.dtype], self.width, itemsize(self.dtype)
        t = vector(scalar, w)
        memory = Memory(b, scalar, w, size)
        numbers = Numbers(b)
        lane_count, tiles, panels, blocks, part = numbers.take(5)
        a_row, a_panel, b_panel, c_row, c_lane = numbers.take(5)
        affine = [numbers.take(4) for _ in range(self.affine)]
        slots = [numbers.take(5) for _ in range(self.slots)]
        a_base, b_base, c_base, table = pointers(b, 4)
        block_rows = b.emit(f"mul i64 {tiles}, {self.rows}")
        sums = [[b.emit(f"alloca {t}") for _ in range(self.vectors)] for _ in range(self.rows)]
        counters = [b.emit("alloca i64") for _ in range(self.slots + 3)]
        # Three rows share a pointer: a third is reached by a register, the next by twice of it.
        groups = -(-self.rows // 3)
        walk_a = [
            [b.emit("alloca ptr") for _ in range(groups if s == self.slots - 1 else 1)]
            for s in range(self.slots)
        ]
        walk_b = [b.emit("alloca ptr") for _ in range(self.slots)]
        twice = b.emit(f"shl i64 {a_row}, 1")
        thrice = b.emit(f"mul i64 {a_row}, 3")
        with Loop(b, counters[0], "%begin", "%end") as u:
            sizes = [affine[0][0], panels, *(x[0] for x in affine[1:]), *(x[0] for x in slots)]
            at = coordinates(b, u, [*sizes, blocks])
            panel, block = at[1], at[-1]
            outer, own = [at[0], *at[2 : 1 + self.affine]], at[1 + self.affine : -1]
            left = b.emit(f"sub i64 {lane_count}, {b.emit(f'mul i64 {panel}, {w * self.vectors}')}")
            masks = [
                memory.mask(b.emit(f"sub i64 {left}, {v * w}") if v else left)
                for v in range(self.vectors)
            ]
            a_at = walked(b, a_base, [panel, *outer], [a_panel, *(x[1] for x in affine)])
            b_at = walked(b, b_base, [panel, *outer], [b_panel, *(x[2] for x in affine)])
            c_at = walked(
                b, c_base, [b.emit(f"mul i64 {panel}, {w * self.vectors}"), *outer, *own],
                [c_lane, *(x[3] for x in affine), *(x[1] for x in slots)],
            )  # fmt: skip
            places, row_count = [], ""
            for i, x in zip(own, slots, strict=True):
                entry = walked(b, table, [i, "1"], [str(8 * ENTRY), x[4]])
                words = [b.load("i64", b.offset(entry, str(8 * k)), 8) for k in range(ENTRY)]
                places.append(words[0])
                a_at, b_at = b.offset(a_at, words[1]), b.offset(b_at, words[2])
                row_count = (
                    b.call_intrinsic("smin", "i64", row_count, words[3]) if row_count else words[3]
                )
            first = b.emit(f"mul i64 {block}, {block_rows}")
            stop = b.call_intrinsic(
                "smin", "i64", row_count, b.emit(f"add i64 {first}, {block_rows}")
            )
            last = b.emit(f"sub i64 {row_count}, {self.rows}")
            # Without any place there is a part, too, which writes zeros.
            total_places = b.call_intrinsic("smax", "i64", places[0], "1")
            part_loop = Loop(b, counters[-1], "0", total_places, part)
            with part_loop as k, Loop(b, counters[1], first, stop, str(self.rows)) as m:
                left_places = b.emit(f"sub i64 {places[0]}, {k}")
                places[0] = b.call_intrinsic("smin", "i64", left_places, part)
                row = b.call_intrinsic("smin", "i64", m, last)
                rows_of_c = []
                for r in range(self.rows):
                    at_row = b.emit(f"add i64 {row}, {r}")
                    # Rows of the tile before are its own.
                    new = b.splat(memory.mask_type, b.icmp("sge", "i64", at_row, m))
                    kept = [b.emit(f"and {memory.mask_type} {x}, {new}") for x in masks]
                    rows_of_c.append((walked(b, c_at, [at_row], [c_row]), kept))
                for r in sums:
                    for s in r:
                        b.store(t, b.const(t, 0), s)
                more, begun = b.label("more"), b.label("begun")
                b.cond_br(b.icmp("sgt", "i64", k, "0"), more, begun)
                b.place(more)
                for r, (at_c, kept) in zip(sums, rows_of_c, strict=True):
                    for v, s in enumerate(r):
                        b.store(t, self._c(b, memory, at_c, v, c_lane, kept[v]), s)
                b.br(begun)
                b.place(begun)
                a_part = b.offset(a_at, b.emit(f"mul i64 {k}, {slots[0][2]}"))
                b_part = b.offset(b_at, b.emit(f"mul i64 {k}, {slots[0][3]}"))

                def nest(depth: int, a: str, bb: str) -> None:
                    here = walk_a[depth]
                    b.store("ptr", a, here[0])
                    for g in range(1, len(here)):
                        a = b.offset(a, thrice)
                        b.store("ptr", a, here[g])
                    b.store("ptr", bb, walk_b[depth])
                    with Loop(b, counters[depth + 2], "0", places[depth]):
                        at_a = [b.load("ptr", p) for p in here]
                        at_b = b.load("ptr", walk_b[depth])
                        if depth < self.slots - 1:
                            nest(depth + 1, at_a[0], at_b)
                        else:
                            products(at_a, at_b)
                        for p, pointer in zip(here, at_a, strict=True):
                            b.store("ptr", b.offset(pointer, slots[depth][2]), p)
                        b.store("ptr", b.offset(at_b, slots[depth][3]), walk_b[depth])

                def products(at_a: list[str], at_b: str) -> None:
                    ys = [
                        memory.load(b.offset(at_b, str(v * w * size)), masks[v])
                        for v in range(self.vectors)
                    ]
                    for r in range(self.rows):
                        pointer = at_a[r // 3]
                        if r % 3:
                            pointer = b.offset(pointer, (a_row, twice)[r % 3 - 1])
                        if self.lanes:
                            xs = [
                                memory.load(b.offset(pointer, str(v * w * size)), masks[v])
                                for v in range(self.vectors)
                            ]
                        else:
                            xs = [b.splat(t, b.load(scalar, pointer, size))] * self.vectors
                        for v, y in enumerate(ys):
                            total = self._sum(b, t, xs[v], y, b.load(t, sums[r][v]))
                            b.store(t, total, sums[r][v])

                nest(0, walked(b, a_part, [row], [a_row]), b_part)
                for r, (at_c, kept) in zip(sums, rows_of_c, strict=True):
                    for v, s in enumerate(r):
                        self._c(b, memory, at_c, v, c_lane, kept[v], b.load(t, s))
        return finished(b, name)

    def _c(
        self, b: Builder, memory: Memory, row: str, v: int, lane: str, mask: str, x: str = ""
    ) -> str:  # fmt: skip
        """A vector of a row of C; x, if given, is stored there."""
        if self.scattered:
            to = memory.spread(walked(b, row, [str(v * self.width)], [lane]), lane)
            if not x:
                return memory.gather(to, mask)
            memory.scatter(x, to, mask)
            return x
        at = b.offset(row, str(v * self.width * memory.size))
        if not x:
            return memory.load(at, mask)
        memory.store(x, at, mask)
        return x

    def _sum(self, b: Builder, t: str, x: str, y: str, z: str) -> str:
        if self.dtype in FLOATS:
            return b.fma(t, x, y, z)
        return b.emit(f"add {t} {b.emit(f'mul {t} {x}, {y}')}, {z}")


class Padded(NamedTuple):
    """A copy with axes in another order, zeros around one of them and around the last.

    Pointers: source, target. Domain: four outer axes. Descriptor: for each outer axis its size and
    strides in bytes of source and target; for the padded axis its size in the target, the strides,
    its first element of the source (may be negative), the source's size; the same for the last
    axis, which is contiguous in the target.
    """

    size: int  # bytes of an element
    width: int
    gathered: bool  # has the last axis a stride in the source?

    def text(self, name: str) -> str:
        b = Builder(Module())
        memory = Memory(b, f"i{8 * self.size}", self.width, self.size)
        numbers = Numbers(b)
        outer = [numbers.take(3) for _ in range(4)]
        p_size, p_source, p_target, p_first, p_count = numbers.take(5)
        n_size, n_source, n_first, n_count = numbers.take(4)
        source, target = pointers(b, 2)
        counters = [b.emit("alloca i64") for _ in range(3)]
        t = f"<{self.width} x i64>"
        offsets = b.emit(f"mul {t} {memory.lanes()}, {b.splat(t, n_source)}")
        with Loop(b, counters[0], "%begin", "%end") as u:
            at = coordinates(b, u, [x[0] for x in outer])
            from_outer = walked(b, source, at, [x[1] for x in outer])
            to_outer = walked(b, target, at, [x[2] for x in outer])
            with Loop(b, counters[1], "0", p_size) as p:
                seen = b.emit(f"add i64 {p}, {p_first}")
                inside = b.icmp("ult", "i64", seen, p_count)
                count = b.emit(f"select i1 {inside}, i64 {n_count}, i64 0")
                start = walked(b, from_outer, [seen], [p_source])
                to = walked(b, to_outer, [p], [p_target])
                with Loop(b, counters[2], "0", n_size, str(self.width)) as n:
                    first = b.emit(f"add i64 {n}, {n_first}")
                    element = b.emit(f"add {t} {b.splat(t, first)}, {memory.lanes()}")
                    mask = b.icmp("ult", t, element, b.splat(t, count))
                    here = walked(b, start, [first], [n_source])
                    if self.gathered:
                        x = memory.gather(memory.moved(here, offsets), mask)
                    else:
                        x = memory.load(here, mask)
                    whole = memory.mask(b.emit(f"sub i64 {n_size}, {n}"))
                    memory.store(x, walked(b, to, [n], [str(self.size)]), whole)
        return finished(b, name)
