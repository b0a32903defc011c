"""Loops, branches and calls as native control flow.

The body of a loop is an inner program (compiler/native.py) that reads the carry from one set of
blocks and writes the next into another; the two change places every round, so nothing is copied.
The first of them are the outputs themselves. Slices of xs and ys are pointers that move. A loop of
few operations on few numbers is one kernel instead (straight.py), which is called in pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mgefn.backends.llvm_kernels.straight import Loop, scan_loop, while_loop
from mgefn.compiler.arena import aligned_size
from mgefn.compiler.native import Inner, calls_in, inner_program
from mgefn.compiler.steps import (
    Call,
    Copy,
    Lowered,
    Moving,
    NativeStep,
    Place,
    Repeat,
    Scratch,
    Spot,
    Switch,
    While,
    roots_of,
)
from mgefn.control.loops import step_program
from mgefn.core.jaxpr import Eqn, Var

MOST_WRITTEN = 64  # kernel calls of a called program that are written in place of the call
PIECE = 200_000  # instructions of a straight loop between two chances to interrupt it


def _spots(places: Sequence[Place]) -> list[Spot]:
    return [(p.root, p.offset) for p in places]


def _copies(targets: Sequence[Spot], sources: Sequence[Spot], avals: Sequence[Any]) -> list[Copy]:
    return [Copy(t, s, a.nbytes) for t, s, a in zip(targets, sources, avals, strict=True) if t != s]


def _blocks(avals: Sequence[Any], scratch: list[int]) -> list[Spot]:
    """Scratch memory for values, side by side."""
    spots: list[Spot] = []
    size = 0
    root = Scratch(len(scratch))
    for a in avals:
        spots.append((root, size))
        size += aligned_size(a.nbytes)
    scratch.append(max(size, 1))
    return spots


def _slab(inners: Sequence[Inner], scratch: list[int]) -> Spot:
    """Scratch memory that inner programs use one after the other."""
    scratch.append(max([1, *(i.slab for i in inners)]))
    return Scratch(len(scratch) - 1), 0


def _step(eqn: Eqn, code: list[Any], places: Sequence[Place], scratch: list[int],
          inners: Sequence[Inner], times: int) -> NativeStep:  # fmt: skip
    return NativeStep(
        code, roots_of(places), [v for v in eqn.out_binders], eqn.primitive.name,
        scratch=scratch, flops=times * sum(i.flops for i in inners),
        moved=times * sum(i.moved for i in inners),
    )  # fmt: skip


def _lower_call(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    assert eqn.primitive.inlined is not None
    closed = eqn.primitive.inlined(eqn.params)
    inner = None if closed is None else inner_program(closed)
    if inner is None or len(calls_in(inner.code)) > MOST_WRITTEN:
        return None
    scratch: list[int] = []
    slab = _slab([inner], scratch)
    outs: list[Spot] = [(v, 0) for v in eqn.out_binders]
    return _step(eqn, inner.at(_spots(places), outs, slab), places, scratch, [inner], 1)


def _lower_cond(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    index, *operands = _spots(places)
    if eqn.inputs[0].aval.dtype != np.int32:
        return None
    inners = [inner_program(b) for b in eqn.params["branches"]]
    if any(i is None for i in inners):
        return None
    known = [i for i in inners if i is not None]
    scratch: list[int] = []
    slab = _slab(known, scratch)
    outs: list[Spot] = [(v, 0) for v in eqn.out_binders]
    code = [Switch(index, [i.at(operands, outs, slab) for i in known])]
    return _step(eqn, code, places, scratch, known, 1)


def _piece(loop: Loop) -> int:
    """Rounds of one call."""
    return max(16, PIECE // max(1, loop.instructions))


def _call(loop: Loop, count: int, spots: dict[str, Sequence[Spot]]) -> Call:
    slots = [spots[s[0]][s[1]] if s.__class__ is tuple else (s, 0) for s in loop.slots]
    return Call(loop.kernel, tuple(slots), loop.numbers, count, 0)


def _begun(
    loop: Loop, ends: Sequence[Spot], init: Sequence[Spot], outs: Sequence[Var]
) -> list[Any]:
    """What puts the carries that are changed in place where they are."""
    return [Copy(ends[i], init[i], outs[i].aval.nbytes) for i in loop.in_place]


def _straight_scan(eqn: Eqn, places: Sequence[Place], loop: Loop) -> NativeStep:
    p = eqn.params
    length, n, k = p["length"], p["num_consts"], p["num_carry"]
    sign = -1 if p["reverse"] else 1
    spots = _spots(places)
    ends: list[Spot] = [(v, 0) for v in eqn.out_binders[:k]]
    moved = [*spots[n + k :], *((v, 0) for v in eqn.out_binders[k:])]
    avals = [*p["jaxpr"].in_avals[n + k :], *p["jaxpr"].out_avals[k:]]

    def slices(begin: int) -> list[Spot]:
        """Those of xs and ys in a round."""
        at = length - 1 - begin if p["reverse"] else begin
        return [(r, o + at * a.nbytes) for (r, o), a in zip(moved, avals, strict=True)]

    def call(count: int, carry: Sequence[Spot], at: Sequence[Spot]) -> Call:
        m = len(spots) - n - k
        return _call(
            loop, count,
            {"const": spots[:n], "carry": carry, "out": ends, "x": at[:m], "y": at[m:]},
        )  # fmt: skip

    piece = _piece(loop)
    init = spots[n : n + k]
    code: list[Any] = _begun(loop, ends, init, eqn.out_binders)
    code.append(call(min(piece, length), init, slices(0)))
    more, rest = divmod(max(0, length - piece), piece)
    if more:
        moving = [
            Moving(s, sign * piece * a.nbytes) for s, a in zip(slices(piece), avals, strict=True)
        ]
        at: list[Spot] = [(m, 0) for m in moving]
        turns = [call(piece, ends, at) for _ in range(2)]
        code.append(Repeat(more, turns[:1], turns[1:], moving))
    if rest:
        code.append(call(rest, ends, slices(length - rest)))
    size = sum(a.nbytes for a in (*avals, *(v.aval for v in eqn.out_binders[:k])))
    return NativeStep(
        code, roots_of(places), list(eqn.out_binders), eqn.primitive.name,
        flops=length * loop.work, moved=length * size,
    )  # fmt: skip


def _straight_while(eqn: Eqn, places: Sequence[Place], loop: Loop) -> NativeStep:
    spots = _spots(places)
    n = len(spots) - len(eqn.out_binders)
    ends: list[Spot] = [(v, 0) for v in eqn.out_binders]
    more: Spot = (Scratch(0), 0)

    def call(carry: Sequence[Spot]) -> list[Any]:
        at = {"const": spots[:n], "carry": carry, "out": ends, "more": [more]}
        return [_call(loop, _piece(loop), at)]

    before = _begun(loop, ends, spots[n:], eqn.out_binders) + call(spots[n:])
    code = While(more, before, call(ends), call(ends), [])
    return NativeStep(
        [code], roots_of(places), list(eqn.out_binders), eqn.primitive.name, scratch=[1],
        flops=loop.work, moved=sum(v.aval.nbytes for v in eqn.out_binders),
    )  # fmt: skip


def _lower_scan(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    p = eqn.params
    length, n, k = p["length"], p["num_consts"], p["num_carry"]
    straight = scan_loop(p) if length > 0 else None
    if straight is not None:
        return _straight_scan(eqn, places, straight)
    inner = inner_program(p["jaxpr"])
    if inner is None or length == 0:
        return None
    spots = _spots(places)
    consts, init, xs = spots[:n], spots[n : n + k], spots[n + k :]
    carry_avals = [v.aval for v in eqn.out_binders[:k]]
    scratch: list[int] = []
    slab = _slab([inner], scratch)
    ends: list[Spot] = [(v, 0) for v in eqn.out_binders[:k]]
    between = _blocks(carry_avals, scratch)
    for i in range(k):
        if inner.over.get(i) == n + i:
            between[i] = ends[i]  # written where it is read
    # After the last round the carry must lie in the outputs.
    old, new = (ends, between) if length % 2 == 0 else (between, ends)

    def moving(spot: Spot, aval: Any) -> Moving:
        root, offset = spot
        stride = aval.nbytes
        if p["reverse"]:
            return Moving((root, offset + (length - 1) * stride), -stride)
        return Moving(spot, stride)

    x_avals = p["jaxpr"].in_avals[n + k :]
    y_avals = p["jaxpr"].out_avals[k:]
    at_x = [moving(s, a) for s, a in zip(xs, x_avals, strict=True)]
    ys: list[Spot] = [(v, 0) for v in eqn.out_binders[k:]]
    at_y = [moving(s, a) for s, a in zip(ys, y_avals, strict=True)]
    x_spots: list[Spot] = [(m, 0) for m in at_x]
    y_spots: list[Spot] = [(m, 0) for m in at_y]
    code: list[Any] = _copies(old, init, carry_avals)
    first = inner.at([*consts, *old, *x_spots], [*new, *y_spots], slab)
    second = inner.at([*consts, *new, *x_spots], [*old, *y_spots], slab)
    # Pointers were renamed by `at` only where they belong to loops inside.
    code.append(Repeat(length, first, second, [*at_x, *at_y]))
    return _step(eqn, code, places, scratch, [inner], length)


def _lower_while(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    p = eqn.params
    n, m = p["cond_nconsts"], p["body_nconsts"]
    straight = while_loop(p)
    if straight is not None:
        return _straight_while(eqn, places, straight)
    test, both = inner_program(p["cond_jaxpr"]), inner_program(step_program(p))
    if test is None or both is None:
        return None
    spots = _spots(places)
    consts, init = spots[: n + m], spots[n + m :]
    avals = [v.aval for v in eqn.out_binders]
    scratch: list[int] = []
    slab = _slab([test, both], scratch)
    ends: list[Spot] = [(v, 0) for v in eqn.out_binders]
    between = _blocks(avals, scratch)
    for i in range(len(avals)):
        if both.over.get(1 + i) == n + m + i:
            between[i] = ends[i]  # written where it is read
    scratch.append(1)
    more: Spot = (Scratch(len(scratch) - 1), 0)
    before: list[Any] = _copies(ends, init, avals)
    before += test.at([*consts[:n], *ends], [more], slab)
    code = While(
        more,
        before,
        both.at([*consts, *ends], [more, *between], slab),
        both.at([*consts, *between], [more, *ends], slab),
        _copies(ends, between, avals),
    )
    return _step(eqn, [code], places, scratch, [test, both], 1)


call = Lowered(_lower_call)
cond = Lowered(_lower_cond)
scan = Lowered(_lower_scan)
while_ = Lowered(_lower_while)
