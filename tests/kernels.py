"""What tests ask kernels."""

from __future__ import annotations

from typing import Any


def scratch_of(kernel: Any, in_avals: Any, out_avals: Any, params: dict[str, Any]) -> int:
    """The scratch memory in bytes that a kernel declares; 0 where it declares none."""
    bound = getattr(kernel, "temp_bytes", None)
    return 0 if bound is None else bound(in_avals, out_avals, **params)
