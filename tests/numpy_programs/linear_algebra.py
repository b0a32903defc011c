"""Linear algebra in plain NumPy: decompositions, iterations, quadratic forms."""

import numpy as np


def power_iteration(A, steps=12):
    """Largest eigenvalue by repeated multiplication, as a Rayleigh quotient."""
    v = np.ones(len(A))
    for _ in range(steps):
        v = A @ v
        v = v / np.linalg.norm(v)
    return v @ A @ v


def gram_schmidt(A):
    """Orthonormal columns, one after the other."""
    basis = []
    for column in A.T:
        for q in basis:
            column = column - np.vdot(q, column) * q
        basis.append(column / np.sqrt(np.vdot(column, column)))
    return np.stack(basis, axis=1)


def principal_components(X, k=2):
    """Part of the variance that the first components hold, and the best approximation."""
    centered = X - X.mean(0)
    covariance = centered.T @ centered / (len(X) - 1)
    values, vectors = np.linalg.eigh(covariance)
    values, vectors = values[::-1], vectors[:, ::-1]
    main = vectors[:, :k]
    return values[:k].sum() / values.sum(), centered @ main @ main.T


def gaussian_log_likelihood(X, mean, root):
    """Log density of rows under a normal distribution, by Cholesky's decomposition."""
    d = mean.size
    covariance = root @ root.T + np.identity(d)
    L = np.linalg.cholesky(covariance)
    z = np.linalg.solve(L, (X - mean).T)
    log_det = 2 * np.sum(np.log(np.diagonal(L)))
    return -0.5 * (np.sum(z**2, axis=0) + log_det + d * np.log(2 * np.pi)).sum()


def qr_least_squares(A, b):
    """Least squares by QR, and by lstsq, which must agree."""
    Q, R = np.linalg.qr(A)
    x = np.linalg.solve(R, Q.T @ b)
    again, *_ = np.linalg.lstsq(A, b, rcond=None)
    return x, again


def markov_stationary(rates):
    """Distribution of a Markov chain after many steps, and its entropy."""
    P = rates / rates.sum(axis=1, keepdims=True)
    distribution = np.linalg.matrix_power(P, 8)[0]
    return distribution, -np.sum(distribution * np.log(distribution))


def exponential_by_series(A, terms=10):
    """Matrix exponential by its series, with trace and determinant."""
    term = total = np.eye(A.shape[0])
    for k in range(1, terms):
        term = term @ A / k
        total = total + term
    sign, log_det = np.linalg.slogdet(total)
    return total, np.trace(A) - sign * log_det, np.linalg.det(A)


def low_rank_norms(A):
    """Nuclear norm, condition number, and the pseudoinverse."""
    U, s, Vt = np.linalg.svd(A, full_matrices=False)
    inverse = np.linalg.pinv(A)
    return s.sum(), s[0] / s[-1], inverse - (Vt.T / s) @ U.T + inverse**2


def kronecker_form(A, B, x):
    """A quadratic form in a Kronecker product, two ways."""
    K = np.kron(A, B)
    X = x.reshape(A.shape[1], B.shape[1])
    direct = x @ K @ x
    folded = np.tensordot(X, A @ X @ B.T)
    return np.array([0.25, 0.75]) @ np.stack([direct, folded])


_rng = np.random.default_rng(8)
_A = _rng.normal(size=(3, 3))

PROGRAMS = [
    (power_iteration, (_A @ _A.T,)),
    (gram_schmidt, (_rng.normal(size=(4, 3)),)),
    (principal_components, (_rng.normal(size=(6, 3)),)),
    (gaussian_log_likelihood, (_rng.normal(size=(4, 2)), np.array([0.1, -0.2]), _A[:2, :2])),
    (qr_least_squares, (_rng.normal(size=(5, 2)), _rng.normal(size=5))),
    (markov_stationary, (_rng.uniform(0.1, 1, size=(3, 3)),)),
    (exponential_by_series, (0.5 * _A,)),
    (low_rank_norms, (_rng.normal(size=(4, 2)),)),
    (kronecker_form, (_A[:2, :2], _A, _rng.normal(size=6))),
]
