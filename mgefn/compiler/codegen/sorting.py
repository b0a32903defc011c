"""Sorts, the largest elements and searches as native code.

An array is taken as [outer][n][inner], the operation running along n.

Sorting works on keys that are unsigned integers in the order of the elements; equal elements have
equal keys. Short lines are sorted by counting for each key those that come before it, long ones by
radix, 8 bits at a time, which leaves equal keys in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from mgefn.compiler.codegen.builder import Builder, vector
from mgefn.compiler.codegen.lines import LineWriter, index_stored
from mgefn.compiler.codegen.values import SIGNED, itemsize

SHORT = 128  # elements of a line that is sorted by counting
RADIX = 256
_FLOAT_BITS = {"float16": 5, "bfloat16": 8, "float32": 8, "float64": 11}  # of the exponent
FLOATING = frozenset(_FLOAT_BITS)


def _bits(dtype: str) -> int:
    return 8 * itemsize(dtype)


def _is_float(dtype: str) -> bool:
    return dtype in FLOATING


def _infinity(dtype: str) -> int:
    """The bits of inf."""
    n, exponent = _bits(dtype), _FLOAT_BITS[dtype]
    return ((1 << exponent) - 1) << (n - 1 - exponent)


def _sign(dtype: str) -> int:
    """The sign bit alone, as the signed number it is."""
    return -(1 << _bits(dtype) - 1)


def _is_nan(b: Builder, dtype: str, t: str, x: str) -> str:
    size = b.binary("and", t, x, b.const(t, -1 - _sign(dtype)))
    return b.icmp("ugt", t, size, b.const(t, _infinity(dtype)))


def _key(b: Builder, dtype: str, width: int, x: str, descending: bool = False) -> str:
    """Bits of elements as unsigned integers in their order: NaN last, -0.0 equal to 0.0."""
    t = vector(f"i{_bits(dtype)}", width)
    if _is_float(dtype):
        sign = b.const(t, _sign(dtype))
        nan = _is_nan(b, dtype, t, x)
        x = b.select(t, b.icmp("eq", t, x, sign), b.const(t, 0), x)
        flips = b.binary("ashr", t, x, b.const(t, _bits(dtype) - 1))
        x = b.binary("xor", t, x, b.binary("or", t, flips, sign))
        x = b.select(t, nan, b.const(t, -1), x)
    elif dtype in SIGNED:
        x = b.binary("xor", t, x, b.const(t, _sign(dtype)))
    return b.binary("xor", t, x, b.const(t, -1)) if descending else x


def _element(b: Builder, dtype: str, width: int, key: str) -> str:
    """The bits of the element that has a key; of those that are equal, some."""
    t = vector(f"i{_bits(dtype)}", width)
    sign = b.const(t, _sign(dtype))
    if _is_float(dtype):
        positive = b.binary("ashr", t, key, b.const(t, _bits(dtype) - 1))
        flips = b.binary("xor", t, positive, b.const(t, -1))
        return b.binary("xor", t, key, b.binary("or", t, flips, sign))
    return b.binary("xor", t, key, sign) if dtype in SIGNED else key


def _as_index(b: Builder, x: str, source: str, dtype: str) -> str:
    """An integer as one of another dtype."""
    old, new = int(source[1:]), _bits(dtype)
    if old == new:
        return x
    return b.emit(f"{'trunc' if new < old else 'zext'} {source} {x} to i{new}")


class _Line:
    """A line [o, :, i] of memory laid out as [outer][n][inner], or of lines one after the other."""

    def __init__(
        self, f: LineWriter, base: str, u: str, n: str, inner: str, size: int, packed: bool
    ):
        self.f, self.size = f, size
        if packed:
            first, self.step = f.mul(u, n), "1"
        else:
            o, i = f.taken_apart(u, inner)
            first, self.step = f.add(f.mul(f.mul(o, n), inner), i), inner
        self.start = f.item(base, first, size)

    def at(self, k: str) -> str:
        k = k if self.step == "1" else self.f.mul(k, self.step)
        return self.f.item(self.start, k, self.size)


class Sorted(NamedTuple):
    """What a sort takes and gives.

    order: is there an order to begin with, from a sort by a later key? It is int32, a line after
    the other. integer: the dtype of the positions that come out, "" for the elements themselves.
    packed: do these lie line after line, rather than as the elements do? lines: do the elements?
    """

    dtype: str
    descending: bool
    order: bool
    integer: str
    packed: bool
    lines: bool


class RankSort(NamedTuple):
    """Short lines in order, each element at the number of those that are less.

    Pointers: x, out, and the order. Domain: lines. Descriptor: inner, n, at most SHORT.
    """

    what: Sorted
    width: int

    def text(self, name: str) -> str:
        f = LineWriter()
        b, w, what = f.b, self.width, self.what
        dtype = what.dtype
        size, scalar = itemsize(dtype), f"i{_bits(dtype)}"
        t, ints = vector(scalar, w), vector("i32", w)
        inner, n = f.numbers(2)
        x, out, *order = f.pointers(3 if what.order else 2)
        keys = f.alloca(f"[{SHORT + w} x {scalar}]")
        ranks, taken = (f.alloca(f"[{SHORT + w} x i32]") for _ in range(2))
        with f.loop("%begin", "%end") as u:
            source = _Line(f, x, u, n, inner, size, what.lines)
            target_size = itemsize(what.integer) if what.integer else size
            target = _Line(f, out, u, n, inner, target_size, what.packed or what.lines)
            known = f.item(order[0], f.mul(u, n), 4) if what.order else ""

            def place(k: str, known: str = known) -> str:
                """Where the element lies that comes k-th before this sort."""
                if not known:
                    return k
                return b.emit(f"zext i32 {b.load('i32', f.item(known, k, 4), 1)} to i64")

            if what.lines and not what.order:
                with f.loop("0", n, str(w)) as k:
                    bits = f.masked_load(t, source.at(k), f.mask(w, f.sub(n, k)), "zeroinitializer")
                    b.store(t, _key(b, dtype, w, bits, what.descending), f.item(keys, k, size), 1)
            else:
                with f.loop("0", n) as k:
                    bits = b.load(scalar, source.at(place(k)), 1)
                    key = _key(b, dtype, 1, bits, what.descending)
                    b.store(scalar, key, f.item(keys, k, size), 1)
            with f.loop("0", n, str(w)) as i:
                mine = b.load(t, f.item(keys, i, size), 1)
                count = f.variable(ints, "zeroinitializer")
                with f.loop("0", n) as j:
                    other = b.splat(t, b.load(scalar, f.item(keys, j, size), 1))
                    old = b.load(ints, count)
                    more = b.emit(f"add {ints} {old}, {b.const(ints, 1)}")
                    before = b.icmp("ult", t, other, mine)
                    b.store(ints, b.select(ints, before, more, old), count)
                b.store(ints, b.load(ints, count), f.item(ranks, i, 4), 1)
                b.store(ints, "zeroinitializer", f.item(taken, i, 4), 1)
            with f.loop("0", n) as k:
                rank = b.load("i32", f.item(ranks, k, 4), 1)
                # Equal elements have the same rank, and take places from there on as they come.
                equal = f.item(taken, b.emit(f"zext i32 {rank} to i64"), 4)
                others = b.load("i32", equal, 1)
                b.store("i32", b.emit(f"add i32 {others}, 1"), equal, 1)
                rank = b.emit(f"zext i32 {b.emit(f'add i32 {rank}, {others}')} to i64")
                if what.integer:
                    y = _as_index(b, place(k), "i64", what.integer)
                    b.store(f"i{_bits(what.integer)}", y, target.at(rank), 1)
                else:
                    b.store(scalar, b.load(scalar, source.at(place(k)), 1), target.at(rank), 1)
        return f.finished(name)


class _Records:
    """Records of a line that is sorted by radix: keys, with positions below them where wanted."""

    def __init__(self, f: LineWriter, what: Sorted):
        self.f, self.what, self.dtype = f, what, what.dtype
        self.scalar, self.size = f"i{_bits(what.dtype)}", itemsize(what.dtype)
        bits = record_bits(what)
        self.t, self.bytes = f"i{bits}", bits // 8
        self.low = bits // 2 if what.integer else 0  # where the key begins
        # Keys of floats do not say all about an element: see `restore`.
        self.fixed = not what.integer and _is_float(what.dtype)

    def line(self, u: str, n: str, inner: str, x: str, out: str, order: Sequence[str]) -> None:
        """Go on to a line."""
        f, what = self.f, self.what
        self.n = n
        self.source = _Line(f, x, u, n, inner, self.size, what.lines)
        target_size = itemsize(what.integer) if what.integer else self.size
        self.target = _Line(f, out, u, n, inner, target_size, what.packed or what.lines)
        self.before = f.item(order[0], f.mul(u, n), 4) if order else ""
        self.below, self.odd, self.nans = (f.variable("i64", "0") for _ in range(3))

    def at(self, records: str, k: str) -> str:
        return self.f.item(records, k, self.bytes)

    def read(self, k: str, records: str) -> str:
        """Write the k-th record, and give its key."""
        f, b, t = self.f, self.f.b, self.t
        at = k
        if self.before:
            at = b.emit(f"zext i32 {b.load('i32', f.item(self.before, k, 4), 1)} to i64")
        element_bits = b.load(self.scalar, self.source.at(at), 1)
        key = y = _key(b, self.dtype, 1, element_bits, self.what.descending)
        if self.fixed:
            sign = b.const(self.scalar, _sign(self.dtype))
            for where, condition in (
                (self.below, b.icmp("ult", self.scalar, key, sign)),
                (self.odd, b.icmp("eq", self.scalar, element_bits, sign)),
                (self.nans, _is_nan(b, self.dtype, self.scalar, element_bits)),
            ):
                more = b.emit(f"zext i1 {condition} to i64")
                b.store("i64", f.add(b.load("i64", where), more), where)
        if self.what.integer:
            y = b.binary("shl", t, b.cast("zext", key, self.scalar, t), str(self.low))
            y = b.binary("or", t, y, b.cast("zext", at, "i64", t))
        b.store(t, y, self.at(records, k), 1)
        return key

    def shift(self, p: str) -> str:
        """Bits below the p-th digit of the key, as a record's type."""
        shift = self.f.add(self.f.mul(p, "8"), str(self.low))
        bits = 8 * self.bytes
        return shift if bits == 64 else self.f.b.cast(
            "trunc" if bits < 64 else "zext", shift, "i64", self.t
        )  # fmt: skip

    def digit(self, y: str, shift: str) -> str:
        """A digit of a record, as an i64."""
        return _digit(self.f.b, self.f.b.binary("lshr", self.t, y, shift), self.t)

    def move(self, k: str, source: str, target: str, counts: str, shift: str) -> None:
        """The k-th record to the next place of those that have its digit."""
        f, b = self.f, self.f.b
        y = b.load(self.t, self.at(source, k), 1)
        where = f.item(counts, self.digit(y, shift), 4)
        at = b.load("i32", where, 4)
        b.store("i32", b.emit(f"add i32 {at}, 1"), where, 4)
        b.store(self.t, y, self.at(target, b.emit(f"zext i32 {at} to i64")), 1)

    def write(self, records: str, start: str, stop: str, width: int) -> None:
        """What comes out of the records from start on below stop."""
        f, b, what = self.f, self.f.b, self.what
        if what.integer:
            with f.loop(start, stop) as k:
                y = b.load(self.t, self.at(records, k), 1)
                y = b.cast("trunc", y, self.t, f"i{self.low}")
                y = _as_index(b, y, f"i{self.low}", what.integer)
                b.store(f"i{_bits(what.integer)}", y, self.target.at(k), 1)
        elif what.lines:
            t = vector(self.scalar, width)
            with f.loop(start, stop, str(width)) as k:
                mask = f.mask(width, f.sub(stop, k))
                y = f.masked_load(t, self.at(records, k), mask, "zeroinitializer")
                f.masked_store(t, _element(b, self.dtype, width, y), self.target.at(k), mask)
        else:
            with f.loop(start, stop) as k:
                y = _element(b, self.dtype, 1, b.load(self.scalar, self.at(records, k), 1))
                b.store(self.scalar, y, self.target.at(k), 1)

    def restore(self) -> None:
        """Zeros and NaN as they came, if their keys do not say all about them."""
        f, b, t = self.f, self.f.b, self.scalar
        below, odd, nans = (b.load("i64", x) for x in (self.below, self.odd, self.nans))
        zero_at, nan_at = f.variable("i64", below), f.variable("i64", f.sub(self.n, nans))
        some = b.emit(f"or i64 {odd}, {nans}")
        with f.when(b.icmp("ne", "i64", some, "0")), f.loop("0", self.n) as k:
            y = b.load(t, self.source.at(k), 1)
            size = b.binary("and", t, y, b.const(t, -1 - _sign(self.dtype)))
            for condition, counter in (
                (b.icmp("eq", t, size, "0"), zero_at),
                (_is_nan(b, self.dtype, t, y), nan_at),
            ):
                with f.when(condition):
                    at = b.load("i64", counter)
                    b.store(t, y, self.target.at(at), 1)
                    b.store("i64", f.add(at, "1"), counter)


def record_bits(what: Sorted) -> int:
    key = _bits(what.dtype)
    return key if not what.integer else 64 if key <= 32 else 128


def _digit(b: Builder, x: str, t: str) -> str:
    """The lowest digit, as an i64."""
    return b.emit(f"zext i8 {b.cast('trunc', x, t, 'i8')} to i64")


def _cleared(f: LineWriter, counts: str, count: int) -> None:
    with f.loop("0", str(count), "16") as i:
        f.b.store("<16 x i32>", "zeroinitializer", f.item(counts, i, 4), 4)


def _one_more(f: LineWriter, where: str) -> None:
    b = f.b
    b.store("i32", b.emit(f"add i32 {b.load('i32', where, 4)}, 1"), where, 4)


class RadixSort(NamedTuple):
    """Long lines in order, by radix from the lowest digit on.

    Digits that are the same in all keys are left out.

    Pointers: x, out, records of a chunk's two lines, and the order. Domain: lines. Descriptor:
    inner, n, lines of a chunk.
    """

    what: Sorted
    width: int

    def text(self, name: str) -> str:
        f = LineWriter()
        b, r = f.b, _Records(f, self.what)
        passes = r.size
        inner, n, lines = f.numbers(3)
        x, out, records, *order = f.pointers(4 if self.what.order else 3)
        counts = f.alloca(f"[{passes * RADIX} x i32]")
        chunk = b.emit(f"udiv i64 %begin, {lines}")
        line_bytes = f.mul(n, str(r.bytes))
        first = b.offset(records, f.mul(chunk, f.mul(line_bytes, "2")))
        second = b.offset(first, line_bytes)
        source_at, target_at = f.alloca("ptr"), f.alloca("ptr")
        with f.loop("%begin", "%end") as u:
            r.line(u, n, inner, x, out, order)
            b.store("ptr", first, source_at)
            b.store("ptr", second, target_at)
            _cleared(f, counts, passes * RADIX)
            with f.loop("0", n) as k:
                key = r.read(k, first)
                for p in range(passes):
                    digit = b.binary("lshr", r.scalar, key, str(8 * p)) if p else key
                    digit = _digit(b, digit, r.scalar)
                    _one_more(f, f.item(counts, f.add(digit, str(p * RADIX)), 4))
            with f.loop("0", str(passes)) as p:
                mine, shift = f.item(counts, f.mul(p, str(RADIX)), 4), r.shift(p)
                source, target = b.load("ptr", source_at), b.load("ptr", target_at)
                of_first = f.item(mine, r.digit(b.load(r.t, source, 1), shift), 4)
                alike = b.emit(f"zext i32 {b.load('i32', of_first, 4)} to i64")
                with f.when(b.icmp("ne", "i64", alike, n)):
                    total = f.variable("i32", "0")
                    with f.loop("0", str(RADIX)) as d:
                        _placed(f, f.item(mine, d, 4), total)
                    with f.loop("0", n) as k:
                        r.move(k, source, target, mine, shift)
                    b.store("ptr", target, source_at)
                    b.store("ptr", source, target_at)
            r.write(b.load("ptr", source_at), "0", n, self.width)
            if r.fixed:
                r.restore()
        return f.finished(name)


def _placed(f: LineWriter, where: str, total: str) -> None:
    """A count becomes the sum of those before it."""
    b = f.b
    count, before = b.load("i32", where, 4), b.load("i32", total)
    b.store("i32", before, where, 4)
    b.store("i32", b.emit(f"add i32 {before}, {count}"), total)


class RadixPart(NamedTuple):
    """One stage of the same for lines in pieces, whatever their number.

    stage: "read" makes the records; for each digit "count" counts it in each piece, "place" turns
    counts into places, "move" moves the records there; "write" writes what comes out, and "restore"
    is needed for floats. The last word of a line's state says which of its two lines of records
    holds them, the first which did when places were made, the second whether the digit is left out.

    Pointers: x, out, records (two lines for each), counts (256 of int32 a piece), state (3 words of
    int64 a line), tallies (3 a piece), and the order. Domain: lines x pieces; of "place" and
    "restore" lines. Descriptor: inner, n, pieces, elements of a piece, number of the digit.
    """

    what: Sorted
    stage: str
    width: int

    def text(self, name: str) -> str:
        f = LineWriter()
        b, r = f.b, _Records(f, self.what)
        inner, n, pieces, length, digit = f.numbers(5)
        x, out, records, counts, state, tallies, *order = f.pointers(7 if self.what.order else 6)
        line_bytes = f.mul(n, str(r.bytes))
        whole = self.stage in ("place", "restore")
        with f.loop("%begin", "%end") as u:
            line, piece = (u, "0") if whole else f.taken_apart(u, pieces)
            r.line(line, n, inner, x, out, order)
            start = f.mul(piece, length)
            stop = b.call_intrinsic("smin", "i64", n, f.add(start, length))
            unit = f.mul(u, pieces) if whole else u
            mine = f.item(counts, f.mul(unit, str(RADIX)), 4)
            tally = f.item(tallies, f.mul(unit, "3"), 8)
            before, left_out, now = (
                f.item(state, f.add(f.mul(line, "3"), str(i)), 8) for i in range(3)
            )
            first = b.offset(records, f.mul(line, f.mul(line_bytes, "2")))
            second = b.offset(first, line_bytes)

            def held(where: str, first: str = first, second: str = second) -> tuple[str, str]:
                """The line of records that a word of the state names, and the other."""
                odd = b.icmp("ne", "i64", b.load("i64", where, 8), "0")
                return (
                    b.emit(f"select i1 {odd}, ptr {second}, ptr {first}"),
                    b.emit(f"select i1 {odd}, ptr {first}, ptr {second}"),
                )

            if self.stage == "read":
                b.store("i64", "0", now, 8)  # by every piece, but always the same
                with f.loop(start, stop) as k:
                    r.read(k, first)
                for i, where in enumerate((r.below, r.odd, r.nans)):
                    b.store("i64", b.load("i64", where), f.item(tally, str(i), 8), 8)
            elif self.stage == "count":
                source, _ = held(now)
                _cleared(f, mine, RADIX)
                shift = r.shift(digit)
                with f.loop(start, stop) as k:
                    y = b.load(r.t, r.at(source, k), 1)
                    _one_more(f, f.item(mine, r.digit(y, shift), 4))
            elif self.stage == "place":
                self._place(f, r, held(now)[0], mine, pieces, digit, (before, left_out, now))
            elif self.stage == "move":
                source, target = held(before)
                shift = r.shift(digit)
                needed = b.icmp("eq", "i64", b.load("i64", left_out, 8), "0")
                with f.when(needed), f.loop(start, stop) as k:
                    r.move(k, source, target, mine, shift)
            elif self.stage == "write":
                r.write(held(now)[0], start, stop, self.width)
            else:
                with f.loop("0", pieces) as p:
                    for i, where in enumerate((r.below, r.odd, r.nans)):
                        at = f.item(tally, f.add(f.mul(p, "3"), str(i)), 8)
                        more = f.add(b.load("i64", where), b.load("i64", at, 8))
                        b.store("i64", more, where)
                r.restore()
        return f.finished(name)

    def _place(self, f: LineWriter, r: _Records, source: str, counts: str, pieces: str, digit: str,
               state: tuple[str, str, str]) -> None:  # fmt: skip
        b = f.b
        before, left_out, now = state
        of_first = r.digit(b.load(r.t, source, 1), r.shift(digit))
        alike = f.variable("i32", "0")

        def each(d: str, total: str, act: Callable[[LineWriter, str, str], None]) -> None:
            with f.loop("0", pieces) as p:
                act(f, f.item(counts, f.add(f.mul(p, str(RADIX)), d), 4), total)

        each(of_first, alike, _added)
        same = b.emit(f"zext i32 {b.load('i32', alike)} to i64")
        skip = b.icmp("eq", "i64", same, r.n)
        b.store("i64", b.emit(f"zext i1 {skip} to i64"), left_out, 8)
        old = b.load("i64", now, 8)
        b.store("i64", old, before, 8)
        other = b.emit(f"sub i64 1, {old}")
        b.store("i64", b.emit(f"select i1 {skip}, i64 {old}, i64 {other}"), now, 8)
        total = f.variable("i32", "0")
        with f.loop("0", str(RADIX)) as d:
            each(d, total, _placed)


def _added(f: LineWriter, where: str, total: str) -> None:
    b = f.b
    both = b.emit(f"add i32 {b.load('i32', total)}, {b.load('i32', where, 4)}")
    b.store("i32", both, total)


class Ordered(NamedTuple):
    """The first m elements of lines in an order that is known: out[o, k, i] = x[o, order[k], i].

    Pointers: x, out, the order (int32, a line after the other), and where `positions` memory for
    that in the layout of `out`. Domain: lines x pieces. Descriptor: inner, n, m, pieces, elements
    of a piece.
    """

    size: int
    positions: bool

    def text(self, name: str) -> str:
        f = LineWriter()
        b, size = f.b, self.size
        t = f"i{8 * size}"
        inner, n, m, pieces, length = f.numbers(5)
        x, out, order, *positions = f.pointers(4 if self.positions else 3)
        with f.loop("%begin", "%end") as u:
            line, piece = f.taken_apart(u, pieces)
            source = _Line(f, x, line, n, inner, size, False)
            target = _Line(f, out, line, m, inner, size, False)
            known = f.item(order, f.mul(line, n), 4)
            also = [_Line(f, p, line, m, inner, 4, False) for p in positions]
            start = f.mul(piece, length)
            stop = b.call_intrinsic("smin", "i64", m, f.add(start, length))
            with f.loop(start, stop) as k:
                i = b.load("i32", f.item(known, k, 4), 1)
                at = b.emit(f"zext i32 {i} to i64")
                b.store(t, b.load(t, source.at(at), 1), target.at(k), 1)
                for p in also:
                    b.store("i32", i, p.at(k), 1)
        return f.finished(name)


FEW = 32  # largest elements that are kept in order while a line is read


class Largest(NamedTuple):
    """The k largest elements of each line and their positions, k at most FEW.

    They are kept in order; of the others few are more than compared with the last of them.

    Pointers: x, values, positions. Domain: lines. Descriptor: inner, n, k.
    """

    dtype: str
    width: int  # 1 where the elements of a line do not lie side by side

    def text(self, name: str) -> str:
        f = LineWriter()
        b, w, dtype = f.b, self.width, self.dtype
        size, scalar = itemsize(dtype), f"i{_bits(dtype)}"
        t = vector(scalar, w)
        inner, n, count = f.numbers(3)
        x, values, positions = f.pointers(3)
        keys, places = f.alloca(f"[{FEW} x {scalar}]"), f.alloca(f"[{FEW} x i32]")
        last = f.sub(count, "1")
        with f.loop("%begin", "%end") as u:
            source = _Line(f, x, u, n, inner, size, w > 1)

            def insert(key: str, k: str, end: str, source: _Line = source) -> None:
                """Among those kept, behind what is not worse; `end`: where the last one goes."""
                at = f.variable("i64", end)
                head, check, move, done = (b.label("insert") for _ in range(4))
                b.br(head)
                b.place(head)
                here = b.load("i64", at)
                b.cond_br(b.icmp("sgt", "i64", here, "0"), check, done)
                b.place(check)
                above = f.sub(here, "1")
                other = b.load(scalar, f.item(keys, above, size), 1)
                b.cond_br(b.icmp("ult", scalar, key, other), move, done)
                b.place(move)
                b.store(scalar, other, f.item(keys, here, size), 1)
                moved = b.load("i32", f.item(places, above, 4), 1)
                b.store("i32", moved, f.item(places, here, 4), 1)
                b.store("i64", above, at)
                b.br(head)
                b.place(done)
                here = b.load("i64", at)
                b.store(scalar, key, f.item(keys, here, size), 1)
                b.store("i32", b.emit(f"trunc i64 {k} to i32"), f.item(places, here, 4), 1)

            with f.loop("0", count) as k:
                insert(_key(b, dtype, 1, b.load(scalar, source.at(k), 1), True), k, k)
            with f.loop(count, n, str(w)) as k:
                worst = b.load(scalar, f.item(keys, last, size), 1)
                if w == 1:
                    key = _key(b, dtype, 1, b.load(scalar, source.at(k), 1), True)
                    with f.when(b.icmp("ult", scalar, key, worst)):
                        insert(key, k, last)
                else:
                    mask = f.mask(w, f.sub(n, k))
                    bits = f.masked_load(t, source.at(k), mask, "zeroinitializer")
                    better = b.icmp("ult", t, _key(b, dtype, w, bits, True), b.splat(t, worst))
                    better = b.binary("and", vector("i1", w), better, mask)
                    stop = b.call_intrinsic("smin", "i64", n, f.add(k, str(w)))
                    with f.when(b.any_of(vector("i1", w), better)), f.loop(k, stop) as j:
                        key = _key(b, dtype, 1, b.load(scalar, source.at(j), 1), True)
                        worst = b.load(scalar, f.item(keys, last, size), 1)
                        with f.when(b.icmp("ult", scalar, key, worst)):
                            insert(key, j, last)
            value_line = _Line(f, values, u, count, inner, size, w > 1)
            place_line = _Line(f, positions, u, count, inner, 4, w > 1)
            with f.loop("0", count) as k:
                i = b.load("i32", f.item(places, k, 4), 1)
                at = b.emit(f"zext i32 {i} to i64")
                b.store(scalar, b.load(scalar, source.at(at), 1), value_line.at(k), 1)
                b.store("i32", i, place_line.at(k), 1)
        return f.finished(name)


# -- searching ------------------------------------------------------------------------------------


class Search(NamedTuple):
    """How many elements of a sorted line lie before each value; by halving, a vector at a time.

    Pointers: lines, values, out. Domain: lines x tiles of values. Descriptor: tiles, values of a
    line, n, the largest power of two that is at most n; n is below 2**31.
    """

    dtype: str
    right: bool
    integer: str
    width: int

    def text(self, name: str) -> str:
        f = LineWriter()
        b, w, dtype = f.b, self.width, self.dtype
        size, scalar = itemsize(dtype), f"i{_bits(dtype)}"
        t, ints, masks = vector(scalar, w), vector("i32", w), vector("i1", w)
        tiles, m, n, power = f.numbers(4)
        lines, values, out = f.pointers(3)
        most = b.splat(ints, b.emit(f"trunc i64 {n} to i32"))
        with f.loop("%begin", "%end") as u:
            line, tile = f.taken_apart(u, tiles)
            first = f.mul(tile, str(w))
            mask = f.mask(w, f.sub(m, first))
            at = f.add(f.mul(line, m), first)
            # One byte before the line would be where position 0 is looked at; it never is.
            base = f.item(lines, f.sub(f.mul(line, n), "1"), size)
            v = f.masked_load(t, f.item(values, at, size), mask, "zeroinitializer")
            v = _key(b, dtype, w, v)
            found = f.variable(ints, "zeroinitializer")
            left = f.variable("i64", power)
            head, body, done = b.label("halve"), b.label("body"), b.label("done")
            b.br(head)
            b.place(head)
            step = b.load("i64", left)
            b.cond_br(b.icmp("ne", "i64", step, "0"), body, done)
            b.place(body)
            old = b.load(ints, found)
            further = b.splat(ints, b.emit(f"trunc i64 {step} to i32"))
            new = b.emit(f"add {ints} {old}, {further}")
            inside = b.icmp("ule", ints, new, most)
            inside = b.binary("and", masks, inside, mask)
            pointers = b.emit(f"getelementptr {scalar}, ptr {base}, {ints} {new}")
            x = b.masked_load(t, pointers, inside, 1, many=True)
            before = b.icmp("ule" if self.right else "ult", t, _key(b, dtype, w, x), v)
            before = b.binary("and", masks, before, inside)
            b.store(ints, b.select(ints, before, new, old), found)
            b.store("i64", b.emit(f"lshr i64 {step}, 1"), left)
            b.br(head)
            b.place(done)
            at = f.item(out, at, itemsize(self.integer))
            index_stored(f, b.load(ints, found), w, self.integer, at, mask)
        return f.finished(name)
