"""Settings as context managers, and what looks at the whole process: caches, arrays, leaks."""

from __future__ import annotations

import gc
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import (
    AbstractContextManager,
    _GeneratorContextManager,
    contextmanager,
    nullcontext,
)
from typing import Any

import numpy as np

from mgefn.api.inspection import Device, devices
from mgefn.api.jit import jitted
from mgefn.config import config
from mgefn.control import checkpoint, programs
from mgefn.core import background
from mgefn.core.array import ConcreteArray, as_array, described
from mgefn.core.array_methods import Array
from mgefn.core.avals import ShapedArray
from mgefn.core.device_array import DeviceArray
from mgefn.core.devices import CPU, device_named
from mgefn.core.interpreter import interpreter_set_to, state
from mgefn.core.source import describe, scopes
from mgefn.core.tracer import Tracer
from mgefn.core.transfers import checked_level, guards
from mgefn.errors import ArgumentError, LeakedTracerError, api_boundary, api_context, leave_api
from mgefn.interpreters.on_device import DefaultDevice

# -- settings for a block -------------------------------------------------------------------------


@api_context
def enable_x64(new_val: bool = True) -> Iterator[None]:
    """Within the block Python numbers and constructors without a dtype give 64-bit types.

    Example:
        >>> with mgefn.enable_x64():
        ...     mnp.ones(2).dtype
        dtype('float64')
    """
    with config.override(enable_x64=new_val):
        yield


@api_context
def debug_nans(new_val: bool = True) -> Iterator[None]:
    """Within the block the first operation that makes a NaN raises, also in compiled programs.

    A program whose outputs hold a NaN is run again operation by operation to find the one that made
    it; its prints and callbacks then happen twice. Outside the block nothing is looked at.

    Raises:
        NonFiniteError: names the operation and the user's line.

    Example:
        >>> with mgefn.debug_nans():
        ...     mgefn.jit(mnp.log)(-1.0)
        Traceback (most recent call last):
        mgefn.errors.NonFiniteError: log: must give finite numbers while debug_nans is on, ...
    """
    with config.override(debug_nans=new_val):
        yield


@api_context
def debug_infs(new_val: bool = True) -> Iterator[None]:
    """Within the block the first operation that makes an infinity raises; see `debug_nans`."""
    with config.override(debug_infs=new_val):
        yield


@api_context
def log_compiles(new_val: bool = True) -> Iterator[None]:
    """Within the block jit says on stderr what it traces, why, and how long that took."""
    with config.override(log_compiles=new_val):
        yield


@api_boundary
def default_device(new_val: Any = None) -> AbstractContextManager[None]:
    """Within the block new arrays are put on this device, and operations run there.

    Args:
        new_val: a device of `mgefn.devices()`, its platform such as "cpu" or "gpu", or None for the
            default.

    Raises:
        DeviceError: it is a GPU that is not there.
        ArgumentError: there is no such device.
    """
    if new_val is None:
        return nullcontext()
    device = device_named("default_device", new_val)
    if device is None:
        raise ArgumentError(
            f"default_device: needs one of {', '.join(map(str, devices('cpu')))} or a GPU, got "
            f"{new_val!r}. See mgefn.devices('cpu') and mgefn.devices('gpu')."
        )
    return _on_default(device)


@contextmanager
def _on_default(device: Device) -> Iterator[None]:
    previous = state.current
    if previous is not None and not isinstance(previous, DefaultDevice):
        yield  # a transformation is under way: where its program runs is not decided here
        return
    with interpreter_set_to(None if device is CPU else DefaultDevice(device)):
        yield


@api_context
def transfer_guard(level: str) -> Iterator[None]:
    """Within the block copies between the host and GPUs are allowed, printed or forbidden.

    Args:
        level: "allow"; "log" or "disallow" for copies that follow from something else, such as
            numpy.asarray, print, `if`, or a host array in an operation on a GPU's; "log_explicit"
            or "disallow_explicit" for those by device_put and device_get too. Numbers and host
            arrays of rank 0 are arguments of an operation and no copies.

    Raises:
        DeviceError: within the block, where a copy is forbidden.

    Example:
        >>> with mgefn.transfer_guard("disallow"):
        ...     total = float(mnp.ones(3).sum())  # on the CPU there is nothing to copy
    """
    with transfer_guard_host_to_device(level), transfer_guard_device_to_host(level):
        yield


@api_context
def transfer_guard_host_to_device(level: str) -> Iterator[None]:
    """`transfer_guard` for copies from the host to a GPU."""
    previous = guards.host_to_device
    guards.host_to_device = checked_level("transfer_guard", level)
    try:
        yield
    finally:
        guards.host_to_device = previous


@api_context
def transfer_guard_device_to_host(level: str) -> Iterator[None]:
    """`transfer_guard` for copies from a GPU to the host."""
    previous = guards.device_to_host
    guards.device_to_host = checked_level("transfer_guard", level)
    try:
        yield
    finally:
        guards.device_to_host = previous


@api_boundary
def named_scope(name: str) -> _GeneratorContextManager[None]:
    """Give the operations of a block, or of a decorated function, a name in programs and errors.

    The names show in `compiled.as_text()` and where a message says which line made a value.

    Args:
        name: what the scope is called; nested scopes are joined by "/".

    Raises:
        ArgumentError: name is no str.

    Example:
        >>> @mgefn.named_scope("encoder")
        ... def encode(x):
        ...     return mnp.tanh(x)
        >>> "in encoder" in mgefn.jit(encode).lower(1.0).compile().as_text()
        True
    """
    if not isinstance(name, str):
        raise ArgumentError(f"named_scope: the name must be a str, got {described(name)}.")
    return _scope(name)


@contextmanager
def _scope(name: str) -> Iterator[None]:
    outer = scopes.path
    scopes.path = f"{outer}/{name}" if outer else name
    try:
        yield
    finally:
        scopes.path = outer


# -- the whole process ----------------------------------------------------------------------------


@api_context
def checking_leaks(new_val: bool = True) -> Iterator[None]:
    """Raise at the end of the block where a traced value outlived the function that was traced.

    Looks at all objects of the process, so it takes a while.

    Raises:
        LeakedTracerError: says where each leaked value was made.

    Example:
        >>> kept = []
        >>> with mgefn.checking_leaks():
        ...     mgefn.jit(lambda x: kept.append(x) or x)(1.0)
        Traceback (most recent call last):
        mgefn.errors.LeakedTracerError: checking_leaks: 1 traced value outlived its function: ...
    """
    if not new_val:
        yield
        return
    gc.collect()
    before = {id(x) for x in _tracers()}
    yield
    gc.collect()
    found = [x for x in _tracers() if id(x) not in before and not x.interpreter.is_active()]
    if found:
        shown = []
        for tracer in found[:5]:
            origin = tracer.origin()
            made = "" if origin is None else f" made at {describe(origin)}"
            shown.append(f"{tracer.aval}{made} in {tracer.interpreter.about}")
        more = "" if len(found) <= 5 else f", and {len(found) - 5} more"
        what = "1 traced value" if len(found) == 1 else f"{len(found)} traced values"
        message = (
            f"checking_leaks: {what} outlived {'its' if len(found) == 1 else 'their'} function: "
            f"{'; '.join(shown)}{more}. Return it instead of storing it."
        )
        tracer = None
        found.clear()  # the traceback holds this frame
        try:
            raise LeakedTracerError(message)
        except LeakedTracerError as e:
            leave_api(e)
            raise


def _instances(*classes: type) -> list[Any]:
    """All objects of these classes, which are written in Python.

    Through what refers to the classes, as gc.get_objects shows tuples that another thread is
    making: that thread then fails with a SystemError.
    """
    return [x for x in gc.get_referrers(*classes) if x.__class__ in classes]


def _tracers() -> list[Tracer]:
    classes: list[type] = [Tracer]
    for cls in classes:
        classes += cls.__subclasses__()
    return _instances(*classes)


@api_boundary
def clear_caches() -> None:
    """Forget all traced and compiled programs; the next call of each function traces again."""
    for fun in filter(None, [ref() for ref in jitted.valuerefs()]):
        fun.clear_cache()
    for cache in [ref() for ref in checkpoint.caches.valuerefs()]:
        if cache is not None:
            cache.clear()
    programs.clear()
    gc.collect()


@api_boundary
def live_arrays(platform: str | None = None) -> list[Array]:
    """All arrays that are alive in this process.

    Args:
        platform: only those on this platform, such as "cpu"; None means all.
    """
    kinds = {None: (ConcreteArray, DeviceArray), "cpu": (ConcreteArray,)}
    wanted = kinds.get(platform, (DeviceArray,) if platform in ("gpu", "cuda") else ())
    return [x for x in _instances(*wanted) if not x.is_deleted()]


@api_boundary
def effects_barrier() -> None:
    """Wait until the effects of all calls, such as printing, have happened.

    They have when a call returns: programs run in the calling thread.
    """


@api_boundary
def compilation_barrier() -> None:
    """Wait until the kernels that were compiled in a hurry are compiled for speed.

    Measurements begin with it: the first calls of a function may run slower code, which gives the
    same bits; see `mgefn.config.tiered_compilation`. What runs already goes on with what it has.

    Example:
        >>> f = mgefn.jit(mnp.tanh)
        >>> y = f(mnp.ones(1000))  # traces, compiles
        >>> mgefn.compilation_barrier()
        >>> y = f(mnp.ones(1000))  # what every later call costs
    """
    background.wait()


@api_boundary
def typeof(x: Any) -> ShapedArray:
    """The type of an array, tracer or number: its shape, dtype and weak type.

    Example:
        >>> mgefn.typeof(mnp.ones((2, 3)))
        ShapedArray(f32[2,3])
    """
    return as_array(x, "typeof").aval


@api_boundary
def print_environment_info(return_string: bool = False) -> str | None:
    """Print what a bug report should say of this machine and its libraries.

    Args:
        return_string: return the text instead.
    """
    lines = [f"mgefn: {sys.modules['mgefn'].__version__}", f"numpy: {np.__version__}"]
    for name in ("scipy", "optree", "ml_dtypes"):
        module = sys.modules.get(name)
        lines.append(f"{name}: {'not loaded' if module is None else module.__version__}")
    lines += [
        f"python: {sys.version.splitlines()[0]}",
        f"platform: {platform.platform()}",
        f"cpus: {os.cpu_count()}",
        f"devices: {', '.join(map(str, devices()))}",
        f"settings: {config!r}",
    ]
    text = "\n".join(lines)
    if return_string:
        return text
    print(text)
    return None


@api_boundary
def local_device_count(backend: str | None = None) -> int:
    """How many devices of a backend this process has."""
    return len(devices(backend))


@api_boundary
def process_index(backend: str | None = None) -> int:
    """The number of this process among those that compute together; 0, as it is alone."""
    return 0


@api_boundary
def process_count(backend: str | None = None) -> int:
    """How many processes compute together: 1."""
    return 1


__all__ = [
    "Device",
    "checking_leaks",
    "clear_caches",
    "compilation_barrier",
    "debug_infs",
    "debug_nans",
    "default_device",
    "effects_barrier",
    "enable_x64",
    "live_arrays",
    "local_device_count",
    "log_compiles",
    "named_scope",
    "print_environment_info",
    "process_count",
    "process_index",
    "typeof",
]
