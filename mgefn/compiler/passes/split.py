"""Elementwise work on a concatenated array goes on with its pieces, where the pieces are wanted.

Programs stack what they compute, work on the stack, and take it apart again: the slopes of a system
of differential equations, the two parts of a state. On the pieces all of it is one loop, and the
stack is never written. So a concatenation moves behind the elementwise operations that follow it,
and a slice of one is the piece, or a slice of the piece.

A concatenation moves where a slice further on wants one of its pieces, or where its pieces are of
one size and nothing but elementwise operations and the program's end follows: several become one
there. Before a reduction or a product it stays, as the operations in between are part of that loop.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

from mgefn.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from mgefn.ops.shaping import concatenate_p, slice_p

MOST = 8  # pieces of an array that is split where a slice wants one
MOST_UNASKED = 4  # and where none does: each piece is an equation more


class Cut(NamedTuple):
    """A part of an array: [start, stop) of one axis, and all of the others."""

    axis: int
    start: int
    stop: int


class Pieces(NamedTuple):
    """What a variable is the concatenation of; `ends` are theirs along the axis."""

    axis: int
    ends: tuple[int, ...]
    atoms: list[Atom]

    @property
    def cuts(self) -> list[Cut]:
        """The pieces as parts of the whole."""
        return [Cut(self.axis, *ends) for ends in itertools.pairwise((0, *self.ends))]

    def holding(self, cut: Cut) -> int | None:
        """The piece in which a cut lies."""
        for i, (axis, start, stop) in enumerate(self.cuts):
            if cut.axis == axis and start <= cut.start and cut.stop <= stop:
                return i
        return None

    @property
    def even(self) -> bool:
        sizes = {c.stop - c.start for c in self.cuts}
        return len(sizes) == 1 and len(self.ends) <= MOST_UNASKED


def split_concatenations(closed: ClosedJaxpr) -> ClosedJaxpr:
    if not any(eqn.primitive is concatenate_p for eqn in closed.jaxpr.eqns):
        return closed
    return _Split(closed).result()


def _cut_of(eqn: Eqn) -> Cut | None:
    """The part that a slice takes, where it is of one axis and without gaps."""
    p, shape = eqn.params, eqn.inputs[0].aval.shape
    if p["strides"] is not None and any(s != 1 for s in p["strides"]):
        return None
    parts = [
        Cut(k, start, stop)
        for k, (start, stop) in enumerate(zip(p["start_indices"], p["limit_indices"], strict=True))
        if (start, stop) != (0, shape[k])
    ]
    return parts[0] if len(parts) == 1 else None


class _Split:
    def __init__(self, closed: ClosedJaxpr):
        self.closed = closed
        self.kept: list[Eqn] = []
        self.pieces: dict[Var, Pieces] = {}
        self.slices: dict[tuple[Var, Cut], Var] = {}
        self.cuts: dict[Var, set[Cut]] = {}  # what slices want of a variable, or of what follows
        self.fused: set[Var] = set()  # read by what is not elementwise, or by what leads there
        self._look_ahead()

    def _look_ahead(self) -> None:
        for eqn in reversed(self.closed.jaxpr.eqns):
            if eqn.primitive is slice_p:
                cut = _cut_of(eqn)
                if cut is not None and isinstance(eqn.inputs[0], Var):
                    self.cuts.setdefault(eqn.inputs[0], set()).add(cut)
                continue
            if not eqn.out_binders:
                continue
            out = eqn.out_binders[0]
            for a in eqn.inputs:
                if not isinstance(a, Var):
                    continue
                if not eqn.primitive.elementwise:
                    self.fused.add(a)
                elif a.aval.shape == out.aval.shape:
                    if out in self.fused:
                        self.fused.add(a)
                    if out in self.cuts:
                        self.cuts.setdefault(a, set()).update(self.cuts[out])

    def result(self) -> ClosedJaxpr:
        jaxpr = self.closed.jaxpr
        env: dict[Var, Atom] = {}
        for eqn in jaxpr.eqns:
            eqn = eqn.substituted(env)
            if eqn.primitive is slice_p:
                piece = self._piece_for(eqn)
                if piece is not None:
                    env[eqn.out_binders[0]] = piece
                    continue
            if eqn.primitive.elementwise and self._taken_apart(eqn):
                continue
            self.kept.append(eqn)
            if eqn.primitive is concatenate_p:
                self._know(eqn)
        if len(self.kept) == len(jaxpr.eqns) and not env:
            return self.closed
        outs = [a if isinstance(a, Literal) else env.get(a, a) for a in jaxpr.outs]
        new = Jaxpr(jaxpr.in_binders, self.kept, outs, jaxpr.const_binders, jaxpr.name)
        return ClosedJaxpr(new, self.closed.consts)

    def _know(self, eqn: Eqn) -> None:
        """Note the pieces of a concatenation, if there are not too many."""
        axis = eqn.params["dimension"]
        ends = itertools.accumulate(a.aval.shape[axis] for a in eqn.inputs)
        if 2 <= len(eqn.inputs) <= MOST:
            self.pieces[eqn.out_binders[0]] = Pieces(axis, tuple(ends), list(eqn.inputs))

    def _piece_for(self, eqn: Eqn) -> Atom | None:
        """What a slice of a known concatenation is."""
        x, cut = eqn.inputs[0], _cut_of(eqn)
        pieces = self.pieces.get(x) if isinstance(x, Var) else None
        i = None if pieces is None or cut is None else pieces.holding(cut)
        if pieces is None or cut is None or i is None:
            return None
        start = pieces.cuts[i].start
        moved = Cut(cut.axis, cut.start - start, cut.stop - start)
        return self._sliced(pieces.atoms[i], moved, eqn)

    def _sliced(self, a: Atom, cut: Cut, eqn: Eqn) -> Atom:
        shape = a.aval.shape
        if (cut.start, cut.stop) == (0, shape[cut.axis]):
            return a
        if isinstance(a, Var) and (a, cut) in self.slices:
            return self.slices[a, cut]
        starts, limits = [0] * len(shape), list(shape)
        starts[cut.axis], limits[cut.axis] = cut.start, cut.stop
        aval = a.aval.update(shape=tuple(n - s for n, s in zip(limits, starts, strict=True)))
        out = Var(aval)
        params = {
            "start_indices": tuple(starts), "limit_indices": tuple(limits),
            "strides": (1,) * len(shape),
        }  # fmt: skip
        self.kept.append(Eqn(slice_p, [a], params, [out], eqn.source))
        if isinstance(a, Var):
            self.slices[a, cut] = out
        return out

    def _taken_apart(self, eqn: Eqn) -> bool:
        """Elementwise work on the pieces of its operands, if that pays."""
        if len(eqn.out_binders) != 1:
            return False
        (out,) = eqn.out_binders
        shape = out.aval.shape
        known = (self.pieces.get(a) for a in eqn.inputs if isinstance(a, Var))
        of = next((p for p in known if p is not None), None)
        if of is None or out in self.fused:
            return False
        if any(a.aval.shape not in ((), shape) for a in eqn.inputs):
            return False
        wanted = any(of.holding(cut) is not None for cut in self.cuts.get(out, ()))
        if not wanted and not of.even:
            return False
        atoms: list[Atom] = []
        for i, cut in enumerate(of.cuts):
            inputs = [self._part(a, of, i, cut, eqn) for a in eqn.inputs]
            sizes = list(shape)
            sizes[of.axis] = cut.stop - cut.start
            v = Var(out.aval.update(shape=tuple(sizes)))
            self.kept.append(Eqn(eqn.primitive, inputs, eqn.params, [v], eqn.source))
            atoms.append(v)
        self.pieces[out] = Pieces(of.axis, of.ends, atoms)
        params = {"dimension": of.axis}
        self.kept.append(Eqn(concatenate_p, atoms, params, [out], eqn.source))
        return True

    def _part(self, a: Atom, of: Pieces, i: int, cut: Cut, eqn: Eqn) -> Atom:
        if not a.aval.shape:
            return a
        own = self.pieces.get(a) if isinstance(a, Var) else None
        if own is not None and (own.axis, own.ends) == (of.axis, of.ends):
            return own.atoms[i]
        return self._sliced(a, cut, eqn)
