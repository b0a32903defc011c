"""Optimizers around optimizers: slow copies of the params, all leaves as one vector."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mgefn import dtypes, tree
from mgefn.core.array_methods import Array
from mgefn.errors import ArgumentError
from mgefn.numpy.assembling import concatenate
from mgefn.numpy.creation import asarray, zeros
from mgefn.ops.elementwise import convert, where
from mgefn.ops.shaping import reshape
from mgefn.optim.base import (
    GradientTransformation,
    GradientTransformationExtraArgs,
    Params,
    Updates,
    with_extra_args_support,
)
from mgefn.optim.conditions import choose
from mgefn.optim.making import maker
from mgefn.optim.numerics import check_positive, copy_of, zero_count


class LookaheadState(NamedTuple):
    """The state of the fast optimizer, and its steps since the last synchronization."""

    fast_state: Any
    steps_since_sync: Array


class LookaheadParams(NamedTuple):
    """Params that a fast optimizer moves, and those that follow from time to time."""

    fast: Params
    slow: Params

    @classmethod
    def init_synced(cls, params: Params) -> LookaheadParams:
        """Both equal to params, in arrays of their own, so that they can be donated together."""
        return cls(params, copy_of(params))


@maker
def lookahead(
    fast_optimizer: GradientTransformation,
    sync_period: int,
    slow_step_size: float,
    reset_state: bool = False,
) -> GradientTransformationExtraArgs:
    """Some steps of a fast optimizer, then one from where they began towards where they led.

    Gradients are taken at the fast params; params and updates are `LookaheadParams`.

    Args:
        fast_optimizer: makes the steps.
        sync_period: how many.
        slow_step_size: share of the way that both params go from the slow to the fast ones.
        reset_state: whether the fast optimizer then starts anew.

    Example:
        >>> from mgefn import optim
        >>> opt = optim.lookahead(optim.sgd(1.0), sync_period=1, slow_step_size=0.5)
        >>> params = optim.LookaheadParams.init_synced(mnp.array(1.0))
        >>> updates, state = opt.update(mnp.array(1.0), opt.init(params), params)
        >>> float(optim.apply_updates(params, updates).slow)
        0.5

    Source: Zhang, Lucas, Hinton, Ba (2019), arXiv:1907.08610.
    """
    check_positive("lookahead", "sync_period", sync_period)
    fast = with_extra_args_support(fast_optimizer)

    def check(params: Any) -> None:
        if not isinstance(params, LookaheadParams):
            raise ArgumentError(
                f"lookahead: params must be LookaheadParams, got {type(params).__name__}. Make "
                "them with LookaheadParams.init_synced(params)."
            )

    def init(params: LookaheadParams) -> LookaheadState:
        check(params)
        return LookaheadState(fast.init(params.fast), zero_count())

    def update(
        updates: Updates, state: LookaheadState, params: Any = None, **extra_args: Any
    ) -> tuple[LookaheadParams, LookaheadState]:
        check(params)
        moved, fast_state = fast.update(updates, state.fast_state, params.fast, **extra_args)
        sync = state.steps_since_sync == sync_period - 1
        ahead = tree.map(lambda f, u, s: f + u - s, params.fast, moved, params.slow)
        new = LookaheadParams(
            tree.map(
                lambda u, d: where(sync, u - (1 - slow_step_size) * d, u).astype(u.dtype),
                moved,
                ahead,
            ),
            tree.map(lambda d: where(sync, slow_step_size * d, 0).astype(d.dtype), ahead),
        )
        if reset_state:
            fast_state = choose(~sync, fast_state, fast.init(params.fast))
        steps = ((state.steps_since_sync + 1) % sync_period).astype(np.int32)
        return new, LookaheadState(fast_state, steps)

    return GradientTransformationExtraArgs(init, update)


@maker
def flatten(inner: GradientTransformation) -> GradientTransformationExtraArgs:
    """A transformation that sees all leaves as one vector, for fewer and larger operations.

    It must not read the shapes of leaves, as `lamb` does.

    Args:
        inner: the transformation.
    """
    inner = with_extra_args_support(inner)

    def joined(values: Any) -> Any:
        leaves = [asarray(x) for x in tree.leaves(values)]
        if not leaves:
            return zeros((0,))
        dtype = dtypes.result_type(*[x.dtype for x in leaves])
        return concatenate([reshape(convert(x, dtype), (-1,)) for x in leaves])

    def parted(vector: Any, like: Any) -> Any:
        leaves, treedef = tree.flatten(like)
        out, begin = [], 0
        for x in map(asarray, leaves):
            part = vector[begin : begin + x.size]
            out.append(convert(reshape(part, x.shape), x.dtype))
            begin += x.size
        return tree.unflatten(treedef, out)

    def init(params: Params) -> Any:
        return inner.init(joined(params))

    def update(
        updates: Updates, state: Any, params: Params | None = None, **extra_args: Any
    ) -> tuple[Updates, Any]:
        seen = None if params is None else joined(params)
        new, state = inner.update(joined(updates), state, seen, **extra_args)
        return parted(new, updates), state

    return GradientTransformationExtraArgs(init, update)
