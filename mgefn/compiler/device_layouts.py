"""Arguments on a GPU that lie in another order than C's, as views of what lies in C order.

Kernels find elements by strides that are fixed when their program is made. An argument that is a
transposed, reversed or broadcast view is known at the call only. A program for such arguments takes
what they are views of and begins with the equations of the views, which fusion makes part of the
kernels' strides: nothing is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from mgefn.core.avals import ShapedArray
from mgefn.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Var
from mgefn.ops.shaping import broadcast_in_dim_p, rev_p, transpose_p


class Layout(NamedTuple):
    """How an array is a view of one in C order.

    Attributes:
        order: its axes as they follow each other in memory; axes that repeat elements are none.
        turned: axes that run backwards, increasing.
    """

    order: tuple[int, ...]
    turned: tuple[int, ...]

    def base(self, array: Any) -> Any:
        """The array that it is a view of."""
        index = tuple([
            slice(None, None, -1) if d in self.turned else slice(None) if d in self.order else 0
            for d in range(array.ndim)
        ])  # fmt: skip
        kept = sorted(self.order)
        return array[index].transpose([kept.index(d) for d in self.order])


def layout_of(array: Any) -> Layout | None:
    """The layout of an array; None where it is in C order, or a view with gaps."""
    if array.flags.c_contiguous:
        return None
    axes = [d for d in range(array.ndim) if array.strides[d] or array.shape[d] == 1]
    long = [d for d in axes if array.shape[d] > 1]
    step = array.itemsize
    for d in sorted(long, key=lambda d: abs(array.strides[d])):
        if abs(array.strides[d]) != step:
            return None
        step *= array.shape[d]
    order = sorted(axes, key=lambda d: (array.shape[d] > 1, -abs(array.strides[d])))
    return Layout(tuple(order), tuple(d for d in long if array.strides[d] < 0))


def with_layouts(closed: ClosedJaxpr, layouts: Sequence[Layout | None]) -> ClosedJaxpr:
    """The program that takes, in the place of views, what they are views of."""
    jaxpr = closed.jaxpr
    binders: list[Var] = []
    eqns: list[Eqn] = []
    for v, layout in zip(jaxpr.in_binders, layouts, strict=True):
        if layout is None:
            binders.append(v)
            continue
        aval, kept = v.aval, sorted(layout.order)

        def typed(shape: Sequence[int], like: Any = aval) -> Var:
            return Var(ShapedArray(tuple(shape), like.dtype, like.weak_type))

        x = typed([aval.shape[d] for d in layout.order])
        binders.append(x)
        turned = tuple(kept.index(d) for d in layout.turned)
        permutation = tuple(layout.order.index(d) for d in kept)
        steps: list[Any] = [(transpose_p, {"permutation": permutation}, kept)]
        if turned:
            steps.append((rev_p, {"dimensions": turned}, kept))
        if len(kept) < aval.ndim:
            params = {"shape": aval.shape, "broadcast_dimensions": tuple(kept)}
            steps.append((broadcast_in_dim_p, params, range(aval.ndim)))
        for primitive, params, axes in steps:
            out = v if primitive is steps[-1][0] else typed([aval.shape[d] for d in axes])
            eqns.append(Eqn(primitive, [x], params, [out]))
            x = out
    changed = Jaxpr(binders, [*eqns, *jaxpr.eqns], jaxpr.outs, jaxpr.const_binders, jaxpr.name)
    return ClosedJaxpr(changed, closed.consts)
