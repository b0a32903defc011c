"""Every PTX text is taken by NVIDIA's assembler, and needs few registers and no others' memory.

`ptxas` is looked for on PATH, below CUDA_HOME and CUDA_PATH, and in the wheels nvidia-cuda-nvcc and
nvidia-cuda-nvcc-cu12. CUDA 12 is the last that knows sm_70.
"""

import functools
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from mgefn.backends.ptx_convolution import SQUARE, TALL, THIN, WIDE_TILE
from mgefn.compiler import native
from mgefn.compiler.codegen.nvptx import ptx_of
from mgefn.compiler.codegen.ptx import DeviceKernel
from mgefn.compiler.codegen.ptx_convolution import Convolution
from mgefn.compiler.gpu_launch import Launch, text_of
from mgefn.errors import ArgumentError, MgefnError
from tests.compiler.ptx_programs import (
    MATHEMATICS,
    PATTERNS,
    PROGRAMS,
    device_program,
    drawn,
    everywhere,
    launches_of,
)

pytestmark = pytest.mark.skipif(not native.enabled(), reason="needs LLVM")

ARCHITECTURES = ("sm_70", "sm_75", "sm_80", "sm_90")

# Registers of a thread. A multiprocessor has 65536, so that 64 leave room for 1024 threads.
REGISTERS = 64
MORE_REGISTERS = {
    "indirect": 80,  # holds the numbers that are arguments else
    # A thread that is alone keeps all that goes from round to round.
    "recurrent network": 96,
    "loop of as many numbers as may be": 255,
}
# Two blocks of 256 threads fit on a multiprocessor; of float64 one must where ptxas takes more.
OF_CONVOLUTIONS, OF_WIDE = 128, 144
STACK = 64  # bytes: of the rare functions, which are called


def assemblers() -> Iterator[str]:
    """Each ptxas there is."""
    found = shutil.which("ptxas")
    if found:
        yield found
    name = "ptxas.exe" if os.name == "nt" else "ptxas"
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield str(Path(os.environ[variable]) / "bin" / name)
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for package in ("cuda_nvcc", "cu13"):
            yield str(Path(folder) / package / "bin" / name)


class Assembled(NamedTuple):
    registers: int  # of the kernel
    spilled: int  # bytes, of stores and loads
    stack: int  # bytes
    shared: int  # bytes


def assembled(program: str, ptx: str, architecture: str) -> Assembled:
    """What ptxas says of a text that it takes."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(ptx)
        command = [program, "-v", f"-arch={architecture}", str(source), "-o", f"{source}.cubin"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr + done.stdout
    told = done.stderr + done.stdout
    number = lambda pattern: [int(n) for n in re.findall(pattern, told)]
    return Assembled(
        max(number(r"Used (\d+) registers")),
        sum(number(r"(\d+) bytes spill")),
        max(number(r"(\d+) bytes stack frame")),
        max([0, *number(r"(\d+) bytes smem")]),
    )


@functools.cache
def assembler(architecture: str) -> str | None:
    """A ptxas that knows an architecture."""
    for program in assemblers():
        if not Path(program).is_file():
            continue
        try:
            assembled(program, ptx_of(EMPTY, architecture), architecture)
        except AssertionError:
            continue
        return program
    return None


EMPTY = "define ptx_kernel void @kernel(i64 %n) {\n  ret void\n}\n"


@pytest.fixture(params=ARCHITECTURES)
def target(request: pytest.FixtureRequest) -> tuple[str, str]:
    """An assembler and the architecture that it is asked for."""
    program = assembler(request.param)
    if program is None:
        pytest.skip(f"no ptxas here knows {request.param}: install CUDA or nvidia-cuda-nvcc-cu12")
    return program, request.param


def most_threads(launch: Launch) -> int:
    return launch.kernel.most_threads


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str, target: tuple[str, str]) -> None:
    program, architecture = target
    fun, args = PROGRAMS[name]
    for launch in dict.fromkeys(launches_of(device_program(fun, *args))):
        limit = MORE_REGISTERS.get(name, REGISTERS)
        if isinstance(launch.kernel, Convolution):
            limit = OF_CONVOLUTIONS
        ptx = ptx_of(text_of(launch), architecture)
        found = assembled(program, ptx, architecture)
        assert found.spilled == 0 and found.stack <= STACK, (launch.kernel, found)
        assert found.registers <= limit, (launch.kernel, found)
        assert found.shared <= 48 * 1024
        assert launch.block <= most_threads(launch)
        assert f".maxntid {most_threads(launch)}" in ptx
        assert ptx.count("bar.sync") == text_of(launch).count("call void @llvm.nvvm.barrier0")
        assert_exact(ptx)


def assert_exact(ptx: str) -> None:
    """Arithmetic is that of the CPU: rounded after each operation, with subnormal numbers."""
    assert not re.search(r"\s(add|mul|sub|mad)\.f(32|64)\b", ptx)  # these may be contracted
    assert not re.search(r"\.(ftz|approx|full)\b", ptx)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", MATHEMATICS)
def test_functions(name: str, dtype: str) -> None:
    architecture = next((a for a in reversed(ARCHITECTURES) if assembler(a)), None)
    program = assembler(architecture) if architecture else None
    if architecture is None or program is None:
        pytest.skip("no ptxas here: install CUDA or nvidia-cuda-nvcc-cu12")
    (launch,) = launches_of(device_program(MATHEMATICS[name], everywhere(dtype)))
    ptx = ptx_of(text_of(launch), architecture)
    found = assembled(program, ptx, architecture)
    assert found.spilled == 0 and found.stack <= STACK, found
    assert found.registers <= MORE_REGISTERS.get(f"{name} {dtype}", REGISTERS), found
    assert_exact(ptx)


@pytest.mark.parametrize("form", ["wide", "indirect", "any address"])
def test_other_forms(form: str, target: tuple[str, str]) -> None:
    program, architecture = target
    for name in ("adam", "layer norm gradient", "middle sum", "transpose of three", "normal",
                 "padded, by rows", "padded, by tiles"):  # fmt: skip
        fun, args = PROGRAMS[name]
        for launch in launches_of(device_program(fun, *args)):
            kernel = launch.kernel
            assert isinstance(kernel, DeviceKernel)
            if form == "any address":
                kernel = launch.for_any_address().kernel
            else:
                kernel = kernel._replace(**{form: True})
            ptx = ptx_of(kernel.text("kernel"), architecture)
            found = assembled(program, ptx, architecture)
            assert found.spilled == 0 and found.registers <= MORE_REGISTERS.get(form, REGISTERS)


@pytest.mark.parametrize("dilated", [False, True])
@pytest.mark.parametrize("by_term", [(False, False), (True, True)])
@pytest.mark.parametrize("shape", [SQUARE, TALL, WIDE_TILE, THIN])
def test_convolutions(
    shape: tuple[int, int, int, int], by_term: tuple[bool, bool], dilated: bool,
    target: tuple[str, str],
) -> None:  # fmt: skip
    program, architecture = target
    for dtype, rank in (("float32", 2), ("float64", 2), ("float32", 3)):
        kernel = Convolution(dtype, dtype, dtype, rank, dilated, False, False, by_term, *shape)
        ptx = ptx_of(kernel.text("kernel"), architecture)
        found = assembled(program, ptx, architecture)
        assert found.spilled == 0 and found.stack == 0, found
        assert found.registers <= (OF_WIDE if dtype == "float64" else OF_CONVOLUTIONS), found
        assert found.shared <= 48 * 1024
        assert ptx.count("bar.sync") == 3 and "fma.rn" in ptx
        assert not re.search(r"\b(ld|st)\.(v\d\.)?b\d", ptx)  # memory is told apart
        assert_exact(ptx)
        if shape != THIN:  # both operands are read as vectors
            wide = "b32" if dtype == "float32" else "b64"
            assert re.search(rf"ld\.shared\.v[24]\.{wide}", ptx)


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns_of_every_dtype(name: str) -> None:
    """On the oldest architecture that there is an assembler for, which has the fewest types."""
    known = [a for a in ARCHITECTURES if assembler(a)]
    if not known:
        pytest.skip("no ptxas here: install CUDA or nvidia-cuda-nvcc-cu12")
    rank, dtypes, fun = PATTERNS[name]
    program = assembler(known[0])
    assert program is not None
    for dtype in dtypes:
        for launch in launches_of(device_program(fun, drawn(*[33] * max(rank, 1), dtype=dtype))):
            found = assembled(program, ptx_of(text_of(launch), known[0]), known[0])
            assert found.spilled == 0 and found.registers <= REGISTERS, (launch.kernel, found)


def test_vectors_shuffles_and_shared_memory_are_used() -> None:
    def texts(name: str) -> str:
        fun, args = PROGRAMS[name]
        program = device_program(fun, *args)
        return "\n".join(ptx_of(text_of(launch), "sm_80") for launch in launches_of(program))

    gelu, softmax, long_rows = texts("gelu"), texts("softmax"), texts("softmax of long rows")
    assert "ld.global.v4.b32" in gelu and "st.global.v4.b32" in gelu
    assert softmax.count("shfl.sync.bfly") == 10 and "bar.sync" not in softmax
    assert "bar.sync" in long_rows and "st.shared" in long_rows and "ld.shared" in long_rows
    assert "ld.shared" in texts("transpose and add")
    assert re.search(r"(atom|red)\.global\.add\.f32", texts("scatter add"))
    # Memory is told apart: no access has to find out where its address leads.
    for text in (gelu, softmax, long_rows):
        assert not re.search(r"\b(ld|st)\.(v\d\.)?b\d", text)


def test_a_size_is_no_part_of_the_text() -> None:
    fun, _ = PROGRAMS["softmax"]
    small, large = (launches_of(device_program(fun, drawn(n, 64))) for n in (16, 300))
    assert [a.kernel for a in small] == [b.kernel for b in large]


def test_bad_arguments() -> None:
    with pytest.raises(ArgumentError, match="architecture must be like 'sm_80', got 'ampere'"):
        ptx_of(EMPTY, "ampere")
    with pytest.raises(MgefnError, match="LLVM rejects the module"):
        ptx_of("define void @f() {\n  ret i32 0\n}\n", "sm_80")


@pytest.mark.parametrize("text", ["  spilled nothing", ""])
def test_a_text_that_is_no_ptx_is_refused(text: str, target: tuple[str, str]) -> None:
    with pytest.raises((AssertionError, ValueError)):
        assembled(target[0], f".version 7.0\n{text}", target[1])
