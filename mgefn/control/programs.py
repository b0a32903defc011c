"""What cond, while_loop and scan share: tracing their functions, and fitting programs to a shape.

The body of a loop must give what it takes, and the branches of a cond must give the same. A rule
that transforms several programs, or one program over and over, therefore decides first which inputs
and outputs have a tangent (a batch dimension, a cotangent), and then asks for programs of exactly
that form. Zeros fill what a program does not have.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from mgefn import tree
from mgefn.config import config
from mgefn.control.custom_rules import closes_over_tracers
from mgefn.core.array import ConcreteArray, as_array, exact_scalar, is_arraylike, scalar
from mgefn.core.array_methods import Array
from mgefn.core.avals import ShapedArray
from mgefn.core.interpreter import bound_axes, quietly, state
from mgefn.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var, has_effect, subjaxprs
from mgefn.core.source import fun_name, fun_place, place
from mgefn.core.tracer import Tracer
from mgefn.errors import ArgumentError, DTypeError, ShapeError, TreeError
from mgefn.interpreters.batching import batch_jaxpr, to_front
from mgefn.interpreters.evaluate import eval_jaxpr
from mgefn.interpreters.jvp import jvp_jaxpr
from mgefn.interpreters.staging import StagingInterpreter, trace, trace_closed
from mgefn.interpreters.transposition import transpose_jaxpr
from mgefn.ops.elementwise import convert_element_type_p
from mgefn.ops.shaping import broadcast_in_dim_p

Flags = tuple[bool, ...]

# -- programs of a given form ---------------------------------------------------------------------


def rearranged(
    closed: ClosedJaxpr,
    ins: Sequence[int | ShapedArray],
    outs: Sequence[int | ShapedArray],
    name: str = "",
) -> ClosedJaxpr:
    """The program with its inputs and outputs in another order, by their positions.

    A type among the inputs is one that the program does not use, and among the outputs zeros.
    """
    jaxpr = closed.jaxpr
    binders = [jaxpr.in_binders[i] if isinstance(i, int) else Var(i) for i in ins]
    eqns = list(jaxpr.eqns)
    atoms: list[Atom] = []
    for o in outs:
        if isinstance(o, int):
            atoms.append(jaxpr.outs[o])
            continue
        zero = Literal(scalar(0, o.dtype), ShapedArray((), o.dtype))
        if not o.shape:
            atoms.append(zero)
            continue
        var = Var(o.strong())
        params = {"shape": o.shape, "broadcast_dimensions": ()}
        eqns.append(Eqn(broadcast_in_dim_p, [zero], params, [var]))
        atoms.append(var)
    new = Jaxpr(binders, eqns, atoms, jaxpr.const_binders, name or jaxpr.name)
    return ClosedJaxpr(new, closed.consts)


def jvp_with(closed: ClosedJaxpr, nonzero: Flags, wanted: Flags) -> ClosedJaxpr:
    """`jvp_jaxpr` with a tangent for every wanted output; these include all nonzero ones."""

    def make() -> ClosedJaxpr:
        pushed, found = jvp_jaxpr(closed, nonzero)
        if tuple(found) == wanted:
            return pushed
        n = len(found)
        places = iter(range(n, n + sum(found)))
        tangents = [
            next(places) if f else a.strong()
            for f, w, a in zip(found, wanted, closed.out_avals, strict=True)
            if w
        ]
        ins = range(len(pushed.jaxpr.in_binders))
        return rearranged(pushed, list(ins), [*range(n), *tangents])

    return closed.derive(("jvp with", nonzero, wanted), make)


def batch_with(
    closed: ClosedJaxpr, batched: Flags, wanted: Flags, size: int, axis_name: Any
) -> ClosedJaxpr:
    """`batch_jaxpr` with a batch dimension, in front, for every wanted output."""

    def make() -> ClosedJaxpr:
        mapped, found = batch_jaxpr(closed, batched, size, axis_name)
        if tuple(found) == wanted:
            return mapped

        def fun(*xs: Any) -> list[Any]:
            outs = eval_jaxpr(mapped.jaxpr, mapped.consts, xs)
            return [
                to_front(o, None, size) if w and not f else o
                for o, f, w in zip(outs, found, wanted, strict=True)
            ]

        return trace_closed(fun, mapped.in_avals, "vmap", mapped.jaxpr.name)

    return closed.derive(("batch with", batched, wanted, size, axis_name), make)


def transpose_with(closed: ClosedJaxpr, linear: Flags, given: Flags, wanted: Flags) -> ClosedJaxpr:
    """`transpose_jaxpr` with a cotangent for every wanted linear input."""

    def make() -> ClosedJaxpr:
        pulled, found = transpose_jaxpr(closed, linear, given)
        if tuple(found) == wanted:
            return pulled
        avals = [a for a, x in zip(closed.in_avals, linear, strict=True) if x]
        places = iter(range(sum(found)))
        cts = [
            next(places) if f else a.strong()
            for f, w, a in zip(found, wanted, avals, strict=True)
            if w
        ]
        return rearranged(pulled, list(range(len(pulled.jaxpr.in_binders))), cts)

    return closed.derive(("transpose with", linear, given, wanted), make)


def grown(flags: Sequence[bool], found: Callable[[Flags], Sequence[bool]]) -> Flags:
    """The least flags that include `flags` and what a body finds for its results from them."""
    now = tuple(flags)
    while True:
        new = tuple(a or b for a, b in zip(now, found(now), strict=True))
        if new == now:
            return now
        now = new


def either(*flags: Sequence[bool]) -> Flags:
    return tuple(any(f) for f in zip(*flags, strict=True))


def may_not_end(closed: ClosedJaxpr) -> bool:
    """Does the program hold a loop that other inputs might keep running for ever, or an effect?"""

    def look() -> bool:
        return any(
            e.primitive.name == "while" or has_effect(e) or any(
                may_not_end(sub) for _, sub in subjaxprs(e.params)
            )
            for e in closed.eqns
        )  # fmt: skip

    return closed.derive("may not end", look)


# -- running --------------------------------------------------------------------------------------


def _directly(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return fn(*args, **kwargs)


def run_quietly(fn: Callable[..., Any], *args: Any) -> Any:
    """fn(*args) with floating-point warnings off; what it runs need not turn them off again."""
    quiet = state.quiet
    if quiet is _directly:
        return fn(*args)

    def inside() -> Any:
        state.quiet = _directly
        try:
            return fn(*args)
        finally:
            state.quiet = quiet

    return quietly(inside)


# -- tracing --------------------------------------------------------------------------------------


def is_staged() -> bool:
    """Is a program being written, so that no value in it can be looked at?"""
    i = state.current
    while i is not None:
        if isinstance(i, StagingInterpreter):
            return True
        i = i.outer
    return False


def known(x: Any) -> ConcreteArray | None:
    """The value of an array or tracer where it is known now, else None."""
    while isinstance(x, Tracer):
        x = x.concrete()
    return x if x.__class__ is ConcreteArray else None


class Wrapping:
    """A function of ours around the user's: the same one where class, function and `more` are.

    Messages name the user's function.
    """

    __slots__ = ("__wrapped__", "more")

    calls_otherwise = True  # than it is called, so that a message does not take one for the other

    def __init__(self, fun: Callable[..., Any], more: Any = None):
        self.__wrapped__ = fun
        self.more = more

    @property
    def __name__(self) -> str:
        return fun_name(self.__wrapped__)


class Staged:
    """A traced function: its program, the tracers it closed over, and its output's structure.

    The captured tracers are the leading inputs of the program.
    """

    __slots__ = ("captured", "closed", "out_tree")

    def __init__(self, closed: ClosedJaxpr, captured: Sequence[Any], out_tree: Any):
        self.closed = closed
        self.captured = captured
        self.out_tree = out_tree

    @property
    def out(self) -> Any:
        """The output's types in its structure."""
        return tree.unflatten(self.out_tree, self.closed.out_avals)


def stage(
    about: str, fun: Callable[..., Any], in_tree: Any, avals: Sequence[ShapedArray]
) -> Staged:
    """Trace fun(*args), args being a pytree of these types.

    What a function gives is kept, as long as nothing that it closes over changes.
    """
    exactly = in_tree.exact_metadata()
    key = (in_tree, exactly, tuple(avals), config.trace_key, about, bound_axes())
    entries, looked = _entries_of(fun)
    if entries is not None:
        for entry in entries:
            if entry[0] == key and _same(entry[1], looked):
                return entry[2]
    out_tree: list[Any] = []

    def flat(*leaves: Any) -> list[Any]:
        outs, structure = tree.flatten(fun(*tree.unflatten(in_tree, leaves)))
        out_tree[:] = [structure]
        return [o if isinstance(o, Array) else _output(about, fun, o) for o in outs]

    closed, captured = trace(flat, avals, about, fun_name(fun))
    found = Staged(closed, captured, out_tree[0])
    if entries is not None and not captured and _bytes(closed.consts) <= _KEPT_BYTES:
        del entries[_KEPT_EACH - 1 :]
        entries.insert(0, (key, looked, found))
    return found


# What a number in 32 bits becomes beside arrays of 64.
_WIDE = {
    np.dtype(narrow): np.dtype(wide)
    for narrow, wide in (("float32", "float64"), ("complex64", "complex128"))
}


def widened_inputs(closed: ClosedJaxpr) -> frozenset[int]:
    """Positions of the weak inputs of rank 0 that the program takes to 64 bits as they came."""

    def look() -> frozenset[int]:
        places = {
            v: i
            for i, v in enumerate(closed.jaxpr.in_binders)
            if v.aval.weak_type and not v.aval.shape and v.aval.dtype in _WIDE
        }
        found: set[int] = set()
        for e in closed.eqns if places else ():
            if e.primitive is convert_element_type_p:
                wide = e.params["new_dtype"] in _WIDE.values()
                read = e.inputs if wide else ()
            else:
                # The operands of a program are the last ones of its equation.
                read = [
                    e.inputs[i - len(sub.jaxpr.in_binders)]
                    for _, sub in subjaxprs(e.params)
                    if len(sub.jaxpr.in_binders) <= len(e.inputs)
                    for i in widened_inputs(sub)
                ]
            found.update(places[a] for a in read if isinstance(a, Var) and a in places)
        return frozenset(found)

    return closed.derive("widened inputs", look)


def with_exact_numbers(
    values: Sequence[Any], programs: Iterable[tuple[ClosedJaxpr, int]]
) -> list[Any] | None:
    """The values with Python numbers in 64 bits where a program takes them to 64; None: none is.

    In 32 bits they would be rounded before they meet the array that is wide enough for them.

    Args:
        values: operands of the programs, as arrays or tracers.
        programs: each with the number of inputs that it has before the values.
    """
    read = {i - first for closed, first in programs for i in widened_inputs(closed)}
    changed = False
    new = list(values)
    for i in read:
        x = values[i] if 0 <= i < len(values) else None
        exact = exact_scalar(x, _WIDE[x.dtype], True) if isinstance(x, ConcreteArray) else None
        if exact is not None:
            new[i] = exact
            changed = True
    return new if changed else None


def called(about: str, fun: Callable[..., Any], operands: tuple) -> Any:
    """fun(*operands) without tracing, on arrays and with arrays as its result."""
    leaves, in_tree = tree.flatten(operands)
    arrays = [x if isinstance(x, Array) else as_array(x, about) for x in leaves]
    out = fun(*tree.unflatten(in_tree, arrays))
    if isinstance(out, Array):
        return out
    outs, out_tree = tree.flatten(out)
    return tree.unflatten(
        out_tree, [o if isinstance(o, Array) else _output(about, fun, o) for o in outs]
    )


def _output(about: str, fun: Callable[..., Any], x: Any) -> Any:
    if not is_arraylike(x):
        raise ArgumentError(
            f"{about}: {fun_place(fun)} must return arrays, got {type(x).__name__} ({x!r:.60}). "
            "Compute it outside."
        )
    return as_array(x, about)


# The code of a function -> [(key, what it closes over, program), ...]. By the code, because a
# function that is defined in a function is a new object in every call.
_kept: dict[types.CodeType, list[tuple[Any, list[Any], Staged]]] = {}
_KEPT = 256  # functions; the oldest goes first
_KEPT_EACH = 4  # programs of one function
_KEPT_BYTES = 1 << 20  # of constants in one program: kept ones keep these alive
_LOOKED = 256  # objects that one function may close over and still be kept


def clear() -> None:
    """Forget all kept programs."""
    _kept.clear()


def _entries_of(fun: Callable[..., Any]) -> tuple[list | None, list[Any]]:
    """The kept programs of a function and what it closes over now; None: do not keep it."""
    inner: Any = fun
    while not isinstance(inner, types.FunctionType):
        inner = getattr(inner, "__wrapped__", None)
        if inner is None:
            return None, []
    owner = inner.__code__
    if closes_over_tracers([fun], depth=6):
        return None, []
    looked = _closed_over(fun)
    if looked is None:
        return None, []
    entries = _kept.get(owner)
    if entries is None:
        while len(_kept) >= _KEPT:
            _kept.pop(next(iter(_kept)))
        entries = _kept[owner] = []
    return entries, looked


def _bytes(arrays: Sequence[Any]) -> int:
    return sum(a.aval.nbytes for a in arrays)


def _same(a: list[Any], b: list[Any]) -> bool:
    return len(a) == len(b) and all(
        x is y or (type(x) is type(y) and type(x) in _BY_VALUE and x == y)
        for x, y in zip(a, b, strict=True)
    )


_BY_VALUE = (int, str, bytes)  # not floats: 0.0 equals -0.0


_FIXED = (
    bool, int, float, complex, str, bytes, type(None), type(Ellipsis), np.dtype, np.generic,
    ConcreteArray, types.ModuleType, types.BuiltinFunctionType, types.CodeType, type, np.ufunc,
)  # fmt: skip


def _closed_over(fun: Callable[..., Any]) -> list[Any] | None:
    """All that decides what a function computes, or None where that can't be told."""
    looked: list[Any] = []
    seen: set[int] = set()
    pending: list[Any] = [fun]
    while pending:
        x = pending.pop()
        if id(x) in seen:
            continue
        seen.add(id(x))
        if len(looked) > _LOOKED:
            return None
        if isinstance(x, types.FunctionType):
            code = x.__code__
            looked.append(code)
            for cell in x.__closure__ or ():
                try:
                    pending.append(cell.cell_contents)
                except ValueError:  # not yet assigned
                    return None
            pending += [*(x.__defaults__ or ()), *(x.__kwdefaults__ or {}).values()]
            if x.__module__ is not None and x.__module__.partition(".")[0] == "mgefn":
                continue  # our own functions read no variable but settings
            for inner in _codes(code):
                pending += [x.__globals__[n] for n in inner.co_names if n in x.__globals__]
        elif isinstance(x, _FIXED):
            looked.append(x)
        elif isinstance(x, Wrapping):
            looked.append(type(x))
            pending += [x.more, x.__wrapped__]
        elif isinstance(x, functools.partial):
            looked += [functools.partial, len(x.args), len(x.keywords)]
            pending += [x.func, *x.args]
            for k, v in x.keywords.items():
                pending += [k, v]
        elif isinstance(x, (tuple, list)):
            looked += [type(x), len(x)]
            pending += x
        elif isinstance(x, dict):
            looked += [dict, len(x)]
            for k, v in x.items():
                pending += [k, v]
        elif hasattr(x, "__wrapped__"):
            looked.append(x)
            pending.append(x.__wrapped__)
        else:
            return None
    return looked


def _codes(code: types.CodeType) -> list[types.CodeType]:
    """A function's code and that of the functions defined in it."""
    found = [code]
    for c in found:
        found += [k for k in c.co_consts if isinstance(k, types.CodeType)]
    return found


# -- types of carries -----------------------------------------------------------------------------


def first_parameter(fun: Callable[..., Any], default: str, at: int = 0) -> str:
    code = getattr(fun, "__code__", None)
    if code is None or code.co_argcount <= at:
        return default
    return code.co_varnames[at]


def check_structure(about: str, fun: Callable[..., Any], name: str, want: Any, got: Any) -> None:
    """The carry that comes back must have the structure of the one that went in."""
    if want != got:
        repair = "Return the carry as it came."
        if got == tree.structure(None):
            repair = "Does it end without a return?"
        raise TreeError(
            f"{about}: {fun_place(fun)} must return a carry of the structure of its argument "
            f"{name}, {want}, got {got}: {tree.structure_difference(want, got)}. {repair}"
        )


def joined(
    init: Sequence[Any], ins: Sequence[ShapedArray], outs: Sequence[ShapedArray]
) -> list[Any] | None:
    """The initial carry with weak leaves cast to what the body makes of them; None: no change."""
    changed = False
    new = []
    for x, a, b in zip(init, ins, outs, strict=True):
        if a.weak_type and not a.same_type(b):
            dtype = _result_type(a, b)
            if dtype != a.dtype:
                x = x.astype(dtype)
                changed = True
        new.append(x)
    return new if changed else None


def _result_type(a: ShapedArray, b: ShapedArray) -> np.dtype:
    from_zero = scalar(0, a.dtype, a.weak_type)
    return (from_zero + scalar(0, b.dtype, b.weak_type)).dtype


def check_types(
    about: str,
    fun: Callable[..., Any],
    closed: ClosedJaxpr,
    names: Sequence[str],
    n_leading: int,
    outs: Sequence[Atom],
) -> None:
    """The carry must keep its types.

    Args:
        about: the operation.
        fun: the body.
        closed: its program.
        names: of the program's inputs, for messages; the carry's come after n_leading others.
        n_leading: the inputs before the carry.
        outs: the atoms of the carry that comes back.
    """
    ins = closed.jaxpr.in_binders[n_leading : n_leading + len(outs)]
    wrong = [
        i for i, (v, o) in enumerate(zip(ins, outs, strict=True)) if not v.aval.same_type(o.aval)
    ]
    if not wrong:
        return
    told = []
    repairs = []
    for i in wrong:
        a, b = ins[i].aval, outs[i].aval
        name = names[n_leading + i]
        why = "" if a.dtype == b.dtype else _widened_by(closed, names, outs[i])
        told.append(f"{name} is {a} and comes back as {b}{why}")
        if a.shape != b.shape:
            repairs.append(_shape_repair(about, name, a.shape, b.shape))
    shapes = bool(repairs)
    casts = any(ins[i].aval.dtype != outs[i].aval.dtype for i in wrong)
    if casts:
        repairs.append("Cast the initial value, or what the body returns.")
    what = "types" if shapes and casts else "shapes" if shapes else "dtypes"
    raise (ShapeError if shapes else DTypeError)(
        f"{about}: the carry of {fun_place(fun)} must keep its {what}, but {'; '.join(told)}. "
        f"{' '.join(dict.fromkeys(repairs))}"
    )


def _shape_repair(about: str, name: str, before: tuple[int, ...], after: tuple[int, ...]) -> str:
    """What to do about a carry that changes its shape."""
    try:
        whole = np.broadcast_shapes(before, after)
    except ValueError:
        whole = ()
    if whole == after:  # it was stretched to fit something else
        return f"Start with that shape: mgefn.numpy.broadcast_to({name}, {after})."
    if len(before) == len(after):
        pieces = ", or return the pieces as y" if about == "scan" else ""
        return (
            "A carry can't grow or shrink: start with all the room it needs and write into it with "
            f".at[i].set{pieces}."
        )
    return f"Return it in the shape {before}: reshape it, or keep the dimensions of reductions."


def _widened_by(closed: ClosedJaxpr, names: Sequence[str], out: Atom) -> str:
    """Which input, constant or operation brought the dtype of `out` in."""
    dtype = out.aval.dtype
    named = dict(zip(closed.jaxpr.in_binders, names, strict=True))
    made_by = {v: e for e in closed.eqns for v in e.out_binders}
    atom = out
    while True:
        if isinstance(atom, Literal):
            return f": the constant {atom.aval} brings the dtype in"
        if atom in named:
            return f": {named[atom]} {atom.aval} brings the dtype in"
        eqn = made_by.get(atom)
        if eqn is None:
            return f": a value {atom.aval} that it closes over brings the dtype in"
        same = [a for a in eqn.inputs if a.aval.dtype == dtype]
        if not same:
            return f": {eqn.primitive.name} at {place(eqn.source)} brings the dtype in"
        # An operand that was converted is the one that was widened; another one widened it.
        atom = next((a for a in same if not _was_converted(a, made_by)), same[0])


def _was_converted(a: Atom, made_by: dict[Var, Eqn]) -> bool:
    eqn = made_by.get(a) if isinstance(a, Var) else None
    return eqn is not None and eqn.primitive.name == "convert_element_type"


def paths(root: str, value: Any) -> list[str]:
    """The leaves of a pytree as a reader of `root` would write them."""
    return [root + p for p in tree.key_paths(value)]


def same_out(
    about: str, fun: Callable[..., Any], want: Staged, got: Staged, names: tuple[str, str]
) -> None:
    """Two branches must give the same structure and types."""
    if want.out_tree != got.out_tree:
        raise TreeError(
            f"{about}: the branches must return one structure, got {want.out_tree} from {names[0]} "
            f"and {got.out_tree} from {names[1]}: "
            f"{tree.structure_difference(want.out_tree, got.out_tree)}. Change one of them."
        )
    differing = [
        (p, a, b)
        for p, a, b in zip(
            paths("", want.out), want.closed.out_avals, got.closed.out_avals, strict=True
        )
        if not a.same_type(b)
    ]
    if differing:
        shapes = any(a.shape != b.shape for _, a, b in differing)
        dtypes_too = any(a.dtype != b.dtype for _, a, b in differing)
        what = "types" if shapes and dtypes_too else "shapes" if shapes else "dtypes"
        repair = "Reshape, pad or broadcast in one of them." if shapes else ""
        repair += f"{' ' if repair else ''}Cast in one of them." if dtypes_too else ""
        told = "; ".join(
            f"{p or 'the output'} is {a} from {names[0]} and {b} from {names[1]}"
            for p, a, b in differing
        )
        raise (ShapeError if shapes else DTypeError)(
            f"{about}: the branches must return the same {what}, but {told}. {repair}"
        )
