"""The native code of kernels whose rows are short: vectors run across rows.

A vector over a row of three elements would be mostly empty, and its reductions a tree of halves for
every row. Here a vector holds the same element of many rows. There are two inner loops: that along
the row, and inside of it the one in vectors, which the text turns around, so that the row is a loop
of scalars. A value that does not vary within the row is a vector all the same.

Where there are no outer loops, [begin, end) are elements of the loop in vectors, otherwise the
product of the outer ones. Values that a later stage reads again, and the sums over the loop in
vectors, lie on the stack, one vector for each element of a row: at most MOST_ACROSS. The descriptor
is that of codegen.loops.
"""

from __future__ import annotations

from mgefn.compiler.codegen.complex_values import first_of
from mgefn.compiler.codegen.loops import (
    ARGUMENTS,
    ATTRIBUTES,
    Loops,
    begin,
    combine,
    fold,
    stored,
    to_memory,
)
from mgefn.compiler.codegen.parts import Loop
from mgefn.compiler.codegen.values import alignment, itemsize, rounded, ty
from mgefn.compiler.kernel import GATHERED, MOST_ACROSS, ZERO


class Across(Loops):
    """Writes one kernel of layout ACROSS."""

    def write(self, name: str) -> None:
        k, b = self.k, self.b
        assert k.inner == 2
        outer_sizes, _ = self._described()
        self.row_size, length = self.inner_sizes
        self.scalars = {i: self._splat(k.nodes[i].dtype, x) for i, x in self.scalars.items()}
        self.kept = {n: self._row_memory(n) for n, _ in k.keeps}
        self.totals = {a: self._row_memory(n) for _, n, a in k.sums}
        self.counter = self.alloca("i64")
        if not k.outer:
            self._line([], "%begin", "%begin", b.emit("sub i64 %end, %begin"))
        else:
            with self._rows(outer_sizes) as indices:
                self._line(indices, self.row, "0", length)
        b.do("ret void")
        b.function(name, "void", ARGUMENTS, ATTRIBUTES)

    def _elements(self) -> Loop:
        """A loop over the elements of a row."""
        return Loop(self.b, self.counter, "0", self.row_size)

    def _row_memory(self, node: int) -> str:
        """Memory for a vector of each element of a row."""
        return self.alloca(f"[{MOST_ACROSS} x {ty(self.k.nodes[node].dtype, self.k.width)}]")

    def _cell(self, memory: str, dtype: str, c: str) -> str:
        t = ty(dtype, self.k.width)
        return self.b.emit(f"getelementptr [{MOST_ACROSS} x {t}], ptr {memory}, i64 0, i64 {c}")

    # -- one pass of the loop in vectors --------------------------------------------------------

    def _line(self, indices: list[str], unit: str, first: str, length: str) -> None:
        k, b, w = self.k, self.b, self.k.width
        starts: list[str] = []
        for i, a in enumerate(k.accesses):
            if a.kind == GATHERED:
                which = b.emit(f"udiv i64 {unit}, {self.rows}")
                size = b.emit(f"mul i64 {self.row_size}, {itemsize(a.dtype)}")
                starts.append(b.offset(self.bases[i], b.emit(f"mul i64 {which}, {size}")))
                continue
            starts.append(self._from_element(i, self._row_base(i, indices), first))
        for kind, n, a in k.sums:
            dtype = k.nodes[n].dtype
            t = ty(dtype, w)
            with self._elements() as c:
                b.store(t, begin(b, kind, dtype, w), self._cell(self.totals[a], dtype, c))
        with self._vectors_of(length) as (j, mask):
            self._stages(starts, j, mask)
        for kind, n, a in k.sums:
            dtype = k.nodes[n].dtype
            with self._elements() as c:
                x = b.load(ty(dtype, w), self._cell(self.totals[a], dtype, c))
                where = b.offset(starts[a], b.emit(f"mul i64 {c}, {itemsize(dtype)}"))
                self._put(fold(b, kind, dtype, w, x), dtype, where)

    def _stages(self, starts: list[str], j: str, mask: str) -> None:
        """All stages for a vector of rows."""
        k, b, w = self.k, self.b, self.k.width
        env = dict(self.scalars)  # constants
        for i, node in enumerate(k.nodes):
            if not node.in_row and node.op in ("load", "index", "inside") and not node.ins:
                env[i] = self._value(node, env, dict(enumerate(starts)), j, mask)
        for stage in range(1 + max([0, *(n.stage for n in k.nodes)])):
            for i, node in enumerate(k.nodes):
                ready = node.op in ("apply", "load") and not node.in_row and node.stage <= stage
                if ready and i not in env:
                    env[i] = self._value(node, env, dict(enumerate(starts)), j, mask)
            needed, reductions, stores = self._needed(stage)
            sums = [s for s in k.sums if self._when(s[1]) == stage]
            if not (reductions or stores or sums):
                continue
            for i in reductions:
                dtype = k.nodes[i].dtype
                b.store(ty(dtype, w), begin(b, k.nodes[i].data, dtype, w), self.slots[i])
            with self._elements() as c:
                places = self._places(starts, c)
                own = dict(env)
                for i in needed:
                    node = k.nodes[i]
                    if not node.in_row:
                        continue
                    if i in self.kept and node.stage < stage:
                        own[i] = b.load(ty(node.dtype, w), self._cell(self.kept[i], node.dtype, c))
                    else:
                        own[i] = self._value(node, own, dict(enumerate(places)), j, mask)
                for n, a in stores:
                    if (n, a) in k.keeps:
                        dtype = k.nodes[n].dtype
                        b.store(ty(dtype, w), own[n], self._cell(self.kept[n], dtype, c))
                    else:
                        self._store_at(own[n], a, places, j, mask)
                for kind, n, a in sums:
                    dtype = k.nodes[n].dtype
                    x = self._chosen(dtype, mask, own[n], begin(b, kind, dtype, w))
                    self._combined(kind, dtype, self._cell(self.totals[a], dtype, c), x)
                for i in reductions:
                    node = k.nodes[i]
                    self._combined(node.data, node.dtype, self.slots[i], own[node.ins[0]])
            for i in reductions:
                dtype = k.nodes[i].dtype
                env[i] = rounded(b, dtype, w, b.load(ty(dtype, w), self.slots[i]))
        for n, a in k.stores:
            if not k.accesses[a].varies:
                self._store_at(env[n], a, starts, j, mask)

    def _places(self, starts: list[str], c: str) -> list[str]:
        """Where each access is at an element of the row."""
        places = list(starts)
        for i, a in enumerate(self.k.accesses):
            if a.varies and a.kind != GATHERED:
                step = self.b.emit(f"mul i64 {c}, {self.inner_strides[i][0]}")
                places[i] = self._moved(a, starts[i], step)
        return places

    def _store_at(self, x: str, access: int, places: list[str], j: str, mask: str) -> None:
        a = self.k.accesses[access]
        if a.inner == ZERO:  # one value for all rows of the vector
            self._put(first_of(self.b, a.dtype, self.k.width, x), a.dtype, places[access])
        else:
            self._store(x, access, dict(enumerate(places)), j, mask)

    def _put(self, x: str, dtype: str, where: str) -> None:
        b = self.b
        b.store(stored(dtype, 1), to_memory(b, dtype, 1, x), where, alignment(dtype))

    def _combined(self, kind: str, dtype: str, cell: str, x: str) -> None:
        """Memory with one more vector of values."""
        b, t = self.b, ty(dtype, self.k.width)
        b.store(t, combine(b, kind, dtype, self.k.width, b.load(t, cell), x), cell)
