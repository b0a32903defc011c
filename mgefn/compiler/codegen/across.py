"""The native code of kernels whose rows are short: vectors run across rows.

A vector over a row of three elements would be mostly empty, and its reductions a tree of halves for
every row. Here a vector holds the same element of many rows: the last outer loop is the one in
vectors, and the row is a loop of scalars inside of it. A value that does not vary within the row
is a vector all the same.

Where there are no other outer loops, [begin, end) are elements of the loop in vectors, otherwise
the product of the others. Values that a later stage reads again, and the sums over the loop in
vectors, lie on the stack, one vector for each element of a row: at most MOST_ACROSS.

The descriptor is that of codegen.loops, with the size of the loop in vectors before those of the
row if there are other outer loops, and for each access the strides of the other outer loops, that
of the loop in vectors if it is STRIDED, and those of the row.
"""

from __future__ import annotations

from typing import Any

from mgefn.compiler.codegen.loops import (
    ARGUMENTS,
    ATTRIBUTES,
    Loops,
    combine,
    fold,
    neutral,
    stored,
    to_memory,
)
from mgefn.compiler.codegen.values import itemsize, rounded, ty
from mgefn.compiler.kernel import GATHERED, INDEX, MOST_ACROSS, STRIDED, ZERO


class Across(Loops):
    """Writes one kernel of layout ACROSS."""

    def write(self, name: str) -> None:
        k, b = self.k, self.b
        assert k.inner == 1
        outer_sizes = [self.number() for _ in range(k.outer - 1)]
        length = self.number() if k.outer else ""
        self.row_size = self.number()
        self.outer_strides = []
        self.inner_strides = []
        self.row_strides: list[str] = []
        self.bases = []
        slot = 0
        for a in k.accesses:
            own = a.kind == GATHERED
            self.outer_strides.append([] if own else [self.number() for _ in range(k.outer)])
            strided = a.inner == STRIDED and not own
            self.inner_strides.append([self.number()] if strided else [])
            self.row_strides.append("" if own else self.number())
            if a.kind == INDEX:
                self.bases.append(self.number())
            else:
                self.bases.append(b.load("ptr", b.offset("%ptrs", str(8 * slot)), 8))
                slot += 1
        self.rows = self.number()
        self.constants = [self.number() for _ in range(k.constants)]
        self.lanes = self._lanes()
        self.strided = {
            i: b.emit(f"mul <{k.width} x i64> {self.lanes}, {b.splat(f'<{k.width} x i64>', s[0])}")
            for i, s in enumerate(self.inner_strides)
            if s
        }
        for i, node in enumerate(k.nodes):
            if node.op == "const":
                self.scalars[i] = b.splat(ty(node.dtype, k.width), self._constant(node))
            elif node.op == "reduce":
                self.slots[i] = self.alloca(ty(node.dtype, k.width))
        self.kept = {
            n: self.alloca(f"[{MOST_ACROSS} x {ty(k.nodes[n].dtype, k.width)}]") for n, _ in k.keeps
        }
        self.totals = {
            a: self.alloca(f"[{MOST_ACROSS} x {ty(k.nodes[n].dtype, k.width)}]")
            for _, n, a in k.sums
        }
        self.counter = self.alloca("i64")
        if not k.outer:
            size = b.emit("sub i64 %end, %begin")
            self._line([], "%begin", "%begin", size)
        else:
            head, body, done = b.label("row"), b.label("work"), b.label("done")
            row = self.alloca("i64")
            b.store("i64", "%begin", row)
            b.br(head)
            b.place(head)
            i = b.load("i64", row)
            b.cond_br(b.icmp("slt", "i64", i, "%end"), body, done)
            b.place(body)
            indices = [i]
            for size in reversed(outer_sizes):
                rest = b.emit(f"udiv i64 {indices[0]}, {size}")
                last = b.emit(f"urem i64 {indices[0]}, {size}")
                indices[:1] = [rest, last]
            self._line(indices, i, "0", length)
            b.store("i64", b.emit(f"add i64 {b.load('i64', row)}, 1"), row)
            b.br(head)
            b.place(done)
        b.do("ret void")
        b.function(name, "void", ARGUMENTS, ATTRIBUTES)

    def _each(self, work: Any) -> None:
        """A loop over the elements of a row; `work` gets the number of the element."""
        b = self.b
        head, body, done = b.label("element"), b.label("in"), b.label("out")
        b.store("i64", "0", self.counter)
        b.br(head)
        b.place(head)
        c = b.load("i64", self.counter)
        b.cond_br(b.icmp("slt", "i64", c, self.row_size), body, done)
        b.place(body)
        work(c)
        b.store("i64", b.emit(f"add i64 {c}, 1"), self.counter)
        b.br(head)
        b.place(done)

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
            base = self.bases[i]
            if a.kind == GATHERED:
                which = b.emit(f"udiv i64 {unit}, {self.rows}")
                offset = b.emit(
                    f"mul i64 {which}, {b.emit(f'mul i64 {self.row_size}, {itemsize(a.dtype)}')}"
                )
                starts.append(b.offset(base, offset))
                continue
            for index, stride in zip(indices, self.outer_strides[i], strict=True):
                base = self._moved(a, base, b.emit(f"mul i64 {index}, {stride}"))
            if first != "0" and a.inner != ZERO:
                one = "1" if a.kind == INDEX else str(itemsize(a.dtype))
                step = self.inner_strides[i][0] if a.inner == STRIDED else one
                base = self._moved(a, base, b.emit(f"mul i64 {first}, {step}"))
            starts.append(base)
        for kind, n, a in k.sums:
            dtype = k.nodes[n].dtype

            def clear(c: str, kind: str = kind, a: int = a, dtype: str = dtype) -> None:
                t = ty(dtype, w)
                b.store(t, b.const(t, neutral(kind, dtype)), self._cell(self.totals[a], dtype, c))

            self._each(clear)
        entry, head, body, done = b.block, b.label("vector"), b.label("body"), b.label("end")
        b.br(head)
        b.place(head)
        j = f"%j{b.counter}"
        at = len(b.lines)  # the phi is written when the last block of the body is known
        b.cond_br(b.icmp("slt", "i64", j, length), body, done)
        b.place(body)
        left = b.emit(f"sub i64 {length}, {j}")
        left = b.emit(f"trunc i64 {b.call_intrinsic('smin', 'i64', left, str(w))} to i32")
        lanes = "<" + ", ".join(f"i32 {i}" for i in range(w)) + ">"
        mask = b.icmp("ult", f"<{w} x i32>", lanes, b.splat(f"<{w} x i32>", left))
        self._vectors(starts, j, mask)
        following = b.emit(f"add i64 {j}, {w}")
        latch = b.block
        b.br(head)
        b.lines.insert(at, f"  {j} = phi i64 [ 0, %{entry} ], [ {following}, %{latch} ]")
        b.place(done)
        for kind, n, a in k.sums:
            dtype = k.nodes[n].dtype

            def finish(c: str, kind: str = kind, a: int = a, dtype: str = dtype) -> None:
                x = b.load(ty(dtype, w), self._cell(self.totals[a], dtype, c))
                x = fold(b, kind, dtype, w, x)
                where = b.offset(starts[a], b.emit(f"mul i64 {c}, {itemsize(dtype)}"))
                self._put(x, dtype, where)

            self._each(finish)

    def _vectors(self, starts: list[str], j: str, mask: str) -> None:
        """All stages for a vector of rows."""
        k, b, w = self.k, self.b, self.k.width
        env = {i: x for i, x in self.scalars.items() if k.nodes[i].op == "const"}
        for i, node in enumerate(k.nodes):
            if not node.in_row and node.op in ("load", "index"):
                env[i] = self._value(i, starts, j, mask)
        for stage in range(1 + max([0, *(n.stage for n in k.nodes)])):
            for i, node in enumerate(k.nodes):
                ready = node.op == "apply" and not node.in_row and node.stage <= stage
                if ready and i not in env:
                    env[i] = self._apply(node, env, w)
            needed, reductions, stores = self._needed(stage)
            sums = [(kind, n, a) for kind, n, a in k.sums if self._when(n) == stage]
            if not (reductions or stores or sums):
                continue
            for i in reductions:
                t = ty(k.nodes[i].dtype, w)
                b.store(t, b.const(t, neutral(k.nodes[i].data, k.nodes[i].dtype)), self.slots[i])

            def element(
                c: str,
                stage: int = stage,
                needed: list[int] = needed,
                reductions: list[int] = reductions,
                stores: list[tuple[int, int]] = stores,
                sums: list[tuple[str, int, int]] = sums,
            ) -> None:
                own = dict(env)
                places = list(starts)
                for i, a in enumerate(k.accesses):
                    if a.varies and a.kind != GATHERED:
                        step = b.emit(f"mul i64 {c}, {self.row_strides[i]}")
                        places[i] = self._moved(a, starts[i], step)
                for i in needed:
                    node = k.nodes[i]
                    if not node.in_row:
                        continue
                    if i in self.kept and node.stage < stage:
                        own[i] = b.load(ty(node.dtype, w), self._cell(self.kept[i], node.dtype, c))
                    elif node.op == "apply":
                        own[i] = self._apply(node, own, w)
                    else:
                        own[i] = self._value(i, places, j, mask)
                for n, a in stores:
                    if n in self.kept and (n, a) in k.keeps:
                        dtype = k.nodes[n].dtype
                        b.store(ty(dtype, w), own[n], self._cell(self.kept[n], dtype, c))
                    else:
                        self._store_at(own[n], a, places, j, mask)
                for kind, n, a in sums:
                    dtype = k.nodes[n].dtype
                    self._add(kind, dtype, own[n], self._cell(self.totals[a], dtype, c), mask)
                for i in reductions:
                    node = k.nodes[i]
                    t = ty(node.dtype, w)
                    acc = b.load(t, self.slots[i])
                    total = combine(b, node.data, node.dtype, w, acc, own[node.ins[0]])
                    b.store(t, total, self.slots[i])

            self._each(element)
            for i in reductions:
                dtype = k.nodes[i].dtype
                env[i] = rounded(b, dtype, w, b.load(ty(dtype, w), self.slots[i]))
        for n, a in k.stores:
            if not k.accesses[a].varies:
                self._store_at(env[n], a, starts, j, mask)

    def _value(self, i: int, places: list[str], j: str, mask: str) -> str:
        node = self.k.nodes[i]
        where = dict(enumerate(places))
        if node.op == "index":
            return self._index(node, where, j)
        return self._load(node.data, where, j, mask, node.dtype)

    def _store_at(self, x: str, access: int, places: list[str], j: str, mask: str) -> None:
        a = self.k.accesses[access]
        if a.inner == ZERO:  # one value for all rows of the vector
            first = self.b.emit(f"extractelement {ty(a.dtype, self.k.width)} {x}, i64 0")
            self._put(first, a.dtype, places[access])
        else:
            self._store(x, access, dict(enumerate(places)), j, mask)

    def _put(self, x: str, dtype: str, where: str) -> None:
        b = self.b
        b.store(stored(dtype, 1), to_memory(b, dtype, 1, x), where, itemsize(dtype))

    def _add(self, kind: str, dtype: str, x: str, cell: str, mask: str) -> None:
        b, w = self.b, self.k.width
        t = ty(dtype, w)
        x = b.select(t, mask, x, b.const(t, neutral(kind, dtype)))
        b.store(t, combine(b, kind, dtype, w, b.load(t, cell), x), cell)
