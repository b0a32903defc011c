"""custom_root and custom_linear_solve: derivatives of a solution from the equation it solves.

How a solver finds a solution has no part in its derivatives. Where f(x, a) = 0, the tangent of x
solves the linear equation f_x(x_dot) = -f_a(a_dot); where A x = b, that of x solves
A x_dot = b_dot - A_dot x, and the cotangent of b solves the transposed equation. So a solver may
hold while_loops and callbacks, and reverse mode goes through all the same.

Both are compositions: `custom_root` is a custom_jvp function whose rule ends in the user's tangent
solve. `linear_solve_p` holds the four programs of a linear solve: the map, its transpose, and a
solver for each; its transpose is itself with the two pairs exchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mgefn import dtypes, tree
from mgefn.control.custom_rules import custom_jvp
from mgefn.control.programs import (
    Staged,
    batch_with,
    rearranged,
    stage,
)
from mgefn.core.array import as_array
from mgefn.core.avals import ShapedArray, Zero, is_undefined
from mgefn.core.backends import executable_of
from mgefn.core.jaxpr import ClosedJaxpr, Eqn
from mgefn.core.primitive import Primitive
from mgefn.core.source import fun_place
from mgefn.errors import DTypeError, TreeError, UnsupportedError, api_boundary
from mgefn.interpreters.batching import BatchingInterpreter, to_front
from mgefn.interpreters.evaluate import eval_jaxpr
from mgefn.interpreters.jvp import instantiate, jvp_jaxpr
from mgefn.interpreters.linearize import linearize_flat
from mgefn.ops.elementwise import neg_p, sub_p
from mgefn.ops.shaping import zeros

# operands: the consts of matvec, vecmat, solve and transpose_solve, then b.
# params: jaxprs, the four programs (consts, x) -> y, the last two None where there is no
# transposed solver; n_consts, how many each has. The outputs of the solvers beyond those like b are
# auxiliary data.
linear_solve_p = Primitive("custom_linear_solve", weak_result=False, moves=True)


def _check_like(about: str, fun: Callable[..., Any], what: str, want: Any, got: Staged) -> None:
    """The output must have the structure and types of the input."""
    in_tree, avals = want
    if got.out_tree != in_tree:
        raise TreeError(
            f"{about}: {fun_place(fun)} must return the structure of {what}, {in_tree}, got "
            f"{got.out_tree}: {tree.structure_difference(in_tree, got.out_tree)}."
        )
    for a, b in zip(avals, got.closed.out_avals, strict=True):
        if not a.same_type(b):
            raise DTypeError(
                f"{about}: {fun_place(fun)} must return the types of {what}, got {b} for {a}. Cast "
                "or reshape it."
            )


# -- custom_linear_solve --------------------------------------------------------------------------


@api_boundary
def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    transpose_solve: Callable[[Callable[[Any], Any], Any], Any] | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """Solve matvec(x) = b by a solver of one's own, differentiated by the equation.

    Args:
        matvec: a linear function of a pytree like b; it may close over traced values, and
            derivatives by these are right.
        b: the right-hand side, a pytree of arrays.
        solve: (matvec, b) -> x; it needs no derivative of its own.
        transpose_solve: (vecmat, ct) -> x for the transposed map, for reverse mode. The map is
            made from matvec.
        symmetric: matvec is its own transpose, and solve does for both.
        has_aux: the solvers return (x, auxiliary data).

    Returns:
        x, or (x, auxiliary data).

    Raises:
        TreeError, DTypeError: matvec or a solver returns what is not like b.
        UnsupportedError: in reverse mode without transpose_solve and symmetric.

    Example:
        >>> halve = lambda matvec, b: b / 2
        >>> mgefn.lax.custom_linear_solve(lambda x: 2 * x, mnp.ones(2), halve, symmetric=True)
        Array([0.5, 0.5], dtype=float32)
    """
    about = "custom_linear_solve"
    if transpose_solve is None and symmetric:
        transpose_solve = solve
    leaves, b_tree = tree.flatten(b)
    arrays = [as_array(x, about) for x in leaves]
    avals = [x.aval for x in arrays]
    in_tree = tree.structure((b,))
    forward = stage(about, matvec, in_tree, avals)
    _check_like(about, matvec, "b", (b_tree, avals), forward)

    def vecmat(ct: Any) -> Any:
        cts, _ = tree.flatten(ct)
        zero = [instantiate(Zero(a.strong())) for a in avals]
        closed = forward.closed

        def fun(*xs: Any) -> list[Any]:
            return eval_jaxpr(closed.jaxpr, closed.consts, [*forward.captured, *xs])

        _, linear_map = linearize_flat(fun, zero, about)
        found = linear_map.transpose([as_array(c, about) for c in cts])
        return tree.unflatten(b_tree, [instantiate(c) for c in found])

    backward = forward if symmetric else stage(about, vecmat, in_tree, avals)
    solver = _solver(about, solve, matvec, in_tree, avals, has_aux, b_tree)
    other = None
    if transpose_solve is not None:
        map_back = matvec if symmetric else vecmat
        other = _solver(about, transpose_solve, map_back, in_tree, avals, has_aux, b_tree)
    parts = (forward, backward, solver, other)
    outs = linear_solve_p.bind(
        *(c for p in parts if p is not None for c in p.captured),
        *arrays,
        jaxprs=tuple(None if p is None else p.closed for p in parts),
        n_consts=tuple(0 if p is None else len(p.captured) for p in parts),
    )
    return tree.unflatten(solver.out_tree, outs)


def _solver(
    about: str,
    solve: Callable[..., Any],
    linear: Callable[..., Any],
    in_tree: Any,
    avals: Sequence[ShapedArray],
    has_aux: bool,
    b_tree: Any,
) -> Staged:
    staged = stage(about, lambda b: solve(linear, b), in_tree, avals)
    out = staged.out
    if has_aux:
        if not isinstance(out, (tuple, list)) or len(out) != 2:
            raise TreeError(
                f"{about}: {fun_place(solve)} must return (x, auxiliary data) where has_aux is "
                f"set, got {staged.out_tree}."
            )
        out = out[0]
    like = Staged(staged.closed, (), tree.structure(out))
    if like.out_tree == b_tree:
        n = len(avals)
        short = rearranged(staged.closed, range(len(staged.closed.in_avals)), range(n))
        like = Staged(short, (), like.out_tree)
    _check_like(about, solve, "b", (b_tree, avals), like)
    return staged


def _split(items: Sequence[Any], n_consts: Sequence[int]) -> list[list[Any]]:
    """Consts of the four programs, and b."""
    parts, at = [], 0
    for n in n_consts:
        parts.append(list(items[at : at + n]))
        at += n
    return [*parts, list(items[at:])]


def solve_program(params: dict[str, Any]) -> ClosedJaxpr:
    """The solver as a program of all operands."""
    solve, n_consts = params["jaxprs"][2], params["n_consts"]
    n_b = len(solve.in_avals) - n_consts[2]

    def make() -> ClosedJaxpr:
        ins: list[Any] = []
        for k, (closed, n) in enumerate(zip(params["jaxprs"], n_consts, strict=True)):
            if k == 2:
                ins += range(n)
            elif closed is not None:
                ins += closed.in_avals[:n]
        ins += range(n_consts[2], n_consts[2] + n_b)
        return rearranged(solve, ins, range(len(solve.out_avals)))

    return solve.derive(("linear solve", params["jaxprs"], n_consts), make)


def _scratch(eqn: Eqn) -> int:
    memory = executable_of(solve_program(eqn.params)).memory_analysis()
    return max(memory.peak_memory_in_bytes - memory.output_size_in_bytes, 0)


# Not `inlined`: the solver is no derivative of the map, so no interpreter may read it as one.
linear_solve_p.scratch = _scratch


@linear_solve_p.def_evaluate
def _linear_solve_evaluate(args, params):
    return executable_of(solve_program(params))(args)


@linear_solve_p.def_abstract_eval
def _linear_solve_abstract_eval(*avals, jaxprs, n_consts):
    return tuple(jaxprs[2].out_avals)


@linear_solve_p.def_jvp(symbolic_zeros=True)
def _linear_solve_jvp(primals, tangents, **params):
    matvec = params["jaxprs"][0]
    outs = linear_solve_p.bind(*primals, **params)
    *const_parts, _ = _split(primals, params["n_consts"])
    dots, *_, b_dots = _split(tangents, params["n_consts"])
    x = outs[: len(b_dots)]
    flags = tuple(t.__class__ is not Zero for t in dots)
    rhs = list(b_dots)
    if any(flags):
        pushed, varies = jvp_jaxpr(matvec, (*flags, *(False,) * len(x)))
        found = iter(
            eval_jaxpr(
                pushed.jaxpr,
                pushed.consts,
                [*const_parts[0], *x, *(t for t in dots if t.__class__ is not Zero)],
            )[len(x) :]
        )
        for i, v in enumerate(varies):
            if v:
                moved = next(found)
                if rhs[i].__class__ is Zero:
                    rhs[i] = neg_p.bind1(moved)
                else:
                    rhs[i] = sub_p.bind1(rhs[i], moved)
    if all(t.__class__ is Zero for t in rhs):
        return outs, [Zero(o.aval) for o in outs]
    consts = [c for part in const_parts for c in part]
    x_dots = linear_solve_p.bind(*consts, *(instantiate(t) for t in rhs), **params)[: len(x)]
    return outs, [*x_dots, *(Zero(o.aval) for o in outs[len(x) :])]


@linear_solve_p.def_transpose(symbolic_zeros=True)
def _linear_solve_transpose(cts, *args, jaxprs, n_consts):
    *consts, b = _split(args, n_consts)
    if any(is_undefined(c) for part in consts for c in part):
        raise UnsupportedError(
            "custom_linear_solve: is linear in b only, got a transposition in what matvec closes "
            "over. Differentiate instead."
        )
    if jaxprs[3] is None:
        raise UnsupportedError(
            "custom_linear_solve: reverse mode needs a solver of the transposed equation, got "
            "none. Pass transpose_solve, or symmetric=True where matvec is its own transpose."
        )
    given = [instantiate(ct) for ct in cts[: len(b)]]
    matvec, vecmat, solve, other = consts
    found = linear_solve_p.bind(
        *vecmat, *matvec, *other, *solve, *given,
        jaxprs=(jaxprs[1], jaxprs[0], jaxprs[3], jaxprs[2]),
        n_consts=(n_consts[1], n_consts[0], n_consts[3], n_consts[2]),
    )  # fmt: skip
    return (*(None for part in consts for _ in part), *found[: len(b)])


@linear_solve_p.def_batch_call
def _linear_solve_batch(interpreter: BatchingInterpreter, values, bdims, params):
    size, name = interpreter.axis_size, interpreter.axis_name
    n_consts = params["n_consts"]
    n_b = len(values) - sum(n_consts)
    args = [
        to_front(v, b, size) if b is not None or i >= len(values) - n_b else v
        for i, (v, b) in enumerate(zip(values, bdims, strict=True))
    ]
    *batched, _ = _split([b is not None for b in bdims], n_consts)
    mapped = []
    for closed, flags in zip(params["jaxprs"], batched, strict=True):
        if closed is None:
            mapped.append(None)
            continue
        wanted = (True,) * len(closed.out_avals)
        mapped.append(batch_with(closed, (*flags, *(True,) * n_b), wanted, size, name))
    outs = linear_solve_p.bind(*args, jaxprs=tuple(mapped), n_consts=n_consts)
    return outs, [0] * len(outs)


# -- custom_root ----------------------------------------------------------------------------------


@api_boundary
def custom_root(
    f: Callable[[Any], Any],
    initial_guess: Any,
    solve: Callable[[Callable[[Any], Any], Any], Any],
    tangent_solve: Callable[[Callable[[Any], Any], Any], Any],
    has_aux: bool = False,
) -> Any:
    """Find a root of f by a solver of one's own, differentiated by the implicit function theorem.

    Args:
        f: a function of a pytree, which returns one of the same structure and types. The root is
            differentiated by what f closes over.
        initial_guess: where the solver starts; the root has no derivative by it.
        solve: (f, initial_guess) -> root; it needs no derivative of its own.
        tangent_solve: (g, y) -> x with g(x) = y, where g is f linearized at the root. For a scalar
            `lambda g, y: y / g(1.0)`.
        has_aux: solve returns (root, auxiliary data).

    Returns:
        The root, or (root, auxiliary data).

    Raises:
        TreeError, DTypeError: f or a solver returns what is not like initial_guess.

    Example:
        >>> def newton(f, x):
        ...     step = lambda i, x: x - f(x) / mgefn.jvp(f, (x,), (1.0,))[1]
        ...     return mgefn.lax.fori_loop(0, 10, step, x)
        >>> def cube_root(a):
        ...     divide = lambda g, y: y / g(1.0)
        ...     return mgefn.lax.custom_root(lambda x: x**3 - a, 2.0, newton, divide)
        >>> print(f"{cube_root(8.0):.4f} {mgefn.grad(cube_root)(8.0):.4f}")
        2.0000 0.0833
    """
    about = "custom_root"
    leaves, x_tree = tree.flatten(initial_guess)
    guess = [as_array(x, about) for x in leaves]
    avals = [x.aval for x in guess]
    one = tree.structure((initial_guess,))
    function = stage(about, f, one, avals)
    _check_like(about, f, "initial_guess", (x_tree, avals), function)
    solver = _solver(about, solve, f, one, avals, has_aux, x_tree)

    def tangent(x: Any, y: Any) -> Any:
        def flat(*xs: Any) -> list[Any]:
            return [as_array(o, about) for o in tree.leaves(f(tree.unflatten(x_tree, xs)))]

        _, linear_map = linearize_flat(flat, tree.leaves(x), about)

        def g(v: Any) -> Any:
            dots = [as_array(d, about) for d in tree.leaves(v)]
            return tree.unflatten(x_tree, [instantiate(t) for t in linear_map.jvp(dots)])

        return tangent_solve(g, y)

    strong = [a.strong() for a in avals]
    both = tree.structure((initial_guess, initial_guess))
    derivative = stage(about, tangent, both, [*avals, *strong])
    _check_like(about, tangent_solve, "initial_guess", (x_tree, avals), derivative)
    n = len(guess)

    @custom_jvp
    def root(of_f: list[Any], of_solve: list[Any], of_tangent: list[Any], start: list[Any]) -> Any:
        closed = solver.closed
        return tuple(eval_jaxpr(closed.jaxpr, closed.consts, [*of_solve, *start]))

    def rule(primals: Any, tangents: Any) -> Any:
        of_f, _, of_tangent, _ = primals
        outs = root(*primals)
        x = list(outs[:n])
        flags = tuple(dtypes.is_inexact(c.dtype) for c in of_f)
        dots = [t for t, flag in zip(tangents[0], flags, strict=True) if flag]
        pushed, varies = jvp_jaxpr(function.closed, (*flags, *(False,) * n))
        found = iter(eval_jaxpr(pushed.jaxpr, pushed.consts, [*of_f, *x, *dots])[n:])
        y = [
            neg_p.bind1(next(found)) if v else instantiate(Zero(a))
            for v, a in zip(varies, strong, strict=True)
        ]
        closed = derivative.closed
        x_dots = eval_jaxpr(closed.jaxpr, closed.consts, [*of_tangent, *x, *y])
        rest = [
            zeros(o.aval) if dtypes.is_inexact(o.dtype) else np.zeros(o.shape, dtypes.float0)
            for o in outs[n:]
        ]
        return outs, (*x_dots, *rest)

    root.defjvp(rule)
    outs = root(list(function.captured), list(solver.captured), list(derivative.captured), guess)
    return tree.unflatten(solver.out_tree, outs)


__all__ = ["custom_linear_solve", "custom_root"]
