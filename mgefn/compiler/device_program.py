"""Programs on a GPU: the optimized jaxpr, run kernel by kernel on one stream.

Constants and literals are copied to the device once, when the program is made. A call starts the
kernels in order and does not wait for them; a value's memory goes back to CuPy's pool at its last
use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mgefn.compiler.passes import optimized
from mgefn.compiler.report import ProgramReport, StepReport
from mgefn.core.backends import set_device_hook
from mgefn.core.cuda import xp
from mgefn.core.device_array import DeviceArray, memory_named, on, to_device
from mgefn.core.devices import Device
from mgefn.core.jaxpr import ClosedJaxpr, Eqn, Literal, last_uses
from mgefn.core.source import describe
from mgefn.errors import UnsupportedError
from mgefn.interpreters.on_device import evaluate_on, refused, row_of


class DeviceProgram:
    """A jaxpr made ready for one device; `run` takes and gives the library's arrays."""

    def __init__(self, closed: ClosedJaxpr, device: Device):
        self.closed = optimized(closed)
        self.device = device
        jaxpr = self.closed.jaxpr
        slot: dict[Any, int] = {}

        def place(v: Any) -> int:
            return slot.setdefault(v, len(slot))

        self._inputs = [place(v) for v in jaxpr.in_binders]
        fixed: dict[int, Any] = {}

        def held(value: Any) -> Any:
            return to_device("jit", value, device, True)._data

        for v, c in zip(jaxpr.const_binders, self.closed.consts, strict=True):
            fixed[place(v)] = held(c)

        def operand(a: Any) -> int:
            if isinstance(a, Literal):
                at = place((id(a), "literal"))
                fixed[at] = held(a.value)
                return at
            return slot[a]

        self._steps: list[tuple] = []
        for eqn, dead in zip(jaxpr.eqns, last_uses(jaxpr), strict=True):
            row = row_of(eqn.primitive, device)
            ins = [operand(a) for a in eqn.inputs]
            outs = [place(v) for v in eqn.out_binders]
            freed = [slot[v] for v in dead if slot[v] not in fixed]
            types = [a.aval for a in eqn.inputs]
            is_kernel = not hasattr(row, "run")
            self._steps.append(
                (row if is_kernel else None, eqn.primitive, eqn.params, ins, types, outs, freed)
            )
        self._outs = [operand(a) for a in jaxpr.outs]
        self._fixed = list(fixed.items())
        if fixed:
            # Calls may come from other streams, which do not wait for this one.
            with on(device):
                xp.cuda.get_current_stream().synchronize()
        self._size = len(slot)

    def run(self, buffers: Sequence[Any]) -> list[Any]:
        env: list[Any] = [None] * self._size
        for i, b in self._fixed:
            env[i] = b
        for i, b in zip(self._inputs, buffers, strict=True):
            env[i] = b
        device = self.device
        with on(device):
            for kernel, primitive, params, ins, types, outs, freed in self._steps:
                operands = [env[i] for i in ins]
                if kernel is None:
                    arrays = [
                        DeviceArray(b, device, t.dtype, t.weak_type)
                        for b, t in zip(operands, types, strict=True)
                    ]
                    made = [o._data for o in evaluate_on(device, primitive, arrays, params)]
                else:
                    refuses = getattr(kernel, "refuses", None)
                    reason = None if refuses is None else refuses(operands, params)
                    if reason is not None:
                        raise refused(primitive, device, reason, ", ".join(map(str, types)))
                    with memory_named(primitive.name, device):
                        made = kernel(*operands, **params)
                for i, o in zip(outs, made, strict=True):
                    env[i] = o
                for i in freed:
                    env[i] = None
        return [env[i] for i in self._outs]

    # -- looking --------------------------------------------------------------------------------

    def as_text(self, dialect: str | None = None) -> str:
        """The program, one step a line."""
        lines = [f"{self.closed.jaxpr.name or '<unnamed>'} on {self.device}:"]
        for eqn in self.closed.jaxpr.eqns:
            outs = ", ".join(str(v.aval) for v in eqn.out_binders)
            ins = ", ".join(str(a.aval) for a in eqn.inputs)
            lines.append(f"  {eqn.primitive.name}({ins}) -> {outs}  # {describe(eqn.source)}")
        return "\n".join(lines)

    def report(self) -> ProgramReport:
        """How each step runs; operations and bytes moved."""
        steps = []
        for eqn, step in zip(self.closed.jaxpr.eqns, self._steps, strict=True):
            kind = "python" if step[0] is None else "view" if eqn.primitive.view else "cupy"
            row = row_of(eqn.primitive, self.device)
            note = row.note or "it holds a program" if step[0] is None else ""
            steps.append(
                StepReport(
                    kind, eqn.primitive.name, 0, flops_of(eqn), bytes_of(eqn), note,
                    describe(eqn.source),
                )
            )  # fmt: skip
        return ProgramReport(self.closed.jaxpr.name, tuple(steps), 0, 0, 0)

    def cost_analysis(self) -> dict[str, float]:
        """Operations and bytes moved."""
        eqns = self.closed.jaxpr.eqns
        return {
            "flops": sum(map(flops_of, eqns)), "bytes accessed": float(sum(map(bytes_of, eqns)))
        }  # fmt: skip

    def memory_analysis(self) -> Any:
        """Not known before a call.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError(
            f"memory_analysis: a program on {self.device} has no plan of its memory: blocks come "
            "from CuPy's pool as it runs. Look at cupy.get_default_memory_pool()."
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


def device_program(closed: ClosedJaxpr, device: Device) -> DeviceProgram:
    """The program of a jaxpr on a device, made at its first use."""
    return closed.derive(("device program", device), lambda: DeviceProgram(closed, device))


set_device_hook(device_program)
