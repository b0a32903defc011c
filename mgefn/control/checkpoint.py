"""checkpoint: keep a function's inputs for the backward pass and compute the rest again.

`remat_p` is a call of a staged program, as `jit_p` is. Only its linearization differs: the tape
gets one `remat_p` equation whose program computes the residuals again from the inputs, and from
what the policy saves, before it is linear in the tangents. Reading that equation backwards runs
the recomputation first. `optimization_barrier_p` stands at its start, so that no compiler pass
finds out that it is the forward computation over again.

A policy is a function (primitive, *avals, **params) -> bool: may this operation's outputs be saved?
"""

from __future__ import annotations

import functools
import operator
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from mgefn import tree
from mgefn.config import config
from mgefn.control.custom_rules import closes_over_tracers
from mgefn.control.programs import with_exact_numbers
from mgefn.core.array import as_array, described, is_arraylike
from mgefn.core.avals import ShapedArray, Zero, is_undefined
from mgefn.core.backends import executable_of
from mgefn.core.interpreter import bound_axes
from mgefn.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Var, has_effect
from mgefn.core.primitive import Primitive
from mgefn.core.source import fun_name
from mgefn.errors import ArgumentError, StaticArgumentError, api_boundary
from mgefn.interpreters.batching import BatchingInterpreter, batch_jaxpr, to_front
from mgefn.interpreters.evaluate import eval_jaxpr
from mgefn.interpreters.jit import jit_p
from mgefn.interpreters.jvp import jvp_jaxpr
from mgefn.interpreters.linearize import (
    LinearEqn,
    LinearizeInterpreter,
    LinearizeTracer,
    Node,
    linearize_jaxpr,
)
from mgefn.interpreters.staging import trace, trace_closed
from mgefn.interpreters.transposition import transpose_jaxpr
from mgefn.tree.exact import exact

Policy = Callable[..., bool]


class ProgramCache(dict):
    """The programs of one checkpointed function; a class, so that clear_caches can find them."""


caches: weakref.WeakValueDictionary[int, ProgramCache] = weakref.WeakValueDictionary()  # by id

_CACHE_BOUND = 256  # signatures kept per checkpointed function


# -- checkpoint_name ------------------------------------------------------------------------------

name_p = Primitive("name", linear=True, view=True, moves=True)  # params: name


@api_boundary
def checkpoint_name(x: Any, name: str) -> Any:
    """Name a value inside a checkpointed function, for policies that save by name.

    Args:
        x: a pytree of arrays.
        name: what the policies call it.

    Returns:
        x, unchanged.

    Example:
        >>> f = mgefn.checkpoint(
        ...     lambda x: mnp.sin(mgefn.checkpoint_name(mnp.exp(x), "e")),
        ...     policy=mgefn.checkpoint_policies.save_only_these_names("e"),
        ... )
        >>> mgefn.grad(f)(0.0)
        Array(0.5403023, dtype=float32)
    """
    if not isinstance(name, str):
        raise ArgumentError(f"checkpoint_name: the name must be a str, got {type(name).__name__}.")
    return tree.map(lambda v: name_p.bind1(as_array(v, "checkpoint_name"), name=name), x)


@name_p.def_abstract_eval
def _name_abstract_eval(x: ShapedArray, *, name):
    return (x,)


@name_p.def_transpose
def _name_transpose(cts, x, *, name):
    return cts


@name_p.def_batch
def _name_batch(args, bdims, *, name):
    return name_p.bind(*args, name=name), bdims


# -- optimization_barrier -------------------------------------------------------------------------

# Any number of operands, given back as they are; the compiler sees new values in them.
optimization_barrier_p = Primitive(
    "optimization_barrier", linear=True, weak_result=False, opaque=True, moves=True
)

optimization_barrier_p.barrier = True


@api_boundary
def optimization_barrier(operand: Any) -> Any:
    """Give back a pytree of arrays that no compiler pass identifies with the operand.

    What is computed from the result is not merged with the same computation on the operand.
    """
    leaves, structure = tree.flatten(operand)
    arrays = [as_array(x, "optimization_barrier") for x in leaves]
    return tree.unflatten(structure, optimization_barrier_p.bind(*arrays) if arrays else [])


@optimization_barrier_p.def_abstract_eval
def _barrier_abstract_eval(*avals: ShapedArray):
    return avals


@optimization_barrier_p.def_transpose(symbolic_zeros=True)
def _barrier_transpose(cts, *args):
    given = [ct for ct in cts if ct.__class__ is not Zero]
    passed = iter(optimization_barrier_p.bind(*given) if given else ())
    return tuple(None if ct.__class__ is Zero else next(passed) for ct in cts)


@optimization_barrier_p.def_batch
def _barrier_batch(args, bdims):
    return optimization_barrier_p.bind(*args), bdims


def name_kernel(x: Any, *, name: str, outs: tuple = (None,)) -> tuple:
    """The NumPy backend's row for name_p."""
    if outs[0] is None:
        return (x,)
    outs[0][...] = x
    return (outs[0],)


def barrier_kernel(*arrays: Any, outs: tuple = ()) -> tuple:
    """The NumPy backend's row for optimization_barrier_p."""
    result = []
    for i, x in enumerate(arrays):
        out = outs[i] if i < len(outs) else None
        if out is not None:
            out[...] = x
        result.append(x if out is None else out)
    return tuple(result)


# -- remat ----------------------------------------------------------------------------------------

# params: jaxpr; policy, a function or None for saving nothing; prevent_cse; name
remat_p = Primitive("checkpoint", weak_result=False, moves=True)


@remat_p.def_evaluate
def _remat_evaluate(args, params):
    return executable_of(params["jaxpr"])(args)


@remat_p.def_abstract_eval
def _remat_abstract_eval(*avals, jaxpr: ClosedJaxpr, **params):
    return tuple(jaxpr.out_avals)


@remat_p.def_jvp(symbolic_zeros=True)
def _remat_jvp(primals, tangents, *, jaxpr: ClosedJaxpr, **params):
    nonzero = tuple(t.__class__ is not Zero for t in tangents)
    pushed, out_nonzero = jvp_jaxpr(jaxpr, nonzero)
    given = [t for t in tangents if t.__class__ is not Zero]
    outs = remat_p.bind(*primals, *given, jaxpr=pushed, **params)
    n = len(out_nonzero)
    rest = iter(outs[n:])
    return outs[:n], [
        next(rest) if nz else Zero(o.aval) for nz, o in zip(out_nonzero, outs[:n], strict=True)
    ]


@remat_p.def_linearize
def _remat_linearize(interpreter: LinearizeInterpreter, primals, nodes, params):
    jaxpr, policy = params["jaxpr"], params["policy"]
    parts = _split(
        jaxpr, tuple(n is not None for n in nodes), policy, params["prevent_cse"], params["name"]
    )
    both = remat_p.bind(*primals, **params | {"jaxpr": parts.forward})
    n = len(parts.out_nonzero)
    outs, saved = both[:n], both[n:]
    out_nodes = [
        Node(o.shape, o.dtype) if nz else None
        for o, nz in zip(outs, parts.out_nonzero, strict=True)
    ]
    inputs = [*(primals[i] for i in parts.needed), *saved, *(x for x in nodes if x is not None)]
    interpreter.tape.append(
        LinearEqn(
            remat_p,
            inputs,
            params | {"jaxpr": parts.backward},
            [x for x in out_nodes if x is not None],
        )
    )
    return tuple(
        o if x is None else LinearizeTracer(interpreter, o, x)
        for o, x in zip(outs, out_nodes, strict=True)
    )


@remat_p.def_transpose(symbolic_zeros=True)
def _remat_transpose(cts, *args, jaxpr: ClosedJaxpr, **params):
    linear = tuple(is_undefined(a) for a in args)
    given = tuple(ct.__class__ is not Zero for ct in cts)
    pulled, nonzero = transpose_jaxpr(jaxpr, linear, given)
    known = [a for a, x in zip(args, linear, strict=True) if not x]
    outs = iter(
        remat_p.bind(
            *known, *(ct for ct in cts if ct.__class__ is not Zero), jaxpr=pulled, **params
        )
    )
    found = iter([next(outs) if nz else None for nz in nonzero])
    return tuple(next(found) if x else None for x in linear)


@remat_p.def_batch_call
def _remat_batch(interpreter: BatchingInterpreter, values, bdims, params):
    size = interpreter.axis_size
    batched = tuple(b is not None for b in bdims)
    mapped, out_batched = batch_jaxpr(params["jaxpr"], batched, size, interpreter.axis_name)
    args = [v if b is None else to_front(v, b, size) for v, b in zip(values, bdims, strict=True)]
    outs = remat_p.bind(*args, **params | {"jaxpr": mapped})
    return outs, [0 if b else None for b in out_batched]


def _inlined(params: dict[str, Any]) -> ClosedJaxpr:
    return params["jaxpr"]


remat_p.inlined = _inlined


class _Parts:
    """A program taken apart for its backward pass.

    forward: inputs -> (outs, saved). backward: (the inputs at `needed`, saved, tangents of the
    nonzero inputs) -> tangents of the nonzero outs.
    """

    __slots__ = ("backward", "forward", "needed", "out_nonzero")

    def __init__(
        self,
        forward: ClosedJaxpr,
        backward: ClosedJaxpr,
        needed: list[int],
        out_nonzero: list[bool],
    ):
        self.forward = forward
        self.backward = backward
        self.needed = needed
        self.out_nonzero = out_nonzero


def _split(
    closed: ClosedJaxpr,
    nonzero: tuple[bool, ...],
    policy: Policy | None,
    prevent_cse: bool,
    name: str,
) -> _Parts:
    def make() -> _Parts:
        # Calls are written out first where a policy asks about single operations.
        source = closed if policy is None else _without_calls(closed)
        parts = linearize_jaxpr(source, nonzero)
        program = parts.primal.jaxpr
        n_outs = len(parts.out_nonzero)
        outs, residuals = program.outs[:n_outs], program.outs[n_outs:]
        inputs = set(program.in_binders)
        saved, recomputed = _cut(program, residuals, policy)
        forward_outs = [*outs, *saved]
        forward = ClosedJaxpr(
            Jaxpr(
                program.in_binders,
                _needed_eqns(program, forward_outs, set(), keep_effects=True),
                forward_outs,
                program.const_binders,
                program.name,
            ),
            parts.primal.consts,
        )
        read: set[Any] = {a for e in recomputed for a in e.inputs} | set(residuals)
        needed = [i for i, v in enumerate(program.in_binders) if v in read]
        again = Jaxpr(
            [*(program.in_binders[i] for i in needed), *saved],
            recomputed,
            list(residuals),
            program.const_binders,
            f"recompute_{program.name}",
        )
        assert not set(saved) & inputs, "an input is kept as it is"

        def backward(*args: Any) -> list[Any]:
            n = len(needed) + len(saved)
            known = args[:n]
            if prevent_cse and known:
                known = optimization_barrier_p.bind(*known)
            found = eval_jaxpr(again, parts.primal.consts, known)
            linear = parts.linear
            return eval_jaxpr(linear.jaxpr, linear.consts, [*found, *args[n:]])

        avals = [v.aval for v in again.in_binders]
        tangents = [a.strong() for a, nz in zip(closed.in_avals, nonzero, strict=True) if nz]
        made = trace_closed(backward, [*avals, *tangents], "vjp", f"checkpoint_{name}")
        return _Parts(forward, made, needed, parts.out_nonzero)

    return closed.derive(("remat", nonzero, policy, prevent_cse), make)


def _without_calls(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with the bodies of jitted functions in place of their calls."""
    if not any(e.primitive is jit_p for e in closed.eqns):
        return closed

    def run(program: ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
        return eval_jaxpr(program.jaxpr, program.consts, args, step)

    def step(eqn: Eqn, ins: list[Any]) -> Sequence[Any]:
        if eqn.primitive is jit_p:  # as deep as the user's functions are nested
            return run(eqn.params["jaxpr"], ins)
        return eqn.primitive.bind(*ins, **eqn.params)

    return trace_closed(
        lambda *xs: run(closed, xs), closed.in_avals, "checkpoint", closed.jaxpr.name
    )


def _saveable(eqn: Eqn, policy: Policy | None) -> bool:
    if policy is None or has_effect(eqn):
        return False
    return bool(policy(eqn.primitive, *(a.aval for a in eqn.inputs), **eqn.params))


def _cut(
    program: Jaxpr, residuals: Sequence[Atom], policy: Policy | None
) -> tuple[list[Var], list[Eqn]]:
    """What to save, and the equations that compute the residuals from that and the inputs."""
    wanted: set[Any] = set(residuals)
    saved: list[Var] = []
    recomputed: list[Eqn] = []
    for eqn in reversed(program.eqns):
        mine = [v for v in eqn.out_binders if v in wanted]
        if not mine:
            continue
        if _saveable(eqn, policy):
            saved += mine
        else:
            recomputed.append(eqn)
            wanted.update(a for a in eqn.inputs if isinstance(a, Var))
    return saved[::-1], recomputed[::-1]


def _needed_eqns(
    program: Jaxpr, outs: Sequence[Atom], known: set[Any], keep_effects: bool
) -> list[Eqn]:
    wanted: set[Any] = set(outs)
    kept = []
    for eqn in reversed(program.eqns):
        effect = keep_effects and has_effect(eqn)
        if effect or any(v in wanted and v not in known for v in eqn.out_binders):
            kept.append(eqn)
            wanted.update(a for a in eqn.inputs if isinstance(a, Var))
    return kept[::-1]


# -- the public function --------------------------------------------------------------------------


@api_boundary
def checkpoint(
    fun: Callable[..., Any] | None = None,
    *,
    prevent_cse: bool = True,
    policy: Policy | None = None,
    static_argnums: int | Sequence[int] = (),
    concrete: bool = False,
) -> Any:
    """Make the backward pass of a function compute its intermediate values again.

    Reverse mode then keeps the inputs of the function, and what `policy` saves, in place of all
    values it computes: memory against time.

    Args:
        fun: a function of pytrees of arrays. It is traced, as under jit. Without it a decorator is
            returned.
        prevent_cse: keep the compiler from merging the recomputation with the forward pass. Pass
            False inside the body of a scan, where they cannot meet.
        policy: one of `checkpoint_policies`; None saves nothing.
        static_argnums: positions of arguments that are no arrays, or on whose value fun branches.
            Hashable.
        concrete: must be False; use static_argnums.

    Returns:
        A function with the arguments and results of fun.

    Example:
        >>> mgefn.grad(mgefn.checkpoint(lambda x: mnp.sin(mnp.sin(x))))(0.0)
        Array(1., dtype=float32)
    """
    if concrete:
        raise ArgumentError(
            "checkpoint: concrete=True is not supported. Mark the arguments that decide control "
            "flow with static_argnums."
        )
    if fun is None:
        return functools.partial(
            checkpoint, prevent_cse=prevent_cse, policy=policy, static_argnums=static_argnums
        )
    if not callable(fun):
        raise ArgumentError(
            f"checkpoint: needs a function, got {described(fun)}. Pass the function, not its value."
        )
    if policy is not None and not callable(policy):
        raise ArgumentError(
            f"checkpoint: the policy must be a function, got {type(policy).__name__}. Choose one "
            "of checkpoint_policies."
        )
    static = (
        (static_argnums,)
        if isinstance(static_argnums, int)
        else tuple(operator.index(i) for i in static_argnums)
    )
    name = fun_name(fun)
    about = f"checkpoint({name})"
    cache: dict[Any, tuple[ClosedJaxpr, Any]] = ProgramCache()
    caches[id(cache)] = cache

    def program_of(
        args: tuple, places: set[int], in_tree: Any, operands: Sequence[Any], static_args: tuple
    ) -> tuple[Sequence[Any], tuple[ClosedJaxpr, Any]]:
        """The tracers that fun closes over, its program, and the structure of its output."""
        avals = [x.aval for x in operands]
        exactly = in_tree.exact_metadata()
        key = (in_tree, exactly, tuple(avals), static_args, config.trace_key, bound_axes())
        try:
            found = cache.get(key)
        except TypeError:
            bad = [i for i in sorted(places) if not _hashable(args[i])]
            if not bad:
                raise  # metadata of a registered class
            raise StaticArgumentError(
                f"{about}: static arguments must be hashable, got {type(args[bad[0]]).__name__} "
                f"at position {bad[0]}. Pass a tuple, or make it an ordinary argument."
            ) from None
        captured: Sequence[Any] = ()
        if found is None or closes_over_tracers([fun]):
            out_tree: list[Any] = []

            def flat(*xs: Any) -> list[Any]:
                rest, new_kwargs = tree.unflatten(in_tree, xs)
                others = iter(rest)
                new_args = [args[i] if i in places else next(others) for i in range(len(args))]
                outs, structure = tree.flatten(fun(*new_args, **new_kwargs))
                out_tree[:] = [structure]
                for o in outs:
                    if not is_arraylike(o):
                        raise ArgumentError(
                            f"{about}: the function must return arrays, got {type(o).__name__} "
                            f"({o!r:.60}). Compute it outside."
                        )
                return [as_array(o, about) for o in outs]

            closed, captured = trace(flat, avals, about, name)
            found = closed, out_tree[0]
            if not captured:
                if len(cache) >= _CACHE_BOUND:
                    cache.pop(next(iter(cache)))
                cache[key] = found
        return captured, found

    @functools.wraps(
        fun, assigned=("__module__", "__name__", "__qualname__", "__doc__"), updated=()
    )
    def checkpoint_of_fun(*args: Any, **kwargs: Any) -> Any:
        places = {i % len(args) if args else i for i in static}
        if any(not -len(args) <= i < len(args) for i in static):
            raise StaticArgumentError(
                f"{about}: static_argnums is {static}, but the call has {len(args)} positional "
                "arguments. Pass the argument by position."
            )
        dynamic = tuple(a for i, a in enumerate(args) if i not in places)
        static_args = tuple((i, exact(args[i])) for i in sorted(places))
        leaves, in_tree = tree.flatten((dynamic, kwargs))
        operands = [as_array(x, about) for x in leaves]
        while True:
            captured, found = program_of(args, places, in_tree, operands, static_args)
            closed, structure = found
            again = with_exact_numbers(operands, [(closed, len(captured))])
            if again is None:
                break
            operands = again
        outs = remat_p.bind(
            *captured, *operands, jaxpr=closed, policy=policy, prevent_cse=prevent_cse, name=name
        )
        return tree.unflatten(structure, outs)

    return api_boundary(checkpoint_of_fun)


remat = checkpoint


def _hashable(x: Any) -> bool:
    try:
        hash(x)
    except TypeError:
        return False
    return True


# -- policies -------------------------------------------------------------------------------------

_DOTS = ("dot_general", "conv_general_dilated")


def everything_saveable(prim: Primitive, *_: Any, **__: Any) -> bool:
    """Save every value: as without checkpoint."""
    return True


def nothing_saveable(prim: Primitive, *_: Any, **__: Any) -> bool:
    """Save no value but the inputs; what checkpoint does without a policy."""
    return False


def dots_saveable(prim: Primitive, *_: Any, **__: Any) -> bool:
    """Save the results of matrix products and convolutions."""
    return prim.name in _DOTS


checkpoint_dots = dots_saveable


def dots_with_no_batch_dims_saveable(prim: Primitive, *_: Any, **params: Any) -> bool:
    """Save the results of matrix products without batch dimensions: activations by weights."""
    if prim.name != "dot_general":
        return False
    (_, _), (batch, _) = params["dimension_numbers"]
    return not batch


checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable


class _ByName:
    """A policy that goes by the names of checkpoint_name. Equal ones share what is derived."""

    __slots__ = ("kind", "names")

    def __init__(self, kind: str, names: tuple[str, ...]):
        for n in names:
            if not isinstance(n, str):
                raise ArgumentError(f"{kind}: names must be str, got {type(n).__name__}.")
        self.kind = kind
        self.names = frozenset(names)

    def __call__(self, prim: Primitive, *_: Any, **params: Any) -> bool:
        named = prim is name_p
        if self.kind == "save_only_these_names":
            return named and params["name"] in self.names
        if self.kind == "save_any_names_but_these":
            return named and params["name"] not in self.names
        return not (named and params["name"] in self.names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByName) and self.kind == other.kind and self.names == other.names

    def __hash__(self) -> int:
        return hash((self.kind, self.names))

    def __repr__(self) -> str:
        return f"{self.kind}({', '.join(map(repr, sorted(self.names)))})"


def save_only_these_names(*names_which_can_be_saved: str) -> Policy:
    """Save values that checkpoint_name gave one of these names."""
    return _ByName("save_only_these_names", names_which_can_be_saved)


def save_any_names_but_these(*names_not_to_save: str) -> Policy:
    """Save named values, except those of these names."""
    return _ByName("save_any_names_but_these", names_not_to_save)


def save_anything_except_these_names(*names_not_to_save: str) -> Policy:
    """Save every value, except those of these names."""
    return _ByName("save_anything_except_these_names", names_not_to_save)


class _Either:
    __slots__ = ("first", "second")

    def __init__(self, first: Policy, second: Policy):
        self.first = first
        self.second = second

    def __call__(self, prim: Primitive, *avals: Any, **params: Any) -> bool:
        return self.first(prim, *avals, **params) or self.second(prim, *avals, **params)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Either) and (self.first, self.second) == (
            other.first,
            other.second,
        )

    def __hash__(self) -> int:
        return hash((self.first, self.second))


def save_from_both_policies(policy_1: Policy, policy_2: Policy) -> Policy:
    """Save what either policy saves."""
    return _Either(policy_1, policy_2)


checkpoint_policies = types.SimpleNamespace(
    everything_saveable=everything_saveable,
    nothing_saveable=nothing_saveable,
    dots_saveable=dots_saveable,
    checkpoint_dots=checkpoint_dots,
    dots_with_no_batch_dims_saveable=dots_with_no_batch_dims_saveable,
    checkpoint_dots_with_no_batch_dims=checkpoint_dots_with_no_batch_dims,
    save_only_these_names=save_only_these_names,
    save_any_names_but_these=save_any_names_but_these,
    save_anything_except_these_names=save_anything_except_these_names,
    save_from_both_policies=save_from_both_policies,
)
"""What `policy=` of checkpoint takes, under the names of jax.checkpoint_policies."""

__all__ = [
    "checkpoint",
    "checkpoint_name",
    "checkpoint_policies",
    "optimization_barrier",
    "remat",
]
