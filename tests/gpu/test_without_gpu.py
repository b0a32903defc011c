"""Where there is no GPU: importing works, and asking for one gives one clear error.

Three machines: without CuPy; with CuPy and a driver that is missing or too old, or without a GPU;
and this one, as it is. Each is a process of its own.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn.core import cuda
from mgefn.errors import DeviceError
from tests.gpu.standin import StandIn

ROOT = Path(__file__).parents[2]

ASK: dict[str, Callable[[], Any]] = {
    "devices": lambda: mgefn.devices("gpu"),
    "device_put": lambda: mgefn.device_put(1.0, "gpu"),
    "default_device": lambda: mgefn.default_device("cuda:0"),
    "zeros": lambda: mnp.zeros(3, device="gpu"),
    "jit(<lambda>)": lambda: mgefn.jit(lambda x: x + 1, backend="cupy")(1.0),
    "to_device": lambda: mnp.ones(3).to_device("gpu"),
}


@pytest.fixture
def library():
    yield cuda.use
    cuda.use(None)


@pytest.mark.parametrize("op", ASK)
def test_no_cupy(op: str, library: Callable[[Any], None]) -> None:
    def load(path: str) -> Any:
        raise ModuleNotFoundError("No module named 'cupy'", name="cupy")

    library(load)
    with pytest.raises(DeviceError) as e:
        ASK[op]()
    assert str(e.value) == (
        f"{op}: needs a GPU, and there is no such device: CuPy is not installed. Install one with: "
        "pip install cupy-cuda12x (or cupy-cuda13x, by the driver)."
    )


def test_a_cupy_that_does_not_load(library: Callable[[Any], None]) -> None:
    def load(path: str) -> Any:
        raise ImportError("libcublas.so.12: cannot open shared object file")

    library(load)
    with pytest.raises(DeviceError, match=r"CuPy can't be loaded \(libcublas\.so\.12: cannot"):
        mgefn.devices("gpu")


def test_libraries_of_cuda_are_missing(library: Callable[[Any], None]) -> None:
    standin = StandIn()

    def load(path: str) -> Any:
        if path == "cupyx.scipy.linalg":
            raise ImportError('Failure finding "libcublasLt.so.12"')
        return standin.load(path)

    library(load)
    x = mgefn.device_put(np.eye(2), "gpu")
    assert float((x + 1).sum()) == 6
    with pytest.raises(DeviceError, match=r"lu_factor: .*libcublasLt.*cupy-cuda12x\[ctk\]"):
        mnp.linalg.det(x)


NO_DEVICE = "cudaErrorNoDevice: no CUDA-capable device is detected"
OLD_DRIVER = (
    "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version"
)


@pytest.mark.parametrize("op", ASK)
@pytest.mark.parametrize("error", [NO_DEVICE, OLD_DRIVER])
def test_no_driver(op: str, error: str, library: Callable[[Any], None]) -> None:
    library(StandIn(error=error).load)
    with pytest.raises(DeviceError) as e:
        ASK[op]()
    assert f"{op}: needs a GPU" in str(e.value) and f"CUDA answers: {error}. Install" in str(
        e.value
    )


def test_no_visible_gpu(library: Callable[[Any], None]) -> None:
    library(StandIn(devices=0).load)
    with pytest.raises(DeviceError, match=r"sees no GPU\. Look at CUDA_VISIBLE_DEVICES"):
        mgefn.devices("gpu")


def test_the_cpu_does_not_ask(library: Callable[[Any], None]) -> None:
    """Nothing that stays on the CPU looks for CuPy."""

    def load(path: str) -> Any:
        raise AssertionError(f"{path} was loaded")

    library(load)
    x = mgefn.device_put(mnp.arange(3.0), "cpu")
    assert mgefn.devices() == [x.device] and mgefn.default_backend() == "cpu"
    mgefn.jit(mgefn.grad(lambda v: mnp.sin(v).sum()))(x)
    with mgefn.default_device("cpu"), mgefn.transfer_guard("disallow"):
        assert float(x.sum()) == 3.0


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def has_cupy() -> bool:
    return importlib.util.find_spec("cupy") is not None


def test_this_machine() -> None:
    """The installed CuPy, or its absence: importing loads nothing, and the answer is an error."""
    out = run(
        """
        import sys
        import mgefn, mgefn.numpy as mnp
        assert "cupy" not in sys.modules
        assert float(mgefn.jit(lambda x: (x + 1).sum())(mnp.ones(3))) == 6
        assert "cupy" not in sys.modules
        try:
            print("there is", mgefn.devices("gpu")[0])
        except mgefn.errors.DeviceError as e:
            print(e)
        print("after", float(mnp.ones(3).sum()))
        """
    )
    said, after = out.splitlines()
    assert after == "after 3.0"
    if not said.startswith("there is gpu:0"):
        assert said.startswith("devices: needs a GPU, and there is no such device: CuPy ")
        if has_cupy():
            assert "CUDA answers: cudaError" in said or "sees no GPU" in said
        else:
            assert "CuPy is not installed" in said
