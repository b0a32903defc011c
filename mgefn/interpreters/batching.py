"""Batching: read a program on single examples as a program on a batch.

A tracer holds an array with one more dimension than user code sees; `bdim` says where it sits.
Batch rules get None for an operand without it. The batch dimension of an output is wherever the
rule finds it cheapest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mgefn.core.array import as_array
from mgefn.core.avals import ShapedArray
from mgefn.core.interpreter import Interpreter, process_in, state
from mgefn.core.jaxpr import ClosedJaxpr, named_axes
from mgefn.core.primitive import Primitive
from mgefn.core.tracer import Tracer
from mgefn.interpreters.evaluate import eval_jaxpr
from mgefn.interpreters.staging import trace_closed
from mgefn.ops.shaping import broadcast_in_dim, moveaxis


class BatchTracer(Tracer):
    """One example of a batch, as user code sees it."""

    __slots__ = ("_aval", "bdim", "value")

    def __init__(self, interpreter: BatchingInterpreter, value: Any, bdim: int):
        self.interpreter = interpreter
        self.value = value
        self.bdim = bdim

    @property
    def aval(self) -> ShapedArray:
        try:
            return self._aval
        except AttributeError:
            shape = self.value.shape
            b = self.bdim
            self._aval = ShapedArray(
                shape[:b] + shape[b + 1 :], self.value.dtype, self.value.weak_type
            )
            return self._aval


class BatchingInterpreter(Interpreter):
    """Maps over one axis of `axis_size`, which collectives find by `axis_name`."""

    __slots__ = ("axis_name", "axis_size")

    def __init__(self, axis_size: int, axis_name: Any = None, about: str = "vmap"):
        super().__init__(about)
        self.axis_size = axis_size
        self.axis_name = axis_name

    def tracer(self, value: Any, bdim: int | None) -> Any:
        return value if bdim is None else BatchTracer(self, value, bdim)

    def split(self, x: Any) -> tuple[Any, int | None]:
        """Array and batch dimension of an output."""
        if x.__class__ is BatchTracer and x.interpreter is self:
            return x.value, x.bdim
        return as_array(x, self.about), None

    def _named(self, primitive: Primitive, params: dict[str, Any]) -> bool:
        """Does an operation on unmapped operands read this axis by its name?"""
        return self.axis_name is not None and self.axis_name in named_axes(primitive, params)

    def process(self, primitive: Primitive, args: tuple, params: dict[str, Any]) -> tuple:
        own = False
        values, bdims = [], []
        for a in args:
            if a.__class__ is BatchTracer and a.interpreter is self:
                own = True
                values.append(a.value)
                bdims.append(a.bdim)
            else:
                values.append(a)
                bdims.append(None)
        if not (own or primitive.closes_over or self._named(primitive, params)):
            return process_in(self.outer, primitive, args, params)
        previous = state.current
        state.current = self.outer
        try:
            if primitive.batch_call is not None:
                outs, out_bdims = primitive.batch_call(self, values, bdims, params)
            elif primitive.batch is not None:
                outs, out_bdims = primitive.batch(tuple(values), tuple(bdims), **params)
            else:
                raise primitive.missing("batch")
        finally:
            state.current = previous
        return tuple([self.tracer(o, b) for o, b in zip(outs, out_bdims, strict=True)])


def to_front(value: Any, bdim: int | None, axis_size: int) -> Any:
    """The array with its batch dimension first, repeated where it has none."""
    if bdim is None:
        return broadcast_in_dim(value, (axis_size, *value.shape), tuple(range(1, value.ndim + 1)))
    return moveaxis(value, bdim, 0)


def batch_flat(
    fun: Callable[..., Sequence[Any]],
    args: Sequence[Any],
    bdims: Sequence[int | None],
    axis_size: int,
    axis_name: Any = None,
    about: str = "vmap",
) -> tuple[list[Any], list[int | None]]:
    """fun's outputs for the whole batch, with their batch dimensions."""
    interpreter = BatchingInterpreter(axis_size, axis_name, about)
    tracers = [interpreter.tracer(a, b) for a, b in zip(args, bdims, strict=True)]
    previous = state.current
    state.current = interpreter
    try:
        outs = fun(*tracers)
    finally:
        state.current = previous
    pairs = [interpreter.split(o) for o in outs]
    return [v for v, _ in pairs], [b for _, b in pairs]


def batch_jaxpr(
    closed: ClosedJaxpr, batched: tuple[bool, ...], axis_size: int, axis_name: Any = None
) -> tuple[ClosedJaxpr, list[bool]]:
    """The batched program; batched inputs and outputs have the batch dimension first."""

    def make() -> tuple[ClosedJaxpr, list[bool]]:
        out_batched: list[bool] = []

        def fun(*args):
            bdims = [0 if b else None for b in batched]
            outs, out_bdims = batch_flat(
                lambda *xs: eval_jaxpr(closed.jaxpr, closed.consts, xs),
                args,
                bdims,
                axis_size,
                axis_name,
            )
            out_batched[:] = [b is not None for b in out_bdims]
            return [
                o if b is None else to_front(o, b, axis_size)
                for o, b in zip(outs, out_bdims, strict=True)
            ]

        avals = [
            a.update(shape=(axis_size, *a.shape)) if b else a
            for a, b in zip(closed.in_avals, batched, strict=True)
        ]
        return trace_closed(fun, avals, "vmap", f"vmap_{closed.jaxpr.name}"), out_batched

    return closed.derive(("batch", batched, axis_size, axis_name), make)
