"""The native code of kernels that walk some memory down its columns, tile by tile.

An access whose neighbours lie in different rows brings a whole line of the cache for each element.
Before those lines are pushed out the next rows should use their other elements: so the rows of the
domain are taken TILE at a time, and for each vector of columns all rows of the tile come in turn.
The descriptor is that of codegen.loops; there is one outer loop and one inner one.
"""

from __future__ import annotations

from mgefn.compiler.codegen.loops import ARGUMENTS, ATTRIBUTES, Loops
from mgefn.compiler.codegen.parts import Loop
from mgefn.compiler.kernel import TILE


class Tiled(Loops):
    """Writes one kernel of layout TILED: elementwise, every store varies within the row."""

    def write(self, name: str) -> None:
        k, b, w = self.k, self.b, self.k.width
        assert k.outer == k.inner == 1 and not k.sums and not k.keeps
        self._described()
        (size,) = self.inner_sizes
        self.scalars = {i: self._splat(k.nodes[i].dtype, x) for i, x in self.scalars.items()}
        tile, column, row = (self.alloca("i64") for _ in range(3))
        with Loop(b, tile, "%begin", "%end", str(TILE)) as first:
            last = b.call_intrinsic("smin", "i64", b.emit(f"add i64 {first}, {TILE}"), "%end")
            with Loop(b, column, "0", size, str(w)) as j:
                mask = self._mask(size, j)
                with Loop(b, row, first, last) as i:
                    self._body(i, j, mask)
        b.do("ret void")
        b.function(name, "void", ARGUMENTS, ATTRIBUTES)

    def _body(self, i: str, j: str, mask: str) -> None:
        k = self.k
        bases = {n: self._row_base(n, [i]) for n in range(len(k.accesses))}
        env = dict(self.scalars)  # constants
        for n, node in enumerate(k.nodes):
            if node.op != "const":
                env[n] = self._value(node, env, bases, j, mask)
        for n, a in k.stores:
            self._store(env[n], a, bases, j, mask)
