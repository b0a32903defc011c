"""Primitive x backend: how each one computes an operation, or why it does not."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any, NamedTuple

from mgefn.backends.cupy_kernels.base import Limited, Program
from mgefn.compiler.gpu_lowering import DEVICE_ROWS, is_part_of_nests
from mgefn.core.backends import kernel_of, load_table
from mgefn.core.primitive import Primitive

# "ptx": compiled programs on a GPU, as "llvm" are those on the CPU.
BACKENDS = ("numpy", "llvm", "cupy", "ptx")
_HOMES = ("mgefn.ops", "mgefn.control", "mgefn.interpreters")


# What a row can be, and how the printed table explains it.
KINDS = {
    "kernel": "a function of the backend's arrays",
    "limited": "a kernel that refuses some operands, with the reason",
    "program": "runs what the primitive holds: a program, a Python function",
    "native": "native code where it takes the dtypes, else the NumPy or CuPy kernel in the program",
    "view": "no work: another way to walk memory",
    "inlined": "its program stands in its place",
    "numpy": "the NumPy kernel, called from the compiled program",
    "cupy": "the CuPy kernel, called from the compiled program",
    "python": "called by Python from the compiled program",
    "none": "not there, for the reason given",
    "?": "nobody said",
}


class Cell(NamedTuple):
    """How a backend computes a primitive.

    Attributes:
        kind: one of KINDS.
        note: the reason, or what is particular.
    """

    kind: str
    note: str = ""


def primitives() -> list[Primitive]:
    """Every primitive that is a global of a module of ops, control or interpreters, by name."""
    found: dict[int, Primitive] = {}
    for home in _HOMES:
        package = importlib.import_module(home)
        for info in pkgutil.walk_packages(package.__path__, f"{home}."):
            for value in vars(importlib.import_module(info.name)).values():
                if isinstance(value, Primitive):
                    found[id(value)] = value
    return sorted(found.values(), key=lambda p: p.name)


def cell(primitive: Primitive, backend: str) -> Cell:
    """One cell of the table."""
    load_table(backend)
    if backend == "ptx":
        return _in_device_programs(primitive)
    row: Any = kernel_of(primitive, backend)
    if isinstance(row, Limited):
        return Cell("limited", row.note)
    if isinstance(row, Program):
        return Cell("program", row.note)
    if row is not None:
        return Cell("native" if backend == "llvm" else "kernel")
    reason = primitive.unsupported.get(backend)
    if reason:
        return Cell("none", reason)
    if backend == "llvm":
        if primitive.inlined is not None:
            return Cell("inlined")
        if primitive.view:
            return Cell("view")
        reference = cell(primitive, "numpy").kind
        if reference in ("kernel", "program"):
            return Cell("numpy" if reference == "kernel" else "python")
    if backend == "numpy" and primitive.evaluate is not None:
        return Cell("program")
    return Cell("?")


def _in_device_programs(primitive: Primitive) -> Cell:
    load_table("llvm")
    if primitive in DEVICE_ROWS or is_part_of_nests(primitive.kernels.get("llvm")):
        return Cell("native")
    if primitive.inlined is not None:
        return Cell("inlined")
    if primitive.view:
        return Cell("view")
    alone = cell(primitive, "cupy")
    if alone.kind in ("kernel", "limited"):
        return Cell("cupy")
    return Cell("python" if alone.kind == "program" else alone.kind)


def rows() -> list[tuple[Primitive, tuple[Cell, ...]]]:
    """All primitives, each with a cell for each backend."""
    return [(p, tuple(cell(p, b) for b in BACKENDS)) for p in primitives()]


def text() -> str:
    """The table as lines of text."""
    found = rows()
    width = max(len(p.name) for p, _ in found) + 2
    lines = [f"{'primitive':{width}}" + "".join(f"{b:9}" for b in BACKENDS) + "notes"]
    counts: dict[str, dict[str, int]] = {b: {} for b in BACKENDS}
    for p, cells in found:
        notes = [f"{b}: {c.note}" for b, c in zip(BACKENDS, cells, strict=True) if c.note]
        kinds = "".join(f"{c.kind:9}" for c in cells)
        lines.append(f"{p.name:{width}}{kinds}{'; '.join(notes)}".rstrip())
        for b, c in zip(BACKENDS, cells, strict=True):
            counts[b][c.kind] = counts[b].get(c.kind, 0) + 1
    lines.append("")
    for b in BACKENDS:
        told = ", ".join(f"{n} {kind}" for kind, n in sorted(counts[b].items()))
        lines.append(f"{b}: {told}")
    lines.append("")
    met = {kind for told in counts.values() for kind in told}
    lines += [f"{kind:8} {meaning}" for kind, meaning in KINDS.items() if kind in met]
    return "\n".join(lines)
