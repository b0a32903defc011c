"""SciPy's names for functions of this package, under jax.scipy's signatures.

Each submodule is loaded when it is first named. None of them needs SciPy itself to be imported, but
the NumPy backend computes most special functions with SciPy's kernels.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from mgefn.errors import MissingNameError

if TYPE_CHECKING:
    from mgefn.scipy import cluster as cluster
    from mgefn.scipy import fft as fft
    from mgefn.scipy import integrate as integrate
    from mgefn.scipy import interpolate as interpolate
    from mgefn.scipy import linalg as linalg
    from mgefn.scipy import ndimage as ndimage
    from mgefn.scipy import optimize as optimize
    from mgefn.scipy import signal as signal
    from mgefn.scipy import sparse as sparse
    from mgefn.scipy import special as special
    from mgefn.scipy import stats as stats

_SUBMODULES = frozenset(
    {
        "cluster",
        "fft",
        "integrate",
        "interpolate",
        "linalg",
        "ndimage",
        "optimize",
        "signal",
        "sparse",
        "special",
        "stats",
    }
)


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"mgefn.scipy.{name}")
    raise MissingNameError(__name__, name, _SUBMODULES)


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBMODULES})
