"""Elementwise primitives refuse the same dtypes with known operands as in a trace."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn.core.primitive import Primitive
from mgefn.errors import DTypeError
from mgefn.ops import elementwise

DTYPES = ("bool", "int8", "uint32", "int64", "bfloat16", "float32", "float64", "complex64")
PRIMITIVES = {
    name: p
    for name, p in vars(elementwise).items()
    if isinstance(p, Primitive) and p.accepts is not None
}
# Those with params have other tests; the number of operands is found by asking.
PARAMS: dict[str, dict[str, Any]] = {"integer_pow_p": {"y": 2}}


def operands_of(p: Primitive, params: dict[str, Any]) -> int | None:
    for n in (1, 2, 3):
        for dtype in DTYPES:
            avals = [mnp.ones(2, dtype).aval] * n
            try:
                p.out_avals(avals, params)
            except Exception:
                continue
            return n
    return None


@pytest.mark.parametrize("name", PRIMITIVES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_refused_alike(name: str, dtype: str) -> None:
    p, params = PRIMITIVES[name], PARAMS.get(name, {})
    n = operands_of(p, params)
    if n is None or p.accepts is None or p.accepts(np.dtype(mnp.ones(2, dtype).dtype)):
        return
    with pytest.raises(DTypeError):
        p.bind1(*[mnp.ones(2, dtype)] * n, **params)
    with pytest.raises(DTypeError):
        mgefn.make_jaxpr(lambda *xs: p.bind1(*xs, **params))(*[mnp.ones(2, dtype)] * n)


def test_most_are_asked() -> None:
    found = [n for n, p in PRIMITIVES.items() if operands_of(p, PARAMS.get(n, {})) is not None]
    assert len(found) > 60


@pytest.mark.parametrize("f", [mnp.square, lambda x: mnp.fmod(x, x[:1])], ids=["square", "fmod"])
def test_bools_become_small_integers_as_in_numpy(f: Any) -> None:
    x = np.array([True, True])
    for g in (f, mgefn.jit(f)):
        assert g(mnp.asarray(x)).dtype == np.int8


def test_bools_have_no_negative_powers() -> None:
    x = mnp.asarray([True, False])
    for f in (lambda x: x**-1, lambda x: mgefn.lax.integer_pow(x, -1)):
        for g in (f, mgefn.jit(f)):
            with pytest.raises(DTypeError):
                g(x)
    for exponent in (0, 1, 2, 3):
        with pytest.raises(DTypeError):
            mgefn.lax.integer_pow(x, exponent)
    assert (x**2).tolist() == [1, 0]
