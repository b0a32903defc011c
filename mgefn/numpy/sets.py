"""Membership of elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from mgefn.core.array_methods import Array, ArrayLike
from mgefn.numpy.creation import asarray, zeros
from mgefn.ops.elementwise import logical_not, minimum, promoted
from mgefn.ops.indexing.select import take
from mgefn.ops.shaping import ravel
from mgefn.ops.sorting import searchsorted


def isin(
    element: ArrayLike,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    method: str = "auto",
) -> Array:
    """Is each element among the test elements? As numpy.isin tells it; NaN is never.

    Args:
        element: an array.
        test_elements: the elements to look for, of any shape.
        assume_unique: accepted.
        invert: tell instead which are not among them.
        method: accepted.
    """
    x, tests = promoted("isin", (element, asarray(test_elements)))
    tests = ravel(tests).sort()
    n = tests.shape[0]
    found: Any
    if not n:
        found = zeros(x.shape, np.bool_)
    else:
        place = minimum(searchsorted(tests, x), n - 1)
        found = take(tests, place, mode="clip") == x
    return logical_not(found) if invert else found
