"""Arithmetic on whole pytrees, and named parts of states: optax.tree's names.

`optim.tree_utils` has the same functions as tree_add, tree_get and so on.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from mgefn import dtypes, random
from mgefn import numpy as mnp
from mgefn import tree as _t
from mgefn.core.array_methods import Array, ArrayLike, DTypeLike
from mgefn.errors import ArgumentError, DTypeError, ShapeError, api_boundary
from mgefn.numpy.creation import asarray
from mgefn.optim.numerics import (
    bias_correction,
    sum_of_squares,
    update_infinity_moment,
    update_moment,
    update_moment_per_elem_norm,
)
from mgefn.optim.numerics import cast as _cast
from mgefn.optim.state_search import NamedTupleKey, get, get_all_with_path, map_params, set

__all__ = [
    "NamedTupleKey",
    "add",
    "add_scale",
    "allclose",
    "batch_shape",
    "bias_correction",
    "cast",
    "cast_like",
    "clip",
    "conj",
    "div",
    "dtype",
    "full_like",
    "get",
    "get_all_with_path",
    "map_params",
    "max",
    "min",
    "mul",
    "norm",
    "ones_like",
    "random_like",
    "real",
    "scale",
    "set",
    "size",
    "split_key_like",
    "sub",
    "sum",
    "unwrap_random_key_data",
    "update_infinity_moment",
    "update_moment",
    "update_moment_per_elem_norm",
    "vdot",
    "where",
    "zeros_like",
]


def _pairwise(f: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
    """f of the leaves; None stays None."""
    return _t.map(lambda a, b: None if a is None else f(a, b), x, y, is_leaf=_t.is_none)


@api_boundary
def add(tree_x: Any, tree_y: Any, *other_trees: Any) -> Any:
    """The sum of trees, leaf by leaf.

    Example:
        >>> from mgefn import optim
        >>> optim.tree.add({"a": 1, "b": 2}, {"a": 10, "b": 20})
        {'a': 11, 'b': 22}
    """
    total = _pairwise(operator.add, tree_x, tree_y)
    for other in other_trees:
        total = _pairwise(operator.add, total, other)
    return total


@api_boundary
def sub(tree_x: Any, tree_y: Any) -> Any:
    """tree_x - tree_y, leaf by leaf."""
    return _pairwise(operator.sub, tree_x, tree_y)


@api_boundary
def mul(tree_x: Any, tree_y: Any) -> Any:
    """tree_x * tree_y, leaf by leaf."""
    return _pairwise(operator.mul, tree_x, tree_y)


@api_boundary
def div(tree_x: Any, tree_y: Any) -> Any:
    """tree_x / tree_y, leaf by leaf."""
    return _pairwise(operator.truediv, tree_x, tree_y)


@api_boundary
def scale(scalar: ArrayLike, tree: Any) -> Any:
    """scalar times each leaf."""
    return _t.map(lambda x: scalar * x, tree)


@api_boundary
def add_scale(tree_x: Any, scalar: ArrayLike, tree_y: Any) -> Any:
    """tree_x + scalar * tree_y, in the dtypes that tree_x and tree_y promote to."""

    def one(x: Any, y: Any) -> Any:
        factor: Any = scalar
        if hasattr(factor, "dtype") and hasattr(y, "dtype"):
            factor = asarray(factor).astype(y.dtype)
        return x + factor * y

    return _pairwise(one, tree_x, tree_y)


@api_boundary
def where(condition: ArrayLike, tree_x: Any, tree_y: Any) -> Any:
    """tree_x where the condition holds, else tree_y, leaf by leaf."""
    return _t.map(lambda x, y: mnp.where(condition, x, y), tree_x, tree_y)


@api_boundary
def clip(tree: Any, min_value: ArrayLike | None = None, max_value: ArrayLike | None = None) -> Any:
    """Each leaf limited to [min_value, max_value]."""
    return _t.map(lambda x: mnp.clip(asarray(x), min_value, max_value), tree)


@api_boundary
def conj(tree: Any) -> Any:
    """The complex conjugate of each leaf."""
    return _t.map(mnp.conj, tree)


@api_boundary
def real(tree: Any) -> Any:
    """The real part of each leaf."""
    return _t.map(mnp.real, tree)


# -- numbers of a whole tree -----------------------------------------------------------------------


@api_boundary
def vdot(tree_x: Any, tree_y: Any) -> Array:
    """The inner product of two trees; leaves of the first are conjugated."""
    products = _t.map(lambda x, y: mnp.vdot(asarray(x), asarray(y)), tree_x, tree_y)
    return asarray(_t.reduce(operator.add, products, 0))


@api_boundary
def sum(tree: Any, associative_reduction: bool = False) -> Array:
    """The sum of all elements of all leaves; associative_reduction adds leaves pairwise."""
    sums = _t.map(lambda x: mnp.sum(asarray(x)), tree)
    if associative_reduction:
        return asarray(_t.reduce_associative(operator.add, sums, identity=0))
    return asarray(_t.reduce(operator.add, sums, 0))


@api_boundary
def max(tree: Any) -> Array:
    """The largest element; -inf where there is none."""
    found = [mnp.max(asarray(x)) for x in _t.leaves(tree) if asarray(x).size]
    return _extreme(mnp.maximum, found, -np.inf)


@api_boundary
def min(tree: Any) -> Array:
    """The smallest element; inf where there is none."""
    found = [mnp.min(asarray(x)) for x in _t.leaves(tree) if asarray(x).size]
    return _extreme(mnp.minimum, found, np.inf)


def _extreme(choose: Callable[[Any, Any], Any], found: list[Any], without: float) -> Array:
    if not found:
        return asarray(without)
    best = found[0]
    for other in found[1:]:
        best = choose(best, other)
    return best


@api_boundary
def size(tree: Any) -> int:
    """How many elements all leaves have together."""
    return builtins.sum(asarray(x).size for x in _t.leaves(tree))


@api_boundary
def norm(tree: Any, ord: Any = None, squared: bool = False) -> Array:
    """The norm of all elements as one vector.

    Args:
        tree: pytree of arrays.
        ord: 2 or None, 1, or inf.
        squared: whether to return its square.

    Example:
        >>> from mgefn import optim
        >>> float(optim.tree.norm({"a": mnp.array([3.0]), "b": mnp.array(4.0)}))
        5.0
    """
    if ord is None or ord == 2:
        total = sum(_t.map(sum_of_squares, tree))
        return total if squared else mnp.sqrt(total)
    sizes = _t.map(lambda x: mnp.abs(asarray(x)), tree)
    if ord == 1:
        found = sum(sizes)
    elif ord in (np.inf, "inf", "infinity"):
        found = max(sizes) if size(sizes) else asarray(0.0)
    else:
        raise ArgumentError(f"norm: ord must be None, 1, 2 or inf, got {ord!r}. Choose one.")
    return found**2 if squared else found


@api_boundary
def allclose(
    a: Any, b: Any, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08, equal_nan: bool = False
) -> Array:
    """Whether all leaves of two trees are close to each other."""

    def close(x: Any, y: Any) -> Any:
        return mnp.allclose(asarray(x), asarray(y), rtol, atol, equal_nan)

    return asarray(_t.reduce(mnp.logical_and, _t.map(close, a, b), asarray(True)))


# -- dtypes and shapes -----------------------------------------------------------------------------


@api_boundary
def cast(tree: Any, dtype: DTypeLike | None) -> Any:
    """Each leaf in a dtype; None leaves them."""
    return _cast(tree, dtype)


@api_boundary
def cast_like(tree: Any, other_tree: Any) -> Any:
    """Each leaf in the dtype of its place in other_tree."""
    return _t.map(lambda x, y: asarray(x).astype(asarray(y).dtype), tree, other_tree)


@api_boundary
def dtype(tree: Any, mixed_dtype_handler: str | None = None) -> np.dtype:
    """The dtype of all leaves.

    Args:
        tree: pytree of arrays; the default float where it has no leaves.
        mixed_dtype_handler: what to take where dtypes differ: "promote" for what they promote to,
            "highest" or "lowest" for the one to or from which the others promote; None: an error.
    """
    found = list(dict.fromkeys(asarray(x).dtype for x in _t.leaves(tree)))
    if not found:
        return np.dtype(dtypes.default_float())
    if len(found) == 1:
        return found[0]
    if mixed_dtype_handler is None:
        raise DTypeError(
            f"dtype: all leaves must have one dtype, got {', '.join(map(str, found))}. Cast them, "
            "or pass mixed_dtype_handler."
        )
    if mixed_dtype_handler == "promote":
        return dtypes.result_type(*found)
    if mixed_dtype_handler not in ("highest", "lowest"):
        raise ArgumentError(
            "dtype: mixed_dtype_handler must be None, 'promote', 'highest' or 'lowest', got "
            f"{mixed_dtype_handler!r}. Choose one."
        )
    for own in found:
        promoted = [dtypes.promote_types(own, other) for other in found]
        if mixed_dtype_handler == "highest" and all(p == own for p in promoted):
            return own
        if mixed_dtype_handler == "lowest" and promoted == found:
            return own
    raise DTypeError(
        f"dtype: none of {', '.join(map(str, found))} is the {mixed_dtype_handler}. Use 'promote'."
    )


@api_boundary
def full_like(tree: Any, fill_value: ArrayLike, dtype: DTypeLike | None = None) -> Any:
    """Leaves of the same shapes filled with a value; dtype None: their own."""
    return _t.map(lambda x: mnp.full_like(x, fill_value, dtype), tree)


@api_boundary
def ones_like(tree: Any, dtype: DTypeLike | None = None) -> Any:
    """Ones in the shapes of the leaves."""
    return _t.map(lambda x: mnp.ones_like(x, dtype), tree)


@api_boundary
def zeros_like(tree: Any, dtype: DTypeLike | None = None) -> Any:
    """Zeros in the shapes of the leaves."""
    return _t.map(lambda x: mnp.zeros_like(x, dtype), tree)


@api_boundary
def batch_shape(tree: Any, shape: tuple[int, ...] = ()) -> Any:
    """Zeros in the shapes of the leaves, with the dimensions `shape` before them."""

    def one(x: Any) -> Any:
        x = asarray(x)
        if any(n < 0 for n in shape):
            raise ShapeError(f"batch_shape: sizes must not be negative, got {shape}. Give sizes.")
        return mnp.zeros((*shape, *x.shape), x.dtype)

    return _t.map(one, tree)


# -- random trees ----------------------------------------------------------------------------------


@api_boundary
def split_key_like(rng_key: Any, target_tree: Any) -> Any:
    """A key for each leaf."""
    treedef = _t.structure(target_tree)
    keys = random.split(rng_key, treedef.num_leaves)
    return _t.unflatten(treedef, [keys[i] for i in range(treedef.num_leaves)])


@api_boundary
def random_like(
    rng_key: Any,
    target_tree: Any,
    sampler: Callable[..., Any] = random.normal,
    dtype: DTypeLike | None = None,
) -> Any:
    """Random numbers in the shapes of the leaves.

    Args:
        rng_key: a random key.
        target_tree: pytree of arrays.
        sampler: (key, shape, dtype) -> array.
        dtype: of all leaves; None: their own.
    """

    def one(leaf: Any, key: Any) -> Any:
        leaf = asarray(leaf)
        return sampler(key, leaf.shape, leaf.dtype if dtype is None else dtype)

    return _t.map(one, target_tree, split_key_like(rng_key, target_tree))


@api_boundary
def unwrap_random_key_data(input_tree: Any) -> Any:
    """The tree with random keys replaced by their words."""

    def one(x: Any) -> Any:
        dtype = getattr(x, "dtype", None)
        return random.key_data(x) if dtype is not None and dtypes.is_key(dtype) else x

    return _t.map(one, input_tree)
