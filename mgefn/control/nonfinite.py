"""Finding the operation that made the first NaN or infinity, for debug_nans and debug_infs.

While one of the settings is on, a `Watcher` stands where evaluation stands otherwise: it evaluates
each operation and looks at what comes out. So it costs nothing when off. A program (a jitted call,
a loop, a branch) runs as it always does; only when its outputs hold a NaN is it run again operation
by operation, down to the line that made it. Effects of that program, such as printing, then happen
twice.

An operation makes a NaN where its outputs hold one and its operands do not. JAX also stops at those
that pass one on; here data may hold NaNs on purpose.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.config import config
from mgefn.control.branching import cond_p
from mgefn.control.loops import while_p
from mgefn.control.scan import scan_p
from mgefn.core import cuda
from mgefn.core.array import ConcreteArray
from mgefn.core.cuda import xp
from mgefn.core.device_array import is_on_device, on
from mgefn.core.interpreter import Interpreter, TraceState, base, interpreter_set_to, state
from mgefn.core.jaxpr import ClosedJaxpr, Literal, Var, last_uses
from mgefn.core.primitive import Primitive
from mgefn.core.source import Source, current_source, describe
from mgefn.errors import NonFiniteError


def _any_is(what: np.ufunc, x: Any) -> bool:
    """Does what(element) hold anywhere? Of an array on a device the host waits for the answer."""
    if is_on_device(x):
        with on(x.device):
            return cuda.flag(xp.any(getattr(xp, what.__name__)(x._data)))
    return bool(what(x._data).any())


class Watcher(Interpreter):
    """Evaluates, and raises where a NaN or an infinity appears. Stateless, so one serves all."""

    __slots__ = ("infs", "nans")

    def __init__(self, nans: bool, infs: bool):
        with interpreter_set_to(None):
            super().__init__("debug_nans" if nans else "debug_infs")
        self.nans = nans
        self.infs = infs

    def process(self, primitive: Primitive, args: tuple, params: dict[str, Any]) -> tuple:
        outs = base.process(primitive, args, params)
        if self.fault(outs) is not None:
            self.explain(primitive, args, params, outs, current_source(2))
        return outs

    def fault(self, arrays: Sequence[Any]) -> str | None:
        """What is wrong with the first of the arrays that holds something not finite."""
        for a in arrays:
            known = a.__class__ is ConcreteArray or is_on_device(a)
            if not known or not dtypes.is_inexact(a.dtype):
                continue
            if self.nans and _any_is(np.isnan, a):
                return "a NaN"
            if self.infs and _any_is(np.isinf, a):
                return "an infinity"
        return None

    def explain(
        self,
        primitive: Primitive,
        args: Sequence[Any],
        params: dict[str, Any],
        outs: Sequence[Any],
        source: Source | None,
    ) -> None:
        """Raise for the operation that made what is wrong with `outs`, where one did."""
        if self._descend(primitive, args, params):
            return
        fault = self.fault(outs)
        if fault is None or self.fault(args) == fault:
            return
        shown = ", ".join(str(a.aval) for a in args) or "none"
        raise NonFiniteError(
            f"{primitive.called}: must give finite numbers while {self.about} is on, made {fault} "
            f"at {describe(source)} from the operands {shown}. Guard the operation there, for "
            "example with where on its operand."
        )

    def _descend(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> bool:
        """Run what the primitive holds operation by operation; False where it holds nothing."""
        if primitive.closes_over and "fun" in params:
            with interpreter_set_to(self):
                params["fun"](*args)
            return True
        if primitive.inlined is not None:
            closed = primitive.inlined(params)
            if closed is not None:
                self.run(closed, args)
                return True
        if primitive is cond_p:
            self.run(params["branches"][int(args[0]._data)], args[1:])
            return True
        if primitive is while_p:
            n, m = params["cond_nconsts"], params["body_nconsts"]
            carry = list(args[n + m :])
            while self.run(params["cond_jaxpr"], [*args[:n], *carry])[0]._data:
                carry = self.run(params["body_jaxpr"], [*args[n : n + m], *carry])
            return True
        if primitive is scan_p:
            n, k = params["num_consts"], params["num_carry"]
            carry = list(args[n : n + k])
            steps = range(params["length"])
            for i in reversed(steps) if params["reverse"] else steps:
                xs = [ConcreteArray(x._data[i, ...]) for x in args[n + k :]]
                carry = self.run(params["jaxpr"], [*args[:n], *carry, *xs])[:k]
            return True
        return False

    def run(self, closed: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
        """The outputs of a program, each operation looked at as it runs."""
        jaxpr = closed.jaxpr
        env: dict[Var, Any] = dict(zip(jaxpr.const_binders, closed.consts, strict=True))
        env.update(zip(jaxpr.in_binders, args, strict=True))
        for eqn, dead in zip(jaxpr.eqns, last_uses(jaxpr), strict=True):
            ins = tuple(a.value if isinstance(a, Literal) else env[a] for a in eqn.inputs)
            outs = base.process(eqn.primitive, ins, eqn.params)
            if self.fault(outs) is not None:
                self.explain(eqn.primitive, ins, eqn.params, outs, eqn.source)
            env.update(zip(eqn.out_binders, outs, strict=True))
            for v in dead:
                del env[v]
        return [a.value if isinstance(a, Literal) else env[a] for a in jaxpr.outs]


_WATCHERS = {(n, i): Watcher(n, i) for n, i in ((True, False), (False, True), (True, True))}


def apply(everywhere: bool) -> None:
    """Put the watcher that the settings ask for outside all interpreters of this thread.

    everywhere: let threads that start later begin with it.
    """
    watcher = _WATCHERS.get((config.debug_nans, config.debug_infs))
    if everywhere:
        TraceState.current = watcher
    i = state.current
    if i is None or isinstance(i, Watcher):
        state.current = watcher
        return
    while i.outer is not None and not isinstance(i.outer, Watcher):
        i = i.outer
    i.outer = watcher
    recorder = getattr(i, "recorder", None)
    if recorder is not None:
        recorder.outer = watcher
