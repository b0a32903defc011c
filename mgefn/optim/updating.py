"""From updates to params: adding them, and slow copies of params."""

from __future__ import annotations

from typing import Any

from mgefn import tree
from mgefn.control.branching import cond
from mgefn.core.array_methods import ArrayLike
from mgefn.errors import api_boundary
from mgefn.numpy.creation import asarray
from mgefn.ops.elementwise import convert
from mgefn.optim.base import Params, Updates


@api_boundary
def apply_updates(params: Params, updates: Updates) -> Params:
    """params + updates, leaf by leaf, in the dtypes of params.

    Leaves of updates that are None leave theirs as they are.
    """

    def add(p: Any, u: Any) -> Any:
        if u is None:
            return p
        total = asarray(p) + u
        return convert(total, p.dtype) if hasattr(p, "dtype") else total

    if any(u is None for u in tree.leaves(updates, is_leaf=tree.is_none)):
        return tree.map(lambda u, p: add(p, u), updates, params, is_leaf=tree.is_none)
    return tree.map(add, params, updates)


@api_boundary
def incremental_update(new_tensors: Any, old_tensors: Any, step_size: ArrayLike) -> Any:
    """step_size * new_tensors + (1 - step_size) * old_tensors, for slowly moving copies.

    None in new_tensors gives None.

    Example:
        >>> from mgefn import optim
        >>> optim.incremental_update(mnp.array([1.0]), mnp.array([0.0]), 0.25)
        Array([0.25], dtype=float32)

    Source: Polyak, Juditsky (1992), doi:10.1137/0330046.
    """

    def mix(new: Any, old: Any) -> Any:
        return None if new is None else step_size * new + (1 - step_size) * old

    return tree.map(mix, new_tensors, old_tensors, is_leaf=tree.is_none)


@api_boundary
def periodic_update(
    new_tensors: Any, old_tensors: Any, steps: ArrayLike, update_period: int
) -> Any:
    """new_tensors at every step that is a multiple of update_period, else old_tensors.

    Example:
        >>> from mgefn import optim
        >>> optim.periodic_update(mnp.array([1.0]), mnp.array([0.0]), mnp.array(4), 2)
        Array([1.], dtype=float32)
    """
    return cond(
        asarray(steps) % update_period == 0,
        lambda new, old: new,
        lambda new, old: old,
        new_tensors,
        old_tensors,
    )
