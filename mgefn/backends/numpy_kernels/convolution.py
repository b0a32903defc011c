"""The kernel of `ops/convolution.py`: convolutions as matrix products.

All layouts are views of one form: an input x[group, n, i, *spatial], a kernel w[group, m, i,
*window] and an output y[group, n, m, *spatial], where groups are feature or batch groups. The
elements that each output sees are copied side by side (im2col), block by block so that the copy
stays small, and multiplied with the kernel. A copy is one assignment of a strided view for each
place of the window, or for each output where those are fewer, as in the derivative by the kernel.
Nothing is padded or dilated in memory (see `windows.matched`).

Two layouts of the copy: "columns" [group, n, i * window, outputs], whose product is the output with
its features first; and "rows" [group, n * outputs, window * i], for features last and for few
outputs. A window of one place reads the input itself. A kernel with one input feature a group is
instead applied place by place, without a copy. And where outputs have far fewer features than
inputs, or the input is dilated, as in the derivative by the input of a strided convolution, the
input is multiplied with the kernel first, and each place's product added where it belongs.

float16, bfloat16 and float8 are computed in float32. Integers go through float64 (or float32) where
every partial sum is exact there, as in `contractions`.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from mgefn import dtypes
from mgefn.backends.numpy_kernels.base import BUFFER_ELEMENTS, temp_bytes
from mgefn.backends.numpy_kernels.contractions import exact_float, magnitude
from mgefn.backends.numpy_kernels.windows import Axis, matched
from mgefn.ops.windows import out_sizes

# The copy of what a block of outputs sees takes at most this many bytes: about a core's share of
# the last cache, and enough for one product to be worth its call.
_COPY_BYTES = 2**21
# Fewer outputs than this make products with features first too narrow.
_FEW_OUTPUTS = 32
# A group with one input feature is applied place by place up to this many places.
_PLACES = 256

ZERO, PRODUCT, PLACES, ADDED = range(4)


class Plan(NamedTuple):
    """How to convolve operands of certain shapes and dtype.

    Blocks are (groups, examples, rows of outputs, input features, rows of the window): how many of
    each to do at a time.
    """

    way: int  # one of the four above
    shape: tuple[int, ...]  # of the output, in its own order
    dtype: np.dtype  # of the output
    computed: np.dtype  # of the sums
    axes: tuple[Axis, ...]
    groups: int
    batch: int  # examples a group
    inputs: int  # input features a group
    outputs: int  # output features a group
    rows: bool  # the layout
    direct: bool  # the window has one place, and the input is read itself
    gaps: bool  # the copy has places that no element of the input fills
    blocks: tuple[int, int, int, int, int]

    @property
    def windows(self) -> int:
        return math.prod([a.window for a in self.axes])

    @property
    def positions(self) -> int:
        return math.prod([a.outputs for a in self.axes])


@functools.lru_cache(maxsize=1024)
def plan(
    x_shape: tuple[int, ...],
    w_shape: tuple[int, ...],
    dtype: np.dtype,
    window_strides: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    lhs_dilation: tuple[int, ...],
    rhs_dilation: tuple[int, ...],
    dimension_numbers: Any,
    feature_group_count: int,
    batch_group_count: int,
    preferred_element_type: np.dtype | None,
    through: np.dtype | None = None,
) -> Plan:
    """How to convolve; `through` is a dtype to compute in instead of the accumulator's."""
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    sizes = [x_shape[d] for d in lhs_spec[2:]]
    window = [w_shape[d] for d in rhs_spec[2:]]
    spatial = out_sizes(sizes, window, window_strides, padding, lhs_dilation, rhs_dilation)
    lows = [low for low, _ in padding]
    columns = (window, window_strides, lows, lhs_dilation, rhs_dilation)
    axes = tuple([Axis(*row) for row in zip(sizes, spatial, *columns, strict=True)])
    groups = feature_group_count * batch_group_count
    batch = x_shape[lhs_spec[0]] // batch_group_count
    inputs = w_shape[rhs_spec[1]]
    outputs = w_shape[rhs_spec[0]] // groups
    shape = [0] * len(out_spec)
    for d, n in zip(out_spec, (batch, outputs * groups, *spatial), strict=True):
        shape[d] = n
    out_dtype = preferred_element_type or dtype
    computed = through or dtypes.accumulator(out_dtype)
    positions, places = math.prod(spatial), math.prod(window)
    if 0 in x_shape or 0 in w_shape or 0 in shape:
        way = ZERO
    elif inputs == 1 and groups > 1 and places <= min(positions, _PLACES):
        way = PLACES
    else:
        # What copying and adding take, in units of moving one element; a product costs about 1/16.
        copied = positions * inputs * (1 + outputs / 16)
        added = math.prod(sizes) * outputs * (3 + inputs / 16)
        way = ADDED if places > 1 and added < copied else PRODUCT
    direct = places == 1 and all(a.base_dilation == 1 for a in axes) and all(
        _covers(a) for a in axes
    )  # fmt: skip
    rows = positions < _FEW_OUTPUTS or out_spec[1] == len(out_spec) - 1
    gaps = any(not _is_filled(a) for a in axes)
    if way == PRODUCT:
        blocks = _product_blocks(groups, batch, inputs, axes, rows, computed.itemsize)
    else:
        blocks = _places_blocks(groups, batch, outputs, axes, computed.itemsize, way == ADDED)
    return Plan(
        way, tuple(shape), out_dtype, computed, axes, groups, batch, inputs, outputs, rows,
        direct, gaps, blocks,
    )  # fmt: skip


def _covers(axis: Axis) -> bool:
    """Does every output see an element at the first place of its window?"""
    pair = axis.at(0)
    return pair is not None and pair[0] == slice(0, axis.outputs, 1)


def _is_filled(axis: Axis) -> bool:
    """Does every output see an element at each place of its window?"""
    if axis.base_dilation > 1 or not axis.outputs or not axis.window:
        return False
    last = (axis.outputs - 1) * axis.stride + (axis.window - 1) * axis.window_dilation - axis.low
    return axis.low <= 0 and last < axis.size


def _halved(n: int) -> int:
    return -(-n // 2)


def _product_blocks(
    groups: int, batch: int, inputs: int, axes: Sequence[Axis], rows: bool, item: int
) -> tuple[int, int, int, int, int]:
    g, n, i = groups, batch, inputs
    p = axes[0].outputs if axes else 1
    k = axes[0].window if axes else 1
    p_rest = math.prod([a.outputs for a in axes[1:]]) * item
    k_rest = math.prod([a.window for a in axes[1:]])
    while g * n * i * p * k * p_rest * k_rest > _COPY_BYTES:
        long = i * k * k_rest * item > (n if rows else 1) * p * p_rest
        if g > 1:
            g = _halved(g)
        elif n > 1 and not (rows and long):
            n = _halved(n)
        elif i > 1 and long:
            i = _halved(i)
        elif k > 1 and long:
            k = _halved(k)
        elif p > 1:
            p = _halved(p)
        elif n > 1:
            n = _halved(n)
        elif i > 1:
            i = _halved(i)
        elif k > 1:
            k = _halved(k)
        else:
            break
    return g, n, p, i, k


def _places_blocks(
    groups: int, batch: int, outputs: int, axes: Sequence[Axis], item: int, added: bool
) -> tuple[int, int, int, int, int]:
    """Blocks of outputs; with `added`, of the products of all places with all inputs."""
    g, n, k = groups, batch, axes[0].window if axes else 1
    size = outputs * math.prod([a.size if added else a.outputs for a in axes]) * item
    if added:
        size *= math.prod([a.window for a in axes[1:]])
    while g * n * size * (k if added else 1) > _COPY_BYTES:
        if g > 1:
            g = _halved(g)
        elif n > 1:
            n = _halved(n)
        elif added and k > 1:
            k = _halved(k)
        else:
            break
    return g, n, 0, 0, k


def _ranges(total: int, block: int) -> Iterator[tuple[int, int]]:
    for start in range(0, total, block):
        yield start, min(start + block, total)


# -- the scratch memory ---------------------------------------------------------------------------


def _conv_temp(in_avals: Any, out_avals: Any, **params: Any) -> int:
    (x, w), (out,) = in_avals, out_avals
    dtype = x.dtype
    through = None
    if out.dtype.kind in "iu":
        inputs = math.prod([w.shape[d] for d in params["dimension_numbers"].rhs_spec[1:]])
        through = exact_float(dtype, inputs) or np.dtype(np.float64)
    p = plan(x.shape, w.shape, dtype, **params, through=through)
    if p.way == ZERO:
        return 0
    item = p.computed.itemsize
    g, n, rows, i, k = p.blocks
    if p.way == ADDED:
        made = g * n * p.outputs * item
        products = made * k * math.prod([a.window for a in p.axes[1:]])
        products *= math.prod([a.size for a in p.axes])
        # matmul may copy what BLAS can't take.
        copies = products // 2 + g * n * p.inputs * math.prod([a.size for a in p.axes]) * item
        integers = 8 * made // item * p.positions if through is not None else 0
        total = made * p.positions + products + copies + integers
        return total + 2 * w.size * item + 2 * BUFFER_ELEMENTS * item
    if p.way == PLACES:
        total = g * n * p.outputs * p.positions * item * 2
        return total + w.size * item + 2 * BUFFER_ELEMENTS * item
    p_rest = math.prod([a.outputs for a in p.axes[1:]])
    k_rest = math.prod([a.window for a in p.axes[1:]])
    copy = g * n * i * rows * p_rest * k * k_rest * item
    made = g * n * p.outputs * rows * p_rest * item
    integers = 8 * made // item if through is not None else 0
    # The kernel is rearranged, and matmul may copy an operand or a result that BLAS can't take.
    return copy * 2 + made * 3 + integers + 2 * w.size * item + 2 * BUFFER_ELEMENTS * item


# -- the kernel -----------------------------------------------------------------------------------


@temp_bytes(_conv_temp)
def conv_general_dilated(x, w, *, outs: tuple = (None,), **params: Any) -> tuple:
    out = outs[0]
    p = plan(x.shape, w.shape, x.dtype, **params)
    if p.computed.kind in "iu" and p.way in (PRODUCT, ADDED):
        through = _exact_dtype(x, w, p)
        if through is not None:
            p = plan(x.shape, w.shape, x.dtype, **params, through=through)
    if out is None:
        out = np.empty(p.shape, p.dtype)
    if p.way == ZERO:
        out[...] = 0
        return (out,)
    numbers = params["dimension_numbers"]
    xs = _grouped_input(x.transpose(numbers.lhs_spec), p, params["batch_group_count"])
    ws = _split_second(w.transpose(numbers.rhs_spec), 0, p.groups)
    ys = np.moveaxis(_split_second(out.transpose(numbers.out_spec), 1, p.groups), 1, 0)
    {PLACES: _by_places, ADDED: _by_added, PRODUCT: _by_products}[p.way](xs, ws, ys, p)
    return (out,)


def _exact_dtype(x: np.ndarray, w: np.ndarray, p: Plan) -> np.dtype | None:
    """The float dtype in which all sums of these integers are exact, if there is one."""
    terms = p.inputs * p.windows
    through = exact_float(x.dtype, terms)
    if through is None and magnitude(x) * magnitude(w) * terms < 2**53:
        through = np.dtype(np.float64)
    return through


def _split_second(x: np.ndarray, axis: int, groups: int) -> np.ndarray:
    """A dimension split in two, the first of which counts groups: always a view."""
    shape = x.shape
    return x.reshape((*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :]), copy=False)


def _grouped_input(x: np.ndarray, p: Plan, batch_groups: int) -> np.ndarray:
    """x[group, n, i, *spatial]."""
    if batch_groups > 1:
        return _split_second(x, 0, p.groups)
    return np.moveaxis(_split_second(x, 1, p.groups), 1, 0)


def _by_places(xs: np.ndarray, ws: np.ndarray, ys: np.ndarray, p: Plan) -> None:
    """One input feature a group: add up the products of each place of the window."""
    weights = ws[:, :, 0].astype(p.computed, copy=False)
    # Views and buffers have one more dimension than x: output features of the group.
    pairs = [[axis.at(k) for k in range(axis.window)] for axis in p.axes]
    g_block, n_block = p.blocks[:2]
    ones = (1,) * len(p.axes)
    size = g_block * n_block * p.outputs * p.positions
    total_buffer, product_buffer = np.empty(size, p.computed), np.empty(size, p.computed)
    for g0, g1 in _ranges(p.groups, g_block):
        for n0, n1 in _ranges(p.batch, n_block):
            block = ys[g0:g1, n0:n1]
            shape = block.shape
            total = total_buffer[: block.size].reshape(shape)
            product = product_buffer[: block.size].reshape(shape)
            total[...] = 0
            for places in itertools.product(*[range(a.window) for a in p.axes]):
                chosen = [pairs[d][k] for d, k in enumerate(places)]
                if any(pair is None for pair in chosen):
                    continue
                written = tuple([pair[0] for pair in chosen])  # type: ignore[index]  # none of them is None
                read = tuple([pair[1] for pair in chosen])  # type: ignore[index]  # none of them is None
                factor = weights[(slice(g0, g1), slice(None), *places)]
                seen = xs[(slice(g0, g1), slice(n0, n1), slice(0, 1), *read)]
                part = product[(..., *written)] if written else product
                np.multiply(
                    seen, factor.reshape((g1 - g0, 1, p.outputs, *ones)), out=part,
                    dtype=p.computed, casting="unsafe",
                )  # fmt: skip
                view = total[(..., *written)] if written else total
                np.add(view, part, out=view)
            np.copyto(block, total, casting="unsafe")


def _by_added(xs: np.ndarray, ws: np.ndarray, ys: np.ndarray, p: Plan) -> None:
    """Multiply the input with the kernel, and add each place's product where it belongs."""
    g_block, n_block, _, _, k_block = p.blocks
    pairs = [[axis.at(k) for k in range(axis.window)] for axis in p.axes]
    sizes = tuple([a.size for a in p.axes])
    rest = [a.window for a in p.axes[1:]]
    # [group, window, m, i]
    kernel = np.moveaxis(ws.astype(p.computed, copy=False), (1, 2), (-2, -1))
    for g0, g1 in _ranges(p.groups, g_block):
        for n0, n1 in _ranges(p.batch, n_block):
            block = ys[g0:g1, n0:n1]
            total = np.zeros(block.shape, p.computed)
            seen = xs[g0:g1, n0:n1].astype(p.computed, copy=False)
            seen = seen.reshape((g1 - g0, n1 - n0, p.inputs, -1))
            for k0, k1 in _ranges(p.axes[0].window, k_block):
                part = kernel[g0:g1, k0:k1].reshape((g1 - g0, 1, -1, p.inputs))
                made = np.matmul(part, seen)
                made = made.reshape((g1 - g0, n1 - n0, k1 - k0, *rest, p.outputs, *sizes))
                for places in itertools.product(range(k0, k1), *map(range, rest)):
                    chosen = [pairs[d][k] for d, k in enumerate(places)]
                    if any(pair is None for pair in chosen):
                        continue
                    written = tuple([pair[0] for pair in chosen])  # type: ignore[index]  # none of them is None
                    read = tuple([pair[1] for pair in chosen])  # type: ignore[index]  # none of them is None
                    at = (slice(None), slice(None), places[0] - k0, *places[1:], slice(None))
                    view = total[(..., *written)]
                    np.add(view, made[(*at, *read)], out=view)
                del made  # before the next one is made
            if p.computed.kind == "f" and block.dtype.kind in "iu":
                # Integers wrap; a cast from float to a narrow integer does not.
                total = total.astype(np.int64)
            np.copyto(block, total, casting="unsafe")


def _by_products(xs: np.ndarray, ws: np.ndarray, ys: np.ndarray, p: Plan) -> None:
    """Copy what each block of outputs sees side by side, and multiply it with the kernel."""
    g_block, n_block, p_block, i_block, k_block = p.blocks
    first = p.axes[0] if p.axes else None
    rows = first.outputs if first else 1
    window_rows = first.window if first else 1
    terms = [(i, k) for i in _ranges(p.inputs, i_block) for k in _ranges(window_rows, k_block)]
    kernels = [_arranged_kernel(ws, i, k, p) for i, k in terms]
    buffer = None
    if not p.direct:
        rest = math.prod([a.outputs * a.window for a in p.axes[1:]])
        buffer = np.empty(g_block * n_block * i_block * p_block * k_block * rest, p.computed)
    for g0, g1 in _ranges(p.groups, g_block):
        for n0, n1 in _ranges(p.batch, n_block):
            for r0, r1 in _ranges(rows, p_block):
                target = ys[g0:g1, n0:n1]
                if first:
                    target = target[:, :, :, r0:r1]
                made = None
                for (i, k), kernel in zip(terms, kernels, strict=True):
                    seen = xs[g0:g1, n0:n1, i[0] : i[1]]
                    block = _seen(seen, (r0, r1), k, p, buffer)
                    last = made is None and len(terms) == 1
                    into = _matrix_view(target, p) if last else None
                    if p.rows:
                        part = np.matmul(block, kernel[g0:g1], out=into)
                    else:
                        part = np.matmul(kernel[g0:g1, None], block, out=into)
                    if into is not None:
                        break
                    made = part if made is None else np.add(made, part, out=made)
                else:
                    assert made is not None
                    _put(made, target, p)


def _arranged_kernel(ws: np.ndarray, i: tuple[int, int], k: tuple[int, int], p: Plan) -> np.ndarray:
    """The kernel's part for some input features and rows of the window, as matrices."""
    part = ws[:, :, i[0] : i[1]]
    if p.axes:
        part = part[:, :, :, k[0] : k[1]]
    part = part.astype(p.computed, copy=False)
    if p.rows:
        # [group, window * i, m]
        part = np.moveaxis(np.moveaxis(part, 1, -1), 1, -2)
        return part.reshape((p.groups, -1, p.outputs))
    return part.reshape((p.groups, p.outputs, -1))


def _seen(
    xs: np.ndarray,
    rows: tuple[int, int],
    window_rows: tuple[int, int],
    p: Plan,
    buffer: np.ndarray | None,
) -> np.ndarray:
    """What a block of outputs sees, as matrices in the layout of the plan."""
    g, n, i = xs.shape[:3]
    axes = p.axes
    if buffer is None:
        read = [axis.at(0)[1] for axis in axes]  # type: ignore[index]  # the plan looked
        if axes:
            read[0] = slice(
                read[0].start + rows[0] * read[0].step,
                read[0].start + (rows[1] - 1) * read[0].step + 1,
                read[0].step,
            )
        block = xs[(..., *read)] if axes else xs
        block = block.astype(p.computed, copy=False)
        if p.rows:
            return np.moveaxis(block, 2, -1).reshape((g, -1, i))
        return block.reshape((g, n, i, -1))
    starts = [(rows, window_rows), *([((0, a.outputs), (0, a.window)) for a in axes[1:]])]
    outputs = [b - a for (a, b), _ in starts[: len(axes)]]
    places = [b - a for _, (a, b) in starts[: len(axes)]]
    if p.rows:
        shape = (g, n, *outputs, *places, i)
    else:
        shape = (g, n, i, *places, *outputs)
    flat = buffer[: math.prod(shape)]
    if p.gaps:
        flat[...] = 0
    filled = flat.reshape(shape)
    # As [group, n, i, place, output, place, output, ...], one pair for each axis.
    d = len(axes)
    if p.rows:
        order = [0, 1, 2 + 2 * d]
        order += [j for a in range(d) for j in (2 + d + a, 2 + a)]
    else:
        order = [0, 1, 2]
        order += [j for a in range(d) for j in (3 + a, 3 + d + a)]
    filled = filled.transpose(order)
    steps = [_steps(axis, *ranges) for axis, ranges in zip(axes, starts[: len(axes)], strict=True)]
    for chosen in itertools.product(*steps):
        written = [index for pair, _ in chosen for index in pair]
        read = [index for _, index in chosen]
        filled[(slice(None),) * 3 + tuple(written)] = xs[(slice(None),) * 3 + tuple(read)]
    if p.rows:
        return flat.reshape((g, n * math.prod(outputs), math.prod(places) * i))
    return flat.reshape((g, n, i * math.prod(places), math.prod(outputs)))


def _steps(
    axis: Axis, outputs: tuple[int, int], places: tuple[int, int]
) -> list[tuple[tuple[Any, Any], slice]]:
    """Assignments along one axis: ((places, outputs) that are written, elements that are read).

    One for each place or one for each output, whichever is less.
    """
    (p0, p1), (k0, k1) = outputs, places
    steps = []
    if k1 - k0 <= p1 - p0:
        for k in range(k0, k1):
            offset = k * axis.window_dilation + p0 * axis.stride - axis.low
            pair = matched(axis.size, p1 - p0, offset, axis.stride, axis.base_dilation)
            if pair is not None:
                steps.append(((k - k0, pair[0]), pair[1]))
    else:
        for o in range(p0, p1):
            offset = o * axis.stride + k0 * axis.window_dilation - axis.low
            pair = matched(axis.size, k1 - k0, offset, axis.window_dilation, axis.base_dilation)
            if pair is not None:
                steps.append(((pair[0], o - p0), pair[1]))
    return steps


def _matrix_view(target: np.ndarray, p: Plan) -> np.ndarray | None:
    """The outputs as the matrices of the product, where that needs no copy."""
    if target.dtype != p.computed:
        return None
    g, n, m = target.shape[:3]
    try:
        if p.rows:
            view = np.moveaxis(target, 2, -1).reshape((g, -1, m), copy=False)
        else:
            view = target.reshape((g, n, m, -1), copy=False)
    except ValueError:
        return None
    # BLAS writes rows of neighbouring elements.
    return view if view.strides[-1] == target.itemsize or view.shape[-1] == 1 else None


def _put(made: np.ndarray, target: np.ndarray, p: Plan) -> None:
    """The product in the block of outputs."""
    if p.computed.kind == "f" and target.dtype.kind in "iu":
        # Integers wrap; a cast from float to a narrow integer does not.
        made = made.astype(np.int64)
    g, n, m = target.shape[:3]
    spatial = target.shape[3:]
    if p.rows:
        made = np.moveaxis(made.reshape((g, n, *spatial, m)), -1, 2)
    else:
        made = made.reshape((g, n, m, *spatial))
    np.copyto(target, made, casting="unsafe")
