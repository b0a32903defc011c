"""Dropping barriers: once no pass can merge across them, they are copies for nothing."""

from __future__ import annotations

from mgefn.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, Literal, Var


def drop_barriers(closed: ClosedJaxpr) -> ClosedJaxpr:
    jaxpr = closed.jaxpr
    if not any(eqn.primitive.barrier for eqn in jaxpr.eqns):
        return closed
    env: dict[Var, Atom] = {}
    kept = []
    for eqn in jaxpr.eqns:
        eqn = eqn.substituted(env)
        if eqn.primitive.barrier:
            env.update(zip(eqn.out_binders, eqn.inputs, strict=True))
        else:
            kept.append(eqn)
    outs = [a if isinstance(a, Literal) else env.get(a, a) for a in jaxpr.outs]
    new = Jaxpr(jaxpr.in_binders, kept, outs, jaxpr.const_binders, jaxpr.name)
    return ClosedJaxpr(new, closed.consts)
