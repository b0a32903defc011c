"""Names for annotations: `Array` for results, `ArrayLike` and `DTypeLike` for arguments.

Example:
    >>> def scaled(x: mgefn.typing.ArrayLike, by: float) -> mgefn.Array:
    ...     return mnp.asarray(x) * by
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from mgefn.core.array_methods import Array
from mgefn.dtypes import DTypeLike

ArrayLike: TypeAlias = Array | np.ndarray | np.bool_ | np.number | bool | int | float | complex
"""What functions of arrays take: an array, or a number. isinstance may be asked about it."""

__all__ = ["Array", "ArrayLike", "DTypeLike"]
