"""Random bits from counters, by the block function threefry2x32, and what makes numbers of them.

Keys are two words of 32 bits. The same key and counter give the same bits on every backend and in
every order of evaluation.

The `sampling_` primitives are log, log1p, exp, erf and erf_inv with their arithmetic fixed, so that
the same bits give the same numbers, JAX's; `backends/numpy_kernels/sampling.py` says how. Elsewhere
the functions of those names are the ones to use: they are faster, and more exact.

Source: Salmon, Moraes, Dror, Shaw (2011), Parallel random numbers: as easy as 1, 2, 3, SC'11,
doi:10.1145/2063384.2063405.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mgefn.core.array import scalar
from mgefn.core.avals import ShapedArray
from mgefn.core.primitive import Primitive
from mgefn.errors import DTypeError
from mgefn.ops.elementwise import (
    FLOAT,
    batch_elementwise,
    common_shape,
    convert,
    elementwise,
    shift_right_logical_p,
)
from mgefn.ops.shaping import iota, reshape

UINT32 = np.dtype(np.uint32)
UINT64 = np.dtype(np.uint64)

# operands: the two words of a key, then the two words of a counter, high word first; all uint32,
# of one shape or of rank 0. Outputs: two words of that shape.
threefry2x32_p = Primitive("threefry2x32", elementwise=True, constant=True, weak_result=False)
threefry2x32_p.no_rule("transpose", "integer outputs")
threefry2x32_p.def_batch(batch_elementwise(threefry2x32_p))
# 20 rounds of an addition, a rotation and an exclusive or, with 5 injections of the key.
threefry2x32_p.flops = lambda in_avals, params: 115.0 * max(a.size for a in in_avals)


@threefry2x32_p.def_abstract_eval
def _threefry2x32_abstract_eval(*avals: ShapedArray):
    if len(avals) != 4 or any(a.dtype != UINT32 for a in avals):
        raise DTypeError(
            f"threefry2x32: needs four operands of uint32, got {' and '.join(map(str, avals))}. "
            "Cast them."
        )
    out = ShapedArray(common_shape("threefry2x32", avals), UINT32)
    return out, out


sampling_log_p = elementwise("sampling_log", FLOAT, lambda y, x: 1 / x)
sampling_log1p_p = elementwise("sampling_log1p", FLOAT, lambda y, x: 1 / (1 + x))
sampling_exp_p = elementwise("sampling_exp", FLOAT, lambda y, x: y)
sampling_erf_p = elementwise(
    "sampling_erf", FLOAT, lambda y, x: (2 / math.sqrt(math.pi)) * sampling_exp_p.bind1(-(x * x))
)
# params: exact, whether float64 is worth fused operations
sampling_erf_inv_p = elementwise(
    "sampling_erf_inv",
    FLOAT,
    lambda y, x: (math.sqrt(math.pi) / 2) * sampling_exp_p.bind1(y * y),
)

# a * b + c, rounded once; in float64 nearly so
sampling_fma_p = elementwise("sampling_fma", FLOAT, lambda y, a, b, c: b, lambda y, a, b, c: a, 1)


def counters(shape: tuple[int, ...]) -> tuple[Any, Any]:
    """The high and low words of the row-major index of each element; the high one may be rank 0."""
    size = math.prod(shape)
    zero = scalar(0, UINT32)
    if not shape:
        return zero, zero
    if size <= 2**32:
        return zero, reshape(iota(UINT32, size), shape)
    index = reshape(iota(UINT64, size), shape)
    high = shift_right_logical_p.bind1(index, scalar(32, UINT64))
    return convert(high, UINT32), convert(index, UINT32)
