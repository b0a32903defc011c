"""Evaluation on a GPU: where the operands' device says, by the rows of the backend 'cupy'."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mgefn import dtypes
from mgefn.core.array import ConcreteArray
from mgefn.core.backends import kernel_of, load_table
from mgefn.core.device_array import DeviceArray, memory_named, on, to_device
from mgefn.core.devices import Device
from mgefn.core.interpreter import Interpreter, interpreter_set_to
from mgefn.core.primitive import Primitive
from mgefn.errors import DeviceError, MgefnError, UnsupportedError

CPU_REPAIR = "Compute it on the CPU, with mgefn.device_get of its operands"


def device_of(op: str, args: Sequence[Any]) -> Device | None:
    """The one GPU where arguments are; None where all are in the host's memory.

    Raises:
        DeviceError: they are on two devices.
    """
    found: Device | None = None
    for a in args:
        if a.__class__ is DeviceArray:
            if found is not None and a._device is not found:
                raise DeviceError(
                    f"{op}: needs operands on one device, got {found} and {a._device}. Move one "
                    "with mgefn.device_put."
                )
            found = a._device
    if found is not None:
        for a in args:
            # device_put to the CPU says where an array shall stay; others follow the operation.
            if a.__class__ is ConcreteArray and a.ndim and hasattr(a, "_sharding"):
                raise DeviceError(
                    f"{op}: needs operands on one device, got {found} and {a.device}. Move one "
                    "with mgefn.device_put."
                )
    return found


def row_of(primitive: Primitive, device: Device) -> Any:
    """The row of the backend's table.

    Raises:
        UnsupportedError: it has none; gives the reason.
    """
    row = primitive.kernels.get("cupy")
    if row is None:
        load_table("cupy")
        row = kernel_of(primitive, "cupy")
        if row is None:
            raise refused(primitive, device, primitive.unsupported.get("cupy", "it has no row"))
    return row


def refused(primitive: Primitive, device: Device, reason: str, types: str = "") -> UnsupportedError:
    of = f" for {types}" if types else ""
    return UnsupportedError(
        f"{primitive.name}: {device} has no kernel{of}: {reason}. {CPU_REPAIR}."
    )


def evaluate_on(
    device: Device, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]
) -> tuple:
    """Compute a primitive's outputs on a device; host operands are copied there.

    Raises:
        DeviceError: the device fails, or a transfer guard forbids a copy.
        UnsupportedError: the backend has no kernel for these operands.
    """
    row = row_of(primitive, device)
    if primitive.by_value is not None:
        found = primitive.by_value(args, params)
        if found is not None:
            return (to_device(primitive.name, found, device, False),)
    moved = tuple([to_device(primitive.name, a, device, False) for a in args])
    run = getattr(row, "run", None)
    if run is not None:  # a row that runs what the primitive holds
        with interpreter_set_to(None), on(device):
            return tuple(run(device, moved, params))
    keys = any(dtypes.is_key(a._dtype) for a in moved)
    if keys and not primitive.moves:
        primitive.check_no_keys([a._dtype for a in moved])
    buffers = [a._data for a in moved]
    refuses = getattr(row, "refuses", None)
    if refuses is not None:
        reason = refuses(buffers, params)
        if reason is not None:
            types = ", ".join(str(a.aval.strong()) for a in moved)
            raise refused(primitive, device, reason, types)
    try:
        with on(device), memory_named(primitive.name, device):
            outs = row(*buffers, **params)
    except MgefnError:
        raise
    except (TypeError, ValueError, IndexError):
        _explain(primitive, moved, params)
        raise
    weak = primitive.weak_result and bool(args) and all([a._weak for a in moved])
    if primitive.weak_of is not None:
        weak = primitive.weak_of([a._weak for a in moved], params)
    new_dtype = params.get("new_dtype")
    if keys or (new_dtype is not None and dtypes.is_key(new_dtype)):
        types_ = [a.dtype for a in primitive.out_avals([a.aval for a in moved], params)]
        return tuple([DeviceArray(o, device, t, weak) for o, t in zip(outs, types_, strict=True)])
    return tuple([DeviceArray(o, device, o.dtype, weak) for o in outs])


def _explain(primitive: Primitive, args: Sequence[DeviceArray], params: dict[str, Any]) -> None:
    """Raise the error that abstract evaluation has for these operands, where it has one."""
    try:
        primitive.out_avals([a.aval for a in args], params)
    except MgefnError as e:
        raise e from None


class DefaultDevice(Interpreter):
    """Computes every operation on one device, also those of host arrays only."""

    __slots__ = ("device",)

    def __init__(self, device: Device):
        super().__init__(f"default_device({device})")
        self.device = device

    def process(self, primitive: Primitive, args: tuple, params: dict[str, Any]) -> tuple:
        device = device_of(primitive.name, args) or self.device
        return evaluate_on(device, primitive, args, params)
