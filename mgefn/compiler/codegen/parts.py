"""Pieces of kernels that are written by hand: the descriptor, loops, masked vectors in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from mgefn.compiler.codegen.builder import METADATA, Builder, Module, vector
from mgefn.compiler.codegen.loops import ARGUMENTS, ATTRIBUTES


class Numbers:
    """The numbers of the descriptor, in order."""

    def __init__(self, b: Builder):
        self.b = b
        self.at = 0

    def take(self, count: int) -> list[str]:
        out = []
        for _ in range(count):
            out.append(self.b.load("i64", self.b.offset("%desc", str(8 * self.at)), 8))
            self.at += 1
        return out

    def one(self) -> str:
        return self.take(1)[0]


class Loop:
    """for i in [start, stop): a counter on the stack, made in the entry block. Use as a context."""

    def __init__(self, b: Builder, counter: str, start: str, stop: str, step: str = "1"):
        self.b, self.counter, self.start, self.stop, self.step = b, counter, start, stop, step

    def __enter__(self) -> str:
        b = self.b
        self.head, body, self.done = b.label("head"), b.label("body"), b.label("done")
        b.store("i64", self.start, self.counter)
        b.br(self.head)
        b.place(self.head)
        self.i = b.load("i64", self.counter)
        b.cond_br(b.icmp("slt", "i64", self.i, self.stop), body, self.done)
        b.place(body)
        return self.i

    def __exit__(self, *exception: object) -> None:
        b = self.b
        b.store("i64", b.emit(f"add i64 {self.i}, {self.step}"), self.counter)
        b.br(self.head)
        b.place(self.done)


class Memory:
    """Masked vectors of one type in memory, contiguous or with a stride."""

    def __init__(self, b: Builder, scalar: str, width: int, size: int):
        self.b, self.scalar, self.width, self.size = b, scalar, width, size
        self.t = vector(scalar, width)
        self.mask_type = f"<{width} x i1>"

    def lanes(self) -> str:
        """0, 1, 2, ... as i64."""
        return "<" + ", ".join(f"i64 {i}" for i in range(self.width)) + ">"

    def mask(self, left: str) -> str:
        """Lanes below `left`, an i64 of any sign."""
        b, w = self.b, self.width
        low = b.call_intrinsic("smax", "i64", left, "0")
        few = b.emit(f"trunc i64 {b.call_intrinsic('smin', 'i64', low, str(w))} to i32")
        lanes = "<" + ", ".join(f"i32 {i}" for i in range(w)) + ">"
        return b.icmp("ult", f"<{w} x i32>", lanes, b.splat(f"<{w} x i32>", few))

    def spread(self, pointer: str, stride: str) -> str:
        """Addresses `stride` bytes apart."""
        b, many = self.b, f"<{self.width} x i64>"
        offsets = b.emit(f"mul {many} {self.lanes()}, {b.splat(many, stride)}")
        return self.moved(pointer, offsets)

    def moved(self, pointer: str, offsets: str) -> str:
        return self.b.emit(f"getelementptr i8, ptr {pointer}, <{self.width} x i64> {offsets}")

    def load(self, pointer: str, mask: str, other: str = "zeroinitializer") -> str:
        return self.b.masked_load(self.t, pointer, mask, self.size, other)

    def store(self, x: str, pointer: str, mask: str) -> None:
        self.b.masked_store(self.t, x, pointer, mask, self.size)

    def gather(self, pointers: str, mask: str, other: str = "zeroinitializer") -> str:
        return self.b.masked_load(self.t, pointers, mask, self.size, other, many=True)

    def scatter(self, x: str, pointers: str, mask: str) -> None:
        self.b.masked_store(self.t, x, pointers, mask, self.size, many=True)


def transposed(b: Builder, t: str, rows: Sequence[str]) -> list[str]:
    """As many vectors of type t as one has elements, turned: ever smaller squares change places."""
    out, n = list(rows), len(rows)
    half = n // 2
    while half:
        low = [j if not j & half else n + j - half for j in range(n)]
        high = [j + half if not j & half else n + j for j in range(n)]
        for i in range(n):
            if not i & half:
                x, y = out[i], out[i + half]
                out[i], out[i + half] = (b.shuffled(t, x, y, side) for side in (low, high))
        half //= 2
    return out


def pointers(b: Builder, count: int) -> list[str]:
    return [b.load("ptr", b.offset("%ptrs", str(8 * i)), 8) for i in range(count)]


def coordinates(b: Builder, unit: str, sizes: Sequence[str]) -> list[str]:
    """A number taken apart into coordinates, the last of which moves first."""
    out: list[str] = []
    for i, n in enumerate(reversed(sizes)):
        if i == len(sizes) - 1:
            out.append(unit)
            break
        out.append(b.emit(f"urem i64 {unit}, {n}"))
        unit = b.emit(f"udiv i64 {unit}, {n}")
    return out[::-1]


def walked(b: Builder, start: str, at: Sequence[str], strides: Sequence[str]) -> str:
    """A pointer moved by coordinates times strides."""
    for i, s in zip(at, strides, strict=True):
        start = b.offset(start, b.emit(f"mul i64 {i}, {s}"))
    return start


def finished(b: Builder, name: str) -> str:
    """The text of a module whose kernel ends here."""
    b.do("ret void")
    b.function(name, "void", ARGUMENTS, ATTRIBUTES)
    return b.module.text() + "\n" + METADATA


class Writer:
    """A kernel's function: loops, and variables on the stack, which its entry block makes."""

    def __init__(self) -> None:
        self.module = Module()
        self.b = Builder(self.module)
        self.allocas: list[str] = []

    def finished(self, name: str) -> str:
        """The text of a module whose kernel ends here."""
        self.b.lines[:0] = self.allocas
        return finished(self.b, name)

    def alloca(self, t: str) -> str:
        name = self.b.name()
        self.allocas.append(f"  {name} = alloca {t}")
        return name

    @contextmanager
    def loop(self, start: str, stop: str, step: str | int = 1) -> Iterator[str]:
        """for i from start on below stop."""
        with Loop(self.b, self.alloca("i64"), start, stop, str(step)) as i:
            yield i

    def add(self, x: str, y: str | int) -> str:
        return self.b.emit(f"add i64 {x}, {y}")

    def sub(self, x: str, y: str | int) -> str:
        return self.b.emit(f"sub i64 {x}, {y}")

    def mul(self, x: str, y: str | int) -> str:
        return self.b.emit(f"mul i64 {x}, {y}")
