"""A traceback shows the user's frames only, whichever public function the error leaves."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
import traceback
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn.config import config
from mgefn.core.array_methods import Array
from mgefn.errors import _PACKAGE

NAMESPACES = ["mgefn", "mgefn.numpy", "mgefn.lax", "mgefn.random", "mgefn.tree"]
NAMESPACES += [
    f"mgefn.{m.name}"
    for m in pkgutil.iter_modules(mgefn.__path__)
    if m.name
    in {
        "amp", "nn", "optim", "scipy", "data", "io", "logger", "metrics", "profiler", "training",
        "viz", "export", "debug", "memory", "tree_util", "ad_checkpoint", "checkify",
        "custom_batching", "custom_derivatives", "flatten_util", "sharding", "test_util",
    }
]  # fmt: skip
NAMESPACES += [
    f"mgefn.numpy.{m}" for m in ("linalg", "fft") if hasattr(mnp, m) and m in mnp.__dict__
]

# They change what other tests see, or take anything and call it later.
LEFT_OUT = {"set_printoptions", "printoptions", "disable_jit", "ensure_compile_time_eval"}


def public(namespace: ModuleType) -> Iterator[tuple[str, Callable[..., Any]]]:
    names = getattr(namespace, "__all__", None) or [
        n for n in dir(namespace) if not n.startswith("_")
    ]
    for name in names:
        value = getattr(namespace, name)
        module = getattr(value, "__module__", None) or ""
        if inspect.isclass(value):
            continue  # those whose constructor can fail stand below, among the calls
        ours = module.startswith("mgefn") and module != "mgefn.errors"
        if callable(value) and ours and name not in LEFT_OUT:
            yield name, value


FUNCTIONS = {
    f"{name}.{n}": f for name in NAMESPACES for n, f in public(importlib.import_module(name))
}


def own_frames(exc: BaseException) -> list[str]:
    """Frames of the package in the traceback of an exception."""
    frames = traceback.extract_tb(exc.__traceback__)
    return [f"{f.filename}:{f.lineno}" for f in frames if f.filename.startswith(_PACKAGE)]


class Unlike:
    """No array, number, function, shape or dtype."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_public_functions_leave_no_frame(name):
    """Called with what nobody can use, in every number up to six."""
    raised = 0
    for n in range(7):
        try:
            FUNCTIONS[name](*[Unlike() for _ in range(n)])
        except Exception as exc:
            raised += 1
            assert own_frames(exc) == [], f"{name} with {n} arguments: {exc}"
    assert raised > 0


x3, x4, x23, i3 = mnp.ones(3), mnp.ones(4), mnp.ones((2, 3)), mnp.arange(3)


def kept_tracer() -> Any:
    kept: list[Any] = []
    mgefn.jit(lambda x: kept.append(x) or x)(x3)
    return kept[0]


leaked = kept_tracer()

CALLS: dict[str, Callable[[], Any]] = {
    "add": lambda: mnp.add(x3, x4),
    "+": lambda: x3 + x4,
    "- reflected": lambda: [1.0, 2.0] - x3,
    "-": lambda: x3 - x4,
    "*": lambda: x3 * x4,
    "/": lambda: x3 / x4,
    "//": lambda: x3 // x4,
    "%": lambda: x3 % x4,
    "**": lambda: x3**x4,
    "** reflected": lambda: [1.0, 2.0] ** x3,
    "@": lambda: x23 @ x23,
    "@ reflected": lambda: [[1.0, 2.0]] @ x3,
    "&": lambda: x3 & x3,
    "|": lambda: i3 | x4,
    "<<": lambda: i3 << x3,
    "~": lambda: ~x3,
    "-x": lambda: -(x3 > 0),
    "<": lambda: x3 < x4,
    "==": lambda: x3 == x4,
    "in": lambda: x4 in x3,
    "divmod": lambda: divmod(x3, x4),
    "round": lambda: round(x3, "a"),
    "+ with an integer that does not fit": lambda: mnp.zeros(3, "uint8") + 300,
    "sin": lambda: mnp.sin(None),
    "floor": lambda: mnp.floor(mnp.array(1j)),
    "matmul": lambda: mnp.matmul(x3, x4),
    "reshape": lambda: mnp.reshape(x3, (2, 2)),
    "x.reshape": lambda: x3.reshape(2, 2),
    "x.astype": lambda: x3.astype("float31"),
    "x.sum": lambda: x3.sum(axis=1),
    "x.mean": lambda: x3.mean(axis=1),
    "x.max": lambda: x3.max(axis=1),
    "x.argmax": lambda: x3.argmax(axis=1),
    "x.swapaxes": lambda: x3.swapaxes(0, 1),
    "x.mT": lambda: x3.mT,
    "x[10]": lambda: x3[10],
    "x['a']": lambda: x3["a"],
    "x[::0]": lambda: x3[::0],
    "x[i] = 1": lambda: x3.__setitem__(0, 1.0),
    "x.at[:2].set": lambda: x3.at[:2].set(x4),
    "x.at[['a']].get": lambda: x3.at["a"].get(),
    "len": lambda: len(mnp.ones(())),
    "iter": lambda: iter(mnp.ones(())),
    "bool": lambda: bool(x3),
    "int": lambda: int(x3),
    "float": lambda: float(x3),
    "complex": lambda: complex(x3),
    "range": lambda: range(mnp.ones(())),
    "item": lambda: x3.item(),
    "format": lambda: f"{mnp.ones(()):q}",
    "concatenate": lambda: mnp.concatenate([x23, x3]),
    "where": lambda: mnp.where(x3 > 0, x3, x4),
    "einsum": lambda: mnp.einsum("ij->k", x23),
    "zeros": lambda: mnp.zeros((2, 3.0)),
    "result_type": lambda: mnp.result_type(),
    "np.add": lambda: np.add(x3, x4),
    "np.add.reduce": lambda: np.add.reduce(x3, axis=1),
    "np.add.at": lambda: np.add.at(x3, 0, 1.0),
    "np.sum": lambda: np.sum(x3, axis=1),
    "np.copyto": lambda: np.copyto(x3, x3),
    "Array": lambda: Array(1),
    "ShapeDtypeStruct": lambda: mgefn.ShapeDtypeStruct((1.5,), "float32"),
    "config": lambda: config.update("traceback", 1),
    "config by attribute": lambda: setattr(config, "trace", 1),
    "config.override": lambda: config.override(nothing=1),
    "a leaked tracer": lambda: leaked + 1,
    "a leaked tracer's truth": lambda: bool(leaked),
    "a leaked tracer for NumPy": lambda: np.asarray(leaked),
    "grad of an integer": lambda: mgefn.grad(mnp.sin)(1),
    "grad of a name": lambda: mgefn.grad("f"),
    "jit of a name": lambda: mgefn.jit("f"),
    "jit as a decorator": lambda: mgefn.jit(static_argnums=0)("f"),
    "jit": lambda: mgefn.jit(mnp.add)(x3, x4),
    "lower": lambda: mgefn.jit(mnp.add).lower(x3, x4),
    "compiled": lambda: mgefn.jit(mnp.sin).lower(x3).compile()(x4),
    "vjp": lambda: mgefn.vjp(mnp.add, x3, x4),
    "pullback": lambda: mgefn.vjp(mnp.sin, x3)[1](x4),
    "jvp": lambda: mgefn.jvp(mnp.sin, (x3,), (x4,)),
    "linearize": lambda: mgefn.linearize(mnp.sin, x3)[1](x4),
    "linear_transpose": lambda: mgefn.linear_transpose(mnp.sin, x3)(x3),
    "vmap": lambda: mgefn.vmap(mnp.add)(x3, x4),
    "make_jaxpr": lambda: mgefn.make_jaxpr(mnp.add)(x3, x4),
    "eval_shape": lambda: mgefn.eval_shape(mnp.add, x3, x4),
    "custom_jvp": lambda: mgefn.grad(mgefn.custom_jvp(lambda x: x))(1.0),
    "custom_vjp of a number": lambda: mgefn.custom_vjp(1),
    "tree.map": lambda: mgefn.tree.map(lambda x, y: x, (1,), (1, 2)),
    "tree.unflatten": lambda: mgefn.tree.unflatten(mgefn.tree.structure((1, 2)), (1,)),
}


def fails(call: Callable[[], Any]) -> BaseException:
    with pytest.raises(Exception) as caught:  # what it says is tested elsewhere
        call()
    return caught.value


@pytest.mark.parametrize("what", CALLS)
def test_only_the_users_lines_are_shown(what):
    exc = fails(CALLS[what])
    assert own_frames(exc) == []
    assert traceback.extract_tb(exc.__traceback__)[-1].filename in (__file__, np.__file__)
    seen = exc.__cause__ or (None if exc.__suppress_context__ else exc.__context__)
    assert seen is None, "an exception of the inside is shown as well"


def test_the_users_function_stays_in_view():
    def loss(x):
        return helper(x).sum()

    def helper(x):
        return x + x4

    for call in (mgefn.grad(loss), mgefn.jit(loss), mgefn.vmap(loss), loss):
        argument = mnp.ones((5, 3)) if call not in (loss,) else x3
        exc = fails(lambda call=call, argument=argument: call(argument))
        names = [f.name for f in traceback.extract_tb(exc.__traceback__)]
        assert names[-2:] == ["loss", "helper"]
        assert own_frames(exc) == []


@pytest.mark.parametrize("what", ["+", "x[10]", "reshape", "x.sum", "zeros", "vmap"])
def test_all_frames_on_demand(what):
    with config.override(traceback="full"):
        assert own_frames(fails(CALLS[what]))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="lines can be missing since 3.11")
def test_a_frame_without_a_line_keeps_its_error():
    """As an interrupt between two lines leaves one: code without a table of lines."""

    def fail(x):
        raise ValueError("from a frame without a line")

    fail.__code__ = fail.__code__.replace(co_linetable=b"")
    with pytest.raises(ValueError, match="from a frame without a line"):
        mgefn.grad(fail)(1.0)
