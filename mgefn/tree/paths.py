"""Leaves with their key paths. The walk has a stack of its own: no bound on the depth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mgefn.errors import api_boundary
from mgefn.tree.flattening import PyTreeDef, structure, subtrees_up_to, unflatten
from mgefn.tree.keys import KeyPath, keystr
from mgefn.tree.nodes import IsLeaf, one_level


def _walk(
    tree: Any, is_leaf: Callable[..., bool] | None, takes_path: bool
) -> tuple[list[tuple[KeyPath, Any]], list[bool]]:
    """(path, leaf) for each leaf, and what is_leaf said of each node, from left to right.

    On a stack of its own: no bound on the depth.
    """
    found: list[tuple[KeyPath, Any]] = []
    stops: list[bool] = []
    stack: list[tuple[KeyPath, Any]] = [((), tree)]
    while stack:
        path, node = stack.pop()
        if is_leaf is not None:
            stops.append(bool(is_leaf(path, node) if takes_path else is_leaf(node)))
        level = None if stops and stops[-1] else one_level(node)
        if level is None:
            found.append((path, node))
        else:
            keys, children, _, _ = level
            pairs = list(zip(keys, children, strict=True))
            stack.extend(((*path, key), child) for key, child in reversed(pairs))
    return found, stops


@api_boundary
def flatten_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """As `flatten`, with the key path of each leaf.

    Args:
        tree: any tree.
        is_leaf: as in `flatten`.
        is_leaf_takes_path: call is_leaf(path, node) instead of is_leaf(node).
    Returns:
        Pairs (path, leaf), and the structure.
    Example:
        >>> [(keystr(path), leaf) for path, leaf in flatten_with_path({"a": [1, 2]})[0]]
        [("['a'][0]", 1), ("['a'][1]", 2)]
    """
    found, stops = _walk(tree, is_leaf, is_leaf_takes_path)
    if is_leaf is None:
        return found, structure(tree)
    # optree asks about the same nodes in the same order, without their paths: answer from the walk.
    answers = iter(stops)
    return found, structure(tree, lambda _: next(answers))


@api_boundary
def leaves_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> list[tuple[KeyPath, Any]]:
    """Pairs (key path, leaf)."""
    return _walk(tree, is_leaf, is_leaf_takes_path)[0]


@api_boundary
def key_paths(tree: Any, is_leaf: IsLeaf = None) -> list[str]:
    """The key path of each leaf as text, for messages."""
    return [keystr(path) for path, _ in _walk(tree, is_leaf, False)[0]]


@api_boundary
def map_with_path(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> Any:
    """As `map`, where f gets the key path as its first argument.

    Raises:
        TreeError: another tree has not the structure of the first.
    """
    pairs, treedef = flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    columns = [subtrees_up_to("tree.map_with_path", treedef.spec, other) for other in rest]
    rows = zip(pairs, *columns, strict=True)
    return unflatten(treedef, [f(path, leaf, *others) for (path, leaf), *others in rows])
