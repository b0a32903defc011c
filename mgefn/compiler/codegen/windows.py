"""Reductions of sliding windows as native code: sums, extrema, and the element that is extreme.

Vectors go along an axis without a window (channels last), or along the last axis of the windows,
each lane a window of its own; a single lane does the rest. Which places of a window lie in the
operand is known for each output of an axis, and comes as tables; strides count elements.
"""

from __future__ import annotations

from typing import NamedTuple

from mgefn.compiler.codegen.builder import Builder, Module, vector
from mgefn.compiler.codegen.convolution import ENTRY
from mgefn.compiler.codegen.loops import combine, neutral
from mgefn.compiler.codegen.parts import Loop, Memory, Numbers, coordinates, finished, pointers
from mgefn.compiler.codegen.values import FLOATS, LLVM_TYPES, UNSIGNED, itemsize

REDUCE, GATHER, SCATTER = "reduce", "gather", "scatter"


class Windows(NamedTuple):
    """y[..] = the reduction, or the element that wins, of each window of x.

    Pointers: x, y, table; for "gather" x, what is read, y, table; for "scatter" x, source, y,
    table, where y has x's shape and is added to. Domain: affine axes x axes of all slots but the
    last one; for "scatter" affine axes x vectors.

    Descriptor: lanes, vectors, the lanes' stride in x; of windows along the lanes the places,
    stride, low padding, dilation, and the size of x; for each affine axis its size and strides in x
    and in windows; for each slot the windows along its axis, their stride, its step in x, its
    table's offset in bytes.
    """

    way: str
    kind: str  # "sum", "max", "min"
    dtype: str  # of x
    moved: str  # dtype of what is gathered or scattered
    width: int
    affine: int
    slots: int
    windowed: bool  # is each lane a window?
    even: bool  # are neighbouring lanes neighbours in x?

    def text(self, name: str) -> str:
        return _Writer(self).text(name)


class _Writer:
    def __init__(self, kernel: Windows):
        self.k = kernel
        self.b = Builder(Module())
        w = kernel.width
        # A bool is a byte, 0 or 1.
        self.dtype = "uint8" if kernel.dtype == "bool" else kernel.dtype
        self.size = itemsize(self.dtype)
        self.t = vector(LLVM_TYPES[self.dtype], w)
        self.index_type = f"<{w} x i64>"
        self.mask_type = f"<{w} x i1>"
        self.memory = Memory(self.b, LLVM_TYPES[self.dtype], w, self.size)
        self.moved_size = itemsize(kernel.moved)
        self.moved = Memory(self.b, LLVM_TYPES[kernel.moved], w, self.moved_size)

    def text(self, name: str) -> str:
        b, k, w = self.b, self.k, self.k.width
        numbers = Numbers(b)
        self.lane_count, panels, self.x_lane = numbers.take(3)
        self.places, self.stride, self.low, self.dilation, self.x_size = numbers.take(5)
        affine = [numbers.take(3) for _ in range(k.affine)]
        self.slots = slots = [numbers.take(4) for _ in range(k.slots)]
        *self.arrays, self.table = pointers(b, 3 if k.way == REDUCE else 4)
        counters = [b.emit("alloca i64") for _ in range(k.slots + 2)]
        self.counters = [b.emit("alloca i64") for _ in range(k.slots + 1)]
        self.walk = [b.emit("alloca i64") for _ in range(k.slots)]
        self.best = b.emit(f"alloca {self.t}")
        self.chosen = b.emit(f"alloca {self.index_type}")
        self.start = neutral(k.kind, self.dtype)
        if k.dtype == "bool":
            self.start = int(k.kind == "min")
        inner = slots if k.way == SCATTER else slots[-1:]
        outer = [] if k.way == SCATTER else slots[:-1]
        sizes = [x[0] for x in affine] + [x[0] for x in outer]
        if k.way == SCATTER:
            sizes.append(panels)
        with Loop(b, counters[0], "%begin", "%end") as u:
            at = coordinates(b, u, sizes)
            x_at = self._walked(at, [x[1] for x in affine])
            y_at = self._walked(at, [x[2] for x in affine])
            places: list[str] = []
            for i, x in zip(at[k.affine :], outer, strict=False):
                x_at, y_at = self._entered(i, x, x_at, y_at, places)

            def nest(depth: int, x_at: str, y_at: str, places: list[str]) -> None:
                if depth < len(inner):
                    with Loop(b, counters[depth + 1], "0", inner[depth][0]) as i:
                        found = list(places)
                        nest(depth + 1, *self._entered(i, inner[depth], x_at, y_at, found), found)
                elif k.way == SCATTER:
                    self._window(b.emit(f"mul i64 {at[-1]}, {w}"), x_at, y_at, places)
                else:
                    with Loop(b, counters[-1], "0", self.lane_count, str(w)) as lane:
                        self._window(lane, x_at, y_at, places)

            nest(0, x_at, y_at, places)
        return finished(b, name)

    def _walked(self, at: list[str], strides: list[str]) -> str:
        total = "0"
        for i, s in zip(at, strides, strict=False):
            total = self._plus(total, i, s)
        return total

    def _plus(self, total: str, i: str, stride: str) -> str:
        b = self.b
        return b.emit(f"add i64 {total}, {b.emit(f'mul i64 {i}, {stride}')}")

    def _entered(
        self, i: str, slot: list[str], x_at: str, y_at: str, places: list[str]
    ) -> tuple[str, str]:
        """Where window i along a slot's axis begins; `places` gets the number of its places."""
        b = self.b
        entry = b.offset(self.table, self._plus(slot[3], i, str(8 * ENTRY)))
        places.append(b.load("i64", entry, 8))
        first = b.load("i64", b.offset(entry, "8"), 8)
        return b.emit(f"add i64 {x_at}, {first}"), self._plus(y_at, i, slot[1])

    def _window(self, lane: str, x_at: str, y_at: str, places: list[str]) -> None:
        """A vector of windows, or of lanes of one."""
        b, k, t = self.b, self.k, self.t
        mask = self.memory.mask(b.emit(f"sub i64 {self.lane_count}, {lane}"))
        y_at = b.emit(f"add i64 {y_at}, {lane}")
        if not k.windowed:
            x_at = self._plus(x_at, lane, self.x_lane)
        b.store(t, b.const(t, self.start), self.best)
        if k.way != REDUCE:
            b.store(self.index_type, b.const(self.index_type, -1), self.chosen)

        def nest(depth: int, x_at: str) -> None:
            if depth == k.slots:
                self._places(lane, x_at, mask)
                return
            b.store("i64", x_at, self.walk[depth])
            with Loop(b, self.counters[depth], "0", places[depth]):
                here = b.load("i64", self.walk[depth])
                nest(depth + 1, here)
                b.store("i64", b.emit(f"add i64 {here}, {self.slots[depth][2]}"), self.walk[depth])

        nest(0, x_at)
        if k.way == REDUCE:
            to = b.offset(self.arrays[1], b.emit(f"mul i64 {y_at}, {self.size}"))
            self.memory.store(b.load(t, self.best), to, mask)
            return
        self._move(y_at, mask)

    def _move(self, y_at: str, mask: str) -> None:
        """Read what each window chose, or add to it."""
        b, k, moved = self.b, self.k, self.moved
        chosen = b.load(self.index_type, self.chosen)
        some = b.icmp("sge", self.index_type, chosen, b.const(self.index_type, 0))
        some = b.emit(f"and {self.mask_type} {some}, {mask}")
        offsets = b.emit(
            f"mul {self.index_type} {chosen}, {b.const(self.index_type, self.moved_size)}"
        )
        windows = self.arrays[2 if k.way == GATHER else 1]
        at = b.offset(windows, b.emit(f"mul i64 {y_at}, {self.moved_size}"))
        elements = moved.moved(self.arrays[1 if k.way == GATHER else 2], offsets)
        if k.way == GATHER:
            moved.store(moved.gather(elements, some), at, mask)
            return
        total = combine(
            b, "sum", k.moved, k.width, moved.gather(elements, some), moved.load(at, mask)
        )
        moved.scatter(total, elements, some)

    def _places(self, lane: str, x_at: str, mask: str) -> None:
        """One place of the windows, or with windows along the lanes all places of that axis."""
        b, k, memory = self.b, self.k, self.memory
        lanes = memory.lanes()
        many = self.index_type
        if not k.windowed:
            at = b.offset(self.arrays[0], b.emit(f"mul i64 {x_at}, {self.size}"))
            steps = b.emit(f"mul {many} {lanes}, {b.splat(many, self.x_lane)}")
            element = b.emit(f"add {many} {steps}, {b.splat(many, x_at)}")
            self._meet(at, steps, element, mask)
            return
        window = b.emit(f"add {many} {lanes}, {b.splat(many, lane)}")
        start = b.emit(f"mul {many} {window}, {b.splat(many, self.stride)}")
        start = b.emit(f"sub {many} {start}, {b.splat(many, self.low)}")
        scalar = b.emit(f"sub i64 {b.emit(f'mul i64 {lane}, {self.stride}')}, {self.low}")
        steps = b.emit(f"mul {many} {lanes}, {b.splat(many, self.stride)}")
        with Loop(b, self.counters[-1], "0", self.places) as place:
            offset = b.emit(f"mul i64 {place}, {self.dilation}")
            element = b.emit(f"add {many} {start}, {b.splat(many, offset)}")
            inside = b.icmp("ult", many, element, b.splat(many, self.x_size))
            inside = b.emit(f"and {self.mask_type} {inside}, {mask}")
            first = b.emit(f"add i64 {b.emit(f'add i64 {scalar}, {offset}')}, {x_at}")
            at = b.offset(self.arrays[0], b.emit(f"mul i64 {first}, {self.size}"))
            element = b.emit(f"add {many} {element}, {b.splat(many, x_at)}")
            self._meet(at, steps, element, inside)

    def _meet(self, at: str, steps: str, element: str, mask: str) -> None:
        """A vector of elements joins what is known of the windows.

        Args:
            at: address of the first; steps: of the others from it, in elements.
            element: their numbers in x.
            mask: those that are there.
        """
        b, k, t, memory = self.b, self.k, self.t, self.memory
        other = b.const(t, self.start)
        if k.even:
            x = memory.load(at, mask, other)
        else:
            offsets = b.emit(
                f"mul {self.index_type} {steps}, {b.const(self.index_type, self.size)}"
            )
            x = memory.gather(memory.moved(at, offsets), mask, other)
        best = b.load(t, self.best)
        if k.way == REDUCE:
            b.store(t, combine(b, k.kind, self.dtype, k.width, best, x), self.best)
            return
        chosen = b.load(self.index_type, self.chosen)
        # A NaN wins over numbers, the first of equals wins.
        if self.dtype in FLOATS:
            wins = b.fcmp("ult" if k.kind == "max" else "ugt", t, best, x)
            number = b.fcmp("ord", t, best, best)
            wins = b.emit(f"and {self.mask_type} {wins}, {number}")
        else:
            sign = "u" if self.dtype in UNSIGNED else "s"
            wins = b.icmp(f"{sign}{'lt' if k.kind == 'max' else 'gt'}", t, best, x)
        none = b.icmp("slt", self.index_type, chosen, b.const(self.index_type, 0))
        wins = b.emit(f"or {self.mask_type} {wins}, {none}")
        wins = b.emit(f"and {self.mask_type} {wins}, {mask}")
        b.store(t, b.select(t, wins, x, best), self.best)
        b.store(self.index_type, b.select(self.index_type, wins, element, chosen), self.chosen)
