"""GPU kernels, run thread by thread on the CPU: right for every pattern, and wrong ones found."""

import ast
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mgefn
from mgefn import nn
from mgefn import numpy as mnp
from mgefn.compiler import gpu_emulator, native
from mgefn.compiler.codegen.builder import Module
from mgefn.compiler.codegen.ptx import (
    BLOCKS,
    COLUMNS,
    ELEMENTS,
    TILES,
    WARPS,
    DeviceBuilder,
    _Device,
)
from mgefn.compiler.codegen.ptx_straight import DeviceWriter
from mgefn.compiler.gpu_launch import NAME, Launch, text_of
from mgefn.errors import ArgumentError
from mgefn.scipy import special
from tests.compiler.ptx_programs import (
    MATHEMATICS,
    PATTERNS,
    PROGRAMS,
    TOLERANCE,
    assert_close,
    device_program,
    drawn,
    emulated,
    everywhere,
    labels,
    launches_of,
)
from tests.compiler.test_fusion_fuzz import Draw

pytestmark = pytest.mark.skipif(not native.enabled(), reason="needs LLVM")

# Here a value is the difference of terms so much greater than the result.
CANCELS = {"sum of all": 20.0, "sum of a matrix": 20.0, "tan float64": 1e3, "gammaln": 20.0}


def check(fun: Callable[..., Any], *args: Any, scale: float = 1.0) -> list[Launch]:
    """The emulated program gives what eager evaluation does, without a fault; its launches."""
    program = device_program(fun, *args)
    got, faults = emulated(program, *args)
    assert not faults, faults
    assert_close(got, fun(*args), scale)
    return launches_of(program)


# -- right kernels --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    fun, args = PROGRAMS[name]
    assert check(fun, *args, scale=CANCELS.get(name, 1.0))


def test_each_mapping_is_among_the_programs() -> None:
    programs = [device_program(fun, *args) for fun, args in PROGRAMS.values()]
    kernels = [launch.kernel for program in programs for launch in launches_of(program)]
    found = {(k.mapping, k.lanes) for k in kernels if hasattr(k, "mapping")}
    assert found >= {(m, n) for m in (ELEMENTS, WARPS, BLOCKS, COLUMNS) for n in (1, 2, 4)}
    assert (TILES, 1) in found


def any_address(launch: Launch) -> Launch:
    return launch.for_any_address()


def few_blocks(launch: Launch) -> Launch:
    """Threads have several elements each."""
    walks = getattr(launch.kernel, "mapping", ELEMENTS) == ELEMENTS
    return launch._replace(grid=1, block=64) if walks else launch


def wide(launch: Launch) -> Launch:
    return launch._replace(kernel=launch.kernel._replace(wide=True))


def indirect(launch: Launch) -> Launch:
    if not hasattr(launch.kernel, "indirect"):
        return launch
    return launch._replace(kernel=launch.kernel._replace(indirect=True), indirect=True)


def more_threads(launch: Launch) -> Launch:
    """Of a row's team; the sizes of the others' blocks are part of how they work."""
    if getattr(launch.kernel, "mapping", "") != BLOCKS:
        return launch
    return launch._replace(block=512 if launch.block < 512 else 64)


@pytest.mark.parametrize("change", [any_address, few_blocks, wide, indirect, more_threads])
@pytest.mark.parametrize(
    "name",
    ["column sum", "column sum of wide rows", "column sum of narrow rows", "adam", "softmax",
     "softmax of long rows", "layer norm gradient", "middle sum", "sum of all",
     "transpose of three", "cross entropy gradient", "gather", "variance of rows", "largest"],
)  # fmt: skip
def test_launches_of_another_form(name: str, change: Callable[[Launch], Launch]) -> None:
    fun, args = PROGRAMS[name]
    program = device_program(fun, *args)
    for eqn in program.jaxpr.eqns:
        if "step" in eqn.params:
            step = eqn.params["step"]
            step.code = [change(launch) for launch in step.code]
    got, faults = emulated(program, *args)
    assert not faults, faults
    assert_close(got, fun(*args), CANCELS.get(name, 1.0))


NOT_EMPTY = ("softmax", "logsumexp", "row and column", "gather", "scatter", "gradient", "positions",
             "variance", "normalised")  # fmt: skip

SIZES = st.sampled_from((1, 2, 3, 5, 16, 31, 32, 33, 64, 100, 129))


@st.composite
def shapes(draw: Any, least: int, empty: bool) -> tuple[int, ...]:
    rank = draw(st.integers(least, 3))
    sizes = st.one_of(SIZES, st.just(0)) if empty else SIZES
    shape = draw(st.lists(sizes, min_size=rank, max_size=rank))
    while np.prod(shape) > 15_000:
        shape[int(np.argmax(shape))] //= 4
    return tuple(shape)


@pytest.mark.parametrize("name", PATTERNS)
@settings(max_examples=10)
@given(data=st.data())
def test_patterns_of_any_shape(name: str, data: st.DataObject) -> None:
    least, dtypes, fun = PATTERNS[name]
    shape = data.draw(shapes(least, not name.startswith(NOT_EMPTY)))
    dtype = data.draw(st.sampled_from(dtypes))
    x = drawn(*shape, dtype=dtype, seed=data.draw(st.integers(0, 9)))
    check(fun, x, scale=10.0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", MATHEMATICS)
def test_functions_have_the_bits_that_they_have_on_the_cpu(name: str, dtype: str) -> None:
    fun, x = MATHEMATICS[name], everywhere(dtype)
    program = device_program(fun, x)
    (launch,) = launches_of(program)
    assert launch.kernel.mapping == ELEMENTS
    (got,), faults = emulated(program, x)
    assert not faults, faults
    np.testing.assert_array_equal(got, mgefn.jit(fun, backend="llvm")(x))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -0.0, 1e-40])
@pytest.mark.parametrize("shape", [(7,), (40, 33), (5, 700)])
def test_what_is_not_finite(value: float, shape: tuple[int, ...]) -> None:
    x = np.array(drawn(*shape))
    x.reshape(-1)[[0, x.size // 2]] = value
    x = mnp.array(x)
    check(lambda x: (mnp.exp(x), mnp.sin(x), mnp.sqrt(x), x + x, x > 0), x)
    check(lambda x: (x.max(-1), x.min(-1), x.max(), x.max(0)), x)
    if value != -np.inf or np.isfinite(np.asarray(x)).any():
        check(lambda x: (nn.softmax(x), special.logsumexp(x, axis=-1), x.sum(0)), x)


@pytest.mark.parametrize("seed", range(24))
def test_random_programs(seed: int) -> None:
    draw = Draw(seed)
    args = [mnp.array(x) for x in draw.inputs]
    got, faults = emulated(device_program(draw, *args), *args)
    assert not faults, faults
    want = mgefn.jit(draw, backend="numpy")(*args)
    tolerance = 2e-4 if draw.dtype == "float32" else 1e-10
    for g, w in zip(got, want, strict=True):
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        size = max(1.0, np.abs(np.asarray(w)).max(initial=0))
        np.testing.assert_allclose(g, w, rtol=0, atol=tolerance * size)


def test_a_result_does_not_depend_on_what_is_left_in_memory() -> None:
    fun, args = PROGRAMS["layer norm gradient"]
    program = device_program(fun, *args)
    first, _ = emulated(program, *args)
    second, _ = emulated(program, *args)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


# -- names ----------------------------------------------------------------------------------------

# What a GPU's writer does otherwise than the CPU's, and what both keep under one name.
METHODS = {
    _Device: {"__init__", "number", "_pointer", "_load_scalar"},
    DeviceWriter: {"__init__", "pointer", "apply"},
    DeviceBuilder: set[str](),
}
ATTRIBUTES = {
    _Device: {"b", "at", "fresh", "scalars", "row_size"},
    DeviceWriter: {"b", "numbers", "work"},
    DeviceBuilder: set[str](),
}


def assigned(cls: type) -> set[str]:
    """The attributes of `self` that a class's methods assign."""
    found = ast.walk(ast.parse(inspect.getsource(cls)))
    return {
        n.attr
        for n in found
        if isinstance(n, ast.Attribute)
        and isinstance(n.ctx, ast.Store)
        and isinstance(n.value, ast.Name)
        and n.value.id == "self"
    }


@pytest.mark.parametrize("cls", METHODS)
def test_nothing_takes_the_place_of_a_name_of_the_cpu_by_chance(cls: type) -> None:
    base = cls.__bases__[0]
    methods, others = ({n for n, v in vars(c).items() if callable(v)} for c in (cls, base))
    assert methods & others == METHODS[cls]
    assert assigned(cls) & assigned(base) == ATTRIBUTES[cls]
    assert not methods & assigned(base) and not others & assigned(cls)


# -- wrong kernels --------------------------------------------------------------------------------

BARRIER = "call void @llvm.nvvm.barrier0()"


def faults_of(fun: Callable[..., Any], args: Sequence[Any], changed: Callable[[str], str],
              of: str) -> list[str]:  # fmt: skip
    """The faults of the launch with this mapping once its text is changed."""
    program = device_program(fun, *args)
    steps = [e.params["step"] for e in program.jaxpr.eqns if "step" in e.params]
    found = [
        (s, i)
        for s in steps
        for i, launch in enumerate(s.code)
        if getattr(launch.kernel, "mapping", type(launch.kernel).__name__) == of
    ]
    step, i = found[0]
    launch = step.code[i]
    text = text_of(launch)
    new = changed(text)
    assert new != text

    class Planted(type(launch.kernel)):
        def text(self, name: str) -> str:
            return new

    step.code[i] = launch._replace(kernel=Planted(*launch.kernel))
    return emulated(program, *args)[1]


def without(which: int) -> Callable[[str], str]:
    """The text without one of its barriers."""

    def change(text: str) -> str:
        parts = text.split(f"  {BARRIER}\n")
        assert len(parts) > which + 1
        return f"  {BARRIER}\n".join(
            [*parts[:which], parts[which] + parts[which + 1], *parts[which + 2 :]]
        )

    return change


def row_and_column(x: mgefn.Array) -> mgefn.Array:
    return (x - x.mean(-1, keepdims=True)).sum(0)


# Each barrier of each kind of kernel.
BARRIERS = [
    ("softmax of long rows", BLOCKS, 0),
    ("softmax of long rows", BLOCKS, 1),
    ("layer norm gradient", BLOCKS, 0),
    ("column sum", COLUMNS, 0),
    ("column sum of wide rows", COLUMNS, 0),
    ("column sum of narrow rows", COLUMNS, 0),
    ("transpose and add", TILES, 0),
]


@pytest.mark.parametrize(("name", "mapping", "which"), BARRIERS)
def test_a_missing_barrier_is_found(name: str, mapping: str, which: int) -> None:
    fun, args = PROGRAMS[name]
    faults = faults_of(fun, args, without(which), mapping)
    assert any("race" in f for f in faults), faults


def test_a_missing_barrier_between_rows_is_found() -> None:
    args = [drawn(130, 200)]
    assert not faults_of(row_and_column, args, lambda text: text + "\n", BLOCKS)
    text = ""

    def remember(t: str) -> str:
        nonlocal text
        text = t
        return t + "\n"

    faults_of(row_and_column, args, remember, BLOCKS)
    assert text.count(BARRIER) == 2  # one in the reduction, one before the next row
    for which in (0, 1):
        faults = faults_of(row_and_column, args, without(which), BLOCKS)
        assert any("race" in f for f in faults), faults


def test_a_barrier_that_some_threads_miss_is_found() -> None:
    def change(text: str) -> str:
        head, tail = text.split("\nthen", 1)
        label, rest = tail.split("\n", 1)
        return f"{head}\nthen{label}\n  {BARRIER}\n{rest}"

    fun, args = PROGRAMS["softmax of long rows"]
    faults = faults_of(fun, args, change, BLOCKS)
    assert any("not all threads" in f for f in faults), faults


@pytest.mark.parametrize(
    ("name", "mapping"),
    [("normal", ELEMENTS), ("softmax of long rows", BLOCKS), ("column sum", COLUMNS),
     ("gather", "GatherCopy"), ("scatter add", "ScatterAtomic")],
)  # fmt: skip
def test_an_access_out_of_bounds_is_found(name: str, mapping: str) -> None:
    fun, args = PROGRAMS[name]
    # The first loop goes one too far.
    change = lambda text: text.replace("icmp slt i64", "icmp sle i64", 1)
    faults = faults_of(fun, args, change, mapping)
    assert any("out of bounds" in f for f in faults), faults


def test_an_access_before_the_start_is_found() -> None:
    plus = "getelementptr i8, ptr %p0, i64 "
    change = lambda text: text.replace(plus, f"{plus}-4 ; ", 1)
    fun, args = PROGRAMS["sum of all"]
    faults = faults_of(fun, args, change, BLOCKS)
    assert any("out of bounds" in f for f in faults), faults


def test_a_vector_at_an_odd_address_is_found() -> None:
    x = gpu_emulator.filled((65,), np.float32)[1:]
    x[...] = 1
    out = gpu_emulator.filled((64,), np.float32)
    (launch,) = launches_of(device_program(lambda x: x * 2, drawn(64)))
    assert launch.alignments == (16, 16)
    addresses = [x.ctypes.data, out.ctypes.data]
    faults = gpu_emulator.run_launch(launch, addresses, [x, out])
    assert any("misaligned" in f for f in faults), faults
    assert not gpu_emulator.run_launch(launch.for_any_address(), addresses, [x, out])
    np.testing.assert_array_equal(out, 2)


def test_a_race_in_global_memory_is_found() -> None:
    def change(text: str) -> str:
        (line,) = [n for n in text.split("\n") if "atomicrmw" in n]
        result, rest = line.split(" = atomicrmw fadd ptr ")
        pointer, rest = rest.split(", float ")
        value = rest.split()[0]
        plain = [
            f"{result} = load float, ptr {pointer}, align 4",
            f"  %sum = fadd float {result.strip()}, {value}",
            f"  store float %sum, ptr {pointer}, align 4",
        ]
        return text.replace(line, "\n".join(plain))

    fun, args = PROGRAMS["scatter add"]
    faults = faults_of(fun, args, change, "ScatterAtomic")
    assert any("race between blocks" in f for f in faults), faults
    assert any(f.startswith("race at") for f in faults), faults


def test_several_writers_of_one_place_are_found() -> None:
    scalar = lambda x, s: (x * s, mnp.exp(s))
    args = [drawn(300), drawn()]
    program = device_program(scalar, *args)
    (eqn,) = [e for e in program.jaxpr.eqns if "step" in e.params]
    step = eqn.params["step"]
    (launch,) = step.code
    assert launch.kernel.once
    assert not emulated(program, *args)[1]
    step.code = [launch._replace(kernel=launch.kernel._replace(once=()))]
    assert any("race" in f for f in emulated(program, *args)[1])


# -- the emulator itself --------------------------------------------------------------------------


def written(body: Callable[[DeviceBuilder], None], pointers: int = 1) -> str:
    b = DeviceBuilder(Module())
    body(b)
    return b.finished(NAME, pointers, 0, False, 256)


def place(b: DeviceBuilder, pointer: str, number: str) -> str:
    return b.offset(pointer, b.emit(f"mul i64 {number}, 8"))


@pytest.mark.parametrize("distance", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("t", ["i1", "i8", "i16", "i32", "i64", "float", "double"])
def test_shuffles(t: str, distance: int) -> None:
    def body(b: DeviceBuilder) -> None:
        thread = b.special("tid.x")
        x = thread
        if t in ("float", "double"):
            x = b.emit(f"sitofp i64 {thread} to {t}")
        elif t != "i64":
            x = b.emit(f"trunc i64 {thread} to {t}")
        x = b.exchanged(t, x, distance)
        if t in ("float", "double"):
            x = b.emit(f"fptosi {t} {x} to i64")
        elif t != "i64":
            x = b.emit(f"zext {t} {x} to i64")
        b.store("i64", x, place(b, "%p0", thread), 8)

    out = np.zeros(96, np.int64)
    assert not gpu_emulator.run(written(body), 1, 96, [out.ctypes.data], [out])
    want = np.arange(96) ^ distance
    np.testing.assert_array_equal(out, want & 1 if t == "i1" else want)


def test_blocks_and_shared_memory() -> None:
    def body(b: DeviceBuilder) -> None:
        b.reserve(64 * 8)
        thread, block = b.special("tid.x"), b.special("ctaid.x")
        number = b.emit(f"add i64 {b.emit(f'mul i64 {block}, 64')}, {thread}")
        cell = b.in_shared(b.emit(f"mul i64 {thread}, 8"))
        b.store("i64", number, cell, 8)
        b.barrier()
        turned = b.emit(f"mul i64 {b.emit(f'sub i64 63, {thread}')}, 8")
        b.store("i64", b.load("i64", b.in_shared(turned), 8), place(b, "%p0", number), 8)

    out = np.zeros(192, np.int64)
    assert not gpu_emulator.run(written(body), 3, 64, [out.ctypes.data], [out])
    np.testing.assert_array_equal(out.reshape(3, 64), np.arange(192).reshape(3, 64)[:, ::-1])
    faults = gpu_emulator.run(without(0)(written(body)), 3, 64, [out.ctypes.data], [out])
    assert any("race" in f for f in faults)
    assert any("before it is written" in f for f in faults)


def test_a_shuffle_that_some_threads_miss_is_found() -> None:
    def body(b: DeviceBuilder) -> None:
        thread = b.special("tid.x")
        with b.when(b.icmp("slt", "i64", thread, "20")):
            x = b.exchanged("i64", thread, 1)
            b.store("i64", x, place(b, "%p0", thread), 8)

    out = np.zeros(32, np.int64)
    (fault,) = gpu_emulator.run(written(body), 1, 32, [out.ctypes.data], [out])
    assert "not all threads of a warp reach the shuffle" in fault


def test_atomics_meet_without_a_race_and_other_accesses_do_not() -> None:
    def body(b: DeviceBuilder, read: bool = False) -> None:
        b.emit("atomicrmw add ptr %p0, i64 3 monotonic")
        if read:
            b.store("i64", b.load("i64", "%p0", 8), place(b, "%p0", b.special("tid.x")), 8)

    out = np.zeros(64, np.int64)
    assert not gpu_emulator.run(written(body), 2, 32, [out.ctypes.data], [out])
    assert out[0] == 3 * 64
    faults = gpu_emulator.run(written(lambda b: body(b, True)), 1, 32, [out.ctypes.data], [out])
    assert any("race" in f for f in faults)


def test_what_is_not_known_is_refused() -> None:
    text = written(lambda b: b.do("call void @llvm.nvvm.membar.gl()"))
    with pytest.raises(ArgumentError, match=r"no replacement for 'call void @llvm\.nvvm\.membar"):
        gpu_emulator.host_text(text)
    with pytest.raises(ArgumentError, match="need 1 arguments and at most 1024 threads"):
        gpu_emulator.run(written(lambda b: None), 1, 32, [], [])


def test_the_comparison_sees_a_wrong_result() -> None:
    fun, args = PROGRAMS["gelu"]
    got, _ = emulated(device_program(fun, *args), *args)
    got[0][500] *= 1 + 10 * TOLERANCE["float32"]
    got[0][500] += 1e-3
    with pytest.raises(AssertionError):
        assert_close(got, fun(*args))


def test_labels_are_in_range() -> None:
    assert 0 <= int(labels(50, 7).min()) and int(labels(50, 7).max()) < 7
