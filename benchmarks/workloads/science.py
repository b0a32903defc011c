"""Inference and fitting: solvers, samplers, filters, second derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .registry import Size, normals, override, workload


def orbits(rng: np.random.Generator, size: Size) -> tuple[Any, ...]:
    """Mean anomalies and eccentricities of n orbits."""
    n = size["n"]
    return rng.uniform(0, 6, n).astype(np.float32), rng.uniform(0.1, 0.7, n).astype(np.float32)


@workload("newton_while", inputs=orbits, vary="n")
def newton_while(lib: Any, size: Size) -> Callable[..., Any]:
    """Kepler's equation, e sin E + M = E, by Newton's method until no orbit moves by 1e-4."""
    xp = lib.numpy

    def fun(mean: Any, eccentricity: Any) -> Any:
        def moves(state: Any) -> Any:
            _, change, count = state
            return (change > 1e-4) & (count < 50)

        def step(state: Any) -> Any:
            anomaly, _, count = state
            error = anomaly - eccentricity * xp.sin(anomaly) - mean
            change = error / (1 - eccentricity * xp.cos(anomaly))
            return anomaly - change, xp.max(xp.abs(change)), count + 1

        start = (mean + eccentricity * xp.sin(mean), xp.float32(1), xp.int32(0))
        return lib.lax.while_loop(moves, step, start)[0]

    return fun


def labelled_points(rng: np.random.Generator, size: Size) -> tuple[Any, ...]:
    """Weights to start from, points, and labels 0 or 1 that a plane decides."""
    points = normals(rng, (size["rows"], size["width"]))
    labels = (points @ normals(rng, (size["width"],)) > 0).astype(np.float32)
    return normals(rng, (size["width"],), scale=0.1), points, labels


def logistic_loss(lib: Any) -> Callable[..., Any]:
    xp = lib.numpy

    def loss(weights: Any, points: Any, labels: Any) -> Any:
        scores = points @ weights
        return xp.mean(xp.logaddexp(0, scores) - labels * scores) + 0.01 * xp.sum(weights**2)

    return loss


@workload("logistic_hessian", inputs=labelled_points, vary="rows")
def logistic_hessian(lib: Any, size: Size) -> Callable[..., Any]:
    return lib.hessian(logistic_loss(lib))


# Rounding grows along a trajectory. A proposal whose chance of acceptance is within rounding of the
# number drawn would be taken in one library and not in another; short chains make that rare.
@workload("hmc", inputs=labelled_points, vary="rows", tolerance=5e-3)
def hmc(lib: Any, size: Size) -> Callable[..., Any]:
    """Hamiltonian Monte Carlo of a logistic regression, ten leapfrog steps a sample."""
    xp, lax, random = lib.numpy, lib.lax, lib.random
    loss, count, step_size = logistic_loss(lib), size["samples"], 0.05

    def fun(start: Any, points: Any, labels: Any) -> Any:
        def energy(weights: Any) -> Any:
            return 100 * loss(weights, points, labels)

        force = lib.grad(energy)

        def leapfrog(_: Any, state: Any) -> Any:
            place, momentum = state
            momentum = momentum - step_size / 2 * force(place)
            place = place + step_size * momentum
            return place, momentum - step_size / 2 * force(place)

        def sample(place: Any, key: Any) -> Any:
            for_momentum, for_choice = random.split(key)
            momentum = random.normal(for_momentum, place.shape)
            there, moved = lax.fori_loop(0, 10, leapfrog, (place, momentum))
            gain = energy(place) - energy(there) + 0.5 * (xp.sum(momentum**2) - xp.sum(moved**2))
            taken = xp.log(random.uniform(for_choice)) < gain
            place = xp.where(taken, there, place)
            return place, place

        return lax.scan(sample, start, random.split(random.PRNGKey(0), count))[1]

    return fun


def observations(rng: np.random.Generator, size: Size) -> tuple[Any, ...]:
    """A transition and an observation matrix, and what was seen at each step."""
    d, m = size["state"], size["seen"]
    transition = 0.9 * np.linalg.qr(rng.standard_normal((d, d)))[0]
    return transition, rng.standard_normal((m, d)), rng.standard_normal((size["steps"], m))


def kalman_likelihood(lib: Any) -> Callable[..., Any]:
    """The log likelihood of what was seen, and the last estimate, with noise 0.1 and 0.5."""
    xp = lib.numpy

    def fun(transition: Any, look: Any, seen: Any) -> Any:
        d, m = transition.shape[0], look.shape[0]

        def step(state: Any, y: Any) -> Any:
            mean, spread = state
            mean = transition @ mean
            spread = transition @ spread @ transition.T + 0.1 * xp.eye(d)
            surprise = y - look @ mean
            expected = look @ spread @ look.T + 0.5 * xp.eye(m)
            gain = xp.linalg.solve(expected, look @ spread).T
            likelihood = surprise @ xp.linalg.solve(expected, surprise)
            likelihood = -0.5 * (likelihood + xp.linalg.slogdet(expected)[1])
            return (mean + gain @ surprise, spread - gain @ look @ spread), likelihood

        (mean, _), likelihoods = lib.lax.scan(step, (xp.zeros(d), xp.eye(d)), seen)
        return xp.sum(likelihoods), mean

    return fun


@workload("kalman", inputs=observations, x64=True, vary="steps")
def kalman(lib: Any, size: Size) -> Callable[..., Any]:
    return kalman_likelihood(lib)


@workload("kalman_grad", inputs=observations, x64=True, vary="steps")
def kalman_grad(lib: Any, size: Size) -> Callable[..., Any]:
    fun = kalman_likelihood(lib)
    return lib.grad(lambda *problem: fun(*problem)[0], argnums=(0, 1))


def regression(rng: np.random.Generator, size: Size) -> tuple[Any, ...]:
    """Logarithms of a length, a height and a noise; places in time; values there."""
    x = np.sort(rng.uniform(0, 10, size["n"]))
    return np.array([0.0, 0.0, -1.0]), x, np.sin(x) + 0.3 * rng.standard_normal(size["n"])


# Rounding grows by the condition number of the covariance, about 10^3 at the largest size.
@workload("gp_likelihood_grad", inputs=regression, x64=True, vary="n", tolerance=1e-7)
def gp_likelihood_grad(lib: Any, size: Size) -> Callable[..., Any]:
    xp = lib.numpy

    def likelihood(parameters: Any, x: Any, y: Any) -> Any:
        length, height, noise = xp.exp(parameters)
        apart = (x[:, None] - x[None, :]) / length
        covariance = height * xp.exp(-0.5 * apart * apart) + noise * xp.eye(x.shape[0])
        factor = xp.linalg.cholesky(covariance)
        weighted = lib.scipy.linalg.solve_triangular(factor, y, lower=True)
        return -0.5 * weighted @ weighted - xp.sum(xp.log(xp.diag(factor)))

    return lib.value_and_grad(likelihood)


def systems(rng: np.random.Generator, size: Size) -> tuple[Any, ...]:
    """Small systems of linear equations with large diagonals, so that none is near singular."""
    batch, n = size["batch"], size["n"]
    matrices = rng.uniform(-1 / n, 1 / n, (batch, n, n)).astype(np.float32)
    return matrices + 1.25 * np.eye(n, dtype=np.float32), normals(rng, (batch, n, 1))


@workload("batched_solve", inputs=systems, also=("numpy", "torch"), vary="batch")
def batched_solve(lib: Any, size: Size) -> Callable[..., Any]:
    linalg = (lib.numpy if hasattr(lib, "numpy") else lib).linalg
    return lambda a, b: linalg.solve(a, b)


@workload("batched_solve_grad", inputs=systems, vary="batch")
def batched_solve_grad(lib: Any, size: Size) -> Callable[..., Any]:
    xp = lib.numpy
    return lib.grad(lambda a, b: xp.sum(xp.tanh(xp.linalg.solve(a, b))), argnums=(0, 1))


def network(rng: np.random.Generator, size: Size) -> tuple[Any, ...]:
    inputs, hidden, outputs = size["inputs"], size["hidden"], size["outputs"]
    return (
        normals(rng, (inputs,)),
        normals(rng, (inputs, hidden), scale=inputs**-0.5),
        normals(rng, (hidden, hidden), scale=hidden**-0.5),
        normals(rng, (hidden, outputs), scale=hidden**-0.5),
    )


@workload("mlp_jacrev", inputs=network)
def mlp_jacrev(lib: Any, size: Size) -> Callable[..., Any]:
    xp = lib.numpy
    return lib.jacrev(lambda x, w1, w2, w3: xp.tanh(xp.tanh(x @ w1) @ w2) @ w3)


@override("torch", "mlp_jacrev")
def mlp_jacrev_torch(torch: Any, size: Size) -> Callable[..., Any]:
    return torch.func.jacrev(lambda x, w1, w2, w3: torch.tanh(torch.tanh(x @ w1) @ w2) @ w3)


def clusters(rng: np.random.Generator, size: Size) -> tuple[Any, ...]:
    """Points far from all centres but their own, and guesses of the centres."""
    centres = 10 * normals(rng, (size["centres"], size["width"]))
    owners = rng.integers(0, size["centres"], size["rows"])
    points = centres[owners] + normals(rng, (size["rows"], size["width"]))
    return points, centres + normals(rng, centres.shape, scale=0.5)


def nearest(xp: Any, points: Any, centres: Any) -> Any:
    squares = xp.sum(centres * centres, axis=1) - 2 * points @ centres.T
    return xp.argmin(squares, axis=1)


@workload("kmeans", inputs=clusters, vary="rows")
def kmeans(lib: Any, size: Size) -> Callable[..., Any]:
    xp = lib.numpy

    def step(points: Any, centres: Any) -> Any:
        owners = nearest(xp, points, centres)
        sums = xp.zeros_like(centres).at[owners].add(points)
        counts = xp.zeros(centres.shape[0], "float32").at[owners].add(1)
        return sums / xp.maximum(counts, 1)[:, None]

    return step


@override("numpy", "kmeans")
def kmeans_numpy(lib: Any, size: Size) -> Callable[..., Any]:
    def step(points: Any, centres: Any) -> Any:
        owners = nearest(np, points, centres)
        sums = np.zeros_like(centres)
        np.add.at(sums, owners, points)
        counts = np.bincount(owners, minlength=len(centres)).astype(np.float32)
        return sums / np.maximum(counts, 1)[:, None]

    return step
