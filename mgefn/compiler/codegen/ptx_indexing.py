"""Elements read from computed places, and combined with what lies at such, on a GPU.

A thread takes elements of the output, or of the updates, with the stride of the whole grid. Where
one lies is the sum of steps along the dimensions and, for each column of the indices, of a position
that is read. Updates are combined by atomics: sums of floats are rounded in the order in which
threads come, which differs from run to run; all else is exact.

Numbers, behind the count of elements: for each dimension its size and three strides in bytes, in
what lies in order (output or updates), in what the indices point into, and in the indices; for each
column where it begins behind the first, the greatest start of a window, and the stride of its
dimension.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mgefn.compiler.codegen.builder import Module
from mgefn.compiler.codegen.parts import Loop
from mgefn.compiler.codegen.ptx import THREADS, DeviceBuilder
from mgefn.compiler.codegen.values import FLOATS, SIGNED, UNSIGNED, itemsize, ty


class _Walk:
    """A kernel's loop over elements; pointers: in order, pointed into, indices."""

    def __init__(self, rank: int, columns: int, index: str, check: bool, wide: bool):
        self.b = DeviceBuilder(Module())
        self.index, self.check, self.wide = index, check, wide
        self.total = 1 + 4 * rank + 3 * columns
        numbers = iter(f"%n{i}" for i in range(self.total))
        self.count = next(numbers)
        rows = [[next(numbers) for _ in range(4)] for _ in range(rank)]
        self.sizes, *self.strides = zip(*rows, strict=True)
        self.columns = [[next(numbers) for _ in range(3)] for _ in range(columns)]

    def text(self, name: str, pointers: int, each: Callable[[str, str, str], None]) -> str:
        """The module; `each` gets the pointers of an element and whether its window is inside."""
        b = self.b
        counter = b.emit("alloca i64")
        threads, block = b.special("ntid.x"), b.special("ctaid.x")
        first = b.emit(f"add i64 {b.emit(f'mul i64 {block}, {threads}')}, {b.special('tid.x')}")
        step = b.emit(f"mul i64 {threads}, {b.special('nctaid.x')}")
        with Loop(b, counter, first, self.count, step) as i:
            indices = b.coordinates(i, self.sizes[1:], self.wide)
            places = []
            for pointer, steps in zip(("%p0", "%p1", "%p2"), self.strides, strict=True):
                for index, stride in zip(indices, steps, strict=True):
                    pointer = b.offset(pointer, b.emit(f"mul i64 {index}, {stride}"))
                places.append(pointer)
            ordered, pointed, at = places
            inside = "true"
            for begin, top, stride in self.columns:
                position, within = self._position(b.offset(at, begin), top)
                inside = b.emit(f"and i1 {inside}, {within}")
                pointed = b.offset(pointed, b.emit(f"mul i64 {position}, {stride}"))
            each(ordered, pointed, inside)
        return b.finished(name, pointers, self.total, False, THREADS)

    def _position(self, pointer: str, top: str) -> tuple[str, str]:
        """Where a window starts, and whether it lies inside."""
        b, t, signed = self.b, ty(self.index, 1), self.index not in UNSIGNED
        x = b.load(t, pointer, itemsize(self.index))
        x = b.cast("sext" if signed else "zext", x, t, "i64")
        if self.check:
            return x, b.icmp("ule", "i64", x, top)
        if signed:
            x = b.call_intrinsic("smax", "i64", x, "0")
        return b.call_intrinsic("umin", "i64", x, top), "true"


class GatherCopy(NamedTuple):
    """A kernel that reads; pointers: output, operand, indices, and a value for what lies outside.

    Attributes:
        nbytes: of an element, 1, 2, 4, 8 or 16.
        positions: dtype of the indices.
        rank: dimensions of the output.
        columns: of the indices.
        check: has a window that leaves the operand the value? Else it is moved inside.
        wide: do numbers of elements need 64 bits?
    """

    nbytes: int
    positions: str
    rank: int
    columns: int
    check: bool
    wide: bool

    @property
    def most_threads(self) -> int:
        return THREADS

    def text(self, name: str) -> str:
        walk = _Walk(self.rank, self.columns, self.positions, self.check, self.wide)
        b, t = walk.b, "i64" if self.nbytes == 16 else f"i{8 * self.nbytes}"
        words = range(0, self.nbytes, min(self.nbytes, 8))

        def each(target: str, source: str, inside: str) -> None:
            if self.check:
                source = b.select("ptr", inside, source, "%p3")
            for w in words:
                x = b.load(t, b.offset(source, str(w)), min(self.nbytes, 8))
                b.store(t, x, b.offset(target, str(w)), min(self.nbytes, 8))

        return walk.text(name, 4, each)


class ScatterAtomic(NamedTuple):
    """A kernel that combines; pointers: updates, target, indices.

    Attributes:
        op: sum, min or max; of floats only sum.
        dtype: of the target and the updates.
        rank: dimensions of the updates.
        positions, columns, check, wide: as of GatherCopy, but a window that leaves is dropped.
    """

    op: str
    dtype: str
    positions: str
    rank: int
    columns: int
    check: bool
    wide: bool

    @property
    def most_threads(self) -> int:
        return THREADS

    def text(self, name: str) -> str:
        walk = _Walk(self.rank, self.columns, self.positions, self.check, self.wide)
        b = walk.b
        t = "i8" if self.dtype == "bool" else ty(self.dtype, 1)

        def each(source: str, target: str, inside: str) -> None:
            with b.when(inside):
                x = b.load(t, source, itemsize(self.dtype))
                b.emit(f"atomicrmw {self._operation()} ptr {target}, {t} {x} monotonic")

        return walk.text(name, 3, each)

    def _operation(self) -> str:
        if self.op == "sum":
            return "fadd" if self.dtype in FLOATS else "or" if self.dtype == "bool" else "add"
        if self.dtype == "bool":
            return "or" if self.op == "max" else "and"
        return self.op if self.dtype in SIGNED else f"u{self.op}"
