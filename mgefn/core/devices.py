"""Where arrays live: devices, meshes of them, and how arrays are spread over a mesh.

An array is whole and on one device, the CPU or a GPU, so every axis of a mesh has size 1. Programs
written for several devices run unchanged: what they say is checked against the mesh and the shapes.
"""

from __future__ import annotations

import enum
import math
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from mgefn.core import cuda
from mgefn.errors import ArgumentError, DeviceError, ShapeError, api_boundary


class Device:
    """A place where arrays live and programs run."""

    __slots__ = ("id", "platform")

    def __init__(self, platform: str, id: int):
        self.platform = platform
        self.id = id

    @property
    def device_kind(self) -> str:
        """ "cpu", or the name that the GPU's maker gave it."""
        return cuda.kind(self.id) if self.platform == "gpu" else self.platform

    @property
    def process_index(self) -> int:
        return 0

    def __reduce__(self) -> Any:
        return _device, (self.platform, self.id)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(platform={self.platform!r}, id={self.id})"

    def __str__(self) -> str:
        return f"{self.platform}:{self.id}"


CPU = Device("cpu", 0)
_GPUS: dict[int, Device] = {}


def gpu(number: int) -> Device:
    """The GPU of a number, whether there is one or not: one object for each."""
    found = _GPUS.get(number)
    return _GPUS.setdefault(number, Device("gpu", number)) if found is None else found


def _device(platform: str, id: int) -> Device:
    """The device a pickle names: there is one object for each."""
    if platform == "gpu":
        return gpu(id)
    return CPU if (platform, id) == ("cpu", 0) else Device(platform, id)


def devices_of(op: str, platform: str | None) -> list[Device]:
    """The devices of a platform; None means the CPU, "cuda" is another name of "gpu".

    Raises:
        DeviceError: GPUs are asked for and there are none.
        ArgumentError: there is no such platform.
    """
    if platform in (None, "cpu"):
        return [CPU]
    if platform not in ("gpu", "cuda"):
        raise ArgumentError(f"{op}: there is no backend {platform!r}, only 'cpu' and 'gpu'.")
    cuda.require(op)
    return [gpu(i) for i in range(cuda.count())]


def device_named(op: str, place: Any) -> Device | None:
    """The device that a Device, or a name such as "gpu" or "gpu:1", stands for; None: it is none.

    Raises:
        DeviceError: it names a GPU that is not there.
    """
    if place is CPU:
        return CPU
    if isinstance(place, Device) and place.platform == "gpu":
        platform, number = "gpu", place.id
    elif isinstance(place, str):
        platform, _, tail = place.lower().partition(":")
        if tail and not tail.isdecimal():
            return None
        number = int(tail or 0)
    else:
        return None
    if platform == "cpu":
        return CPU if number == 0 else None
    if platform not in ("gpu", "cuda"):
        return None
    found = devices_of(op, "gpu")
    if number >= len(found):
        raise DeviceError(
            f"{op}: there is no gpu:{number}, only {', '.join(map(str, found))}. Use one of them."
        )
    return found[number]


# -- meshes ---------------------------------------------------------------------------------------


class AxisType(enum.Enum):
    """Who decides how arrays are cut along an axis of a mesh; on one device all mean the same."""

    Auto = enum.auto()
    Explicit = enum.auto()
    Manual = enum.auto()


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


class Mesh:
    """An array of devices whose axes have names. `with mesh:` makes it the one of the context.

    Args:
        devices: an array or nested list of devices.
        axis_names: one name for each of its axes.
        axis_types: one AxisType for each of its axes; None means Auto.

    Raises:
        ArgumentError: the names or types do not fit, or a device is named twice.
    """

    @api_boundary
    def __init__(
        self,
        devices: Any,
        axis_names: str | Sequence[str],
        axis_types: AxisType | Sequence[AxisType] | None = None,
    ):
        names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        grid = np.asarray(devices, dtype=object)
        if grid.ndim != len(names) or len(set(names)) != len(names):
            raise ArgumentError(
                f"Mesh: needs one name for each of the {grid.ndim} axes of the devices, got "
                f"{names}. Reshape the devices, or name all axes."
            )
        if grid.ndim and not all(isinstance(d, Device) for d in grid.flat):
            raise ArgumentError("Mesh: needs devices as mgefn.devices() gives them.")
        if len(set(grid.flat)) != grid.size:
            raise ArgumentError("Mesh: names a device twice. Give each device one place.")
        if axis_types is None:
            types: tuple[Any, ...] = (AxisType.Auto,) * len(names)
        else:
            types = (axis_types,) if isinstance(axis_types, AxisType) else tuple(axis_types)
        if len(types) != len(names) or not all(isinstance(t, AxisType) for t in types):
            raise ArgumentError(
                f"Mesh: needs one AxisType for each of the {len(names)} axes, got {axis_types!r}."
            )
        self.devices = grid
        self.axis_names = names
        self.axis_types = types

    @property
    def shape(self) -> dict[str, int]:
        """Size by the name of the axis."""
        return dict(zip(self.axis_names, self.devices.shape, strict=True))

    @property
    def shape_tuple(self) -> tuple[tuple[str, int], ...]:
        return tuple(self.shape.items())

    @property
    def axis_sizes(self) -> tuple[int, ...]:
        return self.devices.shape

    @property
    def size(self) -> int:
        """Number of devices; 0 for a mesh without axes."""
        return self.devices.size if self.devices.ndim else 0

    @property
    def empty(self) -> bool:
        return self.size == 0

    @property
    def device_ids(self) -> np.ndarray:
        """The devices' numbers, in the shape of the mesh."""
        return np.reshape([d.id for d in self.devices.flat], self.devices.shape).astype(int)

    @property
    def local_devices(self) -> list[Device]:
        """The devices of this process: all."""
        return list(self.devices.flat)

    @property
    def local_mesh(self) -> Mesh:
        """The part of the mesh in this process: all of it."""
        return self

    @property
    def is_multi_process(self) -> bool:
        return False

    def __enter__(self) -> Mesh:
        context.meshes.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        context.meshes.pop()

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Mesh)
            and self.axis_names == other.axis_names
            and self.axis_types == other.axis_types
            and self.devices.shape == other.devices.shape
            and bool((self.devices == other.devices).all())
        )

    def __hash__(self) -> int:
        return hash(
            (self.axis_names, self.axis_types, self.devices.shape, tuple(self.devices.flat))
        )

    def __repr__(self) -> str:
        return f"Mesh({', '.join(f'{k!r}: {v}' for k, v in self.shape.items())})"


class _Context(threading.local):
    """The meshes this thread is in, the innermost last; set_mesh replaces the first."""

    def __init__(self) -> None:
        self.meshes: list[Mesh | None] = [None]


context = _Context()


# -- shardings ------------------------------------------------------------------------------------


class Sharding:
    """How an array is spread over devices; see the subclasses."""

    memory_kind = "device"

    @property
    def device_set(self) -> set[Device]:
        """The devices that hold a part of the array."""
        raise NotImplementedError  # each kind knows its devices

    @property
    def addressable_devices(self) -> set[Device]:
        """Those of this process: all."""
        return self.device_set

    @property
    def num_devices(self) -> int:
        return len(self.device_set)

    @property
    def is_fully_addressable(self) -> bool:
        """Does this process reach all of the array?"""
        return True

    @property
    def is_fully_replicated(self) -> bool:
        """Does each device hold the whole array?"""
        return len(self.device_set) == 1

    @api_boundary
    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of one device's part of an array."""
        return tuple(global_shape)

    @api_boundary
    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Device, tuple[slice, ...]]:
        """Which part of an array each device holds."""
        self.shard_shape(global_shape)
        return {d: (slice(None),) * len(global_shape) for d in self.device_set}

    addressable_devices_indices_map = devices_indices_map

    def is_equivalent_to(self, other: Sharding, ndim: int) -> bool:
        """Do both put the same parts of an array of this rank on the same devices?"""
        return isinstance(other, Sharding) and self.device_set == other.device_set


class SingleDeviceSharding(Sharding):
    """The whole array on one device; None is the default one."""

    def __init__(self, device: Device | None = None, *, memory_kind: str | None = None):
        self.device = CPU if device is None else device

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
    def __init__(self, mesh: Mesh, spec: PartitionSpec, *, memory_kind: str | None = None):
        if not isinstance(mesh, Mesh) or not isinstance(spec, PartitionSpec):
            raise ArgumentError(
                "NamedSharding: needs a Mesh and a PartitionSpec, got "
                f"{type(mesh).__name__} and {type(spec).__name__}."
            )
        check_spec("NamedSharding", mesh, spec)
        self.mesh = mesh
        self.spec = spec

    @property
    def device_set(self) -> set[Device]:
        return set(self.mesh.devices.flat)

    @property
    def is_fully_replicated(self) -> bool:
        return all(self.mesh.shape[n] == 1 for entry in self.spec for n in axes_of(entry))

    @api_boundary
    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of one device's part of an array.

        Raises:
            ShapeError: a dimension is not a multiple of the number of parts.
        """
        return part_shape("NamedSharding", self.mesh, self.spec, global_shape)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, NamedSharding) and self.mesh == other.mesh and self.spec == other.spec
        )

    def __hash__(self) -> int:
        return hash((self.mesh, self.spec))

    def __repr__(self) -> str:
        return f"NamedSharding(mesh={self.mesh!r}, spec={self.spec!r})"


def axes_of(entry: Any) -> tuple[Any, ...]:
    """The axes that one entry of a PartitionSpec names."""
    if entry is None:
        return ()
    return tuple(entry) if isinstance(entry, (tuple, list)) else (entry,)


def check_spec(op: str, mesh: Mesh, spec: PartitionSpec) -> None:
    """Raise unless the spec names axes of the mesh, each once."""
    names = [n for entry in spec for n in axes_of(entry)]
    for n in names:
        if n not in mesh.axis_names:
            raise ArgumentError(
                f"{op}: {spec} names the axis {n!r}, and the mesh has {mesh.axis_names}. Use one "
                "of them."
            )
    if len(set(names)) != len(names):
        raise ArgumentError(f"{op}: {spec} names an axis twice. Name it once.")


def part_shape(
    op: str, mesh: Mesh, spec: PartitionSpec, global_shape: Sequence[int]
) -> tuple[int, ...]:
    """The shape of one device's part of an array."""
    if len(spec) > len(global_shape):
        raise ShapeError(
            f"{op}: {spec} has {len(spec)} entries for an array of rank {len(global_shape)}. Drop "
            "some."
        )
    shape = list(global_shape)
    for i, entry in enumerate(spec):
        parts = math.prod(mesh.shape[n] for n in axes_of(entry))
        if shape[i] % parts:
            raise ShapeError(
                f"{op}: dimension {i} of size {shape[i]} can't be cut into {parts} equal parts."
            )
        shape[i] //= parts
    return tuple(shape)


def checked_place(op: str, place: Any, shape: tuple[int, ...] | None = None) -> Sharding | None:
    """The sharding that a device, its name, a sharding or a PartitionSpec stands for.

    None stands for itself. Raises unless it fits an array of this shape.
    """
    if place is None:
        return None
    if isinstance(place, PartitionSpec):
        mesh = context.meshes[-1]
        if mesh is None:
            raise ArgumentError(
                f"{op}: a PartitionSpec needs a mesh. Pass NamedSharding(mesh, spec), or set one "
                "with mgefn.set_mesh."
            )
        check_spec(op, mesh, place)
        place = NamedSharding(mesh, place)
    if isinstance(place, NamedSharding):
        if shape is not None:
            part_shape(op, place.mesh, place.spec, shape)
        return place
    if isinstance(place, Sharding):
        return place
    device = device_named(op, place)
    if device is not None:
        return SingleDeviceSharding(device)
    raise ArgumentError(
        f"{op}: device must be one of mgefn.devices(), a sharding or None, got {place!r}. Leave it "
        "out."
    )


class Shard:
    """One device's part of an array.

    Attributes:
        data: the part, an array.
        device, index, replica_id: where it is, which slices of the whole it holds, and its number
            among equal parts.
    """

    __slots__ = ("data", "device", "index", "replica_id")

    def __init__(self, data: Any, device: Device, index: tuple[slice, ...]):
        self.data, self.device, self.index, self.replica_id = data, device, index, 0

    def __repr__(self) -> str:
        return f"Shard(device={self.device!r}, index={self.index}, data={self.data})"
