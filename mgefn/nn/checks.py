"""Checks of values and sizes that functions, losses and layers share."""

from __future__ import annotations

from typing import Any

import numpy as np

from mgefn.core.array import ConcreteArray
from mgefn.errors import IndexOutOfBoundsError


def check_range(
    name: str, what: str, numbers: Any, n: int, kind: str, counts: Any = None, repair: str = ""
) -> None:
    """Raise where numbers whose values are known lie outside [-n, n).

    Those of a traced array are not known; they give NaN, as in JAX and optax.

    Args:
        name, what: of the operation and the argument.
        numbers: integers.
        n: how many there are of what they number.
        kind: what that is, as "classes".
        counts: booleans, of the shape of numbers: those that matter; None: all.
        repair: what else can be done.
    """
    if numbers.__class__ is not ConcreteArray or not numbers.size:
        return
    values = np.asarray(numbers)
    if counts is not None:
        if counts.__class__ is not ConcreteArray:
            return
        values = values[np.asarray(counts)]
        if not values.size:
            return
    low, high = int(values.min()), int(values.max())
    if -n <= low and high < n:
        return
    raise IndexOutOfBoundsError(
        f"{name}: {what} must number {n} {kind} from 0 to {n - 1} (or from the end, from -1 to "
        f"{-n}), got {high if high >= n else low}. Correct {what}{repair}."
    )
