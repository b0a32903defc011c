"""Linear algebra beyond the rows of `tests/cases.py`.

Points where a decomposition does not exist or is not unique, against formulas and differences;
NumPy's names against NumPy; scratch memory.
"""

from __future__ import annotations

import functools
import tracemalloc
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import mgefn
import mgefn.numpy as mnp
from mgefn.backends.numpy_kernels import linalg as kernels
from mgefn.control.linalg import eigen, lu, qr, svd, triangular, tridiagonal
from mgefn.core.avals import ShapedArray
from mgefn.core.primitive import Primitive
from mgefn.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from tests.kernels import scratch_of

L = mgefn.lax.linalg
RNG = np.random.default_rng(0)
ORTHOGONAL = np.linalg.qr(RNG.standard_normal((5, 5)))[0]
REPEATED = np.array([1.0, 1.0, 1.0, 2.0, 2.0])
WEIGHT = RNG.standard_normal((5, 5))


def close(got: Any, want: Any, tol: float = 1e-10) -> None:
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=tol, atol=tol)


def differences(f: Any, x: np.ndarray, step: float = 1e-5) -> np.ndarray:
    out = np.zeros(x.shape)
    for at in np.ndindex(*x.shape):
        dx = np.zeros(x.shape)
        dx[at] = step
        out[at] = (float(f(x + dx)) - float(f(x - dx))) / (2 * step)
    return out


# -- what does not exist is NaN -------------------------------------------------------------------


@pytest.mark.parametrize("run", [lambda f: f, mgefn.jit], ids=["eager", "jit"])
def test_an_indefinite_matrix_has_no_cholesky_factor_and_its_neighbours_do(run) -> None:
    stack = np.stack([np.eye(2), [[1.0, 2.0], [2.0, 1.0]], 4 * np.eye(2)])
    got = np.asarray(run(mnp.linalg.cholesky)(stack))
    close(got[[0, 2]], [np.eye(2), 2 * np.eye(2)])
    assert np.isnan(got[1][np.tril_indices(2)]).all()


def test_singular_systems_do_not_raise() -> None:
    stack = np.stack([np.ones((2, 2)), 2 * np.eye(2)])
    for got in (mnp.linalg.inv(stack), mnp.linalg.solve(stack, np.ones((2, 2, 1)))):
        assert not np.isfinite(np.asarray(got)[0]).any()
        assert np.isfinite(np.asarray(got)[1]).all()
    assert not np.isfinite(np.asarray(mnp.linalg.inv(np.zeros((3, 3))))).any()
    sign, logabs = mnp.linalg.slogdet(np.zeros((3, 3)))
    assert (float(sign), float(logabs)) == (0.0, -np.inf)
    for zero in (np.zeros((3, 3)), np.zeros((3, 3), complex)):
        assert float(mnp.linalg.cond(zero)) == np.inf
        assert complex(mnp.linalg.slogdet(zero).sign) == 0


@pytest.mark.parametrize("name", ["svd", "svdvals", "eigh", "eigvalsh", "eig", "eigvals", "qr"])
def test_nan_stays_in_its_matrix(name: str) -> None:
    stack = np.stack([np.full((3, 3), np.nan), np.diag([1.0, 2.0, 3.0])])
    for out in mgefn.tree.leaves(getattr(mnp.linalg, name)(stack)):
        out = np.asarray(out)
        assert np.isnan(out[0]).any() and np.isfinite(out[1]).all(), name


@pytest.mark.parametrize("name", ["pinv", "inv", "det", "cholesky"])
def test_nan_in_is_nan_out(name: str) -> None:
    assert np.isnan(np.asarray(getattr(mnp.linalg, name)(np.full((2, 2), np.nan)))).any()


# -- derivatives where it is not unique -----------------------------------------------------------


@pytest.mark.parametrize(("dtype", "tol"), [("float32", 2e-3), ("float64", 1e-6)])
@pytest.mark.parametrize("basis", [np.eye(5), ORTHOGONAL], ids=["diagonal", "dense"])
@pytest.mark.parametrize("power", [0, 1, 2, -1])
def test_functions_of_a_symmetric_matrix_at_repeated_eigenvalues(basis, dtype, tol, power) -> None:
    """V w**p V^T is the matrix to the power p, whose derivative is known without V."""
    a = (basis * REPEATED) @ basis.T
    weight = WEIGHT + WEIGHT.T

    def by_vectors(m):
        w, v = mnp.linalg.eigh(m)
        return (((v * w**power) @ v.T) * weight).sum()

    want = {
        0: lambda: np.zeros((5, 5)),
        1: lambda: weight,
        2: lambda: weight @ a + a @ weight,
        -1: lambda: -np.linalg.inv(a) @ weight @ np.linalg.inv(a),
    }[power]()
    scale = np.abs(weight).max()
    got = mgefn.grad(by_vectors)(a.astype(dtype))
    close(np.asarray(got) / scale, want / scale, tol)
    forward = mgefn.jacfwd(by_vectors)(a.astype(dtype))
    close(np.asarray(forward) / scale, want / scale, tol)


@pytest.mark.parametrize("shape", [(5, 5), (5, 3), (3, 5)])
def test_functions_of_any_matrix_at_repeated_singular_values(shape) -> None:
    m, n = shape
    k = min(m, n)
    a = (ORTHOGONAL[:m, :k] if m == 5 else np.linalg.qr(WEIGHT[:m, :m])[0]) * REPEATED[:k]
    a = a @ (ORTHOGONAL[:n, :k] if n == 5 else np.linalg.qr(WEIGHT[:n, :n])[0]).T
    weight = WEIGHT[:m, :n]

    def product(x, f):
        u, s, vh = mnp.linalg.svd(x, full_matrices=False)
        return (((u * f(s)) @ vh) * weight).sum()

    close(mgefn.grad(lambda x: product(x, lambda s: s))(a), weight, 1e-6)
    # U V^T, the polar factor, is smooth wherever the rank is full.
    polar = lambda x: (scipy.linalg.polar(x)[0] * weight).sum()
    close(mgefn.grad(lambda x: product(x, mnp.ones_like))(a), differences(polar, a), 1e-5)


def test_eigenvalues_alone_are_exact_under_a_derivative() -> None:
    value, grad = mgefn.value_and_grad(lambda m: (mnp.linalg.eigvalsh(m) ** 3).sum())(np.eye(4))
    close(value, 4.0, 1e-14)
    close(grad, 3 * np.eye(4), 1e-14)
    hessian = mgefn.hessian(lambda d: mnp.linalg.eigvalsh(mnp.diag(d)).sum())(np.ones(3))
    close(hessian, np.zeros((3, 3)), 1e-14)


def test_values_move_only_where_they_are_equal_and_a_derivative_is_taken() -> None:
    a = np.diag([1.0, 1.0, 3.0])
    close(mnp.linalg.eigh(a).eigenvalues, [1, 1, 3], 0)
    w, _ = mgefn.jvp(lambda m: mnp.linalg.eigh(m).eigenvalues, (a,), (a,))
    close(w, [1, 1, 3], 3e-8)
    close(np.sum(np.asarray(w)), 5, 1e-14)
    distinct = np.diag([1.0, 1.001, 3.0])
    w, _ = mgefn.jvp(lambda m: mnp.linalg.eigh(m).eigenvalues, (distinct,), (a,))
    close(w, [1, 1.001, 3], 0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_eigenvalues_that_are_all_zero_stay(dtype: str) -> None:
    def f(m):
        w, v = mnp.linalg.eigh(m)
        return (w**2).sum() + (v**2).sum()

    value, grad = mgefn.value_and_grad(f)(np.zeros((3, 3), dtype))
    assert float(value) == 3 and not np.asarray(grad).any()
    low_rank = np.outer(WEIGHT[0], WEIGHT[0]).astype(dtype)
    assert np.isfinite(np.asarray(mgefn.grad(f)(low_rank))).all()


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_determinants_of_singular_matrices(rank: int) -> None:
    a = RNG.standard_normal((3, rank)) @ RNG.standard_normal((rank, 3))
    f = mnp.linalg.det
    cofactors = [
        [(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a, i, 0), j, 1)) for j in range(3)]
        for i in range(3)
    ]
    close(mgefn.grad(f)(a), cofactors)
    close(mgefn.jacfwd(f)(a), cofactors)
    second = np.asarray(mgefn.hessian(f)(a))
    # The second derivative of a 3 x 3 determinant is one element with a sign.
    close(second[0, 0, 1, 1], a[2, 2])
    close(second[0, 1, 1, 0], -a[2, 2])
    close(second[0, 0, 0, 1], 0)
    close(mgefn.jit(mgefn.hessian(f))(a), second)


def test_determinants_without_elements_and_of_one() -> None:
    assert float(mnp.linalg.det(np.zeros((0, 0)))) == 1
    close(mgefn.grad(mnp.linalg.det)(np.array([[0.0]])), [[1.0]])
    close(mgefn.hessian(mnp.linalg.det)(np.zeros((1, 1))), np.zeros((1, 1, 1, 1)))


def test_what_has_no_derivative_says_so() -> None:
    a = WEIGHT
    with pytest.raises(UnsupportedError, match=r"svd: has no derivative with full_matrices=True"):
        mgefn.grad(lambda x: mnp.linalg.svd(x).U.sum())(a[:3])
    with pytest.raises(UnsupportedError, match=r"eig: eigenvectors of general matrices .* eigvals"):
        mgefn.grad(lambda x: mnp.real(mnp.linalg.eig(x).eigenvectors).sum())(a)
    with pytest.raises(UnsupportedError, match=r"schur: has no jvp rule: .*not unique"):
        mgefn.grad(lambda x: L.schur(x)[0].sum())(a)
    with pytest.raises(UnsupportedError, match=r"qr with mode='raw': has no jvp rule"):
        mgefn.grad(lambda x: mnp.linalg.qr(x, "raw").R.sum())(a)


def test_the_triangle_that_is_not_read_has_no_gradient() -> None:
    a = WEIGHT @ WEIGHT.T + 5 * np.eye(5)
    for f, read in (
        (lambda m: mnp.linalg.cholesky(m, symmetrize_input=False).sum(), np.tril),
        (lambda m: mnp.linalg.cholesky(m, upper=True, symmetrize_input=False).sum(), np.triu),
        (lambda m: mnp.linalg.eigvalsh(m, "U", symmetrize_input=False)[0], np.triu),
    ):
        got = np.asarray(mgefn.grad(f)(a))
        close(got, read(got), 0)
        close(got, differences(f, a), 1e-7)


def test_one_decomposition_serves_a_system_and_its_gradient() -> None:
    closed = mgefn.make_jaxpr(mgefn.grad(lambda a, b: mnp.linalg.solve(a, b).sum(), (0, 1)))(
        WEIGHT, WEIGHT
    )
    assert str(closed).count(" lu") == 1, closed


# -- NumPy's names --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("mode", ["reduced", "complete", "r", "raw"])
@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (3, 3), (2, 4, 3)])
def test_qr_in_all_modes(dtype, mode, shape) -> None:
    a = RNG.standard_normal(shape) * (1 if dtype == "float64" else 1 + 2j) + np.eye(*shape[-2:])
    assert a.dtype == dtype
    got, want = mnp.linalg.qr(a, mode), np.linalg.qr(a, mode)
    for x, y in zip(mgefn.tree.leaves(got), [want] if mode == "r" else want, strict=True):
        close(x, y)


def test_functions_of_matrices_are_numpys() -> None:
    a, wide = WEIGHT, WEIGHT[:3]
    b = RNG.standard_normal((2, 5, 3))
    pairs = [
        (mnp.linalg.solve(a, b), np.linalg.solve(a, b)),
        (mnp.linalg.solve(np.stack([a, a.T]), b), np.linalg.solve(np.stack([a, a.T]), b)),
        (mnp.linalg.solve(a, b[0, :, 0]), np.linalg.solve(a, b[0, :, 0])),
        (mnp.linalg.inv(np.stack([a, a.T])), np.linalg.inv(np.stack([a, a.T]))),
        (mnp.linalg.pinv(wide), np.linalg.pinv(wide)),
        (mnp.linalg.pinv(a @ a.T, hermitian=True), np.linalg.pinv(a @ a.T, hermitian=True)),
        (mnp.linalg.matrix_power(a, -2), np.linalg.matrix_power(a, -2)),
        (mnp.linalg.matrix_rank(np.outer(a[0], a[1])), 1),
        (mnp.linalg.matrix_rank(np.zeros((0, 3))), 0),
        (mnp.linalg.matrix_rank(a, 100.0), 0),
        (mnp.linalg.svd(a + a.T, hermitian=True).S, np.linalg.svd(a + a.T)[1]),
        (mnp.linalg.svd(a + a.T, compute_uv=False, hermitian=True), np.linalg.svd(a + a.T)[1]),
    ]
    pairs += [(mnp.linalg.cond(a, p), np.linalg.cond(a, p)) for p in (None, 2, -2, 1, "fro", -1)]
    for ord in ("nuc", 2, -2):
        for axis in ((0, 1), (-1, 0), (2, 1)):
            for keep in (False, True):
                pairs.append(
                    (
                        mnp.linalg.norm(b, ord, axis, keep),
                        np.linalg.norm(b, ord, axis, keep),
                    )
                )
    for x, y in zip(
        mnp.linalg.lstsq(a[:, :3], a[:, 3:]), np.linalg.lstsq(a[:, :3], a[:, 3:], None), strict=True
    ):
        pairs.append((x, y))
    u, s, vh = mnp.linalg.svd(a + a.T, hermitian=True)
    pairs.append(((u * s) @ vh, a + a.T))
    for got, want in pairs:
        close(got, want)
    residuals = mnp.linalg.lstsq(wide, wide[:, 0], numpy_resid=True)[1]
    assert residuals.shape == (0,)


def test_tensor_systems() -> None:
    a, b = RNG.standard_normal((2, 3, 6)), RNG.standard_normal((2, 3))
    close(mnp.linalg.tensorsolve(a, b), np.linalg.tensorsolve(a, b))
    moved = np.moveaxis(a, -1, 0)
    close(mnp.linalg.tensorsolve(moved, b, axes=(0,)), np.linalg.tensorsolve(moved, b, axes=(0,)))
    close(mnp.linalg.tensorinv(a), np.linalg.tensorinv(a))
    with pytest.raises(ShapeError, match="tensorinv"):
        mnp.linalg.tensorinv(a, 1)


def test_decompositions_under_lax_names_rebuild_the_matrix() -> None:
    a = WEIGHT + 1j * RNG.standard_normal((5, 5))
    q, r, p = L.qr(a, pivoting=True)
    close(np.asarray(q) @ np.asarray(r), a[:, np.asarray(p)])
    t, q = map(np.asarray, L.schur(a))
    close(q @ t @ q.conj().T, a)
    w, left, right = map(np.asarray, L.eig(a))
    close(a @ right, right * w)
    close(left.conj().T @ a, w[:, None] * left.conj().T)
    packed, factors = map(np.asarray, mnp.linalg.qr(a, "raw"))
    close(L.householder_product(packed.T, factors), np.linalg.qr(a)[0])
    close(L.householder_product(packed.T, factors[:0]), np.eye(5))
    factor, pivots, order = L.lu(a)
    close(L.lu_pivots_to_permutation(pivots, 5), order)
    lower = np.tril(factor, -1) + np.eye(5)
    close(lower @ np.triu(factor), a[np.asarray(order)])
    spd = WEIGHT @ WEIGHT.T + np.eye(5)
    root = np.linalg.cholesky(spd).T
    new = np.asarray(L.cholesky_update(root, WEIGHT[0]))
    close(new.T @ new, spd + np.outer(WEIGHT[0], WEIGHT[0]))
    close(
        L.symmetric_product(WEIGHT, spd, alpha=2.0, beta=3.0, symmetrize_output=True),
        2 * WEIGHT @ WEIGHT.T + 3 * spd,
    )
    v, w = L.eigh(spd, subset_by_index=(1, 3))
    close(w, np.linalg.eigvalsh(spd)[1:3])
    assert v.shape == (5, 2)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["cholesky", "qr", "svd", "eigh", "eig", "inv", "det", "slogdet"])
def test_half_precision_is_refused_with_its_repair(name: str, dtype: str) -> None:
    with pytest.raises(DTypeError, match=r"needs float32, .* Cast it with astype\(\"float32\"\)"):
        getattr(mnp.linalg, name)(mnp.eye(2, dtype=dtype))


def test_wrong_arguments() -> None:
    with pytest.raises(ShapeError, match="inv: needs square matrices"):
        mnp.linalg.inv(np.ones((2, 3)))
    with pytest.raises(ShapeError, match="det: needs rank 2"):
        mnp.linalg.det(np.ones(3))
    with pytest.raises(ShapeError, match="solve: b must have as many rows"):
        mnp.linalg.solve(np.eye(3), np.ones((2, 3, 1))[:, :2])
    with pytest.raises(ArgumentError, match="qr: mode"):
        mnp.linalg.qr(np.eye(2), "economic")
    with pytest.raises(ArgumentError, match="UPLO"):
        mnp.linalg.eigh(np.eye(2), "X")
    with pytest.raises(ShapeError, match="tridiagonal_solve"):
        L.tridiagonal_solve(np.ones(3), np.ones(2), np.ones(3), np.ones((3, 1)))
    with pytest.raises(ShapeError, match="triangular_solve"):
        L.triangular_solve(np.eye(3), np.ones((2, 1)), left_side=True)


def test_integers_are_taken_as_floats() -> None:
    assert mnp.linalg.inv(np.array([[2, 0], [0, 4]])).dtype == np.float32
    assert mnp.linalg.det([[1, 2], [3, 4]]).dtype == np.float32


@pytest.mark.parametrize("shape", [(0, 0), (2, 0, 0), (0, 3, 3)])
def test_no_elements(shape: tuple[int, ...]) -> None:
    a = np.zeros(shape)
    for name in ("cholesky", "qr", "eigh", "eigvalsh", "eigvals", "inv", "pinv", "det", "slogdet"):
        got, want = getattr(mnp.linalg, name)(a), None
        if name != "pinv":
            want = getattr(np.linalg, name)(a)
            for x, y in zip(
                mgefn.tree.leaves(got),
                mgefn.tree.leaves(tuple(want) if isinstance(want, tuple) else want),
                strict=True,
            ):
                assert x.shape == y.shape, name
        f = lambda m, n=name: sum(
            mnp.real(y).sum() for y in mgefn.tree.leaves(getattr(mnp.linalg, n)(m))
        )
        assert mgefn.grad(f)(a).shape == shape


# -- kernels --------------------------------------------------------------------------------------

KERNELS: list[tuple[Primitive, Any, dict[str, Any], str]] = [
    (triangular.cholesky_p, kernels.cholesky, {}, "spd"),
    (
        triangular.triangular_solve_p,
        kernels.triangular_solve,
        {
            "left_side": True,
            "lower": True,
            "transpose_a": True,
            "conjugate_a": False,
            "unit_diagonal": False,
        },
        "system",
    ),
    (lu.lu_p, kernels.lu, {}, "any"),
    (lu.solve_p, kernels.solve, {"transpose_a": True}, "system"),
    (lu.solve_p, kernels.solve, {"transpose_a": True}, "factored"),
    (lu.det_p, kernels.det, {}, "any"),
    (lu.cofactor_p, kernels.cofactor, {}, "any"),
    (lu.cofactor_p, kernels.cofactor, {}, "singular"),
    (qr.qr_p, kernels.qr, {"pivoting": False, "full_matrices": True}, "any"),
    (qr.qr_p, kernels.qr, {"pivoting": True, "full_matrices": False}, "any"),
    (qr.geqrf_p, kernels.geqrf, {}, "any"),
    (qr.householder_product_p, kernels.householder_product, {}, "reflectors"),
    (svd.svd_p, kernels.svd, {"full_matrices": True, "compute_uv": True}, "any"),
    (svd.svd_p, kernels.svd, {"full_matrices": True, "compute_uv": False}, "any"),
    (svd.pinv_p, kernels.pinv, {"hermitian": False}, "limited"),
    (svd.pinv_p, kernels.pinv, {"hermitian": True}, "limited"),
    (eigen.eigh_p, kernels.eigh, {"lower": True, "vectors": True}, "spd"),
    (eigen.eigh_p, kernels.eigh, {"lower": True, "vectors": False}, "spd"),
    (eigen.eig_p, kernels.eig, {"left": False, "right": True, "derivatives": False}, "any"),
    (eigen.eig_p, kernels.eig, {"left": True, "right": True, "derivatives": False}, "any"),
    (eigen.schur_p, kernels.schur, {"vectors": True}, "any"),
    (tridiagonal.tridiagonal_solve_p, kernels.tridiagonal_solve, {}, "tridiagonal"),
]


def operands(kind: str, lead: tuple[int, ...], dtype: str) -> tuple[np.ndarray, ...]:
    n = 96
    rng = np.random.default_rng(1)

    def draw(*shape: int) -> np.ndarray:
        x = rng.standard_normal((*lead, *shape)) + 1j * rng.standard_normal((*lead, *shape))
        return x.astype(dtype) if dtype.startswith("c") else x.real.astype(dtype)

    a = draw(n, n)
    if kind == "spd":
        return (
            np.ascontiguousarray(a @ np.conj(np.swapaxes(a, -1, -2)) + n * np.eye(n, dtype=dtype)),
        )
    if kind == "system":
        return a + n * np.eye(n, dtype=dtype), draw(n, n)
    if kind == "factored":
        packed, pivots, _ = kernels.lu(a)
        return a, packed, pivots, draw(n, n)
    if kind == "singular":
        return (np.ascontiguousarray(draw(n, 5) @ draw(5, n)),)
    if kind == "reflectors":
        return kernels.geqrf(a)
    if kind == "limited":
        return a, np.full(lead, 1e-5, a.real.dtype)
    if kind == "tridiagonal":
        return draw(n), draw(n) + 5, draw(n), draw(n, n)
    return (a,)


@pytest.mark.filterwarnings("ignore::scipy.linalg.LinAlgWarning")
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("lead", [(), (3,)], ids=["one", "three"])
@pytest.mark.parametrize(
    ("primitive", "kernel", "params", "kind"), KERNELS, ids=[f"{p}-{k}" for p, _, _, k in KERNELS]
)
def test_kernels_in_blocks_and_within_their_scratch(
    primitive, kernel, params, kind, lead, dtype
) -> None:
    args = tuple(np.array(x, order="C") for x in operands(kind, lead, dtype))
    in_avals = [ShapedArray(x.shape, x.dtype) for x in args]
    out_avals = primitive.out_avals(in_avals, params)
    with np.errstate(all="ignore"):  # as in every call of a kernel
        _check_kernel(kernel, args, params, in_avals, out_avals)


def _check_kernel(kernel: Any, args: Any, params: Any, in_avals: Any, out_avals: Any) -> None:
    fresh = kernel(*args, **params)
    outs = tuple(np.empty(o.shape, o.dtype) for o in out_avals)
    kept = [x.copy() for x in args]
    call = functools.partial(kernel, *args, outs=outs, **params)
    call()
    tracemalloc.start()
    try:
        made = call()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    for block, got, want in zip(outs, made, fresh, strict=True):
        assert got is block and want.dtype == block.dtype and want.shape == block.shape
        np.testing.assert_array_equal(got, want)
    for x, before in zip(args, kept, strict=True):
        np.testing.assert_array_equal(x, before)
    planned = scratch_of(kernel, in_avals, out_avals, params)
    assert peak <= planned + 8192, f"took {peak} bytes of scratch, said {planned}"
