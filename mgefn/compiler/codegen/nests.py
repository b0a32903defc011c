"""The LLVM text of a fused kernel, by its layout."""

from __future__ import annotations

from mgefn.compiler.codegen.across import Across
from mgefn.compiler.codegen.builder import METADATA, Module
from mgefn.compiler.codegen.loops import Loops
from mgefn.compiler.kernel import ACROSS, Kernel


def text(kernel: Kernel, name: str) -> str:
    """A module of its own for one kernel."""
    module = Module()
    (Across if kernel.layout == ACROSS else Loops)(kernel, module).write(name)
    return module.text() + "\n" + METADATA
