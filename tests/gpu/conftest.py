"""The device that tests run on: NumPy's stand-in everywhere, and a real GPU with --gpu."""

from collections.abc import Iterator

import pytest

from mgefn.core import cuda
from tests.gpu.standin import StandIn


@pytest.fixture
def standin() -> Iterator[StandIn]:
    """CuPy's place taken by the stand-in for one test."""
    made = StandIn()
    cuda.use(made.load)
    try:
        yield made
    finally:
        cuda.use(None)


@pytest.fixture(params=["standin", pytest.param("gpu", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    """Each test twice: on the stand-in, and on the GPU of this machine, where it must have one."""
    if request.param == "standin":
        request.getfixturevalue("standin")
    else:
        problem = cuda.problem()
        assert problem is None, f"--gpu was passed, and there is no GPU: {problem}"
    return request.param
