"""custom_jvp: functions with a forward derivative of their own.

A call binds `custom_jvp_call_p`, which holds the Python functions; staging writes
`custom_jvp_staged_p`, with a jaxpr of the function beside the rule. A rule that closes over tracers
is written down when it is staged, as they are gone later.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from mgefn import dtypes, tree
from mgefn.control.custom_rules.batching import (
    Batched,
    BatchedRule,
    batch_here,
    batched_program,
    fresh_interpreter,
    fronted,
)
from mgefn.control.custom_rules.calls import (
    NONDIFF,
    Call,
    CustomFunction,
    SymbolicZero,
    as_tangent,
    call_rule,
    check_outs,
    described,
    float0_zeros,
    is_float0,
    is_inexact,
    run_function,
)
from mgefn.control.custom_rules.closures import (
    closes_over_tracers,
    split_all,
    unperturbed,
    with_node,
)
from mgefn.control.custom_rules.staging import captured_tangents, def_staged, with_inputs
from mgefn.core.avals import ShapedArray, Zero
from mgefn.core.jaxpr import ClosedJaxpr
from mgefn.core.primitive import Primitive
from mgefn.core.source import fun_name, fun_place
from mgefn.core.tracer import Tracer
from mgefn.errors import ArgumentError, CustomRuleError, api_boundary
from mgefn.interpreters.batching import BatchingInterpreter
from mgefn.interpreters.evaluate import eval_jaxpr
from mgefn.interpreters.jvp import JVPInterpreter
from mgefn.interpreters.linearize import (
    LinearEqn,
    LinearizeInterpreter,
    LinearizeTracer,
    LinearRecorder,
    LinearTracer,
)
from mgefn.interpreters.staging import StagingInterpreter, trace
from mgefn.ops.elementwise import add_p
from mgefn.ops.shaping import zeros

# params: fun, rule, held (the user's functions), name
custom_jvp_call_p = Primitive("custom_jvp_call", closes_over=True, weak_result=False, moves=True)

# params: jaxpr; rule; name; n_captured, how many leading operands only the jaxpr takes; n_rule, how
# many after them only the rule takes
custom_jvp_staged_p = Primitive("custom_jvp_call", weak_result=False, moves=True)


class custom_jvp(CustomFunction):
    """A function whose forward derivative is given by `defjvp`; reverse mode follows from it.

    Args:
        fun: pytrees of arrays in and out. Arguments go by position; keywords are sorted out.
        nondiff_argnums: positions of arguments that are not differentiated and need not be arrays.
            The rule gets them first, as they were passed.
        nondiff_argnames: the same by name.

    Raises:
        CustomRuleError: there is no rule, or it returns the wrong structure, shapes or dtypes.

    Example:
        >>> @mgefn.custom_jvp
        ... def cube(x):
        ...     return x * x * x
        >>> @cube.defjvp
        ... def cube_jvp(primals, tangents):
        ...     (x,), (x_dot,) = primals, tangents
        ...     return cube(x), 3 * x * x * x_dot
        >>> mgefn.grad(cube)(2.0)
        Array(12., dtype=float32)
    """

    kind = "custom_jvp"

    @api_boundary
    def __init__(
        self,
        fun: Callable[..., Any],
        nondiff_argnums: Sequence[int] | int = (),
        nondiff_argnames: Sequence[str] | str = (),
    ):
        super().__init__(fun, nondiff_argnums, nondiff_argnames)
        self.jvp: Callable[..., Any] | None = None
        self.symbolic_zeros = False

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Give the rule: jvp(*nondiff, primals, tangents) -> (outputs, output tangents).

        primals and tangents are tuples with one entry for each other argument. Tangents of integer
        arguments are NumPy zeros of dtype float0. With symbolic_zeros=True a tangent that is known
        to be zero comes as a SymbolicZero, and may be returned as one.

        Returns:
            jvp, so that this can be used as a decorator.
        """
        self.jvp = jvp
        self.symbolic_zeros = symbolic_zeros
        return jvp

    @api_boundary
    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Give one rule for each argument: jvp(tangent, output, *primals) -> output tangent.

        None stands for a derivative of zero. Not for functions with nondiff_argnums.
        """
        if self.nondiff_argnums:
            raise ArgumentError(f"{self.about}: defjvps takes no nondiff_argnums. Use defjvp.")

        def jvp(primals: tuple, tangents: tuple) -> tuple[Any, Any]:
            if len(jvps) != len(primals):
                raise CustomRuleError(
                    f"{self.about}: defjvps needs one rule for each of {len(primals)} arguments, "
                    f"got {len(jvps)}. Pass None where the derivative is zero."
                )
            out = self(*primals)
            zero = tree.map(
                lambda y: zeros(y.aval) if is_inexact(y) else float0_zeros(y.shape), out
            )
            takes = "(tangent, output, *primals)"
            terms = [
                call_rule(self.about, f"rule {i} of defjvps", takes, f, t, out, *primals)
                for i, (f, t) in enumerate(zip(jvps, tangents, strict=True))
                if f is not None
            ]
            total = functools.reduce(_tree_sum, terms) if terms else zero
            return out, total

        self.defjvp(jvp)

    @api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _custom_jvp_call(self, args, kwargs)


def _tree_sum(a: Any, b: Any) -> Any:
    return tree.map(lambda x, y: x if is_float0(x) else x + y, a, b)


def _custom_jvp_call(function: custom_jvp, args: tuple, kwargs: dict[str, Any]) -> Any:
    if function.jvp is None:
        raise CustomRuleError(
            f"{function.about}: {fun_place(function.fun)} has no derivative rule. Give it one with "
            f"{fun_name(function.fun)}.defjvp."
        )
    call = function._call(args, kwargs)
    rule = _JVPRule(call, function.jvp, function.symbolic_zeros)
    outs = custom_jvp_call_p.bind(
        *call.take_operands(),
        fun=call,
        rule=rule,
        held=(function.fun, function.jvp),
        name=fun_name(function.fun),
    )
    return tree.unflatten(call.out_tree, outs)


class _JVPRule:
    """The user's rule on flat operands, with its result checked."""

    __slots__ = ("call", "jvp", "symbolic_zeros")

    def __init__(self, call: Call, jvp: Callable[..., Any], symbolic_zeros: bool):
        self.call = call
        self.jvp = jvp
        self.symbolic_zeros = symbolic_zeros

    def __call__(
        self, operands: Sequence[Any], tangents: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        call, n = self.call, self.call.n_hoisted
        call.refuse_hoisted([t.__class__ is not Zero for t in tangents])
        primals_in = tree.unflatten(call.in_tree, operands[n:])
        tangents_in = tree.unflatten(call.in_tree, [self._given(t) for t in tangents[n:]])
        about = call.about
        nondiff = call.nondiff_args(operands)
        takes = f"({NONDIFF * bool(nondiff)}primals, tangents)"
        pair = call_rule(about, "the rule", takes, self.jvp, *nondiff, primals_in, tangents_in)
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise CustomRuleError(
                f"{about}: the rule {fun_place(self.jvp)} must return a pair (outputs, output "
                f"tangents), got {described(pair)}. Return both."
            )
        out, out_dot = pair
        outs = call.outputs(out, about, self.jvp)
        dots, dot_tree = tree.flatten(out_dot)
        if dot_tree != call.out_tree:
            difference = tree.structure_difference(
                call.out_tree, dot_tree, ("the output", "the tangent")
            )
            raise CustomRuleError(
                f"{about}: the rule {fun_place(self.jvp)} must return tangents of the structure of "
                f"its outputs, but {difference}. Return one tangent for each output."
            )
        return outs, [self._checked(o, t) for o, t in zip(outs, dots, strict=True)]

    def _given(self, t: Any) -> Any:
        if t.__class__ is not Zero:
            return t
        if self.symbolic_zeros:
            return SymbolicZero(ShapedArray(t.aval.shape, dtypes.tangent_dtype(t.aval.dtype)))
        return zeros(t.aval) if dtypes.is_inexact(t.aval.dtype) else float0_zeros(t.aval.shape)

    def _checked(self, out: Any, t: Any) -> Any:
        aval = out.aval
        if isinstance(t, SymbolicZero):
            return Zero(aval)
        if not dtypes.is_inexact(aval.dtype):
            if is_float0(t) and tuple(t.shape) == aval.shape:
                return Zero(aval)
            raise CustomRuleError(
                f"{self.call.about}: the tangent of an output {aval} must be of dtype float0, got "
                f"{described(t)}. Return numpy.zeros(shape, mgefn.dtypes.float0)."
            )
        found = as_tangent(t, aval)
        if found is None:
            raise CustomRuleError(
                f"{self.call.about}: the rule {fun_place(self.jvp)} must return tangents of the "
                f"shapes and dtypes of its outputs, got a tangent {described(t)} for an output "
                f"{aval}. Cast or reshape it."
            )
        return found


custom_jvp_call_p.no_rule("abstract_eval", "it holds a Python function, which staging traces")
custom_jvp_call_p.no_rule("transpose", "its function is read operation by operation")

custom_jvp_call_p.call = run_function
custom_jvp_call_p.unperturbed = unperturbed


@custom_jvp_call_p.def_evaluate
def _custom_jvp_evaluate(args, params):
    return tuple(params["fun"](*args))


@custom_jvp_call_p.def_jvp_call
def _custom_jvp_jvp(interpreter: JVPInterpreter, primals, tangents, params):
    if all(t is None for t in tangents):
        outs = unperturbed(interpreter, custom_jvp_call_p, primals, params)
        return split_all(interpreter, outs)
    filled = [Zero(p.aval) if t is None else t for p, t in zip(primals, tangents, strict=True)]
    with interpreter.entered():
        outs, dots = params["rule"](primals, filled)
    values, own_dots = split_all(interpreter, outs)
    # A rule that closes over differentiated values adds their part through its output.
    return values, [
        _sum_tangents(own, d if d.__class__ is Zero else interpreter.split(d)[0])
        for own, d in zip(own_dots, dots, strict=True)
    ]


def _sum_tangents(a: Any, b: Any) -> Any:
    if a.__class__ is Zero:
        return b
    return a if b.__class__ is Zero else add_p.bind1(a, b)


@custom_jvp_call_p.def_linearize
def _custom_jvp_linearize(interpreter: LinearizeInterpreter, primals, nodes, params):
    if all(n is None for n in nodes):
        return tuple(unperturbed(interpreter, custom_jvp_call_p, primals, params))
    tape, start = interpreter.tape, len(interpreter.tape)
    # The recorder stands inside the interpreter, so the rule may close over its tracers.
    # A rule that makes another call may hand it its tangents by closure, so that call records with
    # the same one.
    outermost = interpreter.inside is None
    if outermost:
        interpreter.inside = LinearRecorder(interpreter, tape, interpreter.about)
    recorder = interpreter.inside
    assert recorder is not None
    tangents = [
        Zero(p.aval) if n is None else LinearTracer(recorder, n)
        for p, n in zip(primals, nodes, strict=True)
    ]
    try:
        with recorder.entered():
            outs, dots = params["rule"](primals, tangents)
    finally:
        if outermost:
            interpreter.inside = None  # it would keep the tape alive in a cycle
    _unbox(interpreter, start)
    results = []
    for o, d in zip(outs, dots, strict=True):
        own = d.node if d.__class__ is LinearTracer and d.interpreter is recorder else None
        results.append(with_node(interpreter, o, own))
    return tuple(results)


def _unbox(interpreter: LinearizeInterpreter, start: int) -> None:
    """Values in place of the interpreter's own tracers, for what was recorded since `start`."""
    for eqn in interpreter.tape[start:]:
        if isinstance(eqn, LinearEqn):
            eqn.inputs = [
                i.primal if i.__class__ is LinearizeTracer and i.interpreter is interpreter else i
                for i in eqn.inputs
            ]


@custom_jvp_call_p.def_batch_call
def _custom_jvp_batch(interpreter: BatchingInterpreter, values, bdims, params):
    found = batch_here(interpreter, custom_jvp_call_p, values, bdims, params)
    if found is not None:
        return found
    batched = [b is not None for b in bdims]
    outs = custom_jvp_call_p.bind(
        *fronted(values, bdims, interpreter.axis_size),
        **params
        | {
            "fun": Batched(params["fun"], batched, interpreter),
            "rule": BatchedRule(params["rule"], batched, interpreter),
        },
    )
    return outs, [0] * len(outs)


@custom_jvp_call_p.def_stage
def _custom_jvp_stage(interpreter: StagingInterpreter, args, params):
    avals = [interpreter.atom(a).aval for a in args]
    name, rule = params["name"], params["rule"]
    about = f"custom_jvp({name})"
    closed, captured = trace(params["fun"], avals, about, name)
    known: list[Tracer] = []
    if closes_over_tracers(params["held"]):
        # The tracers are gone when the rule is asked for; write it down now.
        rule, known = _staged_rule(rule, avals, len(closed.out_avals), about)
    return interpreter.record(
        custom_jvp_staged_p,
        [*captured, *known, *args],
        {
            "jaxpr": with_inputs(closed, len(captured), known),
            "rule": rule,
            "n_captured": len(captured),
            "n_rule": len(known),
            "name": name,
        },
    )


def _staged_rule(
    rule: Any, avals: Sequence[ShapedArray], n_outs: int, about: str
) -> tuple[Any, list[Tracer]]:
    n = len(avals)
    active = [i for i, a in enumerate(avals) if dtypes.is_inexact(a.dtype)]
    has_dot: list[bool] = []

    def flat(*xs: Any) -> list[Any]:
        tangents = [Zero(a) for a in avals]
        for i, t in zip(active, xs[n:], strict=True):
            tangents[i] = t
        outs, dots = rule(xs[:n], tangents)
        has_dot[:] = [d.__class__ is not Zero for d in dots]
        return [*outs, *(d for d in dots if d.__class__ is not Zero)]

    closed, captured = trace(flat, [*avals, *(avals[i].strong() for i in active)], about, "rule")
    m = len(captured)

    def staged(operands: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        given = [tangents[m + i] for i in active]
        filled = [zeros(t.aval) if t.__class__ is Zero else t for t in given]
        found = eval_jaxpr(closed.jaxpr, closed.consts, [*operands, *filled])
        outs, rest = found[:n_outs], iter(found[n_outs:])
        return outs, [
            next(rest) if has else Zero(o.aval) for has, o in zip(has_dot, outs, strict=True)
        ]

    return staged, captured


def_staged(custom_jvp_staged_p)


@custom_jvp_staged_p.def_jvp(symbolic_zeros=True)
def _custom_jvp_staged_jvp(
    primals, tangents, *, jaxpr: ClosedJaxpr, rule, n_captured, n_rule, name
):
    if all(t.__class__ is Zero for t in tangents[n_captured + n_rule :]):
        return captured_tangents(jaxpr, primals, tangents, n_captured)
    given = [Zero(t.aval) if i < n_rule else t for i, t in enumerate(tangents[n_captured:])]
    outs, dots = rule(primals[n_captured:], given)
    check_outs(f"custom_jvp({name})", rule, jaxpr.out_avals, outs)
    if any(t.__class__ is not Zero for t in tangents[:n_captured]):
        _, more = captured_tangents(jaxpr, primals, tangents, n_captured)
        dots = [_sum_tangents(a, b) for a, b in zip(dots, more, strict=True)]
    return outs, dots


@custom_jvp_staged_p.def_batch_call
def _custom_jvp_staged_batch(interpreter: BatchingInterpreter, values, bdims, params):
    size = interpreter.axis_size
    batched = tuple(b is not None for b in bdims)
    jaxpr = batched_program(params["jaxpr"], batched, size, interpreter.axis_name)
    rule = BatchedRule(
        params["rule"], batched[params["n_captured"] :], fresh_interpreter(interpreter)
    )
    outs = custom_jvp_staged_p.bind(
        *fronted(values, bdims, size), **params | {"jaxpr": jaxpr, "rule": rule}
    )
    return outs, [0] * len(outs)
