"""Pytrees: round trips, key paths, prefixes, registration, and what differs from JAX's trees."""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import os
import pickle
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgefn import tree, tree_util
from mgefn.errors import ArgumentError, TreeError

Point = collections.namedtuple("Point", "x y")


@tree.register_dataclass
@dataclasses.dataclass
class Layer:
    w: object
    b: object
    name: str = dataclasses.field(default="", metadata={"static": True})


@tree.register_pytree_node_class
class Pair:
    def __init__(self, first, second):
        self.first, self.second = first, second

    def tree_flatten(self):
        return (self.first, self.second), "pair"

    @classmethod
    def tree_unflatten(cls, metadata, children):
        assert metadata == "pair"
        return cls(*children)

    def __eq__(self, other):
        return isinstance(other, Pair) and vars(self) == vars(other)

    __hash__ = None


@tree.register_pytree_with_keys_class
class Keyed:
    def __init__(self, value):
        self.value = value

    def tree_flatten_with_keys(self):
        return ((tree.GetAttrKey("value"), self.value),), None

    @classmethod
    def tree_unflatten(cls, metadata, children):
        return cls(*children)

    def __eq__(self, other):
        return isinstance(other, Keyed) and self.value == other.value

    __hash__ = None


@tree.register_static
@dataclasses.dataclass(frozen=True)
class Mode:
    name: str


def containers(children):
    keys = st.text("abc", min_size=1, max_size=2)
    return st.one_of(
        st.lists(children, max_size=3),
        st.lists(children, max_size=3).map(tuple),
        st.lists(children, max_size=3).map(collections.deque),
        st.dictionaries(keys, children, max_size=3),
        st.dictionaries(keys, children, max_size=3).map(collections.OrderedDict),
        st.dictionaries(keys, children, max_size=3).map(lambda d: collections.defaultdict(list, d)),
        st.builds(Point, children, children),
        st.builds(Layer, children, children, keys),
        st.builds(Pair, children, children),
        st.builds(Keyed, children),
    )


LEAVES = st.one_of(st.integers(), st.floats(allow_nan=False), st.text(max_size=2))
TREES = st.recursive(
    st.one_of(LEAVES, st.none(), st.builds(Mode, st.text("ab", max_size=1))),
    containers,
    max_leaves=12,
)


@given(TREES)
def test_round_trip(x):
    leaves, treedef = tree.flatten(x)
    rebuilt = tree.unflatten(treedef, leaves)
    assert rebuilt == x
    assert type(rebuilt) is type(x)
    assert len(leaves) == treedef.num_leaves
    assert leaves == tree.leaves(x)
    other = tree.structure(tree.map(lambda leaf: [leaf][0], x))
    assert (other, hash(other)) == (treedef, hash(treedef))
    assert pickle.loads(pickle.dumps(treedef)) == treedef
    assert copy.deepcopy(treedef) == treedef
    assert repr(treedef).startswith("PyTreeDef(")
    assert "mgefn" not in repr(treedef)
    assert tree.structure_difference(x, treedef) == ""


@given(TREES)
def test_paths_go_with_the_leaves(x):
    pairs, treedef = tree.flatten_with_path(x)
    assert [leaf for _, leaf in pairs] == tree.leaves(x)
    assert treedef == tree.structure(x)
    assert pairs == tree.leaves_with_path(x)
    paths = tree.key_paths(x)
    assert len(set(paths)) == len(paths)


@given(TREES, st.sets(st.integers(0, 10)))
def test_is_leaf_by_path_keeps_the_same_nodes_whole(x, stops):
    seen = []

    def is_leaf(path, node):
        seen.append(node)
        return len(seen) - 1 in stops

    pairs, treedef = tree.flatten_with_path(x, is_leaf, is_leaf_takes_path=True)
    rebuilt = tree.unflatten(treedef, [leaf for _, leaf in pairs])
    assert rebuilt == x
    assert treedef.num_leaves == len(pairs)


@given(TREES, st.integers())
def test_one_prefix_leaf_covers_every_leaf(x, value):
    count = len(tree.leaves(x))
    assert tree.prefix_leaves(value, x, "f: axes") == [value] * count
    assert tree.prefix_leaves(None, x, "f: axes") == [None] * count
    assert tree.prefix_leaves(value, tree.structure(x), "f: axes") == [value] * count
    assert tree.prefix_leaves(x, x, "f: axes") == tree.leaves(x)
    assert tree.leaves(tree.broadcast(value, x)) == [value] * count


def test_flatten_and_print():
    leaves, treedef = tree.flatten({"b": (1, 2), "a": 3, "c": None})
    assert leaves == [3, 1, 2]
    assert str(treedef) == "PyTreeDef({'a': *, 'b': (*, *), 'c': None})"
    assert (treedef.num_leaves, treedef.num_nodes) == (3, 6)
    assert [str(child) for child in treedef.children()] == [
        "PyTreeDef(*)",
        "PyTreeDef((*, *))",
        "PyTreeDef(None)",
    ]
    assert treedef.node_data() == (dict, ["a", "b", "c"])
    assert tree.structure(1).node_data() is None
    assert str(tree.structure(Pair(1, 2))) == "PyTreeDef(CustomNode(Pair['pair'], [*, *]))"
    assert treedef != "PyTreeDef"


def test_treedefs_are_built_from_treedefs():
    star, pair = tree.structure(0), tree.structure((0, 0))
    assert tree.treedef_tuple([star, pair]) == tree.structure((0, (0, 0)))
    assert tree.treedef_tuple([tree.structure(Keyed(1))]) == tree.structure((Keyed(1),))
    assert pair.compose(tree.structure([0])) == tree.structure(([0], [0]))
    assert tree.treedef_children(pair) == [star, star]
    assert tree.treedef_is_leaf(star)
    assert not tree.treedef_is_leaf(pair)
    assert pair.flatten_up_to(([1], 2)) == [[1], 2]
    assert pair.unflatten(iter([1, 2])) == (1, 2)


def test_map_and_its_kin():
    assert tree.map(lambda x, y: (x, y), [1, 2], [{"a": 3}, 4]) == [(1, {"a": 3}), (2, 4)]
    assert tree.map(lambda x: x, [None, 1]) == [None, 1]
    assert tree.map(lambda x: x is None, [None, 1], is_leaf=tree.is_none) == [True, False]
    assert tree.reduce(lambda x, y: x - y, [1, (2, 3)]) == -4
    assert tree.reduce(lambda x, y: x + y, [], 5) == 5
    assert tree.reduce_associative(lambda x, y: x + y, ["a", ["b", "c"]]) == "abc"
    assert tree.reduce_associative(max, [], identity=0) == 0
    assert tree.all([1, [True]])
    assert not tree.all({"a": 0})
    assert tree.all_leaves([1, "a"])
    assert not tree.all_leaves([1, None])
    assert tree.broadcast((1, [2, 3]), ([0, 0], [0, (0,)])) == ([1, 1], [2, (3,)])
    names = tree.map_with_path(lambda path, x, y: tree.keystr(path) + x + y, {"a": "1"}, {"a": "2"})
    assert names == {"a": "['a']12"}


def test_transpose():
    outer, inner = tree.structure([0, 0]), tree.structure({"a": 0, "b": 0})
    rows = [{"a": 1, "b": 2}, {"a": 3, "b": 4}]
    assert tree.transpose(outer, inner, rows) == {"a": [1, 3], "b": [2, 4]}
    assert tree.transpose(outer, None, rows) == {"a": [1, 3], "b": [2, 4]}
    assert tree.transpose(tree.structure([]), inner, []) == {"a": [], "b": []}
    with pytest.raises(TreeError, match=r"tree.transpose: .* at \['b'\]|keys"):
        tree.transpose(outer, inner, [{"a": 1, "b": 2}, {"a": 3}])
    with pytest.raises(TreeError, match="Pass inner_treedef"):
        tree.transpose(tree.structure([]), None, [])


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({"b": (1, 2)}, {"b": [1, 2]}, r"at \['b'\] the first has tuple of 2 and the second list"),
        ({"b": 1}, {"c": 1}, r"at the root the first has dict with keys \['b'\]"),
        ([Layer(1, 2, "x")], [Layer(1, 2, "y")], r"at \[0\] .*static fields differ"),
        (Layer((1,), 2), Layer((1, 2), 2), r"at \.w the first has tuple of 1"),
        (Keyed([1]), Keyed((1,)), r"at \.value the first has list of 1"),
        (Pair([1], 2), Pair(1, 2), r"at \[<flat index 0>\] the first has list of 1 .* a leaf"),
        ((None,), (1,), r"at \[0\] the first has None and the second a leaf"),
        (Point((1,), 2), Point([1], 2), r"at \.x the first has tuple"),
    ],
)
def test_mismatch_names_the_path(first, second, message):
    with pytest.raises(
        TreeError, match=f"tree.map: the trees must have one structure, .*{message}"
    ):
        tree.map(lambda x, y: x, first, second)


def test_structure_difference():
    assert tree.structure_difference({"w": (1, 2)}, {"w": [1, 2]}) == (
        "at ['w'] the first has tuple of 2 and the second list of 2"
    )
    assert tree.structure_difference([1], [1, 2]).startswith("at the root the first has list of 1")
    assert "static fields differ" in tree.structure_difference(Mode("a"), Mode("b"))
    assert tree.structure_difference([1, (2,)], tree.structure([5, (6,)])) == ""


@pytest.mark.parametrize("known_as", [lambda x: x, tree.structure])
def test_prefix_leaves(known_as):
    full = known_as(({"a": 1, "b": [2, 3]}, None, 4))
    assert tree.prefix_leaves((0, None, 1), full, "vmap: in_axes") == [0, 0, 0, 1]
    assert tree.prefix_leaves(({"a": 0, "b": None}, 5, 1), full, "vmap: in_axes") == [
        0,
        None,
        None,
        1,
    ]
    with pytest.raises(
        TreeError, match=r"^vmap: in_axes must be .* at \[0\]\['b'\] the prefix has tuple"
    ):
        tree.prefix_leaves(({"a": 0, "b": (0, 0)}, 5, 1), full, "vmap: in_axes")
    with pytest.raises(
        TreeError, match="at the root the prefix has tuple of 2 and the tree tuple of 3"
    ):
        tree.prefix_leaves((0, 1), full, "vmap: in_axes")


def test_prefix_leaves_with_is_leaf():
    found = tree.prefix_leaves(((0, 1), 2), ([1, 2], 3), "f: axes", lambda x: x == (0, 1))
    assert found == [(0, 1), (0, 1), 2]


@pytest.mark.parametrize("leaves", [[1], [1, 2, 3], iter([1])])
def test_wrong_number_of_leaves(leaves):
    with pytest.raises(TreeError, match=r"PyTreeDef\(\(\*, \*\)\) needs 2 leaves, got"):
        tree.unflatten(tree.structure((0, 0)), leaves)


def test_errors_of_a_users_class_pass_through():
    class Fussy:
        pass

    def refuse(metadata, children):
        raise ValueError("fussy")

    tree.register_pytree_node(Fussy, lambda x: ((1,), None), refuse)
    with pytest.raises(ValueError, match=r"^fussy$"):
        tree.map(lambda x: x, Fussy())
    with pytest.raises(ValueError, match=r"^fussy$"):
        tree.unflatten(tree.structure(Fussy()), [1])
    with pytest.raises(ValueError, match=r"^fussy$"):
        tree.unflatten(tree.structure(Fussy()), iter([1]))


def test_reductions_of_nothing():
    with pytest.raises(TreeError, match=r"tree\.reduce: needs a leaf"):
        tree.reduce(max, [])
    with pytest.raises(TreeError, match="Pass identity"):
        tree.reduce_associative(max, None)


def test_keys():
    x = {"p": Point(1, [2]), "l": Layer(3, None), "k": Keyed(4), "q": Pair(5, 6)}
    pairs = dict(tree.leaves_with_path(x))
    assert pairs == {
        (tree.DictKey("k"), tree.GetAttrKey("value")): 4,
        (tree.DictKey("l"), tree.GetAttrKey("w")): 3,
        (tree.DictKey("p"), tree.GetAttrKey("x")): 1,
        (tree.DictKey("p"), tree.GetAttrKey("y"), tree.SequenceKey(0)): 2,
        (tree.DictKey("q"), tree.FlattenedIndexKey(0)): 5,
        (tree.DictKey("q"), tree.FlattenedIndexKey(1)): 6,
    }
    path = (tree.DictKey("a"), tree.SequenceKey(1), tree.GetAttrKey("w"), tree.FlattenedIndexKey(0))
    assert tree.keystr(path) == "['a'][1].w[<flat index 0>]"
    assert tree.keystr(path, simple=True, separator="/") == "a/1/w/0"
    assert repr(path[:2]) == "(DictKey(key='a'), SequenceKey(idx=1))"
    assert (path[0].key, path[1].idx, path[2].name, path[3].key) == ("a", 1, "w", 0)
    assert pickle.loads(pickle.dumps(path)) == path
    assert tree.DictKey(0) != tree.SequenceKey(0)
    with pytest.raises(AttributeError, match="immutable"):
        path[0]._value = 1
    match path[0]:
        case tree.DictKey(key):
            assert key == "a"


def test_partial():
    def power(x, n, *, scale):
        return scale * x**n

    p = tree.Partial(power, 3, scale=10)
    assert p(2) == 90
    leaves, treedef = tree.flatten(p)
    assert leaves == [3, 10]
    assert tree.unflatten(treedef, [2, 1])(4) == 16
    assert tree.key_paths(p) == [".args[0]", ".keywords['scale']"]
    nested = tree.Partial(functools.partial(power, 2), scale=5)
    assert tree.leaves(nested) == [5]
    assert nested(3) == 40
    assert tree.structure(nested) == tree.structure(tree.unflatten(*reversed(tree.flatten(nested))))
    with pytest.raises(ArgumentError, match="Partial: needs a callable, got int"):
        tree.Partial(3)


def test_static_is_part_of_the_structure():
    assert tree.leaves(Mode("a")) == []
    assert tree.structure(Mode("a")) == tree.structure(Mode("a")) != tree.structure(Mode("b"))
    assert tree.map(lambda x: x, [Mode("a"), 1]) == [Mode("a"), 1]


def test_only_the_class_itself_is_a_node():
    class Sub(Pair):
        pass

    x = Sub(1, 2)
    assert tree.leaves(x) == [x]
    assert tree.leaves(functools.partial(len, [])) != []


@pytest.mark.parametrize("cls", [Pair, dict, Point(1, 2)])
def test_registration_refused(cls):
    with pytest.raises(TreeError, match=r"register_pytree_node: .*(registered once|needs a class)"):
        tree.register_pytree_node(cls, lambda x: ((), None), lambda m, c: None)


class Plain:
    def __init__(self, a, b):
        self.a, self.b = a, b


@dataclasses.dataclass
class Unregistered:
    a: int
    b: int
    derived: int = dataclasses.field(default=0, init=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((Plain,), "Plain is no dataclass"),
        ((Unregistered, ["a"]), "go together, got one"),
        ((Unregistered, ["a"], ["a", "b"]), "must be named once"),
        ((Unregistered, ["a"], []), r"they differ in \['b'\]"),
        ((Unregistered, ["a", "b", "c"], []), r"they differ in \['c'\]"),
    ],
)
def test_register_dataclass_refused(arguments, message):
    with pytest.raises(TreeError, match=f"register_dataclass: .*{message}"):
        tree.register_dataclass(*arguments)


def test_register_dataclass_of_named_fields():
    assert tree.register_dataclass(Plain, ["b"], ["a"]) is Plain
    rebuilt = tree.map(lambda x: x + 1, Plain(1, 2))
    assert (rebuilt.a, rebuilt.b) == (1, 3)

    @functools.partial(tree.register_dataclass, drop_fields=["cache"])
    @dataclasses.dataclass
    class Cached:
        value: int
        cache: int = 7

    assert tree.map(lambda x: x + 1, Cached(1, 2)) == Cached(2, 7)


def test_unhashable_static_field_is_an_error_of_the_hash_only():
    x = Layer(1, 2, ["unhashable"])
    assert tree.map(lambda v: v, x) == x
    with pytest.raises(TypeError, match="unhashable type"):
        hash(tree.structure(x))


def test_hash_covers_the_metadata():
    hashes = {hash(tree.structure([Layer(1, 2, name), Mode("a")])) for name in "abcdefgh"}
    assert len(hashes) > 1


def test_flatten_one_level():
    children, metadata = tree.flatten_one_level({"b": [1], "a": 2})
    assert (children, metadata) == ([2, [1]], ["a", "b"])
    assert tree.flatten_one_level(Pair(1, (2,))) == ([1, (2,)], "pair")
    with pytest.raises(TreeError, match="needs a node, got the leaf int"):
        tree.flatten_one_level(1)


# --- Where the trees differ from JAX's, as the module says ---------------------------------------


def test_deque_and_struct_time_are_nodes():
    assert tree.leaves(collections.deque([1, 2], maxlen=2)) == [1, 2]
    rebuilt = tree.map(lambda x: x, collections.deque([1], maxlen=3))
    assert rebuilt.maxlen == 3
    moment = time.gmtime(0)
    assert tree.leaves(moment) == list(moment)
    assert tree.key_paths(moment)[0] == ".tm_year"
    assert tree.leaves(moment, is_leaf=lambda x: x is moment) == [moment]


def test_keys_that_do_not_compare_are_ordered_by_type():
    assert tree.leaves({"a": 1, 2: 2}) == tree.leaves({2: 2, "a": 1}) == [2, 1]


def test_insertion_order_returns_and_does_not_distinguish():
    first, second = {"b": 1, "a": 2}, {"a": 2, "b": 1}
    assert list(tree.map(lambda x: x, first)) == ["b", "a"]
    assert tree.structure(first) == tree.structure(second)
    assert hash(tree.structure(first)) == hash(tree.structure(second))
    ordered = [collections.OrderedDict(d) for d in (first, second)]
    assert tree.structure(ordered[0]) != tree.structure(ordered[1])


def test_depth():
    def nested(depth):
        return functools.reduce(lambda x, _: [x], range(depth), 0)

    assert tree.leaves(nested(900)) == [0]
    with pytest.raises(RecursionError, match="recursion depth"):
        tree.leaves(nested(3000))
    assert len(tree.leaves_with_path(nested(3000))[0][0]) == 3000


LATE_OPTREE = """
import sys
from mgefn import tree
class A:
    pass
tree.register_pytree_node(A, lambda a: ((1, 2), None), lambda m, c: A())
tree.register_static(type("B", (), {}))
assert "optree" not in sys.modules
assert tree.leaves([A()]) == [1, 2]
assert "optree" in sys.modules
import optree
assert len(optree.tree_leaves(A())) == 1  # the registration is ours alone
"""


def test_optree_is_loaded_late():
    subprocess.run([sys.executable, "-c", LATE_OPTREE], check=True)


AT_EXIT = """
import atexit, collections, sys
import mgefn
import mgefn.numpy as mnp
Pair = collections.namedtuple("Pair", "a b")
class Box:
    def __init__(self, a):
        self.a = a
mgefn.tree.register_pytree_node(Box, lambda b: ((b.a,), None), lambda m, c: Box(*c))
def at_end():
    tree = Pair(Box(mnp.ones(3)), {"q": [1.0, None], "r": (2.0,)})
    slope = mgefn.grad(lambda t: (t.a.a ** 2).sum() * t.b["q"][0])(tree)
    assert slope.a.a.tolist() == [2, 2, 2] and slope.b["q"][1] is None
    assert mgefn.jit(lambda t: t.b["r"][0] + 1)(tree) == 3
    print("done")
atexit.register(at_end)  # before optree is loaded, whose own handler runs first
BEFORE
"""


@pytest.mark.parametrize(
    "before",
    ["mgefn.tree.leaves([1])", "mgefn.jit(lambda t: t['a'] + 1)({'a': mnp.ones(3)})"],
)
def test_pytrees_work_in_exit_handlers(before):
    # A program compiled before: llvmlite would be told too late that Python ends.
    program = AT_EXIT.replace("BEFORE", f"{before}\nmgefn.jit(lambda x: x + 1)(1.0)")
    found = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert found.stdout == "done\n", found.stderr
    assert found.stderr == ""


FIRST_AT_EXIT = """
import atexit
import mgefn
import mgefn.numpy as mnp
def at_end():
    several = mgefn.jit(lambda x: (mnp.sort(x), mnp.cumsum(x), mnp.sin(x).sum()))
    print([v.shape for v in several(mnp.ones(70000))])
atexit.register(at_end)
"""


def test_the_first_program_may_be_compiled_in_an_exit_handler():
    found = subprocess.run(
        [sys.executable, "-c", FIRST_AT_EXIT],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "MGEFN_CACHE": "0"},  # code on disk would need no threads
    )
    assert found.stdout == "[(70000,), (70000,), ()]\n", found.stderr
    assert found.stderr == ""


NO_THREADS = """
import threading
from mgefn import tree
def start(self):
    raise RuntimeError("can't create new thread at interpreter shutdown")
threading.Thread.start = start
assert tree.leaves([1, {"a": 2}]) == [1, 2]
"""


def test_optree_is_loaded_where_no_thread_starts():
    subprocess.run([sys.executable, "-c", NO_THREADS], check=True)


def test_tree_util_has_the_same_functions():
    for name in tree_util.__all__:
        plain = name.removeprefix("tree_")
        assert getattr(tree_util, name) is getattr(tree, plain if name != plain else name)
