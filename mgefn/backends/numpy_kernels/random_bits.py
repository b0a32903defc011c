"""Kernel of `ops/random_bits.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from mgefn.backends.numpy_kernels.base import temp_bytes

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = np.uint32(0x1BD11BDA)

# The words of this many counters and one temporary stay in the second-level cache for 20 rounds.
CHUNK = 16384

# Up to here Python's own integers beat NumPy's calls: splitting a key is two counters.
FEW = 6


def _flat(x: np.ndarray, size: int) -> np.ndarray:
    """One dimension of `size` elements, or of one for an operand of rank 0."""
    return x.reshape(1) if x.ndim == 0 and size != 1 else x.reshape(-1)


def _threefry2x32_temp(in_avals: Any, out_avals: Any, **params: Any) -> int:
    # Batched keys are broadcast views, which reshape copies.
    return sum(a.nbytes for a in in_avals) + 8 * 4 * min(CHUNK, out_avals[0].size) + 4096


@temp_bytes(_threefry2x32_temp)
def threefry2x32(k0, k1, c0, c1, *, outs: tuple = (None, None)) -> tuple:
    shape = next((a.shape for a in (k0, k1, c0, c1) if a.shape), ())
    results = tuple(np.empty(shape, np.uint32) if out is None else out for out in outs)
    size = results[0].size
    if size <= FEW:
        words = zip(
            *(np.broadcast_to(a, shape).ravel().tolist() for a in (k0, k1, c0, c1)), strict=True
        )
        pairs = [_block(*w) for w in words]
        for i, out in enumerate(results):
            out.reshape(-1)[:] = [p[i] for p in pairs]
        return results
    flat = [r.reshape(-1) for r in results]
    assert all(r.flags.c_contiguous for r in results), "blocks of the arena are contiguous"
    operands = [_flat(a, size) for a in (k0, k1, c0, c1)]
    for start in range(0, size, CHUNK):
        part = slice(start, min(start + CHUNK, size))
        key0, key1, x0, x1 = (a if a.size == 1 else a[part] for a in operands)
        _rounds(key0, key1, x0, x1, flat[0][part], flat[1][part])
    return results


def _block(key0: int, key1: int, x0: int, x1: int) -> tuple[int, int]:
    """The 20 rounds for one counter."""
    mask = 0xFFFFFFFF
    schedule = (key0, key1, key0 ^ key1 ^ int(PARITY))
    x0, x1 = (x0 + key0) & mask, (x1 + key1) & mask
    for i in range(5):
        for r in ROTATIONS[i % 2]:
            x0 = (x0 + x1) & mask
            x1 = ((x1 << r) & mask | x1 >> (32 - r)) ^ x0
        x0 = (x0 + schedule[(i + 1) % 3]) & mask
        x1 = (x1 + schedule[(i + 2) % 3] + i + 1) & mask
    return x0, x1


def _rounds(key0: Any, key1: Any, c0: Any, c1: Any, x0: np.ndarray, x1: np.ndarray) -> None:
    """20 rounds on one chunk, in the outputs' memory."""
    schedule = (key0, key1, key0 ^ key1 ^ PARITY)
    temp = np.empty_like(x0)
    np.add(c0, key0, out=x0)
    np.add(c1, key1, out=x1)
    for i in range(5):
        for r in ROTATIONS[i % 2]:
            np.add(x0, x1, out=x0)
            np.left_shift(x1, np.uint32(r), out=temp)
            np.right_shift(x1, np.uint32(32 - r), out=x1)
            np.bitwise_or(x1, temp, out=x1)
            np.bitwise_xor(x1, x0, out=x1)
        np.add(x0, schedule[(i + 1) % 3], out=x0)
        np.add(x1, schedule[(i + 2) % 3] + np.uint32(i + 1), out=x1)
