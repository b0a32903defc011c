"""Where jax.experimental has them: names that ported programs import from there."""

from __future__ import annotations

from mgefn import checkify
from mgefn.api.settings import enable_x64
from mgefn.control.callbacks import io_callback
from mgefn.experimental import mesh_utils, shard_map

__all__ = ["checkify", "enable_x64", "io_callback", "mesh_utils", "shard_map"]
