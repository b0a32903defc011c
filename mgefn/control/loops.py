"""while_loop and fori_loop: loops whose number of steps may depend on what they compute.

`while_p` holds the condition as a program (consts, carry) -> bool and the body as a program
(consts, carry) -> carry. It has forward mode; reverse mode would need to keep every step, and how
many there are is unknown. fori_loop with known bounds is a scan, which has both.

Under vmap with a condition that differs between examples the loop runs until all examples are done;
those that are done keep their carry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mgefn import dtypes, tree
from mgefn.config import config
from mgefn.control.branching import masked_by, select_examples
from mgefn.control.programs import (
    Flags,
    Wrapping,
    batch_with,
    check_structure,
    check_types,
    first_parameter,
    grown,
    is_staged,
    joined,
    jvp_with,
    known,
    may_not_end,
    paths,
    rearranged,
    run_quietly,
    stage,
    with_exact_numbers,
)
from mgefn.control.scan import donations, scan
from mgefn.core.array import ConcreteArray, as_array, is_arraylike
from mgefn.core.avals import ShapedArray, Zero
from mgefn.core.backends import executable_of
from mgefn.core.interpreter import interpreter_set_to
from mgefn.core.jaxpr import ClosedJaxpr, Eqn, named_axes
from mgefn.core.primitive import Primitive
from mgefn.core.source import fun_place
from mgefn.errors import ArgumentError, DTypeError, ShapeError, TreeError, api_boundary
from mgefn.interpreters.batching import BatchingInterpreter, batch_jaxpr, to_front
from mgefn.interpreters.evaluate import eval_jaxpr
from mgefn.interpreters.jvp import jvp_jaxpr
from mgefn.interpreters.linearize import (
    LinearEqn,
    LinearizeInterpreter,
    LinearizeTracer,
    LinearRecorder,
    LinearTracer,
    Node,
    split_jaxpr,
)
from mgefn.interpreters.staging import trace_closed
from mgefn.ops.elementwise import and_p, convert
from mgefn.ops.shaping import zeros

# operands: consts of the condition, consts of the body, the carry.
# params: cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts
while_p = Primitive("while", weak_result=False, moves=True)


@api_boundary
def while_loop(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any
) -> Any:
    """Apply body_fun again and again, as long as cond_fun holds.

    The same as this loop, in which both functions are traced once:

        val = init_val
        while cond_fun(val):
            val = body_fun(val)
        return val

    Forward mode (jvp, jacfwd) goes through it; reverse mode (grad, vjp) does not, since the number
    of steps is unknown: use fori_loop with known bounds, or scan.

    Args:
        cond_fun: value -> a boolean of rank 0.
        body_fun: value -> value, of the same structure, shapes and dtypes.
        init_val: the first value, a pytree of arrays.

    Returns:
        The first value for which cond_fun does not hold.

    Raises:
        DTypeError: the body changes a dtype, or the condition gives no boolean.
        ShapeError: the body changes a shape.
        TreeError: the body changes the structure.

    Example:
        >>> mgefn.lax.while_loop(lambda x: x < 100, lambda x: x * 2, 3)
        Array(192, dtype=int32, weak_type=True)
    """
    if not (callable(cond_fun) and callable(body_fun)):
        raise ArgumentError(
            "while_loop: cond_fun and body_fun must be functions, got "
            f"{type(cond_fun).__name__} and {type(body_fun).__name__}."
        )
    leaves, init_tree = tree.flatten(init_val)
    carry = [_leaf(x) for x in leaves]
    if config.disable_jit and not is_staged():
        val, done = _in_python(cond_fun, body_fun, tree.unflatten(init_tree, carry))
        if done:
            return val
        leaves, init_tree = tree.flatten(val)
        carry = [_leaf(x) for x in leaves]
    args = tree.structure((init_val,))
    about = body_fun.about if isinstance(body_fun, _WhileStep) else "while_loop"
    while True:
        avals = [x.aval for x in carry]
        body = stage(about, body_fun, args, avals)
        name = first_parameter(body_fun, "val")
        check_structure(about, body_fun, name, init_tree, body.out_tree)
        again = joined(carry, avals, body.closed.out_avals)
        if again is None:
            again = with_exact_numbers(carry, [(body.closed, len(body.captured))])
        if again is None:
            break
        carry = again
    captured = body.captured
    own = isinstance(body_fun, _WhileStep)
    names = [
        *("a value it closes over" for _ in captured),
        *(body_fun.carry_names(init_val) if own else paths(name, init_val)),
    ]
    check_types(about, body_fun, body.closed, names, len(captured), body.closed.jaxpr.outs)
    condition = stage("while_loop", cond_fun, args, avals)
    test = _condition(cond_fun, condition)
    outs = while_p.bind(
        *condition.captured, *captured, *carry, cond_jaxpr=test, body_jaxpr=body.closed,
        cond_nconsts=len(condition.captured), body_nconsts=len(captured),
    )  # fmt: skip
    return tree.unflatten(init_tree, outs)


def _leaf(x: Any) -> Any:
    if not is_arraylike(x):
        raise ArgumentError(
            f"while_loop: the value must be a pytree of arrays, got {type(x).__name__} ({x!r:.60})."
        )
    return as_array(x, "while_loop")


def _condition(cond_fun: Callable[..., Any], staged: Any) -> ClosedJaxpr:
    """The program of the condition, checked to give one boolean."""
    avals = staged.closed.out_avals
    if len(avals) != 1 or staged.out_tree != tree.structure(0):
        raise TreeError(
            f"while_loop: {fun_place(cond_fun)} must return one boolean, got {staged.out_tree}."
        )
    (aval,) = avals
    if aval.shape:
        raise ShapeError(
            f"while_loop: {fun_place(cond_fun)} must return a boolean of rank 0, got {aval}. "
            "Reduce it with any or all."
        )
    if not dtypes.is_bool(aval.dtype):
        raise DTypeError(
            f"while_loop: {fun_place(cond_fun)} must return a boolean, got {aval}. Compare it with "
            "something."
        )
    return staged.closed


def _in_python(
    cond_fun: Callable[..., Any], body_fun: Callable[..., Any], val: Any
) -> tuple[Any, bool]:
    """The loop itself, for disable_jit; False: the condition is not known, the rest is to do."""
    while True:
        test = known(as_array(cond_fun(val), "while_loop"))
        if test is None:
            return val, False
        if not test:
            return val, True
        val = body_fun(val)


@api_boundary
def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    *,
    unroll: int | bool | None = None,
) -> Any:
    """Apply body_fun(i, val) for i from lower to upper, upper excluded.

    The same as this loop, in which body_fun is traced once:

        val = init_val
        for i in range(lower, upper):
            val = body_fun(i, val)
        return val

    Where the bounds are known it is a scan, and reverse mode goes through it. Where they are traced
    it is a while_loop.

    Args:
        lower, upper: integers of rank 0 and of one dtype.
        body_fun: (i, value) -> value, of the same structure, shapes and dtypes.
        init_val: the first value, a pytree of arrays.
        unroll: accepted for JAX's programs, where the bounds are known.

    Returns:
        The last value.

    Raises:
        DTypeError: the bounds are no integers, or the body changes a dtype.
        ShapeError: the body changes a shape.

    Example:
        >>> mgefn.grad(lambda x: mgefn.lax.fori_loop(0, 3, lambda i, v: v * v, x))(1.0)
        Array(8., dtype=float32)
    """
    if not callable(body_fun):
        raise ArgumentError(
            f"fori_loop: body_fun must be a function, got {type(body_fun).__name__}."
        )
    low, high = _bound("lower", lower), _bound("upper", upper)
    dtype = low.dtype
    if low.dtype != high.dtype:
        if low.weak_type and not high.weak_type:
            dtype = high.dtype
        elif not low.weak_type and high.weak_type:
            dtype = low.dtype
        else:
            raise DTypeError(
                f"fori_loop: lower and upper must have one dtype, got {low.aval} and {high.aval}. "
                "Cast one of them."
            )
    first, last = known(low), known(high)
    if first is not None and last is not None:
        start = int(first)
        length = max(int(last) - start, 0)
        i = start if low.weak_type and high.weak_type else convert(first, dtype)
        if config.disable_jit and not length:
            return init_val
        (_, val), _ = scan(_Step(body_fun), (i, init_val), None, length)
        return val
    if unroll not in (None, False, 1):
        raise ArgumentError(
            f"fori_loop: unroll needs known bounds, got unroll={unroll!r} with traced ones. Leave "
            "it out, or mark the bounds static."
        )
    weak = low.weak_type and high.weak_type
    low, high = convert(low, dtype, weak), convert(high, dtype, weak)
    return while_loop(_not_last, _WhileStep(body_fun), (low, high, init_val))[2]


def _bound(name: str, x: Any) -> Any:
    if not is_arraylike(x):
        raise ArgumentError(f"fori_loop: {name} must be an integer, got {type(x).__name__}.")
    value = as_array(x, "fori_loop")
    if value.shape or not dtypes.is_integer(value.dtype):
        raise DTypeError(
            f"fori_loop: {name} must be an integer of rank 0, got {value.aval}. Cast or index it."
        )
    return value


class _Step(Wrapping):
    """The body of the scan: the carry is (i, value)."""

    __slots__ = ()
    about = "fori_loop"

    def __call__(self, carry: Any, _: Any) -> Any:
        i, val = carry
        return (i + 1, _next_value(self.__wrapped__, i, val)), None

    def carry_names(self, carry: Any) -> list[str]:
        f = self.__wrapped__
        return [first_parameter(f, "i"), *paths(first_parameter(f, "val", 1), carry[1])]


class _WhileStep(Wrapping):
    """The body of the while_loop: the carry is (i, upper, value)."""

    __slots__ = ()
    about = "fori_loop"

    def __call__(self, carry: Any) -> Any:
        i, upper, val = carry
        return i + 1, upper, _next_value(self.__wrapped__, i, val)

    def carry_names(self, carry: Any) -> list[str]:
        f = self.__wrapped__
        return [first_parameter(f, "i"), "upper", *paths(first_parameter(f, "val", 1), carry[2])]


def _next_value(body_fun: Callable[[Any, Any], Any], i: Any, val: Any) -> Any:
    """body_fun(i, val), checked to have the structure of val."""
    want, name = tree.structure(val), first_parameter(body_fun, "val", 1)
    new = body_fun(i, val)
    check_structure("fori_loop", body_fun, name, want, tree.structure(new))
    return new


def _not_last(carry: Any) -> Any:
    i, upper, _ = carry
    return i < upper


# -- evaluation -----------------------------------------------------------------------------------


def _parts(items: Sequence[Any], params: dict[str, Any]) -> tuple[list, list, list]:
    """Consts of the condition, consts of the body, and the carry."""
    n, m = params["cond_nconsts"], params["body_nconsts"]
    return list(items[:n]), list(items[n : n + m]), list(items[n + m :])


@while_p.def_abstract_eval
def _while_abstract_eval(*avals, cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts):
    return tuple(body_jaxpr.out_avals)


def step_program(params: dict[str, Any]) -> ClosedJaxpr:
    """Body and condition in one: (consts, carry) -> (bool, carry)."""
    test, body = params["cond_jaxpr"], params["body_jaxpr"]
    n, m = params["cond_nconsts"], params["body_nconsts"]

    def make() -> ClosedJaxpr:
        def step(*args: Any) -> list[Any]:
            of_test, of_body, carry = args[:n], args[n : n + m], args[n + m :]
            new = eval_jaxpr(body.jaxpr, body.consts, [*of_body, *carry])
            (more,) = eval_jaxpr(test.jaxpr, test.consts, [*of_test, *new])
            return [more, *new]

        avals = [*test.in_avals[:n], *body.in_avals]
        return trace_closed(step, avals, "while_loop", body.jaxpr.name)

    return body.derive(("while step", test, n, m), make)


def _programs(params: dict[str, Any]) -> tuple[Any, Any]:
    """The compiled condition, and body and condition in one."""
    n = params["cond_nconsts"] + params["body_nconsts"]
    both = step_program(params)
    carry = both.in_avals[n:]
    return executable_of(params["cond_jaxpr"]), executable_of(both, donated=donations(n, carry, 0))


@while_p.def_evaluate
def _while_evaluate(args, params):
    buffers = [a._data for a in args]
    of_test, of_body, carry = _parts(buffers, params)
    test, step = _programs(params)
    carry = run_quietly(_run, test, step, of_test, [*of_test, *of_body], carry)
    return tuple(
        [
            ConcreteArray(d, a.weak_type)
            for d, a in zip(carry, params["body_jaxpr"].out_avals, strict=True)
        ]
    )


def _run(
    test: Any,
    step: Any,
    of_test: list[np.ndarray],
    consts: list[np.ndarray],
    carry: list[np.ndarray],
) -> list[np.ndarray]:
    (more,) = test.run([*of_test, *carry])
    if not more:
        return carry
    frame = step.hold()
    run, donors = frame.run, None
    owned = step.owned if step.takes_donors else None
    try:
        while more:
            buffers = [*consts, *carry]
            if owned is not None:
                # Nothing but `buffers` may hold a carry that is written over.
                carry = None  # type: ignore[assignment]  # lets go of the arrays
                donors = owned(buffers)
            more, *carry = run(buffers, donors)
            donors = None
    finally:
        step.release(frame)
    return carry


def _while_scratch(eqn: Eqn) -> int:
    test, step = _programs(eqn.params)
    carry = sum(v.aval.nbytes for v in eqn.out_binders)
    return max(
        test.memory_analysis().peak_memory_in_bytes,
        step.memory_analysis().peak_memory_in_bytes + carry,
    )


while_p.scratch = _while_scratch


# -- derivatives ----------------------------------------------------------------------------------


def _pushed(flags: Flags, params: dict[str, Any]) -> tuple[Flags, dict[str, Any]]:
    """Which carries have a tangent, and the params of the loop that carries them too.

    The operands of that loop: consts of the condition; consts of the body and their tangents; the
    carry and its tangents.
    """
    body, test = params["body_jaxpr"], params["cond_jaxpr"]
    n, m = params["cond_nconsts"], params["body_nconsts"]
    of_body = flags[n : n + m]
    carry = grown(flags[n + m :], lambda c: jvp_jaxpr(body, (*of_body, *c))[1])

    def make() -> dict[str, Any]:
        pushed = jvp_with(body, (*of_body, *carry), carry)
        k, d = len(carry), sum(of_body)
        ins = [
            *range(m),
            *range(m + k, m + k + d),
            *range(m, m + k),
            *range(m + k + d, m + k + d + sum(carry)),
        ]
        dots = [a.strong() for a, f in zip(body.in_avals[m:], carry, strict=True) if f]
        return {
            "cond_jaxpr": rearranged(test, [*range(n + k), *dots], [0]),
            "body_jaxpr": rearranged(pushed, ins, range(k + sum(carry))),
            "cond_nconsts": n,
            "body_nconsts": m + d,
        }

    return carry, body.derive(("while jvp", test, flags, n, m), make)


def _with_tangents(
    primals: Sequence[Any], tangents: Sequence[Any], carry_flags: Flags, params: dict[str, Any]
) -> list[Any]:
    """Operands of the loop of `_pushed`; tangents may be None or Zero."""
    of_test, of_body, carry = _parts(primals, params)
    _, body_dots, carry_dots = _parts(tangents, params)

    def there(t: Any) -> bool:
        return t is not None and t.__class__ is not Zero

    return [
        *of_test,
        *of_body,
        *(t for t in body_dots if there(t)),
        *carry,
        *(
            t if there(t) else zeros(c.aval.strong())
            for c, t, f in zip(carry, carry_dots, carry_flags, strict=True)
            if f
        ),
    ]


@while_p.def_jvp(symbolic_zeros=True)
def _while_jvp(primals, tangents, **params):
    flags = tuple(t.__class__ is not Zero for t in tangents)
    carry, pushed = _pushed(flags, params)
    outs = while_p.bind(*_with_tangents(primals, tangents, carry, params), **pushed)
    k = len(carry)
    dots = iter(outs[k:])
    return outs[:k], [
        next(dots) if f else Zero(o.aval) for f, o in zip(carry, outs[:k], strict=True)
    ]


@while_p.def_linearize
def _while_linearize(interpreter: LinearizeInterpreter, primals, nodes, params):
    carry, pushed = _pushed(tuple(n is not None for n in nodes), params)
    outs = while_p.bind(*primals, **params)
    if not any(carry):
        return outs
    # The derivative is the loop itself with tangents: it can be pushed forward, not pulled back.
    values = [Node(o.shape, o.dtype) for o in outs]
    dots = [Node(o.shape, o.dtype) if f else None for o, f in zip(outs, carry, strict=True)]
    interpreter.tape.append(
        LinearEqn(
            while_p,
            _with_tangents(primals, nodes, carry, params),
            pushed,
            [*values, *(d for d in dots if d is not None)],
        )
    )
    return tuple(
        o if d is None else LinearizeTracer(interpreter, o, d)
        for o, d in zip(outs, dots, strict=True)
    )


@while_p.def_record
def _while_record(recorder: LinearRecorder, args, params):
    """A loop on values and tangents, as the jvp of a while_loop in a custom rule."""
    test, body = params["cond_jaxpr"], params["body_jaxpr"]
    n, m = params["cond_nconsts"], params["body_nconsts"]
    linear = tuple(x.__class__ is LinearTracer and x.interpreter is recorder for x in args)
    of_body = linear[n : n + m]
    flags = grown(linear[n + m :], lambda c: split_jaxpr(body, (*of_body, *c)).out_nonzero)
    used = {a for e in test.eqns for a in e.inputs} | set(test.jaxpr.outs)
    if any(v in used for v, f in zip(test.jaxpr.in_binders[n:], flags, strict=True) if f):
        raise ArgumentError(
            "while_loop: whether a loop goes on must not depend on a tangent in a derivative rule."
        )

    def make() -> dict[str, Any]:
        """The loop on what is known."""
        known = split_jaxpr(body, (*of_body, *flags))
        carry = [i for i, f in enumerate(flags) if not f]
        own = [i for i, f in enumerate(known.out_nonzero) if not f]
        program = known.primal
        return {
            "cond_jaxpr": _without(test, (*(False,) * n, *flags)),
            "body_jaxpr": rearranged(
                program, range(len(program.in_avals)), [own.index(i) for i in carry]
            ),
            "cond_nconsts": n,
            "body_nconsts": of_body.count(False),
        }

    new = body.derive(("while split", test, linear, n, m), make)
    of_test, body_consts, carry = _parts(args, params)
    with interpreter_set_to(recorder.outer):
        outs = while_p.bind(
            *of_test,
            *(x for x, f in zip(body_consts, of_body, strict=True) if not f),
            *(x for x, f in zip(carry, flags, strict=True) if not f),
            **new,
        )
    nodes = [Node(a.shape, a.dtype) for a in body.out_avals]
    if any(flags):
        inputs = [x.node if f else x for x, f in zip(args, linear, strict=True)]
        recorder.tape.append(LinearEqn(while_p, inputs, params, nodes))
    values = iter(outs)
    return tuple(
        LinearTracer(recorder, x) if f else next(values) for x, f in zip(nodes, flags, strict=True)
    )


def _without(closed: ClosedJaxpr, gone: Sequence[bool]) -> ClosedJaxpr:
    """The program without inputs that it does not use."""
    kept = [i for i, g in enumerate(gone) if not g]
    return rearranged(closed, kept, range(len(closed.out_avals)))


@while_p.def_transpose(symbolic_zeros=True)
def _while_transpose(cts, *args, **params):
    raise ArgumentError(
        "while_loop: reverse mode (grad, vjp) must know the number of steps before the loop runs, "
        "got a while_loop or a fori_loop with traced bounds. Use scan, or fori_loop with Python "
        "ints as bounds; or forward mode (jvp, jacfwd)."
    )


# -- batching -------------------------------------------------------------------------------------


@while_p.def_batch_call
def _while_batch(interpreter: BatchingInterpreter, values, bdims, params):
    size, name = interpreter.axis_size, interpreter.axis_name
    test, body = params["cond_jaxpr"], params["body_jaxpr"]
    batched = tuple(b is not None for b in bdims)
    of_test, of_body, carry = _parts(batched, params)
    flags = grown(carry, lambda c: batch_jaxpr(body, (*of_body, *c), size, name)[1])
    test_flags = (*of_test, *flags)
    varies = batch_jaxpr(test, test_flags, size, name)[1][0]
    if varies:
        flags = (True,) * len(flags)
        test_flags = (*of_test, *flags)
    args = [v if b is None else to_front(v, b, size) for v, b in zip(values, bdims, strict=True)]
    n_consts = params["cond_nconsts"] + params["body_nconsts"]
    args[n_consts:] = [
        to_front(v, None, size) if f and not b else v
        for v, f, b in zip(args[n_consts:], flags, carry, strict=True)
    ]
    out_bdims = [0 if f else None for f in flags]
    one = batch_with(test, test_flags, (varies,), size, name)
    many = batch_with(body, (*of_body, *flags), flags, size, name)
    if not varies:
        return while_p.bind(*args, **params | {"cond_jaxpr": one, "body_jaxpr": many}), out_bdims
    if not size:
        return args[n_consts:], out_bdims  # no example, no step
    consts, state = args[:n_consts], args[n_consts:]
    first = eval_jaxpr(one.jaxpr, one.consts, [*_parts(args, params)[0], *state])[0]
    # A collective reads the carry of all examples, also of those that are done.
    together = name is not None and name in named_axes(while_p, params)
    new = body.derive(
        ("while of a batch", test, batched, size, name),
        lambda: _of_batch(one, many, of_body, may_not_end(body) and not together, params),
    )
    return while_p.bind(*consts, first, *state, **new)[1:], out_bdims


def _of_batch(
    one: ClosedJaxpr, many: ClosedJaxpr, of_body: Sequence[bool], nested: bool, params: dict
) -> dict[str, Any]:
    """A loop with one more carry in front: which examples still run."""
    n, m = params["cond_nconsts"], params["body_nconsts"]
    carry_avals = many.in_avals[m:]
    runs = ShapedArray((carry_avals[0].shape[0],), np.dtype(bool))

    def test(more: Any, *state: Any) -> list[Any]:
        return [more.any()]

    def body(*args: Any) -> list[Any]:
        consts, more, old = args[: n + m], args[n + m], args[n + m + 1 :]
        ins = [*consts[n:], *old]
        if nested:
            # A loop inside might not end for what an example that is done carries.
            ins = masked_by(more, ins, (*of_body, *(True,) * len(old)))
        new = eval_jaxpr(many.jaxpr, many.consts, ins)
        state = [select_examples(more, x, y) for x, y in zip(new, old, strict=True)]
        (again,) = eval_jaxpr(one.jaxpr, one.consts, [*consts[:n], *state])
        return [and_p.bind1(more, again), *state]

    avals = [*one.in_avals[:n], *many.in_avals[:m], runs, *carry_avals]
    return {
        "cond_jaxpr": trace_closed(test, [runs, *carry_avals], "vmap", one.jaxpr.name),
        "body_jaxpr": trace_closed(body, avals, "vmap", many.jaxpr.name),
        "cond_nconsts": 0,
        "body_nconsts": n + m,
    }


__all__ = ["fori_loop", "while_loop"]
