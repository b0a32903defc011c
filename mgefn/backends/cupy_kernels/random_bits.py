"""Kernel of `ops/random_bits.py`: the rounds of threefry2x32 in integer arithmetic."""

from __future__ import annotations

from typing import Any

from mgefn.backends.numpy_kernels.random_bits import PARITY, ROTATIONS
from mgefn.core.cuda import xp


def threefry2x32(k0: Any, k1: Any, c0: Any, c1: Any) -> tuple:
    shape = next((a.shape for a in (k0, k1, c0, c1) if a.shape), ())
    schedule = (k0, k1, k0 ^ k1 ^ int(PARITY))
    x0, x1 = xp.broadcast_to(c0 + k0, shape), xp.broadcast_to(c1 + k1, shape)
    for i in range(5):
        for r in ROTATIONS[i % 2]:
            x0 = x0 + x1
            x1 = ((x1 << r) | (x1 >> (32 - r))) ^ x0
        x0 = x0 + schedule[(i + 1) % 3]
        x1 = x1 + (schedule[(i + 2) % 3] + (i + 1))
    return x0, x1
