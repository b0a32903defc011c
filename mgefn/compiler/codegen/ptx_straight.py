"""Loops over few numbers as one launch on a GPU: the straight-line code of a thread.

The text is that of codegen.straight with one element at a time: a vector is nothing that a thread
has. Either one thread computes the loop, or each of many the loop of an element that is its own.
Rounds and strides are run-time numbers, which come in memory with the constants.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from mgefn.compiler.codegen.builder import Module
from mgefn.compiler.codegen.ptx import THREADS, WARP, DeviceBuilder
from mgefn.compiler.codegen.straight import HEAVY, KERNEL, Emit, Unfit, Value, Writer

MOST_POINTERS = 400  # arguments of 8 bytes; there may be 4096 bytes of them
LIGHT = HEAVY / 2  # cost, in a Writer's unit, that counts as that of a costly operation


class DeviceLoop(NamedTuple):
    """The text of a loop's kernel, whose function is named KERNEL in it.

    Attributes:
        source: the text.
        most_threads: of a block.
    """

    source: str
    most_threads: int

    def text(self, name: str) -> str:
        return self.source.replace(f"@{KERNEL}(", f"@{name}(")


class DeviceWriter(Writer):
    """Writes the kernel of a loop.

    Args:
        own: numbers of the caller's at the head of the descriptor: the first round, the last, ...
        most: instructions that it may have.
    """

    b: DeviceBuilder

    def __init__(self, own: int, most: int):
        super().__init__(1, most)
        self.b = DeviceBuilder(Module())
        self.numbers = [0] * own
        for i, name in enumerate(("begin", "end")):
            self.b.do(f"%{name} = {self._load_of(i)}")

    def _load_of(self, i: int) -> str:
        return f"load i64, ptr {self.b.offset('%desc', str(8 * i))}, align 8"

    def number(self, i: int) -> str:
        """One of the caller's numbers."""
        return self.b.emit(self._load_of(i))

    def pointer(self, slot: Any) -> str:
        if slot not in self._pointer_of:
            if len(self.slots) == MOST_POINTERS:
                raise Unfit
            self._pointer_of[slot] = f"%p{len(self.slots)}"
            self.slots.append(slot)
        return self._pointer_of[slot]

    def apply(self, emit: Emit, dtype: str, operands: Sequence[Value], cost: float = 1.0) -> Value:
        """The same; what is costly may be written for each element, up to the bound of them all."""
        before, less = self.work, min(cost, LIGHT)
        value = super().apply(emit, dtype, operands, less)
        self.work = before + (self.work - before) * cost / less
        return value

    @contextmanager
    def each(self, count: str) -> Iterator[str]:
        """What is written within is the loop of each thread below a count; gives its number."""
        b = self.b
        threads, block = b.special("ntid.x"), b.special("ctaid.x")
        thread = b.emit(f"add i64 {b.emit(f'mul i64 {block}, {threads}')}, {b.special('tid.x')}")
        inside, after = b.label("inside"), b.label("after")
        b.cond_br(b.icmp("slt", "i64", thread, count), inside, after)
        b.place(inside)
        yield thread
        b.br(after)
        b.place(after)

    def finished(self, many: bool) -> DeviceLoop:
        """The kernel, of one thread or of `many`."""
        most = THREADS if many else WARP
        return DeviceLoop(self.b.finished(KERNEL, len(self.slots), 0, True, most), most)
