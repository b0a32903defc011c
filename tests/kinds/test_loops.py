"""Loops and branches: counters in the carry, values that go nowhere, batches that end apart."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import lax
from mgefn.errors import MgefnError
from tests.kinds.helpers import check

COUNTERS = {
    "Python number": 0,
    "int32": np.int32(0),
    "uint8": np.uint8(0),
    "array": np.zeros((), np.int64),
    "bool and int": (True, 0),
}


@pytest.mark.parametrize("name", COUNTERS)
def test_counters_in_the_carry_do_not_stop_the_gradient(name):
    start = COUNTERS[name]
    number = lambda n: n[1] if isinstance(n, tuple) else n
    after = lambda n: (~n[0], n[1] + 1) if isinstance(n, tuple) else n + 1

    def f(x):
        def step(c, k):
            n, y = c
            return (after(n), y * (number(n) + 1)), (number(n), k)

        (_, y), (ns, ks) = lax.scan(step, (start, x), mnp.arange(4))
        return y + 0.0 * (ns.sum() + ks.sum())

    check(f, np.float64(2.0), 24.0)


@pytest.mark.parametrize("loop", ["scan", "fori_loop"])
def test_what_does_not_reach_the_result_has_no_slope(loop):
    xs = np.array([1.0, 2.0, 4.0])

    def f(args):
        w, dead, xs = args
        if loop == "scan":
            return lax.scan(lambda c, x: ((c[0] * 2, c[1] + w * x), c[0]), (dead, 0.0), xs)[0][1]
        step = lambda i, c: (c[0] * 2, c[1] + w * xs[i])
        return lax.fori_loop(0, 3, step, (dead, 0.0))[1]

    for g in (mgefn.grad(f), mgefn.jit(mgefn.grad(f)), mgefn.grad(mgefn.jit(f))):
        gw, gd, gx = g((3.0, 1.0, xs))
        assert float(gw) == 7.0 and float(gd) == 0.0
        np.testing.assert_array_equal(gx, [3, 3, 3])


def test_batched_branches_that_loop_end_for_each_example():
    down = lambda x: lax.while_loop(lambda v: (v <= 0) | (v > 0.05), lambda v: v * 0.1, x)
    up = lambda x: lax.while_loop(lambda v: v < -0.05, lambda v: v * 0.1, x)
    stay = lambda x: x
    f = lambda x: lax.switch((x > 0) + 2 * (x < 0), [stay, down, up], x)
    xs = np.array([1.0, -1.0, 0.0, 0.3])
    want = [float(f(float(x))) for x in xs]
    for g in (mgefn.vmap(f), mgefn.jit(mgefn.vmap(f))):
        np.testing.assert_allclose(g(xs), want, rtol=1e-6)
    np.testing.assert_allclose(mgefn.vmap(mgefn.vmap(f))(xs[None]), [want], rtol=1e-6)


@pytest.mark.parametrize("index", [-5, -1, 0, 1, 2, 3, 99])
def test_a_branch_number_out_of_range_takes_the_nearest(index):
    branches = [lambda x: x, lambda x: x * 10, lambda x: x * 100]
    want = 2.0 * 10.0 ** min(max(index, 0), 2)
    f = lambda i, x: lax.switch(i, branches, x)
    assert float(f(index, 2.0)) == float(mgefn.jit(f)(index, 2.0)) == want
    assert mgefn.vmap(f, (0, None))(mnp.asarray([index, 0]), 2.0).tolist() == [want, 2.0]
    assert float(mgefn.grad(f, 1)(index, 2.0)) == want / 2


CHANGES = {
    "shape": lambda c: mnp.stack([c, c]),
    "structure": lambda c: (c, c),
    "dtype": lambda c: c.astype("complex64"),
    "None": lambda c: None,
}
LOOPS = {
    "while_loop": lambda body, p: lax.while_loop(lambda c: True, body, mnp.zeros(2)),
    "scan": lambda body, p: lax.scan(lambda c, _: (body(c), None), mnp.zeros(2), None, length=2),
    "fori_loop": lambda body, p: lax.fori_loop(0, 3, lambda _, c: body(c), mnp.zeros(2)),
    "cond": lambda body, p: lax.cond(p, lambda c: c, body, mnp.zeros(2)),
}


@pytest.mark.parametrize("loop, change", list(itertools.product(LOOPS, CHANGES)))
def test_bodies_that_change_the_type_of_the_carry_are_refused(loop, change):
    ways = [lambda body: mgefn.jit(lambda p: LOOPS[loop](body, p))(True)]
    if loop != "cond":  # where its predicate is known, one branch runs and the other is not read
        ways.append(lambda body: LOOPS[loop](body, True))
    for run in ways:
        with pytest.raises(MgefnError):
            run(CHANGES[change])


@pytest.mark.parametrize("depth", [1, 2, 5, 8])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_weak_carries_settle_however_long_that_takes(depth, dtype):
    """A line of Python numbers, each fed by the one before; the first by strong numbers."""

    def shifted(c, x):
        return [c[0] + x] + [c[k + 1] + c[k] for k in range(len(c) - 1)], c[-1]

    c, _ = lax.scan(shifted, [0.0] * depth, mnp.ones(4, dtype))
    plain = [0.0] * depth
    for _ in range(4):
        plain, _ = shifted(plain, 1.0)
    assert [float(v) for v in c] == plain
    assert all(v.dtype == mnp.ones(1, dtype).dtype for v in c)


def test_second_derivatives_of_a_loop_by_every_order_of_modes():
    x = np.array([1.0, 2, 3, -1, 0.5])
    n = len(x)
    want = [[0 if i == j else np.prod(np.delete(x, [i, j])) for j in range(n)] for i in range(n)]
    product = lambda v: lax.scan(lambda s, q: (s * q, None), 1.0, v)[0]
    by_index = lambda v: lax.fori_loop(0, n, lambda i, s: s * v[i], 1.0)
    for f in (product, by_index, mgefn.checkpoint(product), mgefn.jit(product)):
        for h in (
            mgefn.jacfwd(mgefn.grad(f)),
            mgefn.jacrev(mgefn.grad(f)),
            mgefn.jacrev(mgefn.jacfwd(f)),
            mgefn.jacfwd(mgefn.jacfwd(f)),
        ):
            np.testing.assert_allclose(h(x), want, rtol=1e-12, atol=1e-14)


def test_reverse_mode_of_a_loop_of_unknown_length_is_refused_by_name():
    f = lambda x: lax.while_loop(lambda v: v < 100, lambda v: v * 2, x)
    assert float(mgefn.jvp(f, (3.0,), (1.0,))[1]) == 64.0
    for g in (mgefn.grad(f), mgefn.grad(mgefn.jit(f)), mgefn.jit(mgefn.grad(f))):
        with pytest.raises(MgefnError, match="while_loop"):
            g(3.0)
    with pytest.raises(MgefnError, match="while_loop"):
        mgefn.vmap(mgefn.grad(f))(mnp.ones(2))


@pytest.mark.parametrize("bounds", [(0, 3), (2, 5), (-1, 2), (0, 0), (3, 0)])
def test_loops_of_known_length_have_a_gradient(bounds):
    f = lambda x: lax.fori_loop(*bounds, lambda _, v: v * v, x)
    p = 2 ** max(bounds[1] - bounds[0], 0)
    check(f, np.float64(1.1), p * 1.1 ** (p - 1))
    assert float(f(1.1)) == pytest.approx(1.1**p, rel=1e-5)


def test_without_jit_the_numbers_are_the_same():
    programs = [
        lambda x: lax.fori_loop(0, 4, lambda i, v: v * 1.5 + i, x),
        lambda x: lax.scan(lambda c, k: (c + k * x, c), x, mnp.arange(3.0))[0],
        lambda x: lax.while_loop(lambda v: v < 9, lambda v: v * 2 + 1, x),
        lambda x: lax.cond(x > 1, mnp.sin, mnp.cos, x),
    ]
    for f in programs:
        want = [float(mgefn.jit(f)(v)) for v in (0.5, 2.0)]
        with mgefn.disable_jit():
            assert [float(mgefn.jit(f)(v)) for v in (0.5, 2.0)] == pytest.approx(want, rel=1e-6)
            assert mgefn.vmap(f)(mnp.asarray([0.5, 2.0])).tolist() == pytest.approx(want, rel=1e-6)
