"""ravel_pytree: the vector, its way back, and derivatives through both."""

from __future__ import annotations

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn.errors import ArgumentError, DTypeError, ShapeError
from mgefn.flatten_util import ravel_pytree

TREES = {
    "mixed": ({"a": 1.0, "b": np.ones(2, np.int32)}, "float32"),
    "integers": ((1, np.zeros((2, 2), np.int32)), "int32"),
    "with a bool": ((np.zeros((0, 3), np.float32), True), "float32"),
    "complex": ({"x": np.full(2, 1 + 2j, np.complex64), "y": 2.0}, "complex64"),
    "half": ([np.ones(3, np.float16), np.ones((), np.float32)], "float32"),
    "double": ([np.ones(3), np.ones((), np.float32)], "float64"),
    "empty": ({}, "float32"),
    "one": (np.arange(6.0, dtype=np.float32).reshape(2, 3), "float32"),
}


@pytest.mark.parametrize("name", TREES)
def test_there_and_back(name):
    tree, dtype = TREES[name]
    vector, unravel = ravel_pytree(tree)
    assert vector.ndim == 1
    assert vector.dtype == dtype
    again = unravel(vector)
    assert mgefn.tree.structure(again) == mgefn.tree.structure(tree)
    for x, y in zip(mgefn.tree.leaves(tree), mgefn.tree.leaves(again), strict=True):
        want = mnp.asarray(x)
        assert (y.shape, y.dtype) == (want.shape, want.dtype)
        np.testing.assert_array_equal(y, want)


def test_derivatives_and_jit_pass():
    tree = {"w": mnp.ones((2, 2)), "b": mnp.arange(2.0)}
    vector, unravel = ravel_pytree(tree)

    def loss(v):
        t = unravel(v)
        return (t["w"] @ t["b"]).sum() + ravel_pytree(t)[0].sum()

    want = mgefn.grad(lambda t: (t["w"] @ t["b"]).sum() + t["w"].sum() + t["b"].sum())(tree)
    for got in (mgefn.grad(loss)(vector), mgefn.jit(mgefn.grad(loss))(vector)):
        np.testing.assert_allclose(got, ravel_pytree(want)[0])
    np.testing.assert_allclose(
        mgefn.vmap(lambda v: ravel_pytree(unravel(v))[0])(vector[None])[0], vector
    )


def test_faults_are_named():
    vector, unravel = ravel_pytree((1.0, 2.0))
    with pytest.raises(ShapeError, match="unravel: needs a vector of 2 elements, got f32"):
        unravel(mnp.ones(3))
    with pytest.raises(DTypeError, match="unravel: needs a vector of dtype float32"):
        unravel(vector.astype("int32"))
    with pytest.raises(ArgumentError, match="ravel_pytree: the leaves must be arrays"):
        ravel_pytree({"a": "b"})
