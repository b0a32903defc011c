"""One call of a function with a rule: its arguments taken apart, its outputs checked.

The user's functions take and return pytrees; `Call` shows them to the interpreters as functions of
flat lists of arrays. Here is also what custom_jvp and custom_vjp share.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mgefn import dtypes, suggestions, tree
from mgefn.core.array import as_array, is_arraylike
from mgefn.core.array_methods import Array
from mgefn.core.avals import ShapedArray
from mgefn.core.source import fun_name, fun_place
from mgefn.core.tracer import Tracer
from mgefn.errors import ArgumentError, CustomRuleError
from mgefn.ops.elementwise import convert


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


NONDIFF = "*nondiff arguments, "  # stand before the others in a rule


# -- one call -------------------------------------------------------------------------------------


class Call:
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
            check_outs(about, rule, self.out_avals, arrays)
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


def call_rule(about: str, what: str, takes: str, rule: Callable[..., Any], *args: Any) -> Any:
    """rule(*args), with the error for a rule that can't be called so.

    Args:
        about: the function with the rule.
        what: the part that the rule plays, as in "the forward rule".
        takes: the names of args, as the user knows them.
    """
    try:
        return rule(*args)
    except TypeError as exc:
        entered = exc.__traceback__ is not None and exc.__traceback__.tb_next is not None
        if entered or _can_take(rule, args):
            raise
    raise CustomRuleError(
        f"{about}: {what} {fun_place(rule)} is called with {suggestions.counted(len(args))}, "
        f"{takes}, but it takes {suggestions.parameters(rule)}. Give it these parameters."
    )


def _can_take(rule: Callable[..., Any], args: tuple[Any, ...]) -> bool:
    try:
        inspect.signature(rule).bind(*args)
    except TypeError:
        return False
    except ValueError:  # compiled functions may have no signature
        return True
    return True


def check_outs(about: str, rule: Any, want: Sequence[ShapedArray], outs: Sequence[Array]) -> None:
    """The outputs that a rule computes must have the types of the function's."""
    got = [o.aval for o in outs]
    if len(want) == len(got) and all(w.same_type(g) for w, g in zip(want, got, strict=True)):
        return
    raise CustomRuleError(
        f"{about}: the rule {fun_place(rule)} must return the function's output "
        f"({', '.join(map(str, want))}), got ({', '.join(map(str, got))}). Return the same shapes "
        "and dtypes."
    )


def is_float0(x: Any) -> bool:
    return getattr(x, "dtype", None) == dtypes.float0


class CustomFunction:
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
                f"{self.kind}: needs a function, got {described(fun)}. Pass the function."
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

    def _call(self, args: tuple, kwargs: dict[str, Any]) -> Call:
        args = self._positional(args, kwargs)
        nondiff = []
        for i in self.nondiff_argnums:
            if not -len(args) <= i < len(args):
                raise ArgumentError(
                    f"{self.about}: nondiff_argnums holds {i}, but the call has {len(args)} "
                    "arguments. Correct nondiff_argnums."
                )
            nondiff.append(i % len(args))
        return Call(self.about, self.fun, args, sorted(nondiff))


def is_inexact(x: Any) -> bool:
    return dtypes.is_inexact(x.dtype)


def float0_zeros(shape: tuple[int, ...]) -> np.ndarray:
    return np.zeros(shape, dtypes.float0)


def as_tangent(t: Any, aval: ShapedArray) -> Any:
    """t as an array of this type, or None where it is not one. Python numbers take the dtype."""
    if not is_arraylike(t) or is_float0(t):
        return None
    t = as_array(t)
    if t.shape != aval.shape:
        return None
    if t.dtype != aval.dtype:
        if not t.weak_type or dtypes.promote_types(t.dtype, aval.dtype) != aval.dtype:
            return None
        return convert(t, aval.dtype)
    return t


def described(x: Any) -> str:
    if isinstance(x, tuple):
        return f"a tuple of {len(x)}"
    if is_float0(x):
        return f"float0{list(x.shape)}"
    if is_arraylike(x):
        return str(as_array(x).aval)
    return type(x).__name__


def run_function(args: Sequence[Any], params: dict[str, Any]) -> tuple:
    return tuple(params["fun"](*args))
