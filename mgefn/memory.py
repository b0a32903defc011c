"""The memory that compiled programs keep for their next call.

Slabs and large outputs come from one pool of blocks for the whole process. Idle blocks are kept up
to a limit, because asking the system for fresh pages costs more than most kernels. A program whose
slab is larger than that keeps its slab until another one's is newer, unless you set a limit; where
the system can be told so, it takes such memory back when it needs some.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mgefn.api.jit import JitFunction, jit
from mgefn.compiler.frames import frames
from mgefn.compiler.pool import pool
from mgefn.compiler.program import MemoryAnalysis
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
def set_limit(limit: int | None) -> None:
    """Keep at most `limit` bytes of idle blocks, and as many of idle slabs, without exception.

    Args:
        limit: in bytes; None for the default of 256 MiB, above which the newest one is kept.

    Raises:
        ArgumentError: limit is negative.
    """
    if limit is not None and limit < 0:
        raise ArgumentError(f"memory.set_limit: needs 0 or more bytes, got {limit}.")
    pool.set_limit(limit)
    frames.shrink()


clear_cache = clear


@api_boundary
def get_allocated_memory() -> int:
    """Bytes of blocks in use: the slabs of running programs and large outputs that are alive.

    Arrays below 1 MiB and those of eager operations are NumPy's own and not counted.
    """
    return pool.allocated_bytes


@api_boundary
def get_max_allocated_memory() -> int:
    """The highest value of `get_allocated_memory` since the start or the last reset."""
    return pool.most_allocated


@api_boundary
def get_reserved_memory() -> int:
    """Bytes of all blocks, those that wait to be used again included."""
    return pool.reserved_bytes


@api_boundary
def get_max_reserved_memory() -> int:
    """The highest value of `get_reserved_memory` since the start or the last reset."""
    return pool.most_reserved


@api_boundary
def reset_max_memory_stats() -> None:
    """Let `get_max_allocated_memory` and `get_max_reserved_memory` begin at what is held now."""
    pool.reset_most()


@api_boundary
def plan(f: Callable[..., Any], *args: Any, **kwargs: Any) -> MemoryAnalysis:
    """The memory that a compiled call would need, before running it.

    Args:
        f: a function, jitted or not.
        args, kwargs: its arguments: arrays, or ShapeDtypeStructs that need no memory.

    Returns:
        A MemoryAnalysis; its peak_memory_in_bytes is the most that the call allocates at one time,
        arguments not counted.

    Example:
        >>> big = mgefn.ShapeDtypeStruct((1000, 1000), "float32")
        >>> mgefn.memory.plan(lambda x: mnp.sin(x) * 2, big).peak_memory_in_bytes >= 4_000_000
        True
    """
    jitted = f if isinstance(f, JitFunction) else jit(f)
    return jitted.lower(*args, **kwargs).compile().memory_analysis()


__all__ = [
    "MemoryAnalysis",
    "clear",
    "clear_cache",
    "get_allocated_memory",
    "get_max_allocated_memory",
    "get_max_reserved_memory",
    "get_reserved_memory",
    "plan",
    "reset_max_memory_stats",
    "set_limit",
    "stats",
]
