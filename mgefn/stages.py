"""A jitted function on its way to a running program: Wrapped, Traced, Lowered, Compiled.

jit(f) -> Wrapped    .trace(x) -> Traced    .lower() -> Lowered    .compile() -> Compiled
"""

from __future__ import annotations

from mgefn.api.jit import JitFunction
from mgefn.api.stages import Compiled, Lowered, Traced

Wrapped = JitFunction

__all__ = ["Compiled", "Lowered", "Traced", "Wrapped"]
