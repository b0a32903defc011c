"""shard_map where jax.experimental has it, with the arguments it has there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mgefn import sharding
from mgefn.errors import api_boundary
from mgefn.sharding import Mesh


@api_boundary
def shard_map(
    f: Callable[..., Any], mesh: Mesh, in_specs: Any, out_specs: Any, check_rep: bool = True
) -> Callable[..., Any]:
    """A function of whole arrays from one of the parts of each device: see `mgefn.shard_map`."""
    return sharding.shard_map(
        f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=check_rep
    )


__all__ = ["shard_map"]
