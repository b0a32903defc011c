"""What a compiled call does when: its steps, and the kernels in them, with a time for each.

A program that is to be timed is written once more, with a look at the clock behind each step and,
by an instruction of the machine, behind each call of a kernel. Kernels of a loop run many times:
their times are summed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from mgefn.compiler.program import Executable, native_step
from mgefn.compiler.report import StepReport
from mgefn.config import config
from mgefn.core.array import ConcreteArray
from mgefn.core.collector import collector_paused
from mgefn.core.jaxpr import ClosedJaxpr


class Span(NamedTuple):
    """Something that took time.

    Attributes:
        name: the operations, and the user's line.
        kind: "step", or "kernel" for what runs in a step.
        start, duration: nanoseconds, of the clock of time.perf_counter_ns.
        runs: how often it ran; the spans of a step's kernels stand in the order in which they
            run first, each as long as all its runs.
        about: more about it.
    """

    name: str
    kind: str
    start: int
    duration: int
    runs: int
    about: dict[str, Any]


_one_at_a_time = threading.RLock()  # the records belong to the program


class TimedProgram:
    """A jaxpr as a program that says where its time goes."""

    def __init__(self, closed: ClosedJaxpr):
        with collector_paused():
            self.program = Executable(closed, timed=True)
        self.steps = self.program.report().steps

    def __call__(self, args: Sequence[Any]) -> tuple[tuple, list[Span]]:
        """The outputs, and the spans in the order of their starts."""
        with _one_at_a_time:
            program = self.program
            program.ticks.clear()
            for segment in program.segments:
                segment.times[:] = 0
            begin = time.perf_counter_ns()
            outs = program.run([a._data for a in args])
            spans = self._spans(begin)
        jaxpr = self.program.closed.jaxpr
        return (
            tuple(
                ConcreteArray(o, a.aval.weak_type) for o, a in zip(outs, jaxpr.outs, strict=True)
            ),
            spans,
        )

    def _spans(self, begin: int) -> list[Span]:
        spans: list[Span] = []
        for number, now in self.program.ticks:
            if number >= 0:  # a step that Python runs
                spans.append(self._step(number, begin, now - begin))
            else:
                self._native(self.program.segments[-1 - number], now, spans)
            begin = now
        return spans

    def _native(self, segment: Any, end: int, spans: list[Span]) -> None:
        """The steps of a segment, ahead of the time at which it ended."""
        times = segment.times.tolist()
        at = end - sum(t for t, _ in times)
        first = 0
        for number, count in segment.timed_steps:
            own = times[first : first + count]
            kernels = segment.timed_names[first : first + count]
            first += count
            whole = sum(t for t, _ in own)
            spans.append(self._step(number, at, whole))
            if count > 1 or (own and own[0][1] > 1):
                for name, (taken, runs) in zip(kernels, own, strict=True):
                    if runs:
                        spans.append(Span(name, "kernel", at, taken, runs, {"runs": runs}))
                        at += taken
            else:
                at += whole

    def _step(self, number: int, start: int, duration: int) -> Span:
        step: StepReport = self.steps[number]
        eqn = self.program.closed.jaxpr.eqns[number]
        about: dict[str, Any] = {"kind": step.kind, "flops": step.flops, "bytes": step.bytes}
        if step.reason:
            about["reason"] = step.reason
        native = native_step(eqn)
        lines = [step.source] if native is None else self.program.lines_of(eqn, native)
        about["lines"] = "; ".join(lines)
        return Span(f"{step.operations} ({lines[0]})", "step", start, duration, 1, about)


def timed_program(closed: ClosedJaxpr) -> TimedProgram:
    """The timed program of a jaxpr, made at its first use."""
    return closed.derive(("timed program", config.jit_backend), lambda: TimedProgram(closed))
