"""Pytrees as a description in JSON and named arrays, and back.

A description holds no code and names no class: a dataclass or named tuple is written as the names
of its fields. Read without a target it becomes a dict; read into a target, a tree of the same
names, it becomes what the target is. The name of a leaf is its path, as in `params/layers/0/W`.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from mgefn import dtypes, tree
from mgefn.core.array import ConcreteArray
from mgefn.core.array_methods import Array
from mgefn.errors import ArgumentError, FileFormatError, TreeError
from mgefn.io.safetensors import NAMES
from mgefn.random.keys import key_data, wrap_key_data

Spec = dict[str, Any]

# dtypes that the format lacks, kept as bytes in one more dimension
_EXTRA = {
    d.name: d
    for d in map(
        np.dtype,
        (
            np.complex128,
            ml_dtypes.float8_e3m4,
            ml_dtypes.float8_e4m3,
            ml_dtypes.float8_e4m3b11fnuz,
            ml_dtypes.float8_e4m3fnuz,
            ml_dtypes.float8_e5m2fnuz,
            ml_dtypes.float8_e8m0fnu,
        ),
    )
}


def key_text(entry: Any) -> str:
    """A step of a path as a part of a name; "/" and "~" are escaped as in a JSON pointer."""
    value = next(getattr(entry, field) for field in ("key", "name", "idx") if hasattr(entry, field))
    return str(value).replace("~", "~0").replace("/", "~1")


def named_leaves(x: Any, operation: str) -> dict[str, Any]:
    """name -> leaf, in the order of the leaves."""
    found: dict[str, Any] = {}
    for path, leaf in tree.leaves_with_path(x):
        name = "/".join(map(key_text, path))
        if name in found:
            raise ArgumentError(
                f"{operation}: two leaves would be named {name!r}. Rename one of the keys."
            )
        found[name] = leaf
    return found


def one_level(x: Any) -> list[tuple[Any, Any]] | None:
    """(step, child) pairs of a node, or None for a leaf."""
    pairs, _ = tree.flatten_with_path(x, is_leaf=lambda child: child is not x)
    if len(pairs) == 1 and not pairs[0][0]:
        return None
    return [(path[0], child) for path, child in pairs]


def encode(x: Any, operation: str = "save") -> tuple[Spec, dict[str, np.ndarray]]:
    """The description of a tree, and its arrays by name (views, not copies).

    Raises:
        ArgumentError: a leaf is no array, number, text or None, or two have one name.
    """
    arrays: dict[str, np.ndarray] = {}
    named_leaves(x, operation)  # names must differ

    def node(part: Any, path: tuple[str, ...]) -> Spec:
        if part is None:
            return {"none": 0}
        pairs = one_level(part)
        if pairs is None:
            return _leaf(part, "/".join(path), arrays, operation)
        children = [node(child, (*path, key_text(step))) for step, child in pairs]
        if type(part) is tuple:
            return {"tuple": children}
        is_sequence = all(isinstance(step, tree.SequenceKey) for step, _ in pairs)
        if is_sequence and not isinstance(part, dict):
            return {"list": children}
        keys = [getattr(step, "key", getattr(step, "name", None)) for step, _ in pairs]
        for k in keys:
            if type(k) not in (str, int, bool):
                raise ArgumentError(
                    f"{operation}: keys of a dict must be texts or integers, got {k!r} at "
                    f"{'/'.join(path) or 'the root'!r}. Rename it."
                )
        return {"dict": keys, "of": children}

    return node(x, ()), arrays


def _leaf(leaf: Any, name: str, arrays: dict[str, np.ndarray], operation: str) -> Spec:
    if isinstance(leaf, bool):
        return {"bool": leaf}
    if isinstance(leaf, int) and not isinstance(leaf, np.generic):
        return {"int": str(leaf)}
    if isinstance(leaf, float) and not isinstance(leaf, np.generic):
        return {"float": leaf.hex()}
    if isinstance(leaf, complex) and not isinstance(leaf, np.generic):
        return {"complex": [leaf.real.hex(), leaf.imag.hex()]}
    if isinstance(leaf, str):
        return {"text": leaf}
    spec: Spec = {"array": name}
    if isinstance(leaf, Array):
        if dtypes.is_key(leaf.dtype):
            leaf, spec["key"] = key_data(leaf), True
        elif getattr(leaf, "weak_type", False):
            spec["weak"] = True
        a = np.asarray(leaf)
    elif isinstance(leaf, (np.ndarray, np.generic)):
        a, spec["numpy"] = np.asarray(leaf), True
    else:
        raise ArgumentError(
            f"{operation}: leaves must be arrays, numbers, texts or None, got "
            f"{type(leaf).__name__} at {name!r}. Leave it out of the tree."
        )
    a = a.astype(a.dtype.newbyteorder("="), copy=False)
    if a.dtype not in NAMES:
        if a.dtype.name not in _EXTRA:
            raise ArgumentError(f"{operation}: cannot keep dtype {a.dtype}, of {name!r}. Cast it.")
        spec["dtype"] = a.dtype.name
        a = np.asarray(a, order="C")[..., None].view(np.uint8)
    arrays[name] = a
    return spec


def decode(spec: Any, arrays: dict[str, np.ndarray], what: str) -> Any:
    """The tree of a description; dataclasses and named tuples as dicts.

    Raises:
        FileFormatError: the description is none, or names arrays that are not there.
    """

    def node(s: Spec) -> Any:
        if "none" in s:
            return None
        if "tuple" in s:
            return tuple([node(child) for child in s["tuple"]])
        if "list" in s:
            return [node(child) for child in s["list"]]
        if "dict" in s:
            return {k: node(child) for k, child in zip(s["dict"], s["of"], strict=True)}
        return _value(s, arrays)

    try:
        return node(spec)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as exc:
        raise FileFormatError(
            f"{what}: needs the description of a tree, got one that cannot be read "
            f"({type(exc).__name__}: {exc}). Use another copy."
        ) from None


def _value(s: Spec, arrays: dict[str, np.ndarray]) -> Any:
    if "bool" in s:
        return bool(s["bool"])
    if "int" in s:
        return int(s["int"])
    if "float" in s:
        return float.fromhex(s["float"])
    if "complex" in s:
        real, imag = map(float.fromhex, s["complex"])
        return complex(real, imag)
    if "text" in s:
        return str(s["text"])
    a = arrays[s["array"]]
    if "dtype" in s:
        a = a.view(_EXTRA[s["dtype"]])[..., 0]
    if s.get("numpy"):
        return a.copy()
    # A copy, or one small array would keep the bytes of the whole file alive.
    made = ConcreteArray(a.copy(), bool(s.get("weak", False)))
    return wrap_key_data(made) if s.get("key") else made


def into_target(target: Any, loaded: Any, what: str) -> Any:
    """The leaves of `loaded` in the structure of `target`, matched by name.

    Raises:
        TreeError: the names differ. FileFormatError: a shape or dtype does.
    """
    wanted, treedef = tree.flatten(target)
    names = list(named_leaves(target, what))
    got = named_leaves(loaded, what)
    missing = [n for n in names if n not in got]
    extra = [n for n in got if n not in set(names)]
    if missing or extra:
        parts = [f"lacks {_some(missing)}"] * bool(missing) + [f"has also {_some(extra)}"] * bool(
            extra
        )
        raise TreeError(
            f"{what}: must hold the leaves of the target, and {' and '.join(parts)}. Read it "
            "without a target, and build what is wanted from that."
        )
    for name, old in zip(names, wanted, strict=True):
        new = got[name]
        shapes = [getattr(x, "shape", ()) for x in (old, new)]
        kinds = [getattr(x, "dtype", None) for x in (old, new)]
        if shapes[0] != shapes[1] or (None not in kinds and kinds[0] != kinds[1]):
            raise FileFormatError(
                f"{what}: {name!r} must be {kinds[0]}{list(shapes[0])} as in the target, got "
                f"{kinds[1]}{list(shapes[1])}. Read it without a target, and convert it."
            )
    return tree.unflatten(treedef, [got[name] for name in names])


def _some(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:3]))
    return shown + (f" and {len(names) - 3} more" if len(names) > 3 else "")
