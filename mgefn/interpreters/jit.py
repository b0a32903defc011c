"""`jit_p`: a call of a staged program. Evaluated, it runs the compiled program.

Each rule reads the inner jaxpr once by the matching interpreter and binds `jit_p` again with what
comes out, so a jitted function stays one compiled call under every transformation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mgefn.core.avals import UndefinedPrimal, Zero, is_undefined
from mgefn.core.backends import executable_of
from mgefn.core.jaxpr import ClosedJaxpr
from mgefn.core.primitive import Primitive
from mgefn.interpreters.batching import BatchingInterpreter, batch_jaxpr, to_front
from mgefn.interpreters.evaluate import eval_jaxpr
from mgefn.interpreters.jvp import jvp_jaxpr
from mgefn.interpreters.linearize import (
    LinearEqn,
    LinearizeInterpreter,
    LinearizeTracer,
    Node,
    linearize_jaxpr,
)
from mgefn.interpreters.staging import StagingInterpreter
from mgefn.interpreters.transposition import transpose_jaxpr

# params: jaxpr, a ClosedJaxpr; name, what it is called; inline, whether staging dissolves it
jit_p = Primitive("jit", weak_result=False, moves=True)


@jit_p.def_evaluate
def _jit_evaluate(args, params):
    return executable_of(params["jaxpr"])(args)


@jit_p.def_abstract_eval
def _jit_abstract_eval(*avals, jaxpr: ClosedJaxpr, name, inline):
    return tuple(jaxpr.out_avals)


@jit_p.def_stage
def _jit_stage(interpreter: StagingInterpreter, args, params):
    if params["inline"]:
        jaxpr = params["jaxpr"]
        return tuple(eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, args))
    return interpreter.record(jit_p, args, params)


@jit_p.def_jvp(symbolic_zeros=True)
def _jit_jvp(primals, tangents, *, jaxpr: ClosedJaxpr, name, inline):
    nonzero = tuple(t.__class__ is not Zero for t in tangents)
    pushed, out_nonzero = jvp_jaxpr(jaxpr, nonzero)
    given = [t for t in tangents if t.__class__ is not Zero]
    outs = jit_p.bind(*primals, *given, jaxpr=pushed, name=f"jvp({name})", inline=inline)
    n = len(out_nonzero)
    rest = iter(outs[n:])
    out_tangents = [
        next(rest) if nz else Zero(o.aval) for nz, o in zip(out_nonzero, outs[:n], strict=True)
    ]
    return outs[:n], out_tangents


@jit_p.def_linearize
def _jit_linearize(
    interpreter: LinearizeInterpreter, primals: Sequence[Any], nodes: Sequence[Any], params
):
    jaxpr, name, inline = params["jaxpr"], params["name"], params["inline"]
    parts = linearize_jaxpr(jaxpr, tuple(n is not None for n in nodes))
    both = jit_p.bind(*primals, jaxpr=parts.primal, name=name, inline=inline)
    n = len(parts.out_nonzero)
    outs, residuals = both[:n], both[n:]
    out_nodes = [
        Node(o.shape, o.dtype) if nz else None
        for o, nz in zip(outs, parts.out_nonzero, strict=True)
    ]
    inputs = [*residuals, *(x for x in nodes if x is not None)]
    linear_params = {"jaxpr": parts.linear, "name": f"linear({name})", "inline": inline}
    interpreter.tape.append(
        LinearEqn(jit_p, inputs, linear_params, [x for x in out_nodes if x is not None])
    )
    return tuple(
        o if x is None else LinearizeTracer(interpreter, o, x)
        for o, x in zip(outs, out_nodes, strict=True)
    )


@jit_p.def_transpose(symbolic_zeros=True)
def _jit_transpose(cts, *args, jaxpr: ClosedJaxpr, name, inline):
    linear = tuple(is_undefined(a) for a in args)
    given = tuple(ct.__class__ is not Zero for ct in cts)
    pulled, nonzero = transpose_jaxpr(jaxpr, linear, given)
    known = [a for a in args if a.__class__ is not UndefinedPrimal]
    outs = iter(
        jit_p.bind(
            *known,
            *(ct for ct in cts if ct.__class__ is not Zero),
            jaxpr=pulled,
            name=f"transpose({name})",
            inline=inline,
        )
    )
    found = iter([next(outs) if nz else None for nz in nonzero])
    return tuple(next(found) if x else None for x in linear)


@jit_p.def_batch_call
def _jit_batch(interpreter: BatchingInterpreter, values, bdims, params):
    size = interpreter.axis_size
    batched = tuple(b is not None for b in bdims)
    mapped, out_batched = batch_jaxpr(params["jaxpr"], batched, size, interpreter.axis_name)
    args = [v if b is None else to_front(v, b, size) for v, b in zip(values, bdims, strict=True)]
    outs = jit_p.bind(*args, jaxpr=mapped, name=f"vmap({params['name']})", inline=params["inline"])
    return outs, [0 if b else None for b in out_batched]


def inlined(params: dict[str, Any]) -> ClosedJaxpr | None:
    """The jaxpr that the compiler may write in place of a call; see Primitive.inlined."""
    return params["jaxpr"]


jit_p.inlined = inlined
