"""Slices, gathers, scatters, concatenation and padding: which loops move the elements.

Each is one nest of loops of `codegen.movement.Move`, or a few in a row. The result's dimensions
are the loops, in their order; those that walk source and target evenly become one. Where there is
enough to do, one of the loops is divided among threads: one whose rounds write different places, so
that repeated places of a scatter are written in the order of the updates, whatever thread does it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from mgefn.compiler.codegen.movement import BLOCK, LINE, NARROW, UNITS, Move, Turn
from mgefn.compiler.codegen.values import ALL, LLVM_TYPES
from mgefn.compiler.codegen.values import itemsize as itemsize_of
from mgefn.compiler.groups import is_contiguous
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
    chunk_of,
    roots_of,
)
from mgefn.core.avals import ShapedArray, contiguous_strides
from mgefn.core.jaxpr import Eqn, Var
from mgefn.ops.indexing.gather import CLIP, FILL, window_sizes

BYTES = 12.0  # that a thread moves in a nanosecond
SINGLE = 1.0  # nanoseconds to move an element by itself
WIDE = 32  # rounds from which an outer loop is worth dividing
SHORT = 8  # units that are moved one by one; more are a run


class Loop(NamedTuple):
    """A loop: its size, strides in bytes in source, target and the columns of starts.

    `column` is that of the columns; `own`: does each of its rounds write places of its own?
    """

    size: int
    source: int
    target: int
    column: int = 0
    own: bool = True


class Column(NamedTuple):
    """Starts along one dimension: where they lie, the last possible one, the dimension's stride."""

    dtype: str
    spot: Spot
    top: int
    stride: int


def _spot(place: Place, offset: int = 0) -> Spot:
    return place.root, place.offset + offset


def _merged(loops: Sequence[Loop], apart: bool) -> list[Loop]:
    """Loops that walk evenly as one, `apart`: only those that threads may divide alike."""
    out: list[Loop] = []
    for loop in loops:
        if loop.size == 1:
            continue
        if out:
            before, n = out[-1], loop.size
            if (
                before.source == loop.source * n
                and before.target == loop.target * n
                and before.column == loop.column * n
                and (before.own == loop.own or not apart)
            ):
                out[-1] = loop._replace(size=before.size * n, own=before.own and loop.own)
                continue
        out.append(loop)
    return out


def _move(
    loops: Sequence[Loop],
    source: Spot,
    target: Spot,
    itemsize: int,
    *,
    op: str = "copy",
    dtype: str = "",
    given: str = "",
    columns: Sequence[Column] = (),
    check: bool = False,
    into: bool = False,
    outside: Fixed | None = None,
) -> Call:
    """The call that moves elements, or combines them where there is a `dtype`; see Move.

    `itemsize` is that of the target.
    """
    given = given or dtype
    given_size = itemsize_of(given) if given else itemsize
    elements = math.prod(n.size for n in loops)
    inner = next((n for n in reversed(loops) if n.size > 1), None)
    nanoseconds = elements * itemsize / BYTES
    if inner is not None and (inner.column or inner.source != given_size):
        nanoseconds = max(nanoseconds, elements * SINGLE)
    threads = nanoseconds >= SERIAL
    loops = _merged(loops, threads)
    at = max([0, *(i + 1 for i, n in enumerate(loops) if n.column)])
    if not columns and op == "copy" and not dtype:
        turned = _turn(loops, source, target, itemsize, nanoseconds)
        if turned is not None:
            return turned
    unit, run = itemsize, ""
    last = loops[-1] if loops and len(loops) > at else None
    if last is not None and last.target == itemsize and not dtype:
        if last.source == itemsize:
            nbytes = last.size * itemsize
            unit = next(u for u in sorted(UNITS, reverse=True) if nbytes % u == 0)
            if nbytes > SHORT * unit or (len(loops) == 1 and not columns):
                unit, run = itemsize, "run"
            else:
                loops.pop()
                if nbytes > unit:
                    loops.append(Loop(nbytes // unit, unit, unit, 0, last.own))
        elif last.source == 0 and (into or not check):
            run = "fill"
    elif last is not None and dtype and last.size > 3:
        if last.target == itemsize and last.source == given_size:
            run = "run"
    split = -1
    if threads:
        mine = [i for i, n in enumerate(loops) if n.own]
        long = [i for i in mine if loops[i].size >= WIDE]
        if mine:
            split = long[0] if long else max(mine, key=lambda i: loops[i].size)
    count, chunk = 1, 0
    if split >= 0:
        count = loops[split].size
        # No two threads in one cache line; and what is outside of the loop is done by each of them.
        least = 4 * LINE if split else LINE
        grain = max(1, least // max(loops[split].target, 1))
        chunk = chunk_of(count, nanoseconds, grain=grain)
    numbers = [n for x in loops for n in x[:4]]
    numbers += [n for c in columns for n in (c.top, c.stride)]
    slots = [source, target, *(c.spot for c in columns)]
    if outside is not None:
        slots.append((outside, 0))
    kernel = Move(
        op, dtype, given, unit, run, len(loops), split, at, tuple(c.dtype for c in columns), check,
        into, vector_bytes() // itemsize if dtype else 0,
    )  # fmt: skip
    return Call(kernel, tuple(slots), tuple(numbers), count, chunk)


def _turn(loops: list[Loop], source: Spot, target: Spot, itemsize: int,
          nanoseconds: float) -> Call | None:  # fmt: skip
    """A transposition by blocks, where the source is contiguous along another axis."""
    if len(loops) < 2 or itemsize > 8:
        return None
    along = loops[-1]
    found = [i for i, n in enumerate(loops[:-1]) if n.source == itemsize]
    if along.target != itemsize or along.source == itemsize or along.size < BLOCK or not found:
        return None
    across = loops[found[0]]
    if across.size < BLOCK:
        return None
    outer = [n for i, n in enumerate(loops[:-1]) if i != found[0]]
    tiles = -(-across.size // max(LINE // itemsize, BLOCK))
    numbers = [tiles]
    for n in outer:
        numbers += n[:3]
    numbers += [across.size, across.target, along.size, along.source]
    count = tiles * math.prod(n.size for n in outer)
    return Call(
        Turn(itemsize, len(outer)), (source, target), tuple(numbers), count,
        chunk_of(count, 2 * nanoseconds),
    )  # fmt: skip


def _copied(place: Place, aval: ShapedArray, target: Spot, strides: Sequence[int],
            op: str = "copy") -> Call:  # fmt: skip
    """An array into memory with these strides."""
    loops = [Loop(*n) for n in zip(aval.shape, place.strides, strides, strict=True)]
    return _move(loops, _spot(place), target, aval.dtype.itemsize, op=op)


def _strides(aval: ShapedArray) -> tuple[int, ...]:
    return contiguous_strides(aval.shape, aval.dtype.itemsize)


def _step(eqn: Eqn, places: Sequence[Place], code: Sequence[Any], moved: int = 0,
          in_place: bool = False, scratch: Sequence[int] = ()) -> NativeStep:  # fmt: skip
    out = eqn.out_binders[0]
    return NativeStep(
        code, roots_of(places), [out], eqn.primitive.name, scratch=scratch,
        in_place={0: (0,)} if in_place else None, moved=moved or 2 * out.aval.nbytes,
    )  # fmt: skip


def _kept(eqn: Eqn, places: Sequence[Place]) -> tuple[list[Call], bool]:
    """The operand in the output's memory, and whether it may be there from the start."""
    x, (out,) = eqn.inputs[0].aval, eqn.out_binders
    place = places[0]
    if not is_contiguous(x.shape, place.strides, x.dtype.itemsize):
        return [_copied(place, x, (out, 0), _strides(x))], False
    shared = isinstance(place.root, Var) and place.offset == 0
    shared = shared and all(p.root is not place.root for p in places[1:])
    return [_copied(place, x, (out, 0), _strides(x), "keep")], shared


def _scalar_columns(
    starts: Sequence[Any], places: Sequence[Place], shape: Sequence[int], sizes: Sequence[int],
    strides: Sequence[int],
) -> list[Column] | None:  # fmt: skip
    """Columns of a slice's starts, less those that can only be 0."""
    columns = []
    for s, p, n, size, stride in zip(starts, places, shape, sizes, strides, strict=True):
        if dtype_name(s.aval) not in LLVM_TYPES:
            return None
        if n > size:
            columns.append(Column(dtype_name(s.aval), _spot(p), n - size, stride))
    return columns


# -- slices ---------------------------------------------------------------------------------------


def _lower_dynamic_slice(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    x, (out,) = eqn.inputs[0].aval, eqn.out_binders
    sizes, at = eqn.params["slice_sizes"], places[0]
    columns = _scalar_columns(eqn.inputs[1:], places[1:], x.shape, sizes, at.strides)
    if columns is None:
        return None
    loops = [Loop(*n) for n in zip(sizes, at.strides, _strides(out.aval), strict=True)]
    call = _move(loops, _spot(at), (out, 0), x.dtype.itemsize, columns=columns)
    return _step(eqn, places, [call])


def _lower_dynamic_update_slice(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    (x, u), (out,) = (a.aval for a in eqn.inputs[:2]), eqn.out_binders
    strides = _strides(x)
    columns = _scalar_columns(eqn.inputs[2:], places[2:], x.shape, u.shape, strides)
    if columns is None:
        return None
    code, shared = ([], False) if u.shape == x.shape else _kept(eqn, places)
    loops = [Loop(*n) for n in zip(u.shape, places[1].strides, strides, strict=True)]
    code.append(
        _move(loops, _spot(places[1]), (out, 0), x.dtype.itemsize, columns=columns, into=True)
    )
    return _step(eqn, places, code, 2 * (x.nbytes + u.nbytes), shared)


# -- gather and scatter ---------------------------------------------------------------------------


class _Starts(NamedTuple):
    """What gather and scatter share: the columns, and strides along the indices' dimensions.

    `batch`: for each of them (size, stride in the indices, stride in the operand).
    """

    columns: list[Column]
    batch: list[tuple[int, int, int]]


def _starts(indices: ShapedArray, place: Place, shape: Sequence[int], sizes: Sequence[int],
            strides: Sequence[int], mapped: Sequence[int], batching: Sequence[int],
            indices_batching: Sequence[int], check: bool) -> _Starts | None:  # fmt: skip
    dtype = dtype_name(indices)
    if dtype not in LLVM_TYPES:
        return None
    columns = []
    for k, d in enumerate(mapped):
        top = shape[d] - sizes[d]
        if top or check:
            columns.append(Column(dtype, _spot(place, k * place.strides[-1]), top, strides[d]))
    along = dict(zip(indices_batching, batching, strict=True))
    batch = []
    for i, n in enumerate(indices.shape[:-1]):
        step = place.strides[i] if columns else 0
        batch.append((n, step, strides[along[i]] if i in along else 0))
    return _Starts(columns, batch)


def _outside(value: Any, dtype: np.dtype) -> Fixed:
    """A cache line of an element."""
    element = np.asarray(value).astype(dtype).tobytes()
    return Fixed(np.frombuffer(element * max(1, LINE // len(element)), np.uint8))


def _lower_gather(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    (x, indices), (out,) = (a.aval for a in eqn.inputs), eqn.out_binders
    p = eqn.params
    dn, sizes, at = p["dimension_numbers"], p["slice_sizes"], places[0]
    check = p["mode"] is FILL
    found = _starts(
        indices, places[1], x.shape, sizes, at.strides, dn.start_index_map,
        dn.operand_batching_dims, dn.start_indices_batching_dims, check,
    )  # fmt: skip
    if found is None:
        return None
    check = check and bool(found.columns)
    left_out = {*dn.collapsed_slice_dims, *dn.operand_batching_dims}
    window = iter([d for d in range(x.ndim) if d not in left_out])
    batch = iter(found.batch)
    loops = []
    for i, (n, step) in enumerate(zip(out.aval.shape, _strides(out.aval), strict=True)):
        if i in dn.offset_dims:
            loops.append(Loop(n, at.strides[next(window)], step))
        else:
            _, index, source = next(batch)
            loops.append(Loop(n, source, step, index))
    call = _move(
        loops, _spot(at), (out, 0), x.dtype.itemsize, columns=found.columns, check=check,
        outside=_outside(p["fill_value"], x.dtype) if check else None,
    )  # fmt: skip
    return _step(eqn, places, [call], 2 * out.aval.nbytes + indices.nbytes)


class _Sum(NamedTuple):
    """How elements are combined: as which dtype, how many of it make one, from which dtype.

    Sums of complex numbers are those of their parts; 2-byte floats are combined in float32.
    """

    dtype: str
    parts: int
    given: str


def _sum(kind: str, dtype: np.dtype) -> _Sum | None:
    """How a kind combines a dtype; None where it can't, or combines nothing."""
    if not kind:
        return None
    if dtype.name in NARROW:
        return _Sum("float32", 1, dtype.name)
    if dtype.name in ALL:
        return _Sum(dtype.name, 1, dtype.name)
    if kind == "sum" and dtype.name in ("complex64", "complex128"):
        part = f"float{4 * dtype.itemsize}"
        return _Sum(part, 2, part)
    return None


def _summed_strides(s: _Sum, x: ShapedArray) -> tuple[int, ...]:
    """Strides of an array whose elements are combined as they are there."""
    return contiguous_strides(x.shape, s.parts * itemsize_of(s.dtype))


def _combined(kind: str, s: _Sum, loops: list[Loop], source: Spot, target: Spot,
              columns: Sequence[Column], check: bool) -> Call:  # fmt: skip
    """Windows combined with those of the target, whose dtype is that of the sums."""
    size = itemsize_of(s.dtype)
    loops = [*loops, Loop(s.parts, size, size)]
    return _move(loops, source, target, size, op=kind, dtype=s.dtype, given=s.given,
                 columns=columns, check=check, into=True)  # fmt: skip


def _converted(x: ShapedArray, strides: Sequence[int], source: Spot, target: Spot,
               widen: bool) -> Call:  # fmt: skip
    """2-byte floats as float32, contiguous, or back."""
    wide = contiguous_strides(x.shape, 4)
    dtype, given = ("float32", x.dtype.name) if widen else (x.dtype.name, "float32")
    pairs = zip(strides, wide, strict=True) if widen else zip(wide, strides, strict=True)
    loops = [Loop(n, *pair) for n, pair in zip(x.shape, pairs, strict=True)]
    return _move(loops, source, target, itemsize_of(dtype), op="convert", dtype=dtype, given=given)


def _scatter(kind: str) -> Callable[[Eqn, Sequence[Place]], NativeStep | None]:
    def lower(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
        (x, indices, u), (out,) = (a.aval for a in eqn.inputs), eqn.out_binders
        p = eqn.params
        dn = p["dimension_numbers"]
        sizes = window_sizes(x.shape, u.shape, dn)
        check = p["mode"] is not CLIP
        how = _sum(kind, x.dtype)
        if kind and how is None:
            return None
        strides = _summed_strides(how, x) if how is not None else _strides(x)
        mapped = dn.scatter_dims_to_operand_dims
        found = _starts(
            indices, places[1], x.shape, sizes, strides, mapped,
            dn.operand_batching_dims, dn.scatter_indices_batching_dims, check,
        )  # fmt: skip
        if found is None:
            return None
        left_out = {*dn.inserted_window_dims, *dn.operand_batching_dims}
        window = iter([d for d in range(x.ndim) if d not in left_out])
        batch = iter(found.batch)
        alone = math.prod(n for n, _, _ in found.batch) == 1 or p["unique_indices"]
        loops: list[Loop] = []
        moving: list[Loop] = []
        for i, (n, step) in enumerate(zip(u.shape, places[2].strides, strict=True)):
            if i in dn.update_window_dims:
                d = next(window)
                loop = Loop(n, step, strides[d], 0, alone or d not in mapped)
                # Windows that overlap are written one after the other.
                (loops if loop.own else moving).append(loop)
            else:
                # What a window writes comes after all of those before it.
                _, index, target = next(batch)
                loops.append(Loop(n, step, target, index, alone or target != 0))
        loops = _in_order(loops, moving)
        check = check and bool(found.columns)
        source, result = _spot(places[2]), (out, 0)
        moved = 2 * (x.nbytes + u.nbytes) + indices.nbytes
        if how is None:
            code, shared = _kept(eqn, places)
            code.append(
                _move(loops, source, result, x.dtype.itemsize, columns=found.columns, check=check,
                      into=True)
            )  # fmt: skip
            return _step(eqn, places, code, moved, shared)
        if how.given == how.dtype:
            code, shared = _kept(eqn, places)
            code.append(_combined(kind, how, loops, source, result, found.columns, check))
            return _step(eqn, places, code, moved, shared)
        wide = (Scratch(0), 0)
        code = [
            _converted(x, places[0].strides, _spot(places[0]), wide, True),
            _combined(kind, how, loops, source, wide, found.columns, check),
            _converted(x, _strides(x), wide, result, False),
        ]
        return _step(eqn, places, code, moved, scratch=[4 * x.size])

    return lower


def _in_order(loops: list[Loop], moving: list[Loop]) -> list[Loop]:
    """Window loops along indexed dimensions behind those over the indices, not further."""
    last = max([0, *(i + 1 for i, n in enumerate(loops) if n.column or not n.own)])
    return [*loops[:last], *moving, *loops[last:]]


# -- elements along a dimension -------------------------------------------------------------------


def _along(index: ShapedArray, place: Place, d: int, size: int, source: Sequence[int],
           target: Sequence[int], stride: int,
           into: bool) -> tuple[list[Loop], Column] | None:  # fmt: skip
    """Loops over an index that goes along dimension d of what it points into."""
    dtype = dtype_name(index)
    if dtype not in LLVM_TYPES:
        return None
    loops = [
        Loop(n, source[i], target[i], place.strides[i], i != d or not into)
        for i, n in enumerate(index.shape)
    ]
    return loops, Column(dtype, _spot(place), size - 1, stride)


def _without(strides: Sequence[int], d: int) -> list[int]:
    return [0 if i == d else s for i, s in enumerate(strides)]


def _lower_take_along(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    (x, index), (out,) = (a.aval for a in eqn.inputs), eqn.out_binders
    d, at = eqn.params["dimension"], places[0].strides
    found = _along(
        index, places[1], d, x.shape[d], _without(at, d), _strides(out.aval), at[d], False
    )
    if found is None:
        return None
    loops, column = found
    call = _move(loops, _spot(places[0]), (out, 0), x.dtype.itemsize, columns=[column])
    return _step(eqn, places, [call], 2 * out.aval.nbytes + index.nbytes)


def _lower_put_along(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    (x, index), (out,) = (a.aval for a in eqn.inputs), eqn.out_binders
    p = eqn.params
    d = p["dimension"]
    how = None if p["unique"] else _sum("sum", x.dtype)
    if how is None and not p["unique"]:
        return None
    at = _strides(out.aval) if how is None else _summed_strides(how, out.aval)
    found = _along(index, places[1], d, p["size"], places[0].strides, _without(at, d), at[d], True)
    if found is None:
        return None
    loops, column = found
    source, result = _spot(places[0]), (out, 0)
    if how is None:
        loops = [n._replace(own=True) for n in loops]
        put = _move(loops, source, result, x.dtype.itemsize, columns=[column], into=True)
        return _step(eqn, places, [_zeros(out.aval, x.dtype, result), put])
    if how.given == how.dtype:
        put = _combined("sum", how, loops, source, result, [column], False)
        return _step(eqn, places, [_zeros(out.aval, x.dtype, result), put])
    wide = (Scratch(0), 0)
    code = [
        _zeros(out.aval, np.dtype(how.dtype), wide),
        _combined("sum", how, loops, source, wide, [column], False),
        _converted(out.aval, _strides(out.aval), wide, result, False),
    ]
    return _step(eqn, places, code, scratch=[4 * out.aval.size])


def _zeros(aval: ShapedArray, dtype: np.dtype, target: Spot) -> Call:
    """A contiguous array of zeros."""
    strides = contiguous_strides(aval.shape, dtype.itemsize)
    return _filled(aval.shape, strides, (Fixed(np.zeros(1, dtype)), 0), target, dtype.itemsize)


# -- concatenate, pad, reshape --------------------------------------------------------------------


def _filled(shape: Sequence[int], strides: Sequence[int], value: Spot, target: Spot,
            itemsize: int) -> Call:  # fmt: skip
    """A box of the target filled with one element."""
    loops = [Loop(n, 0, s) for n, s in zip(shape, strides, strict=True)]
    return _move(loops, value, target, itemsize)


def _lower_concatenate(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    (out,) = eqn.out_binders
    d, strides = eqn.params["dimension"], _strides(out.aval)
    code, offset = [], 0
    for a, place in zip(eqn.inputs, places, strict=True):
        code.append(_copied(place, a.aval, (out, offset), strides))
        offset += a.aval.shape[d] * strides[d]
    return _step(eqn, places, code)


def _lower_pad(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    x, (out,) = eqn.inputs[0].aval, eqn.out_binders
    if eqn.inputs[1].aval.dtype != x.dtype:
        return None
    at, value = places[0], _spot(places[1])
    shape, strides = out.aval.shape, _strides(out.aval)
    config, element = eqn.params["padding_config"], x.dtype.itemsize
    offset, source = 0, 0
    firsts: list[int] = []
    loops: list[Loop] = []
    for n, size, stride, step_source, (low, _, interior) in zip(
        x.shape, shape, strides, at.strides, config, strict=True
    ):
        step = interior + 1
        # Element i lands at low + i * step; those that land inside are copied.
        first = -(low // step) if low < 0 else 0
        last = min(n, (size - 1 - low) // step + 1)
        if last <= first:
            return _step(eqn, places, [_filled(shape, strides, value, (out, 0), element)])
        firsts.append(low + first * step)
        offset += firsts[-1] * stride
        source += first * step_source
        loops.append(Loop(last - first, step_source, stride * step))
    code: list[Any] = []
    if any(interior and n.size > 1 for n, (_, _, interior) in zip(loops, config, strict=True)):
        code.append(_filled(shape, strides, value, (out, 0), element))
    else:
        # Only what lies around: before and behind along each axis, inside along those before it.
        begin, box = 0, list(shape)
        for d, loop in enumerate(loops):
            behind = firsts[d] + loop.size
            for start, stop in ((0, firsts[d]), (behind, shape[d])):
                if stop > start:
                    box[d] = stop - start
                    spot = (out, begin + start * strides[d])
                    code.append(_filled(box, strides, value, spot, element))
            begin += firsts[d] * strides[d]
            box[d] = loop.size
    code.append(_move(loops, _spot(at, source), (out, offset), x.dtype.itemsize))
    return _step(eqn, places, code)


def _lower_reshape(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    x, (out,) = eqn.inputs[0].aval, eqn.out_binders
    return _step(eqn, places, [_copied(places[0], x, (out, 0), _strides(x))])


dynamic_slice = Lowered(_lower_dynamic_slice, dense=False)
dynamic_update_slice = Lowered(_lower_dynamic_update_slice, dense=False)
gather = Lowered(_lower_gather, dense=False)
scatter = Lowered(_scatter(""), dense=False)
scatter_add = Lowered(_scatter("sum"), dense=False)
scatter_mul = Lowered(_scatter("prod"), dense=False)
scatter_min = Lowered(_scatter("min"), dense=False)
scatter_max = Lowered(_scatter("max"), dense=False)
take_along = Lowered(_lower_take_along, dense=False)
put_along = Lowered(_lower_put_along, dense=False)
concatenate = Lowered(_lower_concatenate, dense=False)
pad = Lowered(_lower_pad, dense=False)
reshape = Lowered(_lower_reshape, dense=False)
