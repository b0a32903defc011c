"""Constant folding: compute what depends on constants only, where the result is small."""

from __future__ import annotations

from typing import Any

from mgefn.core.array import ConcreteArray
from mgefn.core.backends import kernel_of
from mgefn.core.interpreter import base
from mgefn.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var

LIMIT = 1024  # bytes: a larger constant would cost more memory than it saves time


def fold_constants(closed: ClosedJaxpr) -> ClosedJaxpr:
    jaxpr = closed.jaxpr
    known: dict[Var, Any] = dict(zip(jaxpr.const_binders, closed.consts, strict=True))
    env: dict[Var, Atom] = {}
    const_binders, consts = list(jaxpr.const_binders), list(closed.consts)
    kept = []
    for eqn in jaxpr.eqns:
        eqn = eqn.substituted(env)
        inputs = eqn.inputs
        if _foldable(eqn, inputs, known):
            values = tuple(a.value if isinstance(a, Literal) else known[a] for a in inputs)
            for v, out in zip(
                eqn.out_binders, base.process(eqn.primitive, values, eqn.params), strict=True
            ):
                if not out.shape:
                    env[v] = Literal(out, v.aval)
                else:
                    known[v] = out
                    const_binders.append(v)
                    consts.append(out)
            continue
        kept.append(eqn)
    if len(kept) == len(jaxpr.eqns):
        return closed
    outs = [a if isinstance(a, Literal) else env.get(a, a) for a in jaxpr.outs]
    new = Jaxpr(jaxpr.in_binders, kept, outs, const_binders, jaxpr.name)
    return ClosedJaxpr(new, consts)


def _foldable(eqn: Eqn, inputs: list[Atom], known: dict[Var, Any]) -> bool:
    p = eqn.primitive
    if p.effect or p.opaque or not inputs or p.evaluate is not None:
        return False
    for a in inputs:
        if isinstance(a, Literal):
            continue
        value = known.get(a)
        if value is None or value.__class__ is not ConcreteArray:
            return False
    if sum(v.aval.nbytes for v in eqn.out_binders) > LIMIT:
        return False
    return kernel_of(p) is not None  # asked last, as it may load tables
