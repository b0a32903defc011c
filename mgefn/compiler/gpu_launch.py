"""Launches of GPU kernels: what is launched, and how CuPy does it.

A `Launch` is a description only, and hashable. `Loaded` and `LoadedStep` turn it into calls by way
of CuPy.

Only a machine with an NVIDIA driver can load and start kernels. Tests without one run the same
text under gpu_emulator.py, have `ptxas` accept the PTX, and run LoadedStep with the emulator in the
place of CuPy's functions; the few lines of `_load` are what they leave out.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mgefn.compiler.codegen.nvptx import architecture_of, ptx_of
from mgefn.compiler.steps import Fixed, NativeStep, Scratch, Spot
from mgefn.core.cuda import xp

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


@functools.lru_cache(maxsize=1024)
def _load(text: str, architecture: str, device: int) -> Any:
    """The kernel of a text as a cupy.cuda.Function; modules belong to one device each."""
    del device
    module = xp.cuda.function.Module()
    module.load(ptx_of(text, architecture).encode())
    return module.get_function(NAME)


class Loaded:
    """A launch whose kernel is loaded on the current CUDA device.

    It needs CuPy and a device: tests without them put something else in the place of `_load`.

    Args:
        launch: what to launch.
    """

    def __init__(self, launch: Launch):
        device = xp.cuda.Device()
        self.launch = launch
        self._on = architecture_of(device.compute_capability), device.id
        numbers = np.array(launch.numbers, np.int64)
        self._numbers: Sequence[Any] = list(numbers)
        if launch.indirect:
            self._numbers = [xp.asarray(numbers)]

    def __call__(self, addresses: Sequence[int]) -> None:
        """Launch on CuPy's current stream.

        Args:
            addresses: device addresses of the slots, offsets included.
        """
        launch = self.launch
        if any(a % n for a, n in zip(addresses, launch.alignments, strict=False)):
            launch = launch.for_any_address()
        function = _load(text_of(launch), *self._on)
        arguments = (*(np.uint64(a) for a in addresses), *self._numbers)
        function((launch.grid,), (launch.block,), arguments)


class LoadedStep:
    """A step of launches, on the current CUDA device; see Loaded.

    Args:
        step: its code is Launches.
    """

    def __init__(self, step: NativeStep):
        self.step = step
        self.launches = [Loaded(launch) for launch in step.code]
        roots = [root for launch in step.code for root, _ in launch.slots]
        self.fixed = {r: xp.asarray(r.array) for r in roots if isinstance(r, Fixed)}

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Start the launches on CuPy's current stream; the outputs, as CuPy's arrays.

        Args:
            inputs: CuPy arrays, values of step.inputs, contiguous.
        """
        step = self.step
        outs = [xp.empty(v.aval.shape, v.aval.dtype) for v in step.outputs]
        held: dict[Any, Any] = {**self.fixed}
        held.update(zip(step.inputs, inputs, strict=True))
        held.update(zip(step.outputs, outs, strict=True))
        held.update({Scratch(i): xp.empty(n, np.uint8) for i, n in enumerate(step.scratch)})
        for loaded in self.launches:
            loaded([held[root].data.ptr + offset for root, offset in loaded.launch.slots])
        return outs
