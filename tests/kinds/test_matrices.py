"""Decompositions at and near the edge, formulas of the textbooks, subscripts of einsum."""

from __future__ import annotations

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn.errors import MgefnError
from tests.kinds.helpers import check, differences

RNG = np.random.default_rng(5)
INDEFINITE = [[[1, 2], [2, 1]], [[0, 0], [0, 1]], [[-1, 0], [0, 1]], [[1, 1], [1, 1 - 1e-3]]]


@pytest.mark.parametrize("m", INDEFINITE, ids=str)
def test_a_factor_of_something_else_is_never_given(m):
    a = np.array(m, np.float64)
    for f in (mnp.linalg.cholesky, mgefn.jit(mnp.linalg.cholesky)):
        assert np.isnan(np.asarray(f(a))[np.tril_indices(2)]).any()
    stacked = np.stack([np.eye(2), np.array(m, np.float64)])
    good, bad = np.asarray(mnp.linalg.cholesky(stacked))
    np.testing.assert_array_equal(good, np.eye(2))
    assert np.isnan(bad).any()


W = RNG.standard_normal((3, 3))
S = np.array([[2.0, 0.3, -0.2], [0.1, 1.5, 0.4], [0.0, -0.3, 1.8]])
SYMMETRIC = lambda xp, m: m + xp.swapaxes(m, 0, 1)
# Functions of a matrix through a decomposition which do not depend on the choice of signs.
THROUGH = {
    "cholesky": lambda xp, m: xp.sum(xp.linalg.cholesky(SYMMETRIC(xp, m)) * W),
    "eigenvalues": lambda xp, m: xp.sum(xp.linalg.eigvalsh(SYMMETRIC(xp, m)) ** 3),
    "eigenvectors": lambda xp, m: xp.sum((W[0] @ xp.linalg.eigh(SYMMETRIC(xp, m))[1]) ** 2 * W[1]),
    "qr": lambda xp, m: xp.sum((xp.linalg.qr(m)[1].T @ xp.linalg.qr(m)[1]) * W),
    "projection": lambda xp, m: xp.sum(
        (xp.linalg.qr(m[:, :2])[0] @ xp.linalg.qr(m[:, :2])[0].T) * W
    ),
    "wide qr": lambda xp, m: xp.sum((xp.linalg.qr(m[:2])[1].T @ xp.linalg.qr(m[:2])[1]) * W),
    "singular values": lambda xp, m: xp.sum(xp.linalg.svd(m, compute_uv=False) ** 3),
    "inverse": lambda xp, m: xp.sum(xp.linalg.inv(m) * W),
    "solve": lambda xp, m: xp.sum(xp.linalg.solve(m, W) * W),
    "det": lambda xp, m: xp.linalg.det(m),
    "slogdet": lambda xp, m: xp.linalg.slogdet(m)[1],
    "pinv": lambda xp, m: xp.sum(xp.linalg.pinv(m[:, :2]) * W[:2]),
    "power": lambda xp, m: xp.sum(xp.linalg.matrix_power(m, 3) * W),
}


@pytest.mark.parametrize("name", THROUGH)
def test_slopes_through_decompositions_are_those_of_differences(name):
    f = THROUGH[name]
    want = differences(lambda m: f(np, m), S, 1e-5)
    check(lambda m: f(mnp, m), S, want, rtol=2e-5, atol=1e-6)


Q = np.linalg.qr(RNG.standard_normal((3, 3)))[0]
REPEATED = {
    "identity": np.eye(3),
    "two": np.diag([1.0, 1, 4]),
    "turned": Q @ np.diag([2.0, 2, 5]) @ Q.T,
    "zero": np.zeros((3, 3)),
}


@pytest.mark.parametrize("name", REPEATED)
def test_smooth_functions_of_repeated_eigenvalues(name):
    m = REPEATED[name]
    symmetric = lambda g: (np.asarray(g) + np.asarray(g).T) / 2

    def rebuilt(q):
        w, v = mnp.linalg.eigh(q)
        return mnp.sum((v * w) @ v.T * (W + W.T))

    for f, want, tolerance in (
        (lambda q: mnp.sum(mnp.linalg.eigvalsh(q) ** 2), 2 * m, 1e-8),
        (lambda q: mnp.sum(mnp.linalg.eigvalsh(q)), np.eye(3), 1e-8),
        (lambda q: mnp.sum(mnp.linalg.svd(q, compute_uv=False) ** 2), 2 * m, 1e-8),
        # The vectors of equal values are moved apart by about sqrt(eps), 1.5e-8.
        (rebuilt, W + W.T, 1e-6),
    ):
        if f is rebuilt and name == "zero":
            continue  # values that are all 0 stay where they are: control/linalg/spread.py
        for g in (mgefn.grad(f), mgefn.jit(mgefn.grad(f)), mgefn.jacfwd(f)):
            np.testing.assert_allclose(symmetric(g(m)), want, rtol=1e-6, atol=tolerance)


@pytest.mark.parametrize("shape", [(4, 2), (3, 3), (2, 4), (2, 3, 3), (1, 1), (3, 0)])
def test_factors_multiply_to_the_matrix(shape):
    a = RNG.standard_normal(shape)
    q, r = mnp.linalg.qr(a)
    np.testing.assert_allclose(q @ r, a, atol=1e-12)
    if 0 not in shape:
        u, s, vh = mnp.linalg.svd(a, full_matrices=False)
        np.testing.assert_allclose((u * s[..., None, :]) @ vh, a, atol=1e-12)


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_systems_and_their_slopes_by_the_formulas(batch):
    m = RNG.standard_normal((*batch, 3, 3)) + 4 * np.eye(3)
    b, w = RNG.standard_normal((*batch, 3, 1)), RNG.standard_normal((*batch, 3, 1))
    f = lambda q, v: (w * mnp.linalg.solve(q, v)).sum()
    y = np.linalg.solve(np.swapaxes(m, -1, -2), w)
    x = np.linalg.solve(m, b)
    for g in (mgefn.grad(f, (0, 1)), mgefn.jit(mgefn.grad(f, (0, 1)))):
        gm, gb = g(m, b)
        np.testing.assert_allclose(gb, y, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(gm, -y @ np.swapaxes(x, -1, -2), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(mnp.linalg.inv(m), np.linalg.inv(m), rtol=1e-9, atol=1e-12)


ORDERS = [None, 1, 2, 3, 0.5, np.inf, -np.inf, 0, -1, -2]


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_norms_of_vectors_in_every_order(order):
    x = RNG.standard_normal((2, 3))
    for axis in (0, 1, -1):
        for keep in (False, True):
            f = lambda v, a=axis, k=keep: mnp.linalg.norm(v, ord=order, axis=a, keepdims=k)
            want = np.linalg.norm(x, ord=order, axis=axis, keepdims=keep)
            np.testing.assert_allclose(f(x), want, rtol=1e-12)
            np.testing.assert_allclose(mgefn.jit(f)(x), want, rtol=1e-12)
    total = lambda xp, v: xp.sum(xp.linalg.norm(v, ord=order, axis=-1))
    check(lambda v: total(mnp, v), x, differences(lambda v: total(np, v), x), 1e-5, 1e-8)


@pytest.mark.parametrize("order", [None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf], ids=str)
def test_norms_of_matrices_in_every_order(order):
    x = RNG.standard_normal((2, 3, 4))
    for axis in ((1, 2), (-2, -1), (0, 2), (2, 1)):
        for keep in (False, True):
            got = mnp.linalg.norm(x, ord=order, axis=axis, keepdims=keep)
            want = np.linalg.norm(x, ord=order, axis=axis, keepdims=keep)
            np.testing.assert_allclose(got, want, rtol=1e-10)
    total = lambda xp, v: xp.sum(xp.linalg.norm(v, ord=order, axis=(-2, -1)))
    check(lambda v: total(mnp, v), x, differences(lambda v: total(np, v), x), 1e-5, 1e-7)


SIZES = {"i": 2, "j": 3, "k": 4, "a": 2, "b": 3, "c": 1}
SUBSCRIPTS = """
    ii ii-> ii->i iij->ij iij->i iij->j iij-> iji->j ijji->i ijij->ji iijj iijj->ij
    ba ca,ab b,ab ij,ji ij,jk,ki iij,j->i ii,ij->j iij,jk->ik ...ij,...j->...i ...ij,...j
    i...->... ...i->i... ij...,jk...->ik... ...,... ,ij ij,
"""


@pytest.mark.parametrize("subscripts", SUBSCRIPTS.split())
def test_subscripts(subscripts):
    """Repeated, implied, in alphabetical order, under an ellipsis that broadcasts."""
    operands = []
    for n, term in enumerate(subscripts.split("->")[0].split(",")):
        dots = (2, 1) if n == 0 else (3,)
        shape = []
        for part in term.replace("...", "."):
            shape += dots if part == "." else (SIZES[part],)
        operands.append(RNG.standard_normal(shape))
    want = np.einsum(subscripts, *operands)
    blanks = " ".join(subscripts.replace("...", "…")).replace("…", "...")
    blanks = blanks.replace("- >", "->")
    for s in (subscripts, blanks):
        np.testing.assert_allclose(mnp.einsum(s, *operands), want, rtol=1e-10, atol=1e-12)
    w = RNG.standard_normal(want.shape)
    f = lambda v: mnp.sum(mnp.einsum(subscripts, v, *operands[1:]) * w)
    reference = lambda v: np.sum(np.einsum(subscripts, v, *operands[1:]) * w)
    check(f, operands[0], differences(reference, operands[0]), 1e-6, 1e-8)


@pytest.mark.parametrize("subscripts", ["ij->k", "ij->ii", "i", "ij,jk->i..j.", "i,j->ij->", "i%"])
def test_subscripts_that_mean_nothing(subscripts):
    x = RNG.standard_normal((2, 2))
    with pytest.raises(MgefnError):
        mnp.einsum(subscripts, *[x] * len(subscripts.split("->")[0].split(",")))
