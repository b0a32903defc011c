"""The CuPy backend's rows on the stand-in device: each equals the NumPy backend's kernel.

Every row of the case table runs with its operands on the device, by the code that runs on a GPU,
and in a program that was staged. No kernel reads an element on the host, and none uses what CuPy
does not have, which the stand-in would refuse.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import mgefn
from mgefn import dtypes
from mgefn.backends.cupy_kernels import contractions
from mgefn.core.backends import load_table
from mgefn.core.device_array import DeviceArray
from mgefn.core.devices import gpu
from mgefn.core.primitive import Primitive
from mgefn.ops.shaping import iota_p
from tests import checks
from tests.cases import CASES, OpCase, dtype_of
from tests.gpu import names
from tests.gpu.standin import HostRead, NotInCupy, StandIn, known
from tests.test_primitives import any_dtype, generator, primitives, with_special_values

load_table("cupy")


def by_phase(x: np.ndarray) -> np.ndarray:
    """Columns of a matrix with the phase at which their largest element is positive."""
    if x.size == 0:
        return x
    largest = np.take_along_axis(x, np.abs(x).argmax(-2)[..., None, :], -2)
    return x * np.abs(largest) / largest


# Left eigenvectors come from the right ones here, and from LAPACK on the CPU: each may be
# multiplied by any number of size 1.
UP_TO_PHASE = {"eig-left"}


# Both sides are as far from the exact result as the row allows, and sums may go another way. On a
# GPU functions have other errors than NumPy's: CUDA's guide allows up to 10 units for some.
ROOM = {"standin": 4, "emulator": 4, "gpu": 16}


def on_device(args: tuple) -> list[Any]:
    return [mgefn.device_put(a, gpu(0)) for a in args]


def compare(case: OpCase, args: tuple, fun: Callable[..., Any], ulps: float) -> None:
    wants = checks.leaves(case.fun(*checks.arrays(args)))
    # What has no operands goes to the default device.
    with mgefn.default_device("gpu") if case.primitive is iota_p else nullcontext():
        outs = checks.leaves(fun(*on_device(args)))
    assert len(outs) == len(wants)
    for k, (got, want) in enumerate(zip(outs, wants, strict=True)):
        assert type(got) is DeviceArray, f"output {k} is not on the device"
        assert got.dtype == want.dtype and got.shape == want.shape, (got.aval, want.aval)
        assert got.weak_type == want.weak_type
        if dtypes.is_key(got.dtype):
            got, want = mgefn.random.key_data(got), mgefn.random.key_data(want)
        host, want = mgefn.device_get(got), np.asarray(want)
        if case.name in UP_TO_PHASE and want.ndim > 1:
            host, want = by_phase(host), by_phase(want)
        checks.assert_close(host, want, ulps * checks.rounding(want.dtype), f"output {k}")


ROWS = [c for c in CASES if "cupy" not in c.primitive.unsupported]


@pytest.mark.parametrize("case", ROWS, ids=[c.name for c in ROWS])
def test_row_equals_the_numpy_kernel(case: OpCase, device: str) -> None:
    for name in case.dtypes:
        dtype = dtype_of(name)
        rng = generator(case, f"cupy {name}")
        for draw in (case.draw, *case.edges):
            args = draw(rng, dtype)
            compare(case, args, case.fun, ROOM[device] * case.ulps)


@pytest.mark.parametrize("case", ROWS, ids=[c.name for c in ROWS])
def test_row_in_a_program(case: OpCase, jit_device: str) -> None:
    """Staged and run on the device: the same, of one dtype."""
    dtype = any_dtype(case)
    rng = generator(case, "cupy program")
    for draw in (case.draw, *case.edges):
        args = draw(rng, dtype)
        compare(case, args, mgefn.jit(case.fun, backend="cupy"), ROOM[jit_device] * case.ulps)


ELEMENTWISE = [c for c in ROWS if c.primitive.elementwise]


@pytest.mark.parametrize("case", ELEMENTWISE, ids=[c.name for c in ELEMENTWISE])
def test_infinities_and_nan(case: OpCase, device: str) -> None:
    for name in case.dtypes:
        rng = generator(case, f"cupy special {name}")
        args = with_special_values(case.draw(rng, dtype_of(name)), rng)
        compare(case, args, case.fun, ROOM[device] * case.ulps)


# -- the table ------------------------------------------------------------------------------------


def silent(found: list[Primitive]) -> list[str]:
    """Primitives with neither a row nor a reason."""
    return [p.name for p in found if "cupy" not in p.kernels and not p.unsupported.get("cupy")]


def test_every_primitive_has_a_row_or_a_reason() -> None:
    assert silent(primitives()) == []
    both = [p.name for p in primitives() if "cupy" in p.kernels and "cupy" in p.unsupported]
    assert both == []


def test_a_hole_in_the_table_is_found() -> None:
    hollow = Primitive("hollow")
    assert silent([hollow]) == ["hollow"]


HOLES = [c for c in CASES if "cupy" in c.primitive.unsupported]


@pytest.mark.parametrize("case", HOLES, ids=[c.name for c in HOLES])
def test_what_has_no_row_says_why(case: OpCase, device: str) -> None:
    args = case.draw(generator(case), any_dtype(case))
    said = case.primitive.unsupported["cupy"]
    for fun in (case.fun, mgefn.jit(case.fun)):
        with pytest.raises(mgefn.errors.UnsupportedError) as e:
            fun(*on_device(args))
        assert f"{case.primitive.name}: gpu:0 has no kernel" in str(e.value)
        assert said in str(e.value) and "device_get" in str(e.value)


# -- the stand-in ---------------------------------------------------------------------------------


def test_kernels_name_only_what_cupy_has() -> None:
    missing = names.used() - set(known())
    assert not missing, f"run python -m tests.gpu.names where CuPy is installed: {sorted(missing)}"


def test_the_list_of_names_is_that_of_the_installed_cupy() -> None:
    pytest.importorskip("cupy", reason="needs CuPy, and no GPU")
    table = names.table()
    assert {k: v for k, v in known().items() if k in table} == table


def test_the_installed_cupy_has_what_programs_call() -> None:
    cupy = pytest.importorskip("cupy", reason="needs CuPy, and no GPU")
    for name in names.of_cuda():
        found = cupy
        for part in name.split(".")[1:]:
            found = getattr(found, part)
    assert {"cupy.cuda.Stream", "cupy.cuda.function.Module"} <= names.of_cuda()
    assert cupy._core._routines_linalg.COMPUTE_TYPE_TF32 == contractions.TF32
    for owner, methods in (
        (cupy.cuda.Stream, "__enter__ begin_capture end_capture synchronize"),
        (cupy.cuda.Graph, "launch"),
        (cupy.cuda.function.Module, "load get_function"),
        (cupy.cuda.Function, "__call__"),
        (cupy.cuda.Device, "id compute_capability"),
    ):
        for method in methods.split():
            assert hasattr(owner, method), (owner, method)


def test_the_stand_in_finds_faults(standin: StandIn) -> None:
    xp = standin.load("cupy")
    x = xp.array(np.ones(3, np.float32))
    with pytest.raises(HostRead):
        bool(x[0] > 0)
    with pytest.raises(HostRead):
        x[x > 0]
    with pytest.raises(TypeError):
        np.asarray(x)
    with pytest.raises(TypeError):
        np.add(x, 1)
    with pytest.raises(TypeError):
        x + np.ones(3, np.float32)
    with pytest.raises(NotInCupy):
        xp.nanquantile(x, 0.5)
    with pytest.raises(NotInCupy):
        xp.sum(x, where=x > 0)
    with pytest.raises(NotInCupy):
        xp.where(x > 0, x.astype("bfloat16"), x.astype("bfloat16"))
    with pytest.raises(AssertionError, match="out of bounds"):
        xp.take(x, xp.array(np.array([3])))
    with pytest.raises(NotInCupy, match="atomic"):
        standin.load("cupyx").scatter_add(x.astype(np.int64), xp.arange(3), xp.arange(3))
