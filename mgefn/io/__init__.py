"""Trees in files and checkpoints: data only, nothing that runs when it is read."""

from __future__ import annotations

from mgefn.io.checkpoints import (
    CheckpointManager,
    available_steps,
    latest_checkpoint,
    restore_checkpoint,
    save_checkpoint,
)
from mgefn.io.files import (
    from_bytes,
    from_state_dict,
    load,
    load_arrays,
    save,
    to_bytes,
    to_state_dict,
    tree_deserialise_leaves,
    tree_serialise_leaves,
)

__all__ = [
    "CheckpointManager",
    "available_steps",
    "from_bytes",
    "from_state_dict",
    "latest_checkpoint",
    "load",
    "load_arrays",
    "restore_checkpoint",
    "save",
    "save_checkpoint",
    "to_bytes",
    "to_state_dict",
    "tree_deserialise_leaves",
    "tree_serialise_leaves",
]
