"""Decompositions and triangular systems as native code, against the NumPy kernels."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mgefn
import mgefn.numpy as mnp
from mgefn import lax
from mgefn.compiler.codegen.decompositions import workspace
from mgefn.control.linalg.eigen import eig_p, eigh_p, schur_p
from mgefn.control.linalg.lu import cofactor_p, det_p, lu_p, lu_pivots_to_permutation_p, solve_p
from mgefn.control.linalg.qr import geqrf_p, householder_product_p, qr_p
from mgefn.control.linalg.spread import spread_p
from mgefn.control.linalg.svd import pinv_p, svd_p
from mgefn.control.linalg.triangular import cholesky_p, triangular_solve_p
from mgefn.control.linalg.tridiagonal import tridiagonal_solve_p

SIZES = (1, 2, 7, 33, 64, 65, 130)  # 64 rows is where LAPACK takes over
NAMES = (
    cholesky_p, triangular_solve_p, lu_p, lu_pivots_to_permutation_p, solve_p, det_p, qr_p,
    geqrf_p, householder_product_p, svd_p, eigh_p, eig_p, schur_p, tridiagonal_solve_p, spread_p,
    pinv_p, cofactor_p,
)  # fmt: skip
DTYPES = ("float32", "float64", "complex64", "complex128")


def drawn(seed, shape, dtype="float64"):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


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
        if right.dtype.kind in "fc":
            # Well-conditioned matrices, sums of up to 130 terms in another order.
            limit = 2000 * np.finfo(right.dtype).eps if tolerance is None else tolerance
            scale = np.abs(right[np.isfinite(right)]).max(initial=0.0)
            np.testing.assert_allclose(got, right, rtol=limit, atol=limit * scale)
        else:
            np.testing.assert_array_equal(got, right)


def definite(seed, shape, dtype):
    a = drawn(seed, shape, "complex128" if np.dtype(dtype).kind == "c" else "float64")
    return (a @ a.swapaxes(-1, -2).conj() + shape[-1] * np.eye(shape[-1])).astype(dtype)


def adjoint(x):
    return x.swapaxes(-1, -2).conj()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("lead", [(), (3,), (2, 2)])
def test_cholesky(dtype, n, lead):
    a = definite(1, (*lead, n, n), dtype)
    # Only the lower triangle is read.
    check(lambda a: cholesky_p.bind1(a), np.tril(a) + np.triu(np.full_like(a, 7), 1))


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("n", [1, 5, 64, 65])
@pytest.mark.parametrize("bad", [-1.0, 0.0, np.nan])
def test_cholesky_of_what_has_none(n, bad, dtype):
    a = definite(1, (3, n, n), dtype)
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


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("n", [1, 6, 70])
@pytest.mark.parametrize("conjugate", [False, True])
def test_triangular_solve_of_complex_numbers(dtype, n, conjugate):
    a = (drawn(1, (2, n, n), dtype) / (2 * n) + 2 * np.eye(n)).astype(dtype)
    for left, lower, transposed, unit in itertools.product((True, False), repeat=4):
        b = drawn(2, (2, n, 3) if left else (2, 3, n), dtype)
        params = {
            "left_side": left, "lower": lower, "transpose_a": transposed,
            "conjugate_a": conjugate, "unit_diagonal": unit,
        }  # fmt: skip
        check(lambda a, b, params=params: triangular_solve_p.bind1(a, b, **params), a, b)


@pytest.mark.parametrize("dtype", DTYPES)
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


@pytest.mark.parametrize("dtype", DTYPES)
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


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (3, 12, 12), (70, 70)])
def test_det(shape, dtype):
    check(lambda a: det_p.bind1(a), drawn(1, shape, dtype) / np.sqrt(shape[-1]))


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


# -- by LAPACK at every size ----------------------------------------------------------------------

SHAPES = [(1, 1), (1, 5), (6, 1), (5, 5), (4, 9), (9, 4), (3, 17, 12), (2, 2, 7, 20), (40, 50)]
SQUARE = [(1, 1), (2, 2), (3, 9, 9), (2, 2, 5, 5), (40, 40)]


def whole(f, *args):
    """The outputs of the compiled function, which is one call of native code."""
    found = mgefn.jit(f).lower(*args).compile().report()
    assert found.native_calls == 1, found
    assert all(s.kind in ("native", "view") for s in found.steps), found
    check(f, *args)
    return [np.asarray(x) for x in mgefn.tree.leaves(mgefn.jit(f)(*args))]


def close(x, y, dtype, size=1.0):
    """Equal up to the rounding of LAPACK's algorithms, whose errors grow with the matrix."""
    tolerance = 200 * np.finfo(dtype).eps * max(1.0, size)
    np.testing.assert_allclose(x, y, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("full", [False, True])
def test_qr(dtype, shape, full):
    a = drawn(1, shape, dtype)
    q, r = whole(lambda a: qr_p.bind(a, pivoting=False, full_matrices=full), a)
    close(q @ r, a, dtype, np.abs(a).sum(-1).max())
    close(adjoint(q) @ q, np.broadcast_to(np.eye(q.shape[-1]), (*shape[:-2], *q.shape[-1:] * 2)),
          dtype)  # fmt: skip
    assert not np.tril(r, -1).any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("full", [False, True])
def test_qr_with_pivoting(dtype, shape, full):
    a = drawn(1, shape, dtype)
    q, r, order = whole(lambda a: qr_p.bind(a, pivoting=True, full_matrices=full), a)
    assert order.dtype == np.int32
    close(q @ r, np.take_along_axis(a, order[..., None, :], -1), dtype, np.abs(a).sum(-1).max())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_reflectors(dtype, shape):
    a = drawn(1, shape, dtype)
    packed, factors = whole(lambda a: geqrf_p.bind(a), a)
    if shape[-2] >= shape[-1]:
        (q,) = whole(lambda p, f: householder_product_p.bind(p, f), packed, factors)
        close(q @ np.triu(packed)[..., : shape[-1], :], a, dtype, np.abs(a).sum(-1).max())
        if shape[-1] > 1:  # fewer reflectors than columns
            whole(lambda p, f: householder_product_p.bind(p, f), packed, factors[..., :-1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("full", [False, True])
def test_svd(dtype, shape, full):
    a = drawn(1, shape, dtype)
    u, s, vh = whole(lambda a: svd_p.bind(a, full_matrices=full, compute_uv=True), a)
    k = s.shape[-1]
    close((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], a, dtype, s.max())
    (alone,) = whole(lambda a: svd_p.bind(a, full_matrices=full, compute_uv=False), a)
    close(alone, s, dtype, s.max())
    assert (np.diff(alone, axis=-1) <= 0).all()


@given(m=st.integers(1, 12), n=st.integers(1, 12), count=st.integers(1, 4),
       dtype=st.sampled_from(DTYPES), full=st.booleans())  # fmt: skip
def test_shapes(m, n, count, dtype, full):
    a = drawn(m + 13 * n, (count, m, n), dtype)
    check(lambda a: qr_p.bind(a, pivoting=False, full_matrices=full), a)
    check(lambda a: svd_p.bind(a, full_matrices=full, compute_uv=True), a)
    square = a[..., : min(m, n), : min(m, n)]
    check(lambda a: eigh_p.bind(a, lower=full, vectors=True), square)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SQUARE)
@pytest.mark.parametrize("lower", [False, True])
def test_eigh(dtype, shape, lower):
    a = drawn(1, shape, dtype)
    v, w = whole(lambda a: eigh_p.bind(a, lower=lower, vectors=True), a)
    triangle, other = (np.tril(a), np.tril(a, -1)) if lower else (np.triu(a), np.triu(a, 1))
    hermitian = triangle + adjoint(other)
    diagonal = np.einsum("...ii->...i", hermitian)
    diagonal[...] = diagonal.real  # LAPACK reads no imaginary parts there
    close(hermitian @ v, v * w[..., None, :], dtype, np.abs(w).max())
    (alone,) = whole(lambda a: eigh_p.bind(a, lower=lower, vectors=False), a)
    close(alone, w, dtype, np.abs(w).max())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SQUARE)
def test_eig(dtype, shape):
    a = drawn(1, shape, dtype)
    for left, right in itertools.product((False, True), repeat=2):
        params = {"left": left, "right": right, "derivatives": False}
        w, *vectors = whole(lambda a, params=params: eig_p.bind(a, **params), a)
        size = np.abs(a).sum(-1).max()
        if right:
            close(a @ vectors[-1], vectors[-1] * w[..., None, :], dtype, size)
        if left:
            u = adjoint(vectors[0])
            close(u @ a, w[..., None] * u, dtype, size)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SQUARE)
def test_schur(dtype, shape):
    a = drawn(1, shape, dtype)
    t, q = whole(lambda a: schur_p.bind(a, vectors=True), a)
    close(q @ t @ adjoint(q), a, dtype, np.abs(a).sum(-1).max())
    (alone,) = whole(lambda a: schur_p.bind(a, vectors=False), a)
    close(alone, t, dtype, np.abs(a).sum(-1).max())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "k"), [(2, 1), (3, 4), (40, 3)])
def test_tridiagonal_solve(dtype, n, k):
    lower, main, upper = (drawn(i, (3, n), dtype) for i in range(3))
    main[0] += 4
    lower[1, 1] = main[1, 0] = 0  # singular: its first column is zero
    (x,) = whole(lambda *args: tridiagonal_solve_p.bind(*args), lower, main, upper,
                 drawn(4, (3, n, k), dtype))  # fmt: skip
    assert np.isnan(x[1]).all() and np.isfinite(x[[0, 2]]).all()


OF_MATRICES = {
    "qr": lambda a: qr_p.bind(a, pivoting=False, full_matrices=False),
    "pivoting": lambda a: qr_p.bind(a, pivoting=True, full_matrices=True),
    "svd": lambda a: svd_p.bind(a, full_matrices=True, compute_uv=True),
    "svdvals": lambda a: svd_p.bind(a, full_matrices=True, compute_uv=False),
    "eigh": lambda a: eigh_p.bind(a, lower=True, vectors=True),
    "eigvalsh": lambda a: eigh_p.bind(a, lower=False, vectors=False),
    "eig": lambda a: eig_p.bind(a, left=True, right=True, derivatives=False),
    "eigvals": lambda a: eig_p.bind(a, left=False, right=False, derivatives=False),
    "schur": lambda a: schur_p.bind(a, vectors=True),
    "pinv": mnp.linalg.pinv,
}


@pytest.mark.parametrize("name", OF_MATRICES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_matrices_that_are_not_finite(name, dtype, bad):
    """The others of the stack come out, and this one as by NumPy."""
    f = OF_MATRICES[name]
    a = drawn(1, (3, 6, 6), dtype)
    fine = [np.asarray(x) for x in mgefn.tree.leaves(f(a))]
    a[1, 3, 2] = bad
    for got, right in zip(whole(f, a), fine, strict=True):
        close(got[[0, 2]], right[[0, 2]], dtype, np.abs(right).max())


@pytest.mark.parametrize("name", OF_MATRICES)
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_the_same_bits_on_any_number_of_threads(name, dtype):
    f, a = mgefn.jit(OF_MATRICES[name]), drawn(1, (203, 9, 9), dtype)
    made = set()
    for threads in (1, 2, 2, 3):
        with mgefn.config.override(num_threads=threads):
            made.add(b"".join(np.asarray(x).tobytes() for x in mgefn.tree.leaves(f(a))))
    assert len(made) == 1
    # Of many random matrices some are almost singular, and their inverses large.
    check(OF_MATRICES[name], a, tolerance=1e-3 if name == "pinv" else None)


@pytest.mark.parametrize("name", OF_MATRICES)
def test_over_their_operand(name):
    """A result may take the block of a matrix that nothing else reads."""
    f, a = OF_MATRICES[name], drawn(1, (40, 8, 8))
    # Exact operations, as a rounding error may turn the sign of a vector. The tolerance is that of
    # pinv, as some of the matrices are almost singular.
    check(lambda a: f(-a), a, tolerance=1e-10)
    check(lambda a: (f(-a), f(-a * 2)), a, tolerance=1e-10)
    donated = mgefn.jit(f, donate_argnums=0)(mnp.array(a))
    for got, right in zip(mgefn.tree.leaves(donated), mgefn.tree.leaves(f(a)), strict=True):
        close(got, right, "float64", 10)


def test_operands_that_lie_otherwise():
    a = drawn(1, (6, 5, 8))
    whole(lambda a: mnp.linalg.qr(a.transpose(1, 2, 0)), a)
    whole(lambda a: mnp.linalg.svd(a[:, ::-1, ::2], full_matrices=False), a)
    whole(lambda a: mnp.linalg.eigh(mnp.broadcast_to(a[0, :, :5], (3, 5, 5))), a)
    whole(mgefn.vmap(lambda a: mnp.linalg.qr(a), in_axes=2), a)


@pytest.mark.parametrize("shape", [(0, 0), (3, 0, 4), (0, 3, 4), (2, 4, 0)])
def test_without_elements(shape):
    """These have no native step, and are none inside of other programs."""
    a = np.zeros(shape)
    for f in (mnp.linalg.svd, lambda a: mnp.linalg.qr(a, "complete"), mnp.linalg.pinv):
        got = mgefn.jit(lambda a, f=f: f(a + 1))(a)
        for x, y in zip(mgefn.tree.leaves(got), mgefn.tree.leaves(f(a)), strict=True):
            np.testing.assert_array_equal(x, y)


def test_decompositions_in_a_loop():
    a = definite(1, (6, 6), "float64")

    def f(a):
        def step(a, _):
            q, r = mnp.linalg.qr(a)
            return r @ q, (mnp.linalg.eigvalsh(a), mnp.linalg.svd(a)[1], mnp.linalg.pinv(a))

        return lax.scan(step, a, None, length=5)

    whole(f, a)


def test_gradients_of_decompositions():
    a = definite(1, (2, 5, 5), "float64") + drawn(2, (2, 5, 5))

    def of_qr(a):
        q, r = mnp.linalg.qr(a)
        return (mnp.sin(q) * r).sum()

    def of_svd(a):
        u, s, vh = mnp.linalg.svd(a)
        return ((u * mnp.sin(s)[..., None, :]) @ vh).sum()

    def of_eigh(a):
        w, v = mnp.linalg.eigh(a + a.mT)
        return ((v * mnp.sin(w)[..., None, :]) @ v.mT)[..., 0].sum()

    for f in (of_qr, of_svd, of_eigh, lambda a: mnp.linalg.pinv(a).sum()):
        whole(mgefn.grad(f), a)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_pinv(dtype, shape):
    a = drawn(1, shape, dtype)
    if min(shape[-2:]) > 2:
        a[..., 1, :] = a[..., 0, :]  # less than full rank
    (p,) = whole(lambda a: mnp.linalg.pinv(a), a)
    size = np.abs(p).sum(-1).max() * np.abs(a).sum(-1).max()
    close(a @ p @ a, a, dtype, size * np.abs(a).max())
    if shape[-1] == shape[-2]:
        h = (a + adjoint(a)) / 2
        (p,) = whole(lambda a: mnp.linalg.pinv(a, hermitian=True), h)
        close(h @ p @ h, h, dtype, np.abs(p).sum(-1).max() * np.abs(h).sum(-1).max() ** 2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 2), (4, 5, 5), (2, 2, 9, 9)])
@pytest.mark.parametrize("rank", ["full", "one less", "two less"])
def test_cofactors(dtype, shape, rank):
    a = drawn(1, shape, dtype)
    if rank != "full" and shape[-1] > 2:
        a[..., -1, :] = a[..., 0, :]
    if rank == "two less" and shape[-1] > 2:
        a[..., -2, :] = a[..., 1, :]
    (found,) = whole(lambda a: cofactor_p.bind(a), a)
    # Every row times its own cofactors is the determinant, as is each column.
    det = np.linalg.det(a)[..., None]
    size = np.abs(a).sum(-1).max() ** shape[-1]
    close((a * found).sum(-1), np.broadcast_to(det, a.shape[:-1]), dtype, size)
    close((a * found).sum(-2), np.broadcast_to(det, a.shape[:-1]), dtype, size)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_cofactor_of_one_element_is_one(dtype):
    a = drawn(1, (3, 1, 1), dtype)
    (found,) = whole(lambda a: cofactor_p.bind1(a) + a, a)
    np.testing.assert_array_equal(found, a + 1)


def test_cofactors_of_a_stack_with_nan():
    a = drawn(1, (3, 4, 4))
    a[1, 2, 2] = np.nan
    (found,) = whole(lambda a: cofactor_p.bind(a), a)
    assert np.isnan(found[1]).all() and np.isfinite(found[[0, 2]]).all()


def test_gradients_of_determinants():
    a = drawn(1, (2, 5, 5))
    whole(mgefn.grad(lambda a: mnp.linalg.det(a).sum()), a)
    check(mgefn.jacfwd(mgefn.grad(lambda a: mnp.linalg.det(a))), a[0])


SPREADS = [
    [1.0, 1.0, 2.0, 3.0],
    [3.0, 2.0, 2.0, 2.0, 1.0, 1.0],
    [0.0, 0.0, 0.0, 1.0, 1.0],
    [0.0, 0.0],
    [-2.0, -2.0, 5.0],
    [1.0, np.nan, 1.0],
    [1.0, 1.0, np.inf, np.inf],
    [7.0],
    [1.0, 1.0 + 1e-15, 1.0 + 2e-15],
    [1e-30, 2e-30, 1.0, 4.0],
    [4.0] * 20,
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("values", SPREADS)
def test_spread(values, dtype):
    w = np.array([values, np.arange(len(values))], dtype)
    shift, apart = compiled(lambda w: spread_p.bind(w), w)
    right, right_apart = (np.asarray(x) for x in spread_p.bind(w))
    np.testing.assert_array_equal(apart, right_apart)
    # Sums in another order, in float64, of what is rounded to the dtype.
    np.testing.assert_allclose(shift, right, rtol=4 * np.finfo(dtype).eps, atol=1e-15)
    assert apart.dtype == bool and not shift[1].any()


def test_what_lapack_asks_for():
    """The sizes that the texts of its routines name."""
    n = 30
    arguments = ("V", "L", n, None, n, None, "work", -1, "iwork", -1, None)
    found = workspace("float64", "syevd", arguments)
    assert found["work"] >= 1 + 6 * n + 2 * n * n and found["iwork"] == 3 + 5 * n
    for dtype in ("float32", "complex64"):
        found = workspace(dtype, "geqrf", (n, 7, None, n, None, "work", -1, None))
        assert found["work"] % 7 == 0 and found["work"] >= 7  # columns times a block


def test_a_matrix_costs_its_own_memory_alone():
    """Many matrices share the memory that LAPACK works in."""
    f = mgefn.jit(lambda a: mnp.linalg.svd(a, full_matrices=False))
    few, many = (f.lower(np.ones((n, 24, 24))).compile().report().slab_bytes for n in (64, 6400))
    assert many <= 2 * few < 64 << 20
