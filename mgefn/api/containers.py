"""Functions written for one signature, which take arguments apart and put results together.

A training step is handed, and hands back, the same nested containers a million times. Walking them
by a general rule costs as much as a small kernel; straight code for one structure costs a fraction.
`reader` gives a function that checks each container, shape and dtype, and returns None where
anything is different: it decides nothing by itself that a flattening would decide otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from mgefn import tree
from mgefn.core.array import ConcreteArray
from mgefn.tree.exact import exact
from mgefn.tree.registry import REGISTERED

# Longer trees take the general way: each line of code takes microseconds to compile.
MOST_LEAVES = 2000


class _Code:
    """A function that grows line by line, and the objects that its text names."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {
            "ConcreteArray": ConcreteArray,
            "exact": exact,
            "ndarray": np.ndarray,
            "new": object.__new__,
        }
        self._known: dict[int, str] = {}
        self._count = 0

    def constant(self, x: Any) -> str:
        """The name of an object; texts and numbers are written out."""
        if x.__class__ in (str, int, bool):
            return repr(x)
        return self.object(x)

    def object(self, x: Any) -> str:
        """The name of an object, to be compared with `is`."""
        name = self._known.get(id(x))
        if name is None:
            name = self._known[id(x)] = self.fresh("c")
            self.constants[name] = x
        return name

    def fresh(self, letter: str) -> str:
        self._count += 1
        return f"{letter}{self._count}"

    def function(self, head: str, last: str) -> Callable[..., Any]:
        body = "".join(f"    {line}\n" for line in [*self.lines, last])
        exec(compile(f"{head}\n{body}", f"<{self.name}>", "exec"), self.constants)
        return self.constants[self.name]


def _compiled(code: _Code, head: str, last: str) -> Callable[..., Any] | None:
    """The function, or None where Python refuses so deep a text."""
    try:
        return code.function(head, last)
    except (SyntaxError, RecursionError, MemoryError):
        return None


def is_namedtuple(cls: type) -> bool:
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


# -- arguments ------------------------------------------------------------------------------------


def reader(args: tuple, order: list[int] | None) -> Callable[[tuple], Any] | None:
    """A function that takes arguments like these apart.

    Args:
        args: what a call was given: containers, registered classes, arrays.
        order: leaf i of the program is number order[i] in the order they are met in.

    Returns:
        A function of such a tuple that returns (arrays, their memory), both in the program's order,
        or None for arguments of another structure, shape or dtype; None for too long ones.
    """
    code = _Code("read")
    leaves: list[tuple[str, str]] = []
    differs = "return None"

    def same(name: str, x: Any) -> str:
        # Mostly the very object; an equal one of another type is a difference: 1 is not 1.0.
        return f"{name} is not {code.object(x)} and exact({name}) != {code.object(exact(x))}"

    def visit(name: str, x: Any) -> None:
        cls = x.__class__
        if x is None:
            code.lines.append(f"if {name} is not None: {differs}")
        elif cls is ConcreteArray or cls is np.ndarray:
            data = f"{name}d" if cls is ConcreteArray else name
            known = "ConcreteArray" if cls is ConcreteArray else "ndarray"
            code.lines.append(f"if {name}.__class__ is not {known}: {differs}")
            if cls is ConcreteArray:
                code.lines.append(f"{data} = {name}._data")
            memory = x._data if cls is ConcreteArray else x
            dtype = code.constant(memory.dtype)
            code.lines.append(f"if {data}.shape != {tuple(memory.shape)!r}: {differs}")
            # Equal dtypes are one object, but for those with metadata or fields.
            code.lines.append(
                f"if {data}.dtype is not {dtype} and {data}.dtype != {dtype}: {differs}"
            )
            leaves.append((name, data))
        else:
            code.lines.append(f"if {name}.__class__ is not {code.constant(cls)}: {differs}")
            if cls is dict:
                code.lines.append(f"if len({name}) != {len(x)}: {differs}")
                parts = [(f"{name}[{code.constant(k)}]", v) for k, v in x.items()]
                each([code.fresh("v") for _ in parts], parts)
            elif cls is tuple or cls is list or cls not in REGISTERED:
                unpack(name, x)
            elif (node := REGISTERED[cls]).field_names is not None:
                given, meta = node.flatten(x)
                for field, m in zip(node.static_names, meta, strict=True):
                    code.lines.append(f"if {same(f'{name}.{field}', m)}: {differs}")
                fields = [f"{name}.{field}" for field in node.field_names]
                each([code.fresh("v") for _ in fields], list(zip(fields, given, strict=True)))
            else:
                children, metadata = code.fresh("v"), code.fresh("m")
                given, meta = node.flatten(x)
                code.lines.append(f"{children}, {metadata} = {code.constant(node.flatten)}({name})")
                code.lines.append(f"if {same(metadata, meta)}: {differs}")
                unpack(children, tuple(given))

    def unpack(name: str, children: Iterable[Any]) -> None:
        children = list(children)
        names = [code.fresh("v") for _ in children]
        # A length that differs raises ValueError, which the function takes for a difference.
        code.lines.append(f"({''.join(f'{n}, ' for n in names)}) = {name}")
        for n, child in zip(names, children, strict=True):
            visit(n, child)

    def each(names: list[str], parts: list[tuple[str, Any]]) -> None:
        for n, (expression, child) in zip(names, parts, strict=True):
            code.lines.append(f"{n} = {expression}")
            visit(n, child)

    try:
        unpack("args", args)
    except RecursionError:
        return None
    if len(leaves) > MOST_LEAVES:
        return None
    placed = leaves if order is None else [leaves[i] for i in order]
    names = ", ".join(n for n, _ in placed)
    memory = ", ".join(d for _, d in placed)
    code.lines = [f"    {line}" for line in code.lines]
    code.lines.insert(0, "try:")
    code.lines.append("except (KeyError, ValueError): return None")
    return _compiled(code, "def read(args):", f"return [{names}], [{memory}]")


# -- results --------------------------------------------------------------------------------------


def writer(structure: tree.PyTreeDef, weak: tuple[bool, ...]) -> Callable[[list], Any] | None:
    """A function that puts the memory of results into arrays, and these into containers.

    None where the structure has containers without a short way, or is too long.
    """
    if structure.num_leaves > MOST_LEAVES:
        return None
    code = _Code("write")
    names = [code.fresh("o") for _ in weak]

    def written(x: Any) -> str:
        cls = x.__class__
        if x is None:
            return "None"
        if cls is _Place:
            return f"{names[x.number]}a"
        if cls is dict:
            return f"{{{', '.join(f'{code.constant(k)}: {written(v)}' for k, v in x.items())}}}"
        if cls is tuple or cls is list:
            inside = "".join(f"{written(v)}, " for v in x)
            return f"({inside})" if cls is tuple else f"[{inside}]"
        node = REGISTERED.get(cls)
        if node is not None:
            children, meta = node.flatten(x)
            if node.field_names is not None:
                parts = [
                    f"{f}={written(v)}" for f, v in zip(node.field_names, children, strict=True)
                ]
                parts += [
                    f"{f}={code.constant(m)}" for f, m in zip(node.static_names, meta, strict=True)
                ]
                return f"{code.constant(cls)}({', '.join(parts)})"
            inside = "".join(f"{written(v)}, " for v in children)
            return f"{code.constant(node.unflatten)}({code.constant(meta)}, ({inside}))"
        if is_namedtuple(cls):
            return f"{code.constant(cls)}({', '.join(written(v) for v in x)})"
        raise _NoShortWay

    try:
        whole = written(tree.unflatten(structure, [_Place(i) for i in range(len(weak))]))
    except Exception:  # constructors may look at what they hold, which are no arrays here
        return None
    code.lines.append(f"({''.join(f'{n}, ' for n in names)}) = outs")
    for n, is_weak in zip(names, weak, strict=True):
        # What ConcreteArray(n, is_weak) does; the call of its __init__ would cost as much again.
        code.lines.append(f"{n}a = new(ConcreteArray); {n}a._data = {n}; {n}a._weak = {is_weak}")
    return _compiled(code, "def write(outs):", f"return {whole}")


class _Place:
    """Stands for leaf number `number`."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


class _NoShortWay(Exception):
    """A container that only the general way knows."""
