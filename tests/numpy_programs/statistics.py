"""Statistics in plain NumPy: location, scale, association, regression, densities."""

import numpy as np


def standardized_columns(X):
    """Columns with mean zero and variance one, and the sample skewness of each."""
    mean = X.mean(axis=0)
    std = X.std(axis=0, ddof=1)
    Z = (X - mean) / std
    skewness = (Z**3).mean(axis=0)
    return Z, skewness


def correlation_summary(X):
    """Mean absolute correlation off the diagonal, and the covariance matrix of the columns."""
    R = np.corrcoef(X, rowvar=False)
    n = R.shape[0]
    off_diagonal = R[~np.eye(n, dtype=bool)]
    return np.abs(off_diagonal).mean(), np.cov(X.T)


def trimmed_mean(x, fraction=0.2):
    """Mean without the smallest and largest parts of a sample."""
    ordered = np.sort(x)
    cut = int(fraction * len(ordered))
    return np.mean(ordered[cut : len(ordered) - cut])


def robust_scores(x):
    """Distance from the median in units of the median absolute deviation."""
    center = np.median(x)
    deviation = np.median(np.abs(x - center))
    return 0.6745 * (x - center) / deviation


def winsorized_variance(x):
    """Variance after clipping at the quartiles plus and minus 0.7 interquartile ranges."""
    low, middle, high = np.percentile(x, [25, 50, 75])
    spread = high - low
    clipped = np.clip(x, low - 0.7 * spread, high + 0.7 * spread)
    return np.var(clipped) + 0.1 * middle


def kernel_density(sample, grid):
    """Gaussian kernel density estimate on a grid, with Silverman's bandwidth."""
    n = sample.size
    bandwidth = 1.06 * np.std(sample) * n ** (-1 / 5)
    z = (grid[:, np.newaxis] - sample[np.newaxis, :]) / bandwidth
    return np.exp(-0.5 * z**2).sum(axis=1) / (n * bandwidth * np.sqrt(2 * np.pi))


def regression_t_values(X, y):
    """Ordinary least squares with an intercept: coefficients, t values and R squared."""
    n, k = X.shape
    A = np.column_stack([np.ones(n), X])
    gram = A.T @ A
    beta = np.linalg.solve(gram, A.T @ y)
    residual = y - A @ beta
    sigma2 = residual @ residual / (n - k - 1)
    errors = np.sqrt(sigma2 * np.diag(np.linalg.inv(gram)))
    r2 = 1 - np.sum(residual**2) / np.sum((y - y.mean()) ** 2)
    return beta, beta / errors, r2


def rank_correlation(x, y):
    """Spearman's rank correlation, from ranks by a double argsort, plus Pearson's."""
    rank_x = np.argsort(np.argsort(x)).astype(float)
    rank_y = np.argsort(np.argsort(y)).astype(float)
    rank_x -= rank_x.mean()
    rank_y -= rank_y.mean()
    spearman = np.dot(rank_x, rank_y) / np.sqrt(np.dot(rank_x, rank_x) * np.dot(rank_y, rank_y))
    dx, dy = x - np.mean(x), y - np.mean(y)
    pearson = (dx * dy).sum() / (np.linalg.norm(dx) * np.linalg.norm(dy))
    return np.stack([spearman, pearson])


def mean_without_missing(x):
    """Mean and variance of the entries that are neither NaN nor negative."""
    observed = ~np.isnan(x) & (x >= 0)
    filled = np.where(observed, x, 0.0)
    count = np.count_nonzero(observed)
    mean = filled.sum() / count
    variance = np.where(observed, (filled - mean) ** 2, 0).sum() / (count - 1)
    return mean, variance


def group_summary(values, groups):
    """Mean and spread of each group, spread again over its members, and the F ratio."""
    sizes = np.bincount(groups)
    means = np.bincount(groups, weights=values) / sizes
    within = values - means[groups]
    between = np.repeat(means - values.mean(), sizes)
    k = len(sizes)
    ratio = (between**2).sum() / (k - 1) / ((within**2).sum() / (len(values) - k))
    return means, within, ratio


def bootstrap_interval(x, draws=6):
    """Percentiles of the mean over resamples with fixed random indices, and the jackknife's."""
    rng = np.random.default_rng(0)
    resamples = x[rng.integers(0, len(x), size=(draws, len(x)))]
    jackknife = np.stack([np.delete(x, i).mean() for i in range(len(x))])
    return np.quantile(resamples.mean(axis=1), [0.1, 0.9]), jackknife.var()


_rng = np.random.default_rng(1)
_X = _rng.normal(size=(9, 3))

PROGRAMS = [
    (standardized_columns, (_X,)),
    (correlation_summary, (_X,)),
    (trimmed_mean, (_rng.normal(size=11),)),
    (robust_scores, (_rng.normal(size=9),)),
    (winsorized_variance, (_rng.standard_t(3, size=14),)),
    (kernel_density, (_rng.normal(size=8), np.linspace(-2, 2, 7))),
    (regression_t_values, (_X, _rng.normal(size=9))),
    (rank_correlation, (_rng.normal(size=8), _rng.normal(size=8))),
    (mean_without_missing, (np.array([0.5, np.nan, 2.0, -1.0, 3.5, 0.25]),)),
    (group_summary, (_rng.normal(size=7), np.array([0, 0, 1, 1, 1, 2, 2]))),
    (bootstrap_interval, (_rng.normal(size=6),)),
]
