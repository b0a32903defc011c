"""A device made of NumPy, on which the CuPy backend's kernels run without a GPU.

`StandIn.load` gives modules in place of cupy, cupyx, cupyx.scipy.special and cupyx.scipy.linalg. An
array of theirs wraps a NumPy array and does what CuPy's does, and no more:

- It is no NumPy array: NumPy's functions, `numpy.asarray` and operations with NumPy arrays that are
  not scalars fail, as they do for CuPy's.
- Reading a value on the host (bool, int, item, tolist) raises, because it would wait for the
  device. Only `asnumpy` reads.
- Names, keyword arguments and the dtypes of ufuncs are those of CuPy: `cupy_names.json` holds what
  `python -m tests.gpu.names` found in the real one.
- A stream that is captured takes launches of kernels and refuses all other work, memory included. A
  graph launches what was recorded, with the addresses that were recorded; these must be of arrays
  that are still there.
- New memory holds garbage.

Kernels of ours run in the emulator (`emulated`), where a test asks for that; else the device has an
old architecture, for which there are none.

Where an operation has the same name and another meaning in the two libraries, the one here has
CuPy's.
"""

from __future__ import annotations

import contextlib
import json
import threading
import types
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
import scipy.special

from mgefn.compiler import gpu_emulator

NAMES = Path(__file__).with_name("cupy_names.json")


class HostRead(Exception):
    """A kernel read an element of a device array on the host."""


class NotInCupy(Exception):
    """A kernel used what CuPy does not have, or not for these dtypes."""


def known() -> dict[str, Any]:
    return json.loads(NAMES.read_text(encoding="utf-8"))


# -- arrays ---------------------------------------------------------------------------------------

METHODS = (
    "reshape transpose astype view copy swapaxes ravel flatten squeeze sum prod any all max min"
).split()
VIEWS = "reshape transpose view swapaxes ravel squeeze".split()
BINARY = "add sub mul truediv floordiv mod pow and or xor lshift rshift".split()


# The memory of all arrays, by the identity of what NumPy array owns it.
LIVE: weakref.WeakValueDictionary[int, np.ndarray] = weakref.WeakValueDictionary()


class FakeArray:
    """An array of the stand-in: `a` is the NumPy array under it."""

    __slots__ = ("a",)
    __array_ufunc__ = None  # numpy.add(fake, ...) fails
    __hash__ = None  # type: ignore[assignment]  # as of all arrays

    def __init__(self, a: np.ndarray):
        assert type(a) is np.ndarray, type(a)
        self.a = a
        while isinstance(a.base, np.ndarray):
            a = a.base
        LIVE[id(a)] = a

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def _no_read(self, *args: Any) -> Any:
        raise HostRead("an element of a device array was read on the host")

    __bool__ = __int__ = __float__ = __complex__ = __index__ = item = tolist = get = _no_read
    __iter__: Any

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def __len__(self) -> int:
        return len(self.a)

    shape = property(lambda self: self.a.shape)
    dtype = property(lambda self: self.a.dtype)
    ndim = property(lambda self: self.a.ndim)
    size = property(lambda self: self.a.size)
    itemsize = property(lambda self: self.a.itemsize)
    nbytes = property(lambda self: self.a.nbytes)
    strides = property(lambda self: self.a.strides)
    flags = property(lambda self: self.a.flags)
    T = property(lambda self: FakeArray(self.a.T))
    imag = property(lambda self: FakeArray(np.asarray(self.a.imag)))
    real = property(lambda self: FakeArray(np.asarray(self.a.real)))
    data = property(lambda self: types.SimpleNamespace(ptr=self.a.ctypes.data))

    def __getitem__(self, index: Any) -> FakeArray:
        return FakeArray(np.asarray(self.a[plain_index(index)]))

    def __setitem__(self, index: Any, value: Any) -> None:
        queued()
        at = plain_index(index)
        taken = plain(value)
        if isinstance(taken, np.ndarray) and taken.ndim:
            place = self.a[at]
            if np.broadcast_shapes(place.shape, taken.shape) != place.shape:
                raise ValueError("shapes do not fit")
        check_moves(self.a.dtype)
        self.a[at] = taken


def plain_index(index: Any) -> Any:
    if isinstance(index, tuple):
        return tuple(plain_index(i) for i in index)
    if isinstance(index, FakeArray):
        if index.dtype.kind == "b":
            raise HostRead("a boolean mask as an index waits for its count")
        return index.a
    if isinstance(index, np.ndarray) and index.ndim:
        raise TypeError("a NumPy array can't index a device array")
    return index


def plain(x: Any) -> Any:
    """What NumPy takes in the place of an argument; refuses NumPy arrays that are not scalars."""
    if isinstance(x, FakeArray):
        return x.a
    if isinstance(x, np.ndarray):
        raise TypeError(f"Unsupported type {type(x)}: a host array of shape {x.shape}")
    if isinstance(x, (list, tuple)):
        return type(x)([plain(i) for i in x])
    return x


def wrapped(x: Any) -> Any:
    if isinstance(x, (np.ndarray, np.generic)):
        return FakeArray(np.asarray(x))
    if isinstance(x, (list, tuple)):
        return tuple(wrapped(i) for i in x)
    return x


def check_moves(dtype: np.dtype) -> None:
    """Indexing of bfloat16 is not something that CuPy's sources promise."""
    if dtype.kind == "V":
        raise NotInCupy(f"an assignment by index of {dtype}")


def _method(name: str) -> Callable[..., Any]:
    def call(self: FakeArray, *args: Any, **kwargs: Any) -> Any:
        if name not in VIEWS:
            queued()
        with np.errstate(all="ignore"):
            return wrapped(getattr(self.a, name)(*map(plain, args), **kwargs))

    return call


for _name in METHODS:
    setattr(FakeArray, _name, _method(_name))


# -- ufuncs and functions -------------------------------------------------------------------------

_OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide",
    "floordiv": "floor_divide", "mod": "remainder", "pow": "power", "and": "bitwise_and",
    "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "left_shift", "rshift": "right_shift",
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal",
    "ne": "not_equal",
}  # fmt: skip


def _is_weak(x: Any) -> bool:
    return type(x) in (bool, int, float, complex)


class FakeUfunc:
    """One of CuPy's ufuncs: takes the first loop to which its operands can be cast safely."""

    def __init__(self, name: str, loops: list[str], function: Callable[..., Any]):
        self.name = name
        self.loops = [loop.split("->") for loop in loops]
        self.function = function

    def __call__(self, *args: Any) -> Any:
        queued()
        values = [plain(a) for a in args]
        chars, outs = self._loop(values)
        operands = [np.asarray(v).astype(c) for v, c in zip(values, chars, strict=True)]
        with np.errstate(all="ignore"):
            made = self.function(*operands)
        if len(outs) > 1:
            return tuple(
                wrapped(np.asarray(m).astype(_dtype(c))) for m, c in zip(made, outs, strict=True)
            )
        return wrapped(np.asarray(made).astype(_dtype(outs[0]), copy=False))

    def _loop(self, values: list[Any]) -> tuple[list[np.dtype], str]:
        for ins, outs in self.loops:
            found = [_dtype(c) for c in ins]
            if all(
                _weak_fits(v, c) if _is_weak(v) else _safe(np.asarray(v).dtype, c)
                for v, c in zip(values, found, strict=True)
            ):
                return found, outs
        types_ = [getattr(v, "dtype", type(v)) for v in values]
        raise NotInCupy(f"{self.name} has no loop for {types_}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotInCupy(f"{self.name}.{name}")


def _dtype(char: str) -> np.dtype:
    if char == "E":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(char)


def _safe(a: np.dtype, b: np.dtype) -> bool:
    if a.kind == "V" or b.kind == "V":
        # bfloat16 goes to wider floats; what goes to it is what NumPy casts to 8 bits of fraction.
        return a == b or (a.kind == "V" and b.kind in "fc" and b.itemsize > 2)
    return np.can_cast(a, b, "safe")


def _weak_fits(v: Any, dtype: np.dtype) -> bool:
    """May a Python number be of this dtype? Its kind decides, as in NEP 50."""
    kind = "biufc".index("f" if dtype.kind == "V" else dtype.kind)
    least = {bool: 0, int: 1, float: 3, complex: 4}[type(v)]
    return kind >= least


class FakeFunction:
    """One of CuPy's functions: takes its keyword arguments and no others."""

    def __init__(self, name: str, parameters: list[str], function: Callable[..., Any]):
        self.name = name
        self.parameters = parameters
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        queued()
        unknown = set(kwargs) - set(self.parameters)
        if unknown:
            raise NotInCupy(f"{self.name}({', '.join(sorted(unknown))}=)")
        # Only `array` brings a host array to the device.
        values = list(args) if self.name == "array" else [plain(a) for a in args]
        values = [v.a if isinstance(v, FakeArray) else v for v in values]
        self._check_dtypes(values)
        with np.errstate(all="ignore"):
            made = self.function(*values, **{k: plain(v) for k, v in kwargs.items()})
        return wrapped(made)

    def _check_dtypes(self, values: list[Any]) -> None:
        flat = [v for x in values for v in (x if isinstance(x, (list, tuple)) else [x])]
        for v in flat:
            if isinstance(v, np.ndarray) and v.dtype.kind == "V" and self.name not in FOR_ALL:
                raise NotInCupy(f"{self.name} of {v.dtype}")


# What makes, copies or looks at memory of any dtype.
FOR_ALL = {
    "array", "asarray", "empty", "zeros", "broadcast_to", "asnumpy", "ascontiguousarray",
    "as_strided",
}  # fmt: skip


# -- where CuPy means something else --------------------------------------------------------------


def _array(x: Any, *args: Any, **kwargs: Any) -> np.ndarray:
    return np.array(x, *args, **kwargs)


def _empty(shape: Any, dtype: Any = float, order: str = "C") -> np.ndarray:
    return gpu_emulator.filled(shape, dtype)


def _copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = None) -> None:
    np.copyto(dst, src, casting=casting, where=True if where is None else where)  # type: ignore[arg-type]  # NumPy's literal


def _take(a: np.ndarray, indices: Any, axis: Any = None) -> np.ndarray:
    n = a.size if axis is None else a.shape[axis]
    indices = np.asarray(indices)
    assert indices.size == 0 or (indices.min() >= 0 and indices.max() < n), "out of bounds"
    return np.asarray(np.take(a, indices, axis=axis))


def _as_strided(x: np.ndarray, shape: Any = None, strides: Any = None) -> np.ndarray:
    low, high = np.lib.array_utils.byte_bounds(x)
    made = np.lib.stride_tricks.as_strided(x, shape, strides)
    if made.size:
        a, b = np.lib.array_utils.byte_bounds(made)
        assert low <= a and b <= high, "a view beyond its memory"
    return made


def _sort(a: np.ndarray, axis: int = -1, kind: Any = None) -> np.ndarray:
    return np.sort(a, axis=axis, kind="stable")


def _argsort(a: np.ndarray, axis: int = -1, kind: Any = None) -> np.ndarray:
    return np.argsort(a, axis=axis, kind="stable")


ATOMIC = ("int32", "uint32", "uint64", "float32", "float64")


def _atomic(ufunc: Any, dtypes: tuple[str, ...]) -> Callable[..., None]:
    def scatter(a: np.ndarray, slices: Any, value: Any) -> None:
        if a.dtype.name not in dtypes:
            raise NotInCupy(f"an atomic operation on {a.dtype}")
        assert slices.size == 0 or (slices.min() >= 0 and slices.max() < a.shape[0])
        ufunc.at(a, slices, value)

    return scatter


def _solve_triangular(
    a: np.ndarray, b: np.ndarray, lower: bool = False, unit_diagonal: bool = False, **_: Any
) -> np.ndarray:
    """By substitution: a zero on the diagonal gives infinities, as cuBLAS does."""
    assert a.flags.c_contiguous and b.flags.c_contiguous, "CuPy passes their addresses on"
    n = a.shape[-1]
    x = np.array(b)
    with np.errstate(all="ignore"):
        for i in range(n) if lower else range(n - 1, -1, -1):
            known_ = slice(0, i) if lower else slice(i + 1, n)
            x[..., i : i + 1, :] -= np.matmul(a[..., i : i + 1, known_], x[..., known_, :])
            if not unit_diagonal:
                x[..., i, :] /= a[..., i, i, None]
    return x


def _lu_factor(a: np.ndarray, overwrite_a: bool = False, check_finite: bool = True) -> tuple:
    assert a.ndim == 2, "CuPy takes one matrix"
    getrf = scipy.linalg.get_lapack_funcs("getrf", (a,))
    factors, pivots, _ = getrf(a)
    return factors, pivots.astype(np.int32)


def _lu_solve(lu_and_piv: Any, b: np.ndarray, trans: int = 0, **_: Any) -> np.ndarray:
    factors, pivots = lu_and_piv
    assert factors.ndim == 2, "CuPy takes one matrix"
    return scipy.linalg.get_lapack_funcs("getrs", (factors, b))(factors, pivots, b, trans=trans)[0]


def _polygamma(n: Any, x: Any) -> Any:
    return scipy.special.polygamma(n, x)


REPLACED: dict[str, Callable[..., Any]] = {
    "cupy.array": _array,
    "cupy.empty": _empty,
    "cupy.copyto": _copyto,
    "cupy.take": _take,
    "cupy.sort": _sort,
    "cupy.argsort": _argsort,
    "cupy.lib.stride_tricks.as_strided": _as_strided,
    "cupyx.scatter_add": _atomic(np.add, ATOMIC),
    "cupyx.scatter_max": _atomic(np.maximum, ("int32", "uint32", "uint64")),
    "cupyx.scatter_min": _atomic(np.minimum, ("int32", "uint32", "uint64")),
    "cupyx.scipy.linalg.solve_triangular": _solve_triangular,
    "cupyx.scipy.linalg.lu_factor": _lu_factor,
    "cupyx.scipy.linalg.lu_solve": _lu_solve,
}


# -- modules --------------------------------------------------------------------------------------


class CUDARuntimeError(RuntimeError):
    pass


class _Current(threading.local):
    stream: Stream | None = None  # the default stream
    device = 0


_current = _Current()
_handles = iter(range(100, 1 << 30))


class Stream:
    """Runs work at once, or records it while it is captured."""

    def __init__(self, null: bool = False, non_blocking: bool = False, ptr: int | None = None):
        self.ptr = next(_handles) if ptr is None else ptr
        self.recorded: list[Callable[[], None]] | None = None
        self.entered: list[Stream | None] = []

    def __enter__(self) -> Stream:
        self.entered.append(_current.stream)
        _current.stream = self
        return self

    def __exit__(self, *args: Any) -> None:
        _current.stream = self.entered.pop()

    def synchronize(self) -> None:
        if self.recorded is not None:
            raise CUDARuntimeError("cudaErrorStreamCaptureUnsupported: stream is capturing")

    def begin_capture(self, mode: int | None = None) -> None:
        if self.ptr == 0:
            raise CUDARuntimeError("cudaErrorStreamCaptureUnsupported: the default stream")
        assert self.recorded is None
        self.recorded = []

    def end_capture(self) -> Graph:
        assert self.recorded is not None, "begin_capture comes first"
        recorded, self.recorded = self.recorded, None
        return Graph(recorded)


_DEFAULT = Stream(ptr=0)


def current_stream() -> Stream:
    return _current.stream or _DEFAULT


class Graph:
    """Launches that were recorded."""

    launched = 0  # of all graphs

    def __init__(self, recorded: list[Callable[[], None]]):
        self.recorded = recorded

    def launch(self, stream: Stream | None = None) -> None:
        Graph.launched += 1
        for work in self.recorded:
            work()


def queued() -> None:
    """Other work than launches, which a graph of ours has none of."""
    if current_stream().recorded is not None:
        raise CUDARuntimeError(
            "cudaErrorStreamCaptureUnsupported: operation not permitted when stream is capturing"
        )


class Emulated:
    """A kernel that runs in the emulator: what `gpu_launch._load` gives.

    Attributes:
        launched: how many launches there were, of all kernels; those in graphs too.
    """

    launched = 0

    def __init__(self, text: str, architecture: str, device: int):
        assert architecture == "sm_86" and device == _current.device
        self.text, self.device = text, device

    def __call__(self, grid: Sequence[int], block: Sequence[int], args: Sequence[Any]) -> None:
        assert self.device == _current.device, "a kernel was loaded on another device"
        given: list[int] = []
        pointers: list[int] = []
        for a in args:
            kind = type(a).__name__
            assert kind in ("uint64", "int64", "FakeArray"), kind
            given.append(a.data.ptr if kind == "FakeArray" else int(a))
            if kind != "int64":
                pointers.append(given[-1])
        work = lambda: self._run(grid[0], block[0], given, pointers)
        recorded = current_stream().recorded
        if recorded is None:
            work()
        else:
            recorded.append(work)

    def _run(self, grid: int, block: int, given: list[int], pointers: list[int]) -> None:
        Emulated.launched += 1
        memory: dict[int, np.ndarray] = {}
        for at in pointers:
            for a in list(LIVE.values()):
                first = a.ctypes.data
                if first <= at < first + a.nbytes:
                    memory[id(a)] = a
                    break
            else:
                raise AssertionError(f"a kernel got {at:#x}, where no array is")
        whole = [a.reshape(-1).view(np.uint8) for a in memory.values()]
        faults = gpu_emulator.run(self.text, grid, block, given, whole)
        assert not faults, faults


class _Refused:
    """A module that the driver does not take."""

    def load(self, code: bytes) -> None:
        raise CUDARuntimeError("CUDA_ERROR_UNSUPPORTED_PTX_VERSION: the driver is too old")


class _Device:
    def __init__(self, number: int, capability: str):
        self.id, self.compute_capability = number, capability
        self.entered: list[int] = []

    def __enter__(self) -> None:
        self.entered.append(_current.device)
        _current.device = self.id

    def __exit__(self, *args: Any) -> None:
        _current.device = self.entered.pop()


class StandIn:
    """Modules in place of CuPy's.

    Args:
        devices: how many GPUs there seem to be.
        error: what the driver says instead of a number.
        capability: "86" for a device that takes kernels of ours.
    Attributes:
        used: the names that were asked for.
        reads: how many arrays were copied to the host.
    """

    def __init__(self, devices: int = 1, error: str | None = None, capability: str = "60"):
        self.used: set[str] = set()
        self.reads = 0
        self.known = known()
        self.devices, self.error, self.capability = devices, error, capability
        self.compute_type = 1  # of float32; CuPy's default

    def load(self, path: str) -> Any:
        return _Module(self, path)

    def value(self, path: str) -> Any:
        self.used.add(path)
        special_ = getattr(self, "_" + path.replace(".", "_"), None)
        if special_ is not None:
            return special_
        entry = self.known.get(path)
        if entry is None:
            raise NotInCupy(path)
        if entry == "module":
            return _Module(self, path)
        function = self._matmul if path == "cupy.matmul" else REPLACED.get(path)
        function = function or numpy_function(path)
        if "loops" in entry:
            return FakeUfunc(path.rpartition(".")[2], entry["loops"], function)
        return FakeFunction(path.rpartition(".")[2], entry["parameters"], function)

    _cupy___version__ = "14.0.0 (stand-in)"

    def _cupy_asnumpy(self, x: FakeArray) -> np.ndarray:
        self.reads += 1
        return np.array(x.a)

    def _cupy__core_get_compute_type(self, dtype: Any) -> int:
        assert np.dtype(dtype).char in "fF"
        return self.compute_type

    def _cupy__core_set_compute_type(self, dtype: Any, compute_type: int) -> None:
        assert np.dtype(dtype).char in "fF"
        assert compute_type in (1, 7)
        assert compute_type != 7 or int(self.capability) >= 80, "CuPy warns"
        self.compute_type = compute_type

    def _matmul(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if self.compute_type == 7 and a.dtype.char in "fF":
            a, b = tf32(a), tf32(b)
        return np.matmul(a, b)

    def _cupyx_errstate(self, **kwargs: Any) -> Any:
        assert kwargs == {"linalg": "raise"}
        return contextlib.nullcontext()

    @property
    def _cupy_cuda(self) -> Any:
        def count() -> int:
            if self.error is not None:
                raise CUDARuntimeError(self.error)
            return self.devices

        runtime = types.SimpleNamespace(
            getDeviceCount=count,
            getDeviceProperties=lambda i: {"name": b"Stand-in"},
            CUDARuntimeError=CUDARuntimeError,
        )
        return types.SimpleNamespace(
            runtime=runtime,
            get_current_stream=current_stream,
            Stream=Stream,
            Device=lambda i=None: _Device(_current.device if i is None else i, self.capability),
            function=types.SimpleNamespace(Module=_Refused),
        )


def tf32(a: np.ndarray) -> np.ndarray:
    """Numbers with the 11 significant bits that TF32 has."""
    bits = np.ascontiguousarray(a).view(np.uint32)
    return ((bits + np.uint32(1 << 12)) & np.uint32(0xFFFFE000)).view(a.dtype)


class _Module:
    def __init__(self, owner: StandIn, path: str):
        self._owner, self._path = owner, path

    def __getattr__(self, name: str) -> Any:
        return self._owner.value(f"{self._path}.{name}")


def numpy_function(path: str) -> Any:
    """What NumPy or SciPy have of the same meaning."""
    if path.startswith("cupyx.scipy.special."):
        return getattr(scipy.special, path.rpartition(".")[2])
    found: Any = np
    for part in path.split(".")[1:]:
        found = getattr(found, part)
    return found


def _operator(ufunc: str, swapped: bool) -> Callable[..., Any]:
    loops = known()[f"cupy.{ufunc}"]["loops"]
    fake = FakeUfunc(ufunc, loops, getattr(np, ufunc))

    def call(self: FakeArray, other: Any) -> Any:
        return fake(other, self) if swapped else fake(self, other)

    return call


def _in_place(ufunc: str) -> Callable[..., Any]:
    """The same loop; it writes to the memory of its first operand."""
    call = _operator(ufunc, False)

    def update(self: FakeArray, other: Any) -> Any:
        self.a[...] = call(self, other).a
        return self

    return update


if NAMES.exists():
    for _name, _ufunc in _OPERATORS.items():
        setattr(FakeArray, f"__{_name}__", _operator(_ufunc, False))
        if _name in BINARY:
            setattr(FakeArray, f"__r{_name}__", _operator(_ufunc, True))
            setattr(FakeArray, f"__i{_name}__", _in_place(_ufunc))
    for _name, _ufunc in (("neg", "negative"), ("invert", "invert"), ("abs", "absolute")):
        _fake = FakeUfunc(_ufunc, known()[f"cupy.{_ufunc}"]["loops"], getattr(np, _ufunc))
        setattr(FakeArray, f"__{_name}__", lambda self, _f=_fake: _f(self))
