"""linear_call: a linear function with a transpose of one's own.

Both functions are traced when the call is made. Transposing the equation swaps them, so the
transpose of the transpose is the function again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mgefn import tree
from mgefn.control.custom_rules.calls import call_rule
from mgefn.control.programs import batch_with
from mgefn.core.array import as_array
from mgefn.core.avals import ShapedArray, Zero, is_undefined
from mgefn.core.backends import executable_of
from mgefn.core.jaxpr import ClosedJaxpr, Jaxpr, Var
from mgefn.core.primitive import Primitive
from mgefn.core.source import fun_name, fun_place
from mgefn.errors import CustomRuleError, UnsupportedError, api_boundary
from mgefn.interpreters.batching import BatchingInterpreter, to_front
from mgefn.interpreters.jvp import instantiate
from mgefn.interpreters.linearize import LinearEqn, LinearRecorder, LinearTracer, Node
from mgefn.interpreters.staging import trace

# operands: residuals, then linear ones. params: jaxpr, of these operands; transposed, of the
# residuals and the cotangents of jaxpr's outputs; n_residuals; name
linear_call_p = Primitive("linear_call", weak_result=False, moves=True)


@api_boundary
def linear_call(
    fun: Callable[..., Any],
    fun_transpose: Callable[..., Any],
    residual_args: Any,
    linear_args: Any,
) -> Any:
    """Call a linear function that has a transpose of its own.

    Args:
        fun: fun(residual_args, linear_args), linear in the second.
        fun_transpose: fun_transpose(residual_args, cotangent of fun's output), giving a pytree like
            linear_args.
        residual_args: a pytree of arrays that stay as they are; they have no derivative.
        linear_args: a pytree of arrays.

    Returns:
        fun(residual_args, linear_args).

    Raises:
        CustomRuleError: fun_transpose does not give the structure and types of linear_args.
        UnsupportedError: a residual is being differentiated.

    Example:
        >>> def halved(x):
        ...     return mgefn.custom_derivatives.linear_call(
        ...         lambda r, x: x / r, lambda r, ct: ct / r, 2.0, x
        ...     )
        >>> mgefn.grad(halved)(3.0)
        Array(0.5, dtype=float32)
    """
    name = fun_name(fun)
    about = f"linear_call({name})"
    res, res_tree = tree.flatten(residual_args)
    lin, lin_tree = tree.flatten(linear_args)
    res = [as_array(x, about) for x in res]
    lin = [as_array(x, about) for x in lin]
    n = len(res)
    out_tree: list[Any] = []

    def forward(*xs: Any) -> list[Any]:
        out = fun(tree.unflatten(res_tree, xs[:n]), tree.unflatten(lin_tree, xs[n:]))
        leaves, structure = tree.flatten(out)
        out_tree[:] = [structure]
        return [as_array(x, about) for x in leaves]

    res_avals = [x.aval for x in res]
    lin_avals = [x.aval.strong() for x in lin]
    closed, captured = trace(forward, [*res_avals, *lin_avals], about, name)

    def backward(*xs: Any) -> list[Any]:
        given = tree.unflatten(res_tree, xs[:n]), tree.unflatten(out_tree[0], xs[n:])
        takes = "(residual_args, cotangent)"
        found = call_rule(about, "the transpose", takes, fun_transpose, *given)
        leaves, structure = tree.flatten(found)
        if structure != lin_tree:
            difference = tree.structure_difference(
                lin_tree, structure, ("linear_args", "what the transpose gives")
            )
            raise CustomRuleError(
                f"{about}: the transpose {fun_place(fun_transpose)} must return the structure of "
                f"linear_args, but {difference}. Return one cotangent for each."
            )
        arrays = [as_array(x, about) for x in leaves]
        got = [a.aval for a in arrays]
        if not all(g.same_type(w) for g, w in zip(got, lin_avals, strict=True)):
            raise CustomRuleError(
                f"{about}: the transpose {fun_place(fun_transpose)} must return the types of "
                f"linear_args, {', '.join(map(str, lin_avals))}, got {', '.join(map(str, got))}."
            )
        return arrays

    cts = [a.strong() for a in closed.out_avals]
    pulled, more = trace(backward, [*res_avals, *cts], about, f"transpose({name})")
    # What either function closes over is a residual of both.
    k, m = len(captured), len(more)
    outs = linear_call_p.bind(
        *captured, *more, *res, *lin,
        jaxpr=_with_unused(closed, k, [x.aval for x in more]),
        transposed=_with_unused(pulled, 0, [x.aval for x in captured]),
        n_residuals=k + m + n,
        name=name,
    )  # fmt: skip
    return tree.unflatten(out_tree[0], outs)


def _with_unused(closed: ClosedJaxpr, at: int, avals: Sequence[ShapedArray]) -> ClosedJaxpr:
    """The same program with inputs that it does not read."""
    jaxpr = closed.jaxpr
    binders = [*jaxpr.in_binders[:at], *map(Var, avals), *jaxpr.in_binders[at:]]
    return ClosedJaxpr(
        Jaxpr(binders, jaxpr.eqns, jaxpr.outs, jaxpr.const_binders, jaxpr.name), closed.consts
    )


@linear_call_p.def_abstract_eval
def _linear_call_abstract_eval(*avals, jaxpr: ClosedJaxpr, **params):
    return tuple(jaxpr.out_avals)


@linear_call_p.def_evaluate
def _linear_call_evaluate(args, params):
    return executable_of(params["jaxpr"])(args)


def _inlined(params: dict[str, Any]) -> ClosedJaxpr:
    return params["jaxpr"]


def _record(recorder: LinearRecorder, args: Sequence[Any], params: dict[str, Any]) -> tuple:
    """Write a call on tangents to the tape whole: what it holds would lose its transpose."""
    inputs = [
        a.node if a.__class__ is LinearTracer and a.interpreter is recorder else a for a in args
    ]
    nodes = [Node(a.shape, a.dtype) for a in params["jaxpr"].out_avals]
    recorder.tape.append(LinearEqn(linear_call_p, inputs, params, nodes))
    return tuple([LinearTracer(recorder, n) for n in nodes])


linear_call_p.inlined = _inlined
linear_call_p.record = _record


@linear_call_p.def_jvp(symbolic_zeros=True)
def _linear_call_jvp(primals, tangents, *, n_residuals, name, **params):
    if any(t.__class__ is not Zero for t in tangents[:n_residuals]):
        raise UnsupportedError(
            f"linear_call({name}): a residual is being differentiated, and nothing says how the "
            "function depends on it. Pass it through stop_gradient, or use custom_jvp."
        )
    params |= {"n_residuals": n_residuals, "name": name}
    outs = linear_call_p.bind(*primals, **params)
    dots = [instantiate(t) for t in tangents[n_residuals:]]
    return outs, linear_call_p.bind(*primals[:n_residuals], *dots, **params)


@linear_call_p.def_transpose
def _linear_call_transpose(cts, *args, jaxpr, transposed, n_residuals, name):
    res = args[:n_residuals]
    assert not any(map(is_undefined, res))
    found = linear_call_p.bind(
        *res, *cts, jaxpr=transposed, transposed=jaxpr, n_residuals=n_residuals, name=name
    )
    pulled = zip(args[n_residuals:], found, strict=True)
    return (*[None] * n_residuals, *(ct if is_undefined(a) else None for a, ct in pulled))


@linear_call_p.def_batch_call
def _linear_call_batch(interpreter: BatchingInterpreter, values, bdims, params):
    size, axis = interpreter.axis_size, interpreter.axis_name
    n, jaxpr, transposed = params["n_residuals"], params["jaxpr"], params["transposed"]
    flags = tuple(b is not None for b in bdims[:n])
    n_lin, n_outs = len(values) - n, len(jaxpr.jaxpr.outs)
    # All linear operands and outputs have the batch dimension, so that the two stay transposes.
    forward = batch_with(jaxpr, flags + (True,) * n_lin, (True,) * n_outs, size, axis)
    backward = batch_with(transposed, flags + (True,) * n_outs, (True,) * n_lin, size, axis)
    args = [
        v if b is None and i < n else to_front(v, b, size)
        for i, (v, b) in enumerate(zip(values, bdims, strict=True))
    ]
    outs = linear_call_p.bind(*args, **params | {"jaxpr": forward, "transposed": backward})
    return outs, [0] * len(outs)


__all__ = ["linear_call"]
