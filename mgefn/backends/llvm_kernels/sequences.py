"""Scans, positions of extremes, sorts and searches: which native kernels take them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from mgefn.compiler.codegen.lines import DTYPES, computed
from mgefn.compiler.codegen.sequences import (
    ArgumentOfParts,
    ColumnArgument,
    ColumnScan,
    LineArgument,
    LineScan,
)
from mgefn.compiler.codegen.sorting import (
    FEW,
    FLOATING,
    SHORT,
    Largest,
    Ordered,
    RadixPart,
    RadixSort,
    RankSort,
    Search,
    Sorted,
    record_bits,
)
from mgefn.compiler.codegen.values import INTEGERS, itemsize
from mgefn.compiler.native import dtype_name, vector_bytes
from mgefn.compiler.steps import Call, Lowered, NativeStep, Place, Scratch, Spot, chunk_of, roots_of
from mgefn.core.avals import ShapedArray
from mgefn.core.jaxpr import Eqn, Var

LONG = 1 << 16  # elements from which a line is divided
PIECE_ELEMENTS = 1 << 14  # least length of a piece of a line
MOST_PIECES = 64
FEW_LINES = 16  # so many need no pieces to busy the threads

Lower = Callable[[Eqn, Sequence[Place]], NativeStep | None]


def _spot(place: Place) -> Spot:
    return place.root, place.offset


def _split(shape: Sequence[int], axis: int) -> tuple[int, int, int]:
    """outer, n, inner: the sizes before the axis, of it and after it."""
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def _pieces(lines: int, n: int) -> tuple[int, int]:
    """How many pieces a line is cut into, and their length."""
    if n < LONG or lines >= FEW_LINES:
        return 1, n
    pieces = min(MOST_PIECES, n // PIECE_ELEMENTS)
    length = -(-n // pieces)
    length = -(-length // 64) * 64
    return -(-n // length), length


def _width(dtype: str, registers: int, least: int = 1) -> int:
    """Elements of so many registers of the widest type in play."""
    return max(2, vector_bytes() * registers // max(itemsize(dtype), least))


def _narrowed(width: int, n: int) -> int:
    """The width, or the least power of two that holds n elements."""
    return min(width, max(2, 1 << (n - 1).bit_length()))


# -- scans ----------------------------------------------------------------------------------------

# For a vector in nanoseconds, roughly.
_COSTS = {"sum": 1.0, "prod": 1.0, "max": 1.0, "min": 1.0, "logsumexp": 15.0}


def _scan(kind: str) -> Lower:
    def lower(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
        x, (out,) = eqn.inputs[0].aval, eqn.out_binders
        dtype, reverse = dtype_name(x), eqn.params["reverse"]
        outer, n, inner = _split(x.shape, eqn.params["axis"])
        if dtype in ("complex64", "complex128") and kind == "sum":
            dtype, inner = ("float32", "float64")[dtype == "complex128"], 2 * inner
        if dtype not in DTYPES:
            return None
        source, target = _spot(places[0]), (out, 0)
        wide = computed(dtype)
        cost = _COSTS[kind]
        calls: list[Call] = []
        scratch: list[int] = []
        if inner > 1:
            most = _width(wide, 1 if kind == "logsumexp" else 4)
            width = _narrowed(most, inner)
            tiles = -(-inner // width)
            count = outer * tiles
            nanoseconds = count * n * max(cost, width * itemsize(dtype) / 10.0)
            kernel = ColumnScan(kind, dtype, reverse, width)
            numbers = (tiles, inner, n)
            calls.append(
                Call(kernel, (source, target), numbers, count, chunk_of(count, nanoseconds))
            )
        else:
            width = _narrowed(_width(wide, 1), n)
            pieces, length = _pieces(outer, n)
            count = outer * pieces
            nanoseconds = outer * (5.0 + (-(-n // width)) * cost * width.bit_length())
            numbers, chunk = (pieces, length, n), chunk_of(count, nanoseconds)
            stage, slots = "scan", [source, target]
            if pieces > 1:
                scratch.append(count * itemsize(wide))
                totals = (Scratch(0), 0)
                joined = LineScan(kind, dtype, reverse, width, "totals")
                calls.append(Call(joined, (source, totals), numbers, count, chunk))
                stage, slots = "rest", [source, target, totals]
            kernel = LineScan(kind, dtype, reverse, width, stage)
            calls.append(Call(kernel, tuple(slots), numbers, count, chunk))
        (place,) = places
        # Each element is read by the thread that writes in its place, and before that.
        own = isinstance(place.root, Var) and place.root.aval.nbytes == out.aval.nbytes
        return NativeStep(
            calls, roots_of(places), [out], eqn.primitive.name, scratch=scratch,
            in_place={0: (0,)} if own else None, flops=float(x.size), moved=2 * x.nbytes,
        )  # fmt: skip

    return lower


# -- positions of extremes ------------------------------------------------------------------------


def _argument(largest: bool) -> Lower:
    def lower(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
        x, (out,) = eqn.inputs[0].aval, eqn.out_binders
        dtype, index = dtype_name(x), dtype_name(out.aval)
        (axis,) = eqn.params["axes"]
        outer, n, inner = _split(x.shape, axis)
        if dtype not in DTYPES or index not in INTEGERS or n >= 2**31:
            return None
        source, target = _spot(places[0]), (out, 0)
        wide = computed(dtype)
        calls: list[Call] = []
        scratch: list[int] = []
        if inner > 1:
            width = _narrowed(_width(wide, 2, 4), inner)
            tiles = -(-inner // width)
            count = outer * tiles
            chunk = chunk_of(count, 2.0 * count * n)
            kernel = ColumnArgument(dtype, largest, index, width)
            calls.append(Call(kernel, (source, target), (tiles, inner, n), count, chunk))
        else:
            width = _narrowed(_width(wide, 2, 4), n)
            pieces, length = _pieces(outer, n)
            count = outer * pieces
            chunk = chunk_of(count, outer * (15.0 + 2.0 * n / width))
            numbers = (pieces, length, n)
            if pieces == 1:
                kernel = LineArgument(dtype, largest, index, width, False)
                calls.append(Call(kernel, (source, target), numbers, count, chunk))
            else:
                scratch += [count * itemsize(wide), count * 4]
                parts = (Scratch(0), 0), (Scratch(1), 0)
                kernel = LineArgument(dtype, largest, "int32", width, True)
                calls.append(Call(kernel, (source, *parts), numbers, count, chunk))
                last = ArgumentOfParts(dtype, largest, index)
                calls.append(Call(last, (*parts, target), (pieces,), outer, 0))
        return NativeStep(
            calls, roots_of(places), [out], eqn.primitive.name, scratch=scratch,
            flops=float(x.size), moved=x.nbytes,
        )  # fmt: skip

    return lower


cumsum = Lowered(_scan("sum"))
cumprod = Lowered(_scan("prod"))
cummax = Lowered(_scan("max"))
cummin = Lowered(_scan("min"))
cumlogsumexp = Lowered(_scan("logsumexp"))
argmax = Lowered(_argument(True))
argmin = Lowered(_argument(False))

# -- sorting --------------------------------------------------------------------------------------

MOST_BUFFERS = 16  # chunks, where each has memory of its own


def _sort_calls(
    dtype: str, shape: Sequence[int], axis: int, source: Spot, target: Spot, scratch: list[int], *,
    descending: bool = False, order: Spot | None = None, index: str = "", packed: bool = False,
) -> list[Call]:  # fmt: skip
    """One sort of each line; see _Sorted."""
    outer, n, inner = _split(shape, axis)
    lines = outer * inner
    what = Sorted(dtype, descending, order is not None, index, packed, inner == 1)
    orders = () if order is None else (order,)
    if n <= SHORT:
        kernel = RankSort(what, _narrowed(_width(dtype, 2, 4), n))
        nanoseconds = lines * (20.0 + 2.0 * n + 0.7 * n * n / kernel.width)
        chunk = chunk_of(lines, nanoseconds)
        return [Call(kernel, (source, target, *orders), (inner, n), lines, chunk)]
    nbytes = record_bits(what) // 8
    if n >= LONG and lines < FEW_LINES:
        return _parts_calls(what, lines, n, inner, (source, target), scratch, orders)
    nanoseconds = lines * n * (2.0 + 1.5 * itemsize(dtype))
    chunk = chunk_of(lines, nanoseconds, MOST_BUFFERS)
    chunks = -(-lines // chunk) if chunk else 1
    scratch.append(chunks * 2 * n * nbytes)
    slots = (source, target, (Scratch(len(scratch) - 1), 0), *orders)
    kernel = RadixSort(what, _width(dtype, 1))
    return [Call(kernel, slots, (inner, n, chunk or lines), lines, chunk)]


def _parts_calls(
    what: Sorted, lines: int, n: int, inner: int, ends: tuple[Spot, Spot], scratch: list[int],
    orders: Sequence[Spot],
) -> list[Call]:  # fmt: skip
    """A sort of long lines in pieces, for several threads."""
    pieces, length = _pieces(lines, n)
    units = lines * pieces
    first = len(scratch)
    scratch += [lines * 2 * n * record_bits(what) // 8, units * 1024, lines * 24, units * 24]
    slots = (*ends, *((Scratch(first + i), 0) for i in range(4)), *orders)
    chunk = chunk_of(units, 2.0 * lines * n)

    def call(stage: str, digit: int = 0) -> Call:
        kernel = RadixPart(what, stage, _width(what.dtype, 1))
        whole = stage in ("place", "restore")
        numbers = (inner, n, pieces, length, digit)
        return Call(kernel, slots, numbers, lines if whole else units, 0 if whole else chunk)

    calls = [call("read")]
    for digit in range(itemsize(what.dtype)):
        calls += [call("count", digit), call("place", digit), call("move", digit)]
    calls.append(call("write"))
    if not what.integer and what.dtype in FLOATING:
        calls.append(call("restore"))
    return calls


def _order_calls(
    dtypes: Sequence[str], shape: Sequence[int], axis: int, sources: Sequence[Spot], target: Spot,
    scratch: list[int], index: str, packed: bool, descending: bool = False,
) -> list[Call]:  # fmt: skip
    """Positions in the order of some keys, the first of which counts most."""
    calls: list[Call] = []
    order: Spot | None = None
    for i in reversed(range(len(dtypes))):
        last = i == 0
        into: Spot = target
        if not last:
            scratch.append(math.prod(shape) * 4)
            into = Scratch(len(scratch) - 1), 0
        calls += _sort_calls(
            dtypes[i], shape, axis, sources[i], into, scratch, descending=descending, order=order,
            index=index if last else "int32", packed=packed or not last,
        )  # fmt: skip
        order = into
    return calls


def _ordered_calls(
    aval: ShapedArray, axis: int, source: Spot, target: Spot, order: Spot, m: int,
    positions: Spot | None = None,
) -> list[Call]:  # fmt: skip
    """The first m elements of lines in a known order."""
    outer, n, inner = _split(aval.shape, axis)
    kernel = Ordered(aval.dtype.itemsize, positions is not None)
    slots = (source, target, order, *(() if positions is None else (positions,)))
    lines = outer * inner
    pieces, length = _pieces(lines, m)
    units = lines * pieces
    chunk = chunk_of(units, lines * (5.0 + 2.0 * m))
    return [Call(kernel, slots, (inner, n, m, pieces, length), units, chunk)]


def _sortable(avals: Sequence[ShapedArray], axis: int) -> list[str] | None:
    dtypes = [dtype_name(a) for a in avals]
    if any(d not in DTYPES for d in dtypes) or avals[0].shape[axis] >= 2**31:
        return None
    return dtypes


def _sorting_step(
    eqn: Eqn, places: Sequence[Place], calls: Sequence[Call], scratch: Sequence[int]
) -> NativeStep:
    moved = sum(a.aval.nbytes for a in eqn.inputs) + sum(v.aval.nbytes for v in eqn.out_binders)
    n = eqn.inputs[0].aval.size
    return NativeStep(
        calls, roots_of(places), list(eqn.out_binders), eqn.primitive.name, scratch=scratch,
        flops=float(n * max(n, 2).bit_length()), moved=moved,
    )  # fmt: skip


def _lower_sort(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    avals = [a.aval for a in eqn.inputs]
    axis, num_keys = eqn.params["dimension"], eqn.params["num_keys"]
    dtypes = _sortable(avals[:num_keys], axis)
    if dtypes is None:
        return None
    shape = avals[0].shape
    spots = [_spot(p) for p in places]
    targets: list[Spot] = [(v, 0) for v in eqn.out_binders]
    scratch: list[int] = []
    if len(avals) == 1:
        calls = _sort_calls(dtypes[0], shape, axis, spots[0], targets[0], scratch)
    else:
        scratch.append(avals[0].size * 4)
        order = Scratch(0), 0
        calls = _order_calls(dtypes, shape, axis, spots, order, scratch, "int32", True)
        for aval, source, target in zip(avals, spots, targets, strict=True):
            calls += _ordered_calls(aval, axis, source, target, order, shape[axis])
    return _sorting_step(eqn, places, calls, scratch)


def _lower_argsort(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    avals = [a.aval for a in eqn.inputs]
    axis, (out,) = eqn.params["dimension"], eqn.out_binders
    dtypes, index = _sortable(avals, axis), dtype_name(out.aval)
    if dtypes is None or index not in INTEGERS:
        return None
    scratch: list[int] = []
    spots = [_spot(p) for p in places]
    calls = _order_calls(dtypes, avals[0].shape, axis, spots, (out, 0), scratch, index, False)
    return _sorting_step(eqn, places, calls, scratch)


def _lower_top_k(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    x, (values, positions) = eqn.inputs[0].aval, eqn.out_binders
    axis, k = eqn.params["axis"], eqn.params["k"]
    dtypes = _sortable([x], axis)
    if dtypes is None:
        return None
    outer, n, inner = _split(x.shape, axis)
    source = _spot(places[0])
    targets: tuple[Spot, Spot] = (values, 0), (positions, 0)
    scratch: list[int] = []
    if k <= FEW and n > SHORT:
        kernel = Largest(dtypes[0], _width(dtypes[0], 1) if inner == 1 else 1)
        lines = outer * inner
        chunk = chunk_of(lines, lines * (k * k + 2.0 * n / kernel.width))
        calls = [Call(kernel, (source, *targets), (inner, n, k), lines, chunk)]
    else:
        scratch.append(x.size * 4)
        order = Scratch(0), 0
        calls = _order_calls(dtypes, x.shape, axis, [source], order, scratch, "int32", True, True)
        calls += _ordered_calls(x, axis, source, targets[0], order, k, targets[1])
    return _sorting_step(eqn, places, calls, scratch)


# -- searching ------------------------------------------------------------------------------------


def _lower_searchsorted(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    (a, v), (out,) = (x.aval for x in eqn.inputs), eqn.out_binders
    batch = eqn.params["batch_dims"]
    dtypes, index = _sortable([a], len(a.shape) - 1), dtype_name(out.aval)
    if dtypes is None or index not in INTEGERS:
        return None
    lines, n = math.prod(a.shape[:batch]), a.shape[-1]
    m = v.size // lines
    width = _narrowed(_width(dtypes[0], 1, 4), m)
    tiles = -(-m // width)
    kernel = Search(dtypes[0], eqn.params["side"] == "right", index, width)
    power = 1 << (n.bit_length() - 1)
    slots = (_spot(places[0]), _spot(places[1]), (out, 0))
    count = lines * tiles
    chunk = chunk_of(count, count * n.bit_length() * width * 0.7)
    call = Call(kernel, slots, (tiles, m, n, power), count, chunk)
    return NativeStep(
        [call], roots_of(places), [out], "searchsorted", flops=float(v.size * n.bit_length()),
        moved=a.nbytes + v.nbytes + out.aval.nbytes,
    )  # fmt: skip


sort = Lowered(_lower_sort)
argsort = Lowered(_lower_argsort)
top_k = Lowered(_lower_top_k)
searchsorted = Lowered(_lower_searchsorted)
