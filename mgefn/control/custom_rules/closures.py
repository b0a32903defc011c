"""Python functions that close over tracers, run inside the interpreter that made these.

The function of a call runs where the call is read, which may be outside the interpreter whose
tracers the function holds. `reentered` makes that interpreter current again, with whatever is
current at that time outside it. A function bound outside an interpreter must give no tracer of
that interpreter back: `ClosedOver` says that it would, and the call is then read operation by
operation.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mgefn.core.interpreter import Interpreter, state
from mgefn.core.primitive import Primitive
from mgefn.core.tracer import Tracer
from mgefn.errors import MgefnError
from mgefn.interpreters.jvp import JVPInterpreter
from mgefn.interpreters.linearize import LinearizeInterpreter, LinearizeTracer, Node, SlopeEqn


class ClosedOver(MgefnError):
    """A function that was to run outside an interpreter closes over one of its tracers."""


@contextmanager
def reentered(interpreter: Any) -> Iterator[None]:
    """Make an interpreter current around functions that may close over its tracers.

    What is current now becomes the interpreter outside it: the operations of the function go there.
    """
    previous, outer = state.current, interpreter.outer
    inside = previous
    while inside is not None:
        if inside is interpreter:  # what is current stands inside it already
            yield
            return
        inside = inside.outer
    recorder = getattr(interpreter, "recorder", None)
    interpreter.outer = previous
    if recorder is not None:
        recorder.outer = previous
    state.current = interpreter
    try:
        yield
    finally:
        interpreter.outer = outer
        if recorder is not None:
            recorder.outer = outer
        state.current = previous


def closes_over_tracers(functions: Sequence[Any], depth: int = 4) -> bool:
    """Does a closure, a default or a bound argument of these Python functions hold a tracer?"""
    pending = [(f, depth) for f in functions]
    while pending:
        x, left = pending.pop()
        if isinstance(x, Tracer):
            return True
        if left == 0:
            continue
        found: list[Any] = []
        if isinstance(x, types.FunctionType):
            for cell in x.__closure__ or ():
                try:
                    found.append(cell.cell_contents)
                except ValueError:  # not yet assigned
                    continue
            found += x.__defaults__ or ()
        elif isinstance(x, functools.partial):
            found += [x.func, *x.args, *x.keywords.values()]
        elif isinstance(x, types.MethodType):
            found.append(x.__func__)
        elif isinstance(x, (list, tuple)):
            found += x[:64]
        elif isinstance(x, dict):
            found += list(x.values())[:64]
        else:
            inner = getattr(x, "__wrapped__", None)
            if inner is not None:
                found.append(inner)
        pending += [(f, left - 1) for f in found]
    return False


def _refuse_own(interpreter: Interpreter, x: Any) -> None:
    if isinstance(x, (list, tuple)):
        for part in x:
            _refuse_own(interpreter, part)
    elif isinstance(x, Tracer) and x.interpreter is interpreter:
        raise ClosedOver(f"{interpreter.about}: closes over a value that is transformed.")


def run_inside(interpreter: Any, fun: Callable[..., Any]) -> Callable[..., Any]:
    """`fun` with the interpreter current, for binding outside it; its results must not belong to
    the interpreter."""

    def run(*args: Any) -> Any:
        with reentered(interpreter):
            out = fun(*args)
        _refuse_own(interpreter, out)
        return out

    return run


def unperturbed(
    interpreter: Any, primitive: Primitive, primals: Sequence[Any], params: dict[str, Any]
) -> Sequence[Any]:
    """Outputs of a call none of whose operands the interpreter transforms; they may be tracers of
    the interpreter where the function closes over some.

    The call goes on to the interpreter outside, which may have use for the rule.
    """
    if interpreter.outer is not None:
        tape = getattr(interpreter, "tape", None)
        length = 0 if tape is None else len(tape)
        wrapped = {
            k: run_inside(interpreter, v) if k in ("fun", "rule", "fwd", "bwd") else v
            for k, v in params.items()
        }
        try:
            return primitive.bind(*primals, **wrapped)
        except ClosedOver:
            if tape is not None:
                del tape[length:]
    # Nobody outside asks for the rule, or the function closes over tracers of this interpreter:
    # read it operation by operation.
    with reentered(interpreter):
        return params["fun"](*primals)


def split_all(interpreter: JVPInterpreter, outs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    pairs = [interpreter.split(o) for o in outs]
    return [p for p, _ in pairs], [t for _, t in pairs]


def with_node(interpreter: LinearizeInterpreter, out: Any, node: Node | None) -> Any:
    """An output whose tangent is `node` and what the output carries by itself."""
    value, own = interpreter.split(out)
    if node is None:
        return out
    if own is not None:
        both = Node(node.shape, node.dtype)
        interpreter.tape.append(SlopeEqn(both, [(own, 1), (node, 1)]))
        node = both
    return LinearizeTracer(interpreter, value, node)
