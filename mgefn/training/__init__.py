"""Parts of a training program, none of which owns its loop.

The state of a run is one value (TrainState); a step is a function from a state and a batch to a
state; what remains are checkpoints of it, averages, metrics and where they are written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mgefn.errors import MissingNameError, explain_constructors
from mgefn.io import (
    CheckpointManager,
    available_steps,
    latest_checkpoint,
    restore_checkpoint,
    save_checkpoint,
)
from mgefn.training.averages import EMA
from mgefn.training.loggers import (
    ConsoleLogger,
    CSVLogger,
    Logger,
    MultiLogger,
    TensorBoardLogger,
    progress,
)
from mgefn.training.state import TrainState
from mgefn.training.stopping import EarlyStopping
from mgefn.training.tensorboard import SummaryWriter

__all__ = [
    "EMA",
    "CSVLogger",
    "CheckpointManager",
    "ConsoleLogger",
    "EarlyStopping",
    "Logger",
    "MultiLogger",
    "SummaryWriter",
    "TensorBoardLogger",
    "TrainState",
    "available_steps",
    "latest_checkpoint",
    "progress",
    "restore_checkpoint",
    "save_checkpoint",
]

# Not those that are nodes of trees: programs make them anew at each step.
explain_constructors(globals(), set(__all__) - {"EMA", "TrainState"})


if not TYPE_CHECKING:  # type checkers take a module with __getattr__ to have every name

    def __getattr__(name: str) -> Any:
        raise MissingNameError(__name__, name, __all__)
