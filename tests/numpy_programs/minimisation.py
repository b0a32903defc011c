"""Minimisers in plain NumPy: quasi-Newton, conjugate gradients, trust regions, duals, evolution."""

import numpy as np


def rosenbrock_bfgs(start, iterations=6):
    """BFGS on Rosenbrock's function with hand-written slopes and a fixed list of step lengths."""

    def value(x):
        return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    def slope(x):
        inner = x[1:] - x[:-1] ** 2
        return np.pad(-400 * x[:-1] * inner - 2 * (1 - x[:-1]), (0, 1)) + np.pad(
            200 * inner, (1, 0)
        )

    x, identity = start, np.eye(start.size)
    H = identity / 500
    g = slope(x)
    lengths = 0.5 ** np.arange(6)
    for _ in range(iterations):
        direction = -H @ g
        candidates = [x + a * direction for a in lengths]
        values = np.stack([value(c) for c in candidates])
        best = np.argmin(values)
        moved = np.stack(candidates)[best]
        s, new = moved - x, slope(moved)
        y = new - g
        rho = 1 / np.dot(s, y)
        V = identity - rho * np.outer(s, y)
        H = V @ H @ V.T + rho * np.outer(s, s)
        x, g = moved, new
    return x, value(x)


def conjugate_gradients(A, b, iterations=3):
    """Solution of a symmetric system by conjugate gradients with Jacobi's preconditioner."""
    inverse_diagonal = 1 / np.diag(A)
    x = np.zeros_like(b)
    r = b - A @ x
    z = inverse_diagonal * r
    p = z
    rz = r @ z
    history = []
    for _ in range(iterations):
        Ap = A @ p
        alpha = rz / (p @ Ap)
        x = x + alpha * p
        r = r - alpha * Ap
        z = inverse_diagonal * r
        rz_new = r @ z
        p = z + (rz_new / rz) * p
        rz = rz_new
        history.append(np.linalg.norm(r))
    return x, np.stack(history[:-1])


def gauss_newton_decay(t, y, start):
    """Amplitude, rate and offset of a decay by Levenberg and Marquardt's method."""
    p = start
    damping = 1e-2
    for _ in range(5):
        e = np.exp(-p[1] * t)
        residual = p[0] * e + p[2] - y
        J = np.stack([e, -p[0] * t * e, np.ones_like(t)], axis=1)
        normal = J.T @ J
        normal = normal + damping * np.diag(np.diag(normal))
        step = np.linalg.solve(normal, J.T @ residual)
        trial = p - step
        trial_residual = trial[0] * np.exp(-trial[1] * t) + trial[2] - y
        better = np.sum(trial_residual**2) < np.sum(residual**2)
        p = np.where(better, trial, p)
        damping = np.where(better, damping / 3, damping * 2)
    return p, np.sqrt(np.mean(trial_residual**2))


def adam_logistic(X, labels, steps=6, rate=0.1):
    """Logistic regression by Adam, and the accuracy that a soft threshold gives."""
    w = np.zeros(X.shape[1])
    first, second = np.zeros_like(w), np.zeros_like(w)
    b1, b2 = 0.9, 0.999
    losses = []
    for t in range(1, steps + 1):
        margin = labels * (X @ w)
        losses.append(np.logaddexp(0, -margin).mean())
        pull = -labels / (1 + np.exp(margin))
        slope = X.T @ pull / len(labels) + 0.01 * w
        first = b1 * first + (1 - b1) * slope
        second = b2 * second + (1 - b2) * slope**2
        w = w - rate * (first / (1 - b1**t)) / (np.sqrt(second / (1 - b2**t)) + 1e-8)
    return w, np.stack(losses)


def trust_region(target, radius=0.6, rounds=4):
    """Newton steps no longer than a radius on a curved bowl, by eigenvectors of the Hessian."""
    x = np.zeros(2)
    for _ in range(rounds):
        d = x - target
        gradient = np.stack([4 * d[0] ** 3 + d[0] + d[1], 2 * d[1] + d[0]])
        hessian = np.array([[1.0, 1.0], [1.0, 2.0]]) + 12 * d[0] ** 2 * np.diag([1.0, 0.0])
        values, vectors = np.linalg.eigh(hessian)
        coefficients = vectors.T @ gradient / np.maximum(values, 0.1)
        step = -vectors @ coefficients
        length = np.sqrt(np.sum(step**2))
        x = x + step * np.minimum(1.0, radius / length)
    return x, np.abs(gradient).sum()


def alternating_directions(A, y, penalty=0.3, rho=1.0, rounds=10):
    """Sparse regression by the alternating direction method of multipliers."""
    n = A.shape[1]
    factor = np.linalg.cholesky(A.T @ A + rho * np.eye(n))
    z = np.zeros(n)
    u = np.zeros(n)
    Aty = A.T @ y
    for _ in range(rounds):
        right = Aty + rho * (z - u)
        x = np.linalg.solve(factor.T, np.linalg.solve(factor, right))
        shifted = x + u
        z = np.sign(shifted) * np.maximum(np.abs(shifted) - penalty / rho, 0)
        u = u + x - z
    loss = 0.5 * np.linalg.norm(A @ z - y) ** 2 + penalty * np.linalg.norm(z, 1)
    return z, loss, np.linalg.norm(x - z)


def optimal_transport(cost, a, b, strength=0.4, rounds=20):
    """Entropic transport plan between two histograms, by Sinkhorn's iteration in logarithms."""

    def log_sum_exp(M, axis):
        top = M.max(axis=axis, keepdims=True)
        return np.squeeze(top, axis) + np.log(np.exp(M - top).sum(axis=axis))

    log_a, log_b = np.log(a / a.sum()), np.log(b / b.sum())
    K = -cost / strength
    f, g = np.zeros(len(a)), np.zeros(len(b))
    for _ in range(rounds):
        f = log_a - log_sum_exp(K + g[None, :], axis=1)
        g = log_b - log_sum_exp(K + f[:, None], axis=0)
    plan = np.exp(f[:, None] + K + g[None, :])
    return plan, np.sum(plan * cost), plan.sum(axis=1)


def nelder_mead_moves(simplex):
    """One round of reflection, expansion and contraction of a simplex on a smooth function."""

    def value(x):
        return (x[..., 0] - 1) ** 2 + 3 * (x[..., 1] + 0.5) ** 2 + 0.3 * x[..., 0] * x[..., 1]

    for _ in range(3):
        order = np.argsort(value(simplex))
        simplex = simplex[order]
        worst = simplex[-1]
        centre = np.mean(simplex[:-1], axis=0)
        moves = centre + np.multiply.outer(np.array([1.0, 2.0, 0.5, -0.5]), centre - worst)
        best = moves[np.argmin(value(moves))]
        improved = value(best) < value(worst)
        replaced = np.where(improved, best, 0.5 * (worst + simplex[0]))
        simplex = np.concatenate([simplex[:-1], replaced[None]])
    return simplex, value(simplex).min()


def interior_point(c, A, b, rounds=8):
    """A linear program in inequality form by a barrier that fades."""
    x = np.zeros(c.size)
    t = 1.0
    for _ in range(rounds):
        slack = b - A @ x
        inverse = 1 / slack
        gradient = t * c + A.T @ inverse
        hessian = np.einsum("mi,m,mj->ij", A, inverse**2, A)
        direction = -np.linalg.solve(hessian, gradient)
        decrement = np.sqrt(-gradient @ direction)
        x = x + direction / (1 + decrement)
        t = 1.5 * t
    return x, c @ x, np.min(b - A @ x)


_rng = np.random.default_rng(22)
_M = _rng.normal(size=(3, 3))
_t = np.linspace(0, 3, 7)

PROGRAMS = [
    (rosenbrock_bfgs, (np.array([-0.6, 0.5, 0.8]),)),
    (conjugate_gradients, (_M @ _M.T + np.eye(3), _rng.normal(size=3))),
    (
        gauss_newton_decay,
        (_t, 2 * np.exp(-0.8 * _t) + 0.5 + 0.05 * np.cos(5 * _t), np.array([1.5, 0.6, 0.2])),
    ),
    (
        adam_logistic,
        (_rng.normal(size=(6, 2)), np.array([1.0, -1.0, 1.0, 1.0, -1.0, -1.0])),
    ),
    (trust_region, (np.array([1.3, -0.8]),)),
    (alternating_directions, (_rng.normal(size=(5, 3)), _rng.normal(size=5))),
    (
        optimal_transport,
        (_rng.uniform(size=(3, 2)), np.array([0.2, 0.5, 0.3]), np.array([0.6, 0.4])),
    ),
    (nelder_mead_moves, (np.array([[0.0, 0.1], [1.3, 0.2], [0.3, 1.1]]),)),
    (
        interior_point,
        (
            np.array([-1.0, -1.4]),
            np.array([[1.0, 2.0], [3.0, 1.0], [-1.0, 0.1], [0.2, -1.0]]),
            np.array([4.0, 6.0, 1.0, 1.0]),
        ),
    ),
]
