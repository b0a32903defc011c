"""Arrays in NumPy's files: .npy for one, .npz for several."""

from __future__ import annotations

import os
from typing import IO, Any

import numpy as np

from mgefn import dtypes
from mgefn.core.array_methods import ArrayLike
from mgefn.errors import api_boundary
from mgefn.numpy.creation import asarray

File = str | os.PathLike[str] | IO[bytes]


@api_boundary
def save(file: File, arr: ArrayLike, allow_pickle: bool = True) -> None:
    """Write an array to a file of the format .npy, as numpy.save does.

    Args:
        file: a path, to which .npy is added where it has no suffix, or an open file.
        arr: an array whose values are known.
        allow_pickle: taken for the sake of ported programs: numbers need no pickle.
    """
    np.save(file, np.asarray(arr), allow_pickle=allow_pickle)


@api_boundary
def savez(file: File, *args: ArrayLike, allow_pickle: bool = True, **kwds: ArrayLike) -> None:
    """Write several arrays to a file of the format .npz, as numpy.savez does.

    Args:
        file: a path, to which .npz is added where it has no suffix, or an open file.
        args: arrays, called arr_0, arr_1 and so on.
        allow_pickle: taken for the sake of ported programs: numbers need no pickle.
        kwds: arrays under their names.
    """
    named: dict[str, Any] = {k: np.asarray(v) for k, v in kwds.items()}
    np.savez(file, *map(np.asarray, args), allow_pickle=allow_pickle, **named)


@api_boundary
def load(file: File, *args: Any, **kwargs: Any) -> Any:
    """Read what `save` wrote; from a file of several arrays NumPy's mapping of names to arrays.

    Args:
        file: a path or an open file.
        args, kwargs: as for numpy.load, which refuses pickles unless allow_pickle is True.

    Returns:
        Array; two-byte elements that NumPy has no name for are bfloat16. A file of the format .npz
        gives a numpy.lib.npyio.NpzFile of NumPy arrays.

    Raises:
        FileNotFoundError, ValueError: as numpy.load.
    """
    found = np.load(file, *args, **kwargs)
    if not isinstance(found, np.ndarray):
        return found
    if found.dtype == np.dtype("V2"):
        found = found.view(dtypes.canonical("bfloat16"))
    # Objects and texts, which a pickle may hold, are no arrays here.
    return asarray(found) if found.dtype.kind in "biufcV" and not found.dtype.names else found
