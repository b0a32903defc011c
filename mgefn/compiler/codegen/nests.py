"""The LLVM text of a fused kernel, by its layout."""

from __future__ import annotations

from mgefn.compiler.codegen.across import Across
from mgefn.compiler.codegen.builder import METADATA, Module
from mgefn.compiler.codegen.loops import Loops
from mgefn.compiler.codegen.tiled import Tiled
from mgefn.compiler.kernel import ACROSS, TILED, Kernel

_WRITERS: dict[str, type[Loops]] = {ACROSS: Across, TILED: Tiled}


def text(kernel: Kernel, name: str) -> str:
    """A module of its own for one kernel."""
    module = Module()
    _WRITERS.get(kernel.layout, Loops)(kernel, module).write(name)
    return module.text() + "\n" + METADATA
