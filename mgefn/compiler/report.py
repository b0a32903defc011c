"""What a compiled program does, for people who want to know why it is fast or slow."""

from __future__ import annotations

from typing import NamedTuple


class StepReport(NamedTuple):
    """One step of a program.

    Attributes:
        kind: "native": kernels of LLVM code; "numpy": a kernel of the reference backend; "cupy":
            one of CuPy's; "python": a step that Python runs, such as a callback; "view": no work.
        operations: the primitives that it does.
        kernels: calls of native kernels in it, a loop's body counted once.
        flops: arithmetic operations, estimated.
        bytes: of memory read and written, estimated.
        reason: why the step is not native; empty where it is.
        source: the user's line.
    """

    kind: str
    operations: str
    kernels: int
    flops: float
    bytes: int
    reason: str
    source: str


class ProgramReport(NamedTuple):
    """All steps of a program, in order.

    Attributes:
        native_calls: how many times a call of the program enters native code from Python.
        slab_bytes, peak_bytes: the memory plan; see memory_analysis.
    """

    name: str
    steps: tuple[StepReport, ...]
    native_calls: int
    slab_bytes: int
    peak_bytes: int

    def __str__(self) -> str:
        work = [s for s in self.steps if s.kind != "view"]
        native = sum(s.kind == "native" for s in work)
        lines = [
            f"{self.name or '<unnamed>'}: {native} of {len(work)} steps are native, in "
            f"{self.native_calls} calls from Python; slab {self.slab_bytes} bytes, peak "
            f"{self.peak_bytes} bytes"
        ]
        for s in work:
            counts = f"{s.kernels} kernels, " if s.kind == "native" else ""
            why = f" because {s.reason}" if s.reason else ""
            lines.append(
                f"  {s.kind}{why}: {s.operations} ({counts}{s.flops:.3g} flops, "
                f"{s.bytes:.3g} bytes)  # {s.source}"
            )
        return "\n".join(lines)
