"""Common subexpression elimination: compute equal equations once."""

from __future__ import annotations

from typing import Any

from mgefn.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, Literal, Var, has_effect


def eliminate_common_subexpressions(closed: ClosedJaxpr) -> ClosedJaxpr:
    jaxpr = closed.jaxpr
    env: dict[Var, Atom] = {}
    seen: dict[Any, list[Var]] = {}
    kept = []
    key_of: dict[int, Any] = {}  # id of a literal's value -> its dtype and bits

    def atom_key(a: Atom) -> Any:
        """Equal for atoms that hold the same value, bit for bit."""
        if a.__class__ is Var:
            return a
        value = a.value  # type: ignore[union-attr]  # a Literal
        found = key_of.get(id(value))
        if found is None:
            data = value._data
            found = key_of[id(value)] = (data.dtype, data.tobytes())
        return found

    for eqn in jaxpr.eqns:
        eqn = eqn.substituted(env)
        if not eqn.primitive.opaque and not has_effect(eqn):
            try:
                key: Any = (eqn.primitive, *[atom_key(a) for a in eqn.inputs])
                if eqn.params:
                    key = (key, frozenset(eqn.params.items()))
                before = seen.get(key)
            except TypeError:  # a param that is not hashable, such as a user's callable object
                before = key = None
            if before is not None:
                env.update(zip(eqn.out_binders, before, strict=True))
                continue
            if key is not None:
                seen[key] = eqn.out_binders
        kept.append(eqn)
    if not env:
        return closed
    outs = [a if isinstance(a, Literal) else env.get(a, a) for a in jaxpr.outs]
    new = Jaxpr(jaxpr.in_binders, kept, outs, jaxpr.const_binders, jaxpr.name)
    return ClosedJaxpr(new, closed.consts)
