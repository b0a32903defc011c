"""The native code of kernels that walk some memory down its columns, tile by tile.

An access whose neighbours lie in different rows brings a whole line of the cache for each element.
Before those lines are pushed out the next rows should use their other elements: so the rows of the
domain are taken TILE at a time, and for each vector of columns all rows of the tile come in turn.
The descriptor is that of codegen.loops; there is one outer loop and one inner one.
"""

from __future__ import annotations

from mgefn.compiler.codegen.loops import ARGUMENTS, ATTRIBUTES, Loops
from mgefn.compiler.codegen.values import ty

TILE = 16  # rows: as many float32 as a line of the cache holds


class Tiled(Loops):
    """Writes one kernel of layout TILED: elementwise, every store varies within the row."""

    def write(self, name: str) -> None:
        k, b, w = self.k, self.b, self.k.width
        assert k.outer == k.inner == 1 and not k.sums and not k.keeps
        self._described()
        (size,) = self.inner_sizes
        constants = {i: b.splat(ty(k.nodes[i].dtype, w), x) for i, x in self.scalars.items()}
        tile, column, row = (self.alloca("i64") for _ in range(3))

        b.store("i64", "%begin", tile)
        tiles, first = self._head(tile, "%end")
        last = b.call_intrinsic("smin", "i64", b.emit(f"add i64 {first}, {TILE}"), "%end")
        b.store("i64", "0", column)
        columns, j = self._head(column, size)
        left = b.emit(f"sub i64 {size}, {j}")
        left = b.emit(f"trunc i64 {b.call_intrinsic('smin', 'i64', left, str(w))} to i32")
        lanes = "<" + ", ".join(f"i32 {i}" for i in range(w)) + ">"
        mask = b.icmp("ult", f"<{w} x i32>", lanes, b.splat(f"<{w} x i32>", left))
        b.store("i64", first, row)
        rows, i = self._head(row, last)
        self._body(constants, i, j, mask)
        self._tail(rows, row, i, 1)
        self._tail(columns, column, j, w)
        self._tail(tiles, tile, first, TILE)
        b.do("ret void")
        b.function(name, "void", ARGUMENTS, ATTRIBUTES)

    def _head(self, counter: str, stop: str) -> tuple[tuple[str, str], str]:
        """Begin a loop: its labels, and the counter's value."""
        b = self.b
        head, body, done = b.label("head"), b.label("body"), b.label("done")
        b.br(head)
        b.place(head)
        i = b.load("i64", counter)
        b.cond_br(b.icmp("slt", "i64", i, stop), body, done)
        b.place(body)
        return (head, done), i

    def _tail(self, labels: tuple[str, str], counter: str, i: str, step: int) -> None:
        b = self.b
        b.store("i64", b.emit(f"add i64 {i}, {step}"), counter)
        b.br(labels[0])
        b.place(labels[1])

    def _body(self, constants: dict[int, str], i: str, j: str, mask: str) -> None:
        k, b, w = self.k, self.b, self.k.width
        bases = {
            n: self._moved(a, self.bases[n], b.emit(f"mul i64 {i}, {self.outer_strides[n][0]}"))
            for n, a in enumerate(k.accesses)
        }
        env = dict(constants)
        for n, node in enumerate(k.nodes):
            if node.op == "load":
                env[n] = self._load(node.data, bases, j, mask, node.dtype)
            elif node.op == "index":
                env[n] = self._index(node, bases, j)
            elif node.op == "apply":
                env[n] = self._apply(node, env, w)
        for n, a in k.stores:
            self._store(env[n], a, bases, j, mask)
