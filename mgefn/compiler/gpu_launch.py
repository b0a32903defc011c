"""Launches of GPU kernels: what is launched, and how CuPy does it.

A `Launch` is a description only, and hashable. `Loaded` turns it into calls by way of CuPy.

Only a machine with an NVIDIA driver can load and start kernels. Tests without one run the same
text under gpu_emulator.py, have `ptxas` accept the PTX, and run programs with the emulator in the
place of what `_load` gives.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mgefn.compiler.codegen.nvptx import architecture_of, ptx_of
from mgefn.compiler.steps import Spot
from mgefn.core.cuda import xp
from mgefn.errors import MgefnError

NAME = "kernel"  # of the function in each module


class Launch(NamedTuple):
    """One launch of a kernel, over a line of blocks that are lines of threads.

    Attributes:
        kernel: hashable, with text(name), the LLVM text, and most_threads; see codegen.ptx.
        slots: the memory of its pointers.
        numbers: its i64 arguments.
        grid, block: how many blocks, how many threads each has.
        alignments: for each slot the bytes of which its address must be a multiple; empty where
            elements are read one by one.
        indirect: do the numbers go into memory, whose address is the last argument?
    Shared memory has its size in the text; `dynamic` shared memory is never asked for.
    """

    kernel: Any
    slots: tuple[Spot, ...]
    numbers: tuple[int, ...]
    grid: int
    block: int
    alignments: tuple[int, ...] = ()
    indirect: bool = False

    def for_any_address(self) -> Launch:
        """The same where addresses are aligned to elements only, which are then read one by one."""
        if not self.alignments:
            return self
        return self._replace(kernel=self.kernel._replace(aligned=False), alignments=())


@functools.lru_cache(maxsize=1024)
def _text(kind: type, kernel: Any) -> str:
    del kind  # tuples of different classes may be equal
    return kernel.text(NAME)


def text_of(launch: Launch) -> str:
    """The LLVM text of a launch's kernel, whose function is named NAME."""
    return _text(type(launch.kernel), launch.kernel)


def why_unavailable() -> str | None:
    """Why the current CUDA device gets no kernels of ours, or None where it does."""
    try:
        ptx_of("", architecture_of(xp.cuda.Device().compute_capability))
    except ImportError as error:
        return f"llvmlite can't be loaded ({error})"
    except MgefnError as error:
        return str(error)
    return None


@functools.lru_cache(maxsize=1024)
def _load(text: str, architecture: str, device: int) -> Any:
    """The kernel of a text as a cupy.cuda.Function; modules belong to one device each."""
    del device
    module = xp.cuda.function.Module()
    module.load(ptx_of(text, architecture).encode())
    return module.get_function(NAME)


class Loaded:
    """A launch whose kernel is loaded on the current CUDA device.

    Args:
        launch: what to launch.
    Attributes:
        architecture: for which its PTX is written.
    Raises:
        MgefnError: LLVM does not take the text. A RuntimeError of CuPy's: the driver does not.
    """

    def __init__(self, launch: Launch):
        device = xp.cuda.Device()
        self.launch = launch
        self.architecture = architecture_of(device.compute_capability)
        self._device = device.id
        self._function = self._loaded(launch)
        self._for_any: Any = None
        numbers = np.array(launch.numbers, np.int64)
        self._numbers: Sequence[Any] = list(numbers)
        if launch.indirect:
            self._numbers = [xp.array(numbers)]

    def _loaded(self, launch: Launch) -> Any:
        return _load(text_of(launch), self.architecture, self._device)

    def __call__(self, addresses: Sequence[int]) -> None:
        """Launch on CuPy's current stream.

        Args:
            addresses: device addresses of the slots, offsets included.
        """
        launch, function = self.launch, self._function
        for a, n in zip(addresses, launch.alignments, strict=False):
            if a % n:
                if self._for_any is None:
                    self._for_any = self._loaded(launch.for_any_address())
                function = self._for_any
                break
        arguments = (*map(np.uint64, addresses), *self._numbers)
        function((launch.grid,), (launch.block,), arguments)
