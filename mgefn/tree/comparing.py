"""Comparing, checking and showing trees."""

from __future__ import annotations

import builtins
import dataclasses
import math
from typing import Any, TypeAlias, TypeVar

import numpy as np

from mgefn import dtypes
from mgefn.errors import ArgumentError, ShapeError, TreeError, api_boundary
from mgefn.tree.flattening import flatten, is_none, structure_difference
from mgefn.tree.keys import KeyPath, keystr
from mgefn.tree.nodes import one_level
from mgefn.tree.paths import key_paths

T = TypeVar("T")
PyTree: TypeAlias = T | Any
"""For annotations: a tree, PyTree[Array] one whose leaves are arrays. Checkers see Any."""


def _is_array(x: Any) -> bool:
    return hasattr(x, "shape") and hasattr(x, "dtype")


def check_like(
    about: str, name: str, given: Any, like_name: str, like: Any, repair: str = ""
) -> None:
    """Raise where a tree has not the structure of another one, or a leaf not the shape of its.

    Leaves that broadcast against each other would give results of other shapes, or wrong numbers.

    Args:
        about: the operation.
        name, like_name: what to call the two trees.
        given: the tree that is looked at; leaves of it that are None have no shape.
        like: the tree that it must be like.
        repair: what to do, to close the message.
    """
    leaves, found = flatten(given, is_none)
    wanted, treedef = flatten(like, is_none)
    if found != treedef:
        if len(leaves) != len(wanted) and (given is None or any_none(leaves)):
            return  # None may stand for a whole branch
        names = (like_name, name)
        raise TreeError(
            f"{about}: {name} must have the structure of {like_name}, but "
            f"{structure_difference(treedef, found, names)}. {repair}".rstrip()
        )
    check_shapes(about, name, leaves, like_name, wanted, repair, like)


def any_none(leaves: list[Any]) -> bool:
    """Is one of the leaves None?"""
    return builtins.any(x is None for x in leaves)


def check_shapes(
    about: str,
    name: str,
    leaves: list[Any],
    like_name: str,
    wanted: list[Any],
    repair: str,
    like: Any,
) -> None:
    """`check_like` of leaves alone, which are as many: those of two trees of one structure."""
    for i, (x, y) in enumerate(zip(leaves, wanted, strict=True)):
        if x is None or y is None or np.shape(x) == np.shape(y):
            continue
        path = key_paths(like, is_none)[i] or "the only leaf"
        raise ShapeError(
            f"{about}: {name} must have the shapes of {like_name}, got {_typed(x)} for {_typed(y)} "
            f"at {path}. {repair}".rstrip()
        )


def _typed(x: Any) -> str:
    """f32[3], or the shape alone where there is no dtype of ours to show."""
    aval = getattr(x, "aval", None)
    return str(aval) if aval is not None else f"shape {np.shape(x)}"


@api_boundary
def equal(*pytrees: Any, typematch: bool = False, rtol: float = 0.0, atol: float = 0.0) -> Any:
    """Whether trees have one structure and equal leaves.

    Arrays are equal where shapes, dtypes and values are; other leaves by ==. NaN is not equal to
    itself.

    Args:
        pytrees: two or more trees.
        typematch: leaves must be of one type, so that an array differs from NumPy's.
        rtol, atol: allowed differences of inexact arrays: |x - y| <= atol + rtol * |y|.

    Returns:
        A bool; while tracing, an array of one where the values decide.

    Example:
        >>> mgefn.tree.equal({"a": mnp.ones(2)}, {"a": mnp.ones(2)})
        True
    """
    if len(pytrees) < 2:
        raise ArgumentError(f"tree.equal: needs two trees or more, got {len(pytrees)}.")
    first, treedef = flatten(pytrees[0])
    result: Any = True
    for other in pytrees[1:]:
        leaves, other_tree = flatten(other)
        if other_tree != treedef:
            return False
        for x, y in zip(first, leaves, strict=True):
            if typematch and type(x) is not type(y):
                return False
            same = _equal_leaves(x, y, rtol, atol)
            if same is False:
                return False
            if same is not True:
                result = same if result is True else result & same
    return result


def _equal_leaves(x: Any, y: Any, rtol: float, atol: float) -> Any:
    if not (_is_array(x) and _is_array(y)):
        if _is_array(x) or _is_array(y):
            return False
        return bool(x == y)
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    if (rtol or atol) and dtypes.is_inexact(x.dtype):
        same = (abs(x - y) <= atol + rtol * abs(y)) | (x == y)
    else:
        same = x == y
    same = same.all() if _is_array(same) else same
    try:
        return bool(same)
    except TypeError:  # the value of a traced array is not known
        return same


@api_boundary
def check(pytree: Any) -> None:
    """Raise TreeError where one object stands at two places of a tree, or inside itself.

    What changes one of the places, such as an optimizer's update, would leave the other as it is.
    None, empty containers and strings, numbers and types may stand anywhere.
    """
    seen: dict[int, tuple[Any, KeyPath]] = {}
    pending: list[tuple[Any, KeyPath]] = [(pytree, ())]
    while pending:
        node, path = pending.pop()
        level = one_level(node)
        harmless = level is None and not _is_array(node)
        if harmless or (level is not None and not level[1]):
            continue
        if id(node) in seen:
            other = seen[id(node)][1]
            what = "inside itself" if path[: len(other)] == other else "twice"
            raise TreeError(
                f"tree.check: the {type(node).__name__} at {keystr(other) or 'the root'} stands "
                f"{what}: it is at {keystr(path)} too. Make a copy."
            )
        seen[id(node)] = (node, path)
        if level is not None:
            keys, children, _, _ = level
            pending += [
                (child, (*path, key))
                for key, child in reversed(builtins.list(zip(keys, children, strict=True)))
            ]


# -- showing --------------------------------------------------------------------------------------


@api_boundary
def pformat(pytree: Any, *, width: int = 80, indent: int = 2, short_arrays: bool = True) -> str:
    """A tree as text, arrays by their types.

    Args:
        pytree: the tree.
        width: characters of a line, where they can be kept.
        indent: characters by which a level is moved in.
        short_arrays: show f32[3,4] in place of the values.

    Example:
        >>> print(mgefn.tree.pformat({"w": mnp.ones((3, 4)), "b": None}))
        {'w': f32[3,4], 'b': None}
    """
    return _shown(pytree, width, indent, 0, short_arrays)


@api_boundary
def pprint(pytree: Any, *, width: int = 80, indent: int = 2, short_arrays: bool = True) -> None:
    """Print a tree as `pformat` shows it."""
    print(pformat(pytree, width=width, indent=indent, short_arrays=short_arrays))


def _leaf_text(x: Any, short_arrays: bool) -> str:
    if not (short_arrays and _is_array(x)):
        return repr(x)
    try:
        short = dtypes.short_name(np.dtype(x.dtype))
    except (TypeError, KeyError):
        short = str(x.dtype)
    text = f"{short}[{','.join(map(str, x.shape))}]"
    return f"{text}(numpy)" if isinstance(x, (np.ndarray, np.generic)) else text


def _parts(x: Any) -> tuple[str, list[tuple[str, Any]], str] | None:
    """Opening text, (label, child) pairs and closing text of a node; None for a leaf."""
    if x is None:
        return None
    if isinstance(x, dict):
        head, tail = ("{", "}") if type(x) is dict else (f"{type(x).__name__}({{", "})")
        return head, [(f"{k!r}: ", v) for k, v in x.items()], tail
    names = getattr(x, "_fields", None)
    if isinstance(x, tuple) and names is not None:
        return f"{type(x).__name__}(", [(f"{n}=", getattr(x, n)) for n in names], ")"
    if type(x) is list:
        return "[", [("", v) for v in x], "]"
    if type(x) is tuple:
        return "(", [("", v) for v in x], ",)" if len(x) == 1 else ")"
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        fields = [(f"{f.name}=", getattr(x, f.name)) for f in dataclasses.fields(x) if f.repr]
        return f"{type(x).__name__}(", fields, ")"
    level = one_level(x)
    if level is None:
        return None
    keys, children, _, kind = level
    pairs = [
        (f"{k.name}=" if hasattr(k, "name") else "", c) for k, c in zip(keys, children, strict=True)
    ]
    return f"{kind.__name__}(", pairs, ")"


def _shown(x: Any, width: float, indent: int, at: int, short_arrays: bool) -> str:
    parts = _parts(x)
    if parts is None:
        return _leaf_text(x, short_arrays)
    head, pairs, tail = parts
    flat = ", ".join(k + _shown(v, math.inf, indent, 0, short_arrays) for k, v in pairs)
    line = f"{head}{flat}{tail}"
    if not pairs or at + len(line) <= width:
        return line
    pad = " " * (at + indent)
    lines = [
        f"{pad}{k}{_shown(v, width - len(k), indent, at + indent, short_arrays)}" for k, v in pairs
    ]
    return f"{head}\n" + ",\n".join(lines) + f"\n{' ' * at}{tail.removeprefix(',')}"


__all__ = ["PyTree", "check", "equal", "pformat", "pprint"]
