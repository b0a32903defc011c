"""Learning from data in plain NumPy: losses, networks, clusters, ranks."""

import numpy as np


def softmax_loss(W, X, labels):
    """Cross entropy of a linear classifier with a penalty."""
    scores = X @ W
    scores = scores - scores.max(axis=1, keepdims=True)
    log_p = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    return -log_p[np.arange(len(labels)), labels].mean() + 0.01 * np.sum(W * W)


def attention(x, wq, wk, wv):
    """Causal self-attention with one head."""
    q, k, v = (np.einsum("td,de->te", x, w) for w in (wq, wk, wv))
    scores = np.einsum("te,se->ts", q, k) / np.sqrt(q.shape[-1])
    causal = np.tril(np.ones(scores.shape, dtype=bool))
    scores = np.where(causal, scores, -np.inf)
    p = np.exp(scores - np.max(scores, -1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v


def two_layer_network(x, W1, b1, W2):
    """A small network with batch normalization and a leaky rectifier."""
    h = x @ W1 + b1
    h = (h - h.mean(axis=0)) / np.sqrt(h.var(axis=0) + 1e-5)
    h = np.where(h > 0, h, 0.1 * h)
    return 1 / (1 + np.exp(-h @ W2))


def k_means(points, centers, steps=2):
    """Cluster centers after some rounds, and the total squared distance."""
    for _ in range(steps):
        d2 = ((points[:, None, :] - centers[None, :, :]) ** 2).sum(axis=2)
        chosen = np.argmin(d2, axis=1)
        member = (chosen[:, None] == np.arange(len(centers))).astype(float)
        counts = np.maximum(member.sum(axis=0), 1)
        centers = member.T @ points / counts[:, None]
    return centers, d2.min(axis=1).sum()


def logistic_newton(X, y):
    """Logistic regression by three Newton steps, and its loss."""
    w = np.zeros(X.shape[1])
    for _ in range(3):
        p = 1 / (1 + np.exp(-(X @ w)))
        H = (X * (p * (1 - p))[:, None]).T @ X + 0.1 * np.eye(X.shape[1])
        w = w + np.linalg.solve(H, X.T @ (y - p) - 0.1 * w)
    margin = (2 * y - 1) * (X @ w)
    return w, np.logaddexp(0, -margin).sum()


def gaussian_process(x, y, queries, length):
    """Mean and variance of a Gaussian process regression."""

    def kernel(a, b):
        return np.exp(-0.5 * np.subtract.outer(a, b) ** 2 / length**2)

    K = kernel(x, x) + 0.1 * np.eye(x.size)
    cross = kernel(queries, x)
    mean = cross @ np.linalg.solve(K, y)
    variance = 1 - np.einsum("ij,ji->i", cross, np.linalg.inv(K) @ cross.T)
    return mean, variance


def page_rank(links, damping=0.85):
    """Rank of pages by iteration over weighted links."""
    n = len(links)
    out = links.sum(axis=1)
    transition = (links / out[:, None]).T
    rank = np.full(n, 1 / n)
    for _ in range(8):
        rank = damping * transition.dot(rank) + (1 - damping) / n
    return rank


def edit_alignment(costs):
    """Cheapest path through a matrix of costs (dynamic time warping)."""
    rows, columns = costs.shape
    best = {}
    for i in range(rows):
        for j in range(columns):
            before = [best[k] for k in ((i - 1, j), (i, j - 1), (i - 1, j - 1)) if k in best]
            best[i, j] = costs[i, j] + (np.min(np.stack(before)) if before else 0)
    return best[rows - 1, columns - 1]


_rng = np.random.default_rng(10)
_w = [_rng.normal(size=(2, 3)) for _ in range(3)]

PROGRAMS = [
    (
        softmax_loss,
        (_rng.normal(size=(2, 3)), _rng.normal(size=(4, 2)), np.array([0, 2, 1, 1])),
    ),
    (attention, (_rng.normal(size=(4, 2)), *_w)),
    (
        two_layer_network,
        (_rng.normal(size=(4, 2)), _w[0], _rng.normal(size=3), _rng.normal(size=(3, 1))),
    ),
    (k_means, (_rng.normal(size=(7, 2)), np.array([[-1.0, 0.0], [1.0, 0.5]]))),
    (logistic_newton, (_rng.normal(size=(6, 2)), np.array([0.0, 1.0, 1.0, 0.0, 1.0, 0.0]))),
    (
        gaussian_process,
        (np.array([0.0, 0.7, 1.5]), _rng.normal(size=3), np.array([0.3, 2.0]), np.array(0.8)),
    ),
    (page_rank, (_rng.uniform(0.1, 1, size=(4, 4)),)),
    (edit_alignment, (_rng.uniform(size=(3, 4)),)),
]
