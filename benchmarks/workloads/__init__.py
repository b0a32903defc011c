"""The programs that benchmarks/compare.py times; `WORKLOADS` is the table, `SIZES` their sizes.

One file is one group. NumPy is imported here, so a process that times an import loads this later.
"""

from . import (
    contractions,
    elementwise,
    loops,
    movement,
    programs,
    reductions,
    rows,
    science,
    sequences,
    signals,
    simulation,
    training,
)
from .registry import WORKLOADS, Workload
from .sizes import LABELS, SIZES, Size

GROUPS = tuple(
    module.__name__.rpartition(".")[2]
    for module in (
        elementwise,
        rows,
        reductions,
        contractions,
        movement,
        signals,
        simulation,
        science,
        training,
        sequences,
        loops,
        programs,
    )
)

__all__ = ["GROUPS", "LABELS", "SIZES", "WORKLOADS", "Size", "Workload"]
