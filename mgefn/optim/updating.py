"""From updates to params: adding them, and slow copies of params."""

from __future__ import annotations

from typing import Any

from mgefn import tree
from mgefn.control.branching import cond
from mgefn.core.array_methods import ArrayLike
from mgefn.errors import TreeError, api_boundary
from mgefn.numpy.creation import asarray
from mgefn.ops.elementwise import convert
from mgefn.optim.base import Params, Updates
from mgefn.tree.comparing import check_like


@api_boundary
def apply_updates(params: Params, updates: Updates) -> Params:
    """params + updates, leaf by leaf, in the dtypes of params.

    Leaves of updates that are None leave theirs as they are.

    Raises:
        TreeError: updates have not the structure of params, as the pair has not that update gives.
        ShapeError: a leaf has another shape than its param, against which it would be broadcast.
    """
    _check_updates(params, updates)

    def add(p: Any, u: Any) -> Any:
        if u is None:
            return p
        total = asarray(p) + u
        return convert(total, p.dtype) if hasattr(p, "dtype") else total

    if any(u is None for u in tree.leaves(updates, is_leaf=tree.is_none)):
        return tree.map(lambda u, p: add(p, u), updates, params, is_leaf=tree.is_none)
    return tree.map(add, params, updates)


def _check_updates(params: Params, updates: Updates) -> None:
    is_pair = isinstance(updates, (tuple, list)) and len(updates) == 2
    if is_pair:
        want = tree.structure(params, is_leaf=tree.is_none)
        got = tree.structure(updates, is_leaf=tree.is_none)
        if got != want and tree.structure(updates[0], is_leaf=tree.is_none) == want:
            raise TreeError(
                "apply_updates: updates must have the structure of params, got a pair (updates, "
                "state). Take apart what update gives: updates, state = optimizer.update(grads, "
                "state, params)."
            )
    check_like(
        "apply_updates", "updates", updates, "params", params,
        "Pass what update gave for gradients of these params.",
    )  # fmt: skip


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

    check_like("incremental_update", "new_tensors", new_tensors, "old_tensors", old_tensors)
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
