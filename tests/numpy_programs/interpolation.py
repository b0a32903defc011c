"""Interpolation, polynomials and quadrature in plain NumPy."""

import numpy as np


def lagrange(nodes, values, x):
    """The polynomial through some points, by the barycentric formula."""
    n = len(nodes)
    difference = nodes[:, None] - nodes[None, :] + np.eye(n)
    weights = 1 / np.prod(difference, axis=1)
    terms = weights / (x[:, None] - nodes)
    return np.sum(terms * values, axis=1) / np.sum(terms, axis=1)


def piecewise_linear(x, y, queries):
    """Linear interpolation by np.interp, and by searchsorted."""
    i = np.clip(np.searchsorted(x, queries) - 1, 0, len(x) - 2)
    t = (queries - x[i]) / (x[i + 1] - x[i])
    by_hand = (1 - t) * np.take(y, i) + t * np.take(y, i + 1)
    return np.interp(queries, x, y), by_hand


def natural_spline(y, queries):
    """A natural cubic spline over equal steps."""
    n = len(y)
    A = 4 * np.eye(n - 2) + np.eye(n - 2, k=1) + np.eye(n - 2, k=-1)
    inner = np.linalg.solve(A, 6 * (y[2:] - 2 * y[1:-1] + y[:-2]))
    m = np.pad(inner, 1)
    i = np.minimum(queries.astype(int), n - 2)
    t = queries - i
    s = 1 - t
    return s * y[i] + t * y[i + 1] + ((s**3 - s) * m[i] + (t**3 - t) * m[i + 1]) / 6


def polynomial_calculus(c, x):
    """A polynomial, its derivative and its square, at some points."""
    slope = np.polyder(c)
    square = np.polymul(c, c)
    return np.polyval(c, x) + np.polyval(slope, x), np.polyval(square, x)


def chebyshev_series(c, x):
    """Sum of Chebyshev polynomials by Clenshaw's recurrence."""
    b1 = b2 = np.zeros_like(x)
    for k in range(len(c) - 1, 0, -1):
        b1, b2 = c[k] + 2 * x * b1 - b2, b1
    return c[0] + x * b1 - b2


def simpson_and_gauss(a, b):
    """An integral by Simpson's rule minus the same by Gauss and Legendre, and its value."""

    def f(x):
        return np.exp(-x) * np.cos(3 * x)

    x = np.linspace(a, b, 9)
    weights = np.ones(9)
    weights[1:-1:2] = 4
    weights[2:-1:2] = 2
    simpson = (b - a) / 24 * np.dot(weights, f(x))
    nodes, gauss_weights = np.polynomial.legendre.leggauss(4)
    gauss = (b - a) / 2 * np.sum(gauss_weights * f((a + b) / 2 + (b - a) / 2 * nodes))
    return simpson - gauss, gauss


def vandermonde_fit(x, y, degree=2):
    """Coefficients of the best polynomial, and its slope by differences."""
    V = np.vander(x, degree + 1)
    coefficients = np.linalg.solve(V.T @ V, V.T @ y)
    fitted = V @ coefficients
    return coefficients, np.gradient(fitted)


def detrended(t, x):
    """A series without its parabola, by np.polyfit, and where the parabola turns."""
    a, b, c = np.polyfit(t, x, 2)
    trend = np.polyval(np.stack([a, b, c]), t)
    return x - trend, -b / (2 * a), np.prod([0.5, 2.0]) * c


_rng = np.random.default_rng(9)

PROGRAMS = [
    (lagrange, (np.array([0.0, 0.6, 1.5, 2.0]), _rng.normal(size=4), np.array([0.3, 1.1, 1.7]))),
    (
        piecewise_linear,
        (np.array([0.0, 0.5, 1.7, 2.0]), _rng.normal(size=4), np.array([0.2, 1.0, 1.9])),
    ),
    (natural_spline, (_rng.normal(size=6), np.array([0.4, 1.7, 4.2]))),
    (polynomial_calculus, (np.array([1.0, -2.0, 0.5]), np.array([-0.7, 0.3, 1.4]))),
    (chebyshev_series, (_rng.normal(size=5), np.array([-0.6, 0.1, 0.8]))),
    (simpson_and_gauss, (np.array(0.2), np.array(1.5))),
    (vandermonde_fit, (np.array([-1.0, -0.2, 0.3, 0.9, 1.4]), _rng.normal(size=5))),
    (detrended, (np.array([0.0, 0.5, 1.1, 1.4, 2.0]), np.array([1.0, 0.2, -0.4, 0.3, 1.9]))),
]
