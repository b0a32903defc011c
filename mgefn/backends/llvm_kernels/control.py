"""Loops, branches and calls as native control flow.

The body of a loop is an inner program (compiler/native.py) that reads the carry from one set of
blocks and writes the next into another; the two change places every round, so nothing is copied.
The first of them are the outputs themselves. Slices of xs and ys are pointers that move.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mgefn.compiler.arena import aligned_size
from mgefn.compiler.native import Inner, calls_in, inner_program
from mgefn.compiler.steps import (
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
from mgefn.core.jaxpr import Eqn

MOST_WRITTEN = 64  # kernel calls of a called program that are written in place of the call


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


def _lower_scan(eqn: Eqn, places: Sequence[Place]) -> NativeStep | None:
    p = eqn.params
    length, n, k = p["length"], p["num_consts"], p["num_carry"]
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
