"""The native code of kernels that walk some memory down its columns, tile by tile.

An access whose neighbours lie in different rows brings a whole line of the cache for each element.
Before those lines are pushed out the next rows should use their other elements: so the rows of the
domain are taken TILE at a time, and for each vector of columns all rows of the tile come in turn;
a BAND of tiles at a time, as each line lies in a page of its own.
What lies side by side down a column is read along it, and turned in registers into a tile on the
stack, whose rows are vectors: instructions that gather elements take several times as long.

The descriptor is that of codegen.loops; there is one outer loop and one inner one.
"""

from __future__ import annotations

from mgefn.compiler.codegen.loops import (
    ARGUMENTS,
    ATTRIBUTES,
    Loops,
    from_memory,
    stored,
)
from mgefn.compiler.codegen.parts import Loop, transposed
from mgefn.compiler.codegen.values import itemsize
from mgefn.compiler.kernel import BAND, TILE


class Tiled(Loops):
    """Writes one kernel of layout TILED: elementwise, every store varies within the row."""

    def write(self, name: str) -> None:
        k, b, w = self.k, self.b, self.k.width
        assert k.outer == k.inner == 1 and not k.sums and not k.keeps
        self._described()
        (size,) = self.inner_sizes
        self.scalars = {i: self._splat(k.nodes[i].dtype, x) for i, x in self.scalars.items()}
        band, tile, column, row = (self.alloca("i64") for _ in range(4))
        self.tiles = {
            n: self.alloca(f"[{TILE} x {stored(a.dtype, w)}], align 64")
            for n, a in enumerate(k.accesses)
            if a.turned
        }
        with Loop(b, band, "%begin", "%end", str(BAND)) as top:
            bottom = b.call_intrinsic("smin", "i64", b.emit(f"add i64 {top}, {BAND}"), "%end")
            with Loop(b, column, "0", size, str(w)) as j:
                mask = self._mask(size, j)
                with Loop(b, tile, top, bottom, str(TILE)) as first:
                    last = b.emit(f"add i64 {first}, {TILE}")
                    last = b.call_intrinsic("smin", "i64", last, bottom)
                    rows = self._lanes_below(b.emit(f"sub i64 {last}, {first}"))
                    for n in self.tiles:
                        self._turn(n, first, j, size, rows)
                    with Loop(b, row, first, last) as i:
                        self.in_tile = b.emit(f"sub i64 {i}, {first}")
                        self._body(i, j, mask)
        b.do("ret void")
        b.function(name, "void", ARGUMENTS, ATTRIBUTES)

    def _lanes_below(self, count: str) -> str:
        """Which rows of a tile there are."""
        b, t = self.b, f"<{TILE} x i32>"
        lanes = "<" + ", ".join(f"i32 {i}" for i in range(TILE)) + ">"
        return b.icmp("ult", t, lanes, b.splat(t, b.emit(f"trunc i64 {count} to i32")))

    def _turn(self, n: int, first: str, j: str, size: str, rows: str) -> None:
        """Fill the tile of an access: read down its columns, which become lanes."""
        b, w, dtype = self.b, self.k.width, self.k.accesses[n].dtype
        t = stored(dtype, TILE)
        top = self._row_base(n, [first])
        # The machine does not guess that the next vector of columns will want these lines.
        stride = self.inner_strides[n][-1]
        following = b.emit(f"add i64 {j}, {w}")
        ahead = b.offset(top, b.emit(f"mul i64 {following}, {stride}"))
        for c in range(w):
            b.prefetch(b.offset(ahead, b.emit(f"mul i64 {stride}, {c}")))
        block = min(TILE, w)
        square = stored(dtype, block)
        for c0 in range(0, w, block):
            columns = []
            for c in range(c0, c0 + block):
                column = b.emit(f"add i64 {j}, {c}")
                there = b.icmp("slt", "i64", column, size)
                mask = b.emit(
                    f"select i1 {there}, <{TILE} x i1> {rows}, <{TILE} x i1> zeroinitializer"
                )
                step = b.emit(f"mul i64 {column}, {stride}")
                columns.append(b.masked_load(t, b.offset(top, step), mask, itemsize(dtype)))
            for r0 in range(0, TILE, block):
                part = columns
                if block < TILE:
                    lanes = range(r0, r0 + block)
                    part = [b.shuffled(t, x, "poison", lanes) for x in columns]
                for r, x in enumerate(transposed(b, square, part)):
                    at = ((r0 + r) * w + c0) * itemsize(dtype)
                    where = b.offset(self.tiles[n], str(at))
                    b.store(square, x, where, min(64, block * itemsize(dtype)))

    def _body(self, i: str, j: str, mask: str) -> None:
        k = self.k
        bases = {n: self._row_base(n, [i]) for n, a in enumerate(k.accesses) if not a.turned}
        env = dict(self.scalars)  # constants
        for n, node in enumerate(k.nodes):
            if node.op != "const":
                env[n] = self._value(node, env, bases, j, mask)
        for n, a in k.stores:
            self._store(env[n], a, bases, j, mask)

    def _load(
        self, access: int, bases: dict[int, str], j: str, mask: str, dtype: str, plain: bool = True
    ) -> str:
        if access not in self.tiles:
            return super()._load(access, bases, j, mask, dtype, plain)
        b, w = self.b, self.k.width
        step = b.emit(f"mul i64 {self.in_tile}, {w * itemsize(dtype)}")
        where = b.offset(self.tiles[access], step)
        x = b.load(stored(dtype, w), where, min(64, w * itemsize(dtype)))
        return from_memory(b, dtype, w, x)
