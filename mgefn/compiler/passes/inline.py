"""Inlining: write the program of a call in its place.

A program that is called more than once and is not small stays a call, so that functions that call
each other twice do not double the size at each level. Works with a stack of its own: nesting depth
is the only depth here, and it may be large too.
"""

from __future__ import annotations

from typing import Any

from mgefn.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var

SMALL = 64  # equations: inlined however often it is called
FEW_CALLS = 4  # calls of one program that are inlined up to a size of
MEDIUM = 2000  # equations, those of the calls inlined in it included


def inline_calls(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Replace calls by the equations of what they call."""
    chosen = _chosen(closed)
    if not chosen:
        return closed
    eqns: list[Eqn] = []
    const_binders = list(closed.jaxpr.const_binders)
    consts = list(closed.consts)
    const_of: dict[int, Var] = {id(c): v for v, c in zip(const_binders, consts, strict=True)}

    def constant(value: Any, var: Var) -> Var:
        found = const_of.get(id(value))
        if found is None:
            found = const_of[id(value)] = Var(var.aval)
            const_binders.append(found)
            consts.append(value)
        return found

    top: dict[Var, Atom] = {}
    # Each frame: the equations still to come, the substitution inside, and for a call the
    # equation it stands for with the substitution outside.
    stack: list[tuple[Any, dict[Var, Atom], Eqn | None, dict[Var, Atom], Jaxpr]] = [
        (iter(closed.jaxpr.eqns), top, None, top, closed.jaxpr)
    ]
    while stack:
        rest, env, call, outer_env, jaxpr = stack[-1]
        eqn = next(rest, None)
        if eqn is None:
            stack.pop()
            if call is not None:
                for v, out in zip(call.out_binders, jaxpr.outs, strict=True):
                    outer_env[v] = out if isinstance(out, Literal) else env.get(out, out)
            continue
        inputs = eqn.substituted(env).inputs
        inner = _inner(eqn)
        if inner is not None and id(inner) in chosen:
            inside: dict[Var, Atom] = dict(zip(inner.jaxpr.in_binders, inputs, strict=True))
            for v, c in zip(inner.jaxpr.const_binders, inner.consts, strict=True):
                inside[v] = constant(c, v)
            stack.append((iter(inner.jaxpr.eqns), inside, eqn, env, inner.jaxpr))
            continue
        if env is top:
            outs = eqn.out_binders
        else:
            # The inner program may be written here twice, so its variables are renamed.
            outs = [Var(v.aval) for v in eqn.out_binders]
            env.update(zip(eqn.out_binders, outs, strict=True))
        eqns.append(Eqn(eqn.primitive, inputs, eqn.params, outs, eqn.source))
    outs_ = [a if isinstance(a, Literal) else top.get(a, a) for a in closed.jaxpr.outs]
    new = Jaxpr(closed.jaxpr.in_binders, eqns, outs_, const_binders, closed.jaxpr.name)
    return ClosedJaxpr(new, consts)


def _inner(eqn: Eqn) -> ClosedJaxpr | None:
    hook = eqn.primitive.inlined
    return None if hook is None else hook(eqn.params)


def _chosen(closed: ClosedJaxpr) -> set[int]:
    """The inner programs to inline, by id; ids live as long as `closed`."""
    programs = _innermost_first(closed)
    calls: dict[int, int] = {}
    for program in programs:
        for eqn in program.jaxpr.eqns:
            inner = _inner(eqn)
            if inner is not None:
                calls[id(inner)] = calls.get(id(inner), 0) + 1
    chosen: set[int] = set()
    size: dict[int, int] = {}
    for program in programs:
        n = 0
        for eqn in program.jaxpr.eqns:
            inner = _inner(eqn)
            n += size[id(inner)] if inner is not None and id(inner) in chosen else 1
        size[id(program)] = n
        often = calls.get(id(program), 0)
        if program is not closed and (
            often == 1 or n <= SMALL or (often <= FEW_CALLS and n <= MEDIUM)
        ):
            chosen.add(id(program))
    return chosen


def _innermost_first(closed: ClosedJaxpr) -> list[ClosedJaxpr]:
    """All programs, each once and after those that it calls."""
    order: list[ClosedJaxpr] = []
    stack: list[tuple[ClosedJaxpr, Any]] = [(closed, iter(closed.jaxpr.eqns))]
    seen = {id(closed)}
    while stack:
        program, rest = stack[-1]
        for eqn in rest:
            inner = _inner(eqn)
            if inner is not None and id(inner) not in seen:
                seen.add(id(inner))
                stack.append((inner, iter(inner.jaxpr.eqns)))
                break
        else:
            stack.pop()
            order.append(program)
    return order
