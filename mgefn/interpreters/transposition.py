"""Transposition: read a linear program backwards.

Linear operands have no value (`UndefinedPrimal`), the others are known. Cotangents of a variable
used several times are added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mgefn.core.avals import UndefinedPrimal, Zero, is_undefined
from mgefn.core.jaxpr import ClosedJaxpr, Jaxpr, Literal, Var
from mgefn.core.source import scopes
from mgefn.interpreters.staging import trace_closed
from mgefn.ops.elementwise import add_p
from mgefn.ops.shaping import zeros


def add_cotangents(a: Any, b: Any) -> Any:
    """a + b where either may be None or a Zero."""
    if a is None or a.__class__ is Zero:
        return b
    if b is None or b.__class__ is Zero:
        return a
    return add_p.bind1(a, b)


def backward_pass(
    jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any], cts: Sequence[Any]
) -> list[Any]:
    """Cotangents of the inputs whose arg is an UndefinedPrimal; None for the others, Zero for none.

    Equations on known operands only are evaluated first, in order.
    """
    env: dict[Var, Any] = dict(zip(jaxpr.const_binders, consts, strict=True))
    linear: set[Var] = set()
    for v, a in zip(jaxpr.in_binders, args, strict=True):
        if is_undefined(a):
            linear.add(v)
        else:
            env[v] = a
    linear_eqns = []
    for eqn in jaxpr.eqns:
        if any(a in linear for a in eqn.inputs if isinstance(a, Var)):
            linear.update(eqn.out_binders)
            linear_eqns.append(eqn)
        else:
            ins = [a.value if isinstance(a, Literal) else env[a] for a in eqn.inputs]
            env.update(zip(eqn.out_binders, eqn.primitive.bind(*ins, **eqn.params), strict=True))

    ct_of: dict[Var, Any] = {}
    for out, ct in zip(jaxpr.outs, cts, strict=True):
        if isinstance(out, Var) and out in linear:
            ct_of[out] = add_cotangents(ct_of.get(out), ct)
    previous = scopes.replayed
    try:
        for eqn in reversed(linear_eqns):
            scopes.replayed = eqn.source
            out_cts = [ct_of.pop(v, None) for v in eqn.out_binders]
            if all(c is None or c.__class__ is Zero for c in out_cts):
                continue
            ins = []
            for a in eqn.inputs:
                if isinstance(a, Literal):
                    ins.append(a.value)
                else:
                    ins.append(UndefinedPrimal(a.aval) if a in linear else env[a])
            for a, ct in zip(eqn.inputs, transpose_eqn(eqn, out_cts, ins), strict=True):
                if ct is not None and isinstance(a, Var) and a in linear:
                    ct_of[a] = add_cotangents(ct_of.get(a), ct)
    finally:
        scopes.replayed = previous
    return [
        (ct_of.get(v) if ct_of.get(v) is not None else Zero(v.aval)) if is_undefined(a) else None
        for v, a in zip(jaxpr.in_binders, args, strict=True)
    ]


def transpose_eqn(eqn: Any, out_cts: Sequence[Any], ins: Sequence[Any]) -> Sequence[Any]:
    """Cotangents of an equation's inputs; `eqn` has primitive, params and out avals."""
    primitive = eqn.primitive
    if primitive.transpose is None:
        raise primitive.missing("transpose")
    cts = [
        (Zero(v.aval) if primitive.symbolic_cts else zeros(v.aval))
        if c is None or c.__class__ is Zero
        else c
        for v, c in zip(eqn.out_binders, out_cts, strict=True)
    ]
    return primitive.transpose(tuple(cts), *ins, **eqn.params)


def transpose_jaxpr(
    closed: ClosedJaxpr, linear: tuple[bool, ...], ct_given: tuple[bool, ...]
) -> tuple[ClosedJaxpr, list[bool]]:
    """A jaxpr (known inputs, given cotangents) -> cotangents of the linear inputs that are nonzero.

    The second result says, for each linear input, whether it has one.
    """

    def make() -> tuple[ClosedJaxpr, list[bool]]:
        avals = closed.in_avals
        n_known = sum(not x for x in linear)
        nonzero: list[bool] = []

        def fun(*args):
            known, given = iter(args[:n_known]), iter(args[n_known:])
            ins = [
                UndefinedPrimal(a) if x else next(known) for x, a in zip(linear, avals, strict=True)
            ]
            cts = [
                next(given) if g else Zero(a)
                for g, a in zip(ct_given, closed.out_avals, strict=True)
            ]
            found = [
                ct
                for ct, x in zip(
                    backward_pass(closed.jaxpr, closed.consts, ins, cts), linear, strict=True
                )
                if x
            ]
            nonzero[:] = [ct.__class__ is not Zero for ct in found]
            return [ct for ct in found if ct.__class__ is not Zero]

        known_avals = [a for a, x in zip(avals, linear, strict=True) if not x]
        ct_avals = [a.strong() for a, g in zip(closed.out_avals, ct_given, strict=True) if g]
        name = f"transpose_{closed.jaxpr.name}"
        return trace_closed(fun, [*known_avals, *ct_avals], "vjp", name), nonzero

    return closed.derive(("transpose", linear, ct_given), make)
