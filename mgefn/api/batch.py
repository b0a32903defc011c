"""vmap: a function of single examples becomes a function of a batch."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Hashable
from typing import Any

from mgefn import tree
from mgefn.api.flat import checked_function, leaves_as_arrays, output_array
from mgefn.core.array_methods import Array
from mgefn.core.source import fun_name
from mgefn.errors import ArgumentError, AxisError, InAxesError, api_boundary
from mgefn.interpreters.batching import BatchingInterpreter
from mgefn.ops.shaping import broadcast_in_dim, moveaxis


@api_boundary
def vmap(
    fun: Callable[..., Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Hashable | None = None,
    axis_size: int | None = None,
    spmd_axis_name: Hashable | None = None,
) -> Callable[..., Any]:
    """Map a function over an axis of its arguments, all examples at once.

    Args:
        fun: a function of arrays (pytrees of them) without the mapped axis.
        in_axes: which axis of each positional argument to map: an int, None for an argument that
            all examples share, or a tuple with one entry per argument, each an int, None or a
            pytree of them that is a prefix of the argument. Keyword arguments are mapped over
            axis 0.
        out_axes: where the mapped axis goes in the outputs, in the same form; None only for an
            output that is the same for all examples.
        axis_name: a name for the axis, by which collectives find it.
        axis_size: the size of the axis, for when no argument is mapped.
        spmd_axis_name: accepted for JAX's programs; there is one device.

    Returns:
        A function with the arguments of fun.

    Raises:
        InAxesError: in_axes does not fit the arguments, or mapped sizes differ.

    Example:
        >>> mgefn.vmap(mnp.dot)(mnp.ones((3, 2)), mnp.ones((3, 2)))
        Array([2., 2., 2.], dtype=float32)
    """
    checked_function("vmap", fun)
    about = f"vmap({fun_name(fun)})"
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)
    if not isinstance(in_axes, (int, tuple, type(None))) or isinstance(in_axes, bool):
        raise InAxesError(
            f"{about}: in_axes must be an int, None or a tuple with one entry per positional "
            f"argument, got {in_axes!r}. Name the axis by its number."
        )

    @functools.wraps(
        fun, assigned=("__module__", "__name__", "__qualname__", "__doc__"), updated=()
    )
    def vmap_of_fun(*args: Any, **kwargs: Any) -> Any:
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise InAxesError(
                f"{about}: in_axes has {len(in_axes)} entries and the function was called with "
                f"{len(args)} positional arguments. Give one entry per argument."
            )
        leaves, in_tree = tree.flatten((args, kwargs))
        n_positional = tree.structure(args).num_leaves
        axes = tree.prefix_leaves(in_axes, args, f"{about}: in_axes")
        axes = [*axes, *[0] * (len(leaves) - n_positional)]
        values = leaves_as_arrays(leaves, about)
        bdims = [_bdim(about, a, v) for a, v in zip(axes, values, strict=True)]
        size = _mapped_size(about, values, bdims, axis_size)
        interpreter = BatchingInterpreter(size, axis_name, about)
        tracers = [interpreter.tracer(v, b) for v, b in zip(values, bdims, strict=True)]
        new_args, new_kwargs = tree.unflatten(in_tree, tracers)
        with interpreter.entered():
            out = fun(*new_args, **new_kwargs)
        out_leaves, out_tree = tree.flatten(out)
        if isinstance(out_axes, int) or out_axes is None:
            targets = [out_axes] * len(out_leaves)
        else:
            targets = tree.prefix_leaves(
                tuple(out_axes)
                if isinstance(out_axes, list) and isinstance(out, tuple)
                else out_axes,
                out,
                f"{about}: out_axes",
            )
        results = [
            _placed(about, interpreter, o if isinstance(o, Array) else output_array(o, about), t)
            for o, t in zip(out_leaves, targets, strict=True)
        ]
        return tree.unflatten(out_tree, results)

    return api_boundary(vmap_of_fun)


def _bdim(about: str, axis: Any, value: Any) -> int | None:
    if axis is None:
        return None
    if isinstance(axis, bool) or not hasattr(axis, "__index__"):
        raise InAxesError(
            f"{about}: in_axes must hold ints and None, got {axis!r}. Name the axis by its number."
        )
    i = operator.index(axis)
    ndim = len(value.shape)
    if not -ndim <= i < ndim:
        raise InAxesError(
            f"{about}: in_axes asks for axis {i} of an argument {value.aval} of rank {ndim}. Use "
            "an axis it has, or None to share it."
        )
    return i % ndim


def _mapped_size(about: str, values: list, bdims: list, axis_size: int | None) -> int:
    sizes = [v.shape[b] for v, b in zip(values, bdims, strict=True) if b is not None]
    if not sizes and axis_size is None:
        raise InAxesError(
            f"{about}: no argument is mapped, so the size of the axis is unknown. Map one with "
            "in_axes, or pass axis_size."
        )
    size = sizes[0] if axis_size is None else axis_size
    if any(s != size for s in sizes):
        shown = ", ".join(
            f"{v.aval} along axis {b}" for v, b in zip(values, bdims, strict=True) if b is not None
        )
        wanted = "" if axis_size is None else f" and equal axis_size={axis_size}"
        got = " and ".join(map(str, sizes))
        raise InAxesError(
            f"{about}: mapped axes must have one size{wanted}, got {got}: {shown}. Correct "
            "in_axes, or share an argument with None."
        )
    return size


def _placed(about: str, interpreter: BatchingInterpreter, out: Any, axis: Any) -> Any:
    value, bdim = interpreter.split(out)
    if axis is None:
        if bdim is not None:
            raise ArgumentError(
                f"{about}: out_axes is None for an output {out.aval} that differs between "
                "examples. Give it an axis."
            )
        return value
    ndim = len(value.shape) + (bdim is None)
    i = operator.index(axis)
    if not -ndim <= i < ndim:
        raise AxisError(
            f"{about}: out_axes asks for axis {i} of an output of rank {ndim}, the mapped axis "
            f"counted. Use one in [{-ndim}, {ndim})."
        )
    i %= ndim
    if bdim is None:
        shape = value.shape
        rest = tuple(d for d in range(ndim) if d != i)
        return broadcast_in_dim(value, (*shape[:i], interpreter.axis_size, *shape[i:]), rest)
    return moveaxis(value, bdim, i)
