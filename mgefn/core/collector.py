"""Pausing Python's cycle collector while a program is built.

Building makes many small objects that all stay alive, and none of them in cycles. The collector
would look through all of them again and again, which makes the cost grow faster than the program.
Where threads overlap, the first to finish resumes collection for all: that costs time, not memory.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """No cycle collection within the block, if there was any before."""
    # Who turns it off turns it on, wherever threads change over or an interrupt falls: so it is not
    # turned off where it is off, and not before the `try`, as calls are where interrupts come.
    was_enabled = gc.isenabled()
    try:
        if was_enabled:
            gc.disable()
        yield
    finally:
        if was_enabled:
            gc.enable()
