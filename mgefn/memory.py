"""The memory that compiled programs keep for their next call.

Slabs and large outputs come from one pool of blocks for the whole process. Idle blocks are kept up
to a limit, because asking the system for fresh pages costs more than most kernels.
"""

from __future__ import annotations

from mgefn.compiler.pool import pool
from mgefn.compiler.program import frames
from mgefn.errors import ArgumentError, api_boundary


@api_boundary
def stats() -> dict[str, int]:
    """What the pool holds, in bytes, and how often it could help.

    Returns:
        idle_bytes: blocks that wait to be used; slab_bytes: idle slabs that are bound to their
        programs; in_use_bytes: blocks handed out, idle slabs included; limit_bytes: the bound on
        idle_bytes and on slab_bytes; blocks_reused and blocks_allocated: counts since the start.

    Example:
        >>> sorted(mgefn.memory.stats())[:3]
        ['blocks_allocated', 'blocks_reused', 'idle_bytes']
    """
    return {**pool.stats(), "slab_bytes": frames.bytes}


@api_boundary
def clear() -> None:
    """Give all idle memory back to the system."""
    frames.clear()
    pool.clear()


@api_boundary
def set_limit(limit: int) -> None:
    """Keep at most `limit` bytes of idle blocks, and as many of idle slabs.

    Raises:
        ArgumentError: limit is negative.
    """
    if limit < 0:
        raise ArgumentError(f"memory.set_limit: needs 0 or more bytes, got {limit}.")
    pool.set_limit(limit)
    frames.shrink()


__all__ = ["clear", "set_limit", "stats"]
