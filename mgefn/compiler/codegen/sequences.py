"""Scans and positions of extremes as native code.

An array is taken as [outer][n][inner], the operation running along n. Where inner is 1 that is
along lines in memory: a line is scanned a vector at a time, by a tree of log2(width) joins within
it and one with what came before. Else it is along columns, as many at once as a vector holds.
"""

from __future__ import annotations

from typing import NamedTuple

from mgefn.compiler.codegen import vector_math
from mgefn.compiler.codegen.builder import Builder, vector
from mgefn.compiler.codegen.lines import LineWriter, computed, index_stored, lane_numbers
from mgefn.compiler.codegen.loops import combine, neutral
from mgefn.compiler.codegen.values import FLOATS, LLVM_TYPES, SIGNED, itemsize, ty


def _neutral(b: Builder, kind: str, t: str, dtype: str) -> str:
    """What a scan starts from; -0.0 for a sum, which changes no number at all."""
    if kind == "logsumexp":
        return b.const(t, float("-inf"))
    if kind == "sum" and dtype in FLOATS:
        return b.const(t, -0.0)
    return b.const(t, neutral(kind, dtype))


def _joined(b: Builder, kind: str, dtype: str, width: int, x: str, y: str) -> str:
    if kind == "logsumexp":
        return vector_math.emit(b, "logaddexp", LLVM_TYPES[dtype], width, x, y)
    return combine(b, kind, dtype, width, x, y)


class ColumnScan(NamedTuple):
    """out[o, k, i] = x[o, 0, i] joined with ... and x[o, k, i]; from the end when `reverse`.

    Pointers: x, out. Domain: outer x tiles of columns. Descriptor: tiles, inner, n.
    kind: sum, prod, max, min or logsumexp.
    """

    kind: str
    dtype: str
    reverse: bool
    width: int

    def text(self, name: str) -> str:
        f = LineWriter()
        b, w, size = f.b, self.width, itemsize(self.dtype)
        dtype = computed(self.dtype)
        t = ty(dtype, w)
        tiles, inner, n = f.numbers(3)
        x, out = f.pointers(2)
        start = _neutral(b, self.kind, t, dtype)
        with f.loop("%begin", "%end") as u:
            o, tile = f.taken_apart(u, tiles)
            column = f.mul(tile, str(w))
            mask = f.mask(w, f.sub(inner, column))
            first = f.add(f.mul(f.mul(o, n), inner), column)
            total = f.variable(t, start)
            with f.loop("0", n) as k:
                at = f.sub(f.sub(n, "1"), k) if self.reverse else k
                at = f.mul(f.add(first, f.mul(at, inner)), str(size))
                y = f.loaded(self.dtype, w, b.offset(x, at), mask, start)
                y = _joined(b, self.kind, dtype, w, b.load(t, total), y)
                b.store(t, y, total)
                f.stored(self.dtype, w, y, b.offset(out, at), mask)
        return f.finished(name)


class LineScan(NamedTuple):
    """The same along contiguous lines, whole or in pieces.

    `stage` "scan" takes pieces each by itself, "totals" joins all of each piece, "rest" scans it,
    starting from the totals of those before.

    Pointers: x, out, totals ("scan": x, out; "totals": x, totals). Domain: lines x pieces.
    Descriptor: pieces, elements of a piece, n.
    """

    kind: str
    dtype: str
    reverse: bool
    width: int
    stage: str

    def text(self, name: str) -> str:
        f = LineWriter()
        b, w, size = f.b, self.width, itemsize(self.dtype)
        dtype = computed(self.dtype)
        t, scalar = ty(dtype, w), ty(dtype, 1)
        pieces, length, n = f.numbers(3)
        x, *others = f.pointers(3 if self.stage == "rest" else 2)
        start = _neutral(b, self.kind, t, dtype)
        backwards = range(w - 1, -1, -1)
        with f.loop("%begin", "%end") as u:
            line, piece = f.taken_apart(u, pieces)
            first = f.mul(piece, length)
            count = b.call_intrinsic("smin", "i64", length, f.sub(n, first))
            base = f.mul(line, n)
            total = f.variable(t, start)
            if self.stage == "rest":
                of_line = f.item(others[1], f.mul(line, pieces), itemsize(dtype))
                with f.loop("0", piece) as p:
                    before = b.load(scalar, f.item(of_line, p, itemsize(dtype)), 1)
                    joined = _joined(b, self.kind, dtype, w, b.load(t, total), b.splat(t, before))
                    b.store(t, joined, total)
            with f.loop("0", count, str(w)) as j:
                mask = f.mask(w, f.sub(count, j))
                at = f.add(first, j)
                if self.reverse:
                    at = f.sub(f.sub(n, str(w)), at)
                    mask = f.b.shuffled(f"<{w} x i1>", mask, "poison", backwards)
                at = f.mul(f.add(base, at), str(size))
                y = f.loaded(self.dtype, w, b.offset(x, at), mask, start)
                carry = b.load(t, total)
                if self.stage == "totals":
                    b.store(t, _joined(b, self.kind, dtype, w, carry, y), total)
                else:
                    y, last = self._within(f, t, y, start)
                    b.store(t, _joined(b, self.kind, dtype, w, carry, last), total)
                    y = _joined(b, self.kind, dtype, w, carry, y)
                    if self.reverse:
                        y = f.b.shuffled(t, y, "poison", backwards)
                    f.stored(self.dtype, w, y, b.offset(others[0], at), mask)
            if self.stage == "totals":
                y = b.load(t, total)
                half = w // 2
                while half:
                    turned = f.b.shuffled(t, y, "poison", [(i + half) % w for i in range(w)])
                    y = _joined(b, self.kind, dtype, w, y, turned)
                    half //= 2
                y = b.emit(f"extractelement {t} {y}, i64 0")
                b.store(scalar, y, f.item(others[0], u, itemsize(dtype)), 1)
        return f.finished(name)

    def _within(self, f: LineWriter, t: str, y: str, start: str) -> tuple[str, str]:
        """The scan of a vector, and its last element everywhere."""
        w, dtype = self.width, computed(self.dtype)
        if self.reverse:
            y = f.b.shuffled(t, y, "poison", range(w - 1, -1, -1))
        step = 1
        while step < w:
            order = [w + i if i < step else i - step for i in range(w)]
            y = _joined(f.b, self.kind, dtype, w, f.b.shuffled(t, y, start, order), y)
            step *= 2
        return y, f.b.shuffled(t, y, "poison", [w - 1] * w)


# -- positions of extremes ------------------------------------------------------------------------


def _better(b: Builder, dtype: str, width: int, x: str, best: str, largest: bool) -> str:
    """Is x to be chosen before the best so far? NaN before all numbers."""
    t = ty(dtype, width)
    if dtype in FLOATS:
        above = b.fcmp("ugt" if largest else "ult", t, x, best)
        return b.binary("and", vector("i1", width), above, b.fcmp("ord", t, best, best))
    sign = "s" if dtype in SIGNED else "u"
    return b.icmp(f"{sign}{'gt' if largest else 'lt'}", t, x, best)


class ColumnArgument(NamedTuple):
    """The position along k of the first extreme of x[o, k, i], in the dtype `integer`.

    Pointers: x, out. Domain: outer x tiles of columns. Descriptor: tiles, inner, n.
    """

    dtype: str
    largest: bool
    integer: str
    width: int

    def text(self, name: str) -> str:
        f = LineWriter()
        b, w, size = f.b, self.width, itemsize(self.dtype)
        dtype = computed(self.dtype)
        t, ints = ty(dtype, w), f"<{w} x i32>"
        tiles, inner, n = f.numbers(3)
        x, out = f.pointers(2)
        start = b.const(t, neutral("max" if self.largest else "min", dtype))
        with f.loop("%begin", "%end") as u:
            o, tile = f.taken_apart(u, tiles)
            column = f.mul(tile, str(w))
            mask = f.mask(w, f.sub(inner, column))
            first = f.add(f.mul(f.mul(o, n), inner), column)
            best, where = f.variable(t, start), f.variable(ints, "zeroinitializer")
            with f.loop("0", n) as k:
                at = f.mul(f.add(first, f.mul(k, inner)), str(size))
                y = f.loaded(self.dtype, w, b.offset(x, at), mask, start)
                old = b.load(t, best)
                better = _better(b, dtype, w, y, old, self.largest)
                b.store(t, b.select(t, better, y, old), best)
                here = b.splat(ints, b.emit(f"trunc i64 {k} to i32"))
                b.store(ints, b.select(ints, better, here, b.load(ints, where)), where)
            at = f.item(out, f.add(f.mul(o, inner), column), itemsize(self.integer))
            index_stored(f, b.load(ints, where), w, self.integer, at, mask)
        return f.finished(name)


class LineArgument(NamedTuple):
    """The same along contiguous lines; in pieces, it gives the value and position of each.

    Pointers: x, out ("parts": x, values, positions as int32). Domain: lines x pieces. Descriptor:
    pieces, elements of a piece, n.
    """

    dtype: str
    largest: bool
    integer: str
    width: int
    parts: bool

    def text(self, name: str) -> str:
        f = LineWriter()
        b, w, size = f.b, self.width, itemsize(self.dtype)
        dtype = computed(self.dtype)
        t, ints = ty(dtype, w), f"<{w} x i32>"
        pieces, length, n = f.numbers(3)
        x, *others = f.pointers(3 if self.parts else 2)
        start = b.const(t, neutral("max" if self.largest else "min", dtype))
        with f.loop("%begin", "%end") as u:
            line, piece = f.taken_apart(u, pieces)
            first = f.mul(piece, length)
            count = b.call_intrinsic("smin", "i64", length, f.sub(n, first))
            base = f.add(f.mul(line, n), first)
            zero = b.splat(ints, b.emit(f"trunc i64 {first} to i32"))
            lanes = b.emit(f"add {ints} {zero}, {lane_numbers(w)}")
            best, where = f.variable(t, start), f.variable(ints, lanes)
            with f.loop("0", count, str(w)) as j:
                mask = f.mask(w, f.sub(count, j))
                at = f.item(x, f.add(base, j), size)
                y = f.loaded(self.dtype, w, at, mask, start)
                old = b.load(t, best)
                better = _better(b, dtype, w, y, old, self.largest)
                b.store(t, b.select(t, better, y, old), best)
                here = b.splat(ints, b.emit(f"trunc i64 {j} to i32"))
                here = b.emit(f"add {ints} {here}, {lanes}")
                b.store(ints, b.select(ints, better, here, b.load(ints, where)), where)
            y, i = b.load(t, best), b.load(ints, where)
            width = w
            while width > 1:
                width //= 2
                low, high = range(width), range(width, 2 * width)
                full, wide = ty(dtype, 2 * width), vector("i32", 2 * width)
                y0, y1 = (f.b.shuffled(full, y, "poison", part) for part in (low, high))
                i0, i1 = (f.b.shuffled(wide, i, "poison", part) for part in (low, high))
                y, i = self._chosen(b, dtype, width, (y0, i0), (y1, i1))
            y = b.emit(f"extractelement <1 x {LLVM_TYPES[dtype]}> {y}, i64 0")
            i = b.emit(f"extractelement <1 x i32> {i}, i64 0")
            if self.parts:
                b.store(LLVM_TYPES[dtype], y, f.item(others[0], u, itemsize(dtype)), 1)
                b.store("i32", i, f.item(others[1], u, 4), 1)
            else:
                at = f.item(others[0], u, itemsize(self.integer))
                index_stored(f, i, 1, self.integer, at, "")
        return f.finished(name)

    def _chosen(self, b: Builder, dtype: str, width: int, first: tuple[str, str],
                second: tuple[str, str]) -> tuple[str, str]:  # fmt: skip
        """The better of two, of equal ones that at the lower position."""
        t, ints, masks = (f"<{width} x {s}>" for s in (LLVM_TYPES[dtype], "i32", "i1"))

        def better(x: str, y: str) -> str:
            if dtype in FLOATS:
                above = b.fcmp("ugt" if self.largest else "ult", t, x, y)
                return b.binary("and", masks, above, b.fcmp("ord", t, y, y))
            sign = "s" if dtype in SIGNED else "u"
            return b.icmp(f"{sign}{'gt' if self.largest else 'lt'}", t, x, y)

        (y0, i0), (y1, i1) = first, second
        earlier = b.icmp("ult", ints, i1, i0)
        not_worse = b.binary("xor", masks, better(y0, y1), "splat (i1 true)")
        take = b.binary("or", masks, better(y1, y0), b.binary("and", masks, not_worse, earlier))
        return (
            b.emit(f"select {masks} {take}, {t} {y1}, {t} {y0}"),
            b.emit(f"select {masks} {take}, {ints} {i1}, {ints} {i0}"),
        )


class ArgumentOfParts(NamedTuple):
    """The position of each line's extreme from those of its pieces.

    Pointers: values, positions, out. Domain: lines. Descriptor: pieces.
    """

    dtype: str
    largest: bool
    integer: str

    def text(self, name: str) -> str:
        f = LineWriter()
        b, dtype = f.b, computed(self.dtype)
        t = ty(dtype, 1)
        (pieces,) = f.numbers(1)
        values, positions, out = f.pointers(3)
        with f.loop("%begin", "%end") as line:
            first = f.mul(line, pieces)
            best = f.variable(t, b.load(t, f.item(values, first, itemsize(dtype)), 1))
            where = f.variable("i32", b.load("i32", f.item(positions, first, 4), 1))
            with f.loop("1", pieces) as p:
                at = f.add(first, p)
                y = b.load(t, f.item(values, at, itemsize(dtype)), 1)
                old = b.load(t, best)
                better = _better(b, dtype, 1, y, old, self.largest)
                b.store(t, b.select(t, better, y, old), best)
                here = b.load("i32", f.item(positions, at, 4), 1)
                b.store("i32", b.select("i32", better, here, b.load("i32", where)), where)
            at = f.item(out, line, itemsize(self.integer))
            index_stored(f, b.load("i32", where), 1, self.integer, at, "")
        return f.finished(name)
