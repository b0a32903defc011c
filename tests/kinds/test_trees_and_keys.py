"""Containers that come back as they went in; keys whose draws depend on nothing but the key."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import lax, random
from mgefn.errors import MgefnError

Pair = collections.namedtuple("Pair", "first second")


@mgefn.tree_util.register_pytree_node_class
class Box:
    """A node with one child and a part that is fixed."""

    def __init__(self, x: Any, tag: str):
        self.x, self.tag = x, tag

    def tree_flatten(self):
        return (self.x,), self.tag

    @classmethod
    def tree_unflatten(cls, tag, children):
        return cls(children[0], tag)

    def __eq__(self, other):
        return type(other) is Box and (self.x, self.tag) == (other.x, other.tag)

    __hash__ = None  # type: ignore[assignment]  # equal by value


@mgefn.tree_util.register_dataclass
@dataclasses.dataclass
class State:
    x: Any
    inner: Any


V = np.array([1.0, 2.0])
TREES = {
    "named tuples": Pair({"k": [V, ()]}, Pair(V * 2, {})),
    "None": {"a": V, "b": None, "c": (None, [None])},
    "order of keys": {"b": V, "a": V * 2, 3: V * 3},
    "ordered": collections.OrderedDict([("z", V), ("a", 2 * V)]),
    "defaultdict": collections.defaultdict(list, {"k": [V]}),
    "deque": collections.deque([V, (V,)]),
    "own class": [Box(V, "one"), (Box({"a": V}, "two"),)],
    "dataclass": State(V, State(V * 2, None)),
    "empty": [(), {}, [], Pair((), {}), V],
    "a leaf": V,
}


@pytest.mark.parametrize("name", TREES)
def test_trees_come_back_as_they_went_in(name):
    t = TREES[name]
    structure = mgefn.tree.structure(t)
    total = lambda q: sum((v**2).sum() for v in mgefn.tree.leaves(q))
    value, g = mgefn.value_and_grad(total)(t)
    doubled = mgefn.tree.map(lambda v: 2 * v, t)
    ways = {
        "grad": g,
        "jit of grad": mgefn.jit(mgefn.grad(total))(t),
        "vmap": mgefn.vmap(lambda q: mgefn.tree.map(lambda v: 2 * v, q))(t),
        "scan": lax.scan(lambda c, _: (mgefn.tree.map(lambda v: v * 2.0, c), None), t, None, 1)[0],
        "cond": lax.cond(True, lambda q: mgefn.tree.map(lambda v: 2 * v, q), lambda q: q, t),
        "checkpoint": mgefn.grad(mgefn.checkpoint(total))(t),
        "jvp": mgefn.jvp(lambda q: q, (t,), (doubled,))[1],
        "vjp": mgefn.vjp(lambda q: q, t)[1](doubled)[0],
    }
    assert float(value) == pytest.approx(float(total(t)))
    for how, got in ways.items():
        assert mgefn.tree.structure(got) == structure, how
        assert type(got) is type(t) or name == "a leaf", how
        for a, b in zip(mgefn.tree.leaves(got), mgefn.tree.leaves(doubled), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, err_msg=how)
    if isinstance(t, dict):
        assert list(ways["grad"]) == list(t)


def test_what_is_fixed_in_a_node_is_part_of_the_signature():
    f = mgefn.jit(lambda b: b.x**2 * (10 if b.tag == "ten" else 1))
    assert [float(f(Box(3.0, t))) for t in ("ten", "one", "ten")] == [90.0, 9.0, 90.0]
    with pytest.raises(MgefnError):
        lax.scan(lambda b, _: (Box(b.x, b.tag + "!"), None), Box(mnp.zeros(()), "one"), None, 2)


@pytest.mark.parametrize("kind", [list, dict, collections.OrderedDict])
def test_a_container_inside_itself_is_an_error(kind):
    loop = kind()
    if kind is list:
        loop.append(loop)
    else:
        loop["self"] = loop
    for use in (mgefn.tree.leaves, mgefn.tree.structure, mgefn.jit(lambda q: 1.0)):
        with pytest.raises((MgefnError, RecursionError, ValueError)):
            use(loop)
    assert float(mgefn.jit(lambda x: x + 1)(1.0)) == 2.0


@pytest.mark.parametrize("jac", [mgefn.jacrev, mgefn.jacfwd, lambda f: mgefn.jit(mgefn.jacrev(f))])
def test_jacobians_nest_the_inputs_tree_in_the_outputs(jac):
    m = np.array([[1.0, 2.0], [3.0, 4.0]])
    p = {"m": m, "v": Pair(V, None)}
    j = jac(lambda q: (q["m"] @ q["v"].first, {"s": q["v"].first.sum()}))(p)
    assert j[0]["m"].shape == (2, 2, 2)
    np.testing.assert_array_equal(j[0]["v"].first, m)
    np.testing.assert_array_equal(j[0]["m"], np.einsum("ik,j->ikj", np.eye(2), V))
    np.testing.assert_array_equal(j[1]["s"]["v"].first, [1, 1])
    np.testing.assert_array_equal(j[1]["s"]["m"], np.zeros((2, 2)))
    assert type(j[0]["v"]) is Pair and j[0]["v"].second is None


# -- keys -----------------------------------------------------------------------------------------

KEY = random.key(42)
DRAWS = {
    "uniform": lambda k: random.uniform(k, (7,)),
    "normal": lambda k: random.normal(k, (7,)),
    "bits": lambda k: random.bits(k, (7,)),
    "randint": lambda k: random.randint(k, (7,), -5, 100),
    "permutation": lambda k: random.permutation(k, 7),
    "choice": lambda k: random.choice(k, 100, (7,)),
    "bernoulli": lambda k: random.bernoulli(k, 0.5, (64,)),
    "categorical": lambda k: random.categorical(k, mnp.zeros(50), shape=(7,)),
    "exponential": lambda k: random.exponential(k, (7,)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_depend_on_the_key_alone(name):
    draw = DRAWS[name]
    want = np.asarray(draw(KEY))
    random.normal(random.key(1), (1000,))
    keys = random.split(KEY, 4)
    rows = np.stack([np.asarray(draw(keys[i])) for i in range(4)])
    exact = dict(rtol=1e-6)
    np.testing.assert_array_equal(draw(KEY), want)
    np.testing.assert_allclose(mgefn.jit(draw)(KEY), want, **exact)
    np.testing.assert_allclose(lax.scan(lambda c, k: (c, draw(k)), 0, keys)[1], rows, **exact)
    np.testing.assert_allclose(mgefn.vmap(draw)(keys), rows, **exact)
    np.testing.assert_allclose(mgefn.vmap(lambda _: draw(KEY))(mnp.arange(2))[1], want, **exact)
    np.testing.assert_allclose(lax.cond(True, draw, lambda k: draw(keys[0]), KEY), want, **exact)
    assert len({tuple(np.asarray(r).tolist()) for r in (*rows, want)}) == 5


def test_keys_made_of_keys_do_not_meet():
    draw = mgefn.vmap(lambda k: random.bits(k, (2,)))
    children = random.split(KEY, 500)
    grandchildren = mgefn.vmap(lambda k: random.split(k)[1])(children)
    rows = np.concatenate([np.asarray(draw(ks)) for ks in (children, grandchildren)])
    rows = np.concatenate([rows, np.asarray(random.bits(KEY, (2,)))[None]])
    assert len({tuple(r) for r in rows.tolist()}) == len(rows)
    folded = np.asarray(draw(mgefn.vmap(lambda i: random.fold_in(KEY, i))(mnp.arange(500))))
    assert len({tuple(r) for r in folded.tolist()}) == 500
    np.testing.assert_array_equal(
        random.bits(random.split(KEY, 3)[2], (2,)), random.bits(random.split(KEY, 3)[2], (2,))
    )


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "uint32", "int64"])
@pytest.mark.parametrize("span", [3, 100, 127])
def test_integers_are_equally_likely_whatever_the_dtype(dtype, span):
    """256 is no multiple of 100: a plain remainder would prefer the low ones."""
    n = 100_000
    x = np.asarray(random.randint(random.key(5), (n,), 0, span, dtype=dtype))
    assert x.dtype == np.dtype(dtype)
    counts = np.bincount(x.astype(int), minlength=span)
    chi2 = ((counts - n / span) ** 2 / (n / span)).sum()
    # Mean span - 1, variance 2 (span - 1): six standard deviations above.
    assert len(counts) == span and chi2 < span - 1 + 6 * np.sqrt(2 * (span - 1))


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint32"])
def test_the_whole_range_of_integers(dtype):
    info = np.iinfo(dtype)
    x = np.asarray(random.randint(random.key(1), (20_000,), info.min, info.max, dtype=dtype))
    middle = (info.min + info.max) / 2
    assert 9000 < (x.astype(float) < middle).sum() < 11000
    spread = float(info.max) - float(info.min)
    assert x.max() > info.max - 0.01 * spread - 1 and x.min() < info.min + 0.01 * spread + 1
    assert random.randint(random.key(1), (9,), 4, 5, dtype=dtype).tolist() == [4] * 9


def test_keys_travel_through_programs():
    def step(c, _):
        k, s = random.split(c)
        return k, random.normal(s, ())

    last, ys = mgefn.jit(lambda k: lax.scan(step, k, None, length=50))(KEY)
    assert len(set(np.asarray(ys).tolist())) == 50 and last.shape == KEY.shape
    f = lambda s, k: (s * random.normal(k, (3,))).sum()
    np.testing.assert_allclose(
        mgefn.grad(f)(2.0, KEY), np.asarray(random.normal(KEY, (3,))).sum(), rtol=1e-5
    )
    stacked = random.split(KEY, 6).reshape(2, 3)
    assert mgefn.vmap(mgefn.vmap(lambda k: random.normal(k, ())))(stacked).shape == (2, 3)
    np.testing.assert_array_equal(
        random.bits(stacked[1, 2], (2,)), random.bits(random.split(KEY, 6)[5], (2,))
    )
