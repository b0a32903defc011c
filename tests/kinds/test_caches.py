"""What jit takes for the same call, and what is traced again."""

from __future__ import annotations

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import lax
from mgefn.errors import MgefnError


class Counter:
    """A function that counts its calls."""

    def __init__(self, f):
        self.f, self.n = f, 0
        self.__name__ = "counted"

    def __call__(self, *args, **kwargs):
        self.n += 1
        return self.f(*args, **kwargs)


@pytest.mark.parametrize("bad", [[1, 2], {"k": 1}, {1}, np.zeros(2), (1, [2])], ids=repr)
@pytest.mark.parametrize("how", ["position", "name"])
def test_static_arguments_must_be_hashable(bad, how):
    f = mgefn.jit(lambda x, s: x * len(s), static_argnames="s")
    with pytest.raises(MgefnError, match="hashable"):
        f(1.0, bad) if how == "position" else f(1.0, s=bad)
    assert float(f(1.0, (1, 2))) == 2.0  # and the function still works


@pytest.mark.parametrize(
    "one, equal",
    [(3, 3), ("k", "k"), ((10**6, "k"), (10**6, "k")), (np.dtype("f4"), np.dtype("float32"))],
)
def test_equal_static_values_share_a_program(one, equal):
    c = Counter(lambda x, s: x + 1)
    f = mgefn.jit(c, static_argnums=1)
    for s in (one, equal, one):
        f(1.0, s)
    assert c.n == 1
    f(1.0, "another")
    assert c.n == 2


@pytest.mark.parametrize("values", [(1, True, 1.0), (0, False, 0.0, -0.0), ((1,), (True,), (1.0,))])
def test_equal_values_of_other_types_do_not_share(values):
    def described(s):
        return sum(map(ord, repr(s)))

    f = mgefn.jit(lambda x, s: x + described(s), static_argnums=1)
    for s in (*values, *values):
        assert int(f(0, s)) == described(s)


def test_one_nan_is_one_static_value():
    c = Counter(lambda x, s: x * 2)
    f, nan = mgefn.jit(c, static_argnums=1), float("nan")
    for _ in range(5):
        assert float(f(2.0, nan)) == 4.0
    assert c.n == 1


PAIR = lambda f: lambda x: f(mnp.stack([x, x]))
WRAPPED = {
    "checkpoint": mgefn.checkpoint,
    "grad": mgefn.grad,
    "hessian": mgefn.hessian,
    "vmap": lambda f: PAIR(mgefn.vmap(f)),
    "vmap of grad": lambda f: PAIR(mgefn.vmap(mgefn.grad(f))),
    "jvp": lambda f: lambda x: mgefn.jvp(f, (x,), (1.0,)),
    "grad of checkpoint": lambda f: mgefn.grad(mgefn.checkpoint(f)),
    "scan": lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=3),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_eager_transformations_do_not_trace_each_time(name):
    c = Counter(lambda x: mnp.sin(x) ** 2)
    f = WRAPPED[name](mgefn.jit(c))
    f(0.5)
    first = c.n
    for _ in range(4):
        f(0.5)
    assert c.n == first <= 3


@pytest.mark.parametrize(
    "loop",
    [
        lambda c, xs: lax.scan(lambda s, x: (c(s, x), None), 1.0, xs)[0],
        lambda c, xs: lax.fori_loop(0, len(xs), lambda i, s: c(s, xs[i]), 1.0),
        lambda c, xs: lax.while_loop(lambda s: s < 1e3, lambda s: c(s, s), 1.0),
        lambda c, xs: lax.map(lambda x: c(1.0, x), xs).sum(),
        lambda c, xs: lax.associative_scan(c, xs)[-1],
    ],
    ids=["scan", "fori_loop", "while_loop", "map", "associative_scan"],
)
def test_bodies_of_loops_are_traced_a_few_times(loop):
    c = Counter(lambda s, x: s * 0.9 + x)
    xs = mnp.ones(200)
    mgefn.jit(lambda xs: loop(c, xs))(xs)
    assert c.n <= 20
