"""Arrays without elements, of one element and of rank 0."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import lax, nn
from mgefn.errors import MgefnError

EMPTY = [(0,), (2, 0), (0, 3), (2, 0, 3)]
IDENTITIES = {"sum": 0, "prod": 1, "all": True, "any": False, "count_nonzero": 0}
WITHOUT = ["max", "min", "argmax", "argmin"]


@pytest.mark.parametrize("name, shape", list(itertools.product(IDENTITIES, EMPTY)))
def test_reductions_of_nothing_give_their_identity(name, shape):
    x = mnp.zeros(shape)
    f = getattr(mnp, name)
    assert f(x).item() == IDENTITIES[name]
    for axis in range(len(shape)):
        want = getattr(np, name)(np.zeros(shape), axis=axis)
        np.testing.assert_array_equal(f(x, axis=axis), want)
        np.testing.assert_array_equal(mgefn.jit(lambda v, axis=axis: f(v, axis=axis))(x), want)


@pytest.mark.parametrize("name, shape", list(itertools.product(WITHOUT, EMPTY)))
def test_reductions_without_identity_refuse_nothing(name, shape):
    f = getattr(mnp, name)
    with pytest.raises(MgefnError, match=r"empty|no element|identity|initial"):
        f(mnp.zeros(shape))
    for axis, size in enumerate(shape):
        if size == 0:
            continue
        # Along a dimension that has elements there is nothing to refuse: no result either.
        want = getattr(np, name)(np.zeros(shape), axis=axis)
        assert f(mnp.zeros(shape), axis=axis).shape == want.shape
    if name in ("max", "min"):
        assert float(f(mnp.zeros(shape), initial=-3.0)) == -3.0


def test_means_and_logarithms_of_nothing():
    e = mnp.zeros(0)
    for f in (mnp.mean, mnp.var, mnp.std, mnp.median, mnp.nanmean):
        assert np.isnan(f(e))
    assert float(nn.logsumexp(e)) == -np.inf
    assert float(mnp.linalg.norm(e)) == 0.0


@pytest.mark.parametrize(
    "f",
    [
        lambda v: mnp.prod(v[mnp.asarray([], int)]),
        lambda v: v[mnp.asarray([], int)].sum(),
        lambda v: v[:0].sum(),
        lambda v: mnp.sum(v, where=False),
        lambda v: nn.softmax(v[:0]).sum(),
        lambda v: mnp.sort(v[:0]).sum(),
        lambda v: (v[:0] @ mnp.zeros((0, 2))).sum(),
        lambda v: mnp.concatenate([v[:0], mnp.zeros(0)]).sum(),
        lambda v: lax.scan(lambda c, x: (c, x), 0.0, v[:0])[1].sum(),
        lambda v: mnp.zeros(0).at[mnp.arange(2)].add(v, mode="drop").sum(),
        lambda v: mnp.linalg.det(v[:0, None] * mnp.zeros((0, 0))),
    ],
)
def test_what_is_taken_of_nothing_has_slope_zero(f):
    x = mnp.asarray([2.0, 3.0])
    for g in (mgefn.grad(f), mgefn.jit(mgefn.grad(f)), mgefn.jacfwd(f)):
        assert g(x).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("shape", EMPTY)
def test_derivatives_have_empty_shapes(shape):
    f = lambda v: mnp.prod(v, axis=-1).sum() + mnp.cumsum(v, axis=0).sum()
    assert mgefn.grad(f)(mnp.zeros(shape)).shape == shape
    assert mgefn.jacrev(lambda v: v * 2)(mnp.zeros(shape)).shape == shape + shape
    assert mgefn.jacfwd(lambda v: v * 2)(mnp.zeros(shape)).shape == shape + shape
    assert mgefn.hessian(f)(mnp.zeros(shape)).shape == shape + shape


ALONG = {
    "cumsum": mnp.cumsum, "cumprod": mnp.cumprod, "sort": mnp.sort, "softmax": nn.softmax,
    "flip": mnp.flip, "cummax": lambda x, axis: lax.cummax(x, axis % x.ndim),
}  # fmt: skip


@pytest.mark.parametrize("name", ALONG)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_along_an_axis_of_length_one(name, axis):
    x = mnp.asarray([[5.0]])
    f = lambda v: ALONG[name](v, axis=axis)
    want = 1.0 if name == "softmax" else 5.0
    for g in (f, mgefn.jit(f)):
        assert g(x).tolist() == [[want]]
        assert mgefn.grad(lambda v, g=g: g(v).sum())(x).tolist() == [[float(name != "softmax")]]


def test_functions_of_rank_0_as_numpy_has_them():
    x = mnp.asarray(3.0)
    for f in (mnp.cumsum, mnp.cumprod, mnp.ravel, mnp.atleast_1d):
        assert f(x).tolist() == [3.0]
    for f in (mnp.sum, mnp.max, mnp.median, mnp.squeeze, mnp.transpose):
        assert f(x).shape == () and float(f(x)) == 3.0
    with pytest.raises(MgefnError):
        mnp.sum(x, axis=1)
    with pytest.raises((MgefnError, TypeError)):
        len(x)


@pytest.mark.parametrize("x", [mnp.asarray([1, 0]), mnp.ones((2, 2)), mnp.zeros(0)])
def test_truth_and_hash_of_many_elements(x):
    with pytest.raises(MgefnError, match="truth"):
        bool(x)
    with pytest.raises(TypeError):
        hash(x)
    with pytest.raises(TypeError):
        {x}.pop()
    assert (x == x).shape == x.shape
    assert bool(mnp.asarray([[1.0]])) and not bool(mnp.asarray(0))
