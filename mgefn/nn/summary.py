"""A table of a module: shapes, numbers of parameters, and operations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mgefn import random, tree
from mgefn.api.inspection import eval_shape, make_jaxpr
from mgefn.core.array_methods import ArrayLike
from mgefn.errors import ArgumentError, api_boundary
from mgefn.nn.module import Module, read_plan

__all__ = ["count_flops", "tabulate"]


def _flops(jaxpr: Any) -> int:
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    total = 0
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        outs = [math.prod(v.aval.shape) for v in eqn.out_binders]
        inner = [_flops(p) for p in eqn.params.values() if _is_program(p)]
        branches = eqn.params.get("branches")
        if branches is not None:
            total += max((_flops(b) for b in branches), default=0)
        elif inner:
            total += sum(inner) * int(eqn.params.get("length", 1))
        elif name == "dot_general":
            (contracted, _), _ = eqn.params["dimension_numbers"]
            shape = eqn.inputs[0].aval.shape
            total += 2 * outs[0] * math.prod(shape[d] for d in contracted)
        elif name == "conv_general_dilated":
            kernel = eqn.inputs[1].aval.shape
            features = kernel[eqn.params["dimension_numbers"].rhs_spec[0]]
            total += 2 * outs[0] * (math.prod(kernel) // max(features, 1))
        elif eqn.primitive.elementwise and name != "convert_element_type":
            total += outs[0]
        elif name.startswith("reduce"):
            total += math.prod(eqn.inputs[0].aval.shape)
    return total


def _is_program(p: Any) -> bool:
    return hasattr(getattr(p, "jaxpr", p), "eqns")


@api_boundary
def count_flops(fun: Any, *args: Any) -> int:
    """The floating-point operations of a call, counted in its program without running it.

    A multiplication and an addition are two. Matrix products and convolutions count all their
    products; reductions and elementwise operations, comparisons too, one for each element; the rest
    (moves, conversions, sorting, random numbers) nothing. Of branches the longest counts;
    a while loop counts one round.

    Example:
        >>> mgefn.nn.count_flops(lambda x, y: x @ y, mnp.ones((2, 3)), mnp.ones((3, 4)))
        48
    """
    if not callable(fun):
        raise ArgumentError(f"count_flops: needs a function, got {fun!r}.")
    return _flops(make_jaxpr(fun)(*args))


def _shape(x: Any) -> str:
    def one(leaf: Any) -> str:
        aval = getattr(leaf, "dtype", None)
        if aval is None:
            return repr(leaf)
        return f"{np.dtype(aval).name}[{','.join(map(str, leaf.shape))}]"

    parts = [one(leaf) for leaf in tree.leaves(x)]
    return ", ".join(parts) or "-"


def _size(t: Any) -> int:
    return sum(math.prod(x.shape) for x in tree.leaves(t))


@api_boundary
def tabulate(module: Module, rngs: ArrayLike | None = None, *inputs: Any, **options: Any) -> str:
    """A table of the modules inside of a module: inputs, outputs, parameters, operations.

    Nothing is computed: shapes are enough.

    Args:
        module: any.
        rngs: a random key; its value does not matter, and None will do.
        *inputs: examples, or `ShapeDtypeStruct`s.
        **options: passed on to forward.

    Returns:
        Lines of text: one for each call of a module, with its path; those of a module's inner
        calls are part of its numbers. FLOPs are those of `count_flops`, without training.

    Example:
        >>> from mgefn import nn
        >>> model = nn.Sequential(nn.Linear(None, 8), nn.relu, nn.Linear(None, 2))
        >>> print(nn.tabulate(model, None, mnp.ones((1, 4))))
        path  module      input         output        params  flops
              Sequential  float32[1,4]  float32[1,2]      58    122
        0     Linear      float32[1,4]  float32[1,8]      40     72
        1     Lambda      float32[1,8]  float32[1,8]       0     16
        2     Linear      float32[1,8]  float32[1,2]      18     34
    """
    if not isinstance(module, Module):
        raise ArgumentError(f"tabulate: needs a module, got {module!r}.")
    key = random.key(0) if rngs is None else rngs
    rows = [("path", "module", "input", "output", "params", "flops")]
    for record in read_plan(module, inputs, options).records:
        inner, given = record.module, record.inputs
        params, state = eval_shape(
            lambda k, m=inner, r=record: m.init(k, *r.inputs, **r.options), key
        )

        def call(p: Any, s: Any, *xs: Any, m: Module = inner, o: Any = record.options) -> Any:
            return m.apply(p, s, *xs, **o)[0]

        flops = count_flops(call, params, state, *given)
        rows.append(
            (
                ".".join(record.path),
                type(inner).__name__,
                _shape(given),
                _shape(record.output),
                f"{_size(params):,}",
                f"{flops:,}",
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(6)]
    lines = [
        "  ".join(
            cell.ljust(w) if i < 4 else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join(lines)
