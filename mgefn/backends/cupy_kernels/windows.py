"""Kernels of `ops/windows.py`.

Sums and extrema reduce a strided view with one more dimension for each axis of the window, of the
operand padded with the identity. What selects the extreme element goes place by place, as the NumPy
kernel does: one operation on two strided views for each place of the window.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mgefn import dtypes
from mgefn.backends.cupy_kernels.base import bits, widened
from mgefn.backends.cupy_kernels.reductions import extremum
from mgefn.backends.cupy_kernels.shaping import padded
from mgefn.backends.numpy_kernels.windows import Axis, axes_of, places_of
from mgefn.core.cuda import xp
from mgefn.ops.reductions import highest, lowest
from mgefn.ops.windows import out_sizes


def windows_of(
    x: Any,
    fill: Any,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int],
    window_dilation: Sequence[int],
) -> Any:
    """A view [*outputs, *window] of the operand with `fill` around and between its elements."""
    outputs = out_sizes(
        x.shape, window_dimensions, window_strides, padding, base_dilation, window_dilation
    )
    config = [
        (low, high, base - 1) for (low, high), base in zip(padding, base_dilation, strict=True)
    ]
    if any(low or high or between for low, high, between in config):
        x = padded(x, fill, config)
    strides = [s * step for s, step in zip(x.strides, window_strides, strict=True)]
    strides += [s * step for s, step in zip(x.strides, window_dilation, strict=True)]
    shape = (*outputs, *window_dimensions)
    if 0 in shape:
        return xp.empty(shape, x.dtype)
    return xp.lib.stride_tricks.as_strided(x, shape, strides)


def reduce_window_sum(x: Any, **params: Any) -> tuple:
    wide = dtypes.accumulator(x.dtype)
    seen = windows_of(widened(x), 0, **params)
    if seen.size == 0:
        return (xp.zeros(seen.shape[: x.ndim], x.dtype),)
    total = xp.sum(seen, axis=tuple(range(x.ndim, 2 * x.ndim)), dtype=wide)
    return (total.astype(x.dtype, copy=False),)


def _window_extremum(name: str, identity: Any, x: Any, params: dict[str, Any]) -> tuple:
    y = x.view(np.uint8) if x.dtype.kind == "b" else widened(x)
    fill = identity(x.dtype)
    seen = windows_of(y, int(fill) if x.dtype.kind == "b" else fill, **params)
    axes = tuple(range(x.ndim, 2 * x.ndim))
    # Its own identity: that of float16 is the infinity of float32, too.
    found = extremum(name, lambda _: fill, seen, axes)
    return (found.view(bool) if x.dtype.kind == "b" else found.astype(x.dtype, copy=False),)


def reduce_window_max(x: Any, **params: Any) -> tuple:
    return _window_extremum("amax", lowest, x, params)


def reduce_window_min(x: Any, **params: Any) -> tuple:
    return _window_extremum("amin", highest, x, params)


def _choices(x: Any, select: str, axes: Sequence[Axis]) -> Any:
    """For each output the number of the window's place with the extreme element, -1 for none.

    The first one wins a tie, and a NaN wins over numbers.
    """
    x = widened(x)
    shape = tuple([a.outputs for a in axes])
    dtype = np.dtype(np.int16 if math.prod([a.window for a in axes]) < 2**15 else np.int64)
    choice = xp.full(shape, -1, dtype)
    best = xp.zeros(shape, x.dtype)
    # Is the best one so far not beaten? Written so that comparisons with a NaN say no.
    holds = xp.greater_equal if select == "max" else xp.less_equal
    for number, written, read in places_of(axes):
        candidate, champion, chosen = x[read], best[written], choice[written]
        wins = xp.logical_not(holds(champion, candidate))
        if x.dtype.kind in "fc":
            wins = wins & xp.equal(champion, champion)
        wins = wins | xp.less(chosen, 0)
        xp.copyto(champion, candidate, where=wins)
        xp.copyto(chosen, number, where=wins, casting="unsafe")
    return choice


def select_and_gather_add(t: Any, x: Any, *, select: str, **params: Any) -> tuple:
    """The tangent at the extreme element of each window; 0 for windows in the padding."""
    shape = out_sizes(x.shape, **params)
    axes = axes_of(x.shape, shape, **params)
    out = xp.zeros(shape, bits(t).dtype)
    choice = _choices(x, select, axes)
    for number, written, read in places_of(axes):
        xp.copyto(out[written], bits(t)[read], where=xp.equal(choice[written], number))
    return (out.view(t.dtype),)


def select_and_scatter_add(source: Any, x: Any, *, select: str, **params: Any) -> tuple:
    """Each source added to the place of its window's extreme element."""
    axes = axes_of(x.shape, source.shape, **params)
    wide = dtypes.accumulator(source.dtype)
    source_wide = source.astype(wide, copy=False)
    total = xp.zeros(x.shape, wide)
    choice = _choices(x, select, axes)
    nothing = wide.type(0)
    for number, written, read in places_of(axes):
        view = total[read]
        chosen = xp.equal(choice[written], number)
        view[...] = view + xp.where(chosen, source_wide[written], nothing)
    return (total.astype(source.dtype, copy=False),)
