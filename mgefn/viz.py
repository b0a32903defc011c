"""Pictures of programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mgefn.api.inspection import make_jaxpr
from mgefn.core.jaxpr import ClosedJaxpr, Literal, Var, subjaxprs
from mgefn.errors import ArgumentError, api_boundary


@api_boundary
def draw_graph(fun: Callable[..., Any], *args: Any, path: Any = None, **kwargs: Any) -> str:
    """A program as a graph in the DOT language: operations are boxes, values are arrows.

    Args:
        fun: a function of arrays, or a jaxpr.
        args, kwargs: its arguments: arrays, or ShapeDtypeStructs.
        path: a file to write the text to, besides.

    Returns:
        The text, which Graphviz draws (`dot -Tsvg`). Programs inside, such as those of jit, are
        drawn in frames.

    Example:
        >>> text = mgefn.viz.draw_graph(lambda x: mnp.sin(x) * 2, 1.0)
        >>> text.splitlines()[0], text.count("sin"), "f32[]" in text
        ('digraph {', 1, True)
    """
    if isinstance(fun, ClosedJaxpr):
        closed = fun
    elif callable(fun):
        closed = make_jaxpr(fun)(*args, **kwargs)
    else:
        raise ArgumentError(f"draw_graph: needs a function or a jaxpr, got {fun!r}.")
    lines = ["digraph {", "  rankdir=TB; node [shape=box, fontname=monospace, fontsize=10];"]
    lines += [f"  {line}" for line in _drawn(closed, "g")]
    text = "\n".join([*lines, "}"]) + "\n"
    if path is not None:
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
    return text


def _text(s: Any) -> str:
    return '"' + str(s).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _drawn(closed: ClosedJaxpr, prefix: str) -> Iterator[str]:
    """The lines of a program; names of nodes begin with `prefix`."""
    made: dict[Var, str] = {}
    jaxpr = closed.jaxpr
    for i, v in enumerate([*jaxpr.const_binders, *jaxpr.in_binders]):
        node = made[v] = f"{prefix}_in{i}"
        kind = "constant" if i < len(jaxpr.const_binders) else "input"
        yield f"{node} [label={_text(f'{kind} {v.aval}')}, shape=ellipse];"
    literals = 0

    def arrow(atom: Any, to: str) -> Iterator[str]:
        nonlocal literals
        if isinstance(atom, Literal):
            node = f"{prefix}_lit{literals}"
            literals += 1
            yield f"{node} [label={_text(atom.value)}, shape=plaintext];"
            yield f"{node} -> {to};"
        else:
            yield f"{made[atom]} -> {to} [label={_text(atom.aval)}];"

    for n, eqn in enumerate(jaxpr.eqns):
        node = f"{prefix}_{n}"
        name = eqn.params.get("name")
        label = f"{eqn.primitive.name} {name}" if isinstance(name, str) else eqn.primitive.name
        inner = list(subjaxprs(eqn.params))
        shape = "box3d" if inner else "box"
        yield f"{node} [label={_text(label)}, shape={shape}];"
        for atom in eqn.inputs:
            yield from arrow(atom, node)
        made.update((v, node) for v in eqn.out_binders)
        for i, (key, sub) in enumerate(inner):
            yield f"subgraph cluster_{node}_{i} {{ label={_text(f'{label}: {key}')};"
            yield from (f"  {line}" for line in _drawn(sub, f"{node}_{i}"))
            yield "}"
    for i, atom in enumerate(jaxpr.outs):
        node = f"{prefix}_out{i}"
        yield f"{node} [label={_text(f'output {atom.aval}')}, shape=ellipse];"
        yield from arrow(atom, node)


__all__ = ["draw_graph"]
