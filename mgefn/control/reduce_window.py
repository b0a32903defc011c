"""`reduce_window` with a function of the user's: jax.lax.reduce_window.

A plain sum, maximum or minimum becomes the primitive made for it. Any other function is a `reduce`
over the places of the window, each a strided slice of the padded operand.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mgefn import dtypes, tree
from mgefn.control.reduce import reduced, scalar_program
from mgefn.core.array import as_array, scalar
from mgefn.core.jaxpr import ClosedJaxpr
from mgefn.core.primitive import Primitive
from mgefn.core.tracer import Tracer
from mgefn.errors import ArgumentError, ShapeError, api_boundary
from mgefn.ops.elementwise import (
    add_p,
    and_p,
    astype,
    invert,
    max_p,
    min_p,
    mul_p,
    or_p,
    promoted,
    xor_p,
)
from mgefn.ops.reductions import highest, lowest
from mgefn.ops.shaping import concatenate_p, expand_dims, pad_p, strided_slice
from mgefn.ops.windows import (
    Padding,
    out_sizes,
    reduce_window_max_p,
    reduce_window_min_p,
    reduce_window_sum_p,
    window_params,
)


@api_boundary
def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[[Any, Any], Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """Join the elements of sliding windows with a function, as jax.lax.reduce_window does.

    Args:
        operand: an array, or a pytree of arrays of one shape.
        init_value: a number for each operand, the neutral element of the function. It begins each
            window, and stands in the padding unless the function is a plain arithmetic or logical
            operation: then padding does not count.
        computation: (left, right) -> joined, on scalars in the structure of operand. Associative;
            it is called once, with tracers, and may close over no tracer.
        window_dimensions: sizes of the window, one for each axis.
        window_strides: distances between neighbouring windows; None: 1.
        padding: (low, high) for each axis, negative to cut; or "VALID", "SAME" or "SAME_LOWER".
        base_dilation: distances at which the elements of operand stand; None: 1.
        window_dilation: distances at which the places of the window stand; None: 1.
    Returns:
        The structure of operand, with one element for each window. The derivative of a maximum goes
        to the first element that attains it.
    Raises:
        ShapeError: an argument does not have one entry for each axis.
        DTypeError: computation returns another dtype than it takes.

    Example:
        >>> x = mnp.array([1.0, 5.0, 2.0, 3.0])
        >>> mgefn.lax.reduce_window(x, -mnp.inf, mgefn.lax.max, (2,), (2,))
        Array([5., 3.], dtype=float32)
    """
    name = "reduce_window"
    leaves, treedef = tree.flatten(operand)
    inits, init_tree = tree.flatten(init_value)
    if init_tree != treedef or not leaves:
        raise ArgumentError(
            f"{name}: init_value must have the structure of operand, {treedef}, got {init_tree}. "
            "Pass one number for each operand."
        )
    arrays = [promoted(name, (x,))[0] for x in leaves]
    starts = [
        scalar(i, x.dtype)
        if i.__class__ in (bool, int, float, complex)
        else astype(as_array(i, name), x.dtype)
        for i, x in zip(inits, arrays, strict=True)
    ]
    shape = arrays[0].shape
    if any(x.shape != shape for x in arrays) or any(s.shape for s in starts):
        raise ShapeError(
            f"{name}: needs operands of one shape and scalar init_values, got "
            f"{', '.join(str(x.aval) for x in (*arrays, *starts))}."
        )
    params = window_params(
        name, shape, window_dimensions, window_strides, padding, base_dilation, window_dilation
    )
    program = scalar_program(name, computation, [x.aval for x in arrays], treedef)
    join = _join_of(program)
    if join is not None:
        if dtypes.is_bool(arrays[0].dtype):
            # Among booleans addition and maximum are "or", multiplication and minimum "and".
            join = {add_p: max_p, or_p: max_p, mul_p: min_p, and_p: min_p}.get(join, join)
        found = _by_primitive(join, arrays[0], starts[0], params)
        if found is not None:
            return tree.unflatten(treedef, [found])
    stacks = []
    for x, start in zip(arrays, starts, strict=True):
        # What stands in the padding must not count, so of a known function it is the number that
        # is neutral even if the start is another one.
        neutral = _neutral(join, x.dtype)
        stacks.append(_places(x, start if neutral is None else neutral, params))
    return tree.unflatten(treedef, reduced(program, stacks, starts, (0,)))


def _join_of(program: ClosedJaxpr) -> Primitive | None:
    """The operation that a program on two scalars consists of, if it is one."""
    jaxpr = program.jaxpr
    if len(jaxpr.eqns) != 1 or len(jaxpr.in_binders) != 2:
        return None
    (eqn,) = jaxpr.eqns
    whole = jaxpr.outs[0] is eqn.out_binders[0] and set(eqn.inputs) == set(jaxpr.in_binders)
    return eqn.primitive if whole and len(eqn.inputs) == 2 else None


def _by_primitive(join: Primitive, x: Any, start: Any, params: dict[str, Any]) -> Any:
    """The windows by a dedicated primitive, or None where there is none."""
    if join is max_p or join is min_p:
        primitive = reduce_window_max_p if join is max_p else reduce_window_min_p
        neutral = (lowest if join is max_p else highest)(x.dtype)
    elif join is add_p:
        primitive, neutral = reduce_window_sum_p, 0
    else:
        return None
    y = primitive.bind1(x, **params)
    return y if _is_value(start, neutral) else join.bind1(start, y)


def _neutral(join: Primitive | None, dtype: np.dtype) -> Any:
    """The number that joins to nothing, where it is known."""
    if join is mul_p:
        return scalar(1, dtype)
    if join is or_p or join is xor_p:
        return scalar(0, dtype)
    if join is and_p:
        return invert(scalar(0, dtype))
    return None


def _is_value(start: Any, value: Any) -> bool:
    """Is the scalar known, and this number?"""
    while isinstance(start, Tracer):
        start = start.concrete()
    return start is not None and bool(np.asarray(start) == np.asarray(value).astype(start.dtype))


def _places(x: Any, start: Any, params: dict[str, Any]) -> Any:
    """The elements at each place of the window, along a new first dimension."""
    windows = out_sizes(x.shape, **params)
    config = tuple(
        [
            (low, high, base - 1)
            for (low, high), base in zip(params["padding"], params["base_dilation"], strict=True)
        ]
    )
    padded = pad_p.bind1(x, start, padding_config=config)
    strides = params["window_strides"]
    parts = []
    for place in itertools.product(*map(range, params["window_dimensions"])):
        offsets = map(operator.mul, place, params["window_dilation"])
        first = [o if n else 0 for o, n in zip(offsets, windows, strict=True)]
        limits = [
            a + (n - 1) * s + 1 if n else 0 for a, n, s in zip(first, windows, strides, strict=True)
        ]
        part = strided_slice(padded, first, limits, strides)
        parts.append(expand_dims(part, 0))
    return concatenate_p.bind1(*parts, dimension=0)
