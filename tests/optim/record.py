"""Record what optax makes of the programs of `trajectories`: `python -m tests.optim.record`.

Writes recorded.npz beside this file: for each optimizer and problem the params after the steps
KEPT and the state's fields, for each schedule its values. Needs optax.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.optim.sides import optax_side
from tests.optim.trajectories import (
    KEPT,
    SCHEDULES,
    first_state,
    programs,
    schedule_values,
    trajectory,
)

FILE = Path(__file__).with_name("recorded.npz")


def record() -> dict[str, np.ndarray]:
    side = optax_side()
    found = {}
    for name, problem, make in programs():
        found[f"{name}/{problem}"] = trajectory(side, make, problem)[[n - 1 for n in KEPT]]
        if problem == "net":
            found[f"state/{name}"] = np.array(first_state(side, make))
    for name, make in SCHEDULES.items():
        found[f"schedule/{name}"] = schedule_values(side, make)
    return found


if __name__ == "__main__":
    np.savez_compressed(FILE, **record())  # type: ignore[arg-type]  # NumPy types its options only
    print(f"{FILE.name}: {FILE.stat().st_size} bytes")
