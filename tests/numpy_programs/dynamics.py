"""Simulations in plain NumPy: mechanics, fields, lattices, epidemics, chemistry, circuits."""

import numpy as np


def double_pendulum(angles, lengths, steps=4, h=0.02):
    """Angles of a double pendulum by Runge and Kutta's scheme, and the drift of its energy."""
    l1, l2 = lengths
    g = 9.81

    def rate(state):
        t1, t2, w1, w2 = state
        d = t1 - t2
        den = 2 - np.cos(d) ** 2
        a1 = -(w1**2) * l1 * np.sin(d) * np.cos(d) - w2**2 * l2 * np.sin(d)
        a1 = (a1 - 2 * g * np.sin(t1) + g * np.sin(t2) * np.cos(d)) / (l1 * den)
        a2 = w2**2 * l2 * np.sin(d) * np.cos(d) + 2 * w1**2 * l1 * np.sin(d)
        a2 = (a2 + 2 * g * np.sin(t1) * np.cos(d) - 2 * g * np.sin(t2)) / (l2 * den)
        return np.stack([w1, w2, a1, a2])

    def energy(state):
        t1, t2, w1, w2 = state
        kinetic = l1**2 * w1**2 + 0.5 * l2**2 * w2**2 + l1 * l2 * w1 * w2 * np.cos(t1 - t2)
        return kinetic - 2 * g * l1 * np.cos(t1) - g * l2 * np.cos(t2)

    state = np.concatenate([angles, np.zeros(2)])
    start = energy(state)
    for _ in range(steps):
        k1 = rate(state)
        k2 = rate(state + 0.5 * h * k1)
        k3 = rate(state + 0.5 * h * k2)
        k4 = rate(state + h * k3)
        state = state + h * (k1 + 2 * k2 + 2 * k3 + k4) / 6
    return state, energy(state) - start


def solar_system(position, velocity, mass, steps=4, dt=0.1):
    """Bodies under gravity by velocity Verlet, with angular momentum and the potential."""
    n = len(mass)
    off = ~np.eye(n, dtype=bool)

    def acceleration(x):
        r = x[None] - x[:, None]
        d2 = np.sum(r * r, axis=-1) + np.where(off, 0.0, 1.0)
        strength = np.where(off, mass[None, :] / d2**1.5, 0.0)
        return np.sum(strength[..., None] * r, axis=1)

    a = acceleration(position)
    track = [position]
    for _ in range(steps):
        position = position + velocity * dt + 0.5 * a * dt**2
        new = acceleration(position)
        velocity = velocity + 0.5 * (a + new) * dt
        a = new
        track.append(position)
    momentum = np.sum(mass[:, None] * np.cross(position, velocity), axis=0)
    path = np.diff(np.stack(track), axis=0)
    travelled = np.linalg.norm(path, axis=-1).sum(axis=0)
    return position, momentum, travelled


def heat_equation_implicit(u, conductivity, steps=4, dt=0.1):
    """Heat in a rod by implicit steps with the Thomas algorithm, insulated at one end."""
    n = u.size
    r = conductivity * dt
    lower = np.concatenate([np.zeros(1), np.full(n - 1, -1.0)]) * r
    upper = np.concatenate([np.full(n - 1, -1.0), np.zeros(1)]) * r
    diagonal = 1 + r * np.concatenate([np.full(n - 1, 2.0), np.ones(1)])
    for _ in range(steps):
        c, d = [upper[0] / diagonal[0]], [u[0] / diagonal[0]]
        for i in range(1, n):
            pivot = diagonal[i] - lower[i] * c[-1]
            c.append(upper[i] / pivot)
            d.append((u[i] - lower[i] * d[-1]) / pivot)
        x = [d[-1]]
        for i in range(n - 2, -1, -1):
            x.append(d[i] - c[i] * x[-1])
        u = np.stack(x[::-1])
    return u, u.sum() + np.max(u)


def ising_mean_energy(coupling, field, size=3):
    """Free energy, energy and correlations of Ising spins on a ring of all 2**size states."""
    states = np.arange(2**size)
    bits = (states[:, None] >> np.arange(size)) & 1
    spins = 2.0 * bits - 1
    bonds = np.sum(spins * np.roll(spins, -1, axis=1), axis=1)
    energy = -coupling * bonds - field * spins.sum(axis=1)
    lowest = energy.min()
    weight = np.exp(-(energy - lowest))
    Z = weight.sum()
    p = weight / Z
    free = lowest - np.log(Z)
    mean = np.dot(p, energy)
    heat = np.dot(p, energy**2) - mean**2
    correlations = np.einsum("s,si,sj->ij", p, spins, spins)
    T = np.exp(coupling * np.array([[1, -1], [-1, 1]]) + field * np.array([[1, 0], [0, -1]]))
    transfer = -np.log(np.trace(np.linalg.matrix_power(T, size)))
    return free - transfer + mean, heat, correlations


def wave_string(shape, tension, steps=6):
    """A plucked string with a damped end: its shape after a while and its energy in modes."""
    n = len(shape)
    c2 = tension * 0.2
    now, before = shape, shape
    damping = np.where(np.arange(n) < n - 2, 1.0, 0.9)
    for _ in range(steps):
        left = np.concatenate([np.zeros(1), now[:-1]])
        right = np.concatenate([now[1:], np.zeros(1)])
        ahead = 2 * now - before + c2 * (left - 2 * now + right)
        before, now = now, damping * ahead
    k = np.arange(1, n + 1)
    modes = np.sin(np.pi * np.outer(k, k) / (n + 1)) * np.sqrt(2 / (n + 1))
    amplitude = modes @ now
    speed = modes @ (now - before)
    frequency2 = 4 * c2 * np.sin(np.pi * k / (2 * (n + 1))) ** 2
    return now, 0.5 * speed**2 + 0.5 * frequency2 * amplitude**2


def action_of_path(path, mass, stiffness, dt=0.2):
    """Action of a particle by its Lagrangian, its equation's residual, and a relaxed path."""

    def lagrangian_parts(q):
        v = np.diff(q) / dt
        middle = 0.5 * (q[1:] + q[:-1])
        kinetic = 0.5 * mass * v**2
        potential = 0.5 * stiffness * middle**2 + 0.1 * middle**4
        return kinetic, potential

    def residual(q):
        acceleration = (q[2:] - 2 * q[1:-1] + q[:-2]) / dt**2
        force = -stiffness * q[1:-1] - 0.4 * q[1:-1] ** 3
        return mass * acceleration - force

    kinetic, potential = lagrangian_parts(path)
    action = np.sum(kinetic - potential) * dt
    relaxed = path
    for _ in range(3):
        change = 0.4 * dt**2 / mass * residual(relaxed)
        relaxed = np.concatenate([relaxed[:1], relaxed[1:-1] + change, relaxed[-1:]])
    return action, relaxed, np.abs(residual(relaxed)).max()


def epidemic(rates, contacts, steps=6, dt=0.5):
    """An epidemic in age groups (SEIR): its peak, its size, and the reproduction number."""
    beta, sigma, gamma = rates
    n = len(contacts)
    susceptible = np.full(n, 0.99)
    exposed = np.zeros(n)
    infected = 1 - susceptible
    removed = np.zeros(n)
    curve = []
    for _ in range(steps):
        pressure = beta * contacts @ infected / n
        new = susceptible * (1 - np.exp(-pressure * dt))
        onset = exposed * (1 - np.exp(-sigma * dt))
        cured = infected * (1 - np.exp(-gamma * dt))
        susceptible = susceptible - new
        exposed = exposed + new - onset
        infected = infected + onset - cured
        removed = removed + cured
        curve.append(infected.mean())
    symmetric = 0.5 * (contacts + contacts.T)
    reproduction = beta / gamma * np.linalg.eigvalsh(symmetric)[-1] / n
    return np.stack(curve), removed + exposed, reproduction


def reaction_diffusion(a, b, feed, kill, steps=4):
    """Gray and Scott's two chemicals on a periodic grid."""

    def laplacian(u):
        sides = sum(np.roll(u, shift, axis) for shift in (1, -1) for axis in (0, 1))
        corners = sum(np.roll(np.roll(u, i, axis=0), j, axis=1) for i in (1, -1) for j in (1, -1))
        return 0.2 * sides + 0.05 * corners - u

    for _ in range(steps):
        reaction = a * b**2
        a = a + 0.8 * laplacian(a) - reaction + feed * (1 - a)
        b = b + 0.4 * laplacian(b) + reaction - (kill + feed) * b
    spectrum = np.abs(np.fft.fft2(b - b.mean())) ** 2
    k = np.fft.fftfreq(len(b))
    radius = np.hypot(*np.meshgrid(k, k))
    return a, b.std(), np.sum(radius * spectrum) / np.sum(spectrum)


def rc_ladder(resistance, capacitance, frequencies):
    """Gain, phase and group delay of a ladder of resistors and capacitors."""
    w = 2 * np.pi * frequencies
    ones, zeros = np.ones_like(w) + 0j, np.zeros_like(w) + 0j
    total = np.broadcast_to(np.eye(2), (w.size, 2, 2))
    for r, c in zip(resistance, capacitance, strict=True):
        series = np.stack(
            [np.stack([ones, r * ones], axis=-1), np.stack([zeros, ones], axis=-1)], axis=-2
        )
        shunt = np.stack(
            [np.stack([ones, zeros], axis=-1), np.stack([1j * w * c, ones], axis=-1)], axis=-2
        )
        total = total @ series @ shunt
    transfer = 1 / total[:, 0, 0]
    gain = 20 * np.log10(np.abs(transfer))
    phase = np.unwrap(np.angle(transfer))
    return gain, np.degrees(phase), -np.diff(phase) / np.diff(w)


def lattice_boltzmann(density, viscosity, steps=3):
    """Flow on a periodic line with three speeds: density and momentum after some steps."""
    weights = np.array([2 / 3, 1 / 6, 1 / 6])
    speeds = np.array([0, 1, -1])
    tau = 0.5 + 3 * viscosity
    momentum = 0.1 * np.sin(np.arange(density.size))

    def equilibrium(rho, u):
        cu = speeds[:, None] * u
        return weights[:, None] * rho * (1 + 3 * cu + 4.5 * cu**2 - 1.5 * u**2)

    f = equilibrium(density, momentum / density)
    for _ in range(steps):
        rho = f.sum(axis=0)
        u = np.tensordot(speeds, f, axes=(0, 0)) / rho
        f = f - (f - equilibrium(rho, u)) / tau
        f = np.stack([np.roll(row, int(c)) for row, c in zip(f, speeds, strict=True)])
    rho = np.add.reduce(f)
    entropy = -np.sum(f * np.log(f / weights[:, None]))
    return rho, speeds @ f, entropy


_rng = np.random.default_rng(26)

PROGRAMS = [
    (double_pendulum, (np.array([0.9, 1.4]), np.array([1.0, 0.7]))),
    (
        solar_system,
        (_rng.normal(size=(3, 3)), 0.5 * _rng.normal(size=(3, 3)), np.array([3.0, 0.5, 0.2])),
    ),
    (heat_equation_implicit, (np.array([0.3, 1.0, 4.0, 2.0, 0.5]), np.array(1.7))),
    (ising_mean_energy, (np.array(0.4), np.array(0.15))),
    (wave_string, (np.array([0.2, 0.6, 1.0, 0.7, 0.3]), np.array(1.3))),
    (action_of_path, (np.array([0.0, 0.4, 0.3, 0.8, 1.0]), np.array(1.1), np.array(0.6))),
    (
        epidemic,
        (np.array([1.5, 0.5, 0.3]), np.array([[2.0, 0.5, 0.3], [0.4, 1.5, 0.6], [0.2, 0.7, 1.0]])),
    ),
    (
        reaction_diffusion,
        (
            _rng.uniform(0.5, 1, size=(3, 3)),
            _rng.uniform(0.1, 0.5, size=(3, 3)),
            np.array(0.05),
            np.array(0.06),
        ),
    ),
    (
        rc_ladder,
        (np.array([1.0, 0.7]), np.array([0.2, 0.5]), np.array([0.1, 0.4, 0.9])),
    ),
    (lattice_boltzmann, (np.array([1.0, 1.3, 0.9, 1.1]), np.array(0.1))),
]
