"""Sliding windows: which loops a reduction of them becomes, and the choice of their extremes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from mgefn.backends.llvm_kernels.contractions import chunk_of
from mgefn.backends.llvm_kernels.convolution import MOST_ENTRIES, Axis
from mgefn.compiler.codegen.convolution import Padded
from mgefn.compiler.codegen.values import ALL, NUMBERS
from mgefn.compiler.codegen.windows import GATHER, REDUCE, SCATTER, Windows
from mgefn.compiler.native import dtype_name, vector_bytes
from mgefn.compiler.steps import Call, Fixed, Lowered, NativeStep, Place, Spot, roots_of
from mgefn.core.avals import ShapedArray
from mgefn.core.jaxpr import Eqn


def _steps(shape: Sequence[int]) -> list[int]:
    """Strides in elements."""
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]


def _merged(lines: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Axes (size, step in x, step in the windows) that are walked evenly as one."""
    out: list[tuple[int, int, int]] = []
    for n, x, y in lines:
        if n == 1:
            continue
        if out and out[-1][1:] == (x * n, y * n):
            out[-1] = (out[-1][0] * n, x, y)
        else:
            out.append((n, x, y))
    return out


def _call(
    eqn: Eqn, way: str, kind: str, x: ShapedArray, windows: tuple[int, ...], moved: str,
    spots: Sequence[Spot],
) -> Call | None:  # fmt: skip
    p = eqn.params
    axes = [
        Axis(*row)
        for row in zip(
            x.shape, windows, p["window_dimensions"], p["window_strides"],
            [low for low, _ in p["padding"]], p["base_dilation"], p["window_dilation"],
            strict=True,
        )
    ]  # fmt: skip
    if sum(a.outputs for a in axes) > MOST_ENTRIES:
        return None
    x_steps, y_steps = _steps(x.shape), _steps(windows)
    plain = [d for d, a in enumerate(axes) if a.plain]
    windowed = [d for d, a in enumerate(axes) if not a.plain]
    # The lanes: an axis without a window, windows side by side, or only one.
    lines = _merged([(axes[d].outputs, axes[d].stride * x_steps[d], y_steps[d]) for d in plain])
    start = sum(-axes[d].low * x_steps[d] for d in plain)
    lanes, x_lane, own, even = 1, 0, (0, 0, 0, 0, 0), True
    last = windowed[-1] if windowed else -1
    if lines and lines[-1][2] == 1:
        lanes, x_lane, _ = lines.pop()
        even = x_lane == 1
    elif last == len(axes) - 1 and last >= 0:
        a = axes[last]
        # Lanes that add to elements must not meet.
        apart = a.stride > (a.window - 1) * a.dilation
        if a.base == 1 and a.outputs > 1 and (apart or way != SCATTER):
            windowed.pop()
            lanes, even = a.outputs, a.stride == 1
            own = (a.window, a.stride, a.low, a.dilation, a.size)
    dtype = dtype_name(x)
    sizes = [x.dtype.itemsize] + ([] if way == REDUCE else [8])
    width = max(4, vector_bytes() // max(sizes))
    width = min(width, max(4, 1 << (lanes - 1).bit_length()))
    panels = -(-lanes // width)
    affine = lines or [(1, 0, 0)]
    numbers = [lanes, panels, x_lane, *own]
    for line in affine:
        numbers += line
    tables: list[np.ndarray] = []
    offset = 0
    for d in windowed:
        a = axes[d]
        count, _, element = a.inside()
        zeros = np.zeros_like(count)
        tables.append(np.stack([count, element * x_steps[d], zeros, zeros], -1))
        numbers += [a.outputs, y_steps[d], a.element_step * x_steps[d], offset]
        offset += tables[-1].nbytes
    table = np.concatenate(tables) if tables else np.zeros((1, 4), np.int64)
    kernel = Windows(way, kind, dtype, moved, width, len(affine), len(windowed), bool(own[0]), even)
    count = math.prod(n for n, _, _ in affine)
    if way == SCATTER:
        count *= panels
    else:
        count *= math.prod(axes[d].outputs for d in windowed[:-1])
    places = math.prod(p["window_dimensions"]) + 4
    nanoseconds = math.prod(windows) / lanes * panels * places * (1.0 if way == REDUCE else 3.0)
    (root, first), *rest = spots
    moved_size = start * x.dtype.itemsize
    slots = [(root, first + moved_size), *rest, (Fixed(table), 0)]
    if start:
        # What is read or added to lies as x does.
        other = {GATHER: 1, SCATTER: 2}.get(way)
        if other is not None:
            root, first = slots[other]
            slots[other] = (root, first + start * np.dtype(moved).itemsize)
    return Call(kernel, tuple(slots), tuple(numbers), count, chunk_of(count, nanoseconds))


def _reduction(kind: str) -> Callable[[Eqn, Sequence[Place]], NativeStep | None]:
    def lower(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
        x, out = eqn.inputs[0].aval, eqn.out_binders[0]
        dtype = dtype_name(x)
        if dtype not in (NUMBERS if kind == "sum" else ALL):
            return None
        spots: list[Spot] = [(places[0].root, places[0].offset), (out, 0)]
        call = _call(eqn, REDUCE, kind, x, out.aval.shape, dtype, spots)
        if call is None:
            return None
        flops = float(math.prod(out.aval.shape) * math.prod(eqn.params["window_dimensions"]))
        return NativeStep(
            [call], roots_of(places), [out], eqn.primitive.name, flops=flops,
            moved=x.nbytes + out.aval.nbytes,
        )  # fmt: skip

    return lower


def _selection(way: str) -> Callable[[Eqn, Sequence[Place]], NativeStep | None]:
    def lower(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
        source, x = (a.aval for a in eqn.inputs)
        out = eqn.out_binders[0]
        moved = dtype_name(source)
        if dtype_name(x) not in ALL or moved not in NUMBERS:
            return None
        given: Spot = (places[0].root, places[0].offset)
        spots: list[Spot] = [(places[1].root, places[1].offset), given, (out, 0)]
        windows = out.aval.shape if way == GATHER else source.shape
        call = _call(eqn, way, eqn.params["select"], x, windows, moved, spots)
        if call is None:
            return None
        calls = [call]
        if way == SCATTER:
            calls.insert(0, _zeros((out, 0), x.shape, source.dtype.itemsize))
        flops = float(math.prod(windows) * math.prod(eqn.params["window_dimensions"]))
        return NativeStep(
            calls, roots_of(places), [out], eqn.primitive.name, flops=flops,
            moved=x.nbytes + source.nbytes + out.aval.nbytes,
        )  # fmt: skip

    return lower


def _zeros(spot: Spot, shape: tuple[int, ...], size: int) -> Call:
    """Zeros in a contiguous array: a copy of which nothing lies inside the source."""
    rows = shape[0] if shape else 1
    row = math.prod(shape[1:])
    numbers = (rows, 0, row * size, *(1, 0, 0) * 3, 1, 0, 0, 0, 0, row, size, 0, 0)
    kernel = Padded(size, max(4, vector_bytes() // size), False)
    return Call(kernel, (spot, spot), numbers, rows, chunk_of(rows, rows * row * size / 12.0))


reduce_window_sum = Lowered(_reduction("sum"))
reduce_window_max = Lowered(_reduction("max"))
reduce_window_min = Lowered(_reduction("min"))
select_and_gather_add = Lowered(_selection(GATHER))
select_and_scatter_add = Lowered(_selection(SCATTER))
