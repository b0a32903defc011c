"""Trees in files and checkpoints: data only, nothing that runs when it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mgefn.errors import MissingNameError, explain_constructors
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
from mgefn.io.torch_weights import (
    convert_torch_names,
    load_torch,
    load_torch_state_dict,
    relayout,
    reorder_gates,
)

__all__ = [
    "CheckpointManager",
    "available_steps",
    "convert_torch_names",
    "from_bytes",
    "from_state_dict",
    "latest_checkpoint",
    "load",
    "load_arrays",
    "load_torch",
    "load_torch_state_dict",
    "relayout",
    "reorder_gates",
    "restore_checkpoint",
    "save",
    "save_checkpoint",
    "to_bytes",
    "to_state_dict",
    "tree_deserialise_leaves",
    "tree_serialise_leaves",
]

explain_constructors(globals(), __all__)


if not TYPE_CHECKING:  # type checkers take a module with __getattr__ to have every name

    def __getattr__(name: str) -> Any:
        raise MissingNameError(__name__, name, __all__)
