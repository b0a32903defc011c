"""Calls of functions with rules under vmap: the function and its rules, each over a batch.

Batched operands have the batch in front, and so do all outputs. The batched functions enter the
batching interpreter, so they may close over its tracers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mgefn.control.custom_rules.closures import ClosedOver, reentered, run_inside
from mgefn.core.avals import ShapedArray, Zero
from mgefn.core.jaxpr import ClosedJaxpr
from mgefn.core.primitive import Primitive
from mgefn.interpreters.batching import BatchingInterpreter, batch_flat, to_front
from mgefn.interpreters.evaluate import eval_jaxpr
from mgefn.interpreters.staging import trace_closed


def fronted(values: Sequence[Any], bdims: Sequence[int | None], size: int) -> list[Any]:
    return [v if b is None else to_front(v, b, size) for v, b in zip(values, bdims, strict=True)]


def _one_example(aval: ShapedArray) -> ShapedArray:
    return aval.update(shape=aval.shape[1:])


def a_batch(aval: ShapedArray, size: int) -> ShapedArray:
    return aval.update(shape=(size, *aval.shape))


class _OverBatch:
    """What calls a flat function for a batch: batched operands have it in front, and so do all
    outputs."""

    def __init__(self, fun: Any, batched: Sequence[bool], interpreter: BatchingInterpreter):
        self.fun = fun
        self.batched = tuple(batched)
        self.interpreter = interpreter
        self.size = interpreter.axis_size

    def _example(self, x: Any, batched: bool) -> Any:
        if x.__class__ is Zero:
            return Zero(_one_example(x.aval)) if batched else x
        return self.interpreter.tracer(x, 0 if batched else None)

    def _examples(self, xs: Sequence[Any]) -> list[Any]:
        return [self._example(x, b) for x, b in zip(xs, self.batched, strict=True)]

    def _whole(self, x: Any) -> Any:
        if x.__class__ is Zero:
            return Zero(a_batch(x.aval, self.size))
        value, bdim = self.interpreter.split(x)
        return to_front(value, bdim, self.size)


class Batched(_OverBatch):
    def __call__(self, *operands: Any) -> list[Any]:
        with reentered(self.interpreter):
            outs = self.fun(*self._examples(operands))
        return [self._whole(o) for o in outs]


class BatchedRule(_OverBatch):
    def __call__(self, operands: Any, tangents: Any) -> Any:
        with reentered(self.interpreter):
            outs, dots = self.fun(self._examples(operands), self._examples(tangents))
        return [self._whole(o) for o in outs], [self._whole(d) for d in dots]


class BatchedFwd(_OverBatch):
    def __call__(self, operands: Any, perturbed: Any) -> Any:
        with reentered(self.interpreter):
            outs, residuals, info = self.fun(self._examples(operands), perturbed)
        split = [self.interpreter.split(r) for r in residuals]
        values = [v if b is None else to_front(v, b, self.size) for v, b in split]
        info = (info, tuple(b is not None for _, b in split))
        return [self._whole(o) for o in outs], values, info


class BatchedBwd(_OverBatch):
    def __call__(self, info: Any, residuals: Any, cts: Any) -> Any:
        inner_info, batched = info
        res = [self._example(r, b) for r, b in zip(residuals, batched, strict=True)]
        with reentered(self.interpreter):
            found = self.fun(inner_info, res, [self._example(c, True) for c in cts])
        out = []
        for ct, b in zip(found, self.batched, strict=True):
            if ct is None or ct.__class__ is Zero:
                out.append(None)
                continue
            value, bdim = self.interpreter.split(ct)
            if b:
                out.append(to_front(value, bdim, self.size))
            else:
                # An operand that all examples share collects their cotangents.
                out.append(to_front(value, bdim, self.size).sum(0))
        return out


def batch_here(
    interpreter: BatchingInterpreter, primitive: Primitive, values, bdims, params
) -> tuple[list[Any], list[int | None]] | None:
    """Outputs where the function can be read operation by operation, or need not be batched."""
    if interpreter.outer is not None and any(b is not None for b in bdims):
        return None
    if interpreter.outer is None:
        with reentered(interpreter):
            outs = params["fun"](
                *[interpreter.tracer(v, b) for v, b in zip(values, bdims, strict=True)]
            )
    else:
        wrapped = {
            k: run_inside(interpreter, v) if k in ("fun", "rule", "fwd", "bwd") else v
            for k, v in params.items()
        }
        try:
            outs = primitive.bind(*values, **wrapped)
        except ClosedOver:
            return None
    pairs = [interpreter.split(o) for o in outs]
    return [v for v, _ in pairs], [b for _, b in pairs]


def batched_program(closed: ClosedJaxpr, batched: tuple[bool, ...], size: int, axis_name: Any):
    """The batched program with every output batched in front."""

    def make() -> ClosedJaxpr:
        def fun(*args: Any) -> list[Any]:
            outs, bdims = batch_flat(
                lambda *xs: eval_jaxpr(closed.jaxpr, closed.consts, xs),
                args,
                [0 if b else None for b in batched],
                size,
                axis_name,
            )
            return [to_front(o, b, size) for o, b in zip(outs, bdims, strict=True)]

        avals = [
            a_batch(a, size) if b else a for a, b in zip(closed.in_avals, batched, strict=True)
        ]
        return trace_closed(fun, avals, "vmap", f"vmap_{closed.jaxpr.name}")

    return closed.derive(("batch all", batched, size, axis_name), make)


def fresh_interpreter(interpreter: BatchingInterpreter) -> BatchingInterpreter:
    """An interpreter for rules of a staged program, which close over no tracer."""
    return BatchingInterpreter(interpreter.axis_size, interpreter.axis_name, interpreter.about)
