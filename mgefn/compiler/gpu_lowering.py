"""From fusion groups to launches on a GPU.

The loops, accesses and nodes of a group are those that lowering.py finds for the CPU; who computes
what is decided here. It depends on shapes alone, never on the device, so results do not either.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from mgefn.compiler.codegen.ptx import (
    BLOCKS,
    COLUMNS,
    ELEMENTS,
    MOST_THREADS,
    THREADS,
    TILE,
    TILES,
    WARP,
    WARPS,
    DeviceKernel,
)
from mgefn.compiler.codegen.values import itemsize
from mgefn.compiler.fusion import Fusion
from mgefn.compiler.gpu_launch import Launch
from mgefn.compiler.groups import Group
from mgefn.compiler.kernel import (
    FLAT,
    GATHERED,
    INDEX,
    KEEP,
    LOAD,
    RAGGED,
    STORE,
    STRIDED,
    UNIT,
    Access,
    Kernel,
    Node,
)
from mgefn.compiler.lowering import Lowering
from mgefn.compiler.native import row_of, with_steps
from mgefn.compiler.steps import Call, Lowered, NativeStep
from mgefn.core.backends import load_table
from mgefn.core.jaxpr import ClosedJaxpr, Eqn, Var
from mgefn.core.primitive import Primitive

# What a fusion group is in a program for a GPU: params: step, a DeviceStep.
device_p = Primitive("device", weak_result=False)

BLOCKS_WANTED = 1024  # blocks that keep any device busy
MOST_BLOCKS = 4096  # blocks of a grid whose threads go on to further elements
MOST_ROWS = 1 << 20  # rows that have a team of their own
WARP_ROW = 512  # elements of a row up to which a warp takes it, and not a block
PIECE = 4096  # elements of a piece of a divided row, at least
MOST_PIECES = 1024  # pieces of a divided row, a block each
ROWS_OF_A_SUM = 64  # rows that a block adds up, at least, where it has WARP columns
MOST_SUMS = 16  # sums of COLUMNS, times lanes, by its shared memory
SHARED_BYTES = 48 * 1024  # bytes that every device has for a block
VECTOR_BYTES = 16  # bytes of a thread's load
MOST_LANES = 4  # elements that a thread has at once
MOST_NUMBERS = 400  # arguments of 8 bytes; there may be 4096 bytes of them
# Cost of what is computed for an element, in the cycles that rows of the native table count, from
# which a thread has one at a time, for its registers.
COSTLY = 80.0


class Sizes(NamedTuple):
    """What the descriptor of a call says: sizes of loops, and strides of each access along them."""

    outer: list[int]
    inner: list[int]
    outer_strides: list[list[int]]
    inner_strides: list[list[int]]  # the innermost included

    @property
    def rows(self) -> int:
        return math.prod(self.outer)

    @property
    def row_size(self) -> int:
        return math.prod(self.inner)


def sizes_of(call: Call) -> Sizes:
    """The descriptor of a fused kernel's call, read."""
    k: Kernel = call.kernel
    numbers = iter(call.numbers)
    outer = [next(numbers) for _ in range(k.outer - 1)]
    inner = [call.count] if k.layout == FLAT else [next(numbers) for _ in range(k.inner)]
    if k.layout == RAGGED:
        next(numbers)
    if k.outer:
        outer.insert(0, call.count // math.prod(outer))
    outer_strides, inner_strides = [], []
    for a in k.accesses:
        unit = 1 if a.kind == INDEX else itemsize(a.dtype)
        if a.kind in (KEEP, GATHERED):
            outer_strides.append([])
            inner_strides.append([])
            continue
        outer_strides.append([next(numbers) for _ in range(k.outer)])
        steps = [next(numbers) for _ in range(k.inner - (a.inner != STRIDED))]
        if a.inner != STRIDED:
            steps.append(unit if a.inner == UNIT else 0)
        inner_strides.append(steps)
        if a.kind == INDEX:
            next(numbers)
    return Sizes(outer, inner, outer_strides, inner_strides)


class _DeviceLowering(Lowering):
    shuffles = False
    across = False
    tiled = False
    past = False

    def _width(self, nodes: list[Node], costs: list[float], sums: bool) -> int:
        return 1

    def _keeps(self, nodes: list[Node], costs: list[float], accesses: list,
               stores: list[tuple[int, int]]) -> list[tuple[int, int]]:  # fmt: skip
        """Nothing: arithmetic is cheaper than memory."""
        return []

    def _partition(self, layout: str, rows: int, row_size: int, nanoseconds: float,
                   sums: bool, keeps: bool) -> tuple[int, int, int]:  # fmt: skip
        if layout == FLAT:
            return row_size, 0, 0
        if layout == RAGGED:
            piece = max(PIECE, -(-row_size // MOST_PIECES))
            piece = -(-piece // 64) * 64
            return -(-row_size // piece), 1, piece
        chunk = 0
        if sums:
            unit = self._unit()
            if self.g.lead:
                chunk = unit
            else:
                blocks = BLOCKS_WANTED
                if not any(t.op == "reduce" for t in self.g.terms):
                    blocks = max(1, blocks // -(-row_size // WARP))
                least = ROWS_OF_A_SUM * (WARP // _columns(row_size))
                chunk = max(least, -(-rows // blocks))
        return rows, 0 if chunk >= rows else chunk, 0


def lower(fusion: Fusion, group: Group) -> NativeStep:
    """The launches of a group."""
    step = _DeviceLowering(fusion, group, VECTOR_BYTES).step()
    step.code = [planned(call) for call in step.code]
    return step


def planned(call: Call) -> Launch:
    """How a fused kernel's call is shared out among blocks and threads.

    Args:
        call: with a kernel of lowering.py that keeps nothing.
    """
    k: Kernel = call.kernel
    z = sizes_of(call)
    reduces = any(n.op == "reduce" for n in k.nodes)
    count, chunk = call.count, call.chunk or max(call.count, 1)
    lanes = _lanes(k, z, call)
    staged = _staged(k, z)
    columns = WARP
    if k.sums and not reduces and len(k.sums) <= MOST_SUMS:
        mapping, block = COLUMNS, THREADS
        if z.row_size < WARP * lanes or len(k.sums) * lanes > MOST_SUMS:
            lanes = 1
        columns = _columns(z.row_size) if lanes == 1 else WARP
        grid = -(-z.row_size // (columns * lanes)) * -(-count // chunk)
    elif k.sums or reduces:
        if not k.sums:
            chunk = 1 if k.layout == RAGGED else -(-count // MOST_ROWS)
        teams = -(-count // chunk)
        if not k.sums and k.layout != RAGGED and z.row_size <= WARP_ROW and count > 1:
            mapping, block = WARPS, min(THREADS // 2, WARP * teams)
            grid = -(-teams // (block // WARP))
        else:
            mapping, grid, block = BLOCKS, teams, _threads(z.row_size // lanes)
    elif staged:
        mapping, block, lanes = TILES, THREADS, 1
        grid = -(-z.outer[-1] // TILE) * -(-z.row_size // TILE) * math.prod(z.outer[:-1])
    else:
        mapping, block = ELEMENTS, THREADS
        total = z.rows * -(-z.row_size // lanes)
        grid = min(-(-total // block), MOST_BLOCKS)
    numbers = (count, chunk, *call.numbers)
    indirect = len(numbers) + len(call.slots) > MOST_NUMBERS
    kernel = DeviceKernel(
        k._replace(width=1),
        mapping,
        lanes,
        wide=z.rows * z.row_size + chunk >= 1 << 31,
        columns=columns,
        staged=staged if mapping == TILES else (),
        once=_once(k, z, mapping in (WARPS, BLOCKS)),
        indirect=indirect,
    )
    alignments = tuple(
        itemsize(a.dtype) * (lanes if a.inner == UNIT else 1)
        for a in k.accesses
        if a.kind != INDEX and lanes > 1
    )
    return Launch(kernel, call.slots, numbers, max(grid, 1), block, alignments, indirect)


def _columns(row: int) -> int:
    """Columns of a block that sums over rows of so many: a power of two with room for them."""
    return min(WARP, 1 << max(row - 1, 0).bit_length())


def _threads(row: int) -> int:
    """Threads of a block that takes rows of so many elements or vectors: each has about four."""
    threads = WARP
    while threads < MOST_THREADS and threads * 4 < row:
        threads *= 2
    return threads


def _moving(k: Kernel) -> list[tuple[int, Access]]:
    return [(i, a) for i, a in enumerate(k.accesses) if a.kind in (LOAD, STORE)]


def _lanes(k: Kernel, z: Sizes, call: Call) -> int:
    """Elements that lie side by side in all that is read and written along the row."""
    cost = sum(n.data[0].cost for n in k.nodes if n.op == "apply")
    if cost >= COSTLY:
        return 1
    spots = iter(call.slots)
    largest, bits, rows = 1, 0, k.layout == FLAT
    for a, outer, inner in zip(k.accesses, z.outer_strides, z.inner_strides, strict=True):
        offset = 0 if a.kind == INDEX else next(spots)[1]
        if a.kind == GATHERED:
            largest = max(largest, itemsize(a.dtype))
        if a.kind not in (LOAD, STORE) or not a.varies:
            continue
        if a.kind == STORE and a.inner != UNIT:
            return 1
        if a.inner == UNIT:
            size = itemsize(a.dtype)
            largest = max(largest, size)
            # In elements; what all of these have as a common power of two is aligned.
            for n in (offset, *outer, *inner[:-1]):
                bits |= n // size if n % size == 0 else 1
        elif a.inner == STRIDED:
            return 1  # each lane would be a load of its own
    if not rows:
        bits |= z.inner[-1]
        if k.layout == RAGGED:
            bits |= call.numbers[1]
    lanes = min(MOST_LANES, VECTOR_BYTES // largest)
    while lanes > 1 and bits % lanes:
        lanes //= 2
    return max(lanes, 1)


def _staged(k: Kernel, z: Sizes) -> tuple[int, ...]:
    """Loads that lie along the last outer loop, where there is enough to make tiles of."""
    if k.layout == FLAT or k.inner != 1 or not z.outer or min(z.outer[-1], z.inner[0]) < TILE // 2:
        return ()
    found: list[int] = []
    nbytes = 0
    for i, a in _moving(k):
        size = itemsize(a.dtype)
        if a.kind != LOAD or a.inner != STRIDED or not a.varies:
            continue
        if abs(z.outer_strides[i][-1]) != size or z.inner_strides[i][-1] == size:
            continue
        nbytes += -(-TILE * (TILE + 1) * size // 8) * 8
        if nbytes > SHARED_BYTES:
            break
        found.append(i)
    return tuple(found)


def _once(k: Kernel, z: Sizes, teams: bool) -> tuple[int, ...]:
    """Stores that several elements of the domain share; a team's are written by one thread."""
    found = []
    for i, a in _moving(k):
        if a.kind != STORE:
            continue
        loops = list(zip(z.outer, z.outer_strides[i], strict=True))
        if not teams:
            loops += zip(z.inner, z.inner_strides[i], strict=True)
        if any(n > 1 and s == 0 for n, s in loops):
            found.append(i)
    return tuple(found)


# -- programs -------------------------------------------------------------------------------------

# Rows for primitives that are no loop nests: primitive -> Lowered, whose step has Launches. The
# table of backends/ptx_gpu.py fills it.
DEVICE_ROWS: dict[Primitive, Lowered] = {}


def device_row_of(eqn: Eqn) -> Any:
    """The row of an equation on the GPU, or None where it has no kernel of ours."""
    own = DEVICE_ROWS.get(eqn.primitive)
    if own is not None:
        return own
    row = row_of(eqn)
    return row if is_part_of_nests(row) else None


def is_part_of_nests(row: Any) -> bool:
    """Is a row of the native table that of an elementwise operation or a reduction?"""
    return isinstance(row, frozenset) or hasattr(row, "accepts")


def with_device_steps(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with equations of `device_p` for all that becomes launches."""
    load_table("llvm")
    load_table("ptx")
    return with_steps(closed, device_row_of, _step_of, device_p, pads=True)


def _step_of(fusion: Fusion, step: Any) -> tuple[Any, NativeStep]:
    if isinstance(step, Group):
        return step.eqns[0].source, _device_step(fusion, lower(fusion, step), step.eqns)
    eqn, own = step
    return eqn.source, _device_step(fusion, own, [eqn])


class DeviceStep(NativeStep):
    """A step whose code is Launches.

    Attributes:
        eqns: what computes the same by rows of a table, from the inputs to the outputs.
    """

    __slots__ = ("eqns",)

    eqns: list[Eqn]


def _device_step(fusion: Fusion, step: NativeStep, eqns: Sequence[Eqn]) -> DeviceStep:
    made = DeviceStep(
        step.code, step.inputs, step.outputs, step.label, scratch=step.scratch,
        in_place=step.in_place, flops=step.flops, moved=step.moved, sources=step.sources,
    )  # fmt: skip
    needed, kept = set(step.outputs), []
    for eqn in reversed(_whole(fusion, eqns, step.inputs)):
        if not needed.isdisjoint(eqn.out_binders):
            needed.update(a for a in eqn.inputs if isinstance(a, Var))
            kept.append(eqn)
    made.eqns = kept[::-1]
    return made


def _whole(fusion: Fusion, eqns: Sequence[Eqn], inputs: Sequence[Var]) -> list[Eqn]:
    """The equations of a step, and those of what it reads without having it in memory."""
    # Not by `fusion.padded`: what is padded may be put in memory for a later step.
    pads = {e.out_binders[0]: e for e in fusion.closed.jaxpr.eqns if e.primitive.name == "pad"}
    placed, begun, out = set(inputs), set[Var](), []

    def maker(v: Var) -> Eqn | None:
        if v in fusion.view_of:
            return fusion.view_of[v][1]
        if v in fusion.cheap:
            return fusion.cheap[v].eqn
        return fusion.virtual.get(v) or pads.get(v)

    def place(v: Any) -> None:
        """The equations that lead from the inputs to a value."""
        pending = [v]
        while pending:
            v = pending[-1]
            made_by = maker(v) if isinstance(v, Var) and v not in placed else None
            missing = () if made_by is None else made_by.inputs
            missing = [a for a in missing if isinstance(a, Var) and a not in placed]
            if missing and v not in begun:
                begun.add(v)
                pending += missing
                continue
            pending.pop()
            if made_by is not None:
                out.append(made_by)
                placed.update(made_by.out_binders)

    for eqn in eqns:
        for a in eqn.inputs:
            place(a)
        out.append(eqn)
        placed.update(eqn.out_binders)
    return out
