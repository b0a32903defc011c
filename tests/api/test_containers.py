"""Calls of a jitted function that is met often: the code written for a signature is the general
way, only shorter.
"""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from typing import Any, NamedTuple

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import errors, random, tree
from mgefn.api import containers
from tests.checks import run_side_by_side

MANY = 20  # calls after which code is written, and some more


class Pair(NamedTuple):
    first: Any
    second: Any


@tree.dataclass
class Node:
    weight: Any
    inner: Any = None
    name: Any = tree.static(default="node")


class Listed:
    """A class registered by functions, whose number of children varies."""

    def __init__(self, *children: Any) -> None:
        self.children = children


tree.register_pytree_node(Listed, lambda x: (x.children, None), lambda _, c: Listed(*c))


def ones(*shape: int) -> Any:
    return mnp.ones(shape)


TREES: dict[str, Any] = {
    "an array": ones(2),
    "0-d": mnp.asarray(2.5),
    "no elements": ones(0, 3),
    "half": mnp.ones(2, "float16"),
    "complex": mnp.ones(2, "complex64"),
    "NumPy": np.ones((2, 3), np.float32),
    "NumPy of another byte order": np.ones(3, ">f4"),
    "strided NumPy": np.arange(12.0, dtype=np.float32).reshape(3, 4)[:, ::2],
    "a dict": {"b": ones(2), "a": ones(3)},
    "dict of other keys": {2: ones(2), 1: ones(3)},
    "nested": {"x": [ones(1), (ones(2), None)], "empty": {}, "none": None, "t": (), "l": []},
    "named tuple": Pair(ones(2), Pair(ones(1), None)),
    "dataclass": Node(ones(2), {"k": Node(ones(1), name="other")}),
    "registered": Listed(ones(1), ones(2)),
    "ordered": OrderedDict(b=ones(1), a=ones(2)),
    "a key": random.key(3),
    "numbers": (1, 2.5, True),
    "an odd key": {"it's": ones(1), 'a "b"\n': ones(2)},
}


def doubled(x: Any, y: Any) -> Any:
    floats = tree.map(lambda a: a if a.dtype.names or a.dtype == bool else a * 2, (x, y))
    return {"z": floats, "a": x}


def asarrays(x: Any) -> Any:
    return tree.map(mnp.asarray, x)


def equal(a: Any, b: Any) -> None:
    assert tree.structure(a) == tree.structure(b)
    for x, y in zip(tree.leaves(a), tree.leaves(b), strict=True):
        assert type(x) is type(y) and x.dtype == y.dtype and x.weak_type == y.weak_type
        if x.dtype.names:
            x, y = random.key_data(x), random.key_data(y)
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("name", TREES)
def test_every_call_gives_the_same(name: str) -> None:
    f = mgefn.jit(lambda x, y: doubled(asarrays(x), asarrays(y)))
    first = f(TREES[name], ones(2))
    for _ in range(MANY):
        again = f(TREES[name], ones(2))
        equal(again, first)
        # Keys of dicts come back in the order they had.
        assert repr(tree.structure(again)) == repr(tree.structure(first))
        assert list(again) == ["z", "a"]


def test_written_code_is_used() -> None:
    """Else the tests here would test the general way only."""
    args = (TREES["nested"], TREES["dataclass"], TREES["named tuple"], np.ones(2, np.float32))
    read = containers.reader(args, None)
    assert read is not None
    arrays, memory = read(args)
    assert [a.shape for a in arrays] == [m.shape for m in memory]
    assert len(arrays) == 7
    outs = tree.structure(args)
    write = containers.writer(outs, (False,) * 7)
    assert write is not None
    equal(asarrays(write(memory)), asarrays(args))
    f = mgefn.jit(lambda *a: tree.map(lambda x: x + 1, a))
    for _ in range(MANY):
        f(*args)
    assert f._short is not None


DIFFERENT: dict[str, tuple[Any, Any]] = {
    "shape": (ones(2), ones(3)),
    "rank": (ones(1), ones()),
    "dtype": (ones(2), mnp.ones(2, "int32")),
    "byte order": (np.ones(2, "<f4"), np.ones(2, ">f4")),
    "NumPy": (ones(2), np.ones(2, np.float32)),
    "a number": (ones(2), 3.0),
    "None": (ones(2), None),
    "from None": (None, ones(2)),
    "keys": ({"a": ones(1)}, {"b": ones(1)}),
    "more keys": ({"a": ones(1)}, {"a": ones(1), "b": ones(1)}),
    "fewer keys": ({"a": ones(1), "b": ones(1)}, {"a": ones(1)}),
    "order of keys": ({"a": ones(1), "b": ones(2)}, {"b": ones(2), "a": ones(1)}),
    "list": ((ones(1),), [ones(1)]),
    "longer": ([ones(1)], [ones(1), ones(1)]),
    "shorter": ([ones(1), ones(1)], [ones(1)]),
    "class": (Pair(ones(1), ones(1)), namedtuple("Pair", "first second")(ones(1), ones(1))),
    "static": (Node(ones(1)), Node(ones(1), name="other")),
    "children": (Listed(ones(1)), Listed(ones(1), ones(1))),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_another_signature_is_traced(name: str) -> None:
    one, other = DIFFERENT[name]
    traced = []

    def f(x: Any) -> Any:
        traced.append(x)
        return tree.map(lambda a: a + 1, asarrays(x))

    jitted = mgefn.jit(f)
    for _ in range(MANY):
        jitted(one)
    assert len(traced) == 1
    for x in (other, one, other, one):
        equal(jitted(x), tree.map(lambda a: a + 1, asarrays(x)))
    # These are one signature: dicts are sorted, memory of NumPy is as good as an array's.
    assert len(traced) == (1 if name in ("order of keys", "NumPy", "byte order") else 2)


def test_other_settings_and_arguments() -> None:
    f = mgefn.jit(lambda *xs, k=0: sum(x.sum() for x in xs) + mnp.zeros(()) + k)
    for _ in range(MANY):
        f(ones(2))
    assert float(f(ones(2), ones(3))) == 5.0
    assert float(f()) == 0.0
    assert float(f(ones(2), k=3)) == 5.0
    with mgefn.config.override(enable_x64=True):
        assert f(ones(2)).dtype == np.float64
    assert f(np.ones(2, np.float32)).dtype == np.float32
    f.clear_cache()
    assert float(f(ones(2))) == 2.0
    assert float(mgefn.grad(f)(ones(2))[0]) == 1.0
    assert mgefn.vmap(f)(ones(3, 2)).shape == (3,)


def test_results_never_share_memory_that_others_can_write() -> None:
    f = mgefn.jit(lambda x: {"same": x, "more": x + 1})
    x = np.zeros(3, np.float32)
    for _ in range(MANY):
        y = f({"x": x}["x"])
        x[:] = 7
        assert y["same"].tolist() == [0, 0, 0]
        x[:] = 0


def test_donated_arguments() -> None:
    f = mgefn.jit(lambda s, x: tree.map(lambda a: a + x, s), donate_argnums=0)
    state = {"b": ones(4), "a": Node(ones(4))}
    for i in range(MANY):
        old = state
        state = f(state, 1.0 if i == 0 else ones(4))
        with pytest.raises(errors.DonatedBufferError, match=r"was donated at test_containers\.py"):
            old["b"] + 1
    assert state["a"].weight.tolist() == [MANY + 1] * 4
    shared = ones(4)
    with pytest.raises(errors.ArgumentError, match="passed twice"):
        f({"b": shared, "a": Node(shared)}, ones(4))
    with pytest.raises(errors.ArgumentError, match="both donated and passed"):
        f({"b": ones(4), "a": Node(shared)}, shared)
    with pytest.raises(errors.DonatedBufferError):
        f(old, ones(4))


def test_metadata_that_cannot_be_hashed() -> None:
    f = mgefn.jit(lambda n: n.weight + 1)
    for _ in range(MANY):
        f(Node(ones(1)))
    with pytest.raises(TypeError, match="unhashable"):
        f(Node(ones(1), name=["a list"]))


def test_many_leaves_take_the_general_way() -> None:
    long = [ones(1)] * (containers.MOST_LEAVES + 1)
    assert containers.reader((long,), None) is None
    assert containers.writer(tree.structure(long), (False,) * len(long)) is None
    f = mgefn.jit(lambda xs: xs[0] + 1)
    for _ in range(MANY):
        assert f(long).tolist() == [2.0]


class Looks:
    """A node whose constructor looks at what it is given."""

    def __init__(self, x: Any) -> None:
        self.x, self.n = x, x.shape[0]


mgefn.tree_util.register_pytree_node(Looks, lambda v: ((v.x,), None), lambda _, c: Looks(*c))


def test_constructors_that_look_at_their_parts() -> None:
    f = mgefn.jit(lambda a: Looks(a.x * 2))
    for _ in range(12):
        assert f(Looks(mnp.ones(2))).x.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("depth", [210, 600])
def test_containers_as_deep_as_the_long_way_takes(depth: int) -> None:
    def nested(x: Any) -> Any:
        for _ in range(depth):
            x = [x]
        return x

    f = mgefn.jit(nested)
    for _ in range(12):
        assert mgefn.tree.leaves(f(mnp.ones(2)))[0].tolist() == [1.0, 1.0]


def test_threads_with_settings_of_their_own() -> None:
    f = mgefn.jit(mgefn.grad(lambda v: mnp.sqrt(v * v)))
    wrong: list[Any] = []

    def work(k: int) -> None:
        annihilates = k % 2 == 0
        with mgefn.config.override(zero_annihilates=annihilates):
            for _ in range(300):
                if bool(np.isnan(np.asarray(f(mnp.zeros(()))))) == annihilates:
                    wrong.append(annihilates)

    run_side_by_side(work, 4)
    assert not wrong
