"""Fourier transforms as native code: many lines at once, each in a lane of a vector.

Lines are brought into memory of the thread's own as [element][real parts, imaginary parts], a
vector of each; so the passes know neither tails nor shuffles, and lengths are run-time numbers. The
passes are Stockham's: one of radix r takes the elements q + s (p + m k), k < r, to q + s (r p + j),
where s is the product of the radices before it and m what is left of the length. An array of one
long line becomes lines by n = n1 n2: transforms of its columns, a twiddle factor for each element,
transforms of its rows.

Only the forward transform is written. With real and imaginary parts exchanged on the way in and on
the way out it is the inverse one.

Sources: Stockham (1966), AFIPS Conf. Proc. 28, 229-233; Bailey (1990), J. Supercomputing 4, 23-35;
for transforms of real numbers Sorensen et al. (1987), IEEE Trans. ASSP 35(6), 849-863; for any
length Bluestein (1970), IEEE Trans. Audio Electroacoust. 18(4), 451-455.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from mgefn.compiler.codegen.builder import vector
from mgefn.compiler.codegen.parts import Memory, Writer, pointers
from mgefn.compiler.codegen.values import LLVM_TYPES, itemsize

GENERIC = 0  # stands for an odd radix that is a run-time number

# The descriptor: the header's numbers, then those of each stage, then passes where stages say.
HEADER = ("per", "chunk", "shared", "worker_bytes", "mid_bytes", "buffer_bytes", "stages")
STAGE = (
    "source", "target", "source_outer", "target_outer", "blocks", "lanes", "source_step",
    "target_step", "load", "store", "length", "source_swap", "target_swap", "scale", "lane_table",
    "block_table", "passes", "passes_at",
)  # fmt: skip
PASS = ("radix", "m", "s", "twiddles", "order", "coefficients")

COLUMNS, ROWS, TWISTED = 0, 1, 2  # ways to load and store
SOURCE, TARGET, MIDDLE = 0, 1, 2  # where a stage reads and writes

Complex = tuple[str, str]


def _cosine_and_sine(k: int, n: int) -> tuple[float, float]:
    """Of 2 pi k / n, from an angle of at most pi / 4."""
    quarters = (8 * k + n) // (2 * n)
    angle = math.pi * (4 * k - quarters * n) / (2 * n)
    cosine, sine = math.cos(angle), math.sin(angle)
    turns = ((cosine, sine), (-sine, cosine), (-cosine, -sine), (sine, -cosine))
    return turns[quarters % 4]


class _Writer(Writer):
    """A kernel's function: loops, and complex numbers as two vectors."""

    def __init__(self, dtype: str, width: int):
        super().__init__()
        self.scalar, self.size, self.width = LLVM_TYPES[dtype], itemsize(dtype), width
        self.t = vector(self.scalar, width)
        self.half = width * self.size  # bytes of the real parts
        self.whole = 2 * self.half
        self.memory = Memory(self.b, self.scalar, width, self.size)

    def switch(self, value: str, cases: Sequence[tuple[int, Callable[[], None]]]) -> None:
        """One of some cases; the last one is taken for any other value too."""
        b = self.b
        end = b.label("end")
        for number, case in cases[:-1]:
            yes, no = b.label("case"), b.label("other")
            b.cond_br(b.icmp("eq", "i64", value, str(number)), yes, no)
            b.place(yes)
            case()
            b.br(end)
            b.place(no)
        cases[-1][1]()
        b.br(end)
        b.place(end)

    def at(self, base: str, i: str, stride: str | int = 1) -> str:
        """base + i * stride, in bytes.

        Frozen, it is no induction variable to LLVM, which takes long to choose among ways to count
        several of them.
        """
        there = self.b.offset(base, i if stride == 1 else self.mul(i, stride))
        return self.b.emit(f"freeze ptr {there}")

    # -- complex numbers ------------------------------------------------------------------------

    def load(self, where: str) -> Complex:
        b = self.b
        return b.load(self.t, where, self.size), b.load(
            self.t, b.offset(where, str(self.half)), self.size
        )

    def store(self, x: Complex, where: str) -> None:
        self.b.store(self.t, x[0], where, self.size)
        self.b.store(self.t, x[1], self.b.offset(where, str(self.half)), self.size)

    def splat(self, where: str) -> Complex:
        """One complex number in memory, in all lanes."""
        b = self.b
        x = b.load(self.scalar, where, self.size)
        y = b.load(self.scalar, b.offset(where, str(self.size)), self.size)
        return b.splat(self.t, x), b.splat(self.t, y)

    def plus(self, x: Complex, y: Complex) -> Complex:
        return self.b.fadd(self.t, x[0], y[0]), self.b.fadd(self.t, x[1], y[1])

    def minus(self, x: Complex, y: Complex) -> Complex:
        return self.b.fsub(self.t, x[0], y[0]), self.b.fsub(self.t, x[1], y[1])

    def plus_turned(self, x: Complex, y: Complex) -> Complex:
        """x - i y"""
        return self.b.fadd(self.t, x[0], y[1]), self.b.fsub(self.t, x[1], y[0])

    def minus_turned(self, x: Complex, y: Complex) -> Complex:
        """x + i y"""
        return self.b.fsub(self.t, x[0], y[1]), self.b.fadd(self.t, x[1], y[0])

    def times(self, x: Complex, w: Complex) -> Complex:
        b, t = self.b, self.t
        real = b.fma(t, b.fneg(t, x[1]), w[1], b.fmul(t, x[0], w[0]))
        return real, b.fma(t, x[0], w[1], b.fmul(t, x[1], w[0]))

    def shuffled(self, x: str, y: str, order: Sequence[int]) -> str:
        return self.b.shuffled(self.t, x, y, order)

    def parted(self, x: str, y: str) -> Complex:
        """Real and imaginary parts of the complex numbers in two vectors, those of x first."""
        w = self.width
        return (
            self.shuffled(x, y, range(0, 2 * w, 2)),
            self.shuffled(x, y, range(1, 2 * w, 2)),
        )

    def joined(self, x: Complex) -> tuple[str, str]:
        """Two vectors of complex numbers with these parts."""
        w = self.width
        low, high = (
            [i for k in range(start, start + w // 2) for i in (k, w + k)] for start in (0, w // 2)
        )
        return self.shuffled(*x, low), self.shuffled(*x, high)

    def transposed(self, xs: list[str]) -> list[str]:
        """Of width / 2 vectors of as many complex numbers: number e of them all, for each e."""
        n = self.width // 2
        d = n // 2
        while d:
            for i in range(n):
                if not i & d:
                    x, y = xs[i], xs[i + d]
                    for k, shift in ((i, 0), (i + d, d)):
                        order = []
                        for place in range(n):
                            of_y = bool(place & d)
                            number = (place & ~d) + shift + (n if of_y else 0)
                            order += [2 * number, 2 * number + 1]
                        xs[k] = self.shuffled(x, y, order)
            d //= 2
        return xs


# -- transforms of lanes --------------------------------------------------------------------------


class Lanes(NamedTuple):
    """Transforms of lines, in stages that each take blocks of as many lines as a vector has lanes.

    A stage loads lines that lie side by side (columns) or one after the other (rows), or takes
    them over; runs its passes; stores them either way, or as columns times a factor for each
    element: what the tables have for the lane and the element, times what they have for the block
    and the element. With no passes it transposes.

    Pointers: source, target, tables, memory of the workers. Domain: outer x units, each of some
    blocks of a stage. Descriptor: HEADER, STAGE, PASS.
    """

    dtype: str
    width: int
    radices: tuple[int, ...]
    loads: tuple[int, ...]  # ways to load and store that there is code for
    stores: tuple[int, ...]

    def text(self, name: str) -> str:
        return _Lanes(self).text(name)


class _Lanes(_Writer):
    def __init__(self, kernel: Lanes):
        super().__init__(kernel.dtype, kernel.width)
        self.k = kernel

    def numbers(self, names: Sequence[str], where: str) -> dict[str, str]:
        b = self.b
        return {n: b.load("i64", b.offset(where, str(8 * i)), 8) for i, n in enumerate(names)}

    def text(self, name: str) -> str:
        b = self.b
        head = self.numbers(HEADER, "%desc")
        source, target, self.tables, work = pointers(b, 4)
        # A worker's memory, by its number where that is small, else by the chunk's.
        known = b.icmp("ult", "i64", "%worker", head["shared"])
        other = self.add(head["shared"], b.emit(f"udiv i64 %begin, {head['chunk']}"))
        mine = self.at(work, b.select("i64", known, "%worker", other), head["worker_bytes"])
        ends = self.alloca("[3 x ptr]")
        for i, p in enumerate((source, target, mine)):
            b.store("ptr", p, b.offset(ends, str(8 * i)))
        self.buffers = [self.at(mine, head["mid_bytes"])]
        self.buffers.append(self.at(self.buffers[0], head["buffer_bytes"]))
        self.temporary = self.at(self.buffers[1], head["buffer_bytes"])
        self.now, self.next = self.alloca("ptr"), self.alloca("ptr")
        with self.loop("%begin", "%end") as u:
            outer = b.emit(f"udiv i64 {u}, {head['per']}")
            unit = b.emit(f"urem i64 {u}, {head['per']}")
            with self.loop("0", head["stages"]) as stage:
                record = self.at(b.offset("%desc", str(8 * len(HEADER))), stage, 8 * len(STAGE))
                f = self.numbers(STAGE, record)
                base = self.at(b.load("ptr", self.at(ends, f["source"], 8)), outer,
                               f["source_outer"])  # fmt: skip
                to = self.at(b.load("ptr", self.at(ends, f["target"], 8)), outer,
                             f["target_outer"])  # fmt: skip
                each = self.mul(f["blocks"], self.width)
                first = self.mul(unit, each)
                last = b.call_intrinsic("smin", "i64", self.add(first, each), f["lanes"])
                with self.loop(first, last, self.width) as lane:
                    self._block(f, lane, base, to)
        return self.finished(name)

    def _block(self, f: dict[str, str], lane: str, base: str, to: str) -> None:
        b = self.b
        lanes = b.call_intrinsic("smin", "i64", self.sub(f["lanes"], lane), str(self.width))
        b.store("ptr", self.buffers[0], self.now)
        b.store("ptr", self.buffers[1], self.next)
        self._load(f, lane, lanes, base)
        if self.k.radices:
            with self.loop("0", f["passes"]) as i:
                record = self.at(b.offset("%desc", self.mul(f["passes_at"], 8)), i, 8 * len(PASS))
                g = self.numbers(PASS, record)
                now, after = b.load("ptr", self.now), b.load("ptr", self.next)
                self.switch(
                    g["radix"],
                    [(r, lambda r=r: self._pass(r, g, now, after)) for r in self.k.radices],
                )
                b.store("ptr", after, self.now)
                b.store("ptr", now, self.next)
        stores = [(w, lambda w=w: self._store(w, f, lane, lanes, to)) for w in self.k.stores]
        self.switch(f["store"], stores)

    # -- in and out -----------------------------------------------------------------------------

    def _masks(self, lanes: str) -> tuple[str, str]:
        """Of two vectors of complex numbers, one for each lane."""
        both = self.mul(lanes, 2)
        return self.memory.mask(both), self.memory.mask(self.sub(both, self.width))

    def _swapped(self, where: str, swap: str) -> tuple[str, str]:
        """Addresses of real and imaginary parts, the other way round where swap is their size."""
        return self.at(where, swap), self.at(where, self.sub(str(self.half), swap))

    def _load(self, f: dict[str, str], lane: str, lanes: str, base: str) -> None:
        """Rows become columns in the other buffer; columns are parted."""
        b, memory = self.b, self.memory
        source, step, columns = self.alloca("ptr"), self.alloca("i64"), self.alloca("i64")

        def from_columns() -> None:
            b.store("ptr", self.at(base, lane, 2 * self.size), source)
            b.store("i64", f["source_step"], step)
            b.store("i64", lanes, columns)

        def from_rows() -> None:
            for group, lines in self._groups(lane, lanes, base, f["source_step"]):
                at = b.offset(self.buffers[1], self.mul(group, self.half))
                for k, mask, offset in self._squares(f["length"]):
                    xs = [memory.load(b.offset(line, offset), mask) for line in lines]
                    for e, x in enumerate(self.transposed(xs)):
                        b.store(self.t, x, self.at(at, self.add(k, e), self.whole), self.size)
            b.store("ptr", self.buffers[1], source)
            b.store("i64", str(self.whole), step)
            b.store("i64", str(self.width), columns)

        ways = {COLUMNS: from_columns, ROWS: from_rows}
        self.switch(f["load"], [(w, ways[w]) for w in self.k.loads])
        low, high = self._masks(b.load("i64", columns))
        start, far = b.load("ptr", source), b.load("i64", step)
        to = self._swapped(self.buffers[0], f["source_swap"])
        with self.loop("0", f["length"]) as k:
            where, offset = self.at(start, k, far), self.mul(k, self.whole)
            x = memory.load(where, low)
            y = memory.load(b.offset(where, str(self.half)), high)
            for part, end in zip(self.parted(x, y), to, strict=True):
                b.store(self.t, part, b.offset(end, offset), self.size)

    def _groups(
        self, lane: str, lanes: str, base: str, step: str
    ) -> Iterator[tuple[str, list[str]]]:
        """Twice, the second first: half of a block's rows. Lanes too many have the last row."""
        few, last = self.width // 2, self.sub(lanes, 1)
        with self.loop("0", "2") as turn:
            group = self.b.emit(f"sub i64 1, {turn}")
            lines = []
            for i in range(few):
                line = self.add(self.mul(group, few), i)
                inside = self.b.call_intrinsic("smin", "i64", line, last)
                lines.append(self.at(base, self.add(lane, inside), step))
            yield group, lines

    def _squares(self, length: str) -> Iterator[tuple[str, str, str]]:
        """Along rows: the first element of as many as there are rows, the mask, the offset."""
        few = self.width // 2
        with self.loop("0", length, few) as k:
            mask = self.memory.mask(self.mul(self.sub(length, k), 2))
            yield k, mask, self.mul(k, 2 * self.size)

    def _store(self, way: int, f: dict[str, str], lane: str, lanes: str, to: str) -> None:
        b = self.b
        buffer = b.load("ptr", self.now)
        if way == TWISTED:
            self._store_twisted(f, lane, lanes, to, buffer)
            return
        scale = b.cast("bitcast", f["scale"], "i64", "double")
        if self.scalar != "double":
            scale = b.cast("fptrunc", scale, "double", self.scalar)
        scales = b.splat(self.t, scale)
        masks = self._masks(lanes if way == COLUMNS else str(self.width))
        parts = self._swapped(buffer, f["target_swap"])
        other, step = b.load("ptr", self.next), str(self.whole)
        if way == COLUMNS:
            other, step = self.at(to, lane, 2 * self.size), f["target_step"]
        with self.loop("0", f["length"]) as k:
            offset = self.mul(k, self.whole)
            real, imaginary = (b.load(self.t, b.offset(p, offset), self.size) for p in parts)
            x = b.fmul(self.t, real, scales), b.fmul(self.t, imaginary, scales)
            self._put(x, self.at(other, k, step), masks)
        if way == COLUMNS:
            return
        for group, lines in self._groups(lane, lanes, to, f["target_step"]):
            at = b.offset(other, self.mul(group, self.half))
            for k, mask, offset in self._squares(f["length"]):
                xs = [
                    b.load(self.t, self.at(at, self.add(k, e), self.whole), self.size)
                    for e in range(self.width // 2)
                ]
                # The last lane there is writes last where lanes that are too many have written.
                for line, x in reversed(list(zip(lines, self.transposed(xs), strict=True))):
                    self.memory.store(x, b.offset(line, offset), mask)

    def _put(self, x: Complex, where: str, masks: tuple[str, str]) -> None:
        low, high = self.joined(x)
        self.memory.store(low, where, masks[0])
        self.memory.store(high, self.b.offset(where, str(self.half)), masks[1])

    def _store_twisted(
        self, f: dict[str, str], lane: str, lanes: str, to: str, buffer: str
    ) -> None:
        b = self.b
        masks = self._masks(lanes)
        to = self.at(to, lane, 2 * self.size)
        of_lanes = b.offset(self.tables, f["lane_table"])
        block = b.emit(f"udiv i64 {lane}, {self.width}")
        of_block = self.at(b.offset(self.tables, f["block_table"]), self.mul(block, f["length"]),
                           2 * self.size)  # fmt: skip
        with self.loop("0", f["length"]) as k:
            x = self.load(self.at(buffer, k, self.whole))
            w = self.load(self.at(of_lanes, k, self.whole))
            w = self.times(w, self.splat(self.at(of_block, k, 2 * self.size)))
            self._put(self.times(x, w), self.at(to, k, f["target_step"]), masks)

    # -- passes ---------------------------------------------------------------------------------

    def _pass(self, radix: int, g: dict[str, str], now: str, after: str) -> None:
        r = g["order"] if radix == GENERIC else str(radix)
        b = self.b
        step = self.mul(g["s"], self.whole)  # from p to p + 1, and from j to j + 1
        far = self.mul(step, g["m"])  # from k to k + 1
        across = self.mul(step, r)
        twiddles = b.offset(self.tables, g["twiddles"])
        each = self.mul(self.sub(r, 1), 2 * self.size)
        with self.loop("0", g["m"]) as p:
            w = self.at(twiddles, p, each)
            x, y = self.at(now, p, step), self.at(after, p, across)
            if radix == GENERIC:
                self._generic_turns(g, w, x, y, step, far)
            else:
                self._turns(radix, w, x, y, step, far)

    def _turns(self, radix: int, w: str, x: str, y: str, step: str, far: str) -> None:
        b = self.b
        ws = [self.splat(b.offset(w, str(2 * self.size * j))) for j in range(radix - 1)]
        with self.loop("0", step, self.whole) as q:
            xs, ys = [self.at(x, q)], [self.at(y, q)]
            for _ in range(radix - 1):
                xs.append(b.offset(xs[-1], far))
                ys.append(b.offset(ys[-1], step))
            out = self._butterfly([self.load(a) for a in xs])
            self.store(out[0], ys[0])
            for j in range(1, radix):
                self.store(self.times(out[j], ws[j - 1]), ys[j])

    def _butterfly(self, x: list[Complex]) -> list[Complex]:
        """The transform of a few numbers."""
        n = len(x)
        if n == 2:
            return [self.plus(*x), self.minus(*x)]
        if n == 4:
            even, odd = self.plus(x[0], x[2]), self.plus(x[1], x[3])
            other, turned = self.minus(x[0], x[2]), self.minus(x[1], x[3])
            return [
                self.plus(even, odd), self.plus_turned(other, turned),
                self.minus(even, odd), self.minus_turned(other, turned),
            ]  # fmt: skip
        if n == 8:
            return self._eight(x)
        return self._odd(x)

    def _eight(self, x: list[Complex]) -> list[Complex]:
        b, t = self.b, self.t
        even, odd = self._butterfly(x[::2]), self._butterfly(x[1::2])
        root = b.const(t, math.sqrt(0.5))
        out: list[Complex] = [("", "")] * 8
        out[0], out[4] = self.plus(even[0], odd[0]), self.minus(even[0], odd[0])
        out[2] = self.plus_turned(even[2], odd[2])
        out[6] = self.minus_turned(even[2], odd[2])
        # (1 - i) / sqrt(2) and -(1 + i) / sqrt(2), the root by fused products.
        z = odd[1]
        y = b.fadd(t, z[0], z[1]), b.fsub(t, z[1], z[0])
        out[1], out[5] = self._plus_minus(even[1], y, root)
        z = odd[3]
        y = b.fsub(t, z[1], z[0]), b.fneg(t, b.fadd(t, z[0], z[1]))
        out[3], out[7] = self._plus_minus(even[3], y, root)
        return out

    def _plus_minus(self, x: Complex, y: Complex, factor: str) -> tuple[Complex, Complex]:
        """x + factor y and x - factor y, the factor a real one in all lanes."""
        b, t = self.b, self.t
        less = b.fneg(t, factor)
        return (
            (b.fma(t, y[0], factor, x[0]), b.fma(t, y[1], factor, x[1])),
            (b.fma(t, y[0], less, x[0]), b.fma(t, y[1], less, x[1])),
        )

    def _odd(self, x: list[Complex]) -> list[Complex]:
        """By sums and differences of x[k] and x[n - k], which meet cosines and sines."""
        b, t, n = self.b, self.t, len(x)
        ks = range(1, (n + 1) // 2)
        sums = [self.plus(x[k], x[n - k]) for k in ks]
        differences = [self.minus(x[k], x[n - k]) for k in ks]
        out: list[Complex] = [x[0]] * n
        for s in sums:
            out[0] = self.plus(out[0], s)
        for j in ks:
            c, e = x[0], None
            for k, s, d in zip(ks, sums, differences, strict=True):
                cosine, sine = (b.const(t, a) for a in _cosine_and_sine(j * k, n))
                c = b.fma(t, s[0], cosine, c[0]), b.fma(t, s[1], cosine, c[1])
                if e is None:
                    e = b.fmul(t, d[0], sine), b.fmul(t, d[1], sine)
                else:
                    e = b.fma(t, d[0], sine, e[0]), b.fma(t, d[1], sine, e[1])
            assert e is not None
            out[j], out[n - j] = self.plus_turned(c, e), self.minus_turned(c, e)
        return out

    def _generic_turns(
        self, g: dict[str, str], w: str, x: str, y: str, step: str, far: str
    ) -> None:
        """The same for a radix that is known when it runs; sums and differences go to memory."""
        b, t = self.b, self.t
        r = g["order"]
        half = b.emit(f"lshr i64 {r}, 1")
        table = b.offset(self.tables, g["coefficients"])
        sums = [self.alloca(t) for _ in range(4)]

        def accumulated(i: int, a: str, factor: str | None = None) -> None:
            old = b.load(t, sums[i])
            new = b.fadd(t, old, a) if factor is None else b.fma(t, a, factor, old)
            b.store(t, new, sums[i])

        with self.loop("0", step, self.whole) as q:
            xq, yq = b.offset(x, q), b.offset(y, q)
            zero = self.load(xq)
            for i in (0, 1):
                b.store(t, zero[i], sums[i])
            with self.loop("0", half) as k:
                here = self.load(self.at(xq, self.add(k, 1), far))
                there = self.load(self.at(xq, self.sub(self.sub(r, 1), k), far))
                s, d = self.plus(here, there), self.minus(here, there)
                to = self.at(self.temporary, k, 2 * self.whole)
                self.store(s, to)
                self.store(d, b.offset(to, str(self.whole)))
                for i in (0, 1):
                    accumulated(i, s[i])
            self.store((b.load(t, sums[0]), b.load(t, sums[1])), yq)
            with self.loop("0", half) as j:
                row = self.at(table, self.mul(j, half), 2 * self.size)
                for i in range(4):
                    b.store(t, zero[i] if i < 2 else "zeroinitializer", sums[i])
                with self.loop("0", half) as k:
                    cosine, sine = self.splat(self.at(row, k, 2 * self.size))
                    at = self.at(self.temporary, k, 2 * self.whole)
                    s, d = self.load(at), self.load(b.offset(at, str(self.whole)))
                    for i in (0, 1):
                        accumulated(i, s[i], cosine)
                        accumulated(2 + i, d[i], sine)
                c = b.load(t, sums[0]), b.load(t, sums[1])
                e = b.load(t, sums[2]), b.load(t, sums[3])
                mirrored = self.sub(self.sub(r, 2), j)
                for i, z in ((j, self.plus_turned(c, e)), (mirrored, self.minus_turned(c, e))):
                    z = self.times(z, self.splat(self.at(w, i, 2 * self.size)))
                    self.store(z, self.at(yq, self.add(i, 1), step))


# -- transforms of real numbers -------------------------------------------------------------------


class Halves(NamedTuple):
    """From the transform of pairs of real numbers, taken as complex, to that of the numbers.

    With z[k] and conj(z[h - k]) of h + 1 elements, where z[h] is z[0]: their sum times 1/2, plus
    their difference times a factor g[k], is element k; the conjugate of that with a minus is
    element h - k. `back` goes from h + 1 elements to the h of pairs, without the 1/2. The tables
    have g[1], g[1 + width / 2], ... as complex numbers, and before them what leads from each to
    those between: real parts twice over, imaginary parts so, both again with every other sign
    changed.

    Pointers: source, target, tables. Domain: rows x pieces. Descriptor: pieces, vectors of a piece,
    h, bytes from row to row of the source, of the target.
    """

    dtype: str
    width: int
    back: bool

    def text(self, name: str) -> str:
        return _Halves(self).text(name)


class _Halves(_Writer):
    def __init__(self, kernel: Halves):
        super().__init__(kernel.dtype, kernel.width)
        self.back = kernel.back

    def text(self, name: str) -> str:
        b, t, memory, few = self.b, self.t, self.memory, self.width // 2
        pieces, length, h, source_step, target_step = (
            b.load("i64", b.offset("%desc", str(8 * i)), 8) for i in range(5)
        )
        source, target, tables = pointers(b, 3)
        lanes = [b.load(t, b.offset(tables, str(i * self.half)), self.size) for i in range(4)]
        factors = b.offset(tables, str(4 * self.half))
        last = b.emit(f"lshr i64 {h}, 1")  # which is its own counterpart where h is even
        end = b.emit(f"udiv i64 {self.add(last, few - 1)}, {few}")
        with self.loop("%begin", "%end") as u:
            row = b.emit(f"udiv i64 {u}, {pieces}")
            piece = b.emit(f"urem i64 {u}, {pieces}")
            x, y = self.at(source, row, source_step), self.at(target, row, target_step)
            first, done = b.label("first"), b.label("done")
            b.cond_br(b.icmp("eq", "i64", piece, "0"), first, done)
            b.place(first)
            self._first(x, y, h)
            b.br(done)
            b.place(done)
            start = self.mul(piece, length)
            stop = b.call_intrinsic("smin", "i64", self.add(start, length), end)
            with self.loop(start, stop) as v:
                k = self.add(self.mul(v, few), 1)
                left = self.mul(self.sub(self.add(last, 1), k), 2)
                mask = memory.mask(left)
                backward = range(self.width - 1, -1, -1)
                mirrored_mask = b.shuffled(memory.mask_type, mask, "poison", backward)
                at = self.mul(k, 2 * self.size)
                far = self.mul(self.sub(self.sub(h, k), few - 1), 2 * self.size)
                z = memory.load(b.offset(x, at), mask)
                other = self._mirrored(memory.load(b.offset(x, far), mirrored_mask))
                near, turn = b.fadd(t, z, other), b.fsub(t, z, other)
                if not self.back:
                    near = b.fmul(t, near, b.const(t, 0.5))
                c, s = self.splat(self.at(factors, v, 2 * self.size))
                real = b.fsub(t, b.fmul(t, c, lanes[0]), b.fmul(t, s, lanes[1]))
                imaginary = b.fma(t, c, lanes[3], b.fmul(t, s, lanes[2]))
                around = self.shuffled(turn, turn, [i ^ 1 for i in range(self.width)])
                product = b.fma(t, turn, real, b.fmul(t, around, imaginary))
                memory.store(b.fadd(t, near, product), b.offset(y, at), mask)
                memory.store(
                    self._mirrored(b.fsub(t, near, product)), b.offset(y, far), mirrored_mask
                )
        return self.finished(name)

    def _mirrored(self, x: str) -> str:
        """Conjugates, the last one first."""
        b, w = self.b, self.width
        order = [i for k in reversed(range(w // 2)) for i in (2 * k, 2 * k + 1)]
        x = self.shuffled(x, x, order)
        minus = b.fneg(self.t, x)
        return self.shuffled(x, minus, [i + w * (i % 2) for i in range(w)])

    def _first(self, x: str, y: str, h: str) -> None:
        b, scalar = self.b, self.scalar
        end = self.mul(h, 2 * self.size)
        a = b.load(scalar, x, self.size)
        c = b.load(scalar, b.offset(x, end if self.back else str(self.size)), self.size)
        both, less = b.fadd(scalar, a, c), b.fsub(scalar, a, c)
        b.store(scalar, both, y, self.size)
        if self.back:
            b.store(scalar, less, b.offset(y, str(self.size)), self.size)
            return
        zero = b.const(scalar, 0.0)
        b.store(scalar, zero, b.offset(y, str(self.size)), self.size)
        b.store(scalar, less, b.offset(y, end), self.size)
        b.store(scalar, zero, self.at(b.offset(y, str(self.size)), end), self.size)


# -- rows -----------------------------------------------------------------------------------------

WIDEN, WHOLE, PART, REAL = "widen", "whole", "part", "real"


class Rows(NamedTuple):
    """Rows of numbers that change their form.

    way: "widen" makes real numbers complex; "whole" n complex numbers from the half that is kept;
    "part" takes the first numbers of a row, "real" their real parts.

    Pointers: source, target. Domain: rows x pieces. Descriptor: pieces, numbers of a piece, numbers
    of a row of the target, and how many of them have a counterpart in the source; bytes from row to
    row of the source, of the target.
    """

    dtype: str
    way: str

    def text(self, name: str) -> str:
        f = _Writer(self.dtype, 2)
        b, size, scalar, way = f.b, f.size, f.scalar, self.way
        zero = b.const(scalar, 0.0)
        from_size, to_size = size * (1 + (way != WIDEN)), size * (1 + (way != REAL))
        with _pieces(f, 2) as (start, stop, end, n, (x, y)):

            def put(i: str, real: str, imaginary: str) -> None:
                to = f.at(y, i, to_size)
                b.store(scalar, real, to, size)
                if way != REAL:
                    b.store(scalar, imaginary, b.offset(to, str(size)), size)

            with f.loop(start, stop) as i:
                at = f.at(x, i, from_size)
                real = b.load(scalar, at, size)
                if way in (WIDEN, REAL):
                    put(i, real, zero)
                else:
                    imaginary = b.load(scalar, b.offset(at, str(size)), size)
                    if way == WHOLE:  # the first number is taken as real
                        first = b.icmp("eq", "i64", i, "0")
                        imaginary = b.select(scalar, first, zero, imaginary)
                    put(i, real, imaginary)
            if way == WHOLE:
                with f.loop(b.call_intrinsic("smax", "i64", start, stop), end) as i:
                    at = f.at(x, f.sub(n, i), from_size)
                    imaginary = b.load(scalar, b.offset(at, str(size)), size)
                    put(i, b.load(scalar, at, size), b.fneg(scalar, imaginary))
        return f.finished(name)


class Products(NamedTuple):
    """Rows of complex numbers times a table, with zeros behind what there is.

    Pointers, domain and descriptor: those of Rows, and the table.
    """

    dtype: str
    width: int

    def text(self, name: str) -> str:
        f = _Writer(self.dtype, self.width)
        b, t, w, memory = f.b, f.t, self.width, f.memory
        with _pieces(f, 3) as (start, stop, end, _, (x, y, table)):
            with f.loop(start, end, w // 2) as i:
                at = f.mul(i, 2 * f.size)
                mask = memory.mask(f.mul(f.sub(stop, i), 2))
                z = memory.load(b.offset(x, at), mask)
                factor = memory.load(b.offset(table, at), mask)
                real = f.shuffled(factor, factor, [k & ~1 for k in range(w)])
                turned = [(k | 1) + (0 if k & 1 else w) for k in range(w)]
                imaginary = f.shuffled(factor, b.fneg(t, factor), turned)
                around = f.shuffled(z, z, [k ^ 1 for k in range(w)])
                product = b.fma(t, z, real, b.fmul(t, around, imaginary))
                memory.store(product, b.offset(y, at), memory.mask(f.mul(f.sub(end, i), 2)))
        return f.finished(name)


@contextmanager
def _pieces(f: _Writer, count: int) -> Iterator[tuple[str, str, str, str, tuple[str, ...]]]:
    """A loop over pieces of rows.

    Yields:
        where a piece starts, where its counterparts in the source stop, and where it ends; the
        numbers of a row; the rows of source and target, and further pointers, `count` in all.
    """
    b = f.b
    pieces, length, n, given, source_step, target_step = (
        b.load("i64", b.offset("%desc", str(8 * i)), 8) for i in range(6)
    )
    source, target, *others = pointers(b, count)
    with f.loop("%begin", "%end") as u:
        row = b.emit(f"udiv i64 {u}, {pieces}")
        piece = b.emit(f"urem i64 {u}, {pieces}")
        start = f.mul(piece, length)
        end = b.call_intrinsic("smin", "i64", f.add(start, length), n)
        stop = b.call_intrinsic("smin", "i64", end, given)
        rows = f.at(source, row, source_step), f.at(target, row, target_step)
        yield start, stop, end, n, (*rows, *others)
