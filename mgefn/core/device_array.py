"""Arrays on a GPU: a buffer of CuPy's that nobody writes again.

Nothing is copied to the host but by what needs values there, and only where the transfer guard
allows it. Random keys lie on a device as 64-bit integers; `dtype` says what they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.core import cuda
from mgefn.core.array import ConcreteArray, DonatedBuffer, HeldArray, foreign_arrays
from mgefn.core.array_methods import Array
from mgefn.core.avals import ShapedArray
from mgefn.core.cuda import xp
from mgefn.core.devices import Device, Shard, Sharding, SingleDeviceSharding, gpu
from mgefn.core.transfers import guarded
from mgefn.errors import ArgumentError, DeviceError, DTypeError, api_boundary

_U64 = np.dtype(np.uint64)
_HELD = frozenset(
    map(
        np.dtype,
        "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 "
        "complex128".split(),
    )
)


def storage_dtype(op: str, dtype: np.dtype, device: Device) -> np.dtype:
    """The dtype of the memory that holds elements of this one.

    Raises:
        DTypeError: a device can't hold them.
    """
    if dtype in _HELD or dtype.name == "bfloat16":
        return dtype
    if dtypes.is_key(dtype):
        return _U64
    raise DTypeError(
        f"{op}: {device} can't hold {dtypes.short_name(dtype)}, for which CuPy has no arithmetic. "
        "Convert with astype('bfloat16') on the CPU first."
    )


class DeviceArray(HeldArray):
    """An array in the memory of a GPU: `_data` is the library's array that holds it."""

    __slots__ = ("__weakref__", "_data", "_device", "_dtype", "_sharding", "_weak")

    _sharding: Sharding  # set by device_put only

    def __init__(
        self, data: Any, device: Device, dtype: np.dtype | None = None, weak: bool = False
    ):
        self._data = data
        self._device = device
        self._dtype = data.dtype if dtype is None else dtype
        self._weak = weak

    @property
    def aval(self) -> ShapedArray:
        return ShapedArray(self._data.shape, self._dtype, self._weak)

    @property
    def dtype(self) -> np.dtype:
        return self._dtype

    @property
    def device(self) -> Device:
        return self._device

    def devices(self) -> set[Device]:
        return {self._device}

    @property
    def sharding(self) -> Sharding:
        return getattr(self, "_sharding", None) or SingleDeviceSharding(self._device)

    @property
    def addressable_shards(self) -> list[Shard]:
        return [Shard(self, self._device, (slice(None),) * self.ndim)]

    def block_until_ready(self) -> Array:
        """Wait until the device has computed the array."""
        with on(self._device):
            xp.cuda.get_current_stream().synchronize()
        return self

    # -- leaving for the host ---------------------------------------------------------------------

    def to_host(self, what: str, explicit: bool = False) -> ConcreteArray:
        """The same array in the host's memory.

        Args:
            what: the operation that needs it, for messages.
            explicit: did the program ask for the copy by name?

        Raises:
            DeviceError: the transfer guard forbids it.
        """
        data = self._data
        if type(data) is DonatedBuffer:
            data._raise()
        guarded(what, self.aval, self._device, True, explicit)
        with on(self._device):
            host = np.asarray(xp.asnumpy(data))
        if host.dtype != self._dtype:
            host = host.view(self._dtype)
        host.flags.writeable = False
        return ConcreteArray(host, self._weak)

    @api_boundary
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ArgumentError(
                f"numpy.asarray: {self.aval} is on {self._device}, and copy=False was passed. "
                "Leave copy out."
            )
        return self.to_host("numpy.asarray").__array__(dtype, copy)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self._data.__cuda_array_interface__

    @api_boundary
    def __dlpack__(self, **kwargs: Any) -> Any:
        # A copy: the consumer may write to what it gets.
        return self._data.copy().__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._data.__dlpack_device__()

    def __reduce__(self) -> Any:
        # A pickle holds values; who reads it may have no GPU.
        return self.to_host("pickle", True).__reduce__()

    def copy_to_host_async(self) -> None:
        """Accepted for JAX's programs: the copy is made when the values are asked for."""

    def __bool__(self) -> bool:
        return self.to_host("bool").__bool__()

    def __int__(self) -> int:
        return self.to_host("int").__int__()

    def __float__(self) -> float:
        return self.to_host("float").__float__()

    def __complex__(self) -> complex:
        return self.to_host("complex").__complex__()

    def __index__(self) -> int:
        return self.to_host("index").__index__()

    @api_boundary
    def item(self, *args: int) -> Any:
        return self.to_host("item").item(*args)

    @api_boundary
    def tolist(self) -> Any:
        return self.to_host("tolist").tolist()

    @api_boundary
    def tobytes(self, order: str = "C") -> bytes:
        return self.to_host("tobytes").tobytes(order)

    def unsafe_buffer_pointer(self) -> int:
        """Address of the first element, in the device's memory."""
        return self._data.data.ptr

    def __repr__(self) -> str:
        if type(self._data) is DonatedBuffer:
            return "Array(<donated or deleted>)"
        try:
            text = repr(self.to_host("repr"))
        except DeviceError:  # a debugger that shows variables must not fail
            return f"Array(<{self.aval} on {self._device}>)"
        return text[:-1] + f", device={str(self._device)!r})"

    def __str__(self) -> str:
        if type(self._data) is DonatedBuffer:
            return repr(self)
        return str(self.to_host("str"))

    @api_boundary
    def __format__(self, spec: str) -> str:
        return self.to_host("format").__format__(spec)


class on:
    """Makes a device current for a block; free of charge where it is already."""

    __slots__ = ("_entered",)

    def __init__(self, device: Device):
        # The first device is current unless something else was entered.
        self._entered = xp.cuda.Device(device.id) if _several() else None

    def __enter__(self) -> None:
        if self._entered is not None:
            self._entered.__enter__()

    def __exit__(self, *args: Any) -> None:
        if self._entered is not None:
            self._entered.__exit__(*args)


def _several() -> bool:
    return cuda.count() > 1


def is_on_device(x: Any) -> bool:
    """Is x an array in the memory of a GPU?"""
    return x.__class__ is DeviceArray


def to_device(op: str, x: Array, device: Device, explicit: bool) -> DeviceArray:
    """The array on a device: itself where it is there, else a copy.

    Raises:
        DeviceError: the transfer guard forbids it, or the device's memory does not suffice.
        DTypeError: the device can't hold the dtype.
    """
    if x.__class__ is DeviceArray:
        if x._device is device:  # type: ignore[attr-defined]  # a DeviceArray
            return x  # type: ignore[return-value]  # a DeviceArray
        with on(device):
            return DeviceArray(xp.array(x._data), device, x.dtype, x.weak_type)  # type: ignore[attr-defined]  # a DeviceArray
    assert isinstance(x, ConcreteArray), "tracers are placed by the program that runs them"
    data = x._data
    if not data.ndim and not explicit:
        return _number(op, x, device)
    dtype = storage_dtype(op, data.dtype, device)
    guarded(op, x.aval, device, False, explicit)
    with on(device), memory_named(op, device):
        moved = xp.array(np.asarray(data.view(dtype) if dtype != data.dtype else data, order="C"))
    return DeviceArray(moved, device, x.dtype, x._weak)


# Numbers that operations were given, on their device; each is copied there once.
_NUMBERS: dict[tuple, Any] = {}
_NUMBERS_BOUND = 4096


def _number(op: str, x: ConcreteArray, device: Device) -> DeviceArray:
    """A number beside arrays of a device: an argument of the operation, and no transfer."""
    data = x._data
    key = (data.tobytes(), data.dtype, device)
    found = _NUMBERS.get(key)
    if found is None:
        dtype = storage_dtype(op, data.dtype, device)
        with on(device), memory_named(op, device):
            found = xp.array(np.asarray(data.view(dtype) if dtype != data.dtype else data))
            # Other streams will read it, and they do not wait for this one.
            xp.cuda.get_current_stream().synchronize()
        if len(_NUMBERS) >= _NUMBERS_BOUND:
            _NUMBERS.clear()
        _NUMBERS[key] = found
    return DeviceArray(found, device, x.dtype, x._weak)


def forget_numbers() -> None:
    """Let go of them: another library may take CuPy's place."""
    _NUMBERS.clear()


cuda.on_change.append(forget_numbers)


def _taken(x: Any) -> Array | None:
    """A copy of what another library holds on a GPU; None where x is no such array."""
    if not hasattr(x, "__cuda_array_interface__"):
        return None
    cuda.require("asarray")
    data = xp.array(x)
    return DeviceArray(data, gpu(data.device.id))


foreign_arrays.append(_taken)


def beside(x: Any, other: Any) -> Any:
    """A host array on the device of another array; everything else as it is."""
    if other.__class__ is DeviceArray and x.__class__ is ConcreteArray:
        return to_device("device_put", x, other.device, True)
    return x


class memory_named:
    """Lack of memory and failures of CUDA, within a block, become errors that name the device."""

    __slots__ = ("device", "op")

    def __init__(self, op: str, device: Device):
        self.op, self.device = op, device

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, e: BaseException | None, traceback: Any) -> None:
        if isinstance(e, MemoryError):
            raise DeviceError(
                f"{self.op}: the memory of {self.device} does not suffice: {e}. Use smaller "
                "batches, or let go of arrays that are not needed."
            ) from e
        if isinstance(e, RuntimeError) and type(e).__name__ in _CUDA_ERRORS:
            raise DeviceError(f"{self.op}: {self.device} failed: {e}.") from e


_CUDA_ERRORS = (
    "CUDARuntimeError", "CUDADriverError", "CUBLASError", "CUSOLVERError", "CuFFTError",
    "CompileException", "NVRTCError",
)  # fmt: skip
