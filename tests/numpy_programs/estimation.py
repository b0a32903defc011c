"""Estimators in plain NumPy: mixtures, filters, time series, robust and local regression."""

import numpy as np


def gaussian_mixture(x, rounds=4):
    """Two Gaussians fitted by expectation maximization, and the log likelihood."""
    low, high = np.percentile(x, [25, 75])
    means = np.stack([low, high])
    variances = np.full_like(means, 1.0) * np.var(x)
    weights = np.array([0.5, 0.5])
    for _ in range(rounds):
        gap = x[:, None] - means
        density = np.exp(-0.5 * gap**2 / variances) / np.sqrt(2 * np.pi * variances)
        joint = weights * density
        total = joint.sum(axis=1, keepdims=True)
        responsibility = joint / total
        count = responsibility.sum(axis=0)
        means = (responsibility * x[:, None]).sum(axis=0) / count
        spread = (x[:, None] - means) ** 2
        variances = np.einsum("nk,nk->k", responsibility, spread) / count + 1e-3
        weights = count / len(x)
    order = np.argsort(means)
    return means[order], variances[order], np.log(total).sum()


def kalman_local_trend(y, noise, drift):
    """Filtered level of a series with a local linear trend, and its log likelihood."""
    F = np.array([[1.0, 1.0], [0.0, 1.0]])
    H = np.array([1.0, 0.0])
    state = np.zeros(2)
    P = 10.0 * np.eye(2)
    levels = []
    log_likelihood = 0.0
    for observation in y:
        state = F @ state
        P = F @ P @ F.T + drift * np.eye(2)
        innovation = observation - H @ state
        variance = H @ P @ H + noise
        gain = P @ H / variance
        state = state + gain * innovation
        P = P - np.outer(gain, H @ P)
        log_likelihood = log_likelihood - 0.5 * (np.log(variance) + innovation**2 / variance)
        levels.append(state[0])
    return np.stack(levels), log_likelihood


def yule_walker(x, order=2, ahead=3):
    """Coefficients of an autoregression, its noise, and a forecast."""
    centre = x.mean()
    z = x - centre
    n = z.size
    gamma = np.stack([np.dot(z[: n - k], z[k:]) / n for k in range(order + 1)])
    lags = np.abs(np.subtract.outer(np.arange(order), np.arange(order)))
    R = gamma[lags]
    phi = np.linalg.solve(R, gamma[1:])
    noise = gamma[0] - phi @ gamma[1:]
    history = [z[-1 - k] for k in range(order)]
    forecast = []
    for _ in range(ahead):
        value = sum(p * h for p, h in zip(phi, history, strict=True))
        history = [value, *history[:-1]]
        forecast.append(centre + value)
    return phi, noise, np.stack(forecast)


def durbin_levinson(autocovariance):
    """Partial autocorrelations from autocovariances, and the innovation variances."""
    gamma = autocovariance / autocovariance[0]
    phi = [gamma[1]]
    partial = [gamma[1]]
    variance = 1 - gamma[1] ** 2
    variances = [variance]
    for k in range(2, len(gamma)):
        predicted = sum(p * gamma[k - 1 - j] for j, p in enumerate(phi))
        kappa = (gamma[k] - predicted) / variance
        phi = [p - kappa * q for p, q in zip(phi, phi[::-1], strict=True)] + [kappa]
        partial.append(kappa)
        variance = variance * (1 - kappa**2)
        variances.append(variance)
    return np.stack(partial), autocovariance[0] * np.stack(variances)


def local_regression(x, y, queries, neighbours=5):
    """A line through the nearest points of each query, weighted by the tricube kernel."""
    distance = np.abs(np.subtract.outer(queries, x))
    nearest = np.argsort(distance, axis=1)[:, :neighbours]
    d = np.take_along_axis(distance, nearest, axis=1)
    reach = 1.05 * d.max(axis=1, keepdims=True)
    w = (1 - (d / reach) ** 3) ** 3
    xs, ys = x[nearest], y[nearest]
    total = np.add.reduce(w, axis=1)
    x_mean = np.sum(w * xs, axis=1) / total
    y_mean = np.sum(w * ys, axis=1) / total
    dx, dy = xs - x_mean[:, None], ys - y_mean[:, None]
    slope = np.sum(w * dx * dy, axis=1) / np.sum(w * dx**2, axis=1)
    return y_mean + slope * (queries - x_mean), slope


def huber_regression(X, y, tuning=1.345, rounds=6):
    """Regression by reweighted least squares, outliers weighted down."""
    A = np.concatenate([np.ones((len(X), 1)), X], axis=1)
    beta = np.linalg.lstsq(A, y, rcond=None)[0]
    for _ in range(rounds):
        residual = y - A @ beta
        scale = np.median(np.abs(residual)) / 0.6745
        size = np.abs(residual) / scale
        weight = np.where(size <= tuning, 1.0, tuning / np.maximum(size, tuning))
        gram = np.einsum("n,ni,nj->ij", weight, A, A)
        beta = np.linalg.solve(gram, A.T @ (weight * y))
    residual = y - A @ beta
    return beta, np.sqrt(np.average(residual**2, weights=weight))


def two_way_anova(table):
    """F ratios of rows and columns in a table of cells with replicates (row, column, replicate)."""
    rows, columns, repeats = table.shape
    grand = table.mean()
    cell = table.mean(axis=2)
    row_effect = cell.mean(axis=1) - grand
    column_effect = cell.mean(axis=0) - grand
    interaction = cell - grand - row_effect[:, None] - column_effect[None, :]
    ss_rows = columns * repeats * np.sum(row_effect**2)
    ss_columns = rows * repeats * np.sum(column_effect**2)
    ss_interaction = repeats * np.sum(interaction**2)
    ss_error = np.sum((table - cell[..., np.newaxis]) ** 2)
    ms_error = ss_error / (rows * columns * (repeats - 1))
    df = np.array([rows - 1, columns - 1, (rows - 1) * (columns - 1)])
    ms = np.stack([ss_rows, ss_columns, ss_interaction]) / df
    return ms / ms_error, ss_error / np.sum((table - grand) ** 2)


def ridge_by_cross_validation(X, y, penalties, folds=3):
    """Error of ridge regression in cross validation for some penalties, and a soft best one."""
    n, k = X.shape
    parts = np.array_split(np.arange(n), folds)
    errors = []
    for held in parts:
        kept = np.setdiff1d(np.arange(n), held)
        A, b = X[kept], y[kept]
        mean, offset = A.mean(axis=0), b.mean()
        gram = (A - mean).T @ (A - mean)
        cross = (A - mean).T @ (b - offset)
        system = gram[None] + penalties[:, None, None] * np.eye(k)
        beta = np.linalg.solve(system, np.broadcast_to(cross, (len(penalties), k))[..., None])
        predicted = (X[held] - mean) @ beta[..., 0].T + offset
        errors.append(((predicted - y[held][:, None]) ** 2).mean(axis=0))
    score = np.mean(np.stack(errors), axis=0)
    p = np.exp(-score / score.min())
    return score, np.average(np.log(penalties), weights=p)


def lorenz_and_gini(income, quantiles):
    """Lorenz curve at some quantiles, Gini coefficient, Theil index and the top share."""
    ordered = np.sort(income)
    n = ordered.size
    share = np.concatenate([[0.0], np.cumsum(ordered) / ordered.sum()])
    population = np.linspace(0, 1, n + 1)
    curve = np.interp(quantiles, population, share)
    ranks = np.arange(1, n + 1)
    gini = 2 * np.sum(ranks * ordered) / (n * ordered.sum()) - (n + 1) / n
    relative = ordered / ordered.mean()
    theil = np.mean(relative * np.log(relative))
    top = 1 - share[-3]
    return curve, np.stack([gini, theil, top])


def survival_curve(times, risk, observed):
    """Cox partial likelihood, and the baseline hazard after Breslow, of right-censored times."""
    order = np.argsort(times)
    t, score = times[order], risk[order]
    event = np.take_along_axis(observed, order, axis=0)
    weight = np.exp(score - score.max())
    at_risk = np.cumsum(weight[::-1])[::-1]
    log_likelihood = np.sum(np.where(event, score - score.max() - np.log(at_risk), 0.0))
    jumps = np.where(event, 1 / at_risk, 0.0)
    hazard = np.add.accumulate(jumps)
    survival = np.exp(-hazard)
    widths = np.diff(t, prepend=0.0)
    before = np.concatenate([np.ones(1), survival[:-1]])
    restricted_mean = np.sum(widths * before)
    return log_likelihood, survival, restricted_mean


_rng = np.random.default_rng(21)
_x = np.concatenate([_rng.normal(-1, 0.5, 6), _rng.normal(1.5, 0.6, 5)])
_X = _rng.normal(size=(9, 2))
_y = _X @ np.array([1.0, -2.0]) + 0.3 * _rng.normal(size=9)
_trend = 0.3 * np.arange(6) + 0.2 * _rng.normal(size=6)

PROGRAMS = [
    (gaussian_mixture, (_x,)),
    (kalman_local_trend, (_trend, np.array(0.5), np.array(0.1))),
    (yule_walker, (_rng.normal(size=9),)),
    (durbin_levinson, (np.array([2.0, 1.1, 0.3, -0.2, 0.1]),)),
    (
        local_regression,
        (np.linspace(0, 3, 9) ** 1.1, _rng.normal(size=9), np.array([0.4, 1.3, 2.2])),
    ),
    (huber_regression, (_X, _y + np.where(np.arange(9) == 4, 6.0, 0.0))),
    (two_way_anova, (_rng.normal(size=(2, 3, 2)),)),
    (ridge_by_cross_validation, (_X, _y, np.array([0.1, 1.0, 10.0]))),
    (lorenz_and_gini, (_rng.uniform(1, 9, size=7), np.array([0.1, 0.55, 0.93]))),
    (
        survival_curve,
        (
            np.array([2.0, 0.7, 5.1, 3.3, 1.6]),
            _rng.normal(size=5),
            np.array([True, True, False, True, True]),
        ),
    ),
]
