"""Optimisation and root finding in plain NumPy."""

import numpy as np


def rosenbrock_descent(x, steps=5, rate=1e-3):
    """Some steps of gradient descent on Rosenbrock's valley, slopes by hand."""
    for _ in range(steps):
        inner = x[1:] - x[:-1] ** 2
        slope = np.concatenate([-400 * x[:-1] * inner - 2 * (1 - x[:-1]), [0.0]])
        slope = slope + np.concatenate([[0.0], 200 * inner])
        x = x - rate * slope
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def newton_system(target, steps=6):
    """Solution of two nonlinear equations by Newton's method from a fixed start."""
    x = np.array([1.0, 1.0])
    for _ in range(steps):
        u, v = x
        residual = np.stack([u**2 + v, u * v + np.sin(v)]) - target
        one = np.ones_like(u)
        jacobian = np.stack([np.stack([2 * u, one]), np.stack([v, u + np.cos(v)])])
        x = x - np.linalg.solve(jacobian, residual)
    return x


def bisection(coefficient, steps=30):
    """Roots of x + c x**3 = 1 by bisection and a last Newton step."""
    low, high = np.zeros_like(coefficient), np.ones_like(coefficient)
    for _ in range(steps):
        middle = (low + high) / 2
        positive = middle + coefficient * middle**3 > 1
        low = np.where(positive, low, middle)
        high = np.where(positive, middle, high)
    x = (low + high) / 2
    return x - (x + coefficient * x**3 - 1) / (1 + 3 * coefficient * x**2)


def lasso(A, y, penalty, steps=8):
    """Sparse regression by iterated soft thresholding."""
    step = 1 / np.linalg.norm(A, 2) ** 2
    w = np.zeros(A.shape[1])
    for _ in range(steps):
        z = w - step * (A.T @ (A @ w - y))
        w = np.sign(z) * np.maximum(np.abs(z) - step * penalty, 0)
    return w


def simplex_projection(v):
    """The nearest point with positive entries that sum to one."""
    ordered = np.sort(v)[::-1]
    excess = np.cumsum(ordered) - 1
    k = np.arange(1, v.size + 1)
    support = np.sum(ordered - excess / k > 0)
    threshold = excess[support - 1] / support
    return np.maximum(v - threshold, 0)


def momentum_fit(x, y):
    """Exponential decay fitted by gradient descent with momentum."""
    p = np.stack([y[0], np.ones_like(y[0])])
    velocity = np.zeros(2)
    for _ in range(10):
        e = np.exp(-p[1] * x)
        error = p[0] * e - y
        slope = np.stack([np.mean(2 * error * e), np.mean(-2 * error * p[0] * x * e)])
        velocity = 0.8 * velocity - 0.1 * slope
        p = p + velocity
    return p


def backtracking(x):
    """A line search that halves its step until the function falls enough."""
    slope = 4 * x**3 - 2 * x
    step = 1.0
    while np.sum((x - step * slope) ** 4 - (x - step * slope) ** 2) > np.sum(x**4 - x**2):
        step /= 2
    return x - step * slope


_rng = np.random.default_rng(5)

PROGRAMS = [
    (rosenbrock_descent, (np.array([-0.5, 0.7, 0.2, 0.4]),)),
    (newton_system, (np.array([2.0, 1.5]),)),
    (bisection, (np.array([0.5, 1.0, 3.0]),)),
    (lasso, (_rng.normal(size=(6, 4)), _rng.normal(size=6), np.array(0.5))),
    (simplex_projection, (np.array([0.9, 0.4, -0.3, 0.6, 0.1]),)),
    (momentum_fit, (np.linspace(0, 2, 6), 2 * np.exp(-0.7 * np.linspace(0, 2, 6)))),
    (backtracking, (np.array([1.5, -0.3, 2.0]),)),
]

DECIDES_BY_VALUE = {backtracking: "the condition of `while` is a value"}
