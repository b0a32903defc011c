"""CuPy, loaded when a program first asks for a GPU, and the error where that can't be.

Kernels name functions through `xp` (cupy), `cupyx`, `special` (cupyx.scipy.special) and `solvers`
(cupyx.scipy.linalg): each name is looked up once, at its first use, and is a plain attribute from
then on. `use` puts another library in CuPy's place; the tests do, to run the same kernels on NumPy.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from mgefn.errors import DeviceError

INSTALL = "Install one with: pip install cupy-cuda12x (or cupy-cuda13x, by the driver)."


class Names:
    """The names of one module of the library, looked up as they are needed."""

    def __init__(self, path: str):
        self._path = path

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            value = getattr(_load(self._path), name)
        except ImportError as e:
            # CuPy loads libraries of CUDA when one of their functions is first named.
            raise DeviceError(
                f"{name}: {self._path} can't be loaded: {_line(e)}. Install CUDA's libraries, with "
                'pip install "cupy-cuda12x[ctk]" (or cupy-cuda13x[ctk]).'
            ) from e
        self.__dict__[name] = value
        return value


xp: Any = Names("cupy")
cupyx: Any = Names("cupyx")
special: Any = Names("cupyx.scipy.special")
solvers: Any = Names("cupyx.scipy.linalg")
_ALL = (xp, cupyx, special, solvers)

_load: Callable[[str], Any] = importlib.import_module
_problem: list[str | None] = []  # what `problem` found out, once it has
on_change: list[Callable[[], None]] = []  # called when another library takes CuPy's place
changes = 0  # how often one did: programs hold functions of the library they were made for


def use(load: Callable[[str], Any] | None) -> None:
    """Take modules from load(path) from now on; None: import them."""
    global _load, changes
    changes += 1
    _load = importlib.import_module if load is None else load
    _problem.clear()
    for called in on_change:
        called()
    for names in _ALL:
        path = names._path
        names.__dict__.clear()
        names._path = path


def problem() -> str | None:
    """Why there is no GPU to work on, as a sentence; None where there is one."""
    if not _problem:
        _problem.append(_find_problem())
    return _problem[0]


def _find_problem() -> str | None:
    try:
        cupy = _load("cupy")
    except ImportError as e:
        if isinstance(e, ModuleNotFoundError) and e.name == "cupy":
            return f"CuPy is not installed. {INSTALL}"
        return f"CuPy can't be loaded ({_line(e)}). {INSTALL}"
    version = cupy.__version__
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except RuntimeError as e:  # CUDARuntimeError is one
        return (
            f"CuPy {version} is installed and CUDA answers: {_line(e)}. Install or update the "
            "NVIDIA driver, or run on the CPU."
        )
    if count == 0:
        return (
            f"CuPy {version} is installed and sees no GPU. Look at CUDA_VISIBLE_DEVICES, or run on "
            "the CPU."
        )
    return None


def _line(e: BaseException) -> str:
    """The first line that says something."""
    lines = [line.strip() for line in str(e).splitlines() if line.strip()]
    return (lines[0] if lines else type(e).__name__).rstrip(".")


def require(op: str) -> None:
    """Raise unless there is a GPU to work on.

    Raises:
        DeviceError: says what is missing and how to get it.
    """
    found = problem()
    if found is not None:
        raise DeviceError(f"{op}: needs a GPU, and there is no such device: {found}")


def count() -> int:
    """How many GPUs there are; 0 where CuPy or the driver is missing."""
    return 0 if problem() is not None else int(xp.cuda.runtime.getDeviceCount())


def kind(number: int) -> str:
    """The name of a GPU, as its maker calls it."""
    name = xp.cuda.runtime.getDeviceProperties(number)["name"]
    return name.decode() if isinstance(name, bytes) else str(name)


def flag(x: Any) -> bool:
    """One truth value of the device, read by the host: the call waits for it.

    The few kernels whose number of steps depends on their data call this, and loops do.
    """
    return bool(xp.asnumpy(x))
