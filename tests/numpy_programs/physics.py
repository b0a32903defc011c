"""Physics in plain NumPy: particles, fields, waves, spectra, orbits."""

import numpy as np


def n_body_energy(position, velocity, mass, steps=3, dt=0.05):
    """Energy of gravitating bodies after some leapfrog steps."""

    def acceleration(x):
        separation = x[None, :, :] - x[:, None, :]
        distance2 = np.sum(separation**2, axis=-1) + 0.01
        return np.einsum("ijk,ij,j->ik", separation, distance2**-1.5, mass)

    for _ in range(steps):
        velocity = velocity + 0.5 * dt * acceleration(position)
        position = position + dt * velocity
        velocity = velocity + 0.5 * dt * acceleration(position)
    kinetic = 0.5 * np.sum(mass[:, None] * velocity**2)
    i, j = np.triu_indices(len(mass), k=1)
    gap = np.sqrt(np.sum((position[i] - position[j]) ** 2, axis=1) + 0.01)
    return kinetic - np.sum(mass[i] * mass[j] / gap)


def heat_rod(temperature, conductivity, steps=6):
    """Temperature of a rod with cold ends after explicit steps."""
    for _ in range(steps):
        padded = np.pad(temperature, 1)
        laplacian = padded[2:] - 2 * padded[1:-1] + padded[:-2]
        temperature = temperature + conductivity * laplacian
    return temperature


def pendulum(state, length):
    """Angle and speed of a pendulum after ten Runge-Kutta steps."""

    def slope(s):
        return np.stack([s[1], -9.81 / length * np.sin(s[0])])

    h = 0.05
    for _ in range(10):
        k1 = slope(state)
        k2 = slope(state + h / 2 * k1)
        k3 = slope(state + h / 2 * k2)
        k4 = slope(state + h * k3)
        state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return state


def xy_model_energy(angles, field):
    """Energy and magnetization of planar spins on a periodic lattice."""
    energy = 0
    for axis in (0, 1):
        energy -= np.cos(angles - np.roll(angles, 1, axis=axis)).sum()
    magnetization = np.exp(1j * angles).mean()
    return energy - field * np.cos(angles).sum(), np.abs(magnetization)


def planck_total(temperature):
    """Power of a black body over a band of frequencies, by the trapezoidal rule."""
    x = np.linspace(0.1, 10, 40)
    spectrum = x**3 / np.expm1(x / temperature)
    return np.trapezoid(spectrum, x)


def kepler_orbit(mean_anomaly, eccentricity, iterations=8):
    """Positions on an orbit from mean anomalies, Kepler's equation by Newton's method."""
    E = mean_anomaly
    for _ in range(iterations):
        E = E - (E - eccentricity * np.sin(E) - mean_anomaly) / (1 - eccentricity * np.cos(E))
    x = np.cos(E) - eccentricity
    y = np.sqrt(1 - eccentricity**2) * np.sin(E)
    return np.column_stack((x, y)), np.arctan2(y, x)


def wave_membrane(u, speed, steps=3):
    """A membrane with fixed edges, from rest, and its largest deflection."""
    previous = u
    for _ in range(steps):
        inner = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
        force = np.pad(speed**2 * inner, ((1, 1), (1, 1)))
        u, previous = 2 * u - previous + force, u
    return u, np.abs(u).max()


def schroedinger_levels(potential):
    """Lowest levels of a particle in a potential on a grid."""
    n = potential.size
    kinetic = np.eye(n) - 0.5 * np.eye(n, k=1) - 0.5 * np.eye(n, k=-1)
    hamiltonian = kinetic + np.diag(potential)
    return np.linalg.eigvalsh(hamiltonian)[:3]


def lennard_jones(positions, cutoff=2.0):
    """Pair energy in a periodic box, pairs beyond the cutoff left out."""
    box = 3.0
    delta = positions[:, None] - positions[None]
    delta = delta - box * np.round(delta / box)
    r2 = np.square(delta).sum(-1) + np.eye(len(positions))
    inverse6 = 1 / r2**3
    pair = np.where(
        (r2 < cutoff**2) & ~np.eye(len(positions), dtype=bool), inverse6**2 - inverse6, 0
    )
    return 2 * np.sum(np.triu(pair))


def heat_plate(plate, hot, cold, steps=4):
    """Temperature of a plate between a hot and a cold edge, and the flow into it."""
    for _ in range(steps):
        sides = np.pad(plate, ((0, 0), (1, 1)), constant_values=(hot, cold))
        ends = np.pad(plate, ((1, 1), (0, 0)), mode="edge")
        neighbours = sides[:, 2:] + sides[:, :-2] + ends[2:] + ends[:-2]
        plate = 0.2 * plate + 0.2 * neighbours
    slope_y, slope_x = np.gradient(plate, 0.5)
    return plate, np.hypot(slope_x, slope_y)


def tight_binding_chain(hopping, onsite):
    """Levels of a chain of two kinds of atoms over the Brillouin zone, from a complex matrix."""
    k = np.linspace(-np.pi, np.pi, 4)
    phase = 1 + np.exp(-1j * k)
    zeros = np.zeros_like(phase)
    blocks = np.stack(
        [
            np.stack([zeros + onsite, hopping * phase], axis=-1),
            np.stack([hopping * phase.conj(), zeros - onsite], axis=-1),
        ],
        axis=-2,
    )
    return np.linalg.eigvalsh(blocks)


_rng = np.random.default_rng(6)

PROGRAMS = [
    (
        n_body_energy,
        (_rng.normal(size=(3, 2)), _rng.normal(size=(3, 2)), np.array([1.0, 0.5, 2.0])),
    ),
    (heat_rod, (np.array([0.0, 1.0, 4.0, 2.0, 0.5]), np.array(0.2))),
    (pendulum, (np.array([0.8, 0.1]), np.array(1.2))),
    (xy_model_energy, (_rng.uniform(0, 6, size=(3, 3)), np.array(0.4))),
    (planck_total, (np.array(1.3),)),
    (kepler_orbit, (np.array([0.3, 1.2, 2.5]), np.array(0.3))),
    (wave_membrane, (np.pad(_rng.normal(size=(2, 3)), 1), np.array(0.5))),
    (schroedinger_levels, (np.linspace(-1, 1.1, 6) ** 2,)),
    (lennard_jones, (np.array([[0.1, 0.2], [1.3, 0.4], [2.4, 0.3], [1.0, 1.6]]),)),
    (heat_plate, (_rng.uniform(size=(2, 3)), np.array(2.0), np.array(-1.0))),
    (tight_binding_chain, (np.array(0.7), np.array(0.4))),
]
