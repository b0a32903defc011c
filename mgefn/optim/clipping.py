"""Limits for gradients: by element, by norm, by the size of the params, by example."""

from __future__ import annotations

import math
from typing import Any

from mgefn import tree
from mgefn.api.batch import vmap
from mgefn.core.array_methods import Array, ArrayLike
from mgefn.errors import ArgumentError, ShapeError, api_boundary
from mgefn.numpy.creation import asarray
from mgefn.ops import reductions
from mgefn.ops.contractions import tensordot
from mgefn.ops.elementwise import clip as clipped
from mgefn.ops.elementwise import convert, maximum, minimum, sqrt, where
from mgefn.ops.shaping import broadcast_to
from mgefn.optim.base import (
    EmptyState,
    GradientTransformation,
    Params,
    Updates,
    needs_params,
    stateless,
    stateless_with_tree_map,
)
from mgefn.optim.making import maker
from mgefn.optim.numerics import cast_as, global_norm, squared

ClipState = EmptyState
ClipByGlobalNormState = EmptyState
AdaptiveGradClipState = EmptyState


@maker
def clip(max_delta: ArrayLike) -> GradientTransformation:
    """Each element limited to [-max_delta, max_delta]."""
    bound: Any = max_delta
    return stateless_with_tree_map(lambda g, p: clipped(g, -bound, bound))


@maker
def clip_by_global_norm(max_norm: float) -> GradientTransformation:
    """Updates scaled down so that their global norm is at most max_norm.

    Source: Pascanu, Mikolov, Bengio (2013), arXiv:1211.5063.
    """

    def limit(updates: Updates, params: Params | None) -> Updates:
        norm = global_norm(updates)
        small = norm < max_norm
        # The factor of an update that is small already is 1 whatever the norm, also 0.
        factor = where(small, 1, max_norm / where(small, 1, norm))
        return tree.map(lambda g: convert(g * factor, asarray(g).dtype), updates)

    return stateless(limit)


@maker
def clip_by_block_rms(threshold: float) -> GradientTransformation:
    """Each leaf scaled down so that the root of its mean square is at most threshold.

    Source: Shazeer, Stern (2018), arXiv:1804.04235.
    """

    def limit(g: Any, p: Any) -> Any:
        rms = sqrt(reductions.mean(squared(g)))
        return cast_as(g / maximum(1.0, rms / threshold), g)

    return stateless_with_tree_map(limit)


@api_boundary
def unitwise_norm(x: ArrayLike, axis: Any = None) -> Array:
    """The norm of the weights into each unit, spread over the shape of x.

    Args:
        x: with axis None, a bias or scale (rank 0, 1, or 1 after dropping axes of size 1), weights
            whose first dimension is the input's (rank 2, 3), or a kernel whose last dimension is
            the output's (rank 4).
        axis: dimensions to sum over instead.
    """
    x = asarray(x)
    if axis is not None:
        over, kept = axis, True
    elif sum(n != 1 for n in x.shape) <= 1:
        over, kept = None, True
    elif x.ndim in (2, 3):
        over, kept = 0, True
    elif x.ndim == 4:
        over, kept = (0, 1, 2), True
    else:
        raise ShapeError(
            f"unitwise_norm: x must have at most 4 dimensions, got shape {x.shape}. Give axis."
        )
    return broadcast_to(sqrt(reductions.sum(squared(x), axis=over, keepdims=kept)), x.shape)


@api_boundary
def unitwise_clip(
    g_norm: ArrayLike, max_norm: ArrayLike, grad: ArrayLike, div_eps: float = 1e-6
) -> Array:
    """grad, scaled to the norm max_norm where its norm g_norm is larger."""
    g, norm, bound = asarray(grad), asarray(g_norm), asarray(max_norm)
    return where(norm < bound, g, g * cast_as(bound / maximum(norm, div_eps), g))


@maker
def adaptive_grad_clip(
    clipping: float, eps: float = 1e-3, axis: Any = None
) -> GradientTransformation:
    """The gradient of each unit limited to a share of the norm of the unit's weights.

    Args:
        clipping: largest share.
        eps: least norm that weights are taken to have.
        axis: as for `unitwise_norm`.

    Source: Brock, De, Smith, Simonyan (2021), arXiv:2102.06171.
    """

    def limit(updates: Updates, params: Params | None) -> Updates:
        needs_params("adaptive_grad_clip", params)

        def one(g: Any, p: Any) -> Any:
            bound = clipping * maximum(unitwise_norm(p, axis), eps)
            return unitwise_clip(unitwise_norm(g, axis), bound, g)

        return tree.map(one, updates, params)

    return stateless(limit)


def _batch_size(operation: str, grads: Any) -> int:
    shapes = [asarray(g).shape for g in tree.leaves(grads)]
    sizes = {shape[0] if shape else None for shape in shapes}
    if len(sizes) != 1 or None in sizes:
        raise ArgumentError(
            f"{operation}: all gradients must have one batch size in dimension 0, got shapes "
            f"{shapes}. Make them with vmap(grad(loss), ...)."
        )
    return next(iter(sizes))  # type: ignore[return-value]  # None was refused


def _clipped_sum(norms: Any, bound: Any, g: Any) -> Any:
    # An example without gradient has the norm 0 and any factor.
    zero = norms == 0
    factors = where(zero, 1, minimum(bound / where(zero, 1, norms), 1))
    return tensordot(cast_as(factors, g), g, 1)


@api_boundary
def per_example_global_norm_clip(grads: Any, l2_norm_clip: float) -> tuple[Any, Array]:
    """The sum over examples of gradients, each limited in its global norm.

    Args:
        grads: pytree whose leaves have the examples in dimension 0.
        l2_norm_clip: largest norm of one example's gradient.
    Returns:
        The sum, and how many examples were limited.

    Source: Abadi et al. (2016), arXiv:1607.00133.
    """
    _batch_size("per_example_global_norm_clip", grads)
    norms = vmap(global_norm)(grads)
    total = tree.map(lambda g: _clipped_sum(norms, l2_norm_clip, asarray(g)), grads)
    return total, reductions.sum(norms > l2_norm_clip)


@api_boundary
def per_example_layer_norm_clip(
    grads: Any, global_l2_norm_clip: float, uniform: bool = True
) -> tuple[Any, Any]:
    """The sum over examples of gradients, each limited leaf by leaf.

    Args:
        grads: pytree whose leaves have the examples in dimension 0.
        global_l2_norm_clip: largest norm of one example's gradient, shared out to the leaves.
        uniform: whether leaves have equal shares of its square; else by their size.
    Returns:
        The sum, and for each leaf how many examples were limited.

    Source: McMahan et al. (2018), arXiv:1710.06963.
    """
    batch = _batch_size("per_example_layer_norm_clip", grads)
    leaves, treedef = tree.flatten(grads)
    leaves = [asarray(g) for g in leaves]
    sizes = [g.size // max(batch, 1) for g in leaves]
    shares = [1 / len(leaves) if uniform else n / sum(sizes) for n in sizes]
    sums, counts = [], []
    for g, share in zip(leaves, shares, strict=True):
        bound = global_l2_norm_clip * math.sqrt(share)
        norms = vmap(global_norm)(g)
        sums.append(_clipped_sum(norms, bound, g))
        counts.append(reductions.sum(norms > bound))
    return tree.unflatten(treedef, sums), tree.unflatten(treedef, counts)
