"""Named parts of nested states: find them, change them, map over what is shaped like the params."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mgefn import tree as trees
from mgefn.errors import api_boundary

Filtering = Callable[[tuple[Any, ...], Any], bool] | None


@dataclass(frozen=True)
class NamedTupleKey:
    """The step of a key path into a named tuple.

    Args:
        tuple_name: name of its class.
        name: name of the field.
    """

    tuple_name: str
    name: str

    def __str__(self) -> str:
        return f"{self.tuple_name}.{self.name}"


def _is_named_tuple(x: Any) -> bool:
    return isinstance(x, tuple) and hasattr(x, "_fields")


def _children(node: Any) -> list[tuple[Any, Any, Any]]:
    """(step of the path, name, child) for each child; leaves have none."""
    if _is_named_tuple(node):
        kind = type(node).__name__
        return [(NamedTupleKey(kind, f), f, getattr(node, f)) for f in node._fields]
    found = trees.leaves_with_path(node, is_leaf=lambda x: x is not node)
    out = []
    for path, child in found:
        if not path:
            return []
        step = path[0]
        # Places in a list or tuple have no name, as in optax.
        name = getattr(step, "key", getattr(step, "name", None))
        out.append((step, name, child))
    return out


def _matches(
    node: Any, key: Any, path: tuple[Any, ...], filtering: Filtering
) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if (
        _is_named_tuple(node)
        and type(node).__name__ == key
        and (filtering is None or filtering(path, node))
    ):
        yield path, node
    for step, name, child in _children(node):
        below = (*path, step)
        hit = name == key and type(name) is type(key)
        if hit and (filtering is None or filtering(below, child)):
            yield below, child
        yield from _matches(child, key, below, filtering)


@api_boundary
def get_all_with_path(
    tree: Any, key: Any, filtering: Filtering = None
) -> list[tuple[tuple[Any, ...], Any]]:
    """Every part of a tree under a name, with its key path.

    Args:
        tree: nested containers, such as the state of an optimizer.
        key: name of a field, key of a dict, or name of a named tuple's class.
        filtering: (path, value) -> bool: which of them count; None: all.
    """
    return list(_matches(tree, key, (), filtering))


@api_boundary
def get(tree: Any, key: Any, default: Any = None, filtering: Filtering = None) -> Any:
    """The part of a tree under a name.

    Args:
        tree, key, filtering: as for `get_all_with_path`.
        default: what to return where there is none.
    Raises:
        KeyError: there are several.

    Example:
        >>> from mgefn import optim
        >>> state = optim.adam(0.1).init(mnp.zeros(2))
        >>> optim.tree.get(state, "count")
        Array(0, dtype=int32)
    """
    found = get_all_with_path(tree, key, filtering)
    if len(found) > 1:
        places = ", ".join(".".join(map(str, path)) for path, _ in found)
        raise KeyError(f"get: {key!r} stands at {len(found)} places, {places}. Give filtering.")
    return found[0][1] if found else default


@api_boundary
def set(tree: Any, filtering: Filtering = None, /, **kwargs: Any) -> Any:
    """The tree with the parts of some names replaced.

    Args:
        tree: nested containers.
        filtering: as for `get_all_with_path`.
        kwargs: name=value; each part of this name becomes the value.
    Raises:
        KeyError: there is no part of a name.

    Example:
        >>> from mgefn import optim
        >>> state = optim.inject_hyperparams(optim.sgd)(0.1).init(mnp.zeros(2))
        >>> state = optim.tree.set(state, learning_rate=0.5)
        >>> optim.tree.get(state, "learning_rate")
        0.5
    """
    for key in kwargs:
        if not get_all_with_path(tree, key, filtering):
            raise KeyError(f"set: no part of the tree has the name {key!r}. Look at its fields.")
    return _replaced(tree, (), filtering, kwargs)


def _replaced(
    node: Any, path: tuple[Any, ...], filtering: Filtering, values: Mapping[str, Any]
) -> Any:
    kind = type(node).__name__
    if _is_named_tuple(node) and kind in values and (filtering is None or filtering(path, node)):
        return values[kind]
    children = _children(node)
    if not children:
        return node
    new = []
    for step, name, child in children:
        below = (*path, step)
        known = isinstance(name, str) and name in values
        if known and (filtering is None or filtering(below, child)):
            new.append(values[name])
        else:
            new.append(_replaced(child, below, filtering, values))
    treedef = trees.structure(node, is_leaf=lambda x: x is not node)
    return trees.unflatten(treedef, new)


class _InPlaceOfParams:
    """Given to `init` instead of the params, to see where they go."""


trees.register_pytree_node(_InPlaceOfParams, lambda x: ((), None), lambda aux, children: _PARAMS)
_PARAMS = _InPlaceOfParams()


@api_boundary
def map_params(
    initable: Any,
    f: Callable[..., Any],
    state: Any,
    /,
    *rest: Any,
    transform_non_params: Callable[[Any], Any] | None = None,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """f of those leaves of a state that belong to params, such as averages of gradients.

    Args:
        initable: the transformation, or its init.
        f: (leaf, *leaves of rest) -> leaf.
        state: made by initable.
        rest: trees of the structure of the params.
        transform_non_params: function of the other leaves, such as counts; None: keep them.
        is_leaf: as in `mgefn.tree.map`, inside what is shaped like the params.

    Example:
        >>> from mgefn import optim
        >>> opt = optim.sgd(0.1, momentum=0.9)
        >>> state = opt.init({"w": mnp.ones(2)})
        >>> optim.tree_map_params(opt, lambda m: m + 1, state)[0].trace
        {'w': Array([1., 1.], dtype=float32)}
    """
    pattern = (initable if callable(initable) else initable.init)(_PARAMS)

    def one(place: Any, value: Any) -> Any:
        if isinstance(place, _InPlaceOfParams):
            return trees.map(f, value, *rest, is_leaf=is_leaf)
        return value if transform_non_params is None else transform_non_params(value)

    return trees.map(one, pattern, state, is_leaf=lambda x: isinstance(x, _InPlaceOfParams))
