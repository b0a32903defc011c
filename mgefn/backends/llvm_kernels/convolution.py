"""Convolutions: which loops a conv_general_dilated becomes.

All layouts are one form: x[group, n, i, *spatial], w[group, m, i, *window], y[group, n, m,
*spatial], each by its strides. Vectors go along the output features m, or along the groups where
those have few features (depthwise). Rows of a register tile go along the examples or along a
spatial axis, whichever makes fuller tiles; x is copied only where the window leaves it along that
axis, w where the vector's axis is not contiguous.

Of x and w one is read as vectors, the other an element at a time. It is x, with rows along m, where
outputs have few features and a spatial axis is contiguous, as in a filter of one channel.

Where x is dilated, outputs read an element at every few places of the window only, the same
places for every few outputs (a phase). Tables name them, so no work is spent on the zeros between.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mgefn.backends.llvm_kernels.contractions import FLOPS, chunk_of
from mgefn.compiler.codegen.convolution import Direct, Padded
from mgefn.compiler.codegen.values import FLOATS, INTEGERS
from mgefn.compiler.native import dtype_name, vector_bytes
from mgefn.compiler.steps import (
    SERIAL,
    Call,
    Fixed,
    Lowered,
    NativeStep,
    Place,
    Scratch,
    Spot,
    roots_of,
)
from mgefn.core.jaxpr import Eqn

MOST_ENTRIES = 1 << 20  # of tables, which live as long as the program
MANY = 1 << 62  # rows, for a slot that does not limit them
MOST_ROWS = 12
LONG = 4096  # terms of a sum, from which it is formed in parts
NEAR = 1024  # bytes from row to row that keep the rows of a tile in few pages


class Axis(NamedTuple):
    """A spatial axis: the sizes of input, output and window, and how they meet."""

    size: int
    outputs: int
    window: int
    stride: int
    low: int
    base: int  # dilation of the input
    dilation: int  # of the window

    @property
    def plain(self) -> bool:
        """Does each output read one element, evenly?"""
        last = (self.outputs - 1) * self.stride - self.low
        return self.window == self.base == 1 and self.low <= 0 and last < self.size

    @property
    def phases(self) -> int:
        """So many outputs on, the same places of the window meet elements."""
        return self.base // math.gcd(self.stride, self.base)

    @property
    def place_step(self) -> int:
        """Places of the window from one that meets an element to the next."""
        return self.base // math.gcd(self.dilation, self.base)

    @property
    def element_step(self) -> int:
        """Elements from one of those places to the next."""
        return self.dilation * self.place_step // self.base

    def first_places(self, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For outputs: how many places of the window fall on multiples of the dilation, inside the
        input or not; the first of them; the element it means."""
        place = np.full(outputs.shape, -1, np.int64)
        for k in reversed(range(min(self.place_step, self.window))):
            at = outputs * self.stride - self.low + k * self.dilation
            place[at % self.base == 0] = k
        found = place >= 0
        element = np.where(
            found, (outputs * self.stride - self.low + place * self.dilation) // self.base, 0
        )
        count = np.where(found, -((place - self.window) // self.place_step), 0)
        return count, np.where(found, place, 0), element

    def inside(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """As first_places, for all outputs, of the places inside the input."""
        count, place, element = self.first_places(np.arange(self.outputs, dtype=np.int64))
        step = self.element_step
        first = np.maximum(-(element // step), 0)
        stop = np.minimum(count, (self.size - 1 - element) // step + 1)
        count = np.maximum(stop - first, 0)
        kept = count > 0
        place = np.where(kept, place + first * self.place_step, 0)
        return count, place, np.where(kept, element + first * step, 0)

    def reach(self) -> tuple[int, int]:
        """The first and the last element that any place of any output means."""
        count, _, element = self.first_places(np.arange(self.outputs, dtype=np.int64))
        if not count.any():
            return 0, 0
        last = element + (count - 1) * self.element_step
        return int(element[count > 0].min()), int(last[count > 0].max())


class Line(NamedTuple):
    """An axis along which the operands move evenly: its size and strides in x, w, y."""

    size: int
    x: int
    w: int
    y: int


class Slot(NamedTuple):
    """A loop of the sum: its steps, and a table with an entry for each output along an axis."""

    outputs: int
    y: int
    x_step: int
    w_step: int
    table: np.ndarray  # [outputs, 4]


def merged(lines: Sequence[Line]) -> list[Line]:
    """Axes that are walked evenly as one, those of size 1 left out."""
    out: list[Line] = []
    for line in sorted(lines, key=lambda line: -abs(line.y)):
        if line.size == 1:
            continue
        if out:
            n, *outer = out[-1]
            if outer == [s * line.size for s in line[1:]]:
                out[-1] = line._replace(size=n * line.size)
                continue
        out.append(line)
    return out


def row_tile(rows: int, vectors: int) -> tuple[int, float]:
    """Rows of a tile, and the share of the machine's speed that its tiles reach."""
    most = MOST_ROWS if vectors == 1 or vector_bytes() == 64 else MOST_ROWS // 2
    best, found = 0.0, 1
    for r in range(min(rows, most), 0, -1):
        used = rows / (-(-rows // r) * r)
        # Few sums wait for each other; few rows share the loads of w.
        share = used * min(1.0, r * vectors / 8) * r / (r + 1)
        if share > best:
            best, found = share, r
    return found, best


class Copies:
    """The copies before a convolution: their calls and memory."""

    def __init__(self, size: int):
        self.size = size
        self.calls: list[Call] = []
        self.scratch: list[int] = []

    def add(
        self, spot: Spot, dims: Sequence[tuple[int, int]], padded: int | None = None,
        first: int = 0, length: int = 0,
    ) -> tuple[Spot, list[int]]:  # fmt: skip
        """A contiguous copy of six axes (size, stride): where it is, and its strides.

        Args:
            padded: the axis of which `length` elements from `first` on are copied, zeros outside.
        """
        size = self.size
        shape = [n for n, _ in dims]
        if padded is not None:
            shape[padded] = length
        strides = [size] * len(shape)
        for i in reversed(range(len(shape) - 1)):
            strides[i] = strides[i + 1] * shape[i + 1]
        self.scratch.append(max(strides[0] * shape[0], 1))
        target: Spot = (Scratch(len(self.scratch) - 1), 0)
        n, step = dims[-1]
        end = len(dims) - 1
        last = (n, step, 0, n) if padded != end else (length, step, first, n)
        inner = padded if padded not in (None, end) else end - 1
        count, stride = dims[inner]
        middle = (shape[inner], stride, strides[inner], first if padded == inner else 0, count)
        if inner == end - 1 and padded != end and (n == 1 or stride == step * n):
            # Two axes that are one.
            last = (shape[inner] * n, step if n > 1 else stride, middle[3] * n, count * n)
            middle = (1, 0, 0, 0, 1)
        outer = [(shape[i], dims[i][1], strides[i]) for i in range(end) if i != inner]
        units = math.prod(n for n, _, _ in outer)
        numbers = [k for row in outer for k in row] + [*middle, *last]
        width = max(4, vector_bytes() // size)
        kernel = Padded(size, width, last[1] != size)
        nanoseconds = math.prod(shape) * (1.5 if kernel.gathered else size / 8)
        self.calls.append(
            Call(kernel, (spot, target), tuple(numbers), units, chunk_of(units, nanoseconds))
        )
        return target, strides


FEATURES, GROUPS, POSITIONS = "features", "groups", "positions"


class Choice(NamedTuple):
    """What vectors and rows go along, and the share of the machine's speed that this reaches.

    An axis is (SPATIAL, d), or (LINE, i) for the i-th of the lines; None for what the way says.
    """

    share: float
    way: str
    lanes: int
    vectors: int
    width: int
    lane_axis: tuple[str, int] | None
    row_axis: tuple[str, int] | None


SPATIAL, LINE = "spatial", "line"


class _Convolution:
    """The operands of an equation in their one form, and the call that is made of them."""

    def __init__(self, eqn: Eqn, places: Sequence[Place]):
        x, w = (a.aval for a in eqn.inputs)
        p = eqn.params
        lhs_spec, rhs_spec, out_spec = p["dimension_numbers"]
        self.out = eqn.out_binders[0]
        self.dtype, self.size = dtype_name(x), x.dtype.itemsize
        self.full = vector_bytes() // self.size
        y_shape = self.out.aval.shape
        y_steps = [self.size * math.prod(y_shape[i + 1 :]) for i in range(len(y_shape))]
        self.groups = p["feature_group_count"] * p["batch_group_count"]
        self.batch = x.shape[lhs_spec[0]] // p["batch_group_count"]
        self.inputs = w.shape[rhs_spec[1]]
        self.outputs = w.shape[rhs_spec[0]] // self.groups
        self.axes = [
            Axis(*row)
            for row in zip(
                [x.shape[d] for d in lhs_spec[2:]], [y_shape[d] for d in out_spec[2:]],
                [w.shape[d] for d in rhs_spec[2:]], p["window_strides"],
                [low for low, _ in p["padding"]], p["lhs_dilation"], p["rhs_dilation"],
                strict=True,
            )
        ]  # fmt: skip
        self.plain = [d for d, a in enumerate(self.axes) if a.plain]
        self.windowed = [d for d, a in enumerate(self.axes) if not a.plain]
        x_place, w_place = places
        self.x_spot: Spot = (x_place.root, x_place.offset)
        self.w_spot: Spot = (w_place.root, w_place.offset)
        self.x_n, self.x_i, *self.x_at = [x_place.strides[d] for d in lhs_spec]
        self.w_m, self.w_i, *self.w_at = [w_place.strides[d] for d in rhs_spec]
        self.y_n, self.y_m, *self.y_at = [y_steps[d] for d in out_spec]
        over_batch = p["batch_group_count"] > 1
        self.x_g = self.batch * self.x_n if over_batch else self.inputs * self.x_i
        self.w_g, self.y_g = self.outputs * self.w_m, self.outputs * self.y_m
        self.flops = 2.0 * math.prod(y_shape) * self.inputs
        self.flops *= math.prod(a.window for a in self.axes)
        self.copies = Copies(self.size)
        # The spatial axis that x is padded along, its first element, and its length.
        self.padded: tuple[int, int, int] | None = None

    def lines(self) -> list[Line]:
        """The axes along which all outputs see the same places, the groups aside."""
        whole = [Line(self.batch, self.x_n, 0, self.y_n)]
        for d in self.plain:
            a = self.axes[d]
            whole.append(Line(a.outputs, a.stride * self.x_at[d], 0, self.y_at[d]))
        return merged(whole)

    # -- the choice -----------------------------------------------------------------------------

    def choice(self) -> Choice:
        of_groups = self.groups > 1
        of_groups = of_groups and min(self.groups, self.full) > 2 * min(self.outputs, self.full)
        if of_groups:
            best = self._by_lanes(GROUPS, self.groups, self.y_g)
        else:
            best = self._by_lanes(FEATURES, self.outputs, self.y_m)
        for i, line in enumerate(self.lines()):
            if line.x == line.y == self.size:
                best = max(best, self._by_positions(line.size, (LINE, i)), key=_share)
        for d in self.windowed:
            a = self.axes[d]
            if self.y_at[d] == self.size and a.stride == a.base == 1 and self._can_pad(d):
                best = max(best, self._by_positions(a.outputs, (SPATIAL, d)), key=_share)
        return best

    def _by_lanes(self, way: str, lanes: int, y_lane: int) -> Choice:
        """Vectors along features or groups: the best axis for the rows."""
        width, vectors = self._vector(lanes)
        best = Choice(0.0, way, lanes, vectors, width, None, None)

        def see(axis: tuple[str, int], rows: int, step: int, factor: float) -> None:
            nonlocal best
            share = row_tile(rows, vectors)[1] * factor * (1.0 if abs(step) <= NEAR else 0.9)
            if share > best.share:
                best = best._replace(share=share, row_axis=axis)

        for i, line in enumerate(self.lines()):
            see((LINE, i), line.size, line.x, 1.0)
        for d in self.windowed:
            if self._can_pad(d):
                a = self.axes[d]
                factor = 1.0 if self._inside(d) else 0.95
                see((SPATIAL, d), max(1, a.outputs // a.phases), self.x_at[d], factor)
        share = max(best.share, 0.05) * self._used(lanes, vectors, width)
        return best._replace(share=share * (1.0 if y_lane == self.size else 0.9))

    def _by_positions(self, lanes: int, axis: tuple[str, int]) -> Choice:
        """Vectors along an axis of outputs, rows along their features."""
        width, vectors = self._vector(lanes)
        # Few rows need more vectors, so that sums do not wait for each other.
        vectors = min(-(-lanes // width), max(vectors, 8 // self.outputs))
        share = row_tile(self.outputs, vectors)[1] * self._used(lanes, vectors, width)
        return Choice(share, POSITIONS, lanes, vectors, width, axis, None)

    def _vector(self, lanes: int) -> tuple[int, int]:
        """Elements of a vector, and vectors of a tile."""
        width = min(self.full, max(1 << (lanes - 1).bit_length(), 16 // self.size, 2))
        return width, 2 if lanes > self.full else 1

    def _used(self, lanes: int, vectors: int, width: int) -> float:
        """The share of the lanes that do something."""
        panel = vectors * width
        return lanes / (-(-lanes // panel) * panel) * width / self.full

    def _inside(self, d: int) -> bool:
        low, high = self.axes[d].reach()
        return low >= 0 and high < self.axes[d].size

    def _can_pad(self, d: int) -> bool:
        """Is the padded input not much larger than the input?"""
        low, high = self.axes[d].reach()
        return self._inside(d) or high - low + 1 <= 4 * self.axes[d].size + 64

    # -- copies ---------------------------------------------------------------------------------

    def copy(self, c: Choice) -> None:
        """Copies of the operands where they can't be read as they are."""
        axis = c.lane_axis or c.row_axis
        if axis is not None and axis[0] == SPATIAL and not self._inside(axis[1]):
            low, high = self.axes[axis[1]].reach()
            self.padded = (axis[1], low, high - low + 1)
        apart = c.way == GROUPS and self.x_g != self.size
        if c.lane_axis is not None and c.lane_axis[0] == SPATIAL:
            apart = self.x_at[c.lane_axis[1]] != self.size
        if self.padded is not None or apart:
            self._copy_x(c)
        if c.way == GROUPS and c.lanes > 1 and self.w_g != self.size:
            dims = [(self.outputs, self.w_m), *self._places(), (self.inputs, self.w_i)]
            dims.append((self.groups, self.w_g))
            self.w_spot, made = self.copies.add(self.w_spot, dims)
            self.w_m, *at, self.w_i, self.w_g = made
            self.w_at = at[3 - len(self.axes) :]
        elif c.way == FEATURES and c.lanes > 1 and self.w_m != self.size:
            dims = [(self.groups, self.w_g), *self._places(), (self.inputs, self.w_i)]
            dims.append((self.outputs, self.w_m))
            self.w_spot, made = self.copies.add(self.w_spot, dims)
            self.w_g, *at, self.w_i, self.w_m = made
            self.w_at = at[3 - len(self.axes) :]

    def _places(self) -> list[tuple[int, int]]:
        """Three axes of the window with their strides."""
        none = [(1, 0)] * (3 - len(self.axes))
        return none + [(a.window, s) for a, s in zip(self.axes, self.w_at, strict=True)]

    def _copy_x(self, c: Choice) -> None:
        spatial = [(d, a.size, self.x_at[d]) for d, a in enumerate(self.axes)]
        spatial = [(-1, 1, 0)] * (3 - len(spatial)) + spatial
        g, n, i = (
            (-2, self.groups, self.x_g),
            (-3, self.batch, self.x_n),
            (-4, self.inputs, self.x_i),
        )
        if c.way == POSITIONS:
            assert c.lane_axis is not None
            order = [g, n, i, *spatial]
            order.sort(key=lambda row: row[0] == c.lane_axis[1])  # type: ignore[index]  # not None
        else:
            order = [n, i, *spatial, g] if c.way == GROUPS else [g, n, *spatial, i]
        names = [name for name, _, _ in order]
        dims = [(size, stride) for _, size, stride in order]
        if self.padded is None:
            self.x_spot, made = self.copies.add(self.x_spot, dims)
        else:
            d, first, length = self.padded
            self.x_spot, made = self.copies.add(self.x_spot, dims, names.index(d), first, length)
        steps = dict(zip(names, made, strict=True))
        self.x_g, self.x_n, self.x_i = steps[-2], steps[-3], steps[-4]
        self.x_at = [steps[d] for d in range(len(self.axes))]

    # -- the call -------------------------------------------------------------------------------

    def call(self, c: Choice) -> Call:
        lines = self.lines()
        size, panel = self.size, c.vectors * c.width * self.size
        whole = -1  # the spatial axis whose outputs all see the same places
        limits = np.array([MANY])
        step = 0
        if c.way == POSITIONS:
            row = Line(self.outputs, 0, self.w_m, self.y_m)
            assert c.lane_axis is not None
            if c.lane_axis[0] == LINE:
                lines.pop(c.lane_axis[1])
            else:
                whole = c.lane_axis[1]
        elif c.row_axis is None:
            row = Line(1, 0, 0, 0)
        elif c.row_axis[0] == LINE:
            # A copy may have let lines merge.
            row = lines.pop(min(c.row_axis[1], len(lines) - 1))
        else:
            whole = c.row_axis[1]
            a = self.axes[whole]
            limits = np.array(
                [-(-(a.outputs - i) // a.phases) for i in range(min(a.phases, a.outputs))]
            )
            step = self.x_at[whole] * (a.stride * a.phases // a.base)
            row = Line(int(limits.max()), step, 0, self.y_at[whole] * a.phases)
        rows, _ = row_tile(min(row.size, int(limits.min())), c.vectors)
        slots = _ordered(self._slots(whole, limits))
        if whole < 0 or c.way == POSITIONS:
            slots[0].table[:, 3] = row.size
        if c.way == GROUPS:
            lane = Line(c.lanes, panel, panel, self.y_g)
            head = Line(self.outputs, 0, self.w_m, self.y_m)
        else:
            positions = c.way == POSITIONS
            lane = Line(c.lanes, panel * positions, panel * (not positions),
                        size if positions else self.y_m)  # fmt: skip
            head = Line(self.groups, self.x_g, self.w_g, self.y_g)
        return self._written(c, row, rows, lane, [head, *lines], slots)

    def _slots(self, whole: int, limits: np.ndarray) -> list[Slot]:
        slots: list[Slot] = []
        for d in self.windowed:
            a = self.axes[d]
            if d == whole:
                count, place, element = a.first_places(np.arange(len(limits), dtype=np.int64))
                element = element - (0 if self.padded is None else self.padded[1])
                limit = limits
            else:
                count, place, element = a.inside()
                limit = np.full(a.outputs, MANY)
            table = np.stack([count, element * self.x_at[d], place * self.w_at[d], limit], -1)
            x_step, w_step = self.x_at[d] * a.element_step, self.w_at[d] * a.place_step
            slots.append(Slot(len(table), self.y_at[d], x_step, w_step, table))
        if self.inputs > 1 or not slots:
            slots.append(Slot(1, 0, self.x_i, self.w_i, np.array([[self.inputs, 0, 0, MANY]])))
        return slots

    def _written(
        self, c: Choice, row: Line, rows: int, lane: Line, affine: list[Line], slots: list[Slot]
    ) -> Call:
        panels = -(-c.lanes // (c.vectors * c.width))
        nanoseconds = self.flops / FLOPS / max(c.share, 0.01)
        tiles = -(-row.size // rows)
        units = panels * math.prod(line.size for line in affine)
        units *= math.prod(s.outputs for s in slots)
        each = max(1, min(tiles, 16))
        if nanoseconds >= SERIAL and units * -(-tiles // each) < 16:
            each = max(1, min(each, tiles * units // 16))
        blocks = -(-tiles // each)
        part = _part(slots) if each > 1 else MANY
        start = sum(-self.axes[d].low * self.x_at[d] for d in self.plain)
        x_spot: Spot = (self.x_spot[0], self.x_spot[1] + start)
        operands = [x_spot, self.w_spot]
        tables = np.concatenate([s.table for s in slots]).astype(np.int64)
        swapped = c.way == POSITIONS  # the element comes from w, the vector from x
        if swapped:
            operands.reverse()
            tables = tables[:, [0, 2, 1, 3]]
            row, lane, *affine = [Line(n, w, x, y) for n, x, w, y in (row, lane, *affine)]
            slots = [s._replace(x_step=s.w_step, w_step=s.x_step) for s in slots]
        numbers = [c.lanes, each, panels, blocks, part, row.x, lane.x, lane.w, row.y, lane.y]
        for line in affine:
            numbers += line
        offset = 0
        for s in slots:
            numbers += [s.outputs, s.y, s.x_step, s.w_step, offset]
            offset += s.table.nbytes
        kernel = Direct(
            self.dtype, rows, c.vectors, c.width, len(affine), len(slots), c.way == GROUPS,
            c.lanes > 1 and lane.y != self.size,
        )  # fmt: skip
        count = units * blocks
        spots: tuple[Spot, ...] = (*operands, (self.out, 0), (Fixed(tables), 0))
        return Call(kernel, spots, tuple(numbers), count, chunk_of(count, nanoseconds))


def _share(c: Choice) -> float:
    return c.share


def _lower(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    x, w = (a.aval for a in eqn.inputs)
    out = eqn.out_binders[0]
    dtype = dtype_name(x)
    taken = dtype in FLOATS or dtype in INTEGERS
    if not taken or dtype_name(w) != dtype or dtype_name(out.aval) != dtype:
        return None
    if len(x.shape) > 5:
        return None
    convolution = _Convolution(eqn, places)
    if sum(a.outputs for a in convolution.axes) > MOST_ENTRIES:
        return None
    choice = convolution.choice()
    convolution.copy(choice)
    call = convolution.call(choice)
    scratch = convolution.copies.scratch
    return NativeStep(
        [*convolution.copies.calls, call], roots_of(places), [out], "conv_general_dilated",
        scratch=scratch, flops=convolution.flops,
        moved=sum(a.nbytes for a in (x, w, out.aval)) + sum(scratch),
    )  # fmt: skip


def _ordered(slots: list[Slot]) -> list[Slot]:
    """Loops of the sum from the outermost to the innermost, those walked evenly as one."""

    def length(s: Slot) -> int:
        return int(s.table[:, 0].max())

    slots = sorted(slots, key=lambda s: -abs(s.x_step))
    out: list[Slot] = []
    for s in slots:
        if out and len(s.table) == 1 and len(out[-1].table) == 1:
            outer, n = out[-1], length(s)
            if outer.x_step == s.x_step * n and outer.w_step == s.w_step * n:
                table = outer.table + s.table
                table[:, 0] = outer.table[:, 0] * n
                table[:, 3] = np.minimum(outer.table[:, 3], s.table[:, 3])
                out[-1] = Slot(1, outer.y + s.y, s.x_step, s.w_step, table)
                continue
        out.append(s)
    # A short innermost loop is mostly overhead.
    enough = min(8, max(length(s) for s in out))
    for i in reversed(range(len(out))):
        if length(out[i]) >= enough:
            out.append(out.pop(i))
            break
    # The outermost loop divides a long sum into parts, so its rounds should not be long.
    places = math.prod(length(s) for s in out)
    if places > LONG and places // max(length(out[0]), 1) > LONG:
        i = max(range(len(out) - 1), key=lambda i: length(out[i]), default=0)
        out.insert(0, out.pop(i))
    return out


def _part(slots: Sequence[Slot]) -> int:
    """Places of the outermost slot in a part of the sum."""
    outer, *inner = (int(s.table[:, 0].max()) for s in slots)
    within = max(1, math.prod(inner))
    return MANY if outer * within <= LONG else max(1, LONG // 2 // within)


conv_general_dilated = Lowered(_lower, dense=False)
