"""Derivatives given by hand, under the names of jax.custom_derivatives."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from mgefn import tree
from mgefn.api.derivatives import float0_zeros
from mgefn.api.flat import checked_function
from mgefn.control.custom_rules import (
    CustomVJPPrimal,
    SymbolicZero,
    closure_convert,
    custom_jvp,
    custom_vjp,
)
from mgefn.control.linear_call import linear_call
from mgefn.core.array import as_array, described
from mgefn.core.avals import tangent_aval
from mgefn.core.jaxpr import ClosedJaxpr
from mgefn.core.source import fun_name, fun_place
from mgefn.dtypes import float0
from mgefn.errors import CustomRuleError, api_boundary
from mgefn.interpreters.evaluate import eval_jaxpr
from mgefn.interpreters.staging import trace
from mgefn.ops.shaping import zeros


@api_boundary
def zero_from_primal(val: Any, symbolic_zeros: bool = False) -> Any:
    """The zero tangent of an array, for rules of custom derivatives.

    Args:
        val: an array, or the argument of a forward rule with symbolic_zeros=True.
        symbolic_zeros: give a SymbolicZero, which needs no memory.

    Example:
        >>> mgefn.custom_derivatives.zero_from_primal(mnp.ones(2))
        Array([0., 0.], dtype=float32)
    """
    value = val.value if isinstance(val, CustomVJPPrimal) else val
    aval = tangent_aval(as_array(value, "zero_from_primal").aval)
    if symbolic_zeros:
        return SymbolicZero(aval)
    return float0_zeros(aval.shape) if aval.dtype == float0 else zeros(aval)


class _Pullback:
    """A traced pullback as a pytree: what it needs are its children, the program its structure."""

    __slots__ = ("closed", "in_tree", "out_tree", "values")

    def __init__(self, closed: ClosedJaxpr, in_tree: Any, out_tree: Any, values: list[Any]):
        self.closed = closed
        self.in_tree = in_tree
        self.out_tree = out_tree
        self.values = values


tree.register_pytree_node(
    _Pullback,
    lambda p: (p.values, (p.closed, p.in_tree, p.out_tree)),
    lambda data, values: _Pullback(data[0], data[1], data[2], list(values)),
)


@api_boundary
def custom_gradient(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function with the reverse derivative that it returns itself.

    Args:
        fun: returns (output, pullback); pullback(cotangent of the output) gives the cotangent of
            the argument, or a tuple of one for each.

    Returns:
        A function of the arguments of fun that gives its output, for reverse mode.

    Raises:
        CustomRuleError: fun does not return a pair.

    Example:
        >>> @mgefn.custom_gradient
        ... def clipped(x):
        ...     return x * x, lambda ct: mnp.clip(2 * x * ct, -1.0, 1.0)
        >>> mgefn.grad(clipped)(3.0)
        Array(1., dtype=float32)
    """
    checked_function("custom_gradient", fun)
    about = f"custom_gradient({fun_name(fun)})"

    def called(args: tuple, kwargs: dict[str, Any]) -> tuple[Any, Callable[..., Any]]:
        found = fun(*args, **kwargs)
        if not isinstance(found, tuple) or len(found) != 2 or not callable(found[1]):
            raise CustomRuleError(
                f"{about}: {fun_place(fun)} must return (output, pullback), got "
                f"{described(found)}. Return the output and a function of its cotangent."
            )
        return found

    @functools.wraps(fun)
    def primal(*args: Any, **kwargs: Any) -> Any:
        return called(args, kwargs)[0]

    def fwd(*args: Any, **kwargs: Any) -> tuple[Any, _Pullback]:
        out, pullback = called(args, kwargs)
        leaves, out_tree = tree.flatten(out)
        in_tree: list[Any] = []

        def flat(*cts: Any) -> list[Any]:
            found, structure = tree.flatten(pullback(tree.unflatten(out_tree, cts)))
            in_tree[:] = [structure]
            return [as_array(x, about) for x in found]

        avals = [tangent_aval(as_array(x, about).aval).strong() for x in leaves]
        closed, captured = trace(flat, avals, about, f"pullback({fun_name(fun)})")
        return out, _Pullback(closed, in_tree[0], out_tree, list(captured))

    def bwd(kept: _Pullback, ct: Any) -> tuple:
        cts = tree.leaves(ct)
        found = eval_jaxpr(kept.closed.jaxpr, kept.closed.consts, [*kept.values, *cts])
        result = tree.unflatten(kept.in_tree, found)
        # As in JAX: a pullback of one argument may give its cotangent alone.
        return (result,) if tree.treedef_is_leaf(kept.in_tree) else tuple(result)

    wrapped = custom_vjp(primal)
    wrapped.defvjp(fwd, bwd)
    return wrapped


__all__ = [
    "CustomVJPPrimal",
    "SymbolicZero",
    "closure_convert",
    "custom_gradient",
    "custom_jvp",
    "custom_vjp",
    "linear_call",
    "zero_from_primal",
]
