"""Tracers are arrays to user code, whatever they keep inside."""

from __future__ import annotations

import mgefn
import mgefn.numpy as mnp
from mgefn.core.array_methods import Array
from mgefn.core.tracer import Tracer


def all_kinds(cls=Tracer):
    for sub in cls.__subclasses__():
        yield sub
        yield from all_kinds(sub)


def test_no_slot_hides_a_method_of_arrays():
    public = {name for name in dir(Array) if not name.startswith("__")}
    for cls in all_kinds():
        hidden = public & set(cls.__slots__)
        assert not hidden, (cls, hidden)


def test_methods_and_properties_work_on_every_kind():
    def use(x):
        parts = [x.var(), x.std(), x.mean(), x.T.sum(), x.real.sum(), x.reshape(-1)[0], x.max()]
        assert isinstance(x, mgefn.Array) and x.ndim == 2 and x.size == 6 and len(x) == 2
        assert x.nbytes == 24 and x.itemsize == 4
        return sum(parts)

    x = mnp.arange(6.0).reshape(2, 3) + 1
    expected = float(use(x))
    one = mnp.ones((1, 2, 3)) * x
    for f in (
        mgefn.jit(use),
        lambda x: mgefn.value_and_grad(use)(x)[0],
        lambda x: mgefn.jvp(use, (x,), (x,))[0],
        lambda x: mgefn.vmap(use)(one)[0],
        mgefn.jit(lambda x: mgefn.value_and_grad(use)(x)[0]),
    ):
        assert abs(float(f(x)) - expected) < 1e-4
