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
from mgefn.ops.windows import out_sizes

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


# -- sum, max, min --------------------------------------------------------------------------------


def _stages(shape: tuple[int, ...], out_shape: tuple[int, ...], params: dict) -> list[tuple]:
    """What to do one after another: (number of the axis, the axis, shape after it).

    The axes that shrink most come first, so that later ones have less to read.
    """
    axes = axes_of(shape, out_shape, **params)
    order = [d for d, a in enumerate(axes) if not a.plain]
    order.sort(key=lambda d: axes[d].outputs / max(axes[d].size, 1))
    stages, now = [], list(shape)
    for d in order:
        now[d] = axes[d].outputs
        stages.append((d, axes[d], tuple(now)))
    return stages


class WindowReduction:
    """The kernel of a reduction of windows.

    Args:
        ufunc: NumPy's, that joins two elements.
        identity: dtype -> the value of an empty window.
        exact: the result is always one of the elements, so no wider dtype is needed.
    """

    def __init__(self, ufunc: Any, identity: Any, exact: bool = False):
        self.ufunc = ufunc
        self.identity = identity
        self.exact = exact

    def _computed(self, dtype: np.dtype) -> np.dtype:
        return dtype if self.exact else dtypes.accumulator(dtype)

    def __call__(self, x: np.ndarray, *, outs: tuple = (None,), **params: Any) -> tuple:
        out = outs[0]
        wide = self._computed(x.dtype)
        stages = _stages(x.shape, out_sizes(x.shape, **params), params)
        if not stages:
            return (x if out is None else deliver(x, out),)
        dtype, now = x.dtype, x
        for step, (d, axis, shape) in enumerate(stages):
            last = step == len(stages) - 1
            if last and out is not None and wide == dtype:
                target = out
            else:
                target = np.empty(shape, wide)
            self._along(now, d, axis, target)
            now = target
        if wide != dtype:
            return (now.astype(dtype) if out is None else deliver(now, out),)
        return (now,)

    def _along(self, x: np.ndarray, d: int, axis: Axis, target: np.ndarray) -> None:
        before = (slice(None),) * d
        # The first place of the windows that reaches every output needs no identity before it.
        first = next((k for k in range(axis.window) if _is_whole(axis.at(k), axis.outputs)), None)
        if first is None:
            target[...] = self.identity(target.dtype)
        else:
            _, read = axis.at(first)  # type: ignore[misc]  # _is_whole found it
            target[...] = x[(*before, read)]
        for k in range(axis.window):
            pair = axis.at(k)
            if k == first or pair is None:
                continue
            written, read = pair
            view = target[(*before, written)]
            self.ufunc(view, x[(*before, read)], out=view)

    def temp_bytes(self, in_avals: Any, out_avals: Any, **params: Any) -> int:
        """Two neighbouring stages at a time, the last one in the output."""
        (x,), (out,) = in_avals, out_avals
        wide = self._computed(x.dtype)
        sizes = [math.prod(shape) for _, _, shape in _stages(x.shape, out.shape, params)]
        if wide == x.dtype:
            sizes = sizes[:-1]
        pairs = [a + b for a, b in itertools.pairwise(sizes)]
        # NumPy sets up a buffer for each of the three operands.
        return (max([*sizes, *pairs], default=0) + 3 * BUFFER_ELEMENTS) * wide.itemsize


def _is_whole(pair: tuple[slice, slice] | None, outputs: int) -> bool:
    return pair is not None and pair[0] == slice(0, outputs, 1)


reduce_window_sum = WindowReduction(np.add, lambda dtype: 0)
reduce_window_max = WindowReduction(np.maximum, lowest, exact=True)
reduce_window_min = WindowReduction(np.minimum, highest, exact=True)


# -- the extreme element of each window -----------------------------------------------------------


def places_of(axes: Sequence[Axis]) -> Iterator[tuple[int, tuple, tuple]]:
    """Each place of a window that any output reads: its number, the outputs, the elements."""
    pairs = [[axis.at(k) for k in range(axis.window)] for axis in axes]
    for number, chosen in enumerate(itertools.product(*pairs)):
        if any(pair is None for pair in chosen):
            continue
        # With an Ellipsis an index of rank 0 gives a view, too.
        yield (
            number,
            (..., *[pair[0] for pair in chosen]),  # type: ignore[index]  # none is None
            (..., *[pair[1] for pair in chosen]),  # type: ignore[index]  # none is None
        )


def _choice_dtype(window_dimensions: Sequence[int]) -> np.dtype:
    return np.dtype(np.int16 if math.prod(window_dimensions) < 2**15 else np.int64)


def _choices(x: np.ndarray, select: str, axes: Sequence[Axis], dtype: np.dtype) -> np.ndarray:
    """For each output the number of the window's place with the extreme element, -1 for none.

    The first one wins a tie, and a NaN wins over numbers.
    """
    shape = tuple([a.outputs for a in axes])
    choice = np.full(shape, -1, dtype)
    best = np.empty(shape, x.dtype)
    # Is the best one so far not beaten? Written so that comparisons with a NaN say no.
    holds = np.greater_equal if select == "max" else np.less_equal
    has_nan = x.dtype.kind in "fcV"
    for number, written, read in places_of(axes):
        candidate, champion, chosen = x[read], best[written], choice[written]
        wins = np.asarray(holds(champion, candidate))  # of rank 0 a ufunc gives a scalar
        np.logical_not(wins, out=wins)
        if has_nan:
            wins &= champion == champion
        wins |= chosen < 0
        np.copyto(champion, candidate, where=wins)
        np.copyto(chosen, dtype.type(number), where=wins)
    return choice


def _choice_temp(x: Any, shape: tuple[int, ...], window_dimensions: Sequence[int]) -> int:
    n = math.prod(shape)
    per_output = _choice_dtype(window_dimensions).itemsize + x.dtype.itemsize + 3
    # Comparisons of strided bfloat16 and of unaligned data go through buffers.
    return n * per_output + 2 * BUFFER_ELEMENTS * x.dtype.itemsize


def _gather_temp(in_avals: Any, out_avals: Any, *, window_dimensions: Any, **params: Any) -> int:
    (_, x), (out,) = in_avals, out_avals
    return _choice_temp(x, out.shape, window_dimensions)


@temp_bytes(_gather_temp)
def select_and_gather_add(t, x, *, select, outs: tuple = (None,), **params) -> tuple:
    """The tangent at the extreme element of each window; 0 for windows in the padding."""
    shape = out_sizes(x.shape, **params)
    axes = axes_of(x.shape, shape, **params)
    out = np.empty(shape, t.dtype) if outs[0] is None else outs[0]
    out[...] = 0
    choice = _choices(x, select, axes, _choice_dtype(params["window_dimensions"]))
    for number, written, read in places_of(axes):
        np.copyto(out[written], t[read], where=choice[written] == number)
    return (out,)


def _scatter_temp(in_avals: Any, out_avals: Any, *, window_dimensions: Any, **params: Any) -> int:
    (source, x), (out,) = in_avals, out_avals
    wide = dtypes.accumulator(source.dtype)
    total = out.size * wide.itemsize if wide != source.dtype else 0
    # The product of a source with where it goes, in its own dtype.
    return total + _choice_temp(x, source.shape, window_dimensions) + source.nbytes


@temp_bytes(_scatter_temp)
def select_and_scatter_add(source, x, *, select, outs: tuple = (None,), **params) -> tuple:
    """Each source added to the place of its window's extreme element."""
    axes = axes_of(x.shape, source.shape, **params)
    wide = dtypes.accumulator(source.dtype)
    out = outs[0]
    total = np.empty(x.shape, wide) if out is None or wide != source.dtype else out
    total[...] = 0
    choice = _choices(x, select, axes, _choice_dtype(params["window_dimensions"]))
    for number, written, read in places_of(axes):
        view = total[read]
        np.add(view, source[written], out=view, where=choice[written] == number)
    if wide != source.dtype:
        return (total.astype(source.dtype) if out is None else deliver(total, out),)
    return (total,)
