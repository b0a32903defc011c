"""Staging: record the operations of a Python function as a jaxpr.

While it is current every operation is recorded, also those on constants. Values of outer
interpreters that the function closes over become constants; `trace` hands them out as `captured`
so that its caller can make inputs of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mgefn.config import config
from mgefn.core.array import ConcreteArray, as_array
from mgefn.core.array_methods import Array
from mgefn.core.avals import ShapedArray
from mgefn.core.collector import collector_paused
from mgefn.core.interpreter import Interpreter, state
from mgefn.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var, check_jaxpr
from mgefn.core.primitive import Primitive
from mgefn.core.source import Source, current_source
from mgefn.core.tracer import Tracer, leaked


class StagingTracer(Tracer):
    """Stands for a variable of the jaxpr that is being written."""

    __slots__ = ("_aval", "source", "variable")

    def __init__(
        self,
        interpreter: StagingInterpreter,
        aval: ShapedArray,
        var: Var,
        source: Source | None = None,
    ):
        self.interpreter = interpreter
        self._aval = aval
        self.variable = var  # not `var`, which is a method of arrays
        self.source = source

    @property
    def aval(self) -> ShapedArray:
        return self._aval

    @property
    def shape(self) -> tuple[int, ...]:
        return self._aval.shape

    @property
    def dtype(self):
        return self._aval.dtype

    @property
    def weak_type(self) -> bool:
        return self._aval.weak_type

    def origin(self) -> Source | None:
        return self.source


class StagingInterpreter(Interpreter):
    """Writes one jaxpr; `eqns` grows with every operation."""

    __slots__ = ("const_of", "consts", "eqns", "inputs", "types")

    def __init__(self, about: str):
        super().__init__(about)
        self.eqns: list[Eqn] = []
        self.types: dict[Any, ShapedArray] = {}
        self.inputs: list[Var] = []
        self.consts: list[tuple[Var, Any]] = []
        self.const_of: dict[int, Var] = {}  # id of a value held in `consts` -> its variable

    def input(self, aval: ShapedArray) -> StagingTracer:
        """A new input of the jaxpr."""
        var = Var(aval)
        self.inputs.append(var)
        return StagingTracer(self, aval, var)

    def atom(self, value: Any) -> Atom:
        """The variable or literal that stands for a value in this jaxpr.

        Raises:
            UnexpectedTracerError: value is a tracer of an interpreter that is done.
        """
        if value.__class__ is StagingTracer and value.interpreter is self:
            return value.variable
        if not isinstance(value, Array):
            value = as_array(value, self.about)
        if value.__class__ is ConcreteArray:
            if not value.shape:
                return Literal(value, value.aval)
        elif isinstance(value, Tracer):
            outer = self.outer
            while outer is not value.interpreter:
                if outer is None:
                    raise leaked(value)
                outer = outer.outer
        var = self.const_of.get(id(value))
        if var is None:
            var = self.const_of[id(value)] = Var(value.aval)
            self.consts.append((var, value))  # keeps the value alive, so its id stays its own
        return var

    def process(self, primitive: Primitive, args: tuple, params: dict[str, Any]) -> tuple:
        if primitive.stage is not None:
            return primitive.stage(self, args, params)
        return self.record(primitive, args, params)

    def record(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> tuple:
        """Append an equation and return its outputs."""
        atoms = [self.atom(a) for a in args]
        avals = primitive.out_avals([a.aval for a in atoms], params)
        source = current_source(2)
        binders = []
        for aval in avals:
            # One object for each type: a long program then stays in the cache for longer.
            key = (aval.shape, aval.dtype, aval.weak_type)
            binders.append(Var(self.types.setdefault(key, aval)))
        self.eqns.append(Eqn(primitive, atoms, params, binders, source))
        return tuple([StagingTracer(self, v.aval, v, source) for v in binders])

    def close(self, outs: Sequence[Any], name: str = "") -> tuple[ClosedJaxpr, list[Tracer]]:
        """The finished jaxpr; captured tracers are its leading inputs and come second."""
        out_atoms = [self.atom(o) for o in outs]
        captured = [(v, c) for v, c in self.consts if isinstance(c, Tracer)]
        known = [(v, c) for v, c in self.consts if not isinstance(c, Tracer)]
        jaxpr = Jaxpr(
            [v for v, _ in captured] + self.inputs,
            self.eqns,
            out_atoms,
            [v for v, _ in known],
            name,
        )
        closed = ClosedJaxpr(jaxpr, [c for _, c in known])
        if config.check_jaxprs:
            check_jaxpr(closed)
        return closed, [c for _, c in captured]


def trace(
    fun: Callable[..., Sequence[Any]], avals: Sequence[ShapedArray], about: str, name: str = ""
) -> tuple[ClosedJaxpr, list[Tracer]]:
    """Stage fun(*arrays) -> sequence of arrays.

    Returns the jaxpr and the outer tracers that fun closed over: they are the leading inputs of
    the jaxpr, before those of `avals`.
    """
    interpreter = StagingInterpreter(about)
    tracers = [interpreter.input(a) for a in avals]
    previous = state.current
    state.current = interpreter
    try:
        with collector_paused():
            outs = fun(*tracers)
    finally:
        state.current = previous
    return interpreter.close(outs, name)


def trace_closed(
    fun: Callable[..., Sequence[Any]], avals: Sequence[ShapedArray], about: str, name: str = ""
) -> ClosedJaxpr:
    """`trace` for functions that close over no tracer, such as rules on jaxprs."""
    closed, captured = trace(fun, avals, about, name)
    if captured:
        raise leaked(captured[0])
    return closed
