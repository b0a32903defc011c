"""Loops as single launches on a GPU, where a thread can hold what goes from round to round.

Two kinds of loops are so. Where the body is a few operations on a few numbers, one thread computes
it all: what the CPU's straight.py reads, written by codegen/ptx_straight.py. And where the body
works on arrays of one shape, element by element, each element is a thread's own: of a scan, and of
a `while` that goes on as long as any element does and leaves alone those that are done, as vmap
makes it. The carry stays in registers, slices of xs and ys are read and written where they lie, and
the host does not wait. A long scan is divided into launches in a row, as a device may refuse to be
busy with one launch for seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mgefn.backends.llvm_kernels import straight
from mgefn.backends.llvm_kernels.elementwise import Elementwise
from mgefn.backends.ptx_copies import BITS, copied
from mgefn.compiler.codegen.ptx import THREADS
from mgefn.compiler.codegen.ptx_straight import DeviceWriter
from mgefn.compiler.codegen.straight import Unfit, Value
from mgefn.compiler.codegen.values import held, itemsize
from mgefn.compiler.gpu_launch import Launch
from mgefn.compiler.native import dtype_name, row_of
from mgefn.compiler.passes import optimized
from mgefn.compiler.steps import Fixed, Lowered, NativeStep, Place, Scratch, Spot, roots_of
from mgefn.core.avals import contiguous_strides
from mgefn.core.device_array import DeviceArray
from mgefn.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var, subjaxprs

CARRIED = 64  # words of 32 bits that a carry takes at most, by a thread's registers
PIECE = 1 << 28  # instructions of a thread in one launch of a scan
MOST_PIECES = 64  # launches of a scan
ENDLESS = 1 << 62  # rounds of a `while`, which knows itself when to end


def _is_known(closed: ClosedJaxpr) -> bool:
    """Does the host know all constants? Code can't be made of what lies on a device."""
    for c in closed.consts:
        if isinstance(c, DeviceArray):
            return False
    for eqn in closed.jaxpr.eqns:
        if any(isinstance(a, Literal) and isinstance(a.value, DeviceArray) for a in eqn.inputs):
            return False
        if not all(_is_known(inner) for _, inner in subjaxprs(eqn.params)):
            return False
    return True


# -- one thread -----------------------------------------------------------------------------------


def _words(avals: Sequence[Any]) -> int:
    """32-bit registers."""
    return sum(a.size * max(1, itemsize(held(a.dtype.name)) // 4) for a in avals)


ONE_THREAD = straight.Target(
    lambda: DeviceWriter(2, straight.INSTRUCTIONS),
    lambda w: w.finished(False),
    lambda carry: _words(carry) <= CARRIED,
)


# -- a thread an element --------------------------------------------------------------------------


class Layout(NamedTuple):
    """How what a loop reads lies over its elements.

    Attributes:
        shape: of the elements.
        along: by slot, of what has other axes than these: for each of its axes that of `shape`.
        first: the number of the first of the sizes and strides among the writer's.
    """

    shape: tuple[int, ...]
    along: dict[Any, tuple[int, ...]]
    first: int

    def numbers(self, avals: Mapping[Any, Any]) -> list[int]:
        """Sizes of all axes but the first, and strides of each in `along`, for these types."""
        if not self.along:
            return []
        found = list(self.shape[1:])
        for slot, axes in self.along.items():
            aval = avals[slot]
            strides = contiguous_strides(aval.shape, aval.dtype.itemsize)
            found += [0 if n == 1 else s for n, s in zip(aval.shape, strides, strict=True)]
            assert len(strides) == len(axes)
        return found


class _Element(straight.Reader):
    """Writes a program of elementwise operations for one element of arrays of a shape.

    Attributes:
        thread: the number of the element, an i64.
    """

    w: DeviceWriter

    def __init__(self, w: DeviceWriter, layout: Layout):
        super().__init__(w)
        self.layout, self.shape = layout, layout.shape
        self.axes_of: dict[str, tuple[int, ...]] = {}  # values of what has other axes

    def begin(self, thread: str) -> None:
        """What follows is the element's of this thread."""
        self.thread = thread
        if self.layout.along:
            first, rank = self.layout.first, len(self.shape)
            sizes = [self.w.number(first + i) for i in range(rank - 1)]
            self.coordinates = self.w.b.coordinates(thread, sizes, wide=True)

    def check(self, aval: Any) -> None:
        if aval.shape not in ((), self.shape) or dtype_name(aval) not in straight.DTYPES:
            raise Unfit

    def read(self, closed: ClosedJaxpr, args: Sequence[Value]) -> list[Value]:
        plain = optimized(closed)
        jaxpr = plain.jaxpr
        env: dict[Any, Value] = dict(zip(jaxpr.in_binders, args, strict=True))
        for v, c in zip(jaxpr.const_binders, plain.consts, strict=True):
            self.check(v.aval)
            if v.aval.shape:
                raise Unfit
            env[v] = Value(v.aval.dtype.name, [self.w.constant(v.aval.dtype.name, c._data.item())])
        for eqn in jaxpr.eqns:
            ins = [self.value(env, a) for a in eqn.inputs]
            env.update(zip(eqn.out_binders, self.outputs(eqn, ins), strict=True))
        return [self.value(env, a) for a in jaxpr.outs]

    def value(self, env: dict[Any, Value], a: Atom) -> Value:
        return self.literal(a) if isinstance(a, Literal) else env[a]

    def outputs(self, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
        p, called = eqn.primitive, self.held_by(eqn)
        if called is not None:
            return self.read(called, ins)
        for v in eqn.out_binders:
            self.check(v.aval)
        if p.name == "broadcast_in_dim":
            name = ins[0].refs[0][0]
            same = eqn.inputs[0].aval.shape == () or name[0] != "%"
            if same or self.axes_of.get(name) == eqn.params["broadcast_dimensions"]:
                return [ins[0]]
            raise Unfit
        row = row_of(eqn)
        if not isinstance(row, Elementwise):
            raise Unfit
        return [straight.applied(self.w, row, eqn, i, ins) for i in range(row.outputs)]

    def at(self, slot: Any, aval: Any) -> str:
        """Where the element is; of what has no shape there is one for all."""
        pointer, b = self.w.pointer(slot), self.w.b
        if not aval.shape:
            return pointer
        along = self.layout.along
        if slot not in along:
            return b.offset(pointer, b.emit(f"mul i64 {self.thread}, {itemsize(aval.dtype.name)}"))
        at = self.layout.first + len(self.shape) - 1
        for other, axes in along.items():
            if other == slot:
                break
            at += len(axes)
        for i, axis in enumerate(along[slot]):
            step = b.emit(f"mul i64 {self.coordinates[axis]}, {self.w.number(at + i)}")
            pointer = b.offset(pointer, step)
        return pointer

    def kept(self, kind: str, avals: Sequence[Any], which: Sequence[int] = ()) -> list[Value]:
        """What is there before the loop: of all of a kind, or of those with these numbers."""
        found = []
        for i in which or range(len(avals)):
            slot, name = (kind, i), avals[i].dtype.name
            found.append(self.w.load(self.at(slot, avals[i]), name, 1, fixed=True))
            if slot in self.layout.along:
                self.axes_of[found[-1].refs[0][0]] = self.layout.along[slot]
        return found

    def put(self, avals: Sequence[Any], pointers: Sequence[str], values: Sequence[Value]) -> None:
        """Results; the first thread writes those that are one for all."""
        b = self.w.b
        for aval, pointer, value in zip(avals, pointers, values, strict=True):
            if aval.shape:
                self.w.store(pointer, value)
            else:
                with b.when(b.icmp("eq", "i64", self.thread, "0")):
                    self.w.store(pointer, value)


class OfElements(NamedTuple):
    """A loop for each element, and how many there are. Its numbers are the first round, the last,
    the number of elements, those of the loop's kind, and `more`.
    """

    loop: straight.Loop
    size: int
    more: tuple[int, ...]
    cleared: int | None = None  # a carry of a `while` that is false when it ends


def _axes(program: ClosedJaxpr, n: int, shape: tuple[int, ...]) -> dict[Any, tuple[int, ...]]:
    """For constants of another shape the axes of `shape` along which the body spreads them."""
    jaxpr, found = program.jaxpr, dict[Any, tuple[int, ...]]()
    for i, v in enumerate(jaxpr.in_binders[:n]):
        if v.aval.shape in ((), shape):
            continue
        for eqn in jaxpr.eqns:
            if eqn.primitive.name == "broadcast_in_dim" and eqn.inputs[0] is v:
                found["const", i] = tuple(eqn.params["broadcast_dimensions"])
                break
    return found


def _by_many(
    avals: Mapping[Any, Any], shape: tuple[int, ...], along: dict[Any, tuple[int, ...]], own: int,
    write: Callable[[_Element], None],
) -> OfElements | None:  # fmt: skip
    """What `write` writes for an element of arrays of a shape.

    Args:
        avals: by slot. Carries come from memory once, and are words of 32 bits then.
        along: see Layout.
        own: numbers before those of the layout.
    """
    layout = Layout(shape, along, own)
    more = tuple(layout.numbers(avals))
    w = DeviceWriter(own + len(more), straight.INSTRUCTIONS)
    reader = _Element(w, layout)
    carry = [a for slot, a in avals.items() if slot[0] == "carry"]
    try:
        for slot, a in avals.items():
            if slot not in along:
                reader.check(a)
            elif dtype_name(a) not in straight.DTYPES:
                raise Unfit
        if not shape or sum(itemsize(held(a.dtype.name)) // 4 or 1 for a in carry) > CARRIED:
            return None
        with w.each(w.number(2)) as thread:
            reader.begin(thread)
            write(reader)
    except Unfit:
        return None
    lines = len(w.b.lines)
    loop = straight.Loop(w.finished(True), w.slots, tuple(w.numbers), lines, w.work, ())
    return OfElements(loop, math.prod(shape), more)


def _slots(kind: str, avals: Sequence[Any]) -> dict[Any, Any]:
    return {(kind, i): a for i, a in enumerate(avals)}


def _shape(avals: Sequence[Any]) -> tuple[int, ...]:
    """That of the array with most elements."""
    return max((a.shape for a in avals), key=lambda s: (math.prod(s), len(s)), default=())


def _scan_of_elements(closed: ClosedJaxpr, n: int, k: int) -> OfElements | None:
    """The loop of an element; the strides of xs and ys follow the size."""
    closed = optimized(closed)
    ins, outs = closed.in_avals, closed.out_avals
    moving = [("x", i, a) for i, a in enumerate(ins[n + k :])]
    moving += [("y", i, a) for i, a in enumerate(outs[k:])]
    m = len(ins) - n - k
    shape = _shape([*ins[n:], *outs])

    def write(reader: _Element) -> None:
        w, b = reader.w, reader.w.b
        consts, first = reader.kept("const", ins[:n]), reader.kept("carry", ins[n : n + k])
        ends = [reader.at(("out", i), a) for i, a in enumerate(outs[:k])]
        starts = [reader.at((kind, i), a) for kind, i, a in moving]
        strides = [w.number(3 + i) for i in range(len(moving))]
        carry = w.begin(first)
        here = [
            b.offset(p, b.emit(f"mul i64 %round, {s}"))
            for p, s in zip(starts, strides, strict=True)
        ]
        xs = [w.load(p, a.dtype.name, 1) for p, (_, _, a) in zip(here[:m], moving[:m], strict=True)]
        made = reader.read(closed, [*consts, *carry, *xs])
        reader.put(outs[k:], here[m:], made[k:])
        following = w.follow(made[:k])
        block, done = b.block, b.label("done")
        b.cond_br(b.icmp("slt", "i64", following[0], "%end"), w.head, done)
        w.end(following, block)
        b.place(done)
        reader.put(outs[:k], ends, made[:k])

    avals = _slots("const", ins[:n]) | _slots("carry", ins[n : n + k]) | _slots("out", outs[:k])
    avals |= {(kind, i): a for kind, i, a in moving}
    return _by_many(avals, shape, _axes(closed, n, shape), 3 + len(moving), write)


class Flags(NamedTuple):
    """Carries of a `while` that tell what goes on.

    Attributes:
        each: of which element; one that is done stays as it is in all carries.
        outer: of which of the outer examples, where vmap was applied twice: those in which an
            element goes on.
    """

    each: int
    outer: int | None


class _Rounds:
    """The body of a `while`, as far as what stays as it is can be seen."""

    def __init__(self, program: ClosedJaxpr, m: int):
        jaxpr = program.jaxpr
        self.olds, self.news = jaxpr.in_binders[m:], jaxpr.outs
        self.made = {v: e for e in jaxpr.eqns for v in e.out_binders}

    def maker(self, a: Any, name: str) -> Eqn | None:
        eqn = None if isinstance(a, Literal) else self.made.get(a)
        return eqn if eqn is not None and eqn.primitive.name == name else None

    def where(self, new: Any, old: Var, flag: Var) -> Any:
        """What a carry becomes where the flag is true, or None if it may change elsewhere too."""
        if new is old:
            return new
        eqn = self.maker(new, "select_n")
        if eqn is None or eqn.inputs[1] is not old:
            return None
        which = eqn.inputs[0]
        spread = self.maker(which, "broadcast_in_dim")
        if spread is not None and spread.inputs[0] is flag:
            axes = tuple(range(len(flag.aval.shape)))
            return eqn.inputs[2] if spread.params["broadcast_dimensions"] == axes else None
        return eqn.inputs[2] if which is flag else None

    def also(self, new: Any, flag: Var) -> Any:
        """What must hold besides a flag for it to stay true, or None."""
        eqn = self.maker(new, "and")
        if eqn is None or not any(a is flag for a in eqn.inputs):
            return None
        return next((a for a in eqn.inputs if a is not flag), flag)


def _flags(test: ClosedJaxpr, body: ClosedJaxpr, n: int, m: int) -> Flags | None:
    """The flags of a loop that vmap made of many: it ends when none is true.

    Args:
        body: optimized.
        n, m: numbers of constants of the condition and of the body.
    """
    condition = optimized(test).jaxpr
    last = condition.outs[0]
    if len(condition.eqns) != 1 or last is not condition.eqns[0].out_binders[0]:
        return None
    (eqn,) = condition.eqns
    found = [i for i, v in enumerate(condition.in_binders[n:]) if v is eqn.inputs[0]]
    if eqn.primitive.name != "reduce_or" or not found or last.aval.shape:
        return None
    rounds = _Rounds(body, m)
    olds, news = rounds.olds, rounds.news
    first = olds[found[0]]
    again = rounds.also(news[found[0]], first)
    inner = {i: rounds.where(news[i], old, first) for i, old in enumerate(olds) if old is not first}
    if again is None or any(new is None for new in inner.values()):
        return None
    if first.aval.shape == _shape([v.aval for v in olds]):
        return Flags(found[0], None)
    eqn = rounds.maker(again, "reduce_or")
    each = [i for i in inner if eqn is not None and news[i] is eqn.inputs[0]]
    if eqn is None or not each:
        return None
    flag = olds[each[0]]
    axes = tuple(range(len(first.aval.shape), len(flag.aval.shape)))
    if eqn.params["axes"] != axes or rounds.also(inner[each[0]], flag) is None:
        return None
    if any(rounds.where(new, olds[i], flag) is None for i, new in inner.items() if i != each[0]):
        return None
    return Flags(each[0], found[0])


def _while_of_elements(test: ClosedJaxpr, body: ClosedJaxpr, n: int, m: int) -> OfElements | None:
    """The loop of an element, each with rounds of its own."""
    plain = optimized(body)
    flags = _flags(test, plain, n, m)
    if flags is None:
        return None
    ins, outs, jaxpr = plain.in_avals, plain.out_avals, plain.jaxpr
    kept = [i for i in range(len(outs)) if i != flags.outer]
    # What becomes of the outer flag is left to the host.
    program = ClosedJaxpr(
        Jaxpr(jaxpr.in_binders, jaxpr.eqns, [jaxpr.outs[i] for i in kept], jaxpr.const_binders),
        plain.consts,
    )
    shape = outs[flags.each].shape
    along = _axes(plain, m, shape)
    if flags.outer is not None:
        along["carry", flags.outer] = tuple(range(len(outs[flags.outer].shape)))

    def write(reader: _Element) -> None:
        w, b = reader.w, reader.w.b
        consts, first = reader.kept("const", ins[:m]), reader.kept("carry", ins[m:], kept)
        goes = "true"
        if flags.outer is not None:
            (outer,) = reader.kept("carry", ins[m:], [flags.outer])
            goes = w.scalar("bool", outer.refs[0])
        ends = [reader.at(("out", i), outs[i]) for i in kept]
        carry = w.begin(first)
        now = dict(zip(kept, carry, strict=True))
        more = b.emit(f"and i1 {w.scalar('bool', now[flags.each].refs[0])}, {goes}")
        on = b.emit(f"and i1 {more}, {b.icmp('slt', 'i64', '%round', '%end')}")
        inside, done = b.label("round"), b.label("done")
        b.cond_br(on, inside, done)
        b.place(inside)
        with w.branch():
            true = Value("bool", [w.constant("bool", True)])
            now |= {i: true for i in flags if i is not None}
            made = reader.read(program, [*consts, *(now[i] for i in range(len(outs)))])
            following = w.follow(made)
            block = b.block
            b.br(w.head)
            w.end(following, block)
        b.place(done)
        reader.put([outs[i] for i in kept], ends, carry)

    avals = _slots("const", ins[:m]) | _slots("carry", ins[m:])
    avals |= {("out", i): outs[i] for i in kept}
    found = _by_many(avals, shape, along, 3, write)
    return None if found is None else found._replace(cleared=flags.outer)


# -- steps ----------------------------------------------------------------------------------------


def _spots(places: Sequence[Place]) -> list[Spot]:
    return [(p.root, p.offset) for p in places]


def _launch(loop: straight.Loop, own: Sequence[int], grid: int, block: int,
            spots: Mapping[str, Sequence[Spot]]) -> Launch:  # fmt: skip
    slots = [spots[s[0]][s[1]] if s.__class__ is tuple else (s, 0) for s in loop.slots]
    numbers = (*own, *loop.numbers[len(own) :])
    return Launch(loop.kernel, tuple(slots), numbers, grid, block, indirect=True)


def _begun(
    loop: straight.Loop, init: Sequence[Spot], ends: Sequence[Spot], outs: Sequence[Var]
) -> list[Launch]:
    """What puts the carries that are changed in place where they are."""
    code = []
    for i in loop.in_place:
        aval = outs[i].aval
        bits = BITS[aval.dtype.itemsize]
        shape, strides = (aval.size,), (aval.dtype.itemsize,)
        code.append(copied(shape, strides, init[i], bits, ends[i], bits))
    return code


def _pieces(loop: straight.Loop, length: int) -> Iterator[tuple[int, int]]:
    """The rounds of each launch."""
    rounds = max(1, PIECE // max(1, loop.instructions), -(-length // MOST_PIECES))
    for begin in range(0, length, rounds):
        yield begin, min(begin + rounds, length)


def _scan(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    p, outs = eqn.params, eqn.out_binders
    closed, length, n, k = p["jaxpr"], p["length"], p["num_consts"], p["num_carry"]
    if not length or not _is_known(closed):
        return None
    sign = -1 if p["reverse"] else 1
    of_elements = _scan_of_elements(closed, n, k)
    loop = straight.scan_loop(p, ONE_THREAD) if of_elements is None else of_elements.loop
    if loop is None:
        return None
    spots, ends = _spots(places), [(v, 0) for v in outs[:k]]
    init = spots[n : n + k]
    moved: list[Spot] = [*spots[n + k :], *((v, 0) for v in outs[k:])]
    avals = [*closed.in_avals[n + k :], *closed.out_avals[k:]]
    if sign < 0:
        moved = [(r, o + (length - 1) * a.nbytes) for (r, o), a in zip(moved, avals, strict=True)]
    m = len(spots) - n - k
    size, own, grid, block = 1, [], 1, 1
    if of_elements is not None:
        size = of_elements.size
        own = [size, *(sign * a.nbytes for a in avals), *of_elements.more]
        grid, block = -(-size // THREADS), THREADS
    code = _begun(loop, init, ends, outs)
    pieces = list(_pieces(loop, length))
    scratch: list[int] = []
    if of_elements is not None and len(pieces) > 1:
        # What one thread of a launch reads another may write: not in one place.
        scratch = [max(v.aval.nbytes, 1) for v in outs[:k]] * min(2, len(pieces) - 1)
    source: Sequence[Spot] = init
    for i, (begin, end) in enumerate(pieces):
        target: Sequence[Spot] = ends
        if of_elements is not None and i < len(pieces) - 1:
            target = [(Scratch(i % 2 * k + j), 0) for j in range(k)]
        at = {"const": spots[:n], "carry": source, "out": target, "x": moved[:m], "y": moved[m:]}
        code.append(_launch(loop, [begin, end, *own], grid, block, at))
        source = target
    nbytes = sum(a.nbytes for a in avals) * length + sum(2 * v.aval.nbytes for v in outs[:k])
    return NativeStep(
        code, roots_of(places), list(outs), eqn.primitive.name, scratch=scratch,
        flops=length * loop.work * size, moved=nbytes, sources=[eqn.source],
    )  # fmt: skip


def _while(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    p, outs = eqn.params, eqn.out_binders
    test, body = p["cond_jaxpr"], p["body_jaxpr"]
    n, m = p["cond_nconsts"], p["body_nconsts"]
    if not (_is_known(test) and _is_known(body)):
        return None
    spots = _spots(places)
    ends: list[Spot] = [(v, 0) for v in outs]
    init = spots[n + m :]
    of_elements = _while_of_elements(test, body, n, m)
    if of_elements is not None:
        loop, size = of_elements.loop, of_elements.size
        at = {"const": spots[n : n + m], "carry": init, "out": ends}
        own = [0, ENDLESS, size, *of_elements.more]
        code = [_launch(loop, own, -(-size // THREADS), THREADS, at)]
        scratch = []
        if of_elements.cleared is not None:
            v, false = outs[of_elements.cleared], (Fixed(np.zeros(1, bool)), 0)
            strides = (0,) * len(v.aval.shape)
            code.append(copied(v.aval.shape, strides, false, "uint8", (v, 0), "uint8"))
    else:
        loop, size = straight.while_loop(p, ONE_THREAD), 1
        if loop is None:
            return None
        at = {"const": spots[: n + m], "carry": init, "out": ends, "more": [(Scratch(0), 0)]}
        code = [*_begun(loop, init, ends, outs), _launch(loop, [0, ENDLESS], 1, 1, at)]
        scratch = [1]
    return NativeStep(
        code, roots_of(places), list(outs), eqn.primitive.name, scratch=scratch,
        flops=loop.work * size, moved=sum(2 * v.aval.nbytes for v in outs), sources=[eqn.source],
    )  # fmt: skip


scan = Lowered(_scan)
while_ = Lowered(_while)
