"""mgefn.numpy as a namespace, and its composed functions against NumPy."""

import math

import numpy as np
import pytest

import mgefn
import mgefn.numpy as mnp
from mgefn import errors

A = (np.arange(12, dtype=np.float32).reshape(3, 4) ** 1.5) % 7
V = np.array([0.3, -1.2, 2.0, 0.7, -0.1, 1.5, 0.9], np.float32)
XP = np.array([-1.0, 0.0, 0.5, 2.0])
SPECIAL = np.array([1.5, -2.25, 0.0, 1e-40, 3e38, np.inf, np.nan], np.float32)


def test_every_name_exists() -> None:
    assert [n for n in mnp.__all__ if not hasattr(mnp, n)] == []
    assert len(set(mnp.__all__)) == len(mnp.__all__)


def test_functions_are_those_of_the_families() -> None:
    from mgefn.ops import elementwise, reductions

    assert mnp.sin is elementwise.sin
    assert mnp.sum is reductions.sum
    assert mnp.ndarray is mgefn.Array
    assert isinstance(mnp.zeros(1), mnp.ndarray)


def test_types_and_constants() -> None:
    assert mnp.bfloat16(1).dtype.name == "bfloat16"
    assert mnp.zeros(1, mnp.float8_e4m3fn).dtype.itemsize == 1
    assert (mnp.int_, mnp.float_, mnp.complex_) == (np.int32, np.float32, np.complex64)
    with mgefn.config.override(enable_x64=True):
        assert (mnp.int_, mnp.uint, mnp.float_) == (np.int64, np.uint64, np.float64)
    assert mnp.newaxis is None and mnp.pi == math.pi
    with pytest.raises(AttributeError, match="nothing_such"):
        _ = mnp.nothing_such  # type: ignore[attr-defined]
    assert mgefn.nn.relu is not None and "optim" in dir(mgefn)
    with pytest.raises(AttributeError, match="nothing_such"):
        _ = mgefn.nothing_such  # type: ignore[attr-defined]


CASES = [
    ("diff", (V, 2), {}),
    ("diff", (A,), {"axis": 0, "prepend": 0}),
    ("diff", (np.array([True, False, True]),), {}),
    ("ediff1d", (V,), {"to_end": [9.0], "to_begin": 1.0}),
    ("gradient", (A, 1.0, 2.0), {}),
    ("gradient", (XP, np.array([0, 1, 3, 4.0])), {"edge_order": 2}),
    ("trapezoid", (A,), {"axis": 0, "x": [1, 2, 4]}),
    ("unwrap", (V * 9,), {}),
    ("unwrap", (np.array([0, 100, 300, 10]),), {"period": 360}),
    ("interp", (V, XP, XP**2), {"left": -1, "right": 7}),
    ("interp", (V * 500, [0, 90, 180, 270.0], XP), {"period": 360}),
    ("interp", (V, [0.0], [2.0]), {}),
    ("convolve", (V, V[:3]), {"mode": "same"}),
    ("convolve", (V[:4], V), {"mode": "same"}),
    ("convolve", (np.tile(V, 8), np.tile(V, 6)), {}),
    ("correlate", (V[:3], V), {"mode": "full"}),
    ("correlate", (V + 1j, V[:3] * 1j), {"mode": "valid"}),
    ("polyval", ([1, 2, 3], [1, 2]), {}),
    ("polyint", ([1.0, 2, 3], 2), {"k": [3, 4]}),
    ("polyder", ([1.0, 2, 3, 4], 2), {}),
    ("polymul", ([1, 2], [1, 2, 3]), {}),
    ("poly", ([1.0, 2, 3],), {}),
    ("nan_to_num", (SPECIAL,), {}),
    ("gcd", ([12, -18, 0, 0], [18, 24, 5, 0]), {}),
    ("gcd", (np.int32(1836311903), np.int32(1134903170)), {}),
    ("lcm", ([4, 6, 0], [6, -8, 3]), {}),
    ("modf", (SPECIAL,), {}),
    ("frexp", (SPECIAL,), {}),
    ("ldexp", (SPECIAL, [3, -2, 5, 100, -140, 2, 2]), {}),
    ("spacing", (SPECIAL,), {}),
    ("i0", (V,), {}),
    ("isclose", ([1.0, np.nan, np.inf], [1 + 1e-6, np.nan, np.inf]), {"equal_nan": True}),
    ("array_equal", ([1, 2], [1]), {}),
    ("array_equiv", ([1, 2], [[1, 2], [1, 2]]), {}),
    ("isin", ([1.0, np.nan, 3.0], [np.nan, 3.0]), {"invert": True}),
    ("isin", ([1, 2], []), {}),
    ("cov", (A,), {"fweights": [1, 2, 3, 1], "aweights": [1, 0.5, 3, 1]}),
    ("cov", (V, V[::-1]), {"bias": True}),
    ("corrcoef", (A,), {}),
    ("bincount", ([1, 1, 3],), {"weights": [0.5, 1, 2]}),
    ("bincount", (np.zeros(0, int),), {"minlength": 3}),
    ("digitize", (V, [1.0, 0, -1.0]), {"right": True}),
    ("histogram", (V, 5), {}),
    ("histogram", (V, [-1, 0, 0.5, 2.0]), {"density": True}),
    ("histogram", (np.array([1.0, 1.0]),), {}),
    ("histogram2d", (V, V[::-1], [3, [-1, 0, 1.0]]), {}),
    ("apply_along_axis", (lambda v: v.sum(), 0, A), {}),
    ("apply_over_axes", (lambda a, axis: a.sum(axis), A, [0, 1]), {}),
]


@pytest.mark.parametrize(("name", "args", "kwargs"), CASES)
def test_against_numpy(name: str, args: tuple, kwargs: dict) -> None:
    with np.errstate(all="ignore"):
        want = getattr(np, name)(*args, **kwargs)
    got = getattr(mnp, name)(*args, **kwargs)
    if not isinstance(want, (list, tuple)):
        want, got = [want], [got]
    for w, g in zip(map(np.asarray, want), got, strict=True):
        assert g.shape == w.shape
        np.testing.assert_allclose(g, w, rtol=2e-5, atol=1e-45 if w.dtype.kind == "f" else 0)


def test_vectorize() -> None:
    add = mnp.vectorize(lambda a, b: a + b)
    np.testing.assert_allclose(add(V[:3, None], V), V[:3, None] + V)
    product = mnp.vectorize(lambda m, v: m @ v, signature="(m,n),(n)->(m)")
    assert product(np.ones((5, 1, 2, 3)), np.ones((4, 3))).shape == (5, 4, 2)
    power = mnp.vectorize(lambda a, n: a**n, excluded={1})
    np.testing.assert_allclose(power(V, 2), V**2, rtol=1e-6)
    with pytest.raises(errors.ShapeError, match="core dimension n"):
        product(np.ones((2, 3)), np.ones(4))
    with pytest.raises(errors.ArgumentError, match="signature"):
        mnp.vectorize(np.sin, signature="(m")


@pytest.mark.parametrize("order", [None, 0, 1, 2, 3, 0.5, math.inf, -math.inf])
def test_vector_norms(order: float | None) -> None:
    np.testing.assert_allclose(mnp.linalg.norm(V, order), np.linalg.norm(V, order), rtol=1e-5)


@pytest.mark.parametrize("order", [None, "fro", 1, -1, math.inf, -math.inf])
def test_matrix_norms(order: object) -> None:
    x = np.arange(24.0).reshape(2, 3, 4) - 9
    for axis in ((2, 0), (0, 1)):
        want = np.linalg.norm(x, order, axis=axis)  # type: ignore[call-overload]
        np.testing.assert_allclose(mnp.linalg.norm(x, order, axis=axis), want)


def test_norm_has_a_gradient_at_zero() -> None:
    for order in (None, 2):
        g = mgefn.grad(lambda x, o=order: mnp.linalg.norm(x, o))(mnp.zeros(3))
        np.testing.assert_array_equal(g, np.zeros(3))


def test_products_of_matrices() -> None:
    m = np.array([[1.0, 2.0], [0.5, -1.0]])
    for n in (0, 1, 5):
        np.testing.assert_allclose(
            mnp.linalg.matrix_power(m, n), np.linalg.matrix_power(m, n), rtol=1e-6
        )
    chain = [V[:3], A, np.ones((4, 2), np.float32), np.ones(2, np.float32)]
    want = np.linalg.multi_dot(chain)
    np.testing.assert_allclose(mnp.linalg.multi_dot(chain), want, rtol=1e-5)


def test_diagonals_of_stacks() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    for name in ("diagonal", "trace"):
        want = getattr(np.linalg, name)(x, offset=1)
        np.testing.assert_array_equal(getattr(mnp.linalg, name)(x, offset=1), want)
    np.testing.assert_array_equal(mnp.linalg.cross([1, 0, 0], [0, 1, 0]), [0, 0, 1])
    np.testing.assert_array_equal(mnp.linalg.outer([1, 2], [3, 4]), [[3, 4], [6, 8]])


@pytest.mark.parametrize(
    ("x", "axis"),
    [
        (np.array([3, 1, 3, 2, 1]), None),
        (np.array([[2.0, np.nan], [np.nan, 2.0]]), None),
        (np.array([[1, 0], [2, 1], [1, 0]]), 0),
        (np.array([[1, 0, 1], [2, 1, 2]]), 1),
        (np.zeros(0), None),
    ],
)
def test_unique(x: np.ndarray, axis: int | None) -> None:
    got, want = (m.unique(x, True, True, True, axis=axis) for m in (mnp, np))
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g, w)


def test_sets_and_sizes() -> None:
    a, b = np.array([3, 1, 3, 5]), np.array([5, 2, 3])
    for name in ("union1d", "setdiff1d", "intersect1d", "setxor1d"):
        np.testing.assert_array_equal(getattr(mnp, name)(a, b), getattr(np, name)(a, b))
    for got, want in zip(
        mnp.intersect1d(a, b, return_indices=True),
        np.intersect1d(a, b, return_indices=True),
        strict=True,
    ):
        np.testing.assert_array_equal(got, want)
    padded = mgefn.jit(lambda v: mnp.unique(v, size=5, fill_value=-1))(a)
    assert padded.tolist() == [1, 3, 5, -1, -1]
    rest = mgefn.jit(lambda v: mnp.setdiff1d(v, b, size=3, fill_value=9))(a)
    assert rest.tolist() == [1, 9, 9]
    with pytest.raises(errors.ConcretizationTypeError, match="Pass size"):
        mgefn.jit(mnp.unique)(a)
