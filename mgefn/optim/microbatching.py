"""A function of a large batch, computed from small parts of it one after the other."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Sequence
from typing import Any

from mgefn import tree
from mgefn.api.inspection import eval_shape
from mgefn.control.loops import fori_loop
from mgefn.core.array_methods import Array
from mgefn.errors import ArgumentError, ShapeError
from mgefn.numpy.creation import asarray, zeros
from mgefn.ops.elementwise import convert
from mgefn.ops.indexing import dynamic_index_in_dim, dynamic_update_index_in_dim
from mgefn.ops.shaping import reshape
from mgefn.optim.making import maker


class AccumulationType(enum.Enum):
    """How results of parts become one.

    SUM adds them up; MEAN divides the sum by the number of all parts, computed or not;
    RUNNING_MEAN is the mean of those computed; CONCAT puts rows of dimension 0 where the rows that
    they come from stood.
    """

    MEAN = enum.auto()
    SUM = enum.auto()
    RUNNING_MEAN = enum.auto()
    CONCAT = enum.auto()


def _as_tuple(x: Any) -> tuple[Any, ...]:
    return (x,) if isinstance(x, (int, str)) else tuple(x)


@maker
def microbatch(
    fun: Callable[..., Any],
    argnums: int | Sequence[int],
    microbatch_size: int | None,
    accumulator: Any = AccumulationType.SUM,
    *,
    argnames: str | Sequence[str] = (),
    in_axes: int | Sequence[int] = 0,
    num_real_microbatches: int | Array | None = None,
) -> Callable[..., Any]:
    """The function, called on parts of its batch in a loop, so that less memory is needed.

    Of n parts the first has the rows 0, n, 2n ..., the second the rows 1, n + 1 and so on.

    Args:
        fun: any function of arrays.
        argnums: positions of the arguments that have a batch dimension.
        microbatch_size: size of a part, which must divide the batch's; None: the whole batch.
        accumulator: an AccumulationType, or a tree of them that is a prefix of fun's result.
        argnames: names of keyword arguments that have a batch dimension.
        in_axes: which dimension that is, one for all, or one for each of argnums and argnames.
        num_real_microbatches: how many parts to compute, the first ones; None: all.

    Example:
        >>> from mgefn import optim
        >>> total = optim.microbatch(lambda x: mnp.sum(x**2), 0, microbatch_size=2)
        >>> total(mnp.arange(4.0))
        Array(14., dtype=float32)
    """
    positions, names = _as_tuple(argnums), _as_tuple(argnames)
    axes = (
        (in_axes,) * (len(positions) + len(names)) if isinstance(in_axes, int) else tuple(in_axes)
    )
    if len(axes) != len(positions) + len(names):
        raise ArgumentError(
            f"microbatch: in_axes must be one for each of argnums and argnames, got {len(axes)} "
            f"for {len(positions) + len(names)}. Give one number for all, or one for each."
        )

    @functools.wraps(fun)
    def batched(*args: Any, **kwargs: Any) -> Any:
        arguments = [args[i] for i in positions] + [kwargs[name] for name in names]
        sizes = {
            asarray(leaf).shape[axis]
            for value, axis in zip(arguments, axes, strict=True)
            for leaf in tree.leaves(value)
        }
        if len(sizes) != 1:
            raise ShapeError(
                f"microbatch: all arguments must have one batch size, got {sorted(sizes)}. Check "
                "argnums and in_axes."
            )
        (size,) = sizes
        part = size if microbatch_size is None else microbatch_size
        if part <= 0 or size % part:
            raise ArgumentError(
                f"microbatch: microbatch_size must divide the batch size {size}, got {part}. Pad "
                "the batch, or choose a divisor."
            )
        count = size // part

        def every(x: Any, axis: int, i: Any) -> Any:
            """Rows i, i + count, i + 2 * count ... of a dimension."""
            axis %= x.ndim
            parted = reshape(x, (*x.shape[:axis], part, count, *x.shape[axis + 1 :]))
            return dynamic_index_in_dim(parted, i, axis + 1, keepdims=False)

        def call(i: Any) -> Any:
            own = [
                tree.map(lambda x, a=axis: every(asarray(x), a, i), v)
                for v, axis in zip(arguments, axes, strict=True)
            ]
            new = list(args)
            for place, value in zip(positions, own, strict=False):
                new[place] = value
            named = dict(zip(names, own[len(positions) :], strict=True))
            return fun(*new, **{**kwargs, **named})

        shapes = eval_shape(call, 0)
        kinds = tree.broadcast(accumulator, shapes)

        def start(kind: AccumulationType, s: Any) -> Any:
            if kind is AccumulationType.CONCAT:
                return zeros((s.shape[0], count, *s.shape[1:]), s.dtype)
            return zeros(s.shape, s.dtype)

        def add(i: Any, total: Any) -> Any:
            def one(kind: AccumulationType, acc: Any, x: Any) -> Any:
                if kind is AccumulationType.CONCAT:
                    return dynamic_update_index_in_dim(acc, x, i, 1)
                if kind is AccumulationType.RUNNING_MEAN:
                    return acc + convert((x - acc) / (i + 1), acc.dtype)
                return acc + x

            return tree.map(one, kinds, total, call(i))

        steps = count if num_real_microbatches is None else num_real_microbatches
        total = fori_loop(0, steps, add, tree.map(start, kinds, shapes))

        def finish(kind: AccumulationType, x: Any) -> Any:
            if kind is AccumulationType.CONCAT:
                return reshape(x, (x.shape[0] * count, *x.shape[2:]))
            return x / count if kind is AccumulationType.MEAN else x

        return tree.map(finish, kinds, total)

    return batched
