"""Reading the arguments of the index functions: arrays from lists, integers, known values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.core.array import ConcreteArray, as_array
from mgefn.core.array_methods import METHODS
from mgefn.core.device_array import is_on_device
from mgefn.core.tracer import Tracer
from mgefn.errors import ConcretizationTypeError, DTypeError
from mgefn.ops.indexing.slices import index_dtype

BOOL = np.dtype(bool)


def indices_dtype(shape: Sequence[int]) -> np.dtype:
    """Of indices that are a result: the default integer, or int64 where that is too narrow."""
    return max(index_dtype(shape), dtypes.default_int(), key=lambda d: d.itemsize)


def array_of(name: str, x: Any) -> Any:
    """An array also from a list or tuple."""
    return METHODS["asarray"](x) if isinstance(x, (list, tuple)) else as_array(x, name)


def integers_of(name: str, x: Any) -> Any:
    """An integer array; an empty list counts as one."""
    if isinstance(x, (list, tuple)) and not len(x):
        return ConcreteArray(np.zeros(0, np.int32))
    a = array_of(name, x)
    if not dtypes.is_integer(a.dtype):
        raise DTypeError(f"{name}: indices must be integers, got {a.aval}. Cast them with astype.")
    return a


def known(x: Any) -> np.ndarray | None:
    """The values of an array where they are known to the host, through the boxes of jvp and grad.

    Those on a device are not: the operation goes there.
    """
    while isinstance(x, Tracer):
        x = x.concrete()
    return None if x is None or is_on_device(x) else np.asarray(x)


def deciding(x: Any) -> np.ndarray | None:
    """The same for values that decide a size: those on a device are copied to the host."""
    while isinstance(x, Tracer):
        x = x.concrete()
    return None if x is None else np.asarray(x)


def needed(name: str, x: Any, repair: str) -> np.ndarray:
    value = deciding(x)
    if value is None:
        raise ConcretizationTypeError(
            f"{name}: needs known values, got the traced {x.aval}, so the size of the result is "
            f"unknown. {repair}"
        )
    return value


def constant(data: np.ndarray) -> ConcreteArray:
    return ConcreteArray(np.asarray(data))


def as_size(x: Any) -> int:
    """Number of elements of anything array-like."""
    return len(x) if isinstance(x, (list, tuple)) else as_array(x).size
