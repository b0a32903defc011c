"""The libraries behind one face: what a workload's builder gets, and how its function is run.

mgefn and JAX have the same names, so a builder gets the module itself and writes `lib.numpy`,
`lib.lax`, `lib.nn`, `lib.grad`. NumPy and autograd get a namespace with the few of those names that
they have; torch's builders are written for torch. Nothing is imported before `load` is called.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

PEERS = ("jax", "torch", "numpy", "autograd")


@dataclass(frozen=True)
class Library:
    name: str
    lib: Any  # what builders get
    jit: Callable[[Callable[..., Any]], Callable[..., Any]]
    put: Callable[[Any], Any]  # a tree of NumPy arrays as this library's arrays
    wait: Callable[[Any], Any]  # returns when the arrays of a result exist
    settle: Callable[[], None] = lambda: None  # returns when nothing is compiled any more


def installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def load(name: str, device: str = "cpu") -> Library:
    """Import a library and make it ready for a device, "cpu" or "gpu"."""
    if name in ("mgefn", "jax"):
        return _transforming(name, device)
    if name == "torch":
        return _torch(device)
    if device != "cpu":
        raise SystemExit(f"{name} runs on the CPU only")
    return _numpy() if name == "numpy" else _autograd()


def _transforming(name: str, device: str) -> Library:
    lib = importlib.import_module(name)
    here = lib.devices(device)[0]

    def put(tree: Any) -> Any:
        return lib.block_until_ready(lib.device_put(tree, here))

    settle = getattr(lib, "compilation_barrier", lambda: None)
    return Library(name, lib, lib.jit, put, lib.block_until_ready, settle)


def _numpy() -> Library:
    lib = SimpleNamespace(numpy=importlib.import_module("numpy"))
    lib.lax = SimpleNamespace(erf=_scipy_special("erf"))
    return Library("numpy", lib, _same, _same, _same)


def _autograd() -> Library:
    autograd = importlib.import_module("autograd")
    lib = SimpleNamespace(numpy=importlib.import_module("autograd.numpy"), grad=autograd.grad)
    lib.value_and_grad = autograd.value_and_grad
    lib.lax = SimpleNamespace(erf=importlib.import_module("autograd.scipy.special").erf)
    return Library("autograd", lib, _same, _same, _same)


def _torch(device: str) -> Library:
    torch = importlib.import_module("torch")
    place = "cuda" if device == "gpu" else "cpu"

    def put(tree: Any) -> Any:
        if isinstance(tree, dict):
            return {key: put(value) for key, value in tree.items()}
        if isinstance(tree, (list, tuple)):
            return type(tree)(put(value) for value in tree)
        return torch.asarray(tree, device=place, copy=True)

    def wait(result: Any) -> Any:
        if device == "gpu":
            torch.cuda.synchronize()
        return result

    return Library("torch", torch, _same, put, wait)


def _same(x: Any) -> Any:
    return x


def _scipy_special(name: str) -> Callable[..., Any]:
    """A function of scipy.special that is imported when it is first called."""

    def call(*args: Any) -> Any:
        return getattr(importlib.import_module("scipy.special"), name)(*args)

    return call


def counter(name: str) -> int | None:
    """A count that mgefn's compiler keeps of this process; None where mgefn has no such compiler.

    "native.compilations" are the kernels made, "runtime.native_calls" the calls into machine code.
    """
    module, _, function = name.rpartition(".")
    try:
        count = getattr(importlib.import_module(f"mgefn.compiler.{module}"), function)
    except (ImportError, AttributeError):
        return None
    return count()


def leaves(tree: Any) -> list[Any]:
    """The arrays of a result as NumPy arrays; dictionaries in the order of their keys."""
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree) for leaf in leaves(tree[key])]
    if isinstance(tree, (list, tuple)):
        return [leaf for item in tree for leaf in leaves(item)]
    numpy = importlib.import_module("numpy")
    return [numpy.asarray(tree.detach().cpu() if hasattr(tree, "detach") else tree)]
