"""Arrays that are padded, read by GPU kernels where there is memory, in the emulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mgefn
import mgefn.numpy as mnp
from mgefn.compiler import native
from mgefn.compiler.codegen.ptx import BLOCKS, COLUMNS, ELEMENTS, TILES, WARPS
from mgefn.compiler.gpu_launch import Launch, text_of
from mgefn.core.jaxpr import Literal
from tests.compiler.ptx_programs import assert_close, device_program, drawn, emulated, launches_of
from tests.compiler.test_pads import FUNCTIONS, MATERIALISED, padded

pytestmark = pytest.mark.skipif(not native.enabled(), reason="needs LLVM")


def check(fun: Callable[..., Any], *args: Any, fused: bool = True) -> list[Launch]:
    """Emulated launches give what eager evaluation does, and pad nothing in memory if `fused`."""
    program = device_program(fun, *args)
    got, faults = emulated(program, *args)
    assert not faults, faults
    assert_close(got, fun(*args), 20.0)
    steps = [e.params["step"] for e in program.jaxpr.eqns if "step" in e.params]
    assert ("pad" in [s.label for s in steps]) != fused
    for step in steps:
        check_equations(step)
    return launches_of(program)


def check_equations(step: Any) -> None:
    """What runs where a driver refuses a step's launches reads its inputs and nothing else."""
    known = set(step.inputs)
    for eqn in step.eqns:
        assert all(isinstance(a, Literal) or a in known for a in eqn.inputs), (step.label, eqn)
        known.update(eqn.out_binders)
    assert known.issuperset(step.outputs)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("shape", [(30, 40), (5, 6), (300, 5), (5, 300)])
def test_what_reads_a_padded_array(name: str, shape: tuple[int, int]) -> None:
    check(FUNCTIONS[name], drawn(*shape))


@pytest.mark.parametrize("name", MATERIALISED)
def test_what_needs_memory_gets_it(name: str) -> None:
    check(MATERIALISED[name], drawn(30, 40), fused=False)


@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "float64", "int8", "uint16", "int32", "uint64", "bool"]
)
def test_every_dtype(dtype: str) -> None:
    x = drawn(30, 40, dtype=dtype)
    for config in (((1, 2), (3, 4)), ((-1, 2), (3, -4)), ((2, 0), (0, 0)), ((0, 0), (8, 16))):
        check(lambda x, config=config: (padded(x, 1, *config) != 0, padded(x, 1, *config) == 1), x)


# name -> (function, arguments, mapping, lanes, staged)
FORMS: dict[str, tuple[Callable[..., Any], list[Any], str, int, int]] = {
    "vectors inside and outside": (
        lambda x: padded(x, 3, (1, 2), (4, 8)) * 2, [drawn(9, 40)], ELEMENTS, 4, 0,
    ),
    "vectors of both": (
        lambda x: padded(x[:, :38], 3, (1, 2), (4, 2)) * 2, [drawn(9, 40)], ELEMENTS, 4, 0,
    ),
    "a line": (lambda x: padded(x, 3, (4, 3)) * 2, [drawn(41)], ELEMENTS, 4, 0),
    "a line of float64": (
        lambda x: padded(x, 3, (2, 4)) * 2, [drawn(41, dtype="float64")], ELEMENTS, 2, 0,
    ),
    "a line of bools": (lambda x: ~padded(x, 1, (4, 7)), [drawn(41, dtype="bool")], ELEMENTS, 4, 0),
    "rows outside": (lambda x: padded(x, 3, (2, 1), (0, 0)) * 2, [drawn(9, 40)], ELEMENTS, 4, 0),
    "sums of rows": (
        lambda x: padded(x[:, :38], 3, (1, 0), (4, 6)).sum(1), [drawn(9, 40)], WARPS, 4, 0,
    ),
    "a normalised row": (
        lambda x: mgefn.nn.softmax(padded(x[:, :1198], -np.inf, (0, 0), (4, 6))),
        [drawn(3, 1200)], BLOCKS, 4, 0,
    ),
    "pieces of a row": (lambda x: padded(x, 3, (4, 7)).sum(), [drawn(70_001)], BLOCKS, 4, 0),
    "columns": (
        lambda x: padded(x, 3, (1, 2), (0, 0)).sum(0), [drawn(130, 260)], COLUMNS, 4, 0,
    ),
    "tiles": (
        lambda x, y: padded(x, 3, (1, 2), (3, -4)).T + y,
        [drawn(40, 50), drawn(49, 43)], TILES, 1, 1,
    ),
    "two tiles": (
        lambda x, y: padded(x, 3, (1, 2), (3, -4)).T + padded(y, 1, (0, 3), (2, -5)).T * x[0, 0],
        [drawn(40, 50), drawn(40, 52)], TILES, 1, 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("form", ["", "wide", "indirect", "any address"])
def test_each_way_to_share_out_the_work(name: str, form: str) -> None:
    fun, args, mapping, lanes, staged = FORMS[name]
    launches = check(fun, *args)
    found = [(k.kernel.mapping, k.kernel.lanes, len(k.kernel.staged)) for k in launches]
    assert (mapping, lanes, staged) in found
    if not form:
        return
    program = device_program(fun, *args)
    for eqn in program.jaxpr.eqns:
        if "step" in eqn.params:
            step = eqn.params["step"]
            step.code = [changed(launch, form) for launch in step.code]
    got, faults = emulated(program, *args)
    assert not faults, faults
    assert_close(got, fun(*args), 20.0)


def changed(launch: Launch, form: str) -> Launch:
    if form == "any address":
        return launch.for_any_address()
    launch = launch._replace(kernel=launch.kernel._replace(**{form: True}))
    return launch._replace(indirect=True) if form == "indirect" else launch


def test_padding_that_a_reduction_finds() -> None:
    check(lambda x: padded(x, x.max(), (1, 2), (3, 4)) * 2, drawn(30, 40))
    check(lambda x: padded(x, x.sum(0)[3], (1, 2), (3, 4)).sum(1), drawn(30, 40))


def test_the_equations_of_a_value_that_is_computed_again() -> None:
    def fun(x: Any, y: Any) -> Any:
        apart = x[:, None] - y
        near = mnp.sort((apart * apart).sum(1))
        return (apart * near[:, None]).sum(0)

    x, y = drawn(300), drawn(600)
    steps = [e.params["step"] for e in device_program(fun, x, y).jaxpr.eqns if "step" in e.params]
    assert [[e.primitive.name for e in s.eqns].count("sub") for s in steps] == [1, 1]
    for step in steps:
        check_equations(step)


def test_a_condition_that_is_left_out_is_found() -> None:
    fun, args, *_ = FORMS["vectors of both"]
    program = device_program(fun, *args)
    (eqn,) = program.jaxpr.eqns
    (launch,) = eqn.params["step"].code
    text = text_of(launch)
    every = text.replace("icmp ult", "icmp uge")
    assert every != text

    class Planted(type(launch.kernel)):
        def text(self, name: str) -> str:
            return every

    eqn.params["step"].code = [launch._replace(kernel=Planted(*launch.kernel))]
    faults = emulated(program, *args)[1]
    assert any("out of bounds" in f for f in faults), faults


@settings(max_examples=40)
@given(st.data())
def test_drawn_paddings(data: st.DataObject) -> None:
    rank = data.draw(st.integers(1, 3))
    size = st.sampled_from([1, 2, 3, 4, 8, 31, 32, 36])
    shape = tuple(data.draw(size) for _ in range(rank))
    x = drawn(*shape, dtype=data.draw(st.sampled_from(["float32", "float64", "int16"])))
    value = data.draw(st.integers(-2, 5))
    edge = st.sampled_from([-4, -1, 0, 0, 1, 2, 4, 8])
    config = [(max(data.draw(edge), 1 - n), max(data.draw(edge), 0)) for n in shape]
    turned = data.draw(st.permutations(range(rank)))
    steps = [data.draw(st.sampled_from([1, 1, 2, -1, -3])) for _ in range(rank)]
    reduced = data.draw(st.sampled_from([None, *range(rank)]))

    def fun(x: Any) -> Any:
        y = mnp.transpose(padded(x, value, *config), turned)
        y = y[tuple(slice(None, None, s) for s in steps)]
        return y * 2 + y if reduced is None else (y * 2).sum(reduced)

    program = device_program(fun, x)
    got, faults = emulated(program, x)
    assert not faults, faults
    assert_close(got, fun(x), 20.0)
