"""Primitives: the operations that interpreters see, with the rules that give them meaning.

A primitive is strict: arrays go by position and have exactly the shapes and dtypes it asks for,
params go by keyword and are hashable and canonical. Every primitive and every rule returns a
tuple. The rules of a primitive stand beside it in one file of `ops/` or `control/`; a rule that
can't exist is declared with its reason by `no_rule`, and an undeclared hole fails a test.

Rules, where x_dot is a tangent, ct a cotangent, bdim a batch dimension or None:
    abstract_eval(*avals, **params) -> avals
    jvp(primals, tangents, **params) -> (outs, out tangents); real tangents, or symbolic zeros on
        request
    transpose(cts, *args, **params) -> one cotangent or None per arg; linear args arrive as
        UndefinedPrimal
    batch(args, bdims, **params) -> (outs, out bdims)
    slopes: one function (y, *primals) -> partial derivative per operand, for elementwise ones
    linearize(interpreter, args, params), stage(interpreter, args, params),
    batch_call(interpreter, args, bdims, params), jvp_call(interpreter, primals, tangents, params):
        for primitives that hold functions; jvp_call gets None for no tangent
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.core.avals import ShapedArray
from mgefn.core.interpreter import base, state
from mgefn.errors import DTypeError, UnsupportedError

RULE_KINDS = ("abstract_eval", "jvp", "transpose", "batch")


class Primitive:
    """A named operation; see the module's docstring for its rules.

    Args:
        name: what the IR prints.
        elementwise: each output element depends on the operand elements at its index. Operands
            have the output's shape or rank 0.
        linear: linear in all its operands together.
        bilinear: linear in each of its two operands.
        constant: its outputs have no derivative (integer or boolean outputs, or flat ones).
        effect: must run even when its outputs are not used.
        closes_over: its params hold Python functions that may close over tracers, so no
            interpreter may pass it on unread.
        view: its output may share memory with its first operand.
        opaque: must not be merged with an equal equation or computed at compile time.
        weak_result: its outputs are weak where all its operands are.
        collective: its param axis_name names a mapped axis, whose map must read it even where no
            operand is mapped.
        moves: it moves elements or hands them on and computes nothing with them, so it takes those
            of any dtype, random keys included.
        called: what users call it, for messages: the name of its public function, where that is
            not `name`.
    """

    def __init__(
        self,
        name: str,
        *,
        elementwise: bool = False,
        linear: bool = False,
        bilinear: bool = False,
        constant: bool = False,
        effect: bool = False,
        closes_over: bool = False,
        view: bool = False,
        opaque: bool = False,
        weak_result: bool = True,
        collective: bool = False,
        moves: bool = False,
        called: str | None = None,
    ):
        self.name = name
        self.called = called or name
        self.elementwise = elementwise
        self.linear = linear
        self.bilinear = bilinear
        self.constant = constant
        self.effect = effect
        self.closes_over = closes_over
        self.view = view
        self.opaque = opaque
        self.weak_result = weak_result
        self.collective = collective
        self.moves = moves
        self.abstract_eval: Callable[..., tuple[ShapedArray, ...]] | None = None
        # Does it take operands of this dtype? Asked before a kernel runs on known operands; None:
        # the kernels take all that abstract_eval does and no more.
        self.accepts: Callable[[np.dtype], bool] | None = None
        # (weak types of the operands, params) -> weak type of the outputs, where the rule that
        # weak_result stands for is not the primitive's.
        self.weak_of: Callable[[list[bool], dict[str, Any]], bool] | None = None
        # (known args, params) -> the only output where the values decide it, or None.
        self.by_value: Callable[..., Any] | None = None
        # For primitives that hold programs: (args, params) -> outs on any backend.
        self.evaluate: Callable[..., Any] | None = None
        self.jvp: Callable[..., Any] | None = None
        self.jvp_takes_zeros = False
        self.transpose: Callable[..., Any] | None = None
        self.symbolic_cts = False  # the transpose rule takes Zero cotangents
        self.batch: Callable[..., Any] | None = None
        self.batch_call: Callable[..., Any] | None = None
        self.jvp_call: Callable[..., Any] | None = None
        # (interpreter, primitive, args, params) -> outs: for primitives whose functions may close
        # over tracers, a call none of whose operands are the interpreter's.
        self.unperturbed: Callable[..., Any] | None = None
        # (args, params) -> outs under the current interpreter: run what the primitive holds.
        self.call: Callable[..., Any] | None = None
        self.slopes: tuple[Callable[..., Any] | int, ...] | None = None
        self.linearize: Callable[..., Any] | None = None
        # (recorder, args, params) -> outs, some args being tangents in the hands of a jvp rule:
        # what the others decide must come out as values.
        self.record: Callable[..., Any] | None = None
        self.stage: Callable[..., Any] | None = None
        self.holes: dict[str, str] = {}
        self.kernels: dict[str, Any] = {}  # backend name -> row of its table
        self.unsupported: dict[str, str] = {}  # backend name -> reason
        # The NumPy ufunc that is this operation, and the dtypes where it can be called at once;
        # set by the NumPy backend.
        self.ufunc: Any = None
        self.ufunc_dtypes: frozenset = frozenset()
        self.ufunc_scalar_dtypes: frozenset = frozenset()
        # For calls: params -> the jaxpr that may stand in place of the equation.
        self.inlined: Callable[..., Any] | None = None
        # Arithmetic operations: (in_avals, params) -> number; None means one an output element for
        # elementwise primitives and none for others.
        self.flops: Callable[..., float] | None = None
        # For primitives that run what they hold: equation -> bytes that a run allocates beyond its
        # outputs.
        self.scratch: Callable[[Any], int] | None = None
        # For compiler/passes/simplify.py: (inputs, params, out_avals) -> equal atoms or None;
        # (inputs, params) -> the primitive, inputs and params of an equation to have in this one's
        # place, or None; and (params of the first, params of the second) -> params of both in one.
        self.simplify: Callable[..., Any] | None = None
        self.instead: Callable[..., Any] | None = None
        self.merge: Callable[[dict, dict], dict] | None = None
        # Its outputs are its operands; it stands in a program only to keep passes apart.
        self.barrier = False

    def __repr__(self) -> str:
        return self.name

    # -- binding ----------------------------------------------------------------------------

    def bind(self, *args: Any, **params: Any) -> tuple:
        """Hand the operation to the current interpreter; returns the tuple of outputs."""
        current = state.current
        if current is None:
            return base.process(self, args, params)
        return current.process(self, args, params)

    def bind1(self, *args: Any, **params: Any) -> Any:
        """The only output of `bind`."""
        current = state.current
        if current is None:
            return base.process(self, args, params)[0]
        return current.process(self, args, params)[0]

    def out_avals(self, avals: Sequence[ShapedArray], params: dict) -> tuple[ShapedArray, ...]:
        """The types of the outputs, weak types included."""
        if self.abstract_eval is None:
            raise UnsupportedError(self._hole("abstract_eval"))
        if not self.moves:
            self.check_no_keys([a.dtype for a in avals])
        outs = self.abstract_eval(*avals, **params)
        if self.weak_result and avals:
            for a in avals:
                if not a.weak_type:
                    return outs
            return tuple(ShapedArray(o.shape, o.dtype, True) for o in outs)
        return outs

    def check_no_keys(self, operands: Sequence[np.dtype]) -> None:
        """Raise where an operand is an array of random keys, which are no numbers."""
        for dtype in operands:
            if dtype.names is not None and dtypes.is_key(dtype):
                raise DTypeError(
                    f"{self.called}: needs numbers, got random keys. Draw numbers with them, or "
                    "take their words with random.key_data."
                )

    # -- rules ------------------------------------------------------------------------------

    def def_abstract_eval(self, rule):
        self.abstract_eval = rule
        return rule

    def def_evaluate(self, rule):
        self.evaluate = rule
        return rule

    def def_jvp(self, rule=None, *, symbolic_zeros: bool = False):
        if rule is None:
            return lambda r: self.def_jvp(r, symbolic_zeros=symbolic_zeros)
        self.jvp = rule
        self.jvp_takes_zeros = symbolic_zeros
        return rule

    def def_transpose(self, rule=None, *, symbolic_zeros: bool = False):
        if rule is None:
            return lambda r: self.def_transpose(r, symbolic_zeros=symbolic_zeros)
        self.transpose = rule
        self.symbolic_cts = symbolic_zeros
        return rule

    def def_batch(self, rule):
        self.batch = rule
        return rule

    def def_batch_call(self, rule):
        self.batch_call = rule
        return rule

    def def_jvp_call(self, rule):
        self.jvp_call = rule
        return rule

    def def_slopes(self, *slopes: Callable[..., Any] | int) -> None:
        """Partial derivatives by operand: functions (y, *primals), or the numbers 1, -1 and 0."""
        self.slopes = slopes

    def def_linearize(self, rule):
        self.linearize = rule
        return rule

    def def_record(self, rule):
        self.record = rule
        return rule

    def def_stage(self, rule):
        self.stage = rule
        return rule

    def no_rule(self, kind: str, reason: str) -> None:
        """Declare that a rule can't exist, and why."""
        assert kind in RULE_KINDS, kind
        self.holes[kind] = reason

    def has_rule(self, kind: str) -> bool:
        """Is there a rule of this kind, of its own or by what the primitive declares?"""
        if kind == "jvp":
            by_kind = self.linear or self.bilinear or self.constant
            own = self.jvp is not None or self.jvp_call is not None
            return by_kind or own or self.slopes is not None
        if kind == "batch":
            return self.batch is not None or self.batch_call is not None
        return getattr(self, kind) is not None

    def _hole(self, kind: str) -> str:
        why = self.holes.get(kind)
        if why is not None:
            return f"{self.called}: has no {kind} rule: {why}."
        return f"{self.called}: has no {kind} rule. Define one with {self.name}_p.def_{kind}."

    def missing(self, kind: str) -> UnsupportedError:
        """The error for a rule that was asked for and is not there."""
        return UnsupportedError(self._hole(kind))
