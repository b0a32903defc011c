"""What the Python array API standard, version 2024.12, asks of a namespace beside its functions.

`x.__array_namespace__()` is `mgefn.numpy`, and `mgefn.numpy.__array_namespace_info__()` tells
programs written for any array library what they can expect.

Source: data-apis.org/array-api/2024.12.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.api.inspection import devices
from mgefn.api.placement import array_with_sharding
from mgefn.core import cuda
from mgefn.core.array_methods import Array, method
from mgefn.core.devices import CPU, Device, checked_place, gpu
from mgefn.errors import ArgumentError, api_boundary
from mgefn.numpy.creation import check_device
from mgefn.numpy.introspection import isdtype

API_VERSION = "2024.12"
_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")

_DTYPES: tuple[Any, ...] = (
    np.bool_,
    np.int8,
    np.int16,
    np.int32,
    np.int64,
    np.uint8,
    np.uint16,
    np.uint32,
    np.uint64,
    np.float32,
    np.float64,
    np.complex64,
    np.complex128,
)


@method("array_namespace")
def array_namespace(api_version: str | None = None) -> ModuleType:
    """`mgefn.numpy`, which keeps to the standard.

    Raises:
        ArgumentError: there is no such version, or this namespace does not keep to it.
    """
    if api_version is not None and api_version not in _VERSIONS:
        raise ArgumentError(
            f"__array_namespace__: api_version must be one of {', '.join(_VERSIONS)}, got "
            f"{api_version!r}. Leave it out for {API_VERSION}."
        )
    return sys.modules[__package__ or "mgefn.numpy"]


@method("to_device")
def to_device(x: Array, device: Any, stream: Any = None) -> Array:
    """The array on a device: itself where it is there."""
    if stream is not None:
        raise ArgumentError("to_device: work goes to the current stream. Leave stream out.")
    place = checked_place("to_device", device)
    if place is None or place.device_set == x.devices():
        return x
    return array_with_sharding("to_device", x, place)


class NamespaceInfo:
    """What `mgefn.numpy` can do, in the words of the array API standard.

    Example:
        >>> info = mnp.__array_namespace_info__()
        >>> info.default_dtypes()["real floating"].name
        'float32'
    """

    __slots__ = ()

    def capabilities(self) -> dict[str, Any]:
        """Features that are optional in the standard.

        Boolean masks and results whose size depends on values are there outside of jit and vmap;
        inside, functions such as nonzero take `size`.
        """
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """Where new arrays live."""
        return devices()[0]

    def devices(self) -> list[Device]:
        """All that `device=` may be: the CPU, and the GPUs of this machine."""
        return [CPU, *(gpu(i) for i in range(cuda.count()))]

    @api_boundary
    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype]:
        """The dtypes of Python numbers and of constructors; the setting enable_x64 widens them."""
        check_device("default_dtypes", device)
        return {
            "real floating": dtypes.default_float(),
            "complex floating": dtypes.default_complex(),
            "integral": dtypes.default_int(),
            "indexing": dtypes.default_int(),
        }

    @api_boundary
    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, np.dtype]:
        """The dtypes of the standard, all of which are there.

        Args:
            device: None, a device of mgefn.devices(), or its name.
            kind: one of the kinds of `isdtype`, or a tuple of them; None means all dtypes.
        """
        check_device("dtypes", device)
        found = [np.dtype(d) for d in _DTYPES]
        return {d.name: d for d in found if kind is None or isdtype(d, kind)}

    def __repr__(self) -> str:
        return f"NamespaceInfo(api_version={API_VERSION!r})"


def namespace_info() -> NamespaceInfo:
    """What this namespace can do: `__array_namespace_info__` of the array API standard."""
    return NamespaceInfo()
