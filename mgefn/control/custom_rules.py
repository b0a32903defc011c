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

import functools
import inspect
import operator
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from mgefn import dtypes, tree
from mgefn.core.array import as_array, is_arraylike
from mgefn.core.array_methods import Array
from mgefn.core.avals import ShapedArray, Zero, is_undefined
from mgefn.core.backends import executable_of
from mgefn.core.interpreter import Interpreter, state
from mgefn.core.jaxpr import ClosedJaxpr, Jaxpr, Var
from mgefn.core.primitive import Primitive
from mgefn.core.source import fun_name, fun_place
from mgefn.core.tracer import Tracer
from mgefn.errors import ArgumentError, CustomRuleError, MgefnError, api_boundary
from mgefn.interpreters.batching import BatchingInterpreter, batch_flat, to_front
from mgefn.interpreters.evaluate import eval_jaxpr
from mgefn.interpreters.jit import jit_p
from mgefn.interpreters.jvp import JVPInterpreter, jvp_flat
from mgefn.interpreters.linearize import (
    LinearEqn,
    LinearizeInterpreter,
    LinearizeTracer,
    LinearRecorder,
    LinearTracer,
    Node,
    SlopeEqn,
)
from mgefn.interpreters.staging import StagingInterpreter, trace, trace_closed
from mgefn.ops.elementwise import add_p, convert
from mgefn.ops.shaping import zeros


class SymbolicZero:
    """A tangent or cotangent that is exactly zero, as rules with symbolic_zeros=True see it."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapedArray):
        self.aval = aval

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> np.dtype:
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        return self.aval.ndim

    @property
    def size(self) -> int:
        return self.aval.size

    def __repr__(self) -> str:
        return f"SymbolicZero({self.aval})"


class CustomVJPPrimal:
    """An argument as a forward rule with symbolic_zeros=True sees it.

    `value` is the array; `perturbed` says whether it is being differentiated.
    """

    __slots__ = ("perturbed", "value")

    def __init__(self, value: Any, perturbed: bool):
        self.value = value
        self.perturbed = perturbed

    def __repr__(self) -> str:
        return f"CustomVJPPrimal(value={self.value!r}, perturbed={self.perturbed})"


# -- closures -------------------------------------------------------------------------------------


class ClosedOver(MgefnError):
    """A function that was to run outside an interpreter closes over one of its tracers."""


@contextmanager
def reentered(interpreter: Any) -> Iterator[None]:
    """Make an interpreter current around functions that may close over its tracers.

    What is current now becomes the interpreter outside it: the operations of the function go there.
    """
    previous, outer = state.current, interpreter.outer
    recorder = getattr(interpreter, "recorder", None)
    interpreter.outer = previous
    if recorder is not None:
        recorder.outer = previous
    state.current = interpreter
    try:
        yield
    finally:
        interpreter.outer = outer
        if recorder is not None:
            recorder.outer = outer
        state.current = previous


def closes_over_tracers(functions: Sequence[Any], depth: int = 4) -> bool:
    """Does a closure, a default or a bound argument of these Python functions hold a tracer?"""
    pending = [(f, depth) for f in functions]
    while pending:
        x, left = pending.pop()
        if isinstance(x, Tracer):
            return True
        if left == 0:
            continue
        found: list[Any] = []
        if isinstance(x, types.FunctionType):
            for cell in x.__closure__ or ():
                try:
                    found.append(cell.cell_contents)
                except ValueError:  # not yet assigned
                    continue
            found += x.__defaults__ or ()
        elif isinstance(x, functools.partial):
            found += [x.func, *x.args, *x.keywords.values()]
        elif isinstance(x, types.MethodType):
            found.append(x.__func__)
        elif isinstance(x, (list, tuple)):
            found += x[:64]
        elif isinstance(x, dict):
            found += list(x.values())[:64]
        else:
            inner = getattr(x, "__wrapped__", None)
            if inner is not None:
                found.append(inner)
        pending += [(f, left - 1) for f in found]
    return False


def _refuse_own(interpreter: Interpreter, x: Any) -> None:
    if isinstance(x, (list, tuple)):
        for part in x:
            _refuse_own(interpreter, part)
    elif isinstance(x, Tracer) and x.interpreter is interpreter:
        raise ClosedOver(f"{interpreter.about}: closes over a value that is transformed.")


def _inside(interpreter: Any, fun: Callable[..., Any]) -> Callable[..., Any]:
    """`fun` with the interpreter current, for binding outside it; its results must not belong to
    the interpreter."""

    def run(*args: Any) -> Any:
        with reentered(interpreter):
            out = fun(*args)
        _refuse_own(interpreter, out)
        return out

    return run


def _unperturbed(
    interpreter: Any, primitive: Primitive, primals: Sequence[Any], params: dict[str, Any]
) -> Sequence[Any]:
    """Outputs of a call none of whose operands the interpreter transforms; they may be tracers of
    the interpreter where the function closes over some.

    The call goes on to the interpreter outside, which may have use for the rule.
    """
    if interpreter.outer is not None:
        tape = getattr(interpreter, "tape", None)
        length = 0 if tape is None else len(tape)
        wrapped = {
            k: _inside(interpreter, v) if k in ("fun", "rule", "fwd", "bwd") else v
            for k, v in params.items()
        }
        try:
            return primitive.bind(*primals, **wrapped)
        except ClosedOver:
            if tape is not None:
                del tape[length:]
    # Nobody outside asks for the rule, or the function closes over tracers of this interpreter:
    # read it operation by operation.
    with reentered(interpreter):
        return params["fun"](*primals)


# -- one call -------------------------------------------------------------------------------------


class _Call:
    """The arguments of one call, taken apart; as a function of the operands it is `fun`.

    Operands are the tracers found in arguments at nondiff_argnums, which have no derivative, and
    then the leaves of the other arguments.
    """

    __slots__ = (
        "about",
        "fun",
        "in_tree",
        "n_args",
        "n_hoisted",
        "operands",
        "out_avals",
        "out_tree",
        "places",
        "static",
        "static_tree",
        "tracer_slots",
    )

    def __init__(self, about: str, fun: Callable[..., Any], args: tuple, nondiff: Sequence[int]):
        self.about = about
        self.fun = fun
        self.out_tree: Any = None
        self.out_avals: list[ShapedArray] | None = None
        self.n_args = len(args)
        self.places = nondiff
        dynamic = args if not nondiff else tuple(a for i, a in enumerate(args) if i not in nondiff)
        leaves, self.in_tree = tree.flatten(dynamic)
        hoisted: list[Any] = []
        self.static: Any = ()
        self.static_tree: Any = None
        self.tracer_slots: list[int] = []
        if nondiff:
            self.static = tuple(args[i] for i in nondiff)
            flat, static_tree = tree.flatten(self.static)
            slots = [k for k, x in enumerate(flat) if isinstance(x, Tracer)]
            if slots:
                self.static_tree, self.tracer_slots = static_tree, slots
                hoisted = [flat[k] for k in slots]
                # Keep no tracer here: the call may outlive it.
                self.static = [None if k in slots else x for k, x in enumerate(flat)]
        self.n_hoisted = len(hoisted)
        self.operands = [*hoisted, *(as_array(x, about) for x in leaves)]

    def take_operands(self) -> list[Any]:
        operands, self.operands = self.operands, []
        return operands

    def nondiff_args(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        if self.static_tree is None:
            return self.static
        flat = list(self.static)
        for k, x in zip(self.tracer_slots, operands, strict=False):
            flat[k] = x
        return tree.unflatten(self.static_tree, flat)

    def arguments(self, operands: Sequence[Any], leaves: Sequence[Any]) -> list[Any]:
        """All positional arguments, `leaves` standing for the differentiable operands."""
        dynamic = tree.unflatten(self.in_tree, leaves)
        if not self.places:
            return dynamic
        static = dict(zip(self.places, self.nondiff_args(operands), strict=True))
        rest = iter(dynamic)
        return [static[i] if i in static else next(rest) for i in range(self.n_args)]

    def __call__(self, *operands: Any) -> list[Any]:
        out = self.fun(*self.arguments(operands, operands[self.n_hoisted :]))
        return self.outputs(out, self.about)

    def outputs(self, out: Any, about: str, rule: Any = None) -> list[Any]:
        """The leaves of an output of the function, or of what a rule gives in its place."""
        flat, out_tree = tree.flatten(out)
        for x in flat:
            if not is_arraylike(x):
                raise ArgumentError(
                    f"{about}: the function must return arrays, got {type(x).__name__} "
                    f"({x!r:.60}). Compute it outside, or return it as an array."
                )
        arrays = [as_array(x, about) for x in flat]
        if rule is not None and self.out_tree is not None and self.out_avals is not None:
            if out_tree != self.out_tree:
                difference = tree.structure_difference(
                    self.out_tree, out_tree, ("the function's output", "the rule's")
                )
                raise CustomRuleError(
                    f"{about}: the rule {fun_place(rule)} must return an output of the function's "
                    f"structure, but {difference}. Return the same structure."
                )
            _check_outs(about, rule, self.out_avals, arrays)
        elif rule is None:
            self.out_avals = [a.aval for a in arrays]
        self.out_tree = out_tree
        return arrays

    def refuse_hoisted(self, given: Sequence[bool]) -> None:
        if any(given[: self.n_hoisted]):
            raise CustomRuleError(
                f"{self.about}: an argument at nondiff_argnums={tuple(self.places)} is being "
                "differentiated. Leave it out of nondiff_argnums, or pass it through stop_gradient."
            )


def _check_outs(about: str, rule: Any, want: Sequence[ShapedArray], outs: Sequence[Array]) -> None:
    """The outputs that a rule computes must have the types of the function's."""
    got = [o.aval for o in outs]
    if len(want) == len(got) and all(w.same_type(g) for w, g in zip(want, got, strict=True)):
        return
    raise CustomRuleError(
        f"{about}: the rule {fun_place(rule)} must return the function's output "
        f"({', '.join(map(str, want))}), got ({', '.join(map(str, got))}). Return the same shapes "
        "and dtypes."
    )


def _is_float0(x: Any) -> bool:
    return getattr(x, "dtype", None) == dtypes.float0


class _Custom:
    """What custom_jvp and custom_vjp share: the arguments and their order."""

    kind = ""

    def __init__(
        self,
        fun: Callable[..., Any],
        nondiff_argnums: Sequence[int] | int = (),
        nondiff_argnames: Sequence[str] | str = (),
    ):
        if not callable(fun):
            raise ArgumentError(
                f"{self.kind}: needs a function, got {_described(fun)}. Pass the function."
            )
        functools.update_wrapper(self, fun)  # type: ignore[arg-type]  # subclasses are called
        self.fun = fun
        nums = (nondiff_argnums,) if isinstance(nondiff_argnums, int) else tuple(nondiff_argnums)
        names = (
            (nondiff_argnames,) if isinstance(nondiff_argnames, str) else tuple(nondiff_argnames)
        )
        self.signature: inspect.Signature | None = None
        # functools.partial hides which names are positions, as in JAX.
        if not isinstance(fun, functools.partial):
            try:
                self.signature = inspect.signature(fun)
            except (TypeError, ValueError):  # a builtin: its arguments go by position
                self.signature = None
        parameters = [] if self.signature is None else list(self.signature.parameters.values())
        self.has_defaults = any(
            p.default is not p.empty or p.kind is p.KEYWORD_ONLY for p in parameters
        )
        order = [p.name for p in parameters]
        for n in names:
            if n not in order:
                raise ArgumentError(
                    f"{self.kind}: nondiff_argnames names {n!r}, which is no argument of "
                    f"{fun_place(fun)}. It has {', '.join(order) or 'none by name'}."
                )
        self.nondiff_argnums = tuple(
            sorted({operator.index(i) for i in nums} | {order.index(n) for n in names})
        )
        self.about = f"{self.kind}({fun_name(fun)})"

    def _positional(self, args: tuple, kwargs: dict[str, Any]) -> tuple:
        """All arguments by position, defaults included: rules take them so."""
        if not kwargs and not self.has_defaults:
            return args
        if self.signature is None:
            if kwargs:
                raise ArgumentError(
                    f"{self.about}: keyword arguments {', '.join(kwargs)} have no known position. "
                    "Pass them by position."
                )
            return args
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        named = [k for k in bound.kwargs if k in kwargs]
        if named:
            raise ArgumentError(
                f"{self.about}: arguments must go by position, got the keyword-only "
                f"{', '.join(named)}. Make them positional, or close over them."
            )
        return bound.args

    def _call(self, args: tuple, kwargs: dict[str, Any]) -> _Call:
        args = self._positional(args, kwargs)
        nondiff = []
        for i in self.nondiff_argnums:
            if not -len(args) <= i < len(args):
                raise ArgumentError(
                    f"{self.about}: nondiff_argnums holds {i}, but the call has {len(args)} "
                    "arguments. Correct nondiff_argnums."
                )
            nondiff.append(i % len(args))
        return _Call(self.about, self.fun, args, sorted(nondiff))


# -- custom_jvp -----------------------------------------------------------------------------------

# params: fun, rule, held (the user's functions), name
custom_jvp_call_p = Primitive("custom_jvp_call", closes_over=True, weak_result=False)

# params: jaxpr; rule; name; n_captured, how many leading operands only the jaxpr takes; n_rule, how
# many after them only the rule takes
custom_jvp_staged_p = Primitive("custom_jvp_call", weak_result=False)


class custom_jvp(_Custom):
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
            zero = tree.map(lambda y: zeros(y.aval) if _inexact(y) else _float0(y.shape), out)
            terms = [
                f(t, out, *primals) for f, t in zip(jvps, tangents, strict=True) if f is not None
            ]
            total = functools.reduce(_tree_sum, terms) if terms else zero
            return out, total

        self.defjvp(jvp)

    @api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _custom_jvp_call(self, args, kwargs)


def _inexact(x: Any) -> bool:
    return dtypes.is_inexact(x.dtype)


def _float0(shape: tuple[int, ...]) -> np.ndarray:
    return np.zeros(shape, dtypes.float0)


def _tree_sum(a: Any, b: Any) -> Any:
    return tree.map(lambda x, y: x if _is_float0(x) else x + y, a, b)


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

    def __init__(self, call: _Call, jvp: Callable[..., Any], symbolic_zeros: bool):
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
        pair = self.jvp(*call.nondiff_args(operands), primals_in, tangents_in)
        about = call.about
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise CustomRuleError(
                f"{about}: the rule {fun_place(self.jvp)} must return a pair (outputs, output "
                f"tangents), got {_described(pair)}. Return both."
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
        return zeros(t.aval) if dtypes.is_inexact(t.aval.dtype) else _float0(t.aval.shape)

    def _checked(self, out: Any, t: Any) -> Any:
        aval = out.aval
        if isinstance(t, SymbolicZero):
            return Zero(aval)
        if not dtypes.is_inexact(aval.dtype):
            if _is_float0(t) and tuple(t.shape) == aval.shape:
                return Zero(aval)
            raise CustomRuleError(
                f"{self.call.about}: the tangent of an output {aval} must be of dtype float0, got "
                f"{_described(t)}. Return numpy.zeros(shape, mgefn.dtypes.float0)."
            )
        found = _as_tangent(t, aval)
        if found is None:
            raise CustomRuleError(
                f"{self.call.about}: the rule {fun_place(self.jvp)} must return tangents of the "
                f"shapes and dtypes of its outputs, got a tangent {_described(t)} for an output "
                f"{aval}. Cast or reshape it."
            )
        return found


def _as_tangent(t: Any, aval: ShapedArray) -> Any:
    """t as an array of this type, or None where it is not one. Python numbers take the dtype."""
    if not is_arraylike(t) or _is_float0(t):
        return None
    t = as_array(t)
    if t.shape != aval.shape:
        return None
    if t.dtype != aval.dtype:
        if not t.weak_type or dtypes.promote_types(t.dtype, aval.dtype) != aval.dtype:
            return None
        return convert(t, aval.dtype)
    return t


def _described(x: Any) -> str:
    if isinstance(x, tuple):
        return f"a tuple of {len(x)}"
    if _is_float0(x):
        return f"float0{list(x.shape)}"
    if is_arraylike(x):
        return str(as_array(x).aval)
    return type(x).__name__


custom_jvp_call_p.no_rule("abstract_eval", "it holds a Python function, which staging traces")
custom_jvp_call_p.no_rule("transpose", "its function is read operation by operation")


def _run(args: Sequence[Any], params: dict[str, Any]) -> tuple:
    return tuple(params["fun"](*args))


custom_jvp_call_p.call = _run


@custom_jvp_call_p.def_evaluate
def _custom_jvp_evaluate(args, params):
    return tuple(params["fun"](*args))


@custom_jvp_call_p.def_jvp_call
def _custom_jvp_jvp(interpreter: JVPInterpreter, primals, tangents, params):
    if all(t is None for t in tangents):
        outs = _unperturbed(interpreter, custom_jvp_call_p, primals, params)
        return _split_all(interpreter, outs)
    filled = [Zero(p.aval) if t is None else t for p, t in zip(primals, tangents, strict=True)]
    with interpreter.entered():
        outs, dots = params["rule"](primals, filled)
    values, own_dots = _split_all(interpreter, outs)
    # A rule that closes over differentiated values adds their part through its output.
    return values, [
        _sum_tangents(own, d if d.__class__ is Zero else interpreter.split(d)[0])
        for own, d in zip(own_dots, dots, strict=True)
    ]


def _split_all(interpreter: JVPInterpreter, outs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    pairs = [interpreter.split(o) for o in outs]
    return [p for p, _ in pairs], [t for _, t in pairs]


def _sum_tangents(a: Any, b: Any) -> Any:
    if a.__class__ is Zero:
        return b
    return a if b.__class__ is Zero else add_p.bind1(a, b)


@custom_jvp_call_p.def_linearize
def _custom_jvp_linearize(interpreter: LinearizeInterpreter, primals, nodes, params):
    if all(n is None for n in nodes):
        return tuple(_unperturbed(interpreter, custom_jvp_call_p, primals, params))
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
        results.append(_with_node(interpreter, o, own))
    return tuple(results)


def _unbox(interpreter: LinearizeInterpreter, start: int) -> None:
    """Values in place of the interpreter's own tracers, for what was recorded since `start`."""
    for eqn in interpreter.tape[start:]:
        if isinstance(eqn, LinearEqn):
            eqn.inputs = [
                i.primal if i.__class__ is LinearizeTracer and i.interpreter is interpreter else i
                for i in eqn.inputs
            ]


def _with_node(interpreter: LinearizeInterpreter, out: Any, node: Node | None) -> Any:
    """An output whose tangent is `node` and what the output carries by itself."""
    value, own = interpreter.split(out)
    if node is None:
        return out
    if own is not None:
        both = Node(node.shape, node.dtype)
        interpreter.tape.append(SlopeEqn(both, [(own, 1), (node, 1)]))
        node = both
    return LinearizeTracer(interpreter, value, node)


def _fronted(values: Sequence[Any], bdims: Sequence[int | None], size: int) -> list[Any]:
    return [v if b is None else to_front(v, b, size) for v, b in zip(values, bdims, strict=True)]


def _one_example(aval: ShapedArray) -> ShapedArray:
    return aval.update(shape=aval.shape[1:])


def _a_batch(aval: ShapedArray, size: int) -> ShapedArray:
    return aval.update(shape=(size, *aval.shape))


class _OverBatch:
    """What calls a flat function for a batch: batched operands have it in front, and so do all
    outputs."""

    def __init__(self, fun: Any, batched: Sequence[bool], interpreter: BatchingInterpreter):
        self.fun = fun
        self.batched = tuple(batched)
        self.interpreter = interpreter
        self.size = interpreter.axis_size

    def _example(self, x: Any, batched: bool) -> Any:
        if x.__class__ is Zero:
            return Zero(_one_example(x.aval)) if batched else x
        return self.interpreter.tracer(x, 0 if batched else None)

    def _examples(self, xs: Sequence[Any]) -> list[Any]:
        return [self._example(x, b) for x, b in zip(xs, self.batched, strict=True)]

    def _whole(self, x: Any) -> Any:
        if x.__class__ is Zero:
            return Zero(_a_batch(x.aval, self.size))
        value, bdim = self.interpreter.split(x)
        return to_front(value, bdim, self.size)


class _Batched(_OverBatch):
    def __call__(self, *operands: Any) -> list[Any]:
        with reentered(self.interpreter):
            outs = self.fun(*self._examples(operands))
        return [self._whole(o) for o in outs]


class _BatchedRule(_OverBatch):
    def __call__(self, operands: Any, tangents: Any) -> Any:
        with reentered(self.interpreter):
            outs, dots = self.fun(self._examples(operands), self._examples(tangents))
        return [self._whole(o) for o in outs], [self._whole(d) for d in dots]


class _BatchedFwd(_OverBatch):
    def __call__(self, operands: Any, perturbed: Any) -> Any:
        with reentered(self.interpreter):
            outs, residuals, info = self.fun(self._examples(operands), perturbed)
        split = [self.interpreter.split(r) for r in residuals]
        values = [v if b is None else to_front(v, b, self.size) for v, b in split]
        info = (info, tuple(b is not None for _, b in split))
        return [self._whole(o) for o in outs], values, info


class _BatchedBwd(_OverBatch):
    def __call__(self, info: Any, residuals: Any, cts: Any) -> Any:
        inner_info, batched = info
        res = [self._example(r, b) for r, b in zip(residuals, batched, strict=True)]
        with reentered(self.interpreter):
            found = self.fun(inner_info, res, [self._example(c, True) for c in cts])
        out = []
        for ct, b in zip(found, self.batched, strict=True):
            if ct is None or ct.__class__ is Zero:
                out.append(None)
                continue
            value, bdim = self.interpreter.split(ct)
            if b:
                out.append(to_front(value, bdim, self.size))
            else:
                # An operand that all examples share collects their cotangents.
                out.append(to_front(value, bdim, self.size).sum(0))
        return out


def _batch_here(
    interpreter: BatchingInterpreter, primitive: Primitive, values, bdims, params
) -> tuple[list[Any], list[int | None]] | None:
    """Outputs where the function can be read operation by operation, or need not be batched."""
    if interpreter.outer is not None and any(b is not None for b in bdims):
        return None
    if interpreter.outer is None:
        with reentered(interpreter):
            outs = params["fun"](
                *[interpreter.tracer(v, b) for v, b in zip(values, bdims, strict=True)]
            )
    else:
        wrapped = {
            k: _inside(interpreter, v) if k in ("fun", "rule", "fwd", "bwd") else v
            for k, v in params.items()
        }
        try:
            outs = primitive.bind(*values, **wrapped)
        except ClosedOver:
            return None
    pairs = [interpreter.split(o) for o in outs]
    return [v for v, _ in pairs], [b for _, b in pairs]


@custom_jvp_call_p.def_batch_call
def _custom_jvp_batch(interpreter: BatchingInterpreter, values, bdims, params):
    found = _batch_here(interpreter, custom_jvp_call_p, values, bdims, params)
    if found is not None:
        return found
    batched = [b is not None for b in bdims]
    outs = custom_jvp_call_p.bind(
        *_fronted(values, bdims, interpreter.axis_size),
        **params
        | {
            "fun": _Batched(params["fun"], batched, interpreter),
            "rule": _BatchedRule(params["rule"], batched, interpreter),
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
            "jaxpr": _with_inputs(closed, len(captured), known),
            "rule": rule,
            "n_captured": len(captured),
            "n_rule": len(known),
            "name": name,
        },
    )


def _with_inputs(closed: ClosedJaxpr, at: int, extra: Sequence[Tracer]) -> ClosedJaxpr:
    """The same program with inputs that it does not read."""
    if not extra:
        return closed
    jaxpr = closed.jaxpr
    new = [Var(x.aval) for x in extra]
    binders = [*jaxpr.in_binders[:at], *new, *jaxpr.in_binders[at:]]
    return ClosedJaxpr(
        Jaxpr(binders, jaxpr.eqns, jaxpr.outs, jaxpr.const_binders, jaxpr.name), closed.consts
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


def _staged_abstract_eval(*avals: ShapedArray, jaxpr: ClosedJaxpr, **params: Any):
    return tuple(jaxpr.out_avals)


def _staged_evaluate(args: Sequence[Any], params: dict[str, Any]) -> tuple:
    return executable_of(params["jaxpr"])(args)


def _staged_inlined(params: dict[str, Any]) -> ClosedJaxpr:
    return params["jaxpr"]


def _staged_call(args: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    closed = params["jaxpr"]
    return eval_jaxpr(closed.jaxpr, closed.consts, args)


def _staged_transpose(cts, *args, jaxpr: ClosedJaxpr, name: str, **params: Any):
    # Only where the function is applied to tangents, and then it is linear by itself.
    assert any(is_undefined(a) for a in args)
    assert jit_p.transpose is not None
    return jit_p.transpose(cts, *args, jaxpr=jaxpr, name=name, inline=False)


def _def_staged(primitive: Primitive) -> None:
    primitive.def_abstract_eval(_staged_abstract_eval)
    primitive.def_evaluate(_staged_evaluate)
    primitive.def_transpose(_staged_transpose, symbolic_zeros=True)
    primitive.inlined = _staged_inlined
    primitive.call = _staged_call


_def_staged(custom_jvp_staged_p)


def _captured_tangents(
    jaxpr: ClosedJaxpr, primals: Sequence[Any], tangents: Sequence[Any], n_captured: int
) -> tuple[list[Any], list[Any]]:
    """Outputs and tangents of a staged function by what it closed over alone."""
    return jvp_flat(
        lambda *xs: eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, xs),
        primals,
        [t if i < n_captured else Zero(t.aval) for i, t in enumerate(tangents)],
    )


@custom_jvp_staged_p.def_jvp(symbolic_zeros=True)
def _custom_jvp_staged_jvp(
    primals, tangents, *, jaxpr: ClosedJaxpr, rule, n_captured, n_rule, name
):
    if all(t.__class__ is Zero for t in tangents[n_captured + n_rule :]):
        return _captured_tangents(jaxpr, primals, tangents, n_captured)
    given = [Zero(t.aval) if i < n_rule else t for i, t in enumerate(tangents[n_captured:])]
    outs, dots = rule(primals[n_captured:], given)
    _check_outs(f"custom_jvp({name})", rule, jaxpr.out_avals, outs)
    if any(t.__class__ is not Zero for t in tangents[:n_captured]):
        _, more = _captured_tangents(jaxpr, primals, tangents, n_captured)
        dots = [_sum_tangents(a, b) for a, b in zip(dots, more, strict=True)]
    return outs, dots


def _batched_program(closed: ClosedJaxpr, batched: tuple[bool, ...], size: int, axis_name: Any):
    """The batched program with every output batched in front."""

    def make() -> ClosedJaxpr:
        def fun(*args: Any) -> list[Any]:
            outs, bdims = batch_flat(
                lambda *xs: eval_jaxpr(closed.jaxpr, closed.consts, xs),
                args,
                [0 if b else None for b in batched],
                size,
                axis_name,
            )
            return [to_front(o, b, size) for o, b in zip(outs, bdims, strict=True)]

        avals = [
            _a_batch(a, size) if b else a for a, b in zip(closed.in_avals, batched, strict=True)
        ]
        return trace_closed(fun, avals, "vmap", f"vmap_{closed.jaxpr.name}")

    return closed.derive(("batch all", batched, size, axis_name), make)


def _fresh(interpreter: BatchingInterpreter) -> BatchingInterpreter:
    """An interpreter for rules of a staged program, which close over no tracer."""
    return BatchingInterpreter(interpreter.axis_size, interpreter.axis_name, interpreter.about)


@custom_jvp_staged_p.def_batch_call
def _custom_jvp_staged_batch(interpreter: BatchingInterpreter, values, bdims, params):
    size = interpreter.axis_size
    batched = tuple(b is not None for b in bdims)
    jaxpr = _batched_program(params["jaxpr"], batched, size, interpreter.axis_name)
    rule = _BatchedRule(params["rule"], batched[params["n_captured"] :], _fresh(interpreter))
    outs = custom_jvp_staged_p.bind(
        *_fronted(values, bdims, size), **params | {"jaxpr": jaxpr, "rule": rule}
    )
    return outs, [0] * len(outs)


# -- custom_vjp -----------------------------------------------------------------------------------

# params: fun, fwd, bwd, held, name
custom_vjp_call_p = Primitive("custom_vjp_call", closes_over=True, weak_result=False)

# params: jaxpr; fwd; bwd; name; n_captured and n_rule as for custom_jvp_staged_p
custom_vjp_staged_p = Primitive("custom_vjp_call", weak_result=False)

# The derivative of a custom_vjp function, known by its transpose only. Operands: n_residuals
# residuals, then the tangents of the operands at `active`. Outputs: the inexact outputs' tangents.
# params: bwd; info; n_residuals; active; out_avals, of all outputs; name
custom_transpose_call_p = Primitive("custom_transpose_call", weak_result=False)


class custom_vjp(_Custom):
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

    def __init__(self, call: _Call, fwd: Callable[..., Any], symbolic_zeros: bool):
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
        pair = self.fwd(*call.arguments(operands, leaves))
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise CustomRuleError(
                f"{call.about}: the forward rule {fun_place(self.fwd)} must return a pair (output, "
                f"residuals), got {_described(pair)}. Return both."
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
        call: _Call,
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
        found = self.bwd(*call.nondiff_args(residuals), res, ct)
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
        return zeros(ct.aval) if dtypes.is_inexact(ct.aval.dtype) else _float0(ct.aval.shape)

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
        found = _as_tangent(ct, aval)
        if found is None:
            raise CustomRuleError(
                f"{self.call.about}: the backward rule {fun_place(self.bwd)} must return "
                f"cotangents of the shapes and dtypes of the arguments, got {_described(ct)} for "
                f"an argument {aval}. Cast it, or sum it to the argument's shape."
            )
        return found


custom_vjp_call_p.no_rule("abstract_eval", "it holds a Python function, which staging traces")
custom_vjp_call_p.no_rule("transpose", "its function is read operation by operation")
custom_vjp_call_p.call = _run


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
    return _split_all(interpreter, _unperturbed(interpreter, custom_vjp_call_p, primals, params))


@custom_vjp_call_p.def_linearize
def _custom_vjp_linearize(interpreter: LinearizeInterpreter, primals, nodes, params):
    if all(n is None for n in nodes):
        return tuple(_unperturbed(interpreter, custom_vjp_call_p, primals, params))
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
    out_nodes = [Node(v.shape, v.dtype) if _inexact(v) else None for v in values]
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
    return tuple(_with_node(interpreter, o, n) for o, n in zip(outs, out_nodes, strict=True))


@custom_vjp_call_p.def_batch_call
def _custom_vjp_batch(interpreter: BatchingInterpreter, values, bdims, params):
    found = _batch_here(interpreter, custom_vjp_call_p, values, bdims, params)
    if found is not None:
        return found
    batched = [b is not None for b in bdims]
    outs = custom_vjp_call_p.bind(
        *_fronted(values, bdims, interpreter.axis_size),
        **params
        | {
            "fun": _Batched(params["fun"], batched, interpreter),
            "fwd": _BatchedFwd(params["fwd"], batched, interpreter),
            "bwd": _BatchedBwd(params["bwd"], batched, interpreter),
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
            "jaxpr": _with_inputs(closed, len(captured), known),
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


_def_staged(custom_vjp_staged_p)


@custom_vjp_staged_p.def_jvp(symbolic_zeros=True)
def _custom_vjp_staged_jvp(
    primals, tangents, *, jaxpr: ClosedJaxpr, fwd, bwd, n_captured, n_rule, name
):
    if any(t.__class__ is not Zero for t in tangents[n_captured + n_rule :]):
        raise _forward_mode(name)
    return _captured_tangents(jaxpr, primals, tangents, n_captured)


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
    _check_outs(f"custom_vjp({name})", params["fwd"], closed.out_avals, outs)
    results = _record_transpose(interpreter, outs, residuals, info, params["bwd"], own, name)
    if not through_captured:
        return results
    return tuple(
        _with_node(interpreter, r, interpreter.split(c)[1])
        for r, c in zip(results, by_captured, strict=True)
    )


@custom_vjp_staged_p.def_batch_call
def _custom_vjp_staged_batch(interpreter: BatchingInterpreter, values, bdims, params):
    size = interpreter.axis_size
    batched = tuple(b is not None for b in bdims)
    jaxpr = _batched_program(params["jaxpr"], batched, size, interpreter.axis_name)
    rest, fresh = batched[params["n_captured"] :], _fresh(interpreter)
    outs = custom_vjp_staged_p.bind(
        *_fronted(values, bdims, size),
        **params
        | {
            "jaxpr": jaxpr,
            "fwd": _BatchedFwd(params["fwd"], rest, fresh),
            "bwd": _BatchedBwd(params["bwd"], rest, fresh),
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
    fresh = _fresh(interpreter)

    def flat_bwd(info: Any, residuals: Any, cts: Any) -> list[Any]:
        found = inner(info, residuals, cts)
        return [found[i] for i in active]

    batched = [b is not None for b in bdims[n:]]
    outs = custom_transpose_call_p.bind(
        *_fronted(values, bdims, size),
        bwd=_BatchedBwd(flat_bwd, batched, fresh),
        info=(inner_info, res_batched),
        n_residuals=n,
        active=tuple(range(n_tangents)),
        out_avals=tuple(_a_batch(a, size) for a in params["out_avals"]),
        name=params["name"],
    )
    return outs, [0] * len(outs)


# -- closure_convert ------------------------------------------------------------------------------


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


__all__ = ["CustomVJPPrimal", "SymbolicZero", "closure_convert", "custom_jvp", "custom_vjp"]
