"""Machine learning by hand in plain NumPy: layers, backpropagation, sequences, graphs, kernels."""

import numpy as np


def backpropagated_network(X, y, W1, W2, steps=3, rate=0.2):
    """A network trained by hand-written backpropagation, and its losses."""
    losses = []
    for _ in range(steps):
        hidden = X @ W1
        active = np.tanh(hidden)
        output = active @ W2
        error = output - y
        losses.append(0.5 * np.mean(np.sum(error**2, axis=1)))
        d_output = error / len(X)
        d_W2 = active.T @ d_output
        d_hidden = (d_output @ W2.T) * (1 - active**2)
        d_W1 = X.T @ d_hidden
        norm = np.sqrt(np.sum(d_W1**2) + np.sum(d_W2**2))
        clip = np.minimum(1.0, 0.8 / norm)
        W1 = W1 - rate * clip * d_W1
        W2 = W2 - rate * clip * d_W2
    return W1, np.stack(losses)


def convolution_layers(images, kernels, weights):
    """A small convolutional network: convolution, rectifier, average pool, dense, softmax."""
    n = len(images)
    size = kernels.shape[-1]
    windows = np.lib.stride_tricks.sliding_window_view(images, (size, size), axis=(1, 2))
    maps = np.einsum("nijab,kab->nkij", windows, kernels)
    rectified = np.where(maps > 0, maps, 0.1 * maps)
    rows, columns = rectified.shape[2] // 2, rectified.shape[3] // 2
    cropped = rectified[:, :, : 2 * rows, : 2 * columns]
    pooled = cropped.reshape(n, -1, rows, 2, columns, 2).mean(axis=(3, 5))
    features = pooled.reshape(n, -1)
    mean = features.mean(axis=1, keepdims=True)
    features = (features - mean) / np.sqrt(features.var(axis=1, keepdims=True) + 1e-3)
    scores = features @ weights
    scores = scores - scores.max(axis=1, keepdims=True)
    p = np.exp(scores)
    return p / p.sum(axis=1, keepdims=True)


def gated_recurrent_unit(sequence, Wz, Wr, Wh):
    """Hidden states of a gated recurrent unit, and the entropy of its gates."""

    def sigmoid(x):
        return np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), 1 - 1 / (1 + np.exp(-np.abs(x))))

    h = np.zeros(Wz.shape[1])
    states, gates = [], []
    for x in sequence:
        both = np.concatenate([x, h])
        z = sigmoid(both @ Wz)
        r = sigmoid(both @ Wr)
        candidate = np.tanh(np.concatenate([x, r * h]) @ Wh)
        h = (1 - z) * h + z * candidate
        states.append(h)
        gates.append(z)
    z = np.stack(gates)
    entropy = -np.mean(z * np.log(z) + (1 - z) * np.log1p(-z))
    return np.stack(states), entropy


def transformer_block(x, wq, wk, wv, wo):
    """Two-headed attention with positions, a residual and layer normalization."""
    length, width = x.shape
    position = np.arange(length)[:, None]
    rates = 1 / 100 ** (np.arange(0, width, 2) / width)
    angles = position * rates
    encoding = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, width)
    h = x + encoding
    q, k, v = (np.stack(np.split(h @ w, 2, axis=-1)) for w in (wq, wk, wv))
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    scores = np.where(np.tri(length, dtype=bool), scores, -1e9)
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p = p / p.sum(axis=-1, keepdims=True)
    mixed = np.concatenate(list(p @ v), axis=-1) @ wo
    out = h + mixed
    centred = out - out.mean(axis=-1, keepdims=True)
    return centred / np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + 1e-5)


def graph_convolution(adjacency, features, W1, W2):
    """Two rounds of a graph network, with symmetric normalization and a soft readout."""
    n = len(adjacency)
    looped = adjacency + np.eye(n)
    degree = looped.sum(axis=1)
    root = 1 / np.sqrt(degree)
    normalized = root[:, None] * looped * root[None, :]
    hidden = normalized @ features @ W1
    hidden = hidden / (1 + np.exp(-hidden))
    hidden = normalized @ hidden @ W2
    importance = np.exp(hidden[:, 0] - hidden[:, 0].max())
    importance = importance / importance.sum()
    readout = importance @ hidden
    links = 1 / (1 + np.exp(-hidden @ hidden.T))
    rows, columns = np.triu_indices(n, k=1)
    present = adjacency[rows, columns]
    likelihood = present * np.log(links[rows, columns])
    likelihood = likelihood + (1 - present) * np.log(1 - links[rows, columns])
    return readout, likelihood.mean()


def hidden_markov(initial, transition, emission, observed):
    """Log likelihood of a sequence, smoothed states, and the best path's score (Viterbi)."""
    pi = initial / initial.sum()
    A = transition / transition.sum(axis=1, keepdims=True)
    B = emission / emission.sum(axis=1, keepdims=True)
    forward = [pi * B[:, observed[0]]]
    for symbol in observed[1:]:
        forward.append((forward[-1] @ A) * B[:, symbol])
    backward = [np.ones_like(pi)]
    for symbol in observed[:0:-1]:
        backward.append(A @ (B[:, symbol] * backward[-1]))
    alpha, beta = np.stack(forward), np.stack(backward[::-1])
    evidence = alpha[-1].sum()
    smoothed = alpha * beta / evidence
    best = np.log(pi) + np.log(B[:, observed[0]])
    for symbol in observed[1:]:
        best = np.max(best[:, None] + np.log(A), axis=0) + np.log(B[:, symbol])
    return np.log(evidence), smoothed, best.max()


def support_vectors(X, labels, width, rounds=5):
    """A kernel classifier by coordinate ascent in its dual, and its decision at two points."""
    squared = np.sum(X**2, axis=1)
    distance2 = squared[:, None] + squared[None, :] - 2 * X @ X.T
    K = np.exp(-distance2 / (2 * width**2))
    Q = labels[:, None] * labels[None, :] * K
    n = len(labels)
    alpha = np.zeros(n)
    for _ in range(rounds):
        for i in range(n):
            gradient = 1 - Q[i] @ alpha
            new = np.clip(alpha[i] + 0.8 * gradient / Q[i, i], 0, 1.5)
            alpha = np.where(np.arange(n) == i, new, alpha)
    queries = np.array([[0.1, 0.2], [-0.5, 0.4]])
    offsets = queries[:, None, :] - X[None, :, :]
    k = np.exp(-np.sum(offsets**2, axis=-1) / (2 * width**2))
    return alpha, k @ (alpha * labels)


def word_vectors(inside, outside, pairs, noise):
    """Skip-gram with negative samples: its loss, and one step of hand-written descent."""
    centre, context = pairs[:, 0], pairs[:, 1]
    v, u = inside[centre], outside[context]
    bad = outside[noise]
    good_score = np.sum(v * u, axis=1)
    bad_score = np.einsum("pd,pnd->pn", v, bad)
    loss = np.logaddexp(0, -good_score).mean() + np.logaddexp(0, bad_score).sum(axis=1).mean()
    pull = -1 / (1 + np.exp(good_score))
    push = 1 / (1 + np.exp(-bad_score))
    d_v = pull[:, None] * u + np.einsum("pn,pnd->pd", push, bad)
    chosen = centre[:, None] == np.arange(len(inside))
    moved = inside - 0.1 * np.where(chosen, 1.0, 0.0).T @ d_v / len(pairs)
    unit = moved / np.linalg.norm(moved, axis=1, keepdims=True)
    similarity = np.inner(unit, unit)
    return loss, similarity[np.tril_indices(len(unit), -1)]


def neighbour_embedding(points, start, perplexity=1.5, steps=3):
    """A few steps of stochastic neighbour embedding (t-SNE) from a fixed start."""
    n = len(points)
    off = ~np.eye(n, dtype=bool)
    squared = np.sum((points[:, None] - points[None]) ** 2, axis=-1)
    affinity = np.where(off, np.exp(-squared / (2 * perplexity**2)), 0)
    conditional = affinity / affinity.sum(axis=1, keepdims=True)
    P = (conditional + conditional.T) / (2 * n)
    y = start
    velocity = np.zeros_like(y)
    for _ in range(steps):
        apart = y[:, None] - y[None]
        closeness = np.where(off, 1 / (1 + np.sum(apart**2, axis=-1)), 0)
        Q = closeness / closeness.sum()
        force = 4 * np.einsum("ij,ij,ijd->id", P - Q, closeness, apart)
        velocity = 0.5 * velocity - 2.0 * force
        y = y + velocity
        y = y - y.mean(axis=0)
    divergence = np.where(off, P * np.log(np.where(off, P / np.where(off, Q, 1), 1)), 0).sum()
    return y, divergence


def boosted_stumps(x, y, thresholds, rounds=3, rate=0.5):
    """Gradient boosting with one split a round, the split chosen by what it explains."""
    left = x[:, None] < thresholds[None, :]
    counts_left = left.sum(axis=0)
    counts_right = len(x) - counts_left
    prediction = np.zeros_like(y) + y.mean()
    for _ in range(rounds):
        residual = y - prediction
        sum_left = np.where(left, residual[:, None], 0).sum(axis=0)
        sum_right = residual.sum() - sum_left
        gain = sum_left**2 / counts_left + sum_right**2 / counts_right
        k = np.argmax(gain)
        low, high = sum_left[k] / counts_left[k], sum_right[k] / counts_right[k]
        prediction = prediction + rate * np.where(x < thresholds[k], low, high)
    error = y - prediction
    return prediction, np.mean(error**2), 1 - np.var(error) / np.var(y)


_rng = np.random.default_rng(27)
_w = [0.7 * _rng.normal(size=(4, 4)) for _ in range(4)]

PROGRAMS = [
    (
        backpropagated_network,
        (
            _rng.normal(size=(4, 2)),
            _rng.normal(size=(4, 1)),
            _rng.normal(size=(2, 3)),
            _rng.normal(size=(3, 1)),
        ),
    ),
    (
        convolution_layers,
        (
            _rng.normal(size=(2, 5, 5)),
            _rng.normal(size=(2, 2, 2)),
            _rng.normal(size=(8, 3)),
        ),
    ),
    (
        gated_recurrent_unit,
        (_rng.normal(size=(3, 2)), *[_rng.normal(size=(4, 2)) for _ in range(3)]),
    ),
    (transformer_block, (_rng.normal(size=(3, 4)), *_w)),
    (
        graph_convolution,
        (
            np.array([[0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 1], [0, 0, 1, 0]]),
            _rng.normal(size=(4, 2)),
            _rng.normal(size=(2, 3)),
            _rng.normal(size=(3, 2)),
        ),
    ),
    (
        hidden_markov,
        (
            np.array([0.6, 0.4]),
            np.array([[0.7, 0.3], [0.2, 0.8]]),
            np.array([[0.5, 0.4, 0.1], [0.1, 0.3, 0.6]]),
            np.array([0, 2, 1, 2]),
        ),
    ),
    (
        support_vectors,
        (_rng.normal(size=(4, 2)), np.array([1, -1, 1, -1]), np.array(0.9)),
    ),
    (
        word_vectors,
        (
            _rng.normal(size=(3, 2)),
            _rng.normal(size=(3, 2)),
            np.array([[0, 1], [1, 2], [0, 2]]),
            np.array([[2, 2], [0, 1], [1, 0]]),
        ),
    ),
    (neighbour_embedding, (_rng.normal(size=(4, 3)), _rng.normal(size=(4, 2)))),
    (
        boosted_stumps,
        (
            np.array([0.1, 0.4, 0.5, 0.8, 1.1, 1.5]),
            np.array([1.0, 1.2, 0.7, 2.0, 2.2, 2.9]),
            np.array([0.45, 0.6, 1.0, 1.3]),
        ),
    ),
]
