"""Pricing and risk in plain NumPy: trees, lattices, Monte Carlo, curves, credit, portfolios."""

import numpy as np


def asian_option(spot, strike, rate, volatility, paths=6, steps=4):
    """An average-price call by Monte Carlo with fixed antithetic draws and a control variate."""
    rng = np.random.default_rng(7)
    draws = rng.standard_normal((paths, steps))
    draws = np.concatenate([draws, -draws])
    dt = 1.0 / steps
    drift = (rate - 0.5 * volatility**2) * dt
    log_paths = np.cumsum(drift + volatility * np.sqrt(dt) * draws, axis=1)
    prices = spot * np.exp(log_paths)
    average = prices.mean(axis=1)
    payoff = np.exp(-rate) * np.maximum(average - strike, 0)
    control = np.exp(-rate) * prices[:, -1] - spot
    slope = np.cov(payoff, control)[0, 1] / np.var(control, ddof=1)
    adjusted = payoff - slope * control
    return adjusted.mean(), adjusted.std(ddof=1) / np.sqrt(len(adjusted))


def crank_nicolson_call(volatility, rate, strike=1.0, nodes=7, steps=4):
    """A European call on a grid of prices by Crank and Nicolson's scheme."""
    s = np.linspace(0, 3 * strike, nodes)
    ds, dt = s[1] - s[0], 1.0 / steps
    value = np.maximum(s - strike - 0.02, 0)
    inner = s[1:-1]
    diffusion = 0.5 * volatility**2 * inner**2 / ds**2
    drift = 0.5 * rate * inner / ds
    lower, upper = diffusion - drift, diffusion + drift
    middle = -2 * diffusion - rate
    n = nodes - 2
    L = np.diag(middle) + np.diag(lower[1:], -1) + np.diag(upper[:-1], 1)
    implicit, explicit = np.eye(n) - 0.5 * dt * L, np.eye(n) + 0.5 * dt * L
    for step in range(1, steps + 1):
        top = s[-1] - strike * np.exp(-rate * step * dt)
        edge = np.where(np.arange(n) == n - 1, upper * top, 0.0)
        inside = np.linalg.solve(implicit, explicit @ value[1:-1] + dt * edge)
        value = np.concatenate([np.zeros(1), inside, np.stack([top])])
    return np.interp(1.1 * strike, s, value), np.gradient(value, ds)[2:-2]


def bootstrapped_curve(par_rates):
    """Discount factors, zero rates and forward rates from par swap rates of whole years."""
    discounts = []
    annuity = 0.0
    for rate in par_rates:
        factor = (1 - rate * annuity) / (1 + rate)
        discounts.append(factor)
        annuity = annuity + factor
    discount = np.stack(discounts)
    years = np.arange(1, len(discounts) + 1)
    zero = -np.log(discount) / years
    forward = -np.diff(np.log(np.concatenate([np.ones(1), discount])))
    between = np.interp(np.array([1.25, 2.5]), years, zero)
    coupons = np.where(years == years[-1], 1.04, 0.04)
    price = coupons @ discount
    duration = np.sum(years * coupons * discount) / price
    return forward, between, np.stack([price, duration])


def risk_parity(covariance, rounds=8):
    """Weights that carry equal parts of the risk, by damped fixed-point steps."""
    n = len(covariance)
    w = 1 / np.sqrt(np.diag(covariance))
    w = w / w.sum()
    for _ in range(rounds):
        marginal = covariance @ w
        target = np.sqrt(np.dot(w, marginal) / n)
        w = np.sqrt(w * target / marginal)
        w = w / w.sum()
    volatility = np.sqrt(w @ covariance @ w)
    contribution = w * (covariance @ w) / volatility
    diversification = np.dot(w, np.sqrt(np.diagonal(covariance))) / volatility
    concentration = np.sum(contribution**2) / contribution.sum() ** 2
    return w, diversification, concentration


def efficient_frontier(returns, targets):
    """Smallest volatility for some expected returns, with shrunk covariances."""
    mean = returns.mean(axis=0)
    sample = np.cov(returns, rowvar=False)
    n = mean.size
    shrunk = 0.8 * sample + 0.2 * np.trace(sample) / n * np.eye(n)
    inverse = np.linalg.inv(shrunk)
    ones = np.ones(n)
    a = ones @ inverse @ ones
    b = ones @ inverse @ mean
    c = mean @ inverse @ mean
    gap = a * c - b**2
    g = (c * (inverse @ ones) - b * (inverse @ mean)) / gap
    h = (a * (inverse @ mean) - b * (inverse @ ones)) / gap
    weights = g + np.multiply.outer(targets, h)
    variance = np.einsum("ti,ij,tj->t", weights, shrunk, weights)
    tangency = inverse @ (mean - 0.001)
    return np.sqrt(variance), tangency / np.abs(tangency).sum()


def credit_curve(spreads, recovery, rate=0.02):
    """Survival from credit spreads by bootstrapping hazards, and the legs of a swap."""
    years = np.arange(1, spreads.size + 1)
    discount = np.exp(-rate * years)
    survival = [np.ones_like(recovery)]
    loss = 1 - recovery
    for k, spread in enumerate(spreads):
        premium = sum(spread * discount[j] * survival[j + 1] for j in range(k))
        protection = sum(loss * discount[j] * (survival[j] - survival[j + 1]) for j in range(k))
        last = survival[-1]
        new = (loss * discount[k] * last + protection - premium) / (discount[k] * (spread + loss))
        survival.append(new)
    curve = np.stack(survival)
    hazard = -np.diff(np.log(curve))
    expected_loss = np.sum(loss * discount * -np.diff(curve))
    annuity = np.sum(discount * 0.5 * (curve[1:] + curve[:-1]))
    return curve[1:], hazard, expected_loss / annuity


def garch_likelihood(returns, parameters):
    """Log likelihood of a GARCH(1, 1), its last variance, and value at risk ten days ahead."""
    omega, alpha, beta = np.exp(parameters[0]), parameters[1], parameters[2]
    variance = np.var(returns)
    log_likelihood = 0.0
    path = []
    for r in returns:
        log_likelihood = log_likelihood - 0.5 * (np.log(2 * np.pi * variance) + r**2 / variance)
        path.append(variance)
        variance = omega + alpha * r**2 + beta * variance
    persistence = alpha + beta
    long_run = omega / (1 - persistence)
    days = np.arange(10)
    ahead = long_run + persistence**days * (variance - long_run)
    standardized = returns / np.sqrt(np.stack(path))
    quantile = np.quantile(standardized, 0.15)
    return log_likelihood, quantile * np.sqrt(ahead.sum()), np.mean(standardized**4)


def heston_paths(parameters, paths=3, steps=5):
    """Prices and variances under stochastic volatility with fixed draws, and two payoffs."""
    v0, kappa, theta, xi, rho = parameters
    rng = np.random.default_rng(11)
    z = rng.normal(size=(2, steps, paths))
    dt = 0.1
    log_price = np.zeros(paths)
    v = v0 * np.ones(paths)
    realized = 0.0
    for k in range(steps):
        z_price = z[0, k]
        z_variance = rho * z[0, k] + np.sqrt(1 - rho**2) * z[1, k]
        root = np.sqrt(np.maximum(v, 1e-4) * dt)
        log_price = log_price - 0.5 * v * dt + root * z_price
        v = v + kappa * (theta - v) * dt + xi * root * z_variance
        realized = realized + v * dt
    price = np.exp(log_price)
    call = np.mean(np.maximum(price - 0.9, 0))
    corridor = np.mean(np.where((price > 0.7) & (price < 1.4), realized, 0.0))
    return price, np.stack([call, corridor])


def longstaff_schwartz(spot, volatility, strike=1.0, rate=0.05):
    """An early-exercise put by regression on fixed paths, backwards in time."""
    rng = np.random.default_rng(5)
    draws = rng.normal(size=(8, 3))
    dt = 1 / 3
    steps = (rate - 0.5 * volatility**2) * dt + volatility * np.sqrt(dt) * draws
    paths = spot * np.exp(np.add.accumulate(steps, axis=1))
    cash = np.maximum(strike - paths[:, -1], 0)
    for k in (1, 0):
        cash = cash * np.exp(-rate * dt)
        s = paths[:, k]
        A = np.stack([np.ones_like(s), s, s**2], axis=1)
        gram = A.T @ A + 1e-3 * np.eye(3)
        expected = A @ np.linalg.solve(gram, A.T @ cash)
        now = np.maximum(strike - s, 0)
        cash = np.where((now > expected) & (now > 0), now, cash)
    value = np.exp(-rate * dt) * cash
    return np.maximum(value.mean(), strike - spot), value.std()


_rng = np.random.default_rng(25)
_returns = 0.02 * _rng.normal(size=(8, 3)) + np.array([0.01, 0.005, 0.002])

PROGRAMS = [
    (asian_option, (np.array(1.0), np.array(0.95), np.array(0.03), np.array(0.25))),
    (crank_nicolson_call, (np.array(0.3), np.array(0.04))),
    (bootstrapped_curve, (np.array([0.02, 0.024, 0.027, 0.029]),)),
    (risk_parity, (np.array([[0.04, 0.01, 0.0], [0.01, 0.09, 0.02], [0.0, 0.02, 0.16]]),)),
    (efficient_frontier, (10 * _returns, np.array([0.05, 0.1]))),
    (credit_curve, (np.array([0.01, 0.014, 0.017]), np.array(0.4))),
    (garch_likelihood, (100 * _returns[:, 0], np.array([-1.0, 0.1, 0.8]))),
    (heston_paths, (np.array([0.3, 1.5, 0.2, 0.4, -0.6]),)),
    (longstaff_schwartz, (np.array(1.05), np.array(0.3))),
]
