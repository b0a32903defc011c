"""Programs on a GPU: the optimized jaxpr as launches of our kernels and calls of CuPy's.

What `gpu_lowering` finds becomes launches; the rest runs by rows of the backend 'cupy', which
allocate their own results. What our kernels make and only the program reads lies in one slab,
planned when the program is made (arena.py). A call takes the slab from CuPy's pool and gives it
back when its work is queued: the pool hands memory on within one stream only, whose order keeps
calls apart.

Launches in a row may become a CUDA graph. A graph reads and writes the addresses it was captured
with, so it belongs to a frame: a slab, copies of what comes from outside, and memory for what
leaves. A frame serves one stream, and one call at a time while that queues its work.

An argument that is a transposed, reversed or broadcast view is copied into C order for a kernel
that reads it, until calls come again with the same layouts: then a program is made whose kernels
read it where it lies (device_layouts.py).

Constants, literals and the numbers of launches are copied to the device once, when the program is
made. A call starts the work in order and does not wait for it.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mgefn import forks
from mgefn.compiler import arena
from mgefn.compiler.codegen.nvptx import ptx_of
from mgefn.compiler.device_layouts import Layout, layout_of, with_layouts
from mgefn.compiler.gpu_launch import Loaded, text_of, why_unavailable
from mgefn.compiler.gpu_lowering import DeviceStep, with_device_steps
from mgefn.compiler.passes import optimized
from mgefn.compiler.report import ProgramReport, StepReport
from mgefn.compiler.steps import Fixed, Scratch
from mgefn.config import config
from mgefn.core import cuda
from mgefn.core.backends import set_device_hook
from mgefn.core.cuda import xp
from mgefn.core.device_array import DeviceArray, memory_named, on, storage_dtype, to_device
from mgefn.core.devices import Device
from mgefn.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var, last_uses
from mgefn.core.source import describe
from mgefn.errors import MgefnError
from mgefn.interpreters.on_device import evaluate_on, refused, row_of

# What a graph is worth. Estimates of what CuPy's calls take on the host, not measurements.
CALLS_BEFORE = 2  # calls of a program on a stream before its graphs are captured
LEAST_SAVED = 4  # launches that a graph must save
BYTES_A_LAUNCH = 1 << 20  # bytes that the device copies in the time of a launch
MOST_HELD = 1 << 26  # bytes of a slab that a frame may keep between calls
MOST_FRAMES = 4  # frames of a program: one for each stream that calls it
COPIED_BEFORE = 2  # calls with layouts before a program is made for them
MOST_LAYOUTS = 4  # programs for layouts of one program's arguments
PER_THREAD = 2  # CUDA's handle of the default stream of a thread

_U8, _U16 = np.dtype(np.uint8), np.dtype(np.uint16)


class DeviceMemory(NamedTuple):
    """Bytes that one call needs, as far as they are planned.

    The fields are those of MemoryAnalysis. temp_size_in_bytes is the slab; the peak is the slab
    and all that the steps make outside of it, by the types of their results.

    Attributes:
        not_counted: operations that CuPy runs. Their results are part of the peak; memory that
            CuPy and CUDA's libraries take while they compute is not.
    """

    argument_size_in_bytes: int
    output_size_in_bytes: int
    temp_size_in_bytes: int
    alias_size_in_bytes: int
    peak_memory_in_bytes: int
    generated_code_size_in_bytes: int
    not_counted: tuple[str, ...]


class _Frame:
    """Memory that graphs were captured with, and the graphs.

    Attributes:
        slab: of the program.
        held: memory of a value that enters or leaves a graph, by the value's place.
        graphs: by the number of the run.
    """

    __slots__ = ("calls", "graphs", "held", "ready", "slab", "stream")

    def __init__(self, stream: Any):
        self.stream = stream  # kept, so that no other one gets its handle
        self.calls = 0
        self.ready = False
        self.slab: Any = None
        self.held: dict[int, Any] = {}
        self.graphs: dict[int, Any] = {}


class _Row:
    """An equation that a row of the table computes."""

    __slots__ = ("device", "eqn", "freed", "guards", "ins", "kernel", "outs", "refuses", "types")

    def __init__(self, device: Device, eqn: Eqn, ins: list[int], outs: list[int],
                 freed: list[int], guards: bool):  # fmt: skip
        row = row_of(eqn.primitive, device)
        self.device, self.eqn = device, eqn
        self.kernel = None if hasattr(row, "run") else row
        self.refuses = getattr(row, "refuses", None)
        self.types = [a.aval for a in eqn.inputs]
        self.ins, self.outs, self.freed = ins, outs, freed
        self.guards = guards  # may a result be a view of the slab that the plan knows nothing of?

    def __call__(self, env: list[Any], slab: Any) -> None:
        eqn, device = self.eqn, self.device
        operands = [env[i] for i in self.ins]
        made: Sequence[Any]
        if self.kernel is None:
            arrays = [
                DeviceArray(b, device, t.dtype, t.weak_type)
                for b, t in zip(operands, self.types, strict=True)
            ]
            made = [o._data for o in evaluate_on(device, eqn.primitive, arrays, eqn.params)]
        else:
            reason = None if self.refuses is None else self.refuses(operands, eqn.params)
            if reason is not None:
                raise refused(eqn.primitive, device, reason, ", ".join(map(str, self.types)))
            with memory_named(eqn.primitive.name, device):
                made = self.kernel(*operands, **eqn.params)
        if self.guards:
            first = slab.data.ptr
            end = first + slab.nbytes
            made = [o.copy() if first <= o.data.ptr < end else o for o in made]
        for i, o in zip(self.outs, made, strict=True):
            env[i] = o
        for i in self.freed:
            env[i] = None


class _Kernels:
    """Launches of one step.

    Attributes:
        whole: places of operands that may lie in any order; they are copied into C order.
        fresh: (place, shape, dtype) of what leaves the program: each call makes it anew.
        donors: places of such -> those of operands whose memory is theirs from here on.
        seen: (place, offset, bytes, shape, dtype) of values in the slab that rows read.
        calls: each launch with the place and the offset of its slots.
    """

    __slots__ = ("calls", "device", "donors", "freed", "fresh", "label", "seen", "whole")

    def __init__(self, device: Device, label: str):
        self.device, self.label = device, label
        self.whole: list[int] = []
        self.fresh: list[tuple[int, tuple[int, ...], np.dtype]] = []
        self.donors: dict[int, int] = {}
        self.seen: list[tuple[int, int, int, tuple[int, ...], np.dtype]] = []
        self.calls: list[tuple[Loaded, list[tuple[int, int]]]] = []
        self.freed: list[int] = []

    def __call__(self, env: list[Any], slab: Any) -> None:
        with memory_named(self.label, self.device):
            for i in self.whole:
                if not env[i].flags.c_contiguous:
                    env[i] = env[i].copy(order="C")
            for i, shape, dtype in self.fresh:
                donor = self.donors.get(i)
                env[i] = xp.empty(shape, dtype) if donor is None else env[donor]
            self.launch(env)
        self.show(env, slab)
        for i in self.freed:
            env[i] = None

    def launch(self, env: list[Any]) -> None:
        for loaded, slots in self.calls:
            loaded([env[i].data.ptr + offset for i, offset in slots])

    def show(self, env: list[Any], slab: Any) -> None:
        """Arrays of what rows will read of the slab."""
        for i, offset, nbytes, shape, dtype in self.seen:
            env[i] = slab[offset : offset + nbytes].view(dtype).reshape(shape)


class _Run:
    """Steps of launches in a row, which a graph may hold.

    Attributes:
        steps: all of them; the first `captured` are the graph's, the rest stays outside.
        inputs: places that the graph reads and something outside of it writes.
        outputs: places, shapes and dtypes of what leaves, written by the graph.
        is_graph: is there less work in a graph, and does the device take one?
    """

    __slots__ = ("captured", "inputs", "is_graph", "number", "outputs", "program", "steps")

    def __init__(self, program: DeviceProgram, number: int, steps: list[_Kernels], fixed: set[int]):
        self.program, self.number, self.steps = program, number, steps
        self.is_graph = False
        self.captured = len(steps)
        # A last step that writes what leaves is one call outside, as its copy would be.
        while self.captured and 0 < len(self.steps[self.captured - 1].calls) <= len(
            self.steps[self.captured - 1].fresh
        ):
            self.captured -= 1
        inside = steps[: self.captured]
        own = {i for s in inside for i, _, _ in s.fresh} | fixed
        read = dict.fromkeys(i for s in inside for _, slots in s.calls for i, _ in slots)
        self.inputs = [i for i in read if i not in own]
        self.outputs = [f for s in inside for f in s.fresh]

    def pays(self, types: dict[int, tuple[tuple[int, ...], np.dtype]]) -> bool:
        """Is a graph less work than its launches?"""
        launches = sum(len(s.calls) for s in self.steps[: self.captured])
        copies = [types[i] for i in self.inputs] + [(s, d) for _, s, d in self.outputs]
        saved = launches - 1 - len(copies)
        moved = sum(int(np.prod(s, dtype=np.int64)) * d.itemsize for s, d in copies)
        return saved >= LEAST_SAVED and moved <= saved * BYTES_A_LAUNCH

    def __call__(self, env: list[Any], slab: Any) -> None:
        for step in self.steps:
            step(env, slab)

    def replay(self, env: list[Any], frame: _Frame) -> None:
        """The same by the frame's graph, which is captured where there is none yet."""
        program = self.program
        inside = self.steps[: self.captured]
        with memory_named("cuda graph", program.device):
            for i in self.inputs:
                write(frame.held[i], env[i])
            graph = frame.graphs.get(self.number)
            if graph is None:
                graph = self._captured(frame)
                if graph is None:
                    return self(env, frame.slab)
                frame.graphs[self.number] = graph
            graph.launch()
            for i, _, _ in self.outputs:
                env[i] = frame.held[i].copy()
        for step in inside:
            step.show(env, frame.slab)
            for i in step.freed:
                env[i] = None
        for step in self.steps[self.captured :]:
            step(env, frame.slab)
        return None

    def _captured(self, frame: _Frame) -> Any:
        """A graph of the launches, or None where the device refuses."""
        env = list(self.program.fixed)
        for i, held in frame.held.items():
            env[i] = held
        if frame.slab is not None:
            env[self.program.slab_place] = frame.slab
        # The default stream can't be captured, and nothing runs before the graph does.
        stream = xp.cuda.Stream(non_blocking=True)
        try:
            with stream:
                stream.begin_capture()
                try:
                    for step in self.steps[: self.captured]:
                        step.launch(env)
                except BaseException:
                    with contextlib.suppress(RuntimeError):  # the first one tells what is wrong
                        stream.end_capture()
                    raise
                return stream.end_capture()
        except RuntimeError as e:
            self.program.graphs_fail(e)
            return None


def write(target: Any, source: Any) -> None:
    """Elements into memory that is there, in C order."""
    if target.dtype.kind == "V":  # bfloat16, as bits
        target, source = target.view(_U16), source.view(_U16)
    target[...] = source


class DeviceProgram:
    """A jaxpr made ready for one device; `run` takes and gives CuPy's arrays.

    Args:
        quiet: is it not told that a driver refuses kernels? Others that run instead tell it.
    Attributes:
        plain: the optimized program; `closed`: the same with our kernels' steps.
        no_kernels: why it has none of our kernels, where that is so for the whole program.
        slab_bytes: of the memory plan.
        fixed: by place, what each call finds there: constants, literals, and Nones.
        programs: for arguments that are views, by their layouts.
    """

    def __init__(self, closed: ClosedJaxpr, device: Device, quiet: bool = False):
        self.plain = self.closed = optimized(closed)
        self.device, self.quiet = device, quiet
        self.no_kernels: str | None = None
        self._loaded: dict[int, list[Loaded]] = {}  # by the identity of the step
        with on(device):
            if config.jit_backend != "llvm":
                self.no_kernels = "the backend is numpy"
            else:
                self.no_kernels = why_unavailable()
            if self.no_kernels is None:
                self.closed = self._with_kernels(with_device_steps(self.plain))
            self._plan()
            self._build()
            if any(b is not None for b in self.fixed) or self._loaded:
                # Calls may come from other streams, which do not wait for this one.
                xp.cuda.get_current_stream().synchronize()
        self._lock = forks.lock()
        self._frames: dict[Any, _Frame] = {}  # idle ones by their stream, the latest last
        self._busy: set[Any] = set()  # streams whose frame a call has
        self._times: dict[tuple[Layout | None, ...], int] = {}  # calls by layouts
        self.programs: dict[tuple[Layout | None, ...], DeviceProgram] = {}  # for these

    def _with_kernels(self, closed: ClosedJaxpr) -> ClosedJaxpr:
        """The program with its kernels loaded, and equations where the driver takes none."""
        jaxpr = closed.jaxpr
        eqns: list[Eqn] = []
        failed: list[tuple[str, BaseException]] = []
        for eqn in jaxpr.eqns:
            step = _step_of(eqn)
            if step is None:
                eqns.append(eqn)
                continue
            try:
                self._loaded[id(step)] = [Loaded(launch) for launch in step.code]
                eqns.append(eqn)
            except (MgefnError, RuntimeError) as e:
                failed.append((step.label, e))
                eqns += step.eqns
        if failed and not self.quiet:
            (label, e), more = failed[0], len(failed) - 1
            also = f", nor those of {more} more steps" if more else ""
            warnings.warn(
                f"{jaxpr.name or 'jit'}: {self.device} does not take the kernel of {label}{also}: "
                f"{e}. CuPy's kernels run in their place.",
                RuntimeWarning,
                stacklevel=2,
            )
        changed = Jaxpr(jaxpr.in_binders, eqns, jaxpr.outs, jaxpr.const_binders, jaxpr.name)
        return ClosedJaxpr(changed, closed.consts)

    # -- planning -------------------------------------------------------------------------------

    def _plan(self) -> None:
        """Which values lie in the slab, and where."""
        jaxpr = self.closed.jaxpr
        made_at: dict[Var, int] = {}
        last: dict[Var, int] = {}
        leaves: set[Var] = set()
        root_of: dict[Var, Var] = {}  # what a value is a view of, where that may be in the slab
        for t, eqn in enumerate(jaxpr.eqns):
            step = _step_of(eqn)
            row = None if step is not None else row_of(eqn.primitive, self.device)
            for a in eqn.inputs:
                root = root_of.get(a) if isinstance(a, Var) else None
                if root is not None:
                    last[root] = t
                    if getattr(row, "keeps", False):
                        leaves.add(root)
            if step is not None:
                for v in eqn.out_binders:
                    root_of[v] = v
                    made_at[v] = last[v] = t
            elif eqn.primitive.view and isinstance(eqn.inputs[0], Var):
                root = root_of.get(eqn.inputs[0])
                if root is not None:
                    root_of[eqn.out_binders[0]] = root
        for a in jaxpr.outs:
            if isinstance(a, Var) and a in root_of:
                leaves.add(root_of[a])
        self._root_of, self._made = root_of, made_at
        over = self._written_over(last, leaves)
        self._donor = {v: a for v, a in over.items() if v in leaves}
        # Values that follow each other in one block are one lifetime.
        head: dict[Var, Var] = {}
        ends: dict[Var, int] = {}
        for v in made_at:
            if v not in leaves:
                head[v] = head[over[v]] if v in over else v
                ends[head[v]] = last[v]
        held = list(ends)
        lifetimes = [arena.Lifetime(made_at[v], ends[v], v.aval.nbytes) for v in held]
        for t, eqn in enumerate(jaxpr.eqns):
            step = _step_of(eqn)
            if step is not None:
                lifetimes += [arena.Lifetime(t, t, n) for n in step.scratch]
        blocks, self.slab_bytes = arena.plan(lifetimes)
        block_of = dict(zip(held, blocks, strict=False))
        self._offset = {v: block_of[h].offset for v, h in head.items()}
        rest = iter(blocks[len(held) :])
        self._scratch = {
            t: [next(rest).offset for _ in step.scratch]
            for t, eqn in enumerate(jaxpr.eqns)
            if (step := _step_of(eqn)) is not None
        }

    def _written_over(self, last: dict[Var, int], leaves: set[Var]) -> dict[Var, Var]:
        """Outputs of steps -> the operand that dies there, whose memory they take.

        One in the slab takes that of another in the slab; one that leaves that of a product, which
        a row has made for nobody else.
        """
        jaxpr = self.closed.jaxpr
        products: set[Var] = set()
        dies: dict[Var, int] = {}
        for t, (eqn, dead) in enumerate(zip(jaxpr.eqns, last_uses(jaxpr), strict=True)):
            if _step_of(eqn) is None:
                # What another row reads may live on as its result.
                products.difference_update(a for a in eqn.inputs if isinstance(a, Var))
                if getattr(row_of(eqn.primitive, self.device), "makes_new", False):
                    products.update(eqn.out_binders)
            dies.update(dict.fromkeys(dead, t))
        over: dict[Var, Var] = {}
        taken: set[Var] = set()
        for t, eqn in enumerate(jaxpr.eqns):
            step = _step_of(eqn)
            # Where threads share a place, one may read it after another has written.
            if step is None or any(getattr(launch.kernel, "once", ()) for launch in step.code):
                continue
            for n, v in enumerate(step.outputs):
                for a in (step.inputs[i] for i in step.in_place.get(n, ())):
                    if a in taken or not a.aval.same_type(v.aval):
                        continue
                    if v in leaves:
                        fits = a in products and dies.get(a) == t
                    else:
                        fits = a in self._made and a not in leaves and last[a] == t
                    if fits:
                        over[v] = a
                        taken.add(a)
                        break
        return over

    def _build(self) -> None:
        """Steps that work on a list of arrays, the environment of a call."""
        jaxpr, device = self.closed.jaxpr, self.device
        slot: dict[Any, int] = {}
        fixed: dict[int, Any] = {}

        def place(v: Any) -> int:
            return slot.setdefault(v, len(slot))

        def held(value: Any) -> Any:
            return to_device("jit", value, device, True)._data

        self.slab_place = place("slab")
        self._inputs = [place(v) for v in jaxpr.in_binders]
        for v, c in zip(jaxpr.const_binders, self.closed.consts, strict=True):
            fixed[place(v)] = held(c)

        def operand(a: Any) -> int:
            if isinstance(a, Literal):
                at = place((id(a), "literal"))
                fixed[at] = held(a.value)
                return at
            return slot[a]

        def of_slot(root: Any, t: int) -> tuple[int, int]:
            """The place of a launch's memory, and an offset there."""
            if root.__class__ is Scratch:
                return self.slab_place, self._scratch[t][root.number]
            if root.__class__ is Fixed:
                at = place(root)
                if at not in fixed:
                    fixed[at] = xp.array(np.frombuffer(root.array.tobytes(), _U8))
                return at, 0
            if root in self._offset:
                return self.slab_place, self._offset[root]
            return slot[root], 0

        read = {
            a for e in jaxpr.eqns if _step_of(e) is None for a in e.inputs if isinstance(a, Var)
        }
        types: dict[int, tuple[tuple[int, ...], np.dtype]] = {}
        items: list[Any] = []
        run: list[_Kernels] = []
        for t, (eqn, dead) in enumerate(zip(jaxpr.eqns, last_uses(jaxpr), strict=True)):
            step = _step_of(eqn)
            ins = [operand(a) for a in eqn.inputs]
            outs = [place(v) for v in eqn.out_binders]
            for v in eqn.out_binders:
                types[slot[v]] = self._type(v)
            freed = [slot[v] for v in dead if slot[v] not in fixed]
            if step is None:
                run = []
                guards = not eqn.primitive.view and any(
                    isinstance(a, Var) and self._root_of.get(a) in self._offset for a in eqn.inputs
                )
                items.append(_Row(device, eqn, ins, outs, freed, guards))
                continue
            kernels = _Kernels(device, step.label)
            for v in step.inputs:
                if v not in self._made and slot[v] not in fixed:
                    kernels.whole.append(slot[v])
            for v in step.outputs:
                if v not in self._offset:
                    kernels.fresh.append((slot[v], *self._type(v)))
                    if v in self._donor:
                        kernels.donors[slot[v]] = slot[self._donor[v]]
                elif v in read:
                    kernels.seen.append((slot[v], self._offset[v], v.aval.nbytes, *self._type(v)))
            for launch, loaded in zip(step.code, self._loaded[id(step)], strict=True):
                slots = []
                for root, offset in launch.slots:
                    at, start = of_slot(root, t)
                    slots.append((at, start + offset))
                kernels.calls.append((loaded, slots))
            kernels.freed = freed
            run.append(kernels)
            if len(run) == 1:
                items.append(run)
        self._outs = [operand(a) for a in jaxpr.outs]
        for v in jaxpr.in_binders:
            types[slot[v]] = self._type(v)
        # Constants are read where they lie, in any order of the elements but this one.
        for i, b in fixed.items():
            if not b.flags.c_contiguous:
                fixed[i] = b.copy(order="C")
        still = {*fixed, self.slab_place}
        self._items: list[_Row | _Run] = []
        self.runs: list[_Run] = []  # those that become graphs
        for item in items:
            if item.__class__ is list:
                item = _Run(self, len(self.runs), item, still)
                item.is_graph = self.slab_bytes <= MOST_HELD and item.pays(types)
                if item.is_graph:
                    self.runs.append(item)
            self._items.append(item)
        self._types = types
        whole = {i for k in self._kernels() for i in k.whole}
        self._copied = [n for n, i in enumerate(self._inputs) if i in whole]
        self.fixed = [fixed.get(i) for i in range(len(slot))]

    def _type(self, v: Var) -> tuple[tuple[int, ...], np.dtype]:
        return v.aval.shape, storage_dtype("jit", np.dtype(v.aval.dtype), self.device)

    # -- running --------------------------------------------------------------------------------

    def run(self, buffers: Sequence[Any]) -> list[Any]:
        for n in self._copied:
            if not buffers[n].flags.c_contiguous:
                program, buffers = self._for_layouts(buffers)
                if program is not self:
                    return program.run(buffers)
                break
        env = list(self.fixed)
        for i, b in zip(self._inputs, buffers, strict=True):
            env[i] = b
        with on(self.device):
            if not self.runs or config.cuda_graphs == "off":
                self._run_with(env, None)
            else:
                self._run_with_graphs(env)
        return [env[i] for i in self._outs]

    def _for_layouts(self, buffers: Sequence[Any]) -> tuple[DeviceProgram, Sequence[Any]]:
        """The program for these arguments, and what it takes; itself where there is no other."""
        layouts: list[Layout | None] = [None] * len(buffers)
        for n in self._copied:
            layouts[n] = layout_of(buffers[n])
        key = tuple(layouts)
        found = self.programs.get(key)
        if found is None:
            if not any(key):
                return self, buffers
            with self._lock:
                times = self._times.pop(key, 0) + 1
                self._times[key] = times
                if len(self._times) > 2 * MOST_LAYOUTS:
                    del self._times[next(iter(self._times))]
            if times <= COPIED_BEFORE or len(self.programs) >= MOST_LAYOUTS:
                return self, buffers
            found = DeviceProgram(with_layouts(self.plain, key), self.device, quiet=True)
            found = self.programs.setdefault(key, found)
        return found, [
            b if layout is None else layout.base(b) for b, layout in zip(buffers, key, strict=True)
        ]

    def _run_with(self, env: list[Any], frame: _Frame | None) -> None:
        slab = None if frame is None else frame.slab
        if slab is None and self.slab_bytes:
            with memory_named("jit", self.device):
                slab = xp.empty((self.slab_bytes,), _U8)
        env[self.slab_place] = slab
        for item in self._items:
            if frame is not None and isinstance(item, _Run) and item.is_graph:
                item.replay(env, frame)
            else:
                item(env, slab)

    def _run_with_graphs(self, env: list[Any]) -> None:
        """A call in the frame of the current stream; one without where another call has it."""
        stream = xp.cuda.get_current_stream()
        # The default stream of a thread has the same handle in each.
        key = stream.ptr, threading.get_ident() if stream.ptr == PER_THREAD else 0
        with self._lock:
            frame = self._frames.pop(key, None)
            if frame is None and key not in self._busy:
                frame = _Frame(stream)
            if frame is not None:
                self._busy.add(key)
        if frame is None:
            return self._run_with(env, None)
        try:
            frame.calls += 1
            ready = frame.ready or (frame.calls > CALLS_BEFORE and self._fill(frame))
            return self._run_with(env, frame if ready else None)
        finally:
            with self._lock:
                self._busy.discard(key)
                self._frames[key] = frame
                # CUDA frees a graph that still runs when it is done; memory waits in CuPy's pool.
                for k in list(self._frames)[:-MOST_FRAMES]:
                    del self._frames[k]

    def _fill(self, frame: _Frame) -> bool:
        """Take the memory that graphs are captured with, if there is so much to be had."""
        try:
            if self.slab_bytes:
                frame.slab = xp.empty((self.slab_bytes,), _U8)
            for run in self.runs:
                for i in (*run.inputs, *(i for i, _, _ in run.outputs)):
                    if i not in frame.held:
                        frame.held[i] = xp.empty(*self._types[i])
        except MemoryError:
            frame.slab = None
            frame.held.clear()
            frame.calls = 0  # a later call tries again
        else:
            frame.ready = True
        return frame.ready

    def graphs_fail(self, error: BaseException) -> None:
        """Run without graphs from now on, and say so."""
        for run in self.runs:
            run.is_graph = False
        self.runs = []
        warnings.warn(
            f"{self.closed.jaxpr.name or 'jit'}: {self.device} captures no CUDA graph: {error}. "
            "Kernels are launched one by one.",
            RuntimeWarning,
            stacklevel=2,
        )

    def __call__(self, args: Sequence[DeviceArray]) -> tuple:
        """Arrays in, arrays out."""
        outs = self.run([a._data for a in args])
        return tuple(
            [
                DeviceArray(o, self.device, a.aval.dtype, a.aval.weak_type)
                for o, a in zip(outs, self.closed.jaxpr.outs, strict=True)
            ]
        )

    # -- looking --------------------------------------------------------------------------------

    @property
    def is_kernels(self) -> bool:
        """Do kernels of ours compute all of it?"""
        eqns = self.closed.jaxpr.eqns
        return all(_step_of(e) is not None or e.primitive.view for e in eqns)

    def _launches(self) -> list[Loaded]:
        """The launches with different kernels, in their order."""
        found: dict[str, Loaded] = {}
        for loaded in self._loaded.values():
            for one in loaded:
                found.setdefault(text_of(one.launch), one)
        return list(found.values())

    def as_text(self, dialect: str | None = None) -> str:
        """The program, one step a line: where it writes, what it does, whose line asked for it.

        For the dialect "llvm" the text of its kernels instead; for "ptx" and "asm" their PTX.
        """
        if dialect == "llvm":
            return "\n".join(text_of(one.launch) for one in self._launches())
        if dialect is not None:
            return "\n".join(
                ptx_of(text_of(one.launch), one.architecture) for one in self._launches()
            )
        jaxpr = self.closed.jaxpr
        lines = [f"{jaxpr.name or '<unnamed>'} on {self.device}: slab {self.slab_bytes} bytes"]
        if self.no_kernels is not None:
            lines[0] += f"; CuPy's kernels only, because {self.no_kernels}"
        graph_of = {id(k): r.number for r in self.runs for k in r.steps[: r.captured]}
        steps = iter(self._kernels())
        for t, eqn in enumerate(jaxpr.eqns):
            outs = ", ".join(
                f"{v.aval} [slab+{self._offset[v]}]" if v in self._offset else str(v.aval)
                for v in eqn.out_binders
            )
            ins = " ".join(str(a.aval) for a in eqn.inputs)
            step, what = _step_of(eqn), eqn.primitive.name
            if step is not None:
                number = graph_of.get(id(next(steps)))
                what = f"kernel {step.label}" + ("" if number is None else f" in graph {number}")
            lines.append(f"  {t}: {outs or '()'} = {what}: {ins}  # {describe(eqn.source)}")
            if step is not None:
                others = dict.fromkeys(map(describe, step.sources or [eqn.source]))
                lines += [f"        # {line}" for line in list(others)[1:]]
        return "\n".join(lines)

    def _kernels(self) -> list[_Kernels]:
        return [k for item in self._items if isinstance(item, _Run) for k in item.steps]

    def report(self) -> ProgramReport:
        """How each step runs; operations and bytes moved."""
        steps = []
        for eqn in self.closed.jaxpr.eqns:
            step, source = _step_of(eqn), describe(eqn.source)
            if step is not None:
                found = ("native", step.label, len(step.code), step.flops, step.moved, "")
                steps.append(StepReport(*found, source))
                continue
            row = row_of(eqn.primitive, self.device)
            kind, note = "cupy", self.no_kernels or f"{eqn.primitive.name} has no kernel of ours"
            if hasattr(row, "run"):
                kind, note = "python", row.note or "it holds a program"
            elif eqn.primitive.view:
                kind, note = "view", ""
            name, work = eqn.primitive.name, flops_of(eqn)
            steps.append(StepReport(kind, name, 0, work, bytes_of(eqn), note, source))
        in_graphs = sum(len(k.calls) for r in self.runs for k in r.steps[: r.captured])
        calls = sum(len(k.calls) for k in self._kernels()) - in_graphs + len(self.runs)
        memory = self.memory_analysis()
        return ProgramReport(
            self.closed.jaxpr.name, tuple(steps), calls, self.slab_bytes,
            memory.peak_memory_in_bytes,
        )  # fmt: skip

    def cost_analysis(self) -> dict[str, float]:
        """Operations and bytes moved."""
        eqns = self.plain.jaxpr.eqns
        return {
            "flops": sum(map(flops_of, eqns)), "bytes accessed": float(sum(map(bytes_of, eqns)))
        }  # fmt: skip

    def memory_analysis(self) -> DeviceMemory:
        """Bytes that a call needs, as far as they are planned; see DeviceMemory."""
        jaxpr = self.closed.jaxpr
        leaving = set(jaxpr.outs)
        alive = peak = 0
        size: dict[Var, int] = {}
        for eqn, dead in zip(jaxpr.eqns, last_uses(jaxpr), strict=True):
            if not eqn.primitive.view:
                for v in eqn.out_binders:
                    if v in self._donor:
                        size[v] = size.pop(self._donor[v])
                    elif v not in self._offset:
                        size[v] = v.aval.nbytes
                        alive += size[v]
            peak = max(peak, alive)
            alive -= sum(size.get(v, 0) for v in dead if v not in leaving)
        others = [
            e.primitive.name for e in jaxpr.eqns if _step_of(e) is None and not e.primitive.view
        ]
        return DeviceMemory(
            argument_size_in_bytes=sum(v.aval.nbytes for v in jaxpr.in_binders),
            output_size_in_bytes=sum(a.aval.nbytes for a in jaxpr.outs),
            temp_size_in_bytes=self.slab_bytes,
            alias_size_in_bytes=0,
            peak_memory_in_bytes=self.slab_bytes + peak,
            generated_code_size_in_bytes=0,
            not_counted=tuple(dict.fromkeys(others)),
        )


def _step_of(eqn: Eqn) -> DeviceStep | None:
    step = eqn.params.get("step")
    return step if step.__class__ is DeviceStep else None


def flops_of(eqn: Eqn) -> float:
    """Arithmetic operations of a step: one per output element of elementwise arithmetic."""
    p = eqn.primitive
    if p.flops is not None:
        return float(p.flops([a.aval for a in eqn.inputs], eqn.params))
    return float(eqn.out_binders[0].aval.size) if p.elementwise else 0.0


def bytes_of(eqn: Eqn) -> int:
    """What a step reads and writes, each operand once; a view moves nothing."""
    if eqn.primitive.view:
        return 0
    return sum(a.aval.nbytes for a in (*eqn.inputs, *eqn.out_binders))


def device_program(closed: ClosedJaxpr, device: Device, quiet: bool = False) -> DeviceProgram:
    """The program of a jaxpr on a device, made at its first use."""
    key = ("device program", device, config.jit_backend, cuda.changes)
    return closed.derive(key, lambda: DeviceProgram(closed, device, quiet))


set_device_hook(device_program)
