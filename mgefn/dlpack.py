"""Arrays of other libraries by the DLPack protocol, under jax.dlpack's names."""

from __future__ import annotations

from typing import Any

from mgefn.core.array_methods import Array
from mgefn.errors import api_boundary
from mgefn.numpy import creation

__all__ = ["from_dlpack"]


@api_boundary
def from_dlpack(external_array: Any, device: Any = None, copy: bool | None = None) -> Array:
    """An array of what another library holds; the values are copied.

    Args:
        external_array: an object with `__dlpack__` and `__dlpack_device__`, on the CPU.
        device: None, or this package's device.
        copy: taken for the sake of ported programs; what is changed there never changes here.
    """
    return creation.from_dlpack(external_array, device=device, copy=copy)
