"""Executables: a flat program of kernels that write into planned blocks.

A value of the program is an input, a constant, a block of the slab, an output (memory that leaves
with the caller), or a view of one of these. What is known when the slab is at hand (constants,
blocks, and views of them) is bound once; the rest are local variables of one generated Python
function, whose body is one statement a step. A slab with its bound function is a frame; idle frames
are kept for the next call, so a call costs its kernels and little else.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from mgefn.compiler import arena, native
from mgefn.compiler.frames import Frame, frames
from mgefn.compiler.passes import optimized
from mgefn.compiler.pool import HUGE, LARGE, has_block_alone, pool
from mgefn.compiler.report import ProgramReport, StepReport
from mgefn.compiler.steps import Fixed, NativeStep, Scratch
from mgefn.config import config
from mgefn.core import background
from mgefn.core.array import ConcreteArray
from mgefn.core.avals import ShapedArray
from mgefn.core.backends import executable_of, kernel_of, set_compile_hook
from mgefn.core.collector import collector_paused
from mgefn.core.interpreter import interpreter_set_to, quietly, state
from mgefn.core.jaxpr import Atom, ClosedJaxpr, Eqn, Literal, Var
from mgefn.core.source import describe
from mgefn.errors import UnsupportedError

SMALL_SLICE = 8  # an output view of less than an 8th of what it keeps alive is copied
LONG_RUN = 24  # fixed steps in a row that run as a loop
COPY_ABOVE = 1 << 16  # bytes of the kept array; below, a copy is not worth it


class MemoryAnalysis(NamedTuple):
    """Bytes that one call needs.

    peak_memory_in_bytes counts what the call allocates at its highest point: the slab, the outputs
    so far, and the running kernel's scratch memory; not the arguments.
    """

    argument_size_in_bytes: int
    output_size_in_bytes: int
    temp_size_in_bytes: int
    alias_size_in_bytes: int
    peak_memory_in_bytes: int
    generated_code_size_in_bytes: int


class _Value:
    """Where a variable lives: kind is "input", "const", "block", "output", "call" or "view"."""

    __slots__ = ("contiguous", "kind", "name", "root")

    def __init__(self, name: str, kind: str, root: _Value | None, contiguous: bool):
        self.name = name
        self.kind = kind
        self.root = root if root is not None else self
        self.contiguous = contiguous


class _Root:
    """Planning data of an array that a step makes."""

    __slots__ = ("aval", "donor", "first", "in_place_of", "last", "leaves")

    def __init__(self, aval: ShapedArray, first: int):
        self.aval = aval
        self.first = first
        self.last = first
        self.leaves = False
        self.in_place_of: Var | None = None
        self.donor: int | None = None


class _FixedStep(NamedTuple):
    """A step whose operands and outputs are all bound with the slab."""

    number: int
    kernel: Any
    ins: list[str]
    outs: list[str]
    params: dict[str, Any]

    def statement(self, fixed: dict[str, Any], kernel_name: Callable[[Any], str]) -> str:
        if hasattr(self.kernel, "whole_ufunc"):
            k = kernel_name(self.kernel.whole_ufunc)
            return f"{k}({', '.join(self.ins)}, out={self.outs[0]})"
        fixed[f"p{self.number}"] = self.params
        joined = "".join(f"{i}, " for i in self.ins)
        params = f", **p{self.number}" if self.params else ""
        return f"{kernel_name(self.kernel)}({joined}outs=({', '.join(self.outs)},){params})"

    def bound(self, values: dict[str, Any]) -> tuple[Callable[..., Any], tuple]:
        ins = tuple(values[i] for i in self.ins)
        outs = tuple(values[o] for o in self.outs)
        if hasattr(self.kernel, "whole_ufunc"):
            if self.kernel.out_by_position:
                return self.kernel.whole_ufunc, (*ins, outs[0])
            return functools.partial(self.kernel.whole_ufunc, out=outs[0]), ins
        return functools.partial(self.kernel, outs=outs, **self.params), ins


def may_write_over(eqn: Eqn, i: int, out: int = 0) -> bool:
    """May an output of a step be the block of operand i?"""
    step = native_step(eqn)
    if step is not None:
        return i in step.in_place.get(out, ())
    allowed = getattr(kernel_of(eqn.primitive), "in_place", False)
    return allowed if isinstance(allowed, bool) else i in allowed


def native_step(eqn: Eqn) -> NativeStep | None:
    """The kernel calls of an equation that fusion made."""
    step = eqn.params.get("step")
    return step if step.__class__ is NativeStep else None


def is_view_step(eqn: Eqn, contiguous: bool) -> bool:
    """Does the NumPy kernel of this equation give a view of its operand?"""
    p = eqn.primitive
    if not p.view:
        return False
    return contiguous or p.name != "reshape"


def stays_contiguous(eqn: Eqn) -> bool:
    """Is a view of a contiguous array by this equation contiguous?"""
    x, out = eqn.inputs[0].aval, eqn.out_binders[0].aval
    name = eqn.primitive.name
    if name == "reshape":
        return True
    if name == "broadcast_in_dim":
        return x.size == out.size
    if name == "slice" and x.shape:
        rest = eqn.params["start_indices"][1:]
        return x.shape[1:] == out.shape[1:] and not any(rest) and eqn.params["strides"][0] == 1
    return out.size <= 1


class Executable:
    """A compiled jaxpr; `run` takes and gives NumPy arrays.

    With `timed`, `ticks` gets the number of each step that Python runs, and -1 - i of segment i,
    with the time of its end; see timeline.py.
    """

    def __init__(self, closed: ClosedJaxpr, donated: tuple[bool, ...] = (), timed: bool = False):
        first_call = background.begin()
        try:
            self.timed = timed
            self.ticks: list[tuple[int, int]] = []
            self.plain = self.closed = optimized(closed)
            self.backend = config.jit_backend
            if native.enabled():
                self.closed = native.with_native_steps(self.plain)
            self.donated = donated
            self.idle: list[Frame] = []
            self.robbed = False  # has another program taken the slab of an idle frame?
            self._plan()
        finally:
            background.end(first_call)

    # -- planning -------------------------------------------------------------------------------

    def _plan(self) -> None:
        jaxpr = self.closed.jaxpr
        root_of: dict[Var, Var] = {}
        kind: dict[Var, str] = {}
        contiguous: dict[Var, bool] = {}
        roots: dict[Var, _Root] = {}
        for v in jaxpr.in_binders:
            root_of[v], kind[v], contiguous[v] = v, "input", False
        for v in jaxpr.const_binders:
            root_of[v], kind[v], contiguous[v] = v, "const", False
        input_last: dict[Var, int] = {}
        views: set[int] = set()
        for t, eqn in enumerate(jaxpr.eqns):
            for a in eqn.inputs:
                if isinstance(a, Var):
                    r = root_of[a]
                    if r in roots:
                        roots[r].last = t
                    else:
                        input_last[r] = t
            first = eqn.inputs[0] if eqn.inputs else None
            if isinstance(first, Var) and is_view_step(
                eqn, contiguous[first] or kind[root_of[first]] in ("input", "const")
            ):
                v = eqn.out_binders[0]
                root_of[v], kind[v] = root_of[first], "view"
                contiguous[v] = contiguous[first] and stays_contiguous(eqn)
                views.add(t)
                continue
            own = "block"
            if native_step(eqn) is None and kernel_of(eqn.primitive) is None:
                own = "call"
            for v in eqn.out_binders:
                root_of[v], kind[v], contiguous[v] = v, own, True
                roots[v] = _Root(v.aval, t)
        n = len(jaxpr.eqns)
        self._copied: set[int] = set()
        for i, a in enumerate(jaxpr.outs):
            if isinstance(a, Var):
                r = root_of[a]
                big = r.aval.nbytes
                if kind[a] == "view" and big > COPY_ABOVE and a.aval.nbytes * SMALL_SLICE < big:
                    self._copied.add(i)
                    if r in roots:
                        roots[r].last = n
                elif r in roots:
                    roots[r].leaves = True
                    roots[r].last = n
                    if kind[r] == "block":
                        kind[r] = "output"
        self._views, self._kind, self._root_of, self._roots = views, kind, root_of, roots
        self._share_in_place(jaxpr.eqns)
        self._take_donations(input_last)
        self._lay_out()
        self._write()

    def _share_in_place(self, eqns: list[Eqn]) -> None:
        """Let an output take the block of an operand that dies in the step."""
        kind = self._kind
        taken: set[Var] = set()
        for t, eqn in enumerate(eqns):
            if t in self._views:
                continue
            if native_step(eqn) is None and len(eqn.out_binders) != 1:
                continue
            for n, out in enumerate(eqn.out_binders):
                if kind[out] == "block":
                    self._take_operand(t, eqn, n, out, taken)

    def _take_operand(self, t: int, eqn: Eqn, n: int, out: Var, taken: set[Var]) -> None:
        roots, kind, root_of = self._roots, self._kind, self._root_of
        for i, a in enumerate(eqn.inputs):
            if (
                isinstance(a, Var)
                and may_write_over(eqn, i, n)
                and kind[a] == "block"
                and roots[a].last == t
                and a.aval.same_type(out.aval)
                and a.aval.nbytes > 0
                and a not in taken
                and not any(
                    b is not a and isinstance(b, Var) and root_of[b] is a for b in eqn.inputs
                )
            ):
                roots[out].in_place_of = a
                taken.add(a)
                break

    def _take_donations(self, input_last: dict[Var, int]) -> None:
        """Match donated inputs with outputs of their type that are made once they are dead."""
        self._donors: list[int] = []
        if not any(self.donated):
            return
        jaxpr = self.closed.jaxpr
        roots, kind = self._roots, self._kind
        forwarded = {self._root_of[a] for a in jaxpr.outs if isinstance(a, Var)}
        outputs = [v for v, r in roots.items() if kind[v] == "output"]
        for i, (v, flag) in enumerate(zip(jaxpr.in_binders, self.donated, strict=True)):
            if not flag or v in forwarded or v.aval.nbytes == 0:
                continue
            last = input_last.get(v, -1)
            for out in outputs:
                root = roots[out]
                if root.donor is not None or not out.aval.same_type(v.aval):
                    continue
                eqn = jaxpr.eqns[root.first]
                at_once = root.first == last and all(
                    may_write_over(eqn, i, eqn.out_binders.index(out))
                    if a is v
                    else not (isinstance(a, Var) and self._root_of[a] is v)
                    for i, a in enumerate(eqn.inputs)
                )
                if root.first > last or at_once:
                    root.donor = i
                    self._donors.append(i)
                    break

    def _lay_out(self) -> None:
        """Offsets in the slab, scratch of each step, and the peak."""
        roots, kind = self._roots, self._kind
        eqns = self.closed.jaxpr.eqns
        # Values that follow each other in place are one lifetime.
        head: dict[Var, Var] = {}
        span: dict[Var, list[int]] = {}
        for v, r in roots.items():
            if kind[v] != "block" or v.aval.nbytes == 0:
                continue
            h = head[v] = head[r.in_place_of] if r.in_place_of is not None else v
            if h is v:
                span[v] = [r.first, r.last]
            else:
                span[h][1] = r.last
        heads = list(span)
        lifetimes = [arena.Lifetime(span[h][0], span[h][1], h.aval.nbytes) for h in heads]
        # Native steps have their scratch memory in the slab.
        for t, eqn in enumerate(eqns):
            step = native_step(eqn)
            if step is not None:
                lifetimes += [arena.Lifetime(t, t, n) for n in step.scratch]
        blocks, self.slab_bytes = arena.plan(lifetimes)
        block_of = dict(zip(heads, blocks, strict=False))
        rest = iter(blocks[len(heads) :])
        self._native_scratch = {
            t: [next(rest).offset for _ in step.scratch]
            for t, eqn in enumerate(eqns)
            if (step := native_step(eqn)) is not None
        }
        self._offset = {v: block_of[h].offset for v, h in head.items()}
        alive = alias = 0
        dies: dict[int, int] = {}
        peak = 0
        self._scratch: list[int] = []
        for t, eqn in enumerate(eqns):
            scratch = 0
            if t not in self._views:
                scratch = step_scratch(eqn)
                for v in eqn.out_binders:
                    if kind[v] in ("output", "call"):
                        if roots[v].donor is not None:
                            alias += v.aval.nbytes
                        else:
                            alive += v.aval.nbytes
                            if kind[v] == "call" and not roots[v].leaves:
                                dies[roots[v].last] = dies.get(roots[v].last, 0) + v.aval.nbytes
            self._scratch.append(scratch)
            peak = max(peak, alive + scratch)
            alive -= dies.get(t, 0)
        outs = self.closed.jaxpr.outs
        copies = sum(outs[i].aval.nbytes for i in self._copied)
        peak = max(peak, alive + copies)
        self.memory = MemoryAnalysis(
            argument_size_in_bytes=sum(v.aval.nbytes for v in self.closed.jaxpr.in_binders),
            output_size_in_bytes=sum(a.aval.nbytes for a in outs),
            temp_size_in_bytes=self.slab_bytes + max(self._scratch, default=0),
            alias_size_in_bytes=alias,
            peak_memory_in_bytes=self.slab_bytes + peak,
            generated_code_size_in_bytes=0,
        )

    # -- writing the function -------------------------------------------------------------------

    def _write(self) -> None:
        jaxpr = self.closed.jaxpr
        names: dict[Var, str] = {}
        fixed: dict[str, Any] = {"_empty": np.empty, "_asarray": np.asarray}
        if self.timed:
            fixed["_tick"] = self._tick
        static: set[Var] = set()  # bound once for each slab
        body: list[str | _FixedStep] = []
        binds: list[tuple[str, Eqn | None, Var, Sequence[str]]] = []  # what a new slab must bind
        self._literals: dict[str, Any] = fixed
        for i, v in enumerate(jaxpr.in_binders):
            names[v] = f"a{i}"
        for i, (v, c) in enumerate(zip(jaxpr.const_binders, self.closed.consts, strict=True)):
            names[v] = f"c{i}"
            fixed[names[v]] = c._data
            static.add(v)
        literal_names: dict[Any, str] = {}

        def name_of(a: Atom) -> str:
            if isinstance(a, Var):
                return names[a]
            data = a.value._data
            key = (data.dtype, data.tobytes())
            found = literal_names.get(key)
            if found is None:
                found = literal_names[key] = f"l{len(literal_names)}"
                fixed[found] = data
            return found

        kernel_names: dict[int, str] = {}

        def kernel_name(kernel: Any) -> str:
            found = kernel_names.get(id(kernel))
            if found is None:
                found = kernel_names[id(kernel)] = f"k{len(kernel_names)}"
                fixed[found] = kernel
            return found

        counter = 0
        self.segments: list[native.Segment] = []
        run_of: list[tuple[int, Eqn]] = []  # native steps that are to be one segment

        def flush() -> None:
            if run_of:
                body.extend(self._segment(run_of, names, static))
                run_of.clear()

        for t, eqn in enumerate(jaxpr.eqns):
            if native_step(eqn) is not None:
                for v in eqn.out_binders:
                    names[v] = f"v{counter}"
                    counter += 1
                    if self._kind[v] == "block":
                        static.add(v)
                        binds.append((names[v], None, v, ()))
                    else:
                        body.append(self._make_output(t, v, names[v], fixed))
                run_of.append((t, eqn))
                continue
            ins = [name_of(a) for a in eqn.inputs]
            known = all(isinstance(a, Literal) or a in static for a in eqn.inputs)
            outs = eqn.out_binders
            if t in self._views:
                (v,) = outs
                names[v] = f"v{counter}"
                counter += 1
                if known:
                    static.add(v)
                    binds.append((names[v], eqn, v, ins))
                else:
                    flush()
                    fixed[f"p{t}"] = eqn.params
                    k = kernel_name(eqn.primitive.kernels["numpy"])
                    body.append(f"({names[v]},) = {k}({', '.join(ins)}, **p{t})")
                continue
            flush()
            for v in outs:
                names[v] = f"v{counter}"
                counter += 1
                if self._kind[v] == "block":
                    static.add(v)
                    binds.append((names[v], None, v, ()))
            targets = ", ".join(names[v] for v in outs)
            if self._kind[outs[0]] == "call" if outs else "numpy" not in eqn.primitive.kernels:
                call = f"x{t}"
                fixed[call] = call_step(eqn)
                left = f"{targets}, = " if outs else ""
                body.append(f"{left}{call}([{', '.join(ins)}])")
                gone = [
                    names[v] for v in outs if not self._roots[v].leaves and self._roots[v].last == t
                ]
                if gone:
                    body.append(f"del {', '.join(gone)}")
            elif known and outs and all(self._kind[v] == "block" for v in outs):
                kernel = eqn.primitive.kernels["numpy"]
                body.append(_FixedStep(t, kernel, ins, [names[v] for v in outs], eqn.params))
            else:
                body += self._kernel_statements(t, eqn, ins, names, fixed, kernel_name)
            for a in {a for a in eqn.inputs if isinstance(a, Var)}:
                if (
                    self._kind[a] == "call"
                    and not self._roots[a].leaves
                    and self._roots[a].last == t
                ):
                    body.append(f"del {names[a]}")
            if self.timed:
                body.append(f"_tick({t})")
        flush()
        results = []
        self._input_rooted: list[int] = []
        for i, a in enumerate(jaxpr.outs):
            text = name_of(a)
            if isinstance(a, Var):
                if self._kind[self._root_of[a]] == "input" and i not in self._copied:
                    self._input_rooted.append(i)
                if i in self._copied:
                    text += ".copy()"
            results.append(text)
        self._binds = binds
        arguments = [names[v] for v in jaxpr.in_binders]
        head = "def run(buffers, donors):\n"
        if arguments:
            head += f"    {', '.join(arguments)}, = buffers\n"
        fixed["_whole"] = _whole
        lines = "".join(f"    {line}\n" for line in self._grouped(body, fixed, kernel_name))
        source = f"{head}{lines}    return [{', '.join(results)}]\n"
        self._source = source
        self._code = compile(source, f"<program {jaxpr.name}>", "exec")

    def _segment(
        self, steps: list[tuple[int, Eqn]], names: dict[Var, str], static: set[Var]
    ) -> list[str]:
        """The statements that run native steps in a row."""
        segment = native.Segment([(t, e.params["step"]) for t, e in steps], self.timed)
        arguments: dict[str, int] = {}
        lines: list[str] = []
        for slot, (root, offset, t) in enumerate(segment.slots):
            if root is None or root.__class__ is Fixed:
                continue
            if root.__class__ is Scratch:
                segment.static.append((slot, None, self._native_scratch[t][root.number] + offset))
            elif root in static:
                segment.static.append((slot, names[root], offset))
            else:
                if names[root] not in arguments and self._kind[root] != "output":
                    # What the caller or another program made may lie in any order.
                    n = names[root]
                    lines.append(f"if not {n}.flags.c_contiguous: {n} = _whole({n})")
                n = arguments.setdefault(names[root], len(arguments))
                segment.fixups.append((n, slot, offset))
        segment.arguments = list(arguments)
        name = f"n{len(self.segments)}"
        self.segments.append(segment)
        lines.append(f"{name}({', '.join(arguments)})")
        if self.timed:
            lines.append(f"_tick({-len(self.segments)})")
        return lines

    def _tick(self, number: int) -> None:
        self.ticks.append((number, time.perf_counter_ns()))

    def _grouped(
        self,
        body: list[str | _FixedStep],
        fixed: dict[str, Any],
        kernel_name: Callable[[Any], str],
    ) -> list[str]:
        """Statements; long runs of fixed steps become loops, which need no compiling."""
        self._groups: list[list[_FixedStep]] = []
        lines: list[str] = []
        at = 0
        while at < len(body):
            end = at
            while end < len(body) and isinstance(body[end], _FixedStep):
                end += 1
            if end - at > LONG_RUN:
                name = f"g{len(self._groups)}"
                self._groups.append(body[at:end])  # type: ignore[arg-type]  # all fixed steps
                lines += [f"for f, a in {name}:", "    f(*a)"]
                at = end
                continue
            item = body[at]
            if isinstance(item, _FixedStep):
                lines.append(item.statement(fixed, kernel_name))
            else:
                lines.append(item)
            at += 1
        return lines

    def _kernel_statements(
        self, t: int, eqn: Eqn, ins: list[str], names: dict[Var, str], fixed: dict[str, Any],
        kernel_name: Callable[[Any], str],
    ) -> list[str]:  # fmt: skip
        kernel = eqn.primitive.kernels["numpy"]
        outs = eqn.out_binders
        statements = []
        if hasattr(kernel, "whole_ufunc"):
            (v,) = outs
            name, k = names[v], kernel_name(kernel.whole_ufunc)
            if self._kind[v] == "block":
                return [f"{k}({', '.join(ins)}, out={name})"]
            root = self._roots[v]
            if root.donor is None and v.aval.nbytes < LARGE:
                made = f"{k}({', '.join(ins)})"
                # On rank 0 a ufunc gives a scalar.
                return [f"{name} = _asarray({made})" if not v.aval.shape else f"{name} = {made}"]
            statements.append(self._make_output(t, v, name, fixed))
            return [*statements, f"{k}({', '.join(ins)}, out={name})"]
        targets = []
        for v in outs:
            targets.append(names[v])
            if self._kind[v] == "output":
                statements.append(self._make_output(t, v, names[v], fixed))
        fixed[f"p{t}"] = eqn.params
        given = f"({', '.join(targets)},)" if targets else "()"
        joined = "".join(f"{i}, " for i in ins)
        params = f", **p{t}" if eqn.params else ""
        statements.append(f"{kernel_name(kernel)}({joined}outs={given}{params})")
        return statements

    def _make_output(self, t: int, v: Var, name: str, fixed: dict[str, Any]) -> str:
        aval = v.aval
        fixed[f"s{name}"], fixed[f"d{name}"] = aval.shape, aval.dtype
        if aval.nbytes >= LARGE:
            fixed["_large"] = pool.output
            made = f"_large(s{name}, d{name}, {aval.nbytes})"
        else:
            made = f"_empty(s{name}, d{name})"
        donor = self._roots[v].donor
        if donor is None:
            return f"{name} = {made}"
        return f"{name} = donors[{donor}] if donors[{donor}] is not None else {made}"

    def _bind(self) -> Frame:
        """A function of the program over a slab of its own."""
        values = dict(self._literals)
        if self.slab_bytes >= LARGE:
            # For their memory to be this one's.
            frames.shrink(max(0, pool.limit - self.slab_bytes))
            if self.slab_bytes >= HUGE:
                frames.make_way(self.slab_bytes)
        slab = pool.take(self.slab_bytes) if self.slab_bytes else None
        views: dict[Any, np.ndarray] = {}  # values that follow each other in place share one
        for name, eqn, v, ins in self._binds:
            if eqn is None:
                aval = v.aval
                if aval.nbytes == 0 or slab is None:
                    values[name] = np.empty(aval.shape, aval.dtype)
                else:
                    key = (self._offset[v], aval.shape, aval.dtype)
                    view = views.get(key)
                    if view is None:
                        view = views[key] = np.ndarray(aval.shape, aval.dtype, slab, key[0])
                    values[name] = view
            else:
                kernel = eqn.primitive.kernels["numpy"]
                (values[name],) = kernel(*(values[i] for i in ins), **eqn.params)
        for i, segment in enumerate(self.segments):
            values[f"n{i}"] = segment.bound(values, slab)
        for i, group in enumerate(self._groups):
            values[f"g{i}"] = [step.bound(values) for step in group]
        exec(self._code, values)
        return Frame(values["run"], slab)

    def kernel_origins(self) -> dict[str, int]:
        """How many native kernels were in memory, came from the disk, or were compiled for it."""
        origins: dict[str, int] = {}
        for segment in self.segments:
            for origin, count in segment.origins.items():
                origins[origin] = origins.get(origin, 0) + count
        return origins

    # -- running --------------------------------------------------------------------------------

    def run(self, buffers: list[np.ndarray], borrowed: bool = False) -> list[np.ndarray]:
        """The outputs; `borrowed` says that a caller can still write one of the buffers."""
        frame, first_call = frames.take(self), None
        try:
            if frame is None:
                first_call = background.begin()
                with collector_paused():
                    frame = self._bind()
            donors = self.owned(buffers) if self._donors else None
            try:
                outs = state.quiet(frame.run, buffers, donors)
            except RuntimeError as e:
                if "cannot enter context" not in str(e):
                    raise
                outs = quietly(frame.run, buffers, donors)
        finally:
            if frame is not None:
                frames.give(self, frame)
            if first_call is not None:
                background.end(first_call)
        if borrowed and self._input_rooted:
            for i in self._input_rooted:
                outs[i] = outs[i].copy()
        return outs

    def hold(self) -> Frame:
        """A frame for many runs in a row; to be given back by `release`.

        frame.run(buffers, donors) gives the outputs. Whoever calls it turns warnings off, and
        passes donors, what `owned` gives, where `takes_donors`.
        """
        frame = frames.take(self)
        return self._bind() if frame is None else frame

    def release(self, frame: Frame) -> None:
        frames.give(self, frame)

    @property
    def takes_donors(self) -> bool:
        """Does any output take the memory of an input?"""
        return bool(self._donors)

    def __call__(self, args: Sequence[Any]) -> tuple:
        """Arrays in, Arrays out."""
        outs = self.run([a._data for a in args])
        return tuple(
            [
                ConcreteArray(o, a.aval.weak_type)
                for o, a in zip(outs, self.closed.jaxpr.outs, strict=True)
            ]
        )

    def owned(self, buffers: list[np.ndarray]) -> list[np.ndarray | None]:
        """The donated buffers that nothing else holds."""
        donors: list[np.ndarray | None] = [None] * len(buffers)
        for i in self._donors:
            b = buffers[i]
            # References: the list, b, and the argument of getrefcount.
            alone = sys.getrefcount(b) == 3
            if alone and b.flags.writeable and b.flags.c_contiguous and _owns(b):
                donors[i] = b
        return donors

    # -- looking --------------------------------------------------------------------------------

    def memory_analysis(self) -> MemoryAnalysis:
        code = len(self._code.co_consts[0].co_code) if self._code.co_consts else 0
        return self.memory._replace(generated_code_size_in_bytes=code)

    def cost_analysis(self) -> dict[str, float]:
        flops = moved = 0.0
        for eqn in self.plain.jaxpr.eqns:
            flops += step_flops(eqn)
            moved += sum(a.aval.nbytes for a in eqn.inputs)
            moved += sum(v.aval.nbytes for v in eqn.out_binders)
        return {"flops": flops, "bytes accessed": moved}

    def report(self) -> ProgramReport:
        """Each step with how it runs and why."""
        steps = []
        for t, eqn in enumerate(self.closed.jaxpr.eqns):
            p, step = eqn.primitive, native_step(eqn)
            moved = sum(a.aval.nbytes for a in (*eqn.inputs, *eqn.out_binders))
            if step is not None:
                found = ("native", step.label, native.kernels_in(step.code))
                steps.append(StepReport(*found, step.flops, step.moved, "", describe(eqn.source)))
                continue
            if t in self._views:
                kind, reason = "view", ""
            elif kernel_of(p) is not None:
                kind, reason = "numpy", self._why_not(eqn)
            else:
                kind, reason = "python", self._why_not(eqn)
            steps.append(
                StepReport(kind, p.name, 0, step_flops(eqn), moved, reason, describe(eqn.source))
            )
        return ProgramReport(
            self.closed.jaxpr.name, tuple(steps), len(self.segments), self.slab_bytes,
            self.memory.peak_memory_in_bytes,
        )  # fmt: skip

    def lines_of(self, eqn: Eqn, step: NativeStep) -> list[str]:
        """The user's lines that a native step is made of, each once."""
        sources = step.sources or [eqn.source]
        return list(dict.fromkeys(describe(s) for s in sources))

    def _why_not(self, eqn: Eqn) -> str:
        return native.why_not(eqn) if self.backend == "llvm" else "the backend is numpy"

    def kernel_texts(self) -> list[str]:
        """LLVM text of the kernels, each once."""
        calls = [
            c
            for eqn in self.closed.jaxpr.eqns
            if (step := native_step(eqn)) is not None
            for c in native.calls_in(step.code)
        ]
        return [native.text_of(k) for _, k in dict.fromkeys(native.named(c.kernel) for c in calls)]

    def as_text(self, dialect: str | None = None) -> str:
        """The program, one step a line: where it writes, what it does, whose line asked for it.

        For the dialects "llvm" and "asm" its native kernels instead.
        """
        if dialect is not None:
            texts = self.kernel_texts()
            if dialect == "asm":
                texts = [native.engine.asm_of(text) for text in texts]
            return "\n".join(texts)
        lines = [
            f"program {self.closed.jaxpr.name or '<unnamed>'}: slab {self.slab_bytes} bytes, "
            f"peak {self.memory.peak_memory_in_bytes} bytes"
        ]
        for t, eqn in enumerate(self.closed.jaxpr.eqns):
            outs = []
            for v in eqn.out_binders:
                place = "view" if t in self._views else self._kind[v]
                if v in self._offset:
                    place = f"slab+{self._offset[v]}"
                outs.append(f"{v.aval} [{place}]")
            operands = " ".join(str(a.aval) for a in eqn.inputs)
            step = native_step(eqn)
            what = eqn.primitive.name if step is None else f"native {step.label}:"
            lines.append(
                f"  {t}: {', '.join(outs) or '()'} = {what} {operands}  # {describe(eqn.source)}"
            )
            if step is not None:
                lines += [f"        # {line}" for line in self.lines_of(eqn, step)[1:]]
        return "\n".join(lines)


def _whole(a: np.ndarray) -> np.ndarray:
    """An array in row-major order, as native code reads it."""
    return np.array(a, order="C")


def _owns(b: np.ndarray) -> bool:
    """Does the array own its memory, alone or through a block of the pool?"""
    return b.base is None or has_block_alone(b)


def step_scratch(eqn: Eqn) -> int:
    """Bytes that a step allocates beyond its outputs."""
    if native_step(eqn) is not None:
        return 0  # in the slab
    kernel = eqn.primitive.kernels.get("numpy")
    in_avals = [a.aval for a in eqn.inputs]
    out_avals = [v.aval for v in eqn.out_binders]
    if kernel is not None:
        bound = getattr(kernel, "temp_bytes", None)
        return 0 if bound is None else bound(in_avals, out_avals, **eqn.params)
    if eqn.primitive.scratch is not None:
        return eqn.primitive.scratch(eqn)
    inner = eqn.primitive.inlined(eqn.params) if eqn.primitive.inlined is not None else None
    if inner is None:
        return 0
    memory = executable_of(inner).memory_analysis()
    return max(memory.peak_memory_in_bytes - memory.output_size_in_bytes, 0)


def step_flops(eqn: Eqn) -> float:
    """Arithmetic operations of a step: one per output element of elementwise arithmetic."""
    p = eqn.primitive
    if p.flops is not None:
        return float(p.flops([a.aval for a in eqn.inputs], eqn.params))
    return float(eqn.out_binders[0].aval.size) if p.elementwise else 0.0


def call_step(eqn: Eqn) -> Callable[[list], Sequence]:
    """The function that runs a step without a kernel: an inner program or a primitive's own way."""
    p = eqn.primitive
    inner = p.inlined(eqn.params) if p.inlined is not None else None
    if inner is not None:
        executable = executable_of(inner)
        # The operands may be blocks that are reused, so no output may look at them.
        return lambda buffers: executable.run(buffers, True)
    if p.evaluate is None:
        reason = p.unsupported.get("numpy", "no kernel is registered")
        raise UnsupportedError(f"{p.name}: backend 'numpy' has no kernel: {reason}.")
    evaluate, params = p.evaluate, eqn.params
    weak = [a.aval.weak_type for a in eqn.inputs]
    backend = config.jit_backend

    def call(buffers: list) -> list:
        if config.jit_backend != backend:
            # The programs that it holds run where this one does.
            with config.override(jit_backend=backend):
                return call(buffers)
        with interpreter_set_to(None):
            outs = evaluate(tuple(map(ConcreteArray, buffers, weak)), params)
        results = []
        for o in outs:
            data = o._data
            shared = any(np.may_share_memory(data, b) for b in buffers)
            results.append(data.copy() if shared else data)
        return results

    return call


def compile_jaxpr(closed: ClosedJaxpr, donated: tuple[bool, ...] = ()) -> Executable:
    """The program of a jaxpr on the NumPy backend."""
    with collector_paused():
        return Executable(closed, donated)


set_compile_hook(compile_jaxpr)
