"""make_jaxpr, eval_shape and what else looks at or around a program."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from mgefn import tree
from mgefn.api.derivatives import abstract
from mgefn.api.flat import FlatFunction, checked_function
from mgefn.api.placement import array_with_sharding, placed
from mgefn.api.stages import ShapeDtypeStruct
from mgefn.config import config
from mgefn.core.array_methods import Array
from mgefn.core.device_array import DeviceArray
from mgefn.core.devices import Device, devices_of
from mgefn.core.interpreter import NamedAxis, interpreter_set_to, state
from mgefn.core.jaxpr import ClosedJaxpr
from mgefn.core.source import fun_name
from mgefn.errors import ArgumentError, api_boundary, api_context
from mgefn.interpreters.jit import jit_p
from mgefn.interpreters.on_device import DefaultDevice
from mgefn.interpreters.staging import trace


@api_boundary
def make_jaxpr(
    fun: Callable[..., Any],
    static_argnums: int | Sequence[int] = (),
    axis_env: Any = None,
    return_shape: bool = False,
) -> Callable[..., Any]:
    """A function that gives the jaxpr of `fun` for its arguments.

    Args:
        fun: the function to trace.
        static_argnums: arguments that are Python values.
        axis_env: pairs (name, size) of axes that collectives in `fun` may name.
        return_shape: return (jaxpr, output's shapes and dtypes).

    Example:
        >>> mgefn.make_jaxpr(lambda x: mnp.sin(x) * 2)(1.0)
        { lambda ; a:f32[]~. let
            b:f32[]~ = sin a
            c:f32[]~ = mul b 2.0:f32[]~
          in (c,) }
    """
    checked_function("make_jaxpr", fun)
    nums = {static_argnums} if isinstance(static_argnums, int) else set(static_argnums)
    about = f"make_jaxpr({fun_name(fun)})"
    try:
        axes = [(name, operator.index(size)) for name, size in axis_env or ()]
    except (TypeError, ValueError):
        raise ArgumentError(
            f"{about}: axis_env must be pairs (name, size), got {axis_env!r}."
        ) from None

    @functools.wraps(fun, assigned=("__module__", "__name__", "__qualname__"), updated=())
    def make_jaxpr_of_fun(*args: Any, **kwargs: Any) -> Any:
        static = {i % len(args): args[i] for i in nums} if args else {}
        dyn = tuple(a for i, a in enumerate(args) if i not in static)
        leaves, in_tree = tree.flatten((dyn, kwargs))

        def call(dyn_args: Any, dyn_kwargs: Any) -> Any:
            rest = iter(dyn_args)
            full = [static[i] if i in static else next(rest) for i in range(len(args))]
            return fun(*full, **dyn_kwargs)

        flat = FlatFunction(call, in_tree, about)
        avals = [abstract(x, about) for x in leaves]
        with ExitStack() as scopes:
            for name, size in axes:
                scopes.enter_context(NamedAxis(name, size, about).entered())
            closed, captured = trace(flat, avals, about, fun_name(fun))
        if captured:
            closed = _captured_as_consts(closed, captured)
        if return_shape:
            shapes = [ShapeDtypeStruct(a.shape, a.dtype) for a in closed.out_avals]
            return closed, tree.unflatten(flat.out_tree, shapes)
        return closed

    return api_boundary(make_jaxpr_of_fun)


def _captured_as_consts(closed: ClosedJaxpr, captured: list[Any]) -> ClosedJaxpr:
    jaxpr = closed.jaxpr
    n = len(captured)
    moved = type(jaxpr)(
        jaxpr.in_binders[n:],
        jaxpr.eqns,
        jaxpr.outs,
        [*jaxpr.in_binders[:n], *jaxpr.const_binders],
        jaxpr.name,
    )
    return ClosedJaxpr(moved, [*captured, *closed.consts])


@api_boundary
def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The shapes and dtypes that fun(*args, **kwargs) would have, without computing it.

    Args:
        fun: any function that can be traced.
        args, kwargs: arrays, numbers, ShapeDtypeStructs, or pytrees of them.

    Returns:
        A pytree of ShapeDtypeStructs.
    """
    checked_function("eval_shape", fun)
    return make_jaxpr(fun, return_shape=True)(*args, **kwargs)[1]


@api_boundary
def named_call(fun: Callable[..., Any], *, name: str | None = None) -> Callable[..., Any]:
    """The same function; in a traced program its operations stand in a call of this name.

    Args:
        fun: any function; arguments that are no arrays are passed to it as they are.
        name: what the program calls it; None takes the function's own name.
    """
    shown = name or fun_name(fun)

    @functools.wraps(
        fun, assigned=("__module__", "__name__", "__qualname__", "__doc__"), updated=()
    )
    def named(*args: Any, **kwargs: Any) -> Any:
        if state.current is None:
            return fun(*args, **kwargs)
        leaves, in_tree = tree.flatten((args, kwargs))
        arrays = [i for i, x in enumerate(leaves) if isinstance(x, Array)]

        def call(*values: Any) -> Any:
            full = list(leaves)
            for i, v in zip(arrays, values, strict=True):
                full[i] = v
            new_args, new_kwargs = tree.unflatten(in_tree, full)
            return fun(*new_args, **new_kwargs)

        values = [leaves[i] for i in arrays]
        flat = FlatFunction(call, tree.structure(tuple(values)), f"named_call({shown})")
        closed, captured = trace(flat, [v.aval for v in values], flat.name, shown)
        outs = jit_p.bind(*captured, *values, jaxpr=closed, name=shown, inline=False)
        return tree.unflatten(flat.out_tree, outs)

    return api_boundary(named)


@api_context
def ensure_compile_time_eval() -> Iterator[None]:
    """Within the block operations on known values are computed at once, also under jit."""
    with interpreter_set_to(None):
        yield


@api_context
def disable_jit(disable: bool = True) -> Iterator[None]:
    """Within the block jitted functions run operation by operation, for debugging."""
    with config.override(disable_jit=disable):
        yield


@api_boundary
def block_until_ready(x: Any) -> Any:
    """Wait until all arrays of a pytree are computed, and return it."""
    for leaf in tree.leaves(x):
        if hasattr(leaf, "block_until_ready"):
            leaf.block_until_ready()
    return x


@api_boundary
def devices(backend: str | None = None) -> list[Device]:
    """The devices of a backend.

    Args:
        backend: "cpu", "gpu" (or "cuda"); None means the default one, the CPU unless
            `default_device` says otherwise.

    Raises:
        DeviceError: GPUs are asked for, and CuPy, the driver or a GPU is missing.
        ArgumentError: there is no such backend.

    Example:
        >>> mgefn.devices("cpu")
        [Device(platform='cpu', id=0)]
    """
    return devices_of("devices", default_backend() if backend is None else backend)


local_devices = devices


@api_boundary
def device_count(backend: str | None = None) -> int:
    """How many devices a backend has."""
    return len(devices(backend))


@api_boundary
def default_backend() -> str:
    """The platform where arrays are put when nothing else is said."""
    current = state.current
    return current.device.platform if isinstance(current, DefaultDevice) else "cpu"


@api_boundary
def device_put(
    x: Any, device: Any = None, *, src: Any = None, donate: Any = False, may_alias: Any = None
) -> Any:
    """The arrays of a pytree on a device, copied from memory that others can write.

    An operation on arrays of a GPU runs there. Host arrays that meet them follow, unless
    `device_put` has put them on the CPU.

    Args:
        x: a pytree of arrays and numbers.
        device: a device of `devices()`, a sharding, a PartitionSpec for the mesh of the context, or
            a tree of them that is a prefix of x; None leaves arrays where they are.
        src, donate, may_alias: accepted for JAX's programs.

    Raises:
        ArgumentError: there is no such device. ShapeError: a sharding does not fit an array.

    Example:
        >>> mesh = mgefn.make_mesh((1,), ("batch",))
        >>> x = mgefn.device_put(mnp.ones(4), mgefn.NamedSharding(mesh, mgefn.P("batch")))
        >>> x.sharding.spec
        PartitionSpec('batch')
    """
    return placed("device_put", x, device, array_with_sharding)


@api_boundary
def device_get(x: Any) -> Any:
    """The arrays of a pytree as NumPy arrays (read-only); random keys stay arrays of keys.

    Arrays on a GPU are copied to the host; the call waits for them.
    """

    def get(leaf: Any) -> Any:
        if isinstance(leaf, DeviceArray):
            leaf = leaf.to_host("device_get", True)
        return np.asarray(leaf) if isinstance(leaf, Array) and leaf.dtype.names is None else leaf

    return tree.map(get, x)
