"""scan, map and associative_scan: loops with a known number of steps.

`scan_p` holds the body as a program (consts, carry, one slice of each xs) -> (carry, one slice of
each ys). Its operands are the consts, the initial carry and the xs, whose leading dimension is
`length`; its outputs are the final carry and the stacked ys.

Reverse mode runs the loop forward once, with what the backward pass needs among the ys, and then
backward over these. What a step needs and no step changes is computed once outside, and what is a
slice of xs is read from them again.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mgefn import tree
from mgefn.config import config
from mgefn.control.programs import (
    Flags,
    Wrapping,
    batch_with,
    check_structure,
    check_types,
    first_parameter,
    grown,
    joined,
    jvp_with,
    paths,
    rearranged,
    run_quietly,
    stage,
    transpose_with,
    with_exact_numbers,
)
from mgefn.core.array import ConcreteArray, as_array, is_arraylike
from mgefn.core.avals import ShapedArray, UndefinedPrimal, Zero, is_undefined
from mgefn.core.backends import executable_of
from mgefn.core.interpreter import interpreter_set_to
from mgefn.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var, has_effect
from mgefn.core.primitive import Primitive
from mgefn.core.source import fun_place
from mgefn.errors import ArgumentError, AxisError, ShapeError, TreeError, api_boundary
from mgefn.interpreters.batching import BatchingInterpreter, batch_flat, batch_jaxpr, to_front
from mgefn.interpreters.evaluate import eval_jaxpr
from mgefn.interpreters.jvp import instantiate, jvp_jaxpr
from mgefn.interpreters.linearize import (
    LinearEqn,
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
from mgefn.ops.elementwise import add_p
from mgefn.ops.shaping import (
    concatenate_p,
    expand_dims,
    moveaxis,
    normalize_axis,
    reshape,
    rev,
    slice_in_dim,
    zeros,
)

# params: jaxpr; length; reverse; num_consts; num_carry
scan_p = Primitive("scan", weak_result=False, moves=True)

DONATED = 4096  # bytes of a carry from which a step may write over the former one


@api_boundary
def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> tuple[Any, Any]:
    """Run a function over the leading axis of arrays, with a value carried from step to step.

    The same as this loop, in which f is traced once:

        carry, ys = init, []
        for x in xs:
            carry, y = f(carry, x)
            ys.append(y)
        return carry, stack(ys)

    Args:
        f: (carry, x) -> (new carry, y). The carry keeps its structure, shapes and dtypes; where
            init has Python numbers, these take the dtype that f gives.
        init: the first carry, a pytree of arrays.
        xs: a pytree of arrays of the same leading size, or None.
        length: the number of steps, needed where xs holds no array.
        reverse: start with the last x; ys stand in the order of xs all the same.
        unroll, _split_transpose: accepted for JAX's programs.

    Returns:
        (the last carry, the ys stacked along a new leading axis).

    Raises:
        ShapeError: the xs differ in their leading size, or a carry changes its shape.
        DTypeError: a carry changes its dtype; the message says what widened it.
        TreeError: the carry changes its structure.

    Example:
        >>> mgefn.lax.scan(lambda c, x: (c + x, c), 0, mnp.arange(1, 4))
        (Array(6, dtype=int32), Array([0, 1, 3], dtype=int32, weak_type=True))
    """
    if not callable(f):
        raise ArgumentError(f"scan: f must be a function, got {type(f).__name__}.")
    if not hasattr(unroll, "__index__") or unroll < 0:
        raise ArgumentError(f"scan: unroll must be a positive int or a bool, got {unroll!r:.60}.")
    init_leaves, init_tree = tree.flatten(init)
    xs_leaves, xs_tree = tree.flatten(xs)
    carry = [_leaf("init", x) for x in init_leaves]
    slices = [_leaf("xs", x) for x in xs_leaves]
    n = _length(slices, xs, length)
    if config.disable_jit and n > 0:
        return _in_python(f, tree.unflatten(init_tree, carry), slices, xs_tree, n, reverse)
    in_tree = tree.structure((init, xs))
    x_avals = [ShapedArray(x.shape[1:], x.dtype, x.weak_type) for x in slices]
    about = getattr(f, "about", "scan")  # fori_loop has its own name and those of its carry
    names_of: Any = getattr(f, "carry_names", None)
    while True:
        avals = [x.aval for x in carry]
        staged = stage(about, f, in_tree, [*avals, *x_avals])
        pair = staged.out
        _check_pair(f, init_tree, pair)
        name = first_parameter(f, "carry")
        check_structure(about, f, name, init_tree, tree.structure(pair[0]))
        again = joined(carry, avals, staged.closed.out_avals[: len(carry)])
        if again is None:
            again = with_exact_numbers(carry, [(staged.closed, len(staged.captured))])
        if again is None:
            break
        carry = again
    k, captured, closed = len(carry), staged.captured, staged.closed
    names = [
        *("a value it closes over" for _ in captured),
        *(paths(name, init) if names_of is None else names_of(init)),
        *paths("xs", xs),
    ]
    check_types(about, f, closed, names, len(captured), closed.jaxpr.outs[:k])
    outs = scan_p.bind(
        *captured, *carry, *slices, jaxpr=closed, length=n, reverse=bool(reverse),
        num_consts=len(captured), num_carry=k,
    )  # fmt: skip
    y_tree = tree.structure(pair[1])
    return tree.unflatten(init_tree, outs[:k]), tree.unflatten(y_tree, outs[k:])


def _check_pair(f: Callable[..., Any], init_tree: Any, pair: Any) -> None:
    """What the body returns must be (carry, y)."""
    got = tree.structure(pair)
    is_pair = isinstance(pair, (tuple, list)) and len(pair) == 2
    if is_pair and (got != init_tree or tree.structure(pair[0]) == init_tree):
        return
    what, repair = str(got), "Return None for what you do not need."
    if got == tree.structure(None):
        what, repair = "None", "Does it end without a return?"
    elif got == init_tree:
        what, repair = "the carry alone", "Return (carry, None) where there is no y to collect."
    raise TreeError(f"scan: {fun_place(f)} must return a pair (carry, y), got {what}. {repair}")


def _leaf(what: str, x: Any) -> Any:
    if not is_arraylike(x):
        raise ArgumentError(
            f"scan: {what} must be a pytree of arrays, got {type(x).__name__} ({x!r:.60})."
        )
    return as_array(x, "scan")


def _length(slices: Sequence[Any], xs: Any, length: Any) -> int:
    names = paths("xs", xs)
    sizes = []
    for x, name in zip(slices, names, strict=True):
        if not x.shape:
            raise ShapeError(
                f"scan: needs a leading axis to run over, got {name} {x.aval}. Close over what is "
                "the same in all steps."
            )
        sizes.append(x.shape[0])
    if length is not None:
        try:
            length = operator.index(length)
        except TypeError:
            raise ArgumentError(
                f"scan: length must be an int known now, got {length!r}. Use while_loop for a "
                "number of steps that is computed."
            ) from None
        if length < 0:
            raise ArgumentError(f"scan: length must be 0 or more, got {length}.")
        for name, size in zip(names, sizes, strict=True):
            if size != length:
                raise ShapeError(
                    f"scan: length={length} must be the leading size of the xs, got {name} with "
                    f"{size}. Leave length out, or cut the array."
                )
        return length
    if not sizes:
        raise ArgumentError("scan: without xs the number of steps is unknown. Pass length.")
    if len(set(sizes)) > 1:
        shown = ", ".join(f"{n} with {s}" for n, s in zip(names, sizes, strict=True))
        raise ShapeError(f"scan: the xs must have one leading size, got {shown}.")
    return sizes[0]


def _in_python(
    f: Callable[..., Any], carry: Any, slices: Sequence[Any], xs_tree: Any, n: int, reverse: bool
) -> tuple[Any, Any]:
    """The loop itself, for disable_jit."""
    ys = []
    for i in range(n - 1, -1, -1) if reverse else range(n):
        pair = f(carry, tree.unflatten(xs_tree, [x[i] for x in slices]))
        _check_pair(f, tree.structure(carry), pair)
        carry, y = pair
        ys.append(y)
    if reverse:
        ys.reverse()
    return carry, tree.map(lambda *leaves: stacked([as_array(x, "scan") for x in leaves]), *ys)


def stacked(arrays: Sequence[Any]) -> Any:
    return concatenate_p.bind1(*(expand_dims(x, 0) for x in arrays), dimension=0)


# -- evaluation -----------------------------------------------------------------------------------


@scan_p.def_abstract_eval
def _scan_abstract_eval(*avals: ShapedArray, jaxpr, length, reverse, num_consts, num_carry):
    outs = jaxpr.out_avals
    return (
        *outs[:num_carry],
        *(ShapedArray((length, *a.shape), a.dtype, a.weak_type) for a in outs[num_carry:]),
    )


def _program(jaxpr: ClosedJaxpr, num_consts: int, num_carry: int) -> Any:
    """The compiled body; large carries may be written over."""
    carry = jaxpr.in_avals[num_consts : num_consts + num_carry]
    n_xs = len(jaxpr.in_avals) - num_consts - num_carry
    return executable_of(jaxpr, donated=donations(num_consts, carry, n_xs))


def donations(n_before: int, carry: Sequence[ShapedArray], n_after: int) -> Flags:
    return (*(False,) * n_before, *(a.nbytes >= DONATED for a in carry), *(False,) * n_after)


@scan_p.def_evaluate
def _scan_evaluate(args, params):
    jaxpr, length = params["jaxpr"], params["length"]
    n_consts, k = params["num_consts"], params["num_carry"]
    buffers = [a._data for a in args]
    carry = buffers[n_consts : n_consts + k]
    out_avals = jaxpr.out_avals
    ys = [np.empty((length, *a.shape), a.dtype) for a in out_avals[k:]]
    if length:
        steps = range(length - 1, -1, -1) if params["reverse"] else range(length)
        carry = run_quietly(
            _run, _program(jaxpr, n_consts, k), steps, buffers[:n_consts], carry,
            buffers[n_consts + k :], ys,
        )  # fmt: skip
    return tuple(
        [ConcreteArray(d, a.weak_type) for d, a in zip((*carry, *ys), out_avals, strict=True)]
    )


def _run(
    program: Any,
    steps: range,
    consts: list[np.ndarray],
    carry: list[np.ndarray],
    xs: list[np.ndarray],
    ys: list[np.ndarray],
) -> list[np.ndarray]:
    k = len(carry)
    frame = program.hold()
    run, donors = frame.run, None
    owned = program.owned if program.takes_donors else None
    try:
        for i in steps:
            at = (i, ...)  # the ellipsis keeps rank 0 an array
            buffers = [*consts, *carry, *[x[at] for x in xs]]
            if owned is not None:
                # Nothing but `buffers` may hold a carry that is written over.
                outs = carry = None  # type: ignore[assignment]  # lets go of the arrays
                donors = owned(buffers)
            outs = run(buffers, donors)
            buffers = donors = None
            carry = outs[:k]
            for y, out in zip(ys, outs[k:]):  # noqa: B905  # equal lengths, and short
                y[at] = out
            out = None
    finally:
        program.release(frame)
    return carry


def _scan_scratch(eqn: Eqn) -> int:
    p = eqn.params
    n_consts, k = p["num_consts"], p["num_carry"]
    memory = _program(p["jaxpr"], n_consts, k).memory_analysis()
    # The outputs of one step are alive together with the carry before it.
    return memory.peak_memory_in_bytes + sum(a.nbytes for a in p["jaxpr"].out_avals[:k])


scan_p.scratch = _scan_scratch


# -- derivatives ----------------------------------------------------------------------------------


def _parts(items: Sequence[Any], params: dict[str, Any]) -> tuple[list, list, list]:
    """Consts, carry and xs of a list with one item for each operand."""
    n, k = params["num_consts"], params["num_carry"]
    return list(items[:n]), list(items[n : n + k]), list(items[n + k :])


def _carry_fixed(
    flags: Flags, params: dict[str, Any], outs_of: Callable[[Flags], Sequence[bool]]
) -> tuple[Flags, Flags]:
    """The operands' and the outputs' flags when those of the carry have settled."""
    n, k = params["num_consts"], params["num_carry"]
    before, after = flags[:n], flags[n + k :]
    carry = grown(flags[n : n + k], lambda c: outs_of((*before, *c, *after))[:k])
    full = (*before, *carry, *after)
    return full, (*carry, *outs_of(full)[k:])


@scan_p.def_jvp(symbolic_zeros=True)
def _scan_jvp(primals, tangents, **params):
    jaxpr, k = params["jaxpr"], params["num_carry"]
    flags, wanted = _carry_fixed(
        tuple(t.__class__ is not Zero for t in tangents),
        params,
        lambda f: jvp_jaxpr(jaxpr, f)[1],
    )
    pushed, counts = jaxpr.derive(
        ("scan jvp", flags, wanted, params["num_consts"], k),
        lambda: _pushed(jaxpr, flags, wanted, params),
    )
    operands: list[Any] = []
    for xs, dots, fs in zip(
        _parts(primals, params), _parts(tangents, params), _parts(flags, params), strict=True
    ):
        operands += xs
        operands += [instantiate(t) for t, f in zip(dots, fs, strict=True) if f]
    outs = list(
        scan_p.bind(
            *operands, jaxpr=pushed, length=params["length"], reverse=params["reverse"],
            num_consts=counts[0], num_carry=counts[1],
        )
    )  # fmt: skip
    n_carry_dots = sum(wanted[:k])
    n_ys = len(wanted) - k
    values = [*outs[:k], *outs[counts[1] : counts[1] + n_ys]]
    dots = iter([*outs[k : k + n_carry_dots], *outs[counts[1] + n_ys :]])
    return values, [next(dots) if w else Zero(v.aval) for w, v in zip(wanted, values, strict=True)]


def _pushed(
    jaxpr: ClosedJaxpr, flags: Flags, wanted: Flags, params: dict[str, Any]
) -> tuple[ClosedJaxpr, tuple[int, int]]:
    """The body on values and tangents, with each part's tangents after its values."""
    pushed = jvp_with(jaxpr, flags, wanted)
    k, n_in, n_out = params["num_carry"], len(flags), len(wanted)
    dot_of = iter(range(n_in, n_in + sum(flags)))
    dots = [next(dot_of) if f else None for f in flags]
    ins: list[int] = []
    for positions, ds in zip(_parts(range(n_in), params), _parts(dots, params), strict=True):
        ins += [*positions, *(d for d in ds if d is not None)]
    n_carry_dots = sum(wanted[:k])
    first = n_out + n_carry_dots
    outs = [
        *range(k),
        *range(n_out, first),
        *range(k, n_out),
        *range(first, n_out + sum(wanted)),
    ]
    n_consts = params["num_consts"] + sum(flags[: params["num_consts"]])
    return rearranged(pushed, ins, outs), (n_consts, k + n_carry_dots)


class _Linear:
    """A body taken apart into what is known and what is linear.

    hoisted: known consts -> what no step changes. forward: the known part, with hoisted values as
    further consts, and the residuals of each step after its ys. backward: the linear part, a body
    (invariant residuals, linear consts; linear carry; stacked residuals, residuals that are xs,
    linear xs) -> (linear carry, linear ys). flags, out_linear: which operands and outputs of the
    whole body are linear.
    """

    __slots__ = (
        "backward", "flags", "forward", "hoisted", "invariant", "n_hoisted", "out_linear",
        "xs_read",
    )  # fmt: skip

    def __init__(
        self,
        known: ClosedJaxpr,
        n_outs: int,
        linear: ClosedJaxpr,
        flags: Flags,
        out_linear: Flags,
        linear_outs: Sequence[int | ShapedArray],
        known_counts: tuple[int, int],
        params: dict[str, Any],
    ):
        """`known` has n_outs outputs and then the residuals, the first inputs of `linear`.

        The others are the flagged operands. known_counts: the consts and carries of `known`.
        """
        program = known.jaxpr
        outs, residuals = program.outs[:n_outs], program.outs[n_outs:]
        n, k = known_counts
        consts, carry, xs = (
            program.in_binders[:n],
            program.in_binders[n : n + k],
            program.in_binders[n + k :],
        )
        # What no step changes: it depends on consts only.
        invariant: set[Any] = {*consts, *program.const_binders}
        from_consts = []
        for eqn in program.eqns:
            fixed = all(isinstance(a, Literal) or a in invariant for a in eqn.inputs)
            if fixed and not has_effect(eqn) and not eqn.primitive.opaque:
                invariant.update(eqn.out_binders)
                from_consts.append(eqn)
        wanted = [r for r in residuals if isinstance(r, Literal) or r in invariant]
        needed: set[Any] = {r for r in wanted if isinstance(r, Var)}
        lifted = []
        for eqn in reversed(from_consts):
            if any(v in needed for v in eqn.out_binders):
                lifted.append(eqn)
                needed.update(a for a in eqn.inputs if isinstance(a, Var))
        lifted.reverse()
        # Their values go into the loop as further consts, in place of their equations.
        replaced = [v for eqn in lifted for v in eqn.out_binders]
        gone = {id(eqn) for eqn in lifted}
        place_of_x = {v: i for i, v in enumerate(xs)}
        invariant_at, stacked_at, x_at = [], [], []  # positions among the residuals
        for i, r in enumerate(residuals):
            if isinstance(r, Literal) or r in invariant:
                invariant_at.append(i)
            elif r in place_of_x:
                x_at.append(i)
            else:
                stacked_at.append(i)
        self.flags = flags
        self.out_linear = out_linear
        self.hoisted = ClosedJaxpr(
            Jaxpr(consts, lifted, [*replaced, *wanted], program.const_binders, "hoisted"),
            known.consts,
        )
        self.n_hoisted = len(replaced)
        self.invariant = range(len(replaced), len(replaced) + len(wanted))
        self.xs_read = [place_of_x[residuals[i]] for i in x_at]
        self.forward = ClosedJaxpr(
            Jaxpr(
                [*consts, *replaced, *carry, *xs],
                [eqn for eqn in program.eqns if id(eqn) not in gone],
                [*outs, *(residuals[i] for i in stacked_at)],
                program.const_binders,
                program.name,
            ),
            known.consts,
        )
        const_f, carry_f, x_f = _parts(flags, params)
        n_res = len(residuals)
        first = n_res + sum(const_f)
        second = first + sum(carry_f)
        ins = [
            *invariant_at,
            *range(n_res, first),
            *range(first, second),
            *stacked_at,
            *x_at,
            *range(second, second + sum(x_f)),
        ]
        self.backward = rearranged(linear, ins, linear_outs)

    def run(
        self, consts: Sequence[Any], carry: Sequence[Any], xs: Sequence[Any], n_outs: int, loop: Any
    ) -> tuple[Sequence[Any], list[Any], list[Any]]:
        """Run the known part; gives its outputs, and the residuals that are consts and xs of the
        linear part."""
        hoisted = eval_jaxpr(self.hoisted.jaxpr, self.hoisted.consts, consts)
        both = scan_p.bind(
            *consts, *hoisted[: self.n_hoisted], *carry, *xs, jaxpr=self.forward,
            num_consts=len(consts) + self.n_hoisted, num_carry=len(carry), **loop,
        )  # fmt: skip
        res_xs = [*both[n_outs:], *(xs[i] for i in self.xs_read)]
        return both[:n_outs], [hoisted[i] for i in self.invariant], res_xs


def _loop(params: dict[str, Any]) -> dict[str, Any]:
    return {"length": params["length"], "reverse": params["reverse"]}


@scan_p.def_linearize
def _scan_linearize(interpreter: LinearizeInterpreter, primals, nodes, params):
    jaxpr, n, k = params["jaxpr"], params["num_consts"], params["num_carry"]
    nonzero = tuple(x is not None for x in nodes)

    def make() -> _Linear:
        flags, out_nonzero = _carry_fixed(
            nonzero, params, lambda f: linearize_jaxpr(jaxpr, f).out_nonzero
        )
        parts = linearize_jaxpr(jaxpr, flags)
        outs = _outs_with_zeros(parts.out_nonzero, out_nonzero, jaxpr)
        return _Linear(
            parts.primal, len(out_nonzero), parts.linear, flags, out_nonzero, outs, (n, k), params
        )

    parts: _Linear = jaxpr.derive(("scan linearize", nonzero, n, k), make)
    consts, carry, xs = _parts(primals, params)
    outs, res_consts, res_xs = parts.run(consts, carry, xs, len(parts.out_linear), _loop(params))
    const_nodes, carry_nodes, x_nodes = _parts(nodes, params)
    in_consts = [*res_consts, *(x for x in const_nodes if x is not None)]
    in_carry = [
        zeros(c.aval.strong()) if x is None else x
        for c, x, f in zip(carry, carry_nodes, _parts(parts.flags, params)[1], strict=True)
        if f
    ]
    in_xs = [*res_xs, *(x for x in x_nodes if x is not None)]
    out_nodes = [
        Node(o.shape, o.dtype) if nz else None for o, nz in zip(outs, parts.out_linear, strict=True)
    ]
    interpreter.tape.append(
        LinearEqn(
            scan_p,
            [*in_consts, *in_carry, *in_xs],
            {
                "jaxpr": parts.backward,
                "num_consts": len(in_consts),
                "num_carry": len(in_carry),
                **_loop(params),
            },
            [x for x in out_nodes if x is not None],
        )
    )
    return tuple(
        o if x is None else LinearizeTracer(interpreter, o, x)
        for o, x in zip(outs, out_nodes, strict=True)
    )


def _outs_with_zeros(
    found: Sequence[bool], wanted: Sequence[bool], jaxpr: ClosedJaxpr
) -> list[int | ShapedArray]:
    """Outputs of a linear part for `rearranged`, one for each wanted output of the body."""
    own = iter(range(sum(found)))
    return [
        next(own) if f else a.strong()
        for f, w, a in zip(found, wanted, jaxpr.out_avals, strict=True)
        if w
    ]


def _known_first(
    args: Sequence[Any], linear: Flags, params: dict[str, Any]
) -> tuple[_Linear, Sequence[Any], tuple[list[Any], list[Any], list[Any]]]:
    """Run what does not depend on the linear operands, such as a counter in the carry.

    Gives the known outputs, and the operands of the linear part. A carry that becomes linear in the
    body may start from a known value, which for a linear function is 0.
    """
    jaxpr, n, k = params["jaxpr"], params["num_consts"], params["num_carry"]

    def make() -> _Linear:
        flags, out_linear = _carry_fixed(
            linear, params, lambda f: split_jaxpr(jaxpr, f).out_nonzero
        )
        parts = split_jaxpr(jaxpr, flags)
        own = [i for i, x in enumerate(parts.out_nonzero) if not x]
        n_res = parts.n_residuals
        outs = [own.index(i) for i, x in enumerate(out_linear) if not x]
        known = rearranged(
            parts.primal,
            range(len(parts.primal.in_avals)),
            [*outs, *range(len(own), len(own) + n_res)],
        )
        counts = sum(not f for f in flags[:n]), sum(not f for f in flags[n : n + k])
        linear_outs = _outs_with_zeros(parts.out_nonzero, out_linear, jaxpr)
        return _Linear(
            known, len(outs), parts.linear, flags, out_linear, linear_outs, counts, params
        )

    parts: _Linear = jaxpr.derive(("scan split", linear, n, k), make)
    mine = _parts(args, params)
    known_args, linear_args = [], []
    for part, flags in zip(mine, _parts(parts.flags, params), strict=True):
        known_args.append([x for x, f in zip(part, flags, strict=True) if not f])
        linear_args.append([x for x, f in zip(part, flags, strict=True) if f])
    n_outs = parts.out_linear.count(False)
    consts, carry, xs = known_args
    outs, res_consts, res_xs = parts.run(consts, carry, xs, n_outs, _loop(params))
    consts, carry, xs = linear_args
    return parts, outs, ([*res_consts, *consts], carry, [*res_xs, *xs])


@scan_p.def_record
def _scan_record(recorder: LinearRecorder, args, params):
    """A loop on values and tangents, as the jvp of a scan in a custom rule."""
    linear = tuple(x.__class__ is LinearTracer and x.interpreter is recorder for x in args)
    with interpreter_set_to(recorder.outer):
        parts, outs, (consts, carry, xs) = _known_first(args, linear, params)
    binders = [
        Node(o.shape, o.dtype)
        for o, x in zip(
            scan_p.out_avals([a.aval for a in args], params), parts.out_linear, strict=True
        )
        if x
    ]
    if binders:
        new = {"jaxpr": parts.backward, "num_consts": len(consts), "num_carry": len(carry)}
        inputs = [x.node if x.__class__ is LinearTracer else x for x in (*consts, *carry, *xs)]
        recorder.tape.append(LinearEqn(scan_p, inputs, {**new, **_loop(params)}, binders))
    values, tangents = iter(outs), iter(binders)
    return tuple(
        LinearTracer(recorder, next(tangents)) if x else next(values) for x in parts.out_linear
    )


@scan_p.def_transpose(symbolic_zeros=True)
def _scan_transpose(cts, *args, **params):
    linear = tuple(is_undefined(a) for a in args)
    jaxpr, n, k = params["jaxpr"], params["num_consts"], params["num_carry"]
    if not all(linear[n : n + k]):
        return _transpose_with_known_carry(cts, args, linear, params)
    given_ys = tuple(ct.__class__ is not Zero for ct in cts[k:])

    def carry_cts(given: Flags) -> Sequence[bool]:
        found = transpose_jaxpr(jaxpr, linear, (*given, *given_ys))[1]
        n_lin = sum(linear[:n])
        return found[n_lin : n_lin + k]

    given = grown([ct.__class__ is not Zero for ct in cts[:k]], carry_cts)
    found = transpose_jaxpr(jaxpr, linear, (*given, *given_ys))[1]
    n_lin = sum(linear[:n])
    const_f, x_f = tuple(found[:n_lin]), tuple(found[n_lin + k :])
    pulled = jaxpr.derive(
        ("scan transpose", linear, given, given_ys, n, k),
        lambda: _pulled(jaxpr, linear, given, given_ys, const_f, x_f, params),
    )
    consts, _, xs = _parts(args, params)
    known_consts = [c for c in consts if not is_undefined(c)]
    lin_consts = [c for c in consts if is_undefined(c)]
    sums = [zeros(c.aval.strong()) for c, f in zip(lin_consts, const_f, strict=True) if f]
    outs = iter(
        scan_p.bind(
            *known_consts,
            *sums,
            *(instantiate(ct) for ct, g in zip(cts[:k], given, strict=True) if g),
            *(x for x in xs if not is_undefined(x)),
            *(ct for ct, g in zip(cts[k:], given_ys, strict=True) if g),
            jaxpr=pulled,
            length=params["length"],
            reverse=not params["reverse"],
            num_consts=len(known_consts),
            num_carry=len(sums) + sum(given),
        )
    )
    found_cts = iter([next(outs) if f else None for f in (*const_f, *given, *x_f)])
    return tuple(next(found_cts) if x else None for x in linear)


def _pulled(
    jaxpr: ClosedJaxpr,
    linear: Flags,
    given: Flags,
    given_ys: Flags,
    const_f: Flags,
    x_f: Flags,
    params: dict[str, Any],
) -> ClosedJaxpr:
    """One step backward: cotangents of the consts are added up in the carry."""
    pulled = transpose_with(jaxpr, linear, (*given, *given_ys), (*const_f, *given, *x_f))
    const_l, _, x_l = _parts(linear, params)
    n_known, n_known_xs = const_l.count(False), x_l.count(False)
    n_sums, n_given = sum(const_f), sum(given)
    avals = pulled.in_avals
    sums = pulled.out_avals[:n_sums]
    at_ct = n_known + n_known_xs  # where the cotangents begin among the inputs of `pulled`

    def step(*args: Any) -> list[Any]:
        known_consts, rest = args[:n_known], args[n_known:]
        before, rest = rest[:n_sums], rest[n_sums:]
        carry_cts, rest = rest[:n_given], rest[n_given:]
        known_xs, y_cts = rest[:n_known_xs], rest[n_known_xs:]
        outs = eval_jaxpr(
            pulled.jaxpr, pulled.consts, [*known_consts, *known_xs, *carry_cts, *y_cts]
        )
        added = [add_p.bind1(a, b) for a, b in zip(before, outs[:n_sums], strict=True)]
        return [*added, *outs[n_sums:]]

    step_avals = [
        *avals[:n_known],
        *sums,
        *avals[at_ct : at_ct + n_given],
        *avals[n_known:at_ct],
        *avals[at_ct + n_given :],
    ]
    return trace_closed(step, step_avals, "vjp", pulled.jaxpr.name)


def _transpose_with_known_carry(
    cts: Sequence[Any], args: Sequence[Any], linear: Flags, params: dict[str, Any]
) -> tuple:
    """A carry that starts from a known value has no use for its cotangent."""
    parts, _, (consts, carry, xs) = _known_first(args, linear, params)
    carry = [c if is_undefined(c) else UndefinedPrimal(c.aval.strong()) for c in carry]
    found = _scan_transpose(
        [ct for ct, f in zip(cts, parts.out_linear, strict=True) if f],
        *consts,
        *carry,
        *xs,
        jaxpr=parts.backward,
        num_consts=len(consts),
        num_carry=len(carry),
        **_loop(params),
    )
    # The linear consts, carry and xs in their order; a residual has no cotangent.
    operands = [*consts, *carry, *xs]
    mine = iter([ct for ct, x in zip(found, operands, strict=True) if is_undefined(x)])
    return tuple(
        (ct if x else None)
        for x, ct in zip(linear, [next(mine) if f else None for f in parts.flags], strict=True)
    )


# -- batching -------------------------------------------------------------------------------------


@scan_p.def_batch_call
def _scan_batch(interpreter: BatchingInterpreter, values, bdims, params):
    size, name, jaxpr = interpreter.axis_size, interpreter.axis_name, params["jaxpr"]
    k = params["num_carry"]
    flags, wanted = _carry_fixed(
        tuple(b is not None for b in bdims),
        params,
        lambda f: batch_jaxpr(jaxpr, f, size, name)[1],
    )
    mapped = batch_with(jaxpr, flags, wanted, size, name)
    n_front = params["num_consts"] + k
    args = []
    for i, (v, b, f) in enumerate(zip(values, bdims, flags, strict=True)):
        if not f:
            args.append(v)
        elif i < n_front:
            args.append(to_front(v, b, size))
        else:
            args.append(moveaxis(v, b, 1))  # the steps stay in front
    outs = scan_p.bind(*args, **params | {"jaxpr": mapped})
    return outs, [(0 if i < k else 1) if w else None for i, w in enumerate(wanted)]


# -- map ------------------------------------------------------------------------------------------


@api_boundary
def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """f applied to the slices of arrays along their leading axis, one after the other.

    Where vmap computes all at once, map needs the memory of one.

    Args:
        f: a function of a pytree of arrays.
        xs: a pytree of arrays of the same leading size.
        batch_size: how many slices to compute at once, as under vmap.

    Returns:
        The results, stacked along a new leading axis.

    Example:
        >>> mgefn.lax.map(lambda x: x @ x, mnp.ones((3, 2)))
        Array([2., 2., 2.], dtype=float32)
    """
    if not callable(f):
        raise ArgumentError(f"map: needs a function, got {type(f).__name__}.")
    if batch_size is None:
        return scan(_Mapped(f), (), xs)[1]
    if not hasattr(batch_size, "__index__") or batch_size < 1:
        raise ArgumentError(f"map: batch_size must be an int of 1 or more, got {batch_size!r:.60}.")
    size = operator.index(batch_size)
    leaves, xs_tree = tree.flatten(xs)
    arrays = [_leaf("xs", x) for x in leaves]
    n = _length(arrays, xs, None)
    whole = n // size * size
    parts = []
    if whole or not n:
        chunks = [reshape(x[:whole], (whole // size, size, *x.shape[1:])) for x in arrays]
        _, ys = scan(_Chunk(f, size), (), tree.unflatten(xs_tree, chunks))
        parts.append(tree.map(lambda y: reshape(y, (whole, *y.shape[2:])), ys))
    if n > whole:
        rest = [x[whole:] for x in arrays]
        parts.append(_all_at_once(f, tree.unflatten(xs_tree, rest), n - whole))
    if len(parts) == 1:
        return parts[0]
    return tree.map(lambda a, b: concatenate_p.bind1(a, b, dimension=0), *parts)


class _Mapped(Wrapping):
    """f as a body without a carry."""

    __slots__ = ()

    def __call__(self, _: Any, x: Any) -> tuple[Any, Any]:
        return (), self.__wrapped__(x)


class _Chunk(Wrapping):
    """f under vmap as a body without a carry; `more` is the number of examples."""

    __slots__ = ()

    def __call__(self, _: Any, x: Any) -> tuple[Any, Any]:
        return (), _all_at_once(self.__wrapped__, x, self.more)


def _all_at_once(f: Callable[..., Any], xs: Any, size: int) -> Any:
    leaves, in_tree = tree.flatten(xs)
    out_tree: list[Any] = []

    def flat(*leaves: Any) -> list[Any]:
        outs, structure = tree.flatten(f(tree.unflatten(in_tree, leaves)))
        out_tree[:] = [structure]
        return outs

    outs, bdims = batch_flat(flat, leaves, [0] * len(leaves), size, None, "map")
    fronted = [to_front(o, b, size) for o, b in zip(outs, bdims, strict=True)]
    return tree.unflatten(out_tree[0], fronted)


# -- associative_scan -----------------------------------------------------------------------------


@api_boundary
def associative_scan(
    fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """All partial results of an associative operation along an axis.

    Takes about 2 log2(n) rounds of operations on whole arrays, where scan takes n steps.

    Args:
        fn: (a, b) -> c of pytrees like elems, associative, and elementwise along the axis.
        elems: a pytree of arrays of the same size along the axis.
        reverse: start from the end.
        axis: along which.

    Returns:
        A pytree like elems: element i combines elements 0 to i.

    Example:
        >>> mgefn.lax.associative_scan(mnp.maximum, mnp.array([1, 3, 2, 5]))
        Array([1, 3, 3, 5], dtype=int32)
    """
    if not callable(fn):
        raise ArgumentError(f"associative_scan: fn must be a function, got {type(fn).__name__}.")
    leaves, structure = tree.flatten(elems)
    arrays = [as_array(x, "associative_scan") for x in leaves]
    if not arrays:
        return elems
    for x in arrays:
        if not x.shape:
            raise AxisError(f"associative_scan: needs an axis to run along, got {x.aval}.")
    axes = [normalize_axis("associative_scan", axis, x.ndim) for x in arrays]
    sizes = {x.shape[a] for x, a in zip(arrays, axes, strict=True)}
    if len(sizes) > 1:
        shown = ", ".join(str(x.aval) for x in arrays)
        raise ShapeError(
            f"associative_scan: the arrays must have one size along axis {axis}, got {shown}."
        )
    if reverse:
        arrays = [rev(x, (a,)) for x, a in zip(arrays, axes, strict=True)]

    def combine(a: list[Any], b: list[Any]) -> list[Any]:
        out = fn(tree.unflatten(structure, a), tree.unflatten(structure, b))
        found, got = tree.flatten(out)
        if got != structure:
            raise TreeError(
                f"associative_scan: {fun_place(fn)} must return the structure of its arguments "
                f"{structure}, got {got}."
            )
        made = [as_array(x, "associative_scan") for x in found]
        for x, like in zip(made, a, strict=True):
            if x.shape != like.shape:
                raise ShapeError(
                    f"associative_scan: {fun_place(fn)} must return the shapes of its arguments, "
                    f"got {x.aval} for {like.aval}. It combines many pairs at once, side by side "
                    f"along axis {axis}."
                )
        return made

    def cut(xs: list[Any], start: int, stop: int | None, stride: int = 1) -> list[Any]:
        return [
            slice_in_dim(x, start, x.shape[a] if stop is None else x.shape[a] + stop, stride, a)
            for x, a in zip(xs, axes, strict=True)
        ]

    # Pairs are combined until one element is left; then the way back fills in between. A list of
    # levels, because the depth is a loop's and not the program's.
    levels = []
    level = arrays
    while level[0].shape[axes[0]] >= 2:
        levels.append(level)
        level = combine(cut(level, 0, -1, 2), cut(level, 1, None, 2))
    odd = level
    for level in reversed(levels):
        size = level[0].shape[axes[0]]
        between = combine(cut(odd, 0, -1) if size % 2 == 0 else odd, cut(level, 2, None, 2))
        even = [
            concatenate_p.bind1(first, e, dimension=a)
            for first, e, a in zip(
                [slice_in_dim(x, 0, 1, 1, a) for x, a in zip(level, axes, strict=True)],
                [e.astype(x.dtype) for e, x in zip(between, level, strict=True)],
                axes,
                strict=True,
            )
        ]
        odd = [_interleaved(e, o, a) for e, o, a in zip(even, odd, axes, strict=True)]
    if reverse:
        odd = [rev(x, (a,)) for x, a in zip(odd, axes, strict=True)]
    return tree.unflatten(structure, odd)


def _interleaved(even: Any, odd: Any, axis: int) -> Any:
    """even[0], odd[0], even[1], ... along an axis; even may have one more."""
    n, m = even.shape[axis], odd.shape[axis]
    pairs = [
        expand_dims(slice_in_dim(even, 0, m, 1, axis), axis + 1),
        expand_dims(odd.astype(even.dtype), axis + 1),
    ]
    both = concatenate_p.bind1(*pairs, dimension=axis + 1)
    both = reshape(both, (*even.shape[:axis], 2 * m, *even.shape[axis + 1 :]))
    if n == m:
        return both
    return concatenate_p.bind1(both, slice_in_dim(even, m, n, 1, axis), dimension=axis)


__all__ = ["associative_scan", "map", "scan"]
