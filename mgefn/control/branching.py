"""cond and switch: run one of several programs.

`cond_p` holds the branches as programs with the same inputs and outputs. A batched index makes it a
choice between the results of all branches. For an example that does not take a branch, the branch
gets the operands of another example that does, so that its loops end and what it computes for
nothing is finite wherever the rest is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from mgefn import dtypes, tree
from mgefn.config import config
from mgefn.control.programs import (
    Flags,
    batch_with,
    called,
    either,
    is_staged,
    jvp_with,
    known,
    may_not_end,
    rearranged,
    same_out,
    stage,
    transpose_with,
    with_exact_numbers,
)
from mgefn.core.array import as_array, is_arraylike, scalar
from mgefn.core.avals import ShapedArray, Zero, is_undefined
from mgefn.core.backends import executable_of
from mgefn.core.interpreter import interpreter_set_to
from mgefn.core.jaxpr import ClosedJaxpr, Eqn, Var, named_axes
from mgefn.core.primitive import Primitive
from mgefn.core.source import fun_name
from mgefn.errors import ArgumentError, DTypeError, ShapeError, api_boundary
from mgefn.interpreters.batching import BatchingInterpreter, batch_jaxpr, to_front
from mgefn.interpreters.evaluate import eval_jaxpr
from mgefn.interpreters.jvp import jvp_jaxpr
from mgefn.interpreters.linearize import (
    LinearEqn,
    Linearized,
    LinearizeInterpreter,
    LinearizeTracer,
    LinearRecorder,
    LinearTracer,
    Node,
    linearize_jaxpr,
    split_jaxpr,
)
from mgefn.interpreters.staging import trace_closed
from mgefn.interpreters.transposition import transpose_jaxpr
from mgefn.ops.elementwise import clamp, convert, select_n_p, stop_gradient_leaf
from mgefn.ops.indexing import dynamic_index_in_dim
from mgefn.ops.reductions import argmax
from mgefn.ops.shaping import broadcast_in_dim, zeros

INT32 = np.dtype(np.int32)

# operands: the index, int32 of rank 0 in [0, number of branches), then those of the branches.
# params: branches, ClosedJaxprs of equal input and output types
cond_p = Primitive("cond", weak_result=False, moves=True)

_NO_OPERAND: Any = object()


def cond(
    pred: Any,
    true_fun: Callable[..., Any],
    false_fun: Callable[..., Any],
    *operands: Any,
    operand: Any = _NO_OPERAND,
    linear: Any = None,
) -> Any:
    """true_fun(*operands) where pred holds, else false_fun(*operands).

    Only one of the functions runs. Where pred is known, that one is called as it is; where it is
    traced both are traced. Under vmap with a pred that differs between examples both run, and the
    results are chosen from.

    Args:
        pred: a boolean or a real number of rank 0; numbers count as true unless 0.
        true_fun, false_fun: functions of the operands, whose outputs have the same structure,
            shapes and dtypes.
        operands: pytrees of arrays.
        operand: another way to pass the only operand.
        linear: accepted for older programs.

    Returns:
        What the chosen function returns.

    Raises:
        TreeError: the functions return different structures.
        DTypeError: they return different types.

    Example:
        >>> f = lambda x: mgefn.lax.cond(x > 0, lambda x: x, lambda x: -2 * x, x)
        >>> f(3.0), mgefn.grad(f)(-3.0)
        (Array(3., dtype=float32, weak_type=True), Array(-2., dtype=float32))
    """
    if not (callable(true_fun) and callable(false_fun)):
        if callable(false_fun) and len(operands) == 2 and callable(operands[1]):
            # The older form: pred, true_operand, true_fun, false_operand, false_fun.
            x_true, f_true, (x_false, f_false) = true_fun, false_fun, operands
            return cond(pred, lambda x, _: f_true(x), lambda _, x: f_false(x), x_true, x_false)
        raise ArgumentError(
            "cond: true_fun and false_fun must be functions, got "
            f"{type(true_fun).__name__} and {type(false_fun).__name__}."
        )
    operands = _with_operand("cond", operands, operand)
    if pred is None or not is_arraylike(pred):
        raise ArgumentError(
            f"cond: pred must be a boolean or a number of rank 0, got {type(pred).__name__}."
        )
    p = as_array(pred, "cond")
    if p.shape:
        raise ShapeError(
            f"cond: pred must have rank 0, got {p.aval}. Reduce it with any or all, or use where."
        )
    if dtypes.is_complex(p.dtype):
        raise DTypeError(f"cond: pred must be a boolean or a real number, got {p.aval}.")
    value = known(p)
    if value is not None and (config.disable_jit or not is_staged()):
        return called("cond", true_fun if value._data else false_fun, operands)
    if not dtypes.is_bool(p.dtype):
        p = p != 0
    names = (f"false_fun {fun_name(false_fun)}", f"true_fun {fun_name(true_fun)}")
    return _bound("cond", convert(p, INT32), (false_fun, true_fun), names, operands)


def switch(
    index: Any,
    branches: Sequence[Callable[..., Any]],
    *operands: Any,
    operand: Any = _NO_OPERAND,
) -> Any:
    """`branches[index](*operands)`, with the index clamped to the branches there are.

    Args:
        index: an integer of rank 0.
        branches: functions of the operands, whose outputs have the same structure, shapes and
            dtypes.
        operands: pytrees of arrays.
        operand: another way to pass the only operand.

    Returns:
        What the chosen function returns.

    Raises:
        TreeError: the functions return different structures.
        DTypeError: they return different types, or the index is no integer.

    Example:
        >>> mgefn.lax.switch(7, [mnp.sin, mnp.cos], 0.0)
        Array(1., dtype=float32, weak_type=True)
    """
    if not isinstance(branches, Iterable):
        raise ArgumentError(
            f"switch: branches must be a sequence of functions, got {type(branches).__name__}. "
            "Put it into a list."
        )
    branches = tuple(branches)
    if not branches:
        raise ArgumentError("switch: needs at least one branch, got none.")
    for f in branches:
        if not callable(f):
            raise ArgumentError(f"switch: branches must be functions, got {type(f).__name__}.")
    operands = _with_operand("switch", operands, operand)
    if not is_arraylike(index):
        raise ArgumentError(f"switch: the index must be an integer, got {type(index).__name__}.")
    i = as_array(index, "switch")
    if i.shape:
        raise ShapeError(f"switch: the index must have rank 0, got {i.aval}.")
    if not dtypes.is_integer(i.dtype):
        raise DTypeError(f"switch: the index must be an integer, got {i.aval}. Cast it.")
    last = len(branches) - 1
    if last == 0:
        return called("switch", branches[0], operands)
    value = known(i)
    if value is not None and (config.disable_jit or not is_staged()):
        return called("switch", branches[min(max(int(value), 0), last)], operands)
    # Clamped in its own dtype: the index may not fit int32. One that can't hold `last` needs no
    # upper bound.
    top = min(last, np.iinfo(i.dtype).max)
    i = convert(clamp(scalar(0, i.dtype), convert(i, i.dtype), scalar(top, i.dtype)), INT32)
    names = [f"branch {k} ({fun_name(f)})" for k, f in enumerate(branches)]
    return _bound("switch", i, branches, names, operands)


cond = api_boundary(cond)
switch = api_boundary(switch)


def _with_operand(name: str, operands: tuple, operand: Any) -> tuple:
    if operand is _NO_OPERAND:
        return operands
    if operands:
        raise ArgumentError(
            f"{name}: takes operands by position or as operand=, got both. Pass them by position."
        )
    return (operand,)


def _bound(
    about: str,
    index: Any,
    functions: Sequence[Callable[..., Any]],
    names: Sequence[str],
    operands: tuple,
) -> Any:
    leaves, in_tree = tree.flatten(operands)
    arrays = [as_array(x, about) for x in leaves]
    avals = [x.aval for x in arrays]
    staged = [stage(about, f, in_tree, avals) for f in functions]
    exact = with_exact_numbers(arrays, [(s.closed, len(s.captured)) for s in staged])
    if exact is not None:
        arrays = exact
        avals = [x.aval for x in arrays]
        staged = [stage(about, f, in_tree, avals) for f in functions]
    for s, name in zip(staged[1:], names[1:], strict=True):
        same_out(about, functions[0], staged[0], s, (names[0], name))
    # What any of them closes over becomes an operand of all.
    captured: dict[int, Any] = {id(c): c for s in staged for c in s.captured}
    place = {key: n for n, key in enumerate(captured)}
    k, n = len(captured), len(arrays)
    in_avals = [*(c.aval for c in captured.values()), *avals]
    weak = [
        all(s.closed.out_avals[i].weak_type for s in staged)
        for i in range(len(staged[0].closed.out_avals))
    ]
    branches = []
    for s in staged:
        ins: list[Any] = list(in_avals)
        for j, c in enumerate(s.captured):
            ins[place[id(c)]] = j
        ins[k:] = range(len(s.captured), len(s.captured) + n)
        closed = s.closed
        if len(s.captured) != k or ins != list(range(k + n)):
            closed = rearranged(closed, ins, range(len(weak)))
        branches.append(_with_weak(closed, weak))
    outs = cond_p.bind(index, *captured.values(), *arrays, branches=tuple(branches))
    return tree.unflatten(staged[0].out_tree, outs)


def _with_weak(closed: ClosedJaxpr, weak: Sequence[bool]) -> ClosedJaxpr:
    """The program whose outputs are weak where the branches agree that they are."""
    if [a.weak_type for a in closed.out_avals] == list(weak):
        return closed

    def fun(*xs: Any) -> list[Any]:
        outs = eval_jaxpr(closed.jaxpr, closed.consts, xs)
        return [convert(o, o.dtype, w) for o, w in zip(outs, weak, strict=True)]

    return closed.derive(
        ("weak", tuple(weak)),
        lambda: trace_closed(fun, closed.in_avals, "cond", closed.jaxpr.name),
    )


# -- rules ----------------------------------------------------------------------------------------


@cond_p.def_evaluate
def _cond_evaluate(args, params):
    branches = params["branches"]
    return executable_of(branches[int(args[0]._data)])(args[1:])


@cond_p.def_abstract_eval
def _cond_abstract_eval(index: ShapedArray, *avals: ShapedArray, branches):
    return tuple(branches[0].out_avals)


def _cond_scratch(eqn: Eqn) -> int:
    most = 0
    for branch in eqn.params["branches"]:
        memory = executable_of(branch).memory_analysis()
        most = max(most, memory.peak_memory_in_bytes - memory.output_size_in_bytes)
    return most


cond_p.scratch = _cond_scratch


@cond_p.def_jvp(symbolic_zeros=True)
def _cond_jvp(primals, tangents, *, branches):
    nonzero = tuple(t.__class__ is not Zero for t in tangents[1:])
    wanted = either(*(jvp_jaxpr(b, nonzero)[1] for b in branches))
    outs = cond_p.bind(
        *primals,
        *(t for t in tangents[1:] if t.__class__ is not Zero),
        branches=tuple(jvp_with(b, nonzero, wanted) for b in branches),
    )
    n = len(wanted)
    rest = iter(outs[n:])
    out_tangents = [
        next(rest) if w else Zero(o.aval) for w, o in zip(wanted, outs[:n], strict=True)
    ]
    return outs[:n], out_tangents


@cond_p.def_linearize
def _cond_linearize(interpreter: LinearizeInterpreter, primals, nodes, params):
    branches = params["branches"]
    nonzero = tuple(n is not None for n in nodes[1:])

    def make() -> tuple:
        parts = [linearize_jaxpr(b, nonzero) for b in branches]
        out_nonzero = either(*(p.out_nonzero for p in parts))
        n = len(out_nonzero)
        known = [(p.primal, n) for p in parts]
        return (*_merged(branches[0], parts, known, nonzero, out_nonzero), out_nonzero)

    forward, linear, needed, out_nonzero = branches[0].derive(
        ("cond linearize", branches, nonzero), make
    )
    both = cond_p.bind(*primals, branches=forward)
    n = len(out_nonzero)
    outs, residuals = both[:n], both[n:]
    out_nodes = [
        Node(o.shape, o.dtype) if nz else None for o, nz in zip(outs, out_nonzero, strict=True)
    ]
    inputs = [
        primals[0],
        *(primals[1 + i] for i in needed),
        *residuals,
        *(x for x in nodes if x is not None),
    ]
    interpreter.tape.append(
        LinearEqn(cond_p, inputs, {"branches": linear}, [x for x in out_nodes if x is not None])
    )
    return tuple(
        o if x is None else LinearizeTracer(interpreter, o, x)
        for o, x in zip(outs, out_nodes, strict=True)
    )


@cond_p.def_record
def _cond_record(recorder: LinearRecorder, args, params):
    """A cond on values and tangents, as the jvp of a cond in a custom rule."""
    branches, operands = params["branches"], args[1:]
    linear = tuple(x.__class__ is LinearTracer and x.interpreter is recorder for x in operands)

    def make() -> tuple:
        parts = [split_jaxpr(b, linear) for b in branches]
        out_linear = either(*(p.out_nonzero for p in parts))
        known = []
        for p in parts:
            own = [i for i, x in enumerate(p.out_nonzero) if not x]
            outs = [own.index(i) for i, x in enumerate(out_linear) if not x]
            res = range(len(own), len(own) + p.n_residuals)
            ins = range(len(p.primal.in_avals))
            known.append((rearranged(p.primal, ins, [*outs, *res]), len(outs)))
        return (*_merged(branches[0], parts, known, linear, out_linear), out_linear)

    forward, backward, needed, out_linear = branches[0].derive(
        ("cond split", branches, linear), make
    )
    known = [x for x, f in zip(operands, linear, strict=True) if not f]
    with interpreter_set_to(recorder.outer):
        outs = cond_p.bind(args[0], *known, branches=forward)
    n = out_linear.count(False)
    avals = branches[0].out_avals
    binders = [Node(a.shape, a.dtype) for a, x in zip(avals, out_linear, strict=True) if x]
    if binders:
        tangents = [x.node for x, f in zip(operands, linear, strict=True) if f]
        inputs = [args[0], *(known[i] for i in needed), *outs[n:], *tangents]
        recorder.tape.append(LinearEqn(cond_p, inputs, {"branches": backward}, binders))
    values, nodes = iter(outs), iter(binders)
    return tuple(LinearTracer(recorder, next(nodes)) if x else next(values) for x in out_linear)


def _merged(
    branch: ClosedJaxpr,
    parts: Sequence[Linearized],
    known: Sequence[tuple[ClosedJaxpr, int]],
    flags: Flags,
    out_linear: Flags,
) -> tuple:
    """Known branches, linear branches, and the known operands that these need.

    Residuals that are operands are passed on as such. The others share places: a place has one
    type, and holds zeros where the branch taken has no use for it.

    Args:
        branch: any of the branches.
        parts: each branch taken apart.
        known: the known part of each, and how many outputs it has before the residuals.
        flags: the linear operands.
        out_linear: the outputs that are linear in some branch; in others they are zero.
    """
    places: list[ShapedArray] = []
    needed: set[int] = set()
    plans: list[list[tuple[bool, int]]] = []  # each residual: (is it an operand, which one)
    for program, n_outs in known:
        binders = {v: i for i, v in enumerate(program.jaxpr.in_binders)}
        free = list(enumerate(places))
        plan = []
        for r in program.jaxpr.outs[n_outs:]:
            if isinstance(r, Var) and r in binders:
                needed.add(binders[r])
                plan.append((True, binders[r]))
                continue
            at = next((k for k, (_, a) in enumerate(free) if a.same_type(r.aval)), None)
            if at is None:
                plan.append((False, len(places)))
                places.append(r.aval.strong())
            else:
                plan.append((False, free.pop(at)[0]))
        plans.append(plan)
    operands = sorted(needed)
    n_tangents = sum(flags)
    forward, linear = [], []
    for p, (program, n_outs), plan in zip(parts, known, plans, strict=True):
        held: list[Any] = list(places)
        ins: list[Any] = [
            *(program.in_avals[i] for i in operands),
            *places,
            *range(p.n_residuals, p.n_residuals + n_tangents),
        ]
        for j, (is_operand, which) in enumerate(plan):
            if is_operand:
                ins[operands.index(which)] = j
            else:
                held[which] = n_outs + j
                ins[len(operands) + which] = j
        n_in = len(program.in_avals)
        forward.append(rearranged(program, range(n_in), [*range(n_outs), *held]))
        own = iter(range(sum(p.out_nonzero)))
        outs = [
            next(own) if found else a.strong()
            for found, wanted, a in zip(p.out_nonzero, out_linear, branch.out_avals, strict=True)
            if wanted
        ]
        linear.append(rearranged(p.linear, ins, outs))
    return tuple(forward), tuple(linear), operands


@cond_p.def_transpose(symbolic_zeros=True)
def _cond_transpose(cts, index, *args, branches):
    linear = tuple(is_undefined(a) for a in args)
    given = tuple(ct.__class__ is not Zero for ct in cts)
    wanted = either(*(transpose_jaxpr(b, linear, given)[1] for b in branches))
    outs = iter(
        cond_p.bind(
            index,
            *(a for a in args if not is_undefined(a)),
            *(ct for ct in cts if ct.__class__ is not Zero),
            branches=tuple(transpose_with(b, linear, given, wanted) for b in branches),
        )
    )
    found = iter([next(outs) if w else None for w in wanted])
    return (None, *(next(found) if x else None for x in linear))


@cond_p.def_batch_call
def _cond_batch(interpreter: BatchingInterpreter, values, bdims, params):
    size, branches = interpreter.axis_size, params["branches"]
    args = [v if b is None else to_front(v, b, size) for v, b in zip(values, bdims, strict=True)]
    batched = tuple(b is not None for b in bdims[1:])
    name = interpreter.axis_name
    if bdims[0] is None:
        wanted = either(*(batch_jaxpr(b, batched, size, name)[1] for b in branches))
        mapped = tuple(batch_with(b, batched, wanted, size, name) for b in branches)
        return cond_p.bind(*args, branches=mapped), [0 if w else None for w in wanted]
    index, operands = args[0], args[1:]
    wanted = (True,) * len(branches[0].out_avals)
    # A collective reads the operands of all examples, whichever branch each of them takes.
    together = name is not None and name in named_axes(cond_p, params)
    results = []
    for k, branch in enumerate(branches):
        taken = index == scalar(k, INT32)
        mapped = batch_with(branch, batched, wanted, size, name)
        if together:
            results.append(eval_jaxpr(mapped.jaxpr, mapped.consts, operands))
            continue
        results.append(_where_taken(taken, mapped, operands, batched, may_not_end(branch)))
    outs = [_chosen(index, cases) for cases in zip(*results, strict=True)]
    return outs, [0] * len(outs)


def _where_taken(
    taken: Any, mapped: ClosedJaxpr, operands: Sequence[Any], batched: Flags, guarded: bool
) -> Sequence[Any]:
    """The outputs of a batched branch, of use for the examples that take it."""
    if not taken.shape[0]:
        return eval_jaxpr(mapped.jaxpr, mapped.consts, operands)
    masked = masked_by(taken, operands, batched)
    if not guarded:
        return eval_jaxpr(mapped.jaxpr, mapped.consts, masked)
    # Where no example takes it, it does not run at all.
    skipped = mapped.derive(
        "zeros", lambda: rearranged(_nothing(mapped), mapped.in_avals, mapped.out_avals)
    )
    return cond_p.bind(convert(taken.any(), INT32), *masked, branches=(skipped, mapped))


def _nothing(like: ClosedJaxpr) -> ClosedJaxpr:
    return trace_closed(lambda: [], [], "vmap", f"skip_{like.jaxpr.name}")


def masked_by(taken: Any, operands: Sequence[Any], batched: Flags) -> list[Any]:
    """The batched operands with those of a taken example in place of those not taken."""
    if not any(batched):
        return list(operands)
    first = argmax(taken, 0)
    masked = []
    for x, b in zip(operands, batched, strict=True):
        if b:
            # For a tangent zero will do, which needs no equation.
            if x.__class__ is LinearTracer:
                other = zeros(ShapedArray(x.shape[1:], x.dtype))
            else:
                other = stop_gradient_leaf(dynamic_index_in_dim(x, first, 0, keepdims=False))
            x = select_examples(taken, x, other)
        masked.append(x)
    return masked


def select_examples(taken: Any, x: Any, other: Any) -> Any:
    """x for the examples that are taken, `other` for those that are not."""
    if other.shape and other.ndim < x.ndim:
        other = broadcast_in_dim(other, x.shape, tuple(range(1, x.ndim)))
    return select_n_p.bind1(broadcast_in_dim(taken, x.shape, (0,)), other, x)


def _chosen(index: Any, cases: Sequence[Any]) -> Any:
    which = broadcast_in_dim(index, cases[0].shape, (0,))
    if len(cases) == 2:
        which = which != scalar(0, INT32)
    return select_n_p.bind1(which, *cases)


__all__ = ["cond", "switch"]
