"""From a fusion group to kernel calls: which loops, what width, how much a thread takes.

Axes of the domain along which all accesses move evenly become one loop. What is left of the outer
axes are the outer loops, what is left of the row the inner ones. Numbers that a new shape changes
go into the call; the kernel keeps what decides the code.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from typing import Any

from mgefn.compiler.codegen.values import COMPLEX, alignment, held, itemsize, name_of
from mgefn.compiler.fusion import FAR, FAR_FROM, Fusion
from mgefn.compiler.groups import Group, Term
from mgefn.compiler.kernel import (
    ACROSS,
    AHEAD,
    BACKWARD,
    BAND,
    FLAT,
    GATHERED,
    INDEX,
    KEEP,
    LOAD,
    MOST_ACROSS,
    NEXT_ROW,
    PAIRS,
    RAGGED,
    ROWS,
    STORE,
    STRIDED,
    TILE,
    TILED,
    UNIT,
    ZERO,
    Access,
    Kernel,
    Node,
    bits_of_constant,
)
from mgefn.compiler.steps import MOST_CHUNKS, Call, NativeStep, Scratch, chunk_of
from mgefn.core.avals import contiguous_strides
from mgefn.core.jaxpr import Var

MOST_PARTIALS = 16  # chunks where each has memory of its own
KEEP_FROM = 12.0  # cost of computing a value again from which it is kept
FEW = 8  # elements of a last axis below which vectors run along the one before
HEAVY = 8.0  # cost of an operation from which a vector is one register wide
BAKED = (0, 1, -1)  # literals that are part of the code
MANY = 64  # rows from which short ones run in vectors across rows
PAST = 3 << 20  # bytes from which a result is written past the caches, and an operand read ahead
PAST_ROW = 256  # least elements of a row for that
NEXT_BYTES = 64 << 10  # of a row at most, for the caches to keep the next one
PIECE_ELEMENTS = 1 << 14  # least length of a piece of a divided row


def collapsed(
    sizes: Sequence[int], strides: Sequence[Sequence[int]], axes: Sequence[int]
) -> list[tuple[int, list[int]]]:
    """Loops (size, a stride for each access) over some axes, evenly walked ones in one."""
    loops: list[tuple[int, list[int]]] = []
    for axis in axes:
        n = sizes[axis]
        if n == 1:
            continue
        steps = [s[axis] for s in strides]
        if loops:
            before, outer = loops[-1]
            if all(o == s * n for o, s in zip(outer, steps, strict=True)):
                loops[-1] = (before * n, steps)
                continue
        loops.append((n, steps))
    return loops


def _axes_of(domain: Sequence[int], loops: Sequence[tuple[int, Any]], number: int) -> set[int]:
    """The axes that one of the loops over all of a domain stands for."""
    axes = iter([i for i, n in enumerate(domain) if n != 1])
    for n, (size, _) in enumerate(loops):
        found: set[int] = set()
        left = size
        while left > 1:
            axis = next(axes)
            found.add(axis)
            left //= domain[axis]
        if n == number:
            return found
    return set()


def _runs_across(
    outer: Sequence[tuple[int, Any]], inner: Sequence[tuple[int, Any]], lead: int | None
) -> bool:
    """Do vectors run across rows? `lead`: of the outer loops, how many sums keep; None: no sums."""
    if len(inner) != 1 or not 1 < inner[0][0] <= MOST_ACROSS or not outer:
        return False
    if lead is not None and len(outer) != lead + 1:
        return False  # sums are over the loop in vectors, and no other
    return outer[-1][0] >= 2 * MOST_ACROSS and math.prod(n for n, _ in outer) >= MANY


def _runs_in_tiles(
    outer: Sequence[tuple[int, list[int]]], inner: Sequence[tuple[int, list[int]]],
    accesses: Sequence[tuple[str, str, Any, list[int]]],
) -> bool:  # fmt: skip
    """Is some memory walked down its columns by a domain that is large in both directions?"""
    if len(outer) != 1 or len(inner) != 1 or outer[0][0] * inner[0][0] < FAR_FROM:
        return False
    far = False
    for (kind, dtype, _, _), o, i in zip(accesses, outer[0][1], inner[0][1], strict=True):
        if kind == STORE and not i:
            return False
        far |= kind != INDEX and abs(i) >= FAR and abs(o) == itemsize(dtype)
    return far and min(outer[0][0], inner[0][0]) >= TILE


class Lowering:
    """Lowers one group for the CPU; a subclass for another target decides some things otherwise."""

    shuffles = True  # are loads backward and of every second element kinds of their own?
    across = True  # may vectors run across short rows?
    tiled = True  # may rows be taken in tiles?
    # May results be written past the caches, and operands be asked for ahead of their use?
    past = platform.machine().lower() in ("x86_64", "amd64")

    def __init__(self, fusion: Fusion, group: Group, vector_bytes: int):
        self.fusion = fusion
        self.g = group
        self.vector_bytes = vector_bytes
        self.outputs = fusion.outputs(group)
        self.scratch: list[int] = []

    def step(self) -> NativeStep:
        g = self.g
        rank = len(g.domain)
        live = self._live()
        order = [i for i in range(len(g.terms)) if i in live]
        number = {t: n for n, t in enumerate(order)}
        # Accesses: what is read, positions, what is written, and sums over the outer axes.
        accesses: list[
            tuple[str, str, Any, list[int]]
        ] = []  # kind, dtype, root and offset, strides
        access_of_place: dict[int, int] = {}
        data: dict[int, int] = {}
        for t in order:
            term = g.terms[t]
            if term.op == "load":
                if term.data not in access_of_place:
                    p = g.places[term.data]
                    access_of_place[term.data] = len(accesses)
                    accesses.append((LOAD, term.dtype, (p.root, p.offset), list(p.strides)))
                data[t] = access_of_place[term.data]
            elif term.op == "index":
                start, strides = term.data
                data[t] = len(accesses)
                accesses.append((INDEX, term.dtype, start, list(strides)))
            elif term.op == "inside":
                start, strides, _ = term.data
                data[t] = len(accesses)
                accesses.append((INDEX, "int32", start, list(strides)))
        stores: list[tuple[int, int]] = []
        for v in self.outputs:
            part = g.parts.get(v)
            if part is None:
                continue
            strides = [0] * rank
            own = contiguous_strides(part.shape, itemsize(name_of(v.aval.dtype)))
            for s, w, n in zip(own, part.where, part.shape, strict=True):
                if w is not None and n > 1:
                    strides[w] = s
            stores.append((number[part.node], len(accesses)))
            accesses.append((STORE, name_of(v.aval.dtype), (v, 0), strides))
        sums = [s for s in g.sums if s[2] in self.outputs]
        wholes = [s for s in sums if s[0] == "whole"]
        sums = [s for s in sums if s[0] != "whole"]
        split = bool(wholes)
        # Loops.
        all_strides = [a[3] for a in accesses]
        outer_axes = range(rank - g.row) if g.row else range(rank)
        lead: list[tuple[int, list[int]]] = []
        if g.row:
            row_axes = set(range(rank - g.row, rank))
            inner = collapsed(g.domain, all_strides, range(rank - g.row, rank))
            lead = collapsed(g.domain, all_strides, range(g.lead))
            outer = lead + collapsed(g.domain, all_strides, range(g.lead, rank - g.row))
        else:
            outer = collapsed(g.domain, all_strides, outer_axes)
            at = len(outer) - 1
            if at > 0 and outer[at][0] < FEW and outer[at - 1][0] >= 4 * outer[at][0]:
                at -= 1  # vectors along so few elements would be mostly empty
            row_axes = _axes_of(g.domain, outer, at)
            inner = [outer.pop(at)] if outer else []
        if not inner:
            inner = [(1, [0] * len(accesses))]
        row_size = math.prod(n for n, _ in inner)
        rows = math.prod(n for n, _ in outer)
        # Nodes with their stages.
        nodes: list[Node] = []
        constants: list[int] = []
        costs: list[float] = []
        for t in order:
            term = g.terms[t]
            ins = tuple(number[i] for i in term.ins)
            stage = max([0, *(nodes[i].stage for i in ins)])
            in_row = bool(term.varies & row_axes)
            info: Any = data.get(t)
            cost = 0.0
            if term.op == "const":
                info = self._constant(term, constants)
                in_row = False
            elif term.op == "inside":
                info = data[t], len(constants)
                constants.append(term.data[2])
                cost = 1.0
            elif term.op == "apply":
                info = term.data
                cost = term.data[0].cost
            elif term.op == "reduce":
                info = term.data
                stage += 1
                in_row = False
                cost = 1.0
            else:
                cost = 1.0
            nodes.append(Node(term.op, term.dtype, ins, info, in_row, stage))
            costs.append(cost)
        keeps: list[tuple[int, int]] = []
        layout = ROWS
        if (
            self.across
            and g.row
            and not split
            and _runs_across(outer, inner, len(lead) if sums else None)
        ):
            layout = ACROSS
            inner.append(outer.pop())  # the loop in vectors
        elif split and len(inner) == 1:
            layout = RAGGED
        elif not g.row and not outer and not sums:
            layout = FLAT
        elif self.tiled and not g.row and not sums and _runs_in_tiles(outer, inner, accesses):
            layout = TILED
        if not g.lead and layout in (ROWS, ACROSS):
            keeps = self._keeps(nodes, costs, accesses, stores)
            if layout == ACROSS:
                keeps = [(n, -1) for n, _ in keeps]  # on the stack
        width = self._width(nodes, costs, bool(sums))
        if self.shuffles and any(
            a[0] == LOAD and abs(inner[-1][1][i]) > 2 * itemsize(a[1])
            for i, a in enumerate(accesses[: len(all_strides)])
        ):
            width = max(width // 2, 4)  # for what is read element by element, or turned
        # How much there is to do, and who does it.
        work = sum(c for c, n in zip(costs, nodes, strict=True) if n.in_row or n.op == "reduce")
        work = max(work, 1.0)
        elements = rows * row_size
        item = max([1, *(itemsize(a[1]) for a in accesses)])
        vectors = elements * item / self.vector_bytes
        moved = sum(
            math.prod(n for n, s in (*outer, *inner) if s[i]) * itemsize(a[1])
            for i, a in enumerate(accesses)
            if a[0] != INDEX
        )
        arithmetic, traffic = vectors * work * 0.5, moved / 12.0
        nanoseconds = max(arithmetic, traffic)
        if layout != ACROSS:
            nanoseconds += rows * 2.0
        calls: list[Call] = []
        if layout == ACROSS:
            count = math.prod(n for n, _ in outer or inner[-1:])
            most = MOST_PARTIALS if sums and not g.lead else MOST_CHUNKS
            chunk, piece = chunk_of(count, nanoseconds, most, 1 if outer else width), 0
        else:
            count, chunk, piece = self._partition(
                layout, rows, row_size, nanoseconds, bool(sums), bool(keeps)
            )
        chunks = -(-count // chunk) if chunk else 1
        # Memory for a row of each chunk, or for the partial results of each.
        for dtype in [nodes[k].dtype for k, a in keeps if a >= 0]:
            accesses.append(
                (KEEP, dtype, (self._scratch(chunks * row_size * itemsize(dtype)), 0), [0] * rank)
            )
        final: list[tuple[str, str, Any, Var]] = []
        kernel_sums: list[tuple[str, int, int]] = []
        for kind, node, v in sums:
            dtype = name_of(v.aval.dtype)
            root: Any = v
            if not g.lead and chunks > 1:
                root = self._scratch(chunks * row_size * itemsize(dtype))
                final.append((kind, dtype, root, v))
            kernel_sums.append((kind, number[node], len(accesses)))
            accesses.append((GATHERED, dtype, (root, 0), [0] * rank))
        for _, node, v in wholes:
            dtype = name_of(v.aval.dtype)
            kind = g.terms[node].data
            root = self._scratch(count * itemsize(dtype)) if count > 1 else v
            if count > 1:
                final.append((kind, dtype, root, v))
            stores.append((number[node], len(accesses)))
            accesses.append((STORE, dtype, (root, 0), [itemsize(dtype)]))
        # What is padded is read by a mask, which may vary where the address does not.
        masked = {n.data: n.in_row for n in nodes if n.op == "load" and n.ins}
        described: list[Access] = []
        numbers: list[int] = [n for n, _ in outer[1:]]
        piece_loops = layout == RAGGED
        if layout == RAGGED:
            numbers += [piece, row_size]
        elif layout != FLAT:
            numbers += [n for n, _ in inner]
        slots: list[tuple[Any, int]] = []
        n_outer = 1 if piece_loops else len(outer)
        for i, (kind, dtype, where, strides) in enumerate(accesses):
            if kind in (KEEP, GATHERED):
                described.append(Access(kind, dtype, UNIT, True))
                slots.append(where)
                continue
            if i >= len(all_strides):  # one for each piece, or for the only row
                outer_steps, inner_steps = strides[:n_outer], [0] * len(inner)
            else:
                outer_steps = [0] if piece_loops else [s[i] for _, s in outer]
                inner_steps = [s[i] for _, s in inner]
            size = 1 if kind == INDEX else itemsize(dtype)
            last = inner_steps[-1]
            stride = ZERO if last == 0 else UNIT if last == size else STRIDED
            if i in masked and stride == ZERO:
                stride = STRIDED
            if stride == STRIDED and self.shuffles and kind == LOAD and i not in masked:
                if dtype not in COMPLEX:
                    stride = {-size: BACKWARD, 2 * size: PAIRS}.get(last, STRIDED)
            if layout != FLAT and inner[-1][0] == 1 and len(inner) == 1:
                stride = ZERO
            moves = any(inner_steps[:1] if layout == ACROSS else inner_steps)
            varies = moves and not (len(inner) == 1 and inner[0][0] == 1)
            varies |= masked.get(i, False)
            large = (
                self.past
                and kind in (LOAD, STORE)
                and stride == UNIT
                and layout in (FLAT, ROWS, RAGGED)
                and inner[-1][0] >= PAST_ROW
                and where[0].__class__ is Var
                and where[0].aval.nbytes >= PAST
            )
            past = (
                large
                and arithmetic <= 1.5 * traffic  # more of it waits for the stores
                and kind == STORE
                and layout != RAGGED
                and width * itemsize(dtype) >= 16
                and not any(a[1] in COMPLEX for a in accesses)
            )
            ahead = ""
            if large and kind == LOAD and i not in masked and width * itemsize(dtype) >= 32:
                short = math.prod(n for n, _ in inner) * itemsize(dtype) <= NEXT_BYTES
                ahead = NEXT_ROW if layout == ROWS and short else AHEAD
            turned = (
                layout == TILED
                and kind == LOAD
                and stride == STRIDED
                and outer_steps == [size]
                and i not in masked
                and dtype not in COMPLEX
            )
            varies |= kind != STORE and moves
            described.append(Access(kind, dtype, stride, varies, past, ahead, turned))
            numbers += outer_steps
            numbers += inner_steps if stride == STRIDED else inner_steps[:-1]
            if kind == INDEX:
                numbers.append(where)
            else:
                slots.append(where)
        unit_rows = chunk or max(count, 1)
        if g.lead:
            unit_rows = 1 if layout == ACROSS else self._unit()
        numbers.append(max(unit_rows, 1))
        numbers += constants
        kernel = Kernel(
            layout, n_outer, len(inner), width, tuple(described), tuple(nodes), tuple(stores),
            tuple(keeps), tuple(kernel_sums), bool(g.lead), len(constants),
        )  # fmt: skip
        calls.append(Call(kernel, tuple(slots), tuple(numbers), count, chunk))
        for kind, dtype, root, v in final:
            if split:
                calls.append(self._fold(kind, dtype, root, v, count))
            else:
                calls.append(self._fold_rows(kind, dtype, root, v, chunks, row_size))
        inputs = list(dict.fromkeys(p.root for i, p in enumerate(g.places) if i in access_of_place))
        return NativeStep(
            calls, inputs, self.outputs, self._label(), scratch=self.scratch,
            in_place=self._in_place(layout, nodes, accesses, stores, sums, inputs),
            flops=float(elements * work), moved=moved, sources=[e.source for e in self.g.eqns],
        )  # fmt: skip

    # -- who does what --------------------------------------------------------------------------

    def _partition(self, layout: str, rows: int, row_size: int, nanoseconds: float,
                   sums: bool, keeps: bool) -> tuple[int, int, int]:  # fmt: skip
        """The size of the parallel domain, what one takes of it, and the length of a piece."""
        if layout == FLAT:
            return row_size, chunk_of(row_size, nanoseconds, grain=512), 0
        if layout == RAGGED:
            pieces = max(1, min(MOST_CHUNKS, row_size // PIECE_ELEMENTS))
            piece = -(-row_size // pieces)
            piece = -(-piece // 64) * 64
            count = -(-row_size // piece)
            return count, chunk_of(count, nanoseconds), piece
        most = MOST_PARTIALS if sums or keeps else MOST_CHUNKS
        unit = BAND if layout == TILED else self._unit()
        return rows, chunk_of(rows, nanoseconds, most, unit), 0

    def _unit(self) -> int:
        """Rows after which sums begin anew; what one takes is a multiple of them."""
        g = self.g
        return math.prod(g.domain[g.lead : len(g.domain) - g.row]) if g.lead else 1

    # -- pieces ---------------------------------------------------------------------------------

    def _live(self) -> set[int]:
        g = self.g
        pending = [g.parts[v].node for v in self.outputs if v in g.parts]
        pending += [n for _, n, v in g.sums if v in self.outputs]
        live: set[int] = set()
        while pending:
            i = pending.pop()
            if i not in live:
                live.add(i)
                pending += g.terms[i].ins
        return live

    def _constant(self, term: Term, constants: list[int]) -> tuple[str, Any]:
        value = term.data._data.item()
        if isinstance(value, complex):
            part = COMPLEX[term.dtype]
            constants += [bits_of_constant(x, part) for x in (value.real, value.imag)]
            return "number", len(constants) - 2
        if (
            isinstance(value, bool)
            or value in BAKED
            or value != value
            or value
            in (
                float("inf"),
                float("-inf"),
            )
        ):
            # Not -0.0, which equals 0.
            if not (value == 0 and str(value).startswith("-")):
                return "literal", value
        bits = bits_of_constant(value, term.dtype)
        constants.append(bits)
        return "number", len(constants) - 1

    def _width(self, nodes: list[Node], costs: list[float], sums: bool) -> int:
        moving = [n for n in nodes if n.in_row]
        item = max([alignment(held(n.dtype)) for n in moving] or [8])
        item = max(item, 2)
        registers = 2
        # A complex number has two registers.
        if any(c >= HEAVY for c in costs) or any(n.dtype in COMPLEX for n in moving):
            registers = 1
        elif any(n.op == "reduce" for n in nodes) and len(moving) <= 6:
            registers = 4
        return max(self.vector_bytes * registers // item, 4)

    def _scratch(self, nbytes: int) -> Scratch:
        self.scratch.append(max(nbytes, 1))
        return Scratch(len(self.scratch) - 1)

    def _keeps(self, nodes: list[Node], costs: list[float], accesses: list,
               stores: list[tuple[int, int]]) -> list[tuple[int, int]]:  # fmt: skip
        """Values of an early stage that a later one needs and that are dear to compute again."""
        cone: dict[int, float] = {}
        for i, n in enumerate(nodes):  # an upper bound: shared operands count twice
            cone[i] = min(costs[i] + sum(cone[j] for j in n.ins if nodes[j].in_row), 1e6)
        later: dict[int, None] = {}
        for n in nodes:
            if not n.in_row or n.op != "apply":
                continue
            for j in n.ins:
                if nodes[j].in_row and nodes[j].stage < n.stage and nodes[j].op == "apply":
                    if cone[j] >= KEEP_FROM:
                        later[j] = None
        first = len(accesses)
        return [(j, first + k) for k, j in enumerate(later)]

    def _fold(self, kind: str, dtype: str, root: Scratch, v: Var, count: int) -> Call:
        """Partial results of pieces into one."""
        kernel = Kernel(
            ROWS, 0, 1, self.vector_bytes * 2 // itemsize(dtype),
            (Access(LOAD, dtype, UNIT, True), Access(STORE, dtype, ZERO, False)),
            (Node("load", dtype, (), 0, True, 0), Node("reduce", dtype, (0,), kind, False, 1)),
            ((1, 1),), (), (), False, 0,
        )  # fmt: skip
        return Call(kernel, ((root, 0), (v, 0)), (count, 1), 1, 0)

    def _fold_rows(
        self, kind: str, dtype: str, root: Scratch, v: Var, chunks: int, row: int
    ) -> Call:
        """Partial sums of chunks, a row each, into one row."""
        kernel = Kernel(
            ROWS, 1, 1, self.vector_bytes * 2 // itemsize(dtype),
            (Access(LOAD, dtype, UNIT, True), Access(GATHERED, dtype, UNIT, True)),
            (Node("load", dtype, (), 0, True, 0),),
            (), (), ((kind, 0, 1),), False, 0,
        )  # fmt: skip
        numbers = (row, row * itemsize(dtype), chunks)
        return Call(kernel, ((root, 0), (v, 0)), numbers, chunks, 0)

    def _in_place(self, layout: str, nodes: list[Node], accesses: list, stores: list,
                  sums: list, inputs: list[Var]) -> dict[int, tuple[int, ...]]:  # fmt: skip
        """Outputs that may be written over an input: an element is read before, and only there."""
        if sums or any(n.stage for n in nodes) or self.g.split:
            return {}
        found: dict[int, tuple[int, ...]] = {}
        for _, a in stores:
            kind, dtype, (v, _), strides = accesses[a]
            if kind != STORE or isinstance(v, Scratch):
                continue
            if any(n > 1 and not s for n, s in zip(self.g.domain, strides, strict=True)):
                continue  # known once for many elements, at each of which the input is read again
            allowed = []
            for n, root in enumerate(inputs):
                reads = [x for x in accesses if x[0] == LOAD and x[2][0] is root]
                if len(reads) == 1 and reads[0][2][1] == 0 and reads[0][3] == strides:
                    if root.aval.shape == v.aval.shape and reads[0][1] == dtype:
                        allowed.append(n)
            if allowed:
                found[self.outputs.index(v)] = tuple(allowed)
        return found

    def _label(self) -> str:
        names = [e.primitive.name for e in self.g.eqns]
        return "+".join(names[:6]) + (f"+{len(names) - 6} more" if len(names) > 6 else "")


def lower(fusion: Fusion, group: Group, vector_bytes: int) -> NativeStep:
    """The kernel calls of a group."""
    return Lowering(fusion, group, vector_bytes).step()
