"""Trading memory for time in the backward pass, under the names of jax.ad_checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mgefn import tree
from mgefn.api.derivatives import abstract
from mgefn.api.flat import FlatFunction, checked_function
from mgefn.control.checkpoint import (
    checkpoint,
    checkpoint_name,
    checkpoint_policies,
    name_p,
    remat,
)
from mgefn.core.jaxpr import ClosedJaxpr, Var
from mgefn.core.source import describe, fun_name
from mgefn.errors import api_boundary
from mgefn.interpreters.linearize import linearize_jaxpr
from mgefn.interpreters.staging import trace


@api_boundary
def saved_residuals(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> list[tuple[Any, str]]:
    """What the forward pass of `fun` keeps for its backward pass.

    Args:
        fun: a differentiable function.
        args, kwargs: its arguments; only shapes and dtypes count.

    Returns:
        A pair (type, where it comes from) for each array that is kept.
    """
    checked_function("saved_residuals", fun)
    about = f"saved_residuals({fun_name(fun)})"
    leaves, in_tree = tree.flatten((args, kwargs))
    flat = FlatFunction(lambda a, k: fun(*a, **k), in_tree, about)
    closed, captured = trace(flat, [abstract(x, about) for x in leaves], about, fun_name(fun))
    inexact = [a.dtype.kind in "fcV" for a in closed.in_avals]
    forward = linearize_jaxpr(closed, tuple(inexact)).primal
    paths = ["a value it closes over" for _ in captured]
    paths += [f"the argument {p}" for p in _argument_names(args, kwargs)]
    return _kept(forward, len(closed.out_avals), paths)


def _argument_names(args: tuple, kwargs: dict[str, Any]) -> list[str]:
    names = []
    for i, a in enumerate(args):
        names += [f"{i}{path}" for path in tree.key_paths(a)]
    for k in sorted(kwargs):
        names += [f"{k}{path}" for path in tree.key_paths(kwargs[k])]
    return names


def _kept(forward: ClosedJaxpr, n_outs: int, paths: list[str]) -> list[tuple[Any, str]]:
    jaxpr = forward.jaxpr
    made = {v: eqn for eqn in jaxpr.eqns for v in eqn.out_binders}
    inputs = dict(zip(jaxpr.in_binders, paths, strict=True))
    found: list[tuple[Any, str]] = []
    seen: set[Var] = set()
    for atom in jaxpr.outs[n_outs:]:
        if not isinstance(atom, Var) or atom in seen:
            continue
        seen.add(atom)
        eqn = made.get(atom)
        if eqn is not None and eqn.primitive is name_p:
            where = f"named {eqn.params['name']!r} at {describe(eqn.source)}"
        elif eqn is not None:
            where = f"output of {eqn.primitive.name} at {describe(eqn.source)}"
        else:
            where = f"from {inputs[atom]}" if atom in inputs else "from a constant"
        found.append((atom.aval, where))
    return found


@api_boundary
def print_saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Print what the forward pass of `f` keeps for its backward pass, one array a line.

    Args:
        f: a differentiable function.
        args, kwargs: its arguments; only shapes and dtypes count.

    Example:
        >>> mgefn.ad_checkpoint.print_saved_residuals(mgefn.checkpoint(mnp.sin), 1.0)
        f32[] from the argument 0
    """
    for aval, where in saved_residuals(f, *args, **kwargs):
        print(f"{aval} {where}")


__all__ = [
    "checkpoint",
    "checkpoint_name",
    "checkpoint_policies",
    "print_saved_residuals",
    "remat",
    "saved_residuals",
]
