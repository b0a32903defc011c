"""What fusion makes: groups of equations, and how values and memory lie in their domains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from mgefn.compiler.steps import Place
from mgefn.core.avals import contiguous_strides
from mgefn.core.jaxpr import Atom, Eqn, Var

MOST = 200  # equations of a group: a bound for the time to compile it


class Part:
    """A value inside of a group.

    `where` says for each axis which axis of the domain it runs along, None for an axis of size 1;
    `node` is its number among the group's nodes.
    """

    __slots__ = ("node", "shape", "where")

    def __init__(self, node: int, shape: tuple[int, ...], where: tuple[int | None, ...]):
        self.node = node
        self.shape = shape
        self.where = where


class Term(NamedTuple):
    """A node of a group. `varies`: the axes of the domain along which its value changes.

    op: "load" (data: number of a place; ins: none, or what stands outside of an array that is
    padded and the conditions to be inside), "index" (data: start and strides over the domain, in
    positions), "inside" (data: start, strides and size: is 0 <= position < size?), "const" (data:
    the literal), "apply" (data: row of the table, params), "reduce" (data: kind).
    """

    op: str
    dtype: str
    ins: tuple[int, ...]
    data: Any
    varies: frozenset[int]


class Group:
    """Equations that run as one kernel over `domain`."""

    def __init__(self, domain: tuple[int, ...], number: int, most: int = MOST):
        self.domain = domain
        self.number = number
        self.most = most  # equations
        self.row = 0  # how many of the last axes are a row; 0: not decided
        self.lead = 0  # how many of the first axes sums over the middle ones keep
        self.terms: list[Term] = []
        self.places: list[Place] = []  # memory that is read, with strides over the domain
        self.parts: dict[Var, Part] = {}
        self.sums: list[tuple[str, int, Var]] = []  # (kind, node, result) over the outer axes
        self.wholes: set[Var] = set()  # results that are known only when the kernel is done
        self.split = False  # are reductions of the only row done in pieces?
        self.eqns: list[Eqn] = []
        self.memo: dict[Any, int] = {}

    def add(self, term: Term, key: Any = None) -> int:
        if key is not None and key in self.memo:
            return self.memo[key]
        self.terms.append(term)
        n = len(self.terms) - 1
        if key is not None:
            self.memo[key] = n
        return n


class Cheap(NamedTuple):
    """How a large value is made by few operations from smaller ones.

    Attributes:
        cost: of its operations, in cycles for a vector.
        roots: what they read, with its bytes.
    """

    eqn: Eqn
    row: Any
    cost: float
    roots: dict[Var, int]


class Padded(NamedTuple):
    """An array that is padded, or a view of it, as the memory of what is not padding.

    Attributes:
        place: its strides and offset are those of the padded array, were it in that memory.
        bounds: for each axis (start, step, size), where 0 <= start + step * i < size is not
            padding; None where all is inside.
        value: the padding, of rank 0.
    """

    place: Place
    bounds: tuple[tuple[int, int, int] | None, ...]
    value: Atom


def is_contiguous(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    want = contiguous_strides(shape, itemsize)
    return all(n == 1 or s == w for n, s, w in zip(shape, strides, want, strict=True))


def viewed(place: Place, shape: tuple[int, ...], eqn: Eqn, in_memory: bool = True) -> Place | None:
    """The memory of a view of an array, or None where strides can't say it.

    Strides that are not of memory, but of positions, are never those of a whole array.
    """
    p, out = eqn.params, eqn.out_binders[0].aval
    name, strides, offset = eqn.primitive.name, place.strides, place.offset
    if name == "broadcast_in_dim":
        new = [0] * len(out.shape)
        for i, d in enumerate(p["broadcast_dimensions"]):
            new[d] = strides[i] if shape[i] == out.shape[d] else 0
        return Place(place.root, offset, tuple(new))
    if name == "transpose":
        return Place(place.root, offset, tuple(strides[i] for i in p["permutation"]))
    if name == "slice":
        offset += sum(s * b for s, b in zip(strides, p["start_indices"], strict=True))
        return Place(
            place.root, offset, tuple(s * k for s, k in zip(strides, p["strides"], strict=True))
        )
    if name == "rev":
        dims = p["dimensions"]
        offset += sum(strides[d] * max(shape[d] - 1, 0) for d in dims)
        return Place(
            place.root, offset, tuple(-s if i in dims else s for i, s in enumerate(strides))
        )
    if name == "reshape":
        itemsize = out.dtype.itemsize
        if in_memory and is_contiguous(shape, strides, itemsize):
            return Place(place.root, offset, contiguous_strides(out.shape, itemsize))
        matched = _matched_axes(shape, out.shape)
        if matched is None:
            long = [s for n, s in zip(shape, strides, strict=True) if n != 1]
            if len(long) != 1:
                return None
            # A line, cut into lines.
            return Place(place.root, offset, contiguous_strides(out.shape, long[0]))
        return Place(place.root, offset, tuple(0 if m is None else strides[m] for m in matched))
    if name == "name":
        return place
    return None


def padded_viewed(padded: Padded, shape: tuple[int, ...], eqn: Eqn) -> Padded | None:
    """A view of an array that is padded, or None where bounds for each axis can't say it."""
    p, out, name = eqn.params, eqn.out_binders[0].aval, eqn.primitive.name
    bounds: list[tuple[int, int, int] | None] = list(padded.bounds)
    place = viewed(padded.place, shape, eqn, in_memory=False)
    if place is None:
        return None
    if name == "broadcast_in_dim":
        axes: list[int | None] = [None] * len(out.shape)
        for i, d in enumerate(p["broadcast_dimensions"]):
            if shape[i] == out.shape[d]:
                axes[d] = i
    elif name == "transpose":
        axes = list(p["permutation"])
    elif name == "reshape":
        matched = _matched_axes(shape, out.shape)
        if matched is None:
            return None
        axes = matched
    else:
        axes = list(range(len(shape)))
        for i, bound in enumerate(bounds):
            if bound is None:
                continue
            start, step, size = bound
            if name == "slice":
                first, stride = p["start_indices"][i], p["strides"][i]
                bounds[i] = (start + step * first, step * stride, size)
            elif name == "rev" and i in p["dimensions"]:
                bounds[i] = (start + step * (shape[i] - 1), -step, size)
    # An axis of size 1 that is no more: its only element must be inside.
    for i, bound in enumerate(bounds):
        if i not in axes and bound is not None and not 0 <= bound[0] < bound[2]:
            return None
    return Padded(place, tuple(None if i is None else bounds[i] for i in axes), padded.value)


def _matched_axes(old: Sequence[int], new: Sequence[int]) -> list[int | None] | None:
    """For each new axis the old one, where a reshape only adds and drops axes of size 1."""
    rest = [i for i, n in enumerate(old) if n != 1]
    if [old[i] for i in rest] != [n for n in new if n != 1]:
        return None
    axes = iter(rest)
    return [None if n == 1 else next(axes) for n in new]


def part_viewed(part: Part, eqn: Eqn, domain: tuple[int, ...]) -> Part | None:
    """A view of a value inside of a group, or None where it does not lie along the domain."""
    out, name = eqn.out_binders[0].aval, eqn.primitive.name
    if name == "name":
        return part
    if name == "reshape":
        matched = _matched_axes(part.shape, out.shape)
        if matched is None:
            return None
        where = tuple(None if m is None else part.where[m] for m in matched)
        return Part(part.node, out.shape, where)
    if name != "broadcast_in_dim":
        return None
    new: list[int | None] = [None] * len(out.shape)
    for i, d in enumerate(eqn.params["broadcast_dimensions"]):
        if part.shape[i] == out.shape[d]:
            new[d] = part.where[i]
    grown = [
        d
        for d, n in enumerate(out.shape)
        if n != 1
        and (
            d not in eqn.params["broadcast_dimensions"]
            or part.shape[eqn.params["broadcast_dimensions"].index(d)] != n
        )
    ]
    if grown:
        if out.shape != domain:
            return None
        for d in grown:
            new[d] = d
    return Part(part.node, out.shape, tuple(new))
