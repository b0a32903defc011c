"""What functions of several submodules ask of their arguments."""

from __future__ import annotations

import operator
from typing import Any

from mgefn.errors import ArgumentError


def known_count(name: str, what: str, n: Any, least: int = 0) -> int:
    """The argument `what` of the function `name`, which must be an integer that is known now."""
    try:
        count = operator.index(n)
    except TypeError:
        count = least - 1
    if count < least:
        raise ArgumentError(f"{name}: {what} must be an integer of at least {least}, got {n!r}.")
    return count
