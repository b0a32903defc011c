"""Copies, gathers and scatters as native code.

`Move` is one nest of loops that walks a source and a target with strides of their own. At a depth
of the nest it may read where a window starts, in the source (gather, dynamic_slice) or in the
target (scatter, dynamic_update_slice). What the innermost loop does is one of: move a unit of up to
64 bytes, copy a contiguous run, fill one, or combine elements with those of the target. `Turn`
moves what lies along another axis than it is to lie along, block by block in registers.

Elements are integers of their size, so that one kernel serves all dtypes of it. The call's range is
that of one of the loops, whichever: the others run whole in each thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from mgefn.compiler.codegen.builder import METADATA, Builder, Module, vector
from mgefn.compiler.codegen.loops import ARGUMENTS, ATTRIBUTES, combine, stored
from mgefn.compiler.codegen.parts import transposed
from mgefn.compiler.codegen.values import LLVM_TYPES, SIGNED, itemsize

LINE = 64  # bytes of the largest unit
BLOCK = 8  # rows and columns that Turn moves through registers at once
TALL = 64  # rows of the source that Turn walks before it goes on along them

# 2-byte floats, which are combined as float32.
NARROW = {"float16": "half", "bfloat16": "bfloat"}

# The type of a unit by its bytes.
UNITS = {1: "i8", 2: "i16", 4: "i32", 8: "i64", 16: "<2 x i64>", 32: "<4 x i64>", 64: "<8 x i64>"}


class _Walk:
    """Loops of a function: counters and pointers as phi nodes."""

    def __init__(self) -> None:
        self.module = Module()
        self.b = Builder(self.module)

    def number(self, i: int) -> str:
        return self.b.load("i64", self.b.offset("%desc", str(8 * i)), 8)

    def pointer(self, i: int) -> str:
        return self.b.load("ptr", self.b.offset("%ptrs", str(8 * i)), 8)

    def loop(self, start: str, stop: str, step: str, walked: Sequence[tuple[str, str, str]],
             body: Callable[..., None], maybe_empty: bool = False) -> None:  # fmt: skip
        """body(i, *values) for i from start on below stop; walked: (type, value, bytes a round)."""
        b = self.b
        before, head, latch, done = b.block, b.label("loop"), b.label("latch"), b.label("done")
        if maybe_empty:
            b.cond_br(b.icmp("slt", "i64", start, stop), head, done)
        else:
            b.br(head)
        b.place(head)
        after = b.name()
        i = b.phi("i64", (start, before), (after, latch))
        values, nexts = [], []
        for t, value, _ in walked:
            nexts.append(b.name())
            values.append(b.phi(t, (value, before), (nexts[-1], latch)))
        body(i, *values)
        b.br(latch)
        b.place(latch)
        b.do(f"{after} = add i64 {i}, {step}")
        for (t, _, stride), value, new in zip(walked, values, nexts, strict=True):
            if t == "ptr":
                b.do(f"{new} = getelementptr i8, ptr {value}, i64 {stride}")
            else:
                b.do(f"{new} = add i64 {value}, {stride}")
        b.cond_br(b.icmp("slt", "i64", after, stop), head, done)
        b.place(done)

    def finish(self, name: str) -> str:
        self.b.do("ret void")
        self.b.function(name, "void", ARGUMENTS, ATTRIBUTES)
        return self.module.text() + "\n" + METADATA

    def copy(self, target: str, source: str, nbytes: str) -> None:
        self.module.declare("llvm.memcpy.p0.p0.i64", "void", ["ptr", "ptr", "i64", "i1 immarg"])
        self.b.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {nbytes}, "
                  "i1 false)")  # fmt: skip

    def fill(self, target: str, source: str, count: str, unit: int) -> None:
        """The unit at the source, `count` times, into a contiguous run."""
        b = self.b
        lanes = LINE // unit
        t = UNITS[unit]
        x = b.load(t, source, 1)
        if unit < 16:
            wide = vector(t, lanes)
            line = b.splat(wide, x)
        else:
            wide = UNITS[LINE]
            line = b.shuffled(t, x, "poison", [i % 2 for i in range(8)])
        many = b.emit(f"and i64 {count}, {-lanes}")

        def lines(_: str, pointer: str) -> None:
            b.store(wide, line, pointer, 1)

        self.loop("0", many, str(lanes), [("ptr", target, str(LINE))], lines, True)
        rest = b.offset(target, b.emit(f"mul i64 {many}, {unit}"))

        def units(_: str, pointer: str) -> None:
            b.store(t, x, pointer, 1)

        self.loop(many, count, "1", [("ptr", rest, str(unit))], units, True)


class Move(NamedTuple):
    """Elements from the source to the target.

    Pointers: source, target, the starts' columns, what stands for windows outside. Descriptor: for
    each loop its size and its strides in bytes in source, target and columns; for each column the
    last possible start and the stride in bytes of one step.

    Attributes:
        op: "copy"; "keep", which does nothing where source and target are one place; "convert"; or
            how to combine: sum, prod, min, max.
        dtype: of the target where elements are combined or converted, else empty.
        given: the source's dtype then: the same, or one of 2-byte floats and float32.
        unit: bytes moved at once; where the last loop is a run, bytes of its elements.
        run: "", "run" (the last loop is contiguous on both sides), "fill" (one source element).
        loops: how many there are.
        split: the loop that the call's range divides; -1: none.
        at: the loops outside of the place where starts are read.
        columns: dtypes of the starts.
        check: are windows outside filled or dropped? Else they are moved inside.
        into: do windows lie in the target?
        width: elements of a vector, of what is combined.
    """

    op: str
    dtype: str
    given: str
    unit: int
    run: str
    loops: int
    split: int
    at: int
    columns: tuple[str, ...]
    check: bool
    into: bool
    width: int

    def text(self, name: str) -> str:
        return _Moving(self).text(name)


class _Moving(_Walk):
    def __init__(self, m: Move):
        super().__init__()
        self.m = m

    def text(self, name: str) -> str:
        m, b = self.m, self.b
        source, target = self.pointer(0), self.pointer(1)
        self.starts_at = [self.pointer(2 + k) for k in range(len(m.columns))]
        self.outside = self.pointer(2 + len(m.columns)) if m.check and not m.into else ""
        self.sizes, self.sources, self.targets, self.indices = (
            [self.number(4 * i + j) for i in range(m.loops)] for j in range(4)
        )
        first = 4 * m.loops
        self.tops = [self.number(first + 2 * k) for k in range(len(m.columns))]
        self.steps = [self.number(first + 2 * k + 1) for k in range(len(m.columns))]
        self.valid = ""
        if m.op == "keep":
            same, work, end = b.icmp("eq", "ptr", source, target), b.label("work"), b.label("end")
            b.cond_br(same, end, work)
            b.place(work)
            self.level(0, source, target, "0")
            b.br(end)
            b.place(end)
        else:
            self.level(0, source, target, "0")
        return self.finish(name)

    def level(self, i: int, source: str, target: str, index: str) -> None:
        """The loops from number i on, from the starts on where they are due."""
        m, b = self.m, self.b
        if i != m.at or not m.columns:
            self.loops(i, source, target, index)
            return
        offset, self.valid = self.start(index)
        if m.into:
            if m.check:
                inside, after = b.label("inside"), b.label("after")
                b.cond_br(self.valid, inside, after)
                b.place(inside)
                self.loops(i, source, b.offset(target, offset), index)
                b.br(after)
                b.place(after)
            else:
                self.loops(i, source, b.offset(target, offset), index)
            return
        source = b.offset(source, offset)
        if m.check and not m.run:
            # The same loops read what stands for the window, again and again.
            source = b.select("ptr", self.valid, source, self.outside)
            for n in range(i, m.loops):
                self.sources[n] = b.select("i64", self.valid, self.sources[n], "0")
        self.loops(i, source, target, index)

    def start(self, index: str) -> tuple[str, str]:
        """Where the window starts, in bytes, and whether it lies inside as it stands."""
        m, b = self.m, self.b
        total, valid = "0", ""
        for k, dtype in enumerate(m.columns):
            t = LLVM_TYPES[dtype]
            s = b.load(t, b.offset(self.starts_at[k], index), 1)
            if dtype == "uint64":
                s = b.call_intrinsic("umin", "i64", s, str(2**63 - 1))
            else:
                s = b.cast("sext" if dtype in SIGNED else "zext", s, t, "i64")
            if m.check:
                inside = b.icmp("ule", "i64", s, self.tops[k])
                valid = b.emit(f"and i1 {valid}, {inside}") if valid else inside
            if not (m.check and m.into):
                s = b.call_intrinsic("smax", "i64", s, "0")
                s = b.call_intrinsic("smin", "i64", s, self.tops[k])
            step = b.emit(f"mul i64 {s}, {self.steps[k]}")
            total = b.emit(f"add i64 {total}, {step}") if k else step
        return total, valid

    def loops(self, i: int, source: str, target: str, index: str) -> None:
        m, b = self.m, self.b
        if i == m.loops:
            self.unit(source, target)
            return
        start, stop = ("%begin", "%end") if i == m.split else ("0", self.sizes[i])
        indexed = i < m.at and bool(m.columns)
        if i == m.split:
            source = b.offset(source, b.emit(f"mul i64 {start}, {self.sources[i]}"))
            target = b.offset(target, b.emit(f"mul i64 {start}, {self.targets[i]}"))
            if indexed:
                step = b.emit(f"mul i64 {start}, {self.indices[i]}")
                index = b.emit(f"add i64 {index}, {step}")
        if m.run and i == m.loops - 1:
            count = b.emit(f"sub i64 {stop}, {start}")
            self.run_of(source, target, count)
            return
        walked = [("ptr", source, self.sources[i]), ("ptr", target, self.targets[i])]
        if indexed:
            walked.append(("i64", index, self.indices[i]))

        def body(_: str, source: str, target: str, at: str = "0") -> None:
            self.level(i + 1, source, target, at)

        self.loop(start, stop, "1", walked, body)

    # -- the innermost loop ---------------------------------------------------------------------

    def unit(self, source: str, target: str) -> None:
        m, b = self.m, self.b
        if m.dtype:
            self.combined(source, target, 1)
            return
        t = UNITS[m.unit]
        b.store(t, b.load(t, source, 1), target, 1)

    def combined(self, source: str, target: str, width: int) -> None:
        m, b = self.m, self.b
        if m.dtype == "bool":
            t = stored(m.dtype, width)
            op = "or" if m.op in ("sum", "max") else "and"
            x, y = b.load(t, target, 1), b.load(t, source, 1)
            b.store(t, b.binary(op, t, x, y), target, 1)
            return
        y = self.loaded(m.given, width, source)
        if m.op != "convert":
            y = combine(b, m.op, m.dtype, width, self.loaded(m.dtype, width, target), y)
        if m.dtype in NARROW:
            short = vector("i16", width)
            y = b.cast("bitcast", b.narrow(vector(NARROW[m.dtype], width), y),
                       vector(NARROW[m.dtype], width), short)  # fmt: skip
            b.store(short, y, target, 1)
        else:
            b.store(stored(m.dtype, width), y, target, 1)

    def loaded(self, dtype: str, width: int, pointer: str) -> str:
        """Elements in registers, 2-byte floats as float32."""
        b = self.b
        if dtype not in NARROW:
            return b.load(stored(dtype, width), pointer, 1)
        short, t = vector("i16", width), vector(NARROW[dtype], width)
        return b.widen(t, b.cast("bitcast", b.load(short, pointer, 1), short, t))

    def run_of(self, source: str, target: str, count: str) -> None:
        """A contiguous run of `count` elements."""
        m, b = self.m, self.b
        if m.run == "fill":
            self.fill(target, source, count, m.unit)
        elif m.dtype:
            self.combined_run(source, target, count)
        elif not (m.check and not m.into):
            self.copy(target, source, b.emit(f"mul i64 {count}, {m.unit}"))
        else:
            inside, outside, after = b.label("inside"), b.label("outside"), b.label("after")
            b.cond_br(self.valid, inside, outside)
            b.place(inside)
            self.copy(target, source, b.emit(f"mul i64 {count}, {m.unit}"))
            b.br(after)
            b.place(outside)
            self.fill(target, self.outside, count, m.unit)
            b.br(after)
            b.place(after)

    def combined_run(self, source: str, target: str, count: str) -> None:
        m, b = self.m, self.b
        sizes = itemsize(m.given), itemsize(m.dtype)
        many = b.emit(f"and i64 {count}, {-m.width}")

        def walked(source: str, target: str, width: int) -> list[tuple[str, str, str]]:
            return [
                ("ptr", p, str(width * n)) for p, n in zip((source, target), sizes, strict=True)
            ]

        def wide(_: str, source: str, target: str) -> None:
            self.combined(source, target, m.width)

        def single(_: str, source: str, target: str) -> None:
            self.combined(source, target, 1)

        self.loop("0", many, str(m.width), walked(source, target, m.width), wide, True)
        source, target = (
            b.offset(p, b.emit(f"mul i64 {many}, {n}"))
            for p, n in zip((source, target), sizes, strict=True)
        )
        self.loop(many, count, "1", walked(source, target, 1), single, True)


class Turn(NamedTuple):
    """A copy whose source is contiguous along one axis and whose target is along another.

    Pointers: source, target. Domain: tiles of a cache line along the source's axis, of each round
    of the outer loops. Descriptor: tiles; for each outer loop its size and its strides in source
    and target; the size of the source's contiguous axis and its stride in the target; that of the
    target's and its stride in the source.
    """

    unit: int
    loops: int

    def text(self, name: str) -> str:
        return _Turning(self).text(name)


class _Turning(_Walk):
    def __init__(self, turn: Turn):
        super().__init__()
        self.turn = turn

    def text(self, name: str) -> str:
        b, unit, loops = self.b, self.turn.unit, self.turn.loops
        source, target = self.pointer(0), self.pointer(1)
        tiles = self.number(0)
        outer = [[self.number(1 + 3 * i + j) for j in range(3)] for i in range(loops)]
        across, step_target, along, step_source = [self.number(1 + 3 * loops + j) for j in range(4)]
        tile = max(LINE // unit, BLOCK)
        t = UNITS[unit]

        def least(x: str, y: str) -> str:
            return b.call_intrinsic("smin", "i64", x, y)

        def at(source: str, target: str, n: str, m: str) -> tuple[str, str]:
            """Element n of the source's axis, m of the target's."""
            source = b.offset(source, b.emit(f"mul i64 {n}, {unit}"))
            source = b.offset(source, b.emit(f"mul i64 {m}, {step_source}"))
            target = b.offset(target, b.emit(f"mul i64 {n}, {step_target}"))
            return source, b.offset(target, b.emit(f"mul i64 {m}, {unit}"))

        def single(n: str, n_stop: str, m: str, m_stop: str, source: str, target: str) -> None:
            def row(n: str) -> None:
                s, d = at(source, target, n, m)

                def element(_: str, s: str, d: str) -> None:
                    b.store(t, b.load(t, s, 1), d, 1)

                self.loop(m, m_stop, "1", [("ptr", s, step_source), ("ptr", d, str(unit))],
                          element)  # fmt: skip

            self.loop(n, n_stop, "1", [], row)

        def block(n: str, m: str, n_end: str, m_end: str, source: str, target: str) -> None:
            n_stop = least(b.emit(f"add i64 {n}, {BLOCK}"), n_end)
            m_stop = least(b.emit(f"add i64 {m}, {BLOCK}"), m_end)
            whole, part, done = b.label("whole"), b.label("part"), b.label("over")
            n_left, m_left = b.emit(f"sub i64 {n_end}, {n}"), b.emit(f"sub i64 {m_end}, {m}")
            fits = b.icmp("sge", "i64", least(n_left, m_left), str(BLOCK))
            b.cond_br(fits, whole, part, likely=True)
            b.place(whole)
            s, d = at(source, target, n, m)
            self.turned(s, d, step_source, step_target)
            b.br(done)
            b.place(part)
            single(n, n_stop, m, m_stop, source, target)
            b.br(done)
            b.place(done)

        def body(u: str) -> None:
            s, d = source, target
            n = b.emit(f"urem i64 {u}, {tiles}")
            rest = b.emit(f"udiv i64 {u}, {tiles}")
            for size, s_step, d_step in reversed(outer):
                i = b.emit(f"urem i64 {rest}, {size}")
                rest = b.emit(f"udiv i64 {rest}, {size}")
                s = b.offset(s, b.emit(f"mul i64 {i}, {s_step}"))
                d = b.offset(d, b.emit(f"mul i64 {i}, {d_step}"))
            n = b.emit(f"mul i64 {n}, {tile}")
            n_end = least(b.emit(f"add i64 {n}, {tile}"), across)

            def tall(m: str) -> None:
                m_end = least(b.emit(f"add i64 {m}, {TALL}"), along)

                def rows(m: str) -> None:
                    self.loop(n, n_end, str(BLOCK), [],
                              lambda n: block(n, m, n_end, m_end, s, d))  # fmt: skip

                self.loop(m, m_end, str(BLOCK), [], rows)

            self.loop("0", along, str(TALL), [], tall)

        self.loop("%begin", "%end", "1", [], body)
        return self.finish(name)

    def turned(self, source: str, target: str, step_source: str, step_target: str) -> None:
        """A block of rows of the source as rows of the target."""
        b = self.b
        scalar = f"i{8 * self.turn.unit}"
        t = vector(scalar, BLOCK)
        rows = []
        for i in range(BLOCK):
            rows.append(b.load(t, source, 1))
            if i < BLOCK - 1:
                source = b.offset(source, step_source)
        rows = transposed(b, t, rows)
        for i, row in enumerate(rows):
            b.store(t, row, target, 1)
            if i < BLOCK - 1:
                target = b.offset(target, step_target)
