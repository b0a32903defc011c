"""The device that tests run on: NumPy's stand-in everywhere, and a real GPU with --gpu."""

from collections.abc import Iterator

import pytest

from mgefn.compiler import gpu_launch, native
from mgefn.core import cuda
from tests.gpu.standin import Emulated, StandIn


@pytest.fixture
def standin() -> Iterator[StandIn]:
    """CuPy's place taken by the stand-in for one test; no kernel of ours runs there."""
    made = StandIn()
    cuda.use(made.load)
    try:
        yield made
    finally:
        cuda.use(None)


@pytest.fixture
def emulator(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """The same with our kernels in programs, which run in the emulator."""
    if not native.enabled():
        pytest.skip("needs LLVM")
    made = StandIn(capability="86")
    cuda.use(made.load)
    monkeypatch.setattr(gpu_launch, "_load", Emulated)
    try:
        yield made
    finally:
        cuda.use(None)


def _started(request: pytest.FixtureRequest) -> str:
    if request.param != "gpu":
        request.getfixturevalue(request.param)
    else:
        problem = cuda.problem()
        assert problem is None, f"--gpu was passed, and there is no GPU: {problem}"
    return request.param


_GPU = pytest.param("gpu", marks=pytest.mark.gpu)


@pytest.fixture(params=["standin", _GPU])
def device(request: pytest.FixtureRequest) -> str:
    """Each test twice: on the stand-in, and on the GPU of this machine, where it must have one."""
    return _started(request)


@pytest.fixture(params=["standin", "emulator", _GPU])
def jit_device(request: pytest.FixtureRequest) -> str:
    """The same and, between them, on the stand-in with our kernels in programs."""
    return _started(request)
