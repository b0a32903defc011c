"""Programs on a GPU with kernels of ours: on the stand-in, whose kernels run in the emulator."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import lax, random
from mgefn.compiler import device_program, gpu_launch, native
from mgefn.compiler.codegen.nvptx import architecture_of
from mgefn.compiler.codegen.ptx import TILES
from mgefn.compiler.device_program import CALLS_BEFORE, DeviceProgram
from mgefn.core import cuda
from mgefn.core.backends import program_on
from mgefn.core.cuda import xp
from mgefn.core.device_array import DeviceArray
from mgefn.core.devices import gpu
from mgefn.errors import ArgumentError
from tests.compiler.ptx_programs import PATTERNS, PROGRAMS, assert_close, drawn
from tests.gpu.standin import CUDARuntimeError, Emulated, FakeArray, Graph, StandIn, Stream


def put(x: Any) -> Any:
    return mgefn.device_put(x, "gpu")


def host(x: Any) -> np.ndarray:
    assert isinstance(x, DeviceArray), type(x)
    return np.asarray(mgefn.device_get(x))


def same(got: Any, want: Any) -> None:
    """Both as trees of arrays, the first on the device."""
    got, want = mgefn.tree.leaves(got), mgefn.tree.leaves(want)
    assert_close([host(g) for g in got], want, 20.0)


def made(fun: Callable[..., Any], *args: Any) -> DeviceProgram:
    """The program of a function on the device."""
    return program_on(gpu(0), mgefn.make_jaxpr(fun)(*args))


def called(program: DeviceProgram, args: Sequence[Any]) -> list[np.ndarray]:
    return [host(o) for o in program([put(a) for a in args])]


def kinds(program: DeviceProgram) -> list[str]:
    return [s.kind for s in program.report().steps if s.kind != "view"]


SOME = (
    "gelu", "gelu bfloat16", "softmax float16", "layer norm gradient", "column sum",
    "column sum of narrow rows", "sum of a matrix", "largest", "any", "transpose and add",
    "outer product", "integers", "gather", "scatter add", "scatter add float16", "dropout",
    "cross entropy gradient", "convolution gradients", "convolution of many terms",
)  # fmt: skip


@pytest.mark.parametrize("name", SOME)
def test_programs(name: str, emulator: StandIn) -> None:
    fun, args = PROGRAMS[name]
    program = made(fun, *args)
    assert "native" in kinds(program)
    before = Emulated.launched
    assert_close(called(program, args), fun(*args), 20.0)
    assert Emulated.launched > before


@pytest.mark.parametrize("name", PATTERNS)
def test_every_dtype(name: str, emulator: StandIn) -> None:
    """Each way in which equations become one kernel, in a program."""
    rank, dtypes, fun = PATTERNS[name]
    found: list[str] = []
    for dtype in dtypes:
        x = drawn(*(6, 5, 7)[: max(rank, 1)], dtype=dtype)
        program = made(fun, x)
        found += kinds(program)
        assert_close(called(program, [x]), fun(x), 20.0)
    assert "native" in found


@pytest.mark.parametrize("name", [*PROGRAMS, "joined", "padded", "reshaped"])
def test_equations_of_a_step_compute_the_same(name: str, emulator: StandIn,
                                              monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """What runs where the driver takes no kernel: CuPy's rows for the equations of each step."""

    def refuses(text: str, architecture: str, device: int) -> Any:
        raise CUDARuntimeError("CUDA_ERROR_INVALID_PTX: no")

    monkeypatch.setattr(gpu_launch, "_load", refuses)
    fun, args = PROGRAMS.get(name) or (PATTERNS[name][2], [drawn(6, 5, 7)])
    with pytest.warns(RuntimeWarning, match="does not take the kernel") as said:
        program = made(fun, *args)
        assert len(said) == 1 and "native" not in kinds(program)
        got = called(program, args)  # the bodies of loops are programs, which say it too
    assert_close(got, fun(*args), 20.0)


# -- what becomes a kernel, and what says so ------------------------------------------------------


def mixed(x: Any) -> Any:
    y = mnp.cumsum(mnp.sin(x) * 2)
    return mnp.tanh(y).sum(), y[::-1]


def test_a_program_tells_its_kernels(emulator: StandIn) -> None:
    compiled = mgefn.jit(mixed, backend="cupy").lower(drawn(50)).compile()
    report = compiled.report()
    assert [s.kind for s in report.steps if s.kind != "view"] == ["native", "cupy", "native"]
    assert report.native_calls == 2 and "2 of 3 steps are native" in str(report)
    assert "cumsum has no kernel of ours" in str(report)
    text = compiled.as_text()
    assert "kernel sin+mul: f32[50]" in text and "kernel tanh+reduce_sum" in text
    assert "test_kernels.py" in text and "slab+0" in text
    assert compiled.as_text("llvm").count("define ptx_kernel") == 2
    ptx = compiled.as_text("ptx")
    assert ptx.count(".visible .entry kernel") == 2 and ".target sm_86" in ptx
    assert compiled.as_text("asm") == ptx
    with pytest.raises(ArgumentError, match="'asm' or 'ptx', got 'sass'"):
        compiled.as_text("sass")
    with pytest.raises(ArgumentError, match="'llvm' or 'asm', got 'ptx'"):
        mgefn.jit(mixed).lower(drawn(50)).compile().as_text("ptx")


def test_what_has_no_kernel_stays_with_cupy(emulator: StandIn) -> None:
    x = drawn(6) + 1j * drawn(6, seed=1)
    program = made(lambda x: mnp.exp(x) * 2, x)
    assert set(kinds(program)) == {"cupy"} and program.slab_bytes == 0
    assert_close(called(program, [x]), mnp.exp(x) * 2)


def test_complex_numbers_and_keys_are_moved_as_bits(emulator: StandIn) -> None:
    def fun(x: Any) -> Any:
        return mnp.concatenate([x, x[::-1]]), mnp.pad(x, ((1, 2), (0, 0))), x.T.reshape(-1)

    x = (drawn(5, 3) + 1j * drawn(5, 3, seed=1)).astype("complex64")
    program = made(fun, x)
    assert set(kinds(program)) == {"native"}
    assert_close(called(program, [x]), fun(x))
    keys = random.split(random.key(0), (5, 3))
    program = made(lambda k: (mnp.concatenate([k, k[::-1]]), k.T.reshape(-1)), keys)
    assert set(kinds(program)) == {"native"}
    got = [random.key_data(o) for o in program([put(keys)])]
    want = [mnp.concatenate([keys, keys[::-1]]), keys.T.reshape(-1)]
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(host(g), random.key_data(w))
    wide = x.astype("complex128")
    assert set(kinds(made(fun, wide))) == {"cupy"}


def test_numpy_as_the_backend_means_no_kernels(emulator: StandIn) -> None:
    x = drawn(5)
    with mgefn.config.override(jit_backend="numpy"):
        program = made(mnp.tanh, x)
        assert kinds(program) == ["cupy"] and "because the backend is numpy" in program.as_text()
    assert kinds(made(mnp.tanh, x)) == ["native"]


def test_a_device_or_an_llvm_without_our_kernels(
    standin: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = drawn(5)
    program = made(mnp.tanh, x)
    assert kinds(program) == ["cupy"]
    assert "capability 7.0 or later, got 60" in program.as_text()
    standin.capability = "86"

    def missing(text: str, architecture: str) -> str:
        raise ImportError("No module named 'llvmlite'")

    monkeypatch.setattr(gpu_launch, "ptx_of", missing)
    program = made(mnp.tanh, x)
    assert kinds(program) == ["cupy"]
    assert "llvmlite can't be loaded (No module named 'llvmlite')" in str(program.report())
    assert_close(called(program, [x]), mnp.tanh(x))


@pytest.mark.skipif(not native.enabled(), reason="needs LLVM")
def test_a_driver_that_takes_no_kernel_is_said_once(standin: StandIn) -> None:
    standin.capability = "86"  # and its modules refuse every text
    step = mgefn.jit(mixed)
    x = drawn(50)
    with pytest.warns(RuntimeWarning) as said:
        same(step(put(x)), mixed(x))
    assert len(said) == 1
    assert str(said[0].message) == (
        "mixed: gpu:0 does not take the kernel of sin+mul, nor those of 1 more steps: "
        "CUDA_ERROR_UNSUPPORTED_PTX_VERSION: the driver is too old. CuPy's kernels run in their "
        "place."
    )
    same(step(put(x)), mixed(x))


# -- operands -------------------------------------------------------------------------------------


def test_operands_that_are_views(emulator: StandIn) -> None:
    x, y = drawn(12, 10), drawn(10, 12)
    f = mgefn.jit(lambda a, b: mnp.exp(a) * b + a.sum(0))
    for of_x, of_y in (
        (lambda x: x.T, lambda y: y),
        (lambda x: x[::-1].T, lambda y: y[:, ::-1]),
        (lambda x: mnp.broadcast_to(x[3], (12, 10)).T, lambda y: y),
        # Not where a vector may begin.
        (
            lambda x: x.reshape(-1)[1:101].reshape(10, 10),
            lambda y: y.reshape(-1)[3:103].reshape(10, 10),
        ),
    ):
        a, b = of_x(put(x)), of_y(put(y))
        same(f(a, b), f(of_x(x), of_y(y)))


VIEWS: dict[str, Callable[[Any], Any]] = {
    "transposed": lambda x: x.T,
    "reversed": lambda x: x[::-1],
    "reversed and transposed": lambda x: x[:, ::-1].T,
    "repeated rows": lambda x: mnp.broadcast_to(x[3], (12, 10)),
    "repeated columns": lambda x: mnp.broadcast_to(x.ravel()[:12, None], (12, 10)),
    "one element": lambda x: mnp.broadcast_to(x[0, 0], (12, 10)),
    "axes of size 1": lambda x: x[None, :, None].transpose(3, 2, 1, 0),
    "three axes": lambda x: x.reshape(3, 4, 10).transpose(1, 2, 0)[:, ::-1],
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_views_are_read_where_they_lie(name: str, dtype: str, emulator: StandIn,
                                       monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """Copied at first; once calls come again with such views there is a program for them."""
    copies: list[Any] = []
    copy = FakeArray.copy
    monkeypatch.setattr(FakeArray, "copy", lambda *a, **k: copies.append(a) or copy(*a, **k))
    view = VIEWS[name]
    x = drawn(12, 10, dtype=dtype)
    shape = view(x).shape
    fun = lambda v, w: ((v + w) * 2, w.sum(0), v.sum(-1))
    program = made(fun, drawn(*shape, dtype=dtype), drawn(*shape, dtype=dtype))
    w = drawn(*shape, dtype=dtype, seed=3)
    for k in range(device_program.COPIED_BEFORE + 2):
        x = drawn(12, 10, dtype=dtype, seed=k)
        a = view(put(x))
        assert not a._data.flags.c_contiguous or name == "axes of size 1"
        copies.clear()
        got = program([a, put(w)])
        assert bool(copies) == (k < device_program.COPIED_BEFORE)
        same(list(got), fun(view(x), w))
    (other,) = program.programs.values()
    assert "native" in kinds(other)


def test_transposed_arguments_go_through_tiles(emulator: StandIn) -> None:
    x, y = drawn(40, 36), drawn(36, 40)
    program = made(lambda a, b: mnp.exp(a) * b, y, y)
    for _ in range(device_program.COPIED_BEFORE + 1):
        (got,) = program([put(x).T, put(y)])
        same(got, mnp.exp(x.T) * y)
    (other,) = program.programs.values()
    ((loaded,),) = other._loaded.values()
    assert loaded.launch.kernel.mapping == TILES
    # What lies in C order runs as before.
    (got,) = program([put(y), put(y)])
    same(got, mnp.exp(y) * y)


def test_programs_for_views_are_few_and_for_what_comes_again(emulator: StandIn) -> None:
    fun = lambda v: mnp.tanh(v) * 2
    program = made(fun, drawn(3, 3, 3, 3))
    x = drawn(3, 3, 3, 3)
    orders = list(itertools.permutations(range(4)))
    for order in orders:  # each once
        (got,) = program([put(x).transpose(order)])
        same(got, fun(x.transpose(order)))
    assert not program.programs and len(program._times) <= 2 * device_program.MOST_LAYOUTS
    for order in orders[1:9]:
        for _ in range(device_program.COPIED_BEFORE + 2):
            (got,) = program([put(x).transpose(order)])
            same(got, fun(x.transpose(order)))
    assert len(program.programs) == device_program.MOST_LAYOUTS
    # A view with gaps is no view of what lies in C order.
    y = drawn(3, 3, 3, 6)
    again = made(fun, x)
    for _ in range(device_program.COPIED_BEFORE + 2):
        (got,) = again([put(y)[..., ::2]])
        same(got, fun(y[..., ::2]))
    assert not again.programs


def test_views_and_rows_of_cupy(emulator: StandIn) -> None:
    """What rows read too, and what leaves as it came."""

    def fun(a: Any, b: Any) -> Any:
        c = mnp.cumsum(a, 0)
        return a, c * mnp.sin(a), mnp.sort(b, -1), (chain(b) + a).sum()

    program = made(fun, drawn(20, 16), drawn(20, 16))
    for k in range(device_program.COPIED_BEFORE + CALLS_BEFORE + 3):
        x, y = drawn(16, 20, seed=k), drawn(20, 16, seed=k + 9)
        got = program([put(x).T, put(y)[::-1]])
        same(list(got), fun(x.T, y[::-1]))
    (other,) = program.programs.values()
    assert other.runs  # with graphs of its own


def test_addresses_that_are_not_aligned_take_another_kernel(emulator: StandIn) -> None:
    x = drawn(65)
    program = made(lambda x: x * 2, drawn(64))
    ((loaded,),) = program._loaded.values()
    assert loaded.launch.alignments == (16, 16)
    (out,) = program([put(x)[:64]])
    same(out, x[:64] * 2)
    assert loaded._for_any is None
    (out,) = program([put(x)[1:]])
    same(out, x[1:] * 2)
    assert loaded._for_any is not None


def test_architectures() -> None:
    assert [architecture_of(c) for c in ("70", "75", "88", "90", "121")] == [
        "sm_70", "sm_75", "sm_87", "sm_90", "sm_90",
    ]  # fmt: skip
    with pytest.raises(ArgumentError, match=r"compute capability 7\.0 or later, got 61"):
        architecture_of("61")


def test_many_arguments_go_through_memory(emulator: StandIn) -> None:
    args = [drawn(2, 3, 5, 4, 3, seed=i) for i in range(80)]

    def fun(*xs: Any) -> Any:
        total = xs[0].T
        for x in xs[1:]:
            total = total + x.T
        return total * 2

    program = made(fun, *args)
    ((loaded,),) = program._loaded.values()
    assert loaded.launch.indirect
    assert_close(called(program, args), fun(*args))


def test_small_and_empty_arrays(emulator: StandIn) -> None:
    f = mgefn.jit(lambda x: (mnp.sin(x) + 1, (x * 2).sum()))
    for shape in ((), (0,), (1,), (3, 0), (1, 1)):
        same(f(put(drawn(*shape))), f(drawn(*shape)))


def test_keys_and_narrow_floats(emulator: StandIn) -> None:
    key = random.key(3)

    def fun(key: Any, x: Any) -> Any:
        a, b = random.split(key)
        noise = random.normal(a, x.shape, "float32")
        return (
            (x * noise.astype(x.dtype)).astype("float32").sum(1),
            random.split(b, 3),
            mnp.stack([a, b]),
        )

    f = mgefn.jit(fun)
    x = drawn(6, 5, dtype="bfloat16")
    got, keys, both = f(put(key), put(x))
    want, want_keys, want_both = fun(key, x)
    same(got, want)
    for g, w in ((keys, want_keys), (both, want_both)):
        np.testing.assert_array_equal(host(random.key_data(g)), random.key_data(w))


def test_loops_and_branches(emulator: StandIn) -> None:
    def fun(x: Any) -> Any:
        y = lax.fori_loop(0, 3, lambda i, c: mnp.tanh(c) * 2 + i, x)
        z, steps = lax.scan(lambda c, s: (c + s, c * s), y, mnp.arange(4.0))
        w = lax.while_loop(lambda c: c.sum() < 500, lambda c: c * 2, mnp.abs(z) + steps.sum(0) ** 2)
        return lax.cond(w.sum() > 0, lambda v: v, mnp.cos, w * 2)

    x = drawn(7)
    same(mgefn.jit(fun)(put(x)), fun(x))


# -- loops ----------------------------------------------------------------------------------------


def steps_of(x: Any, ts: Any) -> Any:
    return lax.scan(lambda c, t: (mnp.tanh(c) + t, (c, t * 2)), x, ts, reverse=True)


def settled(x: Any) -> Any:
    return lax.while_loop(lambda c: c.sum() < 500, lambda c: c * 2, mnp.abs(x))


@pytest.mark.parametrize("size", [4, 300])
def test_a_loop_is_one_launch(size: int, emulator: StandIn) -> None:
    """In a program and by itself; the host waits for nothing."""
    x, ts = drawn(size), drawn(9, seed=1)
    a, b, before, reads = put(x), put(ts), Emulated.launched, emulator.reads
    eager = steps_of(a, b)
    assert Emulated.launched == before + 1
    jitted = mgefn.jit(steps_of)(a, b)
    assert Emulated.launched == before + 2 and emulator.reads == reads
    for got in (eager, jitted):
        same(got, steps_of(x, ts))
    assert kinds(made(steps_of, x, ts)) == ["native"]
    report = str(made(steps_of, x, ts).report())
    assert "scan" in report and "1 of 1 steps are native" in report


def test_a_while_of_few_numbers_does_not_wait(emulator: StandIn) -> None:
    x = drawn(4)
    a, reads = put(x), emulator.reads
    outs = [settled(a), mgefn.jit(settled)(a)]
    assert emulator.reads == reads
    for out in outs:
        same(out, settled(x))
    large = put(drawn(400))
    settled(large)
    assert emulator.reads > reads  # of a general one the host reads the condition


def test_constants_that_lie_on_the_device(emulator: StandIn) -> None:
    """Code can't be made of them: they are operands, or the loop is driven by Python."""
    w = put(drawn(4, 4))
    x = drawn(4)
    inner = mgefn.jit(lambda c: mnp.tanh(w @ c))
    fun = lambda c: lax.fori_loop(0, 5, lambda i, c: inner(c) + i, c)
    there = lambda c: lax.fori_loop(0, 5, lambda i, c: mnp.tanh(drawn(4, 4) @ c) + i, c)
    for f in (fun, mgefn.jit(fun)):
        same(f(put(x)), there(x))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_other_scans_do_not_wait(dtype: str, emulator: StandIn) -> None:
    """Slices are copied to and from a graph, and all steps are queued in a row."""

    def fun(x: Any, ts: Any) -> Any:
        return lax.scan(lambda c, t: (chain(c) + t, (c * t).astype(dtype)), x, ts)

    x, ts = drawn(20, 16), drawn(7, 16, seed=1)
    a, b, reads, before = put(x), put(ts), emulator.reads, Graph.launched
    outs = [fun(a, b), mgefn.jit(fun)(a, b)]
    assert emulator.reads == reads
    assert Graph.launched >= before + 7 - CALLS_BEFORE
    for out in outs:
        same(out, fun(x, ts))


# -- the slab -------------------------------------------------------------------------------------


def chain(x: Any) -> Any:
    """Sums over rows, each of which needs the one before: launches in a row."""
    for k in range(8):
        x = x - mnp.tanh(x.sum(0)) * (0.1 * k)
    return x


def test_what_dies_makes_room(emulator: StandIn) -> None:
    x = drawn(20, 16)
    program = made(chain, x)
    memory = program.memory_analysis()
    held = [v.aval.nbytes for v in program._offset]
    assert len(held) > 8 and 0 < program.slab_bytes < sum(held)
    assert memory.temp_size_in_bytes == program.slab_bytes
    assert memory.argument_size_in_bytes == memory.output_size_in_bytes == x.nbytes
    assert memory.peak_memory_in_bytes == program.slab_bytes + x.nbytes
    assert memory.not_counted == ()
    report = program.report()
    assert report.slab_bytes == program.slab_bytes
    assert report.peak_bytes == memory.peak_memory_in_bytes
    assert_close(called(program, [x]), chain(x), 20.0)


def test_a_value_takes_the_block_of_one_that_dies(emulator: StandIn) -> None:
    def fun(x: Any) -> Any:
        y = mnp.sin(x) * 2
        return mnp.cumsum(y * y.sum(0), 0)

    x = drawn(20, 16)
    program = made(fun, x)
    assert len(program._offset) == 3 and len(set(program._offset.values())) == 2
    assert program.memory_analysis().temp_size_in_bytes == x.nbytes + 64
    assert_close(called(program, [x]), fun(x), 20.0)


@pytest.mark.parametrize(
    "fun",
    [
        # The block of what is still read is nobody's to take.
        lambda y: mnp.cumsum(mnp.cumsum(y * y.sum(0), 0) + y, 0),
        # A row gives its operand, whose block is then taken.
        lambda y: (kept(y), mnp.cumsum(mnp.tanh(y.sum(0)) + 3 * mnp.cumsum(y, 1), 0)),
        # A view is read again once others have been written.
        lambda y: views_read_twice(y),
        # A view that strides can't say.
        lambda y: mnp.tanh(y.T.reshape(4, 4, 20)),
    ],
)
def test_blocks_are_taken_once_they_are_dead(fun: Callable[[Any], Any], emulator: StandIn) -> None:
    x = drawn(20, 16)
    program = made(lambda x: fun(mnp.sin(x) * 2), x)
    assert program.slab_bytes
    for _ in range(2):
        got = program([put(x)])
        same(list(got), fun(mnp.sin(x) * 2))


def views_read_twice(y: Any) -> Any:
    view = y.reshape(10, 32).T
    a = mnp.cumsum(view, 0)
    b = mnp.cumsum(mnp.tanh(a) * 3, 0)
    c = mnp.cumsum(mnp.tanh(b) * 3, 0)
    return mnp.cumsum(view, 1) + c


def test_a_block_that_all_threads_read_is_not_taken(emulator: StandIn) -> None:
    def fun(x: Any) -> Any:
        s = x.sum()  # known once its kernel is done, as x is long
        return mnp.cumsum(x * s, 0) * (s + 1)

    x = drawn(70_001)
    program = made(fun, x)
    first, second = [v for v in program._offset if v.aval.shape == ()]
    assert program._offset[first] != program._offset[second]
    assert_close(called(program, [x]), fun(x), 200.0)


def test_what_follows_a_product_is_written_over_it(emulator: StandIn) -> None:
    layer = lambda x, w, b: mnp.tanh(x @ w + b)
    args = [drawn(6, 5), drawn(5, 8), drawn(8)]
    program = made(layer, *args)
    assert len(program._donor) == 1
    assert program.memory_analysis().peak_memory_in_bytes == 6 * 8 * 4
    taken: list[int] = []
    row = program._items[0]

    def seen(env: list[Any], slab: Any) -> None:
        row(env, slab)
        taken.append(env[row.outs[0]].data.ptr)

    program._items[0] = seen  # type: ignore[call-overload]  # called like a row
    (out,) = program([put(a) for a in args])
    assert taken == [out._data.data.ptr]
    same(out, layer(*args))
    both = made(lambda x, w, b: (layer(x, w, b), mnp.cumsum(x, 0)), *args)
    assert both.memory_analysis().peak_memory_in_bytes == (6 * 8 + 6 * 5) * 4


def kept(x: Any) -> Any:
    """x, by a row that gives its operand."""
    return lax.cond(x.reshape(-1)[0] > -1e9, lambda y: y, lambda y: -y, x)


@pytest.mark.parametrize(
    "fun",
    [
        lambda x, w: (x @ w, mnp.tanh(x @ w)),  # it leaves
        lambda x, w: (mnp.tanh(x @ w), (x @ w).T),  # a view leaves
        lambda x, w: (mnp.tanh(x @ w), mnp.cumsum((x @ w).T[::-1], 0)),
        lambda x, w: (kept(x @ w), mnp.tanh(x @ w)),
        lambda x, w: (kept(x @ w)[::-1], mnp.tanh(x @ w)),
        lambda x, w: mnp.tanh(x @ w) + mnp.cumsum(x @ w, 0),
        lambda x, w: [mnp.tanh(x @ w), mnp.sin(x @ w).sum(0), (x @ w).sum(0) * 2],
        lambda x, w: mnp.tanh(x @ w).T,
        lambda x, w: mnp.tanh((x @ w).T),
        lambda x, w: mnp.tanh(x @ w) + (x @ w)[::-1],
        lambda x, w: mnp.tanh(x @ w) + (x @ w)[0],
    ],
)
def test_a_product_that_others_need_stays(fun: Callable[..., Any], emulator: StandIn) -> None:
    x, w = drawn(6, 5), drawn(5, 8)
    same(mgefn.jit(fun)(put(x), put(w)), fun(x, w))


def test_results_of_cupy_are_outside_of_the_slab(emulator: StandIn) -> None:
    memory = made(mixed, drawn(50)).memory_analysis()
    assert memory.not_counted == ("cumsum",)
    assert memory.peak_memory_in_bytes == memory.temp_size_in_bytes + 50 * 4 + 4


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: mnp.cumsum(mnp.sin(x) * 2).reshape(5, 2)[1:],
        lambda x: (mnp.sin(x) * 2).reshape(5, 2).T,  # a view leaves
        lambda x: lax.cond(x[0] > -9, lambda v: v, lambda v: v * 2, mnp.sin(x) * 2),
        lambda x: lax.cond(x[0] > -9, lambda v: v[::-1], lambda v: v * 2, mnp.sin(x) * 2),
        lambda x: lax.optimization_barrier(mnp.sin(x) * 2),
        lambda x: mnp.cumsum(lax.optimization_barrier((mnp.sin(x), x.sum()))[0]) + 1,
        lambda x: lax.while_loop(lambda c: c.sum() < -1e9, lambda c: c * 2, mnp.sin(x)),
        lambda x: mgefn.grad(lambda v: mgefn.checkpoint(mnp.cumsum)(mnp.sin(v)).sum())(x),
    ],
)
def test_results_are_no_views_of_the_slab(fun: Callable[[Any], Any], emulator: StandIn) -> None:
    """What a call gave stays as it is, whatever later calls write to the slab."""
    f = mgefn.jit(fun)
    xs = [drawn(10, seed=k) for k in range(4)]
    outs = [f(put(x)) for x in xs]
    for out, x in zip(outs, xs, strict=True):
        same(out, fun(x))


# -- graphs ---------------------------------------------------------------------------------------


def graphs_of(fun: Callable[..., Any], *args: Any) -> DeviceProgram:
    program = made(fun, *args)
    assert len(program.runs) == 1
    return program


def check_graphs(program: DeviceProgram, fun: Callable[..., Any], *shape: int) -> None:
    """Calls with other arguments each time; what they gave stays as it is."""
    xs = [drawn(*shape, seed=k) for k in range(CALLS_BEFORE + 4)]
    before = Graph.launched
    outs = [program([put(x)]) for x in xs]
    assert Graph.launched == before + 4
    for out, x in zip(outs, xs, strict=True):
        same(list(out), fun(x))


def test_launches_in_a_row_become_a_graph(emulator: StandIn) -> None:
    program = graphs_of(chain, drawn(20, 16))
    assert "in graph 0" in program.as_text()
    # The last step writes what leaves, outside of the graph.
    (run,) = program.runs
    assert run.captured == len(run.steps) - 1 and not run.outputs
    assert program.report().native_calls == 2
    check_graphs(program, chain, 20, 16)


def test_values_leave_a_graph_as_copies(emulator: StandIn) -> None:
    def fun(x: Any) -> Any:
        y = chain(x)
        return y, chain(y).sum(0), mnp.cumsum(y, 1)

    program = graphs_of(fun, drawn(20, 16))
    assert program.runs[0].outputs
    check_graphs(program, fun, 20, 16)


def test_a_stale_input_is_seen(emulator: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in's graphs use the addresses that were recorded."""
    monkeypatch.setattr(device_program, "write", lambda target, source: None)
    program = graphs_of(chain, drawn(20, 16))
    with pytest.raises(AssertionError):
        check_graphs(program, chain, 20, 16)


def test_an_output_that_is_not_copied_is_seen(emulator: StandIn) -> None:
    def fun(x: Any) -> Any:
        return chain(x), chain(x * 2).sum(0) + 1

    program = graphs_of(fun, drawn(20, 16))
    (run,) = program.runs
    assert run.outputs
    replay = type(run).replay

    def shared(self: Any, env: list[Any], frame: Any) -> None:
        replay(self, env, frame)
        for i, _, _ in self.outputs:
            env[i] = frame.held[i]

    with pytest.MonkeyPatch.context() as patch, pytest.raises(AssertionError):
        patch.setattr(type(run), "replay", shared)
        check_graphs(program, fun, 20, 16)


def test_memory_of_a_graph_that_is_let_go_is_seen(emulator: StandIn) -> None:
    program = graphs_of(chain, drawn(20, 16))
    for _ in range(CALLS_BEFORE + 1):
        program([put(drawn(20, 16))])
    (frame,) = program._frames.values()
    frame.slab = xp.empty(frame.slab.shape, np.uint8)
    with pytest.raises(AssertionError, match="where no array is"):
        program([put(drawn(20, 16))])


def test_other_work_ends_a_run(emulator: StandIn) -> None:
    def fun(x: Any) -> Any:
        y = mnp.cumsum(chain(x), 0)
        return lax.while_loop(lambda c: c[0, 0] > 1e9, lambda c: c * 2, chain(y))

    program = made(fun, drawn(20, 16))
    assert len(program.runs) == 2
    before = Graph.launched
    for k in range(CALLS_BEFORE + 3):
        x = drawn(20, 16, seed=k)
        same(list(program([put(x)])), fun(x))
    assert Graph.launched == before + 6


def test_the_body_of_a_loop_is_a_graph(emulator: StandIn) -> None:
    fun = lambda x: lax.fori_loop(0, 5, lambda i, c: chain(c) + i, x)
    x = drawn(20, 16)
    before = Graph.launched
    same(mgefn.jit(fun)(put(x)), fun(x))
    assert Graph.launched == before + 5 - CALLS_BEFORE


def test_graphs_are_for_what_they_save(emulator: StandIn) -> None:
    assert not made(lambda x: mnp.sin(x).sum(0), drawn(20, 16)).runs
    assert not made(chain, mgefn.ShapeDtypeStruct((1 << 12, 1 << 12), np.float32)).runs
    wide = lambda x: chain(mnp.broadcast_to(x, (1 << 14, 1 << 11))).sum()
    assert made(wide, mgefn.ShapeDtypeStruct((1 << 11,), np.float32)).slab_bytes >= 1 << 26
    assert not made(wide, mgefn.ShapeDtypeStruct((1 << 11,), np.float32)).runs
    # As many inputs as launches.
    many = lambda *xs: [x.sum(0) for x in xs]
    assert not made(many, *[drawn(20, 16 + k) for k in range(8)]).runs


def test_off_means_off(emulator: StandIn) -> None:
    program = graphs_of(chain, drawn(20, 16))
    x = drawn(20, 16)
    before = Graph.launched
    with mgefn.config.override(cuda_graphs="off"):
        for _ in range(CALLS_BEFORE + 3):
            same(list(program([put(x)])), chain(x))
    assert Graph.launched == before
    with pytest.raises(ArgumentError, match="cuda_graphs must be 'auto' or 'off'"):
        mgefn.config.update("cuda_graphs", "always")


def test_a_device_that_captures_nothing(emulator: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(self: Stream, mode: int | None = None) -> None:
        raise CUDARuntimeError("cudaErrorNotSupported: no graphs here")

    monkeypatch.setattr(Stream, "begin_capture", refuses)
    program = graphs_of(chain, drawn(20, 16))
    x = drawn(20, 16)
    for k in range(CALLS_BEFORE + 3):
        if k == CALLS_BEFORE:
            with pytest.warns(
                RuntimeWarning, match="captures no CUDA graph: cudaErrorNotSupported"
            ):
                same(list(program([put(x)])), chain(x))
        else:
            same(list(program([put(x)])), chain(x))
    assert not program.runs


def test_a_failure_while_recording_ends_the_recording(
    emulator: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = graphs_of(chain, drawn(20, 16))
    step = program.runs[0].steps[2]
    kernels, streams = type(step), []
    launch = kernels.launch

    def fails(self: Any, env: list[Any]) -> None:
        stream = xp.cuda.get_current_stream()
        if self is step and stream.recorded is not None:
            streams.append(stream)
            xp.empty((3,), np.float32)  # no memory while a stream is captured
        launch(self, env)

    monkeypatch.setattr(kernels, "launch", fails)
    x = drawn(20, 16)
    for _ in range(CALLS_BEFORE):
        program([put(x)])
    with pytest.warns(RuntimeWarning, match="not permitted when stream is capturing"):
        same(list(program([put(x)])), chain(x))
    assert streams[0].recorded is None
    same(list(program([put(x)])), chain(x))


def test_without_memory_for_a_graph_there_is_none(emulator: StandIn) -> None:
    program = graphs_of(chain, drawn(20, 16))
    x = drawn(20, 16)
    empty = xp.empty
    taken: list[Any] = []

    def few(shape: Any, dtype: Any) -> Any:
        # A call without a graph takes its slab and its output, each once.
        taken.append(shape)
        if len(taken) == 2 * CALLS_BEFORE + 2:
            raise MemoryError("out of memory")
        return empty(shape, dtype)

    before = Graph.launched
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(xp.__dict__, "empty", few)
        for _ in range(CALLS_BEFORE + 1):
            same(list(program([put(x)])), chain(x))
    (frame,) = program._frames.values()
    assert not frame.ready and not frame.held and frame.slab is None
    for _ in range(CALLS_BEFORE):
        same(list(program([put(x)])), chain(x))
    assert Graph.launched == before
    same(list(program([put(x)])), chain(x))
    assert Graph.launched == before + 1


def test_each_stream_has_a_frame(emulator: StandIn) -> None:
    program = graphs_of(chain, drawn(20, 16))
    streams = [xp.cuda.Stream() for _ in range(device_program.MOST_FRAMES + 1)]
    x = drawn(20, 16)
    for stream in (None, *streams[:2]):
        for _ in range(CALLS_BEFORE + 1):
            if stream is None:
                same(list(program([put(x)])), chain(x))
            else:
                with stream:
                    same(list(program([put(x)])), chain(x))
    slabs = [f.slab.data.ptr for f in program._frames.values()]
    assert len(set(slabs)) == 3
    for stream in streams:
        with stream:
            program([put(x)])
    assert len(program._frames) == device_program.MOST_FRAMES


def test_each_device_has_kernels_of_its_own(emulator: StandIn) -> None:
    emulator.devices = 2
    closed = mgefn.make_jaxpr(chain)(drawn(20, 16))
    programs = [program_on(gpu(k), closed) for k in (0, 1)]
    for k in range(CALLS_BEFORE + 2):
        x = drawn(20, 16, seed=k)
        for number, program in enumerate(programs):
            (out,) = program([mgefn.device_put(x, gpu(number))])
            assert out.device == gpu(number)
            same(out, chain(x))


def test_a_call_does_not_wait_for_the_frame_of_another(emulator: StandIn) -> None:
    """Of two calls on one stream that queue their work at once, the second has no graph."""
    program = graphs_of(lambda x: mnp.cumsum(chain(x), 0), drawn(20, 16))
    for _ in range(CALLS_BEFORE + 1):
        program([put(drawn(20, 16))])
    row = program._items[-1]
    other = drawn(20, 16, seed=9)
    found: list[Any] = []

    def meanwhile(env: list[Any], slab: Any) -> None:
        if not found:
            found.append(None)
            thread = threading.Thread(target=lambda: found.append(program([put(other)])))
            thread.start()
            thread.join()
            assert not program._frames  # it has left none in the place of this call's
        row(env, slab)

    program._items[-1] = meanwhile  # type: ignore[call-overload]  # called like a row
    before = Graph.launched
    x = drawn(20, 16)
    same(list(program([put(x)])), mnp.cumsum(chain(x), 0))
    assert Graph.launched == before + 1
    same(list(found[1]), mnp.cumsum(chain(other), 0))


def test_programs_are_made_anew_for_another_library(emulator: StandIn) -> None:
    f = mgefn.jit(chain)
    x = drawn(20, 16)
    same(f(put(x)), chain(x))
    cuda.use(StandIn().load)
    before = Emulated.launched
    same(f(put(x)), chain(x))
    assert Emulated.launched == before
