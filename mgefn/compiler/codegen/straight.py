"""Loops over few numbers as one function: straight-line code, a round after the other.

The elements of a value are references: constants, scalars, or lanes of vectors. What moves elements
is no code, only other references; an operation packs those that it reads into vectors where there
are enough of them, and finds that most are there already. Carries are phis, so they stay in
registers; what does not change from round to round is computed once, before the loop. Shapes are
part of the code, and so is the order of every sum.

A function runs the rounds [begin, end): it reads the carry from memory when it begins, and leaves
it there. A long loop is called in pieces, so that others may have the interpreter between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from mgefn.compiler.codegen.builder import Builder, Module, number
from mgefn.compiler.codegen.loops import from_memory, stored, to_memory
from mgefn.compiler.codegen.parts import finished
from mgefn.compiler.codegen.values import FLOATS, LLVM_TYPES, SIGNED, held, itemsize, ty
from mgefn.compiler.kernel import bits_of_constant

Ref = tuple[str, int]  # the name of a scalar or a constant and -1, or that of a vector and a lane
Emit = Callable[[Builder, int, Sequence[str]], str]  # (b, width, operands) -> result

VECTOR = 4  # elements from which an operation is one on vectors
PART = 2  # the same for what is left after whole vectors
HEAVY = 8.0  # cost of an operation from which two elements are enough
MOST_HEAVY = 4  # vectors of such an operation, beyond which its code is better written once
BAKED = (0.0, 1.0, -1.0, 2.0, 0.5)  # floats that are part of the code


class Straight(NamedTuple):
    """A loop as the text of its function, which is named KERNEL in it.

    Pointers and descriptor are as the text has them: `Writer.slots`, `Writer.numbers`. The domain
    counts rounds.
    """

    source: str

    def text(self, name: str) -> str:
        return self.source.replace(f"@{KERNEL}(", f"@{name}(")


KERNEL = "straight"


class Unfit(Exception):
    """A program is no straight-line code, or too much of it."""


class Value(NamedTuple):
    """The elements of an array in row-major order."""

    dtype: str
    refs: list[Ref]


class Writer:
    """Writes the function of a loop.

    Args:
        vector_bytes: of a register.
        most: instructions that it may have, vectors counted twice; more raise Unfit.

    Attributes:
        slots: what each pointer points to, in the words of the caller.
        numbers: the descriptor, which are constants.
    """

    def __init__(self, vector_bytes: int, most: int):
        self.b = Builder(Module())
        self.vector_bytes = vector_bytes
        self.most = most
        self.slots: list[Any] = []
        self.numbers: list[int] = []
        self.work = 0.0  # cost of all operations of a round, element by element
        self._pointer_of: dict[Any, str] = {}
        self._constant_of: dict[tuple[str, int], str] = {}
        self._width: dict[str, int] = {}  # of vectors
        self._fixed: set[str] = set()  # what is made before the loop
        self._packs: dict[tuple[str, int, tuple[Ref, ...]], str] = {}
        self._before: tuple[list[str], str] | None = None  # lines and block, once in the loop
        self._first: list[list[tuple[str, int, int, str]]] = []  # what the phis start from
        self._carry: list[Value] = []
        self.head = ""  # the label of the loop

    # -- where code goes ------------------------------------------------------------------------

    @contextmanager
    def _ahead(self, fixed: bool = True) -> Iterator[None]:
        """Write before the loop, where `fixed`."""
        b = self.b
        if not fixed or self._before is None:
            yield
            return
        here = b.lines, b.block
        (b.lines, b.block), self._before = self._before, None
        try:
            yield
        finally:
            self._before = b.lines, b.block
            b.lines, b.block = here

    def _named(self, name: str, fixed: bool, width: int = 1) -> str:
        if fixed:
            self._fixed.add(name)
        if width > 1:
            self._width[name] = width
        if len(self.b.lines) + len(self._width) > self.most:
            raise Unfit
        return name

    def _is_fixed(self, refs: Sequence[Ref]) -> bool:
        return self._before is None or all(n[0] != "%" or n in self._fixed for n, _ in refs)

    # -- constants and memory -------------------------------------------------------------------

    def constant(self, dtype: str, value: Any) -> Ref:
        """A number. Most floats come with the call, so that another one needs no other code."""
        t = LLVM_TYPES[dtype]
        plain = dtype not in FLOATS and held(dtype) == dtype
        if plain or value != value or abs(value) == float("inf"):
            return number(t, value), -1
        if value in BAKED and not str(value).startswith("-0"):
            return number(t, value), -1
        bits = bits_of_constant(value, dtype)
        key = (t, bits)
        if key not in self._constant_of:
            with self._ahead():
                b = self.b
                x = b.load("double", b.offset("%desc", str(8 * len(self.numbers))), 8)
                if t != "double":
                    x = b.emit(f"fptrunc double {x} to {t}")
                self._constant_of[key] = self._named(x, True)
            self.numbers.append(bits)
        return self._constant_of[key], -1

    def pointer(self, slot: Any) -> str:
        """The pointer to what the caller calls `slot`."""
        if slot not in self._pointer_of:
            with self._ahead():
                at = self.b.offset("%ptrs", str(8 * len(self.slots)))
                self._pointer_of[slot] = self.b.load("ptr", at, 8)
            self.slots.append(slot)
        return self._pointer_of[slot]

    def _pieces(self, dtype: str, count: int) -> Iterator[tuple[int, int]]:
        """(first element, width) of vectors of whole powers of two that cover `count` elements."""
        most = self._most_lanes(dtype)
        at = 0
        while at < count:
            width = 1
            if count >= VECTOR and most > 1:
                width = min(most, 1 << (count - at).bit_length() - 1)
            if width < PART:
                width = 1
            yield at, width
            at += width

    def load(
        self, pointer: str, dtype: str, count: int, fixed: bool = False, begin: int = 0
    ) -> Value:
        """An array in memory, from an element on; `fixed`: it is the same in all rounds."""
        b, refs = self.b, []
        with self._ahead(fixed):
            for at, width in self._pieces(dtype, count):
                size = itemsize(dtype)
                first = (begin + at) * size
                p = b.offset(pointer, str(first)) if first else pointer
                x = from_memory(b, dtype, width, b.load(stored(dtype, width), p, size))
                self._named(x, fixed or self._before is None, width)
                refs += [(x, i) for i in range(width)] if width > 1 else [(x, -1)]
        return Value(dtype, refs)

    def store(self, pointer: str, value: Value) -> None:
        b, dtype = self.b, value.dtype
        size = itemsize(dtype)
        for at, width in self._pieces(dtype, len(value.refs)):
            x = self.packed(dtype, value.refs[at : at + width], width)
            p = b.offset(pointer, str(at * size)) if at else pointer
            b.store(stored(dtype, width), to_memory(b, dtype, width, x), p, size)

    # -- vectors --------------------------------------------------------------------------------

    def _most_lanes(self, *dtypes: str) -> int:
        # At least 4 bytes each, so that what decides about floats has as many lanes as they have.
        return max(1, self.vector_bytes // max(4, *(itemsize(held(d)) for d in dtypes)))

    def _groups(self, dtypes: Sequence[str], count: int, least: int) -> list[tuple[int, int, int]]:
        """(first element, elements, width) of the vectors and scalars that hold `count`."""
        most = self._most_lanes(*dtypes)
        out: list[tuple[int, int, int]] = []
        for at in range(0, count, most):
            n = min(most, count - at)
            if count < least or n < min(PART, least):
                out += [(at + i, 1, 1) for i in range(n)]
            else:
                out.append((at, n, 1 << (n - 1).bit_length()))
        return out

    def scalar(self, dtype: str, ref: Ref) -> str:
        """An element by itself."""
        name, lane = ref
        if lane < 0:
            return name
        key = (dtype, 1, (ref,))
        if key not in self._packs:
            fixed = name in self._fixed
            with self._ahead(fixed):
                t = ty(dtype, self._width[name])
                x = self.b.emit(f"extractelement {t} {name}, i64 {lane}")
                self._packs[key] = self._named(x, fixed or self._before is None)
        return self._packs[key]

    def packed(self, dtype: str, refs: Sequence[Ref], width: int) -> str:
        """A vector of these elements; a scalar for a width of 1.

        Lanes behind them hold some of them again, or what follows them in the vector they are from:
        never poison, with which a branch or a division would be undefined.
        """
        if width == 1:
            return self.scalar(dtype, refs[0])
        first = refs[0][0]
        if self._width.get(first) == width and all(r == (first, i) for i, r in enumerate(refs)):
            return first
        refs = [*refs, *[refs[-1]] * (width - len(refs))]
        if all(n[0] != "%" for n, _ in refs):
            one = LLVM_TYPES[dtype]
            return "<" + ", ".join(f"{one} {n}" for n, _ in refs) + ">"
        key = (dtype, width, tuple(refs))
        if key not in self._packs:
            fixed = self._is_fixed(refs)
            with self._ahead(fixed):
                x = self._pack(dtype, refs, width)
                self._packs[key] = self._named(x, fixed, width)
        return self._packs[key]

    def _pack(self, dtype: str, refs: Sequence[Ref], width: int) -> str:
        b, t, one = self.b, ty(dtype, width), LLVM_TYPES[dtype]
        if all(r == refs[0] for r in refs) and refs[0][1] < 0:
            return b.splat(t, refs[0][0])
        vectors = list(dict.fromkeys(n for n, lane in refs if lane >= 0))
        scalars = [i for i, (n, lane) in enumerate(refs) if lane < 0 and n[0] == "%"]
        sizes = {self._width[v] for v in vectors}
        if len(vectors) <= 2 and len(sizes) == 1 and all(lane >= 0 for _, lane in refs):
            shift = {v: i * self._width[v] for i, v in enumerate(vectors)}
            wide = ty(dtype, self._width[vectors[0]])
            other = vectors[1] if len(vectors) == 2 else "poison"
            return self.b.shuffled(wide, vectors[0], other, [shift[n] + i for n, i in refs])
        # Numbers first, then what lies in vectors, each put to its lanes, then single elements.
        x = "<" + ", ".join(f"{one} {n if n[0] != '%' else number(one, 0)}" for n, _ in refs) + ">"
        for v in vectors:
            lanes = [i if n == v else -1 for n, i in refs]
            placed = self.b.shuffled(ty(dtype, self._width[v]), v, "poison", lanes)
            lanes = [width + i if n == v else i for i, (n, _) in enumerate(refs)]
            x = self.b.shuffled(t, x, placed, lanes)
        for i in scalars:
            x = b.emit(f"insertelement {t} {x}, {one} {refs[i][0]}, i64 {i}")
        return x

    # -- operations -----------------------------------------------------------------------------

    def apply(self, emit: Emit, dtype: str, operands: Sequence[Value], cost: float = 1.0) -> Value:
        """An operation on each element; operands of one element stand for as many as there are."""
        count = max(len(x.refs) for x in operands)
        columns = [x.refs if len(x.refs) == count else x.refs * count for x in operands]
        tuples = list(zip(*columns, strict=True))
        unique = list(dict.fromkeys(tuples))  # what is the same everywhere is computed once
        dtypes = [dtype, *(x.dtype for x in operands)]
        self.work += cost * len(unique)
        found: dict[tuple[Ref, ...], Ref] = {}
        fixed = self._is_fixed([r for row in unique for r in row])
        groups = self._groups(dtypes, len(unique), 2 if cost >= HEAVY else VECTOR)
        if cost >= HEAVY and len(groups) > MOST_HEAVY:
            raise Unfit
        for at, n, width in groups:
            rows = unique[at : at + n]
            names = [
                self.packed(x.dtype, [row[i] for row in rows], width)
                for i, x in enumerate(operands)
            ]
            with self._ahead(fixed):
                x = self._named(emit(self.b, width, names), fixed, width)
            if width == 1:
                found[rows[0]] = (x, -1)
            else:
                found.update({row: (x, i) for i, row in enumerate(rows)})
        return Value(dtype, [found[row] for row in tuples])

    def index(self, dtype: str, values: Sequence[int]) -> Value:
        """Whole numbers as constants."""
        return Value(dtype, [(number(LLVM_TYPES[dtype], v), -1) for v in values])

    # -- the loop -------------------------------------------------------------------------------

    def _carried(self, carry: Sequence[Value]) -> list[list[tuple[str, int, int, str]]]:
        """For each value its phis: type, elements, width, and what it is now."""
        return [
            [
                (ty(v.dtype, width), n, width, self.packed(v.dtype, v.refs[at : at + n], width))
                for at, n, width in self._groups([v.dtype], len(v.refs), VECTOR)
            ]
            for v in carry
        ]

    def begin(self, carry: Sequence[Value]) -> list[Value]:
        """Start the loop with this carry; gives the carry of a round, whose number is %round."""
        b = self.b
        self._first = self._carried(carry)
        self._before = b.lines, b.block
        b.lines = []
        self.head = b.label("loop")
        b.place(self.head)
        out: list[Value] = []
        for v, phis in zip(carry, self._first, strict=True):
            out.append(Value(v.dtype, []))
            for _, n, width, _ in phis:
                name = self._named(b.name(), False, width)
                out[-1].refs.extend([(name, i) for i in range(n)] if width > 1 else [(name, -1)])
        self._carry = out
        return out

    def follow(self, carry: Sequence[Value]) -> tuple[str, list[str]]:
        """The number of the next round and its carry, for `end`."""
        nexts = [x for phis in self._carried(carry) for _, _, _, x in phis]
        return self.b.emit("add i64 %round, 1"), nexts

    def end(self, following: tuple[str, list[str]], block: str) -> None:
        """The loop is written: its rounds are followed by this, from the end of that block."""
        assert self._before is not None
        lines, entry = self._before
        b = self.b
        number, nexts = following
        phis = [f"  %round = phi i64 [ %begin, %{entry} ], [ {number}, %{block} ]"]
        names = dict.fromkeys(n for v in self._carry for n, _ in v.refs)
        firsts = [x for group in self._first for x in group]
        for name, (t, _, _, first), new in zip(names, firsts, nexts, strict=True):
            phis.append(f"  {name} = phi {t} [ {first}, %{entry} ], [ {new}, %{block} ]")
        b.lines[1:1] = phis
        b.lines = [*lines, f"  br label %{self.head}", *b.lines]
        self._before = None

    @contextmanager
    def branch(self) -> Iterator[None]:
        """What is written within is not known to what comes after."""
        known = dict(self._packs)
        yield
        self._packs = known

    def finish(self) -> Straight:
        return Straight(finished(self.b, KERNEL))


def at_least(dtype: str, bound: int) -> Emit:
    """Is a whole number at least this one?"""

    def emit(b: Builder, width: int, names: Sequence[str]) -> str:
        t = ty(dtype, width)
        predicate = "sge" if dtype in SIGNED else "uge"
        return b.icmp(predicate, t, names[0], b.const(t, bound))

    return emit
