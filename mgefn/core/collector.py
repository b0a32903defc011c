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
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
