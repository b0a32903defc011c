"""Nearest points of sets, for params that must stay in one: optax.projections' names."""

from __future__ import annotations

from typing import Any

from mgefn import numpy as mnp
from mgefn import tree as trees
from mgefn.core.array_methods import ArrayLike
from mgefn.errors import api_boundary
from mgefn.flatten_util import ravel_pytree
from mgefn.optim import tree as _tree

__all__ = [
    "projection_box",
    "projection_halfspace",
    "projection_hypercube",
    "projection_hyperplane",
    "projection_l1_ball",
    "projection_l1_sphere",
    "projection_l2_ball",
    "projection_l2_sphere",
    "projection_linf_ball",
    "projection_non_negative",
    "projection_simplex",
    "projection_vector",
]


@api_boundary
def projection_non_negative(tree: Any) -> Any:
    """The nearest point without negative elements."""
    return trees.map(lambda x: mnp.maximum(x, 0), tree)


@api_boundary
def projection_box(tree: Any, lower: Any, upper: Any) -> Any:
    """The nearest point between two trees, or numbers."""

    def spread(bound: Any) -> Any:
        return (
            bound
            if trees.structure(bound) == trees.structure(tree)
            else trees.broadcast(bound, tree)
        )

    return trees.map(lambda x, lo, hi: mnp.clip(x, lo, hi), tree, spread(lower), spread(upper))


@api_boundary
def projection_hypercube(tree: Any, scale: Any = 1) -> Any:
    """The nearest point with all elements in [0, scale]."""
    return projection_box(tree, 0, scale)


@api_boundary
def projection_linf_ball(tree: Any, scale: Any = 1) -> Any:
    """The nearest point with all elements in [-scale, scale]."""
    return projection_box(tree, trees.map(lambda s: -s, scale), scale)


def _on_simplex(values: Any, scale: ArrayLike) -> Any:
    """Subtract what makes the positive part sum to scale.

    Source: Duchi, Shalev-Shwartz, Singer, Chandra (2008), doi:10.1145/1390156.1390191.
    """
    ordered = mnp.sort(values)[::-1]
    excess = mnp.cumsum(ordered) - scale
    counts = mnp.arange(1, values.shape[0] + 1)
    kept = mnp.sum(ordered - excess / counts > 0)
    return mnp.maximum(values - excess[kept - 1] / kept, 0)


@api_boundary
def projection_simplex(tree: Any, scale: ArrayLike = 1) -> Any:
    """The nearest point without negative elements whose elements have the sum scale.

    Example:
        >>> from mgefn import optim
        >>> optim.projections.projection_simplex(mnp.array([2.0, 1.5, 0.0]))
        Array([0.75, 0.25, 0.  ], dtype=float32)
    """
    values, rebuild = ravel_pytree(tree)
    return rebuild(_on_simplex(values, scale).astype(values.dtype))


@api_boundary
def projection_l1_sphere(tree: Any, scale: ArrayLike = 1) -> Any:
    """The nearest point whose elements' sizes have the sum scale."""
    values, rebuild = ravel_pytree(tree)
    sizes = _on_simplex(mnp.abs(values), scale)
    return rebuild((mnp.where(values < 0, -1, 1) * sizes).astype(values.dtype))


@api_boundary
def projection_l1_ball(tree: Any, scale: ArrayLike = 1) -> Any:
    """The nearest point whose elements' sizes have at most the sum scale."""
    inside = _tree.norm(tree, ord=1) <= scale
    return trees.map(lambda x, p: mnp.where(inside, x, p), tree, projection_l1_sphere(tree, scale))


@api_boundary
def projection_l2_sphere(tree: Any, scale: ArrayLike = 1) -> Any:
    """The nearest point whose norm is scale."""
    factor: Any = scale / _tree.norm(tree)
    return trees.map(lambda x: x * factor, tree)


@api_boundary
def projection_l2_ball(tree: Any, scale: ArrayLike = 1) -> Any:
    """The nearest point whose norm is at most scale.

    Example:
        >>> from mgefn import optim
        >>> optim.projections.projection_l2_ball(mnp.array([3.0, 4.0]))
        Array([0.6, 0.8], dtype=float32)
    """
    norm = _tree.norm(tree)
    inside = norm <= scale
    factor = mnp.where(inside, 1, scale / mnp.where(inside, 1, norm))
    return trees.map(lambda x: x * factor, tree)


@api_boundary
def projection_vector(x: Any, a: Any) -> Any:
    """The nearest multiple of a."""
    factor = _tree.vdot(x, a) / _tree.norm(a, squared=True)
    return trees.map(lambda v: factor * v, a)


@api_boundary
def projection_hyperplane(x: Any, a: Any, b: ArrayLike) -> Any:
    """The nearest point whose inner product with a is b."""
    factor = (_tree.vdot(x, a) - b) / _tree.norm(a, squared=True)
    return trees.map(lambda u, v: u - factor * v, x, a)


@api_boundary
def projection_halfspace(x: Any, a: Any, b: ArrayLike) -> Any:
    """The nearest point whose inner product with a is at most b."""
    factor = mnp.maximum(_tree.vdot(x, a) - b, 0) / _tree.norm(a, squared=True)
    return trees.map(lambda u, v: u - factor * v, x, a)
