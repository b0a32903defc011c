"""Kernels of `ops/windows.py`: reductions of sliding windows by strided slices.

Window k of an axis reads, for output i, the element (i * stride + k * window_dilation - low) /
base_dilation of the operand, where that is one. For a fixed k these are an arithmetic progression
of outputs and one of elements, so each step of a kernel is one operation on two strided views:
nothing is padded or dilated in memory.

Sums and extrema go axis by axis. What selects the extreme element needs the whole window at once.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from mgefn import dtypes
from mgefn.backends.numpy_kernels.base import BUFFER_ELEMENTS, deliver, temp_bytes
from mgefn.ops.reductions import highest, lowest

BOOL = np.dtype(bool)


def matched(
    size: int, outputs: int, offset: int, stride: int, dilation: int
) -> tuple[slice, slice] | None:
    """Outputs i and elements j of an axis with i * stride + offset = j * dilation, as slices.

    Args:
        size: elements are j = 0, ..., size - 1.
        outputs: outputs are i = 0, ..., outputs - 1.
        offset: where output 0 reads, in units of the dilated axis; may be negative.
        stride, dilation: positive.
    Returns:
        (slice of outputs, slice of elements) of one length, or None where there is no pair.
    """
    common = math.gcd(stride, dilation)
    if offset % common:
        return None
    i_step, j_step = dilation // common, stride // common
    i = -(offset // common) * pow(j_step, -1, i_step) % i_step
    j = (i * stride + offset) // dilation
    if j < 0:
        skipped = -(j // j_step)
        i, j = i + skipped * i_step, j + skipped * j_step
    count = min(-(-(outputs - i) // i_step), -(-(size - j) // j_step))
    if count <= 0:
        return None
    return (
        slice(i, i + (count - 1) * i_step + 1, i_step),
        slice(j, j + (count - 1) * j_step + 1, j_step),
    )


class Axis(NamedTuple):
    """One axis of a windowed operand."""

    size: int
    outputs: int
    window: int
    stride: int
    low: int
    base_dilation: int
    window_dilation: int

    def at(self, k: int) -> tuple[slice, slice] | None:
        """Outputs, and the elements they read at place k of their windows."""
        offset = k * self.window_dilation - self.low
        return matched(self.size, self.outputs, offset, self.stride, self.base_dilation)

    @property
    def plain(self) -> bool:
        """Is each output the element of its index?"""
        return self.outputs == self.size and self.window == self.stride == 1 and (
            self.low == 0 and self.base_dilation == 1
        )  # fmt: skip


def axes_of(
    shape: Sequence[int],
    out_shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int],
    window_dilation: Sequence[int],
) -> list[Axis]:
    lows = [low for low, _ in padding]
    columns = (window_dimensions, window_strides, lows, base_dilation, window_dilation)
    return [Axis(*row) for row in zip(shape, out_shape, *columns, strict=True)]


def out_shape_of(
    shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int],
    window_dilation: Sequence[int],
) -> tuple[int, ...]:
    """How many windows fit on each padded axis."""
    sizes = []
    for n, k, stride, (low, high), base, window in zip(
        shape,
        window_dimensions,
        window_strides,
        padding,
        base_dilation,
        window_dilation,
        strict=True,
    ):
        room = dilated(n, base) + low + high - dilated(k, window)
        sizes.append(0 if room < 0 else room // stride + 1)
    return tuple(sizes)


def dilated(size: int, dilation: int) -> int:
    """The length of an axis whose elements stand `dilation` apart."""
    return 0 if size == 0 else (size - 1) * dilation + 1
