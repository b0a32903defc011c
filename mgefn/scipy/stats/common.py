"""What the distributions share.

Parameters and points are promoted to one real floating dtype and broadcast. A density is -inf (its
logarithm) outside the distribution's support; there every derivative is 0, not NaN, because the
formula is evaluated at a point inside instead.
"""

from __future__ import annotations

import math
from typing import Any

from mgefn import dtypes
from mgefn import numpy as mnp
from mgefn.core.array_methods import ArrayLike
from mgefn.errors import DTypeError
from mgefn.ops.elementwise import broadcasted, promoted, where

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def promoted_floats(name: str, *args: ArrayLike) -> list[Any]:
    """The arguments as arrays of their common real floating dtype."""
    arrays = promoted(name, args, inexact=True)
    for a in arrays:
        if dtypes.is_complex(a.dtype):
            raise DTypeError(f"{name}: needs real arrays, got {a.aval}.")
    return arrays


def floats(name: str, *args: ArrayLike) -> list[Any]:
    """The arguments as real floating arrays that broadcast with each other."""
    arrays = promoted_floats(name, *args)
    # Scalars stay scalars: operations broadcast them without copies.
    broadcasted(name, arrays)
    return arrays


def standard(name: str, x: ArrayLike, loc: ArrayLike, scale: ArrayLike) -> Any:
    """(x - loc) / scale."""
    x, loc, scale = floats(name, x, loc, scale)
    return (x - loc) / scale


def unless_nan(x: Any, result: Any) -> Any:
    """result, and NaN where x is NaN: comparisons with it are false."""
    return where(mnp.isnan(x), math.nan, result)


def not_a_count(k: Any) -> Any:
    """Whether k is not one of 0, 1, 2, ...; False for NaN, which a formula then passes on."""
    return (k < 0) | (k > mnp.floor(k)) | (k == math.inf)


def log_of(p: Any) -> Any:
    """log(p), -inf with derivative 0 where p has underflowed."""
    zero = p == 0
    return where(zero, -math.inf, mnp.log(where(zero, 1, p)))


def log_of_power(k: Any, p: Any, less_one: Any = None) -> Any:
    """k log(p), or k log1p(less_one) if that is given as p - 1; 0 for k = 0 and any p.

    The derivative in p is right at p = 0 too, where k is 0.
    """
    none = k == 0
    log = mnp.log(where(none, 1, p)) if less_one is None else mnp.log1p(where(none, 0, less_one))
    return where(none, 0, k * log)
