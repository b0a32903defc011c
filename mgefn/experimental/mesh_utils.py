"""Arrays of devices for meshes, as jax.experimental.mesh_utils has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mgefn.errors import api_boundary
from mgefn.sharding import make_mesh


@api_boundary
def create_device_mesh(
    mesh_shape: Sequence[int],
    devices: Sequence[Any] | None = None,
    *,
    contiguous_submeshes: bool = False,
    allow_split_physical_axes: bool = False,
) -> np.ndarray:
    """Devices in an array of this shape.

    Args:
        mesh_shape: the sizes; with one device each is 1.
        devices: which devices; None means those of `mgefn.devices()`.
        contiguous_submeshes, allow_split_physical_axes: accepted for JAX's programs.

    Raises:
        ArgumentError: there are not as many devices.

    Example:
        >>> from mgefn.experimental import mesh_utils
        >>> mgefn.sharding.Mesh(mesh_utils.create_device_mesh((1, 1)), ("batch", "model"))
        Mesh('batch': 1, 'model': 1)
    """
    names = [str(i) for i in range(len(tuple(mesh_shape)))]
    return make_mesh(mesh_shape, names, devices=devices).devices


__all__ = ["create_device_mesh"]
