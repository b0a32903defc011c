"""Copies of arrays as launches on a GPU."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mgefn.backends.llvm_kernels import elementwise as ew
from mgefn.compiler.codegen.values import itemsize
from mgefn.compiler.gpu_launch import Launch
from mgefn.compiler.gpu_lowering import planned
from mgefn.compiler.kernel import (
    LOAD,
    ROWS,
    STORE,
    STRIDED,
    UNIT,
    ZERO,
    Access,
    Kernel,
    Node,
)
from mgefn.compiler.lowering import collapsed
from mgefn.compiler.steps import Call, Spot
from mgefn.core.avals import contiguous_strides

BITS = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}  # what is moved as what, by its bytes


def copied(shape: Sequence[int], strides: Sequence[int], source: Spot, dtype: str, target: Spot,
           as_dtype: str, target_strides: Sequence[int] | None = None) -> Launch:  # fmt: skip
    """The launch that makes a copy, in another dtype if need be; contiguous if nothing is said."""
    if target_strides is None:
        target_strides = contiguous_strides(shape, itemsize(as_dtype))
    steps = [list(strides), list(target_strides)]
    loops = collapsed(shape, steps, range(len(shape))) or [(1, [0, 0])]
    *outer, (row, inner) = loops
    accesses, numbers = [], [n for n, _ in outer[1:]] + [row]
    for k, (kind, name) in enumerate(((LOAD, dtype), (STORE, as_dtype))):
        last = inner[k]
        how = ZERO if last == 0 else UNIT if last == itemsize(name) else STRIDED
        accesses.append(Access(kind, name, how, True))
        numbers += [s[k] for _, s in outer]
        numbers += [last] if how == STRIDED else []
    load = Node("load", dtype, (), 0, True, 0)
    out = Node("apply", as_dtype, (0,), (ew.convert_element_type, ()), True, 0)
    kernel = Kernel(
        ROWS, len(outer), 1, 1, tuple(accesses), (load, out), ((1, 1),), (), (), False, 0
    )
    rows = math.prod(n for n, _ in outer)
    return planned(Call(kernel, (source, target), (*numbers, max(rows, 1)), rows, 0))
