"""The product of a tangent or cotangent with a local slope.

Where one factor is exactly 0 and the other is not finite `scale_p` is 0, so a branch that was not
taken leaves no NaN. Its own derivative is the ordinary product rule.
"""

from __future__ import annotations

from typing import Any

from mgefn.config import config
from mgefn.core.array_methods import METHODS
from mgefn.core.avals import is_undefined
from mgefn.ops.elementwise.common import INEXACT, convert, elementwise, sum_to_shape

scale_p = elementwise("scale", INEXACT, lambda y, t, slope: slope, lambda y, t, slope: t)


def scale(t: Any, slope: Any) -> Any:
    """t * slope, and 0 where one factor is exactly 0 and the other not finite; linear in t."""
    if slope.dtype != t.dtype:
        slope = convert(slope, t.dtype)
    if config.zero_annihilates:
        return scale_p.bind1(t, slope)
    return METHODS["multiply"](t, slope)


@scale_p.def_transpose
def _scale_transpose(cts, t, slope):
    (ct,) = cts
    if is_undefined(slope):
        return None, sum_to_shape(scale_p.bind1(ct, t), slope.aval.shape)
    return sum_to_shape(scale_p.bind1(ct, slope), t.aval.shape), None
