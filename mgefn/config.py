"""Settings: named fields of one object, `config`.

A field is read as one attribute, `config.enable_x64`. Assigning it, or `config.update(name,
value)`, changes the value for every thread; `with config.override(name=value):` changes it in the
current thread until the block ends.

Invariants: the global value of a setting is an attribute of the class `Config`; a thread's
overrides lie in that thread's own instance dictionary and hide it. `trace_key` is updated with
every change, in each thread that holds overrides too, so that reading it computes nothing. JAX's
names (`jax_enable_x64`) mean the settings of the same name without `jax_`.
"""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, ClassVar

import numpy as np

from mgefn import errors, forks
from mgefn.errors import ArgumentError

__all__ = ["Config", "config"]

# name -> accepted values; a range stands for the integers in it. The order is that of the
# documentation.
_ACCEPTED: dict[str, tuple[Any, ...]] = {
    "enable_x64": (False, True),
    "zero_annihilates": (False, True),
    "traceback": ("user", "full"),
    "narrow_inputs": (False, True),
    "disable_jit": (False, True),
    "check_jaxprs": (False, True),
    "debug_nans": (False, True),
    "debug_infs": (False, True),
    "log_compiles": (False, True),
    "jit_backend": ("llvm", "numpy"),
    "num_threads": (None, range(1, 1025)),
    "tiered_compilation": (False, True),
    "cuda_graphs": ("auto", "off"),
    "tf32": (False, True),
}
# Settings that change what a traced program is, or whether it runs as one; trace_key holds them.
_TRACED = ("enable_x64", "zero_annihilates", "narrow_inputs", "disable_jit", "jit_backend")


def _setting(operation: str, name: str) -> str:
    """The field that a name means, JAX's spelling included."""
    field = name.removeprefix("jax_") if isinstance(name, str) else name
    if field not in _ACCEPTED:
        raise ArgumentError(
            f"{operation}: needs the name of a setting, got {name!r}. "
            f"The settings are {', '.join(_ACCEPTED)}."
        )
    return field


def _checked(operation: str, name: str, value: Any) -> Any:
    accepted = _ACCEPTED[name]
    if isinstance(value, np.bool_):
        value = bool(value)
    elif isinstance(value, np.integer):
        value = int(value)
    # The type is compared too, because 1 == True.
    if not any(
        type(value) is int and value in choice
        if isinstance(choice, range)
        else type(value) is type(choice) and value == choice
        for choice in accepted
    ):
        choices = " or ".join(
            f"an integer from {choice[0]} to {choice[-1]}"
            if isinstance(choice, range)
            else repr(choice)
            for choice in accepted
        )
        raise ArgumentError(
            f"{operation}: {name} must be {choices}, got {value!r}. Pass one of them."
        )
    return value


_BOOLEANS = {"1": True, "true": True, "on": True, "yes": True}
_BOOLEANS |= {"0": False, "false": False, "off": False, "no": False}


def _from_environment(variable: str, name: str, default: Any) -> Any:
    text = os.environ.get(variable, "").strip().lower()
    if not text:
        return default
    value: Any = text
    if isinstance(default, bool):
        value = _BOOLEANS.get(text, text)
    elif default is None and text.isdecimal():
        value = int(text)
    return _checked(f"environment variable {variable}", name, value)


_key_of: dict[tuple[Any, ...], tuple[Any, ...]] = {}


def _interned(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """One object per value, so that comparing two keys usually ends at their identity."""
    return _key_of.setdefault(values, values)


class Config(threading.local):
    """The settings. Use the instance `config`; see each field below."""

    enable_x64: bool = _from_environment("MGEFN_ENABLE_X64", "enable_x64", False)
    """Python scalars and constructors without a dtype give 64-bit types. 64-bit types that are
    asked for are honoured either way. Environment: MGEFN_ENABLE_X64."""

    zero_annihilates: bool = True
    """A derivative that is exactly 0 times a slope that is not finite counts as 0, so that a branch
    not taken gives no NaN. False: plain products."""

    traceback: str = _from_environment("MGEFN_TRACEBACK", "traceback", "user")
    """"user": errors show the user's frames; "full": all frames. Environment: MGEFN_TRACEBACK."""

    narrow_inputs: bool = False
    """64-bit inputs are narrowed to 32 bits as JAX does by default. For ported programs."""

    disable_jit: bool = False
    """jit calls the function as it is; control flow runs in Python. For debuggers and printing."""

    check_jaxprs: bool = _from_environment("MGEFN_CHECK_JAXPRS", "check_jaxprs", False)
    """Run the IR checker after every compiler pass. Environment: MGEFN_CHECK_JAXPRS."""

    debug_nans: bool = _from_environment("MGEFN_DEBUG_NANS", "debug_nans", False)
    """The first operation that makes a NaN from operands without one raises NonFiniteError. Set for
    all threads it holds in this thread and in those that start later. Environment:
    MGEFN_DEBUG_NANS."""

    debug_infs: bool = _from_environment("MGEFN_DEBUG_INFS", "debug_infs", False)
    """The same for infinities. Environment: MGEFN_DEBUG_INFS."""

    log_compiles: bool = _from_environment("MGEFN_LOG_COMPILES", "log_compiles", False)
    """jit says on stderr what it traces, why, and how long that took. Environment:
    MGEFN_LOG_COMPILES."""

    jit_backend: str = _from_environment("MGEFN_JIT_BACKEND", "jit_backend", "llvm")
    """How compiled programs run on the CPU. "llvm": as native code, where LLVM knows this machine
    and an operation has native code, else by NumPy; "numpy": by NumPy alone. Environment:
    MGEFN_JIT_BACKEND."""

    num_threads: int | None = _from_environment("MGEFN_NUM_THREADS", "num_threads", None)
    """Threads that share the work of a compiled call, the calling one included. None: as many as
    CPUs this process may use, by its affinity and its cgroup's quota. Results do not depend on it.
    The threads are the whole process's: an override in one thread resizes the pool for all until it
    ends. Environment: MGEFN_NUM_THREADS."""

    tiered_compilation: bool = _from_environment(
        "MGEFN_TIERED_COMPILATION", "tiered_compilation", True
    )
    """A kernel with little work to do is first compiled in a hurry, so that a first call is soon
    done, and once more in the background. Results are the same bits. False: once and for speed,
    as `jit(f).lower(x).compile()` always does. Environment: MGEFN_TIERED_COMPILATION."""

    cuda_graphs: str = _from_environment("MGEFN_CUDA_GRAPHS", "cuda_graphs", "auto")
    """Whether programs on a GPU start runs of their kernels as CUDA graphs. "auto": where that
    saves launches, from the third call on; "off": never. A graph keeps the memory that it was
    captured with. Environment: MGEFN_CUDA_GRAPHS."""

    tf32: bool = _from_environment("MGEFN_TF32", "tf32", False)
    """Products of float32 and complex64 on a GPU of compute capability 8.0 or more are those of
    TF32, which takes 11 significant bits of each operand. It counts when a product runs, in
    compiled programs too; convolutions and decompositions stay as they are. False: as CuPy is set
    up, by CUPY_TF32. Environment: MGEFN_TF32."""

    trace_key: tuple[Any, ...] = ()
    """The values of the settings in TRACED: part of the key of every cache of traced programs.
    Read only; hashable and kept up to date."""

    TRACED: ClassVar[tuple[str, ...]] = _TRACED
    """Names of the settings in trace_key, in its order."""

    @errors.api_boundary
    def update(self, name: str, val: Any) -> None:
        """Change a setting for all threads; a thread that overrides it keeps its own value.

        Args:
            name: the setting, with or without JAX's prefix jax_.
            val: its value from now on.

        Raises:
            ArgumentError: the name is unknown or the value not one of those accepted.
        """
        field = _setting("config.update", name)
        _update(field, _checked("config.update", field, val))

    @errors.api_boundary
    def read(self, name: str) -> Any:
        """The value of a setting in this thread, by its name.

        Raises:
            ArgumentError: the name is unknown.
        """
        return getattr(self, _setting("config.read", name))

    @errors.api_boundary
    def override(self, **settings: Any) -> Override:
        """Context manager that changes settings in the current thread only.

        May be nested; the former values return when the block ends, however it ends.

        Raises:
            ArgumentError: a name is unknown or a value not one of those accepted.
        Example:
            >>> with config.override(disable_jit=True):
            ...     config.disable_jit
            True
        """
        checked = {}
        for name, value in settings.items():
            field = _setting("config.override", name)
            checked[field] = _checked("config.override", field, value)
        return Override(self, checked)

    @errors.api_boundary
    def __setattr__(self, name: str, value: Any) -> None:
        self.update(name, value)

    @errors.api_boundary
    def __delattr__(self, name: str) -> None:
        raise ArgumentError(f"config: {name} cannot be deleted. Assign the value you want.")

    def __repr__(self) -> str:
        return f"Config({', '.join(f'{name}={getattr(self, name)!r}' for name in _ACCEPTED)})"


# Guards the global values and all that follows; never held while other code runs. Reentrant,
# because a signal handler or finalizer may leave an override while this thread holds it.
_lock = forks.lock()
# Per thread with overrides: id of its instance dictionary -> that dictionary, and its overrides in
# the order of entry. An override leaves the dictionary it entered, whichever thread closes it.
_overridden: dict[int, tuple[dict[str, Any], list[dict[str, Any]]]] = {}


# setting -> called in a thread where its value may have changed; the argument says whether the
# change is for all threads. Whoever serves the setting hangs it here.
hooks: dict[str, Callable[[bool], None]] = {}


def _run_hooks(names: Iterable[str], everywhere: bool) -> None:
    for hook in {hooks[name] for name in names if name in hooks}:
        hook(everywhere)


def _update(field: str, value: Any) -> None:
    with _lock:
        setattr(Config, field, value)
        if field in _TRACED:
            Config.trace_key = _interned(tuple(getattr(Config, name) for name in _TRACED))
            for values, _ in _overridden.values():
                _refresh_key(values)
    _run_hooks((field,), True)


def _refresh_key(values: dict[str, Any]) -> None:
    values["trace_key"] = _interned(
        tuple(values[name] if name in values else getattr(Config, name) for name in _TRACED)
    )


class Override:
    """Settings changed in one thread for the time of a `with` block."""

    __slots__ = ("_config", "_entered", "_settings")

    def __init__(self, config: Config, settings: dict[str, Any]) -> None:
        self._config = config
        self._settings = settings
        self._entered: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def __enter__(self) -> Config:
        values = self._config.__dict__
        layer = dict(self._settings)
        with _lock:
            _, layers = _overridden.setdefault(id(values), (values, []))
            layers.append(layer)
            values.update(layer)
            _refresh_key(values)
        self._entered.append((values, layer))
        _run_hooks(layer, False)
        return self._config

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        values, layer = self._entered.pop()
        with _lock:
            layers = _overridden[id(values)][1]
            # By identity: an equal layer may have been entered twice.
            layers[:] = [other for other in layers if other is not layer]
            for name in layer:
                holders = [other[name] for other in layers if name in other]
                if holders:
                    values[name] = holders[-1]
                else:
                    values.pop(name, None)
            if layers:
                _refresh_key(values)
            else:
                values.pop("trace_key", None)
                del _overridden[id(values)]
        _run_hooks(layer, False)


Config.trace_key = _interned(tuple(getattr(Config, name) for name in _TRACED))
for _name in _ACCEPTED:
    # Properties rather than __getattr__, whose presence would double the cost of reading a field.
    setattr(Config, "jax_" + _name, property(operator.attrgetter(_name)))

config = Config()

# The name mgefn.config is this module in an import statement and the settings elsewhere.
update = config.update
read = config.read


def _wants_full_traceback() -> bool:
    return config.traceback == "full"


errors.wants_full_traceback = _wants_full_traceback
