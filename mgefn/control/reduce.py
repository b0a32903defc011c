"""`reduce` with a function of the user's: jax.lax.reduce.

The function joins scalars and must be associative, as its calls are grouped in a balanced tree:
about log2(n) steps, each a batched reading of its program. A function that is a plain addition,
product, extremum or logical operation becomes the primitive made for it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from mgefn import dtypes, tree
from mgefn.core.array import as_array, scalar
from mgefn.core.avals import ShapedArray
from mgefn.core.jaxpr import ClosedJaxpr, Var
from mgefn.core.primitive import Primitive
from mgefn.core.source import fun_name
from mgefn.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError, api_boundary
from mgefn.interpreters.batching import batch_flat
from mgefn.interpreters.evaluate import eval_jaxpr
from mgefn.interpreters.jvp import jvp_flat
from mgefn.interpreters.staging import trace
from mgefn.ops.elementwise import (
    add_p,
    and_p,
    astype,
    max_p,
    min_p,
    mul_p,
    or_p,
    promoted,
    xor_p,
)
from mgefn.ops.reductions import (
    batch_reduction,
    dropped,
    kept_axes,
    reduce_and_p,
    reduce_max_p,
    reduce_min_p,
    reduce_or_p,
    reduce_prod_p,
    reduce_sum_p,
    reduce_xor_p,
)
from mgefn.ops.shaping import (
    broadcast_in_dim,
    concatenate_p,
    normalize_axes,
    reshape,
    slice_in_dim,
    transpose,
)

# operands: n arrays of one shape, then n scalars that begin the fold. params: computation, a
# ClosedJaxpr of 2n scalars, left ones first, that joins two n-tuples; dimensions, increasing ints
reduce_p = Primitive("reduce", weak_result=False)
reduce_p.no_rule("transpose", "the function is not known to be linear")


@api_boundary
def reduce(
    operands: Any,
    init_values: Any,
    computation: Callable[[Any, Any], Any],
    dimensions: Sequence[int],
) -> Any:
    """Join the elements over `dimensions` with a function, as jax.lax.reduce does.

    Args:
        operands: an array, or a pytree of arrays of one shape.
        init_values: a number for each operand, the neutral element of the function. It is joined
            once.
        computation: (left, right) -> joined, on scalars in the structure of operands. Associative;
            it is called once, with tracers, and may close over no tracer.
        dimensions: what to reduce over, each in [-ndim, ndim).
    Returns:
        The structure of operands, without the dimensions.
    Raises:
        ShapeError: operands differ in shape, or an init_value is not a scalar.
        DTypeError: computation returns another dtype than it takes.

    Example:
        >>> either = lambda p, q: p + q - p * q  # probability of one event or the other
        >>> mgefn.lax.reduce(mnp.array([0.5, 0.5, 0.5]), 0.0, either, (0,))
        Array(0.875, dtype=float32)
    """
    leaves, treedef = tree.flatten(operands)
    inits, init_tree = tree.flatten(init_values)
    if init_tree != treedef or not leaves:
        raise ArgumentError(
            f"reduce: init_values must have the structure of operands, {treedef}, got {init_tree}. "
            "Pass one number for each operand."
        )
    arrays = [promoted("reduce", (x,))[0] for x in leaves]
    starts = [
        scalar(i, x.dtype)
        if i.__class__ in (bool, int, float, complex)
        else astype(as_array(i, "reduce"), x.dtype)
        for i, x in zip(inits, arrays, strict=True)
    ]
    if len({x.shape for x in arrays}) != 1 or any(s.shape for s in starts):
        raise ShapeError(
            f"reduce: needs operands of one shape and scalar init_values, got "
            f"{', '.join(str(x.aval) for x in (*arrays, *starts))}."
        )
    dims = normalize_axes("reduce", tuple(map(operator.index, dimensions)), arrays[0].ndim)
    program = scalar_program("reduce", computation, [x.aval for x in arrays], treedef)
    return tree.unflatten(treedef, reduced(program, arrays, starts, dims))


def reduced(
    program: ClosedJaxpr, arrays: Sequence[Any], starts: Sequence[Any], dims: tuple[int, ...]
) -> Sequence[Any]:
    """The outputs of `reduce`, by a dedicated primitive where the program is a known one."""
    outs = _by_monoid(program, arrays, starts, dims)
    if outs is not None:
        return outs
    return reduce_p.bind(*arrays, *starts, computation=program, dimensions=dims)


def scalar_program(
    operation: str, computation: Callable[..., Any], avals: Sequence[ShapedArray], treedef: Any
) -> ClosedJaxpr:
    """The program of a function that joins scalars, for the operation of this name."""
    name = fun_name(computation)
    n = len(avals)

    def flat(*scalars: Any) -> list[Any]:
        out = computation(
            tree.unflatten(treedef, scalars[:n]), tree.unflatten(treedef, scalars[n:])
        )
        outs, out_tree = tree.flatten(out)
        if out_tree != treedef:
            # JAX's functions return a flat tuple or list also for other structures.
            if len(outs) != n:
                raise ArgumentError(
                    f"{operation}: {name} must return the structure of operands, {treedef}, got "
                    f"{out_tree}."
                )
        return [as_array(o, operation) for o in outs]

    scalars = [ShapedArray((), a.dtype) for a in avals]
    program, captured = trace(flat, [*scalars, *scalars], f"{operation}({name})", name)
    if captured:
        raise UnsupportedError(
            f"{operation}({name}): the function closes over the traced {captured[0].aval}, and its "
            "program must stand alone. Pass the value as a further operand."
        )
    for got, want in zip(program.out_avals, scalars, strict=True):
        if got.shape != () or got.dtype != want.dtype:
            raise DTypeError(
                f"{operation}: {name} must return {want} where it takes {want}, got {got}. Cast "
                "with astype."
            )
    return program


_MONOIDS = {
    add_p: reduce_sum_p,
    mul_p: reduce_prod_p,
    max_p: reduce_max_p,
    min_p: reduce_min_p,
    and_p: reduce_and_p,
    or_p: reduce_or_p,
    xor_p: reduce_xor_p,
}


def _by_monoid(
    program: ClosedJaxpr, arrays: Sequence[Any], starts: Sequence[Any], dims: tuple[int, ...]
) -> list[Any] | None:
    """The outputs by dedicated primitives, where each output joins its own operand's elements."""
    jaxpr = program.jaxpr
    n = len(arrays)
    if len(jaxpr.eqns) != n:
        return None
    made: dict[Any, Any] = {eqn.out_binders[0]: eqn for eqn in jaxpr.eqns}
    outs = []
    for i, (out, x, start) in enumerate(zip(jaxpr.outs, arrays, starts, strict=True)):
        eqn = made.get(out) if isinstance(out, Var) else None
        if eqn is None or eqn.primitive not in _MONOIDS:
            return None
        if set(eqn.inputs) != {jaxpr.in_binders[i], jaxpr.in_binders[n + i]}:
            return None
        primitive = _MONOIDS[eqn.primitive]
        if dtypes.is_bool(x.dtype):
            # Among booleans addition is "or" and multiplication "and".
            primitive = {reduce_sum_p: reduce_or_p, reduce_prod_p: reduce_and_p}.get(
                primitive, primitive
            )
        outs.append(eqn.primitive.bind1(start, primitive.bind1(x, axes=dims)))
    return outs


@reduce_p.def_abstract_eval
def _reduce_abstract_eval(*avals, computation: ClosedJaxpr, dimensions):
    n = len(avals) // 2
    operands = avals[:n]
    if any(a.shape != operands[0].shape for a in operands):
        raise ShapeError(
            f"reduce: operands must have one shape, got {' and '.join(map(str, operands))}."
        )
    return tuple([ShapedArray(dropped(a.shape, dimensions), a.dtype) for a in operands])


def fold(args: Sequence[Any], computation: ClosedJaxpr, dimensions: tuple[int, ...]) -> list[Any]:
    """The outputs of `reduce_p`, by joining neighbours until one element is left."""
    n = len(args) // 2
    first = args[0]
    order = (*dimensions, *kept_axes(first.ndim, dimensions))
    kept = dropped(first.shape, dimensions)
    length = math.prod([first.shape[d] for d in dimensions])
    lanes = math.prod(kept)
    rows = [reshape(transpose(x, order), (length, lanes)) for x in args[:n]]

    def joined(left: Sequence[Any], right: Sequence[Any]) -> list[Any]:
        shape = left[0].shape
        size = shape[0] * shape[1]
        flat = [reshape(x, (size,)) for x in (*left, *right)]
        outs, bdims = batch_flat(
            lambda *xs: eval_jaxpr(computation.jaxpr, computation.consts, xs),
            flat,
            (0,) * (2 * n),
            size,
            about="reduce",
        )
        return [
            reshape(o if b is not None else broadcast_in_dim(o, (size,), ()), shape)
            for o, b in zip(outs, bdims, strict=True)
        ]

    while length > 1:
        even = length - length % 2
        pairs = joined(
            [slice_in_dim(x, 0, even, 2) for x in rows], [slice_in_dim(x, 1, even, 2) for x in rows]
        )
        if length % 2:
            pairs = [
                concatenate_p.bind1(p, slice_in_dim(x, even, length), dimension=0)
                for p, x in zip(pairs, rows, strict=True)
            ]
        rows, length = pairs, length - even // 2
    starts = [broadcast_in_dim(s, (1, lanes), ()) for s in args[n:]]
    ends = joined(starts, rows) if length else starts
    return [reshape(x, kept) for x in ends]


@reduce_p.def_evaluate
def _reduce_evaluate(args, params):
    return tuple(fold(args, **params))


@reduce_p.def_jvp(symbolic_zeros=True)
def _reduce_jvp(primals, tangents, *, computation, dimensions):
    # The steps of the fold are ordinary operations with rules of their own.
    return jvp_flat(lambda *xs: fold(xs, computation, dimensions), primals, tangents, "reduce")


_batch_operands = batch_reduction(reduce_p)


@reduce_p.def_batch
def _reduce_batch(args, bdims, *, computation, dimensions):
    n = len(args) // 2
    size = next(x.shape[b] for x, b in zip(args, bdims, strict=True) if b is not None)
    if any(b is not None for b in bdims[n:]):
        # Each example starts from a value of its own: join them to a fold without them.
        outs, out_bdims = batch_flat(
            lambda *xs: fold(xs, computation, dimensions), args, bdims, size, about="vmap"
        )
        return outs, out_bdims
    front = [
        broadcast_in_dim(x, (size, *x.shape), tuple(range(1, x.ndim + 1)))
        if b is None
        else transpose(x, (b, *(i for i in range(x.ndim) if i != b)))
        for x, b in zip(args[:n], bdims[:n], strict=True)
    ]
    dims = tuple([d + 1 for d in dimensions])
    outs = reduce_p.bind(*front, *args[n:], computation=computation, dimensions=dims)
    return outs, (0,) * n
