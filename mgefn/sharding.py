"""Where arrays live, for programs written for several devices; here there is one.

A mesh is an array of devices with named axes, a spec says which axis of the mesh cuts which
dimension of an array. With one device every axis of a mesh has size 1 and every array is whole.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mgefn.api.inspection import Device, devices
from mgefn.errors import ArgumentError, ShapeError, api_boundary


class PartitionSpec(tuple):
    """For each dimension of an array, the mesh axis that cuts it: a name, a tuple of them, or None.

    Example:
        >>> mgefn.sharding.PartitionSpec("batch", None)
        PartitionSpec('batch', None)
    """

    __slots__ = ()

    def __new__(cls, *partitions: Any) -> PartitionSpec:
        return super().__new__(cls, partitions)

    def __getnewargs__(self) -> tuple:
        return tuple(self)

    def __repr__(self) -> str:
        return f"PartitionSpec({', '.join(map(repr, self))})"


P = PartitionSpec


class Mesh:
    """An array of devices whose axes have names.

    Args:
        devices: an array or nested list of devices.
        axis_names: one name for each of its axes.

    Raises:
        ArgumentError: the names do not fit, or a device is named twice.
    """

    @api_boundary
    def __init__(self, devices: Any, axis_names: str | Sequence[str]):
        names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        grid = np.asarray(devices, dtype=object)
        if grid.ndim != len(names) or len(set(names)) != len(names):
            raise ArgumentError(
                f"Mesh: needs one name for each of the {grid.ndim} axes of the devices, got "
                f"{names}. Reshape the devices, or name all axes."
            )
        if not all(isinstance(d, Device) for d in grid.flat):
            raise ArgumentError("Mesh: needs devices as mgefn.devices() gives them.")
        if len(set(grid.flat)) != grid.size:
            raise ArgumentError("Mesh: names a device twice. Give each device one place.")
        self.devices = grid
        self.axis_names = names

    @property
    def shape(self) -> dict[str, int]:
        """Size by the name of the axis."""
        return dict(zip(self.axis_names, self.devices.shape, strict=True))

    @property
    def size(self) -> int:
        """Number of devices."""
        return self.devices.size

    @property
    def empty(self) -> bool:
        return self.devices.size == 0

    def __enter__(self) -> Mesh:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Mesh)
            and self.axis_names == other.axis_names
            and self.devices.shape == other.devices.shape
            and bool((self.devices == other.devices).all())
        )

    def __hash__(self) -> int:
        return hash((self.axis_names, self.devices.shape, tuple(self.devices.flat)))

    def __repr__(self) -> str:
        return f"Mesh({', '.join(f'{k!r}: {v}' for k, v in self.shape.items())})"


class Sharding:
    """How an array is spread over devices; see the subclasses."""

    @property
    def device_set(self) -> set[Device]:
        """The devices that hold a part of the array."""
        raise NotImplementedError  # each kind knows its devices

    @property
    def is_fully_replicated(self) -> bool:
        """Does each device hold the whole array?"""
        return len(self.device_set) == 1

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of one device's part of an array."""
        return tuple(global_shape)


class SingleDeviceSharding(Sharding):
    """The whole array on one device."""

    def __init__(self, device: Device | None = None):
        self.device = devices()[0] if device is None else device

    @property
    def device_set(self) -> set[Device]:
        return {self.device}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SingleDeviceSharding) and self.device == other.device

    def __hash__(self) -> int:
        return hash(self.device)

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self.device!r})"


class NamedSharding(Sharding):
    """The array cut along the axes of a mesh, as a PartitionSpec says.

    Raises:
        ArgumentError: the spec names an axis that the mesh does not have, or one twice.
    """

    @api_boundary
    def __init__(self, mesh: Mesh, spec: PartitionSpec):
        names = [n for entry in spec for n in _axes(entry)]
        for n in names:
            if n not in mesh.axis_names:
                raise ArgumentError(
                    f"NamedSharding: {spec} names the axis {n!r}, and the mesh has "
                    f"{mesh.axis_names}. Use one of them."
                )
        if len(set(names)) != len(names):
            raise ArgumentError(f"NamedSharding: {spec} names an axis twice.")
        self.mesh = mesh
        self.spec = spec

    @property
    def device_set(self) -> set[Device]:
        return set(self.mesh.devices.flat)

    @property
    def is_fully_replicated(self) -> bool:
        return all(self.mesh.shape[n] == 1 for entry in self.spec for n in _axes(entry))

    @api_boundary
    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of one device's part of an array.

        Raises:
            ShapeError: a dimension is not a multiple of the number of parts.
        """
        if len(self.spec) > len(global_shape):
            raise ShapeError(
                f"NamedSharding: {self.spec} has {len(self.spec)} entries for an array of rank "
                f"{len(global_shape)}. Drop some."
            )
        shape = list(global_shape)
        for i, entry in enumerate(self.spec):
            parts = math.prod(self.mesh.shape[n] for n in _axes(entry))
            if shape[i] % parts:
                raise ShapeError(
                    f"NamedSharding: dimension {i} of size {shape[i]} can't be cut into {parts} "
                    "equal parts."
                )
            shape[i] //= parts
        return tuple(shape)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, NamedSharding) and self.mesh == other.mesh and self.spec == other.spec
        )

    def __hash__(self) -> int:
        return hash((self.mesh, self.spec))

    def __repr__(self) -> str:
        return f"NamedSharding(mesh={self.mesh!r}, spec={self.spec!r})"


def _axes(entry: Any) -> tuple[Any, ...]:
    if entry is None:
        return ()
    return tuple(entry) if isinstance(entry, (tuple, list)) else (entry,)


__all__ = ["Mesh", "NamedSharding", "P", "PartitionSpec", "Sharding", "SingleDeviceSharding"]
