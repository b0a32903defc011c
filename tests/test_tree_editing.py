"""tree.at, flat dicts, dataclasses, comparing and showing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import tree
from mgefn.errors import ArgumentError, TreeError


@tree.dataclass
class Layer:
    weight: Any
    name: str = tree.static(default="layer")


def test_dataclass_is_a_node():
    layer = Layer(mnp.ones(2), name="a")
    assert len(tree.leaves(layer)) == 1
    assert tree.structure(layer) != tree.structure(Layer(mnp.ones(2)))
    assert layer.replace(name="b").name == "b"
    assert mgefn.grad(lambda x: (x.weight**2).sum())(layer).name == "a"
    with pytest.raises(AttributeError):
        layer.name = "c"
    with pytest.raises(TreeError, match="nodes are frozen"):
        tree.dataclass(type("X", (), {}), frozen=False)


def test_at_replaces_leaves_and_nodes():
    t = {"a": Layer(1.0), "b": (2, [3, 4])}
    assert tree.at(lambda t: t["a"].weight, t, replace=9)["a"] == Layer(9)
    assert tree.at(lambda t: t["b"][1], t, replace={"new": 0})["b"] == (2, {"new": 0})
    assert tree.at(lambda t: t["b"], t, replace_fn=len)["b"] == 2
    both = tree.at(lambda t: (t["b"][0], t["a"].weight), t, replace=("x", "y"))
    assert both == {"a": Layer("y"), "b": ("x", [3, 4])}
    assert t == {"a": Layer(1.0), "b": (2, [3, 4])}
    assert tree.at(lambda t: t[0], (None, 1), replace=5, is_leaf=tree.is_none) == (5, 1)
    doubled = mgefn.jit(lambda t: tree.at(lambda t: t["w"], t, replace_fn=lambda w: w * 2))
    np.testing.assert_array_equal(doubled({"w": mnp.ones(2), "b": 1.0})["w"], [2.0, 2.0])


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: tree.at(lambda t: 3, (1, 2), replace=1), "must return nodes of the tree, got int"),
        (
            lambda: tree.at(lambda t: (t[0], t[0]), (1, 2), replace=(1, 2)),
            "returned one node twice",
        ),
        (lambda: tree.at(lambda t: t[0], (None, None), replace=1), "stands at 2 places"),
        (lambda: tree.at(lambda t: (), ([1],), replace=()), "returned no node"),
        (lambda: tree.at(lambda t: (t[0], t[1]), (1, 2), replace=(1,)), "must have one structure"),
    ],
)
def test_at_names_faults(call, match):
    with pytest.raises(TreeError, match=match):
        call()


def test_at_needs_one_replacement():
    for more in ({}, {"replace": 1, "replace_fn": len}):
        with pytest.raises(ArgumentError, match="needs one of replace and replace_fn"):
            tree.at(lambda t: t[0], (1, 2), **more)


def test_flat_dicts():
    nested = {"a": {"b": 1, "c": {}}, "d": [{"e": 2}]}
    flat = tree.flatten_dict(nested, keep_empty_nodes=True)
    assert flat == {("a", "b"): 1, ("a", "c"): tree.empty_node, ("d",): [{"e": 2}]}
    assert tree.unflatten_dict(flat) == nested
    assert tree.flatten_dict(nested, sep="/") == {"a/b": 1, "d": [{"e": 2}]}
    assert tree.flatten_dict(nested, is_leaf=lambda path, x: path == ("a",))[("a",)] is nested["a"]
    with pytest.raises(ArgumentError, match="leads through a value at 'a'"):
        tree.unflatten_dict({"a": 1, "a.b": 2}, sep=".")
    with pytest.raises(ArgumentError, match="needs a dict"):
        tree.flatten_dict([1])


def test_equal():
    t = {"a": mnp.arange(3), "b": "text"}
    assert tree.equal(t, {"a": np.arange(3, dtype=np.int32), "b": "text"}, t) is True
    assert not tree.equal(t, {"a": np.arange(3, dtype=np.int32), "b": "text"}, typematch=True)
    assert not tree.equal(t, {"a": mnp.arange(3.0), "b": "text"})
    assert not tree.equal((1,), [1])
    assert not tree.equal(mnp.array([np.nan]), mnp.array([np.nan]))
    assert not tree.equal(mnp.ones(2), mnp.ones(2) * 1.001)
    assert tree.equal(mnp.ones(2), mnp.ones(2) * 1.001, rtol=0.01)
    assert tree.equal(mnp.array([np.inf]), mnp.array([np.inf]), atol=1.0)
    traced = mgefn.jit(lambda x: tree.equal((x, 1), (mnp.ones(2), 1)))
    assert traced(mnp.ones(2))
    assert not traced(mnp.zeros(2))


def test_check_finds_what_stands_twice():
    shared = mnp.ones(2)
    tree.check({"a": mnp.ones(2), "b": mnp.ones(2), "c": (None, None, "x", "x", 1, 1, (), ())})
    with pytest.raises(
        TreeError, match=r"the Array at \['a'\] stands twice: it is at \['b'\]|twice"
    ):
        tree.check({"a": shared, "b": shared})
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(TreeError, match="the list at the root stands inside itself"):
        tree.check(loop)


def test_pformat():
    t = {"w": mnp.ones((3, 4)), "layers": [Layer(np.zeros(2))], "n": None}
    assert tree.pformat(t, width=100) == (
        "{'w': f32[3,4], 'layers': [Layer(weight=f64[2](numpy), name='layer')], 'n': None}"
    )
    assert tree.pformat(t, width=30) == (
        "{\n  'w': f32[3,4],\n  'layers': [\n    Layer(\n      weight=f64[2](numpy),\n"
        "      name='layer'\n    )\n  ],\n  'n': None\n}"
    )
    assert tree.pformat((1,)) == "(1,)"
