"""Native steps of a program: which equations become kernels, and what their calls need.

`with_native_steps` puts one equation of `native_p` in the place of each fusion group; its parameter
`step` holds the kernel calls. The plan of a program treats it as any other equation. Kernels are
compiled once in a process, whatever program asks for them; those of one program are compiled
side by side. Where little work waits for a kernel it is compiled in a hurry, and once more in the
background (core/background.py); a call finds its code by way of the kernel's cell.
"""

from __future__ import annotations

import collections
import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mgefn import forks
from mgefn.compiler import arena, runtime
from mgefn.compiler.codegen import engine, nests
from mgefn.compiler.codegen.movement import Move
from mgefn.compiler.codegen.values import ALL, COMPLEX, HALVES, LLVM_TYPES, held, name_of
from mgefn.compiler.fusion import Fusion, copy_p
from mgefn.compiler.groups import Group
from mgefn.compiler.kernel import Kernel
from mgefn.compiler.lowering import lower
from mgefn.compiler.passes import optimized
from mgefn.compiler.reductions import rewritten
from mgefn.compiler.runtime import Assembler, Frame
from mgefn.compiler.steps import (
    Call,
    Copy,
    Expanded,
    Fixed,
    Inside,
    Lowered,
    Moving,
    NativeStep,
    Repeat,
    Scratch,
    Spot,
    Switch,
    While,
    remapped,
)
from mgefn.config import config
from mgefn.core import background
from mgefn.core.avals import ShapedArray
from mgefn.core.backends import load_table, name_of_row
from mgefn.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Var
from mgefn.core.primitive import Primitive

# What a fusion group is in a program: params: step, a NativeStep.
native_p = Primitive("native", weak_result=False)

GIL_BYTES = 1 << 18  # of memory moved, from which a segment runs without the GIL

PER_BYTE, PER_FLOP = 0.1, 0.02  # nanoseconds of a byte that is moved, of an operation, at a guess
# Nanoseconds of a step's work, by that guess, up to which slower code will do for its first calls:
# of any, and of traffic and arithmetic of a loop nest, whose code is slower by little where it
# waits for memory. Of doubles a vector register holds half as many, and more of them are spilled.
QUICK = 1.5e6
QUICK_TRAFFIC, QUICK_ARITHMETIC = 50e6, 15e6
DOUBLES = 3.0


KEPT = 2_000  # kernels that stay loaded though no program has them any more


class _Cell:
    """The word of memory that holds the address of a kernel's code, its own address, and the code.

    Code made in a hurry stays with the better one, as a call may be in it.
    """

    __slots__ = ("__weakref__", "address", "codes", "word")

    def __init__(self, code: engine.Compiled):
        self.word = np.array([code["kernel"]], np.int64)
        self.address = self.word.ctypes.data
        self.codes = [code]


# By class and kernel, as tuples of different classes may be equal. Segments hold them.
_cells: weakref.WeakValueDictionary[tuple[type, Any], _Cell] = weakref.WeakValueDictionary()
_recent: collections.deque[_Cell] = collections.deque(maxlen=KEPT)
_made = 0  # kernels so far
_lock = forks.lock()


def enabled() -> bool:
    """Are programs to be native, and can they be?"""
    if config.jit_backend != "llvm" or not runtime.available():
        return False
    load_table("llvm")
    return True


@functools.cache
def vector_bytes() -> int:
    """Bytes of a vector register of this machine."""
    features = engine.cpu_features()
    if "+avx512f" in features:
        return 64
    return 32 if "+avx" in features else 16


def row_of(eqn: Eqn) -> Any:
    """The native row of an equation, or None where this equation can't use it."""
    row = eqn.primitive.kernels.get("llvm")
    if row is None or row.__class__ in (Lowered, Expanded):
        return row
    names = [dtype_name(a.aval) for a in eqn.inputs]
    if isinstance(row, frozenset):  # a reduction
        return row if held(names[0]) in row else None
    return row if _joins(eqn, row, names) else row.otherwise


def cpu_row_of(eqn: Eqn) -> Any:
    """As `row_of`, with the rows of complex numbers, which only the CPU has."""
    row = eqn.primitive.kernels.get("llvm complex")
    if row is None:
        return row_of(eqn)
    names, out = [dtype_name(a.aval) for a in eqn.inputs], eqn.out_binders[0].aval
    made = dtype_name(out)
    if not any(n in COMPLEX for n in (*names, made)):
        return row_of(eqn)
    if row.__class__ is Expanded:
        return row
    if isinstance(row, frozenset):  # a reduction
        return row if names[0] in row else None
    joins = row.accepts(names) and (made in COMPLEX or made in ALL)
    joins = joins and all(a.aval.shape in ((), out.shape) for a in eqn.inputs)
    return row if joins else row.otherwise


def _joins(eqn: Eqn, row: Any, names: list[str]) -> bool:
    """Can an elementwise equation be part of a loop nest?"""
    out = eqn.out_binders[0].aval
    if len(eqn.out_binders) != row.outputs or dtype_name(out) not in LLVM_TYPES:
        return False
    if any(a.aval.shape not in ((), out.shape) for a in eqn.inputs):
        return False
    if not row.accepts([held(n) for n in names]):
        return False
    if any(n in HALVES for n in (*names, dtype_name(out))):
        return _rounds_once(eqn.primitive.name, names[0], out)
    if eqn.primitive.name == "bitcast_convert_type":
        return eqn.inputs[0].aval.dtype.itemsize == out.dtype.itemsize
    return True


def _rounds_once(name: str, source: str, out: ShapedArray) -> bool:
    """Is an operation in float32, then rounded to 16 bits, that in 16 bits?"""
    if name in ("bitcast_convert_type", "nextafter"):
        return False
    if name == "convert_element_type" and dtype_name(out) in HALVES:
        return source in ("float32", "bool", "int8", "uint8", "int16", "uint16", *HALVES)
    return True


def why_not(eqn: Eqn) -> str:
    """Why an equation is no native step, in words."""
    if not runtime.available():
        return runtime.why_unavailable() or "LLVM is not available"
    if any(a.aval.size == 0 for a in (*eqn.inputs, *eqn.out_binders)):
        return "it has no elements"
    if not eqn.primitive.kernels.keys() & {"llvm", "llvm complex"}:
        return f"{eqn.primitive.name} has no native code"
    return f"{eqn.primitive.name} has none for {', '.join(str(a.aval) for a in eqn.inputs)}"


def dtype_name(aval: ShapedArray) -> str:
    """The dtype's name, empty for what is not a dtype of NumPy's kind."""
    return name_of(aval.dtype)


def with_native_steps(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with its fusion groups as single equations."""
    return with_steps(closed, cpu_row_of, as_native, native_p, pads=True)


def with_steps(
    closed: ClosedJaxpr,
    table: Callable[[Eqn], Any],
    step_of: Callable[[Fusion, Any], tuple[Any, NativeStep]],
    primitive: Primitive,
    pads: bool = False,
) -> ClosedJaxpr:
    """The program with equations of `primitive` for what `table` has rows for.

    Args:
        table: the row of an equation, or None; see Fusion.
        step_of: the source line and the step of a group, or of an equation and its own step.
        primitive: its equations have the parameter `step`.
        pads: see Fusion.
    """
    fusion = Fusion(closed, table, pads)
    if all(isinstance(s, Eqn) for s in fusion.steps):
        return closed
    jaxpr = closed.jaxpr
    eqns: list[Eqn] = []
    placed: set[Var] = set()

    def place(v: Any) -> None:
        """The equations of views and filled arrays that a step reads from memory."""
        chain: list[Eqn] = []
        while isinstance(v, Var) and v not in placed:
            if v in fusion.view_of:
                placed.add(v)
                v, eqn = fusion.view_of[v]
                chain.append(eqn)
            elif v in fusion.virtual:
                placed.add(v)
                chain.append(fusion.virtual[v])
                break
            else:
                break
        eqns.extend(reversed(chain))

    for step in fusion.steps:
        if isinstance(step, Eqn):
            for a in step.inputs:
                place(a)
            eqns.append(step)
            continue
        source, native = step_of(fusion, step)
        if native.outputs:
            for v in native.inputs:
                place(v)
            eqns.append(
                Eqn(primitive, list(native.inputs), {"step": native}, list(native.outputs), source)
            )
    for a in jaxpr.outs:
        place(a)
    return ClosedJaxpr(
        Jaxpr(jaxpr.in_binders, eqns, jaxpr.outs, jaxpr.const_binders, jaxpr.name), closed.consts
    )


def as_native(fusion: Fusion, step: Any) -> tuple[Any, NativeStep]:
    """The source line and the native step of a group, or of an equation that has one."""
    if isinstance(step, Group):
        return step.eqns[0].source, lower(fusion, step, vector_bytes())
    eqn, native = step
    return eqn.source, native


# -- inner programs -------------------------------------------------------------------------------


class Inner:
    """A program that runs inside of another one's native step: the body of a loop, a branch.

    Attributes:
        code: instructions, whose roots are the program's inputs and outputs, fixed arrays, and
            places in its slab.
        slab: size of that in bytes.
        ins, outs: variables; the outputs are all different and none is an input.
        over: number of an output -> that of the input whose memory it may be: nothing reads the
            input once the output's memory is written to.
    """

    def __init__(self, ins: list[Var], outs: list[Var], code: list[Any], slab: int,
                 flops: float, moved: int, over: dict[int, int]):  # fmt: skip
        self.ins = ins
        self.outs = outs
        self.code = code
        self.slab = slab
        self.flops = flops
        self.moved = moved
        self.over = over

    def at(self, ins: Sequence[Spot], outs: Sequence[Spot], slab: Spot) -> list[Any]:
        """The instructions for inputs, outputs and a slab that lie at these spots."""
        spots: dict[Any, Spot] = dict(zip(self.ins, ins, strict=True))
        spots.update(zip(self.outs, outs, strict=True))

        def spot(s: Spot) -> Spot:
            root, offset = s
            if root.__class__ is Inside:
                return slab[0], slab[1] + root.offset + offset
            found = spots.get(root)
            return s if found is None else (found[0], found[1] + offset)

        moved: dict[Any, Any] = {}
        code = [remapped(i, spot, moved) for i in self.code]
        return [i for i in code if not (i.__class__ is Call and is_needless(i))]


def is_needless(call: Call) -> bool:
    """Does a call keep in a place what is there?"""
    kernel = call.kernel
    return kernel.__class__ is Move and kernel.op == "keep" and call.slots[0] == call.slots[1]


def inner_program(closed: ClosedJaxpr) -> Inner | None:
    """The native form of a program, or None where some of it has none."""
    return closed.derive("native inner", lambda: _inner_program(closed))


def _inner_program(closed: ClosedJaxpr) -> Inner | None:
    plain = optimized(closed)
    jaxpr = plain.jaxpr
    eqns, outs = rewritten(jaxpr.eqns), []
    made = {
        v
        for e in eqns
        if not e.primitive.view and e.primitive.name != "iota"
        for v in e.out_binders
    }
    for a in jaxpr.outs:
        if not isinstance(a, Var) or a not in made or a.aval.size == 0:
            v = Var(a.aval)
            eqns.append(Eqn(copy_p, [a], {}, [v]))
            a = v
        made.discard(a)  # another output of the same value gets a copy
        outs.append(a)
    jaxpr = Jaxpr(jaxpr.in_binders, eqns, outs, jaxpr.const_binders, jaxpr.name)
    fusion = Fusion(ClosedJaxpr(jaxpr, plain.consts), cpu_row_of, pads=True)
    steps: list[NativeStep] = []
    for step in fusion.steps:
        if isinstance(step, Eqn):
            return None
        steps.append(as_native(fusion, step)[1])
    leaving = set(outs)
    first: dict[Var, int] = {}
    last: dict[Var, int] = {}
    for t, step in enumerate(steps):
        for v in step.outputs:
            first[v] = last[v] = t
        for v in step.inputs:
            last[v] = t
    # What is written over: an output -> the operand of its step that dies there.
    over: dict[Var, Var] = {}
    free = {*first, *jaxpr.in_binders} - leaving
    for t, step in enumerate(steps):
        for n, v in enumerate(step.outputs):
            for a in (step.inputs[i] for i in step.in_place.get(n, ())):
                if a in free and last[a] == t and a.aval.same_type(v.aval):
                    over[v] = a
                    free.discard(a)
                    break
    # The values that one block holds one after the other, by the last of them.
    chains = {v: [v] for v in first if v not in over.values()}
    inputs = {v: i for i, v in enumerate(jaxpr.in_binders)}
    written: dict[int, int] = {}
    for v, chain in chains.items():
        while chain[-1] in over and over[chain[-1]] not in inputs:
            chain.append(over[chain[-1]])
        if v in leaving and chain[-1] in over:
            written[outs.index(v)] = inputs[over[chain[-1]]]
    held = [v for v in chains if v not in leaving]
    lifetimes = [arena.Lifetime(first[chains[v][-1]], last[v], v.aval.nbytes) for v in held]
    for t, step in enumerate(steps):
        lifetimes += [arena.Lifetime(t, t, n) for n in step.scratch]
    blocks, slab = arena.plan(lifetimes)
    at: dict[Any, Any] = {v: Inside(b.offset) for v, b in zip(held, blocks, strict=False)}
    for v, chain in chains.items():
        at.update(dict.fromkeys(chain, at.get(v, v)))
    rest = iter(blocks[len(held) :])
    consts = {v: Fixed(c._data) for v, c in zip(jaxpr.const_binders, plain.consts, strict=True)}
    code: list[Any] = []
    for step in steps:
        own = [Inside(next(rest).offset) for _ in step.scratch]

        def spot(s: Spot, own: list[Inside] = own) -> Spot:
            root, offset = s
            if root.__class__ is Scratch:
                return own[root.number], offset
            return at.get(root) or consts.get(root) or root, offset

        moved: dict[Any, Any] = {}
        code += [remapped(i, spot, moved) for i in step.code]
    return Inner(
        list(jaxpr.in_binders), outs, code, slab,
        sum(s.flops for s in steps), sum(s.moved for s in steps), written,
    )  # fmt: skip


# -- kernels --------------------------------------------------------------------------------------


def text_of(kernel: Any) -> str:
    """The LLVM text of a kernel, whose function is named "kernel"."""
    return nests.text(kernel, "kernel") if isinstance(kernel, Kernel) else kernel.text("kernel")


def calls_in(code: Sequence[Any]) -> list[Call]:
    """All calls of some instructions, in the order of their text."""
    found: list[Call] = []
    pending = list(reversed(code))
    while pending:
        i = pending.pop()
        if i.__class__ is Call:
            found.append(i)
        elif i.__class__ is Repeat:
            pending += [*reversed(i.second), *reversed(i.first)]
        elif i.__class__ is While:
            pending += [
                *reversed(i.after_first), *reversed(i.second), *reversed(i.first),
                *reversed(i.before),
            ]  # fmt: skip
        elif i.__class__ is Switch:
            for b in reversed(i.branches):
                pending += list(reversed(b))
    return found


def kernels_in(code: Sequence[Any]) -> int:
    """How many kernels some instructions call; the turns of a loop are one call."""
    return len(dict.fromkeys((named(c.kernel), c.numbers) for c in calls_in(code)))


def compile_kernels(steps: Sequence[NativeStep]) -> tuple[dict[str, int], list[_Cell]]:
    """Make code for the kernels of these steps.

    Returns:
        How many kernels there are by where they came from: "memory", "disk" or "compiler". And
        what must be kept for the code to stay.
    """
    global _made
    # Each with whether code made in a hurry will do.
    wanted: dict[tuple[type, Any], bool] = {}
    for s in steps:
        quick = config.tiered_compilation and _may_be_slower(s)
        for c in calls_in(s.code):
            name = named(c.kernel)
            wanted[name] = quick and wanted.get(name, True)
    held = {k: _cells.get(k) for k in wanted}
    missing = [k for k, cell in held.items() if cell is None]
    origins = {"memory": len(wanted) - len(missing), "disk": 0, "compiler": 0}
    if not missing:
        return origins, [cell for cell in held.values() if cell is not None]
    with _lock:
        held = {k: _cells.get(k) for k in wanted}
        missing = [k for k, cell in held.items() if cell is None]
        # A kernel that calls functions from outside has their addresses in `symbols`.
        modules = [
            (
                text_of(k), ["kernel"], "quick" if wanted[kind, k] else "few",
                getattr(k, "symbols", {}),
            )
            for kind, k in missing
        ]  # fmt: skip
        better: list[Callable[[], None]] = []
        made = engine.compile_modules(modules)
        for name, module, found in zip(missing, modules, made, strict=True):
            cell = held[name] = _cells[name] = _Cell(found)
            _recent.append(cell)
            _made += 1
            origins[found.origin] += 1
            if module[2] == "quick" and found.origin != "disk":
                better.append(functools.partial(_improve, weakref.ref(cell), module[0], module[3]))
        background.later(better)
    return origins, [cell for cell in held.values() if cell is not None]


def _may_be_slower(s: NativeStep) -> bool:
    """Is a step done sooner with slower code, all in all, that is soon made?"""
    arithmetic, traffic = s.flops * PER_FLOP, s.moved * PER_BYTE
    if max(arithmetic, traffic) <= QUICK:
        return True
    if not all(i.__class__ is Call and i.kernel.__class__ is Kernel for i in s.code):
        return False
    if any(v.aval.dtype.itemsize > 4 for v in (*s.inputs, *s.outputs)):
        arithmetic *= DOUBLES
    return traffic <= QUICK_TRAFFIC and arithmetic <= QUICK_ARITHMETIC


def _improve(cell: weakref.ref[_Cell], text: str, extra: dict[str, int]) -> None:
    """Put a kernel's better code in the place of what was made in a hurry; it gives the same bits.

    Calls that run go on with what they have.
    """
    found = cell()
    if found is not None:
        (better,) = engine.compile_modules([(text, ["kernel"], "few", extra)])
        found.codes.append(better)
        found.word[0] = better["kernel"]


def named(kernel: Any) -> tuple[type, Any]:
    """What a kernel is known by."""
    return kernel.__class__, kernel


def cell_of(kernel: Any) -> int:
    """The address of the word that holds the address of a kernel that is loaded."""
    return _cells[named(kernel)].address


def compilations() -> int:
    """How many kernels this process has compiled or loaded from the disk's cache."""
    return _made


class Segment:
    """Native steps in a row: one call from Python.

    Attributes:
        slots: for each word of the table of pointers the memory's root, an offset in bytes, and
            the number of the step, by which its scratch memory is found.
        code: for the machine of runtime.py.
        heavy: is there so much work that other Python threads should run meanwhile?
        origins: how many of its kernels were known, came from the disk, or were compiled for it.
        arguments: names of the arrays that a call takes; program.py sets these three.
        fixups: (argument, slot, offset) of pointers that each call brings.
        static: (slot, name of an array that is bound with the slab, offset); without a name the
            offset is one in the slab.
        times: where calls are timed, nanoseconds and runs of each kernel of each step, in their
            order, since these were last set to 0.
        timed_names: what these kernels do.
        timed_steps: number of a step, and how many kernels it has.
    """

    times: np.ndarray
    timed_names: list[str]
    timed_steps: list[tuple[int, int]]

    def __init__(self, steps: Sequence[tuple[int, NativeStep]], timed: bool = False):
        """steps: each with its number; `timed`: is each call of a kernel to be timed?"""
        self.origins, self._cells = compile_kernels([s for _, s in steps])
        self.slots: list[tuple[Any, int, int]] = []
        writer = _Writer(self.slots, _Clock(steps) if timed else None)
        for t, s in steps:
            writer.step = t
            writer.write(s.code)
        if writer.clock is not None:
            writer.clock.finish(writer.assembler, self)
        self.code = writer.assembler.finish()
        self.heavy = sum(s.moved for _, s in steps) > GIL_BYTES or any(
            c.chunk for _, s in steps for c in calls_in(s.code)
        )
        self.arguments: list[str] = []
        self.fixups: list[tuple[int, int, int]] = []
        self.static: list[tuple[int, str | None, int]] = []

    def bound(self, values: dict[str, Any], slab: np.ndarray | None) -> Any:
        """The call from Python, for one slab: it takes the arrays named in `arguments`."""
        pointers = np.zeros(len(self.slots), np.int64)
        start = 0 if slab is None else slab.ctypes.data
        keep: list[Any] = [self._cells]
        for slot, (root, offset, _) in enumerate(self.slots):
            if root.__class__ is Fixed:
                pointers[slot] = root.array.ctypes.data + offset
                keep.append(root)
        for slot, name, offset in self.static:
            if name is None:
                pointers[slot] = start + offset
            else:
                if not values[name].flags.c_contiguous:  # a constant
                    values[name] = np.array(values[name], order="C")
                keep.append(values[name])
                pointers[slot] = values[name].ctypes.data + offset
        return Frame(
            self.code, pointers, self.fixups, len(self.arguments),
            release_gil=self.heavy, keep=keep,
        ).call  # fmt: skip


class _Turn:
    """The instructions of one turn of a loop: which slots move when it is done."""

    def __init__(self, loop: Repeat, number: int):
        self.moving = set(loop.moving)
        self.number = number
        self.slots: list[tuple[int, Moving, int]] = []


def label_of(kernel: Any) -> str:
    """What a kernel does, in a few words; that of a loop nest its operations, each once."""
    if not isinstance(kernel, Kernel):
        return kernel.__class__.__name__
    names = [
        f"reduce_{n.data}" if n.op == "reduce" else name_of_row(n.data[0])
        for n in kernel.nodes
        if n.op in ("apply", "reduce")
    ]
    shown = list(dict.fromkeys(names))
    more = f"+{len(shown) - 6} more" if len(shown) > 6 else ""
    return "+".join(shown[:6]) + more or "copy"


class _Clock:
    """The records of a timed segment: two words for each kernel of each step."""

    def __init__(self, steps: Sequence[tuple[int, NativeStep]]):
        self.at: dict[tuple[int, Any], int] = {}
        self.names: list[str] = []
        self.steps: list[tuple[int, int]] = []
        for t, s in steps:
            before = len(self.names)
            for c in calls_in(s.code):
                if (t, named(c.kernel)) not in self.at:
                    self.at[t, named(c.kernel)] = len(self.names)
                    self.names.append(label_of(c.kernel))
            if len(self.names) == before:
                self.at[t, None] = before
                self.names.append("copy")
            self.steps.append((t, len(self.names) - before))
        self.words = np.zeros((len(self.names) + 1, 2), np.int64)
        # The first row: the last time, and a word for what nobody asks for.
        self.first = self.words.ctypes.data
        self.ignored = np.zeros(2, np.int64)

    def start(self, a: Assembler) -> None:
        a.time(self.first, self.ignored.ctypes.data)

    def stop(self, a: Assembler, step: int, name: Any) -> None:
        """Behind a kernel of a step; None: behind a step that has none."""
        if (step, name) in self.at:
            a.time(self.first, self.first + 16 * (1 + self.at[step, name]))

    def finish(self, a: Assembler, segment: Segment) -> None:
        a.keep(self)
        segment.times = self.words[1:]
        segment.timed_names, segment.timed_steps = self.names, self.steps


class _Writer:
    """Writes instructions as code of the machine; each memory access has a slot of its own."""

    def __init__(self, slots: list[tuple[Any, int, int]], clock: _Clock | None = None):
        self.slots = slots
        self.clock = clock
        self.assembler = Assembler()
        self.step = 0
        self.turns: list[_Turn] = []
        self.turn_of: dict[int, list[_Turn]] = {}  # of each loop, by its identity
        self.first_slot: dict[int, int] = {}  # of each instruction, by its identity

    def slot(self, spot: Spot) -> int:
        """A new slot for a spot."""
        root, offset = spot
        n = len(self.slots)
        if root.__class__ is Moving:
            self.slots.append((None, 0, self.step))
            for turn in reversed(self.turns):
                if root in turn.moving:
                    turn.slots.append((n, root, offset))
                    return n
            raise AssertionError("a moving pointer is used in its loop only")
        self.slots.append((root, offset, self.step))
        return n

    def write(self, code: Sequence[Any]) -> None:
        if self.clock is not None:
            self.clock.start(self.assembler)
        self._reserve(code)
        self._emit(code)
        if self.clock is not None:
            self.clock.stop(self.assembler, self.step, None)

    def _reserve(self, code: Sequence[Any]) -> None:
        """Slots for instructions, and for those of loops in them."""
        for i in code:
            n = len(self.slots)
            if i.__class__ is Call:
                for s in i.slots:
                    self.slot(s)
            elif i.__class__ is Copy:
                self.slot(i.target)
                self.slot(i.source)
            elif i.__class__ is Switch:
                self.slot(i.index)
                for b in i.branches:
                    self._reserve(b)
            elif i.__class__ is While:
                self.slot(i.test)
                for part in (i.before, i.first, i.second, i.after_first):
                    self._reserve(part)
            else:
                n = self._reserve_loop(i)
            self.first_slot[id(i)] = n

    def _reserve_loop(self, loop: Repeat) -> int:
        turns = [_Turn(loop, 0), _Turn(loop, 1)]
        for turn, code in zip(turns, (loop.first, loop.second), strict=True):
            self.turns.append(turn)
            self._reserve(code)
            self.turns.pop()
        # Where the moving pointers start: the counter's slot is followed by one for each.
        n = len(self.slots)
        self.slots.append((None, 0, self.step))
        for turn in turns:
            for _, moving, _ in turn.slots:
                self.slot(moving.start)
        self.turn_of[id(loop)] = turns
        return n

    def _emit(self, code: Sequence[Any]) -> None:
        a = self.assembler
        for i in code:
            n = self.first_slot[id(i)]
            if i.__class__ is Call:
                a.call(cell_of(i.kernel), n, a.numbers(i.numbers), i.count, i.chunk, len(i.slots))
                if self.clock is not None:
                    self.clock.stop(a, self.step, named(i.kernel))
            elif i.__class__ is Copy:
                a.copy(n, n + 1, i.nbytes)
            elif i.__class__ is Switch:
                self._emit_switch(i, n)
            elif i.__class__ is While:
                self._emit_while(i, n)
            else:
                self._emit_loop(i, n)

    def _emit_switch(self, i: Switch, n: int) -> None:
        a = self.assembler
        labels, end = [a.label() for _ in i.branches], a.label()
        a.switch(n, labels)
        for label, branch in zip(labels, i.branches, strict=True):
            a.place(label)
            self._emit(branch)
            a.jump(end)
        a.place(end)

    def _emit_while(self, i: While, test: int) -> None:
        a = self.assembler
        early, end = a.label(), a.label()
        self._emit(i.before)
        a.jump_unless(test, end)
        again = a.here()
        self._emit(i.first)
        a.jump_unless(test, early)
        self._emit(i.second)
        a.jump_unless(test, end)
        a.jump(again)
        a.place(early)
        self._emit(i.after_first)
        a.place(end)

    def _emit_loop(self, i: Repeat, counter: int) -> None:
        a = self.assembler
        turns = self.turn_of[id(i)]
        start = counter + 1
        for turn in turns:
            for slot, moving, offset in turn.slots:
                a.set_ptr(slot, start, offset + turn.number * moving.stride)
                start += 1
        if i.count > 1:
            a.set_int(counter, i.count // 2)
            again = a.here()
            for turn, code in zip(turns, (i.first, i.second), strict=True):
                self._emit(code)
                if turn.slots:
                    a.advance([(slot, 2 * moving.stride) for slot, moving, _ in turn.slots])
            a.loop(counter, again)
        if i.count % 2:
            self._emit(i.first)
