"""Fusion: equations into groups that one loop nest computes.

Equations are read in order. An elementwise one joins the group that makes its operands, where its
shape fits the group's domain; so does a reduction over the last axes of the domain (its result is
known once a row, and what follows it may join again) or over the first (its result is known when
the kernel is done). Broadcasts and other views are no work: inside of a group they say how a value
lies in the domain, outside how memory is walked. An array that is padded is read where it is not
padding. All else stands by itself.

A group runs at the place where its first equation stood. What joins it later may therefore read
only what was made before that place: the groups are numbered, and no cycle can arise.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from mgefn.compiler.codegen.values import HALVES, name_of
from mgefn.compiler.groups import (
    MOST,
    Cheap,
    Group,
    Padded,
    Part,
    Term,
    is_contiguous,
    padded_viewed,
    part_viewed,
    viewed,
)
from mgefn.compiler.kernel import TILE
from mgefn.compiler.reductions import LARGE, REDUCTIONS, rewritten
from mgefn.compiler.steps import Expanded, Fixed, Lowered, Place
from mgefn.core.avals import ShapedArray, contiguous_strides
from mgefn.core.jaxpr import Atom, ClosedJaxpr, Eqn, Literal, Var
from mgefn.core.primitive import Primitive
from mgefn.ops.shaping import reshape_p

PERIOD = 64  # longest pattern of equations that is looked for
RECENT = 6  # groups that an equation without producers among them may still join
STREAMS = 12  # places that a group reads, up to which one that reads others still joins it
WIDE = 1 << 18  # bytes of a value from which it may be computed again in the place of being read
CHEAP = 2.0  # most cost of an operation that is done again
AGAIN = 4.0  # and most of all that make one value
FAR = 256  # bytes between neighbours from which they do not share a line of the cache
FAR_FROM = 1 << 14  # elements of a domain from which what lies so is read otherwise
MOST_INSIDE = 1 << 30  # elements of an axis whose positions are compared in 32 bits

# The same values in memory of their own. Only compiled programs hold it.
copy_p = Primitive("copy", elementwise=True)


def _constant(group: Group, literal: Atom, dtype: str) -> int:
    assert isinstance(literal, Literal)
    value = literal.value
    return group.add(
        Term("const", dtype, (), value, frozenset()), ("const", dtype, value._data.tobytes())
    )


class Fusion:
    """The groups of a program.

    Args:
        table: gives an elementwise primitive's row or None.
        pads: can groups read an array that is padded from the memory of what is not padding?
    """

    def __init__(self, closed: ClosedJaxpr, table: Callable[[Eqn], Any], pads: bool = False):
        self.closed = closed
        self.table = table
        self.pads = pads
        self.made: dict[Var, int] = {}  # number of the step that makes a variable
        self.view_of: dict[Var, tuple[Var, Eqn]] = {}
        self.group_of: dict[Var, Group] = {}
        self.virtual: dict[Var, Eqn] = {}  # iota and filled arrays, which need no memory
        self.cheap: dict[Var, Cheap] = {}
        self.padded: dict[Var, tuple[Eqn, Padded]] = {}  # in no memory of their own yet
        self.steps: list[Any] = []  # groups, equations with their native step, equations
        jaxpr = closed.jaxpr
        for v in (*jaxpr.in_binders, *jaxpr.const_binders):
            self.made[v] = -1
        eqns = rewritten(jaxpr.eqns)
        self.kinds = [_kind(eqn) for eqn in eqns] if len(eqns) > MOST else []
        self.at = 0
        for eqn in eqns:
            self._take(eqn)
            self.at += 1
        for a in jaxpr.outs:
            self._put_in_memory(a)
        self.steps = [s for step in self.steps for s in self._with_turned(step)]
        self._find_outputs()

    # -- reading --------------------------------------------------------------------------------

    def _take(self, eqn: Eqn, in_memory: bool = False) -> None:
        name = eqn.primitive.name
        if name == "iota" or (name == "broadcast_in_dim" and isinstance(eqn.inputs[0], Literal)):
            self.virtual[eqn.out_binders[0]] = eqn
            self.made[eqn.out_binders[0]] = -1
            return
        if eqn.primitive.view:
            (x,), (out,) = eqn.inputs, eqn.out_binders
            if isinstance(x, Var) and out.aval.size:
                self.view_of[out] = (x, eqn)
                if self._padded(out) is not None:
                    return
                self._put_in_memory(x)
                if self.place(out) is not None:
                    return
                del self.view_of[out]  # strides can't say it
        if name == "pad" and self.pads and not in_memory and self._take_pad(eqn):
            return
        row = self.table(eqn)
        if row.__class__ is Expanded:
            parts = row.expand(eqn)
            if parts is None:
                self._alone(eqn)
            for part in rewritten(parts or ()):
                self._take(part)
            return
        if row.__class__ is Lowered:
            if not self._take_lowered(eqn, row):
                self._alone(eqn)
            return
        for a in eqn.inputs:
            if isinstance(a, Var) and self._padded(a) is None:
                self._put_in_memory(a)
        if row is None or not (
            self._take_reduction(eqn) if name in REDUCTIONS else self._take_elementwise(eqn, row)
        ):
            self._alone(eqn)

    def _take_pad(self, eqn: Eqn) -> bool:
        """Note an array that is padded, which what reads it may find in its operand's memory."""
        (x, value), (out,) = eqn.inputs, eqn.out_binders
        config = eqn.params["padding_config"]
        if not isinstance(x, Var) or any(interior for _, _, interior in config):
            return False
        shape = out.aval.shape
        if x.aval.size == 0 or out.aval.size == 0 or max(shape, default=0) > MOST_INSIDE:
            return False
        base = self._base(x)
        if base in self.virtual:
            return False
        if base in self.padded:
            inner = self._padded(x)
            if inner is None or not _same_literal(inner.value, value):
                self._put_in_memory(x)
        inner = self._padded(x)
        if inner is None:
            place = self.place(x)
            assert place is not None
            inner = Padded(place, (None,) * len(shape), value)
        bounds: list[tuple[int, int, int] | None] = []
        offset = inner.place.offset
        for n, (low, high, _), stride, bound in zip(
            x.aval.shape, config, inner.place.strides, inner.bounds, strict=True
        ):
            offset -= low * stride
            if bound is not None:
                start, step, size = bound
                # What this pads around lies outside only if it is outside of the inner one too.
                if not _is_outside(bound, -low, 0) or not _is_outside(bound, n, n + high):
                    return False
                bounds.append((start - step * low, step, size))
            else:
                bounds.append((-low, 1, n) if low > 0 or high > 0 else None)
        place = Place(inner.place.root, offset, inner.place.strides)
        self.padded[out] = eqn, Padded(place, tuple(bounds), value)
        bases = [self._base(v) for v in (x, value) if isinstance(v, Var)]
        self.made[out] = max(self.made[v] for v in bases)
        return True

    def _padded(self, v: Var) -> Padded | None:
        """How an array that is padded, or a view of it, is read; None for all else."""
        v, views = self._views(v)
        if v not in self.padded:
            return None
        found: Padded | None = self.padded[v][1]
        shape = v.aval.shape
        for eqn in views:
            assert found is not None
            found = padded_viewed(found, shape, eqn)
            if found is None:
                return None
            shape = eqn.out_binders[0].aval.shape
        return found

    def _put_in_memory(self, a: Atom) -> None:
        """Make the padded array that something looks at which can't read it otherwise."""
        if not isinstance(a, Var) or self._base(a) not in self.padded:
            return
        self._take(self.padded.pop(self._base(a))[0], in_memory=True)

    def _take_lowered(self, eqn: Eqn, row: Lowered) -> bool:
        """A native step of its own, if it can be one."""
        if any(v.aval.size == 0 for v in eqn.out_binders):
            return False
        if any(a.aval.size == 0 for a in eqn.inputs):
            return False
        places = [self.memory(a, row.dense) for a in eqn.inputs]
        step = row.lower(eqn, places)
        if step is None and not row.dense:
            step = self._lowered_with_copies(eqn, row, places)
        if step is None:
            return False
        for v in eqn.out_binders:
            self.made[v] = len(self.steps)
        self.steps.append((eqn, step))
        return True

    def _lowered_with_copies(self, eqn: Eqn, row: Lowered, places: list[Place]) -> Any:
        """The step of a row that can't take its operands as they lie, with as few copied as do."""
        whole = [contiguous_strides(a.aval.shape, a.aval.dtype.itemsize) for a in eqn.inputs]
        odd = [i for i, (p, c) in enumerate(zip(places, whole, strict=True)) if p.strides != c]
        for count in range(1, len(odd) + 1):
            for copied in itertools.combinations(odd, count):
                tried = [
                    Place(Var(eqn.inputs[i].aval), 0, whole[i]) if i in copied else p
                    for i, p in enumerate(places)
                ]
                if row.lower(eqn, tried) is not None:
                    for i in copied:
                        places[i] = self.memory(eqn.inputs[i], True)
                    return row.lower(eqn, places)
        return None

    def memory(self, a: Atom, dense: bool) -> Place:
        """Where an operand lies in memory; it is copied there if need be."""
        if isinstance(a, Literal):
            return Place(Fixed(a.value._data), 0, ())
        self._put_in_memory(a)
        base, place = self._base(a), self.place(a)
        assert place is not None
        itemsize = a.aval.dtype.itemsize
        if base not in self.virtual and (
            not dense or is_contiguous(a.aval.shape, place.strides, itemsize)
        ):
            return place
        filled = self.virtual.get(base)
        if not dense and filled is not None and filled.primitive.name == "broadcast_in_dim":
            value = filled.inputs[0]
            assert isinstance(value, Literal)
            return Place(Fixed(value.value._data), 0, (0,) * len(a.aval.shape))
        copied = Var(a.aval)
        eqn = Eqn(copy_p, [a], {}, [copied])
        if base in self.virtual and self.table(eqn).__class__ is Lowered:
            self._alone(eqn)  # a step that would ask for this copy itself
        elif base in self.virtual or not self._take_lowered(eqn, self._mover(eqn)):
            self._take(eqn)
        return Place(copied, 0, contiguous_strides(a.aval.shape, itemsize))

    def _mover(self, copy: Eqn) -> Any:
        """The row that copies what lies otherwise: that of a reshape, which moves it by blocks."""
        shape = {"new_sizes": copy.out_binders[0].aval.shape}
        return self.table(Eqn(reshape_p, copy.inputs, shape, copy.out_binders))

    def _alone(self, eqn: Eqn) -> None:
        """A step of its own."""
        for a in eqn.inputs:
            self._put_in_memory(a)
        for v in eqn.out_binders:
            self.made[v] = len(self.steps)
        self.steps.append(eqn)

    def _base(self, v: Var) -> Var:
        while v in self.view_of:
            v = self.view_of[v][0]
        return v

    def _views(self, v: Var) -> tuple[Var, list[Eqn]]:
        """What a variable is a view of, and the views from there to it."""
        chain: list[Eqn] = []
        while v in self.view_of:
            v, eqn = self.view_of[v]
            chain.append(eqn)
        return v, chain[::-1]

    def place(self, v: Var) -> Place | None:
        """The memory of a variable, once its base is in memory."""
        v, views = self._views(v)
        aval = v.aval
        found: Place | None = Place(v, 0, contiguous_strides(aval.shape, aval.dtype.itemsize))
        shape = aval.shape
        for eqn in views:
            found = viewed(found, shape, eqn)
            if found is None:
                return None
            shape = eqn.out_binders[0].aval.shape
        return found

    def _part(self, group: Group, v: Var) -> Part | None:
        """How a variable lies in a group that holds its base, or None where it can't be said."""
        v, views = self._views(v)
        part = group.parts.get(v)
        if part is None:
            return None
        for eqn in views:
            part = part_viewed(part, eqn, group.domain)
            if part is None:
                return None
        return part

    # -- joining --------------------------------------------------------------------------------

    def _candidates(
        self, atoms: Sequence[Atom], shape: tuple[int, ...] | None = None
    ) -> list[Group]:
        """Groups that may take an equation, the makers of its operands first.

        shape: of the results, where even a group that reads other memory may take it. It is the
        last step, so nothing is lost by running there, and what uses both may join as well.
        """
        latest = -1
        makers: list[Group] = []
        roots: set[Var] = set()
        for a in atoms:
            if isinstance(a, Var):
                base = self._base(a)
                latest = max(latest, self.made[base])
                padded = self.padded.get(base)
                roots.add(base if padded is None else padded[1].place.root)
                group = self.group_of.get(base)
                if group is not None and group not in makers:
                    makers.append(group)
        found = [g for g in makers if g.number == latest]
        # A later group that reads the same memory, or one of scalars, where a call costs most.
        for step in reversed(self.steps[-RECENT:]):
            if isinstance(step, Group) and step not in found and step.number > latest:
                near = step is self.steps[-1] and step.domain == shape
                near = near and len(step.places) <= STREAMS
                if near or step.domain == () or any(p.root in roots for p in step.places):
                    found.append(step)
        return [g for g in found if len(g.eqns) < g.most]

    def _most(self) -> int:
        """How many equations a group that begins here may have.

        A loop that was unrolled repeats a pattern. Groups of whole repetitions are alike, and
        their kernel is compiled once.
        """
        kinds, at = self.kinds, self.at
        for period in range(1, min(PERIOD, (len(kinds) - at) // 3) + 1):
            if kinds[at : at + 2 * period] == kinds[at + period : at + 3 * period]:
                return period * max(1, PERIOD // period)
        return MOST

    def _take_elementwise(self, eqn: Eqn, row: Any) -> bool:
        shape = eqn.out_binders[0].aval.shape
        if eqn.out_binders[0].aval.size == 0:
            return False
        for group in self._candidates(eqn.inputs, shape):
            if self._join(group, eqn, row):
                return True
        group = Group(shape, len(self.steps), self._most())
        if not self._join(group, eqn, row):
            return False
        self.steps.append(group)
        return True

    def _operand(self, group: Group, a: Atom, shape: tuple[int, ...],
                 where: tuple[int | None, ...]) -> Callable[[], int] | None:  # fmt: skip
        """How to make an operand's node, when the axes of the equation lie at `where`."""
        dtype = name_of(a.aval.dtype)
        if isinstance(a, Literal):
            return lambda: _constant(group, a, dtype)
        base = self._base(a)
        filled = self.virtual.get(base)
        if filled is not None:
            if filled.primitive.name == "broadcast_in_dim":
                return lambda: _constant(group, filled.inputs[0], dtype)
            return self._index(group, a, base, shape, where)
        scalar = a.aval.shape == () and shape != ()
        if base in group.wholes:
            return None
        if base in group.parts:
            part = self._part(group, a)
            if part is None:
                return None
            if not scalar and not _same_where(part.where, where, shape):
                return None
            return lambda: part.node
        if self.made[base] >= group.number:
            return None
        if base in self.padded:
            return self._padded_operand(group, a, shape, where)
        if a is base and base in self.cheap and not scalar:
            again = self._again(group, base, shape, where)
            if again is not None:
                return again
        place = self.place(a)
        if place is None:
            return None
        strides = [0] * len(group.domain)
        if not scalar:
            for s, w, n in zip(place.strides, where, shape, strict=True):
                if w is not None and n > 1:
                    strides[w] = s
        over = Place(place.root, place.offset, tuple(strides))
        return self._load(group, over, dtype)

    def _load(self, group: Group, over: Place, dtype: str) -> Callable[[], int]:
        """How to make the node of what lies in memory, with strides over the domain."""
        varies = frozenset(i for i, s in enumerate(over.strides) if s)

        def make() -> int:
            key = ("load", over.root, over.offset, over.strides)
            if key in group.memo:
                return group.memo[key]
            group.places.append(over)
            return group.add(Term("load", dtype, (), len(group.places) - 1, varies), key)

        return make

    def _padded_operand(self, group: Group, a: Var, shape: tuple[int, ...],
                        where: tuple[int | None, ...]) -> Callable[[], int] | None:  # fmt: skip
        """How to make the node of an array that is padded."""
        padded = self._padded(a)
        if padded is None:
            return None
        other = self._operand(group, padded.value, shape, where)
        if other is None:
            return None
        dtype, place, rank = name_of(a.aval.dtype), padded.place, len(group.domain)
        strides = [0] * rank
        bounds: list[tuple[int, tuple[int, ...], int]] = []
        for s, bound, w, n in zip(place.strides, padded.bounds, where, shape, strict=True):
            if w is not None and n > 1:
                strides[w] = s
            if bound is not None:
                start, step, size = bound
                over = tuple(step if i == w and n > 1 else 0 for i in range(rank))
                bounds.append((start, over, size))
        over = Place(place.root, place.offset, tuple(strides))
        ends = tuple(bounds)
        if not ends:
            return self._load(group, over, dtype)

        def make() -> int:
            outside = other()
            key = ("load", over.root, over.offset, over.strides, ends, outside)
            if key in group.memo:
                return group.memo[key]
            conditions = []
            for start, steps, size in ends:
                varies = frozenset(i for i, s in enumerate(steps) if s)
                data = (start, steps, size)
                conditions.append(
                    group.add(Term("inside", "bool", (), data, varies), ("inside", *data))
                )
            group.places.append(over)
            ins = (outside, *conditions)
            varies = frozenset(i for i, s in enumerate(over.strides) if s)
            varies = varies.union(*(group.terms[i].varies for i in ins))
            return group.add(Term("load", dtype, ins, len(group.places) - 1, varies), key)

        return make

    def _again(self, group: Group, v: Var, shape: tuple[int, ...],
               where: tuple[int | None, ...]) -> Callable[[], int] | None:  # fmt: skip
        """How to compute a cheap value of another group once more in this one."""
        eqn, row = self.cheap[v][:2]
        makers = [self._operand(group, a, shape, where) for a in eqn.inputs]
        if any(make is None for make in makers):
            return None

        def make() -> int:
            ins = tuple([make() for make in makers if make is not None])
            return _apply(group, row, ins, dict(eqn.params), v.aval)

        return make

    def _look_for_cheap(self, eqn: Eqn, row: Any) -> None:
        """Note a large value that few operations make from smaller ones.

        Such as the differences of all pairs: to read them costs more than to compute them again.
        """
        if len(eqn.out_binders) != 1 or eqn.out_binders[0].aval.nbytes < WIDE or row.cost > CHEAP:
            return
        cost, roots = row.cost, dict[Var, int]()
        for a in eqn.inputs:
            if isinstance(a, Literal):
                continue
            base = self._base(a)
            again = self.cheap.get(base) if base is a else None
            if again is not None:
                cost += again.cost
                roots |= again.roots
            elif base not in self.virtual:
                padded = self.padded.get(base)
                root = base if padded is None else padded[1].place.root
                roots[root] = root.aval.nbytes
        if cost > AGAIN or 2 * sum(roots.values()) > eqn.out_binders[0].aval.nbytes:
            return
        self.cheap[eqn.out_binders[0]] = Cheap(eqn, row, cost, roots)

    def _index(self, group: Group, a: Var, base: Var, shape: tuple[int, ...],
               where: tuple[int | None, ...]) -> Callable[[], int] | None:  # fmt: skip
        """A node for an iota or a view of one: a start and a stride in positions by axis."""
        eqn = self.virtual[base]
        dim = eqn.params["dimension"]
        place: Place | None = Place(
            base, 0, tuple(1 if i == dim else 0 for i in range(len(base.aval.shape)))
        )
        at = base.aval.shape
        for view in self._views(a)[1]:
            place = viewed(place, at, view, in_memory=False)
            if place is None:
                return None
            at = view.out_binders[0].aval.shape
        strides = [0] * len(group.domain)
        if a.aval.shape:
            for s, w, n in zip(place.strides, where, shape, strict=True):
                if w is not None and n > 1:
                    strides[w] = s
        start, over = place.offset, tuple(strides)
        dtype = name_of(a.aval.dtype)
        varies = frozenset(i for i, s in enumerate(over) if s)
        return lambda: group.add(
            Term("index", dtype, (), (start, over), varies), ("index", dtype, start, over)
        )

    def _join(self, group: Group, eqn: Eqn, row: Any) -> bool:
        """Take an elementwise equation into a group if it fits."""
        out = eqn.out_binders[0].aval
        shape = out.shape
        where: tuple[int | None, ...] | None = None
        if shape == () or shape == group.domain:  # a scalar is computed beside any domain
            where = tuple(None if n == 1 else i for i, n in enumerate(shape))
        inside = False
        for a in eqn.inputs:
            if isinstance(a, Var) and self._base(a) in group.parts:
                inside = True
                if where is None and a.aval.shape == shape:
                    part = self._part(group, a)
                    if part is None:
                        return False
                    where = part.where
        if where is None or (not inside and shape not in ((), group.domain)):
            return False
        makers = []
        for a in eqn.inputs:
            make = self._operand(group, a, shape, where)
            if make is None:
                return False
            makers.append(make)
        ins = tuple([make() for make in makers])
        parts: list[Part | None] = []
        for i in range(len(eqn.out_binders)):
            params = dict(eqn.params) if len(eqn.out_binders) == 1 else {**eqn.params, "output": i}
            parts.append(Part(_apply(group, row, ins, params, out), shape, where))
        self._own(group, eqn, *parts)
        self._look_for_cheap(eqn, row)
        return True

    def _own(self, group: Group, eqn: Eqn, *parts: Part | None) -> None:
        for v, part in zip(eqn.out_binders, parts, strict=True):
            if part is not None:
                group.parts[v] = part
            else:
                group.wholes.add(v)
            self.group_of[v] = group
            self.made[v] = group.number
        group.eqns.append(eqn)

    def _take_reduction(self, eqn: Eqn) -> bool:
        x = eqn.inputs[0]
        if not isinstance(x, Var) or x.aval.size == 0:
            return False
        for group in self._candidates([x]):
            if self._reduce(group, eqn):
                return True
        group = Group(x.aval.shape, len(self.steps), self._most())
        if not self._reduce(group, eqn):
            return False
        self.steps.append(group)
        return True

    def _reduce(self, group: Group, eqn: Eqn) -> bool:
        """Take a reduction into a group if it fits."""
        x, axes = eqn.inputs[0], eqn.params["axes"]
        assert isinstance(x, Var)
        rank = len(group.domain)
        if x.aval.shape != group.domain or not axes:
            return False
        kind = REDUCTIONS[eqn.primitive.name]
        where = tuple(None if n == 1 else i for i, n in enumerate(group.domain))
        make = self._operand(group, x, group.domain, where)
        if make is None:
            return False
        # Axes of size 1 belong to either side.
        reduced = [i for i in axes if group.domain[i] != 1]
        kept = [i for i in range(rank) if i not in axes and group.domain[i] != 1]
        dtype = name_of(x.aval.dtype)
        if not kept or max(kept) < min(reduced):
            row = rank - min(reduced)
            if group.lead or (group.row and group.row != row):
                return False
            whole = not kept and math.prod(group.domain) >= LARGE
            if whole and dtype in HALVES:
                return False  # the pieces' sums would be rounded
            if whole and group.row and not group.split:
                return False
            group.row = row
            node = group.add(
                Term("reduce", dtype, (make(),), kind, frozenset(range(rank - row))),
            )
            if whole:
                group.split = True
                self._own(group, eqn, None)
                group.parts.pop(eqn.out_binders[0], None)
                group.sums.append(("whole", node, eqn.out_binders[0]))
                return True
            shape = eqn.out_binders[0].aval.shape
            left = [i for i in range(rank) if i not in axes]
            out_where = tuple(None if group.domain[i] == 1 else i for i in left)
            self._own(group, eqn, Part(node, shape, out_where))
            return True
        if max(reduced) < max(kept):
            # Sums over outer axes: those after the reduced ones are the row, those before lead.
            if dtype in HALVES:
                return False  # the sums lie in memory, where each step would be rounded
            after = [i for i in kept if i > max(reduced)]
            lead = [i for i in kept if i < min(reduced)]
            if len(after) + len(lead) != len(kept):
                return False
            row = rank - min(after)
            first = min(reduced)
            if group.split or (group.row and group.row != row):
                return False
            if any(k != "whole" for k, _, _ in group.sums) and group.lead != (first if lead else 0):
                return False
            if lead and any(t.op == "reduce" for t in group.terms):
                return False
            group.row = row
            group.lead = first if lead else 0
            node = make()
            self._own(group, eqn, None)
            group.sums.append((kind, node, eqn.out_binders[0]))
            return True
        return False

    # -- what lies otherwise --------------------------------------------------------------------

    def _with_turned(self, step: Any) -> list[Any]:
        """A step, after copies of what it would walk down the columns of.

        Elementwise kernels do that by tiles. One that reduces goes along its rows: each element of
        such an operand brings a line of the cache, which is gone before its next one is wanted.
        """
        if not isinstance(step, Group) or not (step.row or step.sums):
            return [step]
        if math.prod(step.domain) < FAR_FROM:
            return [step]
        masked = {t.data for t in step.terms if t.op == "load" and t.ins}
        before: list[Any] = []
        turned: dict[Place, Place] = {}
        for i, place in enumerate(step.places):
            if i in masked or not _walks_down(place, step.domain):
                continue
            if place not in turned:
                copied = self._turned(place, step)
                if copied is None:
                    continue
                before.append(copied[0])
                turned[place] = copied[1]
            step.places[i] = turned[place]
        return [*before, step]

    def _turned(self, place: Place, group: Group) -> tuple[Any, Place] | None:
        """The step that copies what a group reads into the order of its domain, and the copy."""
        shape = tuple(n if s else 1 for n, s in zip(group.domain, place.strides, strict=True))
        x, copied = (Var(ShapedArray(shape, place.root.aval.dtype)) for _ in range(2))
        eqn = Eqn(reshape_p, [x], {"new_sizes": shape}, [copied], group.eqns[0].source)
        row = self.table(eqn)
        if row.__class__ is not Lowered:
            return None
        native = row.lower(eqn, [place])
        if native is None:
            return None
        own = contiguous_strides(shape, x.aval.dtype.itemsize)
        strides = tuple(s if old else 0 for s, old in zip(own, place.strides, strict=True))
        return (eqn, native), Place(copied, 0, strides)

    # -- what comes out -------------------------------------------------------------------------

    def _find_outputs(self) -> None:
        """The variables of groups that something outside of them reads."""
        jaxpr = self.closed.jaxpr
        needed: dict[Var, None] = {}
        for a in jaxpr.outs:
            if isinstance(a, Var):
                needed[self._base(a)] = None
        for step in self.steps:
            if isinstance(step, Group):
                for p in step.places:
                    needed[p.root] = None
            elif isinstance(step, tuple):
                for v in step[1].inputs:
                    needed[v] = None
            else:
                for a in step.inputs:
                    if isinstance(a, Var):
                        needed[self._base(a)] = None
        self.needed = needed

    def outputs(self, group: Group) -> list[Var]:
        found = [v for v in itertools.chain(group.parts, group.wholes) if v in self.needed]
        return found


def _apply(
    group: Group, row: Any, ins: tuple[int, ...], params: dict[str, Any], out: ShapedArray
) -> int:
    """The node of an elementwise equation in a group."""
    own = tuple(sorted(params.items()))
    varies = frozenset().union(*(group.terms[i].varies for i in ins))
    return group.add(
        Term("apply", name_of(out.dtype), ins, (row, own), varies),
        ("apply", row, ins, own, out.dtype),
    )


def _walks_down(place: Place, domain: Sequence[int]) -> bool:
    """Are neighbours of a row far apart in memory, and those of a column side by side?"""
    size = place.root.aval.dtype.itemsize
    steps = [(abs(s), n) for s, n in zip(place.strides, domain, strict=True) if n > 1]
    if not steps or steps[-1][0] < FAR or steps[-1][1] < TILE:
        return False
    return any(s == size and n >= TILE for s, n in steps[:-1])


def _same_literal(a: Atom, b: Atom) -> bool:
    """Are two literals the same number? NaN is no other one's equal."""
    if not isinstance(a, Literal) or not isinstance(b, Literal):
        return a is b
    return a.value._data.tobytes() == b.value._data.tobytes()


def _is_outside(bound: tuple[int, int, int], first: int, last: int) -> bool:
    """Are all the positions of [first, last) outside of what a bound lets in?"""
    start, step, size = bound
    if first >= last:
        return True
    ends = sorted((start + step * first, start + step * (last - 1)))
    return ends[1] < 0 or ends[0] >= size


def _kind(eqn: Eqn) -> int:
    """Equal for equations that do the same to other values."""
    out = eqn.out_binders[0].aval if eqn.out_binders else None
    literals = tuple(isinstance(a, Literal) for a in eqn.inputs)
    return hash((eqn.primitive, literals, out and out.shape, out and out.dtype))


def _same_where(
    a: tuple[int | None, ...], b: tuple[int | None, ...], shape: tuple[int, ...]
) -> bool:
    return len(a) == len(b) and all(x == y for x, y, n in zip(a, b, shape, strict=True) if n != 1)
