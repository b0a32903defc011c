"""Loops as single launches on a GPU, where a thread can hold what goes from round to round.

Two kinds of loops are so. Where the body is a few operations on a few numbers, one thread computes
it all: what the CPU's straight.py reads, written by codegen/ptx_straight.py. And where the body of
a scan works on arrays of one shape, element by element, each element is a thread's own. The carry
stays in registers, slices of xs and ys are read and written where they lie, and the host does not
wait. A long scan is divided into launches in a row, as a device may refuse to be busy with one
launch for seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from mgefn.backends.llvm_kernels import straight
from mgefn.backends.llvm_kernels.elementwise import Elementwise
from mgefn.backends.ptx_copies import BITS, copied
from mgefn.compiler.codegen.builder import Builder
from mgefn.compiler.codegen.ptx import THREADS
from mgefn.compiler.codegen.ptx_straight import DeviceLoop, DeviceWriter
from mgefn.compiler.codegen.straight import Unfit, Value
from mgefn.compiler.codegen.values import Operand, held, itemsize, rounded
from mgefn.compiler.gpu_launch import Launch
from mgefn.compiler.native import dtype_name, row_of
from mgefn.compiler.passes import optimized
from mgefn.compiler.steps import Lowered, NativeStep, Place, Scratch, Spot, roots_of
from mgefn.core.device_array import DeviceArray
from mgefn.core.jaxpr import Atom, ClosedJaxpr, Eqn, Literal, Var, subjaxprs

CARRIED = 64  # words of 32 bits that a carry takes at most, by a thread's registers
PIECE = 1 << 28  # instructions of a thread in one launch of a scan
MOST_PIECES = 64
ENDLESS = 1 << 62  # rounds of a `while`, which knows itself when to end


class Loop(NamedTuple):
    """A kernel with what its pointers point to, and its numbers; see straight.Loop."""

    kernel: DeviceLoop
    slots: list[Any]
    numbers: list[int]
    instructions: int
    work: float
    in_place: tuple[int, ...]


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


def _by_one(
    write: Callable[[DeviceWriter, int], None], programs: Sequence[ClosedJaxpr], n: int, k: int
) -> Loop | None:
    """The loop of few numbers; `n` and `k` count constants and carries of the last program."""
    body = programs[-1]
    carry = body.in_avals[n : n + k]
    slices = (*body.in_avals[n + k :], *body.out_avals[k:])
    if not all(0 < a.size <= straight.ELEMENTS for a in slices):
        return None
    if any(dtype_name(a) not in straight.DTYPES for a in (*slices, *carry)):
        return None
    for most in (straight.ELEMENTS, straight.PLACES):
        if sum(_words(a) for a in carry if a.size <= most) > CARRIED:
            continue
        w = DeviceWriter(2, straight.INSTRUCTIONS)
        try:
            write(w, most)
        except straight.ManyPlaces:
            continue
        except Unfit:
            return None
        in_place = tuple(i for i, a in enumerate(carry) if a.size > most)
        lines = len(w.b.lines)
        return Loop(w.finished(False), w.slots, w.numbers, lines, w.work, in_place)
    return None


def _words(aval: Any) -> int:
    """32-bit registers."""
    return aval.size * max(1, itemsize(held(aval.dtype.name)) // 4)


# -- a thread an element --------------------------------------------------------------------------


class _Element:
    """Writes a program of elementwise operations for one element of arrays of a shape."""

    def __init__(self, w: DeviceWriter, shape: tuple[int, ...]):
        self.w, self.shape = w, shape
        self.equations = 0

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
        if not isinstance(a, Literal):
            return env[a]
        name = dtype_name(a.aval)
        if name not in straight.DTYPES:
            raise Unfit
        return Value(name, [self.w.constant(name, a.value._data.item())])

    def outputs(self, eqn: Eqn, ins: Sequence[Value]) -> list[Value]:
        p = eqn.primitive
        self.equations += 1
        if self.equations > straight.EQUATIONS:
            raise Unfit
        if p.inlined is not None:
            closed = p.inlined(eqn.params)
            if closed is None:
                raise Unfit
            return self.read(closed, ins)
        for v in eqn.out_binders:
            self.check(v.aval)
        if p.name == "broadcast_in_dim" and eqn.inputs[0].aval.shape == ():
            return [ins[0]]
        row = row_of(eqn)
        if not isinstance(row, Elementwise):
            raise Unfit
        return [self.elementwise(row, eqn, i, ins) for i in range(row.outputs)]

    def elementwise(self, row: Elementwise, eqn: Eqn, output: int, ins: Sequence[Value]) -> Value:
        params = eqn.params if row.outputs == 1 else {**eqn.params, "output": output}
        dtype = eqn.out_binders[output].aval.dtype.name
        sources = [held(x.dtype) for x in ins]

        def emit(b: Builder, width: int, names: Sequence[str]) -> str:
            operands = [Operand(n, d) for n, d in zip(names, sources, strict=True)]
            return rounded(b, dtype, width, row.emit(b, held(dtype), width, operands, params))

        return self.w.apply(emit, dtype, ins, row.cost)


def _by_many(closed: ClosedJaxpr, n: int, k: int) -> tuple[Loop, tuple[int, ...]] | None:
    """The loop of an element, and the shape of the arrays; its numbers go on with their size and
    the strides of xs and ys.
    """
    avals = (*closed.in_avals, *closed.out_avals)
    shape = next((a.shape for a in avals if a.shape), ())
    carry = closed.in_avals[n : n + k]
    moved = len(closed.in_avals) + len(closed.out_avals) - n - 2 * k
    w = DeviceWriter(3 + moved, straight.INSTRUCTIONS)
    reader = _Element(w, shape)
    try:
        for a in avals:
            reader.check(a)
        if sum(itemsize(held(a.dtype.name)) // 4 or 1 for a in carry) > CARRIED:
            return None
        with w.each(w.number(2)) as thread:
            _write_element(reader, closed, n, k, thread)
    except Unfit:
        return None
    loop = Loop(w.finished(True), w.slots, w.numbers, len(w.b.lines), w.work, ())
    return loop, shape


def _write_element(reader: _Element, closed: ClosedJaxpr, n: int, k: int, thread: str) -> None:
    w = reader.w
    b = w.b

    def at(slot: Any, aval: Any) -> str:
        """Where the element is; of what has no shape there is one for all."""
        pointer = w.pointer(slot)
        if not aval.shape:
            return pointer
        return b.offset(pointer, b.emit(f"mul i64 {thread}, {itemsize(aval.dtype.name)}"))

    ins, outs = closed.in_avals, closed.out_avals
    consts = [
        w.load(at(("const", i), a), a.dtype.name, 1, fixed=True) for i, a in enumerate(ins[:n])
    ]
    first = [
        w.load(at(("carry", i), a), a.dtype.name, 1, fixed=True)
        for i, a in enumerate(ins[n : n + k])
    ]
    ends = [at(("out", i), a) for i, a in enumerate(outs[:k])]
    moving = [("x", i, a) for i, a in enumerate(ins[n + k :])]
    moving += [("y", i, a) for i, a in enumerate(outs[k:])]
    starts = [at((kind, i), a) for kind, i, a in moving]
    strides = [w.number(3 + i) for i in range(len(moving))]
    leads = b.icmp("eq", "i64", thread, "0")
    carry = w.begin(first)
    here = [
        b.offset(p, b.emit(f"mul i64 %round, {s}")) for p, s in zip(starts, strides, strict=True)
    ]
    m = len(ins) - n - k
    xs = [w.load(p, a.dtype.name, 1) for p, (_, _, a) in zip(here[:m], moving[:m], strict=True)]

    def put(aval: Any, pointer: str, value: Value) -> None:
        if aval.shape:
            w.store(pointer, value)
        else:
            with b.when(leads):
                w.store(pointer, value)

    made = reader.read(closed, [*consts, *carry, *xs])
    for (_, _, a), p, y in zip(moving[m:], here[m:], made[k:], strict=True):
        put(a, p, y)
    following = w.follow(made[:k])
    block, done = b.block, b.label("done")
    b.cond_br(b.icmp("slt", "i64", following[0], "%end"), w.head, done)
    w.end(following, block)
    b.place(done)
    for a, p, y in zip(outs[:k], ends, made[:k], strict=True):
        put(a, p, y)


# -- steps ----------------------------------------------------------------------------------------


def _spots(places: Sequence[Place]) -> list[Spot]:
    return [(p.root, p.offset) for p in places]


def _launch(loop: Loop, own: Sequence[int], grid: int, block: int,
            spots: dict[str, Sequence[Spot]]) -> Launch:  # fmt: skip
    slots = [spots[s[0]][s[1]] if s.__class__ is tuple else (s, 0) for s in loop.slots]
    numbers = (*own, *loop.numbers[len(own) :])
    return Launch(loop.kernel, tuple(slots), numbers, grid, block, indirect=True)


def _begun(
    loop: Loop, init: Sequence[Spot], ends: Sequence[Spot], outs: Sequence[Var]
) -> list[Launch]:
    """What puts the carries that are changed in place where they are."""
    code = []
    for i in loop.in_place:
        aval = outs[i].aval
        bits = BITS[aval.dtype.itemsize]
        shape, strides = (aval.size,), (aval.dtype.itemsize,)
        code.append(copied(shape, strides, init[i], bits, ends[i], bits))
    return code


def _pieces(loop: Loop, length: int) -> Iterator[tuple[int, int]]:
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
    elementwise = _by_many(closed, n, k)
    if elementwise is not None and elementwise[1]:
        loop, shape = elementwise
    else:
        found = _by_one(lambda w, most: straight._scan(w, most, closed, n, k, sign), [closed], n, k)
        if found is None:
            return None
        loop, shape = found, ()
    spots, ends = _spots(places), [(v, 0) for v in outs[:k]]
    init = spots[n : n + k]
    moved: list[Spot] = [*spots[n + k :], *((v, 0) for v in outs[k:])]
    avals = [*closed.in_avals[n + k :], *closed.out_avals[k:]]
    if sign < 0:
        moved = [(r, o + (length - 1) * a.nbytes) for (r, o), a in zip(moved, avals, strict=True)]
    m = len(spots) - n - k
    size = 1
    for d in shape:
        size *= d
    own = [size, *(sign * a.nbytes for a in avals)] if shape else []
    grid, block = (-(-size // THREADS), THREADS) if shape else (1, 1)
    code = _begun(loop, init, ends, outs)
    pieces = list(_pieces(loop, length))
    scratch: list[int] = []
    if shape and len(pieces) > 1:
        # What one thread of a launch reads another may write: not in one place.
        scratch = [max(v.aval.nbytes, 1) for v in outs[:k]] * min(2, len(pieces) - 1)
    source: Sequence[Spot] = init
    for i, (begin, end) in enumerate(pieces):
        target: Sequence[Spot] = ends
        if shape and i < len(pieces) - 1:
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
    loop = _by_one(
        lambda w, most: straight._while(w, most, test, body, n, m), [test, body], m, len(outs)
    )
    if loop is None:
        return None
    spots = _spots(places)
    ends: list[Spot] = [(v, 0) for v in outs]
    init = spots[n + m :]
    at = {"const": spots[: n + m], "carry": init, "out": ends, "more": [(Scratch(0), 0)]}
    code = _begun(loop, init, ends, outs)
    code.append(_launch(loop, [0, ENDLESS], 1, 1, at))
    return NativeStep(
        code, roots_of(places), list(outs), eqn.primitive.name, scratch=[1], flops=loop.work,
        moved=sum(2 * v.aval.nbytes for v in outs), sources=[eqn.source],
    )  # fmt: skip


scan = Lowered(_scan)
while_ = Lowered(_while)
