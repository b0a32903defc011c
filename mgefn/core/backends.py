"""The registry of backends and the hook that compiles a program.

A backend is one literal table, primitive -> kernel, with the reasons for what it does not support.
`register` hangs each row on its primitive, so that evaluation finds it with one lookup. The
compiler installs `compile_hook`; interpreters call `executable_of` and know nothing else of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mgefn.config import config
from mgefn.core.jaxpr import ClosedJaxpr
from mgefn.core.primitive import Primitive

NAMES: list[str] = []  # of those whose tables are loaded

compile_hook: Callable[..., Any] | None = None
device_hook: Callable[..., Any] | None = None  # the same for programs on a GPU

_of_row: dict[int, str] = {}  # identity of a row, which lives on, -> its (first) primitive's name

# Loads tables that not every program needs, by the backend's name; mgefn/__init__.py sets them. Of
# "numpy" it is the rest, of families that few programs need.
_late: dict[str, Callable[[], Any]] = {}


def register(
    name: str, kernels: dict[Primitive, Any], unsupported: dict[Primitive, str] | None = None
) -> None:
    """Make a backend known: hang its rows on the primitives."""
    if name not in NAMES:
        NAMES.append(name)
    for primitive, kernel in kernels.items():
        primitive.kernels[name] = kernel
        _of_row.setdefault(id(kernel), primitive.name)
    for primitive, reason in (unsupported or {}).items():
        primitive.unsupported[name] = reason


def name_of_row(kernel: Any) -> str:
    """The name of the primitive that a row is for; of several the first."""
    return _of_row.get(id(kernel)) or type(kernel).__name__


def set_late_table(name: str, load: Callable[[], Any]) -> None:
    """Say how the table of a backend is loaded: by the first program that runs there, and of
    "numpy" by the first primitive that has no kernel yet."""
    _late[name] = load


def load_table(name: str) -> None:
    """Load the table of a backend, if it is not loaded yet."""
    load = _late.get(name)
    if load is not None:
        load()
        _late.pop(name, None)  # not before: an interrupted load must be begun again


def kernel_of(primitive: Primitive, backend: str = "numpy") -> Any:
    """The row of a backend's table for a primitive, or None; loads the remaining tables for it."""
    kernel = primitive.kernels.get(backend)
    if kernel is None and primitive.inlined is None:
        load_table("numpy")
        kernel = primitive.kernels.get(backend)
    return kernel


def set_device_hook(hook: Callable[..., Any]) -> None:
    global device_hook
    device_hook = hook


def program_on(device: Any, jaxpr: ClosedJaxpr) -> Any:
    """The program of a jaxpr on a GPU, made at its first use."""
    load_table("cupy")
    assert device_hook is not None, "the table's programs install the hook on import"
    return device_hook(jaxpr, device)


def set_compile_hook(hook: Callable[..., Any]) -> None:
    global compile_hook
    compile_hook = hook


def executable_of(jaxpr: ClosedJaxpr, **options: Any) -> Any:
    """The compiled program of a jaxpr, compiled at its first use."""
    if not any(options.get("donated", ())):
        options.pop("donated", None)
    key = ("executable", config.jit_backend, tuple(sorted(options.items())))
    found = jaxpr.derived.get(key)
    if found is None:
        assert compile_hook is not None, "mgefn.compiler installs the hook on import"
        found = jaxpr.derived[key] = compile_hook(jaxpr, **options)
    return found
