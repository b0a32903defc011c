"""The functions of `mgefn.tree` under the names they have in jax.tree_util."""

from __future__ import annotations

from mgefn.tree import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    KeyEntry,
    KeyPath,
    Partial,
    PyTreeDef,
    SequenceKey,
    all_leaves,
    flatten_one_level,
    keystr,
    register_dataclass,
    register_pytree_node,
    register_pytree_node_class,
    register_pytree_with_keys,
    register_pytree_with_keys_class,
    register_static,
    treedef_children,
    treedef_is_leaf,
    treedef_tuple,
)
from mgefn.tree import all as tree_all
from mgefn.tree import broadcast as tree_broadcast
from mgefn.tree import flatten as tree_flatten
from mgefn.tree import flatten_with_path as tree_flatten_with_path
from mgefn.tree import leaves as tree_leaves
from mgefn.tree import leaves_with_path as tree_leaves_with_path
from mgefn.tree import map as tree_map
from mgefn.tree import map_with_path as tree_map_with_path
from mgefn.tree import reduce as tree_reduce
from mgefn.tree import reduce_associative as tree_reduce_associative
from mgefn.tree import structure as tree_structure
from mgefn.tree import transpose as tree_transpose
from mgefn.tree import unflatten as tree_unflatten

__all__ = [
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "KeyEntry",
    "KeyPath",
    "Partial",
    "PyTreeDef",
    "SequenceKey",
    "all_leaves",
    "flatten_one_level",
    "keystr",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_pytree_with_keys",
    "register_pytree_with_keys_class",
    "register_static",
    "tree_all",
    "tree_broadcast",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_with_path",
    "tree_reduce",
    "tree_reduce_associative",
    "tree_structure",
    "tree_transpose",
    "tree_unflatten",
    "treedef_children",
    "treedef_is_leaf",
    "treedef_tuple",
]
