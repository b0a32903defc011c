"""custom_vjp: functions with a reverse derivative of their own.

Linearizing runs the forward rule and records `custom_transpose_call_p`, an equation that only its
transpose, the backward rule, gives meaning to. Forward mode is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mgefn import dtypes, tree
from mgefn.control.custom_rules.batching import (
    Batched,
    BatchedBwd,
    BatchedFwd,
    a_batch,
    batch_here,
    batched_program,
    fresh_interpreter,
    fronted,
)
from mgefn.control.custom_rules.calls import (
    NONDIFF,
    Call,
    CustomFunction,
    CustomVJPPrimal,
    SymbolicZero,
    as_tangent,
    call_rule,
    check_outs,
    described,
    float0_zeros,
    is_inexact,
    run_function,
)
from mgefn.control.custom_rules.closures import (
    closes_over_tracers,
    reentered,
    split_all,
    unperturbed,
    with_node,
)
from mgefn.control.custom_rules.staging import captured_tangents, def_staged, with_inputs
from mgefn.core.array import as_array, is_arraylike
from mgefn.core.avals import ShapedArray, Zero
from mgefn.core.jaxpr import ClosedJaxpr
from mgefn.core.primitive import Primitive
from mgefn.core.source import fun_name, fun_place
from mgefn.core.tracer import Tracer
from mgefn.errors import ArgumentError, CustomRuleError, api_boundary
from mgefn.interpreters.batching import BatchingInterpreter
from mgefn.interpreters.evaluate import eval_jaxpr
from mgefn.interpreters.jvp import JVPInterpreter
from mgefn.interpreters.linearize import LinearEqn, LinearizeInterpreter, LinearizeTracer, Node
from mgefn.interpreters.staging import StagingInterpreter, trace
from mgefn.ops.shaping import zeros

# params: fun, fwd, bwd, held, name
custom_vjp_call_p = Primitive("custom_vjp_call", closes_over=True, weak_result=False, moves=True)

# params: jaxpr; fwd; bwd; name; n_captured and n_rule as for custom_jvp_staged_p
custom_vjp_staged_p = Primitive("custom_vjp_call", weak_result=False, moves=True)

# The derivative of a custom_vjp function, known by its transpose only. Operands: n_residuals
# residuals, then the tangents of the operands at `active`. Outputs: the inexact outputs' tangents.
# params: bwd; info; n_residuals; active; out_avals, of all outputs; name
custom_transpose_call_p = Primitive("custom_transpose_call", weak_result=False, moves=True)


class custom_vjp(CustomFunction):
    """A function whose reverse derivative is given by `defvjp`.

    Args:
        fun: pytrees of arrays in and out. Arguments go by position; keywords are sorted out.
        nondiff_argnums: positions of arguments that are not differentiated and need not be arrays.
        nondiff_argnames: the same by name.

    Raises:
        CustomRuleError: there is no rule, it returns the wrong structure, shapes or dtypes, or
            forward mode is asked for.

    Example:
        >>> @mgefn.custom_vjp
        ... def clip_gradient(x):
        ...     return x
        >>> clip_gradient.defvjp(lambda x: (x, None), lambda res, ct: (mnp.clip(ct, -1, 1),))
        >>> mgefn.grad(lambda x: 5 * clip_gradient(x))(2.0)
        Array(1., dtype=float32)
    """

    kind = "custom_vjp"

    @api_boundary
    def __init__(
        self,
        fun: Callable[..., Any],
        nondiff_argnums: Sequence[int] | int = (),
        nondiff_argnames: Sequence[str] | str = (),
    ):
        super().__init__(fun, nondiff_argnums, nondiff_argnames)
        self.fwd: Callable[..., Any] | None = None
        self.bwd: Callable[..., Any] | None = None
        self.symbolic_zeros = False

    def defvjp(
        self,
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Give the rule.

        Args:
            fwd: takes the arguments of the function and returns (output, residuals), the residuals
                being any pytree that bwd will need.
            bwd: takes (*nondiff, residuals, cotangent of the output) and returns a tuple with the
                cotangent of each other argument; None stands for zero. Cotangents of integer
                outputs are NumPy zeros of dtype float0.
            symbolic_zeros: fwd gets its array arguments as CustomVJPPrimal, and bwd may get
                SymbolicZero for a cotangent.
            optimize_remat: accepted for JAX's programs; the compiler finds this by itself.
        """
        self.fwd = fwd
        self.bwd = bwd
        self.symbolic_zeros = symbolic_zeros

    @api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _custom_vjp_call(self, args, kwargs)


def _custom_vjp_call(function: custom_vjp, args: tuple, kwargs: dict[str, Any]) -> Any:
    if function.fwd is None or function.bwd is None:
        raise CustomRuleError(
            f"{function.about}: {fun_place(function.fun)} has no derivative rule. Give it one with "
            f"{fun_name(function.fun)}.defvjp."
        )
    call = function._call(args, kwargs)
    operands = call.take_operands()
    avals = [x.aval for x in operands]
    outs = custom_vjp_call_p.bind(
        *operands,
        fun=call,
        fwd=_FwdRule(call, function.fwd, function.symbolic_zeros),
        bwd=_BwdRule(call, avals, function.bwd, function.symbolic_zeros),
        held=(function.fun, function.fwd, function.bwd),
        name=fun_name(function.fun),
    )
    return tree.unflatten(call.out_tree, outs)


class _FwdRule:
    """The user's fwd on flat operands."""

    __slots__ = ("call", "fwd", "symbolic_zeros")

    def __init__(self, call: Call, fwd: Callable[..., Any], symbolic_zeros: bool):
        self.call = call
        self.fwd = fwd
        self.symbolic_zeros = symbolic_zeros

    def __call__(
        self, operands: Sequence[Any], perturbed: Sequence[bool]
    ) -> tuple[list[Any], list[Any], Any]:
        call, n = self.call, self.call.n_hoisted
        call.refuse_hoisted(perturbed)
        leaves = operands[n:]
        if self.symbolic_zeros:
            leaves = [
                CustomVJPPrimal(x, bool(p)) for x, p in zip(leaves, perturbed[n:], strict=True)
            ]
        args = call.arguments(operands, leaves)
        pair = call_rule(call.about, "the forward rule", "those of the function", self.fwd, *args)
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise CustomRuleError(
                f"{call.about}: the forward rule {fun_place(self.fwd)} must return a pair (output, "
                f"residuals), got {described(pair)}. Return both."
            )
        out, residuals = pair
        outs = call.outputs(out, call.about, self.fwd)
        flat, res_tree = tree.flatten(residuals)
        # What is no array goes to bwd beside them.
        static = tuple(None if is_arraylike(x) else x for x in flat)
        is_array = tuple(is_arraylike(x) for x in flat)
        arrays = [as_array(x, call.about) for x in flat if is_arraylike(x)]
        info = (res_tree, static, is_array, call.out_tree)
        return outs, [*operands[:n], *arrays], info


class _BwdRule:
    """The user's bwd on flat residuals and cotangents, with its result checked."""

    __slots__ = ("avals", "bwd", "call", "symbolic_zeros")

    def __init__(
        self,
        call: Call,
        avals: Sequence[ShapedArray],
        bwd: Callable[..., Any],
        symbolic_zeros: bool,
    ):
        self.call = call
        self.avals = avals
        self.bwd = bwd
        self.symbolic_zeros = symbolic_zeros

    def __call__(self, info: Any, residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        call, n = self.call, self.call.n_hoisted
        res_tree, static, is_array, out_tree = info
        arrays = iter(residuals[n:])
        flat = [next(arrays) if a else s for a, s in zip(is_array, static, strict=True)]
        res = tree.unflatten(res_tree, flat)
        ct = tree.unflatten(out_tree, [self._given(c) for c in cts])
        nondiff = call.nondiff_args(residuals)
        takes = f"({NONDIFF * bool(nondiff)}residuals, cotangent)"
        found = call_rule(call.about, "the backward rule", takes, self.bwd, *nondiff, res, ct)
        if isinstance(found, list):
            found = tuple(found)
        leaves = self._leaves(found)
        checked = [self._checked(c, a) for c, a in zip(leaves, self.avals[n:], strict=True)]
        return [None] * n + checked

    def _given(self, ct: Any) -> Any:
        if ct.__class__ is not Zero:
            return ct
        if self.symbolic_zeros:
            return SymbolicZero(ShapedArray(ct.aval.shape, dtypes.tangent_dtype(ct.aval.dtype)))
        return zeros(ct.aval) if dtypes.is_inexact(ct.aval.dtype) else float0_zeros(ct.aval.shape)

    def _leaves(self, found: Any) -> list[Any]:
        """One cotangent for each operand; None stands for a whole argument or part of it."""
        in_tree = self.call.in_tree
        leaves, got = tree.flatten(found)
        if got == in_tree:
            return leaves
        shown = tree.unflatten(in_tree, range(in_tree.num_leaves))
        spread: list[Any] = []

        def place(ct: Any, part: Any) -> None:
            n = tree.structure(part).num_leaves
            if ct is not None and not isinstance(part, int):
                raise ArgumentError("only None may stand for several leaves")
            spread.extend([ct] * n)

        try:
            tree.map(place, found, shown, is_leaf=tree.is_none)
        except (TypeError, ValueError):
            difference = tree.structure_difference(
                in_tree, got, ("the argument tuple", "the returned value")
            )
            raise CustomRuleError(
                f"{self.call.about}: the backward rule {fun_place(self.bwd)} must return a tuple "
                f"with one cotangent for each of the {len(shown)} arguments, of its structure, but "
                f"{difference}. Return (ct,) for one argument; None stands for zero."
            ) from None
        return spread

    def _checked(self, ct: Any, aval: ShapedArray) -> Any:
        if ct is None or isinstance(ct, SymbolicZero) or not dtypes.is_inexact(aval.dtype):
            return None
        found = as_tangent(ct, aval)
        if found is None:
            raise CustomRuleError(
                f"{self.call.about}: the backward rule {fun_place(self.bwd)} must return "
                f"cotangents of the shapes and dtypes of the arguments, got {described(ct)} for "
                f"an argument {aval}. Cast it, or sum it to the argument's shape."
            )
        return found


custom_vjp_call_p.no_rule("abstract_eval", "it holds a Python function, which staging traces")
custom_vjp_call_p.no_rule("transpose", "its function is read operation by operation")
custom_vjp_call_p.call = run_function
custom_vjp_call_p.unperturbed = unperturbed


def _forward_mode(name: str) -> CustomRuleError:
    return CustomRuleError(
        f"jvp: forward mode needs a forward rule, got the custom_vjp function {name}, which has a "
        "reverse rule only. Define it with custom_jvp, or use reverse mode (grad, vjp, jacrev)."
    )


@custom_vjp_call_p.def_evaluate
def _custom_vjp_evaluate(args, params):
    return tuple(params["fun"](*args))


@custom_vjp_call_p.def_jvp_call
def _custom_vjp_jvp(interpreter: JVPInterpreter, primals, tangents, params):
    if any(t is not None for t in tangents):
        raise _forward_mode(params["name"])
    return split_all(interpreter, unperturbed(interpreter, custom_vjp_call_p, primals, params))


@custom_vjp_call_p.def_linearize
def _custom_vjp_linearize(interpreter: LinearizeInterpreter, primals, nodes, params):
    if all(n is None for n in nodes):
        return tuple(unperturbed(interpreter, custom_vjp_call_p, primals, params))
    with interpreter.entered():
        outs, residuals, info = params["fwd"](primals, [n is not None for n in nodes])
    bwd = params["bwd"]
    if closes_over_tracers(params["held"]):
        bwd = _bwd_inside(interpreter, bwd)
    residuals = [interpreter.split(r)[0] for r in residuals]
    return _record_transpose(
        interpreter, outs, residuals, info, bwd, dict(enumerate(nodes)), params["name"]
    )


def _bwd_inside(interpreter: LinearizeInterpreter, bwd: Any) -> Callable[..., Any]:
    """A backward rule that closes over the interpreter's tracers, which are read as values."""

    def run(info: Any, residuals: Any, cts: Any) -> list[Any]:
        length = len(interpreter.tape)
        with reentered(interpreter):
            found = bwd(info, residuals, cts)
        del interpreter.tape[length:]
        return [c if c is None or c.__class__ is Zero else interpreter.split(c)[0] for c in found]

    return run


def _record_transpose(
    interpreter: LinearizeInterpreter,
    outs: Sequence[Any],
    residuals: Sequence[Any],
    info: Any,
    bwd: Any,
    nodes: dict[int, Node | None],
    name: str,
) -> tuple:
    """The outputs, with nodes bound by an equation that only its transpose gives meaning to."""
    active = tuple(i for i, n in nodes.items() if n is not None)
    values = [interpreter.split(o)[0] for o in outs]
    out_nodes = [Node(v.shape, v.dtype) if is_inexact(v) else None for v in values]
    interpreter.tape.append(
        LinearEqn(
            custom_transpose_call_p,
            [*residuals, *(nodes[i] for i in active)],
            {
                "bwd": bwd,
                "info": info,
                "n_residuals": len(residuals),
                "active": active,
                "out_avals": tuple(v.aval.strong() for v in values),
                "name": name,
            },
            [n for n in out_nodes if n is not None],
        )
    )
    return tuple(with_node(interpreter, o, n) for o, n in zip(outs, out_nodes, strict=True))


@custom_vjp_call_p.def_batch_call
def _custom_vjp_batch(interpreter: BatchingInterpreter, values, bdims, params):
    found = batch_here(interpreter, custom_vjp_call_p, values, bdims, params)
    if found is not None:
        return found
    batched = [b is not None for b in bdims]
    outs = custom_vjp_call_p.bind(
        *fronted(values, bdims, interpreter.axis_size),
        **params
        | {
            "fun": Batched(params["fun"], batched, interpreter),
            "fwd": BatchedFwd(params["fwd"], batched, interpreter),
            "bwd": BatchedBwd(params["bwd"], batched, interpreter),
        },
    )
    return outs, [0] * len(outs)


@custom_vjp_call_p.def_stage
def _custom_vjp_stage(interpreter: StagingInterpreter, args, params):
    avals = [interpreter.atom(a).aval for a in args]
    name, fwd, bwd = params["name"], params["fwd"], params["bwd"]
    about = f"custom_vjp({name})"
    closed, captured = trace(params["fun"], avals, about, name)
    known: list[Tracer] = []
    if closes_over_tracers(params["held"]):
        # The tracers are gone when the rules are asked for; write them down now.
        fwd, bwd, known = _staged_vjp(fwd, bwd, avals, about)
    return interpreter.record(
        custom_vjp_staged_p,
        [*captured, *known, *args],
        {
            "jaxpr": with_inputs(closed, len(captured), known),
            "fwd": fwd,
            "bwd": bwd,
            "n_captured": len(captured),
            "n_rule": len(known),
            "name": name,
        },
    )


def _staged_vjp(
    fwd: Any, bwd: Any, avals: Sequence[ShapedArray], about: str
) -> tuple[Any, Any, list[Tracer]]:
    perturbed = [dtypes.is_inexact(a.dtype) for a in avals]
    sizes: list[int] = []
    infos: list[Any] = []

    def forward(*xs: Any) -> list[Any]:
        outs, residuals, info = fwd(xs, perturbed)
        sizes[:], infos[:] = [len(outs)], [info]
        return [*outs, *residuals]

    first, first_captured = trace(forward, avals, about, "fwd")
    n_outs, info = sizes[0], infos[0]
    out_avals = first.out_avals[:n_outs]
    res_avals = first.out_avals[n_outs:]
    inexact = [i for i, a in enumerate(out_avals) if dtypes.is_inexact(a.dtype)]
    given: list[bool] = []

    def backward(*xs: Any) -> list[Any]:
        cts: list[Any] = [Zero(a) for a in out_avals]
        for i, ct in zip(inexact, xs[len(res_avals) :], strict=True):
            cts[i] = ct
        found = bwd(info, xs[: len(res_avals)], cts)
        given[:] = [c is not None and c.__class__ is not Zero for c in found]
        return [c for c, g in zip(found, given, strict=True) if g]

    second, second_captured = trace(
        backward, [*res_avals, *(out_avals[i].strong() for i in inexact)], about, "bwd"
    )
    known = [*first_captured, *second_captured]
    n_first, n_known = len(first_captured), len(known)

    def staged_fwd(operands: Sequence[Any], perturbed: Sequence[bool]) -> tuple[Any, Any, Any]:
        ins = [*operands[:n_first], *operands[n_known:]]
        found = eval_jaxpr(first.jaxpr, first.consts, ins)
        return found[:n_outs], [*operands[n_first:n_known], *found[n_outs:]], None

    def staged_bwd(_: Any, residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        filled = [zeros(c.aval) if c.__class__ is Zero else c for c in (cts[i] for i in inexact)]
        found = iter(eval_jaxpr(second.jaxpr, second.consts, [*residuals, *filled]))
        return [None] * n_known + [next(found) if g else None for g in given]

    return staged_fwd, staged_bwd, known


def_staged(custom_vjp_staged_p)


@custom_vjp_staged_p.def_jvp(symbolic_zeros=True)
def _custom_vjp_staged_jvp(
    primals, tangents, *, jaxpr: ClosedJaxpr, fwd, bwd, n_captured, n_rule, name
):
    if any(t.__class__ is not Zero for t in tangents[n_captured + n_rule :]):
        raise _forward_mode(name)
    return captured_tangents(jaxpr, primals, tangents, n_captured)


@custom_vjp_staged_p.def_linearize
def _custom_vjp_staged_linearize(interpreter: LinearizeInterpreter, primals, nodes, params):
    n, name, closed = params["n_captured"], params["name"], params["jaxpr"]
    own = {i: x if i >= params["n_rule"] else None for i, x in enumerate(nodes[n:])}
    by_captured: list[Any] = []
    through_captured = any(x is not None for x in nodes[:n])
    if through_captured:
        captured = [
            p if x is None else LinearizeTracer(interpreter, p, x)
            for p, x in zip(primals[:n], nodes[:n], strict=True)
        ]
        with interpreter.entered():
            by_captured = eval_jaxpr(closed.jaxpr, closed.consts, [*captured, *primals[n:]])
        if all(x is None for x in own.values()):
            return tuple(by_captured)
    outs, residuals, info = params["fwd"](primals[n:], [x is not None for x in own.values()])
    check_outs(f"custom_vjp({name})", params["fwd"], closed.out_avals, outs)
    results = _record_transpose(interpreter, outs, residuals, info, params["bwd"], own, name)
    if not through_captured:
        return results
    return tuple(
        with_node(interpreter, r, interpreter.split(c)[1])
        for r, c in zip(results, by_captured, strict=True)
    )


@custom_vjp_staged_p.def_batch_call
def _custom_vjp_staged_batch(interpreter: BatchingInterpreter, values, bdims, params):
    size = interpreter.axis_size
    batched = tuple(b is not None for b in bdims)
    jaxpr = batched_program(params["jaxpr"], batched, size, interpreter.axis_name)
    rest, fresh = batched[params["n_captured"] :], fresh_interpreter(interpreter)
    outs = custom_vjp_staged_p.bind(
        *fronted(values, bdims, size),
        **params
        | {
            "jaxpr": jaxpr,
            "fwd": BatchedFwd(params["fwd"], rest, fresh),
            "bwd": BatchedBwd(params["bwd"], rest, fresh),
        },
    )
    return outs, [0] * len(outs)


# -- custom_transpose_call ------------------------------------------------------------------------

custom_transpose_call_p.no_rule("jvp", "a custom_vjp function has a reverse rule only")


@custom_transpose_call_p.def_abstract_eval
def _custom_transpose_abstract_eval(*avals, out_avals, **params):
    return tuple(a for a in out_avals if dtypes.is_inexact(a.dtype))


@custom_transpose_call_p.def_evaluate
def _custom_transpose_evaluate(args, params):
    raise _forward_mode(params["name"])


@custom_transpose_call_p.def_transpose(symbolic_zeros=True)
def _custom_transpose_transpose(cts, *args, bwd, info, n_residuals, active, out_avals, name):
    given = iter(cts)
    full = [next(given) if dtypes.is_inexact(a.dtype) else Zero(a) for a in out_avals]
    found = bwd(info, list(args[:n_residuals]), full)
    return (*[None] * n_residuals, *(found[i] for i in active))


@custom_transpose_call_p.def_batch_call
def _custom_transpose_batch(interpreter: BatchingInterpreter, values, bdims, params):
    size, n = interpreter.axis_size, params["n_residuals"]
    res_batched = tuple(b is not None for b in bdims[:n])
    inner, inner_info = params["bwd"], params["info"]
    n_tangents = len(values) - n
    active = params["active"]
    fresh = fresh_interpreter(interpreter)

    def flat_bwd(info: Any, residuals: Any, cts: Any) -> list[Any]:
        found = inner(info, residuals, cts)
        return [found[i] for i in active]

    batched = [b is not None for b in bdims[n:]]
    outs = custom_transpose_call_p.bind(
        *fronted(values, bdims, size),
        bwd=BatchedBwd(flat_bwd, batched, fresh),
        info=(inner_info, res_batched),
        n_residuals=n,
        active=tuple(range(n_tangents)),
        out_avals=tuple(a_batch(a, size) for a in params["out_avals"]),
        name=params["name"],
    )
    return outs, [0] * len(outs)
