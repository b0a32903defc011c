"""Activations against formulas, their corners, and rows that masks leave empty."""

import math

import numpy as np
import pytest
import scipy.special as sp

import mgefn
import mgefn.numpy as mnp
from mgefn import errors, nn, random

X = np.array([-30.0, -3.5, -1.0, -0.2, 0.0, 0.3, 1.0, 2.9, 7.0, 40.0])

FORMULAS = {
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "leaky_relu": lambda x: np.where(x >= 0, x, 0.01 * x),
    "hard_tanh": lambda x: np.clip(x, -1, 1),
    "hard_sigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hard_silu": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "sigmoid": sp.expit,
    "silu": lambda x: x * sp.expit(x),
    "softplus": lambda x: np.logaddexp(x, 0),
    "log_sigmoid": sp.log_expit,
    "soft_sign": lambda x: x / (1 + np.abs(x)),
    "squareplus": lambda x: (x + np.sqrt(x * x + 4)) / 2,
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "celu": lambda x: np.maximum(x, 0) + np.expm1(np.minimum(x, 0)),
    "mish": lambda x: x * np.tanh(np.logaddexp(x, 0)),
    "softmax": sp.softmax,
    "log_softmax": sp.log_softmax,
    "logsumexp": sp.logsumexp,
    "standardize": lambda x: (x - x.mean()) / np.sqrt(x.var() + 1e-5),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_values(name: str) -> None:
    got = getattr(nn, name)(X)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, FORMULAS[name](X), rtol=1e-7, atol=1e-15)
    half = getattr(nn, name)(mnp.array(X[3:7], "float16"))
    assert half.dtype == np.float16


def test_gelu() -> None:
    np.testing.assert_allclose(nn.gelu(X, approximate=False), X * sp.ndtr(X), rtol=1e-12)
    np.testing.assert_allclose(nn.gelu(X), X * sp.ndtr(X), atol=5e-4)
    x = np.linspace(-6, 6, 200)
    # As good where the tanh of it is nearly -1.
    np.testing.assert_allclose(nn.gelu(x.astype("float32")), nn.gelu(x), rtol=2e-5)


@pytest.mark.parametrize("name", ["relu", "relu6", "elu", "selu", "celu", "gelu", "mish"])
def test_integers_and_nan(name: str) -> None:
    assert np.isnan(getattr(nn, name)(math.nan).item())
    getattr(nn, name)(mnp.arange(3))


def test_corners() -> None:
    slope = mgefn.vmap(mgefn.grad(nn.relu))(mnp.array([-1.0, 0.0, 1.0]))
    np.testing.assert_array_equal(slope, [0, 0, 1])
    slope = mgefn.vmap(mgefn.grad(nn.relu6))(mnp.array([0.0, 3.0, 6.0]))
    np.testing.assert_array_equal(slope, [0, 1, 0])


@pytest.mark.parametrize("fun", [nn.softmax, nn.log_softmax, lambda x: nn.logsumexp(x, -1)])
def test_rows_of_minus_infinity(fun) -> None:
    x = mnp.array([[-np.inf, -np.inf], [0.0, -np.inf]])
    y, pullback = mgefn.vjp(fun, x)
    assert not np.isnan(y).any()
    (g,) = pullback(mnp.ones_like(y))
    assert np.isfinite(g).all()


def test_softmax_where() -> None:
    got = nn.softmax(mnp.array([1.0, 2.0, 3.0]), where=np.array([True, False, True]))
    np.testing.assert_allclose(got, np.insert(sp.softmax([1.0, 3.0]), 1, 0), rtol=1e-6)


def test_softmax_is_safe_from_overflow_and_has_its_derivative() -> None:
    np.testing.assert_allclose(nn.softmax(mnp.array([1e4, 1e4])), [0.5, 0.5])
    x = np.array([0.3, -1.0, 2.0])
    p = sp.softmax(x)
    np.testing.assert_allclose(mgefn.jacrev(nn.softmax)(x), np.diag(p) - np.outer(p, p), atol=1e-12)


def test_one_hot() -> None:
    np.testing.assert_array_equal(
        nn.one_hot(np.array([1, -1, 3]), 3), [[0, 1, 0], [0] * 3, [0] * 3]
    )
    got = nn.one_hot(np.array([1, 0], np.int8), 200, axis=0, dtype="int16")
    assert (got.shape, got.dtype) == ((200, 2), np.int16)


@pytest.mark.parametrize(
    ("name", "variance"),
    [
        ("lecun_normal", 1 / 300),
        ("he_normal", 2 / 300),
        ("glorot_uniform", 1 / 250),
        ("he_uniform", 2 / 300),
    ],
)
def test_variance_of_initializers(name: str, variance: float) -> None:
    w = np.asarray(getattr(nn.initializers, name)()(random.key(0), (300, 200)))
    np.testing.assert_allclose(w.var(), variance, rtol=0.02)
    assert abs(w.mean()) < 1e-3


@pytest.mark.parametrize("axis", [-1, 0])
@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (2, 3, 4)])
def test_orthogonal(shape: tuple, axis: int) -> None:
    w = np.asarray(nn.initializers.orthogonal(2.0, axis)(random.key(1), shape))
    assert w.shape == shape and w.dtype == np.float32
    m = np.moveaxis(w, axis, -1).reshape(-1, shape[axis])
    gram = m.T @ m if m.shape[0] >= m.shape[1] else m @ m.T
    np.testing.assert_allclose(gram, 4 * np.eye(len(gram)), atol=1e-5)


def test_delta_orthogonal() -> None:
    w = np.array(nn.initializers.delta_orthogonal()(random.key(1), (3, 4, 2, 5)))
    np.testing.assert_allclose(w[1, 1] @ w[1, 1].T, np.eye(2), atol=1e-6)
    w[1, 1] = 0
    assert not w.any()
    assert nn.initializers.orthogonal()(random.key(1), (0, 3)).shape == (0, 3)
    with pytest.raises(errors.ShapeError, match="no more inputs"):
        nn.initializers.delta_orthogonal()(random.key(1), (3, 5, 2))
    with pytest.raises(errors.ShapeError, match="rank 2"):
        nn.initializers.orthogonal()(random.key(1), (3,))
