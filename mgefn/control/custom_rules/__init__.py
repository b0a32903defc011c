"""Functions with derivative rules of their own: custom_jvp and custom_vjp.

A call binds a primitive that holds the Python functions, so that each interpreter can choose: the
evaluator runs the function, differentiation runs the rule, batching binds it again outside with
both batched, staging writes an equation with the function's jaxpr beside the rule. The functions
may close over tracers. An interpreter whose tracers they may hold is made current again around
them (`reentered`), with whatever is current at that time outside it.

Where the function closes over a value that is being differentiated, that part of the derivative is
the ordinary one, of the output the rule computes.

What the functions look like to the interpreters, all on flat lists of arrays:
    fun(*operands) -> outs
    rule(operands, tangents) -> (outs, tangents); tangents may be Zero
    fwd(operands, perturbed) -> (outs, residuals, info); info is static and goes to bwd
    bwd(info, residuals, cts) -> a cotangent, Zero or None for each operand
"""

from __future__ import annotations

from mgefn.control.custom_rules.calls import CustomVJPPrimal, SymbolicZero
from mgefn.control.custom_rules.closures import ClosedOver, closes_over_tracers, reentered
from mgefn.control.custom_rules.conversion import closure_convert
from mgefn.control.custom_rules.jvp import custom_jvp, custom_jvp_call_p, custom_jvp_staged_p
from mgefn.control.custom_rules.vjp import (
    custom_transpose_call_p,
    custom_vjp,
    custom_vjp_call_p,
    custom_vjp_staged_p,
)

__all__ = [
    "ClosedOver",
    "CustomVJPPrimal",
    "SymbolicZero",
    "closes_over_tracers",
    "closure_convert",
    "custom_jvp",
    "custom_jvp_call_p",
    "custom_jvp_staged_p",
    "custom_transpose_call_p",
    "custom_vjp",
    "custom_vjp_call_p",
    "custom_vjp_staged_p",
    "reentered",
]
