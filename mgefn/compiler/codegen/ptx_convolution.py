"""Convolutions on a GPU as products of matrices that nobody writes down (implicit GEMM).

A row of the first matrix is an output's place (example and spatial indices), its columns are the
terms of the sum (input feature and place in the window); the second matrix is the kernel, its
columns output features. A block computes a tile of `rows` x `columns` of one group, `depth` terms
at a time: its threads bring both operands' tiles to shared memory, 0 where a window hangs over,
then each adds up 4 x `across` outputs in registers. Where the elements of a row and of a term lie
is looked up in two tables in shared memory: that of rows is made once, that of terms for each tile,
while the one before is in use.

The terms may be divided among blocks, whose sums `SplitSum` adds up in order. So each output is one
sum in one order, whatever the device.

Numbers, in this order: rows, terms, columns; tiles of rows, tiles of columns, groups; terms of a
block, bytes between the outputs of the parts; strides in bytes of the input (example, group,
feature), the kernel (group, output feature, input feature) and the output (example, group,
feature); for each spatial dimension the sizes of output and window, that of the input with what
stands between its elements, the distance of these, the strides of windows and of places in one, the
zeros before the input, and strides in bytes in input, kernel and output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from mgefn.compiler.codegen.builder import Module, vector
from mgefn.compiler.codegen.loops import from_memory, stored, to_memory
from mgefn.compiler.codegen.parts import Loop
from mgefn.compiler.codegen.ptx import THREADS, DeviceBuilder
from mgefn.compiler.codegen.values import HALVES, held, itemsize, ty

DOWN = 4  # rows of a thread
AT_ONCE, OF_FEW = 4, 2  # loads of a thread, or one of a small block, that wait together
TERMS = 4  # of a tile that are multiplied in a row, without a branch
PER_DIMENSION = 10  # numbers
HEAD = 17  # numbers that are there for any rank


class Convolution(NamedTuple):
    """A kernel; pointers: input, kernel, output.

    Attributes:
        dtype: of the operands.
        computed: float32 or float64, of the sums.
        out: dtype of the output.
        rank: spatial dimensions.
        dilated: do elements of the input stand apart?
        batch_last, feature_last: is the example the last index of a row, the input feature that of
            a term? Else they are the first.
        by_term: do neighbouring threads read neighbouring terms? Of the input, of the kernel.
        rows, columns, depth: of a tile; powers of two.
        across: columns of a thread.
    """

    dtype: str
    computed: str
    out: str
    rank: int
    dilated: bool
    batch_last: bool
    feature_last: bool
    by_term: tuple[bool, bool]
    rows: int
    columns: int
    depth: int
    across: int

    @property
    def most_threads(self) -> int:
        return self.rows // DOWN * (self.columns // self.across)

    def text(self, name: str) -> str:
        return _Writer(self).text(name)


class _Dimension(NamedTuple):
    """The numbers of a spatial dimension."""

    places: str
    window: str
    extent: str
    apart: str
    stride: str
    step: str
    low: str
    of_input: str
    of_kernel: str
    of_output: str


class _Table:
    """Where elements of one index lie, in shared memory: offsets, then spatial coordinates."""

    def __init__(self, start: int, entries: int, offsets: int, rank: int):
        self.start, self.entries, self.offsets, self.rank = start, entries, offsets, rank

    @property
    def nbytes(self) -> int:
        return self.entries * (8 * self.offsets + 4 * self.rank)

    def place(self, b: DeviceBuilder, index: str, column: int, moved: str = "0") -> str:
        """The pointer to an offset, or behind these to a coordinate."""
        size = 8 if column < self.offsets else 4
        before = 8 * min(column, self.offsets) + 4 * max(0, column - self.offsets)
        start = b.emit(f"add i64 {moved}, {self.start + before * self.entries}")
        return b.in_shared(b.emit(f"add i64 {start}, {b.emit(f'mul i64 {index}, {size}')}"))

    def put(self, b: DeviceBuilder, index: str, offsets: Sequence[str], coordinates: Sequence[str],
            moved: str = "0") -> None:  # fmt: skip
        for i, x in enumerate(offsets):
            b.store("i64", x, self.place(b, index, i, moved), 8)
        for i, x in enumerate(coordinates):
            short = b.emit(f"trunc i64 {x} to i32")
            b.store("i32", short, self.place(b, index, self.offsets + i, moved), 4)

    def offset(self, b: DeviceBuilder, index: str, column: int, moved: str = "0") -> str:
        return b.load("i64", self.place(b, index, column, moved), 8)

    def coordinates(self, b: DeviceBuilder, index: str, moved: str = "0") -> list[str]:
        return [
            b.load("i32", self.place(b, index, self.offsets + i, moved), 4)
            for i in range(self.rank)
        ]


class _Writer:
    def __init__(self, kernel: Convolution):
        self.k = kernel
        self.b = DeviceBuilder(Module())
        total = HEAD + PER_DIMENSION * kernel.rank
        self.total = total
        numbers = iter([f"%n{i}" for i in range(total)])

        def take(count: int) -> list[str]:
            return [next(numbers) for _ in range(count)]

        self.row_count, self.terms, self.column_count = take(3)
        self.row_tiles, self.column_tiles, self.groups = take(3)
        self.share, self.apart = take(2)
        self.x_example, self.x_group, self.x_feature = take(3)
        self.w_group, self.w_output, self.w_feature = take(3)
        self.y_example, self.y_group, self.y_feature = take(3)
        self.dimensions = [_Dimension(*take(PER_DIMENSION)) for _ in range(kernel.rank)]
        self.size = itemsize(kernel.computed)
        self.t = ty(kernel.computed, 1)
        pad = 16 // self.size  # so that vectors are aligned, and columns in other banks
        self.row_pitch = kernel.rows + pad
        self.column_pitch = kernel.columns + (pad if kernel.across > 1 else 0)

    # -- numbers --------------------------------------------------------------------------------

    def _sum(self, *products: tuple[str, str]) -> str:
        b, total = self.b, "0"
        for x, y in products:
            total = b.emit(f"add i64 {total}, {b.emit(f'mul i64 {x}, {y}')}")
        return total

    def _apart(self, index: str, sizes: Sequence[str], last: bool) -> tuple[str, list[str]]:
        """Example or feature, and spatial indices; `last` says where the former stands."""
        if not sizes:
            return index, []
        if last:
            # The size of the last index is not needed where it is found as a rest.
            whole = sizes[0]
            for n in sizes[1:]:
                whole = self.b.emit(f"mul i64 {whole}, {n}")
            count = self.row_count if sizes is self._places else self.terms
            several, _ = self.b.divided(count, whole, False)
            places, own = self.b.divided(index, several, False)
            return own, self.b.coordinates(places, sizes[1:], False)
        own, *rest = self.b.coordinates(index, sizes, False)
        return own, rest

    def _within(self, index: str, count: str) -> str:
        """An index, or the last one there is."""
        return self.b.call_intrinsic("smin", "i64", index, self.b.emit(f"sub i64 {count}, 1"))

    # -- the whole ------------------------------------------------------------------------------

    def text(self, name: str) -> str:
        k, b = self.k, self.b
        self._places = [d.places for d in self.dimensions]
        self._windows = [d.window for d in self.dimensions]
        self.threads = k.most_threads
        sums = [b.emit(f"alloca {ty(k.computed, DOWN)}") for _ in range(k.across)]
        counters = [b.emit("alloca i64") for _ in range(2)]
        half = k.depth * (8 * 2 + 4 * k.rank)
        self.row_table = _Table(0, k.rows, 1, k.rank)
        start = -(-self.row_table.nbytes // 16) * 16
        self.term_table, self.half = _Table(start, k.depth, 2, k.rank), -(-half // 16) * 16
        self.x_tile = start + 2 * self.half
        self.w_tile = self.x_tile + k.depth * self.row_pitch * self.size
        b.reserve(self.w_tile + -(-k.depth * self.column_pitch * self.size // 16) * 16)
        self.thread = b.special("tid.x")
        sizes = [self.groups, self.column_tiles, self.row_tiles]
        part, group, tile_n, tile_m = b.coordinates(b.special("ctaid.x"), sizes, False)
        self.first_row = b.emit(f"mul i64 {tile_m}, {k.rows}")
        self.first_column = b.emit(f"mul i64 {tile_n}, {k.columns}")
        begin = b.emit(f"mul i64 {part}, {self.share}")
        end = b.emit(f"add i64 {begin}, {self.share}")
        self.end = b.call_intrinsic("smin", "i64", end, self.terms)
        self.x = b.offset("%p0", b.emit(f"mul i64 {group}, {self.x_group}"))
        self.w = b.offset("%p1", b.emit(f"mul i64 {group}, {self.w_group}"))
        self.y = b.offset("%p2", self._sum((part, self.apart), (group, self.y_group)))
        zero = b.const(ty(k.computed, DOWN), 0)
        for s in sums:
            b.store(ty(k.computed, DOWN), zero, s)
        self._write_rows(counters[0])
        self._write_terms(begin, "0")
        b.barrier()
        row = self._fixed_row()
        with Loop(b, counters[0], begin, self.end, str(k.depth)) as at:
            tile = b.emit(f"lshr i64 {b.emit(f'sub i64 {at}, {begin}')}, {_bits(k.depth)}")
            odd = b.emit(f"and i64 {tile}, 1")
            now = b.emit(f"mul i64 {odd}, {self.half}")
            following = b.emit(f"sub i64 {self.half}, {now}")
            self._bring_input(at, now, row)
            self._bring_kernel(at, now)
            self._write_terms(b.emit(f"add i64 {at}, {k.depth}"), following)
            b.barrier()
            self._multiply(sums, counters[1])
            b.barrier()
        self._write_out(sums)
        return b.finished(name, 3, self.total, False, k.most_threads)

    # -- tables ---------------------------------------------------------------------------------

    def _write_rows(self, counter: str) -> None:
        k, b = self.k, self.b
        with Loop(b, counter, self.thread, str(k.rows), str(self.threads)) as r:
            m = self._within(b.emit(f"add i64 {self.first_row}, {r}"), self.row_count)
            example, places = self._apart(m, self._places, k.batch_last)
            first = [
                b.emit(f"sub i64 {b.emit(f'mul i64 {p}, {d.stride}')}, {d.low}")
                for p, d in zip(places, self.dimensions, strict=True)
            ]
            products = [(example, self.x_example)]
            if not k.dilated:
                products += [(f, d.of_input) for f, d in zip(first, self.dimensions, strict=True)]
            self.row_table.put(b, r, [self._sum(*products)], first)

    def _write_terms(self, first: str, moved: str) -> None:
        """The table of a tile's terms, by as many threads."""
        k, b = self.k, self.b
        with b.when(b.icmp("slt", "i64", self.thread, str(k.depth))):
            term = self._within(b.emit(f"add i64 {first}, {self.thread}"), self.terms)
            feature, places = self._apart(term, self._windows, k.feature_last)
            further = [
                b.emit(f"mul i64 {p}, {d.step}")
                for p, d in zip(places, self.dimensions, strict=True)
            ]
            of_input = [(feature, self.x_feature)]
            if not k.dilated:
                of_input += [(f, d.of_input) for f, d in zip(further, self.dimensions, strict=True)]
            of_kernel = [(feature, self.w_feature)]
            of_kernel += [(p, d.of_kernel) for p, d in zip(places, self.dimensions, strict=True)]
            offsets = [self._sum(*of_input), self._sum(*of_kernel)]
            self.term_table.put(b, self.thread, offsets, further, moved)

    # -- tiles ----------------------------------------------------------------------------------

    def _shares(self, lines: int, by_term: bool) -> Iterator[tuple[str, str]]:
        """(line, term) of each element of a tile that this thread brings."""
        k, b = self.k, self.b
        inner = k.depth if by_term else lines
        for i in range(max(1, lines * k.depth // self.threads)):
            number = b.emit(f"add i64 {self.thread}, {i * self.threads}")
            low = b.emit(f"and i64 {number}, {inner - 1}")
            high = b.emit(f"lshr i64 {number}, {_bits(inner)}")
            yield (high, low) if by_term else (low, high)

    def _fixed_row(self) -> tuple[str, list[str]] | None:
        """What the table says of the row of a thread that has only one."""
        k, b = self.k, self.b
        if k.by_term[0] or self.threads % k.rows:
            return None
        r = b.emit(f"and i64 {self.thread}, {k.rows - 1}")
        return self.row_table.offset(b, r, 0), self.row_table.coordinates(b, r)

    def _bring(self, lines: int, by_term: bool, tile: int, pitch: int,
               element: Callable[[str, str], str]) -> None:  # fmt: skip
        """A tile into shared memory: several loads before what waits for them."""
        b, shares = self.b, list(self._shares(lines, by_term))
        at_once = AT_ONCE if self.k.across > 1 else OF_FEW
        for i in range(0, len(shares), at_once):
            some = shares[i : i + at_once]
            values = [element(line, term) for line, term in some]
            for (line, term), x in zip(some, values, strict=True):
                number = b.emit(f"add i64 {b.emit(f'mul i64 {term}, {pitch}')}, {line}")
                place = b.emit(f"add i64 {b.emit(f'mul i64 {number}, {self.size}')}, {tile}")
                b.store(self.t, x, b.in_shared(place), self.size)

    def _bring_input(self, at: str, now: str, row: tuple[str, list[str]] | None) -> None:
        k, b = self.k, self.b

        def element(line: str, term: str) -> str:
            if row is None:
                base, first = (
                    self.row_table.offset(b, line, 0), self.row_table.coordinates(b, line),
                )  # fmt: skip
            else:
                base, first = row
            offset = b.emit(f"add i64 {base}, {self.term_table.offset(b, term, 0, now)}")
            inside = self._inside(self.first_row, line, self.row_count, at, term)
            further = self.term_table.coordinates(b, term, now)
            for d, f, g in zip(self.dimensions, first, further, strict=True):
                i = b.emit(f"add i32 {f}, {g}")
                extent = b.emit(f"trunc i64 {d.extent} to i32")
                inside = b.emit(f"and i1 {inside}, {b.icmp('ult', 'i32', i, extent)}")
                if k.dilated:
                    apart = b.emit(f"trunc i64 {d.apart} to i32")
                    index = b.emit(f"udiv i32 {i}, {apart}")
                    back = b.emit(f"mul i32 {index}, {apart}")
                    inside = b.emit(f"and i1 {inside}, {b.icmp('eq', 'i32', back, i)}")
                    index = b.emit(f"sext i32 {index} to i64")
                    offset = b.emit(f"add i64 {offset}, {self._sum((index, d.of_input))}")
            return self._element(self.x, "%p0", offset, inside)

        self._bring(k.rows, k.by_term[0], self.x_tile, self.row_pitch, element)

    def _bring_kernel(self, at: str, now: str) -> None:
        k, b = self.k, self.b

        def element(line: str, term: str) -> str:
            column = b.emit(f"add i64 {self.first_column}, {line}")
            offset = self.term_table.offset(b, term, 1, now)
            offset = b.emit(f"add i64 {offset}, {b.emit(f'mul i64 {column}, {self.w_output}')}")
            inside = self._inside(self.first_column, line, self.column_count, at, term)
            return self._element(self.w, "%p1", offset, inside)

        def bring() -> None:
            self._bring(k.columns, k.by_term[1], self.w_tile, self.column_pitch, element)

        count = k.columns * k.depth
        if count < self.threads:
            with b.when(b.icmp("slt", "i64", self.thread, str(count))):
                bring()
        else:
            bring()

    def _inside(self, first: str, line: str, lines: str, at: str, term: str) -> str:
        b = self.b
        line = b.icmp("slt", "i64", b.emit(f"add i64 {first}, {line}"), lines)
        term = b.icmp("slt", "i64", b.emit(f"add i64 {at}, {term}"), self.end)
        return b.emit(f"and i1 {line}, {term}")

    def _element(self, base: str, some: str, offset: str, inside: str) -> str:
        """An element in the dtype of the sums; 0, and a read of what is there, for none."""
        k, b = self.k, self.b
        place = b.select("ptr", inside, b.offset(base, offset), some)
        x = b.load(stored(k.dtype, 1), place, itemsize(k.dtype))
        x = from_memory(b, k.dtype, 1, x)
        x = b.cast("fpext", x, ty(held(k.dtype), 1), self.t)
        return b.select(self.t, inside, x, b.const(self.t, 0))

    # -- sums -----------------------------------------------------------------------------------

    def _own(self) -> tuple[str, str]:
        """The first row and column of a thread within the tile."""
        b, teams = self.b, self.k.rows // DOWN
        x = b.emit(f"and i64 {self.thread}, {teams - 1}")
        y = b.emit(f"lshr i64 {self.thread}, {_bits(teams)}")
        return b.emit(f"mul i64 {x}, {DOWN}"), b.emit(f"mul i64 {y}, {self.k.across}")

    def _multiply(self, sums: Sequence[str], counter: str) -> None:
        k, b = self.k, self.b
        many, row, column = ty(k.computed, DOWN), *self._own()
        x_at = b.in_shared(
            b.emit(f"add i64 {b.emit(f'mul i64 {row}, {self.size}')}, {self.x_tile}")
        )
        w_at = b.in_shared(
            b.emit(f"add i64 {b.emit(f'mul i64 {column}, {self.size}')}, {self.w_tile}")
        )
        with Loop(b, counter, "0", str(k.depth), str(TERMS)) as first:
            moved = b.emit(f"mul i64 {first}, {self.row_pitch * self.size}")
            x_at = b.offset(x_at, moved)
            w_at = b.offset(w_at, b.emit(f"mul i64 {first}, {self.column_pitch * self.size}"))
            totals = [b.load(many, s) for s in sums]
            for i in range(TERMS):
                x = b.load(many, b.offset(x_at, str(i * self.row_pitch * self.size)), 16)
                place = b.offset(w_at, str(i * self.column_pitch * self.size))
                if k.across == 1:
                    ws = [b.load(self.t, place, self.size)]
                else:
                    t = vector(self.t, k.across)
                    w = b.load(t, place, 16)
                    ws = [b.emit(f"extractelement {t} {w}, i64 {j}") for j in range(k.across)]
                totals = [
                    b.fma(many, x, b.splat(many, w), s) for w, s in zip(ws, totals, strict=True)
                ]
            for s, total in zip(sums, totals, strict=True):
                b.store(many, total, s)

    def _write_out(self, sums: Sequence[str]) -> None:
        k, b = self.k, self.b
        many, (row, column) = ty(k.computed, DOWN), self._own()
        totals = [b.load(many, s) for s in sums]
        for i in range(DOWN):
            m = b.emit(f"add i64 {b.emit(f'add i64 {self.first_row}, {row}')}, {i}")
            with b.when(b.icmp("slt", "i64", m, self.row_count)):
                example, places = self._apart(m, self._places, k.batch_last)
                products = [(example, self.y_example)]
                products += [(p, d.of_output) for p, d in zip(places, self.dimensions, strict=True)]
                line = b.offset(self.y, self._sum(*products))
                for j, total in enumerate(totals):
                    n = b.emit(f"add i64 {b.emit(f'add i64 {self.first_column}, {column}')}, {j}")
                    with b.when(b.icmp("slt", "i64", n, self.column_count)):
                        x = b.emit(f"extractelement {many} {total}, i64 {i}")
                        place = b.offset(line, b.emit(f"mul i64 {n}, {self.y_feature}"))
                        _store(b, x, k.computed, k.out, place)


def _bits(n: int) -> int:
    return n.bit_length() - 1


def _store(b: DeviceBuilder, x: str, computed: str, out: str, place: str) -> None:
    """A sum as the output's dtype."""
    assert out == computed or (out in HALVES and computed == "float32")
    b.store(stored(out, 1), to_memory(b, out, 1, x), place, itemsize(out))


class SplitSum(NamedTuple):
    """A kernel that adds up parts, each of which is a whole output; pointers: parts, output.

    Numbers: elements, parts.
    """

    computed: str
    out: str

    @property
    def most_threads(self) -> int:
        return THREADS

    def text(self, name: str) -> str:
        b = DeviceBuilder(Module())
        t, size = ty(self.computed, 1), itemsize(self.computed)
        counters = [b.emit("alloca i64") for _ in range(2)]
        total = b.emit(f"alloca {t}")
        threads, block = b.special("ntid.x"), b.special("ctaid.x")
        first = b.emit(f"add i64 {b.emit(f'mul i64 {block}, {threads}')}, {b.special('tid.x')}")
        step = b.emit(f"mul i64 {threads}, {b.special('nctaid.x')}")
        with Loop(b, counters[0], first, "%n0", step) as i:
            b.store(t, b.const(t, 0), total)
            with Loop(b, counters[1], "0", "%n1") as part:
                at = b.emit(f"add i64 {b.emit(f'mul i64 {part}, %n0')}, {i}")
                x = b.load(t, b.offset("%p0", b.emit(f"mul i64 {at}, {size}")), size)
                b.store(t, b.fadd(t, b.load(t, total), x), total)
            place = b.offset("%p1", b.emit(f"mul i64 {i}, {itemsize(self.out)}"))
            _store(b, b.load(t, total), self.computed, self.out, place)
        return b.finished(name, 2, 2, False, THREADS)
