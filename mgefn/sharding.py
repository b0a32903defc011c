"""Where arrays live, for programs written for several devices; here there is one.

A mesh is an array of devices with named axes, a spec says which axis of the mesh cuts which
dimension of an array. With one device every axis of a mesh has size 1 and every array is whole.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Sequence, Set
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from mgefn import tree
from mgefn.api.batch import vmap
from mgefn.api.flat import checked_function
from mgefn.api.inspection import devices
from mgefn.core.devices import (
    AxisType,
    Device,
    Mesh,
    NamedSharding,
    PartitionSpec,
    Sharding,
    SingleDeviceSharding,
    check_spec,
    context,
    part_shape,
)
from mgefn.core.source import fun_name
from mgefn.errors import ArgumentError, api_boundary
from mgefn.lax import with_sharding_constraint
from mgefn.ops.shaping import reshape

P = PartitionSpec


@api_boundary
def make_mesh(
    axis_shapes: Sequence[int],
    axis_names: Sequence[str],
    axis_types: Sequence[AxisType] | None = None,
    *,
    devices: Sequence[Device] | None = None,
) -> Mesh:
    """A mesh with axes of these sizes and names.

    Args:
        axis_shapes: the size of each axis; with one device each is 1.
        axis_names: the name of each axis.
        axis_types: see Mesh.
        devices: which devices to take; None means the first of `mgefn.devices()`.

    Raises:
        ArgumentError: there are not as many devices, or sizes and names do not fit.

    Example:
        >>> mgefn.make_mesh((1, 1), ("batch", "model"))
        Mesh('batch': 1, 'model': 1)
    """
    shape = tuple(axis_shapes)
    if len(shape) != len(tuple(axis_names)):
        raise ArgumentError(
            f"make_mesh: needs one name for each size, got {shape} and {tuple(axis_names)}."
        )
    known = _devices() if devices is None else list(devices)
    needed = math.prod(shape)
    if needed > len(known) or (devices is not None and needed != len(known)):
        raise ArgumentError(
            f"make_mesh: a mesh of {shape} needs {needed} devices, and there are {len(known)}. Use "
            "sizes of 1."
        )
    return Mesh(np.array(known[:needed], dtype=object).reshape(shape), axis_names, axis_types)


_devices = devices


class _MeshSet(AbstractContextManager):
    """Undoes set_mesh at the end of a `with` block."""

    def __init__(self, before: Mesh | None, mesh: Mesh | None):
        self.before, self.mesh = before, mesh

    def __enter__(self) -> Mesh | None:
        return self.mesh

    def __exit__(self, *exc: object) -> None:
        context.meshes[0] = self.before


@api_boundary
def set_mesh(mesh: Mesh | None) -> AbstractContextManager[Mesh | None]:
    """Make a mesh the one that PartitionSpecs mean, from now on or for a `with` block.

    Args:
        mesh: a mesh; None for none.

    Raises:
        ArgumentError: mesh is no mesh.

    Example:
        >>> with mgefn.set_mesh(mgefn.make_mesh((1,), ("batch",))):
        ...     x = mgefn.lax.with_sharding_constraint(mnp.ones(4), mgefn.P("batch"))
    """
    if mesh is not None and not isinstance(mesh, Mesh):
        raise ArgumentError(f"set_mesh: needs a Mesh or None, got {type(mesh).__name__}.")
    undo = _MeshSet(context.meshes[0], mesh)
    context.meshes[0] = mesh
    return undo


@api_boundary
def get_mesh() -> Mesh:
    """The mesh of the context, or one without axes."""
    mesh = context.meshes[-1]
    return Mesh(np.empty((), dtype=object), ()) if mesh is None else mesh


@api_boundary
def reshard(xs: Any, out_shardings: Any) -> Any:
    """The same arrays, spread as told: see `mgefn.lax.with_sharding_constraint`."""
    return with_sharding_constraint(xs, out_shardings)


@api_boundary
def shard_map(
    f: Callable[..., Any] | None = None,
    /,
    *,
    out_specs: Any,
    in_specs: Any = None,
    mesh: Mesh | None = None,
    axis_names: Set[Hashable] = frozenset(),
    check_vma: bool = True,
) -> Any:
    """A function of whole arrays from one of the parts that each device holds.

    In `f` the axes of the mesh have names, which collectives such as `lax.psum` take. With one
    device a part is the whole array.

    Args:
        f: a function of the parts; left out, `shard_map` gives a decorator.
        out_specs: a PartitionSpec for each result, or a tree of them that is a prefix.
        in_specs: the same for the tuple of arguments; None: nothing is said of them.
        mesh: the mesh; None takes the one of the context.
        axis_names: the axes that have names in f; the empty set means all.
        check_vma: accepted for JAX's programs.

    Returns:
        A function with the arguments of f, by position.

    Raises:
        ArgumentError: there is no mesh, or a spec names an axis that it does not have. ShapeError:
            a spec has more entries than its array has dimensions. TreeError: the specs do not fit.

    Example:
        >>> mesh = mgefn.make_mesh((1,), ("batch",))
        >>> total = mgefn.shard_map(
        ...     lambda x: mgefn.lax.psum(mnp.sum(x), "batch"),
        ...     mesh=mesh, in_specs=mgefn.P("batch"), out_specs=mgefn.P(),
        ... )
        >>> total(mnp.ones(4))
        Array(4., dtype=float32)
    """
    if f is None:
        return functools.partial(
            shard_map,
            out_specs=out_specs,
            in_specs=in_specs,
            mesh=mesh,
            axis_names=axis_names,
            check_vma=check_vma,
        )
    checked_function("shard_map", f)
    about = f"shard_map({fun_name(f)})"
    named = context.meshes[-1] if mesh is None else mesh
    if not isinstance(named, Mesh):
        raise ArgumentError(f"{about}: needs a mesh. Pass mesh=, or set one with mgefn.set_mesh.")
    names = [n for n in named.axis_names if not axis_names or n in axis_names]
    unknown = set(axis_names) - set(named.axis_names)
    if unknown:
        raise ArgumentError(
            f"{about}: axis_names has {sorted(map(str, unknown))}, and the mesh {named.axis_names}."
        )
    for which, specs in (("in_specs", in_specs), ("out_specs", out_specs)):
        for spec in tree.leaves(specs):
            if not isinstance(spec, PartitionSpec):
                raise ArgumentError(
                    f"{about}: {which} must hold PartitionSpecs and None, got {spec!r}."
                )
            check_spec(f"{about}: {which}", named, spec)

    def part(which: str, x: Any, specs: Any) -> None:
        wanted = tree.prefix_leaves(specs, x, f"{about}: {which}")
        for leaf, spec in zip(tree.leaves(x), wanted, strict=True):
            if spec is not None:
                part_shape(f"{about}: {which}", named, spec, np.shape(leaf))

    @functools.wraps(f)
    def whole(*args: Any) -> Any:
        prefix = tuple(in_specs) if isinstance(in_specs, list) else in_specs
        part("in_specs", args, prefix)
        mapped = f
        for name in reversed(names):
            mapped = vmap(mapped, in_axes=None, axis_name=name, axis_size=1)
        out = tree.map(lambda a: reshape(a, a.shape[len(names) :]), mapped(*args))
        part("out_specs", out, out_specs)
        return out

    return api_boundary(whole)


__all__ = [
    "AxisType",
    "Mesh",
    "NamedSharding",
    "P",
    "PartitionSpec",
    "Sharding",
    "SingleDeviceSharding",
    "get_mesh",
    "make_mesh",
    "reshard",
    "set_mesh",
    "shard_map",
]
