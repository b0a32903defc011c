"""Trees in files: what comes back, and what happens to a file that is damaged."""

from __future__ import annotations

import collections
import io as python_io
import json
import math
import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

import mgefn
import mgefn.numpy as mnp
from mgefn import io
from mgefn.errors import ArgumentError, FileFormatError, TreeError

DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
    "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz",
]  # fmt: skip


class Point(NamedTuple):
    x: Any
    y: Any


@mgefn.tree.dataclass
class Model:
    weight: Any
    name: str = mgefn.tree.static(default="m")


def same(a: Any, b: Any) -> bool:
    """Equal to the bit, and of one kind."""
    if isinstance(a, (mgefn.Array, np.ndarray)):
        if type(a) is not type(b) or a.dtype != b.dtype or a.shape != b.shape:
            return False
        if mgefn.dtypes.is_key(a.dtype):
            a, b = mgefn.random.key_data(a), mgefn.random.key_data(b)
        return np.asarray(a).tobytes() == np.asarray(b).tobytes() and getattr(
            a, "weak_type", None
        ) == getattr(b, "weak_type", None)
    if isinstance(a, float):
        return type(b) is float and (a.hex() == b.hex() or (math.isnan(a) and math.isnan(b)))
    return type(a) is type(b) and a == b


def same_trees(a: Any, b: Any) -> bool:
    one, two = mgefn.tree.flatten(a), mgefn.tree.flatten(b)
    return one[1] == two[1] and all(map(same, one[0], two[0]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3)])
def test_every_dtype_and_shape_comes_back(dtype, shape):
    values = np.arange(math.prod(shape)).reshape(shape) - 1
    x = mnp.asarray(values.astype(np.dtype(dtype)))
    assert same_trees(io.from_bytes(None, io.to_bytes({"x": x})), {"x": x})
    host = np.asarray(x).copy()
    assert same_trees(io.from_bytes(None, io.to_bytes([host])), [host])


def test_containers_and_python_values_come_back():
    x = {
        "a": [1, -(2**80), True, None, "text\n\0é", 2.5, -0.0, math.inf, math.nan, 1 - 2j],
        "t": (mnp.ones(2), (), [], {}),
        "key": mgefn.random.split(mgefn.random.key(3), 4),
        "weak": mgefn.jit(lambda v: v)(2.0),
        "a/b": 1,
        "~1": 2,
        7: 3,
    }
    back = io.from_bytes(None, io.to_bytes(x))
    assert same_trees(back, x)
    assert back["weak"].weak_type


def test_classes_come_back_as_dicts_and_into_a_target_as_they_were():
    x = Model(Point(mnp.arange(3), collections.deque([1.5])), name="kept")
    data = io.to_bytes(x)
    assert io.from_bytes(None, data)["weight"]["y"] == [1.5]
    back = io.from_bytes(Model(Point(mnp.zeros(3, int), collections.deque([0.0])), "kept"), data)
    assert same_trees(back, x)


def test_a_target_with_other_leaves_is_refused():
    data = io.to_bytes({"w": mnp.ones(3), "b": 1.0})
    with pytest.raises(TreeError, match=r"lacks 'c' and has also 'b'\. Read it"):
        io.from_bytes({"w": mnp.ones(3), "c": 1.0}, data)
    with pytest.raises(FileFormatError, match=r"'w' must be float32\[4\].*got float32\[3\]"):
        io.from_bytes({"w": mnp.ones(4), "b": 1.0}, data)
    with pytest.raises(FileFormatError, match=r"'w' must be int32\[3\]"):
        io.from_bytes({"w": mnp.ones(3, int), "b": 1.0}, data)


def test_what_is_no_data_is_refused():
    with pytest.raises(ArgumentError, match="got function at 'f'"):
        io.to_bytes({"f": lambda: 0})
    with pytest.raises(ArgumentError, match="cannot keep dtype object"):
        io.to_bytes(np.array([None]))
    with pytest.raises(ArgumentError, match="two leaves would be named '1'"):
        io.to_bytes({1: 0, "1": 0})
    with pytest.raises(ArgumentError, match=r"texts or integers, got \(1, 2\)"):
        io.to_bytes({(1, 2): 0.0})


def test_other_programs_read_and_write_the_format(tmp_path):
    x = {"a": np.arange(6.0).reshape(2, 3), "b": np.array([1, 2], np.int8)}
    io.save(x, tmp_path / "ours.safetensors")
    theirs = load_file(tmp_path / "ours.safetensors")
    assert {k: v.tolist() for k, v in theirs.items()} == {k: v.tolist() for k, v in x.items()}
    save_file(x, tmp_path / "theirs.safetensors")
    ours = io.load(tmp_path / "theirs.safetensors")
    assert {k: v.tolist() for k, v in ours.items()} == {k: v.tolist() for k, v in x.items()}
    assert io.load_arrays(tmp_path / "theirs.safetensors")["b"].dtype == np.int8


def test_npz_is_read_without_pickles(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(3))
    assert io.load_arrays(tmp_path / "a.npz")["x"].tolist() == [0, 1, 2]
    np.save(tmp_path / "b.npy", np.array([print], object), allow_pickle=True)
    with pytest.raises(FileFormatError, match="without pickles"):
        io.load_arrays(tmp_path / "b.npy")


class Bomb:
    fired = False

    def __reduce__(self):
        return setattr, (Bomb, "fired", True)


def test_loading_runs_nothing(tmp_path):
    path = tmp_path / "bomb"
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(FileFormatError, match="safetensors"):
        io.load(path)
    assert not Bomb.fired
    pickle.loads(path.read_bytes())
    assert Bomb.fired  # it would have


TREE = {"w": np.arange(5, dtype=np.int16), "n": 3, "z": np.zeros((0, 2))}


def test_every_cut_is_noticed():
    data = io.to_bytes(TREE)
    for end in range(len(data)):
        with pytest.raises(FileFormatError, match="from_bytes"):
            io.from_bytes(None, data[:end])
    with pytest.raises(FileFormatError, match="bytes of arrays"):
        io.from_bytes(None, data + b"\0")


def test_no_changed_byte_changes_the_tree_in_silence():
    data = io.to_bytes(TREE)
    refused = 0
    for place in range(len(data)):
        for flip in (1, 0x20, 0x80):
            changed = bytearray(data)
            changed[place] ^= flip
            try:
                back = io.from_bytes(None, bytes(changed))
            except FileFormatError:
                refused += 1
            else:  # a change of the spaces around the table
                assert same_trees(back, TREE)
    assert refused > 2.5 * len(data)


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_random_bytes_are_refused(data):
    with pytest.raises(FileFormatError):
        io.from_bytes(None, data)


@pytest.mark.parametrize(
    "row",
    [
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]},
        {"dtype": "F32", "shape": [-1], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]},
        {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]},
        {"dtype": "O", "shape": [2], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [True, 2], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [2], "data_offsets": [0]},
        [],
    ],
)
def test_a_table_that_points_elsewhere_is_refused(row):
    table = json.dumps({"x": row}).encode()
    with pytest.raises(FileFormatError, match="needs a whole safetensors file"):
        io.from_bytes(None, len(table).to_bytes(8, "little") + table + bytes(8))


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "x"
    io.save({"a": 1}, path)
    monkeypatch.setattr("os.fsync", lambda fd: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        io.save({"a": 2}, path)
    assert io.load(path) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


def test_open_files_are_taken():
    f = python_io.BytesIO()
    io.tree_serialise_leaves(f, Point(1, mnp.ones(2)))
    f.seek(0)
    assert io.tree_deserialise_leaves(f, Point(0, mnp.zeros(2))).x == 1


def test_state_dicts_there_and_back():
    x = Model(Point([mnp.ones(2), None], {"a": 1}))
    state = io.to_state_dict(x)
    assert set(state["weight"]) == {"x", "y"}
    zeros = mgefn.tree.map(lambda v: v * 0, x)
    assert same_trees(io.from_state_dict(zeros, state), x)
    with pytest.raises(TreeError, match=r"\./weight must be a dict with the keys \['x', 'y'\]"):
        io.from_state_dict(zeros, {"weight": {"x": 0}})
