"""Pytrees: nested containers, taken apart into leaves and a structure and put together again.

Nodes are None (without children), tuple, list, dict, OrderedDict, defaultdict, deque, named tuples,
the structs of C such as time.struct_time, and every registered class; all else is a leaf. Dicts are
read in the order of their sorted keys. The functions have the names and arguments of `jax.tree`;
`mgefn.tree_util` has them under their other names. optree does the work, in C++, and is imported at
the first use; registrations made before wait for it.

Invariants: registrations live in optree's namespace "mgefn", seen by no other user of optree.
A treedef never holds leaves. Errors about structure are TreeErrors that name the key path.

Where the trees differ from JAX's:
- deque and time.struct_time are nodes; in JAX they are leaves. Pass `is_leaf` to keep them whole.
- Dict keys that cannot be compared are ordered by type name and then by value; JAX refuses them.
- unflatten gives a dict the insertion order of the dict that was flattened; JAX the sorted order.
  Treedefs of dicts with the same keys are equal whatever their order.
- Nesting deeper than about 1000 raises RecursionError; functions with key paths count no depth.
- Named tuples print as `P(x=*, y=*)` in a treedef.

Source: optree, optree.readthedocs.io; JAX pytrees, docs.jax.dev/en/latest/pytrees.html.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mgefn.errors import MissingNameError
from mgefn.tree.comparing import PyTree, check, equal, pformat, pprint
from mgefn.tree.editing import at, empty_node, flatten_dict, unflatten_dict
from mgefn.tree.flattening import (
    PyTreeDef,
    all,
    all_leaves,
    broadcast,
    flatten,
    is_none,
    leaves,
    map,
    prefix_leaves,
    reduce,
    reduce_associative,
    structure,
    structure_difference,
    transpose,
    treedef_children,
    treedef_is_leaf,
    treedef_tuple,
    unflatten,
)
from mgefn.tree.keys import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    KeyEntry,
    KeyPath,
    SequenceKey,
    keystr,
)
from mgefn.tree.nodes import flatten_one_level
from mgefn.tree.partial import Partial
from mgefn.tree.paths import flatten_with_path, key_paths, leaves_with_path, map_with_path
from mgefn.tree.records import dataclass, static
from mgefn.tree.registry import (
    register_dataclass,
    register_pytree_node,
    register_pytree_node_class,
    register_pytree_with_keys,
    register_pytree_with_keys_class,
    register_static,
)

__all__ = [
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "KeyEntry",
    "KeyPath",
    "Partial",
    "PyTree",
    "PyTreeDef",
    "SequenceKey",
    "all",
    "all_leaves",
    "at",
    "broadcast",
    "check",
    "dataclass",
    "empty_node",
    "equal",
    "flatten",
    "flatten_dict",
    "flatten_one_level",
    "flatten_with_path",
    "is_none",
    "key_paths",
    "keystr",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "pformat",
    "pprint",
    "prefix_leaves",
    "reduce",
    "reduce_associative",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_pytree_with_keys",
    "register_pytree_with_keys_class",
    "register_static",
    "static",
    "structure",
    "structure_difference",
    "transpose",
    "treedef_children",
    "treedef_is_leaf",
    "treedef_tuple",
    "unflatten",
    "unflatten_dict",
]


if not TYPE_CHECKING:  # type checkers take a module with __getattr__ to have every name

    def __getattr__(name: str) -> Any:
        raise MissingNameError(__name__, name, __all__)
