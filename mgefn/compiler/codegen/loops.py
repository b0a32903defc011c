"""The native code of a kernel: its loops as LLVM text.

A function takes the pointers of its accesses, the descriptor of run-time numbers, a range of its
parallel domain, and the worker's number. Loop variables and accumulators live on the stack in the
text; LLVM makes registers of them. Every vector operation on memory is masked, so the last,
shorter vector of a row needs no code of its own. Reductions keep one vector of accumulators and
fold it by halves: a fixed tree, whatever thread runs it.

Descriptor, in this order: the sizes of the outer loops but the first; the sizes of the inner loops
(FLAT has none, RAGGED the length of a piece and that of the row); for each access its outer
strides and its inner strides, in bytes, less the innermost where that is 1 element or 0; rows of a
chunk, or before the sums begin anew; the run-time constants.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mgefn.compiler.codegen.builder import Builder, Module, vector
from mgefn.compiler.codegen.complex_values import joined, parted, spread, turns, twice
from mgefn.compiler.codegen.values import (
    COMPLEX,
    FLOATS,
    HALVES,
    LLVM_TYPES,
    SIGNED,
    UNSIGNED,
    Operand,
    alignment,
    extreme,
    held,
    itemsize,
    rounded,
    ty,
)
from mgefn.compiler.kernel import (
    AHEAD_BYTES,
    BACKWARD,
    FLAT,
    GATHERED,
    INDEX,
    KEEP,
    NEXT_ROW,
    PAIRS,
    RAGGED,
    STRIDED,
    UNIT,
    ZERO,
    Access,
    Kernel,
)

ARGUMENTS = [
    ("ptr", "ptrs"),
    ("ptr", "desc"),
    ("i64", "begin"),
    ("i64", "end"),
    ("i64", "worker"),
]
ATTRIBUTES = "nounwind"


def stored(dtype: str, width: int) -> str:
    """The type in memory: a bool takes a byte, and a float of 16 bits is read by its bits."""
    if dtype == "bool":
        return vector("i8", width)
    if dtype in COMPLEX:
        return ty(dtype, width)
    return vector("i16" if dtype in HALVES else LLVM_TYPES[dtype], width)


def from_memory(b: Builder, dtype: str, width: int, x: str) -> str:
    """A value in a register, of what was loaded."""
    if dtype == "bool":
        t = stored(dtype, width)
        return b.icmp("ne", t, x, b.const(t, 0))
    if dtype in HALVES:
        t = vector(HALVES[dtype], width)
        return b.widen(t, b.cast("bitcast", x, stored(dtype, width), t))
    return x


def to_memory(b: Builder, dtype: str, width: int, x: str) -> str:
    """What is stored for a value in a register."""
    t = stored(dtype, width)
    if dtype == "bool":
        return b.emit(f"zext {ty(dtype, width)} {x} to {t}")
    if dtype in HALVES:
        half = vector(HALVES[dtype], width)
        return b.cast("bitcast", b.narrow(half, x), half, t)
    return x


def neutral(kind: str, dtype: str) -> float | int | bool:
    """What a reduction starts from."""
    if kind in ("sum", "or", "xor"):
        return 0
    if kind == "prod":
        return 1
    if kind == "and":
        return True if dtype == "bool" else -1
    if dtype == "bool":
        return kind == "min"
    if dtype in SIGNED or dtype in UNSIGNED:
        bits = itemsize(dtype) * 8
        low, high = (
            (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype in SIGNED else (0, (1 << bits) - 1)
        )
        return low if kind == "max" else high
    return float("-inf") if kind == "max" else float("inf")


def begin(b: Builder, kind: str, dtype: str, width: int) -> str:
    """The accumulator before the first value."""
    if dtype in COMPLEX:
        return turns(b, dtype, width, neutral(kind, dtype), 0)
    return b.const(ty(dtype, width), neutral(kind, dtype))


def combine(b: Builder, kind: str, dtype: str, width: int, x: str, y: str) -> str:
    """The accumulator with one more value."""
    t = ty(dtype, width)
    if dtype in COMPLEX and kind == "prod":
        t = ty(COMPLEX[dtype], width)
        (xr, xi), (yr, yi) = parted(b, dtype, width, x), parted(b, dtype, width, y)
        re = b.fsub(t, b.fmul(t, xr, yr), b.fmul(t, xi, yi))
        im = b.fadd(t, b.fmul(t, xr, yi), b.fmul(t, xi, yr))
        return joined(b, dtype, width, re, im)
    if kind in ("max", "min"):
        return extreme(b, held(dtype), width, x, y, kind == "max")
    if kind in ("and", "or", "xor"):
        return b.emit(f"{kind} {t} {x}, {y}")
    whole = {"sum": "add", "prod": "mul"}[kind]
    if dtype == "bool":
        whole = {"sum": "or", "prod": "and"}[kind]
    elif dtype not in SIGNED and dtype not in UNSIGNED:
        whole = f"f{whole}"
    return b.emit(f"{whole} {t} {x}, {y}")


def fold(b: Builder, kind: str, dtype: str, width: int, x: str) -> str:
    """A vector of accumulators as one value, halves upon halves."""
    while width > 1:
        t = ty(dtype, width)
        # Of the elements of the register, of which a complex number has two.
        half = width if dtype in COMPLEX else width // 2
        low = b.shuffled(t, x, "poison", range(half))
        high = b.shuffled(t, x, "poison", range(half, 2 * half))
        width //= 2
        x = (
            combine(b, kind, dtype, width, low, high)
            if width > 1 or dtype in COMPLEX
            else _last(b, kind, dtype, low, high)
        )
    return x


def _last(b: Builder, kind: str, dtype: str, low: str, high: str) -> str:
    t = vector(LLVM_TYPES[dtype], 1)
    one = f"<1 x {t}>"
    x = b.emit(f"extractelement {one} {low}, i64 0")
    y = b.emit(f"extractelement {one} {high}, i64 0")
    return combine(b, kind, dtype, 1, x, y)


class Loops:
    """Writes one kernel."""

    def __init__(self, kernel: Kernel, module: Module):
        self.k = kernel
        self.b = Builder(module)
        self.at = 0  # position in the descriptor
        self.scalars: dict[int, str] = {}  # node -> value, once a row or once a call
        self.slots: dict[int, str] = {}  # node of a reduction -> its accumulator's memory

    # -- the descriptor -------------------------------------------------------------------------

    def number(self) -> str:
        """The next number of the descriptor."""
        b = self.b
        out = b.load("i64", b.offset("%desc", str(8 * self.at)), 8)
        self.at += 1
        return out

    def alloca(self, t: str) -> str:
        return self.b.emit(f"alloca {t}")

    # -- the whole ------------------------------------------------------------------------------

    def write(self, name: str) -> None:
        k, b = self.k, self.b
        outer_sizes, whole = self._described()
        counters = [self.alloca("i64") for _ in range(k.inner - 1)]
        linear = self.alloca("i64")
        if k.layout == FLAT:
            self.first_in_row = "%begin"
            self.row_size = b.emit("sub i64 %end, %begin")
            self._row([], "0", counters, linear)
        else:
            with self._rows(outer_sizes) as indices:
                i = self.row
                self.first_in_row = "0"
                if k.layout == RAGGED:
                    piece = self.inner_sizes[0]
                    self.first_in_row = b.emit(f"mul i64 {i}, {piece}")
                    left = b.emit(f"sub i64 {whole}, {self.first_in_row}")
                    self.row_size = b.call_intrinsic("smin", "i64", piece, left)
                else:
                    self.row_size = self.inner_sizes[-1]
                self._row(indices if k.outer else [], i, counters, linear)
        if any(a.past for a in k.accesses):
            b.module.declare("llvm.x86.sse.sfence", "void", [])
            b.do("call void @llvm.x86.sse.sfence()")  # for others to see what was written
        b.do("ret void")
        b.function(name, "void", ARGUMENTS, ATTRIBUTES)

    @contextmanager
    def _rows(self, outer_sizes: Sequence[str]) -> Iterator[list[str]]:
        """A loop over [begin, end): `self.row`, taken apart by the sizes of the outer loops."""
        b = self.b
        head, body, done = b.label("row"), b.label("work"), b.label("done")
        row = self.alloca("i64")
        b.store("i64", "%begin", row)
        b.br(head)
        b.place(head)
        self.row = b.load("i64", row)
        b.cond_br(b.icmp("slt", "i64", self.row, "%end"), body, done)
        b.place(body)
        indices = [self.row]
        for size in reversed(outer_sizes):
            rest = b.emit(f"udiv i64 {indices[0]}, {size}")
            last = b.emit(f"urem i64 {indices[0]}, {size}")
            indices[:1] = [rest, last]
        yield indices
        after = b.load("i64", row)
        b.store("i64", b.emit(f"add i64 {after}, 1"), row)
        b.br(head)
        b.place(done)

    @contextmanager
    def _vectors_of(self, size: str, first: str = "0") -> Iterator[tuple[str, str]]:
        """A loop over `size` elements in vectors: the first element's number, and the mask.

        first: where the first vector begins; less than 0, its first elements are masked.
        """
        b, w = self.b, self.k.width
        entry, head, body, done = b.block, b.label("vector"), b.label("body"), b.label("end")
        b.br(head)
        b.place(head)
        j = f"%j{b.counter}"
        at = len(b.lines)  # the phi is written when the last block of the body is known
        b.cond_br(b.icmp("slt", "i64", j, size), body, done)
        b.place(body)
        yield j, self._mask(size, j, first)
        following = b.emit(f"add i64 {j}, {w}")
        latch = b.block
        b.br(head)
        b.lines.insert(at, f"  {j} = phi i64 [ {first}, %{entry} ], [ {following}, %{latch} ]")
        b.place(done)

    def _mask(self, size: str, j: str, first: str = "0") -> str:
        """The lanes of a vector at j that lie below size, and not below 0."""
        b, w = self.b, self.k.width
        left = b.emit(f"sub i64 {size}, {j}")
        left = b.emit(f"trunc i64 {b.call_intrinsic('smin', 'i64', left, str(w))} to i32")
        lanes = "<" + ", ".join(f"i32 {i}" for i in range(w)) + ">"
        mask = b.icmp("ult", f"<{w} x i32>", lanes, b.splat(f"<{w} x i32>", left))
        self.left, self.before = left, ""
        if any(a.dtype in COMPLEX for a in self.k.accesses):
            twice(b, w, mask, left)
        if first != "0":
            before = b.call_intrinsic("smax", "i64", b.emit(f"sub i64 0, {j}"), "0")
            self.before = b.emit(f"trunc i64 {before} to i32")
            begun = b.icmp("uge", f"<{w} x i32>", lanes, b.splat(f"<{w} x i32>", self.before))
            mask = self._all_of([mask, begun], w)
        return mask

    def _read_descriptor(self) -> tuple[list[str], str]:
        """Read it: the sizes of the outer loops but the first, and of a RAGGED row."""
        k = self.k
        outer_sizes = [self.number() for _ in range(k.outer - 1)]
        self.inner_sizes = [] if k.layout == FLAT else [self.number() for _ in range(k.inner)]
        whole = self.number() if k.layout == RAGGED else ""
        self.outer_strides: list[list[str]] = []
        self.inner_strides: list[list[str]] = []
        self.bases: list[str] = []
        self.n_pointers = 0
        for a in k.accesses:
            own = a.kind in (KEEP, GATHERED)
            self.outer_strides.append([] if own else [self.number() for _ in range(k.outer)])
            n = 0 if own else k.inner - (0 if a.inner == STRIDED else 1)
            self.inner_strides.append([self.number() for _ in range(n)])
            if a.kind == INDEX:
                self.bases.append(self.number())  # the first position
            else:
                self.bases.append(self._pointer(self.n_pointers))
                self.n_pointers += 1
        self.rows = self.number()
        self.constants = [self.number() for _ in range(k.constants)]
        return outer_sizes, whole

    def _pointer(self, slot: int) -> str:
        return self.b.load("ptr", self.b.offset("%ptrs", str(8 * slot)), 8)

    def _described(self) -> tuple[list[str], str]:
        """What `_read_descriptor` gives; makes constants, strides in vectors, and accumulators."""
        k, b = self.k, self.b
        outer_sizes, whole = self._read_descriptor()
        self.lanes = self._lanes()
        self.strided = {
            i: b.emit(f"mul <{k.width} x i64> {self.lanes}, {b.splat(f'<{k.width} x i64>', s[-1])}")
            for i, s in enumerate(self.inner_strides)
            if k.accesses[i].inner == STRIDED and s
        }
        if any(n.op == "load" and n.ins and not n.in_row for n in k.nodes):
            self.nowhere = self.alloca("i128")
            b.store("i128", "0", self.nowhere)
        for i, node in enumerate(k.nodes):
            if node.op == "const":
                self.scalars[i] = self._constant(node)
            elif node.op == "reduce":
                self.slots[i] = self.alloca(ty(node.dtype, k.width))
        return outer_sizes, whole

    def _lanes(self) -> str:
        w = self.k.width
        return "<" + ", ".join(f"i64 {i}" for i in range(w)) + ">"

    def _constant(self, node: Any) -> str:
        """A literal, or a run-time constant from the descriptor, as a scalar."""
        b = self.b
        kind, value = node.data
        if node.dtype in COMPLEX:
            part = COMPLEX[node.dtype]
            parts = [self._number_as(part, self.constants[n]) for n in (value, value + 1)]
            return joined(b, node.dtype, 1, *parts)
        if kind == "literal":
            return b.const(ty(node.dtype, 1), value)
        return self._number_as(node.dtype, self.constants[value])

    def _number_as(self, dtype: str, bits: str) -> str:
        """A run-time constant in its dtype."""
        b = self.b
        if dtype == "float64":
            return b.emit(f"bitcast i64 {bits} to double")
        if held(dtype) == "float32":
            return b.emit(f"fptrunc double {b.emit(f'bitcast i64 {bits} to double')} to float")
        return b.cast("trunc", bits, "i64", ty(dtype, 1))

    def _splat(self, dtype: str, x: str) -> str:
        """A scalar in every element of a vector."""
        if dtype in COMPLEX:
            return spread(self.b, dtype, self.k.width, x)
        return self.b.splat(ty(dtype, self.k.width), x)

    def _chosen(self, dtype: str, mask: str, yes: str, no: str) -> str:
        """Of two vectors the one or the other, by a mask of elements."""
        if dtype in COMPLEX:
            mask = twice(self.b, self.k.width, mask)
        return self.b.select(ty(dtype, self.k.width), mask, yes, no)

    # -- a row ----------------------------------------------------------------------------------

    def _row(self, indices: list[str], row: str, counters: list[str], linear: str) -> None:
        k, b = self.k, self.b
        self.pointers: list[str] = []
        for i, a in enumerate(k.accesses):
            if a.kind in (KEEP, GATHERED):
                which = b.emit(
                    f"udiv i64 {'%begin' if a.kind == KEEP or not k.led else row}, {self.rows}"
                )
                size = self.row_size
                for s in self.inner_sizes[:-1]:
                    size = b.emit(f"mul i64 {size}, {s}")
                offset = b.emit(
                    f"mul i64 {which}, {b.emit(f'mul i64 {size}, {itemsize(a.dtype)}')}"
                )
                self.pointers.append(b.offset(self.bases[i], offset))
                continue
            base = self._row_base(i, indices)
            self.pointers.append(self._from_element(i, base, self.first_in_row))
        if k.sums:
            start = b.emit(f"urem i64 {row}, {self.rows}") if k.led else row
            self.fresh = b.icmp("eq", "i64", start, "0" if k.led else "%begin")
        for i, node in enumerate(k.nodes):
            if node.op != "const":
                self.scalars.pop(i, None)
        for i, node in enumerate(k.nodes):
            if not node.in_row and node.op in ("load", "index", "inside") and not node.ins:
                self.scalars[i] = self._load_scalar(node)
        stages = 1 + max([0, *(n.stage for n in k.nodes)])
        for stage in range(stages):
            self._scalar_work(stage)
            self._loop(stage, counters, linear)
        for n, a in k.stores:
            if not k.accesses[a].varies:
                self._store_scalar(self.scalars[n], a)

    def _row_base(self, i: int, indices: Sequence[str]) -> str:
        """Where an access begins in the row of these outer indices."""
        a, base = self.k.accesses[i], self.bases[i]
        for index, stride in zip(indices, self.outer_strides[i], strict=False):
            base = self._moved(a, base, self.b.emit(f"mul i64 {index}, {stride}"))
        return base

    def _from_element(self, i: int, base: str, first: str) -> str:
        """An access at the first of the elements that are wanted of the innermost loop."""
        a = self.k.accesses[i]
        if first == "0" or a.inner == ZERO:
            return base
        return self._moved(a, base, self.b.emit(f"mul i64 {first}, {self._step(i)}"))

    def _step(self, i: int) -> str:
        """From an element of the innermost loop to the next; positions for INDEX, else bytes."""
        a = self.k.accesses[i]
        if a.inner == STRIDED:
            return self.inner_strides[i][-1]
        unit = 1 if a.kind == INDEX else itemsize(a.dtype)
        return str({BACKWARD: -unit, PAIRS: 2 * unit}.get(a.inner, unit))

    def _moved(self, a: Access, base: str, offset: str) -> str:
        if a.kind == INDEX:
            return self.b.emit(f"add i64 {base}, {offset}")
        return self.b.offset(base, offset)

    def _load_scalar(self, node: Any) -> str:
        b = self.b
        if node.op == "inside":
            access, size = node.data
            return b.icmp("ult", "i64", self.pointers[access], self.constants[size])
        pointer = self.pointers[node.data]
        if node.op == "index":
            return self._as_number(pointer, node.dtype, 1)
        if not node.ins:
            return self._element(node.dtype, pointer)
        # There may be no memory: what the stack holds is read in its place.
        inside = self._all_of([self.scalars[i] for i in node.ins[1:]], 1)
        x = self._element(node.dtype, b.select("ptr", inside, pointer, self.nowhere))
        t = ty(node.dtype, 1)  # of complex numbers a vector
        return b.emit(f"select i1 {inside}, {t} {x}, {t} {self.scalars[node.ins[0]]}")

    def _element(self, dtype: str, pointer: str) -> str:
        b = self.b
        return from_memory(b, dtype, 1, b.load(stored(dtype, 1), pointer, alignment(dtype)))

    def _all_of(self, conditions: Sequence[str], width: int) -> str:
        """Do all of these hold? For each element."""
        b, first = self.b, conditions[0]
        for other in conditions[1:]:
            first = b.emit(f"and {vector('i1', width)} {first}, {other}")
        return first

    def _as_number(self, position: str, dtype: str, width: int) -> str:
        """A position, an i64, in another dtype."""
        b, s, t = self.b, vector("i64", width), ty(dtype, width)
        if dtype in COMPLEX:
            part = COMPLEX[dtype]
            re = self._as_number(position, part, width)
            return joined(b, dtype, width, re, b.const(ty(part, width), 0))
        if dtype in FLOATS or dtype in HALVES:
            return rounded(b, dtype, width, b.emit(f"sitofp {s} {position} to {t}"))
        return b.cast("trunc", position, s, t)

    def _store_scalar(self, x: str, access: int) -> None:
        b, dtype = self.b, self.k.accesses[access].dtype
        x = to_memory(b, dtype, 1, x)
        b.store(stored(dtype, 1), x, self.pointers[access], alignment(dtype))

    def _scalar_work(self, stage: int) -> None:
        """What is computed once a row, now that the reductions before this stage are known."""
        for i, node in enumerate(self.k.nodes):
            if node.in_row or i in self.scalars or node.stage > stage:
                continue
            if node.op == "apply":
                self.scalars[i] = self._apply(node, self.scalars, 1)
            elif node.op == "load":
                self.scalars[i] = self._load_scalar(node)

    def _apply(self, node: Any, env: dict[int, str], width: int) -> str:
        row, params = node.data
        ops = [Operand(env[j], held(self.k.nodes[j].dtype)) for j in node.ins]
        x = row.emit(self.b, held(node.dtype), width, ops, dict(params))
        return rounded(self.b, node.dtype, width, x)

    # -- a loop over the row --------------------------------------------------------------------

    def _needed(self, stage: int) -> tuple[list[int], list[int], list[tuple[int, int]]]:
        """Nodes to compute in this stage's loop, its reductions, and its stores."""
        k = self.k
        reductions = [i for i, n in enumerate(k.nodes) if n.op == "reduce" and n.stage == stage + 1]
        stores = [(n, a) for n, a in k.stores if k.accesses[a].varies and self._when(n) == stage]
        keeps = [(n, a) for n, a in k.keeps if k.nodes[n].stage == stage]
        sums = [(n, a) for _, n, a in k.sums if self._when(n) == stage]
        kept = {n for n, _ in k.keeps if k.nodes[n].stage < stage}
        needed: set[int] = set()
        pending = [k.nodes[i].ins[0] for i in reductions]
        pending += [n for n, _ in (*stores, *keeps, *sums)]
        while pending:
            i = pending.pop()
            if i in needed:
                continue
            needed.add(i)
            if k.nodes[i].in_row and i not in kept:
                pending += k.nodes[i].ins
        return sorted(needed), reductions, [*stores, *keeps]

    def _when(self, n: int) -> int:
        """The stage whose loop stores a node."""
        return self.k.nodes[n].stage

    def _loop(self, stage: int, counters: list[str], linear: str) -> None:
        k, b, w = self.k, self.b, self.k.width
        needed, reductions, stores = self._needed(stage)
        sums = [(kind, n, a) for kind, n, a in k.sums if self._when(n) == stage]
        if not (reductions or stores or sums):
            return
        splats = {
            i: self._splat(k.nodes[i].dtype, self.scalars[i])
            for i in needed
            if not k.nodes[i].in_row
        }
        for i in reductions:
            dtype = k.nodes[i].dtype
            b.store(ty(dtype, w), begin(b, k.nodes[i].data, dtype, w), self.slots[i])
        fresh = b.splat(f"<{w} x i1>", self.fresh) if sums else ""
        b.store("i64", "0", linear)
        # The loops of a row around the innermost, by counters.
        heads: list[tuple[str, str, str]] = []
        for c, size in zip(counters, self.inner_sizes[:-1], strict=True):
            head, body, done = b.label("outer"), b.label("in"), b.label("out")
            b.store("i64", "0", c)
            b.br(head)
            b.place(head)
            b.cond_br(b.icmp("slt", "i64", b.load("i64", c), size), body, done)
            b.place(body)
            heads.append((head, done, c))
        before = b.load("i64", linear)
        bases: dict[int, str] = {}
        for i, a in enumerate(k.accesses):
            if not a.varies and a.kind not in (KEEP, GATHERED):
                continue
            base = self.pointers[i]
            if a.kind in (KEEP, GATHERED):
                if heads:
                    base = b.offset(base, b.emit(f"mul i64 {before}, {itemsize(a.dtype)}"))
            else:
                for (_, _, c), stride in zip(heads, self.inner_strides[i], strict=False):
                    step = b.emit(f"mul i64 {b.load('i64', c)}, {stride}")
                    base = self._moved(a, base, step)
            bases[i] = base
        size = self.row_size
        # A sum takes the elements in the order of memory, wherever that begins.
        past = [] if reductions or sums else [a for _, a in stores if k.accesses[a].past]
        first = self._align(past, bases) if past else "0"
        with self._vectors_of(size, first) as (j, mask):
            whole = ""
            if past:
                end = b.icmp("sle", "i64", b.emit(f"add i64 {j}, {w}"), size)
                whole = b.emit(f"and i1 {b.icmp('sge', 'i64', j, '0')}, {end}")
            self._read_ahead(stage, needed, bases, j)
            env = dict(splats)
            kept = {n: a for n, a in k.keeps if k.nodes[n].stage < stage}
            for i in needed:
                node = k.nodes[i]
                if not node.in_row:
                    continue
                if i in kept:
                    env[i] = self._load(kept[i], bases, j, mask, node.dtype)
                else:
                    env[i] = self._value(node, env, bases, j, mask)
            for n, a in stores:
                if a in past:
                    self._store_past(env[n], a, bases, j, mask, whole)
                else:
                    self._store(env[n], a, bases, j, mask)
            for kind, n, a in sums:
                dtype = k.accesses[a].dtype
                old = self._load(a, bases, j, mask, dtype)
                old = self._chosen(dtype, fresh, begin(b, kind, dtype, w), old)
                self._store(combine(b, kind, dtype, w, old, env[n]), a, bases, j, mask)
            for i in reductions:
                node = k.nodes[i]
                t = ty(node.dtype, w)
                x = env[node.ins[0]]
                x = self._chosen(node.dtype, mask, x, begin(b, node.data, node.dtype, w))
                acc = b.load(t, self.slots[i])
                b.store(t, combine(b, node.data, node.dtype, w, acc, x), self.slots[i])
        if heads:
            b.store("i64", b.emit(f"add i64 {before}, {size}"), linear)
        for head, done, c in reversed(heads):
            b.store("i64", b.emit(f"add i64 {b.load('i64', c)}, 1"), c)
            b.br(head)
            b.place(done)
        for i in reductions:
            node = k.nodes[i]
            x = b.load(ty(node.dtype, w), self.slots[i])
            self.scalars[i] = rounded(b, node.dtype, 1, fold(b, node.data, node.dtype, w, x))

    def _value(self, node: Any, env: dict[int, str], bases: dict[int, str], j: str,
               mask: str) -> str:  # fmt: skip
        """The vector of a node whose operands are known."""
        if node.op == "apply":
            return self._apply(node, env, self.k.width)
        if node.op == "index":
            return self._index(node, bases, j)
        if node.op == "inside":
            return self._inside(node, bases, j)
        if not node.ins:
            return self._load(node.data, bases, j, mask, node.dtype)
        inside = self._all_of([env[i] for i in node.ins[1:]], self.k.width)
        both = self._all_of([mask, inside], self.k.width)
        x = self._load(node.data, bases, j, both, node.dtype, plain=False)
        return self._chosen(node.dtype, inside, x, env[node.ins[0]])

    def _read_ahead(self, stage: int, needed: Sequence[int], bases: dict[int, str], j: str) -> None:
        """Ask for the memory of later vectors, which the computation would have to wait for.

        The machine does so by itself, but less far than much arithmetic lasts, and not while loops
        go over a row that is in the cache. An address that does not exist does no harm.
        """
        for i, node in enumerate(self.k.nodes):
            if node.op != "load" or node.ins or not self.k.accesses[node.data].ahead:
                continue
            how, distance = self.k.accesses[node.data].ahead, ""
            if i in needed and node.stage == stage:
                distance = str(AHEAD_BYTES)
            elif how == NEXT_ROW and node.stage == stage - 1 and self.k.outer:
                distance = self.outer_strides[node.data][-1]
            if distance:
                self.b.prefetch(self.b.offset(self._address(node.data, bases, j), distance))

    # -- memory in vectors ----------------------------------------------------------------------

    def _address(self, access: int, bases: dict[int, str], j: str) -> str:
        step = self.b.emit(f"mul i64 {j}, {self._step(access)}")
        return self.b.offset(bases[access], step)

    def _load(
        self, access: int, bases: dict[int, str], j: str, mask: str, dtype: str, plain: bool = True
    ) -> str:
        """A vector from memory; `plain`: is the mask that of the loop?"""
        b, w, a = self.b, self.k.width, self.k.accesses[access]
        t = stored(dtype, w)
        if a.inner == ZERO:
            one = b.load(stored(dtype, 1), bases[access], alignment(dtype))
            if dtype in COMPLEX:
                return spread(b, dtype, w, one)
            x = b.splat(t, one)
        elif dtype in COMPLEX:
            x = self._load_complex(access, bases, j, mask, dtype)
            parted(b, dtype, w, x, kept=True)
        elif a.inner == UNIT:
            x = b.masked_load(t, self._address(access, bases, j), mask, itemsize(dtype))
        elif a.inner == BACKWARD:
            # The vector that ends with the first element, turned around.
            last = b.offset(self._address(access, bases, j), str((1 - w) * itemsize(dtype)))
            lanes = range(w - 1, -1, -1)
            turned = b.shuffled(f"<{w} x i1>", mask, "poison", lanes)
            x = b.shuffled(t, b.masked_load(t, last, turned, itemsize(dtype)), "poison", lanes)
        elif a.inner == PAIRS:
            both, first = stored(dtype, 2 * w), self._address(access, bases, j)
            pairs = b.masked_load(both, first, self._firsts(), itemsize(dtype))
            x = b.shuffled(both, pairs, "poison", range(0, 2 * w, 2))
        elif plain:
            x = self._loaded_singly(access, bases, j, mask, t)
        else:
            x = self._gathered(access, bases, j, mask, t)
        return from_memory(b, dtype, w, x)

    def _firsts(self) -> str:
        """The mask of a vector of pairs: the first of each that the loop's mask lets through."""
        b, t = self.b, f"<{2 * self.k.width} x i32>"
        never = (1 << 31) - 1
        lanes = ", ".join(f"i32 {never if i % 2 else i // 2}" for i in range(2 * self.k.width))
        mask = b.icmp("ult", t, f"<{lanes}>", b.splat(t, self.left))
        if self.before:
            begun = b.icmp("uge", t, f"<{lanes}>", b.splat(t, self.before))
            mask = self._all_of([mask, begun], 2 * self.k.width)
        return mask

    def _loaded_singly(self, access: int, bases: dict[int, str], j: str, mask: str, t: str) -> str:
        """A vector with a stride: element by element if it is whole, and gathered if not.

        The instruction that gathers takes several times as long on many machines.
        """
        b, w, dtype = self.b, self.k.width, self.k.accesses[access].dtype
        one, step = stored(dtype, 1), self.inner_strides[access][-1]
        whole = b.icmp("eq", "i32", self.left, str(w))
        if self.before:
            whole = b.emit(f"and i1 {whole}, {b.icmp('eq', 'i32', self.before, '0')}")
        singly, gather, done = b.label("singly"), b.label("gather"), b.label("loaded")
        first = self._address(access, bases, j)
        b.cond_br(whole, singly, gather)
        b.place(singly)
        x = "poison"
        for lane in range(w):
            where = b.offset(first, b.emit(f"mul i64 {step}, {lane}")) if lane else first
            x = b.emit(
                f"insertelement {t} {x}, {one} {b.load(one, where, itemsize(dtype))}, i64 {lane}"
            )
        from_singly = b.block
        b.br(done)
        b.place(gather)
        y = self._gathered(access, bases, j, mask, t)
        from_gather = b.block
        b.br(done)
        b.place(done)
        return b.emit(f"phi {t} [ {x}, %{from_singly} ], [ {y}, %{from_gather} ]")

    def _gathered(self, access: int, bases: dict[int, str], j: str, mask: str, t: str) -> str:
        size = itemsize(self.k.accesses[access].dtype)
        return self.b.masked_load(t, self._pointers(access, bases, j), mask, size, many=True)

    def _load_complex(
        self, access: int, bases: dict[int, str], j: str, mask: str, dtype: str
    ) -> str:
        b, w = self.b, self.k.width
        where, t, mask, many = self._complex_memory(access, bases, j, mask, dtype)
        x = b.masked_load(t, where, mask, alignment(dtype), many=many)
        return b.cast("bitcast", x, t, ty(dtype, w))

    def _store_complex(
        self, x: str, access: int, bases: dict[int, str], j: str, mask: str, dtype: str
    ) -> None:
        b, w = self.b, self.k.width
        where, t, mask, many = self._complex_memory(access, bases, j, mask, dtype)
        x = b.cast("bitcast", x, ty(dtype, w), t)
        b.masked_store(t, x, where, mask, alignment(dtype), many=many)

    def _complex_memory(
        self, access: int, bases: dict[int, str], j: str, mask: str, dtype: str
    ) -> tuple[str, str, str, bool]:
        """Where a vector of complex numbers lies, as what type, its mask; has it many pointers?"""
        b, w = self.b, self.k.width
        t = ty(dtype, w)
        if self.k.accesses[access].inner == UNIT:
            return self._address(access, bases, j), t, twice(b, w, mask), False
        pointers = self._pointers(access, bases, j)
        if dtype == "complex64":  # as one number of 64 bits
            return pointers, f"<{w} x i64>", mask, True
        pairs = b.shuffled(f"<{w} x ptr>", pointers, "poison", [i // 2 for i in range(2 * w)])
        steps = ", ".join(f"i64 {i % 2 * itemsize(COMPLEX[dtype])}" for i in range(2 * w))
        pairs = b.emit(f"getelementptr i8, <{2 * w} x ptr> {pairs}, <{2 * w} x i64> <{steps}>")
        return pairs, t, twice(b, w, mask), True

    def _pointers(self, access: int, bases: dict[int, str], j: str) -> str:
        """The addresses of a vector with a stride."""
        b, w = self.b, self.k.width
        pointer = self._address(access, bases, j)
        return b.emit(f"getelementptr i8, ptr {pointer}, <{w} x i64> {self.strided[access]}")

    def _store(self, x: str, access: int, bases: dict[int, str], j: str, mask: str) -> None:
        b, w, a = self.b, self.k.width, self.k.accesses[access]
        if a.dtype in COMPLEX:
            self._store_complex(x, access, bases, j, mask, a.dtype)
            return
        t = stored(a.dtype, w)
        x = to_memory(b, a.dtype, w, x)
        many = a.inner != UNIT
        where = (self._pointers if many else self._address)(access, bases, j)
        b.masked_store(t, x, where, mask, itemsize(a.dtype), many=many)

    def _inside(self, node: Any, bases: dict[int, str], j: str) -> str:
        """Which positions of a vector are in an array."""
        b, w = self.b, self.k.width
        access, size = node.data
        size = b.cast("trunc", self.constants[size], "i64", "i32")
        positions = self._positions(access, bases, j, "i32")
        return b.icmp("ult", f"<{w} x i32>", positions, b.splat(f"<{w} x i32>", size))

    def _positions(self, i: int, bases: dict[int, str], j: str, t: str) -> str:
        """The positions of a vector along the axis that an access counts, as integers."""
        b, w = self.b, self.k.width
        a, start = self.k.accesses[i], bases[i]
        if a.inner != ZERO:
            step = self.inner_strides[i][-1] if a.inner == STRIDED else "1"
            start = b.emit(f"add i64 {start}, {b.emit(f'mul i64 {j}, {step}')}")
        if t != "i64":
            start = b.cast("trunc", start, "i64", t)
        start = b.splat(f"<{w} x {t}>", start)
        if a.inner == ZERO:
            return start
        lanes = "<" + ", ".join(f"{t} {n}" for n in range(w)) + ">"
        if a.inner == STRIDED:
            lanes = self.strided[i]
            if t != "i64":
                lanes = b.cast("trunc", lanes, f"<{w} x i64>", f"<{w} x {t}>")
        return b.emit(f"add <{w} x {t}> {start}, {lanes}")

    def _bytes_of(self, access: int) -> int:
        """Of a vector in memory, at most a line of the cache."""
        return min(64, self.k.width * itemsize(self.k.accesses[access].dtype))

    def _align(self, accesses: list[int], bases: dict[int, str]) -> str:
        """Where vectors begin for the memory of the first of these to be aligned: 0 or before.

        Makes `self.aligned`, which says of each whether it is then.
        """
        b, first = self.b, accesses[0]
        starts = {a: b.emit(f"ptrtoint ptr {bases[a]} to i64") for a in accesses}
        over = b.emit(f"and i64 {starts[first]}, {self._bytes_of(first) - 1}")
        elements = b.emit(f"sdiv i64 {over}, {itemsize(self.k.accesses[first].dtype)}")
        begin = b.emit(f"sub i64 0, {elements}")
        self.aligned = {}
        for a, start in starts.items():
            moved = b.emit(f"mul i64 {begin}, {itemsize(self.k.accesses[a].dtype)}")
            at = b.emit(f"add i64 {start}, {moved}")
            self.aligned[a] = b.icmp(
                "eq", "i64", b.emit(f"and i64 {at}, {self._bytes_of(a) - 1}"), "0"
            )
        return begin

    def _store_past(
        self, x: str, access: int, bases: dict[int, str], j: str, mask: str, whole: str
    ) -> None:
        """A store past the caches where the vector is whole and its memory aligned."""
        b, w, dtype = self.b, self.k.width, self.k.accesses[access].dtype
        past, masked, done = b.label("past"), b.label("masked"), b.label("stored")
        b.cond_br(b.emit(f"and i1 {whole}, {self.aligned[access]}"), past, masked)
        b.place(past)
        pointer = self._address(access, bases, j)
        stored_as = stored(dtype, w)
        b.store_past(stored_as, to_memory(b, dtype, w, x), pointer, self._bytes_of(access))
        b.br(done)
        b.place(masked)
        self._store(x, access, bases, j, mask)
        b.br(done)
        b.place(done)

    def _index(self, node: Any, bases: dict[int, str], j: str) -> str:
        """The positions of a vector along the axis that the access counts."""
        w, i = self.k.width, node.data
        if self.k.accesses[i].inner == ZERO:
            return self._splat(node.dtype, self._as_number(bases[i], node.dtype, 1))
        return self._as_number(self._positions(i, bases, j, "i64"), node.dtype, w)
