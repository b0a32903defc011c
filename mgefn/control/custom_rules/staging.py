"""Calls of functions with rules in a jaxpr: an equation with the function's program.

Operands: what the function closed over, what the rules closed over, the arguments, in this order.
Away from derivatives a staged call is its program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mgefn.core.avals import ShapedArray, Zero, is_undefined
from mgefn.core.backends import executable_of
from mgefn.core.jaxpr import ClosedJaxpr, Jaxpr, Var
from mgefn.core.primitive import Primitive
from mgefn.core.tracer import Tracer
from mgefn.interpreters.evaluate import eval_jaxpr
from mgefn.interpreters.jit import jit_p
from mgefn.interpreters.jvp import jvp_flat


def with_inputs(closed: ClosedJaxpr, at: int, extra: Sequence[Tracer]) -> ClosedJaxpr:
    """The same program with inputs that it does not read."""
    if not extra:
        return closed
    jaxpr = closed.jaxpr
    new = [Var(x.aval) for x in extra]
    binders = [*jaxpr.in_binders[:at], *new, *jaxpr.in_binders[at:]]
    return ClosedJaxpr(
        Jaxpr(binders, jaxpr.eqns, jaxpr.outs, jaxpr.const_binders, jaxpr.name), closed.consts
    )


def _staged_abstract_eval(*avals: ShapedArray, jaxpr: ClosedJaxpr, **params: Any):
    return tuple(jaxpr.out_avals)


def _staged_evaluate(args: Sequence[Any], params: dict[str, Any]) -> tuple:
    return executable_of(params["jaxpr"])(args)


def _staged_inlined(params: dict[str, Any]) -> ClosedJaxpr:
    return params["jaxpr"]


def _staged_call(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    closed = params["jaxpr"]
    return eval_jaxpr(closed.jaxpr, closed.consts, args)


def _staged_transpose(cts, *args, jaxpr: ClosedJaxpr, name: str, **params: Any):
    # Only where the function is applied to tangents, and then it is linear by itself.
    assert any(is_undefined(a) for a in args)
    assert jit_p.transpose is not None
    return jit_p.transpose(cts, *args, jaxpr=jaxpr, name=name, inline=False)


def def_staged(primitive: Primitive) -> None:
    primitive.def_abstract_eval(_staged_abstract_eval)
    primitive.def_evaluate(_staged_evaluate)
    primitive.def_transpose(_staged_transpose, symbolic_zeros=True)
    primitive.inlined = _staged_inlined
    primitive.call = _staged_call


def captured_tangents(
    jaxpr: ClosedJaxpr, primals: Sequence[Any], tangents: Sequence[Any], n_captured: int
) -> tuple[list[Any], list[Any]]:
    """Outputs and tangents of a staged function by what it closed over alone."""
    return jvp_flat(
        lambda *xs: eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, xs),
        primals,
        [t if i < n_captured else Zero(t.aval) for i, t in enumerate(tangents)],
    )
