"""closure_convert: the traced values that a function closes over, as arguments of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mgefn import tree
from mgefn.core.array import as_array
from mgefn.core.source import fun_name
from mgefn.errors import ArgumentError, api_boundary
from mgefn.interpreters.evaluate import eval_jaxpr
from mgefn.interpreters.staging import trace


@api_boundary
def closure_convert(
    fun: Callable[..., Any], *example_args: Any
) -> tuple[Callable[..., Any], list[Any]]:
    """Make the traced values that a function closes over arguments of it.

    Args:
        fun: a function of pytrees of arrays.
        example_args: arguments, of which only structure, shapes and dtypes count.

    Returns:
        (converted, values): converted(*args, *values) is fun(*args), and closes over no tracer.

    Example:
        >>> converted, values = mgefn.closure_convert(lambda x: x + 1, 2.0)
        >>> converted(3.0, *values)
        Array(4., dtype=float32, weak_type=True)
    """
    about = f"closure_convert({fun_name(fun)})"
    leaves, in_tree = tree.flatten(example_args)
    avals = [as_array(x, about).aval for x in leaves]
    out_tree: list[Any] = []

    def flat(*xs: Any) -> list[Any]:
        outs, structure = tree.flatten(fun(*tree.unflatten(in_tree, xs)))
        out_tree[:] = [structure]
        return [as_array(o, about) for o in outs]

    closed, captured = trace(flat, avals, about, fun_name(fun))

    def converted(*args_and_values: Any) -> Any:
        n = len(args_and_values) - len(captured)
        xs, got = tree.flatten(args_and_values[:n])
        if got != in_tree:
            difference = tree.structure_difference(in_tree, got, ("the examples", "the call"))
            raise ArgumentError(
                f"{about}: the arguments must have the structure of the examples, but "
                f"{difference}. Pass the values that closure_convert gave after them."
            )
        arrays = [as_array(x, about) for x in (*args_and_values[n:], *xs)]
        return tree.unflatten(out_tree[0], eval_jaxpr(closed.jaxpr, closed.consts, arrays))

    return converted, list(captured)
