"""Named streams of keys."""

from __future__ import annotations

import pytest

import mgefn
from mgefn import random
from mgefn.errors import ArgumentError


def words(key):
    return tuple(random.key_data(key).reshape(-1).tolist())


def test_streams_differ_and_do_not_depend_on_the_order_of_use():
    a, b = mgefn.Rngs(0), mgefn.Rngs(0)
    first = [words(a.params()), words(a.params()), words(a.dropout()), words(a())]
    second = [words(b()), words(b.dropout()), words(b["params"]()), words(b.params())]
    assert len(set(first)) == 4
    assert first == [second[2], second[3], second[1], second[0]]
    assert words(mgefn.Rngs(1).params()) not in first


def test_named_seeds_and_keys():
    rngs = mgefn.Rngs(params=3, noise=random.key(4))
    assert words(rngs.params()) == words(random.fold_in(random.key(3), 0))
    assert words(rngs.noise()) == words(random.fold_in(random.key(4), 0))
    assert "params" in rngs
    assert "dropout" not in rngs
    with pytest.raises(ArgumentError, match=r"no stream 'dropout' and no default, but \['noise'"):
        rngs.dropout()
    with pytest.raises(ArgumentError, match=r"Rngs\(default\): needs a key"):
        mgefn.Rngs(1.5)
    with pytest.raises(AttributeError, match="_hidden"):
        rngs._hidden()


def test_fork_and_split():
    rngs, same = mgefn.Rngs(0, params=1), mgefn.Rngs(0, params=1)
    fork = rngs.fork()
    assert words(fork.params()) == words(random.fold_in(random.fold_in(random.key(1), 0), 0))
    assert words(rngs.params()) != words(same.params())  # it moved on
    keys = mgefn.Rngs(0).split(3)()
    assert keys.shape == (3,)
    assert mgefn.vmap(random.uniform)(keys).shape == (3,)
