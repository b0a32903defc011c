"""Arrays, tracers, primitives and the IR; what programs that read jaxprs import, by JAX's names."""

from __future__ import annotations

from mgefn.core.avals import ShapedArray
from mgefn.core.jaxpr import (
    Atom,
    ClosedJaxpr,
    Jaxpr,
    Literal,
    Var,
    check_jaxpr,
    eval_jaxpr,
    jaxpr_as_fun,
)
from mgefn.core.jaxpr import Eqn as JaxprEqn
from mgefn.core.primitive import Primitive
from mgefn.core.tracer import Tracer

__all__ = [
    "Atom",
    "ClosedJaxpr",
    "Jaxpr",
    "JaxprEqn",
    "Literal",
    "Primitive",
    "ShapedArray",
    "Tracer",
    "Var",
    "check_jaxpr",
    "eval_jaxpr",
    "jaxpr_as_fun",
]
