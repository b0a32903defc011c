"""What loops and branches say of bodies that do not give back what they took."""

from __future__ import annotations

from typing import Any

import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import lax
from mgefn.config import config
from mgefn.errors import DTypeError, ShapeError, TreeError

x3 = mnp.ones(3)


def grow(c: Any, x: Any = None) -> Any:
    return mnp.concatenate([c, c])


def fori(body: Any, start: Any) -> Any:
    return lax.fori_loop(0, 3, body, start)


def fori_traced(body: Any, start: Any) -> Any:
    return mgefn.jit(lambda n: lax.fori_loop(0, n, body, start))(3)


def traced_cond(a: Any, b: Any) -> Any:
    return mgefn.jit(lambda p: lax.cond(p, a, b, x3))(True)


FORI = {
    "shape stretched": (
        lambda i, c: c + mnp.ones(3), 0.0, ShapeError,
        r"keep its shapes, but c is f32\[\] and comes back as f32\[3\]\. Start with that shape: "
        r"mgefn\.numpy\.broadcast_to\(c, \(3,\)\)\.$",
    ),
    "shape grown": (
        lambda i, c: grow(c), mnp.ones(2), ShapeError,
        r"c is f32\[2\] and comes back as f32\[4\]\. A carry can't grow .* \.at\[i\]\.set\.$",
    ),
    "shape reduced": (
        lambda i, c: c.sum(), mnp.ones(2), ShapeError,
        r"c is f32\[2\] and comes back as f32\[\]\. Return it in the shape \(2,\)",
    ),
    "a leaf": (
        lambda i, c: {"a": c["a"], "b": c["a"]}, {"a": x3, "b": mnp.zeros(())}, ShapeError,
        r"c\['b'\] is f32\[\] and comes back as f32\[3\]\. .*broadcast_to\(c\['b'\], \(3,\)\)",
    ),
    "dtype": (
        lambda i, c: c + 0.5, mnp.int32(0), DTypeError,
        r"keep its dtypes, but c is i32\[\] and comes back as f32\[\]: .* Cast the initial value",
    ),
    "shape and dtype": (
        lambda i, c: c + mnp.ones(3), mnp.int32(0), ShapeError,
        r"keep its types, .*broadcast_to\(c, \(3,\)\)\. Cast the initial value",
    ),
    "nothing": (lambda i, c: None, x3, TreeError, r"argument c, .*Does it end without a return"),
    "a pair": (lambda i, c: (i, c), x3, TreeError, r"structure of its argument c, PyTreeDef\(\*\)"),
}  # fmt: skip


@pytest.mark.parametrize("loop", [fori, fori_traced])
@pytest.mark.parametrize("name", FORI)
def test_fori_loop(name: str, loop: Any) -> None:
    body, start, error, text = FORI[name]
    with pytest.raises(error, match=f"^fori_loop: .*{text}") as caught:
        loop(body, start)
    if error is ShapeError and name != "shape and dtype":
        assert "Cast" not in str(caught.value)


@pytest.mark.parametrize("name", [n for n in FORI if n != "a pair"])
def test_while_loop(name: str) -> None:
    body, start, error, text = FORI[name]
    with pytest.raises(error, match=f"^while_loop: .*{text}"):
        lax.while_loop(lambda c: True, lambda c: body(0, c), start)


@pytest.mark.parametrize("name", [n for n in FORI if n not in ("a pair", "nothing", "shape grown")])
def test_scan(name: str) -> None:
    body, start, error, text = FORI[name]
    with pytest.raises(error, match=f"^scan: .*{text}"):
        lax.scan(lambda c, x: (body(0, c), None), start, x3)


def test_a_scan_that_grows_may_collect() -> None:
    with pytest.raises(ShapeError, match=r"with \.at\[i\]\.set, or return the pieces as y\.$"):
        lax.scan(lambda c, x: (grow(c), x), mnp.ones(2), x3)


PAIRS = {
    "carry": (lambda c, x: c + x, 0.0, "got the carry alone. Return .carry, None."),
    "carry that is a pair": (
        lambda c, x: (c[0] + x, c[1]), (0.0, 1.0), "got the carry alone. Return .carry, None."
    ),
    "carry that is a dict": (lambda c, x: c, {"a": 0.0}, "got the carry alone"),
    "nothing": (lambda c, x: None, 0.0, "got None. Does it end without a return"),
    "three": (lambda c, x: (c, x, x), 0.0, "got .*. Return None for what you do not need"),
}  # fmt: skip


@pytest.mark.parametrize("disable", [False, True])
@pytest.mark.parametrize("name", PAIRS)
def test_a_scan_must_return_a_pair(name: str, disable: bool) -> None:
    body, start, text = PAIRS[name]
    text = rf"^scan: .* must return a pair \(carry, y\), {text}"
    with pytest.raises(TreeError, match=text), config.override(disable_jit=disable):
        lax.scan(body, start, x3)


def test_pairs_that_are_right() -> None:
    carry, ys = lax.scan(lambda c, x: ((c[1], c[0]), c[0]), (0.0, 1.0), x3)
    assert carry == (1.0, 0.0)
    assert ys.tolist() == [0.0, 1.0, 0.0]
    # A carry whose first half has its own structure: it is a pair all the same.
    carry, _ = lax.scan(lambda c, x: (c, c), (), x3)
    assert carry == ()


def test_branches() -> None:
    with pytest.raises(ShapeError, match=r"same shapes, .*f32\[2\].*f32\[3\].*Reshape") as caught:
        traced_cond(lambda x: x, lambda x: x[:2])
    assert "Cast" not in str(caught.value)
    with pytest.raises(DTypeError, match=r"same dtypes, .*i32\[3\].*f32\[3\].*Cast in") as caught:
        traced_cond(lambda x: x, lambda x: x.astype(int))
    assert "eshape" not in str(caught.value)
    with pytest.raises(ShapeError, match=r"same types, .*Reshape, .*Cast in one of them"):
        traced_cond(lambda x: x, lambda x: x.astype(int)[:1])
    with pytest.raises(ShapeError, match=r"^switch: .*same shapes"):
        mgefn.jit(lambda i: lax.switch(i, [lambda x: x, lambda x: x[:2]], x3))(0)
