"""Forward mode: carry a tangent beside each value.

Rules see real arrays as tangents unless they ask for symbolic zeros. An elementwise primitive
declares slopes, and its tangent is the sum of scale(tangent, slope) over its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mgefn.core.array import as_array
from mgefn.core.array_methods import Array
from mgefn.core.avals import ShapedArray, Zero
from mgefn.core.interpreter import Interpreter, process_in, state
from mgefn.core.jaxpr import ClosedJaxpr
from mgefn.core.primitive import Primitive
from mgefn.core.tracer import Tracer
from mgefn.interpreters.evaluate import eval_jaxpr
from mgefn.interpreters.staging import trace_closed
from mgefn.ops.elementwise import add_p, neg_p, scale
from mgefn.ops.shaping import broadcast_to_shape, zeros


class JVPTracer(Tracer):
    """A value and its tangent, both of the interpreter outside."""

    __slots__ = ("primal", "tangent")

    def __init__(self, interpreter: JVPInterpreter, primal: Any, tangent: Any):
        self.interpreter = interpreter
        self.primal = primal
        self.tangent = tangent

    @property
    def aval(self) -> ShapedArray:
        return self.primal.aval

    @property
    def shape(self) -> tuple[int, ...]:
        return self.primal.shape

    @property
    def dtype(self):
        return self.primal.dtype

    def concrete(self) -> Any:
        return self.primal


def instantiate(tangent: Any) -> Any:
    """A real array for a symbolic zero; anything else as it is."""
    return zeros(tangent.aval) if tangent.__class__ is Zero else tangent


def elementwise_tangent(
    primitive: Primitive, y: Any, primals: Sequence[Any], tangents: Sequence[Any]
) -> Any:
    """Sum of scale(tangent, slope) over the operands with a tangent (others: None)."""
    total: Any = None
    assert primitive.slopes is not None
    for slope, t in zip(primitive.slopes, tangents, strict=True):
        if t is None:
            continue
        if slope.__class__ is int:
            if slope == 0:
                continue
            term = t if slope == 1 else neg_p.bind1(t)
        else:
            s = slope(y, *primals)  # type: ignore[operator]  # not an int
            if s.__class__ is int:
                if s == 0:
                    continue
                term = t if s == 1 else neg_p.bind1(t)
            else:
                term = scale(t, s)
        total = term if total is None else add_p.bind1(total, term)
    if total is not None and total.shape != y.shape:
        total = broadcast_to_shape(total, y.shape)
    return total


class JVPInterpreter(Interpreter):
    """Pushes tangents forward."""

    __slots__ = ()

    def tracer(self, primal: Any, tangent: Any) -> Any:
        if tangent is None or tangent.__class__ is Zero:
            return primal
        return JVPTracer(self, primal, tangent)

    def split(self, x: Any) -> tuple[Any, Any]:
        """Primal and tangent of an output; the tangent is a Zero where there is none."""
        if x.__class__ is JVPTracer and x.interpreter is self:
            return x.primal, x.tangent
        x = as_array(x, self.about)
        return x, Zero(x.aval)

    def process(self, primitive: Primitive, args: tuple, params: dict[str, Any]) -> tuple:
        own = False
        primals, tangents = [], []
        for a in args:
            if a.__class__ is JVPTracer and a.interpreter is self:
                own = True
                primals.append(a.primal)
                tangents.append(a.tangent)
            else:
                primals.append(a)
                tangents.append(None)
        if not (own or primitive.closes_over):
            return process_in(self.outer, primitive, args, params)
        previous = state.current
        state.current = self.outer
        try:
            if primitive.constant:
                return primitive.bind(*primals, **params)
            outs, out_tangents = self._rule(primitive, primals, tangents, params)
        finally:
            state.current = previous
        return tuple([self.tracer(o, t) for o, t in zip(outs, out_tangents, strict=True)])

    def _rule(
        self, primitive: Primitive, primals: list, tangents: list, params: dict[str, Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        if primitive.slopes is not None:
            outs = primitive.bind(*primals, **params)
            return outs, (elementwise_tangent(primitive, outs[0], primals, tangents),)
        if primitive.bilinear:
            outs = primitive.bind(*primals, **params)
            total = None
            for i, t in enumerate(tangents):
                if t is not None:
                    with_t = (*primals[:i], t, *primals[i + 1 :])
                    term = primitive.bind1(*with_t, **params)
                    total = term if total is None else add_p.bind1(total, term)
            return outs, (total,)
        if primitive.linear:
            filled = [
                zeros(p.aval) if t is None else t for p, t in zip(primals, tangents, strict=True)
            ]
            return primitive.bind(*primals, **params), primitive.bind(*filled, **params)
        if primitive.jvp_call is not None:
            return primitive.jvp_call(self, primals, tangents, params)
        if primitive.jvp is None:
            raise primitive.missing("jvp")
        return primitive.jvp(tuple(primals), rule_tangents(primitive, primals, tangents), **params)


def rule_tangents(primitive: Primitive, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple:
    """The tangents as the primitive's jvp rule wants them; None stands for zero."""
    if primitive.jvp_takes_zeros:
        return tuple(
            Zero(p.aval) if t is None else t for p, t in zip(primals, tangents, strict=True)
        )
    return tuple(
        zeros_for_tangent(p) if t is None else t for p, t in zip(primals, tangents, strict=True)
    )


def zeros_for_tangent(primal: Array) -> Any:
    """A zero tangent: real for inexact dtypes, symbolic for the others, which have no tangent."""
    aval = primal.aval
    return zeros(aval) if aval.dtype.kind in "fcV" else Zero(aval)


def jvp_flat(
    fun: Callable[..., Sequence[Any]],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    about: str = "jvp",
) -> tuple[list[Any], list[Any]]:
    """fun's outputs and their tangents; a tangent may come in, and goes out, as Zero."""
    interpreter = JVPInterpreter(about)
    args = [interpreter.tracer(p, t) for p, t in zip(primals, tangents, strict=True)]
    previous = state.current
    state.current = interpreter
    try:
        outs = fun(*args)
    finally:
        state.current = previous
    pairs = [interpreter.split(o) for o in outs]
    return [p for p, _ in pairs], [t for _, t in pairs]


def jvp_jaxpr(closed: ClosedJaxpr, nonzero: tuple[bool, ...]) -> tuple[ClosedJaxpr, list[bool]]:
    """A jaxpr (primals, tangents of the nonzero inputs) -> (outs, tangents of the nonzero outs)."""

    def make() -> tuple[ClosedJaxpr, list[bool]]:
        avals = closed.in_avals
        n = len(avals)
        out_nonzero: list[bool] = []

        def fun(*args):
            given = iter(args[n:])
            tangents = [
                next(given) if nz else Zero(a) for nz, a in zip(nonzero, avals, strict=True)
            ]
            outs, out_tangents = jvp_flat(
                lambda *xs: eval_jaxpr(closed.jaxpr, closed.consts, xs), args[:n], tangents
            )
            out_nonzero[:] = [t.__class__ is not Zero for t in out_tangents]
            return [*outs, *(t for t in out_tangents if t.__class__ is not Zero)]

        tangent_avals = [a.strong() for a, nz in zip(avals, nonzero, strict=True) if nz]
        made = trace_closed(fun, [*avals, *tangent_avals], "jvp", f"jvp_{closed.jaxpr.name}")
        return made, out_nonzero

    return closed.derive(("jvp", nonzero), make)
