"""What native steps are made of: calls of kernels, copies, and loops and branches around them.

Memory is named by a root and an offset in bytes. A root is a variable of the program, `Scratch`
memory of the step, a `Fixed` array that belongs to the code, a block in the slab of an inner
program (`Inside`), or a pointer that a loop moves (`Moving`). Instructions nest as the control
flow of the user's program does; native.py writes them as code of the machine in runtime.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from mgefn.core.jaxpr import Eqn, Var


class Place(NamedTuple):
    """Where an array lies in memory: a root, an offset and strides in bytes."""

    root: Any
    offset: int
    strides: tuple[int, ...]


Spot = tuple[Any, int]  # (root, offset in bytes)


class Scratch(NamedTuple):
    """Memory of a step's own, by number."""

    number: int


class Inside(NamedTuple):
    """A place in the slab of an inner program."""

    offset: int


class Fixed:
    """An array that lives as long as the code."""

    __slots__ = ("__weakref__", "array")

    def __init__(self, array: np.ndarray):
        self.array = np.array(array, order="C")


class Moving:
    """A pointer that starts at a spot and goes on by `stride` bytes with each round of its loop."""

    __slots__ = ("start", "stride")

    def __init__(self, start: Spot, stride: int):
        self.start = start
        self.stride = stride


class Call(NamedTuple):
    """A kernel over [0, count) of its domain, in chunks where `chunk` is not 0.

    `kernel` is hashable, and its text decides the code: see native.text_of. `slots` name the memory
    of its accesses in order, `numbers` are its descriptor.
    """

    kernel: Any
    slots: tuple[Spot, ...]
    numbers: tuple[int, ...]
    count: int  # type: ignore[assignment]  # hides the method of tuples
    chunk: int


class Copy(NamedTuple):
    """Bytes from one spot to another."""

    target: Spot
    source: Spot
    nbytes: int


class Repeat:
    """`first` and `second` by turns, `count` times in all; `moving` are the pointers it moves."""

    __slots__ = ("count", "first", "moving", "second")

    def __init__(
        self, count: int, first: Sequence[Any], second: Sequence[Any], moving: Sequence[Moving]
    ):
        self.count = count
        self.first = list(first)
        self.second = list(second)
        self.moving = list(moving)


class While:
    """`first` and `second` by turns, as long as the bool at `test` is true.

    `before` runs once and sets it. `after_first` runs when the loop ends behind `first`.
    """

    __slots__ = ("after_first", "before", "first", "second", "test")

    def __init__(self, test: Spot, before: Sequence[Any], first: Sequence[Any],
                 second: Sequence[Any], after_first: Sequence[Any]):  # fmt: skip
        self.test = test
        self.before = list(before)
        self.first = list(first)
        self.second = list(second)
        self.after_first = list(after_first)


class Switch:
    """The branch that the i32 at `index` names, clamped to those there are."""

    __slots__ = ("branches", "index")

    def __init__(self, index: Spot, branches: Sequence[Sequence[Any]]):
        self.index = index
        self.branches = [list(b) for b in branches]


def remapped(instruction: Any, spot: Callable[[Spot], Spot], moved: dict[Moving, Moving]) -> Any:
    """An instruction with its roots replaced."""

    def at(s: Spot) -> Spot:
        root, offset = s
        if root.__class__ is Moving:
            if root not in moved:
                moved[root] = Moving(at(root.start), root.stride)
            return moved[root], offset
        return spot(s)

    def all_of(instructions: Sequence[Any]) -> list[Any]:
        return [remapped(i, spot, moved) for i in instructions]

    if instruction.__class__ is Call:
        return instruction._replace(slots=tuple([at(s) for s in instruction.slots]))
    if instruction.__class__ is Copy:
        return Copy(at(instruction.target), at(instruction.source), instruction.nbytes)
    if instruction.__class__ is Repeat:
        first, second = all_of(instruction.first), all_of(instruction.second)
        moving = [at((m, 0))[0] for m in instruction.moving]
        return Repeat(instruction.count, first, second, moving)
    if instruction.__class__ is Switch:
        return Switch(at(instruction.index), [all_of(b) for b in instruction.branches])
    i = instruction
    return While(
        at(i.test), all_of(i.before), all_of(i.first), all_of(i.second), all_of(i.after_first)
    )


class NativeStep:
    """A step that runs natively.

    Attributes:
        code: instructions in order.
        scratch: sizes in bytes of its own memory, by number.
        inputs: variables it reads, each contiguous in memory.
        outputs: variables it makes, contiguous too.
        in_place: number of an output -> numbers of inputs whose block it may take.
        label: what it does, for people.
        sources: the user's lines that it is made of, each once; empty where the equation's is all.
        flops, moved: arithmetic operations; bytes read and written.
    """

    __slots__ = (
        "code", "flops", "in_place", "inputs", "label", "moved", "outputs", "scratch", "sources",
    )  # fmt: skip

    def __init__(
        self, code: Sequence[Any], inputs: Sequence[Var], outputs: Sequence[Var], label: str, *,
        scratch: Sequence[int] = (), in_place: dict[int, tuple[int, ...]] | None = None,
        flops: float = 0.0, moved: int = 0, sources: Sequence[Any] = (),
    ):  # fmt: skip
        self.sources = list(sources)
        self.code = list(code)
        self.scratch = list(scratch)
        self.inputs = list(inputs)
        self.outputs = list(outputs)
        self.in_place = in_place or {}
        self.label = label
        self.flops = flops
        self.moved = moved


class Lowered:
    """A row of the native table: lower(eqn, places) -> NativeStep, or None where it can't.

    Args:
        lower: the places are those of the operands; outputs are the equation's variables, each
            contiguous.
        dense: are all operands to be contiguous? Else they come with whatever strides they have.
    """

    def __init__(
        self, lower: Callable[[Eqn, Sequence[Place]], NativeStep | None], dense: bool = True
    ):
        self.lower = lower
        self.dense = dense


class Expanded:
    """A row of the native table: expand(eqn) -> equations that do the same, or None."""

    def __init__(self, expand: Callable[[Eqn], list[Eqn] | None]):
        self.expand = expand


def roots_of(places: Sequence[Place]) -> list[Var]:
    """The variables among the roots, each once."""
    return list(dict.fromkeys(p.root for p in places if isinstance(p.root, Var)))


SERIAL = 30e3  # nanoseconds of work below which threads do not help
PIECE = 15e3  # nanoseconds that are worth handing to a thread
MOST_CHUNKS = 64


def chunk_of(
    count: int, nanoseconds: float, most: int = MOST_CHUNKS, grain: int = 1, piece: float = PIECE
) -> int:
    """Units of a domain that a thread takes, a multiple of `grain`; 0 where threads do not pay.

    It depends on the work alone, never on the number of threads.
    """
    if nanoseconds < SERIAL or count <= grain:
        return 0
    chunk = -(-count // max(2, min(most, int(nanoseconds / piece))))
    chunk = -(-chunk // grain) * grain
    return 0 if chunk >= count else chunk
