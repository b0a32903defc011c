"""Operations: each family's public functions beside their primitives and rules.

This is also the module of jax.ops' names, which are loaded when first named.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mgefn.ops.segments import segment_max as segment_max
    from mgefn.ops.segments import segment_min as segment_min
    from mgefn.ops.segments import segment_prod as segment_prod
    from mgefn.ops.segments import segment_sum as segment_sum

# module -> names that it lends to this one
_LENT = {"mgefn.ops.segments": ("segment_max", "segment_min", "segment_prod", "segment_sum")}
_LENDERS = {name: module for module, names in _LENT.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _LENDERS:
        value = globals()[name] = getattr(importlib.import_module(_LENDERS[name]), name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LENDERS})
