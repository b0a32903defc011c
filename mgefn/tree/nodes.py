"""One level of a tree: the children of its root, and their keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from mgefn.errors import TreeError, api_boundary
from mgefn.tree.keys import DictKey, FlattenedIndexKey, GetAttrKey, KeyEntry, SequenceKey
from mgefn.tree.registry import DICTS, NAMESPACE, REGISTERED, SEQUENCES, load_optree

IsLeaf: TypeAlias = Callable[[Any], bool] | None


def _keys(kind: type, entries: Sequence[Any]) -> list[KeyEntry]:
    """Keys of a node of the given type; `entries` are its bare indices, keys or fields."""
    if kind in DICTS:
        return [DictKey(entry) for entry in entries]
    if kind in SEQUENCES:
        return [SequenceKey(i) for i in range(len(entries))]
    fields = getattr(kind, "_fields", None)
    if kind not in REGISTERED and fields is not None and len(fields) == len(entries):
        return [GetAttrKey(field) for field in fields]
    if kind not in REGISTERED and issubclass(kind, tuple):  # struct_time and its like
        return [GetAttrKey(field) for field in load_optree().structseq_fields(kind)]
    return [FlattenedIndexKey(i) for i in range(len(entries))]


def spec_keys(spec: Any) -> list[KeyEntry]:
    """Keys of the root of a structure; a class with keys of its own shows places here."""
    if spec.is_leaf():
        return []
    node = REGISTERED.get(spec.type)
    if node is not None and node.field_names is not None:
        return [GetAttrKey(name) for name in node.field_names]
    return _keys(spec.type, spec.entries())


def one_level(
    tree: Any, is_leaf: IsLeaf = None
) -> tuple[list[KeyEntry], list[Any], Any, type] | None:
    """(keys, children, metadata, type) of the root of a tree, or None if it is a leaf."""
    optree = load_optree()
    if is_leaf is not None and is_leaf(tree):
        return None
    kind = type(tree)
    node = REGISTERED.get(kind)
    if node is not None:
        if node.with_keys is not None:
            pairs, metadata = node.with_keys(tree)
            pairs = list(pairs)
            return [key for key, _ in pairs], [child for _, child in pairs], metadata, kind
        children, metadata = node.flatten(tree)
        children = list(children)
        return _keys(kind, range(len(children))), children, metadata, kind
    if optree.tree_is_leaf(tree, namespace=NAMESPACE):
        return None
    flat = optree.tree_flatten_one_level(tree, namespace=NAMESPACE)
    return _keys(kind, flat.entries), list(flat.children), flat.metadata, kind


@api_boundary
def flatten_one_level(tree: Any) -> tuple[list[Any], Any]:
    """The children of the root, and its metadata.

    Raises:
        TreeError: the tree is a leaf.
    """
    level = one_level(tree)
    if level is None:
        raise TreeError(
            f"flatten_one_level: needs a node, got the leaf {type(tree).__name__}. "
            "Register the class, or test with all_leaves before."
        )
    return level[1], level[2]
