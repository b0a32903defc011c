"""Dead code elimination: drop equations whose outputs nothing needs, unless they have an effect."""

from __future__ import annotations

from mgefn.core.jaxpr import ClosedJaxpr, Jaxpr, Var, has_effect


def eliminate_dead_code(closed: ClosedJaxpr) -> ClosedJaxpr:
    jaxpr = closed.jaxpr
    live: set[Var] = {a for a in jaxpr.outs if isinstance(a, Var)}
    kept = []
    for eqn in reversed(jaxpr.eqns):
        if any(v in live for v in eqn.out_binders) or has_effect(eqn):
            kept.append(eqn)
            live.update(a for a in eqn.inputs if isinstance(a, Var))
    if len(kept) == len(jaxpr.eqns) and all(v in live for v in jaxpr.const_binders):
        return closed
    kept.reverse()
    pairs = [(v, c) for v, c in zip(jaxpr.const_binders, closed.consts, strict=True) if v in live]
    new = Jaxpr(jaxpr.in_binders, kept, jaxpr.outs, [v for v, _ in pairs], jaxpr.name)
    return ClosedJaxpr(new, [c for _, c in pairs])
