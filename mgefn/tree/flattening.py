"""Treedefs; trees taken apart, put together, mapped, and matched with a prefix.

`flatten` and its kin run for each call of a transformed function, so they reach optree by one
global of this file, without a check. Errors about structure name the key path where two trees part.

Source: optree, optree.readthedocs.io; JAX pytrees, docs.jax.dev/en/latest/pytrees.html.
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Never

from mgefn.errors import (
    ArgumentError,
    TreeError,
    api_boundary,
    leave_api,
    no_such_keyword,
    refused_function,
    tells_keywords,
)
from mgefn.tree.exact import exact
from mgefn.tree.keys import KeyPath, keystr
from mgefn.tree.nodes import IsLeaf, one_level, spec_keys
from mgefn.tree.registry import DICTS, NAMESPACE, REGISTERED, load_optree


class _Unspecified:
    """The type of an argument that was not given, where None could be meant."""

    def __repr__(self) -> str:
        return "<unspecified>"


_UNSPECIFIED = _Unspecified()


def _flatten_first(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], Any]:
    """Load optree and put its function in the place of this one."""
    global _flatten
    _flatten = functools.partial(load_optree().tree_flatten, namespace=NAMESPACE)
    return _flatten(tree, is_leaf)


# optree's function, from the first call on.
_flatten: Callable[..., tuple[list[Any], Any]] = _flatten_first

# --- Treedefs ------------------------------------------------------------------------------------


class PyTreeDef:
    """The structure of a pytree: hashable, comparable, without the leaves.

    Its hash covers the metadata of registered classes, so unhashable metadata raises TypeError.
    `spec` is optree's object behind it, which compares alike and whose hash is quicker, but leaves
    the metadata out. Both compare metadata by ==, for which 1 is 1.0: a key under which programs
    are kept has `exact_metadata` beside it.
    """

    __slots__ = ("spec",)

    def __init__(self, spec: Any) -> None:
        self.spec = spec

    @property
    def num_leaves(self) -> int:
        """Number of leaves."""
        return self.spec.num_leaves

    def exact_metadata(self) -> tuple[Any, ...]:
        """The metadata of registered classes in it as keys, which tell 1, 1.0 and True apart."""
        if not self.spec.namespace:  # no registered class in it
            return ()
        metadata: list[Any] = []

        def visit(kind: type, data: Any, children: Any) -> None:
            if kind in REGISTERED:
                metadata.append(exact(data))

        self.spec.walk([None] * self.num_leaves, visit)
        return tuple(metadata)

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
        return subtrees_up_to("flatten_up_to", self.spec, tree)

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
            if kind in REGISTERED:
                metadata.append(data)

        self.spec.walk([None] * self.num_leaves, visit)
        return hash((self.spec, *metadata))

    def __repr__(self) -> str:
        text = repr(self.spec).removeprefix("PyTreeSpec(").removesuffix(")")
        text = text.removesuffix(f", namespace='{NAMESPACE}'")
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
    return PyTreeDef(load_optree().treespec_tuple(specs, namespace=NAMESPACE))


@api_boundary
def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """The structures of the root's children."""
    return treedef.children()


@api_boundary
def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Whether the structure is a single node: a leaf, or a container without children."""
    return treedef.num_nodes == 1


# --- Flatten, unflatten, map ---------------------------------------------------------------------


@tells_keywords
def flatten(tree: Any, is_leaf: IsLeaf = None, **unknown: Never) -> tuple[list[Any], PyTreeDef]:
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
        if unknown:
            raise no_such_keyword(flatten, unknown)
        flat, spec = _flatten(tree, is_leaf)
        return flat, PyTreeDef(spec)
    except BaseException as e:
        leave_api(e)
        raise


@tells_keywords
def leaves(tree: Any, is_leaf: IsLeaf = None, **unknown: Never) -> list[Any]:
    """The leaves of a tree, in order."""
    try:
        if unknown:
            raise no_such_keyword(leaves, unknown)
        return _flatten(tree, is_leaf)[0]
    except BaseException as e:
        leave_api(e)
        raise


@tells_keywords
def structure(tree: Any, is_leaf: IsLeaf = None, **unknown: Never) -> PyTreeDef:
    """The structure of a tree."""
    try:
        if unknown:
            raise no_such_keyword(structure, unknown)
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


def subtrees_up_to(operation: str, spec: Any, tree: Any) -> list[Any]:
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


@tells_keywords
def map(
    f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None, **unknown: Never
) -> Any:
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
        if unknown:
            raise no_such_keyword(map, unknown)
        flat, spec = _flatten(tree, is_leaf)
        if not rest:
            return spec.unflatten([f(leaf) for leaf in flat])
        columns = [subtrees_up_to("tree.map", spec, other) for other in rest]
        return spec.unflatten([f(*row) for row in zip(flat, *columns, strict=True)])
    except BaseException as e:
        told = refused_function(map, e, (f, tree, *rest), {}, "tree.map")
        if told is None:
            leave_api(e)
            raise
    try:
        raise told
    except ArgumentError as e:
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
    return builtins.all(one_level(item, is_leaf) is None for item in iterable)


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
    rows = subtrees_up_to("tree.transpose", outer_treedef.spec, pytree_to_transpose)
    if inner_treedef is None:
        if not rows:
            raise TreeError(
                "tree.transpose: the outer structure has no leaves to take the inner one from. "
                "Pass inner_treedef."
            )
        inner_treedef = structure(rows[0])
    columns = [subtrees_up_to("tree.transpose", inner_treedef.spec, row) for row in rows]
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
    subtrees = subtrees_up_to("tree.broadcast", spec, full_tree)
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
            spec_keys(prefix), prefix.children(), spec.children(), strict=True
        ):
            descend(inner, child, (*path, key))

    descend(prefix, spec, ())
    return result


# --- Where two trees part ------------------------------------------------------------------------


def _shown(spec: Any) -> str:
    if spec.is_leaf():
        return "a leaf"
    if spec.type is type(None):
        return "None"
    if spec.type in DICTS:
        return f"{spec.type.__name__} with keys {spec.entries()}"
    return f"{spec.type.__name__} of {spec.num_children}"


def _at(path: KeyPath) -> str:
    return f"at {keystr(path)}" if path else "at the root"


def _node_difference(a: Any, b: Any, path: KeyPath, names: tuple[str, str]) -> str:
    """How the roots of two structures, so named, differ; empty if they agree."""
    same = a.is_leaf() == b.is_leaf() and a.type is b.type and a.num_children == b.num_children
    if same and a.type in DICTS:
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
        steps = list(zip(spec_keys(x), x.children(), y.children(), strict=True))
        stack.extend(((*path, key), u, v) for key, u, v in reversed(steps))
    return f"{names[0]} is {PyTreeDef(spec_a)!r} and {names[1]} {PyTreeDef(spec_b)!r}"


def _prefix_difference(spec: Any, tree: Any, path: KeyPath, names: tuple[str, str]) -> str:
    """Where a structure is not a prefix of a tree, in words; empty if it is."""
    if spec.is_leaf():
        return ""
    root = structure(tree).spec
    difference = _node_difference(spec, root, path, names)
    level = one_level(tree)
    if difference or level is None:
        return difference
    for key, inner, child in zip(level[0], spec.children(), level[1], strict=True):
        difference = _prefix_difference(inner, child, (*path, key), names)
        if difference:
            return difference
    return ""
