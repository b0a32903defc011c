"""Functions that say themselves how vmap maps them, under the names of jax.custom_batching."""

from __future__ import annotations

from mgefn.control.custom_batching import custom_vmap, sequential_vmap

__all__ = ["custom_vmap", "sequential_vmap"]
