"""Concatenations move behind the elementwise work that follows them, and mean the same there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mgefn
import mgefn.numpy as mnp
from mgefn.compiler.passes import optimized
from mgefn.compiler.passes.split import split_concatenations
from mgefn.core.jaxpr import check_jaxpr

RNG = np.random.default_rng(0)


def drawn(*shape: int) -> np.ndarray:
    return np.asarray(RNG.uniform(-1, 1, shape)).astype(np.float32)


def names(fun: Callable[..., Any], *args: Any) -> list[str]:
    """The program's operations after all passes, without the views."""
    closed = optimized(mgefn.make_jaxpr(fun)(*args))
    return [e.primitive.name for e in closed.jaxpr.eqns if not e.primitive.view]


def check(fun: Callable[..., Any], *args: Any) -> None:
    """The pass keeps the program whole, and every backend gives what NumPy gives."""
    check_jaxpr(split_concatenations(mgefn.make_jaxpr(fun)(*args)))
    want = [np.asarray(x) for x in mgefn.tree.leaves(fun(*args))]
    for backend in ("numpy", "llvm"):
        got = mgefn.tree.leaves(mgefn.jit(fun, backend=backend)(*args))
        for g, w in zip(got, want, strict=True):
            assert g.dtype == w.dtype
            np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6, err_msg=backend)


def turn(y: Any) -> Any:
    a, b = y
    return mnp.stack([b, -a])


def runge_kutta(y: Any) -> Any:
    k1 = turn(y)
    k2 = turn(y + 0.1 * k1)
    return y + 0.1 * (k1 + k2)


def test_a_step_of_an_ode_writes_one_stack() -> None:
    y = drawn(2, 50)
    check(runge_kutta, y)
    assert names(runge_kutta, y).count("concatenate") == 1
    check(mgefn.grad(lambda y: runge_kutta(y).sum()), y)


def test_a_slice_of_a_stack_is_the_piece() -> None:
    fun = lambda a, b: mnp.sin(mnp.concatenate([a, b]))[:5] * 2
    check(fun, drawn(5), drawn(7))
    assert names(fun, drawn(5), drawn(7)) == ["sin", "mul"]
    part = lambda a, b: mnp.sin(mnp.concatenate([a, b]))[6:9] * 2  # a part of the second
    check(part, drawn(5), drawn(7))
    assert "concatenate" not in names(part, drawn(5), drawn(7))
    across = lambda a, b: mnp.sin(mnp.concatenate([a, b]))[3:9] * 2
    check(across, drawn(5), drawn(7))
    assert "concatenate" in names(across, drawn(5), drawn(7))
    stepped = lambda a, b: mnp.sin(mnp.concatenate([a, b]))[0:5:2]
    check(stepped, drawn(5), drawn(7))


def test_before_a_reduction_the_stack_stays() -> None:
    fun = lambda a, b: mnp.sum(mnp.tanh(mnp.concatenate([a, b])))
    check(fun, drawn(5), drawn(5))
    assert names(fun, drawn(5), drawn(5)) == ["concatenate", "tanh", "reduce_sum"]
    both = lambda a, b: (mnp.sum(z := mnp.tanh(mnp.concatenate([a, b]))), z[:5])
    check(both, drawn(5), drawn(5))
    assert names(both, drawn(5), drawn(5)).count("tanh") == 1


def test_pieces_of_many_sizes_stay_together_unless_they_are_wanted() -> None:
    fun = lambda a, b: mnp.exp(mnp.concatenate([a, b]))
    assert names(fun, drawn(5), drawn(7)) == ["concatenate", "exp"]
    assert names(fun, drawn(5), drawn(5)) == ["exp", "exp", "concatenate"]
    check(fun, drawn(5), drawn(7))
    many = lambda x: mnp.exp(mnp.stack([x] * 20))[3]
    check(many, drawn(4))


def test_predicates_scalars_literals_and_other_stacks() -> None:
    def fun(a: Any, b: Any, s: Any) -> Any:
        x = mnp.stack([a, b], axis=1)
        y = mnp.where(x > 0, x * s, mnp.stack([b, a], axis=1)) + mnp.arange(2.0)
        return y[:, 0] + y[:, 1], x

    check(fun, drawn(6), drawn(6), np.float32(3))
    swapped = lambda a: (mnp.concatenate([a, a], 0) + mnp.concatenate([a.T, a.T], 1).reshape(8, 4))[
        :4
    ]
    check(swapped, drawn(4, 4))
    whole = lambda a, b: (mnp.exp(z := mnp.concatenate([a, b])), z[:3], z)
    check(whole, drawn(3), drawn(3))
    empty = lambda a: mnp.exp(mnp.concatenate([a, a[:0]]))[:4]
    check(empty, drawn(4))


def test_dtypes_and_weak_types_are_kept() -> None:
    fun = lambda a: (mnp.stack([a, a + 1]).astype("int32") // 2)[1]
    check(fun, drawn(5) * 9)
    weak = lambda a: mnp.stack([mnp.sin(a), a])[0] * 2
    closed = mgefn.make_jaxpr(weak)(3.0)
    assert [v.aval for v in optimized(closed).jaxpr.outs] == [v.aval for v in closed.jaxpr.outs]


@given(st.data())
def test_programs_of_stacks(data: st.DataObject) -> None:
    """Random pipelines that stack, work on stacks, and take them apart."""
    count, axis = data.draw(st.integers(1, 4)), data.draw(st.integers(0, 1))
    sizes = [data.draw(st.integers(0, 3)) for _ in range(count)]
    shapes = [(n, 2) if axis == 0 else (2, n) for n in sizes]
    steps = data.draw(st.lists(st.integers(0, 6), max_size=6))
    cuts = data.draw(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=3))
    inputs = [drawn(*s) for s in shapes]

    def fun(*parts: Any) -> list[Any]:
        x = mnp.concatenate(parts, axis)
        stacks = [x]
        for step in steps:
            y = stacks[step % len(stacks)]
            stacks.append(
                [mnp.sin(x), x + y, 2 * x, mnp.where(x > 0, x, y), x - y[::-1], x * x.sum(), -y][
                    step
                ]
            )
            x = stacks[-1]
        taken = [x[a : a + b] if axis == 0 else x[:, a : a + b] for a, b in cuts]
        return [*taken, *([x] if len(steps) % 2 else [])]

    check(fun, *inputs)


@pytest.mark.parametrize("steps", [5, 40])
def test_the_program_grows_with_the_pieces_only(steps: int) -> None:
    def fun(a: Any, b: Any) -> Any:
        x = mnp.stack([a, b])
        for _ in range(steps):
            x = 0.4 * (mnp.sin(x) + mnp.stack([x[1], x[0]]))
        return x

    closed = mgefn.make_jaxpr(fun)(drawn(3), drawn(3))
    assert len(optimized(closed).jaxpr.eqns) <= 3 * len(closed.jaxpr.eqns)
    check(fun, drawn(3), drawn(3))
