"""Our kernel for convolutions on a GPU, in the emulator: right for any shape, faults found."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mgefn
from mgefn import lax
from mgefn import numpy as mnp
from mgefn.backends import ptx_convolution
from mgefn.backends.ptx_convolution import SQUARE, TALL, THIN, WIDE_TILE
from mgefn.compiler import gpu_emulator, native
from mgefn.compiler.codegen.ptx_convolution import Convolution, SplitSum
from mgefn.compiler.gpu_launch import Launch, text_of
from tests.compiler.ptx_programs import assert_close, device_program, drawn, emulated, launches_of

pytestmark = pytest.mark.skipif(not native.enabled(), reason="needs LLVM")

conv = lax.conv_general_dilated


def ours(fun: Callable[..., Any], *args: Any) -> list[Launch]:
    launches = launches_of(device_program(fun, *args))
    return [a for a in launches if isinstance(a.kernel, Convolution)]


def check(fun: Callable[..., Any], *args: Any, count: int = 1, scale: float = 4.0) -> list[Launch]:
    """The program gives what the NumPy kernels do, without a fault; its convolutions."""
    program = device_program(fun, *args)
    got, faults = emulated(program, *args)
    assert not faults, faults
    assert_close(got, fun(*args), scale)
    found = [a for a in launches_of(program) if isinstance(a.kernel, Convolution)]
    assert len(found) == count
    return found


# name -> (input, kernel, options)
CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "plain": ((2, 3, 9, 11), (20, 3, 3, 3), {}),
    "one spatial dimension": ((3, 4, 40), (24, 4, 5), {}),
    "three": ((1, 2, 5, 6, 7), (20, 2, 2, 3, 1), {}),
    "none": ((5, 7), (20, 7), {}),
    "valid": ((2, 2, 4, 4), (20, 2, 4, 4), {"padding": "VALID"}),
    "stride": ((2, 3, 9, 11), (20, 3, 3, 3), {"window_strides": (2, 3)}),
    "dilated kernel": ((2, 3, 9, 11), (20, 3, 3, 3), {"rhs_dilation": (2, 3)}),
    "dilated input": (
        (2, 3, 5, 6), (20, 3, 3, 3), {"lhs_dilation": (2, 3), "padding": [(1, 2), (0, 3)]},
    ),
    "dilated both": (
        (2, 3, 5, 6), (5, 3, 3, 2),
        {
            "lhs_dilation": (3, 1), "rhs_dilation": (2, 2), "window_strides": (2, 1),
            "padding": [(-1, 2), (3, -2)],
        },
    ),
    "negative padding": ((2, 3, 9, 11), (20, 3, 3, 3), {"padding": [(-1, -2), (-3, 4)]}),
    "wide padding": ((1, 2, 3, 3), (20, 2, 2, 2), {"padding": [(5, 4), (3, 6)]}),
    "groups": ((2, 6, 9, 9), (12, 2, 3, 3), {"feature_group_count": 3}),
    "depthwise": ((2, 5, 9, 9), (5, 1, 3, 3), {"feature_group_count": 5}),
    "batch groups": ((6, 4, 6, 6), (9, 4, 3, 3), {"batch_group_count": 3}),
    "features last": (
        (2, 5, 6, 4), (3, 3, 4, 18), {"dimension_numbers": ("NHWC", "HWIO", "NHWC")},
    ),
    "features last and groups": (
        (2, 7, 7, 6), (3, 3, 2, 12),
        {"dimension_numbers": ("NHWC", "HWIO", "NHWC"), "feature_group_count": 3},
    ),
    "other orders": (
        (4, 9, 2, 7), (3, 20, 2, 4), {"dimension_numbers": ("CHNW", "HOWI", "WNHC")},
    ),
    "examples last": (
        (4, 3, 4, 10), (4, 3, 3, 20), {"dimension_numbers": ("CHWN", "IHWO", "CHWN")},
    ),
    "few rows": ((1, 40, 3, 3), (100, 40, 3, 3), {"padding": "VALID"}),
    "many terms": ((1, 40, 5, 5), (6, 40, 4, 4), {"padding": "VALID"}),
    "one output": ((1, 3, 4, 4), (1, 3, 4, 4), {"padding": "VALID"}),
    "few features": ((1, 1, 12, 12), (3, 1, 3, 3), {}),
}  # fmt: skip


def of_case(name: str, dtype: str = "float32") -> tuple[Callable[..., Any], list[Any]]:
    x, w, options = CASES[name]
    whole = {"window_strides": (1,) * (len(x) - 2), "padding": "SAME", **options}
    return lambda x, w: conv(x, w, **whole), [drawn(*x, dtype=dtype), drawn(*w, dtype=dtype)]


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str) -> None:
    fun, args = of_case(name)
    check(fun, *args)


@pytest.mark.parametrize("name", [n for n in CASES if n != "many terms"])
def test_gradients(name: str) -> None:
    """Both are convolutions, whose operands have their dimensions in other orders."""
    fun, args = of_case(name)
    check(mgefn.grad(lambda x, w: (fun(x, w) ** 2).sum(), (0, 1)), *args, count=3, scale=20.0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("name", ["plain", "dilated both", "groups", "features last", "depthwise"])
def test_dtypes(name: str, dtype: str) -> None:
    fun, args = of_case(name, dtype)
    (launch,) = check(fun, *args)
    assert launch.kernel.computed == ("float64" if dtype == "float64" else "float32")


@pytest.mark.parametrize(
    ("dtype", "preferred"),
    [("float16", "float32"), ("bfloat16", "float32"), ("float32", "float64"),
     ("float16", "float64")],
)  # fmt: skip
def test_preferred_dtypes(dtype: str, preferred: str) -> None:
    fun = lambda x, w: conv(x, w, (1, 1), "SAME", preferred_element_type=preferred)
    check(fun, drawn(2, 3, 6, 7, dtype=dtype), drawn(20, 3, 3, 3, dtype=dtype))


def test_each_tile_and_order_is_among_the_cases() -> None:
    kernels = [ours(*of_case(n)[:1], *of_case(n)[1])[0].kernel for n in CASES]
    tiles = {(k.rows, k.columns, k.depth, k.across) for k in kernels}
    assert tiles == {SQUARE, TALL, WIDE_TILE, THIN}
    assert {k.by_term for k in kernels} == set(itertools.product((False, True), repeat=2))
    assert {k.batch_last for k in kernels} == {k.feature_last for k in kernels} == {False, True}


@pytest.mark.parametrize("tile", [SQUARE, TALL, WIDE_TILE, THIN])
@pytest.mark.parametrize("name", ["plain", "dilated both", "features last", "examples last"])
def test_every_tile_computes_any_shape(
    name: str, tile: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ptx_convolution, "_tile", lambda rows, columns: tile)
    for dtype in ("float32", "float64"):
        check(*_flat(of_case(name, dtype)))


def _flat(case: tuple[Callable[..., Any], list[Any]]) -> tuple[Any, ...]:
    return case[0], *case[1]


def test_terms_are_divided_where_there_are_few_tiles() -> None:
    fun, args = of_case("many terms")
    program = device_program(fun, *args)
    kinds = [type(a.kernel) for a in launches_of(program)]
    assert kinds == [Convolution, SplitSum]
    (launch, _) = launches_of(program)
    assert launch.grid == 2 and launch.numbers[6] == 40 * 16 // 2
    halves = [a.astype("bfloat16") for a in args]
    check(fun, *halves)
    # Where there are many tiles, they are not.
    assert len(launches_of(device_program(*_flat(of_case("plain"))))) == 1


def test_operands_are_read_where_they_lie() -> None:
    """Views are nothing to copy: the strides of an operand are numbers of the launch."""

    def fun(x: Any, w: Any) -> Any:
        x = mnp.tanh(x).transpose(0, 3, 1, 2)[:, :, ::-1, 1:]
        return conv(x, w.T[:, :, ::-1], (1, 1), "SAME")

    args = drawn(2, 6, 8, 4), drawn(3, 3, 4, 20)
    check(fun, *args)
    assert len(launches_of(device_program(fun, *args))) == 2  # tanh, and the convolution


def test_vmapped() -> None:
    fun = mgefn.vmap(lambda x, w: conv(x, w, (1, 1), "SAME"))
    check(fun, drawn(3, 2, 4, 6, 6), drawn(3, 5, 4, 3, 3))
    over_kernels = mgefn.vmap(lambda x, w: conv(x, w, (1, 1), "SAME"), (None, 0))
    check(over_kernels, drawn(2, 4, 6, 6), drawn(3, 5, 4, 3, 3))


def test_pooling_of_what_is_convolved_and_what_follows() -> None:
    def fun(x: Any, w: Any, b: Any) -> Any:
        return mnp.maximum(conv(x, w, (1, 1), "SAME") + b[:, None, None], 0).mean((2, 3))

    check(fun, drawn(2, 3, 9, 9), drawn(20, 3, 3, 3), drawn(20))


@pytest.mark.parametrize("value", [np.nan, np.inf, -0.0])
def test_what_is_not_finite(value: float) -> None:
    fun, (x, w) = of_case("plain")
    x = x.at[0, 1, 4, 4].set(value)
    check(fun, x, w)


@st.composite
def convolutions(draw: Any) -> tuple[list[tuple[int, ...]], dict[str, Any], str]:
    rank = draw(st.integers(0, 3))
    each = lambda s: [draw(s) for _ in range(rank)]
    sizes, window = each(st.integers(1, 7)), each(st.integers(1, 3))
    spread, step = each(st.integers(1, 3)), each(st.integers(1, 2))
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    batched = draw(st.booleans()) and groups > 1
    features, per_group, batch = (draw(st.integers(1, 4)) for _ in range(3))
    per_group *= draw(st.sampled_from([1, 1, 7]))
    x = [batch * (groups if batched else 1), features * (1 if batched else groups), *sizes]
    w = [per_group * groups, features, *window]
    padding = []
    for n, s in zip(sizes, spread, strict=True):
        whole = (n - 1) * s + 1
        low = draw(st.integers(-min(2, whole), 3))
        padding.append((low, draw(st.integers(max(-2, -whole - low), 3))))
    orders = [draw(st.permutations(range(rank + 2))) for _ in range(3)]
    shapes = []
    for shape, order in zip((x, w), orders, strict=False):
        placed = [0] * (rank + 2)
        for role, d in enumerate(order):
            placed[d] = shape[role]
        shapes.append(tuple(placed))
    options = {
        "window_strides": each(st.integers(1, 3)), "padding": padding, "lhs_dilation": spread,
        "rhs_dilation": step, "dimension_numbers": tuple(map(tuple, orders)),
        "feature_group_count": 1 if batched else groups,
        "batch_group_count": groups if batched else 1,
    }  # fmt: skip
    options["dimension_numbers"] = lax.ConvDimensionNumbers(*options["dimension_numbers"])
    return shapes, options, draw(st.sampled_from(["float32", "float64", "float16", "bfloat16"]))


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(drawn_case=convolutions())
def test_any_convolution(drawn_case: tuple[Any, dict[str, Any], str]) -> None:
    shapes, options, dtype = drawn_case
    fun = lambda x, w: conv(x, w, **options)
    args = [drawn(*s, dtype=dtype, seed=i) for i, s in enumerate(shapes)]
    program = device_program(fun, *args)
    empty = fun(*args).size == 0
    launches = launches_of(program)
    assert empty or any(isinstance(a.kernel, Convolution) for a in launches)
    got, faults = emulated(program, *args)
    assert not faults, faults
    assert_close(got, fun(*args), 10.0)


@pytest.mark.parametrize(
    ("x", "w"),
    [((0, 3, 5, 5), (4, 3, 3, 3)), ((2, 0, 5, 5), (4, 0, 3, 3)), ((2, 3, 2, 2), (4, 3, 3, 3)),
     ((2, 3, 5, 5), (0, 3, 3, 3))],
)  # fmt: skip
def test_nothing_to_compute(x: tuple[int, ...], w: tuple[int, ...]) -> None:
    fun = lambda x, w: conv(x, w, (1, 1), "VALID")
    check(fun, drawn(*x), drawn(*w), count=0)


@pytest.mark.parametrize(
    ("fun", "x", "w"),
    [
        (lambda x, w: conv(x, w, (1, 1), "VALID"), drawn(2, 16, 5, 5), drawn(16, 16, 1, 1)),
        (lambda x, w: conv(x, w, (1,), "SAME"), drawn(2, 3, 5, dtype="int32"),
         drawn(4, 3, 3, dtype="int32")),
        (lambda x, w: conv(x, w, (1,), "SAME"), drawn(2, 3, 5).astype("complex64"),
         drawn(4, 3, 3).astype("complex64")),
    ],
)  # fmt: skip
def test_what_is_left_to_cupy(fun: Callable[..., Any], x: Any, w: Any) -> None:
    assert ours(fun, x, w) == []
    # One product of matrices for each example, but not as it lies here.
    last = {"dimension_numbers": ("NHWC", "HWIO", "NHWC")}
    other = lambda x, w: conv(x, w, (1, 1), "VALID", **last)
    assert len(ours(other, drawn(2, 5, 5, 16), drawn(1, 1, 16, 16))) == 1


def test_sizes_are_no_part_of_the_text() -> None:
    a, b = (
        ours(lambda x, w: conv(x, w, (1, 1), "SAME"), drawn(2, c, n, n), drawn(20, c, k, k))
        for c, n, k in ((3, 9, 3), (5, 14, 5))
    )
    assert a[0].kernel == b[0].kernel


def test_what_can_not_be_counted_in_32_bits_is_left_to_cupy() -> None:
    large = [mgefn.ShapeDtypeStruct(s, np.float32) for s in ((1 << 15, 1, 1 << 17), (20, 1, 3))]
    assert ours(lambda x, w: conv(x, w, (1,), "SAME"), *large) == []


# -- wrong kernels --------------------------------------------------------------------------------

BARRIER = "call void @llvm.nvvm.barrier0()"


def planted(name: str, changed: Callable[[str], str]) -> list[str]:
    fun, args = of_case(name)
    program = device_program(fun, *args)
    (eqn,) = [e for e in program.jaxpr.eqns if "step" in e.params]
    step = eqn.params["step"]
    launch = step.code[0]
    assert not emulated(program, *args)[1]
    new = changed(text_of(launch))
    assert new != text_of(launch)

    class Planted(Convolution):
        def text(self, name: str) -> str:
            return new

    step.code[0] = launch._replace(kernel=Planted(*launch.kernel))
    return emulated(program, *args)[1]


@pytest.mark.parametrize("name", ["plain", "few features", "features last", "dilated both"])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_missing_barrier_is_found(name: str, which: int) -> None:
    def without(text: str) -> str:
        parts = text.split(f"  {BARRIER}\n")
        assert len(parts) == 4
        joined = parts[which] + parts[which + 1]
        return f"  {BARRIER}\n".join([*parts[:which], joined, *parts[which + 2 :]])

    faults = planted(name, without)
    assert any("race" in f for f in faults), faults


def test_a_row_too_many_is_found() -> None:
    faults = planted("plain", lambda text: text.replace(", %n0\n", ", 4000\n"))
    assert any("out of bounds" in f for f in faults), faults


def test_a_window_that_is_not_cut_is_found() -> None:
    change: Callable[[str], str] = lambda text: text.replace("icmp ult i32", "icmp ne i32")
    assert any("out of bounds" in f for f in planted("plain", change))


def test_parts_that_write_one_place_are_found() -> None:
    faults = planted("many terms", lambda text: text.replace(", %n7\n", ", 0\n"))
    assert any("race between blocks" in f for f in faults), faults


def test_shared_memory_suffices_for_every_form() -> None:
    for tile, rank, dtype in itertools.product(
        (SQUARE, TALL, WIDE_TILE, THIN), range(ptx_convolution.MOST_RANK + 1),
        ("float32", "float64"),
    ):  # fmt: skip
        kernel = Convolution(dtype, dtype, dtype, rank, True, True, True, (True, True), *tile)
        _, _, shared = gpu_emulator.host_text(kernel.text("kernel"))
        assert 0 < shared <= 48 * 1024
        assert kernel.most_threads % 32 == 0 and kernel.depth <= kernel.most_threads
