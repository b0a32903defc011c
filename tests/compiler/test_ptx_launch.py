"""Launches as CuPy starts them, with NumPy in its place and the emulator in that of a GPU."""

from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mgefn.compiler import gpu_emulator, gpu_launch, native
from mgefn.compiler.codegen.nvptx import architecture_of
from mgefn.compiler.gpu_launch import LoadedStep
from mgefn.errors import ArgumentError
from tests.compiler.ptx_programs import PROGRAMS, assert_close, device_program, drawn

pytestmark = pytest.mark.skipif(not native.enabled(), reason="needs LLVM")


class HostArray(np.ndarray):
    """An array whose address is asked for as CuPy's is."""

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.ctypes.data)


Calls = list[tuple[int, int, tuple[Any, ...]]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[Calls]:
    """The launches made; each runs on the emulator."""
    made: Calls = []
    memory: list[np.ndarray] = []

    def array(a: np.ndarray) -> HostArray:
        out = gpu_emulator.aligned(a).view(HostArray)
        memory.append(out.view(np.ndarray))
        return out

    xp = SimpleNamespace(
        asarray=array,
        empty=lambda shape, dtype: array(gpu_emulator.filled(shape, dtype)),
        cuda=SimpleNamespace(Device=lambda: SimpleNamespace(compute_capability="86", id=3)),
    )  # fmt: skip

    def load(text: str, architecture: str, device: int) -> Callable[..., None]:
        assert (architecture, device) == ("sm_86", 3)

        def start(grid: Sequence[int], block: Sequence[int], arguments: Sequence[Any]) -> None:
            given = [a.data.ptr if isinstance(a, HostArray) else int(a) for a in arguments]
            made.append((*grid, *block, tuple(given)))
            assert not gpu_emulator.run(text, *grid, *block, given, memory)

        return start

    monkeypatch.setattr(gpu_launch, "xp", xp)
    monkeypatch.setattr(gpu_launch, "_load", load)
    yield made


def loaded(fun: Callable[..., Any], args: Sequence[Any], shift: int = 0) -> list[np.ndarray]:
    """The outputs of a program of one step; inputs lie `shift` bytes behind a round address."""
    program = device_program(fun, *args)
    (eqn,) = program.jaxpr.eqns
    values = dict(zip(program.jaxpr.in_binders, args, strict=True))
    inputs = []
    for v in eqn.inputs:
        a = values[v]._data
        raw = gpu_launch.xp.asarray(np.zeros(a.nbytes + shift, np.uint8))
        placed = raw[shift:].view(a.dtype).reshape(a.shape)
        placed[...] = a
        inputs.append(placed)
    outs = dict(zip(eqn.out_binders, LoadedStep(eqn.params["step"])(inputs), strict=True))
    return [np.asarray(outs[v]) for v in program.jaxpr.outs]


@pytest.mark.parametrize("name", ["gelu", "softmax", "column sum", "sum of all", "layer norm"])
def test_a_step_gives_its_outputs(name: str, calls: Calls) -> None:
    fun, args = PROGRAMS[name]
    assert_close(loaded(fun, args), fun(*args), 20.0)
    assert calls


def test_addresses_that_are_not_aligned_take_another_kernel(calls: Calls) -> None:
    for shift in (0, 4):
        assert_close(loaded(lambda x: x * 2, [drawn(64)], shift), drawn(64) * 2)
    assert calls[0][:2] == calls[1][:2]


def test_many_arguments_go_through_memory(calls: Calls) -> None:
    args = [drawn(2, 3, 5, 4, 3, seed=i) for i in range(80)]

    def fun(*xs: Any) -> Any:
        total = xs[0].T
        for x in xs[1:]:
            total = total + x.T
        return total * 2

    assert_close(loaded(fun, args), fun(*args))
    ((_, _, arguments),) = calls
    assert len(arguments) == 80 + 1 + 1  # inputs, output, numbers


def test_architectures() -> None:
    assert [architecture_of(c) for c in ("70", "75", "88", "90", "121")] == [
        "sm_70", "sm_75", "sm_87", "sm_90", "sm_90",
    ]  # fmt: skip
    with pytest.raises(ArgumentError, match=r"compute capability 7\.0 or later, got 61"):
        architecture_of("61")
