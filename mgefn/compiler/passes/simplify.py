"""Algebraic simplification: identities that hold bit for bit.

A primitive's `simplify(inputs, params, out_avals)` returns atoms that equal the outputs, or None;
`instead(inputs, params)` a cheaper equation's primitive, inputs and params, or None.
"""

from __future__ import annotations

from mgefn.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var


def simplify(closed: ClosedJaxpr) -> ClosedJaxpr:
    jaxpr = closed.jaxpr
    env: dict[Var, Atom] = {}
    made_by: dict[Var, Eqn] = {}
    kept = []
    changed = False
    for eqn in jaxpr.eqns:
        eqn = eqn.substituted(env)
        if eqn.primitive.instead is not None:
            other = eqn.primitive.instead(eqn.inputs, eqn.params)
            if other is not None:
                p, operands, params = other
                eqn = Eqn(p, operands, params, eqn.out_binders, eqn.source)
                changed = True
        inputs = eqn.inputs
        p = eqn.primitive
        if p.simplify is not None:
            same = p.simplify(inputs, eqn.params, [v.aval for v in eqn.out_binders])
            if same is not None:
                env.update(zip(eqn.out_binders, same, strict=True))
                changed = True
                continue
        params = eqn.params
        if p.merge is not None and isinstance(inputs[0], Var):
            # Two in a row of the same kind, such as reshapes, become one.
            before = made_by.get(inputs[0])
            if before is not None and before.primitive is p:
                params = p.merge(before.params, params)
                inputs = before.inputs
                same = (
                    p.simplify(inputs, params, [v.aval for v in eqn.out_binders])
                    if p.simplify
                    else None
                )
                if same is not None:
                    env.update(zip(eqn.out_binders, same, strict=True))
                    changed = True
                    continue
                eqn = Eqn(p, inputs, params, eqn.out_binders, eqn.source)
                changed = True
        if p.merge is not None:
            made_by[eqn.out_binders[0]] = eqn
        kept.append(eqn)
    if not changed:
        return closed
    outs = [a if isinstance(a, Literal) else env.get(a, a) for a in jaxpr.outs]
    new_jaxpr = Jaxpr(jaxpr.in_binders, kept, outs, jaxpr.const_binders, jaxpr.name)
    return ClosedJaxpr(new_jaxpr, closed.consts)
