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

import builtins
import collections
import functools
import importlib
import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

from mgefn.errors import ArgumentError, TreeError, api_boundary, leave_api

__all__ = [
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "KeyEntry",
    "KeyPath",
    "Partial",
    "PyTreeDef",
    "SequenceKey",
    "all",
    "all_leaves",
    "broadcast",
    "flatten",
    "flatten_one_level",
    "flatten_with_path",
    "is_none",
    "key_paths",
    "keystr",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "prefix_leaves",
    "reduce",
    "reduce_associative",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_pytree_with_keys",
    "register_pytree_with_keys_class",
    "register_static",
    "structure",
    "structure_difference",
    "transpose",
    "treedef_children",
    "treedef_is_leaf",
    "treedef_tuple",
    "unflatten",
]

T = TypeVar("T")
C = TypeVar("C", bound=type)
IsLeaf: TypeAlias = Callable[[Any], bool] | None

_NAMESPACE = "mgefn"


class _Unspecified:
    """The type of an argument that was not given, where None could be meant."""

    def __repr__(self) -> str:
        return "<unspecified>"


_UNSPECIFIED = _Unspecified()

# --- Loading optree ------------------------------------------------------------------------------

# The functions of optree, replaced by the real ones on the first call of either.
_optree: Any = None
_load_lock = threading.RLock()


def _load() -> Any:
    """Import optree, enter the waiting registrations, and point the functions below at it."""
    global _flatten, _optree
    with _load_lock:
        if _optree is None:
            # In a thread of its own, where no KeyboardInterrupt can cut it short: an extension
            # module whose first import is cut short can't be imported again.
            importing = threading.Thread(target=importlib.import_module, args=("optree",))
            importing.start()
            importing.join()
            import optree  # here, because it costs a sixth of `import numpy`

            for node in _nodes.values():
                _enter(optree, node)
            _flatten = functools.partial(optree.tree_flatten, namespace=_NAMESPACE)
            _optree = optree
    return _optree


def _flatten_first(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], Any]:
    _load()
    return _flatten(tree, is_leaf)


_flatten: Callable[..., tuple[list[Any], Any]] = _flatten_first


# --- Treedefs ------------------------------------------------------------------------------------


class PyTreeDef:
    """The structure of a pytree: hashable, comparable, without the leaves.

    Its hash covers the metadata of registered classes, so unhashable metadata raises TypeError.
    `spec` is optree's object behind it, which compares alike and whose hash is quicker, but leaves
    the metadata out: a cache may be keyed by it if hash(treedef) is taken before an entry is made.
    """

    __slots__ = ("spec",)

    def __init__(self, spec: Any) -> None:
        self.spec = spec

    @property
    def num_leaves(self) -> int:
        """Number of leaves."""
        return self.spec.num_leaves

    @property
    def num_nodes(self) -> int:
        """Number of nodes, leaves and the root included."""
        return self.spec.num_nodes

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree of this structure with the given leaves."""
        return unflatten(self, leaves)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The subtrees of `tree` at the places where this structure has leaves.

        Raises:
            TreeError: this structure is no prefix of the tree.
        """
        return _flatten_up_to("flatten_up_to", self.spec, tree)

    def children(self) -> list[PyTreeDef]:
        """The structures of the root's children."""
        return [PyTreeDef(child) for child in self.spec.children()]

    def node_data(self) -> tuple[type, Any] | None:
        """(type of the root, its keys or metadata), or None for a leaf."""
        if self.spec.is_leaf():
            return None
        return self.spec.type, self.spec.entries()

    def compose(self, inner: PyTreeDef) -> PyTreeDef:
        """This structure with `inner` in place of each leaf."""
        return PyTreeDef(self.spec.compose(inner.spec))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PyTreeDef):
            return NotImplemented
        return self.spec == other.spec

    def __hash__(self) -> int:
        if not self.spec.namespace:  # no registered class in it
            return hash(self.spec)
        metadata: list[Any] = []

        def visit(kind: type, data: Any, children: Any) -> None:
            if kind in _nodes:
                metadata.append(data)

        self.spec.walk([None] * self.num_leaves, visit)
        return hash((self.spec, *metadata))

    def __repr__(self) -> str:
        text = repr(self.spec).removeprefix("PyTreeSpec(").removesuffix(")")
        text = text.removesuffix(f", namespace='{_NAMESPACE}'")
        return f"PyTreeDef({text.replace('CustomTreeNode(', 'CustomNode(')})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickled as a tree whose leaves are placeholders: optree's specs need its own registry.
        return _structure_of_placeholders, (self.unflatten([_PLACEHOLDER] * self.num_leaves),)


class _Placeholder:
    """Stands for a leaf in a pickled treedef; unpickles to the one instance."""

    def __reduce__(self) -> str:
        return "_PLACEHOLDER"

    def __repr__(self) -> str:
        return "*"


_PLACEHOLDER = _Placeholder()


def _structure_of_placeholders(tree: Any) -> PyTreeDef:
    return structure(tree, is_leaf=lambda node: node is _PLACEHOLDER)


@api_boundary
def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """The structure of a tuple whose items have the given structures."""
    specs = [treedef.spec for treedef in treedefs]
    return PyTreeDef(_load().treespec_tuple(specs, namespace=_NAMESPACE))


@api_boundary
def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """The structures of the root's children."""
    return treedef.children()


@api_boundary
def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Whether the structure is a single node: a leaf, or a container without children."""
    return treedef.num_nodes == 1


# --- Flatten, unflatten, map ---------------------------------------------------------------------


def flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], PyTreeDef]:
    """Take a tree apart.

    Args:
        tree: any object; one that is no container is a single leaf.
        is_leaf: called on each node on the way down; where it is true the node is kept whole.
    Returns:
        The leaves, in order, and the structure.
    Example:
        >>> flatten({"b": (1, 2), "a": 3})
        ([3, 1, 2], PyTreeDef({'a': *, 'b': (*, *)}))
    """
    try:
        flat, spec = _flatten(tree, is_leaf)
        return flat, PyTreeDef(spec)
    except BaseException as e:
        leave_api(e)
        raise


def leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of a tree, in order."""
    try:
        return _flatten(tree, is_leaf)[0]
    except BaseException as e:
        leave_api(e)
        raise


def structure(tree: Any, is_leaf: IsLeaf = None) -> PyTreeDef:
    """The structure of a tree."""
    try:
        return PyTreeDef(_flatten(tree, is_leaf)[1])
    except BaseException as e:
        leave_api(e)
        raise


def unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """Put a tree together, the inverse of `flatten`.

    Raises:
        TreeError: the number of leaves is not that of the structure.
    """
    try:
        try:
            return treedef.spec.unflatten(leaves)
        except ValueError as exc:
            given = list(leaves) if isinstance(leaves, Sequence) else None
            if given is not None and len(given) == treedef.num_leaves:
                raise  # from the constructor of a registered class
            if given is None and not str(exc).startswith(("Too few leaves", "Too many leaves")):
                raise
            got = "another number" if given is None else str(len(given))
            raise TreeError(
                f"unflatten: {treedef} needs {treedef.num_leaves} leaves, got {got}. "
                "Pass the leaves that flatten gave, one for one."
            ) from None
    except BaseException as e:
        leave_api(e)
        raise


def _flatten_up_to(operation: str, spec: Any, tree: Any) -> list[Any]:
    try:
        return spec.flatten_up_to(tree)
    except ValueError:
        difference = _prefix_difference(spec, tree, (), ("the first", "the second"))
        if not difference:
            raise
        raise TreeError(
            f"{operation}: the trees must have one structure, but {difference}. "
            "Make them agree, or mark what should stay whole with is_leaf."
        ) from None


def map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """Apply `f` to each leaf, and to what stands at its place in the other trees.

    Args:
        f: function of as many arguments as there are trees.
        tree: gives the structure of the result.
        rest: trees of which `tree` is a prefix: f gets the subtrees at its leaves.
        is_leaf: as in `flatten`, for the first tree.
    Raises:
        TreeError: another tree has not the structure of the first; names the key path.
    Example:
        >>> map(lambda x, y: x + y, {"a": 1}, {"a": 2})
        {'a': 3}
    """
    try:
        flat, spec = _flatten(tree, is_leaf)
        if not rest:
            return spec.unflatten([f(leaf) for leaf in flat])
        columns = [_flatten_up_to("tree.map", spec, other) for other in rest]
        return spec.unflatten([f(*row) for row in zip(flat, *columns, strict=True)])
    except BaseException as e:
        leave_api(e)
        raise


@api_boundary
def reduce(
    function: Callable[[Any, Any], Any],
    tree: Any,
    initializer: Any = _UNSPECIFIED,
    is_leaf: IsLeaf = None,
) -> Any:
    """functools.reduce over the leaves.

    Raises:
        TreeError: no leaves and no initializer.
    """
    flat = leaves(tree, is_leaf)
    if initializer is not _UNSPECIFIED:
        return functools.reduce(function, flat, initializer)
    if not flat:
        raise TreeError("tree.reduce: needs a leaf, got a tree without any. Pass an initializer.")
    return functools.reduce(function, flat)


@api_boundary
def reduce_associative(
    operation: Callable[[Any, Any], Any],
    tree: Any,
    *,
    identity: Any = _UNSPECIFIED,
    is_leaf: IsLeaf = None,
) -> Any:
    """Reduce the leaves by an associative operation, pairwise, so that chains are short.

    Raises:
        TreeError: no leaves and no identity.
    """
    flat = leaves(tree, is_leaf)
    if not flat:
        if identity is _UNSPECIFIED:
            raise TreeError(
                "tree.reduce_associative: needs a leaf, got a tree without any. Pass identity."
            )
        return identity
    while len(flat) > 1:
        pairs = [operation(flat[i], flat[i + 1]) for i in range(0, len(flat) - 1, 2)]
        flat = pairs + flat[len(pairs) * 2 :]
    return flat[0]


@api_boundary
def all(tree: Any, *, is_leaf: IsLeaf = None) -> bool:
    """Whether all leaves are true."""
    return builtins.all(leaves(tree, is_leaf))


@api_boundary
def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf = None) -> bool:
    """Whether every item is a leaf."""
    return builtins.all(_one_level(item, is_leaf) is None for item in iterable)


@api_boundary
def transpose(
    outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any
) -> Any:
    """Turn a tree of trees inside out.

    Args:
        outer_treedef: structure of the outside now.
        inner_treedef: structure of the inside now; None takes it from the first subtree.
        pytree_to_transpose: a tree of the outer structure whose leaves are inner trees.
    Raises:
        TreeError: the tree is not the one structure inside the other.
    Example:
        >>> transpose(structure([0, 0]), structure({"a": 0}), [{"a": 1}, {"a": 2}])
        {'a': [1, 2]}
    """
    rows = _flatten_up_to("tree.transpose", outer_treedef.spec, pytree_to_transpose)
    if inner_treedef is None:
        if not rows:
            raise TreeError(
                "tree.transpose: the outer structure has no leaves to take the inner one from. "
                "Pass inner_treedef."
            )
        inner_treedef = structure(rows[0])
    columns = [_flatten_up_to("tree.transpose", inner_treedef.spec, row) for row in rows]
    if not columns:
        return unflatten(inner_treedef, [unflatten(outer_treedef, ())] * inner_treedef.num_leaves)
    return unflatten(
        inner_treedef, [unflatten(outer_treedef, items) for items in zip(*columns, strict=True)]
    )


@api_boundary
def broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None) -> Any:
    """A tree of the structure of `full_tree` where each leaf is that of the prefix above it.

    Raises:
        TreeError: the first tree is no prefix of the second.
    Example:
        >>> broadcast((1, 2), ({"a": 0, "b": 0}, 0))
        ({'a': 1, 'b': 1}, 2)
    """
    prefix, spec = _flatten(prefix_tree, is_leaf)
    flat: list[Any] = []
    subtrees = _flatten_up_to("tree.broadcast", spec, full_tree)
    for leaf, subtree in zip(prefix, subtrees, strict=True):
        flat += [leaf] * len(leaves(subtree, is_leaf))
    return unflatten(structure(full_tree, is_leaf), flat)


def is_none(x: Any) -> bool:
    """Whether x is None: an `is_leaf` that keeps the places of None."""
    return x is None


@api_boundary
def prefix_leaves(prefix: Any, tree: Any, what: str, is_leaf: IsLeaf = None) -> list[Any]:
    """For each leaf of `tree`, the leaf of `prefix` that stands for it.

    None counts as a leaf of the prefix: in_axes=(0, None) says something about both arguments.

    Args:
        prefix: a tree that ends where `tree` goes on.
        tree: the full tree, or its PyTreeDef.
        what: the operation and the prefix in it, "vmap: in_axes", to open the message.
        is_leaf: as in `flatten`, for the prefix.
    Raises:
        TreeError: the prefix and the tree part; names the key path.
    Example:
        >>> prefix_leaves((0, None), ([1, 2], 3), "vmap: in_axes")
        [0, 0, None]
    """
    stops = is_none if is_leaf is None else lambda node: node is None or is_leaf(node)
    flat, spec = _flatten(prefix, stops)
    if isinstance(tree, PyTreeDef):
        # Descend by structure alone: a registered class may not accept placeholders.
        return _prefix_of_spec(flat, spec, tree.spec, what)
    if spec.is_leaf():
        return flat * len(_flatten(tree, None)[0])
    try:
        subtrees = spec.flatten_up_to(tree)
    except ValueError:
        _raise_prefix_error(what, _prefix_difference(spec, tree, (), _PREFIX_NAMES))
        raise
    result: list[Any] = []
    for leaf, subtree in zip(flat, subtrees, strict=True):
        result += [leaf] * len(_flatten(subtree, None)[0])
    return result


_PREFIX_NAMES = ("the prefix", "the tree")


def _raise_prefix_error(what: str, difference: str) -> None:
    if difference:
        raise TreeError(
            f"{what} must be a prefix of the tree it is for, but {difference}. "
            "Give one leaf for a whole subtree, or a container of its kind and size."
        ) from None


def _prefix_of_spec(flat: list[Any], prefix: Any, spec: Any, what: str) -> list[Any]:
    result: list[Any] = []
    remaining = iter(flat)

    def descend(prefix: Any, spec: Any, path: KeyPath) -> None:
        if prefix.is_leaf():
            result.extend([next(remaining)] * spec.num_leaves)
            return
        _raise_prefix_error(what, _node_difference(prefix, spec, path, _PREFIX_NAMES))
        for key, inner, child in zip(
            _spec_keys(prefix), prefix.children(), spec.children(), strict=True
        ):
            descend(inner, child, (*path, key))

    descend(prefix, spec, ())
    return result


# --- Key paths -----------------------------------------------------------------------------------


class _Key:
    """A step from a node to a child. Equal when of the same class with the same value."""

    __slots__ = ("_value",)
    _field = "key"

    def __init__(self, value: Any) -> None:
        object.__setattr__(self, "_value", value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self._value == other._value

    def __hash__(self) -> int:
        return hash((type(self), self._value))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._field}={self._value!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._value,)


class DictKey(_Key):
    """A key of a dict, shown `['w']`."""

    __slots__ = ()
    __match_args__ = ("key",)

    def __init__(self, key: Hashable) -> None:
        super().__init__(key)

    @property
    def key(self) -> Any:
        """The key."""
        return self._value

    def __str__(self) -> str:
        return f"[{self._value!r}]"


class SequenceKey(_Key):
    """An index into a tuple, list or deque, shown `[0]`."""

    __slots__ = ()
    __match_args__ = ("idx",)
    _field = "idx"

    def __init__(self, idx: int) -> None:
        super().__init__(idx)

    @property
    def idx(self) -> int:
        """The index."""
        return self._value

    def __str__(self) -> str:
        return f"[{self._value!r}]"


class GetAttrKey(_Key):
    """An attribute of a named tuple, dataclass or registered class, shown `.w`."""

    __slots__ = ()
    __match_args__ = ("name",)
    _field = "name"

    def __init__(self, name: str) -> None:
        super().__init__(name)

    @property
    def name(self) -> str:
        """The attribute's name."""
        return self._value

    def __str__(self) -> str:
        return f".{self._value}"


class FlattenedIndexKey(_Key):
    """Place among the children of a class registered without keys, shown `[<flat index 0>]`."""

    __slots__ = ()
    __match_args__ = ("key",)

    def __init__(self, key: int) -> None:
        super().__init__(key)

    @property
    def key(self) -> int:
        """The place, from 0."""
        return self._value

    def __str__(self) -> str:
        return f"[<flat index {self._value}>]"


# A registered class may use hashable keys of its own as well.
KeyEntry: TypeAlias = Any
KeyPath: TypeAlias = tuple[KeyEntry, ...]


@api_boundary
def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """A key path as text.

    Args:
        keys: a path, as `flatten_with_path` gives it.
        simple: show the bare keys, without brackets and dots.
        separator: text between the keys.
    Example:
        >>> keystr((DictKey("layers"), SequenceKey(0)))
        "['layers'][0]"
        >>> keystr((DictKey("layers"), SequenceKey(0)), simple=True, separator="/")
        'layers/0'
    """
    if simple:
        return separator.join(str(k._value) if isinstance(k, _Key) else str(k) for k in keys)
    return separator.join(str(key) for key in keys)


_SEQUENCES = (tuple, list, collections.deque)
_DICTS = (dict, collections.OrderedDict, collections.defaultdict)


def _keys(kind: type, entries: Sequence[Any]) -> list[KeyEntry]:
    """Keys of a node of the given type; `entries` are its bare indices, keys or fields."""
    if kind in _DICTS:
        return [DictKey(entry) for entry in entries]
    if kind in _SEQUENCES:
        return [SequenceKey(i) for i in range(len(entries))]
    fields = getattr(kind, "_fields", None)
    if kind not in _nodes and fields is not None and len(fields) == len(entries):
        return [GetAttrKey(field) for field in fields]
    if kind not in _nodes and issubclass(kind, tuple):  # struct_time and its like
        return [GetAttrKey(field) for field in _load().structseq_fields(kind)]
    return [FlattenedIndexKey(i) for i in range(len(entries))]


def _spec_keys(spec: Any) -> list[KeyEntry]:
    """Keys of the root of a structure; a class with keys of its own shows places here."""
    if spec.is_leaf():
        return []
    node = _nodes.get(spec.type)
    if node is not None and node.field_names is not None:
        return [GetAttrKey(name) for name in node.field_names]
    return _keys(spec.type, spec.entries())


def _one_level(
    tree: Any, is_leaf: IsLeaf = None
) -> tuple[list[KeyEntry], list[Any], Any, type] | None:
    """(keys, children, metadata, type) of the root of a tree, or None if it is a leaf."""
    optree = _load()
    if is_leaf is not None and is_leaf(tree):
        return None
    kind = type(tree)
    node = _nodes.get(kind)
    if node is not None:
        if node.with_keys is not None:
            pairs, metadata = node.with_keys(tree)
            pairs = list(pairs)
            return [key for key, _ in pairs], [child for _, child in pairs], metadata, kind
        children, metadata = node.flatten(tree)
        children = list(children)
        return _keys(kind, range(len(children))), children, metadata, kind
    if optree.tree_is_leaf(tree, namespace=_NAMESPACE):
        return None
    flat = optree.tree_flatten_one_level(tree, namespace=_NAMESPACE)
    return _keys(kind, flat.entries), list(flat.children), flat.metadata, kind


@api_boundary
def flatten_one_level(tree: Any) -> tuple[list[Any], Any]:
    """The children of the root, and its metadata.

    Raises:
        TreeError: the tree is a leaf.
    """
    level = _one_level(tree)
    if level is None:
        raise TreeError(
            f"flatten_one_level: needs a node, got the leaf {type(tree).__name__}. "
            "Register the class, or test with all_leaves before."
        )
    return level[1], level[2]


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
        level = None if stops and stops[-1] else _one_level(node)
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
    columns = [_flatten_up_to("tree.map_with_path", treedef.spec, other) for other in rest]
    rows = zip(pairs, *columns, strict=True)
    return unflatten(treedef, [f(path, leaf, *others) for (path, leaf), *others in rows])


# --- Where two trees part ------------------------------------------------------------------------


def _shown(spec: Any) -> str:
    if spec.is_leaf():
        return "a leaf"
    if spec.type is type(None):
        return "None"
    if spec.type in _DICTS:
        return f"{spec.type.__name__} with keys {spec.entries()}"
    return f"{spec.type.__name__} of {spec.num_children}"


def _at(path: KeyPath) -> str:
    return f"at {keystr(path)}" if path else "at the root"


def _node_difference(a: Any, b: Any, path: KeyPath, names: tuple[str, str]) -> str:
    """How the roots of two structures, so named, differ; empty if they agree."""
    same = a.is_leaf() == b.is_leaf() and a.type is b.type and a.num_children == b.num_children
    if same and a.type in _DICTS:
        same = a.entries() == b.entries()
    if same:
        # What is left is metadata. Compare the nodes with leaves for children.
        shallow_a, shallow_b = a.one_level(), b.one_level()
        if shallow_a is None or shallow_a == shallow_b:
            return ""
        return (
            f"{_at(path)} {names[0]} has {PyTreeDef(shallow_a)!r} and {names[1]} "
            f"{PyTreeDef(shallow_b)!r}: their static fields differ"
        )
    return f"{_at(path)} {names[0]} has {_shown(a)} and {names[1]} {_shown(b)}"


def structure_difference(
    a: Any, b: Any, names: tuple[str, str] = ("the first", "the second")
) -> str:
    """Where two structures part, in words; empty if they are equal.

    Args:
        a, b: trees, or their PyTreeDefs.
        names: what to call them.
    Example:
        >>> structure_difference({"w": (1, 2)}, {"w": [1, 2]})
        "at ['w'] the first has tuple of 2 and the second list of 2"
    """
    spec_a = a.spec if isinstance(a, PyTreeDef) else structure(a).spec
    spec_b = b.spec if isinstance(b, PyTreeDef) else structure(b).spec
    if spec_a == spec_b:
        return ""
    stack: list[tuple[KeyPath, Any, Any]] = [((), spec_a, spec_b)]
    while stack:
        path, x, y = stack.pop()
        difference = _node_difference(x, y, path, names)
        if difference:
            return difference
        steps = list(zip(_spec_keys(x), x.children(), y.children(), strict=True))
        stack.extend(((*path, key), u, v) for key, u, v in reversed(steps))
    return f"{names[0]} is {PyTreeDef(spec_a)!r} and {names[1]} {PyTreeDef(spec_b)!r}"


def _prefix_difference(spec: Any, tree: Any, path: KeyPath, names: tuple[str, str]) -> str:
    """Where a structure is not a prefix of a tree, in words; empty if it is."""
    if spec.is_leaf():
        return ""
    root = structure(tree).spec
    difference = _node_difference(spec, root, path, names)
    level = _one_level(tree)
    if difference or level is None:
        return difference
    for key, inner, child in zip(level[0], spec.children(), level[1], strict=True):
        difference = _prefix_difference(inner, child, (*path, key), names)
        if difference:
            return difference
    return ""


# --- Registration --------------------------------------------------------------------------------

_BUILTIN_NODES = frozenset({type(None), *_SEQUENCES, *_DICTS})


class _Node:
    """What is known of a registered class."""

    __slots__ = ("cls", "field_names", "flatten", "unflatten", "with_keys")

    def __init__(
        self,
        cls: type,
        flatten: Callable[[Any], tuple[Iterable[Any], Any]],
        unflatten: Callable[[Any, Iterable[Any]], Any],
        with_keys: Callable[[Any], tuple[Iterable[tuple[KeyEntry, Any]], Any]] | None,
        field_names: tuple[str, ...] | None = None,
    ) -> None:
        self.cls = cls
        self.flatten = flatten
        self.unflatten = unflatten
        self.with_keys = with_keys
        self.field_names = field_names


_nodes: dict[type, _Node] = {}


def _enter(optree: Any, node: _Node) -> None:
    optree.register_pytree_node(node.cls, node.flatten, node.unflatten, namespace=_NAMESPACE)


def _register(operation: str, node: _Node) -> None:
    cls = node.cls
    if not isinstance(cls, type):
        raise TreeError(f"{operation}: needs a class, got {cls!r}. Pass the class itself.")
    with _load_lock:
        if cls in _nodes or cls in _BUILTIN_NODES:
            raise TreeError(
                f"{operation}: a class is registered once, and {cls.__qualname__} is one already. "
                "Remove the second registration."
            )
        if _optree is not None:
            _enter(_optree, node)
        _nodes[cls] = node


@api_boundary
def register_pytree_node(
    nodetype: type[T],
    flatten_func: Callable[[T], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, Iterable[Any]], T],
    flatten_with_keys_func: Callable[[T], tuple[Iterable[tuple[KeyEntry, Any]], Any]] | None = None,
) -> None:
    """Make a class a node of pytrees.

    Args:
        nodetype: the class; instances of subclasses stay leaves.
        flatten_func: node -> (children, metadata); the metadata is hashable and comparable.
        unflatten_func: (metadata, children) -> node. It must accept any objects as children.
        flatten_with_keys_func: node -> ((key, child) pairs, metadata), for key paths.
    Raises:
        TreeError: the class is a node already.
    """
    node = _Node(nodetype, flatten_func, unflatten_func, flatten_with_keys_func)
    _register("register_pytree_node", node)


@api_boundary
def register_pytree_with_keys(
    nodetype: type[T],
    flatten_with_keys: Callable[[T], tuple[Iterable[tuple[KeyEntry, Any]], Any]],
    unflatten_func: Callable[[Any, Iterable[Any]], T],
    flatten_func: Callable[[T], tuple[Iterable[Any], Any]] | None = None,
) -> None:
    """Make a class a node with keys of its own; see register_pytree_node.

    Without `flatten_func` the keys are made, and dropped, on each flatten.
    """

    def without_keys(tree: T) -> tuple[Iterable[Any], Any]:
        pairs, metadata = flatten_with_keys(tree)
        return [child for _, child in pairs], metadata

    node = _Node(nodetype, flatten_func or without_keys, unflatten_func, flatten_with_keys)
    _register("register_pytree_with_keys", node)


@api_boundary
def register_pytree_node_class(cls: C) -> C:
    """Class decorator: a node by its methods tree_flatten(self), giving (children, metadata), and
    tree_unflatten(metadata, children), a class method.
    """
    node = _Node(cls, _method("tree_flatten"), cls.tree_unflatten, None)
    _register("register_pytree_node_class", node)
    return cls


@api_boundary
def register_pytree_with_keys_class(cls: C) -> C:
    """Class decorator: as register_pytree_node_class, with tree_flatten_with_keys(self) too.

    tree_flatten may be left out.
    """
    plain = _method("tree_flatten") if hasattr(cls, "tree_flatten") else None
    register_pytree_with_keys(
        cls,
        _method("tree_flatten_with_keys"),
        cls.tree_unflatten,
        plain,
    )
    return cls


def _method(name: str) -> Callable[[Any], Any]:
    return lambda node: getattr(node, name)()


@api_boundary
def register_static(cls: C) -> C:
    """Class decorator: instances are nodes without children, part of the structure.

    The class must be hashable and comparable: a treedef compares the instances.
    """
    _register("register_static", _Node(cls, lambda x: ((), x), lambda x, _: x, None))
    return cls


@api_boundary
def register_dataclass(
    nodetype: C,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> C:
    """Make a dataclass a node; also a class decorator.

    Args:
        nodetype: a dataclass, or a class whose constructor takes the fields as keywords.
        data_fields: names of the attributes that are children.
        meta_fields: names of those that are part of the structure: static, hashable. When both are
            None, a field made by dataclasses.field(metadata={"static": True}) is one of these, and
            the others are data.
        drop_fields: names of those that are not kept.
    Returns:
        The class.
    Raises:
        TreeError: a field is missing from the lists, named twice or unknown.
    """
    fields = getattr(nodetype, "__dataclass_fields__", None)
    # The names of pseudo-fields (ClassVar, InitVar) have another _field_type.
    real = {
        name: field
        for name, field in (fields or {}).items()
        if field.init and field._field_type.name == "_FIELD"
    }
    if data_fields is None and meta_fields is None:
        if fields is None:
            raise TreeError(
                f"register_dataclass: {nodetype.__qualname__} is no dataclass, so data_fields and "
                "meta_fields are needed. Name them, or decorate it with dataclass first."
            )
        meta_fields = [name for name, field in real.items() if field.metadata.get("static", False)]
        data_fields = [name for name in real if name not in meta_fields and name not in drop_fields]
    if data_fields is None or meta_fields is None:
        raise TreeError(
            "register_dataclass: data_fields and meta_fields go together, got one. Pass both."
        )
    data, meta = tuple(data_fields), tuple(meta_fields)
    named = [*data, *meta, *drop_fields]
    if len(set(named)) != len(named):
        raise TreeError(
            f"register_dataclass: each field must be named once, got {named}. Remove one."
        )
    if fields is not None and set(named) - set(drop_fields) != set(real) - set(drop_fields):
        wrong = sorted(set(named).symmetric_difference(real) - set(drop_fields))
        raise TreeError(
            f"register_dataclass: data_fields, meta_fields and drop_fields must name the fields of "
            f"{nodetype.__qualname__}, {list(real)}; they differ in {wrong}. Correct the lists."
        )
    keys = tuple(GetAttrKey(name) for name in data)

    def flatten_node(node: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        children = tuple([getattr(node, name) for name in data])
        return children, tuple([getattr(node, name) for name in meta])

    def flatten_with_keys(node: Any) -> tuple[list[tuple[KeyEntry, Any]], tuple[Any, ...]]:
        children, metadata = flatten_node(node)
        return list(zip(keys, children, strict=True)), metadata

    def unflatten_node(metadata: tuple[Any, ...], children: Iterable[Any]) -> Any:
        values = dict(zip(meta, metadata, strict=True))
        values.update(zip(data, children, strict=True))
        return nodetype(**values)

    _register(
        "register_dataclass",
        _Node(nodetype, flatten_node, unflatten_node, flatten_with_keys, field_names=data),
    )
    return nodetype


class _Boxed:
    """Hides that a function is a functools.partial, which a partial of it would absorb."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Boxed) and self.function == other.function

    def __hash__(self) -> int:
        return hash(self.function)

    def __repr__(self) -> str:
        return repr(self.function)


class Partial(functools.partial):
    """functools.partial as a pytree: the bound arguments are children, the function is structure.

    So it may be an argument of a transformed function. A partial of a partial keeps the arguments
    of the inner one in the structure.
    """

    def __new__(cls, func: Callable[..., Any], /, *args: Any, **keywords: Any) -> Partial:
        if not callable(func):
            raise ArgumentError(
                f"Partial: needs a callable, got {type(func).__name__}. Pass a function first."
            )
        if isinstance(func, functools.partial):
            func = _Boxed(func)
        return super().__new__(cls, func, *args, **keywords)


register_pytree_with_keys(
    Partial,
    lambda p: (((GetAttrKey("args"), p.args), (GetAttrKey("keywords"), p.keywords)), p.func),
    lambda func, children: _rebuild_partial(func, *children),
    lambda p: ((p.args, p.keywords), p.func),
)


def _rebuild_partial(func: Any, args: Any, keywords: Any) -> Partial:
    return Partial(func, *args, **keywords)
