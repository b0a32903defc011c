"""Changing part of a tree, and nested dicts as flat ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from mgefn.errors import ArgumentError, TreeError, api_boundary
from mgefn.tree.flattening import flatten, unflatten

T = TypeVar("T")
IsLeaf = Callable[[Any], bool] | None


class _Unspecified:
    """The type of an argument that was not given, where None could be meant."""

    def __repr__(self) -> str:
        return "<unspecified>"


_UNSPECIFIED: Any = _Unspecified()


class _Box:
    """Stands for one leaf, told from all others by its identity."""

    __slots__ = ("leaf",)

    def __init__(self, leaf: Any) -> None:
        self.leaf = leaf

    def __repr__(self) -> str:
        return "<leaf>"


@api_boundary
def at(
    where: Callable[[T], Any],
    pytree: T,
    replace: Any = _UNSPECIFIED,
    replace_fn: Callable[[Any], Any] = _UNSPECIFIED,
    is_leaf: IsLeaf = None,
) -> T:
    """A copy of a tree in which the nodes that `where` picks are others.

    Args:
        where: a function of the tree that returns one of its nodes or leaves, or a tuple or other
            container of several. It may only look them up: it is called with a tree of the same
            structure that holds no values.
        pytree: the tree.
        replace: what comes in their place: one node, or a container of them as where returns.
        replace_fn: a function from each former node to the new one, in place of replace.
        is_leaf: as in `flatten`; for picking None, pass `lambda x: x is None`.

    Returns:
        The new tree; the nodes that are not picked are those of the old one.

    Raises:
        TreeError: where returns something that is not in the tree, or one node twice.
        ArgumentError: not exactly one of replace and replace_fn is given.

    Example:
        >>> mgefn.tree.at(lambda t: t["layers"][1], {"layers": [1, 2], "scale": 3}, replace=5)
        {'layers': [1, 5], 'scale': 3}
        >>> mgefn.tree.at(lambda t: (t["a"], t["b"]), {"a": 1, "b": 2}, replace_fn=lambda x: -x)
        {'a': -1, 'b': -2}
    """
    if (replace is _UNSPECIFIED) == (replace_fn is _UNSPECIFIED):
        raise ArgumentError("tree.at: needs one of replace and replace_fn. Pass one of them.")
    leaves, treedef = flatten(pytree, is_leaf)
    boxed = unflatten(treedef, [_Box(x) for x in leaves])
    nodes: list[Any] = []  # holds them, so that each id stays its own

    def remember(node: Any) -> bool:
        nodes.append(node)
        return False

    flatten(boxed, remember)
    known: dict[int, int] = {}
    for node in nodes:
        known[id(node)] = known.get(id(node), 0) + 1
    picked, picked_tree = flatten(where(boxed), lambda node: id(node) in known)
    ids = [id(node) for node in picked]
    for node in picked:
        if id(node) not in known:
            raise TreeError(
                f"tree.at: where must return nodes of the tree, got {type(node).__name__} "
                f"({node!r:.60}). Look the node up and do nothing else."
            )
        if known[id(node)] > 1:
            raise TreeError(
                f"tree.at: {node!r:.60} stands at {known[id(node)]} places of the tree, so it is "
                "not known which is meant. Pick the node around it."
            )
    if not picked:
        raise TreeError("tree.at: where returned no node of the tree. Return at least one.")
    if len(set(ids)) != len(ids):
        raise TreeError("tree.at: where returned one node twice. Return each node once.")
    if replace_fn is _UNSPECIFIED:
        new = picked_tree.flatten_up_to(replace)
    else:
        new = [replace_fn(_unboxed(node)) for node in picked]
    new_of = dict(zip(ids, new, strict=True))
    found, around = flatten(boxed, lambda node: id(node) in new_of)
    return unflatten(around, [new_of[id(x)] if id(x) in new_of else x.leaf for x in found])


def _unboxed(node: Any) -> Any:
    boxes, treedef = flatten(node)
    return unflatten(treedef, [b.leaf for b in boxes])


class _EmptyNode:
    """Stands for an empty dict in a flat one."""

    def __repr__(self) -> str:
        return "empty_node"


empty_node = _EmptyNode()


@api_boundary
def flatten_dict(
    xs: Mapping[Any, Any],
    keep_empty_nodes: bool = False,
    is_leaf: Callable[[tuple, Any], bool] | None = None,
    sep: str | None = None,
) -> dict[Any, Any]:
    """A dict of dicts as one dict with the paths as keys.

    Args:
        xs: a dict; the dicts in it are taken apart, and nothing else.
        keep_empty_nodes: keep empty dicts, as `empty_node`.
        is_leaf: is_leaf(path, value) true: keep that dict whole.
        sep: join the keys of a path by this; None leaves them tuples.

    Raises:
        ArgumentError: xs is no dict.

    Example:
        >>> mgefn.tree.flatten_dict({"a": {"b": 1, "c": 2}, "d": 3}, sep=".")
        {'a.b': 1, 'a.c': 2, 'd': 3}
    """
    if not isinstance(xs, Mapping):
        raise ArgumentError(f"flatten_dict: needs a dict, got {type(xs).__name__}.")
    flat: dict[Any, Any] = {}

    def key_of(path: tuple) -> Any:
        return path if sep is None else sep.join(map(str, path))

    def visit(x: Any, path: tuple) -> None:
        if not isinstance(x, Mapping) or (is_leaf is not None and is_leaf(path, x)):
            flat[key_of(path)] = x
            return
        if not x and keep_empty_nodes and path:
            flat[key_of(path)] = empty_node
        for key, value in x.items():
            visit(value, (*path, key))

    visit(xs, ())
    return flat


@api_boundary
def unflatten_dict(xs: Mapping[Any, Any], sep: str | None = None) -> dict[Any, Any]:
    """The dict of dicts that `flatten_dict` made flat.

    Args:
        xs: a dict with paths as keys.
        sep: what joins the keys of a path; None: paths are tuples.

    Raises:
        ArgumentError: a path leads through a value that is no dict.

    Example:
        >>> mgefn.tree.unflatten_dict({"a.b": 1, "d": 3}, sep=".")
        {'a': {'b': 1}, 'd': 3}
    """
    if not isinstance(xs, Mapping):
        raise ArgumentError(f"unflatten_dict: needs a dict, got {type(xs).__name__}.")
    result: dict[Any, Any] = {}
    for path, value in xs.items():
        keys: Iterable[Any] = path.split(sep) if sep is not None else path
        *outer, last = keys
        inside = result
        for key in outer:
            inside = inside.setdefault(key, {})
            if not isinstance(inside, dict):
                raise ArgumentError(
                    f"unflatten_dict: the path {path!r} leads through a value at {key!r}. Rename "
                    "one of them."
                )
        inside[last] = {} if value is empty_node else value
    return result


__all__ = ["at", "empty_node", "flatten_dict", "unflatten_dict"]
