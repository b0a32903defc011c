"""Decompositions and triangular systems as native code, against the NumPy kernels."""

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import lax
from mgefn.control.linalg.lu import det_p, lu_p, lu_pivots_to_permutation_p, solve_p
from mgefn.control.linalg.triangular import cholesky_p, triangular_solve_p

SIZES = (1, 2, 7, 33, 64, 65, 130)  # 64 rows is where LAPACK takes over
NAMES = (cholesky_p, triangular_solve_p, lu_p, lu_pivots_to_permutation_p, solve_p, det_p)


def drawn(seed, shape, dtype="float64"):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def compiled(f, *args):
    """The outputs of the compiled function, whose decompositions are native."""
    program = mgefn.jit(f).lower(*args).compile()
    text = program.as_text()
    assert "= native" in text
    for p in NAMES:
        assert f"= {p.name} " not in text, text
    return [np.asarray(x) for x in mgefn.tree.leaves(program(*args))]


def check(f, *args, tolerance=None):
    want = [np.asarray(x) for x in mgefn.tree.leaves(f(*args))]
    for got, right in zip(compiled(f, *args), want, strict=True):
        assert got.dtype == right.dtype and got.shape == right.shape
        if right.dtype.kind == "f":
            # Well-conditioned matrices, sums of up to 130 terms in another order.
            limit = 2000 * np.finfo(right.dtype).eps if tolerance is None else tolerance
            scale = np.abs(right[np.isfinite(right)]).max(initial=0.0)
            np.testing.assert_allclose(got, right, rtol=limit, atol=limit * scale)
        else:
            np.testing.assert_array_equal(got, right)


def definite(seed, shape, dtype):
    a = drawn(seed, shape)
    return (a @ a.swapaxes(-1, -2) + shape[-1] * np.eye(shape[-1])).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("lead", [(), (3,), (2, 2)])
def test_cholesky(dtype, n, lead):
    a = definite(1, (*lead, n, n), dtype)
    # Only the lower triangle is read.
    check(lambda a: cholesky_p.bind1(a), np.tril(a) + np.triu(np.full_like(a, 7), 1))


@pytest.mark.parametrize("n", [1, 5, 64, 65])
@pytest.mark.parametrize("bad", [-1.0, 0.0, np.nan])
def test_cholesky_of_what_has_none(n, bad):
    a = definite(1, (3, n, n), "float64")
    a[1, n // 2, n // 2] = bad
    (got,) = compiled(lambda a: cholesky_p.bind1(a), a)
    assert np.isnan(got[1]).all()
    np.testing.assert_allclose(got[[0, 2]], np.linalg.cholesky(a[[0, 2]]), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 3, 18, 64, 70])
@pytest.mark.parametrize("k", [1, 5, 40, 150])
def test_triangular_solve(dtype, n, k):
    for left in (True, False):
        for lower in (True, False):
            for transposed in (True, False):
                for unit in (True, False):
                    a = (drawn(1, (2, n, n)) / n + 2 * np.eye(n)).astype(dtype)
                    b = drawn(2, (2, n, k) if left else (2, k, n), dtype)

                    def f(a, b, left=left, lower=lower, transposed=transposed, unit=unit):
                        return triangular_solve_p.bind1(
                            a, b, left_side=left, lower=lower, transpose_a=transposed,
                            conjugate_a=False, unit_diagonal=unit,
                        )  # fmt: skip

                    check(f, a, b)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (4, 9), (9, 4), (3, 17, 17), (2, 64, 64),
                                   (100, 100), (2, 3, 70, 80), (80, 70)])  # fmt: skip
def test_lu(dtype, shape):
    check(lambda a: lu_p.bind(a), drawn(1, shape, dtype))


def test_lu_of_a_singular_matrix():
    a = np.zeros((2, 4, 4))
    a[1] = np.outer([1.0, 2, 4, 8], [1, 1, 1, 1])
    check(lambda a: lu_p.bind(a), a)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_pivots_to_permutation(dtype):
    pivots = np.array([[2, 2, 4], [0, 1, 2]], dtype)
    check(lambda p: lu_pivots_to_permutation_p.bind1(p, permutation_size=5), pivots)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 4, 30, 64, 90])
@pytest.mark.parametrize("k", [1, 20])
@pytest.mark.parametrize("lead", [(), (3,)])
def test_solve(dtype, n, k, lead):
    a = (drawn(1, (*lead, n, n)) + np.sqrt(n) * 2 * np.eye(n)[::-1]).astype(dtype)
    b = drawn(2, (*lead, n, k), dtype)
    for transposed in (False, True):
        check(lambda a, b, t=transposed: solve_p.bind1(a, b, transpose_a=t), a, b)

        def by_factors(a, b, t=transposed):
            packed, pivots, _ = lu_p.bind(a)
            return solve_p.bind1(a, packed, pivots, b, transpose_a=t)

        check(by_factors, a, b)


def test_solve_of_a_singular_matrix():
    a = np.stack([np.eye(3), np.zeros((3, 3))])
    (got,) = compiled(lambda a, b: solve_p.bind1(a, b, transpose_a=False), a, np.ones((2, 3, 1)))
    np.testing.assert_array_equal(got[0], np.ones((3, 1)))
    assert not np.isfinite(got[1]).any()


@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (3, 12, 12), (70, 70)])
def test_det(shape):
    check(lambda a: det_p.bind1(a), drawn(1, shape) / np.sqrt(shape[-1]))


def test_many_systems_on_threads():
    a, b = definite(1, (500, 8, 8), "float32"), drawn(2, (500, 8, 3), "float32")
    check(lambda a, b: mnp.linalg.solve(a, b), a, b)
    check(lambda a: mnp.linalg.cholesky(a), a)


def test_gradients():
    a, b = definite(1, (2, 6, 6), "float64"), drawn(2, (2, 6, 3))
    check(mgefn.grad(lambda a, b: (mnp.linalg.cholesky(a) ** 2).sum(), (0,)), a, b)
    check(mgefn.grad(lambda a, b: (mnp.linalg.solve(a, b) ** 2).sum(), (0, 1)), a, b)
    check(mgefn.grad(lambda a, b: mnp.linalg.slogdet(a)[1].sum(), (0,)), a, b)


def test_in_scan():
    a, b = definite(1, (6, 6), "float64"), drawn(2, (6, 1))

    def f(a, b):
        def step(b, _):
            return mnp.linalg.solve(a, b) + mnp.linalg.cholesky(a)[:, :1], b

        return lax.scan(step, b, None, length=4)

    check(f, a, b)
    assert "= scan" not in mgefn.jit(f).lower(a, b).compile().as_text()
