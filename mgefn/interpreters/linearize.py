"""Linearization: compute a function's value and write down its derivative as a linear program.

Each value with a tangent carries a `Node` of the linear program instead of the tangent itself.
An elementwise operation leaves one `SlopeEqn` on the tape, the sum of scale(tangent, slope) over
its operands; a linear or bilinear one leaves itself; any other runs its jvp rule with
`LinearTracer`s as tangents, and the recorder writes down what the rule does to them. So forward
rules are the only truth, and reverse mode is the tape read backwards. Known values that the tape
needs are residuals.

With nothing outside, the backward pass first runs without the annihilation rule (plain products)
and looks at the final cotangents once: 0 * inf always leaves a NaN, which linear maps keep or drop,
so only a NaN there calls for the guarded pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mgefn.config import config
from mgefn.core.array import ConcreteArray, as_array
from mgefn.core.array_methods import Array
from mgefn.core.avals import ShapedArray, UndefinedPrimal, Zero
from mgefn.core.device_array import is_on_device
from mgefn.core.interpreter import Interpreter, base, process_in, state
from mgefn.core.jaxpr import ClosedJaxpr
from mgefn.core.primitive import Primitive
from mgefn.core.source import Source, current_source, scopes
from mgefn.core.tracer import Tracer
from mgefn.interpreters.evaluate import eval_jaxpr
from mgefn.interpreters.jvp import rule_tangents
from mgefn.interpreters.staging import StagingInterpreter, trace_closed
from mgefn.interpreters.transposition import add_cotangents, transpose_eqn
from mgefn.ops.elementwise import add_p, convert, mul_p, neg_p, scale
from mgefn.ops.shaping import broadcast_to_shape, zeros


class Node:
    """A variable of the tape: a tangent's shape and dtype."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype):
        self.shape = shape
        self.dtype = dtype

    @property
    def aval(self) -> ShapedArray:
        return ShapedArray(self.shape, self.dtype)


class LinearEqn:
    """out_binders = primitive[params] inputs; inputs are Nodes and residuals."""

    __slots__ = ("inputs", "out_binders", "params", "primitive", "source")

    def __init__(
        self, primitive: Primitive, inputs: list, params: dict, out_binders: list[Node],
        source: Source | None = None,
    ):  # fmt: skip
        self.source = source
        self.primitive = primitive
        self.inputs = inputs
        self.params = params
        self.out_binders = out_binders


class SlopeEqn:
    """out = sum of scale(node, slope), a slope being a residual or the number 1 or -1."""

    __slots__ = ("out", "source", "terms")

    def __init__(self, out: Node, terms: list[tuple[Node, Any]], source: Source | None = None):
        self.source = source
        self.out = out
        self.terms = terms


class SourcedTape(list):
    """A tape whose equations know the user's line, for what is read backwards into a program.

    With nothing to stage nobody asks for it, and a plain list does.
    """

    def append(self, eqn: LinearEqn | SlopeEqn) -> None:
        eqn.source = current_source(2)
        super().append(eqn)


def _is_staged(interpreter: Interpreter | None) -> bool:
    while interpreter is not None:
        if isinstance(interpreter, StagingInterpreter):
            return True
        interpreter = interpreter.outer
    return False


class LinearizeTracer(Tracer):
    """A value with its node on the tape."""

    __slots__ = ("node", "primal")

    def __init__(self, interpreter: LinearizeInterpreter, primal: Any, node: Node):
        self.interpreter = interpreter
        self.primal = primal
        self.node = node

    @property
    def aval(self) -> ShapedArray:
        return self.primal.aval

    @property
    def shape(self) -> tuple[int, ...]:
        return self.primal.shape

    @property
    def dtype(self) -> np.dtype:
        return self.primal.dtype

    @property
    def ndim(self) -> int:
        return self.primal.ndim

    @property
    def weak_type(self) -> bool:
        return self.primal.weak_type

    def concrete(self) -> Any:
        return self.primal


class LinearTracer(Tracer):
    """A tangent in the hands of a jvp rule."""

    __slots__ = ("node",)

    def __init__(self, interpreter: LinearRecorder, node: Node):
        self.interpreter = interpreter
        self.node = node

    @property
    def aval(self) -> ShapedArray:
        return self.node.aval

    @property
    def shape(self) -> tuple[int, ...]:
        return self.node.shape

    @property
    def dtype(self) -> np.dtype:
        return self.node.dtype

    @property
    def weak_type(self) -> bool:
        return False


class LinearRecorder(Interpreter):
    """Writes operations on tangents to the tape and passes all others on."""

    __slots__ = ("tape",)

    def __init__(self, outer: Interpreter | None, tape: list, about: str):
        self.outer = outer
        self.tape = tape
        self.about = about

    def process(self, primitive: Primitive, args: tuple, params: dict[str, Any]) -> tuple:
        inputs, own = [], False
        for a in args:
            if a.__class__ is LinearTracer and a.interpreter is self:
                own = True
                inputs.append(a.node)
            else:
                inputs.append(a)
        if not own:
            if primitive.unperturbed is None:
                return process_in(self.outer, primitive, args, params)
            # What the call holds may close over tangents, its own or those of a tracer inside.
            previous = state.current
            state.current = self.outer
            try:
                return tuple(primitive.unperturbed(self, primitive, args, params))
            finally:
                state.current = previous
        if primitive.call is not None:
            # The tangent goes into a function that the operation holds: record what that does.
            with self.entered():
                return tuple(primitive.call(args, params))
        if primitive.record is not None:
            return primitive.record(self, args, params)
        if primitive.inlined is not None:
            return self._call(primitive, args, params)
        avals = primitive.out_avals([i.aval for i in inputs], params)
        nodes = [Node(a.shape, a.dtype) for a in avals]
        self.tape.append(LinearEqn(primitive, inputs, params, nodes))
        return tuple([LinearTracer(self, n) for n in nodes])

    def _call(self, primitive: Primitive, args: tuple, params: dict[str, Any]) -> tuple:
        """A call on values and tangents, as a rule makes with the jvp of a jitted function.

        What the values decide runs outside, the rest goes on the tape.
        """
        assert primitive.inlined is not None
        mine = tuple(a.__class__ is LinearTracer and a.interpreter is self for a in args)
        parts = split_jaxpr(primitive.inlined(params), mine)
        known = [a for a, m in zip(args, mine, strict=True) if not m]
        nodes = [a.node for a, m in zip(args, mine, strict=True) if m]
        outs = process_in(self.outer, primitive, tuple(known), params | {"jaxpr": parts.primal})
        n_known = len(outs) - parts.n_residuals
        avals = parts.linear.out_avals
        binders = [Node(a.shape, a.dtype) for a in avals]
        if binders:
            inputs = [*outs[n_known:], *nodes]
            self.tape.append(
                LinearEqn(primitive, inputs, params | {"jaxpr": parts.linear}, binders)
            )
        values, tangents = iter(outs), iter(binders)
        return tuple(
            LinearTracer(self, next(tangents)) if x else next(values) for x in parts.out_nonzero
        )


class LinearizeInterpreter(Interpreter):
    """Evaluates outside and writes the tape."""

    __slots__ = ("inside", "recorder", "tape")

    def __init__(self, about: str):
        super().__init__(about)
        self.tape: list[LinearEqn | SlopeEqn] = SourcedTape() if _is_staged(self.outer) else []
        self.recorder = LinearRecorder(self.outer, self.tape, about)
        # While a custom_jvp rule runs, the recorder that stands inside this interpreter.
        self.inside: LinearRecorder | None = None

    def variable(self, primal: Any) -> tuple[LinearizeTracer, Node]:
        """A tracer to differentiate with respect to."""
        node = Node(primal.shape, primal.dtype)
        return LinearizeTracer(self, primal, node), node

    def split(self, x: Any) -> tuple[Any, Node | None]:
        """Value of an output, and its node where it depends on a variable."""
        if x.__class__ is LinearizeTracer and x.interpreter is self:
            return x.primal, x.node
        return as_array(x, self.about), None

    def process(self, primitive: Primitive, args: tuple, params: dict[str, Any]) -> tuple:
        own = False
        primals: list[Any] = []
        nodes: list[Node | None] = []
        for a in args:
            if a.__class__ is LinearizeTracer and a.interpreter is self:
                own = True
                primals.append(a.primal)
                nodes.append(a.node)
            else:
                primals.append(a)
                nodes.append(None)
        outer = self.outer
        if not (own or primitive.closes_over):
            return process_in(outer, primitive, args, params)
        previous = state.current
        state.current = outer
        try:
            slopes = primitive.slopes
            if slopes is not None:
                if outer is None:
                    y = base.process(primitive, tuple(primals), params)[0]
                else:
                    y = outer.process(primitive, tuple(primals), params)[0]
                terms = []
                for slope, node in zip(slopes, nodes, strict=True):
                    if node is not None and slope.__class__ is not int:
                        slope = slope(y, *primals)  # type: ignore[operator]  # not an int
                    if node is not None and not (slope.__class__ is int and slope == 0):
                        terms.append((node, slope))
                if not terms:
                    return (y,)
                out = Node(y.shape, y.dtype)
                self.tape.append(SlopeEqn(out, terms))
                return (LinearizeTracer(self, y, out),)
            if primitive.constant:
                return process_in(outer, primitive, tuple(primals), params)
            if primitive.linear:
                outs = process_in(outer, primitive, tuple(primals), params)
                inputs = [
                    zeros(p.aval) if n is None else n for n, p in zip(nodes, primals, strict=True)
                ]
                return self._record(primitive, inputs, params, outs)
            if primitive.bilinear:
                return self._bilinear(primitive, primals, nodes, params)
            if primitive.linearize is not None:
                return primitive.linearize(self, primals, nodes, params)
            if primitive.jvp is None:
                raise primitive.missing("jvp")
            return self.by_jvp(primitive, primals, nodes, params, primitive.jvp)
        finally:
            state.current = previous

    def _record(
        self, primitive: Primitive, inputs: list, params: dict[str, Any], outs: Sequence[Any]
    ) -> tuple:
        """One linear equation whose outputs are the tangents of `outs`."""
        out_nodes = [Node(o.shape, o.dtype) for o in outs]
        self.tape.append(LinearEqn(primitive, inputs, params, out_nodes))
        return tuple([LinearizeTracer(self, o, n) for o, n in zip(outs, out_nodes, strict=True)])

    def _bilinear(self, primitive: Primitive, primals: list, nodes: list, params: dict) -> tuple:
        y = process_in(self.outer, primitive, tuple(primals), params)[0]
        terms: list[tuple[Node, Any]] = []
        for i, node in enumerate(nodes):
            if node is not None:
                out = Node(y.shape, y.dtype)
                inputs = [*primals[:i], node, *primals[i + 1 :]]
                self.tape.append(LinearEqn(primitive, inputs, params, [out]))
                terms.append((out, 1))
        if len(terms) == 1:
            return (LinearizeTracer(self, y, terms[0][0]),)
        out = Node(y.shape, y.dtype)
        self.tape.append(SlopeEqn(out, terms))
        return (LinearizeTracer(self, y, out),)

    def by_jvp(
        self,
        primitive: Primitive,
        primals: Sequence[Any],
        nodes: Sequence[Node | None],
        params: dict[str, Any],
        rule: Callable[..., Any],
    ) -> tuple:
        """Run a jvp rule with the recorder's tracers as tangents."""
        recorder = self.recorder
        tangents = rule_tangents(
            primitive, primals, [None if n is None else LinearTracer(recorder, n) for n in nodes]
        )
        previous = state.current
        state.current = recorder
        try:
            outs, out_tangents = rule(tuple(primals), tangents, **params)
        finally:
            state.current = previous
        return tuple([self._out(o, t) for o, t in zip(outs, out_tangents, strict=True)])

    def _out(self, primal: Any, tangent: Any) -> Any:
        if tangent.__class__ is LinearTracer and tangent.interpreter is self.recorder:
            return LinearizeTracer(self, primal, tangent.node)
        return primal  # a tangent that does not depend on ours is zero


class LinearMap:
    """The derivative of a function at a point: a tape from in_nodes to out_nodes (None: zero)."""

    __slots__ = ("in_nodes", "out_avals", "out_nodes", "tape")

    def __init__(
        self,
        tape: list[LinearEqn | SlopeEqn],
        in_nodes: Sequence[Node],
        out_nodes: Sequence[Node | None],
        out_avals: Sequence[ShapedArray],
    ):
        self.tape = tape
        self.in_nodes = in_nodes
        self.out_nodes = out_nodes
        self.out_avals = out_avals

    def transpose(self, cts: Sequence[Any]) -> list[Any]:
        """Cotangents of the inputs from those of the outputs; both may be Zero."""
        if state.current is None and config.zero_annihilates and not any(map(is_on_device, cts)):
            # On a device the look at the gradients would wait for it; guarding costs less.
            found = self._backward(cts, plain_product)
            for ct in found:
                if ct.__class__ is ConcreteArray and has_nan(ct._data):
                    return self._backward(cts, scale)
            return found
        return self._backward(cts, scale)

    def _backward(self, cts: Sequence[Any], product: Callable[[Any, Any], Any]) -> list[Any]:
        previous = scopes.replayed
        try:
            return self._read_back(cts, product)
        finally:
            scopes.replayed = previous

    def _read_back(self, cts: Sequence[Any], product: Callable[[Any, Any], Any]) -> list[Any]:
        ct_of: dict[Node, Any] = {}
        for node, ct in zip(self.out_nodes, cts, strict=True):
            if node is not None and ct.__class__ is not Zero:
                ct_of[node] = ct if node not in ct_of else add_p.bind1(ct_of[node], ct)
        for eqn in reversed(self.tape):
            if eqn.source is not None:
                scopes.replayed = eqn.source
            if eqn.__class__ is SlopeEqn:
                ct = ct_of.pop(eqn.out, None)  # type: ignore[union-attr]  # a SlopeEqn
                if ct is None:
                    continue
                for node, slope in eqn.terms:  # type: ignore[union-attr]  # a SlopeEqn
                    if slope.__class__ is int:
                        term = ct if slope == 1 else neg_p.bind1(ct)
                    else:
                        term = product(ct, slope)
                    if term.shape != node.shape:
                        # A rank-0 operand met every element of the output.
                        term = term.sum()
                    before = ct_of.get(node)
                    ct_of[node] = term if before is None else plain_sum(before, term)
                continue
            assert eqn.__class__ is LinearEqn
            out_cts = [ct_of.pop(n, None) for n in eqn.out_binders]  # type: ignore[union-attr]  # a LinearEqn
            if all(c is None for c in out_cts):
                continue
            inputs = eqn.inputs  # type: ignore[union-attr]  # a LinearEqn
            ins = [UndefinedPrimal(i.aval) if i.__class__ is Node else i for i in inputs]
            for i, ct in zip(inputs, transpose_eqn(eqn, out_cts, ins), strict=True):
                if i.__class__ is Node and ct is not None and ct.__class__ is not Zero:
                    ct_of[i] = add_cotangents(ct_of.get(i), ct)
        return [ct_of[n] if n in ct_of else Zero(n.aval) for n in self.in_nodes]

    def jvp(self, tangents: Sequence[Any]) -> list[Any]:
        """Tangents of the outputs; those given may be Zero."""
        previous = scopes.replayed
        try:
            return self._read(tangents)
        finally:
            scopes.replayed = previous

    def _read(self, tangents: Sequence[Any]) -> list[Any]:
        env: dict[Node, Any] = {
            n: t for n, t in zip(self.in_nodes, tangents, strict=True) if t.__class__ is not Zero
        }
        for eqn in self.tape:
            if eqn.source is not None:
                scopes.replayed = eqn.source
            if isinstance(eqn, SlopeEqn):
                total = None
                for node, slope in eqn.terms:
                    t = env.get(node)
                    if t is None:
                        continue
                    if slope.__class__ is int:
                        t = t if slope == 1 else neg_p.bind1(t)
                    else:
                        t = scale(t, slope)
                    total = t if total is None else add_p.bind1(total, t)
                if total is not None:
                    if total.shape != eqn.out.shape:
                        total = broadcast_to_shape(total, eqn.out.shape)
                    env[eqn.out] = total
                continue
            nodes = [i for i in eqn.inputs if i.__class__ is Node]
            if any(n in env for n in nodes):
                ins = [
                    (env[i] if i in env else zeros(i.aval)) if i.__class__ is Node else i
                    for i in eqn.inputs
                ]
                outs = eqn.primitive.bind(*ins, **eqn.params)
                env.update(zip(eqn.out_binders, outs, strict=True))
        return [
            Zero(a) if n is None or n not in env else env[n]
            for n, a in zip(self.out_nodes, self.out_avals, strict=True)
        ]

    def pruned(self) -> LinearMap:
        """The same map without what its outputs do not need."""
        needed: set[Node] = {n for n in self.out_nodes if n is not None}
        kept = []
        for eqn in reversed(self.tape):
            if isinstance(eqn, SlopeEqn):
                if eqn.out in needed:
                    kept.append(eqn)
                    needed.update(n for n, _ in eqn.terms)
            elif any(n in needed for n in eqn.out_binders):
                kept.append(eqn)
                needed.update(i for i in eqn.inputs if i.__class__ is Node)
        kept.reverse()
        return LinearMap(kept, self.in_nodes, self.out_nodes, self.out_avals)

    def residuals(self) -> list[Any]:
        """The known values of rank 1 or more, and the tracers, that the tape holds; each once."""
        found: dict[int, Any] = {}

        def see(x: Any) -> None:
            if isinstance(x, Tracer) or (isinstance(x, Array) and x.shape):
                found[id(x)] = x

        for eqn in self.tape:
            if isinstance(eqn, SlopeEqn):
                for _, slope in eqn.terms:
                    see(slope)
            else:
                for i in eqn.inputs:
                    see(i)
        return list(found.values())

    def with_residuals(self, old: Sequence[Any], new: Sequence[Any]) -> LinearMap:
        """The same map with other values for its residuals."""
        table = {id(o): n for o, n in zip(old, new, strict=True)}
        tape: list[LinearEqn | SlopeEqn] = []
        for eqn in self.tape:
            if isinstance(eqn, SlopeEqn):
                terms = [(n, table.get(id(s), s)) for n, s in eqn.terms]
                tape.append(SlopeEqn(eqn.out, terms, eqn.source))
            else:
                inputs = [table.get(id(i), i) for i in eqn.inputs]
                tape.append(
                    LinearEqn(eqn.primitive, inputs, eqn.params, eqn.out_binders, eqn.source)
                )
        return LinearMap(tape, self.in_nodes, self.out_nodes, self.out_avals)


def plain_product(ct: Any, slope: Any) -> Any:
    """ct * slope for known arrays, by the shortest way."""
    if ct.__class__ is ConcreteArray and slope.__class__ is ConcreteArray:
        a, b = ct._data, slope._data
        if a.dtype is b.dtype and a.dtype in mul_p.ufunc_dtypes:
            try:
                out = state.quiet(np.multiply, a, b)
            except RuntimeError:
                return mul_p.bind1(ct, slope)
            return ConcreteArray(out if out.__class__ is np.ndarray else np.asarray(out))
    if slope.dtype != ct.dtype:
        slope = convert(slope, ct.dtype)
    return mul_p.bind1(ct, slope)


def plain_sum(x: Any, y: Any) -> Any:
    """x + y for cotangents of one variable, by the shortest way."""
    if x.__class__ is ConcreteArray and y.__class__ is ConcreteArray and state.current is None:
        a, b = x._data, y._data
        if a.dtype is b.dtype and a.dtype in add_p.ufunc_dtypes:
            try:
                out = state.quiet(np.add, a, b)
            except RuntimeError:
                return add_p.bind1(x, y)
            return ConcreteArray(out if out.__class__ is np.ndarray else np.asarray(out))
    return add_p.bind1(x, y)


def has_nan(data: np.ndarray) -> bool:
    """Is there a NaN in the array? Squares do not cancel, so one product tells."""
    kind = data.dtype.kind
    if kind == "f" and data.dtype.itemsize >= 4:
        flat = data.ravel()
        value = state.quiet(np.dot, flat, flat)
        return bool(value != value)
    return bool(np.isnan(data).any())


def linearize_flat(
    fun: Callable[..., Sequence[Any]], primals: Sequence[Any], about: str
) -> tuple[list[Any], LinearMap]:
    """fun's outputs and its derivative with respect to all primals (of inexact dtype)."""
    interpreter = LinearizeInterpreter(about)
    pairs = [interpreter.variable(p) for p in primals]
    previous = state.current
    state.current = interpreter
    try:
        outs = fun(*[t for t, _ in pairs])
    finally:
        state.current = previous
    split = [interpreter.split(o) for o in outs]
    linear_map = LinearMap(
        interpreter.tape,
        [n for _, n in pairs],
        [n for _, n in split],
        [p.aval for p, _ in split],
    )
    return [p for p, _ in split], linear_map


class Linearized:
    """What `linearize_jaxpr` gives.

    primal: inputs -> (outs, residuals). linear: (residuals, tangents of the nonzero inputs) ->
    tangents of the nonzero outs. out_nonzero: which outs have a tangent.
    """

    __slots__ = ("linear", "n_residuals", "out_nonzero", "primal")

    def __init__(
        self, primal: ClosedJaxpr, linear: ClosedJaxpr, n_residuals: int, out_nonzero: list[bool]
    ):
        self.primal = primal
        self.linear = linear
        self.n_residuals = n_residuals
        self.out_nonzero = out_nonzero


def linearize_jaxpr(closed: ClosedJaxpr, nonzero: tuple[bool, ...]) -> Linearized:
    """Split the derivative of a jaxpr into a forward program and a linear one."""

    def make() -> Linearized:
        staged = StagingInterpreter("vjp")
        args = [staged.input(a) for a in closed.in_avals]
        previous = state.current
        state.current = staged
        try:

            def fun(*active):
                given = iter(active)
                xs = [next(given) if nz else a for nz, a in zip(nonzero, args, strict=True)]
                return eval_jaxpr(closed.jaxpr, closed.consts, xs)

            active = [a for nz, a in zip(nonzero, args, strict=True) if nz]
            outs, linear_map = linearize_flat(fun, active, "vjp")
            linear_map = linear_map.pruned()
            residuals = linear_map.residuals()
            primal, captured = staged.close([*outs, *residuals], f"{closed.jaxpr.name}")
            assert not captured, "a jaxpr's consts hold no tracer"
        finally:
            state.current = previous
        out_nonzero = [n is not None for n in linear_map.out_nodes]
        linear = _linear_program(closed, linear_map, residuals)
        return Linearized(primal, linear, len(residuals), out_nonzero)

    return closed.derive(("linearize", nonzero), make)


def _linear_program(
    closed: ClosedJaxpr, linear_map: LinearMap, residuals: Sequence[Any]
) -> ClosedJaxpr:
    """A linear map as a jaxpr (residuals, tangents) -> tangents of the outs that have one."""

    def fun(*xs: Any) -> list[Any]:
        known, tangents = xs[: len(residuals)], xs[len(residuals) :]
        out = linear_map.with_residuals(residuals, known).jvp(tangents)
        return [
            zeros(t.aval) if t.__class__ is Zero else t
            for t, n in zip(out, linear_map.out_nodes, strict=True)
            if n is not None
        ]

    avals = [*(r.aval for r in residuals), *(n.aval for n in linear_map.in_nodes)]
    return trace_closed(fun, avals, "vjp", f"linear_{closed.jaxpr.name}")


def split_jaxpr(closed: ClosedJaxpr, linear: tuple[bool, ...]) -> Linearized:
    """Split a jaxpr into what its known inputs decide and the part linear in the others.

    primal: known inputs -> (known outs, residuals). linear: (residuals, linear inputs) -> the other
    outs. out_nonzero: which outs are those.
    """

    def make() -> Linearized:
        staged = StagingInterpreter("vjp")
        recorder = LinearRecorder(staged, SourcedTape(), "vjp")
        nodes: list[Node] = []
        args: list[Any] = []
        for aval, is_linear in zip(closed.in_avals, linear, strict=True):
            if is_linear:
                nodes.append(Node(aval.shape, aval.dtype))
                args.append(LinearTracer(recorder, nodes[-1]))
            else:
                args.append(staged.input(aval))
        with recorder.entered():
            outs = eval_jaxpr(closed.jaxpr, closed.consts, args)
        mine = [o.__class__ is LinearTracer and o.interpreter is recorder for o in outs]
        out_nodes = [o.node if m else None for o, m in zip(outs, mine, strict=True)]
        linear_map = LinearMap(recorder.tape, nodes, out_nodes, closed.out_avals).pruned()
        residuals = linear_map.residuals()
        known = [o for o, m in zip(outs, mine, strict=True) if not m]
        primal, captured = staged.close([*known, *residuals], closed.jaxpr.name)
        assert not captured, "a jaxpr's consts hold no tracer"
        program = _linear_program(closed, linear_map, residuals)
        return Linearized(primal, program, len(residuals), mine)

    return closed.derive(("split", linear), make)
