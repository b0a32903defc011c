"""What a compiled call does when: its steps, and the kernels in them, with a time for each.

A program that is to be timed is written once more, with a look at the clock behind each step and,
by an instruction of the machine, behind each call of a kernel. Kernels of a loop run many times:
their times are summed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from mgefn import forks
from mgefn.compiler.program import Executable, native_step
from mgefn.compiler.report import StepReport
from mgefn.config import config
from mgefn.core.collector import collector_paused
from mgefn.core.jaxpr import ClosedJaxpr, Eqn


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


class TimedProgram:
    """A jaxpr as a program that says where its time goes."""

    def __init__(self, closed: ClosedJaxpr):
        with collector_paused():
            self.program = Executable(closed, timed=True)
        self._about = [
            self._described(step, eqn)
            for step, eqn in zip(
                self.program.report().steps, self.program.closed.jaxpr.eqns, strict=True
            )
        ]
        self._one_at_a_time = forks.lock()  # the records are the program's

    def __call__(self, args: Sequence[Any]) -> tuple[tuple, list[Span], int]:
        """The outputs, the spans in the order of their starts, and when the outputs were there."""
        program = self.program
        with self._one_at_a_time:
            program.ticks.clear()
            for segment in program.segments:
                segment.times[:] = 0
            begin = time.perf_counter_ns()
            outs = program(args)
            end = time.perf_counter_ns()
            return outs, self._spans(begin), end

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
            spans.append(self._step(number, at, sum(t for t, _ in own)))
            alone = count == 1 and own[0][1] <= 1  # the step says it all
            for name, (taken, runs) in zip(kernels, own, strict=True):
                if runs and not alone:
                    spans.append(Span(name, "kernel", at, taken, runs, {"runs": runs}))
                at += taken

    def _step(self, number: int, start: int, duration: int) -> Span:
        name, about = self._about[number]
        return Span(name, "step", start, duration, 1, dict(about))

    def _described(self, step: StepReport, eqn: Eqn) -> tuple[str, dict[str, Any]]:
        """A step's name, and what its spans say about it."""
        native = native_step(eqn)
        lines = [step.source] if native is None else self.program.lines_of(eqn, native)
        about: dict[str, Any] = {"kind": step.kind, "flops": step.flops, "bytes": step.bytes}
        if step.reason:
            about["reason"] = step.reason
        about["lines"] = "; ".join(lines)
        return f"{step.operations} ({lines[0]})", about


def timed_program(closed: ClosedJaxpr) -> TimedProgram:
    """The timed program of a jaxpr, made at its first use."""
    return closed.derive(("timed program", config.jit_backend), lambda: TimedProgram(closed))
