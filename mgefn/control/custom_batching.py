"""custom_vmap: a function that says itself how it is mapped over a batch.

`custom_vmap_p` is a call of a staged program, as `jit_p` is; only vmap asks for the rule. Forward
mode keeps the rule, pushing tangents through it. Reverse mode reads the program, so in
vmap(grad(f)) it is the derivative that is batched, operation by operation; in grad(vmap(f)) the
rule is used, and its operations are differentiated.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from mgefn import tree
from mgefn.control.custom_rules.calls import call_rule
from mgefn.control.scan import map as lax_map
from mgefn.core.array import as_array, described, is_arraylike
from mgefn.core.avals import Zero
from mgefn.core.backends import executable_of
from mgefn.core.interpreter import state
from mgefn.core.jaxpr import ClosedJaxpr
from mgefn.core.primitive import Primitive
from mgefn.core.source import fun_name, fun_place
from mgefn.errors import ArgumentError, CustomRuleError, UnsupportedError, api_boundary
from mgefn.interpreters.batching import BatchingInterpreter, to_front
from mgefn.interpreters.evaluate import eval_jaxpr
from mgefn.interpreters.jit import jit_p
from mgefn.interpreters.jvp import instantiate, jvp_flat, jvp_jaxpr
from mgefn.interpreters.staging import trace

# params: jaxpr; rule, (axis size, flags of the operands, operands) -> (outs, flags of the outs);
# n_captured, how many leading operands the function closed over; name
custom_vmap_p = Primitive("custom_vmap_call", weak_result=False, moves=True)


class custom_vmap:
    """A function whose rule for vmap is given by `def_vmap`.

    Example:
        >>> @mgefn.custom_batching.custom_vmap
        ... def doubled(x):
        ...     return x * 2
        >>> @doubled.def_vmap
        ... def doubled_for_a_batch(axis_size, in_batched, x):
        ...     print("a batch of", axis_size)
        ...     return x * 2, in_batched[0]
        >>> mgefn.vmap(doubled)(mnp.arange(3))
        a batch of 3
        Array([0, 2, 4], dtype=int32)
    """

    @api_boundary
    def __init__(self, fun: Callable[..., Any]):
        if not callable(fun):
            raise ArgumentError(
                f"custom_vmap: needs a function, got {described(fun)}. Pass the function."
            )
        functools.update_wrapper(self, fun)
        self.fun = fun
        self.vmap_rule: Callable[..., Any] | None = None
        self._about = f"custom_vmap({fun_name(fun)})"

    @api_boundary
    def def_vmap(self, vmap_rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule: vmap_rule(axis_size, in_batched, *args) -> (out, out_batched).

        Args:
            vmap_rule: gets the size of the mapped axis; a list with a pytree of bools for each
                argument, telling which arrays have that axis, in front; and the arguments. It
                returns the output for the batch and a pytree of bools like it.

        Returns:
            vmap_rule, so that it may be used as a decorator.
        """
        if not callable(vmap_rule):
            raise ArgumentError(
                f"{self._about}: needs a rule, got {described(vmap_rule)}. Pass a function."
            )
        self.vmap_rule = vmap_rule
        return vmap_rule

    @api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs:
            raise ArgumentError(
                f"{self._about}: takes arguments by position, got {', '.join(kwargs)} by name. "
                "Pass them by position."
            )
        if state.current is None:
            return self.fun(*args)
        if self.vmap_rule is None:
            raise CustomRuleError(f"{self._about}: has no rule for vmap. Give one with def_vmap.")
        about = self._about
        leaves, in_tree = tree.flatten(args)
        for x in leaves:
            if not is_arraylike(x):
                raise ArgumentError(
                    f"{about}: arguments must be arrays or pytrees of them, got {described(x)}. "
                    "Close over it."
                )
        operands = [as_array(x, about) for x in leaves]
        out_tree: list[Any] = []

        def flat(*xs: Any) -> list[Any]:
            outs, structure = tree.flatten(self.fun(*tree.unflatten(in_tree, xs)))
            out_tree[:] = [structure]
            return [as_array(o, about) for o in outs]

        closed, captured = trace(flat, [x.aval for x in operands], about, fun_name(self.fun))
        outs = custom_vmap_p.bind(
            *captured,
            *operands,
            jaxpr=closed,
            rule=_Rule(about, self.vmap_rule, in_tree, out_tree[0]),
            n_captured=len(captured),
            name=fun_name(self.fun),
        )
        return tree.unflatten(out_tree[0], outs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<custom_vmap of {fun_name(self.fun)}>"


class _Rule:
    """The user's rule on flat operands."""

    __slots__ = ("about", "in_tree", "out_tree", "rule")

    def __init__(self, about: str, rule: Callable[..., Any], in_tree: Any, out_tree: Any):
        self.about = about
        self.rule = rule
        self.in_tree = in_tree
        self.out_tree = out_tree

    def __call__(
        self, size: int, flags: Sequence[bool], operands: Sequence[Any]
    ) -> tuple[list[Any], list[bool]]:
        args = tree.unflatten(self.in_tree, operands)
        in_batched = list(tree.unflatten(self.in_tree, flags))
        takes = "(axis_size, in_batched, *args)"
        result = call_rule(self.about, "the rule", takes, self.rule, size, in_batched, *args)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise CustomRuleError(
                f"{self.about}: the rule {fun_place(self.rule)} must return (output, which parts "
                f"of it are batched), got {described(result)}. Return a pair."
            )
        outs, out_tree = tree.flatten(result[0])
        batched, flag_tree = tree.flatten(result[1])
        for what, found in (("output", out_tree), ("out_batched", flag_tree)):
            if found != self.out_tree:
                difference = tree.structure_difference(
                    self.out_tree, found, ("the function's output", f"the rule's {what}")
                )
                raise CustomRuleError(
                    f"{self.about}: the rule {fun_place(self.rule)} must return an {what} of the "
                    f"function's structure, but {difference}. Return the same structure."
                )
        return [as_array(o, self.about) for o in outs], [bool(b) for b in batched]


class _PushedRule:
    """The rule of the function with its tangents: tangents are pushed through the user's rule."""

    __slots__ = ("nonzero", "out_nonzero", "rule")

    def __init__(self, rule: Any, nonzero: Sequence[bool], out_nonzero: Sequence[bool]):
        self.rule = rule
        self.nonzero = nonzero
        self.out_nonzero = out_nonzero

    def __call__(
        self, size: int, flags: Sequence[bool], operands: Sequence[Any]
    ) -> tuple[list[Any], list[bool]]:
        n = len(self.nonzero)
        given = iter(zip(operands[n:], flags[n:], strict=True))
        primals, tangents, both = [], [], []
        for x, flag, nonzero in zip(operands[:n], flags[:n], self.nonzero, strict=True):
            t, t_flag = next(given) if nonzero else (None, flag)
            # A primal and its tangent must be batched alike.
            batched = flag or t_flag
            if batched and not flag:
                x = to_front(x, None, size)
            if t is not None and batched and not t_flag:
                t = to_front(t, None, size)
            primals.append(x)
            tangents.append(Zero(x.aval) if t is None else t)
            both.append(batched)
        out_flags: list[bool] = []

        def fun(*xs: Any) -> list[Any]:
            outs, found = self.rule(size, both, xs)
            out_flags[:] = found
            return outs

        outs, dots = jvp_flat(fun, primals, tangents)
        kept = [i for i, nonzero in enumerate(self.out_nonzero) if nonzero]
        return (
            [*outs, *(instantiate(dots[i]) for i in kept)],
            [*out_flags, *(out_flags[i] for i in kept)],
        )


@custom_vmap_p.def_abstract_eval
def _custom_vmap_abstract_eval(*avals, jaxpr: ClosedJaxpr, **params):
    return tuple(jaxpr.out_avals)


@custom_vmap_p.def_evaluate
def _custom_vmap_evaluate(args, params):
    return executable_of(params["jaxpr"])(args)


def _inlined(params: dict[str, Any]) -> ClosedJaxpr:
    return params["jaxpr"]


def _call(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    return eval_jaxpr(params["jaxpr"].jaxpr, params["jaxpr"].consts, args)


custom_vmap_p.inlined = _inlined
custom_vmap_p.call = _call


@custom_vmap_p.def_batch_call
def _custom_vmap_batch(interpreter: BatchingInterpreter, values, bdims, params):
    k, size = params["n_captured"], interpreter.axis_size
    about = f"custom_vmap({params['name']})"
    if any(b is not None for b in bdims[:k]):
        raise UnsupportedError(
            f"{about}: the function closes over a value that is mapped, which its rule cannot "
            "see. Pass the value as an argument."
        )
    flags = [b is not None for b in bdims[k:]]
    operands = [
        v if b is None else to_front(v, b, size) for v, b in zip(values[k:], bdims[k:], strict=True)
    ]
    outs, batched = params["rule"](size, flags, operands)
    for o, b, aval in zip(outs, batched, params["jaxpr"].out_avals, strict=True):
        want = aval.update(shape=(size, *aval.shape)) if b else aval
        if not o.aval.same_type(want):
            raise CustomRuleError(
                f"{about}: the rule must return {want}, the function's output "
                f"{'with the batch in front' if b else 'without a batch'}, got {o.aval}."
            )
    return outs, [0 if b else None for b in batched]


@custom_vmap_p.def_jvp(symbolic_zeros=True)
def _custom_vmap_jvp(primals, tangents, *, jaxpr: ClosedJaxpr, rule, n_captured, name):
    nonzero = tuple(t.__class__ is not Zero for t in tangents)
    pushed, out_nonzero = jvp_jaxpr(jaxpr, nonzero)
    given = [t for t in tangents if t.__class__ is not Zero]
    if any(nonzero[:n_captured]):
        # The rule cannot push the tangent of what it does not get.
        outs = jit_p.bind(*primals, *given, jaxpr=pushed, name=f"jvp({name})", inline=False)
    else:
        outs = custom_vmap_p.bind(
            *primals,
            *given,
            jaxpr=pushed,
            rule=_PushedRule(rule, nonzero[n_captured:], out_nonzero),
            n_captured=n_captured,
            name=f"jvp({name})",
        )
    n = len(out_nonzero)
    rest = iter(outs[n:])
    dots = [next(rest) if nz else Zero(o.aval) for nz, o in zip(out_nonzero, outs, strict=False)]
    return outs[:n], dots


@custom_vmap_p.def_linearize
def _custom_vmap_linearize(interpreter, primals, nodes, params):
    assert jit_p.linearize is not None
    call = {"jaxpr": params["jaxpr"], "name": params["name"], "inline": False}
    return jit_p.linearize(interpreter, primals, nodes, call)


@custom_vmap_p.def_transpose(symbolic_zeros=True)
def _custom_vmap_transpose(cts, *args, jaxpr: ClosedJaxpr, name: str, **params):
    # Only where the function is applied to tangents, and then it is linear by itself.
    assert jit_p.transpose is not None
    return jit_p.transpose(cts, *args, jaxpr=jaxpr, name=name, inline=False)


@api_boundary
def sequential_vmap(f: Callable[..., Any]) -> custom_vmap:
    """A function that vmap calls once for each example, in a loop, in place of a batched program.

    Args:
        f: a function of pytrees of arrays, by position.

    Example:
        >>> total = mgefn.custom_batching.sequential_vmap(mnp.sum)
        >>> mgefn.vmap(total)(mnp.ones((2, 3)))
        Array([3., 3.], dtype=float32)
    """
    mapped = custom_vmap(f)

    def one_by_one(axis_size: int, in_batched: list[Any], *args: Any) -> tuple[Any, Any]:
        leaves, structure = tree.flatten(args)
        flags = tree.leaves(in_batched)

        def one(batched: list[Any]) -> Any:
            rest = iter(batched)
            full = [next(rest) if b else x for x, b in zip(leaves, flags, strict=True)]
            return mapped(*tree.unflatten(structure, full))

        out = lax_map(one, [x for x, b in zip(leaves, flags, strict=True) if b])
        return out, tree.map(lambda _: True, out)

    mapped.def_vmap(one_by_one)
    return mapped


__all__ = ["custom_vmap", "sequential_vmap"]
