"""The intermediate representation: typed, first order, each variable bound once.

    { lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }

A `Jaxpr` is data: a list of equations over variables, with literals for rank-0 constants. A
`ClosedJaxpr` adds the values of the constants that the program closed over. Jaxprs are immutable
by convention; what is derived from one (its jvp, its transpose, its executable) is kept in
`ClosedJaxpr.derived` and lives as long as it. Nothing here recurses over program length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.core.avals import ShapedArray
from mgefn.core.primitive import Primitive
from mgefn.core.source import Source, place, scopes
from mgefn.errors import JaxprError


class Var:
    """A variable; its identity is the object's."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray):
        self.aval = aval

    def __repr__(self) -> str:
        return f"Var({self.aval})"


class Literal:
    """A rank-0 constant in an equation's inputs; `value` is a concrete Array."""

    __slots__ = ("aval", "value")

    def __init__(self, value: Any, aval: ShapedArray):
        self.value = value
        self.aval = aval

    @property
    def val(self) -> Any:
        return self.value

    def __repr__(self) -> str:
        return f"Literal({self.value})"


Atom = Var | Literal


class Eqn:
    """out_binders = primitive[params] inputs, and the user's line that asked for it."""

    __slots__ = ("inputs", "out_binders", "params", "primitive", "source")

    def __init__(
        self,
        primitive: Primitive,
        inputs: list[Atom],
        params: dict[str, Any],
        out_binders: list[Var],
        source: Source | None = None,
    ):
        self.primitive = primitive
        self.inputs = inputs
        self.params = params
        self.out_binders = out_binders
        self.source = source

    # JAX's names for the same things, which programs that read jaxprs use.
    @property
    def invars(self) -> list[Atom]:
        return self.inputs

    @property
    def outvars(self) -> list[Var]:
        return self.out_binders

    def substituted(self, env: dict[Var, Atom]) -> Eqn:
        """This equation with variables replaced; itself where none of them is in `env`."""
        if env:
            for a in self.inputs:
                if a in env:
                    inputs: list[Atom] = [env.get(a, a) for a in self.inputs]  # type: ignore[arg-type]  # a Literal is in no env
                    return Eqn(self.primitive, inputs, self.params, self.out_binders, self.source)
        return self

    def replace(self, **changes) -> Eqn:
        new = {k: getattr(self, k) for k in self.__slots__} | changes
        return Eqn(**new)

    def __repr__(self) -> str:
        names = Names()
        return "".join(_eqn_text(self, names, 0))


class Jaxpr:
    """A program: in_binders and const_binders come in, eqns run in order, outs go out."""

    __slots__ = ("const_binders", "eqns", "in_binders", "name", "outs")

    def __init__(
        self,
        in_binders: list[Var],
        eqns: list[Eqn],
        outs: list[Atom],
        const_binders: list[Var] | None = None,
        name: str = "",
    ):
        self.in_binders = in_binders
        self.const_binders = const_binders if const_binders is not None else []
        self.eqns = eqns
        self.outs = outs
        self.name = name

    @property
    def invars(self) -> list[Var]:
        return self.in_binders

    @property
    def constvars(self) -> list[Var]:
        return self.const_binders

    @property
    def outvars(self) -> list[Atom]:
        return self.outs

    def __str__(self) -> str:
        return pretty(self)

    __repr__ = __str__


class ClosedJaxpr:
    """A Jaxpr with the values of its constants."""

    __slots__ = ("__weakref__", "consts", "derived", "jaxpr")

    def __init__(self, jaxpr: Jaxpr, consts: list[Any]):
        self.jaxpr = jaxpr
        self.consts = consts
        self.derived: dict[Any, Any] = {}

    @property
    def eqns(self) -> list[Eqn]:
        return self.jaxpr.eqns

    @property
    def in_avals(self) -> list[ShapedArray]:
        return [v.aval for v in self.jaxpr.in_binders]

    @property
    def out_avals(self) -> list[ShapedArray]:
        return [a.aval for a in self.jaxpr.outs]

    @property
    def literals(self) -> list[Any]:
        return self.consts

    def derive(self, key: Any, make: Callable[[], Any]) -> Any:
        """What `make` gives, made once for this jaxpr; `key` is hashable."""
        try:
            return self.derived[key]
        except KeyError:
            value = make()
            # At most a few dozen kinds exist; the bound guards against keys drawn from data.
            if len(self.derived) >= 128:
                self.derived.pop(next(iter(self.derived)))
            self.derived[key] = value
            return value

    def __str__(self) -> str:
        return pretty(self.jaxpr)

    __repr__ = __str__


def subjaxprs(params: dict[str, Any]) -> Iterator[tuple[str, ClosedJaxpr]]:
    """The jaxprs that an equation's params hold, with their param's name."""
    for key, value in params.items():
        if isinstance(value, ClosedJaxpr):
            yield key, value
        elif isinstance(value, tuple):
            for v in value:
                if isinstance(v, ClosedJaxpr):
                    yield key, v


def has_effect(eqn: Eqn) -> bool:
    """Must the equation run even when nothing needs its outputs? The jaxprs it holds count."""
    if eqn.primitive.effect:
        return True
    return any(
        sub.derive("has effect", lambda sub=sub: any(map(has_effect, sub.eqns)))
        for _, sub in subjaxprs(eqn.params)
    )


def named_axes(primitive: Primitive, params: dict[str, Any]) -> frozenset:
    """The names of the mapped axes that an operation reads; the jaxprs it holds count."""
    if primitive.collective:
        return frozenset((params["axis_name"],))
    found: frozenset = frozenset()
    for _, sub in subjaxprs(params):
        found |= sub.derive(
            "named axes",
            lambda sub=sub: frozenset().union(
                *(named_axes(e.primitive, e.params) for e in sub.eqns)
            ),
        )
    return found


# -- printing ---------------------------------------------------------------------------------


class Names:
    """Gives variables the names a, b, ..., z, ba, bb, ... in the order they are met."""

    def __init__(self) -> None:
        self.names: dict[Var, str] = {}

    def __call__(self, v: Var) -> str:
        name = self.names.get(v)
        if name is None:
            n, name = len(self.names), ""
            while True:
                name = chr(ord("a") + n % 26) + name
                n //= 26
                if n == 0:
                    break
            self.names[v] = name
        return name


def _atom_text(a: Atom, names: Names) -> str:
    if isinstance(a, Literal):
        if a.aval.dtype.names is not None:
            return f"key:{_aval_text(a.aval)}"
        value = a.value.item() if a.aval.dtype.kind in "biufc" else float(a.value)
        return f"{value}:{_aval_text(a.aval)}"
    return names(a)


def _aval_text(aval: ShapedArray) -> str:
    return aval.str_short() + ("~" if aval.weak_type else "")


def _param_text(value: Any, indent: int) -> str:
    if isinstance(value, ClosedJaxpr):
        return pretty(value.jaxpr, indent)
    if isinstance(value, tuple) and any(isinstance(v, ClosedJaxpr) for v in value):
        return "(" + ", ".join(_param_text(v, indent) for v in value) + ")"
    if isinstance(value, np.dtype):
        return dtypes.short_name(value)
    if callable(value) and hasattr(value, "__name__"):
        return value.__name__
    return str(value)


def _eqn_text(eqn: Eqn, names: Names, indent: int) -> Iterator[str]:
    pad = " " * indent
    outs = " ".join(f"{names(v)}:{_aval_text(v.aval)}" for v in eqn.out_binders) or "_"
    ins = "".join(" " + _atom_text(a, names) for a in eqn.inputs)
    shown = sorted((k, v) for k, v in eqn.params.items() if not k.startswith("_") and v is not None)
    yield f"{pad}{outs} = {eqn.primitive.name}"
    if any(True for _ in subjaxprs(eqn.params)):
        yield "[\n"
        for k, v in shown:
            yield f"{pad}  {k}={_param_text(v, indent + 2)}\n"
        yield f"{pad}]"
    elif shown:
        yield "[" + " ".join(f"{k}={_param_text(v, indent)}" for k, v in shown) + "]"
    yield ins


def pretty(jaxpr: Jaxpr, indent: int = 0) -> str:
    """The text of a jaxpr, as JAX prints it."""
    names = Names()
    pad = " " * indent

    def binders(vs: Sequence[Var]) -> str:
        return " ".join(f"{names(v)}:{_aval_text(v.aval)}" for v in vs)

    head = f"{{ lambda {binders(jaxpr.const_binders)}; {binders(jaxpr.in_binders)}. let"
    parts: list[str] = []
    for eqn in jaxpr.eqns:
        parts.append("".join(_eqn_text(eqn, names, indent + 4)))
    outs = ", ".join(_atom_text(a, names) for a in jaxpr.outs)
    if len(jaxpr.outs) == 1:
        outs += ","
    if not parts:
        return f"{head}  in ({outs}) }}"
    return "\n".join([head, *parts, f"{pad}  in ({outs}) }}"])


# -- reading ----------------------------------------------------------------------------------


def last_uses(jaxpr: Jaxpr) -> list[list[Var]]:
    """For each equation, the variables that nothing after it reads."""
    kept: set[Atom] = set(jaxpr.outs)
    uses: list[list[Var]] = []
    for eqn in reversed(jaxpr.eqns):
        dead = []
        for atom in (*eqn.inputs, *eqn.out_binders):
            if isinstance(atom, Var) and atom not in kept:
                kept.add(atom)
                dead.append(atom)
        uses.append(dead)
    uses.reverse()
    return uses


def _bound(eqn: Eqn, ins: list[Any]) -> Sequence[Any]:
    return eqn.primitive.bind(*ins, **eqn.params)


def eval_jaxpr(
    jaxpr: Jaxpr,
    consts: Iterable[Any],
    args: Sequence[Any],
    step: Callable[[Eqn, list[Any]], Sequence[Any]] = _bound,
) -> list[Any]:
    """Read the equations of a jaxpr one by one, each on the values of its inputs.

    step: gives an equation's outputs; by default it is bound under the current interpreter.
    """
    env: dict[Var, Any] = dict(zip(jaxpr.const_binders, consts, strict=True))
    env.update(zip(jaxpr.in_binders, args, strict=True))
    previous = scopes.replayed
    try:
        for eqn, dead in zip(jaxpr.eqns, last_uses(jaxpr), strict=True):
            ins = [a.value if a.__class__ is Literal else env[a] for a in eqn.inputs]  # type: ignore[union-attr, index]
            # What is made of the equation keeps the user's line.
            scopes.replayed = eqn.source
            env.update(zip(eqn.out_binders, step(eqn, ins), strict=True))
            for v in dead:
                del env[v]
    finally:
        scopes.replayed = previous
    return [a.value if isinstance(a, Literal) else env[a] for a in jaxpr.outs]


def jaxpr_as_fun(closed: ClosedJaxpr) -> Callable[..., list[Any]]:
    """The function of arrays that a jaxpr is; it gives the list of outputs."""
    return lambda *args: eval_jaxpr(closed.jaxpr, closed.consts, args)


# -- checking ---------------------------------------------------------------------------------


def check_jaxpr(jaxpr: Jaxpr | ClosedJaxpr) -> None:
    """Raise JaxprError where a jaxpr is malformed.

    Each variable must be bound once and before its use, and each equation's outputs must have the
    types that its primitive's abstract evaluation gives. Nested jaxprs are checked too.
    """
    if isinstance(jaxpr, ClosedJaxpr):
        if len(jaxpr.consts) != len(jaxpr.jaxpr.const_binders):
            raise JaxprError(
                f"check_jaxpr: {len(jaxpr.jaxpr.const_binders)} constants are bound and "
                f"{len(jaxpr.consts)} given."
            )
        jaxpr = jaxpr.jaxpr
    bound: set[Var] = set()

    def bind(vs: Iterable[Var], where: str) -> None:
        for v in vs:
            if v in bound:
                raise JaxprError(f"check_jaxpr: {where} binds a variable a second time: {v}.")
            bound.add(v)

    def use(atoms: Iterable[Atom], where: str) -> None:
        for a in atoms:
            if isinstance(a, Var) and a not in bound:
                raise JaxprError(f"check_jaxpr: {where} uses a variable that is not bound: {a}.")

    bind(jaxpr.const_binders, "the constants' list")
    bind(jaxpr.in_binders, "the inputs' list")
    for n, eqn in enumerate(jaxpr.eqns):
        where = f"equation {n}, {eqn.primitive.name} at {place(eqn.source)},"
        use(eqn.inputs, where)
        for _, sub in subjaxprs(eqn.params):
            check_jaxpr(sub)
        want = eqn.primitive.out_avals([a.aval for a in eqn.inputs], eqn.params)
        got = [v.aval for v in eqn.out_binders]
        if len(want) != len(got) or not all(w.same_type(g) for w, g in zip(want, got, strict=True)):
            raise JaxprError(
                f"check_jaxpr: {where} must give {', '.join(map(str, want))}, "
                f"is bound to {', '.join(map(str, got))}."
            )
        bind(eqn.out_binders, where)
    use(jaxpr.outs, "the outputs' list")
