"""Rarer optimizers, under the names of optax.contrib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mgefn.errors import MissingNameError
from mgefn.optim.contrib.averages import (
    MadgradState,
    ScaleByAdemamixState,
    SplitRealAndImaginaryState,
    ademamix,
    adopt,
    madgrad,
    scale_by_ademamix,
    scale_by_adopt,
    scale_by_madgrad,
    split_real_and_imaginary,
)
from mgefn.optim.contrib.averaging import (
    ScheduleFreeState,
    schedule_free,
    schedule_free_adamw,
    schedule_free_eval_params,
    schedule_free_sgd,
)
from mgefn.optim.contrib.orthogonal import MuonDimensionNumbers, MuonState, muon, scale_by_muon
from mgefn.optim.contrib.plateaus import ReduceLROnPlateauState, reduce_on_plateau
from mgefn.optim.contrib.privacy import (
    DifferentiallyPrivateAggregateState,
    differentially_private_aggregate,
    dpsgd,
)
from mgefn.optim.contrib.rate_free import (
    DoGState,
    DoWGState,
    MomoState,
    ProdigyState,
    dog,
    dowg,
    momo,
    prodigy,
)
from mgefn.optim.contrib.sharpness import NormalizeState, SAMState, normalize, sam

__all__ = [
    "DifferentiallyPrivateAggregateState",
    "DoGState",
    "DoWGState",
    "MadgradState",
    "MomoState",
    "MuonDimensionNumbers",
    "MuonState",
    "NormalizeState",
    "ProdigyState",
    "ReduceLROnPlateauState",
    "SAMState",
    "ScaleByAdemamixState",
    "ScheduleFreeState",
    "SplitRealAndImaginaryState",
    "ademamix",
    "adopt",
    "differentially_private_aggregate",
    "dog",
    "dowg",
    "dpsgd",
    "madgrad",
    "momo",
    "muon",
    "normalize",
    "prodigy",
    "reduce_on_plateau",
    "sam",
    "scale_by_ademamix",
    "scale_by_adopt",
    "scale_by_madgrad",
    "scale_by_muon",
    "schedule_free",
    "schedule_free_adamw",
    "schedule_free_eval_params",
    "schedule_free_sgd",
    "split_real_and_imaginary",
]


if not TYPE_CHECKING:  # type checkers take a module with __getattr__ to have every name

    def __getattr__(name: str) -> Any:
        raise MissingNameError(__name__, name, __all__)
