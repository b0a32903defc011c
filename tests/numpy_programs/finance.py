"""Finance in plain NumPy: options, bonds, portfolios, returns, indicators."""

import numpy as np


def normal_cdf(x):
    """Standard normal distribution function, formula 26.2.17 of Abramowitz and Stegun."""
    t = 1 / (1 + 0.2316419 * np.abs(x))
    coefficients = [0.319381530, -0.356563782, 1.781477937, -1.821255978, 1.330274429]
    tail = np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
    tail = tail * sum(c * t ** (i + 1) for i, c in enumerate(coefficients))
    return np.where(x >= 0, 1 - tail, tail)


def black_scholes(spot, strikes, rate, volatility, years):
    """Prices of European calls and puts at several strikes."""
    spread = volatility * np.sqrt(years)
    d1 = (np.log(spot / strikes) + (rate + 0.5 * volatility**2) * years) / spread
    d2 = d1 - spread
    discounted = strikes * np.exp(-rate * years)
    call = spot * normal_cdf(d1) - discounted * normal_cdf(d2)
    put = discounted * normal_cdf(-d2) - spot * normal_cdf(-d1)
    return np.vstack((call, put))


def american_put(spot, strike, rate, volatility, years=1.0, steps=6):
    """Price of an American put in a binomial tree, backwards from expiry."""
    dt = years / steps
    up = np.exp(volatility * np.sqrt(dt))
    down = 1 / up
    p = (np.exp(rate * dt) - down) / (up - down)
    k = np.arange(steps + 1)
    value = np.maximum(strike - spot * up**k * down ** (steps - k), 0)
    for step in range(steps - 1, -1, -1):
        value = np.exp(-rate * dt) * (p * value[1:] + (1 - p) * value[:-1])
        k = np.arange(step + 1)
        exercise = strike - spot * up**k * down ** (step - k)
        value = np.maximum(value, exercise)
    return value[0]


def sharpe_and_drawdown(returns):
    """Yearly Sharpe ratio and the worst fall of wealth from its running maximum."""
    excess = returns - 0.0001
    sharpe = np.sqrt(252) * np.mean(excess) / np.std(excess, ddof=1)
    wealth = np.cumprod(1 + returns)
    peak = np.maximum.accumulate(wealth)
    drawdown = (wealth - peak) / peak
    return sharpe, drawdown.min()


def bond_duration(cash_flows, curve):
    """Present value, Macaulay duration and convexity of a bond under a curve of zero rates."""
    t = np.arange(1, len(cash_flows) + 1)
    discount = (1 + curve) ** -t
    present = cash_flows * discount
    price = present.sum()
    duration = np.average(t, weights=present)
    convexity = np.sum(present * t * (t + 1) / (1 + curve) ** 2) / price
    return price, duration, convexity


def minimum_variance_weights(returns):
    """Weights of the portfolio with the smallest variance, and its volatility."""
    covariance = np.cov(returns, rowvar=False)
    ones = np.ones(covariance.shape[0])
    raw = np.linalg.solve(covariance, ones)
    weights = raw / raw.sum()
    return weights, np.sqrt(np.einsum("i,ij,j->", weights, covariance, weights))


def relative_strength(prices, window=4):
    """Relative strength index from averages of gains and of losses."""
    change = np.diff(prices)
    gain = np.where(change > 0, change, 0)
    loss = np.where(change < 0, -change, 0)
    kernel = np.ones(window) / window
    strength = np.convolve(gain, kernel, mode="valid") / np.convolve(loss, kernel, mode="valid")
    return 100 - 100 / (1 + strength)


def smoothed_volatility(returns, decay=0.9):
    """Exponentially weighted volatility, one value a day."""
    variance = returns[0] ** 2
    path = [variance]
    for r in returns[1:]:
        variance = decay * variance + (1 - decay) * r**2
        path.append(variance)
    return np.sqrt(np.stack(path))


def internal_rate(cash_flows):
    """Rate at which the flows are worth nothing, by Newton's method until it settles."""
    t = np.arange(len(cash_flows))
    rate = 0.1 + 0 * cash_flows[0]
    for _ in range(50):
        value = np.sum(cash_flows * (1 + rate) ** -t)
        slope = np.sum(-t * cash_flows * (1 + rate) ** (-t - 1.0))
        step = value / slope
        rate = rate - step
        if abs(step) < 1e-9:
            break
    return rate


def income_tax(income, rates):
    """Tax by brackets, its rate, and what a flat share above an allowance would be."""
    a, b = 10.0, 40.0
    tax = np.select(
        [income <= a, income <= b],
        [0 * income, rates[0] * (income - a)],
        default=rates[0] * (b - a) + rates[1] * (income - b),
    )
    flat = np.piecewise(income, [income < a, income >= a], [0.0, lambda t: 0.2 * (t - a)])
    return tax, np.divide(tax, income), flat


def sector_exposure(positions, sectors, factors):
    """Weight of each sector, its part of the risk, and scenarios of a shock to all factors."""
    weights = positions / np.sum(np.abs(positions))
    exposure = np.bincount(sectors, weights=weights, minlength=3)
    scenario = np.linspace(0.5 * factors[0], factors[0], 4)
    losses = np.multiply.outer(scenario, exposure)
    return exposure, np.percentile(losses.sum(axis=1), 5), np.add.reduce(losses, axis=0)


_rng = np.random.default_rng(2)
_prices = 100 + np.cumsum([1.0, -2.0, 1.5, -0.8, 2.2, -1.7, 0.9, -1.1, 1.3, 2.0, -0.6, 0.7])

PROGRAMS = [
    (normal_cdf, (np.array([-1.5, -0.3, 0.4, 2.0]),)),
    (
        black_scholes,
        (np.array(100.0), np.array([90.0, 101.0, 110.0]), np.array(0.03), np.array(0.2), 0.75),
    ),
    (american_put, (np.array(96.0), np.array(100.0), np.array(0.05), np.array(0.3))),
    (sharpe_and_drawdown, (0.01 * _rng.normal(size=10),)),
    (bond_duration, (np.array([4.0, 4.0, 4.0, 104.0]), np.array([0.01, 0.02, 0.025, 0.03]))),
    (minimum_variance_weights, (0.3 * _rng.normal(size=(8, 3)),)),
    (relative_strength, (_prices,)),
    (smoothed_volatility, (_rng.normal(size=7),)),
    (internal_rate, (np.array([-100.0, 30.0, 40.0, 50.0]),)),
    (income_tax, (np.array([5.0, 23.0, 90.0]), np.array([0.2, 0.45]))),
    (
        sector_exposure,
        (np.array([3.0, -1.0, 2.0, 4.0]), np.array([0, 2, 2, 1]), np.array([0.3])),
    ),
]

# Python's control flow asks for values: nothing to compile or to batch.
DECIDES_BY_VALUE = {internal_rate: "`if abs(step) < 1e-9: break` needs the value of step"}
