"""The passes in the order in which they run; each takes a ClosedJaxpr and returns one."""

from __future__ import annotations

from collections.abc import Callable

from mgefn.compiler.passes.barriers import drop_barriers
from mgefn.compiler.passes.cse import eliminate_common_subexpressions
from mgefn.compiler.passes.dce import eliminate_dead_code
from mgefn.compiler.passes.fold import fold_constants
from mgefn.compiler.passes.inline import inline_calls
from mgefn.compiler.passes.simplify import simplify
from mgefn.compiler.passes.split import split_concatenations
from mgefn.config import config
from mgefn.core.jaxpr import ClosedJaxpr, check_jaxpr

PASSES: tuple[Callable[[ClosedJaxpr], ClosedJaxpr], ...] = (
    inline_calls,
    eliminate_dead_code,
    fold_constants,
    split_concatenations,
    simplify,
    eliminate_common_subexpressions,
    drop_barriers,
    eliminate_dead_code,
)


def optimized(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The jaxpr after all passes; with config.check_jaxprs each result is checked."""
    clean: ClosedJaxpr | None = None  # what the last elimination of dead code gave
    for run in PASSES:
        if run is eliminate_dead_code:
            if closed is clean:
                continue
            clean = closed = run(closed)
        else:
            closed = run(closed)
        if config.check_jaxprs:
            check_jaxpr(closed)
    return closed
