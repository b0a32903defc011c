"""Common subexpression elimination: compute equal equations once."""

from __future__ import annotations

from typing import Any

from mgefn.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, Literal, Var, has_effect


def atom_key(a: Atom) -> Any:
    """Equal for atoms that hold the same value, bit for bit."""
    if isinstance(a, Literal):
        data = a.value._data
        return (data.dtype, data.tobytes())
    return a


def eliminate_common_subexpressions(closed: ClosedJaxpr) -> ClosedJaxpr:
    jaxpr = closed.jaxpr
    env: dict[Var, Atom] = {}
    seen: dict[Any, list[Var]] = {}
    kept = []
    for eqn in jaxpr.eqns:
        eqn = eqn.substituted(env)
        if not eqn.primitive.opaque and not has_effect(eqn):
            try:
                key = (eqn.primitive, *map(atom_key, eqn.inputs), frozenset(eqn.params.items()))
                before = seen.get(key)
            except TypeError:  # a param that is not hashable, such as a user's callable object
                before = key = None
            if before is not None:
                env.update(zip(eqn.out_binders, before, strict=True))
                continue
            if key is not None:
                seen[key] = eqn.out_binders
        kept.append(eqn)
    outs = [a if isinstance(a, Literal) else env.get(a, a) for a in jaxpr.outs]
    new = Jaxpr(jaxpr.in_binders, kept, outs, jaxpr.const_binders, jaxpr.name)
    return ClosedJaxpr(new, closed.consts)
