"""Equal eigenvalues and singular values, where vectors have no derivative.

Vectors that belong to one value are any basis of their space, so the derivative of a single vector
does not exist, while a function that does not depend on the basis, V g(W) V^H, has one. It can't be
had from vectors and values at the point itself: there V g V^H for g(w) = w and g(w) = w**2 are the
same, and have different derivatives. So where a derivative is taken, values that are equal up to
rounding are moved apart by about the square root of the rounding error (relative; 3e-4 in float32,
1e-8 in float64) around their mean, and all derivatives are those of the matrix with these values:
the truncation and the rounding error of such functions balance there. Values that are 0 up to
rounding have nothing to be relative to and stay; what would mix their vectors is taken for 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mgefn.control.linalg.matrices import define_stacked_batch
from mgefn.core.array import scalar
from mgefn.core.avals import ShapedArray
from mgefn.core.primitive import Primitive
from mgefn.ops.elementwise import where
from mgefn.ops.shaping import expand_dims

# operand: values [..., n] in ascending or descending order. outputs: what to add to each, [..., n];
# which pairs are apart then, bool [..., n, n], False on the diagonal
spread_p = Primitive("spread", constant=True, weak_result=False)
spread_p.no_rule("transpose", "has no derivative")
define_stacked_batch(spread_p)


@spread_p.def_abstract_eval
def _spread_abstract_eval(w: ShapedArray):
    return (
        ShapedArray(w.shape, w.dtype),
        ShapedArray((*w.shape, w.shape[-1]), np.dtype(bool)),
    )


def spread(w: Any) -> tuple[Any, Any]:
    """The values, moved apart where they are equal, and 1 / (w_j - w_i), 0 where they are not."""
    shift, apart = spread_p.bind(w)
    w = w + shift
    one = scalar(1, w.dtype)
    differences = expand_dims(w, -2) - expand_dims(w, -1)
    inverse = one / where(apart, differences, one)
    return w, where(apart, inverse, scalar(0, w.dtype))
