"""Reductions in steps that one loop nest each computes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mgefn.compiler.codegen.values import HALVES, name_of
from mgefn.core.avals import ShapedArray
from mgefn.core.jaxpr import Atom, Eqn, Var
from mgefn.ops.shaping import reshape_p

LARGE = 1 << 16  # elements from which a reduction of everything is divided among threads
SHORT = 16  # elements of a last axis from which it is reduced by itself

# Reductions by their primitive's name.
REDUCTIONS = {
    "reduce_sum": "sum",
    "reduce_prod": "prod",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_and": "and",
    "reduce_or": "or",
    "reduce_xor": "xor",
}


def rewritten(eqns: Sequence[Eqn]) -> list[Eqn]:
    """Reductions over axes that do not lie side by side, or of much at once, in steps."""
    out: list[Eqn] = []
    for eqn in eqns:
        if eqn.primitive.name in REDUCTIONS and not math.prod(eqn.inputs[0].aval.shape) == 0:
            out += _steps_of(eqn)
        else:
            out.append(eqn)
    return out


def _steps_of(eqn: Eqn) -> list[Eqn]:
    axes, shape = eqn.params["axes"], eqn.inputs[0].aval.shape
    x_dtype = name_of(eqn.inputs[0].aval.dtype)
    if all(shape[a] == 1 for a in axes):  # each result is its only element
        out = eqn.out_binders[0]
        sizes = {"new_sizes": out.aval.shape}
        return [Eqn(reshape_p, [eqn.inputs[0]], sizes, [out], eqn.source)]
    runs: list[list[int]] = []
    for a in axes:
        # Axes of size 1 between two reduced ones do not keep them apart.
        if runs and all(shape[i] == 1 for i in range(runs[-1][-1] + 1, a)):
            runs[-1].append(a)
        else:
            runs.append([a])
    if len(axes) > 1 and len(runs) == 1 and len(axes) == len(shape):
        size = math.prod(shape)
        if size >= LARGE and shape[-1] >= SHORT and shape[-1] < size:
            runs = [list(axes[:-1]), [axes[-1]]]
    if len(runs) <= 1:
        return [eqn]
    if x_dtype in HALVES and REDUCTIONS[eqn.primitive.name] in ("sum", "prod"):
        return [eqn]  # what lies between two steps would be rounded
    steps: list[Eqn] = []
    x: Atom = eqn.inputs[0]
    for run in reversed(runs):
        last = run is runs[0]
        aval = x.aval
        kept = tuple(n for i, n in enumerate(aval.shape) if i not in run)
        out = eqn.out_binders[0] if last else Var(ShapedArray(kept, aval.dtype))
        params = eqn.params | {"axes": tuple(run)}
        steps += _steps_of(Eqn(eqn.primitive, [x], params, [out], eqn.source))
        x = out
    return steps
